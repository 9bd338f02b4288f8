/* The memory of the fake device: buffers whose handles are numbers, validated at each use. */
#include "fake_work.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

inlay_status buffer_alloc(void *state, const inlay_alloc_request *request, inlay_buffer *out, inlay_diag *diag)
{
    struct device *device = state;
    inlay_status status;

    count(&device->counters.misuse, device->counters.suspended);
    (void)__atomic_fetch_or(&device->counters.uses, request->usage, __ATOMIC_RELAXED);
    (void)__atomic_fetch_or(&device->counters.lifetimes, 1u << request->lifetime, __ATOMIC_RELAXED);
    __atomic_store_n(&device->counters.memory_priority, request->priority, __ATOMIC_RELEASE);
    count(&device->counters.misuse,
          request->struct_size < sizeof *request || request->alignment % ALIGNMENT != 0 || request->bytes == 0);
    if (device->zero_handle) {
        *out = (inlay_buffer){ .domain = request->domain };
        return INLAY_OK;
    }
    status = fake_alloc(device, request->domain, request->bytes, request->alignment, out, diag);
    out->bytes = 0; /* the host sets it */
    return status;
}

/* Maps `bytes` bytes of fd, which then belongs to buffer i; -1: of new shared memory. */
static void map_shared(struct device *device, uint32_t i, int fd, uint64_t bytes)
{
    void *data = MAP_FAILED;

    if (fd < 0)
        fd = memfd_create("fake", MFD_CLOEXEC);
    if (fd >= 0 && (lseek(fd, 0, SEEK_END) >= (off_t)bytes || ftruncate(fd, (off_t)bytes) == 0))
        data = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    device->buffers[i].data = data != MAP_FAILED ? data : NULL;
    device->buffers[i].fd = fd;
    device->buffers[i].mapped = bytes;
}

inlay_status fake_alloc(struct device *device, uint32_t domain, uint64_t bytes, uint64_t alignment, inlay_buffer *out,
                        inlay_diag *diag)
{
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
    if (i < MAX_BUFFERS && device->shares != 0)
        map_shared(device, i, -1, bytes);
    else if (i < MAX_BUFFERS)
        device->buffers[i].data = aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
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

void fake_free(struct device *device, const inlay_buffer *buffer)
{
    uint64_t i = buffer->handle - HANDLE_BASE;

    (void)pthread_mutex_lock(&device->mutex);
    if (i < MAX_BUFFERS && device->buffers[i].data != NULL) {
        if (device->buffers[i].mapped > 0) {
            (void)munmap(device->buffers[i].data, device->buffers[i].mapped);
            (void)close(device->buffers[i].fd);
        } else if (!device->buffers[i].foreign) {
            free(device->buffers[i].data);
        }
        device->buffers[i].data = NULL;
        device->buffers[i].mapped = 0;
        device->buffers[i].foreign = false;
        count(&device->counters.live_kib, -(int32_t)(device->buffers[i].bytes / 1024));
        count(&device->counters.live_buffers, -1);
    } else {
        count(&device->counters.misuse, 1);
    }
    (void)pthread_mutex_unlock(&device->mutex);
}

void buffer_free(void *state, const inlay_free_request *request)
{
    struct device *device = state;

    count(&device->counters.misuse, request->struct_size < sizeof *request);
    fake_free(device, request->buffer);
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

inlay_status buffer_map(void *state, const inlay_map_request *request, void **out_address, inlay_diag *diag)
{
    struct device *device = state;

    *out_address = device->unified ? address(device, request->buffer, 0) : NULL;
    count(&device->counters.misuse,
          request->struct_size < sizeof *request || request->access != (INLAY_MAP_READ | INLAY_MAP_WRITE));
    count(&device->counters.mapped, *out_address != NULL);
    return *out_address != NULL ? INLAY_OK : inlay_fail(diag, INLAY_UNSUPPORTED, "fake: this memory is not the host's");
}

void buffer_unmap(void *state, const inlay_unmap_request *request)
{
    struct device *device = state;

    count(&device->counters.misuse, request->struct_size < sizeof *request || request->buffer->handle == 0 ||
                                        request->access != (INLAY_MAP_READ | INLAY_MAP_WRITE));
    count(&device->counters.mapped, -1);
}

/* A new descriptor of the shared memory, for the caller to close. */
static inlay_status export_shared(const struct device *device, const inlay_buffer *buffer, inlay_native_memory *out,
                                  inlay_diag *diag)
{
    const int fd = fcntl(device->buffers[buffer->handle - HANDLE_BASE].fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: no free descriptor");
    out->handle = (uint64_t)fd;
    out->offset = buffer->offset;
    out->bytes = buffer->bytes;
    out->device_type = DL_DEVICE;
    out->kind = INLAY_MEMORY_SHARED_FD;
    out->ownership = INLAY_MEMORY_OWNED;
    return INLAY_OK;
}

/* The native handle is the real address of the memory. */
inlay_status buffer_export(void *state, const inlay_export_request *request, inlay_native_memory *out, inlay_diag *diag)
{
    struct device *device = state;
    const inlay_buffer *buffer = request->buffer;
    char *data = address(device, buffer, buffer->bytes);

    if (data == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "fake: a buffer that is not mine");
    if (request->kind == INLAY_MEMORY_SHARED_FD && (device->shares & 1) != 0)
        return export_shared(device, buffer, out, diag);
    if (request->struct_size < sizeof *request || request->kind != INLAY_MEMORY_DEVICE)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: no handle of kind %u", request->kind);
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

static inlay_status import_host(struct device *device, const inlay_import_request *request, inlay_buffer *out,
                                inlay_diag *diag)
{
    const inlay_native_memory *memory = request->memory;
    uint32_t i = 0;
    inlay_status status;

    if (!device->imports || request->domain != device->domain || memory->handle % 64 != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: this memory cannot be imported");
    status = take_foreign(device, (char *)(uintptr_t)memory->handle, memory->bytes, &i, diag);
    if (status != INLAY_OK)
        return status;
    count(&device->counters.imported, 1);
    *out = (inlay_buffer){ .handle = HANDLE_BASE + i, .domain = request->domain };
    return INLAY_OK;
}

/* Memory that another device exported, or the program. */
static inlay_status import_shared(struct device *device, const inlay_import_request *request, inlay_buffer *out,
                                  inlay_diag *diag)
{
    const inlay_native_memory *memory = request->memory;
    const int fd =
        memory->ownership == INLAY_MEMORY_OWNED ? (int)memory->handle : fcntl((int)memory->handle, F_DUPFD_CLOEXEC, 0);
    char placeholder;
    uint32_t i = 0;
    inlay_status status;

    if (fd < 0 || memory->pitch != 0 || lseek(fd, 0, SEEK_END) < (off_t)(memory->offset + memory->bytes))
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "fake: this shared memory cannot be imported");
    else
        status = take_foreign(device, &placeholder, memory->offset + memory->bytes, &i, diag);
    if (status != INLAY_OK) {
        if (fd >= 0 && memory->ownership != INLAY_MEMORY_OWNED)
            (void)close(fd);
        return status;
    }
    (void)pthread_mutex_lock(&device->mutex);
    map_shared(device, i, fd, memory->offset + memory->bytes);
    (void)pthread_mutex_unlock(&device->mutex);
    count(&device->counters.imported, 1);
    *out = (inlay_buffer){ .handle = HANDLE_BASE + i, .offset = memory->offset, .domain = request->domain };
    return INLAY_OK;
}

inlay_status buffer_import(void *state, const inlay_import_request *request, inlay_buffer *out, inlay_diag *diag)
{
    const inlay_native_memory *memory = request->memory;
    struct device *device = state;
    uint32_t i = 0;
    inlay_status status;

    if (request->struct_size < sizeof *request || memory->struct_size < sizeof *memory ||
        (request->usage != (INLAY_USE_INPUT | INLAY_USE_OUTPUT) && request->usage != INLAY_USE_INNER))
        count(&device->counters.misuse, 1);
    if (memory->kind == INLAY_MEMORY_SHARED_FD && (device->shares & 2) != 0)
        return import_shared(device, request, out, diag);
    if (memory->kind == INLAY_MEMORY_HOST)
        return import_host(device, request, out, diag);
    if (memory->kind != INLAY_MEMORY_DEVICE || memory->ownership != INLAY_MEMORY_BORROWED || memory->pitch != 0 ||
        memory->modifier != 0 || request->domain != device->domain || memory->device_type != DL_DEVICE ||
        memory->device_id != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: memory of device type %d is not mine",
                          (int)memory->device_type);
    status = take_foreign(device, (char *)(uintptr_t)memory->handle, memory->offset + memory->bytes, &i, diag);
    if (status != INLAY_OK)
        return status;
    *out = (inlay_buffer){ .handle = HANDLE_BASE + i,
                           .offset = memory->offset,
                           .domain = device->no_domain ? 0 : request->domain };
    return INLAY_OK;
}
