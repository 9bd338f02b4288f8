/* Reorders constants while a region is compiled, large ones on the host's threads. */
#include "cpu/weights/packs.h"
#include "inlay/host.h"

enum { SHARED_BYTES = 1 << 20 }; /* below this size one thread is faster */

/* A constant that is reordered in parts of `step` elements along its longest axis. */
struct parts {
    const tensor_layout *from, *to;
    const void *source;
    void *target;
    const int64_t *dims, *first;
    int axis;
    int64_t step;
};

/* The offset of an element in memory, in elements. */
static int64_t element_offset(const tensor_layout *layout, const int64_t *index)
{
    int64_t rest[TENSOR_MAX_RANK], offset = 0, step = 1;

    memcpy(rest, index, (size_t)layout->rank * sizeof *rest);
    for (int32_t i = layout->block_count; i-- > 0;) {
        const int64_t axis = layout->block_axes[i], block = layout->blocks[i];

        offset += rest[axis] % block * step;
        rest[axis] /= block;
        step *= block;
    }
    for (int32_t d = 0; d < layout->rank; d++)
        offset += rest[d] * layout->strides[d];
    return offset;
}

/* Copies one element after the other, for layouts that layout_copy_part does not know, such as those of bytes. */
static bool copy_elements(const tensor_layout *from, const void *source, const tensor_layout *to, void *target,
                          const int64_t *dims, const int64_t *first)
{
    const size_t bytes = cpu_type_bytes(from->type);
    tensor_dims index;
    int32_t d;

    if (bytes == 0 || from->type != to->type || from->rank != to->rank || from->kind != LAYOUT_STRIDED ||
        to->kind != LAYOUT_STRIDED)
        return false;
    memcpy(index, first, (size_t)from->rank * sizeof *index);
    for (d = 0; d < from->rank; d++)
        if (dims[d] == 0)
            return true;
    do {
        memcpy((char *)target + (size_t)element_offset(to, index) * bytes,
               (const char *)source + (size_t)element_offset(from, index) * bytes, bytes);
        for (d = from->rank; d-- > 0;) {
            if (++index[d] < first[d] + dims[d])
                break;
            index[d] = first[d];
        }
    } while (d >= 0);
    return true;
}

static inlay_status copy_parts(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct parts *parts = user;
    tensor_dims dims, first;

    (void)worker;
    INLAY_CHECK(begin < end && begin * parts->step < parts->dims[parts->axis]);
    memcpy(dims, parts->dims, (size_t)parts->from->rank * sizeof *dims);
    memcpy(first, parts->first, (size_t)parts->from->rank * sizeof *first);
    first[parts->axis] += begin * parts->step;
    dims[parts->axis] = (end * parts->step < parts->dims[parts->axis] ? end * parts->step : parts->dims[parts->axis]) -
                        begin * parts->step;
    return layout_copy_part(parts->from, parts->source, parts->to, parts->target, dims, first) ||
                   copy_elements(parts->from, parts->source, parts->to, parts->target, dims, first)
               ? INLAY_OK
               : INLAY_UNSUPPORTED;
}

bool weights_reorder_part(const cpu_state *state, const tensor_layout *from, const void *source,
                          const tensor_layout *to, void *target, const int64_t *dims, const int64_t *first)
{
    enum { STEP = 64 }; /* a multiple of the block sizes of all layouts */
    static const tensor_dims zero;
    struct parts parts = { from, to,  source, target, dims != NULL ? dims : from->dims, first != NULL ? first : zero,
                           0,    STEP };
    int64_t count;

    if (dims == NULL)
        memset(target, 0, layout_bytes(to)); /* the padding of blocks */
    for (int d = 1; d < from->rank; d++)
        parts.axis = parts.dims[d] > parts.dims[parts.axis] ? d : parts.axis;
    count = (parts.dims[parts.axis] + STEP - 1) / STEP;
    if (from->rank < 1 || count == 0)
        return true;
    return (layout_bytes(to) < SHARED_BYTES
                ? copy_parts(&parts, 0, count, 0)
                : state->host->parallel_for(state->host->ctx, NULL, count, 1, copy_parts, &parts)) == INLAY_OK;
}

inlay_status cpu_reorder_now(const cpu_state *state, const tensor_layout *from, const void *source,
                             const tensor_layout *to, void *target, inlay_diag *diag)
{
    return weights_reorder_part(state, from, source, to, target, NULL, NULL)
               ? INLAY_OK
               : inlay_fail(diag, INLAY_UNSUPPORTED, "there is no copy of a constant between these layouts");
}
