/* Alpha-expansion (Boykov, Veksler, Zabih 2001): starting from a first choice, each provider in sequence is proposed to
 * every node, and the best mix of the current choice and the proposal is taken, until no proposal improves the choice.
 *
 * The groups of a provider are proposed with it, in families that do not overlap. Small graphs are then searched
 * exactly. */
#include "inlay/check.h"
#include "partition/search/search.h"
#include <string.h>

enum {
    MAX_SWEEPS = 12,
    EXACT_NODES = 24,       /* graphs up to this size are searched exactly */
    TWO_STARTS_NODES = 512, /* graphs up to this size are searched from two first choices */
    ISLAND_WORK = 60000     /* limit of nodes visited in one call of move_islands() */
};

struct search {
    struct problem *problem;
    uint32_t *choice, *trial; /* [nodes] */
    partition_alternative current, proposed;
    uint32_t *family;          /* [groups] */
    partition_verdict verdict; /* of choice */
    uint32_t failed_proposals; /* consecutive proposals without an improvement */
    uint32_t round;            /* number of proposals in a round; 0 = not known yet */
};

static bool search_init(struct search *search, struct problem *problem, uint32_t *choice)
{
    size_t nodes = (size_t)problem->nodes + 1;

    *search = (struct search){ .problem = problem, .choice = choice };
    search->trial = arena_array(problem->scratch, nodes, sizeof *search->trial);
    search->current.single = arena_array(problem->scratch, nodes, sizeof *search->current.single);
    search->current.group = arena_array(problem->scratch, nodes, sizeof *search->current.group);
    search->proposed.single = arena_array(problem->scratch, nodes, sizeof *search->proposed.single);
    search->proposed.group = arena_array(problem->scratch, nodes, sizeof *search->proposed.group);
    search->family = arena_array(problem->scratch, (size_t)problem->options.group_count + 1, sizeof *search->family);
    return search->trial != NULL && search->current.single != NULL && search->current.group != NULL &&
           search->proposed.single != NULL && search->proposed.group != NULL && search->family != NULL &&
           (problem->fusion != NULL || partition_fuse_init(problem));
}

/* Returns whether `first` is better than `second` by more than rounding errors. */
static bool improves(partition_verdict first, partition_verdict second)
{
    return first.runs && (!second.runs || first.price < second.price * (1 - 1e-12) - 1e-9);
}

/* Takes the trial if it is better. Most are not, and are rejected without computing an order. */
static bool accept(struct search *search)
{
    struct problem *problem = search->problem;
    partition_verdict verdict;

    if (problem->failed || memcmp(search->choice, search->trial, problem->nodes * sizeof *search->choice) == 0)
        return false;
    if (search->verdict.runs && partition_base_price(problem, search->trial) >= search->verdict.price)
        return false;
    if (!dissolve_cyclic_groups(problem, search->trial))
        return false;
    verdict = partition_evaluate(problem, search->trial);
    if (problem->failed || !improves(verdict, search->verdict))
        return false;
    memcpy(search->choice, search->trial, problem->nodes * sizeof *search->choice);
    search->verdict = verdict;
    return true;
}

/* Proposes the label's single offer for each node, and the groups of one family. */
static void propose(struct search *search, partition_label label, uint32_t family)
{
    struct problem *problem = search->problem;

    INLAY_CHECK(label.provider < problem->providers);
    for (uint32_t node = 0; node < problem->nodes; node++) {
        uint32_t variants = 0;

        search->proposed.group[node] = INLAY_NONE;
        search->proposed.single[node] = problem->options.cheapest[(size_t)label.provider * problem->nodes + node];
        for (uint32_t i = problem->options.first_single[node];
             label.variant > 0 && i < problem->options.first_single[node + 1]; i++) {
            uint32_t offer_index = problem->options.singles[i];
            if (problem->partition->offers[offer_index].provider == label.provider &&
                problem->custom_placement[offer_index] && ++variants == label.variant)
                search->proposed.single[node] = offer_index;
        }
    }
    for (uint32_t i = 0; family != INLAY_NONE && i < problem->options.group_count; i++) {
        const partition_offer *offer = &problem->partition->offers[problem->options.groups[i]];

        if (search->family[i] != family)
            continue;
        for (uint32_t k = 0; k < offer->node_count; k++) {
            search->proposed.group[offer->nodes[k]] = problem->options.groups[i];
            if (problem->custom_placement[problem->options.groups[i]])
                search->proposed.single[offer->nodes[k]] = INLAY_NONE;
        }
    }
}

/* Proposes the cheapest offer of each node, regardless of provider. */
static void propose_cheapest(struct search *search)
{
    struct problem *problem = search->problem;

    partition_best_family(problem, search->family);
    for (uint32_t node = 0; node < problem->nodes; node++) {
        search->proposed.group[node] = INLAY_NONE;
        search->proposed.single[node] = partition_cheapest_single(problem, node);
    }
    for (uint32_t i = 0; i < problem->options.group_count; i++) {
        const partition_offer *offer = &problem->partition->offers[problem->options.groups[i]];

        for (uint32_t k = 0; search->family[i] == 0 && k < offer->node_count; k++) {
            search->proposed.group[offer->nodes[k]] = problem->options.groups[i];
            search->proposed.single[offer->nodes[k]] =
                problem->custom_placement[problem->options.groups[i]]
                    ? INLAY_NONE
                    : problem->options.cheapest[(size_t)offer->provider * problem->nodes + offer->nodes[k]];
        }
    }
}

static bool try_fusion(struct search *search)
{
    partition_alternative_of(search->problem, search->choice, &search->current);
    return partition_fuse(search->problem, &search->current, &search->proposed, search->trial) && accept(search);
}

/* Tries one proposal. False: a complete round brought no improvement. */
static bool try_proposal(struct search *search, partition_label label, uint32_t family)
{
    propose(search, label, family);
    search->failed_proposals = try_fusion(search) ? 0 : search->failed_proposals + 1;
    return !search->problem->failed && (search->round == 0 || search->failed_proposals < search->round);
}

/* Tries one round of proposals; returns whether any of them improved the choice. */
static bool sweep(struct search *search)
{
    struct problem *problem = search->problem;
    uint32_t round = 0;

    if (problem->options.group_count > 0 && search->round == 0) {
        propose_cheapest(search);
        (void)(!problem->failed && try_fusion(search));
    }
    for (uint32_t label = 0; label < problem->options.label_count; label++) {
        uint32_t families = 0;

        if (problem->options.group_count > 0 && problem->options.labels[label].variant == 0)
            families = partition_families(problem, problem->options.labels[label].provider, search->family);
        for (uint32_t family = 0; family == 0 || family < families; family++, round++)
            if (!try_proposal(search, problem->options.labels[label], families > 0 ? family : INLAY_NONE))
                return false;
    }
    search->round = round;
    return search->failed_proposals < round;
}

/* Moves small regions (up to four units, the smallest first) to the provider of a neighbour, if that is cheaper: the
 * launch of a region and its copies may cost more than a slower kernel. Returns whether it moved one. */
static bool move_islands(struct search *search)
{
    struct problem *problem = search->problem;
    partition_schedule *schedule = &problem->schedule;
    uint32_t *region_of, *size, tries = 0;
    bool better = false;

    if (!problem->ordered || !partition_schedule_choice(problem, search->choice, false))
        return false;
    region_of = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *region_of);
    size = arena_array(problem->scratch, (size_t)schedule->region_count + 1, sizeof *size);
    if (region_of == NULL || size == NULL) {
        problem->failed = true;
        return false;
    }
    for (uint32_t node = 0; node < problem->nodes; node++)
        region_of[node] = INLAY_NONE;
    for (uint32_t i = 0; i < schedule->unit_count; i++) {
        size[schedule->region_of[i]]++;
        region_of[schedule->head[schedule->order[i]]] = schedule->region_of[i];
    }
    for (uint32_t node = 0; node < problem->nodes; node++)
        region_of[node] = region_of[schedule->head[schedule->unit_of[node]]];
    for (uint32_t step = 1; step <= 4 && !better && !problem->failed; step++) {
        for (uint32_t node = 0; node < problem->nodes && tries * problem->nodes < ISLAND_WORK && !better; node++) {
            uint32_t parent = problem->links.parent[node], provider;

            if (size[region_of[node]] != step || parent == INLAY_NONE || region_of[parent] == region_of[node])
                continue;
            provider = partition_provider_of(problem, search->choice[parent]);
            if (provider == INLAY_NONE || search->choice[node] == INLAY_NONE)
                continue;
            memcpy(search->trial, search->choice, problem->nodes * sizeof *search->trial);
            for (uint32_t member = 0; member < problem->nodes; member++) {
                uint32_t other = problem->options.cheapest[(size_t)provider * problem->nodes + member];
                if (region_of[member] == region_of[node] && other != INLAY_NONE &&
                    search->trial[member] != INLAY_NONE &&
                    problem->partition->offers[search->trial[member]].node_count == 1)
                    search->trial[member] = other;
            }
            tries++;
            better = accept(search);
        }
    }
    return better;
}

static void descend(struct search *search)
{
    search->verdict = partition_evaluate(search->problem, search->choice);
    search->failed_proposals = search->round = 0;
    for (uint32_t round = 0; round < MAX_SWEEPS && !search->problem->failed; round++) {
        if (sweep(search))
            continue;
        if (!move_islands(search))
            return;
        search->failed_proposals = 0;
    }
}

/* Returns whether each node has only one offer, and there are no groups. */
static bool has_no_choice(const struct problem *problem)
{
    if (problem->options.group_count > 0)
        return false;
    for (uint32_t node = 0; node < problem->nodes; node++)
        if (problem->options.first_single[node + 1] - problem->options.first_single[node] > 1)
            return false;
    return true;
}

bool partition_solve(struct problem *problem, uint32_t *choice, uint32_t *uncovered)
{
    bool fixed = has_no_choice(problem), by_priority = partition_by_priority(problem->request);
    uint32_t *other;
    partition_verdict first;
    struct search search;

    *uncovered = partition_first_choice(problem, problem->options.rank, choice);
    if (fixed || by_priority)
        return !problem->failed;
    other = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *other);
    if (other == NULL || !search_init(&search, problem, choice)) {
        problem->failed = true;
        return false;
    }
    search.verdict = (partition_verdict){ 0 };
    if (*uncovered == INLAY_NONE) {
        descend(&search);
        first = search.verdict;
        /* Starting from the cheapest offer of each node may lead to a better optimum. With two providers the first
         * result is optimal, except for groups and launches. */
        if (problem->nodes <= TWO_STARTS_NODES &&
            (problem->options.label_count > 2 || problem->ordered || problem->options.group_count > 0)) {
            search.choice = other;
            if (partition_first_choice(problem, NULL, other) == INLAY_NONE)
                descend(&search);
            if (!problem->failed && improves(search.verdict, first)) {
                memcpy(choice, other, problem->nodes * sizeof *choice);
                first = search.verdict;
            }
        }
        search.verdict = first;
    }
    if (!problem->failed && problem->nodes <= EXACT_NODES) {
        bool found = *uncovered == INLAY_NONE;

        if (!found)
            search.verdict = (partition_verdict){ 0 };
        (void)partition_exact(problem, problem->exact_steps, choice, &search.verdict);
        if (search.verdict.runs)
            *uncovered = INLAY_NONE;
    }
    return !problem->failed;
}
