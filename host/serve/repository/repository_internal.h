/* serve/repository/repository_internal.h - shared by the files of the repository: its entries, and the memory limit. */
#ifndef SERVE_REPOSITORY_INTERNAL_H
#define SERVE_REPOSITORY_INTERNAL_H
#include "serve/base/rollouts.h"
#include "serve/repository/adapters.h"
#include "serve/repository/folder.h"
#include "serve/repository/repository.h"
#include "serve/repository/retired.h"
#include <pthread.h>

typedef enum entry_state { STATE_UNAVAILABLE, STATE_LOADING, STATE_READY } entry_state;

struct entry {
    char *name;
    uint64_t version;
    entry_state state;
    char *reason; /* NULL = none */
    struct model *loaded;
    struct model *candidate; /* of a rollout, which owns it */
    bool failed;             /* the last load failed, and no older version is served instead */
    bool retried;            /* the last load failed for a reason that may pass */
    bool lost;               /* unloaded because its files could not be read as they were, and not loaded since */
    bool deferred;           /* not loaded because of models_memory; loaded when a request names it */
    uint32_t purposes;       /* bits of enum text_purpose, as far as known */
    uint64_t bytes;          /* memory when it was unloaded because of models_memory; 0 = unknown */
    uint64_t held_until_ns;  /* until then, other requests wait instead of replacing it */
};

struct repository {
    const struct settings *settings;
    model_settings defaults;
    uint64_t budget;       /* models_memory in bytes; 0 = no limit */
    bool is_budget_given;  /* by the settings: a model that exceeds it alone is not loaded */
    pthread_mutex_t lock;  /* guards the fields below; held only briefly */
    struct entry *entries; /* [count] sorted by name, then version */
    uint32_t count;
    struct rollout **rollouts; /* [rollout_count] running here */
    uint32_t rollout_count;
    atomic_uint any_rollout; /* rollout_count, readable without the lock */
    struct retired retired;
    atomic_uint refused_count; /* see struct folder */
    pthread_mutex_t loading;   /* held during a load: one at a time; guards `adapters` */
    struct adapter_changes adapters;
};

/* Returns the entry of that version, which is added if missing; NULL: out of memory. The caller holds the lock. */
struct entry *repository_entry_of(struct repository *repository, const char *name, uint64_t version);

/* Sets the state of a version. Takes the reference `loaded` (may be NULL); with `keep`, the loaded model stays. */
void repository_set_entry(struct repository *repository, const char *name, uint64_t version, entry_state state,
                          struct model *loaded, bool keep, const char *reason);
/* Records that a version could not be loaded. A model that was loaded from its earlier files stays. counts: the version
 * counts as failed from now on; otherwise it counts as failed only if it did before. */
void repository_set_failed(struct repository *repository, const char *name, uint64_t version, const inlay_diag *why,
                           bool counts);
/* Whether the version is loaded with files in that state, and its last load did not fail. */
bool repository_is_current(struct repository *repository, const char *name, uint64_t version, uint64_t state);
/* Finds the next entry, from *at on, of a version that could not be loaded here: one that another process has or, if
 * may_pass, one that failed for a reason that may pass. Writes the name of the model. */
bool repository_find_failed(struct repository *repository, bool may_pass, uint32_t *at, char name[FOLDER_MAX_NAME + 1]);
/* Whether a version of the model is tried again. */
bool repository_is_retried(struct repository *repository, const char *name);
/* No version of the model is tried again. */
void repository_end_retries(struct repository *repository, const char *name);

/* Why a model is loaded: at the start, by an admin request, because its files have changed, because its last load
 * failed, or for a request that runs it. */
typedef enum load_reason { LOAD_START, LOAD_REQUESTED, LOAD_CHANGED, LOAD_RETRIED, LOAD_DEFERRED } load_reason;

/* What becomes of a version that is about to be loaded: it is served, it begins as candidate, or it is not loaded since
 * it is part of a rollout already or was dropped. state: of its files. */
typedef enum rollout_role { ROLE_SERVED, ROLE_CANDIDATE, ROLE_NONE } rollout_role;
rollout_role repository_rollout_role(struct repository *repository, const rollout_rules *rules, const char *name,
                                     uint64_t version, uint64_t state, load_reason reason);
/* A reference to the latest loaded version, which models_memory does not unload meanwhile; NULL: none is loaded. */
struct model *repository_rollout_pin(struct repository *repository, const char *name);
void repository_rollout_unpin(struct model *stable); /* NULL is a no-op */
/* Begins the rollout of a loaded version beside `stable`; takes the reference to the candidate. keeps_stable: the
 * configuration selects the stable version, too. *out_role is what became of the candidate, which another process may
 * have decided; ROLE_SERVED: the caller keeps the reference. */
INLAY_NODISCARD inlay_status repository_rollout_begin(struct repository *repository, struct model *stable,
                                                      struct model *candidate, bool keeps_stable, load_reason reason,
                                                      rollout_role *out_role, inlay_diag *diag);
/* Whether that version stays although the configuration does not select it: it is the stable one of a rollout, or of
 * one whose candidate was dropped and has not changed. */
bool repository_rollout_keeps(struct repository *repository, const found_model *model, uint64_t version);
/* Whether that version is the candidate of a rollout, which goes on although version `failed` could not be loaded. */
bool repository_rollout_goes_on(struct repository *repository, const found_model *model, uint64_t version,
                                uint64_t failed);
/* Serves or unloads the candidate of one rollout that has been decided. false: there is none. *out_promoted: the name
 * of its model if it is served now, owned by the caller; otherwise NULL. */
bool repository_rollout_finish(struct repository *repository, char **out_promoted);
/* Drops the candidate of the model, if it is this version (0 = any). */
void repository_rollout_cancel(struct repository *repository, const char *name, uint64_t version, const char *reason);

/* Unloads other models until `needed` more bytes fit. */
void repository_make_room(struct repository *repository, const char *name, uint64_t version, uint64_t needed);
/* A request has loaded the version, which took `ns`: other requests do not replace it for a while. */
void repository_hold(struct repository *repository, const char *name, uint64_t version, uint64_t ns);
/* Unloads a model if the loaded ones have grown beyond the limit: one that has no live sequences and is not the only
 * one that could be unloaded. */
void repository_trim(struct repository *repository);
/* At the start, defers a version that does not fit until a request names it, since nothing is unloaded for it. true: it
 * is deferred. */
bool repository_defer(struct repository *repository, const char *name, uint64_t version, uint64_t needed,
                      uint32_t purposes);
#endif
