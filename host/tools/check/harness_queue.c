/* Work that a run waits for: copies of its inputs, and fences of others. */
#include "base/clock.h"
#include "base/provider_calls.h"
#include "check/harness_run.h"
#include "threads/fence.h"
#include "inlay/check.h"
#include <string.h>
#include <time.h>

enum { GARBAGE = 0x7f };

/* Inputs that are still being copied.
 *
 * As in a host with several devices, copies and execute are queued behind a fence (the gate) that is signalled later.
 * The source of a copy, or an input in host memory, holds garbage until then, so a provider that does not wait computes
 * with garbage. */

static bool is_queued(const struct run_state *run, uint32_t input)
{
    return run->device[input].whole.handle != 0 && run->in[input].bytes > 0;
}

/* An input in host memory that another device writes. */
static bool is_late(const struct run_state *run, uint32_t input)
{
    return run->device[input].whole.handle == 0 && run->in[input].bytes > 0;
}

static void *open_gate(void *user)
{
    static const struct timespec pause = { 0, 2000000 };
    /* Number of pauses. execute may wait for the data that determines the dims of an output. */
    enum { PATIENCE = 100, PATIENCE_KNOWN = 500 };
    struct gate *gate = user;
    struct run_state *run = gate->run;
    const inlay_status status = run->options->poison;
    inlay_diag reason = INLAY_DIAG_INIT;
    bool known = true;

    for (uint32_t o = 0; o < run->harness->built->output_count; o++)
        known &= run->harness->plans[o].kind == INLAY_OUTPUT_KNOWN;

    for (int i = 0;
         i == 0 || (i < (known ? PATIENCE_KNOWN : PATIENCE) && __atomic_load_n(&gate->returned, __ATOMIC_ACQUIRE) == 0);
         i++)
        (void)nanosleep(&pause, NULL);
    run->result->blocked = known && __atomic_load_n(&gate->returned, __ATOMIC_ACQUIRE) == 0;
    for (uint32_t i = 0; i < run->harness->built->input_count; i++)
        if (gate->sources[i] != NULL && is_late(run, i)) {
            memcpy(run->in[i].data, gate->sources[i], run->in[i].bytes);
            guarded_protect(&run->in[i], true);
        } else if (gate->sources[i] != NULL) {
            memcpy(gate->sources[i], run->in[i].data, run->in[i].bytes);
        }
    if (status != INLAY_OK)
        (void)inlay_fail(&reason, status, "the checker signals this fence with a failure");
    fence_signal(gate->open, status, status != INLAY_OK ? &reason : NULL);
    return NULL;
}

/* Queues the copy into a device input, which holds garbage until the copy is done. */
static inlay_status queue_input(struct run_state *run, struct gate *gate, uint32_t i, inlay_diag *diag)
{
    const loaded_provider *provider = run->harness->provider;
    inlay_buffer here = { .bytes = run->in[i].bytes };
    char *source = arena_alloc(&run->result->arena, run->in[i].bytes + 1);
    inlay_status status;

    INLAY_CHECK(run->wait_count < HARNESS_WAITS);
    if (source == NULL)
        return no_memory(diag, "for an input");
    memset(source, GARBAGE, run->in[i].bytes + 1);
    status = timeline_create(&gate->timelines[i], diag);
    if (status != INLAY_OK)
        return status;
    here.handle = (uintptr_t)source;
    run->frame.waits[run->wait_count] = (inlay_fence){ gate->timelines[i], 1 };
    run_phase(run, "buffer_copy after a fence");
    status = call_copy(provider->table, provider->state, NULL, &here, &run->device[i].given, &gate->open,
                       run->frame.waits[run->wait_count], diag);
    if (status == INLAY_OK) {
        gate->sources[i] = source;
        run->wait_count++;
    }
    return status;
}

/* Puts garbage into an input in host memory until the gate opens. */
static inlay_status make_late(struct run_state *run, struct gate *gate, uint32_t i, inlay_diag *diag)
{
    gate->sources[i] = arena_copy(&run->result->arena, run->in[i].data, run->in[i].bytes);
    if (gate->sources[i] == NULL)
        return no_memory(diag, "for an input");
    guarded_protect(&run->in[i], false);
    memset(run->in[i].data, GARBAGE, run->in[i].bytes);
    return INLAY_OK;
}

inlay_status gate_queue_inputs(struct run_state *run, struct gate *gate, inlay_diag *diag)
{
    const uint32_t most = run->harness->provider->table->max_waits;
    inlay_status status = INLAY_OK;
    bool has_late = false;

    *gate = (struct gate){ .run = run, .open.value = 1 };
    /* Fill all inputs before the first copy is queued: a synchronous fill would wait behind that copy. */
    for (uint32_t i = 0; i < run->harness->built->input_count; i++)
        if (is_queued(run, i))
            INLAY_TRY(device_tensor_fill(&run->link, &run->device[i], NULL, GARBAGE, &run->result->arena, diag));
    INLAY_TRY(timeline_create(&gate->open.timeline, diag));
    for (uint32_t i = 0; i < run->harness->built->input_count; i++)
        if (is_queued(run, i))
            INLAY_TRY(queue_input(run, gate, i, diag));
    run->own_wait_count = run->wait_count;
    for (uint32_t i = 0; i < run->harness->built->input_count; i++)
        if (is_late(run, i)) {
            INLAY_TRY(make_late(run, gate, i, diag));
            has_late = true;
        }
    if (has_late)
        run->frame.waits[run->wait_count++] = gate->open;
    if (most > 0 && run->wait_count > most) { /* the host waits for the others itself */
        __atomic_store_n(&gate->returned, 1, __ATOMIC_RELEASE);
        gate_start(gate);
        while (run->wait_count > most)
            INLAY_TRY(fence_wait_uncancelled(run->frame.waits[--run->wait_count], diag));
        run->own_wait_count = run->own_wait_count < run->wait_count ? run->own_wait_count : run->wait_count;
    }
done:
    return status;
}

void gate_start(struct gate *gate)
{
    if (gate->open.timeline == 0 || gate->is_open)
        return;
    gate->is_open = true;
    gate->is_running = pthread_create(&gate->thread, NULL, open_gate, gate) == 0;
    if (!gate->is_running)
        (void)open_gate(gate);
}

void gate_close(struct run_state *run, struct gate *gate)
{
    inlay_diag ignored = INLAY_DIAG_INIT;
    inlay_status settled = INLAY_OK;

    __atomic_store_n(&gate->returned, 1, __ATOMIC_RELEASE); /* also after a failure: queued copies wait for the gate */
    gate_start(gate);
    if (gate->is_running)
        (void)pthread_join(gate->thread, NULL);
    for (uint32_t wait = 0; wait < run->wait_count; wait++)
        settled =
            fence_wait_uncancelled(run->frame.waits[wait], &ignored); /* done or failed: the source is no longer read */
    (void)settled;
    for (uint32_t i = 0; i < CASE_INPUTS; i++)
        timeline_destroy(gate->timelines[i]);
    timeline_destroy(gate->open.timeline);
    run->wait_count = run->own_wait_count = 0;
}

static void pause_ms(long ms)
{
    const struct timespec pause = { 0, ms * 1000000 };

    (void)nanosleep(&pause, NULL);
}

/* The number of the fence that is signalled as the step-th one. */
static uint32_t fence_at(const harness_fences *plan, uint32_t step)
{
    switch (plan->order) {
    case FENCES_DESCENDING:
        return plan->count - 1 - step;
    case FENCES_LAST_FIRST:
        return step == 0 ? plan->count - 1 : step - 1;
    case FENCES_MIXED: /* 7 has no common factor with the numbers of fences in use */
        return (step * 7 + 3) % plan->count;
    default:
        return step;
    }
}

/* Calls quiesce, which must not return before the run has signalled. */
static void *call_quiesce(void *user)
{
    struct fence_series *series = user;
    const loaded_provider *provider = series->run->harness->provider;

    if (provider->table->quiesce != NULL)
        provider->table->quiesce(provider->state);
    if (!fence_reached(series->signal, NULL))
        run_fault(series->run->result,
                  "wait in quiesce for all work that was submitted, also for work that waits for a fence",
                  "quiesce returned while work was in flight");
    return NULL;
}

static void *signal_fences(void *user)
{
    enum { WAIT_MS = 4, QUIESCE_MS = 20, PATIENCE = 100 };
    struct fence_series *series = user;
    const harness_fences *plan = series->run->options->fences;
    bool quiescing = false, early = false;
    pthread_t quiesce;

    for (int i = 0; i < PATIENCE && __atomic_load_n(&series->returned, __ATOMIC_ACQUIRE) == 0; i++)
        pause_ms(2);
    if (plan->quiesce) {
        quiescing = pthread_create(&quiesce, NULL, call_quiesce, series) == 0;
        pause_ms(QUIESCE_MS);
    }
    for (uint32_t step = 0; step < plan->count; step++) {
        if (step < 2 || step + 1 == plan->count)
            pause_ms(WAIT_MS);
        if (!early && fence_reached(series->signal, NULL)) {
            early = true;
            run_fault(series->run->result, "wait for every fence of args->waits, in any order, before the work starts",
                      "it signalled when %u of %u fences were reached", step, plan->count);
        }
        fence_signal((inlay_fence){ series->timelines[fence_at(plan, step)], FENCE_VALUE }, INLAY_OK, NULL);
    }
    if (quiescing)
        (void)pthread_join(quiesce, NULL);
    return NULL;
}

inlay_status fences_create(struct run_state *run, struct fence_series *series, inlay_diag *diag)
{
    const harness_fences *plan = run->options->fences;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(run->wait_count + plan->count <= HARNESS_WAITS);
    series->run = run;
    for (uint32_t i = 0; i < plan->count && status == INLAY_OK; i++) {
        status = timeline_create(&series->timelines[i], diag);
        if (status == INLAY_OK) {
            series->count++;
            /* A value that is cut to 32 bits has been reached. */
            run->frame.waits[run->wait_count++] = (inlay_fence){ series->timelines[i], FENCE_VALUE };
            fence_signal((inlay_fence){ series->timelines[i], (uint32_t)FENCE_VALUE }, INLAY_OK, NULL);
        }
    }
    return status;
}

void fences_start(struct fence_series *series, inlay_fence signal)
{
    series->signal = signal;
    series->is_running = pthread_create(&series->thread, NULL, signal_fences, series) == 0;
    for (uint32_t i = 0; i < series->count && !series->is_running; i++)
        fence_signal((inlay_fence){ series->timelines[i], FENCE_VALUE }, INLAY_OK, NULL);
}

void fences_finish(struct fence_series *series)
{
    __atomic_store_n(&series->returned, 1, __ATOMIC_RELEASE);
    if (series->is_running)
        (void)pthread_join(series->thread, NULL);
    for (uint32_t i = 0; i < series->count; i++)
        timeline_destroy(series->timelines[i]);
    if (series->run != NULL)
        series->run->wait_count = 0;
}
