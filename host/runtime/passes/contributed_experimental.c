/* Decomposes the operators that ai.onnx had as experiments below opset 10, and that Core ML's and WinML's converters
 * still write. */
#include "passes/contributed.h"
#include <math.h>
#include <string.h>

/* Multiplies by an attribute, unless it is 1. */
static uint32_t times(subgraph_builder *builder, uint32_t value, const char *attribute)
{
    const double factor = graph_attr_float(builder->node, attribute, 1);

    return factor == 1
               ? value
               : emit_op(builder, "Mul", 14, value, emit_number(builder, builder_dtype(builder, value), factor));
}

/* alpha * x + beta. Scale has one factor, scale. */
void decompose_affine(subgraph_builder *builder)
{
    const uint32_t input = builder_input(builder, 0);
    const double beta = graph_attr_float(builder->node, "beta", 0);
    const bool is_scale = builder->node->info.op_type.data[0] == 'S';
    uint32_t output = times(builder, input, is_scale ? "scale" : "alpha");

    if (beta != 0)
        output = emit_op(builder, "Add", 14, output, emit_number(builder, builder_dtype(builder, input), beta));
    builder_set_output(builder, 0, output == input ? emit_op(builder, "Identity", 13, input) : output);
}

/* alpha * tanh(beta * x), alpha * ln(exp(beta * x) + 1) */
void decompose_scaled(subgraph_builder *builder)
{
    const char *name = builder->node->info.op_type.data;
    const double params[] = { graph_attr_float(builder->node, "alpha", NAN),
                              graph_attr_float(builder->node, "beta", NAN), NAN };

    builder_set_output(builder, 0, contributed_activation(builder, name, builder_input(builder, 0), params));
}

/* Removes border (left, top, right, bottom) of an image [N, C, H, W]; with scale (height, width), keeps that size from
 * the left and top borders on. */
void decompose_crop(subgraph_builder *builder)
{
    uint32_t borders = 0, sizes = 0;
    const int64_t *border = rewrite_attr_ints(builder->node, "border", &borders);
    const int64_t *size = rewrite_attr_ints(builder->node, "scale", &sizes);
    const uint32_t rank = builder_rank(builder, builder_input(builder, 0));
    const bool sized = graph_attr(builder->node, "scale") != NULL;
    const char *why = rank != INLAY_RANK_UNKNOWN && rank != 4 ? "the input is not an image [N, C, H, W]"
                      : borders != 4                          ? "border must have four elements"
                      : sized && sizes != 2                   ? "scale must have two elements, height and width"
                                                              : NULL;
    int64_t begins[2], ends[2];

    for (uint32_t i = 0; why == NULL && i < 2; i++) { /* the axis of the height, then that of the width */
        const int64_t dim =
            rank == 4 ? rewrite_dim(rewrite_value_info(builder->rewrite, builder_input(builder, 0)), 2 + i) : -1;
        int64_t least; /* size of the input along the axis */

        begins[i] = border[1 - i];
        if (border[1 - i] < 0 || border[3 - i] < 0 || (sized && size[i] < 0))
            why = "border or scale is negative";
        else if (__builtin_add_overflow(begins[i], sized && size[i] > border[3 - i] ? size[i] : border[3 - i],
                                        &least) ||
                 (dim >= 0 && dim < least))
            why = "border and scale do not fit into the input";
        else
            ends[i] = sized ? begins[i] + size[i] : border[3 - i] == 0 ? INT64_MAX : -border[3 - i];
    }
    if (builder_refuse(builder, why))
        return;
    builder_set_output(builder, 0,
                       emit_op(builder, "Slice", 13, builder_input(builder, 0), emit_integers(builder, begins, 2),
                               emit_integers(builder, ends, 2), emit_list(builder, 2, 3)));
}

void decompose_dynamic_slice(subgraph_builder *builder)
{
    builder_set_output(builder, 0,
                       emit_op(builder, "Slice", 10, builder_input(builder, 0), builder_input(builder, 1),
                               builder_input(builder, 2), builder_input(builder, 3)));
}

/* The first version of MeanVarianceNormalization, whose axes are those of an image. */
void decompose_image_normalization(subgraph_builder *builder)
{
    const uint32_t input = builder_input(builder, 0);
    const bool across = graph_attr_int(builder->node, "across_channels", 0) != 0;
    uint32_t output;

    if (builder->node->info.since_version != 1)
        return;
    if (graph_attr_int(builder->node, "normalize_variance", 1) == 0) {
        output = emit_op(builder, "ReduceMean", 18, input,
                         across ? emit_list(builder, 0, 1, 2, 3) : emit_list(builder, 0, 2, 3));
        output = emit_op(builder, "Sub", 14, input, output);
    } else {
        output = emit_op(builder, "MeanVarianceNormalization", 13, input);
        emit_attr_ints(builder, "axes", across ? (const int64_t[]){ 0, 1, 2, 3 } : (const int64_t[]){ 0, 2, 3 },
                       across ? 4 : 3);
    }
    builder_set_output(builder, 0, output);
}
