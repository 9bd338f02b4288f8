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
static inlay_fence ready_of(const struct runner *r, const struct bound *b, uint32_t place)
{
    const plan_place *pl = &b->plan->places[plan_bytes_of(b->plan, place)];

    if (pl->source == PLACE_INPUT && pl->index < r->prog->graph->input_count)
        return r->in.ready[pl->index];
    return pl->source == PLACE_OUTPUT ? r->in.ready[r->prog->graph->input_count + pl->index] : (inlay_fence){ 0 };
}

/* Lists it for a step, and for the copies that go with it; returns how many there are now. */
static uint32_t list_ready(const struct runner *r, const struct bound *b, const bound_step *s, inlay_fence *list,
                           uint32_t count)
{
    for (uint32_t c = 0; c < (s->copy_count > 1 ? s->copy_count : 1); c++) {
        const plan_step *ps = s[c].plan;
        const uint32_t ins = ps->kind == PLAN_COPY ? 1 : ps->step->region->input_count;
        const uint32_t outs = ps->kind == PLAN_COPY ? 1 : ps->kind == PLAN_EXEC ? ps->step->region->output_count : 0;

        for (uint32_t i = 0; i < ins + outs; i++) {
            list[count] = ready_of(r, b, i < ins ? ps->in[i] : ps->out[i - ins]);
            count += list[count].timeline != 0;
        }
    }
    return count;
}

static inlay_status wait_for(struct runner *r, struct bound *b, bound_step *s, inlay_diag *diag)
{
    const uint32_t ready = r->in.ready != NULL && s->waits != NULL ? list_ready(r, b, s, s->waits, 0) : 0;

    for (uint32_t i = 0; i < ready; i++) {
        inlay_status status = fence_wait(s->waits[i], &r->shared->run, diag);
        if (status != INLAY_OK)
            return status;
    }
    for (uint32_t i = 0; i < s->wait_step_count; i++) {
        inlay_status status = in_flight_wait(r, b, &b->steps[s->wait_steps[i]], diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

/* Hands the waiting over to a device, which orders its own work. */
static void pass_waits(const struct runner *r, struct bound *b, bound_step *s)
{
    for (uint32_t i = 0; i < s->wait_step_count; i++)
        s->waits[i] = b->steps[s->wait_steps[i]].fence;
    s->args.waits = s->waits;
    s->args.wait_count = s->wait_step_count;
    if (r->in.ready != NULL && s->waits != NULL)
        s->args.wait_count = list_ready(r, b, s, s->waits, s->wait_step_count);
    s->args.own_wait_count = s->own_wait_count;
    s->fence.value++;
    s->args.signal = s->fence;
}

/* Is what the copy brings there since an earlier run? What a loop captures is since its first iteration, what planning
 * has computed since the plan's first run. */
static bool is_there(const struct runner *r, const struct bound *b, const plan_step *copy)
{
    return copy->kept && b->memory.captures != 0 &&
           (b->memory.captures == r->in.captures || b->plan->places[copy->in[0]].source == PLACE_DATA);
}

/* The copies of a request into list. */
static uint32_t list_copies(const struct runner *r, const struct bound *b, const bound_step *s, inlay_copy *list)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->copy_count; i++)
        if (!is_there(r, b, s[i].plan))
            list[count++] = (inlay_copy){ b->memory.buffers[s[i].plan->in[0]], b->memory.buffers[s[i].plan->out[0]] };
    return count;
}

static inlay_status run_copy(struct runner *r, struct bound *b, bound_step *s, inlay_diag *diag)
{
    const part_provider *p = &r->prog->env->providers[s->plan->copy_provider];
    inlay_copy one, *list = s->copies != NULL ? s->copies : &one;
    const uint32_t count = list_copies(r, b, s, list);
    inlay_status status;

    if (count == 0)
        return INLAY_OK;
    if (s->async) {
        pass_waits(r, b, s);
    } else {
        status = wait_for(r, b, s, diag);
        if (status != INLAY_OK)
            return status;
    }
    if (p->table->buffer_copies != NULL) {
        const inlay_copy_request request = { .struct_size = sizeof request,
                                             .run = &r->shared->run,
                                             .copies = list,
                                             .copy_count = count,
                                             .copy_stride = sizeof *list,
                                             .waits = s->args.waits,
                                             .wait_count = s->args.wait_count,
                                             .own_wait_count = s->args.own_wait_count,
                                             .signal = s->args.signal };

        status = p->table->buffer_copies(p->state, &request, diag);
    } else {
        status = p->table->buffer_copy(p->state, &r->shared->run, &list->source, &list->target, s->args.waits,
                                       s->args.wait_count, s->args.signal, diag);
    }
    if (status != INLAY_OK && s->async)
        fence_signal(s->fence, status, diag);
    return status;
}

static inlay_status run_slow(struct runner *r, struct bound *b, bound_step *s, inlay_diag *diag)
{
    inlay_status status;

    if (s->plan->kind == PLAN_COPY)
        return run_copy(r, b, s, diag);
    if (s->plan->kind == PLAN_EXEC && s->async) {
        pass_waits(r, b, s);
        status = s->execute(s->state, s->compiled, s->instance, &s->args);
        if (status != INLAY_OK)
            fence_signal(s->fence, status, diag); /* nobody else will */
        return status;
    }
    status = wait_for(r, b, s, diag);
    if (status != INLAY_OK)
        return status;
    if (s->plan->kind == PLAN_EXEC)
        return s->execute(s->state, s->compiled, s->instance, &s->args);
    b->at = s;
    status = s->plan->kind == PLAN_HOST ? r->shared->calls->host_step(r, b, s, diag)
                                        : r->shared->calls->dynamic_step(r, b, s, diag);
    if (status == INLAY_OK) {
        /* What this step was the last to read goes back to the pool; what it has made is on its way. */
        const part_region *region = s->plan->step->region;
        for (uint32_t i = 0; i < region->output_count; i++)
            stay_begin(r, b, region->outputs[i]);
        uint32_t index = (uint32_t)(s->plan->step - r->prog->steps);
        for (uint32_t i = 0; i < region->input_count; i++) {
            uint32_t v = region->inputs[i];
            if (r->prog->uses.last[v] == index && b->made.values[v].owner != NULL)
                runner_set(r, b, v, NULL);
        }
    }
    return status;
}

inlay_status runner_step(struct runner *r, struct bound *b, bound_step *s, inlay_diag *diag)
{
    const float_state floats = float_state_get();
    inlay_status status;

    crash_here.step = s;
    status = s->simple ? s->execute(s->state, s->compiled, s->instance, &s->args) : run_slow(r, b, s, diag);
    (void)float_state_restore(floats);
    return status;
}

inlay_status steps_walk(struct runner *r, struct bound *b, uint32_t first, uint32_t end, inlay_diag *diag)
{
    run_shared *shared = r->shared;
    crash_scene *scene = &crash_here;
    const float_state floats = float_state_get();

    for (uint32_t i = first; i < end; i++) {
        bound_step *s = &b->steps[i];
        inlay_status status;

        scene->step = s;
        status = s->simple ? s->execute(s->state, s->compiled, s->instance, &s->args) : run_slow(r, b, s, diag);
        (void)float_state_restore(floats);
        if (status == INLAY_OK && shared->watched)
            status = run_poll(&shared->run);
        if (status != INLAY_OK)
            return runner_step_failed(r, s, status, diag);
    }
    return INLAY_OK;
}
