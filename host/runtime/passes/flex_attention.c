/* Decomposes FlexAttention of ai.onnx.preview. Its bodies, one for scores and one for probabilities, are inlined:
 *
 *     S = score_mod(MatMul(Q, K^T) * scale);  P = prob_mod(Softmax(S));  Y = MatMul(P, V)
 *
 * Level 0, because no provider runs nodes with such bodies. Scores and probabilities have the type that the body
 * declares, otherwise the type of the Softmax (attribute softmax_precision; float if Q has 16 bits). */
#include "passes/body_nodes.h"
#include "passes/type_guard.h"
#include <math.h>
#include <string.h>

typedef struct flex_decomposition {
    node_maker maker;
    struct graph *graph;
    graph_node *node;
    inlay_dtype dtype; /* type of Q */
    int64_t groups;    /* number of heads of Q for each head of K and V */
} flex_decomposition;

static const inlay_value_info *input(const flex_decomposition *flex, uint32_t i)
{
    return &flex->graph->values[flex->node->info.inputs[i]].info;
}

static int64_t size_of(const flex_decomposition *flex, uint32_t i, uint32_t d)
{
    const inlay_value_info *value = input(flex, i);

    return value->rank == 4 && value->dims[d].kind == INLAY_DIM_FIXED ? value->dims[d].value : -1;
}

/* Returns true for a missing body, and for one with one input and one output. */
static bool has_single_value(const graph_body *body)
{
    return body == NULL || (body->graph->input_count == 1 && body->graph->output_count == 1);
}

static inlay_status validate(flex_decomposition *flex, inlay_diag *diag)
{
    const int64_t heads = size_of(flex, 0, 1), shared = size_of(flex, 1, 1);

    if (!has_single_value(graph_body_named(flex->node, "score_mod")) ||
        !has_single_value(graph_body_named(flex->node, "prob_mod")))
        return graph_fail(flex->graph, flex->node, NULL, INLAY_INVALID_MODEL, diag,
                          "score_mod and prob_mod must have one input and one output");
    flex->dtype = input(flex, 0)->dtype;
    flex->groups = 1;
    if (heads == shared && heads >= 0)
        return INLAY_OK;
    if (heads < 0 || shared < 1 || heads % shared != 0 || shared != size_of(flex, 2, 1))
        return graph_fail(
            flex->graph, flex->node, NULL, heads < 0 || shared < 0 ? INLAY_UNSUPPORTED : INLAY_INVALID_MODEL, diag,
            "Q has %lld heads and K has %lld (-1: unknown); declare both, and make the first a multiple of the second",
            (long long)heads, (long long)shared);
    flex->groups = heads / shared;
    return INLAY_OK;
}

static uint32_t emit_value(flex_decomposition *flex, const char *op, int64_t opset, uint32_t a, uint32_t b,
                           const char *attr, int64_t value)
{
    return make_value(&flex->maker, flex->graph, op, opset, (const uint32_t[]){ a, b }, b == INLAY_NONE ? 1 : 2, attr,
                      value);
}

static uint32_t emit_cast(flex_decomposition *flex, uint32_t value, inlay_dtype *from, inlay_dtype to)
{
    if (*from == to || to == INLAY_UNDEFINED)
        return value;
    *from = to;
    return emit_value(flex, "Cast", 13, value, INLAY_NONE, "to", to);
}

/* Repeats each head of K or V to match the heads of Q. */
static uint32_t repeat_heads(flex_decomposition *flex, uint32_t value)
{
    const int64_t heads = size_of(flex, 0, 1);
    int64_t *list =
        flex->groups == 1 ? NULL : arena_array(&flex->maker.ctx->model->arena, (size_t)heads + 1, sizeof *list);

    if (list == NULL) {
        flex->maker.failed |= flex->groups != 1;
        return value;
    }
    for (int64_t h = 0; h < heads; h++)
        list[h] = h / flex->groups;
    return emit_value(
        flex, "Gather", 13, value,
        make_constant(&flex->maker, flex->graph, INLAY_INT64, 1, heads, list, (size_t)heads * sizeof *list), "axis", 1);
}

/* The scale in Q's type: the attribute, or 1 / sqrt(size of a head). */
static uint32_t emit_scale(flex_decomposition *flex)
{
    const inlay_attr_info *scale = graph_attr(flex->node, "scale");
    const int64_t last = 3;
    inlay_dtype dtype = INLAY_FLOAT;
    float number = scale != NULL ? (float)scale->f : 0;
    uint32_t value;

    if (scale == NULL && size_of(flex, 0, 3) > 0)
        number = 1 / sqrtf((float)size_of(flex, 0, 3));
    if (number != 0 || scale != NULL)
        return emit_cast(flex, make_constant(&flex->maker, flex->graph, INLAY_FLOAT, 0, 0, &number, sizeof number),
                         &dtype, flex->dtype);
    value =
        emit_value(flex, "Gather", 13, emit_value(flex, "Shape", 13, flex->node->info.inputs[0], INLAY_NONE, NULL, 0),
                   make_constant(&flex->maker, flex->graph, INLAY_INT64, 0, 0, &last, sizeof last), NULL, 0);
    value = emit_value(flex, "Cast", 13, value, INLAY_NONE, "to", flex->dtype);
    return emit_value(flex, "Reciprocal", 13, emit_value(flex, "Sqrt", 13, value, INLAY_NONE, NULL, 0), INLAY_NONE,
                      NULL, 0);
}

static uint32_t inline_body(flex_decomposition *flex, const char *attr, uint32_t value, inlay_dtype *dtype)
{
    const graph_body *body = graph_body_named(flex->node, attr);
    const graph_value *in, *out;

    if (body == NULL)
        return value;
    in = &body->graph->values[body->graph->inputs[0]];
    out = &body->graph->values[body->graph->outputs[0]];
    value = emit_cast(flex, value, dtype, in->declared ? in->declared_dtype : INLAY_UNDEFINED);
    make_body(&flex->maker, flex->graph, body, &value, &value);
    *dtype = out->declared && out->declared_dtype != INLAY_UNDEFINED ? out->declared_dtype : *dtype;
    return value;
}

static bool decompose(flex_decomposition *flex)
{
    static const int64_t swap_last[] = { 0, 1, 3, 2 };
    const uint32_t *in = flex->node->info.inputs;
    const inlay_attr_info *precision = graph_attr(flex->node, "softmax_precision");
    inlay_dtype softmax_dtype = flex->dtype == INLAY_DOUBLE ? INLAY_DOUBLE : INLAY_FLOAT, dtype = flex->dtype;
    graph_node *transpose = make_node(&flex->maker, flex->graph, NULL, "Transpose", 13, &in[1], 1, 1), *last;
    uint32_t value;

    if (transpose == NULL || graph_set_attr_ints(flex->graph, transpose, "perm", swap_last, 4) != INLAY_OK)
        return false;
    softmax_dtype = precision != NULL && precision->i > 0 ? (inlay_dtype)precision->i : softmax_dtype;
    value = emit_value(flex, "MatMul", 13, in[0], repeat_heads(flex, transpose->info.outputs[0]), NULL, 0);
    value = emit_value(flex, "Mul", 14, value, emit_scale(flex), NULL, 0);
    value = inline_body(flex, "score_mod", value, &dtype);
    value = emit_value(flex, "Softmax", 13, emit_cast(flex, value, &dtype, softmax_dtype), INLAY_NONE, "axis", -1);
    value = inline_body(flex, "prob_mod", value, &dtype);
    value = emit_cast(flex, value, &dtype, flex->dtype);
    last = make_node(&flex->maker, flex->graph, NULL, "MatMul", 13,
                     (const uint32_t[]){ value, repeat_heads(flex, in[2]) }, 2, 1);
    if (last != NULL)
        ((uint32_t *)(uintptr_t)last->info.outputs)[0] = flex->node->info.outputs[0];
    return !flex->maker.failed;
}

static inlay_status visit(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    const uint32_t nodes = graph->node_count;
    inlay_status status = INLAY_OK;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < nodes; i++) {
        graph_node *node = graph->nodes[i];
        flex_decomposition flex = { .maker = { .ctx = ctx, .like = node }, .graph = graph, .node = node };

        if (node->schema == NULL || strcmp(node->info.op_type.data, "FlexAttention") != 0 ||
            strcmp(node->info.domain.data, "ai.onnx.preview") != 0) {
            graph->nodes[kept++] = node;
            continue;
        }
        INLAY_TRY(validate(&flex, ctx->diag));
        INLAY_TRY(type_guard_expect(ctx, graph, node));
        if (!decompose(&flex))
            return no_memory(ctx->diag, "to decompose node '%s'", node->info.name.data);
        pass_count(ctx, graph, node, "MatMul, Softmax, MatMul");
        *changed = true;
    }
    for (uint32_t i = nodes; i < graph->node_count; i++)
        graph->nodes[kept++] = graph->nodes[i];
    graph->node_count = kept;
done:
    return status;
}

inlay_status pass_flex_attention(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
