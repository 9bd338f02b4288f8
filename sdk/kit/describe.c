/* Describes a value of the host at given shapes as a kit_tensor. */
#include "internal.h"

/* Stores the number of elements, or -1 if a dim is unknown. Returns false if the number of bytes exceeds an int64_t. */
static bool count_elements(const int64_t *dims, uint32_t rank, int64_t *out_count)
{
    int64_t count = 1, limit;
    bool zero = false;

    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d] < 0) {
            *out_count = -1;
            return true;
        }
        zero |= dims[d] == 0;
    }
    for (uint32_t d = 0; d < rank && !zero; d++)
        if (__builtin_mul_overflow(count, dims[d], &count))
            return false;
    *out_count = zero ? 0 : count;
    return zero || !__builtin_mul_overflow(count, (int64_t)128, &limit); /* the largest element has 128 bits */
}

inlay_status kit_describe(const inlay_value_state *values, uint32_t stride, uint32_t value_count, uint32_t value,
                          kit_tensor *out, inlay_diag *diag)
{
    const inlay_value_state *state;

    *out = (kit_tensor){ .dtype = INLAY_UNDEFINED };
    if (value >= value_count)
        return INLAY_OK;
    state = INLAY_AT(inlay_value_state, values, stride, value);
    out->dtype = state->dtype;
    out->data = (void *)(uintptr_t)state->data;
    out->count = -1;
    if (state->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    INLAY_CHECK(state->rank == 0 || state->dims != NULL);
    out->rank = state->rank;
    out->dims = state->dims;
    if (!count_elements(state->dims, state->rank, &out->count))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "a tensor of rank %u has more elements than can be addressed",
                          state->rank);
    return INLAY_OK;
}
