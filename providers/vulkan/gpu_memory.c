/* Memory of a device, and copies between it and the host. */
#include "gpu.h"
#include <string.h>

enum { STAGING_BYTES = 16 << 20, MOST_READS = 64 };

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
    VkMemoryAllocateInfo allocate = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &flags };
    VkMemoryRequirements needs;
    VkMemoryPropertyFlags has;
    void *mapped = NULL;
    gpu_buffer b = { .bytes = bytes }, seen;
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
    if ((has & visible) == visible && (staging || g->fault != GPU_APART)) {
        INLAY_TRY(
            gpu_check(g, g->vk.MapMemory(g->device, b.memory, 0, VK_WHOLE_SIZE, 0, &mapped), "mapping memory", diag));
        b.mapped = mapped;
        b.cached = (has & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    }
    gpu_buffer_borrow(g, b.buffer, bytes, &seen);
    b.address = seen.address;
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

void gpu_buffer_borrow(const gpu_device *g, VkBuffer buffer, uint64_t bytes, gpu_buffer *out)
{
    const VkBufferDeviceAddressInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = buffer };

    *out = (gpu_buffer){ .buffer = buffer, .bytes = bytes, .borrowed = true };
    out->address = g->vk.GetBufferDeviceAddress(g->device, &info);
}

void gpu_buffer_drop(gpu_device *g, gpu_buffer *b)
{
    if (__atomic_load_n(&g->lost, __ATOMIC_ACQUIRE) != 0)
        return; /* the device may still write there */
    if (!b->borrowed) {
        g->vk.DestroyBuffer(g->device, b->buffer, NULL);
        g->vk.FreeMemory(g->device, b->memory, NULL);
    }
    *b = (gpu_buffer){ .bytes = 0 };
}

/* Copies that are recorded, to be submitted together. Those to and from the host go through staging memory; what is
 * read is taken from there when the work is done. The staging lock is held. */
struct batch {
    gpu_device *g;
    bool recording;
    uint64_t used; /* bytes of the staging memory */
    uint32_t read_count;
    struct {
        uint8_t *to;
        uint64_t at, bytes;
    } reads[MOST_READS];
};

static inlay_status submit(struct batch *b, inlay_diag *diag)
{
    gpu_device *g = b->g;
    uint64_t value;
    inlay_status status = INLAY_OK;

    if (!b->recording)
        return INLAY_OK;
    gpu_barrier(g, g->copy_commands);
    b->recording = false;
    INLAY_TRY(gpu_record_end(g, g->copy_commands, diag));
    INLAY_TRY(gpu_submit(g, g->copy_commands, &value, diag));
    INLAY_TRY(gpu_wait(g, value, NULL, NULL, diag));
    for (uint32_t i = 0; i < b->read_count; i++)
        memcpy(b->reads[i].to, g->staging.mapped + b->reads[i].at, b->reads[i].bytes);
done:
    b->used = b->read_count = 0;
    return status;
}

static inlay_status record(struct batch *b, VkBuffer from, VkBuffer to, VkBufferCopy region, inlay_diag *diag)
{
    gpu_device *g = b->g;

    if (!b->recording) {
        const inlay_status status = gpu_record_begin(g, g->copy_commands, diag);

        if (status != INLAY_OK)
            return status;
        gpu_barrier(g, g->copy_commands);
        b->recording = true;
    }
    g->vk.CmdCopyBuffer(g->copy_commands, from, to, 1, &region);
    return INLAY_OK;
}

/* Through memory that both see, as much at a time as it has room for. */
static inlay_status stage(struct batch *b, const gpu_copy *c, inlay_diag *diag)
{
    gpu_device *g = b->g;
    inlay_status status = INLAY_OK;

    if (g->staging.mapped == NULL)
        status = make(g, STAGING_BYTES, true, &g->staging, diag);
    for (uint64_t at = 0, n; at < c->bytes && status == INLAY_OK; at += n) {
        n = c->bytes - at < STAGING_BYTES - b->used ? c->bytes - at : STAGING_BYTES - b->used;
        if (n == 0 || b->read_count == MOST_READS) {
            status = submit(b, diag);
            n = 0;
        } else if (c->from == NULL) {
            memcpy(g->staging.mapped + b->used, (const uint8_t *)c->host + at, n);
            status = record(b, g->staging.buffer, c->to->buffer, (VkBufferCopy){ b->used, c->to_at + at, n }, diag);
        } else {
            b->reads[b->read_count].to = (uint8_t *)c->host + at;
            b->reads[b->read_count].at = b->used;
            b->reads[b->read_count++].bytes = n;
            status = record(b, c->from->buffer, g->staging.buffer, (VkBufferCopy){ c->from_at + at, b->used, n }, diag);
        }
        b->used += n;
    }
    return status;
}

inlay_status gpu_copies(gpu_device *g, const gpu_copy *list, uint32_t count, inlay_diag *diag)
{
    struct batch b = { .g = g };
    inlay_status status = gpu_alive(g, diag), ended;

    (void)pthread_mutex_lock(&g->staging_lock);
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        const gpu_copy *c = &list[i];
        const uint8_t *from = c->from == NULL ? c->host : c->from->cached ? c->from->mapped + c->from_at : NULL;
        uint8_t *to = c->to == NULL ? c->host : c->to->mapped != NULL ? c->to->mapped + c->to_at : NULL;

        if (c->bytes == 0)
            continue;
        if (from != NULL && to != NULL)
            memmove(to, from, c->bytes);
        else if (c->from != NULL && c->to != NULL)
            status = record(&b, c->from->buffer, c->to->buffer, (VkBufferCopy){ c->from_at, c->to_at, c->bytes }, diag);
        else
            status = stage(&b, c, diag);
    }
    ended = submit(&b, diag);
    (void)pthread_mutex_unlock(&g->staging_lock);
    return status != INLAY_OK ? status : ended;
}

inlay_status gpu_write(gpu_device *g, const gpu_buffer *to, uint64_t offset, const void *from, uint64_t bytes,
                       inlay_diag *diag)
{
    const gpu_copy one = { .to = to, .to_at = offset, .host = (void *)(uintptr_t)from, .bytes = bytes };

    return gpu_copies(g, &one, 1, diag);
}
