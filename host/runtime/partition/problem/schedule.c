/* The order in which a choice is executed.
 *
 * Units of one provider that can be merged run consecutively as long as one of them is ready. Consecutive units in an
 * executable order never form a cycle, so each such sequence can be one region. If merging does not matter, the order
 * is that of the graph. */
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "partition/problem/problem.h"
#include <string.h>

/* Ready units are in one heap per class: mergeable ones by provider, then the others by provider, the host's last. Each
 * heap is a part of problem->schedule.heap, smallest unit first; units are numbered by their first nodes. */
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

    INLAY_CHECK(*count < UINT32_MAX);
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
    schedule->pending = arena_array(problem->scratch, nodes, sizeof *schedule->pending);
    schedule->initial_pending = arena_array(problem->scratch, nodes, sizeof *schedule->initial_pending);
    schedule->heap = arena_array(problem->scratch, nodes, sizeof *schedule->heap);
    schedule->root = arena_array(problem->scratch, nodes, sizeof *schedule->root);
    schedule->sources = arena_array(problem->scratch, nodes, sizeof *schedule->sources);
    schedule->heap_at = arena_array(problem->scratch, classes + 1, sizeof *schedule->heap_at);
    schedule->heap_count = arena_array(problem->scratch, classes, sizeof *schedule->heap_count);
    for (uint32_t offer = 0; offer < problem->offers; offer++)
        schedule->splits |= (problem->partition->offers[offer].flags & INLAY_OFFER_CONNECTED) != 0;
    return schedule->unit_of != NULL && schedule->head != NULL && schedule->order != NULL &&
           schedule->region_of != NULL && schedule->pending != NULL && schedule->initial_pending != NULL &&
           schedule->heap != NULL && schedule->root != NULL && schedule->sources != NULL && schedule->heap_at != NULL &&
           schedule->heap_count != NULL;
}

enum { IS_SOURCE = 1, SOURCE_DEPTH = 3, IS_PLACED };

/* Returns 1 if the unit is a node that reads only constants, is read only by units of its class, and can be in one
 * region with them. DequantizeLinear of weights is an example: executed first, it would be far from the GEMM that
 * reads it. Returns one more for a node that also reads such a node, as the Transpose of these weights does, up to
 * SOURCE_DEPTH; 0 for other units. Earlier units have their results in schedule->root. */
static uint32_t source_depth(const struct problem *problem, const uint32_t *choice, uint32_t unit)
{
    const partition_schedule *schedule = &problem->schedule;
    const uint32_t head = schedule->head[unit], class = class_of(problem, choice[head]);
    const inlay_node_info *node = &problem->graph->nodes[head]->info;
    bool is_read = false;
    uint32_t depth = 0;

    if (class >= problem->providers || problem->partition->offers[choice[head]].node_count > 1)
        return 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t producer;

        if (node->inputs[i] == INLAY_NONE ||
            (problem->graph->values[node->inputs[i]].info.flags & INLAY_VALUE_CONSTANT) != 0)
            continue;
        producer = partition_producer_of(problem->graph, node->inputs[i]);
        if (producer == INLAY_NONE || schedule->unit_of[producer] >= unit ||
            schedule->root[schedule->unit_of[producer]] == 0)
            return 0;
        if (schedule->root[schedule->unit_of[producer]] > depth)
            depth = schedule->root[schedule->unit_of[producer]];
    }
    for (uint32_t i = 0; i < node->output_count; i++)
        for (uint32_t reader = node->outputs[i] == INLAY_NONE ? 0 : problem->links.reader_at[node->outputs[i]];
             node->outputs[i] != INLAY_NONE && reader < problem->links.reader_at[node->outputs[i] + 1]; reader++) {
            is_read = true;
            if (class_of(problem, choice[problem->links.readers[reader]]) != class)
                return 0;
        }
    return is_read && depth < SOURCE_DEPTH ? depth + 1 : 0;
}

static bool has_one_reader(const struct problem *problem, uint32_t node)
{
    const inlay_node_info *info = &problem->graph->nodes[node]->info;

    return info->output_count == 1 &&
           problem->links.reader_at[info->outputs[0] + 1] - problem->links.reader_at[info->outputs[0]] == 1;
}

/* A Concat that lengthens a state is a source of the node that writes new rows into the result, such as a
 * TensorScatter: in one region they append in place (plan/program/states.c), whichever provider computes where the rows
 * belong. */
static void mark_appends(const struct problem *problem, const uint32_t *choice)
{
    const partition_request *request = problem->request;
    const struct graph *graph = problem->graph;
    const partition_schedule *schedule = &problem->schedule;

    for (uint32_t k = 0; k < request->state_count; k++) {
        const uint32_t last = partition_producer_of(graph, graph->outputs[request->states[k].output]);
        const inlay_node_info *info = last == INLAY_NONE ? NULL : &graph->nodes[last]->info;

        for (uint32_t i = 0; info != NULL && i < info->input_count; i++) {
            const uint32_t first =
                info->inputs[i] == INLAY_NONE ? INLAY_NONE : partition_producer_of(graph, info->inputs[i]);
            const uint32_t class = first == INLAY_NONE ? INLAY_NONE : class_of(problem, choice[first]);

            if (class >= problem->providers || class != class_of(problem, choice[last]) ||
                problem->partition->offers[choice[first]].node_count > 1 || !has_one_reader(problem, first) ||
                !graph_node_reads(graph->nodes[first], graph->inputs[request->states[k].input]))
                continue;
            schedule->root[schedule->unit_of[first]] = IS_SOURCE;
            schedule->sources[schedule->unit_of[first]] = true;
        }
    }
}

/* Numbers the units in the order of their first nodes, and counts the inputs that each one waits for. */
static void make_units(struct problem *problem, const uint32_t *choice)
{
    partition_schedule *schedule = &problem->schedule;

    schedule->unit_count = 0;
    memset(schedule->heap_at, 0, (class_count(problem) + 1) * sizeof *schedule->heap_at);
    for (uint32_t node = 0; node < problem->nodes; node++) {
        const partition_offer *offer = choice[node] == INLAY_NONE ? NULL : &problem->partition->offers[choice[node]];

        if (offer != NULL && offer->nodes[0] != node) {
            schedule->unit_of[node] = schedule->unit_of[offer->nodes[0]];
            continue;
        }
        schedule->head[schedule->unit_count] = node;
        schedule->initial_pending[schedule->unit_count] = 0;
        INLAY_CHECK(schedule->unit_count < problem->nodes);
        schedule->unit_of[node] = schedule->unit_count++;
        schedule->heap_at[class_of(problem, choice[node]) + 1]++;
    }
    for (uint32_t class = 0; class < class_count(problem); class ++)
        schedule->heap_at[class + 1] += schedule->heap_at[class];
    for (uint32_t value = 0; value < problem->values; value++) {
        uint32_t producer = partition_producer_of(problem->graph, value);

        for (uint32_t i = problem->links.reader_at[value];
             producer != INLAY_NONE && i < problem->links.reader_at[value + 1]; i++)
            if (schedule->unit_of[problem->links.readers[i]] != schedule->unit_of[producer])
                schedule->initial_pending[schedule->unit_of[problem->links.readers[i]]]++;
    }
    for (uint32_t unit = 0; unit < schedule->unit_count; unit++) {
        schedule->root[unit] = source_depth(problem, choice, unit);
        schedule->sources[unit] = schedule->root[unit] != 0;
    }
    mark_appends(problem, choice);
}

static void make_ready(struct problem *problem, const uint32_t *choice, uint32_t unit)
{
    partition_schedule *schedule = &problem->schedule;
    uint32_t class = class_of(problem, choice[schedule->head[unit]]);

    heap_push(schedule->heap + schedule->heap_at[class], &schedule->heap_count[class], unit);
}

/* The outputs of the unit are available: decrements the counters of their readers. Those of a source are available to
 * its readers as soon as its inputs are. */
static void release(struct problem *problem, const uint32_t *choice, uint32_t unit)
{
    partition_schedule *schedule = &problem->schedule;
    uint32_t offer = choice[schedule->head[unit]];
    uint32_t count = offer == INLAY_NONE ? 1 : problem->partition->offers[offer].node_count;

    for (uint32_t k = 0; k < count; k++) {
        uint32_t node = offer == INLAY_NONE ? schedule->head[unit] : problem->partition->offers[offer].nodes[k];
        const inlay_node_info *info = &problem->graph->nodes[node]->info;

        for (uint32_t i = 0; i < info->output_count; i++) {
            uint32_t value = info->outputs[i];
            for (uint32_t reader = value == INLAY_NONE ? 0 : problem->links.reader_at[value];
                 value != INLAY_NONE && reader < problem->links.reader_at[value + 1]; reader++) {
                uint32_t waiting = schedule->unit_of[problem->links.readers[reader]];
                INLAY_CHECK(waiting == unit || schedule->pending[waiting] > 0);
                if (waiting == unit || --schedule->pending[waiting] > 0)
                    continue;
                if (schedule->root[waiting] == 0)
                    make_ready(problem, choice, waiting);
                else
                    release(problem, choice, waiting);
            }
        }
    }
}

/* Places the sources that the unit reads directly before it, and before these the sources that they read. */
static void place_sources(struct problem *problem, const uint32_t *choice, uint32_t unit, uint32_t *done)
{
    partition_schedule *schedule = &problem->schedule;
    const uint32_t offer = choice[schedule->head[unit]],
                   count = offer == INLAY_NONE ? 1 : problem->partition->offers[offer].node_count;

    for (uint32_t k = 0; k < count; k++) {
        const uint32_t node = offer == INLAY_NONE ? schedule->head[unit] : problem->partition->offers[offer].nodes[k];
        const inlay_node_info *info = &problem->graph->nodes[node]->info;

        for (uint32_t i = 0; i < info->input_count; i++) {
            const uint32_t producer =
                info->inputs[i] == INLAY_NONE ? INLAY_NONE : partition_producer_of(problem->graph, info->inputs[i]);

            if (producer == INLAY_NONE || schedule->root[schedule->unit_of[producer]] != IS_SOURCE)
                continue;
            schedule->root[schedule->unit_of[producer]] = IS_PLACED;
            place_sources(problem, choice, schedule->unit_of[producer], done); /* at most SOURCE_DEPTH deep */
            schedule->region_of[*done] = schedule->region_count - 1;
            schedule->order[(*done)++] = schedule->unit_of[producer];
        }
    }
}

/* The class of the next unit: that of the last unit's provider if that saves a launch or a partition, otherwise the
 * class with the first unit in graph order. unmerged_first: prefers units that cannot be merged, because their results
 * may lengthen the next region. */
static uint32_t next_class(const struct problem *problem, uint32_t last, bool unmerged_first)
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
    for (uint32_t class = 0; class < class_count(problem); class ++)
        if (schedule->heap_count[class] > 0 &&
            (best == INLAY_NONE || (unmerged_first && best < problem->providers && class >= problem->providers) ||
             schedule->heap[schedule->heap_at[class]] < schedule->heap[schedule->heap_at[best]]))
            best = class;
    return best;
}

/* Computes one order, its launches and partitions. first: the provider to begin with; NONE = the first node of the
 * graph; the number of providers = units that cannot be merged, here and later. */
static bool order_units(struct problem *problem, const uint32_t *choice, uint32_t first)
{
    partition_schedule *schedule = &problem->schedule;
    const bool unmerged_first = first == problem->providers;
    uint32_t last = unmerged_first ? INLAY_NONE : first, done = 0, before = INLAY_NONE;

    memset(schedule->heap_count, 0, class_count(problem) * sizeof *schedule->heap_count);
    memcpy(schedule->pending, schedule->initial_pending, schedule->unit_count * sizeof *schedule->pending);
    for (uint32_t unit = 0; unit < schedule->unit_count; unit++)
        if (schedule->pending[unit] == 0 && schedule->root[unit] == 0)
            make_ready(problem, choice, unit);
    for (uint32_t unit = 0; unit < schedule->unit_count; unit++)
        if (schedule->root[unit] != 0)
            schedule->root[unit] = IS_SOURCE;
    for (uint32_t unit = 0; unit < schedule->unit_count; unit++)
        if (schedule->root[unit] != 0 && schedule->initial_pending[unit] == 0)
            release(problem, choice, unit);
    schedule->region_count = schedule->partitions = 0;
    schedule->launch_price = 0;
    for (uint32_t class; (class = next_class(problem, last, unmerged_first)) != INLAY_NONE;) {
        uint32_t unit = heap_pop(schedule->heap + schedule->heap_at[class], &schedule->heap_count[class]);
        uint32_t provider = partition_provider_of(problem, choice[schedule->head[unit]]);
        bool joins = done > 0 && class == last && class < problem->providers;

        if (!joins) {
            schedule->region_count++;
            schedule->launch_price += class < problem->providers ? problem->prices.launch[class] : 0;
        }
        if (provider != INLAY_NONE && (done == 0 || provider != before))
            schedule->partitions++;
        place_sources(problem, choice, unit, &done);
        schedule->region_of[done] = schedule->region_count - 1;
        schedule->order[done++] = unit;
        before = provider;
        last = class;
        release(problem, choice, unit);
    }
    INLAY_CHECK(done <= schedule->unit_count);
    return done == schedule->unit_count;
}

/* Among final orders of equal cost, fewer regions are better on a device, whose launches may have no price. */
static double region_ns(const struct problem *problem)
{
    return problem->final_order && problem->domains.memory_count > 1 ? 1e-3 : 0;
}

/* The cost of an order; an order with too many partitions is worse than all others. */
static double cost_of_order(const struct problem *problem)
{
    const partition_schedule *schedule = &problem->schedule;
    uint32_t above = problem->bounds.max_partitions > 0 && schedule->partitions > problem->bounds.max_partitions
                         ? schedule->partitions - problem->bounds.max_partitions
                         : 0;

    return schedule->launch_price + problem->prices.boundary * schedule->partitions +
           region_ns(problem) * schedule->region_count + 1e18 * above;
}

/* A lower bound for all orders: one launch for each provider with mergeable units, one partition for each provider. */
static double order_lower_bound(const struct problem *problem)
{
    const uint32_t *at = problem->schedule.heap_at;
    double least = region_ns(problem) * (problem->schedule.unit_count - at[problem->providers]);

    for (uint32_t provider = 0; provider < problem->providers; provider++) {
        bool merges = at[provider + 1] > at[provider],
             alone = at[problem->providers + provider + 1] > at[problem->providers + provider];
        least += (merges ? problem->prices.launch[provider] + region_ns(problem) : 0) +
                 (merges || alone ? problem->prices.boundary : 0);
    }
    return least;
}

static uint32_t root_of(const partition_schedule *schedule, uint32_t unit)
{
    while (schedule->root[unit] != unit)
        unit = schedule->root[unit];
    return unit;
}

/* Joins units of one region that are connected by a value. pending[] holds the region of each unit here. */
static void join_units(struct problem *problem)
{
    partition_schedule *schedule = &problem->schedule;

    for (uint32_t i = 0; i < schedule->unit_count; i++) {
        schedule->pending[schedule->order[i]] = schedule->region_of[i];
        schedule->root[schedule->order[i]] = schedule->order[i];
    }
    for (uint32_t value = 0; value < problem->values; value++) {
        uint32_t producer = partition_producer_of(problem->graph, value), from;

        for (uint32_t i = problem->links.reader_at[value];
             producer != INLAY_NONE && i < problem->links.reader_at[value + 1]; i++) {
            uint32_t to = root_of(schedule, schedule->unit_of[problem->links.readers[i]]);

            from = root_of(schedule, schedule->unit_of[producer]);
            if (schedule->pending[from] == schedule->pending[to] && from != to)
                schedule->root[from > to ? from : to] = from > to ? to : from;
        }
    }
}

/* Returns whether an offer in order[begin .. end - 1] requires a connected region. */
static bool requires_connected(const struct problem *problem, const uint32_t *choice, uint32_t begin, uint32_t end)
{
    const partition_schedule *schedule = &problem->schedule;

    for (uint32_t i = begin; i < end; i++) {
        uint32_t offer = choice[schedule->head[schedule->order[i]]];

        if (partition_merges(problem, offer) && (problem->partition->offers[offer].flags & INLAY_OFFER_CONNECTED) != 0)
            return true;
    }
    return false;
}

/* Splits regions whose offers require it into their connected parts. No value is passed between the parts, so they can
 * run in sequence. */
static void split_regions(struct problem *problem, const uint32_t *choice)
{
    partition_schedule *schedule = &problem->schedule;
    uint32_t *order = schedule->heap, *region_of = schedule->initial_pending; /* no longer needed for ordering */
    uint32_t at = 0, regions = 0;

    join_units(problem);
    for (uint32_t begin = 0, end; begin < schedule->unit_count; begin = end) {
        bool split;

        for (end = begin; end < schedule->unit_count && schedule->region_of[end] == schedule->region_of[begin];)
            end++;
        split = requires_connected(problem, choice, begin, end);
        for (uint32_t i = begin; i < end; i++) {
            uint32_t root = split ? root_of(schedule, schedule->order[i]) : INLAY_NONE;

            if (split && schedule->pending[root] == INLAY_NONE)
                continue; /* placed with its part already */
            if (split && i > begin)
                schedule->launch_price +=
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
                schedule->pending[root] = INLAY_NONE;
        }
    }
    INLAY_CHECK(at == schedule->unit_count && regions >= schedule->region_count);
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
    least = order_lower_bound(problem);
    for (uint32_t provider = 0; thorough && problem->providers > 1 && best > least && provider <= problem->providers;
         provider++) {
        if (provider < problem->providers && at[provider + 1] == at[provider] &&
            at[problem->providers + provider + 1] == at[problem->providers + provider])
            continue; /* runs nothing */
        (void)order_units(problem, choice, provider);
        tried++;
        if (cost_of_order(problem) < best) {
            best = cost_of_order(problem);
            best_first = provider;
        }
    }
    if (tried > 0 && !order_units(problem, choice, best_first))
        return false;
    if (problem->schedule.splits)
        split_regions(problem, choice);
    if (partition_divide_regions(problem, choice) && problem->schedule.splits)
        split_regions(problem, choice); /* a part of a connected region may be unconnected */
    return true;
}
