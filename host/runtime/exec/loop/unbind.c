/* exec/loop/unbind.c - the end of a bound plan. */
#include "exec/device/device_memory.h"
#include "exec/loop/bound.h"
#include "exec/loop/dynamic_cache.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdlib.h>

enum { SPARE_BYTES = 4 << 20 };

void bound_release_binding(bound_step *s)
{
    const program_step *ps = s->plan != NULL ? s->plan->step : NULL;

    if (s->args.binding != NULL)
        ps->provider->table->release_binding(ps->provider->state, s->compiled, s->instance, s->args.binding);
    s->args.binding = NULL;
}

void bound_destroy(struct runner *r, struct bound *b)
{
    const program_env *env = r->prog->env;

    if (b == NULL)
        return;
    if (env->held_bytes != NULL)
        (void)__atomic_sub_fetch(env->held_bytes, b->memory.counted_bytes, __ATOMIC_RELAXED);
    for (uint32_t i = 0; b->steps != NULL && i < b->plan->step_count; i++) {
        bound_release_binding(&b->steps[i]);
        timeline_destroy(b->steps[i].fence.timeline);
        dynamic_cache_destroy(&b->steps[i]);
    }
    timeline_destroy(b->made.arrival.timeline);
    for (uint32_t d = 1; b->memory.slabs != NULL && d < b->plan->domain_count; d++) {
        const uint32_t i = plan_owner_of(env, d);

        if (b->memory.slabs[d].handle == 0)
            continue;
        if (b->memory.maps[d] != NULL)
            env->providers[i].table->buffer_unmap(env->providers[i].state, &b->memory.slabs[d]);
        device_give(env, i, &b->memory.slabs[d]);
    }
    plan_unref(b->plan);
    arena_deinit(&b->made.scratch);
    if (r->plans.spare == NULL && b->a.total_bytes <= SPARE_BYTES) {
        struct arena memory = b->a;

        arena_reset(&memory);
        *b = (struct bound){ .a = memory };
        r->plans.spare = b;
        return;
    }
    arena_deinit(&b->a);
    free(b);
}
