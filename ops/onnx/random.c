/* onnx/random.c - random numbers. */
#include "schema.h"

static const op_row rows[] = {
    { "Bernoulli", 15, OP_RANDOM, "input:T1 -> output:T2; T1=@float, T2=@numeric_ir4|bool; dtype:i, seed:f", NULL },
    { "Bernoulli", 22, OP_RANDOM, "input:T1 -> output:T2; T1=@float_ir4, T2=@numeric_ir4|bool; dtype:i, seed:f", NULL },
    { "Multinomial", 7, OP_RANDOM,
      "input:T1 -> output:T2; T1=@float, T2=int32|int64; dtype:i=6, sample_size:i=1, seed:f", NULL },
    { "Multinomial", 22, OP_RANDOM,
      "input:T1 -> output:T2; T1=@float_ir4, T2=int32|int64; dtype:i=6, sample_size:i=1, seed:f", NULL },
    { "RandomNormal", 1, OP_RANDOM, "-> output:T; T=@float; dtype:i=1, mean:f=0, scale:f=1, seed:f, shape:is!", NULL },
    { "RandomNormal", 22, OP_RANDOM, "-> output:T; T=@float_ir4; dtype:i=1, mean:f=0, scale:f=1, seed:f, shape:is!",
      NULL },
    { "RandomNormalLike", 1, OP_RANDOM,
      "input:T1 -> output:T2; T1=@all, T2=@float; dtype:i, mean:f=0, scale:f=1, seed:f", NULL },
    { "RandomNormalLike", 22, OP_RANDOM,
      "input:T1 -> output:T2; T1=@all_ir4, T2=@float_ir4; dtype:i, mean:f=0, scale:f=1, seed:f", NULL },
    { "RandomUniform", 1, OP_RANDOM, "-> output:T; T=@float; dtype:i=1, high:f=1, low:f=0, seed:f, shape:is!", NULL },
    { "RandomUniform", 22, OP_RANDOM, "-> output:T; T=@float_ir4; dtype:i=1, high:f=1, low:f=0, seed:f, shape:is!",
      NULL },
    { "RandomUniformLike", 1, OP_RANDOM,
      "input:T1 -> output:T2; T1=@all, T2=@float; dtype:i, high:f=1, low:f=0, seed:f", NULL },
    { "RandomUniformLike", 22, OP_RANDOM,
      "input:T1 -> output:T2; T1=@all_ir4, T2=@float_ir4; dtype:i, high:f=1, low:f=0, seed:f", NULL },
};

const op_table op_onnx_random = { "ai.onnx", rows, OP_COUNT(rows) };
