/* serve/repository.h - the folder of models, which of them are loaded, and how that changes.
 *
 * MODELS is one file, or a folder of
 *     NAME.onnx                    model NAME, version 1
 *     NAME/VERSION/model.onnx      model NAME; VERSION is a number
 *     NAME/config.yaml             its settings, see model_config.h
 * A name has letters, digits, '.', '_' and '-', and does not begin with '.'. Names from requests are compared with what
 * the folder holds and never become part of a path. */
#ifndef SERVE_REPOSITORY_H
#define SERVE_REPOSITORY_H
#include "serve/model.h"
#include "serve/settings.h"

struct repository;

/* runners: how many instances a model has whose settings do not say. */
INLAY_NODISCARD inlay_status repository_open(const struct settings *settings, uint32_t runners,
                                             struct repository **out_repository, inlay_diag *diag);
/* Unloads everything; no request may be left. NULL is a no-op. */
void repository_close(struct repository *repository);

/* Loads all models; each that cannot be loaded is a line on stderr. Returns how many versions are ready. */
uint32_t repository_load_all(struct repository *repository);
/* Reads the folder again for this model and loads the versions that its config asks for, in place of those that are
 * loaded. Where one fails the old one stays. Takes a while, one call at a time. INLAY_NOT_FOUND: there is none. */
INLAY_NODISCARD inlay_status repository_load(struct repository *repository, const char *name, inlay_diag *diag);
INLAY_NODISCARD inlay_status repository_unload(struct repository *repository, const char *name, inlay_diag *diag);

/* A reference to the model, or NULL. version 0 = the latest that is loaded. Any thread. */
struct model *repository_find(struct repository *repository, const char *name, size_t name_bytes, uint64_t version);

/* The same for a request that wants to run it. *out_asleep: there is one, which was unloaded for memory, or not loaded
 * yet, and repository_wake() loads it. */
struct model *repository_ask(struct repository *repository, const char *name, size_t name_bytes, uint64_t version,
                             bool *out_asleep);
/* Loads what is asleep, in place of others where memory asks for it. version 0 = the latest. As repository_load(). */
INLAY_NODISCARD inlay_status repository_wake(struct repository *repository, const char *name, uint64_t version,
                                             inlay_diag *diag);
/* The model that has the sequence which the request goes on with: model, or one that model or a newer version has taken
 * the place of. Takes over the reference to model, and returns one. version 0 = the request named none. */
struct model *repository_of_sequence(struct repository *repository, struct model *model, uint64_t version,
                                     const infer_request *request);
/* Lets go models that others have taken the place of, once their sequences are over; now and then. */
void repository_tidy(struct repository *repository);
/* How many of those there are. */
uint32_t repository_retired(struct repository *repository);
/* Bytes of the models that are loaded. */
uint64_t repository_bytes(struct repository *repository);

/* What the index tells. */
typedef struct repository_entry {
    const char *name;
    uint64_t version;     /* 0: not known, the model could not be read */
    const char *state;    /* "READY", "LOADING", "UNAVAILABLE" */
    const char *reason;   /* "" or why it is not ready */
    struct model *loaded; /* borrowed; NULL unless ready */
} repository_entry;
/* Whether the entry is loaded and is of that model (NULL = any) and version (0 = any). */
bool repository_matches(const repository_entry *entry, const char *name, size_t name_bytes, uint64_t version);
/* Calls each for every version known, in the order of names; the repository is locked meanwhile. */
void repository_each(struct repository *repository, void (*each)(void *user, const repository_entry *entry),
                     void *user);
#endif
