/* onnx/mel_weight_matrix.c - the matrix from spectrum to mel bins. */
#include "schema.h"

/* [dft_length / 2 + 1, num_mel_bins] */
static inlay_status infer_mel_weight_matrix(op_infer *infer)
{
    uint32_t count[2];
    const inlay_dim *bins = infer_elements(infer, 0, &count[0]), *length = infer_elements(infer, 1, &count[1]);
    inlay_dim dims[] = { dim_unknown(), dim_unknown() };

    infer_set_dtype(infer, 0, (inlay_dtype)infer_attr_int(infer, "output_datatype", INLAY_FLOAT));
    if (length != NULL && count[1] == 1)
        dims[0] = dim_add(infer, dim_div(infer, length[0], dim_fixed(2)), dim_fixed(1));
    if (bins != NULL && count[0] == 1)
        dims[1] = bins[0];
    return infer_set_shape(infer, 0, 2, dims);
}

static const op_row rows[] = {
    { "MelWeightMatrix", 17, 0,
      "num_mel_bins:T1, dft_length:T1, sample_rate:T1, lower_edge_hertz:T2, upper_edge_hertz:T2 -> output:T3; "
      "T1=int32|int64, T2=@float_ir4, T3=@numeric_ir4; output_datatype:i=1",
      infer_mel_weight_matrix },
};

const op_table op_onnx_mel_weight_matrix = { "ai.onnx", rows, OP_COUNT(rows) };
