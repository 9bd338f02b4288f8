#include "passes/body_nodes.h"
#include <string.h>

bool body_nodes_begin(body_nodes *b, pass_ctx *ctx, struct graph *to, const graph_node *node, const graph_body *body)
{
    *b = (body_nodes){ .ctx = ctx, .to = to, .from = body->graph, .node = node, .copy = -1 };
    b->map = arena_array(&ctx->model->arena, (size_t)b->from->value_count + 1, sizeof *b->map);
    if (b->map == NULL)
        return false;
    body_nodes_again(b, body);
    return true;
}

void body_nodes_again(body_nodes *b, const graph_body *body)
{
    memset(b->map, 0xff, b->from->value_count * sizeof *b->map);
    for (uint32_t i = 0; i < body->capture_count; i++)
        b->map[body->capture_inner[i]] = body->capture_outer[i];
}

/* What the body knows of a shape holds for all copies of it, but a size that it has a symbol for may be another one in
 * each: where there are several, inference has to find it anew, and what the file declares is left behind. */
static bool add_value(body_nodes *b, uint32_t v)
{
    uint32_t fresh = graph_add_value(b->to, NULL, 0);
    graph_value *value;
    inlay_str name;

    if (fresh == INLAY_NONE)
        return false;
    value = &b->to->values[fresh];
    name = value->info.name;
    *value = b->from->values[v];
    value->info.name = name;
    value->info.producer = INLAY_NONE; /* until the graph is finished */
    if (b->copy >= 0 && (value->info.flags & INLAY_VALUE_CONSTANT) == 0) {
        value->info.rank = value->declared_rank = INLAY_RANK_UNKNOWN;
        value->info.dims = value->declared_dims = NULL;
        value->info.elements = NULL;
        value->info.element_count = 0;
    }
    b->map[v] = fresh;
    return true;
}

/* A list with the values of `to` in it; NULL: no memory. */
static uint32_t *mapped(body_nodes *b, const uint32_t *list, uint32_t count)
{
    uint32_t *out = arena_array(&b->ctx->model->arena, (size_t)count + 1, sizeof *out);

    for (uint32_t i = 0; out != NULL && i < count; i++) {
        if (list[i] != INLAY_NONE && b->map[list[i]] == INLAY_NONE && !add_value(b, list[i]))
            return NULL;
        out[i] = list[i] == INLAY_NONE ? INLAY_NONE : b->map[list[i]];
    }
    return out;
}

static bool put_node(body_nodes *b, const graph_node *from)
{
    struct arena *a = &b->ctx->model->arena;
    graph_node *n = arena_alloc(a, sizeof *n);
    const char *outer = b->node->info.name.data, *inner = from->info.name.data;
    const char *name = b->copy < 0 ? arena_format(a, "%s/%s", outer, inner)
                                   : arena_format(a, "%s/%lld/%s", outer, (long long)b->copy, inner);

    if (n == NULL || name == NULL)
        return false;
    *n = *from;
    n->info.name = (inlay_str){ name, strlen(name) };
    n->info.inputs = mapped(b, from->info.inputs, from->info.input_count);
    n->info.outputs = mapped(b, from->info.outputs, from->info.output_count);
    n->captures = mapped(b, from->captures, from->capture_count);
    n->bodies = arena_copy(a, from->bodies, from->body_count * sizeof *from->bodies); /* the node may have to stay */
    if (n->info.inputs == NULL || n->info.outputs == NULL || n->captures == NULL ||
        (n->bodies == NULL && n->body_count > 0))
        return false;
    for (uint32_t i = 0; i < n->body_count; i++) {
        n->bodies[i].capture_outer = mapped(b, n->bodies[i].capture_outer, n->bodies[i].capture_count);
        if (n->bodies[i].capture_outer == NULL)
            return false;
    }
    return graph_append_node(b->to, n) == INLAY_OK;
}

bool body_nodes_put(body_nodes *b)
{
    for (uint32_t i = 0; i < b->from->node_count; i++)
        if (!put_node(b, b->from->nodes[i]))
            return false;
    for (uint32_t i = 0; i < b->from->output_count; i++)
        if (b->map[b->from->outputs[i]] == INLAY_NONE && !add_value(b, b->from->outputs[i]))
            return false;
    return true;
}

bool body_nodes_copy_value(body_nodes *b, uint32_t v, uint32_t y)
{
    graph_node *copy = graph_add_node(b->to, "Identity", NULL, NULL, 1, 1);

    if (copy == NULL)
        return false;
    copy->opset = b->node->opset;
    ((uint32_t *)(uintptr_t)copy->info.inputs)[0] = v;
    ((uint32_t *)(uintptr_t)copy->info.outputs)[0] = y;
    return true;
}

void body_nodes_drop(struct graph *g, const bool *drop, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < g->node_count; i++)
        if (i >= count || !drop[i])
            g->nodes[kept++] = g->nodes[i];
    g->node_count = kept;
}

/* ------------------------------------------------------------------ nodes and bodies by hand */

graph_node *make_node(node_maker *m, struct graph *g, const char *domain, const char *op, int64_t opset,
                      const uint32_t *inputs, uint32_t input_count, uint32_t output_count)
{
    const char *name = arena_format(&m->ctx->model->arena, "%s/%s", m->like->info.name.data, op);
    graph_node *n = name == NULL ? NULL : graph_add_node(g, op, domain, name, input_count, output_count);

    for (uint32_t o = 0; n != NULL && o < output_count; o++) {
        ((uint32_t *)(uintptr_t)n->info.outputs)[o] = graph_add_value(g, NULL, 0);
        if (n->info.outputs[o] == INLAY_NONE)
            n = NULL;
    }
    if (n == NULL) {
        m->failed = true;
        return NULL;
    }
    n->opset = opset;
    memcpy((uint32_t *)(uintptr_t)n->info.inputs, inputs, input_count * sizeof *inputs);
    return n;
}

uint32_t make_value(node_maker *m, struct graph *g, const char *op, int64_t opset, const uint32_t *inputs,
                    uint32_t count, const char *attr, int64_t value)
{
    graph_node *n = make_node(m, g, NULL, op, opset, inputs, count, 1);

    if (n != NULL && (attr == NULL || graph_set_attr_int(g, n, attr, value) == INLAY_OK))
        return n->info.outputs[0];
    m->failed = true;
    return INLAY_NONE;
}

uint32_t make_constant(node_maker *m, struct graph *g, inlay_dtype dtype, uint32_t rank, int64_t count,
                       const void *data, size_t bytes)
{
    uint32_t v = graph_add_value(g, NULL, 0);
    void *copy = arena_alloc(&m->ctx->model->arena, bytes);

    if (v != INLAY_NONE && copy != NULL) {
        if (bytes > 0)
            memcpy(copy, data, bytes);
        if (graph_set_constant(g, v, dtype, rank, &count, copy, bytes) == INLAY_OK)
            return v;
    }
    m->failed = true;
    return INLAY_NONE;
}

void make_body(node_maker *m, struct graph *g, const graph_body *body, const uint32_t *inputs, uint32_t *outputs)
{
    const struct graph *from = body->graph;
    body_nodes b;

    if (!m->failed && body_nodes_begin(&b, m->ctx, g, m->like, body)) {
        for (uint32_t i = 0; i < from->input_count; i++)
            b.map[from->inputs[i]] = inputs[i];
        if (body_nodes_put(&b)) {
            for (uint32_t i = 0; i < from->output_count; i++)
                outputs[i] = b.map[from->outputs[i]];
            return;
        }
    }
    m->failed = true;
}
