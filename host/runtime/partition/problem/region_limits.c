/* Limits of regions (inlay_offer.max_nodes and following): a region that exceeds one of its offers' limits is divided
 * into consecutive parts of the order, which never wait for each other. */
#include "inlay/check.h"
#include "partition/problem/problem.h"
#include <string.h>

enum { LOOKAHEAD = 64 }; /* units after which a part with too many outputs is given up: later readers reduce them */

/* The part that is being formed. Its values are marked with its stamp. */
typedef struct region_part {
    struct problem *problem;
    const uint32_t *choice;
    partition_limits limits; /* the smallest ones of its offers */
    uint64_t resident_bytes, weight_bytes;
    uint32_t nodes, inputs, outputs;
    uint32_t stamp;
} region_part;

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

static bool exceeds(uint64_t count, uint64_t limit)
{
    return limit != 0 && count > limit;
}

static bool has_limits(const partition_limits *limits)
{
    return (limits->nodes | limits->inputs | limits->outputs) != 0 ||
           (limits->resident_bytes | limits->weight_bytes) != 0;
}

bool partition_limits_init(struct problem *problem)
{
    partition_limited *limited = &problem->schedule.limited;
    bool any = false;

    for (uint32_t offer = 0; offer < problem->offers; offer++)
        any |= has_limits(&problem->partition->offers[offer].limits);
    if (!any)
        return true;
    limited->values = arena_array(problem->scratch, (size_t)problem->values + 1, sizeof *limited->values);
    limited->region_of = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *limited->region_of);
    return limited->values != NULL && limited->region_of != NULL;
}

/* Adds the results of a node. Each counts as an output of the part until the part contains all of its readers. */
static void add_results(region_part *part, const graph_node *node)
{
    const struct problem *problem = part->problem;

    for (uint32_t i = 0; i < node->info.output_count; i++) {
        const uint32_t value = node->info.outputs[i];
        partition_limited_value *marks;

        if (value == INLAY_NONE)
            continue;
        marks = &problem->schedule.limited.values[value];
        marks->made_in = part->stamp;
        marks->readers_outside = problem->links.reader_at[value + 1] - problem->links.reader_at[value];
        part->outputs += problem->links.leaves[value] != 0 || marks->readers_outside > 0;
    }
}

static void add_reads(region_part *part, const graph_node *node)
{
    struct problem *problem = part->problem;
    const uint32_t visit = ++problem->schedule.limited.stamp;

    for (uint32_t i = 0; i < graph_read_count(node); i++) {
        const uint32_t value = graph_read_at(node, i);
        partition_limited_value *marks = value == INLAY_NONE ? NULL : &problem->schedule.limited.values[value];

        if (value == INLAY_NONE || marks->read_by == visit)
            continue;
        marks->read_by = visit;
        if (marks->made_in == part->stamp) {
            INLAY_CHECK(marks->readers_outside > 0);
            part->outputs -= --marks->readers_outside == 0 && problem->links.leaves[value] == 0;
        } else if (marks->enters != part->stamp && !graph_is_constant(problem->graph, value)) {
            marks->enters = part->stamp;
            part->inputs++;
        }
    }
}

static void add_unit(region_part *part, uint32_t unit)
{
    const struct problem *problem = part->problem;
    const partition_offer *offer = &problem->partition->offers[part->choice[problem->schedule.head[unit]]];

    for (uint32_t k = 0; k < offer->node_count; k++)
        add_results(part, problem->graph->nodes[offer->nodes[k]]);
    for (uint32_t k = 0; k < offer->node_count; k++)
        add_reads(part, problem->graph->nodes[offer->nodes[k]]);
    part->nodes += offer->node_count;
    part->resident_bytes += offer->resident_bytes;
    part->weight_bytes += offer->weight_bytes;
    part->limits.nodes = (uint32_t)smaller(part->limits.nodes, offer->limits.nodes);
    part->limits.inputs = (uint32_t)smaller(part->limits.inputs, offer->limits.inputs);
    part->limits.outputs = (uint32_t)smaller(part->limits.outputs, offer->limits.outputs);
    part->limits.resident_bytes = smaller(part->limits.resident_bytes, offer->limits.resident_bytes);
    part->limits.weight_bytes = smaller(part->limits.weight_bytes, offer->limits.weight_bytes);
}

/* Can the part keep its limits, now or with more units? */
static bool may_grow(const region_part *part)
{
    return !exceeds(part->nodes, part->limits.nodes) && !exceeds(part->inputs, part->limits.inputs) &&
           !exceeds(part->resident_bytes, part->limits.resident_bytes);
}

/* The end of the first unit from order[begin] on that is no source. The sources before it hold its weights. */
static uint32_t end_with_sources(const partition_schedule *schedule, uint32_t begin, uint32_t end)
{
    while (begin + 1 < end && schedule->sources[schedule->order[begin]])
        begin++;
    return begin + 1;
}

/* Would the weights of order[begin .. end - 1] exceed the limit of the part? The first units alone may exceed it. */
static bool has_too_many_weights(const region_part *part, uint32_t begin, uint32_t end)
{
    const struct problem *problem = part->problem;
    uint64_t bytes = 0, limit = part->limits.weight_bytes;

    for (uint32_t i = begin; i < end; i++) {
        const partition_offer *offer =
            &problem->partition->offers[part->choice[problem->schedule.head[problem->schedule.order[i]]]];

        bytes += offer->weight_bytes;
        limit = smaller(limit, offer->limits.weight_bytes);
    }
    return part->weight_bytes > 0 && bytes > 0 && exceeds(part->weight_bytes + bytes, limit);
}

/* The end of the longest part of order[begin .. end - 1] that begins there and keeps the limits; at least one unit. A
 * part has no sources without their reader, which would get their results in memory of a run. */
static uint32_t end_of_part(struct problem *problem, const uint32_t *choice, uint32_t begin, uint32_t end)
{
    partition_schedule *schedule = &problem->schedule;
    region_part part = { .problem = problem, .choice = choice, .stamp = ++schedule->limited.stamp };
    uint32_t last = begin;

    for (uint32_t i = begin, next; i < end && i - last <= LOOKAHEAD; i = next) {
        next = end_with_sources(schedule, i, end);
        if (has_too_many_weights(&part, i, next))
            break;
        for (uint32_t k = i; k < next; k++)
            add_unit(&part, schedule->order[k]);
        if (!may_grow(&part))
            break;
        if (!exceeds(part.outputs, part.limits.outputs))
            last = next;
    }
    return last > begin ? last : begin + 1;
}

bool partition_offer_keeps_limits(struct problem *problem, uint32_t offer)
{
    const partition_offer *one = &problem->partition->offers[offer];
    region_part part = { .problem = problem, .limits = one->limits };

    if (!has_limits(&one->limits))
        return true;
    part.stamp = ++problem->schedule.limited.stamp;
    for (uint32_t k = 0; k < one->node_count; k++)
        add_results(&part, problem->graph->nodes[one->nodes[k]]);
    for (uint32_t k = 0; k < one->node_count; k++)
        add_reads(&part, problem->graph->nodes[one->nodes[k]]);
    if (one->node_count == 1) { /* all results of a region of one node are its outputs, also those without readers */
        const inlay_node_info *node = &problem->graph->nodes[one->nodes[0]]->info;

        part.outputs = 0;
        for (uint32_t i = 0; i < node->output_count; i++)
            part.outputs += node->outputs[i] != INLAY_NONE;
    }
    part.nodes = one->node_count;
    part.resident_bytes = one->resident_bytes;
    return may_grow(&part) && !exceeds(part.outputs, part.limits.outputs);
}

/* Does some offer of order[begin .. end - 1] limit its region? */
static bool is_limited(const struct problem *problem, const uint32_t *choice, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t offer = choice[problem->schedule.head[problem->schedule.order[i]]];

        if (offer != INLAY_NONE && has_limits(&problem->partition->offers[offer].limits))
            return true;
    }
    return false;
}

bool partition_divide_regions(struct problem *problem, const uint32_t *choice)
{
    partition_schedule *schedule = &problem->schedule;
    uint32_t *region_of = schedule->limited.region_of, regions = 0;

    if (region_of == NULL)
        return false;
    for (uint32_t begin = 0, end; begin < schedule->unit_count; begin = end) {
        const uint32_t provider = partition_provider_of(problem, choice[schedule->head[schedule->order[begin]]]);
        bool limited;

        for (end = begin + 1; end < schedule->unit_count && schedule->region_of[end] == schedule->region_of[begin];)
            end++;
        limited = end - begin > 1 && is_limited(problem, choice, begin, end);
        for (uint32_t at = begin, next; at < end; at = next, regions++) {
            next = limited ? end_of_part(problem, choice, at, end) : end;
            for (uint32_t i = at; i < next; i++)
                region_of[i] = regions;
            if (at > begin)
                schedule->launch_price += problem->prices.launch[provider];
        }
    }
    INLAY_CHECK(regions >= schedule->region_count);
    if (regions == schedule->region_count)
        return false;
    memcpy(schedule->region_of, region_of, schedule->unit_count * sizeof *region_of);
    schedule->region_count = regions;
    return true;
}
