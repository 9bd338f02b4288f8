/* Profiles: the runtime's profiler of this provider gets the steps of inlay's sessions as events. The runtime announces
 * an event of its own on the thread that then calls compute; a run within such an event is profiled. */
#include "ort_ep.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A step of inlay, for the runtime. */
struct step {
    char *name, *op_type, *provider, *parent;
    uint64_t begin_ns, end_ns;
};

struct profiler {
    OrtEpProfilerImpl base; /* first: the runtime passes pointers to it */
    ep_runtime runtime;
    uint64_t begin_ns; /* of the profile, on CLOCK_MONOTONIC */
    int64_t offset_ns; /* of that time, in the runtime's profile */
    pthread_mutex_t lock;
    struct step *steps; /* [count]; guarded by lock, like the next two */
    size_t count, capacity;
    bool failed; /* no memory for a step */
};

/* The steps of the longest run that is reported completely. */
enum { MOST_STEPS = 65536 };

/* The profilers of the events in progress on this thread, outermost first. Deeper ones are only counted. */
enum { MOST_DEPTH = 16 };
static _Thread_local struct profiler *stack[MOST_DEPTH];
static _Thread_local uint32_t depth;

/* The profiler of the innermost event; NULL: none is in progress. */
static struct profiler *current(void)
{
    return depth == 0 ? NULL : stack[depth < MOST_DEPTH ? depth - 1 : MOST_DEPTH - 1];
}

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool ep_profile_wanted(void)
{
    return depth > 0;
}

/* What keep_step() gets. */
struct kept {
    struct profiler *to;
    const char *parent;
};

static void keep_step(void *user, const inlay_profile_event *event)
{
    const struct kept *kept = user;
    struct profiler *to = kept->to;
    struct step *more = to->steps;
    struct step step = { .name = strdup(event->name),
                         .op_type = strdup(event->op_type),
                         .provider = strdup(event->provider),
                         .parent = strdup(kept->parent),
                         .begin_ns = event->begin_ns,
                         .end_ns = event->end_ns };

    if (to->count == to->capacity) {
        more = realloc(to->steps, (to->capacity * 2 + 64) * sizeof *more);
        if (more != NULL) {
            to->steps = more;
            to->capacity = to->capacity * 2 + 64;
        }
    }
    if (more == NULL || step.name == NULL || step.op_type == NULL || step.provider == NULL || step.parent == NULL) {
        to->failed = true;
        free(step.name);
        free(step.op_type);
        free(step.provider);
        free(step.parent);
        return;
    }
    to->steps[to->count++] = step;
}

inlay_status ep_profile_run(inlay_context *context, const char *name, inlay_diag *diag)
{
    struct profiler *profiler = current();
    struct kept kept = { .to = profiler, .parent = name };
    inlay_status status = inlay_context_profile(context, 1, MOST_STEPS, diag);

    if (status == INLAY_OK)
        status = inlay_context_run(context, NULL, diag);
    if (status == INLAY_OK) {
        (void)pthread_mutex_lock(&profiler->lock);
        status = inlay_context_profile_events(context, keep_step, &kept, diag);
        (void)pthread_mutex_unlock(&profiler->lock);
    }
    (void)inlay_context_profile(context, 0, 0, NULL); /* later runs are not slowed down */
    return status;
}

static void release(OrtEpProfilerImpl *base)
{
    struct profiler *self = (struct profiler *)(void *)base;

    for (size_t i = 0; i < self->count; i++) {
        free(self->steps[i].name);
        free(self->steps[i].op_type);
        free(self->steps[i].provider);
        free(self->steps[i].parent);
    }
    free(self->steps);
    (void)pthread_mutex_destroy(&self->lock);
    free(self);
}

static OrtStatus *start(OrtEpProfilerImpl *base, int64_t offset_ns)
{
    struct profiler *self = (struct profiler *)(void *)base;

    self->begin_ns = now_ns();
    self->offset_ns = offset_ns;
    return NULL;
}

static OrtStatus *start_event(OrtEpProfilerImpl *base, uint64_t id)
{
    (void)id;
    if (depth < MOST_DEPTH)
        stack[depth] = (struct profiler *)(void *)base;
    depth++;
    return NULL;
}

static OrtStatus *stop_event(OrtEpProfilerImpl *base, uint64_t id, const OrtProfilingEvent *event)
{
    (void)base;
    (void)id;
    (void)event;
    depth -= depth > 0;
    return NULL;
}

static OrtStatus *create_event(const struct profiler *self, const struct step *step, OrtProfilingEvent **out)
{
    const char *const keys[] = { "op_name", "provider", "node_name", "parent_name" };
    const char *const values[] = { step->op_type, step->provider, step->name, step->parent };
    const int64_t begin_ns = (int64_t)(step->begin_ns - self->begin_ns) + self->offset_ns;
    enum { KERNEL = 2, NONE = -1 };

    return self->runtime.ep_api->CreateProfilingEvent(KERNEL, NONE, NONE, step->name, begin_ns / 1000,
                                                      (int64_t)(step->end_ns - step->begin_ns) / 1000, keys, values,
                                                      sizeof keys / sizeof keys[0], out);
}

static OrtStatus *end(OrtEpProfilerImpl *base, OrtProfilingEventsContainer *container)
{
    struct profiler *self = (struct profiler *)(void *)base;
    OrtStatus *failed = NULL;

    (void)pthread_mutex_lock(&self->lock);
    if (self->failed)
        failed = ep_no_memory(&self->runtime);
    for (size_t i = 0; failed == NULL && i < self->count; i++) {
        OrtProfilingEvent *event = NULL;

        failed = create_event(self, &self->steps[i], &event);
        if (failed == NULL)
            failed = self->runtime.ep_api->ProfilingEventsContainer_AddEvents(
                container, (const OrtProfilingEvent *const *)&event, 1);
        self->runtime.ep_api->ReleaseProfilingEvent(event);
    }
    (void)pthread_mutex_unlock(&self->lock);
    return failed;
}

OrtStatus *ep_create_profiler(OrtEp *base, OrtEpProfilerImpl **out)
{
    const struct ep *owner = (const struct ep *)(const void *)base;
    struct profiler *self = calloc(1, sizeof *self);

    *out = NULL;
    if (self == NULL)
        return ep_no_memory(&owner->runtime);
    (void)pthread_mutex_init(&self->lock, NULL);
    self->runtime = owner->runtime;
    self->base = (OrtEpProfilerImpl){ .ort_version_supported = EP_PROFILER_VERSION,
                                      .Release = release,
                                      .StartProfiling = start,
                                      .StartEvent = start_event,
                                      .StopEvent = stop_event,
                                      .EndProfiling = end };
    *out = &self->base;
    return NULL;
}
