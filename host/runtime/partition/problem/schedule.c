/* The order in which a choice is run.
 *
 * Units of one provider that may be merged are run in a row as long as one of them is ready; any such row can be one
 * region, since what stands in a row in an order that can be executed never forms a circle. Where merging does not
 * matter, the order is that of the graph. */
#include "partition/problem/problem.h"
#include <string.h>

/* Ready units wait in a heap for each class: mergeable ones by provider, then the others by provider, the host's last.
 * A heap is a part of x->schedule.heap, smallest unit first; units are numbered by their first nodes. */
static uint32_t class_count(const struct problem *x)
{
    return 2 * x->providers + 1;
}

static uint32_t class_of(const struct problem *x, uint32_t offer)
{
    if (offer == INLAY_NONE)
        return 2 * x->providers;
    return x->p->offers[offer].provider + (part_merges(x, offer) ? 0 : x->providers);
}

static void heap_push(uint32_t *heap, uint32_t *count, uint32_t unit)
{
    uint32_t i = (*count)++;

    while (i > 0 && heap[(i - 1) / 2] > unit) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = unit;
}

static uint32_t heap_pop(uint32_t *heap, uint32_t *count)
{
    uint32_t top = heap[0], last = heap[--*count], i = 0;

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child + 1 < *count && heap[child + 1] < heap[child])
            child++;
        if (child >= *count || heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

bool part_schedule_init(struct problem *x)
{
    part_schedule *s = &x->schedule;
    size_t nodes = (size_t)x->nodes + 1, classes = class_count(x);

    s->unit_of = arena_array(x->scratch, nodes, sizeof *s->unit_of);
    s->head = arena_array(x->scratch, nodes, sizeof *s->head);
    s->order = arena_array(x->scratch, nodes, sizeof *s->order);
    s->region_of = arena_array(x->scratch, nodes, sizeof *s->region_of);
    s->waits = arena_array(x->scratch, nodes, sizeof *s->waits);
    s->waits_at_first = arena_array(x->scratch, nodes, sizeof *s->waits_at_first);
    s->heap = arena_array(x->scratch, nodes, sizeof *s->heap);
    s->root = arena_array(x->scratch, nodes, sizeof *s->root);
    s->heap_at = arena_array(x->scratch, classes + 1, sizeof *s->heap_at);
    s->heap_count = arena_array(x->scratch, classes, sizeof *s->heap_count);
    for (uint32_t o = 0; o < x->offers; o++)
        s->splits |= (x->p->offers[o].flags & INLAY_OFFER_CONNECTED) != 0;
    return s->unit_of != NULL && s->head != NULL && s->order != NULL && s->region_of != NULL && s->waits != NULL &&
           s->waits_at_first != NULL && s->heap != NULL && s->root != NULL && s->heap_at != NULL &&
           s->heap_count != NULL;
}

/* Is the unit a node that reads constants alone, and that only units of its own class read, which it can stand with in
 * one region? DequantizeLinear of weights is: run first, it would be far from the product that reads it. */
static bool is_source(const struct problem *x, const uint32_t *choice, uint32_t unit)
{
    const part_schedule *s = &x->schedule;
    const uint32_t head = s->head[unit], class = class_of(x, choice[head]);
    const inlay_node_info *n = &x->g->nodes[head]->info;
    bool is_read = false;

    if (class >= x->providers || x->p->offers[choice[head]].node_count > 1 || s->waits_at_first[unit] > 0)
        return false;
    for (uint32_t i = 0; i < n->input_count; i++)
        if (n->inputs[i] != INLAY_NONE && (x->g->values[n->inputs[i]].info.flags & INLAY_VALUE_CONSTANT) == 0)
            return false;
    for (uint32_t i = 0; i < n->output_count; i++)
        for (uint32_t r = n->outputs[i] == INLAY_NONE ? 0 : x->links.reader_at[n->outputs[i]];
             n->outputs[i] != INLAY_NONE && r < x->links.reader_at[n->outputs[i] + 1]; r++) {
            is_read = true;
            if (class_of(x, choice[x->links.readers[r]]) != class)
                return false;
        }
    return is_read;
}

enum { IS_SOURCE = 1, IS_PLACED = 2 };

/* Units in the order of their first nodes, and how many values each waits for. */
static void make_units(struct problem *x, const uint32_t *choice)
{
    part_schedule *s = &x->schedule;

    s->unit_count = 0;
    memset(s->heap_at, 0, (class_count(x) + 1) * sizeof *s->heap_at);
    for (uint32_t n = 0; n < x->nodes; n++) {
        const part_offer *o = choice[n] == INLAY_NONE ? NULL : &x->p->offers[choice[n]];

        if (o != NULL && o->nodes[0] != n) {
            s->unit_of[n] = s->unit_of[o->nodes[0]];
            continue;
        }
        s->head[s->unit_count] = n;
        s->waits_at_first[s->unit_count] = 0;
        s->unit_of[n] = s->unit_count++;
        s->heap_at[class_of(x, choice[n]) + 1]++;
    }
    for (uint32_t c = 0; c < class_count(x); c++)
        s->heap_at[c + 1] += s->heap_at[c];
    for (uint32_t v = 0; v < x->values; v++) {
        uint32_t maker = part_maker_of(x->g, v);

        for (uint32_t i = x->links.reader_at[v]; maker != INLAY_NONE && i < x->links.reader_at[v + 1]; i++)
            if (s->unit_of[x->links.readers[i]] != s->unit_of[maker])
                s->waits_at_first[s->unit_of[x->links.readers[i]]]++;
    }
    for (uint32_t u = 0; u < s->unit_count; u++)
        s->root[u] = is_source(x, choice, u) ? IS_SOURCE : 0;
}

static void make_ready(struct problem *x, const uint32_t *choice, uint32_t unit)
{
    part_schedule *s = &x->schedule;
    uint32_t class = class_of(x, choice[s->head[unit]]);

    heap_push(s->heap + s->heap_at[class], &s->heap_count[class], unit);
}

/* What the unit has made is there. */
static void release(struct problem *x, const uint32_t *choice, uint32_t unit)
{
    part_schedule *s = &x->schedule;
    uint32_t offer = choice[s->head[unit]];
    uint32_t count = offer == INLAY_NONE ? 1 : x->p->offers[offer].node_count;

    for (uint32_t k = 0; k < count; k++) {
        uint32_t node = offer == INLAY_NONE ? s->head[unit] : x->p->offers[offer].nodes[k];
        const inlay_node_info *n = &x->g->nodes[node]->info;

        for (uint32_t i = 0; i < n->output_count; i++) {
            uint32_t v = n->outputs[i];
            for (uint32_t r = v == INLAY_NONE ? 0 : x->links.reader_at[v];
                 v != INLAY_NONE && r < x->links.reader_at[v + 1]; r++) {
                uint32_t u = s->unit_of[x->links.readers[r]];
                if (u != unit && --s->waits[u] == 0)
                    make_ready(x, choice, u);
            }
        }
    }
}

/* Puts the sources that the unit reads from in front of it. */
static void place_sources(struct problem *x, const uint32_t *choice, uint32_t unit, uint32_t *done)
{
    part_schedule *s = &x->schedule;
    const uint32_t offer = choice[s->head[unit]], count = offer == INLAY_NONE ? 1 : x->p->offers[offer].node_count;

    for (uint32_t k = 0; k < count; k++) {
        const uint32_t node = offer == INLAY_NONE ? s->head[unit] : x->p->offers[offer].nodes[k];
        const inlay_node_info *n = &x->g->nodes[node]->info;

        for (uint32_t i = 0; i < n->input_count; i++) {
            const uint32_t maker = n->inputs[i] == INLAY_NONE ? INLAY_NONE : part_maker_of(x->g, n->inputs[i]);

            if (maker == INLAY_NONE || s->root[s->unit_of[maker]] != IS_SOURCE)
                continue;
            s->root[s->unit_of[maker]] = IS_PLACED;
            s->region_of[*done] = s->region_count - 1;
            s->order[(*done)++] = s->unit_of[maker];
        }
    }
}

/* The class to take the next unit from: stay with the last one's provider if that saves something, otherwise the unit
 * that the graph has first. loners_first: of those that are in no row, as long as there are any: what they make may
 * lengthen the next one. */
static uint32_t next_class(const struct problem *x, uint32_t last, bool loners_first)
{
    const part_schedule *s = &x->schedule;
    uint32_t best = INLAY_NONE;

    if (last < x->providers && s->heap_count[last] > 0)
        return last;
    if (x->bounds.max_partitions > 0 && last < 2 * x->providers) {
        uint32_t other = last < x->providers ? last + x->providers : last - x->providers;
        if (s->heap_count[last] > 0)
            return last;
        if (s->heap_count[other] > 0)
            return other;
    }
    for (uint32_t c = 0; c < class_count(x); c++)
        if (s->heap_count[c] > 0 && (best == INLAY_NONE || (loners_first && best < x->providers && c >= x->providers) ||
                                     s->heap[s->heap_at[c]] < s->heap[s->heap_at[best]]))
            best = c;
    return best;
}

/* One order; its merged launches and stretches. first: the provider to begin with, NONE = the graph's first node; the
 * number of providers = what merges with nothing, here and later. */
static bool order_units(struct problem *x, const uint32_t *choice, uint32_t first)
{
    part_schedule *s = &x->schedule;
    const bool loners_first = first == x->providers;
    uint32_t last = loners_first ? INLAY_NONE : first, done = 0, before = INLAY_NONE;

    memset(s->heap_count, 0, class_count(x) * sizeof *s->heap_count);
    memcpy(s->waits, s->waits_at_first, s->unit_count * sizeof *s->waits);
    for (uint32_t u = 0; u < s->unit_count; u++)
        if (s->waits[u] == 0 && s->root[u] == 0)
            make_ready(x, choice, u);
    for (uint32_t u = 0; u < s->unit_count; u++) /* nobody waits for these */
        if (s->root[u] != 0) {
            s->root[u] = IS_SOURCE;
            release(x, choice, u);
        }
    s->region_count = s->stretches = 0;
    s->launch_ns = 0;
    for (uint32_t class; (class = next_class(x, last, loners_first)) != INLAY_NONE;) {
        uint32_t u = heap_pop(s->heap + s->heap_at[class], &s->heap_count[class]);
        uint32_t provider = part_provider_of(x, choice[s->head[u]]);
        bool joins = done > 0 && class == last && class < x->providers;

        if (!joins) {
            s->region_count++;
            s->launch_ns += class < x->providers ? x->prices.launch[class] : 0;
        }
        if (provider != INLAY_NONE && (done == 0 || provider != before))
            s->stretches++;
        place_sources(x, choice, u, &done);
        s->region_of[done] = s->region_count - 1;
        s->order[done++] = u;
        before = provider;
        last = class;
        release(x, choice, u);
    }
    return done == s->unit_count;
}

/* Of orders that cost the same, in the end the one of fewer regions is better on a device, whose launches may have no
 * price. */
static double region_ns(const struct problem *x)
{
    return x->forms && x->domains.memory_count > 1 ? 1e-3 : 0;
}

/* What an order costs; one of too many stretches is worse than all others. */
static double cost_of_order(const struct problem *x)
{
    const part_schedule *s = &x->schedule;
    uint32_t above = x->bounds.max_partitions > 0 && s->stretches > x->bounds.max_partitions
                         ? s->stretches - x->bounds.max_partitions
                         : 0;

    return s->launch_ns + x->prices.boundary_ns * s->stretches + region_ns(x) * s->region_count + 1e18 * above;
}

/* What any order costs at least: one launch for each provider with something to merge, one stretch for each
 * provider. */
static double least_of_orders(const struct problem *x)
{
    const uint32_t *at = x->schedule.heap_at;
    double least = region_ns(x) * (x->schedule.unit_count - at[x->providers]);

    for (uint32_t p = 0; p < x->providers; p++) {
        bool merges = at[p + 1] > at[p], alone = at[x->providers + p + 1] > at[x->providers + p];
        least += (merges ? x->prices.launch[p] + region_ns(x) : 0) + (merges || alone ? x->prices.boundary_ns : 0);
    }
    return least;
}

/* ------------------------------------------------------------------ connected regions */

static uint32_t root_of(const part_schedule *s, uint32_t unit)
{
    while (s->root[unit] != unit)
        unit = s->root[unit];
    return unit;
}

/* Joins units of one region that hang together by a value. waits is the region of each unit. */
static void join_units(struct problem *x)
{
    part_schedule *s = &x->schedule;

    for (uint32_t i = 0; i < s->unit_count; i++) {
        s->waits[s->order[i]] = s->region_of[i];
        s->root[s->order[i]] = s->order[i];
    }
    for (uint32_t v = 0; v < x->values; v++) {
        uint32_t maker = part_maker_of(x->g, v), from;

        for (uint32_t i = x->links.reader_at[v]; maker != INLAY_NONE && i < x->links.reader_at[v + 1]; i++) {
            uint32_t to = root_of(s, s->unit_of[x->links.readers[i]]);

            from = root_of(s, s->unit_of[maker]);
            if (s->waits[from] == s->waits[to] && from != to)
                s->root[from > to ? from : to] = from > to ? to : from;
        }
    }
}

/* Does an offer of the row order[begin .. end - 1] ask for a connected region? */
static bool asks_for_connected(const struct problem *x, const uint32_t *choice, uint32_t begin, uint32_t end)
{
    const part_schedule *s = &x->schedule;

    for (uint32_t i = begin; i < end; i++) {
        uint32_t offer = choice[s->head[s->order[i]]];

        if (part_merges(x, offer) && (x->p->offers[offer].flags & INLAY_OFFER_CONNECTED) != 0)
            return true;
    }
    return false;
}

/* Splits regions whose offers ask for it into their connected parts. No value goes from one part to another, so they
 * may run one after the other. */
static void split_regions(struct problem *x, const uint32_t *choice)
{
    part_schedule *s = &x->schedule;
    uint32_t *order = s->heap, *region_of = s->waits_at_first, at = 0, regions = 0; /* nobody waits any more */

    join_units(x);
    for (uint32_t begin = 0, end; begin < s->unit_count; begin = end) {
        bool split;

        for (end = begin; end < s->unit_count && s->region_of[end] == s->region_of[begin];)
            end++;
        split = asks_for_connected(x, choice, begin, end);
        for (uint32_t i = begin; i < end; i++) {
            uint32_t root = split ? root_of(s, s->order[i]) : INLAY_NONE;

            if (split && s->waits[root] == INLAY_NONE)
                continue; /* with the part that it belongs to */
            if (split && i > begin)
                s->launch_ns += x->prices.launch[x->p->offers[choice[s->head[s->order[i]]]].provider];
            regions += split || i == begin;
            for (uint32_t k = i; k < (split ? end : i + 1); k++) {
                if (split && root_of(s, s->order[k]) != root)
                    continue;
                order[at] = s->order[k];
                region_of[at++] = regions - 1;
            }
            if (split)
                s->waits[root] = INLAY_NONE;
        }
    }
    memcpy(s->order, order, s->unit_count * sizeof *order);
    memcpy(s->region_of, region_of, s->unit_count * sizeof *region_of);
    s->region_count = regions;
}

bool part_schedule_choice(struct problem *x, const uint32_t *choice, bool thorough)
{
    const uint32_t *at = x->schedule.heap_at;
    uint32_t best_first = INLAY_NONE, tried = 0;
    double best, least;

    make_units(x, choice);
    if (!order_units(x, choice, INLAY_NONE))
        return false;
    best = cost_of_order(x);
    least = least_of_orders(x);
    for (uint32_t p = 0; thorough && x->providers > 1 && best > least && p <= x->providers; p++) {
        if (p < x->providers && at[p + 1] == at[p] && at[x->providers + p + 1] == at[x->providers + p])
            continue; /* runs nothing */
        (void)order_units(x, choice, p);
        tried++;
        if (cost_of_order(x) < best) {
            best = cost_of_order(x);
            best_first = p;
        }
    }
    if (tried > 0 && !order_units(x, choice, best_first))
        return false;
    if (x->schedule.splits)
        split_regions(x, choice);
    return true;
}
