/* BitwiseAnd, BitwiseOr, BitwiseXor (ONNX 18), BitShift (11). One loop per width, since the sign does not matter. */
#include "operators/instance.h"
#include "operators/elementwise.h"
#include <stdlib.h>

#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))
/* Shifting by the width or more gives 0. */
#define LEFT(a, b) ((b) < 8 * sizeof(T) ? (uint64_t)(a) << (b) : 0)
#define RIGHT(a, b) ((b) < 8 * sizeof(T) ? (uint64_t)(a) >> (b) : 0)

#define RESULT T
#define ONLY_UNSIGNED
#define BODY "bitwise.inc"
#include "operators/integers.inc"
#undef RESULT

typedef struct bitwise_row {
    const char *name;
    elementwise_binary_fn by_width[4]; /* 1, 2, 4, 8 bytes */
} bitwise_row;

#define BY_WIDTH(name)                                                                                                 \
    {                                                                                                                  \
        name##_u8, name##_u16, name##_u32, name##_u64                                                                  \
    }
static const bitwise_row rows[] = {
    { "BitwiseAnd", BY_WIDTH(and) }, { "BitwiseOr", BY_WIDTH(or) }, { "BitwiseXor", BY_WIDTH(xor) },
    { "BitShift", BY_WIDTH(left) },  { "RIGHT", BY_WIDTH(right) }, /* BitShift with direction RIGHT */
};

static inlay_status prepare_bitwise(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *direction = kit_attr_string(node->info, "direction", "LEFT");
    inlay_dtype dtype = kit_input_dtype(node, 0);
    const bitwise_row *row = rows;
    elementwise_binary *binary = calloc(1, sizeof *binary);

    *out_state = binary;
    if (binary == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    while (row < rows + KIT_COUNT(rows) - 1 && !elementwise_is(node->info, row->name))
        row++;
    if (elementwise_is(node->info, "BitShift") && strcmp(direction, "RIGHT") == 0)
        row = &rows[KIT_COUNT(rows) - 1];
    else if (strcmp(direction, "LEFT") != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "BitShift: direction is '%s'; it can be LEFT or RIGHT", direction);
    binary->compute = binary->result = dtype;
    binary->fn = row->by_width[__builtin_ctz((unsigned)elementwise_bytes(dtype) | 8u)];
    return INLAY_OK;
}

#define BITWISE(name, types)                                                                                           \
    {                                                                                                                  \
        .op_type = name, .in_types = { types, types }, .flags = KIT_IN_PLACE, .prepare = prepare_bitwise,              \
        .shape = elementwise_binary_shape, .run = elementwise_binary_run                                               \
    }
static const kit_kernel kernels[] = {
    BITWISE("BitwiseAnd", KIT_INTEGERS),
    BITWISE("BitwiseOr", KIT_INTEGERS),
    BITWISE("BitwiseXor", KIT_INTEGERS),
    BITWISE("BitShift", KIT_UNSIGNED),
};
const kit_table OPERATOR(operators_bitwise) = { kernels, KIT_COUNT(kernels) };
