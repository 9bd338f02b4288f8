/* onnx/reduce.c - reductions over axes. */
#include "schema.h"
#include "inlay/check.h"
#include <string.h>

/* Reads the axes from the attribute, or from the constant or propagated input. No axes: all axes are reduced, unless
 * noop_with_empty_axes is set. False: the axes are not known. */
static bool reduce_axes(op_infer *infer, int64_t *axes, uint32_t *out_count)
{
    const int64_t *attribute = infer_attr_ints(infer, "axes", out_count);

    if (attribute != NULL && *out_count <= INLAY_MAX_RANK) {
        for (uint32_t i = 0; i < *out_count; i++)
            axes[i] = attribute[i];
        return true;
    }
    *out_count = 0;
    return !infer_has_in(infer, 1) || infer_ints(infer, 1, axes, INLAY_MAX_RANK, out_count);
}

/* Propagates sums, products, minima and maxima of dimensions; ReduceProd of a shape is the number of elements. */
static inlay_status reduce_elements(op_infer *infer)
{
    const char *op = infer->node->op_type.data;
    uint32_t count;
    const inlay_dim *elements = infer_elements(infer, 0, &count);
    inlay_dim total;

    if (elements == NULL || count == 0 || infer_rank(infer, 0) != 1)
        return INLAY_OK;
    total = elements[0];
    for (uint32_t i = 1; i < count; i++) {
        bool fixed = total.kind == INLAY_DIM_FIXED && elements[i].kind == INLAY_DIM_FIXED;
        if (strcmp(op, "ReduceProd") == 0)
            total = dim_mul(infer, total, elements[i]);
        else if (strcmp(op, "ReduceSum") == 0)
            total = dim_add(infer, total, elements[i]);
        else if (fixed && strcmp(op, "ReduceMax") == 0)
            total = total.value > elements[i].value ? total : elements[i];
        else if (fixed && strcmp(op, "ReduceMin") == 0)
            total = total.value < elements[i].value ? total : elements[i];
        else
            return INLAY_OK;
    }
    if (count == 1 && strcmp(op, "ReduceProd") != 0 && strcmp(op, "ReduceSum") != 0 && strcmp(op, "ReduceMax") != 0 &&
        strcmp(op, "ReduceMin") != 0)
        return INLAY_OK;
    return total.kind == INLAY_DIM_UNKNOWN ? INLAY_OK : infer_set_elements(infer, 0, 1, &total);
}

static inlay_status infer_reduce(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    const bool keep = infer_attr_int(infer, "keepdims", 1) != 0;
    const bool none_is_all = infer_attr_int(infer, "noop_with_empty_axes", 0) == 0;
    bool reduced[INLAY_MAX_RANK] = { false };
    inlay_dim dims[INLAY_MAX_RANK];
    int64_t axes[INLAY_MAX_RANK];
    inlay_status status = INLAY_OK;
    uint32_t count, n = 0;
    bool known = reduce_axes(infer, axes, &count), all = known && count == 0 && none_is_all;

    INLAY_TRY(infer_check_list(infer, 1));
    if (all && !keep)
        INLAY_TRY(infer_set_shape(infer, 0, 0, NULL));
    if (rank == INLAY_RANK_UNKNOWN || rank > INLAY_MAX_RANK)
        goto done;
    if (!known) { /* the number of axes may be known */
        inlay_dim length = infer_dim(infer, 1, 0);
        bool counted = length.kind == INLAY_DIM_FIXED && length.value > 0 && length.value <= rank;
        for (uint32_t d = 0; d < rank; d++)
            dims[d] = dim_unknown();
        if (keep || counted)
            INLAY_TRY(infer_set_shape(infer, 0, keep ? rank : rank - (uint32_t)length.value, dims));
        goto done;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        INLAY_TRY(infer_axis(infer, axes[i], rank, "axes", &axis));
        reduced[axis] = true;
    }
    for (uint32_t d = 0; d < rank; d++) {
        if (!reduced[d] && !all)
            dims[n++] = infer_dim(infer, 0, d);
        else if (keep)
            dims[n++] = dim_fixed(1);
    }
    INLAY_CHECK(n <= rank && (!keep || n == rank));
    INLAY_TRY(infer_set_shape(infer, 0, n, dims));
    if (all || (rank == 1 && reduced[0]))
        status = reduce_elements(infer);
done:
    return status;
}

static const op_row onnx_reduce_rows[] = {
    { "ReduceL1", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceL1", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceL1", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceL1", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },

    { "ReduceL2", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceL2", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceL2", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceL2", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },

    { "ReduceLogSum", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceLogSum", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceLogSum", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceLogSum", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },

    { "ReduceLogSumExp", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceLogSumExp", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceLogSumExp", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceLogSumExp", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },

    { "ReduceMax", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMax", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMax", 12, 0, "data:T -> reduced:T; T=@math|uint8|int8; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMax", 13, 0, "data:T -> reduced:T; T=@math_ir4|uint8|int8; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMax", 18, 0,
      "data:T, axes?:int64 -> reduced:T; T=@math_ir4|uint8|int8; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },
    { "ReduceMax", 20, 0,
      "data:T, axes?:int64 -> reduced:T; T=@math_ir4|bool|uint8|int8; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },

    { "ReduceMean", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMean", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMean", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMean", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },

    { "ReduceMin", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMin", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMin", 12, 0, "data:T -> reduced:T; T=@math|uint8|int8; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMin", 13, 0, "data:T -> reduced:T; T=@math_ir4|uint8|int8; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceMin", 18, 0,
      "data:T, axes?:int64 -> reduced:T; T=@math_ir4|uint8|int8; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },
    { "ReduceMin", 20, 0,
      "data:T, axes?:int64 -> reduced:T; T=@math_ir4|bool|uint8|int8; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },

    { "ReduceProd", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceProd", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceProd", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceProd", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },

    { "ReduceSum", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceSum", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceSum", 13, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },

    { "ReduceSumSquare", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceSumSquare", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceSumSquare", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", infer_reduce },
    { "ReduceSumSquare", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      infer_reduce },
};

const op_table op_onnx_reduce = { "ai.onnx", onnx_reduce_rows, OP_COUNT(onnx_reduce_rows) };
