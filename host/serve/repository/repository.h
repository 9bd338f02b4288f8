/* serve/repository/repository.h - the folder of models, and which of them are loaded.
 *
 * MODELS is one file, or a folder of
 *     NAME.onnx                    model NAME, version 1
 *     NAME/VERSION/model.onnx      model NAME; VERSION is a number; or model.gguf
 *     NAME/config.yaml             its settings, see model_config.h
 * With model_name, it may also be the folder of one model: VERSION/model.onnx, or model.onnx.
 * A name has letters, digits, '.', '_' and '-', and does not begin with '.'. Names from requests are compared with the
 * names in the folder and never become part of a path. */
#ifndef SERVE_REPOSITORY_H
#define SERVE_REPOSITORY_H
#include "serve/model/model.h"
#include "serve/base/settings.h"

struct repository;

/* runners: number of instances of a model whose settings do not set it. board: of the models' metrics; budget: of their
 * runs; borrowed. */
INLAY_NODISCARD inlay_status repository_open(const struct settings *settings, uint32_t runners, struct board *board,
                                             struct run_budget *budget, struct repository **out_repository,
                                             inlay_diag *diag);
/* Unloads all models; no request may be in progress. NULL is a no-op. */
void repository_close(struct repository *repository);

/* Loads all models and logs each that cannot be loaded. */
void repository_load_all(struct repository *repository);
/* The number of versions that are ready; *out_failed: of those that could not be loaded and have no older model, or
 * lack a provider whose plugin is in quarantine for all models. */
uint32_t repository_ready(struct repository *repository, uint32_t *out_failed);
/* Whether another process of the server has a version that could not be loaded here. */
bool repository_lacks(struct repository *repository);
/* Whether a load that failed may be tried again: for want of memory, descriptors, a file or a provider. */
bool repository_may_pass(const inlay_diag *why);
/* Logs a failed load, and whether it is tried again. */
void repository_log_failure(const inlay_diag *why);
struct folder;
/* Logs, if their number has changed, and counts as failed the files and folders that have no permitted name. */
void repository_note_refused(struct repository *repository, const struct folder *folder);
/* Whether a version was unloaded because its files could not be read as they were, and is not loaded again. */
bool repository_has_lost(struct repository *repository);
/* Whether there are versions that repository_retry() would try to load. */
bool repository_has_retries(struct repository *repository);
/* Tries again to load the versions that another process has, or whose load failed for a reason that may pass. Slow;
 * one call at a time. */
void repository_retry(struct repository *repository);
/* Reads the folder of this model again and loads the versions that its config selects; they replace the loaded ones. If
 * a version fails, the old one stays. Slow; one call at a time. INLAY_NOT_FOUND: no such model. */
INLAY_NODISCARD inlay_status repository_load(struct repository *repository, const char *name, inlay_diag *diag);
/* The same because the files of the model have changed: a version that a rollout has dropped stays dropped while its
 * files stay as they were. */
INLAY_NODISCARD inlay_status repository_load_changed(struct repository *repository, const char *name, inlay_diag *diag);
INLAY_NODISCARD inlay_status repository_unload(struct repository *repository, const char *name, inlay_diag *diag);
/* Loads the model again with the LoRA adapter in the folder `path`, in place of one of that name if `replaces`; path
 * NULL: without the adapter. Until then, and if that fails, it stays as it is. Slow; one call at a time.
 * INLAY_NOT_FOUND: no such model generates texts, or it has no such adapter. */
INLAY_NODISCARD inlay_status repository_change_adapter(struct repository *repository, const char *name,
                                                       const char *adapter, const char *path, bool replaces,
                                                       inlay_diag *diag);

/* A reference to the model, or NULL. version 0 = the latest loaded one that is not the candidate of a rollout. Any
 * thread.
 */
struct model *repository_find(struct repository *repository, const char *name, size_t name_bytes, uint64_t version);

/* As repository_find(), for a request that runs the model. *out_deferred: the model is not loaded because of
 * models_memory; repository_load_deferred() loads it. */
struct model *repository_acquire(struct repository *repository, const char *name, size_t name_bytes, uint64_t version,
                                 bool *out_deferred);
/* Whether a version of the model (0 = any) could not be loaded, and has no older model. */
bool repository_failed(struct repository *repository, const char *name, size_t name_bytes, uint64_t version);
/* Loads a deferred version, and unloads others if memory requires it. version 0 = the latest. As repository_load(). */
INLAY_NODISCARD inlay_status repository_load_deferred(struct repository *repository, const char *name, uint64_t version,
                                                      inlay_diag *diag);
/* When repository_load_deferred() should be called: 0 = now; otherwise, loading the version now would unload a model
 * that a request has loaded shortly before, so that the two could replace each other with every request. */
uint64_t repository_load_at(struct repository *repository, const char *name, uint64_t version);
/* Returns the model that has the request's sequence: `model`, or a replaced one that still has the sequence. Takes the
 * reference to `model` and returns a reference. version 0 = the request has no version. */
struct model *repository_of_sequence(struct repository *repository, struct model *model, uint64_t version,
                                     const infer_request *request);
/* Releases replaced models whose sequences have ended, and unloads models whose files cannot be read any more until
 * repository_retry() loads them again; logs what a load does that takes long. Called periodically. */
void repository_collect(struct repository *repository);
/* Number of replaced models. */
uint32_t repository_retired(struct repository *repository);
/* Bytes of the loaded models with their runs; bytes of the runs alone. */
uint64_t repository_bytes(struct repository *repository);
uint64_t repository_run_bytes(struct repository *repository);
/* A reference to the next loaded model, from position *at on, which begins at 0; NULL: there are no more. */
struct model *repository_next(struct repository *repository, uint32_t *at);

/* A new version that is compared with the served one, see serve/base/rollout.h. Reference-counted. */
struct rollout {
    atomic_uint refs;
    struct board *board;
    uint32_t index; /* of its record, see rollouts.h */
    uint64_t key;
    rollout_rules rules;
    struct model *stable, *candidate; /* referenced */
    bool keeps_stable;                /* the configuration selects both versions; guarded by the repository */
};
/* A reference to the rollout in which `model` is the stable version; NULL: there is none. Any thread. */
struct rollout *repository_rollout(struct repository *repository, const struct model *model);
void rollout_unref(struct rollout *rollout); /* NULL is a no-op */
/* Decides the rollouts whose rules permit it. true: one has been decided; call repository_rollouts_apply(). */
bool repository_rollouts_decide(struct repository *repository);
/* Serves or unloads the candidates of the rollouts that have been decided. Slow; one call at a time. */
void repository_rollouts_apply(struct repository *repository);

/* An entry of the index. */
typedef struct repository_entry {
    const char *name;
    uint64_t version;     /* 0: unknown, the model could not be read */
    const char *state;    /* "READY", "LOADING", "UNAVAILABLE" */
    const char *reason;   /* "" or why it is not ready, or lacks a provider */
    struct model *loaded; /* borrowed; NULL unless ready */
    uint32_t purposes;    /* bits of enum text_purpose, of a model that is loaded or that a request would load */
} repository_entry;
/* Whether the entry is loaded and has that model (NULL = any) and version (0 = any). */
bool repository_matches(const repository_entry *entry, const char *name, size_t name_bytes, uint64_t version);
/* Calls each() for every known version, in the order of names; the repository is locked meanwhile. */
void repository_each(struct repository *repository, void (*each)(void *user, const repository_entry *entry),
                     void *user);
#endif
