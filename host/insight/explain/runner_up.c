/* The runner-up of each stretch: the cost of the whole graph if the winner did not run it.
 *
 * The graph is assigned again with the winner's offers for these nodes excluded, if another provider offers them.
 * The difference of the totals then includes everything: slower kernels, new copies, split or merged regions,
 * memory. This takes one run of the partitioner for each stretch, so only the most expensive stretches get it, as many
 * as a fixed amount of work allows (deterministic, so that two calls agree). The others, and regions within a stretch,
 * get the difference of the offers alone (RUNNER_UP_ESTIMATE). */
#include "base/memory.h"
#include "inlay/check.h"
#include "explain/facts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A solution is one run of the partitioner on a graph. WORK_NODES limits the number of nodes times solutions of a
 * graph, the others limit the number of solutions. */
enum { WORK_NODES = 60000, MIN_SOLUTIONS = 8, MAX_SOLUTIONS = 96 };

struct search {
    struct facts *facts;
    facts_graph *graph;
    uint8_t *excluded_offers; /* [offer_count] */
    uint32_t *votes;          /* [provider_count] nodes that would move there */
    struct arena scratch;
};

/* Returns the provider with the most votes and clears the votes. */
static uint32_t take_most_voted(struct search *search)
{
    uint32_t best = INLAY_NONE;

    for (uint32_t i = 0; i < search->facts->provider_count; i++)
        if (search->votes[i] > 0 && (best == INLAY_NONE || search->votes[i] > search->votes[best]))
            best = i;
    memset(search->votes, 0, search->facts->provider_count * sizeof *search->votes);
    return best;
}

static double displayed_ns(const struct search *search, uint32_t offer)
{
    const partition_offer *o = &search->graph->parts->offers[offer];

    return facts_displayed_ns(o, o->cost.ns);
}

/* Estimates from the offers alone: each node moves to its cheapest other provider. */
static facts_runner_up estimate(struct search *search, const facts_stretch *stretch)
{
    const struct partition *parts = search->graph->parts;
    facts_runner_up runner_up = { .kind = RUNNER_UP_NONE, .provider = INLAY_NONE };

    for (uint32_t i = stretch->first; stretch->provider != INLAY_NONE && i < stretch->first + stretch->count; i++) {
        const partition_region *region = search->graph->regions[i].region;
        for (uint32_t k = 0; k < region->node_count; k++) {
            const facts_node *node = &search->graph->nodes[region->nodes[k]];
            uint32_t other = facts_cheapest_other(search->graph, region->nodes[k], stretch->provider);
            if (other == INLAY_NONE || node->offer == INLAY_NONE)
                continue;
            runner_up.kind = RUNNER_UP_ESTIMATE;
            runner_up.node_count++;
            runner_up.extra_ns +=
                displayed_ns(search, other) - displayed_ns(search, node->offer) / parts->offers[node->offer].node_count;
            search->votes[parts->offers[other].provider]++;
        }
    }
    runner_up.offers_differ = fabs(runner_up.extra_ns) > 0.01 * stretch->ns;
    runner_up.provider = take_most_voted(search);
    return runner_up;
}

/* Excludes the winner from the nodes of the stretch that another provider offers, alone or in a group; or admits it
 * again. */
static void set_excluded(struct search *search, const facts_stretch *stretch, uint8_t excluded)
{
    const partition_offer *offers = search->graph->parts->offers;

    INLAY_CHECK(stretch->first + stretch->count <= search->graph->region_count);

    for (uint32_t i = stretch->first; i < stretch->first + stretch->count; i++) {
        const partition_region *region = search->graph->regions[i].region;
        for (uint32_t k = 0; k < region->node_count; k++) {
            const facts_node *node = &search->graph->nodes[region->nodes[k]];
            if (facts_cheapest_other(search->graph, region->nodes[k], stretch->provider) == INLAY_NONE)
                continue;
            for (uint32_t o = 0; o < node->offer_count; o++) {
                uint32_t offer = search->graph->offers_of[node->first_offer + o];
                if (offers[offer].provider == stretch->provider)
                    search->excluded_offers[offer] = excluded;
            }
        }
    }
}

/* Sets runner_up.why of a runner-up that looks cheaper than the winner. */
static inlay_status explain_cheaper(struct search *search, facts_stretch *stretch, const struct partition *other)
{
    facts_runner_up *runner_up = &stretch->runner_up;

    if (runner_up->extra_ns >= -FACTS_TIE_NS || runner_up->provider == INLAY_NONE)
        return INLAY_OK;
    runner_up->why = facts_why_not(search->facts, search->graph, other, stretch->provider, runner_up->provider,
                                   -runner_up->extra_ns);
    return runner_up->why != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;
}

/* Takes over the cost of another assignment, and the provider that runs most nodes of the stretch in it. An offer
 * without a price is no runner-up. */
static void take_result(struct search *search, facts_stretch *stretch, const struct partition *other)
{
    facts_runner_up *runner_up = &stretch->runner_up;
    uint32_t unpriced = 0;

    INLAY_CHECK(runner_up->kind != RUNNER_UP_NONE);
    runner_up->kind = RUNNER_UP_EXACT;
    runner_up->extra_ns = facts_displayed_sum(other) - facts_displayed_sum(search->graph->parts);
    for (uint32_t i = 0; i < other->region_count; i++) {
        const partition_region *r = &other->regions[i];
        for (uint32_t node = 0; r->provider != INLAY_NONE && r->provider != stretch->provider && node < r->node_count;
             node++) {
            uint32_t region = search->graph->nodes[r->nodes[node]].region;
            if (region >= stretch->first && region < stretch->first + stretch->count)
                search->votes[r->provider]++;
        }
    }
    for (uint32_t i = 0; i < other->offer_count; i++)
        unpriced += other->offers[i].chosen && other->offers[i].cost_source == COST_NONE &&
                    !search->graph->parts->offers[i].chosen;
    runner_up->provider = take_most_voted(search);
    if (unpriced > 0)
        runner_up->kind = RUNNER_UP_UNPRICED;
}

/* Solves the graph again without limits, if they have kept it from a cheaper assignment; names the limit. */
static inlay_status solve_without_limits(struct search *search, facts_stretch *stretch, partition_request request)
{
    facts_runner_up *runner_up = &stretch->runner_up;
    const facts_runner_up before = *runner_up;
    const uint32_t providers = search->facts->provider_count;
    partition_rules rules = *request.rules;
    partition_limit *limits = arena_array(&search->scratch, (size_t)providers + 1, sizeof *limits);
    struct partition other = { 0 };
    inlay_status status;

    if (limits == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < providers; i++)
        limits[i] = (partition_limit){ search->facts->session->providers[i].name, UINT64_MAX };
    rules.limits = limits;
    rules.limit_count = providers;
    rules.max_partitions = 0;
    request.rules = &rules;
    request.max_partitions = 0;
    request.must_run = NULL;
    status = partition_again(&request, search->graph->parts, &search->scratch, &other, NULL);
    if (status != INLAY_OK)
        return status;
    take_result(search, stretch, &other);
    if (runner_up->kind == RUNNER_UP_EXACT && runner_up->extra_ns < -FACTS_TIE_NS) {
        if (!facts_broken_limit(search->facts, search->graph, &other, &runner_up->why))
            return INLAY_OUT_OF_MEMORY;
        if (runner_up->why != NULL)
            return INLAY_OK;
    }
    if (before.kind == RUNNER_UP_EXACT)
        *runner_up = before;
    else if (!facts_broken_limit(search->facts, search->graph, &other, &runner_up->why))
        return INLAY_OUT_OF_MEMORY;
    return INLAY_OK;
}

/* Improves an estimate by solving the graph again. If that is not possible, *runner_up.why says which rule forbids
 * it. */
static inlay_status solve_without_winner(struct search *search, facts_stretch *stretch)
{
    const bool looks_cheaper = stretch->runner_up.extra_ns < -FACTS_TIE_NS;
    partition_request request = facts_request(search->graph);
    partition_rules rules = request.rules != NULL ? *request.rules : (partition_rules){ 0 };
    struct partition other = { 0 };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    rules.saved_plan = NULL; /* a saved plan would require the excluded offers */
    request.rules = &rules;
    request.barred = search->excluded_offers;
    set_excluded(search, stretch, 1);
    status = partition_again(&request, search->graph->parts, &search->scratch, &other, &why);
    if (status == INLAY_OK) {
        take_result(search, stretch, &other);
        status = explain_cheaper(search, stretch, &other);
    }
    if ((status == INLAY_OK && looks_cheaper && stretch->runner_up.extra_ns >= -FACTS_TIE_NS) ||
        (status != INLAY_OK && status != INLAY_OUT_OF_MEMORY)) {
        status = solve_without_limits(search, stretch, request);
        if (status != INLAY_OK && status != INLAY_OUT_OF_MEMORY && stretch->runner_up.kind == RUNNER_UP_ESTIMATE) {
            stretch->runner_up.why = arena_string(&search->facts->arena, why.text);
            status = stretch->runner_up.why != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;
        }
    }
    set_excluded(search, stretch, 0);
    arena_reset(&search->scratch);
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

static int by_descending_time(const void *a, const void *b)
{
    const facts_stretch *stretch = *(facts_stretch *const *)a, *y = *(facts_stretch *const *)b;

    if (stretch->ns != y->ns)
        return stretch->ns < y->ns ? 1 : -1;
    return (stretch->first > y->first) - (stretch->first < y->first);
}

static inlay_status find_in_graph(struct search *search, facts_graph *graph, inlay_diag *diag)
{
    facts_stretch **order = arena_array(&search->facts->arena, (size_t)graph->partition_count + 1, sizeof *order);
    uint32_t nodes = graph->program->graph->node_count, limit = WORK_NODES / (nodes > 0 ? nodes : 1);
    inlay_status status = INLAY_OK;

    limit = limit < MIN_SOLUTIONS ? MIN_SOLUTIONS : limit > MAX_SOLUTIONS ? MAX_SOLUTIONS : limit;
    search->graph = graph;
    search->excluded_offers = arena_alloc(&search->facts->arena, (size_t)graph->parts->offer_count + 1);
    if (order == NULL || search->excluded_offers == NULL)
        return no_memory(diag, "to explain the session");
    for (uint32_t i = 0; i < graph->partition_count; i++)
        order[i] = &graph->stretches[i];
    qsort(order, graph->partition_count, sizeof *order, by_descending_time);
    for (uint32_t i = 0; i < graph->partition_count && status == INLAY_OK; i++) {
        order[i]->runner_up = estimate(search, order[i]);
        if (order[i]->runner_up.kind != RUNNER_UP_NONE && limit > 0) {
            limit--;
            status = solve_without_winner(search, order[i]);
        }
        if (order[i]->runner_up.kind == RUNNER_UP_ESTIMATE && order[i]->runner_up.why == NULL &&
            order[i]->runner_up.extra_ns < -FACTS_TIE_NS)
            order[i]->runner_up.why =
                "the offers alone cost less; copies, launches and divided regions are not counted";
    }
    return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "no memory to explain the session");
}

inlay_status facts_find_runner_ups(struct facts *facts, inlay_diag *diag)
{
    struct search search = { .facts = facts };
    inlay_status status = INLAY_OK;

    search.votes = arena_array(&facts->arena, (size_t)facts->provider_count + 1, sizeof *search.votes);
    if (search.votes == NULL)
        return no_memory(diag, "to explain the session");
    for (uint32_t i = 0; i < facts->graph_count && status == INLAY_OK; i++)
        status = find_in_graph(&search, facts->graphs[i], diag);
    arena_deinit(&search.scratch);
    return status;
}
