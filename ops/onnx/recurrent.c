/* onnx/recurrent.c - recurrent layers. */
#include "schema.h"
#include <string.h>

/* X [sequence, batch, input], R [directions, gates * hidden, hidden]. Y [sequence, directions, batch, hidden]; Y_h, and
 * Y_c of LSTM, without the sequence. With layout 1 (version 14) the batch comes first everywhere. */
static inlay_status infer_recurrent(op_infer *infer)
{
    bool batch_first = infer_attr_int(infer, "layout", 0) == 1;
    bool both = strcmp(infer_attr_string(infer, "direction", "forward"), "bidirectional") == 0;
    int64_t hidden_size = infer_attr_int(infer, "hidden_size", 0);
    inlay_dim directions = dim_fixed(both ? 2 : 1), hidden = infer_dim(infer, 2, 2), batch, sequence;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < 3; i++)
        if (infer_rank(infer, i) != INLAY_RANK_UNKNOWN && infer_rank(infer, i) != 3)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has rank %u; it must have 3", i,
                              infer_rank(infer, i));
    if (hidden_size > 0)
        INLAY_TRY(dim_merge(infer, dim_fixed(hidden_size), hidden, "hidden_size", &hidden));
    INLAY_TRY(dim_merge(infer, directions, infer_dim(infer, 1, 0), "the number of directions", &directions));
    sequence = infer_dim(infer, 0, batch_first ? 1 : 0);
    batch = infer_dim(infer, 0, batch_first ? 0 : 1);
    if (batch_first) {
        INLAY_TRY(infer_set_shape(infer, 0, 4, (inlay_dim[]){ batch, sequence, directions, hidden }));
        INLAY_TRY(infer_set_shape(infer, 1, 3, (inlay_dim[]){ batch, directions, hidden }));
        INLAY_TRY(infer_set_shape(infer, 2, 3, (inlay_dim[]){ batch, directions, hidden }));
    } else {
        INLAY_TRY(infer_set_shape(infer, 0, 4, (inlay_dim[]){ sequence, directions, batch, hidden }));
        INLAY_TRY(infer_set_shape(infer, 1, 3, (inlay_dim[]){ directions, batch, hidden }));
        INLAY_TRY(infer_set_shape(infer, 2, 3, (inlay_dim[]){ directions, batch, hidden }));
    }
done:
    return status;
}

static const op_row rows[] = {
    { "GRU", 1, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss, clip:f, direction:s='foward', hidden_size:i, output_sequence:i=0",
      infer_recurrent },
    { "GRU", 3, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss, clip:f, direction:s='forward', hidden_size:i, linear_before_reset:i=0, "
      "output_sequence:i=0",
      infer_recurrent },
    { "GRU", 7, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss, clip:f, direction:s='forward', hidden_size:i, linear_before_reset:i=0",
      infer_recurrent },
    { "GRU", 14, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss, clip:f, direction:s='forward', hidden_size:i, layout:i=0, "
      "linear_before_reset:i=0",
      infer_recurrent },
    { "GRU", 22, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float_ir4, T1=int32; "
      "activation_alpha:fs, activation_beta:fs, activations:ss, clip:f, direction:s='forward', hidden_size:i, "
      "layout:i=0, linear_before_reset:i=0",
      infer_recurrent },

    { "LSTM", 1, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T, initial_c?:T, P?:T -> Y?:T, Y_h?:T, Y_c?:T; T=@float, "
      "T1=int32; activation_alpha:fs, activation_beta:fs, activations:ss, clip:f, direction:s='forward', "
      "hidden_size:i, input_forget:i=0, output_sequence:i=0",
      infer_recurrent },
    { "LSTM", 7, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T, initial_c?:T, P?:T -> Y?:T, Y_h?:T, Y_c?:T; T=@float, "
      "T1=int32; activation_alpha:fs, activation_beta:fs, activations:ss, clip:f, direction:s='forward', "
      "hidden_size:i, input_forget:i=0",
      infer_recurrent },
    { "LSTM", 14, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T, initial_c?:T, P?:T -> Y?:T, Y_h?:T, Y_c?:T; T=@float, "
      "T1=int32; activation_alpha:fs, activation_beta:fs, activations:ss, clip:f, direction:s='forward', "
      "hidden_size:i, input_forget:i=0, layout:i=0",
      infer_recurrent },
    { "LSTM", 22, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T, initial_c?:T, P?:T -> Y?:T, Y_h?:T, Y_c?:T; "
      "T=@float_ir4, T1=int32; activation_alpha:fs, activation_beta:fs, activations:ss, clip:f, "
      "direction:s='forward', hidden_size:i, input_forget:i=0, layout:i=0",
      infer_recurrent },

    { "RNN", 1, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss=['Tanh','Tanh'], clip:f, direction:s='forward', hidden_size:i, "
      "output_sequence:i=0",
      infer_recurrent },
    { "RNN", 7, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss=['Tanh','Tanh'], clip:f, direction:s='forward', hidden_size:i",
      infer_recurrent },
    { "RNN", 14, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss=['Tanh','Tanh'], clip:f, direction:s='forward', hidden_size:i, layout:i=0",
      infer_recurrent },
    { "RNN", 22, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T -> Y?:T, Y_h?:T; T=@float_ir4, T1=int32; "
      "activation_alpha:fs, activation_beta:fs, activations:ss=['Tanh','Tanh'], clip:f, direction:s='forward', "
      "hidden_size:i, layout:i=0",
      infer_recurrent },
};

const op_table op_onnx_recurrent = { "ai.onnx", rows, OP_COUNT(rows) };
