/* Collects and validates the offers and refusals of the providers for a graph. */
#include "base/provider_calls.h"
#include "base/sized_struct.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "partition/certificate/certificate.h"
#include "partition/cost/cost.h"
#include "partition/offers/offers.h"
#include <string.h>

struct collector {
    const partition_request *request;
    struct arena *arena;
    struct partition *out;
    uint32_t provider;
    const uint8_t *all;   /* [node_count] candidates of any provider */
    uint8_t *candidates;  /* [node_count] of the current provider */
    bool *answered;       /* [node_count] by the current provider: offered or refused */
    const char **outside; /* [node_count] why option trust excludes an offer for the node; NULL: no such offer */
};

static void log_invalid_offer(const struct collector *collector, const char *why)
{
    char text[256];

    if (collector->request->log == NULL)
        return;
    (void)snprintf(text, sizeof text, "provider %s: an offer was ignored: %s",
                   collector->request->providers[collector->provider].name, why);
    collector->request->log(collector->request->log_ctx, INLAY_LOG_WARNING, text);
}

static bool owns_domain(const partition_provider *provider, uint32_t domain)
{
    return domain == INLAY_DOMAIN_HOST ||
           (domain >= provider->first_domain && domain - provider->first_domain < provider->table->domain_count);
}

/* An invalid offer is ignored; other offers of the provider are still valid. */
static const char *offer_fault(const struct collector *collector, const inlay_offer *offer)
{
    const inlay_graph *graph = collector->request->snapshot;

    if (!INLAY_HAS(offer, node_count) || offer->node_count == 0 || offer->nodes == NULL)
        return "it names no node";
    for (uint32_t i = 0; i < offer->node_count; i++) {
        if (offer->nodes[i] >= graph->node_count)
            return "a node index is not below the node count of the graph";
        if (!collector->candidates[offer->nodes[i]])
            return "it names a node that is the host's";
        if (i > 0 && offer->nodes[i] <= offer->nodes[i - 1])
            return "its node indexes do not ascend";
        if (offer->node_count > 1 && collector->request->graph->nodes[offer->nodes[i]]->body_count > 0)
            return "it has a node with bodies in a group";
    }
    if (INLAY_HAS(offer, flags) && (offer->flags & 0xffffu & ~(uint32_t)INLAY_OFFER_MERGE) != 0)
        return "it has a flag that this host does not know";
    if (INLAY_HAS(offer, reserved) && offer->reserved != 0)
        return "it sets a reserved field";
    for (uint32_t i = 0; INLAY_HAS(offer, placement_stride) && i < offer->placement_count; i++) {
        const inlay_placement *placement;

        if (offer->placements == NULL || offer->placement_stride < offsetof(inlay_placement, dtype))
            return "its placements are not readable";
        placement = INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i);
        if (placement->value >= graph->value_count)
            return "it places a value that does not exist";
        if (INLAY_STRIDE_HAS(inlay_placement, offer->placement_stride, reserved) && placement->reserved != 0)
            return "it sets a reserved field of a placement";
        if (!owns_domain(&collector->request->providers[collector->provider], placement->domain))
            return "it places a value in a domain that is neither the host's nor its own";
    }
    return NULL;
}

/* Does option check_finite require that each node is a region? */
static bool single_nodes(const struct collector *collector)
{
    return collector->request->rules != NULL && collector->request->rules->single_nodes;
}

/* Where the current provider was checked; NULL: it may run every node. */
static const certificate_provider *trusted(const struct collector *collector)
{
    const partition_rules *rules = collector->request->rules;

    return rules == NULL || rules->trusted == NULL ? NULL : rules->trusted[collector->provider];
}

/* Notes for each node of an offer why it is excluded, if it is outside of what was checked. */
static inlay_status exclude(const struct collector *collector, const inlay_offer *offer, bool *out_excluded)
{
    char why[256];
    const char *copy;

    *out_excluded = trusted(collector) != NULL && !certificate_covers(trusted(collector), collector->request->graph,
                                                                      offer->nodes, offer->node_count, why, sizeof why);
    if (!*out_excluded)
        return INLAY_OK;
    copy = arena_string(collector->arena, why);
    for (uint32_t i = 0; copy != NULL && i < offer->node_count; i++)
        if (offer->node_count == 1 || collector->outside[offer->nodes[i]] == NULL)
            collector->outside[offer->nodes[i]] = copy;
    return copy != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;
}

/* Flags of an offer that options take away. */
static uint32_t lost_flags(const struct collector *collector)
{
    const bool apart = single_nodes(collector) || (trusted(collector) != NULL && !trusted(collector)->merges);

    return apart ? (uint32_t)INLAY_OFFER_MERGE : 0;
}

/* Applies partition_rules.max_weight_bytes. Small constants, such as a bias, do not count. */
static void limit_weights(const struct collector *collector, partition_offer *offer)
{
    enum { SMALL = 1 << 16 };
    const partition_request *request = collector->request;
    uint64_t bytes;

    if (request->rules == NULL || request->rules->max_weight_bytes == 0 ||
        partition_default_domain(&request->providers[collector->provider]) != INLAY_DOMAIN_HOST)
        return;
    bytes = cost_constant_bytes(request->graph, offer->nodes, offer->node_count);
    bytes = offer->resident_bytes > bytes ? offer->resident_bytes : bytes;
    offer->weight_bytes = bytes < SMALL ? 0 : bytes;
    offer->limits.weight_bytes = request->rules->max_weight_bytes;
}

static inlay_status add_offer(void *ctx, const inlay_offer *offer)
{
    struct collector *collector = ctx;
    const char *fault = offer_fault(collector, offer);
    partition_offer *copy;
    bool excluded;

    if (fault != NULL) {
        log_invalid_offer(collector, fault);
        return INLAY_OK;
    }
    if (offer->node_count > 1 && single_nodes(collector))
        return INLAY_OK;
    if (exclude(collector, offer, &excluded) != INLAY_OK)
        return INLAY_OUT_OF_MEMORY;
    if (excluded)
        return INLAY_OK;
    if (!ARENA_GROW(collector->arena, collector->out->offers, collector->out->offer_count))
        return INLAY_OUT_OF_MEMORY;
    INLAY_CHECK(collector->provider < collector->request->provider_count);
    copy = &collector->out->offers[collector->out->offer_count];
    *copy = (partition_offer){ .provider = collector->provider,
                               .cookie = offer->cookie,
                               .node_count = offer->node_count,
                               .threads_factor = 1,
                               .border_factor = 1 };
    if (INLAY_HAS(offer, flags))
        copy->flags = offer->flags & ~lost_flags(collector);
    copy->nodes = arena_copy(collector->arena, offer->nodes, offer->node_count * sizeof *offer->nodes);
    if (copy->nodes == NULL)
        return INLAY_OUT_OF_MEMORY;
    if (INLAY_HAS(offer, placement_stride) && offer->placement_count > 0) {
        inlay_placement *placement = arena_array(collector->arena, offer->placement_count, sizeof *placement);
        if (placement == NULL)
            return INLAY_OUT_OF_MEMORY;
        for (uint32_t i = 0; i < offer->placement_count; i++)
            sized_struct_read(&placement[i], sizeof placement[i],
                              INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i),
                              offer->placement_stride);
        copy->placements = placement;
        copy->placement_count = offer->placement_count;
    }
    if (INLAY_HAS(offer, workspace_bytes))
        copy->workspace_bytes = offer->workspace_bytes;
    if (INLAY_HAS(offer, resident_bytes))
        copy->resident_bytes = offer->resident_bytes;
    if (INLAY_HAS(offer, max_resident_bytes))
        copy->limits = (partition_limits){ .nodes = offer->max_nodes,
                                           .inputs = offer->max_inputs,
                                           .outputs = offer->max_outputs,
                                           .resident_bytes = offer->max_resident_bytes };
    limit_weights(collector, copy);
    for (uint32_t i = 0; i < offer->node_count; i++)
        collector->answered[offer->nodes[i]] = true;
    collector->out->offer_count++;
    return INLAY_OK;
}

static inlay_status add_refusal(void *ctx, const inlay_refusal *refusal)
{
    struct collector *collector = ctx;
    partition_refusal *copy;

    if (refusal->node >= collector->request->snapshot->node_count)
        return INLAY_OK;
    if (!ARENA_GROW(collector->arena, collector->out->refusals, collector->out->refusal_count))
        return INLAY_OUT_OF_MEMORY;
    copy = &collector->out->refusals[collector->out->refusal_count];
    *copy = (partition_refusal){ .provider = collector->provider, .node = refusal->node, .code = refusal->code };
    copy->text = arena_string(collector->arena, refusal->text != NULL ? refusal->text : "no reason given");
    if (INLAY_HAS(refusal, accepted_if) && refusal->accepted_if != NULL && refusal->accepted_if[0] != '\0')
        copy->accepted_if = arena_string(collector->arena, refusal->accepted_if);
    if (copy->text == NULL)
        return INLAY_OUT_OF_MEMORY;
    collector->answered[refusal->node] = true;
    collector->out->refusal_count++;
    return INLAY_OK;
}

/* A plugin cannot know operators and element types that were introduced after it was built, so it is not asked about
 * them. */
static void choose_candidates(struct collector *collector)
{
    const struct graph *graph = collector->request->graph;
    const partition_provider *provider = &collector->request->providers[collector->provider];

    for (uint32_t i = 0; i < graph->node_count; i++)
        collector->candidates[i] = collector->all[i] ? partition_knows(graph, graph->nodes[i], provider->abi_minor)
                                                     : partition_takes_bodies(provider, graph, graph->nodes[i]);
}

static inlay_status query_provider(struct collector *collector, inlay_diag *diag)
{
    const partition_provider *provider = &collector->request->providers[collector->provider];
    const inlay_graph *graph = collector->request->snapshot;
    inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = collector, .offer = add_offer, .refuse = add_refusal
    };
    inlay_status status;

    memset(collector->answered, 0, graph->node_count * sizeof *collector->answered);
    memset(collector->outside, 0, graph->node_count * sizeof *collector->outside);
    status = call_assess(provider->table, provider->state, graph, collector->candidates, &sink, diag);
    if (status != INLAY_OK) {
        if (status == INLAY_OUT_OF_MEMORY)
            return inlay_fail(diag, status, "no memory to query provider %s for offers", provider->name);
        return status;
    }
    /* Every node needs an offer or a refusal. Adds refusals for nodes without an answer. */
    for (uint32_t i = 0; i < graph->node_count; i++) {
        inlay_refusal silent = { .struct_size = sizeof silent,
                                 .node = i, /* the code is 0, since the provider gave none */
                                 .text = single_nodes(collector)
                                             ? "it offers the node only together with others, which "
                                               "option check_finite excludes"
                                             : "the provider gave no answer for this node" };

        if (collector->outside[i] != NULL) {
            silent.code = INLAY_REFUSE_OPTION;
            silent.text = collector->outside[i];
        }
        if (!collector->candidates[i])
            silent.text = partition_knows_types(collector->request->graph, collector->request->graph->nodes[i],
                                                provider->abi_minor)
                              ? "the plugin was built before passes made this operator; build it with newer headers"
                              : "the plugin was built before this element type existed; build it with newer headers";
        if (collector->all[i] && !collector->answered[i] && add_refusal(collector, &silent) != INLAY_OK)
            return no_memory(diag, "for the answers of provider %s", provider->name);
    }
    return INLAY_OK;
}

inlay_status collect_offers(const partition_request *request, const uint8_t *candidates, struct arena *arena,
                            struct partition *out, inlay_diag *diag)
{
    struct collector collector = { .request = request, .arena = arena, .out = out, .all = candidates };

    collector.candidates = arena_array(arena, (size_t)request->snapshot->node_count + 1, sizeof *collector.candidates);
    collector.answered = arena_array(arena, (size_t)request->snapshot->node_count + 1, sizeof *collector.answered);
    collector.outside = arena_array(arena, (size_t)request->snapshot->node_count + 1, sizeof *collector.outside);
    if (collector.answered == NULL || collector.candidates == NULL || collector.outside == NULL)
        return no_memory(diag, "to assess graph '%s'", request->graph->name);
    for (; collector.provider < request->provider_count; collector.provider++) {
        inlay_status status;

        choose_candidates(&collector);
        status = query_provider(&collector, diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}
