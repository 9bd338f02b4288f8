#include "report/layout.h"
#include <stdlib.h>
#include <string.h>

enum { SWEEPS = 6 };

/* The boxes row by row, and who is joined to whom. */
struct order {
    uint32_t *first;                   /* [row_count + 1] into boxes */
    uint32_t *boxes;                   /* [box_count] */
    uint32_t *near[2], *near_first[2]; /* neighbours above (0) and below (1): near_first[side][box] into near[side] */
};

static uint32_t read_count(const graph_node *node)
{
    return node->info.input_count + node->capture_count;
}

static uint32_t nth_read(const graph_node *node, uint32_t k)
{
    return k < node->info.input_count ? node->info.inputs[k] : node->captures[k - node->info.input_count];
}

/* Nodes that no input leads to stand above their first reader, not at the top. Edges are in the order of their ends. */
static void sink_free(struct layout *layout)
{
    for (uint32_t i = 0; i < layout->box_count; i++)
        layout->boxes[i].is_free = layout->boxes[i].node != NULL;
    for (uint32_t edge = 0; edge < layout->edge_count; edge++)
        if (!layout->boxes[layout->edges[edge].from].is_free)
            layout->boxes[layout->edges[edge].to].is_free = false;
    for (uint32_t i = 0; i < layout->box_count; i++)
        if (layout->boxes[i].is_free)
            layout->boxes[i].row = UINT32_MAX;
    for (uint32_t edge = layout->edge_count; edge-- > 0;) {
        layout_box *from = &layout->boxes[layout->edges[edge].from];
        const uint32_t below = layout->boxes[layout->edges[edge].to].row;

        if (from->is_free && below > 0 && below - 1 < from->row)
            from->row = below - 1;
    }
    for (uint32_t i = 0; i < layout->box_count; i++)
        if (layout->boxes[i].row == UINT32_MAX) /* nobody reads it */
            layout->boxes[i].row = 0;
}

/* Boxes and edges; maker[v] is the box that has the value, or INLAY_NONE. */
static bool make_boxes(const struct graph *graph, struct arena *arena, struct layout *layout)
{
    uint32_t *maker = arena_array(arena, (size_t)graph->value_count + 1, sizeof *maker), edges = graph->output_count;

    for (uint32_t i = 0; i < graph->node_count; i++)
        edges += read_count(graph->nodes[i]);
    layout->boxes = arena_array(
        arena, (size_t)graph->input_count + graph->captured_count + graph->node_count + graph->output_count + 1,
        sizeof *layout->boxes);
    layout->edges = arena_array(arena, (size_t)edges + 1, sizeof *layout->edges);
    if (maker == NULL || layout->boxes == NULL || layout->edges == NULL)
        return false;
    memset(maker, 0xff, graph->value_count * sizeof *maker);
    for (uint32_t i = 0; i < graph->input_count + graph->captured_count; i++) {
        const uint32_t v = i < graph->input_count ? graph->inputs[i] : graph->captured[i - graph->input_count];

        maker[v] = layout->box_count;
        layout->boxes[layout->box_count++] = (layout_box){ .v = v };
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        uint32_t own;

        if (strcmp(node->info.op_type.data, "Constant") == 0)
            continue; /* what it makes is a constant as any other */
        own = layout->box_count++;
        layout->boxes[own] = (layout_box){ .node = node, .v = INLAY_NONE };
        for (uint32_t k = 0; k < read_count(node); k++) {
            const uint32_t v = nth_read(node, k), from = v != INLAY_NONE ? maker[v] : INLAY_NONE;

            if (from == INLAY_NONE)
                continue; /* a constant, or left out */
            layout->edges[layout->edge_count++] = (layout_edge){ from, own, v };
            if (layout->boxes[own].row <= layout->boxes[from].row)
                layout->boxes[own].row = layout->boxes[from].row + 1;
        }
        for (uint32_t k = 0; k < node->info.output_count; k++)
            if (node->info.outputs[k] != INLAY_NONE)
                maker[node->info.outputs[k]] = own;
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        const uint32_t v = graph->outputs[i], own = layout->box_count++;

        layout->boxes[own] = (layout_box){ .v = v };
        if (maker[v] == INLAY_NONE)
            continue;
        layout->edges[layout->edge_count++] = (layout_edge){ maker[v], own, v };
        layout->boxes[own].row = layout->boxes[maker[v]].row + 1;
    }
    sink_free(layout);
    for (uint32_t i = 0; i < layout->box_count; i++)
        layout->row_count = layout->boxes[i].row >= layout->row_count ? layout->boxes[i].row + 1 : layout->row_count;
    return true;
}

/* Neighbours of each box on one side, as a list of lists. */
static bool join(const struct layout *layout, struct arena *arena, struct order *order, int side)
{
    uint32_t *first = arena_array(arena, (size_t)layout->box_count + 2, sizeof *first);
    uint32_t *list = arena_array(arena, (size_t)layout->edge_count + 1, sizeof *list);

    if (first == NULL || list == NULL)
        return false;
    for (uint32_t edge = 0; edge < layout->edge_count; edge++)
        first[(side == 0 ? layout->edges[edge].to : layout->edges[edge].from) + 2]++;
    for (uint32_t i = 2; i < layout->box_count + 2; i++)
        first[i] += first[i - 1];
    for (uint32_t edge = 0; edge < layout->edge_count; edge++)
        list[first[(side == 0 ? layout->edges[edge].to : layout->edges[edge].from) + 1]++] =
            side == 0 ? layout->edges[edge].from : layout->edges[edge].to;
    order->near[side] = list;
    order->near_first[side] = first;
    return true;
}

static bool make_order(const struct layout *layout, struct arena *arena, struct order *order)
{
    uint32_t *at = arena_array(arena, (size_t)layout->row_count + 2, sizeof *at);

    *order = (struct order){ .first = arena_array(arena, (size_t)layout->row_count + 2, sizeof *order->first),
                             .boxes = arena_array(arena, (size_t)layout->box_count + 1, sizeof *order->boxes) };
    if (at == NULL || order->first == NULL || order->boxes == NULL)
        return false;
    for (uint32_t i = 0; i < layout->box_count; i++)
        order->first[layout->boxes[i].row + 1]++;
    for (uint32_t i = 0; i < layout->row_count; i++)
        order->first[i + 1] += order->first[i];
    for (uint32_t i = 0; i < layout->box_count; i++) {
        const uint32_t row = layout->boxes[i].row, place = at[row]++;

        order->boxes[order->first[row] + place] = i;
        layout->boxes[i].x = place;
    }
    return join(layout, arena, order, 0) && join(layout, arena, order, 1);
}

/* What qsort compares by. */
static _Thread_local const layout_box *sorted;

static int by_x(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;

    if (sorted[i].x != sorted[k].x)
        return sorted[i].x < sorted[k].x ? -1 : 1;
    return i < k ? -1 : i > k;
}

/* Boxes of a row go to the mean of their neighbours on one side, in order and at least one width apart. */
static void settle_row(struct layout *layout, const struct order *order, uint32_t row, int side)
{
    uint32_t *list = order->boxes + order->first[row];
    const uint32_t count = order->first[row + 1] - order->first[row];
    double pushed = 0;

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t own = list[i], from = order->near_first[side][own], to = order->near_first[side][own + 1];
        double sum = 0;

        for (uint32_t k = from; k < to; k++)
            sum += layout->boxes[order->near[side][k]].x;
        if (to > from)
            layout->boxes[own].x = sum / (to - from);
    }
    sorted = layout->boxes;
    qsort(list, count, sizeof *list, by_x);
    for (uint32_t i = 1; i < count; i++) {
        const double least = layout->boxes[list[i - 1]].x + 1;

        if (layout->boxes[list[i]].x >= least)
            continue;
        pushed += least - layout->boxes[list[i]].x;
        layout->boxes[list[i]].x = least;
    }
    for (uint32_t i = 0; i < count; i++) /* pushed to the right: half of it is taken back for all */
        layout->boxes[list[i]].x -= pushed / count;
}

bool layout_graph(const struct graph *graph, struct arena *arena, struct layout *out)
{
    double least = 0, most = 0;
    struct order order;

    *out = (struct layout){ 0 };
    if (!make_boxes(graph, arena, out) || !make_order(out, arena, &order))
        return false;
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t i = 0; i < out->row_count; i++)
            settle_row(out, &order, sweep % 2 == 0 ? i : out->row_count - 1 - i, sweep % 2);
    for (uint32_t i = 0; i < out->box_count; i++) {
        least = out->boxes[i].x < least || i == 0 ? out->boxes[i].x : least;
        most = out->boxes[i].x > most || i == 0 ? out->boxes[i].x : most;
    }
    for (uint32_t i = 0; i < out->box_count; i++)
        out->boxes[i].x -= least;
    out->width = most - least + 1;
    return true;
}
