/* plan/program/program.c - what programs are asked, and their end. */
#include "base/memory.h"
#include "plan/program/compile.h"
#include "plan/program/declined.h"
#include <stdlib.h>
#include <string.h>

void program_count_resident(const program_env *env, const program_step *s, bool released)
{
    uint64_t *all = env->resident_bytes != NULL ? &env->resident_bytes[s->provider - env->providers] : NULL;

    if (all != NULL)
        (void)__atomic_add_fetch(all, released ? 0 - s->resident_bytes : s->resident_bytes, __ATOMIC_RELAXED);
}

void program_release_step(const program_env *env, program_step *s)
{
    if (s->compiled == NULL || s->borrowed)
        return;
    program_count_resident(env, s, true);
    s->provider->table->release_compiled(s->provider->state, s->compiled);
    s->compiled = NULL;
}

bool program_hands_on(const program_step *s, uint32_t v)
{
    return s->provider == NULL && part_hands_on(s->node, v);
}

uint32_t program_count(const struct program *p)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < p->body_count; i++)
        count += program_count(p->bodies[i]);
    return count;
}

part_request program_request(const struct program *p)
{
    const program_env *env = p->env;

    return (part_request){ .graph = p->graph,
                           .snapshot = &p->snapshot,
                           .providers = env->providers,
                           .provider_count = env->provider_count,
                           .max_threads = env->max_threads,
                           .rules = env->rules,
                           .costs = env->costs,
                           .sizes = env->sizes,
                           .log = env->log,
                           .log_ctx = env->log_ctx };
}

part_job *program_jobs(struct program *p, part_job *next)
{
    *next++ = (part_job){ .path = p->path, .a = &p->a, .out = &p->parts, .request = program_request(p) };
    for (uint32_t i = 0; i < p->body_count; i++)
        next = program_jobs(p->bodies[i], next);
    return next;
}

const part_provider *program_device(const struct program *p)
{
    const part_provider *found = NULL;

    for (uint32_t i = 0; p != NULL && found == NULL && i < p->step_count; i++)
        if (p->steps[i].provider != NULL && p->steps[i].provider->table->domain_count > 0)
            found = p->steps[i].provider;
    for (uint32_t i = 0; p != NULL && found == NULL && p->fallback.base == NULL && i < p->body_count; i++)
        found = program_device(p->bodies[i]);
    for (const struct program *o = p != NULL ? p->fallback.programs : NULL; found == NULL && o != NULL;
         o = o->fallback.next)
        found = program_device(o);
    return found;
}

static bool is_free(pthread_mutex_t *lock)
{
    if (pthread_mutex_trylock(lock) != 0)
        return false;
    (void)pthread_mutex_unlock(lock);
    return true;
}

bool program_inherit(struct program *p)
{
    bool idle = p == NULL || (is_free(&p->constants.lock) && is_free(&p->kept.lock));

    if (p == NULL)
        return true;
    for (uint32_t i = 0; idle && p->fallback.base == NULL && i < p->body_count; i++)
        idle = program_inherit(p->bodies[i]);
    for (struct program *other = p->fallback.programs; idle && other != NULL; other = other->fallback.next)
        idle = program_inherit(other);
    if (idle && p->graph->parent == NULL && p->fallback.base == NULL)
        packs_inherit(p->packs);
    return idle;
}

inlay_status program_no_memory(const struct graph *g, inlay_diag *diag)
{
    return no_memory(diag, "for the program of graph '%s'", g->name);
}

void program_tell(inlay_diag *diag, inlay_diag *why)
{
    if (diag == NULL || diag->struct_size < sizeof *why)
        return;
    why->struct_size = diag->struct_size;
    *diag = *why;
}

void program_destroy(struct program *p)
{
    if (p == NULL)
        return;
    while (p->fallback.programs != NULL) {
        struct program *next = p->fallback.programs->fallback.next;

        program_destroy(p->fallback.programs);
        p->fallback.programs = next;
    }
    declined_forget(p);
    while (p->kept.plans != NULL) {
        struct plan *next = p->kept.plans->next;
        plan_unref(p->kept.plans);
        p->kept.plans = next;
    }
    for (uint32_t i = 0; p->steps != NULL && i < p->step_count; i++)
        program_release_step(p->env, &p->steps[i]);
    for (uint32_t i = 0; p->fallback.base == NULL && i < p->body_count; i++)
        program_destroy(p->bodies[i]);
    for (uint32_t i = 0; i < p->constants.owned_count; i++)
        free(p->constants.owned[i]);
    free(p->constants.owned);
    if (p->graph->parent == NULL && p->fallback.base == NULL)
        packs_close(p->packs);
    if (p->kept.spare != NULL)
        arena_deinit(&p->kept.spare->a);
    free(p->kept.spare);
    arena_deinit(&p->planning.scratch);
    arena_deinit(&p->a);
    (void)pthread_mutex_destroy(&p->constants.lock);
    (void)pthread_mutex_destroy(&p->kept.lock);
    free(p);
}
