/* passes/reduced_products.h - matrix multiplications and convolutions that option reduce computes in 8-bit integers. */
#ifndef PASSES_REDUCED_PRODUCTS_H
#define PASSES_REDUCED_PRODUCTS_H
#include "graph/graph.h"

/* Arithmetics, cheapest first; names in reduced_arithmetics[]. */
enum { REDUCED_INT8, REDUCED_WEIGHTS8, REDUCED_ARITHMETICS };
extern const char *const reduced_arithmetics[REDUCED_ARITHMETICS];
/* The number of the arithmetic; REDUCED_ARITHMETICS: there is none of that name. */
uint32_t reduced_arithmetic_find(const char *name);

/* An item of option reduce, or of a table of errors. */
typedef struct pass_reduction {
    const char *pattern; /* see graph_node_matches(); the name of a node if is_name */
    bool is_name;
    uint32_t arithmetic;
    uint64_t weights; /* reduced_product_hash() of the node; 0: any */
    bool used;        /* out: the pass has replaced a node */
} pass_reduction;

/* Is the node of the main graph a MatMul, Gemm or Conv that the pass replaces in this arithmetic, if its weights are
 * finite? */
bool reduced_product_fits(const struct graph *graph, const graph_node *node, uint32_t arithmetic);

/* The weights of such a node as a matrix: element (i, k) is weights[i * row + k * column]. A column is the weights of a
 * filter. */
typedef struct reduced_factor {
    int64_t depth, columns, row, column;
} reduced_factor;
reduced_factor reduced_product_factor(const struct graph *graph, const graph_node *node);
/* A hash of the weights of such a node, not 0. */
uint64_t reduced_product_hash(const struct graph *graph, const graph_node *node);
#endif
