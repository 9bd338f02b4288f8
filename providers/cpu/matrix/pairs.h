/* pairs.h - GEMM with constant B by Winograd's inner product, which needs half of the multiplications.
 *
 * Elements are multiplied in pairs (Winograd, "A new algorithm for inner product", 1968):
 *
 *     a0 b0 + a1 b1 = (a0 + b1) (a1 + b0) - a0 a1 - b0 b1
 *
 * The subtracted terms depend on a row of A or a column of B alone: the former are summed while rows are prepared, the
 * latter when B is packed. Two multiplications become one multiplication and two additions. This is faster on cores
 * that have units for additions besides those that multiply: 320 to 340 GFLOP/s instead of 270 for the direct sum (Zen
 * 5).
 *
 * Without preparation the result would be inexact where A and B differ in magnitude, or where the mean of A is far from
 * zero. So rows of A are shifted to mean 0 and scaled to magnitude 1 (by powers of two), and columns of B are scaled to
 * magnitude 1:
 *
 *     sum = (S - ea - eb) / (sa sb) + mean(a) sum(b)
 *
 * where S is the sum of the products, ea and eb are the sums that depend on the row and on the column alone, and sa and
 * sb are their scales.
 *
 * The error is then about 3e-7 of |row| |column|, the product of their norms. It is not bounded by the terms of a
 * result: where large inputs meet tiny weights, the norms are much larger than any term, and all digits of a result may
 * be lost. So this runs with precision `fast` only. Rows that have NaN or infinity, and rows whose squares overflow or
 * underflow, are summed directly. */
#ifndef CPU_PAIRS_H
#define CPU_PAIRS_H
#include "matrix/sgemm.h"

enum { PAIRS_WIDTH = 64, PAIRS_TILE_ROWS = 10, PAIRS_HEAD = 4 };

/* The preparation of a row: the sum of its pair products, the inverse of its scale, its mean. paired is 0 if the row
 * must be summed directly. */
typedef struct pairs_row {
    float pairs, size, mean, paired;
} pairs_row;

/* A tile of C, up to 64 columns, with its epilogue: bias, an added operand, a clamp. */
typedef struct pairs_tile {
    int64_t k, width; /* k is even; width of the panel */
    const float *a;   /* prepared rows */
    int64_t a_row;
    const pairs_row *rows;
    const float *b;    /* the panel with its header: [PAIRS_HEAD + k][width] */
    const float *bias; /* NULL: none */
    const float *add;  /* NULL: none; may be c */
    int64_t add_row;
    bool clamp; /* then into [low, high] */
    float low, high;
    float *c;
    int64_t c_row;
    uint32_t last;      /* columns of the last vector, 1 ... 16 */
    const float *ahead; /* a cache line that is prefetched with each pair, and `lines` - 1 (0 or 1) lines behind it */
    int64_t ahead_step, lines;
} pairs_tile;

typedef struct pairs_set {
    int64_t rows[PAIRS_WIDTH / SGEMM_LANES + 1];                 /* maximum rows of a tile by number of vectors */
    void (*const (*tile)[PAIRS_TILE_ROWS])(const pairs_tile *t); /* [vectors - 1][rows - 1] */
    /* Prepares rows [count][k]. Odd k is made even by a zero. */
    void (*prepare)(const float *a, int64_t a_row, int64_t count, int64_t k, float *out, int64_t out_row,
                    pairs_row *rows);
    /* Scales the columns of a panel to magnitude 1 and writes its header. If a column has NaN or infinity, or its
     * squares overflow, the panel is multiplied directly, and the fourth line of the header says so. rows: even. */
    void (*make_head)(float *panel, int64_t rows, int64_t count, int64_t width);
    /* Multiplies one row with a panel directly: out [width]. */
    void (*multiply_direct)(const float *restrict a, int64_t k, const float *restrict panel, int64_t width,
                            float *restrict out);
} pairs_set;

KERNEL_INSTANCES(pairs_set, pairs)
/* The kernels for this CPU; NULL: none. */
const pairs_set *pairs_of_cpu(void);
/* True if they are faster on this CPU than the direct GEMM. Measured at the first call, in less than a millisecond.
 * Thread-safe. */
bool pairs_are_fast(void);

/* Floats of a packed matrix B [k, n]: panels of 64 columns; k is divided into parts. */
int64_t pairs_pack_floats(int64_t k, int64_t n);

/* Weights before packing, and their layout. Element (k, j) is at j * column plus the offset of k. k counts positions of
 * a kernel window, each with `in` elements that are `step` apart. */
typedef struct pairs_packed_weights {
    const void *data;     /* floats, at any address */
    int64_t n, k, column; /* distances in elements */
    int64_t in, step;
    int64_t window[3], steps[3]; /* kernel size and distances of its taps; 1 for missing axes */
} pairs_packed_weights;

/* Packs units [begin, end), in any order: target [pairs_pack_floats(k, n)]. */
int64_t pairs_pack_units(const pairs_packed_weights *weights);
void pairs_pack(const pairs_packed_weights *weights, float *target, int64_t begin, int64_t end);

/* Sets job->blocks so that threads get equal numbers of blocks, unless there are few rows. */
void pairs_share(sgemm_job *job, uint32_t threads);
/* A GEMM as by sgemm_run, with job->b packed as above; width, b_panel and b_step are not read. Units: blocks of rows
 * by panels, panels first. scratch: pairs_scratch_floats(job) floats of this worker. Before, and whenever A has
 * changed, pairs_start must be called for the scratch of all workers: rows that were prepared for one unit are reused
 * by the next. */
int64_t pairs_units(const sgemm_job *job);
int64_t pairs_scratch_floats(const sgemm_job *job);
void pairs_start(const sgemm_job *job, float *scratch, uint32_t workers);
void pairs_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end);
/* Maximum rows of a block. */
int64_t pairs_block_rows(int64_t k);
#endif
