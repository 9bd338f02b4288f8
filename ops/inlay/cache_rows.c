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
    /* Bytes with a scale in them are not numbers, and neither are pairs of codes. */
    infer_set_dtype(infer, 0,
                    infer_has_in(infer, 1) && infer_attr_int(infer, "bits", 8) == 8 ? INLAY_INT8 : INLAY_UINT8);
    return infer_rows(infer, false);
}

static inlay_status infer_dequantize(op_infer *infer)
{
    infer_set_dtype(infer, 0, INLAY_FLOAT);
    return infer_rows(infer, true);
}

/* Rows are along the last axis. scale: one element, or [1, heads, 1, size] for rows [batch, heads, positions, size];
 * without it, each row has its own scale. */
static const op_row inlay_cache_rows_rows[] = {
    { "DequantizeRows", 1, 0, "x:Q, scale?:float -> y:float; Q=int8|uint8; bits:i!{8|4}, size:i!", infer_dequantize },
    { "QuantizeRows", 1, 0, "x:float, scale?:float -> y:Q; Q=int8|uint8; bits:i!{8|4}", infer_quantize },
};

const op_table op_inlay_cache_rows = { "ai.inlay", inlay_cache_rows_rows, OP_COUNT(inlay_cache_rows_rows) };
