/* ops/infer/rules.c - rules of shape inference that many operators share. */
#include "infer.h"
#include "inlay/check.h"

inlay_status infer_same_as_first(op_infer *infer)
{
    if (!infer_has_in(infer, 0))
        return INLAY_OK;
    return infer_set_shape(infer, 0, infer->in[0]->rank, infer->in[0]->dims);
}

/* The broadcast shape of inputs first to end - 1; out_dims has room for INLAY_MAX_RANK. *out_rank is INLAY_RANK_UNKNOWN
 * if a rank is unknown. */
static inlay_status infer_broadcast(op_infer *infer, uint32_t first, uint32_t end, uint32_t *out_rank,
                                    inlay_dim *out_dims)
{
    inlay_status status = INLAY_OK;
    uint32_t rank = 0;

    INLAY_CHECK(first <= end);
    *out_rank = INLAY_RANK_UNKNOWN;
    for (uint32_t i = first; i < end; i++) {
        if (!infer_has_in(infer, i))
            continue;
        if (infer_rank(infer, i) == INLAY_RANK_UNKNOWN || infer_rank(infer, i) > INLAY_MAX_RANK)
            return INLAY_OK;
        rank = infer_rank(infer, i) > rank ? infer_rank(infer, i) : rank;
    }
    for (uint32_t d = 0; d < rank; d++)
        out_dims[d] = dim_fixed(1);
    for (uint32_t i = first; i < end; i++) {
        uint32_t offset;

        if (!infer_has_in(infer, i))
            continue;
        INLAY_CHECK(infer_rank(infer, i) <= rank);
        offset = rank - infer_rank(infer, i);
        for (uint32_t d = offset; d < rank; d++)
            INLAY_TRY(dim_broadcast(infer, out_dims[d], infer_dim(infer, i, d - offset), &out_dims[d]));
    }
    *out_rank = rank;
done:
    return status;
}

inlay_status infer_broadcast_all(op_infer *infer)
{
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t rank;
    inlay_status status = infer_broadcast(infer, 0, infer->in_count, &rank, dims);

    return status == INLAY_OK ? infer_set_shape(infer, 0, rank, dims) : status;
}

inlay_status infer_broadcasts_to(const op_infer *infer, uint32_t i, uint32_t rank, const inlay_dim *dims)
{
    uint32_t own = infer_rank(infer, i);

    INLAY_CHECK(rank == INLAY_RANK_UNKNOWN || rank == 0 || dims != NULL);
    if (own == INLAY_RANK_UNKNOWN || rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (own > rank)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has rank %u; it cannot be broadcast to rank %u", i,
                          own, rank);
    for (uint32_t d = 0; d < own; d++) {
        inlay_dim from = infer_dim(infer, i, d), to = dims[rank - own + d];

        if (from.kind == INLAY_DIM_FIXED && from.value != 1 && to.kind == INLAY_DIM_FIXED && to.value != from.value)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "size %lld of input %u along axis %u must be 1 or %lld",
                              (long long)from.value, i, d, (long long)to.value);
    }
    return INLAY_OK;
}

inlay_status infer_check_list(const op_infer *infer, uint32_t i)
{
    const uint32_t rank = infer_rank(infer, i);

    if (rank != INLAY_RANK_UNKNOWN && rank > 1)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has rank %u; it must have rank 1", i, rank);
    return INLAY_OK;
}

inlay_status infer_check_count(op_infer *infer, uint32_t i, inlay_dim count)
{
    const inlay_status status = infer_check_list(infer, i);
    inlay_dim own;

    if (status != INLAY_OK || !infer_has_in(infer, i) || infer_rank(infer, i) == INLAY_RANK_UNKNOWN)
        return status;
    own = dim_product(infer, infer->in[i]->dims, infer->in[i]->rank);
    if (own.kind == INLAY_DIM_FIXED && count.kind == INLAY_DIM_FIXED && own.value != count.value)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has %lld elements; it must have %lld", i,
                          (long long)own.value, (long long)count.value);
    return INLAY_OK;
}

inlay_status infer_scalar(op_infer *infer)
{
    return infer_set_shape(infer, 0, 0, NULL);
}

inlay_status infer_same_elements(op_infer *infer)
{
    uint32_t count;
    const inlay_dim *elements = infer_elements(infer, 0, &count);

    return elements != NULL ? infer_set_elements(infer, 0, count, elements) : INLAY_OK;
}

inlay_dim dim_product(op_infer *infer, const inlay_dim *dims, uint32_t count)
{
    inlay_dim product = dim_fixed(1);

    INLAY_CHECK(count == 0 || dims != NULL);
    for (uint32_t i = 0; i < count; i++)
        product = dim_mul(infer, product, dims[i]);
    return product;
}

inlay_status infer_pairwise_elements(op_infer *infer, inlay_dim (*combine)(op_infer *infer, inlay_dim a, inlay_dim b))
{
    inlay_dim elements[INFER_MAX_ELEMENTS];
    const inlay_dim *a, *b;
    uint32_t count[2], total;

    if (!infer_has_out(infer, 0) || infer_rank(infer, 0) > 1 || infer_rank(infer, 1) > 1)
        return INLAY_OK;
    a = infer_elements(infer, 0, &count[0]);
    b = infer_elements(infer, 1, &count[1]);
    if (a == NULL || b == NULL || (count[0] != count[1] && count[0] != 1 && count[1] != 1))
        return INLAY_OK;
    total = count[0] == 1 ? count[1] : count[0];
    INLAY_CHECK(total <= INFER_MAX_ELEMENTS);
    for (uint32_t i = 0; i < total; i++)
        elements[i] = combine(infer, a[count[0] == 1 ? 0 : i], b[count[1] == 1 ? 0 : i]);
    return infer_set_elements(infer, 0, total, elements);
}
