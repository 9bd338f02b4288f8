/* The profile for programs: JSON, Chrome's trace events and folded stacks. */
#include "profile/internal.h"
#include <stdio.h>

/* ------------------------------------------------------------------ JSON */

void profile_json(const profile_report *r, const explain_sink *sink)
{
    json_out j = { .sink = sink };
    char text[PROFILE_NAME];

    json_open(&j, NULL, '{', false);
    json_whole(&j, "version", 1);
    json_text(&j, "model", r->p->session->model->path);
    json_whole(&j, "runs", r->p->run_count);
    json_whole(&j, "threads", r->p->session->env.max_threads);
    json_number(&j, "run_ns", r->run_ns);
    json_whole(&j, "lost_events", r->p->lost);
    json_number(&j, "peak_flops_per_s", r->peak_flops);
    json_number(&j, "peak_bytes_per_s", r->peak_bytes);
    json_number(&j, "peak_integer_ops_per_s", r->peak_integers);
    json_number(&j, "peak_half_flops_per_s", r->peak_halves);
    json_whole(&j, "slab_bytes", r->slab_bytes);
    json_whole(&j, "lower_bound_bytes", r->lower_bound_bytes);
    json_open(&j, "steps", '[', false);
    for (uint32_t i = 0; i < r->row_count; i++) {
        const profile_row *row = &r->rows[i];
        double ns = row->calls > 0 ? row->ns / row->calls : 0, roof = profile_roofline(r, row);

        json_open(&j, NULL, '{', true);
        json_text(&j, "name", profile_name(row->sample, text));
        json_text(&j, "op", profile_op(row->sample, text));
        json_text(&j, "graph", row->sample->program->graph->name);
        json_text(&j, "provider", row->provider);
        json_whole(&j, "depth", row->sample->depth);
        if (row->whole != NULL)
            json_text(&j, "region", profile_name(row->whole->sample, text));
        json_bool(&j, "leaf", row->leaf);
        json_number(&j, "calls", row->calls);
        json_number(&j, "ns", row->ns);
        json_number(&j, "predicted_ns", row->predicted_ns * row->calls);
        json_number(&j, "share", row->share);
        json_number(&j, "flops", row->flops);
        json_number(&j, "integer_ops", row->integer_ops);
        json_number(&j, "half_flops", row->half_flops);
        json_number(&j, "bytes", row->bytes);
        json_number(&j, "gflops_per_s", ns > 0 ? row->flops / ns : 0);
        json_number(&j, "gbytes_per_s", ns > 0 ? row->bytes / ns : 0);
        json_number(&j, "roofline", roof);
        json_whole(&j, "live_bytes", row->live_bytes);
        json_close(&j);
    }
    json_close(&j);
    /* One run, step by step, for timelines: the latest, when caches are warm. */
    json_open(&j, "timeline", '[', false);
    for (uint32_t i = r->p->runs[r->p->run_count - 1].first_event; i < r->p->event_count; i++) {
        const profile_event *e = &r->p->events[i];
        uint64_t zero = r->p->runs[r->p->run_count - 1].begin_ns;

        json_open(&j, NULL, '{', true);
        json_text(&j, "name", profile_name(e, text));
        json_text(&j, "op", profile_op(e, text));
        json_text(&j, "provider",
                  e->step->kind == PLAN_COPY        ? "copy"
                  : e->step->step->provider == NULL ? "host"
                                                    : e->step->step->provider->name);
        json_whole(&j, "depth", e->depth);
        json_number(&j, "begin_ns", (double)(e->begin_ns - zero));
        json_number(&j, "ns", (double)(e->end_ns - e->begin_ns));
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    say(sink, "\n");
}

/* ------------------------------------------------------------------ Chrome's trace events
 *
 * One process; a track for each provider and depth, one for copies, one for each worker of parallel loops, and a
 * counter of the memory that is in use. Times are microseconds. */

enum { TRACK_STEPS = 1, TRACK_COPIES = 90, TRACK_WORKERS = 100 };

static void name_track(json_out *j, uint32_t track, const char *name)
{
    json_open(j, NULL, '{', true);
    json_text(j, "ph", "M");
    json_text(j, "name", "thread_name");
    json_whole(j, "pid", 1);
    json_whole(j, "tid", track);
    json_open(j, "args", '{', true);
    json_text(j, "name", name);
    json_close(j);
    json_close(j);
}

static uint32_t track_of(const struct profile *p, const profile_event *e)
{
    if (e->step->kind == PLAN_COPY)
        return TRACK_COPIES;
    if (e->step->step->provider == NULL)
        return TRACK_STEPS;
    return TRACK_STEPS + 1 + (uint32_t)(e->step->step->provider - p->session->providers);
}

static void open_event(json_out *j, const char *phase, uint32_t track, double ns)
{
    json_open(j, NULL, '{', true);
    json_text(j, "ph", phase);
    json_whole(j, "pid", 1);
    json_whole(j, "tid", track);
    json_number(j, "ts", ns / 1e3);
}

static void put_step(json_out *j, const profile_report *r, const profile_event *e, uint64_t zero)
{
    char text[PROFILE_NAME];

    open_event(j, "X", track_of(r->p, e), (double)(e->begin_ns - zero));
    json_number(j, "dur", (double)(e->end_ns - e->begin_ns) / 1e3);
    json_text(j, "name", profile_op(e, text));
    json_open(j, "args", '{', true);
    json_text(j, "node", profile_name(e, text));
    json_text(j, "graph", e->program->graph->name);
    json_whole(j, "run", e->run);
    if (e->step->kind == PLAN_COPY)
        json_whole(j, "bytes", e->step->copy_bytes);
    json_close(j);
    json_close(j);
    if (e->depth > 0)
        return;
    open_event(j, "C", 0, (double)(e->begin_ns - zero));
    json_text(j, "name", "memory in use");
    json_open(j, "args", '{', true);
    json_whole(j, "bytes", r->rows[r->row_of[e - r->p->events]].live_bytes);
    json_close(j);
    json_close(j);
}

void profile_trace(const profile_report *r, const explain_sink *sink)
{
    const struct profile *p = r->p;
    uint64_t zero = p->runs[0].begin_ns;
    uint32_t spans = p->spans.count < p->spans.capacity ? p->spans.count : p->spans.capacity;
    json_out j = { .sink = sink };
    char text[PROFILE_NAME];

    json_open(&j, NULL, '{', false);
    json_text(&j, "displayTimeUnit", "ns");
    json_open(&j, "traceEvents", '[', false);
    name_track(&j, TRACK_STEPS, "host");
    for (uint32_t i = 0; i < p->session->env.provider_count; i++)
        name_track(&j, TRACK_STEPS + 1 + i, p->session->providers[i].name);
    name_track(&j, TRACK_COPIES, "copies");
    for (uint32_t i = 0; i < p->session->env.max_threads; i++) {
        (void)snprintf(text, sizeof text, "thread %u", i);
        name_track(&j, TRACK_WORKERS + i, text);
    }
    for (uint32_t i = 0; i < p->event_count; i++)
        put_step(&j, r, &p->events[i], zero);
    for (uint32_t i = 0; i < spans; i++) {
        const run_span *s = &p->spans.list[i];

        open_event(&j, "X", TRACK_WORKERS + s->worker, (double)(s->begin_ns - zero));
        json_number(&j, "dur", (double)(s->end_ns - s->begin_ns) / 1e3);
        json_text(&j, "name", "loop");
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    say(sink, "\n");
}

/* ------------------------------------------------------------------ folded stacks
 *
 * "graph;provider;operator;node nanoseconds", as flame graph scripts read them; kernels that a region tells of lie in
 * its frame, whose own share is what is left. */

static void put_frame(const explain_sink *sink, const char *text, char end)
{
    char clean[PROFILE_NAME];
    size_t n = 0;

    for (; n < sizeof clean - 1 && text[n] != '\0'; n++)
        clean[n] = text[n] == ';' || text[n] == ' ' || (unsigned char)text[n] < 32 ? '_' : text[n];
    clean[n] = '\0';
    say(sink, "%s%c", clean, end);
}

void profile_stacks(const profile_report *r, const explain_sink *sink)
{
    char text[PROFILE_NAME];

    for (uint32_t i = 0; i < r->row_count; i++) {
        const profile_row *row = &r->rows[i];

        const profile_row *region = row->whole != NULL ? row->whole : row->inner_ns > 0 ? row : NULL;

        if (!row->leaf && row->inner_ns <= 0)
            continue; /* its bodies' steps are there */
        put_frame(sink, row->sample->program->graph->name, ';');
        put_frame(sink, row->provider, ';');
        if (region != NULL)
            put_frame(sink, profile_name(region->sample, text), region == row ? ' ' : ';');
        if (region != row) {
            put_frame(sink, profile_op(row->sample, text), ';');
            put_frame(sink, profile_name(row->sample, text), ' ');
        }
        say(sink, "%.0f\n", row->ns > row->inner_ns ? row->ns - row->inner_ns : 0);
    }
}
