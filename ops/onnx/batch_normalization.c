/* onnx/batch_normalization.c - batch normalization. */
#include "schema.h"

static const op_row rows[] = {
    { "BatchNormalization", 1, 0,
      "X:T, scale:T, B:T, mean:T, var:T -> Y:T, mean?:T, var?:T, saved_mean?:T, saved_var?:T; T=@float; "
      "consumed_inputs:is!, epsilon:f=1e-05, is_test:i=0, momentum:f=0.9, spatial:i=1",
      NULL },
    { "BatchNormalization", 6, 0,
      "X:T, scale:T, B:T, mean:T, var:T -> Y:T, mean?:T, var?:T, saved_mean?:T, saved_var?:T; T=@float; "
      "epsilon:f=1e-05, is_test:i=0, momentum:f=0.9, spatial:i=1",
      NULL },
    { "BatchNormalization", 7, 0,
      "X:T, scale:T, B:T, mean:T, var:T -> Y:T, mean?:T, var?:T, saved_mean?:T, saved_var?:T; T=@float; "
      "epsilon:f=1e-05, momentum:f=0.9, spatial:i=1",
      NULL },
    { "BatchNormalization", 9, 0,
      "X:T, scale:T, B:T, mean:T, var:T -> Y:T, mean?:T, var?:T, saved_mean?:T, saved_var?:T; T=@float; "
      "epsilon:f=1e-05, momentum:f=0.9",
      NULL },
    { "BatchNormalization", 14, 0,
      "X:T, scale:T, B:T, input_mean:U, input_var:U -> Y:T, running_mean?:U, running_var?:U; T=@float_ir4, "
      "U=@float_ir4; epsilon:f=1e-05, momentum:f=0.9, training_mode:i=0",
      NULL },
    { "BatchNormalization", 15, 0,
      "X:T, scale:T1, B:T1, input_mean:T2, input_var:T2 -> Y:T, running_mean?:T2, running_var?:T2; T=@float_ir4, "
      "T1=@float_ir4, T2=@float_ir4; epsilon:f=1e-05, momentum:f=0.9, training_mode:i=0",
      NULL },
};

const op_table op_onnx_batch_normalization = { "ai.onnx", rows, OP_COUNT(rows) };
