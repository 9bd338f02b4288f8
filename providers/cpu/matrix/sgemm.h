/* sgemm.h - GEMM of float matrices with a fused epilogue. Tiles of C stay in registers, panels of B near the core,
 * and the epilogue (bias, activations, binary operations) is applied while a block of C is in the first-level cache.
 *
 *     C[m, n] = posts(A[m, k] * B[k, n] + bias[n])
 *
 * A is read in place, with any distance between rows. B is packed in panels of `width` columns: panel after panel,
 * and within one, k after k; columns beyond the last are padding. The same kernel
 * serves products of many rows, which are bound by arithmetic, and of one row, which are bound by the transfer of B. */
#ifndef CPU_SGEMM_H
#define CPU_SGEMM_H
#include "simd/instances.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SGEMM_WIDTH = 64,
    SGEMM_LANES = 16,
    SGEMM_VECTORS = SGEMM_WIDTH / SGEMM_LANES,
    SGEMM_ROWS = 12,
    SGEMM_CHAIN = 384,
    SGEMM_LEAST_CHAIN = 16,
    SGEMM_FEW = 4,       /* up to this many rows are multiplied with unpacked rows of B (dots), ... */
    SGEMM_FEW_HALVES = 8 /* ... and with those of 16 bits; floats in panels pay for more */
};

/* Maximum number of terms that are added to one accumulator in a row, for a sum of k terms; 0: SGEMM_CHAIN, the
 * longest chain without a cost in speed. The error of a sum grows with the root of the chain's length and of the
 * number of chains, so precision `strict` keeps both small, which takes up to a tenth longer. */
static inline int64_t sgemm_chain(int64_t k, bool strict)
{
    const int64_t even = (int64_t)(2 * sqrt((double)k));

    return !strict ? 0 : even > SGEMM_LEAST_CHAIN ? even : SGEMM_LEAST_CHAIN;
}

/* Functions of the epilogue. x is the element of C, o the other operand's. */
typedef enum sgemm_fn {
    SGEMM_RELU,      /* x < 0 ? alpha x : x */
    SGEMM_GELU,      /* Gelu-20 */
    SGEMM_GELU_TANH, /* the same with approximate = tanh */
    SGEMM_SIGMOID,
    SGEMM_TANH,
    SGEMM_SWISH,     /* x sigmoid(alpha x) */
    SGEMM_HARDSWISH, /* x min(max(x / 6 + 1/2, 0), 1) */
    SGEMM_LINEAR,    /* alpha x + beta */
    SGEMM_CLIP,      /* min(max(x, alpha), beta); NaN stays */
    SGEMM_ADD,
    SGEMM_SUB, /* x - o */
    SGEMM_MUL,
    SGEMM_DIV,   /* x / o */
    SGEMM_PRELU, /* x < 0 ? x o : x */
    SGEMM_FN_COUNT
} sgemm_fn;

typedef struct sgemm_post {
    sgemm_fn fn;
    float alpha, beta;
    const float *other; /* the other operand of binary functions */
    int64_t row, col;   /* distance of the other operand's rows and columns in elements; col is 0 (broadcast) or 1 */
} sgemm_post;

/* One tile of C: rows (a parameter of the function) by `vectors` vectors, of which the last has `last` columns (1 to
 * SGEMM_LANES). The sums are added to `from`, from_row elements a row; NULL: to nothing. c may be from. `bias` is a
 * row that is added last; NULL: none. More than `chain` elements of k (never 0) are summed in parts of about the same
 * size. b_step: elements from one k to the next. With each k a cache line is prefetched, starting at `ahead` in steps
 * of ahead_step elements: the data after this panel of B, so that the first tile that reads it does not wait for
 * memory. Any address is valid for that. */
typedef struct sgemm_tile {
    int64_t k, chain;
    const float *a;
    int64_t a_row;
    const float *b;
    int64_t b_step;
    const float *from;
    int64_t from_row;
    const float *bias;
    float *c;
    int64_t c_row;
    uint32_t last;
    const float *ahead;
    int64_t ahead_step;
} sgemm_tile;
typedef void (*sgemm_tile_fn)(const sgemm_tile *tile);

/* The result for rows of attention scores that are all -infinity: 0; NaN, as Softmax defines it; or 0, also for rows
 * with a NaN. */
typedef enum sgemm_blank { SGEMM_BLANK_ZERO, SGEMM_BLANK_NAN, SGEMM_BLANK_GUARDED } sgemm_blank;

/* Rows of attention scores. Visible scores become e^(scale x + mask - top), where top is the largest of them; the
 * others become 0. The row's factor normalizes the sum to 1. Each row has space up to a multiple of SGEMM_LANES,
 * which is overwritten. */
typedef struct sgemm_scores {
    int64_t rows, count; /* scores in a row */
    int64_t seen;        /* visible in the first row; each further row sees one more, at most count */
    float *input;
    int64_t x_row;
    const float *mask; /* NULL: none */
    int64_t mask_row;  /* 0: the same for all */
    float scale;
    sgemm_blank blank;
    const float *sinks; /* one more score of each row, which is neither scaled nor stored; NULL: none */
    int64_t sink_row;   /* 0: the same for all */
    float *factors;     /* [rows] */
} sgemm_scores;

/* `panel` and `dots` of sgemm_kernel with lines of 16-bit floats; size is a multiple of SGEMM_LANES. */
typedef struct sgemm_halves {
    void (*panel)(const uint16_t *lines, int64_t stride, int64_t count, int64_t size, float *out);
    void (*dots)(const float *a, int64_t a_row, int64_t rows, const uint16_t *b, int64_t b_stride, int64_t count,
                 int64_t size, float *out, int64_t out_row);
} sgemm_halves;

/* The kernels for one instruction set. Immutable. */
typedef struct sgemm_kernel {
    const char *isa;
    int64_t rows[SGEMM_VECTORS + 1];              /* maximum rows of a tile by number of vectors */
    const sgemm_tile_fn *tile[SGEMM_VECTORS + 1]; /* [vectors][rows - 1] */
    void (*post)(const sgemm_post *post, float *c, int64_t c_row, int64_t rows, int64_t cols);
    /* Turns rows of scores into probabilities, except for the factor of each row. */
    void (*softmax)(const sgemm_scores *scores);
    /* Packs `count` lines (at most SGEMM_WIDTH) of `size` elements, `stride` apart, as a panel: out[k * SGEMM_WIDTH +
     * i] is element k of line i. The rest of the last SGEMM_LANES lines is filled with 0; lines beyond are not
     * written. */
    void (*panel)(const float *lines, int64_t stride, int64_t count, int64_t size, float *out);
    /* out[r * out_row + i] = dot product of row r of a with line i of b, both of `size` elements. For few rows, where
     * packing the lines as a panel would take longer. */
    void (*dots)(const float *a, int64_t a_row, int64_t rows, const float *b, int64_t b_stride, int64_t count,
                 int64_t size, float *out, int64_t out_row);
    sgemm_halves float16, bfloat16;
} sgemm_kernel;

KERNEL_INSTANCES(sgemm_kernel, products)
/* The kernel for this CPU; NULL: left out of a program of `inlay bundle`. */
const sgemm_kernel *sgemm_kernel_best(void);

/* A GEMM. Pointers are borrowed for the run. */
typedef struct sgemm_job {
    const sgemm_kernel *kernel;
    int64_t m, n, k; /* all above 0 */
    int64_t chain;   /* see sgemm_chain */
    const float *a;
    int64_t a_row; /* elements between rows, also below */
    const float *b;
    int64_t width;     /* columns of a panel, at most SGEMM_WIDTH */
    int64_t b_panel;   /* elements from one panel to the next */
    int64_t b_step;    /* from one k to the next: width in packed panels, more in a row-major B */
    int b_terms;       /* only terms.h */
    const float *bias; /* [n], or NULL */
    bool add;          /* accumulates onto c; bias must be NULL */
    float *c;
    int64_t c_row;
    int64_t blocks;          /* minimum number of row blocks; 0: as the cache size demands */
    const sgemm_post *posts; /* operands of these start at the first row and column of C */
    uint32_t post_count;
} sgemm_job;

/* The number of units that a job is divided into. They may run in any order and concurrently; a worker should take
 * consecutive ones. */
int64_t sgemm_units(const sgemm_job *job);
/* Are panels of `width` columns (0: not known yet) of n columns enough for threads to have about the same work? */
static inline bool sgemm_shares_evenly(int64_t n, int64_t width, int64_t threads)
{
    const int64_t vectors = n / SGEMM_LANES + (n % SGEMM_LANES != 0), panels = width > 0 ? (n + width - 1) / width : 0,
                  most = (panels + threads - 1) / threads * (width / SGEMM_LANES);

    return width == 0 || 10 * (most < vectors ? most : vectors) * threads <= 11 * vectors;
}
/* Sets `blocks` so that each thread gets separate rows, if these are enough to keep it busy while weights are
 * loaded, or if panels cannot be shared evenly and there are a few. The results are then in the cache of the core that
 * reads them in the next layer. */
void sgemm_share(sgemm_job *job, uint32_t threads);
void sgemm_run(const sgemm_job *job, int64_t begin, int64_t end);
/* Estimated nanoseconds on one core, to choose the number of threads. */
double sgemm_estimate_ns(const sgemm_job *job);
#endif
