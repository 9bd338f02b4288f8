/* onnx/mat_mul_integer.c - matrix multiplication of quantized tensors. */
#include "onnx/mat_mul.h"
#include "schema.h"

static inlay_status infer_mat_mul_integer(op_infer *infer)
{
    return infer_mat_mul_of(infer, 0, 1);
}

static inlay_status infer_q_linear_mat_mul(op_infer *infer)
{
    return infer_mat_mul_of(infer, 0, 3);
}

static const op_row onnx_mat_mul_integer_rows[] = {
    { "MatMulInteger", 10, 0,
      "A:T1, B:T2, a_zero_point?:T1, b_zero_point?:T2 -> Y:T3; T1=uint8|int8, T2=uint8|int8, T3=int32",
      infer_mat_mul_integer },

    { "QLinearMatMul", 10, 0,
      "a:T1, a_scale:float, a_zero_point:T1, b:T2, b_scale:float, b_zero_point:T2, y_scale:float, y_zero_point:T3 "
      "-> y:T3; T1=uint8|int8, T2=uint8|int8, T3=uint8|int8",
      infer_q_linear_mat_mul },
    { "QLinearMatMul", 21, 0,
      "a:T1, a_scale:TS, a_zero_point:T1, b:T2, b_scale:TS, b_zero_point:T2, y_scale:TS, y_zero_point:T3 -> y:T3; "
      "TS=bfloat16|float16|float, T1=@float8|uint8|int8, T2=@float8|uint8|int8, T3=@float8|uint8|int8",
      infer_q_linear_mat_mul },
};

const op_table op_onnx_mat_mul_integer = { "ai.onnx", onnx_mat_mul_integer_rows, OP_COUNT(onnx_mat_mul_integer_rows) };
