/* MatMul, Gemm, Conv, ConvTranspose and Einsum with the built-in GEMM kernels, for all types that they support. The
 * phases of these operators (products.h) are functions that the provider openblas also uses. */
#include "operators/instance.h"
#include "operators/products.h"
#include "operators/operators.h"

static const kit_kernel kernels[] = {
#define PRODUCT(operator, newest, stem, check)                                                                         \
    { .op_type = operator,                                                                                             \
      .since_max = newest,                                                                                             \
      .supports = check,                                                                                               \
      .prepare = product_##stem##_prepare,                                                                             \
      .release = product_##stem##_release,                                                                             \
      .shape = product_##stem##_shape,                                                                                 \
      .run = product_##stem##_run,                                                                                     \
      .cost = product_##stem##_cost },
#include "operators/products.def"
#undef PRODUCT
};
const kit_table OPERATOR(operators_products) = { kernels, KIT_COUNT(kernels) };
