/* CenterCropPad: ONNX 18. Axes that are too large are cropped on both sides, axes that are too small are padded with
 * zeros on both sides. If the difference is odd, the end gets the larger half. */
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct crop_state {
    int64_t axes[INLAY_MAX_RANK];
    int32_t axis_count; /* -1: all axes */
} crop_state;

static inlay_status prepare_crop(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(crop_state), out_state, diag);

    if (status == INLAY_OK) {
        crop_state *state = *out_state;
        status = arg_ints(node, "axes", state->axes, INLAY_MAX_RANK, &state->axis_count, diag);
    }
    return status;
}

static inlay_status run_crop(const kit_call *call)
{
    const crop_state *state = call->state;
    const kit_tensor *input = &call->in[0], *shape = &call->in[1], *output = &call->out[0];
    const int64_t count = state->axis_count >= 0 ? state->axis_count : (int64_t)input->rank;
    const uint32_t element = strided_element_bytes(input->dtype);
    int64_t dims[INLAY_MAX_RANK], window[INLAY_MAX_RANK], from[INLAY_MAX_RANK], to[INLAY_MAX_RANK];
    const char *in = input->data;
    char *out = output->data;
    strided_plan plan;
    inlay_status status = INLAY_OK;

    if (shape->count != count || count > (int64_t)input->rank)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "shape has %lld values for %lld axes",
                          (long long)shape->count, (long long)count);
    memcpy(dims, input->dims, input->rank * sizeof *dims);
    for (int64_t i = 0; i < count; i++) {
        uint32_t axis;

        INLAY_TRY(arg_axis(call->diag, state->axis_count >= 0 ? state->axes[i] : i, input->rank, "axes", &axis));
        dims[axis] = arg_index(shape, i);
    }
    INLAY_TRY(arg_expect_dims(call->diag, output, input->rank, dims));
    if (output->count == 0)
        goto done;
    strided_row_major(input->rank, input->dims, element, from);
    strided_row_major(input->rank, dims, element, to);
    for (uint32_t i = 0; i < input->rank; i++) {
        window[i] = dims[i] < input->dims[i] ? dims[i] : input->dims[i];
        in += (input->dims[i] - window[i]) / 2 * from[i];
        out += (dims[i] - window[i]) / 2 * to[i];
    }
    if (strided_product(window, 0, input->rank) != output->count)
        memset(output->data, 0, (size_t)output->count * element);
    strided_plan_init(&plan, element, input->rank, window, from, to);
    status = strided_copy(call, &plan, in, out);
done:
    return status;
}

static const kit_kernel kernels[] = {
    { .op_type = "CenterCropPad", .prepare = prepare_crop, .run = run_crop },
};
const kit_table reference_center_crop_pad = { kernels, KIT_COUNT(kernels) };
