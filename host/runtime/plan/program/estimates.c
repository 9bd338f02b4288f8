/* plan/program/estimates.c - estimates and measurements that are available before a region is compiled. */
#include "partition/cost/cost.h"
#include "plan/program.h"
#include "threads/run.h"

/* The measured times of a provider's kernels. */
typedef struct book_timings {
    run_timings table;
    const cost_book *book;
    const partition_provider *provider;
} book_timings;

static double find_timing(const void *ctx, const void *key, uint64_t key_bytes)
{
    const book_timings *timings = ctx;

    return cost_timing(timings->book, timings->provider, key, key_bytes);
}

const run_timings *program_timings(struct program *program, const partition_provider *provider)
{
    book_timings *timings = program->env->costs != NULL ? arena_alloc(&program->arena, sizeof *timings) : NULL;

    if (timings == NULL)
        return NULL; /* also if out of memory, which compile will report */
    *timings = (book_timings){ .table = { timings, find_timing }, .book = program->env->costs, .provider = provider };
    return &timings->table;
}

/* Host memory that a compiled region will hold: the maximum of what its offers state and of the size of its
 * constants. */
static uint64_t kept_bytes(const struct program *program, const partition_region *region)
{
    const uint64_t constants = cost_constant_bytes(program->graph, region->nodes, region->node_count);
    uint64_t kept = 0;

    if (region->provider >= program->env->provider_count ||
        partition_default_domain(&program->env->providers[region->provider]) != INLAY_DOMAIN_HOST)
        return 0;
    for (uint32_t i = 0; i < region->offer_count; i++)
        kept += program->parts.offers[region->offers[i]].resident_bytes;
    return kept > constants ? kept : constants;
}

uint64_t program_expected_bytes(const struct program *program, uint32_t first)
{
    uint64_t sum = 0, most = 0;

    for (uint32_t i = first; i < program->parts.region_count; i++)
        sum += kept_bytes(program, &program->parts.regions[i]);
    for (uint32_t i = 0; program->parts.memory != NULL && i < program->env->provider_count; i++)
        if (partition_default_domain(&program->env->providers[i]) == INLAY_DOMAIN_HOST &&
            program->parts.memory[i].peak_bytes > most)
            most = program->parts.memory[i].peak_bytes;
    return sum + most;
}
