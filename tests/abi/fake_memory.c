/* The memory of the fake device: buffers whose handles are numbers, each checked when it comes back. */
#include "fake_work.h"
#include <stdlib.h>
#include <string.h>

inlay_status buffer_alloc(void *state, uint32_t domain, uint64_t bytes, inlay_buffer *out, inlay_diag *diag)
{
    struct device *d = state;
    uint32_t i = 0;

    *out = (inlay_buffer){ 0 };
    if (domain != d->domain)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "fake: domain %u is not mine, which is %u", domain, d->domain);
    (void)pthread_mutex_lock(&d->mutex);
    while (i < MAX_BUFFERS && d->buffers[i].data != NULL)
        i++;
    if (d->memory_kib > 0 && d->counters.live_kib + bytes / 1024 > (uint64_t)d->memory_kib)
        i = MAX_BUFFERS;
    if (i < MAX_BUFFERS)
        d->buffers[i].data = aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
    if (i == MAX_BUFFERS || d->buffers[i].data == NULL) {
        (void)pthread_mutex_unlock(&d->mutex);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: out of device memory");
    }
    d->buffers[i].bytes = bytes;
    count(&d->counters.live_kib, (int32_t)(bytes / 1024));
    if (d->counters.live_kib > d->counters.peak_kib)
        d->counters.peak_kib = d->counters.live_kib;
    (void)pthread_mutex_unlock(&d->mutex);
    count(&d->counters.live_buffers, 1);
    *out = (inlay_buffer){ .handle = HANDLE_BASE + i, .bytes = bytes, .domain = d->domain };
    return INLAY_OK;
}

void buffer_free(void *state, const inlay_buffer *buffer)
{
    struct device *d = state;
    uint64_t i = buffer->handle - HANDLE_BASE;

    (void)pthread_mutex_lock(&d->mutex);
    if (i < MAX_BUFFERS && d->buffers[i].data != NULL) {
        if (!d->buffers[i].foreign)
            free(d->buffers[i].data);
        d->buffers[i].data = NULL;
        d->buffers[i].foreign = false;
        count(&d->counters.live_kib, -(int32_t)(d->buffers[i].bytes / 1024));
        count(&d->counters.live_buffers, -1);
    } else {
        count(&d->counters.misuse, 1);
    }
    (void)pthread_mutex_unlock(&d->mutex);
}

/* Where a buffer lies, if it is what the host may hand in and holds `bytes`; NULL otherwise. */
char *address(struct device *d, const inlay_buffer *b, uint64_t bytes)
{
    uint64_t i = b->handle - HANDLE_BASE;
    char *data = NULL;

    if (b->domain == INLAY_DOMAIN_HOST && b->bytes >= bytes)
        return inlay_buffer_host(b);
    (void)pthread_mutex_lock(&d->mutex);
    if (b->domain == d->domain && i < MAX_BUFFERS && d->buffers[i].data != NULL && b->offset % ALIGNMENT == 0 &&
        b->offset <= d->buffers[i].bytes && b->bytes <= d->buffers[i].bytes - b->offset && bytes <= b->bytes)
        data = d->buffers[i].data + b->offset;
    (void)pthread_mutex_unlock(&d->mutex);
    if (data == NULL)
        count(&d->counters.misuse, 1);
    return data;
}

/* ------------------------------------------------------------------ memory that others see */

inlay_status buffer_map(void *state, const inlay_buffer *buffer, void **out_address, inlay_diag *diag)
{
    struct device *d = state;

    *out_address = d->unified ? address(d, buffer, 0) : NULL;
    count(&d->counters.mapped, *out_address != NULL);
    return *out_address != NULL ? INLAY_OK : inlay_fail(diag, INLAY_UNSUPPORTED, "fake: this memory is not the host's");
}

void buffer_unmap(void *state, const inlay_buffer *buffer)
{
    (void)buffer;
    count(&((struct device *)state)->counters.mapped, -1);
}

/* To others, the memory's name is the address that only this file knows. */
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

/* Memory of somebody else's as a buffer. */
static inlay_status take_foreign(struct device *d, char *data, uint64_t bytes, uint32_t *out_index, inlay_diag *diag)
{
    uint32_t i = 0;

    (void)pthread_mutex_lock(&d->mutex);
    while (i < MAX_BUFFERS && d->buffers[i].data != NULL)
        i++;
    if (i < MAX_BUFFERS) {
        d->buffers[i].data = data;
        d->buffers[i].bytes = bytes;
        d->buffers[i].foreign = true;
        count(&d->counters.live_kib, (int32_t)(bytes / 1024));
    }
    (void)pthread_mutex_unlock(&d->mutex);
    if (i == MAX_BUFFERS)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: too many buffers");
    count(&d->counters.live_buffers, 1);
    *out_index = i;
    return INLAY_OK;
}

inlay_status import_host(void *state, uint32_t domain, void *address, uint64_t bytes, inlay_buffer *out,
                         inlay_diag *diag)
{
    struct device *d = state;
    uint32_t i = 0;
    inlay_status status;

    if (!d->imports || domain != d->domain || (uintptr_t)address % 64 != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: this memory can't be taken as it is");
    status = take_foreign(d, address, bytes, &i, diag);
    if (status != INLAY_OK)
        return status;
    count(&d->counters.imported, 1);
    *out = (inlay_buffer){ .handle = HANDLE_BASE + i, .bytes = bytes, .domain = domain };
    return INLAY_OK;
}

inlay_status import_native(void *state, uint32_t domain, const inlay_native_memory *memory, inlay_buffer *out,
                           inlay_diag *diag)
{
    struct device *d = state;
    uint32_t i = 0;
    inlay_status status;

    if (domain != d->domain || memory->device_type != DL_DEVICE || memory->device_id != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: memory of device type %d is not mine",
                          (int)memory->device_type);
    status = take_foreign(d, (char *)(uintptr_t)memory->handle, memory->offset + memory->bytes, &i, diag);
    if (status != INLAY_OK)
        return status;
    *out =
        (inlay_buffer){ .handle = HANDLE_BASE + i, .offset = memory->offset, .bytes = memory->bytes, .domain = domain };
    return INLAY_OK;
}
