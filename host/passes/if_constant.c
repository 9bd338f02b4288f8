/* If with a constant condition: the nodes of the branch that is taken move into the graph. */
#include "passes/pass.h"
#include <string.h>

typedef struct mover {
    pass_ctx *ctx;
    graph *to, *from;
    const graph_node *node; /* the If */
    uint32_t *map;          /* [from->value_count] the value of `to`, INLAY_NONE */
} mover;

static inlay_status no_memory(const mover *m)
{
    return inlay_fail(m->ctx->diag, INLAY_OUT_OF_MEMORY, "no memory to move a branch of node '%s'",
                      m->node->info.name.data);
}

/* The branch, when the condition is known and If reads no other input; NULL if not. */
static const graph_body *taken_branch(const graph *g, const graph_node *n)
{
    const inlay_value_info *c;
    const char *name;

    if (!pass_is_op(n, "If") || n->info.input_count != 1 || n->info.inputs[0] == INLAY_NONE)
        return NULL;
    c = &g->values[n->info.inputs[0]].info;
    if ((c->flags & INLAY_VALUE_CONSTANT) == 0 || c->dtype != INLAY_BOOL || c->data_bytes != 1)
        return NULL;
    name = *(const uint8_t *)c->data != 0 ? "then_branch" : "else_branch";
    for (uint32_t i = 0; i < n->body_count; i++)
        if (strcmp(n->bodies[i].attr, name) == 0)
            return &n->bodies[i];
    return NULL;
}

/* Every value of the branch gets its value in the graph: what it captures is there already, what it makes for an output
 * of the If is that output, everything else is new. */
static bool map_values(mover *m, const graph_body *body)
{
    memset(m->map, 0xff, m->from->value_count * sizeof *m->map);
    for (uint32_t i = 0; i < body->capture_count; i++)
        m->map[body->capture_inner[i]] = body->capture_outer[i];
    for (uint32_t i = 0; i < m->from->output_count && i < m->node->info.output_count; i++) {
        uint32_t v = m->from->outputs[i], y = m->node->info.outputs[i];
        if (y != INLAY_NONE && m->map[v] == INLAY_NONE && m->from->values[v].info.producer != INLAY_NONE)
            m->map[v] = y;
    }
    for (uint32_t v = 0; v < m->from->value_count; v++) {
        inlay_str name;
        uint32_t fresh;

        if (m->map[v] != INLAY_NONE)
            continue;
        fresh = graph_add_value(m->to, NULL, 0);
        if (fresh == INLAY_NONE)
            return false;
        name = m->to->values[fresh].info.name;
        m->to->values[fresh] = m->from->values[v];
        m->to->values[fresh].info.name = name;
        m->map[v] = fresh;
    }
    return true;
}

static void map_list(const mover *m, uint32_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] != INLAY_NONE)
            list[i] = m->map[list[i]];
}

static bool move_nodes(mover *m)
{
    for (uint32_t i = 0; i < m->from->node_count; i++) {
        graph_node *n = m->from->nodes[i];
        const char *name = arena_format(&m->ctx->model->arena, "%s/%s", m->node->info.name.data, n->info.name.data);

        if (name == NULL || graph_append_node(m->to, n) != INLAY_OK)
            return false;
        n->info.name = (inlay_str){ name, strlen(name) };
        map_list(m, (uint32_t *)(uintptr_t)n->info.inputs, n->info.input_count);
        map_list(m, (uint32_t *)(uintptr_t)n->info.outputs, n->info.output_count);
        map_list(m, n->captures, n->capture_count);
        for (uint32_t b = 0; b < n->body_count; b++) {
            map_list(m, n->bodies[b].capture_outer, n->bodies[b].capture_count);
            n->bodies[b].graph->parent = m->to;
        }
    }
    return true;
}

/* Outputs that the branch does not make itself, or makes for two outputs, are copies. */
static bool copy_outputs(mover *m)
{
    for (uint32_t i = 0; i < m->from->output_count && i < m->node->info.output_count; i++) {
        uint32_t v = m->map[m->from->outputs[i]], y = m->node->info.outputs[i];
        graph_node *copy;

        if (y == INLAY_NONE || v == y)
            continue;
        copy = graph_add_node(m->to, "Identity", NULL, NULL, 1, 1);
        if (copy == NULL)
            return false;
        copy->opset = m->node->opset;
        ((uint32_t *)(uintptr_t)copy->info.inputs)[0] = v;
        ((uint32_t *)(uintptr_t)copy->info.outputs)[0] = y;
    }
    return true;
}

static inlay_status visit(pass_ctx *ctx, graph *g, bool *changed)
{
    uint32_t nodes = g->node_count;
    bool *drop = arena_array(&ctx->model->arena, (size_t)nodes + 1, sizeof *drop);
    bool any = false;

    if (drop == NULL)
        return inlay_fail(ctx->diag, INLAY_OUT_OF_MEMORY, "no memory to look for constant conditions");
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_body *body = taken_branch(g, g->nodes[i]);
        mover m = { .ctx = ctx, .to = g, .node = g->nodes[i] };

        if (body == NULL || !pass_may(ctx))
            continue;
        m.from = body->graph;
        m.map = arena_array(&ctx->model->arena, (size_t)m.from->value_count + 1, sizeof *m.map);
        if (m.map == NULL || !map_values(&m, body) || !move_nodes(&m) || !copy_outputs(&m))
            return no_memory(&m);
        pass_count(ctx, g, m.node, body->attr);
        drop[i] = any = true;
    }
    if (any) {
        uint32_t kept = 0;

        for (uint32_t i = 0; i < g->node_count; i++)
            if (i >= nodes || !drop[i])
                g->nodes[kept++] = g->nodes[i];
        g->node_count = kept;
    }
    *changed |= any;
    return INLAY_OK;
}

inlay_status pass_if_constant(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
