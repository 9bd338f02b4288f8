#include "partition/partition.h"
#include <stdlib.h>
#include <string.h>

/* Copies between domains cost this much until a machine profile knows better. */
static const double COPY_LATENCY_NS = 10000, COPY_BYTES_PER_NS = 8;

typedef struct collector {
    const part_request *request;
    arena *a;
    partition *out;
    uint32_t provider;
    uint32_t offer_capacity, refusal_capacity;
    const uint8_t *candidates;
    bool *answered; /* [node_count] of the provider at hand: offered or refused */
} collector;

uint32_t part_default_domain(const part_provider *provider)
{
    uint32_t d = provider->table->default_domain;

    return d == 0 ? INLAY_DOMAIN_HOST : provider->first_domain + d - 1;
}

bool part_is_host_node(const graph *g, const graph_node *n)
{
    if (n->body_count > 0 || (n->row != NULL && (n->row->flags & OP_HOST) != 0))
        return true;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (n->info.inputs[i] != INLAY_NONE && g->values[n->info.inputs[i]].info.kind != INLAY_VALUE_TENSOR)
            return true;
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE && g->values[n->info.outputs[i]].info.kind != INLAY_VALUE_TENSOR)
            return true;
    return false;
}

/* Makes room for one more element in an arena array that doubles. */
static void *grow(arena *a, void *array, uint32_t count, uint32_t *capacity, size_t element_bytes)
{
    uint32_t bigger = *capacity == 0 ? 64 : *capacity * 2;
    void *copy;

    if (count < *capacity)
        return array;
    copy = arena_array(a, bigger, element_bytes);
    if (copy != NULL) {
        if (count > 0)
            memcpy(copy, array, count * element_bytes);
        *capacity = bigger;
    }
    return copy;
}

/* ------------------------------------------------------------------ hearing the providers */

static void void_offer(const collector *c, const char *why)
{
    char text[256];

    if (c->request->log == NULL)
        return;
    (void)snprintf(text, sizeof text, "provider %s: an offer was ignored: %s",
                   c->request->providers[c->provider].name, why);
    c->request->log(c->request->log_ctx, INLAY_LOG_WARNING, text);
}

/* A bad offer voids itself only: the others of the provider stand. */
static const char *offer_fault(const collector *c, const inlay_offer *offer)
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
    }
    if (INLAY_HAS(offer, flags) && (offer->flags & 0xffffu & ~(uint32_t)INLAY_OFFER_MERGE) != 0)
        return "it has a flag that this host does not know";
    if (INLAY_HAS(offer, placement_stride) && offer->placement_count > 0 &&
        (offer->placements == NULL || offer->placement_stride < sizeof(inlay_placement)))
        return "its placements are not readable";
    return NULL;
}

static inlay_status take_offer(void *ctx, const inlay_offer *offer)
{
    collector *c = ctx;
    const char *fault = offer_fault(c, offer);
    part_offer *o;

    if (fault != NULL) {
        void_offer(c, fault);
        return INLAY_OK;
    }
    c->out->offers = grow(c->a, c->out->offers, c->out->offer_count, &c->offer_capacity, sizeof *o);
    if (c->out->offers == NULL)
        return INLAY_OUT_OF_MEMORY;
    o = &c->out->offers[c->out->offer_count];
    *o = (part_offer){ .provider = c->provider, .cookie = offer->cookie, .node_count = offer->node_count };
    o->flags = offer->flags;
    o->nodes = arena_copy(c->a, offer->nodes, offer->node_count * sizeof *offer->nodes);
    if (o->nodes == NULL)
        return INLAY_OUT_OF_MEMORY;
    if (INLAY_HAS(offer, placement_stride) && offer->placement_count > 0) {
        inlay_placement *p = arena_array(c->a, offer->placement_count, sizeof *p);
        if (p == NULL)
            return INLAY_OUT_OF_MEMORY;
        for (uint32_t i = 0; i < offer->placement_count; i++)
            p[i] = *INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i);
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
    collector *c = ctx;
    part_refusal *r;

    if (refusal->node >= c->request->snapshot->node_count)
        return INLAY_OK;
    c->out->refusals = grow(c->a, c->out->refusals, c->out->refusal_count, &c->refusal_capacity, sizeof *r);
    if (c->out->refusals == NULL)
        return INLAY_OUT_OF_MEMORY;
    r = &c->out->refusals[c->out->refusal_count];
    *r = (part_refusal){ .provider = c->provider, .node = refusal->node, .code = refusal->code };
    r->text = arena_string(c->a, refusal->text != NULL ? refusal->text : "no reason given");
    if (refusal->accepted_if != NULL && refusal->accepted_if[0] != '\0')
        r->accepted_if = arena_string(c->a, refusal->accepted_if);
    if (r->text == NULL)
        return INLAY_OUT_OF_MEMORY;
    c->answered[refusal->node] = true;
    c->out->refusal_count++;
    return INLAY_OK;
}

static inlay_status hear_provider(collector *c, inlay_diag *diag)
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
        inlay_refusal silent = { .struct_size = sizeof silent, .node = i, .code = INLAY_REFUSE_OPERATOR,
                                 .text = "the provider gave no answer for this node" };
        if (c->candidates[i] && !c->answered[i] && take_refusal(c, &silent) != INLAY_OK)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the answers of provider %s", p->name);
    }
    return INLAY_OK;
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

/* Costs below this differ by noise; the order of the providers then decides. */
static bool cheaper(double a, double b)
{
    return a < b * 0.999;
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
                ns += COPY_LATENCY_NS + value_bytes(&states[v]) / COPY_BYTES_PER_NS;
        }
    }
    return ns;
}

/* ------------------------------------------------------------------ choosing */

typedef struct chooser {
    const part_request *request;
    partition *p;
    inlay_value_state *states;
    uint32_t *best;          /* [node_count] chosen offer, INLAY_NONE */
    double *best_ns;         /* [node_count] its cost, copies included */
    uint32_t *value_domain;  /* [value_count] where the maker leaves it */
} chooser;

static void settle(chooser *c, uint32_t offer)
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
                wins = cheaper(ns, best_ns);
            if (wins) {
                best = o;
                best_ns = ns;
            }
        }
        if (best != INLAY_NONE) {
            c->best_ns[n] = best_ns;
            settle(c, best);
        }
    }
}

/* Is the group convex: no path leaves it and comes back? Checked by walking the nodes between its first and last. */
static bool group_is_convex(const inlay_graph *s, const uint32_t *nodes, uint32_t count, uint8_t *reached)
{
    uint32_t k = 0;

    memset(reached, 0, s->value_count);
    for (uint32_t n = nodes[0]; n <= nodes[count - 1]; n++) {
        const inlay_node_info *info = inlay_graph_node(s, n);
        bool member = nodes[k] == n, outside = false;

        k += member;
        for (uint32_t i = 0; i < info->input_count; i++)
            if (info->inputs[i] != INLAY_NONE)
                outside |= reached[info->inputs[i]] == 2 || (!member && reached[info->inputs[i]] == 1);
        if (member && outside)
            return false;
        for (uint32_t i = 0; i < info->output_count; i++)
            if (info->outputs[i] != INLAY_NONE)
                reached[info->outputs[i]] = member ? 1 : outside ? 2 : 0;
    }
    return true;
}

/* Group offers replace the singles they cover when that is cheaper; groups that overlap a taken group stay out. */
static inlay_status choose_groups(chooser *c, arena *a, inlay_diag *diag)
{
    const part_request *r = c->request;
    uint8_t *reached = arena_alloc(a, r->snapshot->value_count + 1);
    uint8_t *grouped = arena_alloc(a, r->snapshot->node_count + 1);

    if (reached == NULL || grouped == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to weigh group offers");
    for (uint32_t o = 0; o < c->p->offer_count; o++) {
        part_offer *offer = &c->p->offers[o];
        double now_ns = 0, ns;
        bool open = true, must = false, first = false;

        if (offer->node_count < 2)
            continue;
        for (uint32_t k = 0; k < offer->node_count; k++) {
            uint32_t n = offer->nodes[k];
            open &= !grouped[n];
            must |= c->best[n] == INLAY_NONE;
            now_ns += c->best[n] == INLAY_NONE ? 0 : c->best_ns[n];
            first |= c->best[n] != INLAY_NONE && c->p->offers[c->best[n]].provider < offer->provider;
        }
        if (!open)
            continue;
        if (!group_is_convex(r->snapshot, offer->nodes, offer->node_count, reached)) {
            if (r->log != NULL)
                r->log(r->log_ctx, INLAY_LOG_WARNING, "a group offer was ignored: the group would form a cycle");
            continue;
        }
        ns = offer->cost.ns; /* inner edges need no copy; those at the border cost every candidate alike */
        if (must || (r->by_priority ? !first : cheaper(ns, now_ns))) {
            for (uint32_t k = 0; k < offer->node_count; k++)
                grouped[offer->nodes[k]] = 1;
            settle(c, o);
        }
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ regions */

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

/* Finds what enters and leaves a region. mark holds, per value, the number of the region that last touched it. */
static inlay_status find_boundary(const graph *g, const uint32_t *region_of, uint32_t index, part_region *region,
                                  const uint8_t *leaves, uint32_t *mark, arena *a)
{
    uint32_t inputs = 0, outputs = 0, *in, *out;
    size_t most_in = 0, most_out = 0;

    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *n = g->nodes[region->nodes[k]];
        most_in += n->info.input_count + n->capture_count;
        most_out += n->info.output_count;
    }
    in = arena_array(a, most_in + 1, sizeof *in);
    out = arena_array(a, most_out + 1, sizeof *out);
    if (in == NULL || out == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *n = g->nodes[region->nodes[k]];
        for (uint32_t i = 0; i < n->info.input_count + n->capture_count; i++) {
            uint32_t v = i < n->info.input_count ? n->info.inputs[i] : n->captures[i - n->info.input_count];
            const inlay_value_info *info = v == INLAY_NONE ? NULL : &g->values[v].info;
            bool inside;

            if (info == NULL || mark[v] == index || (info->flags & INLAY_VALUE_CONSTANT) != 0)
                continue;
            inside = info->producer != INLAY_NONE && region_of[info->producer] == index;
            if (!inside) {
                mark[v] = index;
                in[inputs++] = v;
            }
        }
        for (uint32_t i = 0; i < n->info.output_count; i++) {
            uint32_t v = n->info.outputs[i];
            if (v != INLAY_NONE && (leaves[v] || region->node_count == 1))
                out[outputs++] = v;
        }
    }
    region->inputs = in;
    region->outputs = out;
    region->input_count = inputs;
    region->output_count = outputs;
    return INLAY_OK;
}

/* Which values are used outside the region of their maker, or are outputs of the graph. */
static uint8_t *find_leavers(const graph *g, const uint32_t *region_of, arena *a)
{
    uint8_t *leaves = arena_alloc(a, g->value_count + 1);

    if (leaves == NULL)
        return NULL;
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] != INLAY_NONE)
            leaves[g->outputs[i]] = 1;
    for (uint32_t k = 0; k < g->node_count; k++) {
        const graph_node *n = g->nodes[k];
        for (uint32_t i = 0; i < n->info.input_count + n->capture_count; i++) {
            uint32_t v = i < n->info.input_count ? n->info.inputs[i] : n->captures[i - n->info.input_count];
            uint32_t maker = v == INLAY_NONE ? INLAY_NONE : g->values[v].info.producer;
            if (maker != INLAY_NONE && region_of[maker] != region_of[k])
                leaves[v] = 1;
        }
    }
    return leaves;
}

/* Cuts the node list into regions: an offer that may be merged joins the region before it when that has the same
 * provider and also may be. Runs of neighbours in topological order can't form a cycle. */
static inlay_status form_regions(chooser *c, arena *a, inlay_diag *diag)
{
    const part_request *r = c->request;
    const graph *g = r->graph;
    partition *p = c->p;
    uint32_t *region_of = arena_array(a, g->node_count + 1, sizeof *region_of);
    uint32_t *mark = arena_array(a, g->value_count + 1, sizeof *mark);
    uint8_t *leaves;
    uint32_t count = 0;

    p->regions = arena_array(a, g->node_count + 1, sizeof *p->regions);
    if (region_of == NULL || mark == NULL || p->regions == NULL)
        goto no_memory;
    memset(region_of, 0xff, g->node_count * sizeof *region_of);
    memset(mark, 0xff, g->value_count * sizeof *mark);
    for (uint32_t n = 0; n < g->node_count; n++) {
        uint32_t o = c->best[n], *nodes, *offers;
        const part_offer *offer = o == INLAY_NONE ? NULL : &p->offers[o];
        part_region *last = count > 0 ? &p->regions[count - 1] : NULL;
        bool merge;

        if (region_of[n] != INLAY_NONE)
            continue; /* came with a group */
        merge = offer != NULL && last != NULL && last->provider == offer->provider && offer->node_count == 1 &&
                (offer->flags & INLAY_OFFER_MERGE) != 0 && (p->offers[last->offers[0]].flags & INLAY_OFFER_MERGE) != 0 &&
                last->nodes[last->node_count - 1] < n;
        if (!merge) {
            last = &p->regions[count++];
            last->provider = offer == NULL ? INLAY_NONE : offer->provider;
        }
        /* A region's nodes are a run, so room for the rest of the graph would be enough; take it in steps. */
        nodes = arena_array(a, last->node_count + (offer == NULL ? 1 : offer->node_count), sizeof *nodes);
        offers = arena_array(a, last->offer_count + 1, sizeof *offers);
        if (nodes == NULL || offers == NULL)
            goto no_memory;
        if (last->node_count > 0)
            memcpy(nodes, last->nodes, last->node_count * sizeof *nodes);
        if (last->offer_count > 0)
            memcpy(offers, last->offers, last->offer_count * sizeof *offers);
        for (uint32_t k = 0; k < (offer == NULL ? 1 : offer->node_count); k++) {
            uint32_t node = offer == NULL ? n : offer->nodes[k];
            nodes[last->node_count++] = node;
            region_of[node] = count - 1;
        }
        last->nodes = nodes;
        if (offer != NULL) {
            offers[last->offer_count++] = o;
            last->offers = offers;
            last->cost_ns += offer->cost.ns;
            p->cost_ns += offer->cost.ns;
            p->offers[o].chosen = true;
        }
    }
    p->region_count = count;
    leaves = find_leavers(g, region_of, a);
    if (leaves == NULL)
        goto no_memory;
    for (uint32_t i = 0; i < count; i++)
        if (find_boundary(g, region_of, i, &p->regions[i], leaves, mark, a) != INLAY_OK)
            goto no_memory;
    return INLAY_OK;
no_memory:
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to form the regions of graph '%s'", g->name);
}

/* A group that spans other nodes can end up before one of its inputs' makers; order regions by what they need. */
static inlay_status order_regions(const graph *g, partition *p, arena *a, inlay_diag *diag)
{
    uint32_t *maker = arena_array(a, g->value_count + 1, sizeof *maker);
    uint8_t *done = arena_alloc(a, p->region_count + 1);
    part_region *sorted = arena_array(a, p->region_count + 1, sizeof *sorted);
    uint32_t count = 0, from = 0;

    if (maker == NULL || done == NULL || sorted == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to order the regions of graph '%s'", g->name);
    memset(maker, 0xff, g->value_count * sizeof *maker);
    for (uint32_t i = 0; i < p->region_count; i++)
        for (uint32_t k = 0; k < p->regions[i].output_count; k++)
            maker[p->regions[i].outputs[k]] = i;
    while (count < p->region_count) {
        uint32_t before = count;
        while (from < p->region_count && done[from])
            from++;
        for (uint32_t i = from; i < p->region_count; i++) {
            bool ready = !done[i];
            for (uint32_t k = 0; ready && k < p->regions[i].input_count; k++) {
                uint32_t m = maker[p->regions[i].inputs[k]];
                ready = m == INLAY_NONE || done[m];
            }
            if (ready) {
                done[i] = 1;
                sorted[count++] = p->regions[i];
            }
        }
        if (count == before)
            return inlay_fail(diag, INLAY_INTERNAL, "the regions of graph '%s' depend on each other in a circle",
                              g->name);
    }
    p->regions = sorted;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the whole */

static inlay_status hear_all(collector *c, inlay_diag *diag)
{
    for (c->provider = 0; c->provider < c->request->provider_count; c->provider++) {
        inlay_status status = hear_provider(c, diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

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
    collector c = { .request = request, .a = a, .out = out };
    chooser ch = { .request = request, .p = out };
    uint8_t *candidates = arena_alloc(a, g->node_count + 1);
    uint32_t *first, *next;
    inlay_status status;

    *out = (partition){ 0 };
    c.answered = arena_array(a, g->node_count + 1, sizeof *c.answered);
    c.candidates = candidates;
    if (candidates == NULL || c.answered == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to assess graph '%s'", g->name);
    for (uint32_t i = 0; i < g->node_count; i++)
        candidates[i] = !part_is_host_node(g, g->nodes[i]);
    status = hear_all(&c, diag);
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
    status = choose_groups(&ch, a, diag);
    if (status != INLAY_OK)
        return status;
    for (uint32_t n = 0; n < g->node_count; n++)
        if (candidates[n] && ch.best[n] == INLAY_NONE)
            return nobody_offers(request, out, n, diag);
    status = form_regions(&ch, a, diag);
    return status == INLAY_OK ? order_regions(g, out, a, diag) : status;
}
