/* preview/training.c - gradients and optimizers. */
#include "schema.h"

static const op_row rows[] = {
    { "Adagrad", 1, 0,
      "R:T1, T:T2, inputs%:T3 -> outputs%:T3; T1=float|double, T2=int64, T3=float|double; decay_factor:f=0, "
      "epsilon:f=1e-06, norm_coefficient:f=0",
      NULL },
    { "Adam", 1, 0,
      "R:T1, T:T2, inputs%:T3 -> outputs%:T3; T1=float|double, T2=int64, T3=float|double; alpha:f=0.9, beta:f=0.999, "
      "epsilon:f=1e-06, norm_coefficient:f=0, norm_coefficient_post:f=0",
      NULL },
    { "Gradient", 1, 0, "Inputs%:T1 -> Outputs%:T2; T1=@all, T2=@float; xs:ss!, y:s!, zs:ss", NULL },
    { "Momentum", 1, 0,
      "R:T1, T:T2, inputs%:T3 -> outputs%:T3; T1=float|double, T2=int64, T3=float|double; alpha:f!, beta:f!, mode:s!, "
      "norm_coefficient:f!",
      NULL },
};

const op_table op_preview_training = { "ai.onnx.preview.training", rows, OP_COUNT(rows) };
