/* What the providers say of a graph: offers, checked, and refusals. */
#include "base/known.h"
#include "base/memory.h"
#include "partition/offers/offers.h"
#include <string.h>

struct collector {
    const part_request *request;
    struct arena *a;
    struct partition *out;
    uint32_t provider;
    const uint8_t *all;  /* [node_count] candidates of any provider */
    uint8_t *candidates; /* [node_count] of the provider at hand */
    bool *answered;      /* [node_count] of the provider at hand: offered or refused */
};

static void void_offer(const struct collector *c, const char *why)
{
    char text[256];

    if (c->request->log == NULL)
        return;
    (void)snprintf(text, sizeof text, "provider %s: an offer was ignored: %s", c->request->providers[c->provider].name,
                   why);
    c->request->log(c->request->log_ctx, INLAY_LOG_WARNING, text);
}

static bool owns_domain(const part_provider *p, uint32_t domain)
{
    return domain == INLAY_DOMAIN_HOST ||
           (domain >= p->first_domain && domain - p->first_domain < p->table->domain_count);
}

/* A bad offer voids itself only: the others of the provider stand. */
static const char *offer_fault(const struct collector *c, const inlay_offer *offer)
{
    const inlay_graph *s = c->request->snapshot;

    if (!INLAY_HAS(offer, node_count) || offer->node_count == 0 || offer->nodes == NULL)
        return "it names no node";
    for (uint32_t i = 0; i < offer->node_count; i++) {
        if (offer->nodes[i] >= s->node_count)
            return "a node index is out of range";
        if (!c->candidates[offer->nodes[i]])
            return "it names a node that is the host's";
        if (i > 0 && offer->nodes[i] <= offer->nodes[i - 1])
            return "its node indexes do not ascend";
        if (offer->node_count > 1 && c->request->graph->nodes[offer->nodes[i]]->body_count > 0)
            return "it has a node with bodies in a group";
    }
    if (INLAY_HAS(offer, flags) && (offer->flags & 0xffffu & ~(uint32_t)INLAY_OFFER_MERGE) != 0)
        return "it has a flag that this host does not know";
    for (uint32_t i = 0; INLAY_HAS(offer, placement_stride) && i < offer->placement_count; i++) {
        const inlay_placement *p;

        if (offer->placements == NULL || offer->placement_stride < offsetof(inlay_placement, dtype))
            return "its placements are not readable";
        p = INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i);
        if (p->value >= s->value_count)
            return "it places a value that does not exist";
        if (!owns_domain(&c->request->providers[c->provider], p->domain))
            return "it places a value in a domain that is neither the host's nor its own";
    }
    return NULL;
}

static inlay_status take_offer(void *ctx, const inlay_offer *offer)
{
    struct collector *c = ctx;
    const char *fault = offer_fault(c, offer);
    part_offer *o;

    if (fault != NULL) {
        void_offer(c, fault);
        return INLAY_OK;
    }
    if (!ARENA_GROW(c->a, c->out->offers, c->out->offer_count))
        return INLAY_OUT_OF_MEMORY;
    o = &c->out->offers[c->out->offer_count];
    *o = (part_offer){ .provider = c->provider, .cookie = offer->cookie, .node_count = offer->node_count };
    if (INLAY_HAS(offer, flags))
        o->flags = offer->flags;
    o->nodes = arena_copy(c->a, offer->nodes, offer->node_count * sizeof *offer->nodes);
    if (o->nodes == NULL)
        return INLAY_OUT_OF_MEMORY;
    if (INLAY_HAS(offer, placement_stride) && offer->placement_count > 0) {
        inlay_placement *p = arena_array(c->a, offer->placement_count, sizeof *p);
        if (p == NULL)
            return INLAY_OUT_OF_MEMORY;
        for (uint32_t i = 0; i < offer->placement_count; i++)
            known_take(&p[i], sizeof p[i], INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i),
                       offer->placement_stride);
        o->placements = p;
        o->placement_count = offer->placement_count;
    }
    if (INLAY_HAS(offer, workspace_bytes))
        o->workspace_bytes = offer->workspace_bytes;
    if (INLAY_HAS(offer, resident_bytes))
        o->resident_bytes = offer->resident_bytes;
    for (uint32_t i = 0; i < offer->node_count; i++)
        c->answered[offer->nodes[i]] = true;
    c->out->offer_count++;
    return INLAY_OK;
}

static inlay_status take_refusal(void *ctx, const inlay_refusal *refusal)
{
    struct collector *c = ctx;
    part_refusal *r;

    if (refusal->node >= c->request->snapshot->node_count)
        return INLAY_OK;
    if (!ARENA_GROW(c->a, c->out->refusals, c->out->refusal_count))
        return INLAY_OUT_OF_MEMORY;
    r = &c->out->refusals[c->out->refusal_count];
    *r = (part_refusal){ .provider = c->provider, .node = refusal->node, .code = refusal->code };
    r->text = arena_string(c->a, refusal->text != NULL ? refusal->text : "no reason given");
    if (INLAY_HAS(refusal, accepted_if) && refusal->accepted_if != NULL && refusal->accepted_if[0] != '\0')
        r->accepted_if = arena_string(c->a, refusal->accepted_if);
    if (r->text == NULL)
        return INLAY_OUT_OF_MEMORY;
    c->answered[refusal->node] = true;
    c->out->refusal_count++;
    return INLAY_OK;
}

/* What passes began to make after the plugin was built, it can't know: it is not asked. */
static void choose_candidates(struct collector *c)
{
    const struct graph *g = c->request->graph;
    const part_provider *p = &c->request->providers[c->provider];

    for (uint32_t i = 0; i < g->node_count; i++) {
        uint32_t since = g->nodes[i]->made_by != NULL && c->all[i] ? graph_made_since(g->nodes[i]) : 0;

        c->candidates[i] =
            c->all[i] ? since == UINT32_MAX || since <= p->abi_minor : part_takes_bodies(p, g, g->nodes[i]);
    }
}

static inlay_status hear_provider(struct collector *c, inlay_diag *diag)
{
    const part_provider *p = &c->request->providers[c->provider];
    const inlay_graph *s = c->request->snapshot;
    inlay_assess_sink sink = { .struct_size = sizeof sink, .ctx = c, .offer = take_offer, .refuse = take_refusal };
    inlay_status status;

    memset(c->answered, 0, s->node_count * sizeof *c->answered);
    status = p->table->assess(p->state, s, c->candidates, &sink, diag);
    if (status != INLAY_OK) {
        if (status == INLAY_OUT_OF_MEMORY)
            return inlay_fail(diag, status, "no memory to ask provider %s what it can run", p->name);
        return status;
    }
    /* A refusal is mandatory data. Who keeps silent is quoted as having done so. */
    for (uint32_t i = 0; i < s->node_count; i++) {
        inlay_refusal silent = { .struct_size = sizeof silent,
                                 .node = i, /* and no code, for the provider gave none */
                                 .text = "the provider gave no answer for this node" };

        if (!c->candidates[i])
            silent.text = "the plugin was built before passes made this operator; build it with newer headers";
        if (c->all[i] && !c->answered[i] && take_refusal(c, &silent) != INLAY_OK)
            return no_memory(diag, "for the answers of provider %s", p->name);
    }
    return INLAY_OK;
}

inlay_status part_hear_all(const part_request *request, const uint8_t *candidates, struct arena *a,
                           struct partition *out, inlay_diag *diag)
{
    struct collector c = { .request = request, .a = a, .out = out, .all = candidates };

    c.candidates = arena_array(a, (size_t)request->snapshot->node_count + 1, sizeof *c.candidates);
    c.answered = arena_array(a, (size_t)request->snapshot->node_count + 1, sizeof *c.answered);
    if (c.answered == NULL || c.candidates == NULL)
        return no_memory(diag, "to assess graph '%s'", request->graph->name);
    for (; c.provider < request->provider_count; c.provider++) {
        inlay_status status;

        choose_candidates(&c);
        status = hear_provider(&c, diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}
