/* Decomposes the matrix multiplications, convolutions and recurrent operators of contributed.def. */
#include "passes/contributed.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

/* An operand of FusedMatMul. trans swaps the last two axes. batch: the first axis holds the rows and is moved after
 * the batch axes first. */
static uint32_t operand(subgraph_builder *builder, uint32_t input, bool trans, bool batch)
{
    const uint32_t rank = builder_rank(builder, input);
    int64_t perm[INLAY_MAX_RANK];

    if ((!trans && !batch) || rank == 1) /* a vector has no axes to swap */
        return input;
    if (rank == INLAY_RANK_UNKNOWN)
        return emit_einsum(builder, input, !batch ? "...ab->...ba" : trans ? "a...b->...ba" : "a...b->...ab");
    INLAY_CHECK(rank >= 2 && rank <= INLAY_MAX_RANK);
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
    return emit_transpose(builder, input, perm, rank);
}

void decompose_fused_mat_mul(subgraph_builder *builder)
{
    const graph_node *node = builder->node;
    const bool trans_a = graph_attr_int(node, "transA", 0) != 0, trans_b = graph_attr_int(node, "transB", 0) != 0;
    const bool batch_a = graph_attr_int(node, "transBatchA", 0) != 0,
               batch_b = graph_attr_int(node, "transBatchB", 0) != 0;
    const double alpha = graph_attr_float(node, "alpha", 1);
    uint32_t input, output;

    if (builder_refuse(builder, builder_rank(builder, builder_input(builder, 0)) == 0 ||
                                        builder_rank(builder, builder_input(builder, 1)) == 0
                                    ? "an operand is a scalar"
                                    : NULL))
        return;
    input = operand(builder, builder_input(builder, 0), trans_a, batch_a);
    output = emit_op(builder, "MatMul", 13, input, operand(builder, builder_input(builder, 1), trans_b, batch_b));
    if (alpha != 1)
        output = emit_op(builder, "Mul", 14, output, emit_number(builder, builder_dtype(builder, input), alpha));
    builder_set_output(builder, 0, output);
}

void decompose_fused_gemm(subgraph_builder *builder)
{
    static const char *const attributes[] = { "alpha", "beta", "transA", "transB", NULL };
    static const char *const names[] = { "activation_alpha", "activation_beta", "activation_gamma" };
    const inlay_attr_info *name = graph_attr(builder->node, "activation");
    double params[3];
    uint32_t output;

    for (uint32_t i = 0; i < 3; i++)
        params[i] = graph_attr_float(builder->node, names[i], NAN);
    output =
        emit_op(builder, "Gemm", 13, builder_input(builder, 0), builder_input(builder, 1), builder_input(builder, 2));
    emit_attr_copies(builder, attributes);
    if (name != NULL && name->s.bytes > 0)
        output = contributed_activation(builder, name->s.data, output, params);
    builder_set_output(builder, 0, output);
}

uint32_t contributed_scaled_mat_mul(subgraph_builder *builder, uint32_t a, uint32_t w, uint32_t a_zero, uint32_t w_zero,
                                    uint32_t a_scale, uint32_t w_scale, uint32_t bias)
{
    uint32_t output = emit_typed(builder, "MatMulInteger", 10, INLAY_INT32, a, w, a_zero, w_zero);

    output = emit_op(builder, "Mul", 14, emit_cast(builder, output, builder_dtype(builder, w_scale)),
                     emit_op(builder, "Mul", 14, a_scale, w_scale));
    return bias == INLAY_NONE ? output : emit_op(builder, "Add", 14, output, bias);
}

/* |a - b|^2 as |a|^2 + |b|^2 - 2 a b, with one Gemm, as in ONNX Runtime. */
static uint32_t squared_distances(subgraph_builder *builder, uint32_t rows, uint32_t others)
{
    uint32_t row_squares = emit_op(builder, "ReduceSumSquare", 18, rows, emit_list(builder, 1));
    uint32_t other_squares = emit_op(builder, "ReduceSumSquare", 18, others, emit_list(builder, 1)), output;

    output = emit_op(builder, "Gemm", 13, rows, others, row_squares);
    emit_attr_int(builder, "transB", 1);
    emit_attr_float(builder, "alpha", -2);
    output = emit_op(builder, "Add", 14, output, emit_transpose(builder, other_squares, (const int64_t[]){ 1, 0 }, 2));
    return emit_op(builder, "Max", 13, output, emit_number(builder, builder_dtype(builder, rows), 0));
}

/* 1 - a b / (|a| |b|) */
static uint32_t cosine_distances(subgraph_builder *builder, uint32_t rows, uint32_t others)
{
    static const int64_t swap[] = { 1, 0 };
    const uint32_t row_norms = emit_op(builder, "ReduceL2", 18, rows, emit_list(builder, 1)),
                   other_norms = emit_op(builder, "ReduceL2", 18, others, emit_list(builder, 1));
    const uint32_t norms = emit_op(builder, "Mul", 14, row_norms, emit_transpose(builder, other_norms, swap, 2));
    const uint32_t products = emit_op(builder, "MatMul", 13, rows, emit_transpose(builder, others, swap, 2));

    return emit_op(builder, "Sub", 14, emit_number(builder, builder_dtype(builder, rows), 1),
                   emit_op(builder, "Div", 14, products, norms));
}

/* The p-norm of each difference of two rows. p: 0 for the largest element. */
static uint32_t norm_distances(subgraph_builder *builder, uint32_t rows, uint32_t others, int64_t p)
{
    const inlay_dtype dtype = builder_dtype(builder, rows);
    uint32_t output = emit_op(builder, "Sub", 14, emit_op(builder, "Unsqueeze", 13, rows, emit_list(builder, 1)),
                              emit_op(builder, "Unsqueeze", 13, others, emit_list(builder, 0)));

    output = emit_op(builder, "Abs", 13, output);
    if (p > 1)
        output = emit_op(builder, "Pow", 15, output, emit_number(builder, dtype, (double)p));
    output = emit_op(builder, p == 0 ? "ReduceMax" : "ReduceSum", p == 0 ? 18 : 13, output, emit_list(builder, 2));
    emit_attr_int(builder, "keepdims", 0);
    return p > 1 ? emit_op(builder, "Pow", 15, output, emit_number(builder, dtype, 1.0 / (double)p)) : output;
}

/* Distances of each row of A from each row of B. ONNX Runtime has only the first two metrics; converters of
 * scikit-learn write the others, and the exponent p of minkowski. */
void decompose_c_dist(subgraph_builder *builder)
{
    const graph_node *node = builder->node;
    const uint32_t rows = builder_input(builder, 0), others = builder_input(builder, 1);
    const bool minkowski = rewrite_attr_is(node, "metric", "minkowski");
    const int64_t p = graph_attr_int(node, "p", 2);
    uint32_t output;

    if (builder_refuse(builder, !minkowski && graph_attr(node, "p") != NULL ? "p is set, and metric is not minkowski"
                                : minkowski && p < 1                        ? "p is below 1"
                                                                            : NULL))
        return;
    if (rewrite_attr_is(node, "metric", "cosine"))
        output = cosine_distances(builder, rows, others);
    else if (rewrite_attr_is(node, "metric", "chebyshev"))
        output = norm_distances(builder, rows, others, 0);
    else if (rewrite_attr_is(node, "metric", "cityblock") || rewrite_attr_is(node, "metric", "manhattan") || p == 1)
        output = norm_distances(builder, rows, others, 1);
    else if (p > 2)
        output = norm_distances(builder, rows, others, p);
    else
        output = squared_distances(builder, rows, others);
    if (rewrite_attr_is(node, "metric", "euclidean") || (minkowski && p == 2))
        output = emit_op(builder, "Sqrt", 13, output);
    builder_set_output(builder, 0, output);
}

static const char *const conv_attributes[] = { "auto_pad",      "dilations",         "group",
                                               "kernel_shape",  "output_shape",      "output_padding",
                                               "pads",          "strides",           "ceil_mode",
                                               "storage_order", "count_include_pad", NULL };

/* Transposes images from channels first to channels last, or back. */
static uint32_t move_channels(subgraph_builder *builder, uint32_t input, uint32_t rank, bool to_last)
{
    int64_t perm[INLAY_MAX_RANK] = { 0 };

    if (rank == INLAY_RANK_UNKNOWN)
        return emit_einsum(builder, input, to_last ? "ab...->a...b" : "a...b->ab...");
    for (uint32_t d = 1; d < rank; d++)
        perm[d] = to_last ? (d + 1 == rank ? 1 : d + 1) : (d == 1 ? rank - 1 : d - 1);
    return emit_transpose(builder, input, perm, rank);
}

/* The reason why input 0 of the node cannot be an image; NULL: it may be one. */
static const char *image_error(const subgraph_builder *builder)
{
    const uint32_t rank = builder_rank(builder, builder_input(builder, 0));

    return rank != INLAY_RANK_UNKNOWN && (rank < 3 || rank > INLAY_MAX_RANK)
               ? "input 0 is not an image: its rank is not in 3..8"
               : NULL;
}

static uint32_t apply_activation(subgraph_builder *builder, uint32_t output)
{
    const inlay_attr_info *name = graph_attr(builder->node, "activation"),
                          *list = graph_attr(builder->node, "activation_params");
    double params[3] = { NAN, NAN, NAN };

    for (uint32_t i = 0; list != NULL && i < list->count && i < 2; i++)
        params[i] = list->floats[i];
    return name == NULL || name->s.bytes == 0 ? output : contributed_activation(builder, name->s.data, output, params);
}

void decompose_fused_conv(subgraph_builder *builder)
{
    const uint32_t addend = builder_input(builder, 3);
    uint32_t output =
        emit_op(builder, "Conv", 11, builder_input(builder, 0), builder_input(builder, 1), builder_input(builder, 2));

    emit_attr_copies(builder, conv_attributes);
    if (addend != INLAY_NONE)
        output = emit_op(builder, "Add", 14, output, addend);
    builder_set_output(builder, 0, apply_activation(builder, output));
}

/* The weights of these operators have channels second. */
void decompose_nhwc_conv(subgraph_builder *builder)
{
    const uint32_t rank = builder_rank(builder, builder_input(builder, 0)), addend = builder_input(builder, 3);
    uint32_t output;

    if (builder_refuse(builder, image_error(builder)))
        return;
    output = emit_op(builder, "Conv", 11, move_channels(builder, builder_input(builder, 0), rank, false),
                     builder_input(builder, 1), builder_input(builder, 2));
    emit_attr_copies(builder, conv_attributes);
    output = move_channels(builder, output, rank, true);
    if (addend != INLAY_NONE)
        output = emit_op(builder, "Add", 14, output, addend);
    builder_set_output(builder, 0, apply_activation(builder, output));
}

void decompose_nhwc_max_pool(subgraph_builder *builder)
{
    const uint32_t rank = builder_rank(builder, builder_input(builder, 0));
    uint32_t output;

    if (builder_refuse(builder, image_error(builder)))
        return;
    output = emit_op(builder, "MaxPool", 12, move_channels(builder, builder_input(builder, 0), rank, false));
    emit_attr_copies(builder, conv_attributes);
    builder_set_output(builder, 0, move_channels(builder, output, rank, true));
}

void decompose_q_linear_conv(subgraph_builder *builder)
{
    const uint32_t rank = builder_rank(builder, builder_input(builder, 0));
    const bool last = graph_attr_int(builder->node, "channels_last", 0) != 0;
    uint32_t in[10], output;

    if (builder_refuse(builder, last ? image_error(builder) : NULL))
        return;
    for (uint32_t i = 0; i < 9; i++)
        in[i] = builder_input(builder, i);
    in[9] = EMIT_END;
    if (last)
        in[0] = move_channels(builder, in[0], rank, false);
    output = emit_node(builder, "QLinearConv", 10, builder_dtype(builder, in[7]), 1, in);
    emit_attr_copies(builder, conv_attributes);
    builder_set_output(builder, 0, last ? move_channels(builder, output, rank, true) : output);
}

/* Input i of the node, a zero point. If it is omitted: a zero of that type, so that the output has the type. */
static uint32_t zero_point(subgraph_builder *builder, uint32_t i, inlay_dtype dtype)
{
    static const uint8_t none = 0;
    uint32_t value = builder_input(builder, i);

    if (value == INLAY_NONE && builder->status == INLAY_OK) {
        value = rewrite_constant(builder->rewrite, dtype, 0, NULL, &none, 1);
        builder->status = value == INLAY_NONE ? rewrite_no_memory(builder->rewrite) : INLAY_OK;
    }
    return value;
}

/* Decomposes pools with channels last; pass quantized_functions handles the others. */
void decompose_q_linear_pool(subgraph_builder *builder)
{
    const bool whole = strcmp(builder->node->info.op_type.data, "QLinearGlobalAveragePool") == 0;
    const uint32_t rank = builder_rank(builder, builder_input(builder, 0));
    const inlay_dtype dtype = builder_dtype(builder, builder_input(builder, 0));
    uint32_t output;

    if (graph_attr_int(builder->node, "channels_last", 0) == 0 || builder_refuse(builder, image_error(builder)))
        return;
    output = emit_typed(builder, "DequantizeLinear", 13, INLAY_FLOAT, builder_input(builder, 0),
                        builder_input(builder, 1), builder_input(builder, 2));
    output = emit_op(builder, whole ? "GlobalAveragePool" : "AveragePool", whole ? 1 : 11,
                     move_channels(builder, output, rank, false));
    if (!whole)
        emit_attr_copies(builder, conv_attributes);
    output = move_channels(builder, output, rank, true);
    builder_set_output(builder, 0,
                       emit_typed(builder, "QuantizeLinear", 13, dtype, output, builder_input(builder, 3),
                                  zero_point(builder, 4, dtype)));
}

/* The spatial axes of the image: all but batch and channels. */
static uint32_t image_axes(subgraph_builder *builder, uint32_t output, uint32_t rank)
{
    int64_t axes[INLAY_MAX_RANK];

    if (rank == INLAY_RANK_UNKNOWN)
        return emit_op(
            builder, "Range", 11, emit_op(builder, "Squeeze", 13, emit_list(builder, 2)),
            emit_typed(builder, "Size", 13, INLAY_INT64, emit_typed(builder, "Shape", 13, INLAY_INT64, output)),
            emit_op(builder, "Squeeze", 13, emit_list(builder, 1)));
    for (uint32_t d = 2; d < rank; d++)
        axes[d - 2] = d;
    return emit_integers(builder, axes, rank - 2);
}

/* ConvTranspose without padding, followed by a Slice that removes the padding. */
void decompose_conv_transpose_dynamic_pads(subgraph_builder *builder)
{
    static const char *const attributes[] = { "dilations", "group", "kernel_shape", "output_padding", "strides", NULL };
    const uint32_t pads = builder_input(builder, 2), image_rank = builder_rank(builder, builder_input(builder, 0));
    const uint32_t rank = image_rank != INLAY_RANK_UNKNOWN
                              ? image_rank
                              : builder_rank(builder, builder_input(builder, 1)); /* W has the same rank */
    uint32_t output, begins, ends, sizes;

    if (builder_refuse(builder, image_error(builder)))
        return;
    output = emit_op(builder, "ConvTranspose", 11, builder_input(builder, 0), builder_input(builder, 1),
                     builder_input(builder, 3));
    emit_attr_copies(builder, attributes);
    if (pads != INLAY_NONE) {
        begins = emit_node(builder, "Split", 13, INLAY_INT64, 2,
                           (const uint32_t[]){ emit_ranked(builder, pads, 1), EMIT_END });
        ends = emitted_output(builder, 1);
        sizes = emit_typed(builder, "Shape", 13, INLAY_INT64, output);
        sizes = emit_op(builder, "Slice", 13, sizes, emit_list(builder, 2), emit_list(builder, INT64_MAX));
        output = emit_op(builder, "Slice", 13, output, begins, emit_op(builder, "Sub", 14, sizes, ends),
                         image_axes(builder, output, rank));
    }
    builder_set_output(builder, 0, output);
}

/* Turns a vector of one element into a scalar; other values are returned unchanged. */
static uint32_t squeeze_single(subgraph_builder *builder, uint32_t value)
{
    const inlay_value_info *info = rewrite_value_info(builder->rewrite, value);

    if (value == INLAY_NONE || info->rank != 1 || rewrite_dim(info, 0) != 1)
        return value;
    return emit_op(builder, "Reshape", 13, value, emit_integers(builder, NULL, 0));
}

/* Expands value, which may be known only at run time to hold one element, to one element for each index of the axis. */
static uint32_t expand_to_axis(subgraph_builder *builder, uint32_t value, uint32_t input, int64_t axis)
{
    if (value == INLAY_NONE)
        return value;
    return emit_op(
        builder, "Expand", 13, value,
        emit_op(builder, "Gather", 13, emit_typed(builder, "Shape", 13, INLAY_INT64, input), emit_list(builder, axis)));
}

void decompose_quantize_linear(subgraph_builder *builder)
{
    const bool is_dequantize = builder->node->info.op_type.data[0] == 'D';
    const int64_t axis = graph_attr_int(builder->node, "axis", 1);
    const uint32_t input = builder_input(builder, 0), rank = builder_rank(builder, input);
    const inlay_value_info *scale_info = rewrite_value_info(builder->rewrite, builder_input(builder, 1));
    const bool has_axis = graph_attr(builder->node, "axis") != NULL || (rank != INLAY_RANK_UNKNOWN && rank > 1);
    const bool open =
        scale_info->rank != 0 && rewrite_dim(scale_info, 0) < 0 && has_axis; /* one scale or one per index */
    uint32_t scale = squeeze_single(builder, builder_input(builder, 1)),
             zero = squeeze_single(builder, builder_input(builder, 2)), output;
    const inlay_dtype to = is_dequantize        ? builder_dtype(builder, scale)
                           : zero == INLAY_NONE ? INLAY_UINT8
                                                : builder_dtype(builder, zero);

    if (open) {
        scale = expand_to_axis(builder, scale, input, axis);
        zero = expand_to_axis(builder, zero, input, axis);
    }
    output = emit_typed(builder, is_dequantize ? "DequantizeLinear" : "QuantizeLinear", 21, to, input, scale, zero);
    if (open || builder_rank(builder, scale) == 1)
        emit_attr_int(builder, "axis", axis);
    builder_set_output(builder, 0, output);
}

/* Reshapes a scale or zero point of each matrix, [directions], or of each column, [directions, columns], to broadcast
 * over [directions, rows, columns]. */
static uint32_t broadcast_over_rows(subgraph_builder *builder, uint32_t value)
{
    return emit_op(builder, "Reshape", 13, value, emit_list(builder, 0, 1, -1));
}

/* 8-bit weights [directions, rows, columns] as floats [directions, columns, rows]. */
static uint32_t float_weights(subgraph_builder *builder, uint32_t w, uint32_t scale, uint32_t zero)
{
    const int64_t perm[3] = { 0, 2, 1 };
    const int64_t rows = builder_rank(builder, w) == 3 ? rewrite_dim(rewrite_value_info(builder->rewrite, w), 1) : -1;
    uint32_t input;

    if (builder_rank(builder, scale) == 1) { /* providers keep the weights of a DequantizeLinear in 8 bits */
        input = emit_typed(builder, "DequantizeLinear", 21, INLAY_FLOAT, w, scale, zero);
        emit_attr_int(builder, "axis", 0);
    } else if (builder_rank(builder, scale) == 2 && rows > 0) { /* each column is a block */
        input = emit_typed(builder, "DequantizeLinear", 21, INLAY_FLOAT, w, broadcast_over_rows(builder, scale),
                           zero == INLAY_NONE ? INLAY_NONE : broadcast_over_rows(builder, zero));
        emit_attr_int(builder, "axis", 1);
        emit_attr_int(builder, "block_size", rows);
    } else {
        input = emit_cast(builder, w, INLAY_FLOAT);
        if (zero != INLAY_NONE)
            input =
                emit_op(builder, "Sub", 14, input, broadcast_over_rows(builder, emit_cast(builder, zero, INLAY_FLOAT)));
        input = emit_op(builder, "Mul", 14, input, broadcast_over_rows(builder, scale));
    }
    return emit_transpose(builder, input, perm, 3);
}

/* LSTM with 8-bit weights. ONNX Runtime also quantizes the activations, because its integer kernels are faster; here
 * the activations stay float. */
void decompose_dynamic_quantize_lstm(subgraph_builder *builder)
{
    static const char *const attributes[] = { "activations", "activation_alpha", "activation_beta", "clip",
                                              "direction",   "hidden_size",      "input_forget",    NULL };
    const uint32_t w_scale = builder_input(builder, 8), w_zero = builder_input(builder, 9),
                   r_scale = builder_input(builder, 10), r_zero = builder_input(builder, 11);
    uint32_t w, r;

    w = float_weights(builder, builder_input(builder, 1), w_scale, w_zero);
    r = float_weights(builder, builder_input(builder, 2), r_scale, r_zero);
    (void)emit_node(builder, "LSTM", 14, INLAY_UNDEFINED, 3,
                    (const uint32_t[]){ builder_input(builder, 0), w, r, builder_input(builder, 3),
                                        builder_input(builder, 4), builder_input(builder, 5), builder_input(builder, 6),
                                        builder_input(builder, 7), EMIT_END });
    emit_attr_copies(builder, attributes);
    for (uint32_t i = 0; i < 3 && builder->status == INLAY_OK; i++)
        builder_set_output(builder, i, emitted_output(builder, i));
}
