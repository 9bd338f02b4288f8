/* exec/loop/steps.c - the loop that runs the steps of a bound plan. */
#include "exec/loop/steps.h"
#include "base/float_state.h"
#include "exec/device/in_flight.h"
#include "exec/device/stay.h"
#include "exec/loop/ports.h"
#include "plugin/crash.h"
#include "plugin/plugin.h"
#include "threads/fence.h"

/* What comes before the use of a place that is the caller's. */
static inlay_fence ready_of(const struct runner *runner, const struct bound *bound, uint32_t place)
{
    const plan_place *pl = &bound->plan->places[plan_bytes_of(bound->plan, place)];

    if (pl->source == PLACE_INPUT && pl->index < runner->prog->graph->input_count)
        return runner->in.ready[pl->index];
    return pl->source == PLACE_OUTPUT ? runner->in.ready[runner->prog->graph->input_count + pl->index]
                                      : (inlay_fence){ 0 };
}

/* Lists it for a step, and for the copies that go with it; returns how many there are now. */
static uint32_t list_ready(const struct runner *runner, const struct bound *bound, const bound_step *step,
                           inlay_fence *list, uint32_t count)
{
    for (uint32_t c = 0; c < (step->copy_count > 1 ? step->copy_count : 1); c++) {
        const plan_step *ps = step[c].plan;
        const uint32_t ins = ps->kind == PLAN_COPY ? 1 : ps->step->region->input_count;
        const uint32_t outs = ps->kind == PLAN_COPY ? 1 : ps->kind == PLAN_EXEC ? ps->step->region->output_count : 0;

        for (uint32_t i = 0; i < ins + outs; i++) {
            list[count] = ready_of(runner, bound, i < ins ? ps->in[i] : ps->out[i - ins]);
            count += list[count].timeline != 0;
        }
    }
    return count;
}

static inlay_status wait_for(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
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

/* Hands the waiting over to a device, which orders its own work. */
static void pass_waits(const struct runner *runner, struct bound *bound, bound_step *step)
{
    for (uint32_t i = 0; i < step->wait_step_count; i++)
        step->waits[i] = bound->steps[step->wait_steps[i]].fence;
    step->args.waits = step->waits;
    step->args.wait_count = step->wait_step_count;
    if (runner->in.ready != NULL && step->waits != NULL)
        step->args.wait_count = list_ready(runner, bound, step, step->waits, step->wait_step_count);
    step->args.own_wait_count = step->own_wait_count;
    step->fence.value++;
    step->args.signal = step->fence;
}

/* Is what the copy brings there since an earlier run? What a loop captures is since its first iteration, what planning
 * has computed since the plan's first run. */
static bool is_there(const struct runner *runner, const struct bound *bound, const plan_step *copy)
{
    return copy->kept && bound->memory.captures != 0 &&
           (bound->memory.captures == runner->in.captures || bound->plan->places[copy->in[0]].source == PLACE_DATA);
}

/* The copies of a request into list. */
static uint32_t list_copies(const struct runner *runner, const struct bound *bound, const bound_step *step,
                            inlay_copy *list)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < step->copy_count; i++)
        if (!is_there(runner, bound, step[i].plan))
            list[count++] =
                (inlay_copy){ bound->memory.buffers[step[i].plan->in[0]], bound->memory.buffers[step[i].plan->out[0]] };
    return count;
}

static inlay_status run_copy(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
{
    const partition_provider *provider = &runner->prog->env->providers[step->plan->copy_provider];
    inlay_copy one, *list = step->copies != NULL ? step->copies : &one;
    const uint32_t count = list_copies(runner, bound, step, list);
    inlay_status status;

    if (count == 0)
        return INLAY_OK;
    if (step->async) {
        pass_waits(runner, bound, step);
    } else {
        status = wait_for(runner, bound, step, diag);
        if (status != INLAY_OK)
            return status;
    }
    if (provider->table->buffer_copies != NULL) {
        const inlay_copy_request request = { .struct_size = sizeof request,
                                             .run = &runner->shared->run,
                                             .copies = list,
                                             .copy_count = count,
                                             .copy_stride = sizeof *list,
                                             .waits = step->args.waits,
                                             .wait_count = step->args.wait_count,
                                             .own_wait_count = step->args.own_wait_count,
                                             .signal = step->args.signal };

        status = provider->table->buffer_copies(provider->state, &request, diag);
    } else {
        status = provider->table->buffer_copy(provider->state, &runner->shared->run, &list->source, &list->target,
                                              step->args.waits, step->args.wait_count, step->args.signal, diag);
    }
    if (status != INLAY_OK && step->async)
        fence_signal(step->fence, status, diag);
    return status;
}

static inlay_status run_slow(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
{
    inlay_status status;

    if (step->plan->kind == PLAN_COPY)
        return run_copy(runner, bound, step, diag);
    if (step->plan->kind == PLAN_EXEC && step->async) {
        pass_waits(runner, bound, step);
        status = step->execute(step->state, step->compiled, step->instance, &step->args);
        if (status != INLAY_OK)
            fence_signal(step->fence, status, diag); /* nobody else will */
        return status;
    }
    status = wait_for(runner, bound, step, diag);
    if (status != INLAY_OK)
        return status;
    if (step->plan->kind == PLAN_EXEC)
        return step->execute(step->state, step->compiled, step->instance, &step->args);
    bound->at = step;
    status = step->plan->kind == PLAN_HOST ? runner->shared->calls->host_step(runner, bound, step, diag)
                                           : runner->shared->calls->dynamic_step(runner, bound, step, diag);
    if (status == INLAY_OK) {
        /* What this step was the last to read goes back to the pool; what it has made is on its way. */
        const partition_region *region = step->plan->step->region;
        for (uint32_t i = 0; i < region->output_count; i++)
            stay_begin(runner, bound, region->outputs[i]);
        uint32_t index = (uint32_t)(step->plan->step - runner->prog->steps);
        for (uint32_t i = 0; i < region->input_count; i++) {
            uint32_t value = region->inputs[i];
            if (runner->prog->uses.last[value] == index && bound->made.values[value].owner != NULL)
                runner_set(runner, bound, value, NULL);
        }
    }
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
            return runner_step_failed(runner, step, status, diag);
    }
    return INLAY_OK;
}
