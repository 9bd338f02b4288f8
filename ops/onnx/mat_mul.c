/* onnx/mat_mul.c - matrix product. */
#include "schema.h"
#include "onnx/mat_mul.h"

inlay_status infer_mat_mul_of(op_infer *infer, uint32_t a, uint32_t b)
{
    uint32_t ar = infer_rank(infer, a), br = infer_rank(infer, b), rank = 0, batch;
    inlay_dim dims[INLAY_MAX_RANK], dim;
    inlay_status status = INLAY_OK;

    if (ar == INLAY_RANK_UNKNOWN || br == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (ar == 0 || br == 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                          "input %u is a scalar; a matrix product takes vectors and matrices", ar == 0 ? a : b);
    INLAY_TRY(dim_merge(infer, infer_dim(infer, a, ar - 1), infer_dim(infer, b, br > 1 ? br - 2 : 0),
                        "columns of A and rows of B", &dim));
    batch = ar > br ? ar : br;
    batch = batch > 2 ? batch - 2 : 0;
    for (; rank < batch; rank++) {
        uint32_t from_end = batch - rank + 2; /* this dim's place, counted from the end of a matrix */
        inlay_dim x = from_end <= ar ? infer_dim(infer, a, ar - from_end) : dim_fixed(1);
        inlay_dim y = from_end <= br ? infer_dim(infer, b, br - from_end) : dim_fixed(1);
        INLAY_TRY(dim_broadcast(infer, x, y, &dims[rank]));
    }
    if (ar > 1)
        dims[rank++] = infer_dim(infer, a, ar - 2);
    if (br > 1)
        dims[rank++] = infer_dim(infer, b, br - 1);
    INLAY_TRY(infer_set_shape(infer, 0, rank, dims));
done:
    return status;
}

static inlay_status infer_mat_mul(op_infer *infer)
{
    return infer_mat_mul_of(infer, 0, 1);
}

static const op_row rows[] = {
    { "MatMul", 1, 0, "A:T, B:T -> Y:T; T=@float", infer_mat_mul },
    { "MatMul", 9, 0, "A:T, B:T -> Y:T; T=@math", infer_mat_mul },
    { "MatMul", 13, 0, "A:T, B:T -> Y:T; T=@math_ir4", infer_mat_mul },
};

const op_table op_onnx_mat_mul = { "ai.onnx", rows, OP_COUNT(rows) };
