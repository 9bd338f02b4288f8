/* The memory of the fake device: buffers whose handles are numbers, validated at each use. */
#include "fake_work.h"
#include <stdlib.h>
#include <string.h>

inlay_status buffer_alloc(void *state, uint32_t domain, uint64_t bytes, inlay_buffer *out, inlay_diag *diag)
{
    struct device *device = state;
    uint32_t i = 0;

    *out = (inlay_buffer){ 0 };
    if (domain != device->domain)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "fake: domain %u is not mine, which is %u", domain,
                          device->domain);
    (void)pthread_mutex_lock(&device->mutex);
    while (i < MAX_BUFFERS && device->buffers[i].data != NULL)
        i++;
    if (device->memory_kib > 0 && device->counters.live_kib + bytes / 1024 > (uint64_t)device->memory_kib)
        i = MAX_BUFFERS;
    if (i < MAX_BUFFERS)
        device->buffers[i].data = aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
    if (i == MAX_BUFFERS || device->buffers[i].data == NULL) {
        (void)pthread_mutex_unlock(&device->mutex);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: out of device memory");
    }
    device->buffers[i].bytes = bytes;
    count(&device->counters.live_kib, (int32_t)(bytes / 1024));
    if (device->counters.live_kib > device->counters.peak_kib)
        device->counters.peak_kib = device->counters.live_kib;
    (void)pthread_mutex_unlock(&device->mutex);
    count(&device->counters.live_buffers, 1);
    *out = (inlay_buffer){ .handle = HANDLE_BASE + i, .bytes = bytes, .domain = device->domain };
    return INLAY_OK;
}

void buffer_free(void *state, const inlay_buffer *buffer)
{
    struct device *device = state;
    uint64_t i = buffer->handle - HANDLE_BASE;

    (void)pthread_mutex_lock(&device->mutex);
    if (i < MAX_BUFFERS && device->buffers[i].data != NULL) {
        if (!device->buffers[i].foreign)
            free(device->buffers[i].data);
        device->buffers[i].data = NULL;
        device->buffers[i].foreign = false;
        count(&device->counters.live_kib, -(int32_t)(device->buffers[i].bytes / 1024));
        count(&device->counters.live_buffers, -1);
    } else {
        count(&device->counters.misuse, 1);
    }
    (void)pthread_mutex_unlock(&device->mutex);
}

/* Returns the address of a valid buffer that holds `bytes`; otherwise counts misuse and returns NULL. */
char *address(struct device *device, const inlay_buffer *buffer, uint64_t bytes)
{
    uint64_t i = buffer->handle - HANDLE_BASE;
    char *data = NULL;

    if (buffer->domain == INLAY_DOMAIN_HOST && buffer->bytes >= bytes)
        return inlay_buffer_host(buffer);
    (void)pthread_mutex_lock(&device->mutex);
    if (buffer->domain == device->domain && i < MAX_BUFFERS && device->buffers[i].data != NULL &&
        buffer->offset % ALIGNMENT == 0 && buffer->offset <= device->buffers[i].bytes &&
        buffer->bytes <= device->buffers[i].bytes - buffer->offset && bytes <= buffer->bytes)
        data = device->buffers[i].data + buffer->offset;
    (void)pthread_mutex_unlock(&device->mutex);
    if (data == NULL)
        count(&device->counters.misuse, 1);
    return data;
}

/* ------------------------------------------------------------------ mapped and shared memory */

inlay_status buffer_map(void *state, const inlay_buffer *buffer, void **out_address, inlay_diag *diag)
{
    struct device *device = state;

    *out_address = device->unified ? address(device, buffer, 0) : NULL;
    count(&device->counters.mapped, *out_address != NULL);
    return *out_address != NULL ? INLAY_OK : inlay_fail(diag, INLAY_UNSUPPORTED, "fake: this memory is not the host's");
}

void buffer_unmap(void *state, const inlay_buffer *buffer)
{
    (void)buffer;
    count(&((struct device *)state)->counters.mapped, -1);
}

/* The native handle is the real address of the memory. */
inlay_status export_native(void *state, const inlay_buffer *buffer, inlay_native_memory *out, inlay_diag *diag)
{
    char *data = address(state, buffer, buffer->bytes);

    if (data == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "fake: a buffer that is not mine");
    out->handle = (uintptr_t)data - buffer->offset;
    out->offset = buffer->offset;
    out->bytes = buffer->bytes;
    out->device_type = DL_DEVICE;
    return INLAY_OK;
}

/* Registers external memory as a buffer. */
static inlay_status take_foreign(struct device *device, char *data, uint64_t bytes, uint32_t *out_index,
                                 inlay_diag *diag)
{
    uint32_t i = 0;

    (void)pthread_mutex_lock(&device->mutex);
    while (i < MAX_BUFFERS && device->buffers[i].data != NULL)
        i++;
    if (i < MAX_BUFFERS) {
        device->buffers[i].data = data;
        device->buffers[i].bytes = bytes;
        device->buffers[i].foreign = true;
        count(&device->counters.live_kib, (int32_t)(bytes / 1024));
    }
    (void)pthread_mutex_unlock(&device->mutex);
    if (i == MAX_BUFFERS)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: too many buffers");
    count(&device->counters.live_buffers, 1);
    *out_index = i;
    return INLAY_OK;
}

inlay_status import_host(void *state, uint32_t domain, void *address, uint64_t bytes, inlay_buffer *out,
                         inlay_diag *diag)
{
    struct device *device = state;
    uint32_t i = 0;
    inlay_status status;

    if (!device->imports || domain != device->domain || (uintptr_t)address % 64 != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: this memory cannot be imported");
    status = take_foreign(device, address, bytes, &i, diag);
    if (status != INLAY_OK)
        return status;
    count(&device->counters.imported, 1);
    *out = (inlay_buffer){ .handle = HANDLE_BASE + i, .bytes = bytes, .domain = domain };
    return INLAY_OK;
}

inlay_status import_native(void *state, uint32_t domain, const inlay_native_memory *memory, inlay_buffer *out,
                           inlay_diag *diag)
{
    struct device *device = state;
    uint32_t i = 0;
    inlay_status status;

    if (domain != device->domain || memory->device_type != DL_DEVICE || memory->device_id != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: memory of device type %d is not mine",
                          (int)memory->device_type);
    status = take_foreign(device, (char *)(uintptr_t)memory->handle, memory->offset + memory->bytes, &i, diag);
    if (status != INLAY_OK)
        return status;
    *out = (inlay_buffer){ .handle = HANDLE_BASE + i,
                           .offset = memory->offset,
                           .bytes = memory->bytes,
                           .domain = device->no_domain ? 0 : domain };
    return INLAY_OK;
}
