/* The memory limit of all models: which are unloaded, and which are loaded only when a request names them. */
#include "serve/base/log.h"
#include "inlay/check.h"
#include "serve/repository/repository_internal.h"
#include "serve/model/sequence.h"
#include <stdlib.h>
#include <string.h>

/* The caller holds the lock. */
static uint64_t loaded_bytes(struct repository *repository)
{
    uint64_t bytes;

    (void)retired_count(&repository->retired, &bytes);
    for (uint32_t i = 0; i < repository->count; i++)
        bytes += repository->entries[i].loaded != NULL ? model_bytes(repository->entries[i].loaded) : 0;
    return bytes;
}

uint64_t repository_bytes(struct repository *repository)
{
    uint64_t bytes;

    (void)pthread_mutex_lock(&repository->lock);
    bytes = loaded_bytes(repository);
    (void)pthread_mutex_unlock(&repository->lock);
    return bytes;
}

/* The least recently used model other than that version, without those that ensembles need; models with live sequences
 * come last. The caller holds the lock. */
static struct entry *least_needed(struct repository *repository, const char *name, uint64_t version, bool *out_live)
{
    struct entry *oldest = NULL;

    *out_live = true;
    for (uint32_t i = 0; i < repository->count; i++) {
        struct entry *entry = &repository->entries[i];
        bool live;

        if (entry->loaded == NULL || atomic_load(&entry->loaded->pins) > 0 ||
            (entry->version == version && strcmp(entry->name, name) == 0))
            continue;
        live = sequences_live(entry->loaded);
        if (oldest == NULL || live < *out_live ||
            (live == *out_live &&
             atomic_load(&entry->loaded->requested_ns) < atomic_load(&oldest->loaded->requested_ns))) {
            oldest = entry;
            *out_live = live;
        }
    }
    return oldest;
}

/* Removes the model from its entry. The caller holds the lock. */
static struct model *take(struct entry *entry)
{
    struct model *taken = entry->loaded;

    entry->loaded = NULL;
    entry->deferred = true;
    entry->state = STATE_UNAVAILABLE;
    free(entry->reason);
    entry->reason = strdup("unloaded because of models_memory; a request loads it");
    return taken;
}

/* Removes a model from the entries or from the replaced models. NULL: none can be removed, or the memory suffices. */
static struct model *unload_one(struct repository *repository, const char *name, uint64_t version, uint64_t needed)
{
    struct model *taken = NULL;
    bool live = false;
    struct entry *entry;

    INLAY_CHECK(repository->budget > 0);
    (void)pthread_mutex_lock(&repository->lock);
    entry =
        loaded_bytes(repository) + needed > repository->budget ? least_needed(repository, name, version, &live) : NULL;
    if (loaded_bytes(repository) + needed > repository->budget && (entry == NULL || live))
        taken = retired_take(&repository->retired, NULL);
    if (taken == NULL && entry != NULL)
        taken = take(entry);
    (void)pthread_mutex_unlock(&repository->lock);
    return taken;
}

static void release(struct model *model)
{
    log_line(LOG_INFO_LINE, "model '%s', version %s: unloaded because of models_memory", model->name, model->version);
    model_unref(model);
}

void repository_make_room(struct repository *repository, const char *name, uint64_t version, uint64_t needed)
{
    struct model *taken;

    while (repository->budget > 0 && (taken = unload_one(repository, name, version, needed)) != NULL)
        release(taken);
}

void repository_trim(struct repository *repository)
{
    struct model *taken = NULL;
    struct entry *entry = NULL, *other;
    bool live, other_live;

    if (repository->budget == 0)
        return;
    (void)pthread_mutex_lock(&repository->lock);
    if (loaded_bytes(repository) > repository->budget)
        entry = least_needed(repository, "", 0, &live);
    other = entry != NULL ? least_needed(repository, entry->name, entry->version, &other_live) : NULL;
    if (other != NULL && !live)
        taken = take(entry);
    (void)pthread_mutex_unlock(&repository->lock);
    if (taken != NULL)
        release(taken);
}

bool repository_defer(struct repository *repository, const char *name, uint64_t version, uint64_t needed, bool is_text)
{
    bool deferred;
    struct entry *entry;

    (void)pthread_mutex_lock(&repository->lock);
    deferred = repository->budget > 0 && loaded_bytes(repository) + needed > repository->budget;
    entry = deferred ? repository_entry_of(repository, name, version) : NULL;
    if (entry != NULL) {
        entry->deferred = true;
        entry->is_text = is_text;
        entry->state = STATE_UNAVAILABLE;
        free(entry->reason);
        entry->reason = strdup("not loaded because of models_memory; a request loads it");
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return deferred;
}
