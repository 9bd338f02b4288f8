/* onnx/mat_mul.h - shape inference of matrix multiplication, for MatMul and its quantized variants. */
#ifndef ONNX_MAT_MUL_H
#define ONNX_MAT_MUL_H
#include "infer/infer.h"

/* Output 0 is numpy.matmul of inputs a and b. */
inlay_status infer_mat_mul_of(op_infer *infer, uint32_t a, uint32_t b);
#endif
