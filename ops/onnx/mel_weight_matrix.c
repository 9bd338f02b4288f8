/* onnx/mel_weight_matrix.c - the matrix from spectrum to mel bins. */
#include "schema.h"

/* MelWeightMatrix-17: [dft_length / 2 + 1, num_mel_bins]. */
static inlay_status infer_mel_weight_matrix(op_infer *infer)
{
    inlay_dim dims[2] = { dim_unknown(), dim_unknown() };
    int64_t value;
    uint32_t count;
    inlay_dtype dtype;
    inlay_status status = infer_attr_dtype(infer, "output_datatype", INLAY_FLOAT, &dtype);

    if (status != INLAY_OK)
        return status;
    infer_set_dtype(infer, 0, dtype);
    if (infer_ints(infer, 1, &value, 1, &count) && count == 1 && value >= 0)
        dims[0] = dim_fixed(value / 2 + 1);
    if (infer_ints(infer, 0, &value, 1, &count) && count == 1 && value >= 0)
        dims[1] = dim_fixed(value);
    return infer_set_shape(infer, 0, 2, dims);
}

static const op_row onnx_mel_weight_matrix_rows[] = {
    { "MelWeightMatrix", 17, 0,
      "num_mel_bins:T1, dft_length:T1, sample_rate:T1, lower_edge_hertz:T2, upper_edge_hertz:T2 -> output:T3; "
      "T1=int32|int64, T2=@float_ir4, T3=@numeric_ir4; output_datatype:i=1",
      infer_mel_weight_matrix },
};

const op_table op_onnx_mel_weight_matrix = { "ai.onnx", onnx_mel_weight_matrix_rows,
                                             OP_COUNT(onnx_mel_weight_matrix_rows) };
