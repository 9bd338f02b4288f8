/* Decomposes operators of com.microsoft, operators of ai.onnx that only ONNX Runtime has, and SwiGLU into ONNX
 * operators: by the rules of rules/contributed.rules, or by the functions of contributed.def where shapes or attributes
 * must be computed. Level 0, because no provider runs them. A node that ONNX operators cannot express is left
 * unchanged. The reason for that (builder_refuse) becomes part of the error if no provider runs the node. The operators
 * are defined in "ContribOperators.md" of ONNX Runtime. */
#include "passes/contributed.h"
#include "passes/rules.h"
#include <math.h>
#include <string.h>

static const struct {
    bool is_onnx; /* of ai.onnx, not of com.microsoft */
    const char *name;
    void (*decompose)(subgraph_builder *builder);
} table[] = {
#define CONTRIBUTED(name, function) { false, #name, function },
#define CONTRIBUTED_ONNX(name, function) { true, #name, function },
#include "passes/contributed.def"
#undef CONTRIBUTED
};
enum { TABLE_COUNT = sizeof table / sizeof table[0] };

/* Index of the function for an operator; TABLE_COUNT: none. */
static size_t find_function(const char *domain, const char *op_type)
{
    const bool is_onnx = strcmp(domain, "ai.onnx") == 0, is_microsoft = strcmp(domain, "com.microsoft") == 0;
    size_t i = 0;

    while (i < TABLE_COUNT && ((table[i].is_onnx ? !is_onnx : !is_microsoft) || strcmp(op_type, table[i].name) != 0))
        i++;
    return i;
}

inlay_status match_contributed(struct rewrite *rewrite, graph_node *node)
{
    subgraph_builder builder = { .rewrite = rewrite, .node = node };
    const size_t function = find_function(node->info.domain.data, node->info.op_type.data);

    if (function == TABLE_COUNT || node->schema == NULL)
        return rules_apply(&rule_set_contributed, rewrite, node);
    table[function].decompose(&builder);
    return builder.status != INLAY_OK || builder.last == NULL ? builder.status : builder_finish(&builder);
}

bool contributed_has(const char *domain, const char *op_type)
{
    return find_function(domain, op_type) < TABLE_COUNT || rules_match_op(&rule_set_contributed, domain, op_type);
}

/* alpha * op(beta * input); NaN stands for 1. */
static uint32_t scaled(subgraph_builder *builder, const char *op, uint32_t input, double alpha, double beta)
{
    const inlay_dtype dtype = builder_dtype(builder, input);

    if (!isnan(beta) && beta != 1)
        input = emit_op(builder, "Mul", 14, input, emit_number(builder, dtype, beta));
    if (op != NULL)
        input = emit_op(builder, op, 13, input);
    return isnan(alpha) || alpha == 1 ? input : emit_op(builder, "Mul", 14, input, emit_number(builder, dtype, alpha));
}

uint32_t contributed_activation(subgraph_builder *builder, const char *name, uint32_t input, const double params[3])
{
    static const char *const names[] = { "alpha", "beta", "gamma" };
    uint32_t output;

    if (strcmp(name, "Clip") == 0) {
        const inlay_dtype dtype = builder_dtype(builder, input);
        const uint32_t low = isnan(params[0]) ? INLAY_NONE : emit_number(builder, dtype, params[0]);

        return emit_op(builder, "Clip", 13, input, low,
                       isnan(params[1]) ? INLAY_NONE : emit_number(builder, dtype, params[1]));
    }
    if (strcmp(name, "ParametricSoftplus") == 0 || strcmp(name, "ScaledTanh") == 0)
        return scaled(builder, name[0] == 'P' ? "Softplus" : "Tanh", input, params[0], params[1]);
    output = emit_op(builder, name, strcmp(name, "HardSigmoid") == 0 || strcmp(name, "LeakyRelu") == 0 ? 6 : 13, input);
    for (uint32_t i = 0; i < 3; i++)
        if (!isnan(params[i]))
            emit_attr_float(builder, names[i], params[i]);
    return output;
}

/* Windows of `size` elements along an axis, `step` apart. The axis holds the windows, a new last axis their
 * elements. */
void decompose_unfold_tensor(subgraph_builder *builder)
{
    const uint32_t input = builder_input(builder, 0), rank = builder_rank(builder, input);
    const int64_t size = graph_attr_int(builder->node, "size", 0), step = graph_attr_int(builder->node, "step", 1);
    int64_t axis = graph_attr_int(builder->node, "dim", -1), perm[INLAY_MAX_RANK];
    uint32_t zero, count, starts, output;

    axis += axis < 0 && rank != INLAY_RANK_UNKNOWN ? rank : 0;
    if (builder_refuse(builder, rank == INLAY_RANK_UNKNOWN ? "the rank of the input is not known"
                                : rank >= INLAY_MAX_RANK   ? "the input has 16 axes, and the result would have 17"
                                : axis < 0 || axis >= rank ? "dim is not an axis of the input"
                                : size < 1 || size > INT32_MAX || step < 1 ? "size or step is out of range"
                                                                           : NULL))
        return;
    zero = emit_op(builder, "Squeeze", 13, emit_list(builder, 0));
    count = emit_op(builder, "Gather", 13, emit_typed(builder, "Shape", 13, INLAY_INT64, input),
                    emit_op(builder, "Squeeze", 13, emit_list(builder, axis)));
    starts = emit_op(builder, "Range", 11, zero,
                     emit_op(builder, "Sub", 14, count, emit_op(builder, "Squeeze", 13, emit_list(builder, size - 1))),
                     emit_op(builder, "Squeeze", 13, emit_list(builder, step)));
    output = emit_op(builder, "Range", 11, zero, emit_op(builder, "Squeeze", 13, emit_list(builder, size)),
                     emit_op(builder, "Squeeze", 13, emit_list(builder, 1)));
    output = emit_op(builder, "Add", 14, emit_op(builder, "Unsqueeze", 13, starts, emit_list(builder, 1)), output);
    output = emit_op(builder, "Gather", 13, input, output); /* [.., windows, size, ..] */
    emit_attr_int(builder, "axis", axis);
    for (uint32_t d = 0; d <= rank; d++)
        perm[d] = d <= axis ? d : d == rank ? axis + 1 : d + 1;
    builder_set_output(builder, 0, axis + 1 == rank ? output : emit_transpose(builder, output, perm, rank + 1));
}

void decompose_image_scaler(subgraph_builder *builder)
{
    const uint32_t input = builder_input(builder, 0);
    uint32_t count = 0, bias;
    const inlay_attr_info *list = graph_attr(builder->node, "bias");
    const int64_t dims[3] = { list == NULL ? 0 : list->count, 1, 1 };
    uint32_t output =
        emit_op(builder, "Mul", 13, input,
                emit_number(builder, builder_dtype(builder, input), graph_attr_float(builder->node, "scale", 1)));

    count = list == NULL ? 0 : list->count;
    if (count > 0) {
        bias = builder->status != INLAY_OK ? INLAY_NONE
                                           : rewrite_constant(builder->rewrite, INLAY_FLOAT, 3, dims, list->floats,
                                                              (uint64_t)count * sizeof(float));
        if (bias == INLAY_NONE)
            builder->status = builder->status == INLAY_OK ? rewrite_no_memory(builder->rewrite) : builder->status;
        output = emit_op(builder, "Add", 13, output, emit_cast(builder, bias, builder_dtype(builder, input)));
    }
    builder_set_output(builder, 0, output);
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
    bool known = true; /* the height and the width of the image */
    uint32_t output;

    for (uint32_t i = 0; why == NULL && i < 2; i++) { /* the axis of the height, then that of the width */
        const int64_t dim =
            rank == 4 ? rewrite_dim(rewrite_value_info(builder->rewrite, builder_input(builder, 0)), 2 + i) : -1;
        int64_t least; /* size of the input along the axis */

        known = known && dim >= 0;
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
    /* Slice takes what there is. If the size of the image is not known yet, the run has to fail for a smaller image:
     * negative pads and a fixed size do. */
    if (known || sized)
        output = emit_op(builder, "Slice", 13, builder_input(builder, 0), emit_integers(builder, begins, 2),
                         emit_integers(builder, ends, 2), emit_list(builder, 2, 3));
    else
        output = emit_op(builder, "Pad", 13, builder_input(builder, 0),
                         emit_list(builder, 0, 0, -begins[0], -begins[1], 0, 0, -border[3], -border[2]));
    if (!known && sized)
        output = emit_op(builder, "Reshape", 13, output, emit_list(builder, 0, 0, size[0], size[1]));
    builder_set_output(builder, 0, output);
}
