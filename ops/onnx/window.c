/* onnx/window.c - window functions of signal processing. */
#include "schema.h"

static inlay_status infer_window(op_infer *infer)
{
    uint32_t count;
    const inlay_dim *size = infer_elements(infer, 0, &count);
    inlay_dim dim = size != NULL && count == 1 ? size[0] : dim_unknown();

    infer_set_dtype(infer, 0, (inlay_dtype)infer_attr_int(infer, "output_datatype", INLAY_FLOAT));
    return infer_set_shape(infer, 0, 1, &dim);
}

static const op_row rows[] = {
    { "BlackmanWindow", 17, 0,
      "size:T1 -> output:T2; T1=int32|int64, T2=@numeric_ir4; output_datatype:i=1, periodic:i=1", infer_window },
    { "HammingWindow", 17, 0,
      "size:T1 -> output:T2; T1=int32|int64, T2=@numeric_ir4; output_datatype:i=1, periodic:i=1", infer_window },
    { "HannWindow", 17, 0, "size:T1 -> output:T2; T1=int32|int64, T2=@numeric_ir4; output_datatype:i=1, periodic:i=1",
      infer_window },
};

const op_table op_onnx_window = { "ai.onnx", rows, OP_COUNT(rows) };
