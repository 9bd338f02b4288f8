/* POST /v2/repository/models/NAME/load and .../unload. These take seconds, so a thread of their own does them, one
 * after another. */
#include "serve/changes.h"
#include "serve/server.h"
#include <stdlib.h>
#include <string.h>

struct keeper {
    server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    exchange *first, *last;
    bool stop;
    uint64_t poll_ns; /* between two looks at the folder; 0 = none */
    changes changes;
};

static void perform(keeper *k, exchange *x)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char name[sizeof x->path];
    inlay_status status;

    (void)snprintf(name, sizeof name, "%.*s", (int)x->route.name_bytes, x->route.name);
    status = x->route.kind == ROUTE_LOAD ? repository_load(k->server->repository, name, &diag)
                                         : repository_unload(k->server->repository, name, &diag);
    if (status == INLAY_OK)
        x->code = MHD_HTTP_OK;
    else
        exchange_fail(x, status == INLAY_NOT_FOUND ? MHD_HTTP_NOT_FOUND : MHD_HTTP_BAD_REQUEST, diag.text);
}

/* Waits for a request; false: it is time to look at the folder. */
static bool wait_for_work(keeper *k, uint64_t look_at)
{
    struct timespec until = { (time_t)(look_at / 1000000000u), (long)(look_at % 1000000000u) };

    if (k->poll_ns == 0)
        return pthread_cond_wait(&k->work, &k->lock) == 0;
    return pthread_cond_timedwait(&k->work, &k->lock, &until) == 0;
}

/* Not before all models are loaded for the first time. */
static void look(keeper *k)
{
    if (atomic_load(&k->server->ready))
        changes_look(&k->changes, k->server->repository, k->server->settings->models);
}

static void *work(void *user)
{
    keeper *k = user;
    uint64_t look_at = clock_ns() + k->poll_ns;

    (void)pthread_mutex_lock(&k->lock);
    for (;;) {
        exchange *x = k->first;

        if (x == NULL && k->stop)
            break;
        if (x == NULL) {
            if (!wait_for_work(k, look_at) && k->first == NULL && !k->stop) {
                (void)pthread_mutex_unlock(&k->lock);
                look(k);
                (void)pthread_mutex_lock(&k->lock);
                look_at = clock_ns() + k->poll_ns;
            }
            continue;
        }
        k->first = x->next_kept;
        if (k->first == NULL)
            k->last = NULL;
        (void)pthread_mutex_unlock(&k->lock);
        perform(k, x);
        exchange_wake(x);
        (void)pthread_mutex_lock(&k->lock);
    }
    (void)pthread_mutex_unlock(&k->lock);
    return NULL;
}

void answer_repository(exchange *x)
{
    keeper *k = x->server->keeper;

    if (x->route.kind == ROUTE_LOAD && x->body_bytes > 0 &&
        memmem(x->body, x->body_bytes, "\"parameters\"", 12) != NULL) {
        exchange_fail(x, MHD_HTTP_BAD_REQUEST, "models are loaded as they lie in the repository: send no parameters");
        return;
    }
    exchange_suspend(x);
    (void)pthread_mutex_lock(&k->lock);
    if (k->last != NULL)
        k->last->next_kept = x;
    else
        k->first = x;
    k->last = x;
    (void)pthread_cond_signal(&k->work);
    (void)pthread_mutex_unlock(&k->lock);
}

inlay_status keeper_create(server *s, keeper **out_keeper, inlay_diag *diag)
{
    keeper *k = calloc(1, sizeof *k);
    pthread_condattr_t by_monotonic;

    *out_keeper = NULL;
    if (k == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the keeper");
    k->server = s;
    (void)pthread_mutex_init(&k->lock, NULL);
    (void)pthread_condattr_init(&by_monotonic);
    (void)pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&k->work, &by_monotonic);
    (void)pthread_condattr_destroy(&by_monotonic);
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

void keeper_destroy(keeper *k)
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
