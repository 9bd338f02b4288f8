/* Functions of 8-bit integers that ONNX Runtime's static quantization writes (format QOperator, domain com.microsoft,
 * "ContribOperators.md" of that project) as what they mean in ONNX:
 *
 *     QLinearAdd(a, scale, zero, b, scale, zero, scale, zero)
 *         ->  QuantizeLinear(Add(DequantizeLinear(a, scale, zero), DequantizeLinear(b, scale, zero)), scale, zero)
 *
 * Level 0: nobody else runs them. Providers join the pieces again (providers/cpu: quant_chain.c), and quantized_ops
 * makes products of QGemm. Pass contributed has those of images with channels last. */
#include "base/element.h"
#include "passes/subgraph_builder.h"
#include <string.h>

/* A function of `count` dequantized inputs (0: all the rest), three inputs of the node each, from `first` on; before
 * them one input is passed on as it is where `condition`. The scale of the result is input `result`, its zero point the
 * next. */
struct contributed {
    const char *name, *op;
    uint32_t first, count, result;
    bool condition;
    int64_t opset; /* of ai.onnx; 0: the model's */
};

static const struct contributed table[] = {
    { "QLinearAdd", "Add", 0, 2, 6, false, 0 },
    { "QLinearMul", "Mul", 0, 2, 6, false, 0 },
    { "QLinearSigmoid", "Sigmoid", 0, 1, 3, false, 0 },
    { "QLinearLeakyRelu", "LeakyRelu", 0, 1, 3, false, 0 },
    { "QLinearSoftmax", "Softmax", 0, 1, 3, false, 0 },
    { "QLinearAveragePool", "AveragePool", 0, 1, 3, false, 0 },
    { "QLinearGlobalAveragePool", "GlobalAveragePool", 0, 1, 3, false, 0 },
    { "QLinearReduceMean", "ReduceMean", 0, 1, 3, false, 13 }, /* whose axes are an attribute, too */
    { "QLinearWhere", "Where", 1, 2, 7, true, 0 },
    { "QLinearConcat", "Concat", 2, 0, 0, false, 0 },
    { "QGemm", "Gemm", 0, 2, 7, false, 0 },
};

static const struct contributed *row_of(const graph_node *node)
{
    if (strcmp(node->info.domain.data, "com.microsoft") != 0)
        return NULL;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(node->info.op_type.data, table[i].name) == 0)
            return &table[i];
    return NULL;
}

/* DequantizeLinear or QuantizeLinear, by input `scale` of the node and the zero point behind it. axis < 0: by one
 * number. */
static graph_node *make_linear(struct rewrite *rewrite, const graph_node *node, const char *op, uint32_t input,
                               uint32_t scale, inlay_dtype dtype, int64_t axis)
{
    static const uint8_t none = 0;
    uint32_t zero = rw_input(rewrite, node, scale + 1);

    if (zero == INLAY_NONE) /* it says which type the result is of */
        zero = rw_constant(rewrite, dtype, 0, NULL, &none, 1);
    {
        graph_node *fresh = zero == INLAY_NONE
                                ? NULL
                                : rw_make(rewrite, op, 13, node,
                                          (const uint32_t[]){ input, rw_input(rewrite, node, scale), zero }, 3, 1);

        return fresh == NULL || (axis >= 0 && graph_set_attr_int(rewrite->graph, fresh, "axis", axis) != INLAY_OK)
                   ? NULL
                   : fresh;
    }
}

/* Input `at` of the node as floats; *out: their value. */
static inlay_status dequantize(struct rewrite *rewrite, const graph_node *node, uint32_t at, int64_t axis,
                               uint32_t *out)
{
    const uint32_t input = rw_input(rewrite, node, at);
    const inlay_value_info *scale = rw_info(rewrite, rw_input(rewrite, node, at + 1));
    graph_node *back;
    inlay_status status;

    if (rw_info(rewrite, input)->dtype == INLAY_FLOAT) { /* QLinearConcat takes such as well */
        *out = input;
        return INLAY_OK;
    }
    back = make_linear(rewrite, node, "DequantizeLinear", input, at + 1, rw_info(rewrite, input)->dtype,
                       scale->rank != 0 && axis >= 0 ? axis : -1);
    status = back == NULL ? rw_no_memory(rewrite) : rw_insert(rewrite, back, INLAY_FLOAT);
    if (status == INLAY_OK)
        *out = back->info.outputs[0];
    return status;
}

static const char *const others[] = { "channels_last", "opset" }; /* attributes that ONNX's operators have not */

static bool copy_attributes(struct rewrite *rewrite, const graph_node *node, graph_node *fresh)
{
    for (uint32_t i = 0; i < node->own_attr_count; i++) { /* the rest are defaults */
        const inlay_attr_info *attribute = INLAY_AT(inlay_attr_info, node->info.attrs, node->info.attr_stride, i);

        if (strcmp(attribute->name.data, others[0]) != 0 && strcmp(attribute->name.data, others[1]) != 0 &&
            graph_set_attr(rewrite->graph, fresh, attribute) != INLAY_OK)
            return false;
    }
    return true;
}

/* The product of both scales of QGemm and alpha, which are the units of its bias, as one constant. INLAY_NONE: the
 * scales are no constants, or of other shapes than the bias goes with. */
static inlay_status constant_units(struct rewrite *rewrite, const graph_node *node, uint32_t *out)
{
    const uint32_t bias = rw_input(rewrite, node, 6), a = rw_input(rewrite, node, 1), b = rw_input(rewrite, node, 4);
    const float *one = rw_floats(rewrite, a), *each = rw_floats(rewrite, b);
    const inlay_value_info *info = rw_info(rewrite, bias), *scales = rw_info(rewrite, b);
    const int64_t count = scales->rank == 0 ? 1 : rw_dim(scales, 0);
    const double alpha = rw_attr_float(node, "alpha", 1);
    float *units;

    *out = INLAY_NONE;
    if (one == NULL || each == NULL || count < 1 || scales->rank > 1 ||
        rw_info(rewrite, a)->data_bytes != sizeof *one || (count > 1 && (info->rank != 1 || rw_dim(info, 0) != count)))
        return INLAY_OK;
    units = arena_array(&rewrite->scratch, (size_t)count, sizeof *units);
    if (units == NULL)
        return rw_no_memory(rewrite);
    for (int64_t i = 0; i < count; i++)
        units[i] = (float)(alpha * (double)one[0] * (double)each[i]);
    *out = rw_constant(rewrite, INLAY_FLOAT, count > 1, &count, units, (uint64_t)count * sizeof *units);
    return *out == INLAY_NONE ? rw_no_memory(rewrite) : INLAY_OK;
}

/* The bias of QGemm, int32 in units of alpha times both scales, as floats: DequantizeLinear, as passes read it, of a
 * constant scale, and otherwise a product. */
static inlay_status bias_of(struct rewrite *rewrite, graph_node *node, uint32_t *out)
{
    subgraph_builder builder = { .rewrite = rewrite, .node = node };
    uint32_t units;
    inlay_status status = INLAY_OK;

    INLAY_TRY(constant_units(rewrite, node, &units));
    if (units != INLAY_NONE) {
        *out = emit_typed(&builder, "DequantizeLinear", 13, INLAY_FLOAT, rw_input(rewrite, node, 6), units);
        emit_attr_int(&builder, "axis", 0);
    } else {
        units = emit_op(&builder, "Mul", 14, rw_input(rewrite, node, 1), rw_input(rewrite, node, 4));
        units =
            emit_op(&builder, "Mul", 14, units, emit_number(&builder, INLAY_FLOAT, rw_attr_float(node, "alpha", 1)));
        *out = emit_op(&builder, "Mul", 14, emit_cast(&builder, rw_input(rewrite, node, 6), INLAY_FLOAT), units);
    }
    status = builder.status;
done:
    return status;
}

/* The function itself, of inputs that are floats by now. */
static inlay_status replace(struct rewrite *rewrite, graph_node *node, const struct contributed *contributed,
                            const uint32_t *inputs, uint32_t count)
{
    const bool of_softmax = strcmp(contributed->op, "Softmax") == 0;
    graph_node *fresh =
        rw_make(rewrite, contributed->op, of_softmax ? rw_attr_int(node, "opset", 13) : contributed->opset, node,
                inputs, count, 1);
    const uint32_t first = rw_input(rewrite, node, contributed->first);
    graph_node *end;
    inlay_status status;

    if (fresh == NULL || !copy_attributes(rewrite, node, fresh))
        return rw_no_memory(rewrite);
    if (rw_input(rewrite, node, contributed->result) == INLAY_NONE) /* QGemm may leave floats */
        return rw_replace(rewrite, node, fresh);
    status = rw_insert(rewrite, fresh, INLAY_FLOAT);
    if (status != INLAY_OK)
        return status;
    end = make_linear(rewrite, node, "QuantizeLinear", fresh->info.outputs[0], contributed->result,
                      rw_info(rewrite, first)->dtype, -1);
    return end == NULL ? rw_no_memory(rewrite) : rw_replace(rewrite, node, end);
}

/* Why the node is left as it is; NULL: it is not. */
static const char *why_not(const struct rewrite *rewrite, const graph_node *node, const struct contributed *contributed,
                           uint32_t operands)
{
    if (operands == 0 || node->info.input_count < contributed->first + 3 * operands - 1 ||
        (contributed->count == 0 && node->info.input_count != contributed->first + 3 * operands))
        return "its inputs are not an operand, its scale and its zero point each";
    for (uint32_t i = 0; i < operands; i++)
        if (rw_input(rewrite, node, contributed->first + 3 * i) == INLAY_NONE ||
            rw_input(rewrite, node, contributed->first + 3 * i + 1) == INLAY_NONE)
            return "an operand or its scale is missing";
    return NULL;
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    const struct contributed *contributed = row_of(node);
    const bool gemm = contributed != NULL && strcmp(contributed->op, "Gemm") == 0;
    uint32_t *inputs, count = 0, operands;
    inlay_status status = INLAY_OK;

    if (contributed == NULL || rw_attr_int(node, "channels_last", 0) != 0)
        return INLAY_OK;
    operands = contributed->count > 0 ? contributed->count : (node->info.input_count - contributed->first) / 3;
    node->not_lowered = why_not(rewrite, node, contributed, operands);
    if (node->not_lowered != NULL)
        return INLAY_OK;
    inputs = arena_array(&rewrite->scratch, (size_t)operands + 2, sizeof *inputs);
    if (inputs == NULL)
        return rw_no_memory(rewrite);
    if (contributed->condition)
        inputs[count++] = rw_input(rewrite, node, 0);
    if (gemm && rw_input(rewrite, node, 6) != INLAY_NONE)
        INLAY_TRY(bias_of(rewrite, node, &inputs[2]));
    for (uint32_t i = 0; i < operands; i++)
        INLAY_TRY(dequantize(rewrite, node, contributed->first + 3 * i,
                             gemm && i == 1 ? rw_attr_int(node, "transB", 0) == 0 : -1, &inputs[count++]));
    status = replace(rewrite, node, contributed, inputs, count + (gemm && rw_input(rewrite, node, 6) != INLAY_NONE));
done:
    return status;
}

inlay_status pass_quantized_functions(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
