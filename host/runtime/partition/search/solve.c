/* The search for the cheapest choice: from a first one on, each provider in turn is proposed to every node, and the
 * best mix with what is there is taken, until no proposal improves anything (alpha-expansion; Boykov, Veksler, Zabih
 * 2001).
 * The groups of a provider come with its proposals, in families that do not overlap. What is small enough is then
 * searched to the end. */
#include "partition/search/search.h"
#include <string.h>

enum {
    MOST_SWEEPS = 12,
    EXACT_NODES = 24,       /* graphs up to this size may be searched to the end */
    TWO_STARTS_NODES = 512, /* and up to this one the search starts twice */
    ISLAND_WORK = 60000     /* nodes to look at while regions are given to their neighbours, once a round */
};

struct search {
    struct problem *problem;
    uint32_t *choice, *trial; /* [nodes] */
    partition_side now, then;
    uint32_t *family;          /* [groups] */
    partition_verdict verdict; /* of choice */
    uint32_t in_vain;          /* proposals in a row that improved nothing */
    uint32_t round;            /* proposals in a round; 0 = not yet known */
};

static bool search_init(struct search *search, struct problem *problem, uint32_t *choice)
{
    size_t nodes = (size_t)problem->nodes + 1;

    *search = (struct search){ .problem = problem, .choice = choice };
    search->trial = arena_array(problem->scratch, nodes, sizeof *search->trial);
    search->now.single = arena_array(problem->scratch, nodes, sizeof *search->now.single);
    search->now.group = arena_array(problem->scratch, nodes, sizeof *search->now.group);
    search->then.single = arena_array(problem->scratch, nodes, sizeof *search->then.single);
    search->then.group = arena_array(problem->scratch, nodes, sizeof *search->then.group);
    search->family = arena_array(problem->scratch, (size_t)problem->picks.group_count + 1, sizeof *search->family);
    return search->trial != NULL && search->now.single != NULL && search->now.group != NULL &&
           search->then.single != NULL && search->then.group != NULL && search->family != NULL &&
           (problem->fusion != NULL || partition_fuse_init(problem));
}

/* Is verdict a better than b? By more than what rounding does. */
static bool improves(partition_verdict a, partition_verdict b)
{
    return a.runs && (!b.runs || a.price < b.price * (1 - 1e-12) - 1e-9);
}

/* Takes the trial if it is better. Most are not, which is mostly seen without putting them into an order. */
static bool accept(struct search *search)
{
    struct problem *problem = search->problem;
    partition_verdict verdict;

    if (problem->failed || memcmp(search->choice, search->trial, problem->nodes * sizeof *search->choice) == 0)
        return false;
    if (search->verdict.runs && partition_base_price(problem, search->trial) >= search->verdict.price)
        return false;
    if (!partition_untangle(problem, search->trial))
        return false;
    verdict = partition_judge(problem, search->trial);
    if (problem->failed || !improves(verdict, search->verdict))
        return false;
    memcpy(search->choice, search->trial, problem->nodes * sizeof *search->choice);
    search->verdict = verdict;
    return true;
}

/* What the label offers each node: its own single offer, and the groups of one family. */
static void propose(struct search *search, partition_label label, uint32_t family)
{
    struct problem *problem = search->problem;

    for (uint32_t n = 0; n < problem->nodes; n++) {
        uint32_t seen = 0;

        search->then.group[n] = INLAY_NONE;
        search->then.single[n] = problem->picks.cheapest[(size_t)label.provider * problem->nodes + n];
        for (uint32_t i = problem->picks.first_single[n]; label.variant > 0 && i < problem->picks.first_single[n + 1];
             i++) {
            uint32_t offer_index = problem->picks.singles[i];
            if (problem->partition->offers[offer_index].provider == label.provider && problem->odd[offer_index] &&
                ++seen == label.variant)
                search->then.single[n] = offer_index;
        }
    }
    for (uint32_t i = 0; family != INLAY_NONE && i < problem->picks.group_count; i++) {
        const partition_offer *offer = &problem->partition->offers[problem->picks.groups[i]];

        if (search->family[i] != family)
            continue;
        for (uint32_t k = 0; k < offer->node_count; k++) {
            search->then.group[offer->nodes[k]] = problem->picks.groups[i];
            if (problem->odd[problem->picks.groups[i]])
                search->then.single[offer->nodes[k]] = INLAY_NONE;
        }
    }
}

/* What is cheapest by itself, whoever offers it. */
static void propose_cheapest(struct search *search)
{
    struct problem *problem = search->problem;

    partition_best_family(problem, search->family);
    for (uint32_t n = 0; n < problem->nodes; n++) {
        search->then.group[n] = INLAY_NONE;
        search->then.single[n] = partition_cheapest_single(problem, n);
    }
    for (uint32_t i = 0; i < problem->picks.group_count; i++) {
        const partition_offer *offer = &problem->partition->offers[problem->picks.groups[i]];

        for (uint32_t k = 0; search->family[i] == 0 && k < offer->node_count; k++) {
            search->then.group[offer->nodes[k]] = problem->picks.groups[i];
            search->then.single[offer->nodes[k]] =
                problem->odd[problem->picks.groups[i]]
                    ? INLAY_NONE
                    : problem->picks.cheapest[(size_t)offer->provider * problem->nodes + offer->nodes[k]];
        }
    }
}

static bool fuse(struct search *search)
{
    partition_side_of(search->problem, search->choice, &search->now);
    return partition_fuse(search->problem, &search->now, &search->then, search->trial) && accept(search);
}

/* One proposal. False: as many as a round has, the last ones, improved nothing. */
static bool try_proposal(struct search *search, partition_label label, uint32_t family)
{
    propose(search, label, family);
    search->in_vain = fuse(search) ? 0 : search->in_vain + 1;
    return !search->problem->failed && (search->round == 0 || search->in_vain < search->round);
}

/* One round of proposals. Did any of them help? */
static bool sweep(struct search *search)
{
    struct problem *problem = search->problem;
    uint32_t round = 0;

    if (problem->picks.group_count > 0 && search->round == 0) {
        propose_cheapest(search);
        (void)(!problem->failed && fuse(search));
    }
    for (uint32_t l = 0; l < problem->picks.label_count; l++) {
        uint32_t families = 0;

        if (problem->picks.group_count > 0 && problem->picks.labels[l].variant == 0)
            families = partition_families(problem, problem->picks.labels[l].provider, search->family);
        for (uint32_t f = 0; f == 0 || f < families; f++, round++)
            if (!try_proposal(search, problem->picks.labels[l], families > 0 ? f : INLAY_NONE))
                return false;
    }
    search->round = round;
    return search->in_vain < round;
}

/* Gives a region to the provider of a neighbour: a launch and its copies may cost more than a slower kernel. Small
 * regions first, since those have the least to lose. */
static bool move_islands(struct search *search)
{
    struct problem *problem = search->problem;
    partition_schedule *schedule = &problem->schedule;
    uint32_t *region_of, *size, *near, tries = 0;
    bool better = false;

    if (!problem->ordered || !partition_schedule_choice(problem, search->choice, false))
        return false;
    region_of = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *region_of);
    size = arena_array(problem->scratch, (size_t)schedule->region_count + 1, sizeof *size);
    near = arena_array(problem->scratch, (size_t)schedule->region_count + 1, sizeof *near);
    if (region_of == NULL || size == NULL || near == NULL) {
        problem->failed = true;
        return false;
    }
    for (uint32_t n = 0; n < problem->nodes; n++)
        region_of[n] = INLAY_NONE;
    for (uint32_t i = 0; i < schedule->unit_count; i++) {
        size[schedule->region_of[i]]++;
        region_of[schedule->head[schedule->order[i]]] = schedule->region_of[i];
    }
    for (uint32_t n = 0; n < problem->nodes; n++)
        region_of[n] = region_of[schedule->head[schedule->unit_of[n]]];
    for (uint32_t step = 1; step <= 4 && !better && !problem->failed; step++) {
        for (uint32_t n = 0; n < problem->nodes && tries * problem->nodes < ISLAND_WORK && !better; n++) {
            uint32_t parent = problem->links.parent[n], provider;

            if (size[region_of[n]] != step || parent == INLAY_NONE || region_of[parent] == region_of[n])
                continue;
            provider = partition_provider_of(problem, search->choice[parent]);
            if (provider == INLAY_NONE || search->choice[n] == INLAY_NONE)
                continue;
            memcpy(search->trial, search->choice, problem->nodes * sizeof *search->trial);
            for (uint32_t m = 0; m < problem->nodes; m++) {
                uint32_t other = problem->picks.cheapest[(size_t)provider * problem->nodes + m];
                if (region_of[m] == region_of[n] && other != INLAY_NONE && search->trial[m] != INLAY_NONE &&
                    problem->partition->offers[search->trial[m]].node_count == 1)
                    search->trial[m] = other;
            }
            tries++;
            better = accept(search);
        }
    }
    return better;
}

static void descend(struct search *search)
{
    search->verdict = partition_judge(search->problem, search->choice);
    search->in_vain = search->round = 0;
    for (uint32_t round = 0; round < MOST_SWEEPS && !search->problem->failed; round++) {
        if (sweep(search))
            continue;
        if (!move_islands(search))
            return;
        search->in_vain = 0;
    }
}

/* One offer for each node, and no groups: nothing to choose. */
static bool is_settled(const struct problem *problem)
{
    if (problem->picks.group_count > 0)
        return false;
    for (uint32_t n = 0; n < problem->nodes; n++)
        if (problem->picks.first_single[n + 1] - problem->picks.first_single[n] > 1)
            return false;
    return true;
}

bool partition_solve(struct problem *problem, uint32_t *choice, uint32_t *uncovered)
{
    bool settled = is_settled(problem), by_priority = partition_by_priority(problem->request);
    uint32_t *other;
    partition_verdict first;
    struct search search;

    *uncovered = partition_first_choice(problem, true, choice);
    if (settled || by_priority)
        return !problem->failed;
    other = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *other);
    if (other == NULL || !search_init(&search, problem, choice))
        return false;
    search.verdict = (partition_verdict){ 0 };
    if (*uncovered == INLAY_NONE) {
        descend(&search);
        first = search.verdict;
        /* From the cheapest offer of each node another way may lead further down. With two providers the first is the
         * best already, but for groups and launches. */
        if (problem->nodes <= TWO_STARTS_NODES &&
            (problem->picks.label_count > 2 || problem->ordered || problem->picks.group_count > 0)) {
            search.choice = other;
            if (partition_first_choice(problem, false, other) == INLAY_NONE)
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
