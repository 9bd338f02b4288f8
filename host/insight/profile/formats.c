/* profile/formats.c - writes the profile as JSON, Chrome's trace events, ONNX Runtime's events and folded stacks. */
#include "profile/internal.h"
#include "inlay/check.h"
#include <stdio.h>

void profile_json(const profile_report *report, const explain_sink *sink)
{
    json_out json = { .sink = sink };
    const profile_run *run = &report->profile->runs[report->typical_run];
    char text[PROFILE_NAME];

    INLAY_CHECK(report->profile->run_count > 0);
    json_open(&json, NULL, '{', false);
    json_whole(&json, "version", 1);
    json_text(&json, "model", report->profile->session->model->source.path);
    json_whole(&json, "runs", report->profile->run_count);
    json_whole(&json, "threads", report->profile->session->env.max_threads);
    json_number(&json, "run_ns", report->run_ns);
    json_number(&json, "outside_kernels_ns", report->outside_ns);
    json_whole(&json, "lost_events", report->profile->dropped);
    json_number(&json, "peak_flops_per_s", report->peak_flops);
    json_number(&json, "peak_bytes_per_s", report->peak_bytes);
    json_number(&json, "peak_integer_ops_per_s", report->peak_integers);
    json_number(&json, "peak_half_flops_per_s", report->peak_halves);
    json_whole(&json, "slab_bytes", report->slab_bytes);
    json_whole(&json, "lower_bound_bytes", report->lower_bound_bytes);
    json_open(&json, "steps", '[', false);
    for (uint32_t i = 0; i < report->row_count; i++) {
        const profile_row *row = &report->rows[i];
        double ns = row->calls > 0 ? row->ns / row->calls : 0, roof = profile_roofline(report, row);

        json_open(&json, NULL, '{', true);
        json_text(&json, "name", profile_name(row->sample, text));
        json_text(&json, "op", profile_op(row->sample, text));
        if (profile_module(row->sample, text) != NULL)
            json_text(&json, "module", text);
        json_text(&json, "graph", row->sample->program->graph->name);
        json_text(&json, "provider", row->provider);
        json_whole(&json, "depth", row->sample->depth);
        if (row->region != NULL)
            json_text(&json, "region", profile_name(row->region->sample, text));
        json_bool(&json, "leaf", row->leaf);
        json_number(&json, "calls", row->calls);
        json_number(&json, "ns", row->ns);
        json_number(&json, "predicted_ns", row->predicted_ns * row->calls);
        json_number(&json, "share", row->share);
        json_number(&json, "flops", row->flops);
        json_number(&json, "integer_ops", row->integer_ops);
        json_number(&json, "half_flops", row->half_flops);
        json_number(&json, "bytes", row->bytes);
        json_number(&json, "gflops_per_s", ns > 0 ? row->flops / ns : 0);
        json_number(&json, "gbytes_per_s", ns > 0 ? row->bytes / ns : 0);
        json_number(&json, "roofline", roof);
        json_whole(&json, "live_bytes", row->live_bytes);
        json_close(&json);
    }
    json_close(&json);
    json_open(&json, "timeline", '[', false); /* the steps of one run */
    for (uint32_t i = run->first_event; i < report->profile->event_count; i++) {
        const profile_event *event = &report->profile->events[i];

        if (event->run != report->typical_run)
            break;
        json_open(&json, NULL, '{', true);
        json_text(&json, "name", profile_name(event, text));
        json_text(&json, "op", profile_op(event, text));
        json_text(&json, "provider", profile_provider_name(event));
        json_whole(&json, "depth", event->depth);
        json_number(&json, "begin_ns", (double)(event->begin_ns - run->begin_ns));
        json_number(&json, "ns", (double)(event->end_ns - event->begin_ns));
        json_close(&json);
    }
    json_close(&json);
    json_close(&json);
    say(sink, "\n");
}

/* Chrome's trace events.
 *
 * One process with a track for each provider, one for copies, one for each worker of parallel loops, and a counter of
 * the memory in use. Times are in microseconds. */

enum { TRACK_STEPS = 1, TRACK_PROVIDERS = 2 }; /* the tracks of copies and workers follow those of the providers */

static uint32_t copies_track(const struct profile *profile)
{
    return TRACK_PROVIDERS + profile->session->env.provider_count;
}

static uint32_t worker_track(const struct profile *profile, uint32_t worker)
{
    return copies_track(profile) + 1 + worker;
}

static void name_track(json_out *json, uint32_t track, const char *name)
{
    json_open(json, NULL, '{', true);
    json_text(json, "ph", "M");
    json_text(json, "name", "thread_name");
    json_whole(json, "pid", 1);
    json_whole(json, "tid", track);
    json_open(json, "args", '{', true);
    json_text(json, "name", name);
    json_close(json);
    json_close(json);
}

static uint32_t track_of(const struct profile *profile, const profile_event *event)
{
    if (event->step->kind == PLAN_COPY)
        return copies_track(profile);
    if (event->step->step->provider == NULL)
        return TRACK_STEPS;
    return TRACK_PROVIDERS + (uint32_t)(event->step->step->provider - profile->session->providers);
}

static void open_event(json_out *json, const char *phase, uint32_t track, double ns)
{
    json_open(json, NULL, '{', true);
    json_text(json, "ph", phase);
    json_whole(json, "pid", 1);
    json_whole(json, "tid", track);
    json_number(json, "ts", ns / 1e3);
}

static void put_step(json_out *json, const profile_report *report, const profile_event *event, uint64_t zero)
{
    char text[PROFILE_NAME];

    open_event(json, "X", track_of(report->profile, event), (double)(event->begin_ns - zero));
    json_number(json, "dur", (double)(event->end_ns - event->begin_ns) / 1e3);
    json_text(json, "name", profile_op(event, text));
    json_open(json, "args", '{', true);
    json_text(json, "node", profile_name(event, text));
    json_text(json, "graph", event->program->graph->name);
    json_whole(json, "run", event->run);
    if (event->step->kind == PLAN_COPY)
        json_whole(json, "bytes", event->step->copy_bytes);
    json_close(json);
    json_close(json);
    if (event->depth > 0)
        return;
    open_event(json, "C", 0, (double)(event->begin_ns - zero));
    json_text(json, "name", "memory in use");
    json_open(json, "args", '{', true);
    json_whole(json, "bytes", report->rows[report->row_of[event - report->profile->events]].live_bytes);
    json_close(json);
    json_close(json);
}

void profile_trace(const profile_report *report, const explain_sink *sink)
{
    const struct profile *profile = report->profile;
    uint64_t zero = profile->runs[0].begin_ns;
    uint32_t spans = profile->spans.count < profile->spans.capacity ? profile->spans.count : profile->spans.capacity;
    json_out json = { .sink = sink };
    char text[PROFILE_NAME];

    json_open(&json, NULL, '{', false);
    json_text(&json, "displayTimeUnit", "ns");
    json_open(&json, "traceEvents", '[', false);
    name_track(&json, TRACK_STEPS, "host");
    for (uint32_t i = 0; i < profile->session->env.provider_count; i++)
        name_track(&json, TRACK_PROVIDERS + i, profile->session->providers[i].name);
    name_track(&json, copies_track(profile), "copies");
    for (uint32_t i = 0; i < profile->session->env.max_threads; i++) {
        (void)snprintf(text, sizeof text, "thread %u", i);
        name_track(&json, worker_track(profile, i), text);
    }
    for (uint32_t i = 0; i < profile->event_count; i++)
        put_step(&json, report, &profile->events[i], zero);
    for (uint32_t i = 0; i < spans; i++) {
        const run_span *span = &profile->spans.list[i];

        open_event(&json, "X", worker_track(profile, span->worker), (double)(span->begin_ns - zero));
        json_number(&json, "dur", (double)(span->end_ns - span->begin_ns) / 1e3);
        json_text(&json, "name", "loop");
        json_close(&json);
    }
    json_close(&json);
    json_close(&json);
    say(sink, "\n");
}

/* ONNX Runtime's events.
 *
 * An array of Chrome's trace events, one per line, that tools for ONNX Runtime's profiles read: category "Session" for
 * runs, and "Node" for kernels, with the name NODE_kernel_time and the arguments op_name and provider. */

static void open_ort_event(json_out *json, const char *category, uint64_t begin_ns, uint64_t end_ns, uint64_t zero)
{
    json_open(json, NULL, '{', true);
    json_text(json, "cat", category);
    json_whole(json, "pid", 1);
    json_whole(json, "tid", 1);
    json_whole(json, "dur", (end_ns - begin_ns) / 1000);
    json_whole(json, "ts", (begin_ns - zero) / 1000);
    json_text(json, "ph", "X");
}

void profile_ort(const profile_report *report, const explain_sink *sink)
{
    const struct profile *profile = report->profile;
    const uint64_t zero = profile->runs[0].begin_ns;
    char text[PROFILE_NAME], name[PROFILE_NAME + 16];
    json_out json = { .sink = sink };

    json_open(&json, NULL, '[', false);
    for (uint32_t i = 0; i < profile->run_count; i++) {
        open_ort_event(&json, "Session", profile->runs[i].begin_ns, profile->runs[i].end_ns, zero);
        json_text(&json, "name", "model_run");
        json_open(&json, "args", '{', true);
        json_close(&json);
        json_close(&json);
    }
    for (uint32_t i = 0; i < profile->event_count; i++) {
        const profile_event *event = &profile->events[i];
        const profile_row *row = &report->rows[report->row_of[i]];

        if (event->step->kind == PLAN_COPY || !row->leaf)
            continue;
        open_ort_event(&json, "Node", event->begin_ns, event->end_ns, zero);
        (void)snprintf(name, sizeof name, "%s_kernel_time", profile_name(event, text));
        json_text(&json, "name", name);
        json_open(&json, "args", '{', true);
        json_text(&json, "op_name", profile_op(event, text));
        json_text(&json, "provider", row->provider);
        json_whole(&json, "run", event->run);
        json_close(&json);
        json_close(&json);
    }
    json_close(&json);
    say(sink, "\n");
}

/* Folded stacks.
 *
 * "graph;provider;operator;node nanoseconds", the input of flame graph scripts. If a provider reports the
 * kernels of a region, their frames are within the frame of the region; the region's own time excludes them. */

static void put_frame(const explain_sink *sink, const char *text, char end)
{
    char frame[PROFILE_NAME];
    size_t length = 0;

    for (; length < sizeof frame - 1 && text[length] != '\0'; length++)
        frame[length] =
            text[length] == ';' || text[length] == ' ' || (unsigned char)text[length] < 32 ? '_' : text[length];
    frame[length] = '\0';
    say(sink, "%s%c", frame, end);
}

void profile_stacks(const profile_report *report, const explain_sink *sink)
{
    char text[PROFILE_NAME];

    for (uint32_t i = 0; i < report->row_count; i++) {
        const profile_row *row = &report->rows[i];

        const profile_row *region = row->region != NULL ? row->region : row->inner_ns > 0 ? row : NULL;

        if (!row->leaf && row->inner_ns <= 0)
            continue; /* the steps of its bodies are listed */
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
