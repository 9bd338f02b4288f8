#include "serve/repository/retired.h"
#include "inlay/check.h"
#include "serve/base/log.h"
#include "serve/model/sequence.h"
#include <stdlib.h>
#include <string.h>

void retired_init(struct retired *retired)
{
    *retired = (struct retired){ .models = NULL };
    (void)pthread_mutex_init(&retired->lock, NULL);
}

void retired_deinit(struct retired *retired)
{
    for (uint32_t i = 0; i < retired->count; i++)
        model_unref(retired->models[i]);
    free(retired->models);
    (void)pthread_mutex_destroy(&retired->lock);
    *retired = (struct retired){ .models = NULL };
}

void retired_add(struct retired *retired, struct model *model)
{
    bool kept = false;

    if (model != NULL && model->states.sequences != NULL) {
        (void)pthread_mutex_lock(&retired->lock);
        kept = LIST_GROW(retired->models, retired->count);
        if (kept)
            retired->models[retired->count++] = model;
        (void)pthread_mutex_unlock(&retired->lock);
    }
    if (!kept)
        model_unref(model);
}

/* Removes and returns a model. The caller holds the lock. */
static struct model *take(struct retired *retired, uint32_t at)
{
    struct model *model = retired->models[at];

    INLAY_CHECK(at < retired->count);
    retired->count--;
    memmove(&retired->models[at], &retired->models[at + 1], (retired->count - at) * sizeof(struct model *));
    return model;
}

struct model *retired_find(struct retired *retired, const char *name, uint64_t version, const char *id)
{
    struct model *found = NULL;

    (void)pthread_mutex_lock(&retired->lock);
    for (uint32_t i = retired->count; found == NULL && i-- > 0;) {
        struct model *model = retired->models[i];

        if (strcmp(model->name, name) == 0 && (version == 0 || model->number == version) &&
            sequence_is_known(model, id))
            found = model_ref(model);
    }
    (void)pthread_mutex_unlock(&retired->lock);
    return found;
}

/* Removes a model whose sequences have ended. A request that holds a reference may still use a sequence. */
static struct model *take_finished(struct retired *retired)
{
    struct model *done = NULL;

    (void)pthread_mutex_lock(&retired->lock);
    for (uint32_t i = 0; done == NULL && i < retired->count; i++)
        if (atomic_load(&retired->models[i]->refs) == 1 && !sequences_live(retired->models[i]))
            done = take(retired, i);
    (void)pthread_mutex_unlock(&retired->lock);
    return done;
}

void retired_collect(struct retired *retired)
{
    struct model *model;

    while ((model = take_finished(retired)) != NULL) {
        log_line(LOG_INFO_LINE, "model '%s', version %s: the last sequence of the replaced model has ended",
                 model->name, model->version);
        model_unref(model);
    }
}

struct model *retired_take(struct retired *retired, const char *name)
{
    struct model *taken = NULL;

    (void)pthread_mutex_lock(&retired->lock);
    for (uint32_t i = 0; taken == NULL && i < retired->count; i++)
        if (name == NULL || strcmp(retired->models[i]->name, name) == 0)
            taken = take(retired, i);
    (void)pthread_mutex_unlock(&retired->lock);
    return taken;
}

uint32_t retired_count(struct retired *retired, uint64_t *out_bytes)
{
    uint32_t count;

    (void)pthread_mutex_lock(&retired->lock);
    count = retired->count;
    *out_bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        *out_bytes += model_bytes(retired->models[i]);
    (void)pthread_mutex_unlock(&retired->lock);
    return count;
}
