/* terms.h - GEMM of floats by matrix tiles of bfloat16 (simd/tile.h), for constant B, and for B of a run (below):
 *
 *     C[m, n] = posts(A[m, k] * B[k, n] + bias[n])
 *
 * A float is the sum of three bfloat16, its terms: 8, 8 and 8 bits. Of the nine products of the terms of two floats,
 * the six largest are added; the others are below 2^-24 of the product, as its rounding is. The sums are float, with at
 * most TERMS_CHAIN elements of k in a row. Tiles multiply bfloat16 about fifteen times as fast as
 * multiply-adds multiply floats, so six products are faster.
 *
 * The three largest products are enough if a sum has many terms of about the same size: without the others each term
 * has a random error of 3e-6, which is small compared with the rounding of a float sum. They are used unless
 * precision is strict (job->chain is not 0) or B has only whole numbers, if the magnitudes of the row and the column
 * are so even that the error is at most 16 times that of a float sum (TERMS_EVEN, TERMS_PEAKS; tests/cpu/test_terms.c).
 *
 * Floats that were converted from bfloat16 have one term, and those from float16 two: the lower terms are 0. Products
 * of terms that are 0 throughout a strip of A or a panel of B are left out, which does not change the sums.
 *
 * The terms of very small numbers would be subnormal, which tiles count as 0, and large numbers, infinities and NaN
 * have no terms. A strip of A with such a row is multiplied by the kernels of sgemm.h, and so are all strips if
 * B has such a column. Strips begin at multiples of TERMS_ROWS, so the results do not depend on the units of work. */
#ifndef CPU_TERMS_H
#define CPU_TERMS_H
#include "cpu/matrix/sgemm.h"
#include <stddef.h>

enum {
    TERMS = 3,
    TERMS_ROWS = 32,                 /* of a strip: two tiles */
    TERMS_WIDTH = 32,                /* columns of a panel: two tiles */
    TERMS_DEPTH = 32,                /* elements of k in a tile */
    TERMS_TILE = 256,                /* words of a tile: two elements of k each, r and r + 16 */
    TERMS_HIGH = 2 * 2 * TERMS_TILE, /* words of a strip, or of a panel, for TERMS_DEPTH elements of k: upper terms, */
    TERMS_LOW = 2 * TERMS_TILE,      /* and lowest */
    TERMS_BLOCK = 256,               /* most rows of a unit */
    TERMS_CHAIN = 768,
    TERMS_STRICT_CHAIN = 256 /* precision strict */
};
/* The largest magnitude of a row of A, or a column of B, must be 0 or in this range. */
#define TERMS_LEAST 0x1p-50f
#define TERMS_MOST 0x1p60f

/* Of k terms there must be TERMS_EVEN effective ones: k over the mean square relative to the square of the mean, of row
 * and column. If both have their peak at the same k, it must be below the sum of the others: TERMS_PEAKS times the
 * product of peaks, relative to the means, is at most k. */
enum { TERMS_EVEN = 100, TERMS_PEAKS = 10 };

/* Strips of A by a part of a panel of B. Their two upper terms, [steps][2 tiles][2], and the lowest, [steps][2 tiles],
 * are stored separately, so that three products read only the upper ones. A pack of one term has [steps][2 tiles]. */
typedef struct terms_block {
    const uint32_t *a, *b; /* each strip of A has its lowest terms after the others */
    const uint32_t *b_low; /* read if b_terms is TERMS */
    int64_t b_next;        /* words from one tile of a term of B to the other */
    int64_t strips, steps;
    int a_terms, b_terms; /* from 1 to TERMS: all lower terms are 0 */
    bool three;           /* at most three products of the terms; otherwise six */
    bool add;             /* to c */
    float *c;             /* [strips * TERMS_ROWS][TERMS_WIDTH] */
    int64_t c_row;
} terms_block;

/* The magnitudes of n numbers: the bits of the largest, which exceed the bits of infinity if there is a NaN; the bits
 * that at least one number has; the sum of the magnitudes, and the sum of their squares. */
typedef struct terms_size {
    uint32_t top, any;
    float sum, squares;
} terms_size;

/* The kernels for one implementation of tiles. */
typedef struct terms_set {
    /* The upper `terms` terms of up to TERMS_ROWS rows of k elements, as a strip; missing rows and elements are 0. */
    void (*split)(const float *a, int64_t a_row, int64_t rows, int64_t k, int terms, uint32_t *out);
    /* The terms of k rows of up to TERMS_WIDTH columns of B, as a panel; missing columns are 0. top: the bits of the
     * largest magnitude of each column. */
    void (*split_panel)(const float *b, int64_t b_row, int64_t k, int64_t columns, uint32_t *out,
                        uint32_t top[TERMS_WIDTH]);
    terms_size (*measure)(const float *input, int64_t n);
    void (*multiply)(const terms_block *block);
} terms_set;
extern __attribute__((weak)) const terms_set terms_amx; /* only in the plugin cpu; where tile_problem() is NULL */
extern const terms_set terms_c;
/* The kernels for this CPU; NULL: it has no tiles, so floats are as fast. */
const terms_set *terms_of_cpu(void);

/* B before packing: element (k, j) is at data + k_at(k) + j * n_step floats, at any address. k is a number of three
 * digits: (k / inner) selects a tap, k % inner a channel. */
typedef struct terms_matrix {
    const void *data;
    int64_t k, n, n_step;
    int64_t inner, inner_step;              /* channels; all k if there are no taps */
    int64_t columns, column_step, row_step; /* taps: kernel columns, and the steps of taps */
} terms_matrix;

int64_t terms_panels(int64_t n);
/* The number of terms of numbers that have no other bits than these (the bits of float). */
static inline int terms_of_bits(uint32_t any)
{
    return (any & 0xffff) == 0 ? 1 : (any & 0xff) == 0 ? 2 : TERMS;
}
/* The size of a pack of `terms` terms in floats; and packing of panels [begin, end). Each element of the matrix has at
 * most `terms` terms. */
int64_t terms_pack_floats(int64_t k, int64_t n, int terms);
void terms_pack(const terms_matrix *matrix, int terms, int64_t begin, int64_t end, float *target);

/* Are three products enough for most sums of k terms? */
static inline bool terms_are_three(int64_t k, bool strict)
{
    return !strict && k >= 2 * TERMS_EVEN; /* of normally distributed numbers 2 of 5 are effective */
}
/* Nanoseconds on one core where multiply-adds of floats take 250 FLOP in one, without the transfer of B, whose elements
 * have `b_terms` terms, and tile_pace is cpu_tile_pace() or 1; and the bytes of its terms that are read, for each
 * element. */
double terms_ns(int64_t m, int64_t n, int64_t k, int b_terms, bool strict, double tile_pace);
double terms_bytes(int64_t k, int b_terms, bool strict);

/* GEMM like sgemm_run: job->b is the pack, of job->b_terms terms; b_panel and b_step are not read. A unit is a block of
 * rows by job->width columns, a multiple of TERMS_WIDTH that terms_share() sets: each makes the terms of its rows, so
 * there are no more units than threads need. scratch: terms_scratch_floats(job) floats for each worker. */
void terms_share(sgemm_job *job, uint32_t threads);
int64_t terms_units(const sgemm_job *job);
int64_t terms_scratch_floats(const sgemm_job *job);
void terms_run(const terms_set *set, const sgemm_job *job, float *scratch, int64_t begin, int64_t end);

/* Products whose B is computed in each run, such as those of attention: six products of terms.
 *
 * terms_split_b() writes the terms of B, [k][n], which has b_row floats from row to row: terms_b_words(k, n) words.
 * False: a column is out of range, so B has no terms. */
int64_t terms_b_words(int64_t k, int64_t n);
bool terms_split_b(const terms_set *set, const float *b, int64_t b_row, int64_t k, int64_t n, uint32_t *out);

typedef struct terms_product {
    int64_t m, n, k;
    const float *a;
    int64_t a_row;
    const uint32_t *b; /* by terms_split_b(), of b_depth rows, at least k, and n columns or more */
    int64_t b_depth;
    bool strict;
    bool fits; /* all rows are known to be in range */
    float *c;  /* whole tiles: rows up to a multiple of TERMS_ROWS, columns up to one of TERMS_WIDTH */
    int64_t c_row;
    uint32_t *room; /* terms_room_words(m, k) */
} terms_product;
enum { TERMS_MOST_STRIPS = 32 };
int64_t terms_room_words(int64_t m, int64_t k);
/* At most TERMS_MOST_STRIPS strips of rows. Bit i of the result: a row of strip i is out of range, so that the results
 * of this strip are not valid. */
uint32_t terms_multiply(const terms_set *set, const terms_product *product);
#endif
