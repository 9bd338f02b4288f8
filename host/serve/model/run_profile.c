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

static void take(void *user, const char *text, size_t bytes)
{
    strbuf_add(user, text, bytes);
}

void run_profile_end(const struct model *model, struct instance *instance, run_profile *profile, bool ok)
{
    const inlay_profile_options options = { .struct_size = sizeof options, .format = "json" };

    if (profile == NULL)
        return;
    instance->profile = NULL;
    for (uint32_t i = 0; i < profile->part_count; i++) {
        inlay_context *context = context_of(model, instance, i);

        if (ok && inlay_context_profile_write(context, &options, take, &profile->parts[i].json, NULL) != INLAY_OK)
            profile->parts[i].json.size = 0;
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
    for (uint32_t i = 0; i < profile->part_count; i++)
        strbuf_deinit(&profile->parts[i].json);
    free(profile);
}
