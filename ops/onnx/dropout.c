/* onnx/dropout.c - Dropout: versions 7 and 10 are for inference only, the others can train. */
#include "schema.h"

/* The mask has the shape of the data. */
static inlay_status infer_dropout(op_infer *infer)
{
    inlay_status status = infer_same_as_first(infer);

    if (status != INLAY_OK || !infer_has_in(infer, 0))
        return status;
    return infer_set_shape(infer, 1, infer->in[0]->rank, infer->in[0]->dims);
}

static const op_row onnx_dropout_rows[] = {
    { "Dropout", 1, OP_RANDOM, "data:T -> output:T, mask?:T; T=@float; consumed_inputs:is, is_test:i=0, ratio:f=0.5",
      infer_dropout },
    { "Dropout", 6, OP_RANDOM, "data:T -> output:T, mask?:T; T=@float; is_test:i=0, ratio:f=0.5", infer_dropout },
    { "Dropout", 7, 0, "data:T -> output:T, mask?:T; T=@float; ratio:f=0.5", infer_dropout },
    { "Dropout", 10, 0, "data:T -> output:T, mask?:T1; T=@float, T1=bool; ratio:f=0.5", infer_dropout },
    { "Dropout", 12, OP_RANDOM,
      "data:T, ratio?:T1, training_mode?:T2 -> output:T, mask?:T2; T=@float, T1=@float, T2=bool; seed:i",
      infer_dropout },
    { "Dropout", 13, OP_RANDOM,
      "data:T, ratio?:T1, training_mode?:T2 -> output:T, mask?:T2; T=@float_ir4, T1=@float, T2=bool; seed:i",
      infer_dropout },
    { "Dropout", 22, OP_RANDOM,
      "data:T, ratio?:T1, training_mode?:T2 -> output:T, mask?:T2; T=@float8|@float_ir4, T1=@float8|@float_ir4, "
      "T2=bool; seed:i",
      infer_dropout },
};

const op_table op_onnx_dropout = { "ai.onnx", onnx_dropout_rows, OP_COUNT(onnx_dropout_rows) };
