/* record.c - stores the times of runs as measurements of their kernels. */
#include "base/memory.h"
#include "inlay/check.h"
#include "measure/runs.h"
#include "measure/attribute.h"
#include "partition/cost/cost_store.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

struct recording {
    const inlay_session *session;
    const struct timings *timings;
    cost_list list;
};

/* Adds a step at the sizes of the last run. */
static bool add_step(struct recording *recording, const struct program *program, const inlay_value_state *sizes,
                     const plan_step *step)
{
    const partition_region *region = step->step->region;
    uint32_t calls = 0;
    double ns = timings_step_ns(recording->timings, program, (uint32_t)(step->step - program->steps), &calls);
    cost_record like = { .samples = timings_runs(recording->timings), .when = (int64_t)time(NULL) };

    INLAY_CHECK(step->step >= program->steps && step->step < program->steps + program->step_count);
    if (calls == 0 || !(ns > 0))
        return true;
    return attribute_add(&recording->list, program, region, sizes, ns / calls, &like);
}

static bool add_program(struct recording *recording, const struct runner *runner)
{
    const struct bound *bound = runner->plans.now;
    struct arena arena = { 0 };
    const inlay_value_state *sizes = bound != NULL ? observed_states(runner, &arena) : NULL;
    bool ok = bound == NULL || sizes != NULL;

    for (uint32_t i = 0; ok && bound != NULL && i < bound->plan->step_count; i++) {
        const plan_step *step = &bound->plan->steps[i];
        uint32_t index = step->step != NULL ? (uint32_t)(step->step - runner->prog->steps) : 0;

        if (step->step == NULL)
            continue; /* a copy */
        if (step->kind != PLAN_HOST)
            ok = add_step(recording, runner->prog, sizes, step);
        if (step->kind != PLAN_HOST || runner->children == NULL || runner->children[index] == NULL)
            continue;
        for (uint32_t k = 0; ok && k < step->step->node->body_count; k++)
            ok = runner->children[index][k] == NULL || add_program(recording, runner->children[index][k]);
    }
    arena_deinit(&arena);
    return ok;
}

inlay_status record_runs(const inlay_session *session, const struct runner *runner, const run_observer *measured,
                         uint32_t *out_count, inlay_diag *diag)
{
    struct recording recording = { .session = session, .timings = timings_of(measured) };
    cost_log log = { session->env.log, session->env.log_ctx };
    inlay_status status = INLAY_OK;
    char folder[PATH_MAX];

    if (recording.timings == NULL || timings_runs(recording.timings) == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "no run of this context was measured; see inlay_context_measure");
    INLAY_TRY(session_costs_folder(session, folder, sizeof folder, diag));
    if (!add_program(&recording, runner)) {
        status = no_memory(diag, "to record the times of runs");
        goto done;
    }
    cost_list_merge(&recording.list);
    INLAY_TRY(cost_store_merge(folder, recording.list.records, recording.list.count, &log, diag));
    *out_count = recording.list.count;
done:
    free(recording.list.records);
    return status;
}
