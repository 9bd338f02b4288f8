/* product_cost.h - what the products of an operator take: the operator says what is multiplied, its engine how fast. */
#ifndef PRODUCT_COST_H
#define PRODUCT_COST_H
#include "gemm.h"

/* `batch` products of m x k by k x n. Counts are double: they are estimates, and never overflow. */
struct product_size {
    double batch, m, n, k;
    bool a_constant, b_constant; /* known before the run: an engine may have packed it */
    bool a_across;               /* lines of A are neighbours in memory (transposed) */
    bool b_along;                /* lines of B lie along memory (transposed) */
    bool b_windows;              /* B is made of the windows of a convolution */
};

/* Sets ns from `count` products, one after the other, in type GEMM_* by the engine of the node's provider, and `more`
 * nanoseconds of other work; flops and confidence too. */
void product_cost_set(const kit_node *node, const kit_plan *shapes, uint32_t type, const product_size *sizes,
                      uint32_t count, double more, inlay_cost *cost);

/* The time that memory takes to deliver bytes, given how much it is in all: caches are faster. */
double product_memory_ns(double bytes);
#endif
