/* unfold.h - kernels that dequantize weights of 4 and 8 bits: a range of them into the cache, or within a GEMM of a few
 * rows.
 *
 * Codes are in groups of UNFOLD_LANES, which share a vector of scales and one of zero points. A weight is
 * (code - zero) * scale, rounded after each operation, as DequantizeLinear does. Codes of 8 bits are signed. A code of
 * 4 bits has the value `least` + code; two groups share their bytes: the first has the low nibbles. */
#ifndef CPU_UNFOLD_H
#define CPU_UNFOLD_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    UNFOLD_LANES = 16,
    UNFOLD_BLOCKS = 4 /* most groups of a row in unfold_product */
};

typedef struct unfold_codes {
    const uint8_t *data;
    uint32_t bits;       /* 4 or 8 */
    float least;         /* 4 bits: the value of code 0 */
    const uint16_t *ids; /* ids[g * id_step] is the index of the vectors of group g */
    int64_t id_step;     /* 0: all groups have the same vectors; otherwise 1 */
    const float *scales; /* [vectors][UNFOLD_LANES] */
    const float *zeros;  /* likewise; NULL: all zero points are 0 */
} unfold_codes;

/* A few rows by columns of a row-major matrix of codes:
 *     y[r][j] = start[j] + sum over k of x[r][k] * W[k][j]     j < blocks * UNFOLD_LANES
 * Groups [first + k * step, + blocks) are row k of W. All rows of W have the scales and zero points of row 0, so sums
 * of code - zero are scaled once. */
typedef struct unfold_product {
    const unfold_codes *codes;
    int64_t first, step, depth;
    int64_t blocks; /* 1 to UNFOLD_BLOCKS */
    int64_t rows;
    const float *const *x;
    const float *start; /* NULL: zeros */
    float *const *y;
    bool lone; /* with one row, sum in two chains, which hides the latency of additions */
} unfold_product;

typedef struct unfold_kernel {
    /* Dequantizes codes [first, last), both multiples of UNFOLD_LANES, into out. */
    void (*unfold)(const unfold_codes *codes, int64_t first, int64_t last, float *out);
    void (*product)(const unfold_product *product);
    /* output = (input - zero) * scale for floats; ids[g] is the index of the vectors of group g; zeros may be NULL.
     * count is rounded up to whole groups. */
    void (*scale)(const float *restrict input, float *restrict output, int64_t count, const uint32_t *restrict ids,
                  const float *restrict scales, const float *restrict zeros);
} unfold_kernel;

KERNEL_INSTANCES(unfold_kernel, unfold) /* unfold_c has only `scale`: its callers use their own loops */

/* The position of code i of 4 bits, in nibbles. */
static inline int64_t unfold_place(int64_t i)
{
    return i / (2 * UNFOLD_LANES) * (2 * UNFOLD_LANES) + i % UNFOLD_LANES * 2 + i / UNFOLD_LANES % 2;
}
#endif
