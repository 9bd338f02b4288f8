/* The order in which a choice is run.
 *
 * Units of one provider that may be merged are run in a row as long as one of them is ready; any such row can be one
 * region, since what stands in a row in an order that can be executed never forms a circle. Where merging does not
 * matter, the order is that of the graph. */
#include "partition/problem/problem.h"
#include <string.h>

/* Ready units wait in a heap for each class: mergeable ones by provider, then the others by provider, the host's last.
 * A heap is a part of problem->schedule.heap, smallest unit first; units are numbered by their first nodes. */
static uint32_t class_count(const struct problem *problem)
{
    return 2 * problem->providers + 1;
}

static uint32_t class_of(const struct problem *problem, uint32_t offer)
{
    if (offer == INLAY_NONE)
        return 2 * problem->providers;
    return problem->partition->offers[offer].provider + (partition_merges(problem, offer) ? 0 : problem->providers);
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

bool partition_schedule_init(struct problem *problem)
{
    partition_schedule *schedule = &problem->schedule;
    size_t nodes = (size_t)problem->nodes + 1, classes = class_count(problem);

    schedule->unit_of = arena_array(problem->scratch, nodes, sizeof *schedule->unit_of);
    schedule->head = arena_array(problem->scratch, nodes, sizeof *schedule->head);
    schedule->order = arena_array(problem->scratch, nodes, sizeof *schedule->order);
    schedule->region_of = arena_array(problem->scratch, nodes, sizeof *schedule->region_of);
    schedule->waits = arena_array(problem->scratch, nodes, sizeof *schedule->waits);
    schedule->waits_at_first = arena_array(problem->scratch, nodes, sizeof *schedule->waits_at_first);
    schedule->heap = arena_array(problem->scratch, nodes, sizeof *schedule->heap);
    schedule->root = arena_array(problem->scratch, nodes, sizeof *schedule->root);
    schedule->heap_at = arena_array(problem->scratch, classes + 1, sizeof *schedule->heap_at);
    schedule->heap_count = arena_array(problem->scratch, classes, sizeof *schedule->heap_count);
    for (uint32_t offer = 0; offer < problem->offers; offer++)
        schedule->splits |= (problem->partition->offers[offer].flags & INLAY_OFFER_CONNECTED) != 0;
    return schedule->unit_of != NULL && schedule->head != NULL && schedule->order != NULL &&
           schedule->region_of != NULL && schedule->waits != NULL && schedule->waits_at_first != NULL &&
           schedule->heap != NULL && schedule->root != NULL && schedule->heap_at != NULL &&
           schedule->heap_count != NULL;
}

/* Is the unit a node that reads constants alone, and that only units of its own class read, which it can stand with in
 * one region? DequantizeLinear of weights is: run first, it would be far from the product that reads it. */
static bool is_source(const struct problem *problem, const uint32_t *choice, uint32_t unit)
{
    const partition_schedule *schedule = &problem->schedule;
    const uint32_t head = schedule->head[unit], class = class_of(problem, choice[head]);
    const inlay_node_info *node = &problem->graph->nodes[head]->info;
    bool is_read = false;

    if (class >= problem->providers || problem->partition->offers[choice[head]].node_count > 1 ||
        schedule->waits_at_first[unit] > 0)
        return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i] != INLAY_NONE &&
            (problem->graph->values[node->inputs[i]].info.flags & INLAY_VALUE_CONSTANT) == 0)
            return false;
    for (uint32_t i = 0; i < node->output_count; i++)
        for (uint32_t reader = node->outputs[i] == INLAY_NONE ? 0 : problem->links.reader_at[node->outputs[i]];
             node->outputs[i] != INLAY_NONE && reader < problem->links.reader_at[node->outputs[i] + 1]; reader++) {
            is_read = true;
            if (class_of(problem, choice[problem->links.readers[reader]]) != class)
                return false;
        }
    return is_read;
}

enum { IS_SOURCE = 1, IS_PLACED = 2 };

/* Units in the order of their first nodes, and how many values each waits for. */
static void make_units(struct problem *problem, const uint32_t *choice)
{
    partition_schedule *schedule = &problem->schedule;

    schedule->unit_count = 0;
    memset(schedule->heap_at, 0, (class_count(problem) + 1) * sizeof *schedule->heap_at);
    for (uint32_t n = 0; n < problem->nodes; n++) {
        const partition_offer *offer = choice[n] == INLAY_NONE ? NULL : &problem->partition->offers[choice[n]];

        if (offer != NULL && offer->nodes[0] != n) {
            schedule->unit_of[n] = schedule->unit_of[offer->nodes[0]];
            continue;
        }
        schedule->head[schedule->unit_count] = n;
        schedule->waits_at_first[schedule->unit_count] = 0;
        schedule->unit_of[n] = schedule->unit_count++;
        schedule->heap_at[class_of(problem, choice[n]) + 1]++;
    }
    for (uint32_t c = 0; c < class_count(problem); c++)
        schedule->heap_at[c + 1] += schedule->heap_at[c];
    for (uint32_t value = 0; value < problem->values; value++) {
        uint32_t maker = partition_maker_of(problem->graph, value);

        for (uint32_t i = problem->links.reader_at[value];
             maker != INLAY_NONE && i < problem->links.reader_at[value + 1]; i++)
            if (schedule->unit_of[problem->links.readers[i]] != schedule->unit_of[maker])
                schedule->waits_at_first[schedule->unit_of[problem->links.readers[i]]]++;
    }
    for (uint32_t u = 0; u < schedule->unit_count; u++)
        schedule->root[u] = is_source(problem, choice, u) ? IS_SOURCE : 0;
}

static void make_ready(struct problem *problem, const uint32_t *choice, uint32_t unit)
{
    partition_schedule *schedule = &problem->schedule;
    uint32_t class = class_of(problem, choice[schedule->head[unit]]);

    heap_push(schedule->heap + schedule->heap_at[class], &schedule->heap_count[class], unit);
}

/* What the unit has made is there. */
static void release(struct problem *problem, const uint32_t *choice, uint32_t unit)
{
    partition_schedule *schedule = &problem->schedule;
    uint32_t offer = choice[schedule->head[unit]];
    uint32_t count = offer == INLAY_NONE ? 1 : problem->partition->offers[offer].node_count;

    for (uint32_t k = 0; k < count; k++) {
        uint32_t node = offer == INLAY_NONE ? schedule->head[unit] : problem->partition->offers[offer].nodes[k];
        const inlay_node_info *n = &problem->graph->nodes[node]->info;

        for (uint32_t i = 0; i < n->output_count; i++) {
            uint32_t value = n->outputs[i];
            for (uint32_t reader = value == INLAY_NONE ? 0 : problem->links.reader_at[value];
                 value != INLAY_NONE && reader < problem->links.reader_at[value + 1]; reader++) {
                uint32_t u = schedule->unit_of[problem->links.readers[reader]];
                if (u != unit && --schedule->waits[u] == 0)
                    make_ready(problem, choice, u);
            }
        }
    }
}

/* Puts the sources that the unit reads from in front of it. */
static void place_sources(struct problem *problem, const uint32_t *choice, uint32_t unit, uint32_t *done)
{
    partition_schedule *schedule = &problem->schedule;
    const uint32_t offer = choice[schedule->head[unit]],
                   count = offer == INLAY_NONE ? 1 : problem->partition->offers[offer].node_count;

    for (uint32_t k = 0; k < count; k++) {
        const uint32_t node = offer == INLAY_NONE ? schedule->head[unit] : problem->partition->offers[offer].nodes[k];
        const inlay_node_info *n = &problem->graph->nodes[node]->info;

        for (uint32_t i = 0; i < n->input_count; i++) {
            const uint32_t maker =
                n->inputs[i] == INLAY_NONE ? INLAY_NONE : partition_maker_of(problem->graph, n->inputs[i]);

            if (maker == INLAY_NONE || schedule->root[schedule->unit_of[maker]] != IS_SOURCE)
                continue;
            schedule->root[schedule->unit_of[maker]] = IS_PLACED;
            schedule->region_of[*done] = schedule->region_count - 1;
            schedule->order[(*done)++] = schedule->unit_of[maker];
        }
    }
}

/* The class to take the next unit from: stay with the last one's provider if that saves something, otherwise the unit
 * that the graph has first. loners_first: of those that are in no row, as long as there are any: what they make may
 * lengthen the next one. */
static uint32_t next_class(const struct problem *problem, uint32_t last, bool loners_first)
{
    const partition_schedule *schedule = &problem->schedule;
    uint32_t best = INLAY_NONE;

    if (last < problem->providers && schedule->heap_count[last] > 0)
        return last;
    if (problem->bounds.max_partitions > 0 && last < 2 * problem->providers) {
        uint32_t other = last < problem->providers ? last + problem->providers : last - problem->providers;
        if (schedule->heap_count[last] > 0)
            return last;
        if (schedule->heap_count[other] > 0)
            return other;
    }
    for (uint32_t c = 0; c < class_count(problem); c++)
        if (schedule->heap_count[c] > 0 &&
            (best == INLAY_NONE || (loners_first && best < problem->providers && c >= problem->providers) ||
             schedule->heap[schedule->heap_at[c]] < schedule->heap[schedule->heap_at[best]]))
            best = c;
    return best;
}

/* One order; its merged launches and stretches. first: the provider to begin with, NONE = the graph's first node; the
 * number of providers = what merges with nothing, here and later. */
static bool order_units(struct problem *problem, const uint32_t *choice, uint32_t first)
{
    partition_schedule *schedule = &problem->schedule;
    const bool loners_first = first == problem->providers;
    uint32_t last = loners_first ? INLAY_NONE : first, done = 0, before = INLAY_NONE;

    memset(schedule->heap_count, 0, class_count(problem) * sizeof *schedule->heap_count);
    memcpy(schedule->waits, schedule->waits_at_first, schedule->unit_count * sizeof *schedule->waits);
    for (uint32_t u = 0; u < schedule->unit_count; u++)
        if (schedule->waits[u] == 0 && schedule->root[u] == 0)
            make_ready(problem, choice, u);
    for (uint32_t u = 0; u < schedule->unit_count; u++) /* nobody waits for these */
        if (schedule->root[u] != 0) {
            schedule->root[u] = IS_SOURCE;
            release(problem, choice, u);
        }
    schedule->region_count = schedule->stretches = 0;
    schedule->launch_ns = 0;
    for (uint32_t class; (class = next_class(problem, last, loners_first)) != INLAY_NONE;) {
        uint32_t u = heap_pop(schedule->heap + schedule->heap_at[class], &schedule->heap_count[class]);
        uint32_t provider = partition_provider_of(problem, choice[schedule->head[u]]);
        bool joins = done > 0 && class == last && class < problem->providers;

        if (!joins) {
            schedule->region_count++;
            schedule->launch_ns += class < problem->providers ? problem->prices.launch[class] : 0;
        }
        if (provider != INLAY_NONE && (done == 0 || provider != before))
            schedule->stretches++;
        place_sources(problem, choice, u, &done);
        schedule->region_of[done] = schedule->region_count - 1;
        schedule->order[done++] = u;
        before = provider;
        last = class;
        release(problem, choice, u);
    }
    return done == schedule->unit_count;
}

/* Of orders that cost the same, in the end the one of fewer regions is better on a device, whose launches may have no
 * price. */
static double region_ns(const struct problem *problem)
{
    return problem->forms && problem->domains.memory_count > 1 ? 1e-3 : 0;
}

/* What an order costs; one of too many stretches is worse than all others. */
static double cost_of_order(const struct problem *problem)
{
    const partition_schedule *schedule = &problem->schedule;
    uint32_t above = problem->bounds.max_partitions > 0 && schedule->stretches > problem->bounds.max_partitions
                         ? schedule->stretches - problem->bounds.max_partitions
                         : 0;

    return schedule->launch_ns + problem->prices.boundary_ns * schedule->stretches +
           region_ns(problem) * schedule->region_count + 1e18 * above;
}

/* What any order costs at least: one launch for each provider with something to merge, one stretch for each
 * provider. */
static double least_of_orders(const struct problem *problem)
{
    const uint32_t *at = problem->schedule.heap_at;
    double least = region_ns(problem) * (problem->schedule.unit_count - at[problem->providers]);

    for (uint32_t p = 0; p < problem->providers; p++) {
        bool merges = at[p + 1] > at[p], alone = at[problem->providers + p + 1] > at[problem->providers + p];
        least += (merges ? problem->prices.launch[p] + region_ns(problem) : 0) +
                 (merges || alone ? problem->prices.boundary_ns : 0);
    }
    return least;
}

/* ------------------------------------------------------------------ connected regions */

static uint32_t root_of(const partition_schedule *schedule, uint32_t unit)
{
    while (schedule->root[unit] != unit)
        unit = schedule->root[unit];
    return unit;
}

/* Joins units of one region that hang together by a value. waits is the region of each unit. */
static void join_units(struct problem *problem)
{
    partition_schedule *schedule = &problem->schedule;

    for (uint32_t i = 0; i < schedule->unit_count; i++) {
        schedule->waits[schedule->order[i]] = schedule->region_of[i];
        schedule->root[schedule->order[i]] = schedule->order[i];
    }
    for (uint32_t value = 0; value < problem->values; value++) {
        uint32_t maker = partition_maker_of(problem->graph, value), from;

        for (uint32_t i = problem->links.reader_at[value];
             maker != INLAY_NONE && i < problem->links.reader_at[value + 1]; i++) {
            uint32_t to = root_of(schedule, schedule->unit_of[problem->links.readers[i]]);

            from = root_of(schedule, schedule->unit_of[maker]);
            if (schedule->waits[from] == schedule->waits[to] && from != to)
                schedule->root[from > to ? from : to] = from > to ? to : from;
        }
    }
}

/* Does an offer of the row order[begin .. end - 1] ask for a connected region? */
static bool asks_for_connected(const struct problem *problem, const uint32_t *choice, uint32_t begin, uint32_t end)
{
    const partition_schedule *schedule = &problem->schedule;

    for (uint32_t i = begin; i < end; i++) {
        uint32_t offer = choice[schedule->head[schedule->order[i]]];

        if (partition_merges(problem, offer) && (problem->partition->offers[offer].flags & INLAY_OFFER_CONNECTED) != 0)
            return true;
    }
    return false;
}

/* Splits regions whose offers ask for it into their connected parts. No value goes from one part to another, so they
 * may run one after the other. */
static void split_regions(struct problem *problem, const uint32_t *choice)
{
    partition_schedule *schedule = &problem->schedule;
    uint32_t *order = schedule->heap, *region_of = schedule->waits_at_first, at = 0,
             regions = 0; /* nobody waits any more */

    join_units(problem);
    for (uint32_t begin = 0, end; begin < schedule->unit_count; begin = end) {
        bool split;

        for (end = begin; end < schedule->unit_count && schedule->region_of[end] == schedule->region_of[begin];)
            end++;
        split = asks_for_connected(problem, choice, begin, end);
        for (uint32_t i = begin; i < end; i++) {
            uint32_t root = split ? root_of(schedule, schedule->order[i]) : INLAY_NONE;

            if (split && schedule->waits[root] == INLAY_NONE)
                continue; /* with the part that it belongs to */
            if (split && i > begin)
                schedule->launch_ns +=
                    problem->prices
                        .launch[problem->partition->offers[choice[schedule->head[schedule->order[i]]]].provider];
            regions += split || i == begin;
            for (uint32_t k = i; k < (split ? end : i + 1); k++) {
                if (split && root_of(schedule, schedule->order[k]) != root)
                    continue;
                order[at] = schedule->order[k];
                region_of[at++] = regions - 1;
            }
            if (split)
                schedule->waits[root] = INLAY_NONE;
        }
    }
    memcpy(schedule->order, order, schedule->unit_count * sizeof *order);
    memcpy(schedule->region_of, region_of, schedule->unit_count * sizeof *region_of);
    schedule->region_count = regions;
}

bool partition_schedule_choice(struct problem *problem, const uint32_t *choice, bool thorough)
{
    const uint32_t *at = problem->schedule.heap_at;
    uint32_t best_first = INLAY_NONE, tried = 0;
    double best, least;

    make_units(problem, choice);
    if (!order_units(problem, choice, INLAY_NONE))
        return false;
    best = cost_of_order(problem);
    least = least_of_orders(problem);
    for (uint32_t p = 0; thorough && problem->providers > 1 && best > least && p <= problem->providers; p++) {
        if (p < problem->providers && at[p + 1] == at[p] &&
            at[problem->providers + p + 1] == at[problem->providers + p])
            continue; /* runs nothing */
        (void)order_units(problem, choice, p);
        tried++;
        if (cost_of_order(problem) < best) {
            best = cost_of_order(problem);
            best_first = p;
        }
    }
    if (tried > 0 && !order_units(problem, choice, best_first))
        return false;
    if (problem->schedule.splits)
        split_regions(problem, choice);
    return true;
}
