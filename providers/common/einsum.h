/* einsum.h - what the two files of Einsum share: einsum.c reads the equation and runs, einsum_plan.c turns the equation
 * and the inputs' shapes into steps. */
#ifndef EINSUM_H
#define EINSUM_H
#include "gemm.h"
#include "inlay/kit.h"

enum { LETTERS = 52, LABELS = LETTERS + INLAY_MAX_RANK, MAX_TERMS = 16, ELLIPSIS = 255 };

struct term {
    uint8_t labels[INLAY_MAX_RANK + 1]; /* 0..25 a-z, 26..51 A-Z, ELLIPSIS */
    uint32_t count;
    bool ellipsis;
};

/* The equation; labels as written. */
typedef struct einsum_state {
    struct term terms[MAX_TERMS];
    struct term output;
    uint32_t term_count;
    const gemm_engine *engine;
} einsum_state;

/* A tensor by labels. */
struct view {
    bool has[LABELS];
    int64_t stride[LABELS]; /* elements; 0 where it broadcasts */
    uint32_t input;         /* of the node, or */
    bool in_workspace;
    uint64_t at; /* bytes from the start of the workspace */
};

/* c[outer, inner] = sum over k of a * b, by loops. */
struct loops {
    uint32_t rank; /* of outer */
    int64_t dims[LABELS], a[LABELS], b[LABELS];
    int64_t outer, inner, a_inner, b_inner;
    int64_t sums;
    int64_t *a_sum; /* [sums] */
};

/* One step: two terms become one, or a single term is reduced. */
struct contraction {
    struct view left, right, result;
    bool single, product; /* product: by gemm */
    gemm_job job;
    struct loops loops;
    int64_t *row_at, *column_at, *batch_at; /* where results go when they are not in order */
};

/* One allocation, tables included. */
typedef struct einsum_plan {
    const gemm_kernel *kernel;
    uint32_t type;     /* GEMM_* that is computed in */
    inlay_dtype dtype; /* its element type */
    bool widen;
    int64_t size[LABELS];
    uint64_t gemm_at;
    uint32_t step_count;
    struct contraction steps[MAX_TERMS];
    uint64_t widened_at[MAX_TERMS], result_at; /* copies of inputs, and of the output, when widening */
    int64_t *tables;
    int64_t table_used, table_size;
} einsum_plan;

/* Reads the equation of a node; it borrows nothing. */
INLAY_NODISCARD inlay_status einsum_read(const kit_node *node, einsum_state *out, inlay_diag *diag);
/* Is there a label that two terms share and that is summed over? */
bool einsum_is_product(const einsum_state *state);
#endif
