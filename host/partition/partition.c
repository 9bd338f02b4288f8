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

static bool owns_domain(const part_provider *p, uint32_t domain)
{
    return domain == INLAY_DOMAIN_HOST ||
           (domain >= p->first_domain && domain - p->first_domain < p->table->domain_count);
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
    for (uint32_t i = 0; INLAY_HAS(offer, placement_stride) && i < offer->placement_count; i++) {
        const inlay_placement *p;

        if (offer->placements == NULL || offer->placement_stride < sizeof(inlay_placement))
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
    if (INLAY_HAS(refusal, accepted_if) && refusal->accepted_if != NULL && refusal->accepted_if[0] != '\0')
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

/* What decides between groups. A group taken contracts its nodes to one; the graph that is left must have no cycle. */
typedef struct grouping {
    chooser *c;
    uint32_t *group_of;   /* [node_count] the group offer that was taken, INLAY_NONE */
    uint32_t *spans;      /* [node_count] groups taken with nodes before n as well as at n or after it */
    uint32_t *member;     /* [node_count] number of the last walk that had the node in its group */
    uint32_t *seen;       /* [node_count] number of the last walk that came by */
    uint32_t *value_seen; /* [value_count] likewise */
    uint32_t *stack;      /* [node_count] */
    uint32_t stack_count;
    uint32_t walk;
} grouping;

static uint32_t reads(const graph_node *n)
{
    return n->info.input_count + n->capture_count;
}

/* The i-th value that a node reads, for itself or for its bodies; INLAY_NONE when omitted. */
static uint32_t read_at(const graph_node *n, uint32_t i)
{
    return i < n->info.input_count ? n->info.inputs[i] : n->captures[i - n->info.input_count];
}

static uint32_t maker_of(const graph *g, uint32_t v)
{
    return v == INLAY_NONE ? INLAY_NONE : g->values[v].info.producer;
}

static void push_makers(grouping *x, uint32_t node, bool members_too)
{
    const graph *g = x->c->request->graph;

    for (uint32_t i = 0; i < reads(g->nodes[node]); i++) {
        uint32_t maker = maker_of(g, read_at(g->nodes[node], i));

        if (maker == INLAY_NONE || x->seen[maker] == x->walk || (x->member[maker] == x->walk && !members_too))
            continue;
        x->seen[maker] = x->walk;
        x->stack[x->stack_count++] = maker;
    }
}

/* Does something that the group needs from outside need, by whatever way, something of the group? Walks back from the
 * group's inputs; a group that was taken is entered and left as one. */
static bool closes_circle(grouping *x, const part_offer *offer)
{
    uint32_t floor = offer->nodes[0];

    x->walk++;
    x->stack_count = 0;
    for (uint32_t k = 0; k < offer->node_count; k++)
        x->member[offer->nodes[k]] = x->walk;
    for (uint32_t k = 0; k < offer->node_count; k++)
        push_makers(x, offer->nodes[k], false);
    /* No group reaches across the floor, so what lies below it needs nothing from above. */
    while (x->spans[floor] > 0)
        floor--;
    while (x->stack_count > 0) {
        uint32_t n = x->stack[--x->stack_count], group = x->group_of[n];

        if (x->member[n] == x->walk)
            return true;
        if (n < floor)
            continue;
        if (group == INLAY_NONE) {
            push_makers(x, n, true);
            continue;
        }
        for (uint32_t k = 0; k < x->c->p->offers[group].node_count; k++) {
            x->seen[x->c->p->offers[group].nodes[k]] = x->walk;
            push_makers(x, x->c->p->offers[group].nodes[k], true);
        }
    }
    return false;
}

/* What bringing the group its inputs costs, each once. closes_circle() has marked the members. */
static double group_copy_cost(grouping *x, const part_offer *offer)
{
    const graph *g = x->c->request->graph;
    uint32_t domain = part_default_domain(&x->c->request->providers[offer->provider]);
    double ns = 0;

    for (uint32_t k = 0; k < offer->node_count; k++) {
        const inlay_node_info *n = &g->nodes[offer->nodes[k]]->info;
        for (uint32_t i = 0; i < n->input_count; i++) {
            uint32_t v = n->inputs[i], maker = maker_of(g, v);

            if (v == INLAY_NONE || x->value_seen[v] == x->walk || x->c->value_domain[v] == domain ||
                (g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0 ||
                (maker != INLAY_NONE && x->member[maker] == x->walk))
                continue;
            x->value_seen[v] = x->walk;
            ns += COPY_LATENCY_NS + value_bytes(&x->c->states[v]) / COPY_BYTES_PER_NS;
        }
    }
    return ns;
}

static void take_group(grouping *x, uint32_t index)
{
    const part_offer *offer = &x->c->p->offers[index];

    for (uint32_t k = 0; k < offer->node_count; k++)
        x->group_of[offer->nodes[k]] = index;
    for (uint32_t n = offer->nodes[0] + 1; n <= offer->nodes[offer->node_count - 1]; n++)
        x->spans[n]++;
    settle(x->c, index);
}

/* Takes the group offer if its nodes are free and it is better than what they have. */
static void weigh_group(grouping *x, uint32_t index, bool only_needed)
{
    chooser *c = x->c;
    const part_request *r = c->request;
    const part_offer *offer = &c->p->offers[index];
    bool needed = false, earlier = false;
    double now_ns = 0;

    for (uint32_t k = 0; k < offer->node_count; k++) {
        uint32_t n = offer->nodes[k], best = c->best[n];

        if (x->group_of[n] != INLAY_NONE)
            return;
        needed |= best == INLAY_NONE;
        now_ns += best == INLAY_NONE ? 0 : c->best_ns[n];
        earlier |= best != INLAY_NONE && c->p->offers[best].provider < offer->provider;
    }
    if (needed != only_needed)
        return;
    if (closes_circle(x, offer)) {
        if (r->log != NULL)
            r->log(r->log_ctx, INLAY_LOG_WARNING, "a group offer was ignored: the group would form a cycle");
        return;
    }
    if (needed || (r->by_priority ? !earlier : cheaper(offer->cost.ns + group_copy_cost(x, offer), now_ns)))
        take_group(x, index);
}

/* Group offers replace the singles they cover when that is cheaper; first those with nodes that no single covers. Groups
 * that overlap a taken group stay out. */
static inlay_status choose_groups(chooser *c, arena *a, inlay_diag *diag)
{
    uint32_t nodes = c->request->snapshot->node_count, values = c->request->snapshot->value_count;
    grouping x = { .c = c };

    x.group_of = arena_array(a, (size_t)nodes + 1, sizeof *x.group_of);
    x.spans = arena_array(a, (size_t)nodes + 1, sizeof *x.spans);
    x.member = arena_array(a, (size_t)nodes + 1, sizeof *x.member);
    x.seen = arena_array(a, (size_t)nodes + 1, sizeof *x.seen);
    x.value_seen = arena_array(a, (size_t)values + 1, sizeof *x.value_seen);
    x.stack = arena_array(a, (size_t)nodes + 1, sizeof *x.stack);
    if (x.group_of == NULL || x.spans == NULL || x.member == NULL || x.seen == NULL || x.value_seen == NULL ||
        x.stack == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to weigh group offers");
    memset(x.group_of, 0xff, nodes * sizeof *x.group_of);
    for (int needed = 1; needed >= 0; needed--)
        for (uint32_t o = 0; o < c->p->offer_count; o++)
            if (c->p->offers[o].node_count > 1)
                weigh_group(&x, o, needed != 0);
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
        most_in += reads(n);
        most_out += n->info.output_count;
    }
    in = arena_array(a, most_in + 1, sizeof *in);
    out = arena_array(a, most_out + 1, sizeof *out);
    if (in == NULL || out == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *n = g->nodes[region->nodes[k]];
        for (uint32_t i = 0; i < reads(n); i++) {
            uint32_t v = read_at(n, i);
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
        for (uint32_t i = 0; i < reads(n); i++) {
            uint32_t v = read_at(n, i), maker = maker_of(g, v);
            if (maker != INLAY_NONE && region_of[maker] != region_of[k])
                leaves[v] = 1;
        }
    }
    return leaves;
}

/* What is scheduled as one before anything is merged: a node with its offer, a group, a node of the host's. */
typedef struct unit {
    uint32_t offer; /* INLAY_NONE: the host's */
    const uint32_t *nodes;
    uint32_t node_count;
    uint32_t at_node, at_read; /* how far order_units has looked for makers */
    bool entered;
} unit;

static bool make_units(const chooser *c, arena *a, unit **out_units, uint32_t *out_count, uint32_t *unit_of)
{
    uint32_t nodes = c->request->graph->node_count;
    uint32_t *self = arena_array(a, (size_t)nodes + 1, sizeof *self);
    unit *units = arena_array(a, (size_t)nodes + 1, sizeof *units);
    uint32_t count = 0;

    if (self == NULL || units == NULL)
        return false;
    memset(unit_of, 0xff, nodes * sizeof *unit_of);
    for (uint32_t n = 0; n < nodes; n++) {
        uint32_t o = c->best[n];

        self[n] = n;
        if (unit_of[n] != INLAY_NONE)
            continue; /* came with a group */
        units[count] = (unit){ .offer = o, .nodes = &self[n], .node_count = 1 };
        if (o != INLAY_NONE) {
            units[count].nodes = c->p->offers[o].nodes;
            units[count].node_count = c->p->offers[o].node_count;
        }
        for (uint32_t k = 0; k < units[count].node_count; k++)
            unit_of[units[count].nodes[k]] = count;
        count++;
    }
    *out_units = units;
    *out_count = count;
    return true;
}

/* The next unit that u needs and that has not been entered; INLAY_NONE: all have been. */
static uint32_t next_maker(const graph *g, unit *units, const uint32_t *unit_of, uint32_t u)
{
    unit *x = &units[u];

    for (; x->at_node < x->node_count; x->at_node++, x->at_read = 0) {
        const graph_node *n = g->nodes[x->nodes[x->at_node]];
        while (x->at_read < reads(n)) {
            uint32_t maker = maker_of(g, read_at(n, x->at_read++));
            if (maker != INLAY_NONE && !units[unit_of[maker]].entered)
                return unit_of[maker];
        }
    }
    return INLAY_NONE;
}

/* Units in the order of their first nodes, except that a group waits until what it needs has been made. */
static bool order_units(const graph *g, unit *units, uint32_t count, const uint32_t *unit_of, arena *a,
                        uint32_t *out_order)
{
    uint32_t *stack = arena_array(a, (size_t)count + 1, sizeof *stack), depth = 0, done = 0;

    if (stack == NULL)
        return false;
    for (uint32_t u = 0; u < count; u++) {
        if (units[u].entered)
            continue;
        stack[depth++] = u;
        units[u].entered = true;
        while (depth > 0) {
            uint32_t maker = next_maker(g, units, unit_of, stack[depth - 1]);

            if (maker == INLAY_NONE) {
                out_order[done++] = stack[--depth];
            } else {
                units[maker].entered = true;
                stack[depth++] = maker;
            }
        }
    }
    return true;
}

/* May the unit join the region before it? Neighbours in an order that can be executed never form a cycle. */
static bool joins(const partition *p, const part_region *last, const unit *u)
{
    return last != NULL && u->offer != INLAY_NONE && u->node_count == 1 && last->offer_count > 0 &&
           last->provider == p->offers[u->offer].provider && (p->offers[u->offer].flags & INLAY_OFFER_MERGE) != 0 &&
           (p->offers[last->offers[0]].flags & INLAY_OFFER_MERGE) != 0 &&
           last->nodes[last->node_count - 1] < u->nodes[0];
}

/* Orders the units and merges neighbours of one provider that may be merged. region_of is set for each node. */
static bool merge_units(const chooser *c, arena *a, uint32_t *region_of)
{
    const graph *g = c->request->graph;
    partition *p = c->p;
    unit *units = NULL;
    uint32_t count = 0, *order, *nodes, *offers, *unit_of = arena_array(a, (size_t)g->node_count + 1, sizeof *unit_of);

    order = arena_array(a, (size_t)g->node_count + 1, sizeof *order);
    nodes = arena_array(a, (size_t)g->node_count + 1, sizeof *nodes);
    offers = arena_array(a, (size_t)g->node_count + 1, sizeof *offers);
    p->regions = arena_array(a, (size_t)g->node_count + 1, sizeof *p->regions);
    if (unit_of == NULL || order == NULL || nodes == NULL || offers == NULL || p->regions == NULL ||
        !make_units(c, a, &units, &count, unit_of) || !order_units(g, units, count, unit_of, a, order))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const unit *u = &units[order[i]];
        part_region *last = p->region_count > 0 ? &p->regions[p->region_count - 1] : NULL;

        if (!joins(p, last, u)) {
            last = &p->regions[p->region_count++];
            last->provider = u->offer == INLAY_NONE ? INLAY_NONE : p->offers[u->offer].provider;
            last->nodes = nodes;
            last->offers = offers;
        }
        for (uint32_t k = 0; k < u->node_count; k++) {
            *nodes++ = u->nodes[k];
            region_of[u->nodes[k]] = p->region_count - 1;
        }
        last->node_count += u->node_count;
        if (u->offer != INLAY_NONE) {
            *offers++ = u->offer;
            last->offer_count++;
            last->cost_ns += p->offers[u->offer].cost.ns;
            p->cost_ns += p->offers[u->offer].cost.ns;
            p->offers[u->offer].chosen = true;
        }
    }
    return true;
}

static inlay_status form_regions(chooser *c, arena *a, inlay_diag *diag)
{
    const graph *g = c->request->graph;
    uint32_t *region_of = arena_array(a, (size_t)g->node_count + 1, sizeof *region_of);
    uint32_t *mark = arena_array(a, (size_t)g->value_count + 1, sizeof *mark);
    uint8_t *leaves = NULL;

    if (region_of != NULL && mark != NULL && merge_units(c, a, region_of))
        leaves = find_leavers(g, region_of, a);
    if (leaves == NULL)
        goto no_memory;
    memset(mark, 0xff, g->value_count * sizeof *mark);
    for (uint32_t i = 0; i < c->p->region_count; i++)
        if (find_boundary(g, region_of, i, &c->p->regions[i], leaves, mark, a) != INLAY_OK)
            goto no_memory;
    return INLAY_OK;
no_memory:
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to form the regions of graph '%s'", g->name);
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
    return form_regions(&ch, a, diag);
}
