/* Resize and Upsample: tables of taps, an axis each, that the shader walks through. */
#include "region.h"
#include "resize_table.h"
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

static bool stays(const resize_axis *a)
{
    return a->in == a->out && a->exact && a->roi_begin == 0 && a->roi_end == 1;
}

/* Leading axes that stay become one; at least one remains. */
static uint32_t merge_leading(resize_axis *axes, uint32_t rank)
{
    uint32_t first = 0;
    int64_t outer = 1;

    while (first + 1 < rank && stays(&axes[first]))
        outer *= axes[first++].in;
    if (first > 1) {
        memmove(axes + 1, axes + first, (rank - first) * sizeof *axes);
        axes[0] = (resize_axis){ .in = outer, .out = outer, .scale = 1, .exact = true, .roi_end = 1 };
        return rank - first + 1;
    }
    return rank;
}

/* Taps of an axis, then their weights; *at is the first word, and then the one behind. */
static void put_table(vr_build *b, const vr_dispatch *d, const resize_rule *rule, const resize_axis *a, int64_t taps,
                      int64_t *at)
{
    const size_t entries = (size_t)(taps * a->out);
    int32_t *index = malloc((entries + 1) * sizeof *index);
    double *weight = malloc((entries + 1) * sizeof *weight);
    const resize_table table = { .taps = taps, .index = index, .weight = rule->mode != RESIZE_NEAREST ? weight : NULL };

    if (b->status == INLAY_OK && (index == NULL || weight == NULL))
        b->status = inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for the tables of a Resize");
    if (b->status == INLAY_OK && !stays(a))
        resize_table_fill(rule, a, &table);
    for (size_t i = 0; i < entries && b->status == INLAY_OK; i++) {
        VR_PUT(b, d, (uint32_t)(*at + (int64_t)i), stays(a) ? (int32_t)i : index[i]);
        VR_PUT(b, d, (uint32_t)(*at + (int64_t)(entries + i)),
               vr_bits(stays(a) || table.weight == NULL ? 1.0f : (float)weight[i]));
    }
    *at += (int64_t)(2 * entries);
    free(index);
    free(weight);
}

static inlay_status lower_resize(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0);
    const int64_t count = vr_out(b, op, 0)->count;
    const float outside = (float)kit_attr_float(&op->info, "extrapolation_value", 0);
    resize_rule rule;
    resize_axis axes[VR_RANK];
    kit_refusal why;
    vr_program p;
    vr_dispatch *d;
    int64_t taps[MOST_AXES], words = FIRST_TABLE, at = FIRST_TABLE, stride = 1, all_taps = 1;
    uint32_t rank;

    if (!resize_rule_read(&op->info, false, &rule, &why) || !read_resize(b, op, &rule, axes))
        return vr_decline(b, op, "its scales are not known before the run");
    rank = merge_leading(axes, x->rank);
    if (rank > MOST_AXES)
        return vr_decline(b, op, "it resizes more than %d axes", MOST_AXES);
    for (uint32_t i = 0; i < rank; i++) {
        taps[i] = stays(&axes[i]) ? 1 : resize_taps(&rule, &axes[i]);
        words += 2 * axes[i].out * taps[i];
    }
    if (words > 1 << 24)
        return vr_decline(b, op, "its filter has too many taps");
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    d = vr_skeleton(b, op, &p, SHADER_resize, (uint32_t)words);
    VR_OWN(d, rule.mode != RESIZE_NEAREST, rank);
    VR_PUT(b, d, 0, count, vr_bits(outside));
    for (uint32_t i = rank; i-- > 0; stride *= axes[i].in) {
        VR_PUT(b, d, 2 + i, axes[i].out);
        VR_PUT(b, d, 8 + i, stride);
        VR_PUT(b, d, 14 + i, taps[i]);
        VR_PUT(b, d, 20 + i, WORD_OWN + at);
        put_table(b, d, &rule, &axes[i], taps[i], &at);
        all_taps *= taps[i];
    }
    vr_expect_bytes(b, d, (double)count, 4.0 * (double)all_taps);
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
