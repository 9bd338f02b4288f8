/* Applies the user's rules (pin, forbid, no_cpu): marks offers that must not be chosen. */
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "partition/offers/offers.h"
#include <string.h>

/* The provider that the node is pinned to; NULL = none. */
static const char *pin_of(const partition_rules *rules, const inlay_node_info *node)
{
    for (uint32_t i = 0; i < rules->pin_count; i++)
        if (graph_node_matches(rules->pins[i].pattern, node))
            return rules->pins[i].provider;
    return NULL;
}

static bool is_forbidden(const partition_rules *rules, const inlay_node_info *node, const char *provider)
{
    for (uint32_t i = 0; i < rules->forbid_count; i++)
        if (strcmp(rules->forbids[i].provider, provider) == 0 && graph_node_matches(rules->forbids[i].pattern, node))
            return true;
    return false;
}

/* Returns whether a rule names the provider, for this node or with `require`. */
static bool is_named(const partition_rules *rules, const char *pin, const char *provider)
{
    bool named = pin != NULL && strcmp(pin, provider) == 0;

    for (uint32_t i = 0; rules != NULL && i < rules->require_count; i++)
        named = named || strcmp(rules->requires[i], provider) == 0;
    return named;
}

const char *partition_ban(const partition_request *request, uint32_t node, uint32_t provider)
{
    const partition_rules *rules = request->rules;
    const inlay_node_info *described = inlay_graph_node(request->snapshot, node);
    const partition_provider *candidate = &request->providers[provider];
    const char *pin = rules == NULL || rules->pin_count == 0 ? NULL : pin_of(rules, described);

    INLAY_CHECK(node < request->snapshot->node_count && provider < request->provider_count);
    if (candidate->unnamed && !is_named(rules, pin, candidate->name))
        return "a CPU emulates its device, so it runs only what rules assign to it: list it in option providers";
    if (rules == NULL)
        return NULL;
    if (rules->no_cpu && candidate->table->device_kind == INLAY_DEVICE_CPU)
        return "no_cpu keeps it out";
    if (pin != NULL && strcmp(pin, candidate->name) != 0)
        return "the node is pinned elsewhere";
    return rules->forbid_count > 0 && is_forbidden(rules, described, candidate->name) ? "forbid keeps it out" : NULL;
}

uint8_t *partition_uncovered(const partition_request *request, const struct partition *partition, struct arena *arena)
{
    uint8_t *open = partition_candidates(request->graph, arena);

    for (uint32_t offer_index = 0; open != NULL && offer_index < partition->offer_count; offer_index++) {
        const partition_offer *offer = &partition->offers[offer_index];
        bool usable = !partition_is_barred(request, offer_index) && !offer->declined;

        for (uint32_t k = 0; usable && k < offer->node_count; k++)
            usable = partition_ban(request, offer->nodes[k], offer->provider) == NULL;
        for (uint32_t k = 0; usable && k < offer->node_count; k++)
            open[offer->nodes[k]] = 0;
    }
    return open;
}

/* ", which pass swish made" for a node that is not in the file; otherwise "". */
static const char *origin_of(const partition_request *request, uint32_t node, char *text, size_t bytes)
{
    const graph_node *created = request->graph->nodes[node];

    text[0] = '\0';
    if (created->made_by != NULL)
        (void)snprintf(text, bytes, ", which pass %s made", created->made_by);
    return text;
}

static bool bans_anything(const partition_request *request)
{
    const partition_rules *rules = request->rules;
    bool bans = rules != NULL && (rules->no_cpu || rules->pin_count > 0 || rules->forbid_count > 0);

    for (uint32_t i = 0; i < request->provider_count; i++)
        bans = bans || request->providers[i].unnamed;
    return bans;
}

/* The provider's reason for not running the node. */
static const char *answer_of(const partition_request *request, const struct partition *partition, uint32_t provider,
                             uint32_t node)
{
    const char *ban;

    for (uint32_t i = 0; i < partition->refusal_count; i++)
        if (partition->refusals[i].node == node && partition->refusals[i].provider == provider)
            return partition->refusals[i].text;
    ban = partition_ban(request, node, provider);
    return ban != NULL ? ban : "it offers the node only in groups that can't be taken here";
}

/* A pin that cannot be kept is an error: its provider must have offered the node. A pin of a node that the host runs
 * applies only if the provider supports nodes with bodies. */
static inlay_status check_pin(const partition_request *request, const struct partition *partition, uint32_t node,
                              const uint8_t *offered, inlay_diag *diag)
{
    const inlay_node_info *described = inlay_graph_node(request->snapshot, node);
    const char *pin = pin_of(request->rules, described);
    char origin[64];

    for (uint32_t i = 0; pin != NULL && i < request->provider_count; i++) {
        const char *ban;
        if (strcmp(request->providers[i].name, pin) != 0)
            continue;
        if (graph_node_is_host(request->graph, request->graph->nodes[node]) &&
            !partition_takes_bodies(&request->providers[i], request->graph, request->graph->nodes[node]))
            return INLAY_OK;
        ban = partition_ban(request, node, i);
        if (ban == NULL && offered[i])
            return INLAY_OK;
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "pin: %s does not run %s node '%s' of graph '%s'%s: %s", pin,
                         described->op_type.data, described->name.data,
                         request->graph->name != NULL ? request->graph->name : "",
                         origin_of(request, node, origin, sizeof origin),
                         ban != NULL ? ban : answer_of(request, partition, i, node));
        if (diag != NULL)
            (void)snprintf(diag->node, sizeof diag->node, "%.*s", (int)sizeof diag->node - 1, described->name.data);
        return INLAY_UNSUPPORTED;
    }
    return INLAY_OK;
}

static inlay_status check_pins(const partition_request *request, const struct partition *partition,
                               struct arena *scratch, inlay_diag *diag)
{
    uint8_t *offered =
        arena_array(scratch, (size_t)request->graph->node_count * request->provider_count + 1, sizeof *offered);

    if (offered == NULL)
        return no_memory(diag, "to partition graph '%s'", request->graph->name);
    for (uint32_t offer = 0; offer < partition->offer_count; offer++)
        for (uint32_t k = 0; k < partition->offers[offer].node_count; k++)
            offered[(size_t)partition->offers[offer].nodes[k] * request->provider_count +
                    partition->offers[offer].provider] = 1;
    for (uint32_t node = 0; node < request->graph->node_count; node++) {
        inlay_status status =
            check_pin(request, partition, node, offered + (size_t)node * request->provider_count, diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

/* Does the offer have a node that no other provider offers, or that a rule assigns to the provider? */
static bool is_needed(const partition_request *request, const partition_offer *offer, const uint8_t *covered)
{
    const char *name = request->providers[offer->provider].name;

    for (uint32_t k = 0; k < offer->node_count; k++) {
        const inlay_node_info *described = inlay_graph_node(request->snapshot, offer->nodes[k]);

        if (!covered[offer->nodes[k]] || is_named(request->rules, pin_of(request->rules, described), name))
            return true;
    }
    return false;
}

/* Drops the offers of partition_rules.left_out. False: out of memory. */
static bool leave_out(const partition_request *request, const struct partition *partition, struct arena *scratch,
                      uint8_t *usable)
{
    const uint8_t *left_out = request->rules->left_out;
    uint8_t *covered = arena_array(scratch, (size_t)request->graph->node_count + 1, sizeof *covered);

    if (covered == NULL)
        return false;
    for (uint32_t node = 0; node < request->graph->node_count; node++)
        covered[node] = graph_node_is_host(request->graph, request->graph->nodes[node]);
    for (uint32_t i = 0; i < partition->offer_count; i++) {
        const partition_offer *offer = &partition->offers[i];

        if (usable[i] && offer->node_count == 1 && !left_out[offer->provider])
            covered[offer->nodes[0]] = 1;
    }
    for (uint32_t i = 0; i < partition->offer_count; i++) {
        const partition_offer *offer = &partition->offers[i];

        if (usable[i] && left_out[offer->provider] && !is_needed(request, offer, covered))
            usable[i] = 0;
    }
    return true;
}

inlay_status partition_apply_rules(const partition_request *request, const struct partition *partition,
                                   struct arena *scratch, uint8_t *usable, inlay_diag *diag)
{
    const bool leaves_out =
        request->rules != NULL && request->rules->left_out != NULL && request->rules->saved_plan == NULL;
    bool bans = bans_anything(request);

    for (uint32_t offer = 0; offer < partition->offer_count; offer++) {
        usable[offer] = !partition_is_barred(request, offer) && !partition->offers[offer].declined;
        for (uint32_t k = 0; bans && usable[offer] && k < partition->offers[offer].node_count; k++)
            usable[offer] =
                partition_ban(request, partition->offers[offer].nodes[k], partition->offers[offer].provider) == NULL;
    }
    if (leaves_out && !leave_out(request, partition, scratch, usable))
        return no_memory(diag, "to partition graph '%s'", request->graph->name);
    if (request->rules != NULL && request->rules->pin_count > 0)
        return check_pins(request, partition, scratch, diag);
    return INLAY_OK;
}

/* "; nor 3 other nodes: 'a', 'b', ...": further nodes that no provider may run. */
static void list_others(const partition_request *request, const struct partition *partition, const uint8_t *candidates,
                        const uint8_t *usable, uint32_t node, struct arena *scratch, char *text, size_t bytes)
{
    uint8_t *covered = arena_array(scratch, (size_t)request->graph->node_count + 1, sizeof *covered);
    char names[160] = "";
    uint32_t count = 0;
    size_t at = 0;

    text[0] = '\0';
    for (uint32_t offer = 0; covered != NULL && offer < partition->offer_count; offer++)
        for (uint32_t k = 0; usable[offer] && k < partition->offers[offer].node_count; k++)
            covered[partition->offers[offer].nodes[k]] = 1;
    for (uint32_t other = 0; covered != NULL && other < request->graph->node_count; other++) {
        if (other == node || covered[other] || !candidates[other])
            continue;
        if (count++ < 3 && at < sizeof names - 1)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s'%.40s'", at > 0 ? ", " : "",
                                   inlay_graph_node(request->snapshot, other)->name.data);
    }
    if (count > 0)
        (void)snprintf(text, bytes, "; nor %u other node%s: %s%s", count, count == 1 ? "" : "s", names,
                       count > 3 ? ", ..." : "");
}

/* Returns whether the provider's only reason is that it does not have the operator. */
static bool refused_operator(const struct partition *partition, uint32_t provider, uint32_t node)
{
    for (uint32_t i = 0; i < partition->refusal_count; i++)
        if (partition->refusals[i].node == node && partition->refusals[i].provider == provider)
            return partition->refusals[i].code == INLAY_REFUSE_OPERATOR;
    return false;
}

/* Lists the reasons why the node has no provider: first why the optimiser did not replace its operator, then the
 * reasons of providers that have the operator. If none has it, a single provider is quoted, and several are counted. */
static void list_reasons(const partition_request *request, const struct partition *partition, uint32_t node, char *text,
                         size_t bytes)
{
    const char *left = request->graph->nodes[node]->not_lowered;
    int wrote = snprintf(text, bytes, "%s%s", left != NULL ? "the optimiser does not replace it: " : "",
                         left != NULL ? left : "");
    size_t at = wrote > 0 ? (size_t)wrote : 0;

    for (uint32_t i = 0; i < request->provider_count && at < bytes - 1; i++) {
        if (refused_operator(partition, i, node) && (request->provider_count > 1 || left != NULL))
            continue;
        wrote = snprintf(text + at, bytes - at, "%s%s says: %s", at > 0 ? "; " : "", request->providers[i].name,
                         answer_of(request, partition, i, node));
        at += wrote > 0 ? (size_t)wrote : 0;
    }
    if (at == 0 && request->provider_count == 0)
        (void)snprintf(text, bytes, "none is loaded");
    else if (at == 0)
        (void)snprintf(text, bytes, "none of the %u loaded has a kernel for it", request->provider_count);
}

inlay_status report_uncovered_node(const partition_request *request, const struct partition *partition,
                                   const uint8_t *candidates, const uint8_t *usable, uint32_t node,
                                   struct arena *scratch, inlay_diag *diag)
{
    const inlay_node_info *described = inlay_graph_node(request->snapshot, node);
    char reasons[320], others[240], origin[64];

    list_others(request, partition, candidates, usable, node, scratch, others, sizeof others);
    list_reasons(request, partition, node, reasons, sizeof reasons);
    (void)inlay_fail(diag, INLAY_UNSUPPORTED, "no provider runs %s-%u (domain %s), node '%s' of graph '%s'%s: %s%s",
                     described->op_type.data, described->since_version, described->domain.data, described->name.data,
                     request->graph->name != NULL ? request->graph->name : "",
                     origin_of(request, node, origin, sizeof origin), reasons, others);
    if (diag != NULL)
        (void)snprintf(diag->node, sizeof diag->node, "%.*s", (int)sizeof diag->node - 1, described->name.data);
    return INLAY_UNSUPPORTED;
}

uint8_t *partition_candidates(const struct graph *graph, struct arena *arena)
{
    uint8_t *candidates = arena_alloc(arena, (size_t)graph->node_count + 1);

    for (uint32_t i = 0; candidates != NULL && i < graph->node_count; i++)
        candidates[i] = !graph_node_is_host(graph, graph->nodes[i]);
    return candidates;
}
