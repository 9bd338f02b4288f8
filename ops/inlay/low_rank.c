/* inlay/low_rank.c - low-rank additions to matrix multiplications: LoRA adapters. Option `adapter` adds the nodes
 * (host/runtime/session/adapters.c). */
#include "schema.h"

enum { IN_BASE, IN_X, IN_ROWS, IN_FACTORS };

/* Fails if dimension d of input i is known and differs from that of another input. */
static inlay_status check_dim(const op_infer *infer, uint32_t i, uint32_t d, inlay_dim wanted, const char *what)
{
    const inlay_dim dim = infer_dim(infer, i, d);

    if (dim.kind != INLAY_DIM_FIXED || wanted.kind != INLAY_DIM_FIXED || dim.value == wanted.value)
        return INLAY_OK;
    return infer_fail(infer, INLAY_SHAPE_MISMATCH, "factor %u has %lld elements along axis %u, but %s %lld",
                      i - IN_FACTORS, (long long)dim.value, d, what, (long long)wanted.value);
}

static inlay_dim last_dim(const op_infer *infer, uint32_t i)
{
    const uint32_t rank = infer_rank(infer, i);

    return rank == INLAY_RANK_UNKNOWN || rank == 0 ? dim_unknown() : infer_dim(infer, i, rank - 1);
}

static inlay_status infer_low_rank(op_infer *infer)
{
    inlay_status status = INLAY_OK;
    const inlay_attr_info *scale_list = infer_attr(infer, "scales");
    const uint32_t scales = scale_list != NULL ? scale_list->count : 0;
    uint32_t pairs = 0;

    (void)infer_attr_ints(infer, "adapters", &pairs);
    if (pairs != scales || infer->in_count != IN_FACTORS + 2 * (uint64_t)pairs)
        return infer_fail(infer, INLAY_INVALID_MODEL, "%u adapters and %u scales need two factors each; there are %u",
                          pairs, scales, infer->in_count - IN_FACTORS);
    for (uint32_t i = IN_FACTORS; i < infer->in_count; i++)
        if (infer_rank(infer, i) != INLAY_RANK_UNKNOWN && infer_rank(infer, i) != 2)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "factor %u has rank %u, not 2", i - IN_FACTORS,
                              infer_rank(infer, i));
    for (uint32_t i = IN_FACTORS; i < infer->in_count; i += 2) {
        INLAY_TRY(check_dim(infer, i, 1, last_dim(infer, IN_X), "the rows to multiply have"));
        INLAY_TRY(check_dim(infer, i + 1, 1, last_dim(infer, IN_BASE), "the rows to add to have"));
        INLAY_TRY(check_dim(infer, i + 1, 0, infer_dim(infer, i, 0), "the factor before has"));
    }
    status = infer_same_as_first(infer);
done:
    return status;
}

/* y = base + scales[p] * (x * transpose(factors[2p])) * factors[2p + 1] for the rows of adapter adapters[p]. The
 * factors are [rank, K] and [rank, N]. rows [R]: the adapter of each of the R equal parts of the rows, -1 = none. */
static const op_row inlay_low_rank_rows[] = {
    { "LowRank", 1, 0,
      "base:T, x:T, rows:I, factors%:F -> y:T; T=float|float16|bfloat16, I=int64, F=float|float16|bfloat16; "
      "adapters:is!, count:i!, scales:fs!",
      infer_low_rank },
};

const op_table op_inlay_low_rank = { "ai.inlay", inlay_low_rank_rows, OP_COUNT(inlay_low_rank_rows) };
