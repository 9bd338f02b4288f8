/* onnx/recurrent.h - shape inference of recurrent layers, for LSTM and similar operators. */
#ifndef ONNX_RECURRENT_H
#define ONNX_RECURRENT_H
#include "infer/infer.h"

/* Infers outputs Y, Y_h and Y_c from X (input 0) and R (input 2); the attributes are those of LSTM-14. */
inlay_status infer_recurrent(op_infer *infer);
#endif
