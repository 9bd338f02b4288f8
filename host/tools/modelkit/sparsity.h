/* modelkit/sparsity.h - counts zeros in weights and their patterns. */
#ifndef MODELKIT_SPARSITY_H
#define MODELKIT_SPARSITY_H
#include "graph/graph.h"

struct sparsity {
    const struct graph *graph;
    uint32_t value; /* the constant */
    uint64_t elements, zeros;
    uint64_t small; /* elements below 1/100 of the tensor's root mean square, zeros included; floats only */
    uint64_t groups, groups_2_4;    /* groups of four along the last axis, and those with at least two zeros */
    uint64_t rows, zero_rows;       /* slices along the first axis: filters of a convolution */
    uint64_t columns, zero_columns; /* slices along the last axis */
    uint64_t blocks, zero_blocks;   /* 4 x 4 blocks of the matrix [first axis, rest] */
    uint64_t bytes;
};

struct sparsities {
    struct sparsity *list; /* [count] in the order of graphs and values; memory of the arena */
    uint32_t count;
    uint64_t least; /* smallest number of elements of a reported constant */
    int (*progress)(void *user, double fraction, const char *what); /* or NULL; non-zero stops */
    struct arena arena;
};

/* Analyses the constants of all graphs. The caller releases the arena. INLAY_CANCELLED: progress returned non-zero. */
INLAY_NODISCARD inlay_status sparsity_find(const graph_model *model, struct sparsities *out, inlay_diag *diag);
#endif
