/* exec/loop/runner.c - runs a program: selects the plan, binds inputs and outputs, runs the steps; and runs a fallback
 * program if a device fails. */
#include "exec/loop/runner.h"
#include "base/memory.h"
#include "exec/device/in_flight.h"
#include "exec/device/residency.h"
#include "exec/loop/bound.h"
#include "exec/loop/observe.h"
#include "exec/loop/ports.h"
#include "exec/loop/realtime.h"
#include "exec/loop/parallel_branches.h"
#include "exec/loop/steps.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "plan/create/fallback.h"
#include "plan/program/declined.h"
#include "plugin/crash.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the bound plan for the shapes in runner->in.key, and binds one if there is none. */
static inlay_status find_bound(struct runner *runner, uint32_t count, struct bound **out_bound, inlay_diag *diag)
{
    uint32_t slot = 0;
    struct plan *plan = NULL;
    inlay_status status;

    runner->plans.clock++;
    for (uint32_t i = 0; i < MAX_BOUND_PLANS; i++) {
        struct bound *bound = runner->plans.kept[i];
        INLAY_CHECK(bound == NULL || bound->plan != NULL);
        if (bound != NULL && plan_fits(bound->plan, runner->in.key, count)) {
            bound->last_used = runner->plans.clock;
            *out_bound = bound;
            return bound_prepare(runner, bound, diag);
        }
        if (bound == NULL ||
            (runner->plans.kept[slot] != NULL && bound->last_used < runner->plans.kept[slot]->last_used))
            slot = i;
    }
    status = realtime_forbid_growth(runner, diag);
    if (status == INLAY_OK)
        status = plan_get(runner->prog, runner->in.key, count, &runner->shared->run, &plan, diag);
    if (status != INLAY_OK)
        return status;
    bound_destroy(runner, runner->plans.kept[slot]);
    if (runner->plans.now == runner->plans.kept[slot])
        runner->plans.now = NULL;
    runner->plans.kept[slot] = NULL;
    status = bound_create(runner, plan, &runner->plans.kept[slot], diag);
    if (status == INLAY_OK && (status = realtime_prepare(runner, plan, diag)) != INLAY_OK) {
        bound_destroy(runner, runner->plans.kept[slot]);
        runner->plans.kept[slot] = NULL;
    }
    if (status == INLAY_OK)
        runner->plans.kept[slot]->last_used = runner->plans.clock;
    *out_bound = runner->plans.kept[slot];
    return status;
}

/* Waits for the fences of the caller's values. Only stream-aware providers may wait for work that is submitted later;
 * for all others the host waits here. */
static inlay_status wait_for_caller(const struct runner *runner, const run_value *inputs, inlay_diag *diag)
{
    const uint32_t input_count = runner->prog->graph->input_count,
                   count = input_count + runner->prog->graph->output_count;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; runner->in.ready != NULL && i < count && status == INLAY_OK; i++) {
        const uint32_t domain =
            i < input_count ? inputs[i].buffer.domain : runner_output_domain(runner, i - input_count);
        const uint32_t provider =
            runner->in.ready[i].timeline != 0 ? plan_owner_of(runner->prog->env, domain) : INLAY_NONE;
        const partition_provider *own = provider != INLAY_NONE ? &runner->prog->env->providers[provider] : NULL;

        if (own != NULL && ((own->table->flags & INLAY_PROVIDER_ASYNC) == 0 || own->table->extension == NULL ||
                            own->table->extension(own->state, INLAY_EXT_STREAMS) == NULL))
            status = fence_wait(runner->in.ready[i], &runner->shared->run, diag);
    }
    return status;
}

/* Replaces the timelines after a failure, so that the context can run again. */
static void renew_timelines(struct bound *bound)
{
    for (uint32_t i = 0; i < bound->plan->step_count; i++) {
        timeline_renew(&bound->steps[i].fence.timeline);
        bound->steps[i].fence.value = 0;
    }
    timeline_renew(&bound->dynamic.last_mirror_fence.timeline);
    bound->dynamic.last_mirror_fence.value = 0;
    bound->flight.poisoned = false;
}

/* Describes the step that runs, for the crash handler. Must not allocate or lock, and writes only *out. */
static void describe_step(const void *step, crash_scene *out)
{
    const bound_step *current = step;
    const program_step *planned = current->plan->step;

    if (planned == NULL || planned->provider == NULL)
        return;
    out->module = provider_module(planned->provider->table, planned->provider->state);
    out->call = "execute";
    out->provider = planned->provider->name;
    out->node = planned->node->info.name.data;
}

/* Runs the steps of a plan that has concurrent branches. The branches run concurrently if that is faster. */
static inlay_status run_steps_with_branches(struct runner *runner, struct bound *bound, inlay_diag *diag)
{
    const uint64_t began = parallel_branches_choose(runner, bound->parallel);
    const struct plan *plan = bound->plan;
    inlay_status status = INLAY_OK;
    uint32_t at = 0;

    for (uint32_t k = 0; bound->parallel->concurrent && k < plan->branch_group_count && status == INLAY_OK; k++) {
        bound_step *failed;

        status = steps_walk(runner, bound, at, plan->branch_groups[k].first, diag);
        at = plan->branch_groups[k].end;
        if (status != INLAY_OK)
            return status;
        status = parallel_branches_run(runner, bound, &plan->branch_groups[k], &failed);
        if (status != INLAY_OK)
            return runner_step_failed(runner, failed, status, diag);
    }
    status = steps_walk(runner, bound, at, plan->step_count, diag);
    if (status == INLAY_OK)
        parallel_branches_record(bound->parallel, began);
    return status;
}

/* Passes cancel flag, deadline, priority and power of the run to the steps. Usually these are equal to those of the
 * previous run, and nothing is written. */
static void propagate_control(struct runner *runner, struct bound *bound)
{
    const inlay_run *run = &runner->shared->run;

    if (bound->control.cancel == run->cancel && bound->control.deadline_ns == run->deadline_ns &&
        bound->control.priority == run->priority && bound->control.power == run->power)
        return;
    bound->control = (bound_control){ run->cancel, run->deadline_ns, run->priority, run->power };
    for (uint32_t i = 0; i < bound->plan->step_count; i++) {
        bound->steps[i].args.cancel = run->cancel;
        bound->steps[i].args.deadline_ns = run->deadline_ns;
        bound->steps[i].args.priority = run->priority;
        bound->steps[i].args.power = run->power;
    }
}

/* Runs the fallback program and takes over its outputs. */
static inlay_status run_fallback(struct runner *runner, struct program *other, const run_value *inputs,
                                 inlay_diag *diag)
{
    uint32_t count = runner->prog->graph->output_count;
    struct runner *fallback = runner->fallback.runners;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(other != NULL && other != runner->prog);
    if (runner->out.placed != NULL) /* the regions of the fallback may be unable to append in place */
        return inlay_fail(diag, INLAY_BUSY, "graph '%s' has other regions at these sizes", runner->prog->graph->name);
    while (fallback != NULL && fallback->prog != other)
        fallback = fallback->fallback.next;
    if (fallback == NULL) {
        status = runner_create(other, runner->shared, &fallback, diag);
        if (status != INLAY_OK)
            return status;
        fallback->fallback.next = runner->fallback.runners;
        runner->fallback.runners = fallback;
    }
    runner->plans.now = NULL;
    memcpy(fallback->out.wanted, runner->out.wanted, count * sizeof *fallback->out.wanted);
    fallback->in.ready = runner->in.ready;
    fallback->out.domains =
        runner->failed == NULL ? runner->out.domains : NULL; /* nothing stays on a device that failed */
    status = runner_run(fallback, inputs, diag);
    for (uint32_t k = 0; k < count; k++) {
        value_unref(runner->out.values[k]);
        runner->out.values[k] = fallback->out.values[k];
        fallback->out.values[k] = NULL;
    }
    return status;
}

/* Finds the program for the shapes in runner->in.key. *out is NULL if it is the runner's own; *out_bound is then its
 * bound plan. */
static inlay_status find_program(struct runner *runner, uint32_t count, struct program **out, struct bound **out_bound,
                                 inlay_diag *diag)
{
    inlay_status planned = INLAY_OK;

    for (;;) {
        const inlay_status found = fallback_find(runner->prog, runner->in.key, count, out, diag);

        if (found != INLAY_OK || *out != NULL)
            return found;
        if (planned != INLAY_OK)
            return planned;
        planned = find_bound(runner, count, out_bound, diag);
        if (planned != INLAY_UNSUPPORTED) /* otherwise a provider may have declined just now */
            return planned;
    }
}

/* A provider declined to specialise a dynamic step: finds a program that runs these input shapes without it. */
static inlay_status decline_run(struct runner *runner, uint32_t count, struct program **out, inlay_diag *diag)
{
    struct program *program = runner->prog;
    uint8_t *offers = calloc((size_t)program->parts.offer_count + 1, 1);
    inlay_status status;

    if (offers == NULL)
        return declined_no_memory(program, diag);
    INLAY_CHECK(runner->declined.step >= program->steps &&
                runner->declined.step < program->steps + program->step_count);
    declined_mark(program, (uint32_t)(runner->declined.step - program->steps), &runner->declined.why, offers);
    status = fallback_without(program, runner->in.key, count, offers, runner->declined.why.text, out, diag);
    free(offers);
    return status;
}

/* A device failed: the other providers run these shapes from now on, or only this run if the provider starts again. */
static inlay_status exclude_failed_device(struct runner *runner, uint32_t count, inlay_status status,
                                          const inlay_diag *why, struct program **out)
{
    struct program *program = runner->prog;
    const uint32_t failed = (uint32_t)(runner->failed - program->env->providers);
    uint8_t *offers;
    char text[sizeof why->text];
    uint32_t used = 0;

    INLAY_CHECK(failed < program->env->provider_count);
    while (used < program->step_count && program->steps[used].provider != runner->failed)
        used++;
    if (used == program->step_count) /* the program excludes the provider already; its device memory is unreachable */
        return status;
    offers = calloc((size_t)program->parts.offer_count + 1, 1);
    if (offers == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++)
        offers[offer] = program->parts.offers[offer].provider == failed;
    (void)snprintf(text, sizeof text, "provider %s is not used: %.300s", runner->failed->name,
                   why->code == status ? why->text : inlay_status_text(status));
    status = provider_restarts(runner->failed->state)
                 ? fallback_once(program, offers, text, out, NULL)
                 : fallback_without(program, runner->in.key, count, offers, text, out, NULL);
    free(offers);
    if (status == INLAY_OK && program->env->log != NULL)
        program->env->log(program->env->log_ctx, INLAY_LOG_WARNING, text);
    return status;
}

/* The value of plan_input.also for input i: set if a step reads the input through its alias in the other domain. */
static uint32_t alias_domain(const struct program *program, uint32_t i, const run_value *value)
{
    const struct graph *graph = program->graph;
    const uint32_t value_index = i < graph->input_count ? graph->inputs[i] : graph->captured[i - graph->input_count];

    if (value->alias.handle == 0 ||
        (value->alias.domain == INLAY_DOMAIN_HOST ? !program->uses.read_on_host[value_index]
                                                  : program->uses.reader_domain[value_index] != value->alias.domain))
        return 0;
    return 1 + value->alias.domain;
}

/* Writes the key of the run, its input and output descriptions, to runner->in.key; returns the number of entries. */
static uint32_t make_key(struct runner *runner, const run_value *inputs)
{
    const uint32_t count = runner->prog->graph->input_count + runner->prog->graph->captured_count;

    for (uint32_t i = 0; i < count; i++) {
        const bool tensor = inputs[i].kind == INLAY_KIND_TENSOR;

        runner->in.key[i] = (plan_input){ inputs[i].dtype,
                                          tensor ? inputs[i].rank : INLAY_RANK_UNKNOWN,
                                          inputs[i].dims,
                                          inputs[i].room,
                                          tensor ? inputs[i].buffer.domain : (uint32_t)INLAY_DOMAIN_HOST,
                                          tensor ? alias_domain(runner->prog, i, &inputs[i]) : 0 };
    }
    return count + runner_output_key(runner, runner->in.key + count);
}

/* Binds inputs and outputs, runs all steps, and waits until nothing is in flight. */
static inlay_status run_steps(struct runner *runner, struct bound *bound, const run_value *inputs, inlay_diag *diag)
{
    crash_scene before;
    inlay_status status;
    bool in_sequence;

    runner_bind_inputs(runner, bound, inputs);
    status = wait_for_caller(runner, inputs, diag);
    if (status == INLAY_OK)
        status = runner_bind_outputs(runner, bound, inputs, diag);
    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < bound->ports.patch_count; i++)
        *bound->ports.patches[i].target = bound->memory.buffers[bound->ports.patches[i].place];
    propagate_control(runner, bound);
    in_sequence = runner->shared->observers.used != 0 && observers_mark(runner->shared, bound);
    crash_thread();
    before = crash_here;
    crash_here = (crash_scene){ .describe = describe_step, .model = runner->prog->model->source.identity };
    status = bound->parallel != NULL && !in_sequence ? run_steps_with_branches(runner, bound, diag)
                                                     : steps_walk(runner, bound, 0, bound->plan->step_count, diag);
    crash_leave(&before);
    return in_flight_wait_all(runner, bound, status, diag);
}

/* Releases the values that the run created, except its outputs. */
static void end_steps(struct runner *runner, struct bound *bound)
{
    const uint32_t values = runner->prog->graph->value_count;

    if (bound->dynamic.states != NULL || bound->dynamic.has_objects) {
        for (uint32_t value = 0; value < values; value++)
            if (bound->dynamic.values[value].kind != 0 ||
                (bound->dynamic.mirrors != NULL && bound->dynamic.mirrors[value] != NULL))
                runner_set(runner, bound, value, NULL);
        bound->dynamic.has_objects = false;
        arena_reset(&bound->dynamic.scratch);
    }
    if (runner->shared->hang.unwinding)
        return;
    if (bound->flight.poisoned)
        renew_timelines(bound);
    runner->plans.busy = NULL;
}

/* Runs the runner's own plan. *out_other is NULL, or the program that must run instead. */
static inlay_status run_own(struct runner *runner, const run_value *inputs, uint32_t count, struct program **out_other,
                            inlay_diag *diag)
{
    struct bound *bound = NULL;
    inlay_status status = find_program(runner, count, out_other, &bound, diag);

    if (status != INLAY_OK || *out_other != NULL)
        return status;
    runner->plans.now = runner->plans.busy = bound;
    bound->current_step = NULL;
    runner->failed = bound->flight.has_async ? in_flight_lost(runner) : NULL;
    if (runner->failed != NULL)
        return inlay_fail(diag, INLAY_DEVICE_LOST, "a device of the session was lost; create a new session");
    status = run_steps(runner, bound, inputs, diag);
    if (runner->shared->hang.unwinding)
        return status;
    bound->memory.captures = status == INLAY_OK ? runner->in.captures : 0;
    if (status == INLAY_OK)
        status = runner_gather_outputs(runner, bound, diag);
    end_steps(runner, bound);
    if (status == INLAY_UNSUPPORTED && runner->declined.step != NULL)
        status = decline_run(runner, count, out_other, diag);
    return status;
}

/* Returns whether the run can continue without the device that failed. */
static bool can_exclude_device(const struct runner *runner, inlay_status status)
{
    return runner->failed != NULL && runner->prog->env->runs.without_failed &&
           (status == INLAY_DEVICE_LOST || status == INLAY_OUT_OF_MEMORY || status == INLAY_LIMIT_EXCEEDED);
}

static inlay_status run_once(struct runner *runner, const run_value *inputs, inlay_diag *caller)
{
    inlay_diag *diag = &runner->shared->diag; /* the address of this diag is in the arguments of the steps */
    struct program *other = NULL;
    inlay_status status;
    uint32_t count, refused;

    runner->declined.step = NULL;
    runner->plans.busy = NULL;
    runner->failed = NULL;
    runner->in.captures += !runner->in.same_captures;
    diag->code = INLAY_OK;
    diag->error_class = INLAY_CLASS_DEFAULT;
    diag->text[0] = diag->node[0] = diag->tensor[0] = '\0';
    count = make_key(runner, inputs);
    __atomic_store_n(&runner->shared->tensors.refused_class, INLAY_CLASS_DEFAULT, __ATOMIC_RELAXED);
    status = run_own(runner, inputs, count, &other, diag);
    refused = __atomic_load_n(&runner->shared->tensors.refused_class, __ATOMIC_RELAXED);
    if (status == INLAY_LIMIT_EXCEEDED && refused != INLAY_CLASS_DEFAULT)
        diag->error_class = refused;
    if (status == INLAY_OK)
        return other != NULL ? run_fallback(runner, other, inputs, caller) : INLAY_OK;
    if (can_exclude_device(runner, status) && exclude_failed_device(runner, count, status, diag, &other) == INLAY_OK &&
        other != NULL) {
        runner_retain_outputs(runner);
        if (runner->shared->hang.unwinding)
            __atomic_store_n(&runner->shared->run.cancel, runner->shared->hang.caller_cancel, __ATOMIC_RELEASE);
        runner->shared->hang.unwinding = false;
        return run_fallback(runner, other, inputs, caller);
    }
    if (caller != NULL && caller != diag && diag->code == status && caller->struct_size >= sizeof *caller)
        *caller = *diag;
    else if (caller != diag)
        (void)inlay_fail(caller, status, "graph '%s': %s", runner->prog->graph->name, inlay_status_text(status));
    for (uint32_t k = 0; k < runner->prog->graph->output_count && !runner->shared->hang.unwinding; k++) {
        /* Not value_unref(): freeing large buffers may take longer than the time left until the deadline. */
        pool_give(runner->shared, runner->out.values[k]);
        runner->out.values[k] = NULL;
    }
    return status;
}

/* After the loss of a device, runs the whole program a second time without it, because the values that the device held
 * are lost. The loss may occur in the middle of a loop, in the runner of a body, which cannot repeat earlier steps. */
inlay_status runner_run(struct runner *runner, const run_value *inputs, inlay_diag *diag)
{
    const inlay_status status = run_once(runner, inputs, diag);

    return status == INLAY_DEVICE_LOST && runner == runner->shared->root && runner->prog->env->runs.without_failed &&
                   !runner->shared->hang.abandoned
               ? run_once(runner, inputs, diag)
               : status;
}

bool runner_output_shape(struct runner *runner, const run_value *inputs, uint32_t output, uint32_t *out_rank,
                         int64_t *dims)
{
    const uint32_t value = runner->prog->graph->outputs[output];
    const uint32_t count = make_key(runner, inputs);
    const inlay_value_state *state;
    struct plan *plan = NULL;
    bool known;

    if (plan_get(runner->prog, runner->in.key, count, &runner->shared->run, &plan, NULL) != INLAY_OK)
        return false;
    state = &plan->states[value];
    known = state->rank < INLAY_MAX_RANK && state->dims != NULL;
    *out_rank = known ? state->rank : 0;
    for (uint32_t d = 0; d < *out_rank; d++)
        dims[d] = state->dims[d] > 0 ? state->dims[d] : 0;
    plan_unref(plan);
    return known;
}

inlay_status runner_create(struct program *prog, run_shared *shared, struct runner **out_runner, inlay_diag *diag)
{
    const struct graph *graph = prog->graph;
    struct runner *runner = calloc(1, sizeof *runner);

    *out_runner = NULL;
    if (runner != NULL) {
        runner->prog = prog;
        runner->shared = shared;
        if (shared->root == NULL)
            shared->root = runner;
        runner->children = calloc((size_t)prog->step_count + 1, sizeof(struct runner **));
        runner->out.values = calloc((size_t)graph->output_count + 1, sizeof(inlay_value *));
        runner->out.spares = calloc((size_t)graph->output_count + 1, sizeof(inlay_value *));
        runner->out.wanted = calloc((size_t)graph->output_count + 1, sizeof(inlay_value *));
        runner->in.key = calloc((size_t)graph->input_count + graph->captured_count + graph->output_count + 1,
                                sizeof *runner->in.key);
    }
    if (runner == NULL || !init_output_shares(runner) || runner->children == NULL || runner->out.values == NULL ||
        runner->out.spares == NULL || runner->out.wanted == NULL || runner->in.key == NULL) {
        runner_destroy(runner);
        return no_memory(diag, "for a run context");
    }
    *out_runner = runner;
    return INLAY_OK;
}
