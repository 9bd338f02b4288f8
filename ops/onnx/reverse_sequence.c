/* onnx/reverse_sequence.c - reversal of sequences of given lengths. */
#include "schema.h"

static const op_row onnx_reverse_sequence_rows[] = {
    { "ReverseSequence", 10, 0, "input:T, sequence_lens:int64 -> Y:T; T=@all; batch_axis:i=1, time_axis:i=0",
      infer_same_as_first },
};

const op_table op_onnx_reverse_sequence = { "ai.onnx", onnx_reverse_sequence_rows,
                                            OP_COUNT(onnx_reverse_sequence_rows) };
