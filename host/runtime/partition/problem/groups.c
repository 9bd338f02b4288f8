/* Group offers: several nodes that run as one. */
#include "partition/problem/problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A group taken contracts its nodes to one; the graph that is left must have no cycle. */
struct grouping {
    uint32_t *group_of; /* [nodes] the group offer that was taken, NONE */
    uint32_t *spans;    /* [nodes] groups taken with nodes before n as well as at n or after it */
    uint32_t *member;   /* [nodes] number of the last walk that had the node in its group */
    uint32_t *seen;     /* [nodes] number of the last walk that came by */
    uint32_t *stack;    /* [nodes] */
    uint32_t *list;     /* [offers] scratch */
    uint8_t *told;      /* [offers] the log has it */
    uint32_t stack_count;
    uint32_t walk;
};

bool partition_groups_init(struct problem *problem)
{
    size_t nodes = (size_t)problem->nodes + 1, offers = (size_t)problem->offers + 1;
    struct grouping *grouping = arena_alloc(problem->scratch, sizeof *grouping);

    problem->grouping = grouping;
    if (grouping == NULL)
        return false;
    grouping->group_of = arena_array(problem->scratch, nodes, sizeof *grouping->group_of);
    grouping->spans = arena_array(problem->scratch, nodes, sizeof *grouping->spans);
    grouping->member = arena_array(problem->scratch, nodes, sizeof *grouping->member);
    grouping->seen = arena_array(problem->scratch, nodes, sizeof *grouping->seen);
    grouping->stack = arena_array(problem->scratch, nodes, sizeof *grouping->stack);
    grouping->list = arena_array(problem->scratch, offers, sizeof *grouping->list);
    grouping->told = arena_array(problem->scratch, offers, sizeof *grouping->told);
    if (grouping->group_of != NULL)
        memset(grouping->group_of, 0xff, problem->nodes * sizeof *grouping->group_of);
    return grouping->group_of != NULL && grouping->spans != NULL && grouping->member != NULL &&
           grouping->seen != NULL && grouping->stack != NULL && grouping->list != NULL && grouping->told != NULL;
}

/* ------------------------------------------------------------------ circles */

static void push_makers(const struct problem *problem, uint32_t node, bool members_too)
{
    const struct graph *graph = problem->graph;
    struct grouping *grouping = problem->grouping;

    for (uint32_t i = 0; i < partition_reads(graph->nodes[node]); i++) {
        uint32_t maker = partition_maker_of(graph, partition_read_at(graph->nodes[node], i));

        if (maker == INLAY_NONE || grouping->seen[maker] == grouping->walk ||
            (grouping->member[maker] == grouping->walk && !members_too))
            continue;
        grouping->seen[maker] = grouping->walk;
        grouping->stack[grouping->stack_count++] = maker;
    }
}

/* Does something that the group needs from outside need, by whatever way, something of the group? Walks back from the
 * group's inputs; a group that was taken is entered and left as one. */
static bool closes_circle(const struct problem *problem, const partition_offer *offer)
{
    struct grouping *grouping = problem->grouping;
    uint32_t floor = offer->nodes[0];

    grouping->walk++;
    grouping->stack_count = 0;
    for (uint32_t k = 0; k < offer->node_count; k++)
        grouping->member[offer->nodes[k]] = grouping->walk;
    for (uint32_t k = 0; k < offer->node_count; k++)
        push_makers(problem, offer->nodes[k], false);
    /* No group reaches across the floor, so what lies below it needs nothing from above. */
    while (grouping->spans[floor] > 0)
        floor--;
    while (grouping->stack_count > 0) {
        uint32_t n = grouping->stack[--grouping->stack_count], group = grouping->group_of[n];

        if (grouping->member[n] == grouping->walk)
            return true;
        if (n < floor)
            continue;
        if (group == INLAY_NONE) {
            push_makers(problem, n, true);
            continue;
        }
        for (uint32_t k = 0; k < problem->partition->offers[group].node_count; k++) {
            grouping->seen[problem->partition->offers[group].nodes[k]] = grouping->walk;
            push_makers(problem, problem->partition->offers[group].nodes[k], true);
        }
    }
    return false;
}

static void take_group(const struct problem *problem, uint32_t index)
{
    const partition_offer *offer = &problem->partition->offers[index];

    for (uint32_t k = 0; k < offer->node_count; k++)
        problem->grouping->group_of[offer->nodes[k]] = index;
    for (uint32_t n = offer->nodes[0] + 1; n <= offer->nodes[offer->node_count - 1]; n++)
        problem->grouping->spans[n]++;
}

static void forget_groups(const struct problem *problem)
{
    memset(problem->grouping->group_of, 0xff, problem->nodes * sizeof *problem->grouping->group_of);
    memset(problem->grouping->spans, 0, problem->nodes * sizeof *problem->grouping->spans);
}

static void tell_circle(const struct problem *problem, uint32_t offer, const char *what)
{
    const partition_request *request = problem->request;
    const partition_offer *o = &problem->partition->offers[offer];
    char text[320];

    if (request->log == NULL || problem->grouping->told[offer])
        return;
    problem->grouping->told[offer] = 1;
    (void)snprintf(text, sizeof text, "provider %s: a group offer of %u nodes from '%.100s' on %s",
                   request->providers[o->provider].name, o->node_count,
                   problem->graph->nodes[o->nodes[0]]->info.name.data, what);
    request->log(request->log_ctx, INLAY_LOG_WARNING, text);
}

void partition_void_circles(struct problem *problem)
{
    for (uint32_t offer = 0; offer < problem->offers; offer++) {
        if (problem->partition->offers[offer].node_count == 1 || !problem->usable[offer] ||
            !closes_circle(problem, &problem->partition->offers[offer]))
            continue;
        problem->usable[offer] = 0;
        tell_circle(problem, offer, "was ignored: the group would form a cycle");
    }
}

/* Nodes of the offer that have no usual single offer of its provider to fall back on. */
static uint32_t bare_nodes(const struct problem *problem, const partition_offer *offer)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < offer->node_count; k++)
        count += problem->picks.cheapest[(size_t)offer->provider * problem->nodes + offer->nodes[k]] == INLAY_NONE;
    return count;
}

/* What taking the group saves over its nodes' single offers. */
static double gain_of(const struct problem *problem, uint32_t offer)
{
    const partition_offer *o = &problem->partition->offers[offer];
    double ns = -problem->prices.offer[offer];

    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t single = problem->picks.cheapest[(size_t)o->provider * problem->nodes + o->nodes[k]];
        ns += single == INLAY_NONE ? 0 : problem->prices.offer[single];
    }
    return ns;
}

bool partition_untangle(struct problem *problem, uint32_t *choice)
{
    uint32_t *list = problem->grouping->list, count = 0;

    for (uint32_t n = 0; n < problem->nodes; n++)
        if (choice[n] != INLAY_NONE && problem->partition->offers[choice[n]].node_count > 1 &&
            problem->partition->offers[choice[n]].nodes[0] == n)
            list[count++] = choice[n];
    if (count < 2 || partition_schedule_choice(problem, choice, false))
        return true;
    /* Those that can't be dissolved first, then by what they save. */
    for (uint32_t i = 1; i < count; i++) {
        uint32_t offer = list[i], k = i;
        double gain = bare_nodes(problem, &problem->partition->offers[offer]) > 0 ? INFINITY : gain_of(problem, offer);

        for (; k > 0; k--) {
            double other = bare_nodes(problem, &problem->partition->offers[list[k - 1]]) > 0
                               ? INFINITY
                               : gain_of(problem, list[k - 1]);
            if (other >= gain)
                break;
            list[k] = list[k - 1];
        }
        list[k] = offer;
    }
    forget_groups(problem);
    for (uint32_t i = 0; i < count; i++) {
        const partition_offer *o = &problem->partition->offers[list[i]];

        if (!closes_circle(problem, o)) {
            take_group(problem, list[i]);
            continue;
        }
        if (bare_nodes(problem, o) > 0)
            return false;
        tell_circle(problem, list[i], "and another one would form a cycle together: one of them is not taken");
        for (uint32_t k = 0; k < o->node_count; k++)
            choice[o->nodes[k]] = problem->picks.cheapest[(size_t)o->provider * problem->nodes + o->nodes[k]];
    }
    return true;
}

/* ------------------------------------------------------------------ a first choice */

/* Is offer a a better choice than b for the same nodes? */
static bool is_better(const struct problem *problem, bool by_priority, uint32_t a, uint32_t b)
{
    const partition_offer *offer = &problem->partition->offers[a], *q = &problem->partition->offers[b];

    if (by_priority && offer->provider != q->provider)
        return offer->provider < q->provider;
    return problem->prices.offer[a] / offer->node_count < problem->prices.offer[b] / q->node_count;
}

/* Is the node in the offer? */
static bool holds(const partition_offer *offer, uint32_t node)
{
    uint32_t low = 0, high = offer->node_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (offer->nodes[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low < offer->node_count && offer->nodes[low] == node;
}

/* May the group be taken: none of its nodes is in another, and no circle? */
static bool is_free(const struct problem *problem, uint32_t offer)
{
    const partition_offer *o = &problem->partition->offers[offer];

    for (uint32_t k = 0; k < o->node_count; k++)
        if (problem->grouping->group_of[o->nodes[k]] != INLAY_NONE)
            return false;
    return !closes_circle(problem, o);
}

static void settle_group(const struct problem *problem, uint32_t offer, uint32_t *choice)
{
    const partition_offer *o = &problem->partition->offers[offer];

    take_group(problem, offer);
    for (uint32_t k = 0; k < o->node_count; k++)
        choice[o->nodes[k]] = offer;
}

/* Does the group displace no provider that comes before its own, and cost less than its own provider's offers? */
static bool has_priority(const struct problem *problem, uint32_t offer, const uint32_t *choice)
{
    const partition_offer *o = &problem->partition->offers[offer];
    double own = 0;

    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t now = choice[o->nodes[k]];
        if (problem->partition->offers[now].provider < o->provider)
            return false;
        own += problem->partition->offers[now].provider == o->provider ? problem->prices.offer[now] : INFINITY;
    }
    return problem->prices.offer[offer] < own;
}

uint32_t partition_first_choice(struct problem *problem, bool by_priority, uint32_t *choice)
{
    uint32_t missing = INLAY_NONE;

    forget_groups(problem);
    for (uint32_t n = 0; n < problem->nodes; n++) {
        choice[n] = INLAY_NONE;
        for (uint32_t i = problem->picks.first_single[n]; i < problem->picks.first_single[n + 1]; i++)
            if (choice[n] == INLAY_NONE || is_better(problem, by_priority, problem->picks.singles[i], choice[n]))
                choice[n] = problem->picks.singles[i];
    }
    for (uint32_t n = 0; n < problem->nodes; n++) {
        uint32_t best = INLAY_NONE;

        if (choice[n] != INLAY_NONE || !problem->candidates[n])
            continue;
        for (uint32_t i = 0; i < problem->picks.group_count; i++) {
            const partition_offer *offer = &problem->partition->offers[problem->picks.groups[i]];
            if (holds(offer, n) && is_free(problem, problem->picks.groups[i]) &&
                (best == INLAY_NONE || is_better(problem, by_priority, problem->picks.groups[i], best)))
                best = problem->picks.groups[i];
        }
        if (best == INLAY_NONE)
            missing = missing == INLAY_NONE ? n : missing;
        else
            settle_group(problem, best, choice);
    }
    for (uint32_t i = 0; by_priority && missing == INLAY_NONE && i < problem->picks.group_count; i++)
        if (has_priority(problem, problem->picks.groups[i], choice) && is_free(problem, problem->picks.groups[i]))
            settle_group(problem, problem->picks.groups[i], choice);
    return missing;
}

/* ------------------------------------------------------------------ families */

struct ranked {
    double gain;
    uint32_t index; /* into x->groups */
};

static int by_gain(const void *a, const void *b)
{
    const struct ranked *ranked = a, *q = b;

    if (ranked->gain != q->gain)
        return ranked->gain > q->gain ? -1 : 1;
    return ranked->index < q->index ? -1 : ranked->index > q->index;
}

uint32_t partition_families(struct problem *problem, uint32_t provider, uint32_t *family)
{
    struct ranked *list = arena_array(problem->scratch, (size_t)problem->picks.group_count + 1, sizeof *list);
    uint32_t *next = problem->grouping->seen, count = 0, families = 0;

    if (list == NULL) {
        problem->failed = true;
        return 0;
    }
    for (uint32_t i = 0; i < problem->picks.group_count; i++) {
        const partition_offer *offer = &problem->partition->offers[problem->picks.groups[i]];

        family[i] = INLAY_NONE;
        if (offer->provider == provider)
            list[count++] = (struct ranked){ bare_nodes(problem, offer) > 0
                                                 ? INFINITY
                                                 : gain_of(problem, problem->picks.groups[i]) / offer->node_count,
                                             i };
    }
    qsort(list, count, sizeof *list, by_gain);
    /* Each group joins the first family in which its nodes are free. next[n]: families below it have node n already. */
    memset(next, 0, problem->nodes * sizeof *next);
    for (uint32_t i = 0; i < count; i++) {
        const partition_offer *offer = &problem->partition->offers[problem->picks.groups[list[i].index]];
        uint32_t f = 0;

        for (uint32_t k = 0; k < offer->node_count; k++)
            f = next[offer->nodes[k]] > f ? next[offer->nodes[k]] : f;
        for (uint32_t k = 0; k < offer->node_count; k++)
            next[offer->nodes[k]] = f + 1;
        family[list[i].index] = f;
        families = f + 1 > families ? f + 1 : families;
    }
    /* The walks use the same marks. */
    memset(next, 0, problem->nodes * sizeof *next);
    memset(problem->grouping->member, 0, problem->nodes * sizeof *problem->grouping->member);
    problem->grouping->walk = 0;
    return families;
}

uint32_t partition_cheapest_single(const struct problem *problem, uint32_t node)
{
    uint32_t best = INLAY_NONE;

    for (uint32_t p = 0; p < problem->providers; p++) {
        uint32_t o = problem->picks.cheapest[(size_t)p * problem->nodes + node];
        if (o != INLAY_NONE && (best == INLAY_NONE || problem->prices.offer[o] < problem->prices.offer[best]))
            best = o;
    }
    return best;
}

/* Groups as intervals from first to last node: the best up to node n either leaves n alone, or ends with a group there
 * and is the best up to before that group. */
void partition_best_family(struct problem *problem, uint32_t *family)
{
    double *gain = arena_array(problem->scratch, (size_t)problem->nodes + 2, sizeof *gain);
    uint32_t *pick = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *pick);
    uint32_t *first = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *first);
    uint32_t *next = arena_array(problem->scratch, (size_t)problem->picks.group_count + 1, sizeof *next);

    if (gain == NULL || pick == NULL || first == NULL || next == NULL) {
        problem->failed = true;
        return;
    }
    memset(first, 0xff, problem->nodes * sizeof *first);
    memset(family, 0xff, problem->picks.group_count * sizeof *family);
    for (uint32_t i = problem->picks.group_count; i-- > 0;) {
        const partition_offer *offer = &problem->partition->offers[problem->picks.groups[i]];
        next[i] = first[offer->nodes[offer->node_count - 1]];
        first[offer->nodes[offer->node_count - 1]] = i;
    }
    for (uint32_t n = 0; n < problem->nodes; n++) {
        gain[n + 1] = gain[n];
        pick[n] = INLAY_NONE;
        for (uint32_t i = first[n]; i != INLAY_NONE; i = next[i]) {
            const partition_offer *offer = &problem->partition->offers[problem->picks.groups[i]];
            double ns = gain[offer->nodes[0]] - problem->prices.offer[problem->picks.groups[i]];

            for (uint32_t k = 0; k < offer->node_count; k++) {
                uint32_t single = partition_cheapest_single(problem, offer->nodes[k]);
                ns += single == INLAY_NONE ? 1e15
                                           : problem->prices.offer[single]; /* nodes that only groups run come first */
            }
            if (ns > gain[n + 1]) {
                gain[n + 1] = ns;
                pick[n] = i;
            }
        }
    }
    for (uint32_t n = problem->nodes; n > 0;) {
        uint32_t i = pick[n - 1];

        if (i == INLAY_NONE) {
            n--;
            continue;
        }
        family[i] = 0;
        n = problem->partition->offers[problem->picks.groups[i]].nodes[0];
    }
}
