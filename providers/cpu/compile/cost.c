/* Estimates the time of an op on this machine's kind of CPU, from its arithmetic and its memory traffic. Rates of
 * arithmetic are those of a core with AVX-512, which work.c converts. The machine profile and measurements correct the
 * estimate.
 *
 * An op is priced as a part of a region: activations after a convolution or matrix multiplication are fused, and values
 * keep the layout in which the previous op made them. Reorders at the borders of a region are reported separately
 * (enter_ns, leave_ns). */
#include "cpu/compile/cost.h"
#include "cpu/compile/work.h"
#include "cpu/quantized/quant.h"
#include "cpu/recurrent/layer.h"
#include "cpu/region/build.h"
#include "inlay/check.h"
#include "simd/cpu.h"
#include "cpu/weights/halves.h"
#include "cpu/weights/low_bit.h"
#include "cpu/weights/nbits_weights.h"
#include "cpu/weights/blocks.h"
#include "cpu/weights/sparse_weights.h"
#include "cpu/weights/turned.h"
#include "common/price_moves.h"
#include "common/weights.h"
#include <math.h>

#define CORE_FLOPS_PER_NS 250.0 /* convolutions and matrix multiplications with packed weights */
#define ATTENTION_FLOPS_PER_NS 210.0
#define SCORE_NS 0.55          /* attention: softmax of one score */
#define PACK_BYTES_PER_NS 20.0 /* attention: keys and values, ... */
#define HEAD_NS 250.0          /* ... and the start of a head */
#define POOL_FLOPS_PER_NS 8.0
#define GATE_PER_NS 10.0  /* elements of a Sigmoid fused into a convolution or matrix multiplication */
#define NORM_PER_NS 3.6   /* elements of a normalisation, which reads its rows twice or more */
#define REDUCED_FROM 17.0 /* elements of rows that are not transposed before they are reduced, at least; of Softmax */
#define SOFTMAX_FROM 9.0  /* ... and LogSoftmax */
#define REDUCE_PER_NS 8.0 /* elements that a reduction reads */
/* How threads share loops: each takes at least this many ... */
#define ELEMENTS_GRAIN 16384.0 /* elements of elementwise functions, ... */
#define SOFTMAX_GRAIN 8192.0
#define ROWS_GRAIN 32768.0 /* ... of normalised or reduced rows, ... */
#define TAPS_GRAIN 65536.0 /* ... and taps of pools */
#define MOVED_GRAIN 16384.0
#define MIN_MOVED 24576.0 /* elements whose layout several threads change */
#define ATTENTION_WAKE_NS 10000.0
#define ATTENTION_WAKE_PER_NS 120.0
#define ENTER_NS 150.0     /* the first input of a region, ... */
#define MORE_ENTER_NS 40.0 /* ... and each further one */
#define FUSED_NS 30.0      /* an op that is fused into another */
#define STEPPED_NS 0.2     /* an element of a part with a step along the last axis */
#define PADDED_ROW_NS 12.0 /* the margins of a row, in addition to its bytes */

static double stream_ns(const cost_machine *machine, double read, double written, double threads)
{
    return price_stream_ns(&machine->memory, read, written, threads);
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

/* Bytes of an element. */
static double width_of(const inlay_value_state *state)
{
    return state == NULL ? 0 : inlay_dtype_bits(state->dtype) / 8.0;
}

/* The sizes of a product. Several rows by constant weights count as one matrix. */
static void gemm_shape_of(const cpu_op *op, const cost_sizes *sizes, kernel_gemm_shape *product)
{
    const inlay_value_state *output = sizes->output, *first = sizes->first;
    const uint32_t rank = output == NULL || output->rank == INLAY_RANK_UNKNOWN ? 0 : output->rank;
    const double n = rank > 0 ? price_axis(output, rank - 1) : 1, rows = price_count(output) / n;
    const double m = sizes->weights > 0 || rank < 2 ? rows : price_axis(output, rank - 2);
    const double k =
        first == NULL || first->rank == INLAY_RANK_UNKNOWN || first->rank == 0
            ? 1
            : price_axis(first, op->product.trans_a && first->rank > 1 ? first->rank - 2 : first->rank - 1);

    *product = (kernel_gemm_shape){
        .batch = m >= 1 ? (int64_t)(rows / m) : 1, .m = (int64_t)m, .n = (int64_t)n, .k = (int64_t)k
    };
}

/* The number of multiplications and additions; *out_rate: how many per nanosecond. */
static double flops_of(const cpu_op *op, const cost_sizes *sizes, double *out_rate)
{
    const cpu_family *family = op->row->family;
    double outputs = price_count(sizes->output), window = 1;

    *out_rate = CORE_FLOPS_PER_NS;
    if (family->kind == CPU_FAMILY_CONV || family->kind == CPU_FAMILY_CONV_TRANSPOSE) {
        for (uint32_t i = 0; i < op->window.spatial; i++)
            window *= (double)op->window.kernel[i];
        return 2 * (family->kind == CPU_FAMILY_CONV ? outputs : price_count(sizes->first)) *
               price_axis(sizes->second, 1) * window;
    }
    if (family->kind == CPU_FAMILY_PRODUCT) {
        kernel_gemm_shape product;

        gemm_shape_of(op, sizes, &product);
        return 2 * outputs * (double)product.k;
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
        return window > 1 ? outputs * window : 0; /* single pixels are copied */
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

/* Time of the pieces of which a concatenation consists, in addition to their bytes. */
static double joined_ns(const inlay_cost_request *request, const inlay_node_info *info)
{
    const inlay_value_state *output = cost_state_of(request, info->outputs, info->output_count, 0);
    double ns = 0;

    for (uint32_t i = 0; output != NULL && i < info->input_count; i++) {
        const inlay_value_state *part = cost_state_of(request, info->inputs, info->input_count, i);
        const double count = price_count(part);
        double pieces;

        if (count == 0 || output->rank == INLAY_RANK_UNKNOWN || part->rank != output->rank)
            continue;
        pieces = price_pieces(part->dims, output->dims, part->rank, count);
        ns += pieces * price_piece_ns(width_of(part) * count / pieces);
    }
    return ns;
}

/* The threads that share a copy of a tensor. */
static double copy_threads(double bytes, double threads)
{
    return bytes / 4 < MIN_MOVED ? 1 : price_loop_threads(bytes / 4, MOVED_GRAIN, threads);
}

/* Time to make a transposed tensor contiguous. */
static double transpose_ns(const cost_machine *machine, const kit_node *node, const cost_sizes *sizes, double threads)
{
    const inlay_value_state *input = sizes->first;
    const double element = width_of(input), bytes = element * price_count(input);
    uint32_t count = 0;
    const int64_t *perm = kit_attr_ints(node->info, "perm", &count);

    if (input->rank == INLAY_RANK_UNKNOWN || (perm != NULL && count != input->rank))
        return kernel_reorder_ns(&machine->kernels, bytes, threads);
    return KERNEL_CALL_NS +
           price_moved_ns(&machine->memory, bytes,
                          price_transpose_ns(input->dims, perm, input->rank, element) * machine->kernels.other,
                          copy_threads(bytes, threads));
}

/* Time to make the parts of a tensor contiguous: pieces of their rows are copied, or single elements if the part has a
 * step along the last axis. */
static double parts_ns(const cost_machine *machine, const inlay_cost_request *request, const inlay_node_info *info,
                       const cpu_op *op, double threads)
{
    const inlay_value_state *input = cost_state_of(request, info->inputs, info->input_count, 0);
    double ns = 0;

    for (uint32_t i = 0; i < info->output_count; i++) {
        const inlay_value_state *part = cost_state_of(request, info->outputs, info->output_count, i);
        const double count = price_count(part), bytes = width_of(part) * count, sharing = copy_threads(bytes, threads);
        double pieces = 1, elements = 0;

        if (part == NULL || count == 0)
            continue;
        if (part->rank != INLAY_RANK_UNKNOWN && part->rank > 0 && input->rank == part->rank) {
            pieces = price_pieces(input->dims, part->dims, part->rank, count);
            if (op->row->family->kind == CPU_FAMILY_SLICE && op->slice.steps[part->rank - 1] > 1)
                elements = count;
        }
        ns += KERNEL_CALL_NS + price_overlapped_ns((pieces * price_piece_ns(bytes / pieces) + elements * STEPPED_NS) *
                                                       machine->kernels.other / sharing,
                                                   stream_ns(machine, bytes, bytes, sharing));
    }
    return ns;
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

/* The threads that share a loop over rows of n elements, if a grain has about `elements` of them. */
static double row_threads(double rows, double n, double elements, double threads)
{
    return price_loop_threads(rows, floor(elements / fmax(n, 1)) + 1, threads);
}

/* The threads that share the work of an op, on average. The limits are those of its loops. */
static double step_threads(const op_work *work, const cost_sizes *sizes, double threads)
{
    const cpu_family *family = work->op->row->family;
    const double elements = fmax(sizes->in, sizes->out) / 4, n = elements / fmax(work->rows, 1);

    if (family->kind == CPU_FAMILY_ATTENTION)
        return work->flops / ATTENTION_WAKE_PER_NS < ATTENTION_WAKE_NS ? 1 : threads;
    if (family->kind == CPU_FAMILY_CONV) /* of unknown size */
        return threads;
    if (family->kind == CPU_FAMILY_SOFTMAX || family->kind == CPU_FAMILY_REDUCE)
        return fmin(
            price_loop_threads(elements, family->kind == CPU_FAMILY_REDUCE ? ROWS_GRAIN : SOFTMAX_GRAIN, threads),
            work->tiled ? threads : fmax(work->rows, 1));
    if (family->kind == CPU_FAMILY_LAYER_NORM || family->kind == CPU_FAMILY_RMS_NORM ||
        family->kind == CPU_FAMILY_SKIP_NORM)
        return row_threads(work->rows, n, ROWS_GRAIN, threads);
    if (family->kind == CPU_FAMILY_POOL && !work->op->window.global)
        return row_threads(work->rows, work->flops / fmax(work->rows, 1), TAPS_GRAIN, threads);
    if (cost_is_elementwise(family))
        return price_loop_threads(elements, ELEMENTS_GRAIN, threads);
    return sizes->in + sizes->out + sizes->weights > 192 * 1024 ? threads : 1;
}

/* Time to reorder input i from row-major. A convolution reorders only its image, other ops every image. */
static double layout_ns(const cost_machine *machine, const inlay_cost_request *request, const inlay_node_info *info,
                        uint32_t i, const cpu_op *op, double threads)
{
    const inlay_value_state *state = cost_state_of(request, info->inputs, info->input_count, i);
    const inlay_value_info *value = inlay_graph_value(request->graph, info->inputs[i]);

    if (state == NULL || value == NULL || (value->flags & INLAY_VALUE_CONSTANT) != 0 ||
        state->rank == INLAY_RANK_UNKNOWN || state->rank < 3 || price_axis(state, 1) <= KERNEL_FEW_CHANNELS ||
        (i > 0 && cost_chooses_layout(op->row->family)))
        return 0;
    return kernel_reorder_ns(&machine->kernels, width_of(state) * price_count(state), threads);
}

/* Only the addressed rows of tables and caches are read or written. */
static void count_rows(const cpu_op *op, cost_sizes *sizes)
{
    if (op->row->family->kind == CPU_FAMILY_ROTARY) {
        sizes->weights = 0;
        sizes->in = 2 * sizes->out;
    } else if (op->row->family->kind == CPU_FAMILY_SCATTER) {
        sizes->weights = 0;
        sizes->in = sizes->out = 4 * price_count(sizes->second);
    }
}

static double work_ns(const op_work *work, const cost_machine *machine)
{
    return op_work_ns(work, &machine->reference, &machine->local);
}

/* Time that an op adds to the loop of the op into which it is fused: its functions, and the tensors that only this op
 * reads. */
static double fused_ns(const cost_sizes *sizes, op_work work, const cost_machine *machine)
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

/* The share of the time of memory that an op of several passes over each row waits for. */
static double waiting_share(const cpu_family *family)
{
    return family->kind == CPU_FAMILY_LAYER_NORM || family->kind == CPU_FAMILY_RMS_NORM ||
                   family->kind == CPU_FAMILY_SKIP_NORM
               ? 1
           : family->kind == CPU_FAMILY_SOFTMAX ? 0.35
                                                : 0;
}

/* Time of an op that is not fused; read_ns: of its weights. */
static double alone_ns(const cost_sizes *sizes, const op_work *work, double read_ns, const cost_machine *machine)
{
    const double streams = stream_ns(machine, sizes->in, sizes->out, work->threads) + read_ns;
    /* While a row is read again, the next one is not fetched: each thread waits for memory between its rows. */
    const double waits = waiting_share(work->op->row->family) *
                         price_far_stream_ns(&machine->memory, sizes->in, sizes->out, 1) / work->threads;

    const bool pads_rows =
        work->op->row->family->kind == CPU_FAMILY_PAD && sizes->first != NULL && sizes->output != NULL &&
        sizes->first->rank == sizes->output->rank && sizes->output->rank != INLAY_RANK_UNKNOWN &&
        sizes->output->rank > 0 &&
        price_axis(sizes->first, sizes->first->rank - 1) != price_axis(sizes->output, sizes->output->rank - 1);
    const double margins = pads_rows ? PADDED_ROW_NS * work->rows / work->threads : 0;

    return fmax(work_ns(work, machine) + waits, streams) + margins + KERNEL_CALL_NS +
           (work->threads > 1 ? machine->memory.team_ns : 0);
}

static double product_ns(const cpu_op *op, const cost_sizes *sizes, double graph_weights, double share,
                         const cost_machine *machine, double threads)
{
    const kernel_gemm_bytes bytes = { .read = sizes->in,
                                      .written = sizes->out,
                                      .weights = sizes->weights,
                                      .graph = graph_weights,
                                      .matrix = sizes->weights > 0 ? 0 : 4 * price_count(sizes->second),
                                      .share = share };
    kernel_gemm_shape product;

    gemm_shape_of(op, sizes, &product);
    return kernel_gemm_product_ns(&product, &bytes, &machine->kernels, threads);
}

/* Sets the work of an op along the axes of a mask, of a value of known rank. If the axes are not adjacent, the value is
 * copied first, with these axes last. */
static void work_along(const inlay_value_state *state, uint32_t axes, double rows_from, bool takes_logs, op_work *work)
{
    double cut[3] = { 1, 1, 1 }, lanes = cpu_has(CPU_AVX512) ? 16 : 8;
    bool adjacent = true;
    price_along along;
    int part = 0;

    for (uint32_t d = 0; d < state->rank; d++) {
        const bool is_along = (axes >> d & 1) != 0;

        if (price_axis(state, d) == 1)
            continue;
        adjacent = adjacent && !(is_along && part == 2);
        part = is_along ? 1 : part > 0 ? 2 : 0;
        cut[part] *= price_axis(state, d);
    }
    along = adjacent ? price_along_of(cut[0], cut[1], cut[2], lanes, rows_from)
                     : price_along_of(cut[0] * cut[2], cut[1], 1, lanes, 0);
    work->flops = along.elements + (takes_logs ? cut[0] * cut[2] : 0); /* logarithms of sums */
    work->tiled = cut[2] > 1 || along.turned > 0;
    work->rows = work->tiled ? 0 : along.rows;
    work->turned = adjacent ? along.turned : along.elements;
}

/* The length of the rows of an elementwise op, as input `in` has them. */
static double row_length(const inlay_value_state *out, const inlay_value_state *in)
{
    return in == NULL || in->rank == INLAY_RANK_UNKNOWN ? price_count(out)
                                                        : price_row_length(out->dims, out->rank, in->dims, in->rank);
}

/* The properties of the work that flops_of() does not set. */
static void describe_work(const cpu_state *state, const inlay_graph *graph, const inlay_node_info *info,
                          const cost_sizes *sizes, op_work *work)
{
    const cpu_op *op = work->op;
    const cpu_family *family = op->row->family;
    const bool slides = family->kind == CPU_FAMILY_POOL || family->kind == CPU_FAMILY_RESIZE;

    work->multiplies = family->kind == CPU_FAMILY_CONV || family->kind == CPU_FAMILY_CONV_TRANSPOSE ||
                       family->kind == CPU_FAMILY_ATTENTION;
    work->planar = slides && info->output_count > 0 && sizes->output != NULL &&
                   sizes->output->rank != INLAY_RANK_UNKNOWN && sizes->output->rank > 2 &&
                   !cost_has_layout(state, graph, info->inputs[0]) &&
                   !cost_wants_layout(state, graph, info->outputs[0]);
    if (sizes->output != NULL && sizes->output->rank != INLAY_RANK_UNKNOWN && sizes->output->rank > 0)
        work->rows = price_count(sizes->output) / price_axis(sizes->output, sizes->output->rank - 1);
    if (family->kind == CPU_FAMILY_SOFTMAX && work->rows > 0 && (uint32_t)op->axis < sizes->output->rank)
        work_along(sizes->output, op->softmax.flattened ? ~0u << op->axis : 1u << op->axis, SOFTMAX_FROM,
                   op->softmax.is_log, work);
    if (family->kind == CPU_FAMILY_NORMALIZE && sizes->output != NULL && work->rows > 0)
        for (uint32_t d = 2; d + 1 < sizes->output->rank; d++) /* planes */
            work->rows /= price_axis(sizes->output, d);
    if (family->kind == CPU_FAMILY_BINARY && sizes->output != NULL && sizes->output->rank != INLAY_RANK_UNKNOWN)
        work->rows = price_count(sizes->output) /
                     fmin(row_length(sizes->output, sizes->first), row_length(sizes->output, sizes->second));
    if (family->kind == CPU_FAMILY_REDUCE && sizes->first != NULL && sizes->first->rank != INLAY_RANK_UNKNOWN)
        work_along(sizes->first, op->reduction.axes, REDUCED_FROM, false, work);
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
                            const cost_machine *machine, inlay_cost *cost)
{
    const inlay_node_info *info = inlay_graph_node(request->graph, node_index);
    const kit_node node = { .host = state->host, .graph = request->graph, .info = info };
    kit_refusal why = { 0, "", "" };
    cpu_op op;
    op_work work = { .op = &op, .threads = request->max_threads > 0 ? request->max_threads : 1 };
    const double threads = work.threads;
    double alone, inside = -1, share = 1, rows = 1, expand_ns = 0, enter_ns = 0, leave_ns = 0;
    bool fused = false, laid_out, priced;
    cost_conv conv = { 0 };
    cost_sizes sizes = { 0 };

    if (cpu_parse(&node, &op, &why) == NULL)
        return INLAY_INVALID_ARGUMENT;
    sizes.first = cost_state_of(request, info->inputs, info->input_count, 0);
    sizes.second = cost_state_of(request, info->inputs, info->input_count, 1);
    sizes.output = cost_state_of(request, info->outputs, info->output_count, 0);
    if (sizes.output != NULL && sizes.output->rank != INLAY_RANK_UNKNOWN && sizes.output->rank > 0)
        rows = price_count(sizes.output) / price_axis(sizes.output, sizes.output->rank - 1);
    for (uint32_t i = 0; i < info->input_count; i++) {
        const inlay_value_info *value = inlay_graph_value(request->graph, info->inputs[i]);
        double bytes = 4 * price_count(cost_state_of(request, info->inputs, info->input_count, i));

        if (value == NULL)
            continue;
        if (i == 1 && op.row->family->kind == CPU_FAMILY_PRODUCT &&
            nbits_is_weights(request->graph, info->inputs[i], &bytes)) {
            const double weights = price_count(sizes.second);

            expand_ns = cpu_expand_ns(weights, 8 * bytes / fmax(weights, 1), rows) * machine->reference.multiply /
                        machine->local.multiply / threads;
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
                      turned_is_matrix(request->graph, info->inputs[i]))) { /* packed from another form */
            sizes.weights += bytes;
            continue;
        }
        if ((value->flags & INLAY_VALUE_CONSTANT) != 0) {
            sizes.weights += bytes;
            continue;
        }
        if (!is_among_inputs(info, i, info->inputs[i])) /* x * x reads x once */
            sizes.in += bytes;
        fused = fused || cost_is_fused(state, request, info, i, &op);
        cost->enter_ns += cost->enter_ns == 0 ? ENTER_NS : MORE_ENTER_NS;
    }
    if (op.row->family->kind == CPU_FAMILY_RECURRENT) {
        inlay_cost layer = { .ns = 0 };

        cpu_recurrent_cost(state, request, info, &layer);
        add(&layer, cost);
        return INLAY_OK;
    }
    sizes.out = 4 * price_count(sizes.output);
    count_rows(&op, &sizes);
    priced = op.row->family->kind == CPU_FAMILY_CONV &&
             cost_of_conv(state, request->graph, &op, info, &sizes, &machine->kernels, threads, &conv);
    laid_out = !conv.row_major && cost_reads_layout(state, request->graph, &op, info);
    for (uint32_t i = 0; laid_out && i < info->input_count; i++)
        enter_ns += (priced ? conv.entry_share : 1) * layout_ns(machine, request, info, i, &op, threads);
    if (info->output_count > 0 && !conv.row_major &&
        (cost_has_layout(state, request->graph, info->outputs[0]) || is_strided(&op))) {
        leave_ns +=
            op.row->family->kind == CPU_FAMILY_SLICE || op.row->family->kind == CPU_FAMILY_SPLIT
                ? parts_ns(machine, request, info, &op, threads)
            : op.row->family->kind == CPU_FAMILY_TRANSPOSE && sizes.first != NULL
                ? transpose_ns(machine, &node, &sizes, threads)
                : kernel_reorder_ns(&machine->kernels, width_of(sizes.output) * price_count(sizes.output), threads);
    }
    if (op.row->takes != NULL &&
        op.row->family->kind != CPU_FAMILY_ATTENTION) { /* integers, and constants in other types */
        const double slower = machine->reference.multiply / machine->local.multiply;
        double multiply_ns = 0, weight_bytes = 0;
        inlay_cost integers = { .ns = 0 };

        cpu_quant_cost(&op, request, info, &integers, &multiply_ns, &weight_bytes);
        cost->enter_ns += enter_ns;
        cost->leave_ns += leave_ns;
        if (op.row->family->kind == CPU_FAMILY_CONCAT)
            integers.ns += joined_ns(request, info) * machine->kernels.other / threads;
        if (weight_bytes == 0 && integers.flops > 0)
            integers.ns = fmax(integers.ns, stream_ns(machine, width_of(sizes.first) * price_count(sizes.first),
                                                      width_of(sizes.output) * price_count(sizes.output), threads));
        integers.ns += fmax(multiply_ns * slower, kernel_weights_ns(&machine->kernels, weight_bytes,
                                                                    weights_of_graph(request->graph), threads));
        add(&integers, cost);
        return INLAY_OK;
    }
    work.flops = priced ? conv.flops : flops_of(&op, &sizes, &work.rate) * share;
    cost->flops += work.flops;
    cost->bytes_read += (uint64_t)(sizes.in + sizes.weights);
    cost->bytes_written += (uint64_t)sizes.out;
    if (priced) {
        cost->enter_ns += enter_ns;
        cost->leave_ns += leave_ns;
        cost->ns += conv.ns;
        return INLAY_OK;
    }
    describe_work(state, request->graph, info, &sizes, &work);
    if (fused || is_view(&op))
        inside = fused_ns(&sizes, work, machine);
    work.threads = step_threads(&work, &sizes, threads);
    alone = op.row->family->kind == CPU_FAMILY_PRODUCT
                ? product_ns(&op, &sizes, weights_of_graph(request->graph), share, machine, threads) + expand_ns
                : alone_ns(&sizes, &work,
                           kernel_weights_ns(&machine->kernels, sizes.weights, weights_of_graph(request->graph),
                                             work.threads),
                           machine);
    if (op.row->family->kind == CPU_FAMILY_CONV_TRANSPOSE)
        alone += cost_of_sums(&op, &sizes, &machine->kernels) / work.threads;
    if (op.row->family->kind == CPU_FAMILY_ATTENTION)
        alone += (2 * 4 * price_count(sizes.second) / PACK_BYTES_PER_NS +
                  HEAD_NS * price_axis(sizes.first, 0) * price_axis(sizes.first, 1)) /
                 work.threads;
    if (op.row->family->kind == CPU_FAMILY_CONCAT)
        alone += joined_ns(request, info) * machine->kernels.other / work.threads;
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
    const kernel_machine kernels = kernel_machine_of(of->host);
    const cost_machine machine = { cpu_reference_pace(), cpu_local_pace(speed), kernels, kernels.memory };
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
