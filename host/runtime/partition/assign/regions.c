/* Regions: what is compiled and run as one, with what enters and leaves it, and the copies between. */
#include "base/memory.h"
#include "partition/assign/assign.h"
#include <stdlib.h>
#include <string.h>

/* Finds what enters and leaves a region. mark holds, per value, the number of the region that last touched it. */
static inlay_status find_boundary(const struct graph *g, const uint32_t *region_of, uint32_t index, part_region *region,
                                  const uint8_t *leaves, uint32_t *mark, struct arena *a)
{
    uint32_t inputs = 0, outputs = 0, *in, *out;
    size_t most_in = 0, most_out = 0;

    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *n = g->nodes[region->nodes[k]];
        most_in += part_reads(n);
        most_out += n->info.output_count;
    }
    in = arena_array(a, most_in + 1, sizeof *in);
    out = arena_array(a, most_out + 1, sizeof *out);
    if (in == NULL || out == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *n = g->nodes[region->nodes[k]];
        for (uint32_t i = 0; i < part_reads(n); i++) {
            uint32_t v = part_read_at(n, i);
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
static uint8_t *find_leavers(const struct graph *g, const uint32_t *region_of, struct arena *a)
{
    uint8_t *leaves = arena_alloc(a, g->value_count + 1);

    if (leaves == NULL)
        return NULL;
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] != INLAY_NONE)
            leaves[g->outputs[i]] = 1;
    for (uint32_t k = 0; k < g->node_count; k++) {
        const graph_node *n = g->nodes[k];
        for (uint32_t i = 0; i < part_reads(n); i++) {
            uint32_t v = part_read_at(n, i), maker = part_maker_of(g, v);
            if (maker != INLAY_NONE && region_of[maker] != region_of[k])
                leaves[v] = 1;
        }
    }
    return leaves;
}

/* ------------------------------------------------------------------ regions */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* From the order of units to the list of regions. region_of is set for each node. */
static bool list_regions(struct problem *x, const uint32_t *choice, struct arena *a, uint32_t *region_of)
{
    const part_schedule *s = &x->schedule;
    struct partition *p = x->p;
    uint32_t *nodes = arena_array(a, (size_t)x->nodes + 1, sizeof *nodes);
    uint32_t *offers = arena_array(a, (size_t)x->nodes + 1, sizeof *offers);

    p->regions = arena_array(a, (size_t)s->region_count + 1, sizeof *p->regions);
    if (nodes == NULL || offers == NULL || p->regions == NULL)
        return false;
    p->region_count = s->region_count;
    for (uint32_t i = 0; i < s->unit_count; i++) {
        uint32_t head = s->head[s->order[i]], offer = choice[head];
        part_region *r = &p->regions[s->region_of[i]];
        const part_offer *o = offer == INLAY_NONE ? NULL : &p->offers[offer];

        if (r->nodes == NULL) {
            r->provider = part_provider_of(x, offer);
            r->nodes = nodes;
            r->offers = offers;
        }
        for (uint32_t k = 0; k < (o == NULL ? 1 : o->node_count); k++) {
            region_of[o == NULL ? head : o->nodes[k]] = s->region_of[i];
            *nodes++ = o == NULL ? head : o->nodes[k];
            r->node_count++;
        }
        if (o != NULL) {
            *offers++ = offer;
            r->offer_count++;
            r->cost_ns += o->cost.ns;
            r->launch_ns = x->prices.launch[o->provider];
            p->offers[offer].chosen = true;
        }
    }
    for (uint32_t i = 0; i < p->region_count; i++) {
        part_region *r = &p->regions[i];

        qsort((uint32_t *)(uintptr_t)r->nodes, r->node_count, sizeof *r->nodes, by_number);
        p->cost_ns += r->cost_ns + r->launch_ns;
        p->launch_ns += r->launch_ns;
    }
    p->stretch_count = s->stretches;
    return true;
}

/* ------------------------------------------------------------------ copies */

/* The first region that reads the value in that domain; NONE: the caller of the graph. A value that only passes through
 * the host on its way is moved for whoever reads it first where it ends. */
static uint32_t first_reader_in(const struct problem *x, const uint32_t *choice, const uint32_t *region_of, uint32_t v,
                                part_hop hop, const part_hop *hops, uint32_t count)
{
    uint32_t first = INLAY_NONE;

    for (uint32_t i = x->links.reader_at[v]; i < x->links.reader_at[v + 1]; i++) {
        uint32_t n = x->links.readers[i], domain = part_read_in(x, n, choice[n], v);
        bool reached = domain == hop.to;

        for (uint32_t k = 0; !reached && hop.to == INLAY_DOMAIN_HOST && k < count; k++)
            reached = hops[k].from == INLAY_DOMAIN_HOST && hops[k].to == domain;
        if (reached && (first == INLAY_NONE || region_of[n] < first))
            first = region_of[n];
    }
    return first;
}

/* A change of layout is no copy but a part of its region: of the one that makes the value, or the first that reads
 * it. */
static bool add_border(struct problem *x, const uint32_t *choice, const uint32_t *region_of, uint32_t v, part_hop hop)
{
    bool leaves = hop.from >= x->domains.memory_count;
    uint32_t region =
        leaves ? region_of[part_maker_of(x->g, v)] : first_reader_in(x, choice, region_of, v, hop, x->domains.hops, 0);

    if (!leaves && hop.to < x->domains.memory_count)
        return false;
    if (region != INLAY_NONE) {
        x->p->regions[region].border_ns += part_hop_ns(x, v, hop);
        x->p->cost_ns += part_hop_ns(x, v, hop);
    }
    return true;
}

/* Is nothing copied on the way, for the device has the host's memory? What comes in is unless it can be told of that.
 */
static bool is_free(const struct problem *x, uint32_t v, part_hop hop)
{
    const uint32_t device = hop.to != INLAY_DOMAIN_HOST ? hop.to : hop.from, p = x->domains.owner[device];
    const part_provider *owner = p != INLAY_NONE ? &x->request->providers[p] : NULL;
    const inlay_domain_info *at = owner == NULL ? NULL
                                                : INLAY_AT(inlay_domain_info, owner->table->domains,
                                                           owner->table->domain_stride, device - owner->first_domain);
    const uint32_t both = INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT;

    return at != NULL && (at->flags & both) == both &&
           ((at->flags & INLAY_DOMAIN_IMPORTS_HOST) != 0 || part_maker_of(x->g, v) != INLAY_NONE ||
            x->g->parent != NULL);
}

static bool list_copies(struct problem *x, const uint32_t *choice, const uint32_t *region_of, struct arena *a)
{
    struct partition *p = x->p;
    size_t total = 0;

    for (uint32_t v = 0; x->domains.memory_count > 1 && v < x->values; v++)
        total += part_hops(x, choice, v);
    p->copies = arena_array(a, total + 1, sizeof *p->copies);
    for (uint32_t v = 0; p->copies != NULL && x->domains.count > 1 && v < x->values; v++) {
        uint32_t maker = part_maker_of(x->g, v), count = part_hops(x, choice, v);

        for (uint32_t k = 0; k < count; k++) {
            part_copy *c;

            if (add_border(x, choice, region_of, v, x->domains.hops[k]) || is_free(x, v, x->domains.hops[k]))
                continue;
            c = &p->copies[p->copy_count++];
            *c = (part_copy){ .value = v,
                              .from_region = maker == INLAY_NONE ? INLAY_NONE : region_of[maker],
                              .to_region =
                                  first_reader_in(x, choice, region_of, v, x->domains.hops[k], x->domains.hops, count),
                              .from_domain = x->domains.hops[k].from,
                              .to_domain = x->domains.hops[k].to,
                              .bytes = cost_value_bytes(&p->profile[v]),
                              .ns = part_hop_ns(x, v, x->domains.hops[k]),
                              .once = x->domains.hops[k].once };
            p->cost_ns += c->ns;
            p->once_ns += c->once ? c->ns : 0;
        }
    }
    return p->copies != NULL;
}

inlay_status part_form_regions(struct problem *x, const uint32_t *choice, struct arena *a, inlay_diag *diag)
{
    const struct graph *g = x->g;
    uint32_t *region_of = arena_array(x->scratch, (size_t)g->node_count + 1, sizeof *region_of);
    uint32_t *mark = arena_array(x->scratch, (size_t)g->value_count + 1, sizeof *mark);
    uint8_t *leaves = NULL;

    x->p->memory = arena_array(a, (size_t)x->providers + 1, sizeof *x->p->memory);
    if (region_of == NULL || mark == NULL || x->p->memory == NULL)
        goto no_memory;
    x->forms = true;
    if (!part_schedule_choice(x, choice, true))
        return inlay_fail(diag, INLAY_INTERNAL, "the regions of graph '%s' wait for each other", g->name);
    x->forms = false;
    if (!part_keeps_memory(x, choice)) /* as it was judged, it does */
        (void)part_judge(x, choice);
    if (x->failed)
        goto no_memory;
    x->lists = true;
    if (!list_regions(x, choice, a, region_of) || !list_copies(x, choice, region_of, a) ||
        !part_measure(x, choice, x->p->memory))
        goto no_memory;
    leaves = find_leavers(g, region_of, x->scratch);
    if (leaves == NULL)
        goto no_memory;
    memset(mark, 0xff, g->value_count * sizeof *mark);
    for (uint32_t i = 0; i < x->p->region_count; i++)
        if (find_boundary(g, region_of, i, &x->p->regions[i], leaves, mark, a) != INLAY_OK)
            goto no_memory;
    return INLAY_OK;
no_memory:
    return no_memory(diag, "to form the regions of graph '%s'", g->name);
}
