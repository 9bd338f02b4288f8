/* Buffers of host and devices, and the time of a copy between them. */
#include "base/clock.h"
#include "base/memory.h"
#include "measure/measure_parts.h"
#include "measure/measure_time.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

inlay_status measure_buffer(const partition_provider *provider, uint32_t domain, uint64_t bytes, inlay_buffer *out,
                            inlay_diag *diag)
{
    void *memory = NULL;

    *out = (inlay_buffer){ 0 };
    if (domain != INLAY_DOMAIN_HOST)
        return provider->table->buffer_alloc(provider->state, domain, bytes, out, diag);
    if (posix_memalign(&memory, ALIGN, bytes > 0 ? (size_t)bytes : 1) != 0)
        return no_memory(diag, "to measure");
    *out = (inlay_buffer){ .handle = (uintptr_t)memory, .bytes = bytes };
    return INLAY_OK;
}

void measure_buffer_free(const partition_provider *provider, inlay_buffer *buffer)
{
    if (buffer->handle == 0)
        return;
    if (buffer->domain == INLAY_DOMAIN_HOST)
        free((void *)(uintptr_t)buffer->handle);
    else
        provider->table->buffer_free(provider->state, buffer);
    buffer->handle = 0;
}

bool measure_is_async(const partition_provider *provider)
{
    return (provider->table->flags & INLAY_PROVIDER_ASYNC) != 0;
}

inlay_fence measure_next(const partition_provider *provider, measure_line *line)
{
    return measure_is_async(provider) ? (inlay_fence){ line->timeline, ++line->signalled } : (inlay_fence){ 0, 0 };
}

inlay_status measure_settle(const partition_provider *provider, measure_line *line, inlay_fence fence, inlay_diag *diag)
{
    const uint64_t until = line->limit_ms == 0 ? 0 : clock_ns() + line->limit_ms * 1000000;
    inlay_status status = fence.timeline == 0 ? INLAY_OK : fence_wait_until(fence, NULL, until, diag);

    if (status != INLAY_BUSY || fence_reached(fence, &status))
        return status;
    line->hangs = true;
    provider_lost(provider->state);
    return inlay_fail(diag, INLAY_DEVICE_LOST,
                      "provider %s: the device did not end its work in %llu ms (option "
                      "device_timeout_ms)",
                      provider->name, (unsigned long long)line->limit_ms);
}

inlay_status measure_copy_now(const partition_provider *provider, measure_line *line, const inlay_buffer *from,
                              const inlay_buffer *to, inlay_diag *diag)
{
    const inlay_fence done = measure_next(provider, line);
    const inlay_status status =
        provider->table->buffer_copy(provider->state, &line->run, from, to, NULL, 0, done, diag);

    return status == INLAY_OK ? measure_settle(provider, line, done, diag) : status;
}

typedef struct copy_bench {
    const partition_provider *provider;
    measure_line *line;
    inlay_buffer from, to;
    inlay_diag *diag;
} copy_bench;

static inlay_status time_copy(void *ctx, double *out_ns, bool *out_calm)
{
    copy_bench *bench = ctx;
    uint64_t switches = measure_switches();
    const uint64_t start = clock_ns();
    inlay_status status = measure_copy_now(bench->provider, bench->line, &bench->from, &bench->to, bench->diag);

    *out_ns = (double)(clock_ns() - start);
    *out_calm = measure_switches() == switches;
    return status;
}

inlay_status measure_copy(const partition_provider *provider, uint32_t domain, bool to_device, uint64_t bytes,
                          uint64_t limit_ms, const measure_plan *plan, struct measurement *out, inlay_diag *diag)
{
    static const uint32_t never;
    copy_bench bench = { .provider = provider, .line = calloc(1, sizeof *bench.line), .diag = diag };
    inlay_buffer host = { 0 }, device = { 0 };
    inlay_status status = INLAY_OK;

    if (bench.line == NULL)
        return no_memory(diag, "to measure");
    *bench.line = (measure_line){ .run = { .cancel = &never, .max_threads = 1 }, .limit_ms = limit_ms };
    INLAY_TRY(measure_buffer(provider, INLAY_DOMAIN_HOST, bytes, &host, diag));
    memset(inlay_buffer_host(&host), 1, (size_t)bytes);
    INLAY_TRY(measure_buffer(provider, provider->first_domain + domain, bytes, &device, diag));
    if (measure_is_async(provider))
        INLAY_TRY(timeline_create(&bench.line->timeline, diag));
    bench.from = to_device ? host : device;
    bench.to = to_device ? device : host;
    INLAY_TRY(measure_runs(time_copy, &bench, plan, 2, out, diag));
done:
    if (bench.line->hangs)
        return status;
    measure_buffer_free(provider, &host);
    measure_buffer_free(provider, &device);
    timeline_destroy(bench.line->timeline);
    free(bench.line);
    return status;
}
