/* Concatenations of channels without copies: a convolution writes its pixels into the image that they will be a part
 * of. That image is made when its first part is; what else is a part of it is copied in when the concatenation runs. */
#include "convolution/tiles.h"

/* The concatenation of channels that alone reads the value, INLAY_NONE; *out_before: channels before its own. */
static uint32_t concat_of(const cpu_build *build, uint32_t value, int64_t *out_before)
{
    const cpu_value *v = &build->compiled->values[value];
    uint32_t found = INLAY_NONE;

    if (v->output != INLAY_NONE || v->constant != INLAY_NONE || v->uses != 1 || build->ranks[value] != 4)
        return INLAY_NONE;
    for (uint32_t o = 0; o < build->compiled->op_count && found == INLAY_NONE; o++) {
        const cpu_op *op = &build->compiled->ops[o];

        *out_before = 0;
        for (uint32_t i = 0; i < op->in_count; i++) {
            if (op->in[i] == value) {
                found = op->row->family == &cpu_concat && op->axis == 1 ? o : INLAY_NONE;
                if (found == INLAY_NONE)
                    return INLAY_NONE;
                break;
            }
            *out_before += op->in[i] != INLAY_NONE && build->ranks[op->in[i]] == 4 ? build->dims[op->in[i]][1] : 0;
        }
    }
    return found;
}

/* Channels [before, before + dims[1]) of the image at `whole`, which has channels last. */
static void part_of(const cpu_place *whole, int64_t before, const int64_t *dims, cpu_place *out)
{
    const int64_t *d = whole->md.dims;
    int64_t strides[] = { d[1] * d[2] * d[3], 1, d[1] * d[3], d[1] };

    *out = (cpu_place){ .buffer = whole->buffer, .offset = (uint64_t)before * sizeof(float) };
    memory_desc_strides(&out->md, 4, dims, strides);
}

bool tiles_has_home(const cpu_build *build, uint32_t value)
{
    int64_t before = 0;
    uint32_t o = concat_of(build, value, &before);

    return o != INLAY_NONE && build->compiled->values[build->compiled->ops[o].out[0]].output == INLAY_NONE;
}

inlay_status tiles_home(cpu_build *build, uint32_t value, cpu_place *out, bool *out_found)
{
    int64_t before = 0;
    uint32_t o = concat_of(build, value, &before), output;
    inlay_status status = INLAY_OK;
    memory_desc md;

    *out_found = false;
    if (o == INLAY_NONE)
        return INLAY_OK;
    output = build->compiled->ops[o].out[0];
    if (build->compiled->values[output].output != INLAY_NONE || cpu_count(build, output) == 0)
        return INLAY_OK;
    for (uint32_t i = 0; i < build->compiled->ops[o].in_count; i++)
        if (cpu_type(build, build->compiled->ops[o].in[i]) != LIBRARY_F32)
            return INLAY_OK;
    if ((build->has[output] & CPU_HAS_HOME) == 0) {
        memory_desc_channels_last(&md, 4, build->dims[output]);
        status = cpu_new_place(build, &md, &build->homes[output]);
        if (status != INLAY_OK)
            return status;
        build->has[output] |= CPU_HAS_HOME;
    }
    part_of(&build->homes[output], before, build->dims[value], out);
    *out_found = true;
    return INLAY_OK;
}

inlay_status tiles_concat(cpu_build *build, const cpu_group *group, bool *out_done)
{
    const cpu_op *op = build->op;
    const cpu_place *home = &build->homes[op->out[0]];
    inlay_status status = INLAY_OK;
    int64_t before = 0;

    *out_done = false;
    if ((build->has[op->out[0]] & CPU_HAS_HOME) == 0)
        return INLAY_OK;
    for (uint32_t i = 0; i < op->in_count; i++) {
        cpu_place input, part;

        if (cpu_count(build, op->in[i]) == 0)
            continue;
        INLAY_TRY(cpu_read_strided(build, op->in[i], &input));
        part_of(home, before, build->dims[op->in[i]], &part);
        before += build->dims[op->in[i]][1];
        if (input.buffer == part.buffer)
            continue;
        INLAY_TRY(cpu_emit_copy(build, &input, &part));
    }
    INLAY_TRY(cpu_set_place(build, group->out, home));
    *out_done = true;
done:
    return status;
}
