/* ConvTranspose-1..22 of row-major images, in one or two dimensions, where no consumer wants channels-last. A unit of
 * work computes some rows of some output channels: a GEMM multiplies the weights of all taps by the input pixels that
 * contribute to those rows, and then each row is the sum of the products that fall on it. For a stride s, output
 * columns are sorted by their index modulo s while they are summed, then interleaved. */
#include "cpu/choice/kernels.h"
#include "cpu/convolution/planes.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/matrix/sgemm.h"
#include "cpu/convolution/transposed.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(transposed_lower_planes);

enum {
    ARG_X,
    ARG_W,
    ARG_Y,
    ARG_BIAS,
    PRODUCT_FLOATS = 64 * 1024,
    PACKED_FLOATS = 128 * 1024,
    LINE_FLOATS = 8192,
    MAX_TAPS = 64,
    PACKED_ROWS = 2 * SGEMM_ROWS /* with fewer rows of weights, packing takes longer than it saves */
};

typedef struct transposed_plan {
    cpu_native native;
    const plane_set *set;
    const sgemm_kernel *kernel;
    kernel_conv_shape window; /* height and width: of the input; in, out: channels */
    int64_t in, out;          /* channels of a group */
    int64_t chain;
    /* output rows in a unit, channels of a group in a unit; units of an image, of a group */
    int64_t rows, channels, blocks, chunks;
    int64_t product_floats, packed_floats;
    uint32_t workers, scratch; /* scratch: number of the argument */
    bool biased, in_place;     /* in_place: the input is not packed */
    transposed_epilogue epilogue;
    int64_t part; /* output columns of one residue modulo the stride */
    plane_tap taps[MAX_TAPS];
} transposed_plan;

typedef struct transposed_call {
    const transposed_plan *plan;
    void *const *args;
} transposed_call;

/* Input rows that contribute to output rows [first, first + count): [*from, *end). */
static void contributing_rows(const kernel_conv_shape *window, int64_t first, int64_t count, int64_t *from,
                              int64_t *end)
{
    const int64_t low = first + window->begin[0] - (window->kernel[0] - 1) * window->dilation[0],
                  high = first + count - 1 + window->begin[0];

    *from = low > 0 ? (low + window->stride[0] - 1) / window->stride[0] : 0;
    *end = high < 0 ? 0 : high / window->stride[0] + 1;
    *end = *end < window->height ? *end : window->height;
    *from = *from < *end ? *from : *end;
}

/* Packs rows of n elements, `step` apart, into panels: otherwise each multiplication would read another memory page. */
static void pack(const plane_set *set, const float *input, int64_t step, int64_t rows, int64_t n, float *to)
{
    for (int64_t row = 0; row < rows; row++, input += step)
        set->put(input, n, to + row * SGEMM_WIDTH, SGEMM_WIDTH * rows, 0);
}

/* Are there products that fall on output row `row_out`? */
static bool has_products(const kernel_conv_shape *window, int64_t row_out, int64_t from, int64_t end)
{
    for (int64_t tap = 0; tap < window->kernel[0]; tap++) {
        const int64_t at = row_out + window->begin[0] - tap * window->dilation[0];

        if (at % window->stride[0] == 0 && at / window->stride[0] >= from && at / window->stride[0] < end)
            return true;
    }
    return false;
}

/* Computes output row `row_out` of one channel. products: the products of its first tap, for input rows from `from` on;
 * the products of the next tap follow `plane` elements later. */
static void one_row(const transposed_plan *plan, const float *products, int64_t plane, int64_t from, int64_t end,
                    int64_t row_out, float bias, float *line, float *output)
{
    const kernel_conv_shape *window = &plan->window;
    const uint32_t step = (uint32_t)window->stride[0];
    const bool direct = window->stride[1] == 1 || !has_products(window, row_out, from, end);
    float *to = direct ? output : line;

    plan->set->fill(to, bias, direct ? window->out_width : plan->part * window->stride[1]);
    for (int64_t tap_row = 0; tap_row < window->kernel[0]; tap_row++) {
        const int64_t at = row_out + window->begin[0] - tap_row * window->dilation[0];
        const uint32_t row = (uint32_t)(at > 0 ? at : 0) / step;
        const float *input = products + tap_row * window->kernel[1] * plane + ((int64_t)row - from) * window->width;

        if (at < 0 || row * step != (uint32_t)at || row < from || row >= end)
            continue;
        plan->set->add(input, plane, plan->taps, window->kernel[1], to);
    }
    if (!direct)
        plan->set->join(line, plan->part, window->stride[1], output, window->out_width);
    transposed_apply_epilogue(&plan->epilogue, plan->kernel, output, window->out_width);
}

/* Units: channels of a group, for some rows of an image. */
static inlay_status transposed_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const transposed_call *call = user;
    const transposed_plan *plan = call->plan;
    const kernel_conv_shape *window = &plan->window;
    const int64_t taps = window->kernel[0] * window->kernel[1], pixels = window->height * window->width,
                  places = window->out_height * window->out_width;
    float *products =
        (float *)call->args[plan->scratch] + worker % plan->workers * (plan->product_floats + plan->packed_floats);
    float *packed = products + plan->product_floats, line[LINE_FLOATS];
    int64_t packed_block = -1;

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t chunk = unit % plan->chunks, block = unit / plan->chunks % plan->blocks,
                      both = unit / plan->chunks / plan->blocks;
        const int64_t group = both % window->group, image = both / window->group;
        const int64_t first = block * plan->rows,
                      rows = window->out_height - first < plan->rows ? window->out_height - first : plan->rows;
        const int64_t channel = chunk * plan->channels;
        const int64_t channels = plan->out - channel < plan->channels ? plan->out - channel : plan->channels;
        const float *input;
        int64_t from, end_row, plane;

        contributing_rows(window, first, rows, &from, &end_row);
        plane = (end_row - from) * window->width;
        input = (const float *)call->args[ARG_X] + (image * window->group + group) * plan->in * pixels +
                from * window->width;
        if (plane > 0 && !plan->in_place && unit / plan->chunks != packed_block)
            pack(plan->set, input, pixels, plan->in, plane, packed);
        packed_block = unit / plan->chunks;
        if (plane > 0) {
            const sgemm_job job = { .kernel = plan->kernel,
                                    .m = channels * taps,
                                    .n = plane,
                                    .k = plan->in,
                                    .chain = plan->chain,
                                    .a = (const float *)call->args[ARG_W] +
                                         (group * plan->out + channel) * taps * plan->in,
                                    .a_row = plan->in,
                                    .b = plan->in_place ? input : packed,
                                    .width = SGEMM_WIDTH,
                                    .b_panel = SGEMM_WIDTH * (plan->in_place ? 1 : plan->in),
                                    .b_step = plan->in_place ? pixels : SGEMM_WIDTH,
                                    .c = products,
                                    .c_row = plane };

            INLAY_CHECK(job.m * plane <= plan->product_floats);
            sgemm_run(&job, 0, sgemm_units(&job));
        }
        for (int64_t channel_in_unit = 0; channel_in_unit < channels; channel_in_unit++) {
            const int64_t channel_out = group * plan->out + channel + channel_in_unit;
            const float bias = plan->biased ? ((const float *)call->args[ARG_BIAS])[channel_out] : 0;
            float *output = (float *)call->args[ARG_Y] + (image * window->group * plan->out + channel_out) * places;

            for (int64_t row = first; row < first + rows; row++)
                one_row(plan, products + channel_in_unit * taps * plane, plane, from, end_row, row, bias, line,
                        output + row * window->out_width);
        }
    }
    return INLAY_OK;
}

static inlay_status run_transposed(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                   uint32_t threads)
{
    const transposed_plan *plan = (const transposed_plan *)(const void *)native;
    transposed_call call = { plan, args };
    const int64_t units = plan->window.images * plan->window.group * plan->blocks * plan->chunks;

    if (threads <= 1 || units < 2 || plan->window.flops < 200000)
        return transposed_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, transposed_units, &call);
}

/* Sets the sizes of units of `rows` output rows, with as many channels as fit; false: not even one does. */
static bool fit_unit(transposed_plan *plan, int64_t rows)
{
    const kernel_conv_shape *window = &plan->window;
    const int64_t taps = window->kernel[0] * window->kernel[1],
                  reaching = (rows - 1 + (window->kernel[0] - 1) * window->dilation[0]) / window->stride[0] + 1,
                  plane = (reaching < window->height ? reaching : window->height) * window->width;

    plan->rows = rows;
    plan->blocks = (window->out_height + rows - 1) / rows;
    plan->channels = plan->out;
    while (plan->channels > 1 && plan->channels * taps * plane > PRODUCT_FLOATS)
        plan->channels = (plan->channels + 1) / 2;
    plan->chunks = (plan->out + plan->channels - 1) / plan->channels;
    plan->product_floats = plan->channels * taps * plane;
    plan->in_place = plan->out * taps < PACKED_ROWS;
    plan->packed_floats = plan->in_place ? 0 : plan->in * ((plane + SGEMM_WIDTH - 1) / SGEMM_WIDTH * SGEMM_WIDTH);
    return plan->product_floats <= PRODUCT_FLOATS && plan->packed_floats <= PACKED_FLOATS;
}

/* Chooses rows and channels of a unit so that its buffers stay in the second-level cache; false: one row does not
 * fit. Fewer rows repeat products that neighbouring units need, too; few channels multiply with fewer rows of weights
 * than a kernel has registers for. */
static bool plan_units(transposed_plan *plan)
{
    const kernel_conv_shape *window = &plan->window;
    const int64_t taps = window->kernel[0] * window->kernel[1];
    double least = 0;
    int64_t best = 0;

    for (int64_t rows = window->out_height;; rows = (rows + 1) / 2) {
        if (fit_unit(plan, rows)) {
            const double most = 4.0 * SGEMM_ROWS, repeated = (double)(plan->blocks * plan->product_floats),
                         weights = (double)(plan->channels * taps);
            const double cost = repeated / weights * (1 + (weights < most ? 0.3 * (most / weights - 1) : 0));

            if (best == 0 || cost < least) {
                least = cost;
                best = rows;
            }
        }
        if (rows == 1)
            break;
    }
    return best > 0 && fit_unit(plan, best);
}

/* Sets the ranges of the taps along a row. */
static void find_taps(transposed_plan *plan)
{
    const kernel_conv_shape *window = &plan->window;

    plan->part = (window->out_width + window->stride[1] - 1) / window->stride[1];
    for (int64_t k = 0; k < window->kernel[1]; k++) {
        /* column i contributes to i * stride + shift */
        const int64_t shift = k * window->dilation[1] - window->begin[1];
        const int64_t from = shift < 0 ? (-shift + window->stride[1] - 1) / window->stride[1] : 0;
        const int64_t to = from * window->stride[1] + shift;
        int64_t n = to < window->out_width ? (window->out_width - 1 - to) / window->stride[1] + 1 : 0;

        n = n < window->width - from ? n : window->width - from;
        plan->taps[k] =
            (plane_tap){ from, to % window->stride[1] * plan->part + to / window->stride[1], n > 0 ? n : 0 };
    }
}

static bool describe(const cpu_build *build, transposed_plan *plan)
{
    const cpu_op *op = build->op;
    const int64_t *input = build->dims[op->in[0]], *output = build->dims[op->out[0]];
    int64_t begins[2], ends[2];
    kernel_conv_shape *window = &plan->window;
    const uint32_t first_axis = 2 - op->window.spatial;

    if (op->window.spatial > 2)
        return false;
    cpu_deconvolution_pads(op, input + 2, output + 2, begins, ends);
    *window = (kernel_conv_shape){ .images = input[0],
                                   .in = input[1],
                                   .out = output[1],
                                   .group = op->window.group,
                                   .height = 1,
                                   .out_height = 1,
                                   .width = input[1 + op->window.spatial],
                                   .out_width = output[1 + op->window.spatial],
                                   .kernel = { 1, 1 },
                                   .stride = { 1, 1 },
                                   .dilation = { 1, 1 } };
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        window->kernel[first_axis + i] = op->window.kernel[i];
        window->stride[first_axis + i] = op->window.strides[i];
        window->dilation[first_axis + i] = op->window.dilations[i];
        window->begin[first_axis + i] = begins[i];
    }
    if (op->window.spatial == 2) {
        window->height = input[2];
        window->out_height = output[2];
    }
    if (window->out_height > INT32_MAX / 2 || window->kernel[0] * window->dilation[0] > INT32_MAX / 2 ||
        window->stride[0] > INT32_MAX / 2)
        return false;
    plan->in = window->in / window->group;
    plan->out = window->out / window->group;
    window->flops =
        2.0 * (double)cpu_count(build, op->in[0]) * (double)(plan->out * window->kernel[0] * window->kernel[1]);
    return window->kernel[0] * window->kernel[1] <= MAX_TAPS && window->out_width + window->stride[1] <= LINE_FLOATS;
}

/* True if the input is row-major and the result leaves the region. Groups of one channel need no GEMM. */
static bool is_supported(const cpu_build *build, const cpu_group *group, const cpu_place *input)
{
    const cpu_op *op = build->op;

    return build->state->sgemm != NULL && layout_is_plain(&input->layout) && !layout_is_image(&input->layout) &&
           input->layout.type == ELEMENT_FLOAT && build->compiled->values[group->out].uses == 0 &&
           op->window.group < build->dims[op->in[0]][1] && cpu_count(build, op->in[0]) > 0 &&
           cpu_count(build, op->out[0]) > 0;
}

inlay_status transposed_lower_planes(cpu_build *build, const cpu_group *group, bool *out_done)
{
    const cpu_op *op = build->op;
    transposed_plan plan = { .native.run = run_transposed, .set = KERNEL_BEST(planes), .kernel = build->state->sgemm };
    uint32_t count = ARG_BIAS, fused_count,
             bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias;
    const cpu_place *places[ARG_BIAS + 2];
    cpu_place input, weights, output, bias, scratch;
    inlay_status status;
    int64_t floats;
    tensor_layout layout, plain;

    *out_done = false;
    INLAY_TRY(cpu_read(build, op->in[0], &input));
    if (!is_supported(build, group, &input) || !describe(build, &plan) || !plan_units(&plan))
        return INLAY_OK;
    find_taps(&plan);
    plan.chain = sgemm_chain(plan.in, build->state->strict);
    plan.workers = build->instance->threads > 0 ? build->instance->threads : 1;
    {
        const int64_t taps = plan.window.kernel[0] * plan.window.kernel[1],
                      dims[] = { plan.window.group, plan.out * taps, plan.in };

        layout_strides(&layout, 3, dims, (const int64_t[]){ plan.in * plan.out * taps, 1, plan.out * taps });
        layout_plain(&plain, 3, dims);
        INLAY_TRY(cpu_read_constant(build, op->in[1], &layout, &plain, &weights));
    }
    fused_count = transposed_fuse_posts(group, &plan.epilogue);
    layout_plain(&layout, build->ranks[op->out[0]], build->dims[op->out[0]]);
    INLAY_TRY(cpu_step_result_place(build, group, fused_count, &layout, &output));
    places[ARG_X] = &input;
    places[ARG_W] = &weights;
    places[ARG_Y] = &output;
    plan.biased = bias_value != INLAY_NONE;
    if (plan.biased) {
        INLAY_TRY(cpu_read_floats(build, bias_value, plan.window.out, &bias));
        places[count++] = &bias;
    }
    floats = (plan.product_floats + plan.packed_floats) * plan.workers;
    INLAY_TRY(cpu_new_floats(build, floats, &scratch));
    plan.scratch = count;
    places[count++] = &scratch;
    *out_done = true;
    INLAY_TRY(cpu_emit_step(build, &plan.native, sizeof plan, places, count));
    status = cpu_finish(build, group, fused_count, &output, true);
done:
    return status;
}
