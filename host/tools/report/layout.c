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

static uint32_t read_count(const graph_node *n)
{
    return n->info.input_count + n->capture_count;
}

static uint32_t nth_read(const graph_node *n, uint32_t k)
{
    return k < n->info.input_count ? n->info.inputs[k] : n->captures[k - n->info.input_count];
}

/* Nodes that no input leads to stand above their first reader, not at the top. Edges are in the order of their ends. */
static void sink_free(struct layout *l)
{
    for (uint32_t i = 0; i < l->box_count; i++)
        l->boxes[i].is_free = l->boxes[i].n != NULL;
    for (uint32_t e = 0; e < l->edge_count; e++)
        if (!l->boxes[l->edges[e].from].is_free)
            l->boxes[l->edges[e].to].is_free = false;
    for (uint32_t i = 0; i < l->box_count; i++)
        if (l->boxes[i].is_free)
            l->boxes[i].row = UINT32_MAX;
    for (uint32_t e = l->edge_count; e-- > 0;) {
        layout_box *from = &l->boxes[l->edges[e].from];
        const uint32_t below = l->boxes[l->edges[e].to].row;

        if (from->is_free && below > 0 && below - 1 < from->row)
            from->row = below - 1;
    }
    for (uint32_t i = 0; i < l->box_count; i++)
        if (l->boxes[i].row == UINT32_MAX) /* nobody reads it */
            l->boxes[i].row = 0;
}

/* Boxes and edges; maker[v] is the box that has the value, or INLAY_NONE. */
static bool make_boxes(const struct graph *g, struct arena *a, struct layout *l)
{
    uint32_t *maker = arena_array(a, (size_t)g->value_count + 1, sizeof *maker), edges = g->output_count;

    for (uint32_t i = 0; i < g->node_count; i++)
        edges += read_count(g->nodes[i]);
    l->boxes = arena_array(a, (size_t)g->input_count + g->captured_count + g->node_count + g->output_count + 1,
                           sizeof *l->boxes);
    l->edges = arena_array(a, (size_t)edges + 1, sizeof *l->edges);
    if (maker == NULL || l->boxes == NULL || l->edges == NULL)
        return false;
    memset(maker, 0xff, g->value_count * sizeof *maker);
    for (uint32_t i = 0; i < g->input_count + g->captured_count; i++) {
        const uint32_t v = i < g->input_count ? g->inputs[i] : g->captured[i - g->input_count];

        maker[v] = l->box_count;
        l->boxes[l->box_count++] = (layout_box){ .v = v };
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        uint32_t own;

        if (strcmp(n->info.op_type.data, "Constant") == 0)
            continue; /* what it makes is a constant as any other */
        own = l->box_count++;
        l->boxes[own] = (layout_box){ .n = n, .v = INLAY_NONE };
        for (uint32_t k = 0; k < read_count(n); k++) {
            const uint32_t v = nth_read(n, k), from = v != INLAY_NONE ? maker[v] : INLAY_NONE;

            if (from == INLAY_NONE)
                continue; /* a constant, or left out */
            l->edges[l->edge_count++] = (layout_edge){ from, own, v };
            if (l->boxes[own].row <= l->boxes[from].row)
                l->boxes[own].row = l->boxes[from].row + 1;
        }
        for (uint32_t k = 0; k < n->info.output_count; k++)
            if (n->info.outputs[k] != INLAY_NONE)
                maker[n->info.outputs[k]] = own;
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        const uint32_t v = g->outputs[i], own = l->box_count++;

        l->boxes[own] = (layout_box){ .v = v };
        if (maker[v] == INLAY_NONE)
            continue;
        l->edges[l->edge_count++] = (layout_edge){ maker[v], own, v };
        l->boxes[own].row = l->boxes[maker[v]].row + 1;
    }
    sink_free(l);
    for (uint32_t i = 0; i < l->box_count; i++)
        l->row_count = l->boxes[i].row >= l->row_count ? l->boxes[i].row + 1 : l->row_count;
    return true;
}

/* Neighbours of each box on one side, as a list of lists. */
static bool join(const struct layout *l, struct arena *a, struct order *o, int side)
{
    uint32_t *first = arena_array(a, (size_t)l->box_count + 2, sizeof *first);
    uint32_t *list = arena_array(a, (size_t)l->edge_count + 1, sizeof *list);

    if (first == NULL || list == NULL)
        return false;
    for (uint32_t e = 0; e < l->edge_count; e++)
        first[(side == 0 ? l->edges[e].to : l->edges[e].from) + 2]++;
    for (uint32_t i = 2; i < l->box_count + 2; i++)
        first[i] += first[i - 1];
    for (uint32_t e = 0; e < l->edge_count; e++)
        list[first[(side == 0 ? l->edges[e].to : l->edges[e].from) + 1]++] =
            side == 0 ? l->edges[e].from : l->edges[e].to;
    o->near[side] = list;
    o->near_first[side] = first;
    return true;
}

static bool make_order(const struct layout *l, struct arena *a, struct order *o)
{
    uint32_t *at = arena_array(a, (size_t)l->row_count + 2, sizeof *at);

    *o = (struct order){ .first = arena_array(a, (size_t)l->row_count + 2, sizeof *o->first),
                         .boxes = arena_array(a, (size_t)l->box_count + 1, sizeof *o->boxes) };
    if (at == NULL || o->first == NULL || o->boxes == NULL)
        return false;
    for (uint32_t i = 0; i < l->box_count; i++)
        o->first[l->boxes[i].row + 1]++;
    for (uint32_t i = 0; i < l->row_count; i++)
        o->first[i + 1] += o->first[i];
    for (uint32_t i = 0; i < l->box_count; i++) {
        const uint32_t row = l->boxes[i].row, place = at[row]++;

        o->boxes[o->first[row] + place] = i;
        l->boxes[i].x = place;
    }
    return join(l, a, o, 0) && join(l, a, o, 1);
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
static void settle_row(struct layout *l, const struct order *o, uint32_t row, int side)
{
    uint32_t *list = o->boxes + o->first[row];
    const uint32_t count = o->first[row + 1] - o->first[row];
    double pushed = 0;

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t own = list[i], from = o->near_first[side][own], to = o->near_first[side][own + 1];
        double sum = 0;

        for (uint32_t k = from; k < to; k++)
            sum += l->boxes[o->near[side][k]].x;
        if (to > from)
            l->boxes[own].x = sum / (to - from);
    }
    sorted = l->boxes;
    qsort(list, count, sizeof *list, by_x);
    for (uint32_t i = 1; i < count; i++) {
        const double least = l->boxes[list[i - 1]].x + 1;

        if (l->boxes[list[i]].x >= least)
            continue;
        pushed += least - l->boxes[list[i]].x;
        l->boxes[list[i]].x = least;
    }
    for (uint32_t i = 0; i < count; i++) /* pushed to the right: half of it is taken back for all */
        l->boxes[list[i]].x -= pushed / count;
}

bool layout_graph(const struct graph *g, struct arena *a, struct layout *out)
{
    double least = 0, most = 0;
    struct order o;

    *out = (struct layout){ 0 };
    if (!make_boxes(g, a, out) || !make_order(out, a, &o))
        return false;
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t i = 0; i < out->row_count; i++)
            settle_row(out, &o, sweep % 2 == 0 ? i : out->row_count - 1 - i, sweep % 2);
    for (uint32_t i = 0; i < out->box_count; i++) {
        least = out->boxes[i].x < least || i == 0 ? out->boxes[i].x : least;
        most = out->boxes[i].x > most || i == 0 ? out->boxes[i].x : most;
    }
    for (uint32_t i = 0; i < out->box_count; i++)
        out->boxes[i].x -= least;
    out->width = most - least + 1;
    return true;
}
