#include "serve/repository/changes.h"
#include "serve/repository/folder.h"
#include "serve/base/log.h"
#include <stdlib.h>
#include <string.h>

typedef struct seen_model {
    char *name;
    uint64_t applied; /* state of its files that was loaded or unloaded last; 0 = none */
    uint64_t current; /* state at the last call; 0 = deleted */
} seen_model;

void changes_deinit(struct changes *changes)
{
    for (uint32_t i = 0; i < changes->count; i++)
        free(changes->models[i].name);
    free(changes->models);
    *changes = (struct changes){ .models = NULL };
}

/* Returns the entry with that name, which is added if missing; NULL: out of memory. */
static seen_model *entry_of(struct changes *changes, const char *name)
{
    seen_model *more;

    for (uint32_t i = 0; i < changes->count; i++)
        if (strcmp(changes->models[i].name, name) == 0)
            return &changes->models[i];
    if (!LIST_GROW(changes->models, changes->count))
        return NULL;
    more = changes->models;
    more[changes->count] = (seen_model){ .name = strdup(name) };
    return more[changes->count].name != NULL ? &more[changes->count++] : NULL;
}

void changes_note(struct changes *changes, const struct settings *settings)
{
    struct folder folder;

    if (folder_read(settings->models, settings_text(settings, SET_model_name), settings_text(settings, SET_variant),
                    &folder, NULL) != INLAY_OK)
        return;
    for (uint32_t i = 0; i < folder.count; i++) {
        seen_model *model = entry_of(changes, folder.models[i].name);

        if (model != NULL)
            model->applied = model->current = folder_state(&folder.models[i], 0);
    }
    folder_deinit(&folder);
}

static struct model *served(struct repository *repository, const seen_model *seen)
{
    return repository_find(repository, seen->name, strlen(seen->name), 0);
}

/* before: the version that was served, or NULL. A candidate of a rollout has lines of its own. */
static void log_change(struct repository *repository, const seen_model *seen, const struct model *before)
{
    struct model *model = seen->current != 0 ? served(repository, seen) : NULL;

    if (seen->current == 0)
        log_line(LOG_INFO_LINE, "model '%s': unloaded", seen->name);
    else if (model == NULL)
        log_line(LOG_INFO_LINE, "model '%s': reloaded", seen->name);
    else if (model != before)
        log_line(LOG_INFO_LINE, "model '%s', version %s: reloaded", model->name, model->version);
    else
        log_line(LOG_INFO_LINE, "model '%s': its files changed; version %s stays as it is", model->name,
                 model->version);
    model_unref(model);
}

/* Loads or unloads the model according to the current state of its files. */
static void apply_change(struct repository *repository, seen_model *model)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct model *before = served(repository, model);
    inlay_status status = model->current != 0 ? repository_load_changed(repository, model->name, &diag)
                                              : repository_unload(repository, model->name, &diag);

    model->applied = model->current;
    if (status != INLAY_OK)
        repository_log_failure(&diag);
    else
        log_change(repository, model, before);
    model_unref(before);
}

static const found_model *find_model(const struct folder *folder, const char *name)
{
    for (uint32_t i = 0; i < folder->count; i++)
        if (strcmp(folder->models[i].name, name) == 0)
            return &folder->models[i];
    return NULL;
}

void changes_poll(struct changes *changes, struct repository *repository, const struct settings *settings)
{
    struct folder folder;

    if (folder_read(settings->models, settings_text(settings, SET_model_name), settings_text(settings, SET_variant),
                    &folder, NULL) != INLAY_OK)
        return; /* a folder that cannot be read for a moment must not unload its models */
    repository_note_refused(repository, &folder);
    for (uint32_t i = 0; i < folder.count; i++)
        (void)entry_of(changes, folder.models[i].name);
    for (uint32_t i = 0; i < changes->count; i++) {
        seen_model *model = &changes->models[i];
        const found_model *found = find_model(&folder, model->name);
        uint64_t state = found != NULL ? folder_state(found, 0) : 0;
        bool unchanged = state == model->current;

        model->current = state;
        if (unchanged && model->current != model->applied)
            apply_change(repository, model);
    }
    folder_deinit(&folder);
}
