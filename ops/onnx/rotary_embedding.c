/* onnx/rotary_embedding.c - rotary position embedding. */
#include "schema.h"

static const op_row onnx_rotary_embedding_rows[] = {
    { "RotaryEmbedding", 23, 0,
      "X:T, cos_cache:T, sin_cache:T, position_ids?:M -> Y:T; T=bfloat16|float16|float, M=int64; interleaved:i=0, "
      "num_heads:i, rotary_embedding_dim:i=0",
      infer_same_as_first },
};

const op_table op_onnx_rotary_embedding = { "ai.onnx", onnx_rotary_embedding_rows,
                                            OP_COUNT(onnx_rotary_embedding_rows) };
