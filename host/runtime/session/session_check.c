#include "session/session.h"

/* The lists, unless another thread changes them now: a child of fork() may have a lock that is never released. */
static void check_lists(inlay_session *session)
{
    const session_versions *versions = &session->versions;
    bool has_latest = false;

    if (pthread_mutex_trylock(&session->contexts.lock) != 0)
        return;
    for (const session_version *version = versions->all; version != NULL; version = version->next) {
        has_latest |= version == versions->latest;
        /* A version without a user is released, and leaves the list unless a later one runs its regions. */
        INLAY_CHECK(version->ended ? version->users == 0 : version->users > 0 || version->main != NULL);
        INLAY_CHECK(version->home_count == 0 || (!version->ended && version != &versions->first));
        for (uint32_t i = 0; i < version->home_count; i++)
            INLAY_CHECK(version->homes[i] != version && version->homes[i]->kept > 0);
    }
    INLAY_CHECK(has_latest && versions->latest->users > 0);
    for (const session_context *context = session->contexts.first; context != NULL; context = context->next)
        INLAY_CHECK(context != context->next && context->trim != NULL);
    (void)pthread_mutex_unlock(&session->contexts.lock);
}

bool session_check(const inlay_session *session)
{
    if (session->inputs == NULL || session->main == NULL) /* being created, or it compiles nothing */
        return true;
    INLAY_CHECK(session->model != NULL && session->plugins != NULL && session->limits.memory != NULL);
    INLAY_CHECK(session->env.rules == &session->rules && session->env.sizes == &session->costs.sizes);
    INLAY_CHECK(session->env.costs == session->costs.book);
    INLAY_CHECK((session->env.memory.held_bytes != NULL) == (session->limits.host > 0));
    INLAY_CHECK(session->limits.heap_before == 0 || session->limits.host > 0);
    INLAY_CHECK(session->prepared.count == 0 || session->prepared.inputs != NULL);
    INLAY_CHECK(session->outputs != NULL && session->loading.watch == NULL);
    for (uint32_t i = 0; i < session->env.provider_count; i++)
        INLAY_CHECK(session->open[i] != NULL && session->env.providers[i].table == session->open[i]->table);
    check_lists((inlay_session *)(uintptr_t)session);
    return true;
}
