#include "exec/loop/parallel_branches.h"
#include "base/clock.h"
#include "base/float_state.h"
#include "base/memory.h"
#include "exec/loop/steps.h"
#include "inlay/check.h"
#include "threads/scene.h"
#include "threads/threads.h"

/* Measurements decide whether branches run concurrently. Of every ROUND runs, TRIAL run sequentially and then TRIAL
 * concurrently; a trial has several runs because sleeping threads need some runs to wake up. If the first SOON
 * concurrent runs are much slower, the trial ends early. */
enum { TRIAL = 8, SOON = 4, ROUND = 1024 };
#define GAIN 0.97 /* of the sequential time; smaller gains may be noise */
#define LOSS 1.2  /* of the sequential time; a larger ratio ends the trial early */

struct branch {
    inlay_status status;
    uint32_t step; /* index in the plan of the step that failed */
};

inlay_status parallel_branches_create(struct bound *bound, inlay_diag *diag)
{
    const struct plan *plan = bound->plan;
    uint32_t most = 0;
    parallel_branches *parallel;

    bound->parallel = NULL;
    for (uint32_t k = 0; k < plan->branch_group_count; k++) {
        most = plan->branch_groups[k].branch_count > most ? plan->branch_groups[k].branch_count : most;
        for (uint32_t j = plan->branch_groups[k].first; j < plan->branch_groups[k].end; j++)
            if (!bound->steps[j].simple)
                return INLAY_OK; /* the step waits for a device, or a device runs it */
    }
    if (most < 2)
        return INLAY_OK;
    parallel = arena_array(&bound->arena, 1, sizeof *parallel);
    if (parallel != NULL) {
        parallel->diags = arena_array(&bound->arena, most, sizeof *parallel->diags);
        parallel->branches = arena_array(&bound->arena, most, sizeof *parallel->branches);
    }
    if (parallel == NULL || parallel->diags == NULL || parallel->branches == NULL)
        return no_memory(diag, "to bind a plan");
    bound->parallel = parallel;
    return INLAY_OK;
}

uint64_t parallel_branches_choose(const struct runner *runner, parallel_branches *parallel)
{
    const bool forced = runner->prog->env->runs.inter_threads > 1;

    if (forced || parallel->runs > 2 * TRIAL) {
        parallel->concurrent = forced || (double)parallel->best_ns[1] < (double)parallel->best_ns[0] * GAIN;
        parallel->runs = parallel->runs >= ROUND ? 0 : parallel->runs + 1;
        return 0;
    }
    if (parallel->runs == 0) /* the first run warms up */
        parallel->best_ns[0] = parallel->best_ns[1] = UINT64_MAX;
    parallel->concurrent = parallel->runs > TRIAL;
    return parallel->runs++ == 0 ? 0 : clock_ns();
}

void parallel_branches_record(parallel_branches *parallel, uint64_t began_ns)
{
    const uint64_t duration_ns = clock_ns() - began_ns;

    if (began_ns == 0)
        return;
    if (duration_ns < parallel->best_ns[parallel->concurrent])
        parallel->best_ns[parallel->concurrent] = duration_ns;
    if (parallel->runs > TRIAL + SOON && (double)parallel->best_ns[1] > (double)parallel->best_ns[0] * LOSS)
        parallel->runs = 2 * TRIAL + 1;
}

typedef struct group_run {
    struct runner *runner;
    struct bound *bound;
    const branch_group *group;
    crash_scene scene; /* of the run; a copy, because the calling thread changes its own while it runs a branch */
} group_run;

/* Runs the steps of branch k in order. Each branch has its own diag. */
static inlay_status run_branch(const group_run *run, uint32_t k, uint32_t *out_step)
{
    const branch_group *group = run->group;
    const float_state floats = float_state_get();
    run_shared *shared = run->runner->shared;
    inlay_status status = INLAY_OK;

    for (uint32_t i = group->begins[k]; i < group->begins[k + 1] && status == INLAY_OK; i++) {
        bound_step *step = &run->bound->steps[group->steps[i]];

        *out_step = group->steps[i];
        crash_here.step = step;
        step->args.diag = &run->bound->parallel->diags[k];
        status = step->simple ? step->execute(step->state, step->compiled, step->instance, &step->args)
                              : runner_step(run->runner, run->bound, step, step->args.diag);
        step->args.diag = &shared->diag;
        (void)float_state_restore(floats);
        if (status == INLAY_OK && shared->watched)
            status = run_poll(&shared->run);
    }
    return status;
}

static inlay_status run_branches(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const group_run *run = user;
    const crash_scene before = crash_here;

    (void)worker;
    crash_here = (crash_scene){ .describe = run->scene.describe, .model = run->scene.model };
    for (int64_t k = begin; k < end; k++) {
        struct branch *branch = &run->bound->parallel->branches[k];

        branch->status = run_branch(run, (uint32_t)k, &branch->step);
    }
    crash_here = before;
    return INLAY_OK; /* every branch runs to its end, so the reported failure does not depend on timing */
}

inlay_status parallel_branches_run(struct runner *runner, struct bound *bound, const branch_group *group,
                                   bound_step **out_failed)
{
    group_run run = { runner, bound, group, crash_here };
    parallel_branches *parallel = bound->parallel;
    inlay_status status;
    uint32_t first = INLAY_NONE;

    for (uint32_t k = 0; k < group->branch_count; k++) {
        inlay_diag *diag = &parallel->diags[k];

        parallel->branches[k] = (struct branch){ INLAY_OK, group->steps[group->begins[k]] };
        diag->struct_size = sizeof *diag;
        diag->code = INLAY_OK;
        diag->error_class = INLAY_CLASS_DEFAULT;
        diag->text[0] = diag->node[0] = diag->tensor[0] = '\0';
    }
    *out_failed = &bound->steps[group->first];
    INLAY_CHECK(bound->parallel != NULL && group->branch_count > 0);
    status = threads_parallel_for(&runner->shared->run, group->branch_count, 1, run_branches, &run);
    for (uint32_t k = 0; k < group->branch_count; k++)
        if (parallel->branches[k].status != INLAY_OK &&
            (first == INLAY_NONE || parallel->branches[k].step < parallel->branches[first].step))
            first = k;
    if (first == INLAY_NONE)
        return status;
    *out_failed = &bound->steps[parallel->branches[first].step];
    runner->shared->diag = parallel->diags[first];
    return parallel->branches[first].status;
}
