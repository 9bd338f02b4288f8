/* onnx/batch_normalization.c - batch normalization. */
#include "schema.h"

/* Y has the shape of X; the statistics have the shape of the parameters. Versions 14 and later have them in training
 * only. */
static inlay_status infer_batch_normalization(op_infer *infer)
{
    const bool trains = infer->node->since_version < 14 || infer_attr_int(infer, "training_mode", 0) != 0;
    inlay_status status = INLAY_OK;

    for (uint32_t o = 1; o < infer->out_count && !trains; o++)
        if (infer_has_out(infer, o))
            return infer_fail(infer, INLAY_INVALID_MODEL, "output %u exists only with training_mode=1", o);
    INLAY_TRY(infer_same_as_first(infer));
    for (uint32_t i = 1; i < 5 && infer_attr_int(infer, "spatial", 1) != 0; i++)
        if (infer_rank(infer, 0) >= 2)
            INLAY_TRY(infer_check_count(infer, i, infer_dim(infer, 0, 1)));
    for (uint32_t o = 1; o < infer->out_count; o++)
        if (infer_has_in(infer, 1))
            INLAY_TRY(infer_set_shape(infer, o, infer->in[1]->rank, infer->in[1]->dims));
done:
    return status;
}

static const op_row onnx_batch_normalization_rows[] = {
    { "BatchNormalization", 1, 0,
      "X:T, scale:T, B:T, mean:T, var:T -> Y:T, mean?:T, var?:T, saved_mean?:T, saved_var?:T; T=@float; "
      "consumed_inputs:is!, epsilon:f=1e-05, is_test:i=0, momentum:f=0.9, spatial:i=1",
      infer_batch_normalization },
    { "BatchNormalization", 6, 0,
      "X:T, scale:T, B:T, mean:T, var:T -> Y:T, mean?:T, var?:T, saved_mean?:T, saved_var?:T; T=@float; "
      "epsilon:f=1e-05, is_test:i=0, momentum:f=0.9, spatial:i=1",
      infer_batch_normalization },
    { "BatchNormalization", 7, 0,
      "X:T, scale:T, B:T, mean:T, var:T -> Y:T, mean?:T, var?:T, saved_mean?:T, saved_var?:T; T=@float; "
      "epsilon:f=1e-05, momentum:f=0.9, spatial:i=1",
      infer_batch_normalization },
    { "BatchNormalization", 9, 0,
      "X:T, scale:T, B:T, mean:T, var:T -> Y:T, mean?:T, var?:T, saved_mean?:T, saved_var?:T; T=@float; "
      "epsilon:f=1e-05, momentum:f=0.9",
      infer_batch_normalization },
    { "BatchNormalization", 14, 0,
      "X:T, scale:T, B:T, input_mean:U, input_var:U -> Y:T, running_mean?:U, running_var?:U; T=@float_ir4, "
      "U=@float_ir4; epsilon:f=1e-05, momentum:f=0.9, training_mode:i=0",
      infer_batch_normalization },
    { "BatchNormalization", 15, 0,
      "X:T, scale:T1, B:T1, input_mean:T2, input_var:T2 -> Y:T, running_mean?:T2, running_var?:T2; T=@float_ir4, "
      "T1=@float_ir4, T2=@float_ir4; epsilon:f=1e-05, momentum:f=0.9, training_mode:i=0",
      infer_batch_normalization },
};

const op_table op_onnx_batch_normalization = { "ai.onnx", onnx_batch_normalization_rows,
                                               OP_COUNT(onnx_batch_normalization_rows) };
