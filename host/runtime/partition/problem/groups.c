/* Group offers: several nodes that run as one unit. */
#include "inlay/check.h"
#include "inlay/execution.h"
#include "partition/problem/problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A chosen group contracts its nodes to one; the resulting graph must be acyclic. */
struct grouping {
    uint32_t *group_of; /* [nodes] the chosen group offer, or NONE */
    uint32_t *spans;    /* [nodes] number of chosen groups with nodes both before n and at n or after it */
    uint32_t *member;   /* [nodes] the last walk whose group contains the node */
    uint32_t *visited;  /* [nodes] the last walk that visited the node */
    uint32_t *stack;    /* [nodes] */
    uint32_t *list;     /* [offers] scratch */
    uint8_t *logged;    /* [offers] a message was logged */
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
    grouping->visited = arena_array(problem->scratch, nodes, sizeof *grouping->visited);
    grouping->stack = arena_array(problem->scratch, nodes, sizeof *grouping->stack);
    grouping->list = arena_array(problem->scratch, offers, sizeof *grouping->list);
    grouping->logged = arena_array(problem->scratch, offers, sizeof *grouping->logged);
    if (grouping->group_of != NULL)
        memset(grouping->group_of, 0xff, problem->nodes * sizeof *grouping->group_of);
    return grouping->group_of != NULL && grouping->spans != NULL && grouping->member != NULL &&
           grouping->visited != NULL && grouping->stack != NULL && grouping->list != NULL && grouping->logged != NULL;
}

static void push_producers(const struct problem *problem, uint32_t node, bool members_too)
{
    const struct graph *graph = problem->graph;
    struct grouping *grouping = problem->grouping;

    for (uint32_t i = 0; i < graph_read_count(graph->nodes[node]); i++) {
        uint32_t producer = partition_producer_of(graph, graph_read_at(graph->nodes[node], i));

        if (producer == INLAY_NONE || grouping->visited[producer] == grouping->walk ||
            (grouping->member[producer] == grouping->walk && !members_too))
            continue;
        grouping->visited[producer] = grouping->walk;
        INLAY_CHECK(grouping->stack_count < problem->nodes);
        grouping->stack[grouping->stack_count++] = producer;
    }
}

/* Returns whether an input of the group depends, directly or indirectly, on an output of the group. Walks backwards
 * from the group's inputs; a chosen group is entered and left as one node. */
static bool forms_cycle(const struct problem *problem, const partition_offer *offer)
{
    struct grouping *grouping = problem->grouping;
    uint32_t floor = offer->nodes[0];

    grouping->walk++;
    grouping->stack_count = 0;
    for (uint32_t k = 0; k < offer->node_count; k++)
        grouping->member[offer->nodes[k]] = grouping->walk;
    for (uint32_t k = 0; k < offer->node_count; k++)
        push_producers(problem, offer->nodes[k], false);
    /* No group spans the floor, so nodes below it do not depend on nodes above. */
    while (grouping->spans[floor] > 0)
        floor--;
    while (grouping->stack_count > 0) {
        uint32_t node = grouping->stack[--grouping->stack_count], group = grouping->group_of[node];

        if (grouping->member[node] == grouping->walk)
            return true;
        if (node < floor)
            continue;
        if (group == INLAY_NONE) {
            push_producers(problem, node, true);
            continue;
        }
        for (uint32_t k = 0; k < problem->partition->offers[group].node_count; k++) {
            grouping->visited[problem->partition->offers[group].nodes[k]] = grouping->walk;
            push_producers(problem, problem->partition->offers[group].nodes[k], true);
        }
    }
    return false;
}

static void choose_group(const struct problem *problem, uint32_t index)
{
    const partition_offer *offer = &problem->partition->offers[index];

    INLAY_CHECK(offer->node_count > 1);
    for (uint32_t k = 0; k < offer->node_count; k++)
        problem->grouping->group_of[offer->nodes[k]] = index;
    for (uint32_t node = offer->nodes[0] + 1; node <= offer->nodes[offer->node_count - 1]; node++)
        problem->grouping->spans[node]++;
}

static void reset_groups(const struct problem *problem)
{
    memset(problem->grouping->group_of, 0xff, problem->nodes * sizeof *problem->grouping->group_of);
    memset(problem->grouping->spans, 0, problem->nodes * sizeof *problem->grouping->spans);
}

static void log_cycle(const struct problem *problem, uint32_t offer, const char *what)
{
    const partition_request *request = problem->request;
    const partition_offer *group = &problem->partition->offers[offer];
    char text[320];

    if (request->log == NULL || problem->grouping->logged[offer])
        return;
    problem->grouping->logged[offer] = 1;
    (void)snprintf(text, sizeof text, "provider %s: a group offer of %u nodes from '%.100s' on %s",
                   request->providers[group->provider].name, group->node_count,
                   problem->graph->nodes[group->nodes[0]]->info.name.data, what);
    request->log(request->log_ctx, INLAY_LOG_WARNING, text);
}

void reject_cyclic_groups(struct problem *problem)
{
    for (uint32_t offer = 0; offer < problem->offers; offer++) {
        if (problem->partition->offers[offer].node_count == 1 || !problem->usable[offer] ||
            !forms_cycle(problem, &problem->partition->offers[offer]))
            continue;
        problem->usable[offer] = 0;
        log_cycle(problem, offer, "was ignored: the group would form a cycle");
    }
}

/* The number of nodes of the offer without a fallback: a single offer of its provider with the usual placement. */
static uint32_t nodes_without_single(const struct problem *problem, const partition_offer *offer)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < offer->node_count; k++)
        count += problem->options.cheapest[(size_t)offer->provider * problem->nodes + offer->nodes[k]] == INLAY_NONE;
    return count;
}

/* The saving of the group compared with the single offers of its nodes. */
static double gain_of(const struct problem *problem, uint32_t offer)
{
    const partition_offer *group = &problem->partition->offers[offer];
    double ns = -problem->prices.offer[offer];

    for (uint32_t k = 0; k < group->node_count; k++) {
        uint32_t single = problem->options.cheapest[(size_t)group->provider * problem->nodes + group->nodes[k]];
        ns += single == INLAY_NONE ? 0 : problem->prices.offer[single];
    }
    return ns;
}

bool dissolve_cyclic_groups(struct problem *problem, uint32_t *choice)
{
    uint32_t *list = problem->grouping->list, count = 0;

    for (uint32_t node = 0; node < problem->nodes; node++)
        if (choice[node] != INLAY_NONE && problem->partition->offers[choice[node]].node_count > 1 &&
            problem->partition->offers[choice[node]].nodes[0] == node)
            list[count++] = choice[node];
    if (count < 2 || partition_schedule_choice(problem, choice, false))
        return true;
    /* Groups that cannot be dissolved come first, then those with the largest savings. */
    for (uint32_t i = 1; i < count; i++) {
        uint32_t offer = list[i], k = i;
        double gain =
            nodes_without_single(problem, &problem->partition->offers[offer]) > 0 ? INFINITY : gain_of(problem, offer);

        for (; k > 0; k--) {
            double other = nodes_without_single(problem, &problem->partition->offers[list[k - 1]]) > 0
                               ? INFINITY
                               : gain_of(problem, list[k - 1]);
            if (other >= gain)
                break;
            list[k] = list[k - 1];
        }
        list[k] = offer;
    }
    reset_groups(problem);
    for (uint32_t i = 0; i < count; i++) {
        const partition_offer *group = &problem->partition->offers[list[i]];

        if (!forms_cycle(problem, group)) {
            choose_group(problem, list[i]);
            continue;
        }
        if (nodes_without_single(problem, group) > 0)
            return false;
        log_cycle(problem, list[i], "and another one would form a cycle together: one of them is not taken");
        for (uint32_t k = 0; k < group->node_count; k++)
            choice[group->nodes[k]] =
                problem->options.cheapest[(size_t)group->provider * problem->nodes + group->nodes[k]];
    }
    return true;
}

/* Returns whether `first` is a better choice than `second` for the same nodes. */
static bool is_better(const struct problem *problem, const uint32_t *rank, uint32_t first, uint32_t second)
{
    const partition_offer *offer = &problem->partition->offers[first], *other = &problem->partition->offers[second];

    if (rank != NULL && offer->provider != other->provider)
        return rank[offer->provider] < rank[other->provider];
    return problem->prices.offer[first] / offer->node_count < problem->prices.offer[second] / other->node_count;
}

/* Returns whether the offer contains the node. */
static bool offer_contains(const partition_offer *offer, uint32_t node)
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

/* Returns whether the group can be chosen: none of its nodes is in another chosen group, and it forms no cycle. */
static bool is_free(const struct problem *problem, uint32_t offer)
{
    const partition_offer *group = &problem->partition->offers[offer];

    for (uint32_t k = 0; k < group->node_count; k++)
        if (problem->grouping->group_of[group->nodes[k]] != INLAY_NONE)
            return false;
    return !forms_cycle(problem, group);
}

static void assign_group(const struct problem *problem, uint32_t offer, uint32_t *choice)
{
    const partition_offer *group = &problem->partition->offers[offer];

    choose_group(problem, offer);
    for (uint32_t k = 0; k < group->node_count; k++)
        choice[group->nodes[k]] = offer;
}

/* Returns whether the group displaces no provider with higher priority, and costs less than its own provider's single
 * offers. */
static bool has_priority(const struct problem *problem, const uint32_t *rank, uint32_t offer, const uint32_t *choice)
{
    const partition_offer *group = &problem->partition->offers[offer];
    double own = 0;

    for (uint32_t k = 0; k < group->node_count; k++) {
        uint32_t now = choice[group->nodes[k]];
        if (rank[problem->partition->offers[now].provider] < rank[group->provider])
            return false;
        own += problem->partition->offers[now].provider == group->provider ? problem->prices.offer[now] : INFINITY;
    }
    return problem->prices.offer[offer] < own;
}

uint32_t partition_first_choice(struct problem *problem, const uint32_t *rank, uint32_t *choice)
{
    uint32_t missing = INLAY_NONE;

    reset_groups(problem);
    for (uint32_t node = 0; node < problem->nodes; node++) {
        choice[node] = INLAY_NONE;
        for (uint32_t i = problem->options.first_single[node]; i < problem->options.first_single[node + 1]; i++)
            if (choice[node] == INLAY_NONE || is_better(problem, rank, problem->options.singles[i], choice[node]))
                choice[node] = problem->options.singles[i];
    }
    for (uint32_t node = 0; node < problem->nodes; node++) {
        uint32_t best = INLAY_NONE;

        if (choice[node] != INLAY_NONE || !problem->candidates[node])
            continue;
        for (uint32_t i = 0; i < problem->options.group_count; i++) {
            const partition_offer *offer = &problem->partition->offers[problem->options.groups[i]];
            if (offer_contains(offer, node) && is_free(problem, problem->options.groups[i]) &&
                (best == INLAY_NONE || is_better(problem, rank, problem->options.groups[i], best)))
                best = problem->options.groups[i];
        }
        if (best == INLAY_NONE)
            missing = missing == INLAY_NONE ? node : missing;
        else
            assign_group(problem, best, choice);
    }
    for (uint32_t i = 0; rank != NULL && missing == INLAY_NONE && i < problem->options.group_count; i++)
        if (has_priority(problem, rank, problem->options.groups[i], choice) &&
            is_free(problem, problem->options.groups[i]))
            assign_group(problem, problem->options.groups[i], choice);
    return missing;
}

struct ranked {
    double gain;
    uint32_t index; /* into options.groups */
};

static int by_gain(const void *a, const void *b)
{
    const struct ranked *ranked = a, *other = b;

    if (ranked->gain != other->gain)
        return ranked->gain > other->gain ? -1 : 1;
    return ranked->index < other->index ? -1 : ranked->index > other->index;
}

uint32_t partition_families(struct problem *problem, uint32_t provider, uint32_t *family)
{
    struct ranked *list = arena_array(problem->scratch, (size_t)problem->options.group_count + 1, sizeof *list);
    uint32_t *next = problem->grouping->visited, count = 0, families = 0;

    if (list == NULL) {
        problem->failed = true;
        return 0;
    }
    for (uint32_t i = 0; i < problem->options.group_count; i++) {
        const partition_offer *offer = &problem->partition->offers[problem->options.groups[i]];

        family[i] = INLAY_NONE;
        if (offer->provider == provider)
            list[count++] = (struct ranked){ nodes_without_single(problem, offer) > 0
                                                 ? INFINITY
                                                 : gain_of(problem, problem->options.groups[i]) / offer->node_count,
                                             i };
    }
    qsort(list, count, sizeof *list, by_gain);
    /* Each group joins the first family in which its nodes are free. next[n]: the number of families that contain node
     * n. */
    memset(next, 0, problem->nodes * sizeof *next);
    for (uint32_t i = 0; i < count; i++) {
        const partition_offer *offer = &problem->partition->offers[problem->options.groups[list[i].index]];
        uint32_t index = 0;

        for (uint32_t k = 0; k < offer->node_count; k++)
            index = next[offer->nodes[k]] > index ? next[offer->nodes[k]] : index;
        for (uint32_t k = 0; k < offer->node_count; k++)
            next[offer->nodes[k]] = index + 1;
        family[list[i].index] = index;
        families = index + 1 > families ? index + 1 : families;
    }
    /* The walks use the same arrays. */
    memset(next, 0, problem->nodes * sizeof *next);
    memset(problem->grouping->member, 0, problem->nodes * sizeof *problem->grouping->member);
    problem->grouping->walk = 0;
    return families;
}

uint32_t partition_cheapest_single(const struct problem *problem, uint32_t node)
{
    uint32_t best = INLAY_NONE;

    for (uint32_t provider = 0; provider < problem->providers; provider++) {
        uint32_t offer = problem->options.cheapest[(size_t)provider * problem->nodes + node];
        if (offer != INLAY_NONE && (best == INLAY_NONE || problem->prices.offer[offer] < problem->prices.offer[best]))
            best = offer;
    }
    return best;
}

/* Weighted interval scheduling over groups as intervals from first to last node: the optimum up to node n either leaves
 * n ungrouped, or ends with a group at n and extends the optimum before that group. */
void partition_best_family(struct problem *problem, uint32_t *family)
{
    double *gain = arena_array(problem->scratch, (size_t)problem->nodes + 2, sizeof *gain);
    uint32_t *pick = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *pick);
    uint32_t *first = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *first);
    uint32_t *next = arena_array(problem->scratch, (size_t)problem->options.group_count + 1, sizeof *next);

    if (gain == NULL || pick == NULL || first == NULL || next == NULL) {
        problem->failed = true;
        return;
    }
    memset(first, 0xff, problem->nodes * sizeof *first);
    memset(family, 0xff, problem->options.group_count * sizeof *family);
    for (uint32_t i = problem->options.group_count; i-- > 0;) {
        const partition_offer *offer = &problem->partition->offers[problem->options.groups[i]];
        next[i] = first[offer->nodes[offer->node_count - 1]];
        first[offer->nodes[offer->node_count - 1]] = i;
    }
    for (uint32_t node = 0; node < problem->nodes; node++) {
        gain[node + 1] = gain[node];
        pick[node] = INLAY_NONE;
        for (uint32_t i = first[node]; i != INLAY_NONE; i = next[i]) {
            const partition_offer *offer = &problem->partition->offers[problem->options.groups[i]];
            double ns = gain[offer->nodes[0]] - problem->prices.offer[problem->options.groups[i]];

            for (uint32_t k = 0; k < offer->node_count; k++) {
                uint32_t single = partition_cheapest_single(problem, offer->nodes[k]);
                /* 1e15: prefers groups with nodes that have no single offer. */
                ns += single == INLAY_NONE ? 1e15 : problem->prices.offer[single];
            }
            if (ns > gain[node + 1]) {
                gain[node + 1] = ns;
                pick[node] = i;
            }
        }
    }
    for (uint32_t node = problem->nodes; node > 0;) {
        uint32_t i = pick[node - 1];

        if (i == INLAY_NONE) {
            node--;
            continue;
        }
        family[i] = 0;
        node = problem->partition->offers[problem->options.groups[i]].nodes[0];
    }
}
