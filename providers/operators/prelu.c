/* PRelu: ONNX 1, 6, 7, 9, 16. The slope broadcasts to the input; in versions 1 and 6 a vector applies to dimension
 * 1. */
#include "operators/instance.h"
#include "operators/elementwise.h"
#include <stdlib.h>

#define T float
#define RESULT float
#define LOOP prelu_f32
#define OP(a, b) ((a) < 0.0f ? (a) * (b) : (a))
#include "operators/binary.inc"
#undef OP
#undef T
#undef RESULT
#define T double
#define RESULT double
#define LOOP prelu_f64
#define OP(a, b) ((a) < 0.0 ? (a) * (b) : (a))
#include "operators/binary.inc"
#undef OP
#undef T
#undef RESULT
#define T int64_t
#define RESULT int64_t
#define LOOP prelu_i64
#define OP(a, b) ((a) < 0 ? (int64_t)((uint64_t)(a) * (uint64_t)(b)) : (a))
#include "operators/binary.inc"
#undef OP
#undef T
#undef RESULT
#define T uint64_t
#define RESULT uint64_t
#define LOOP prelu_u64 /* unsigned values are never negative, so the slope is not used */
#define OP(a, b) ((void)(b), (a))
#include "operators/binary.inc"
#undef OP

static inlay_status prepare_prelu(const kit_node *node, void **out_state, inlay_diag *diag)
{
    uint64_t type = INLAY_DTYPE_BIT(kit_input_dtype(node, 0));
    elementwise_binary *binary = calloc(1, sizeof *binary);

    *out_state = binary;
    if (binary == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    binary->broadcast = kit_since_version(node) < 7 ? ELEMENTWISE_CHANNEL : ELEMENTWISE_NUMPY;
    binary->fn = prelu_f32;
    binary->compute = INLAY_FLOAT;
    if (type == KIT_BIT(DOUBLE)) {
        binary->fn = prelu_f64;
        binary->compute = INLAY_DOUBLE;
    } else if ((type & KIT_INTEGERS) != 0) {
        binary->fn = (type & KIT_SIGNED) != 0 ? prelu_i64 : prelu_u64;
        binary->compute = INLAY_INT64;
    }
    binary->result = binary->compute;
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "PRelu",
      .in_types = { KIT_FLOATS | KIT_BIT(UINT32) | KIT_BIT(UINT64) | KIT_BIT(INT32) | KIT_BIT(INT64) },
      .flags = KIT_IN_PLACE,
      .prepare = prepare_prelu,
      .shape = elementwise_binary_shape,
      .run = elementwise_binary_run,
      .row = elementwise_binary_row,
      .row_inputs = 2,
      .row_fits = elementwise_binary_row_fits },
};
const kit_table OPERATOR(operators_prelu) = { kernels, KIT_COUNT(kernels) };
