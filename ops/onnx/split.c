/* onnx/split.c - splitting along an axis. */
#include "schema.h"
#include "inlay/check.h"

/* The size of part o of an axis that is split evenly; in Split-18 the last parts may be smaller. */
static inlay_status even_part(op_infer *infer, inlay_dim whole, uint32_t o, inlay_dim *out)
{
    const int64_t count = (int64_t)infer->out_count;
    const inlay_dim part = dim_ceil_div(infer, whole, dim_fixed(count));
    int64_t left;

    INLAY_CHECK(o < infer->out_count);
    *out = part;
    if (whole.kind != INLAY_DIM_FIXED) {
        if (o + 1 == infer->out_count)
            *out = dim_sub(infer, whole, dim_mul(infer, part, dim_fixed(count - 1)));
        return INLAY_OK;
    }
    if (infer->node->since_version < 18 && whole.value % count != 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "an axis of size %lld does not split into %lld equal parts",
                          (long long)whole.value, (long long)count);
    left = whole.value - (int64_t)o * part.value;
    *out = dim_fixed(left < 0 ? 0 : left < part.value ? left : part.value);
    return INLAY_OK;
}

/* The sizes of the parts from the input or attribute `split`. NULL if the node has neither, or if the sizes are not
 * known; if they are not known, *out_known is false. */
static const inlay_dim *stated_parts(op_infer *infer, inlay_dim *room, uint32_t *out_count, bool *out_known)
{
    const bool by_input = infer->node->since_version >= 13 || infer->node->since_version == 1;
    const int64_t *ints;

    *out_known = true;
    if (by_input && infer_has_in(infer, 1)) {
        const inlay_dim *elements;

        if (infer->node->since_version == 1) { /* in Split-1 the input has floats */
            double values[INFER_MAX_ELEMENTS];

            *out_known = infer_floats(infer, 1, values, INFER_MAX_ELEMENTS, out_count);
            for (uint32_t i = 0; i < *out_count; i++)
                room[i] = dim_fixed(values[i] >= 0 && values[i] < 9e15 ? (int64_t)values[i] : -1);
            return *out_known ? room : NULL;
        }
        elements = infer_elements(infer, 1, out_count);
        *out_known = elements != NULL;
        return elements;
    }
    ints = infer_attr_ints(infer, "split", out_count);
    for (uint32_t i = 0; i < *out_count && i < INFER_MAX_ELEMENTS; i++)
        room[i] = dim_fixed(ints[i]);
    return *out_count > 0 && *out_count <= INFER_MAX_ELEMENTS ? room : NULL;
}

/* Propagates the elements of a part of a vector. */
static inlay_status part_elements(op_infer *infer, uint32_t o, uint32_t begin, uint32_t size)
{
    uint32_t count;
    const inlay_dim *elements = infer_elements(infer, 0, &count);

    if (elements == NULL || begin > count || size > count - begin || !infer_has_out(infer, o))
        return INLAY_OK;
    return infer_set_elements(infer, o, size, elements + begin);
}

static inlay_status infer_split(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK], room[INFER_MAX_ELEMENTS], whole, total = dim_fixed(0);
    uint32_t axis, count;
    const inlay_dim *parts;
    inlay_status status = INLAY_OK;
    int64_t at = 0;
    bool known;

    if (rank == INLAY_RANK_UNKNOWN || infer->out_count == 0)
        return INLAY_OK;
    if (infer_attr_int(infer, "num_outputs", infer->out_count) != (int64_t)infer->out_count)
        return infer_fail(infer, INLAY_INVALID_MODEL, "num_outputs is %lld, but the node has %u outputs",
                          (long long)infer_attr_int(infer, "num_outputs", 0), infer->out_count);
    INLAY_TRY(infer_check_list(infer, 1));
    INLAY_TRY(infer_axis(infer, infer_attr_int(infer, "axis", 0), rank, "axis", &axis));
    whole = infer_dim(infer, 0, axis);
    parts = stated_parts(infer, room, &count, &known);
    if (parts != NULL && count != infer->out_count)
        return infer_fail(infer, INLAY_INVALID_MODEL, "split has %u values for %u outputs", count, infer->out_count);
    for (uint32_t o = 0; o < infer->out_count; o++) {
        for (uint32_t d = 0; d < rank; d++)
            dims[d] = infer_dim(infer, 0, d);
        if (parts != NULL)
            dims[axis] = parts[o];
        else if (known)
            INLAY_TRY(even_part(infer, whole, o, &dims[axis]));
        else
            dims[axis] = dim_unknown();
        total = dim_add(infer, total, dims[axis]);
        INLAY_TRY(infer_set_shape(infer, o, rank, dims));
        if (rank == 1 && dims[0].kind == INLAY_DIM_FIXED && at >= 0 && at <= INFER_MAX_ELEMENTS &&
            dims[0].value <= INFER_MAX_ELEMENTS)
            INLAY_TRY(part_elements(infer, o, (uint32_t)at, (uint32_t)dims[0].value));
        at = at >= 0 && at <= INFER_MAX_ELEMENTS && dims[axis].kind == INLAY_DIM_FIXED &&
                     dims[axis].value <= INFER_MAX_ELEMENTS
                 ? at + dims[axis].value
                 : -1;
    }
    if (total.kind == INLAY_DIM_FIXED && whole.kind == INLAY_DIM_FIXED && total.value != whole.value)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "split sums up to %lld, but axis %u has size %lld",
                          (long long)total.value, axis, (long long)whole.value);
done:
    return status;
}

static const op_row onnx_split_rows[] = {
    { "Split", 1, 0, "input:T, split?:T -> outputs...*:T; T=@float; axis:i, split:is", infer_split },
    { "Split", 2, 0, "input:T -> outputs*:T; T=@all; axis:i=0, split:is", infer_split },
    { "Split", 11, 0, "input:T -> outputs*:T; T=@all; axis:i=0, split:is", infer_split },
    { "Split", 13, 0, "input:T, split?:int64 -> outputs*:T; T=@all_ir4; axis:i=0", infer_split },
    { "Split", 18, 0, "input:T, split?:int64 -> outputs*:T; T=@all_ir4; axis:i=0, num_outputs:i", infer_split },
};

const op_table op_onnx_split = { "ai.onnx", onnx_split_rows, OP_COUNT(onnx_split_rows) };
