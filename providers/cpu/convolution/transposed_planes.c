/* ConvTranspose-1..22 of images that lie row by row, in one or two dimensions, where nobody wants channels last: for
 * some rows of the output and some of its channels, the product of the weights of all their taps with the pixels that
 * reach those rows, as they lie, and for each row the sums of what falls into it. Columns of the output that are a
 * stride apart are summed side by side, then put between each other. */
#include "choice/kernels.h"
#include "convolution/planes.h"
#include "matrix/sgemm.h"
#include "convolution/transposed.h"
#include "convolution/window.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(transposed_lower_planes);

enum { ARG_X, ARG_W, ARG_Y, ARG_BIAS, UNIT_FLOATS = 96 * 1024, LINE_FLOATS = 8192, MOST_TAPS = 64 };

/* One tap along a row: places of the input from `from` on go to where they are summed from `to` on. */
typedef struct spread_tap {
    int64_t from, to, n;
} spread_tap;

struct spread {
    cpu_native native;
    const plane_set *set;
    const sgemm_kernel *kernel;
    kernel_conv_shape window; /* of the output, as a convolution that goes backwards would have it; in, out: channels */
    int64_t in, out;          /* of a group */
    int64_t chain;
    int64_t rows, channels, blocks, chunks; /* of the output in a unit, of a group; units of an image, of a group */
    int64_t made_floats, packed_floats;
    uint32_t workers, made;
    bool biased;
    transposed_ending ending;
    int64_t part; /* columns of the output that are a stride apart */
    spread_tap taps[MOST_TAPS];
};

typedef struct spread_call {
    const struct spread *spread;
    void *const *args;
} spread_call;

/* Rows of the input that reach rows [first, first + count) of the output: [*from, *end). */
static void rows_reaching(const kernel_conv_shape *window, int64_t first, int64_t count, int64_t *from, int64_t *end)
{
    const int64_t low = first + window->begin[0] - (window->kernel[0] - 1) * window->dilation[0],
                  high = first + count - 1 + window->begin[0];

    *from = low > 0 ? (low + window->stride[0] - 1) / window->stride[0] : 0;
    *end = high < 0 ? 0 : high / window->stride[0] + 1;
    *end = *end < window->height ? *end : window->height;
    *from = *from < *end ? *from : *end;
}

/* Rows of n elements, `step` apart, as panels: otherwise each multiplication would read another page. */
static void pack(const plane_set *set, const float *input, int64_t step, int64_t rows, int64_t n, float *to)
{
    for (int64_t k = 0; k < rows; k++, input += step)
        set->put(input, n, to + k * SGEMM_WIDTH, SGEMM_WIDTH * rows, 0);
}

/* Row oh of one channel; made: of its first tap, for rows of the input from `from` on. */
static void one_row(const struct spread *spread, const float *made, int64_t plane, int64_t from, int64_t end,
                    int64_t oh, float bias, float *line, float *output)
{
    const kernel_conv_shape *window = &spread->window;
    const uint32_t step = (uint32_t)window->stride[0];
    float *to = window->stride[1] == 1 ? output : line;

    spread->set->fill(to, bias, window->stride[1] == 1 ? window->out_width : spread->part * window->stride[1]);
    for (int64_t k = 0; k < window->kernel[0]; k++) {
        const int64_t at = oh + window->begin[0] - k * window->dilation[0];
        const uint32_t row = (uint32_t)(at > 0 ? at : 0) / step;
        const float *input = made + k * window->kernel[1] * plane + ((int64_t)row - from) * window->width;

        if (at < 0 || row * step != (uint32_t)at || row < from || row >= end)
            continue;
        for (int64_t c = 0; c < window->kernel[1]; c++)
            spread->set->add(input + c * plane + spread->taps[c].from, to + spread->taps[c].to, spread->taps[c].n);
    }
    if (window->stride[1] > 1)
        spread->set->join(line, spread->part, window->stride[1], output, window->out_width);
    transposed_end(&spread->ending, spread->kernel, output, window->out_width);
}

/* Units: channels of a group, of some rows of an image. */
static inlay_status spread_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const spread_call *call = user;
    const struct spread *spread = call->spread;
    const kernel_conv_shape *window = &spread->window;
    const int64_t taps = window->kernel[0] * window->kernel[1], pixels = window->height * window->width,
                  places = window->out_height * window->out_width;
    float *made =
        (float *)call->args[spread->made] + worker % spread->workers * (spread->made_floats + spread->packed_floats);
    float *packed = made + spread->made_floats, line[LINE_FLOATS];
    int64_t there = -1;

    for (int64_t u = begin; u < end; u++) {
        const int64_t chunk = u % spread->chunks, block = u / spread->chunks % spread->blocks,
                      both = u / spread->chunks / spread->blocks;
        const int64_t group = both % window->group, image = both / window->group;
        const int64_t first = block * spread->rows,
                      rows = window->out_height - first < spread->rows ? window->out_height - first : spread->rows;
        const int64_t channel = chunk * spread->channels;
        const int64_t channels = spread->out - channel < spread->channels ? spread->out - channel : spread->channels;
        int64_t from, past, plane;

        rows_reaching(window, first, rows, &from, &past);
        plane = (past - from) * window->width;
        if (plane > 0 && u / spread->chunks != there)
            pack(spread->set,
                 (const float *)call->args[ARG_X] + (image * window->group + group) * spread->in * pixels +
                     from * window->width,
                 pixels, spread->in, plane, packed);
        there = u / spread->chunks;
        if (plane > 0) {
            const sgemm_job job = { .kernel = spread->kernel,
                                    .m = channels * taps,
                                    .n = plane,
                                    .k = spread->in,
                                    .chain = spread->chain,
                                    .a = (const float *)call->args[ARG_W] +
                                         (group * spread->out + channel) * taps * spread->in,
                                    .a_row = spread->in,
                                    .b = packed,
                                    .width = SGEMM_WIDTH,
                                    .b_panel = SGEMM_WIDTH * spread->in,
                                    .b_step = SGEMM_WIDTH,
                                    .c = made,
                                    .c_row = plane };

            sgemm_run(&job, 0, sgemm_units(&job));
        }
        for (int64_t c = 0; c < channels; c++) {
            const int64_t all = group * spread->out + channel + c;
            const float bias = spread->biased ? ((const float *)call->args[ARG_BIAS])[all] : 0;
            float *output = (float *)call->args[ARG_Y] + (image * window->group * spread->out + all) * places;

            for (int64_t oh = first; oh < first + rows; oh++)
                one_row(spread, made + c * taps * plane, plane, from, past, oh, bias, line,
                        output + oh * window->out_width);
        }
    }
    return INLAY_OK;
}

static inlay_status run_spread(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct spread *spread = (const struct spread *)(const void *)native;
    spread_call call = { spread, args };
    const int64_t units = spread->window.images * spread->window.group * spread->blocks * spread->chunks;

    if (threads <= 1 || units < 2 || spread->window.flops < 200000)
        return spread_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, spread_units, &call);
}

/* ------------------------------------------------------------------ lowering */

/* Rows and channels of a unit, so that what it makes stays in the second-level cache; false: one row has no room. */
static bool cut(struct spread *spread)
{
    const kernel_conv_shape *window = &spread->window;
    const int64_t taps = window->kernel[0] * window->kernel[1], all = window->out_height;
    int64_t plane;

    spread->channels = spread->out;
    spread->rows = all;
    for (;;) {
        const int64_t reaching =
            (spread->rows - 1 + (window->kernel[0] - 1) * window->dilation[0]) / window->stride[0] + 1;

        plane = (reaching < window->height ? reaching : window->height) * window->width;
        spread->made_floats = spread->channels * taps * plane;
        spread->packed_floats = spread->in * ((plane + SGEMM_WIDTH - 1) / SGEMM_WIDTH * SGEMM_WIDTH);
        if (spread->made_floats + spread->packed_floats <= UNIT_FLOATS)
            break;
        /* few rows are made twice for neighbours' sake, few channels read what is packed again */
        if (spread->rows > 8 * window->stride[0] || (spread->rows > 1 && spread->channels * taps <= 4 * SGEMM_ROWS))
            /* NOLINTNEXTLINE(bugprone-branch-clone): asked in this order */
            spread->rows = (spread->rows + 1) / 2;
        else if (spread->channels > 1)
            spread->channels = (spread->channels + 1) / 2;
        else if (spread->rows > 1)
            spread->rows = (spread->rows + 1) / 2;
        else
            return false;
    }
    spread->blocks = (all + spread->rows - 1) / spread->rows;
    spread->chunks = (spread->out + spread->channels - 1) / spread->channels;
    return true;
}

/* Where taps along a row go. */
static void find_taps(struct spread *spread)
{
    const kernel_conv_shape *window = &spread->window;

    spread->part = (window->out_width + window->stride[1] - 1) / window->stride[1];
    for (int64_t k = 0; k < window->kernel[1]; k++) {
        const int64_t shift = k * window->dilation[1] - window->begin[1]; /* place i goes to i * stride + shift */
        const int64_t from = shift < 0 ? (-shift + window->stride[1] - 1) / window->stride[1] : 0;
        const int64_t to = from * window->stride[1] + shift;
        int64_t n = to < window->out_width ? (window->out_width - 1 - to) / window->stride[1] + 1 : 0;

        n = n < window->width - from ? n : window->width - from;
        spread->taps[k] =
            (spread_tap){ from, to % window->stride[1] * spread->part + to / window->stride[1], n > 0 ? n : 0 };
    }
}

static bool measure(const cpu_build *build, struct spread *spread)
{
    const cpu_op *op = build->op;
    const int64_t *input = build->dims[op->in[0]], *output = build->dims[op->out[0]];
    int64_t begins[2], ends[2];
    kernel_conv_shape *window = &spread->window;
    const uint32_t o = 2 - op->window.spatial;

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
        window->kernel[o + i] = op->window.kernel[i];
        window->stride[o + i] = op->window.strides[i];
        window->dilation[o + i] = op->window.dilations[i];
        window->begin[o + i] = begins[i];
    }
    if (op->window.spatial == 2) {
        window->height = input[2];
        window->out_height = output[2];
    }
    if (window->out_height > INT32_MAX / 2 || window->kernel[0] * window->dilation[0] > INT32_MAX / 2 ||
        window->stride[0] > INT32_MAX / 2)
        return false;
    spread->in = window->in / window->group;
    spread->out = window->out / window->group;
    window->flops =
        2.0 * (double)cpu_count(build, op->in[0]) * (double)(spread->out * window->kernel[0] * window->kernel[1]);
    return window->kernel[0] * window->kernel[1] <= MOST_TAPS && window->out_width + window->stride[1] <= LINE_FLOATS;
}

/* Does the input lie row by row, and does the result leave the region? Groups of one channel need no product. */
static bool fits(const cpu_build *build, const cpu_group *group, const cpu_place *input)
{
    const cpu_op *op = build->op;

    return build->state->sgemm != NULL && memory_desc_is_plain(&input->md) && !memory_desc_is_image(&input->md) &&
           input->md.data_type == LIBRARY_F32 && build->compiled->values[group->out].uses == 0 &&
           op->window.group < build->dims[op->in[0]][1] && cpu_count(build, op->in[0]) > 0 &&
           cpu_count(build, op->out[0]) > 0;
}

inlay_status transposed_lower_planes(cpu_build *build, const cpu_group *group, bool *out_done)
{
    const cpu_op *op = build->op;
    struct spread spread = { .native.run = run_spread, .set = KERNEL_BEST(planes), .kernel = build->state->sgemm };
    uint32_t count = ARG_BIAS, taken,
             bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias;
    const cpu_place *places[ARG_BIAS + 2];
    cpu_place input, weights, output, bias, made;
    inlay_status status;
    int64_t floats;
    memory_desc md, plain;

    *out_done = false;
    INLAY_TRY(cpu_read(build, op->in[0], &input));
    if (!fits(build, group, &input) || !measure(build, &spread) || !cut(&spread))
        return INLAY_OK;
    find_taps(&spread);
    spread.chain = sgemm_chain(spread.in, build->state->strict);
    spread.workers = build->instance->threads > 0 ? build->instance->threads : 1;
    {
        const int64_t taps = spread.window.kernel[0] * spread.window.kernel[1],
                      dims[] = { spread.window.group, spread.out * taps, spread.in };

        memory_desc_strides(&md, 3, dims, (const int64_t[]){ spread.in * spread.out * taps, 1, spread.out * taps });
        memory_desc_plain(&plain, 3, dims);
        INLAY_TRY(cpu_read_constant(build, op->in[1], &md, &plain, &weights));
    }
    taken = transposed_take(group, &spread.ending);
    memory_desc_plain(&md, build->ranks[op->out[0]], build->dims[op->out[0]]);
    INLAY_TRY(cpu_made_place(build, group, taken, &md, &output));
    places[ARG_X] = &input;
    places[ARG_W] = &weights;
    places[ARG_Y] = &output;
    spread.biased = bias_value != INLAY_NONE;
    if (spread.biased) {
        INLAY_TRY(cpu_read_floats(build, bias_value, spread.window.out, &bias));
        places[count++] = &bias;
    }
    floats = (spread.made_floats + spread.packed_floats) * spread.workers;
    INLAY_TRY(cpu_new_floats(build, floats, &made));
    spread.made = count;
    places[count++] = &made;
    *out_done = true;
    INLAY_TRY(cpu_emit_step(build, &spread.native, sizeof spread, places, count));
    status = cpu_finish(build, group, taken, &output, true);
done:
    return status;
}
