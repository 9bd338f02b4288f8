/* session/inherit.c - what a session is to a child of fork().
 *
 * Memory is there as it was, and so are locks that other threads held. A session that no other thread was using works
 * in the child; of one in use a plan may be half made, so it is refused, at once, and never freed. A device belongs to
 * the process that opened it. */
#include "session/session.h"
#include "threads/fork.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one thread of the child looks at a time */

static __attribute__((constructor)) void guard_lock(void)
{
    fork_guard(&lock);
}

static bool was_used(inlay_session *session)
{
    bool used = pthread_mutex_trylock(&session->uses_lock) != 0;

    if (used)
        return true;
    for (const session_use *use = session->uses; use != NULL; use = use->next)
        used |= __atomic_load_n(&use->running, __ATOMIC_RELAXED) != 0;
    (void)pthread_mutex_unlock(&session->uses_lock);
    return used || !program_inherit(session->main);
}

inlay_status session_inherit(const inlay_session *session, inlay_diag *diag)
{
    inlay_session *s = (inlay_session *)(uintptr_t)session;
    inlay_status status = INLAY_OK;

    (void)pthread_mutex_lock(&lock);
    if (s->forks != fork_count) {
        const partition_provider *device = program_device(s->main);

        if (device != NULL)
            status = inlay_fail(diag, INLAY_UNSUPPORTED,
                                "the session was made before fork() and runs on a device (provider %s), which the "
                                "child does not have: make a session in the child",
                                device->name);
        else if (was_used(s))
            status = inlay_fail(diag, INLAY_UNSUPPORTED,
                                "the session was made before fork(), which came while another thread used it: make a "
                                "session in the child");
        if (status == INLAY_OK)
            __atomic_store_n(&s->forks, fork_count, __ATOMIC_RELEASE);
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

void session_use_begin(inlay_session *session, session_use *use)
{
    (void)pthread_mutex_lock(&session->uses_lock);
    use->next = session->uses;
    session->uses = use;
    (void)pthread_mutex_unlock(&session->uses_lock);
}

void session_use_end(inlay_session *session, const session_use *use)
{
    session_use **link = &session->uses;

    (void)pthread_mutex_lock(&session->uses_lock);
    while (*link != use)
        link = &(*link)->next;
    *link = use->next;
    (void)pthread_mutex_unlock(&session->uses_lock);
}
