#include "session/trim.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "session/versions.h"
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define TRIMMING (UINT32_C(1) << 31) /* in session_context.users: the rest counts calls; set under contexts.lock */

struct session_idle {
    inlay_session *session;
    uint64_t idle_ns;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t moved; /* signalled when `armed` or `ends` is set */
    uint32_t armed;       /* atomic: a run has ended since the thread looked at the contexts */
    uint32_t forks;       /* fork_count of the process that owns the thread */
    bool started, ends;
};

/* Held while the thread of a session trims, so that fork() waits for it and the child finds the session unused. */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_lock(void)
{
    fork_guard(&idle_lock);
}

void session_context_enter(inlay_session *session, session_context *context)
{
    if ((__atomic_fetch_add(&context->users, 1, __ATOMIC_ACQ_REL) & TRIMMING) == 0)
        return;
    (void)pthread_mutex_lock(&session->contexts.lock);
    (void)pthread_mutex_unlock(&session->contexts.lock);
    INLAY_CHECK((__atomic_load_n(&context->users, __ATOMIC_ACQUIRE) & TRIMMING) == 0);
}

void session_context_leave(session_context *context)
{
    INLAY_CHECK((__atomic_load_n(&context->users, __ATOMIC_RELAXED) & ~TRIMMING) > 0);
    (void)__atomic_fetch_sub(&context->users, 1, __ATOMIC_ACQ_REL);
}

void session_context_ran(const inlay_session *session, session_context *context)
{
    struct session_idle *idle = session->contexts.idle;

    context->used = true;
    if (idle == NULL)
        return;
    context->last_run_ns = clock_ns();
    if (__atomic_load_n(&idle->armed, __ATOMIC_RELAXED) != 0)
        return;
    (void)pthread_mutex_lock(&idle->mutex);
    __atomic_store_n(&idle->armed, 1, __ATOMIC_RELAXED);
    (void)pthread_cond_signal(&idle->moved);
    (void)pthread_mutex_unlock(&idle->mutex);
}

/* What trim_contexts() found. */
typedef struct trim_result {
    uint32_t trimmed;  /* contexts */
    uint32_t busy;     /* contexts that a call uses, or that keep everything for now */
    uint64_t first_ns; /* the earliest end of a run among the others that are not due yet; UINT64_MAX: none */
} trim_result;

/* Trims the contexts that no call uses and whose last run ended by until_ns. */
static trim_result trim_contexts(inlay_session *session, uint64_t until_ns)
{
    trim_result result = { .first_ns = UINT64_MAX };

    (void)pthread_mutex_lock(&session->contexts.lock);
    for (session_context *context = session->contexts.first; context != NULL; context = context->next) {
        uint32_t users = 0;

        if (!__atomic_compare_exchange_n(&context->users, &users, TRIMMING, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED)) {
            result.busy++;
            continue;
        }
        if (context->used && context->last_run_ns > until_ns) {
            result.first_ns = context->last_run_ns < result.first_ns ? context->last_run_ns : result.first_ns;
        } else if (context->used) {
            context->used = !context->trim(context);
            result.trimmed += !context->used;
            result.busy += context->used;
        }
        (void)__atomic_fetch_and(&context->users, ~TRIMMING, __ATOMIC_ACQ_REL);
    }
    (void)pthread_mutex_unlock(&session->contexts.lock);
    return result;
}

/* Drops the plans of the latest version that no run uses, and the pages of its files: kernels for other sizes have read
 * weights there. Older ones end when their contexts change to the latest. */
static void trim_plans(inlay_session *session)
{
    struct program *program, *replaced = session_background_replaced(session);
    session_version *version = session_version_take(session, &program);

    plan_drop_idle(program, false);
    if (replaced != NULL)
        plan_drop_idle(replaced, false);
    graph_model_release_pages(program->model);
    session_version_give(session, version);
}

static inlay_status trim_providers(const inlay_session *session, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < session->env.provider_count; i++) {
        inlay_control_args args = { .struct_size = sizeof args, .action = INLAY_CONTROL_TRIM };
        inlay_diag why = INLAY_DIAG_INIT;
        const inlay_status answer = provider_control(session->open[i], &args, &why);

        if (answer == INLAY_OK || answer == INLAY_UNSUPPORTED || status != INLAY_OK)
            continue;
        status =
            inlay_fail(diag, answer, "provider %s cannot release unused memory: %s", session->open[i]->name, why.text);
    }
    return status;
}

inlay_status session_trim(inlay_session *session, inlay_diag *diag)
{
    inlay_status status;

    if (session_device_hangs(session))
        return INLAY_OK;
    (void)trim_contexts(session, UINT64_MAX);
    trim_plans(session);
    weight_stream_trim(session->env.stream);
    status = trim_providers(session, diag);
    heap_trim();
    return status;
}

/* Trims the contexts that have been idle for long enough. Returns the time at which the next one is due; 0: no context
 * has anything to give back, until the next run ends. */
static uint64_t trim_idle(const struct session_idle *idle)
{
    inlay_session *session = idle->session;
    const uint64_t now = clock_ns();
    trim_result found;
    uint64_t next;

    (void)pthread_mutex_lock(&idle_lock);
    if (session_device_hangs(session)) {
        (void)pthread_mutex_unlock(&idle_lock);
        return 0;
    }
    found = trim_contexts(session, now > idle->idle_ns ? now - idle->idle_ns : 0);
    if (found.trimmed > 0) {
        trim_plans(session);
        weight_stream_trim(session->env.stream);
        if (found.busy == 0 && found.first_ns == UINT64_MAX)
            (void)trim_providers(session, NULL);
        heap_trim();
    }
    (void)pthread_mutex_unlock(&idle_lock);
    next = found.busy > 0 && now < found.first_ns ? now : found.first_ns;
    return next != UINT64_MAX ? next + idle->idle_ns : 0;
}

static void wait_until(struct session_idle *idle, uint64_t due_ns)
{
    const struct timespec at = { (time_t)(due_ns / 1000000000), (long)(due_ns % 1000000000) };

    (void)pthread_cond_timedwait(&idle->moved, &idle->mutex, &at);
}

static void *run_idle(void *user)
{
    struct session_idle *idle = user;
    uint64_t due_ns = 0;

    (void)pthread_mutex_lock(&idle->mutex);
    while (!idle->ends) {
        if (due_ns > clock_ns()) {
            wait_until(idle, due_ns);
        } else if (due_ns == 0 && __atomic_load_n(&idle->armed, __ATOMIC_RELAXED) == 0) {
            (void)pthread_cond_wait(&idle->moved, &idle->mutex);
        } else {
            __atomic_store_n(&idle->armed, 0, __ATOMIC_RELAXED);
            (void)pthread_mutex_unlock(&idle->mutex);
            due_ns = trim_idle(idle);
            (void)pthread_mutex_lock(&idle->mutex);
        }
    }
    (void)pthread_mutex_unlock(&idle->mutex);
    return NULL;
}

static bool start_thread(struct session_idle *idle)
{
    pthread_condattr_t attr;
    sigset_t all, before;

    (void)pthread_mutex_init(&idle->mutex, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&idle->moved, &attr);
    (void)pthread_condattr_destroy(&attr);
    idle->forks = fork_count;
    (void)sigfillset(&all); /* signals are handled by the application's threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    idle->started = pthread_create(&idle->thread, NULL, run_idle, idle) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return idle->started;
}

inlay_status session_idle_begin(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    const uint64_t idle_ms = (uint64_t)options_int(options, OPTION_idle_trim_ms);
    struct session_idle *idle;

    if (idle_ms == 0)
        return INLAY_OK;
    idle = session->contexts.idle = calloc(1, sizeof *idle);
    if (idle == NULL)
        return no_memory(diag, "for a session");
    idle->session = session;
    idle->idle_ns = idle_ms * 1000000;
    return start_thread(idle) ? INLAY_OK
                              : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot create a thread for option idle_trim_ms");
}

void session_idle_inherit(inlay_session *session)
{
    if (session->contexts.idle == NULL)
        return;
    session->contexts.idle->armed = 1;          /* the parent's runs */
    (void)start_thread(session->contexts.idle); /* without a thread the child only keeps its memory */
}

void session_idle_end(inlay_session *session)
{
    struct session_idle *idle = session->contexts.idle;

    if (idle == NULL)
        return;
    session->contexts.idle = NULL;
    if (idle->started && idle->forks == fork_count) {
        (void)pthread_mutex_lock(&idle->mutex);
        idle->ends = true;
        (void)pthread_cond_signal(&idle->moved);
        (void)pthread_mutex_unlock(&idle->mutex);
        (void)pthread_join(idle->thread, NULL);
        (void)pthread_cond_destroy(&idle->moved);
        (void)pthread_mutex_destroy(&idle->mutex);
    }
    free(idle);
}
