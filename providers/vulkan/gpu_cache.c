/* Pipelines as the driver made them, kept in a file of the host's cache folder from one process to the next.
 *
 * A driver need not survive a file that is not its own, so the file begins with a head that says whose it is and sums
 * up the rest: one byte that is wrong, and it is as if the file were not there. */
#include "gpu.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CACHE_MOST_BYTES = 1 << 28 };

typedef struct cache_head {
    char magic[8];
    uint8_t uuid[VK_UUID_SIZE];
    uint32_t vendor, driver_version;
    uint64_t bytes, sum; /* of what follows */
} cache_head;

static uint64_t sum_of(const uint8_t *data, size_t bytes)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ data[i]) * 1099511628211u;
    return h;
}

static cache_head head_of(const gpu_device *g, const uint8_t *data, size_t bytes)
{
    cache_head h = { .vendor = g->facts.vendor, .driver_version = g->facts.driver_version,
                     .bytes = bytes, .sum = sum_of(data, bytes) };

    memcpy(h.magic, "inlayvk1", sizeof h.magic);
    memcpy(h.uuid, g->facts.pipeline_uuid, sizeof h.uuid);
    return h;
}

static bool path_of(const gpu_device *g, char path[PATH_MAX])
{
    char name[2 * VK_UUID_SIZE + 1];

    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        (void)snprintf(name + 2 * i, 3, "%02x", g->facts.pipeline_uuid[i]);
    return g->cache_dir[0] != '\0' &&
           snprintf(path, PATH_MAX, "%s/vulkan-%s.pipelines", g->cache_dir, name) < PATH_MAX;
}

/* What the file holds; NULL: there is none, or it is not this driver's. */
static uint8_t *load(const gpu_device *g, size_t *out_bytes)
{
    char path[PATH_MAX];
    uint8_t *data = NULL;
    cache_head is = { .bytes = 0 }, due = { .bytes = 1 };
    FILE *f = path_of(g, path) ? fopen(path, "re") : NULL;

    if (f != NULL && fread(&is, sizeof is, 1, f) == 1 && is.bytes < CACHE_MOST_BYTES)
        data = malloc(is.bytes + 1);
    if (data != NULL && fread(data, 1, is.bytes + 1, f) == is.bytes)
        due = head_of(g, data, is.bytes);
    if (f != NULL)
        (void)fclose(f);
    if (memcmp(&is, &due, sizeof is) == 0) {
        *out_bytes = is.bytes;
        return data;
    }
    free(data);
    return NULL;
}

inlay_status gpu_cache_open(gpu_device *g, inlay_diag *diag)
{
    VkPipelineCacheCreateInfo info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO };
    size_t bytes = 0;
    uint8_t *data = load(g, &bytes);
    VkResult result = VK_ERROR_UNKNOWN;

    for (uint32_t attempt = data == NULL; result != VK_SUCCESS && attempt < 2; attempt++) { /* at last without it */
        info.initialDataSize = g->cache_bytes = attempt == 0 ? bytes : 0;
        info.pInitialData = attempt == 0 ? data : NULL;
        result = g->vk.CreatePipelineCache(g->device, &info, NULL, &g->cache);
    }
    free(data);
    return gpu_check(g, result, "making a pipeline cache", diag);
}

/* Written beside and then renamed: readers see a whole file. */
static void save(const gpu_device *g, const char *path, const uint8_t *data, size_t bytes)
{
    const cache_head head = head_of(g, data, bytes);
    char beside[PATH_MAX];
    const int n = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    FILE *f = n < (int)sizeof beside ? fopen(beside, "wxe") : NULL;
    bool whole;

    if (f == NULL)
        return;
    whole = fwrite(&head, sizeof head, 1, f) == 1 && fwrite(data, 1, bytes, f) == bytes;
    whole &= fclose(f) == 0;
    if (!whole || rename(beside, path) != 0)
        (void)unlink(beside);
}

void gpu_cache_keep(gpu_device *g)
{
    size_t bytes = 0;
    uint8_t *data = NULL;
    char path[PATH_MAX];

    if (!path_of(g, path) || g->cache == VK_NULL_HANDLE ||
        g->vk.GetPipelineCacheData(g->device, g->cache, &bytes, NULL) != VK_SUCCESS || bytes == 0 ||
        bytes == g->cache_bytes || bytes >= CACHE_MOST_BYTES - sizeof(cache_head))
        return;
    data = malloc(bytes);
    if (data != NULL && g->vk.GetPipelineCacheData(g->device, g->cache, &bytes, data) == VK_SUCCESS)
        save(g, path, data, bytes);
    free(data);
}
