/* microsoft/early.c - operators of ai.onnx in ONNX Runtime that ONNX does not have, or had only before opset 10. ONNX
 * Runtime's tools write SimplifiedLayerNormalization into models of any opset. */
#include "schema.h"

static inlay_status infer_normalized(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t axis;
    inlay_status status = INLAY_OK;

    INLAY_TRY(infer_same_as_first(infer));
    if (!infer_has_out(infer, 1) || rank == INLAY_RANK_UNKNOWN || rank > INLAY_MAX_RANK)
        goto done;
    INLAY_TRY(infer_axis(infer, infer_attr_int(infer, "axis", -1), rank, "axis", &axis));
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d < axis ? infer_dim(infer, 0, d) : dim_fixed(1);
    INLAY_TRY(infer_set_shape(infer, 1, rank, dims));
done:
    return status;
}

/* Crop: an image of unknown height and width. */
static inlay_status infer_crop(op_infer *infer)
{
    const inlay_dim dims[] = { infer_dim(infer, 0, 0), infer_dim(infer, 0, 1), dim_unknown(), dim_unknown() };
    const uint32_t rank = infer_rank(infer, 0);

    return rank == 4 ? infer_set_shape(infer, 0, 4, dims) : INLAY_OK;
}

/* The bias has an element for each channel of an image [.., channels, height, width]. */
static inlay_status infer_image_scaler(op_infer *infer)
{
    const inlay_attr_info *bias = infer_attr(infer, "bias");
    const uint32_t rank = infer_rank(infer, 0);
    const inlay_dim channels = rank != INLAY_RANK_UNKNOWN && rank >= 3 ? infer_dim(infer, 0, rank - 3) : dim_unknown();

    if (bias != NULL &&
        (bias->count == 0 || (channels.kind == INLAY_DIM_FIXED && channels.value != (int64_t)bias->count)))
        return infer_fail(infer, INLAY_INVALID_MODEL, "bias has %llu elements; it must have one for each channel",
                          (unsigned long long)bias->count);
    return infer_same_as_first(infer);
}

static const op_row microsoft_early_rows[] = {
    { "Affine", 1, 0, "X:T -> Y:T; T=@float; alpha:f=1, beta:f=0", infer_same_as_first },
    { "Crop", 1, 0, "input:T -> output:T; T=@float; border:is!, scale:is", infer_crop },
    { "DynamicSlice", 1, 0, "data:T, starts:Tind, ends:Tind, axes?:Tind -> output:T; T=@all, Tind=int32|int64", NULL },
    { "ImageScaler", 1, 0, "input:T -> output:T; T=@float; bias:fs=[], scale:f=1", infer_image_scaler },
    { "ParametricSoftplus", 1, 0, "X:T -> Y:T; T=@float; alpha:f!, beta:f!", infer_same_as_first },
    { "Scale", 1, 0, "input:T -> output:T; T=@float; scale:f=1", infer_same_as_first },
    { "ScaledTanh", 1, 0, "input:T -> output:T; T=@float; alpha:f!, beta:f!", infer_same_as_first },
    { "SimplifiedLayerNormalization", 1, 0,
      "X:T, scale:V -> Y:V, inv_std_var?:U; T=@float_ir4, V=@float_ir4, U=float|double; axis:i=-1, epsilon:f=1e-05, "
      "stash_type:i=1",
      infer_normalized },
};

const op_table op_microsoft_early = { "ai.onnx", microsoft_early_rows, OP_COUNT(microsoft_early_rows) };
