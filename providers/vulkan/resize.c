/* Resize and Upsample: tables of taps, an axis each, that the shader walks through. */
#include "region.h"
#include "resize_rows.h"
#include <stdlib.h>

enum { MOST_AXES = 6, FIRST_TABLE = 26 };

/* Which input holds what: Upsample-9 and Resize-10 have scales at 1; later ones roi, scales, sizes. */
static uint32_t scales_input(const inlay_node_info *node)
{
    return node->since_version < 11 ? 1 : 2;
}

/* Reads the floats of an input; false: not known, or of another number. */
static bool read_floats(const vr_build *b, const vr_op *op, uint32_t input, float *out, uint32_t count)
{
    const vr_tensor *t = vr_in(b, op, input);

    if (t == NULL || t->data == NULL || t->dtype != INLAY_FLOAT || t->count != count)
        return false;
    memcpy(out, t->data, count * sizeof *out);
    return true;
}

/* Axes that the attribute axes names, all by default. */
static bool read_axes(const vr_op *op, uint32_t rank, uint32_t *axes, uint32_t *out_count)
{
    uint32_t count = 0;
    const int64_t *list = kit_attr_ints(&op->info, "axes", &count);

    *out_count = list != NULL && count <= rank ? count : rank;
    for (uint32_t i = 0; i < *out_count; i++) {
        axes[i] = i;
        if (list != NULL && !vr_axis(list[i], rank, &axes[i]))
            return false;
    }
    return true;
}

static bool read_resize(const vr_build *b, const vr_op *op, const resize_rule *rule, resize_axis *axes)
{
    const vr_tensor *x = vr_in(b, op, 0), *y = vr_out(b, op, 0);
    uint32_t list[VR_RANK], count, attr_count = 0;
    float scales[VR_RANK], roi[2 * VR_RANK];
    const inlay_attr_info *attr = kit_attr(&op->info, "scales");
    const vr_tensor *given = vr_in(b, op, scales_input(&op->info));
    bool by_scale = attr != NULL || (given != NULL && given->count > 0);

    if (!read_axes(op, x->rank, list, &count))
        return false;
    attr_count = attr != NULL ? attr->count : 0;
    if (attr != NULL && attr_count == count)
        memcpy(scales, attr->floats, count * sizeof *scales);
    else if (by_scale && !read_floats(b, op, scales_input(&op->info), scales, count))
        return false;
    for (uint32_t d = 0; d < x->rank; d++)
        axes[d] = (resize_axis){ .in = x->dims[d], .out = y->dims[d], .scale = 1, .exact = true, .roi_end = 1 };
    for (uint32_t i = 0; i < count; i++) {
        resize_axis *a = &axes[list[i]];

        a->scale = by_scale ? (double)scales[i] : (double)a->out / (double)a->in;
        a->exact = !by_scale || (a->scale == 1 && a->in == a->out);
    }
    if (rule->coordinates != RESIZE_TF_CROP_AND_RESIZE)
        return true;
    if (!read_floats(b, op, 1, roi, 2 * count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        axes[list[i]].roi_begin = (double)roi[i];
        axes[list[i]].roi_end = (double)roi[count + i];
    }
    return true;
}

/* An axis of the result as words say it: taps 0: its elements stay where they are. */
static void put_axis(const vr_build *b, const vr_dispatch *d, uint32_t i, const int64_t words[4])
{
    for (uint32_t k = 0; k < 4; k++)
        VR_PUT(b, d, 2 + 6 * k + i, words[k]);
}

/* Tables of plan: taps of each axis, then their weights. */
static inlay_status put_tables(vr_build *b, const vr_dispatch *d, const resize_rule *rule, resize_plan *plan)
{
    void *memory = malloc(plan->table_bytes + 1);
    int64_t at = FIRST_TABLE;

    if (memory == NULL)
        return b->status = inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for the tables of a Resize");
    resize_plan_fill(plan, rule, memory);
    for (uint32_t i = 0; i < plan->rank; i++) {
        const resize_table *t = &plan->tables[i];
        const int64_t entries = t->taps * plan->axes[i].out;

        put_axis(b, d, i, (int64_t[]){ plan->axes[i].out, plan->strides[i], t->taps, WORD_OWN + at });
        for (int64_t e = 0; e < entries; e++) {
            VR_PUT(b, d, (uint32_t)(at + e), t->index[e]);
            VR_PUT(b, d, (uint32_t)(at + entries + e), vr_bits(t->weight != NULL ? (float)t->weight[e] : 1.0f));
        }
        at += 2 * entries;
    }
    free(memory);
    return b->status;
}

static inlay_status lower_resize(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0);
    const int64_t count = vr_out(b, op, 0)->count;
    const float outside = (float)kit_attr_float(&op->info, "extrapolation_value", 0);
    resize_rule rule;
    resize_axis axes[VR_RANK];
    resize_plan plan = { .rank = 0 };
    kit_refusal why;
    vr_program p;
    vr_dispatch *d;
    double words = FIRST_TABLE, taps = 1;

    if (!resize_rule_read(&op->info, false, &rule, &why) || !read_resize(b, op, &rule, axes))
        return vr_decline(b, op, "its scales are not known before the run");
    resize_plan_axes(&plan, &rule, axes, x->rank, 1);
    for (uint32_t i = 0; i < plan.rank; i++) {
        words += 2.0 * (double)plan.axes[i].out * (double)plan.tables[i].taps;
        taps *= plan.tables[i].taps > 0 ? (double)plan.tables[i].taps : 1;
    }
    if (plan.rank >= MOST_AXES || words > 1 << 24 || !resize_plan_count(&plan, &rule))
        return vr_decline(b, op, "it resizes more than %d axes, or its filter has too many taps", MOST_AXES - 1);
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    d = vr_skeleton(b, op, &p, SHADER_resize, (uint32_t)words);
    VR_OWN(d, rule.mode != RESIZE_NEAREST, plan.rank + 1);
    VR_PUT(b, d, 0, count, vr_bits(outside));
    put_axis(b, d, plan.rank, (int64_t[]){ plan.rank > 0 ? plan.inner : x->count, 1, 0, 0 });
    (void)put_tables(b, d, &rule, &plan);
    vr_expect_bytes(b, d, (double)count, 4.0 * taps);
    vr_read(b, d, 0, op->info.inputs[0]);
    return vr_finish_each(b, d, &p, count);
}

static bool resize_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    resize_rule rule;

    if (!vr_has_types(node, 0, row->types, why) || !resize_rule_read(node->info, false, &rule, why))
        return false;
    if (rule.policy != RESIZE_STRETCH)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use keep_aspect_ratio_policy stretch",
                          "sizes that follow from the aspect ratio");
    for (uint32_t i = 1; i < node->info->input_count; i++)
        if (!vr_is_known(node, i, why))
            return false;
    return kit_input(node, 0)->rank > 0;
}

const vr_family vr_resize = { .supports = resize_supports, .lower = lower_resize, .own_types = true };
