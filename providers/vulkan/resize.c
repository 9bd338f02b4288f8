/* Resize and Upsample by tables of taps, one per axis. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include "common/resize_rows.h"
#include <stdlib.h>

enum { MAX_AXES = 6, FIRST_TABLE = 26 };

/* The elements of a float input; NULL: they are not known, or their number is not `count`. */
static const float *floats_of(const vulkan_build *build, const vulkan_op *op, uint32_t input, uint32_t count)
{
    const vulkan_tensor *tensor = vulkan_input(build, op, input);

    return tensor != NULL && tensor->dtype == INLAY_FLOAT && tensor->count == count ? tensor->data : NULL;
}

/* Reads the sizes and scales of all axes. Upsample-9 and Resize-10 have scales at input 1; later versions have inputs
 * roi, scales and sizes; Upsample-7 has an attribute. false: a required input is not known. */
static bool read_resize(const vulkan_build *build, const vulkan_op *op, const resize_rule *rule, resize_axis *axes)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0), *output = vulkan_output(build, op, 0);
    const uint32_t at = op->info.since_version < 11 ? 1 : 2;
    const inlay_attr_info *attr = kit_attr(&op->info, "scales");
    const bool by_scale =
        attr != NULL || (vulkan_input(build, op, at) != NULL && vulkan_input(build, op, at)->count > 0);
    const bool crops = rule->coordinates == RESIZE_TF_CROP_AND_RESIZE;
    uint32_t count = 0;
    const int64_t *list = kit_attr_ints(&op->info, "axes", &count);
    const float *scales, *roi;

    count = list != NULL && count <= input->rank ? count : input->rank;
    scales = attr == NULL ? floats_of(build, op, at, count) : attr->count == count ? attr->floats : NULL;
    roi = floats_of(build, op, 1, 2 * count);
    if ((by_scale && scales == NULL) || (crops && roi == NULL))
        return false;
    for (uint32_t d = 0; d < input->rank; d++)
        axes[d] =
            (resize_axis){ .in = input->dims[d], .out = output->dims[d], .scale = 1, .exact = true, .roi_end = 1 };
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = i;
        float part[3] = { 0, 0, 1 }; /* copied by memcpy(), because constants may be unaligned */

        if (list != NULL && !vulkan_axis(list[i], input->rank, &axis))
            return false;
        if (by_scale)
            memcpy(&part[0], scales + i, sizeof part[0]);
        if (crops) {
            memcpy(&part[1], roi + i, sizeof part[1]);
            memcpy(&part[2], roi + count + i, sizeof part[2]);
        }
        resize_axis *a = &axes[axis];
        a->scale = by_scale ? (double)part[0] : (double)a->out / (double)a->in;
        a->exact = !by_scale || (a->scale == 1 && a->in == a->out);
        a->roi_begin = (double)part[1];
        a->roi_end = (double)part[2];
    }
    return true;
}

/* Writes the words of one axis of the result. taps 0: the axis is not resized. */
static void set_axis_words(const vulkan_build *build, const vulkan_dispatch *dispatch, uint32_t i,
                           const int64_t words[4])
{
    for (uint32_t k = 0; k < 4; k++)
        VULKAN_SET_WORDS(build, dispatch, 2 + 6 * k + i, words[k]);
}

/* Writes the tables of plan: the taps of each axis, then their weights. */
static inlay_status set_table_words(vulkan_build *build, const vulkan_dispatch *dispatch, const resize_rule *rule,
                                    resize_plan *plan)
{
    void *memory = malloc(plan->table_bytes + 1);
    int64_t at = FIRST_TABLE;

    INLAY_CHECK(plan->rank < MAX_AXES);
    if (memory == NULL)
        return build->status = inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for the tables of a Resize");
    resize_plan_fill(plan, rule, memory);
    for (uint32_t i = 0; i < plan->rank; i++) {
        const resize_table *table = &plan->tables[i];
        const int64_t entries = table->taps * plan->axes[i].out;

        set_axis_words(build, dispatch, i,
                       (int64_t[]){ plan->axes[i].out, plan->strides[i], table->taps, WORD_OWN + at });
        for (int64_t e = 0; e < entries; e++) {
            VULKAN_SET_WORDS(build, dispatch, (uint32_t)(at + e), table->index[e]);
            VULKAN_SET_WORDS(build, dispatch, (uint32_t)(at + entries + e),
                             vulkan_bits(table->weight != NULL ? (float)table->weight[e] : 1.0f));
        }
        at += 2 * entries;
    }
    free(memory);
    return build->status;
}

static inlay_status lower_resize(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    const int64_t count = vulkan_output(build, op, 0)->count;
    const float outside = (float)kit_attr_float(&op->info, "extrapolation_value", 0);
    resize_rule rule;
    resize_axis axes[VULKAN_RANK];
    resize_plan plan = { .rank = 0 };
    kit_refusal why;
    vulkan_program program;
    vulkan_dispatch *dispatch;
    double words = FIRST_TABLE, taps = 1;

    if (!resize_rule_read(&op->info, false, &rule, &why) || !read_resize(build, op, &rule, axes))
        return vulkan_decline(build, op, "its scales are not known before the run");
    resize_plan_axes(&plan, &rule, axes, input->rank, 1);
    for (uint32_t i = 0; i < plan.rank; i++) {
        words += 2.0 * (double)plan.axes[i].out * (double)plan.tables[i].taps;
        taps *= plan.tables[i].taps > 0 ? (double)plan.tables[i].taps : 1;
    }
    if (plan.rank >= MAX_AXES || words > 1 << 24 || !resize_plan_count(&plan, &rule))
        return vulkan_decline(build, op, "it resizes more than %d axes, or its filter has too many taps", MAX_AXES - 1);
    vulkan_program_start(build, &program, op->info.outputs[0], VULKAN_SINGLE);
    dispatch = vulkan_add_fused_dispatch(build, op, &program, SHADER_resize, (uint32_t)words);
    VULKAN_SET_CONSTANTS(dispatch, rule.mode != RESIZE_NEAREST, plan.rank + 1);
    VULKAN_SET_WORDS(build, dispatch, 0, count, vulkan_bits(outside));
    set_axis_words(build, dispatch, plan.rank, (int64_t[]){ plan.rank > 0 ? plan.inner : input->count, 1, 0, 0 });
    (void)set_table_words(build, dispatch, &rule, &plan);
    vulkan_expect_bytes(build, dispatch, (double)count, 4.0 * taps);
    vulkan_require_rounds(build, op, (int64_t)taps);
    vulkan_set_input(build, dispatch, 0, op->info.inputs[0]);
    return vulkan_finish_each(build, dispatch, &program, count);
}

static bool resize_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    resize_rule rule;

    (void)row;
    return resize_rule_read(node->info, false, &rule, why) &&
           (rule.policy == RESIZE_STRETCH ||
            kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use keep_aspect_ratio_policy stretch",
                       "keep_aspect_ratio_policy other than stretch is not supported"));
}

const vulkan_family vulkan_resize = {
    .supports = resize_supports, .lower = lower_resize, .needs_known_inputs = true, .min_rank = 1
};
