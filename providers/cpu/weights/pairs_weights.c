#include "weights/pairs_weights.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(pairs_pack_weights, "");

typedef struct pack_call {
    const pairs_packed_weights *weights;
    float *target;
} pack_call;

void pairs_layout(int64_t k, int64_t n, memory_desc *md)
{
    const int64_t floats = pairs_pack_floats(k, n);

    memory_desc_plain(md, 1, &floats);
}

static inlay_status pack_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const pack_call *call = user;

    (void)worker;
    pairs_pack(call->weights, call->target, begin, end);
    return INLAY_OK;
}

bool pairs_pack_weights(const cpu_state *state, const memory_desc *plain, const void *source, const memory_desc *md,
                        void *target)
{
    const int64_t *strides = plain->strides;
    pairs_packed_weights weights = { .data = source, .window = { 1, 1, 1 } };
    pack_call call = { &weights, target };

    if (md->ndims != 1 || plain->ndims < 2 || plain->ndims > 5 || plain->kind != CPU_BLOCKED ||
        memory_desc_is_blocked(plain) || plain->data_type != LIBRARY_F32 || md->data_type != LIBRARY_F32)
        return false;
    weights.n = plain->dims[0];
    weights.k = weights.in = plain->dims[1];
    weights.column = strides[0];
    weights.step = strides[1];
    for (int d = 2; d < plain->ndims; d++) {
        weights.window[d - 2] = plain->dims[d];
        weights.steps[d - 2] = strides[d];
        weights.k *= plain->dims[d];
    }
    if (weights.n <= 0 || weights.k <= 0 || md->dims[0] != pairs_pack_floats(weights.k, weights.n))
        return false;
    /* The loop cannot fail: there is no run that could be cancelled, and pack_units succeeds. */
    (void)state->host->parallel_for(state->host->ctx, NULL, pairs_pack_units(&weights), 1, pack_units, &call);
    return true;
}
