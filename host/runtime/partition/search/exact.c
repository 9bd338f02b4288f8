/* Branch and bound: enumerates all choices, except those whose cost exceeds the best one before they are complete. */
#include "inlay/check.h"
#include "partition/search/search.h"
#include <math.h>
#include <string.h>

struct branch {
    struct problem *problem;
    uint32_t *choice, *best;   /* [nodes] */
    double *least;             /* [nodes] lower bound of the node's cost, a share of the price for groups */
    double *copy_ns;           /* [values] cost of its copies, as far as the nodes are chosen */
    uint32_t *first_group;     /* [nodes + 1] into by_head */
    uint32_t *by_head;         /* groups by their first node */
    partition_verdict verdict; /* of best */
    uint32_t steps;
    bool out_of_budget;
};

static bool branch_init(struct branch *branch, struct problem *problem, uint32_t *best)
{
    uint32_t *at;

    *branch = (struct branch){ .problem = problem, .best = best };
    branch->choice = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *branch->choice);
    branch->least = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *branch->least);
    branch->copy_ns = arena_array(problem->scratch, (size_t)problem->values + 1, sizeof *branch->copy_ns);
    branch->first_group = at = arena_array(problem->scratch, (size_t)problem->nodes + 2, sizeof *branch->first_group);
    branch->by_head = arena_array(problem->scratch, (size_t)problem->options.group_count + 1, sizeof *branch->by_head);
    if (branch->choice == NULL || branch->least == NULL || branch->copy_ns == NULL || at == NULL ||
        branch->by_head == NULL)
        return false;
    memset(branch->choice, 0xff, problem->nodes * sizeof *branch->choice);
    for (uint32_t node = 0; node < problem->nodes; node++)
        branch->least[node] = problem->candidates[node] ? INFINITY : 0;
    for (uint32_t node = 0; node < problem->nodes; node++)
        for (uint32_t i = problem->options.first_single[node]; i < problem->options.first_single[node + 1]; i++)
            branch->least[node] = fmin(branch->least[node], problem->prices.offer[problem->options.singles[i]]);
    for (uint32_t i = 0; i < problem->options.group_count; i++) {
        const partition_offer *offer = &problem->partition->offers[problem->options.groups[i]];
        for (uint32_t k = 0; k < offer->node_count; k++)
            branch->least[offer->nodes[k]] = fmin(
                branch->least[offer->nodes[k]], problem->prices.offer[problem->options.groups[i]] / offer->node_count);
        at[offer->nodes[0] + 1]++;
    }
    for (uint32_t node = 0; node < problem->nodes; node++)
        at[node + 1] += at[node];
    for (uint32_t i = problem->options.group_count; i-- > 0;)
        branch->by_head[--at[problem->partition->offers[problem->options.groups[i]].nodes[0] + 1]] =
            problem->options.groups[i];
    memmove(at, at + 1, problem->nodes * sizeof *at);
    at[problem->nodes] = problem->options.group_count;
    return true;
}

/* Recomputes the cost of the copies of a value; returns the difference. */
static double recount(struct branch *branch, uint32_t value)
{
    double before = branch->copy_ns[value], ns = 0;

    if (value == INLAY_NONE || branch->problem->domains.count == 1)
        return 0;
    for (uint32_t count = partition_list_transfers(branch->problem, branch->choice, value); count > 0; count--)
        ns += partition_transfer_price(branch->problem, value, branch->problem->domains.transfers[count - 1]) *
              share_per_iteration(branch->problem, branch->problem->domains.transfers[count - 1].once);
    branch->copy_ns[value] = ns;
    return ns - before;
}

/* Recomputes the copies of a value that a node computes, and of the value that it becomes in the next iteration. */
static double recount_made(struct branch *branch, uint32_t value)
{
    const struct graph *graph = branch->problem->graph;
    double ns = recount(branch, value);

    for (uint32_t i = 0; branch->problem->partition->boundaries != NULL && i < graph->input_count; i++)
        if (branch->problem->partition->boundaries[graph->inputs[i]].carried_output == value)
            ns += recount(branch, graph->inputs[i]);
    return ns;
}

/* Sets or clears the choice of the offer's nodes; returns the difference in the cost of copies. */
static double place_offer(struct branch *branch, uint32_t offer, bool set)
{
    const partition_offer *placed = &branch->problem->partition->offers[offer];
    double ns = 0;

    INLAY_CHECK(offer < branch->problem->offers);
    for (uint32_t k = 0; k < placed->node_count; k++)
        branch->choice[placed->nodes[k]] = set ? offer : INLAY_NONE;
    for (uint32_t k = 0; branch->problem->domains.count > 1 && k < placed->node_count; k++) {
        const graph_node *node = branch->problem->graph->nodes[placed->nodes[k]];
        for (uint32_t i = 0; i < graph_read_count(node); i++)
            ns += graph_read_at(node, i) == INLAY_NONE ? 0 : recount(branch, graph_read_at(node, i));
        for (uint32_t i = 0; i < node->info.output_count; i++)
            ns += node->info.outputs[i] == INLAY_NONE ? 0 : recount_made(branch, node->info.outputs[i]);
    }
    return ns;
}

static bool is_open(const struct branch *branch, uint32_t offer)
{
    const partition_offer *placed = &branch->problem->partition->offers[offer];

    for (uint32_t k = 0; k < placed->node_count; k++)
        if (branch->choice[placed->nodes[k]] != INLAY_NONE)
            return false;
    return true;
}

static void judge_leaf(struct branch *branch)
{
    partition_verdict verdict = partition_evaluate(branch->problem, branch->choice);

    if (!verdict.runs || (branch->verdict.feasible && !verdict.feasible))
        return;
    if (branch->verdict.runs && branch->verdict.feasible == verdict.feasible &&
        verdict.price >= branch->verdict.price * (1 - 1e-12) - 1e-9)
        return;
    branch->verdict = verdict;
    memcpy(branch->best, branch->choice, branch->problem->nodes * sizeof *branch->best);
}

/* Chooses for `node` and all nodes after it. spent: offers and copies so far; rest: lower bound for the nodes not
 * chosen yet. */
static void search_from(struct branch *branch, uint32_t node, double spent, double rest, uint32_t budget)
{
    struct problem *problem = branch->problem;
    uint32_t singles, all;

    while (node < problem->nodes && (branch->choice[node] != INLAY_NONE || !problem->candidates[node]))
        node++;
    if (branch->verdict.feasible && spent + rest >= branch->verdict.price * (1 - 1e-12))
        return;
    if (branch->steps++ >= budget || problem->failed) {
        branch->out_of_budget = true;
        return;
    }
    if (node == problem->nodes) {
        judge_leaf(branch);
        return;
    }
    singles = problem->options.first_single[node + 1] - problem->options.first_single[node];
    all = singles + branch->first_group[node + 1] - branch->first_group[node];
    for (uint32_t i = 0; i < all && !branch->out_of_budget; i++) {
        uint32_t offer = i < singles ? problem->options.singles[problem->options.first_single[node] + i]
                                     : branch->by_head[branch->first_group[node] + i - singles];
        const partition_offer *candidate = &problem->partition->offers[offer];
        double saved = 0, ns;

        if (i >= singles && !is_open(branch, offer))
            continue;
        for (uint32_t k = 0; k < candidate->node_count; k++)
            saved += branch->least[candidate->nodes[k]];
        ns = place_offer(branch, offer, true);
        search_from(branch, node + 1, spent + problem->prices.offer[offer] + ns, rest - saved, budget);
        (void)place_offer(branch, offer, false);
    }
}

bool partition_exact(struct problem *problem, uint32_t budget, uint32_t *choice, partition_verdict *verdict)
{
    double rest = 0;
    struct branch branch;

    if (!branch_init(&branch, problem, choice)) {
        problem->failed = true;
        return false;
    }
    branch.verdict = *verdict;
    for (uint32_t node = 0; node < problem->nodes; node++)
        rest += branch.least[node];
    if (rest < INFINITY)
        search_from(&branch, 0, 0, rest, budget);
    *verdict = branch.verdict;
    return !branch.out_of_budget;
}
