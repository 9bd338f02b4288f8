#include "plan/create/create.h"
#include "inlay/check.h"
#include "plan/create/undo.h"
#include "threads/threads.h"

/* All graphs of a model share the packed weights; the main graph's program closes them, after all regions are
 * released. */
static void share_packs(struct program *program, struct packs *shared)
{
    program->packs = shared;
    for (uint32_t i = 0; i < program->body_count; i++)
        share_packs(program->bodies[i], shared);
}

static void open_packs(struct program *program)
{
    const program_env *env = program->env;

    share_packs(program, packs_open(&env->packs, program->snapshot.content_hash, env->providers, env->provider_count));
}

static inlay_status assign(struct assignment *assignment, inlay_diag *diag)
{
    const program_env *env = assignment->env;
    inlay_status status;

    if (assignment->program != NULL)
        return program_assign_bodies(assignment->program, diag);
    status = program_assign(assignment->graph, env, assignment->undone, &assignment->program, diag);
    if (status == INLAY_OK)
        status = program_compare_rewrites(&assignment->program, diag);
    if (status == INLAY_OK && !assignment->only_assign)
        open_packs(assignment->program);
    return status;
}

static bool follows_plan(const program_env *env)
{
    return env->rules != NULL && env->rules->saved_plan != NULL;
}

/* An offer that compile declines should have been refused in assess: the log is where its author sees that. */
static void report_declined(const program_declined *declined)
{
    const program_env *env = declined->program->env;
    char line[500];

    (void)snprintf(line, sizeof line, "graph '%s' is assigned again for all shapes: %.300s",
                   declined->program->graph->name, declined->text);
    if (env->log != NULL)
        env->log(env->log_ctx, INLAY_LOG_INFO, line);
}

/* Changes the assignment according to the reason of a failed round; returns whether another round may succeed. */
static bool handle_failure(struct assignment *assignment, inlay_status status)
{
    inlay_diag quiet = INLAY_DIAG_INIT;
    inlay_status again = INLAY_UNSUPPORTED;

    if (assignment->program == NULL)
        return false;
    if (assignment->declined.program != NULL) {
        report_declined(&assignment->declined);
        again = program_assign_without(&assignment->declined, &quiet);
    }
    if (again != INLAY_UNSUPPORTED || assignment->shares_graph)
        return again == INLAY_OK;
    if (!(status == INLAY_UNSUPPORTED && undo_uncovered(assignment->program)) &&
        !(status == INLAY_INVALID_ARGUMENT && follows_plan(assignment->env) && undo_for_plan(assignment->program)))
        return false;
    program_destroy(assignment->program);
    assignment->program = NULL;
    assignment->undone = true;
    return true;
}

inlay_status assign_until_stable(struct assignment *assignment, inlay_diag *diag)
{
    const uint32_t held = threads_set_limit(assignment->env->max_threads);
    inlay_status status;

    INLAY_CHECK(assignment->graph != NULL && assignment->env != NULL);
    do {
        assignment->declined = (program_declined){ 0 };
        status = assign(assignment, diag);
        if (status == INLAY_OK && !assignment->only_assign)
            status = program_compile(assignment->program, &assignment->declined, diag);
    } while (status != INLAY_OK && handle_failure(assignment, status));
    (void)threads_set_limit(held);
    return status;
}

inlay_status program_create(struct graph *graph, const program_env *env, struct program **out_program, inlay_diag *diag)
{
    struct assignment assignment = { .graph = graph, .env = env };
    inlay_diag why = INLAY_DIAG_INIT;
    const inlay_status status = assign_until_stable(&assignment, &why);

    *out_program = status == INLAY_OK ? assignment.program : NULL;
    if (status == INLAY_OK) {
        packs_commit(assignment.program->packs);
        return INLAY_OK;
    }
    forward_diag(diag, &why);
    program_destroy(assignment.program);
    return status;
}

bool program_runs_on(const struct program *program, const uint8_t *providers)
{
    bool uses = false;

    for (uint32_t i = 0; !uses && i < program->parts.region_count; i++)
        uses = program->parts.regions[i].provider != INLAY_NONE && providers[program->parts.regions[i].provider] != 0;
    for (uint32_t i = 0; !uses && i < program->body_count; i++)
        uses = program_runs_on(program->bodies[i], providers);
    return uses;
}

inlay_status program_assign_only(struct graph *graph, const program_env *env, struct program **out_program,
                                 inlay_diag *diag)
{
    struct assignment assignment = { .graph = graph, .env = env, .only_assign = true };
    inlay_diag why = INLAY_DIAG_INIT;
    const inlay_status status = assign_until_stable(&assignment, &why);

    *out_program = status == INLAY_OK ? assignment.program : NULL;
    if (status == INLAY_OK)
        return INLAY_OK;
    forward_diag(diag, &why);
    program_destroy(assignment.program);
    return status;
}

inlay_status program_create_beside(struct graph *graph, const program_env *env, struct program **out_program,
                                   inlay_diag *diag)
{
    struct program *program = NULL;
    inlay_status status = program_assign(graph, env, true, &program, diag);

    *out_program = NULL;
    if (status == INLAY_OK)
        status = program_finish(&program, diag);
    if (status == INLAY_OK)
        *out_program = program;
    else
        program_destroy(program);
    return status;
}

inlay_status program_finish(struct program **inout_program, inlay_diag *diag)
{
    struct assignment assignment = {
        .graph = (*inout_program)->graph, .env = (*inout_program)->env, .program = *inout_program, .shares_graph = true
    };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    open_packs(assignment.program);
    status = assign_until_stable(&assignment, &why);
    *inout_program = assignment.program;
    if (status == INLAY_OK)
        packs_commit(assignment.program->packs);
    else
        forward_diag(diag, &why);
    return status;
}
