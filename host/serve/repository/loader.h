/* serve/repository/loader.h - the thread that loads and unloads models on request. */
#ifndef SERVE_LOADER_H
#define SERVE_LOADER_H
#include "serve/repository/folder.h"
#include "serve/base/server.h"

struct loader;

/* A model to load, to unload, or to load for a request that runs it. The loader's thread does it and calls done(). */
typedef enum load_task_kind { LOAD_TASK_LOAD, LOAD_TASK_UNLOAD, LOAD_TASK_ADAPTER, LOAD_TASK_DEFERRED } load_task_kind;
/* See repository_change_adapter(). */
typedef struct load_adapter {
    const char *name, *path; /* borrowed */
    bool replaces;
} load_adapter;
typedef struct load_task {
    load_task_kind what;
    load_adapter adapter;           /* LOAD_TASK_ADAPTER */
    uint64_t version;               /* LOAD_TASK_DEFERRED: the version; 0 = the latest */
    uint64_t deadline_ns;           /* LOAD_TASK_DEFERRED: it may wait until then; 0 = none */
    char name[FOLDER_MAX_NAME + 2]; /* a truncated name matches no model */
    void (*done)(void *user, const inlay_diag *diag);
    void *user;
    struct load_task *next;
} load_task;

INLAY_NODISCARD inlay_status loader_create(struct server *server, struct loader **out_loader, inlay_diag *diag);
void loader_destroy(struct loader *loader);
void loader_submit(struct loader *loader, load_task *task);
/* Ends the tasks that have waited beyond their deadline. Called periodically. */
void loader_expire(struct loader *loader);
/* Serves or unloads the candidates of rollouts that have been decided. */
void loader_apply_rollouts(struct loader *loader);
/* Whether no task is waiting or running: then loader_destroy() returns at once, unless a task is submitted. NULL is
 * idle. */
bool loader_is_idle(struct loader *loader);
#endif
