/* onnx/sequence.c - sequences of tensors; run by the host. */
#include "schema.h"

static const op_row rows[] = {
    { "ConcatFromSequence", 11, OP_HOST,
      "input_sequence:S -> concat_result:T; S=seq(@all), T=@all; axis:i!, new_axis:i=0", NULL },

    { "SequenceAt", 11, OP_HOST, "input_sequence:S, position:I -> tensor:T; S=seq(@all), T=@all, I=int32|int64", NULL },

    { "SequenceConstruct", 11, OP_HOST, "inputs*:T -> output_sequence:S; T=@all, S=seq(@all)", NULL },

    { "SequenceEmpty", 11, OP_HOST, "-> output:S; S=seq(@all); dtype:i", NULL },

    { "SequenceErase", 11, OP_HOST, "input_sequence:S, position?:I -> output_sequence:S; S=seq(@all), I=int32|int64",
      NULL },

    { "SequenceInsert", 11, OP_HOST,
      "input_sequence:S, tensor:T, position?:I -> output_sequence:S; T=@all, S=seq(@all), I=int32|int64", NULL },

    { "SequenceLength", 11, OP_HOST, "input_sequence:S -> length:I; S=seq(@all), I=int64", NULL },

    { "SplitToSequence", 11, OP_HOST,
      "input:T, split?:I -> output_sequence:S; T=@all, I=int32|int64, S=seq(@all); axis:i=0, keepdims:i=1", NULL },
    { "SplitToSequence", 24, OP_HOST,
      "input:T, split?:I -> output_sequence:S; T=@all_ir4, I=int32|int64, S=seq(@all_ir4); axis:i=0, keepdims:i=1",
      NULL },
};

const op_table op_onnx_sequence = { "ai.onnx", rows, OP_COUNT(rows) };
