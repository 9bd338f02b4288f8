/* Reads nodes, and states which of them oneDNN computes. What the library would reject or compute differently from ONNX
 * is refused here, where this is known before the shapes are. */
#include "onednn/provider.h"
#include "common/window.h"
#include "inlay/check.h"
#include <math.h>
#include <stdio.h>

/* oneDNN generates code for each column of the padding, and for each column of very long rows: with unreasonably large
 * attributes it takes minutes. */
enum { MOST_COLUMNS = 1 << 22 };

static bool is_float(const inlay_value_info *value)
{
    return value != NULL && value->kind == INLAY_VALUE_TENSOR && value->dtype == INLAY_FLOAT;
}

static bool has_rank(const inlay_value_info *value, uint32_t least, uint32_t most, const char *what, kit_refusal *why)
{
    if (value->rank != INLAY_RANK_UNKNOWN && value->rank >= least && value->rank <= most)
        return true;
    return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the rank of %s is unknown, or not from %u to %u", what, least,
                      most);
}

static bool is_fixed(const inlay_value_info *value)
{
    for (uint32_t d = 0; d < value->rank; d++)
        if (value->dims[d].kind != INLAY_DIM_FIXED || value->dims[d].value < 1)
            return false;
    return true;
}

/* True if all sizes of both values are known to be equal. */
static bool same_dims(const inlay_value_info *a, const inlay_value_info *b)
{
    if (a->rank != b->rank || a->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dims[d].kind != b->dims[d].kind || a->dims[d].kind == INLAY_DIM_UNKNOWN ||
            (a->dims[d].kind == INLAY_DIM_FIXED ? a->dims[d].value != b->dims[d].value
                                                : a->dims[d].symbol != b->dims[d].symbol))
            return false;
    return true;
}

static void set_operand(const kit_node *node, uint32_t i, uint32_t operand, struct group *out)
{
    out->values[operand] = kit_input(node, i) != NULL ? node->info->inputs[i] : INLAY_NONE;
    out->constant[operand] = kit_is_constant(node, i);
}

static bool begin_window(const kit_node *node, struct group *out, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0), *weights = kit_input(node, 1), *bias = kit_input(node, 2),
                           *output = kit_output(node, 0);
    uint32_t given;

    if (!has_rank(input, 3, 2 + MOST_SPATIAL, "input 0", why) ||
        !has_rank(weights, input->rank, input->rank, "input 1", why))
        return false;
    if (!is_fixed(weights))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the shape of the weights is not fixed");
    if (bias != NULL && bias->rank != 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the bias is not a vector");
    out->spatial = input->rank - 2;
    out->channel_groups = kit_attr_int(node->info, "group", 1);
    if (out->channel_groups < 1 || weights->dims[0].value % out->channel_groups != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "group does not divide the channels");
    for (uint32_t i = 0; i < out->spatial; i++)
        out->kernel[i] = weights->dims[2 + i].value;
    if (output->rank == input->rank && output->dims[input->rank - 1].kind == INLAY_DIM_FIXED &&
        output->dims[input->rank - 1].value > MOST_COLUMNS)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "cut the input into parts",
                          "oneDNN takes too long to create a kernel for rows of %lld elements",
                          (long long)output->dims[input->rank - 1].value);
    out->padding = kit_pad_mode(node->info);
    out->sized = kit_attr_ints(node->info, "output_shape", &given) != NULL && given > 0;
    set_operand(node, 2, OPERAND_BIAS, out);
    return window_ints(node, "strides", out->spatial, 1, 1, out->strides, why) &&
           window_ints(node, "dilations", out->spatial, 1, 1, out->dilations, why) &&
           window_ints(node, "output_padding", out->spatial, 0, 0, out->output_padding, why) &&
           window_ints(node, "pads", 2 * out->spatial, 0, 0, out->pads, why);
}

static bool begin_conv(const kit_node *node, struct group *out, kit_refusal *why)
{
    out->kind = GROUP_CONV;
    return begin_window(node, out, why);
}

static bool begin_deconv(const kit_node *node, struct group *out, kit_refusal *why)
{
    bool leaves_out = false; /* may the output end beyond the last window? */

    out->kind = GROUP_DECONV;
    if (!begin_window(node, out, why))
        return false;
    for (uint32_t i = 0; i < out->spatial; i++)
        leaves_out |= out->sized || out->padding == KIT_PAD_SAME_UPPER || out->padding == KIT_PAD_SAME_LOWER ||
                      out->output_padding[i] > (out->padding == KIT_PAD_EXPLICIT ? out->pads[out->spatial + i] : 0);
    return !leaves_out ||
           kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL,
                      "the output may end beyond the last window, for which oneDNN has slow kernels only");
}

static void conv_pads(const struct group *group, uint32_t i, int64_t in, int64_t out, int64_t *begin, int64_t *end)
{
    kit_window window = { in,
                          out,
                          group->kernel[i],
                          group->strides[i],
                          group->dilations[i],
                          group->pads[i],
                          group->pads[group->spatial + i] };

    kit_window_pad(&window, group->padding);
    *begin = window.begin;
    *end = window.end;
}

/* The end follows from the output's size; it is negative if the window does not reach the last elements. */
static void deconv_pads(const struct group *group, uint32_t i, int64_t in, int64_t out, int64_t *begin, int64_t *end)
{
    const int64_t full = (in - 1) * group->strides[i] + (group->kernel[i] - 1) * group->dilations[i] + 1;
    int64_t total = full + group->output_padding[i] - out;

    *begin = 0;
    if (group->sized || group->padding == KIT_PAD_SAME_UPPER || group->padding == KIT_PAD_SAME_LOWER) {
        total = total > 0 ? total : 0;
        *begin = group->padding == KIT_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    } else if (group->padding == KIT_PAD_EXPLICIT) {
        *begin = group->pads[i];
    }
    *end = full - out - *begin;
}

void group_pads(const struct group *group, const int64_t *in, const int64_t *out, int64_t *begins, int64_t *ends)
{
    INLAY_CHECK(group->kind == GROUP_CONV || group->kind == GROUP_DECONV);
    for (uint32_t i = 0; i < group->spatial; i++) {
        if (group->kind == GROUP_CONV)
            conv_pads(group, i, in[i], out[i], &begins[i], &ends[i]);
        else
            deconv_pads(group, i, in[i], out[i], &begins[i], &ends[i]);
    }
}

/* Products of two computed matrices are left to other providers, which are faster. */
static bool begin_product(const kit_node *node, uint32_t most_rank, struct group *out, kit_refusal *why)
{
    out->kind = GROUP_PRODUCT;
    if (!kit_is_constant(node, 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input 1 is not a constant, so it cannot be packed ahead");
    return has_rank(kit_input(node, 0), 2, most_rank, "input 0", why) &&
           has_rank(kit_input(node, 1), 2, 2, "input 1", why);
}

static bool begin_mat_mul(const kit_node *node, struct group *out, kit_refusal *why)
{
    return begin_product(node, MOST_RANK, out, why);
}

static bool is_row(const inlay_value_info *value, const inlay_value_info *output)
{
    const inlay_dim *columns =
        output->rank != INLAY_RANK_UNKNOWN && output->rank > 0 ? &output->dims[output->rank - 1] : NULL;

    if (value->rank == INLAY_RANK_UNKNOWN || value->rank == 0 || columns == NULL || columns->kind != INLAY_DIM_FIXED ||
        !is_fixed(value) || value->dims[value->rank - 1].value != columns->value)
        return false;
    for (uint32_t d = 0; d + 1 < value->rank; d++)
        if (value->dims[d].value != 1)
            return false;
    return true;
}

static bool begin_gemm(const kit_node *node, struct group *out, kit_refusal *why)
{
    const inlay_value_info *c = kit_input(node, 2);
    const double beta = kit_attr_float(node->info, "beta", 1);

    out->input_transposed = kit_attr_int(node->info, "transA", 0) != 0;
    out->weights_transposed = kit_attr_int(node->info, "transB", 0) != 0;
    if (kit_attr_float(node->info, "alpha", 1) != 1 || (c != NULL && beta != 1))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "alpha and beta have to be 1");
    if (c != NULL && !is_row(c, kit_output(node, 0)))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input 2 is not a vector with an element for each column");
    set_operand(node, 2, OPERAND_BIAS, out);
    return begin_product(node, 2, out, why);
}

static const struct beginning {
    const char *op_type;
    uint32_t newest; /* since_version */
    bool (*read)(const kit_node *node, struct group *out, kit_refusal *why);
} beginnings[] = {
    { "Conv", 22, begin_conv },
    { "ConvTranspose", 22, begin_deconv },
    { "Gemm", 13, begin_gemm },
    { "MatMul", 13, begin_mat_mul },
};

static const struct ending {
    const char *op_type;
    uint32_t newest;      /* since_version */
    bool only_reduced;    /* only fused functions compute it, which lose NaN */
    dnnl_alg_kind_t kind; /* dnnl_alg_kind_undef: Add */
    float alpha, beta;
} endings[] = {
    { "Add", 14, false, dnnl_alg_kind_undef, 0, 0 },         { "Relu", 14, false, dnnl_eltwise_clip_v2, 0, INFINITY },
    { "LeakyRelu", 16, false, dnnl_eltwise_relu, 0.01f, 0 }, { "Clip", 13, false, dnnl_eltwise_clip_v2, 0, 0 },
    { "Sigmoid", 13, true, dnnl_eltwise_logistic, 0, 0 },    { "Tanh", 13, true, dnnl_eltwise_tanh, 0, 0 },
    { "Gelu", 20, true, dnnl_eltwise_gelu_erf, 0, 0 },
};

static bool has_name(const inlay_node_info *info, const char *op_type)
{
    return strcmp(info->domain.data, "ai.onnx") == 0 && strcmp(info->op_type.data, op_type) == 0;
}

bool group_begin(const onednn_state *state, const inlay_graph *graph, uint32_t node_index, struct group *out,
                 kit_refusal *why)
{
    const inlay_node_info *info = inlay_graph_node(graph, node_index);
    const kit_node node = { .host = state->host, .graph = graph, .info = info };
    const struct beginning *beginning = NULL;

    *out = (struct group){ .output = info->output_count > 0 ? info->outputs[0] : INLAY_NONE };
    for (uint32_t i = 0; i < OPERAND_COUNT; i++)
        out->values[i] = INLAY_NONE;
    for (uint32_t i = 0; i < KIT_COUNT(beginnings); i++)
        if (has_name(info, beginnings[i].op_type))
            beginning = &beginnings[i];
    if (beginning == NULL)
        return kit_refuse(why, INLAY_REFUSE_OPERATOR, NULL,
                          "oneDNN computes convolutions, matrix multiplications, and functions of their results");
    if (info->since_version > beginning->newest)
        return kit_refuse(why, INLAY_REFUSE_VERSION, "convert the model to an older opset", "%s-%u is too new",
                          beginning->op_type, info->since_version);
    if (state->reproducible)
        return kit_refuse(why, INLAY_REFUSE_OPTION, "set option reproducible to 0",
                          "oneDNN chooses its kernels by sizes, which option reproducible forbids");
    for (uint32_t i = 0; i < info->input_count; i++)
        if (i < 2 ? !is_float(kit_input(&node, i)) : kit_input(&node, i) != NULL && !is_float(kit_input(&node, i)))
            return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast", "input %u is not a float tensor", i);
    if (info->input_count < 2 || !is_float(kit_output(&node, 0)))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "an operand is not a float tensor");
    set_operand(&node, 0, OPERAND_INPUT, out);
    set_operand(&node, 1, OPERAND_WEIGHTS, out);
    (void)snprintf(out->name, sizeof out->name, "%s", info->name.data);
    return beginning->read(&node, out, why);
}

/* Reads a bound of Clip: an input of version 11, or an attribute of earlier ones. */
static bool read_bound(const kit_node *node, uint32_t i, const char *attribute, float otherwise, float *out)
{
    const inlay_value_info *value = kit_input(node, i);

    *out = otherwise;
    if (kit_since_version(node) < 11) {
        *out = (float)kit_attr_float(node->info, attribute, otherwise);
        return true;
    }
    if (value == NULL)
        return true;
    if (!kit_is_constant(node, i) || !is_float(value) || value->data == NULL || value->data_bytes != sizeof *out)
        return false;
    memcpy(out, value->data, sizeof *out);
    return *out == *out;
}

static bool read_function(const kit_node *node, const struct ending *ending, group_function *out)
{
    *out = (group_function){ ending->kind, ending->alpha, ending->beta };
    if (strcmp(ending->op_type, "Clip") == 0)
        return read_bound(node, 1, "min", -INFINITY, &out->alpha) && read_bound(node, 2, "max", INFINITY, &out->beta) &&
               out->alpha <= out->beta;
    if (strcmp(ending->op_type, "LeakyRelu") == 0)
        out->alpha = (float)kit_attr_float(node->info, "alpha", ending->alpha);
    if (strcmp(kit_attr_string(node->info, "approximate", "none"), "tanh") == 0)
        out->kind = dnnl_eltwise_gelu_tanh;
    return true;
}

/* The addition of a value with the output's shape, or of a bias after a matrix multiplication. */
static bool extend_by_addition(const kit_node *node, struct group *group)
{
    const uint32_t other = node->info->inputs[0] == group->output ? 1 : 0;
    const inlay_value_info *value = kit_input(node, other), *output = kit_output(node, 0);

    if (node->info->inputs[other] == group->output || !is_float(value) || group->values[OPERAND_ADDEND] != INLAY_NONE ||
        group->function.kind != dnnl_alg_kind_undef)
        return false;
    if (group->kind == GROUP_PRODUCT && group->values[OPERAND_BIAS] == INLAY_NONE && kit_is_constant(node, other) &&
        is_row(value, output)) {
        set_operand(node, other, OPERAND_BIAS, group);
        return true;
    }
    if (kit_is_constant(node, other) || !same_dims(value, output))
        return false;
    set_operand(node, other, OPERAND_ADDEND, group);
    return true;
}

bool group_extend(const onednn_state *state, const inlay_graph *graph, uint32_t node_index, struct group *group)
{
    const inlay_node_info *info = inlay_graph_node(graph, node_index);
    const kit_node node = { .host = state->host, .graph = graph, .info = info };
    bool fits = false;

    if (info->input_count == 0 || info->output_count == 0 || !is_float(kit_output(&node, 0)) ||
        !same_dims(kit_output(&node, 0), inlay_graph_value(graph, group->output)))
        return false;
    for (uint32_t i = 0; !fits && i < KIT_COUNT(endings); i++) {
        const struct ending *ending = &endings[i];

        if (!has_name(info, ending->op_type) || info->since_version > ending->newest)
            continue;
        if (ending->kind == dnnl_alg_kind_undef)
            fits = info->input_count == 2 && extend_by_addition(&node, group);
        else
            fits = info->inputs[0] == group->output && group->function.kind == dnnl_alg_kind_undef &&
                   (state->reduced || !ending->only_reduced) && read_function(&node, ending, &group->function);
    }
    if (fits)
        group->output = info->outputs[0];
    return fits;
}

bool group_read(const onednn_state *state, const inlay_graph *graph, const uint32_t *nodes, uint32_t count,
                struct group *out, kit_refusal *why)
{
    if (count == 0 || !group_begin(state, graph, nodes[0], out, why))
        return false;
    for (uint32_t i = 1; i < count; i++)
        if (!group_extend(state, graph, nodes[i], out))
            return kit_refuse(why, INLAY_REFUSE_OPERATOR, NULL, "oneDNN does not fuse %s into %s",
                              inlay_graph_node(graph, nodes[i])->name.data, out->name);
    return true;
}

bool group_is_reduced(const onednn_state *state, const struct group *group)
{
    return state->reduced && group->constant[OPERAND_WEIGHTS];
}
