/* The memory limit of all models: which are unloaded, and which are loaded only when a request names them. */
#include "serve/base/log.h"
#include "inlay/check.h"
#include "serve/repository/repository_internal.h"
#include "serve/model/sequence.h"
#include <stdlib.h>
#include <string.h>

enum { HOLD_LOADS = 4 }; /* see the setting models_hold_ms */

/* Sum over the loaded models without the replaced ones. The caller holds the lock. */
static uint64_t sum_of(const struct repository *repository, uint64_t (*bytes_of)(struct model *model))
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < repository->count; i++)
        bytes += repository->entries[i].loaded != NULL ? bytes_of(repository->entries[i].loaded) : 0;
    for (uint32_t i = 0; i < repository->rollout_count; i++)
        bytes += bytes_of(repository->rollouts[i]->candidate);
    return bytes;
}

/* The caller holds the lock. */
static uint64_t loaded_bytes(struct repository *repository)
{
    uint64_t replaced;

    (void)retired_count(&repository->retired, &replaced);
    return replaced + sum_of(repository, model_bytes);
}

uint64_t repository_run_bytes(struct repository *repository)
{
    uint64_t bytes;

    (void)pthread_mutex_lock(&repository->lock);
    bytes = sum_of(repository, model_run_bytes);
    (void)pthread_mutex_unlock(&repository->lock);
    return bytes;
}

struct model *repository_next(struct repository *repository, uint32_t *at)
{
    struct model *found = NULL;

    (void)pthread_mutex_lock(&repository->lock);
    while (found == NULL && *at < repository->count) {
        struct model *loaded = repository->entries[(*at)++].loaded;

        found = loaded != NULL ? model_ref(loaded) : NULL;
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return found;
}

uint64_t repository_bytes(struct repository *repository)
{
    uint64_t bytes;

    (void)pthread_mutex_lock(&repository->lock);
    bytes = loaded_bytes(repository);
    (void)pthread_mutex_unlock(&repository->lock);
    return bytes;
}

/* Whether the first model is unloaded before the second one: the least recently used one; those with live sequences
 * come last. */
static bool goes_first(const struct entry *entry, const struct entry *other)
{
    bool live = sequences_live(entry->loaded), other_live = sequences_live(other->loaded);

    return live != other_live ? other_live
                              : atomic_load(&entry->loaded->requested_ns) < atomic_load(&other->loaded->requested_ns);
}

/* The model that is unloaded next, or next after `previous` (NULL: the first); never the given version, nor a model
 * that an ensemble needs. The caller holds the lock. */
static struct entry *next_victim(struct repository *repository, const char *name, uint64_t version,
                                 const struct entry *previous)
{
    struct entry *first = NULL;

    for (uint32_t i = 0; i < repository->count; i++) {
        struct entry *entry = &repository->entries[i];

        if (entry->loaded == NULL || atomic_load(&entry->loaded->pins) > 0 ||
            (entry->version == version && strcmp(entry->name, name) == 0))
            continue;
        if ((previous == NULL || (entry != previous && goes_first(previous, entry))) &&
            (first == NULL || goes_first(entry, first)))
            first = entry;
    }
    return first;
}

void repository_hold(struct repository *repository, const char *name, uint64_t version, uint64_t ns)
{
    uint64_t hold = (uint64_t)settings_int(repository->settings, SET_models_hold_ms) * 1000000;
    struct entry *entry;

    (void)pthread_mutex_lock(&repository->lock);
    entry = repository_entry_of(repository, name, version);
    if (entry != NULL)
        entry->held_until_ns = clock_ns() + (hold > 0 ? hold : HOLD_LOADS * ns);
    (void)pthread_mutex_unlock(&repository->lock);
}

/* The deferred version that a request for `version` (0: the latest) needs; NULL: none. The caller holds the lock. */
static const struct entry *find_deferred(const struct repository *repository, const char *name, uint64_t version)
{
    const struct entry *found = NULL;

    for (uint32_t i = 0; i < repository->count; i++) {
        const struct entry *entry = &repository->entries[i];

        if ((version == 0 || entry->version == version) && strcmp(entry->name, name) == 0)
            found = entry->deferred && entry->loaded == NULL ? entry : NULL;
    }
    return found;
}

uint64_t repository_load_at(struct repository *repository, const char *name, uint64_t version)
{
    const struct entry *entry, *victim = NULL;
    uint64_t at = 0, bytes;

    if (repository->budget == 0)
        return 0;
    (void)pthread_mutex_lock(&repository->lock);
    entry = find_deferred(repository, name, version);
    bytes = entry != NULL ? loaded_bytes(repository) + entry->bytes : 0;
    while (bytes > repository->budget && (victim = next_victim(repository, name, entry->version, victim)) != NULL) {
        bytes -= model_bytes(victim->loaded);
        at = victim->held_until_ns > at ? victim->held_until_ns : at;
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return at;
}

/* Removes the model from its entry. The caller holds the lock. */
static struct model *take(struct entry *entry)
{
    struct model *taken = entry->loaded;

    entry->bytes = model_bytes(taken);
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
    struct entry *entry;

    INLAY_CHECK(repository->budget > 0);
    (void)pthread_mutex_lock(&repository->lock);
    entry =
        loaded_bytes(repository) + needed > repository->budget ? next_victim(repository, name, version, NULL) : NULL;
    if (loaded_bytes(repository) + needed > repository->budget && (entry == NULL || sequences_live(entry->loaded)))
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
    struct entry *entry = NULL;

    if (repository->budget == 0)
        return;
    (void)pthread_mutex_lock(&repository->lock);
    if (loaded_bytes(repository) > repository->budget)
        entry = next_victim(repository, "", 0, NULL);
    if (entry != NULL && !sequences_live(entry->loaded) && entry->held_until_ns <= clock_ns() &&
        next_victim(repository, "", 0, entry) != NULL)
        taken = take(entry);
    (void)pthread_mutex_unlock(&repository->lock);
    if (taken != NULL)
        release(taken);
}

bool repository_defer(struct repository *repository, const char *name, uint64_t version, uint64_t needed,
                      uint32_t purposes)
{
    struct entry *entry;
    uint64_t loaded;
    bool deferred;

    (void)pthread_mutex_lock(&repository->lock);
    loaded = loaded_bytes(repository);
    deferred =
        repository->budget > 0 && loaded + needed > repository->budget && (loaded > 0 || repository->is_budget_given);
    entry = deferred ? repository_entry_of(repository, name, version) : NULL;
    if (entry != NULL) {
        entry->deferred = true;
        entry->failed = entry->retried = false;
        entry->purposes = purposes;
        entry->state = STATE_UNAVAILABLE;
        free(entry->reason);
        entry->reason = strdup("not loaded because of models_memory; a request loads it");
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return deferred;
}
