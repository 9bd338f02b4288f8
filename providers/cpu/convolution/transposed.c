/* ConvTranspose-1..22 as a product and a sum: the product of every place of the input with the weights of every tap,
 * and for each place of the output the sum of what falls there. oneDNN's own goes backwards through a convolution,
 * whose kernels fill blocks of 16 channels, do functions behind it element by element, and sum in an order that depends
 * on the number of threads.
 *
 *     wide    channels last: a product for each tap and group, and sums of vectors of channels
 *     thin    a few output channels: one product for all taps, and sums along rows of the image
 *     alone   one channel a group: no product, taps are multiplied where they are added */
#include "convolution/sum_loops.h"
#include "convolution/transposed.h"
#include "convolution/window.h"

enum { SPATIAL = 3, WIDE_CHANNELS = 8, MAX_TERMS = 64 };

/* ------------------------------------------------------------------ reading */

static bool parse(const kit_node *node, rg_op *op, kit_refusal *why)
{
    uint32_t given = 0;

    if (!rg_parse_deconvolution(node, op, why))
        return false;
    for (uint32_t i = 0; i < op->window.spatial; i++)
        if (op->window.output_padding[i] >= op->window.strides[i] && op->window.output_padding[i] > 0)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "output_padding of a stride or more");
    op->window.sized = kit_attr_ints(node->info, "output_shape", &given) != NULL && given > 0;
    return true;
}

/* ------------------------------------------------------------------ which taps fall where */

/* Along one axis: the places of the input, and their taps, that reach place o of the output: pairs [first[o],
 * first[o + 1]). */
struct reach {
    int64_t *first; /* [out + 1] */
    int32_t *in, *tap;
    int64_t size, out, kernel, most; /* of the input, of the output; most pairs of one place */
};

struct sums {
    rg_native native;
    struct reach axes[SPATIAL];            /* ones in front */
    int64_t batch, channels, taps, places; /* places of an input image */
    int64_t strides[SPATIAL], dilations[SPATIAL], begins[SPATIAL];
    bool thin, biased, weighted;
    transposed_ending ending;
    const struct sg_kernel *kernel;
};

/* Bytes of the pairs of an axis: at most one for each tap of each place. */
static uint64_t reach_bytes(const struct reach *r)
{
    return ((uint64_t)r->out + 1) * sizeof(int64_t) + 2 * (uint64_t)r->most * sizeof(int32_t) * (uint64_t)r->out;
}

static char *reach_fill(struct reach *r, int64_t stride, int64_t dilation, int64_t begin, char *memory)
{
    int64_t count = 0, most = 0;

    r->first = (int64_t *)(void *)memory;
    r->in = (int32_t *)(r->first + r->out + 1);
    r->tap = r->in + r->most * r->out;
    for (int64_t o = 0; o < r->out; o++) {
        r->first[o] = count;
        for (int64_t k = 0; k < r->kernel; k++) {
            int64_t at = o + begin - k * dilation;

            if (at < 0 || at % stride != 0 || at / stride >= r->size)
                continue;
            r->in[count] = (int32_t)(at / stride);
            r->tap[count++] = (int32_t)k;
        }
        most = count - r->first[o] > most ? count - r->first[o] : most;
    }
    r->first[r->out] = count;
    memory = (char *)(r->tap + r->most * r->out);
    r->most = most;
    return memory;
}

/* ------------------------------------------------------------------ sums of vectors */

struct call {
    const struct sums *s;
    const float *from, *weights, *bias; /* weights: [taps][channels], of single channels */
    float *y;
};

uint32_t transposed_take(const rg_group *group, transposed_ending *out)
{
    const rg_post *next = group->post_count > 0 ? &group->posts[0] : NULL;
    uint32_t taken = 0;

    *out = (transposed_ending){ 0 };
    if (next != NULL && next->kind == RG_POST_ELTWISE && next->eltwise.alg == DN_ELTWISE_RELU) {
        out->relu = true;
        out->slope = next->eltwise.alpha;
        taken = 1;
    }
    for (; taken < group->post_count && group->posts[taken].kind == RG_POST_ELTWISE &&
           rg_row_of(&group->posts[taken].eltwise) != NULL && out->behind_count < TRANSPOSED_MOST_BEHIND;
         taken++)
        out->behind[out->behind_count++] = group->posts[taken].eltwise;
    return taken;
}

void transposed_end(const transposed_ending *e, const struct sg_kernel *kernel, float *y, int64_t n)
{
    if (e->relu)
        KERNEL_BEST(sum_loops)->relu(y, n, e->slope);
    for (uint32_t i = 0; i < e->behind_count; i++)
        rg_apply(kernel, &e->behind[i], y, n);
}

/* Rows [begin, end) of places of the output, channels last. */
static inlay_status run_wide(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *c = user;
    const struct sums *s = c->s;
    const struct reach *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    const sum_loops *const loops = KERNEL_BEST(sum_loops);
    int64_t n = s->channels;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        int64_t oh = row % h->out, od = row / h->out % d->out, image = row / h->out / d->out;
        float *y = c->y + row * w->out * n;

        for (int64_t ow = 0; ow < w->out; ow++, y += n) {
            const float *rows[MAX_TERMS], *weights[MAX_TERMS];
            uint32_t count = 0;

            for (int64_t i = d->first[od]; i < d->first[od + 1]; i++) {
                for (int64_t j = h->first[oh]; j < h->first[oh + 1]; j++) {
                    for (int64_t k = w->first[ow]; k < w->first[ow + 1]; k++) {
                        int64_t tap = ((int64_t)d->tap[i] * h->kernel + h->tap[j]) * w->kernel + w->tap[k];
                        int64_t at = ((int64_t)d->in[i] * h->size + h->in[j]) * w->size + w->in[k];

                        at += image * s->places;
                        rows[count] = c->from + (s->weighted ? at : tap * s->batch * s->places + at) * n;
                        weights[count++] = c->weights + tap * n;
                    }
                }
            }
            loops->add_rows(y, rows, s->weighted ? weights : NULL, count, c->bias, n);
        }
        transposed_end(&s->ending, s->kernel, y - w->out * n, w->out * n);
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ sums along rows */

/* y[i * stride] += x[i * step] */
static void add_strided(float *y, int64_t stride, const float *x, int64_t step, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i * stride] += x[i * step];
}

/* A row of one channel of the output, row-major: what falls into it of one row of the input and tap row. */
static void add_taps(const struct sums *s, float *y, const float *x, int64_t step)
{
    const struct reach *w = &s->axes[2];

    for (int64_t k = 0; k < w->kernel; k++) {
        int64_t shift = k * s->dilations[2] - s->begins[2]; /* place i goes to i * stride + shift */
        int64_t first = 0, last = w->size - 1;

        if (shift < 0)
            first = (-shift + s->strides[2] - 1) / s->strides[2];
        if (w->out - 1 - shift < last * s->strides[2])
            last = w->out - 1 - shift >= 0 ? (w->out - 1 - shift) / s->strides[2] : -1;
        if (last >= first)
            add_strided(y + first * s->strides[2] + shift, s->strides[2], x + first * step + k, step, last - first + 1);
    }
}

/* Rows [begin, end) of the output [batch, channels, ..]. */
static inlay_status run_thin(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *c = user;
    const struct sums *s = c->s;
    const struct reach *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    int64_t step = s->channels * s->taps;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        int64_t oh = row % h->out, od = row / h->out % d->out, channel = row / h->out / d->out % s->channels;
        const float *image = c->from + row / h->out / d->out / s->channels * s->places * step + channel * s->taps;
        float *y = c->y + row * w->out;

        for (int64_t ow = 0; ow < w->out; ow++)
            y[ow] = c->bias != NULL ? c->bias[channel] : 0;
        for (int64_t i = d->first[od]; i < d->first[od + 1]; i++)
            for (int64_t j = h->first[oh]; j < h->first[oh + 1]; j++)
                add_taps(s, y,
                         image + ((int64_t)d->in[i] * h->size + h->in[j]) * w->size * step +
                             ((int64_t)d->tap[i] * h->kernel + h->tap[j]) * w->kernel,
                         step);
        transposed_end(&s->ending, s->kernel, y, w->out);
    }
    return INLAY_OK;
}

static inlay_status run_sums(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct sums *s = (const struct sums *)(const void *)native;
    const bool thin = s->thin;
    uint32_t next = 2;
    struct call c = { .s = s, .from = args[0], .y = args[1] };
    int64_t rows = s->batch * s->axes[0].out * s->axes[1].out * (thin ? s->channels : 1);
    int64_t row = s->axes[2].out * (thin ? 1 : s->channels) * (s->axes[2].most > 0 ? s->axes[2].most : 1);
    int64_t grain = 16384 / (row + 1) + 1;

    if (s->biased)
        c.bias = args[next++];
    if (s->weighted)
        c.weights = args[next];
    if (threads <= 1 || rows <= grain)
        return thin ? run_thin(&c, 0, rows, 0) : run_wide(&c, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, thin ? run_thin : run_wide, &c);
}

/* ------------------------------------------------------------------ lowering */

/* The sums for the op being lowered, without flags; NULL and INLAY_UNSUPPORTED: too many terms for a place. */
static inlay_status make_sums(const rg_build *b, struct sums **out)
{
    const rg_op *op = b->op;
    const int64_t *x = b->dims[op->in[0]], *y = b->dims[op->out[0]];
    int64_t begins[SPATIAL], ends[SPATIAL], terms = 1;
    uint32_t front = SPATIAL - op->window.spatial;
    struct sums s = { .native.run = run_sums, .batch = y[0], .channels = y[1], .taps = 1, .places = 1 };
    uint64_t bytes = 0;
    char *memory;

    *out = NULL;
    rg_deconvolution_pads(op, x + 2, y + 2, begins, ends);
    for (uint32_t i = 0; i < SPATIAL; i++) {
        struct reach *r = &s.axes[i];
        bool real = i >= front;
        uint32_t d = real ? i - front : 0;

        *r = (struct reach){ .size = real ? x[2 + d] : 1,
                             .out = real ? y[2 + d] : 1,
                             .kernel = real ? op->window.kernel[d] : 1 };
        s.strides[i] = real ? op->window.strides[d] : 1;
        s.dilations[i] = real ? op->window.dilations[d] : 1;
        s.begins[i] = real ? begins[d] : 0;
        s.places *= r->size;
        s.taps *= r->kernel;
        /* Taps a multiple of the stride apart fall on the same place: with a common divisor there are more. */
        r->most = r->kernel;
        if (s.dilations[i] == 1)
            r->most = (r->kernel + s.strides[i] - 1) / s.strides[i];
        terms *= r->most;
        if (r->size > INT32_MAX || r->out > INT32_MAX || terms > MAX_TERMS)
            return INLAY_UNSUPPORTED;
        bytes += reach_bytes(r);
    }
    *out = malloc(sizeof s + bytes);
    if (*out == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for the sums of node '%s'", op->name);
    memory = (char *)(*out + 1);
    for (uint32_t i = 0; i < SPATIAL; i++)
        memory = reach_fill(&s.axes[i], s.strides[i], s.dilations[i], s.begins[i], memory);
    **out = s;
    return INLAY_OK;
}

/* Rows of x by each of some matrices [taps][groups][k, n], which are put so from where they lie in the weights. */
static inlay_status emit_product(rg_build *b, const rg_place *x, int64_t m, const int64_t *w_dims, const rg_md *w_plain,
                                 const rg_md *y_md, rg_place *out)
{
    rg_md w_md;
    rg_place w;
    inlay_status status;

    rg_md_plain(&w_md, 4, w_dims);
    INLAY_TRY(rg_read_constant(b, b->op->in[1], w_plain, &w_md, &w));
    INLAY_TRY(rg_new_place(b, y_md, out));
    status = rg_emit_cut(b, x, &w, w_dims[0], w_dims[1], m, w_dims[2], w_dims[3], out);
done:
    return status;
}

/* [taps, places, channels] or, thin, [places, channels * taps]. */
static inlay_status multiply(rg_build *b, const struct sums *s, const rg_place *x, rg_place *out)
{
    const int64_t groups = b->op->window.group, in = b->dims[b->op->in[0]][1] / groups, m = s->batch * s->places;
    const int64_t o = s->channels / groups, t = s->taps, thin[] = { 1, 1, in, o * t }, wide[] = { t, groups, in, o };
    rg_md w_plain, y_md;

    if (s->thin) {
        rg_md_plain(&w_plain, 4, thin);
        rg_md_plain(&y_md, 2, (const int64_t[]){ m, o * t });
        return emit_product(b, x, m, thin, &w_plain, &y_md, out);
    }
    rg_md_strides(&w_plain, 4, wide, (const int64_t[]){ 1, in * o * t, o * t, t });
    rg_md_plain(&y_md, 3, (const int64_t[]){ t, m, s->channels });
    return emit_product(b, x, m, wide, &w_plain, &y_md, out);
}

/* The group's bias: input 2, or what is added right behind. */
static inlay_status add_bias(rg_build *b, const rg_group *group, const rg_place **places, rg_place *bias,
                             uint32_t *count, bool *out_biased)
{
    uint32_t value = b->op->in_count > 2 && b->op->in[2] != INLAY_NONE ? b->op->in[2] : group->bias;
    inlay_status status;

    *out_biased = value != INLAY_NONE;
    if (value == INLAY_NONE)
        return INLAY_OK;
    status = rg_read_floats(b, value, b->dims[b->op->out[0]][1], bias);
    places[(*count)++] = bias;
    return status;
}

static inlay_status lower_sums(rg_build *b, const rg_group *group, struct sums **io)
{
    const rg_op *op = b->op;
    uint32_t y_value = op->out[0], rank = b->ranks[y_value], count = 2, taken;
    const rg_place *places[4];
    rg_place x, from, y, bias, weights;
    struct sums *s = *io;
    inlay_status status;
    rg_md md;

    s->weighted = op->window.group > 1 && op->window.group == b->dims[op->in[0]][1] && op->window.group == s->channels;
    s->thin = op->window.group == 1 && s->channels < WIDE_CHANNELS;
    rg_md_channels_last(&md, rank, b->dims[op->in[0]]);
    INLAY_TRY(rg_read_as(b, op->in[0], &md, &x));
    from = x;
    if (!s->weighted)
        INLAY_TRY(multiply(b, s, &x, &from));
    if (!s->thin)
        rg_md_channels_last(&md, rank, b->dims[y_value]);
    else
        rg_md_plain(&md, rank, b->dims[y_value]);
    s->kernel = b->state->sgemm;
    taken = transposed_take(group, &s->ending);
    INLAY_TRY(rg_made_place(b, group, taken, &md, &y));
    places[0] = &from;
    places[1] = &y;
    INLAY_TRY(add_bias(b, group, places, &bias, &count, &s->biased));
    if (s->weighted) {
        const int64_t w[] = { s->channels, s->taps };
        rg_md w_plain, w_md;

        rg_md_plain(&w_plain, 2, w);
        rg_md_strides(&w_md, 2, w, (const int64_t[]){ 1, s->channels });
        INLAY_TRY(rg_read_constant(b, op->in[1], &w_plain, &w_md, &weights));
        places[count++] = &weights;
    }
    *io = NULL; /* the step's, or freed */
    INLAY_TRY(rg_emit_native(b, &s->native, places, count));
    status = rg_finish(b, group, taken, &y, true);
done:
    return status;
}

static inlay_status lower(rg_build *b, const rg_group *group)
{
    bool done = false;
    struct sums *s = NULL;
    inlay_status status = transposed_lower_planes(b, group, &done);

    if (status != INLAY_OK || done)
        return status;
    status = make_sums(b, &s);
    if (status == INLAY_UNSUPPORTED)
        return rg_lower_deconvolution(b, group);
    if (status == INLAY_OK)
        status = lower_sums(b, group, &s);
    free(s);
    return status;
}

const rg_family rg_conv_transpose = { "transposed convolution", parse, lower };
