/* Loads and unloads models on request, over REST and gRPC. A load takes seconds, so a separate thread runs the tasks
 * sequentially. */
#include "serve/repository/loader.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "serve/repository/changes.h"
#include "serve/base/monitor.h"
#include "serve/repository/ready.h"
#include "serve/repository/repository.h"
#include <stdlib.h>
#include <string.h>

struct loader {
    struct server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    load_task *first, *last;
    bool stop;
    bool rollouts;    /* loader_apply_rollouts() was called */
    bool working;     /* a task runs, outside the lock */
    uint64_t poll_ns; /* time between two polls */
    struct changes changes;
    uint64_t retry_at_ns; /* of repository_retry(); UINT64_MAX: there is nothing to retry */
    uint64_t pause_ns;    /* before the next one */
};

static const uint64_t LEAST_PAUSE_NS = 100000000, MOST_PAUSE_NS = 10000000000, RETRY_PAUSES = 4;
static const uint64_t RETRY_CHECK_NS = 1000000000; /* most time until plan_retry() notices a model without its files */

/* Whether the server ends, and has not loaded the model of the task: another request has waited for the same load,
 * which was stopped. */
static bool is_stopped(const struct loader *loader, const load_task *task)
{
    struct model *model;

    if (task->what != LOAD_TASK_DEFERRED || !settings_stopped(loader->server->settings))
        return false;
    model = repository_find(loader->server->repository, task->name, strlen(task->name), task->version);
    model_unref(model);
    return model == NULL;
}

static void perform(struct loader *loader, load_task *task)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    if (task->what == LOAD_TASK_LOAD)
        status = repository_load(loader->server->repository, task->name, &diag);
    else if (task->what == LOAD_TASK_ADAPTER)
        status = repository_change_adapter(loader->server->repository, task->name, task->adapter.name,
                                           task->adapter.path, task->adapter.replaces, &diag);
    else if (task->what == LOAD_TASK_DEFERRED)
        status = repository_load_deferred(loader->server->repository, task->name, task->version, &diag);
    else
        status = repository_unload(loader->server->repository, task->name, &diag);
    /* Only a server that ends stops a load; its clients did not cancel anything. */
    if (status == INLAY_CANCELLED || is_stopped(loader, task))
        status = inlay_fail(&diag, INLAY_BUSY, SERVER_ENDING);
    diag.code = status;
    if (server_update_ready(loader->server))
        server_announce_ready(loader->server);
    task->done(task->user, &diag);
}

/* Waits until a task is added, or until that time. */
static void wait_until(struct loader *loader, uint64_t at)
{
    struct timespec until = { (time_t)(at / 1000000000u), (long)(at % 1000000000u) };

    (void)pthread_cond_timedwait(&loader->work, &loader->lock, &until);
}

/* Removes the task behind `before`, NULL = the first one. */
static load_task *take(struct loader *loader, load_task *before)
{
    load_task *task = before != NULL ? before->next : loader->first;

    if (before != NULL)
        before->next = task->next;
    else
        loader->first = task->next;
    if (loader->last == task)
        loader->last = before;
    return task;
}

/* Takes the first task that need not wait, see repository_load_at(). NULL: none until *out_at. A server that ends does
 * not wait. */
static load_task *next_task(struct loader *loader, uint64_t *out_at)
{
    bool ends = loader->stop || atomic_load(&loader->server->phase.draining);
    load_task *before = NULL;

    *out_at = UINT64_MAX;
    for (load_task *task = loader->first; task != NULL; before = task, task = task->next) {
        uint64_t at = task->what == LOAD_TASK_DEFERRED && !ends
                          ? repository_load_at(loader->server->repository, task->name, task->version)
                          : 0;

        if (at <= clock_ns())
            return take(loader, before);
        *out_at = at < *out_at ? at : *out_at;
    }
    return NULL;
}

/* Decides when failed loads are tried next. */
static void plan_retry(struct loader *loader)
{
    if (!atomic_load(&loader->server->phase.loaded))
        return;
    if (!repository_has_retries(loader->server->repository)) {
        loader->pause_ns = LEAST_PAUSE_NS;
        loader->retry_at_ns = UINT64_MAX;
    } else if (loader->retry_at_ns == UINT64_MAX) {
        loader->retry_at_ns = clock_ns() + loader->pause_ns;
    }
}

/* A load may have failed for want of memory, descriptors, a file or a provider: tries again, with growing pauses, each
 * several times as long as the loads before it, so that these take little of the machine. */
static void retry(struct loader *loader)
{
    const uint64_t start = clock_ns();
    uint64_t least;

    repository_retry(loader->server->repository);
    loader->retry_at_ns = UINT64_MAX;
    if (loader->pause_ns < MOST_PAUSE_NS)
        loader->pause_ns *= 2;
    least = RETRY_PAUSES * (clock_ns() - start);
    if (loader->pause_ns < least)
        loader->pause_ns = least;
    if (server_update_ready(loader->server))
        server_announce_ready(loader->server);
}

/* Polls the folder, but not before all models were loaded for the first time. */
static void poll_changes(struct loader *loader)
{
    if (!atomic_load(&loader->server->phase.loaded))
        return;
    if (settings_int(loader->server->settings, SET_poll_ms) > 0)
        changes_poll(&loader->changes, loader->server->repository, loader->server->settings);
    if (server_update_ready(loader->server))
        server_announce_ready(loader->server);
}

static void *work(void *user)
{
    struct loader *loader = user;
    uint64_t poll_at = clock_ns() + loader->poll_ns;

    (void)pthread_mutex_lock(&loader->lock);
    for (;;) {
        uint64_t at, wake_at;
        bool rollouts;
        load_task *task = next_task(loader, &at);

        if (task == NULL && loader->stop)
            break;
        plan_retry(loader);
        wake_at = poll_at < loader->retry_at_ns ? poll_at : loader->retry_at_ns;
        if (task == NULL && !loader->rollouts && clock_ns() < wake_at) {
            at = at < wake_at ? at : wake_at;
            wake_at = clock_ns() + RETRY_CHECK_NS;
            wait_until(loader, at < wake_at ? at : wake_at);
            continue;
        }
        INLAY_CHECK(!loader->working);
        loader->working = true;
        rollouts = loader->rollouts;
        loader->rollouts = false;
        (void)pthread_mutex_unlock(&loader->lock);
        if (rollouts)
            repository_rollouts_apply(loader->server->repository);
        if (task != NULL) {
            perform(loader, task);
        } else if (clock_ns() >= poll_at) {
            poll_changes(loader);
            poll_at = clock_ns() + loader->poll_ns;
        } else if (clock_ns() >= loader->retry_at_ns) {
            retry(loader);
        }
        (void)pthread_mutex_lock(&loader->lock);
        loader->working = false;
    }
    (void)pthread_mutex_unlock(&loader->lock);
    return NULL;
}

void loader_submit(struct loader *loader, load_task *task)
{
    INLAY_CHECK(task->done != NULL);
    task->next = NULL;
    (void)pthread_mutex_lock(&loader->lock);
    if (loader->last != NULL)
        loader->last->next = task;
    else
        loader->first = task;
    loader->last = task;
    (void)pthread_cond_signal(&loader->work);
    (void)pthread_mutex_unlock(&loader->lock);
}

void loader_apply_rollouts(struct loader *loader)
{
    (void)pthread_mutex_lock(&loader->lock);
    loader->rollouts = true;
    (void)pthread_cond_signal(&loader->work);
    (void)pthread_mutex_unlock(&loader->lock);
}

void loader_expire(struct loader *loader)
{
    uint64_t now = clock_ns();
    load_task *expired = NULL, *before = NULL;

    if (loader == NULL)
        return;
    (void)pthread_mutex_lock(&loader->lock);
    for (load_task *task = loader->first, *next; task != NULL; task = next) {
        next = task->next;
        if (task->deadline_ns == 0 || now < task->deadline_ns) {
            before = task;
            continue;
        }
        (void)take(loader, before);
        task->next = expired;
        expired = task;
    }
    if (loader->first != NULL && atomic_load(&loader->server->phase.draining))
        (void)pthread_cond_signal(&loader->work); /* see next_task() */
    (void)pthread_mutex_unlock(&loader->lock);
    for (load_task *task = expired, *next; task != NULL; task = next) {
        inlay_diag diag = INLAY_DIAG_INIT;

        next = task->next;
        (void)inlay_fail(&diag, INLAY_DEADLINE_EXCEEDED, "the request's deadline passed before its model was loaded");
        task->done(task->user, &diag);
    }
}

bool loader_is_idle(struct loader *loader)
{
    bool idle;

    if (loader == NULL)
        return true;
    (void)pthread_mutex_lock(&loader->lock);
    idle = loader->first == NULL && !loader->working;
    (void)pthread_mutex_unlock(&loader->lock);
    return idle;
}

inlay_status loader_create(struct server *server, struct loader **out_loader, inlay_diag *diag)
{
    struct loader *loader = calloc(1, sizeof *loader);

    *out_loader = NULL;
    if (loader == NULL)
        return no_memory(diag, "for the model loader");
    loader->server = server;
    monitor_init(&loader->lock, &loader->work);
    loader->pause_ns = LEAST_PAUSE_NS;
    loader->retry_at_ns = UINT64_MAX;
    loader->poll_ns = (uint64_t)settings_int(server->settings, SET_poll_ms) * 1000000;
    if (loader->poll_ns > 0)
        changes_note(&loader->changes, server->settings); /* this state is loaded next */
    else
        loader->poll_ns = 1000000000; /* for plan_retry() */
    if (pthread_create(&loader->thread, NULL, work, loader) != 0) {
        free(loader);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start a thread");
    }
    *out_loader = loader;
    return INLAY_OK;
}

void loader_destroy(struct loader *loader)
{
    if (loader == NULL)
        return;
    (void)pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    (void)pthread_cond_signal(&loader->work);
    (void)pthread_mutex_unlock(&loader->lock);
    (void)pthread_join(loader->thread, NULL);
    (void)pthread_cond_destroy(&loader->work);
    (void)pthread_mutex_destroy(&loader->lock);
    changes_deinit(&loader->changes);
    free(loader);
}
