/* preview/flex_attention.c - attention with programmable scores. */
#include "schema.h"

static const op_row rows[] = {
    { "FlexAttention", 1, 0,
      "Q:T1, K:T1, V:T1 -> Y:T1; T1=@float_ir4; prob_mod:g, scale:f, score_mod:g, softmax_precision:i", NULL },
};

const op_table op_preview_flex_attention = { "ai.onnx.preview", rows, OP_COUNT(rows) };
