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
    rg_native native;
    const plane_set *set;
    const sg_kernel *kernel;
    kn_window w;     /* of the output, as a convolution that goes backwards would have it; in, out: channels */
    int64_t in, out; /* of a group */
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
    const struct spread *s;
    void *const *args;
} spread_call;

/* Rows of the input that reach rows [first, first + count) of the output: [*from, *end). */
static void rows_reaching(const kn_window *w, int64_t first, int64_t count, int64_t *from, int64_t *end)
{
    const int64_t low = first + w->begin[0] - (w->kernel[0] - 1) * w->dilation[0],
                  high = first + count - 1 + w->begin[0];

    *from = low > 0 ? (low + w->stride[0] - 1) / w->stride[0] : 0;
    *end = high < 0 ? 0 : high / w->stride[0] + 1;
    *end = *end < w->height ? *end : w->height;
    *from = *from < *end ? *from : *end;
}

/* Rows of n elements, `step` apart, as panels: otherwise each multiplication would read another page. */
static void pack(const plane_set *set, const float *x, int64_t step, int64_t rows, int64_t n, float *to)
{
    for (int64_t k = 0; k < rows; k++, x += step)
        set->put(x, n, to + k * SG_WIDTH, SG_WIDTH * rows, 0);
}

/* Row oh of one channel; made: of its first tap, for rows of the input from `from` on. */
static void one_row(const struct spread *s, const float *made, int64_t plane, int64_t from, int64_t end, int64_t oh,
                    float bias, float *line, float *y)
{
    const kn_window *w = &s->w;
    const uint32_t step = (uint32_t)w->stride[0];
    float *to = w->stride[1] == 1 ? y : line;

    s->set->fill(to, bias, w->stride[1] == 1 ? w->out_width : s->part * w->stride[1]);
    for (int64_t k = 0; k < w->kernel[0]; k++) {
        const int64_t at = oh + w->begin[0] - k * w->dilation[0];
        const uint32_t row = (uint32_t)(at > 0 ? at : 0) / step;
        const float *x = made + k * w->kernel[1] * plane + ((int64_t)row - from) * w->width;

        if (at < 0 || row * step != (uint32_t)at || row < from || row >= end)
            continue;
        for (int64_t c = 0; c < w->kernel[1]; c++)
            s->set->add(x + c * plane + s->taps[c].from, to + s->taps[c].to, s->taps[c].n);
    }
    if (w->stride[1] > 1)
        s->set->join(line, s->part, w->stride[1], y, w->out_width);
    transposed_end(&s->ending, s->kernel, y, w->out_width);
}

/* Units: channels of a group, of some rows of an image. */
static inlay_status spread_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const spread_call *call = user;
    const struct spread *s = call->s;
    const kn_window *w = &s->w;
    const int64_t taps = w->kernel[0] * w->kernel[1], pixels = w->height * w->width,
                  places = w->out_height * w->out_width;
    float *made = (float *)call->args[s->made] + worker % s->workers * (s->made_floats + s->packed_floats);
    float *packed = made + s->made_floats, line[LINE_FLOATS];
    int64_t there = -1;

    for (int64_t u = begin; u < end; u++) {
        const int64_t chunk = u % s->chunks, block = u / s->chunks % s->blocks, both = u / s->chunks / s->blocks;
        const int64_t group = both % w->group, image = both / w->group;
        const int64_t first = block * s->rows, rows = w->out_height - first < s->rows ? w->out_height - first : s->rows;
        const int64_t channel = chunk * s->channels;
        const int64_t channels = s->out - channel < s->channels ? s->out - channel : s->channels;
        int64_t from, past, plane;

        rows_reaching(w, first, rows, &from, &past);
        plane = (past - from) * w->width;
        if (plane > 0 && u / s->chunks != there)
            pack(s->set,
                 (const float *)call->args[ARG_X] + (image * w->group + group) * s->in * pixels + from * w->width,
                 pixels, s->in, plane, packed);
        there = u / s->chunks;
        if (plane > 0) {
            const sg_job job = { .kernel = s->kernel,
                                 .m = channels * taps,
                                 .n = plane,
                                 .k = s->in,
                                 .chain = s->chain,
                                 .a = (const float *)call->args[ARG_W] + (group * s->out + channel) * taps * s->in,
                                 .a_row = s->in,
                                 .b = packed,
                                 .width = SG_WIDTH,
                                 .b_panel = SG_WIDTH * s->in,
                                 .b_step = SG_WIDTH,
                                 .c = made,
                                 .c_row = plane };

            sg_run(&job, 0, sg_units(&job));
        }
        for (int64_t c = 0; c < channels; c++) {
            const int64_t all = group * s->out + channel + c;
            const float bias = s->biased ? ((const float *)call->args[ARG_BIAS])[all] : 0;
            float *y = (float *)call->args[ARG_Y] + (image * w->group * s->out + all) * places;

            for (int64_t oh = first; oh < first + rows; oh++)
                one_row(s, made + c * taps * plane, plane, from, past, oh, bias, line, y + oh * w->out_width);
        }
    }
    return INLAY_OK;
}

static inlay_status run_spread(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct spread *s = (const struct spread *)(const void *)native;
    spread_call call = { s, args };
    const int64_t units = s->w.images * s->w.group * s->blocks * s->chunks;

    if (threads <= 1 || units < 2 || s->w.flops < 200000)
        return spread_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, spread_units, &call);
}

/* ------------------------------------------------------------------ lowering */

/* Rows and channels of a unit, so that what it makes stays in the second-level cache; false: one row has no room. */
static bool cut(struct spread *s)
{
    const kn_window *w = &s->w;
    const int64_t taps = w->kernel[0] * w->kernel[1], all = w->out_height;
    int64_t plane;

    s->channels = s->out;
    s->rows = all;
    for (;;) {
        const int64_t reaching = (s->rows - 1 + (w->kernel[0] - 1) * w->dilation[0]) / w->stride[0] + 1;

        plane = (reaching < w->height ? reaching : w->height) * w->width;
        s->made_floats = s->channels * taps * plane;
        s->packed_floats = s->in * ((plane + SG_WIDTH - 1) / SG_WIDTH * SG_WIDTH);
        if (s->made_floats + s->packed_floats <= UNIT_FLOATS)
            break;
        /* few rows are made twice for neighbours' sake, few channels read what is packed again */
        if (s->rows > 8 * w->stride[0] || (s->rows > 1 && s->channels * taps <= 4 * SG_ROWS))
            /* NOLINTNEXTLINE(bugprone-branch-clone): asked in this order */
            s->rows = (s->rows + 1) / 2;
        else if (s->channels > 1)
            s->channels = (s->channels + 1) / 2;
        else if (s->rows > 1)
            s->rows = (s->rows + 1) / 2;
        else
            return false;
    }
    s->blocks = (all + s->rows - 1) / s->rows;
    s->chunks = (s->out + s->channels - 1) / s->channels;
    return true;
}

/* Where taps along a row go. */
static void find_taps(struct spread *s)
{
    const kn_window *w = &s->w;

    s->part = (w->out_width + w->stride[1] - 1) / w->stride[1];
    for (int64_t k = 0; k < w->kernel[1]; k++) {
        const int64_t shift = k * w->dilation[1] - w->begin[1]; /* place i goes to i * stride + shift */
        const int64_t from = shift < 0 ? (-shift + w->stride[1] - 1) / w->stride[1] : 0;
        const int64_t to = from * w->stride[1] + shift;
        int64_t n = to < w->out_width ? (w->out_width - 1 - to) / w->stride[1] + 1 : 0;

        n = n < w->width - from ? n : w->width - from;
        s->taps[k] = (spread_tap){ from, to % w->stride[1] * s->part + to / w->stride[1], n > 0 ? n : 0 };
    }
}

static bool measure(const rg_build *b, struct spread *s)
{
    const rg_op *op = b->op;
    const int64_t *x = b->dims[op->in[0]], *y = b->dims[op->out[0]];
    int64_t begins[2], ends[2];
    kn_window *w = &s->w;
    const uint32_t o = 2 - op->window.spatial;

    if (op->window.spatial > 2)
        return false;
    rg_deconvolution_pads(op, x + 2, y + 2, begins, ends);
    *w = (kn_window){ .images = x[0],
                      .in = x[1],
                      .out = y[1],
                      .group = op->window.group,
                      .height = 1,
                      .out_height = 1,
                      .width = x[1 + op->window.spatial],
                      .out_width = y[1 + op->window.spatial],
                      .kernel = { 1, 1 },
                      .stride = { 1, 1 },
                      .dilation = { 1, 1 } };
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        w->kernel[o + i] = op->window.kernel[i];
        w->stride[o + i] = op->window.strides[i];
        w->dilation[o + i] = op->window.dilations[i];
        w->begin[o + i] = begins[i];
    }
    if (op->window.spatial == 2) {
        w->height = x[2];
        w->out_height = y[2];
    }
    if (w->out_height > INT32_MAX / 2 || w->kernel[0] * w->dilation[0] > INT32_MAX / 2 || w->stride[0] > INT32_MAX / 2)
        return false;
    s->in = w->in / w->group;
    s->out = w->out / w->group;
    w->flops = 2.0 * (double)rg_count(b, op->in[0]) * (double)(s->out * w->kernel[0] * w->kernel[1]);
    return w->kernel[0] * w->kernel[1] <= MOST_TAPS && w->out_width + w->stride[1] <= LINE_FLOATS;
}

/* Does the input lie row by row, and does the result leave the region? Groups of one channel need no product. */
static bool fits(const rg_build *b, const rg_group *group, const rg_place *x)
{
    const rg_op *op = b->op;

    return b->state->sgemm != NULL && rg_md_is_plain(&x->md) && !rg_md_is_image(&x->md) && x->md.data_type == DN_F32 &&
           b->c->values[group->out].uses == 0 && op->window.group < b->dims[op->in[0]][1] &&
           rg_count(b, op->in[0]) > 0 && rg_count(b, op->out[0]) > 0;
}

inlay_status transposed_lower_planes(rg_build *b, const rg_group *group, bool *out_done)
{
    const rg_op *op = b->op;
    struct spread s = { .native.run = run_spread, .set = KERNEL_BEST(planes), .kernel = b->state->sgemm };
    uint32_t count = ARG_BIAS, taken,
             bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias;
    const rg_place *places[ARG_BIAS + 2];
    rg_place x, w, y, bias, made;
    inlay_status status;
    int64_t floats;
    rg_md md, plain;

    *out_done = false;
    INLAY_TRY(rg_read(b, op->in[0], &x));
    if (!fits(b, group, &x) || !measure(b, &s) || !cut(&s))
        return INLAY_OK;
    find_taps(&s);
    s.chain = sg_chain(s.in, b->state->strict);
    s.workers = b->instance->threads > 0 ? b->instance->threads : 1;
    {
        const int64_t taps = s.w.kernel[0] * s.w.kernel[1], dims[] = { s.w.group, s.out * taps, s.in };

        rg_md_strides(&md, 3, dims, (const int64_t[]){ s.in * s.out * taps, 1, s.out * taps });
        rg_md_plain(&plain, 3, dims);
        INLAY_TRY(rg_read_constant(b, op->in[1], &md, &plain, &w));
    }
    taken = transposed_take(group, &s.ending);
    rg_md_plain(&md, b->ranks[op->out[0]], b->dims[op->out[0]]);
    INLAY_TRY(rg_made_place(b, group, taken, &md, &y));
    places[ARG_X] = &x;
    places[ARG_W] = &w;
    places[ARG_Y] = &y;
    s.biased = bias_value != INLAY_NONE;
    if (s.biased) {
        INLAY_TRY(rg_read_floats(b, bias_value, s.w.out, &bias));
        places[count++] = &bias;
    }
    floats = (s.made_floats + s.packed_floats) * s.workers;
    INLAY_TRY(rg_new_floats(b, floats, &made));
    s.made = count;
    places[count++] = &made;
    *out_done = true;
    INLAY_TRY(rg_emit_step(b, &s.native, sizeof s, places, count));
    status = rg_finish(b, group, taken, &y, true);
done:
    return status;
}
