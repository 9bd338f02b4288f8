/* Operators that change only the shape: Reshape (ONNX 1, 5, 13, 14, 19, 21, 23, 24, 25), Flatten (1, 9, 11, 13, 21, 23,
 * 24, 25), Squeeze and Unsqueeze (1, 11, 13, 21, 23, 24, 25). Shape inference computes the shape; the elements are
 * copied here, unless input and output share a buffer. */
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"

static inlay_status run_reshape(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    kit_tensor *output = &call->out[0];

    if (input->count != output->count)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "%lld elements do not fill a shape of %lld",
                          (long long)input->count, (long long)output->count);
    return strided_memcpy(call, output->data, input->data, kit_bytes(input->dtype, input->count));
}

static const kit_kernel kernels[] = {
    { .op_type = "Reshape", .flags = KIT_IN_PLACE_FIRST, .run = run_reshape },
    { .op_type = "Flatten", .flags = KIT_IN_PLACE_FIRST, .run = run_reshape },
    { .op_type = "Squeeze", .flags = KIT_IN_PLACE_FIRST, .run = run_reshape },
    { .op_type = "Unsqueeze", .flags = KIT_IN_PLACE_FIRST, .run = run_reshape },
};
const kit_table reference_reshape = { kernels, KIT_COUNT(kernels) };
