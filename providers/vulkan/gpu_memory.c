/* Memory of a device, and copies between it and the host. */
#include "gpu.h"
#include <string.h>

enum { STAGING_BYTES = 16 << 20 };

static const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

/* The first type of memory among those allowed that has all of want; memoryTypeCount: none has. */
static uint32_t find_type(const gpu_device *g, uint32_t allowed, VkMemoryPropertyFlags want)
{
    uint32_t t = 0;

    while (t < g->memory.memoryTypeCount &&
           ((allowed & 1u << t) == 0 || (g->memory.memoryTypes[t].propertyFlags & want) != want))
        t++;
    return t;
}

/* Memory for tensors is local to the device, and the host's too where that costs nothing; that of staging the host's.
 */
static uint32_t choose_type(const gpu_device *g, uint32_t allowed, bool staging)
{
    const VkMemoryPropertyFlags cached = visible | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const VkMemoryPropertyFlags orders[2][3] = { { local | cached, local, 0 }, { cached, visible, visible } };
    uint32_t t = g->memory.memoryTypeCount;

    for (uint32_t i = 0; i < 3 && t == g->memory.memoryTypeCount; i++)
        t = find_type(g, allowed, orders[staging][i]);
    return t;
}

static inlay_status make(gpu_device *g, uint64_t bytes, bool staging, gpu_buffer *out, inlay_diag *diag)
{
    const VkBufferCreateInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                      .size = bytes > 0 ? bytes : GPU_ALIGNMENT,
                                      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                               VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                               VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT };
    const VkMemoryAllocateFlagsInfo flags = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                              .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT };
    VkBufferDeviceAddressInfo address = { .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO };
    VkMemoryAllocateInfo allocate = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &flags };
    VkMemoryRequirements needs;
    VkMemoryPropertyFlags has;
    void *mapped = NULL;
    gpu_buffer b = { .bytes = bytes };
    inlay_status status = gpu_check(g, g->vk.CreateBuffer(g->device, &info, NULL, &b.buffer), "making a buffer", diag);

    if (status != INLAY_OK)
        return status;
    g->vk.GetBufferMemoryRequirements(g->device, b.buffer, &needs);
    allocate.allocationSize = needs.size;
    allocate.memoryTypeIndex = choose_type(g, needs.memoryTypeBits, staging);
    if (allocate.memoryTypeIndex == g->memory.memoryTypeCount) {
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "Vulkan device %s has no memory for buffers", g->facts.name);
        goto done;
    }
    if (gpu_strikes(g, GPU_MEMORY) || g->vk.AllocateMemory(g->device, &allocate, NULL, &b.memory) != VK_SUCCESS) {
        b.memory = VK_NULL_HANDLE;
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY,
                            "Vulkan device %s has no room for %llu bytes; a smaller batch "
                            "or memory_limit helps",
                            g->facts.name, (unsigned long long)bytes);
        goto done;
    }
    INLAY_TRY(gpu_check(g, g->vk.BindBufferMemory(g->device, b.buffer, b.memory, 0), "binding memory", diag));
    has = g->memory.memoryTypes[allocate.memoryTypeIndex].propertyFlags;
    if ((has & visible) == visible) {
        INLAY_TRY(
            gpu_check(g, g->vk.MapMemory(g->device, b.memory, 0, VK_WHOLE_SIZE, 0, &mapped), "mapping memory", diag));
        b.mapped = mapped;
        b.cached = (has & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    }
    address.buffer = b.buffer;
    b.address = g->vk.GetBufferDeviceAddress(g->device, &address);
done:
    if (status != INLAY_OK)
        gpu_buffer_drop(g, &b);
    else
        *out = b;
    return status;
}

inlay_status gpu_buffer_make(gpu_device *g, uint64_t bytes, gpu_buffer *out, inlay_diag *diag)
{
    inlay_status status = gpu_alive(g, diag);

    *out = (gpu_buffer){ .bytes = 0 };
    return status == INLAY_OK ? make(g, bytes, false, out, diag) : status;
}

void gpu_buffer_drop(gpu_device *g, gpu_buffer *b)
{
    if (__atomic_load_n(&g->lost, __ATOMIC_ACQUIRE) != 0)
        return; /* the device may still write there */
    g->vk.DestroyBuffer(g->device, b->buffer, NULL);
    g->vk.FreeMemory(g->device, b->memory, NULL);
    *b = (gpu_buffer){ .bytes = 0 };
}

/* Submits the copy that is recorded and waits; the staging lock is held. */
static inlay_status copy_now(gpu_device *g, VkBuffer from, uint64_t from_offset, VkBuffer to, uint64_t to_offset,
                             uint64_t bytes, inlay_diag *diag)
{
    const VkBufferCopy region = { .srcOffset = from_offset, .dstOffset = to_offset, .size = bytes };
    uint64_t value;
    inlay_status status = gpu_record_begin(g, g->copy_commands, diag);

    if (status != INLAY_OK)
        return status;
    gpu_barrier(g, g->copy_commands);
    g->vk.CmdCopyBuffer(g->copy_commands, from, to, 1, &region);
    gpu_barrier(g, g->copy_commands);
    status = gpu_record_end(g, g->copy_commands, diag);
    if (status == INLAY_OK)
        status = gpu_submit(g, g->copy_commands, &value, diag);
    return status == INLAY_OK ? gpu_wait(g, value, NULL, NULL, diag) : status;
}

/* Through memory that both see, a piece at a time. */
static inlay_status through_staging(gpu_device *g, const gpu_buffer *b, uint64_t offset, uint8_t *host, uint64_t bytes,
                                    bool write, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    (void)pthread_mutex_lock(&g->staging_lock);
    if (g->staging.mapped == NULL)
        status = make(g, STAGING_BYTES, true, &g->staging, diag);
    for (uint64_t at = 0; at < bytes && status == INLAY_OK; at += STAGING_BYTES) {
        const uint64_t n = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;

        if (write) {
            memcpy(g->staging.mapped, host + at, n);
            status = copy_now(g, g->staging.buffer, 0, b->buffer, offset + at, n, diag);
        } else {
            status = copy_now(g, b->buffer, offset + at, g->staging.buffer, 0, n, diag);
            if (status == INLAY_OK)
                memcpy(host + at, g->staging.mapped, n);
        }
    }
    (void)pthread_mutex_unlock(&g->staging_lock);
    return status;
}

static inlay_status host_copy(gpu_device *g, const gpu_buffer *b, uint64_t offset, uint8_t *host, uint64_t bytes,
                              bool write, inlay_diag *diag)
{
    inlay_status status = gpu_alive(g, diag);

    if (status != INLAY_OK || bytes == 0)
        return status;
    if (b->mapped == NULL || (!write && !b->cached))
        return through_staging(g, b, offset, host, bytes, write, diag);
    (void)memcpy(write ? b->mapped + offset : host, write ? host : b->mapped + offset, bytes);
    return INLAY_OK;
}

inlay_status gpu_write(gpu_device *g, const gpu_buffer *to, uint64_t offset, const void *from, uint64_t bytes,
                       inlay_diag *diag)
{
    return host_copy(g, to, offset, (uint8_t *)(uintptr_t)from, bytes, true, diag);
}

inlay_status gpu_read(gpu_device *g, const gpu_buffer *from, uint64_t offset, void *to, uint64_t bytes,
                      inlay_diag *diag)
{
    return host_copy(g, from, offset, to, bytes, false, diag);
}

inlay_status gpu_copy(gpu_device *g, const gpu_buffer *from, uint64_t from_offset, const gpu_buffer *to,
                      uint64_t to_offset, uint64_t bytes, inlay_diag *diag)
{
    inlay_status status = gpu_alive(g, diag);

    if (status != INLAY_OK || bytes == 0)
        return status;
    if (from->cached && to->mapped != NULL) {
        memmove(to->mapped + to_offset, from->mapped + from_offset, bytes);
        return INLAY_OK;
    }
    (void)pthread_mutex_lock(&g->staging_lock);
    status = copy_now(g, from->buffer, from_offset, to->buffer, to_offset, bytes, diag);
    (void)pthread_mutex_unlock(&g->staging_lock);
    return status;
}
