#include "serve/retired.h"
#include "serve/log.h"
#include "serve/sequence.h"
#include <stdlib.h>
#include <string.h>

void retired_init(struct retired *r)
{
    *r = (struct retired){ .models = NULL };
    (void)pthread_mutex_init(&r->lock, NULL);
}

void retired_deinit(struct retired *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        model_unref(r->models[i]);
    free(r->models);
    (void)pthread_mutex_destroy(&r->lock);
    *r = (struct retired){ .models = NULL };
}

void retired_add(struct retired *r, struct model *m)
{
    bool kept = false;

    if (m != NULL && m->sequences != NULL) {
        (void)pthread_mutex_lock(&r->lock);
        kept = LIST_GROW(r->models, r->count);
        if (kept)
            r->models[r->count++] = m;
        (void)pthread_mutex_unlock(&r->lock);
    }
    if (!kept)
        model_unref(m);
}

/* Under the lock. */
static struct model *take(struct retired *r, uint32_t at)
{
    struct model *m = r->models[at];

    r->count--;
    memmove(&r->models[at], &r->models[at + 1], (r->count - at) * sizeof(struct model *));
    return m;
}

struct model *retired_find(struct retired *r, const char *name, uint64_t version, const char *id)
{
    struct model *found = NULL;

    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = r->count; found == NULL && i-- > 0;) {
        struct model *m = r->models[i];

        if (strcmp(m->name, name) == 0 && (version == 0 || m->number == version) && sequence_is_known(m, id))
            found = model_ref(m);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return found;
}

/* One whose sequences are over; a request that has a reference may begin or go on with one. */
static struct model *take_done(struct retired *r)
{
    struct model *done = NULL;

    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; done == NULL && i < r->count; i++)
        if (atomic_load(&r->models[i]->refs) == 1 && !sequences_live(r->models[i]))
            done = take(r, i);
    (void)pthread_mutex_unlock(&r->lock);
    return done;
}

void retired_tidy(struct retired *r)
{
    struct model *m;

    while ((m = take_done(r)) != NULL) {
        log_line(LOG_INFO_LINE, "model '%s', version %s: the last sequences of what it was before are over", m->name,
                 m->version);
        model_unref(m);
    }
}

struct model *retired_take(struct retired *r, const char *name)
{
    struct model *taken = NULL;

    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; taken == NULL && i < r->count; i++)
        if (name == NULL || strcmp(r->models[i]->name, name) == 0)
            taken = take(r, i);
    (void)pthread_mutex_unlock(&r->lock);
    return taken;
}

uint32_t retired_count(struct retired *r, uint64_t *out_bytes)
{
    uint32_t count;

    (void)pthread_mutex_lock(&r->lock);
    count = r->count;
    *out_bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        *out_bytes += r->models[i]->bytes;
    (void)pthread_mutex_unlock(&r->lock);
    return count;
}
