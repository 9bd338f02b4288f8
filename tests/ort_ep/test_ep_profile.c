/* The profiler of the library test_ep: an event for each run of a kernel. */
#include "test_ep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_EVENTS = 16 };

typedef struct test_profiler {
    OrtEpProfilerImpl base;
    int64_t start_ns, offset_ns;
    uint64_t id;
    bool has_id;
    char parent[300]; /* name of the runtime's event; "": it has not ended */
    int64_t begin_ns[MOST_EVENTS];
    int count;
} test_profiler;

/* The one whose event of the runtime is in progress on this thread; NULL: none. */
static _Thread_local test_profiler *current;

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void release(OrtEpProfilerImpl *self)
{
    free(self);
}

static OrtStatus *start(OrtEpProfilerImpl *self, int64_t offset_ns)
{
    test_profiler *profiler = (test_profiler *)(void *)self;

    profiler->start_ns = now_ns();
    profiler->offset_ns = offset_ns;
    return NULL;
}

static OrtStatus *start_event(OrtEpProfilerImpl *self, uint64_t id)
{
    test_profiler *profiler = (test_profiler *)(void *)self;

    if (profiler->has_id || profiler->start_ns == 0)
        return api->CreateStatus(ORT_EP_FAIL, "an event within another one, or before the start");
    profiler->id = id;
    profiler->has_id = true;
    current = profiler;
    return NULL;
}

static OrtStatus *stop_event(OrtEpProfilerImpl *self, uint64_t id, const OrtProfilingEvent *event)
{
    test_profiler *profiler = (test_profiler *)(void *)self;
    const char *name = NULL, *op_name = NULL, *other = NULL;
    OrtProfilingEventCategory category = 0;
    int64_t begin_us = -1, us = -1;

    if (current != profiler || !profiler->has_id || profiler->id != id)
        return api->CreateStatus(ORT_EP_FAIL, "an event that was not started here ends");
    current = NULL;
    profiler->has_id = false;
    TRY(ep_api->ProfilingEvent_GetName(event, &name));
    TRY(ep_api->ProfilingEvent_GetCategory(event, &category));
    TRY(ep_api->ProfilingEvent_GetTimestampUs(event, &begin_us));
    TRY(ep_api->ProfilingEvent_GetDurationUs(event, &us));
    TRY(ep_api->ProfilingEvent_GetArgValue(event, "op_name", &op_name));
    TRY(ep_api->ProfilingEvent_GetArgValue(event, "no such key", &other));
    if (category != 1 || begin_us < 0 || us < 0 || op_name == NULL || other != NULL)
        return api->CreateStatus(ORT_EP_FAIL, "the runtime's event is incomplete");
    (void)snprintf(profiler->parent, sizeof profiler->parent, "%s", name);
    return NULL;
}

static OrtStatus *end(OrtEpProfilerImpl *self, OrtProfilingEventsContainer *container)
{
    const test_profiler *profiler = (const test_profiler *)(const void *)self;
    const char *const keys[] = { "parent_name" }, *const values[] = { profiler->parent };
    const OrtProfilingEvent *events[MOST_EVENTS];
    OrtProfilingEvent *event = NULL;
    OrtStatus *failed = NULL;
    int made = 0;

    if (profiler->parent[0] == '\0')
        return api->CreateStatus(ORT_EP_FAIL, "the profile ends within an event");
    for (; failed == NULL && made < profiler->count; made++) {
        failed = ep_api->CreateProfilingEvent(
            2, -1, -1, EP_NAME "_kernel", (profiler->offset_ns + profiler->begin_ns[made] - profiler->start_ns) / 1000,
            1, keys, values, 1, &event);
        events[made] = event;
        if (failed != NULL)
            break;
    }
    if (failed == NULL)
        failed = ep_api->ProfilingEventsContainer_AddEvents(container, events, (size_t)made);
    for (int i = 0; i < made; i++)
        ep_api->ReleaseProfilingEvent((OrtProfilingEvent *)(uintptr_t)events[i]);
    return failed;
}

OrtStatus *create_profiler(OrtEp *self, OrtEpProfilerImpl **out)
{
    test_profiler *profiler = calloc(1, sizeof *profiler);

    (void)self;
    profiler->base = (OrtEpProfilerImpl){ .ort_version_supported = ORT_VERSION_MINOR,
                                          .Release = release,
                                          .StartProfiling = start,
                                          .StartEvent = start_event,
                                          .StopEvent = stop_event,
                                          .EndProfiling = end };
    *out = &profiler->base;
    return NULL;
}

OrtStatus *note_run(const test_ep *ep)
{
    OrtKeyValuePairs *pairs = NULL;

    if (current != NULL && current->count < MOST_EVENTS)
        current->begin_ns[current->count++] = now_ns();
    if (ep->uses_heap) {
        api->CreateKeyValuePairs(&pairs);
        api->ReleaseKeyValuePairs(pairs);
    }
    return NULL;
}
