/* Concatenations of channels without copies: a convolution writes its pixels into the image that they will be a part
 * of. That image is made when its first part is; what else is a part of it is copied in when the concatenation runs. */
#include "convolution/tiles.h"

/* The concatenation of channels that alone reads the value, INLAY_NONE; *out_before: channels before its own. */
static uint32_t concat_of(const rg_build *b, uint32_t value, int64_t *out_before)
{
    const rg_value *v = &b->c->values[value];
    uint32_t found = INLAY_NONE;

    if (v->output != INLAY_NONE || v->constant != INLAY_NONE || v->uses != 1 || b->ranks[value] != 4)
        return INLAY_NONE;
    for (uint32_t o = 0; o < b->c->op_count && found == INLAY_NONE; o++) {
        const rg_op *op = &b->c->ops[o];

        *out_before = 0;
        for (uint32_t i = 0; i < op->in_count; i++) {
            if (op->in[i] == value) {
                found = op->row->family == &rg_concat && op->axis == 1 ? o : INLAY_NONE;
                if (found == INLAY_NONE)
                    return INLAY_NONE;
                break;
            }
            *out_before += op->in[i] != INLAY_NONE && b->ranks[op->in[i]] == 4 ? b->dims[op->in[i]][1] : 0;
        }
    }
    return found;
}

/* Channels [before, before + dims[1]) of the image at `whole`, which has channels last. */
static void part_of(const rg_place *whole, int64_t before, const int64_t *dims, rg_place *out)
{
    const int64_t *d = whole->md.dims;
    int64_t strides[] = { d[1] * d[2] * d[3], 1, d[1] * d[3], d[1] };

    *out = (rg_place){ .buffer = whole->buffer, .offset = (uint64_t)before * sizeof(float) };
    rg_md_strides(&out->md, 4, dims, strides);
}

bool tiles_has_home(const rg_build *b, uint32_t value)
{
    int64_t before = 0;
    uint32_t o = concat_of(b, value, &before);

    return o != INLAY_NONE && b->c->values[b->c->ops[o].out[0]].output == INLAY_NONE;
}

inlay_status tiles_home(rg_build *b, uint32_t value, rg_place *out, bool *out_found)
{
    int64_t before = 0;
    uint32_t o = concat_of(b, value, &before), y;
    inlay_status status = INLAY_OK;
    rg_md md;

    *out_found = false;
    if (o == INLAY_NONE)
        return INLAY_OK;
    y = b->c->ops[o].out[0];
    if (b->c->values[y].output != INLAY_NONE || rg_count(b, y) == 0)
        return INLAY_OK;
    for (uint32_t i = 0; i < b->c->ops[o].in_count; i++)
        if (rg_type(b, b->c->ops[o].in[i]) != DN_F32)
            return INLAY_OK;
    if ((b->has[y] & RG_HAS_HOME) == 0) {
        rg_md_channels_last(&md, 4, b->dims[y]);
        status = rg_new_place(b, &md, &b->homes[y]);
        if (status != INLAY_OK)
            return status;
        b->has[y] |= RG_HAS_HOME;
    }
    part_of(&b->homes[y], before, b->dims[value], out);
    *out_found = true;
    return INLAY_OK;
}

inlay_status tiles_concat(rg_build *b, const rg_group *group, bool *out_done)
{
    const rg_op *op = b->op;
    const rg_place *home = &b->homes[op->out[0]];
    inlay_status status = INLAY_OK;
    int64_t before = 0;

    *out_done = false;
    if ((b->has[op->out[0]] & RG_HAS_HOME) == 0)
        return INLAY_OK;
    for (uint32_t i = 0; i < op->in_count; i++) {
        rg_place x, part;

        if (rg_count(b, op->in[i]) == 0)
            continue;
        INLAY_TRY(rg_read_strided(b, op->in[i], &x));
        part_of(home, before, b->dims[op->in[i]], &part);
        before += b->dims[op->in[i]][1];
        if (x.buffer == part.buffer)
            continue;
        INLAY_TRY(rg_emit_copy(b, &x, &part));
    }
    INLAY_TRY(rg_set_place(b, group->out, home));
    *out_done = true;
done:
    return status;
}
