/* Copies of constants between layouts, while a region is compiled: by the library, or by threads of our own. */
#include "weights/packs.h"

enum { ALONE_BYTES = 1 << 20 };

/* A part of a constant for each thread, along the axis with most elements: without a library. */
struct parts {
    const rg_md *from, *to;
    const void *source;
    void *target;
    const int64_t *dims, *first;
    int axis;
    int64_t step;
};

static inlay_status copy_parts(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct parts *parts = user;
    dn_dims dims, first;

    (void)worker;
    memcpy(dims, parts->dims, (size_t)parts->from->ndims * sizeof *dims);
    memcpy(first, parts->first, (size_t)parts->from->ndims * sizeof *first);
    first[parts->axis] += begin * parts->step;
    dims[parts->axis] = (end * parts->step < parts->dims[parts->axis] ? end * parts->step : parts->dims[parts->axis]) -
                        begin * parts->step;
    return rg_md_copy_part(parts->from, parts->source, parts->to, parts->target, dims, first) ? INLAY_OK
                                                                                              : INLAY_UNSUPPORTED;
}

dn_status weights_reorder_part(const rg_state *state, const rg_md *from, const void *source, const rg_md *to,
                               void *target, const int64_t *dims, const int64_t *first)
{
    enum { STEP = 64 }; /* blocks are whole */
    static const dn_dims zero;
    struct parts parts = { from, to,  source, target, dims != NULL ? dims : from->dims, first != NULL ? first : zero,
                           0,    STEP };

    if (!state->alone || rg_md_bytes(to) < ALONE_BYTES || from->ndims < 1)
        return dn_reorder(state->engine, from, source, to, target, dims, first);
    if (dims == NULL)
        memset(target, 0, rg_md_bytes(to)); /* what pads blocks */
    for (int d = 1; d < from->ndims; d++)
        parts.axis = parts.dims[d] > parts.dims[parts.axis] ? d : parts.axis;
    return state->host->parallel_for(state->host->ctx, NULL, (parts.dims[parts.axis] + STEP - 1) / STEP, 1, copy_parts,
                                     &parts) == INLAY_OK
               ? DN_SUCCESS
               : dn_reorder(state->engine, from, source, to, target, dims, first);
}

inlay_status rg_reorder_now(const rg_state *state, const rg_md *from, const void *source, const rg_md *to, void *target,
                            inlay_diag *diag)
{
    int before = rg_md_bytes(to) < ALONE_BYTES ? rg_threads_set(1) : 0; /* not worth waking others */
    dn_status code = weights_reorder_part(state, from, source, to, target, NULL, NULL);

    rg_threads_restore(before);
    return rg_check(code, diag, "reorder a constant", "weights");
}
