/* Shape (ONNX 1, 13, 15, 19, 21, 23, 24, 25) and Size (1, 13, 19, 21, 23, 24, 25): the dims, or their product, as a
 * tensor. The host computes most of these nodes when it plans. */
#include "operators/args.h"
#include "operators/operators.h"

typedef struct shape_state {
    int64_t start, end;
    bool has_end;
} shape_state;

static inlay_status prepare_shape(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(shape_state), out_state, diag);

    if (status == INLAY_OK)
        *(shape_state *)*out_state = (shape_state){ .start = kit_attr_int(node->info, "start", 0),
                                                    .end = kit_attr_int(node->info, "end", 0),
                                                    .has_end = kit_attr(node->info, "end") != NULL };
    return status;
}

/* Shape-15: negative positions count from the end, all are clamped to [0, rank]. */
static int64_t clamp_position(int64_t at, uint32_t rank)
{
    at = at < 0 ? at + (int64_t)rank : at;
    return at < 0 ? 0 : at > (int64_t)rank ? (int64_t)rank : at;
}

static inlay_status run_shape(const kit_call *call)
{
    const shape_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    const int64_t start = clamp_position(state->start, input->rank);
    const int64_t end = state->has_end ? clamp_position(state->end, input->rank) : (int64_t)input->rank;
    const int64_t count = end > start ? end - start : 0;
    inlay_status status = arg_expect_dims(call->diag, output, 1, &count);

    if (status == INLAY_OK && count > 0)
        memcpy(output->data, input->dims + start, (size_t)count * sizeof *input->dims);
    return status;
}

static inlay_status run_size(const kit_call *call)
{
    *(int64_t *)call->out[0].data = call->in[0].count;
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "Shape", .prepare = prepare_shape, .run = run_shape },
    { .op_type = "Size", .run = run_size },
};
const kit_table reference_shape = { kernels, KIT_COUNT(kernels) };
