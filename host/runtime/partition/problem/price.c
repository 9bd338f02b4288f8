/* What a choice costs. This is the objective: the search, the report and the tests all ask here. */
#include "partition/problem/problem.h"
#include <string.h>

/* ------------------------------------------------------------------ copies */

/* Two domains that know nothing of each other meet in the host's. */
static bool is_direct(const struct problem *problem, uint32_t from, uint32_t to)
{
    return from == INLAY_DOMAIN_HOST || to == INLAY_DOMAIN_HOST ||
           (problem->domains.owner[from] == problem->domains.owner[to] && problem->domains.owner[from] != INLAY_NONE);
}

static bool is_chosen(const struct problem *problem, const uint32_t *choice, uint32_t node)
{
    return choice[node] != INLAY_NONE || !problem->candidates[node];
}

partition_source partition_source_of(const struct problem *problem, uint32_t value)
{
    const partition_home home = partition_home_of(problem, value);
    const uint32_t maker = partition_maker_of(problem->graph, home.next != INLAY_NONE ? home.next : value);

    if (home.next != INLAY_NONE && (maker == INLAY_NONE || !problem->candidates[maker] ||
                                    partition_home_of(problem, home.next).wanted != PART_ANYWHERE))
        return (partition_source){ .node = INLAY_NONE }; /* it comes home after each iteration */
    if (maker == INLAY_NONE || !problem->candidates[maker])
        return (partition_source){ .node = INLAY_NONE, .domain = home.lies };
    return (partition_source){ .node = maker, .made = home.next != INLAY_NONE ? home.next : value };
}

uint32_t source_domain(const struct problem *problem, partition_source source, uint32_t value, uint32_t offer)
{
    if (source.node == INLAY_NONE)
        return source.domain;
    return source.made == value ? partition_domain_at(problem, offer, value)
                                : partition_memory_of(problem, partition_domain_at(problem, offer, source.made));
}

uint32_t reader_domain(const struct problem *problem, uint32_t node, uint32_t offer, uint32_t value)
{
    if (offer == INLAY_NONE && problem->partition->homes != NULL &&
        partition_hands_on(problem->graph->nodes[node], value))
        return problem->lists ? INLAY_NONE : problem->partition->homes[value].inside;
    return partition_domain_at(problem, offer, value);
}

uint32_t home_domain(const struct problem *problem, uint32_t value, uint32_t home)
{
    const partition_home h = partition_home_of(problem, value);

    if (h.wanted == PART_ANYWHERE)
        return partition_memory_of(problem, home);
    return h.stacked && h.wanted != home ? (uint32_t)INLAY_DOMAIN_HOST : h.wanted;
}

double partition_share(const struct problem *problem, bool once)
{
    return once && problem->partition->iterations > 1 ? 1 / problem->partition->iterations : 1;
}

/* Lists how the value gets from home to there, unless it has been there. */
static uint32_t travel(struct problem *problem, uint32_t count, uint32_t home, uint32_t to, bool once)
{
    const uint32_t mark = problem->domains.mark;

    if (problem->domains.marked[to] == mark)
        return count;
    problem->domains.marked[to] = mark;
    if (is_direct(problem, home, to)) {
        problem->domains.hops[count++] = (partition_hop){ home, to, once };
        return count;
    }
    if (problem->domains.marked[INLAY_DOMAIN_HOST] != mark) {
        problem->domains.marked[INLAY_DOMAIN_HOST] = mark;
        problem->domains.hops[count++] = (partition_hop){ home, INLAY_DOMAIN_HOST, once };
    }
    problem->domains.hops[count++] = (partition_hop){ INLAY_DOMAIN_HOST, to, once };
    return count;
}

uint32_t partition_hops(struct problem *problem, const uint32_t *choice, uint32_t value)
{
    const partition_source source = partition_source_of(problem, value);
    const partition_home h = partition_home_of(problem, value);
    const uint32_t offer = source.node != INLAY_NONE ? choice[source.node] : INLAY_NONE;
    uint32_t home, count = 0;

    if (partition_is_constant(problem->graph, value) || (source.node != INLAY_NONE && offer == INLAY_NONE))
        return 0;
    home = source_domain(problem, source, value, offer);
    /* Sizes that the host computes when it plans are brought once, not in each run. */
    if (home == INLAY_NONE || (source.node != INLAY_NONE && problem->graph->values[value].info.elements != NULL &&
                               !partition_merges(problem, offer) && home == INLAY_DOMAIN_HOST))
        return 0;
    if (h.next != INLAY_NONE && h.lies != INLAY_NONE) { /* there before the first iteration */
        problem->domains.marked[h.lies] = ++problem->domains.mark;
        count = travel(problem, count, h.lies, home, true);
    }
    problem->domains.marked[home] = ++problem->domains.mark;
    for (uint32_t i = problem->links.reader_at[value]; i < problem->links.reader_at[value + 1]; i++) {
        const uint32_t reader = problem->links.readers[i];
        uint32_t to;

        if (!is_chosen(problem, choice, reader) ||
            (source.node != INLAY_NONE && source.made == value && choice[reader] == offer))
            continue;
        to = reader_domain(problem, reader, choice[reader], value);
        count = to != INLAY_NONE ? travel(problem, count, home, to, h.once) : count;
    }
    if (problem->links.leaves[value])
        count = travel(problem, count, home, home_domain(problem, value, home), h.once);
    return count;
}

double partition_hop_ns(const struct problem *problem, uint32_t value, partition_hop hop)
{
    const partition_request *request = problem->request;

    if (hop.to == INLAY_DOMAIN_HOST)
        return problem->domains.up[(size_t)value * problem->domains.count + hop.from];
    if (hop.from == INLAY_DOMAIN_HOST)
        return problem->domains.down[(size_t)value * problem->domains.count + hop.to];
    return cost_copy_ns(request->costs, request->providers, request->provider_count, hop.from, hop.to,
                        cost_value_bytes(&problem->partition->profile[value]));
}

/* ------------------------------------------------------------------ memory */

/* A stay of a value in a domain: [first, last] in units of the schedule. */
struct stay {
    uint32_t first, last;
};

/* What is needed to walk through the lives of values. */
struct measure {
    struct problem *problem;
    const uint32_t *choice;
    uint32_t *place;           /* [units] position in the order */
    uint32_t *begins;          /* [regions + 1] first position */
    uint64_t *grows, *shrinks; /* [providers * (units + 2)] bytes that begin and end there */
};

static struct stay region_stay(const struct measure *measure, uint32_t region)
{
    return (struct stay){ measure->begins[region], measure->begins[region + 1] - 1 };
}

static uint32_t position_of(const struct measure *measure, uint32_t node)
{
    return measure->place[measure->problem->schedule.unit_of[node]];
}

static void count_stay(const struct measure *measure, uint32_t domain, struct stay stay, uint64_t bytes)
{
    uint32_t owner = measure->problem->domains.owner[domain], units = measure->problem->schedule.unit_count;
    size_t row;

    if (owner == INLAY_NONE)
        return;
    row = (size_t)owner * (units + 2);
    measure->grows[row + stay.first] += bytes;
    measure->shrinks[row + stay.last + 1] += bytes;
}

/* The stays of a value in device domains: where it is made from then on, where it is copied from its first use there,
 * both until the last use. */
static void count_value(const struct measure *measure, uint32_t value)
{
    struct problem *problem = measure->problem;
    const partition_schedule *schedule = &problem->schedule;
    uint32_t maker = partition_maker_of(problem->graph, value), home = INLAY_DOMAIN_HOST, count, own = INLAY_NONE;
    uint64_t bytes = cost_value_bytes(&problem->partition->profile[value]);
    struct stay at_home = { 0, 0 };

    if (maker != INLAY_NONE) {
        home = partition_domain_at(problem, measure->choice[maker], value);
        own = schedule->region_of[position_of(measure, maker)];
        at_home.first = at_home.last = position_of(measure, maker);
    }
    count = partition_hops(problem, measure->choice, value);
    for (uint32_t d = 0; d <= count; d++) {
        uint32_t domain = d == count ? home : problem->domains.hops[d].to, first = UINT32_MAX, last = 0;

        for (uint32_t i = problem->links.reader_at[value]; i < problem->links.reader_at[value + 1]; i++) {
            uint32_t n = problem->links.readers[i], at = position_of(measure, n), region = schedule->region_of[at];
            struct stay use = region == own ? (struct stay){ at, at } : region_stay(measure, region);

            if (partition_domain_at(problem, measure->choice[n], value) != domain && (domain != home || region == own))
                continue;
            first = use.first < first ? use.first : first;
            last = use.last > last ? use.last : last;
            if (region != own && maker != INLAY_NONE) /* it leaves its region: there from beginning to end */
                at_home.first = measure->begins[own];
        }
        if (domain != home) {
            if (first != UINT32_MAX)
                count_stay(measure, domain, (struct stay){ first, last }, bytes);
            continue;
        }
        if (problem->links.leaves[value])
            last = schedule->unit_count;
        at_home.last = last > at_home.last ? last : at_home.last;
        count_stay(measure, home, at_home, bytes);
    }
}

static void count_offers(const struct measure *measure, partition_memory *out)
{
    const struct problem *problem = measure->problem;
    const partition_schedule *schedule = &problem->schedule;

    for (uint32_t i = 0; i < schedule->unit_count; i++) {
        uint32_t offer = measure->choice[schedule->head[schedule->order[i]]];

        if (offer == INLAY_NONE)
            continue;
        out[problem->partition->offers[offer].provider].resident_bytes +=
            problem->partition->offers[offer].resident_bytes;
        measure->grows[(size_t)problem->partition->offers[offer].provider * (schedule->unit_count + 2) + i] +=
            problem->partition->offers[offer].workspace_bytes;
        measure->shrinks[(size_t)problem->partition->offers[offer].provider * (schedule->unit_count + 2) + i + 1] +=
            problem->partition->offers[offer].workspace_bytes;
    }
}

/* Values that the host's own domain holds count for the provider that makes them, if its limit is the user's. */
static void count_host_values(const struct measure *measure, uint32_t value)
{
    const struct problem *problem = measure->problem;
    uint32_t maker = partition_maker_of(problem->graph, value), provider, units = problem->schedule.unit_count, last;
    size_t row;

    provider = maker == INLAY_NONE ? INLAY_NONE : partition_provider_of(problem, measure->choice[maker]);
    if (provider == INLAY_NONE ||
        partition_memory_of(problem, partition_domain_at(problem, measure->choice[maker], value)) != INLAY_DOMAIN_HOST)
        return;
    last = position_of(measure, maker);
    for (uint32_t i = problem->links.reader_at[value]; i < problem->links.reader_at[value + 1]; i++)
        last = position_of(measure, problem->links.readers[i]) > last ? position_of(measure, problem->links.readers[i])
                                                                      : last;
    row = (size_t)provider * (units + 2);
    measure->grows[row + position_of(measure, maker)] += cost_value_bytes(&problem->partition->profile[value]);
    measure->shrinks[row + last + 1] += cost_value_bytes(&problem->partition->profile[value]);
}

bool partition_measure(struct problem *problem, const uint32_t *choice, partition_memory *out)
{
    const partition_schedule *schedule = &problem->schedule;
    struct measure measure = { .problem = problem, .choice = choice };
    struct arena arena = { 0 };
    size_t cells = (size_t)problem->providers * (schedule->unit_count + 2) + 1;
    bool ok = false;

    measure.place = arena_array(&arena, (size_t)schedule->unit_count + 1, sizeof *measure.place);
    measure.begins = arena_array(&arena, (size_t)schedule->region_count + 2, sizeof *measure.begins);
    measure.grows = arena_array(&arena, cells, sizeof *measure.grows);
    measure.shrinks = arena_array(&arena, cells, sizeof *measure.shrinks);
    if (measure.place == NULL || measure.begins == NULL || measure.grows == NULL || measure.shrinks == NULL)
        goto done;
    for (uint32_t i = schedule->unit_count; i-- > 0;) {
        measure.place[schedule->order[i]] = i;
        measure.begins[schedule->region_of[i]] = i;
    }
    measure.begins[schedule->region_count] = schedule->unit_count;
    for (uint32_t p = 0; p < problem->providers; p++)
        out[p] =
            (partition_memory){ .limit_bytes = problem->bounds.limit[p] == UINT64_MAX ? 0 : problem->bounds.limit[p] };
    count_offers(&measure, out);
    for (uint32_t value = 0; value < problem->values; value++) {
        if (partition_is_constant(problem->graph, value) ||
            (partition_maker_of(problem->graph, value) == INLAY_NONE &&
             problem->links.reader_at[value] == problem->links.reader_at[value + 1]))
            continue;
        count_value(&measure, value);
        count_host_values(&measure, value);
    }
    for (uint32_t p = 0; p < problem->providers; p++) {
        uint64_t now = 0;
        for (uint32_t i = 0; i <= schedule->unit_count; i++) {
            now += measure.grows[(size_t)p * (schedule->unit_count + 2) + i] -
                   measure.shrinks[(size_t)p * (schedule->unit_count + 2) + i];
            out[p].peak_bytes = now > out[p].peak_bytes ? now : out[p].peak_bytes;
        }
    }
    ok = true;
done:
    arena_deinit(&arena);
    return ok;
}

/* ------------------------------------------------------------------ the objective */

double partition_base_price(struct problem *problem, const uint32_t *choice)
{
    double price = 0;

    for (uint32_t n = 0; n < problem->nodes; n++)
        if (choice[n] != INLAY_NONE && problem->partition->offers[choice[n]].nodes[0] == n)
            price += problem->prices.offer[choice[n]];
    for (uint32_t value = 0; problem->domains.count > 1 && value < problem->values; value++)
        for (uint32_t count = partition_hops(problem, choice, value); count > 0; count--)
            price += partition_hop_ns(problem, value, problem->domains.hops[count - 1]) *
                     partition_share(problem, problem->domains.hops[count - 1].once);
    return price;
}

bool partition_has_required(const struct problem *problem, const uint32_t *choice)
{
    if (problem->bounds.required == INLAY_NONE)
        return true;
    for (uint32_t n = 0; n < problem->nodes; n++)
        if (partition_provider_of(problem, choice[n]) == problem->bounds.required)
            return true;
    return false;
}

bool partition_keeps_memory(struct problem *problem, const uint32_t *choice)
{
    bool keeps = true;

    problem->failed |= problem->bounds.limited && !partition_measure(problem, choice, problem->memory);
    for (uint32_t p = 0; problem->bounds.limited && p < problem->providers; p++)
        keeps &= problem->memory[p].resident_bytes <= problem->bounds.limit[p] &&
                 problem->memory[p].peak_bytes <= problem->bounds.limit[p] - problem->memory[p].resident_bytes;
    return keeps;
}

partition_verdict partition_judge(struct problem *problem, const uint32_t *choice)
{
    partition_verdict verdict = { .price = partition_base_price(problem, choice),
                                  .runs = true,
                                  .feasible = partition_has_required(problem, choice) };

    if (!problem->ordered && problem->picks.group_count == 0)
        return verdict;
    if (!partition_schedule_choice(problem, choice, problem->nodes <= 64))
        return (partition_verdict){ .price = verdict.price };
    verdict.price += problem->schedule.launch_ns + problem->prices.boundary_ns * problem->schedule.stretches;
    if (problem->bounds.max_partitions > 0)
        verdict.feasible &= problem->schedule.stretches <= problem->bounds.max_partitions;
    verdict.feasible &= partition_keeps_memory(problem, choice);
    return verdict;
}
