#include "base/clock.h"
#include "profile/internal.h"
#include "inlay/check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reference_plan(struct profile *profile, struct plan *used)
{
    for (uint32_t i = profile->plan_count; i-- > 0;)
        if (profile->plans[i] == used)
            return true;
    if (profile->plan_count == PROFILE_PLANS)
        return false;
    plan_ref(used);
    profile->plans[profile->plan_count++] = used;
    return true;
}

static uint32_t depth_of(const struct program *program)
{
    uint32_t depth = 0;

    for (const struct graph *graph = program->graph; graph->parent != NULL; graph = graph->parent)
        depth++;
    return depth;
}

/* The profile's copy of a name; NULL: name is NULL, or there is no room for it. */
static const char *keep_name(struct profile *profile, const char *name)
{
    char cut[PROFILE_KERNEL_NAME];

    if (name == NULL)
        return NULL;
    if (profile->names == NULL)
        profile->names = arena_array(&profile->arena, PROFILE_KERNEL_NAMES, sizeof *profile->names);
    (void)snprintf(cut, sizeof cut, "%s", name);
    for (uint32_t i = profile->name_count; i-- > 0;)
        if (strcmp(profile->names[i], cut) == 0)
            return profile->names[i];
    if (profile->names == NULL || profile->name_count == PROFILE_KERNEL_NAMES)
        return NULL;
    memcpy(profile->names[profile->name_count], cut, sizeof cut);
    return profile->names[profile->name_count++];
}

static void record_event(run_observer *observer, const run_event *event)
{
    struct profile *profile = (struct profile *)observer;
    struct plan *plan = event->bound->plan;
    const char *name = keep_name(profile, event->name);
    profile_event *last = profile->event_count > profile->runs[profile->run_count % PROFILE_RUNS].first_event
                              ? &profile->events[profile->event_count - 1]
                              : NULL;

    INLAY_CHECK(profile->event_count <= profile->event_capacity && profile->run_count <= PROFILE_RUNS);
    /* A kernel may report several events in succession, for example for its preparation. */
    if (event->node != INLAY_NONE && event->name == NULL && last != NULL && last->node == event->node &&
        last->name == NULL && last->step == event->step->plan && last->plan == plan) {
        last->end_ns = event->end_ns;
        return;
    }
    if (profile->event_count == profile->event_capacity || profile->run_count == PROFILE_RUNS ||
        !reference_plan(profile, plan)) {
        profile->dropped++;
        return;
    }
    profile->events[profile->event_count++] =
        (profile_event){ .program = event->runner->prog,
                         .plan = plan,
                         .step = event->step->plan,
                         .begin_ns = event->begin_ns,
                         .end_ns = event->end_ns,
                         .run = profile->run_count,
                         .node = event->node,
                         .name = name,
                         .depth = depth_of(event->runner->prog) + (event->node != INLAY_NONE) };
}

static inlay_status end_step(run_observer *observer, const run_event *event, inlay_diag *diag)
{
    (void)diag;
    if (event->status == INLAY_OK)
        record_event(observer, event);
    return INLAY_OK;
}

static void begin_run(run_observer *observer, run_shared *shared)
{
    struct profile *profile = (struct profile *)observer;

    shared->run.spans = &profile->spans;
    if (profile->run_count == PROFILE_RUNS)
        return;
    profile->runs[profile->run_count] = (profile_run){ .begin_ns = clock_ns(),
                                                       .first_event = profile->event_count,
                                                       .first_span = profile->spans.count };
}

static void end_run(run_observer *observer, run_shared *shared, uint64_t ns, bool ok)
{
    struct profile *profile = (struct profile *)observer;
    profile_run *run;

    shared->run.spans = NULL;
    if (profile->run_count == PROFILE_RUNS)
        return;
    run = &profile->runs[profile->run_count];
    INLAY_CHECK(run->first_event <= profile->event_count && run->first_span <= profile->spans.count);
    if (!ok || profile->dropped > 0) { /* incomplete runs are discarded */
        profile->event_count = run->first_event;
        profile->spans.count = run->first_span;
        return;
    }
    run->end_ns = run->begin_ns + ns;
    profile->run_count++;
}

static void destroy(run_observer *observer)
{
    struct profile *profile = (struct profile *)observer;

    for (uint32_t i = 0; i < profile->plan_count; i++)
        plan_unref(profile->plans[i]);
    arena_deinit(&profile->arena);
    free(profile);
}

static const run_observer_calls calls = {
    .begin_run = begin_run, .end_run = end_run, .end_step = end_step, .kernel = record_event, .destroy = destroy
};

inlay_status profile_create(const inlay_session *session, uint32_t max_events, run_observer **out_observer,
                            inlay_diag *diag)
{
    struct profile *profile = calloc(1, sizeof *profile);

    *out_observer = NULL;
    if (profile == NULL)
        return no_memory(diag, "to profile %u steps", max_events);
    profile->observer.calls = &calls;
    profile->session = session;
    profile->event_capacity = max_events;
    profile->events = arena_array(&profile->arena, (size_t)max_events + 1, sizeof *profile->events);
    profile->runs = arena_array(&profile->arena, PROFILE_RUNS, sizeof *profile->runs);
    profile->spans.capacity = max_events;
    profile->spans.list = arena_array(&profile->arena, (size_t)max_events + 1, sizeof *profile->spans.list);
    if (profile->events == NULL || profile->runs == NULL || profile->spans.list == NULL) {
        destroy(&profile->observer);
        return no_memory(diag, "to profile %u steps", max_events);
    }
    *out_observer = &profile->observer;
    return INLAY_OK;
}

const struct profile *profile_of(const run_observer *observer)
{
    return observer != NULL && observer->calls == &calls ? (const struct profile *)observer : NULL;
}

static inlay_status fail_not_profiled(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the context is not profiled; call inlay_context_profile() first");
}

inlay_status profile_events(const run_observer *observer, void (*event)(void *user, const inlay_profile_event *event),
                            void *user, inlay_diag *diag)
{
    const struct profile *profile = profile_of(observer);
    char name[PROFILE_NAME], op_type[PROFILE_NAME];

    if (profile == NULL)
        return fail_not_profiled(diag);
    for (uint32_t i = 0; i < profile->event_count; i++) {
        const profile_event *one = &profile->events[i];

        event(user, &(inlay_profile_event){ .struct_size = sizeof(inlay_profile_event),
                                            .name = profile_name(one, name),
                                            .op_type = profile_op(one, op_type),
                                            .provider = profile_provider_name(one),
                                            .begin_ns = one->begin_ns,
                                            .end_ns = one->end_ns,
                                            .run = one->run,
                                            .depth = one->depth });
    }
    return INLAY_OK;
}

inlay_status profile_write(const struct profile *profile, const inlay_profile_options *options,
                           const explain_sink *sink, inlay_diag *diag)
{
    static const struct {
        const char *name;
        void (*write)(const profile_report *report, const explain_sink *sink);
    } formats[] = { { "text", profile_text },
                    { "json", profile_json },
                    { "trace", profile_trace },
                    { "onnxruntime", profile_ort },
                    { "stacks", profile_stacks } };
    const char *format = options->format != NULL ? options->format : "text";
    const double peaks[] = { options->peak_flops_per_s, options->peak_bytes_per_s, options->peak_integer_ops_per_s,
                             options->peak_half_flops_per_s };
    profile_report report;
    inlay_status status;

    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++)
        if (!isfinite(peaks[i]) || peaks[i] < 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "a peak rate of a profile is %g per second; it must be a finite number, 0 if unknown",
                              peaks[i]);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, format) != 0)
            continue;
        status = profile_report_make(profile, &report, diag);
        if (status != INLAY_OK)
            return status;
        report.peak_flops = options->peak_flops_per_s;
        report.peak_bytes = options->peak_bytes_per_s;
        report.peak_integers = options->peak_integer_ops_per_s;
        report.peak_halves = options->peak_half_flops_per_s;
        formats[i].write(&report, sink);
        profile_report_deinit(&report);
        return INLAY_OK;
    }
    if (strcmp(format, "html") == 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the library cannot write HTML; write the profile as json, and pass it to `inlay profile "
                          "--from FILE --html PAGE`");
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "a profile can be written as text, json, trace or stacks, not as '%.40s'", format);
}

inlay_status profile_write_observed(const run_observer *observer, const inlay_profile_options *options,
                                    inlay_write_fn write, void *user, inlay_diag *diag)
{
    const struct profile *profile = profile_of(observer);
    const explain_sink sink = { .write = write, .user = user };

    return profile != NULL ? profile_write(profile, options, &sink, diag) : fail_not_profiled(diag);
}
