/* sgemm.h - products of float matrices of our own, where they beat the library's: blocks of C stay in registers, panels
 * of B near the core, and what follows a product (bias, functions, other operands) is done while a block of C is in the
 * first-level cache.
 *
 *     C[m, n] = posts(A[m, k] * B[k, n] + bias[n])
 *
 * A is read as it lies, rows at any distance. B lies in panels of `width` columns: panel after panel, and within one, k
 * after k (oneDNN's AB16b64a and the like); columns beyond the last are padding. One kernel serves products of many
 * rows, which are bound by arithmetic, and of one, which are bound by the bytes of B. */
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
    SGEMM_FEW = 4 /* so few rows are multiplied by lines as they lie (dots) */
};

/* How many terms of a sum of k are added one after the other, at most; 0: SGEMM_CHAIN, as many as costs nothing. The
 * error of a sum grows with the root of that and of how many parts there are then, so precision strict cuts where
 * neither is many, which takes up to a tenth longer. */
static inline int64_t sgemm_chain(int64_t k, bool strict)
{
    const int64_t even = (int64_t)(2 * sqrt((double)k));

    return !strict ? 0 : even > SGEMM_LEAST_CHAIN ? even : SGEMM_LEAST_CHAIN;
}

/* What a block of C goes through. x is the element, o the other operand's. */
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
    const float *other; /* of ADD and the like */
    int64_t row, col;   /* elements from one row, and one column, of the other operand to the next; col is 0 or 1 */
} sgemm_post;

/* One block of C: rows (of the function's name) by `vectors` vectors, of which the last has `last` columns (1 to
 * SGEMM_LANES). The sums are added to `from`, from_row elements a row; NULL: to nothing. c may be from. `bias` is a row
 * that is added last; NULL: none. More than `chain` elements of k (never 0) are summed in parts of about the same
 * size. b_step: elements from one k to the next. With each k a line of the cache is fetched ahead, from ahead on in
 * steps of ahead_step elements: what comes after this panel of B, so that the first block that reads it does not wait
 * for memory. Any address will do. */
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

/* What becomes of rows of scores that are -infinity everywhere: 0; NaN, as Softmax has it; or 0, also of rows that have
 * a NaN. */
typedef enum sgemm_blank { SGEMM_BLANK_ZERO, SGEMM_BLANK_NAN, SGEMM_BLANK_GUARDED } sgemm_blank;

/* Rows of scores. Those that a row sees become e^(scale x + mask - top), top the largest of them, the others 0; its
 * factor is what to multiply by so that they sum to 1. x has room up to a multiple of SGEMM_LANES, which is
 * overwritten.
 */
typedef struct sgemm_scores {
    int64_t rows, count; /* scores in a row */
    int64_t seen;        /* by the first row; each further one sees one more, none more than there are */
    float *input;
    int64_t x_row;
    const float *mask; /* NULL: none */
    int64_t mask_row;  /* 0: the same for all */
    float scale;
    sgemm_blank blank;
    float *factors; /* [rows] */
} sgemm_scores;

/* The loops for one instruction set. Immutable. */
typedef struct sgemm_kernel {
    const char *isa;
    int64_t rows[SGEMM_VECTORS + 1];              /* most rows of a block with so many vectors */
    const sgemm_tile_fn *tile[SGEMM_VECTORS + 1]; /* [vectors][rows - 1] */
    void (*post)(const sgemm_post *post, float *c, int64_t c_row, int64_t rows, int64_t cols);
    /* Rows of scores become probabilities, up to what each is multiplied by. */
    void (*softmax)(const sgemm_scores *scores);
    /* Lines of `size` elements, `stride` apart, count of them (at most SGEMM_WIDTH), as a panel: out[k * SGEMM_WIDTH +
     * i] is element k of line i; 0 for the rest of the last SGEMM_LANES lines, what is beyond is left. */
    void (*panel)(const float *lines, int64_t stride, int64_t count, int64_t size, float *out);
    /* out[r * out_row + i] = the product of row r of a with line i of b, both of `size` elements: for few rows, where
     * making a panel of the lines would take longer. */
    void (*dots)(const float *a, int64_t a_row, int64_t rows, const float *b, int64_t b_stride, int64_t count,
                 int64_t size, float *out, int64_t out_row);
} sgemm_kernel;

KERNEL_INSTANCES(sgemm_kernel, products)
/* The kernel for this CPU; NULL: there is none that would be faster than a library's. */
const sgemm_kernel *sgemm_kernel_best(void);

/* A product. Pointers are borrowed for the run. */
typedef struct sgemm_job {
    const sgemm_kernel *kernel;
    int64_t m, n, k; /* all above 0 */
    int64_t chain;   /* see sgemm_chain */
    const float *a;
    int64_t a_row; /* elements between rows, also below */
    const float *b;
    int64_t width;     /* columns of a panel, at most SGEMM_WIDTH */
    int64_t b_panel;   /* elements from one panel to the next */
    int64_t b_step;    /* and from one k to the next: width in packed panels, more where B lies row by row */
    const float *bias; /* [n], or NULL */
    bool add;          /* the sums start from what is in c; bias is NULL then */
    float *c;
    int64_t c_row;
    int64_t blocks;          /* of rows, at least; 0: as many as the cache asks for */
    const sgemm_post *posts; /* operands of these start at the first row and column of C */
    uint32_t post_count;
} sgemm_job;

/* The job is cut into so many units, which may run in any order and at once: runs of neighbours are best. */
int64_t sgemm_units(const sgemm_job *job);
/* Sets blocks so that each of the threads gets rows of its own where these are enough to keep it busy while weights
 * come: what one product made of them is then in the cache of the core that reads it for the next. */
void sgemm_share(sgemm_job *job, uint32_t threads);
void sgemm_run(const sgemm_job *job, int64_t begin, int64_t end);
/* Estimated nanoseconds on one core: for the choice of how many to wake. */
double sgemm_estimate_ns(const sgemm_job *job);
#endif
