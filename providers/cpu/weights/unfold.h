/* unfold.h - weights of 4 and 8 bits as floats, near the core: a range of them, or as a product of few rows reads them.
 *
 * Codes lie one after the other, in groups of UNFOLD_LANES that share a vector of scales and one of zero points. A
 * weight is (code - zero) * scale, each step rounded: what DequantizeLinear makes. Codes of 8 bits are signed; those of
 * 4 count from `least` on, and two groups share their bytes: the first has the lower halves. */
#ifndef CPU_UNFOLD_H
#define CPU_UNFOLD_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    UNFOLD_LANES = 16,
    UNFOLD_BLOCKS = 4 /* most groups side by side in unfold_product */
};

typedef struct unfold_codes {
    const uint8_t *data;
    uint32_t bits;       /* 4 or 8 */
    float least;         /* of 4 bits: what code 0 means */
    const uint16_t *ids; /* of group g, ids[g * id_step] is the number of its vectors */
    int64_t id_step;     /* 0 where there is but one, or 1 */
    const float *scales; /* [vectors][UNFOLD_LANES] */
    const float *zeros;  /* likewise; NULL: all are 0 */
} unfold_codes;

/* Rows by a slice of a matrix of codes that lies k by k:
 *     y[r][j] = start[j] + sum over k of x[r][k] * W[k][j]     j < blocks * UNFOLD_LANES
 * where groups [first + k * step, + blocks) are row k of W, with the vectors of row 0. */
typedef struct unfold_product {
    const unfold_codes *codes;
    int64_t first, step, depth;
    int64_t blocks; /* 1 to UNFOLD_BLOCKS */
    int64_t rows;
    const float *const *x;
    const float *start; /* NULL: zeros */
    float *const *y;
    bool lone; /* a row alone is summed in two chains, so that additions do not wait for each other */
} unfold_product;

typedef struct unfold_kernel {
    /* Codes [first, last), whole groups, into out. */
    void (*unfold)(const unfold_codes *codes, int64_t first, int64_t last, float *out);
    void (*product)(const unfold_product *p);
    /* output = (input - zero) * scale of floats, each group with the vectors of its id; zeros may be NULL. count: of
     * whole groups. */
    void (*scale)(const float *restrict input, float *restrict output, int64_t count, const uint32_t *restrict ids,
                  const float *restrict scales, const float *restrict zeros);
} unfold_kernel;

KERNEL_INSTANCES(unfold_kernel, unfold) /* unfold_c has but `scale`: a caller has something of its own there */

/* Where code i of 4 bits lies, counted in halves of bytes. */
static inline int64_t unfold_place(int64_t i)
{
    return i / (2 * UNFOLD_LANES) * (2 * UNFOLD_LANES) + i % UNFOLD_LANES * 2 + i / UNFOLD_LANES % 2;
}
#endif
