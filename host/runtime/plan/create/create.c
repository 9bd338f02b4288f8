#include "plan/create/create.h"
#include "plan/create/undo.h"
#include "threads/threads.h"

/* All graphs of a model share them; the main one's program closes them, after the regions of all are released. */
static void use_packs(struct program *p, struct packs *shared)
{
    p->packs = shared;
    for (uint32_t i = 0; i < p->body_count; i++)
        use_packs(p->bodies[i], shared);
}

static inlay_status assign(struct assignment *a, inlay_diag *diag)
{
    const program_env *env = a->env;
    inlay_status status;

    if (a->program != NULL)
        return program_assign_bodies(a->program, diag);
    status = program_assign(a->g, env, a->undone, &a->program, diag);
    if (status == INLAY_OK)
        status = program_weigh_rewrites(&a->program, diag);
    if (status == INLAY_OK)
        use_packs(a->program,
                  packs_open(&env->packs, a->program->snapshot.content_hash, env->providers, env->provider_count));
    return status;
}

static bool follows_plan(const program_env *env)
{
    return env->rules != NULL && env->rules->saved_plan != NULL;
}

/* Does what a round that failed has learned make another round worthwhile? */
static bool learn(struct assignment *a, inlay_status status)
{
    inlay_diag quiet = INLAY_DIAG_INIT;
    inlay_status again = INLAY_UNSUPPORTED;

    if (a->program == NULL)
        return false;
    if (a->declined.program != NULL)
        again = program_assign_without(&a->declined, &quiet);
    if (again != INLAY_UNSUPPORTED || a->shares_graph)
        return again == INLAY_OK;
    if (!(status == INLAY_UNSUPPORTED && undo_uncovered(a->program)) &&
        !(status == INLAY_INVALID_ARGUMENT && follows_plan(a->env) && undo_for_plan(a->program)))
        return false;
    program_destroy(a->program);
    a->program = NULL;
    a->undone = true;
    return true;
}

inlay_status assign_until_stable(struct assignment *a, inlay_diag *diag)
{
    const uint32_t held = threads_hold(a->env->max_threads);
    inlay_status status;

    do {
        a->declined = (program_declined){ 0 };
        status = assign(a, diag);
        if (status == INLAY_OK)
            status = program_compile(a->program, &a->declined, diag);
    } while (status != INLAY_OK && learn(a, status));
    (void)threads_hold(held);
    return status;
}

inlay_status program_create(struct graph *g, const program_env *env, struct program **out_program, inlay_diag *diag)
{
    struct assignment a = { .g = g, .env = env };
    inlay_diag why = INLAY_DIAG_INIT;
    const inlay_status status = assign_until_stable(&a, &why);

    *out_program = status == INLAY_OK ? a.program : NULL;
    if (status == INLAY_OK) {
        packs_commit(a.program->packs);
        return INLAY_OK;
    }
    program_tell(diag, &why);
    program_destroy(a.program);
    return status;
}
