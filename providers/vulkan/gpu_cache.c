/* Stores the driver's pipeline cache in a file. Files of other devices or driver versions are ignored, since drivers
 * may crash on them. */
#include "inlay/check.h"
#include "vulkan/gpu.h"
#include "inlay/kit_region.h"
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

struct identity {
    uint8_t uuid[VK_UUID_SIZE];
    uint32_t vendor, driver_version;
};

void gpu_cache_file_name(const gpu_device *device, const char *what, char name[64])
{
    int length = snprintf(name, 64, "vulkan-");

    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        length += snprintf(name + length, 64 - (size_t)length, "%02x", device->facts.pipeline_uuid[i]);
    INLAY_CHECK(length > 0 && length < 64);
    (void)snprintf(name + length, 64 - (size_t)length, ".%s", what);
}

bool gpu_cache_has(const char *cache_dir, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/%s", cache_dir, name) < (int)sizeof path && access(path, F_OK) == 0;
}

static struct identity identity_of(const gpu_device *device, char name[64])
{
    struct identity me = { .vendor = device->facts.vendor, .driver_version = device->facts.driver_version };

    memcpy(me.uuid, device->facts.pipeline_uuid, sizeof me.uuid);
    gpu_cache_file_name(device, "pipelines", name);
    return me;
}

inlay_status gpu_cache_open(gpu_device *device, inlay_diag *diag)
{
    VkPipelineCacheCreateInfo info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO };
    char name[64];
    const struct identity me = identity_of(device, name);
    void *data = kit_kept_load(device->cache_dir, name, &me, sizeof me, &device->loaded_cache_bytes);
    VkResult result = VK_ERROR_UNKNOWN;

    info.pInitialData = data;
    info.initialDataSize = device->loaded_cache_bytes;
    if (data != NULL)
        result = device->vk.CreatePipelineCache(device->device, &info, NULL, &device->pipeline_cache);
    if (result != VK_SUCCESS) { /* there is no file, or the driver rejects its data: create an empty cache */
        info.pInitialData = NULL;
        info.initialDataSize = device->loaded_cache_bytes = 0;
        result = device->vk.CreatePipelineCache(device->device, &info, NULL, &device->pipeline_cache);
    }
    free(data);
    return gpu_check(device, result, "making a pipeline cache", diag);
}

void gpu_cache_save(gpu_device *device)
{
    char name[64];
    const struct identity me = identity_of(device, name);
    size_t bytes = 0;
    uint8_t *data = NULL;

    if (device->pipeline_cache == VK_NULL_HANDLE ||
        device->vk.GetPipelineCacheData(device->device, device->pipeline_cache, &bytes, NULL) != VK_SUCCESS ||
        bytes == 0 || bytes == device->loaded_cache_bytes)
        return;
    data = malloc(bytes);
    if (data != NULL &&
        device->vk.GetPipelineCacheData(device->device, device->pipeline_cache, &bytes, data) == VK_SUCCESS)
        kit_kept_save(device->cache_dir, name, &me, sizeof me, data, bytes);
    free(data);
}
