/* exec/values/device_value.c - tensors in the memory of a device: made, shared with the host, given back. */
#include "base/memory.h"
#include "exec/values/value.h"
#include "plugin/plugin.h"
#include <stdlib.h>
#include <string.h>

/* What a value on a device holds. */
typedef struct device_owner {
    const struct provider *provider;
    void (*release)(void *arg); /* whoever lent the memory; NULL: it is the device's own */
    void *arg;
    inlay_buffer there; /* of a shared value: its memory as the device knows it */
} device_owner;

static void free_device_memory(void *owner, inlay_value *value)
{
    device_owner *o = owner;
    inlay_buffer whole = value->buffer;

    whole.bytes = value->capacity;
    o->provider->table->buffer_free(o->provider->state, &whole);
    if (o->release != NULL)
        o->release(o->arg);
    provider_close(o->provider);
    free(o);
}

/* A tensor without memory yet, of a provider that has a domain of its own, and room for its owner. */
static inlay_status begin_value(const struct provider *provider, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                inlay_value **out_value, device_owner **out_owner, inlay_diag *diag)
{
    const uint32_t domain = provider->table->default_domain;
    inlay_status status;

    *out_value = NULL;
    *out_owner = NULL;
    if (domain == 0 || domain > provider->table->domain_count)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s works in host memory; use inlay_value_create()",
                          provider->name);
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
static void end_value(const struct provider *provider, inlay_value *value, device_owner *owner, inlay_buffer buffer)
{
    buffer.bytes = value->buffer.bytes;
    value->buffer = buffer;
    owner->provider = provider_hold(provider);
    value->owner = owner;
    value->free_memory = free_device_memory;
}

inlay_status value_create_on(const struct provider *provider, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                             inlay_value **out_value, inlay_diag *diag)
{
    inlay_buffer buffer = { 0 };
    device_owner *owner;
    inlay_value *value;
    inlay_status status = begin_value(provider, dtype, rank, dims, &value, &owner, diag);

    *out_value = NULL;
    if (status != INLAY_OK)
        return status;
    value->capacity = value->buffer.bytes > 0 ? value->buffer.bytes : 1;
    status = provider->table->buffer_alloc(
        provider->state, provider->first_domain + provider->table->default_domain - 1, value->capacity, &buffer, diag);
    if (status != INLAY_OK) {
        value_unref(value);
        free(owner);
        return status;
    }
    end_value(provider, value, owner, buffer);
    *out_value = value;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ memory that is the host's and a device's */

static void free_shared_memory(void *owner, inlay_value *value)
{
    device_owner *o = owner;

    o->provider->table->buffer_unmap(o->provider->state, &o->there);
    value->buffer = o->there;
    free_device_memory(owner, value);
}

inlay_status value_create_shared(const struct provider *provider, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                 inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status = value_create_on(provider, dtype, rank, dims, out_value, diag);
    inlay_value *value = *out_value;
    void *address;

    if (status != INLAY_OK)
        return status;
    ((device_owner *)value->owner)->there = value->buffer;
    status = provider->table->buffer_map(provider->state, &value->buffer, &address, diag);
    if (status != INLAY_OK) {
        value_unref(value);
        *out_value = NULL;
        return status;
    }
    value->free_memory = free_shared_memory;
    value->buffer = (inlay_buffer){ .handle = (uintptr_t)address, .bytes = value->buffer.bytes };
    return INLAY_OK;
}

bool value_is_shared(const inlay_value *value, uint32_t domain, inlay_buffer *out)
{
    if (value->free_memory != free_shared_memory)
        return false;
    *out = ((const device_owner *)value->owner)->there;
    out->bytes = value->buffer.bytes;
    return out->domain == domain || domain == INLAY_NONE;
}

inlay_status value_wrap_on(const struct provider *provider, const inlay_native_memory *memory, inlay_dtype dtype,
                           uint32_t rank, const int64_t *dims, void (*release)(void *arg), void *arg,
                           inlay_value **out_value, inlay_diag *diag)
{
    inlay_buffer buffer = { 0 };
    device_owner *owner;
    inlay_value *value;
    inlay_status status;

    *out_value = NULL;
    if (provider->table->import_native == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s takes no memory of others", provider->name);
    status = begin_value(provider, dtype, rank, dims, &value, &owner, diag);
    if (status != INLAY_OK)
        return status;
    value->capacity = value->buffer.bytes;
    if (memory->bytes < value->buffer.bytes)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the memory has %llu bytes; this shape needs %llu",
                            (unsigned long long)memory->bytes, (unsigned long long)value->buffer.bytes);
    if (status == INLAY_OK)
        status = provider->table->import_native(
            provider->state, provider->first_domain + provider->table->default_domain - 1, memory, &buffer, diag);
    if (status != INLAY_OK) {
        value_unref(value);
        free(owner);
        return status;
    }
    owner->release = release;
    owner->arg = arg;
    end_value(provider, value, owner, buffer);
    *out_value = value;
    return INLAY_OK;
}

const struct provider *value_device(const inlay_value *value)
{
    return value->free_memory == free_device_memory ? ((const device_owner *)value->owner)->provider : NULL;
}

/* ------------------------------------------------------------------ host memory that a device reads */

static struct value_import *ask_for_import(const inlay_value *value, const struct provider *provider, uint32_t domain)
{
    struct value_import *import = calloc(1, sizeof *import);
    inlay_diag why = INLAY_DIAG_INIT;

    if (import != NULL &&
        provider->table->import_host(provider->state, domain, value_data((inlay_value *)(uintptr_t)value),
                                     value->capacity, &import->buffer, &why) == INLAY_OK) {
        import->provider = provider_hold(provider);
        import->buffer.bytes = value->capacity;
    }
    return import;
}

bool value_import(inlay_value *value, const struct provider *provider, uint32_t domain, inlay_buffer *out)
{
    struct value_import *known = __atomic_load_n(&value->import, __ATOMIC_ACQUIRE);

    if (known == NULL) {
        struct value_import *made = ask_for_import(value, provider, domain);

        if (made == NULL)
            return false;
        if (__atomic_compare_exchange_n(&value->import, &known, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            known = made;
        else
            value_end_import(made);
    }
    if (known->provider != provider || known->buffer.domain != domain || known->buffer.bytes < value->buffer.bytes)
        return false;
    *out = known->buffer;
    out->bytes = value->buffer.bytes;
    return true;
}
