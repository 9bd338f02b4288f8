/* What there is to choose from, and what everything costs. */
#include "partition/problem/problem.h"
#include "partition/problem/flow.h"
#include <math.h>
#include <string.h>

/* Small graphs are searched to the end as long as that takes no more steps, some milliseconds. */
enum { EXACT_STEPS = 20000 };

/* Prices beyond are all alike: nobody waits eleven days. It keeps sums of prices exact. */
static const double DEAREST_NS = 1e15;

uint32_t part_domain_at(const struct problem *x, uint32_t offer, uint32_t value)
{
    const part_offer *o;

    if (offer == INLAY_NONE)
        return INLAY_DOMAIN_HOST;
    o = &x->p->offers[offer];
    for (uint32_t i = 0; x->odd[offer] && i < o->placement_count; i++)
        if (o->placements[i].value == value && part_is_plain(&o->placements[i]))
            return o->placements[i].domain;
    if (part_merges(x, offer) && x->domains.layout_of[o->provider] != INLAY_DOMAIN_HOST)
        return x->domains.layout_of[o->provider];
    return part_default_domain(&x->request->providers[o->provider]);
}

static bool is_odd(const struct problem *x, const part_offer *o)
{
    uint32_t usual = part_default_domain(&x->request->providers[o->provider]);

    for (uint32_t i = 0; i < o->placement_count; i++)
        if (o->placements[i].domain != usual && part_is_plain(&o->placements[i]))
            return true;
    return false;
}

/* ------------------------------------------------------------------ the graph */

/* Who reads each value, each node once. */
static bool find_readers(struct problem *x)
{
    const struct graph *g = x->g;
    uint32_t *last = arena_array(x->scratch, (size_t)x->values + 1, sizeof *last), total = 0;

    x->links.reader_at = arena_array(x->scratch, (size_t)x->values + 2, sizeof *x->links.reader_at);
    x->links.leaves = arena_array(x->scratch, (size_t)x->values + 1, sizeof *x->links.leaves);
    if (last == NULL || x->links.reader_at == NULL || x->links.leaves == NULL)
        return false;
    for (uint32_t pass = 0; pass < 2; pass++) {
        memset(last, 0xff, x->values * sizeof *last);
        for (uint32_t n = 0; n < x->nodes; n++) {
            for (uint32_t i = 0; i < part_reads(g->nodes[n]); i++) {
                uint32_t v = part_read_at(g->nodes[n], i);
                if (v == INLAY_NONE || last[v] == n || part_is_constant(g, v))
                    continue;
                last[v] = n;
                if (pass == 0)
                    x->links.reader_at[v + 2]++, total++;
                else
                    x->links.readers[x->links.reader_at[v + 1]++] = n;
            }
        }
        if (pass > 0)
            break;
        for (uint32_t v = 0; v < x->values; v++)
            x->links.reader_at[v + 2] += x->links.reader_at[v + 1];
        x->links.readers = arena_array(x->scratch, (size_t)total + 1, sizeof *x->links.readers);
        if (x->links.readers == NULL)
            return false;
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] != INLAY_NONE)
            x->links.leaves[g->outputs[i]] = 1;
    return true;
}

/* The maker of what a node reads that comes last before it; where there is none, the node before that has none either:
 * it is likely that they end up in one region. */
static bool find_parents(struct problem *x)
{
    uint32_t orphan = INLAY_NONE;

    x->links.parent = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *x->links.parent);
    if (x->links.parent == NULL)
        return false;
    for (uint32_t n = 0; n < x->nodes; n++) {
        uint32_t best = INLAY_NONE;

        for (uint32_t i = 0; i < part_reads(x->g->nodes[n]); i++) {
            uint32_t maker = part_maker_of(x->g, part_read_at(x->g->nodes[n], i));
            if (maker != INLAY_NONE && (best == INLAY_NONE || maker > best))
                best = maker;
        }
        if (best == INLAY_NONE) {
            best = orphan;
            orphan = n;
        }
        x->links.parent[n] = best;
    }
    return true;
}

/* ------------------------------------------------------------------ domains */

/* Is there a price for values that enter or leave what is merged of this provider? Of those in host memory; what has
 * memory of its own pays more for the copy. */
static bool has_layouts(const struct problem *x, uint32_t provider)
{
    if (part_default_domain(&x->request->providers[provider]) != INLAY_DOMAIN_HOST)
        return false;
    for (uint32_t o = 0; o < x->offers; o++) {
        const part_offer *offer = &x->p->offers[o];
        if (offer->provider == provider && (offer->flags & INLAY_OFFER_MERGE) != 0 &&
            (offer->cost.enter_ns > 0 || offer->cost.leave_ns > 0))
            return true;
    }
    return false;
}

static void raise(double *price, double ns)
{
    *price = fmin(fmax(*price, ns), DEAREST_NS);
}

/* Values in the layout of a provider: the way there costs what the reader that asks most asks for. */
static void price_layouts(struct problem *x)
{
    const inlay_graph *snapshot = x->request->snapshot;

    for (uint32_t o = 0; o < x->offers; o++) {
        const part_offer *offer = &x->p->offers[o];
        uint32_t d = x->domains.layout_of[offer->provider];

        if (d == INLAY_DOMAIN_HOST || !part_merges(x, o))
            continue;
        for (uint32_t k = 0; k < offer->node_count; k++) {
            const inlay_node_info *n = &x->g->nodes[offer->nodes[k]]->info;

            for (uint32_t i = 0; i < n->input_count; i++) {
                uint32_t v = n->inputs[i];
                if (v != INLAY_NONE && !part_is_constant(x->g, v))
                    raise(&x->domains.down[(size_t)v * x->domains.count + d],
                          cost_border_ns(snapshot, offer, x->p->profile, v, true));
            }
            for (uint32_t i = 0; i < n->output_count; i++) {
                uint32_t v = n->outputs[i];
                if (v != INLAY_NONE)
                    raise(&x->domains.up[(size_t)v * x->domains.count + d],
                          cost_border_ns(snapshot, offer, x->p->profile, v, false));
            }
        }
    }
}

static bool find_domains(struct problem *x)
{
    const part_request *r = x->request;
    size_t cells;

    x->domains.count = 1;
    x->domains.layout_of = arena_array(x->scratch, (size_t)x->providers + 1, sizeof *x->domains.layout_of);
    if (x->domains.layout_of == NULL)
        return false;
    for (uint32_t p = 0; p < r->provider_count; p++)
        if (r->providers[p].table->domain_count > 0 &&
            r->providers[p].first_domain + r->providers[p].table->domain_count > x->domains.count)
            x->domains.count = r->providers[p].first_domain + r->providers[p].table->domain_count;
    x->domains.memory_count = x->domains.count;
    for (uint32_t p = 0; p < x->providers; p++)
        x->domains.layout_of[p] = has_layouts(x, p) ? x->domains.count++ : INLAY_DOMAIN_HOST;
    cells = (size_t)x->values * x->domains.count + 1;
    x->domains.owner = arena_array(x->scratch, x->domains.count, sizeof *x->domains.owner);
    x->domains.marked = arena_array(x->scratch, x->domains.count, sizeof *x->domains.marked);
    x->domains.hops = arena_array(x->scratch, (size_t)x->domains.count * 2 + 4, sizeof *x->domains.hops);
    x->domains.up = arena_array(x->scratch, cells, sizeof *x->domains.up);
    x->domains.down = arena_array(x->scratch, cells, sizeof *x->domains.down);
    if (x->domains.owner == NULL || x->domains.marked == NULL || x->domains.hops == NULL || x->domains.up == NULL ||
        x->domains.down == NULL)
        return false;
    memset(x->domains.owner, 0xff, x->domains.count * sizeof *x->domains.owner);
    for (uint32_t p = 0; p < r->provider_count; p++)
        for (uint32_t d = 0; d < r->providers[p].table->domain_count; d++)
            x->domains.owner[r->providers[p].first_domain + d] = p;
    x->domains.owner[INLAY_DOMAIN_HOST] = INLAY_NONE;
    for (uint32_t v = 0; x->domains.count > 1 && v < x->values; v++) {
        uint64_t bytes = cost_value_bytes(&x->p->profile[v]);

        if (part_is_constant(x->g, v))
            continue;
        for (uint32_t d = 1; d < x->domains.memory_count; d++) {
            if (x->domains.owner[d] == INLAY_NONE)
                continue;
            x->domains.up[(size_t)v * x->domains.count + d] =
                fmin(cost_copy_ns(r->costs, r->providers, r->provider_count, d, 0, bytes), DEAREST_NS);
            x->domains.down[(size_t)v * x->domains.count + d] =
                fmin(cost_copy_ns(r->costs, r->providers, r->provider_count, 0, d, bytes), DEAREST_NS);
        }
    }
    return true;
}

/* ------------------------------------------------------------------ offers */

/* How much cheaper a provider must be, for each place that it stands behind another one in the user's order, before it
 * replaces that one: a change must promise more than prices may be off. Of two prices the one that is known less well
 * decides. [providers * nodes] the largest error among the single offers of this provider and those before it, as
 * nodes' offers stand, from source `least` on. NULL: no memory. */
static double *find_margins(const struct problem *x, uint32_t least)
{
    double *margins = arena_array(x->scratch, (size_t)x->providers * x->nodes + 1, sizeof *margins);

    for (uint32_t o = 0; margins != NULL && o < x->offers; o++) {
        const part_offer *offer = &x->p->offers[o];
        double *margin = &margins[(size_t)offer->provider * x->nodes + offer->nodes[0]];
        if (offer->node_count == 1 && offer->cost_source >= least)
            *margin = fmax(*margin, offer->cost_error);
    }
    for (size_t i = x->nodes; margins != NULL && i < (size_t)x->providers * x->nodes; i++)
        margins[i] = fmax(margins[i], margins[i - x->nodes]);
    return margins;
}

/* [nodes] 1 = some provider's price for the node was measured here: by tune, or on this machine by calibrate. NULL: no
 * memory. */
static uint8_t *find_measured(const struct problem *x)
{
    uint8_t *measured = arena_alloc(x->scratch, (size_t)x->nodes + 1);

    for (uint32_t o = 0; measured != NULL && o < x->offers; o++)
        for (uint32_t k = 0; x->p->offers[o].cost_source >= COST_PROFILE && k < x->p->offers[o].node_count; k++)
            measured[x->p->offers[o].nodes[k]] = 1;
    return measured;
}

/* Nobody has measured the offer, but another for one of its nodes: it must promise more than it may be off by, wherever
 * its provider stands in the order. */
static bool is_doubtful(const part_offer *offer, const uint8_t *measured)
{
    for (uint32_t k = 0; offer->cost_source < COST_PROFILE && k < offer->node_count; k++)
        if (measured[offer->nodes[k]] != 0)
            return true;
    return false;
}

/* [providers * nodes] how many of the providers up to this one offer the node at a price that nobody has measured.
 * NULL: no memory. */
static uint32_t *count_unmeasured(const struct problem *x)
{
    uint32_t *count = arena_array(x->scratch, (size_t)x->providers * x->nodes + 1, sizeof *count);

    for (uint32_t o = 0; count != NULL && o < x->offers; o++) {
        const part_offer *offer = &x->p->offers[o];

        if (offer->node_count == 1 && offer->cost_source < COST_PROFILE)
            count[(size_t)offer->provider * x->nodes + offer->nodes[0]] = 1;
    }
    for (size_t i = x->nodes; count != NULL && i < (size_t)x->providers * x->nodes; i++)
        count[i] += count[i - x->nodes];
    return count;
}

static bool price_offers(struct problem *x)
{
    const double *all = find_margins(x, COST_NONE), *known = find_margins(x, COST_PROFILE);
    const uint8_t *measured = find_measured(x);
    const uint32_t *unmeasured = count_unmeasured(x);

    if (all == NULL || known == NULL || measured == NULL || unmeasured == NULL)
        return false;
    for (uint32_t p = 0; p < x->providers; p++) {
        x->prices.launch[p] = fmin(cost_launch_ns(x->request->costs, &x->request->providers[p]), DEAREST_NS);
        x->ordered |= x->prices.launch[p] > 0;
    }
    for (uint32_t o = 0; o < x->offers; o++) {
        const part_offer *offer = &x->p->offers[o];
        const bool is_known = offer->cost_source >= COST_PROFILE;
        double ns = fmin(offer->cost.ns, DEAREST_NS), margin = offer->cost_error, places = offer->provider;

        for (uint32_t k = 0; k < offer->node_count; k++)
            margin = fmax(margin, (is_known ? known : all)[(size_t)offer->provider * x->nodes + offer->nodes[k]]);
        if (is_known) /* those before it that nobody has measured have a margin of their own */
            places -= unmeasured[(size_t)offer->provider * x->nodes + offer->nodes[0]];
        x->odd[o] = is_odd(x, offer);
        x->prices.margin_ns[o] = ns * margin * fmax(places, 0);
        x->prices.base[o] = ns + x->prices.margin_ns[o] + (is_doubtful(offer, measured) ? ns * offer->cost_error : 0);
        if (!part_merges(x, o))
            x->prices.base[o] += x->prices.launch[offer->provider];
    }
    return true;
}

static bool list_singles(struct problem *x)
{
    uint32_t *at, count = 0;

    x->picks.first_single = arena_array(x->scratch, (size_t)x->nodes + 2, sizeof *x->picks.first_single);
    x->picks.singles = arena_array(x->scratch, (size_t)x->offers + 1, sizeof *x->picks.singles);
    x->picks.groups = arena_array(x->scratch, (size_t)x->offers + 1, sizeof *x->picks.groups);
    x->picks.cheapest = arena_array(x->scratch, (size_t)x->providers * x->nodes + 1, sizeof *x->picks.cheapest);
    if (x->picks.first_single == NULL || x->picks.singles == NULL || x->picks.groups == NULL ||
        x->picks.cheapest == NULL)
        return false;
    memset(x->picks.cheapest, 0xff, (size_t)x->providers * x->nodes * sizeof *x->picks.cheapest);
    at = x->picks.first_single;
    for (uint32_t o = 0; o < x->offers; o++)
        if (x->usable[o] && x->p->offers[o].node_count == 1)
            at[x->p->offers[o].nodes[0] + 1]++;
        else if (x->usable[o])
            x->picks.groups[x->picks.group_count++] = o;
    for (uint32_t n = 0; n < x->nodes; n++)
        at[n + 1] += at[n];
    for (uint32_t o = x->offers; o-- > 0;) { /* backwards, so that first_single ends up where it started */
        const part_offer *offer = &x->p->offers[o];
        uint32_t *best;

        if (!x->usable[o] || offer->node_count != 1)
            continue;
        x->picks.singles[--at[offer->nodes[0] + 1]] = o;
        count++;
        best = &x->picks.cheapest[(size_t)offer->provider * x->nodes + offer->nodes[0]];
        if (!x->odd[o] && (*best == INLAY_NONE || x->prices.base[o] <= x->prices.base[*best]))
            *best = o;
    }
    /* at[n + 1] is now where n's begin. */
    memmove(at, at + 1, x->nodes * sizeof *at);
    at[x->nodes] = count;
    return true;
}

/* A label for each provider, and one for each further way in which it places the values of some node. */
static bool list_labels(struct problem *x)
{
    uint32_t *most = arena_array(x->scratch, (size_t)x->providers + 1, sizeof *most), count = 0;

    if (most == NULL)
        return false;
    for (uint32_t n = 0; n < x->nodes; n++) {
        for (uint32_t i = x->picks.first_single[n]; i < x->picks.first_single[n + 1]; i++) {
            uint32_t p = x->p->offers[x->picks.singles[i]].provider, odd = 0;

            for (uint32_t k = x->picks.first_single[n]; k <= i; k++)
                odd += x->odd[x->picks.singles[k]] && x->p->offers[x->picks.singles[k]].provider == p;
            most[p] = odd > most[p] ? odd : most[p];
        }
    }
    for (uint32_t p = 0; p < x->providers; p++)
        count += 1 + most[p];
    x->picks.labels = arena_array(x->scratch, (size_t)count + 1, sizeof *x->picks.labels);
    if (x->picks.labels == NULL)
        return false;
    for (uint32_t p = 0; p < x->providers; p++)
        for (uint32_t k = 0; k <= most[p]; k++)
            x->picks.labels[x->picks.label_count++] = (part_label){ p, k };
    return true;
}

void problem_set_prices(struct problem *x, const double *per_byte)
{
    double total = x->prices.boundary_ns * x->nodes;

    for (uint32_t o = 0; o < x->offers; o++) {
        const part_offer *offer = &x->p->offers[o];
        double weight = 0;

        x->prices.offer[o] = x->prices.base[o];
        if (per_byte != NULL && per_byte[offer->provider] > 0) {
            weight = (double)offer->resident_bytes + (double)offer->workspace_bytes;
            for (uint32_t k = 0; k < offer->node_count; k++) {
                const inlay_node_info *n = &x->g->nodes[offer->nodes[k]]->info;
                for (uint32_t i = 0; i < n->output_count; i++)
                    if (n->outputs[i] != INLAY_NONE)
                        weight += (double)cost_value_bytes(&x->p->profile[n->outputs[i]]);
            }
            x->prices.offer[o] += fmin(per_byte[offer->provider] * weight, DEAREST_NS);
        }
        total += x->prices.offer[o];
    }
    for (size_t i = 0; i < (size_t)x->values * x->domains.count; i++)
        total += x->domains.up[i] + x->domains.down[i];
    for (uint32_t p = 0; p < x->providers; p++)
        total += x->prices.launch[p] * x->nodes;
    x->prices.scale = fmin((double)(FLOW_NEVER / 4) / (total + 1), 1024);
}

/* The bounds. A device's memory is what the user says or what the device has, less what the other graphs of the session
 * have taken. */
static void find_limits(struct problem *x)
{
    const part_request *r = x->request;

    for (uint32_t p = 0; p < x->providers; p++) {
        const part_provider *provider = &r->providers[p];
        const inlay_provider *t = provider->table;
        uint64_t bytes = 0, used = r->used_bytes != NULL ? r->used_bytes[p] : 0;

        if (t->default_domain > 0 && t->domains != NULL && t->default_domain <= t->domain_count)
            bytes = INLAY_AT(inlay_domain_info, t->domains, t->domain_stride, t->default_domain - 1)->memory_bytes;
        for (uint32_t i = 0; r->rules != NULL && i < r->rules->limit_count; i++)
            if (strcmp(r->rules->limits[i].provider, provider->name) == 0)
                bytes = r->rules->limits[i].bytes;
        x->bounds.limit[p] = bytes == 0 ? UINT64_MAX : bytes > used ? bytes - used : 0;
        x->bounds.limited |= bytes != 0;
    }
    x->bounds.max_partitions = r->max_partitions > 0 ? r->max_partitions
                               : r->rules != NULL    ? r->rules->max_partitions
                                                     : 0;
    for (uint32_t p = 0; r->must_run != NULL && p < r->provider_count; p++)
        if (strcmp(r->providers[p].name, r->must_run) == 0)
            x->bounds.required = p;
    x->ordered |= x->bounds.limited || x->bounds.max_partitions > 0;
}

bool problem_init(struct problem *out, const part_request *request, struct partition *p, const uint8_t *candidates,
                  uint8_t *usable, struct arena *scratch)
{
    struct problem *x = out;
    size_t offers = (size_t)p->offer_count + 1, providers = (size_t)request->provider_count + 1;

    *x = (struct problem){ .request = request,
                           .g = request->graph,
                           .p = p,
                           .scratch = scratch,
                           .candidates = candidates,
                           .usable = usable,
                           .nodes = request->graph->node_count,
                           .values = request->graph->value_count,
                           .providers = request->provider_count,
                           .offers = p->offer_count,
                           .bounds.required = INLAY_NONE,
                           .exact_steps = EXACT_STEPS };
    x->odd = arena_array(scratch, offers, sizeof *x->odd);
    x->prices.base = arena_array(scratch, offers, sizeof *x->prices.base);
    x->prices.margin_ns = arena_array(scratch, offers, sizeof *x->prices.margin_ns);
    x->prices.offer = arena_array(scratch, offers, sizeof *x->prices.offer);
    x->prices.launch = arena_array(scratch, providers, sizeof *x->prices.launch);
    x->bounds.limit = arena_array(scratch, providers, sizeof *x->bounds.limit);
    x->memory = arena_array(scratch, providers, sizeof *x->memory);
    if (x->odd == NULL || x->prices.base == NULL || x->prices.margin_ns == NULL || x->prices.offer == NULL ||
        x->prices.launch == NULL || x->bounds.limit == NULL || x->memory == NULL || !find_domains(x) ||
        !find_readers(x) || !find_parents(x) || !price_offers(x))
        return false;
    price_layouts(x);
    find_limits(x);
    if (!part_groups_init(x))
        return false;
    part_void_circles(x);
    if (!list_singles(x) || !list_labels(x) || !part_schedule_init(x))
        return false;
    problem_set_prices(x, NULL);
    return true;
}
