#include "passes/body_nodes.h"
#include "graph/history.h"
#include "inlay/check.h"
#include <string.h>

bool body_nodes_begin(body_nodes *nodes, pass_ctx *ctx, struct graph *to, const graph_node *node,
                      const graph_body *body)
{
    *nodes = (body_nodes){ .ctx = ctx, .to = to, .from = body->graph, .node = node, .copy = -1 };
    nodes->map = arena_array(&ctx->model->arena, (size_t)nodes->from->value_count + 1, sizeof *nodes->map);
    if (nodes->map == NULL)
        return false;
    body_nodes_reset(nodes, body);
    return true;
}

void body_nodes_reset(body_nodes *nodes, const graph_body *body)
{
    memset(nodes->map, 0xff, nodes->from->value_count * sizeof *nodes->map);
    for (uint32_t i = 0; i < body->capture_count; i++)
        nodes->map[body->capture_inner[i]] = body->capture_outer[i];
}

/* Ranks and known sizes of the body hold for all copies of it, but a symbol may stand for another size in each. If
 * there are several copies, the shape is dropped, including the declared one, and inference finds it again. */
static bool add_value(body_nodes *nodes, uint32_t value_index)
{
    uint32_t added = graph_add_value(nodes->to, NULL, 0);
    graph_value *value;
    inlay_str name;

    if (added == INLAY_NONE)
        return false;
    value = &nodes->to->values[added];
    name = value->info.name;
    *value = nodes->from->values[value_index];
    value->info.name = name;
    value->info.producer = INLAY_NONE; /* set when the graph is finished */
    if (nodes->copy >= 0 && (value->info.flags & INLAY_VALUE_CONSTANT) == 0) {
        value->info.rank = value->declared_rank = INLAY_RANK_UNKNOWN;
        value->info.dims = value->declared_dims = NULL;
        value->info.elements = NULL;
        value->info.element_count = 0;
    }
    nodes->map[value_index] = added;
    return true;
}

/* Returns the list translated to values of `to`; NULL: out of memory. */
static uint32_t *mapped(body_nodes *nodes, const uint32_t *list, uint32_t count)
{
    uint32_t *out = arena_array(&nodes->ctx->model->arena, (size_t)count + 1, sizeof *out);

    for (uint32_t i = 0; out != NULL && i < count; i++) {
        INLAY_CHECK(list[i] == INLAY_NONE || list[i] < nodes->from->value_count);
        if (list[i] != INLAY_NONE && nodes->map[list[i]] == INLAY_NONE && !add_value(nodes, list[i]))
            return NULL;
        out[i] = list[i] == INLAY_NONE ? INLAY_NONE : nodes->map[list[i]];
    }
    return out;
}

/* Returns a copy of a node of the body, which reads and makes values of `to`; NULL: out of memory. */
static graph_node *copy_node(body_nodes *nodes, const graph_node *from)
{
    struct arena *arena = &nodes->ctx->model->arena;
    graph_node *node = arena_alloc(arena, sizeof *node);
    const char *outer = nodes->node->info.name.data, *inner = from->info.name.data;
    const char *name = nodes->copy < 0 ? arena_format(arena, "%s/%s", outer, inner)
                                       : arena_format(arena, "%s/%lld/%s", outer, (long long)nodes->copy, inner);

    if (node == NULL || name == NULL)
        return NULL;
    *node = *from;
    node->info.name = (inlay_str){ name, strlen(name) };
    node->info.inputs = mapped(nodes, from->info.inputs, from->info.input_count);
    node->info.outputs = mapped(nodes, from->info.outputs, from->info.output_count);
    node->captures = mapped(nodes, from->captures, from->capture_count);
    /* a copy, since the rewrite may be rejected and the original node kept */
    node->bodies = arena_copy(arena, from->bodies, from->body_count * sizeof *from->bodies);
    if (node->info.inputs == NULL || node->info.outputs == NULL || node->captures == NULL ||
        (node->bodies == NULL && node->body_count > 0))
        return NULL;
    for (uint32_t i = 0; i < node->body_count; i++) {
        node->bodies[i].capture_outer = mapped(nodes, node->bodies[i].capture_outer, node->bodies[i].capture_count);
        if (node->bodies[i].capture_outer == NULL)
            return NULL;
    }
    return node;
}

static bool put_node(body_nodes *nodes, const graph_node *from)
{
    graph_node *node = copy_node(nodes, from);

    return node != NULL && graph_append_node(nodes->to, node) == INLAY_OK;
}

/* The checks of the body (graph/history.h) become checks of the graph. */
static bool put_checks(body_nodes *nodes)
{
    uint32_t count;
    graph_node *const *checks = history_checks(nodes->from, &count);

    for (uint32_t i = 0; i < count; i++) {
        graph_node *node = copy_node(nodes, checks[i]);

        if (node == NULL)
            return false;
        history_keep_check(nodes->to, node);
    }
    return true;
}

bool body_nodes_put(body_nodes *nodes)
{
    INLAY_CHECK(nodes->map != NULL);
    for (uint32_t i = 0; i < nodes->from->node_count; i++)
        if (!put_node(nodes, nodes->from->nodes[i]))
            return false;
    if (!put_checks(nodes))
        return false;
    for (uint32_t i = 0; i < nodes->from->output_count; i++)
        if (nodes->map[nodes->from->outputs[i]] == INLAY_NONE && !add_value(nodes, nodes->from->outputs[i]))
            return false;
    return true;
}

bool body_nodes_copy_value(body_nodes *nodes, uint32_t value, uint32_t output)
{
    graph_node *copy = graph_add_node(nodes->to, "Identity", NULL, NULL, 1, 1);

    if (copy == NULL)
        return false;
    copy->opset = nodes->node->opset;
    ((uint32_t *)(uintptr_t)copy->info.inputs)[0] = value;
    ((uint32_t *)(uintptr_t)copy->info.outputs)[0] = output;
    return true;
}

void body_nodes_drop(struct graph *graph, const bool *drop, uint32_t count)
{
    uint32_t kept = 0;

    INLAY_CHECK(count <= graph->node_count);
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (i >= count || !drop[i])
            graph->nodes[kept++] = graph->nodes[i];
    graph->node_count = kept;
}

graph_node *make_node(node_maker *maker, struct graph *graph, const char *domain, const char *op, int64_t opset,
                      const uint32_t *inputs, uint32_t input_count, uint32_t output_count)
{
    const char *name = arena_format(&maker->ctx->model->arena, "%s/%s", maker->like->info.name.data, op);
    graph_node *node = name == NULL ? NULL : graph_add_node(graph, op, domain, name, input_count, output_count);

    for (uint32_t output = 0; node != NULL && output < output_count; output++) {
        ((uint32_t *)(uintptr_t)node->info.outputs)[output] = graph_add_value(graph, NULL, 0);
        if (node->info.outputs[output] == INLAY_NONE)
            node = NULL;
    }
    if (node == NULL) {
        maker->failed = true;
        return NULL;
    }
    node->opset = opset;
    memcpy((uint32_t *)(uintptr_t)node->info.inputs, inputs, input_count * sizeof *inputs);
    return node;
}

uint32_t make_value(node_maker *maker, struct graph *graph, const char *op, int64_t opset, const uint32_t *inputs,
                    uint32_t count, const char *attr, int64_t value)
{
    graph_node *node = make_node(maker, graph, NULL, op, opset, inputs, count, 1);

    if (node != NULL && (attr == NULL || graph_set_attr_int(graph, node, attr, value) == INLAY_OK))
        return node->info.outputs[0];
    maker->failed = true;
    return INLAY_NONE;
}

uint32_t make_constant(node_maker *maker, struct graph *graph, inlay_dtype dtype, uint32_t rank, int64_t count,
                       const void *data, size_t bytes)
{
    uint32_t value = graph_add_value(graph, NULL, 0);
    void *copy = arena_alloc(&maker->ctx->model->arena, bytes);

    INLAY_CHECK(rank <= 1 && (bytes == 0 || data != NULL));
    if (value != INLAY_NONE && copy != NULL) {
        if (bytes > 0)
            memcpy(copy, data, bytes);
        if (graph_set_constant(graph, value, dtype, rank, &count, copy, bytes) == INLAY_OK)
            return value;
    }
    maker->failed = true;
    return INLAY_NONE;
}

void make_body(node_maker *maker, struct graph *graph, const graph_body *body, const uint32_t *inputs,
               uint32_t *outputs)
{
    const struct graph *from = body->graph;
    body_nodes nodes;

    if (!maker->failed && body_nodes_begin(&nodes, maker->ctx, graph, maker->like, body)) {
        for (uint32_t i = 0; i < from->input_count; i++)
            nodes.map[from->inputs[i]] = inputs[i];
        if (body_nodes_put(&nodes)) {
            for (uint32_t i = 0; i < from->output_count; i++)
                outputs[i] = nodes.map[from->outputs[i]];
            return;
        }
    }
    maker->failed = true;
}
