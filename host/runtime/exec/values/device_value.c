/* exec/values/device_value.c - tensors in the memory of a device: made, shared with the host, given back. */
#include "base/memory.h"
#include "exec/values/value.h"
#include "plugin/plugin.h"
#include <stdlib.h>
#include <string.h>

/* What a value on a device holds. */
typedef struct device_owner {
    const struct provider *p;
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
static inlay_status begin_value(const struct provider *p, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
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
        value_unref(*out_value);
        return no_memory(diag, "for a tensor header");
    }
    return INLAY_OK;
}

/* The value has its memory. */
static void end_value(const struct provider *p, inlay_value *v, device_owner *owner, inlay_buffer buffer)
{
    buffer.bytes = v->buffer.bytes;
    v->buffer = buffer;
    owner->p = provider_hold(p);
    v->owner = owner;
    v->free_memory = free_device_memory;
}

inlay_status value_create_on(const struct provider *p, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
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
        value_unref(v);
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

inlay_status value_create_shared(const struct provider *p, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
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
        value_unref(v);
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

inlay_status value_wrap_on(const struct provider *p, const inlay_native_memory *memory, inlay_dtype dtype,
                           uint32_t rank, const int64_t *dims, void (*release)(void *arg), void *arg,
                           inlay_value **out_value, inlay_diag *diag)
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
        value_unref(v);
        free(owner);
        return status;
    }
    owner->release = release;
    owner->arg = arg;
    end_value(p, v, owner, buffer);
    *out_value = v;
    return INLAY_OK;
}

const struct provider *value_device(const inlay_value *v)
{
    return v->free_memory == free_device_memory ? ((const device_owner *)v->owner)->p : NULL;
}

/* ------------------------------------------------------------------ host memory that a device reads */

static struct value_import *ask_for_import(const inlay_value *v, const struct provider *p, uint32_t domain)
{
    struct value_import *import = calloc(1, sizeof *import);
    inlay_diag why = INLAY_DIAG_INIT;

    if (import != NULL && p->table->import_host(p->state, domain, value_data((inlay_value *)(uintptr_t)v), v->capacity,
                                                &import->buffer, &why) == INLAY_OK) {
        import->p = provider_hold(p);
        import->buffer.bytes = v->capacity;
    }
    return import;
}

bool value_import(inlay_value *v, const struct provider *p, uint32_t domain, inlay_buffer *out)
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
