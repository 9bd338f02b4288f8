/* Timed runs, by several threads at once. */
#include "cli/callers.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/timing.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct crowd {
    const callers *how;
    double begin, end;
    size_t begun; /* atomic: timed runs */
    bool failed;  /* atomic */
} crowd;

typedef struct caller {
    crowd *all;
    inlay_context *context;
    pthread_t thread;
    bool started; /* thread is there, to be joined */
    bool shows;   /* tells how far it is */
    double *times;
    size_t runs;
    inlay_status status;
    inlay_diag diag;
} caller;

/* In slices, so that Ctrl-C is heard. */
static void pause_ms(double ms, const inlay_run_options *options)
{
    const double end = clock_ms() + ms, slice = 20;
    double left;

    while ((left = end - clock_ms()) > 0 && __atomic_load_n(options->cancel, __ATOMIC_RELAXED) == 0) {
        const double now = left < slice ? left : slice;
        const struct timespec t = { .tv_sec = 0, .tv_nsec = (long)(now * 1e6) };

        (void)nanosleep(&t, NULL);
    }
}

static inlay_status keep(caller *c, double ms)
{
    if (!LIST_GROW(c->times, c->runs))
        return no_memory(&c->diag, "for the times");
    c->times[c->runs++] = ms;
    return INLAY_OK;
}

static void *call(void *user)
{
    caller *c = user;
    crowd *all = c->all;
    const callers *how = all->how;
    inlay_status status;

    do {
        double start;

        if (__atomic_fetch_add(&all->begun, 1, __ATOMIC_RELAXED) >= how->most)
            break;
        if (how->interval_ms > 0)
            pause_ms(how->interval_ms, how->options);
        start = clock_ms();
        INLAY_TRY(inlay_context_run(c->context, how->options, &c->diag));
        INLAY_TRY(keep(c, clock_ms() - start));
        if (c->shows && how->seconds > 0)
            (void)cli_progress(NULL, (clock_ms() - all->begin) / (how->seconds * 1e3), "timing");
    } while (clock_ms() < all->end && !__atomic_load_n(&all->failed, __ATOMIC_RELAXED));
    status = INLAY_OK;
done:
    c->status = status;
    if (status != INLAY_OK)
        __atomic_store_n(&all->failed, true, __ATOMIC_RELAXED);
    return NULL;
}

/* All times in one list. */
static inlay_status gather(const caller *list, uint32_t count, calls *out, inlay_diag *diag)
{
    size_t at = 0;

    for (uint32_t i = 0; i < count; i++)
        out->runs += list[i].runs;
    out->times = malloc((out->runs > 0 ? out->runs : 1) * sizeof *out->times);
    if (out->times == NULL) {
        out->runs = 0;
        return no_memory(diag, "for the times");
    }
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].runs > 0)
            memcpy(out->times + at, list[i].times, list[i].runs * sizeof *out->times);
        at += list[i].runs;
    }
    if (out->runs > 0)
        timing_sort(out->times, out->runs);
    return INLAY_OK;
}

/* Everybody runs; the first failure is told. */
static inlay_status run_all(caller *list, uint32_t count, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 1; i < count && status == INLAY_OK; i++) {
        list[i].started = pthread_create(&list[i].thread, NULL, call, &list[i]) == 0;
        if (!list[i].started) {
            status =
                inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no thread for caller %u of %u; ask for fewer", i + 1, count);
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

inlay_status callers_run(const callers *how, inlay_session *session, inlay_value *const *inputs, inlay_context *context,
                         calls *out, inlay_diag *diag)
{
    crowd all = { .how = how };
    caller *list = calloc(how->count, sizeof *list);
    inlay_status status = INLAY_OK, gathered;
    double cpu;

    *out = (calls){ 0 };
    if (list == NULL)
        return no_memory(diag, "for %u callers", how->count);
    for (uint32_t i = 0; i < how->count; i++) {
        caller *c = &list[i];

        *c = (caller){
            .all = &all, .context = i == 0 ? context : NULL, .shows = i == 0 && !how->silent, .diag = INLAY_DIAG_INIT
        };
        if (i > 0) {
            INLAY_TRY(inlay_context_create(session, &c->context, diag));
            INLAY_TRY(feed_bind(inputs, session, c->context, diag));
        }
        for (size_t k = 0; k < how->warmup; k++)
            INLAY_TRY(inlay_context_run(c->context, how->options, diag));
    }
    cpu = clock_cpu_ms();
    all.begin = clock_ms();
    all.end = all.begin + how->seconds * 1e3;
    status = run_all(list, how->count, diag);
    if (!how->silent)
        cli_progress_clear();
    out->elapsed_ms = clock_ms() - all.begin;
    gathered = gather(list, how->count, out, diag);
    status = status != INLAY_OK ? status : gathered;
    out->cpu_ms = out->runs > 0 ? (clock_cpu_ms() - cpu) / (double)out->runs : 0;
done:
    for (uint32_t i = 0; i < how->count; i++) {
        if (i > 0)
            inlay_context_destroy(list[i].context);
        free(list[i].times);
    }
    free(list);
    return status;
}
