#include "session/versions.h"
#include "inlay/check.h"
#include <stdlib.h>

void session_weight_unref(session_weight *weight)
{
    if (weight == NULL || __atomic_sub_fetch(&weight->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    value_unref(weight->value);
    free(weight);
}

bool session_device_hangs(const inlay_session *session)
{
    bool hangs = false;

    for (uint32_t i = 0; i < session->env.provider_count; i++)
        hangs |= provider_hangs(session->open[i]);
    return hangs;
}

void session_versions_begin(inlay_session *session)
{
    session->versions.first.users = 1;
    session->versions.latest = session->versions.all = &session->versions.first;
}

void session_version_destroy(session_version *version)
{
    if (version == NULL)
        return;
    program_destroy(version->main);
    graph_model_destroy(version->model);
    for (uint32_t i = 0; i < version->weight_count; i++)
        session_weight_unref(version->weights[i]);
    cost_sizes_deinit(&version->sizes);
    free(version->weights);
    free(version->homes);
    free(version);
}

/* Takes the versions whose data is not needed any more out of the list. contexts.lock is held. */
static session_version *unlink_unused(inlay_session *session)
{
    session_version *unused = NULL;

    for (session_version **link = &session->versions.all; *link != NULL;) {
        session_version *version = *link;

        if (!version->ended || version->kept > 0) {
            link = &version->next;
            continue;
        }
        *link = version->next;
        version->next = unused;
        unused = version;
    }
    return unused;
}

/* Ends a version that no context uses. */
static void end_version(inlay_session *session, session_version *version)
{
    session_version *unused;

    if (session->client != NULL)
        session->client->calls->forget(session->client);
    program_release_regions(version->main);
    (void)pthread_mutex_lock(&session->contexts.lock);
    version->ended = true;
    for (uint32_t i = 0; i < version->home_count; i++) {
        INLAY_CHECK(version->homes[i]->kept > 0);
        version->homes[i]->kept--;
    }
    version->home_count = 0;
    unused = unlink_unused(session);
    (void)pthread_mutex_unlock(&session->contexts.lock);
    while (unused != NULL) {
        session_version *next = unused->next;

        if (unused == &session->versions.first) { /* the first version stays: its model describes the session */
            program_destroy(unused->main);
            unused->main = NULL;
        } else {
            session_version_destroy(unused);
        }
        unused = next;
    }
}

session_version *session_version_take(inlay_session *session, struct program **out_program)
{
    session_version *version;

    (void)pthread_mutex_lock(&session->contexts.lock);
    version = session->versions.latest;
    version->users++;
    *out_program = __atomic_load_n(&session->main, __ATOMIC_ACQUIRE);
    (void)pthread_mutex_unlock(&session->contexts.lock);
    return version;
}

void session_version_give(inlay_session *session, session_version *version)
{
    bool unused;

    if (version == NULL)
        return;
    (void)pthread_mutex_lock(&session->contexts.lock);
    INLAY_CHECK(version->users > 0);
    unused = --version->users == 0;
    (void)pthread_mutex_unlock(&session->contexts.lock);
    /* The environment of programs of the background lives as long as the session, and a hung device may still access
     * the memory of its regions. */
    if (unused && (version != &session->versions.first || session->background == NULL) &&
        !session_device_hangs(session))
        end_version(session, version);
}

void session_version_set(inlay_session *session, session_version *version)
{
    session_version *before;

    (void)pthread_mutex_lock(&session->contexts.lock);
    before = session->versions.latest;
    if (before == &session->versions.first)
        before->main = session->main;
    for (uint32_t i = 0; i < version->home_count; i++)
        version->homes[i]->kept++;
    version->users = 1;
    version->next = session->versions.all;
    session->versions.latest = session->versions.all = version;
    __atomic_store_n(&session->main, version->main, __ATOMIC_RELEASE);
    (void)pthread_mutex_unlock(&session->contexts.lock);
    session_version_give(session, before);
}

void session_versions_close(inlay_session *session)
{
    if (session->versions.latest == &session->versions.first)
        return;
    for (session_version *version = session->versions.all; version != NULL; version = version->next)
        if (version->main != NULL)
            program_release_regions(version->main);
    while (session->versions.all != NULL) {
        session_version *next = session->versions.all->next;

        if (session->versions.all != &session->versions.first)
            session_version_destroy(session->versions.all);
        session->versions.all = next;
    }
    session->main = session->versions.first.main;
}

void session_leave_providers(const inlay_session *session)
{
    for (uint32_t i = session->env.provider_count; i > 0; i--)
        provider_end_use(session->open[i - 1]);
}

inlay_status session_enter_providers(const inlay_session *session, inlay_diag *diag)
{
    for (uint32_t i = 0; i < session->env.provider_count; i++) {
        const inlay_status status = provider_begin_use(session->open[i], diag);

        if (status == INLAY_OK)
            continue;
        while (i > 0)
            provider_end_use(session->open[--i]);
        return status;
    }
    return INLAY_OK;
}

void session_hold(const inlay_session *session)
{
    (void)pthread_mutex_lock(&((inlay_session *)(uintptr_t)session)->versions.update_lock);
}

void session_unhold(const inlay_session *session)
{
    (void)pthread_mutex_unlock(&((inlay_session *)(uintptr_t)session)->versions.update_lock);
}
