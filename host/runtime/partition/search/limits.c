/* Enforces constraints that prices do not express: device memory, max_partitions, a provider that must run a node.
 *
 * Each violated constraint gets a multiplier, a price per byte on the device or per change of provider, and the search
 * is repeated with growing multipliers until the constraint holds. Then the multipliers shrink as long as it still
 * holds. If that is not sufficient, because memory is used in large blocks, offers leave the device one by one, the
 * smallest loss per byte first. */
#include "base/memory.h"
#include "inlay/check.h"
#include "partition/search/search.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 14, SHRINK_ROUNDS = 5, POLISH_NODES = 192, MAX_MOVES = 48 };

struct bounds {
    struct problem *problem;
    uint32_t *best, *trial;    /* [nodes] */
    partition_verdict verdict; /* of best, at true prices */
    double *per_byte;          /* [providers] current multipliers */
    double boundary;
    uint32_t fewest;        /* smallest number of partitions of any choice evaluated */
    uint64_t *least_excess; /* [providers] smallest excess over the limit of any choice evaluated, in bytes */
};

static bool is_better(partition_verdict first, partition_verdict second)
{
    if (!first.runs || first.feasible != second.feasible)
        return first.runs && first.feasible;
    return !second.runs || first.price < second.price * (1 - 1e-12) - 1e-9;
}

/* Bytes above the limit. */
static uint64_t excess_of(const struct problem *problem, uint32_t provider)
{
    const partition_memory *memory = &problem->memory[provider];
    uint64_t need;

    INLAY_CHECK(provider < problem->providers);
    if (__builtin_add_overflow(memory->resident_bytes, memory->peak_bytes, &need))
        need = UINT64_MAX;
    return need > problem->bounds.limit[provider] ? need - problem->bounds.limit[provider] : 0;
}

/* Evaluates at true prices. */
static partition_verdict judge(struct bounds *bounds, const uint32_t *choice)
{
    struct problem *problem = bounds->problem;
    partition_verdict verdict;

    problem->prices.boundary = 0;
    problem_set_prices(problem, NULL);
    verdict = partition_evaluate(problem, choice);
    if (!verdict.runs)
        return verdict;
    if (problem->bounds.max_partitions > 0 && problem->schedule.partitions < bounds->fewest)
        bounds->fewest = problem->schedule.partitions;
    for (uint32_t provider = 0; problem->bounds.limited && provider < problem->providers; provider++)
        if (excess_of(problem, provider) < bounds->least_excess[provider])
            bounds->least_excess[provider] = excess_of(problem, provider);
    return verdict;
}

/* Evaluates the trial, and stores it as the best choice if it is better. */
static partition_verdict store_if_better(struct bounds *bounds)
{
    partition_verdict verdict = judge(bounds, bounds->trial);

    if (is_better(verdict, bounds->verdict)) {
        bounds->verdict = verdict;
        memcpy(bounds->best, bounds->trial, bounds->problem->nodes * sizeof *bounds->best);
    }
    return verdict;
}

/* The cost of the copies around the offer's nodes; a value used by several of them counts several times. */
static double copies_around(struct problem *problem, const uint32_t *choice, const partition_offer *offer)
{
    double ns = 0;

    for (uint32_t k = 0; problem->domains.count > 1 && k < offer->node_count; k++) {
        const graph_node *node = problem->graph->nodes[offer->nodes[k]];
        for (uint32_t i = 0; i < graph_read_count(node) + node->info.output_count; i++) {
            uint32_t value =
                i < graph_read_count(node) ? graph_read_at(node, i) : node->info.outputs[i - graph_read_count(node)];
            for (uint32_t count = value == INLAY_NONE ? 0 : partition_list_transfers(problem, choice, value); count > 0;
                 count--)
                ns += partition_transfer_price(problem, value, problem->domains.transfers[count - 1]) *
                      share_per_iteration(problem, problem->domains.transfers[count - 1].once);
        }
    }
    return ns;
}

/* The cheapest offer of another provider with the usual placement. */
static uint32_t cheapest_elsewhere(const struct problem *problem, uint32_t node, uint32_t provider)
{
    uint32_t best = INLAY_NONE;

    for (uint32_t candidate = 0; candidate < problem->providers; candidate++) {
        uint32_t offer = problem->options.cheapest[(size_t)candidate * problem->nodes + node];
        if (candidate == provider || offer == INLAY_NONE)
            continue;
        if (best == INLAY_NONE ||
            (!partition_by_priority(problem->request) && problem->prices.offer[offer] < problem->prices.offer[best]))
            best = offer;
    }
    return best;
}

static void assign_offer(uint32_t *choice, const partition_offer *placed, uint32_t offer)
{
    for (uint32_t k = 0; k < placed->node_count; k++)
        choice[placed->nodes[k]] = offer;
}

/* Moves the offer's nodes to other providers. *loss: the increase in cost. False: some node has no other offer. */
static bool move_off(struct problem *problem, uint32_t *choice, uint32_t offer, double *loss)
{
    const partition_offer *placed = &problem->partition->offers[offer];
    double ns = -problem->prices.offer[offer];

    for (uint32_t k = 0; k < placed->node_count; k++)
        if (cheapest_elsewhere(problem, placed->nodes[k], placed->provider) == INLAY_NONE)
            return false;
    ns -= copies_around(problem, choice, placed);
    for (uint32_t k = 0; k < placed->node_count; k++) {
        choice[placed->nodes[k]] = cheapest_elsewhere(problem, placed->nodes[k], placed->provider);
        ns += problem->prices.offer[choice[placed->nodes[k]]];
    }
    *loss = ns + copies_around(problem, choice, placed);
    return true;
}

static double weight_of(const struct problem *problem, const partition_offer *offer)
{
    double bytes = (double)offer->resident_bytes + (double)offer->workspace_bytes;

    for (uint32_t k = 0; k < offer->node_count; k++) {
        const inlay_node_info *node = &problem->graph->nodes[offer->nodes[k]]->info;
        for (uint32_t i = 0; i < node->output_count; i++)
            bytes += node->outputs[i] == INLAY_NONE
                         ? 0
                         : (double)cost_value_bytes(&problem->partition->profile[node->outputs[i]]);
    }
    return bytes;
}

struct eviction {
    double per_byte, bytes;
    uint32_t offer;
};

static int by_price(const void *a, const void *b)
{
    const struct eviction *eviction = a, *other = b;

    if (eviction->per_byte != other->per_byte)
        return eviction->per_byte < other->per_byte ? -1 : 1;
    return eviction->offer < other->offer ? -1 : eviction->offer > other->offer;
}

/* Moves offers off the provider until about `excess` bytes are free; false: none can move. */
static bool free_device_memory(struct bounds *bounds, uint32_t provider, uint64_t excess, struct eviction *list)
{
    struct problem *problem = bounds->problem;
    uint32_t count = 0;
    double freed = 0;

    for (uint32_t node = 0; node < problem->nodes; node++) {
        uint32_t offer = bounds->trial[node];
        const partition_offer *placed = offer == INLAY_NONE ? NULL : &problem->partition->offers[offer];
        double loss;

        if (placed == NULL || placed->provider != provider || placed->nodes[0] != node ||
            !move_off(problem, bounds->trial, offer, &loss))
            continue;
        assign_offer(bounds->trial, placed, offer);
        list[count] = (struct eviction){ .offer = offer, .bytes = weight_of(problem, placed) };
        list[count].per_byte = loss / (list[count].bytes + 1);
        count++;
    }
    qsort(list, count, sizeof *list, by_price);
    for (uint32_t i = 0; i < count && (i == 0 || freed < (double)excess) && i <= count / 16; i++) {
        double loss;
        (void)move_off(problem, bounds->trial, list[i].offer, &loss);
        freed += list[i].bytes;
    }
    return count > 0;
}

static bool repair(struct bounds *bounds)
{
    struct problem *problem = bounds->problem;
    struct eviction *list = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *list);

    if (list == NULL) {
        problem->failed = true;
        return false;
    }
    for (;;) {
        partition_verdict verdict = store_if_better(bounds);
        uint32_t worst = INLAY_NONE;

        if (!verdict.runs || verdict.feasible || problem->failed)
            return verdict.runs && verdict.feasible;
        for (uint32_t provider = 0; problem->bounds.limited && provider < problem->providers; provider++)
            if (excess_of(problem, provider) > 0 &&
                (worst == INLAY_NONE || excess_of(problem, provider) > excess_of(problem, worst)))
                worst = provider;
        if (worst == INLAY_NONE || !free_device_memory(bounds, worst, excess_of(problem, worst), list))
            return false;
    }
}

/* Assigns to the required provider the offer with the smallest loss. */
static void force_required(struct bounds *bounds)
{
    struct problem *problem = bounds->problem;
    uint32_t *from = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *from), best = INLAY_NONE;
    double least = 0;

    if (from == NULL) {
        problem->failed = true;
        return;
    }
    memcpy(from, bounds->trial, problem->nodes * sizeof *from);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t offer = 0; offer < problem->offers; offer++) {
            const partition_offer *placed = &problem->partition->offers[offer];
            bool fits =
                problem->usable[offer] && placed->provider == problem->bounds.required && (round == 0 || offer == best);
            double ns;

            /* Groups that the offer overlaps fall back to single offers. */
            for (uint32_t k = 0; fits && k < placed->node_count; k++) {
                const partition_offer *group = &problem->partition->offers[from[placed->nodes[k]]];
                for (uint32_t m = 0; fits && group->node_count > 1 && m < group->node_count; m++) {
                    uint32_t single = cheapest_elsewhere(problem, group->nodes[m], INLAY_NONE);
                    fits = single != INLAY_NONE;
                    bounds->trial[group->nodes[m]] = single;
                }
            }
            if (fits) {
                ns = problem->prices.offer[offer] - copies_around(problem, from, placed);
                for (uint32_t k = 0; k < placed->node_count; k++)
                    ns -= problem->prices.offer[bounds->trial[placed->nodes[k]]];
                assign_offer(bounds->trial, placed, offer);
                ns += copies_around(problem, bounds->trial, placed);
                if (round == 0 && (best == INLAY_NONE || ns < least)) {
                    best = offer;
                    least = ns;
                }
                if (round == 1)
                    return;
            }
            if (placed->provider == problem->bounds.required)
                memcpy(bounds->trial, from, problem->nodes * sizeof *from);
        }
    }
}

/* Searches with the current multipliers, and evaluates the result at true prices. */
static partition_verdict search_again(struct bounds *bounds)
{
    struct problem *problem = bounds->problem;
    uint32_t uncovered, steps = problem->exact_steps;
    bool ok;

    problem->prices.boundary = bounds->boundary;
    problem_set_prices(problem, bounds->per_byte);
    problem->exact_steps = 0;
    ok = partition_solve(problem, bounds->trial, &uncovered);
    problem->exact_steps = steps;
    if (!ok || uncovered != INLAY_NONE)
        return (partition_verdict){ 0 };
    if (!partition_has_required(problem, bounds->trial))
        force_required(bounds);
    return store_if_better(bounds);
}

/* Raises the multipliers of the constraints that the last evaluated choice violates. */
static bool raise_multipliers(struct bounds *bounds, double total)
{
    struct problem *problem = bounds->problem;
    bool raised = false;

    for (uint32_t provider = 0; problem->bounds.limited && provider < problem->providers; provider++) {
        if (excess_of(problem, provider) == 0)
            continue;
        raised = true;
        bounds->per_byte[provider] = bounds->per_byte[provider] > 0
                                         ? bounds->per_byte[provider] * 4
                                         : total / 64 / ((double)excess_of(problem, provider) + 1);
    }
    if (problem->bounds.max_partitions > 0 && problem->schedule.partitions > problem->bounds.max_partitions) {
        raised = true;
        bounds->boundary = bounds->boundary > 0 ? bounds->boundary * 4 : total / 64 / problem->schedule.partitions + 1;
    }
    return raised;
}

static void search_with_multipliers(struct bounds *bounds)
{
    struct problem *problem = bounds->problem;
    double total = bounds->verdict.price;
    partition_verdict verdict = judge(bounds, bounds->best);

    for (uint32_t round = 0; round < MAX_ROUNDS && verdict.runs && !verdict.feasible && !problem->failed; round++) {
        if (!raise_multipliers(bounds, total))
            return;
        verdict = search_again(bounds);
    }
    /* Scale all multipliers by one factor, between a quarter and one. */
    for (uint32_t round = 0; round < SHRINK_ROUNDS && bounds->verdict.feasible && !problem->failed; round++) {
        double step = round == 0 ? 0.5 : verdict.feasible ? 1 - 0.25 / round : 1 + 0.25 / round;

        for (uint32_t provider = 0; provider < problem->providers; provider++)
            bounds->per_byte[provider] *= step;
        bounds->boundary *= step;
        verdict = search_again(bounds);
    }
}

/* Assigns as many nodes as possible to one provider, for each provider: nearly the minimum number of partitions. */
static void try_one_provider(struct bounds *bounds)
{
    struct problem *problem = bounds->problem;

    for (uint32_t provider = 0; provider < problem->providers && !problem->failed; provider++) {
        uint32_t missing = partition_first_choice(problem, problem->options.rank, bounds->trial);
        if (missing != INLAY_NONE)
            return;
        for (uint32_t node = 0; node < problem->nodes; node++) {
            uint32_t offer = problem->options.cheapest[(size_t)provider * problem->nodes + node];
            if (offer != INLAY_NONE && bounds->trial[node] != INLAY_NONE &&
                problem->partition->offers[bounds->trial[node]].node_count == 1)
                bounds->trial[node] = offer;
        }
        if (!partition_has_required(problem, bounds->trial))
            force_required(bounds);
        (void)store_if_better(bounds);
    }
}

/* Tries single moves that keep the constraints. */
static void try_single_moves(struct bounds *bounds)
{
    struct problem *problem = bounds->problem;
    uint32_t tries = 0;

    for (uint32_t node = 0; node < problem->nodes && bounds->verdict.feasible && !problem->failed; node++) {
        if (problem->nodes > POLISH_NODES && tries >= MAX_MOVES)
            return;
        for (uint32_t i = problem->options.first_single[node]; i < problem->options.first_single[node + 1]; i++) {
            uint32_t offer = problem->options.singles[i];

            if (bounds->best[node] == INLAY_NONE || problem->partition->offers[bounds->best[node]].node_count > 1 ||
                offer == bounds->best[node] ||
                (problem->nodes > POLISH_NODES &&
                 problem->prices.offer[offer] >= problem->prices.offer[bounds->best[node]]))
                continue;
            memcpy(bounds->trial, bounds->best, problem->nodes * sizeof *bounds->trial);
            bounds->trial[node] = offer;
            tries++;
            (void)store_if_better(bounds);
        }
    }
}

static inlay_status report_violation(const struct bounds *bounds, inlay_diag *diag)
{
    const struct problem *problem = bounds->problem;
    const partition_request *request = problem->request;

    for (uint32_t provider = 0; problem->bounds.limited && provider < problem->providers; provider++)
        if (bounds->least_excess[provider] > 0)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                              "provider %s lacks %llu bytes for graph '%s': nodes that only it can "
                              "run need more than its limit of %llu; raise memory_limit, or unpin nodes from it",
                              request->providers[provider].name, (unsigned long long)bounds->least_excess[provider],
                              request->graph->name, (unsigned long long)problem->bounds.limit[provider]);
    if (problem->bounds.max_partitions > 0 && bounds->fewest > problem->bounds.max_partitions)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "max_partitions: graph '%s' needs %u partitions, the limit is %u; raise it, or "
                          "name a provider that runs more of its operators",
                          request->graph->name, bounds->fewest, problem->bounds.max_partitions);
    if (problem->bounds.required != INLAY_NONE && !partition_has_required(problem, bounds->best))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "require: provider %s can run no node of graph '%s' within the "
                          "other rules",
                          request->providers[problem->bounds.required].name, request->graph->name);
    return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                      "graph '%s': each limit can be kept, but not all at once; relax "
                      "memory_limit, max_partitions or require",
                      request->graph->name);
}

inlay_status partition_keep_limits(struct problem *problem, uint32_t *choice, inlay_diag *diag)
{
    struct bounds bounds = { .problem = problem, .best = choice, .fewest = UINT32_MAX };

    if (!problem->bounds.limited && problem->bounds.max_partitions == 0 && problem->bounds.required == INLAY_NONE)
        return INLAY_OK;
    bounds.trial = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *bounds.trial);
    bounds.per_byte = arena_array(problem->scratch, (size_t)problem->providers + 1, sizeof *bounds.per_byte);
    bounds.least_excess = arena_array(problem->scratch, (size_t)problem->providers + 1, sizeof *bounds.least_excess);
    if (bounds.trial == NULL || bounds.per_byte == NULL || bounds.least_excess == NULL)
        goto no_memory;
    memset(bounds.least_excess, 0xff, problem->providers * sizeof *bounds.least_excess);
    bounds.verdict = judge(&bounds, choice);
    if (bounds.verdict.feasible && !problem->failed)
        return INLAY_OK;
    memcpy(bounds.trial, choice, problem->nodes * sizeof *bounds.trial);
    if (!partition_has_required(problem, bounds.trial)) {
        force_required(&bounds);
        (void)store_if_better(&bounds);
    }
    if (!partition_by_priority(problem->request) && !bounds.verdict.feasible)
        search_with_multipliers(&bounds);
    if (!bounds.verdict.feasible && !problem->failed)
        (void)repair(&bounds);
    if (!bounds.verdict.feasible && problem->bounds.max_partitions > 0 && !problem->failed)
        try_one_provider(&bounds);
    if (!partition_by_priority(problem->request)) {
        try_single_moves(&bounds);
        (void)judge(&bounds, bounds.best); /* true prices from here on */
        if (problem->nodes <= 24 && !problem->failed)
            (void)partition_exact(problem, problem->exact_steps, bounds.best, &bounds.verdict);
    }
    if (problem->failed)
        goto no_memory;
    return bounds.verdict.feasible ? INLAY_OK : report_violation(&bounds, diag);
no_memory:
    return no_memory(diag, "to partition graph '%s'", problem->graph->name);
}
