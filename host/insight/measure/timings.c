#include "measure/timings.h"
#include "base/clock.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include <stdlib.h>
#include <string.h>

/* Times of one step, copy or whole run, one entry per run. */
struct series {
    float *ns;      /* [TIMINGS_KEPT] nanoseconds per run, a ring of the latest runs */
    double now_ns;  /* of the run in progress */
    uint32_t calls; /* in the run in progress */
    uint32_t last_calls;
};

typedef struct program_times {
    const struct program *program;
    struct series *steps;  /* [step_count] */
    struct series *copies; /* [value_count] */
} program_times;

struct timings {
    run_observer observer;
    struct arena arena;
    program_times *programs; /* [program_count] */
    uint32_t program_count;
    struct series whole;
    uint32_t runs;     /* successful runs */
    uint32_t events;   /* of the run in progress */
    uint64_t clock_ns; /* time that one reading of the clock takes */
};

static bool make_series(struct arena *arena, uint32_t count, struct series **out)
{
    float *kept = arena_array(arena, (size_t)count + 1, TIMINGS_KEPT * sizeof *kept);

    *out = arena_array(arena, (size_t)count + 1, sizeof **out);
    if (*out == NULL || kept == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        (*out)[i].ns = kept + (size_t)i * TIMINGS_KEPT;
    return true;
}

static bool add_programs(struct timings *timings, const struct program *program)
{
    program_times *times = &timings->programs[timings->program_count++];
    INLAY_CHECK(program->step_count == 0 || program->steps != NULL);

    times->program = program;
    if (!make_series(&timings->arena, program->step_count, &times->steps))
        return false;
    /* Copies need a device, and most programs use none. */
    for (uint32_t i = 0; i < program->env->provider_count; i++)
        if (program->env->providers[i].table->domain_count > 0 && times->copies == NULL &&
            !make_series(&timings->arena, program->graph->value_count, &times->copies))
            return false;
    for (uint32_t i = 0; i < program->step_count; i++)
        for (uint32_t k = 0; program->steps[i].bodies != NULL && k < program->steps[i].node->body_count; k++)
            if (!add_programs(timings, program->steps[i].bodies[k]))
                return false;
    return true;
}

static const program_times *find_program(const struct timings *timings, const struct program *program)
{
    for (uint32_t i = 0; i < timings->program_count; i++)
        if (timings->programs[i].program == program)
            return &timings->programs[i];
    return NULL;
}

static inlay_status end_step(run_observer *observer, const run_event *event, inlay_diag *diag)
{
    struct timings *timings = (struct timings *)observer;
    const struct program *program = event->runner->prog;
    const plan_step *step = event->step->plan;
    const program_times *times = find_program(timings, program);
    struct series *series = NULL;

    (void)diag;
    if (event->status != INLAY_OK)
        return INLAY_OK;
    timings->events++;
    if (times != NULL && step->kind != PLAN_COPY) {
        series = &times->steps[step->step - program->steps];
    } else if (times != NULL && times->copies != NULL) {
        series = &times->copies[step->copy_value];
    }
    if (series != NULL) {
        uint64_t ns = event->end_ns - event->begin_ns;
        series->now_ns += ns > timings->clock_ns ? (double)(ns - timings->clock_ns) : 0;
        series->calls++;
    }
    return INLAY_OK;
}

/* The shortest time between two readings of the clock. */
static uint64_t measure_clock_overhead(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 64; i++) {
        uint64_t begin = clock_ns(), ns = clock_ns() - begin;
        least = ns < least ? ns : least;
    }
    return least;
}

static void end_series(struct series *list, uint32_t count, uint32_t slot, bool ok)
{
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        if (ok) {
            list[i].ns[slot] = (float)list[i].now_ns;
            list[i].last_calls = list[i].calls;
        }
        list[i].now_ns = 0;
        list[i].calls = 0;
    }
}

static void end_run(run_observer *observer, run_shared *shared, uint64_t ns, bool ok)
{
    struct timings *timings = (struct timings *)observer;
    uint32_t slot = timings->runs % TIMINGS_KEPT;
    uint64_t overhead = 2 * timings->clock_ns * timings->events;

    (void)shared;
    timings->whole.now_ns = ns > overhead ? (double)(ns - overhead) : 0;
    timings->events = 0;
    end_series(&timings->whole, 1, slot, ok);
    for (uint32_t i = 0; i < timings->program_count; i++) {
        const program_times *times = &timings->programs[i];
        end_series(times->steps, times->program->step_count, slot, ok);
        end_series(times->copies, times->program->graph->value_count, slot, ok);
    }
    timings->runs += ok;
}

static void destroy(run_observer *observer)
{
    struct timings *timings = (struct timings *)observer;

    arena_deinit(&timings->arena);
    free(timings);
}

static const run_observer_calls calls = { .end_run = end_run, .end_step = end_step, .destroy = destroy };

inlay_status timings_create(const struct program *main, run_observer **out_observer, inlay_diag *diag)
{
    struct timings *timings = calloc(1, sizeof *timings);
    struct series *whole = NULL;

    *out_observer = NULL;
    if (timings == NULL)
        return no_memory(diag, "to measure runs");
    timings->observer.calls = &calls;
    timings->programs = arena_array(&timings->arena, program_count(main), sizeof *timings->programs);
    if (timings->programs == NULL || !add_programs(timings, main) || !make_series(&timings->arena, 1, &whole)) {
        destroy(&timings->observer);
        return no_memory(diag, "to measure runs");
    }
    timings->whole = *whole;
    timings->clock_ns = measure_clock_overhead();
    *out_observer = &timings->observer;
    return INLAY_OK;
}

const struct timings *timings_of(const run_observer *observer)
{
    return observer != NULL && observer->calls == &calls ? (const struct timings *)observer : NULL;
}

uint32_t timings_runs(const struct timings *timings)
{
    return timings->runs < TIMINGS_KEPT ? timings->runs : TIMINGS_KEPT;
}

static int by_size(const void *a, const void *b)
{
    float first = *(const float *)a, second = *(const float *)b;

    return (first > second) - (first < second);
}

static double median_of(const struct timings *timings, const struct series *series)
{
    float sorted[TIMINGS_KEPT];
    uint32_t count = timings_runs(timings);

    if (count == 0)
        return -1;
    memcpy(sorted, series->ns, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    return count % 2 != 0 ? sorted[count / 2] : ((double)sorted[count / 2 - 1] + (double)sorted[count / 2]) / 2;
}

double timings_run_ns(const struct timings *timings)
{
    return timings->runs == 0 ? 0 : median_of(timings, &timings->whole);
}

double timings_step_ns(const struct timings *timings, const struct program *program, uint32_t step, uint32_t *out_calls)
{
    const program_times *times = find_program(timings, program);

    if (out_calls != NULL)
        *out_calls = times == NULL ? 0 : times->steps[step].last_calls;
    return times == NULL ? -1 : median_of(timings, &times->steps[step]);
}

double timings_copy_ns(const struct timings *timings, const struct program *program, uint32_t value)
{
    const program_times *times = find_program(timings, program);

    return times == NULL || times->copies == NULL ? -1 : median_of(timings, &times->copies[value]);
}
