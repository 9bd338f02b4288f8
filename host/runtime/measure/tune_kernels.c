/* What inlay_tune() measures: the plausible offers, and the regions of providers that merge theirs. */
#include "base/hash.h"
#include "base/memory.h"
#include "measure/tune.h"
#include <stdlib.h>

static const double PRUNE = 10; /* offers above so many times the best for their nodes are not measured */

/* The best price of each node, among single offers whose price is more than what the provider says of itself: a model
 * that praises its own keeps nobody else from being measured. [node_count], -1 = none. */
static double *find_best(struct tuning *tuning, const struct tuned *tuned)
{
    const struct partition *parts = &tuned->program->parts;
    double *best = arena_array(&tuning->arena, (size_t)tuned->program->graph->node_count + 1, sizeof *best);

    for (uint32_t n = 0; best != NULL && n < tuned->program->graph->node_count; n++)
        best[n] = -1;
    for (uint32_t offer = 0; best != NULL && offer < parts->offer_count; offer++) {
        uint32_t n = parts->offers[offer].nodes[0];
        if (parts->offers[offer].node_count == 1 && tuned->sources[offer] >= COST_PROFILE &&
            (best[n] < 0 || tuned->prices[offer].ns < best[n]))
            best[n] = tuned->prices[offer].ns;
    }
    return best;
}

static bool is_plausible(const struct tuned *tuned, const double *best, uint32_t offer_index)
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

/* How long a loop takes is up to what it reads, and contents are made up here. */
static bool holds_bodies(const struct program *program, const uint32_t *nodes, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        if (program->graph->nodes[nodes[k]]->body_count > 0)
            return true;
    return false;
}

static cost_key key_of(const struct tuned *tuned, uint32_t offer_index)
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

static bool add_kernel(struct tuning *tuning, const struct kernel *kernel)
{
    if (!LIST_GROW(tuning->kernels, tuning->kernel_count))
        return false;
    tuning->kernels[tuning->kernel_count++] = *kernel;
    return true;
}

/* Regions of equal kernels in the same order are equal. */
static struct kernel region_kernel(const struct tuning *tuning, const struct tuned *tuned,
                                   const partition_region *region)
{
    struct kernel kernel = { .in = tuned, .offer = region->offers[0], .region = region, .known = true };

    for (uint32_t i = 0; i < region->offer_count; i++) {
        cost_key one = key_of(tuned, region->offers[i]);

        kernel.known = kernel.known && cost_store_find(&tuning->store, one) != NULL;
        kernel.weight += tuned->prices[region->offers[i]].ns;
        for (int w = 0; w < 2; w++)
            kernel.key.word[w] = hash_u64(kernel.key.word[w], one.word[w]);
    }
    return kernel;
}

/* The regions of one provider, when it runs all that it offers. */
static inlay_status add_regions(struct tuning *tuning, const struct tuned *tuned, uint32_t owner)
{
    const struct program *program = tuned->program;
    uint8_t *barred = arena_alloc(&tuning->arena, (size_t)program->parts.offer_count + 1);
    uint8_t *own = arena_alloc(&tuning->arena, (size_t)program->graph->node_count + 1);
    partition_rules rules = program->env->rules != NULL ? *program->env->rules : (partition_rules){ 0 };
    partition_request again = { .graph = program->graph,
                                .snapshot = &program->snapshot,
                                .providers = program->env->providers,
                                .provider_count = program->env->provider_count,
                                .max_threads = program->env->max_threads,
                                .rules = &rules,
                                .costs = program->env->costs,
                                .barred = barred };
    inlay_diag why = INLAY_DIAG_INIT;
    struct partition base = program->parts, other = { 0 };
    inlay_status status;

    if (barred == NULL || own == NULL)
        return no_memory(tuning->diag, "to tune");
    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++)
        if (program->parts.offers[offer].provider == owner && program->parts.offers[offer].node_count == 1)
            own[program->parts.offers[offer].nodes[0]] = 1;
    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++)
        for (uint32_t k = 0; k < program->parts.offers[offer].node_count; k++)
            barred[offer] |=
                program->parts.offers[offer].provider != owner && own[program->parts.offers[offer].nodes[k]];
    rules.saved_plan = NULL;
    base.profile = tuned->values;
    status = partition_again(&again, &base, &tuning->arena, &other, &why);
    if (status == INLAY_OUT_OF_MEMORY)
        return no_memory(tuning->diag, "to tune");
    for (uint32_t i = 0; status == INLAY_OK && i < other.region_count; i++) {
        const partition_region *region = &other.regions[i];
        struct kernel kernel;

        if (region->provider != owner || (program->parts.offers[region->offers[0]].flags & INLAY_OFFER_MERGE) == 0 ||
            holds_bodies(program, region->nodes, region->node_count))
            continue;
        kernel = region_kernel(tuning, tuned, region);
        if (kernel.weight > 0 && !add_kernel(tuning, &kernel))
            return no_memory(tuning->diag, "to tune");
    }
    return INLAY_OK; /* a rule that does not let the provider have all leaves its offers as they were priced */
}

static bool merges(const partition_offer *offer)
{
    return (offer->flags & INLAY_OFFER_MERGE) != 0;
}

static int by_weight(const void *a_, const void *b_)
{
    const struct kernel *a = a_, *b = b_;

    return a->weight != b->weight ? (a->weight > b->weight ? -1 : 1) : cost_key_order(a_, b_);
}

/* Kernels of one key become one. */
static void merge_kernels(struct tuning *tuning)
{
    uint32_t n = 0;

    if (tuning->kernel_count > 0)
        qsort(tuning->kernels, tuning->kernel_count, sizeof *tuning->kernels, cost_key_order);
    for (uint32_t i = 0; i < tuning->kernel_count; i++) {
        if (n > 0 && cost_key_order(&tuning->kernels[n - 1], &tuning->kernels[i]) == 0)
            tuning->kernels[n - 1].weight += tuning->kernels[i].weight;
        else
            tuning->kernels[n++] = tuning->kernels[i];
    }
    tuning->kernel_count = n;
    if (n > 0)
        qsort(tuning->kernels, n, sizeof *tuning->kernels, by_weight);
    tuning->result.kernel_count = n;
    for (uint32_t i = 0; i < n; i++)
        tuning->result.known_count += tuning->kernels[i].known;
}

inlay_status tune_find_kernels(struct tuning *tuning)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < tuning->graph_count; i++) {
        const struct tuned *tuned = &tuning->graphs[i];
        double *best = find_best(tuning, tuned);
        uint8_t *merging = arena_alloc(&tuning->arena, (size_t)tuning->session->env.provider_count +
                                                           1); /* has offers here that merge */

        if (best == NULL || merging == NULL)
            return no_memory(tuning->diag, "to tune");
        for (uint32_t offer = 0; offer < tuned->program->parts.offer_count; offer++) {
            struct kernel kernel = { .in = tuned, .offer = offer, .weight = tuned->prices[offer].ns };

            if (tuned->prices[offer].ns == 0)
                continue; /* computed while planning, or a view */
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
            kernel.key = key_of(tuned, offer);
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
