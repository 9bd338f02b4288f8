/* inlay/blocks.c - quantized weights that stay as a file of another format has them; the translation of the file
 * creates the node (host/formats/gguf_weights.c). */
#include "schema.h"

static inlay_status infer_blocks(op_infer *infer)
{
    const int64_t bits = infer_attr_int(infer, "bits", 4), group = infer_attr_int(infer, "block_size", 0);
    const int64_t columns = infer_attr_int(infer, "columns", 0);
    const uint32_t rank = infer_rank(infer, 0);
    const bool joined = infer_attr_int(infer, "joined", 0) != 0;
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status;

    if (group < 1 || group > 256 || columns < 1 || columns > INT32_MAX || columns % group != 0 || group * bits % 8 != 0)
        return infer_fail(infer, INLAY_INVALID_MODEL, "block_size is %lld and columns %lld; these are not whole groups",
                          (long long)group, (long long)columns);
    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank < 2 || rank > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the blocks have rank %u; it must be 2 to %d", rank,
                          INLAY_MAX_RANK);
    for (uint32_t d = 0; d + 2 < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    dims[rank - 2] = dim_fixed(joined ? columns * bits / 8 : columns / group);
    dims[rank - 1] = dim_fixed(group * bits / 8);
    INLAY_TRY(infer_set_shape(infer, 0, joined ? rank - 1 : rank, dims));
    dims[rank - 2] = dim_fixed(columns / group);
    for (uint32_t o = 1; o < infer->out_count && status == INLAY_OK; o++)
        status = infer_set_shape(infer, o, rank - 1, dims);
done:
    return status;
}

/* blocks [..., blocks of a row, bytes of a block] of a type of GGUF become codes of `bits` bits with a scale, and
 * perhaps a zero point, for each block_size elements of a row: codes [..., groups, bytes of a group], or joined
 * [..., bytes of a row], scales and zeros [..., groups]. */
static const op_row inlay_blocks_rows[] = {
    { "UnpackBlocks", 1, 0,
      "blocks:T -> codes:T, scales:F, zeros?:F; T=uint8, F=float; type:i!, columns:i!, bits:i=4{2|4|8}, block_size:i!, "
      "joined:i=0{0|1}",
      infer_blocks },
};

const op_table op_inlay_blocks = { "ai.inlay", inlay_blocks_rows, OP_COUNT(inlay_blocks_rows) };
