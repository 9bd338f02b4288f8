/* product_cost.h - time estimates of matrix multiplications: the operator provides the sizes, the engine its speed. */
#ifndef PRODUCT_COST_H
#define PRODUCT_COST_H
#include "inlay/kit_table.h"
#include "operators/gemm.h"

/* `batch` multiplications of m x k by k x n. Counts are double, since they are estimates and must not overflow. */
struct product_size {
    double batch, m, n, k;
    bool a_constant, b_constant; /* known before the run, so an engine may have packed it */
    bool a_across;               /* lines of A are adjacent in memory (transposed) */
    bool b_along;                /* lines of B are contiguous in memory (transposed) */
    bool b_windows;              /* B is built from the windows of a convolution */
    double window_ns;            /* additional time of one element of B, because of a stride */
};

/* The time of other instructions than multiplications on this machine, compared with the core on which constants were
 * measured; at least 1. */
double product_cost_slower(const struct inlay_host *host);

/* Sets ns for `count` sequential multiplications in type GEMM_* by the engine of the node's provider, plus `more`
 * nanoseconds of other work; also sets flops and confidence. */
void product_cost_set(const kit_node *node, const kit_plan *shapes, uint32_t type, const product_size *sizes,
                      uint32_t count, double more, struct inlay_cost *cost);
#endif
