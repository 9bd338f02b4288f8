#include "serve/model/run_profile.h"
#include "serve/model/ensemble.h"
#include <stdlib.h>

enum { MAX_STEPS = 1024 }; /* of a stage: as many as otlp.c sends; their memory is cleared for each profile */

static inlay_context *context_of(const struct model *model, const struct instance *instance, uint32_t part)
{
    return model->ensemble != NULL ? instance->stages[part] : instance->context;
}

run_profile *run_profile_begin(const struct model *model, struct instance *instance, uint32_t count)
{
    uint32_t parts = model->ensemble != NULL ? model->ensemble->stage_count : 1;
    run_profile *profile;
    bool wanted = false;

    for (uint32_t i = 0; i < count; i++)
        wanted |= instance->jobs[i]->is_profiled;
    if (!wanted)
        return NULL;
    profile = calloc(1, sizeof *profile + parts * sizeof profile->parts[0]);
    if (profile == NULL)
        return NULL;
    atomic_init(&profile->refs, 1);
    profile->part_count = parts;
    for (uint32_t i = 0; i < parts; i++) {
        if (inlay_context_profile(context_of(model, instance, i), 1, MAX_STEPS, NULL) == INLAY_OK)
            continue;
        run_profile_end(model, instance, profile, false);
        run_profile_unref(profile);
        return NULL;
    }
    instance->profile = profile;
    return profile;
}

struct part_steps {
    struct arena *arena;
    inlay_profile_event *steps;
    uint32_t count;
};

/* A step for which there is no memory is left out, and so are its names. */
static void take_step(void *user, const inlay_profile_event *event)
{
    struct part_steps *part = user;
    inlay_profile_event *step;

    if (!ARENA_GROW(part->arena, part->steps, part->count))
        return;
    step = &part->steps[part->count];
    *step = *event;
    step->name = arena_string(part->arena, event->name);
    step->op_type = arena_string(part->arena, event->op_type);
    step->provider = arena_string(part->arena, event->provider);
    part->count += step->name != NULL && step->op_type != NULL && step->provider != NULL;
}

void run_profile_end(const struct model *model, struct instance *instance, run_profile *profile, bool ok)
{
    if (profile == NULL)
        return;
    instance->profile = NULL;
    for (uint32_t i = 0; i < profile->part_count; i++) {
        inlay_context *context = context_of(model, instance, i);
        struct part_steps part = { .arena = &profile->arena };

        if (ok && inlay_context_profile_events(context, take_step, &part, NULL) == INLAY_OK) {
            profile->parts[i].steps = part.steps;
            profile->parts[i].step_count = part.count;
        }
        (void)inlay_context_profile(context, 0, 0, NULL);
    }
}

run_profile *run_profile_ref(run_profile *profile)
{
    (void)atomic_fetch_add_explicit(&profile->refs, 1, memory_order_relaxed);
    return profile;
}

void run_profile_unref(run_profile *profile)
{
    if (profile == NULL || atomic_fetch_sub(&profile->refs, 1) > 1)
        return;
    arena_deinit(&profile->arena);
    free(profile);
}
