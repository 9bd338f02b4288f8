/* sparse24.h - GEMM with 2:4 sparse constant float matrices, for a few rows. In such a matrix, each four consecutive k
 * of a column have at most two nonzero elements.
 *
 *     C[m, n] = posts(A[m, k] * B[k, n] + bias[n])
 *
 * The time of such a GEMM is that of reading B. So B is packed with two values of each four k of a column, and their
 * positions in two bits each, which is 0.53 of its bytes. A pack has panels of 16 columns, and a panel has steps of 32
 * k. A step is a vector of positions (one word per column, with four bits for each four k from the lowest on), then two
 * vectors of values for each four k. If there are fewer than two nonzero elements, other positions with value 0 take
 * their place. One instruction selects, for each column, one of four elements of a row of A.
 *
 * If a row has NaN or infinity, it is multiplied by the zeros, too: infinity times zero is NaN. */
#ifndef CPU_FOURS_H
#define CPU_FOURS_H
#include "cpu/sparse/sparse.h"

enum {
    SPARSE24_K = 4,                                             /* k that share two values */
    SPARSE24_STEP = 32,                                         /* k that share a vector of positions */
    SPARSE24_GROUPS = SPARSE24_STEP / SPARSE24_K,               /* fours of a step */
    SPARSE24_FLOATS = SPARSE_WIDTH * (1 + 2 * SPARSE24_GROUPS), /* floats of a step of a panel */
    SPARSE24_SIZES = 2,                                         /* kernels: for 1 and 4 rows */
    SPARSE24_WIDTH = 4                                          /* sgemm_job.width of such a pack */
};
#define SPARSE24_SHARE ((double)SPARSE24_FLOATS / (SPARSE24_STEP * SPARSE_WIDTH)) /* bytes relative to dense B */

/* A few rows of A by one panel. */
typedef struct sparse24_tile {
    const float *panel; /* [steps][SPARSE24_FLOATS] */
    int64_t steps;
    /* [steps * SPARSE24_GROUPS][rows of the kernel][SPARSE24_K], with zeros beyond k and beyond the last row */
    const float *a;
    float *c;
    int64_t c_row, rows; /* rows: number of rows to store */
    uint32_t last;       /* number of columns to store, 1 to 16 */
} sparse24_tile;

typedef struct sparse24_set {
    int64_t rows; /* of the largest kernel */
    void (*multiply[SPARSE24_SIZES])(const sparse24_tile *tile);
} sparse24_set;

KERNEL_INSTANCES(sparse24_set, fours)

/* Is this GEMM at least 1.2 times as fast as a dense one? One row is (measured: 2.2 times). Two to four rows are if B
 * is larger than the caches (1.35 times); in the caches a dense B is read faster than positions select elements. */
static inline bool sparse24_pays(double rows, double k, double n)
{
    const double far = 8.0 * 1024 * 1024; /* elements */

    return rows <= 1 || (rows <= 4 && k * n > far);
}

/* Is B 2:4 sparse? For most other matrices, the first few rows give the answer. */
bool sparse24_is(const sparse_packed_weights *weights);
bool sparse24_entries_are(const sparse_entries *entries); /* also false if indexes are invalid or there is no memory */
/* The size of a pack in floats, a multiple of a cache line; and packing. false: B is not 2:4 sparse. */
int64_t sparse24_pack_floats(int64_t k, int64_t n);
bool sparse24_pack(const sparse_packed_weights *weights, float *target);
bool sparse24_entries_pack(const sparse_entries *entries, float *target);

/* sparse_units, sparse_scratch_floats and sparse_run of a job with SPARSE24_WIDTH, which they forward here. */
int64_t sparse24_units(const sgemm_job *job);
int64_t sparse24_scratch_floats(const sgemm_job *job);
void sparse24_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end);
#endif
