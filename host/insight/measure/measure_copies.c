/* Buffers of the host and of devices, and the time of a copy between them. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/provider_calls.h"
#include "measure/measure_parts.h"
#include "measure/measure_time.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

inlay_status measure_buffer(const partition_provider *provider, uint32_t domain, uint64_t bytes, uint64_t alignment,
                            inlay_buffer *out, inlay_diag *diag)
{
    void *memory = NULL;

    *out = (inlay_buffer){ 0 };
    if (domain != INLAY_DOMAIN_HOST)
        return call_alloc(provider->table, provider->state, provider->first_domain, domain, bytes,
                          (buffer_use){ .lifetime = INLAY_LIFETIME_RUN, .alignment = alignment }, out, diag);
    if (posix_memalign(&memory, alignment > ALIGNMENT ? (size_t)alignment : ALIGNMENT, bytes > 0 ? (size_t)bytes : 1) !=
        0)
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
        call_free(provider->table, provider->state, buffer);
    buffer->handle = 0;
}

bool measure_is_async(const partition_provider *provider)
{
    return (provider->table->flags & INLAY_PROVIDER_ASYNC) != 0;
}

inlay_fence measure_next_fence(const partition_provider *provider, measure_queue *queue)
{
    return measure_is_async(provider) ? (inlay_fence){ queue->timeline, ++queue->signalled } : (inlay_fence){ 0, 0 };
}

inlay_status measure_wait(const partition_provider *provider, measure_queue *queue, inlay_fence fence, inlay_diag *diag)
{
    const uint64_t until = queue->limit_ms == 0 ? 0 : clock_ns() + queue->limit_ms * 1000000;
    inlay_status status = fence.timeline == 0 ? INLAY_OK : fence_wait_until(fence, NULL, until, diag);

    if (status != INLAY_BUSY || fence_reached(fence, &status))
        return status;
    queue->hung = true;
    provider_lost(provider->state);
    return inlay_fail(diag, INLAY_DEVICE_LOST,
                      "provider %s: the device did not finish its work in %llu ms (option device_timeout_ms)",
                      provider->name, (unsigned long long)queue->limit_ms);
}

inlay_status measure_copy_now(const partition_provider *provider, measure_queue *queue, const inlay_buffer *from,
                              const inlay_buffer *to, inlay_diag *diag)
{
    const inlay_fence done = measure_next_fence(provider, queue);
    const inlay_status status = call_copy(provider->table, provider->state, &queue->run, from, to, NULL, done, diag);

    return status == INLAY_OK ? measure_wait(provider, queue, done, diag) : status;
}

typedef struct copy_bench {
    const partition_provider *provider;
    measure_queue *queue;
    inlay_buffer from, to;
    inlay_diag *diag;
} copy_bench;

static inlay_status time_copy(void *ctx, double *out_ns, bool *out_calm)
{
    copy_bench *bench = ctx;
    uint64_t switches = measure_switches();
    const uint64_t start = clock_ns();
    inlay_status status = measure_copy_now(bench->provider, bench->queue, &bench->from, &bench->to, bench->diag);

    *out_ns = (double)(clock_ns() - start);
    *out_calm = measure_switches() == switches;
    return status;
}

inlay_status measure_copy(const partition_provider *provider, uint32_t domain, bool to_device, uint64_t bytes,
                          uint64_t limit_ms, const measure_plan *plan, struct measurement *out, inlay_diag *diag)
{
    static const uint32_t not_cancelled;
    copy_bench bench = { .provider = provider, .queue = calloc(1, sizeof *bench.queue), .diag = diag };
    inlay_buffer host = { 0 }, device = { 0 };
    inlay_status status = INLAY_OK;

    if (bench.queue == NULL)
        return no_memory(diag, "to measure");
    *bench.queue = (measure_queue){ .run = { .cancel = &not_cancelled, .max_threads = 1 }, .limit_ms = limit_ms };
    INLAY_TRY(measure_buffer(provider, INLAY_DOMAIN_HOST, bytes, 0, &host, diag));
    memset(inlay_buffer_host(&host), 1, (size_t)bytes);
    INLAY_TRY(measure_buffer(provider, provider->first_domain + domain, bytes, 0, &device, diag));
    if (measure_is_async(provider))
        INLAY_TRY(timeline_create(&bench.queue->timeline, diag));
    bench.from = to_device ? host : device;
    bench.to = to_device ? device : host;
    INLAY_TRY(measure_runs(time_copy, &bench, plan, 2, out, diag));
done:
    if (bench.queue->hung)
        return status;
    measure_buffer_free(provider, &host);
    measure_buffer_free(provider, &device);
    timeline_destroy(bench.queue->timeline);
    free(bench.queue);
    return status;
}
