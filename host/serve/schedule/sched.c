#include "serve/schedule/sched.h"
#include "inlay/check.h"
#include "serve/base/monitor.h"
#include "serve/base/settings.h"
#include "base/cpus.h"
#include "serve/schedule/batching.h"
#include "serve/schedule/queue.h"
#include "serve/model/sequence.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum {
    QUICK_NS = 300000, /* runs up to this time happen on the thread that received the request */
    SPARE_JOBS = 16,   /* most waiting jobs of sched_submit_spare() */
    LONG_NS = 4000000  /* runs from this time on count as long, see extra_runner() */
};
static const uint64_t stuck_ns = 5000000000;

struct sched {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t *threads;
    uint32_t thread_count; /* started threads: runners, and extra ones */
    uint32_t runners;      /* most concurrent runs */
    uint32_t active;       /* runs of requests; those of spare jobs and of extra threads do not count */
    uint32_t waiting;      /* sleeping threads */
    pthread_cond_t extra_work;
    uint32_t extra_waiting; /* extra threads without a run */
    uint32_t extra_timed;   /* of these, those that look again at a time */
    uint32_t cpus;          /* CPUs that the runs share */
    double crowd;           /* mean number of requests that run or wait when a run begins */
    struct queues queues;
    struct instance *runs; /* that run now, linked by `next` */
    sched_lending lending;
    struct job *spare, **spare_end; /* jobs of sched_submit_spare(), by arrival; where the next one is linked */
    uint32_t spare_count;
    struct instance *spare_run; /* that runs one of them now; NULL: none */
    pthread_cond_t spare_work;
    pthread_t spare_thread; /* started with the first such job */
    bool has_spare_thread;
    bool ending; /* sched_end() was called */
    bool stop;
};

/* The model to run next; NULL: none until *out_wake_at. */
static struct model *pick(struct sched *sched, uint64_t now, uint64_t *out_wake_at)
{
    struct model *best = NULL;
    uint32_t best_level = UINT32_MAX;

    *out_wake_at = UINT64_MAX;
    for (struct model *model = sched->queues.models; model != NULL; model = model->queue.next) {
        uint64_t at;
        uint32_t level;

        if (model->pool.idle == NULL && queue_first(model)->sequence == NULL)
            continue;
        at = batching_ready_at(model);
        if (at > now) {
            *out_wake_at = at < *out_wake_at ? at : *out_wake_at;
            continue;
        }
        level = queue_first(model)->level;
        if (best == NULL || level < best_level || (level == best_level && model->queue.used_ns < best->queue.used_ns)) {
            best = model;
            best_level = level;
        }
    }
    return best;
}

/* Moves the first request of the model, and requests that can be batched with it, to the instance. */
static uint32_t fill(struct sched *sched, struct model *model, struct instance *instance)
{
    uint32_t count = 0;
    uint64_t rows = 0, limit = UINT64_MAX, now = clock_ns();

    for (uint32_t level = 0; level < PRIORITY_LEVELS; level++) {
        struct job *before = NULL;

        for (struct job *job = model->queue.first[level], *after; job != NULL; job = after) {
            uint64_t in_time;

            after = job->next;
            if (count == instance->job_capacity)
                break;
            in_time = batching_rows(job, now);
            in_time = in_time < limit ? in_time : limit;
            if (count == 0 || (rows + job->size.rows <= in_time && batching_fits(instance->jobs[0], job))) {
                rows += job->size.rows;
                limit = in_time;
                instance->jobs[count++] = job;
                queues_take(&sched->queues, job, before);
                job->running = instance;
            } else {
                before = job;
            }
        }
    }
    instance->cancel = sched->ending;
    instance->live = count;
    return count;
}

static double smooth(double mean, double value)
{
    return mean == 0 ? value : mean + (value - mean) / 8;
}

/* Number of threads for a run that begins now, so that active runs, and those that can start soon, have separate CPUs:
 * threads of one run wait for each other, and longer if other runs need the CPUs. A client that is about to send its
 * next request is not visible, so a running mean of earlier loads counts, too. The spare run gets as many threads as
 * one more request would get, but does not reduce the share of later runs. */
static uint32_t share_of(struct sched *sched, bool is_spare)
{
    uint32_t active = sched->active + is_spare, runs;

    INLAY_CHECK(active <= sched->runners);
    runs = sched->queues.count < sched->runners - active ? active + sched->queues.count : sched->runners;
    if (!is_spare)
        sched->crowd = smooth(sched->crowd, runs);
    if (sched->crowd >= runs + 0.25)
        runs = (uint32_t)(sched->crowd + 0.75);
    return sched->cpus > runs ? sched->cpus / runs : 1;
}

/* Asks the spare run to stop. */
static void stop_spare(struct sched *sched)
{
    if (sched->spare_run != NULL)
        __atomic_store_n(&sched->spare_run->cancel, 1, __ATOMIC_RELAXED);
}

static void *extra_runner(void *user);

/* If a model has requests and no run, and no extra thread will search at its time, lets an extra thread search for such
 * a model: a waiting thread, or a new one unless there are already as many extra threads as runners. If no thread can
 * be started, requests only wait longer. Called when the last runner takes a run, and when a request is queued after
 * that. */
static void call_extra(struct sched *sched)
{
    const struct model *model = sched->queues.models;

    if (sched->extra_timed > 0)
        return;
    while (model != NULL && model->queue.running > 0)
        model = model->queue.next;
    if (model == NULL)
        return;
    if (sched->extra_waiting == 0 && sched->thread_count < 2 * sched->runners &&
        pthread_create(&sched->threads[sched->thread_count], NULL, extra_runner, sched) == 0) {
        sched->thread_count++;
        sched->extra_waiting++;
    }
    (void)pthread_cond_signal(&sched->extra_work);
}

/* Takes the instance for this job; a sequence has a separate one. */
static struct instance *take_instance(struct sched *sched, const struct job *job, bool is_extra)
{
    struct model *model = job->model;
    struct instance *instance = job->sequence != NULL ? &job->sequence->instance : model->pool.idle;

    INLAY_CHECK(instance != NULL); /* pick() and is_quick() check that one is idle */
    if (job->sequence == NULL)
        model->pool.idle = instance->next;
    instance->is_spare = job->is_copy;
    instance->is_extra = is_extra;
    instance->started_ns = clock_ns();
    instance->until_ns = 0;
    instance->next = sched->runs;
    sched->runs = instance;
    model->queue.running += !instance->is_spare;
    sched->active += !instance->is_spare && !is_extra;
    if (sched->active == sched->runners) {
        stop_spare(sched);
        call_extra(sched);
    }
    return instance;
}

/* Returns an instance after a run with `rows` rows and `bytes` bytes of inputs. A run that did not complete, because of
 * its deadline, its client or a wrong input, shows only that runs can take that long, not that they are quick. */
static void return_instance(struct sched *sched, struct model *model, struct instance *instance,
                            struct sequence *sequence, bool completed, uint64_t ns, uint64_t rows, uint64_t bytes)
{
    struct instance **at = &sched->runs;

    while (*at != instance)
        at = &(*at)->next;
    *at = instance->next;
    if (instance == sched->spare_run)
        sched->spare_run = NULL;
    if (completed && model->settings.max_batch > 1 &&
        (!model->settings.chooses_batch || instance->threads <= model->settings.busy_threads))
        batch_cost_add(&model->queue.cost, rows, (double)ns);
    if (sequence != NULL) {
        queues_advance(&sched->queues, sequence);
    } else {
        instance->next = model->pool.idle;
        model->pool.idle = instance;
    }
    model_run_idle(model, instance);
    if (!instance->is_spare) {
        INLAY_CHECK(model->queue.running > 0);
        model->queue.running--;
        model->queue.used_ns += ns;
    }
    if (completed || (ns >= QUICK_NS && !instance->is_spare)) {
        model->queue.run_ns = smooth(model->queue.run_ns, (double)ns);
        model->queue.run_bytes = smooth(model->queue.run_bytes, (double)bytes);
    }
    if (instance->is_spare || instance->is_extra) {
        if (sched->queues.models != NULL && sched->waiting > 0) /* a request may need the instance */
            (void)pthread_cond_signal(&sched->work);
        return;
    }
    INLAY_CHECK(sched->active > 0);
    sched->active--;
    if (sched->spare != NULL)
        (void)pthread_cond_signal(&sched->spare_work);
}

/* Notes by when the run of these jobs should have ended. */
static void set_until(struct instance *instance, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t deadline = instance->jobs[i]->deadline_ns;

        instance->until_ns = deadline == 0 ? UINT64_MAX : deadline > instance->until_ns ? deadline : instance->until_ns;
    }
}

/* Runs the jobs of the instance; the lock is held before and after. */
static void run_instance(struct sched *sched, struct model *model, struct instance *instance, uint32_t count,
                         struct sequence *sequence)
{
    uint64_t start, bytes = 0, rows = 0;
    bool completed;

    instance->threads = instance->is_extra ? 1 : share_of(sched, instance->is_spare);
    set_until(instance, count);
    for (uint32_t i = 0; i < count; i++) {
        bytes += instance->jobs[i]->size.bytes;
        rows += instance->jobs[i]->size.rows;
    }
    (void)model_ref(model); /* the jobs' references end when they are finished */
    if (sched->queues.models != NULL && sched->waiting > 0 && sched->active < sched->runners)
        (void)pthread_cond_signal(&sched->work);
    (void)pthread_mutex_unlock(&sched->lock);
    start = clock_ns();
    completed = model_run(model, instance, count);
    (void)pthread_mutex_lock(&sched->lock);
    return_instance(sched, model, instance, sequence, completed, clock_ns() - start, rows, bytes);
    (void)pthread_mutex_unlock(&sched->lock);
    model_unref(model); /* may destroy it, which takes a while */
    (void)pthread_mutex_lock(&sched->lock);
}

/* Runs the model that pick() selected; the lock is held before and after. */
static void run_model(struct sched *sched, struct model *model, bool is_extra)
{
    struct sequence *sequence = queue_first(model)->sequence;
    struct instance *instance = take_instance(sched, queue_first(model), is_extra);

    run_instance(sched, model, instance, fill(sched, model, instance), sequence);
}

static void sleep_until(struct sched *sched, uint64_t at)
{
    struct timespec until = { .tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u) };

    sched->waiting++;
    if (at == UINT64_MAX)
        (void)pthread_cond_wait(&sched->work, &sched->lock);
    else
        (void)pthread_cond_timedwait(&sched->work, &sched->lock, &until);
    sched->waiting--;
}

static void *runner(void *user)
{
    struct sched *sched = user;

    (void)prctl(PR_SET_TIMERSLACK, 1000); /* delays are in microseconds */
    (void)pthread_mutex_lock(&sched->lock);
    while (!sched->stop) {
        uint64_t wake_at = UINT64_MAX;
        struct model *model = sched->active < sched->runners ? pick(sched, clock_ns(), &wake_at) : NULL;

        if (model != NULL)
            run_model(sched, model, false);
        else
            sleep_until(sched, wake_at);
    }
    (void)pthread_mutex_unlock(&sched->lock);
    return NULL;
}

/* A model that has requests and no run while the run of each runner has taken LONG_NS; NULL: none until
 * *out_wake_at. */
static struct model *pick_starved(struct sched *sched, uint64_t now, uint64_t *out_wake_at)
{
    struct model *best = NULL;
    uint64_t youngest = 0;

    *out_wake_at = UINT64_MAX;
    if (sched->active < sched->runners || sched->ending)
        return NULL;
    for (const struct instance *instance = sched->runs; instance != NULL; instance = instance->next)
        if (!instance->is_spare && !instance->is_extra && instance->started_ns > youngest)
            youngest = instance->started_ns;
    if (now < youngest + LONG_NS) {
        *out_wake_at = youngest + LONG_NS;
        return NULL;
    }
    for (struct model *model = sched->queues.models; model != NULL; model = model->queue.next) {
        const struct job *first = queue_first(model);

        if (model->queue.running == 0 && (model->pool.idle != NULL || first->sequence != NULL) &&
            (best == NULL || first->level < queue_first(best)->level))
            best = model;
    }
    return best;
}

static void *extra_runner(void *user)
{
    struct sched *sched = user;

    (void)pthread_mutex_lock(&sched->lock);
    while (!sched->stop) {
        uint64_t wake_at;
        struct model *model = pick_starved(sched, clock_ns(), &wake_at);
        struct timespec until = { .tv_sec = (time_t)(wake_at / 1000000000u), .tv_nsec = (long)(wake_at % 1000000000u) };

        if (model != NULL) {
            sched->extra_waiting--;
            run_model(sched, model, true);
            sched->extra_waiting++;
        } else if (wake_at == UINT64_MAX) {
            (void)pthread_cond_wait(&sched->extra_work, &sched->lock);
        } else {
            sched->extra_timed++;
            (void)pthread_cond_timedwait(&sched->extra_work, &sched->lock, &until);
            sched->extra_timed--;
        }
    }
    (void)pthread_mutex_unlock(&sched->lock);
    return NULL;
}

/* Removes the spare job at *at from the list. */
static struct job *take_spare(struct sched *sched, struct job **at)
{
    struct job *job = *at;

    INLAY_CHECK(sched->spare_count > 0);
    *at = job->next;
    sched->spare_count--;
    if (job->next == NULL)
        sched->spare_end = at;
    return job;
}

/* The spare job that may run now; NULL: none. */
static struct job *pick_spare(struct sched *sched)
{
    struct job **at = &sched->spare;

    if (sched->queues.count > 0 || sched->active >= sched->runners || sched->ending)
        return NULL;
    while (*at != NULL && (*at)->model->pool.idle == NULL)
        at = &(*at)->next;
    return *at != NULL ? take_spare(sched, at) : NULL;
}

static void *spare_runner(void *user)
{
    struct sched *sched = user;

    (void)pthread_mutex_lock(&sched->lock);
    while (!sched->stop) {
        struct job *job = pick_spare(sched);
        struct instance *instance;

        if (job == NULL) {
            (void)pthread_cond_wait(&sched->spare_work, &sched->lock);
            continue;
        }
        instance = take_instance(sched, job, false);
        job->deadline_ns = 0; /* of its wait */
        instance->jobs[0] = job;
        instance->cancel = 0;
        instance->live = 1;
        job->running = instance;
        sched->spare_run = instance;
        run_instance(sched, job->model, instance, 1, NULL);
    }
    (void)pthread_mutex_unlock(&sched->lock);
    return NULL;
}

inlay_status sched_create(uint32_t runners, sched_lending lending, struct sched **out_sched, inlay_diag *diag)
{
    struct sched *sched = calloc(1, sizeof *sched);

    *out_sched = NULL;
    if (sched == NULL || (sched->threads = calloc(2 * (size_t)runners, sizeof *sched->threads)) == NULL) {
        free(sched);
        return no_memory(diag, "for %u runners", runners);
    }
    monitor_init(&sched->lock, &sched->work);
    monitor_init_condition(&sched->extra_work);
    (void)pthread_cond_init(&sched->spare_work, NULL);
    sched->spare_end = &sched->spare;
    sched->runners = runners;
    sched->lending = lending;
    sched->cpus = cpus_allowed();
    while (sched->thread_count < runners &&
           pthread_create(&sched->threads[sched->thread_count], NULL, runner, sched) == 0)
        sched->thread_count++;
    if (sched->thread_count < runners) {
        sched_destroy(sched);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start %u threads", runners);
    }
    *out_sched = sched;
    return INLAY_OK;
}

/* Finishes a list of requests that will not run. */
static void finish_all(struct job *list, inlay_status code, const char *why)
{
    for (struct job *job = list, *after; job != NULL; job = after) {
        inlay_diag diag = INLAY_DIAG_INIT;

        after = job->next;
        (void)inlay_fail(&diag, code, "%s", why);
        job->run.started_ns = clock_ns();
        job->finish(job, &diag, NULL, 0);
    }
}

void sched_destroy(struct sched *sched)
{
    if (sched == NULL)
        return;
    (void)pthread_mutex_lock(&sched->lock);
    sched->stop = true;
    stop_spare(sched);
    (void)pthread_cond_broadcast(&sched->work);
    (void)pthread_cond_broadcast(&sched->extra_work);
    (void)pthread_cond_signal(&sched->spare_work);
    (void)pthread_mutex_unlock(&sched->lock);
    if (sched->has_spare_thread)
        (void)pthread_join(sched->spare_thread, NULL);
    finish_all(sched->spare, INLAY_BUSY, SERVER_ENDING);
    for (uint32_t i = 0; i < sched->thread_count; i++)
        (void)pthread_join(sched->threads[i], NULL);
    (void)pthread_cond_destroy(&sched->work);
    (void)pthread_cond_destroy(&sched->extra_work);
    (void)pthread_cond_destroy(&sched->spare_work);
    (void)pthread_mutex_destroy(&sched->lock);
    free(sched->threads);
    free(sched);
}

/* Whether neither waiting nor batching would help, and the run is shorter than waking a thread for it. Not if another
 * run of the model was expected to be and is not. */
static bool is_quick(const struct sched *sched, const struct job *job)
{
    const struct model *model = job->model;
    double larger = model->queue.run_bytes > 0 ? (double)job->size.bytes / model->queue.run_bytes : 1;

    return !job->is_retry && (job->sequence != NULL ? !job->sequence->busy : model->pool.idle != NULL) &&
           sched->queues.models == NULL && sched->active < sched->runners && model->queue.run_ns > 0 &&
           (model->queue.quick_runs == 0 || job->run.queued_ns < model->queue.quick_ns + QUICK_NS) &&
           model->queue.run_ns * (larger > 1 ? larger : 1) < QUICK_NS &&
           (model->settings.max_batch <= 1 ||
            (model->settings.batch_delay_us == 0 && !batch_cost_is_worth(&model->queue.cost)));
}

/* Runs the job on this thread. The lock is held before, not after. */
static void run_here(struct sched *sched, struct job *job)
{
    struct model *model = job->model;
    uint64_t start = clock_ns(), bytes = job->size.bytes, rows = job->size.rows;
    struct sequence *sequence = job->sequence;
    struct instance *instance = take_instance(sched, job, false);
    bool completed, lent;

    if (sequence != NULL)
        sequence->busy = true;
    instance->jobs[0] = job;
    instance->cancel = sched->ending;
    instance->live = 1;
    instance->threads = share_of(sched, false);
    job->running = instance;
    set_until(instance, 1);
    model->queue.quick_runs++;
    model->queue.quick_ns = start;
    (void)model_ref(model);
    (void)pthread_mutex_unlock(&sched->lock);
    lent = sched->lending.lend();
    completed = model_run(model, instance, 1);
    if (lent)
        sched->lending.take_back();
    (void)pthread_mutex_lock(&sched->lock);
    model->queue.quick_runs--;
    return_instance(sched, model, instance, sequence, completed, clock_ns() - start, rows, bytes);
    if (sched->queues.models != NULL && sched->waiting > 0)
        (void)pthread_cond_signal(&sched->work);
    (void)pthread_mutex_unlock(&sched->lock);
    model_unref(model);
}

sched_result sched_submit(struct sched *sched, struct job *job, void (*suspend)(void *user), void *user)
{
    struct model *model = job->model;

    job->run.queued_ns = clock_ns();
    (void)pthread_mutex_lock(&sched->lock);
    job->running = NULL; /* a job may be submitted again, see is_retry */
    if (is_quick(sched, job)) {
        run_here(sched, job);
        return SCHED_DONE;
    }
    if (!job->is_admitted && model->queue.count + model->queue.held >= model->settings.max_queue) {
        (void)pthread_mutex_unlock(&sched->lock);
        return SCHED_FULL;
    }
    suspend(user);
    if (job->sequence != NULL && job->sequence->busy) {
        queues_hold(&sched->queues, job);
    } else {
        if (job->sequence != NULL)
            job->sequence->busy = true;
        queues_push(&sched->queues, job);
    }
    if (model->pool.idle == NULL) /* the spare run may have its instance */
        stop_spare(sched);
    if (sched->waiting > 0)
        (void)pthread_cond_signal(&sched->work);
    if (sched->active >= sched->runners && model->queue.running == 0)
        call_extra(sched);
    (void)pthread_mutex_unlock(&sched->lock);
    return SCHED_QUEUED;
}

static bool has_room(const struct sched *sched)
{
    return sched->queues.count == 0 && sched->spare_count < SPARE_JOBS && !sched->ending && !sched->stop;
}

bool sched_has_room(struct sched *sched)
{
    bool room;

    (void)pthread_mutex_lock(&sched->lock);
    room = has_room(sched);
    (void)pthread_mutex_unlock(&sched->lock);
    return room;
}

bool sched_submit_spare(struct sched *sched, struct job *job)
{
    bool taken;

    INLAY_CHECK(job->is_copy && job->sequence == NULL);
    (void)pthread_mutex_lock(&sched->lock);
    if (!sched->has_spare_thread)
        sched->has_spare_thread = pthread_create(&sched->spare_thread, NULL, spare_runner, sched) == 0;
    taken = has_room(sched) && sched->has_spare_thread;
    if (taken) {
        job->next = NULL;
        *sched->spare_end = job;
        sched->spare_end = &job->next;
        sched->spare_count++;
        (void)pthread_cond_signal(&sched->spare_work);
    }
    (void)pthread_mutex_unlock(&sched->lock);
    return taken;
}

bool sched_is_spare_running(struct sched *sched)
{
    bool running;

    (void)pthread_mutex_lock(&sched->lock);
    running = sched->spare_run != NULL;
    (void)pthread_mutex_unlock(&sched->lock);
    return running;
}

bool sched_cancel(struct sched *sched, struct job *job)
{
    bool waited;
    struct job *before = NULL;

    (void)pthread_mutex_lock(&sched->lock);
    waited = job->queued || job->held;
    if (job->held) {
        queues_unhold(&sched->queues, job);
    } else if (waited) {
        for (struct job *other = job->model->queue.first[job->level - 1]; other != job; other = other->next)
            before = other;
        queues_take(&sched->queues, job, before);
        queues_advance(&sched->queues, job->sequence);
    } else if (job->running != NULL && !job->cancelled && --job->running->live == 0) {
        __atomic_store_n(&job->running->cancel, 1, __ATOMIC_RELAXED);
        job->running->until_ns = clock_ns();
    }
    job->cancelled = true;
    (void)pthread_mutex_unlock(&sched->lock);
    return waited;
}

/* until UINT64_MAX: all are over. */
static bool is_over(const struct job *job, uint64_t until)
{
    return until == UINT64_MAX || (job->deadline_ns != 0 && job->deadline_ns <= until);
}

/* Removes the requests of a model's level that are over and puts them in front of the list `over`. */
static struct job *take_level(struct sched *sched, struct model *model, uint32_t level, uint64_t until,
                              struct job *over)
{
    struct job *before = NULL;

    for (struct job *job = model->queue.first[level], *after; job != NULL; job = after) {
        after = job->next;
        if (!is_over(job, until)) {
            before = job;
            continue;
        }
        queues_take(&sched->queues, job, before);
        queues_advance(&sched->queues, job->sequence);
        job->next = over;
        over = job;
    }
    return over;
}

/* Removes the waiting requests that are over. The lock is held. */
static struct job *take_over(struct sched *sched, uint64_t until)
{
    struct job *over = NULL;

    /* Held requests first: taking a queued request would queue the held one behind it. */
    for (struct job *job = sched->queues.held, *after; job != NULL; job = after) {
        after = job->next_held;
        if (is_over(job, until)) {
            queues_unhold(&sched->queues, job);
            job->next = over;
            over = job;
        }
    }
    for (struct model *model = sched->queues.models, *next_model; model != NULL; model = next_model) {
        next_model = model->queue.next;
        for (uint32_t level = 0; level < PRIORITY_LEVELS; level++)
            over = take_level(sched, model, level, until, over);
    }
    for (struct job **at = &sched->spare; *at != NULL;) {
        struct job *job = *at;

        if (!is_over(job, until)) {
            at = &job->next;
            continue;
        }
        (void)take_spare(sched, at);
        job->next = over;
        over = job;
    }
    return over;
}

void sched_trim(struct sched *sched, struct model *model)
{
    struct instance *idle, *last = NULL;

    (void)pthread_mutex_lock(&sched->lock);
    idle = model->pool.idle;
    model->pool.idle = NULL;
    (void)pthread_mutex_unlock(&sched->lock);
    for (struct instance *instance = idle; instance != NULL; instance = instance->next) {
        instance_trim(model, instance);
        last = instance;
    }
    if (last == NULL)
        return;
    (void)pthread_mutex_lock(&sched->lock);
    last->next = model->pool.idle;
    model->pool.idle = idle;
    (void)pthread_cond_broadcast(&sched->work); /* requests may have waited for the instances */
    (void)pthread_cond_broadcast(&sched->extra_work);
    (void)pthread_cond_signal(&sched->spare_work);
    (void)pthread_mutex_unlock(&sched->lock);
}

void sched_expire(struct sched *sched)
{
    struct job *over;

    (void)pthread_mutex_lock(&sched->lock);
    over = take_over(sched, clock_ns());
    (void)pthread_mutex_unlock(&sched->lock);
    finish_all(over, INLAY_DEADLINE_EXCEEDED, "the request's deadline passed before it could run");
}

void sched_end(struct sched *sched)
{
    struct job *over;

    (void)pthread_mutex_lock(&sched->lock);
    sched->ending = true;
    for (struct instance *instance = sched->runs; instance != NULL; instance = instance->next)
        __atomic_store_n(&instance->cancel, 1, __ATOMIC_RELAXED);
    over = take_over(sched, UINT64_MAX);
    (void)pthread_mutex_unlock(&sched->lock);
    finish_all(over, INLAY_BUSY, SERVER_ENDING);
}

uint32_t sched_queued(struct sched *sched, const struct model *model)
{
    uint32_t count;

    (void)pthread_mutex_lock(&sched->lock);
    count = model->queue.count;
    (void)pthread_mutex_unlock(&sched->lock);
    return count;
}

uint32_t sched_best_rows(struct sched *sched, const struct model *model)
{
    uint32_t best;

    (void)pthread_mutex_lock(&sched->lock);
    best = model->queue.cost.best;
    (void)pthread_mutex_unlock(&sched->lock);
    return best;
}

uint32_t sched_stuck(struct sched *sched)
{
    const uint64_t now = clock_ns();
    uint32_t count = 0;

    (void)pthread_mutex_lock(&sched->lock);
    for (const struct instance *instance = sched->runs; instance != NULL; instance = instance->next)
        count += instance->until_ns != 0 && instance->until_ns < now && now - instance->until_ns > stuck_ns;
    (void)pthread_mutex_unlock(&sched->lock);
    return count;
}

uint32_t sched_extra(struct sched *sched)
{
    uint32_t count = 0;

    (void)pthread_mutex_lock(&sched->lock);
    for (const struct instance *instance = sched->runs; instance != NULL; instance = instance->next)
        count += instance->is_extra;
    (void)pthread_mutex_unlock(&sched->lock);
    return count;
}

uint32_t sched_running(struct sched *sched)
{
    uint32_t count;

    (void)pthread_mutex_lock(&sched->lock);
    count = sched->active;
    (void)pthread_mutex_unlock(&sched->lock);
    return count;
}

uint32_t sched_retry_after(struct sched *sched, const struct model *model)
{
    double seconds;

    INLAY_CHECK(model->settings.instances > 0);
    (void)pthread_mutex_lock(&sched->lock);
    seconds = model->queue.count * model->queue.run_ns / 1e9 / model->settings.instances;
    (void)pthread_mutex_unlock(&sched->lock);
    return seconds < 1 ? 1 : seconds > 60 ? 60 : (uint32_t)seconds + 1;
}
