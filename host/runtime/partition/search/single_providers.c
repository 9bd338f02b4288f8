/* Compares a choice that mixes providers with those of one provider.
 *
 * The margins can hide such a choice: they make each provider more expensive than those that precede it, also where the
 * search leaves the preferred provider anyway. The steps after the search return nodes at a loss, each within its own
 * limit. A choice of one provider has fewer borders, so it needs no margin against a mixed one: it is taken if it is
 * cheaper. Guesses are too uncertain for that: they would move whole graphs to providers that no price describes. */
#include "inlay/check.h"
#include "partition/search/search.h"
#include <string.h>

/* If the first provider does not run all nodes, each other provider is tried as the second in the order. A trial takes
 * a pass over all offers, so this is done only for graphs of at most SECOND_NODES nodes, and for the first
 * SECOND_PROVIDERS providers of the user's order. */
enum { SECOND_NODES = 512, SECOND_PROVIDERS = 16 };

struct singles {
    struct problem *problem;
    uint32_t *choice, *trial; /* [nodes] offers */
    uint32_t *rank;           /* [providers] */
    double price;             /* of choice */
    bool runs, feasible;      /* whether choice runs, and is feasible */
};

/* Puts `first`, then `second`, in front of the user's order. */
static void rank_first(struct singles *singles, uint32_t first, uint32_t second)
{
    INLAY_CHECK(first < singles->problem->providers && second < singles->problem->providers);
    for (uint32_t provider = 0; provider < singles->problem->providers; provider++)
        singles->rank[provider] = provider + 2;
    singles->rank[second] = 1;
    singles->rank[first] = 0;
}

/* Returns whether the trial moves a node to another provider at a guessed price. */
static bool relies_on_guesses(const struct singles *singles)
{
    const struct problem *problem = singles->problem;

    for (uint32_t node = 0; node < problem->nodes; node++)
        if (singles->trial[node] != INLAY_NONE &&
            problem->partition->offers[singles->trial[node]].cost_source <= COST_GUESS &&
            partition_provider_of(problem, singles->trial[node]) !=
                partition_provider_of(problem, singles->choice[node]))
            return true;
    return false;
}

/* Takes the choice of this order if it is cheaper. Returns whether `first` runs all nodes in it. */
static bool try_order(struct singles *singles, uint32_t first, uint32_t second)
{
    struct problem *problem = singles->problem;
    partition_verdict verdict;
    bool alone = true;

    rank_first(singles, first, second);
    if (partition_first_choice(problem, singles->rank, singles->trial) != INLAY_NONE)
        return true; /* some node has no offer at all */
    for (uint32_t node = 0; node < problem->nodes; node++)
        alone &= singles->trial[node] == INLAY_NONE || partition_provider_of(problem, singles->trial[node]) == first;
    if (relies_on_guesses(singles) ||
        (singles->runs && partition_base_price(problem, singles->trial) >= singles->price))
        return alone;
    if (!dissolve_cyclic_groups(problem, singles->trial))
        return alone;
    verdict = partition_evaluate(problem, singles->trial);
    if (problem->failed || !verdict.runs || (singles->feasible && !verdict.feasible) ||
        (singles->runs && verdict.price >= singles->price))
        return alone;
    memcpy(singles->choice, singles->trial, problem->nodes * sizeof *singles->choice);
    singles->price = verdict.price;
    singles->runs = true;
    singles->feasible = verdict.feasible;
    return alone;
}

/* Returns whether the provider offers anything. */
static bool offers_nodes(const struct problem *problem, uint32_t provider)
{
    for (uint32_t offer = 0; offer < problem->offers; offer++)
        if (problem->usable[offer] && problem->partition->offers[offer].provider == provider)
            return true;
    return false;
}

static bool is_by_order(struct singles *singles)
{
    struct problem *problem = singles->problem;

    if (partition_first_choice(problem, problem->options.rank, singles->trial) != INLAY_NONE)
        return true;
    for (uint32_t node = 0; node < problem->nodes; node++)
        if (partition_provider_of(problem, singles->choice[node]) !=
            partition_provider_of(problem, singles->trial[node]))
            return false;
    return true;
}

bool compare_single_providers(struct problem *problem, uint32_t *choice)
{
    double *with_margins = problem->prices.offer;
    double *plain = arena_array(problem->scratch, (size_t)problem->offers + 1, sizeof *plain);
    struct singles singles = { .problem = problem, .choice = choice };
    partition_verdict verdict;

    singles.trial = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *singles.trial);
    singles.rank = arena_array(problem->scratch, (size_t)problem->providers + 1, sizeof *singles.rank);
    if (plain == NULL || singles.trial == NULL || singles.rank == NULL)
        return false;
    if (is_by_order(&singles))
        return !problem->failed;
    for (uint32_t offer = 0; offer < problem->offers; offer++)
        plain[offer] = problem->prices.base[offer] - problem->prices.margin[offer];
    problem->prices.offer = plain;
    verdict = partition_evaluate(problem, choice);
    singles.price = verdict.price;
    singles.runs = verdict.runs;
    singles.feasible = verdict.feasible;
    for (uint32_t first = 0; first < problem->providers && !problem->failed; first++) {
        if (!offers_nodes(problem, first) || try_order(&singles, first, first) || problem->nodes > SECOND_NODES ||
            first >= SECOND_PROVIDERS)
            continue;
        for (uint32_t second = 0; second < problem->providers && second < SECOND_PROVIDERS; second++)
            if (second != first)
                (void)try_order(&singles, first, second);
    }
    problem->prices.offer = with_margins;
    return !problem->failed;
}
