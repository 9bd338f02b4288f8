/* Parsing of BatchNormalization-7..15 (batch.c); LayerNormalization-17 and RMSNormalization-23. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/normalization/normalize.h"
#include "cpu/region/build.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
#include "cpu/normalization/norm_loops.h"
#include "cpu/weights/read.h"

static bool parse_batch(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);

    if (!cpu_known_rank(input, 2, 5, "input 0", why))
        return false;
    for (uint32_t i = 1; i < 5; i++)
        if (!kit_is_constant(node, i) || kit_input(node, i)->rank != 1)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "input %u is not a constant vector", i);
    if (kit_attr_int(node->info, "training_mode", 0) != 0 || kit_attr_int(node->info, "spatial", 1) == 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "training_mode and spatial 0 are not supported");
    op->normalization.epsilon = (float)kit_attr_float(node->info, "epsilon", 1e-5);
    return true;
}

const cpu_family cpu_normalize = { .kind = CPU_FAMILY_NORMALIZE,
                                   .name = "batch normalisation",
                                   .parse = parse_batch,
                                   .lower = cpu_lower_batch,
                                   .takes_posts = true };

/* Rows of n elements, normalised by built-in loops. They round like the single operators that exporters emit for
 * LayerNormalization and RMSNormalization (ReduceMean, Sub, Mul, ReduceMean, Add, Sqrt, Div; for RMSNormalization Mul
 * by the reciprocal), so that a fused model gives the same bits. */
struct rows {
    cpu_native native;
    int64_t count, n;
    float epsilon;
    bool centred, has_bias;
};

typedef struct rows_call {
    const struct rows *rows;
    const float *input, *scale, *bias; /* bias: may be NULL */
    float *output;                     /* may be input */
} rows_call;

/* Rows of LONG_ROW elements or more are processed one by one: the near cache holds one until it is written. */
enum { LONG_ROW = 2048 };

static inlay_status rows_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const rows_call *call = user;
    const norm_loops *const loops = KERNEL_BEST(norm_loops);
    const int64_t n = call->rows->n, most = n < LONG_ROW ? NORM_ROWS : 1;

    (void)worker;
    for (int64_t r = begin; r < end; r += most) {
        const int64_t count = end - r < most ? end - r : most;

        if (call->rows->centred)
            loops->layer_rows(call->input + r * n, call->scale, call->bias, call->output + r * n, count, n,
                              call->rows->epsilon);
        else
            loops->rms_rows(call->input + r * n, call->scale, call->output + r * n, count, n, call->rows->epsilon);
    }
    return INLAY_OK;
}

static inlay_status run_rows(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct rows *rows = (const struct rows *)(const void *)native;
    rows_call call = { rows, args[0], args[1], rows->has_bias ? args[2] : NULL, args[rows->has_bias ? 3 : 2] };
    int64_t grain = 8192 / (rows->n > 0 ? rows->n : 1) + 1;

    if (threads <= 1 || rows->count <= grain)
        return rows_range(&call, 0, rows->count, 0);
    return state->host->parallel_for(state->host->ctx, run, rows->count, grain, rows_range, &call);
}

/* Reads scale or bias, which have one element for each element of a row. */
static inlay_status read_row(cpu_build *build, uint32_t value, int64_t n, cpu_place *out)
{
    tensor_layout vector;

    if (cpu_count(build, value) != n)
        return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH,
                          "node '%s': scale or bias has %lld elements for rows of %lld", build->op->name,
                          (long long)cpu_count(build, value), (long long)n);
    if (build->compiled->values[value].constant == INLAY_NONE)
        return cpu_read_plain(build, value, out);
    layout_plain(&vector, 1, &n);
    return cpu_read_constant(build, value, &vector, &vector, out);
}

static inlay_status lower_rows(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    bool overwrite = cpu_is_last_use(build, op->in[0]), centred = op->row->family->kind == CPU_FAMILY_LAYER_NORM;
    bool has_bias = centred && op->in_count > 2 && op->in[2] != INLAY_NONE;
    cpu_place input, output, scale, bias;
    const cpu_place *places[] = { &input, &scale, has_bias ? &bias : &output, &output };
    struct rows rows = {
        .native.run = run_rows, .epsilon = op->normalization.epsilon, .n = 1, .centred = centred, .has_bias = has_bias
    };
    inlay_status status;

    for (uint32_t d = (uint32_t)op->axis; d < build->ranks[op->in[0]]; d++)
        rows.n *= build->dims[op->in[0]][d];
    rows.count = rows.n > 0 ? cpu_count(build, op->in[0]) / rows.n : 0;
    INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
    overwrite = overwrite && build->places[op->in[0]].buffer == input.buffer;
    INLAY_TRY(read_row(build, op->in[1], rows.n, &scale));
    if (has_bias)
        INLAY_TRY(read_row(build, op->in[2], rows.n, &bias));
    if (overwrite && build->compiled->values[group->out].output == INLAY_NONE)
        output = input;
    else
        INLAY_TRY(cpu_result_place(build, group->out, &input.layout, &output));
    INLAY_TRY(cpu_emit_step(build, &rows.native, sizeof rows, places, has_bias ? 4 : 3));
    status = cpu_finish(build, group, 0, &output, false);
done:
    return status;
}

/* True if the scale or bias has the dims of the normalised axes. A dimension that is not known may be 1 (broadcast) and
 * is refused. */
static bool covers_row(const kit_node *node, uint32_t input, int64_t axis, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0), *value = kit_input(node, input);

    if (value == NULL)
        return true;
    if (value->rank != x->rank - (uint32_t)axis)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "expand it to the normalised axes",
                          "input %u has %u axes, but %u are normalised", input, value->rank, x->rank - (uint32_t)axis);
    for (uint32_t d = 0; d < value->rank; d++)
        if (!cpu_same_dim(&value->dims[d], &x->dims[(uint32_t)axis + d]) &&
            (value->dims[d].kind != INLAY_DIM_FIXED || value->dims[d].value == 1))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "declare the shapes, or expand it",
                              "input %u may be broadcast along axis %u", input, d);
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

const cpu_family cpu_layer_norm = {
    .kind = CPU_FAMILY_LAYER_NORM, .name = "layer normalisation", .parse = parse_layer, .lower = lower_rows
};

static bool is_vector(const kit_node *node, uint32_t i)
{
    return kit_input(node, i) == NULL || (kit_is_constant(node, i) && kit_input(node, i)->rank == 1);
}

/* SkipLayerNormalization and SkipSimplifiedLayerNormalization of com.microsoft. expand.c expands them, so that the sums
 * can be fused into a preceding matrix multiplication. */
static bool parse_skip(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0), *skip = kit_input(node, 1);

    if (!cpu_known_rank(input, 2, 5, "input 0", why) || !cpu_known_rank(skip, input->rank, input->rank, "input 1", why))
        return false;
    for (uint32_t d = 0; d < input->rank; d++)
        if (!cpu_same_dim(&input->dims[d], &skip->dims[d]))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "declare their shapes",
                              "inputs 0 and 1 may differ along axis %u", d);
    for (uint32_t i = 2; i < node->info->input_count; i++)
        if (!is_vector(node, i) || (i == 2 && kit_input(node, i) == NULL))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "input %u is not a constant vector", i);
    op->normalization.epsilon = (float)kit_attr_float(node->info, "epsilon", 1e-12);
    return true;
}

const cpu_family cpu_skip_norm = {
    .kind = CPU_FAMILY_SKIP_NORM, .name = "normalisation of a sum", .parse = parse_skip, .lower = NULL
};

const cpu_family cpu_rms_norm = {
    .kind = CPU_FAMILY_RMS_NORM, .name = "normalisation by the mean square", .parse = parse_layer, .lower = lower_rows
};
