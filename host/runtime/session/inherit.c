/* session/inherit.c - sessions in a child of fork().
 *
 * The child has a copy of the memory, including locks that other threads held. A session that no other thread was using
 * works in the child. A session that was in use may have an incomplete plan, so it is refused and never freed. A device
 * belongs to the process that opened it, so sessions with devices are refused, too. */
#include "session/trim.h"
#include "threads/fork.h"
#include "inlay/check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* serialises the check in the child */

static __attribute__((constructor)) void guard_lock(void)
{
    fork_guard(&lock);
}

static bool was_in_use(inlay_session *session)
{
    bool used = pthread_mutex_trylock(&session->contexts.lock) != 0 || session_background_runs(session);

    if (used)
        return true;
    used = pthread_mutex_trylock(&session->versions.update_lock) != 0;
    if (!used)
        (void)pthread_mutex_unlock(&session->versions.update_lock);
    for (const session_context *context = session->contexts.first; context != NULL; context = context->next)
        used |= __atomic_load_n(&context->users, __ATOMIC_RELAXED) != 0;
    (void)pthread_mutex_unlock(&session->contexts.lock);
    return used || !program_inherit(session->main);
}

static inlay_status adopt(inlay_session *session, inlay_diag *diag)
{
    const partition_provider *device = program_device(session->main);
    inlay_status status = INLAY_OK;

    INLAY_CHECK(session->forks < fork_count);
    if (device != NULL)
        status = inlay_fail(diag, INLAY_UNSUPPORTED,
                            "the session was created before fork() and runs on a device (provider %s), which the "
                            "child cannot use: create a session in the child",
                            device->name);
    else if (was_in_use(session))
        status = inlay_fail(diag, INLAY_UNSUPPORTED,
                            "the session was created before fork() and was in use by another thread: create a "
                            "session in the child");
    if (status == INLAY_OK)
        session_background_inherit(session);
    if (status == INLAY_OK)
        session_idle_inherit(session);
    if (status == INLAY_OK && session->client != NULL)
        session->client->calls->inherit(session->client);
    if (status == INLAY_OK)
        weight_stream_inherit(session->env.stream);
    if (status == INLAY_OK)
        __atomic_store_n(&session->forks, fork_count, __ATOMIC_RELEASE);
    return status;
}

inlay_status session_adopt_after_fork(const inlay_session *session, inlay_diag *diag)
{
    inlay_session *writable = (inlay_session *)(uintptr_t)session;
    inlay_status status = INLAY_OK;

    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 1; i < writable->ladder.count && status == INLAY_OK; i++)
        if (writable->ladder.variants[i]->forks != fork_count)
            status = adopt(writable->ladder.variants[i], diag);
    if (status == INLAY_OK && writable->forks != fork_count)
        status = adopt(writable, diag);
    (void)pthread_mutex_unlock(&lock);
    return status;
}

void session_add_context(inlay_session *session, session_context *context)
{
    (void)pthread_mutex_lock(&session->contexts.lock);
    context->next = session->contexts.first;
    session->contexts.first = context;
    (void)pthread_mutex_unlock(&session->contexts.lock);
}

void session_remove_context(inlay_session *session, const session_context *context)
{
    session_context **link = &session->contexts.first;

    (void)pthread_mutex_lock(&session->contexts.lock);
    while (*link != context) {
        INLAY_CHECK(*link != NULL);
        link = &(*link)->next;
    }
    *link = context->next;
    (void)pthread_mutex_unlock(&session->contexts.lock);
}
