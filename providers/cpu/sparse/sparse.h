/* sparse.h - products by constant float matrices of which many blocks are zero:
 *
 *     C[m, n] = posts(A[m, k] * B[k, n] + bias[n])
 *
 * A block is one row of B by 16 columns (1x16; larger ones, 1x64 and the like, are several). Blocks of zeros are
 * neither stored nor multiplied: for each panel of 16 columns there is a list of the k whose block is not zero, and the
 * blocks in its order. Zeros within a block are no gain, since a vector holds 16, but for two of each four (fours.h).
 *
 * Rows of A are turned into [k][rows] first, so that a block meets as many of them as there are registers. Where an
 * element of a row is not finite, all of B counts: infinity times zero is NaN. */
#ifndef CPU_SPARSE_H
#define CPU_SPARSE_H
#include "matrix/sgemm.h"
#include <string.h>

enum { SPARSE_WIDTH = 16, SPARSE_MOST_ROWS = 24, SPARSE_AHEAD = 4 /* that are read of a list beyond its end */ };

/* A panel by rows of A. */
typedef struct sparse_tile {
    int64_t k;
    const uint32_t *index; /* [count] ascending */
    const float *blocks;   /* [count][SPARSE_WIDTH] */
    int64_t count;
    const float *a; /* turned: [k][set->rows]; of `one` and `all`: a row as it lies */
    float *c;
    int64_t c_row, rows; /* rows: that are stored */
    uint32_t last;       /* columns that are, 1 ... 16 */
    bool add;            /* `many` and `some`: to what is in c */
} sparse_tile;

typedef struct sparse_set {
    int64_t rows, few; /* of a block, and of one that takes a third as long */
    void (*many)(const sparse_tile *tile);
    void (*some)(const sparse_tile *tile); /* at most `few` rows */
    void (*one)(const sparse_tile *tile);
    void (*all)(const sparse_tile *tile); /* one row, by zeros, too */
    /* Rows a_row apart, at most set->rows; what is missing is 0. out has room for SPARSE_MOST_ROWS elements beyond
     * [k][rows]. Returns whether all elements are finite. */
    bool (*turn)(const float *a, int64_t a_row, int64_t rows, int64_t k, float *out);
} sparse_set;

KERNEL_INSTANCES(sparse_set, sparse)
/* NULL: a library's dense product is as fast. */
const sparse_set *sparse_of_cpu(void);

/* Of the parts of a pack. */
enum { SPARSE_SAMPLE = 256 /* blocks of a matrix that are looked at first */ };
#define SPARSE_LEAST_ZEROS 0.3 /* share of blocks from which on it is worth to look at all */
/* Floats in front of the blocks: where each panel's begin, and the list, to a line of the cache. */
int64_t sparse_blocks_at(int64_t n, int64_t count);

/* B as it lies: element (k, j) is data[k * k_step + j * n_step]. */
typedef struct sparse_packed_weights {
    const float *data; /* at any address */
    int64_t k, n, k_step, n_step;
} sparse_packed_weights;

static inline float sparse_element(const sparse_packed_weights *weights, int64_t k, int64_t j)
{
    float x;

    memcpy(&x, (const char *)weights->data + (k * weights->k_step + j * weights->n_step) * (int64_t)sizeof x, sizeof x);
    return x;
}

/* Of SPARSE_WIDTH columns. */
static inline int64_t sparse_panels(int64_t n)
{
    return (n + SPARSE_WIDTH - 1) / SPARSE_WIDTH;
}

/* Blocks that are not zero; -1: more than the share `most` of them in a sample, and they were not counted. */
int64_t sparse_count(const sparse_packed_weights *weights, double most);
/* The share of blocks that are not zero, by a sample: 1 where few are zero. */
double sparse_share(const sparse_packed_weights *weights);
/* Floats of a pack with so many blocks, and the pack. */
int64_t sparse_pack_floats(const sparse_packed_weights *weights, int64_t count);
bool sparse_pack(const sparse_packed_weights *weights, int64_t count, float *target);

/* A matrix as a file has it that names its elements: values [count] and their places in the rows one after the other,
 * ascending, both at any address; [k, n] if upright, otherwise [n, k]. */
typedef struct sparse_entries {
    const void *values, *places; /* float, int64 */
    int64_t count, k, n;
    bool upright;
} sparse_entries;
/* As sparse_count, sparse_share and sparse_pack are, without the dense matrix. -1 and false, too, where places are not
 * ascending or not in the matrix, or memory is out. */
int64_t sparse_entries_count(const sparse_entries *entries, double most);
double sparse_entries_share(const sparse_entries *entries);
bool sparse_entries_pack(const sparse_entries *entries, int64_t count, float *target);
/* All elements, as they lie in the matrix; false: places are wrong. */
bool sparse_entries_expand(const sparse_entries *entries, float *target);

/* Are the places of entries ascending, and in the matrix? */
bool sparse_entries_are_sound(const sparse_entries *entries);

/* A product as sgemm_run does it; job->b is the pack, of fours.h with width SPARSE24_WIDTH; b_panel, b_step and add are
 * not read. Units are blocks of rows by chunks of columns; scratch: sparse_scratch_floats(job) of this worker's own. */
int64_t sparse_units(const sgemm_job *job);
int64_t sparse_scratch_floats(const sgemm_job *job);
void sparse_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end);
/* The same by a pack of blocks. */
int64_t sparse_blocks_units(const sgemm_job *job);
int64_t sparse_blocks_scratch_floats(const sgemm_job *job);
void sparse_blocks_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end);
/* What is behind the product, for SGEMM_WIDTH columns from `at` on. */
void sparse_finish(const sgemm_job *job, int64_t row, int64_t rows, int64_t at);
#endif
