#include "serve/repository/folder.h"
#include "serve/base/load_note.h"
#include "serve/base/log.h"
#include "serve/repository/model_config.h"
#include "serve/repository/repository_internal.h"
#include "serve/model/ensemble.h"
#include "serve/model/sequence.h"
#include "serve/model/speech.h"
#include "serve/model/text.h"
#include "texts/draft/graft.h"
#include "texts/model/image_folder.h"
#include "texts/model/images.h"
#include "texts/model/join.h"
#include "base/cpus.h"
#include "shared/signing.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static model_settings default_settings(const struct settings *settings, uint32_t runners)
{
    uint32_t instances = (uint32_t)settings_int(settings, SET_instances), cpus = cpus_allowed();

    return (model_settings){
        .max_batch = (uint32_t)settings_int(settings, SET_max_batch),
        .batch_delay_us = (uint64_t)settings_int(settings, SET_batch_delay_us),
        .batch_target_us = (uint64_t)settings_int(settings, SET_batch_target_us),
        .instances = instances > 0 ? instances : runners,
        .busy_threads = cpus > runners ? cpus / runners : 1,
        .max_queue = (uint32_t)settings_int(settings, SET_max_queue),
        .max_sequences = (uint32_t)settings_int(settings, SET_max_sequences),
        .context = (uint64_t)settings_int(settings, SET_context),
        .kv_memory = (uint64_t)settings_int(settings, SET_kv_memory),
        .prompt_tokens = (uint32_t)settings_int(settings, SET_prompt_tokens),
        .draft_tokens = (uint32_t)settings_int(settings, SET_draft_tokens),
        .lookup_tokens = (uint32_t)settings_int(settings, SET_lookup_tokens),
        .prefix_memory = (uint64_t)settings_int(settings, SET_prefix_memory),
        .max_prompt_bytes = (uint64_t)settings_int(settings, SET_max_prompt_bytes),
        .sequence_idle_ns = (uint64_t)settings_int(settings, SET_sequence_idle_ms) * 1000000,
        .priority = 2,
        .warmup = settings_int(settings, SET_warmup) != 0,
        .stop = &settings->stop,
    };
}

static inlay_status default_rollout(const struct settings *settings, rollout_rules *rules, inlay_diag *diag)
{
    static const struct {
        const char *name;
        int setting;
    } rows[] = {
#define ROLLOUT_ROW(name) { #name, SET_##name },
        ROLLOUT_SETTINGS(ROLLOUT_ROW)
#undef ROLLOUT_ROW
    };
    inlay_status status = INLAY_OK;

    for (size_t i = 0; status == INLAY_OK && i < sizeof rows / sizeof rows[0]; i++)
        status = rollout_set(rules, rows[i].name, settings_text(settings, rows[i].setting), "settings", diag);
    return status;
}

inlay_status repository_open(const struct settings *settings, uint32_t runners, struct board *board,
                             struct run_budget *budget, struct repository **out_repository, inlay_diag *diag)
{
    struct repository *repository = calloc(1, sizeof *repository);
    struct folder folder;
    inlay_status status;

    *out_repository = NULL;
    if (repository == NULL)
        return no_memory(diag, "for the models");
    repository->settings = settings;
    repository->defaults = default_settings(settings, runners);
    repository->defaults.board = board;
    repository->defaults.budget = budget;
    status = default_rollout(settings, &repository->defaults.rollout, diag);
    repository->budget = settings_models_memory(settings);
    repository->is_budget_given = settings_int(settings, SET_models_memory) >= 0;
    (void)pthread_mutex_init(&repository->lock, NULL);
    (void)pthread_mutex_init(&repository->loading, NULL);
    retired_init(&repository->retired);
    if (status == INLAY_OK)
        status = folder_read(settings->models, settings_text(settings, SET_model_name),
                             settings_text(settings, SET_variant), &folder, diag);
    if (status != INLAY_OK) {
        repository_close(repository);
        return status;
    }
    folder_deinit(&folder);
    *out_repository = repository;
    return INLAY_OK;
}

void repository_close(struct repository *repository)
{
    if (repository == NULL)
        return;
    for (uint32_t i = 0; i < repository->rollout_count; i++)
        rollout_unref(repository->rollouts[i]);
    free(repository->rollouts);
    for (uint32_t i = 0; i < repository->count; i++) {
        model_unref(repository->entries[i].loaded);
        free(repository->entries[i].name);
        free(repository->entries[i].reason);
    }
    free(repository->entries);
    retired_deinit(&repository->retired);
    adapter_changes_deinit(&repository->adapters);
    (void)pthread_mutex_destroy(&repository->lock);
    (void)pthread_mutex_destroy(&repository->loading);
    free(repository);
}

static bool is_wanted(const found_model *model, const model_config *config, uint32_t i)
{
    if (config->all_versions || model->config == NULL)
        return true;
    for (uint32_t k = 0; k < config->version_count; k++)
        if (config->versions[k] == model->versions[i])
            return true;
    return config->version_count == 0 &&
           i + (config->latest_count > 1 ? config->latest_count : 1) >= model->version_count;
}

static bool selects(const found_model *model, const model_config *config, uint64_t version)
{
    for (uint32_t i = 0; i < model->version_count; i++)
        if (model->versions[i] == version)
            return is_wanted(model, config, i);
    return false;
}

/* An ensemble_find_fn. */
static struct model *find_step_model(void *user, const char *name, uint64_t version)
{
    return repository_find(user, name, strlen(name), version);
}

static inlay_status load_ensemble(struct repository *repository, const found_model *model, const model_config *config,
                                  uint64_t version, struct model **out_model, inlay_diag *diag)
{
    model_settings settings = config->settings;
    struct ensemble *ensemble = NULL;
    inlay_status status = config_ensemble(config, find_step_model, repository, &settings, &ensemble, diag);

    *out_model = NULL;
    return status != INLAY_OK
               ? status
               : model_load_ensemble(model->name, version, model->path, &settings, ensemble, out_model, diag);
}

/* A version is loaded: serves it, or with a stable version (NULL: none) begins its rollout. Takes the reference. */
static inlay_status add_version(struct repository *repository, const found_model *model, const model_config *config,
                                struct model *loaded, load_reason reason, struct model *stable, inlay_diag *diag)
{
    uint64_t version = loaded->number;
    rollout_role role = ROLE_SERVED;
    inlay_status status = INLAY_OK;

    if (stable != NULL)
        status = repository_rollout_begin(repository, stable, loaded, selects(model, config, stable->number), reason,
                                          &role, diag);
    if (status == INLAY_OK && role == ROLE_NONE)
        repository_set_entry(repository, model->name, version, STATE_UNAVAILABLE, NULL, true,
                             "dropped by another process of the server");
    if (status == INLAY_OK && role == ROLE_SERVED) {
        repository_rollout_cancel(repository, model->name, version, "its files have changed");
        repository_set_entry(repository, model->name, version, STATE_READY, loaded, false, loaded->providers.lost);
    }
    return status;
}

/* Adds the adapters of the version to the options. */
static inlay_status set_adapters(const struct folder_adapters *adapters, inlay_options *options, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    char item[4600];

    for (uint32_t i = 0; status == INLAY_OK && i < adapters->count; i++) {
        (void)snprintf(item, sizeof item, "%s=%s", adapters->names[i], adapters->paths[i]);
        status = inlay_options_set(options, "adapter", item, diag);
    }
    return status;
}

/* Loads draft/model.onnx of the version or of the model's folder, if there is one and draft_tokens is not 0. A head
 * gets what it shares with the model from its file at model_path. */
static inlay_status load_draft(const struct repository *repository, const found_model *model,
                               const model_config *config, uint64_t version, const char *model_path,
                               struct model **out_draft, inlay_diag *diag)
{
    model_settings settings = config->settings;
    inlay_options *options = NULL;
    struct wire made = { 0 };
    inlay_diag failure = INLAY_DIAG_INIT;
    char path[FOLDER_PATH_BYTES], name[FOLDER_MAX_NAME + 8];
    inlay_status status;

    *out_draft = NULL;
    if (settings.draft_tokens == 0 || !folder_part(model, version, "draft", path))
        return INLAY_OK;
    INLAY_TRY(settings_options(repository->settings, &options, diag));
    INLAY_TRY(model_config_apply(config, options, diag));
    if (text_graft(path, model_path, options, &made, &failure) != INLAY_OK) {
        status = inlay_fail(diag, failure.code, "%s: it cannot be a draft model: %s", path, failure.text);
        goto done;
    }
    settings.draft_tokens = settings.lookup_tokens = 0;
    settings.max_batch = 1;
    settings.instances = 1;
    (void)snprintf(name, sizeof name, "%s:draft", model->name);
    INLAY_TRY(model_load(name, version, path, &settings, options, &made, out_draft, diag));
    (*out_draft)->file.bytes = model_file_bytes(path, false);
done:
    wire_deinit(&made);
    inlay_options_destroy(options);
    return status;
}

/* Gives the loaded draft model, a head, what its runs need. */
static inlay_status open_head(struct model *draft, const struct model *model, const char *outputs, inlay_diag *diag)
{
    const text_source source = text_source_of(draft);
    inlay_diag failure = INLAY_DIAG_INIT;
    const text_head *head;

    if (text_model_open_head(&source, model->text, model->file.path, outputs, &draft->text, &failure) != INLAY_OK)
        return inlay_fail(diag, failure.code, "%s: it cannot be a draft model: %s", draft->file.path, failure.text);
    head = draft->text->decode.head;
    log_line(LOG_INFO_LINE, "model '%s': a head that reads '%s' of the model and makes %s", draft->name,
             model->io.outputs[head->sources[0]].name,
             head->next != INLAY_NONE ? "guesses one after another" : "one guess");
    return INLAY_OK;
}

/* Gives the model its draft model, which it takes. */
static inlay_status take_draft(struct model *model, struct model *draft, const char *hidden, inlay_diag *diag)
{
    text_source source;

    model->decoding.draft = draft;
    if (draft == NULL)
        return INLAY_OK;
    if (model->text == NULL || model->text->decode.logits == INLAY_NONE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: it is a draft model, but the model generates no texts",
                          draft->file.path);
    if (draft->text == NULL && text_head_is_likely(draft->session))
        return open_head(draft, model, hidden, diag);
    source = text_source_of(draft);
    return text_model_check_draft(&source, draft->text, model->text, diag);
}

/* Gives the model its vision part, from the file at path. folder: of a model in parts; NULL: an mmproj file. */
static inlay_status load_vision(const struct repository *repository, const model_config *config, const char *path,
                                const char *folder, struct model *model, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_diag failure = INLAY_DIAG_INIT;
    inlay_status status;

    if (model->text == NULL || model->text->decode.logits == INLAY_NONE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: it is a vision part, but the model generates no texts",
                          path);
    INLAY_TRY(settings_options(repository->settings, &options, &failure));
    INLAY_TRY(model_config_apply(config, options, &failure));
    INLAY_TRY(inlay_session_create(path, options, &model->vision.session, &failure));
    if (folder != NULL)
        INLAY_TRY(image_encoder_create_published(model->vision.session,
                                                 &(image_source){ folder, options, model->text->tokenizer },
                                                 &model->text->decode, &model->vision.encoder, &failure));
    else
        INLAY_TRY(image_encoder_create(model->vision.session, &model->text->decode, &model->vision.encoder, &failure));
    model->vision.bytes = model_file_bytes(path, false);
done:
    inlay_options_destroy(options);
    return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "%s: %s", path, failure.text);
}

/* Loads a part of the decoder of a model for speech. */
static inlay_status load_decoder(const struct repository *repository, const model_config *config,
                                 const struct model *model, const char *part, const char *path,
                                 struct model **out_decoder, inlay_diag *diag)
{
    model_settings settings = config->settings;
    inlay_options *options = NULL;
    char name[FOLDER_MAX_NAME + 10];
    inlay_status status;

    settings.max_batch = settings.instances = 1;
    settings.max_sequences = 0;
    settings.warmup = false;
    (void)snprintf(name, sizeof name, "%s:%s", model->name, part);
    INLAY_TRY(settings_options(repository->settings, &options, diag));
    INLAY_TRY(model_config_apply(config, options, diag));
    INLAY_TRY(model_load(name, model->number, path, &settings, options, NULL, out_decoder, diag));
    (*out_decoder)->file.bytes = model_file_bytes(path, false);
done:
    inlay_options_destroy(options);
    return status;
}

/* The files of a version. */
typedef struct version_files {
    folder_kind kind;
    char folder[FOLDER_PATH_BYTES]; /* of a model in parts */
    char path[FOLDER_PATH_BYTES];   /* the model's file; of speech, its encoder; of images, their decoder */
    speech_files speech;
    image_files images;
} version_files;

static inlay_status find_files(const struct repository *repository, const found_model *model, uint64_t version,
                               version_files *out, inlay_diag *diag)
{
    const char *variant = settings_text(repository->settings, SET_variant);
    inlay_status status = INLAY_OK;

    out->kind = folder_kind_of(model, version, out->folder);
    (void)snprintf(out->path, sizeof out->path, "%s", model->path);
    if (out->kind == FOLDER_SPEECH)
        status = speech_files_find(out->folder, variant, &out->speech, diag);
    else if (out->kind == FOLDER_IMAGES)
        status = image_files_find(out->folder, variant, &out->images, diag);
    else if (model->is_folder)
        (void)folder_file(out->folder, out->path);
    if (status == INLAY_OK && out->kind != FOLDER_FILE)
        (void)snprintf(out->path, sizeof out->path, "%s",
                       out->kind == FOLDER_SPEECH ? out->speech.encoder : out->images.decoder);
    return status;
}

/* Gives the model, an encoder of speech, its decoder. */
static inlay_status load_speech(const struct repository *repository, const version_files *found,
                                const model_config *config, struct model *model, inlay_diag *diag)
{
    const speech_files *files = &found->speech;
    model_speech *speech = &model->speech;
    speech_source source = { found->folder, model->session, NULL, NULL };
    inlay_status status;

    INLAY_TRY(load_decoder(repository, config, model, "decoder", files->decoder, &speech->decoder, diag));
    if (files->past[0] != '\0')
        INLAY_TRY(load_decoder(repository, config, model, "past", files->past, &speech->past, diag));
    source.decoder = speech->decoder->session;
    source.past = speech->past != NULL ? speech->past->session : NULL;
    INLAY_TRY(speech_model_open(&source, &speech->model, diag));
    if (speech->model->generation.warning != NULL)
        log_line(LOG_WARNING_LINE, "model '%s', version %s: %s", model->name, model->version,
                 speech->model->generation.warning);
    log_line(LOG_INFO_LINE, "model '%s', version %s: speech, languages: %zu", model->name, model->version,
             speech->model->tokens.language_count > 0 ? speech->model->tokens.language_count : 1);
done:
    return status;
}

static inlay_status load_version(struct repository *repository, const found_model *model, const model_config *config,
                                 uint64_t version, load_reason reason, inlay_diag *diag)
{
    struct folder_adapters adapters = { .names = NULL };
    inlay_options *options = NULL;
    struct model *loaded = NULL, *stable = NULL, *draft = NULL;
    struct wire made = { 0 };
    char vision[FOLDER_PATH_BYTES];
    version_files found = { .kind = FOLDER_FILE };
    const bool has_vision = folder_part(model, version, "vision", vision);
    inlay_status status = find_files(repository, model, version, &found, diag);
    const char *path = found.path;
    const bool in_parts = found.kind == FOLDER_IMAGES;
    uint64_t files, bytes, state = folder_state(model, version), start = clock_ns();
    rollout_role role = config->is_ensemble ? ROLE_SERVED
                                            : repository_rollout_role(repository, &config->settings.rollout,
                                                                      model->name, version, state, reason);

    if (role == ROLE_NONE || (reason == LOAD_RETRIED && repository_is_current(repository, model->name, version, state)))
        return INLAY_OK;
    files = config->is_ensemble ? 0 : model_file_bytes(path, model->is_folder && found.kind == FOLDER_FILE);
    if (role == ROLE_CANDIDATE) /* not deferred: the request that loads it then would be answered by it */
        stable = repository_rollout_pin(repository, model->name);
    else if (reason == LOAD_START && repository_defer(repository, model->name, version, files,
                                                      found.kind == FOLDER_SPEECH ? TEXT_TRANSCRIBES
                                                      : in_parts                  ? TEXT_GENERATES
                                                                                  : text_file_purposes(path)))
        return INLAY_OK;
    repository_make_room(repository, model->name, version, files);
    repository_set_entry(repository, model->name, version, STATE_LOADING, NULL, true, NULL);
    load_note_begin(model->name, version, start);
    if (status != INLAY_OK) /* of find_files() */
        goto done;
    if (in_parts)
        INLAY_TRY(image_folder_check(found.folder, NULL, diag));
    INLAY_TRY(settings_options(repository->settings, &options, diag));
    INLAY_TRY(model_config_apply(config, options, diag));
    INLAY_TRY(folder_adapters_find(model, version, &adapters, diag));
    INLAY_TRY(adapter_changes_apply(&repository->adapters, model->name, &adapters, diag));
    INLAY_TRY(load_draft(repository, model, config, version, path, &draft, diag));
    INLAY_TRY(set_adapters(&adapters, options, diag));
    if (has_vision || in_parts)
        INLAY_TRY(inlay_options_set(options, "image_rows", "1", diag));
    if (in_parts)
        INLAY_TRY(text_join(path, found.images.embedding, options, &made, diag));
    if (config->is_ensemble)
        INLAY_TRY(load_ensemble(repository, model, config, version, &loaded, diag));
    else
        INLAY_TRY(model_load(model->name, version, path, &config->settings, options, &made, &loaded, diag));
    for (uint32_t i = 0; i < adapters.count; i++)
        free(adapters.paths[i]);
    free(adapters.paths);
    loaded->decoding.adapters = adapters.names;
    loaded->decoding.adapter_count = adapters.count;
    adapters = (struct folder_adapters){ .names = NULL };
    loaded->file.bytes = files + (in_parts ? model_file_bytes(found.images.embedding, false) : 0);
    status = take_draft(loaded, draft, config->draft_hidden, diag);
    draft = NULL;
    if (status == INLAY_OK && (has_vision || in_parts))
        status = load_vision(repository, config, in_parts ? found.images.vision : vision,
                             in_parts ? found.folder : NULL, loaded, diag);
    if (status == INLAY_OK && found.kind == FOLDER_SPEECH)
        status = load_speech(repository, &found, config, loaded, diag);
    if (status != INLAY_OK) {
        model_unref(loaded);
        loaded = NULL;
        goto done;
    }
    loaded->file.state = state;
    bytes = model_bytes(loaded);
    atomic_store(&loaded->requested_ns, clock_ns());
    if (role != ROLE_CANDIDATE && reason == LOAD_START &&
        repository_defer(repository, model->name, version, bytes, model_purposes(loaded))) {
        model_unref(loaded);
        inlay_options_destroy(options);
        load_note_end();
        return INLAY_OK;
    }
    if (repository->is_budget_given && repository->budget > 0 && bytes > repository->budget) {
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "it needs %llu bytes, but models_memory is %llu",
                            (unsigned long long)bytes, (unsigned long long)repository->budget);
        model_unref(loaded);
        loaded = NULL;
        goto done;
    }
    repository_make_room(repository, model->name, version, bytes);
    if (config->requests_batching && !loaded->batchable)
        status =
            inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                       "max_batch above 1 is not possible: its inputs and outputs do not share a symbolic first axis");
    else
        status = config_text_complete(config, loaded, diag);
    if (status != INLAY_OK) {
        model_unref(loaded);
        loaded = NULL;
    }
done:
    folder_adapters_deinit(&adapters);
    wire_deinit(&made);
    model_unref(draft);
    inlay_options_destroy(options);
    (void)atomic_fetch_add(&board_own(repository->defaults.board)->loads[status == INLAY_OK], 1);
    if (status == INLAY_OK)
        status = add_version(repository, model, config, loaded, reason, stable, diag);
    repository_rollout_unpin(stable);
    load_note_end();
    if (status != INLAY_OK)
        repository_set_failed(repository, model->name, version, diag, reason != LOAD_RETRIED);
    if (status == INLAY_OK && reason == LOAD_DEFERRED)
        repository_hold(repository, model->name, version, clock_ns() - start);
    return status;
}

/* With model_trust: checks the signature of the model, before any of its files is used. */
static inlay_status check_trust(const struct repository *repository, const found_model *model, inlay_diag *diag)
{
    const char *keys = settings_text(repository->settings, SET_model_trust);
    char parts[FOLDER_PATH_BYTES];
    folder_kind kind;
    signing_report report;

    if (keys[0] == '\0')
        return INLAY_OK;
    kind = model->is_folder ? FOLDER_FILE : folder_kind_of(model, 1, parts);
    /* The folder is signed. Files beside those of texts may also be in the folder above these. */
    if (kind == FOLDER_SPEECH || (kind == FOLDER_IMAGES && strncmp(model->path + strlen(parts), "/onnx/", 6) == 0))
        return signing_check(parts, NULL, keys, &report, diag);
    if (kind == FOLDER_IMAGES)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%.300s: its parts are not in a subfolder onnx; move it to %s/1, and sign the folder %s",
                          parts, model->name, model->name);
    if (!model->is_folder && text_model_is_likely(model->path))
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "%.300s: a signature of one file does not include its tokenizer; move both into a folder %s/1 "
            "as model.onnx and tokenizer.json, and sign the folder %s",
            model->path, model->name, model->name);
    if (model->config != NULL && strcmp(model->config, model->path) != 0 && model_config_exists(model->config))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%.300s: its signature does not include the configuration in %.300s; move the model into a "
                          "folder %s/1, next to which the configuration is, and sign the folder %s",
                          model->path, model->config, model->name, model->name);
    return signing_check(model->path, NULL, keys, &report, diag);
}

/* Whether this version of the model is loaded; version 0: any. */
static bool is_served(struct repository *repository, const char *name, uint64_t version)
{
    struct model *model = repository_find(repository, name, strlen(name), version);

    model_unref(model);
    return model != NULL;
}

enum { INSTEAD_BYTES = sizeof(((inlay_diag *)NULL)->text) + 64 };

/* The reason of a version that is served because a selected one could not be loaded. */
static void write_instead(char out[INSTEAD_BYTES], uint64_t failed, const inlay_diag *why)
{
    (void)snprintf(out, INSTEAD_BYTES, "served instead of version %llu: %s", (unsigned long long)failed, why->text);
}

/* Unloads a version that the configuration does not select. If a selected one failed (not 0, for the reason in `why`),
 * the version stays as it is. */
static void deselect(struct repository *repository, const found_model *model, uint64_t version, uint64_t failed,
                     const inlay_diag *why)
{
    static const char reason[] = "not selected by its configuration";
    char text[INSTEAD_BYTES];

    repository_rollout_cancel(repository, model->name, version, reason);
    if (failed != 0 && is_served(repository, model->name, version)) {
        write_instead(text, failed, why);
        repository_set_entry(repository, model->name, version, STATE_READY, NULL, true, text);
    } else {
        repository_set_entry(repository, model->name, version, STATE_UNAVAILABLE, NULL, failed != 0, reason);
    }
}

/* Without the latest version, which could not be loaded for the reason in `why`: serves the newest that can be. */
static void serve_older(struct repository *repository, const found_model *model, const model_config *config,
                        load_reason reason, const inlay_diag *why)
{
    const uint64_t latest = model->versions[model->version_count - 1];
    char text[INSTEAD_BYTES];

    for (uint32_t i = model->version_count; i-- > 0;) {
        const uint64_t version = model->versions[i];
        inlay_diag failure = INLAY_DIAG_INIT;

        if (is_wanted(model, config, i))
            continue;
        if (load_version(repository, model, config, version, reason, &failure) != INLAY_OK) {
            repository_set_entry(repository, model->name, version, STATE_UNAVAILABLE, NULL, true, failure.text);
            continue; /* only the latest counts as failed */
        }
        write_instead(text, latest, why);
        log_line(LOG_WARNING_LINE, "model '%s', version %llu: %s", model->name, (unsigned long long)version, text);
        repository_set_entry(repository, model->name, version, STATE_READY, NULL, true, text);
        repository_set_entry(repository, model->name, latest, STATE_UNAVAILABLE, NULL, true, NULL);
        repository_set_failed(repository, model->name, latest, why, false);
        return;
    }
}

/* Loads the selected versions and unloads the others; `only` limits this to one version, 0: all. Reports the first
 * failure and still tries the other versions. */
static inlay_status load_model(struct repository *repository, const found_model *model, load_reason reason,
                               uint64_t only, inlay_diag *diag)
{
    model_config config = { .settings = repository->defaults };
    inlay_status status;
    uint64_t failed = 0;
    uint32_t wanted = 0;

    INLAY_CHECK(model->version_count > 0);
    status = check_trust(repository, model, diag);
    if (status == INLAY_OK && model->config != NULL)
        status = model_config_read(model->config, model->name, &config, diag);
    if (status == INLAY_OK && config.is_ensemble && !model->is_folder)
        status =
            inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                       "%.300s/config.pbtxt: platform: the folder has a model, so it is no ensemble", model->config);
    if (status != INLAY_OK) {
        repository_set_failed(repository, model->name, model->versions[model->version_count - 1], diag,
                              reason != LOAD_RETRIED);
        model_config_deinit(&config);
        return status;
    }
    for (uint32_t i = 0; i < model->version_count; i++) {
        inlay_diag failure = INLAY_DIAG_INIT;
        inlay_status result;

        if (only != 0 && model->versions[i] != only) {
            wanted++;
            continue;
        }
        if (!is_wanted(model, &config, i) &&
            !(reason == LOAD_START && repository_rollout_keeps(repository, model, model->versions[i])))
            continue;
        wanted++;
        result = load_version(repository, model, &config, model->versions[i], reason, &failure);
        if (result != INLAY_OK && status == INLAY_OK) {
            status = inlay_fail(diag, result, "model '%s', version %llu: %s", model->name,
                                (unsigned long long)model->versions[i], failure.text);
            diag->error_class = failure.error_class;
            failed = model->versions[i];
        }
    }
    /* Unload last, so that a version is always available. If a version could not be loaded, the old ones stay. */
    for (uint32_t i = 0; only == 0 && i < model->version_count; i++)
        if (!is_wanted(model, &config, i) && !repository_rollout_keeps(repository, model, model->versions[i]) &&
            !(failed != 0 && repository_rollout_goes_on(repository, model, model->versions[i], failed)))
            deselect(repository, model, model->versions[i], failed, diag);
    if (status != INLAY_OK && (reason == LOAD_START || reason == LOAD_CHANGED || reason == LOAD_RETRIED) &&
        !config.all_versions && config.version_count == 0 && !settings_stopped(repository->settings) &&
        !is_served(repository, model->name, 0) &&
        !board_others_have(repository->defaults.board, model->name, model->versions[model->version_count - 1]))
        serve_older(repository, model, &config, reason, diag);
    model_config_deinit(&config);
    if (status == INLAY_OK && wanted == 0) {
        status =
            inlay_fail(diag, INLAY_NOT_FOUND, "model '%s' has none of the versions of its configuration", model->name);
        repository_set_failed(repository, model->name, model->versions[model->version_count - 1], diag,
                              reason != LOAD_RETRIED);
    }
    return status;
}

static inlay_status read_folder(const struct repository *repository, struct folder *out_folder, inlay_diag *diag)
{
    return folder_read(repository->settings->models, settings_text(repository->settings, SET_model_name),
                       settings_text(repository->settings, SET_variant), out_folder, diag);
}

void repository_log_failure(const inlay_diag *why)
{
    log_line(LOG_ERROR_LINE, "%s%s", why->text, repository_may_pass(why) ? "; the load is tried again" : "");
}

/* Loads a model at the start. If the load fails while the files are being written, it is repeated, because a process
 * that replaces a crashed one has no older version to serve meanwhile. */
static inlay_status load_at_start(struct repository *repository, const found_model *model, inlay_diag *diag)
{
    enum { ATTEMPTS = 50 };
    const struct timespec pause = { 0, 100000000 };
    inlay_status status;

    for (int i = 0;; i++) {
        *diag = (inlay_diag)INLAY_DIAG_INIT;
        status = load_model(repository, model, LOAD_START, 0, diag);
        if (status == INLAY_OK || i == ATTEMPTS || settings_stopped(repository->settings) ||
            is_served(repository, model->name, 0) || !folder_is_written(model))
            return status;
        (void)nanosleep(&pause, NULL);
    }
}

/* Loads the ensembles, which need their models, or the other models. */
static void load_kind(struct repository *repository, const struct folder *folder, bool ensembles)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    for (uint32_t i = 0; i < folder->count && !settings_stopped(repository->settings); i++) {
        const found_model *model = &folder->models[i];

        if ((model->is_folder && model_config_is_ensemble(model->path)) == ensembles &&
            load_at_start(repository, model, &diag) != INLAY_OK)
            repository_log_failure(&diag);
    }
}

void repository_load_all(struct repository *repository)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct folder folder;

    if (read_folder(repository, &folder, &diag) != INLAY_OK) {
        log_line(LOG_ERROR_LINE, "%s", diag.text);
        return;
    }
    (void)pthread_mutex_lock(&repository->loading);
    load_kind(repository, &folder, false);
    load_kind(repository, &folder, true);
    (void)pthread_mutex_unlock(&repository->loading);
    repository_note_refused(repository, &folder);
    folder_deinit(&folder);
}

void repository_note_refused(struct repository *repository, const struct folder *folder)
{
    if (atomic_exchange(&repository->refused_count, folder->refused_count) != folder->refused_count &&
        folder->refused_count > 0)
        log_line(LOG_ERROR_LINE,
                 "%u files or folders with models are not served because of their names, such as '%s': a name has "
                 "letters, digits, '.', '_' and '-', does not begin with '.', and has at most %d bytes; rename them",
                 folder->refused_count, folder->refused, FOLDER_MAX_NAME);
}

/* Unloads the versions that are no longer in the folder; model NULL: all versions. The caller holds `loading`, so no
 * entries are added. */
static void drop_missing(struct repository *repository, const char *name, const found_model *model)
{
    for (uint32_t i = 0;; i++) {
        bool present = true;
        uint64_t version = 0;

        (void)pthread_mutex_lock(&repository->lock);
        if (i >= repository->count) {
            (void)pthread_mutex_unlock(&repository->lock);
            return;
        }
        if (strcmp(repository->entries[i].name, name) == 0) {
            version = repository->entries[i].version;
            present = false;
        }
        (void)pthread_mutex_unlock(&repository->lock);
        for (uint32_t k = 0; !present && model != NULL && k < model->version_count; k++)
            present = model->versions[k] == version;
        if (model != NULL && !present && repository_rollout_keeps(repository, model, version))
            continue;
        if (!present) {
            repository_rollout_cancel(repository, name, model != NULL ? version : 0, "unloaded");
            repository_set_entry(repository, name, version, STATE_UNAVAILABLE, NULL, false, "unloaded");
        }
    }
}

/* The deferred version that a request for `version` (0 = the latest) needs; 0: it is loaded. */
static uint64_t deferred_version(struct repository *repository, const char *name, uint64_t version)
{
    uint64_t found = 0;

    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; i < repository->count; i++) {
        const struct entry *entry = &repository->entries[i];

        if ((version == 0 || entry->version == version) && (entry->deferred || entry->loaded != NULL) &&
            strcmp(entry->name, name) == 0)
            found = entry->deferred && entry->loaded == NULL ? entry->version : 0;
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return found;
}

/* Whether a loaded version of the ensemble has a step of that model. */
static bool has_step(struct repository *repository, const char *ensemble, const char *name)
{
    bool found = false;

    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; i < repository->count; i++) {
        const struct model *model = repository->entries[i].loaded;

        if (model == NULL || model->ensemble == NULL || strcmp(model->name, ensemble) != 0)
            continue;
        for (uint32_t k = 0; k < model->ensemble->stage_count; k++)
            found |= strcmp(model->ensemble->stages[k].model->name, name) == 0;
    }
    (void)pthread_mutex_unlock(&repository->lock);
    return found;
}

/* Loads the ensembles that run the model again. The caller holds `loading`. */
static void load_dependents(struct repository *repository, const char *name)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct folder folder;

    if (read_folder(repository, &folder, NULL) != INLAY_OK)
        return;
    for (uint32_t i = 0; i < folder.count; i++)
        if (has_step(repository, folder.models[i].name, name) &&
            load_model(repository, &folder.models[i], LOAD_REQUESTED, 0, &diag) != INLAY_OK)
            repository_log_failure(&diag);
    folder_deinit(&folder);
}

static inlay_status load_found(struct repository *repository, const char *name, load_reason reason, uint64_t version,
                               inlay_diag *diag)
{
    const found_model *found = NULL;
    struct folder folder;
    inlay_status status = read_folder(repository, &folder, diag);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < folder.count; i++)
        if (strcmp(folder.models[i].name, name) == 0)
            found = &folder.models[i];
    if (found == NULL) {
        status = inlay_fail(diag, INLAY_NOT_FOUND, "the repository has no model '%s'", name);
    } else if (reason == LOAD_RETRIED && folder_is_written(found)) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "the files of model '%s' are being written", name);
    } else {
        uint64_t only;

        (void)pthread_mutex_lock(&repository->loading);
        only = reason == LOAD_DEFERRED ? deferred_version(repository, name, version) : 0;

        status = reason == LOAD_DEFERRED && only == 0 ? INLAY_OK : load_model(repository, found, reason, only, diag);
        if (status == INLAY_OK && reason != LOAD_DEFERRED)
            drop_missing(repository, name, found);
        if (status == INLAY_OK)
            load_dependents(repository, name);
        (void)pthread_mutex_unlock(&repository->loading);
    }
    folder_deinit(&folder);
    return status;
}

inlay_status repository_load(struct repository *repository, const char *name, inlay_diag *diag)
{
    return load_found(repository, name, LOAD_REQUESTED, 0, diag);
}

inlay_status repository_load_changed(struct repository *repository, const char *name, inlay_diag *diag)
{
    return load_found(repository, name, LOAD_CHANGED, 0, diag);
}

bool repository_lacks(struct repository *repository)
{
    char name[FOLDER_MAX_NAME + 1];
    uint32_t at = 0;

    return repository_find_failed(repository, false, &at, name);
}

bool repository_has_retries(struct repository *repository)
{
    char name[FOLDER_MAX_NAME + 1];
    uint32_t at = 0;

    return repository_find_failed(repository, true, &at, name);
}

void repository_retry(struct repository *repository)
{
    char name[FOLDER_MAX_NAME + 1], last[FOLDER_MAX_NAME + 1] = "";

    for (uint32_t at = 0;
         repository_find_failed(repository, true, &at, name) && !settings_stopped(repository->settings); at++) {
        inlay_diag diag = INLAY_DIAG_INIT;

        if (strcmp(name, last) == 0) /* another version of it, which was tried as well */
            continue;
        (void)snprintf(last, sizeof last, "%s", name);
        if (load_found(repository, name, LOAD_RETRIED, 0, &diag) == INLAY_OK) {
            repository_end_retries(repository, name);
            log_line(LOG_INFO_LINE, "model '%s': loaded after earlier failures", name);
        } else if (!repository_is_retried(repository, name) && !repository_lacks(repository)) {
            log_line(LOG_ERROR_LINE, "%s", diag.text);
        }
    }
}

inlay_status repository_load_deferred(struct repository *repository, const char *name, uint64_t version,
                                      inlay_diag *diag)
{
    return load_found(repository, name, LOAD_DEFERRED, version, diag);
}

inlay_status repository_unload(struct repository *repository, const char *name, inlay_diag *diag)
{
    bool known = false;
    struct model *old;

    (void)pthread_mutex_lock(&repository->lock);
    for (uint32_t i = 0; !known && i < repository->count; i++)
        known = strcmp(repository->entries[i].name, name) == 0;
    (void)pthread_mutex_unlock(&repository->lock);
    if (!known)
        return inlay_fail(diag, INLAY_NOT_FOUND, "the repository has no model '%s'", name);
    (void)pthread_mutex_lock(&repository->loading);
    drop_missing(repository, name, NULL);
    while ((old = retired_take(&repository->retired, name)) != NULL)
        model_unref(old);
    (void)pthread_mutex_unlock(&repository->loading);
    return INLAY_OK;
}

void repository_rollouts_apply(struct repository *repository)
{
    char *promoted;

    (void)pthread_mutex_lock(&repository->loading);
    while (repository_rollout_finish(repository, &promoted)) {
        if (promoted != NULL)
            load_dependents(repository, promoted);
        free(promoted);
    }
    (void)pthread_mutex_unlock(&repository->loading);
}
