/* onnx/recurrent.c - recurrent layers. */
#include "schema.h"
#include "onnx/recurrent.h"
#include <string.h>

/* ONNX LSTM-14: Y [steps, directions, batch, hidden], Y_h and Y_c [directions, batch, hidden]; with layout 1 the batch
 * is the first axis of all outputs. */
inlay_status infer_recurrent(op_infer *infer)
{
    bool batch_first = infer_attr_int(infer, "layout", 0) != 0;
    uint32_t rank = infer_rank(infer, 0);
    inlay_dim steps = infer_dim(infer, 0, batch_first), batch = infer_dim(infer, 0, !batch_first);
    inlay_dim directions =
        dim_fixed(strcmp(infer_attr_string(infer, "direction", "forward"), "bidirectional") == 0 ? 2 : 1);
    inlay_dim hidden = infer_dim(infer, 2, 2);
    int64_t size = infer_attr_int(infer, "hidden_size", 0);
    inlay_status status = INLAY_OK;

    if (rank != INLAY_RANK_UNKNOWN && rank != 3)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "X has rank %u; it must have rank 3", rank);
    if (size > 0)
        INLAY_TRY(dim_merge(infer, hidden, dim_fixed(size), "hidden_size and R", &hidden));
    const inlay_dim dim[] = { steps, directions, batch, hidden },
                    y_batch_first[] = { batch, steps, directions, hidden };
    const inlay_dim h[] = { directions, batch, hidden }, h_batch_first[] = { batch, directions, hidden };
    INLAY_TRY(infer_set_shape(infer, 0, 4, batch_first ? y_batch_first : dim));
    for (uint32_t o = 1; o < infer->out_count; o++)
        INLAY_TRY(infer_set_shape(infer, o, 3, batch_first ? h_batch_first : h));
done:
    return status;
}

static const op_row onnx_recurrent_rows[] = {
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

const op_table op_onnx_recurrent = { "ai.onnx", onnx_recurrent_rows, OP_COUNT(onnx_recurrent_rows) };
