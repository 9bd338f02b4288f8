/* Profiles. A library's profiler (OrtEpProfilerImpl) collects events; here each profiled run of a region has its own,
 * as in ONNX Runtime a profiled run, and its events become the kernels of the region in inlay's profile. */
#include "ort_ep/provider.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct OrtProfilingEvent {
    OrtProfilingEventCategory category;
    char *name;
    int64_t timestamp_us, duration_us; /* since the start of the profiler */
    OrtKeyValuePairs args;
};
struct OrtProfilingEventsContainer {
    const ep_profiling *run;
};

void ort_ReleaseProfilingEvent(OrtProfilingEvent *event)
{
    if (event == NULL)
        return;
    ort_pairs_clear(&event->args);
    free(event->name);
    free(event);
}

/* Events have no process and thread of their own in inlay's profile. */
OrtStatus *ort_CreateProfilingEvent(OrtProfilingEventCategory category, int32_t process_id, int32_t thread_id,
                                    const char *event_name, int64_t timestamp_us, int64_t duration_us,
                                    const char *const *arg_keys, const char *const *arg_values, size_t num_args,
                                    OrtProfilingEvent **out)
{
    OrtProfilingEvent *event;
    bool ok;

    (void)process_id, (void)thread_id;
    ORT_NEED(event_name);
    ORT_NEED(out);
    *out = NULL;
    if (num_args > 0) {
        ORT_NEED(arg_keys);
        ORT_NEED(arg_values);
    }
    if (category < 0 || category > 3)
        return ort_fail(ORT_INVALID_ARGUMENT, "category %d of a profiling event", category);
    event = calloc(1, sizeof *event);
    if (event == NULL)
        return ort_no_memory();
    event->category = category;
    event->name = strdup(event_name);
    event->timestamp_us = timestamp_us;
    event->duration_us = duration_us;
    ok = event->name != NULL;
    for (size_t i = 0; ok && i < num_args; i++)
        ok = ort_pairs_set(&event->args, arg_keys[i], arg_values[i]);
    if (!ok) {
        ort_ReleaseProfilingEvent(event);
        return ort_no_memory();
    }
    *out = event;
    return NULL;
}

ORT_GETTER(ort_ProfilingEvent_GetCategory, const OrtProfilingEvent *, event, OrtProfilingEventCategory, out,
           event->category)
ORT_GETTER(ort_ProfilingEvent_GetName, const OrtProfilingEvent *, event, const char *, out, event->name)
ORT_GETTER(ort_ProfilingEvent_GetTimestampUs, const OrtProfilingEvent *, event, int64_t, out, event->timestamp_us)
ORT_GETTER(ort_ProfilingEvent_GetDurationUs, const OrtProfilingEvent *, event, int64_t, out, event->duration_us)

OrtStatus *ort_ProfilingEvent_GetArgValue(const OrtProfilingEvent *event, const char *key, const char **out)
{
    ORT_NEED(event);
    ORT_NEED(key);
    ORT_NEED(out);
    *out = ort_pairs_get(&event->args, key);
    return NULL;
}

/* The node whose name is an argument of the event, such as the name of ONNX Runtime's event around it; otherwise the
 * first one. */
static uint32_t node_of(const ep_profiling *run, const OrtProfilingEvent *event)
{
    for (size_t i = 0; i < run->node_count; i++)
        for (size_t k = 0; k < event->args.count; k++)
            if (strcmp(event->args.values[k], run->nodes[i].name) == 0)
                return run->nodes[i].index;
    return run->node_count > 0 ? run->nodes[0].index : INLAY_NONE;
}

OrtStatus *ort_ProfilingEventsContainer_AddEvents(OrtProfilingEventsContainer *events_container,
                                                  const OrtProfilingEvent *const *events, size_t num_events)
{
    const ep_profiling *run;

    ORT_NEED(events_container);
    if (num_events > 0)
        ORT_NEED(events);
    run = events_container->run;
    for (size_t i = 0; i < num_events; i++) {
        const int64_t begin = (int64_t)run->begin_ns + events[i]->timestamp_us * 1000;
        const int64_t end = begin + (events[i]->duration_us > 0 ? events[i]->duration_us : 0) * 1000;

        if (begin > 0)
            run->steps->named(run->host->ctx, run->run, node_of(run, events[i]), events[i]->name, (uint64_t)begin,
                              (uint64_t)end);
    }
    return NULL;
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* As in ONNX Runtime, a failure of a profiler does not end the run. */
static bool succeeded(const ep_profiling *run, const char *what, OrtStatus *failed)
{
    char line[400];

    if (failed == NULL)
        return true;
    (void)snprintf(line, sizeof line, "execution provider: profiler: %s: %.300s", what, ort_GetErrorMessage(failed));
    run->host->log(run->host->ctx, INLAY_LOG_WARNING, line);
    ort_ReleaseStatus(failed);
    return false;
}

void ep_profile_begin(ep_profiling *run, const inlay_host *host, OrtEp *ep, inlay_run *of)
{
    const inlay_ext_steps *steps;

    run->profiler = NULL;
    if (of == NULL || !EP_SINCE(ep, 25) || ep->CreateProfiler == NULL)
        return;
    steps = host->extension(host->ctx, INLAY_EXT_STEPS);
    if (steps == NULL || !INLAY_HAS(steps, named) || steps->wanted(host->ctx, of) == 0)
        return;
    run->host = host;
    run->steps = steps;
    run->run = of;
    if (!succeeded(run, "CreateProfiler", ep->CreateProfiler(ep, &run->profiler)) || run->profiler == NULL) {
        run->profiler = NULL;
        return;
    }
    run->id = now_ns(CLOCK_REALTIME) / 1000;
    run->begin_ns = now_ns(CLOCK_MONOTONIC);
    if (!succeeded(run, "StartProfiling", run->profiler->StartProfiling(run->profiler, 0))) {
        run->profiler->Release(run->profiler);
        run->profiler = NULL;
    } else if (run->profiler->StartEvent != NULL) {
        (void)succeeded(run, "StartEvent", run->profiler->StartEvent(run->profiler, run->id));
    }
}

/* Ends the event of the region, which is named as in ONNX Runtime's profiles. */
static void stop_event(const ep_profiling *run, const OrtKernelInfo *info)
{
    const char *const keys[] = { "op_name", "node_name" }, *const values[] = { info->op_type, info->name };
    const int64_t us = (int64_t)((now_ns(CLOCK_MONOTONIC) - run->begin_ns) / 1000);
    OrtProfilingEvent *event = NULL;
    char name[300];

    if (run->profiler->StopEvent == NULL)
        return;
    (void)snprintf(name, sizeof name, "%.280s_kernel_time", info->name);
    if (!succeeded(run, "StopEvent", ort_CreateProfilingEvent(1, getpid(), -1, name, 0, us, keys, values, 2, &event)))
        return;
    (void)succeeded(run, "StopEvent", run->profiler->StopEvent(run->profiler, run->id, event));
    ort_ReleaseProfilingEvent(event);
}

void ep_profile_end(const ep_profiling *run, const OrtKernelInfo *info)
{
    OrtProfilingEventsContainer events = { run };

    if (run->profiler == NULL)
        return;
    stop_event(run, info);
    (void)succeeded(run, "EndProfiling", run->profiler->EndProfiling(run->profiler, &events));
    run->profiler->Release(run->profiler);
}
