#include "serve/sched.h"
#include "serve/monitor.h"
#include "base/cpus.h"
#include "serve/join.h"
#include "serve/queue.h"
#include "serve/sequence.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    QUICK_NS = 300000, /* runs up to here happen on the thread that received the request */
    CHANGE_NS = 20000  /* what another thread costs; joining has to save more */
};

struct sched {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t *threads;
    uint32_t thread_count; /* running */
    uint32_t runners;      /* runs at once */
    uint32_t active;
    uint32_t waiting; /* threads that sleep */
    uint32_t cpus;    /* that the runs share */
    struct queues queues;
    bool stop;
};

/* ------------------------------------------------------------------ who is next, under the lock */

/* The model to run next; NULL: none, and none before *out_wake_at. */
static struct model *pick(struct sched *s, uint64_t now, uint64_t *out_wake_at)
{
    struct model *best = NULL;
    uint32_t best_level = UINT32_MAX;

    *out_wake_at = UINT64_MAX;
    for (struct model *m = s->queues.models; m != NULL; m = m->queue.next) {
        uint64_t at;
        uint32_t level;

        if (m->idle == NULL && queue_first(m)->sequence == NULL)
            continue;
        at = join_ready_at(m);
        if (at > now) {
            *out_wake_at = at < *out_wake_at ? at : *out_wake_at;
            continue;
        }
        level = queue_first(m)->level;
        if (best == NULL || level < best_level || (level == best_level && m->queue.used_ns < best->queue.used_ns)) {
            best = m;
            best_level = level;
        }
    }
    return best;
}

/* Takes the first request of the model, and those that can be joined to it. */
static uint32_t fill(struct sched *s, struct model *m, struct instance *i)
{
    uint32_t count = 0;
    uint64_t rows = 0, most = UINT64_MAX, now = clock_ns();

    for (uint32_t level = 0; level < PRIORITY_LEVELS; level++) {
        struct job *before = NULL;

        for (struct job *j = m->queue.first[level], *after; j != NULL; j = after) {
            uint64_t in_time;

            after = j->next;
            if (count == i->job_capacity)
                break;
            in_time = join_rows(j, now);
            in_time = in_time < most ? in_time : most;
            if (count == 0 || (rows + j->rows <= in_time && join_fits(i->jobs[0], j))) {
                rows += j->rows;
                most = in_time;
                i->jobs[count++] = j;
                queues_take(&s->queues, j, before);
                j->running = i;
            } else {
                before = j;
            }
        }
    }
    i->cancel = 0;
    i->live = count;
    return count;
}

/* Threads for a run that begins now, so that all that run, and those that will as soon as they can, have CPUs of their
 * own: threads of one run wait for each other, the longer the more others want the CPUs. */
static uint32_t share_of(const struct sched *s)
{
    uint32_t runs = s->queues.count < s->runners - s->active ? s->active + s->queues.count : s->runners;

    return s->cpus > runs ? s->cpus / runs : 1;
}

/* The one to run this job: a sequence has its own. */
static struct instance *take_instance(struct sched *s, const struct job *j)
{
    struct model *m = j->model;
    struct instance *i = j->sequence != NULL ? &j->sequence->instance : m->idle;

    if (j->sequence == NULL)
        m->idle = i->next;
    s->active++;
    return i;
}

static double smooth(double mean, double value)
{
    return mean == 0 ? value : mean + (value - mean) / 8;
}

/* After a run of so many rows and bytes of inputs. */
static void give_instance(struct sched *s, struct model *m, struct instance *i, struct sequence *q, uint64_t ns,
                          uint64_t rows, uint64_t bytes)
{
    if (m->settings.max_batch > 1)
        batch_cost_add(&m->queue.cost, rows, (double)ns);
    if (q != NULL) {
        queues_advance(&s->queues, q);
    } else {
        i->next = m->idle;
        m->idle = i;
    }
    m->queue.used_ns += ns;
    m->queue.run_ns = smooth(m->queue.run_ns, (double)ns);
    m->queue.run_bytes = smooth(m->queue.run_bytes, (double)bytes);
    s->active--;
}

/* ------------------------------------------------------------------ threads */

/* Runs what pick() chose; the lock is held before and after. */
static void run_model(struct sched *s, struct model *m)
{
    struct sequence *q = queue_first(m)->sequence;
    struct instance *i = take_instance(s, queue_first(m));
    uint32_t count = fill(s, m, i);
    uint64_t start, bytes = 0, rows = 0;

    i->threads = share_of(s);
    for (uint32_t n = 0; n < count; n++) {
        bytes += i->jobs[n]->bytes;
        rows += i->jobs[n]->rows;
    }
    (void)model_ref(m); /* the jobs' own end with them */
    if (s->queues.models != NULL && s->waiting > 0 && s->active < s->runners)
        (void)pthread_cond_signal(&s->work);
    (void)pthread_mutex_unlock(&s->lock);
    start = clock_ns();
    model_run(m, i, count);
    (void)pthread_mutex_lock(&s->lock);
    give_instance(s, m, i, q, clock_ns() - start, rows, bytes);
    (void)pthread_mutex_unlock(&s->lock);
    model_unref(m); /* may destroy it, which takes a while */
    (void)pthread_mutex_lock(&s->lock);
}

static void sleep_until(struct sched *s, uint64_t at)
{
    struct timespec t = { .tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u) };

    s->waiting++;
    if (at == UINT64_MAX)
        (void)pthread_cond_wait(&s->work, &s->lock);
    else
        (void)pthread_cond_timedwait(&s->work, &s->lock, &t);
    s->waiting--;
}

static void *runner(void *user)
{
    struct sched *s = user;

    (void)prctl(PR_SET_TIMERSLACK, 1000); /* delays are in microseconds */
    (void)pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        uint64_t wake_at = UINT64_MAX;
        struct model *m = s->active < s->runners ? pick(s, clock_ns(), &wake_at) : NULL;

        if (m != NULL)
            run_model(s, m);
        else
            sleep_until(s, wake_at);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

inlay_status sched_create(uint32_t runners, struct sched **out_sched, inlay_diag *diag)
{
    struct sched *s = calloc(1, sizeof *s);

    *out_sched = NULL;
    if (s == NULL || (s->threads = calloc(runners, sizeof *s->threads)) == NULL) {
        free(s);
        return no_memory(diag, "for %u runners", runners);
    }
    monitor_init(&s->lock, &s->work);
    s->runners = runners;
    s->cpus = cpus_allowed();
    while (s->thread_count < runners && pthread_create(&s->threads[s->thread_count], NULL, runner, s) == 0)
        s->thread_count++;
    if (s->thread_count < runners) {
        sched_destroy(s);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start %u threads", runners);
    }
    *out_sched = s;
    return INLAY_OK;
}

void sched_destroy(struct sched *s)
{
    if (s == NULL)
        return;
    (void)pthread_mutex_lock(&s->lock);
    s->stop = true;
    (void)pthread_cond_broadcast(&s->work);
    (void)pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->thread_count; i++)
        (void)pthread_join(s->threads[i], NULL);
    (void)pthread_cond_destroy(&s->work);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->threads);
    free(s);
}

/* ------------------------------------------------------------------ requests */

/* Nothing would be gained by waiting or joining, and the run is shorter than waking a thread for it. */
static bool is_quick(const struct sched *s, const struct job *j)
{
    const struct model *m = j->model;
    double larger = m->queue.run_bytes > 0 ? (double)j->bytes / m->queue.run_bytes : 1;

    return (j->sequence != NULL ? !j->sequence->busy : m->idle != NULL) && s->queues.models == NULL &&
           s->active < s->runners && m->queue.run_ns > 0 && m->queue.run_ns * (larger > 1 ? larger : 1) < QUICK_NS &&
           (m->settings.max_batch <= 1 ||
            (m->settings.batch_delay_us == 0 && batch_cost_gain(&m->queue.cost) < CHANGE_NS));
}

sched_answer sched_submit(struct sched *s, struct job *j, void (*suspend)(void *user), void *user)
{
    struct model *m = j->model;
    struct instance *i;

    j->queued_ns = clock_ns();
    (void)pthread_mutex_lock(&s->lock);
    if (is_quick(s, j)) {
        uint64_t start = clock_ns(), bytes = j->bytes, rows = j->rows;

        struct sequence *q = j->sequence;

        if (q != NULL)
            q->busy = true;
        i = take_instance(s, j);
        i->jobs[0] = j;
        i->cancel = 0;
        i->live = 1;
        i->threads = share_of(s);
        j->running = i;
        (void)model_ref(m);
        (void)pthread_mutex_unlock(&s->lock);
        model_run(m, i, 1);
        (void)pthread_mutex_lock(&s->lock);
        give_instance(s, m, i, q, clock_ns() - start, rows, bytes);
        if (s->queues.models != NULL && s->waiting > 0)
            (void)pthread_cond_signal(&s->work);
        (void)pthread_mutex_unlock(&s->lock);
        model_unref(m);
        return SCHED_DONE;
    }
    if (m->queue.count + m->queue.held >= m->settings.max_queue) {
        (void)pthread_mutex_unlock(&s->lock);
        return SCHED_FULL;
    }
    suspend(user);
    if (j->sequence != NULL && j->sequence->busy) {
        queues_hold(&s->queues, j);
    } else {
        if (j->sequence != NULL)
            j->sequence->busy = true;
        queues_push(&s->queues, j);
    }
    if (s->waiting > 0)
        (void)pthread_cond_signal(&s->work);
    (void)pthread_mutex_unlock(&s->lock);
    return SCHED_QUEUED;
}

bool sched_cancel(struct sched *s, struct job *j)
{
    bool waited;
    struct job *before = NULL;

    (void)pthread_mutex_lock(&s->lock);
    waited = j->queued || j->held;
    if (j->held) {
        queues_unhold(&s->queues, j);
    } else if (waited) {
        for (struct job *k = j->model->queue.first[j->level - 1]; k != j; k = k->next)
            before = k;
        queues_take(&s->queues, j, before);
        queues_advance(&s->queues, j->sequence);
    } else if (j->running != NULL && !j->cancelled && --j->running->live == 0) {
        __atomic_store_n(&j->running->cancel, 1, __ATOMIC_RELAXED);
    }
    j->cancelled = true;
    (void)pthread_mutex_unlock(&s->lock);
    return waited;
}

static void finish_late(struct job *j)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)inlay_fail(&diag, INLAY_DEADLINE_EXCEEDED, "the request's time was up before it could run");
    j->started_ns = clock_ns();
    j->finish(j, &diag, NULL, 0);
}

static bool is_late(const struct job *j, uint64_t now)
{
    return j->deadline_ns != 0 && j->deadline_ns <= now;
}

/* Takes the late requests of a model's level out, in front of `late`. */
static struct job *take_late(struct sched *s, struct model *m, uint32_t level, uint64_t now, struct job *late)
{
    struct job *before = NULL;

    for (struct job *j = m->queue.first[level], *after; j != NULL; j = after) {
        after = j->next;
        if (!is_late(j, now)) {
            before = j;
            continue;
        }
        queues_take(&s->queues, j, before);
        queues_advance(&s->queues, j->sequence);
        j->next = late;
        late = j;
    }
    return late;
}

void sched_expire(struct sched *s)
{
    uint64_t now = clock_ns();
    struct job *late = NULL;

    (void)pthread_mutex_lock(&s->lock);
    for (struct job *j = s->queues.held, *after; j != NULL;
         j = after) { /* first: what is queued late must not be followed by these */
        after = j->next_held;
        if (is_late(j, now)) {
            queues_unhold(&s->queues, j);
            j->next = late;
            late = j;
        }
    }
    for (struct model *m = s->queues.models, *next_model; m != NULL; m = next_model) {
        next_model = m->queue.next;
        for (uint32_t level = 0; level < PRIORITY_LEVELS; level++)
            late = take_late(s, m, level, now, late);
    }
    (void)pthread_mutex_unlock(&s->lock);
    for (struct job *after; late != NULL; late = after) {
        after = late->next;
        finish_late(late);
    }
}

uint32_t sched_queued(struct sched *s, const struct model *m)
{
    uint32_t count;

    (void)pthread_mutex_lock(&s->lock);
    count = m->queue.count;
    (void)pthread_mutex_unlock(&s->lock);
    return count;
}

uint32_t sched_best_rows(struct sched *s, const struct model *m)
{
    uint32_t best;

    (void)pthread_mutex_lock(&s->lock);
    best = m->queue.cost.best;
    (void)pthread_mutex_unlock(&s->lock);
    return best;
}

uint32_t sched_running(struct sched *s)
{
    uint32_t count;

    (void)pthread_mutex_lock(&s->lock);
    count = s->active;
    (void)pthread_mutex_unlock(&s->lock);
    return count;
}

uint32_t sched_retry_after(struct sched *s, const struct model *m)
{
    double seconds;

    (void)pthread_mutex_lock(&s->lock);
    seconds = m->queue.count * m->queue.run_ns / 1e9 / m->settings.instances;
    (void)pthread_mutex_unlock(&s->lock);
    return seconds < 1 ? 1 : seconds > 60 ? 60 : (uint32_t)seconds + 1;
}
