/* modelkit/sparsity.h - zeros in weights: how many, and in which patterns. */
#ifndef MODELKIT_SPARSITY_H
#define MODELKIT_SPARSITY_H
#include "graph/graph.h"

struct sparsity {
    const struct graph *graph;
    uint32_t v;
    uint64_t elements, zeros;
    uint64_t small; /* of size below a hundredth of the tensor's root mean square, zeros among them; floats only */
    uint64_t groups, groups_2_4;    /* of four along the last axis, and those with at least two zeros */
    uint64_t rows, zero_rows;       /* along the first axis: filters of a convolution */
    uint64_t columns, zero_columns; /* along the last axis */
    uint64_t blocks, zero_blocks;   /* of 4 x 4 in the matrix [first axis, rest] */
    uint64_t bytes;
};

struct sparsities {
    struct sparsity *list; /* [count] in the order of the graphs and their values; the arena's */
    uint32_t count;
    uint64_t least;                                                 /* elements of a constant that counts */
    int (*progress)(void *user, double fraction, const char *what); /* or NULL; non-zero stops */
    struct arena arena;
};

/* Looks at the constants of all graphs. The caller releases the arena. INLAY_CANCELLED: progress said so. */
INLAY_NODISCARD inlay_status sparsity_find(const graph_model *model, struct sparsities *out, inlay_diag *diag);
#endif
