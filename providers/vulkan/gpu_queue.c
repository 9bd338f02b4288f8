/* Command buffers, submissions, waits and pipelines. */
#include "inlay/check.h"
#include "vulkan/gpu.h"
#include "simd/clock.h"
#include <stdlib.h>
#include <string.h>

enum { GRACE_MS = 5000 }; /* maximum wait for a device that is already lost */

inlay_status gpu_check(gpu_device *device, VkResult result, const char *what, inlay_diag *diag)
{
    const char *name = device->facts.name[0] != '\0' ? device->facts.name : "Vulkan";

    if (result >= 0)
        return INLAY_OK;
    if (result == VK_ERROR_DEVICE_LOST) {
        __atomic_store_n(&device->lost, 1u, __ATOMIC_RELEASE);
        return inlay_fail(diag, INLAY_DEVICE_LOST, "%s was lost while %s; close the session and open it again", name,
                          what);
    }
    return inlay_fail(diag,
                      result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY
                          ? INLAY_OUT_OF_MEMORY
                          : INLAY_INTERNAL,
                      "%s: %s failed (%d)", name, what, (int)result);
}

inlay_status gpu_check_alive(gpu_device *device, inlay_diag *diag)
{
    if (__atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_DEVICE_LOST, "%s was lost before; close the session and open it again",
                      device->facts.name);
}

inlay_status gpu_commands_create(gpu_device *device, uint32_t count, VkCommandBuffer *out, inlay_diag *diag)
{
    const VkCommandBufferAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .commandPool = device->lane.pool,
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = count };
    VkResult result;

    INLAY_CHECK(count > 0);
    (void)pthread_mutex_lock(&device->queue_lock);
    result = device->vk.AllocateCommandBuffers(device->device, &info, out);
    (void)pthread_mutex_unlock(&device->queue_lock);
    return gpu_check(device, result, "making command buffers", diag);
}

void gpu_commands_destroy(gpu_device *device, uint32_t count, VkCommandBuffer *commands)
{
    if (count == 0 || __atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) != 0)
        return;
    (void)pthread_mutex_lock(&device->queue_lock);
    device->vk.FreeCommandBuffers(device->device, device->lane.pool, count, commands);
    (void)pthread_mutex_unlock(&device->queue_lock);
}

inlay_status gpu_record_begin(gpu_device *device, VkCommandBuffer commands, inlay_diag *diag)
{
    const VkCommandBufferBeginInfo begin = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO };
    inlay_status status;

    (void)pthread_mutex_lock(&device->queue_lock);
    status = gpu_check(device, device->vk.BeginCommandBuffer(commands, &begin), "recording commands", diag);
    if (status != INLAY_OK)
        (void)pthread_mutex_unlock(&device->queue_lock);
    return status;
}

inlay_status gpu_record_end(gpu_device *device, VkCommandBuffer commands, inlay_diag *diag)
{
    VkResult result = device->vk.EndCommandBuffer(commands);

    (void)pthread_mutex_unlock(&device->queue_lock);
    return gpu_check(device, result, "recording commands", diag);
}

void gpu_barrier(gpu_device *device, VkCommandBuffer commands)
{
    const VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT;
    const VkMemoryBarrier barrier = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                      .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                      .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT };

    device->vk.CmdPipelineBarrier(commands, stages, stages, 0, 1, &barrier, 0, NULL, 0, NULL);
}

bool gpu_fault_due(gpu_device *device, gpu_fault fault)
{
    const bool now = device->fault == fault && __atomic_fetch_sub(&device->fault_countdown, 1, __ATOMIC_RELAXED) == 1;

    INLAY_CHECK(fault != GPU_FAULT_NONE);
    if (now && fault == GPU_FAULT_HANG) /* later submissions do not complete either */
        __atomic_store_n(&device->fault_countdown, 1, __ATOMIC_RELAXED);
    return now;
}

/* wait: the lane whose submissions come first, up to *waited; or NULL. */
static inlay_status submit_to(gpu_device *device, gpu_lane *lane, const gpu_lane *wait, uint64_t *waited,
                              VkCommandBuffer commands, uint64_t *out_value, inlay_diag *diag)
{
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkTimelineSemaphoreSubmitInfo values = { .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                             .signalSemaphoreValueCount = 1 };
    VkSubmitInfo info = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                          .pNext = &values,
                          .commandBufferCount = 1,
                          .pCommandBuffers = &commands,
                          .signalSemaphoreCount = 1,
                          .pSignalSemaphores = &lane->timeline };
    inlay_status status = gpu_check_alive(device, diag);
    uint64_t behind;
    VkResult result;
    bool hangs;

    if (status != INLAY_OK)
        return status;
    (void)pthread_mutex_lock(&device->queue_lock);
    INLAY_CHECK(lane->last_sent <= lane->last_submitted);
    *out_value = lane->last_submitted + 1;
    values.pSignalSemaphoreValues = out_value;
    behind = wait != NULL ? wait->last_submitted : 0;
    if (wait != NULL && behind > *waited) {
        values.waitSemaphoreValueCount = info.waitSemaphoreCount = 1;
        values.pWaitSemaphoreValues = &behind;
        info.pWaitSemaphores = &wait->timeline;
        info.pWaitDstStageMask = &stages;
    }
    hangs = gpu_fault_due(device, GPU_FAULT_HANG);
    result = gpu_fault_due(device, GPU_FAULT_LOST) ? VK_ERROR_DEVICE_LOST
             : hangs                               ? VK_SUCCESS
                                                   : device->vk.QueueSubmit(lane->queue, 1, &info, VK_NULL_HANDLE);
    if (result == VK_SUCCESS)
        lane->last_submitted = *out_value;
    if (result == VK_SUCCESS && wait != NULL)
        *waited = behind;
    if (!hangs)
        lane->last_sent = lane->last_submitted;
    (void)pthread_mutex_unlock(&device->queue_lock);
    return gpu_check(device, result, "submitting work", diag);
}

inlay_status gpu_submit(gpu_device *device, VkCommandBuffer commands, uint64_t *out_value, inlay_diag *diag)
{
    return submit_to(device, &device->lane, &device->uploads.lane, &device->uploads.waited, commands, out_value, diag);
}

inlay_status gpu_submit_upload(gpu_device *device, VkCommandBuffer commands, uint64_t *out_value, inlay_diag *diag)
{
    return submit_to(device, &device->uploads.lane, NULL, NULL, commands, out_value, diag);
}

static inlay_status wait_at_most(gpu_device *device, const gpu_lane *lane, uint64_t value, uint32_t limit_ms,
                                 gpu_poll_fn poll, void *user, inlay_diag *diag)
{
    const VkSemaphoreWaitInfo info = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                       .semaphoreCount = 1,
                                       .pSemaphores = &lane->timeline,
                                       .pValues = &value };
    const uint64_t slice_ns = 5000000, end = clock_ns() / 1000000 + limit_ms;
    inlay_status status = INLAY_OK;

    for (;;) {
        const VkResult result = device->vk.WaitSemaphores(device->device, &info, slice_ns);

        if (result == VK_SUCCESS)
            return status;
        if (result != VK_TIMEOUT)
            return gpu_check(device, result, "waiting for work", diag);
        if (clock_ns() / 1000000 > end) {
            __atomic_store_n(&device->lost, 1u, __ATOMIC_RELEASE);
            return inlay_fail(diag, INLAY_DEVICE_LOST,
                              "%s did not end its work in %u ms (option timeout_ms); close the "
                              "session and open it again",
                              device->facts.name, limit_ms);
        }
        if (status == INLAY_OK && poll != NULL)
            status = poll(user);
    }
}

inlay_status gpu_wait(gpu_device *device, uint64_t value, gpu_poll_fn poll, void *user, inlay_diag *diag)
{
    return wait_at_most(device, &device->lane, value, device->timeout_ms, poll, user, diag);
}

inlay_status gpu_wait_upload(gpu_device *device, uint64_t value, inlay_diag *diag)
{
    return wait_at_most(device, &device->uploads.lane, value, device->timeout_ms, NULL, NULL, diag);
}

void gpu_wait_idle(gpu_device *device)
{
    const bool lost = __atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) != 0; /* work may still be running */
    inlay_diag ignored = INLAY_DIAG_INIT;
    const gpu_lane *const lanes[] = { &device->uploads.lane, &device->lane };

    for (uint32_t i = 0; i < 2; i++) {
        uint64_t value;

        (void)pthread_mutex_lock(&device->queue_lock);
        INLAY_CHECK(lanes[i]->last_sent <= lanes[i]->last_submitted);
        value = lanes[i]->last_sent;
        (void)pthread_mutex_unlock(&device->queue_lock);
        (void)wait_at_most(device, lanes[i], value, lost ? GRACE_MS : device->timeout_ms, NULL, NULL, &ignored);
    }
}

static bool keys_equal(const gpu_pipeline_key *key, const gpu_pipeline_key *other)
{
    return key->shader == other->shader && memcmp(key->constants, other->constants, sizeof key->constants) == 0 &&
           key->word_count == other->word_count &&
           (key->word_count == 0 || memcmp(key->words, other->words, key->word_count * sizeof *key->words) == 0);
}

static inlay_status make_pipeline(gpu_device *device, const gpu_pipeline_key *key, VkPipeline *out, inlay_diag *diag)
{
    VkSpecializationMapEntry entries[ID_COUNT];
    const VkSpecializationInfo special = {
        .mapEntryCount = ID_COUNT, .pMapEntries = entries, .dataSize = sizeof key->constants, .pData = key->constants
    };
    VkComputePipelineCreateInfo info = { .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                         .layout = device->pipeline_layout };
    VkShaderModuleCreateInfo module = { .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO };
    VkShaderModule made = VK_NULL_HANDLE;
    uint32_t *words = NULL, count = 0;
    inlay_status status = gpu_patch_shader(key, &words, &count, diag);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < ID_COUNT; i++)
        entries[i] = (VkSpecializationMapEntry){ .constantID = i,
                                                 .offset = i * (uint32_t)sizeof key->constants[0],
                                                 .size = sizeof key->constants[0] };
    module.codeSize = count * sizeof *words;
    module.pCode = words;
    status = gpu_check(device, device->vk.CreateShaderModule(device->device, &module, NULL, &made), "loading a shader",
                       diag);
    info.stage = (VkPipelineShaderStageCreateInfo){ .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                    .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                    .module = made,
                                                    .pName = "main",
                                                    .pSpecializationInfo = &special };
    if (status == INLAY_OK)
        status = gpu_check(
            device, device->vk.CreateComputePipelines(device->device, device->pipeline_cache, 1, &info, NULL, out),
            "making a pipeline", diag);
    device->vk.DestroyShaderModule(device->device, made, NULL);
    free(words);
    return status;
}

/* Adds a pipeline to the list, with its own copy of the words. */
static inlay_status add_pipeline(gpu_device *device, const gpu_pipeline_key *key, inlay_diag *diag)
{
    gpu_pipeline *pipeline = calloc(1, sizeof *pipeline + key->word_count * sizeof *key->words);
    inlay_status status;

    if (pipeline == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pipeline");
    pipeline->key = *key;
    if (key->word_count > 0)
        pipeline->key.words = memcpy(pipeline + 1, key->words, key->word_count * sizeof *key->words);
    status = make_pipeline(device, key, &pipeline->pipeline, diag);
    if (status != INLAY_OK) {
        free(pipeline);
        return status;
    }
    pipeline->next = device->pipelines;
    device->pipelines = pipeline;
    return INLAY_OK;
}

inlay_status gpu_pipeline_get(gpu_device *device, const gpu_pipeline_key *key, VkPipeline *out, inlay_diag *diag)
{
    inlay_status status = gpu_check_alive(device, diag);
    const gpu_pipeline *pipeline;

    if (status != INLAY_OK)
        return status;
    INLAY_CHECK(key->shader < SHADER_COUNT && (key->word_count == 0 || key->words != NULL));
    (void)pthread_mutex_lock(&device->pipeline_lock);
    for (pipeline = device->pipelines; pipeline != NULL && !keys_equal(&pipeline->key, key);)
        pipeline = pipeline->next;
    if (pipeline == NULL)
        status = add_pipeline(device, key, diag);
    if (status == INLAY_OK)
        *out = pipeline != NULL ? pipeline->pipeline : device->pipelines->pipeline;
    (void)pthread_mutex_unlock(&device->pipeline_lock);
    return status;
}
