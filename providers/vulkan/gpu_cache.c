/* Pipelines as the driver made them, kept from one process to the next: a driver need not survive a file that is not
 * its own. */
#include "gpu.h"
#include "inlay/kit_region.h"
#include <stdio.h>

struct identity {
    uint8_t uuid[VK_UUID_SIZE];
    uint32_t vendor, driver_version;
};

void gpu_kept_name(const gpu_device *g, const char *what, char name[64])
{
    int n = snprintf(name, 64, "vulkan-");

    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        n += snprintf(name + n, 64 - (size_t)n, "%02x", g->facts.pipeline_uuid[i]);
    (void)snprintf(name + n, 64 - (size_t)n, ".%s", what);
}

static struct identity identity_of(const gpu_device *g, char name[64])
{
    struct identity me = { .vendor = g->facts.vendor, .driver_version = g->facts.driver_version };

    memcpy(me.uuid, g->facts.pipeline_uuid, sizeof me.uuid);
    gpu_kept_name(g, "pipelines", name);
    return me;
}

inlay_status gpu_cache_open(gpu_device *g, inlay_diag *diag)
{
    VkPipelineCacheCreateInfo info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO };
    char name[64];
    const struct identity me = identity_of(g, name);
    void *data = kit_kept_load(g->cache_dir, name, &me, sizeof me, &g->cache_bytes);
    VkResult result = VK_ERROR_UNKNOWN;

    info.pInitialData = data;
    info.initialDataSize = g->cache_bytes;
    if (data != NULL)
        result = g->vk.CreatePipelineCache(g->device, &info, NULL, &g->cache);
    if (result != VK_SUCCESS) { /* at last without it */
        info.pInitialData = NULL;
        info.initialDataSize = g->cache_bytes = 0;
        result = g->vk.CreatePipelineCache(g->device, &info, NULL, &g->cache);
    }
    free(data);
    return gpu_check(g, result, "making a pipeline cache", diag);
}

void gpu_cache_keep(gpu_device *g)
{
    char name[64];
    const struct identity me = identity_of(g, name);
    size_t bytes = 0;
    uint8_t *data = NULL;

    if (g->cache == VK_NULL_HANDLE || g->vk.GetPipelineCacheData(g->device, g->cache, &bytes, NULL) != VK_SUCCESS ||
        bytes == 0 || bytes == g->cache_bytes)
        return;
    data = malloc(bytes);
    if (data != NULL && g->vk.GetPipelineCacheData(g->device, g->cache, &bytes, data) == VK_SUCCESS)
        kit_kept_save(g->cache_dir, name, &me, sizeof me, data, bytes);
    free(data);
}
