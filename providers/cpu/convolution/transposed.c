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

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    uint32_t given = 0;

    if (!cpu_parse_deconvolution(node, op, why))
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
    cpu_native native;
    struct reach axes[SPATIAL];            /* ones in front */
    int64_t batch, channels, taps, places; /* places of an input image */
    int64_t strides[SPATIAL], dilations[SPATIAL], begins[SPATIAL];
    bool thin, biased, weighted;
    transposed_ending ending;
    const struct sgemm_kernel *kernel;
};

/* Bytes of the pairs of an axis: at most one for each tap of each place. */
static uint64_t reach_bytes(const struct reach *reach)
{
    return ((uint64_t)reach->out + 1) * sizeof(int64_t) +
           2 * (uint64_t)reach->most * sizeof(int32_t) * (uint64_t)reach->out;
}

static char *reach_fill(struct reach *reach, int64_t stride, int64_t dilation, int64_t begin, char *memory)
{
    int64_t count = 0, most = 0;

    reach->first = (int64_t *)(void *)memory;
    reach->in = (int32_t *)(reach->first + reach->out + 1);
    reach->tap = reach->in + reach->most * reach->out;
    for (int64_t o = 0; o < reach->out; o++) {
        reach->first[o] = count;
        for (int64_t k = 0; k < reach->kernel; k++) {
            int64_t at = o + begin - k * dilation;

            if (at < 0 || at % stride != 0 || at / stride >= reach->size)
                continue;
            reach->in[count] = (int32_t)(at / stride);
            reach->tap[count++] = (int32_t)k;
        }
        most = count - reach->first[o] > most ? count - reach->first[o] : most;
    }
    reach->first[reach->out] = count;
    memory = (char *)(reach->tap + reach->most * reach->out);
    reach->most = most;
    return memory;
}

/* ------------------------------------------------------------------ sums of vectors */

struct call {
    const struct sums *sums;
    const float *from, *weights, *bias; /* weights: [taps][channels], of single channels */
    float *output;
};

uint32_t transposed_take(const cpu_group *group, transposed_ending *out)
{
    const cpu_post *next = group->post_count > 0 ? &group->posts[0] : NULL;
    uint32_t taken = 0;

    *out = (transposed_ending){ 0 };
    if (next != NULL && next->kind == CPU_POST_ELTWISE && next->eltwise.alg == LIBRARY_ELTWISE_RELU) {
        out->relu = true;
        out->slope = next->eltwise.alpha;
        taken = 1;
    }
    for (; taken < group->post_count && group->posts[taken].kind == CPU_POST_ELTWISE &&
           cpu_row_of(&group->posts[taken].eltwise) != NULL && out->behind_count < TRANSPOSED_MOST_BEHIND;
         taken++)
        out->behind[out->behind_count++] = group->posts[taken].eltwise;
    return taken;
}

void transposed_end(const transposed_ending *ending, const struct sgemm_kernel *kernel, float *output, int64_t n)
{
    if (ending->relu)
        KERNEL_BEST(sum_loops)->relu(output, n, ending->slope);
    for (uint32_t i = 0; i < ending->behind_count; i++)
        cpu_apply(kernel, &ending->behind[i], output, n);
}

/* Rows [begin, end) of places of the output, channels last. */
static inlay_status run_wide(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *call = user;
    const struct sums *sums = call->sums;
    const struct reach *reach = &sums->axes[0], *h = &sums->axes[1], *w = &sums->axes[2];
    const sum_loops *const loops = KERNEL_BEST(sum_loops);
    int64_t n = sums->channels;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        int64_t oh = row % h->out, od = row / h->out % reach->out, image = row / h->out / reach->out;
        float *output = call->output + row * w->out * n;

        for (int64_t ow = 0; ow < w->out; ow++, output += n) {
            const float *rows[MAX_TERMS], *weights[MAX_TERMS];
            uint32_t count = 0;

            for (int64_t i = reach->first[od]; i < reach->first[od + 1]; i++) {
                for (int64_t j = h->first[oh]; j < h->first[oh + 1]; j++) {
                    for (int64_t k = w->first[ow]; k < w->first[ow + 1]; k++) {
                        int64_t tap = ((int64_t)reach->tap[i] * h->kernel + h->tap[j]) * w->kernel + w->tap[k];
                        int64_t at = ((int64_t)reach->in[i] * h->size + h->in[j]) * w->size + w->in[k];

                        at += image * sums->places;
                        rows[count] = call->from + (sums->weighted ? at : tap * sums->batch * sums->places + at) * n;
                        weights[count++] = call->weights + tap * n;
                    }
                }
            }
            loops->add_rows(output, rows, sums->weighted ? weights : NULL, count, call->bias, n);
        }
        transposed_end(&sums->ending, sums->kernel, output - w->out * n, w->out * n);
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ sums along rows */

/* output[i * stride] += input[i * step] */
static void add_strided(float *output, int64_t stride, const float *input, int64_t step, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        output[i * stride] += input[i * step];
}

/* A row of one channel of the output, row-major: what falls into it of one row of the input and tap row. */
static void add_taps(const struct sums *sums, float *output, const float *input, int64_t step)
{
    const struct reach *reach = &sums->axes[2];

    for (int64_t k = 0; k < reach->kernel; k++) {
        int64_t shift = k * sums->dilations[2] - sums->begins[2]; /* place i goes to i * stride + shift */
        int64_t first = 0, last = reach->size - 1;

        if (shift < 0)
            first = (-shift + sums->strides[2] - 1) / sums->strides[2];
        if (reach->out - 1 - shift < last * sums->strides[2])
            last = reach->out - 1 - shift >= 0 ? (reach->out - 1 - shift) / sums->strides[2] : -1;
        if (last >= first)
            add_strided(output + first * sums->strides[2] + shift, sums->strides[2], input + first * step + k, step,
                        last - first + 1);
    }
}

/* Rows [begin, end) of the output [batch, channels, ..]. */
static inlay_status run_thin(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *call = user;
    const struct sums *sums = call->sums;
    const struct reach *reach = &sums->axes[0], *h = &sums->axes[1], *w = &sums->axes[2];
    int64_t step = sums->channels * sums->taps;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        int64_t oh = row % h->out, od = row / h->out % reach->out, channel = row / h->out / reach->out % sums->channels;
        const float *image =
            call->from + row / h->out / reach->out / sums->channels * sums->places * step + channel * sums->taps;
        float *output = call->output + row * w->out;

        for (int64_t ow = 0; ow < w->out; ow++)
            output[ow] = call->bias != NULL ? call->bias[channel] : 0;
        for (int64_t i = reach->first[od]; i < reach->first[od + 1]; i++)
            for (int64_t j = h->first[oh]; j < h->first[oh + 1]; j++)
                add_taps(sums, output,
                         image + ((int64_t)reach->in[i] * h->size + h->in[j]) * w->size * step +
                             ((int64_t)reach->tap[i] * h->kernel + h->tap[j]) * w->kernel,
                         step);
        transposed_end(&sums->ending, sums->kernel, output, w->out);
    }
    return INLAY_OK;
}

static inlay_status run_sums(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct sums *sums = (const struct sums *)(const void *)native;
    const bool thin = sums->thin;
    uint32_t next = 2;
    struct call call = { .sums = sums, .from = args[0], .output = args[1] };
    int64_t rows = sums->batch * sums->axes[0].out * sums->axes[1].out * (thin ? sums->channels : 1);
    int64_t row = sums->axes[2].out * (thin ? 1 : sums->channels) * (sums->axes[2].most > 0 ? sums->axes[2].most : 1);
    int64_t grain = 16384 / (row + 1) + 1;

    if (sums->biased)
        call.bias = args[next++];
    if (sums->weighted)
        call.weights = args[next];
    if (threads <= 1 || rows <= grain)
        return thin ? run_thin(&call, 0, rows, 0) : run_wide(&call, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, thin ? run_thin : run_wide, &call);
}

/* ------------------------------------------------------------------ lowering */

/* The sums for the op being lowered, without flags; NULL and INLAY_UNSUPPORTED: too many terms for a place. */
static inlay_status make_sums(const cpu_build *build, struct sums **out)
{
    const cpu_op *op = build->op;
    const int64_t *input = build->dims[op->in[0]], *output = build->dims[op->out[0]];
    int64_t begins[SPATIAL], ends[SPATIAL], terms = 1;
    uint32_t front = SPATIAL - op->window.spatial;
    struct sums sums = { .native.run = run_sums, .batch = output[0], .channels = output[1], .taps = 1, .places = 1 };
    uint64_t bytes = 0;
    char *memory;

    *out = NULL;
    cpu_deconvolution_pads(op, input + 2, output + 2, begins, ends);
    for (uint32_t i = 0; i < SPATIAL; i++) {
        struct reach *reach = &sums.axes[i];
        bool real = i >= front;
        uint32_t d = real ? i - front : 0;

        *reach = (struct reach){ .size = real ? input[2 + d] : 1,
                                 .out = real ? output[2 + d] : 1,
                                 .kernel = real ? op->window.kernel[d] : 1 };
        sums.strides[i] = real ? op->window.strides[d] : 1;
        sums.dilations[i] = real ? op->window.dilations[d] : 1;
        sums.begins[i] = real ? begins[d] : 0;
        sums.places *= reach->size;
        sums.taps *= reach->kernel;
        /* Taps a multiple of the stride apart fall on the same place: with a common divisor there are more. */
        reach->most = reach->kernel;
        if (sums.dilations[i] == 1)
            reach->most = (reach->kernel + sums.strides[i] - 1) / sums.strides[i];
        terms *= reach->most;
        if (reach->size > INT32_MAX || reach->out > INT32_MAX || terms > MAX_TERMS)
            return INLAY_UNSUPPORTED;
        bytes += reach_bytes(reach);
    }
    *out = malloc(sizeof sums + bytes);
    if (*out == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for the sums of node '%s'", op->name);
    memory = (char *)(*out + 1);
    for (uint32_t i = 0; i < SPATIAL; i++)
        memory = reach_fill(&sums.axes[i], sums.strides[i], sums.dilations[i], sums.begins[i], memory);
    **out = sums;
    return INLAY_OK;
}

/* Rows of input by each of some matrices [taps][groups][k, n], which are put so from where they lie in the weights. */
static inlay_status emit_product(cpu_build *build, const cpu_place *input, int64_t m, const int64_t *weights_dims,
                                 const memory_desc *w_plain, const memory_desc *y_md, cpu_place *out)
{
    memory_desc w_md;
    cpu_place weights;
    inlay_status status;

    memory_desc_plain(&w_md, 4, weights_dims);
    INLAY_TRY(cpu_read_constant(build, build->op->in[1], w_plain, &w_md, &weights));
    INLAY_TRY(cpu_new_place(build, y_md, out));
    status = cpu_emit_cut(build, input, &weights, weights_dims[0], weights_dims[1], m, weights_dims[2], weights_dims[3],
                          out);
done:
    return status;
}

/* [taps, places, channels] or, thin, [places, channels * taps]. */
static inlay_status multiply(cpu_build *build, const struct sums *sums, const cpu_place *input, cpu_place *out)
{
    const int64_t groups = build->op->window.group, in = build->dims[build->op->in[0]][1] / groups,
                  m = sums->batch * sums->places;
    const int64_t o = sums->channels / groups, t = sums->taps, thin[] = { 1, 1, in, o * t },
                  wide[] = { t, groups, in, o };
    memory_desc w_plain, y_md;

    if (sums->thin) {
        memory_desc_plain(&w_plain, 4, thin);
        memory_desc_plain(&y_md, 2, (const int64_t[]){ m, o * t });
        return emit_product(build, input, m, thin, &w_plain, &y_md, out);
    }
    memory_desc_strides(&w_plain, 4, wide, (const int64_t[]){ 1, in * o * t, o * t, t });
    memory_desc_plain(&y_md, 3, (const int64_t[]){ t, m, sums->channels });
    return emit_product(build, input, m, wide, &w_plain, &y_md, out);
}

/* The group's bias: input 2, or what is added right behind. */
static inlay_status add_bias(cpu_build *build, const cpu_group *group, const cpu_place **places, cpu_place *bias,
                             uint32_t *count, bool *out_biased)
{
    uint32_t value = build->op->in_count > 2 && build->op->in[2] != INLAY_NONE ? build->op->in[2] : group->bias;
    inlay_status status;

    *out_biased = value != INLAY_NONE;
    if (value == INLAY_NONE)
        return INLAY_OK;
    status = cpu_read_floats(build, value, build->dims[build->op->out[0]][1], bias);
    places[(*count)++] = bias;
    return status;
}

static inlay_status lower_sums(cpu_build *build, const cpu_group *group, struct sums **io)
{
    const cpu_op *op = build->op;
    uint32_t y_value = op->out[0], rank = build->ranks[y_value], count = 2, taken;
    const cpu_place *places[4];
    cpu_place input, from, output, bias, weights;
    struct sums *sums = *io;
    inlay_status status;
    memory_desc md;

    sums->weighted =
        op->window.group > 1 && op->window.group == build->dims[op->in[0]][1] && op->window.group == sums->channels;
    sums->thin = op->window.group == 1 && sums->channels < WIDE_CHANNELS;
    memory_desc_channels_last(&md, rank, build->dims[op->in[0]]);
    INLAY_TRY(cpu_read_as(build, op->in[0], &md, &input));
    from = input;
    if (!sums->weighted)
        INLAY_TRY(multiply(build, sums, &input, &from));
    if (!sums->thin)
        memory_desc_channels_last(&md, rank, build->dims[y_value]);
    else
        memory_desc_plain(&md, rank, build->dims[y_value]);
    sums->kernel = build->state->sgemm;
    taken = transposed_take(group, &sums->ending);
    INLAY_TRY(cpu_made_place(build, group, taken, &md, &output));
    places[0] = &from;
    places[1] = &output;
    INLAY_TRY(add_bias(build, group, places, &bias, &count, &sums->biased));
    if (sums->weighted) {
        const int64_t w[] = { sums->channels, sums->taps };
        memory_desc w_plain, w_md;

        memory_desc_plain(&w_plain, 2, w);
        memory_desc_strides(&w_md, 2, w, (const int64_t[]){ 1, sums->channels });
        INLAY_TRY(cpu_read_constant(build, op->in[1], &w_plain, &w_md, &weights));
        places[count++] = &weights;
    }
    *io = NULL; /* the step's, or freed */
    INLAY_TRY(cpu_emit_native(build, &sums->native, places, count));
    status = cpu_finish(build, group, taken, &output, true);
done:
    return status;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    bool done = false;
    struct sums *sums = NULL;
    inlay_status status = transposed_lower_planes(build, group, &done);

    if (status != INLAY_OK || done)
        return status;
    status = make_sums(build, &sums);
    if (status == INLAY_UNSUPPORTED)
        return cpu_lower_deconvolution(build, group);
    if (status == INLAY_OK)
        status = lower_sums(build, group, &sums);
    free(sums);
    return status;
}

const cpu_family cpu_conv_transpose = { "transposed convolution", parse, lower };
