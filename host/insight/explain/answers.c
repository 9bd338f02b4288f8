/* The answers of each provider for one node, and the cost of running the node there. */
#include "base/memory.h"
#include "inlay/check.h"
#include "explain/facts.h"
#include <math.h>

/* The provider's cheapest offer for the node; an offer for the node alone is preferred. */
static uint32_t offer_of(const facts_graph *graph, uint32_t node, uint32_t provider)
{
    const partition_offer *offers = graph->parts->offers;
    uint32_t best = INLAY_NONE;

    for (uint32_t i = 0; i < graph->nodes[node].offer_count; i++) {
        uint32_t offer = graph->offers_of[graph->nodes[node].first_offer + i];
        bool single = offers[offer].node_count == 1, best_single = best != INLAY_NONE && offers[best].node_count == 1;

        if (offers[offer].provider != provider)
            continue;
        if (best == INLAY_NONE || single > best_single ||
            (single == best_single && offers[offer].cost.ns < offers[best].cost.ns))
            best = offer;
    }
    return best;
}

static const partition_refusal *refusal_of(const facts_graph *graph, uint32_t node, uint32_t provider)
{
    for (uint32_t i = 0; i < graph->nodes[node].refusal_count; i++) {
        const partition_refusal *refusal =
            &graph->parts->refusals[graph->refusals_of[graph->nodes[node].first_refusal + i]];
        if (refusal->provider == provider)
            return refusal;
    }
    return NULL;
}

/* Can the other nodes of the offer stay where they run now if the node leaves? Its group is then dissolved. */
static bool stays(const facts_graph *graph, uint32_t offer, uint32_t node)
{
    const partition_offer *offers = graph->parts->offers, *one = &offers[offer];

    for (uint32_t k = 0; k < one->node_count; k++) {
        const uint32_t now = graph->nodes[one->nodes[k]].offer;

        if (one->nodes[k] == node || now == INLAY_NONE || offers[now].provider != one->provider ||
            (!one->chosen && now != graph->nodes[node].offer))
            return false;
    }
    return true;
}

/* The session's assignment with the node on the provider and no other node moved. limit: besides the session's limits,
 * or NULL. */
static inlay_status move_alone(const facts_graph *graph, uint32_t node, const facts_answer *answer,
                               const partition_limit *limit, struct arena *scratch, struct partition *out)
{
    const struct partition *parts = graph->parts;
    partition_request request = facts_request(graph);
    partition_rules rules = request.rules != NULL ? *request.rules : (partition_rules){ 0 };
    partition_limit *limits = arena_array(scratch, (size_t)rules.limit_count + 1, sizeof *limits);
    uint8_t *others = arena_alloc(scratch, (size_t)parts->offer_count + 1);

    if (limits == NULL || others == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < rules.limit_count; i++)
        limits[i] = rules.limits[i];
    if (limit != NULL)
        limits[rules.limit_count++] = *limit; /* the last one counts */
    for (uint32_t offer = 0; offer < parts->offer_count; offer++)
        others[offer] = offer != answer->offer && !stays(graph, offer, node);
    rules.limits = limits;
    rules.saved_plan = NULL;
    request.rules = &rules;
    request.barred = others;
    request.must_run = NULL; /* facts_broken_limit() names the rule */
    return partition_again(&request, parts, scratch, out, NULL);
}

/* Sets what moving this node alone costs, and the limit that forbids it. */
static inlay_status try_alone(struct facts *facts, const facts_graph *graph, uint32_t node, struct arena *scratch,
                              facts_answer *answer)
{
    const partition_limit unlimited = { facts->session->providers[answer->provider].name, UINT64_MAX };
    struct partition alone = { 0 };
    inlay_status status = move_alone(graph, node, answer, NULL, scratch, &alone);

    answer->alone_ns = INFINITY;
    if (status == INLAY_OK) {
        if (!facts_broken_limit(facts, graph, &alone, &answer->obstacle))
            return INLAY_OUT_OF_MEMORY;
        if (answer->obstacle == NULL)
            answer->alone_ns = facts_displayed_sum(&alone) - facts_displayed_sum(graph->parts);
        return INLAY_OK;
    }
    if (status != INLAY_LIMIT_EXCEEDED)
        return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK; /* a group that would be divided */
    status = move_alone(graph, node, answer, &unlimited, scratch, &alone);
    if (status == INLAY_OK)
        return facts_broken_limit(facts, graph, &alone, &answer->obstacle) ? INLAY_OK : INLAY_OUT_OF_MEMORY;
    if (status == INLAY_LIMIT_EXCEEDED)
        answer->obstacle = arena_format(&facts->arena, "it would exceed max_partitions; there are %u partitions",
                                        graph->parts->partition_count);
    return status == INLAY_OUT_OF_MEMORY || (status != INLAY_UNSUPPORTED && answer->obstacle == NULL)
               ? INLAY_OUT_OF_MEMORY
               : INLAY_OK;
}

/* Assigns the graph again with all other providers excluded from the node. */
static inlay_status evaluate_on_provider(struct facts *facts, const facts_graph *graph, uint32_t node, uint8_t *barred,
                                         struct arena *scratch, facts_answer *answer)
{
    const struct partition *parts = graph->parts;
    partition_request request = facts_request(graph);
    partition_rules rules = request.rules != NULL ? *request.rules : (partition_rules){ 0 };
    uint32_t chosen = graph->nodes[node].offer;
    inlay_diag why = INLAY_DIAG_INIT;
    struct partition alternative = { 0 };
    inlay_status status;

    for (uint32_t i = 0; i < graph->nodes[node].offer_count; i++) {
        uint32_t offer = graph->offers_of[graph->nodes[node].first_offer + i];
        barred[offer] = parts->offers[offer].provider != answer->provider;
    }
    answer->alone_ns = INFINITY;
    if (chosen != INLAY_NONE && parts->offers[answer->offer].node_count == 1 &&
        try_alone(facts, graph, node, scratch, answer) != INLAY_OK)
        return INLAY_OUT_OF_MEMORY;
    if (rules.by_priority && answer->provider > graph->regions[graph->nodes[node].region].region->provider)
        answer->obstacle = "policy priority takes the first provider that supports a node";
    rules.saved_plan = NULL;
    request.rules = &rules;
    request.barred = barred;
    status = partition_again(&request, parts, scratch, &alternative, &why);
    if (status == INLAY_OK) {
        answer->extra_ns = facts_displayed_sum(&alternative) - facts_displayed_sum(parts);
        answer->copies_ns = facts_sum_of_copies(&alternative) - graph->copies_ns;
        if (answer->extra_ns < -FACTS_TIE_NS && answer->obstacle == NULL) {
            answer->why =
                facts_why_not(facts, graph, &alternative, graph->regions[graph->nodes[node].region].region->provider,
                              answer->provider, -answer->extra_ns);
            if (answer->why == NULL)
                status = INLAY_OUT_OF_MEMORY;
        }
        if (chosen != INLAY_NONE && parts->offers[chosen].node_count == 1 &&
            parts->offers[answer->offer].node_count == 1)
            answer->here_ns = facts_displayed_ns(&parts->offers[answer->offer], parts->offers[answer->offer].cost.ns) -
                              facts_displayed_ns(&parts->offers[chosen], parts->offers[chosen].cost.ns);
    } else if (status != INLAY_OUT_OF_MEMORY) {
        answer->impossible = answer->obstacle != NULL ? answer->obstacle : arena_string(&facts->arena, why.text);
        status = answer->impossible != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;
    }
    answer->evaluated = status == INLAY_OK;
    arena_reset(scratch);
    return status;
}

inlay_status facts_evaluate_node(struct facts *facts, const facts_graph *graph, uint32_t node, bool evaluate,
                                 facts_answer **out, inlay_diag *diag)
{
    facts_answer *answers = arena_array(&facts->arena, (size_t)facts->provider_count + 1, sizeof *answers);
    uint8_t *barred = arena_alloc(&facts->arena, (size_t)graph->parts->offer_count + 1);
    uint32_t winner = graph->regions[graph->nodes[node].region].region->provider;
    inlay_status status = INLAY_OK;
    struct arena scratch = { 0 };

    const partition_request request = facts_request(graph);

    INLAY_CHECK(node < graph->program->graph->node_count);
    *out = answers;
    if (answers == NULL || barred == NULL)
        return no_memory(diag, "to explain a node");
    for (uint32_t i = 0; i < facts->provider_count && status == INLAY_OK; i++) {
        answers[i] = (facts_answer){ .provider = i,
                                     .offer = offer_of(graph, node, i),
                                     .refusal = refusal_of(graph, node, i),
                                     .chosen = i == winner };
        if (answers[i].offer != INLAY_NONE && graph->parts->offers[answers[i].offer].cost_source == COST_NONE) {
            answers[i].no_price = facts_no_price(facts, graph, answers[i].offer);
            status = answers[i].no_price != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;
        }
        if (!evaluate || i == winner || answers[i].offer == INLAY_NONE)
            continue;
        if (graph->parts->offers[answers[i].offer].cost_source == COST_NONE)
            continue;
        answers[i].impossible = partition_ban(&request, node, i);
        answers[i].evaluated = answers[i].impossible != NULL;
        if (!answers[i].evaluated)
            status = evaluate_on_provider(facts, graph, node, barred, &scratch, &answers[i]);
    }
    arena_deinit(&scratch);
    return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "no memory to explain a node");
}
