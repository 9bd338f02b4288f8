/* plan/program/program.c - queries about programs, and their release. */
#include "base/memory.h"
#include "base/provider_calls.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plan/program/compile.h"
#include "plan/program/declined.h"
#include <stdlib.h>

void program_count_resident(const program_env *env, const program_step *step, bool released)
{
    uint64_t *all =
        env->memory.resident_bytes != NULL ? &env->memory.resident_bytes[step->provider - env->providers] : NULL;

    INLAY_CHECK(step->provider >= env->providers && step->provider < env->providers + env->provider_count);
    if (all != NULL)
        (void)__atomic_add_fetch(all, released ? 0 - step->resident_bytes : step->resident_bytes, __ATOMIC_RELAXED);
}

void program_release_step(const program_env *env, program_step *step)
{
    INLAY_CHECK(step->compiled == NULL || step->provider != NULL);
    if (step->compiled == NULL || step->borrowed)
        return;
    if (step->share != NULL && __atomic_sub_fetch(&step->share->references, 1, __ATOMIC_ACQ_REL) > 0) {
        step->compiled = NULL;
        step->weights = NULL;
        return;
    }
    free(step->share);
    step->share = NULL;
    program_count_resident(env, step, true);
    step->provider->table->release_compiled(step->provider->state, step->compiled);
    step->compiled = NULL;
    if (step->weights != NULL)
        weight_stream_remove(env->stream, step->weights);
    step->weights = NULL;
    blob_unmap(&step->blob);
}

bool program_passes_to_bodies(const program_step *step, uint32_t value)
{
    return step->provider == NULL && partition_passes_to_bodies(step->node, value);
}

uint32_t program_count(const struct program *program)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < program->body_count; i++)
        count += program_count(program->bodies[i]);
    return count;
}

partition_request program_request(const struct program *program)
{
    const program_env *env = program->env;

    return (partition_request){ .graph = program->graph,
                                .snapshot = &program->snapshot,
                                .providers = env->providers,
                                .provider_count = env->provider_count,
                                .max_threads = env->max_threads,
                                .rules = env->rules,
                                .costs = env->costs,
                                .sizes = env->sizes,
                                .states = env->states,
                                .state_count = program->graph->parent == NULL ? env->state_count : 0,
                                .log = env->log,
                                .log_ctx = env->log_ctx };
}

partition_job *program_jobs(struct program *program, partition_job *next)
{
    *next++ = (partition_job){
        .path = program->path, .arena = &program->arena, .out = &program->parts, .request = program_request(program)
    };
    for (uint32_t i = 0; i < program->body_count; i++)
        next = program_jobs(program->bodies[i], next);
    return next;
}

const partition_provider *program_device(const struct program *program)
{
    const partition_provider *found = NULL;

    for (uint32_t i = 0; program != NULL && found == NULL && i < program->step_count; i++)
        if (program->steps[i].provider != NULL && program->steps[i].provider->table->domain_count > 0)
            found = program->steps[i].provider;
    for (uint32_t i = 0; program != NULL && found == NULL && program->fallback.base == NULL && i < program->body_count;
         i++)
        found = program_device(program->bodies[i]);
    for (const struct program *fallback = program != NULL ? program->fallback.programs : NULL;
         found == NULL && fallback != NULL; fallback = fallback->fallback.next)
        found = program_device(fallback);
    return found;
}

static bool is_free(pthread_mutex_t *lock)
{
    if (pthread_mutex_trylock(lock) != 0)
        return false;
    (void)pthread_mutex_unlock(lock);
    return true;
}

bool program_inherit(struct program *program)
{
    bool idle = program == NULL || (is_free(&program->constants.lock) && is_free(&program->kept.lock));

    if (program == NULL)
        return true;
    for (uint32_t i = 0; idle && program->fallback.base == NULL && i < program->body_count; i++)
        idle = program_inherit(program->bodies[i]);
    for (struct program *other = program->fallback.programs; idle && other != NULL; other = other->fallback.next)
        idle = program_inherit(other);
    if (idle && program->graph->parent == NULL && program->fallback.base == NULL)
        packs_inherit(program->packs);
    return idle;
}

inlay_status program_no_memory(const struct graph *graph, inlay_diag *diag)
{
    return no_memory(diag, "for the program of graph '%s'", graph->name);
}

void forward_diag(inlay_diag *diag, inlay_diag *why)
{
    if (diag == NULL || diag->struct_size < sizeof *why)
        return;
    why->struct_size = diag->struct_size;
    *diag = *why;
}

void program_release_regions(struct program *program)
{
    while (program->fallback.programs != NULL) {
        struct program *next = program->fallback.programs->fallback.next;

        program_destroy(program->fallback.programs);
        program->fallback.programs = next;
    }
    declined_free(program);
    while (program->kept.plans != NULL) {
        struct plan *next = program->kept.plans->next;
        plan_unref(program->kept.plans);
        program->kept.plans = next;
    }
    for (uint32_t i = 0; program->steps != NULL && i < program->step_count; i++)
        program_release_step(program->env, &program->steps[i]);
    for (uint32_t i = 0; program->fallback.base == NULL && i < program->body_count; i++)
        if (program->bodies[i] != NULL)
            program_release_regions(program->bodies[i]);
}

void program_destroy(struct program *program)
{
    if (program == NULL)
        return;
    program_release_regions(program);
    for (uint32_t i = 0; i < program->env->provider_count; i++)
        call_forget(program->env->providers[i].table, program->env->providers[i].state, &program->snapshot);
    for (uint32_t i = 0; program->fallback.base == NULL && i < program->body_count; i++)
        program_destroy(program->bodies[i]);
    for (uint32_t i = 0; i < program->constants.owned_count; i++)
        free(program->constants.owned[i]);
    free(program->constants.owned);
    if (program->graph->parent == NULL && program->fallback.base == NULL)
        packs_close(program->packs);
    if (program->kept.spare != NULL)
        arena_deinit(&program->kept.spare->arena);
    free(program->kept.spare);
    arena_deinit(&program->planning.scratch);
    arena_deinit(&program->planning.shapes);
    arena_deinit(&program->arena);
    (void)pthread_mutex_destroy(&program->constants.lock);
    (void)pthread_mutex_destroy(&program->kept.lock);
    free(program);
}
