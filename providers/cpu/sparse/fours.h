/* fours.h - products by constant float matrices of which each four k of a column have at most two that are not zero
 * (2:4), for a few rows:
 *
 *     C[m, n] = posts(A[m, k] * B[k, n] + bias[n])
 *
 * What bounds these is the memory that B comes from, so B is half as large: of each four k of a column two values, and
 * where they stand in two bits each, 0.53 of the bytes. A pack has panels of 16 columns, and each of them steps of 32
 * k: a vector of places, a word for a column with four bits for each four k from the lowest on, then two vectors of
 * values for each four k. Where one or none is not zero, others of the four stand for it with a value of 0. One
 * instruction gives each column the one of four elements of a row that it asks for.
 *
 * Where an element of a row is not finite, all of B counts: infinity times zero is NaN. */
#ifndef CPU_FOURS_H
#define CPU_FOURS_H
#include "sparse/sparse.h"

enum {
    SPARSE24_K = 4,                                             /* that share two values */
    SPARSE24_STEP = 32,                                         /* k that share a vector of places */
    SPARSE24_GROUPS = SPARSE24_STEP / SPARSE24_K,               /* fours of a step */
    SPARSE24_FLOATS = SPARSE_WIDTH * (1 + 2 * SPARSE24_GROUPS), /* of a step of a panel */
    SPARSE24_SIZES = 3,                                         /* 1, 4 and 8 rows at once */
    SPARSE24_MOST_ROWS = 8, /* of a product for which it pays: see onednn/README.md */
    SPARSE24_WIDTH = 4      /* sgemm_job's width for such a pack */
};
#define SPARSE24_SHARE ((double)SPARSE24_FLOATS / (SPARSE24_STEP * SPARSE_WIDTH)) /* of the bytes of B */

/* A panel by rows of A. */
typedef struct sparse24_tile {
    const float *panel; /* [steps][SPARSE24_FLOATS] */
    int64_t steps;
    const float
        *a; /* [steps * SPARSE24_GROUPS][rows of the size][SPARSE24_K]: zeros beyond k and beyond the last row */
    float *c;
    int64_t c_row, rows; /* rows: that are stored */
    uint32_t last;       /* columns that are, 1 ... 16 */
} sparse24_tile;

typedef struct sparse24_set {
    int64_t rows; /* of the largest size that there is */
    void (*multiply[SPARSE24_SIZES])(const sparse24_tile *tile);
} sparse24_set;

KERNEL_INSTANCES(sparse24_set, fours)

/* Is B of that kind? Of most others a look at the first few tells. */
bool fours_are(const sparse_packed_weights *weights);
bool fours_entries_are(const sparse_entries *entries); /* false, too, where places are wrong, or memory is out */
/* Floats of a pack, in lines of the cache, and the pack; false: it is not of that kind. */
int64_t fours_pack_floats(int64_t k, int64_t n);
bool fours_pack(const sparse_packed_weights *weights, float *target);
bool fours_entries_pack(const sparse_entries *entries, float *target);

/* A product as sparse_run does it, to which a job with SPARSE24_WIDTH comes from there. */
int64_t fours_units(const sgemm_job *job);
int64_t fours_scratch_floats(const sgemm_job *job);
void fours_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end);
#endif
