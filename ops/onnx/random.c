/* onnx/random.c - random numbers. */
#include "schema.h"

/* Sets the element type of output 0: attribute dtype, else the type of input 0. */
static inlay_status random_dtype(op_infer *infer)
{
    inlay_dtype dtype;
    inlay_status status = infer_attr_dtype(infer, "dtype", INLAY_UNDEFINED, &dtype);

    if (dtype == INLAY_UNDEFINED && infer_has_in(infer, 0))
        dtype = infer->in[0]->dtype;
    if (status == INLAY_OK && dtype != INLAY_UNDEFINED)
        infer_set_dtype(infer, 0, dtype);
    return status;
}

static inlay_status infer_random_like(op_infer *infer)
{
    inlay_status status = random_dtype(infer);

    return status == INLAY_OK ? infer_same_as_first(infer) : status;
}

static inlay_status infer_random_shape(op_infer *infer)
{
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t rank;
    const int64_t *shape = infer_attr_ints(infer, "shape", &rank);
    inlay_status status = random_dtype(infer);

    if (status != INLAY_OK)
        return status;
    if (rank > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "shape has %u dimensions; at most %d are supported", rank,
                          INLAY_MAX_RANK);
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = dim_fixed(shape[d]);
    return infer_set_shape(infer, 0, rank, dims);
}

/* [batch, classes] -> [batch, sample_size] */
static inlay_status infer_multinomial(op_infer *infer)
{
    inlay_dim dims[2] = { infer_dim(infer, 0, 0), dim_fixed(infer_attr_int(infer, "sample_size", 1)) };
    inlay_status status = random_dtype(infer);

    if (status != INLAY_OK)
        return status;
    if (infer_rank(infer, 0) != INLAY_RANK_UNKNOWN && infer_rank(infer, 0) != 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input 0 must be [batch, classes], it has rank %u",
                          infer_rank(infer, 0));
    return infer_set_shape(infer, 0, 2, dims);
}

static const op_row onnx_random_rows[] = {
    { "Bernoulli", 15, OP_RANDOM, "input:T1 -> output:T2; T1=@float, T2=@numeric_ir4|bool; dtype:i, seed:f",
      infer_random_like },
    { "Bernoulli", 22, OP_RANDOM, "input:T1 -> output:T2; T1=@float_ir4, T2=@numeric_ir4|bool; dtype:i, seed:f",
      infer_random_like },
    { "Multinomial", 7, OP_RANDOM,
      "input:T1 -> output:T2; T1=@float, T2=int32|int64; dtype:i=6, sample_size:i=1, seed:f", infer_multinomial },
    { "Multinomial", 22, OP_RANDOM,
      "input:T1 -> output:T2; T1=@float_ir4, T2=int32|int64; dtype:i=6, sample_size:i=1, seed:f", infer_multinomial },
    { "RandomNormal", 1, OP_RANDOM, "-> output:T; T=@float; dtype:i=1, mean:f=0, scale:f=1, seed:f, shape:is!",
      infer_random_shape },
    { "RandomNormal", 22, OP_RANDOM, "-> output:T; T=@float_ir4; dtype:i=1, mean:f=0, scale:f=1, seed:f, shape:is!",
      infer_random_shape },
    { "RandomNormalLike", 1, OP_RANDOM,
      "input:T1 -> output:T2; T1=@all, T2=@float; dtype:i, mean:f=0, scale:f=1, seed:f", infer_random_like },
    { "RandomNormalLike", 22, OP_RANDOM,
      "input:T1 -> output:T2; T1=@all_ir4, T2=@float_ir4; dtype:i, mean:f=0, scale:f=1, seed:f", infer_random_like },
    { "RandomUniform", 1, OP_RANDOM, "-> output:T; T=@float; dtype:i=1, high:f=1, low:f=0, seed:f, shape:is!",
      infer_random_shape },
    { "RandomUniform", 22, OP_RANDOM, "-> output:T; T=@float_ir4; dtype:i=1, high:f=1, low:f=0, seed:f, shape:is!",
      infer_random_shape },
    { "RandomUniformLike", 1, OP_RANDOM,
      "input:T1 -> output:T2; T1=@all, T2=@float; dtype:i, high:f=1, low:f=0, seed:f", infer_random_like },
    { "RandomUniformLike", 22, OP_RANDOM,
      "input:T1 -> output:T2; T1=@all_ir4, T2=@float_ir4; dtype:i, high:f=1, low:f=0, seed:f", infer_random_like },
};

const op_table op_onnx_random = { "ai.onnx", onnx_random_rows, OP_COUNT(onnx_random_rows) };
