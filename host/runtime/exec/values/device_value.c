/* exec/values/device_value.c - tensors in device memory: creation, sharing with the host, release. */
#include "base/memory.h"
#include "exec/values/value.h"
#include "inlay/check.h"
#include "plugin/plugin.h"
#include <stdlib.h>
#include <string.h>

/* Owner data of a value on a device. */
typedef struct device_owner {
    const struct provider *provider;
    void (*release)(void *arg); /* releases memory that the caller lent; NULL: the provider allocated it */
    void *arg;
    inlay_buffer device_buffer; /* shared values: the buffer as the device addresses it */
} device_owner;

static void free_device_memory(void *owner, inlay_value *value)
{
    device_owner *device = owner;
    inlay_buffer whole = value->buffer;

    whole.bytes = value->capacity;
    device->provider->table->buffer_free(device->provider->state, &whole);
    if (device->release != NULL)
        device->release(device->arg);
    provider_close(device->provider);
    free(device);
}

/* Creates a tensor without memory, for a provider with its own domain, and allocates its owner data. */
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
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "string tensors must be in host memory; use inlay_value_create_strings()");
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

/* Attaches the memory to the value. */
static void end_value(const struct provider *provider, inlay_value *value, device_owner *owner, inlay_buffer buffer)
{
    INLAY_CHECK(value->free_memory == NULL && value->owner == NULL);
    buffer.bytes = value->buffer.bytes;
    value->buffer = buffer;
    owner->provider = provider_retain(provider);
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

/* ------------------------------------------------------------------ memory shared by host and device */

static void free_shared_memory(void *owner, inlay_value *value)
{
    device_owner *device = owner;

    device->provider->table->buffer_unmap(device->provider->state, &device->device_buffer);
    value->buffer = device->device_buffer;
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
    ((device_owner *)value->owner)->device_buffer = value->buffer;
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
    *out = ((const device_owner *)value->owner)->device_buffer;
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
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s cannot import native memory", provider->name);
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

/* ------------------------------------------------------------------ host memory imported by a device */

static struct value_import *request_import(const inlay_value *value, const struct provider *provider, uint32_t domain)
{
    struct value_import *import = calloc(1, sizeof *import);
    inlay_diag why = INLAY_DIAG_INIT;

    if (import != NULL &&
        provider->table->import_host(provider->state, domain, value_data((inlay_value *)(uintptr_t)value),
                                     value->capacity, &import->buffer, &why) == INLAY_OK) {
        import->provider = provider_retain(provider);
        import->buffer.bytes = value->capacity;
    }
    return import;
}

bool value_import(inlay_value *value, const struct provider *provider, uint32_t domain, inlay_buffer *out)
{
    struct value_import *known = __atomic_load_n(&value->import, __ATOMIC_ACQUIRE);

    if (known == NULL) {
        struct value_import *made = request_import(value, provider, domain);

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
