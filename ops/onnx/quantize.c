/* onnx/quantize.c - linear quantization. */
#include "schema.h"

/* The output has the type of the zero point, else output_dtype (version 21), else uint8. */
static inlay_status infer_quantize(op_infer *infer)
{
    inlay_dtype requested, zero_point = infer_has_in(infer, 2) ? infer->in[2]->dtype : INLAY_UNDEFINED;
    inlay_status status = infer_attr_dtype(infer, "output_dtype", INLAY_UNDEFINED, &requested);

    if (status != INLAY_OK)
        return status;
    if (requested != INLAY_UNDEFINED && zero_point != INLAY_UNDEFINED && zero_point != requested)
        return infer_fail(infer, INLAY_INVALID_MODEL, "output_dtype is %s, but the zero point is %s",
                          inlay_dtype_name(requested), inlay_dtype_name(zero_point));
    if (zero_point == INLAY_UNDEFINED && !infer_has_in(infer, 2))
        zero_point = requested != INLAY_UNDEFINED ? requested : INLAY_UINT8;
    if (zero_point != INLAY_UNDEFINED)
        infer_set_dtype(infer, 0, zero_point);
    return infer_same_as_first(infer);
}

/* The output has the type output_dtype (version 23), else that of the scale. */
static inlay_status infer_dequantize(op_infer *infer)
{
    inlay_dtype requested, scale = infer_has_in(infer, 1) ? infer->in[1]->dtype : INLAY_UNDEFINED;
    inlay_status status = infer_attr_dtype(infer, "output_dtype", INLAY_UNDEFINED, &requested);

    if (status != INLAY_OK)
        return status;
    if (requested != INLAY_UNDEFINED)
        scale = requested;
    else if (scale == INLAY_FLOAT8E8M0)
        scale = INLAY_FLOAT; /* the output cannot have the scale's type */
    if (scale != INLAY_UNDEFINED)
        infer_set_dtype(infer, 0, scale);
    return infer_same_as_first(infer);
}

/* One scale and one zero point for the whole tensor. */
static inlay_status infer_dynamic_quantize(op_infer *infer)
{
    inlay_status status = infer_same_as_first(infer);

    for (uint32_t o = 1; o <= 2 && status == INLAY_OK; o++)
        status = infer_set_shape(infer, o, 0, NULL);
    return status;
}

static const op_row onnx_quantize_rows[] = {
    { "DequantizeLinear", 10, 0, "x:T, x_scale:float, x_zero_point?:T -> y:float; T=uint8|int8|int32",
      infer_dequantize },
    { "DequantizeLinear", 13, 0, "x:T, x_scale:float, x_zero_point?:T -> y:float; T=uint8|int8|int32; axis:i=1",
      infer_dequantize },
    { "DequantizeLinear", 19, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T2; T1=@float8|uint8|int8|int32, T2=bfloat16|float16|float; axis:i=1",
      infer_dequantize },
    { "DequantizeLinear", 21, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T2; T1=@float8|uint8|uint16|int8|int16|int32|uint4|int4, "
      "T2=bfloat16|float16|float; axis:i=1, block_size:i=0",
      infer_dequantize },
    { "DequantizeLinear", 23, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T3; T1=@float8|uint8|uint16|int8|int16|int32|uint4|int4|float4e2m1, "
      "T2=bfloat16|float16|float, T3=bfloat16|float16|float; axis:i=1, block_size:i=0, output_dtype:i=0",
      infer_dequantize },
    { "DequantizeLinear", 24, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T3; T1=@float8|uint8|uint16|int8|int16|int32|uint4|int4|float4e2m1, "
      "T2=float8e8m0|bfloat16|float16|float, T3=bfloat16|float16|float; axis:i=1, block_size:i=0, output_dtype:i=0",
      infer_dequantize },
    { "DequantizeLinear", 25, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T3; "
      "T1=@float8|uint8|uint16|int8|int16|int32|uint2|int2|uint4|int4|float4e2m1, "
      "T2=float8e8m0|bfloat16|float16|float, T3=bfloat16|float16|float; axis:i=1, block_size:i=0, output_dtype:i=0",
      infer_dequantize },

    { "DynamicQuantizeLinear", 11, 0, "x:T1 -> y:T2, y_scale:float, y_zero_point:T2; T1=float, T2=uint8",
      infer_dynamic_quantize },

    { "QuantizeLinear", 10, 0, "x:T1, y_scale:float, y_zero_point?:T2 -> y:T2; T1=int32|float, T2=uint8|int8",
      infer_quantize },
    { "QuantizeLinear", 13, 0, "x:T1, y_scale:float, y_zero_point?:T2 -> y:T2; T1=int32|float, T2=uint8|int8; axis:i=1",
      infer_quantize },
    { "QuantizeLinear", 19, 0,
      "x:T1, y_scale:T1, y_zero_point?:T2 -> y:T2; T1=int32|bfloat16|float16|float, T2=@float8|uint8|int8; axis:i=1, "
      "saturate:i=1",
      infer_quantize },
    { "QuantizeLinear", 21, 0,
      "x:T1, y_scale:T1, y_zero_point?:T2 -> y:T2; T1=int32|bfloat16|float16|float, "
      "T2=@float8|uint8|uint16|int8|int16|uint4|int4; axis:i=1, block_size:i=0, output_dtype:i=0, saturate:i=1",
      infer_quantize },
    { "QuantizeLinear", 23, 0,
      "x:T1, y_scale:T2, y_zero_point?:T3 -> y:T3; T1=int32|bfloat16|float16|float, T2=int32|bfloat16|float16|float, "
      "T3=@float8|uint8|uint16|int8|int16|uint4|int4|float4e2m1; axis:i=1, block_size:i=0, output_dtype:i=0, "
      "precision:i=0, saturate:i=1",
      infer_quantize },
    { "QuantizeLinear", 24, 0,
      "x:T1, y_scale:T2, y_zero_point?:T3 -> y:T3; T1=int32|bfloat16|float16|float, "
      "T2=int32|float8e8m0|bfloat16|float16|float, T3=@float8|uint8|uint16|int8|int16|uint4|int4|float4e2m1; "
      "axis:i=1, block_size:i=0, output_dtype:i=0, precision:i=0, saturate:i=1",
      infer_quantize },
    { "QuantizeLinear", 25, 0,
      "x:T1, y_scale:T2, y_zero_point?:T3 -> y:T3; T1=int32|bfloat16|float16|float, "
      "T2=int32|float8e8m0|bfloat16|float16|float, "
      "T3=@float8|uint8|uint16|int8|int16|uint2|int2|uint4|int4|float4e2m1; axis:i=1, block_size:i=0, "
      "output_dtype:i=0, precision:i=0, saturate:i=1",
      infer_quantize },
};

const op_table op_onnx_quantize = { "ai.onnx", onnx_quantize_rows, OP_COUNT(onnx_quantize_rows) };
