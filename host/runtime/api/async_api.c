/* api/async_api.c - inlay.h: asynchronous runs. */
#include "api/context.h"
#include "base/sized_struct.h"
#include "threads/fence.h"
#include "inlay/check.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct async_runs {
    inlay_context *context;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t moved;      /* signalled when `busy` or `ends` changes */
    inlay_run_options options; /* of the pending run */
    inlay_done_fn done;
    void *user;
    uint32_t forks;      /* fork_count of the process that owns the thread */
    bool busy, ends;     /* a run is pending; the thread has to end */
    inlay_fence run;     /* signalled at the end of the pending run */
    inlay_status status; /* of the last run */
    inlay_diag diag;     /* of the last run */
} async_runs;

static void *run_all(void *arg)
{
    async_runs *runs = arg;

    (void)pthread_mutex_lock(&runs->mutex);
    while (!runs->ends) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;

        if (!runs->busy) {
            (void)pthread_cond_wait(&runs->moved, &runs->mutex);
            continue;
        }
        (void)pthread_mutex_unlock(&runs->mutex);
        session_context_enter(runs->context->session, &runs->context->entry);
        status = context_run_ready(runs->context, &runs->options, &diag);
        session_context_leave(&runs->context->entry);
        fence_signal(runs->run, status, &diag);
        if (runs->done != NULL)
            runs->done(runs->user, status);
        (void)pthread_mutex_lock(&runs->mutex);
        INLAY_CHECK(runs->busy);
        runs->status = status;
        runs->diag = diag;
        runs->busy = false;
        (void)pthread_cond_broadcast(&runs->moved);
    }
    (void)pthread_mutex_unlock(&runs->mutex);
    return NULL;
}

static void free_runs(async_runs *runs)
{
    timeline_destroy(runs->run.timeline);
    (void)pthread_cond_destroy(&runs->moved);
    (void)pthread_mutex_destroy(&runs->mutex);
    free(runs);
}

static async_runs *start_thread(inlay_context *context)
{
    async_runs *runs = calloc(1, sizeof *runs);
    pthread_condattr_t attr;

    if (runs == NULL)
        return NULL;
    runs->context = context;
    runs->forks = fork_count;
    runs->diag = (inlay_diag)INLAY_DIAG_INIT;
    (void)pthread_mutex_init(&runs->mutex, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&runs->moved, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (timeline_create(&runs->run.timeline, NULL) == INLAY_OK &&
        pthread_create(&runs->thread, NULL, run_all, runs) == 0)
        return runs;
    free_runs(runs);
    return NULL;
}

/* Makes later uses of the bound outputs on devices wait for the run. */
static void begin_run(async_runs *runs)
{
    inlay_context *context = runs->context;

    INLAY_CHECK(!runs->busy);
    session_context_enter(context->session, &context->entry);
    context_find_ready(context);
    session_context_leave(&context->entry);
    if (runs->status != INLAY_OK) { /* resets the timeline that the last failure poisoned */
        timeline_renew(&runs->run.timeline);
        runs->run.value = 0;
    }
    runs->run.value++;
    for (uint32_t k = 0; k < inlay_session_output_count(context->session); k++)
        if (context->bound_outputs[k] != NULL && context->bound_outputs[k]->buffer.domain != INLAY_DOMAIN_HOST)
            context->bound_outputs[k]->ready = runs->run;
}

inlay_status inlay_context_run_async(inlay_context *context, const inlay_run_options *options, inlay_done_fn done,
                                     void *user, inlay_diag *diag)
{
    inlay_status status = session_check_process(context->session, diag);
    async_runs *runs;

    if (status != INLAY_OK)
        return status;
    if (context->async != NULL && context->async->forks != fork_count)
        context_end_async(context);
    if (context->async == NULL)
        context->async = start_thread(context);
    runs = context->async;
    if (runs == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot create a thread for a run");
    (void)pthread_mutex_lock(&runs->mutex);
    if (runs->busy) {
        status = inlay_fail(diag, INLAY_BUSY, "a run of this context is pending; see inlay_context_wait()");
    } else {
        sized_struct_read(&runs->options, sizeof runs->options,
                          options != NULL ? (const void *)options : (const void *)&runs->options,
                          options != NULL ? options->struct_size : 0);
        runs->options.struct_size = sizeof runs->options;
        begin_run(runs);
        runs->done = done;
        runs->user = user;
        runs->busy = true;
        (void)pthread_cond_broadcast(&runs->moved);
    }
    (void)pthread_mutex_unlock(&runs->mutex);
    return status;
}

static struct timespec time_after(uint64_t ns)
{
    const uint64_t at = clock_ns() + ns;

    return (struct timespec){ (time_t)(at / 1000000000), (long)(at % 1000000000) };
}

inlay_status inlay_context_wait(inlay_context *context, uint64_t timeout_ns, inlay_diag *diag)
{
    async_runs *runs = context->async;
    const bool unlimited = timeout_ns > UINT64_MAX / 2;
    struct timespec until = time_after(unlimited ? 0 : timeout_ns);
    inlay_status status;
    int rc = 0;

    if (runs == NULL)
        return INLAY_OK;
    if (runs->forks != fork_count) /* the thread exists only in the parent */
        return runs->busy ? inlay_fail(diag, INLAY_UNSUPPORTED,
                                       "the run was started before fork(); only the parent can wait for it")
                          : runs->status;
    (void)pthread_mutex_lock(&runs->mutex);
    while (runs->busy && rc == 0)
        rc = unlimited ? pthread_cond_wait(&runs->moved, &runs->mutex)
                       : pthread_cond_timedwait(&runs->moved, &runs->mutex, &until);
    status = runs->busy ? inlay_fail(diag, INLAY_BUSY, "the run has not finished yet") : runs->status;
    if (!runs->busy && status != INLAY_OK && diag != NULL && INLAY_HAS(diag, tensor)) {
        const uint64_t size = diag->struct_size;

        *diag = runs->diag;
        diag->struct_size = size;
    }
    (void)pthread_mutex_unlock(&runs->mutex);
    return status;
}

bool context_is_pending(const inlay_context *context)
{
    async_runs *runs = context->async;
    bool pending;

    if (runs == NULL || runs->forks != fork_count)
        return false;
    (void)pthread_mutex_lock(&runs->mutex);
    pending = runs->busy;
    (void)pthread_mutex_unlock(&runs->mutex);
    return pending;
}

void context_end_async(inlay_context *context)
{
    async_runs *runs = context->async;

    if (runs == NULL)
        return;
    context->async = NULL;
    if (runs->forks != fork_count) {
        free(runs); /* the parent's thread may have held the mutex, so its other members are not destroyed */
        return;
    }
    (void)pthread_mutex_lock(&runs->mutex);
    while (runs->busy)
        (void)pthread_cond_wait(&runs->moved, &runs->mutex);
    runs->ends = true;
    (void)pthread_cond_broadcast(&runs->moved);
    (void)pthread_mutex_unlock(&runs->mutex);
    (void)pthread_join(runs->thread, NULL);
    free_runs(runs);
}
