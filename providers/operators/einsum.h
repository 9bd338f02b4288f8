/* einsum.h - declarations shared by einsum.c, which parses the equation and runs it, and einsum_plan.c, which plans
 * its steps for given shapes. */
#ifndef EINSUM_H
#define EINSUM_H
#include "operators/gemm.h"
#include "inlay/kit_node.h"

enum { LETTERS = 52, LABELS = LETTERS + INLAY_MAX_RANK, MAX_TERMS = 16, ELLIPSIS = 255 };

struct term {
    uint8_t labels[INLAY_MAX_RANK + 1]; /* 0..25 a-z, 26..51 A-Z, ELLIPSIS */
    uint32_t count;
    bool ellipsis;
};

/* The parsed equation. */
typedef struct einsum_state {
    struct term terms[MAX_TERMS];
    struct term output;
    uint32_t term_count;
    const gemm_engine *engine;
} einsum_state;

/* The strides of a tensor by label. */
struct view {
    bool has[LABELS];
    int64_t stride[LABELS]; /* elements; 0 where it broadcasts */
    uint32_t input;         /* of the node, unless in_workspace */
    bool in_workspace;
    uint64_t at; /* byte offset in the workspace */
};

/* c[outer, inner] = sum over k of a * b, computed by loops. dims: sizes of the outer dimensions; a, b: the strides of
 * the operands over them. */
struct loops {
    uint32_t rank; /* number of outer dimensions */
    int64_t dims[LABELS], a[LABELS], b[LABELS];
    int64_t outer, inner, a_inner, b_inner;
    int64_t sums;
    int64_t *a_sum; /* [sums] offsets of the summed elements of a */
};

/* One step: contracts two terms, or reduces a single one. */
struct contraction {
    struct view left, right, result;
    bool single, product; /* product: computed by gemm */
    gemm_job job;
    struct loops loops;
    int64_t *row_at, *column_at, *batch_at; /* offsets of results if they are not in row-major order */
};

/* The plan and its tables are one allocation. */
typedef struct einsum_plan {
    const gemm_kernel *kernel;
    uint32_t type;     /* GEMM_*, the type of the computation */
    inlay_dtype dtype; /* the element type of the computation */
    bool widen;        /* inputs are converted to that type first */
    int64_t size[LABELS];
    uint64_t gemm_at;
    uint32_t step_count;
    struct contraction steps[MAX_TERMS];
    uint64_t widened_at[MAX_TERMS],
        result_at; /* offsets of converted inputs, and of the output before its conversion */
    int64_t *tables;
    int64_t table_used, table_size;
} einsum_plan;

/* Parses the equation of a node; keeps no pointers to it. */
INLAY_NODISCARD inlay_status einsum_read(const kit_node *node, einsum_state *out, inlay_diag *diag);
/* Whether two terms share a label that is summed over. */
bool einsum_has_product(const einsum_state *state);
#endif
