/* Convolutions that are deferred to their consumer, a depthwise convolution, which computes its input row by row. */
#include "cpu/kernels/table.h"
#include "cpu/convolution/tiles.h"
#include <math.h>

/* Describes the consumer as a layer whose input is already computed; false: the consumer is not the first op of a
 * group. */
static bool describe_consumer(const cpu_build *build, const cpu_group *group, uint32_t consumer, cpu_group *out_group,
                              kernel_layer *out)
{
    const cpu_op *op = &build->compiled->ops[consumer];

    for (uint32_t last = 0; last < build->compiled->op_count; last++) {
        if (build->groups[last].op != consumer)
            continue;
        *out_group = build->groups[last];
        *out = (kernel_layer){ .input.buffer = INLAY_NONE };
        kernel_conv_shape_of(build, op, &out->window);
        layout_channels_last(&out->input.layout, build->ranks[group->out], build->dims[group->out]);
        return true;
    }
    return false;
}

static bool may_be_deferred(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;
    tile_epilogue epilogue;

    return !build->state->reproducible &&
           (build->state->kernel == KERNEL_COUNT || build->state->kernel == KERNEL_DEPTHWISE) &&
           kernel_has_tiles(build->state, window) && kernel_input_is_ready(build) && !window->padded &&
           !window->in_concat && window->kernel[0] == 1 && window->kernel[1] == 1 && window->stride[0] == 1 &&
           window->stride[1] == 1 && tiles_accept_layout(&layer->input.layout) &&
           tiles_unary_epilogue(group, &epilogue);
}

inlay_status kernel_defer(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_waits)
{
    const cpu_op *op = build->op;
    const kernel_machine machine = kernel_machine_of(build->state->host);
    kernel_choice choice = { .op = group->op,
                             .count = 1,
                             .source = KERNEL_ONLY,
                             .kernel = { KERNEL_TILES },
                             .why = "computed row by row within the depthwise convolution that consumes it" };
    uint32_t consumer;
    double alone, together;
    cpu_group next;
    kernel_layer depthwise;

    *out_waits = false;
    if (!may_be_deferred(build, group, layer))
        return INLAY_OK;
    consumer = cpu_only_reader(build->compiled, group->out);
    if (consumer == INLAY_NONE || build->compiled->ops[consumer].row->family->kind != CPU_FAMILY_CONV ||
        build->compiled->ops[consumer].in[0] != group->out ||
        !describe_consumer(build, group, consumer, &next, &depthwise) ||
        !depthwise_fits(build->state, &depthwise.window) || !depthwise_supports_producer(&depthwise.window))
        return INLAY_OK;
    choice.expected_ns[KERNEL_TILES] = kernel_layer_ns(build, group, layer, KERNEL_TILES, &machine,
                                                       build->instance->threads > 0 ? build->instance->threads : 1);
    alone = kernel_tiles_ns(&layer->window, &machine, KERNEL_THREADS);
    if (kernel_pace(KERNEL_TILES) > 1)
        alone = fmin(alone, kernel_gemm_ns(&layer->window, &machine, KERNEL_THREADS));
    alone += kernel_depthwise_ns(&depthwise.window, &machine, KERNEL_THREADS);
    together = kernel_fused_depthwise_ns(&layer->window, &depthwise.window, &machine, KERNEL_THREADS) *
               kernel_pace(KERNEL_TILES);
    if (together >= alone && build->state->kernel != KERNEL_DEPTHWISE)
        return INLAY_OK;
    build->ahead[group->out] = malloc(sizeof *build->ahead[group->out]);
    if (build->ahead[group->out] == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    *build->ahead[group->out] = (deferred_producer){ group, *layer };
    build->instance->buffers[layer->input.buffer].pending++; /* the input must stay valid until the consumer runs */
    *out_waits = true;
    return kernel_remember(build, &choice);
}
