#include "partition/internal.h"
#include <string.h>

/* Copies between domains cost this much until a machine profile knows better. */
static const double COPY_LATENCY_NS = 10000, COPY_BYTES_PER_NS = 8;

uint32_t part_default_domain(const part_provider *provider)
{
    uint32_t d = provider->table->default_domain;

    return d == 0 ? INLAY_DOMAIN_HOST : provider->first_domain + d - 1;
}

/* ------------------------------------------------------------------ costs */

/* Shapes for pricing: what is fixed is fixed, a symbol or an unknown size counts as 1. */
static inlay_value_state *price_shapes(const inlay_graph *s, arena *a)
{
    inlay_value_state *states = arena_array(a, s->value_count, sizeof *states);

    for (uint32_t i = 0; states != NULL && i < s->value_count; i++) {
        const inlay_value_info *v = inlay_graph_value(s, i);
        int64_t *dims;

        states[i].dtype = v->dtype;
        states[i].rank = v->rank;
        states[i].data = v->data;
        states[i].data_bytes = v->data_bytes;
        if (v->rank == INLAY_RANK_UNKNOWN)
            continue;
        dims = arena_array(a, v->rank, sizeof *dims);
        if (dims == NULL)
            return NULL;
        for (uint32_t d = 0; d < v->rank; d++)
            dims[d] = v->dims[d].kind == INLAY_DIM_FIXED ? v->dims[d].value : 1;
        states[i].dims = dims;
    }
    return states;
}

static double value_bytes(const inlay_value_state *v)
{
    double n = inlay_dtype_bits(v->dtype) / 8.0;

    for (uint32_t d = 0; v->rank != INLAY_RANK_UNKNOWN && d < v->rank; d++)
        n *= (double)v->dims[d];
    return n;
}

bool part_cheaper(double a, double b)
{
    return a < b * 0.999;
}

double part_copy_ns(const inlay_value_state *v)
{
    return COPY_LATENCY_NS + value_bytes(v) / COPY_BYTES_PER_NS;
}

/* What bringing the inputs of node n to `domain` costs, given where their makers put them. */
static double copy_cost(const part_request *r, const inlay_value_state *states, const uint32_t *value_domain,
                        const uint32_t *nodes, uint32_t node_count, uint32_t domain)
{
    double ns = 0;

    for (uint32_t k = 0; k < node_count; k++) {
        const inlay_node_info *n = inlay_graph_node(r->snapshot, nodes[k]);
        for (uint32_t i = 0; i < n->input_count; i++) {
            uint32_t v = n->inputs[i];
            const inlay_value_info *info = inlay_graph_value(r->snapshot, v);
            if (info != NULL && (info->flags & INLAY_VALUE_CONSTANT) == 0 && value_domain[v] != domain)
                ns += part_copy_ns(&states[v]);
        }
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
            double ns = offer->cost.ns + copy_cost(r, c->states, c->value_domain, &n, 1,
                                                   part_default_domain(&r->providers[offer->provider]));
            bool wins = best == INLAY_NONE;

            if (!wins && r->by_priority)
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

static void price_all(chooser *c)
{
    const part_request *r = c->request;

    for (uint32_t i = 0; i < c->p->offer_count; i++) {
        part_offer *o = &c->p->offers[i];
        const part_provider *p = &r->providers[o->provider];
        inlay_offer offer = { .struct_size = sizeof offer, .cookie = o->cookie, .nodes = o->nodes,
                              .node_count = o->node_count, .flags = o->flags, .placements = o->placements,
                              .placement_count = o->placement_count, .placement_stride = sizeof(inlay_placement),
                              .workspace_bytes = o->workspace_bytes, .resident_bytes = o->resident_bytes };

        inlay_cost_request ask = { .struct_size = sizeof ask, .graph = r->snapshot, .offer = &offer,
                                   .values = c->states, .value_count = r->snapshot->value_count,
                                   .value_stride = sizeof *c->states, .max_threads = r->max_threads };

        o->cost = (inlay_cost){ .struct_size = sizeof o->cost };
        if (p->table->cost(p->state, &ask, &o->cost) != INLAY_OK ||
            !(o->cost.ns >= 0))
            o->cost.ns = 1e12; /* a provider that can't price its own offer is asked last */
    }
}

inlay_status partition_graph(const part_request *request, arena *a, partition *out, inlay_diag *diag)
{
    const graph *g = request->graph;
    chooser ch = { .request = request, .p = out };
    uint8_t *candidates = arena_alloc(a, g->node_count + 1);
    uint32_t *first, *next;
    inlay_status status;

    *out = (partition){ 0 };
    if (candidates == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to assess graph '%s'", g->name);
    for (uint32_t i = 0; i < g->node_count; i++)
        candidates[i] = !graph_node_is_host(g, g->nodes[i]);
    status = part_hear_all(request, candidates, a, out, diag);
    if (status != INLAY_OK)
        return status;

    ch.states = price_shapes(request->snapshot, a);
    out->profile = ch.states;
    ch.best = arena_array(a, g->node_count + 1, sizeof *ch.best);
    ch.best_ns = arena_array(a, g->node_count + 1, sizeof *ch.best_ns);
    ch.value_domain = arena_array(a, g->value_count + 1, sizeof *ch.value_domain);
    first = arena_array(a, g->node_count + 1, sizeof *first);
    next = arena_array(a, out->offer_count + 1, sizeof *next);
    if (ch.states == NULL || ch.best == NULL || ch.best_ns == NULL || ch.value_domain == NULL || first == NULL ||
        next == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to partition graph '%s'", g->name);
    price_all(&ch);
    memset(first, 0xff, g->node_count * sizeof *first);
    memset(ch.best, 0xff, g->node_count * sizeof *ch.best);
    for (uint32_t o = out->offer_count; o-- > 0;) {
        if (out->offers[o].node_count == 1) {
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
