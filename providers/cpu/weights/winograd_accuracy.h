/* winograd_accuracy.h - the error of Winograd's algorithm with the weights of a layer. It is measured
 * (tiles_error.c), stored with the packed weights (weights.c), and checked before a Winograd kernel is chosen
 * (kernels.c). */
#ifndef CPU_WINOGRAD_ACCURACY_H
#define CPU_WINOGRAD_ACCURACY_H
#include "cpu/region/build.h"

/* The measured error, and the parameters of the guard that each run applies (tiles_error.c). This memory layout is also
 * stored in the cache between sessions. */
enum { TILE_MEASURED, TILE_NO_NUMBERS, TILE_INTEGERS, TILE_EXTREME };
typedef struct winograd_accuracy {
    uint32_t verdict;   /* the other members are valid only if this is TILE_MEASURED */
    float top;          /* the largest weight */
    double error;       /* the largest error in all test images, relative to the largest result of the image */
    double times_plain; /* the largest ratio of that error to the error of a direct sum */
    double uneven;      /* highest allowed ratio of a pixel to the sum of the pixels around a result; 0: none allowed */
    float weight[];     /* [in] weight of each channel of a pixel in that ratio, in (0, 1] */
} winograd_accuracy;
enum { FFT_POINTS = 8 }; /* instead of the points of Winograd's algorithm: convolution by FFT (fft_error.c) */
#define TILE_MOST_ERROR 1e-5
#define TILE_MOST_TIMES 16.0
#define TILE_LEAST_TERMS 6.0 /* minimum effective number of terms of a result: (sum of magnitudes)^2 / sum of squares */
#define TILE_FAST_ERROR 1e-4 /* for precision `fast`, which runs without the guard */
uint64_t winograd_accuracy_bytes(int64_t in);
/* Measures the error for weights [out, in, 3, 3] of layout `plain`; out: winograd_accuracy_bytes(in) bytes. false: out
 * of memory. */
typedef bool winograd_measure(const cpu_state *state, const tensor_layout *plain, const void *source, int64_t points,
                              winograd_accuracy *out);
/* The accuracy of Winograd's convolution with `points` points (4, 6, FFT_POINTS) and these weights. It is measured once
 * and stored with the packs. *out_trust lives as long as the constant. Under compiled->lock (weights.c). */
inlay_status cpu_constant_accuracy(inlay_compiled *compiled, cpu_constant *constant, const tensor_layout *plain,
                                   int64_t points, winograd_measure *measure, const winograd_accuracy **out_trust,
                                   inlay_diag *diag);
bool winograd_is_accurate(const cpu_state *state, const winograd_accuracy *accuracy);
/* Writes the reason why Winograd kernels are too inaccurate for the weights, as the end of a sentence. */
void winograd_explain_inaccuracy(const cpu_state *state, const winograd_accuracy *accuracy, char *text, size_t bytes);
#endif
