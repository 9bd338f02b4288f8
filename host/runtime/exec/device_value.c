/* exec/device_value.c - tensors in the memory of a device: made, copied, given back. */
#include "base/boundary.h"
#include "base/clock.h"
#include "base/known.h"
#include "exec/value.h"
#include "inlay/extensions.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include "threads/run.h"
#include <stdlib.h>
#include <string.h>

/* A copy that takes longer has met a device that hangs. */
static const uint64_t COPY_NS = UINT64_C(60000000000);

/* What a value on a device holds. */
typedef struct device_owner {
    const provider *p;
    void (*release)(void *arg); /* whoever lent the memory; NULL: it is the device's own */
    void *arg;
    inlay_buffer there; /* of a shared value: its memory as the device knows it */
} device_owner;

static void free_device_memory(void *owner, inlay_value *value)
{
    device_owner *o = owner;
    inlay_buffer whole = value->buffer;

    whole.bytes = value->capacity;
    o->p->table->buffer_free(o->p->state, &whole);
    if (o->release != NULL)
        o->release(o->arg);
    provider_close(o->p);
    free(o);
}

/* A tensor without memory yet, of a provider that has a domain of its own, and room for its owner. */
static inlay_status begin_value(const provider *p, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                inlay_value **out_value, device_owner **out_owner, inlay_diag *diag)
{
    const uint32_t domain = p->table->default_domain;
    inlay_status status;

    *out_value = NULL;
    *out_owner = NULL;
    if (domain == 0 || domain > p->table->domain_count)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s works in host memory; use inlay_value_create()",
                          p->name);
    if (dtype == INLAY_STRING)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "texts lie in host memory alone");
    status = value_describe(dtype, rank, dims, out_value, diag);
    if (status != INLAY_OK)
        return status;
    *out_owner = calloc(1, sizeof **out_owner);
    if (*out_owner == NULL) {
        inlay_value_unref(*out_value);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a tensor header");
    }
    return INLAY_OK;
}

/* The value has its memory. */
static void end_value(const provider *p, inlay_value *v, device_owner *owner, inlay_buffer buffer)
{
    buffer.bytes = v->buffer.bytes;
    v->buffer = buffer;
    owner->p = provider_hold(p);
    v->owner = owner;
    v->free_memory = free_device_memory;
}

inlay_status value_create_on(const provider *p, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                             inlay_value **out_value, inlay_diag *diag)
{
    inlay_buffer buffer = { 0 };
    device_owner *owner;
    inlay_value *v;
    inlay_status status = begin_value(p, dtype, rank, dims, &v, &owner, diag);

    *out_value = NULL;
    if (status != INLAY_OK)
        return status;
    v->capacity = v->buffer.bytes > 0 ? v->buffer.bytes : 1;
    status =
        p->table->buffer_alloc(p->state, p->first_domain + p->table->default_domain - 1, v->capacity, &buffer, diag);
    if (status != INLAY_OK) {
        inlay_value_unref(v);
        free(owner);
        return status;
    }
    end_value(p, v, owner, buffer);
    *out_value = v;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ memory that is the host's and a device's */

static void free_shared_memory(void *owner, inlay_value *value)
{
    device_owner *o = owner;

    o->p->table->buffer_unmap(o->p->state, &o->there);
    value->buffer = o->there;
    free_device_memory(owner, value);
}

inlay_status value_create_shared(const provider *p, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                 inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status = value_create_on(p, dtype, rank, dims, out_value, diag);
    inlay_value *v = *out_value;
    void *address;

    if (status != INLAY_OK)
        return status;
    ((device_owner *)v->owner)->there = v->buffer;
    status = p->table->buffer_map(p->state, &v->buffer, &address, diag);
    if (status != INLAY_OK) {
        inlay_value_unref(v);
        *out_value = NULL;
        return status;
    }
    v->free_memory = free_shared_memory;
    v->buffer = (inlay_buffer){ .handle = (uintptr_t)address, .bytes = v->buffer.bytes };
    return INLAY_OK;
}

bool value_is_shared(const inlay_value *v, uint32_t domain, inlay_buffer *out)
{
    if (v->free_memory != free_shared_memory)
        return false;
    *out = ((const device_owner *)v->owner)->there;
    out->bytes = v->buffer.bytes;
    return out->domain == domain || domain == INLAY_NONE;
}

inlay_status value_wrap_on(const provider *p, const inlay_native_memory *memory, inlay_dtype dtype, uint32_t rank,
                           const int64_t *dims, void (*release)(void *arg), void *arg, inlay_value **out_value,
                           inlay_diag *diag)
{
    inlay_buffer buffer = { 0 };
    device_owner *owner;
    inlay_value *v;
    inlay_status status;

    *out_value = NULL;
    if (p->table->import_native == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s takes no memory of others", p->name);
    status = begin_value(p, dtype, rank, dims, &v, &owner, diag);
    if (status != INLAY_OK)
        return status;
    v->capacity = v->buffer.bytes;
    if (memory->bytes < v->buffer.bytes)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the memory has %llu bytes; this shape needs %llu",
                            (unsigned long long)memory->bytes, (unsigned long long)v->buffer.bytes);
    if (status == INLAY_OK)
        status =
            p->table->import_native(p->state, p->first_domain + p->table->default_domain - 1, memory, &buffer, diag);
    if (status != INLAY_OK) {
        inlay_value_unref(v);
        free(owner);
        return status;
    }
    owner->release = release;
    owner->arg = arg;
    end_value(p, v, owner, buffer);
    *out_value = v;
    return INLAY_OK;
}

static const provider *device_of(const inlay_value *v)
{
    return v->free_memory == free_device_memory ? ((const device_owner *)v->owner)->p : NULL;
}

const char *inlay_value_device(const inlay_value *value)
{
    const provider *p = device_of(value);

    return p != NULL ? p->name : NULL;
}

inlay_status inlay_value_map(inlay_value *value, void **out_data, inlay_diag *diag)
{
    const provider *p = device_of(value);

    *out_data = p == NULL ? inlay_value_data(value) : NULL;
    if (p == NULL)
        return INLAY_OK;
    if ((p->table->domains[value->buffer.domain - p->first_domain].flags & INLAY_DOMAIN_HOST_VISIBLE) == 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the memory of %s is not the host's; inlay_value_copy() it",
                          p->name);
    return p->table->buffer_map(p->state, &value->buffer, out_data, diag);
}

void inlay_value_unmap(inlay_value *value)
{
    const provider *p = device_of(value);

    if (p != NULL)
        p->table->buffer_unmap(p->state, &value->buffer);
}

inlay_status inlay_value_native(const inlay_value *value, inlay_native_memory *out_memory, inlay_diag *diag)
{
    const provider *p = device_of(value);
    inlay_native_memory found = { .struct_size = sizeof found };
    inlay_status status;

    if (p == NULL || p->table->export_native == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s does not tell how others name its memory",
                          p == NULL ? "the host" : p->name);
    status = p->table->export_native(p->state, &value->buffer, &found, diag);
    if (status != INLAY_OK)
        return status;
    return known_give(out_memory, &found, sizeof found)
               ? INLAY_OK
               : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_native_memory.struct_size is not set");
}

/* ------------------------------------------------------------------ host memory that a device reads */

struct value_import {
    const provider *p; /* NULL: it refused */
    inlay_buffer buffer;
};

void value_end_import(struct value_import *import)
{
    if (import->p != NULL) {
        import->p->table->buffer_free(import->p->state, &import->buffer);
        provider_close(import->p);
    }
    free(import);
}

static struct value_import *ask_for_import(const inlay_value *v, const provider *p, uint32_t domain)
{
    struct value_import *import = calloc(1, sizeof *import);
    inlay_diag why = INLAY_DIAG_INIT;

    if (import != NULL && p->table->import_host(p->state, domain, inlay_value_data((inlay_value *)(uintptr_t)v),
                                                v->capacity, &import->buffer, &why) == INLAY_OK) {
        import->p = provider_hold(p);
        import->buffer.bytes = v->capacity;
    }
    return import;
}

bool value_import(inlay_value *v, const provider *p, uint32_t domain, inlay_buffer *out)
{
    struct value_import *known = __atomic_load_n(&v->import, __ATOMIC_ACQUIRE);

    if (known == NULL) {
        struct value_import *made = ask_for_import(v, p, domain);

        if (made == NULL)
            return false;
        if (__atomic_compare_exchange_n(&v->import, &known, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            known = made;
        else
            value_end_import(made);
    }
    if (known->p != p || known->buffer.domain != domain || known->buffer.bytes < v->buffer.bytes)
        return false;
    *out = known->buffer;
    out->bytes = v->buffer.bytes;
    return true;
}

/* ------------------------------------------------------------------ streams of other libraries */

static inlay_status find_streams(const inlay_value *v, const inlay_ext_streams **out, inlay_diag *diag)
{
    const provider *p = device_of(v);

    *out = p != NULL && p->table->extension != NULL ? p->table->extension(p->state, INLAY_EXT_STREAMS) : NULL;
    if (*out != NULL)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%s knows no streams of others; wait for the stream instead",
                      p == NULL ? "the host" : p->name);
}

static inlay_status ask(const inlay_value *v,
                        inlay_status (*order)(void *state, uint64_t stream, inlay_fence fence, inlay_diag *diag),
                        uint64_t stream, inlay_fence fence, inlay_diag *diag)
{
    const provider *p = device_of(v);
    const boundary_call call = { .provider = p->name };
    inlay_diag own = INLAY_DIAG_INIT;
    void *state = p->state;

    (void)provider_direct(p->table, &state);
    return boundary_tell(&call, order(state, stream, fence, &own), &own, diag);
}

inlay_status inlay_value_after(inlay_value *value, uint64_t stream, inlay_diag *diag)
{
    const inlay_ext_streams *e;
    inlay_fence *own = &value->streams;
    inlay_status last = INLAY_OK, status = find_streams(value, &e, diag);

    if (status == INLAY_OK && !fence_reached(value->ready, NULL))
        status = ask(value, e->wait, stream, value->ready, diag);
    if (status == INLAY_OK && own->timeline == 0)
        status = timeline_create(&own->timeline, diag);
    if (status != INLAY_OK)
        return status;
    if (fence_reached(*own, &last) && last != INLAY_OK) {
        timeline_renew(&own->timeline);
        own->value = 0;
    }
    own->value++;
    status = ask(value, e->signal, stream, *own, diag);
    if (status == INLAY_OK)
        value->ready = *own;
    else
        own->value--;
    return status;
}

inlay_status inlay_value_before(inlay_value *value, uint64_t stream, inlay_diag *diag)
{
    const inlay_ext_streams *e;
    inlay_status status = find_streams(value, &e, diag);

    return status != INLAY_OK || fence_reached(value->ready, NULL) ? status
                                                                   : ask(value, e->wait, stream, value->ready, diag);
}

/* ------------------------------------------------------------------ copies */

/* By the device, which may answer before it is done. */
static inlay_status wait_a_minute(const provider *p, inlay_fence fence, inlay_diag *diag)
{
    const inlay_status status = fence_wait_until(fence, NULL, clock_ns() + COPY_NS, diag);

    if (status != INLAY_BUSY || fence_reached(fence, NULL))
        return status;
    return inlay_fail(diag, INLAY_DEVICE_LOST, "provider %s did not end a copy in a minute", p->name);
}

static inlay_status copy_by(const provider *p, const inlay_value *from, inlay_value *to, inlay_diag *diag)
{
    static const uint32_t never;
    inlay_run run = { .cancel = &never, .max_threads = 1 };
    inlay_fence done = { 0, 1 };
    inlay_status status = INLAY_OK;

    if ((p->table->flags & INLAY_PROVIDER_ASYNC) != 0)
        status = timeline_create(&done.timeline, diag);
    if (status == INLAY_OK)
        status = wait_a_minute(p, from->ready, diag);
    if (status == INLAY_OK && !fence_reached(to->ready, NULL)) /* that it failed does not count: it is written over */
        (void)wait_a_minute(p, to->ready, NULL);
    if (status == INLAY_OK)
        status = p->table->buffer_copy(p->state, &run, &from->buffer, &to->buffer, NULL, 0, done, diag);
    if (status == INLAY_OK && done.timeline != 0)
        status = wait_a_minute(p, done, diag);
    if (status == INLAY_OK)
        to->ready = (inlay_fence){ 0 };
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
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "%s and %s know nothing of each other; copy by way of a value in host "
                          "memory",
                          source->name, target->name);
    return copy_by(source != NULL ? source : target, from, to, diag);
}
