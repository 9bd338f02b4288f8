/* Rollouts: which versions are candidates, and which of them are promoted or dropped. */
#include "inlay/check.h"
#include "serve/base/log.h"
#include "serve/repository/repository_internal.h"
#include <stdlib.h>
#include <string.h>

void rollout_unref(struct rollout *rollout)
{
    if (rollout == NULL || atomic_fetch_sub(&rollout->refs, 1) != 1)
        return;
    model_unref(rollout->stable);
    model_unref(rollout->candidate);
    free(rollout);
}

/* The index of the rollout of the model; rollout_count: none. The caller holds the lock. */
static uint32_t index_of(const struct repository *repository, const char *name)
{
    uint32_t i = 0;

    while (i < repository->rollout_count && strcmp(repository->rollouts[i]->stable->name, name) != 0)
        i++;
    return i;
}

static struct rollout *find(struct repository *repository, const char *name)
{
    struct rollout *found = NULL;
    uint32_t i;

    (void)pthread_mutex_lock(&repository->lock);
    i = index_of(repository, name);
    if (i < repository->rollout_count) {
        found = repository->rollouts[i];
        (void)atomic_fetch_add(&found->refs, 1);
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return found;
}

struct rollout *repository_rollout(struct repository *repository, const struct model *model)
{
    struct rollout *rollout =
        atomic_load_explicit(&repository->any_rollout, memory_order_relaxed) > 0 ? find(repository, model->name) : NULL;

    if (rollout == NULL || rollout->stable == model)
        return rollout;
    rollout_unref(rollout);
    return NULL;
}

/* Whether the version is loaded with files in that state. */
static bool is_loaded(struct repository *repository, const char *name, uint64_t version, uint64_t state)
{
    struct model *model = repository_find(repository, name, strlen(name), version);
    bool same = model != NULL && model->file.state == state;

    model_unref(model);
    return same;
}

rollout_role repository_rollout_role(struct repository *repository, const rollout_rules *rules, const char *name,
                                     uint64_t version, uint64_t state, load_reason reason)
{
    struct model *stable = repository_find(repository, name, strlen(name), 0);
    uint64_t latest = stable != NULL ? stable->number : 0;
    rollout_record record;
    bool known = rollouts_read(repository->defaults.board, name, &record) && record.key == state;
    struct rollout *running = find(repository, name);
    bool is_running = running != NULL && (running->key == state ||
                                          (running->stable->number == version && running->stable->file.state == state));

    rollout_unref(running);
    model_unref(stable);
    if (is_running)
        return ROLE_NONE;
    if (rules->mode == ROLLOUT_OFF || stable == NULL || version < latest || reason == LOAD_DEFERRED ||
        is_loaded(repository, name, version, state))
        return ROLE_SERVED;
    if (known && reason != LOAD_REQUESTED && record.state != ROLLOUT_RUNNING)
        return record.state == ROLLOUT_DROPPED ? ROLE_NONE : ROLE_SERVED;
    return reason != LOAD_START || known ? ROLE_CANDIDATE : ROLE_SERVED;
}

bool repository_rollout_keeps(struct repository *repository, const found_model *model, uint64_t version)
{
    struct rollout *running = find(repository, model->name);
    bool keeps = running != NULL && running->stable->number == version;
    rollout_record record;

    rollout_unref(running);
    if (!keeps && rollouts_read(repository->defaults.board, model->name, &record))
        keeps = record.stable == version && record.version != version && record.state != ROLLOUT_PROMOTED &&
                record.key == folder_state(model, record.version);
    return keeps;
}

bool repository_rollout_goes_on(struct repository *repository, const found_model *model, uint64_t version,
                                uint64_t failed)
{
    struct rollout *running = find(repository, model->name);
    const bool goes_on = running != NULL && running->candidate->number == version;

    rollout_unref(running);
    if (goes_on)
        log_line(LOG_WARNING_LINE,
                 "model '%s', version %llu: its rollout goes on, because version %llu could not be loaded", model->name,
                 (unsigned long long)version, (unsigned long long)failed);
    return goes_on;
}

struct model *repository_rollout_pin(struct repository *repository, const char *name)
{
    struct model *stable = NULL;

    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; i < repository->count; i++)
        if (repository->entries[i].loaded != NULL && strcmp(repository->entries[i].name, name) == 0)
            stable = repository->entries[i].loaded;
    if (stable != NULL)
        (void)atomic_fetch_add(&model_ref(stable)->pins, 1);
    (void)pthread_mutex_unlock(&repository->lock);
    return stable;
}

void repository_rollout_unpin(struct model *stable)
{
    if (stable != NULL)
        (void)atomic_fetch_sub(&stable->pins, 1);
    model_unref(stable);
}

/* Whether the model has no rollouts. */
static bool is_replaced_at_once(const struct model *model)
{
    return model->states.count > 0 || model->text != NULL || model->ensemble != NULL;
}

/* Reading files changes the inputs of a request, which the other version could not read then. */
static inlay_status check_files(const struct model *stable, const struct model *candidate, inlay_diag *diag)
{
    if ((stable->io.files != NULL) == (candidate->io.files != NULL))
        return INLAY_OK;
    return inlay_fail(
        diag, INLAY_INVALID_ARGUMENT,
        "only one of the versions %s and %s reads files, so that no request can run on both; with rollout: "
        "off, the new one replaces the other",
        stable->version, candidate->version);
}

static rollout_record record_of(const struct model *stable, const struct model *candidate)
{
    const rollout_rules *rules = &candidate->settings.rollout;
    rollout_record record = {
        .key = candidate->file.state, .stable = stable->number, .version = candidate->number, .rules = *rules
    };

    (void)snprintf(record.name, sizeof record.name, "%s", stable->name);
    rollout_figures_init(&record.figures, rules);
    for (uint32_t i = 0; i < stable->io.output_count && i < ROLLOUT_OUTPUTS; i++)
        (void)snprintf(record.figures.names[i], sizeof record.figures.names[i], "%s", stable->io.outputs[i].name);
    return record;
}

/* Adds the rollout and its candidate to the entries; takes the rollout. false: out of memory. */
static bool add(struct repository *repository, struct rollout *rollout)
{
    const struct model *candidate = rollout->candidate;
    struct entry *entry = NULL;
    char reason[128];

    (void)snprintf(reason, sizeof reason, "candidate of a %s rollout against version %s, with %g %% of the requests",
                   rollout_mode_name(rollout->rules.mode), rollout->stable->version, rollout->rules.percent);
    (void)pthread_mutex_lock(&repository->lock);
    if (LIST_GROW(repository->rollouts, repository->rollout_count))
        entry = repository_entry_of(repository, candidate->name, candidate->number);
    if (entry != NULL) {
        repository->rollouts[repository->rollout_count++] = rollout;
        atomic_store(&repository->any_rollout, repository->rollout_count);
        (void)atomic_fetch_add(&rollout->stable->pins, 1); /* models_memory unloads neither */
        (void)atomic_fetch_add(&rollout->candidate->pins, 1);
        free(entry->reason);
        entry->reason = strdup(reason);
        entry->candidate = rollout->candidate;
        entry->state = STATE_READY;
        entry->failed = entry->retried = entry->deferred = false;
    }
    (void)pthread_mutex_unlock(&repository->lock);
    if (entry == NULL)
        return false;
    log_line(LOG_INFO_LINE, "model '%s', version %s: %s", candidate->name, candidate->version, reason);
    return true;
}

inlay_status repository_rollout_begin(struct repository *repository, struct model *stable, struct model *candidate,
                                      bool keeps_stable, load_reason reason, rollout_role *out_role, inlay_diag *diag)
{
    struct rollout *rollout = NULL;
    rollout_record record = record_of(stable, candidate);
    rollout_state state = ROLLOUT_RUNNING;
    uint32_t index = 0;
    inlay_status status;

    *out_role = ROLE_SERVED;
    if (is_replaced_at_once(candidate) || is_replaced_at_once(stable)) {
        log_line(
            LOG_WARNING_LINE,
            "model '%s', version %s: replaces version %s at once, since models that keep states and ensembles have no "
            "rollout",
            candidate->name, candidate->version, stable->version);
        return INLAY_OK;
    }
    status = check_files(stable, candidate, diag);
    if (status != INLAY_OK) {
        model_unref(candidate);
        return status;
    }
    repository_rollout_cancel(repository, stable->name, 0, "replaced by a newer candidate");
    status = rollouts_begin(repository->defaults.board, &record, reason == LOAD_REQUESTED, &index, &state, diag);
    if (status == INLAY_OK && state == ROLLOUT_PROMOTED)
        return INLAY_OK;
    *out_role = status == INLAY_OK && state == ROLLOUT_RUNNING ? ROLE_CANDIDATE : ROLE_NONE;
    if (*out_role == ROLE_CANDIDATE && (rollout = calloc(1, sizeof *rollout)) == NULL)
        status = no_memory(diag, "for a rollout");
    if (rollout == NULL) {
        model_unref(candidate);
        return status;
    }
    *rollout = (struct rollout){ .board = repository->defaults.board,
                                 .index = index,
                                 .key = record.key,
                                 .rules = record.rules,
                                 .stable = model_ref(stable),
                                 .candidate = candidate,
                                 .keeps_stable = keeps_stable };
    atomic_init(&rollout->refs, 1);
    if (add(repository, rollout))
        return INLAY_OK;
    rollout_unref(rollout);
    return no_memory(diag, "for a rollout");
}

/* Removes the rollout of the model from the list; the caller gets its reference. NULL: there is none, or its candidate
 * is another version. */
static struct rollout *take(struct repository *repository, const char *name, uint64_t version)
{
    struct rollout *taken = NULL;
    uint32_t i;

    (void)pthread_mutex_lock(&repository->lock);
    i = index_of(repository, name);
    if (i < repository->rollout_count && (version == 0 || repository->rollouts[i]->candidate->number == version)) {
        taken = repository->rollouts[i];
        repository->rollouts[i] = repository->rollouts[--repository->rollout_count];
        atomic_store(&repository->any_rollout, repository->rollout_count);
        (void)atomic_fetch_sub(&taken->stable->pins, 1);
        (void)atomic_fetch_sub(&taken->candidate->pins, 1);
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return taken;
}

/* Removes the candidate of a rollout that was taken from its entry, and releases the rollout. */
static void forget(struct repository *repository, struct rollout *rollout)
{
    const struct model *candidate = rollout->candidate;
    struct entry *entry;

    (void)pthread_mutex_lock(&repository->lock);
    entry = repository_entry_of(repository, candidate->name, candidate->number);
    INLAY_CHECK(entry != NULL && entry->candidate == candidate);
    entry->candidate = NULL;
    entry->state = entry->loaded != NULL ? STATE_READY : STATE_UNAVAILABLE;
    (void)pthread_mutex_unlock(&repository->lock);
    rollout_unref(rollout);
}

/* The candidate of a rollout that was taken is not served. */
static void drop(struct repository *repository, struct rollout *rollout, const char *reason)
{
    const struct model *candidate = rollout->candidate;
    char text[ROLLOUT_REASON_BYTES + 32];

    (void)snprintf(text, sizeof text,
                   candidate->number == rollout->stable->number ? "new files dropped: %s" : "dropped: %s", reason);
    log_line(LOG_WARNING_LINE, "model '%s', version %s: %s; version %s stays", candidate->name, candidate->version,
             text, rollout->stable->version);
    repository_set_entry(repository, candidate->name, candidate->number, STATE_UNAVAILABLE, NULL, true, text);
    forget(repository, rollout);
}

static void promote(struct repository *repository, struct rollout *rollout, const char *reason)
{
    struct model *candidate = rollout->candidate;
    const struct model *stable = rollout->stable;
    char text[ROLLOUT_REASON_BYTES + 32];

    (void)snprintf(text, sizeof text, "promoted: %s", reason);
    log_line(LOG_INFO_LINE, "model '%s', version %s: %s; it replaces version %s", candidate->name, candidate->version,
             text, stable->version);
    repository_set_entry(repository, candidate->name, candidate->number, STATE_READY, model_ref(candidate), false,
                         text);
    if (stable->number != candidate->number && !rollout->keeps_stable) {
        (void)snprintf(text, sizeof text, "replaced by version %s", candidate->version);
        repository_set_entry(repository, stable->name, stable->number, STATE_UNAVAILABLE, NULL, false, text);
    }
    forget(repository, rollout);
}

void repository_rollout_cancel(struct repository *repository, const char *name, uint64_t version, const char *reason)
{
    struct rollout *rollout = take(repository, name, version);

    if (rollout == NULL)
        return;
    (void)rollouts_end(rollout->board, name, rollout->key, ROLLOUT_DROPPED, reason);
    drop(repository, rollout, reason);
}

/* The state of rollout number i, which is decided if its rules permit it; *out_name: of its model, owned by the caller.
 * NULL: there are fewer rollouts. */
static rollout_state decide(struct repository *repository, uint32_t i, char **out_name, char *reason)
{
    struct rollout *rollout = NULL;
    rollout_state state = ROLLOUT_RUNNING;

    *out_name = NULL;
    (void)pthread_mutex_lock(&repository->lock);
    if (i < repository->rollout_count) {
        rollout = repository->rollouts[i];
        (void)atomic_fetch_add(&rollout->refs, 1);
    }
    (void)pthread_mutex_unlock(&repository->lock);
    if (rollout != NULL) {
        state = rollouts_decide(rollout->board, rollout->index, rollout->key, reason);
        *out_name = strdup(rollout->stable->name);
    }
    rollout_unref(rollout);
    return state;
}

bool repository_rollouts_decide(struct repository *repository)
{
    char reason[ROLLOUT_REASON_BYTES], *name = NULL;
    bool any = false;

    if (atomic_load_explicit(&repository->any_rollout, memory_order_relaxed) == 0)
        return false;
    for (uint32_t i = 0; i == 0 || name != NULL; i++) {
        free(name);
        any |= decide(repository, i, &name, reason) != ROLLOUT_RUNNING;
    }
    free(name);
    return any;
}

bool repository_rollout_finish(struct repository *repository, char **out_promoted)
{
    char reason[ROLLOUT_REASON_BYTES], *name = NULL;
    struct rollout *rollout = NULL;
    rollout_state state = ROLLOUT_RUNNING;

    *out_promoted = NULL;
    for (uint32_t i = 0; rollout == NULL && (i == 0 || name != NULL); i++) {
        free(name);
        state = decide(repository, i, &name, reason);
        if (name != NULL && state != ROLLOUT_RUNNING)
            rollout = take(repository, name, 0);
    }
    if (rollout != NULL && state == ROLLOUT_PROMOTED) {
        promote(repository, rollout, reason);
        *out_promoted = name;
        name = NULL;
    } else if (rollout != NULL) {
        drop(repository, rollout, reason);
    }
    free(name);
    return rollout != NULL;
}
