/* onnx/dft.c - discrete Fourier transforms. */
#include "schema.h"

static const op_row rows[] = {
    { "DFT", 17, 0,
      "input:T1, dft_length?:T2 -> output:T1; T1=@float_ir4, T2=int32|int64; axis:i=1, inverse:i=0, onesided:i=0",
      NULL },
    { "DFT", 20, 0,
      "input:T1, dft_length?:T2, axis?:int64 -> output:T1; T1=@float_ir4, T2=int32|int64; inverse:i=0, onesided:i=0",
      NULL },

    { "STFT", 17, 0,
      "signal:T1, frame_step:T2, window?:T1, frame_length?:T2 -> output:T1; T1=@float_ir4, T2=int32|int64; "
      "onesided:i=1",
      NULL },
};

const op_table op_onnx_dft = { "ai.onnx", rows, OP_COUNT(rows) };
