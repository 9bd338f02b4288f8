#include "exec/measure.h"
#include "exec/fence.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t measure_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

inlay_status measure_walk(runner *r, bound *b, inlay_diag *diag)
{
    const measure_hook *hook = r->shared->hook;

    for (uint32_t i = 0; i < b->plan->step_count; i++) {
        bound_step *s = &b->steps[i];
        measure_event event = { .program = r->prog, .step = s->plan, .begin_ns = measure_now() };
        inlay_status status = runner_step(r, b, s, diag);

        if (status == INLAY_OK && s->async)
            status = fence_wait(s->fence, &r->shared->run, diag);
        if (status == INLAY_OK) {
            event.end_ns = measure_now();
            hook->event(hook->ctx, &event);
        }
        if (status == INLAY_OK && r->shared->watched)
            status = run_poll(&r->shared->run);
        if (status != INLAY_OK)
            return runner_step_failed(r, s, status, diag);
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ medians over runs */

/* Times of one thing, run by run. */
typedef struct series {
    float *kept;    /* [MEASURE_KEPT] nanoseconds of a run, the latest runs, in a ring */
    double now_ns;  /* of the run in progress */
    uint32_t calls; /* in the run in progress */
    uint32_t last_calls;
} series;

typedef struct watched {
    const program *program;
    series *steps;  /* [step_count] */
    series *copies; /* [value_count] */
} watched;

struct measure {
    measure_hook hook;
    arena a;
    watched *programs; /* [program_count] */
    uint32_t program_count;
    series whole;
    uint32_t runs; /* all that counted */
};

static uint32_t count_programs(const program *p)
{
    uint32_t n = 1;

    for (uint32_t i = 0; i < p->step_count; i++)
        for (uint32_t k = 0; p->steps[i].bodies != NULL && k < p->steps[i].node->body_count; k++)
            n += count_programs(p->steps[i].bodies[k]);
    return n;
}

static bool make_series(arena *a, uint32_t count, series **out)
{
    float *kept = arena_array(a, (size_t)count + 1, MEASURE_KEPT * sizeof *kept);

    *out = arena_array(a, (size_t)count + 1, sizeof **out);
    if (*out == NULL || kept == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        (*out)[i].kept = kept + (size_t)i * MEASURE_KEPT;
    return true;
}

static bool watch_programs(measure *m, const program *p)
{
    watched *w = &m->programs[m->program_count++];

    w->program = p;
    if (!make_series(&m->a, p->step_count, &w->steps))
        return false;
    /* Copies need a device: most programs have none. */
    for (uint32_t i = 0; i < p->env->provider_count; i++)
        if (p->env->providers[i].table->domain_count > 0 && w->copies == NULL &&
            !make_series(&m->a, p->graph->value_count, &w->copies))
            return false;
    for (uint32_t i = 0; i < p->step_count; i++)
        for (uint32_t k = 0; p->steps[i].bodies != NULL && k < p->steps[i].node->body_count; k++)
            if (!watch_programs(m, p->steps[i].bodies[k]))
                return false;
    return true;
}

static const watched *find_program(const measure *m, const program *p)
{
    for (uint32_t i = 0; i < m->program_count; i++)
        if (m->programs[i].program == p)
            return &m->programs[i];
    return NULL;
}

static void hear(void *ctx, const measure_event *event)
{
    const watched *w = find_program(ctx, event->program);
    series *s = NULL;

    if (w != NULL && event->step->kind != PLAN_COPY) {
        s = &w->steps[event->step->step - event->program->steps];
    } else if (w != NULL && w->copies != NULL) {
        s = &w->copies[event->step->copy_value];
    }
    if (s != NULL) {
        s->now_ns += (double)(event->end_ns - event->begin_ns);
        s->calls++;
    }
}

inlay_status measure_create(const program *main, measure **out_measure, inlay_diag *diag)
{
    measure *m = calloc(1, sizeof *m);
    series *whole = NULL;

    *out_measure = NULL;
    if (m != NULL) {
        m->hook = (measure_hook){ hear, m };
        m->programs = arena_array(&m->a, count_programs(main), sizeof *m->programs);
    }
    if (m == NULL || m->programs == NULL || !watch_programs(m, main) || !make_series(&m->a, 1, &whole)) {
        measure_destroy(m);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to measure runs");
    }
    m->whole = *whole;
    *out_measure = m;
    return INLAY_OK;
}

void measure_destroy(measure *m)
{
    if (m == NULL)
        return;
    arena_deinit(&m->a);
    free(m);
}

const measure_hook *measure_hook_of(const measure *m)
{
    return &m->hook;
}

static void end_series(series *list, uint32_t count, uint32_t slot, bool ok)
{
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        if (ok) {
            list[i].kept[slot] = (float)list[i].now_ns;
            list[i].last_calls = list[i].calls;
        }
        list[i].now_ns = 0;
        list[i].calls = 0;
    }
}

void measure_end_run(measure *m, uint64_t ns, bool ok)
{
    uint32_t slot = m->runs % MEASURE_KEPT;

    m->whole.now_ns = (double)ns;
    end_series(&m->whole, 1, slot, ok);
    for (uint32_t i = 0; i < m->program_count; i++) {
        const watched *w = &m->programs[i];
        end_series(w->steps, w->program->step_count, slot, ok);
        end_series(w->copies, w->program->graph->value_count, slot, ok);
    }
    m->runs += ok;
}

uint32_t measure_runs(const measure *m)
{
    return m->runs < MEASURE_KEPT ? m->runs : MEASURE_KEPT;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static double median_of(const measure *m, const series *s)
{
    float sorted[MEASURE_KEPT];
    uint32_t n = measure_runs(m);

    if (n == 0)
        return -1;
    memcpy(sorted, s->kept, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    return n % 2 != 0 ? sorted[n / 2] : ((double)sorted[n / 2 - 1] + (double)sorted[n / 2]) / 2;
}

double measure_run_ns(const measure *m)
{
    return m->runs == 0 ? 0 : median_of(m, &m->whole);
}

double measure_step_ns(const measure *m, const program *p, uint32_t step, uint32_t *out_calls)
{
    const watched *w = find_program(m, p);

    if (out_calls != NULL)
        *out_calls = w == NULL ? 0 : w->steps[step].last_calls;
    return w == NULL ? -1 : median_of(m, &w->steps[step]);
}

double measure_copy_ns(const measure *m, const program *p, uint32_t value)
{
    const watched *w = find_program(m, p);

    return w == NULL || w->copies == NULL ? -1 : median_of(m, &w->copies[value]);
}
