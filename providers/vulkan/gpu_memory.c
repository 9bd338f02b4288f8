/* Device memory, and copies between it and the host. */
#include "inlay/check.h"
#include "vulkan/gpu.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { STAGING_BYTES = 16 << 20, MAX_READS = 64 };

static const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

/* The first allowed memory type with all flags of `want`; memoryTypeCount if there is none. */
static uint32_t find_memory_type(const gpu_device *device, uint32_t allowed, VkMemoryPropertyFlags want)
{
    uint32_t type = 0;

    while (type < device->memory.memoryTypeCount &&
           ((allowed & 1u << type) == 0 || (device->memory.memoryTypes[type].propertyFlags & want) != want))
        type++;
    return type;
}

/* Tensors get device-local memory, host-visible if such a type exists. Staging memory is host-visible. */
static uint32_t choose_memory_type(const gpu_device *device, uint32_t allowed, bool staging)
{
    const VkMemoryPropertyFlags cached = visible | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const VkMemoryPropertyFlags orders[2][3] = { { local | cached, local, 0 }, { cached, visible, visible } };
    uint32_t type = device->memory.memoryTypeCount;

    for (uint32_t i = 0; i < 3 && type == device->memory.memoryTypeCount; i++)
        type = find_memory_type(device, allowed, orders[staging][i]);
    return type;
}

/* The memory types that imported memory can have. An opaque descriptor has the type of the exporter's buffer, which was
 * chosen in the same way. */
static uint32_t imported_types(const gpu_device *device, const VkImportMemoryFdInfoKHR *imported)
{
    VkMemoryFdPropertiesKHR of_descriptor = { .sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR };

    if (imported == NULL || imported->handleType != VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT)
        return UINT32_MAX;
    return device->vk.GetMemoryFdPropertiesKHR(device->device, imported->handleType, imported->fd, &of_descriptor) ==
                   VK_SUCCESS
               ? of_descriptor.memoryTypeBits
               : 0;
}

/* What a buffer is for. */
enum { USE_STAGING = 1, USE_SHARED = 2 };

/* imported: the memory to import; imported->fd becomes -1 once the driver owns the descriptor. NULL: new memory. */
static inlay_status create_buffer(gpu_device *device, uint64_t bytes, uint32_t use, VkImportMemoryFdInfoKHR *imported,
                                  gpu_buffer *out, inlay_diag *diag)
{
    const bool staging = (use & USE_STAGING) != 0;
    const VkExternalMemoryBufferCreateInfo external = { .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                        .handleTypes = device->external.types };
    const VkBufferCreateInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                      .pNext = (use & USE_SHARED) != 0 ? &external : NULL,
                                      .size = bytes > 0 ? bytes : GPU_ALIGNMENT,
                                      .usage = GPU_BUFFER_USAGE };
    const VkMemoryAllocateFlagsInfo flags = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                              .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT };
    const VkExportMemoryAllocateInfo exported = { .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                                  .pNext = &flags,
                                                  .handleTypes = device->external.types };
    VkMemoryAllocateInfo allocate = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                      .pNext = imported != NULL          ? (const void *)imported
                                               : (use & USE_SHARED) != 0 ? (const void *)&exported
                                                                         : &flags };
    VkMemoryRequirements needs;
    VkMemoryPropertyFlags has;
    uint64_t left;
    void *mapped = NULL;
    gpu_buffer buffer = { .bytes = bytes, .shared = (use & USE_SHARED) != 0 && imported == NULL }, wrapped;
    inlay_status status = gpu_check(device, device->vk.CreateBuffer(device->device, &info, NULL, &buffer.buffer),
                                    "making a buffer", diag);

    if (status != INLAY_OK)
        return status;
    if (imported != NULL)
        imported->pNext = &flags;
    device->vk.GetBufferMemoryRequirements(device->device, buffer.buffer, &needs);
    needs.memoryTypeBits &= imported_types(device, imported);
    allocate.allocationSize = needs.size;
    allocate.memoryTypeIndex = choose_memory_type(device, needs.memoryTypeBits, staging);
    if (allocate.memoryTypeIndex == device->memory.memoryTypeCount) {
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "Vulkan device %s has no memory for buffers", device->facts.name);
        goto done;
    }
    left = gpu_memory_left(&device->vk, &device->facts, device->memory.memoryTypes[allocate.memoryTypeIndex].heapIndex);
    /* Drivers allocate beyond the budget, and then move memory to and fro. */
    if (imported == NULL && needs.size > left) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY,
                            "Vulkan device %s has %llu of %llu bytes left for this process; a smaller batch or "
                            "memory_limit helps",
                            device->facts.name, (unsigned long long)left, (unsigned long long)needs.size);
        goto done;
    }
    if (gpu_fault_due(device, GPU_FAULT_MEMORY) ||
        device->vk.AllocateMemory(device->device, &allocate, NULL, &buffer.memory) != VK_SUCCESS) {
        buffer.memory = VK_NULL_HANDLE;
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY,
                            "Vulkan device %s has no room for %llu bytes; a smaller batch "
                            "or memory_limit helps",
                            device->facts.name, (unsigned long long)bytes);
        goto done;
    }
    if (imported != NULL)
        imported->fd = -1;
    INLAY_TRY(gpu_check(device, device->vk.BindBufferMemory(device->device, buffer.buffer, buffer.memory, 0),
                        "binding memory", diag));
    has = device->memory.memoryTypes[allocate.memoryTypeIndex].propertyFlags;
    if ((has & visible) == visible && (staging || device->fault != GPU_FAULT_SEPARATE_MEMORY)) {
        INLAY_TRY(gpu_check(device, device->vk.MapMemory(device->device, buffer.memory, 0, VK_WHOLE_SIZE, 0, &mapped),
                            "mapping memory", diag));
        buffer.mapped = mapped;
        buffer.cached = (has & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    }
    gpu_buffer_wrap(device, buffer.buffer, bytes, &wrapped);
    buffer.address = wrapped.address;
done:
    if (status != INLAY_OK)
        gpu_buffer_destroy(device, &buffer);
    else
        *out = buffer;
    return status;
}

inlay_status gpu_buffer_create(gpu_device *device, uint64_t bytes, gpu_buffer *out, inlay_diag *diag)
{
    inlay_status status = gpu_check_alive(device, diag);

    *out = (gpu_buffer){ .bytes = 0 };
    return status == INLAY_OK ? create_buffer(device, bytes, 0, NULL, out, diag) : status;
}

inlay_status gpu_buffer_create_shared(gpu_device *device, uint64_t bytes, gpu_buffer *out, inlay_diag *diag)
{
    inlay_status status = gpu_check_alive(device, diag);

    *out = (gpu_buffer){ .bytes = 0 };
    return status == INLAY_OK
               ? create_buffer(device, bytes, device->external.types != 0 ? USE_SHARED : 0, NULL, out, diag)
               : status;
}

inlay_status gpu_buffer_export(gpu_device *device, const gpu_buffer *buffer, uint32_t kind, int *out_fd,
                               inlay_diag *diag)
{
    const VkMemoryGetFdInfoKHR info = { .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                        .memory = buffer->memory,
                                        .handleType = gpu_external_type(kind) };

    if (!buffer->shared || (device->external.exports & INLAY_MEMORY_BIT(kind)) == 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "this memory of Vulkan device %s has no descriptor of kind %u",
                          device->facts.name, kind);
    return gpu_check(device, device->vk.GetMemoryFdKHR(device->device, &info, out_fd), "exporting memory", diag);
}

inlay_status gpu_buffer_import(gpu_device *device, uint32_t kind, int fd, uint64_t bytes, gpu_buffer *out,
                               inlay_diag *diag)
{
    const off_t size = lseek(fd, 0, SEEK_END); /* -1: the driver's descriptors have no size */
    VkImportMemoryFdInfoKHR imported = { .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
                                         .handleType = gpu_external_type(kind) };
    inlay_status status = gpu_check_alive(device, diag);

    *out = (gpu_buffer){ .bytes = 0 };
    if (status != INLAY_OK)
        return status;
    if (size >= 0 && (uint64_t)size < bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the memory has %lld bytes, not %llu", (long long)size,
                          (unsigned long long)bytes);
    imported.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* for the driver, if it accepts the memory */
    if (imported.fd < 0)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no free file descriptor");
    status = create_buffer(device, bytes, USE_SHARED, &imported, out, diag);
    if (imported.fd >= 0)
        (void)close(imported.fd);
    return status;
}

void gpu_buffer_wrap(const gpu_device *device, VkBuffer buffer, uint64_t bytes, gpu_buffer *out)
{
    const VkBufferDeviceAddressInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = buffer };

    INLAY_CHECK(buffer != VK_NULL_HANDLE);
    *out = (gpu_buffer){ .buffer = buffer, .bytes = bytes, .borrowed = true };
    out->address = device->vk.GetBufferDeviceAddress(device->device, &info);
}

void gpu_buffer_destroy(gpu_device *device, gpu_buffer *buffer)
{
    if (__atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) != 0)
        return; /* the device may still write to it */
    if (!buffer->borrowed) {
        device->vk.DestroyBuffer(device->device, buffer->buffer, NULL);
        device->vk.FreeMemory(device->device, buffer->memory, NULL);
    }
    *buffer = (gpu_buffer){ .bytes = 0 };
}

/* Copies that are recorded for one submission. Copies from and to the host use staging memory; after the wait, data for
 * the host is copied out of staging memory. The caller holds staging_lock. */
struct batch {
    gpu_device *device;
    bool recording;
    uint64_t used; /* bytes of staging memory in use */
    uint32_t read_count;
    struct {
        uint8_t *to;
        uint64_t at, bytes;
    } reads[MAX_READS];
};

static inlay_status submit(struct batch *batch, inlay_diag *diag)
{
    gpu_device *device = batch->device;
    uint64_t value;
    inlay_status status = INLAY_OK;

    if (!batch->recording)
        return INLAY_OK;
    gpu_barrier(device, device->copy_commands);
    batch->recording = false;
    INLAY_TRY(gpu_record_end(device, device->copy_commands, diag));
    INLAY_TRY(gpu_submit(device, device->copy_commands, &value, diag));
    INLAY_TRY(gpu_wait(device, value, NULL, NULL, diag));
    INLAY_CHECK(batch->read_count <= MAX_READS && batch->used <= STAGING_BYTES);
    for (uint32_t i = 0; i < batch->read_count; i++)
        memcpy(batch->reads[i].to, device->staging.mapped + batch->reads[i].at, batch->reads[i].bytes);
done:
    batch->used = batch->read_count = 0;
    return status;
}

static inlay_status record(struct batch *batch, VkBuffer from, VkBuffer to, VkBufferCopy region, inlay_diag *diag)
{
    gpu_device *device = batch->device;

    if (!batch->recording) {
        const inlay_status status = gpu_record_begin(device, device->copy_commands, diag);

        if (status != INLAY_OK)
            return status;
        gpu_barrier(device, device->copy_commands);
        batch->recording = true;
    }
    device->vk.CmdCopyBuffer(device->copy_commands, from, to, 1, &region);
    return INLAY_OK;
}

/* Copies through staging memory, in pieces of at most its free size. */
static inlay_status copy_through_staging(struct batch *batch, const gpu_copy *copy, inlay_diag *diag)
{
    gpu_device *device = batch->device;
    inlay_status status = INLAY_OK;

    INLAY_CHECK((copy->from == NULL) != (copy->to == NULL));
    if (device->staging.mapped == NULL)
        status = create_buffer(device, STAGING_BYTES, USE_STAGING, NULL, &device->staging, diag);
    for (uint64_t at = 0, n; at < copy->bytes && status == INLAY_OK; at += n) {
        n = copy->bytes - at < STAGING_BYTES - batch->used ? copy->bytes - at : STAGING_BYTES - batch->used;
        if (n == 0 || batch->read_count == MAX_READS) {
            status = submit(batch, diag);
            n = 0;
        } else if (copy->from == NULL) {
            memcpy(device->staging.mapped + batch->used, (const uint8_t *)copy->host + at, n);
            status = record(batch, device->staging.buffer, copy->to->buffer,
                            (VkBufferCopy){ batch->used, copy->to_at + at, n }, diag);
        } else {
            batch->reads[batch->read_count].to = (uint8_t *)copy->host + at;
            batch->reads[batch->read_count].at = batch->used;
            batch->reads[batch->read_count++].bytes = n;
            status = record(batch, copy->from->buffer, device->staging.buffer,
                            (VkBufferCopy){ copy->from_at + at, batch->used, n }, diag);
        }
        INLAY_CHECK(batch->used + n <= STAGING_BYTES);
        batch->used += n;
    }
    return status;
}

inlay_status gpu_copy_list(gpu_device *device, const gpu_copy *list, uint32_t count, inlay_diag *diag)
{
    struct batch batch = { .device = device };
    inlay_status status = gpu_check_alive(device, diag), ended;

    (void)pthread_mutex_lock(&device->staging_lock);
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        const gpu_copy *copy = &list[i];
        const uint8_t *from = copy->from == NULL   ? copy->host
                              : copy->from->cached ? copy->from->mapped + copy->from_at
                                                   : NULL;
        uint8_t *to = copy->to == NULL ? copy->host : copy->to->mapped != NULL ? copy->to->mapped + copy->to_at : NULL;

        if (copy->bytes == 0)
            continue;
        INLAY_CHECK((copy->from == NULL || copy->from_at + copy->bytes <= copy->from->bytes) &&
                    (copy->to == NULL || copy->to_at + copy->bytes <= copy->to->bytes));
        if (from != NULL && to != NULL)
            memmove(to, from, copy->bytes);
        else if (copy->from != NULL && copy->to != NULL)
            status = record(&batch, copy->from->buffer, copy->to->buffer,
                            (VkBufferCopy){ copy->from_at, copy->to_at, copy->bytes }, diag);
        else
            status = copy_through_staging(&batch, copy, diag);
    }
    ended = submit(&batch, diag);
    (void)pthread_mutex_unlock(&device->staging_lock);
    return status != INLAY_OK ? status : ended;
}

inlay_status gpu_write(gpu_device *device, const gpu_buffer *to, uint64_t offset, const void *from, uint64_t bytes,
                       inlay_diag *diag)
{
    const gpu_copy one = { .to = to, .to_at = offset, .host = (void *)(uintptr_t)from, .bytes = bytes };

    return gpu_copy_list(device, &one, 1, diag);
}
