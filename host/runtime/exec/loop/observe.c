#include "exec/loop/observe.h"
#include "base/clock.h"
#include "inlay/check.h"

/* The number of the lowest bit. */
static uint32_t first_of(uint32_t mask)
{
    return (uint32_t)__builtin_ctz(mask);
}

void observers_add(run_shared *shared, run_observer *observer)
{
    run_observers *observers = &shared->observers;
    uint32_t slot = 0;

    while (slot < RUN_OBSERVERS - 1 && observers->list[slot] != NULL)
        slot++;
    INLAY_CHECK(observers->list[slot] == NULL);
    observers->list[slot] = observer;
    observers->used |= (uint8_t)(1u << slot);
    if (observer->calls->mark == NULL)
        observers->all |= (uint8_t)(1u << slot);
}

void observers_remove(run_shared *shared, run_observer *observer)
{
    run_observers *observers = &shared->observers;

    for (uint32_t i = 0; i < RUN_OBSERVERS; i++) {
        if (observer == NULL || observers->list[i] != observer)
            continue;
        observers->list[i] = NULL;
        observers->used &= (uint8_t) ~(1u << i);
        observers->all &= (uint8_t) ~(1u << i);
        observer->calls->destroy(observer);
    }
}

void observers_destroy(run_shared *shared)
{
    for (uint32_t i = 0; i < RUN_OBSERVERS; i++)
        observers_remove(shared, shared->observers.list[i]);
}

void observers_begin_run(run_shared *shared)
{
    shared->observers.failed = false;
    for (uint32_t left = shared->observers.used; left != 0; left &= left - 1) {
        run_observer *observer = shared->observers.list[first_of(left)];

        if (observer->calls->begin_run != NULL)
            observer->calls->begin_run(observer, shared);
    }
}

void observers_end_run(run_shared *shared, uint64_t ns, bool ok)
{
    for (uint32_t left = shared->observers.used; left != 0; left &= left - 1) {
        run_observer *observer = shared->observers.list[first_of(left)];

        if (observer->calls->end_run != NULL)
            observer->calls->end_run(observer, shared, ns, ok);
    }
}

bool observers_mark(run_shared *shared, struct bound *bound)
{
    const run_observers *observers = &shared->observers;

    for (uint32_t i = 0; observers->all != 0 && i < bound->plan->step_count; i++)
        observers_mark_step(&bound->steps[i], observers->all);
    for (uint32_t left = observers->used & (uint32_t)~observers->all; left != 0; left &= left - 1) {
        run_observer *observer = observers->list[first_of(left)];

        observer->calls->mark(observer, bound, (uint8_t)(left & -left));
    }
    return observers->all != 0;
}

/* Passes a kernel within a step on to the observers of the step. */
static void observe_kernel(void *ctx, uint32_t node, const char *name, uint64_t begin_ns, uint64_t end_ns)
{
    const struct observation *observation = ctx;
    run_event event = observation->event;
    const run_observers *observers = &event.runner->shared->observers;

    if (name == NULL && event.step->plan->step->region->node_count == 1)
        return; /* a step of one node: its own event has the same time */
    if (node >= event.runner->prog->graph->node_count)
        return; /* the index comes from a plug-in */
    event.node = node;
    event.name = name;
    event.begin_ns = begin_ns;
    event.end_ns = end_ns > begin_ns ? end_ns : begin_ns;
    for (uint32_t left = observation->wanted; left != 0; left &= left - 1)
        if (observers->list[first_of(left)]->calls->kernel != NULL)
            observers->list[first_of(left)]->calls->kernel(observers->list[first_of(left)], &event);
}

void observation_begin(struct observation *observation, struct runner *runner, struct bound *bound, bound_step *step)
{
    const run_observers *observers = &runner->shared->observers;
    const bool reports = step->plan->step != NULL && step->plan->kind != PLAN_HOST;
    inlay_run *run = &runner->shared->run;
    run_event *event = &observation->event;

    *event = (run_event){ .runner = runner, .bound = bound, .step = step, .node = INLAY_NONE };
    observation->wanted = 0;
    for (uint32_t left = step->observed & observers->used; left != 0; left &= left - 1) {
        const uint32_t i = first_of(left);
        run_observer *observer = observers->list[i];

        event->own = NULL;
        if (observer->calls->begin_step != NULL && !observer->calls->begin_step(observer, event))
            continue;
        observation->own[i] = event->own;
        observation->wanted |= (uint8_t)(1u << i);
        if (reports && observer->calls->kernel != NULL) {
            run->part_ctx = observation;
            run->part = observe_kernel;
        }
    }
    step->observed = 0;
    step->simple = bound_step_is_simple(step);
    event->begin_ns = clock_ns();
}

inlay_status observation_end(struct observation *observation, inlay_status status, inlay_diag *diag)
{
    run_shared *shared = observation->event.runner->shared;
    run_event *event = &observation->event;

    event->end_ns = clock_ns();
    event->status = status;
    if (shared->observers.all != 0)
        shared->run.part = NULL;
    if (status != INLAY_OK)
        /* a failure of a step in a body gets the name of this step, too */
        __atomic_store_n(&shared->observers.failed, false, __ATOMIC_RELAXED);
    for (uint32_t left = observation->wanted; left != 0; left &= left - 1) {
        run_observer *observer = shared->observers.list[first_of(left)];
        inlay_status found;

        if (observer->calls->end_step == NULL)
            continue;
        event->own = observation->own[first_of(left)];
        found = observer->calls->end_step(observer, event, diag);
        if (status != INLAY_OK || found == INLAY_OK)
            continue;
        __atomic_store_n(&shared->observers.failed, true, __ATOMIC_RELAXED);
        status = found;
    }
    return status;
}
