/* exec/device/in_flight.c - waiting for work that devices do behind the host's back: who is to blame when it fails, and
 * what becomes of a device that does not end it. */
#include "exec/device/in_flight.h"
#include "base/boundary.h"
#include "base/clock.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdio.h>

/* What a device that promises to look up every few milliseconds gets before it counts as hung, once a run is over. */
enum { GRACE_MS = 2000, GRACE_POLLS = 8 };

static const part_provider *provider_of(const struct runner *r, const bound_step *s)
{
    return s->plan->kind == PLAN_COPY ? &r->prog->env->providers[s->plan->copy_provider] : s->plan->step->provider;
}

static bool is_to_blame(const bound_step *s, bool hangs)
{
    inlay_status status;
    const bool over = fence_reached(s->fence, &status);

    return hangs ? !over : over && status != INLAY_OK;
}

static const bound_step *trace(const struct bound *b, const bound_step *s, bool hangs)
{
    for (uint32_t w = 0; w < s->wait_step_count;) {
        const bound_step *x = &b->steps[s->wait_steps[w]];

        w++;
        if (is_to_blame(x, hangs)) {
            s = x;
            w = 0;
        }
    }
    return s;
}

const bound_step *in_flight_origin(const struct bound *b, const bound_step *s)
{
    return trace(b, s, false);
}

/* The device does not end its work: it counts as lost, and what it may still read or write is left to it. */
static inlay_status abandon(struct runner *r, const part_provider *p, uint64_t limit_ms, inlay_diag *diag)
{
    static const uint32_t always = 1;
    run_shared *shared = r->shared;

    provider_lost(p->state);
    if (!shared->hang.unwinding)
        shared->hang.asked = shared->run.cancel;
    shared->hang.abandoned = shared->hang.unwinding = true;
    shared->run.cancel = &always;
    return inlay_fail(diag, INLAY_DEVICE_LOST,
                      "the device of %s did not end its work in %llu ms%s; the context is of no use any more", p->name,
                      (unsigned long long)limit_ms,
                      limit_ms == r->prog->env->device_timeout_ms ? " (option device_timeout_ms)" : "");
}

static uint64_t until(uint64_t limit_ms)
{
    return limit_ms == 0 ? 0 : clock_ns() + limit_ms * 1000000;
}

/* INLAY_BUSY and *out_hangs: the limit has passed. */
static inlay_status wait_for(inlay_fence fence, const inlay_run *run, uint64_t limit_ms, bool *out_hangs,
                             inlay_diag *diag)
{
    const inlay_status status = fence_wait_until(fence, run, until(limit_ms), diag);

    *out_hangs = status == INLAY_BUSY && !fence_reached(fence, NULL);
    return status;
}

static uint64_t grace_ms(const struct runner *r, const part_provider *p)
{
    const uint64_t promised = (uint64_t)p->table->poll_ms * GRACE_POLLS;

    if (p->table->poll_ms == 0)
        return r->prog->env->device_timeout_ms;
    return promised > GRACE_MS ? promised : GRACE_MS;
}

static inlay_status settle(const struct runner *r, const part_provider *p, inlay_fence fence, bool *out_hangs)
{
    return wait_for(fence, NULL, grace_ms(r, p), out_hangs, NULL);
}

inlay_status in_flight_finish(struct runner *r, const part_provider *p, inlay_fence fence, inlay_diag *diag)
{
    bool hangs;
    inlay_status status = wait_for(fence, &r->shared->run, r->prog->env->device_timeout_ms, &hangs, diag);

    if (hangs)
        return abandon(r, p, r->prog->env->device_timeout_ms, diag);
    if (status == INLAY_OK)
        return status;
    (void)settle(r, p, fence, &hangs);
    return hangs ? abandon(r, p, grace_ms(r, p), diag) : status;
}

inlay_status in_flight_wait(struct runner *r, struct bound *b, const bound_step *s, inlay_diag *diag)
{
    bool hangs;
    inlay_status status = wait_for(s->fence, &r->shared->run, r->prog->env->device_timeout_ms, &hangs, diag);

    if (!hangs)
        return status;
    status = abandon(r, provider_of(r, trace(b, s, true)), r->prog->env->device_timeout_ms, diag);
    for (uint32_t i = 0; i < b->plan->step_count; i++) /* whoever waits for it knows now */
        if (b->steps[i].async)
            fence_signal(b->steps[i].fence, status, diag);
    return status;
}

void in_flight_note(struct runner *r, const bound_step *s, inlay_status status)
{
    const part_provider *p = s->plan->kind == PLAN_HOST ? NULL : provider_of(r, s);

    if (p == NULL || !(status == INLAY_DEVICE_LOST || (status == INLAY_OUT_OF_MEMORY && p->table->domain_count > 0)))
        return;
    r->failed = p;
    if (status == INLAY_DEVICE_LOST)
        provider_lost(p->state);
}

inlay_status in_flight_settle(struct runner *r, struct bound *b, inlay_status status, inlay_diag *diag)
{
    for (uint32_t i = 0; b->flight.has_async && i < b->plan->step_count && !r->shared->hang.unwinding; i++) {
        bound_step *s = &b->steps[i];
        inlay_status waited = INLAY_OK;
        bool hangs = false;

        if (!s->async || s->fence.value == 0)
            continue;
        if (status == INLAY_OK) {
            waited = in_flight_wait(r, b, s, diag);
            if (waited != INLAY_OK)
                status = runner_step_failed(r, s, waited, diag);
        }
        if (waited == INLAY_OK && status == INLAY_OK)
            continue;
        if (!r->shared->hang.unwinding) {
            waited = settle(r, provider_of(r, s), s->fence, &hangs);
            if (hangs)
                status =
                    runner_step_failed(r, s, abandon(r, provider_of(r, s), grace_ms(r, provider_of(r, s)), diag), diag);
            else if (waited == INLAY_DEVICE_LOST)
                in_flight_note(r, in_flight_origin(b, s), waited);
        }
        b->flight.poisoned |= waited != INLAY_OK;
    }
    if (status == INLAY_OK && b->flight.has_async &&
        r->shared->watched) { /* as behind every step that the host waits for */
        status = run_poll(&r->shared->run);
        if (status != INLAY_OK)
            status = runner_step_failed(r, &b->steps[b->plan->step_count - 1], status, diag);
    }
    return status;
}

const part_provider *in_flight_lost(const struct runner *r)
{
    for (uint32_t i = 0; i < r->prog->env->provider_count; i++) {
        const part_provider *p = &r->prog->env->providers[i];

        if ((p->table->flags & INLAY_PROVIDER_ASYNC) != 0 && provider_is_lost(p->state))
            return p;
    }
    return NULL;
}

static inlay_status copy_failed(const struct runner *r, const bound_step *s, inlay_status status, inlay_diag *diag)
{
    char why[sizeof diag->text];

    status = boundary_settle(status, diag);
    (void)snprintf(why, sizeof why, "%s", diag->text);
    return inlay_fail(diag, status, "copying '%s', provider %s: %.300s",
                      r->prog->graph->values[s->plan->copy_value].info.name.data,
                      r->prog->env->providers[s->plan->copy_provider].name, why);
}

inlay_status runner_step_failed(struct runner *r, const bound_step *s, inlay_status status, inlay_diag *diag)
{
    const program_step *ps;

    if (r->plans.now != NULL)
        s = in_flight_origin(r->plans.now, s);
    ps = s->plan->step;
    in_flight_note(r, s, status);
    if (diag == NULL)
        return boundary_status(status);
    if (ps == NULL)
        return copy_failed(r, s, status, diag);
    status = boundary_settle(status, diag);
    if (status == INLAY_CANCELLED || status == INLAY_DEADLINE_EXCEEDED) {
        const char *word = status == INLAY_CANCELLED ? "the run was cancelled" : "the run took longer than its limit";
        return inlay_fail(diag, status, "%s, at node '%s'", word, ps->node->info.name.data);
    }
    return program_step_failed(r->prog->graph, ps, status, diag);
}
