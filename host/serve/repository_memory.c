/* The budget of all models: which go when there is no room, and which are loaded only when a request names them. */
#include "serve/log.h"
#include "serve/repository_internal.h"
#include "serve/sequence.h"
#include <stdlib.h>
#include <string.h>

/* Under the lock. */
static uint64_t loaded_bytes(struct repository *r)
{
    uint64_t bytes;

    (void)retired_count(&r->retired, &bytes);
    for (uint32_t i = 0; i < r->count; i++)
        bytes += r->entries[i].loaded != NULL ? r->entries[i].bytes : 0;
    return bytes;
}

uint64_t repository_bytes(struct repository *r)
{
    uint64_t bytes;

    (void)pthread_mutex_lock(&r->lock);
    bytes = loaded_bytes(r);
    (void)pthread_mutex_unlock(&r->lock);
    return bytes;
}

/* The model that has not been asked for the longest, but not that version; under the lock. One in the middle of
 * sequences comes last. */
static struct entry *least_needed(struct repository *r, const char *name, uint64_t version, bool *out_live)
{
    struct entry *oldest = NULL;

    *out_live = true;
    for (uint32_t i = 0; i < r->count; i++) {
        struct entry *e = &r->entries[i];
        bool live;

        if (e->loaded == NULL || (e->version == version && strcmp(e->name, name) == 0))
            continue;
        live = sequences_live(e->loaded);
        if (oldest == NULL || live < *out_live ||
            (live == *out_live && atomic_load(&e->loaded->asked_ns) < atomic_load(&oldest->loaded->asked_ns))) {
            oldest = e;
            *out_live = live;
        }
    }
    return oldest;
}

/* Takes a model out of the list, or one that another has taken the place of; NULL: there is none to take, or no
 * need. */
static struct model *put_to_sleep(struct repository *r, const char *name, uint64_t version, uint64_t needed)
{
    struct model *taken = NULL;
    bool live = false;
    struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    e = loaded_bytes(r) + needed > r->budget ? least_needed(r, name, version, &live) : NULL;
    if (loaded_bytes(r) + needed > r->budget && (e == NULL || live))
        taken = retired_take(&r->retired, NULL);
    if (taken == NULL && e != NULL) {
        taken = e->loaded;
        e->loaded = NULL;
        e->asleep = true;
        e->state = STATE_UNAVAILABLE;
        free(e->reason);
        e->reason = strdup("unloaded for memory; a request loads it");
    }
    (void)pthread_mutex_unlock(&r->lock);
    return taken;
}

void repository_make_room(struct repository *r, const char *name, uint64_t version, uint64_t needed)
{
    struct model *taken;

    while (r->budget > 0 && (taken = put_to_sleep(r, name, version, needed)) != NULL) {
        log_line(LOG_INFO_LINE, "model '%s', version %s: unloaded for memory", taken->name, taken->version);
        model_unref(taken);
    }
}

bool repository_leave_asleep(struct repository *r, const char *name, uint64_t version, uint64_t needed)
{
    bool left;
    struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    left = r->budget > 0 && loaded_bytes(r) + needed > r->budget;
    e = left ? repository_entry_of(r, name, version) : NULL;
    if (e != NULL) {
        e->asleep = true;
        e->state = STATE_UNAVAILABLE;
        free(e->reason);
        e->reason = strdup("not loaded yet, for memory; a request loads it");
    }
    (void)pthread_mutex_unlock(&r->lock);
    return left;
}
