/* Loading and unloading on request, over REST and gRPC. These take seconds, so a thread of their own does them, one
 * after another. */
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
    bool working;     /* outside the lock */
    uint64_t poll_ns; /* between two looks at the folder; 0 = none */
    struct changes changes;
};

static void perform(struct keeper *k, struct kept *task)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    if (task->what == KEPT_LOAD)
        status = repository_load(k->server->repository, task->name, &diag);
    else if (task->what == KEPT_WAKE)
        status = repository_wake(k->server->repository, task->name, task->version, &diag);
    else
        status = repository_unload(k->server->repository, task->name, &diag);
    diag.code = status;
    task->done(task->user, &diag);
}

/* Waits for a request; false: it is time to look at the folder. */
static bool wait_for_work(struct keeper *k, uint64_t look_at)
{
    struct timespec until = { (time_t)(look_at / 1000000000u), (long)(look_at % 1000000000u) };

    if (k->poll_ns == 0)
        return pthread_cond_wait(&k->work, &k->lock) == 0;
    return pthread_cond_timedwait(&k->work, &k->lock, &until) == 0;
}

/* Not before all models are loaded for the first time. */
static void look(struct keeper *k)
{
    if (atomic_load(&k->server->ready))
        changes_look(&k->changes, k->server->repository, k->server->settings->models);
}

static void *work(void *user)
{
    struct keeper *k = user;
    uint64_t look_at = clock_ns() + k->poll_ns;

    (void)pthread_mutex_lock(&k->lock);
    for (;;) {
        struct kept *task = k->first;

        if (task == NULL && k->stop)
            break;
        if (task == NULL) {
            if (!wait_for_work(k, look_at) && k->first == NULL && !k->stop) {
                k->working = true;
                (void)pthread_mutex_unlock(&k->lock);
                look(k);
                (void)pthread_mutex_lock(&k->lock);
                k->working = false;
                look_at = clock_ns() + k->poll_ns;
            }
            continue;
        }
        k->first = task->next;
        if (k->first == NULL)
            k->last = NULL;
        k->working = true;
        (void)pthread_mutex_unlock(&k->lock);
        perform(k, task);
        (void)pthread_mutex_lock(&k->lock);
        k->working = false;
    }
    (void)pthread_mutex_unlock(&k->lock);
    return NULL;
}

void keeper_submit(struct keeper *k, struct kept *task)
{
    task->next = NULL;
    (void)pthread_mutex_lock(&k->lock);
    if (k->last != NULL)
        k->last->next = task;
    else
        k->first = task;
    k->last = task;
    (void)pthread_cond_signal(&k->work);
    (void)pthread_mutex_unlock(&k->lock);
}

bool keeper_is_idle(struct keeper *k)
{
    bool idle;

    if (k == NULL)
        return true;
    (void)pthread_mutex_lock(&k->lock);
    idle = k->first == NULL && !k->working;
    (void)pthread_mutex_unlock(&k->lock);
    return idle;
}

static void answer(void *user, const inlay_diag *diag)
{
    struct exchange *x = user;

    if (diag->code == INLAY_OK)
        x->code = MHD_HTTP_OK;
    else
        exchange_fail(x, diag->code == INLAY_NOT_FOUND ? MHD_HTTP_NOT_FOUND : MHD_HTTP_BAD_REQUEST, diag->text);
    exchange_wake(x);
}

void answer_repository(struct exchange *x)
{
    if (x->route.kind == ROUTE_LOAD && x->body_bytes > 0 &&
        memmem(x->body, x->body_bytes, "\"parameters\"", 12) != NULL) {
        exchange_fail(x, MHD_HTTP_BAD_REQUEST, "models are loaded as they lie in the repository: send no parameters");
        return;
    }
    x->kept = (struct kept){ .what = x->route.kind == ROUTE_LOAD ? KEPT_LOAD : KEPT_UNLOAD, .done = answer, .user = x };
    (void)snprintf(x->kept.name, sizeof x->kept.name, "%.*s", (int)x->route.name_bytes, x->route.name);
    exchange_suspend(x);
    keeper_submit(x->server->keeper, &x->kept);
}

inlay_status keeper_create(struct server *s, struct keeper **out_keeper, inlay_diag *diag)
{
    struct keeper *k = calloc(1, sizeof *k);

    *out_keeper = NULL;
    if (k == NULL)
        return no_memory(diag, "for the keeper");
    k->server = s;
    monitor_init(&k->lock, &k->work);
    k->poll_ns = (uint64_t)settings_int(s->settings, SET_poll_ms) * 1000000;
    if (k->poll_ns > 0)
        changes_note(&k->changes, s->settings->models); /* as it is about to be loaded */
    if (pthread_create(&k->thread, NULL, work, k) != 0) {
        free(k);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start a thread");
    }
    *out_keeper = k;
    return INLAY_OK;
}

void keeper_destroy(struct keeper *k)
{
    if (k == NULL)
        return;
    (void)pthread_mutex_lock(&k->lock);
    k->stop = true;
    (void)pthread_cond_signal(&k->work);
    (void)pthread_mutex_unlock(&k->lock);
    (void)pthread_join(k->thread, NULL);
    (void)pthread_cond_destroy(&k->work);
    (void)pthread_mutex_destroy(&k->lock);
    changes_deinit(&k->changes);
    free(k);
}
