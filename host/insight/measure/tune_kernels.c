/* Selects the kernels that inlay_tune() measures: the plausible offers, and the regions of providers that merge
 * offers. */
#include "base/hash.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "base/memory.h"
#include "measure/tune.h"
#include <stdlib.h>

static const double PRUNE = 10; /* offers above this multiple of the best price for their nodes are not measured */

/* The best price of each node among single offers whose price does not come from the provider's own estimate: an
 * optimistic provider must not prevent others from being measured. [node_count], -1 = none. */
static double *find_best(struct tuning *tuning, const tuned_graph *tuned)
{
    const struct partition *parts = &tuned->program->parts;
    double *best = arena_array(&tuning->arena, (size_t)tuned->program->graph->node_count + 1, sizeof *best);

    for (uint32_t node = 0; best != NULL && node < tuned->program->graph->node_count; node++)
        best[node] = -1;
    for (uint32_t offer = 0; best != NULL && offer < parts->offer_count; offer++) {
        uint32_t node = parts->offers[offer].nodes[0];
        if (parts->offers[offer].node_count == 1 && tuned->sources[offer] >= COST_PROFILE &&
            (best[node] < 0 || tuned->prices[offer].ns < best[node]))
            best[node] = tuned->prices[offer].ns;
    }
    return best;
}

static bool is_plausible(const tuned_graph *tuned, const double *best, uint32_t offer_index)
{
    const partition_offer *offer = &tuned->program->parts.offers[offer_index];
    double sum = 0;

    for (uint32_t k = 0; k < offer->node_count; k++) {
        if (best[offer->nodes[k]] < 0)
            return true;
        sum += best[offer->nodes[k]];
    }
    return offer->chosen || tuned->sources[offer_index] < COST_PROFILE || tuned->prices[offer_index].ns <= PRUNE * sum;
}

/* Do the nodes have bodies? Such offers are not measured: the time of a loop depends on its inputs, which are random
 * here. */
static bool holds_bodies(const struct program *program, const uint32_t *nodes, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        if (program->graph->nodes[nodes[k]]->body_count > 0)
            return true;
    return false;
}

cost_key tune_key_of(const tuned_graph *tuned, uint32_t offer_index)
{
    const struct program *program = tuned->program;
    const partition_offer *offer = &program->parts.offers[offer_index];
    cost_question question = { .graph = &program->snapshot,
                               .provider = &program->env->providers[offer->provider],
                               .offer = offer,
                               .values = tuned->values,
                               .max_threads = program->env->max_threads };

    return cost_key_of(&question);
}

static bool add_kernel(struct tuning *tuning, const tuned_kernel *kernel)
{
    if (!LIST_GROW(tuning->kernels, tuning->kernel_count))
        return false;
    tuning->kernels[tuning->kernel_count++] = *kernel;
    return true;
}

/* A region's key combines the keys of its offers: regions of equal kernels in the same order are equal. */
static tuned_kernel region_kernel(const struct tuning *tuning, const tuned_graph *tuned, const partition_region *region)
{
    tuned_kernel kernel = { .graph = tuned, .offer = region->offers[0], .region = region, .known = true };

    for (uint32_t i = 0; i < region->offer_count; i++) {
        cost_key offer_key = tune_key_of(tuned, region->offers[i]);

        kernel.known = kernel.known && cost_store_find(&tuning->store, offer_key) != NULL;
        kernel.weight += tuned->prices[region->offers[i]].ns;
        for (int word = 0; word < 2; word++)
            kernel.key.word[word] = hash_u64(kernel.key.word[word], offer_key.word[word]);
    }
    return kernel;
}

/* Adds the regions that one provider would have if it ran everything that it offers. */
static inlay_status add_regions(struct tuning *tuning, const tuned_graph *tuned, uint32_t provider)
{
    const struct program *program = tuned->program;
    uint8_t *excluded = arena_alloc(&tuning->arena, (size_t)program->parts.offer_count + 1);
    uint8_t *own = arena_alloc(&tuning->arena, (size_t)program->graph->node_count + 1);
    partition_rules rules = program->env->rules != NULL ? *program->env->rules : (partition_rules){ 0 };
    partition_request request = { .graph = program->graph,
                                  .snapshot = &program->snapshot,
                                  .providers = program->env->providers,
                                  .provider_count = program->env->provider_count,
                                  .max_threads = program->env->max_threads,
                                  .rules = &rules,
                                  .costs = program->env->costs,
                                  .barred = excluded };
    inlay_diag why = INLAY_DIAG_INIT;
    struct partition base = program->parts, other = { 0 };
    inlay_status status;

    if (excluded == NULL || own == NULL)
        return no_memory(tuning->diag, "to tune");
    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++)
        if (program->parts.offers[offer].provider == provider && program->parts.offers[offer].node_count == 1)
            own[program->parts.offers[offer].nodes[0]] = 1;
    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++)
        for (uint32_t k = 0; k < program->parts.offers[offer].node_count; k++)
            excluded[offer] |=
                program->parts.offers[offer].provider != provider && own[program->parts.offers[offer].nodes[k]];
    rules.saved_plan = NULL;
    base.profile = tuned->values;
    status = partition_again(&request, &base, &tuning->arena, &other, &why);
    if (status == INLAY_OUT_OF_MEMORY)
        return no_memory(tuning->diag, "to tune");
    for (uint32_t i = 0; status == INLAY_OK && i < other.region_count; i++) {
        const partition_region *region = &other.regions[i];
        tuned_kernel kernel;

        if (region->provider != provider || (program->parts.offers[region->offers[0]].flags & INLAY_OFFER_MERGE) == 0 ||
            holds_bodies(program, region->nodes, region->node_count))
            continue;
        kernel = region_kernel(tuning, tuned, region);
        if (kernel.weight > 0 && !add_kernel(tuning, &kernel))
            return no_memory(tuning->diag, "to tune");
    }
    return INLAY_OK; /* if a rule forbids this assignment, the provider's offers keep their prices */
}

static bool merges(const partition_offer *offer)
{
    return (offer->flags & INLAY_OFFER_MERGE) != 0;
}

static int by_weight(const void *left, const void *right)
{
    const tuned_kernel *first = left, *second = right;

    return first->weight != second->weight ? (first->weight > second->weight ? -1 : 1) : cost_key_order(left, right);
}

/* Merges kernels of equal keys. */
static void merge_kernels(struct tuning *tuning)
{
    uint32_t count = 0;

    if (tuning->kernel_count > 0)
        qsort(tuning->kernels, tuning->kernel_count, sizeof *tuning->kernels, cost_key_order);
    for (uint32_t i = 0; i < tuning->kernel_count; i++) {
        if (count > 0 && cost_key_order(&tuning->kernels[count - 1], &tuning->kernels[i]) == 0)
            tuning->kernels[count - 1].weight += tuning->kernels[i].weight;
        else
            tuning->kernels[count++] = tuning->kernels[i];
    }
    INLAY_CHECK(count <= tuning->kernel_count);
    tuning->kernel_count = count;
    if (count > 0)
        qsort(tuning->kernels, count, sizeof *tuning->kernels, by_weight);
    tuning->result.kernel_count = count;
    for (uint32_t i = 0; i < count; i++)
        tuning->result.known_count += tuning->kernels[i].known;
}

inlay_status tune_find_kernels(struct tuning *tuning)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < tuning->graph_count; i++) {
        const tuned_graph *tuned = &tuning->graphs[i];
        double *best = find_best(tuning, tuned);
        uint8_t *merging = arena_alloc(&tuning->arena, (size_t)tuning->session->env.provider_count +
                                                           1); /* [provider_count] 1 = has offers that merge */

        if (best == NULL || merging == NULL)
            return no_memory(tuning->diag, "to tune");
        for (uint32_t offer = 0; offer < tuned->program->parts.offer_count; offer++) {
            tuned_kernel kernel = { .graph = tuned, .offer = offer, .weight = tuned->prices[offer].ns };

            if (tuned->prices[offer].ns == 0)
                continue; /* folded as a constant, or a view */
            if (holds_bodies(tuned->program, tuned->program->parts.offers[offer].nodes,
                             tuned->program->parts.offers[offer].node_count))
                continue;
            if (merges(&tuned->program->parts.offers[offer])) {
                merging[tuned->program->parts.offers[offer].provider] = 1;
                continue;
            }
            if (!is_plausible(tuned, best, offer)) {
                tuning->result.pruned_count++;
                continue;
            }
            kernel.key = tune_key_of(tuned, offer);
            kernel.known = cost_store_find(&tuning->store, kernel.key) != NULL;
            if (!add_kernel(tuning, &kernel))
                return no_memory(tuning->diag, "to tune");
        }
        for (uint32_t p = 0; p < tuning->session->env.provider_count; p++)
            if (merging[p] != 0)
                INLAY_TRY(add_regions(tuning, tuned, p));
    }
    merge_kernels(tuning);
done:
    return status;
}
