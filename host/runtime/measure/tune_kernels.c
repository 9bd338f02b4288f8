/* What inlay_tune() measures: the plausible offers, and the regions of providers that merge theirs. */
#include "base/hash.h"
#include "base/memory.h"
#include "measure/tune.h"
#include <stdlib.h>

static const double PRUNE = 10; /* offers above so many times the best for their nodes are not measured */

/* The best price of each node, among single offers whose price is more than what the provider says of itself: a model
 * that praises its own keeps nobody else from being measured. [node_count], -1 = none. */
static double *find_best(struct tuning *t, const struct tuned *g)
{
    const struct partition *parts = &g->program->parts;
    double *best = arena_array(&t->a, (size_t)g->program->graph->node_count + 1, sizeof *best);

    for (uint32_t n = 0; best != NULL && n < g->program->graph->node_count; n++)
        best[n] = -1;
    for (uint32_t o = 0; best != NULL && o < parts->offer_count; o++) {
        uint32_t n = parts->offers[o].nodes[0];
        if (parts->offers[o].node_count == 1 && g->sources[o] >= COST_PROFILE &&
            (best[n] < 0 || g->prices[o].ns < best[n]))
            best[n] = g->prices[o].ns;
    }
    return best;
}

static bool is_plausible(const struct tuned *g, const double *best, uint32_t o)
{
    const part_offer *offer = &g->program->parts.offers[o];
    double sum = 0;

    for (uint32_t k = 0; k < offer->node_count; k++) {
        if (best[offer->nodes[k]] < 0)
            return true;
        sum += best[offer->nodes[k]];
    }
    return offer->chosen || g->sources[o] < COST_PROFILE || g->prices[o].ns <= PRUNE * sum;
}

/* How long a loop takes is up to what it reads, and contents are made up here. */
static bool holds_bodies(const struct program *p, const uint32_t *nodes, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        if (p->graph->nodes[nodes[k]]->body_count > 0)
            return true;
    return false;
}

static cost_key key_of(const struct tuned *g, uint32_t o)
{
    const struct program *p = g->program;
    const part_offer *offer = &p->parts.offers[o];
    cost_question q = { .graph = &p->snapshot,
                        .provider = &p->env->providers[offer->provider],
                        .offer = offer,
                        .values = g->values,
                        .max_threads = p->env->max_threads };

    return cost_key_of(&q);
}

static bool add_kernel(struct tuning *t, const struct kernel *k)
{
    if (!LIST_GROW(t->kernels, t->kernel_count))
        return false;
    t->kernels[t->kernel_count++] = *k;
    return true;
}

/* Regions of equal kernels in the same order are equal. */
static struct kernel region_kernel(const struct tuning *t, const struct tuned *g, const part_region *r)
{
    struct kernel k = { .in = g, .offer = r->offers[0], .region = r, .known = true };

    for (uint32_t i = 0; i < r->offer_count; i++) {
        cost_key one = key_of(g, r->offers[i]);

        k.known = k.known && cost_store_find(&t->store, one) != NULL;
        k.weight += g->prices[r->offers[i]].ns;
        for (int w = 0; w < 2; w++)
            k.key.word[w] = hash_u64(k.key.word[w], one.word[w]);
    }
    return k;
}

/* The regions of one provider, when it runs all that it offers. */
static inlay_status add_regions(struct tuning *t, const struct tuned *g, uint32_t owner)
{
    const struct program *p = g->program;
    uint8_t *barred = arena_alloc(&t->a, (size_t)p->parts.offer_count + 1);
    uint8_t *own = arena_alloc(&t->a, (size_t)p->graph->node_count + 1);
    part_rules rules = p->env->rules != NULL ? *p->env->rules : (part_rules){ 0 };
    part_request again = { .graph = p->graph,
                           .snapshot = &p->snapshot,
                           .providers = p->env->providers,
                           .provider_count = p->env->provider_count,
                           .max_threads = p->env->max_threads,
                           .rules = &rules,
                           .costs = p->env->costs,
                           .barred = barred };
    inlay_diag why = INLAY_DIAG_INIT;
    struct partition base = p->parts, other = { 0 };
    inlay_status status;

    if (barred == NULL || own == NULL)
        return no_memory(t->diag, "to tune");
    for (uint32_t o = 0; o < p->parts.offer_count; o++)
        if (p->parts.offers[o].provider == owner && p->parts.offers[o].node_count == 1)
            own[p->parts.offers[o].nodes[0]] = 1;
    for (uint32_t o = 0; o < p->parts.offer_count; o++)
        for (uint32_t k = 0; k < p->parts.offers[o].node_count; k++)
            barred[o] |= p->parts.offers[o].provider != owner && own[p->parts.offers[o].nodes[k]];
    rules.saved_plan = NULL;
    base.profile = g->values;
    status = partition_again(&again, &base, &t->a, &other, &why);
    if (status == INLAY_OUT_OF_MEMORY)
        return no_memory(t->diag, "to tune");
    for (uint32_t i = 0; status == INLAY_OK && i < other.region_count; i++) {
        const part_region *r = &other.regions[i];
        struct kernel k;

        if (r->provider != owner || (p->parts.offers[r->offers[0]].flags & INLAY_OFFER_MERGE) == 0 ||
            holds_bodies(p, r->nodes, r->node_count))
            continue;
        k = region_kernel(t, g, r);
        if (k.weight > 0 && !add_kernel(t, &k))
            return no_memory(t->diag, "to tune");
    }
    return INLAY_OK; /* a rule that does not let the provider have all leaves its offers as they were priced */
}

static bool merges(const part_offer *o)
{
    return (o->flags & INLAY_OFFER_MERGE) != 0;
}

static int by_weight(const void *a_, const void *b_)
{
    const struct kernel *a = a_, *b = b_;

    return a->weight != b->weight ? (a->weight > b->weight ? -1 : 1) : cost_key_order(a_, b_);
}

/* Kernels of one key become one. */
static void merge_kernels(struct tuning *t)
{
    uint32_t n = 0;

    if (t->kernel_count > 0)
        qsort(t->kernels, t->kernel_count, sizeof *t->kernels, cost_key_order);
    for (uint32_t i = 0; i < t->kernel_count; i++) {
        if (n > 0 && cost_key_order(&t->kernels[n - 1], &t->kernels[i]) == 0)
            t->kernels[n - 1].weight += t->kernels[i].weight;
        else
            t->kernels[n++] = t->kernels[i];
    }
    t->kernel_count = n;
    if (n > 0)
        qsort(t->kernels, n, sizeof *t->kernels, by_weight);
    t->result.kernel_count = n;
    for (uint32_t i = 0; i < n; i++)
        t->result.known_count += t->kernels[i].known;
}

inlay_status tune_find_kernels(struct tuning *t)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < t->graph_count; i++) {
        const struct tuned *g = &t->graphs[i];
        double *best = find_best(t, g);
        uint8_t *merging = arena_alloc(&t->a, (size_t)t->s->env.provider_count + 1); /* has offers here that merge */

        if (best == NULL || merging == NULL)
            return no_memory(t->diag, "to tune");
        for (uint32_t o = 0; o < g->program->parts.offer_count; o++) {
            struct kernel k = { .in = g, .offer = o, .weight = g->prices[o].ns };

            if (g->prices[o].ns == 0)
                continue; /* computed while planning, or a view */
            if (holds_bodies(g->program, g->program->parts.offers[o].nodes, g->program->parts.offers[o].node_count))
                continue;
            if (merges(&g->program->parts.offers[o])) {
                merging[g->program->parts.offers[o].provider] = 1;
                continue;
            }
            if (!is_plausible(g, best, o)) {
                t->result.pruned_count++;
                continue;
            }
            k.key = key_of(g, o);
            k.known = cost_store_find(&t->store, k.key) != NULL;
            if (!add_kernel(t, &k))
                return no_memory(t->diag, "to tune");
        }
        for (uint32_t p = 0; p < t->s->env.provider_count; p++)
            if (merging[p] != 0)
                INLAY_TRY(add_regions(t, g, p));
    }
    merge_kernels(t);
done:
    return status;
}
