/* A value of the host at given shapes, as a tensor without its address. */
#include "internal.h"

/* The number of elements, -1 when a dim is not known; false when it is more than an int64_t counts in bytes. */
static bool count_elements(const int64_t *dims, uint32_t rank, int64_t *out_count)
{
    int64_t n = 1, limit;
    bool zero = false;

    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d] < 0) {
            *out_count = -1;
            return true;
        }
        zero |= dims[d] == 0;
    }
    for (uint32_t d = 0; d < rank && !zero; d++)
        if (__builtin_mul_overflow(n, dims[d], &n))
            return false;
    *out_count = zero ? 0 : n;
    return zero || !__builtin_mul_overflow(n, (int64_t)128, &limit); /* 128 bits is the largest element */
}

inlay_status kit_describe(const inlay_value_state *values, uint32_t stride, uint32_t value_count, uint32_t v,
                          kit_tensor *out, inlay_diag *diag)
{
    const inlay_value_state *state;

    *out = (kit_tensor){ .dtype = INLAY_UNDEFINED };
    if (v >= value_count)
        return INLAY_OK;
    state = INLAY_AT(inlay_value_state, values, stride, v);
    out->dtype = state->dtype;
    out->data = (void *)(uintptr_t)state->data;
    out->count = -1;
    if (state->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    out->rank = state->rank;
    out->dims = state->dims;
    if (!count_elements(state->dims, state->rank, &out->count))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "a tensor of rank %u has more elements than can be addressed",
                          state->rank);
    return INLAY_OK;
}
