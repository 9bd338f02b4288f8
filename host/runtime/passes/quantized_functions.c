/* Decomposes the 8-bit functions that ONNX Runtime's static quantization writes (format QOperator, domain
 * com.microsoft, "ContribOperators.md" of ONNX Runtime) into ONNX operators:
 *
 *     QLinearAdd(a, scale, zero, b, scale, zero, scale, zero)
 *         ->  QuantizeLinear(Add(DequantizeLinear(a, scale, zero), DequantizeLinear(b, scale, zero)), scale, zero)
 *
 * QGemm with a result in floats becomes MatMulInteger, whose sums are exact, times the scales.
 *
 * Level 0, because no provider runs the originals. Providers fuse the pieces again (providers/cpu: quant_chain.c), and
 * quantized_ops turns QGemm into integer operators. Pass contributed handles images with channels last. */
#include "passes/subgraph_builder.h"
#include <string.h>

/* A function of `count` dequantized operands (0: all remaining inputs). Each operand takes three inputs of the node,
 * from `first` on. `condition`: input 0 is passed through unchanged. The scale of the result is input `result`; its
 * zero point is the next input. */
typedef struct quantized_function {
    const char *name, *op;
    uint32_t first, count, result;
    bool condition;
    int64_t opset; /* of ai.onnx; 0: the model's */
} quantized_function;

static const quantized_function table[] = {
    { "QLinearAdd", "Add", 0, 2, 6, false, 0 },
    { "QLinearMul", "Mul", 0, 2, 6, false, 0 },
    { "QLinearSigmoid", "Sigmoid", 0, 1, 3, false, 0 },
    { "QLinearLeakyRelu", "LeakyRelu", 0, 1, 3, false, 0 },
    { "QLinearSoftmax", "Softmax", 0, 1, 3, false, 0 },
    { "QLinearAveragePool", "AveragePool", 0, 1, 3, false, 0 },
    { "QLinearGlobalAveragePool", "GlobalAveragePool", 0, 1, 3, false, 0 },
    { "QLinearReduceMean", "ReduceMean", 0, 1, 3, false, 13 }, /* with axes as an attribute, as in ReduceMean-13 */
    { "QLinearWhere", "Where", 1, 2, 7, true, 0 },
    { "QLinearConcat", "Concat", 2, 0, 0, false, 0 },
    { "QGemm", "Gemm", 0, 2, 7, false, 0 },
};

static const quantized_function *find_function(const graph_node *node)
{
    if (strcmp(node->info.domain.data, "com.microsoft") != 0)
        return NULL;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(node->info.op_type.data, table[i].name) == 0)
            return &table[i];
    return NULL;
}

/* Creates DequantizeLinear or QuantizeLinear with input `scale` of the node and the zero point after it. axis < 0: one
 * scale for all elements. */
static graph_node *make_linear(struct rewrite *rewrite, const graph_node *node, const char *op, uint32_t input,
                               uint32_t scale, inlay_dtype dtype, int64_t axis)
{
    static const uint8_t none = 0;
    uint32_t zero = rewrite_input(rewrite, node, scale + 1);

    if (zero == INLAY_NONE) /* the zero point determines the type of the result */
        zero = rewrite_constant(rewrite, dtype, 0, NULL, &none, 1);
    {
        graph_node *new_node =
            zero == INLAY_NONE
                ? NULL
                : rewrite_make_node(rewrite, op, 13, node,
                                    (const uint32_t[]){ input, rewrite_input(rewrite, node, scale), zero }, 3, 1);

        return new_node == NULL || (axis >= 0 && graph_set_attr_int(rewrite->graph, new_node, "axis", axis) != INLAY_OK)
                   ? NULL
                   : new_node;
    }
}

/* Dequantizes the operand at input `at` of the node. */
static inlay_status dequantize(struct rewrite *rewrite, const graph_node *node, uint32_t at, int64_t axis,
                               uint32_t *out)
{
    const uint32_t input = rewrite_input(rewrite, node, at);
    const inlay_value_info *scale = rewrite_value_info(rewrite, rewrite_input(rewrite, node, at + 1));
    graph_node *new_node;
    inlay_status status;

    if (rewrite_value_info(rewrite, input)->dtype == INLAY_FLOAT) { /* QLinearConcat accepts float operands */
        *out = input;
        return INLAY_OK;
    }
    new_node = make_linear(rewrite, node, "DequantizeLinear", input, at + 1, rewrite_value_info(rewrite, input)->dtype,
                           scale->rank != 0 && axis >= 0 ? axis : -1);
    status = new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_insert_node(rewrite, new_node, INLAY_FLOAT);
    if (status == INLAY_OK)
        *out = new_node->info.outputs[0];
    return status;
}

/* Attributes that the ONNX operators lack. */
static const char *const excluded_attributes[] = { "channels_last", "opset" };

static bool copy_attributes(struct rewrite *rewrite, const graph_node *node, graph_node *new_node)
{
    for (uint32_t i = 0; i < node->own_attr_count; i++) { /* attributes after these are defaults */
        const inlay_attr_info *attribute = INLAY_AT(inlay_attr_info, node->info.attrs, node->info.attr_stride, i);

        if (strcmp(attribute->name.data, excluded_attributes[0]) != 0 &&
            strcmp(attribute->name.data, excluded_attributes[1]) != 0 &&
            graph_set_attr(rewrite->graph, new_node, attribute) != INLAY_OK)
            return false;
    }
    return true;
}

/* Computes the unit of QGemm's bias, alpha times both scales, as one constant. INLAY_NONE: the scales are not constant,
 * or their shapes do not match the bias. */
static inlay_status constant_bias_unit(struct rewrite *rewrite, const graph_node *node, uint32_t *out)
{
    const uint32_t bias = rewrite_input(rewrite, node, 6), a = rewrite_input(rewrite, node, 1),
                   b = rewrite_input(rewrite, node, 4);
    const float *one = rewrite_floats(rewrite, a), *each = rewrite_floats(rewrite, b);
    const inlay_value_info *info = rewrite_value_info(rewrite, bias), *scales = rewrite_value_info(rewrite, b);
    const int64_t count = scales->rank == 0 ? 1 : rewrite_dim(scales, 0);
    const double alpha = graph_attr_float(node, "alpha", 1);
    float *units;

    *out = INLAY_NONE;
    if (one == NULL || each == NULL || count < 1 || scales->rank > 1 ||
        rewrite_value_info(rewrite, a)->data_bytes != sizeof *one ||
        (count > 1 && (info->rank != 1 || rewrite_dim(info, 0) != count)))
        return INLAY_OK;
    units = arena_array(&rewrite->scratch, (size_t)count, sizeof *units);
    if (units == NULL)
        return rewrite_no_memory(rewrite);
    for (int64_t i = 0; i < count; i++)
        units[i] = (float)(alpha * (double)one[0] * (double)each[i]);
    *out = rewrite_constant(rewrite, INLAY_FLOAT, count > 1, &count, units, (uint64_t)count * sizeof *units);
    return *out == INLAY_NONE ? rewrite_no_memory(rewrite) : INLAY_OK;
}

/* Converts the bias of QGemm, int32 in units of alpha times both scales, to floats: by DequantizeLinear, which other
 * passes match, if the scales are constant, otherwise by Mul. */
static inlay_status dequantize_bias(struct rewrite *rewrite, graph_node *node, uint32_t *out)
{
    subgraph_builder builder = { .rewrite = rewrite, .node = node };
    uint32_t units;
    inlay_status status = INLAY_OK;

    INLAY_TRY(constant_bias_unit(rewrite, node, &units));
    if (units != INLAY_NONE) {
        *out = emit_typed(&builder, "DequantizeLinear", 13, INLAY_FLOAT, rewrite_input(rewrite, node, 6), units);
        emit_attr_int(&builder, "axis", 0);
    } else {
        units = emit_op(&builder, "Mul", 14, rewrite_input(rewrite, node, 1), rewrite_input(rewrite, node, 4));
        units =
            emit_op(&builder, "Mul", 14, units, emit_number(&builder, INLAY_FLOAT, graph_attr_float(node, "alpha", 1)));
        *out = emit_op(&builder, "Mul", 14, emit_cast(&builder, rewrite_input(rewrite, node, 6), INLAY_FLOAT), units);
    }
    status = builder.status;
done:
    return status;
}

/* Replaces the node by the function of its dequantized operands. */
static inlay_status replace_by_function(struct rewrite *rewrite, graph_node *node, const quantized_function *function,
                                        const uint32_t *inputs, uint32_t count)
{
    const bool is_softmax = strcmp(function->op, "Softmax") == 0;
    graph_node *new_node =
        rewrite_make_node(rewrite, function->op, is_softmax ? graph_attr_int(node, "opset", 13) : function->opset, node,
                          inputs, count, 1);
    const uint32_t first = rewrite_input(rewrite, node, function->first);
    graph_node *end;
    inlay_status status;

    if (new_node == NULL || !copy_attributes(rewrite, node, new_node))
        return rewrite_no_memory(rewrite);
    status = rewrite_insert_node(rewrite, new_node, INLAY_FLOAT);
    if (status != INLAY_OK)
        return status;
    end = make_linear(rewrite, node, "QuantizeLinear", new_node->info.outputs[0], function->result,
                      rewrite_value_info(rewrite, first)->dtype, -1);
    return end == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, end);
}

/* Replaces a QGemm without a scale of the result: alpha as bs (MatMulInteger(a, b) + bias). */
static inlay_status replace_by_integers(struct rewrite *rewrite, graph_node *node)
{
    static const int64_t swap[] = { 1, 0 };
    subgraph_builder builder = { .rewrite = rewrite, .node = node };
    uint32_t a = builder_input(&builder, 0), b = builder_input(&builder, 3), sums, units;

    if (graph_attr_int(node, "transA", 0) != 0)
        a = emit_transpose(&builder, a, swap, 2);
    if (graph_attr_int(node, "transB", 0) != 0)
        b = emit_transpose(&builder, b, swap, 2);
    sums = emit_typed(&builder, "MatMulInteger", 10, INLAY_INT32, a, b, builder_input(&builder, 2),
                      builder_input(&builder, 5));
    if (builder_input(&builder, 6) != INLAY_NONE)
        sums = emit_typed(&builder, "Add", 14, INLAY_INT32, sums, builder_input(&builder, 6));
    units = emit_op(&builder, "Mul", 14, builder_input(&builder, 1), builder_input(&builder, 4));
    units = emit_op(&builder, "Mul", 14, units, emit_number(&builder, INLAY_FLOAT, graph_attr_float(node, "alpha", 1)));
    builder_set_output(&builder, 0, emit_op(&builder, "Mul", 14, emit_cast(&builder, sums, INLAY_FLOAT), units));
    return builder.status != INLAY_OK ? builder.status : builder_finish(&builder);
}

/* The reason why the node cannot be decomposed; NULL: it can. */
static const char *operand_error(const struct rewrite *rewrite, const graph_node *node,
                                 const quantized_function *function, uint32_t operands)
{
    if (operands == 0 || node->info.input_count < function->first + 3 * operands - 1 ||
        (function->count == 0 && node->info.input_count != function->first + 3 * operands))
        return "its inputs are not groups of operand, scale and zero point";
    for (uint32_t i = 0; i < operands; i++)
        if (rewrite_input(rewrite, node, function->first + 3 * i) == INLAY_NONE ||
            rewrite_input(rewrite, node, function->first + 3 * i + 1) == INLAY_NONE)
            return "an operand or its scale is missing";
    return NULL;
}

inlay_status match_quantized_functions(struct rewrite *rewrite, graph_node *node)
{
    const quantized_function *function = find_function(node);
    const bool gemm = function != NULL && strcmp(function->op, "Gemm") == 0;
    uint32_t *inputs, count = 0, operands;
    inlay_status status = INLAY_OK;

    if (function == NULL || graph_attr_int(node, "channels_last", 0) != 0)
        return INLAY_OK;
    operands = function->count > 0 ? function->count : (node->info.input_count - function->first) / 3;
    node->not_lowered = operand_error(rewrite, node, function, operands);
    if (node->not_lowered != NULL)
        return INLAY_OK;
    if (gemm && rewrite_input(rewrite, node, function->result) == INLAY_NONE)
        return replace_by_integers(rewrite, node);
    inputs = arena_array(&rewrite->scratch, (size_t)operands + 2, sizeof *inputs);
    if (inputs == NULL)
        return rewrite_no_memory(rewrite);
    if (function->condition)
        inputs[count++] = rewrite_input(rewrite, node, 0);
    if (gemm && rewrite_input(rewrite, node, 6) != INLAY_NONE)
        INLAY_TRY(dequantize_bias(rewrite, node, &inputs[2]));
    for (uint32_t i = 0; i < operands; i++)
        INLAY_TRY(dequantize(rewrite, node, function->first + 3 * i,
                             gemm && i == 1 ? graph_attr_int(node, "transB", 0) == 0 : -1, &inputs[count++]));
    status = replace_by_function(rewrite, node, function, inputs,
                                 count + (gemm && rewrite_input(rewrite, node, 6) != INLAY_NONE));
done:
    return status;
}
