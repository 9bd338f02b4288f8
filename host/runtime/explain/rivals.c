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
    struct facts *f;
    facts_graph *g;
    uint8_t *barred; /* [offer_count] */
    uint32_t *votes; /* [provider_count] nodes that would go there */
    struct arena scratch;
};

/* The provider with most votes; clears them. */
static uint32_t elect(struct asker *k)
{
    uint32_t best = INLAY_NONE;

    for (uint32_t i = 0; i < k->f->provider_count; i++)
        if (k->votes[i] > 0 && (best == INLAY_NONE || k->votes[i] > k->votes[best]))
            best = i;
    memset(k->votes, 0, k->f->provider_count * sizeof *k->votes);
    return best;
}

static double told_ns(const struct asker *k, uint32_t offer)
{
    const part_offer *o = &k->g->parts->offers[offer];

    return facts_told(k->f, o, o->cost.ns);
}

/* From the offers alone: each node goes where it is cheapest. A group's nodes are compared together. */
static facts_rival guess(struct asker *k, const facts_stretch *s)
{
    const struct partition *parts = k->g->parts;
    facts_rival rival = { .kind = RIVAL_NONE, .provider = INLAY_NONE };

    for (uint32_t i = s->first; s->provider != INLAY_NONE && i < s->first + s->count; i++) {
        const part_region *r = k->g->regions[i].region;
        for (uint32_t n = 0; n < r->node_count; n++) {
            const facts_node *node = &k->g->nodes[r->nodes[n]];
            uint32_t other = facts_cheapest_other(k->g, r->nodes[n], s->provider);
            if (other == INLAY_NONE || node->offer == INLAY_NONE)
                continue;
            rival.kind = RIVAL_ABOUT;
            rival.node_count++;
            rival.extra_ns += told_ns(k, other) - told_ns(k, node->offer) / parts->offers[node->offer].node_count;
            k->votes[parts->offers[other].provider]++;
        }
    }
    rival.provider = elect(k);
    return rival;
}

/* Bars the winner from the nodes of the stretch that somebody else offers, alone or in a group. */
static void bar(struct asker *k, const facts_stretch *s, uint8_t how)
{
    const part_offer *offers = k->g->parts->offers;

    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const part_region *r = k->g->regions[i].region;
        for (uint32_t n = 0; n < r->node_count; n++) {
            const facts_node *node = &k->g->nodes[r->nodes[n]];
            if (facts_cheapest_other(k->g, r->nodes[n], s->provider) == INLAY_NONE)
                continue;
            for (uint32_t o = 0; o < node->offer_count; o++) {
                uint32_t offer = k->g->offers_of[node->first_offer + o];
                if (offers[offer].provider == s->provider)
                    k->barred[offer] = how;
            }
        }
    }
}

/* Improves a guess by solving the graph again. A failure other than of memory leaves the guess. */
static inlay_status ask(struct asker *k, facts_stretch *s)
{
    part_request request = facts_request(k->g);
    part_rules rules = request.rules != NULL ? *request.rules : (part_rules){ 0 };
    struct partition other = { 0 };
    inlay_status status;

    rules.saved_plan = NULL; /* it would insist on what is barred */
    request.rules = &rules;
    request.barred = k->barred;
    bar(k, s, 1);
    status = partition_again(&request, k->g->parts, &k->scratch, &other, NULL);
    bar(k, s, 0);
    if (status == INLAY_OK) {
        s->rival.kind = RIVAL_EXACT;
        s->rival.extra_ns = facts_told_sum(k->f, &other) - facts_told_sum(k->f, k->g->parts);
        for (uint32_t i = 0; i < other.region_count; i++) {
            const part_region *r = &other.regions[i];
            for (uint32_t n = 0; r->provider != INLAY_NONE && r->provider != s->provider && n < r->node_count; n++) {
                uint32_t region = k->g->nodes[r->nodes[n]].region;
                if (region >= s->first && region < s->first + s->count)
                    k->votes[r->provider]++;
            }
        }
        s->rival.provider = elect(k);
    }
    arena_reset(&k->scratch);
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

static int dearest_first(const void *a, const void *b)
{
    const facts_stretch *x = *(facts_stretch *const *)a, *y = *(facts_stretch *const *)b;

    if (x->ns != y->ns)
        return x->ns < y->ns ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

static inlay_status find_in_graph(struct asker *k, facts_graph *g, inlay_diag *diag)
{
    facts_stretch **order = arena_array(&k->f->a, (size_t)g->stretch_count + 1, sizeof *order);
    uint32_t nodes = g->program->graph->node_count, most = WORK_NODES / (nodes > 0 ? nodes : 1);
    inlay_status status = INLAY_OK;

    most = most < LEAST_ASKED ? LEAST_ASKED : most > MOST_ASKED ? MOST_ASKED : most;
    k->g = g;
    k->barred = arena_alloc(&k->f->a, (size_t)g->parts->offer_count + 1);
    if (order == NULL || k->barred == NULL)
        return no_memory(diag, "to explain the session");
    for (uint32_t i = 0; i < g->stretch_count; i++)
        order[i] = &g->stretches[i];
    qsort(order, g->stretch_count, sizeof *order, dearest_first);
    for (uint32_t i = 0; i < g->stretch_count && status == INLAY_OK; i++) {
        order[i]->rival = guess(k, order[i]);
        if (order[i]->rival.kind != RIVAL_NONE && most > 0) {
            most--;
            status = ask(k, order[i]);
        }
    }
    return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "no memory to explain the session");
}

inlay_status facts_find_rivals(struct facts *f, inlay_diag *diag)
{
    struct asker k = { .f = f };
    inlay_status status = INLAY_OK;

    k.votes = arena_array(&f->a, (size_t)f->provider_count + 1, sizeof *k.votes);
    if (k.votes == NULL)
        return no_memory(diag, "to explain the session");
    for (uint32_t i = 0; i < f->graph_count && status == INLAY_OK; i++)
        status = find_in_graph(&k, f->graphs[i], diag);
    arena_deinit(&k.scratch);
    return status;
}
