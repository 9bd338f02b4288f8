/* Equal (ONNX 1, 7, 11, 13, 19), Less and Greater (1, 7, 9, 13), LessOrEqual and GreaterOrEqual (12, 16). */
#include "operators/instance.h"
#include "operators/elementwise.h"
#include <stdlib.h>

#define RESULT uint8_t
#define T float
#define SUFFIX f32
#include "operators/compare.inc"
#undef T
#undef SUFFIX
#define T double
#define SUFFIX f64
#include "operators/compare.inc"
#undef T
#undef SUFFIX
#define BODY "compare.inc"
#include "operators/integers.inc"

#define T uint8_t
#define LOOP equal_bool
#define OP(a, b) (((a) != 0) == ((b) != 0))
#include "operators/binary.inc"
#undef OP
#undef T
#define T inlay_str
#define LOOP equal_str
#define OP(a, b) ((a).bytes == (b).bytes && ((a).bytes == 0 || memcmp((a).data, (b).data, (a).bytes) == 0))
#include "operators/binary.inc"
#undef OP
#undef T

typedef struct compare_row {
    const char *op_type;
    elementwise_binary_fn by_dtype[INLAY_DTYPE_COUNT];
} compare_row;

#define NUMBERS(name)                                                                                                  \
    [INLAY_FLOAT] = name##_f32, [INLAY_DOUBLE] = name##_f64, [INLAY_UINT8] = name##_u8, [INLAY_UINT16] = name##_u16,   \
    [INLAY_UINT32] = name##_u32, [INLAY_UINT64] = name##_u64, [INLAY_INT8] = name##_i8, [INLAY_INT16] = name##_i16,    \
    [INLAY_INT32] = name##_i32, [INLAY_INT64] = name##_i64
static const compare_row rows[] = {
    { "Equal", { NUMBERS(equal), [INLAY_BOOL] = equal_bool, [INLAY_STRING] = equal_str } },
    { "Less", { NUMBERS(less) } },
    { "Greater", { NUMBERS(greater) } },
    { "LessOrEqual", { NUMBERS(less_or_equal) } },
    { "GreaterOrEqual", { NUMBERS(greater_or_equal) } },
};

static inlay_status prepare_compare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    const compare_row *row = rows;
    elementwise_binary *binary = calloc(1, sizeof *binary);

    *out_state = binary;
    if (binary == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    elementwise_binary_legacy(node, binary);
    while (row < rows + KIT_COUNT(rows) - 1 && !elementwise_is(node->info, row->op_type))
        row++;
    binary->compute = dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16 ? INLAY_FLOAT : dtype;
    binary->result = INLAY_BOOL;
    binary->fn = row->by_dtype[binary->compute];
    return INLAY_OK;
}

#define COMPARE(name, types)                                                                                           \
    {                                                                                                                  \
        .op_type = name, .in_types = { types, types }, .flags = KIT_IN_PLACE, .prepare = prepare_compare,              \
        .shape = elementwise_binary_shape, .run = elementwise_binary_run                                               \
    }
static const kit_kernel kernels[] = {
    COMPARE("Equal", KIT_NUMBERS | KIT_BIT(BOOL) | KIT_BIT(STRING)),
    COMPARE("Less", KIT_NUMBERS),
    COMPARE("Greater", KIT_NUMBERS),
    COMPARE("LessOrEqual", KIT_NUMBERS),
    COMPARE("GreaterOrEqual", KIT_NUMBERS),
};
const kit_table OPERATOR(operators_compare) = { kernels, KIT_COUNT(kernels) };
