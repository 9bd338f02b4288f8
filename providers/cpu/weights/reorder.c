/* Reorders constants while a region is compiled: by the library, or without one on the host's threads. */
#include "cpu/weights/packs.h"

enum { ALONE_BYTES = 1 << 20 };

/* A constant that is reordered in parts of `step` elements along its longest axis. */
struct parts {
    const memory_desc *from, *to;
    const void *source;
    void *target;
    const int64_t *dims, *first;
    int axis;
    int64_t step;
};

static inlay_status copy_parts(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct parts *parts = user;
    library_dims dims, first;

    (void)worker;
    INLAY_CHECK(begin < end && begin * parts->step < parts->dims[parts->axis]);
    memcpy(dims, parts->dims, (size_t)parts->from->ndims * sizeof *dims);
    memcpy(first, parts->first, (size_t)parts->from->ndims * sizeof *first);
    first[parts->axis] += begin * parts->step;
    dims[parts->axis] = (end * parts->step < parts->dims[parts->axis] ? end * parts->step : parts->dims[parts->axis]) -
                        begin * parts->step;
    return memory_desc_copy_part(parts->from, parts->source, parts->to, parts->target, dims, first) ? INLAY_OK
                                                                                                    : INLAY_UNSUPPORTED;
}

library_status weights_reorder_part(const cpu_state *state, const memory_desc *from, const void *source,
                                    const memory_desc *to, void *target, const int64_t *dims, const int64_t *first)
{
    enum { STEP = 64 }; /* a multiple of the block sizes of all layouts */
    static const library_dims zero;
    struct parts parts = { from, to,  source, target, dims != NULL ? dims : from->dims, first != NULL ? first : zero,
                           0,    STEP };

    if (!state->alone || memory_desc_bytes(to) < ALONE_BYTES || from->ndims < 1)
        return library_reorder(state->engine, from, source, to, target, dims, first);
    if (dims == NULL)
        memset(target, 0, memory_desc_bytes(to)); /* the padding of blocks */
    for (int d = 1; d < from->ndims; d++)
        parts.axis = parts.dims[d] > parts.dims[parts.axis] ? d : parts.axis;
    return state->host->parallel_for(state->host->ctx, NULL, (parts.dims[parts.axis] + STEP - 1) / STEP, 1, copy_parts,
                                     &parts) == INLAY_OK
               ? LIBRARY_SUCCESS
               : library_reorder(state->engine, from, source, to, target, dims, first);
}

inlay_status cpu_reorder_now(const cpu_state *state, const memory_desc *from, const void *source, const memory_desc *to,
                             void *target, inlay_diag *diag)
{
    int before = memory_desc_bytes(to) < ALONE_BYTES ? cpu_threads_set(1) : 0; /* too small to wake other threads */
    library_status code = weights_reorder_part(state, from, source, to, target, NULL, NULL);

    cpu_threads_restore(before);
    return cpu_check(code, diag, "reorder a constant", "weights");
}
