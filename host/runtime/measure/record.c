/* record.c - what runs took, filed as measurements of their kernels. */
#include "base/memory.h"
#include "measure/runs.h"
#include "exec/loop/watch.h"
#include "measure/attribute.h"
#include "partition/cost/cost_store.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

struct recording {
    const inlay_session *s;
    const struct timings *t;
    cost_list list;
};

/* A step at the sizes of the last run. */
static bool add_step(struct recording *r, const struct program *p, const inlay_value_state *sizes,
                     const plan_step *step)
{
    const part_region *region = step->step->region;
    uint32_t calls = 0;
    double ns = timings_step_ns(r->t, p, (uint32_t)(step->step - p->steps), &calls);
    cost_record like = { .samples = timings_runs(r->t), .when = (int64_t)time(NULL) };

    if (calls == 0 || !(ns > 0))
        return true;
    return attribute_add(&r->list, p, region, sizes, ns / calls, &like);
}

static bool add_program(struct recording *r, const struct runner *run)
{
    const struct bound *b = run->plans.now;
    struct arena a = { 0 };
    const inlay_value_state *sizes = b != NULL ? seen_states(run, &a) : NULL;
    bool good = b == NULL || sizes != NULL;

    for (uint32_t i = 0; good && b != NULL && i < b->plan->step_count; i++) {
        const plan_step *step = &b->plan->steps[i];
        uint32_t index = step->step != NULL ? (uint32_t)(step->step - run->prog->steps) : 0;

        if (step->step == NULL)
            continue; /* a copy */
        if (step->kind != PLAN_HOST)
            good = add_step(r, run->prog, sizes, step);
        if (step->kind != PLAN_HOST || run->children == NULL || run->children[index] == NULL)
            continue;
        for (uint32_t k = 0; good && k < step->step->node->body_count; k++)
            good = run->children[index][k] == NULL || add_program(r, run->children[index][k]);
    }
    arena_deinit(&a);
    return good;
}

inlay_status record_runs(const inlay_session *s, const struct runner *run, const struct timings *t, uint32_t *out_count,
                         inlay_diag *diag)
{
    struct recording r = { .s = s, .t = t };
    cost_log log = { s->env.log, s->env.log_ctx };
    inlay_status status = INLAY_OK;
    char folder[PATH_MAX];

    INLAY_TRY(session_costs_folder(s, folder, sizeof folder, diag));
    if (!add_program(&r, run)) {
        status = no_memory(diag, "to record what runs took");
        goto done;
    }
    cost_list_merge(&r.list);
    INLAY_TRY(cost_store_merge(folder, r.list.records, r.list.count, &log, diag));
    *out_count = r.list.count;
done:
    free(r.list.records);
    return status;
}
