/* And, Or, Xor (ONNX 1, 7) on bool; any nonzero byte is true. */
#include "operators/instance.h"
#include "operators/elementwise.h"
#include <stdlib.h>

#define T uint8_t
#define RESULT uint8_t
#define LOOP and_bool
#define OP(a, b) (((a) != 0) & ((b) != 0))
#include "operators/binary.inc"
#undef OP
#define LOOP or_bool
#define OP(a, b) (((a) != 0) | ((b) != 0))
#include "operators/binary.inc"
#undef OP
#define LOOP xor_bool
#define OP(a, b) (((a) != 0) ^ ((b) != 0))
#include "operators/binary.inc"
#undef OP

static inlay_status prepare_logic(const kit_node *node, void **out_state, inlay_diag *diag)
{
    elementwise_binary *binary = calloc(1, sizeof *binary);

    *out_state = binary;
    if (binary == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    elementwise_binary_legacy(node, binary);
    binary->compute = binary->result = INLAY_BOOL;
    binary->fn = elementwise_is(node->info, "And") ? and_bool : elementwise_is(node->info, "Or") ? or_bool : xor_bool;
    return INLAY_OK;
}

#define LOGIC(name)                                                                                                    \
    {                                                                                                                  \
        .op_type = name, .in_types = { KIT_BIT(BOOL), KIT_BIT(BOOL) }, .flags = KIT_IN_PLACE,                          \
        .prepare = prepare_logic, .shape = elementwise_binary_shape, .run = elementwise_binary_run                     \
    }
static const kit_kernel kernels[] = {
    LOGIC("And"),
    LOGIC("Or"),
    LOGIC("Xor"),
};
const kit_table OPERATOR(operators_logic) = { kernels, KIT_COUNT(kernels) };
