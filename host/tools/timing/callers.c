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
    double begin, end;
    size_t begun; /* atomic: number of timed runs that have begun */
    bool failed;  /* atomic */
};

struct caller {
    struct caller_group *all;
    inlay_context *context;
    pthread_t thread;
    bool started;         /* the thread has to be joined */
    bool shows;           /* this caller reports progress */
    size_t request;       /* number of the present one */
    struct calls counted; /* only `times`, `late` and `variants` */
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
    struct caller *caller = user;
    struct caller_group *all = caller->all;

    caller->request = __atomic_fetch_add(&all->begun, 1, __ATOMIC_RELAXED);
    return __atomic_load_n(&all->failed, __ATOMIC_RELAXED) || caller->request >= all->how->most;
}

static inlay_status count_variant(struct calls *calls, const char *name, double error, size_t count, inlay_diag *diag)
{
    uint32_t at = 0;

    while (at < calls->variant_count &&
           (calls->variants[at].name == NULL || name == NULL ? calls->variants[at].name != name
                                                             : strcmp(calls->variants[at].name, name) != 0))
        at++;
    if (at == calls->variant_count) {
        char *copy = name != NULL ? strdup(name) : NULL;

        if ((name != NULL && copy == NULL) || !LIST_GROW(calls->variants, calls->variant_count)) {
            free(copy);
            return no_memory(diag, "for the numbers of runs");
        }
        calls->variants[calls->variant_count++] = (struct variant_calls){ copy, error, 0 };
    }
    calls->variants[at].count += count;
    return INLAY_OK;
}

void calls_deinit(struct calls *calls)
{
    for (uint32_t i = 0; i < calls->variant_count; i++)
        free(calls->variants[i].name);
    free(calls->variants);
    free(calls->times.ms);
    *calls = (struct calls){ 0 };
}

/* A run that should end at a time. */
static inlay_status run_by_deadline(struct caller *caller, double request_ms, double *out_ms, inlay_diag *diag)
{
    const struct callers *how = caller->all->how;
    inlay_run_options options = *how->options;
    const char *variant;
    double error;
    inlay_status status;

    options.struct_size = sizeof options;
    options.deadline_ns = (uint64_t)((request_ms + how->deadline_ms) * 1e6);
    status = inlay_context_run(caller->context, &options, diag);
    if (status != INLAY_OK)
        return status;
    *out_ms = clock_ms() - request_ms;
    caller->counted.late += *out_ms > how->deadline_ms;
    variant = inlay_context_variant(caller->context, &error);
    return count_variant(&caller->counted, variant, error, 1, diag);
}

static inlay_status run_once(void *subject, double *out_ms, inlay_diag *diag)
{
    struct caller *caller = subject;
    const struct callers *how = caller->all->how;
    const double due = how->rate > 0 ? caller->all->begin + (double)caller->request / how->rate * 1e3 : 0;
    inlay_status status;

    if (how->interval_ms > 0 || due > clock_ms())
        pause_ms(due > 0 ? due - clock_ms() : how->interval_ms, how->options);
    if (how->deadline_ms > 0)
        return run_by_deadline(caller, due > 0 ? due : clock_ms(), out_ms, diag);
    status = timing_run(caller->context, how->options, out_ms, diag);
    if (status == INLAY_OK && due > 0)
        *out_ms = clock_ms() - due;
    return status;
}

static void *call(void *user)
{
    struct caller *caller = user;
    const struct callers *how = caller->all->how;
    const timing_plan plan = { .seconds = (caller->all->end - clock_ms()) * 1e-3,
                               .least = 1,
                               .most = how->most,
                               .stop = is_over,
                               .stop_user = caller,
                               .progress = caller->shows && how->seconds > 0 ? how->progress : NULL,
                               .what = "timing" };

    caller->status = timing_rounds(&plan, run_once, &user, 1, &caller->counted.times, &caller->diag);
    if (caller->status != INLAY_OK)
        __atomic_store_n(&caller->all->failed, true, __ATOMIC_RELAXED);
    return NULL;
}

/* Merges and sorts the times of all callers. */
static inlay_status merge_times(const struct caller *list, uint32_t count, run_times *out, inlay_diag *diag)
{
    size_t all = 0;

    for (uint32_t i = 0; i < count; i++)
        all += list[i].counted.times.count;
    out->ms = malloc((all > 0 ? all : 1) * sizeof *out->ms);
    if (out->ms == NULL)
        return no_memory(diag, "for the times");
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].counted.times.count > 0)
            memcpy(out->ms + out->count, list[i].counted.times.ms, list[i].counted.times.count * sizeof *out->ms);
        out->count += list[i].counted.times.count;
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
    all.begin = begin;
    all.end = begin + how->seconds * 1e3;
    status = run_all(list, how->count, diag);
    out->elapsed_ms = clock_ms() - begin;
    merged = merge_times(list, how->count, &out->times, diag);
    status = status != INLAY_OK ? status : merged;
    for (uint32_t i = 0; i < how->count; i++) {
        out->late += list[i].counted.late;
        for (uint32_t k = 0; k < list[i].counted.variant_count && status == INLAY_OK; k++)
            status = count_variant(out, list[i].counted.variants[k].name, list[i].counted.variants[k].error,
                                   list[i].counted.variants[k].count, diag);
    }
    out->cpu_ms = out->times.count > 0 ? (clock_cpu_ms() - cpu) / (double)out->times.count : 0;
done:
    for (uint32_t i = 0; i < how->count; i++) {
        if (i > 0)
            inlay_context_destroy(list[i].context);
        calls_deinit(&list[i].counted);
    }
    free(list);
    return status;
}
