/* session/background.c - option compile_in_background: the session runs on some of its providers while those with an
 * engine cache, whose compilers may be slow, compile in a thread.
 *
 * There are two programs of one graph. session->main is first the program of the other providers, and then the program
 * of all providers; contexts change between two runs (api/run_api.c). Neither is destroyed before the session. */
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "session/session.h"
#include "threads/scene.h"
#include <signal.h>
#include <stdlib.h>

struct session_background {
    inlay_session *session;
    program_env first_env; /* without these providers */
    program_env later_env;
    partition_rules rules; /* of first_env */
    cost_sizes sizes;      /* of later_env: those of the session are used by runs that assign again */
    struct program *later; /* assigned, not yet compiled; later the program that session->main has replaced */
    pthread_t thread;
    pthread_mutex_t lock; /* guards the two members below, and joining the thread */
    pthread_cond_t ended_changed;
    bool started; /* there is a thread to join */
    bool ended;
    uint32_t stop; /* atomic: 1 = the session is being destroyed */
};

/* program_env.progress of the thread. */
static inlay_status check_stop(void *ctx, const char *what, uint32_t steps)
{
    const struct session_background *background = ctx;

    (void)what, (void)steps;
    return __atomic_load_n(&background->stop, __ATOMIC_RELAXED) != 0 ? INLAY_CANCELLED : INLAY_OK;
}

static void log_line(const inlay_session *session, uint32_t level, const char *what, const char *why)
{
    char line[500];

    (void)snprintf(line, sizeof line, "option compile_in_background: %s%.300s", what, why);
    if (session->log.write != NULL)
        session->log.write(session->log.user, level, line);
}

/* [provider_count] 1 = the provider has an engine cache. NULL: out of memory. */
static uint8_t *find_slow(inlay_session *session)
{
    uint8_t *slow = arena_alloc(&session->arena, (size_t)session->env.provider_count + 1);

    for (uint32_t i = 0; slow != NULL && i < session->env.provider_count; i++)
        slow[i] = session->env.providers[i].table->fingerprint != NULL;
    return slow;
}

/* Sets first_env: the session's, in which no node may run on the slow providers. */
static bool leave_out(struct session_background *background, const uint8_t *slow)
{
    inlay_session *session = background->session;
    const partition_rules *given = &session->rules;
    node_rule *forbids =
        arena_array(&session->arena, (size_t)given->forbid_count + session->env.provider_count + 1, sizeof *forbids);

    if (forbids == NULL)
        return false;
    background->rules = *given;
    background->rules.forbids = forbids;
    for (uint32_t i = 0; i < given->forbid_count; i++)
        forbids[i] = given->forbids[i];
    for (uint32_t i = 0; i < session->env.provider_count; i++)
        if (slow[i] != 0)
            forbids[background->rules.forbid_count++] = (node_rule){ "*", session->env.providers[i].name };
    background->rules.requires = NULL;
    background->rules.require_count = 0;
    background->rules.saved_plan = NULL; /* the plan may require these providers */
    background->first_env = session->env;
    background->first_env.rules = &background->rules;
    return true;
}

static struct session_background *create_background(inlay_session *session)
{
    struct session_background *background = calloc(1, sizeof *background);

    if (background == NULL)
        return NULL;
    background->session = session;
    (void)pthread_mutex_init(&background->lock, NULL);
    (void)pthread_cond_init(&background->ended_changed, NULL);
    background->later_env = session->env;
    background->sizes.assumed = session->costs.sizes.assumed;
    background->sizes.assumed_count = session->costs.sizes.assumed_count;
    return background;
}

inlay_status session_background_prepare(inlay_session *session, inlay_diag *diag)
{
    struct session_background *background = session->background = create_background(session);
    const uint8_t *slow = find_slow(session);
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    if (background == NULL || slow == NULL || !leave_out(background, slow))
        return no_memory(diag, "for a session");
    status = program_assign_only(session->model->main, &background->later_env, &background->later, diag);
    if (status != INLAY_OK)
        return status;
    if (!program_runs_on(background->later, slow))
        status = INLAY_UNSUPPORTED;
    else
        status = program_create_beside(session->model->main, &background->first_env, &session->main, &why);
    if (status == INLAY_OK || status == INLAY_CANCELLED || status == INLAY_OUT_OF_MEMORY)
        return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "%s", why.text);
    if (why.text[0] != '\0')
        log_line(session, INLAY_LOG_INFO, "the other providers cannot run the model: ", why.text);
    session->main = background->later;
    background->later = NULL;
    return program_finish(&session->main, diag);
}

static void *compile_later(void *user)
{
    struct session_background *background = user;
    inlay_session *session = background->session;
    inlay_diag why = INLAY_DIAG_INIT;
    struct program *program = background->later;
    inlay_status status;

    crash_here.model = session->model->source.identity;
    status = program_finish(&program, &why);

    if (status == INLAY_OK)
        status = session_prepare_sizes(session, program, &why);
    if (status == INLAY_OK) {
        background->later = session->main;
        __atomic_store_n(&session->main, program, __ATOMIC_RELEASE);
        log_line(session, INLAY_LOG_INFO, "the session runs on all its providers", "");
    } else {
        background->later = NULL;
        program_destroy(program);
        if (status != INLAY_CANCELLED)
            log_line(session, INLAY_LOG_WARNING, "the session stays on its first providers: ", why.text);
    }
    (void)pthread_mutex_lock(&background->lock);
    __atomic_store_n(&background->ended, true, __ATOMIC_RELEASE);
    (void)pthread_cond_broadcast(&background->ended_changed);
    (void)pthread_mutex_unlock(&background->lock);
    return NULL;
}

void session_background_start(inlay_session *session)
{
    struct session_background *background = session->background;
    sigset_t all, before;

    if (background == NULL || background->later == NULL)
        return;
    background->first_env.memory.room = NULL; /* as the members of session->env after the creation */
    background->first_env.progress = NULL;
    background->first_env.packs.dir = NULL;
    background->later_env.sizes = &background->sizes;
    background->later_env.progress = check_stop;
    background->later_env.progress_ctx = background;
    (void)sigfillset(&all); /* signals are handled by the application's threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    background->started = pthread_create(&background->thread, NULL, compile_later, background) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!background->started)
        (void)compile_later(background);
}

bool session_background_runs(const inlay_session *session)
{
    return session->background != NULL && session->background->started &&
           !__atomic_load_n(&session->background->ended, __ATOMIC_ACQUIRE);
}

struct program *session_background_replaced(const inlay_session *session)
{
    return session->background != NULL && !session_background_runs(session) ? session->background->later : NULL;
}

void session_background_inherit(inlay_session *session)
{
    if (session->background == NULL)
        return;
    INLAY_CHECK(!session_background_runs(session));
    session->background->started = false; /* the thread is not in this process */
    (void)pthread_mutex_init(&session->background->lock, NULL);
}

void session_background_wait(const inlay_session *session)
{
    struct session_background *background = session->background;

    if (background == NULL || !background->started)
        return;
    (void)pthread_mutex_lock(&background->lock);
    while (!background->ended)
        (void)pthread_cond_wait(&background->ended_changed, &background->lock);
    (void)pthread_mutex_unlock(&background->lock);
}

void session_background_end(inlay_session *session)
{
    struct session_background *background = session->background;

    if (background == NULL)
        return;
    __atomic_store_n(&background->stop, 1, __ATOMIC_RELAXED);
    if (background->started)
        (void)pthread_join(background->thread, NULL);
    program_destroy(background->later);
    program_destroy(session->main); /* the program uses the background's environment */
    session->main = NULL;
    cost_sizes_deinit(&background->sizes);
    (void)pthread_cond_destroy(&background->ended_changed);
    (void)pthread_mutex_destroy(&background->lock);
    free(background);
    session->background = NULL;
}
