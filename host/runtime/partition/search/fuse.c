/* The best mix of two choices: for every node a yes-or-no question, "keep what is" (0) or "take what is proposed" (1),
 * answered for all nodes at once by a minimum cut.
 *
 * Copies fit into a cut although a value that several nodes read in one domain is copied once. Value v, made by m, is
 * copied to domain t if m's answer puts it elsewhere and any of its readers' answers asks for it there. A helper that
 * must be 1 as soon as one of these readers is 1 says "any"; the copy's cost then stands between helper and m. When
 * copies between devices pass through the host, and the proposal is one provider for all, every term has this form, and
 * the cut is the best mix. Where a term has not, it is charged as if m's answer did not matter, which is too much at
 * most; part_judge has the last word. */
#include "partition/search/search.h"
#include "partition/problem/flow.h"
#include <math.h>
#include <string.h>

struct fusion {
    const part_side *now, *then;
    uint32_t *var; /* [nodes] question, NONE = as it is now */
    uint8_t *take; /* [offers] scratch: does the group pay once all its nodes take it? */
    struct flow flow;
};

/* When does a copy's home count? */
enum { GATE_NONE, GATE_AT_0, GATE_AT_1 };

bool part_fuse_init(struct problem *x)
{
    struct fusion *f = arena_alloc(x->scratch, sizeof *f);

    x->fusion = f;
    if (f == NULL)
        return false;
    *f = (struct fusion){ .flow = { .a = x->scratch } };
    f->var = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *f->var);
    f->take = arena_array(x->scratch, (size_t)x->offers + 1, sizeof *f->take);
    return f->var != NULL && f->take != NULL;
}

void part_side_of(const struct problem *x, const uint32_t *choice, part_side *out)
{
    for (uint32_t n = 0; n < x->nodes; n++) {
        uint32_t o = choice[n];

        out->single[n] = o;
        out->group[n] = INLAY_NONE;
        if (o == INLAY_NONE || x->p->offers[o].node_count == 1)
            continue;
        out->group[n] = o;
        out->single[n] = x->odd[o] ? INLAY_NONE : x->picks.cheapest[(size_t)x->p->offers[o].provider * x->nodes + n];
    }
}

static uint32_t offer_on(const part_side *s, uint32_t n)
{
    return s->group[n] != INLAY_NONE ? s->group[n] : s->single[n];
}

static int64_t whole(const struct problem *x, double ns)
{
    return (int64_t)(ns * x->prices.scale + 0.5);
}

/* The question of node n, and what it says when it is not asked. */
static uint32_t var_of(const struct fusion *f, uint32_t n)
{
    return n == INLAY_NONE ? INLAY_NONE : f->var[n];
}

/* ------------------------------------------------------------------ nodes and groups */

static void ask_nodes(struct problem *x)
{
    struct fusion *f = x->fusion;

    for (uint32_t n = 0; n < x->nodes; n++) {
        uint32_t now = offer_on(f->now, n), then = offer_on(f->then, n);

        f->var[n] = INLAY_NONE;
        if (!x->candidates[n] || then == INLAY_NONE || (now == then && f->now->single[n] == f->then->single[n]))
            continue;
        f->var[n] = flow_add(&x->fusion->flow);
        flow_cost(&x->fusion->flow, f->var[n],
                  f->now->single[n] == INLAY_NONE ? 0 : whole(x, x->prices.offer[f->now->single[n]]),
                  f->then->single[n] == INLAY_NONE ? 0 : whole(x, x->prices.offer[f->then->single[n]]));
    }
}

/* Group `offer` of one side: what it saves, when all its nodes say `answer`. Nodes with nothing else to fall back on
 * must then. */
static void ask_group(struct problem *x, uint32_t offer, const part_side *side, bool answer)
{
    const part_offer *o = &x->p->offers[offer];
    struct fusion *f = x->fusion;
    double gain = -x->prices.offer[offer];
    bool bare = false, asked = false, stays = false;
    uint32_t helper;

    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t single = side->single[o->nodes[k]];
        gain += single == INLAY_NONE ? 0 : x->prices.offer[single];
        bare |= single == INLAY_NONE;
        asked |= f->var[o->nodes[k]] != INLAY_NONE;
        stays |= single == INLAY_NONE && f->var[o->nodes[k]] == INLAY_NONE;
    }
    f->take[offer] = bare || gain > 0;
    if (!asked || !f->take[offer])
        return;
    helper = flow_add(&x->fusion->flow);
    if (gain > 0)
        flow_cost(&x->fusion->flow, helper, answer ? whole(x, gain) : 0, answer ? 0 : whole(x, gain));
    else
        flow_cost(&x->fusion->flow, helper, answer ? 0 : whole(x, -gain), answer ? whole(x, -gain) : 0);
    if (stays) /* a node that can't leave the group that is */
        flow_cost(&x->fusion->flow, helper, 0, FLOW_NEVER);
    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t var = f->var[o->nodes[k]];

        if (var == INLAY_NONE)
            continue;
        flow_pair(&x->fusion->flow, answer ? var : helper, answer ? helper : var, FLOW_NEVER);
        if (side->single[o->nodes[k]] == INLAY_NONE)
            flow_pair(&x->fusion->flow, answer ? helper : var, answer ? var : helper, FLOW_NEVER);
    }
}

static void ask_groups(struct problem *x)
{
    struct fusion *f = x->fusion;

    for (uint32_t n = 0; x->picks.group_count > 0 && n < x->nodes; n++) {
        uint32_t now = f->now->group[n], then = f->then->group[n];

        if (now != INLAY_NONE && x->p->offers[now].nodes[0] == n)
            ask_group(x, now, f->now, false);
        if (then != INLAY_NONE && then != now && x->p->offers[then].nodes[0] == n)
            ask_group(x, then, f->then, true);
    }
}

/* ------------------------------------------------------------------ copies */

/* A value in the question: its domains, and who reads it. */
struct moving {
    uint32_t value, maker; /* the maker's question */
    uint32_t home[2];
    double share; /* of its copies */
};

/* Does reader r, by answer, call for a copy? target NONE: anywhere but `home`; otherwise into target. */
static bool calls(const struct problem *x, uint32_t reader, const part_side *side, uint32_t value, uint32_t target,
                  uint32_t home)
{
    uint32_t domain = part_read_in(x, reader, offer_on(side, reader), value);

    return target == INLAY_NONE ? domain != home && domain != INLAY_NONE : domain == target;
}

/* The same of whoever gets what leaves the graph. */
static bool leaving_calls(const struct problem *x, uint32_t value, uint32_t target, uint32_t home)
{
    const uint32_t to = x->links.leaves[value] ? part_goes_to(x, value, home) : home;

    return target == INLAY_NONE ? to != home : to == target && to != home;
}

/* One movement of the value: costs ns if some reader calls for it and the gate is open. */
static void charge(struct problem *x, const struct moving *m, double ns, uint32_t gate, uint32_t target, uint32_t home)
{
    struct fusion *f = x->fusion;
    struct flow *w = &x->fusion->flow;
    int64_t cost = whole(x, ns * m->share);
    bool always = leaving_calls(x, m->value, target, home);
    uint32_t at_0 = 0, at_1 = 0, only = INLAY_NONE, helper;
    bool zero;

    if (cost == 0)
        return;
    for (uint32_t i = x->links.reader_at[m->value]; !always && i < x->links.reader_at[m->value + 1]; i++) {
        uint32_t r = x->links.readers[i];
        bool now = calls(x, r, f->now, m->value, target, home);
        bool then = f->var[r] == INLAY_NONE ? now : calls(x, r, f->then, m->value, target, home);

        always = now && then;
        at_0 += now && !then;
        at_1 += then && !now;
        only = now != then ? f->var[r] : only;
    }
    if (always || (at_0 > 0 && at_1 > 0)) {
        if (gate != GATE_NONE)
            flow_cost(w, m->maker, gate == GATE_AT_0 ? cost : 0, gate == GATE_AT_1 ? cost : 0);
        return;
    }
    if (at_0 + at_1 == 0)
        return;
    zero = at_0 > 0; /* it is called for by readers that say 0 */
    helper = only;
    if (at_0 + at_1 > 1) {
        helper = flow_add(w);
        for (uint32_t i = x->links.reader_at[m->value]; i < x->links.reader_at[m->value + 1]; i++) {
            uint32_t r = x->links.readers[i];
            if (f->var[r] != INLAY_NONE &&
                calls(x, r, f->now, m->value, target, home) != calls(x, r, f->then, m->value, target, home))
                flow_pair(w, zero ? f->var[r] : helper, zero ? helper : f->var[r], FLOW_NEVER);
        }
    }
    if ((zero && gate == GATE_AT_1) || (!zero && gate == GATE_AT_0)) {
        if (helper != m->maker) /* who makes what is carried may be who reads it */
            flow_pair(w, zero ? helper : m->maker, zero ? m->maker : helper, cost);
    } else {
        flow_cost(w, helper, zero ? cost : 0, zero ? 0 : cost);
    }
}

/* What is carried goes to its home before the first iteration. */
static void ask_start(struct problem *x, const struct moving *m, uint32_t from)
{
    double ns[2] = { 0, 0 };

    for (uint32_t k = 0; k < 2 && from != INLAY_NONE && m->maker != INLAY_NONE; k++) {
        const size_t row = (size_t)m->value * x->domains.count;

        if (from != m->home[k])
            ns[k] = x->domains.up[row + from] + x->domains.down[row + m->home[k]];
    }
    if (ns[0] != ns[1])
        flow_cost(&x->fusion->flow, m->maker, whole(x, ns[0] * part_share(x, true)),
                  whole(x, ns[1] * part_share(x, true)));
}

/* Down from the host, to where it is read. */
static void ask_down(struct problem *x, const struct moving *m, uint32_t to, uint32_t mark)
{
    uint32_t gate;

    if (to == INLAY_DOMAIN_HOST || to == INLAY_NONE || x->domains.marked[to] == mark ||
        (to == m->home[0] && to == m->home[1]))
        return;
    x->domains.marked[to] = mark;
    gate = to == m->home[0] ? GATE_AT_1 : to == m->home[1] ? GATE_AT_0 : GATE_NONE;
    charge(x, m, x->domains.down[(size_t)m->value * x->domains.count + to], gate, to, INLAY_DOMAIN_HOST);
}

static void ask_value(struct problem *x, uint32_t v)
{
    struct fusion *f = x->fusion;
    const part_home h = part_home_of(x, v);
    const part_source s = part_source_of(x, v);
    struct moving m = { .value = v, .maker = var_of(f, s.node), .share = part_share(x, h.once) };
    bool asked = m.maker != INLAY_NONE;
    uint32_t mark;

    for (uint32_t i = x->links.reader_at[v]; !asked && i < x->links.reader_at[v + 1]; i++)
        asked = f->var[x->links.readers[i]] != INLAY_NONE;
    if (!asked)
        return;
    m.home[0] = m.home[1] = part_lies_in(x, s, v, s.node != INLAY_NONE ? offer_on(f->now, s.node) : INLAY_NONE);
    if (m.maker != INLAY_NONE)
        m.home[1] = part_lies_in(x, s, v, offer_on(f->then, s.node));
    if (m.home[0] == INLAY_NONE)
        return;
    if (h.next != INLAY_NONE)
        ask_start(x, &m, h.lies);
    /* Up to the host, from where it is made. */
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t gate = m.home[0] == m.home[1] ? GATE_NONE : k == 0 ? GATE_AT_0 : GATE_AT_1;
        if (m.home[k] != INLAY_DOMAIN_HOST && (k == 0 || gate != GATE_NONE))
            charge(x, &m, x->domains.up[(size_t)v * x->domains.count + m.home[k]], gate, INLAY_NONE, m.home[k]);
    }
    mark = ++x->domains.mark;
    for (uint32_t i = 2 * x->links.reader_at[v]; i < 2 * x->links.reader_at[v + 1]; i++) {
        const uint32_t r = x->links.readers[i / 2];

        if (i % 2 == 0 || f->var[r] != INLAY_NONE)
            ask_down(x, &m, part_read_in(x, r, offer_on(i % 2 == 0 ? f->now : f->then, r), v), mark);
    }
    if (x->links.leaves[v] && h.wanted != PART_ANYWHERE && !h.stacked)
        ask_down(x, &m, h.wanted, mark);
}

/* ------------------------------------------------------------------ launches and boundaries */

/* What node n pays for not being of one piece with its parent. */
static double seam(const struct problem *x, uint32_t parent, uint32_t n)
{
    uint32_t p = part_provider_of(x, n), q = part_provider_of(x, parent);
    double ns = 0;

    if (p == INLAY_NONE || (n == parent && x->p->offers[n].node_count > 1))
        return 0;
    if (part_merges(x, n) && (p != q || !part_merges(x, parent)))
        ns += x->prices.launch[p];
    return ns + (p != q ? x->prices.boundary_ns : 0);
}

static void ask_seam(struct problem *x, uint32_t n)
{
    struct fusion *f = x->fusion;
    uint32_t parent = x->links.parent[n], offers[2][2], vp = var_of(f, parent), vn = f->var[n];
    double e00, e01, e10, e11; /* parent's answer, node's answer */

    if (vp == INLAY_NONE && vn == INLAY_NONE)
        return;
    offers[0][0] = parent == INLAY_NONE ? INLAY_NONE : offer_on(f->now, parent);
    offers[0][1] = vp == INLAY_NONE ? offers[0][0] : offer_on(f->then, parent);
    offers[1][0] = offer_on(f->now, n);
    offers[1][1] = vn == INLAY_NONE ? offers[1][0] : offer_on(f->then, n);
    e00 = seam(x, offers[0][0], offers[1][0]);
    e01 = seam(x, offers[0][0], offers[1][1]);
    e10 = seam(x, offers[0][1], offers[1][0]);
    e11 = seam(x, offers[0][1], offers[1][1]);
    if (vn == INLAY_NONE) {
        flow_cost(&x->fusion->flow, vp, whole(x, e00), whole(x, e10));
    } else if (vp == INLAY_NONE) {
        flow_cost(&x->fusion->flow, vn, whole(x, e00), whole(x, e01));
    } else {
        flow_cost(&x->fusion->flow, vp, 0, whole(x, e10) - whole(x, e00));
        flow_cost(&x->fusion->flow, vn, 0, whole(x, e11) - whole(x, e10));
        flow_pair(&x->fusion->flow, vp, vn, whole(x, e01) + whole(x, e10) - whole(x, e00) - whole(x, e11));
    }
}

/* ------------------------------------------------------------------ the whole */

/* The group counts when every node of it gave the same answer. */
static bool is_whole(const struct problem *x, uint32_t offer, bool answer)
{
    const part_offer *o = &x->p->offers[offer];
    const struct fusion *f = x->fusion;

    if (!f->take[offer])
        return false;
    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t var = f->var[o->nodes[k]];
        /* A node that was not asked has the same offers on both sides. */
        if (var == INLAY_NONE ? answer && f->then->group[o->nodes[k]] != f->now->group[o->nodes[k]]
                              : flow_is_one(&x->fusion->flow, var) != answer)
            return false;
    }
    return true;
}

bool part_fuse(struct problem *x, const part_side *now, const part_side *then, uint32_t *choice)
{
    struct fusion *f = x->fusion;
    bool seams = x->prices.boundary_ns > 0;

    f->now = now;
    f->then = then;
    flow_clear(&x->fusion->flow);
    ask_nodes(x);
    ask_groups(x);
    for (uint32_t v = 0; x->domains.count > 1 && v < x->values; v++)
        if (!part_is_constant(x->g, v))
            ask_value(x, v);
    for (uint32_t p = 0; p < x->providers; p++)
        seams |= x->prices.launch[p] > 0;
    for (uint32_t n = 0; seams && n < x->nodes; n++)
        if (x->candidates[n])
            ask_seam(x, n);
    if (!flow_solve(&x->fusion->flow)) {
        x->failed = true;
        return false;
    }
    for (uint32_t n = 0; n < x->nodes; n++) {
        bool answer = f->var[n] != INLAY_NONE && flow_is_one(&x->fusion->flow, f->var[n]);
        const part_side *side = answer ? then : now;

        choice[n] = side->single[n];
        if (side->group[n] != INLAY_NONE && is_whole(x, side->group[n], answer))
            choice[n] = side->group[n];
    }
    return true;
}
