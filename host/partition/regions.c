/* Regions: what is compiled and run as one, in an order that can be executed. */
#include "partition/internal.h"
#include <string.h>

/* Finds what enters and leaves a region. mark holds, per value, the number of the region that last touched it. */
static inlay_status find_boundary(const graph *g, const uint32_t *region_of, uint32_t index, part_region *region,
                                  const uint8_t *leaves, uint32_t *mark, arena *a)
{
    uint32_t inputs = 0, outputs = 0, *in, *out;
    size_t most_in = 0, most_out = 0;

    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *n = g->nodes[region->nodes[k]];
        most_in += part_reads(n);
        most_out += n->info.output_count;
    }
    in = arena_array(a, most_in + 1, sizeof *in);
    out = arena_array(a, most_out + 1, sizeof *out);
    if (in == NULL || out == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *n = g->nodes[region->nodes[k]];
        for (uint32_t i = 0; i < part_reads(n); i++) {
            uint32_t v = part_read_at(n, i);
            const inlay_value_info *info = v == INLAY_NONE ? NULL : &g->values[v].info;
            bool inside;

            if (info == NULL || mark[v] == index || (info->flags & INLAY_VALUE_CONSTANT) != 0)
                continue;
            inside = info->producer != INLAY_NONE && region_of[info->producer] == index;
            if (!inside) {
                mark[v] = index;
                in[inputs++] = v;
            }
        }
        for (uint32_t i = 0; i < n->info.output_count; i++) {
            uint32_t v = n->info.outputs[i];
            if (v != INLAY_NONE && (leaves[v] || region->node_count == 1))
                out[outputs++] = v;
        }
    }
    region->inputs = in;
    region->outputs = out;
    region->input_count = inputs;
    region->output_count = outputs;
    return INLAY_OK;
}

/* Which values are used outside the region of their maker, or are outputs of the graph. */
static uint8_t *find_leavers(const graph *g, const uint32_t *region_of, arena *a)
{
    uint8_t *leaves = arena_alloc(a, g->value_count + 1);

    if (leaves == NULL)
        return NULL;
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] != INLAY_NONE)
            leaves[g->outputs[i]] = 1;
    for (uint32_t k = 0; k < g->node_count; k++) {
        const graph_node *n = g->nodes[k];
        for (uint32_t i = 0; i < part_reads(n); i++) {
            uint32_t v = part_read_at(n, i), maker = part_maker_of(g, v);
            if (maker != INLAY_NONE && region_of[maker] != region_of[k])
                leaves[v] = 1;
        }
    }
    return leaves;
}

/* What is scheduled as one before anything is merged: a node with its offer, a group, a node of the host's. */
typedef struct unit {
    uint32_t offer; /* INLAY_NONE: the host's */
    const uint32_t *nodes;
    uint32_t node_count;
    uint32_t at_node, at_read; /* how far order_units has looked for makers */
    bool entered;
} unit;

static bool make_units(const chooser *c, arena *a, unit **out_units, uint32_t *out_count, uint32_t *unit_of)
{
    uint32_t nodes = c->request->graph->node_count;
    uint32_t *self = arena_array(a, (size_t)nodes + 1, sizeof *self);
    unit *units = arena_array(a, (size_t)nodes + 1, sizeof *units);
    uint32_t count = 0;

    if (self == NULL || units == NULL)
        return false;
    memset(unit_of, 0xff, nodes * sizeof *unit_of);
    for (uint32_t n = 0; n < nodes; n++) {
        uint32_t o = c->best[n];

        self[n] = n;
        if (unit_of[n] != INLAY_NONE)
            continue; /* came with a group */
        units[count] = (unit){ .offer = o, .nodes = &self[n], .node_count = 1 };
        if (o != INLAY_NONE) {
            units[count].nodes = c->p->offers[o].nodes;
            units[count].node_count = c->p->offers[o].node_count;
        }
        for (uint32_t k = 0; k < units[count].node_count; k++)
            unit_of[units[count].nodes[k]] = count;
        count++;
    }
    *out_units = units;
    *out_count = count;
    return true;
}

/* The next unit that u needs and that has not been entered; INLAY_NONE: all have been. */
static uint32_t next_maker(const graph *g, unit *units, const uint32_t *unit_of, uint32_t u)
{
    unit *x = &units[u];

    for (; x->at_node < x->node_count; x->at_node++, x->at_read = 0) {
        const graph_node *n = g->nodes[x->nodes[x->at_node]];
        while (x->at_read < part_reads(n)) {
            uint32_t maker = part_maker_of(g, part_read_at(n, x->at_read++));
            if (maker != INLAY_NONE && !units[unit_of[maker]].entered)
                return unit_of[maker];
        }
    }
    return INLAY_NONE;
}

/* Units in the order of their first nodes, except that a group waits until what it needs has been made. */
static bool order_units(const graph *g, unit *units, uint32_t count, const uint32_t *unit_of, arena *a,
                        uint32_t *out_order)
{
    uint32_t *stack = arena_array(a, (size_t)count + 1, sizeof *stack), depth = 0, done = 0;

    if (stack == NULL)
        return false;
    for (uint32_t u = 0; u < count; u++) {
        if (units[u].entered)
            continue;
        stack[depth++] = u;
        units[u].entered = true;
        while (depth > 0) {
            uint32_t maker = next_maker(g, units, unit_of, stack[depth - 1]);

            if (maker == INLAY_NONE) {
                out_order[done++] = stack[--depth];
            } else {
                units[maker].entered = true;
                stack[depth++] = maker;
            }
        }
    }
    return true;
}

/* May the unit join the region before it? Neighbours in an order that can be executed never form a cycle. */
static bool joins(const partition *p, const part_region *last, const unit *u)
{
    return last != NULL && u->offer != INLAY_NONE && u->node_count == 1 && last->offer_count > 0 &&
           last->provider == p->offers[u->offer].provider && (p->offers[u->offer].flags & INLAY_OFFER_MERGE) != 0 &&
           (p->offers[last->offers[0]].flags & INLAY_OFFER_MERGE) != 0 &&
           last->nodes[last->node_count - 1] < u->nodes[0];
}

/* Orders the units and merges neighbours of one provider that may be merged. region_of is set for each node. */
static bool merge_units(const chooser *c, arena *a, uint32_t *region_of)
{
    const graph *g = c->request->graph;
    partition *p = c->p;
    unit *units = NULL;
    uint32_t count = 0, *order, *nodes, *offers, *unit_of = arena_array(a, (size_t)g->node_count + 1, sizeof *unit_of);

    order = arena_array(a, (size_t)g->node_count + 1, sizeof *order);
    nodes = arena_array(a, (size_t)g->node_count + 1, sizeof *nodes);
    offers = arena_array(a, (size_t)g->node_count + 1, sizeof *offers);
    p->regions = arena_array(a, (size_t)g->node_count + 1, sizeof *p->regions);
    if (unit_of == NULL || order == NULL || nodes == NULL || offers == NULL || p->regions == NULL ||
        !make_units(c, a, &units, &count, unit_of) || !order_units(g, units, count, unit_of, a, order))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const unit *u = &units[order[i]];
        part_region *last = p->region_count > 0 ? &p->regions[p->region_count - 1] : NULL;

        if (!joins(p, last, u)) {
            last = &p->regions[p->region_count++];
            last->provider = u->offer == INLAY_NONE ? INLAY_NONE : p->offers[u->offer].provider;
            last->nodes = nodes;
            last->offers = offers;
        }
        for (uint32_t k = 0; k < u->node_count; k++) {
            *nodes++ = u->nodes[k];
            region_of[u->nodes[k]] = p->region_count - 1;
        }
        last->node_count += u->node_count;
        if (u->offer != INLAY_NONE) {
            *offers++ = u->offer;
            last->offer_count++;
            last->cost_ns += p->offers[u->offer].cost.ns;
            p->cost_ns += p->offers[u->offer].cost.ns;
            p->offers[u->offer].chosen = true;
        }
    }
    return true;
}

inlay_status part_form_regions(const chooser *c, arena *a, inlay_diag *diag)
{
    const graph *g = c->request->graph;
    uint32_t *region_of = arena_array(a, (size_t)g->node_count + 1, sizeof *region_of);
    uint32_t *mark = arena_array(a, (size_t)g->value_count + 1, sizeof *mark);
    uint8_t *leaves = NULL;

    if (region_of != NULL && mark != NULL && merge_units(c, a, region_of))
        leaves = find_leavers(g, region_of, a);
    if (leaves == NULL)
        goto no_memory;
    memset(mark, 0xff, g->value_count * sizeof *mark);
    for (uint32_t i = 0; i < c->p->region_count; i++)
        if (find_boundary(g, region_of, i, &c->p->regions[i], leaves, mark, a) != INLAY_OK)
            goto no_memory;
    return INLAY_OK;
no_memory:
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to form the regions of graph '%s'", g->name);
}
