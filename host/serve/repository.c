#include "serve/folder.h"
#include "serve/log.h"
#include "serve/model_config.h"
#include "serve/repository_internal.h"
#include "serve/sequence.h"
#include <stdlib.h>
#include <string.h>

static model_settings default_settings(const struct settings *s, uint32_t runners)
{
    uint32_t instances = (uint32_t)settings_int(s, SET_instances);

    return (model_settings){
        .max_batch = (uint32_t)settings_int(s, SET_max_batch),
        .batch_delay_us = (uint64_t)settings_int(s, SET_batch_delay_us),
        .batch_target_us = (uint64_t)settings_int(s, SET_batch_target_us),
        .instances = instances > 0 ? instances : runners,
        .max_queue = (uint32_t)settings_int(s, SET_max_queue),
        .max_sequences = (uint32_t)settings_int(s, SET_max_sequences),
        .sequence_idle_ns = (uint64_t)settings_int(s, SET_sequence_idle_ms) * 1000000,
        .priority = 2,
        .warmup = settings_int(s, SET_warmup) != 0,
        .stop = &s->stop,
    };
}

inlay_status repository_open(const struct settings *s, uint32_t runners, struct repository **out_repository,
                             inlay_diag *diag)
{
    struct repository *r = calloc(1, sizeof *r);
    struct folder f;
    inlay_status status;

    *out_repository = NULL;
    if (r == NULL)
        return no_memory(diag, "for the models");
    r->settings = s;
    r->defaults = default_settings(s, runners);
    r->budget = (uint64_t)settings_int(s, SET_models_memory);
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_mutex_init(&r->loading, NULL);
    retired_init(&r->retired);
    status = folder_read(s->models, &f, diag);
    if (status != INLAY_OK) {
        repository_close(r);
        return status;
    }
    folder_deinit(&f);
    *out_repository = r;
    return INLAY_OK;
}

void repository_close(struct repository *r)
{
    if (r == NULL)
        return;
    for (uint32_t i = 0; i < r->count; i++) {
        model_unref(r->entries[i].loaded);
        free(r->entries[i].name);
        free(r->entries[i].reason);
    }
    free(r->entries);
    retired_deinit(&r->retired);
    (void)pthread_mutex_destroy(&r->lock);
    (void)pthread_mutex_destroy(&r->loading);
    free(r);
}

/* ------------------------------------------------------------------ the list */

struct entry *repository_entry_of(struct repository *r, const char *name, uint64_t version)
{
    struct entry *more;
    uint32_t at = 0;

    for (; at < r->count; at++) {
        int order = strcmp(r->entries[at].name, name);
        if (order > 0 || (order == 0 && r->entries[at].version >= version))
            break;
    }
    if (at < r->count && r->entries[at].version == version && strcmp(r->entries[at].name, name) == 0)
        return &r->entries[at];
    if (!LIST_GROW(r->entries, r->count))
        return NULL;
    more = r->entries;
    memmove(more + at + 1, more + at, (r->count - at) * sizeof *more);
    more[at] = (struct entry){ .name = strdup(name), .version = version };
    if (more[at].name == NULL) {
        memmove(more + at, more + at + 1, (r->count - at) * sizeof *more);
        return NULL;
    }
    r->count++;
    return &more[at];
}

/* Gives a version its state. loaded (may be NULL) is taken over; a model that was there stays if `keep`. */
static void set_entry(struct repository *r, const char *name, uint64_t version, entry_state state, struct model *loaded,
                      bool keep, const char *reason)
{
    struct model *old = loaded;
    struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    e = repository_entry_of(r, name, version);
    if (e != NULL) {
        free(e->reason);
        e->reason = reason != NULL ? strdup(reason) : NULL;
        old = NULL;
        if (!keep) {
            old = e->loaded;
            e->loaded = loaded;
            e->asleep = false;
        }
        if (loaded != NULL)
            e->bytes = loaded->bytes;
        e->asleep = e->asleep && state == STATE_LOADING; /* one that cannot be loaded is not tried with each request */
        e->state = e->loaded != NULL ? STATE_READY : state;
    }
    (void)pthread_mutex_unlock(&r->lock);
    retired_add(&r->retired, old);
}

struct model *repository_ask(struct repository *r, const char *name, size_t name_bytes, uint64_t version,
                             bool *out_asleep)
{
    const struct entry *latest = NULL;
    struct model *found = NULL;

    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct entry *e = &r->entries[i];

        if ((e->loaded != NULL || e->asleep) && (version == 0 || e->version == version) &&
            strncmp(e->name, name, name_bytes) == 0 && e->name[name_bytes] == '\0')
            latest = e;
    }
    *out_asleep = latest != NULL && latest->loaded == NULL;
    if (latest != NULL && latest->loaded != NULL) {
        found = model_ref(latest->loaded);
        if (r->budget > 0)
            atomic_store_explicit(&found->asked_ns, clock_ns(), memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return found;
}

struct model *repository_find(struct repository *r, const char *name, size_t name_bytes, uint64_t version)
{
    bool asleep;

    return repository_ask(r, name, name_bytes, version, &asleep);
}

struct model *repository_of_sequence(struct repository *r, struct model *m, uint64_t version,
                                     const infer_request *request)
{
    struct model *old = NULL;

    if (request->sequence[0] != '\0' && !request->sequence_start && !sequence_is_known(m, request->sequence))
        old = retired_find(&r->retired, m->name, version, request->sequence);
    if (old == NULL)
        return m;
    model_unref(m);
    return old;
}

void repository_tidy(struct repository *r)
{
    retired_tidy(&r->retired);
}

uint32_t repository_retired(struct repository *r)
{
    uint64_t bytes;

    return retired_count(&r->retired, &bytes);
}

bool repository_matches(const repository_entry *e, const char *name, size_t name_bytes, uint64_t version)
{
    return e->loaded != NULL && (version == 0 || version == e->version) &&
           (name == NULL || (strlen(e->name) == name_bytes && memcmp(e->name, name, name_bytes) == 0));
}

void repository_each(struct repository *r, void (*each)(void *user, const repository_entry *entry), void *user)
{
    static const char *const states[] = { "UNAVAILABLE", "LOADING", "READY" };

    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct entry *e = &r->entries[i];
        repository_entry told = { e->name, e->version, states[e->state], e->reason != NULL ? e->reason : "",
                                  e->loaded };

        each(user, &told);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

/* ------------------------------------------------------------------ loading */

static bool is_wanted(const found_model *f, const model_config *config, uint32_t i)
{
    if (config->all_versions || !f->is_folder)
        return true;
    for (uint32_t k = 0; k < config->version_count; k++)
        if (config->versions[k] == f->versions[i])
            return true;
    return config->version_count == 0 && i + 1 == f->version_count;
}

/* Why a model is loaded: all are at the start; a request says so; a request wants to run it. */
typedef enum load_reason { LOAD_START, LOAD_ASKED, LOAD_WAKE } load_reason;

static inlay_status load_version(struct repository *r, const found_model *f, const model_config *config,
                                 uint64_t version, load_reason why, inlay_diag *diag)
{
    inlay_options *options = NULL;
    struct model *loaded = NULL;
    char path[4200];
    inlay_status status;
    uint64_t files;

    (void)snprintf(path, sizeof path, f->is_folder ? "%s/%llu/model.onnx" : "%s", f->path, (unsigned long long)version);
    files = model_file_bytes(path, f->is_folder);
    if (why == LOAD_START && repository_leave_asleep(r, f->name, version, files))
        return INLAY_OK;
    repository_make_room(r, f->name, version, files);
    set_entry(r, f->name, version, STATE_LOADING, NULL, true, NULL);
    INLAY_TRY(settings_options(r->settings, &options, diag));
    INLAY_TRY(model_config_apply(config, options, diag));
    INLAY_TRY(model_load(f->name, version, path, &config->settings, options, &loaded, diag));
    loaded->bytes += files;
    atomic_store(&loaded->asked_ns, clock_ns());
    if (why == LOAD_START && repository_leave_asleep(r, f->name, version, loaded->bytes)) {
        model_unref(loaded);
        inlay_options_destroy(options);
        return INLAY_OK;
    }
    if (r->budget > 0 && loaded->bytes > r->budget) {
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "it takes %llu bytes, models_memory is %llu",
                            (unsigned long long)loaded->bytes, (unsigned long long)r->budget);
        model_unref(loaded);
        loaded = NULL;
        goto done;
    }
    repository_make_room(r, f->name, version, loaded->bytes);
    if (config->asks_to_join && !loaded->joinable) {
        model_unref(loaded);
        loaded = NULL;
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "max_batch: its inputs and outputs do not share a symbolic first axis");
    }
done:
    inlay_options_destroy(options);
    if (status == INLAY_OK)
        set_entry(r, f->name, version, STATE_READY, loaded, false, NULL);
    else
        set_entry(r, f->name, version, STATE_UNAVAILABLE, NULL, true, diag->text);
    return status;
}

/* Loads the versions that are wanted and drops the others; only 0: all of them. The first failure is told; the rest is
 * tried all the same. */
static inlay_status load_model(struct repository *r, const found_model *f, load_reason why, uint64_t only,
                               inlay_diag *diag)
{
    model_config config = { .settings = r->defaults };
    char path[4200];
    inlay_status status = INLAY_OK;
    uint32_t wanted = 0;

    (void)snprintf(path, sizeof path, "%s/config.yaml", f->path);
    if (f->is_folder)
        status = model_config_read(path, &config, diag);
    if (status != INLAY_OK) {
        set_entry(r, f->name, f->versions[f->version_count - 1], STATE_UNAVAILABLE, NULL, true, diag->text);
        model_config_deinit(&config);
        return status;
    }
    for (uint32_t i = 0; i < f->version_count; i++) {
        inlay_diag own = INLAY_DIAG_INIT;
        inlay_status one;

        if (only != 0 && f->versions[i] != only) {
            wanted++;
            continue;
        }
        if (!is_wanted(f, &config, i))
            continue;
        wanted++;
        one = load_version(r, f, &config, f->versions[i], why, &own);
        if (one != INLAY_OK && status == INLAY_OK)
            status = inlay_fail(diag, one, "model '%s', version %llu: %s", f->name, (unsigned long long)f->versions[i],
                                own.text);
    }
    /* Only now, so that one of them answers at any time. Where a version could not be loaded, the old ones stay. */
    for (uint32_t i = 0; only == 0 && i < f->version_count; i++)
        if (!is_wanted(f, &config, i))
            set_entry(r, f->name, f->versions[i], STATE_UNAVAILABLE, NULL, status != INLAY_OK,
                      "not among the versions to load");
    model_config_deinit(&config);
    if (status == INLAY_OK && wanted == 0)
        status = inlay_fail(diag, INLAY_NOT_FOUND, "model '%s' has none of the versions that %s names", f->name, path);
    return status;
}

uint32_t repository_load_all(struct repository *r)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t ready = 0;
    struct folder f;

    if (folder_read(r->settings->models, &f, &diag) != INLAY_OK) {
        log_line(LOG_ERROR_LINE, "%s", diag.text);
        return 0;
    }
    (void)pthread_mutex_lock(&r->loading);
    for (uint32_t i = 0; i < f.count && !settings_stopped(r->settings); i++)
        if (load_model(r, &f.models[i], LOAD_START, 0, &diag) != INLAY_OK)
            log_line(LOG_ERROR_LINE, "%s", diag.text);
    (void)pthread_mutex_unlock(&r->loading);
    folder_deinit(&f);
    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->count; i++)
        ready += r->entries[i].loaded != NULL || r->entries[i].asleep;
    (void)pthread_mutex_unlock(&r->lock);
    return ready;
}

/* Versions that are gone from the folder. */
static void drop_missing(struct repository *r, const char *name, const found_model *f)
{
    uint64_t gone[CONFIG_MAX_VERSIONS];
    uint32_t gone_count = 0;

    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->count; i++) {
        bool there = strcmp(r->entries[i].name, name) != 0;

        for (uint32_t k = 0; !there && f != NULL && k < f->version_count; k++)
            there = f->versions[k] == r->entries[i].version;
        if (!there && gone_count < CONFIG_MAX_VERSIONS)
            gone[gone_count++] = r->entries[i].version;
    }
    (void)pthread_mutex_unlock(&r->lock);
    for (uint32_t i = 0; i < gone_count; i++)
        set_entry(r, name, gone[i], STATE_UNAVAILABLE, NULL, false, "unloaded");
}

/* The version that a request for `version` (0 = the latest) has to wait for; 0: none is asleep any more. */
static uint64_t asleep_version(struct repository *r, const char *name, uint64_t version)
{
    uint64_t found = 0;

    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct entry *e = &r->entries[i];

        if ((version == 0 || e->version == version) && (e->asleep || e->loaded != NULL) && strcmp(e->name, name) == 0)
            found = e->asleep && e->loaded == NULL ? e->version : 0;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return found;
}

static inlay_status load_found(struct repository *r, const char *name, load_reason why, uint64_t version,
                               inlay_diag *diag)
{
    const found_model *found = NULL;
    struct folder f;
    inlay_status status = folder_read(r->settings->models, &f, diag);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < f.count; i++)
        if (strcmp(f.models[i].name, name) == 0)
            found = &f.models[i];
    if (found == NULL) {
        status = inlay_fail(diag, INLAY_NOT_FOUND, "there is no model '%s' in the repository", name);
    } else {
        uint64_t only;

        (void)pthread_mutex_lock(&r->loading);
        only = why == LOAD_WAKE ? asleep_version(r, name, version) : 0;

        status = why == LOAD_WAKE && only == 0 ? INLAY_OK : load_model(r, found, why, only, diag);
        if (status == INLAY_OK && why != LOAD_WAKE)
            drop_missing(r, name, found);
        (void)pthread_mutex_unlock(&r->loading);
    }
    folder_deinit(&f);
    return status;
}

inlay_status repository_load(struct repository *r, const char *name, inlay_diag *diag)
{
    return load_found(r, name, LOAD_ASKED, 0, diag);
}

inlay_status repository_wake(struct repository *r, const char *name, uint64_t version, inlay_diag *diag)
{
    return load_found(r, name, LOAD_WAKE, version, diag);
}

inlay_status repository_unload(struct repository *r, const char *name, inlay_diag *diag)
{
    bool known = false;
    struct model *old;

    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; !known && i < r->count; i++)
        known = strcmp(r->entries[i].name, name) == 0;
    (void)pthread_mutex_unlock(&r->lock);
    if (!known)
        return inlay_fail(diag, INLAY_NOT_FOUND, "there is no model '%s' in the repository", name);
    (void)pthread_mutex_lock(&r->loading);
    drop_missing(r, name, NULL);
    while ((old = retired_take(&r->retired, name)) != NULL)
        model_unref(old);
    (void)pthread_mutex_unlock(&r->loading);
    return INLAY_OK;
}
