#include "partition/internal.h"
#include <string.h>

uint32_t part_default_domain(const part_provider *provider)
{
    uint32_t d = provider->table->default_domain;

    return d == 0 ? INLAY_DOMAIN_HOST : provider->first_domain + d - 1;
}

/* ------------------------------------------------------------------ costs */

bool part_cheaper(double a, double b)
{
    return a < b * 0.999;
}

double part_copy_ns(const chooser *c, uint32_t value, uint32_t from, uint32_t to)
{
    const part_request *r = c->request;

    return cost_copy_ns(r->costs, r->providers, r->provider_count, from, to, cost_value_bytes(&c->states[value]));
}

/* What bringing the inputs of node n to `domain` costs, given where their makers put them. */
static double copy_cost(const chooser *c, uint32_t node, uint32_t domain)
{
    const inlay_node_info *n = inlay_graph_node(c->request->snapshot, node);
    double ns = 0;

    for (uint32_t i = 0; i < n->input_count; i++) {
        uint32_t v = n->inputs[i];
        const inlay_value_info *info = inlay_graph_value(c->request->snapshot, v);
        if (info != NULL && (info->flags & INLAY_VALUE_CONSTANT) == 0 && c->value_domain[v] != domain)
            ns += part_copy_ns(c, v, c->value_domain[v], domain);
    }
    return ns;
}

/* ------------------------------------------------------------------ choosing */

void part_settle(chooser *c, uint32_t offer)
{
    part_offer *o = &c->p->offers[offer];
    uint32_t domain = part_default_domain(&c->request->providers[o->provider]);

    for (uint32_t k = 0; k < o->node_count; k++) {
        const inlay_node_info *n = inlay_graph_node(c->request->snapshot, o->nodes[k]);
        c->best[o->nodes[k]] = offer;
        for (uint32_t i = 0; i < n->output_count; i++)
            if (n->outputs[i] != INLAY_NONE)
                c->value_domain[n->outputs[i]] = domain;
    }
}

/* The cheapest single-node offer for every node, in topological order so that the place of inputs is known. */
static void choose_singles(chooser *c, const uint32_t *first_offer, const uint32_t *next_offer)
{
    const part_request *r = c->request;

    for (uint32_t n = 0; n < r->snapshot->node_count; n++) {
        uint32_t best = INLAY_NONE;
        double best_ns = 0;

        for (uint32_t o = first_offer[n]; o != INLAY_NONE; o = next_offer[o]) {
            const part_offer *offer = &c->p->offers[o];
            double ns = offer->cost.ns +
                        copy_cost(c, n, part_default_domain(&r->providers[offer->provider]));
            bool wins = best == INLAY_NONE;

            if (!wins && part_by_priority(r))
                wins = offer->provider < c->p->offers[best].provider;
            else if (!wins)
                wins = part_cheaper(ns, best_ns);
            if (wins) {
                best = o;
                best_ns = ns;
            }
        }
        if (best != INLAY_NONE) {
            c->best_ns[n] = best_ns;
            part_settle(c, best);
        }
    }
}

static inlay_status nobody_offers(const part_request *r, const partition *p, uint32_t node, inlay_diag *diag)
{
    const inlay_node_info *n = inlay_graph_node(r->snapshot, node);
    char reasons[320] = "";
    size_t at = 0;

    for (uint32_t i = 0; i < p->refusal_count && at < sizeof reasons - 1; i++) {
        const part_refusal *f = &p->refusals[i];
        if (f->node == node) {
            int wrote = snprintf(reasons + at, sizeof reasons - at, "%s%s says: %s", at > 0 ? "; " : "",
                                 r->providers[f->provider].name, f->text);
            at += wrote > 0 ? (size_t)wrote : 0;
        }
    }
    (void)inlay_fail(diag, INLAY_UNSUPPORTED, "no provider runs %s-%u (domain %s), node '%s' of graph '%s': %s",
                     n->op_type.data, n->since_version, n->domain.data, n->name.data,
                     r->graph->name != NULL ? r->graph->name : "", reasons[0] != '\0' ? reasons : "none is loaded");
    if (diag != NULL)
        (void)snprintf(diag->node, sizeof diag->node, "%s", n->name.data);
    return INLAY_UNSUPPORTED;
}

/* ------------------------------------------------------------------ the whole */

/* The price of every offer at the shapes at hand. */
static void price_all(const part_request *r, partition *p)
{
    for (uint32_t i = 0; i < p->offer_count; i++) {
        part_offer *o = &p->offers[i];
        cost_question q = { .graph = r->snapshot, .provider = &r->providers[o->provider], .offer = o,
                            .values = p->profile, .max_threads = r->max_threads };

        o->cost_source = cost_of_offer(r->costs, &q, &o->cost);
    }
}

/* From priced offers to regions. candidates: [node_count] nodes that a provider must run. */
static inlay_status choose(const part_request *request, const uint8_t *candidates, arena *a, partition *out,
                           inlay_diag *diag)
{
    const graph *g = request->graph;
    chooser ch = { .request = request, .p = out, .states = out->profile };
    uint32_t *first, *next;
    inlay_status status;

    ch.best = arena_array(a, (size_t)g->node_count + 1, sizeof *ch.best);
    ch.best_ns = arena_array(a, (size_t)g->node_count + 1, sizeof *ch.best_ns);
    ch.value_domain = arena_array(a, (size_t)g->value_count + 1, sizeof *ch.value_domain);
    first = arena_array(a, (size_t)g->node_count + 1, sizeof *first);
    next = arena_array(a, (size_t)out->offer_count + 1, sizeof *next);
    if (ch.best == NULL || ch.best_ns == NULL || ch.value_domain == NULL || first == NULL || next == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to partition graph '%s'", g->name);
    memset(first, 0xff, g->node_count * sizeof *first);
    memset(ch.best, 0xff, g->node_count * sizeof *ch.best);
    for (uint32_t o = out->offer_count; o-- > 0;) {
        if (out->offers[o].node_count == 1 && !part_is_barred(request, o)) {
            next[o] = first[out->offers[o].nodes[0]];
            first[out->offers[o].nodes[0]] = o;
        }
    }
    choose_singles(&ch, first, next);
    status = part_choose_groups(&ch, a, diag);
    if (status != INLAY_OK)
        return status;
    for (uint32_t n = 0; n < g->node_count; n++)
        if (candidates[n] && ch.best[n] == INLAY_NONE)
            return nobody_offers(request, out, n, diag);
    return part_form_regions(&ch, a, diag);
}

/* [node_count] 1 = a provider may, and must, run the node; the others are the host's. NULL: no memory. */
static uint8_t *find_candidates(const graph *g, arena *a)
{
    uint8_t *candidates = arena_alloc(a, (size_t)g->node_count + 1);

    for (uint32_t i = 0; candidates != NULL && i < g->node_count; i++)
        candidates[i] = !graph_node_is_host(g, g->nodes[i]);
    return candidates;
}

inlay_status partition_graph(const part_request *request, arena *a, partition *out, inlay_diag *diag)
{
    uint8_t *candidates = find_candidates(request->graph, a);
    inlay_status status;

    *out = (partition){ 0 };
    if (candidates == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to assess graph '%s'", request->graph->name);
    status = part_hear_all(request, candidates, a, out, diag);
    if (status != INLAY_OK)
        return status;
    out->profile = cost_shapes(request->graph, request->snapshot, request->sizes, a);
    if (out->profile == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to partition graph '%s'", request->graph->name);
    price_all(request, out);
    return choose(request, candidates, a, out, diag);
}

inlay_status partition_again(const part_request *request, const partition *base, arena *a, partition *out,
                             inlay_diag *diag)
{
    uint8_t *candidates = find_candidates(request->graph, a);

    *out = (partition){ .offer_count = base->offer_count, .refusals = base->refusals,
                        .refusal_count = base->refusal_count, .profile = base->profile };
    if (base->offer_count > 0)
        out->offers = arena_copy(a, base->offers, base->offer_count * sizeof *out->offers);
    if (candidates == NULL || (out->offers == NULL && base->offer_count > 0))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to partition graph '%s'", request->graph->name);
    for (uint32_t i = 0; i < out->offer_count; i++)
        out->offers[i].chosen = false;
    return choose(request, candidates, a, out, diag);
}
