/* Command buffers, submissions and waiting; pipelines. */
#include "gpu.h"
#include "simd/clock.h"
#include <stdlib.h>
#include <string.h>

enum { GRACE_MS = 5000 }; /* of a device that was given up */

/* ------------------------------------------------------------------ errors */

inlay_status gpu_check(gpu_device *g, VkResult result, const char *what, inlay_diag *diag)
{
    const char *name = g->facts.name[0] != '\0' ? g->facts.name : "Vulkan";

    if (result >= 0)
        return INLAY_OK;
    if (result == VK_ERROR_DEVICE_LOST) {
        __atomic_store_n(&g->lost, 1u, __ATOMIC_RELEASE);
        return inlay_fail(diag, INLAY_DEVICE_LOST, "%s was lost while %s; close the session and open it again", name,
                          what);
    }
    return inlay_fail(diag,
                      result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY
                          ? INLAY_OUT_OF_MEMORY
                          : INLAY_INTERNAL,
                      "%s: %s failed (%d)", name, what, (int)result);
}

inlay_status gpu_alive(gpu_device *g, inlay_diag *diag)
{
    if (__atomic_load_n(&g->lost, __ATOMIC_ACQUIRE) == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_DEVICE_LOST, "%s was lost before; close the session and open it again",
                      g->facts.name);
}

/* ------------------------------------------------------------------ commands */

inlay_status gpu_commands_make(gpu_device *g, uint32_t count, VkCommandBuffer *out, inlay_diag *diag)
{
    const VkCommandBufferAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .commandPool = g->pool,
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = count };
    VkResult result;

    (void)pthread_mutex_lock(&g->queue_lock);
    result = g->vk.AllocateCommandBuffers(g->device, &info, out);
    (void)pthread_mutex_unlock(&g->queue_lock);
    return gpu_check(g, result, "making command buffers", diag);
}

void gpu_commands_drop(gpu_device *g, uint32_t count, VkCommandBuffer *commands)
{
    if (count == 0 || __atomic_load_n(&g->lost, __ATOMIC_ACQUIRE) != 0)
        return;
    (void)pthread_mutex_lock(&g->queue_lock);
    g->vk.FreeCommandBuffers(g->device, g->pool, count, commands);
    (void)pthread_mutex_unlock(&g->queue_lock);
}

inlay_status gpu_record_begin(gpu_device *g, VkCommandBuffer commands, inlay_diag *diag)
{
    const VkCommandBufferBeginInfo begin = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO };
    inlay_status status;

    (void)pthread_mutex_lock(&g->queue_lock);
    status = gpu_check(g, g->vk.BeginCommandBuffer(commands, &begin), "recording commands", diag);
    if (status != INLAY_OK)
        (void)pthread_mutex_unlock(&g->queue_lock);
    return status;
}

inlay_status gpu_record_end(gpu_device *g, VkCommandBuffer commands, inlay_diag *diag)
{
    VkResult result = g->vk.EndCommandBuffer(commands);

    (void)pthread_mutex_unlock(&g->queue_lock);
    return gpu_check(g, result, "recording commands", diag);
}

void gpu_barrier(gpu_device *g, VkCommandBuffer commands)
{
    const VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT;
    const VkMemoryBarrier barrier = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                      .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                      .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT };

    g->vk.CmdPipelineBarrier(commands, stages, stages, 0, 1, &barrier, 0, NULL, 0, NULL);
}

bool gpu_strikes(gpu_device *g, gpu_fault fault)
{
    const bool now = g->fault == fault && __atomic_fetch_sub(&g->fault_left, 1, __ATOMIC_RELAXED) == 1;

    if (now && fault == GPU_HANG) /* what is behind does not end either */
        __atomic_store_n(&g->fault_left, 1, __ATOMIC_RELAXED);
    return now;
}

inlay_status gpu_submit(gpu_device *g, VkCommandBuffer commands, uint64_t *out_value, inlay_diag *diag)
{
    VkTimelineSemaphoreSubmitInfo values = { .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                             .signalSemaphoreValueCount = 1 };
    const VkSubmitInfo info = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                .pNext = &values,
                                .commandBufferCount = 1,
                                .pCommandBuffers = &commands,
                                .signalSemaphoreCount = 1,
                                .pSignalSemaphores = &g->timeline };
    inlay_status status = gpu_alive(g, diag);
    VkResult result;
    bool hangs;

    if (status != INLAY_OK)
        return status;
    (void)pthread_mutex_lock(&g->queue_lock);
    *out_value = g->submitted + 1;
    values.pSignalSemaphoreValues = out_value;
    hangs = gpu_strikes(g, GPU_HANG);
    result = gpu_strikes(g, GPU_LOST) ? VK_ERROR_DEVICE_LOST
             : hangs                  ? VK_SUCCESS
                                      : g->vk.QueueSubmit(g->queue, 1, &info, VK_NULL_HANDLE);
    if (result == VK_SUCCESS)
        g->submitted = *out_value;
    if (!hangs)
        g->given = g->submitted;
    (void)pthread_mutex_unlock(&g->queue_lock);
    return gpu_check(g, result, "submitting work", diag);
}

inlay_status gpu_wait(gpu_device *g, uint64_t value, gpu_poll_fn poll, void *user, inlay_diag *diag)
{
    const VkSemaphoreWaitInfo info = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                       .semaphoreCount = 1,
                                       .pSemaphores = &g->timeline,
                                       .pValues = &value };
    const uint64_t slice_ns = 5000000, end = clock_ns() / 1000000 + g->timeout_ms;
    inlay_status status = INLAY_OK;

    for (;;) {
        const VkResult result = g->vk.WaitSemaphores(g->device, &info, slice_ns);

        if (result == VK_SUCCESS)
            return status;
        if (result != VK_TIMEOUT)
            return gpu_check(g, result, "waiting for work", diag);
        if (clock_ns() / 1000000 > end) {
            __atomic_store_n(&g->lost, 1u, __ATOMIC_RELEASE);
            return inlay_fail(diag, INLAY_DEVICE_LOST,
                              "%s did not end its work in %u ms (option timeout_ms); close the "
                              "session and open it again",
                              g->facts.name, g->timeout_ms);
        }
        if (status == INLAY_OK && poll != NULL)
            status = poll(user);
    }
}

void gpu_idle(gpu_device *g)
{
    const bool lost = __atomic_load_n(&g->lost, __ATOMIC_ACQUIRE) != 0; /* given up, and still at it perhaps */
    inlay_diag ignored = INLAY_DIAG_INIT;
    uint64_t value;

    (void)pthread_mutex_lock(&g->queue_lock);
    value = g->given;
    (void)pthread_mutex_unlock(&g->queue_lock);
    g->timeout_ms = lost ? GRACE_MS : g->timeout_ms;
    (void)gpu_wait(g, value, NULL, NULL, &ignored);
}

/* ------------------------------------------------------------------ pipelines */

static bool is_same(const gpu_recipe *x, const gpu_recipe *y)
{
    return x->shader == y->shader && memcmp(x->constants, y->constants, sizeof x->constants) == 0 &&
           x->word_count == y->word_count &&
           (x->word_count == 0 || memcmp(x->words, y->words, x->word_count * sizeof *x->words) == 0);
}

static inlay_status make_pipeline(gpu_device *g, const gpu_recipe *r, VkPipeline *out, inlay_diag *diag)
{
    VkSpecializationMapEntry entries[ID_COUNT];
    const VkSpecializationInfo special = {
        .mapEntryCount = ID_COUNT, .pMapEntries = entries, .dataSize = sizeof r->constants, .pData = r->constants
    };
    VkComputePipelineCreateInfo info = { .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .layout = g->layout };
    VkShaderModuleCreateInfo module = { .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO };
    VkShaderModule made = VK_NULL_HANDLE;
    uint32_t *words = NULL, count = 0;
    inlay_status status = gpu_patch(r, &words, &count, diag);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < ID_COUNT; i++)
        entries[i] = (VkSpecializationMapEntry){ .constantID = i,
                                                 .offset = i * (uint32_t)sizeof r->constants[0],
                                                 .size = sizeof r->constants[0] };
    module.codeSize = count * sizeof *words;
    module.pCode = words;
    status = gpu_check(g, g->vk.CreateShaderModule(g->device, &module, NULL, &made), "loading a shader", diag);
    info.stage = (VkPipelineShaderStageCreateInfo){ .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                    .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                    .module = made,
                                                    .pName = "main",
                                                    .pSpecializationInfo = &special };
    if (status == INLAY_OK)
        status = gpu_check(g, g->vk.CreateComputePipelines(g->device, g->cache, 1, &info, NULL, out),
                           "making a pipeline", diag);
    g->vk.DestroyShaderModule(g->device, made, NULL);
    free(words);
    return status;
}

/* A new entry of the list, with a copy of the words. */
static inlay_status add_pipeline(gpu_device *g, const gpu_recipe *r, inlay_diag *diag)
{
    gpu_pipeline *p = calloc(1, sizeof *p + r->word_count * sizeof *r->words);
    inlay_status status;

    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pipeline");
    p->recipe = *r;
    if (r->word_count > 0)
        p->recipe.words = memcpy(p + 1, r->words, r->word_count * sizeof *r->words);
    status = make_pipeline(g, r, &p->pipeline, diag);
    if (status != INLAY_OK) {
        free(p);
        return status;
    }
    p->next = g->pipelines;
    g->pipelines = p;
    return INLAY_OK;
}

inlay_status gpu_pipeline_get(gpu_device *g, const gpu_recipe *r, VkPipeline *out, inlay_diag *diag)
{
    inlay_status status = gpu_alive(g, diag);
    const gpu_pipeline *p;

    if (status != INLAY_OK)
        return status;
    (void)pthread_mutex_lock(&g->pipeline_lock);
    for (p = g->pipelines; p != NULL && !is_same(&p->recipe, r);)
        p = p->next;
    if (p == NULL)
        status = add_pipeline(g, r, diag);
    if (status == INLAY_OK)
        *out = p != NULL ? p->pipeline : g->pipelines->pipeline;
    (void)pthread_mutex_unlock(&g->pipeline_lock);
    return status;
}
