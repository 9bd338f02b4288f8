/* exec/device/in_flight.c - waits for asynchronous work on devices, finds the step that caused a failure, and handles
 * devices that hang. */
#include "exec/device/in_flight.h"
#include "base/boundary.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdio.h>

/* Time that a device gets to finish after a failed or cancelled run, before it counts as hung: GRACE_POLLS times the
 * interval at which its provider promises to poll the cancel flag, at least GRACE_MS. */
enum { GRACE_MS = 2000, GRACE_POLLS = 8 };

static const partition_provider *provider_of(const struct runner *runner, const bound_step *step)
{
    return step->plan->kind == PLAN_COPY ? &runner->prog->env->providers[step->plan->copy_provider]
                                         : step->plan->step->provider;
}

static bool has_failed(const bound_step *step, bool hangs)
{
    inlay_status status;
    const bool over = fence_reached(step->fence, &status);

    return hangs ? !over : over && status != INLAY_OK;
}

static const bound_step *find_origin(const struct bound *bound, const bound_step *step, bool hangs)
{
    for (uint32_t wait_step = 0; wait_step < step->wait_step_count;) {
        const bound_step *earlier = &bound->steps[step->wait_steps[wait_step]];
        INLAY_CHECK(step->wait_steps[wait_step] < bound->plan->step_count);

        wait_step++;
        if (has_failed(earlier, hangs)) {
            step = earlier;
            wait_step = 0;
        }
    }
    return step;
}

/* The step that caused the failure of `step`: `step` itself, or a step that it waited for. */
static const bound_step *in_flight_origin(const struct bound *bound, const bound_step *step)
{
    return find_origin(bound, step, false);
}

/* Treats a device that does not finish its work as lost. Memory that it may still access is never freed. */
static inlay_status abandon(struct runner *runner, const partition_provider *provider, uint64_t limit_ms,
                            inlay_diag *diag)
{
    static const uint32_t always = 1;
    run_shared *shared = runner->shared;

    provider_lost(provider->state);
    if (!shared->hang.unwinding)
        shared->hang.caller_cancel = shared->run.cancel;
    shared->hang.abandoned = shared->hang.unwinding = true;
    __atomic_store_n(&shared->run.cancel, &always, __ATOMIC_RELEASE); /* the device may poll the flag */
    return inlay_fail(diag, INLAY_DEVICE_LOST,
                      "the device of %s did not finish its work within %llu ms%s; create a new session", provider->name,
                      (unsigned long long)limit_ms,
                      limit_ms == runner->prog->env->runs.device_timeout_ms ? " (option device_timeout_ms)" : "");
}

static uint64_t deadline_after(uint64_t limit_ms)
{
    return limit_ms == 0 ? 0 : clock_ns() + limit_ms * 1000000;
}

/* If the time limit passes: returns INLAY_BUSY and sets *out_hangs. */
static inlay_status wait_for(inlay_fence fence, const inlay_run *run, uint64_t limit_ms, bool *out_hangs,
                             inlay_diag *diag)
{
    const inlay_status status = fence_wait_until(fence, run, deadline_after(limit_ms), diag);

    *out_hangs = status == INLAY_BUSY && !fence_reached(fence, NULL);
    return status;
}

/* See GRACE_MS. A provider that promises no interval gets the full device_timeout_ms. */
static uint64_t grace_ms(const struct runner *runner, const partition_provider *provider)
{
    const uint64_t promised = (uint64_t)provider->table->poll_ms * GRACE_POLLS;

    if (provider->table->poll_ms == 0)
        return runner->prog->env->runs.device_timeout_ms;
    return promised > GRACE_MS ? promised : GRACE_MS;
}

static inlay_status wait_grace_period(const struct runner *runner, const partition_provider *provider,
                                      inlay_fence fence, bool *out_hangs)
{
    return wait_for(fence, NULL, grace_ms(runner, provider), out_hangs, NULL);
}

inlay_status in_flight_wait_fence(struct runner *runner, const partition_provider *provider, inlay_fence fence,
                                  inlay_diag *diag)
{
    bool hangs;
    inlay_status status =
        wait_for(fence, &runner->shared->run, runner->prog->env->runs.device_timeout_ms, &hangs, diag);

    if (hangs)
        return abandon(runner, provider, runner->prog->env->runs.device_timeout_ms, diag);
    if (status == INLAY_OK)
        return status;
    (void)wait_grace_period(runner, provider, fence, &hangs);
    return hangs ? abandon(runner, provider, grace_ms(runner, provider), diag) : status;
}

inlay_status in_flight_wait(struct runner *runner, struct bound *bound, const bound_step *step, inlay_diag *diag)
{
    bool hangs;
    inlay_status status =
        wait_for(step->fence, &runner->shared->run, runner->prog->env->runs.device_timeout_ms, &hangs, diag);

    if (!hangs)
        return status;
    status = abandon(runner, provider_of(runner, find_origin(bound, step, true)),
                     runner->prog->env->runs.device_timeout_ms, diag);
    for (uint32_t i = 0; i < bound->plan->step_count; i++) /* steps that wait for its fence must not wait forever */
        if (bound->steps[i].async)
            fence_signal(bound->steps[i].fence, status, diag);
    return status;
}

/* Records that `step` failed with this status: sets runner.failed, and marks a lost device so that later sessions do
 * not use it. */
static void in_flight_record_failure(struct runner *runner, const bound_step *step, inlay_status status)
{
    const partition_provider *provider = step->plan->kind == PLAN_HOST ? NULL : provider_of(runner, step);

    if (provider == NULL ||
        !(status == INLAY_DEVICE_LOST || (status == INLAY_OUT_OF_MEMORY && provider->table->domain_count > 0)))
        return;
    runner->failed = provider;
    if (status == INLAY_DEVICE_LOST && !provider_restarts(provider->state))
        provider_lost(provider->state);
}

inlay_status in_flight_wait_all(struct runner *runner, struct bound *bound, inlay_status status, inlay_diag *diag)
{
    for (uint32_t i = 0; bound->flight.has_async && i < bound->plan->step_count && !runner->shared->hang.unwinding;
         i++) {
        bound_step *step = &bound->steps[i];
        inlay_status waited = INLAY_OK;
        bool hangs = false;

        if (!step->async || step->fence.value == 0)
            continue;
        if (status == INLAY_OK) {
            waited = in_flight_wait(runner, bound, step, diag);
            if (waited != INLAY_OK)
                status = runner_step_failed(runner, step, waited, diag);
        }
        if (waited == INLAY_OK && status == INLAY_OK)
            continue;
        if (!runner->shared->hang.unwinding) {
            waited = wait_grace_period(runner, provider_of(runner, step), step->fence, &hangs);
            if (hangs)
                status = runner_step_failed(
                    runner, step,
                    abandon(runner, provider_of(runner, step), grace_ms(runner, provider_of(runner, step)), diag),
                    diag);
            else if (waited == INLAY_DEVICE_LOST)
                in_flight_record_failure(runner, in_flight_origin(bound, step), waited);
        }
        bound->flight.poisoned |= waited != INLAY_OK;
    }
    if (status == INLAY_OK && bound->flight.has_async &&
        runner->shared->watched) { /* polls, as after every step that the host waits for */
        status = run_poll(&runner->shared->run);
        if (status != INLAY_OK)
            status = runner_step_failed(runner, &bound->steps[bound->plan->step_count - 1], status, diag);
    }
    return status;
}

const partition_provider *in_flight_lost(const struct runner *runner)
{
    for (uint32_t i = 0; i < runner->prog->env->provider_count; i++) {
        const partition_provider *provider = &runner->prog->env->providers[i];

        if ((provider->table->flags & INLAY_PROVIDER_ASYNC) != 0 && provider_is_lost(provider->state))
            return provider;
    }
    return NULL;
}

static inlay_status copy_failed(const struct runner *runner, const bound_step *step, inlay_status status,
                                inlay_diag *diag)
{
    char why[sizeof diag->text];

    status = boundary_finish_status(status, diag);
    (void)snprintf(why, sizeof why, "%s", diag->text);
    return inlay_fail(diag, status, "copying '%s', provider %s: %.300s",
                      runner->prog->graph->values[step->plan->copy_value].info.name.data,
                      runner->prog->env->providers[step->plan->copy_provider].name, why);
}

inlay_status runner_step_failed(struct runner *runner, const bound_step *step, inlay_status status, inlay_diag *diag)
{
    const program_step *planned;

    if (runner->plans.now != NULL)
        step = in_flight_origin(runner->plans.now, step);
    planned = step->plan->step;
    in_flight_record_failure(runner, step, status);
    if (diag == NULL)
        return boundary_status(status);
    if (planned == NULL)
        return copy_failed(runner, step, status, diag);
    status = boundary_finish_status(status, diag);
    if (status == INLAY_CANCELLED || status == INLAY_DEADLINE_EXCEEDED) {
        const char *word = status == INLAY_CANCELLED ? "the run was cancelled" : "the run took longer than its limit";
        return inlay_fail(diag, status, "%s, at node '%s'", word, planned->node->info.name.data);
    }
    return program_step_failed(runner->prog->graph, planned, status, diag);
}
