/* exec/loop/steps.c - the loop that runs the steps of a bound plan. */
#include "exec/loop/steps.h"
#include "base/float_state.h"
#include "exec/device/in_flight.h"
#include "exec/device/residency.h"
#include "exec/loop/observe.h"
#include "exec/loop/ports.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plugin/crash.h"
#include "plugin/plugin.h"
#include "threads/fence.h"

/* The fence of a caller-owned place, which must be reached before a step uses it. */
static inlay_fence ready_of(const struct runner *runner, const struct bound *bound, uint32_t place)
{
    const plan_place *slot = &bound->plan->places[plan_memory_place(bound->plan, place)];

    if (slot->source == PLACE_INPUT && slot->index < runner->prog->graph->input_count)
        return runner->in.ready[slot->index];
    return slot->source == PLACE_OUTPUT ? runner->in.ready[runner->prog->graph->input_count + slot->index]
                                        : (inlay_fence){ 0 };
}

/* Appends these fences for a step, and for the copies of its request, to the list; returns the new count. */
static uint32_t list_ready(const struct runner *runner, const struct bound *bound, const bound_step *step,
                           inlay_fence *list, uint32_t count)
{
    for (uint32_t copy = 0; copy < (step->copy_count > 1 ? step->copy_count : 1); copy++) {
        const plan_step *planned = step[copy].plan;
        const uint32_t ins = planned->kind == PLAN_COPY ? 1 : planned->step->region->input_count;
        const uint32_t outs = planned->kind == PLAN_COPY   ? 1
                              : planned->kind == PLAN_EXEC ? planned->step->region->output_count
                                                           : 0;

        for (uint32_t i = 0; i < ins + outs; i++) {
            list[count] = ready_of(runner, bound, i < ins ? planned->in[i] : planned->out[i - ins]);
            count += list[count].timeline != 0;
        }
    }
    return count;
}

static inlay_status wait_on_host(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
{
    const uint32_t ready =
        runner->in.ready != NULL && step->waits != NULL ? list_ready(runner, bound, step, step->waits, 0) : 0;

    for (uint32_t i = 0; i < ready; i++) {
        inlay_status status = fence_wait(step->waits[i], &runner->shared->run, diag);
        if (status != INLAY_OK)
            return status;
    }
    for (uint32_t i = 0; i < step->wait_step_count; i++) {
        inlay_status status = in_flight_wait(runner, bound, &bound->steps[step->wait_steps[i]], diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

/* Waits for the fences of step->waits beyond max_waits, which the provider does not accept. They are the last ones of
 * the array: fences of other providers and of the caller. */
static inlay_status join_waits(struct runner *runner, struct bound *bound, bound_step *step, uint32_t max_waits,
                               inlay_diag *diag)
{
    inlay_exec_args *args = &step->args;
    inlay_status status = INLAY_OK;

    while (max_waits > 0 && args->wait_count > max_waits && status == INLAY_OK) {
        const uint32_t last = --args->wait_count;

        status = last < step->wait_step_count
                     ? in_flight_wait(runner, bound, &bound->steps[step->wait_steps[last]], diag)
                     : fence_wait(step->waits[last], &runner->shared->run, diag);
    }
    if (args->own_wait_count > args->wait_count)
        args->own_wait_count = args->wait_count;
    return status;
}

/* Passes the fences to the device, which orders its own work. */
static inlay_status pass_waits(struct runner *runner, struct bound *bound, bound_step *step,
                               const inlay_provider *table, inlay_diag *diag)
{
    inlay_status status;

    INLAY_CHECK(step->wait_step_count == 0 || (step->waits != NULL && step->wait_steps != NULL));
    for (uint32_t i = 0; i < step->wait_step_count; i++)
        step->waits[i] = bound->steps[step->wait_steps[i]].fence;
    step->args.waits = step->waits;
    step->args.wait_count = step->wait_step_count;
    if (runner->in.ready != NULL && step->waits != NULL)
        step->args.wait_count = list_ready(runner, bound, step, step->waits, step->wait_step_count);
    step->args.own_wait_count = step->own_wait_count;
    status = join_waits(runner, bound, step, table->max_waits, diag);
    if (status != INLAY_OK)
        return status;
    step->fence.value++;
    step->args.signal = step->fence;
    return INLAY_OK;
}

/* Returns whether the copy's target is still valid from an earlier run. Captured values of a loop are valid after its
 * first iteration, and constants computed by the planner after the first run of the plan. */
static bool copy_is_current(const struct runner *runner, const struct bound *bound, const plan_step *copy)
{
    return copy->kept && bound->memory.captures != 0 &&
           (bound->memory.captures == runner->in.captures || bound->plan->places[copy->in[0]].source == PLACE_DATA);
}

/* Writes the copies of a request that must be executed; returns their number. */
static uint32_t list_copies(const struct runner *runner, const struct bound *bound, const bound_step *step,
                            inlay_copy *list)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < step->copy_count; i++)
        if (!copy_is_current(runner, bound, step[i].plan))
            list[count++] =
                (inlay_copy){ bound->memory.buffers[step[i].plan->in[0]], bound->memory.buffers[step[i].plan->out[0]] };
    return count;
}

static inlay_status run_copy(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
{
    const partition_provider *provider = &runner->prog->env->providers[step->plan->copy_provider];
    inlay_copy one, *list = step->copies != NULL ? step->copies : &one;
    const uint32_t count = list_copies(runner, bound, step, list);
    inlay_copy_request request = { .struct_size = sizeof request,
                                   .run = &runner->shared->run,
                                   .copies = list,
                                   .copy_count = count,
                                   .copy_stride = sizeof *list };
    inlay_status status;

    if (count == 0)
        return INLAY_OK;
    status =
        step->async ? pass_waits(runner, bound, step, provider->table, diag) : wait_on_host(runner, bound, step, diag);
    if (status != INLAY_OK)
        return status;
    request.waits = step->args.waits;
    request.wait_count = step->args.wait_count;
    request.own_wait_count = step->args.own_wait_count;
    request.signal = step->args.signal;
    status = provider->table->buffer_copy(provider->state, &request, diag);
    if (status != INLAY_OK && step->async)
        fence_signal(step->fence, status, diag);
    return status;
}

/* Runs a step that is not simple. */
static inlay_status run_other(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
{
    inlay_status status;

    if (step->plan->kind == PLAN_COPY)
        return run_copy(runner, bound, step, diag);
    if (step->plan->kind == PLAN_EXEC && step->async) {
        status = pass_waits(runner, bound, step, step->plan->step->provider->table, diag);
        if (status != INLAY_OK)
            return status;
        status = step->execute(step->state, step->compiled, step->instance, &step->args);
        if (status != INLAY_OK)
            fence_signal(step->fence, status, diag); /* the provider does not signal after an error */
        return status;
    }
    status = wait_on_host(runner, bound, step, diag);
    if (status != INLAY_OK)
        return status;
    if (step->plan->kind == PLAN_EXEC)
        return step->execute(step->state, step->compiled, step->instance, &step->args);
    bound->current_step = step;
    status = step->plan->kind == PLAN_HOST ? runner->shared->calls->host_step(runner, bound, step, diag)
                                           : runner->shared->calls->dynamic_step(runner, bound, step, diag);
    if (status == INLAY_OK) {
        /* Start prefetching the outputs, and return inputs that no later step reads to the pool. */
        const partition_region *region = step->plan->step->region;
        for (uint32_t i = 0; i < region->output_count; i++)
            prefetch_begin(runner, bound, region->outputs[i]);
        uint32_t index = (uint32_t)(step->plan->step - runner->prog->steps);
        for (uint32_t i = 0; i < region->input_count; i++) {
            uint32_t value = region->inputs[i];
            if (runner->prog->uses.last[value] == index && bound->dynamic.values[value].owner != NULL)
                runner_set(runner, bound, value, NULL);
        }
    }
    return status;
}

static inlay_status run_observed(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
{
    struct observation observation;
    inlay_status status;

    observation_begin(&observation, runner, bound, step);
    status = runner_step(runner, bound, step, diag);
    if (status == INLAY_OK && step->async && observation.wanted != 0)
        status = in_flight_wait(runner, bound, step, diag); /* events of its kernels arrive until then */
    return observation_end(&observation, status, diag);
}

static inlay_status run_slow(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
{
    struct weight_stream *stream = runner->prog->env->stream;
    struct step_weights *weights = stream != NULL && step->plan->kind != PLAN_COPY ? step->plan->step->weights : NULL;
    inlay_status status;

    if (step->observed != 0)
        return run_observed(runner, bound, step, diag);
    if (weights == NULL)
        return run_other(runner, bound, step, diag);
    status = weight_stream_enter(stream, weights, diag);
    if (status != INLAY_OK)
        return status;
    status = run_other(runner, bound, step, diag);
    if (status == INLAY_IO_ERROR) /* the provider does not know why parts could not be read */
        weight_stream_explain(stream, diag);
    weight_stream_leave(stream, weights);
    return status;
}

inlay_status runner_step(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
{
    const float_state floats = float_state_get();
    inlay_status status;

    crash_here.step = step;
    status = step->simple ? step->execute(step->state, step->compiled, step->instance, &step->args)
                          : run_slow(runner, bound, step, diag);
    (void)float_state_restore(floats);
    return status;
}

inlay_status steps_walk(struct runner *runner, struct bound *bound, uint32_t first, uint32_t end, inlay_diag *diag)
{
    run_shared *shared = runner->shared;
    crash_scene *scene = &crash_here;
    const float_state floats = float_state_get();

    INLAY_CHECK(first <= end && end <= bound->plan->step_count);
    for (uint32_t i = first; i < end; i++) {
        bound_step *step = &bound->steps[i];
        inlay_status status;

        scene->step = step;
        status = step->simple ? step->execute(step->state, step->compiled, step->instance, &step->args)
                              : run_slow(runner, bound, step, diag);
        (void)float_state_restore(floats);
        if (status == INLAY_OK && shared->watched)
            status = run_poll(&shared->run);
        if (status != INLAY_OK)
            return __atomic_load_n(&shared->observers.failed, __ATOMIC_RELAXED)
                       ? status
                       : runner_step_failed(runner, step, status, diag);
    }
    return INLAY_OK;
}
