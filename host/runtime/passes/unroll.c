/* Unrolls a Loop (opsets 1, 11, 13) with a small known trip count. Scripted programs produce such loops for
 * torch.tensor_split and similar functions, where a loop slices a tensor and collects the parts in a sequence. After
 * unrolling each part is known, and its readers can run in one region with its producer. */
#include "passes/body_nodes.h"
#include "inlay/check.h"
#include "passes/type_guard.h"
#include <stdio.h>
#include <string.h>

enum {
    MAX_NODES = 128,           /* nodes of all iterations, unless there is only one */
    MAX_CONSTANT_BYTES = 4096, /* larger weights in a loop body are better packed once; also limits its values */
    MAX_GRAPH_NODES = 65536    /* nodes of the graph after unrolling */
};

struct loop_unroller {
    body_nodes nodes;
    const graph_body *body;
    uint32_t carried, scans;
    int64_t trips;
    uint32_t *current; /* [carried] values for the next iteration */
    uint32_t *stacked; /* [scans * trips] results of the iterations for the scan outputs */
};

/* Outputs of Loops and the values that replace them. */
struct forward_list {
    type_guard_forward *list;
    uint32_t count;
};

static bool is_true(const inlay_value_info *value)
{
    return value->dtype == INLAY_BOOL && value->data_bytes == 1 && *(const uint8_t *)value->data != 0;
}

/* The constant that *value is a copy of; NULL: none. *value becomes the original. */
static const inlay_value_info *constant_behind(const struct graph *graph, uint32_t *value)
{
    for (uint32_t steps = 0; steps <= graph->node_count; steps++) {
        const inlay_value_info *info = &graph->values[*value].info;

        if ((info->flags & INLAY_VALUE_CONSTANT) != 0)
            return info;
        if (info->producer == INLAY_NONE || info->producer >= graph->node_count ||
            !pass_is_op(graph->nodes[info->producer], "Identity") ||
            graph->nodes[info->producer]->info.inputs[0] == INLAY_NONE)
            return NULL;
        *value = graph->nodes[info->producer]->info.inputs[0];
    }
    return NULL;
}

/* Finds the trip count of the Loop. Returns false if it is unknown. */
static bool find_trips(const struct graph *graph, const graph_node *node, const struct graph *body, int64_t *out)
{
    uint32_t limit = node->info.inputs[0], cond = node->info.input_count > 1 ? node->info.inputs[1] : INLAY_NONE;
    uint32_t again = body->outputs[0];
    const inlay_value_info *info;

    *out = INT64_MAX;
    if (limit != INLAY_NONE) {
        info = constant_behind(graph, &limit);
        if (info == NULL || info->dtype != INLAY_INT64 || info->data_bytes != sizeof *out)
            return false;
        memcpy(out, info->data, sizeof *out);
    }
    if (cond != INLAY_NONE) {
        info = constant_behind(graph, &cond);
        if (info == NULL || info->dtype != INLAY_BOOL || info->data_bytes != 1)
            return false;
        *out = is_true(info) ? *out : 0;
    }
    info = constant_behind(body, &again);
    if (info == NULL)
        return again == body->inputs[1]; /* the loop condition itself, which is true inside an iteration */
    if (info->dtype != INLAY_BOOL || info->data_bytes != 1)
        return false;
    if (!is_true(info) && *out > 1)
        *out = 1;
    return true;
}

/* Returns true if the body is small enough for `trips` copies. */
static bool is_small(const struct graph *body, int64_t trips)
{
    uint64_t constants = 0;

    if (trips <= 1)
        return true;
    if (trips > MAX_NODES || body->node_count > MAX_NODES / trips)
        return false;
    for (uint32_t i = 0; i < body->node_count; i++)
        if (body->nodes[i]->body_count > 0)
            return false;
    for (uint32_t value = 0; value < body->value_count; value++)
        if ((body->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0)
            constants += body->values[value].info.data_bytes;
    return constants <= MAX_CONSTANT_BYTES && body->value_count <= MAX_CONSTANT_BYTES;
}

/* Returns true if the Loop has the standard form and a known, small trip count. */
static bool can_unroll(const struct graph *graph, const graph_node *node, struct loop_unroller *unroller)
{
    const struct graph *body;

    if (!pass_is_op(node, "Loop") || node->body_count != 1 || node->info.input_count < 1)
        return false;
    unroller->body = &node->bodies[0];
    body = unroller->body->graph;
    unroller->carried = node->info.input_count > 2 ? node->info.input_count - 2 : 0;
    if (node->info.output_count < unroller->carried || body->input_count != unroller->carried + 2 ||
        body->output_count < node->info.output_count + 1)
        return false;
    unroller->scans = node->info.output_count - unroller->carried;
    for (uint32_t i = 0; i < body->input_count; i++)
        if ((body->values[body->inputs[i]].info.flags & INLAY_VALUE_CONSTANT) != 0 ||
            body->values[body->inputs[i]].has_default)
            return false;
    for (uint32_t i = 0; i < unroller->carried; i++) {
        uint32_t output = node->info.outputs[i];

        if (node->info.inputs[2 + i] == INLAY_NONE)
            return false;
        /* The output would need an Identity, which accepts sequences only from opset 14 on. */
        if (output != INLAY_NONE && graph->values[output].info.kind != INLAY_VALUE_TENSOR &&
            pass_is_output(graph, output))
            return false;
    }
    return find_trips(graph, node, body, &unroller->trips) && unroller->trips >= 0 &&
           (unroller->trips > 0 || unroller->scans == 0) && is_small(body, unroller->trips) &&
           graph->node_count + (uint64_t)unroller->trips * body->node_count <= MAX_GRAPH_NODES;
}

/* Adds a one-element constant for input i of the body: the iteration number or the condition. INLAY_NONE: out of
 * memory. */
static uint32_t add_scalar_input(struct loop_unroller *unroller, uint32_t i, inlay_dtype dtype, const void *element,
                                 size_t bytes)
{
    static const int64_t one = 1;
    const graph_value *like = &unroller->nodes.from->values[unroller->nodes.from->inputs[i]];
    uint32_t value = graph_add_value(unroller->nodes.to, NULL, 0);
    void *data = arena_alloc(&unroller->nodes.ctx->model->arena, bytes);
    bool vector = like->declared && like->declared_rank == 1; /* exporters declare these inputs as [] or as [1] */

    if (value == INLAY_NONE || data == NULL)
        return INLAY_NONE;
    memcpy(data, element, bytes);
    return graph_set_constant(unroller->nodes.to, value, dtype, vector, &one, data, bytes) == INLAY_OK ? value
                                                                                                       : INLAY_NONE;
}

static bool append_iteration(struct loop_unroller *unroller, int64_t t)
{
    const struct graph *body = unroller->nodes.from;
    uint8_t go = 1;

    INLAY_CHECK(t >= 0 && t < unroller->trips);
    body_nodes_reset(&unroller->nodes, unroller->body);
    unroller->nodes.copy = unroller->trips == 1 ? -1 : t;
    unroller->nodes.map[body->inputs[0]] = add_scalar_input(unroller, 0, INLAY_INT64, &t, sizeof t);
    unroller->nodes.map[body->inputs[1]] = add_scalar_input(unroller, 1, INLAY_BOOL, &go, sizeof go);
    if (unroller->nodes.map[body->inputs[0]] == INLAY_NONE || unroller->nodes.map[body->inputs[1]] == INLAY_NONE)
        return false;
    for (uint32_t i = 0; i < unroller->carried; i++)
        unroller->nodes.map[body->inputs[2 + i]] = unroller->current[i];
    if (!body_nodes_put(&unroller->nodes))
        return false;
    for (uint32_t i = 0; i < unroller->carried; i++)
        unroller->current[i] = unroller->nodes.map[body->outputs[1 + i]];
    for (uint32_t i = 0; i < unroller->scans; i++)
        unroller->stacked[i * (size_t)unroller->trips + (size_t)t] =
            unroller->nodes.map[body->outputs[1 + unroller->carried + i]];
    return true;
}

/* Appends a node to the graph. output INLAY_NONE: a new value. Returns the output; INLAY_NONE: out of memory. */
static uint32_t append_node(struct loop_unroller *unroller, const char *op, const uint32_t *inputs, uint32_t count,
                            const char *attr, uint32_t output)
{
    static const int64_t zero = 0;
    struct graph *graph = unroller->nodes.to;
    graph_node *node = graph_add_node(graph, op, NULL, NULL, count, 1);
    inlay_status status;

    output = output == INLAY_NONE ? graph_add_value(graph, NULL, 0) : output;
    if (node == NULL || output == INLAY_NONE)
        return INLAY_NONE;
    node->opset = unroller->nodes.node->opset;
    memcpy((uint32_t *)(uintptr_t)node->info.inputs, inputs, count * sizeof *inputs);
    ((uint32_t *)(uintptr_t)node->info.outputs)[0] = output;
    if (attr == NULL)
        return output;
    status = strcmp(attr, "axes") == 0 ? graph_set_attr_ints(graph, node, attr, &zero, 1)
                                       : graph_set_attr_int(graph, node, attr, 0);
    return status == INLAY_OK ? output : INLAY_NONE;
}

/* Concatenates the results of the iterations along a new first axis. */
static bool concat_scan_output(struct loop_unroller *unroller, const uint32_t *parts, uint32_t output)
{
    uint32_t *rows = arena_array(&unroller->nodes.ctx->model->arena, (size_t)unroller->trips, sizeof *rows),
             axes = INLAY_NONE;
    bool by_input = unroller->nodes.node->opset >= 13; /* from Unsqueeze-13 on the axes are an input */

    if (rows == NULL)
        return false;
    if (by_input) {
        static const int64_t one = 1, zero = 0;

        axes = graph_add_value(unroller->nodes.to, NULL, 0);
        if (axes == INLAY_NONE ||
            graph_set_constant(unroller->nodes.to, axes, INLAY_INT64, 1, &one, &zero, sizeof zero) != INLAY_OK)
            return false;
    }
    for (int64_t t = 0; t < unroller->trips; t++) {
        uint32_t inputs[2] = { parts[t], axes };

        rows[t] = append_node(unroller, "Unsqueeze", inputs, by_input ? 2 : 1, by_input ? NULL : "axes",
                              unroller->trips == 1 ? output : INLAY_NONE);
        if (rows[t] == INLAY_NONE)
            return false;
        unroller->nodes.to->values[rows[t]].info.dtype = unroller->nodes.to->values[output].info.dtype;
    }
    return unroller->trips == 1 ||
           append_node(unroller, "Concat", rows, (uint32_t)unroller->trips, "axis", output) != INLAY_NONE;
}

static bool unroll(struct loop_unroller *unroller, struct forward_list *forwards)
{
    const inlay_node_info *node = &unroller->nodes.node->info;
    struct arena *arena = &unroller->nodes.ctx->model->arena;

    unroller->current = arena_array(arena, (size_t)unroller->carried + 1, sizeof *unroller->current);
    unroller->stacked = arena_array(arena, unroller->scans * (size_t)unroller->trips + 1, sizeof *unroller->stacked);
    if (unroller->current == NULL || unroller->stacked == NULL)
        return false;
    for (uint32_t i = 0; i < unroller->carried; i++)
        unroller->current[i] = node->inputs[2 + i];
    for (int64_t t = 0; t < unroller->trips; t++)
        if (!append_iteration(unroller, t))
            return false;
    for (uint32_t i = 0; i < unroller->carried; i++) {
        uint32_t output = node->outputs[i];

        if (output == INLAY_NONE)
            continue;
        if (pass_is_output(unroller->nodes.to, output)) {
            if (!body_nodes_copy_value(&unroller->nodes, unroller->current[i], output))
                return false;
            continue;
        }
        forwards->list[forwards->count++] = (type_guard_forward){ output, unroller->current[i] };
    }
    for (uint32_t i = 0; i < unroller->scans; i++)
        if (node->outputs[unroller->carried + i] != INLAY_NONE &&
            !concat_scan_output(unroller, unroller->stacked + i * (size_t)unroller->trips,
                                node->outputs[unroller->carried + i]))
            return false;
    return true;
}

static bool forward_uses(pass_ctx *ctx, struct graph *graph, const struct forward_list *forwards)
{
    uint32_t *replacement = arena_array(&ctx->model->arena, (size_t)graph->value_count + 1, sizeof *replacement);

    if (replacement == NULL)
        return false;
    memset(replacement, 0xff, graph->value_count * sizeof *replacement);
    for (uint32_t i = 0; i < forwards->count; i++)
        replacement[forwards->list[i].from] = forwards->list[i].to;
    pass_replace_uses(graph, replacement);
    return true;
}

static inlay_status visit(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    uint32_t nodes = graph->node_count;
    bool *drop = NULL;
    struct forward_list forwards = { 0 };

    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *node = graph->nodes[i];
        const uint32_t nodes_before = graph->node_count;
        const uint32_t first = forwards.count;
        struct loop_unroller unroller = { 0 };
        inlay_status status;
        char text[64];

        if (!can_unroll(graph, node, &unroller) || !pass_may(ctx))
            continue;
        if (drop == NULL)
            drop = arena_array(&ctx->model->arena, nodes, sizeof *drop);
        if (drop == NULL || !body_nodes_begin(&unroller.nodes, ctx, graph, node, unroller.body) ||
            !arena_reserve(&ctx->model->arena, &forwards.list, forwards.count, unroller.carried,
                           sizeof *forwards.list) ||
            !unroll(&unroller, &forwards))
            return no_memory(ctx->diag, "to unroll node '%s'", node->info.name.data);
        status = type_guard_nodes(graph, nodes_before, node, forwards.list + first, forwards.count - first, ctx->diag,
                                  &drop[i]);
        if (status != INLAY_OK)
            return status;
        if (!drop[i]) {
            forwards.count = first;
            continue;
        }
        *changed = true;
        (void)snprintf(text, sizeof text, "%lld iterations", (long long)unroller.trips);
        pass_count(ctx, graph, node, text);
    }
    if (drop == NULL)
        return INLAY_OK;
    if (!forward_uses(ctx, graph, &forwards))
        return no_memory(ctx->diag, "to unroll loops");
    body_nodes_drop(graph, drop, nodes);
    return INLAY_OK;
}

inlay_status pass_unroll(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
