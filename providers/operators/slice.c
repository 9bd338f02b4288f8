/* Slice: ONNX 1 (attributes), 10, 11, 13 (inputs, steps of either sign). */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct slice_state {
    int64_t starts[INLAY_MAX_RANK], ends[INLAY_MAX_RANK], axes[INLAY_MAX_RANK];
    int32_t start_count, end_count, axis_count; /* number of entries of the attributes of Slice-1; -1: absent */
    bool by_attributes;
} slice_state;

static inlay_status prepare_slice(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    slice_state *state;

    INLAY_TRY(arg_allocate_state(sizeof(slice_state), out_state, diag));
    state = *out_state;
    state->by_attributes = kit_since_version(node) < 10;
    if (state->by_attributes) {
        INLAY_TRY(arg_ints(node, "starts", state->starts, INLAY_MAX_RANK, &state->start_count, diag));
        INLAY_TRY(arg_ints(node, "ends", state->ends, INLAY_MAX_RANK, &state->end_count, diag));
        INLAY_TRY(arg_ints(node, "axes", state->axes, INLAY_MAX_RANK, &state->axis_count, diag));
    }
done:
    return status;
}

/* Computes the start and the number of elements along one axis. Slice-10: negative values count from the end, all
 * values are clamped, and a negative step runs down to -1 exclusive. */
static void slice_axis(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *out_start, int64_t *out_count)
{
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? dim - 1 : dim;
    uint64_t span, stride = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;

    INLAY_CHECK(step != 0);
    start = start < 0 ? start + dim : start;
    end = end < 0 ? end + dim : end;
    start = start < 0 ? 0 : start > high ? high : start;
    end = end < low ? low : end > high ? high : end;
    if (dim == 0 || (step > 0 ? end <= start : end >= start)) {
        *out_start = *out_count = 0;
        return;
    }
    span = (uint64_t)(step > 0 ? end - start : start - end);
    *out_start = start;
    *out_count = (int64_t)((span - 1) / stride + 1);
}

typedef struct slice_box {
    int64_t start[INLAY_MAX_RANK], step[INLAY_MAX_RANK], dims[INLAY_MAX_RANK];
} slice_box;

/* Reads starts, ends, axes and steps from attributes or inputs, depending on the version. */
static inlay_status read_box(const kit_call *call, slice_box *box)
{
    const slice_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const bool attributes = state->by_attributes;
    const bool has_axes = attributes ? state->axis_count >= 0 : kit_has_input(call, 3);
    const bool has_steps = !attributes && kit_has_input(call, 4);
    const int64_t count = attributes ? state->start_count : call->in[1].count;
    const int64_t end_count = attributes ? state->end_count : call->in[2].count;
    uint32_t seen = 0;

    if (count < 0 || end_count != count || count > (int64_t)input->rank ||
        (has_axes && (attributes ? state->axis_count : call->in[3].count) != count) ||
        (has_steps && call->in[4].count != count))
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                          "starts, ends, axes and steps must have the same length, at most the rank %u", input->rank);
    for (uint32_t i = 0; i < input->rank; i++) {
        box->start[i] = 0;
        box->step[i] = 1;
        box->dims[i] = input->dims[i];
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t start = attributes ? state->starts[i] : arg_index(&call->in[1], i);
        const int64_t end = attributes ? state->ends[i] : arg_index(&call->in[2], i);
        const int64_t named = !has_axes ? i : attributes ? state->axes[i] : arg_index(&call->in[3], i);
        const int64_t step = has_steps ? arg_index(&call->in[4], i) : 1;
        uint32_t axis;
        inlay_status status = arg_axis(call->diag, named, input->rank, "axes", &axis);

        if (status != INLAY_OK)
            return status;
        if (step == 0)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "steps[%lld] is 0", (long long)i);
        if ((seen >> axis & 1) != 0)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "axes contains axis %u twice", axis);
        seen |= 1u << axis;
        slice_axis(input->dims[axis], start, end, step, &box->start[axis], &box->dims[axis]);
        box->step[axis] = step;
    }
    return INLAY_OK;
}

static inlay_status run_slice(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const uint32_t element = strided_element_bytes(input->dtype);
    int64_t from[INLAY_MAX_RANK], to[INLAY_MAX_RANK];
    const char *start = input->data;
    slice_box box;
    strided_plan plan;
    inlay_status status = read_box(call, &box);

    if (status == INLAY_OK)
        status = arg_expect_dims(call->diag, &call->out[0], input->rank, box.dims);
    if (status != INLAY_OK || call->out[0].count == 0)
        return status;
    strided_row_major(input->rank, input->dims, element, from);
    strided_row_major(input->rank, box.dims, element, to);
    for (uint32_t i = 0; i < input->rank; i++) {
        start += box.start[i] * from[i];
        from[i] = box.dims[i] > 1 ? from[i] * box.step[i] : 0; /* for a single element the product could overflow */
    }
    strided_plan_init(&plan, element, input->rank, box.dims, from, to);
    return strided_copy(call, &plan, start, call->out[0].data);
}

static const kit_kernel kernels[] = {
    { .op_type = "Slice", .prepare = prepare_slice, .run = run_slice },
};
const kit_table OPERATOR(operators_slice) = { kernels, KIT_COUNT(kernels) };
