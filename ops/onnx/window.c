/* onnx/window.c - window functions of signal processing. */
#include "schema.h"

/* [size]; attribute output_datatype is the element type. */
static inlay_status infer_window(op_infer *infer)
{
    int64_t size;
    uint32_t count;
    inlay_dim dim = dim_unknown();
    const inlay_dim *elements = infer_elements(infer, 0, &count);
    inlay_dtype dtype;
    inlay_status status = infer_attr_dtype(infer, "output_datatype", INLAY_FLOAT, &dtype);

    if (status != INLAY_OK)
        return status;
    infer_set_dtype(infer, 0, dtype);
    if (elements != NULL && count == 1)
        dim = elements[0];
    if (infer_ints(infer, 0, &size, 1, &count) && count == 1 && size < 0)
        return infer_fail(infer, INLAY_INVALID_MODEL, "size is %lld; it must not be negative", (long long)size);
    return infer_set_shape(infer, 0, 1, &dim);
}

static const op_row onnx_window_rows[] = {
    { "BlackmanWindow", 17, 0,
      "size:T1 -> output:T2; T1=int32|int64, T2=@numeric_ir4; output_datatype:i=1, periodic:i=1", infer_window },
    { "HammingWindow", 17, 0,
      "size:T1 -> output:T2; T1=int32|int64, T2=@numeric_ir4; output_datatype:i=1, periodic:i=1", infer_window },
    { "HannWindow", 17, 0, "size:T1 -> output:T2; T1=int32|int64, T2=@numeric_ir4; output_datatype:i=1, periodic:i=1",
      infer_window },
};

const op_table op_onnx_window = { "ai.onnx", onnx_window_rows, OP_COUNT(onnx_window_rows) };
