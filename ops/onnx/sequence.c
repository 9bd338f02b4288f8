/* onnx/sequence.c - sequences of tensors; the host runs these operators.
 *
 * The shape of a sequence is the common shape of its elements: dimensions in which they differ are unknown. */
#include "schema.h"
#include "inlay/check.h"

/* Sets output 0 to the common shape of inputs first to end - 1. */
static inlay_status common_shape(op_infer *infer, uint32_t first, uint32_t end)
{
    uint32_t rank = infer_rank(infer, first);
    inlay_dim dims[INLAY_MAX_RANK];

    for (uint32_t i = first + 1; i < end; i++)
        if (infer_rank(infer, i) != rank)
            return INLAY_OK;
    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = infer_dim(infer, first, d);
        for (uint32_t i = first + 1; i < end; i++)
            if (!dim_same(dims[d], infer_dim(infer, i, d)))
                dims[d] = dim_unknown();
    }
    return infer_set_shape(infer, 0, rank, dims);
}

static inlay_status infer_construct(op_infer *infer)
{
    return common_shape(infer, 0, infer->in_count);
}

static inlay_status infer_insert(op_infer *infer)
{
    return common_shape(infer, 0, 2);
}

/* Sets output 0 to the shape of input 0 with an axis removed (change -1), set to size `dim` (0), or inserted (1). */
static inlay_status with_axis(op_infer *infer, int64_t axis, inlay_dim dim, int change)
{
    uint32_t rank = infer_rank(infer, 0), at, from = 0, count = 0;
    inlay_dim dims[INLAY_MAX_RANK + 1];
    inlay_status status = INLAY_OK;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    INLAY_TRY(infer_axis(infer, axis, change > 0 ? rank + 1 : rank, "axis", &at));
    for (uint32_t d = 0; d < (change > 0 ? rank + 1 : rank); d++) {
        if (d != at)
            dims[count++] = infer_dim(infer, 0, from++);
        else if (change >= 0)
            dims[count++] = dim;
        if (d == at && change <= 0)
            from++;
    }
    INLAY_CHECK((int64_t)count == (int64_t)rank + change);
    status = infer_set_shape(infer, 0, count, dims);
done:
    return status;
}

static inlay_status infer_concat_sequence(op_infer *infer)
{
    return with_axis(infer, infer_attr_int(infer, "axis", 0), dim_unknown(), infer_attr_int(infer, "new_axis", 0) != 0);
}

/* Without `split` the pieces have size 1, and the axis is removed if keepdims is 0. A scalar `split` is the size of all
 * pieces; the last piece may be smaller. */
static inlay_status infer_split_to_sequence(op_infer *infer)
{
    int64_t axis = infer_attr_int(infer, "axis", 0), sizes[64], size = 0;
    uint32_t rank = infer_rank(infer, 0), count = 0, at;
    inlay_dim whole, piece = dim_unknown();
    inlay_status status = INLAY_OK;

    if (!infer_has_in(infer, 1))
        return with_axis(infer, axis, dim_fixed(1), infer_attr_int(infer, "keepdims", 1) != 0 ? 0 : -1);
    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    INLAY_TRY(infer_axis(infer, axis, rank, "axis", &at));
    whole = infer_dim(infer, 0, at);
    if (infer_rank(infer, 1) != INLAY_RANK_UNKNOWN && infer_ints(infer, 1, sizes, 64, &count) && count > 0) {
        size = sizes[0];
        for (uint32_t i = 1; i < count; i++)
            size = sizes[i] == size ? size : -1;
        if (infer_rank(infer, 1) == 0 && size > 0 && (whole.kind != INLAY_DIM_FIXED || whole.value % size != 0))
            size = -1;
        if (size >= 0)
            piece = dim_fixed(size);
    }
    status = with_axis(infer, axis, piece, 0);
done:
    return status;
}

static const op_row onnx_sequence_rows[] = {
    { "ConcatFromSequence", 11, OP_HOST,
      "input_sequence:S -> concat_result:T; S=seq(@all), T=@all; axis:i!, new_axis:i=0", infer_concat_sequence },

    { "SequenceAt", 11, OP_HOST, "input_sequence:S, position:I -> tensor:T; S=seq(@all), T=@all, I=int32|int64",
      infer_same_as_first },

    { "SequenceConstruct", 11, OP_HOST, "inputs*:T -> output_sequence:S; T=@all, S=seq(@all)", infer_construct },

    { "SequenceEmpty", 11, OP_HOST, "-> output:S; S=seq(@all); dtype:i", NULL },

    { "SequenceErase", 11, OP_HOST, "input_sequence:S, position?:I -> output_sequence:S; S=seq(@all), I=int32|int64",
      infer_same_as_first },

    { "SequenceInsert", 11, OP_HOST,
      "input_sequence:S, tensor:T, position?:I -> output_sequence:S; T=@all, S=seq(@all), I=int32|int64",
      infer_insert },

    { "SequenceLength", 11, OP_HOST, "input_sequence:S -> length:I; S=seq(@all), I=int64", infer_scalar },

    { "SplitToSequence", 11, OP_HOST,
      "input:T, split?:I -> output_sequence:S; T=@all, I=int32|int64, S=seq(@all); axis:i=0, keepdims:i=1",
      infer_split_to_sequence },
    { "SplitToSequence", 24, OP_HOST,
      "input:T, split?:I -> output_sequence:S; T=@all_ir4, I=int32|int64, S=seq(@all_ir4); axis:i=0, keepdims:i=1",
      infer_split_to_sequence },
};

const op_table op_onnx_sequence = { "ai.onnx", onnx_sequence_rows, OP_COUNT(onnx_sequence_rows) };
