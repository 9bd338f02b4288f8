/* microsoft/movement.c - contributed operators of ONNX Runtime that move, look up and quantize elements. The optimiser
 * expands them to operators of ONNX, and the shapes follow from these. */
#include "schema.h"

#define QUANTIZED "uint8|int8|uint16|int16|uint4|int4"

/* [batch, length, columns of the table of words], [batch], and the first again. Attention, which reads the second one,
 * is expanded by its rank. A node has all inputs of segments (ids, table, and in the quantized form the table's scale
 * and zero point) or none. */
static inlay_status infer_embedded(op_infer *infer)
{
    static const uint32_t segments[] = { 1, 4, 10, 15 };
    const uint32_t count = infer->node->op_type.data[0] == 'Q' ? 4 : 2;
    const inlay_dim dims[] = { infer_dim(infer, 0, 0), infer_dim(infer, 0, 1), infer_dim(infer, 2, 1) };
    inlay_status status;

    for (uint32_t i = 1; i < count; i++)
        if (infer_has_in(infer, segments[i]) != infer_has_in(infer, segments[0]))
            return infer_fail(infer, INLAY_INVALID_MODEL,
                              "input %u belongs to input 1 (segment_ids): give both, or neither", segments[i]);
    INLAY_TRY(infer_set_shape(infer, 0, 3, dims));
    INLAY_TRY(infer_set_shape(infer, 1, 1, dims));
    INLAY_TRY(infer_set_shape(infer, 2, 3, dims));
done:
    return status;
}

static const op_row microsoft_movement_rows[] = {
    { "DequantizeLinear", 1, 0,
      "x:T1, x_scale:T2, x_zero_point?:T1 -> y:T2; T1=" QUANTIZED "|int32, T2=float16|float; axis:i",
      infer_same_as_first },
    { "EmbedLayerNormalization", 1, 0,
      "input_ids:T1, segment_ids?:T1, word_embedding:T, position_embedding:T, segment_embedding?:T, gamma:T, beta:T, "
      "mask?:T1, position_ids?:T1 -> output:T, mask_index?:T1, embedding_sum?:T; T1=int32, T=float|float16; "
      "epsilon:f=1e-12, mask_index_type:i=0{0|1}",
      infer_embedded },
    { "ExpandDims", 1, 0, "X:T, axis:int32 -> Y:T; T=@all_ir4", NULL },
    { "GatherND", 1, 0, "data:T, indices:Tind -> output:T; T=@all_ir4, Tind=int32|int64", NULL },
    { "GridSample", 1, 0,
      "X:T1, Grid:T1 -> Y:T2; T1=@all, T2=@float; align_corners:i=0, "
      "mode:s='bilinear'{'bilinear'|'nearest'|'bicubic'}, padding_mode:s='zeros'{'zeros'|'border'|'reflection'}",
      NULL },
    { "Pad", 1, 0,
      "data:T, pads:int64, value?:T -> output:T; T=@float_ir4; mode:s='constant'{'constant'|'reflect'|'edge'|'wrap'}",
      NULL },
    { "QEmbedLayerNormalization", 1, 0,
      "input_ids:T1, segment_ids?:T1, word_embedding_quant:T2, position_embedding_quant:T2, segment_embedding?:T2, "
      "gamma_quant:T2, beta_quant:T2, mask?:T1, word_embedding_scale:T, position_embedding_scale:T, "
      "segment_embedding_scale?:T, gamma_scale:T, beta_scale:T, word_embedding_zero_point:T2, "
      "position_embedding_zero_point:T2, segment_embedding_zero_point?:T2, gamma_zero_point:T2, beta_zero_point:T2 -> "
      "layernorm_out:T, mask_index_out:T1; T1=int32, T2=int8|uint8, T=float; epsilon:f=1e-12",
      infer_embedded },
    { "QuantizeLinear", 1, 0, "x:T1, y_scale:T1, y_zero_point?:T2 -> y:T2; T1=float16|float, T2=" QUANTIZED "; axis:i",
      infer_same_as_first },
    { "Range", 1, 0, "start:T, limit:T, delta?:T -> Y:T; T=float|double|int16|int32|int64", NULL },
    { "SampleOp", 1, 0, "X:T -> Y:T; T=@float|uint32|uint64|int32|int64|bool|uint8|uint16|int8|int16|string",
      infer_same_as_first },
    { "UnfoldTensor", 1, 0, "input:T -> output:T; T=@all_ir4; dim:i=-1, size:i!, step:i=1", NULL },
    { "Unique", 1, 0, "x:T -> y:T, idx:int64, counts:int64; T=float", NULL },
};

const op_table op_microsoft_movement = { "com.microsoft", microsoft_movement_rows, OP_COUNT(microsoft_movement_rows) };
