/* The cost of a choice. This is the objective: search, reports and tests use it. */
#include "inlay/check.h"
#include "partition/problem/problem.h"

bool partition_bypasses_host(const struct problem *problem, uint32_t from, uint32_t to)
{
    const uint32_t source = partition_memory_of(problem, from), target = partition_memory_of(problem, to);

    if (source == INLAY_DOMAIN_HOST || target == INLAY_DOMAIN_HOST)
        return false;
    /* Domains of different providers, unless they share memory, are connected by the host only. */
    return problem->domains.owner[source] == problem->domains.owner[target] ||
           partition_link_of(problem, source, target) != LINK_HOST;
}

static bool is_chosen(const struct problem *problem, const uint32_t *choice, uint32_t node)
{
    return choice[node] != INLAY_NONE || !problem->candidates[node];
}

partition_source partition_source_of(const struct problem *problem, uint32_t value)
{
    const boundary_placement placement = boundary_placement_of(problem, value);
    const uint32_t producer = partition_producer_of(
        problem->graph, placement.carried_output != INLAY_NONE ? placement.carried_output : value);

    if (placement.carried_output != INLAY_NONE &&
        (producer == INLAY_NONE || !problem->candidates[producer] ||
         boundary_placement_of(problem, placement.carried_output).target != PLACEMENT_ANY))
        return (partition_source){ .node = INLAY_NONE }; /* copied to the host after each iteration */
    if (producer == INLAY_NONE || !problem->candidates[producer])
        return (partition_source){ .node = INLAY_NONE, .domain = placement.domain };
    return (partition_source){ .node = producer,
                               .made = placement.carried_output != INLAY_NONE ? placement.carried_output : value };
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
    if (offer == INLAY_NONE && problem->partition->boundaries != NULL &&
        partition_passes_to_bodies(problem->graph->nodes[node], value))
        return problem->lists_copies ? INLAY_NONE : problem->partition->boundaries[value].body_domain;
    return partition_domain_at(problem, offer, value);
}

uint32_t home_domain(const struct problem *problem, uint32_t value, uint32_t origin)
{
    const boundary_placement placement = boundary_placement_of(problem, value);

    if (placement.target == PLACEMENT_ANY)
        return partition_memory_of(problem, origin);
    return placement.stacked && placement.target != partition_memory_of(problem, origin) ? (uint32_t)INLAY_DOMAIN_HOST
                                                                                         : placement.target;
}

double share_per_iteration(const struct problem *problem, bool once)
{
    return once && problem->partition->iterations > 1 ? 1 / problem->partition->iterations : 1;
}

double partition_border_ns(const struct problem *problem, uint32_t offer, uint32_t value, uint32_t domain, bool enters)
{
    return domain < problem->domains.memory_count
               ? 0
               : cost_border_ns(problem->request->snapshot, &problem->partition->offers[offer],
                                problem->partition->profile, value, enters);
}

/* Adds a transfer, unless the value is in the domain already. A value enters the regions of a provider once, at the
 * highest price of its readers there. */
static uint32_t add_transfer(struct problem *problem, uint32_t count, partition_transfer transfer)
{
    partition_transfer *transfers = problem->domains.transfers;

    if (problem->domains.marked[transfer.to] != problem->domains.mark) {
        problem->domains.marked[transfer.to] = problem->domains.mark;
        transfers[count] = transfer;
        return count + 1;
    }
    for (uint32_t k = 0; transfer.border_ns > 0 && k < count; k++)
        if (transfers[k].to == transfer.to && transfers[k].border_ns < transfer.border_ns) {
            transfers[k].border_ns = transfer.border_ns;
            transfers[k].border_factor = transfer.border_factor;
        }
    return count;
}

/* A place of a value: a domain, and the offer that computes or reads it there; INLAY_NONE: none. */
struct place {
    uint32_t domain, offer;
};

/* The change of layout of a value at an offer, which computes or reads it. */
static partition_transfer border_of(const struct problem *problem, uint32_t from, uint32_t to, uint32_t value,
                                    struct place place, bool once)
{
    const double ns = partition_border_ns(problem, place.offer, value, place.domain, place.domain == to);

    return (partition_transfer){ from, to, once, ns,
                                 ns > 0 ? problem->partition->offers[place.offer].border_factor : 1 };
}

/* Adds the transfers of the value between two places, without those that were added before: out of the layout, to the
 * other memory, into the layout. */
static uint32_t add_transfers(struct problem *problem, uint32_t count, uint32_t value, struct place from,
                              struct place to, bool once)
{
    const uint32_t target = partition_memory_of(problem, to.domain);
    uint32_t source = partition_memory_of(problem, from.domain);

    if (from.domain == to.domain)
        return count;
    if (problem->domains.marked[source] != problem->domains.mark)
        count = add_transfer(problem, count, border_of(problem, from.domain, source, value, from, once));
    if (!partition_bypasses_host(problem, source, target)) {
        count = add_transfer(problem, count, (partition_transfer){ source, INLAY_DOMAIN_HOST, once, 0, 1 });
        source = INLAY_DOMAIN_HOST;
    }
    count = add_transfer(problem, count, (partition_transfer){ source, target, once, 0, 1 });
    if (target == to.domain)
        return count;
    return add_transfer(problem, count, border_of(problem, target, to.domain, value, to, once));
}

uint32_t partition_list_transfers(struct problem *problem, const uint32_t *choice, uint32_t value)
{
    const partition_source source = partition_source_of(problem, value);
    const boundary_placement placement = boundary_placement_of(problem, value);
    const uint32_t offer = source.node != INLAY_NONE ? choice[source.node] : INLAY_NONE;
    uint32_t origin, count = 0;

    if (graph_is_constant(problem->graph, value) || (source.node != INLAY_NONE && offer == INLAY_NONE))
        return 0;
    origin = source_domain(problem, source, value, offer);
    /* Sizes that the host computes while planning are copied once, not in each run. */
    if (origin == INLAY_NONE || (source.node != INLAY_NONE && problem->graph->values[value].info.elements != NULL &&
                                 !partition_merges(problem, offer) && origin == INLAY_DOMAIN_HOST))
        return 0;
    if (placement.carried_output != INLAY_NONE &&
        placement.domain != INLAY_NONE) { /* the copy before the first iteration */
        problem->domains.marked[placement.domain] = ++problem->domains.mark;
        count = add_transfers(problem, count, value, (struct place){ placement.domain, INLAY_NONE },
                              (struct place){ origin, INLAY_NONE }, true);
    }
    problem->domains.marked[origin] = ++problem->domains.mark;
    for (uint32_t i = problem->links.reader_at[value]; i < problem->links.reader_at[value + 1]; i++) {
        const uint32_t reader = problem->links.readers[i];
        uint32_t to;

        if (!is_chosen(problem, choice, reader) ||
            (source.node != INLAY_NONE && source.made == value && choice[reader] == offer))
            continue;
        to = reader_domain(problem, reader, choice[reader], value);
        if (to != INLAY_NONE)
            count = add_transfers(problem, count, value, (struct place){ origin, offer },
                                  (struct place){ to, choice[reader] }, placement.once);
    }
    if (problem->links.leaves[value])
        count = add_transfers(problem, count, value, (struct place){ origin, offer },
                              (struct place){ home_domain(problem, value, origin), INLAY_NONE }, placement.once);
    return count;
}

/* The time of a transfer between two devices. */
static double direct_ns(const struct problem *problem, uint32_t value, partition_transfer transfer)
{
    const partition_request *request = problem->request;

    return cost_copy_ns(request->costs, request->providers, request->provider_count, transfer.from, transfer.to,
                        cost_value_bytes(&problem->partition->profile[value]));
}

static bool is_border(const struct problem *problem, partition_transfer transfer)
{
    return transfer.from >= problem->domains.memory_count || transfer.to >= problem->domains.memory_count;
}

double partition_transfer_price(const struct problem *problem, uint32_t value, partition_transfer transfer)
{
    const size_t row = (size_t)value * problem->domains.memory_count;

    INLAY_CHECK(transfer.from < problem->domains.count && transfer.to < problem->domains.count &&
                transfer.from != transfer.to);
    if (is_border(problem, transfer))
        return objective_copy_price(problem, value, transfer.from > transfer.to ? transfer.from : transfer.to,
                                    transfer.border_ns);
    if (transfer.to == INLAY_DOMAIN_HOST)
        return problem->domains.to_host[row + transfer.from];
    if (transfer.from == INLAY_DOMAIN_HOST)
        return problem->domains.from_host[row + transfer.to];
    return objective_copy_price(problem, value, transfer.from, direct_ns(problem, value, transfer));
}

double partition_copies_price(const struct problem *problem, uint32_t value, uint32_t from, uint32_t to)
{
    const size_t row = (size_t)value * problem->domains.memory_count;
    const uint32_t source = partition_memory_of(problem, from), target = partition_memory_of(problem, to);

    if (source == target)
        return 0;
    if (partition_bypasses_host(problem, source, target))
        return partition_transfer_price(problem, value, (partition_transfer){ source, target, false, 0, 1 });
    return problem->domains.to_host[row + source] + problem->domains.from_host[row + target];
}

double partition_transfer_ns(const struct problem *problem, uint32_t value, partition_transfer transfer)
{
    const size_t row = (size_t)value * problem->domains.memory_count;

    if (is_border(problem, transfer))
        return transfer.border_ns;
    if (transfer.to == INLAY_DOMAIN_HOST)
        return problem->domains.to_host_ns[row + transfer.from];
    if (transfer.from == INLAY_DOMAIN_HOST)
        return problem->domains.from_host_ns[row + transfer.to];
    return direct_ns(problem, value, transfer);
}

/* The lifetime of a value in a domain: [first, last] in units of the schedule. */
struct lifetime {
    uint32_t first, last;
};

/* State for summing up the lifetimes of values. */
struct occupancy {
    struct problem *problem;
    const uint32_t *choice;
    uint32_t *place;           /* [units] position in the order */
    uint32_t *begins;          /* [regions + 1] position of the first unit */
    uint64_t *grows, *shrinks; /* [providers * (units + 2)] bytes allocated before and freed after the position */
};

static struct lifetime region_lifetime(const struct occupancy *occupancy, uint32_t region)
{
    return (struct lifetime){ occupancy->begins[region], occupancy->begins[region + 1] - 1 };
}

static uint32_t position_of(const struct occupancy *occupancy, uint32_t node)
{
    return occupancy->place[occupancy->problem->schedule.unit_of[node]];
}

static void count_lifetime(const struct occupancy *occupancy, uint32_t domain, struct lifetime lifetime, uint64_t bytes)
{
    uint32_t owner = occupancy->problem->domains.owner[domain], units = occupancy->problem->schedule.unit_count;
    size_t row;

    INLAY_CHECK(lifetime.first <= lifetime.last && lifetime.last <= units);
    if (owner == INLAY_NONE)
        return;
    row = (size_t)owner * (units + 2);
    occupancy->grows[row + lifetime.first] += bytes;
    occupancy->shrinks[row + lifetime.last + 1] += bytes;
}

/* Counts the lifetimes of a value in device domains: in its own domain from the unit that computes it, in other domains
 * from its first use there, both until the last use. */
static void count_value(const struct occupancy *occupancy, uint32_t value)
{
    struct problem *problem = occupancy->problem;
    const partition_schedule *schedule = &problem->schedule;
    uint32_t producer = partition_producer_of(problem->graph, value), origin = INLAY_DOMAIN_HOST, count,
             own = INLAY_NONE;
    uint64_t bytes = cost_value_bytes(&problem->partition->profile[value]);
    struct lifetime own_lifetime = { 0, 0 };

    if (producer != INLAY_NONE) {
        origin = partition_memory_of(problem, partition_domain_at(problem, occupancy->choice[producer], value));
        own = schedule->region_of[position_of(occupancy, producer)];
        own_lifetime.first = own_lifetime.last = position_of(occupancy, producer);
    }
    count = partition_list_transfers(problem, occupancy->choice, value);
    for (uint32_t index = 0; index <= count; index++) {
        uint32_t domain = index == count ? origin : problem->domains.transfers[index].to, first = UINT32_MAX, last = 0;

        if (index < count && partition_memory_of(problem, domain) ==
                                 partition_memory_of(problem, problem->domains.transfers[index].from))
            continue; /* a layout takes no memory of its own */
        for (uint32_t i = problem->links.reader_at[value]; i < problem->links.reader_at[value + 1]; i++) {
            uint32_t reader = problem->links.readers[i], at = position_of(occupancy, reader),
                     region = schedule->region_of[at];
            struct lifetime use = region == own ? (struct lifetime){ at, at } : region_lifetime(occupancy, region);

            if (partition_memory_of(problem, partition_domain_at(problem, occupancy->choice[reader], value)) !=
                    domain &&
                (domain != origin || region == own))
                continue;
            first = use.first < first ? use.first : first;
            last = use.last > last ? use.last : last;
            /* a value that leaves its region exists from the begin to the end of the region */
            if (region != own && producer != INLAY_NONE)
                own_lifetime.first = occupancy->begins[own];
        }
        if (domain != origin) {
            if (first != UINT32_MAX && partition_link_of(problem, origin, domain) != LINK_IMPORT)
                count_lifetime(occupancy, domain, (struct lifetime){ first, last }, bytes);
            continue;
        }
        if (problem->links.leaves[value])
            last = schedule->unit_count;
        own_lifetime.last = last > own_lifetime.last ? last : own_lifetime.last;
        count_lifetime(occupancy, origin, own_lifetime, bytes);
    }
}

static void count_offers(const struct occupancy *occupancy, partition_memory *out)
{
    const struct problem *problem = occupancy->problem;
    const partition_schedule *schedule = &problem->schedule;

    for (uint32_t i = 0; i < schedule->unit_count; i++) {
        uint32_t offer = occupancy->choice[schedule->head[schedule->order[i]]];

        if (offer == INLAY_NONE)
            continue;
        out[problem->partition->offers[offer].provider].resident_bytes +=
            problem->partition->offers[offer].resident_bytes;
        occupancy->grows[(size_t)problem->partition->offers[offer].provider * (schedule->unit_count + 2) + i] +=
            problem->partition->offers[offer].workspace_bytes;
        occupancy->shrinks[(size_t)problem->partition->offers[offer].provider * (schedule->unit_count + 2) + i + 1] +=
            problem->partition->offers[offer].workspace_bytes;
    }
}

/* Values in the host's domain count towards the provider that computes them, for the limit that the user sets. */
static void count_host_values(const struct occupancy *occupancy, uint32_t value)
{
    const struct problem *problem = occupancy->problem;
    uint32_t producer = partition_producer_of(problem->graph, value), provider, units = problem->schedule.unit_count,
             last;
    size_t row;

    provider = producer == INLAY_NONE ? INLAY_NONE : partition_provider_of(problem, occupancy->choice[producer]);
    if (provider == INLAY_NONE || partition_memory_of(problem, partition_domain_at(problem, occupancy->choice[producer],
                                                                                   value)) != INLAY_DOMAIN_HOST)
        return;
    last = position_of(occupancy, producer);
    for (uint32_t i = problem->links.reader_at[value]; i < problem->links.reader_at[value + 1]; i++)
        last = position_of(occupancy, problem->links.readers[i]) > last
                   ? position_of(occupancy, problem->links.readers[i])
                   : last;
    row = (size_t)provider * (units + 2);
    occupancy->grows[row + position_of(occupancy, producer)] += cost_value_bytes(&problem->partition->profile[value]);
    occupancy->shrinks[row + last + 1] += cost_value_bytes(&problem->partition->profile[value]);
}

bool partition_measure_memory(struct problem *problem, const uint32_t *choice, partition_memory *out)
{
    const partition_schedule *schedule = &problem->schedule;
    struct occupancy occupancy = { .problem = problem, .choice = choice };
    struct arena arena = { 0 };
    size_t cells = (size_t)problem->providers * (schedule->unit_count + 2) + 1;
    bool ok = false;

    occupancy.place = arena_array(&arena, (size_t)schedule->unit_count + 1, sizeof *occupancy.place);
    occupancy.begins = arena_array(&arena, (size_t)schedule->region_count + 2, sizeof *occupancy.begins);
    occupancy.grows = arena_array(&arena, cells, sizeof *occupancy.grows);
    occupancy.shrinks = arena_array(&arena, cells, sizeof *occupancy.shrinks);
    if (occupancy.place == NULL || occupancy.begins == NULL || occupancy.grows == NULL || occupancy.shrinks == NULL)
        goto done;
    INLAY_CHECK(schedule->unit_count > 0 || problem->nodes == 0);
    for (uint32_t i = schedule->unit_count; i-- > 0;) {
        occupancy.place[schedule->order[i]] = i;
        occupancy.begins[schedule->region_of[i]] = i;
    }
    occupancy.begins[schedule->region_count] = schedule->unit_count;
    for (uint32_t provider = 0; provider < problem->providers; provider++)
        out[provider] = (partition_memory){ .limit_bytes = problem->bounds.limit[provider] == UINT64_MAX
                                                               ? 0
                                                               : problem->bounds.limit[provider] };
    count_offers(&occupancy, out);
    for (uint32_t value = 0; value < problem->values; value++) {
        if (graph_is_constant(problem->graph, value) ||
            (partition_producer_of(problem->graph, value) == INLAY_NONE &&
             problem->links.reader_at[value] == problem->links.reader_at[value + 1]))
            continue;
        count_value(&occupancy, value);
        count_host_values(&occupancy, value);
    }
    for (uint32_t provider = 0; provider < problem->providers; provider++) {
        uint64_t now = 0;
        for (uint32_t i = 0; i <= schedule->unit_count; i++) {
            now += occupancy.grows[(size_t)provider * (schedule->unit_count + 2) + i] -
                   occupancy.shrinks[(size_t)provider * (schedule->unit_count + 2) + i];
            out[provider].peak_bytes = now > out[provider].peak_bytes ? now : out[provider].peak_bytes;
        }
    }
    ok = true;
done:
    arena_deinit(&arena);
    return ok;
}

double partition_base_price(struct problem *problem, const uint32_t *choice)
{
    double price = 0;

    for (uint32_t node = 0; node < problem->nodes; node++)
        if (choice[node] != INLAY_NONE && problem->partition->offers[choice[node]].nodes[0] == node)
            price += problem->prices.offer[choice[node]];
    for (uint32_t value = 0; problem->domains.count > 1 && value < problem->values; value++)
        for (uint32_t count = partition_list_transfers(problem, choice, value); count > 0; count--)
            price += partition_transfer_price(problem, value, problem->domains.transfers[count - 1]) *
                     share_per_iteration(problem, problem->domains.transfers[count - 1].once);
    return price;
}

bool partition_has_required(const struct problem *problem, const uint32_t *choice)
{
    if (problem->bounds.required == INLAY_NONE)
        return true;
    for (uint32_t node = 0; node < problem->nodes; node++)
        if (partition_provider_of(problem, choice[node]) == problem->bounds.required)
            return true;
    return false;
}

bool partition_keeps_memory(struct problem *problem, const uint32_t *choice)
{
    bool keeps = true;

    problem->failed |= problem->bounds.limited && !partition_measure_memory(problem, choice, problem->memory);
    for (uint32_t provider = 0; problem->bounds.limited && provider < problem->providers; provider++)
        keeps &= problem->memory[provider].resident_bytes <= problem->bounds.limit[provider] &&
                 problem->memory[provider].peak_bytes <=
                     problem->bounds.limit[provider] - problem->memory[provider].resident_bytes;
    return keeps;
}

partition_verdict partition_evaluate(struct problem *problem, const uint32_t *choice)
{
    partition_verdict verdict = { .price = partition_base_price(problem, choice),
                                  .runs = true,
                                  .feasible = partition_has_required(problem, choice) };

    if (!problem->ordered && problem->options.group_count == 0)
        return verdict;
    if (!partition_schedule_choice(problem, choice, problem->nodes <= 64))
        return (partition_verdict){ .price = verdict.price };
    verdict.price += problem->schedule.launch_price + problem->prices.boundary * problem->schedule.partitions;
    if (problem->bounds.max_partitions > 0)
        verdict.feasible &= problem->schedule.partitions <= problem->bounds.max_partitions;
    verdict.feasible &= partition_keeps_memory(problem, choice);
    return verdict;
}
