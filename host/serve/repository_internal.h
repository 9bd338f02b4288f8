/* serve/repository_internal.h - what the files of the repository share: its list, and what is loaded for want of memory
 * later. */
#ifndef SERVE_REPOSITORY_INTERNAL_H
#define SERVE_REPOSITORY_INTERNAL_H
#include "serve/repository.h"
#include "serve/retired.h"
#include <pthread.h>

typedef enum entry_state { STATE_UNAVAILABLE, STATE_LOADING, STATE_READY } entry_state;

struct entry {
    char *name;
    uint64_t version;
    entry_state state;
    char *reason; /* NULL = none */
    struct model *loaded;
    bool asleep;    /* not loaded, for want of memory */
    uint64_t bytes; /* that it takes, as far as known */
};

struct repository {
    const struct settings *settings;
    model_settings defaults;
    uint64_t budget;       /* bytes; 0 = none */
    pthread_mutex_t lock;  /* of what follows; held shortly */
    struct entry *entries; /* [count] by name, then version */
    uint32_t count;
    struct retired retired;
    pthread_mutex_t loading; /* one load at a time */
};

/* The entry of that version, made where there is none; NULL: no memory. Under the lock. */
struct entry *repository_entry_of(struct repository *repository, const char *name, uint64_t version);

/* ------------------------------------------------------------------ repository_memory.c */

/* Unloads others until so many more bytes would fit. */
void repository_make_room(struct repository *repository, const char *name, uint64_t version, uint64_t needed);
/* Whether the version is to be loaded later, when a request names it: at the start nothing is unloaded for another. */
bool repository_leave_asleep(struct repository *repository, const char *name, uint64_t version, uint64_t needed);
#endif
