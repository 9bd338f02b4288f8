/* The products and convolutions among the operators of contributed.def. */
#include "passes/contributed.h"
#include <string.h>

/* ------------------------------------------------------------------ products */

/* An operand of FusedMatMul. trans swaps the last two axes; batch says that the first axis is the row, which goes
 * behind the batch ones before that. */
static uint32_t operand(struct spell *b, uint32_t x, bool trans, bool batch)
{
    const uint32_t rank = spell_rank(b, x);
    int64_t perm[INLAY_MAX_RANK];

    if ((!trans && !batch) || rank == 1) /* a vector has nothing to swap */
        return x;
    if (rank == INLAY_RANK_UNKNOWN)
        return spell_axes(b, x, !batch ? "...ab->...ba" : trans ? "a...b->...ba" : "a...b->...ab");
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
    return spell_transpose(b, x, perm, rank);
}

void spell_fused_mat_mul(struct spell *b)
{
    const graph_node *n = b->n;
    const bool ta = rw_attr_int(n, "transA", 0) != 0, tb = rw_attr_int(n, "transB", 0) != 0;
    const bool ba = rw_attr_int(n, "transBatchA", 0) != 0, bb = rw_attr_int(n, "transBatchB", 0) != 0;
    const double alpha = rw_attr_float(n, "alpha", 1);
    uint32_t x, y;

    if (spell_refuse(b, spell_rank(b, spell_in(b, 0)) == 0 || spell_rank(b, spell_in(b, 1)) == 0
                            ? "an operand is a scalar"
                            : NULL))
        return;
    x = operand(b, spell_in(b, 0), ta, ba);
    y = spell_op(b, "MatMul", 13, x, operand(b, spell_in(b, 1), tb, bb));
    if (alpha != 1)
        y = spell_op(b, "Mul", 14, y, spell_number(b, spell_dtype(b, x), alpha));
    spell_output(b, 0, y);
}

void spell_fused_gemm(struct spell *b)
{
    static const char *const attributes[] = { "alpha", "beta", "transA", "transB", NULL };
    const inlay_attr_info *name = graph_attr(b->n, "activation");
    double params[2];
    uint32_t count = 0, y;

    for (uint32_t i = 0; i < 2; i++)
        if (graph_attr(b->n, i == 0 ? "activation_alpha" : "activation_beta") != NULL)
            params[count++] = rw_attr_float(b->n, i == 0 ? "activation_alpha" : "activation_beta", 0);
    y = spell_op(b, "Gemm", 13, spell_in(b, 0), spell_in(b, 1), spell_in(b, 2));
    spell_copy(b, attributes);
    if (name != NULL && name->s.bytes > 0)
        y = contributed_activation(b, name->s.data, y, params, count);
    spell_output(b, 0, y);
}

uint32_t contributed_in_units(struct spell *b, uint32_t a, uint32_t w, uint32_t a_zero, uint32_t w_zero,
                              uint32_t a_scale, uint32_t w_scale, uint32_t bias)
{
    uint32_t y = spell_typed(b, "MatMulInteger", 10, INLAY_INT32, a, w, a_zero, w_zero);

    y = spell_op(b, "Mul", 14, spell_cast(b, y, spell_dtype(b, w_scale)), spell_op(b, "Mul", 14, a_scale, w_scale));
    return bias == INLAY_NONE ? y : spell_op(b, "Add", 14, y, bias);
}

void spell_integer_to_float(struct spell *b)
{
    spell_output(b, 0,
                 contributed_in_units(b, spell_in(b, 0), spell_in(b, 1), spell_in(b, 4), spell_in(b, 5), spell_in(b, 2),
                                      spell_in(b, 3), spell_in(b, 6)));
}

void spell_dynamic_quantize_mat_mul(struct spell *b)
{
    const uint32_t x =
        spell_make(b, "DynamicQuantizeLinear", 11, INLAY_UINT8, 3, (const uint32_t[]){ spell_in(b, 0), SPELL_END });
    const uint32_t scale = spell_out(b, 1), zero = spell_out(b, 2);

    if (b->status != INLAY_OK)
        return;
    b->w->g->values[scale].info.dtype = INLAY_FLOAT;
    spell_output(
        b, 0, contributed_in_units(b, x, spell_in(b, 1), zero, spell_in(b, 3), scale, spell_in(b, 2), spell_in(b, 4)));
}

/* |a - b| by |a|^2 + |b|^2 - 2 a b, in one product, as ONNX Runtime has it. */
void spell_c_dist(struct spell *b)
{
    const uint32_t x = spell_in(b, 0), z = spell_in(b, 1);
    const inlay_dtype dtype = spell_dtype(b, x);
    uint32_t xx = spell_op(b, "ReduceSumSquare", 18, x, spell_list(b, 1));
    uint32_t zz = spell_op(b, "ReduceSumSquare", 18, z, spell_list(b, 1)), y;

    y = spell_op(b, "Gemm", 13, x, z, xx);
    spell_int(b, "transB", 1);
    spell_float(b, "alpha", -2);
    y = spell_op(b, "Add", 14, y, spell_transpose(b, zz, (const int64_t[]){ 1, 0 }, 2));
    y = spell_op(b, "Max", 13, y, spell_number(b, dtype, 0));
    spell_output(b, 0, rw_attr_is(b->n, "metric", "euclidean") ? spell_op(b, "Sqrt", 13, y) : y);
}

/* ------------------------------------------------------------------ convolutions */

static const char *const conv_attributes[] = { "auto_pad",      "dilations",         "group",
                                               "kernel_shape",  "output_shape",      "output_padding",
                                               "pads",          "strides",           "ceil_mode",
                                               "storage_order", "count_include_pad", NULL };

/* Images with channels last or, again, first. */
static uint32_t turned(struct spell *b, uint32_t x, uint32_t rank, bool to_last)
{
    int64_t perm[INLAY_MAX_RANK] = { 0 };

    if (rank == INLAY_RANK_UNKNOWN)
        return spell_axes(b, x, to_last ? "ab...->a...b" : "a...b->ab...");
    for (uint32_t d = 1; d < rank; d++)
        perm[d] = to_last ? (d + 1 == rank ? 1 : d + 1) : (d == 1 ? rank - 1 : d - 1);
    return spell_transpose(b, x, perm, rank);
}

/* Why the node's input 0 is no image; NULL: it may be one. */
static const char *why_not_image(const struct spell *b)
{
    const uint32_t rank = spell_rank(b, spell_in(b, 0));

    return rank != INLAY_RANK_UNKNOWN && (rank < 3 || rank > INLAY_MAX_RANK)
               ? "input 0 is no image: its rank is below 3"
               : NULL;
}

static uint32_t with_activation(struct spell *b, uint32_t y)
{
    const inlay_attr_info *name = graph_attr(b->n, "activation"), *list = graph_attr(b->n, "activation_params");
    double params[2] = { 0, 0 };
    uint32_t count = list == NULL ? 0 : list->count < 2 ? list->count : 2;

    for (uint32_t i = 0; i < count; i++)
        params[i] = list->floats[i];
    return name == NULL || name->s.bytes == 0 ? y : contributed_activation(b, name->s.data, y, params, count);
}

void spell_fused_conv(struct spell *b)
{
    const uint32_t more = spell_in(b, 3);
    uint32_t y = spell_op(b, "Conv", 11, spell_in(b, 0), spell_in(b, 1), spell_in(b, 2));

    spell_copy(b, conv_attributes);
    if (more != INLAY_NONE)
        y = spell_op(b, "Add", 14, y, more);
    spell_output(b, 0, with_activation(b, y));
}

/* The weights have their channels second in these. */
void spell_nhwc_conv(struct spell *b)
{
    const uint32_t rank = spell_rank(b, spell_in(b, 0)), more = spell_in(b, 3);
    uint32_t y;

    if (spell_refuse(b, why_not_image(b)))
        return;
    y = spell_op(b, "Conv", 11, turned(b, spell_in(b, 0), rank, false), spell_in(b, 1), spell_in(b, 2));
    spell_copy(b, conv_attributes);
    y = turned(b, y, rank, true);
    if (more != INLAY_NONE)
        y = spell_op(b, "Add", 14, y, more);
    spell_output(b, 0, with_activation(b, y));
}

void spell_nhwc_max_pool(struct spell *b)
{
    const uint32_t rank = spell_rank(b, spell_in(b, 0));
    uint32_t y;

    if (spell_refuse(b, why_not_image(b)))
        return;
    y = spell_op(b, "MaxPool", 12, turned(b, spell_in(b, 0), rank, false));
    spell_copy(b, conv_attributes);
    spell_output(b, 0, turned(b, y, rank, true));
}

void spell_q_linear_conv(struct spell *b)
{
    const uint32_t rank = spell_rank(b, spell_in(b, 0));
    const bool last = rw_attr_int(b->n, "channels_last", 0) != 0;
    uint32_t in[10], y;

    if (spell_refuse(b, last ? why_not_image(b) : NULL))
        return;
    for (uint32_t i = 0; i < 9; i++)
        in[i] = spell_in(b, i);
    in[9] = SPELL_END;
    if (last)
        in[0] = turned(b, in[0], rank, false);
    y = spell_make(b, "QLinearConv", 10, spell_dtype(b, in[7]), 1, in);
    spell_copy(b, conv_attributes);
    spell_output(b, 0, last ? turned(b, y, rank, true) : y);
}

/* Input i of the node, a zero point; one of that type where it is omitted. */
static uint32_t zero_point(struct spell *b, uint32_t i, inlay_dtype dtype)
{
    static const uint8_t none = 0;
    uint32_t v = spell_in(b, i);

    if (v == INLAY_NONE && b->status == INLAY_OK) {
        v = rw_constant(b->w, dtype, 0, NULL, &none, 1);
        b->status = v == INLAY_NONE ? rw_no_memory(b->w) : INLAY_OK;
    }
    return v;
}

/* Those of images with channels last; pass quantized_functions has the others. */
void spell_q_pool(struct spell *b)
{
    const bool whole = strcmp(b->n->info.op_type.data, "QLinearGlobalAveragePool") == 0;
    const uint32_t rank = spell_rank(b, spell_in(b, 0));
    const inlay_dtype dtype = spell_dtype(b, spell_in(b, 0));
    uint32_t y;

    if (rw_attr_int(b->n, "channels_last", 0) == 0 || spell_refuse(b, why_not_image(b)))
        return;
    y = spell_typed(b, "DequantizeLinear", 13, INLAY_FLOAT, spell_in(b, 0), spell_in(b, 1), spell_in(b, 2));
    y = spell_op(b, whole ? "GlobalAveragePool" : "AveragePool", whole ? 1 : 11, turned(b, y, rank, false));
    if (!whole)
        spell_copy(b, conv_attributes);
    y = turned(b, y, rank, true);
    spell_output(b, 0, spell_typed(b, "QuantizeLinear", 13, dtype, y, spell_in(b, 3), zero_point(b, 4, dtype)));
}

/* The axes of the image y behind those of batch and channels. */
static uint32_t image_axes(struct spell *b, uint32_t y, uint32_t rank)
{
    int64_t axes[INLAY_MAX_RANK];

    if (rank == INLAY_RANK_UNKNOWN)
        return spell_op(b, "Range", 11, spell_op(b, "Squeeze", 13, spell_list(b, 2)),
                        spell_typed(b, "Size", 13, INLAY_INT64, spell_typed(b, "Shape", 13, INLAY_INT64, y)),
                        spell_op(b, "Squeeze", 13, spell_list(b, 1)));
    for (uint32_t d = 2; d < rank; d++)
        axes[d - 2] = d;
    return spell_integers(b, axes, rank - 2);
}

/* Without padding, and what the padding says is cut off. */
void spell_conv_transpose(struct spell *b)
{
    static const char *const attributes[] = { "dilations", "group", "kernel_shape", "output_padding", "strides", NULL };
    const uint32_t pads = spell_in(b, 2), of_image = spell_rank(b, spell_in(b, 0));
    const uint32_t rank =
        of_image != INLAY_RANK_UNKNOWN ? of_image : spell_rank(b, spell_in(b, 1)); /* W has the same */
    uint32_t y, begins, ends, sizes;

    if (spell_refuse(b, why_not_image(b)))
        return;
    y = spell_op(b, "ConvTranspose", 11, spell_in(b, 0), spell_in(b, 1), spell_in(b, 3));
    spell_copy(b, attributes);
    if (pads != INLAY_NONE) {
        begins = spell_make(b, "Split", 13, INLAY_INT64, 2, (const uint32_t[]){ spell_ranked(b, pads, 1), SPELL_END });
        ends = spell_out(b, 1);
        sizes = spell_typed(b, "Shape", 13, INLAY_INT64, y);
        sizes = spell_op(b, "Slice", 13, sizes, spell_list(b, 2), spell_list(b, INT64_MAX));
        y = spell_op(b, "Slice", 13, y, begins, spell_op(b, "Sub", 14, sizes, ends), image_axes(b, y, rank));
    }
    spell_output(b, 0, y);
}

/* ------------------------------------------------------------------ scales and zero points */

/* One number may be a vector of one. */
static uint32_t one_or_more(struct spell *b, uint32_t v)
{
    const inlay_value_info *info = rw_info(b->w, v);

    if (v == INLAY_NONE || info->rank != 1 || rw_dim(info, 0) != 1)
        return v;
    return spell_op(b, "Reshape", 13, v, spell_integers(b, NULL, 0));
}

/* v, of which a run alone knows whether it is one number or one for each index of the axis, as the latter. */
static uint32_t for_each_index(struct spell *b, uint32_t v, uint32_t x, int64_t axis)
{
    if (v == INLAY_NONE)
        return v;
    return spell_op(b, "Expand", 13, v,
                    spell_op(b, "Gather", 13, spell_typed(b, "Shape", 13, INLAY_INT64, x), spell_list(b, axis)));
}

void spell_linear(struct spell *b)
{
    const bool back = b->n->info.op_type.data[0] == 'D';
    const int64_t axis = rw_attr_int(b->n, "axis", 1);
    const uint32_t x = spell_in(b, 0), rank = spell_rank(b, x);
    const inlay_value_info *of_scale = rw_info(b->w, spell_in(b, 1));
    const bool has_axis = graph_attr(b->n, "axis") != NULL || (rank != INLAY_RANK_UNKNOWN && rank > 1);
    const bool open = of_scale->rank != 0 && rw_dim(of_scale, 0) < 0 && has_axis;
    uint32_t scale = one_or_more(b, spell_in(b, 1)), zero = one_or_more(b, spell_in(b, 2)), y;
    const inlay_dtype to = back ? spell_dtype(b, scale) : zero == INLAY_NONE ? INLAY_UINT8 : spell_dtype(b, zero);

    if (open) {
        scale = for_each_index(b, scale, x, axis);
        zero = for_each_index(b, zero, x, axis);
    }
    y = spell_typed(b, back ? "DequantizeLinear" : "QuantizeLinear", 21, to, x, scale, zero);
    if (open || spell_rank(b, scale) == 1)
        spell_int(b, "axis", axis);
    spell_output(b, 0, y);
}

/* ------------------------------------------------------------------ recurrences */

/* A scale or zero point of each matrix, [directions], or of each of its columns, [directions, columns], beside
 * [directions, rows, columns]. */
static uint32_t beside_matrices(struct spell *b, uint32_t v)
{
    return spell_op(b, "Reshape", 13, v, spell_list(b, 0, 1, -1));
}

/* Weights [directions, rows, columns] of bytes as floats [directions, columns, rows]. */
static uint32_t float_weights(struct spell *b, uint32_t w, uint32_t scale, uint32_t zero)
{
    const int64_t perm[3] = { 0, 2, 1 };
    uint32_t x = spell_cast(b, w, INLAY_FLOAT);

    if (zero != INLAY_NONE)
        x = spell_op(b, "Sub", 14, x, beside_matrices(b, spell_cast(b, zero, INLAY_FLOAT)));
    return spell_transpose(b, spell_op(b, "Mul", 14, x, beside_matrices(b, scale)), perm, 3);
}

/* LSTM with weights of bytes. ONNX Runtime rounds what comes in to bytes, too, because its products are then faster;
 * the result here is that of floats. */
void spell_dynamic_quantize_lstm(struct spell *b)
{
    static const char *const attributes[] = { "activations", "activation_alpha", "activation_beta", "clip",
                                              "direction",   "hidden_size",      "input_forget",    NULL };
    const uint32_t w_scale = spell_in(b, 8), w_zero = spell_in(b, 9), r_scale = spell_in(b, 10),
                   r_zero = spell_in(b, 11);
    uint32_t w, r;

    w = float_weights(b, spell_in(b, 1), w_scale, w_zero);
    r = float_weights(b, spell_in(b, 2), r_scale, r_zero);
    (void)spell_make(b, "LSTM", 14, INLAY_UNDEFINED, 3,
                     (const uint32_t[]){ spell_in(b, 0), w, r, spell_in(b, 3), spell_in(b, 4), spell_in(b, 5),
                                         spell_in(b, 6), spell_in(b, 7), SPELL_END });
    spell_copy(b, attributes);
    for (uint32_t o = 0; o < 3 && b->status == INLAY_OK; o++)
        spell_output(b, o, spell_out(b, o));
}
