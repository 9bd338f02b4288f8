/* Loop (ONNX 1, 11, 13) that runs a known small number of times: its iterations become nodes of the graph, one after
 * the other. What scripted programs make of torch.tensor_split and the like, where a loop cuts parts off a tensor and
 * keeps them in a sequence; without the loop each part is known, and whoever reads it runs in one region with its
 * maker. */
#include "passes/body_nodes.h"
#include "passes/type_guard.h"
#include <stdio.h>
#include <string.h>

enum {
    MOST_NODES = 128,      /* of all iterations, unless there is only one */
    MOST_CONSTANTS = 4096, /* bytes: weights in the body of a loop are packed once */
    MOST_IN_GRAPH = 65536  /* nodes of the graph, whatever its loops would add */
};

struct unroller {
    body_nodes b;
    const graph_body *body;
    uint32_t carried, scans;
    int64_t trips;
    uint32_t *current; /* [carried] the values that go into the next iteration */
    uint32_t *stacked; /* [scans * trips] what the iterations gave to the scan outputs */
};

/* A list of outputs of Loops and what is read in their place. */
struct forwards {
    type_guard_forward *list;
    uint32_t count;
};

static bool is_true(const inlay_value_info *v)
{
    return v->dtype == INLAY_BOOL && v->data_bytes == 1 && *(const uint8_t *)v->data != 0;
}

/* The constant behind v of g, through copies; NULL: it is none. */
static const inlay_value_info *constant_behind(const struct graph *g, uint32_t *v)
{
    for (uint32_t steps = 0; steps <= g->node_count; steps++) {
        const inlay_value_info *info = &g->values[*v].info;

        if ((info->flags & INLAY_VALUE_CONSTANT) != 0)
            return info;
        if (info->producer == INLAY_NONE || info->producer >= g->node_count ||
            !pass_is_op(g->nodes[info->producer], "Identity") || g->nodes[info->producer]->info.inputs[0] == INLAY_NONE)
            return NULL;
        *v = g->nodes[info->producer]->info.inputs[0];
    }
    return NULL;
}

/* How often the Loop runs; false: that is not known. */
static bool find_trips(const struct graph *g, const graph_node *n, const struct graph *body, int64_t *out)
{
    uint32_t limit = n->info.inputs[0], cond = n->info.input_count > 1 ? n->info.inputs[1] : INLAY_NONE;
    uint32_t again = body->outputs[0];
    const inlay_value_info *c;

    *out = INT64_MAX;
    if (limit != INLAY_NONE) {
        c = constant_behind(g, &limit);
        if (c == NULL || c->dtype != INLAY_INT64 || c->data_bytes != sizeof *out)
            return false;
        memcpy(out, c->data, sizeof *out);
    }
    if (cond != INLAY_NONE) {
        c = constant_behind(g, &cond);
        if (c == NULL || c->dtype != INLAY_BOOL || c->data_bytes != 1)
            return false;
        *out = is_true(c) ? *out : 0;
    }
    c = constant_behind(body, &again);
    if (c == NULL)
        return again == body->inputs[1]; /* true, or no iteration would have begun */
    if (c->dtype != INLAY_BOOL || c->data_bytes != 1)
        return false;
    if (!is_true(c) && *out > 1)
        *out = 1;
    return true;
}

/* Is the body one that may be copied so often? */
static bool is_small(const struct graph *body, int64_t trips)
{
    uint64_t constants = 0;

    if (trips <= 1)
        return true;
    if (trips > MOST_NODES || body->node_count > MOST_NODES / trips)
        return false;
    for (uint32_t i = 0; i < body->node_count; i++)
        if (body->nodes[i]->body_count > 0)
            return false;
    for (uint32_t v = 0; v < body->value_count; v++)
        if ((body->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0)
            constants += body->values[v].info.data_bytes;
    return constants <= MOST_CONSTANTS && body->value_count <= MOST_CONSTANTS;
}

/* Does the Loop run a known number of times, and is it of the form that the standard asks for? */
static bool fits(const struct graph *g, const graph_node *n, struct unroller *u)
{
    const struct graph *body;

    if (!pass_is_op(n, "Loop") || n->body_count != 1 || n->info.input_count < 1)
        return false;
    u->body = &n->bodies[0];
    body = u->body->graph;
    u->carried = n->info.input_count > 2 ? n->info.input_count - 2 : 0;
    if (n->info.output_count < u->carried || body->input_count != u->carried + 2 ||
        body->output_count < n->info.output_count + 1)
        return false;
    u->scans = n->info.output_count - u->carried;
    for (uint32_t i = 0; i < body->input_count; i++)
        if ((body->values[body->inputs[i]].info.flags & INLAY_VALUE_CONSTANT) != 0 ||
            body->values[body->inputs[i]].has_default)
            return false;
    for (uint32_t i = 0; i < u->carried; i++) {
        uint32_t y = n->info.outputs[i];

        if (n->info.inputs[2 + i] == INLAY_NONE)
            return false;
        /* Identity takes sequences from opset 14 on only. */
        if (y != INLAY_NONE && g->values[y].info.kind != INLAY_VALUE_TENSOR && pass_is_output(g, y))
            return false;
    }
    return find_trips(g, n, body, &u->trips) && u->trips >= 0 && (u->trips > 0 || u->scans == 0) &&
           is_small(body, u->trips) && g->node_count + (uint64_t)u->trips * body->node_count <= MOST_IN_GRAPH;
}

/* A constant of one element for input i of the body: iteration number, condition. INLAY_NONE: no memory. */
static uint32_t one_element(struct unroller *u, uint32_t i, inlay_dtype dtype, const void *element, size_t bytes)
{
    static const int64_t one = 1;
    const graph_value *like = &u->b.from->values[u->b.from->inputs[i]];
    uint32_t v = graph_add_value(u->b.to, NULL, 0);
    void *data = arena_alloc(&u->b.ctx->model->arena, bytes);
    bool vector = like->declared && like->declared_rank == 1; /* exporters declare them as [] or as [1] */

    if (v == INLAY_NONE || data == NULL)
        return INLAY_NONE;
    memcpy(data, element, bytes);
    return graph_set_constant(u->b.to, v, dtype, vector, &one, data, bytes) == INLAY_OK ? v : INLAY_NONE;
}

static bool put_iteration(struct unroller *u, int64_t t)
{
    const struct graph *body = u->b.from;
    uint8_t go = 1;

    body_nodes_again(&u->b, u->body);
    u->b.copy = u->trips == 1 ? -1 : t;
    u->b.map[body->inputs[0]] = one_element(u, 0, INLAY_INT64, &t, sizeof t);
    u->b.map[body->inputs[1]] = one_element(u, 1, INLAY_BOOL, &go, sizeof go);
    if (u->b.map[body->inputs[0]] == INLAY_NONE || u->b.map[body->inputs[1]] == INLAY_NONE)
        return false;
    for (uint32_t i = 0; i < u->carried; i++)
        u->b.map[body->inputs[2 + i]] = u->current[i];
    if (!body_nodes_put(&u->b))
        return false;
    for (uint32_t i = 0; i < u->carried; i++)
        u->current[i] = u->b.map[body->outputs[1 + i]];
    for (uint32_t i = 0; i < u->scans; i++)
        u->stacked[i * (size_t)u->trips + (size_t)t] = u->b.map[body->outputs[1 + u->carried + i]];
    return true;
}

/* A node of the graph; its output is y, or a new value for INLAY_NONE. INLAY_NONE: no memory. */
static uint32_t put_node(struct unroller *u, const char *op, const uint32_t *inputs, uint32_t count, const char *attr,
                         uint32_t y)
{
    static const int64_t zero = 0;
    struct graph *g = u->b.to;
    graph_node *n = graph_add_node(g, op, NULL, NULL, count, 1);
    inlay_status status;

    y = y == INLAY_NONE ? graph_add_value(g, NULL, 0) : y;
    if (n == NULL || y == INLAY_NONE)
        return INLAY_NONE;
    n->opset = u->b.node->opset;
    memcpy((uint32_t *)(uintptr_t)n->info.inputs, inputs, count * sizeof *inputs);
    ((uint32_t *)(uintptr_t)n->info.outputs)[0] = y;
    if (attr == NULL)
        return y;
    status = strcmp(attr, "axes") == 0 ? graph_set_attr_ints(g, n, attr, &zero, 1) : graph_set_attr_int(g, n, attr, 0);
    return status == INLAY_OK ? y : INLAY_NONE;
}

/* A scan output: what the iterations gave, each with a new first axis, one after the other. */
static bool stack(struct unroller *u, const uint32_t *parts, uint32_t y)
{
    uint32_t *rows = arena_array(&u->b.ctx->model->arena, (size_t)u->trips, sizeof *rows), axes = INLAY_NONE;
    bool input = u->b.node->opset >= 13; /* Unsqueeze-13 has its axes as an input */

    if (rows == NULL)
        return false;
    if (input) {
        static const int64_t one = 1, zero = 0;

        axes = graph_add_value(u->b.to, NULL, 0);
        if (axes == INLAY_NONE ||
            graph_set_constant(u->b.to, axes, INLAY_INT64, 1, &one, &zero, sizeof zero) != INLAY_OK)
            return false;
    }
    for (int64_t t = 0; t < u->trips; t++) {
        uint32_t inputs[2] = { parts[t], axes };

        rows[t] =
            put_node(u, "Unsqueeze", inputs, input ? 2 : 1, input ? NULL : "axes", u->trips == 1 ? y : INLAY_NONE);
        if (rows[t] == INLAY_NONE)
            return false;
        u->b.to->values[rows[t]].info.dtype = u->b.to->values[y].info.dtype;
    }
    return u->trips == 1 || put_node(u, "Concat", rows, (uint32_t)u->trips, "axis", y) != INLAY_NONE;
}

static bool unroll(struct unroller *u, struct forwards *f)
{
    const inlay_node_info *n = &u->b.node->info;
    struct arena *a = &u->b.ctx->model->arena;

    u->current = arena_array(a, (size_t)u->carried + 1, sizeof *u->current);
    u->stacked = arena_array(a, u->scans * (size_t)u->trips + 1, sizeof *u->stacked);
    if (u->current == NULL || u->stacked == NULL)
        return false;
    for (uint32_t i = 0; i < u->carried; i++)
        u->current[i] = n->inputs[2 + i];
    for (int64_t t = 0; t < u->trips; t++)
        if (!put_iteration(u, t))
            return false;
    for (uint32_t i = 0; i < u->carried; i++) {
        uint32_t y = n->outputs[i];

        if (y == INLAY_NONE)
            continue;
        if (pass_is_output(u->b.to, y)) {
            if (!body_nodes_copy_value(&u->b, u->current[i], y))
                return false;
            continue;
        }
        f->list[f->count++] = (type_guard_forward){ y, u->current[i] };
    }
    for (uint32_t i = 0; i < u->scans; i++)
        if (n->outputs[u->carried + i] != INLAY_NONE &&
            !stack(u, u->stacked + i * (size_t)u->trips, n->outputs[u->carried + i]))
            return false;
    return true;
}

static bool forward_uses(pass_ctx *ctx, struct graph *g, const struct forwards *f)
{
    uint32_t *replacement = arena_array(&ctx->model->arena, (size_t)g->value_count + 1, sizeof *replacement);

    if (replacement == NULL)
        return false;
    memset(replacement, 0xff, g->value_count * sizeof *replacement);
    for (uint32_t i = 0; i < f->count; i++)
        replacement[f->list[i].from] = f->list[i].to;
    pass_replace_uses(g, replacement);
    return true;
}

static inlay_status visit(pass_ctx *ctx, struct graph *g, bool *changed)
{
    uint32_t nodes = g->node_count;
    bool *drop = NULL;
    struct forwards f = { 0 };

    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *n = g->nodes[i];
        const uint32_t nodes_before = g->node_count;
        const uint32_t first = f.count;
        struct unroller u = { 0 };
        inlay_status status;
        char text[64];

        if (!fits(g, n, &u) || !pass_may(ctx))
            continue;
        if (drop == NULL)
            drop = arena_array(&ctx->model->arena, nodes, sizeof *drop);
        if (drop == NULL || !body_nodes_begin(&u.b, ctx, g, n, u.body) ||
            !arena_reserve(&ctx->model->arena, &f.list, f.count, u.carried, sizeof *f.list) || !unroll(&u, &f))
            return no_memory(ctx->diag, "to unroll node '%s'", n->info.name.data);
        status = type_guard_nodes(g, nodes_before, n, f.list + first, f.count - first, ctx->diag, &drop[i]);
        if (status != INLAY_OK)
            return status;
        if (!drop[i]) {
            f.count = first;
            continue;
        }
        *changed = true;
        (void)snprintf(text, sizeof text, "%lld iterations", (long long)u.trips);
        pass_count(ctx, g, n, text);
    }
    if (drop == NULL)
        return INLAY_OK;
    if (!forward_uses(ctx, g, &f))
        return no_memory(ctx->diag, "to unroll loops");
    body_nodes_drop(g, drop, nodes);
    return INLAY_OK;
}

inlay_status pass_unroll(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
