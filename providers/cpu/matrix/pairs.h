/* pairs.h - products of float matrices with half of the multiplications, by constants.
 *
 * Elements are multiplied in pairs (Winograd, "A new algorithm for inner product", 1968):
 *
 *     a0 b0 + a1 b1 = (a0 + b1) (a1 + b0) - a0 a1 - b0 b1
 *
 * What is taken away belongs to a row of A or to a column of B alone: the former is summed while rows are prepared,
 * the latter when B is packed. Two multiplications become one and two additions, which pays where a core has units for
 * additions beside those that multiply: 320 to 340 GFLOP/s where the sum as written has 270 (Zen 5).
 *
 * As it stands that would be inexact where A and B differ in size, or where A is far from zero. So rows of A are made
 * to have the mean 0 and to be of size 1 (by powers of two), and columns of B of size 1:
 *
 *     sum = (S - ea - eb) / (sa sb) + mean(a) sum(b)
 *
 * The error is then some 3e-7 of |row| |column|, the product of their norms. It has no bound by the terms of a result:
 * where large inputs meet tiny weights, norms are much larger than any term, and all digits of a result may be lost.
 * So pairs are for precision fast alone. Rows that are not finite, or whose squares are not or vanish, are summed as
 * written. */
#ifndef CPU_PAIRS_H
#define CPU_PAIRS_H
#include "matrix/sgemm.h"

enum { PAIRS_WIDTH = 64, PAIRS_TILE_ROWS = 10, PAIRS_HEAD = 4 };

/* What a row was made by: its sums of pairs, what takes its size back, its mean; 0 where it has to be summed as
 * written. */
typedef struct pairs_row {
    float pairs, size, mean, fine;
} pairs_row;

/* A block of C, up to 64 columns: the product, bias, what is added, and a clamp. */
typedef struct pairs_tile {
    int64_t k, width; /* even; of the panel */
    const float *a;   /* prepared rows */
    int64_t a_row;
    const pairs_row *rows;
    const float *b;    /* the panel, from its head on: [PAIRS_HEAD + k][width] */
    const float *bias; /* NULL: none */
    const float *add;  /* likewise; may be c */
    int64_t add_row;
    bool clamp; /* then into [low, high] */
    float low, high;
    float *c;
    int64_t c_row;
    uint32_t last;      /* columns of the last vector, 1 ... 16 */
    const float *ahead; /* a line of cache that is fetched with each pair, and `lines` - 1 (0, 1) behind it */
    int64_t ahead_step, lines;
} pairs_tile;

typedef struct pairs_set {
    int64_t rows[PAIRS_WIDTH / SGEMM_LANES + 1];                 /* most rows of a block with so many vectors */
    void (*const (*tile)[PAIRS_TILE_ROWS])(const pairs_tile *t); /* [vectors - 1][rows - 1] */
    /* Rows [count][k] as they are multiplied: k is made even by a zero. */
    void (*prepare)(const float *a, int64_t a_row, int64_t count, int64_t k, float *out, int64_t out_row,
                    pairs_row *rows);
    /* The columns of a panel become of size 1, and its head is made of them. Columns that are not finite, or whose
     * squares are not, make a panel that is multiplied as written: its fourth line says so. rows: even. */
    void (*make_head)(float *panel, int64_t rows, int64_t count, int64_t width);
    /* One row by a panel as written: out [width]. */
    void (*as_written)(const float *restrict a, int64_t k, const float *restrict panel, int64_t width,
                       float *restrict out);
} pairs_set;

KERNEL_INSTANCES(pairs_set, pairs)
/* The loops for this CPU; NULL: it has none. */
const pairs_set *pairs_of_cpu(void);
/* Are they faster here than products as written? Measured at the first call, in less than a millisecond. Thread-safe.
 */
bool pairs_are_fast(void);

/* Floats of B [k, n] as it is packed: panels of 64 columns; long sums are cut into parts. */
int64_t pairs_pack_floats(int64_t k, int64_t n);

/* Weights as they are read: element (k, j) lies at j * column plus where k lies, which counts places of a window, each
 * with `in` elements that lie `step` apart. */
typedef struct pairs_packed_weights {
    const void *data;     /* floats, at any address */
    int64_t n, k, column; /* distances in elements */
    int64_t in, step;
    int64_t window[3], steps[3]; /* of the window; 1 where it has fewer axes */
} pairs_packed_weights;

/* Packs them in units of any order: target [pairs_pack_floats(k, n)]. */
int64_t pairs_pack_units(const pairs_packed_weights *weights);
void pairs_pack(const pairs_packed_weights *weights, float *target, int64_t begin, int64_t end);

/* Sets job->blocks so that threads have as many blocks each, where that is no matter of few rows. */
void pairs_share(sgemm_job *job, uint32_t threads);
/* A product as sgemm_run does it, job->b packed as above; width, b_panel and b_step are not read. Units: blocks of rows
 * by panels, panels first. scratch: pairs_scratch_floats(job) of this worker's own. pairs_start must have seen those of
 * all workers since A changed: rows that were prepared for one unit are there for the next. */
int64_t pairs_units(const sgemm_job *job);
int64_t pairs_scratch_floats(const sgemm_job *job);
void pairs_start(const sgemm_job *job, float *scratch, uint32_t workers);
void pairs_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end);
/* The most rows of a block. */
int64_t pairs_block_rows(int64_t k);
#endif
