#include "serve/exchange/prepare.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "inlay/check.h"
#include "serve/base/chain.h"
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    SLOW_NICE = 3,     /* half of the time that a run gets; for as many threads as CPUs */
    SLOWEST_NICE = 10, /* a tenth; for more threads */
    SLOW_NS = 5000000, /* after this time, a thread gets the low priority */
    MAX_FAST = 8,      /* threads of normal priority; as many as CPUs, at least 2 */
    MAX_WORKERS = 64,  /* all threads */
};
static const uint64_t stuck_ns = 5000000000; /* as sched_stuck() */

/* One of the threads. */
struct prepare_worker {
    struct prepare *prepare;
    pthread_t thread;
    id_t id;                 /* of the thread, for its priority */
    struct request *request; /* NULL: none, or it was passed on */
    uint64_t since_ns;       /* when it took its request; 0 = it has none */
    uint64_t until_ns;       /* when the request should have ended; 0 = no limit */
    bool is_slow;            /* has the low priority */
    bool is_large;           /* its request is */
    struct prepare_worker *next, *previous;
};

/* Requests that wait. */
struct waiting {
    struct request *first, *last;
    uint32_t count;
};

struct prepare {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a request waits, a thread has ended, or all have to */
    struct prepare_worker *workers;
    uint32_t worker_count, fast_count, slow_count, idle_count, large_count;
    uint32_t most_fast, most_large;
    struct waiting small, large;
    bool stop;
    prepare_figures figures;
};

static void add(struct waiting *list, struct request *request)
{
    request->preparation.next = NULL;
    if (list->last != NULL)
        list->last->preparation.next = request;
    else
        list->first = request;
    list->last = request;
    list->count++;
}

static void take_out(struct waiting *list, struct request *request)
{
    struct request *before = NULL;

    for (struct request *at = list->first; at != request; at = at->preparation.next)
        before = at;
    if (before != NULL)
        before->preparation.next = request->preparation.next;
    else
        list->first = request->preparation.next;
    if (list->last == request)
        list->last = before;
    list->count--;
    request->preparation.waits = false;
}

static struct waiting *list_of(struct prepare *prepare, const struct request *request)
{
    return request->preparation.is_large ? &prepare->large : &prepare->small;
}

/* Number of requests that threads could begin. */
static uint32_t ready_count(const struct prepare *prepare)
{
    const uint32_t places = prepare->most_large - prepare->large_count;

    INLAY_CHECK(prepare->large_count <= prepare->most_large);
    return prepare->small.count + (prepare->large.count < places ? prepare->large.count : places);
}

/* The thread goes on at the low priority: it cannot get the normal one back, so it ends after its request. */
static void slow_down(struct prepare_worker *worker)
{
    struct prepare *prepare = worker->prepare;
    const int nice =
        getpriority(PRIO_PROCESS, worker->id) + (prepare->slow_count < prepare->most_large ? SLOW_NICE : SLOWEST_NICE);

    INLAY_CHECK(!worker->is_slow && prepare->fast_count > 0);
    worker->is_slow = true;
    prepare->fast_count--;
    prepare->slow_count++;
    (void)setpriority(PRIO_PROCESS, worker->id, nice < 19 ? nice : 19);
}

/* Called by the worker when work() passes the request on. */
static void pass_on(struct request *request)
{
    struct prepare_worker *worker = request->preparation.worker;
    struct prepare *prepare = worker->prepare;

    (void)pthread_mutex_lock(&prepare->lock);
    worker->request = NULL;
    worker->until_ns = 0;
    request->preparation.worker = NULL;
    request->preparation.pass_on = NULL;
    (void)pthread_mutex_unlock(&prepare->lock);
}

/* Takes the next request, which there is. The caller holds the lock. */
static struct request *take_next(struct prepare_worker *worker)
{
    struct prepare *prepare = worker->prepare;
    struct request *request = prepare->small.first != NULL ? prepare->small.first : prepare->large.first;

    take_out(list_of(prepare, request), request);
    request->preparation.worker = worker;
    request->preparation.pass_on = pass_on;
    worker->request = request;
    worker->since_ns = clock_ns();
    worker->until_ns = request->job.deadline_ns;
    worker->is_large = request->preparation.is_large;
    if (worker->is_large) {
        prepare->large_count++;
        slow_down(worker);
    }
    return request;
}

/* Does a request. The caller holds the lock. */
static void do_next(struct prepare_worker *worker)
{
    struct prepare *prepare = worker->prepare;
    struct request *request = take_next(worker);
    bool is_mine;

    (void)pthread_mutex_unlock(&prepare->lock);
    request->preparation.work(request, NULL);
    (void)pthread_mutex_lock(&prepare->lock);
    is_mine = worker->request != NULL; /* it was not passed on */
    worker->request = NULL;
    if (is_mine) {
        request->preparation.worker = NULL;
        request->preparation.pass_on = NULL;
        request_wake(request);
    }
    prepare->figures.count++;
    prepare->figures.ns += clock_ns() - worker->since_ns;
    prepare->large_count -= worker->is_large;
    worker->since_ns = worker->until_ns = 0;
    worker->is_large = false;
}

static void *run_worker(void *user)
{
    struct prepare_worker *worker = user;
    struct prepare *prepare = worker->prepare;

    (void)pthread_mutex_lock(&prepare->lock);
    worker->id = (id_t)gettid();
    prepare->idle_count--;
    while (!worker->is_slow) {
        if (ready_count(prepare) > 0) {
            do_next(worker);
        } else if (prepare->stop) {
            break;
        } else {
            prepare->idle_count++;
            (void)pthread_cond_wait(&prepare->changed, &prepare->lock);
            prepare->idle_count--;
        }
    }
    prepare->fast_count -= !worker->is_slow;
    prepare->slow_count -= worker->is_slow;
    prepare->worker_count--;
    CHAIN_REMOVE(prepare->workers, worker, next, previous);
    (void)pthread_cond_broadcast(&prepare->changed);
    (void)pthread_mutex_unlock(&prepare->lock);
    free(worker);
    return NULL;
}

/* Starts a thread. The caller holds the lock. */
static bool add_worker(struct prepare *prepare)
{
    struct prepare_worker *worker = calloc(1, sizeof *worker);
    pthread_attr_t detached;
    bool good = worker != NULL && pthread_attr_init(&detached) == 0;

    if (!good) {
        free(worker);
        return false;
    }
    worker->prepare = prepare;
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    good = pthread_create(&worker->thread, &detached, run_worker, worker) == 0;
    (void)pthread_attr_destroy(&detached);
    if (!good) {
        free(worker);
        return false;
    }
    prepare->worker_count++;
    prepare->fast_count++;
    prepare->idle_count++; /* until it begins */
    CHAIN_ADD(prepare->workers, worker, next, previous);
    return true;
}

/* Starts threads for requests that could begin. A thread of low priority may not call it, because new threads inherit
 * the priority. The caller holds the lock. */
static void add_workers(struct prepare *prepare)
{
    while (ready_count(prepare) > prepare->idle_count && prepare->fast_count < prepare->most_fast &&
           prepare->worker_count < MAX_WORKERS && add_worker(prepare))
        ;
    (void)pthread_cond_broadcast(&prepare->changed);
}

/* Ends a request that was not begun. */
static void refuse(struct request *request, inlay_status code, const char *text)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)inlay_fail(&diag, code, "%s", text);
    request->preparation.work(request, &diag);
    request_wake(request);
}

void prepare_submit(struct prepare *prepare, struct request *request, bool is_large, prepare_work work)
{
    request_suspend(request);
    (void)pthread_mutex_lock(&prepare->lock);
    request->preparation.work = work;
    request->preparation.is_large = is_large;
    request->preparation.waits = true;
    add(list_of(prepare, request), request);
    add_workers(prepare);
    (void)pthread_mutex_unlock(&prepare->lock);
}

/* The request that runs has to end. */
static void stop(struct request *request, uint64_t now)
{
    struct prepare_worker *worker = request->preparation.worker;

    atomic_store(&request->preparation.stopped, true);
    if (worker->until_ns == 0 || now < worker->until_ns)
        worker->until_ns = now;
}

void prepare_cancel(struct prepare *prepare, struct request *request)
{
    bool waited;

    (void)pthread_mutex_lock(&prepare->lock);
    waited = request->preparation.waits;
    if (waited)
        take_out(list_of(prepare, request), request);
    else if (request->preparation.worker != NULL)
        stop(request, clock_ns());
    (void)pthread_mutex_unlock(&prepare->lock);
    if (waited)
        refuse(request, INLAY_CANCELLED, "the client disconnected");
}

/* Takes out a request whose deadline has passed, or any. The caller holds the lock. NULL: none. */
static struct request *take_late(struct prepare *prepare, bool any)
{
    const uint64_t now = clock_ns();
    struct waiting *const lists[] = { &prepare->small, &prepare->large };

    for (int i = 0; i < 2; i++)
        for (struct request *at = lists[i]->first; at != NULL; at = at->preparation.next)
            if (any || (at->job.deadline_ns != 0 && at->job.deadline_ns < now)) {
                take_out(lists[i], at);
                return at;
            }
    return NULL;
}

void prepare_check(struct prepare *prepare)
{
    const uint64_t now = clock_ns();
    struct request *late;

    (void)pthread_mutex_lock(&prepare->lock);
    for (struct prepare_worker *at = prepare->workers; at != NULL; at = at->next)
        if (!at->is_slow && at->since_ns != 0 && now > at->since_ns + SLOW_NS)
            slow_down(at);
    add_workers(prepare);
    while ((late = take_late(prepare, false)) != NULL) {
        (void)pthread_mutex_unlock(&prepare->lock);
        refuse(late, INLAY_DEADLINE_EXCEEDED, "the request's deadline passed before its body was read");
        (void)pthread_mutex_lock(&prepare->lock);
    }
    (void)pthread_mutex_unlock(&prepare->lock);
}

void prepare_end(struct prepare *prepare)
{
    const uint64_t now = clock_ns();
    struct request *late;

    (void)pthread_mutex_lock(&prepare->lock);
    for (struct prepare_worker *at = prepare->workers; at != NULL; at = at->next)
        if (at->request != NULL)
            stop(at->request, now);
    while ((late = take_late(prepare, true)) != NULL) {
        (void)pthread_mutex_unlock(&prepare->lock);
        refuse(late, INLAY_BUSY, SERVER_ENDING);
        (void)pthread_mutex_lock(&prepare->lock);
    }
    (void)pthread_mutex_unlock(&prepare->lock);
}

prepare_figures prepare_figures_of(struct prepare *prepare)
{
    const uint64_t now = clock_ns();
    prepare_figures figures;

    (void)pthread_mutex_lock(&prepare->lock);
    figures = prepare->figures;
    figures.waiting = prepare->small.count + prepare->large.count;
    for (const struct prepare_worker *at = prepare->workers; at != NULL; at = at->next) {
        figures.running += at->request != NULL;
        figures.stuck += at->request != NULL && at->until_ns != 0 && now > at->until_ns + stuck_ns;
    }
    (void)pthread_mutex_unlock(&prepare->lock);
    return figures;
}

inlay_status prepare_create(struct prepare **out_prepare, inlay_diag *diag)
{
    const uint32_t cpus = cpus_allowed();
    struct prepare *prepare = calloc(1, sizeof *prepare);
    bool good;

    *out_prepare = NULL;
    if (prepare == NULL)
        return no_memory(diag, "for the threads that prepare requests");
    prepare->most_large = cpus;
    prepare->most_fast = cpus < 2 ? 2 : cpus < MAX_FAST ? cpus : MAX_FAST;
    (void)pthread_mutex_init(&prepare->lock, NULL);
    (void)pthread_cond_init(&prepare->changed, NULL);
    (void)pthread_mutex_lock(&prepare->lock);
    good = add_worker(prepare);
    (void)pthread_mutex_unlock(&prepare->lock);
    *out_prepare = prepare;
    if (good)
        return INLAY_OK;
    prepare_destroy(prepare);
    *out_prepare = NULL;
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start a thread");
}

void prepare_destroy(struct prepare *prepare)
{
    if (prepare == NULL)
        return;
    (void)pthread_mutex_lock(&prepare->lock);
    prepare->stop = true;
    (void)pthread_cond_broadcast(&prepare->changed);
    while (prepare->worker_count > 0)
        (void)pthread_cond_wait(&prepare->changed, &prepare->lock);
    (void)pthread_mutex_unlock(&prepare->lock);
    (void)pthread_cond_destroy(&prepare->changed);
    (void)pthread_mutex_destroy(&prepare->lock);
    free(prepare);
}
