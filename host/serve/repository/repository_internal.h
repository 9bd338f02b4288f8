/* serve/repository/repository_internal.h - shared by the files of the repository: its entries, and the memory limit. */
#ifndef SERVE_REPOSITORY_INTERNAL_H
#define SERVE_REPOSITORY_INTERNAL_H
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
    bool failed;            /* the last load failed */
    bool deferred;          /* not loaded because of models_memory; loaded when a request names it */
    bool is_text;           /* a model for texts, as far as known */
    uint64_t bytes;         /* memory when it was unloaded because of models_memory; 0 = unknown */
    uint64_t held_until_ns; /* until then, other requests wait instead of replacing it */
};

struct repository {
    const struct settings *settings;
    model_settings defaults;
    uint64_t budget;       /* models_memory in bytes; 0 = no limit */
    pthread_mutex_t lock;  /* guards the fields below; held only briefly */
    struct entry *entries; /* [count] sorted by name, then version */
    uint32_t count;
    struct retired retired;
    pthread_mutex_t loading; /* held during a load: one at a time */
};

/* Returns the entry of that version, which is added if missing; NULL: out of memory. The caller holds the lock. */
struct entry *repository_entry_of(struct repository *repository, const char *name, uint64_t version);

/* ------------------------------------------------------------------ repository_memory.c */

/* Unloads other models until `needed` more bytes fit. */
void repository_make_room(struct repository *repository, const char *name, uint64_t version, uint64_t needed);
/* A request has loaded the version, which took `ns`: other requests do not replace it for a while. */
void repository_hold(struct repository *repository, const char *name, uint64_t version, uint64_t ns);
/* Unloads a model if the loaded ones have grown beyond the limit: one that has no live sequences and is not the only one
 * that could be unloaded. */
void repository_trim(struct repository *repository);
/* At the start, defers a version that does not fit until a request names it, since nothing is unloaded for it. true: it
 * is deferred. */
bool repository_defer(struct repository *repository, const char *name, uint64_t version, uint64_t needed, bool is_text);
#endif
