/* api/async_api.c - inlay.h: runs that go on after the call. */
#include "api/context.h"
#include "base/known.h"
#include "threads/fence.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct async_runs {
    inlay_context *context;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    inlay_run_options options; /* of the run */
    inlay_done_fn done;
    void *user;
    uint32_t forks;      /* fork_count of the process that has the thread */
    bool busy, ends;     /* a run is under way; the context goes */
    inlay_fence run;     /* reached when the run under way is over */
    inlay_status status; /* of the last one, and what it said */
    inlay_diag diag;
} async_runs;

static void *run_all(void *arg)
{
    async_runs *a = arg;

    (void)pthread_mutex_lock(&a->mutex);
    while (!a->ends) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;

        if (!a->busy) {
            (void)pthread_cond_wait(&a->moved, &a->mutex);
            continue;
        }
        (void)pthread_mutex_unlock(&a->mutex);
        status = context_run_ready(a->context, &a->options, &diag);
        fence_signal(a->run, status, &diag);
        if (a->done != NULL)
            a->done(a->user, status);
        (void)pthread_mutex_lock(&a->mutex);
        a->status = status;
        a->diag = diag;
        a->busy = false;
        (void)pthread_cond_broadcast(&a->moved);
    }
    (void)pthread_mutex_unlock(&a->mutex);
    return NULL;
}

static void free_runs(async_runs *a)
{
    timeline_destroy(a->run.timeline);
    (void)pthread_cond_destroy(&a->moved);
    (void)pthread_mutex_destroy(&a->mutex);
    free(a);
}

static async_runs *start_thread(inlay_context *context)
{
    async_runs *a = calloc(1, sizeof *a);
    pthread_condattr_t attr;

    if (a == NULL)
        return NULL;
    a->context = context;
    a->forks = fork_count;
    a->diag = (inlay_diag)INLAY_DIAG_INIT;
    (void)pthread_mutex_init(&a->mutex, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&a->moved, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (timeline_create(&a->run.timeline, NULL) == INLAY_OK && pthread_create(&a->thread, NULL, run_all, a) == 0)
        return a;
    free_runs(a);
    return NULL;
}

/* Whoever uses the values that the run writes comes behind it. */
static void begin_run(async_runs *a)
{
    inlay_context *c = a->context;

    context_find_ready(c);
    if (a->status != INLAY_OK) { /* the last one's failure is not that of the next */
        timeline_renew(&a->run.timeline);
        a->run.value = 0;
    }
    a->run.value++;
    for (uint32_t k = 0; k < inlay_session_output_count(c->session); k++)
        if (c->wanted[k] != NULL && c->wanted[k]->buffer.domain != INLAY_DOMAIN_HOST)
            c->wanted[k]->ready = a->run;
}

inlay_status inlay_context_run_async(inlay_context *context, const inlay_run_options *options, inlay_done_fn done,
                                     void *user, inlay_diag *diag)
{
    inlay_status status = session_here(context->session, diag);
    async_runs *a;

    if (status != INLAY_OK)
        return status;
    if (context->async != NULL && context->async->forks != fork_count)
        context_end_async(context);
    if (context->async == NULL)
        context->async = start_thread(context);
    a = context->async;
    if (a == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no thread for a run");
    (void)pthread_mutex_lock(&a->mutex);
    if (a->busy) {
        status = inlay_fail(diag, INLAY_BUSY, "a run of this context is under way; see inlay_context_wait()");
    } else {
        known_take(&a->options, sizeof a->options, options != NULL ? (const void *)options : (const void *)&a->options,
                   options != NULL ? options->struct_size : 0);
        a->options.struct_size = sizeof a->options;
        begin_run(a);
        a->done = done;
        a->user = user;
        a->busy = true;
        (void)pthread_cond_broadcast(&a->moved);
    }
    (void)pthread_mutex_unlock(&a->mutex);
    return status;
}

static struct timespec time_after(uint64_t ns)
{
    const uint64_t at = clock_ns() + ns;

    return (struct timespec){ (time_t)(at / 1000000000), (long)(at % 1000000000) };
}

inlay_status inlay_context_wait(inlay_context *context, uint64_t timeout_ns, inlay_diag *diag)
{
    async_runs *a = context->async;
    const bool for_ever = timeout_ns > UINT64_MAX / 2;
    struct timespec until = time_after(for_ever ? 0 : timeout_ns);
    inlay_status status;
    int rc = 0;

    if (a == NULL)
        return INLAY_OK;
    if (a->forks != fork_count) /* the thread is the parent's */
        return a->busy ? inlay_fail(diag, INLAY_UNSUPPORTED, "the run was begun before fork(): the parent has it")
                       : a->status;
    (void)pthread_mutex_lock(&a->mutex);
    while (a->busy && rc == 0)
        rc = for_ever ? pthread_cond_wait(&a->moved, &a->mutex) : pthread_cond_timedwait(&a->moved, &a->mutex, &until);
    status = a->busy ? inlay_fail(diag, INLAY_BUSY, "the run is not over yet") : a->status;
    if (!a->busy && status != INLAY_OK && diag != NULL && INLAY_HAS(diag, tensor)) {
        const uint64_t size = diag->struct_size;

        *diag = a->diag;
        diag->struct_size = size;
    }
    (void)pthread_mutex_unlock(&a->mutex);
    return status;
}

void context_end_async(inlay_context *context)
{
    async_runs *a = context->async;

    if (a == NULL)
        return;
    context->async = NULL;
    if (a->forks != fork_count) {
        free(a); /* what else there is may be in the hands of the thread, which is the parent's */
        return;
    }
    (void)pthread_mutex_lock(&a->mutex);
    while (a->busy)
        (void)pthread_cond_wait(&a->moved, &a->mutex);
    a->ends = true;
    (void)pthread_cond_broadcast(&a->moved);
    (void)pthread_mutex_unlock(&a->mutex);
    (void)pthread_join(a->thread, NULL);
    free_runs(a);
}
