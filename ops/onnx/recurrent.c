/* onnx/recurrent.c - recurrent layers. */
#include "schema.h"

static const op_row rows[] = {
    { "GRU", 1, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss, clip:f, direction:s='foward', hidden_size:i, output_sequence:i=0",
      NULL },
    { "GRU", 3, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss, clip:f, direction:s='forward', hidden_size:i, linear_before_reset:i=0, "
      "output_sequence:i=0",
      NULL },
    { "GRU", 7, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss, clip:f, direction:s='forward', hidden_size:i, linear_before_reset:i=0",
      NULL },
    { "GRU", 14, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss, clip:f, direction:s='forward', hidden_size:i, layout:i=0, "
      "linear_before_reset:i=0",
      NULL },
    { "GRU", 22, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float_ir4, T1=int32; "
      "activation_alpha:fs, activation_beta:fs, activations:ss, clip:f, direction:s='forward', hidden_size:i, "
      "layout:i=0, linear_before_reset:i=0",
      NULL },

    { "LSTM", 1, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T, initial_c?:T, P?:T -> Y?:T, Y_h?:T, Y_c?:T; T=@float, "
      "T1=int32; activation_alpha:fs, activation_beta:fs, activations:ss, clip:f, direction:s='forward', "
      "hidden_size:i, input_forget:i=0, output_sequence:i=0",
      NULL },
    { "LSTM", 7, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T, initial_c?:T, P?:T -> Y?:T, Y_h?:T, Y_c?:T; T=@float, "
      "T1=int32; activation_alpha:fs, activation_beta:fs, activations:ss, clip:f, direction:s='forward', "
      "hidden_size:i, input_forget:i=0",
      NULL },
    { "LSTM", 14, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T, initial_c?:T, P?:T -> Y?:T, Y_h?:T, Y_c?:T; T=@float, "
      "T1=int32; activation_alpha:fs, activation_beta:fs, activations:ss, clip:f, direction:s='forward', "
      "hidden_size:i, input_forget:i=0, layout:i=0",
      NULL },
    { "LSTM", 22, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T, initial_c?:T, P?:T -> Y?:T, Y_h?:T, Y_c?:T; "
      "T=@float_ir4, T1=int32; activation_alpha:fs, activation_beta:fs, activations:ss, clip:f, "
      "direction:s='forward', hidden_size:i, input_forget:i=0, layout:i=0",
      NULL },

    { "RNN", 1, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss=['Tanh','Tanh'], clip:f, direction:s='forward', hidden_size:i, "
      "output_sequence:i=0",
      NULL },
    { "RNN", 7, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss=['Tanh','Tanh'], clip:f, direction:s='forward', hidden_size:i",
      NULL },
    { "RNN", 14, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss=['Tanh','Tanh'], clip:f, direction:s='forward', hidden_size:i, layout:i=0",
      NULL },
    { "RNN", 22, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float_ir4, T1=int32; "
      "activation_alpha:fs, activation_beta:fs, activations:ss=['Tanh','Tanh'], clip:f, direction:s='forward', "
      "hidden_size:i, layout:i=0",
      NULL },
};

const op_table op_onnx_recurrent = { "ai.onnx", rows, OP_COUNT(rows) };
