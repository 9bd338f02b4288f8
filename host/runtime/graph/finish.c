/* graph/finish.c - puts a graph in order: names, producers, captures, topological order, and the checks on all that.
 *
 * Nothing here recurses along chains of nodes, only into bodies, whose depth the loader bounds. */
#include "graph/graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct finisher {
    struct graph *g;
    inlay_diag *diag;
    uint8_t *captured; /* [value_count] stands for an outer value */
    uint32_t *marks;   /* [value_count] or [node_count], see the users */
};

static inlay_status no_memory(const struct finisher *f)
{
    return graph_fail(f->g, NULL, NULL, INLAY_OUT_OF_MEMORY, f->diag, "out of memory while ordering %u nodes",
                      f->g->node_count);
}

/* ------------------------------------------------------------------ names */

static bool set_name(struct graph *g, graph_node *n, const char *name)
{
    n->info.name.data = name;
    n->info.name.bytes = name == NULL ? 0 : strlen(name);
    (void)g;
    return name != NULL;
}

/* ONNX lets node names be empty or repeated; here each node has one of its own. Nodes whose name is free keep it. */
static inlay_status name_nodes(struct finisher *f)
{
    struct graph *g = f->g;
    names_table table = { 0 };
    bool ok = true;

    for (uint32_t i = 0; ok && i < g->node_count; i++) {
        graph_node *n = g->nodes[i];
        uint32_t present = NAMES_NONE;

        if (n->info.name.bytes == 0)
            continue;
        ok = names_add(&table, n->info.name.data, n->info.name.bytes, i, &present);
        if (present != NAMES_NONE) /* named below */
            n->info.name.bytes = 0;
    }
    for (uint32_t i = 0; ok && i < g->node_count; i++) {
        graph_node *n = g->nodes[i];
        const char *stem = n->info.name.data[0] != '\0' ? n->info.name.data : n->info.op_type.data;
        uint32_t present = n->info.name.bytes == 0 ? 0 : NAMES_NONE;

        for (uint32_t number = i; ok && present != NAMES_NONE; number += g->node_count) {
            ok = set_name(g, n, arena_format(&g->model->arena, "%s#%u", stem, number)) &&
                 names_add(&table, n->info.name.data, n->info.name.bytes, i, &present);
        }
    }
    names_deinit(&table);
    return ok ? INLAY_OK : no_memory(f);
}

/* ------------------------------------------------------------------ who makes what */

static inlay_status mark_list(struct finisher *f, const uint32_t *list, uint32_t count, uint32_t flag, const char *what)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] >= f->g->value_count)
            return graph_fail(f->g, NULL, NULL, INLAY_INTERNAL, f->diag, "%s %u is not a value of the graph", what, i);
        f->g->values[list[i]].info.flags |= flag;
    }
    return INLAY_OK;
}

static inlay_status mark_boundary(struct finisher *f)
{
    struct graph *g = f->g;
    inlay_status status = INLAY_OK;

    for (uint32_t v = 0; v < g->value_count; v++) {
        g->values[v].info.producer = INLAY_NONE;
        g->values[v].info.flags &= INLAY_VALUE_CONSTANT;
    }
    for (uint32_t i = 0; i < g->captured_count; i++)
        f->captured[g->captured[i]] = 1;
    INLAY_TRY(mark_list(f, g->inputs, g->input_count, INLAY_VALUE_GRAPH_INPUT, "input"));
    INLAY_TRY(mark_list(f, g->outputs, g->output_count, INLAY_VALUE_GRAPH_OUTPUT, "output"));
done:
    return status;
}

static inlay_status set_producers(struct finisher *f)
{
    struct graph *g = f->g;

    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t o = 0; o < n->info.output_count; o++) {
            uint32_t v = n->info.outputs[o];
            inlay_value_info *info;

            if (v == INLAY_NONE)
                continue;
            if (v >= g->value_count)
                return graph_fail(g, n, NULL, INLAY_INTERNAL, f->diag, "output %u is not a value of the graph", o);
            info = &g->values[v].info;
            if (info->producer != INLAY_NONE)
                return graph_fail(g, n, info->name.data, INLAY_INVALID_MODEL, f->diag,
                                  "output %u '%.96s' is already made by node '%.96s'; rename one of the two", o,
                                  info->name.data, g->nodes[info->producer]->info.name.data);
            if ((info->flags & (INLAY_VALUE_GRAPH_INPUT | INLAY_VALUE_CONSTANT)) != 0 || f->captured[v])
                return graph_fail(g, n, info->name.data, INLAY_INVALID_MODEL, f->diag,
                                  "output %u '%.96s' is also %s; rename one of the two", o, info->name.data,
                                  info->flags & INLAY_VALUE_CONSTANT      ? "an initializer"
                                  : info->flags & INLAY_VALUE_GRAPH_INPUT ? "an input of the graph"
                                                                          : "a value of the enclosing graph");
            info->producer = i;
        }
    }
    return INLAY_OK;
}

static bool is_made(const struct finisher *f, uint32_t v)
{
    const inlay_value_info *info = &f->g->values[v].info;

    return info->producer != INLAY_NONE || (info->flags & (INLAY_VALUE_GRAPH_INPUT | INLAY_VALUE_CONSTANT)) != 0 ||
           f->captured[v];
}

/* Are the values there that node n reads? */
static inlay_status check_node_uses(struct finisher *f, const graph_node *n)
{
    struct graph *g = f->g;

    for (uint32_t k = 0; k < n->info.input_count; k++) {
        uint32_t v = n->info.inputs[k];

        if (v == INLAY_NONE)
            continue;
        if (v >= g->value_count)
            return graph_fail(g, n, NULL, INLAY_INTERNAL, f->diag, "input %u is not a value of the graph", k);
        if (!is_made(f, v))
            return graph_fault_fail(g, n, g->values[v].info.name.data, GRAPH_NOT_MADE, INLAY_INVALID_MODEL, f->diag,
                                    "nothing makes input %u '%.96s'; add a node, an initializer or a graph input of "
                                    "that name",
                                    k, g->values[v].info.name.data);
    }
    for (uint32_t k = 0; k < n->capture_count; k++)
        if (!is_made(f, n->captures[k]))
            return graph_fault_fail(g, n, g->values[n->captures[k]].info.name.data, GRAPH_NOT_MADE, INLAY_INVALID_MODEL,
                                    f->diag, "nothing makes '%.96s', which a body of the node uses",
                                    g->values[n->captures[k]].info.name.data);
    return INLAY_OK;
}

static inlay_status check_uses(struct finisher *f)
{
    struct graph *g = f->g;

    for (uint32_t i = 0; i < g->node_count; i++) {
        inlay_status status = check_node_uses(f, g->nodes[i]);

        if (!graph_goes_on(g->model, g, g->nodes[i], &status, f->diag))
            return status;
    }
    for (uint32_t k = 0; k < g->output_count; k++) {
        inlay_status status = INLAY_OK;

        if (!is_made(f, g->outputs[k]))
            status =
                graph_fault_fail(g, NULL, g->values[g->outputs[k]].info.name.data, GRAPH_NOT_MADE, INLAY_INVALID_MODEL,
                                 f->diag, "nothing makes output %u '%.96s'; give it a node or take it off the outputs",
                                 k, g->values[g->outputs[k]].info.name.data);
        if (!graph_goes_on(g->model, g, NULL, &status, f->diag))
            return status;
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ captures */

/* Lists the outer values that the bodies of a node use, each once. f->marks[v] == stamp marks those seen. */
static inlay_status list_captures(struct finisher *f, graph_node *n, uint32_t stamp)
{
    uint32_t total = 0, count = 0, *list;

    for (uint32_t b = 0; b < n->body_count; b++) {
        graph_body *body = &n->bodies[b];

        body->graph->parent = f->g;
        body->graph->captured = body->capture_inner;
        body->graph->captured_count = body->capture_count;
        total += body->capture_count;
    }
    n->capture_count = 0;
    if (total == 0)
        return INLAY_OK;
    list = arena_array(&f->g->model->arena, total, sizeof *list);
    if (list == NULL)
        return no_memory(f);
    for (uint32_t b = 0; b < n->body_count; b++) {
        for (uint32_t c = 0; c < n->bodies[b].capture_count; c++) {
            uint32_t v = n->bodies[b].capture_outer[c];

            if (v >= f->g->value_count)
                return graph_fail(f->g, n, NULL, INLAY_INTERNAL, f->diag, "captures what is not a value of the graph");
            if (f->marks[v] != stamp) {
                f->marks[v] = stamp;
                list[count++] = v;
            }
        }
    }
    n->captures = list;
    n->capture_count = count;
    return INLAY_OK;
}

static inlay_status finish_bodies(struct finisher *f)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < f->g->node_count; i++) {
        graph_node *n = f->g->nodes[i];

        if (n->body_count == 0) {
            n->capture_count = 0;
            continue;
        }
        INLAY_TRY(list_captures(f, n, i + 1));
        for (uint32_t b = 0; b < n->body_count; b++)
            INLAY_TRY(graph_finish(n->bodies[b].graph, f->diag));
    }
done:
    return status;
}

/* ------------------------------------------------------------------ order */

/* The producer of the k-th thing that a node needs (inputs, then captures), INLAY_NONE if it is no node. */
static uint32_t need(const struct graph *g, const graph_node *n, uint32_t k)
{
    uint32_t v = k < n->info.input_count ? n->info.inputs[k] : n->captures[k - n->info.input_count];

    return v == INLAY_NONE ? INLAY_NONE : g->values[v].info.producer;
}

static bool is_sorted(const struct graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t k = 0; k < n->info.input_count + n->capture_count; k++) {
            uint32_t p = need(g, n, k);

            if (p != INLAY_NONE && p >= i)
                return false;
        }
    }
    return true;
}

struct visit {
    uint32_t node;
    uint32_t next; /* need to look at next */
};

static inlay_status fail_cycle(const struct finisher *f, const struct visit *stack, uint32_t depth, uint32_t again)
{
    const struct graph *g = f->g;
    char path[300];
    size_t used = 0;
    uint32_t from = depth;

    while (from > 0 && stack[from - 1].node != again)
        from--;
    /* The stack goes from user to producer; the sentence follows the data. */
    for (uint32_t i = depth; i >= from && i > 0 && used < sizeof path - 70; i--) {
        int n = snprintf(path + used, sizeof path - used, "'%.60s' -> ", g->nodes[stack[i - 1].node]->info.name.data);

        used += n > 0 ? (size_t)n : 0;
    }
    return graph_fail(g, NULL, NULL, INLAY_INVALID_MODEL, f->diag,
                      "nodes form a cycle of %u: %s...; a node cannot use what is made from its own output",
                      depth - from + 1, path);
}

/* Depth first from each node in file order, so that a node moves only behind what it needs. */
static inlay_status sort_nodes(struct finisher *f)
{
    enum { NEW = 0, OPEN = 1, PLACED = 2 };
    struct graph *g = f->g;
    inlay_status status = INLAY_OK;
    struct visit *stack = calloc(g->node_count, sizeof *stack);
    uint8_t *state = calloc(g->node_count, 1);
    graph_node **order = calloc(g->node_count, sizeof *order);
    uint32_t placed = 0;

    if (stack == NULL || state == NULL || order == NULL) {
        status = no_memory(f);
        goto done;
    }
    for (uint32_t root = 0; root < g->node_count; root++) {
        uint32_t depth = 0;

        if (state[root] == NEW) {
            stack[depth++] = (struct visit){ .node = root };
            state[root] = OPEN;
        }
        while (depth > 0) {
            struct visit *top = &stack[depth - 1];
            const graph_node *n = g->nodes[top->node];
            uint32_t p;

            if (top->next == n->info.input_count + n->capture_count) {
                state[top->node] = PLACED;
                order[placed++] = g->nodes[top->node];
                depth--;
                continue;
            }
            p = need(g, n, top->next++);
            if (p == INLAY_NONE || state[p] == PLACED)
                continue;
            if (state[p] == OPEN) {
                status = fail_cycle(f, stack, depth, p);
                goto done;
            }
            state[p] = OPEN;
            stack[depth++] = (struct visit){ .node = p };
        }
    }
    memcpy(g->nodes, order, g->node_count * sizeof *order);
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t o = 0; o < g->nodes[i]->info.output_count; o++)
            if (g->nodes[i]->info.outputs[o] != INLAY_NONE)
                g->values[g->nodes[i]->info.outputs[o]].info.producer = i;
done:
    free(stack);
    free(state);
    free(order);
    return status;
}

inlay_status graph_finish(struct graph *g, inlay_diag *diag)
{
    struct finisher f = { .g = g, .diag = diag };
    inlay_status status = INLAY_OK;

    f.captured = calloc((size_t)g->value_count + 1, sizeof *f.captured);
    f.marks = calloc((size_t)g->value_count + 1, sizeof *f.marks);
    if (f.captured == NULL || f.marks == NULL) {
        status = no_memory(&f);
        goto done;
    }
    INLAY_TRY(name_nodes(&f));
    INLAY_TRY(mark_boundary(&f));
    INLAY_TRY(set_producers(&f));
    INLAY_TRY(finish_bodies(&f));
    INLAY_TRY(check_uses(&f));
    if (!is_sorted(g))
        INLAY_TRY(sort_nodes(&f));
done:
    free(f.captured);
    free(f.marks);
    return status;
}
