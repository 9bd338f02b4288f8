/* ConvTranspose-1..22. Kernels that are a multiple of the stride run as convolutions (transposed_phases.c), others of
 * row-major images in transposed_planes.c, and the rest here as a GEMM and a sum (col2im): the products of each input
 * pixel with the weights of each tap, and for each output pixel the sum of the products that fall on it.
 *
 *     wide       channels-last: one GEMM for each tap and group, and sums of vectors of channels
 *     thin       a few output channels: one GEMM for all taps, and sums along rows of the image
 *     weighted   groups of one channel: no GEMM; products are computed during the sum */
#include "cpu/convolution/sum_loops.h"
#include "cpu/convolution/transposed.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/product/product.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"

enum { SPATIAL = 3, WIDE_CHANNELS = 8, MAX_TERMS = 64 };

/* ------------------------------------------------------------------ parsing */

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    uint32_t given = 0;

    if (!cpu_parse_window_op(node, op, why))
        return false;
    for (uint32_t i = 0; i < op->window.spatial; i++)
        if (op->window.output_padding[i] >= op->window.strides[i] && op->window.output_padding[i] > 0)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "output_padding must be less than the stride");
    op->window.sized = kit_attr_ints(node->info, "output_shape", &given) != NULL && given > 0;
    return true;
}

/* ------------------------------------------------------------------ terms of an output pixel */

/* Along one axis: the input positions and taps that contribute to output position o are terms [first[o], first[o +
 * 1]). */
typedef struct axis_terms {
    int64_t *first; /* [out + 1] */
    int32_t *in, *tap;
    int64_t size, out, kernel, max_terms; /* size of the input and the output; largest number of terms of a position */
} axis_terms;

struct sums {
    cpu_native native;
    axis_terms axes[SPATIAL];              /* unused axes of size 1 come first */
    int64_t batch, channels, taps, places; /* places: pixels of an input image */
    int64_t strides[SPATIAL], dilations[SPATIAL], begins[SPATIAL];
    bool thin, biased, weighted;
    transposed_epilogue epilogue;
    const struct sgemm_kernel *kernel;
};

/* Bytes of the terms of an axis: at most one term for each tap of each position. */
static uint64_t terms_bytes(const axis_terms *axis)
{
    return ((uint64_t)axis->out + 1) * sizeof(int64_t) +
           2 * (uint64_t)axis->max_terms * sizeof(int32_t) * (uint64_t)axis->out;
}

static char *terms_fill(axis_terms *axis, int64_t stride, int64_t dilation, int64_t begin, char *memory)
{
    int64_t count = 0, max_terms = 0;

    axis->first = (int64_t *)(void *)memory;
    axis->in = (int32_t *)(axis->first + axis->out + 1);
    axis->tap = axis->in + axis->max_terms * axis->out;
    for (int64_t output = 0; output < axis->out; output++) {
        axis->first[output] = count;
        for (int64_t tap = 0; tap < axis->kernel; tap++) {
            int64_t at = output + begin - tap * dilation;

            if (at < 0 || at % stride != 0 || at / stride >= axis->size)
                continue;
            axis->in[count] = (int32_t)(at / stride);
            axis->tap[count++] = (int32_t)tap;
        }
        max_terms = count - axis->first[output] > max_terms ? count - axis->first[output] : max_terms;
    }
    axis->first[axis->out] = count;
    memory = (char *)(axis->tap + axis->max_terms * axis->out);
    axis->max_terms = max_terms;
    return memory;
}

/* ------------------------------------------------------------------ sums of channel vectors */

typedef struct sum_call {
    const struct sums *sums;
    const float *from, *weights, *bias; /* weights: [taps][channels], of single channels */
    float *output;
} sum_call;

/* Computes output rows [begin, end), channels-last. */
static inlay_status run_wide(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const sum_call *call = user;
    const struct sums *sums = call->sums;
    const axis_terms *depth = &sums->axes[0], *height = &sums->axes[1], *width = &sums->axes[2];
    const sum_loops *const loops = KERNEL_BEST(sum_loops);
    int64_t channels = sums->channels;

    (void)worker;
    INLAY_CHECK(sums->axes[0].max_terms * sums->axes[1].max_terms * sums->axes[2].max_terms <= MAX_TERMS);
    for (int64_t row = begin; row < end; row++) {
        int64_t row_out = row % height->out, plane_out = row / height->out % depth->out,
                image = row / height->out / depth->out;
        float *output = call->output + row * width->out * channels;

        for (int64_t column = 0; column < width->out; column++, output += channels) {
            const float *rows[MAX_TERMS], *weights[MAX_TERMS];
            uint32_t count = 0;

            for (int64_t i = depth->first[plane_out]; i < depth->first[plane_out + 1]; i++) {
                for (int64_t j = height->first[row_out]; j < height->first[row_out + 1]; j++) {
                    for (int64_t k = width->first[column]; k < width->first[column + 1]; k++) {
                        int64_t tap =
                            ((int64_t)depth->tap[i] * height->kernel + height->tap[j]) * width->kernel + width->tap[k];
                        int64_t at =
                            ((int64_t)depth->in[i] * height->size + height->in[j]) * width->size + width->in[k];

                        at += image * sums->places;
                        rows[count] =
                            call->from + (sums->weighted ? at : tap * sums->batch * sums->places + at) * channels;
                        weights[count++] = call->weights + tap * channels;
                    }
                }
            }
            loops->add_rows(output, rows, sums->weighted ? weights : NULL, count, call->bias, channels);
        }
        transposed_apply_epilogue(&sums->epilogue, sums->kernel, output - width->out * channels, width->out * channels);
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

/* Adds the products of one input row and one row of taps to an output row of one channel, row-major. */
static void add_taps(const struct sums *sums, float *output, const float *input, int64_t step)
{
    const axis_terms *axis = &sums->axes[2];

    for (int64_t tap = 0; tap < axis->kernel; tap++) {
        int64_t shift = tap * sums->dilations[2] - sums->begins[2]; /* position i contributes to i * stride + shift */
        int64_t first = 0, last = axis->size - 1;

        if (shift < 0)
            first = (-shift + sums->strides[2] - 1) / sums->strides[2];
        if (axis->out - 1 - shift < last * sums->strides[2])
            last = axis->out - 1 - shift >= 0 ? (axis->out - 1 - shift) / sums->strides[2] : -1;
        if (last >= first)
            add_strided(output + first * sums->strides[2] + shift, sums->strides[2], input + first * step + tap, step,
                        last - first + 1);
    }
}

/* Computes rows [begin, end) of the output [batch, channels, ..]. */
static inlay_status run_thin(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const sum_call *call = user;
    const struct sums *sums = call->sums;
    const axis_terms *depth = &sums->axes[0], *height = &sums->axes[1], *width = &sums->axes[2];
    int64_t step = sums->channels * sums->taps;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        int64_t row_out = row % height->out, plane_out = row / height->out % depth->out,
                channel = row / height->out / depth->out % sums->channels;
        const float *image =
            call->from + row / height->out / depth->out / sums->channels * sums->places * step + channel * sums->taps;
        float *output = call->output + row * width->out;

        for (int64_t column = 0; column < width->out; column++)
            output[column] = call->bias != NULL ? call->bias[channel] : 0;
        for (int64_t i = depth->first[plane_out]; i < depth->first[plane_out + 1]; i++)
            for (int64_t j = height->first[row_out]; j < height->first[row_out + 1]; j++)
                add_taps(sums, output,
                         image + ((int64_t)depth->in[i] * height->size + height->in[j]) * width->size * step +
                             ((int64_t)depth->tap[i] * height->kernel + height->tap[j]) * width->kernel,
                         step);
        transposed_apply_epilogue(&sums->epilogue, sums->kernel, output, width->out);
    }
    return INLAY_OK;
}

static inlay_status run_sums(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct sums *sums = (const struct sums *)(const void *)native;
    const bool thin = sums->thin;
    uint32_t next = 2;
    sum_call call = { .sums = sums, .from = args[0], .output = args[1] };
    int64_t rows = sums->batch * sums->axes[0].out * sums->axes[1].out * (thin ? sums->channels : 1);
    int64_t row =
        sums->axes[2].out * (thin ? 1 : sums->channels) * (sums->axes[2].max_terms > 0 ? sums->axes[2].max_terms : 1);
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

/* Creates the step of the sums for the current op; the caller sets its flags. Returns INLAY_UNSUPPORTED and NULL if a
 * pixel has too many terms. */
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
        axis_terms *axis = &sums.axes[i];
        bool real = i >= front;
        uint32_t dim = real ? i - front : 0;

        *axis = (axis_terms){ .size = real ? input[2 + dim] : 1,
                              .out = real ? output[2 + dim] : 1,
                              .kernel = real ? op->window.kernel[dim] : 1 };
        sums.strides[i] = real ? op->window.strides[dim] : 1;
        sums.dilations[i] = real ? op->window.dilations[dim] : 1;
        sums.begins[i] = real ? begins[dim] : 0;
        sums.places *= axis->size;
        sums.taps *= axis->kernel;
        /* Taps whose distance is a multiple of the stride fall on the same position; a common divisor of dilation and
         * stride makes this more frequent. */
        axis->max_terms = axis->kernel;
        if (sums.dilations[i] == 1)
            axis->max_terms = (axis->kernel + sums.strides[i] - 1) / sums.strides[i];
        terms *= axis->max_terms;
        if (axis->size > INT32_MAX || axis->out > INT32_MAX || terms > MAX_TERMS)
            return INLAY_UNSUPPORTED;
        bytes += terms_bytes(axis);
    }
    *out = malloc(sizeof sums + bytes);
    if (*out == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for the sums of node '%s'", op->name);
    memory = (char *)(*out + 1);
    for (uint32_t i = 0; i < SPATIAL; i++)
        memory = terms_fill(&sums.axes[i], sums.strides[i], sums.dilations[i], sums.begins[i], memory);
    **out = sums;
    return INLAY_OK;
}

/* GEMM of input rows by matrices [taps][groups][k, n], which are packed from the original weights. */
static inlay_status emit_product(cpu_build *build, const cpu_place *input, int64_t m, const int64_t *weights_dims,
                                 const tensor_layout *w_plain, const tensor_layout *y_layout, cpu_place *out)
{
    tensor_layout w_layout;
    cpu_place weights;
    inlay_status status;

    layout_plain(&w_layout, 4, weights_dims);
    INLAY_TRY(cpu_read_constant(build, build->op->in[1], w_plain, &w_layout, &weights));
    INLAY_TRY(cpu_new_place(build, y_layout, out));
    status = cpu_emit_cut(build, input, &weights, weights_dims[0], weights_dims[1], m, weights_dims[2], weights_dims[3],
                          out);
done:
    return status;
}

/* Result: [taps, pixels, channels], or [pixels, channels * taps] if thin. */
static inlay_status multiply(cpu_build *build, const struct sums *sums, const cpu_place *input, cpu_place *out)
{
    const int64_t groups = build->op->window.group, in = build->dims[build->op->in[0]][1] / groups,
                  m = sums->batch * sums->places;
    const int64_t out_channels = sums->channels / groups, taps = sums->taps, thin[] = { 1, 1, in, out_channels * taps },
                  wide[] = { taps, groups, in, out_channels };
    tensor_layout w_plain, y_layout;

    if (sums->thin) {
        layout_plain(&w_plain, 4, thin);
        layout_plain(&y_layout, 2, (const int64_t[]){ m, out_channels * taps });
        return emit_product(build, input, m, thin, &w_plain, &y_layout, out);
    }
    layout_strides(&w_plain, 4, wide, (const int64_t[]){ 1, in * out_channels * taps, out_channels * taps, taps });
    layout_plain(&y_layout, 3, (const int64_t[]){ taps, m, sums->channels });
    return emit_product(build, input, m, wide, &w_plain, &y_layout, out);
}

/* The bias: input 2, or an operand that the group adds directly behind the convolution. */
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
    uint32_t y_value = op->out[0], rank = build->ranks[y_value], count = 2, fused_count;
    const cpu_place *places[4];
    cpu_place input, from, output, bias, weights;
    struct sums *sums = *io;
    inlay_status status;
    tensor_layout layout;

    sums->weighted =
        op->window.group > 1 && op->window.group == build->dims[op->in[0]][1] && op->window.group == sums->channels;
    sums->thin = op->window.group == 1 && sums->channels < WIDE_CHANNELS;
    layout_channels_last(&layout, rank, build->dims[op->in[0]]);
    INLAY_TRY(cpu_read_as(build, op->in[0], &layout, &input));
    from = input;
    if (!sums->weighted)
        INLAY_TRY(multiply(build, sums, &input, &from));
    if (!sums->thin)
        layout_channels_last(&layout, rank, build->dims[y_value]);
    else
        layout_plain(&layout, rank, build->dims[y_value]);
    sums->kernel = build->state->sgemm;
    fused_count = transposed_fuse_posts(group, &sums->epilogue);
    INLAY_TRY(cpu_step_result_place(build, group, fused_count, &layout, &output));
    places[0] = &from;
    places[1] = &output;
    INLAY_TRY(add_bias(build, group, places, &bias, &count, &sums->biased));
    if (sums->weighted) {
        const int64_t w[] = { sums->channels, sums->taps };
        tensor_layout w_plain, w_layout;

        layout_plain(&w_plain, 2, w);
        layout_strides(&w_layout, 2, w, (const int64_t[]){ 1, sums->channels });
        INLAY_TRY(cpu_read_constant(build, op->in[1], &w_plain, &w_layout, &weights));
        places[count++] = &weights;
    }
    *io = NULL; /* owned by the step from here on, or freed */
    INLAY_TRY(cpu_emit_native(build, &sums->native, places, count));
    status = cpu_finish(build, group, fused_count, &output, true);
done:
    return status;
}

/* True if several products fall on an output pixel. */
static bool overlaps(const cpu_op *op)
{
    for (uint32_t i = 0; i < op->window.spatial; i++)
        if ((op->window.kernel[i] - 1) * op->window.dilations[i] >= op->window.strides[i])
            return true;
    return false;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    const bool sums_taps = overlaps(build->op);
    bool done = false;
    struct sums *sums = NULL;
    inlay_status status = cpu_check_weights(build);

    if (status == INLAY_OK && sums_taps)
        status = transposed_lower_phases(build, group, &done);
    if (status == INLAY_OK && !done)
        status = transposed_lower_planes(build, group, &done);
    if (status == INLAY_OK && !done && !sums_taps)
        status = transposed_lower_phases(build, group, &done);
    if (status != INLAY_OK || done)
        return status;
    status = make_sums(build, &sums);
    if (status == INLAY_UNSUPPORTED)
        return inlay_fail(build->diag, status, "node '%s': too many products fall on a pixel", build->op->name);
    if (status == INLAY_OK)
        status = lower_sums(build, group, &sums);
    free(sums);
    return status;
}

const cpu_family cpu_conv_transpose = {
    .name = "transposed convolution", .parse = parse, .lower = lower, .takes_posts = true, .takes_bias = true
};
