/* Resize-10..19 and Upsample-7..9 in the layout of the input. With channels last, the channels of a pixel share its
 * weights, which are computed once. The loops are shared by all providers (common/resize_rows.h). */
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
#include "common/resize_rows.h"
#include <math.h>

/* An input; NULL if it is omitted or an empty tensor, which means the same. */
static const inlay_value_info *input_of(const kit_node *node, uint32_t i)
{
    const inlay_value_info *value = kit_input(node, i);
    bool empty =
        value != NULL && value->rank == 1 && value->dims[0].kind == INLAY_DIM_FIXED && value->dims[0].value == 0;

    return empty ? NULL : value;
}

static bool read_scales(const kit_node *node, uint32_t rank, cpu_op *op, kit_refusal *why)
{
    bool upsample = kit_op_type(node)[0] == 'U', old = upsample || kit_since_version(node) < 11;
    const inlay_attr_info *given = kit_attr(node->info, "scales"), *axes = kit_attr(node->info, "axes");
    const inlay_value_info *input = upsample && kit_since_version(node) < 9 ? NULL : input_of(node, old ? 1 : 2);
    uint32_t count = 0;
    float list[CPU_MAX_RANK];

    if (!old && input_of(node, 3) != NULL)
        return true; /* with `sizes`, the output's shape suffices */
    if (upsample && kit_since_version(node) < 9) {
        if (given == NULL || given->kind != INLAY_ATTR_FLOATS || given->count != rank)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "scales do not fit the input");
        memcpy(list, given->floats, rank * sizeof *list);
        count = rank;
    } else {
        if (input == NULL || input->data == NULL || input->dtype != INLAY_FLOAT ||
            input->data_bytes > CPU_MAX_RANK * sizeof *list)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "make the scales a constant, or give sizes",
                              "the scales are not constant");
        count = (uint32_t)(input->data_bytes / sizeof *list);
        memcpy(list, input->data, count * sizeof *list);
    }
    if (count != (axes != NULL ? axes->count : rank))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the number of scales differs from the number of axes");
    op->resize.scaled = true;
    for (uint32_t d = 0; d < rank; d++)
        op->resize.scales[d] = 1;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = i;

        if (axes != NULL && (axes->kind != INLAY_ATTR_INTS || !cpu_axis(axes->ints[i], rank, &axis)))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "an axis is outside the tensor");
        if (!(list[i] > 0) || !isfinite(list[i]))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "a scale is not positive");
        op->resize.scales[axis] = list[i];
    }
    return true;
}

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);

    if (!cpu_known_rank(input, 2, CPU_MAX_RANK, "input 0", why) ||
        !resize_rule_read(node->info, false, &op->resize.rule, why))
        return false;
    if (op->resize.rule.coordinates == RESIZE_TF_CROP_AND_RESIZE)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use another coordinate_transformation_mode",
                          "tf_crop_and_resize is not supported");
    if (op->resize.rule.policy != RESIZE_STRETCH)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use keep_aspect_ratio_policy stretch",
                          "sizes that depend on the aspect ratio are not supported");
    return read_scales(node, input->rank, op, why);
}

typedef struct resize_loop {
    cpu_native native;
    bool copies;      /* mode nearest */
    uint32_t elem;    /* mode nearest: bytes of an element */
    resize_plan plan; /* the tables of the plan follow this struct */
} resize_loop;

struct call {
    const resize_loop *loop;
    const float *input;
    float *output;
    char *scratch;
};

enum { GRAIN = 1 << 11 };

static inlay_status run_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *call = user;
    const resize_plan *plan = &call->loop->plan;

    if (call->loop->copies)
        resize_copy_rows(plan, call->loop->elem, call->input, call->output, NULL, begin, end);
    else
        resize_rows_of(INLAY_FLOAT)(plan, call->input, call->output, begin, end,
                                    call->scratch + worker * plan->scratch_bytes);
    return INLAY_OK;
}

static inlay_status run_loop(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const resize_loop *loop = (const resize_loop *)(const void *)native;
    const resize_axis *last = &loop->plan.axes[loop->plan.rank - 1];
    struct call call = { loop, args[0], args[1], loop->copies ? NULL : args[2] };
    int64_t grain = GRAIN / (last->out * loop->plan.inner + 1) + 1;

    if (threads <= 1 || loop->plan.rows <= grain)
        return run_range(&call, 0, loop->plan.rows, 0);
    return state->host->parallel_for(state->host->ctx, run, loop->plan.rows, grain, run_range, &call);
}

static resize_axis axis_of(const cpu_build *build, uint32_t d)
{
    const cpu_op *op = build->op;
    int64_t in = build->dims[op->in[0]][d], out = build->dims[op->out[0]][d];
    double scale = op->resize.scaled ? (double)op->resize.scales[d] : (double)out / (double)in;

    INLAY_CHECK(in > 0);
    return (resize_axis){
        .in = in, .out = out, .scale = scale, .exact = !op->resize.scaled || (scale == 1 && in == out), .roi_end = 1
    };
}

static bool is_unchanged(const resize_axis *axis)
{
    return axis->in == axis->out && axis->exact;
}

/* Chooses layouts of input and output that are close to the input's present layout, and in which only the spatial axes
 * are resized. false: both are row-major. */
static bool image_layouts(const cpu_build *build, const tensor_layout *input, tensor_layout *out_x,
                          tensor_layout *out_y)
{
    uint32_t from = build->op->in[0], to = build->op->out[0], rank = build->ranks[to];
    resize_axis batch = axis_of(build, 0), channels = axis_of(build, 1);

    layout_plain(out_x, rank, build->dims[from]);
    layout_plain(out_y, rank, build->dims[to]);
    if (rank < 3 || rank > 5 || !is_unchanged(&batch) || !is_unchanged(&channels) || layout_is_plain(input) ||
        input->kind != LAYOUT_STRIDED)
        return false;
    if (input->strides[1] != 1 || input->dims[1] < 2)
        return false;
    layout_channels_last(out_x, rank, build->dims[from]);
    layout_channels_last(out_y, rank, build->dims[to]);
    return true;
}

/* The axes of the loop for this layout of the input, and the number of innermost elements that share weights. */
static uint32_t axes_along(const cpu_build *build, const tensor_layout *input, bool image, resize_axis *axes,
                           int64_t *out_inner)
{
    uint32_t rank = build->ranks[build->op->out[0]], count = 0;
    const int64_t outer = input->dims[0];

    *out_inner = 1;
    if (!image) {
        for (; count < rank; count++)
            axes[count] = axis_of(build, count);
        return count;
    }
    *out_inner = input->dims[1];
    axes[count++] = (resize_axis){ .in = outer, .out = outer, .scale = 1, .exact = true, .roi_end = 1 };
    for (uint32_t d = 2; d < rank; d++)
        axes[count++] = axis_of(build, d);
    return count;
}

static inlay_status make_loop(const cpu_build *build, const resize_axis *axes, uint32_t rank, int64_t inner,
                              resize_loop **out)
{
    resize_rule rule = build->op->resize.rule;
    resize_plan plan = { 0 };

    *out = NULL;
    for (uint32_t d = 0; d < rank; d++)
        if (axes[d].in > INT32_MAX || axes[d].out > INT32_MAX)
            return inlay_fail(build->diag, INLAY_LIMIT_EXCEEDED, "node '%s': an axis is longer than 2^31 - 1",
                              build->op->name);
    resize_plan_axes(&plan, &rule, axes, rank, inner);
    if (plan.rank == 0)
        return INLAY_OK;
    if (!resize_plan_count(&plan, &rule))
        return inlay_fail(build->diag, INLAY_LIMIT_EXCEEDED, "node '%s': the filter is too large", build->op->name);
    *out = malloc(sizeof **out + plan.table_bytes);
    if (*out == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for the tables of node '%s'", build->op->name);
    **out = (resize_loop){
        .native.run = run_loop, .copies = rule.mode == RESIZE_NEAREST, .elem = sizeof(float), .plan = plan
    };
    resize_plan_fill(&(*out)->plan, &rule, *out + 1);
    return INLAY_OK;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    uint32_t count;
    int64_t scratch_count, inner;
    resize_axis axes[CPU_MAX_RANK];
    const cpu_place *places[3];
    cpu_place input, output, scratch;
    resize_loop *loop = NULL;
    tensor_layout x_layout, y_layout;
    inlay_status status;
    bool image;

    INLAY_TRY(cpu_read(build, op->in[0], &input));
    if (cpu_count(build, op->in[0]) == 0)
        return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH, "node '%s': the input is empty", op->name);
    image = image_layouts(build, &input.layout, &x_layout, &y_layout);
    INLAY_TRY(cpu_read_as(build, op->in[0], &x_layout, &input));
    count = axes_along(build, &x_layout, image, axes, &inner);
    INLAY_TRY(make_loop(build, axes, count, inner, &loop));
    if (loop == NULL) { /* no axis changes */
        input.layout = y_layout;
        return cpu_set_place(build, group->out, &input);
    }
    INLAY_TRY(cpu_result_place(build, group->out, &y_layout, &output));
    INLAY_CHECK(build->instance->threads > 0);
    places[0] = &input;
    places[1] = &output;
    if (!loop->copies) {
        scratch_count = (int64_t)(loop->plan.scratch_bytes / sizeof(float) * build->instance->threads);
        INLAY_TRY(cpu_new_floats(build, scratch_count, &scratch));
        places[2] = &scratch;
    }
    status = cpu_emit_native(build, &loop->native, places, loop->copies ? 2 : 3);
    loop = NULL; /* owned by the step, or freed on failure */
    if (status == INLAY_OK)
        status = cpu_set_place(build, group->out, &output);
done:
    free(loop);
    return status;
}

const cpu_family cpu_resize = { .kind = CPU_FAMILY_RESIZE, .name = "resize", .parse = parse, .lower = lower };
