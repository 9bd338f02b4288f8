/* Estimates the time of a group on this machine's kind of CPU, with constants measured on one core of a Zen 5.
 * Tensors at the borders of a group are row-major, so kernels for blocked images include two changes of layout. */
#include "onednn/provider.h"
#include "common/price.h"
#include "common/weights.h"
#include "inlay/check.h"
#include "simd/cpu.h"
#include <math.h>

#define CONV_FLOPS_PER_NS 230.0
#define PRODUCT_FLOPS_PER_NS 215.0
#define VOLUME_FLOPS_PER_NS 300.0
#define DECONV_FLOPS_PER_NS 170.0 /* transposed convolutions, which use one thread, on a Xeon, ... */
#define UNFOLD_FLOPS_PER_NS 90.0  /* ... with groups or dilations by im2col, ... */
#define DECONV_SUM_NS 0.9         /* ... which adds the products of each tap, ... */
#define DECONV_COPY_NS 0.2        /* ... or copies those of a single one */
#define GROUP_CHANNELS 16.0       /* groups of fewer channels or filters are computed by im2col, one after the other: */
#define GROUP_NS 1000.0           /* a group, ... */
#define UNFOLDED_NS 0.54          /* ... an element of its receptive fields, on a Zen 4, ... */
#define GROUP_FILTERS 8.0         /* ... and steps of filters of its multiplication */
#define MOST_FLOPS 304.0          /* a reference core with fewer multipliers comes as close to their limit */
#define MOST_PRODUCT_FLOPS 290.0  /* ... of its multiplications of matrices */
#define LANES 16.0                /* columns of a product, or channels of a group, are computed in such steps */
#define REDUCED_GAIN 2.0
#define FUNCTION_PER_NS 16.0
#define REORDER_BYTES_PER_NS 12.0
#define ROW_NS 90.0              /* windows: a row of the result, for each LANES of its channels, on a Xeon */
#define CALL_NS 500.0            /* a call of the library */
#define COPY_NS 50.0             /* a change of layout */
#define SHARED_FLOPS 4e5         /* with less work, one thread is faster */
#define PRODUCT_SHARED_FLOPS 8e6 /* oneDNN uses one thread for smaller products */

struct sizes {
    double input, weights, output, addend; /* elements */
    double depth;                          /* of a product: length of a sum */
    double taps;                           /* of a window */
    double inside;                         /* the share of all taps that a convolution computes */
    double padding;                        /* computed output channels / those of the group */
    double rows;                           /* windows: rows of the result, by LANES of its channels */
    bool depthwise, unfolded, summed;      /* summed: products of taps, of transposed convolutions by im2col */
};

/* The share of the taps of a convolution that oneDNN computes. Rows of taps outside the image are skipped. In
 * other rows about half of the taps outside the image are skipped, because a block of pixels skips a tap only if it is
 * outside for all of them. */
static double inside_of(const inlay_cost_request *request, const struct group *group)
{
    const inlay_value_state *input = price_state(request, group->values[OPERAND_INPUT]),
                            *output = price_state(request, group->output);
    int64_t in[MOST_SPATIAL], out[MOST_SPATIAL], begins[MOST_SPATIAL], ends[MOST_SPATIAL];
    double rows = 1, taps = 1;

    if (group->kind != GROUP_CONV || input == NULL || output == NULL || input->rank != group->spatial + 2 ||
        output->rank != group->spatial + 2)
        return 1;
    for (uint32_t i = 0; i < group->spatial; i++) {
        in[i] = input->dims[2 + i];
        out[i] = output->dims[2 + i];
        if (in[i] < 1 || out[i] < 1) /* unknown, or nothing to compute */
            return 1;
    }
    group_pads(group, in, out, begins, ends);
    for (uint32_t i = 0; i < group->spatial; i++) {
        double count = 0;

        for (int64_t k = 0; k < group->kernel[i]; k++) { /* the pixels whose tap k is inside */
            const int64_t low = begins[i] - k * group->dilations[i], high = low + in[i], stride = group->strides[i];
            const int64_t first = low > 0 ? (low + stride - 1) / stride : 0,
                          past = high <= 0 ? 0 : (high + stride - 1) / stride;

            count += fmax(0, (double)(past < out[i] ? past : out[i]) - (double)first);
        }
        count /= (double)(out[i] * group->kernel[i]);
        taps *= count;
        rows *= i + 1 < group->spatial ? count : 1;
    }
    return (rows + taps) / 2;
}

/* By how much vectors exceed the columns that they hold. */
static double padding_of(double columns, double lanes)
{
    return ceil(columns / lanes) * lanes / columns;
}

static struct sizes sizes_of(const inlay_cost_request *request, const struct group *group)
{
    const inlay_value_state *input = price_state(request, group->values[OPERAND_INPUT]),
                            *weights = price_state(request, group->values[OPERAND_WEIGHTS]),
                            *output = price_state(request, group->output);
    struct sizes sizes = { .input = price_count(input),
                           .weights = price_count(weights),
                           .output = price_count(price_state(request, group->output)),
                           .addend = price_count(price_state(request, group->values[OPERAND_ADDEND])),
                           .depth = 1,
                           .taps = 1,
                           .inside = inside_of(request, group),
                           .padding = 1 };
    double filters;

    if (group->kind == GROUP_PRODUCT && input != NULL && input->rank != INLAY_RANK_UNKNOWN && input->rank >= 2)
        sizes.depth = price_axis(input, input->rank - (group->input_transposed ? 2 : 1));
    for (uint32_t i = 0; i < group->spatial; i++)
        sizes.taps *= (double)group->kernel[i];
    if (group->kind == GROUP_CONV || group->kind == GROUP_DECONV)
        sizes.depth = price_axis(weights, 1); /* input channels of a group; transposed: output channels */
    filters = price_axis(weights, 0) / (double)(group->channel_groups > 0 ? group->channel_groups : 1);
    sizes.depthwise = group->channel_groups > 1 && sizes.depth == 1 && group->spatial < 3 &&
                      (group->kind != GROUP_CONV || filters <= 1);
    sizes.unfolded = group->kind == GROUP_CONV && group->channel_groups > 1 && !sizes.depthwise &&
                     fmin(sizes.depth, filters) < GROUP_CHANNELS;
    sizes.summed = group->kind == GROUP_DECONV && group->channel_groups > 1;
    for (uint32_t i = 0; i < group->spatial; i++)
        sizes.summed = sizes.summed || (group->kind == GROUP_DECONV && group->dilations[i] > 1);
    if (group->kind == GROUP_CONV && !sizes.depthwise && !sizes.unfolded && sizes.taps > 1)
        sizes.rows = sizes.output / price_axis(output, 1) / price_axis(output, group->spatial + 1) *
                     (double)group->channel_groups * ceil(filters / LANES);
    if (group->kind == GROUP_CONV && sizes.depthwise) /* blocks of channels */
        sizes.padding = padding_of(price_axis(weights, 0), LANES);
    else if (group->kind == GROUP_CONV)
        sizes.padding = padding_of(filters, sizes.unfolded ? GROUP_FILTERS : LANES);
    else if (group->kind == GROUP_DECONV && !sizes.summed)
        sizes.padding = padding_of(filters, LANES) * padding_of(sizes.depth, LANES);
    else if (group->kind == GROUP_PRODUCT && output != NULL && output->rank != INLAY_RANK_UNKNOWN && output->rank > 0)
        sizes.padding = padding_of(price_axis(output, output->rank - 1), LANES);
    return sizes;
}

/* The number of operations, and how many of them a core does per nanosecond. */
static double flops_of(const struct group *group, const struct sizes *sizes, double *out_rate)
{
    switch (group->kind) {
    case GROUP_CONV:
        *out_rate = sizes->depthwise      ? 2 * sizes->taps / (1 / PRICE_CHANNELS_PER_NS + sizes->taps * PRICE_TAP_NS)
                    : group->spatial == 3 ? VOLUME_FLOPS_PER_NS
                                          : CONV_FLOPS_PER_NS;
        return 2 * sizes->output * sizes->padding * sizes->depth * sizes->taps * (sizes->unfolded ? 1 : sizes->inside);
    case GROUP_DECONV:
        *out_rate = sizes->summed ? UNFOLD_FLOPS_PER_NS : DECONV_FLOPS_PER_NS;
        return 2 * sizes->input * sizes->padding * sizes->depth * sizes->taps;
    default:
        *out_rate = PRODUCT_FLOPS_PER_NS;
        return 2 * sizes->output * sizes->padding * sizes->depth;
    }
}

/* The elements of the receptive fields of all groups. */
static double unfolded_elements(const inlay_cost_request *request, const struct group *group, const struct sizes *sizes)
{
    const double filters = price_axis(price_state(request, group->output), 1);

    return sizes->output / filters * sizes->depth * (double)group->channel_groups * sizes->taps;
}

/* The time in which im2col of a transposed convolution adds the products of its taps. */
static double sums_ns(const inlay_cost_request *request, const struct group *group, const struct sizes *sizes)
{
    const inlay_value_state *input = price_state(request, group->values[OPERAND_INPUT]);
    const double filters = sizes->depth * (double)group->channel_groups,
                 products = sizes->input / price_axis(input, 1) * filters * sizes->taps;
    bool strided = false;

    for (uint32_t i = 0; i < group->spatial; i++)
        strided = strided || group->strides[i] > 1;
    return products * (sizes->taps > 1 || strided ? DECONV_SUM_NS : DECONV_COPY_NS);
}

static double reorder_ns(const price_memory *memory, double bytes, double threads)
{
    return COPY_NS + price_reorder_ns(memory, bytes, REORDER_BYTES_PER_NS, threads);
}

inlay_status onednn_cost(void *state_, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const onednn_state *state = state_;
    kit_refusal why = { 0, "", "" };
    const double width = state->reduced ? 2 : 4; /* bytes of a packed weight */
    const inlay_speed *speed = cpu_measured_speed(state->host);
    const price_memory memory = price_memory_of(state->host);
    double threads = request->max_threads > 0 ? request->max_threads : 1, rate, flops, reading, work;
    struct sizes sizes;
    struct group group;

    if (!group_read(state, request->graph, request->offer->nodes, request->offer->node_count, &group, &why))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s", why.text);
    sizes = sizes_of(request, &group);
    flops = flops_of(&group, &sizes, &rate);
    rate = sizes.depthwise
               ? rate * cpu_local_pace(speed).multiply
               : fmin(rate * cpu_reference_pace().multiply,
                      (group.kind == GROUP_PRODUCT ? MOST_PRODUCT_FLOPS : MOST_FLOPS) * cpu_local_pace(speed).multiply);
    if (group_is_reduced(state, &group))
        rate *= REDUCED_GAIN;
    if (flops < (group.kind == GROUP_PRODUCT ? PRODUCT_SHARED_FLOPS : SHARED_FLOPS) * sizes.padding ||
        group.kind == GROUP_DECONV || sizes.unfolded)
        threads = 1;
    reading = price_stream_ns(&memory, 4 * sizes.input, 4 * sizes.output, threads);
    if (group.constant[OPERAND_WEIGHTS])
        reading += price_weights_ns(&memory, width * sizes.weights, weights_of_graph(request->graph), threads);
    work = flops / rate + ROW_NS * sizes.rows;
    if (sizes.unfolded)
        work += UNFOLDED_NS * unfolded_elements(request, &group, &sizes) + GROUP_NS * (double)group.channel_groups;
    if (sizes.summed)
        work += sums_ns(request, &group, &sizes);
    work /= threads;
    out->ns = CALL_NS + (threads > 1 ? memory.team_ns : 0) + price_overlapped_ns(work, reading);
    if ((group.kind == GROUP_CONV && !sizes.unfolded) || group.kind == GROUP_DECONV) {
        out->ns += reorder_ns(&memory, 4 * sizes.input, 1) + reorder_ns(&memory, 4 * sizes.output, 1);
        if (!group.constant[OPERAND_WEIGHTS])
            out->ns += reorder_ns(&memory, 4 * sizes.weights, threads);
    }
    if (sizes.addend > 0)
        out->ns += reorder_ns(&memory, 4 * sizes.addend, threads);
    if (group.function.kind != dnnl_alg_kind_undef)
        out->ns += sizes.output / FUNCTION_PER_NS / threads;
    if (INLAY_HAS(out, local_ns))
        out->local_ns = out->ns;
    out->flops = flops / sizes.padding;
    out->bytes_read = (uint64_t)(4 * (sizes.input + sizes.weights + sizes.addend));
    out->bytes_written = (uint64_t)(4 * sizes.output);
    out->confidence = INLAY_CONFIDENCE_MODEL;
    return INLAY_OK;
}
