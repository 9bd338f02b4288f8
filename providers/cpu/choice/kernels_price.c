/* The parts of a kernel's time that do not depend on the kernel: layout changes and fused functions. */
#include "cpu/choice/kernels.h"

#define REORDER_BYTES_PER_NS 30.0
#define NEAR_BYTES 1000000.0 /* data that stay in the cache next to the core */

double kernel_reorder_ns(double bytes)
{
    return 2.0 * bytes / REORDER_BYTES_PER_NS / KERNEL_THREADS;
}

/* From channels-last to row-major or back. Memory is slower than the caches. */
static double layout_change_ns(double bytes)
{
    return kernel_reorder_ns(bytes) * (bytes > NEAR_BYTES ? 2.5 : 1);
}

double kernel_layout_change_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer,
                               kernel_id kernel)
{
    const bool row_major = !layout_is_image(&layer->input.layout) && layout_is_plain(&layer->input.layout);
    double ns = 0;

    if (layer->product || kernel == KERNEL_PLANES || kernel == KERNEL_ROWS)
        return 0;
    if (kernel == KERNEL_FFT)
        return row_major ? 0 : layout_change_ns((double)layout_bytes(&layer->input.layout));
    if (row_major)
        ns += layout_change_ns((double)layout_bytes(&layer->input.layout));
    if (row_major && build->compiled->values[group->out].uses == 0) /* consumed outside of the region */
        ns += layout_change_ns(4.0 * (double)cpu_count(build, group->out));
    return ns;
}

double kernel_gates_ns(const cpu_build *build, const cpu_group *group, double vector_ns)
{
    double gates = 0;

    for (uint32_t post_index = 0; post_index < group->post_count; post_index++) {
        const cpu_post *post = &group->posts[post_index];

        gates += post->kind == CPU_POST_UNARY &&
                 (post->unary.function == FUNCTION_SWISH || post->unary.function == FUNCTION_SIGMOID);
    }
    return gates * vector_ns * (double)cpu_count(build, group->out) / GATE_ELEMENTS / KERNEL_THREADS;
}
