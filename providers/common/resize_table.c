/* resize_table.c - attributes, coordinates and coefficients of Resize (ONNX Resize-10 to 19, Upsample-1 to 9). */
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/kit_node.h"
#include "inlay/kit_table.h"
#include "common/resize_table.h"
#include <math.h>

typedef struct resize_word {
    const char *text;
    uint32_t value;
} resize_word;

static const resize_word resize_modes[] = {
    { "nearest", RESIZE_NEAREST },
    { "linear", RESIZE_LINEAR },
    { "bilinear", RESIZE_LINEAR },
    { "cubic", RESIZE_CUBIC },
};
static const resize_word resize_coordinates[] = {
    { "half_pixel", RESIZE_HALF_PIXEL },
    { "half_pixel_symmetric", RESIZE_HALF_PIXEL_SYMMETRIC },
    { "pytorch_half_pixel", RESIZE_PYTORCH_HALF_PIXEL },
    { "align_corners", RESIZE_ALIGN_CORNERS },
    { "asymmetric", RESIZE_ASYMMETRIC },
    { "tf_half_pixel_for_nn", RESIZE_TF_HALF_PIXEL_FOR_NN },
    { "tf_crop_and_resize", RESIZE_TF_CROP_AND_RESIZE },
};
static const resize_word resize_roundings[] = {
    { "round_prefer_floor", RESIZE_ROUND_PREFER_FLOOR },
    { "round_prefer_ceil", RESIZE_ROUND_PREFER_CEIL },
    { "floor", RESIZE_FLOOR },
    { "ceil", RESIZE_CEIL },
};
static const resize_word resize_policies[] = {
    { "stretch", RESIZE_STRETCH },
    { "not_larger", RESIZE_NOT_LARGER },
    { "not_smaller", RESIZE_NOT_SMALLER },
};

static bool resize_word_find(const inlay_node_info *node, const char *name, const char *otherwise,
                             const resize_word *words, uint32_t count, uint32_t *out_value, kit_refusal *why)
{
    const char *text = kit_attr_string(node, name, otherwise);

    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(text, words[i].text) == 0) {
            *out_value = words[i].value;
            return true;
        }
    }
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "a value that ONNX defines", "%s is '%.40s', which is not supported",
                      name, text);
}

#define WORDS(name, otherwise, words, out) resize_word_find(node, name, otherwise, words, KIT_COUNT(words), out, why)

bool resize_rule_read(const inlay_node_info *node, bool strings, resize_rule *out, kit_refusal *why)
{
    bool old = node->op_type.data[0] == 'U' || node->since_version < 11;

    if (!WORDS("mode", "nearest", resize_modes, &out->mode) ||
        !WORDS("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel", resize_coordinates,
               &out->coordinates) ||
        !WORDS("nearest_mode", old ? "floor" : "round_prefer_floor", resize_roundings, &out->rounding) ||
        !WORDS("keep_aspect_ratio_policy", "stretch", resize_policies, &out->policy))
        return false;
    if (old && node->op_type.data[0] == 'R')
        out->rounding = RESIZE_SIMPLE;
    if (out->mode != RESIZE_NEAREST && strings)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "mode nearest", "strings cannot be interpolated");
    out->antialias = kit_attr_int(node, "antialias", 0) != 0;
    out->exclude_outside = kit_attr_int(node, "exclude_outside", 0) != 0;
    out->cubic_a = kit_attr_float(node, "cubic_coeff_a", -0.75);
    return true;
}

/* The nearest pixel may depend on the last bit of a coordinate. Therefore coordinates of mode nearest are computed in
 * float, as in ONNX's definition and ONNX Runtime, while x is so small that floats represent multiples of 0.5. */
static bool resize_in_float(const resize_rule *rule, double x)
{
    return rule->mode == RESIZE_NEAREST && fabs(x) < 0x1p22;
}

/* Converts a distance of the output to the input. */
static double resize_shrunk(const resize_rule *rule, const resize_axis *axis, double x)
{
    if (axis->exact)
        return x * (double)axis->in / (double)axis->out;
    return resize_in_float(rule, x) ? (double)((float)x / (float)axis->scale) : x / axis->scale;
}

/* The input coordinate of tf_crop_and_resize; a single output element samples the middle of the region. */
static double resize_cropped(const resize_rule *rule, const resize_axis *axis, double x)
{
    const float begin = (float)axis->roi_begin, end = (float)axis->roi_end, last = (float)(axis->in - 1);
    const double span = (axis->roi_end - axis->roi_begin) * (double)(axis->in - 1),
                 first = axis->roi_begin * (double)(axis->in - 1);

    if (axis->out == 1)
        return first + span / 2;
    if (resize_in_float(rule, x))
        return (double)(begin * last + (float)x * (end - begin) * last / (float)(axis->out - 1));
    return first + x * span / (double)(axis->out - 1);
}

/* The input coordinate that output element x samples. Lengths are the integer lengths of the tensors, even if the
 * product of the input's length and the scale is not an integer. *out_outside: it is outside of tf_crop_and_resize's
 * input. */
static double resize_coordinate(const resize_rule *rule, const resize_axis *axis, int64_t x, bool *out_outside)
{
    const double in = (double)axis->in, out = (double)axis->out;
    double at;

    *out_outside = false;
    switch (rule->coordinates) {
    case RESIZE_ALIGN_CORNERS:
        return axis->out == 1 ? 0 : (double)x * (in - 1) / (out - 1);
    case RESIZE_ASYMMETRIC:
        return resize_shrunk(rule, axis, (double)x);
    case RESIZE_TF_CROP_AND_RESIZE:
        at = resize_cropped(rule, axis, (double)x);
        *out_outside = !(at >= 0 && at <= in - 1);
        return *out_outside ? 0 : at;
    case RESIZE_PYTORCH_HALF_PIXEL:
        if (axis->out == 1)
            return 0;
        break;
    case RESIZE_HALF_PIXEL_SYMMETRIC: /* the definition, with the distance from the centre as one quotient */
        return (in - 1) / 2 + resize_shrunk(rule, axis, (double)x + 0.5 - out / 2);
    case RESIZE_TF_HALF_PIXEL_FOR_NN:
        return resize_shrunk(rule, axis, (double)x + 0.5);
    default:
        break;
    }
    return resize_shrunk(rule, axis, (double)x + 0.5) - 0.5;
}

static double resize_round(const resize_rule *rule, const resize_axis *axis, double at)
{
    double low = floor(at);

    switch (rule->rounding) {
    case RESIZE_FLOOR:
        return low;
    case RESIZE_CEIL:
        return ceil(at);
    case RESIZE_SIMPLE:
        return axis->scale < 1 ? ceil(at) : low;
    case RESIZE_ROUND_PREFER_CEIL:
        return at - low < 0.5 ? low : low + 1;
    default:
        return at - low <= 0.5 ? low : low + 1;
    }
}

/* The scale by which antialiasing widens the filter. */
static double resize_stretch(const resize_rule *rule, const resize_axis *axis)
{
    return rule->antialias && axis->scale < 1 ? axis->scale : 1;
}

/* Taps to the left of the sampled coordinate; there are as many to the right. */
static int64_t resize_reach(const resize_rule *rule, const resize_axis *axis)
{
    double radius = rule->mode == RESIZE_LINEAR ? 1 : 2;
    double reach = -floor(-radius / resize_stretch(rule, axis));

    return reach < (double)INT32_MAX ? (int64_t)reach : INT32_MAX;
}

int64_t resize_taps(const resize_rule *rule, const resize_axis *axis)
{
    return rule->mode == RESIZE_NEAREST ? 1 : 2 * resize_reach(rule, axis);
}

/* The filter at distance d from its centre. */
static double resize_filter(const resize_rule *rule, double d)
{
    double a = rule->cubic_a;

    d = fabs(d);
    if (rule->mode == RESIZE_LINEAR)
        return d < 1 ? 1 - d : 0;
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static int32_t resize_clamp(double index, int64_t in)
{
    return !(index >= 0) ? 0 : index > (double)(in - 1) ? (int32_t)(in - 1) : (int32_t)index; /* NaN: 0 */
}

void resize_table_fill(const resize_rule *rule, const resize_axis *axis, const resize_table *table)
{
    int64_t taps = table->taps, out = axis->out;
    double stretch = resize_stretch(rule, axis);

    INLAY_CHECK(taps > 0 && table->index != NULL && (rule->mode == RESIZE_NEAREST || table->weight != NULL));
    for (int64_t x = 0; x < out; x++) {
        int32_t *index = table->index + x;
        double *weight = table->weight + x, sum = 0, at, low;
        bool outside;

        at = resize_coordinate(rule, axis, x, &outside);
        if (rule->mode == RESIZE_NEAREST) {
            *index = outside ? -1 : resize_clamp(resize_round(rule, axis, at), axis->in);
            continue;
        }
        low = floor(at);
        for (int64_t k = 0; k < taps; k++) {
            double i = low - (double)(taps / 2) + 1 + (double)k;
            weight[k * out] = resize_filter(rule, (i - at) * stretch);
            if (rule->exclude_outside && (i < 0 || i > (double)(axis->in - 1)))
                weight[k * out] = 0;
            index[k * out] = resize_clamp(i, axis->in);
            sum += weight[k * out];
        }
        if (rule->exclude_outside || stretch < 1)
            for (int64_t k = 0; k < taps; k++)
                weight[k * out] = sum != 0 ? weight[k * out] / sum : 0;
        if (outside)
            index[0] = -1;
    }
}
