/* The best mix of two choices: for every node a yes-or-no question, "keep what is" (0) or "take what is proposed" (1),
 * answered for all nodes at once by a minimum cut.
 *
 * Copies fit into a cut although a value that several nodes read in one domain is copied once. Value v, made by m, is
 * copied to domain t if m's answer puts it elsewhere and any of its readers' answers asks for it there. A helper that
 * must be 1 as soon as one of these readers is 1 says "any"; the copy's cost then stands between helper and m. When
 * copies between devices pass through the host, and the proposal is one provider for all, every term has this form, and
 * the cut is the best mix. Where a term has not, it is charged as if m's answer did not matter, which is too much at
 * most; partition_judge has the last word. */
#include "partition/search/search.h"
#include "partition/problem/flow.h"
#include <math.h>
#include <string.h>

struct fusion {
    const partition_side *now, *then;
    uint32_t *var; /* [nodes] question, NONE = as it is now */
    uint8_t *take; /* [offers] scratch: does the group pay once all its nodes take it? */
    struct flow flow;
};

/* When does a copy's home count? */
enum { GATE_NONE, GATE_AT_0, GATE_AT_1 };

bool partition_fuse_init(struct problem *problem)
{
    struct fusion *fusion = arena_alloc(problem->scratch, sizeof *fusion);

    problem->fusion = fusion;
    if (fusion == NULL)
        return false;
    *fusion = (struct fusion){ .flow = { .arena = problem->scratch } };
    fusion->var = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *fusion->var);
    fusion->take = arena_array(problem->scratch, (size_t)problem->offers + 1, sizeof *fusion->take);
    return fusion->var != NULL && fusion->take != NULL;
}

void partition_side_of(const struct problem *problem, const uint32_t *choice, partition_side *out)
{
    for (uint32_t n = 0; n < problem->nodes; n++) {
        uint32_t offer = choice[n];

        out->single[n] = offer;
        out->group[n] = INLAY_NONE;
        if (offer == INLAY_NONE || problem->partition->offers[offer].node_count == 1)
            continue;
        out->group[n] = offer;
        out->single[n] =
            problem->odd[offer]
                ? INLAY_NONE
                : problem->picks.cheapest[(size_t)problem->partition->offers[offer].provider * problem->nodes + n];
    }
}

static uint32_t offer_on(const partition_side *side, uint32_t n)
{
    return side->group[n] != INLAY_NONE ? side->group[n] : side->single[n];
}

static int64_t whole(const struct problem *problem, double ns)
{
    return (int64_t)(ns * problem->prices.scale + 0.5);
}

/* The question of node n, and what it says when it is not asked. */
static uint32_t var_of(const struct fusion *fusion, uint32_t n)
{
    return n == INLAY_NONE ? INLAY_NONE : fusion->var[n];
}

/* ------------------------------------------------------------------ nodes and groups */

static void ask_nodes(struct problem *problem)
{
    struct fusion *fusion = problem->fusion;

    for (uint32_t n = 0; n < problem->nodes; n++) {
        uint32_t now = offer_on(fusion->now, n), then = offer_on(fusion->then, n);

        fusion->var[n] = INLAY_NONE;
        if (!problem->candidates[n] || then == INLAY_NONE ||
            (now == then && fusion->now->single[n] == fusion->then->single[n]))
            continue;
        fusion->var[n] = flow_add(&problem->fusion->flow);
        flow_cost(
            &problem->fusion->flow, fusion->var[n],
            fusion->now->single[n] == INLAY_NONE ? 0 : whole(problem, problem->prices.offer[fusion->now->single[n]]),
            fusion->then->single[n] == INLAY_NONE ? 0 : whole(problem, problem->prices.offer[fusion->then->single[n]]));
    }
}

/* Group `offer` of one side: what it saves, when all its nodes say `answer`. Nodes with nothing else to fall back on
 * must then. */
static void ask_group(struct problem *problem, uint32_t offer, const partition_side *side, bool answer)
{
    const partition_offer *o = &problem->partition->offers[offer];
    struct fusion *fusion = problem->fusion;
    double gain = -problem->prices.offer[offer];
    bool bare = false, asked = false, stays = false;
    uint32_t helper;

    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t single = side->single[o->nodes[k]];
        gain += single == INLAY_NONE ? 0 : problem->prices.offer[single];
        bare |= single == INLAY_NONE;
        asked |= fusion->var[o->nodes[k]] != INLAY_NONE;
        stays |= single == INLAY_NONE && fusion->var[o->nodes[k]] == INLAY_NONE;
    }
    fusion->take[offer] = bare || gain > 0;
    if (!asked || !fusion->take[offer])
        return;
    helper = flow_add(&problem->fusion->flow);
    if (gain > 0)
        flow_cost(&problem->fusion->flow, helper, answer ? whole(problem, gain) : 0, answer ? 0 : whole(problem, gain));
    else
        flow_cost(&problem->fusion->flow, helper, answer ? 0 : whole(problem, -gain),
                  answer ? whole(problem, -gain) : 0);
    if (stays) /* a node that can't leave the group that is */
        flow_cost(&problem->fusion->flow, helper, 0, FLOW_NEVER);
    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t var = fusion->var[o->nodes[k]];

        if (var == INLAY_NONE)
            continue;
        flow_pair(&problem->fusion->flow, answer ? var : helper, answer ? helper : var, FLOW_NEVER);
        if (side->single[o->nodes[k]] == INLAY_NONE)
            flow_pair(&problem->fusion->flow, answer ? helper : var, answer ? var : helper, FLOW_NEVER);
    }
}

static void ask_groups(struct problem *problem)
{
    struct fusion *fusion = problem->fusion;

    for (uint32_t n = 0; problem->picks.group_count > 0 && n < problem->nodes; n++) {
        uint32_t now = fusion->now->group[n], then = fusion->then->group[n];

        if (now != INLAY_NONE && problem->partition->offers[now].nodes[0] == n)
            ask_group(problem, now, fusion->now, false);
        if (then != INLAY_NONE && then != now && problem->partition->offers[then].nodes[0] == n)
            ask_group(problem, then, fusion->then, true);
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
static bool calls(const struct problem *problem, uint32_t reader, const partition_side *side, uint32_t value,
                  uint32_t target, uint32_t home)
{
    uint32_t domain = reader_domain(problem, reader, offer_on(side, reader), value);

    return target == INLAY_NONE ? domain != home && domain != INLAY_NONE : domain == target;
}

/* The same of whoever gets what leaves the graph. */
static bool leaving_calls(const struct problem *problem, uint32_t value, uint32_t target, uint32_t home)
{
    const uint32_t to = problem->links.leaves[value] ? home_domain(problem, value, home) : home;

    return target == INLAY_NONE ? to != home : to == target && to != home;
}

/* One movement of the value: costs ns if some reader calls for it and the gate is open. */
static void charge(struct problem *problem, const struct moving *moving, double ns, uint32_t gate, uint32_t target,
                   uint32_t home)
{
    struct fusion *fusion = problem->fusion;
    struct flow *flow = &problem->fusion->flow;
    int64_t cost = whole(problem, ns * moving->share);
    bool always = leaving_calls(problem, moving->value, target, home);
    uint32_t at_0 = 0, at_1 = 0, only = INLAY_NONE, helper;
    bool zero;

    if (cost == 0)
        return;
    for (uint32_t i = problem->links.reader_at[moving->value];
         !always && i < problem->links.reader_at[moving->value + 1]; i++) {
        uint32_t r = problem->links.readers[i];
        bool now = calls(problem, r, fusion->now, moving->value, target, home);
        bool then = fusion->var[r] == INLAY_NONE ? now : calls(problem, r, fusion->then, moving->value, target, home);

        always = now && then;
        at_0 += now && !then;
        at_1 += then && !now;
        only = now != then ? fusion->var[r] : only;
    }
    if (always || (at_0 > 0 && at_1 > 0)) {
        if (gate != GATE_NONE)
            flow_cost(flow, moving->maker, gate == GATE_AT_0 ? cost : 0, gate == GATE_AT_1 ? cost : 0);
        return;
    }
    if (at_0 + at_1 == 0)
        return;
    zero = at_0 > 0; /* it is called for by readers that say 0 */
    helper = only;
    if (at_0 + at_1 > 1) {
        helper = flow_add(flow);
        for (uint32_t i = problem->links.reader_at[moving->value]; i < problem->links.reader_at[moving->value + 1];
             i++) {
            uint32_t r = problem->links.readers[i];
            if (fusion->var[r] != INLAY_NONE && calls(problem, r, fusion->now, moving->value, target, home) !=
                                                    calls(problem, r, fusion->then, moving->value, target, home))
                flow_pair(flow, zero ? fusion->var[r] : helper, zero ? helper : fusion->var[r], FLOW_NEVER);
        }
    }
    if ((zero && gate == GATE_AT_1) || (!zero && gate == GATE_AT_0)) {
        if (helper != moving->maker) /* who makes what is carried may be who reads it */
            flow_pair(flow, zero ? helper : moving->maker, zero ? moving->maker : helper, cost);
    } else {
        flow_cost(flow, helper, zero ? cost : 0, zero ? 0 : cost);
    }
}

/* What is carried goes to its home before the first iteration. */
static void ask_start(struct problem *problem, const struct moving *moving, uint32_t from)
{
    double ns[2] = { 0, 0 };

    for (uint32_t k = 0; k < 2 && from != INLAY_NONE && moving->maker != INLAY_NONE; k++) {
        const size_t row = (size_t)moving->value * problem->domains.count;

        if (from != moving->home[k])
            ns[k] = problem->domains.up[row + from] + problem->domains.down[row + moving->home[k]];
    }
    if (ns[0] != ns[1])
        flow_cost(&problem->fusion->flow, moving->maker, whole(problem, ns[0] * partition_share(problem, true)),
                  whole(problem, ns[1] * partition_share(problem, true)));
}

/* Down from the host, to where it is read. */
static void ask_down(struct problem *problem, const struct moving *moving, uint32_t to, uint32_t mark)
{
    uint32_t gate;

    if (to == INLAY_DOMAIN_HOST || to == INLAY_NONE || problem->domains.marked[to] == mark ||
        (to == moving->home[0] && to == moving->home[1]))
        return;
    problem->domains.marked[to] = mark;
    gate = to == moving->home[0] ? GATE_AT_1 : to == moving->home[1] ? GATE_AT_0 : GATE_NONE;
    charge(problem, moving, problem->domains.down[(size_t)moving->value * problem->domains.count + to], gate, to,
           INLAY_DOMAIN_HOST);
}

static void ask_value(struct problem *problem, uint32_t value)
{
    struct fusion *fusion = problem->fusion;
    const partition_home home = partition_home_of(problem, value);
    const partition_source source = partition_source_of(problem, value);
    struct moving moving = { .value = value,
                             .maker = var_of(fusion, source.node),
                             .share = partition_share(problem, home.once) };
    bool asked = moving.maker != INLAY_NONE;
    uint32_t mark;

    for (uint32_t i = problem->links.reader_at[value]; !asked && i < problem->links.reader_at[value + 1]; i++)
        asked = fusion->var[problem->links.readers[i]] != INLAY_NONE;
    if (!asked)
        return;
    moving.home[0] = moving.home[1] = source_domain(
        problem, source, value, source.node != INLAY_NONE ? offer_on(fusion->now, source.node) : INLAY_NONE);
    if (moving.maker != INLAY_NONE)
        moving.home[1] = source_domain(problem, source, value, offer_on(fusion->then, source.node));
    if (moving.home[0] == INLAY_NONE)
        return;
    if (home.next != INLAY_NONE)
        ask_start(problem, &moving, home.lies);
    /* Up to the host, from where it is made. */
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t gate = moving.home[0] == moving.home[1] ? GATE_NONE : k == 0 ? GATE_AT_0 : GATE_AT_1;
        if (moving.home[k] != INLAY_DOMAIN_HOST && (k == 0 || gate != GATE_NONE))
            charge(problem, &moving, problem->domains.up[(size_t)value * problem->domains.count + moving.home[k]], gate,
                   INLAY_NONE, moving.home[k]);
    }
    mark = ++problem->domains.mark;
    for (uint32_t i = 2 * problem->links.reader_at[value]; i < 2 * problem->links.reader_at[value + 1]; i++) {
        const uint32_t r = problem->links.readers[i / 2];

        if (i % 2 == 0 || fusion->var[r] != INLAY_NONE)
            ask_down(problem, &moving,
                     reader_domain(problem, r, offer_on(i % 2 == 0 ? fusion->now : fusion->then, r), value), mark);
    }
    if (problem->links.leaves[value] && home.wanted != PART_ANYWHERE && !home.stacked)
        ask_down(problem, &moving, home.wanted, mark);
}

/* ------------------------------------------------------------------ launches and boundaries */

/* What node n pays for not being of one piece with its parent. */
static double seam(const struct problem *problem, uint32_t parent, uint32_t n)
{
    uint32_t p = partition_provider_of(problem, n), q = partition_provider_of(problem, parent);
    double ns = 0;

    if (p == INLAY_NONE || (n == parent && problem->partition->offers[n].node_count > 1))
        return 0;
    if (partition_merges(problem, n) && (p != q || !partition_merges(problem, parent)))
        ns += problem->prices.launch[p];
    return ns + (p != q ? problem->prices.boundary_ns : 0);
}

static void ask_seam(struct problem *problem, uint32_t n)
{
    struct fusion *fusion = problem->fusion;
    uint32_t parent = problem->links.parent[n], offers[2][2], vp = var_of(fusion, parent), vn = fusion->var[n];
    double e00, e01, e10, e11; /* parent's answer, node's answer */

    if (vp == INLAY_NONE && vn == INLAY_NONE)
        return;
    offers[0][0] = parent == INLAY_NONE ? INLAY_NONE : offer_on(fusion->now, parent);
    offers[0][1] = vp == INLAY_NONE ? offers[0][0] : offer_on(fusion->then, parent);
    offers[1][0] = offer_on(fusion->now, n);
    offers[1][1] = vn == INLAY_NONE ? offers[1][0] : offer_on(fusion->then, n);
    e00 = seam(problem, offers[0][0], offers[1][0]);
    e01 = seam(problem, offers[0][0], offers[1][1]);
    e10 = seam(problem, offers[0][1], offers[1][0]);
    e11 = seam(problem, offers[0][1], offers[1][1]);
    if (vn == INLAY_NONE) {
        flow_cost(&problem->fusion->flow, vp, whole(problem, e00), whole(problem, e10));
    } else if (vp == INLAY_NONE) {
        flow_cost(&problem->fusion->flow, vn, whole(problem, e00), whole(problem, e01));
    } else {
        flow_cost(&problem->fusion->flow, vp, 0, whole(problem, e10) - whole(problem, e00));
        flow_cost(&problem->fusion->flow, vn, 0, whole(problem, e11) - whole(problem, e10));
        flow_pair(&problem->fusion->flow, vp, vn,
                  whole(problem, e01) + whole(problem, e10) - whole(problem, e00) - whole(problem, e11));
    }
}

/* ------------------------------------------------------------------ the whole */

/* The group counts when every node of it gave the same answer. */
static bool is_whole(const struct problem *problem, uint32_t offer, bool answer)
{
    const partition_offer *o = &problem->partition->offers[offer];
    const struct fusion *fusion = problem->fusion;

    if (!fusion->take[offer])
        return false;
    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t var = fusion->var[o->nodes[k]];
        /* A node that was not asked has the same offers on both sides. */
        if (var == INLAY_NONE ? answer && fusion->then->group[o->nodes[k]] != fusion->now->group[o->nodes[k]]
                              : flow_is_one(&problem->fusion->flow, var) != answer)
            return false;
    }
    return true;
}

bool partition_fuse(struct problem *problem, const partition_side *now, const partition_side *then, uint32_t *choice)
{
    struct fusion *fusion = problem->fusion;
    bool seams = problem->prices.boundary_ns > 0;

    fusion->now = now;
    fusion->then = then;
    flow_clear(&problem->fusion->flow);
    ask_nodes(problem);
    ask_groups(problem);
    for (uint32_t value = 0; problem->domains.count > 1 && value < problem->values; value++)
        if (!partition_is_constant(problem->graph, value))
            ask_value(problem, value);
    for (uint32_t p = 0; p < problem->providers; p++)
        seams |= problem->prices.launch[p] > 0;
    for (uint32_t n = 0; seams && n < problem->nodes; n++)
        if (problem->candidates[n])
            ask_seam(problem, n);
    if (!flow_solve(&problem->fusion->flow)) {
        problem->failed = true;
        return false;
    }
    for (uint32_t n = 0; n < problem->nodes; n++) {
        bool answer = fusion->var[n] != INLAY_NONE && flow_is_one(&problem->fusion->flow, fusion->var[n]);
        const partition_side *side = answer ? then : now;

        choice[n] = side->single[n];
        if (side->group[n] != INLAY_NONE && is_whole(problem, side->group[n], answer))
            choice[n] = side->group[n];
    }
    return true;
}
