/* The prices of convolutions: those of the kernels, by the same models that choose among them. */
#include "cpu/compile/cost.h"
#include "cpu/convolution/tiles.h"
#include "cpu/region/window.h"
#include "cpu/weights/low_bit.h"
#include "common/weights.h"
#include <math.h>

/* Transposed convolutions, on a Xeon: a product that is added to its row, ... */
#define SUM_NS 0.14
#define SUM_ROW_NS 6.0    /* ... a row of products, ... */
#define RESULT_NS 0.23    /* ... an element of the result, ... */
#define SCATTERED_NS 0.75 /* ... and a product, if pixels are channels-last */

/* The shape of the convolution at these sizes; axes of unknown size count as 1. */
static void shape_of(const cpu_op *op, const cost_sizes *sizes, kernel_conv_shape *window)
{
    tensor_dims in, out;

    for (uint32_t d = 0; d < op->window.spatial + 2; d++) {
        in[d] = (int64_t)price_axis(sizes->first, d);
        out[d] = (int64_t)price_axis(sizes->output, d);
    }
    kernel_conv_shape_at(op, in, out, (int64_t)price_axis(sizes->second, 1), window);
    if (price_count(sizes->output) == 0)
        window->flops = 0;
}

static bool is_row_major(kernel_id kernel)
{
    return kernel == KERNEL_PLANES || kernel == KERNEL_ROWS || kernel == KERNEL_FFT;
}

/* The conditions, apart from the kernel, that determine the time of a convolution. */
struct layer {
    kernel_conv_shape window;
    const cost_sizes *sizes;
    double graph_weights;
    double in_bytes; /* of the image, or of the pixels that are gathered from it first */
    bool low_bit, laid_out;
};

static double layer_ns(kernel_id kernel, const struct layer *layer, const kernel_machine *machine, double threads)
{
    return kernel_conv_ns(kernel, &layer->window, machine, layer->graph_weights, layer->low_bit, threads);
}

/* The time of a kernel at the mean of one thread and KERNEL_THREADS, with the changes of layout of row-major images. */
static double mean_ns(kernel_id kernel, const struct layer *layer, const kernel_machine *machine)
{
    const double counts[] = { 1, KERNEL_THREADS };
    double ns = 0;

    for (size_t i = 0; i < KIT_COUNT(counts); i++) {
        ns += layer_ns(kernel, layer, machine, counts[i]);
        if (!layer->laid_out && !is_row_major(kernel))
            ns += kernel_entry_share(kernel, &layer->window) * kernel_reorder_ns(machine, layer->in_bytes, counts[i]) +
                  kernel_reorder_ns(machine, layer->sizes->out, counts[i]);
    }
    return ns / (double)KIT_COUNT(counts);
}

/* The fastest kernel. Larger packs must save enough time (pack_limit.c). KERNEL_COUNT: none supports the shape. */
static kernel_id choose(const cpu_state *state, const struct layer *layer, const kernel_machine *machine)
{
    static const kernel_id order[] = { KERNEL_TILES,  KERNEL_DEPTHWISE, KERNEL_PLANES,     KERNEL_ROWS,      KERNEL_FFT,
                                       KERNEL_GROUPS, KERNEL_GEMM,      KERNEL_WINOGRAD_2, KERNEL_WINOGRAD_4 };
    kernel_id chosen = KERNEL_COUNT;
    double least = INFINITY;

    for (size_t i = 0; i < KIT_COUNT(order); i++) {
        const kernel_id k = order[i];
        double ns, more = 0;

        if ((layer->laid_out && is_row_major(k)) || !kernel_table[k].fits(state, &layer->window))
            continue;
        ns = mean_ns(k, layer, machine);
        if (chosen < KERNEL_COUNT)
            more = fmax(kernel_conv_bytes(k, &layer->window) - kernel_conv_bytes(chosen, &layer->window), 0);
        if (chosen < KERNEL_COUNT && least - ns <= KERNEL_LEAST_SAVED * more)
            continue;
        least = ns;
        chosen = k;
    }
    return chosen;
}

bool cost_of_conv(const cpu_state *state, const inlay_graph *graph, const cpu_op *op, const inlay_node_info *info,
                  const cost_sizes *sizes, const kernel_machine *machine, double threads, cost_conv *out)
{
    struct layer layer = { .sizes = sizes,
                           .graph_weights = weights_of_graph(graph),
                           .low_bit = low_bit_is_constant(graph, info->inputs[1], NULL),
                           .laid_out = cost_has_layout(state, graph, info->inputs[0]) ||
                                       cost_wants_layout(state, graph, info->outputs[0]) };
    int64_t width;
    kernel_id chosen;
    bool gathered;

    if (sizes->first == NULL || sizes->second == NULL || sizes->output == NULL || op->window.spatial < 1 ||
        op->window.spatial > 3 || sizes->first->rank != op->window.spatial + 2 ||
        sizes->output->rank != op->window.spatial + 2)
        return false;
    shape_of(op, sizes, &layer.window);
    width = layer.window.width;
    gathered = kernel_gather_pixels(&layer.window, !cost_has_layout(state, graph, info->inputs[0]));
    layer.in_bytes =
        gathered ? 4.0 * (double)(layer.window.images * layer.window.in * layer.window.height * layer.window.width)
                 : sizes->in;
    chosen = choose(state, &layer, machine);
    if (chosen == KERNEL_COUNT)
        return false;
    *out = (cost_conv){ .ns = layer_ns(chosen, &layer, machine, threads),
                        .flops = layer.window.flops,
                        .row_major = is_row_major(chosen),
                        .entry_share = kernel_entry_share(chosen, &layer.window) };
    if (gathered) {
        out->ns += kernel_gather_ns(machine, &layer.window, width, threads) +
                   out->entry_share * kernel_reorder_ns(machine, layer.in_bytes, threads);
        out->entry_share = 0;
    }
    return true;
}

/* Do phases (transposed_phases.c) or a convolution of single pixels compute it, without sums of products? */
static bool has_no_sums(const cpu_op *op, double in, double out)
{
    bool pixels = true, phases = op->window.spatial <= 2 && op->window.group == 1 && in >= 8 && out >= 8;

    for (uint32_t i = 0; i < op->window.spatial; i++) {
        pixels = pixels && op->window.kernel[i] == 1 && op->window.strides[i] == 1;
        phases = phases && op->window.dilations[i] == 1 && op->window.kernel[i] % op->window.strides[i] == 0;
    }
    return pixels || phases;
}

double cost_of_sums(const cpu_op *op, const cost_sizes *sizes, const kernel_machine *machine)
{
    const double in = price_axis(sizes->first, 1), out = price_axis(sizes->output, 1);
    const uint32_t last = op->window.spatial + 1;
    double taps = 1, rows, products, ns;

    if (op->window.spatial < 1 || has_no_sums(op, in, out))
        return 0;
    for (uint32_t i = 0; i < op->window.spatial; i++)
        taps *= (double)op->window.kernel[i];
    rows = price_count(sizes->output) / price_axis(sizes->output, last) * taps;
    if (op->window.spatial == 2)
        rows /= (double)op->window.strides[0];
    products = price_count(sizes->first) / in * out * taps;
    ns = op->window.spatial > 2 || (double)op->window.group >= in ? SCATTERED_NS * products
                                                                  : SUM_NS * products + SUM_ROW_NS * rows;
    return (ns + RESULT_NS * price_count(sizes->output)) * machine->other;
}
