/* exec/loop/dynamic_cache.c - frees the state that a dynamic step caches between runs. */
#include "exec/loop/dynamic_cache.h"
#include "inlay/plugin.h"
#include "threads/fence.h"
#include <stdlib.h>

void dynamic_cache_destroy(bound_step *step)
{
    dynamic_cache *cache = step->cache;

    if (cache == NULL)
        return;
    if (cache->instance != NULL)
        step->plan->step->provider->table->release_instance(step->plan->step->provider->state,
                                                            step->plan->step->compiled, cache->instance);
    blob_unmap(&cache->blob);
    timeline_destroy(cache->timeline);
    arena_deinit(&cache->arena);
    signature_deinit(&cache->signature);
    free(cache);
    step->cache = NULL;
}
