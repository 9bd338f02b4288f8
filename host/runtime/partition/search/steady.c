/* What is left as the user's order has it, because a change would hardly be seen.
 *
 * Margins keep single nodes where they are while their prices differ by less than they may be off. That is no help
 * where a node is nothing beside its graph: the change would be right, if prices are, and save a ten-thousandth of a
 * run, which what no price knows of (a step more, a value elsewhere in memory) may take again. So changes that hang
 * together are weighed as one against the whole run. Those that save least are undone as long as all that is given away
 * stays a tenth of what the price of the whole may be off by. */
#include "partition/search/search.h"
#include <stdlib.h>
#include <string.h>

static const double share_of_error = 0.1;
enum { MOST_STEPS = 16 };

struct change {
    uint32_t root; /* a node: the changes of one are undone together */
    double gain;   /* of its offers */
};

struct steady {
    struct problem *problem;
    uint32_t *choice, *home, *trial; /* [nodes] offers: what is, what the order of providers asks for, a mix */
    uint32_t *root;                  /* [nodes] union-find; only nodes of changes count */
    uint32_t *listed;                /* [nodes] of a root, where its change is in the list */
    uint8_t *part;                   /* [nodes] 1 = of a change */
    struct change *changes;          /* [count] least gain first */
    uint32_t count;
};

static uint32_t root_of(struct steady *steady, uint32_t n)
{
    while (steady->root[n] != n)
        n = steady->root[n] = steady->root[steady->root[n]];
    return n;
}

static void join(struct steady *steady, uint32_t a, uint32_t b)
{
    steady->root[root_of(steady, a)] = root_of(steady, b);
}

/* Nodes that an offer of several has in common with a change are all of it. Did it bring new ones? */
static bool take_all(struct steady *steady, uint32_t offer, uint32_t n)
{
    const partition_offer *o = offer != INLAY_NONE ? &steady->problem->partition->offers[offer] : NULL;
    bool more = false;

    for (uint32_t k = 0; o != NULL && o->node_count > 1 && k < o->node_count; k++) {
        more |= !steady->part[o->nodes[k]];
        steady->part[o->nodes[k]] = 1;
        join(steady, n, o->nodes[k]);
    }
    return more;
}

/* Which nodes are run by another provider than at home, and what hangs together. */
static void find_parts(struct steady *steady)
{
    const struct problem *problem = steady->problem;

    for (uint32_t n = 0; n < problem->nodes; n++) {
        steady->root[n] = n;
        steady->part[n] =
            partition_provider_of(problem, steady->choice[n]) != partition_provider_of(problem, steady->home[n]);
    }
    for (bool more = true; more;) {
        more = false;
        for (uint32_t n = 0; n < problem->nodes; n++)
            if (steady->part[n]) {
                more |= take_all(steady, steady->choice[n], n);
                more |= take_all(steady, steady->home[n], n);
            }
    }
    for (uint32_t node_index = 0; node_index < problem->nodes; node_index++) {
        const graph_node *node = problem->graph->nodes[node_index];

        for (uint32_t i = 0; steady->part[node_index] && i < partition_reads(node); i++) {
            uint32_t value = partition_read_at(node, i), maker = partition_maker_of(problem->graph, value);

            if (maker != INLAY_NONE && steady->part[maker])
                join(steady, node_index, maker);
        }
    }
}

static int by_gain(const void *a, const void *b)
{
    const struct change *change = a, *q = b;

    if (change->gain != q->gain)
        return change->gain < q->gain ? -1 : 1;
    return change->root < q->root ? -1 : change->root > q->root;
}

/* Each offer counts at its first node. */
static double price_at(const struct steady *steady, const uint32_t *choice, uint32_t n)
{
    uint32_t offer = choice[n];

    return offer != INLAY_NONE && steady->problem->partition->offers[offer].nodes[0] == n
               ? steady->problem->prices.offer[offer]
               : 0;
}

static void list_changes(struct steady *steady)
{
    const struct problem *problem = steady->problem;

    for (uint32_t n = 0; n < problem->nodes; n++)
        if (steady->part[n] && root_of(steady, n) == n) {
            steady->listed[n] = steady->count;
            steady->changes[steady->count++] = (struct change){ .root = n };
        }
    for (uint32_t n = 0; n < problem->nodes; n++)
        if (steady->part[n])
            steady->changes[steady->listed[root_of(steady, n)]].gain +=
                price_at(steady, steady->home, n) - price_at(steady, steady->choice, n);
    if (steady->count > 0)
        qsort(steady->changes, steady->count, sizeof *steady->changes, by_gain);
    for (uint32_t i = 0; i < steady->count; i++)
        steady->listed[steady->changes[i].root] = i;
}

static bool steady_init(struct steady *steady, struct problem *problem, uint32_t *choice)
{
    size_t nodes = (size_t)problem->nodes + 1;

    *steady = (struct steady){ .problem = problem, .choice = choice };
    steady->home = arena_array(problem->scratch, nodes, sizeof *steady->home);
    steady->trial = arena_array(problem->scratch, nodes, sizeof *steady->trial);
    steady->root = arena_array(problem->scratch, nodes, sizeof *steady->root);
    steady->listed = arena_array(problem->scratch, nodes, sizeof *steady->listed);
    steady->part = arena_array(problem->scratch, nodes, sizeof *steady->part);
    steady->changes = arena_array(problem->scratch, nodes, sizeof *steady->changes);
    return steady->home != NULL && steady->trial != NULL && steady->root != NULL && steady->listed != NULL &&
           steady->part != NULL && steady->changes != NULL;
}

/* What may be given away. */
static double slack_of(const struct steady *steady)
{
    double off = 0;

    for (uint32_t n = 0; n < steady->problem->nodes; n++)
        if (steady->choice[n] != INLAY_NONE)
            off +=
                price_at(steady, steady->choice, n) * steady->problem->partition->offers[steady->choice[n]].cost_error;
    return off * share_of_error;
}

/* Undoes changes first .. end - 1 if what all of it costs then is bearable. */
static bool undo(struct steady *steady, uint32_t first, uint32_t end, double bearable)
{
    struct problem *problem = steady->problem;
    partition_verdict verdict;

    memcpy(steady->trial, steady->choice, problem->nodes * sizeof *steady->trial);
    for (uint32_t n = 0; n < problem->nodes; n++) {
        const uint32_t i = steady->part[n] ? steady->listed[root_of(steady, n)] : INLAY_NONE;

        if (i >= first && i < end)
            steady->trial[n] = steady->home[n];
    }
    verdict = partition_judge(problem, steady->trial);
    if (problem->failed || !verdict.runs || !verdict.feasible || verdict.price > bearable)
        return false;
    memcpy(steady->choice, steady->trial, problem->nodes * sizeof *steady->trial);
    return true;
}

bool drop_marginal_moves(struct problem *problem, uint32_t *choice)
{
    double *with_margins = problem->prices.offer,
           *plain = arena_array(problem->scratch, (size_t)problem->offers + 1, sizeof *plain);
    struct steady steady;

    if (plain == NULL || !steady_init(&steady, problem, choice))
        return false;
    if (partition_first_choice(problem, true, steady.home) != INLAY_NONE)
        return true;
    for (uint32_t o = 0; o < problem->offers; o++)
        plain[o] = problem->prices.base[o] - problem->prices.margin_ns[o];
    problem->prices.offer = plain;
    find_parts(&steady);
    list_changes(&steady);
    if (steady.count > 0) {
        const double bearable = partition_judge(problem, choice).price + slack_of(&steady);
        const uint32_t step = steady.count / MOST_STEPS + 1;

        if (!undo(&steady, 0, steady.count, bearable))
            for (uint32_t i = 0; i < steady.count && !problem->failed; i += step)
                (void)undo(&steady, i, i + step < steady.count ? i + step : steady.count, bearable);
    }
    problem->prices.offer = with_margins;
    return !problem->failed;
}
