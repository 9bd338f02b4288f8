/* Buffers -> one workspace. */
#include "region/build.h"
#include "spans.h"

enum { ALIGN = 64 };

inlay_status rg_plan(rg_build *b)
{
    inlay_instance *i = b->instance;
    struct span *list = rg_scratch_take(b->scratch, (size_t)i->buffer_count + 1, sizeof *list);
    uint32_t count = 0;

    if (list == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory to plan a region of %u nodes", b->c->op_count);
    for (uint32_t k = 0; k < i->buffer_count; k++) {
        const rg_buffer *x = &i->buffers[k];

        if (x->kind == RG_WORK && x->first != INLAY_NONE && x->parent == INLAY_NONE)
            list[count++] = (struct span){ x->bytes, x->first, x->last, k, 0 };
    }
    i->workspace_bytes = spans_place(list, count, ALIGN);
    for (uint32_t k = 0; k < count; k++)
        i->buffers[list[k].id].offset = list[k].offset;
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
