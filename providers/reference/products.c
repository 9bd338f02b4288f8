/* MatMul, Gemm, Conv, ConvTranspose and Einsum with the built-in GEMM kernels, for all types that they support. The
 * operators themselves are in providers/common. */
#include "reference/instance.h"
#include "common/products.h"
#include "reference/reference.h"

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
#include "common/products.def"
#undef PRODUCT
};
const kit_table OPERATOR(reference_products) = { kernels, KIT_COUNT(kernels) };
