/* onnx/layer_normalization.c - layer normalization. */
#include "schema.h"

/* Y has the shape of X; in Mean and InvStdDev all axes from attribute axis on have size 1. */
static inlay_status infer_layer_normalization(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status = INLAY_OK;
    inlay_dtype stash;
    uint32_t axis;

    INLAY_TRY(infer_same_as_first(infer));
    INLAY_TRY(infer_attr_dtype(infer, "stash_type", INLAY_FLOAT, &stash));
    for (uint32_t o = 1; o <= 2; o++) /* no input has the type U; stash_type determines it */
        infer_set_dtype(infer, o, stash);
    if (rank == INLAY_RANK_UNKNOWN || rank > INLAY_MAX_RANK)
        goto done;
    for (uint32_t i = 1; i <= 2; i++)
        INLAY_TRY(infer_broadcasts_to(infer, i, rank, infer->in[0]->dims));
    INLAY_TRY(infer_axis(infer, infer_attr_int(infer, "axis", -1), rank, "axis", &axis));
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d < axis ? infer_dim(infer, 0, d) : dim_fixed(1);
    for (uint32_t o = 1; o <= 2; o++)
        INLAY_TRY(infer_set_shape(infer, o, rank, dims));
done:
    return status;
}

static const op_row onnx_layer_normalization_rows[] = {
    { "LayerNormalization", 17, 0,
      "X:T, Scale:T, B?:T -> Y:T, Mean?:U, InvStdDev?:U; T=@float_ir4, U=bfloat16|float; axis:i=-1, epsilon:f=1e-05, "
      "stash_type:i=1",
      infer_layer_normalization },
};

const op_table op_onnx_layer_normalization = { "ai.onnx", onnx_layer_normalization_rows,
                                               OP_COUNT(onnx_layer_normalization_rows) };
