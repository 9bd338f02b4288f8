/* ConvTranspose-1..22: parsing, and lowering. Kernels that are a multiple of the stride run as convolutions
 * (transposed_phases.c), others of row-major images in transposed_planes.c, and the rest as GEMMs and sums
 * (transposed_sums.h). */
#include "cpu/choice/kernels.h"
#include "cpu/convolution/transposed.h"
#include "inlay/cost.h"
#include "cpu/convolution/transposed_sums.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/weights/read.h"

enum { WIDE_CHANNELS = 8, UNIT_FLOATS = 64 * 1024, UNITS_PER_THREAD = 4 };
#define NS_OF_WORK 0.02 /* for one multiplication */

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

/* Sets the number of units, and what each of them reads and multiplies. */
static void cut(struct sums *sums)
{
    const axis_terms *axis = &sums->axes[sums->axis];
    const int64_t reach = sums->unit.positions - 1 + (sums->thin ? (axis->kernel - 1) * axis->dilation : 0);

    sums->unit.span = reach / axis->stride + 1 < axis->size ? reach / axis->stride + 1 : axis->size;
    sums->unit.blocks = sums_parts(axis->out, sums->unit.positions);
    sums->unit.outer = sums->unit.channels > sums->out ? sums->unit.channels : sums->out;
    sums->unit.parts = sums_parts(sums->unit.outer, sums->unit.channels);
    sums->unit.chunks = sums_parts(sums->channels, sums->unit.outer) * sums->unit.parts;
    sums->product_floats = sums->taps * sums->unit.span * sums->inner * sums->unit.channels;
}

/* About half of the channels of a unit: panels of a GEMM, or whole groups. */
static int64_t fewer_channels(const struct sums *sums)
{
    const int64_t half = sums_parts(sums->unit.channels, 2 * SGEMM_WIDTH) * SGEMM_WIDTH;

    return half > sums->out ? half / sums->out * sums->out : half;
}

/* Chooses units whose products fit into UNIT_FLOATS and which keep all threads busy. Neighbouring units of `thin`
 * repeat products, so these units are not made small. */
static void choose_units(struct sums *sums, uint32_t threads)
{
    const axis_terms *axis = &sums->axes[sums->axis];
    const int64_t wanted = threads > 1 && sums->ns >= SUMS_WAKE_NS ? UNITS_PER_THREAD * (int64_t)threads : 1,
                  overlap = sums->thin ? (axis->kernel - 1) * axis->dilation : 0;

    sums->unit.positions = axis->out > 0 ? axis->out : 1;
    sums->unit.channels = sums->channels;
    for (cut(sums);; cut(sums)) {
        const bool fits = sums->weighted || sums->product_floats <= UNIT_FLOATS;
        const int64_t least = (fits ? 4 : 16) * overlap, half = (sums->unit.positions + 1) / 2;

        if (fits && sums->batch * sums->unit.blocks * sums->unit.chunks >= wanted)
            return;
        if (!sums->thin && !sums->weighted && sums->unit.channels > SGEMM_WIDTH)
            sums->unit.channels = fewer_channels(sums);
        else if (sums->unit.positions > 1 && half >= least)
            sums->unit.positions = half;
        else
            return;
    }
}

/* Creates the step for the current op; the caller sets its flags. Returns INLAY_UNSUPPORTED and NULL if a pixel has too
 * many terms. */
static inlay_status make_sums(const cpu_build *build, struct sums **out)
{
    const cpu_op *op = build->op;
    const int64_t *input = build->dims[op->in[0]], *output = build->dims[op->out[0]], groups = op->window.group;
    int64_t begins[SUMS_AXES], ends[SUMS_AXES], terms = 1;
    struct sums sums = { .native.run = sums_run,
                         .batch = output[0],
                         .channels = output[1],
                         .groups = groups,
                         .in = input[1] / groups,
                         .out = output[1] / groups,
                         .taps = 1,
                         .places = 1,
                         .axis = SUMS_AXES - op->window.spatial,
                         .workers = build->instance->threads > 0 ? build->instance->threads : 1,
                         .weighted = groups > 1 && groups == input[1] && groups == output[1],
                         .thin = groups == 1 && output[1] < WIDE_CHANNELS,
                         .kernel = build->state->sgemm };
    uint64_t bytes = 0;
    char *memory;

    *out = NULL;
    cpu_deconvolution_pads(op, input + 2, output + 2, begins, ends);
    for (uint32_t i = 0; i < SUMS_AXES; i++) {
        axis_terms *axis = &sums.axes[i];
        const uint32_t dim = i >= sums.axis ? i - sums.axis : 0;

        *axis = (axis_terms){ .size = 1, .out = 1, .kernel = 1, .max_terms = 1, .stride = 1, .dilation = 1 };
        if (i < sums.axis)
            continue;
        *axis = (axis_terms){ .size = input[2 + dim],
                              .out = output[2 + dim],
                              .kernel = op->window.kernel[dim],
                              .stride = op->window.strides[dim],
                              .dilation = op->window.dilations[dim],
                              .begin = begins[dim] };
        sums.places *= axis->size;
        sums.taps *= axis->kernel;
        /* Taps whose distance is a multiple of the stride fall on the same position; a common divisor of dilation and
         * stride makes this more frequent. */
        axis->max_terms = axis->kernel;
        if (axis->dilation == 1)
            axis->max_terms = (axis->kernel + axis->stride - 1) / axis->stride;
        terms *= axis->max_terms;
        if (axis->size > INT32_MAX || axis->out > INT32_MAX || terms > SUMS_MAX_TERMS)
            return INLAY_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < SUMS_AXES; i++)
        bytes += sums_terms_bytes(&sums.axes[i]);
    sums.inner = sums.axes[sums.axis].size > 0 ? sums.places / sums.axes[sums.axis].size : 0;
    sums.ns = NS_OF_WORK * (double)sums.batch * (double)sums.places * (double)sums.taps * (double)sums.channels *
              (double)sums.in;
    choose_units(&sums, build->instance->threads);
    *out = malloc(sizeof sums + bytes);
    if (*out == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for the sums of node '%s'", op->name);
    memory = (char *)(*out + 1);
    for (uint32_t i = 0; i < SUMS_AXES; i++)
        memory = sums_fill_terms(&sums.axes[i], i == sums.axis && !sums.weighted ? sums.unit.positions : 0, sums.thin,
                                 memory);
    **out = sums;
    return INLAY_OK;
}

/* The weights in the order in which the GEMMs, or the sums of `weighted`, read them (sum_call). */
static inlay_status read_weights(cpu_build *build, const struct sums *sums, cpu_place *out)
{
    const int64_t wide[] = { sums->taps, sums->groups, sums->in, sums->out },
                  thin[] = { 1, 1, sums->in, sums->out * sums->taps };
    tensor_layout plain, layout;

    if (sums->thin)
        layout_plain(&plain, 4, thin);
    else
        layout_strides(&plain, 4, wide,
                       (const int64_t[]){ 1, sums->in * sums->out * sums->taps, sums->out * sums->taps, sums->taps });
    layout_plain(&layout, 4, sums->thin ? thin : wide);
    return cpu_read_constant(build, build->op->in[1], &plain, &layout, out);
}

/* The bias: input 2, or an operand that the group adds directly after the convolution. */
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
    uint32_t y_value = op->out[0], rank = build->ranks[y_value], count = 3, fused_count;
    const cpu_place *places[5];
    cpu_place input, output, bias, weights, scratch;
    struct sums *sums = *io;
    inlay_status status;
    tensor_layout layout;

    layout_channels_last(&layout, rank, build->dims[op->in[0]]);
    INLAY_TRY(cpu_read_as(build, op->in[0], &layout, &input));
    INLAY_TRY(read_weights(build, sums, &weights));
    if (!sums->thin)
        layout_channels_last(&layout, rank, build->dims[y_value]);
    else
        layout_plain(&layout, rank, build->dims[y_value]);
    fused_count = transposed_fuse_posts(group, &sums->epilogue);
    INLAY_TRY(cpu_step_result_place(build, group, fused_count, &layout, &output));
    places[0] = &input;
    places[1] = &output;
    places[2] = &weights;
    INLAY_TRY(add_bias(build, group, places, &bias, &count, &sums->biased));
    if (!sums->weighted) {
        INLAY_TRY(cpu_new_floats(build, sums->product_floats * sums->workers, &scratch));
        sums->scratch = count;
        places[count++] = &scratch;
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

/* True if each output pixel is computed from the input pixel at its place: a convolution with transposed weights. */
static bool is_pointwise(const cpu_build *build)
{
    const cpu_op *op = build->op;

    for (uint32_t i = 0; i < op->window.spatial; i++)
        if (op->window.kernel[i] != 1 || op->window.strides[i] != 1 ||
            build->dims[op->in[0]][2 + i] != build->dims[op->out[0]][2 + i])
            return false;
    return cpu_count(build, op->out[0]) > 0;
}

static inlay_status lower_pointwise(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const int64_t groups = op->window.group, in = build->dims[op->in[0]][1] / groups,
                  out = build->dims[op->out[0]][1] / groups;
    const int64_t dims[] = { groups, out, in, 1, 1, 1 }, strides[] = { in * out, 1, out, 1, 1, 1 };
    const uint32_t from = groups > 1 ? 0 : 1;
    tensor_layout weights;

    layout_strides(&weights, 3 - from + op->window.spatial, dims + from, strides + from);
    return cpu_lower_conv(build, group, &weights);
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    const bool sums_taps = overlaps(build->op);
    bool done = false;
    struct sums *sums = NULL;
    inlay_status status = cpu_check_weights(build);

    if (status == INLAY_OK && is_pointwise(build))
        return lower_pointwise(build, group);
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

const cpu_family cpu_conv_transpose = { .kind = CPU_FAMILY_CONV_TRANSPOSE,
                                        .name = "transposed convolution",
                                        .parse = parse,
                                        .lower = lower,
                                        .takes_posts = true,
                                        .takes_bias = true };
