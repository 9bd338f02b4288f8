/* The versions that the repository knows, and which model each of them has. */
#include "inlay/check.h"
#include "serve/base/load_note.h"
#include "serve/base/log.h"
#include "serve/model/sequence.h"
#include "serve/model/text.h"
#include "serve/repository/repository_internal.h"
#include <stdlib.h>
#include <string.h>

struct entry *repository_entry_of(struct repository *repository, const char *name, uint64_t version)
{
    struct entry *more;
    uint32_t at = 0;

    for (; at < repository->count; at++) {
        int order = strcmp(repository->entries[at].name, name);
        if (order > 0 || (order == 0 && repository->entries[at].version >= version))
            break;
    }
    if (at < repository->count && repository->entries[at].version == version &&
        strcmp(repository->entries[at].name, name) == 0)
        return &repository->entries[at];
    if (!LIST_GROW(repository->entries, repository->count))
        return NULL;
    more = repository->entries;
    memmove(more + at + 1, more + at, (repository->count - at) * sizeof *more);
    more[at] = (struct entry){ .name = strdup(name), .version = version };
    if (more[at].name == NULL) {
        memmove(more + at, more + at + 1, (repository->count - at) * sizeof *more);
        return NULL;
    }
    repository->count++;
    return &more[at];
}

/* As repository_set_entry() for a caller that holds the lock. Returns the model that was replaced. */
static struct model *set_entry(struct entry *entry, entry_state state, struct model *loaded, bool keep,
                               const char *reason)
{
    struct model *old = loaded;

    INLAY_CHECK(loaded == NULL || state == STATE_READY);
    if (entry == NULL)
        return old;
    free(entry->reason);
    entry->reason = reason != NULL ? strdup(reason) : NULL;
    old = NULL;
    if (!keep) {
        old = entry->loaded;
        entry->loaded = loaded;
        entry->deferred = false;
    }
    if (loaded != NULL)
        entry->purposes = model_purposes(loaded);
    entry->deferred = entry->deferred && state == STATE_LOADING; /* requests do not retry a version that failed */
    entry->state = entry->loaded != NULL || entry->candidate != NULL ? STATE_READY : state;
    entry->failed = entry->failed && state == STATE_LOADING;
    entry->retried = entry->retried && state == STATE_LOADING;
    entry->lost = entry->lost && state == STATE_LOADING;
    return old;
}

void repository_set_entry(struct repository *repository, const char *name, uint64_t version, entry_state state,
                          struct model *loaded, bool keep, const char *reason)
{
    struct model *old;

    (void)pthread_mutex_lock(&repository->lock);
    old = set_entry(repository_entry_of(repository, name, version), state, loaded, keep, reason);
    (void)pthread_mutex_unlock(&repository->lock);
    retired_add(&repository->retired, old);
}

bool repository_may_pass(const inlay_diag *why)
{
    switch (why->error_class) {
    case INLAY_CLASS_RETRY:
    case INLAY_CLASS_MEMORY:
    case INLAY_CLASS_DEVICE_LOST:
        return true;
    default: /* descriptors, disks, and a file that is not there yet */
        return why->code == INLAY_IO_ERROR || why->code == INLAY_NOT_FOUND;
    }
}

void repository_set_failed(struct repository *repository, const char *name, uint64_t version, const inlay_diag *why,
                           bool counts)
{
    struct entry *entry;
    bool lost;

    (void)pthread_mutex_lock(&repository->lock);
    entry = repository_entry_of(repository, name, version);
    if (entry != NULL) {
        counts |= entry->failed;
        lost = entry->lost;
        (void)set_entry(entry, STATE_UNAVAILABLE, NULL, true, why->text); /* which replaces no model */
        entry->failed = counts;
        entry->lost = lost;
        entry->retried = lost || repository_may_pass(why);
    }
    (void)pthread_mutex_unlock(&repository->lock);
}

bool repository_is_current(struct repository *repository, const char *name, uint64_t version, uint64_t state)
{
    const struct entry *entry;
    bool current;

    (void)pthread_mutex_lock(&repository->lock);
    entry = repository_entry_of(repository, name, version);
    current = entry != NULL && entry->loaded != NULL && entry->loaded->file.state == state && !entry->retried;
    (void)pthread_mutex_unlock(&repository->lock);
    return current;
}

bool repository_find_failed(struct repository *repository, bool may_pass, uint32_t *at, char name[FOLDER_MAX_NAME + 1])
{
    for (;; ++*at) {
        const struct entry *entry;
        bool failed, retried;
        uint64_t version;

        (void)pthread_mutex_lock(&repository->lock);
        if (*at >= repository->count) {
            (void)pthread_mutex_unlock(&repository->lock);
            return false;
        }
        entry = &repository->entries[*at];
        failed = entry->failed && entry->loaded == NULL && !entry->deferred;
        retried = may_pass && entry->retried;
        version = entry->version;
        (void)snprintf(name, FOLDER_MAX_NAME + 1, "%s", entry->name);
        (void)pthread_mutex_unlock(&repository->lock);
        if (retried || (failed && board_others_have(repository->defaults.board, name, version)))
            return true;
    }
}

bool repository_is_retried(struct repository *repository, const char *name)
{
    bool retried = false;

    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; !retried && i < repository->count; i++)
        retried = repository->entries[i].retried && strcmp(repository->entries[i].name, name) == 0;
    (void)pthread_mutex_unlock(&repository->lock);
    return retried;
}

bool repository_has_lost(struct repository *repository)
{
    bool lost = false;

    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; !lost && i < repository->count; i++)
        lost = repository->entries[i].lost;
    (void)pthread_mutex_unlock(&repository->lock);
    return lost;
}

/* Takes a model whose files cannot be read any more out of its entry; NULL: there is none. */
static struct model *take_lost(struct repository *repository)
{
    static const char reason[] =
        "its files cannot be read as they were when it was loaded: they were written to or cut "
        "short, or the disk failed; it is loaded again when they can be";
    struct model *lost = NULL;

    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; lost == NULL && i < repository->count; i++) {
        struct entry *entry = &repository->entries[i];
        const struct model *model = entry->loaded;

        if (model == NULL || !(atomic_load_explicit(&model->file.lost, memory_order_relaxed) ||
                               (model->decoding.draft != NULL &&
                                atomic_load_explicit(&model->decoding.draft->file.lost, memory_order_relaxed))))
            continue;
        lost = set_entry(entry, STATE_UNAVAILABLE, NULL, false, reason);
        entry->failed = entry->retried = entry->lost = true;
        log_line(LOG_ERROR_LINE, "model '%s', version %llu: %s", entry->name, (unsigned long long)entry->version,
                 reason);
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return lost;
}

void repository_end_retries(struct repository *repository, const char *name)
{
    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; i < repository->count; i++)
        if (strcmp(repository->entries[i].name, name) == 0)
            repository->entries[i].retried = false;
    (void)pthread_mutex_unlock(&repository->lock);
}

struct model *repository_acquire(struct repository *repository, const char *name, size_t name_bytes, uint64_t version,
                                 bool *out_deferred)
{
    const struct entry *latest = NULL;
    struct model *found = NULL;

    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; i < repository->count; i++) {
        const struct entry *entry = &repository->entries[i];

        if ((entry->loaded != NULL || entry->deferred || (version != 0 && entry->candidate != NULL)) &&
            (version == 0 || entry->version == version) && strncmp(entry->name, name, name_bytes) == 0 &&
            entry->name[name_bytes] == '\0')
            latest = entry;
    }
    *out_deferred = latest != NULL && latest->loaded == NULL && latest->candidate == NULL;
    if (latest != NULL && !*out_deferred) {
        found = model_ref(latest->loaded != NULL ? latest->loaded : latest->candidate);
        if (repository->budget > 0)
            atomic_store_explicit(&found->requested_ns, clock_ns(), memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return found;
}

bool repository_failed(struct repository *repository, const char *name, size_t name_bytes, uint64_t version)
{
    bool failed = false;

    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; i < repository->count; i++) {
        const struct entry *entry = &repository->entries[i];

        failed |= entry->failed && entry->loaded == NULL && (version == 0 || entry->version == version) &&
                  strncmp(entry->name, name, name_bytes) == 0 && entry->name[name_bytes] == '\0';
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return failed;
}

struct model *repository_find(struct repository *repository, const char *name, size_t name_bytes, uint64_t version)
{
    bool deferred;

    return repository_acquire(repository, name, name_bytes, version, &deferred);
}

struct model *repository_of_sequence(struct repository *repository, struct model *model, uint64_t version,
                                     const infer_request *request)
{
    struct model *old = NULL;

    if (request->sequence[0] != '\0' && !request->sequence_start && !sequence_is_known(model, request->sequence))
        old = retired_find(&repository->retired, model->name, version, request->sequence);
    if (old == NULL)
        return model;
    model_unref(model);
    return old;
}

void repository_collect(struct repository *repository)
{
    struct model *lost;
    char line[256];

    if (load_note_line(clock_ns(), line, sizeof line))
        log_line(LOG_INFO_LINE, "%s", line);
    while ((lost = take_lost(repository)) != NULL)
        retired_add(&repository->retired, lost);
    retired_collect(&repository->retired);
    repository_trim(repository);
}

uint32_t repository_retired(struct repository *repository)
{
    uint64_t bytes;

    return retired_count(&repository->retired, &bytes);
}

bool repository_matches(const repository_entry *entry, const char *name, size_t name_bytes, uint64_t version)
{
    return entry->loaded != NULL && (version == 0 || version == entry->version) &&
           (name == NULL || (strlen(entry->name) == name_bytes && memcmp(entry->name, name, name_bytes) == 0));
}

void repository_each(struct repository *repository, void (*each)(void *user, const repository_entry *entry), void *user)
{
    static const char *const states[] = { "UNAVAILABLE", "LOADING", "READY" };

    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; i < repository->count; i++) {
        const struct entry *entry = &repository->entries[i];
        repository_entry shown = { entry->name,
                                   entry->version,
                                   states[entry->state],
                                   entry->reason != NULL ? entry->reason : "",
                                   entry->loaded != NULL ? entry->loaded : entry->candidate,
                                   entry->loaded != NULL || entry->deferred ? entry->purposes : 0 };

        each(user, &shown);
    }
    (void)pthread_mutex_unlock(&repository->lock);
}

uint32_t repository_ready(struct repository *repository, uint32_t *out_failed)
{
    uint32_t ready = 0;

    *out_failed = atomic_load(&repository->refused_count);
    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; i < repository->count; i++) {
        const struct model *model = repository->entries[i].loaded;
        bool is_ready = model != NULL || repository->entries[i].deferred;

        ready += is_ready;
        *out_failed += is_ready ? model != NULL && model->providers.lacks_for_all : repository->entries[i].failed;
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return ready;
}
