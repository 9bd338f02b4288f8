/* The operators that XNNPACK runs, and the reasons to refuse a node. Everything that XNNPACK would reject later must be
 * found here, because a refusal of one node is cheaper than a region that compile declines. */
#include "library.h"
#include "provider.h"
#include "inlay/kit_shapes.h"

static bool has_images(const kit_node *node, kit_refusal *why)
{
    if (kit_input(node, 0)->rank == IMAGE_RANK && kit_output(node, 0)->rank == IMAGE_RANK)
        return true;
    return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "this XNNPACK operator takes images [N, C, H, W]; the rank is %u",
                      kit_input(node, 0)->rank);
}

static bool is_optional_constant(const kit_node *node, uint32_t i, kit_refusal *why)
{
    if (kit_input(node, i) == NULL || kit_is_constant(node, i))
        return true;
    return kit_refuse(why, INLAY_REFUSE_SHAPE, "store the input in the model file as an initializer",
                      "input %u is not a constant; XNNPACK packs it before the run", i);
}

static bool attribute_is(const inlay_node_info *node, const char *name, double wanted, double otherwise)
{
    const inlay_attr_info *attribute = kit_attr(node, name);

    if (attribute == NULL)
        return otherwise == wanted;
    return (attribute->kind == INLAY_ATTR_INT ? (double)attribute->i : attribute->f) == wanted;
}

static int64_t int_at(const inlay_node_info *node, const char *name, uint32_t i, int64_t otherwise)
{
    uint32_t count;
    const int64_t *list = kit_attr_ints(node, name, &count);

    return i < count ? list[i] : otherwise;
}

struct window window_of(const inlay_node_info *node, const int64_t *kernel, const int64_t *in, const int64_t *out)
{
    const uint32_t mode = kit_pad_mode(node);
    struct window window;

    for (uint32_t i = 0; i < 2; i++) {
        kit_window axis = { .in = in[i],
                            .out = out[i],
                            .size = kernel != NULL ? kernel[i] : int_at(node, "kernel_shape", i, 1),
                            .stride = int_at(node, "strides", i, 1),
                            .dilation = int_at(node, "dilations", i, 1),
                            .begin = int_at(node, "pads", i, 0),
                            .end = int_at(node, "pads", i + 2, 0) };

        kit_window_pad(&axis, mode);
        window.size[i] = axis.size;
        window.stride[i] = axis.stride;
        window.dilation[i] = axis.dilation;
        window.before[i] = axis.begin;
        window.after[i] = axis.end;
        if (mode == KIT_PAD_EXPLICIT && kit_window_past(&axis) > axis.end)
            window.after[i] = kit_window_past(&axis); /* ceil_mode */
    }
    return window;
}

static bool has_window(const kit_node *node, kit_refusal *why)
{
    for (uint32_t i = 0; i < 4; i++) {
        const int64_t pad = int_at(node->info, "pads", i, 0);

        if (pad < 0 || pad > UINT16_MAX || int_at(node->info, "strides", i, 1) < 1 ||
            int_at(node->info, "dilations", i, 1) < 1)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "pads, strides or dilations are negative");
    }
    return true;
}

static bool fits_conv(const kit_node *node, kit_refusal *why)
{
    if (!kit_is_constant(node, 1))
        return is_optional_constant(node, 1, why);
    return has_images(node, why) && is_optional_constant(node, 2, why) && has_window(node, why);
}

/* With padding, XNNPACK reads the nearest pixel of the image, which must be one that the window covers. */
static bool fits_pool(const kit_node *node, kit_refusal *why, bool average)
{
    const int64_t zeros[] = { 0, 0 };
    const bool ceil = !attribute_is(node->info, "ceil_mode", 0, 0);
    const bool automatic = strcmp(kit_attr_string(node->info, "auto_pad", "NOTSET"), "NOTSET") != 0;
    const struct window window = window_of(node->info, NULL, zeros, zeros);
    bool padded = ceil || automatic, dilated = false;

    if (!has_images(node, why) || !has_window(node, why))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t before = int_at(node->info, "pads", i, 0), after = int_at(node->info, "pads", i + 2, 0);

        padded |= before > 0 || after > 0;
        dilated |= window.dilation[i] > 1;
        if (window.size[i] < 1 || window.stride[i] > window.size[i] || before >= window.size[i] ||
            after >= window.size[i])
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "",
                              "XNNPACK needs strides up to the size of the window, and pads below it");
    }
    if (window.size[0] * window.size[1] == 1)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "XNNPACK has no pooling with a window of one element");
    if (kit_output(node, 1) != NULL)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "remove output Indices", "XNNPACK gives no indices");
    if (dilated && (average || padded))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "XNNPACK does not dilate a pooling with padding");
    if (average && padded && !attribute_is(node->info, "count_include_pad", 0, 0))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "XNNPACK does not count padding (count_include_pad 1)");
    return true;
}

static bool fits_max_pool(const kit_node *node, kit_refusal *why)
{
    return fits_pool(node, why, false);
}

static bool fits_average_pool(const kit_node *node, kit_refusal *why)
{
    return fits_pool(node, why, true);
}

static bool fits_gemm(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *c = kit_input(node, 2);

    if (!kit_is_constant(node, 1))
        return is_optional_constant(node, 1, why);
    if (!attribute_is(node->info, "transA", 0, 0) || !attribute_is(node->info, "alpha", 1, 1) ||
        (c != NULL && !attribute_is(node->info, "beta", 1, 1)))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "XNNPACK needs transA 0, alpha 1 and beta 1");
    if (c != NULL &&
        (!kit_is_constant(node, 2) || c->data_bytes != (uint64_t)kit_output(node, 0)->dims[1].value * sizeof(float) ||
         (c->rank > 0 && c->dims[c->rank - 1].value != kit_output(node, 0)->dims[1].value)))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "XNNPACK takes a constant C with one element for each column");
    return true;
}

static bool fits_matmul(const kit_node *node, kit_refusal *why)
{
    const uint32_t rank = kit_input(node, 0)->rank;

    if (!kit_is_constant(node, 1))
        return is_optional_constant(node, 1, why);
    if (kit_input(node, 1)->rank != 2 || rank < 2 || rank == IMAGE_RANK)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "",
                          "XNNPACK takes a matrix B, and an A of rank 2 or 3 (rank 4 has another layout)");
    return true;
}

static bool fits_binary(const kit_node *node, kit_refusal *why)
{
    const uint32_t rank = kit_output(node, 0)->rank;

    if (kit_is_constant(node, 0) && kit_is_constant(node, 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "both operands are constants");
    for (uint32_t i = 0; i < 2; i++) {
        const inlay_value_info *operand = kit_input(node, i);

        if ((rank == IMAGE_RANK) != (operand->rank == IMAGE_RANK) &&
            !(kit_is_constant(node, i) && operand->rank < IMAGE_RANK))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "insert a Reshape to the same rank",
                              "operand %u has rank %u and the result %u; images are NHWC in XNNPACK", i, operand->rank,
                              rank);
        if (kit_is_constant(node, i) && operand->rank > IMAGE_RANK)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "constant operand %u has rank %u; at most 4", i,
                              operand->rank);
    }
    return true;
}

void clamp_bounds(const inlay_node_info *node, const void *low_data, const void *high_data, float *out_low,
                  float *out_high)
{
    *out_low = (float)kit_attr_float(node, "min", (double)-INFINITY);
    *out_high = (float)kit_attr_float(node, "max", (double)INFINITY);
    if (strcmp(node->op_type.data, "Relu") == 0)
        *out_low = 0;
    if (low_data != NULL)
        memcpy(out_low, low_data, sizeof *out_low);
    if (high_data != NULL)
        memcpy(out_high, high_data, sizeof *out_high);
}

static const void *data_of(const kit_node *node, uint32_t i)
{
    return kit_input(node, i) != NULL ? kit_input(node, i)->data : NULL;
}

static bool fits_clip(const kit_node *node, kit_refusal *why)
{
    float low, high;

    if (!is_optional_constant(node, 1, why) || !is_optional_constant(node, 2, why))
        return false;
    clamp_bounds(node->info, data_of(node, 1), data_of(node, 2), &low, &high);
    if (low < high)
        return true;
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "", "XNNPACK needs a lower bound below the upper one");
}

static bool fits_softmax(const kit_node *node, kit_refusal *why)
{
    const int64_t rank = kit_input(node, 0)->rank;
    const int64_t given = kit_attr_int(node->info, "axis", node->info->since_version < 13 ? 1 : -1);
    const int64_t axis = given < 0 ? given + rank : given;

    /* Before version 13, all dimensions from axis on are one row. */
    if (axis == (rank == IMAGE_RANK ? 1 : rank - 1) && (node->info->since_version >= 13 || rank != IMAGE_RANK))
        return true;
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "",
                      "XNNPACK normalises the last axis, which is the channels of an image; axis is %lld",
                      (long long)given);
}

/* True if the elements have the same order in NCHW and NHWC. */
static bool keeps_order(const inlay_value_info *value)
{
    return value->rank != IMAGE_RANK || value->dims[1].value == 1 ||
           (value->dims[2].value == 1 && value->dims[3].value == 1);
}

static bool fits_reshape(const kit_node *node, kit_refusal *why)
{
    if (!keeps_order(kit_input(node, 0)) || !keeps_order(kit_output(node, 0)))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make the images 1 x 1 first, by GlobalAveragePool",
                          "the channels come last in XNNPACK, so the elements would change their order");
    return is_optional_constant(node, 1, why);
}

static bool fits_concat(const kit_node *node, kit_refusal *why)
{
    if (!LIBRARY_CONCATENATES)
        return kit_refuse(why, INLAY_REFUSE_OPERATOR, "build with a newer XNNPACK",
                          "this version of XNNPACK has no concatenation");
    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (kit_is_constant(node, i))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "operand %u is a constant", i);
    if (node->info->input_count >= 2)
        return true;
    return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "XNNPACK concatenates two tensors or more");
}

static const struct {
    const char *name;
    uint32_t since_min, since_max;
    enum operator_kind kind;
    bool (*fits)(const kit_node *node, kit_refusal *why); /* NULL: if the general conditions hold */
} operators[] = {
    { "Conv", 1, 22, KIND_CONV, fits_conv },
    { "Gemm", 7, 13, KIND_GEMM, fits_gemm },
    { "MatMul", 1, 13, KIND_MATMUL, fits_matmul },
    { "MaxPool", 1, 22, KIND_MAX_POOL, fits_max_pool },
    { "AveragePool", 1, 22, KIND_AVERAGE_POOL, fits_average_pool },
    { "GlobalAveragePool", 1, 22, KIND_GLOBAL_AVERAGE, has_images },
    { "Add", 7, 14, KIND_ADD, fits_binary },
    { "Sub", 7, 14, KIND_SUB, fits_binary },
    { "Mul", 7, 14, KIND_MUL, fits_binary },
    { "Relu", 1, 14, KIND_RELU, NULL },
    { "Clip", 6, 13, KIND_CLIP, fits_clip },
    { "HardSwish", 14, 22, KIND_HARDSWISH, NULL },
    { "Sigmoid", 1, 13, KIND_SIGMOID, NULL },
    { "Softmax", 1, 13, KIND_SOFTMAX, fits_softmax },
    { "Flatten", 1, 25, KIND_RESHAPE, fits_reshape },
    { "Reshape", 5, 25, KIND_RESHAPE, fits_reshape },
    { "Concat", 4, 13, KIND_CONCAT, fits_concat },
};

static uint32_t find_operator(const inlay_node_info *node)
{
    uint32_t i = 0;

    while (i < KIT_COUNT(operators) &&
           (strcmp(node->domain.data, "ai.onnx") != 0 || strcmp(node->op_type.data, operators[i].name) != 0))
        i++;
    return i;
}

enum operator_kind operator_of(const inlay_node_info *node)
{
    const uint32_t i = find_operator(node);

    return i < KIT_COUNT(operators) ? operators[i].kind : KIND_COUNT;
}

static bool is_plain(const inlay_value_info *value, kit_refusal *why)
{
    if (value->dtype != INLAY_FLOAT)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float",
                          "this provider computes with float; '%.80s' is %s", value->name.data,
                          inlay_dtype_name(value->dtype));
    if (value->rank == INLAY_RANK_UNKNOWN || value->rank > MOST_RANK)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "the rank of '%.80s' must be known and at most 6",
                          value->name.data);
    if (value->rank == 0 && (value->flags & INLAY_VALUE_CONSTANT) == 0)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "'%.80s' is a scalar", value->name.data);
    for (uint32_t i = 0; i < value->rank; i++)
        if (value->dims[i].value == 0)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "'%.80s' has no elements", value->name.data);
    return true;
}

bool operator_fits(void *ctx, const kit_node *node, uint32_t n, inlay_offer *offer, kit_refusal *why)
{
    const uint32_t i = find_operator(node->info);

    (void)ctx, (void)n;
    if (i == KIT_COUNT(operators))
        return kit_refuse(why, INLAY_REFUSE_OPERATOR, "", "this provider does not use XNNPACK for the operator");
    if (node->info->since_version < operators[i].since_min || node->info->since_version > operators[i].since_max)
        return kit_refuse(why, INLAY_REFUSE_VERSION, "convert the model to another opset",
                          "it supports versions %u to %u of the operator", operators[i].since_min,
                          operators[i].since_max);
    for (uint32_t k = 0; k < node->info->input_count; k++)
        if (kit_input(node, k) != NULL && !(operators[i].kind == KIND_RESHAPE && k == 1) &&
            !is_plain(kit_input(node, k), why))
            return false;
    if (kit_input(node, 0) == NULL || kit_output(node, 0) == NULL || !is_plain(kit_output(node, 0), why))
        return why->text[0] == '\0' ? kit_refuse(why, INLAY_REFUSE_SHAPE, "", "a tensor is omitted") : false;
    if (operators[i].kind != KIND_ADD && operators[i].kind != KIND_SUB && operators[i].kind != KIND_MUL &&
        kit_is_constant(node, 0))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "input 0 is a constant");
    if (operators[i].fits != NULL && !operators[i].fits(node, why))
        return false;
    offer->flags = INLAY_OFFER_MERGE | INLAY_OFFER_CONNECTED;
    for (uint32_t k = 1; k < node->info->input_count && k < MOST_INPUTS; k++)
        offer->resident_bytes += kit_is_constant(node, k) ? kit_input(node, k)->data_bytes : 0;
    return true;
}
