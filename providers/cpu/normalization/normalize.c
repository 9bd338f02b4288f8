/* BatchNormalization-7..15, LayerNormalization-17, RMSNormalization-23, LRN-1..13. */
#include "region/build.h"
#include "normalization/norm_loops.h"
#include <math.h>

/* ------------------------------------------------------------------ batch normalisation */

static bool parse_batch(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);

    if (!cpu_known_rank(input, 2, 5, "input 0", why))
        return false;
    for (uint32_t i = 1; i < 5; i++)
        if (!kit_is_constant(node, i) || kit_input(node, i)->rank != 1)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "input %u is not a constant vector", i);
    if (kit_attr_int(node->info, "training_mode", 0) != 0 || kit_attr_int(node->info, "spatial", 1) == 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "statistics of the batch, or of each element");
    op->normalization.epsilon = (float)kit_attr_float(node->info, "epsilon", 1e-5);
    return true;
}

static inlay_status lower_batch(cpu_build *build, const cpu_group *group)
{
    static const int ids[] = { LIBRARY_ARG_SCALE, LIBRARY_ARG_SHIFT, LIBRARY_ARG_MEAN, LIBRARY_ARG_VARIANCE };
    const cpu_op *op = build->op;
    unsigned flags = LIBRARY_USE_GLOBAL_STATS | LIBRARY_USE_SCALE | LIBRARY_USE_SHIFT;
    const cpu_post *next = group->post_count > 0 ? &group->posts[0] : NULL;
    bool relu = next != NULL && next->kind == CPU_POST_ELTWISE && next->eltwise.alg == LIBRARY_ELTWISE_RELU &&
                next->eltwise.alpha == 0;
    bool overwrite = cpu_is_last_use(build, op->in[0]);
    library_description pd = NULL;
    library_op desc = { .kind = LIBRARY_BATCH_NORM, .epsilon = op->normalization.epsilon };
    cpu_place input, output, parameters[4];
    cpu_operand operands[6];
    inlay_status status;
    memory_desc vector;
    bool done;

    INLAY_TRY(cpu_lower_batch_rows(build, group, relu, &done));
    if (done)
        return INLAY_OK;
    INLAY_TRY(cpu_read(build, op->in[0], &input));
    if (!memory_desc_is_image(&input.md) && !memory_desc_is_plain(&input.md)) {
        INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
        overwrite = false;
    }
    desc.input = input.md;
    desc.flags = flags | (relu ? LIBRARY_FUSE_RELU : 0);
    INLAY_TRY(cpu_describe(build, &desc, &pd));
    if (overwrite && build->compiled->values[group->out].output == INLAY_NONE)
        output = input;
    else
        INLAY_TRY(cpu_result_place(build, group->post_count == (relu ? 1u : 0u) ? group->out : op->out[0], &input.md,
                                   &output));
    operands[0] = (cpu_operand){ LIBRARY_ARG_SRC, &input };
    operands[1] = (cpu_operand){ LIBRARY_ARG_DST, &output };
    memory_desc_plain(&vector, 1, &build->dims[op->in[0]][1]);
    for (uint32_t i = 0; i < 4; i++) {
        INLAY_TRY(cpu_read_constant(build, op->in[1 + i], &vector, &vector, &parameters[i]));
        operands[2 + i] = (cpu_operand){ ids[i], &parameters[i] };
    }
    INLAY_TRY(cpu_emit(build, pd, operands, 6));
    status = cpu_finish(build, group, relu ? 1 : 0, &output, true);
done:
    library_destroy(pd);
    return status;
}

const cpu_family cpu_normalize = { "batch normalisation", parse_batch, lower_batch };

/* ------------------------------------------------------------------ rows */

/* Rows of n elements, normalised by a loop of our own: it rounds where the operators do that exporters spell
 * LayerNormalization and RMSNormalization out by (ReduceMean, Sub, Mul, ReduceMean, Add, Sqrt, Div; for the latter Mul
 * by the reciprocal), so that a model that is fused gives the same bits. */
struct rows {
    cpu_native native;
    int64_t count, n;
    float epsilon;
    bool centred, shifted;
};

typedef struct rows_call {
    const struct rows *rows;
    const float *input, *scale, *bias; /* bias: NULL if there is none */
    float *output;                     /* may be x */
} rows_call;

static inlay_status rows_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const rows_call *call = user;
    const norm_loops *const loops = KERNEL_BEST(norm_loops);
    const int64_t n = call->rows->n;

    (void)worker;
    for (int64_t r = begin; r < end && !call->rows->centred; r++)
        loops->rms_row(call->input + r * n, call->scale, call->output + r * n, n, call->rows->epsilon);
    for (int64_t r = begin; r < end && call->rows->centred; r += NORM_ROWS)
        loops->layer_rows(call->input + r * n, call->scale, call->bias, call->output + r * n,
                          end - r < NORM_ROWS ? end - r : NORM_ROWS, n, call->rows->epsilon);
    return INLAY_OK;
}

static inlay_status run_rows(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct rows *rows = (const struct rows *)(const void *)native;
    rows_call call = { rows, args[0], args[1], rows->shifted ? args[2] : NULL, args[rows->shifted ? 3 : 2] };
    int64_t grain = 32768 / (rows->n > 0 ? rows->n : 1) + 1;

    if (threads <= 1 || rows->count <= grain)
        return rows_some(&call, 0, rows->count, 0);
    return state->host->parallel_for(state->host->ctx, run, rows->count, grain, rows_some, &call);
}

/* Scale or bias: an element for each of a row. */
static inlay_status read_row(cpu_build *build, uint32_t value, int64_t n, cpu_place *out)
{
    memory_desc vector;

    if (cpu_count(build, value) != n)
        return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH,
                          "node '%s': scale or bias has %lld elements for rows of %lld", build->op->name,
                          (long long)cpu_count(build, value), (long long)n);
    if (build->compiled->values[value].constant == INLAY_NONE)
        return cpu_read_plain(build, value, out);
    memory_desc_plain(&vector, 1, &n);
    return cpu_read_constant(build, value, &vector, &vector, out);
}

static inlay_status lower_rows(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    bool overwrite = cpu_is_last_use(build, op->in[0]), centred = op->row->family == &cpu_layer_norm;
    bool shifted = centred && op->in_count > 2 && op->in[2] != INLAY_NONE;
    cpu_place input, output, scale, bias;
    const cpu_place *places[] = { &input, &scale, shifted ? &bias : &output, &output };
    struct rows rows = {
        .native.run = run_rows, .epsilon = op->normalization.epsilon, .n = 1, .centred = centred, .shifted = shifted
    };
    inlay_status status;

    for (uint32_t d = (uint32_t)op->axis; d < build->ranks[op->in[0]]; d++)
        rows.n *= build->dims[op->in[0]][d];
    rows.count = rows.n > 0 ? cpu_count(build, op->in[0]) / rows.n : 0;
    INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
    overwrite = overwrite && build->places[op->in[0]].buffer == input.buffer;
    INLAY_TRY(read_row(build, op->in[1], rows.n, &scale));
    if (shifted)
        INLAY_TRY(read_row(build, op->in[2], rows.n, &bias));
    if (overwrite && build->compiled->values[group->out].output == INLAY_NONE)
        output = input;
    else
        INLAY_TRY(cpu_result_place(build, group->out, &input.md, &output));
    INLAY_TRY(cpu_emit_step(build, &rows.native, sizeof rows, places, shifted ? 4 : 3));
    status = cpu_finish(build, group, 0, &output, false);
done:
    return status;
}

/* ------------------------------------------------------------------ layer normalisation */

/* Is scale or bias one element for each of what is normalised, from the axis on? What is not known may be 1, which
 * would be one for all. */
static bool covers_row(const kit_node *node, uint32_t input, int64_t axis, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0), *value = kit_input(node, input);

    if (value == NULL)
        return true;
    if (value->rank != x->rank - (uint32_t)axis)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "spell it out", "input %u has %u axes; %u are normalised", input,
                          value->rank, x->rank - (uint32_t)axis);
    for (uint32_t d = 0; d < value->rank; d++)
        if (!cpu_same_dim(&value->dims[d], &x->dims[(uint32_t)axis + d]) &&
            (value->dims[d].kind != INLAY_DIM_FIXED || value->dims[d].value == 1))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "declare the shapes, or spell it out",
                              "input %u may be one element for all along axis %u", input, d);
    return true;
}

static bool parse_layer(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);

    if (!cpu_known_rank(input, 1, CPU_MAX_RANK, "input 0", why))
        return false;
    if (!cpu_axis(kit_attr_int(node->info, "axis", -1), input->rank, &op->axis))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the axis is outside the tensor");
    op->normalization.epsilon = (float)kit_attr_float(node->info, "epsilon", 1e-5);
    return covers_row(node, 1, op->axis, why) && covers_row(node, 2, op->axis, why);
}

const cpu_family cpu_layer_norm = { "layer normalisation", parse_layer, lower_rows };

/* ------------------------------------------------------------------ with a residual before it */

static bool is_vector(const kit_node *node, uint32_t i)
{
    return kit_input(node, i) == NULL || (kit_is_constant(node, i) && kit_input(node, i)->rank == 1);
}

/* SkipLayerNormalization and SkipSimplifiedLayerNormalization of com.microsoft: expand.c takes them apart, so
 * that the sums are made where the product before them has its own. */
static bool parse_skip(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0), *skip = kit_input(node, 1);

    if (!cpu_known_rank(input, 2, 5, "input 0", why) || !cpu_known_rank(skip, input->rank, input->rank, "input 1", why))
        return false;
    for (uint32_t d = 0; d < input->rank; d++)
        if (!cpu_same_dim(&input->dims[d], &skip->dims[d]))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "declare their shapes", "they may differ along axis %u", d);
    for (uint32_t i = 2; i < node->info->input_count; i++)
        if (!is_vector(node, i) || (i == 2 && kit_input(node, i) == NULL))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "input %u is not a constant vector", i);
    op->normalization.epsilon = (float)kit_attr_float(node->info, "epsilon", 1e-12);
    return true;
}

const cpu_family cpu_skip_norm = { "normalisation of a sum", parse_skip, NULL };

/* ------------------------------------------------------------------ by the root of the mean square */

const cpu_family cpu_rms_norm = { "normalisation by the mean square", parse_layer, lower_rows };

/* ------------------------------------------------------------------ local response normalisation */

static bool parse_lrn(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    if (!cpu_known_rank(kit_input(node, 0), 3, CPU_MAX_RANK, "input 0", why))
        return false;
    op->size = kit_attr_int(node->info, "size", 0);
    op->alpha = (float)kit_attr_float(node->info, "alpha", 1e-4);
    op->beta = (float)kit_attr_float(node->info, "beta", 0.75);
    op->normalization.bias = (float)kit_attr_float(node->info, "bias", 1);
    if (op->size < 1 || op->size % 2 == 0) /* an even window has no middle, and ONNX's leans to the other side */
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use an odd size", "size %lld", (long long)op->size);
    return true;
}

/* oneDNN multiplies the sum of squares by its root, which overflows for numbers whose squares do not. Where there are
 * such, or NaN, all is done again. */
typedef struct odd_lrn {
    cpu_native native;
    memory_desc md; /* [N, C, H, W], channels maybe in blocks */
    double factor, beta, bias;
    int64_t size;
    float most; /* numbers up to here are oneDNN's */
} odd_lrn;

static int64_t lrn_place(const memory_desc *md, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const int64_t block = md->inner_nblks > 0 ? md->inner_blks[0] : 1;

    return n * md->strides[0] + c / block * md->strides[1] + c % block + h * md->strides[2] + w * md->strides[3];
}

static void lrn_pixel(const odd_lrn *lrn, const float *input, float *output, int64_t n, int64_t h, int64_t w)
{
    const int64_t half = lrn->size / 2, channels = lrn->md.dims[1];

    for (int64_t c = 0; c < channels; c++) {
        float sum = 0;

        for (int64_t k = c > half ? c - half : 0; k <= c + half && k < channels; k++) {
            const float v = input[lrn_place(&lrn->md, n, k, h, w)];

            sum += v * v;
        }
        output[lrn_place(&lrn->md, n, c, h, w)] =
            (float)(input[lrn_place(&lrn->md, n, c, h, w)] * pow(lrn->bias + lrn->factor * (double)sum, -lrn->beta));
    }
}

/* args: x, y. */
static inlay_status run_odd_lrn(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                uint32_t threads)
{
    const odd_lrn *lrn = (const odd_lrn *)(const void *)native;
    const float *input = args[0];
    int64_t count = 1;
    bool odd = false;

    (void)state, (void)run, (void)threads;
    for (uint32_t d = 0; d < 4; d++)
        count *= lrn->md.padded_dims[d];
#pragma omp simd reduction(| : odd)
    for (int64_t i = 0; i < count; i++)
        odd |= !(fabsf(input[i]) <= lrn->most);
    for (int64_t n = 0; odd && n < lrn->md.dims[0]; n++)
        for (int64_t h = 0; h < lrn->md.dims[2]; h++)
            for (int64_t w = 0; w < lrn->md.dims[3]; w++)
                lrn_pixel(lrn, input, args[1], n, h, w);
    return INLAY_OK;
}

static inlay_status lower_lrn(cpu_build *build, const cpu_group *group)
{
    odd_lrn odd = { .native.run = run_odd_lrn };
    const cpu_op *op = build->op;
    library_description pd = NULL;
    library_op desc = {
        .kind = LIBRARY_LRN, .alpha = op->alpha, .beta = op->beta, .epsilon = op->normalization.bias, .size = op->size
    };
    const int64_t *dims = build->dims[op->in[0]],
                  folded[] = { dims[0], dims[1], cpu_count(build, op->in[0]) / dims[0] / dims[1], 1 };
    const bool folds = build->ranks[op->in[0]] != 4; /* an image of two axes for other numbers of them */
    cpu_place input, output;
    inlay_status status;

    INLAY_TRY(cpu_read(build, op->in[0], &input));
    if (folds || (!memory_desc_is_image(&input.md) && !memory_desc_is_plain(&input.md)) || input.md.inner_nblks > 1)
        INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
    if (folds)
        memory_desc_plain(&input.md, 4, folded);
    desc.input = input.md;
    INLAY_TRY(cpu_describe(build, &desc, &pd));
    INLAY_TRY(cpu_result_place(build, group->out, &input.md, &output));
    INLAY_TRY(
        cpu_emit(build, pd, (const cpu_operand[]){ { LIBRARY_ARG_SRC, &input }, { LIBRARY_ARG_DST, &output } }, 2));
    odd.md = input.md;
    odd.factor = (double)op->alpha / (double)op->size;
    odd.beta = (double)op->beta;
    odd.bias = (double)op->normalization.bias;
    odd.size = op->size;
    odd.most = op->alpha > 1e-12f ? sqrtf(1e24f / op->alpha) : 1e18f;
    odd.most = odd.most < 1e18f ? odd.most : 1e18f;
    INLAY_TRY(cpu_emit_step(build, &odd.native, sizeof odd, (const cpu_place *[]){ &input, &output }, 2));
    if (folds)
        memory_desc_plain(&output.md, build->ranks[op->in[0]], dims);
    status = cpu_finish(build, group, 0, &output, false);
done:
    library_destroy(pd);
    return status;
}

const cpu_family cpu_lrn = { "local response normalisation", parse_lrn, lower_lrn };
