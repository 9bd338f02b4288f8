/* Copies between the host and the device. Uploads: data are collected in one slot of staging memory while the device
 * copies from the other, so that the host packs the next weights meanwhile. Buffers are shared by both queue families:
 * their owner never changes. */
#include "inlay/check.h"
#include "vulkan/gpu.h"
#include <string.h>

enum { MAX_READS = 64 };

/* Memory that the application owns may only be used by the queue family of shaders. */
static bool can_upload(const gpu_device *device, const gpu_buffer *to)
{
    return !to->borrowed || device->uploads.lane.family == device->lane.family;
}

static bool is_free(gpu_device *device, uint32_t slot)
{
    uint64_t done = 0;

    return device->uploads.slots[slot].value == 0 ||
           (device->vk.GetSemaphoreCounterValue(device->device, device->uploads.lane.timeline, &done) == VK_SUCCESS &&
            done >= device->uploads.slots[slot].value);
}

/* Begins to record commands of a slot whose earlier commands are complete. */
static inlay_status begin(gpu_device *device, inlay_diag *diag)
{
    const VkMemoryBarrier barrier = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                      .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                      .dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT };
    const VkCommandBufferBeginInfo begin_info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO };
    gpu_uploads *uploads = &device->uploads;
    const VkCommandBufferAllocateInfo allocate = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                   .commandPool = uploads->lane.pool,
                                                   .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                   .commandBufferCount = 1 };
    inlay_status status = INLAY_OK;

    if (!is_free(device, uploads->current))
        uploads->current ^= 1;
    if (!is_free(device, uploads->current))
        INLAY_TRY(gpu_wait_upload(device, uploads->slots[uploads->current].value, diag));
    if (uploads->slots[uploads->current].memory.mapped == NULL)
        INLAY_TRY(gpu_create_staging(device, &uploads->slots[uploads->current].memory, diag));
    if (uploads->slots[uploads->current].commands == VK_NULL_HANDLE)
        INLAY_TRY(gpu_check(
            device,
            device->vk.AllocateCommandBuffers(device->device, &allocate, &uploads->slots[uploads->current].commands),
            "making command buffers", diag));
    INLAY_TRY(gpu_check(device, device->vk.BeginCommandBuffer(uploads->slots[uploads->current].commands, &begin_info),
                        "recording commands", diag));
    /* an upload may replace an earlier one */
    device->vk.CmdPipelineBarrier(uploads->slots[uploads->current].commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                  VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    uploads->recording = true;
    uploads->used = 0;
done:
    return status;
}

/* Submits the current slot. */
static inlay_status upload_submit(gpu_device *device, inlay_diag *diag)
{
    gpu_uploads *uploads = &device->uploads;
    const VkCommandBuffer commands = uploads->slots[uploads->current].commands;
    uint64_t value;
    inlay_status status = INLAY_OK;

    if (!uploads->recording)
        return INLAY_OK;
    INLAY_CHECK(uploads->used <= GPU_STAGING_BYTES);
    uploads->recording = false;
    INLAY_TRY(gpu_check(device, device->vk.EndCommandBuffer(commands), "recording commands", diag));
    INLAY_TRY(gpu_submit_upload(device, commands, &value, diag));
    uploads->slots[uploads->current].value = value;
done:
    return status;
}

/* Copies the data to staging memory and records the transfer. */
static inlay_status upload(gpu_device *device, const gpu_buffer *to, uint64_t offset, const void *from, uint64_t bytes,
                           inlay_diag *diag)
{
    gpu_uploads *uploads = &device->uploads;
    inlay_status status = INLAY_OK;

    for (uint64_t at = 0, n; at < bytes; at += n) {
        const uint64_t left = bytes - at;

        if (uploads->recording && uploads->used == GPU_STAGING_BYTES)
            INLAY_TRY(upload_submit(device, diag));
        if (!uploads->recording)
            INLAY_TRY(begin(device, diag));
        n = left < GPU_STAGING_BYTES - uploads->used ? left : GPU_STAGING_BYTES - uploads->used;
        memcpy(uploads->slots[uploads->current].memory.mapped + uploads->used, (const uint8_t *)from + at, n);
        device->vk.CmdCopyBuffer(uploads->slots[uploads->current].commands,
                                 uploads->slots[uploads->current].memory.buffer, to->buffer, 1,
                                 &(VkBufferCopy){ uploads->used, offset + at, n });
        uploads->used += n;
    }
done:
    return status;
}

/* Submits the current slot and waits for all uploads. */
static inlay_status upload_wait(gpu_device *device, inlay_diag *diag)
{
    inlay_status status = upload_submit(device, diag);

    for (uint32_t slot = 0; slot < 2 && status == INLAY_OK; slot++)
        if (!is_free(device, slot))
            status = gpu_wait_upload(device, device->uploads.slots[slot].value, diag);
    return status;
}

void gpu_buffer_destroy(gpu_device *device, gpu_buffer *buffer)
{
    inlay_diag ignored = INLAY_DIAG_INIT;

    if (buffer->buffer != VK_NULL_HANDLE && buffer->mapped == NULL && gpu_check_alive(device, &ignored) == INLAY_OK) {
        (void)pthread_mutex_lock(&device->staging_lock);
        (void)upload_wait(device, &ignored);
        (void)pthread_mutex_unlock(&device->staging_lock);
    }
    if (gpu_check_alive(device, &ignored) == INLAY_OK) /* otherwise it may still write to the buffer */
        gpu_buffer_free(device, buffer);
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
    INLAY_CHECK(batch->read_count <= MAX_READS && batch->used <= GPU_STAGING_BYTES);
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
        status = gpu_create_staging(device, &device->staging, diag);
    for (uint64_t at = 0, n; at < copy->bytes && status == INLAY_OK; at += n) {
        n = copy->bytes - at < GPU_STAGING_BYTES - batch->used ? copy->bytes - at : GPU_STAGING_BYTES - batch->used;
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
        INLAY_CHECK(batch->used + n <= GPU_STAGING_BYTES);
        batch->used += n;
    }
    return status;
}

inlay_status gpu_copy_list(gpu_device *device, const gpu_copy *list, uint32_t count, inlay_diag *diag)
{
    struct batch batch = { .device = device };
    bool others_see_it = false;
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
        else if (copy->to != NULL && can_upload(device, copy->to))
            status = upload(device, copy->to, copy->to_at, copy->host, copy->bytes, diag);
        else
            status = copy_through_staging(&batch, copy, diag);
        others_see_it |= copy->to != NULL && (copy->to->shared || copy->to->borrowed);
    }
    if (status == INLAY_OK)
        status = others_see_it ? upload_wait(device, diag) : upload_submit(device, diag);
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

inlay_status gpu_write_later(gpu_device *device, const gpu_buffer *to, uint64_t offset, const void *from,
                             uint64_t bytes, inlay_diag *diag)
{
    inlay_status status;

    if (to->mapped != NULL)
        return gpu_write(device, to, offset, from, bytes, diag);
    (void)pthread_mutex_lock(&device->staging_lock);
    status = upload(device, to, offset, from, bytes, diag);
    (void)pthread_mutex_unlock(&device->staging_lock);
    return status;
}
