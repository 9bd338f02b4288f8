/* exec/device_value.c - tensors in the memory of a device: made, copied, given back. */
#include "base/clock.h"
#include "exec/value.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include "threads/run.h"
#include <string.h>

/* A copy that takes longer has met a device that hangs. */
static const uint64_t COPY_NS = UINT64_C(60000000000);

static void free_device_memory(void *owner, inlay_value *value)
{
    const provider *p = owner;
    inlay_buffer whole = value->buffer;

    whole.bytes = value->capacity;
    p->table->buffer_free(p->state, &whole);
    provider_close(p);
}

inlay_status value_create_on(const provider *p, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                             inlay_value **out_value, inlay_diag *diag)
{
    const uint32_t domain = p->table->default_domain;
    inlay_buffer buffer = { 0 };
    inlay_value *v;
    inlay_status status;

    *out_value = NULL;
    if (domain == 0 || domain > p->table->domain_count)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s works in host memory; use inlay_value_create()",
                          p->name);
    if (dtype == INLAY_STRING)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "texts lie in host memory alone");
    status = value_describe(dtype, rank, dims, &v, diag);
    if (status != INLAY_OK)
        return status;
    v->capacity = v->buffer.bytes > 0 ? v->buffer.bytes : 1;
    status = p->table->buffer_alloc(p->state, p->first_domain + domain - 1, v->capacity, &buffer, diag);
    if (status != INLAY_OK) {
        inlay_value_unref(v);
        return status;
    }
    buffer.bytes = v->buffer.bytes;
    v->buffer = buffer;
    v->owner = (void *)(uintptr_t)provider_hold(p);
    v->free_memory = free_device_memory;
    *out_value = v;
    return INLAY_OK;
}

static const provider *device_of(const inlay_value *v)
{
    return v->free_memory == free_device_memory ? v->owner : NULL;
}

const char *inlay_value_device(const inlay_value *value)
{
    const provider *p = device_of(value);

    return p != NULL ? p->name : NULL;
}

/* By the device, which may answer before it is done. */
static inlay_status copy_by(const provider *p, const inlay_buffer *from, const inlay_buffer *to, inlay_diag *diag)
{
    static const uint32_t never;
    inlay_run run = { .cancel = &never, .max_threads = 1 };
    inlay_fence done = { 0, 1 };
    inlay_status status = INLAY_OK;

    if ((p->table->flags & INLAY_PROVIDER_ASYNC) != 0)
        status = timeline_create(&done.timeline, diag);
    if (status == INLAY_OK)
        status = p->table->buffer_copy(p->state, &run, from, to, NULL, 0, done, diag);
    if (status == INLAY_OK && done.timeline != 0) {
        status = fence_wait_until(done, NULL, clock_ns() + COPY_NS, diag);
        if (status == INLAY_BUSY && !fence_reached(done, NULL))
            status = inlay_fail(diag, INLAY_DEVICE_LOST, "provider %s did not end a copy in a minute", p->name);
    }
    if (status == INLAY_DEVICE_LOST)
        provider_lost(p->state);
    timeline_destroy(done.timeline);
    return status;
}

inlay_status inlay_value_copy(const inlay_value *from, inlay_value *to, inlay_diag *diag)
{
    const provider *source = device_of(from), *target = device_of(to);

    if (from->kind != INLAY_KIND_TENSOR || to->kind != INLAY_KIND_TENSOR || from->dtype != to->dtype ||
        from->dtype == INLAY_STRING || from->buffer.bytes != to->buffer.bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "only a tensor of numbers can be copied, into one of its type and number of bytes");
    if (from->buffer.bytes == 0)
        return INLAY_OK;
    if (source == NULL && target == NULL) {
        memmove(inlay_value_data(to), inlay_value_data(from), (size_t)from->buffer.bytes);
        return INLAY_OK;
    }
    if (source != NULL && target != NULL && source != target)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s and %s know nothing of each other; copy by way of a value in host "
                          "memory", source->name, target->name);
    return copy_by(source != NULL ? source : target, &from->buffer, &to->buffer, diag);
}
