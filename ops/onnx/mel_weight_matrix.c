/* onnx/mel_weight_matrix.c - the matrix from spectrum to mel bins. */
#include "schema.h"

static const op_row rows[] = {
    { "MelWeightMatrix", 17, 0,
      "num_mel_bins:T1, dft_length:T1, sample_rate:T1, lower_edge_hertz:T2, upper_edge_hertz:T2 -> output:T3; "
      "T1=int32|int64, T2=@float_ir4, T3=@numeric_ir4; output_datatype:i=1",
      NULL },
};

const op_table op_onnx_mel_weight_matrix = { "ai.onnx", rows, OP_COUNT(rows) };
