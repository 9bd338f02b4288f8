/* Estimates the time of an op on this machine's kind of CPU, from its arithmetic and its memory traffic. Rates of
 * arithmetic are those of a core with AVX-512, which work.c converts. The machine profile and measurements correct the
 * estimate.
 *
 * An op is priced as a part of a region: activations after a convolution or matrix multiplication are fused, and values
 * keep the layout in which the previous op made them. Reorders at the borders of a region are reported separately
 * (enter_ns, leave_ns). */
#include "cpu/compile/work.h"
#include "cpu/convolution/tiles.h"
#include "cpu/kernels/table.h"
#include "cpu/quantized/quant.h"
#include "cpu/recurrent/layer.h"
#include "cpu/region/build.h"
#include "inlay/check.h"
#include "simd/cpu.h"
#include "cpu/region/window.h"
#include "cpu/weights/halves.h"
#include "cpu/weights/low_bit.h"
#include "cpu/weights/nbits_weights.h"
#include "cpu/weights/blocks.h"
#include "cpu/weights/sparse_weights.h"
#include "common/price.h"
#include "common/weights.h"
#include <math.h>

#define CORE_FLOPS_PER_NS 250.0 /* convolutions and matrix multiplications with packed weights */
#define SPARSE_PACE 0.48        /* speed of block-sparse matrix multiplication relative to dense, per non-zero block */
#define THIN_FLOPS_PER_NS 230.0 /* grouped convolutions with few channels per group */
#define LANES 16.0              /* columns of a product, or filters of a group, are computed in such steps */
#define ATTENTION_FLOPS_PER_NS 210.0
#define SCORE_NS 0.55          /* attention: softmax of one score */
#define PACK_BYTES_PER_NS 20.0 /* attention: keys and values */
#define POOL_FLOPS_PER_NS 8.0
#define GATE_PER_NS 10.0       /* elements of a Sigmoid fused into a convolution or matrix multiplication */
#define NORM_PER_NS 3.0        /* elements of a normalisation, which reads its rows twice or more */
#define REDUCE_PER_NS 8.0      /* elements that a reduction reads */
#define NEAR_WEIGHTS 1e6       /* bytes of a graph's weights that stay in the core's cache between runs */
#define WINOGRAD_SIDE 12       /* pixels; smaller images gain nothing */
#define REFERENCE_SHARED 105.0 /* bytes per nanosecond of the reference core from the shared cache */
/* How dense.c divides a multiplication among threads, by its own estimate of the time. */
#define WAKE_NS 4000.0
#define ESTIMATED_FLOPS_PER_NS 200.0
#define ESTIMATED_BYTES_PER_NS 30.0
#define BLOCK_ROWS 160.0
#define MIN_THREAD_ROWS 48.0
#define PANEL_COLUMNS 64.0
/* How threads share loops: each takes at least this many ... */
#define ELEMENTS_GRAIN 16384.0 /* elements of elementwise functions, ... */
#define SOFTMAX_GRAIN 8192.0
#define ROWS_GRAIN 32768.0 /* ... of normalised or reduced rows, ... */
#define TAPS_GRAIN 65536.0 /* ... and taps of pools */
#define MOVED_GRAIN 16384.0
#define MIN_MOVED 24576.0 /* elements whose layout several threads change */
#define ATTENTION_WAKE_NS 10000.0
#define ATTENTION_WAKE_PER_NS 120.0
#define CALL_NS 42.0                   /* one more step in a region */
#define ENTER_NS 150.0                 /* the first input of a region, ... */
#define MORE_ENTER_NS 40.0             /* ... and each further one */
#define FUSED_NS 30.0                  /* an op that is fused into another */
#define NEAR_REORDER_BYTES_PER_NS 32.0 /* values of up to NEAR_BYTES */
#define NEAR_BYTES (256 * 1024)
#define REORDER_BYTES_PER_NS 16.0
#define TRANSPOSE_BYTES_PER_NS 24.0 /* axes change places, and rows stay rows */
#define THIN_TRANSPOSE_BYTES_PER_NS 8.0
#define THIN_ROW 4          /* elements */
#define PIXEL_FILTERS 6.0   /* convolutions of row-major images: filters that are computed together, ... */
#define PIXEL_COLUMNS 64.0  /* ... in blocks of this many pixels, ... */
#define PIXEL_TILE_NS 25.0  /* ... with this time for the start and end of each; ... */
#define PIXEL_UNIT 300000.0 /* ... operations of a unit, ... */
#define PIXEL_UNITS 8.0     /* ... most units, ... */
#define PIXEL_ALONE 200000.0
#define PIXEL_SLICE 48.0
#define PIECE_NS 3.0 /* ... and pieces of rows with a stride, for every term, ... */
#define UNFOLD_BYTES_PER_NS 100.0
#define STRIDED_BYTES_PER_NS 30.0 /* ... without skipped pixels */
#define PLANE_NS 30.0   /* depthwise convolutions by planes: start of a plane; with a stride, its rows are copied */
#define BORDER_NS 700.0 /* convolutions of windows: the border of the image */
#define CHANNELS_NS 0.5 /* depthwise convolutions by channels: a vector of a pixel, ... */
#define CHANNELS_TAP_NS 0.15
#define CHANNELS_PACE 0.73               /* ... on a core of this pace */
#define FEW_CHANNELS 4                   /* convolutions with up to this many channels read row-major images */
enum { LOOK_BACK = 16, LOOK_AHEAD = 8 }; /* most ops between a value and the convolution that determines its layout */

/* What the price of an op depends on beside the op: the machine, and the threads of the run. */
struct machine {
    cpu_pace reference, local;
    price_memory memory;
};

static double stream_ns(const struct machine *machine, double read, double written, double threads)
{
    return price_stream_ns(&machine->memory, read, written, threads);
}

/* Time to read weights during the computation. */
static double weights_ns(const struct machine *machine, const inlay_graph *graph, double bytes, double threads)
{
    const double all = bytes > 0 ? weights_of_graph(graph) : 0;

    INLAY_CHECK(threads >= 1);
    return all < NEAR_WEIGHTS ? bytes / machine->memory.near / threads
                              : price_weights_ns(&machine->memory, bytes, all, threads);
}

/* Elements per nanosecond of the elementwise functions of an op. */
static double function_rate(const cpu_op *op)
{
    double ns = 0;

    for (uint32_t i = 0; i < op->unary_count; i++) {
        switch ((int)op->unary[i].function) {
        case FUNCTION_SIGMOID:
        case FUNCTION_TANH:
        case FUNCTION_ELU:
        case FUNCTION_EXP:
        case FUNCTION_ERF:
        case FUNCTION_SQRT:
        case FUNCTION_SIN:
        case FUNCTION_COS:
        case FUNCTION_SELU:
        case FUNCTION_CELU:
        case FUNCTION_SWISH:
        case FUNCTION_MISH:
            ns += 1 / EXP_PER_NS;
            break;
        case FUNCTION_GELU:
        case FUNCTION_GELU_TANH:
            ns += 1 / GELU_PER_NS;
            break;
        case FUNCTION_LOG:
        case FUNCTION_SOFTPLUS:
            ns += 1 / LOG_PER_NS;
            break;
        default:
            ns += 1 / SIMPLE_PER_NS;
        }
    }
    return ns > 0 ? 1 / ns : SIMPLE_PER_NS;
}

struct sizes {
    double in, out, weights;                          /* bytes */
    const inlay_value_state *first, *second, *output; /* inputs 0 and 1, output 0; NULL: omitted */
};

/* Bytes of an element. */
static double width_of(const inlay_value_state *state)
{
    return state == NULL ? 0 : inlay_dtype_bits(state->dtype) / 8.0;
}

static const inlay_value_state *state_of(const inlay_cost_request *request, const uint32_t *list, uint32_t count,
                                         uint32_t i)
{
    return i < count ? price_state(request, list[i]) : NULL;
}

/* Whether Winograd's algorithm may be used, and its speed-up on the reference core. */
static void find_winograd(const cpu_op *op, const struct sizes *sizes, op_work *work)
{
    const int64_t in = (int64_t)price_axis(sizes->first, 1), out = (int64_t)price_axis(sizes->output, 1),
                  height = (int64_t)price_axis(sizes->output, 2), width = (int64_t)price_axis(sizes->output, 3);

    if (op->window.spatial != 2 || sizes->output == NULL || sizes->output->rank != 4)
        return;
    work->gain = fmax(1, cpu_winograd_gain(op, in, out, height, width));
    work->winograd = work->gain > 1 || (cpu_winograd_fits(op, in, out) && fmin(height, width) >= WINOGRAD_SIDE);
}

/* The rate of a convolution that is computed by FFT. */
static void find_fft(const cpu_op *op, const struct sizes *sizes, op_work *work)
{
    const uint32_t spatial = op->window.spatial, first = 2 - spatial;
    kernel_conv_shape window = { .flat = spatial <= 2,
                                 .images = (int64_t)price_axis(sizes->first, 0),
                                 .in = (int64_t)price_axis(sizes->first, 1),
                                 .out = (int64_t)price_axis(sizes->output, 1),
                                 .group = op->window.group,
                                 .height = 1,
                                 .out_height = 1,
                                 .kernel = { 1, 1 },
                                 .stride = { 1, 1 },
                                 .dilation = { 1, 1 } };
    fft_cut cut;
    double rate;

    if (!window.flat || sizes->output == NULL)
        return;
    window.width = (int64_t)price_axis(sizes->first, 1 + spatial);
    window.out_width = (int64_t)price_axis(sizes->output, 1 + spatial);
    if (spatial == 2) {
        window.height = (int64_t)price_axis(sizes->first, 2);
        window.out_height = (int64_t)price_axis(sizes->output, 2);
    }
    for (uint32_t i = 0; i < spatial; i++) {
        window.kernel[first + i] = op->window.kernel[i];
        window.stride[first + i] = op->window.strides[i];
        window.dilation[first + i] = op->window.dilations[i];
        window.begin[first + i] = op->window.auto_pad == CPU_PAD_EXPLICIT ? op->window.pads[i] : 0;
        window.end[first + i] = op->window.auto_pad == CPU_PAD_EXPLICIT ? op->window.pads[spatial + i] : 0;
    }
    if (!fft_applies(&window))
        return;
    rate = work->flops / fft_find_cut(&window, &cut);
    if (rate <= work->rate * work->gain)
        return;
    work->rate = rate;
    work->gain = 1;
    work->winograd = work->dense = false;
}

/* The number of filter taps that are computed along an axis: kernels skip taps that are in the padding for all
 * pixels. */
static double taps(const cpu_op *op, const struct sizes *sizes, uint32_t axis)
{
    const int64_t k = op->window.kernel[axis], in = (int64_t)price_axis(sizes->first, axis + 2),
                  out = (int64_t)price_axis(sizes->output, axis + 2);
    const int64_t span = op->window.dilations[axis] * (k - 1), step = op->window.strides[axis];
    int64_t pad = op->window.pads[axis], inside = 0;

    INLAY_CHECK(axis < op->window.spatial);
    if (span < in / 4 || op->row->family->kind != CPU_FAMILY_CONV)
        return (double)k;
    if (op->window.auto_pad != CPU_PAD_EXPLICIT)
        pad = op->window.auto_pad == CPU_PAD_VALID ? 0 : ((out - 1) * step + span + 1 - in) / 2;
    for (int64_t tap = 0, at = -pad; tap < k; tap++, at += op->window.dilations[axis])
        inside += at < in && at + (out - 1) * step >= 0;
    return inside > 1 ? (double)inside : 1;
}

/* By how much vectors exceed the columns that they hold. */
static double padded(double columns)
{
    return columns > 0 ? ceil(columns / LANES) * LANES / columns : 1;
}

/* A depthwise convolution of row-major images reads a vector of neighbouring pixels for each tap. With a stride it
 * needs two loads; windows without a kernel of their own take as long as three. */
static double loads_of_tap(const cpu_op *op)
{
    const int64_t *kernel = op->window.kernel;
    const bool own = op->window.spatial == 2 && kernel[0] == kernel[1] && (kernel[0] == 3 || kernel[0] == 5);

    return own && op->window.strides[0] == 1 ? 1 : own ? 2 : 3;
}

/* The number of multiplications and additions, with those of padding; *out_rate: how many per nanosecond. */
static double flops_of(const cpu_op *op, const struct sizes *sizes, double *out_rate)
{
    const cpu_family *family = op->row->family;
    double outputs = price_count(sizes->output), window = 1;

    *out_rate = CORE_FLOPS_PER_NS;
    if (family->kind == CPU_FAMILY_CONV || family->kind == CPU_FAMILY_CONV_TRANSPOSE) {
        double per =
            price_axis(sizes->second, 1); /* terms of a tap: input channels, or output channels if transposed */

        if (family->kind == CPU_FAMILY_CONV_TRANSPOSE)
            outputs = price_count(sizes->first);

        for (uint32_t i = 0; i < op->window.spatial; i++)
            window *= taps(op, sizes, i);
        if (per == 1 && op->window.group > 1 && (double)op->window.group == price_axis(sizes->output, 1))
            *out_rate = 2 * window / (1 / PRICE_CHANNELS_PER_NS + window * PRICE_TAP_NS * loads_of_tap(op));
        else if (per < 8 && op->window.group > 1)
            *out_rate = THIN_FLOPS_PER_NS;
        if (family->kind == CPU_FAMILY_CONV && (double)op->window.group != price_axis(sizes->output, 1))
            outputs *= padded(price_axis(sizes->output, 1) / (double)(op->window.group > 0 ? op->window.group : 1));
        return 2 * outputs * per * window;
    }
    if (family->kind == CPU_FAMILY_PRODUCT && sizes->first != NULL && sizes->first->rank != INLAY_RANK_UNKNOWN &&
        sizes->first->rank >= 2) {
        const double depth = price_axis(sizes->first, sizes->first->rank - (op->product.trans_a ? 2 : 1));

        return 2 * outputs *
               padded(sizes->output == NULL ? LANES : price_axis(sizes->output, sizes->output->rank - 1)) * depth;
    }
    if (family->kind == CPU_FAMILY_ATTENTION) {
        const double per = 4 * price_axis(sizes->first, 3); /* FLOPs of a score */

        *out_rate = per / (per / ATTENTION_FLOPS_PER_NS + SCORE_NS);
        return 4 * price_count(sizes->first) * price_axis(sizes->second, 2);
    }
    if (family->kind == CPU_FAMILY_POOL && !op->window.global) {
        for (uint32_t i = 0; i < op->window.spatial; i++)
            window *= (double)op->window.kernel[i];
        *out_rate = POOL_FLOPS_PER_NS;
        return outputs * window;
    }
    if (family->kind == CPU_FAMILY_SOFTMAX || family->kind == CPU_FAMILY_LAYER_NORM ||
        family->kind == CPU_FAMILY_RMS_NORM || family->kind == CPU_FAMILY_SKIP_NORM) {
        *out_rate = family->kind == CPU_FAMILY_SOFTMAX ? EXP_PER_NS : NORM_PER_NS;
        return outputs;
    }
    if (family->kind == CPU_FAMILY_REDUCE) {
        *out_rate = REDUCE_PER_NS;
        return price_count(sizes->first);
    }
    *out_rate = function_rate(op);
    return family->kind == CPU_FAMILY_VIEW || family->kind == CPU_FAMILY_TRANSPOSE ||
                   family->kind == CPU_FAMILY_SPLIT || family->kind == CPU_FAMILY_SLICE ||
                   family->kind == CPU_FAMILY_CONCAT || family->kind == CPU_FAMILY_PAD ||
                   family->kind == CPU_FAMILY_SCATTER
               ? 0
               : outputs;
}

/* Parses the producer of the value; false: none, or this provider does not support it. */
static bool parse_producer(const cpu_state *state, const inlay_graph *graph, uint32_t value, cpu_op *out)
{
    const inlay_value_info *v = inlay_graph_value(graph, value);
    kit_refusal why = { 0, "", "" };

    if (v == NULL || v->producer == INLAY_NONE || v->producer >= graph->node_count)
        return false;
    return cpu_parse(&(kit_node){ .host = state->host, .graph = graph, .info = inlay_graph_node(graph, v->producer) },
                     out, &why) != NULL;
}

static bool is_elementwise(const cpu_family *family)
{
    return family->kind == CPU_FAMILY_UNARY || family->kind == CPU_FAMILY_BINARY;
}

/* True if another node than `reader` needs the value as a tensor. Only the nodes shortly after its producer are
 * searched. */
static bool is_stored(const inlay_graph *graph, uint32_t value, const inlay_node_info *reader)
{
    const inlay_value_info *info = inlay_graph_value(graph, value);
    const uint32_t first = info->producer + 1,
                   last = first + LOOK_AHEAD < graph->node_count ? first + LOOK_AHEAD : graph->node_count;

    if ((info->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return true;
    for (uint32_t n = first; n < last; n++) {
        const inlay_node_info *node = inlay_graph_node(graph, n);

        for (uint32_t i = 0; node != reader && i < node->input_count; i++)
            if (node->inputs[i] == value)
                return true;
    }
    return false;
}

/* True if the op will be fused into the producer of its input i (fuse.c). */
static bool is_fused(const cpu_state *state, const inlay_cost_request *request, const inlay_node_info *info, uint32_t i,
                     const cpu_op *op)
{
    const inlay_value_state *input = state_of(request, info->inputs, info->input_count, i),
                            *output = state_of(request, info->outputs, info->output_count, 0);
    const cpu_family *family;
    cpu_op maker;

    if (!is_elementwise(op->row->family) || !parse_producer(state, request->graph, info->inputs[i], &maker))
        return false;
    family = maker.row->family;
    if (is_elementwise(family))
        return input != NULL && output != NULL && input->dtype == INLAY_FLOAT && output->dtype == INLAY_FLOAT &&
               price_count(input) == price_count(output) && !is_stored(request->graph, info->inputs[i], info);
    return family->kind == CPU_FAMILY_CONV || family->kind == CPU_FAMILY_CONV_TRANSPOSE ||
           family->kind == CPU_FAMILY_PRODUCT || family->kind == CPU_FAMILY_NORMALIZE ||
           family->kind == CPU_FAMILY_NBITS_PRODUCT;
}

/* Convolutions choose the layouts of their operands. Other ops keep the layout of their input or need rows. */
static bool chooses_layout(const cpu_family *family)
{
    return family->kind == CPU_FAMILY_CONV || family->kind == CPU_FAMILY_CONV_TRANSPOSE ||
           family->kind == CPU_FAMILY_INT8_CONV;
}

static bool keeps_layout(const cpu_family *family)
{
    return family->kind == CPU_FAMILY_POOL || family->kind == CPU_FAMILY_UNARY || family->kind == CPU_FAMILY_BINARY ||
           family->kind == CPU_FAMILY_CONCAT || family->kind == CPU_FAMILY_NORMALIZE ||
           family->kind == CPU_FAMILY_RESIZE || family->kind == CPU_FAMILY_PAD || family->kind == CPU_FAMILY_QUANTIZE ||
           family->kind == CPU_FAMILY_DEQUANTIZE || family->kind == CPU_FAMILY_BYTE_CLIP;
}

/* True if a region makes the value in a layout that ops outside of it cannot read. */
static bool has_layout(const cpu_state *state, const inlay_graph *graph, uint32_t value)
{
    cpu_op maker;

    for (int steps = 0; steps < LOOK_BACK && parse_producer(state, graph, value, &maker); steps++) {
        if (chooses_layout(maker.row->family))
            return true;
        if (!keeps_layout(maker.row->family))
            return false;
        value = inlay_graph_node(graph, inlay_graph_value(graph, value)->producer)->inputs[0];
    }
    return false;
}

/* True if a convolution reads the value, directly or after ops that keep its layout. Only the ops shortly after its
 * producer are searched. */
static bool wants_layout(const cpu_state *state, const inlay_graph *graph, uint32_t value)
{
    const uint32_t maker = inlay_graph_value(graph, value)->producer;
    uint32_t n = maker == INLAY_NONE ? 0 : maker + 1;
    const uint32_t last = n + LOOK_AHEAD < graph->node_count ? n + LOOK_AHEAD : graph->node_count;

    for (; n < last; n++) {
        const inlay_node_info *info = inlay_graph_node(graph, n);
        kit_refusal why = { 0, "", "" };
        cpu_op reader;

        if (info->input_count == 0 || info->output_count == 0 || info->inputs[0] != value ||
            cpu_parse(&(kit_node){ .host = state->host, .graph = graph, .info = info }, &reader, &why) == NULL)
            continue;
        if (chooses_layout(reader.row->family))
            return true;
        if (keeps_layout(reader.row->family))
            value = info->outputs[0];
    }
    return false;
}

/* The threads that change the layout of floats together. */
static double move_threads(double bytes, double threads)
{
    return bytes / 4 < MIN_MOVED ? 1 : price_loop_threads(bytes / 4, MOVED_GRAIN, threads);
}

static double reorder_ns(const struct machine *machine, double bytes, double threads)
{
    threads = move_threads(bytes, threads);
    if (bytes <= NEAR_BYTES)
        return CALL_NS + bytes / NEAR_REORDER_BYTES_PER_NS / threads;
    return CALL_NS + price_reorder_ns(&machine->memory, bytes, REORDER_BYTES_PER_NS, threads);
}

/* Time to make a transposed tensor contiguous. */
static double transpose_ns(const struct machine *machine, const inlay_value_state *output, double bytes, double threads)
{
    const bool thin = output->rank > 0 && price_axis(output, output->rank - 1) < THIN_ROW;

    threads = move_threads(bytes, threads);
    if (thin || bytes > NEAR_BYTES)
        return CALL_NS + price_reorder_ns(&machine->memory, bytes,
                                          thin ? THIN_TRANSPOSE_BYTES_PER_NS : TRANSPOSE_BYTES_PER_NS, threads);
    return reorder_ns(machine, bytes, threads);
}

/* Time to make a part of a tensor contiguous: its rows are copied. */
static double part_ns(const struct machine *machine, double bytes, double threads)
{
    return CALL_NS + stream_ns(machine, bytes, bytes, threads);
}

/* True if the op only changes strides and offsets. */
static bool is_view(const cpu_op *op)
{
    const cpu_family *family = op->row->family;

    return family->kind == CPU_FAMILY_VIEW || family->kind == CPU_FAMILY_TRANSPOSE ||
           family->kind == CPU_FAMILY_SPLIT || family->kind == CPU_FAMILY_SLICE;
}

/* True if the result of the op is a strided view, which becomes contiguous only when it leaves the region. */
static bool is_strided(const cpu_op *op)
{
    const cpu_family *family = op->row->family;

    return family->kind == CPU_FAMILY_TRANSPOSE || family->kind == CPU_FAMILY_SPLIT || family->kind == CPU_FAMILY_SLICE;
}

/* The threads that share a multiplication, on average (dense.c). They divide it into panels of columns, and many rows
 * into blocks. */
static double product_threads(const cpu_op *op, const struct sizes *sizes, double threads)
{
    const inlay_value_state *output = sizes->output, *first = sizes->first;
    const uint32_t rank = output == NULL || output->rank == INLAY_RANK_UNKNOWN ? 0 : output->rank;
    const double n = rank > 0 ? price_axis(output, rank - 1) : 1, rows = price_count(output) / n,
                 m = sizes->weights > 0 || rank < 2 ? rows : price_axis(output, rank - 2);
    const double k = first == NULL || first->rank == INLAY_RANK_UNKNOWN || first->rank < 2
                         ? 1
                         : price_axis(first, first->rank - (op->product.trans_a ? 2 : 1));
    const double flops_ns = 2 * m * n * k / ESTIMATED_FLOPS_PER_NS, bytes_ns = 4 * n * k / ESTIMATED_BYTES_PER_NS;
    double batch, blocks = ceil(m / BLOCK_ROWS), units;

    if (m < 1 || threads <= 1)
        return 1;
    batch = rows / m;
    if (batch * fmax(flops_ns, bytes_ns) < WAKE_NS)
        return 1;
    if (m / threads >= MIN_THREAD_ROWS)
        blocks = ceil(blocks / threads) * threads;
    units = fmin(batch * blocks * ceil(n / PANEL_COLUMNS), batch * fmax(flops_ns, bytes_ns) * 4 / WAKE_NS);
    units = fmin(units, 4 * threads);
    return units <= 1 ? 1 : units / ceil(units / threads);
}

/* The threads that share a loop over rows of n elements, if a grain has about `elements` of them. */
static double row_threads(double rows, double n, double elements, double threads)
{
    return price_loop_threads(rows, floor(elements / fmax(n, 1)) + 1, threads);
}

/* The threads that share the work of an op, on average. The limits are those of its loops. */
static double step_threads(const op_work *work, const struct sizes *sizes, double threads)
{
    const cpu_family *family = work->op->row->family;
    const double elements = fmax(sizes->in, sizes->out) / 4, n = elements / fmax(work->rows, 1);

    if (family->kind == CPU_FAMILY_PRODUCT)
        return product_threads(work->op, sizes, threads);
    if (family->kind == CPU_FAMILY_ATTENTION)
        return work->flops / ATTENTION_WAKE_PER_NS < ATTENTION_WAKE_NS ? 1 : threads;
    if (family->kind == CPU_FAMILY_CONV)
        return work->flops > 4e5 ? threads : 1;
    if (family->kind == CPU_FAMILY_SOFTMAX)
        return row_threads(work->rows, n, SOFTMAX_GRAIN, threads);
    if (family->kind == CPU_FAMILY_LAYER_NORM || family->kind == CPU_FAMILY_RMS_NORM ||
        family->kind == CPU_FAMILY_SKIP_NORM || family->kind == CPU_FAMILY_REDUCE)
        return row_threads(work->rows, n, ROWS_GRAIN, threads);
    if (family->kind == CPU_FAMILY_POOL && !work->op->window.global)
        return row_threads(work->rows, work->flops / fmax(work->rows, 1), TAPS_GRAIN, threads);
    if (is_elementwise(family))
        return price_loop_threads(elements, ELEMENTS_GRAIN, threads);
    return sizes->in + sizes->out + sizes->weights > 192 * 1024 ? threads : 1;
}

/* True if the op reads images in the layout of a convolution. */
static bool reads_layout(const cpu_state *state, const inlay_graph *graph, const cpu_op *op,
                         const inlay_node_info *info)
{
    return chooses_layout(op->row->family) ||
           (keeps_layout(op->row->family) && info->output_count > 0 && wants_layout(state, graph, info->outputs[0]));
}

/* True for a depthwise convolution between row-major images, which reads and writes row-major planes
 * (lower_planes.c). */
static bool is_planar(const cpu_state *state, const inlay_graph *graph, const cpu_op *op, const inlay_node_info *info,
                      const struct sizes *sizes)
{
    return op->row->family->kind == CPU_FAMILY_CONV && op->window.group > 1 && sizes->first != NULL &&
           sizes->first->rank != INLAY_RANK_UNKNOWN && sizes->first->rank <= 4 && sizes->first->rank > 2 &&
           (double)op->window.group == price_axis(sizes->first, 1) && sizes->output != NULL &&
           sizes->output->rank == sizes->first->rank && price_axis(sizes->output, 1) == price_axis(sizes->first, 1) &&
           !has_layout(state, graph, info->inputs[0]) && !wants_layout(state, graph, info->outputs[0]);
}

/* Time to reorder input i from row-major. A convolution reorders only its image, other ops every image. */
static double layout_ns(const struct machine *machine, const inlay_cost_request *request, const inlay_node_info *info,
                        uint32_t i, const cpu_op *op, double threads)
{
    const inlay_value_state *state = state_of(request, info->inputs, info->input_count, i);
    const inlay_value_info *value = inlay_graph_value(request->graph, info->inputs[i]);

    if (state == NULL || value == NULL || (value->flags & INLAY_VALUE_CONSTANT) != 0 ||
        state->rank == INLAY_RANK_UNKNOWN || state->rank < 3 || price_axis(state, 1) <= FEW_CHANNELS ||
        (i > 0 && chooses_layout(op->row->family)))
        return 0;
    return reorder_ns(machine, width_of(state) * price_count(state), threads);
}

/* Only the addressed rows of tables and caches are read or written. */
static void count_rows(const cpu_op *op, struct sizes *sizes)
{
    if (op->row->family->kind == CPU_FAMILY_ROTARY) {
        sizes->weights = 0;
        sizes->in = 2 * sizes->out;
    } else if (op->row->family->kind == CPU_FAMILY_SCATTER) {
        sizes->weights = 0;
        sizes->in = sizes->out = 4 * price_count(sizes->second);
    }
}

/* The threads that share a convolution of single pixels between row-major images: one thread for little work, and units
 * of at least PIXEL_UNIT operations (conv_rows.c). */
static double pixel_threads(const struct sizes *sizes, double flops, double filters, double threads)
{
    const double groups = price_axis(sizes->first, 0) * price_axis(sizes->output, 1) / filters;
    double units = groups * fmin(floor(flops / groups / PIXEL_UNIT) + 1, PIXEL_UNITS);

    if (threads <= 1 || flops < PIXEL_ALONE)
        return 1;
    while (units < threads && filters * groups / units >= 2 * PIXEL_SLICE) /* slices of filters */
        units *= 2;
    return units / ceil(units / threads);
}

/* Time of a convolution between row-major images, which needs no layout: products of the filters by panels of receptive
 * fields (kernels/model.c, kernel_rows_ns). Single pixels without a stride are read in place, otherwise a panel has a
 * copy of a piece of a row for every term. Negative: the op is another one. */
static double rows_ns(const cpu_state *state, const inlay_graph *graph, const inlay_node_info *info,
                      const struct sizes *sizes, const op_work *work, double threads, const struct machine *machine)
{
    const cpu_op *op = work->op;
    const bool laid_out = has_layout(state, graph, info->inputs[0]) || wants_layout(state, graph, info->outputs[0]);
    op_work product = { .op = op, .rate = CORE_FLOPS_PER_NS, .threads = 1, .gain = 1 };
    double filters, columns, depth, taps, width, places, ns;

    if (op->row->family->kind != CPU_FAMILY_CONV || op->window.spatial != 2 || laid_out || sizes->output == NULL ||
        sizes->output->rank != 4 || sizes->second == NULL || op->window.group < 1 || price_axis(sizes->second, 1) < 2)
        return -1;
    taps = (double)(op->window.kernel[0] * op->window.kernel[1]);
    filters = price_axis(sizes->output, 1) / (double)op->window.group;
    columns = price_count(sizes->output) / filters;
    depth = price_axis(sizes->second, 1) * taps;
    width = price_axis(sizes->output, 3);
    places = price_axis(sizes->output, 2) * width;
    product.multiplies = product.dense = true;
    product.flops = 2 * filters * columns * padded(places) * depth;
    ns = op_work_ns(&product, &machine->reference, &machine->local) +
         columns / places * ceil(places / PIXEL_COLUMNS) * ceil(filters / PIXEL_FILTERS) * PIXEL_TILE_NS;
    if (taps > 1 || op->window.strides[1] > 1)
        ns += columns / width * depth * (ceil(width / PIXEL_COLUMNS) + (fmod(width, PIXEL_COLUMNS) > 0)) * PIECE_NS +
              4 * columns * depth / UNFOLD_BYTES_PER_NS +
              sizes->in / (double)op->window.strides[0] / STRIDED_BYTES_PER_NS;
    threads = pixel_threads(sizes, product.flops, filters, threads);
    if (price_stream_share(&machine->memory, sizes->in + sizes->out) > 0) /* caches are read during the computation */
        ns += threads * stream_ns(machine, sizes->in, sizes->out, threads);
    return ns / threads + CALL_NS + (threads > 1 ? machine->memory.team_ns : 0);
}

/* True for a convolution of several groups, other than depthwise, between row-major images, whose kernels read and
 * write rows of them. */
static bool reads_rows(const cpu_state *state, const inlay_graph *graph, const cpu_op *op, const inlay_node_info *info,
                       const struct sizes *sizes)
{
    return op->row->family->kind == CPU_FAMILY_CONV && op->window.spatial == 2 && op->window.group > 1 &&
           sizes->output != NULL && sizes->output->rank == 4 &&
           (double)op->window.group != price_axis(sizes->output, 1) && !has_layout(state, graph, info->inputs[0]) &&
           !wants_layout(state, graph, info->outputs[0]);
}

static bool is_strided_window(const cpu_op *op)
{
    return op->window.strides[op->window.spatial - 1] > 1;
}

/* Time of a depthwise convolution of a row-major image by vectors of channels, with both changes of layout
 * (kernels/model.c, kernel_depthwise_ns). Small images have too short rows for vectors of pixels. */
static double channels_ns(const struct sizes *sizes, const op_work *work, const struct machine *machine)
{
    const double channels = price_axis(sizes->output, 1),
                 vectors = price_count(sizes->output) / channels * ceil(channels / LANES);
    const uint32_t last = work->op->window.spatial - 1;
    const double width = price_axis(sizes->first, sizes->first->rank - 1);
    double taps = 1, rows = last > 0 ? (double)work->op->window.kernel[0] : 1, read_ns = 0;

    for (uint32_t i = 0; i <= last; i++)
        taps *= (double)work->op->window.kernel[i];
    if (4 * channels * width * rows > PRICE_CORE_SIZE) /* each column of a window arrives once */
        read_ns = rows * fmin((double)work->op->window.strides[last], (double)work->op->window.kernel[last]) * 4 *
                  LANES / machine->memory.near;
    return vectors * fmax((CHANNELS_NS + CHANNELS_TAP_NS * taps) * CHANNELS_PACE / machine->local.multiply, read_ns) /
               work->threads +
           stream_ns(machine, sizes->in, sizes->out, work->threads) + reorder_ns(machine, sizes->in, work->threads) +
           reorder_ns(machine, sizes->out, work->threads) + CALL_NS + (work->threads > 1 ? machine->memory.team_ns : 0);
}

static double work_ns(const op_work *work, const struct machine *machine)
{
    return op_work_ns(work, &machine->reference, &machine->local);
}

/* Time that an op adds to the loop of the op into which it is fused: its functions, and the tensors that only this op
 * reads. */
static double fused_ns(const struct sizes *sizes, op_work work, const struct machine *machine)
{
    const cpu_family *family = work.op->row->family;
    double ns = FUSED_NS;

    if (family->kind == CPU_FAMILY_UNARY && work.rate < SIMPLE_PER_NS)
        ns += work.op->unary[0].function == FUNCTION_SIGMOID ? work.flops / GATE_PER_NS / work.threads
                                                             : work_ns(&work, machine);
    if (family->kind == CPU_FAMILY_BINARY) /* the other operand is not in registers */
        ns += stream_ns(machine, sizes->in > sizes->out ? sizes->in - sizes->out : 0, 0, work.threads);
    return ns;
}

/* Time of an op that is not fused; read_ns: of its weights. */
static double alone_ns(const struct sizes *sizes, const op_work *work, double read_ns, const struct machine *machine)
{
    const double streams = stream_ns(machine, sizes->in, sizes->out, work->threads) + read_ns;

    return fmax(work_ns(work, machine), streams) + CALL_NS + (work->threads > 1 ? machine->memory.team_ns : 0);
}

/* The rows that are reduced to a number each. A reduction along other axes than the last computes vectors of them. */
static double reduced_rows(const struct sizes *sizes)
{
    const double all = price_count(sizes->output);
    const bool keeps_last =
        sizes->first->rank != INLAY_RANK_UNKNOWN && sizes->output->rank == sizes->first->rank &&
        sizes->first->rank > 0 &&
        price_axis(sizes->first, sizes->first->rank - 1) == price_axis(sizes->output, sizes->output->rank - 1);

    return keeps_last ? all / LANES : all;
}

/* The properties of the work that flops_of() does not set. */
static void describe_work(const cpu_state *state, const inlay_graph *graph, const inlay_node_info *info,
                          const struct sizes *sizes, op_work *work)
{
    const cpu_op *op = work->op;
    const cpu_family *family = op->row->family;
    const bool slides = family->kind == CPU_FAMILY_POOL || family->kind == CPU_FAMILY_RESIZE ||
                        (family->kind == CPU_FAMILY_CONV && op->window.group > 1 &&
                         (double)op->window.group == price_axis(sizes->output, 1));

    work->multiplies = family->kind == CPU_FAMILY_CONV || family->kind == CPU_FAMILY_CONV_TRANSPOSE ||
                       family->kind == CPU_FAMILY_PRODUCT || family->kind == CPU_FAMILY_ATTENTION;
    work->dense = family->kind == CPU_FAMILY_ATTENTION ||
                  (work->multiplies && (work->rate == CORE_FLOPS_PER_NS || work->rate == THIN_FLOPS_PER_NS));
    work->planar = slides && info->output_count > 0 && sizes->output != NULL &&
                   sizes->output->rank != INLAY_RANK_UNKNOWN && sizes->output->rank > 2 &&
                   !has_layout(state, graph, info->inputs[0]) && !wants_layout(state, graph, info->outputs[0]);
    if (sizes->output != NULL && sizes->output->rank != INLAY_RANK_UNKNOWN && sizes->output->rank > 0)
        work->rows = price_count(sizes->output) / price_axis(sizes->output, sizes->output->rank - 1);
    if (family->kind == CPU_FAMILY_REDUCE && sizes->first != NULL && sizes->output != NULL)
        work->rows = reduced_rows(sizes);
    if (family->kind == CPU_FAMILY_CONV) {
        find_winograd(op, sizes, work);
        find_fft(op, sizes, work);
    }
}

/* The time of a recurrent layer of `rows` sequences relative to the reference core. The time of a step of few sequences
 * is that of reading the weights from the caches; the time of a step of more sequences is that of the
 * multiplications. */
static double recurrent_factor(const struct machine *machine, double rows)
{
    const double multiplies = machine->reference.multiply / machine->local.multiply;

    return fmin(multiplies, REFERENCE_SHARED / machine->memory.shared * fmax(1, rows / 2));
}

static void add(const inlay_cost *op, inlay_cost *sum)
{
    sum->ns += op->ns;
    sum->flops += op->flops;
    sum->bytes_read += op->bytes_read;
    sum->bytes_written += op->bytes_written;
    sum->enter_ns += op->enter_ns;
    sum->leave_ns += op->leave_ns;
}

/* True if one of the first `count` inputs is the value. */
static bool is_among_inputs(const inlay_node_info *info, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (info->inputs[i] == value)
            return true;
    return false;
}

static inlay_status cost_of(const cpu_state *state, const inlay_cost_request *request, uint32_t node_index,
                            const struct machine *machine, inlay_cost *cost)
{
    const inlay_node_info *info = inlay_graph_node(request->graph, node_index);
    const kit_node node = { .host = state->host, .graph = request->graph, .info = info };
    kit_refusal why = { 0, "", "" };
    cpu_op op;
    op_work work = { .op = &op, .threads = request->max_threads > 0 ? request->max_threads : 1, .gain = 1 };
    const double threads = work.threads;
    double alone, inside = -1, share = 1, enter_ns = 0, leave_ns = 0, rows;
    bool fused = false, laid_out, planar;
    struct sizes sizes = { 0 };

    if (cpu_parse(&node, &op, &why) == NULL)
        return INLAY_INVALID_ARGUMENT;
    sizes.first = state_of(request, info->inputs, info->input_count, 0);
    sizes.second = state_of(request, info->inputs, info->input_count, 1);
    sizes.output = state_of(request, info->outputs, info->output_count, 0);
    for (uint32_t i = 0; i < info->input_count; i++) {
        const inlay_value_info *value = inlay_graph_value(request->graph, info->inputs[i]);
        double bytes = 4 * price_count(state_of(request, info->inputs, info->input_count, i));

        if (value == NULL)
            continue;
        if (i == 1 && op.row->family->kind == CPU_FAMILY_PRODUCT &&
            nbits_is_weights(request->graph, info->inputs[i], &bytes)) {
            sizes.weights += bytes;
            continue;
        }
        if (i == 1 && op.row->family->kind == CPU_FAMILY_PRODUCT &&
            sparse_share_of(request->graph, value, !op.product.trans_b, &share)) {
            share = state->strict || state->reproducible ? 1 : share;
            sizes.weights += bytes * share;
            continue;
        }
        if (blocks_is_constant(request->graph, info->inputs[i])) {
            sizes.weights += bytes / (value->dtype == INLAY_UINT8 ? 4 : 1);
            continue;
        }
        if (i > 0 && (low_bit_is_constant(request->graph, info->inputs[i], NULL) ||
                      halves_is_constant(request->graph, info->inputs[i]) ||
                      halves_is_matrix(request->graph, info->inputs[i]))) { /* dequantized or widened constants */
            sizes.weights += bytes;
            continue;
        }
        if ((value->flags & INLAY_VALUE_CONSTANT) != 0) {
            sizes.weights += bytes;
            continue;
        }
        if (!is_among_inputs(info, i, info->inputs[i])) /* x * x reads x once */
            sizes.in += bytes;
        fused = fused || is_fused(state, request, info, i, &op);
        cost->enter_ns += cost->enter_ns == 0 ? ENTER_NS : MORE_ENTER_NS;
    }
    if (op.row->family->kind == CPU_FAMILY_RECURRENT) {
        inlay_cost layer = { .ns = 0 };

        cpu_recurrent_cost(state, request, info, &layer);
        layer.ns *= recurrent_factor(machine, price_axis(sizes.first, 1));
        add(&layer, cost);
        return INLAY_OK;
    }
    sizes.out = 4 * price_count(sizes.output);
    count_rows(&op, &sizes);
    planar = is_planar(state, request->graph, &op, info, &sizes);
    laid_out = !planar && reads_layout(state, request->graph, &op, info);
    for (uint32_t i = 0; laid_out && i < info->input_count; i++)
        enter_ns += layout_ns(machine, request, info, i, &op, threads);
    if (info->output_count > 0 && !planar && (has_layout(state, request->graph, info->outputs[0]) || is_strided(&op))) {
        const double bytes = width_of(sizes.output) * price_count(sizes.output);

        leave_ns += op.row->family->kind == CPU_FAMILY_SLICE ? part_ns(machine, bytes, threads)
                    : op.row->family->kind == CPU_FAMILY_TRANSPOSE && sizes.output != NULL &&
                            sizes.output->rank != INLAY_RANK_UNKNOWN
                        ? transpose_ns(machine, sizes.output, bytes, threads)
                        : reorder_ns(machine, bytes, threads);
    }
    if (op.row->takes != NULL &&
        op.row->family->kind != CPU_FAMILY_ATTENTION) { /* integers, and constants in other types */
        const double slower = machine->reference.multiply / machine->local.multiply;
        double multiply_ns = 0, weight_bytes = 0;
        inlay_cost integers = { .ns = 0 };

        cpu_quant_cost(&op, request, info, &integers, &multiply_ns, &weight_bytes);
        cost->enter_ns += enter_ns;
        cost->leave_ns += leave_ns;
        integers.ns += fmax(multiply_ns * slower, weights_ns(machine, request->graph, weight_bytes, threads));
        add(&integers, cost);
        return INLAY_OK;
    }
    work.flops = flops_of(&op, &sizes, &work.rate) * (share < SPARSE_PACE ? share / SPARSE_PACE : 1);
    describe_work(state, request->graph, info, &sizes, &work);
    cost->flops += work.flops;
    cost->bytes_read += (uint64_t)(sizes.in + sizes.weights);
    cost->bytes_written += (uint64_t)sizes.out;
    if (fused || is_view(&op))
        inside = fused_ns(&sizes, work, machine);
    work.threads = step_threads(&work, &sizes, threads);
    alone = alone_ns(&sizes, &work, weights_ns(machine, request->graph, sizes.weights, work.threads), machine);
    if (op.row->family->kind == CPU_FAMILY_ATTENTION)
        alone += 2 * 4 * price_count(sizes.second) / PACK_BYTES_PER_NS / work.threads;
    if (reads_rows(state, request->graph, &op, info, &sizes)) { /* both changes of layout are the kernel's */
        alone += reorder_ns(machine, sizes.in, threads) + reorder_ns(machine, sizes.out, threads);
        enter_ns = leave_ns = 0;
    }
    if (op.row->family->kind == CPU_FAMILY_CONV && !planar)
        alone += BORDER_NS;
    rows = rows_ns(state, request->graph, info, &sizes, &work, threads, machine);
    if (rows >= 0 && rows < alone + enter_ns + leave_ns) {
        alone = rows;
        enter_ns = leave_ns = 0;
    }
    if (planar) {
        const double elements = is_strided_window(&op) ? sizes.in / 4 : 0;

        alone += (PLANE_NS * price_axis(sizes.first, 0) * price_axis(sizes.first, 1) + elements / LANES) / work.threads;
        if (price_stream_share(&machine->memory, sizes.in + sizes.out) >
            0) /* planes are copied before the computation */
            alone += fmin(work_ns(&work, machine), stream_ns(machine, sizes.in, sizes.out, work.threads));
        alone = fmin(alone, channels_ns(&sizes, &work, machine));
    }
    cost->enter_ns += enter_ns;
    cost->leave_ns += leave_ns;
    cost->ns += inside >= 0 ? inside : alone;
    if (fused && alone > inside) /* in another region than the producer of its input */
        cost->enter_ns += alone - inside;
    return INLAY_OK;
}

inlay_status cpu_cost(void *state, const inlay_cost_request *request, inlay_cost *cost, inlay_diag *diag)
{
    const cpu_state *of = state;
    const inlay_speed *speed = cpu_measured_speed(of->host);
    const struct machine machine = { cpu_reference_pace(), cpu_local_pace(speed), price_memory_of(of->host) };
    inlay_cost sum = { .confidence = INLAY_CONFIDENCE_MODEL };

    (void)diag;
    for (uint32_t i = 0; i < request->offer->node_count; i++) {
        inlay_status status;

        INLAY_CHECK(request->offer->nodes[i] < request->graph->node_count);
        status = cost_of(of, request, request->offer->nodes[i], &machine, &sum);
        if (status != INLAY_OK)
            return status;
    }
    cost->ns = sum.ns;
    cost->flops = sum.flops;
    cost->bytes_read = sum.bytes_read;
    cost->bytes_written = sum.bytes_written;
    cost->confidence = sum.confidence;
    if (!INLAY_HAS(cost, leave_ns)) { /* an older host has no border costs: add half of them */
        cost->ns += (sum.enter_ns + sum.leave_ns) / 2;
        return INLAY_OK;
    }
    if (INLAY_HAS(cost, local_ns))
        cost->local_ns = sum.ns;
    cost->enter_ns = sum.enter_ns;
    cost->leave_ns = sum.leave_ns;
    return INLAY_OK;
}
