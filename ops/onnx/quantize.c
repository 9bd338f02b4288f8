/* onnx/quantize.c - linear quantization. */
#include "schema.h"

static const op_row rows[] = {
    { "DequantizeLinear", 10, 0, "x:T, x_scale:float, x_zero_point?:T -> y:float; T=uint8|int8|int32", NULL },
    { "DequantizeLinear", 13, 0, "x:T, x_scale:float, x_zero_point?:T -> y:float; T=uint8|int8|int32; axis:i=1", NULL },
    { "DequantizeLinear", 19, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T2; T1=@float8|uint8|int8|int32, T2=bfloat16|float16|float; axis:i=1",
      NULL },
    { "DequantizeLinear", 21, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T2; T1=@float8|uint8|uint16|int8|int16|int32|uint4|int4, "
      "T2=bfloat16|float16|float; axis:i=1, block_size:i=0",
      NULL },
    { "DequantizeLinear", 23, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T3; T1=@float8|uint8|uint16|int8|int16|int32|uint4|int4|float4e2m1, "
      "T2=bfloat16|float16|float, T3=bfloat16|float16|float; axis:i=1, block_size:i=0, output_dtype:i=0",
      NULL },
    { "DequantizeLinear", 24, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T3; T1=@float8|uint8|uint16|int8|int16|int32|uint4|int4|float4e2m1, "
      "T2=float8e8m0|bfloat16|float16|float, T3=bfloat16|float16|float; axis:i=1, block_size:i=0, output_dtype:i=0",
      NULL },
    { "DequantizeLinear", 25, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T3; "
      "T1=@float8|uint8|uint16|int8|int16|int32|uint2|int2|uint4|int4|float4e2m1, "
      "T2=float8e8m0|bfloat16|float16|float, T3=bfloat16|float16|float; axis:i=1, block_size:i=0, output_dtype:i=0",
      NULL },

    { "DynamicQuantizeLinear", 11, 0, "x:T1 -> y:T2, y_scale:float, y_zero_point:T2; T1=float, T2=uint8", NULL },

    { "QuantizeLinear", 10, 0, "x:T1, y_scale:float, y_zero_point?:T2 -> y:T2; T1=int32|float, T2=uint8|int8", NULL },
    { "QuantizeLinear", 13, 0, "x:T1, y_scale:float, y_zero_point?:T2 -> y:T2; T1=int32|float, T2=uint8|int8; axis:i=1",
      NULL },
    { "QuantizeLinear", 19, 0,
      "x:T1, y_scale:T1, y_zero_point?:T2 -> y:T2; T1=int32|bfloat16|float16|float, T2=@float8|uint8|int8; axis:i=1, "
      "saturate:i=1",
      NULL },
    { "QuantizeLinear", 21, 0,
      "x:T1, y_scale:T1, y_zero_point?:T2 -> y:T2; T1=int32|bfloat16|float16|float, "
      "T2=@float8|uint8|uint16|int8|int16|uint4|int4; axis:i=1, block_size:i=0, output_dtype:i=0, saturate:i=1",
      NULL },
    { "QuantizeLinear", 23, 0,
      "x:T1, y_scale:T2, y_zero_point?:T3 -> y:T3; T1=int32|bfloat16|float16|float, T2=int32|bfloat16|float16|float, "
      "T3=@float8|uint8|uint16|int8|int16|uint4|int4|float4e2m1; axis:i=1, block_size:i=0, output_dtype:i=0, "
      "precision:i=0, saturate:i=1",
      NULL },
    { "QuantizeLinear", 24, 0,
      "x:T1, y_scale:T2, y_zero_point?:T3 -> y:T3; T1=int32|bfloat16|float16|float, "
      "T2=int32|float8e8m0|bfloat16|float16|float, T3=@float8|uint8|uint16|int8|int16|uint4|int4|float4e2m1; "
      "axis:i=1, block_size:i=0, output_dtype:i=0, precision:i=0, saturate:i=1",
      NULL },
    { "QuantizeLinear", 25, 0,
      "x:T1, y_scale:T2, y_zero_point?:T3 -> y:T3; T1=int32|bfloat16|float16|float, "
      "T2=int32|float8e8m0|bfloat16|float16|float, "
      "T3=@float8|uint8|uint16|int8|int16|uint2|int2|uint4|int4|float4e2m1; axis:i=1, block_size:i=0, "
      "output_dtype:i=0, precision:i=0, saturate:i=1",
      NULL },
};

const op_table op_onnx_quantize = { "ai.onnx", rows, OP_COUNT(rows) };
