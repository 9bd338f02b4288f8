/* The parts of a kernel's time that do not depend on the shape alone: layout changes, fused functions, weights. */
#include "cpu/choice/machine.h"
#include <math.h>

#define SPREAD_FACTOR 1.35 /* of a consumer whose input's pixels lie in the caches of several cores */

/* Time of layout changes for kernels that need channels-last: of a row-major input and of a row-major result. */
static double layout_change_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer,
                               kernel_id kernel, const kernel_machine *machine, double threads)
{
    const bool row_major = !layout_is_image(&layer->input.layout) && layout_is_plain(&layer->input.layout),
               leaves = build->compiled->values[group->out].uses == 0; /* consumed outside of the region */
    const double out = 4.0 * (double)cpu_count(build, group->out), in = (double)layout_bytes(&layer->input.layout);
    const uint32_t image = build->op->in[0];
    double ns = 0;

    if (layer->gathered)
        ns += kernel_gather_ns(machine, &layer->window, build->dims[image][build->ranks[image] - 1], threads);
    if (kernel == KERNEL_PLANES || kernel == KERNEL_FFT) /* their results are row-major; most consumers want images */
        ns += leaves ? 0 : kernel_reorder_ns(machine, out, threads);
    if (kernel == KERNEL_FFT)
        return ns + (row_major ? 0 : kernel_reorder_ns(machine, in, threads));
    if (kernel == KERNEL_PLANES || kernel == KERNEL_ROWS)
        return ns;
    if (kernel == KERNEL_GROUPS && layer->window.in_concat)
        ns += kernel_reorder_ns(machine, out, threads) / 2;
    if (row_major)
        ns += kernel_entry_share(kernel, &layer->window) * kernel_reorder_ns(machine, in, threads) +
              (leaves ? kernel_reorder_ns(machine, out, threads) : 0);
    return ns;
}

/* True if the threads that produced the input divided channels, not pixels (lower_depthwise.c). Then each pixel is
 * spread over the caches of several cores, and a consumer of few pixels at a time waits for them. */
static bool input_is_spread(const cpu_build *build)
{
    for (uint32_t last = 0; last < build->compiled->op_count; last++) {
        const cpu_group *group = &build->groups[last];
        const cpu_op *maker = group->op == INLAY_NONE ? NULL : &build->compiled->ops[group->op];

        if (maker != NULL && group->out == build->op->in[0])
            return maker->in_count > 0 && maker->in[0] != INLAY_NONE && build->ahead[maker->in[0]] != NULL;
    }
    return false;
}

/* The group's fused Sigmoids and Swishes. */
static double gates_ns(const cpu_build *build, const cpu_group *group, double vector_ns, double threads)
{
    double gates = 0;

    for (uint32_t post_index = 0; post_index < group->post_count; post_index++) {
        const cpu_post *post = &group->posts[post_index];

        gates += post->kind == CPU_POST_UNARY &&
                 (post->unary.function == FUNCTION_SWISH || post->unary.function == FUNCTION_SIGMOID);
    }
    return gates * vector_ns * (double)cpu_count(build, group->out) / GATE_ELEMENTS / threads;
}

double kernel_layer_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer, kernel_id kernel,
                       const kernel_machine *machine, double threads)
{
    double ns;

    if (layer->product)
        return kernel_table[kernel].ns(build, layer, machine, threads);
    ns = kernel_table[kernel].conv_ns != NULL
             ? kernel_conv_ns(kernel, &layer->window, machine, build->compiled->graph_weights,
                              kernel_weights_are_low_bit(build), threads)
             : kernel_table[kernel].ns(build, layer, machine, threads);
    if ((kernel == KERNEL_GEMM || kernel == KERNEL_GEMM_TERMS) && threads > 1 && input_is_spread(build))
        ns *= SPREAD_FACTOR;
    return ns + layout_change_ns(build, group, layer, kernel, machine, threads) +
           gates_ns(build, group, kernel_table[kernel].gate_ns, threads);
}

double kernel_layer_mean_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer, kernel_id kernel,
                            const kernel_machine *machine)
{
    return (kernel_layer_ns(build, group, layer, kernel, machine, 1) +
            kernel_layer_ns(build, group, layer, kernel, machine, KERNEL_THREADS)) /
           2;
}
