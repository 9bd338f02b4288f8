/* graph/finish.c - completes a graph: names, producers, captures, topological order, and their validation.
 *
 * The functions recurse only into bodies, whose nesting the loader limits, never along chains of nodes. */
#include "graph/graph.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct finisher {
    struct graph *graph;
    inlay_diag *diag;
    uint8_t *captured; /* [value_count] represents an outer value */
    uint32_t *marks;   /* [value_count] see list_captures() */
};

static inlay_status no_memory_in(const struct finisher *finisher)
{
    return graph_fail(finisher->graph, NULL, NULL, INLAY_OUT_OF_MEMORY, finisher->diag,
                      "out of memory while ordering %u nodes", finisher->graph->node_count);
}

static bool set_name(struct graph *graph, graph_node *node, const char *name)
{
    node->info.name.data = name;
    node->info.name.bytes = name == NULL ? 0 : strlen(name);
    (void)graph;
    return name != NULL;
}

/* ONNX allows empty and repeated node names; here each node gets a unique one. The first node with a name keeps it. */
static inlay_status name_nodes(struct finisher *finisher)
{
    struct graph *graph = finisher->graph;
    names_table table = { 0 };
    bool ok = true;

    for (uint32_t i = 0; ok && i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];
        uint32_t present = NAMES_NONE;

        if (node->info.name.bytes == 0)
            continue;
        ok = names_add(&table, node->info.name.data, node->info.name.bytes, i, &present);
        if (present != NAMES_NONE) /* named below */
            node->info.name.bytes = 0;
    }
    for (uint32_t i = 0; ok && i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];
        const char *stem = node->info.name.data[0] != '\0' ? node->info.name.data : node->info.op_type.data;
        uint32_t present = node->info.name.bytes == 0 ? 0 : NAMES_NONE;

        for (uint32_t number = i; ok && present != NAMES_NONE; number += graph->node_count) {
            ok = set_name(graph, node, arena_format(&graph->model->arena, "%s#%u", stem, number)) &&
                 names_add(&table, node->info.name.data, node->info.name.bytes, i, &present);
        }
    }
    names_deinit(&table);
    return ok ? INLAY_OK : no_memory_in(finisher);
}

static inlay_status mark_list(struct finisher *finisher, const uint32_t *list, uint32_t count, uint32_t flag,
                              const char *what)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] >= finisher->graph->value_count)
            return graph_fail(finisher->graph, NULL, NULL, INLAY_INTERNAL, finisher->diag,
                              "%s %u is not a value of the graph", what, i);
        finisher->graph->values[list[i]].info.flags |= flag;
    }
    return INLAY_OK;
}

static inlay_status mark_boundary(struct finisher *finisher)
{
    struct graph *graph = finisher->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t value = 0; value < graph->value_count; value++) {
        graph->values[value].info.producer = INLAY_NONE;
        graph->values[value].info.flags &= INLAY_VALUE_CONSTANT;
    }
    for (uint32_t i = 0; i < graph->captured_count; i++)
        finisher->captured[graph->captured[i]] = 1;
    INLAY_TRY(mark_list(finisher, graph->inputs, graph->input_count, INLAY_VALUE_GRAPH_INPUT, "input"));
    INLAY_TRY(mark_list(finisher, graph->outputs, graph->output_count, INLAY_VALUE_GRAPH_OUTPUT, "output"));
done:
    return status;
}

static inlay_status set_producers(struct finisher *finisher)
{
    struct graph *graph = finisher->graph;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t output = 0; output < node->info.output_count; output++) {
            uint32_t value = node->info.outputs[output];
            inlay_value_info *info;

            if (value == INLAY_NONE)
                continue;
            if (value >= graph->value_count)
                return graph_fail(graph, node, NULL, INLAY_INTERNAL, finisher->diag,
                                  "output %u is not a value of the graph", output);
            info = &graph->values[value].info;
            if (info->producer != INLAY_NONE)
                return graph_fail(graph, node, info->name.data, INLAY_INVALID_MODEL, finisher->diag,
                                  "output %u '%.96s' is already produced by node '%.96s'; rename one of the two",
                                  output, info->name.data, graph->nodes[info->producer]->info.name.data);
            if ((info->flags & (INLAY_VALUE_GRAPH_INPUT | INLAY_VALUE_CONSTANT)) != 0 || finisher->captured[value])
                return graph_fail(graph, node, info->name.data, INLAY_INVALID_MODEL, finisher->diag,
                                  "output %u '%.96s' is also %s; rename one of the two", output, info->name.data,
                                  info->flags & INLAY_VALUE_CONSTANT      ? "an initializer"
                                  : info->flags & INLAY_VALUE_GRAPH_INPUT ? "an input of the graph"
                                                                          : "a value of the enclosing graph");
            info->producer = i;
        }
    }
    return INLAY_OK;
}

static bool has_producer(const struct finisher *finisher, uint32_t value)
{
    const inlay_value_info *info = &finisher->graph->values[value].info;

    return info->producer != INLAY_NONE || (info->flags & (INLAY_VALUE_GRAPH_INPUT | INLAY_VALUE_CONSTANT)) != 0 ||
           finisher->captured[value];
}

/* Checks that the values that the node reads have producers. */
static inlay_status check_node_uses(struct finisher *finisher, const graph_node *node)
{
    struct graph *graph = finisher->graph;

    for (uint32_t k = 0; k < node->info.input_count; k++) {
        uint32_t value = node->info.inputs[k];

        if (value == INLAY_NONE)
            continue;
        if (value >= graph->value_count)
            return graph_fail(graph, node, NULL, INLAY_INTERNAL, finisher->diag, "input %u is not a value of the graph",
                              k);
        if (!has_producer(finisher, value))
            return graph_fault_fail(graph, node, graph->values[value].info.name.data, GRAPH_NO_PRODUCER,
                                    INLAY_INVALID_MODEL, finisher->diag,
                                    "input %u '%.96s' has no producer; add a node, an initializer or a graph input of "
                                    "that name",
                                    k, graph->values[value].info.name.data);
    }
    for (uint32_t k = 0; k < node->capture_count; k++)
        if (!has_producer(finisher, node->captures[k]))
            return graph_fault_fail(graph, node, graph->values[node->captures[k]].info.name.data, GRAPH_NO_PRODUCER,
                                    INLAY_INVALID_MODEL, finisher->diag,
                                    "'%.96s', which a body of the node uses, has no producer",
                                    graph->values[node->captures[k]].info.name.data);
    return INLAY_OK;
}

static inlay_status check_uses(struct finisher *finisher)
{
    struct graph *graph = finisher->graph;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        inlay_status status = check_node_uses(finisher, graph->nodes[i]);

        if (!graph_continue_after_error(graph->model, graph, graph->nodes[i], &status, finisher->diag))
            return status;
    }
    for (uint32_t k = 0; k < graph->output_count; k++) {
        inlay_status status = INLAY_OK;

        if (!has_producer(finisher, graph->outputs[k]))
            status = graph_fault_fail(graph, NULL, graph->values[graph->outputs[k]].info.name.data, GRAPH_NO_PRODUCER,
                                      INLAY_INVALID_MODEL, finisher->diag,
                                      "output %u '%.96s' has no producer; add a node or remove it from the outputs", k,
                                      graph->values[graph->outputs[k]].info.name.data);
        if (!graph_continue_after_error(graph->model, graph, NULL, &status, finisher->diag))
            return status;
    }
    return INLAY_OK;
}

/* Lists the outer values that the bodies of a node use, each once. finisher->marks[value] == stamp: already listed. */
static inlay_status list_captures(struct finisher *finisher, graph_node *node, uint32_t stamp)
{
    uint32_t total = 0, count = 0, *list;

    for (uint32_t b = 0; b < node->body_count; b++) {
        graph_body *body = &node->bodies[b];

        body->graph->parent = finisher->graph;
        body->graph->captured = body->capture_inner;
        body->graph->captured_count = body->capture_count;
        total += body->capture_count;
    }
    node->capture_count = 0;
    if (total == 0)
        return INLAY_OK;
    list = arena_array(&finisher->graph->model->arena, total, sizeof *list);
    if (list == NULL)
        return no_memory_in(finisher);
    for (uint32_t b = 0; b < node->body_count; b++) {
        for (uint32_t c = 0; c < node->bodies[b].capture_count; c++) {
            uint32_t value = node->bodies[b].capture_outer[c];

            if (value >= finisher->graph->value_count)
                return graph_fail(finisher->graph, node, NULL, INLAY_INTERNAL, finisher->diag,
                                  "captures an index that is not a value of the graph");
            if (finisher->marks[value] != stamp) {
                finisher->marks[value] = stamp;
                list[count++] = value;
            }
        }
    }
    INLAY_CHECK(count <= total);
    node->captures = list;
    node->capture_count = count;
    return INLAY_OK;
}

static inlay_status finish_bodies(struct finisher *finisher)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < finisher->graph->node_count; i++) {
        graph_node *node = finisher->graph->nodes[i];

        if (node->body_count == 0) {
            node->capture_count = 0;
            continue;
        }
        INLAY_TRY(list_captures(finisher, node, i + 1));
        for (uint32_t b = 0; b < node->body_count; b++)
            INLAY_TRY(graph_finish(node->bodies[b].graph, finisher->diag));
    }
done:
    return status;
}

/* The node that produces the k-th value that a node reads (inputs, then captures); INLAY_NONE if no node does. */
static uint32_t producer_of(const struct graph *graph, const graph_node *node, uint32_t k)
{
    const uint32_t value = graph_read_at(node, k);

    return value == INLAY_NONE ? INLAY_NONE : graph->values[value].info.producer;
}

static bool is_sorted(const struct graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < graph_read_count(node); k++) {
            uint32_t producer = producer_of(graph, node, k);

            if (producer != INLAY_NONE && producer >= i)
                return false;
        }
    }
    return true;
}

struct visit {
    uint32_t node;
    uint32_t next; /* index of the next value to visit */
};

static inlay_status fail_cycle(const struct finisher *finisher, const struct visit *stack, uint32_t depth,
                               uint32_t again)
{
    const struct graph *graph = finisher->graph;
    char path[300];
    size_t used = 0;
    uint32_t from = depth;

    while (from > 0 && stack[from - 1].node != again)
        from--;
    /* The stack goes from readers to producers; the message follows the data flow. */
    for (uint32_t i = depth; i >= from && i > 0 && used < sizeof path - 70; i--) {
        int length =
            snprintf(path + used, sizeof path - used, "'%.60s' -> ", graph->nodes[stack[i - 1].node]->info.name.data);

        used += length > 0 ? (size_t)length : 0;
    }
    return graph_fail(graph, NULL, NULL, INLAY_INVALID_MODEL, finisher->diag,
                      "nodes form a cycle of %u: %s...; a node cannot depend on its own output", depth - from + 1,
                      path);
}

/* Depth-first search from each node in file order, so that a node moves only as far as its inputs require. */
static inlay_status sort_nodes(struct finisher *finisher)
{
    enum { NEW = 0, OPEN = 1, PLACED = 2 };
    struct graph *graph = finisher->graph;
    inlay_status status = INLAY_OK;
    struct visit *stack = calloc(graph->node_count, sizeof *stack);
    uint8_t *state = calloc(graph->node_count, 1);
    graph_node **order = calloc(graph->node_count, sizeof *order);
    uint32_t placed = 0;

    if (stack == NULL || state == NULL || order == NULL) {
        status = no_memory_in(finisher);
        goto done;
    }
    for (uint32_t root = 0; root < graph->node_count; root++) {
        uint32_t depth = 0;

        if (state[root] == NEW) {
            stack[depth++] = (struct visit){ .node = root };
            state[root] = OPEN;
        }
        while (depth > 0) {
            struct visit *top = &stack[depth - 1];
            const graph_node *node = graph->nodes[top->node];
            uint32_t producer;

            if (top->next == graph_read_count(node)) {
                state[top->node] = PLACED;
                order[placed++] = graph->nodes[top->node];
                depth--;
                continue;
            }
            producer = producer_of(graph, node, top->next++);
            if (producer == INLAY_NONE || state[producer] == PLACED)
                continue;
            if (state[producer] == OPEN) {
                status = fail_cycle(finisher, stack, depth, producer);
                goto done;
            }
            INLAY_CHECK(depth < graph->node_count);
            state[producer] = OPEN;
            stack[depth++] = (struct visit){ .node = producer };
        }
    }
    INLAY_CHECK(placed == graph->node_count);
    memcpy(graph->nodes, order, graph->node_count * sizeof *order);
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t output = 0; output < graph->nodes[i]->info.output_count; output++)
            if (graph->nodes[i]->info.outputs[output] != INLAY_NONE)
                graph->values[graph->nodes[i]->info.outputs[output]].info.producer = i;
done:
    free(stack);
    free(state);
    free(order);
    return status;
}

inlay_status graph_finish(struct graph *graph, inlay_diag *diag)
{
    struct finisher finisher = { .graph = graph, .diag = diag };
    inlay_status status = INLAY_OK;

    finisher.captured = calloc((size_t)graph->value_count + 1, sizeof *finisher.captured);
    finisher.marks = calloc((size_t)graph->value_count + 1, sizeof *finisher.marks);
    if (finisher.captured == NULL || finisher.marks == NULL) {
        status = no_memory_in(&finisher);
        goto done;
    }
    INLAY_TRY(name_nodes(&finisher));
    INLAY_TRY(mark_boundary(&finisher));
    INLAY_TRY(set_producers(&finisher));
    INLAY_TRY(finish_bodies(&finisher));
    INLAY_TRY(check_uses(&finisher));
    if (!is_sorted(graph))
        INLAY_TRY(sort_nodes(&finisher));
    INLAY_CHECK(is_sorted(graph));
done:
    free(finisher.captured);
    free(finisher.marks);
    return status;
}
