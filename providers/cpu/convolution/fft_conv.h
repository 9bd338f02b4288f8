/* fft_conv.h - a convolution by the fast Fourier transform, as planned (lower_fft.c) and run (fft_conv.c). */
#ifndef CPU_FFT_CONV_H
#define CPU_FFT_CONV_H
#include "cpu/convolution/fft_blocks.h"
#include "cpu/convolution/planes.h"
#include "cpu/convolution/tiles.h"

enum { FFT_X, FFT_W, FFT_Y, FFT_BIAS };
enum { FFT_SPARE = 2 * PLANES_LANES }; /* floats at the end of a row of a copy: the direct sums read full vectors */

typedef struct fft_conv {
    cpu_native native;
    const fft_set *set;
    const plane_set *planes;
    kernel_conv_shape window; /* in and out: channels of a group */
    fft_cut cut;
    int64_t cell[2]; /* rows and columns of a cell of the guard */
    const winograd_accuracy *accuracy;
    bool fast; /* precision fast: only the range of the pixels is tested */
    bool biased, clamp;
    float low, high;
    int64_t block_floats, work_floats, worker_floats, slice_floats;
    uint32_t workers, scratch; /* scratch: number of the argument */
    fft_block block;
    float twist[];
} fft_conv;

inlay_status fft_conv_run(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                          uint32_t threads);
#endif
