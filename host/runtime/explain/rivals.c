/* The runner-up of each stretch: what the whole graph would cost if the winner did not run it.
 *
 * The choice is made again with the winner's offers for these nodes barred, where somebody else offers them; the
 * difference of the totals is then all there is: dearer kernels, new copies, regions split or joined, memory. That is
 * one solution of the graph for a stretch, so it is done for the dearest stretches only, as many as a fixed amount of
 * work allows (deterministic, so that two calls say the same). The others, and regions within a stretch, get the
 * difference of the offers alone, and are marked as RIVAL_ABOUT. */
#include "base/memory.h"
#include "explain/facts.h"
#include <stdlib.h>
#include <string.h>

/* Nodes times solutions of one graph, and solutions at the least and at the most. */
enum { WORK_NODES = 60000, LEAST_ASKED = 8, MOST_ASKED = 96 };

struct asker {
    struct facts *facts;
    facts_graph *graph;
    uint8_t *barred; /* [offer_count] */
    uint32_t *votes; /* [provider_count] nodes that would go there */
    struct arena scratch;
};

/* The provider with most votes; clears them. */
static uint32_t elect(struct asker *asker)
{
    uint32_t best = INLAY_NONE;

    for (uint32_t i = 0; i < asker->facts->provider_count; i++)
        if (asker->votes[i] > 0 && (best == INLAY_NONE || asker->votes[i] > asker->votes[best]))
            best = i;
    memset(asker->votes, 0, asker->facts->provider_count * sizeof *asker->votes);
    return best;
}

static double told_ns(const struct asker *asker, uint32_t offer)
{
    const partition_offer *o = &asker->graph->parts->offers[offer];

    return facts_told(asker->facts, o, o->cost.ns);
}

/* From the offers alone: each node goes where it is cheapest. A group's nodes are compared together. */
static facts_rival guess(struct asker *asker, const facts_stretch *stretch)
{
    const struct partition *parts = asker->graph->parts;
    facts_rival rival = { .kind = RIVAL_NONE, .provider = INLAY_NONE };

    for (uint32_t i = stretch->first; stretch->provider != INLAY_NONE && i < stretch->first + stretch->count; i++) {
        const partition_region *region = asker->graph->regions[i].region;
        for (uint32_t node_index = 0; node_index < region->node_count; node_index++) {
            const facts_node *node = &asker->graph->nodes[region->nodes[node_index]];
            uint32_t other = facts_cheapest_other(asker->graph, region->nodes[node_index], stretch->provider);
            if (other == INLAY_NONE || node->offer == INLAY_NONE)
                continue;
            rival.kind = RIVAL_ABOUT;
            rival.node_count++;
            rival.extra_ns +=
                told_ns(asker, other) - told_ns(asker, node->offer) / parts->offers[node->offer].node_count;
            asker->votes[parts->offers[other].provider]++;
        }
    }
    rival.provider = elect(asker);
    return rival;
}

/* Bars the winner from the nodes of the stretch that somebody else offers, alone or in a group. */
static void bar(struct asker *asker, const facts_stretch *stretch, uint8_t how)
{
    const partition_offer *offers = asker->graph->parts->offers;

    for (uint32_t i = stretch->first; i < stretch->first + stretch->count; i++) {
        const partition_region *region = asker->graph->regions[i].region;
        for (uint32_t node_index = 0; node_index < region->node_count; node_index++) {
            const facts_node *node = &asker->graph->nodes[region->nodes[node_index]];
            if (facts_cheapest_other(asker->graph, region->nodes[node_index], stretch->provider) == INLAY_NONE)
                continue;
            for (uint32_t o = 0; o < node->offer_count; o++) {
                uint32_t offer = asker->graph->offers_of[node->first_offer + o];
                if (offers[offer].provider == stretch->provider)
                    asker->barred[offer] = how;
            }
        }
    }
}

/* Improves a guess by solving the graph again. A failure other than of memory leaves the guess. */
static inlay_status ask(struct asker *asker, facts_stretch *stretch)
{
    partition_request request = facts_request(asker->graph);
    partition_rules rules = request.rules != NULL ? *request.rules : (partition_rules){ 0 };
    struct partition other = { 0 };
    inlay_status status;

    rules.saved_plan = NULL; /* it would insist on what is barred */
    request.rules = &rules;
    request.barred = asker->barred;
    bar(asker, stretch, 1);
    status = partition_again(&request, asker->graph->parts, &asker->scratch, &other, NULL);
    bar(asker, stretch, 0);
    if (status == INLAY_OK) {
        stretch->rival.kind = RIVAL_EXACT;
        stretch->rival.extra_ns =
            facts_told_sum(asker->facts, &other) - facts_told_sum(asker->facts, asker->graph->parts);
        for (uint32_t i = 0; i < other.region_count; i++) {
            const partition_region *r = &other.regions[i];
            for (uint32_t node = 0;
                 r->provider != INLAY_NONE && r->provider != stretch->provider && node < r->node_count; node++) {
                uint32_t region = asker->graph->nodes[r->nodes[node]].region;
                if (region >= stretch->first && region < stretch->first + stretch->count)
                    asker->votes[r->provider]++;
            }
        }
        stretch->rival.provider = elect(asker);
    }
    arena_reset(&asker->scratch);
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

static int dearest_first(const void *a, const void *b)
{
    const facts_stretch *stretch = *(facts_stretch *const *)a, *y = *(facts_stretch *const *)b;

    if (stretch->ns != y->ns)
        return stretch->ns < y->ns ? 1 : -1;
    return (stretch->first > y->first) - (stretch->first < y->first);
}

static inlay_status find_in_graph(struct asker *asker, facts_graph *graph, inlay_diag *diag)
{
    facts_stretch **order = arena_array(&asker->facts->arena, (size_t)graph->stretch_count + 1, sizeof *order);
    uint32_t nodes = graph->program->graph->node_count, most = WORK_NODES / (nodes > 0 ? nodes : 1);
    inlay_status status = INLAY_OK;

    most = most < LEAST_ASKED ? LEAST_ASKED : most > MOST_ASKED ? MOST_ASKED : most;
    asker->graph = graph;
    asker->barred = arena_alloc(&asker->facts->arena, (size_t)graph->parts->offer_count + 1);
    if (order == NULL || asker->barred == NULL)
        return no_memory(diag, "to explain the session");
    for (uint32_t i = 0; i < graph->stretch_count; i++)
        order[i] = &graph->stretches[i];
    qsort(order, graph->stretch_count, sizeof *order, dearest_first);
    for (uint32_t i = 0; i < graph->stretch_count && status == INLAY_OK; i++) {
        order[i]->rival = guess(asker, order[i]);
        if (order[i]->rival.kind != RIVAL_NONE && most > 0) {
            most--;
            status = ask(asker, order[i]);
        }
    }
    return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "no memory to explain the session");
}

inlay_status facts_find_rivals(struct facts *facts, inlay_diag *diag)
{
    struct asker asker = { .facts = facts };
    inlay_status status = INLAY_OK;

    asker.votes = arena_array(&facts->arena, (size_t)facts->provider_count + 1, sizeof *asker.votes);
    if (asker.votes == NULL)
        return no_memory(diag, "to explain the session");
    for (uint32_t i = 0; i < facts->graph_count && status == INLAY_OK; i++)
        status = find_in_graph(&asker, facts->graphs[i], diag);
    arena_deinit(&asker.scratch);
    return status;
}
