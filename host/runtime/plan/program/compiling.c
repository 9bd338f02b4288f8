/* plan/program/compiling.c - what is known beforehand of a region that is being compiled. */
#include "partition/cost/cost.h"
#include "plan/program.h"
#include "threads/run.h"

/* What was measured of a provider's kernels. */
typedef struct book_timings {
    run_timings table;
    const cost_book *book;
    const part_provider *provider;
} book_timings;

static double find_timing(const void *ctx, const void *key, uint64_t key_bytes)
{
    const book_timings *t = ctx;

    return cost_timing(t->book, t->provider, key, key_bytes);
}

const run_timings *program_timings(struct program *p, const part_provider *provider)
{
    book_timings *t = p->env->costs != NULL ? arena_alloc(&p->a, sizeof *t) : NULL;

    if (t == NULL)
        return NULL; /* without memory, too: the compile itself will say so */
    *t = (book_timings){ .table = { t, find_timing }, .book = p->env->costs, .provider = provider };
    return &t->table;
}

/* What a region keeps, where that is host memory: what its offers say, or as much as its constants, which is what packs
 * of them mostly take. */
static uint64_t kept_bytes(const struct program *p, const part_region *r)
{
    uint64_t kept = 0, constants = 0;

    if (r->provider >= p->env->provider_count ||
        part_default_domain(&p->env->providers[r->provider]) != INLAY_DOMAIN_HOST)
        return 0;
    for (uint32_t i = 0; i < r->offer_count; i++)
        kept += p->parts.offers[r->offers[i]].resident_bytes;
    for (uint32_t k = 0; k < r->node_count; k++) {
        const inlay_node_info *n = &p->graph->nodes[r->nodes[k]]->info;
        for (uint32_t i = 0; i < n->input_count; i++)
            if (n->inputs[i] != INLAY_NONE)
                constants += p->graph->values[n->inputs[i]].info.data_bytes;
    }
    return kept > constants ? kept : constants;
}

uint64_t program_coming(const struct program *p, uint32_t first)
{
    uint64_t sum = 0, most = 0;

    for (uint32_t i = first; i < p->parts.region_count; i++)
        sum += kept_bytes(p, &p->parts.regions[i]);
    for (uint32_t i = 0; p->parts.memory != NULL && i < p->env->provider_count; i++)
        if (part_default_domain(&p->env->providers[i]) == INLAY_DOMAIN_HOST && p->parts.memory[i].peak_bytes > most)
            most = p->parts.memory[i].peak_bytes;
    return sum + most;
}
