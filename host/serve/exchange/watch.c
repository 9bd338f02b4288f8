#include "serve/schedule/text_jobs.h"
#include "serve/schedule/load.h"
#include "inlay/check.h"
#include "serve/base/monitor.h"
#include "serve/repository/repository.h"
#include "serve/exchange/prepare.h"
#include "serve/exchange/watch.h"
#include "serve/network/front.h"
#include <malloc.h>
#include <stdlib.h>

enum { TICK_NS = 10000000, PUBLISH_TICKS = 10 };  /* interval of the checks; checks between two of watch_publish() */
enum { TRIM_BYTES = 16 << 20, TRIM_TICKS = 100 }; /* see give_back_memory() */

struct watch {
    struct server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool stop;
    struct front *front;  /* NULL: none */
    uint32_t quiet_ticks; /* used by the thread only: since when less memory has been needed, see give_back_memory() */
};

void watch_add(struct watch *watch, struct request *request)
{
    INLAY_CHECK(!request->watched);
    (void)pthread_mutex_lock(&watch->lock);
    request->watched = true;
    (void)pthread_mutex_unlock(&watch->lock);
}

void watch_remove(struct watch *watch, struct request *request)
{
    (void)pthread_mutex_lock(&watch->lock);
    request->watched = false;
    (void)pthread_mutex_unlock(&watch->lock);
}

void watch_cancel(struct watch *watch, struct request *request)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    bool waited = false;

    prepare_cancel(watch->server->prepare, request);
    (void)pthread_mutex_lock(&watch->lock);
    if (request->watched && !request->job.cancelled) {
        waited = sched_cancel(watch->server->sched, &request->job);
        request->watched = !waited;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    if (!waited)
        return;
    (void)inlay_fail(&diag, INLAY_CANCELLED, "the client disconnected");
    request->job.run.started_ns = clock_ns();
    request->job.finish(&request->job, &diag, NULL, 0);
}

static void publish_model(void *user, const repository_entry *entry)
{
    struct server *server = user;
    board_model *figures;
    decoding_load load;

    if (entry->loaded == NULL)
        return;
    figures = board_own_model(&server->board, entry->loaded->metrics.board_index);
    load = text_jobs_load(entry->loaded, NULL);
    atomic_store_explicit(&figures->queued, sched_queued(server->sched, entry->loaded), memory_order_relaxed);
    atomic_store_explicit(&figures->running_texts, load.running, memory_order_relaxed);
    atomic_store_explicit(&figures->waiting_texts, load.waiting, memory_order_relaxed);
    atomic_store_explicit(&figures->text_bytes, load.bytes, memory_order_relaxed);
}

void watch_publish(struct server *server)
{
    board_counts *counts = server->counts;

    atomic_store_explicit(&counts->runs, sched_running(server->sched), memory_order_relaxed);
    atomic_store_explicit(&counts->model_bytes, repository_bytes(server->repository), memory_order_relaxed);
    atomic_store_explicit(&counts->replaced_models, repository_retired(server->repository), memory_order_relaxed);
    repository_each(server->repository, publish_model, server);
}

/* After requests whose bodies took more than TRIM_BYTES together, the allocator keeps the memory for later requests. If
 * those have needed less than a quarter of it for TRIM_TICKS, gives it back to the system. */
static void give_back_memory(struct watch *watch)
{
    struct server *server = watch->server;
    uint64_t most = atomic_load_explicit(&server->most_inflight_bytes, memory_order_relaxed),
             now = atomic_load_explicit(&server->counts->inflight_bytes, memory_order_relaxed);

    watch->quiet_ticks = most >= TRIM_BYTES && now < most / 4 ? watch->quiet_ticks + 1 : 0;
    if (watch->quiet_ticks < TRIM_TICKS)
        return;
    watch->quiet_ticks = 0;
    atomic_store_explicit(&server->most_inflight_bytes, now, memory_order_relaxed);
    (void)malloc_trim(0);
    (void)atomic_fetch_add_explicit(&server->counts->trims, 1, memory_order_relaxed);
}

static void *check_loop(void *user)
{
    struct watch *watch = user;
    struct timespec until;
    uint32_t ticks = 0;

    for (;;) {
        uint64_t at = clock_ns() + TICK_NS;
        bool stop;

        until = (struct timespec){ (time_t)(at / 1000000000u), (long)(at % 1000000000u) };
        (void)pthread_mutex_lock(&watch->lock);
        if (!watch->stop)
            (void)pthread_cond_timedwait(&watch->stopped, &watch->lock, &until);
        stop = watch->stop;
        front_relieve(watch->front);
        (void)pthread_mutex_unlock(&watch->lock);
        if (stop)
            return NULL;
        prepare_check(watch->server->prepare);
        sched_expire(watch->server->sched);
        loader_expire(watch->server->loader);
        repository_collect(watch->server->repository);
        if (repository_rollouts_decide(watch->server->repository))
            loader_apply_rollouts(watch->server->loader);
        load_sample(watch->server);
        give_back_memory(watch);
        if (watch->server->board.count > 1 && ++ticks % PUBLISH_TICKS == 0)
            watch_publish(watch->server);
    }
}

inlay_status watch_create(struct server *server, struct watch **out_watch, inlay_diag *diag)
{
    struct watch *watch = calloc(1, sizeof *watch);

    *out_watch = NULL;
    if (watch == NULL)
        return no_memory(diag, "for the deadlines of requests");
    watch->server = server;
    monitor_init(&watch->lock, &watch->stopped);
    if (pthread_create(&watch->thread, NULL, check_loop, watch) != 0) {
        free(watch);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start a thread");
    }
    *out_watch = watch;
    return INLAY_OK;
}

void watch_set_front(struct watch *watch, struct front *front)
{
    (void)pthread_mutex_lock(&watch->lock);
    watch->front = front;
    (void)pthread_mutex_unlock(&watch->lock);
}

void watch_destroy(struct watch *watch)
{
    if (watch == NULL)
        return;
    (void)pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    (void)pthread_cond_signal(&watch->stopped);
    (void)pthread_mutex_unlock(&watch->lock);
    (void)pthread_join(watch->thread, NULL);
    (void)pthread_cond_destroy(&watch->stopped);
    (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
}

uint32_t watch_stuck(const struct server *server)
{
    return sched_stuck(server->sched) + prepare_figures_of(server->prepare).stuck;
}

bool watch_is_ready(const struct server *server)
{
    return atomic_load(&server->phase.ready) && watch_stuck(server) == 0 &&
           !(settings_int(server->settings, SET_strict) != 0 && repository_has_lost(server->repository));
}
