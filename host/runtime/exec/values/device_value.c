/* exec/values/device_value.c - tensors in device memory: creation, sharing with the host, release. */
#include "base/device_link.h"
#include "base/memory.h"
#include "base/provider_calls.h"
#include "base/sized_struct.h"
#include "exec/values/value.h"
#include "inlay/check.h"
#include "plugin/plugin.h"
#include <stdlib.h>

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
    call_free(device->provider->table, device->provider->state, &whole);
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

inlay_status value_create_on(const struct provider *provider, uint32_t priority, inlay_dtype dtype, uint32_t rank,
                             const int64_t *dims, inlay_value **out_value, inlay_diag *diag)
{
    buffer_use use = { .usage = INLAY_USE_INPUT | INLAY_USE_OUTPUT,
                       .lifetime = INLAY_LIFETIME_USER,
                       .priority = priority };
    inlay_buffer buffer = { 0 };
    device_owner *owner;
    inlay_value *value;
    inlay_status status = begin_value(provider, dtype, rank, dims, &value, &owner, diag);

    *out_value = NULL;
    if (status != INLAY_OK)
        return status;
    value->capacity = value->buffer.bytes > 0 ? value->buffer.bytes : 1;
    use.usage |= provider->table->domains[provider->table->default_domain - 1].exports != 0 ? INLAY_USE_SHARED : 0;
    status =
        call_alloc(provider->table, provider->state, provider->first_domain,
                   provider->first_domain + provider->table->default_domain - 1, value->capacity, use, &buffer, diag);
    if (status != INLAY_OK) {
        value_unref(value);
        free(owner);
        return status;
    }
    end_value(provider, value, owner, buffer);
    *out_value = value;
    return INLAY_OK;
}

static void free_shared_memory(void *owner, inlay_value *value)
{
    device_owner *device = owner;

    call_unmap(device->provider->table, device->provider->state, &device->device_buffer);
    value->buffer = device->device_buffer;
    free_device_memory(owner, value);
}

inlay_status value_create_shared(const struct provider *provider, uint32_t priority, inlay_dtype dtype, uint32_t rank,
                                 const int64_t *dims, inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status = value_create_on(provider, priority, dtype, rank, dims, out_value, diag);
    inlay_value *value = *out_value;
    void *address = NULL;

    if (status != INLAY_OK)
        return status;
    ((device_owner *)value->owner)->device_buffer = value->buffer;
    status = call_map(provider->table, provider->state, &value->buffer, &address, diag);
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

/* The words for the kinds of file descriptors; NULL: another kind. */
static const char *descriptor_kind(uint32_t kind)
{
    return kind == INLAY_MEMORY_DMA_BUF     ? "a DMA-buf"
           : kind == INLAY_MEMORY_OPAQUE_FD ? "an opaque file descriptor"
           : kind == INLAY_MEMORY_SHARED_FD ? "shared memory"
                                            : NULL;
}

/* Checks the size of the memory, and the kind if it is a file descriptor. Clears a pitch that is the size of a row. */
static inlay_status check_native(const struct provider *provider, inlay_native_memory *memory, const inlay_value *value,
                                 inlay_diag *diag)
{
    const uint64_t bytes = value->buffer.bytes;
    const uint64_t rows = value->rank > 0 && value->dims[value->rank - 1] > 0
                              ? (uint64_t)(value->count / value->dims[value->rank - 1])
                              : 1;
    const uint64_t row = rows > 0 ? bytes / rows : 0, pitch = memory->pitch;
    const char *descriptor = descriptor_kind(memory->kind);
    uint64_t needed = bytes;

    if (pitch != 0 && rows > 1 && (pitch < row || row * rows != bytes))
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "the memory has a pitch of %llu bytes; it must be at least a row, %llu, and all rows equally long",
            (unsigned long long)pitch, (unsigned long long)row);
    if (pitch == row || rows <= 1)
        memory->pitch = 0;
    else if (pitch != 0 &&
             (__builtin_mul_overflow(pitch, rows - 1, &needed) || __builtin_add_overflow(needed, row, &needed)))
        needed = UINT64_MAX;
    if (memory->bytes < needed)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the memory has %llu bytes; this shape needs %llu",
                          (unsigned long long)memory->bytes, (unsigned long long)needed);
    if (descriptor != NULL &&
        (provider->table->domains[provider->table->default_domain - 1].imports & INLAY_MEMORY_BIT(memory->kind)) == 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s cannot import %s", provider->name, descriptor);
    return INLAY_OK;
}

inlay_status value_wrap_on(const struct provider *provider, const inlay_native_memory *memory, inlay_dtype dtype,
                           uint32_t rank, const int64_t *dims, void (*release)(void *arg), void *arg,
                           inlay_value **out_value, inlay_diag *diag)
{
    inlay_native_memory known; /* in this host's layout */
    inlay_buffer buffer = { 0 };
    device_owner *owner;
    inlay_value *value;
    inlay_status status;

    *out_value = NULL;
    sized_struct_read(&known, sizeof known, memory, memory->struct_size);
    known.struct_size = sizeof known;
    if (provider->table->buffer_import == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s cannot import native memory", provider->name);
    status = begin_value(provider, dtype, rank, dims, &value, &owner, diag);
    if (status != INLAY_OK)
        return status;
    value->capacity = value->buffer.bytes;
    status = check_native(provider, &known, value, diag);
    if (status == INLAY_OK)
        status =
            call_import(provider->table, provider->state, provider->first_domain + provider->table->default_domain - 1,
                        &known, INLAY_USE_INPUT | INLAY_USE_OUTPUT, &buffer, diag);
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

/* Imports the memory of a value on another device. */
static inlay_status import_from(const struct provider *owner, const inlay_value *value, const link_end *to,
                                inlay_buffer *out, inlay_diag *diag)
{
    const link_end from = { owner->table, owner->state, owner->first_domain, value->buffer.domain };
    inlay_buffer whole = value->buffer;

    whole.bytes = value->capacity;
    return link_between(&from, to) == LINK_IMPORT ? link_import(&from, &whole, to, out, diag) : INLAY_UNSUPPORTED;
}

static struct value_import *request_import(const inlay_value *value, const struct provider *provider, uint32_t domain)
{
    struct value_import *import = calloc(1, sizeof *import);
    const struct provider *owner = value_device(value);
    const link_end to = { provider->table, provider->state, provider->first_domain, domain };
    const inlay_native_memory memory = host_memory(owner == NULL ? value_data(value) : NULL, value->capacity);
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    if (import == NULL)
        return NULL;
    status = owner == NULL ? call_import(provider->table, provider->state, domain, &memory,
                                         INLAY_USE_INPUT | INLAY_USE_OUTPUT, &import->buffer, &why)
                           : import_from(owner, value, &to, &import->buffer, &why);
    if (status == INLAY_OK)
        import->provider = provider_retain(provider);
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
