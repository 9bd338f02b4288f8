/* sparse.h - GEMM with block-sparse constant float matrices:
 *
 *     C[m, n] = posts(A[m, k] * B[k, n] + bias[n])
 *
 * A block is one row of B by 16 columns (1x16; a larger block, such as 1x64, is several of them). Zero blocks are
 * neither stored nor multiplied: each panel of 16 columns has a list of the k whose block is not zero, and these
 * blocks. Zeros within a block save nothing, since a vector holds 16 columns.
 *
 * Rows of A are transposed to [k][rows] first, so that a block is multiplied by as many rows as there are registers. If
 * a row has NaN or infinity, it is multiplied by the zero blocks, too: infinity times zero is NaN. */
#ifndef CPU_SPARSE_H
#define CPU_SPARSE_H
#include "cpu/matrix/sgemm.h"
#include <string.h>

enum { SPARSE_WIDTH = 16, SPARSE_MOST_ROWS = 24, SPARSE_AHEAD = 4 /* elements of a list that are read past its end */ };

/* A few rows of A by one panel. */
typedef struct sparse_tile {
    int64_t k;
    const uint32_t *index; /* [count] ascending */
    const float *blocks;   /* [count][SPARSE_WIDTH] */
    int64_t count;
    const float *a; /* transposed: [k][set->rows]; for `one` and `all`: a row of A */
    float *c;
    int64_t c_row, rows; /* rows: number of rows to store */
    uint32_t last;       /* number of columns to store, 1 to 16 */
    bool add;            /* `many` and `some`: add to c */
} sparse_tile;

typedef struct sparse_set {
    int64_t rows, few; /* most rows of `many`, and of `some`, whose tile takes a third of the time */
    void (*many)(const sparse_tile *tile);
    void (*some)(const sparse_tile *tile); /* at most `few` rows */
    void (*one)(const sparse_tile *tile);  /* one row */
    void (*all)(const sparse_tile *tile);  /* one row, which is also multiplied by the zero blocks */
    /* Transposes at most set->rows rows, a_row apart; missing rows become 0. out has room for [k][set->rows] and
     * SPARSE_MOST_ROWS more elements. Returns whether all elements are finite. */
    bool (*turn)(const float *a, int64_t a_row, int64_t rows, int64_t k, float *out);
} sparse_set;

KERNEL_INSTANCES(sparse_set, sparse)
/* The kernels for this CPU; NULL: none, since a dense GEMM is as fast. */
const sparse_set *sparse_of_cpu(void);

enum { SPARSE_SAMPLE = 256 /* blocks of a matrix that are tested first */ };
#define SPARSE_LEAST_ZEROS 0.3 /* smallest share of zero blocks in the sample for which all blocks are counted */
/* The offset of the blocks in a pack, in floats. They follow the first block index of each panel and the list of k, and
 * begin at a cache line. */
int64_t sparse_blocks_at(int64_t n, int64_t count);

/* B before packing: element (k, j) is data[k * k_step + j * n_step]. */
typedef struct sparse_packed_weights {
    const float *data; /* not aligned */
    int64_t k, n, k_step, n_step;
} sparse_packed_weights;

static inline float sparse_element(const sparse_packed_weights *weights, int64_t k, int64_t j)
{
    float x;

    memcpy(&x, (const char *)weights->data + (k * weights->k_step + j * weights->n_step) * (int64_t)sizeof x, sizeof x);
    return x;
}

static inline int64_t sparse_panels(int64_t n)
{
    return (n + SPARSE_WIDTH - 1) / SPARSE_WIDTH;
}

/* The number of nonzero blocks; -1: their share in a sample is larger than `most`, and they were not counted. */
int64_t sparse_count(const sparse_packed_weights *weights, double most);
/* The share of nonzero blocks, estimated from a sample; 1 if it has few zero blocks. */
double sparse_share(const sparse_packed_weights *weights);
/* The size of a pack with `count` nonzero blocks in floats; and packing. false: the number of blocks is not `count`. */
int64_t sparse_pack_floats(const sparse_packed_weights *weights, int64_t count);
bool sparse_pack(const sparse_packed_weights *weights, int64_t count, float *target);

/* A matrix stored as values [count] and their row-major indexes, in ascending order; neither array is aligned. The
 * matrix is [k, n] if upright, otherwise [n, k]. */
typedef struct sparse_entries {
    const void *values, *places; /* float, int64 */
    int64_t count, k, n;
    bool upright;
} sparse_entries;
/* sparse_count, sparse_share and sparse_pack of such a matrix. They also return -1 or false if the indexes are not
 * ascending or are out of range, or if there is no memory. */
int64_t sparse_entries_count(const sparse_entries *entries, double most);
double sparse_entries_share(const sparse_entries *entries);
bool sparse_entries_pack(const sparse_entries *entries, int64_t count, float *target);
/* Writes the dense matrix; false: the indexes are invalid. */
bool sparse_entries_expand(const sparse_entries *entries, float *target);

/* Are the indexes ascending and in range? */
bool sparse_entries_are_sound(const sparse_entries *entries);

/* GEMM like sgemm_run: job->b is the pack; width, b_panel, b_step and add are not read. Units of work are blocks of
 * rows by chunks of columns. scratch: sparse_scratch_floats(job) floats, one array per worker. */
int64_t sparse_units(const sgemm_job *job);
int64_t sparse_scratch_floats(const sgemm_job *job);
void sparse_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end);
/* Applies the epilogue to SGEMM_WIDTH columns from `at` on. */
void sparse_finish(const sgemm_job *job, int64_t row, int64_t rows, int64_t at);
#endif
