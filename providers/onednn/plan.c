/* Buffers -> one workspace: those that are never needed at the same time share bytes. */
#include "build.h"

enum { ALIGN = 64 };

static uint64_t padded(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int by_size(const void *a, const void *b)
{
    const rg_buffer *x = *(rg_buffer *const *)a, *y = *(rg_buffer *const *)b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static bool overlap(const rg_buffer *a, const rg_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which nothing placed before, sorted by offset, is in the way. */
static uint64_t lowest_gap(rg_buffer *const *placed, uint32_t count, const rg_buffer *x)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (!overlap(placed[i], x))
            continue;
        if (placed[i]->offset >= at + padded(x->bytes))
            return at;
        if (placed[i]->offset + padded(placed[i]->bytes) > at)
            at = placed[i]->offset + padded(placed[i]->bytes);
    }
    return at;
}

inlay_status rg_plan(rg_build *b)
{
    inlay_instance *i = b->instance;
    rg_buffer **list = rg_scratch_take(b->scratch, 2 * (size_t)i->buffer_count + 1, sizeof *list), **placed;
    uint32_t count = 0;

    if (list == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory to plan a region of %u nodes", b->c->op_count);
    placed = list + i->buffer_count;
    for (uint32_t k = 0; k < i->buffer_count; k++)
        if (i->buffers[k].kind == RG_WORK && i->buffers[k].first != INLAY_NONE && i->buffers[k].parent == INLAY_NONE)
            list[count++] = &i->buffers[k];
    qsort(list, count, sizeof *list, by_size);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = k;

        list[k]->offset = lowest_gap(placed, k, list[k]);
        for (; at > 0 && placed[at - 1]->offset > list[k]->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = list[k];
        if (list[k]->offset + padded(list[k]->bytes) > i->workspace_bytes)
            i->workspace_bytes = list[k]->offset + padded(list[k]->bytes);
    }
    for (uint32_t k = 0; k < i->buffer_count; k++) {
        rg_buffer *x = &i->buffers[k];
        const rg_buffer *p = x;
        uint64_t within = 0;

        while (p->parent != INLAY_NONE) {
            within += p->within;
            p = &i->buffers[p->parent];
        }
        if (p != x)
            x->offset = p->offset + within;
    }
    return INLAY_OK;
}
