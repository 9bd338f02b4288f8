/* Undoes changes of provider with insignificant gain.
 *
 * Margins keep single nodes at their provider while the prices differ by less than their error. Margins do not prevent
 * changes of nodes that are tiny compared with their graph. Such a change may save a ten-thousandth of a run by the
 * prices, and effects outside of the cost model (an additional step, another address of a value) may cost as much. So
 * connected changes are compared as a whole with the cost of the run. The changes with the smallest gain are undone as
 * long as the total loss is at most a tenth of the error of the whole price. */
#include "inlay/check.h"
#include "partition/search/search.h"
#include <stdlib.h>
#include <string.h>

static const double share_of_error = 0.1;
enum { MAX_STEPS = 16 };

struct change {
    uint32_t root; /* a node; all changes with the same root are undone together */
    double gain;   /* of its offers */
};

struct marginal_moves {
    struct problem *problem;
    uint32_t *choice, *preferred, *trial; /* [nodes] offers: current, by the order of providers, a mix */
    uint32_t *root;                       /* [nodes] union-find; valid for nodes of changes only */
    uint32_t *listed;                     /* [nodes] of a root: index of its change in the list */
    uint8_t *changed;                     /* [nodes] 1 = belongs to a change */
    struct change *changes;               /* [count] smallest gain first */
    uint32_t count;
};

static uint32_t root_of(struct marginal_moves *moves, uint32_t node)
{
    while (moves->root[node] != node)
        node = moves->root[node] = moves->root[moves->root[node]];
    return node;
}

static void join(struct marginal_moves *moves, uint32_t first, uint32_t second)
{
    INLAY_CHECK(first < moves->problem->nodes && second < moves->problem->nodes);
    moves->root[root_of(moves, first)] = root_of(moves, second);
}

/* Adds all nodes of the offer to the change that contains `node`. Returns whether the change has grown. */
static bool include_offer(struct marginal_moves *moves, uint32_t offer, uint32_t node)
{
    const partition_offer *whole = offer != INLAY_NONE ? &moves->problem->partition->offers[offer] : NULL;
    bool more = false;

    for (uint32_t k = 0; whole != NULL && whole->node_count > 1 && k < whole->node_count; k++) {
        more |= !moves->changed[whole->nodes[k]];
        moves->changed[whole->nodes[k]] = 1;
        join(moves, node, whole->nodes[k]);
    }
    return more;
}

/* Finds the nodes whose provider is not the preferred one, and connects them. */
static void find_changes(struct marginal_moves *moves)
{
    const struct problem *problem = moves->problem;

    for (uint32_t node = 0; node < problem->nodes; node++) {
        moves->root[node] = node;
        moves->changed[node] = partition_provider_of(problem, moves->choice[node]) !=
                               partition_provider_of(problem, moves->preferred[node]);
    }
    for (bool more = true; more;) {
        more = false;
        for (uint32_t node = 0; node < problem->nodes; node++)
            if (moves->changed[node]) {
                more |= include_offer(moves, moves->choice[node], node);
                more |= include_offer(moves, moves->preferred[node], node);
            }
    }
    for (uint32_t node_index = 0; node_index < problem->nodes; node_index++) {
        const graph_node *node = problem->graph->nodes[node_index];

        for (uint32_t i = 0; moves->changed[node_index] && i < graph_read_count(node); i++) {
            uint32_t value = graph_read_at(node, i), producer = partition_producer_of(problem->graph, value);

            if (producer != INLAY_NONE && moves->changed[producer])
                join(moves, node_index, producer);
        }
    }
}

static int by_gain(const void *a, const void *b)
{
    const struct change *change = a, *other = b;

    if (change->gain != other->gain)
        return change->gain < other->gain ? -1 : 1;
    return change->root < other->root ? -1 : change->root > other->root;
}

/* Each offer counts at its first node. */
static double price_at(const struct marginal_moves *moves, const uint32_t *choice, uint32_t node)
{
    uint32_t offer = choice[node];

    return offer != INLAY_NONE && moves->problem->partition->offers[offer].nodes[0] == node
               ? moves->problem->prices.offer[offer]
               : 0;
}

static void list_changes(struct marginal_moves *moves)
{
    const struct problem *problem = moves->problem;

    for (uint32_t node = 0; node < problem->nodes; node++)
        if (moves->changed[node] && root_of(moves, node) == node) {
            moves->listed[node] = moves->count;
            moves->changes[moves->count++] = (struct change){ .root = node };
        }
    for (uint32_t node = 0; node < problem->nodes; node++)
        if (moves->changed[node])
            moves->changes[moves->listed[root_of(moves, node)]].gain +=
                price_at(moves, moves->preferred, node) - price_at(moves, moves->choice, node);
    if (moves->count > 0)
        qsort(moves->changes, moves->count, sizeof *moves->changes, by_gain);
    for (uint32_t i = 0; i < moves->count; i++)
        moves->listed[moves->changes[i].root] = i;
}

static bool moves_init(struct marginal_moves *moves, struct problem *problem, uint32_t *choice)
{
    size_t nodes = (size_t)problem->nodes + 1;

    *moves = (struct marginal_moves){ .problem = problem, .choice = choice };
    moves->preferred = arena_array(problem->scratch, nodes, sizeof *moves->preferred);
    moves->trial = arena_array(problem->scratch, nodes, sizeof *moves->trial);
    moves->root = arena_array(problem->scratch, nodes, sizeof *moves->root);
    moves->listed = arena_array(problem->scratch, nodes, sizeof *moves->listed);
    moves->changed = arena_array(problem->scratch, nodes, sizeof *moves->changed);
    moves->changes = arena_array(problem->scratch, nodes, sizeof *moves->changes);
    return moves->preferred != NULL && moves->trial != NULL && moves->root != NULL && moves->listed != NULL &&
           moves->changed != NULL && moves->changes != NULL;
}

/* The maximum total loss: a share of the error of the whole price. */
static double slack_of(const struct marginal_moves *moves)
{
    double off = 0;

    for (uint32_t node = 0; node < moves->problem->nodes; node++)
        if (moves->choice[node] != INLAY_NONE)
            off += price_at(moves, moves->choice, node) *
                   moves->problem->partition->offers[moves->choice[node]].cost_error;
    return off * share_of_error;
}

/* Undoes changes first .. end - 1 if the price of the result is at most max_price. */
static bool undo(struct marginal_moves *moves, uint32_t first, uint32_t end, double max_price)
{
    struct problem *problem = moves->problem;
    partition_verdict verdict;

    INLAY_CHECK(first <= end && end <= moves->count);
    memcpy(moves->trial, moves->choice, problem->nodes * sizeof *moves->trial);
    for (uint32_t node = 0; node < problem->nodes; node++) {
        const uint32_t i = moves->changed[node] ? moves->listed[root_of(moves, node)] : INLAY_NONE;

        if (i >= first && i < end)
            moves->trial[node] = moves->preferred[node];
    }
    verdict = partition_evaluate(problem, moves->trial);
    if (problem->failed || !verdict.runs || !verdict.feasible || verdict.price > max_price)
        return false;
    memcpy(moves->choice, moves->trial, problem->nodes * sizeof *moves->trial);
    return true;
}

bool drop_marginal_moves(struct problem *problem, uint32_t *choice)
{
    double *with_margins = problem->prices.offer,
           *plain = arena_array(problem->scratch, (size_t)problem->offers + 1, sizeof *plain);
    struct marginal_moves moves;

    if (plain == NULL || !moves_init(&moves, problem, choice))
        return false;
    if (partition_first_choice(problem, problem->options.rank, moves.preferred) != INLAY_NONE)
        return true;
    for (uint32_t offer = 0; offer < problem->offers; offer++)
        plain[offer] = problem->prices.base[offer] - problem->prices.margin[offer];
    problem->prices.offer = plain;
    find_changes(&moves);
    list_changes(&moves);
    if (moves.count > 0) {
        const double max_price = partition_evaluate(problem, choice).price + slack_of(&moves);
        const uint32_t step = moves.count / MAX_STEPS + 1;

        if (!undo(&moves, 0, moves.count, max_price))
            for (uint32_t i = 0; i < moves.count && !problem->failed; i += step)
                (void)undo(&moves, i, i + step < moves.count ? i + step : moves.count, max_price);
    }
    problem->prices.offer = with_margins;
    return !problem->failed;
}
