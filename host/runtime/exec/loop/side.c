#include "exec/loop/side.h"
#include "base/clock.h"
#include "base/float_state.h"
#include "base/memory.h"
#include "threads/scene.h"
#include "threads/threads.h"

/* Runs that are timed each way, one way after the other for threads that sleep wake up after some, of so many. Where
 * the first ones take far longer side by side no more are tried. */
enum { TRIAL = 8, SOON = 4, ROUND = 1024 };
#define GAIN 0.97 /* of the time one after the other; what is less may be chance */
#define LOSS 1.2

struct branch {
    inlay_status status;
    uint32_t step; /* of the plan, that failed */
};

inlay_status side_create(struct bound *b, inlay_diag *diag)
{
    const struct plan *p = b->plan;
    uint32_t most = 0;
    struct side *s;

    b->side = NULL;
    for (uint32_t k = 0; k < p->wave_count; k++) {
        most = p->waves[k].branch_count > most ? p->waves[k].branch_count : most;
        for (uint32_t j = p->waves[k].first; j < p->waves[k].end; j++)
            if (!b->steps[j].simple)
                return INLAY_OK; /* it waits for a device */
    }
    if (most < 2)
        return INLAY_OK;
    s = arena_array(&b->a, 1, sizeof *s);
    if (s != NULL) {
        s->diags = arena_array(&b->a, most, sizeof *s->diags);
        s->branches = arena_array(&b->a, most, sizeof *s->branches);
    }
    if (s == NULL || s->diags == NULL || s->branches == NULL)
        return no_memory(diag, "to bind a plan");
    b->side = s;
    return INLAY_OK;
}

uint64_t side_begin(const struct runner *r, struct side *s)
{
    const bool forced = r->prog->env->inter_threads > 1;

    if (forced || s->runs > 2 * TRIAL) {
        s->beside = forced || (double)s->best_ns[1] < (double)s->best_ns[0] * GAIN;
        s->runs = s->runs >= ROUND ? 0 : s->runs + 1;
        return 0;
    }
    if (s->runs == 0) /* the first one warms up */
        s->best_ns[0] = s->best_ns[1] = UINT64_MAX;
    s->beside = s->runs > TRIAL;
    return s->runs++ == 0 ? 0 : clock_ns();
}

void side_end(struct side *s, uint64_t began_ns)
{
    const uint64_t took = clock_ns() - began_ns;

    if (began_ns == 0)
        return;
    if (took < s->best_ns[s->beside])
        s->best_ns[s->beside] = took;
    if (s->runs > TRIAL + SOON && (double)s->best_ns[1] > (double)s->best_ns[0] * LOSS)
        s->runs = 2 * TRIAL + 1;
}

typedef struct wave_run {
    struct runner *r;
    struct bound *b;
    const plan_wave *w;
    const crash_scene *scene; /* of the run */
} wave_run;

/* Its steps, one after the other; diag is the branch's own. */
static inlay_status run_branch(const wave_run *x, uint32_t k, uint32_t *out_step)
{
    const plan_wave *w = x->w;
    const float_state floats = float_state_get();
    run_shared *shared = x->r->shared;
    inlay_status status = INLAY_OK;

    for (uint32_t i = w->begins[k]; i < w->begins[k + 1] && status == INLAY_OK; i++) {
        bound_step *s = &x->b->steps[w->steps[i]];

        *out_step = w->steps[i];
        crash_here.step = s;
        s->args.diag = &x->b->side->diags[k];
        status = s->execute(s->state, s->compiled, s->instance, &s->args);
        s->args.diag = &shared->diag;
        (void)float_state_restore(floats);
        if (status == INLAY_OK && shared->watched)
            status = run_poll(&shared->run);
    }
    return status;
}

static inlay_status run_branches(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const wave_run *x = user;
    const crash_scene before = crash_here;

    (void)worker;
    crash_here = (crash_scene){ .describe = x->scene->describe };
    for (int64_t k = begin; k < end; k++) {
        struct branch *b = &x->b->side->branches[k];

        b->status = run_branch(x, (uint32_t)k, &b->step);
    }
    crash_here = before;
    return INLAY_OK; /* every branch runs: which failure is told does not depend on who was first */
}

inlay_status side_run(struct runner *r, struct bound *b, const plan_wave *w, bound_step **out_failed)
{
    wave_run x = { r, b, w, &crash_here };
    struct side *s = b->side;
    inlay_status status;
    uint32_t first = INLAY_NONE;

    for (uint32_t k = 0; k < w->branch_count; k++) {
        inlay_diag *d = &s->diags[k];

        s->branches[k] = (struct branch){ INLAY_OK, w->steps[w->begins[k]] };
        d->struct_size = sizeof *d;
        d->code = INLAY_OK;
        d->error_class = INLAY_CLASS_PERMANENT;
        d->text[0] = d->node[0] = d->tensor[0] = '\0';
    }
    *out_failed = &b->steps[w->first];
    status = threads_parallel_for(&r->shared->run, w->branch_count, 1, run_branches, &x);
    for (uint32_t k = 0; k < w->branch_count; k++)
        if (s->branches[k].status != INLAY_OK && (first == INLAY_NONE || s->branches[k].step < s->branches[first].step))
            first = k;
    if (first == INLAY_NONE)
        return status;
    *out_failed = &b->steps[s->branches[first].step];
    r->shared->diag = s->diags[first];
    return s->branches[first].status;
}
