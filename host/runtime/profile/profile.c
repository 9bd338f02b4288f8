#include "base/clock.h"
#include "profile/internal.h"
#include <stdlib.h>
#include <string.h>

static bool keep_plan(struct profile *p, struct plan *used)
{
    for (uint32_t i = p->plan_count; i-- > 0;)
        if (p->plans[i] == used)
            return true;
    if (p->plan_count == PROFILE_PLANS)
        return false;
    plan_ref(used);
    p->plans[p->plan_count++] = used;
    return true;
}

static uint32_t depth_of(const struct program *of)
{
    uint32_t depth = 0;

    for (const struct graph *g = of->graph; g->parent != NULL; g = g->parent)
        depth++;
    return depth;
}

static void hear(void *ctx, const watch_event *event)
{
    struct profile *p = ctx;
    profile_event *last =
        p->event_count > p->runs[p->run_count % PROFILE_RUNS].first_event ? &p->events[p->event_count - 1] : NULL;

    /* A kernel, and what prepares it. */
    if (event->node != INLAY_NONE && last != NULL && last->node == event->node && last->step == event->step &&
        last->plan == event->plan) {
        last->end_ns = event->end_ns;
        return;
    }
    if (p->event_count == p->event_capacity || p->run_count == PROFILE_RUNS || !keep_plan(p, event->plan)) {
        p->lost++;
        return;
    }
    p->events[p->event_count++] = (profile_event){ .program = event->program,
                                                   .plan = event->plan,
                                                   .step = event->step,
                                                   .begin_ns = event->begin_ns,
                                                   .end_ns = event->end_ns,
                                                   .run = p->run_count,
                                                   .node = event->node,
                                                   .depth = depth_of(event->program) + (event->node != INLAY_NONE) };
}

inlay_status profile_create(const inlay_session *session, uint32_t max_events, struct profile **out_profile,
                            inlay_diag *diag)
{
    struct profile *p = calloc(1, sizeof *p);

    *out_profile = NULL;
    if (p != NULL) {
        p->hook = (watch_hook){ hear, p, hear };
        p->session = session;
        p->event_capacity = max_events;
        p->events = arena_array(&p->a, (size_t)max_events + 1, sizeof *p->events);
        p->runs = arena_array(&p->a, PROFILE_RUNS, sizeof *p->runs);
        p->spans.capacity = max_events;
        p->spans.list = arena_array(&p->a, (size_t)max_events + 1, sizeof *p->spans.list);
    }
    if (p == NULL || p->events == NULL || p->runs == NULL || p->spans.list == NULL) {
        profile_destroy(p);
        return no_memory(diag, "to profile %u steps", max_events);
    }
    *out_profile = p;
    return INLAY_OK;
}

void profile_destroy(struct profile *p)
{
    if (p == NULL)
        return;
    for (uint32_t i = 0; i < p->plan_count; i++)
        plan_unref(p->plans[i]);
    arena_deinit(&p->a);
    free(p);
}

const watch_hook *profile_hook(const struct profile *p)
{
    return &p->hook;
}

run_spans *profile_spans(struct profile *p)
{
    return &p->spans;
}

void profile_begin(struct profile *p)
{
    if (p->run_count == PROFILE_RUNS)
        return;
    p->runs[p->run_count] =
        (profile_run){ .begin_ns = clock_ns(), .first_event = p->event_count, .first_span = p->spans.count };
}

void profile_end(struct profile *p, uint64_t ns, bool ok)
{
    profile_run *run;

    if (p->run_count == PROFILE_RUNS)
        return;
    run = &p->runs[p->run_count];
    if (!ok || p->lost > 0) { /* half a run would be no run */
        p->event_count = run->first_event;
        p->spans.count = run->first_span;
        return;
    }
    run->end_ns = run->begin_ns + ns;
    p->run_count++;
}

void profile_peaks(struct profile *p, double integers, double halves)
{
    p->peak_integers = integers;
    p->peak_halves = halves;
}

inlay_status profile_write(const struct profile *p, const char *format, double peak_flops_per_s,
                           double peak_bytes_per_s, const explain_sink *sink, inlay_diag *diag)
{
    static const struct {
        const char *name;
        void (*write)(const profile_report *r, const explain_sink *sink);
    } formats[] = {
        { "text", profile_text }, { "json", profile_json }, { "trace", profile_trace }, { "stacks", profile_stacks }
    };
    profile_report r;
    inlay_status status;

    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, format) != 0)
            continue;
        status = profile_report_make(p, &r, diag);
        if (status != INLAY_OK)
            return status;
        r.peak_flops = peak_flops_per_s;
        r.peak_bytes = peak_bytes_per_s;
        r.peak_integers = p->peak_integers;
        r.peak_halves = p->peak_halves;
        formats[i].write(&r, sink);
        profile_report_deinit(&r);
        return INLAY_OK;
    }
    if (strcmp(format, "html") == 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the library writes no pages; write the profile as json, and give it to `inlay profile "
                          "--from FILE --html PAGE`");
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "a profile can be written as text, json, trace or stacks, not as '%.40s'", format);
}
