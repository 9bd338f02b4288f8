/* NonZero (ONNX 9, 13) and Compress (9, 11): what the data says decides how much there is, so the output is allocated
 * by the run. */
#include "args.h"
#include "reference.h"
#include "strided.h"

/* ------------------------------------------------------------------ NonZero */

/* Is the element not zero? Zeros of floats have two signs; a string counts when it is not empty. */
static bool is_set(const kit_tensor *x, int64_t i)
{
    const char *data = x->data;
    uint16_t half;

    switch (x->dtype) {
    case INLAY_FLOAT:
        return ((const float *)x->data)[i] != 0;
    case INLAY_DOUBLE:
        return ((const double *)x->data)[i] != 0;
    case INLAY_FLOAT16:
    case INLAY_BFLOAT16:
        memcpy(&half, data + 2 * i, sizeof half);
        return (half & 0x7fff) != 0;
    case INLAY_COMPLEX64:
        return ((const float *)x->data)[2 * i] != 0 || ((const float *)x->data)[2 * i + 1] != 0;
    case INLAY_COMPLEX128:
        return ((const double *)x->data)[2 * i] != 0 || ((const double *)x->data)[2 * i + 1] != 0;
    case INLAY_STRING:
        return ((const inlay_str *)x->data)[i].bytes > 0;
    case INLAY_BOOL:
    case INLAY_INT8:
    case INLAY_UINT8:
        return data[i] != 0;
    case INLAY_INT16:
    case INLAY_UINT16:
        return ((const uint16_t *)x->data)[i] != 0;
    case INLAY_INT32:
    case INLAY_UINT32:
        return ((const uint32_t *)x->data)[i] != 0;
    default:
        return ((const uint64_t *)x->data)[i] != 0;
    }
}

/* Indexes of the elements that are not zero, [rank, count]; a scalar counts as a vector of one element here, and has no
 * axis to name: [0, count]. */
static inlay_status run_non_zero(const kit_call *call)
{
    const kit_tensor *x = &call->in[0];
    int64_t dims[2] = { x->rank, 0 }, index[INLAY_MAX_RANK] = { 0 }, at = 0;
    inlay_status status;
    int64_t *y;

    for (int64_t i = 0; i < x->count; i++)
        dims[1] += is_set(x, i);
    status = kit_alloc_output(call, 0, 2, dims);
    if (status != INLAY_OK || call->out[0].data == NULL)
        return status;
    y = call->out[0].data;
    for (int64_t i = 0; i < x->count; i++) {
        if (is_set(x, i)) {
            for (uint32_t d = 0; d < x->rank; d++)
                y[d * dims[1] + at] = index[d];
            at++;
        }
        for (uint32_t d = x->rank; d-- > 0;) {
            if (++index[d] < x->dims[d])
                break;
            index[d] = 0;
        }
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ Compress */

typedef struct compress_state {
    int64_t axis;
    bool flat;
} compress_state;

static inlay_status prepare_compress(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_state(sizeof(compress_state), out_state, diag);

    if (status == INLAY_OK)
        *(compress_state *)*out_state =
            (compress_state){ kit_attr_int(node->info, "axis", 0), kit_attr(node->info, "axis") == NULL };
    return status;
}

/* Keeps the slices whose condition holds; a condition shorter than the axis drops the rest. */
static inlay_status run_compress(const kit_call *call)
{
    const compress_state *state = call->state;
    const kit_tensor *x = &call->in[0], *condition = &call->in[1];
    const uint8_t *keep = condition->data;
    int64_t dims[INLAY_MAX_RANK], kept = 0, length, outer, block, count;
    uint32_t axis = 0, rank = state->flat ? 1 : x->rank;
    inlay_status status;
    char *to;

    if (!state->flat) {
        status = arg_axis(call->diag, state->axis, x->rank, "axis", &axis);
        if (status != INLAY_OK)
            return status;
        memcpy(dims, x->dims, x->rank * sizeof *dims);
    }
    length = state->flat ? x->count : x->dims[axis];
    if (condition->rank != 1)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "condition has rank %u; it must be a vector",
                          condition->rank);
    count = condition->count < length ? condition->count : length;
    for (int64_t i = 0; i < condition->count; i++) {
        if (keep[i] != 0 && i >= length)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "condition[%lld] holds, but there are %lld slices",
                              (long long)i, (long long)length);
        kept += keep[i] != 0;
    }
    dims[axis] = kept;
    status = kit_alloc_output(call, 0, rank, dims);
    if (status != INLAY_OK || call->out[0].data == NULL || x->count == 0)
        return status;
    outer = state->flat ? 1 : strided_product(x->dims, 0, axis);
    block = (state->flat ? 1 : strided_product(x->dims, axis + 1, x->rank)) * strided_element_bytes(x->dtype);
    to = call->out[0].data;
    for (int64_t o = 0; o < outer; o++) {
        const char *from = (const char *)x->data + o * length * block;

        for (int64_t i = 0; i < count; i++) {
            if (keep[i] == 0)
                continue;
            memcpy(to, from + i * block, (size_t)block);
            to += block;
        }
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "NonZero", .flags = KIT_SHAPES_AT_RUN, .run = run_non_zero },
    { .op_type = "Compress", .flags = KIT_SHAPES_AT_RUN, .prepare = prepare_compress, .run = run_compress },
};
const kit_table reference_non_zero = { kernels, KIT_COUNT(kernels) };
