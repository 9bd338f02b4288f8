/* Convolutions that wait for their reader: one of single channels, which makes what it reads row by row. */
#include "choice/kernels.h"
#include "convolution/tiles.h"

/* The op that alone reads what the group makes, INLAY_NONE: there are several, or none. */
static uint32_t only_reader(const rg_build *b, uint32_t value)
{
    if (b->c->values[value].output != INLAY_NONE || b->c->values[value].uses != 1)
        return INLAY_NONE;
    for (uint32_t o = 0; o < b->c->op_count; o++)
        if (b->c->ops[o].in_count > 0 && b->c->ops[o].in[0] == value)
            return o;
    return INLAY_NONE;
}

/* What the reader would be lowered as, had it its input. */
static bool read_reader(const rg_build *b, const rg_group *group, uint32_t reader, rg_group *out_group, kn_case *out)
{
    const rg_op *op = &b->c->ops[reader];

    for (uint32_t g = 0; g < b->group_count; g++) {
        if (b->groups[g].op != reader)
            continue;
        *out_group = b->groups[g];
        *out = (kn_case){ .x.buffer = INLAY_NONE };
        kn_measure(b, op, &out->w);
        rg_md_channels_last(&out->x.md, b->ranks[group->out], b->dims[group->out]);
        return true;
    }
    return false;
}

static bool may_wait(const rg_build *b, const rg_group *group, const kn_case *c)
{
    const kn_window *w = &c->w;
    tile_ending ending;

    return !b->state->bf16 && !b->state->reproducible &&
           (b->state->kernel == KN_COUNT || b->state->kernel == KN_DEPTHWISE) && kn_has_tiles(b, c) && kn_is_whole(b) &&
           !w->padded && !w->home && w->kernel[0] == 1 && w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 &&
           tiles_lie_well(&c->x.md) && tiles_functions(group, &ending);
}

inlay_status kn_wait(rg_build *b, const rg_group *group, const kn_case *c, bool *out_waits)
{
    const rg_op *op = b->op;
    kn_choice choice = { .op = group->op,
                         .count = 1,
                         .source = KN_ONLY,
                         .kernel = { KN_TILES },
                         .why = "made row by row as the convolution of single channels behind it reads it" };
    uint32_t reader;
    double alone, together;
    rg_group next;
    kn_case d;

    *out_waits = false;
    if (!may_wait(b, group, c))
        return INLAY_OK;
    reader = only_reader(b, group->out);
    if (reader == INLAY_NONE || b->c->ops[reader].row->family != &rg_conv ||
        !read_reader(b, group, reader, &next, &d) || !depthwise_runs(b, &d) || !depthwise_makes(&d.w))
        return INLAY_OK;
    choice.ns[0] = kn_tiles_ns(b, group, c) + kn_gates_ns(b, group, kn_kernels[KN_TILES].gate_ns);
    alone = kn_tiles_ns(b, group, c);
    if (kn_pace(KN_TILES) > 1 && kn_library_ns(b, group, c) < alone)
        alone = kn_library_ns(b, group, c);
    b->op = &b->c->ops[reader];
    alone += kn_depthwise_ns(b, &next, &d);
    together = kn_waiting_ns(c, &d) * kn_pace(KN_TILES);
    b->op = op;
    if (together >= alone && b->state->kernel != KN_DEPTHWISE)
        return INLAY_OK;
    b->ahead[group->out] = malloc(sizeof *b->ahead[group->out]);
    if (b->ahead[group->out] == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    *b->ahead[group->out] = (kn_ahead){ group, *c };
    b->instance->buffers[c->x.buffer].pending++; /* it stays as it is until then */
    *out_waits = true;
    return kn_remember(b, &choice);
}
