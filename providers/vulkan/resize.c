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

static inlay_status put_table(vr_build *b, const resize_rule *rule, const resize_axis *a, bool weighted,
                              uint32_t *words)
{
    const int64_t taps = stays(a) ? 1 : resize_taps(rule, a), entries = taps * a->out;
    int32_t *index = malloc(((size_t)entries + 1) * sizeof *index);
    double *weight = malloc(((size_t)entries + 1) * sizeof *weight);
    const resize_table table = { .taps = taps, .index = index, .weight = weighted ? weight : NULL };
    inlay_status status = INLAY_OK;

    if (index == NULL || weight == NULL) {
        status = inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for the tables of a Resize");
        goto done;
    }
    if (!stays(a))
        resize_table_fill(rule, a, &table);
    for (int64_t i = 0; i < entries; i++) {
        const float f = stays(a) || !weighted ? 1.0f : (float)weight[i];
        const int32_t at = stays(a) ? (int32_t)i : index[i];

        memcpy(&words[i], &at, sizeof at);
        memcpy(&words[entries + i], &f, sizeof f);
    }
done:
    free(index);
    free(weight);
    return status;
}

static inlay_status lower_resize(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *y = vr_out(b, op, 0);
    const float outside = (float)kit_attr_float(&op->info, "extrapolation_value", 0);
    resize_rule rule;
    resize_axis axes[VR_RANK];
    kit_refusal why;
    vr_program p;
    vr_dispatch *d;
    int64_t words_count = FIRST_TABLE, stride = 1;
    uint32_t rank, *w;
    inlay_status status;

    if (!resize_rule_read(&op->info, false, &rule, &why) || !read_resize(b, op, &rule, axes))
        return vr_decline(b, op, "its scales are not known before the run");
    rank = merge_leading(axes, x->rank);
    if (rank > MOST_AXES)
        return vr_decline(b, op, "it resizes more than %d axes", MOST_AXES);
    for (uint32_t i = 0; i < rank; i++)
        words_count += 2 * axes[i].out * (stays(&axes[i]) ? 1 : resize_taps(&rule, &axes[i]));
    if (words_count > 1 << 24)
        return vr_decline(b, op, "its filter has too many taps");
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    d = vr_skeleton(b, o, &p, SHADER_resize, (uint32_t)words_count, &status);
    if (d == NULL)
        return status;
    d->constants[ID_LOAD] = vr_element(x->dtype);
    d->constants[ID_OWN + 1] = rule.mode != RESIZE_NEAREST;
    d->constants[ID_OWN + 2] = rank;
    w = vr_words(b, d);
    w[0] = (uint32_t)y->count;
    memcpy(&w[1], &outside, sizeof outside);
    words_count = FIRST_TABLE;
    for (uint32_t i = rank; i-- > 0 && status == INLAY_OK; stride *= axes[i].in) {
        const int64_t taps = stays(&axes[i]) ? 1 : resize_taps(&rule, &axes[i]);

        w[2 + i] = (uint32_t)axes[i].out;
        w[8 + i] = (uint32_t)stride;
        w[14 + i] = (uint32_t)taps;
        w[20 + i] = WORD_OWN + (uint32_t)words_count;
        status = put_table(b, &rule, &axes[i], rule.mode != RESIZE_NEAREST, &w[words_count]);
        words_count += 2 * taps * axes[i].out;
        d->ns = (d->ns > 0 ? d->ns : 1) * (double)taps;
    }
    d->ns *= (double)y->count * 4 / b->c->state->bytes_per_ns;
    vr_value_at(b, d, PUSH_OWN, op->info.inputs[0], false);
    return status == INLAY_OK ? vr_finish_each(b, d, &p, y->count) : status;
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

const vr_family vr_resize = { resize_supports, lower_resize, NULL };
