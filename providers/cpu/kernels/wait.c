/* Convolutions that wait for their reader: one of single channels, which makes what it reads row by row. */
#include "choice/kernels.h"
#include "convolution/tiles.h"

/* The op that alone reads what the group makes, INLAY_NONE: there are several, or none. */
static uint32_t only_reader(const cpu_build *build, uint32_t value)
{
    if (build->compiled->values[value].output != INLAY_NONE || build->compiled->values[value].uses != 1)
        return INLAY_NONE;
    for (uint32_t o = 0; o < build->compiled->op_count; o++)
        if (build->compiled->ops[o].in_count > 0 && build->compiled->ops[o].in[0] == value)
            return o;
    return INLAY_NONE;
}

/* What the reader would be lowered as, had it its input. */
static bool read_reader(const cpu_build *build, const cpu_group *group, uint32_t reader, cpu_group *out_group,
                        kernel_layer *out)
{
    const cpu_op *op = &build->compiled->ops[reader];

    for (uint32_t group_index = 0; group_index < build->group_count; group_index++) {
        if (build->groups[group_index].op != reader)
            continue;
        *out_group = build->groups[group_index];
        *out = (kernel_layer){ .input.buffer = INLAY_NONE };
        kernel_measure(build, op, &out->window);
        memory_desc_channels_last(&out->input.md, build->ranks[group->out], build->dims[group->out]);
        return true;
    }
    return false;
}

static bool may_wait(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;
    tile_ending ending;

    return !build->state->bf16 && !build->state->reproducible &&
           (build->state->kernel == KERNEL_COUNT || build->state->kernel == KERNEL_DEPTHWISE) &&
           kernel_has_tiles(build, layer) && kernel_is_whole(build) && !window->padded && !window->home &&
           window->kernel[0] == 1 && window->kernel[1] == 1 && window->stride[0] == 1 && window->stride[1] == 1 &&
           tiles_lie_well(&layer->input.md) && tiles_functions(group, &ending);
}

inlay_status kernel_wait(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_waits)
{
    const cpu_op *op = build->op;
    kernel_choice choice = { .op = group->op,
                             .count = 1,
                             .source = KERNEL_ONLY,
                             .kernel = { KERNEL_TILES },
                             .why = "made row by row as the convolution of single channels behind it reads it" };
    uint32_t reader;
    double alone, together;
    cpu_group next;
    kernel_layer d;

    *out_waits = false;
    if (!may_wait(build, group, layer))
        return INLAY_OK;
    reader = only_reader(build, group->out);
    if (reader == INLAY_NONE || build->compiled->ops[reader].row->family != &cpu_conv ||
        !read_reader(build, group, reader, &next, &d) || !depthwise_runs(build, &d) || !depthwise_makes(&d.window))
        return INLAY_OK;
    choice.ns[0] =
        kernel_tiles_ns(build, group, layer) + kernel_gates_ns(build, group, kernel_kernels[KERNEL_TILES].gate_ns);
    alone = kernel_tiles_ns(build, group, layer);
    if (kernel_pace(KERNEL_TILES) > 1 && kernel_library_ns(build, group, layer) < alone)
        alone = kernel_library_ns(build, group, layer);
    build->op = &build->compiled->ops[reader];
    alone += kernel_depthwise_ns(build, &next, &d);
    together = kernel_waiting_ns(layer, &d) * kernel_pace(KERNEL_TILES);
    build->op = op;
    if (together >= alone && build->state->kernel != KERNEL_DEPTHWISE)
        return INLAY_OK;
    build->ahead[group->out] = malloc(sizeof *build->ahead[group->out]);
    if (build->ahead[group->out] == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    *build->ahead[group->out] = (kernel_ahead){ group, *layer };
    build->instance->buffers[layer->input.buffer].pending++; /* it stays as it is until then */
    *out_waits = true;
    return kernel_remember(build, &choice);
}
