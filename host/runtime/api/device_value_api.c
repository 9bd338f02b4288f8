/* api/device_value_api.c - inlay.h: values on devices: mapped to the host, shared with other libraries, copied. */
#include "base/boundary.h"
#include "base/clock.h"
#include "base/provider_calls.h"
#include "base/sized_struct.h"
#include "exec/values/value.h"
#include "inlay/extensions.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include "threads/run.h"
#include "inlay/check.h"
#include <string.h>

/* If a copy, or the work before it, takes longer, the device counts as lost. */
static const uint64_t COPY_NS = UINT64_C(60000000000);

/* *out_late: the time limit passed, and the result is INLAY_DEVICE_LOST. */
static inlay_status wait_for(const struct provider *provider, inlay_fence fence, bool *out_late, inlay_diag *diag)
{
    const inlay_status status = fence_wait_until(fence, NULL, clock_ns() + COPY_NS, diag);

    *out_late = status == INLAY_BUSY && !fence_reached(fence, NULL);
    return *out_late ? inlay_fail(diag, INLAY_DEVICE_LOST, "provider %s did not finish its work within a minute",
                                  provider->name)
                     : status;
}

const char *inlay_value_device(const inlay_value *value)
{
    const struct provider *provider = value_device(value);

    return provider != NULL ? provider->name : NULL;
}

inlay_status inlay_value_map(inlay_value *value, void **out_data, inlay_diag *diag)
{
    const struct provider *provider = value_device(value);
    inlay_status status;
    bool late;

    *out_data = provider == NULL ? value_data(value) : NULL;
    if (provider == NULL)
        return INLAY_OK;
    if ((provider->table->domains[value->buffer.domain - provider->first_domain].flags & INLAY_DOMAIN_HOST_VISIBLE) ==
        0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the memory of %s is not the host's; inlay_value_copy() it",
                          provider->name);
    status = provider_begin_use(provider, diag);
    if (status != INLAY_OK)
        return status;
    status = wait_for(provider, value->ready, &late, diag);
    if (status == INLAY_DEVICE_LOST)
        provider_lost(provider->state);
    if (status == INLAY_OK)
        status = call_map(provider->table, provider->state, &value->buffer, out_data, diag);
    provider_end_use(provider);
    return status;
}

void inlay_value_unmap(inlay_value *value)
{
    const struct provider *provider = value_device(value);

    if (provider != NULL)
        call_unmap(provider->table, provider->state, &value->buffer);
}

inlay_status inlay_value_native(const inlay_value *value, inlay_native_memory *out_memory, inlay_diag *diag)
{
    const struct provider *provider = value_device(value);
    inlay_export_request request = { .struct_size = sizeof request, .buffer = &value->buffer };
    inlay_native_memory found = { .struct_size = sizeof found }, asked;
    inlay_status status;

    if (out_memory->struct_size < sizeof out_memory->struct_size)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_native_memory.struct_size is not set");
    sized_struct_read(&asked, sizeof asked, out_memory, out_memory->struct_size);
    request.kind = asked.kind;

    if (provider == NULL || provider->table->buffer_export == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s does not export its memory to other libraries",
                          provider == NULL ? "the host" : provider->name);
    status = provider->table->buffer_export(provider->state, &request, &found, diag);
    if (status == INLAY_OK)
        (void)sized_struct_write(out_memory, &found, sizeof found);
    return status;
}

static inlay_status find_streams(const inlay_value *value, const inlay_ext_streams **out, inlay_diag *diag)
{
    const struct provider *provider = value_device(value);

    *out = provider != NULL && provider->table->extension != NULL
               ? provider->table->extension(provider->state, INLAY_EXT_STREAMS)
               : NULL;
    if (*out != NULL)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "%s does not support streams of other libraries; wait for the stream instead",
                      provider == NULL ? "the host" : provider->name);
}

/* Calls a function of the device's stream extension. */
static inlay_status call_streams(const inlay_value *value,
                                 inlay_status (*order)(void *state, uint64_t stream, inlay_fence fence,
                                                       inlay_diag *diag),
                                 uint64_t stream, inlay_fence fence, inlay_diag *diag)
{
    const struct provider *provider = value_device(value);
    const boundary_call call = { .provider = provider->name };
    inlay_diag own = INLAY_DIAG_INIT;
    void *state = provider_own_state(provider->table, provider->state);

    return forward_plugin_error(&call, order(state, stream, fence, &own), &own, diag);
}

inlay_status inlay_value_wait_stream(inlay_value *value, uint64_t stream, inlay_diag *diag)
{
    const inlay_ext_streams *streams;
    inlay_fence *own = &value->streams;
    inlay_status last = INLAY_OK, status = find_streams(value, &streams, diag);

    if (status == INLAY_OK && !fence_reached(value->ready, NULL))
        status = call_streams(value, streams->wait, stream, value->ready, diag);
    if (status == INLAY_OK && own->timeline == 0)
        status = timeline_create(&own->timeline, diag);
    if (status != INLAY_OK)
        return status;
    if (fence_reached(*own, &last) && last != INLAY_OK) {
        timeline_renew(&own->timeline);
        own->value = 0;
    }
    own->value++;
    status = call_streams(value, streams->signal, stream, *own, diag);
    if (status == INLAY_OK)
        value->ready = *own;
    else
        own->value--;
    return status;
}

inlay_status inlay_value_signal_stream(inlay_value *value, uint64_t stream, inlay_diag *diag)
{
    const inlay_ext_streams *streams;
    inlay_status status = find_streams(value, &streams, diag);

    return status != INLAY_OK || fence_reached(value->ready, NULL)
               ? status
               : call_streams(value, streams->wait, stream, value->ready, diag);
}

/* Waits until `to` can be overwritten. A failure of its earlier work does not matter. */
static inlay_status wait_for_target(const struct provider *provider, const inlay_value *to, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    bool late;
    const inlay_status status = wait_for(provider, to->ready, &late, &why);

    return late ? inlay_fail(diag, status, "%s", why.text) : INLAY_OK;
}

/* Makes the device copy, possibly asynchronously, and waits until the copy is complete. If the device hangs, it may
 * still access both values, so they are never freed. */
static inlay_status copy_by(const struct provider *provider, const inlay_value *from, inlay_value *to, inlay_diag *diag)
{
    static const uint32_t never;
    static inlay_run run = { .cancel = &never, .max_threads = 1 }; /* a device that hangs may still poll it */
    inlay_fence done = { 0, 1 };
    inlay_status status = INLAY_OK;
    bool late = false, hangs = false;

    INLAY_CHECK(from->buffer.bytes == to->buffer.bytes);
    if ((provider->table->flags & INLAY_PROVIDER_ASYNC) != 0)
        status = timeline_create(&done.timeline, diag);
    if (status == INLAY_OK)
        status = wait_for(provider, from->ready, &late, diag);
    if (status == INLAY_OK)
        status = wait_for_target(provider, to, diag);
    if (status == INLAY_OK)
        status = call_copy(provider->table, provider->state, &run, &from->buffer, &to->buffer, NULL, done, diag);
    if (status == INLAY_OK && done.timeline != 0)
        status = wait_for(provider, done, &hangs, diag);
    if (status == INLAY_OK)
        to->ready = (inlay_fence){ 0 };
    if (hangs) {
        provider_hung(provider);
        (void)value_ref((inlay_value *)(uintptr_t)from);
        (void)value_ref(to);
    }
    if (status == INLAY_DEVICE_LOST)
        provider_lost(provider->state);
    timeline_destroy(done.timeline);
    return status;
}

inlay_status inlay_value_copy(const inlay_value *from, inlay_value *to, inlay_diag *diag)
{
    const struct provider *source = value_device(from), *target = value_device(to);
    inlay_status status;

    if (from->kind != INLAY_KIND_TENSOR || to->kind != INLAY_KIND_TENSOR || from->dtype != to->dtype ||
        from->dtype == INLAY_STRING || from->buffer.bytes != to->buffer.bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "only a tensor of numbers can be copied, into one of its type and number of bytes");
    if (from->buffer.bytes == 0)
        return INLAY_OK;
    if (source == NULL && target == NULL) {
        memmove(value_data(to), value_data(from), (size_t)from->buffer.bytes);
        return INLAY_OK;
    }
    if (source != NULL && target != NULL && source != target)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s cannot copy to %s directly; copy through a value in host memory",
                          source->name, target->name);
    status = provider_begin_use(source != NULL ? source : target, diag);
    if (status != INLAY_OK)
        return status;
    status = copy_by(source != NULL ? source : target, from, to, diag);
    provider_end_use(source != NULL ? source : target);
    return status;
}
