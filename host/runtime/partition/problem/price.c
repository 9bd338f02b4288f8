/* What a choice costs. This is the objective: the search, the report and the tests all ask here. */
#include "partition/problem/problem.h"
#include <string.h>

/* ------------------------------------------------------------------ copies */

/* Two domains that know nothing of each other meet in the host's. */
static bool is_direct(const struct problem *x, uint32_t from, uint32_t to)
{
    return from == INLAY_DOMAIN_HOST || to == INLAY_DOMAIN_HOST ||
           (x->domains.owner[from] == x->domains.owner[to] && x->domains.owner[from] != INLAY_NONE);
}

static bool is_chosen(const struct problem *x, const uint32_t *choice, uint32_t node)
{
    return choice[node] != INLAY_NONE || !x->candidates[node];
}

part_source part_source_of(const struct problem *x, uint32_t value)
{
    const part_home h = part_home_of(x, value);
    const uint32_t maker = part_maker_of(x->g, h.next != INLAY_NONE ? h.next : value);

    if (h.next != INLAY_NONE &&
        (maker == INLAY_NONE || !x->candidates[maker] || part_home_of(x, h.next).wanted != PART_ANYWHERE))
        return (part_source){ .node = INLAY_NONE }; /* it comes home after each iteration */
    if (maker == INLAY_NONE || !x->candidates[maker])
        return (part_source){ .node = INLAY_NONE, .domain = h.lies };
    return (part_source){ .node = maker, .made = h.next != INLAY_NONE ? h.next : value };
}

uint32_t part_lies_in(const struct problem *x, part_source source, uint32_t value, uint32_t offer)
{
    if (source.node == INLAY_NONE)
        return source.domain;
    return source.made == value ? part_domain_at(x, offer, value)
                                : part_memory_of(x, part_domain_at(x, offer, source.made));
}

uint32_t part_read_in(const struct problem *x, uint32_t node, uint32_t offer, uint32_t value)
{
    if (offer == INLAY_NONE && x->p->homes != NULL && part_hands_on(x->g->nodes[node], value))
        return x->lists ? INLAY_NONE : x->p->homes[value].inside;
    return part_domain_at(x, offer, value);
}

uint32_t part_goes_to(const struct problem *x, uint32_t value, uint32_t home)
{
    const part_home h = part_home_of(x, value);

    if (h.wanted == PART_ANYWHERE)
        return part_memory_of(x, home);
    return h.stacked && h.wanted != home ? (uint32_t)INLAY_DOMAIN_HOST : h.wanted;
}

double part_share(const struct problem *x, bool once)
{
    return once && x->p->iterations > 1 ? 1 / x->p->iterations : 1;
}

/* Lists how the value gets from home to there, unless it has been there. */
static uint32_t travel(struct problem *x, uint32_t count, uint32_t home, uint32_t to, bool once)
{
    const uint32_t mark = x->domains.mark;

    if (x->domains.marked[to] == mark)
        return count;
    x->domains.marked[to] = mark;
    if (is_direct(x, home, to)) {
        x->domains.hops[count++] = (part_hop){ home, to, once };
        return count;
    }
    if (x->domains.marked[INLAY_DOMAIN_HOST] != mark) {
        x->domains.marked[INLAY_DOMAIN_HOST] = mark;
        x->domains.hops[count++] = (part_hop){ home, INLAY_DOMAIN_HOST, once };
    }
    x->domains.hops[count++] = (part_hop){ INLAY_DOMAIN_HOST, to, once };
    return count;
}

uint32_t part_hops(struct problem *x, const uint32_t *choice, uint32_t value)
{
    const part_source source = part_source_of(x, value);
    const part_home h = part_home_of(x, value);
    const uint32_t offer = source.node != INLAY_NONE ? choice[source.node] : INLAY_NONE;
    uint32_t home, count = 0;

    if (part_is_constant(x->g, value) || (source.node != INLAY_NONE && offer == INLAY_NONE))
        return 0;
    home = part_lies_in(x, source, value, offer);
    /* Sizes that the host computes when it plans are brought once, not in each run. */
    if (home == INLAY_NONE || (source.node != INLAY_NONE && x->g->values[value].info.elements != NULL &&
                               !part_merges(x, offer) && home == INLAY_DOMAIN_HOST))
        return 0;
    if (h.next != INLAY_NONE && h.lies != INLAY_NONE) { /* there before the first iteration */
        x->domains.marked[h.lies] = ++x->domains.mark;
        count = travel(x, count, h.lies, home, true);
    }
    x->domains.marked[home] = ++x->domains.mark;
    for (uint32_t i = x->links.reader_at[value]; i < x->links.reader_at[value + 1]; i++) {
        const uint32_t reader = x->links.readers[i];
        uint32_t to;

        if (!is_chosen(x, choice, reader) ||
            (source.node != INLAY_NONE && source.made == value && choice[reader] == offer))
            continue;
        to = part_read_in(x, reader, choice[reader], value);
        count = to != INLAY_NONE ? travel(x, count, home, to, h.once) : count;
    }
    if (x->links.leaves[value])
        count = travel(x, count, home, part_goes_to(x, value, home), h.once);
    return count;
}

double part_hop_ns(const struct problem *x, uint32_t value, part_hop hop)
{
    const part_request *r = x->request;

    if (hop.to == INLAY_DOMAIN_HOST)
        return x->domains.up[(size_t)value * x->domains.count + hop.from];
    if (hop.from == INLAY_DOMAIN_HOST)
        return x->domains.down[(size_t)value * x->domains.count + hop.to];
    return cost_copy_ns(r->costs, r->providers, r->provider_count, hop.from, hop.to,
                        cost_value_bytes(&x->p->profile[value]));
}

/* ------------------------------------------------------------------ memory */

/* A stay of a value in a domain: [first, last] in units of the schedule. */
struct stay {
    uint32_t first, last;
};

/* What is needed to walk through the lives of values. */
struct measure {
    struct problem *x;
    const uint32_t *choice;
    uint32_t *place;           /* [units] position in the order */
    uint32_t *begins;          /* [regions + 1] first position */
    uint64_t *grows, *shrinks; /* [providers * (units + 2)] bytes that begin and end there */
};

static struct stay region_stay(const struct measure *m, uint32_t region)
{
    return (struct stay){ m->begins[region], m->begins[region + 1] - 1 };
}

static uint32_t position_of(const struct measure *m, uint32_t node)
{
    return m->place[m->x->schedule.unit_of[node]];
}

static void count_stay(const struct measure *m, uint32_t domain, struct stay s, uint64_t bytes)
{
    uint32_t owner = m->x->domains.owner[domain], units = m->x->schedule.unit_count;
    size_t row;

    if (owner == INLAY_NONE)
        return;
    row = (size_t)owner * (units + 2);
    m->grows[row + s.first] += bytes;
    m->shrinks[row + s.last + 1] += bytes;
}

/* The stays of a value in device domains: where it is made from then on, where it is copied from its first use there,
 * both until the last use. */
static void count_value(const struct measure *m, uint32_t v)
{
    struct problem *x = m->x;
    const part_schedule *s = &x->schedule;
    uint32_t maker = part_maker_of(x->g, v), home = INLAY_DOMAIN_HOST, count, own = INLAY_NONE;
    uint64_t bytes = cost_value_bytes(&x->p->profile[v]);
    struct stay at_home = { 0, 0 };

    if (maker != INLAY_NONE) {
        home = part_domain_at(x, m->choice[maker], v);
        own = s->region_of[position_of(m, maker)];
        at_home.first = at_home.last = position_of(m, maker);
    }
    count = part_hops(x, m->choice, v);
    for (uint32_t d = 0; d <= count; d++) {
        uint32_t domain = d == count ? home : x->domains.hops[d].to, first = UINT32_MAX, last = 0;

        for (uint32_t i = x->links.reader_at[v]; i < x->links.reader_at[v + 1]; i++) {
            uint32_t n = x->links.readers[i], at = position_of(m, n), region = s->region_of[at];
            struct stay use = region == own ? (struct stay){ at, at } : region_stay(m, region);

            if (part_domain_at(x, m->choice[n], v) != domain && (domain != home || region == own))
                continue;
            first = use.first < first ? use.first : first;
            last = use.last > last ? use.last : last;
            if (region != own && maker != INLAY_NONE) /* it leaves its region: there from beginning to end */
                at_home.first = m->begins[own];
        }
        if (domain != home) {
            if (first != UINT32_MAX)
                count_stay(m, domain, (struct stay){ first, last }, bytes);
            continue;
        }
        if (x->links.leaves[v])
            last = s->unit_count;
        at_home.last = last > at_home.last ? last : at_home.last;
        count_stay(m, home, at_home, bytes);
    }
}

static void count_offers(const struct measure *m, part_memory *out)
{
    const struct problem *x = m->x;
    const part_schedule *s = &x->schedule;

    for (uint32_t i = 0; i < s->unit_count; i++) {
        uint32_t o = m->choice[s->head[s->order[i]]];

        if (o == INLAY_NONE)
            continue;
        out[x->p->offers[o].provider].resident_bytes += x->p->offers[o].resident_bytes;
        m->grows[(size_t)x->p->offers[o].provider * (s->unit_count + 2) + i] += x->p->offers[o].workspace_bytes;
        m->shrinks[(size_t)x->p->offers[o].provider * (s->unit_count + 2) + i + 1] += x->p->offers[o].workspace_bytes;
    }
}

/* Values that the host's own domain holds count for the provider that makes them, if its limit is the user's. */
static void count_host_values(const struct measure *m, uint32_t v)
{
    const struct problem *x = m->x;
    uint32_t maker = part_maker_of(x->g, v), provider, units = x->schedule.unit_count, last;
    size_t row;

    provider = maker == INLAY_NONE ? INLAY_NONE : part_provider_of(x, m->choice[maker]);
    if (provider == INLAY_NONE || part_memory_of(x, part_domain_at(x, m->choice[maker], v)) != INLAY_DOMAIN_HOST)
        return;
    last = position_of(m, maker);
    for (uint32_t i = x->links.reader_at[v]; i < x->links.reader_at[v + 1]; i++)
        last = position_of(m, x->links.readers[i]) > last ? position_of(m, x->links.readers[i]) : last;
    row = (size_t)provider * (units + 2);
    m->grows[row + position_of(m, maker)] += cost_value_bytes(&x->p->profile[v]);
    m->shrinks[row + last + 1] += cost_value_bytes(&x->p->profile[v]);
}

bool part_measure(struct problem *x, const uint32_t *choice, part_memory *out)
{
    const part_schedule *s = &x->schedule;
    struct measure m = { .x = x, .choice = choice };
    struct arena a = { 0 };
    size_t cells = (size_t)x->providers * (s->unit_count + 2) + 1;
    bool ok = false;

    m.place = arena_array(&a, (size_t)s->unit_count + 1, sizeof *m.place);
    m.begins = arena_array(&a, (size_t)s->region_count + 2, sizeof *m.begins);
    m.grows = arena_array(&a, cells, sizeof *m.grows);
    m.shrinks = arena_array(&a, cells, sizeof *m.shrinks);
    if (m.place == NULL || m.begins == NULL || m.grows == NULL || m.shrinks == NULL)
        goto done;
    for (uint32_t i = s->unit_count; i-- > 0;) {
        m.place[s->order[i]] = i;
        m.begins[s->region_of[i]] = i;
    }
    m.begins[s->region_count] = s->unit_count;
    for (uint32_t p = 0; p < x->providers; p++)
        out[p] = (part_memory){ .limit_bytes = x->bounds.limit[p] == UINT64_MAX ? 0 : x->bounds.limit[p] };
    count_offers(&m, out);
    for (uint32_t v = 0; v < x->values; v++) {
        if (part_is_constant(x->g, v) ||
            (part_maker_of(x->g, v) == INLAY_NONE && x->links.reader_at[v] == x->links.reader_at[v + 1]))
            continue;
        count_value(&m, v);
        count_host_values(&m, v);
    }
    for (uint32_t p = 0; p < x->providers; p++) {
        uint64_t now = 0;
        for (uint32_t i = 0; i <= s->unit_count; i++) {
            now += m.grows[(size_t)p * (s->unit_count + 2) + i] - m.shrinks[(size_t)p * (s->unit_count + 2) + i];
            out[p].peak_bytes = now > out[p].peak_bytes ? now : out[p].peak_bytes;
        }
    }
    ok = true;
done:
    arena_deinit(&a);
    return ok;
}

/* ------------------------------------------------------------------ the objective */

double part_base_price(struct problem *x, const uint32_t *choice)
{
    double price = 0;

    for (uint32_t n = 0; n < x->nodes; n++)
        if (choice[n] != INLAY_NONE && x->p->offers[choice[n]].nodes[0] == n)
            price += x->prices.offer[choice[n]];
    for (uint32_t value = 0; x->domains.count > 1 && value < x->values; value++)
        for (uint32_t count = part_hops(x, choice, value); count > 0; count--)
            price += part_hop_ns(x, value, x->domains.hops[count - 1]) * part_share(x, x->domains.hops[count - 1].once);
    return price;
}

bool part_has_required(const struct problem *x, const uint32_t *choice)
{
    if (x->bounds.required == INLAY_NONE)
        return true;
    for (uint32_t n = 0; n < x->nodes; n++)
        if (part_provider_of(x, choice[n]) == x->bounds.required)
            return true;
    return false;
}

bool part_keeps_memory(struct problem *x, const uint32_t *choice)
{
    bool keeps = true;

    x->failed |= x->bounds.limited && !part_measure(x, choice, x->memory);
    for (uint32_t p = 0; x->bounds.limited && p < x->providers; p++)
        keeps &= x->memory[p].resident_bytes <= x->bounds.limit[p] &&
                 x->memory[p].peak_bytes <= x->bounds.limit[p] - x->memory[p].resident_bytes;
    return keeps;
}

part_verdict part_judge(struct problem *x, const uint32_t *choice)
{
    part_verdict v = { .price = part_base_price(x, choice), .runs = true, .feasible = part_has_required(x, choice) };

    if (!x->ordered && x->picks.group_count == 0)
        return v;
    if (!part_schedule_choice(x, choice, x->nodes <= 64))
        return (part_verdict){ .price = v.price };
    v.price += x->schedule.launch_ns + x->prices.boundary_ns * x->schedule.stretches;
    if (x->bounds.max_partitions > 0)
        v.feasible &= x->schedule.stretches <= x->bounds.max_partitions;
    v.feasible &= part_keeps_memory(x, choice);
    return v;
}
