/* onnx/mat_mul.c - matrix multiplication. */
#include "schema.h"
#include "inlay/check.h"
#include "onnx/mat_mul.h"

inlay_status infer_mat_mul_of(op_infer *infer, uint32_t a, uint32_t b)
{
    uint32_t a_rank = infer_rank(infer, a), b_rank = infer_rank(infer, b), rank = 0, batch;
    inlay_dim dims[INLAY_MAX_RANK], dim;
    inlay_status status = INLAY_OK;

    if (a_rank == INLAY_RANK_UNKNOWN || b_rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (a_rank == 0 || b_rank == 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                          "input %u is a scalar; a matrix product takes vectors and matrices", a_rank == 0 ? a : b);
    INLAY_TRY(dim_merge(infer, infer_dim(infer, a, a_rank - 1), infer_dim(infer, b, b_rank > 1 ? b_rank - 2 : 0),
                        "columns of A and rows of B", &dim));
    batch = a_rank > b_rank ? a_rank : b_rank;
    batch = batch > 2 ? batch - 2 : 0;
    for (; rank < batch; rank++) {
        uint32_t from_end = batch - rank + 2; /* index of the batch axis, counted from the last axis */
        inlay_dim x = from_end <= a_rank ? infer_dim(infer, a, a_rank - from_end) : dim_fixed(1);
        inlay_dim y = from_end <= b_rank ? infer_dim(infer, b, b_rank - from_end) : dim_fixed(1);
        INLAY_TRY(dim_broadcast(infer, x, y, &dims[rank]));
    }
    if (a_rank > 1)
        dims[rank++] = infer_dim(infer, a, a_rank - 2);
    if (b_rank > 1)
        dims[rank++] = infer_dim(infer, b, b_rank - 1);
    INLAY_CHECK(rank <= INLAY_MAX_RANK);
    INLAY_TRY(infer_set_shape(infer, 0, rank, dims));
done:
    return status;
}

static inlay_status infer_mat_mul(op_infer *infer)
{
    return infer_mat_mul_of(infer, 0, 1);
}

static const op_row onnx_mat_mul_rows[] = {
    { "MatMul", 1, 0, "A:T, B:T -> Y:T; T=@float", infer_mat_mul },
    { "MatMul", 9, 0, "A:T, B:T -> Y:T; T=@math", infer_mat_mul },
    { "MatMul", 13, 0, "A:T, B:T -> Y:T; T=@math_ir4", infer_mat_mul },
};

const op_table op_onnx_mat_mul = { "ai.onnx", onnx_mat_mul_rows, OP_COUNT(onnx_mat_mul_rows) };
