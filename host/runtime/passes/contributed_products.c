/* The products and convolutions among the operators of contributed.def. */
#include "passes/contributed.h"
#include <string.h>

/* ------------------------------------------------------------------ products */

/* An operand of FusedMatMul. trans swaps the last two axes; batch says that the first axis is the row, which goes
 * behind the batch ones before that. */
static uint32_t operand(struct spell *spell, uint32_t input, bool trans, bool batch)
{
    const uint32_t rank = spell_rank(spell, input);
    int64_t perm[INLAY_MAX_RANK];

    if ((!trans && !batch) || rank == 1) /* a vector has nothing to swap */
        return input;
    if (rank == INLAY_RANK_UNKNOWN)
        return spell_axes(spell, input, !batch ? "...ab->...ba" : trans ? "a...b->...ba" : "a...b->...ab");
    for (uint32_t d = 0; d < rank; d++)
        perm[d] = d;
    if (batch) {
        for (uint32_t d = 0; d + 2 < rank; d++)
            perm[d] = d + 1;
        perm[rank - 2] = 0;
    }
    if (trans) {
        const int64_t row = perm[rank - 2];

        perm[rank - 2] = perm[rank - 1];
        perm[rank - 1] = row;
    }
    return spell_transpose(spell, input, perm, rank);
}

void spell_fused_mat_mul(struct spell *spell)
{
    const graph_node *node = spell->node;
    const bool ta = rw_attr_int(node, "transA", 0) != 0, tb = rw_attr_int(node, "transB", 0) != 0;
    const bool ba = rw_attr_int(node, "transBatchA", 0) != 0, bb = rw_attr_int(node, "transBatchB", 0) != 0;
    const double alpha = rw_attr_float(node, "alpha", 1);
    uint32_t input, output;

    if (spell_refuse(spell, spell_rank(spell, spell_in(spell, 0)) == 0 || spell_rank(spell, spell_in(spell, 1)) == 0
                                ? "an operand is a scalar"
                                : NULL))
        return;
    input = operand(spell, spell_in(spell, 0), ta, ba);
    output = spell_op(spell, "MatMul", 13, input, operand(spell, spell_in(spell, 1), tb, bb));
    if (alpha != 1)
        output = spell_op(spell, "Mul", 14, output, spell_number(spell, spell_dtype(spell, input), alpha));
    spell_output(spell, 0, output);
}

void spell_fused_gemm(struct spell *spell)
{
    static const char *const attributes[] = { "alpha", "beta", "transA", "transB", NULL };
    const inlay_attr_info *name = graph_attr(spell->node, "activation");
    double params[2];
    uint32_t count = 0, output;

    for (uint32_t i = 0; i < 2; i++)
        if (graph_attr(spell->node, i == 0 ? "activation_alpha" : "activation_beta") != NULL)
            params[count++] = rw_attr_float(spell->node, i == 0 ? "activation_alpha" : "activation_beta", 0);
    output = spell_op(spell, "Gemm", 13, spell_in(spell, 0), spell_in(spell, 1), spell_in(spell, 2));
    spell_copy(spell, attributes);
    if (name != NULL && name->s.bytes > 0)
        output = contributed_activation(spell, name->s.data, output, params, count);
    spell_output(spell, 0, output);
}

uint32_t contributed_in_units(struct spell *spell, uint32_t a, uint32_t w, uint32_t a_zero, uint32_t w_zero,
                              uint32_t a_scale, uint32_t w_scale, uint32_t bias)
{
    uint32_t output = spell_typed(spell, "MatMulInteger", 10, INLAY_INT32, a, w, a_zero, w_zero);

    output = spell_op(spell, "Mul", 14, spell_cast(spell, output, spell_dtype(spell, w_scale)),
                      spell_op(spell, "Mul", 14, a_scale, w_scale));
    return bias == INLAY_NONE ? output : spell_op(spell, "Add", 14, output, bias);
}

void spell_integer_to_float(struct spell *spell)
{
    spell_output(spell, 0,
                 contributed_in_units(spell, spell_in(spell, 0), spell_in(spell, 1), spell_in(spell, 4),
                                      spell_in(spell, 5), spell_in(spell, 2), spell_in(spell, 3), spell_in(spell, 6)));
}

void spell_dynamic_quantize_mat_mul(struct spell *spell)
{
    const uint32_t input = spell_make(spell, "DynamicQuantizeLinear", 11, INLAY_UINT8, 3,
                                      (const uint32_t[]){ spell_in(spell, 0), SPELL_END });
    const uint32_t scale = spell_out(spell, 1), zero = spell_out(spell, 2);

    if (spell->status != INLAY_OK)
        return;
    spell->rewrite->graph->values[scale].info.dtype = INLAY_FLOAT;
    spell_output(spell, 0,
                 contributed_in_units(spell, input, spell_in(spell, 1), zero, spell_in(spell, 3), scale,
                                      spell_in(spell, 2), spell_in(spell, 4)));
}

/* |a - spell| by |a|^2 + |spell|^2 - 2 a spell, in one product, as ONNX Runtime has it. */
void spell_c_dist(struct spell *spell)
{
    const uint32_t input = spell_in(spell, 0), z = spell_in(spell, 1);
    const inlay_dtype dtype = spell_dtype(spell, input);
    uint32_t xx = spell_op(spell, "ReduceSumSquare", 18, input, spell_list(spell, 1));
    uint32_t zz = spell_op(spell, "ReduceSumSquare", 18, z, spell_list(spell, 1)), output;

    output = spell_op(spell, "Gemm", 13, input, z, xx);
    spell_int(spell, "transB", 1);
    spell_float(spell, "alpha", -2);
    output = spell_op(spell, "Add", 14, output, spell_transpose(spell, zz, (const int64_t[]){ 1, 0 }, 2));
    output = spell_op(spell, "Max", 13, output, spell_number(spell, dtype, 0));
    spell_output(spell, 0,
                 rw_attr_is(spell->node, "metric", "euclidean") ? spell_op(spell, "Sqrt", 13, output) : output);
}

/* ------------------------------------------------------------------ convolutions */

static const char *const conv_attributes[] = { "auto_pad",      "dilations",         "group",
                                               "kernel_shape",  "output_shape",      "output_padding",
                                               "pads",          "strides",           "ceil_mode",
                                               "storage_order", "count_include_pad", NULL };

/* Images with channels last or, again, first. */
static uint32_t turned(struct spell *spell, uint32_t input, uint32_t rank, bool to_last)
{
    int64_t perm[INLAY_MAX_RANK] = { 0 };

    if (rank == INLAY_RANK_UNKNOWN)
        return spell_axes(spell, input, to_last ? "ab...->a...b" : "a...b->ab...");
    for (uint32_t d = 1; d < rank; d++)
        perm[d] = to_last ? (d + 1 == rank ? 1 : d + 1) : (d == 1 ? rank - 1 : d - 1);
    return spell_transpose(spell, input, perm, rank);
}

/* Why the node's input 0 is no image; NULL: it may be one. */
static const char *why_not_image(const struct spell *spell)
{
    const uint32_t rank = spell_rank(spell, spell_in(spell, 0));

    return rank != INLAY_RANK_UNKNOWN && (rank < 3 || rank > INLAY_MAX_RANK)
               ? "input 0 is no image: its rank is below 3"
               : NULL;
}

static uint32_t with_activation(struct spell *spell, uint32_t output)
{
    const inlay_attr_info *name = graph_attr(spell->node, "activation"),
                          *list = graph_attr(spell->node, "activation_params");
    double params[2] = { 0, 0 };
    uint32_t count = list == NULL ? 0 : list->count < 2 ? list->count : 2;

    for (uint32_t i = 0; i < count; i++)
        params[i] = list->floats[i];
    return name == NULL || name->s.bytes == 0 ? output
                                              : contributed_activation(spell, name->s.data, output, params, count);
}

void spell_fused_conv(struct spell *spell)
{
    const uint32_t more = spell_in(spell, 3);
    uint32_t output = spell_op(spell, "Conv", 11, spell_in(spell, 0), spell_in(spell, 1), spell_in(spell, 2));

    spell_copy(spell, conv_attributes);
    if (more != INLAY_NONE)
        output = spell_op(spell, "Add", 14, output, more);
    spell_output(spell, 0, with_activation(spell, output));
}

/* The weights have their channels second in these. */
void spell_nhwc_conv(struct spell *spell)
{
    const uint32_t rank = spell_rank(spell, spell_in(spell, 0)), more = spell_in(spell, 3);
    uint32_t output;

    if (spell_refuse(spell, why_not_image(spell)))
        return;
    output = spell_op(spell, "Conv", 11, turned(spell, spell_in(spell, 0), rank, false), spell_in(spell, 1),
                      spell_in(spell, 2));
    spell_copy(spell, conv_attributes);
    output = turned(spell, output, rank, true);
    if (more != INLAY_NONE)
        output = spell_op(spell, "Add", 14, output, more);
    spell_output(spell, 0, with_activation(spell, output));
}

void spell_nhwc_max_pool(struct spell *spell)
{
    const uint32_t rank = spell_rank(spell, spell_in(spell, 0));
    uint32_t output;

    if (spell_refuse(spell, why_not_image(spell)))
        return;
    output = spell_op(spell, "MaxPool", 12, turned(spell, spell_in(spell, 0), rank, false));
    spell_copy(spell, conv_attributes);
    spell_output(spell, 0, turned(spell, output, rank, true));
}

void spell_q_linear_conv(struct spell *spell)
{
    const uint32_t rank = spell_rank(spell, spell_in(spell, 0));
    const bool last = rw_attr_int(spell->node, "channels_last", 0) != 0;
    uint32_t in[10], output;

    if (spell_refuse(spell, last ? why_not_image(spell) : NULL))
        return;
    for (uint32_t i = 0; i < 9; i++)
        in[i] = spell_in(spell, i);
    in[9] = SPELL_END;
    if (last)
        in[0] = turned(spell, in[0], rank, false);
    output = spell_make(spell, "QLinearConv", 10, spell_dtype(spell, in[7]), 1, in);
    spell_copy(spell, conv_attributes);
    spell_output(spell, 0, last ? turned(spell, output, rank, true) : output);
}

/* Input i of the node, a zero point; one of that type where it is omitted. */
static uint32_t zero_point(struct spell *spell, uint32_t i, inlay_dtype dtype)
{
    static const uint8_t none = 0;
    uint32_t value = spell_in(spell, i);

    if (value == INLAY_NONE && spell->status == INLAY_OK) {
        value = rw_constant(spell->rewrite, dtype, 0, NULL, &none, 1);
        spell->status = value == INLAY_NONE ? rw_no_memory(spell->rewrite) : INLAY_OK;
    }
    return value;
}

/* Those of images with channels last; pass quantized_functions has the others. */
void spell_q_pool(struct spell *spell)
{
    const bool whole = strcmp(spell->node->info.op_type.data, "QLinearGlobalAveragePool") == 0;
    const uint32_t rank = spell_rank(spell, spell_in(spell, 0));
    const inlay_dtype dtype = spell_dtype(spell, spell_in(spell, 0));
    uint32_t output;

    if (rw_attr_int(spell->node, "channels_last", 0) == 0 || spell_refuse(spell, why_not_image(spell)))
        return;
    output = spell_typed(spell, "DequantizeLinear", 13, INLAY_FLOAT, spell_in(spell, 0), spell_in(spell, 1),
                         spell_in(spell, 2));
    output = spell_op(spell, whole ? "GlobalAveragePool" : "AveragePool", whole ? 1 : 11,
                      turned(spell, output, rank, false));
    if (!whole)
        spell_copy(spell, conv_attributes);
    output = turned(spell, output, rank, true);
    spell_output(
        spell, 0,
        spell_typed(spell, "QuantizeLinear", 13, dtype, output, spell_in(spell, 3), zero_point(spell, 4, dtype)));
}

/* The axes of the image output behind those of batch and channels. */
static uint32_t image_axes(struct spell *spell, uint32_t output, uint32_t rank)
{
    int64_t axes[INLAY_MAX_RANK];

    if (rank == INLAY_RANK_UNKNOWN)
        return spell_op(
            spell, "Range", 11, spell_op(spell, "Squeeze", 13, spell_list(spell, 2)),
            spell_typed(spell, "Size", 13, INLAY_INT64, spell_typed(spell, "Shape", 13, INLAY_INT64, output)),
            spell_op(spell, "Squeeze", 13, spell_list(spell, 1)));
    for (uint32_t d = 2; d < rank; d++)
        axes[d - 2] = d;
    return spell_integers(spell, axes, rank - 2);
}

/* Without padding, and what the padding says is cut off. */
void spell_conv_transpose(struct spell *spell)
{
    static const char *const attributes[] = { "dilations", "group", "kernel_shape", "output_padding", "strides", NULL };
    const uint32_t pads = spell_in(spell, 2), of_image = spell_rank(spell, spell_in(spell, 0));
    const uint32_t rank =
        of_image != INLAY_RANK_UNKNOWN ? of_image : spell_rank(spell, spell_in(spell, 1)); /* W has the same */
    uint32_t output, begins, ends, sizes;

    if (spell_refuse(spell, why_not_image(spell)))
        return;
    output = spell_op(spell, "ConvTranspose", 11, spell_in(spell, 0), spell_in(spell, 1), spell_in(spell, 3));
    spell_copy(spell, attributes);
    if (pads != INLAY_NONE) {
        begins = spell_make(spell, "Split", 13, INLAY_INT64, 2,
                            (const uint32_t[]){ spell_ranked(spell, pads, 1), SPELL_END });
        ends = spell_out(spell, 1);
        sizes = spell_typed(spell, "Shape", 13, INLAY_INT64, output);
        sizes = spell_op(spell, "Slice", 13, sizes, spell_list(spell, 2), spell_list(spell, INT64_MAX));
        output = spell_op(spell, "Slice", 13, output, begins, spell_op(spell, "Sub", 14, sizes, ends),
                          image_axes(spell, output, rank));
    }
    spell_output(spell, 0, output);
}

/* ------------------------------------------------------------------ scales and zero points */

/* One number may be a vector of one. */
static uint32_t one_or_more(struct spell *spell, uint32_t value)
{
    const inlay_value_info *info = rw_info(spell->rewrite, value);

    if (value == INLAY_NONE || info->rank != 1 || rw_dim(info, 0) != 1)
        return value;
    return spell_op(spell, "Reshape", 13, value, spell_integers(spell, NULL, 0));
}

/* value, of which a run alone knows whether it is one number or one for each index of the axis, as the latter. */
static uint32_t for_each_index(struct spell *spell, uint32_t value, uint32_t input, int64_t axis)
{
    if (value == INLAY_NONE)
        return value;
    return spell_op(
        spell, "Expand", 13, value,
        spell_op(spell, "Gather", 13, spell_typed(spell, "Shape", 13, INLAY_INT64, input), spell_list(spell, axis)));
}

void spell_linear(struct spell *spell)
{
    const bool back = spell->node->info.op_type.data[0] == 'D';
    const int64_t axis = rw_attr_int(spell->node, "axis", 1);
    const uint32_t input = spell_in(spell, 0), rank = spell_rank(spell, input);
    const inlay_value_info *of_scale = rw_info(spell->rewrite, spell_in(spell, 1));
    const bool has_axis = graph_attr(spell->node, "axis") != NULL || (rank != INLAY_RANK_UNKNOWN && rank > 1);
    const bool open = of_scale->rank != 0 && rw_dim(of_scale, 0) < 0 && has_axis;
    uint32_t scale = one_or_more(spell, spell_in(spell, 1)), zero = one_or_more(spell, spell_in(spell, 2)), output;
    const inlay_dtype to = back                 ? spell_dtype(spell, scale)
                           : zero == INLAY_NONE ? INLAY_UINT8
                                                : spell_dtype(spell, zero);

    if (open) {
        scale = for_each_index(spell, scale, input, axis);
        zero = for_each_index(spell, zero, input, axis);
    }
    output = spell_typed(spell, back ? "DequantizeLinear" : "QuantizeLinear", 21, to, input, scale, zero);
    if (open || spell_rank(spell, scale) == 1)
        spell_int(spell, "axis", axis);
    spell_output(spell, 0, output);
}

/* ------------------------------------------------------------------ recurrences */

/* A scale or zero point of each matrix, [directions], or of each of its columns, [directions, columns], beside
 * [directions, rows, columns]. */
static uint32_t beside_matrices(struct spell *spell, uint32_t value)
{
    return spell_op(spell, "Reshape", 13, value, spell_list(spell, 0, 1, -1));
}

/* Weights [directions, rows, columns] of bytes as floats [directions, columns, rows]. */
static uint32_t float_weights(struct spell *spell, uint32_t w, uint32_t scale, uint32_t zero)
{
    const int64_t perm[3] = { 0, 2, 1 };
    uint32_t input = spell_cast(spell, w, INLAY_FLOAT);

    if (zero != INLAY_NONE)
        input = spell_op(spell, "Sub", 14, input, beside_matrices(spell, spell_cast(spell, zero, INLAY_FLOAT)));
    return spell_transpose(spell, spell_op(spell, "Mul", 14, input, beside_matrices(spell, scale)), perm, 3);
}

/* LSTM with weights of bytes. ONNX Runtime rounds what comes in to bytes, too, because its products are then faster;
 * the result here is that of floats. */
void spell_dynamic_quantize_lstm(struct spell *spell)
{
    static const char *const attributes[] = { "activations", "activation_alpha", "activation_beta", "clip",
                                              "direction",   "hidden_size",      "input_forget",    NULL };
    const uint32_t w_scale = spell_in(spell, 8), w_zero = spell_in(spell, 9), r_scale = spell_in(spell, 10),
                   r_zero = spell_in(spell, 11);
    uint32_t w, r;

    w = float_weights(spell, spell_in(spell, 1), w_scale, w_zero);
    r = float_weights(spell, spell_in(spell, 2), r_scale, r_zero);
    (void)spell_make(spell, "LSTM", 14, INLAY_UNDEFINED, 3,
                     (const uint32_t[]){ spell_in(spell, 0), w, r, spell_in(spell, 3), spell_in(spell, 4),
                                         spell_in(spell, 5), spell_in(spell, 6), spell_in(spell, 7), SPELL_END });
    spell_copy(spell, attributes);
    for (uint32_t o = 0; o < 3 && spell->status == INLAY_OK; o++)
        spell_output(spell, o, spell_out(spell, o));
}
