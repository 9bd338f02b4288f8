/* Reductions, pools, softmax and normalisations. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include <math.h>

/* The number of invocations per result: a workgroup shares each long sum, on a CPU driver only if there are few
 * results. */
static uint32_t lanes_for(const vulkan_build *build, int64_t length, int64_t results)
{
    if (length < 128 || (results >= 4096 && build->device->facts.is_cpu))
        return 1;
    return length >= 512 && !build->device->facts.is_cpu ? VULKAN_GPU_WORKGROUP_SIZE : VULKAN_WORKGROUP_SIZE;
}

static inlay_status finish_sums(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_program *program,
                                uint32_t lanes, int64_t results)
{
    if (lanes > 1)
        dispatch->constants[ID_LOCAL] = lanes;
    vulkan_finish(build, dispatch, program);
    return lanes > 1 ? vulkan_grid_groups(build, dispatch, (uint64_t)results) : vulkan_grid(build, dispatch, results);
}

/* Writes the sizes and strides of the reduced dimensions of input, or of the kept ones, in the order in which the
 * shader iterates over them: at most four, right-aligned. false: there are more. */
static bool set_walk_words(const vulkan_build *build, const vulkan_dispatch *dispatch, uint32_t first,
                           const vulkan_tensor *input, const bool *axes, bool reduced)
{
    int64_t row_major[VULKAN_RANK], dims[VULKAN_RANK], strides[VULKAN_RANK], *const lists[] = { strides };
    uint32_t count = 0;

    vulkan_row_major(input->dims, input->rank, row_major);
    for (uint32_t i = 0; i < input->rank; i++)
        if (axes[i] == reduced) {
            dims[count] = input->dims[i];
            strides[count++] = row_major[i];
        }
    count = vulkan_merge_dims(count, dims, 1, lists);
    if (count > 4)
        return false;
    VULKAN_SET_WORDS(build, dispatch, first, 1, 1, 1, 1, 0, 0, 0, 0);
    vulkan_set_words(build, dispatch, first + 4 - count, count, dims);
    vulkan_set_words(build, dispatch, first + 8 - count, count, strides);
    return true;
}

static inlay_status emit_reduce(vulkan_build *build, const vulkan_op *op, const bool *axes)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    const inlay_node_info *info = &op->info;
    const uint32_t flags = kit_attr_int(info, "select_last_index", 0) != 0 || kit_attr_int(info, "exclusive", 0) != 0;
    const uint32_t kind = op->row->number;
    const bool is_arg = kind == RED_ARG_MAX || kind == RED_ARG_MIN;
    const vulkan_arithmetic in = vulkan_arithmetic_of(input->dtype);
    const gpu_shader shader = in == VULKAN_INTEGER ? SHADER_reduce_int : SHADER_reduce;
    int64_t length = 1, results;
    uint32_t lanes;
    vulkan_program program;
    vulkan_dispatch *dispatch;

    for (uint32_t i = 0; i < input->rank; i++)
        length *= axes[i] ? input->dims[i] : 1;
    if (length == 0 && in == VULKAN_INTEGER && input->dtype != INLAY_INT64 && (kind == RED_MAX || kind == RED_MIN))
        return vulkan_decline(build, op, "the limit of a type other than int64, for no elements");
    results = kind == RED_RUNNING ? input->count / length : vulkan_output(build, op, 0)->count;
    lanes = kind == RED_RUNNING ? 1 : lanes_for(build, length, results);
    vulkan_program_start(build, &program, info->outputs[0], in);
    /* the results of ArgMax and ArgMin are stored directly, without a program */
    dispatch =
        is_arg ? vulkan_add_dispatch(build, shader, 20) : vulkan_add_fused_dispatch(build, op, &program, shader, 20);
    VULKAN_SET_CONSTANTS(dispatch, kind, lanes, flags | (kit_attr_int(info, "reverse", 0) != 0) << 1);
    vulkan_expect_bytes(build, dispatch, (double)input->count, 4);
    vulkan_require_rounds(build, op, length / lanes * (is_arg || kind == RED_LOG_SUM_EXP ? 2 : 1));
    VULKAN_SET_WORDS(build, dispatch, 0, results, length);
    if (!set_walk_words(build, dispatch, 2, input, axes, false) ||
        !set_walk_words(build, dispatch, 10, input, axes, true))
        return vulkan_decline(build, op, "reduced and kept axes alternate more than four times");
    vulkan_set_input(build, dispatch, 0, info->inputs[0]);
    return finish_sums(build, dispatch, &program, lanes, results);
}

static inlay_status lower_reduce(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    bool axes[VULKAN_RANK] = { false };
    int64_t list[VULKAN_RANK] = { kit_attr_int(&op->info, "axis", 0) }, count = 1;
    uint32_t axis;

    if (op->row->number != RED_ARG_MAX && op->row->number != RED_ARG_MIN)
        count = vulkan_attr_or_known_ints(build, op, "axes", 1, list, VULKAN_RANK);
    if (count < 0 && vulkan_input(build, op, 1) != NULL)
        return vulkan_decline(build, op, "its axes are not known before the run");
    for (int64_t i = 0; i < count; i++) {
        if (!vulkan_require_axis(build, op, list[i], input->rank, &axis))
            return build->status;
        axes[axis] = true;
    }
    for (uint32_t i = 0; count <= 0 && i < input->rank; i++)
        axes[i] = kit_attr_int(&op->info, "noop_with_empty_axes", 0) == 0;
    return emit_reduce(build, op, axes);
}

static bool reduce_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    if (!vulkan_is_float(kit_input_dtype(node, 0)) &&
        (row->number == RED_L2 || row->number == RED_LOG_SUM || row->number == RED_LOG_SUM_EXP))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float",
                          "roots and logarithms of integers are not supported");
    return true;
}

static inlay_status lower_global_pool(vulkan_build *build, const vulkan_op *op)
{
    return emit_reduce(build, op, (const bool[VULKAN_RANK]){ false, false, true, true, true, true, true, true });
}

/* The result of a window that covers padding only: the lowest value of the type, or 0. */
static double result_of_padding(const vulkan_build *build, const vulkan_op *op, uint32_t kind)
{
    const inlay_dtype dtype = vulkan_input(build, op, 0)->dtype;

    return kind != POOL_MAX || dtype == INLAY_UINT8 ? 0 : dtype == INLAY_INT8 ? INT8_MIN : -INFINITY;
}

inlay_status vulkan_emit_windows(vulkan_build *build, const vulkan_op *op, vulkan_program *program, uint32_t kind,
                                 const vulkan_window *window)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    const gpu_facts *facts = &build->device->facts;
    const bool with_pad = kit_attr_int(&op->info, "count_include_pad", 0) != 0;
    const int64_t planes = vulkan_output(build, op, 0)->count / window->pixels;
    const uint32_t lanes = vulkan_scalar_loads(build) ? facts->subgroup : 0;
    vulkan_dispatch *dispatch = vulkan_add_fused_dispatch(
        build, op, program, program->arithmetic == VULKAN_INTEGER ? SHADER_windows_int : SHADER_windows, 28);
    int64_t each;

    INLAY_CHECK(window->pixels > 0);
    if (lanes > 0) { /* a workgroup computes up to eight strips of lines */
        const int64_t strips = (window->out[2] + lanes - 1) / lanes * window->out[0] * window->out[1];

        dispatch->constants[ID_LOCAL] = lanes * (strips < 8 ? (uint32_t)strips : 8);
        each = (strips + 7) / 8;
    } else {
        while (dispatch->constants[ID_LOCAL] > 8 && dispatch->constants[ID_LOCAL] / 2 >= window->pixels)
            dispatch->constants[ID_LOCAL] /= 2;
        each = (window->pixels + dispatch->constants[ID_LOCAL] - 1) / dispatch->constants[ID_LOCAL];
    }
    VULKAN_SET_CONSTANTS(dispatch, kind, with_pad, lanes);
    vulkan_require_rounds(build, op,
                          window->taps * (kind == POOL_LP ? 8 : 1)); /* f_pow() of LpPool contains a loop, too */
    vulkan_expect_bytes(build, dispatch, 2.0 * (double)(planes * window->pixels), 4.0 * (double)window->taps);
    VULKAN_SET_WORDS(build, dispatch, 0, input->dims[1], each);
    vulkan_set_window_words(build, dispatch, 2, window);
    VULKAN_SET_WORDS(build, dispatch, 20, planes, vulkan_bits((float)kit_attr_int(&op->info, "p", 2)), window->end[0],
                     window->end[1], window->end[2], vulkan_bits((float)result_of_padding(build, op, kind)));
    vulkan_set_input(build, dispatch, 0, op->info.inputs[0]);
    vulkan_set_input(build, dispatch, 1, kind == POOL_WEIGHTED ? op->info.inputs[1] : INLAY_NONE);
    vulkan_finish(build, dispatch, program);
    return vulkan_grid_groups(build, dispatch, (uint64_t)(each * planes));
}

static inlay_status lower_pool(vulkan_build *build, const vulkan_op *op)
{
    vulkan_window window;
    vulkan_program program;

    if (!vulkan_window_read(build, op, NULL, false, &window))
        return build->status;
    if (vulkan_input(build, op, 0)->count == 0) {
        vulkan_emit_fill(build, op->info.outputs[0], result_of_padding(build, op, op->row->number));
        return build->status;
    }
    vulkan_program_start(build, &program, op->info.outputs[0], vulkan_arithmetic_of(vulkan_input(build, op, 0)->dtype));
    return vulkan_emit_windows(build, op, &program, op->row->number, &window);
}

/* LRN: x / (bias + alpha / size * sum of squares of neighbouring channels)^beta, as a pool over channels with an
 * epilogue. */
static inlay_status lower_lrn(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    const int64_t size = kit_attr_int(&op->info, "size", 1), pixels = vulkan_dims_product(input, 2, input->rank);
    const vulkan_window window = { .out = { input->dims[1], pixels, 1 },
                                   .in = { input->dims[1], pixels, 1 },
                                   .size = { size, 1, 1 },
                                   .stride = { 1, 1, 1 },
                                   .dilation = { 1, 1, 1 },
                                   .begin = { (size - 1) / 2, 0, 0 },
                                   .taps = size,
                                   .pixels = input->dims[1] * pixels };
    vulkan_program program;
    uint32_t result;

    vulkan_program_start(build, &program, op->info.outputs[0], VULKAN_SINGLE);
    result = vulkan_add_slot(&program, OP_MUL, REG_ACC,
                             vulkan_literal(&program, kit_attr_float(&op->info, "alpha", 1e-4) / (double)size), 0);
    result =
        vulkan_add_slot(&program, OP_ADD, result, vulkan_literal(&program, kit_attr_float(&op->info, "bias", 1)), 0);
    result =
        vulkan_add_slot(&program, OP_POW, result, vulkan_literal(&program, kit_attr_float(&op->info, "beta", 0.75)), 0);
    (void)vulkan_add_slot(&program, OP_DIV, vulkan_load_value(build, &program, op->info.inputs[0]), result, 0);
    return vulkan_emit_windows(build, op, &program, POOL_SQUARES, &window);
}

inlay_status vulkan_emit_part_sums(vulkan_build *build, uint32_t parts, uint32_t from, const vulkan_program *program)
{
    const int64_t count = build->tensors[program->result].count;
    vulkan_dispatch *dispatch = vulkan_add_dispatch(build, SHADER_reduce, 20);

    dispatch->constants[ID_LOCAL] = VULKAN_GPU_WORKGROUP_SIZE;
    VULKAN_SET_CONSTANTS(dispatch, RED_SUM, 1, 0);
    vulkan_expect_bytes(build, dispatch, (double)count * parts, 4);
    VULKAN_SET_WORDS(build, dispatch, 0, count, parts, 1, 1, 1, count, 0, 0, 0, 1, 1, 1, 1, parts, 0, 0, 0, count);
    vulkan_set_input(build, dispatch, 0, from);
    return finish_sums(build, dispatch, program, 1, count);
}

vulkan_rows vulkan_rows_of(const vulkan_build *build, const vulkan_op *op, uint32_t kind, uint32_t axis)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    const int64_t length = vulkan_dims_product(input, axis, input->rank);

    vulkan_rows rows = { .kind = kind, .length = length, .inner = 1, .scale_rows = 1, .scale_per = 1 };

    rows.count = input->count / length;
    rows.epsilon = (float)kit_attr_float(&op->info, "epsilon", 1e-5);
    rows.scale = rows.bias = rows.skip = rows.skip_bias = rows.mean = rows.deviation = rows.sum = INLAY_NONE;
    return rows;
}

inlay_status vulkan_emit_rows(vulkan_build *build, const vulkan_op *op, const vulkan_rows *rows, uint32_t from)
{
    const uint32_t lanes = lanes_for(build, rows->length, rows->count);
    const uint32_t asked[] = { rows->mean, rows->sum != INLAY_NONE ? rows->sum : rows->deviation };
    const uint32_t scales[] = { rows->scale, rows->bias };
    const int64_t scale_count = (rows->scale_rows - 1) * rows->scale_step + rows->length / rows->scale_per;
    vulkan_program program;
    vulkan_dispatch *dispatch;

    INLAY_CHECK(rows->length > 0 && rows->scale_per > 0);
    for (uint32_t i = 0; i < 2; i++)
        if (scales[i] != INLAY_NONE && build->tensors[scales[i]].count != scale_count)
            return vulkan_decline(build, op, "its scales do not match rows, channels or groups");
    vulkan_program_start(build, &program, op->info.outputs[0], VULKAN_SINGLE);
    dispatch = vulkan_add_fused_dispatch(build, op, &program, SHADER_rows, 8);
    VULKAN_SET_CONSTANTS(dispatch, rows->kind, lanes, rows->scale != INLAY_NONE, rows->bias != INLAY_NONE,
                         rows->mean != INLAY_NONE, rows->deviation != INLAY_NONE,
                         rows->skip == INLAY_NONE        ? 0
                         : rows->skip_bias == INLAY_NONE ? 1
                                                         : 2,
                         rows->sum != INLAY_NONE ? vulkan_size_of(build->tensors[rows->sum].dtype) : 0,
                         build->tensors[from].parts);
    vulkan_expect_bytes(build, dispatch, (double)(rows->count * rows->length), 16);
    vulkan_require_rounds(build, op, 3 * (rows->length / lanes));
    VULKAN_SET_WORDS(build, dispatch, 0, rows->count, rows->length, rows->inner, vulkan_bits(rows->epsilon),
                     rows->scale_rows, rows->scale_step, rows->scale_per);
    vulkan_set_input(build, dispatch, 0, from);
    vulkan_set_input(build, dispatch, 1, rows->scale);
    vulkan_set_input(build, dispatch, 2, rows->bias);
    if (rows->skip != INLAY_NONE)
        vulkan_add_value_operand(build, dispatch, PUSH_OWN + 5, rows->skip, false);
    if (rows->skip_bias != INLAY_NONE)
        vulkan_add_value_operand(build, dispatch, PUSH_OWN + 3, rows->skip_bias, false);
    for (uint32_t i = 0; i < 2; i++)
        if (asked[i] != INLAY_NONE) {
            vulkan_allocate_value(build, asked[i]);
            vulkan_add_value_operand(build, dispatch, PUSH_OWN + 3 + i, asked[i], true);
        }
    return finish_sums(build, dispatch, &program, lanes, rows->count);
}

/* Softmax, LogSoftmax, Hardmax and LpNormalization: rows along one axis. */
static inlay_status lower_rows(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    const bool is_lp = op->row->family == &vulkan_lp_norm;
    const bool old =
        !is_lp && op->info.since_version < 13; /* early versions: all dimensions from the axis on are one row */
    const uint32_t kind = !is_lp ? op->row->number : kit_attr_int(&op->info, "p", 2) == 1 ? ROW_L1 : ROW_L2;
    vulkan_rows rows;
    uint32_t axis;

    if (!vulkan_axis_attribute(build, op, old ? 1 : -1, input->rank, &axis))
        return build->status;
    rows = vulkan_rows_of(build, op, kind, axis);
    if (!old) {
        rows.length = input->dims[axis];
        rows.inner = vulkan_dims_product(input, axis + 1, input->rank);
        rows.count = input->count / rows.length;
    }
    return vulkan_emit_rows(build, op, &rows, op->info.inputs[0]);
}

static inlay_status lower_layer_norm(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    uint32_t axis;
    vulkan_rows rows;

    if (!vulkan_axis_attribute(build, op, -1, input->rank, &axis))
        return build->status;
    rows = vulkan_rows_of(build, op, op->row->number, axis);
    rows.scale = vulkan_input_value(op, 1);
    rows.bias = vulkan_input_value(op, 2);
    rows.mean = vulkan_output_value(op, 1);
    rows.deviation = vulkan_output_value(op, 2);
    return vulkan_emit_rows(build, op, &rows, op->info.inputs[0]);
}

/* InstanceNormalization; number 1: GroupNormalization. */
static inlay_status lower_instance_norm(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    const int64_t groups = op->row->number != 0 ? kit_attr_int(&op->info, "num_groups", 1) : input->dims[1];
    const int64_t pixels = vulkan_dims_product(input, 2, input->rank);
    const bool by_group = op->row->number != 0 && op->info.since_version < 21;
    vulkan_rows rows = vulkan_rows_of(build, op, ROW_NORM, 1);

    if (groups < 1 || input->dims[1] % groups != 0)
        return vulkan_decline(build, op, "%lld groups of %lld channels", (long long)groups, (long long)input->dims[1]);
    rows.length = input->dims[1] / groups * pixels;
    rows.count = input->dims[0] * groups;
    rows.scale = vulkan_input_value(op, 1);
    rows.bias = vulkan_input_value(op, 2);
    rows.scale_rows = groups;
    rows.scale_step = by_group ? 1 : input->dims[1] / groups;
    rows.scale_per = by_group ? rows.length : pixels;
    return vulkan_emit_rows(build, op, &rows, op->info.inputs[0]);
}

static bool rows_support(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    (void)row;
    for (uint32_t i = 1; i < 3; i++)
        if (kit_output(node, i) != NULL && kit_output_dtype(node, i) != INLAY_FLOAT)
            return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "means must be floats");
    return true;
}

const vulkan_family vulkan_reduce = { .supports = reduce_supports, .lower = lower_reduce, .needs_known_inputs = true };
const vulkan_family vulkan_global_pool = { .lower = lower_global_pool, .min_rank = 3 };
const vulkan_family vulkan_pool = { .lower = lower_pool, .min_rank = 3, .max_rank = 5 };
const vulkan_family vulkan_lrn = { .lower = lower_lrn, .min_rank = 3 };
const vulkan_family vulkan_softmax = { .lower = lower_rows, .min_rank = 1 };
const vulkan_family vulkan_layer_norm = {
    .supports = rows_support, .lower = lower_layer_norm, .multiple_outputs = true, .min_rank = 1
};
const vulkan_family vulkan_instance_norm = { .lower = lower_instance_norm, .min_rank = 3 };
const vulkan_family vulkan_lp_norm = { .lower = lower_rows, .min_rank = 1 };
