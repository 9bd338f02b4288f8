/* Device memory. */
#include "inlay/check.h"
#include "vulkan/gpu.h"
#include <fcntl.h>
#include <unistd.h>

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

void gpu_buffer_free(gpu_device *device, gpu_buffer *buffer)
{
    if (!buffer->borrowed) {
        device->vk.DestroyBuffer(device->device, buffer->buffer, NULL);
        device->vk.FreeMemory(device->device, buffer->memory, NULL);
    }
    *buffer = (gpu_buffer){ .bytes = 0 };
}

/* What a buffer is for. */
enum { USE_STAGING = 1, USE_SHARED = 2 };

/* imported: the memory to import; imported->fd becomes -1 once the driver owns the descriptor. NULL: new memory. */
static inlay_status create_buffer(gpu_device *device, uint64_t bytes, uint32_t use, VkImportMemoryFdInfoKHR *imported,
                                  gpu_buffer *out, inlay_diag *diag)
{
    const bool staging = (use & USE_STAGING) != 0;
    const uint32_t families[] = { device->lane.family, device->uploads.lane.family };
    const VkExternalMemoryBufferCreateInfo external = { .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                        .handleTypes = device->external.types };
    const VkBufferCreateInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                      .pNext = (use & USE_SHARED) != 0 ? &external : NULL,
                                      .size = bytes > 0 ? bytes : GPU_ALIGNMENT,
                                      .usage = GPU_BUFFER_USAGE,
                                      .sharingMode = families[0] != families[1] ? VK_SHARING_MODE_CONCURRENT
                                                                                : VK_SHARING_MODE_EXCLUSIVE,
                                      .queueFamilyIndexCount = families[0] != families[1] ? 2 : 0,
                                      .pQueueFamilyIndices = families };
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
        gpu_buffer_free(device, &buffer);
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

inlay_status gpu_create_staging(gpu_device *device, gpu_buffer *out, inlay_diag *diag)
{
    return create_buffer(device, GPU_STAGING_BYTES, USE_STAGING, NULL, out, diag);
}
