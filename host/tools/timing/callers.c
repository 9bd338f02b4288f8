/* Timed runs by several concurrent threads. */
#include "timing/callers.h"
#include "inlay/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "data/feed.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct caller_group {
    const struct callers *how;
    double end;
    size_t begun; /* atomic: number of timed runs that have begun */
    bool failed;  /* atomic */
};

struct caller {
    struct caller_group *all;
    inlay_context *context;
    pthread_t thread;
    bool started; /* the thread has to be joined */
    bool shows;   /* this caller reports progress */
    run_times times;
    inlay_status status;
    inlay_diag diag;
};

/* Sleeps in slices, so that Ctrl-C is handled soon. */
static void pause_ms(double ms, const inlay_run_options *options)
{
    const double end = clock_ms() + ms, slice = 20;
    double left;

    while ((left = end - clock_ms()) > 0 && __atomic_load_n(options->cancel, __ATOMIC_RELAXED) == 0) {
        const double slice_ms = left < slice ? left : slice;
        const struct timespec duration = { .tv_sec = 0, .tv_nsec = (long)(slice_ms * 1e6) };

        (void)nanosleep(&duration, NULL);
    }
}

/* Whether another caller has failed, or all callers together have begun the maximum number of runs. */
static bool is_over(void *user)
{
    struct caller_group *all = user;

    return __atomic_load_n(&all->failed, __ATOMIC_RELAXED) ||
           __atomic_fetch_add(&all->begun, 1, __ATOMIC_RELAXED) >= all->how->most;
}

static inlay_status run_once(void *subject, double *out_ms, inlay_diag *diag)
{
    const struct caller *caller = subject;
    const struct callers *how = caller->all->how;

    if (how->interval_ms > 0)
        pause_ms(how->interval_ms, how->options);
    return timing_run(caller->context, how->options, out_ms, diag);
}

static void *call(void *user)
{
    struct caller *caller = user;
    const struct callers *how = caller->all->how;
    const timing_plan plan = { .seconds = (caller->all->end - clock_ms()) * 1e-3,
                               .least = 1,
                               .most = how->most,
                               .stop = is_over,
                               .stop_user = caller->all,
                               .progress = caller->shows && how->seconds > 0 ? how->progress : NULL,
                               .what = "timing" };

    caller->status = timing_rounds(&plan, run_once, &user, 1, &caller->times, &caller->diag);
    if (caller->status != INLAY_OK)
        __atomic_store_n(&caller->all->failed, true, __ATOMIC_RELAXED);
    return NULL;
}

/* Merges and sorts the times of all callers. */
static inlay_status merge_times(const struct caller *list, uint32_t count, run_times *out, inlay_diag *diag)
{
    size_t all = 0;

    for (uint32_t i = 0; i < count; i++)
        all += list[i].times.count;
    out->ms = malloc((all > 0 ? all : 1) * sizeof *out->ms);
    if (out->ms == NULL)
        return no_memory(diag, "for the times");
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].times.count > 0)
            memcpy(out->ms + out->count, list[i].times.ms, list[i].times.count * sizeof *out->ms);
        out->count += list[i].times.count;
    }
    INLAY_CHECK(out->count == all);
    timing_sort(out);
    return INLAY_OK;
}

/* Runs all callers and returns the first failure. */
static inlay_status run_all(struct caller *list, uint32_t count, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 1; i < count && status == INLAY_OK; i++) {
        list[i].started = pthread_create(&list[i].thread, NULL, call, &list[i]) == 0;
        if (!list[i].started) {
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start the thread of caller %u of %u; use fewer",
                                i + 1, count);
            __atomic_store_n(&list[0].all->failed, true, __ATOMIC_RELAXED);
        }
    }
    if (status == INLAY_OK)
        (void)call(&list[0]);
    for (uint32_t i = 1; i < count; i++)
        if (list[i].started)
            (void)pthread_join(list[i].thread, NULL);
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        status = list[i].status;
        if (status != INLAY_OK)
            *diag = list[i].diag;
    }
    return status;
}

inlay_status callers_run(const struct callers *how, inlay_session *session, inlay_value *const *inputs,
                         inlay_context *context, struct calls *out, inlay_diag *diag)
{
    struct caller_group all = { .how = how };
    struct caller *list = calloc(how->count, sizeof *list);
    inlay_status status = INLAY_OK, merged;
    double cpu, begin;

    INLAY_CHECK(how->count > 0 && how->options->cancel != NULL);
    *out = (struct calls){ 0 };
    if (list == NULL)
        return no_memory(diag, "for %u callers", how->count);
    for (uint32_t i = 0; i < how->count; i++) {
        struct caller *caller = &list[i];

        *caller = (struct caller){
            .all = &all, .context = i == 0 ? context : NULL, .shows = i == 0, .diag = INLAY_DIAG_INIT
        };
        if (i > 0) {
            INLAY_TRY(inlay_context_create(session, &caller->context, diag));
            INLAY_TRY(feed_bind(inputs, session, caller->context, diag));
        }
        INLAY_TRY(timing_warm_up(caller->context, how->options, how->warmup, diag));
    }
    cpu = clock_cpu_ms();
    begin = clock_ms();
    all.end = begin + how->seconds * 1e3;
    status = run_all(list, how->count, diag);
    out->elapsed_ms = clock_ms() - begin;
    merged = merge_times(list, how->count, &out->times, diag);
    status = status != INLAY_OK ? status : merged;
    out->cpu_ms = out->times.count > 0 ? (clock_cpu_ms() - cpu) / (double)out->times.count : 0;
done:
    for (uint32_t i = 0; i < how->count; i++) {
        if (i > 0)
            inlay_context_destroy(list[i].context);
        free(list[i].times.ms);
    }
    free(list);
    return status;
}
