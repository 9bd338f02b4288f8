/* exec/loop/runner.c - a run: its plan, its inputs, its steps, its outputs; and who runs it when a device fails. */
#include "exec/loop/runner.h"
#include "base/memory.h"
#include "exec/device/in_flight.h"
#include "exec/device/stay.h"
#include "exec/loop/bound.h"
#include "exec/loop/ports.h"
#include "exec/loop/side.h"
#include "exec/loop/steps.h"
#include "exec/loop/watch.h"
#include "inlay/extensions.h"
#include "plan/create/fallback.h"
#include "plan/program/declined.h"
#include "plugin/crash.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ bound plans */

/* The bound plan for the shapes in r->key. */
static inlay_status find_bound(struct runner *r, uint32_t count, struct bound **out_bound, inlay_diag *diag)
{
    uint32_t slot = 0;
    struct plan *p = NULL;
    inlay_status status;

    r->plans.clock++;
    for (uint32_t i = 0; i < BOUNDS_KEPT; i++) {
        struct bound *b = r->plans.kept[i];
        if (b != NULL && plan_fits(b->plan, r->in.key, count)) {
            b->last_used = r->plans.clock;
            *out_bound = b;
            return bound_settle(r, b, diag);
        }
        if (b == NULL || (r->plans.kept[slot] != NULL && b->last_used < r->plans.kept[slot]->last_used))
            slot = i;
    }
    status = plan_get(r->prog, r->in.key, count, &p, diag);
    if (status != INLAY_OK)
        return status;
    bound_destroy(r, r->plans.kept[slot]);
    if (r->plans.now == r->plans.kept[slot])
        r->plans.now = NULL;
    r->plans.kept[slot] = NULL;
    status = bound_create(r, p, &r->plans.kept[slot], diag);
    if (status == INLAY_OK)
        r->plans.kept[slot]->last_used = r->plans.clock;
    *out_bound = r->plans.kept[slot];
    return status;
}

/* ------------------------------------------------------------------ a run */

/* Only who has streams is handed what may be signalled by work that it does not have yet. */
static inlay_status wait_first(const struct runner *r, const rt_value *inputs, inlay_diag *diag)
{
    const uint32_t input_count = r->prog->graph->input_count, count = input_count + r->prog->graph->output_count;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; r->in.ready != NULL && i < count && status == INLAY_OK; i++) {
        const uint32_t domain = i < input_count ? inputs[i].buffer.domain : runner_wanted(r, i - input_count);
        const uint32_t p = r->in.ready[i].timeline != 0 ? plan_owner_of(r->prog->env, domain) : INLAY_NONE;
        const part_provider *own = p != INLAY_NONE ? &r->prog->env->providers[p] : NULL;

        if (own != NULL && ((own->table->flags & INLAY_PROVIDER_ASYNC) == 0 || own->table->extension == NULL ||
                            own->table->extension(own->state, INLAY_EXT_STREAMS) == NULL))
            status = fence_wait(r->in.ready[i], &r->shared->run, diag);
    }
    return status;
}

/* After a failure the context can run again: with timelines that know nothing of it. */
static void renew_timelines(struct bound *b)
{
    for (uint32_t i = 0; i < b->plan->step_count; i++) {
        timeline_renew(&b->steps[i].fence.timeline);
        b->steps[i].fence.value = 0;
    }
    timeline_renew(&b->made.arrival.timeline);
    b->made.arrival.value = 0;
    b->flight.poisoned = false;
}

/* For a crash handler: whose code runs in a step. Nothing is allocated, locked or written. */
static void describe_step(const void *step, crash_scene *out)
{
    const bound_step *s = step;
    const program_step *ps = s->plan->step;

    if (ps == NULL || ps->provider == NULL)
        return;
    out->module = provider_module(ps->provider->table, ps->provider->state);
    out->call = "execute";
    out->provider = ps->provider->name;
    out->node = ps->node->info.name.data;
}

/* The same with waves, side by side where that is faster. */
static inlay_status walk_waves(struct runner *r, struct bound *b, inlay_diag *diag)
{
    const uint64_t began = side_begin(r, b->side);
    const struct plan *p = b->plan;
    inlay_status status = INLAY_OK;
    uint32_t at = 0;

    for (uint32_t k = 0; b->side->beside && k < p->wave_count && status == INLAY_OK; k++) {
        bound_step *failed;

        status = steps_walk(r, b, at, p->waves[k].first, diag);
        at = p->waves[k].end;
        if (status != INLAY_OK)
            return status;
        status = side_run(r, b, &p->waves[k], &failed);
        if (status != INLAY_OK)
            return runner_step_failed(r, failed, status, diag);
    }
    status = steps_walk(r, b, at, p->step_count, diag);
    if (status == INLAY_OK)
        side_end(b->side, began);
    return status;
}

/* The steps get the run's cancel word and deadline; most runs have those of the one before. */
static void propagate_control(struct runner *r, struct bound *b)
{
    const inlay_run *run = &r->shared->run;

    if (b->control.cancel == run->cancel && b->control.deadline_ns == run->deadline_ns)
        return;
    b->control.cancel = run->cancel;
    b->control.deadline_ns = run->deadline_ns;
    for (uint32_t i = 0; i < b->plan->step_count; i++) {
        b->steps[i].args.cancel = run->cancel;
        b->steps[i].args.deadline_ns = run->deadline_ns;
    }
}

/* Runs the program that stands in for the runner's own, and takes over its outputs. */
static inlay_status run_fallback(struct runner *r, struct program *other, const rt_value *inputs, inlay_diag *diag)
{
    uint32_t count = r->prog->graph->output_count;
    struct runner *x = r->fallback.runners;
    inlay_status status = INLAY_OK;

    if (r->out.placed != NULL) /* its regions are others, and may not append in place */
        return inlay_fail(diag, INLAY_BUSY, "graph '%s' has other regions at these sizes", r->prog->graph->name);
    while (x != NULL && x->prog != other)
        x = x->fallback.next;
    if (x == NULL) {
        status = runner_create(other, r->shared, &x, diag);
        if (status != INLAY_OK)
            return status;
        x->fallback.next = r->fallback.runners;
        r->fallback.runners = x;
    }
    r->plans.now = NULL;
    memcpy(x->out.wanted, r->out.wanted, count * sizeof *x->out.wanted);
    x->in.ready = r->in.ready;
    x->out.homes = r->failed == NULL ? r->out.homes : NULL; /* a device that failed keeps nothing */
    status = runner_run(x, inputs, diag);
    for (uint32_t k = 0; k < count; k++) {
        value_unref(r->out.values[k]);
        r->out.values[k] = x->out.values[k];
        x->out.values[k] = NULL;
    }
    return status;
}

/* The program for the shapes in r->key: *out is NULL when it is the runner's own, whose plan is then in *out_bound. */
static inlay_status find_program(struct runner *r, uint32_t count, struct program **out, struct bound **out_bound,
                                 inlay_diag *diag)
{
    inlay_status planned = INLAY_OK;

    for (;;) {
        const inlay_status found = fallback_find(r->prog, r->in.key, count, out, diag);

        if (found != INLAY_OK || *out != NULL)
            return found;
        if (planned != INLAY_OK)
            return planned;
        planned = find_bound(r, count, out_bound, diag);
        if (planned != INLAY_UNSUPPORTED) /* otherwise a provider may have declined just now */
            return planned;
    }
}

/* A dynamic step was declined: others run these shapes of the inputs. */
static inlay_status decline_run(struct runner *r, uint32_t count, struct program **out, inlay_diag *diag)
{
    struct program *p = r->prog;
    uint8_t *offers = calloc((size_t)p->parts.offer_count + 1, 1);
    inlay_status status;

    if (offers == NULL)
        return declined_no_memory(p, diag);
    declined_mark(p, (uint32_t)(r->declined.step - p->steps), &r->declined.why, offers);
    status = fallback_without(p, r->in.key, count, offers, r->declined.why.text, out, diag);
    free(offers);
    return status;
}

/* A device failed: from now on the others run these shapes. */
static inlay_status leave_out(struct runner *r, uint32_t count, inlay_status status, const inlay_diag *why,
                              struct program **out)
{
    struct program *p = r->prog;
    const uint32_t failed = (uint32_t)(r->failed - p->env->providers);
    uint8_t *offers;
    char text[sizeof why->text];
    uint32_t used = 0;

    while (used < p->step_count && p->steps[used].provider != r->failed)
        used++;
    offers = used < p->step_count ? calloc((size_t)p->parts.offer_count + 1, 1) : NULL;
    if (offers == NULL)
        return INLAY_OUT_OF_MEMORY; /* or it is left out already: what lies there is out of reach */
    for (uint32_t o = 0; o < p->parts.offer_count; o++)
        offers[o] = p->parts.offers[o].provider == failed;
    (void)snprintf(text, sizeof text, "provider %s is left out: %.300s", r->failed->name,
                   why->code == status ? why->text : inlay_status_text(status));
    status = fallback_without(p, r->in.key, count, offers, text, out, NULL);
    free(offers);
    if (status == INLAY_OK && p->env->log != NULL)
        p->env->log(p->env->log_ctx, INLAY_LOG_WARNING, text);
    return status;
}

/* plan_input.also of input i, where somebody reads it as the other domain knows it. */
static uint32_t known_also(const struct program *p, uint32_t i, const rt_value *x)
{
    const struct graph *g = p->graph;
    const uint32_t v = i < g->input_count ? g->inputs[i] : g->captured[i - g->input_count];

    if (x->alias.handle == 0 ||
        (x->alias.domain == INLAY_DOMAIN_HOST ? !p->uses.read_here[v] : p->uses.read_in[v] != x->alias.domain))
        return 0;
    return 1 + x->alias.domain;
}

/* What the run is given, in r->in.key; returns how many entries. */
static uint32_t make_key(struct runner *r, const rt_value *inputs)
{
    const uint32_t count = r->prog->graph->input_count + r->prog->graph->captured_count;

    for (uint32_t i = 0; i < count; i++) {
        const bool tensor = inputs[i].kind == INLAY_KIND_TENSOR;

        r->in.key[i] = (plan_input){ inputs[i].dtype,
                                     tensor ? inputs[i].rank : INLAY_RANK_UNKNOWN,
                                     inputs[i].dims,
                                     inputs[i].room,
                                     tensor ? inputs[i].buffer.domain : (uint32_t)INLAY_DOMAIN_HOST,
                                     tensor ? known_also(r->prog, i, &inputs[i]) : 0 };
    }
    return count + runner_wants(r, r->in.key + count);
}

/* Inputs and outputs are bound, all steps run, and nothing is in flight. */
static inlay_status run_steps(struct runner *r, struct bound *b, const rt_value *inputs, inlay_diag *diag)
{
    crash_scene before;
    inlay_status status;

    runner_bind_inputs(r, b, inputs);
    status = wait_first(r, inputs, diag);
    if (status == INLAY_OK)
        status = runner_bind_outputs(r, b, inputs, diag);
    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < b->ports.patch_count; i++)
        *b->ports.patches[i].target = b->memory.buffers[b->ports.patches[i].place];
    propagate_control(r, b);
    crash_thread();
    before = crash_here;
    crash_here = (crash_scene){ .describe = describe_step };
    status = r->shared->hook != NULL ? watch_walk(r, b, diag)
             : b->side != NULL       ? walk_waves(r, b, diag)
                                     : steps_walk(r, b, 0, b->plan->step_count, diag);
    crash_leave(&before);
    return in_flight_settle(r, b, status, diag);
}

/* What the run has made goes, but for its outputs. */
static void end_steps(struct runner *r, struct bound *b)
{
    const uint32_t values = r->prog->graph->value_count;

    if (b->made.states != NULL || b->made.has_objects) {
        for (uint32_t v = 0; v < values; v++)
            if (b->made.values[v].kind != 0 || (b->made.twins != NULL && b->made.twins[v] != NULL))
                runner_set(r, b, v, NULL);
        b->made.has_objects = false;
        arena_reset(&b->made.scratch);
    }
    if (r->shared->hang.unwinding)
        return;
    if (b->flight.poisoned)
        renew_timelines(b);
    r->plans.busy = NULL;
}

/* The run's own plan: *out_other is NULL, or the program that is to run in its place. */
static inlay_status run_own(struct runner *r, const rt_value *inputs, uint32_t count, struct program **out_other,
                            inlay_diag *diag)
{
    struct bound *b = NULL;
    inlay_status status = find_program(r, count, out_other, &b, diag);

    if (status != INLAY_OK || *out_other != NULL)
        return status;
    r->plans.now = r->plans.busy = b;
    b->at = NULL;
    r->failed = b->flight.has_async ? in_flight_lost(r) : NULL;
    if (r->failed != NULL)
        return inlay_fail(diag, INLAY_DEVICE_LOST, "a device of the session was lost; create a new session");
    status = run_steps(r, b, inputs, diag);
    if (r->shared->hang.unwinding)
        return status;
    b->memory.captures = status == INLAY_OK ? r->in.captures : 0;
    if (status == INLAY_OK)
        status = runner_gather_outputs(r, b, diag);
    end_steps(r, b);
    if (status == INLAY_UNSUPPORTED && r->declined.step != NULL)
        status = decline_run(r, count, out_other, diag);
    return status;
}

/* Can the run go on without the device that failed? */
static bool may_leave_out(const struct runner *r, inlay_status status)
{
    return r->failed != NULL && r->prog->env->without_failed &&
           (status == INLAY_DEVICE_LOST || status == INLAY_OUT_OF_MEMORY || status == INLAY_LIMIT_EXCEEDED);
}

static inlay_status run_once(struct runner *r, const rt_value *inputs, inlay_diag *caller)
{
    inlay_diag *diag = &r->shared->diag; /* steps hold its address */
    struct program *other = NULL;
    inlay_status status;
    uint32_t count;

    r->declined.step = NULL;
    r->plans.busy = NULL;
    r->failed = NULL;
    r->in.captures += !r->in.same_captures;
    diag->code = INLAY_OK;
    diag->error_class = INLAY_CLASS_PERMANENT;
    diag->text[0] = diag->node[0] = diag->tensor[0] = '\0';
    count = make_key(r, inputs);
    status = run_own(r, inputs, count, &other, diag);
    if (status == INLAY_OK)
        return other != NULL ? run_fallback(r, other, inputs, caller) : INLAY_OK;
    if (may_leave_out(r, status) && leave_out(r, count, status, diag, &other) == INLAY_OK && other != NULL) {
        runner_keep_outputs(r);
        if (r->shared->hang.unwinding)
            r->shared->run.cancel = r->shared->hang.asked;
        r->shared->hang.unwinding = false;
        return run_fallback(r, other, inputs, caller);
    }
    if (caller != NULL && caller != diag && diag->code == status && caller->struct_size >= sizeof *caller)
        *caller = *diag;
    else if (caller != diag)
        (void)inlay_fail(caller, status, "graph '%s': %s", r->prog->graph->name, inlay_status_text(status));
    for (uint32_t k = 0; k < r->prog->graph->output_count && !r->shared->hang.unwinding; k++) {
        pool_give(r->shared,
                  r->out.values[k]); /* giving large memory back would take longer than a deadline has left */
        r->out.values[k] = NULL;
    }
    return status;
}

/* What lay on a device that was lost is made anew, where others are to run in its place: of them the runners of bodies
 * may only have heard in the middle of a loop. */
inlay_status runner_run(struct runner *r, const rt_value *inputs, inlay_diag *diag)
{
    const inlay_status status = run_once(r, inputs, diag);

    return status == INLAY_DEVICE_LOST && r == r->shared->root && r->prog->env->without_failed &&
                   !r->shared->hang.abandoned
               ? run_once(r, inputs, diag)
               : status;
}

/* ------------------------------------------------------------------ life */

inlay_status runner_create(struct program *prog, run_shared *shared, struct runner **out_runner, inlay_diag *diag)
{
    const struct graph *g = prog->graph;
    struct runner *r = calloc(1, sizeof *r);

    *out_runner = NULL;
    if (r != NULL) {
        r->prog = prog;
        r->shared = shared;
        if (shared->root == NULL)
            shared->root = r;
        r->children = calloc((size_t)prog->step_count + 1, sizeof(struct runner **));
        r->out.values = calloc((size_t)g->output_count + 1, sizeof(inlay_value *));
        r->out.spares = calloc((size_t)g->output_count + 1, sizeof(inlay_value *));
        r->out.wanted = calloc((size_t)g->output_count + 1, sizeof(inlay_value *));
        r->in.key = calloc((size_t)g->input_count + g->captured_count + g->output_count + 1, sizeof *r->in.key);
    }
    if (r == NULL || !stay_share(r) || r->children == NULL || r->out.values == NULL || r->out.spares == NULL ||
        r->out.wanted == NULL || r->in.key == NULL) {
        runner_destroy(r);
        return no_memory(diag, "for a run context");
    }
    *out_runner = r;
    return INLAY_OK;
}

void runner_destroy(struct runner *r)
{
    if (r == NULL || r->shared->hang.abandoned)
        return;
    while (r->fallback.runners != NULL) {
        struct runner *next = r->fallback.runners->fallback.next;

        runner_destroy(r->fallback.runners);
        r->fallback.runners = next;
    }
    for (uint32_t i = 0; i < BOUNDS_KEPT; i++)
        bound_destroy(r, r->plans.kept[i]);
    if (r->plans.spare != NULL)
        arena_deinit(&r->plans.spare->a);
    free(r->plans.spare);
    run_memory_give(r->shared->tensors.memory, r->plans.slab, r->plans.slab_bytes);
    if (r->shared->root == r)
        r->shared->root = NULL;
    for (uint32_t i = 0; r->children != NULL && i < r->prog->step_count; i++) {
        for (uint32_t k = 0; r->children[i] != NULL && k < r->prog->steps[i].node->body_count; k++)
            runner_destroy(r->children[i][k]);
        free(r->children[i]);
    }
    for (uint32_t k = 0; k < r->prog->graph->output_count; k++) {
        if (r->out.values != NULL)
            value_unref(r->out.values[k]);
        if (r->out.spares != NULL)
            value_unref(r->out.spares[k]);
    }
    free(r->children);
    free(r->out.values);
    free(r->out.spares);
    free(r->out.shares);
    free(r->out.wanted);
    free(r->in.key);
    free(r);
}
