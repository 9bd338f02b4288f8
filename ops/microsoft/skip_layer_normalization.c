/* microsoft/skip_layer_normalization.c - contributed operators of ONNX Runtime that add a residual before the
 * normalization ("ContribOperators.md" of that project); the sum is an output, too. The optimiser writes them. */
#include "schema.h"

/* The outputs have the shape of the input; the last axis of mean and inv_std_var has size 1. */
static inlay_status infer_skip(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status = INLAY_OK;

    INLAY_TRY(infer_same_as_first(infer));
    if (rank == INLAY_RANK_UNKNOWN || rank == 0 || rank > INLAY_MAX_RANK)
        goto done;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    for (uint32_t i = 1; i < infer->node->input_count; i++) {
        const uint32_t axes = infer_has_in(infer, i) ? infer_rank(infer, i) : INLAY_RANK_UNKNOWN;
        const inlay_dim wide = axes != INLAY_RANK_UNKNOWN && axes > 0 ? infer_dim(infer, i, axes - 1) : dim_unknown();

        if (wide.kind == INLAY_DIM_FIXED && dims[rank - 1].kind == INLAY_DIM_FIXED &&
            wide.value != dims[rank - 1].value)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                              "input %u has %lld elements along its last axis; input 0 has %lld", i,
                              (long long)wide.value, (long long)dims[rank - 1].value);
    }
    INLAY_TRY(infer_set_shape(infer, 3, rank, dims));
    dims[rank - 1] = dim_fixed(1);
    for (uint32_t o = 1; o <= 2; o++)
        INLAY_TRY(infer_set_shape(infer, o, rank, dims));
done:
    return status;
}

static const op_row microsoft_skip_layer_normalization_rows[] = {
    { "SkipLayerNormalization", 1, 0,
      "input:T, skip:T, gamma:T, beta?:T, bias?:T -> output:T, mean?:float, inv_std_var?:float, "
      "input_skip_bias_sum?:T; T=@float_ir4; epsilon:f=1e-12",
      infer_skip },
    { "SkipSimplifiedLayerNormalization", 1, 0,
      "input:T, skip:T, gamma:T, bias?:T -> output:T, mean?:float, inv_std_var?:float, input_skip_bias_sum?:T; "
      "T=@float_ir4; epsilon:f=1e-12",
      infer_skip },
};

const op_table op_microsoft_skip_layer_normalization = { "com.microsoft", microsoft_skip_layer_normalization_rows,
                                                         OP_COUNT(microsoft_skip_layer_normalization_rows) };
