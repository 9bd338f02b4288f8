/* transposed_sums.h - a transposed convolution as GEMMs and sums (col2im): the products of each input pixel with the
 * weights of each tap, and for each output pixel the sum of the products that fall on it.
 *
 *     wide       channels-last: one GEMM for each tap and group, and sums of vectors of channels
 *     thin       a few output channels: one GEMM for all taps, and sums along rows of the image
 *     weighted   groups of one channel: no GEMM; products are computed during the sum
 *
 * A unit of work computes some output positions along one axis, of some channels of one image. Its products stay in the
 * second-level cache, so their memory does not grow with the batch or the image. */
#ifndef CPU_TRANSPOSED_SUMS_H
#define CPU_TRANSPOSED_SUMS_H
#include "cpu/convolution/transposed.h"
#include "cpu/matrix/sgemm.h"

enum { SUMS_AXES = 3, SUMS_MAX_TERMS = 64, SUMS_WAKE_NS = 10000 };

/* Along one axis: the input positions and taps that contribute to output position o are terms [first[o], first[o +
 * 1]). Along the axis that units divide, input positions count from the first one that the unit multiplies. */
typedef struct axis_terms {
    int64_t *first; /* [out + 1] */
    int32_t *in, *tap;
    int64_t size, out, kernel, max_terms; /* size of the input and the output; largest number of terms of a position */
    int64_t stride, dilation, begin;
} axis_terms;

struct sums {
    cpu_native native;
    axis_terms axes[SUMS_AXES];                     /* unused axes of size 1 come first */
    int64_t batch, channels, groups, in, out, taps; /* in, out: channels of a group */
    int64_t places, inner;                          /* pixels of an input image; pixels at one position of the axis */
    uint32_t axis;                                  /* the axis that units divide: the first one in use */
    struct {
        int64_t positions, span, channels;    /* output positions, input positions, channels */
        int64_t blocks, parts, outer, chunks; /* number of units: along the axis; see unit_of() */
    } unit;
    int64_t product_floats;
    uint32_t workers, scratch; /* scratch: number of the argument */
    double ns;                 /* expected time on one thread */
    bool thin, biased, weighted;
    transposed_epilogue epilogue;
    const struct sgemm_kernel *kernel;
};

static inline int64_t sums_parts(int64_t count, int64_t each)
{
    return count > 0 ? (count - 1) / each + 1 : 0;
}

/* Bytes of the terms of an axis: at most one term for each tap of each position. */
uint64_t sums_terms_bytes(const axis_terms *axis);
/* Fills the terms of an axis; positions: output positions of a unit if units divide this axis, otherwise 0. Returns the
 * end of their memory. */
char *sums_fill_terms(axis_terms *axis, int64_t positions, bool thin, char *memory);
/* cpu_native.run of struct sums. Arguments: the input, the output, the weights, the bias if there is one, and memory
 * for the products except for `weighted`. */
inlay_status sums_run(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                      uint32_t threads);
#endif
