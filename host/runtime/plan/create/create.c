/* plan/create/create.c - from a graph to compiled programs. */
#include "plan/program/compile.h"
#include "plan/create/settle.h"
#include "threads/threads.h"

/* All graphs of a model share them; the main one's program closes them, after everybody's regions. */
static void use_packs(program *p, packs *shared)
{
    p->packs = shared;
    for (uint32_t i = 0; i < p->body_count; i++)
        use_packs(p->bodies[i], shared);
}

inlay_status program_create(graph *g, const program_env *env, program **out_program, inlay_diag *diag)
{
    uint32_t held = threads_hold(env->max_threads);
    program *p = NULL;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;
    bool again = false;

    *out_program = NULL;
    do {
        program_destroy(p);
        status = settle(g, env, again, &p, &why);
        if (status == INLAY_OK) {
            use_packs(p, packs_open(&env->packs, p->snapshot.content_hash, env->providers, env->provider_count));
            status = program_compile(p, &why);
        }
        again = status == INLAY_UNSUPPORTED && p != NULL && settle_stuck(p);
    } while (again);
    if (status != INLAY_OK)
        program_tell(diag, &why);
    if (status == INLAY_OK) {
        packs_commit(p->packs);
        *out_program = p;
        p = NULL;
    }
    (void)threads_hold(held);
    program_destroy(p);
    return status;
}
