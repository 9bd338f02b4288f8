#include "report/layout.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { SWEEPS = 6 };

/* The boxes row by row, and their neighbours. */
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

/* Moves nodes that do not depend on inputs to the row above their first reader. The edges are sorted by `to`. */
static void lower_free_nodes(struct layout *layout)
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

        if (from->is_free && below > 0 && below != UINT32_MAX && below - 1 < from->row)
            from->row = below - 1;
    }
    for (uint32_t i = 0; i < layout->box_count; i++)
        if (layout->boxes[i].row == UINT32_MAX) /* no node reads it */
            layout->boxes[i].row = 0;
}

/* Creates boxes and edges; maker[value] is the box that computes the value, or INLAY_NONE. */
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
        const uint32_t value = i < graph->input_count ? graph->inputs[i] : graph->captured[i - graph->input_count];

        maker[value] = layout->box_count;
        layout->boxes[layout->box_count++] = (layout_box){ .value = value };
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        uint32_t box;

        if (strcmp(node->info.op_type.data, "Constant") == 0)
            continue; /* a Constant node: its output is drawn like other constants */
        box = layout->box_count++;
        layout->boxes[box] = (layout_box){ .node = node, .value = INLAY_NONE };
        for (uint32_t k = 0; k < read_count(node); k++) {
            const uint32_t value = nth_read(node, k), from = value != INLAY_NONE ? maker[value] : INLAY_NONE;

            if (from == INLAY_NONE)
                continue; /* a constant, or omitted */
            layout->edges[layout->edge_count++] = (layout_edge){ from, box, value };
            if (layout->boxes[box].row <= layout->boxes[from].row)
                layout->boxes[box].row = layout->boxes[from].row + 1;
        }
        for (uint32_t k = 0; k < node->info.output_count; k++)
            if (node->info.outputs[k] != INLAY_NONE)
                maker[node->info.outputs[k]] = box;
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        const uint32_t value = graph->outputs[i], box = layout->box_count++;

        layout->boxes[box] = (layout_box){ .value = value };
        if (maker[value] == INLAY_NONE)
            continue;
        layout->edges[layout->edge_count++] = (layout_edge){ maker[value], box, value };
        layout->boxes[box].row = layout->boxes[maker[value]].row + 1;
    }
    lower_free_nodes(layout);
    for (uint32_t i = 0; i < layout->box_count; i++)
        layout->row_count = layout->boxes[i].row >= layout->row_count ? layout->boxes[i].row + 1 : layout->row_count;
    return true;
}

/* Lists the neighbours of each box on one side; first[box] is the start of its list. */
static bool list_neighbours(const struct layout *layout, struct arena *arena, struct order *order, int side)
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
    return list_neighbours(layout, arena, order, 0) && list_neighbours(layout, arena, order, 1);
}

/* Argument of the comparison for qsort(). */
static _Thread_local const layout_box *sorted;

static int by_x(const void *left, const void *right)
{
    const uint32_t i = *(const uint32_t *)left, k = *(const uint32_t *)right;

    if (sorted[i].x != sorted[k].x)
        return sorted[i].x < sorted[k].x ? -1 : 1;
    return i < k ? -1 : i > k;
}

/* Moves the boxes of a row to the mean of their neighbours on one side, in order and at least one width apart. */
static void place_row(struct layout *layout, const struct order *order, uint32_t row, int side)
{
    uint32_t *list = order->boxes + order->first[row];
    const uint32_t count = order->first[row + 1] - order->first[row];
    double pushed = 0;

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t box = list[i], from = order->near_first[side][box], to = order->near_first[side][box + 1];
        double sum = 0;

        for (uint32_t k = from; k < to; k++)
            sum += layout->boxes[order->near[side][k]].x;
        if (to > from)
            layout->boxes[box].x = sum / (to - from);
    }
    sorted = layout->boxes;
    INLAY_CHECK(order->first[row] + count <= layout->box_count);
    qsort(list, count, sizeof *list, by_x);
    for (uint32_t i = 1; i < count; i++) {
        const double minimum = layout->boxes[list[i - 1]].x + 1;

        if (layout->boxes[list[i]].x >= minimum)
            continue;
        pushed += minimum - layout->boxes[list[i]].x;
        layout->boxes[list[i]].x = minimum;
    }
    for (uint32_t i = 0; i < count; i++) /* boxes were only moved to the right: move all back by the mean */
        layout->boxes[list[i]].x -= pushed / count;
}

bool layout_graph(const struct graph *graph, struct arena *arena, struct layout *out)
{
    double left = 0, right = 0;
    struct order order;

    *out = (struct layout){ 0 };
    if (!make_boxes(graph, arena, out) || !make_order(out, arena, &order))
        return false;
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t i = 0; i < out->row_count; i++)
            place_row(out, &order, sweep % 2 == 0 ? i : out->row_count - 1 - i, sweep % 2);
    for (uint32_t i = 0; i < out->box_count; i++) {
        left = out->boxes[i].x < left || i == 0 ? out->boxes[i].x : left;
        right = out->boxes[i].x > right || i == 0 ? out->boxes[i].x : right;
    }
    for (uint32_t i = 0; i < out->box_count; i++)
        out->boxes[i].x -= left;
    out->width = right - left + 1;
    return true;
}
