/* The masks of attention: how a mask lies, and how many keys it has columns for. */
#include "region/build.h"

int64_t rg_mask_reach(const rg_build *b)
{
    const rg_op *op = b->op;
    const int64_t keys = b->dims[op->in[1]][2];
    int64_t columns;

    if (op->in_count < 4 || op->in[3] == INLAY_NONE)
        return keys;
    columns = b->dims[op->in[3]][b->ranks[op->in[3]] - 1];
    return columns < keys ? columns : keys;
}

sg_blank rg_blank(const rg_op *op)
{
    return !op->attention.own ? SG_BLANK_ZERO : op->attention.guarded ? SG_BLANK_GUARDED : SG_BLANK_NAN;
}

inlay_status rg_read_mask(rg_build *b, uint32_t input, rg_mask *m, rg_place *out)
{
    const uint32_t value = input < b->op->in_count ? b->op->in[input] : INLAY_NONE;

    *m = (rg_mask){ .there = value != INLAY_NONE };
    if (!m->there)
        return INLAY_OK;
    {
        const int64_t *dims = b->dims[value];
        uint32_t rank = b->ranks[value];
        int64_t stride = dims[rank - 1], *const steps[] = { &m->query, &m->head, &m->batch };

        m->step = stride == 1 ? 0 : 1;
        for (uint32_t d = 2; d <= rank && d <= 4; d++) {
            *steps[d - 2] = dims[rank - d] == 1 ? 0 : stride;
            stride *= dims[rank - d];
        }
    }
    return rg_read_plain(b, value, out);
}
