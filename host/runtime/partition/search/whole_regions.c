/* Keeps merged regions whole where the gain of dividing them is doubtful.
 *
 * Guesses of providers for the reference core (INLAY_PROVIDER_REFERENCE_CORE) are comparable with each other. Any
 * other guess is right within a factor at best, and states nothing about what a region loses when it is divided: its
 * values go through memory once more, and its kernels cannot be fused. So nodes are taken out of the middle of another
 * provider's merged region at a guess only if they are cheaper by that factor. Launches and copies are in the
 * objective already. */
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "partition/search/search.h"
#include <string.h>

/* The factor within which a guess is taken to be right; plugin-check warns beyond it. */
static double doubt_of(uint32_t source)
{
    return source <= COST_GUESS ? 3 : 1;
}

enum { MAX_PARTS = 64, MAX_PASSES = 3 };

struct whole_regions {
    struct problem *problem;
    uint32_t *choice, *trial; /* [nodes] offers */
    uint32_t *part_of;        /* [nodes] the part that the node belongs to; NONE: none */
    uint32_t *stack;          /* [nodes] */
    uint32_t owner;           /* the provider whose regions are kept */
};

/* The owner's offer for the node, if the node could join one of its regions instead of where it runs now. */
static uint32_t offer_of_owner(const struct whole_regions *whole, uint32_t node)
{
    const struct problem *problem = whole->problem;
    const uint32_t offer = problem->options.cheapest[(size_t)whole->owner * problem->nodes + node];
    const uint32_t now = whole->choice[node];

    if (now == INLAY_NONE || offer == INLAY_NONE || !partition_merges(problem, offer) ||
        partition_provider_of(problem, now) == whole->owner || problem->partition->offers[now].node_count > 1)
        return INLAY_NONE;
    return offer;
}

/* Is the guess one for the reference core, like the other one? */
static bool is_comparable(const struct whole_regions *whole, uint32_t offer, uint32_t other)
{
    const partition_offer *offers = whole->problem->partition->offers;
    const inlay_provider *table = whole->problem->request->providers[offers[offer].provider].table;

    return (table->flags & INLAY_PROVIDER_REFERENCE_CORE) != 0 && offers[other].cost_source <= COST_GUESS;
}

/* How many times cheaper the node must be where it runs now; 1: the prices are comparable. */
static double doubt_at(const struct whole_regions *whole, uint32_t node, uint32_t offer)
{
    const uint32_t pair[] = { whole->choice[node], offer };
    double doubt = 1;

    for (int i = 0; i < 2; i++) {
        const double one = doubt_of(whole->problem->partition->offers[pair[i]].cost_source);

        if (!is_comparable(whole, pair[i], pair[1 - i]) && one > doubt)
            doubt = one;
    }
    return doubt;
}

/* Adds a neighbour to the part, or counts it if it is in a region of the owner. */
static void visit(struct whole_regions *whole, uint32_t node, uint32_t part, uint32_t *depth, uint32_t *borders)
{
    if (node == INLAY_NONE || whole->part_of[node] == part)
        return;
    if (partition_merges(whole->problem, whole->choice[node]) &&
        partition_provider_of(whole->problem, whole->choice[node]) == whole->owner) {
        (*borders)++;
    } else if (whole->part_of[node] == INLAY_NONE && offer_of_owner(whole, node) != INLAY_NONE) {
        whole->part_of[node] = part;
        whole->stack[(*depth)++] = node;
    }
}

/* Marks the connected nodes around `first` that could join a region of the owner. Returns whether they lie in the
 * middle of its regions: it computes what they read, and reads what they compute. */
static bool mark_part(struct whole_regions *whole, uint32_t first)
{
    const struct problem *problem = whole->problem;
    uint32_t depth = 0, above = 0, below = 0;

    whole->part_of[first] = first;
    whole->stack[depth++] = first;
    while (depth > 0) {
        const uint32_t node = whole->stack[--depth];
        const graph_node *made = problem->graph->nodes[node];

        for (uint32_t i = 0; i < graph_read_count(made); i++)
            visit(whole, partition_producer_of(problem->graph, graph_read_at(made, i)), first, &depth, &above);
        for (uint32_t i = 0; i < made->info.output_count; i++) {
            const uint32_t value = made->info.outputs[i];

            for (uint32_t k = value == INLAY_NONE ? 0 : problem->links.reader_at[value];
                 value != INLAY_NONE && k < problem->links.reader_at[value + 1]; k++)
                visit(whole, problem->links.readers[k], first, &depth, &below);
        }
    }
    return above > 0 && below > 0;
}

/* Gives the part to the owner if the loss is within the margin for errors of the prices. Returns whether it did. */
static bool keep(struct whole_regions *whole, uint32_t part, double *price)
{
    struct problem *problem = whole->problem;
    partition_verdict verdict;
    double doubted_ns = 0;

    memcpy(whole->trial, whole->choice, problem->nodes * sizeof *whole->trial);
    for (uint32_t node = 0; node < problem->nodes; node++) {
        if (whole->part_of[node] != part)
            continue;
        whole->trial[node] = offer_of_owner(whole, node);
        doubted_ns += (1 - 1 / doubt_at(whole, node, whole->trial[node])) * problem->prices.offer[whole->trial[node]];
    }
    if (doubted_ns <= 0)
        return false;
    verdict = partition_evaluate(problem, whole->trial);
    if (problem->failed || !verdict.runs || !verdict.feasible || verdict.price - *price > doubted_ns)
        return false;
    for (uint32_t node = 0; node < problem->nodes; node++)
        if (whole->part_of[node] == part)
            problem->partition->offers[whole->trial[node]].kept_whole = true;
    memcpy(whole->choice, whole->trial, problem->nodes * sizeof *whole->choice);
    *price = verdict.price;
    return true;
}

static bool keep_of_owner(struct whole_regions *whole)
{
    struct problem *problem = whole->problem;
    double price = partition_evaluate(problem, whole->choice).price;
    uint32_t parts = 0;
    bool changed = false;

    memset(whole->part_of, 0xff, problem->nodes * sizeof *whole->part_of);
    for (uint32_t node = 0; node < problem->nodes && parts < MAX_PARTS && !problem->failed; node++) {
        if (whole->part_of[node] != INLAY_NONE || offer_of_owner(whole, node) == INLAY_NONE || !mark_part(whole, node))
            continue;
        parts++;
        changed |= keep(whole, node, &price);
    }
    return changed;
}

bool keep_regions_whole(struct problem *problem, uint32_t *choice)
{
    const size_t nodes = (size_t)problem->nodes + 1;
    double *with_margins = problem->prices.offer;
    double *plain = arena_array(problem->scratch, (size_t)problem->offers + 1, sizeof *plain);
    struct whole_regions whole = { .problem = problem,
                                   .choice = choice,
                                   .trial = arena_array(problem->scratch, nodes, sizeof *whole.trial),
                                   .part_of = arena_array(problem->scratch, nodes, sizeof *whole.part_of),
                                   .stack = arena_array(problem->scratch, nodes, sizeof *whole.stack) };
    bool changed = true;

    if (plain == NULL || whole.trial == NULL || whole.part_of == NULL || whole.stack == NULL)
        return false;
    for (uint32_t offer = 0; offer < problem->offers; offer++) {
        plain[offer] = problem->prices.base[offer] - problem->prices.margin[offer];
        problem->partition->offers[offer].kept_whole = false;
    }
    problem->prices.offer = plain;
    for (int pass = 0; changed && pass < MAX_PASSES && !problem->failed; pass++) {
        changed = false;
        for (whole.owner = 0; whole.owner < problem->providers; whole.owner++)
            changed |= keep_of_owner(&whole);
    }
    problem->prices.offer = with_margins;
    return !problem->failed;
}
