/* Buffers of host and devices, and the time of a copy between them. */
#include "measure/measure_parts.h"
#include "measure/measure_time.h"
#include "threads/fence.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ALIGN = 64 };

double measure_clock_ns(clockid_t id)
{
    struct timespec t;

    (void)clock_gettime(id, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double measure_now_ns(void)
{
    return measure_clock_ns(CLOCK_MONOTONIC);
}

inlay_status measure_buffer(const part_provider *p, uint32_t domain, uint64_t bytes, inlay_buffer *out,
                            inlay_diag *diag)
{
    void *memory = NULL;

    *out = (inlay_buffer){ 0 };
    if (domain != INLAY_DOMAIN_HOST)
        return p->table->buffer_alloc(p->state, domain, bytes, out, diag);
    if (posix_memalign(&memory, ALIGN, bytes > 0 ? (size_t)bytes : 1) != 0)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to measure");
    *out = (inlay_buffer){ .handle = (uintptr_t)memory, .bytes = bytes };
    return INLAY_OK;
}

void measure_buffer_free(const part_provider *p, inlay_buffer *buffer)
{
    if (buffer->handle == 0)
        return;
    if (buffer->domain == INLAY_DOMAIN_HOST)
        free((void *)(uintptr_t)buffer->handle);
    else
        p->table->buffer_free(p->state, buffer);
    buffer->handle = 0;
}

bool measure_is_async(const part_provider *p)
{
    return (p->table->flags & INLAY_PROVIDER_ASYNC) != 0;
}

/* One copy, waited for. */
inlay_status measure_copy_now(const part_provider *p, inlay_run *run, uint64_t timeline, uint64_t *signalled,
                              const inlay_buffer *from, const inlay_buffer *to, inlay_diag *diag)
{
    inlay_fence done = { timeline, measure_is_async(p) ? ++*signalled : 0 };
    inlay_status status;

    if (!measure_is_async(p))
        done.timeline = 0;
    status = p->table->buffer_copy(p->state, run, from, to, NULL, 0, done, diag);
    if (status == INLAY_OK && done.timeline != 0)
        status = fence_settle(done, diag);
    return status;
}

typedef struct copy_bench {
    const part_provider *provider;
    inlay_run *run;
    inlay_buffer from, to;
    uint64_t timeline, signalled;
    inlay_diag *diag;
} copy_bench;

static inlay_status time_copy(void *ctx, double *out_ns, bool *out_calm)
{
    copy_bench *c = ctx;
    uint64_t switches = measure_switches();
    double start = measure_now_ns();
    inlay_status status = measure_copy_now(c->provider, c->run, c->timeline, &c->signalled, &c->from, &c->to, c->diag);

    *out_ns = measure_now_ns() - start;
    *out_calm = measure_switches() == switches;
    return status;
}

inlay_status measure_copy(const part_provider *provider, uint32_t domain, bool to_device, uint64_t bytes,
                          const measure_plan *plan, measurement *out, inlay_diag *diag)
{
    static const uint32_t never;
    inlay_run run = { .cancel = &never, .max_threads = 1 };
    copy_bench c = { .provider = provider, .run = &run, .diag = diag };
    inlay_buffer host = { 0 }, device = { 0 };
    inlay_status status = INLAY_OK;

    INLAY_TRY(measure_buffer(provider, INLAY_DOMAIN_HOST, bytes, &host, diag));
    memset(inlay_buffer_host(&host), 1, (size_t)bytes);
    INLAY_TRY(measure_buffer(provider, provider->first_domain + domain, bytes, &device, diag));
    if (measure_is_async(provider))
        INLAY_TRY(timeline_create(&c.timeline, diag));
    c.from = to_device ? host : device;
    c.to = to_device ? device : host;
    INLAY_TRY(measure_runs(time_copy, &c, plan, 2, out, diag));
done:
    measure_buffer_free(provider, &host);
    measure_buffer_free(provider, &device);
    timeline_destroy(c.timeline);
    return status;
}
