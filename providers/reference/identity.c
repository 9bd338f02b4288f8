/* Identity: ONNX 1, 13, 14, 16, 19, 21, 23, 24, 25, for tensors of any type. The host handles sequences and
 * optionals. */
#include "operators/operators.h"

static inlay_status run_identity(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];

    if (input->data != call->out[0].data)
        memcpy(call->out[0].data, input->data, kit_bytes(input->dtype, input->count));
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "Identity", .flags = KIT_IN_PLACE, .run = run_identity },
};
const kit_table reference_identity = { kernels, KIT_COUNT(kernels) };
