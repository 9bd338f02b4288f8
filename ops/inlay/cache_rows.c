/* inlay/cache_rows.c - keys and values in 8 or 4 bits, between steps of a text. The optimiser makes the nodes for
 * GroupQueryAttention with quantized caches, and with option kv_cache_bits. providers/common/cache_rows.h defines the
 * formats. */
#include "schema.h"
#include "inlay/check.h"

/* Bytes of a row of `size` elements. */
static inlay_dim row_bytes(op_infer *infer, inlay_dim size)
{
    const inlay_dim codes = infer_attr_int(infer, "bits", 8) == 4 ? dim_ceil_div(infer, size, dim_fixed(2)) : size;

    return infer_has_in(infer, 1) ? codes : dim_add(infer, codes, dim_fixed((int64_t)sizeof(float)));
}

/* The scales are one element, or [1, heads, 1, size]. */
static inlay_status check_scales(const op_infer *infer, uint32_t rows)
{
    const uint32_t rank = infer_rank(infer, 1);

    if (rank == INLAY_RANK_UNKNOWN || rank <= 1 || rank == rows)
        return INLAY_OK;
    return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the scales have rank %u; the rows are of rank %u", rank, rows);
}

static inlay_status infer_rows(op_infer *infer, bool back)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK], size;
    inlay_status status = INLAY_OK;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank == 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "a scalar has no rows");
    INLAY_TRY(check_scales(infer, rank));
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    if (back) {
        size = dim_fixed(infer_attr_int(infer, "size", 0));
        INLAY_TRY(dim_merge(infer, dims[rank - 1], row_bytes(infer, size), "bytes of a row", &dims[rank - 1]));
        dims[rank - 1] = size;
    } else {
        dims[rank - 1] = row_bytes(infer, dims[rank - 1]);
    }
    INLAY_TRY(infer_set_shape(infer, 0, rank, dims));
done:
    return status;
}

static inlay_status infer_quantize(op_infer *infer)
{
    /* Bytes with a scale in them are no numbers, and neither are pairs of codes. */
    infer_set_dtype(infer, 0,
                    infer_has_in(infer, 1) && infer_attr_int(infer, "bits", 8) == 8 ? INLAY_INT8 : INLAY_UINT8);
    return infer_rows(infer, false);
}

static inlay_status infer_dequantize(op_infer *infer)
{
    infer_set_dtype(infer, 0, INLAY_FLOAT);
    return infer_rows(infer, true);
}

/* Y has the shape of Q, with the size of values. */
static inlay_status infer_cached_attention(op_infer *infer)
{
    const int64_t size = infer_attr_int(infer, "value_size", 0);
    inlay_dim dims[4];

    for (uint32_t i = 0; i < 3; i++) {
        if (infer_rank(infer, i) == INLAY_RANK_UNKNOWN)
            return INLAY_OK;
        if (infer_rank(infer, i) != 4)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has rank %u; it must be 4", i,
                              infer_rank(infer, i));
    }
    for (uint32_t d = 0; d < 3; d++)
        dims[d] = infer_dim(infer, 0, d);
    dims[3] = dim_fixed(size);
    return infer_set_shape(infer, 0, 4, dims);
}

/* Rows are along the last axis. scale: one element, or [1, heads, 1, size] for rows [batch, heads, positions, size];
 * without it, each row has its own scale.
 *
 * CachedAttention(Q, K, V, bias, hidden, k_scale, v_scale) is ai.inlay's Attention (attention.c) of Q,
 * DequantizeRows(K, k_scale) and DequantizeRows(V, v_scale). blank: the result for a query whose scores are all
 * -infinity; guarded: 0, also where a score is NaN. */
static const op_row rows[] = {
    { "CachedAttention", 1, 0,
      "Q:T, K:C, V:C, bias?:T, hidden?:bool, k_scale?:float, v_scale?:float -> Y:T; T=float, C=int8|uint8; "
      "bits:i!{8|4}, blank:s='zero'{'zero'|'nan'|'guarded'}, causal:i=0, scale:f, value_size:i!",
      infer_cached_attention },
    { "DequantizeRows", 1, 0, "x:Q, scale?:float -> y:float; Q=int8|uint8; bits:i!{8|4}, size:i!", infer_dequantize },
    { "QuantizeRows", 1, 0, "x:float, scale?:float -> y:Q; Q=int8|uint8; bits:i!{8|4}", infer_quantize },
};

const op_table op_inlay_cache_rows = { "ai.inlay", rows, OP_COUNT(rows) };
