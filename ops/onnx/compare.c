/* onnx/compare.c - comparisons of two tensors, broadcast. */
#include "schema.h"

/* Compares two dimensions. A symbol is a size, so it never equals a negative number. */
static inlay_dim equal_dims(op_infer *infer, inlay_dim a, inlay_dim b)
{
    (void)infer;
    if (a.kind == INLAY_DIM_FIXED && b.kind == INLAY_DIM_FIXED)
        return dim_fixed(a.value == b.value);
    if (dim_same(a, b))
        return dim_fixed(1);
    if ((a.kind == INLAY_DIM_FIXED && a.value < 0 && b.kind == INLAY_DIM_SYMBOLIC) ||
        (b.kind == INLAY_DIM_FIXED && b.value < 0 && a.kind == INLAY_DIM_SYMBOLIC))
        return dim_fixed(0);
    return dim_unknown();
}

/* Equal-7 and later. Propagates elements, because exporters replace the -1 in the shape of an Expand by Equal and
 * Where. */
static inlay_status infer_equal(op_infer *infer)
{
    inlay_status status = infer_broadcast_all(infer);

    return status == INLAY_OK ? infer_pairwise_elements(infer, equal_dims) : status;
}

static const op_row onnx_compare_rows[] = {
    { "Equal", 1, 0, "A:T, B:T -> C:T1; T=bool|int32|int64, T1=bool; axis:i, broadcast:i=0", infer_same_as_first },
    { "Equal", 7, 0, "A:T, B:T -> C:T1; T=bool|int32|int64, T1=bool", infer_equal },
    { "Equal", 11, 0, "A:T, B:T -> C:T1; T=@numeric|bool, T1=bool", infer_equal },
    { "Equal", 13, 0, "A:T, B:T -> C:T1; T=@numeric_ir4|bool, T1=bool", infer_equal },
    { "Equal", 19, 0, "A:T, B:T -> C:T1; T=@all_ir4-@complex, T1=bool", infer_equal },

    { "Greater", 1, 0, "A:T, B:T -> C:T1; T=@float, T1=bool; axis:i, broadcast:i=0", infer_same_as_first },
    { "Greater", 7, 0, "A:T, B:T -> C:T1; T=@float, T1=bool", infer_broadcast_all },
    { "Greater", 9, 0, "A:T, B:T -> C:T1; T=@numeric, T1=bool", infer_broadcast_all },
    { "Greater", 13, 0, "A:T, B:T -> C:T1; T=@numeric_ir4, T1=bool", infer_broadcast_all },

    { "GreaterOrEqual", 12, 0, "A:T, B:T -> C:T1; T=@numeric, T1=bool", infer_broadcast_all },
    { "GreaterOrEqual", 16, 0, "A:T, B:T -> C:T1; T=@numeric_ir4, T1=bool", infer_broadcast_all },

    { "Less", 1, 0, "A:T, B:T -> C:T1; T=@float, T1=bool; axis:i, broadcast:i=0", infer_same_as_first },
    { "Less", 7, 0, "A:T, B:T -> C:T1; T=@float, T1=bool", infer_broadcast_all },
    { "Less", 9, 0, "A:T, B:T -> C:T1; T=@numeric, T1=bool", infer_broadcast_all },
    { "Less", 13, 0, "A:T, B:T -> C:T1; T=@numeric_ir4, T1=bool", infer_broadcast_all },

    { "LessOrEqual", 12, 0, "A:T, B:T -> C:T1; T=@numeric, T1=bool", infer_broadcast_all },
    { "LessOrEqual", 16, 0, "A:T, B:T -> C:T1; T=@numeric_ir4, T1=bool", infer_broadcast_all },
};

const op_table op_onnx_compare = { "ai.onnx", onnx_compare_rows, OP_COUNT(onnx_compare_rows) };
