/* Finds the best mix of two choices: for every node a binary variable, "keep the current offer" (0) or "take the
 * proposed one" (1); all are set at once by a minimum cut.
 *
 * A value that several nodes read in one domain is copied only once. This fits into a cut: a value computed by node m
 * is copied to domain t if m's variable places it elsewhere and the variable of any reader requires it in t. An
 * auxiliary variable that must be 1 if any of these readers is 1 represents "any"; the cost of the copy is then a pair
 * of the auxiliary variable and m. If copies between devices go through the host, and the proposal is one provider for
 * all nodes, every term has this form, and the cut is the best mix. Other terms ignore m's variable, which gives
 * an upper bound; partition_evaluate() decides whether the mix is taken. */
#include "inlay/check.h"
#include "partition/search/search.h"
#include "partition/problem/flow.h"
#include <math.h>

struct fusion {
    const partition_alternative *current, *proposed;
    uint32_t *var; /* [nodes] variable, NONE = keeps its offer */
    uint8_t *take; /* [offers] scratch: whether the group pays if all its nodes take it */
    struct flow flow;
};

/* When a copy from or to the value's own domain counts: always, or if the variable of the node that computes the value
 * is 0, or 1. */
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

void partition_alternative_of(const struct problem *problem, const uint32_t *choice, partition_alternative *out)
{
    for (uint32_t node = 0; node < problem->nodes; node++) {
        uint32_t offer = choice[node];

        out->single[node] = offer;
        out->group[node] = INLAY_NONE;
        if (offer == INLAY_NONE || problem->partition->offers[offer].node_count == 1)
            continue;
        out->group[node] = offer;
        out->single[node] =
            problem->custom_placement[offer]
                ? INLAY_NONE
                : problem->options.cheapest[(size_t)problem->partition->offers[offer].provider * problem->nodes + node];
    }
}

static uint32_t offer_on(const partition_alternative *side, uint32_t node)
{
    return side->group[node] != INLAY_NONE ? side->group[node] : side->single[node];
}

static int64_t to_integer(const struct problem *problem, double ns)
{
    return (int64_t)(ns * problem->prices.scale + 0.5);
}

/* The variable of node n; INLAY_NONE if it keeps its offer. */
static uint32_t variable_of(const struct fusion *fusion, uint32_t node)
{
    return node == INLAY_NONE ? INLAY_NONE : fusion->var[node];
}

static void add_node_terms(struct problem *problem)
{
    struct fusion *fusion = problem->fusion;

    for (uint32_t node = 0; node < problem->nodes; node++) {
        uint32_t current = offer_on(fusion->current, node), proposed = offer_on(fusion->proposed, node);

        fusion->var[node] = INLAY_NONE;
        if (!problem->candidates[node] || proposed == INLAY_NONE ||
            (current == proposed && fusion->current->single[node] == fusion->proposed->single[node]))
            continue;
        fusion->var[node] = flow_add(&problem->fusion->flow);
        flow_cost(&problem->fusion->flow, fusion->var[node],
                  fusion->current->single[node] == INLAY_NONE
                      ? 0
                      : to_integer(problem, problem->prices.offer[fusion->current->single[node]]),
                  fusion->proposed->single[node] == INLAY_NONE
                      ? 0
                      : to_integer(problem, problem->prices.offer[fusion->proposed->single[node]]));
    }
}

/* Adds the saving of a group of one alternative if all its nodes have the value `answer`. Nodes without a single offer
 * are forced to follow. */
static void add_group_terms(struct problem *problem, uint32_t offer, const partition_alternative *side, bool answer)
{
    const partition_offer *group = &problem->partition->offers[offer];
    struct fusion *fusion = problem->fusion;
    double gain = -problem->prices.offer[offer];
    bool bare = false, has_variable = false, is_bound = false;
    uint32_t helper;

    INLAY_CHECK(group->node_count > 1);
    for (uint32_t k = 0; k < group->node_count; k++) {
        uint32_t single = side->single[group->nodes[k]];
        gain += single == INLAY_NONE ? 0 : problem->prices.offer[single];
        bare |= single == INLAY_NONE;
        has_variable |= fusion->var[group->nodes[k]] != INLAY_NONE;
        is_bound |= single == INLAY_NONE && fusion->var[group->nodes[k]] == INLAY_NONE;
    }
    fusion->take[offer] = bare || gain > 0;
    if (!has_variable || !fusion->take[offer])
        return;
    helper = flow_add(&problem->fusion->flow);
    if (gain > 0)
        flow_cost(&problem->fusion->flow, helper, answer ? to_integer(problem, gain) : 0,
                  answer ? 0 : to_integer(problem, gain));
    else
        flow_cost(&problem->fusion->flow, helper, answer ? 0 : to_integer(problem, -gain),
                  answer ? to_integer(problem, -gain) : 0);
    if (is_bound) /* a node that cannot leave the current group */
        flow_cost(&problem->fusion->flow, helper, 0, FLOW_NEVER);
    for (uint32_t k = 0; k < group->node_count; k++) {
        uint32_t var = fusion->var[group->nodes[k]];

        if (var == INLAY_NONE)
            continue;
        flow_pair(&problem->fusion->flow, answer ? var : helper, answer ? helper : var, FLOW_NEVER);
        if (side->single[group->nodes[k]] == INLAY_NONE)
            flow_pair(&problem->fusion->flow, answer ? helper : var, answer ? var : helper, FLOW_NEVER);
    }
}

static void add_all_group_terms(struct problem *problem)
{
    struct fusion *fusion = problem->fusion;

    for (uint32_t node = 0; problem->options.group_count > 0 && node < problem->nodes; node++) {
        uint32_t current = fusion->current->group[node], proposed = fusion->proposed->group[node];

        if (current != INLAY_NONE && problem->partition->offers[current].nodes[0] == node)
            add_group_terms(problem, current, fusion->current, false);
        if (proposed != INLAY_NONE && proposed != current && problem->partition->offers[proposed].nodes[0] == node)
            add_group_terms(problem, proposed, fusion->proposed, true);
    }
}

/* A value whose copies depend on variables. */
struct copied {
    uint32_t value, producer; /* producer: the variable of the node that computes the value */
    uint32_t origin[2];       /* domain where the value is computed: by the current offer, by the proposed one */
    double leave[2];          /* price of leaving the region that computes it, likewise */
    double share;             /* share_per_iteration() of its copies */
};

/* One step of a value on its way, and the readers that require it. */
enum {
    STEP_LEAVE, /* out of the layout `at`: readers elsewhere */
    STEP_HOST,  /* from the memory `at` to the host: readers that it reaches by way of the host */
    STEP_COPY,  /* to the memory `at`: readers in it */
    STEP_ENTER  /* into the layout `at`: readers in it */
};
struct step {
    uint32_t kind, at;
    uint32_t origin; /* where the value is computed; decides where an output of the graph goes */
    double price;
};

/* Returns whether a value that is needed in the domain takes the step. */
static bool is_taken(const struct problem *problem, const struct step *step, uint32_t domain)
{
    if (domain == INLAY_NONE)
        return false;
    switch (step->kind) {
    case STEP_LEAVE:
        return domain != step->at;
    case STEP_HOST:
        return partition_memory_of(problem, domain) != step->at && !partition_bypasses_host(problem, step->at, domain);
    case STEP_COPY:
        return partition_memory_of(problem, domain) == step->at;
    default:
        return domain == step->at;
    }
}

static bool reader_takes(const struct problem *problem, const struct step *step, uint32_t reader,
                         const partition_alternative *side, uint32_t value)
{
    return is_taken(problem, step, reader_domain(problem, reader, offer_on(side, reader), value));
}

/* Adds the price of a step of the value, if some reader requires it and the gate is open. */
static void add_step(struct problem *problem, const struct copied *copied, uint32_t gate, const struct step *step)
{
    struct fusion *fusion = problem->fusion;
    struct flow *flow = &problem->fusion->flow;
    int64_t cost = to_integer(problem, step->price * copied->share);
    bool always = problem->links.leaves[copied->value] &&
                  is_taken(problem, step, home_domain(problem, copied->value, step->origin));
    uint32_t at_0 = 0, at_1 = 0, only = INLAY_NONE, helper;
    bool zero;

    if (cost == 0)
        return;
    for (uint32_t i = problem->links.reader_at[copied->value];
         !always && i < problem->links.reader_at[copied->value + 1]; i++) {
        uint32_t reader = problem->links.readers[i];
        bool current = reader_takes(problem, step, reader, fusion->current, copied->value);
        bool proposed = fusion->var[reader] == INLAY_NONE
                            ? current
                            : reader_takes(problem, step, reader, fusion->proposed, copied->value);

        always = current && proposed;
        at_0 += current && !proposed;
        at_1 += proposed && !current;
        only = current != proposed ? fusion->var[reader] : only;
    }
    if (always || (at_0 > 0 && at_1 > 0)) {
        if (gate != GATE_NONE)
            flow_cost(flow, copied->producer, gate == GATE_AT_0 ? cost : 0, gate == GATE_AT_1 ? cost : 0);
        return;
    }
    if (at_0 + at_1 == 0)
        return;
    zero = at_0 > 0; /* required by readers with the value 0 */
    helper = only;
    if (at_0 + at_1 > 1) {
        helper = flow_add(flow);
        for (uint32_t i = problem->links.reader_at[copied->value]; i < problem->links.reader_at[copied->value + 1];
             i++) {
            uint32_t reader = problem->links.readers[i];
            if (fusion->var[reader] != INLAY_NONE &&
                reader_takes(problem, step, reader, fusion->current, copied->value) !=
                    reader_takes(problem, step, reader, fusion->proposed, copied->value))
                flow_pair(flow, zero ? fusion->var[reader] : helper, zero ? helper : fusion->var[reader], FLOW_NEVER);
        }
    }
    if ((zero && gate == GATE_AT_1) || (!zero && gate == GATE_AT_0)) {
        if (helper != copied->producer) /* the node that computes a carried value may also read it */
            flow_pair(flow, zero ? helper : copied->producer, zero ? copied->producer : helper, cost);
    } else {
        flow_cost(flow, helper, zero ? cost : 0, zero ? 0 : cost);
    }
}

/* The copy of a carried value to its domain before the first iteration. */
static void add_initial_copy(struct problem *problem, const struct copied *copied, uint32_t from)
{
    double ns[2] = { 0, 0 };

    for (uint32_t k = 0; k < 2 && from != INLAY_NONE && copied->producer != INLAY_NONE; k++) {
        if (from != copied->origin[k])
            ns[k] = partition_copies_price(problem, copied->value, from, copied->origin[k]);
    }
    if (ns[0] != ns[1])
        flow_cost(&problem->fusion->flow, copied->producer,
                  to_integer(problem, ns[0] * share_per_iteration(problem, true)),
                  to_integer(problem, ns[1] * share_per_iteration(problem, true)));
}

/* The price of entering the layout, for the most expensive reader that either alternative has there. */
static double enter_price(const struct problem *problem, uint32_t value, uint32_t to)
{
    const struct fusion *fusion = problem->fusion;
    double ns = 0;

    if (to < problem->domains.memory_count)
        return 0;
    for (uint32_t i = 2 * problem->links.reader_at[value]; i < 2 * problem->links.reader_at[value + 1]; i++) {
        const uint32_t reader = problem->links.readers[i / 2],
                       offer = offer_on(i % 2 == 0 ? fusion->current : fusion->proposed, reader);

        if (reader_domain(problem, reader, offer, value) == to)
            ns = fmax(ns, partition_border_ns(problem, offer, value, to, true));
    }
    return objective_copy_price(problem, value, to, ns);
}

/* The gate of a step that side k takes: it is open for both sides if they start at the same place. */
static uint32_t gate_of(uint32_t k, bool same)
{
    return same ? GATE_NONE : k == 0 ? GATE_AT_0 : GATE_AT_1;
}

/* The steps out of the layouts and the memories where the value is computed. */
static void add_steps_out(struct problem *problem, const struct copied *copied)
{
    const uint32_t memory[2] = { partition_memory_of(problem, copied->origin[0]),
                                 partition_memory_of(problem, copied->origin[1]) };

    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t origin = copied->origin[k];

        if (origin != memory[k] && (k == 0 || copied->leave[0] != copied->leave[1] || origin != copied->origin[0]))
            add_step(problem, copied,
                     gate_of(k, origin == copied->origin[1 - k] && copied->leave[0] == copied->leave[1]),
                     &(struct step){ STEP_LEAVE, origin, origin, copied->leave[k] });
        if (memory[k] != INLAY_DOMAIN_HOST && (k == 0 || memory[0] != memory[1]))
            add_step(problem, copied, gate_of(k, memory[0] == memory[1]),
                     &(struct step){ STEP_HOST, memory[k], origin,
                                     partition_copies_price(problem, copied->value, memory[k], INLAY_DOMAIN_HOST) });
    }
}

/* The copies to a memory where the value is read: from the host, or past it. */
static void add_copies_to(struct problem *problem, const struct copied *copied, uint32_t memory)
{
    bool no_host[2];

    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t source = partition_memory_of(problem, copied->origin[k]);
        const bool same = source == partition_memory_of(problem, copied->origin[1 - k]);
        const bool linked = source != memory && partition_bypasses_host(problem, source, memory);

        no_host[k] = linked || source == memory;
        if (linked && (k == 0 || !same))
            add_step(problem, copied, gate_of(k, same),
                     &(struct step){ STEP_COPY, memory, copied->origin[k],
                                     partition_copies_price(problem, copied->value, source, memory) });
    }
    if (!no_host[0] || !no_host[1])
        add_step(problem, copied, gate_of(no_host[0] ? 1 : 0, no_host[0] == no_host[1]),
                 &(struct step){ STEP_COPY, memory, INLAY_DOMAIN_HOST,
                                 partition_copies_price(problem, copied->value, INLAY_DOMAIN_HOST, memory) });
}

/* The steps to a domain where the value is read. */
static void add_steps_to(struct problem *problem, const struct copied *copied, uint32_t to, uint32_t mark)
{
    const uint32_t memory = to == INLAY_NONE ? INLAY_DOMAIN_HOST : partition_memory_of(problem, to);
    const bool inside[2] = { to == copied->origin[0], to == copied->origin[1] };

    if (to == INLAY_NONE || problem->domains.marked[to] == mark)
        return;
    problem->domains.marked[to] = mark;
    if (to != memory && (!inside[0] || !inside[1]))
        add_step(problem, copied, gate_of(inside[0] ? 1 : 0, inside[0] == inside[1]),
                 &(struct step){ STEP_ENTER, to, INLAY_DOMAIN_HOST, enter_price(problem, copied->value, to) });
    if (memory == INLAY_DOMAIN_HOST || (to != memory && problem->domains.marked[memory] == mark))
        return;
    problem->domains.marked[memory] = mark;
    add_copies_to(problem, copied, memory);
}

static void add_copy_terms(struct problem *problem, uint32_t value)
{
    struct fusion *fusion = problem->fusion;
    const boundary_placement placement = boundary_placement_of(problem, value);
    const partition_source source = partition_source_of(problem, value);
    struct copied copied = { .value = value,
                             .producer = variable_of(fusion, source.node),
                             .share = share_per_iteration(problem, placement.once) };
    bool has_variable = copied.producer != INLAY_NONE;
    uint32_t mark;

    for (uint32_t i = problem->links.reader_at[value]; !has_variable && i < problem->links.reader_at[value + 1]; i++)
        has_variable = fusion->var[problem->links.readers[i]] != INLAY_NONE;
    if (!has_variable)
        return;
    copied.origin[0] = copied.origin[1] = source_domain(
        problem, source, value, source.node != INLAY_NONE ? offer_on(fusion->current, source.node) : INLAY_NONE);
    if (copied.producer != INLAY_NONE)
        copied.origin[1] = source_domain(problem, source, value, offer_on(fusion->proposed, source.node));
    if (copied.origin[0] == INLAY_NONE)
        return;
    for (uint32_t k = 0; k < 2 && source.node != INLAY_NONE; k++)
        copied.leave[k] = objective_copy_price(
            problem, value, copied.origin[k],
            partition_border_ns(
                problem,
                offer_on(k == 0 || copied.producer == INLAY_NONE ? fusion->current : fusion->proposed, source.node),
                value, copied.origin[k], false));
    if (placement.carried_output != INLAY_NONE)
        add_initial_copy(problem, &copied, placement.domain);
    add_steps_out(problem, &copied);
    mark = ++problem->domains.mark;
    for (uint32_t i = 2 * problem->links.reader_at[value]; i < 2 * problem->links.reader_at[value + 1]; i++) {
        const uint32_t reader = problem->links.readers[i / 2];

        if (i % 2 == 0 || fusion->var[reader] != INLAY_NONE)
            add_steps_to(problem, &copied,
                         reader_domain(problem, reader,
                                       offer_on(i % 2 == 0 ? fusion->current : fusion->proposed, reader), value),
                         mark);
    }
    if (problem->links.leaves[value] && placement.target != PLACEMENT_ANY && !placement.stacked)
        add_steps_to(problem, &copied, placement.target, mark);
}

/* The cost of a region boundary between a node and its parent. */
static double boundary_cost(const struct problem *problem, uint32_t parent_offer, uint32_t offer)
{
    uint32_t provider = partition_provider_of(problem, offer),
             parent_provider = partition_provider_of(problem, parent_offer);
    double ns = 0;

    if (provider == INLAY_NONE || (offer == parent_offer && problem->partition->offers[offer].node_count > 1))
        return 0;
    if (partition_merges(problem, offer) && (provider != parent_provider || !partition_merges(problem, parent_offer)))
        ns += problem->prices.launch[provider];
    return ns + (provider != parent_provider ? problem->prices.boundary : 0);
}

static void add_boundary_term(struct problem *problem, uint32_t node)
{
    struct fusion *fusion = problem->fusion;
    uint32_t parent = problem->links.parent[node], offers[2][2], vp = variable_of(fusion, parent),
             vn = fusion->var[node];
    double e00, e01, e10, e11; /* cost by the value of the parent's variable and the value of the node's */

    if (vp == INLAY_NONE && vn == INLAY_NONE)
        return;
    offers[0][0] = parent == INLAY_NONE ? INLAY_NONE : offer_on(fusion->current, parent);
    offers[0][1] = vp == INLAY_NONE ? offers[0][0] : offer_on(fusion->proposed, parent);
    offers[1][0] = offer_on(fusion->current, node);
    offers[1][1] = vn == INLAY_NONE ? offers[1][0] : offer_on(fusion->proposed, node);
    e00 = boundary_cost(problem, offers[0][0], offers[1][0]);
    e01 = boundary_cost(problem, offers[0][0], offers[1][1]);
    e10 = boundary_cost(problem, offers[0][1], offers[1][0]);
    e11 = boundary_cost(problem, offers[0][1], offers[1][1]);
    if (vn == INLAY_NONE) {
        flow_cost(&problem->fusion->flow, vp, to_integer(problem, e00), to_integer(problem, e10));
    } else if (vp == INLAY_NONE) {
        flow_cost(&problem->fusion->flow, vn, to_integer(problem, e00), to_integer(problem, e01));
    } else {
        flow_cost(&problem->fusion->flow, vp, 0, to_integer(problem, e10) - to_integer(problem, e00));
        flow_cost(&problem->fusion->flow, vn, 0, to_integer(problem, e11) - to_integer(problem, e10));
        flow_pair(&problem->fusion->flow, vp, vn,
                  to_integer(problem, e01) + to_integer(problem, e10) - to_integer(problem, e00) -
                      to_integer(problem, e11));
    }
}

/* A group is taken if all its nodes have the same value. */
static bool group_is_complete(const struct problem *problem, uint32_t offer, bool answer)
{
    const partition_offer *group = &problem->partition->offers[offer];
    const struct fusion *fusion = problem->fusion;

    if (!fusion->take[offer])
        return false;
    for (uint32_t k = 0; k < group->node_count; k++) {
        uint32_t var = fusion->var[group->nodes[k]];
        /* A node without a variable has the same offers in both alternatives. */
        if (var == INLAY_NONE
                ? answer && fusion->proposed->group[group->nodes[k]] != fusion->current->group[group->nodes[k]]
                : flow_is_one(&problem->fusion->flow, var) != answer)
            return false;
    }
    return true;
}

bool partition_fuse(struct problem *problem, const partition_alternative *current,
                    const partition_alternative *proposed, uint32_t *choice)
{
    struct fusion *fusion = problem->fusion;
    bool seams = problem->prices.boundary > 0;

    fusion->current = current;
    fusion->proposed = proposed;
    flow_clear(&problem->fusion->flow);
    add_node_terms(problem);
    add_all_group_terms(problem);
    for (uint32_t value = 0; problem->domains.count > 1 && value < problem->values; value++)
        if (!graph_is_constant(problem->graph, value))
            add_copy_terms(problem, value);
    for (uint32_t provider = 0; provider < problem->providers; provider++)
        seams |= problem->prices.launch[provider] > 0;
    for (uint32_t node = 0; seams && node < problem->nodes; node++)
        if (problem->candidates[node])
            add_boundary_term(problem, node);
    if (!flow_solve(&problem->fusion->flow)) {
        problem->failed = true;
        return false;
    }
    for (uint32_t node = 0; node < problem->nodes; node++) {
        bool answer = fusion->var[node] != INLAY_NONE && flow_is_one(&problem->fusion->flow, fusion->var[node]);
        const partition_alternative *side = answer ? proposed : current;

        choice[node] = side->single[node];
        if (side->group[node] != INLAY_NONE && group_is_complete(problem, side->group[node], answer))
            choice[node] = side->group[node];
    }
    return true;
}
