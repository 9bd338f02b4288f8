/* products.h - the phases of the operators in products.def, for kit_kernel. Each provider has its own kernel table,
 * which chooses types and costs. kit_node.provider must begin with a gemm_engine. */
#ifndef PRODUCTS_H
#define PRODUCTS_H
#include "operators/conv.h"

#define PRODUCT_PHASES(stem)                                                                                           \
    inlay_status product_##stem##_prepare(const kit_node *node, void **out_state, inlay_diag *diag);                   \
    void product_##stem##_release(void *state);                                                                        \
    inlay_status product_##stem##_shape(const void *state, kit_plan *plan, inlay_diag *diag);                          \
    inlay_status product_##stem##_run(const kit_call *call);                                                           \
    /* Sets flops and the bytes moved if the shapes are known; the provider sets ns. */                                \
    void product_##stem##_cost(const kit_node *node, const kit_plan *shapes, struct inlay_cost *cost);
PRODUCT_PHASES(mat_mul)
PRODUCT_PHASES(gemm)
PRODUCT_PHASES(conv)
PRODUCT_PHASES(conv_transpose)
PRODUCT_PHASES(einsum)
#undef PRODUCT_PHASES
#endif
