#include "exec/loop/watch.h"
#include "base/memory.h"
#include "exec/device/in_flight.h"
#include "exec/loop/steps.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A step that tells of its kernels. */
struct relay {
    const watch_hook *hook;
    watch_event event;
};

static void relay_part(void *ctx, uint32_t node, uint64_t begin_ns, uint64_t end_ns)
{
    struct relay *to = ctx;

    if (node >= to->event.program->graph->node_count)
        return; /* a plugin may say anything */
    to->event.node = node;
    to->event.begin_ns = begin_ns;
    to->event.end_ns = end_ns > begin_ns ? end_ns : begin_ns;
    to->hook->part(to->hook->ctx, &to->event);
}

inlay_status watch_walk(struct runner *r, struct bound *b, inlay_diag *diag)
{
    const watch_hook *hook = r->shared->hook;
    inlay_run *run = &r->shared->run;

    for (uint32_t i = 0; i < b->plan->step_count; i++) {
        bound_step *s = &b->steps[i];
        watch_event event = {
            .program = r->prog, .plan = b->plan, .step = s->plan, .node = INLAY_NONE, .begin_ns = clock_ns()
        };
        struct relay to = { hook, event };
        inlay_status status;

        if (hook->part != NULL && s->plan->step != NULL && s->plan->kind != PLAN_HOST &&
            s->plan->step->region->node_count > 1) {
            run->part_ctx = &to;
            run->part = relay_part;
        }
        status = runner_step(r, b, s, diag);
        if (status == INLAY_OK && s->async)
            status = in_flight_wait(r, b, s, diag); /* its kernels are told of until then */
        run->part = NULL;
        if (status == INLAY_OK) {
            event.end_ns = clock_ns();
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
struct series {
    float *kept;    /* [TIMINGS_KEPT] nanoseconds of a run, the latest runs, in a ring */
    double now_ns;  /* of the run in progress */
    uint32_t calls; /* in the run in progress */
    uint32_t last_calls;
};

struct watched {
    const struct program *program;
    struct series *steps;  /* [step_count] */
    struct series *copies; /* [value_count] */
};

struct timings {
    watch_hook hook;
    struct arena a;
    struct watched *programs; /* [program_count] */
    uint32_t program_count;
    struct series whole;
    uint32_t runs;     /* all that counted */
    uint32_t events;   /* of the run in progress */
    uint64_t clock_ns; /* what looking at the clock takes */
};

static bool make_series(struct arena *a, uint32_t count, struct series **out)
{
    float *kept = arena_array(a, (size_t)count + 1, TIMINGS_KEPT * sizeof *kept);

    *out = arena_array(a, (size_t)count + 1, sizeof **out);
    if (*out == NULL || kept == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        (*out)[i].kept = kept + (size_t)i * TIMINGS_KEPT;
    return true;
}

static bool watch_programs(struct timings *t, const struct program *p)
{
    struct watched *w = &t->programs[t->program_count++];

    w->program = p;
    if (!make_series(&t->a, p->step_count, &w->steps))
        return false;
    /* Copies need a device: most programs have none. */
    for (uint32_t i = 0; i < p->env->provider_count; i++)
        if (p->env->providers[i].table->domain_count > 0 && w->copies == NULL &&
            !make_series(&t->a, p->graph->value_count, &w->copies))
            return false;
    for (uint32_t i = 0; i < p->step_count; i++)
        for (uint32_t k = 0; p->steps[i].bodies != NULL && k < p->steps[i].node->body_count; k++)
            if (!watch_programs(t, p->steps[i].bodies[k]))
                return false;
    return true;
}

static const struct watched *find_program(const struct timings *t, const struct program *p)
{
    for (uint32_t i = 0; i < t->program_count; i++)
        if (t->programs[i].program == p)
            return &t->programs[i];
    return NULL;
}

static void hear(void *ctx, const watch_event *event)
{
    struct timings *t = ctx;
    const struct watched *w = find_program(t, event->program);
    struct series *s = NULL;

    t->events++;
    if (w != NULL && event->step->kind != PLAN_COPY) {
        s = &w->steps[event->step->step - event->program->steps];
    } else if (w != NULL && w->copies != NULL) {
        s = &w->copies[event->step->copy_value];
    }
    if (s != NULL) {
        uint64_t ns = event->end_ns - event->begin_ns;
        s->now_ns += ns > t->clock_ns ? (double)(ns - t->clock_ns) : 0;
        s->calls++;
    }
}

/* The least that lies between two looks at the clock. */
static uint64_t time_clock(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 64; i++) {
        uint64_t begin = clock_ns(), ns = clock_ns() - begin;
        least = ns < least ? ns : least;
    }
    return least;
}

inlay_status timings_create(const struct program *main, struct timings **out_timings, inlay_diag *diag)
{
    struct timings *t = calloc(1, sizeof *t);
    struct series *whole = NULL;

    *out_timings = NULL;
    if (t != NULL) {
        t->hook = (watch_hook){ hear, t, NULL };
        t->programs = arena_array(&t->a, program_count(main), sizeof *t->programs);
    }
    if (t == NULL || t->programs == NULL || !watch_programs(t, main) || !make_series(&t->a, 1, &whole)) {
        timings_destroy(t);
        return no_memory(diag, "to measure runs");
    }
    t->whole = *whole;
    t->clock_ns = time_clock();
    *out_timings = t;
    return INLAY_OK;
}

void timings_destroy(struct timings *t)
{
    if (t == NULL)
        return;
    arena_deinit(&t->a);
    free(t);
}

const watch_hook *timings_hook(const struct timings *t)
{
    return &t->hook;
}

static void end_series(struct series *list, uint32_t count, uint32_t slot, bool ok)
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

void timings_end_run(struct timings *t, uint64_t ns, bool ok)
{
    uint32_t slot = t->runs % TIMINGS_KEPT;
    uint64_t looking = 2 * t->clock_ns * t->events;

    t->whole.now_ns = ns > looking ? (double)(ns - looking) : 0;
    t->events = 0;
    end_series(&t->whole, 1, slot, ok);
    for (uint32_t i = 0; i < t->program_count; i++) {
        const struct watched *w = &t->programs[i];
        end_series(w->steps, w->program->step_count, slot, ok);
        end_series(w->copies, w->program->graph->value_count, slot, ok);
    }
    t->runs += ok;
}

uint32_t timings_runs(const struct timings *t)
{
    return t->runs < TIMINGS_KEPT ? t->runs : TIMINGS_KEPT;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static double median_of(const struct timings *t, const struct series *s)
{
    float sorted[TIMINGS_KEPT];
    uint32_t n = timings_runs(t);

    if (n == 0)
        return -1;
    memcpy(sorted, s->kept, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    return n % 2 != 0 ? sorted[n / 2] : ((double)sorted[n / 2 - 1] + (double)sorted[n / 2]) / 2;
}

double timings_run_ns(const struct timings *t)
{
    return t->runs == 0 ? 0 : median_of(t, &t->whole);
}

double timings_step_ns(const struct timings *t, const struct program *p, uint32_t step, uint32_t *out_calls)
{
    const struct watched *w = find_program(t, p);

    if (out_calls != NULL)
        *out_calls = w == NULL ? 0 : w->steps[step].last_calls;
    return w == NULL ? -1 : median_of(t, &w->steps[step]);
}

double timings_copy_ns(const struct timings *t, const struct program *p, uint32_t value)
{
    const struct watched *w = find_program(t, p);

    return w == NULL || w->copies == NULL ? -1 : median_of(t, &w->copies[value]);
}
