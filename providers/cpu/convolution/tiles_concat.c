/* Concatenations of channels without copies: a convolution writes its pixels into their slice of the concatenated
 * image. That image is allocated with its first slice; other inputs are copied into it when the concatenation is
 * lowered. */
#include "cpu/convolution/tiles.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"

/* The only consumer of the value if it is a concatenation of channels, INLAY_NONE otherwise; *out_before: channels
 * before the value's. */
static uint32_t concat_of(const cpu_build *build, uint32_t value, int64_t *out_before)
{
    const cpu_value *info = &build->compiled->values[value];
    uint32_t found = INLAY_NONE;

    if (info->output != INLAY_NONE || info->constant != INLAY_NONE || info->uses != 1 || build->ranks[value] != 4)
        return INLAY_NONE;
    for (uint32_t concat = 0; concat < build->compiled->op_count && found == INLAY_NONE; concat++) {
        const cpu_op *op = &build->compiled->ops[concat];

        *out_before = 0;
        for (uint32_t i = 0; i < op->in_count; i++) {
            if (op->in[i] == value) {
                found = op->row->family->kind == CPU_FAMILY_CONCAT && op->axis == 1 ? concat : INLAY_NONE;
                if (found == INLAY_NONE)
                    return INLAY_NONE;
                break;
            }
            *out_before += op->in[i] != INLAY_NONE && build->ranks[op->in[i]] == 4 ? build->dims[op->in[i]][1] : 0;
        }
    }
    return found;
}

/* The slice of channels [before, before + dims[1]) of the channels-last image `whole`. */
static void slice_of(const cpu_place *whole, int64_t before, const int64_t *dims, cpu_place *out)
{
    const int64_t *image = whole->layout.dims;
    int64_t strides[] = { image[1] * image[2] * image[3], 1, image[1] * image[3], image[1] };
    INLAY_CHECK(before >= 0 && before + dims[1] <= image[1]);

    *out = (cpu_place){ .buffer = whole->buffer, .offset = (uint64_t)before * sizeof(float) };
    layout_strides(&out->layout, 4, dims, strides);
}

bool tiles_is_concat_slice(const cpu_build *build, uint32_t value)
{
    int64_t before = 0;
    uint32_t concat = concat_of(build, value, &before);

    return concat != INLAY_NONE && build->compiled->values[build->compiled->ops[concat].out[0]].output == INLAY_NONE;
}

inlay_status tiles_concat_slice(cpu_build *build, uint32_t value, cpu_place *out, bool *out_found)
{
    int64_t before = 0;
    uint32_t concat = concat_of(build, value, &before), output;
    inlay_status status = INLAY_OK;
    tensor_layout layout;

    *out_found = false;
    if (concat == INLAY_NONE)
        return INLAY_OK;
    output = build->compiled->ops[concat].out[0];
    if (build->compiled->values[output].output != INLAY_NONE || cpu_count(build, output) == 0)
        return INLAY_OK;
    for (uint32_t i = 0; i < build->compiled->ops[concat].in_count; i++)
        if (cpu_type(build, build->compiled->ops[concat].in[i]) != ELEMENT_FLOAT)
            return INLAY_OK;
    if ((build->has[output] & CPU_HAS_HOME) == 0) {
        layout_channels_last(&layout, 4, build->dims[output]);
        status = cpu_new_place(build, &layout, &build->homes[output]);
        if (status != INLAY_OK)
            return status;
        build->has[output] |= CPU_HAS_HOME;
    }
    slice_of(&build->homes[output], before, build->dims[value], out);
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
        slice_of(home, before, build->dims[op->in[i]], &part);
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
