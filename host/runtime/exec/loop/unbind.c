/* exec/loop/unbind.c - destroys a bound plan. */
#include "exec/device/device_memory.h"
#include "base/provider_calls.h"
#include "exec/loop/bound.h"
#include "exec/loop/dynamic_cache.h"
#include "inlay/check.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdlib.h>

enum { MAX_SPARE_BYTES = 4 << 20 }; /* larger arenas are freed instead of being kept for the next bound plan */

void bound_release_binding(bound_step *step)
{
    const program_step *planned = step->plan != NULL ? step->plan->step : NULL;

    if (step->args.binding != NULL)
        planned->provider->table->release_binding(planned->provider->state, step->compiled, step->instance,
                                                  step->args.binding);
    step->args.binding = NULL;
}

void bound_destroy(struct runner *runner, struct bound *bound)
{
    const program_env *env = runner->prog->env;

    if (bound == NULL)
        return;
    INLAY_CHECK(bound->plan != NULL);
    if (env->memory.held_bytes != NULL)
        (void)__atomic_sub_fetch(env->memory.held_bytes, bound->memory.counted_bytes, __ATOMIC_RELAXED);
    for (uint32_t i = 0; bound->steps != NULL && i < bound->plan->step_count; i++) {
        bound_release_binding(&bound->steps[i]);
        timeline_destroy(bound->steps[i].fence.timeline);
        dynamic_cache_destroy(&bound->steps[i]);
    }
    timeline_destroy(bound->dynamic.last_mirror_fence.timeline);
    for (uint32_t i = 0; i < bound->memory.import_count; i++) {
        const inlay_buffer *import = &bound->memory.imports[i].buffer;
        const partition_provider *importer = &env->providers[plan_owner_of(env, import->domain)];

        call_free(importer->table, importer->state, import);
    }
    for (uint32_t d = 1; bound->memory.slabs != NULL && d < bound->plan->domain_count; d++) {
        const uint32_t i = plan_owner_of(env, d);

        if (bound->memory.slabs[d].handle == 0)
            continue;
        if (bound->memory.maps[d] != NULL)
            call_unmap(env->providers[i].table, env->providers[i].state, &bound->memory.slabs[d]);
        device_memory_free(env, i, &bound->memory.slabs[d]);
    }
    plan_unref(bound->plan);
    arena_deinit(&bound->dynamic.scratch);
    if (runner->plans.spare == NULL && bound->arena.total_bytes <= MAX_SPARE_BYTES) {
        struct arena memory = bound->arena;

        arena_reset(&memory);
        *bound = (struct bound){ .arena = memory };
        runner->plans.spare = bound;
        return;
    }
    arena_deinit(&bound->arena);
    free(bound);
}
