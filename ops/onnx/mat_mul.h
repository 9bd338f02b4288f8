/* onnx/mat_mul.h - the shape of a matrix product, for MatMul and its quantized relatives. */
#ifndef ONNX_MAT_MUL_H
#define ONNX_MAT_MUL_H
#include "infer/infer.h"

/* Output 0 is numpy.matmul of inputs a and b. */
inlay_status infer_mat_mul_of(op_infer *infer, uint32_t a, uint32_t b);
#endif
