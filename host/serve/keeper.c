/* Loads and unloads models on request, over REST and gRPC. A load takes seconds, so a separate thread runs the tasks
 * sequentially. */
#include "inlay/check.h"
#include "serve/changes.h"
#include "serve/monitor.h"
#include "serve/server.h"
#include <stdlib.h>
#include <string.h>

struct keeper {
    struct server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct kept *first, *last;
    bool stop;
    bool working;     /* a task runs, outside the lock */
    uint64_t poll_ns; /* time between two polls of the folder; 0 = none */
    struct changes changes;
};

static void perform(struct keeper *keeper, struct kept *task)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    if (task->what == KEPT_LOAD)
        status = repository_load(keeper->server->repository, task->name, &diag);
    else if (task->what == KEPT_WAKE)
        status = repository_wake(keeper->server->repository, task->name, task->version, &diag);
    else
        status = repository_unload(keeper->server->repository, task->name, &diag);
    diag.code = status;
    task->done(task->user, &diag);
}

/* Waits for a task; false: it is time to poll the folder. */
static bool wait_for_work(struct keeper *keeper, uint64_t poll_at)
{
    struct timespec until = { (time_t)(poll_at / 1000000000u), (long)(poll_at % 1000000000u) };

    if (keeper->poll_ns == 0)
        return pthread_cond_wait(&keeper->work, &keeper->lock) == 0;
    return pthread_cond_timedwait(&keeper->work, &keeper->lock, &until) == 0;
}

/* Polls the folder, but not before all models were loaded for the first time. */
static void poll_folder(struct keeper *keeper)
{
    if (atomic_load(&keeper->server->ready))
        changes_poll(&keeper->changes, keeper->server->repository, keeper->server->settings->models);
}

static void *work(void *user)
{
    struct keeper *keeper = user;
    uint64_t poll_at = clock_ns() + keeper->poll_ns;

    (void)pthread_mutex_lock(&keeper->lock);
    for (;;) {
        struct kept *task = keeper->first;

        if (task == NULL && keeper->stop)
            break;
        if (task == NULL) {
            if (!wait_for_work(keeper, poll_at) && keeper->first == NULL && !keeper->stop) {
                keeper->working = true;
                (void)pthread_mutex_unlock(&keeper->lock);
                poll_folder(keeper);
                (void)pthread_mutex_lock(&keeper->lock);
                keeper->working = false;
                poll_at = clock_ns() + keeper->poll_ns;
            }
            continue;
        }
        INLAY_CHECK(keeper->last != NULL && !keeper->working);
        keeper->first = task->next;
        if (keeper->first == NULL)
            keeper->last = NULL;
        keeper->working = true;
        (void)pthread_mutex_unlock(&keeper->lock);
        perform(keeper, task);
        (void)pthread_mutex_lock(&keeper->lock);
        keeper->working = false;
    }
    (void)pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

void keeper_submit(struct keeper *keeper, struct kept *task)
{
    INLAY_CHECK(task->done != NULL);
    task->next = NULL;
    (void)pthread_mutex_lock(&keeper->lock);
    if (keeper->last != NULL)
        keeper->last->next = task;
    else
        keeper->first = task;
    keeper->last = task;
    (void)pthread_cond_signal(&keeper->work);
    (void)pthread_mutex_unlock(&keeper->lock);
}

bool keeper_is_idle(struct keeper *keeper)
{
    bool idle;

    if (keeper == NULL)
        return true;
    (void)pthread_mutex_lock(&keeper->lock);
    idle = keeper->first == NULL && !keeper->working;
    (void)pthread_mutex_unlock(&keeper->lock);
    return idle;
}

static void answer(void *user, const inlay_diag *diag)
{
    struct exchange *exchange = user;

    if (diag->code == INLAY_OK)
        exchange->code = MHD_HTTP_OK;
    else
        exchange_fail(exchange, diag->code == INLAY_NOT_FOUND ? MHD_HTTP_NOT_FOUND : MHD_HTTP_BAD_REQUEST, diag->text);
    exchange_wake(exchange);
}

void answer_repository(struct exchange *exchange)
{
    if (exchange->route.kind == ROUTE_LOAD && exchange->body_bytes > 0 &&
        memmem(exchange->body, exchange->body_bytes, "\"parameters\"", 12) != NULL) {
        exchange_fail(exchange, MHD_HTTP_BAD_REQUEST,
                      "parameters are not supported: models are loaded as they are in the repository");
        return;
    }
    exchange->kept = (struct kept){ .what = exchange->route.kind == ROUTE_LOAD ? KEPT_LOAD : KEPT_UNLOAD,
                                    .done = answer,
                                    .user = exchange };
    (void)snprintf(exchange->kept.name, sizeof exchange->kept.name, "%.*s", (int)exchange->route.name_bytes,
                   exchange->route.name);
    exchange_suspend(exchange);
    keeper_submit(exchange->server->keeper, &exchange->kept);
}

inlay_status keeper_create(struct server *server, struct keeper **out_keeper, inlay_diag *diag)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);

    *out_keeper = NULL;
    if (keeper == NULL)
        return no_memory(diag, "for the model loader");
    keeper->server = server;
    monitor_init(&keeper->lock, &keeper->work);
    keeper->poll_ns = (uint64_t)settings_int(server->settings, SET_poll_ms) * 1000000;
    if (keeper->poll_ns > 0)
        changes_note(&keeper->changes, server->settings->models); /* this state is loaded next */
    if (pthread_create(&keeper->thread, NULL, work, keeper) != 0) {
        free(keeper);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start a thread");
    }
    *out_keeper = keeper;
    return INLAY_OK;
}

void keeper_destroy(struct keeper *keeper)
{
    if (keeper == NULL)
        return;
    (void)pthread_mutex_lock(&keeper->lock);
    keeper->stop = true;
    (void)pthread_cond_signal(&keeper->work);
    (void)pthread_mutex_unlock(&keeper->lock);
    (void)pthread_join(keeper->thread, NULL);
    (void)pthread_cond_destroy(&keeper->work);
    (void)pthread_mutex_destroy(&keeper->lock);
    changes_deinit(&keeper->changes);
    free(keeper);
}
