/* Finding, describing, choosing and opening a device. */
#include "gpu.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A driver keeps what it found out about the CPU as long as it is loaded: LeakSanitizer, which looks after that, would
 * take it for lost. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#define WHAT_DRIVERS_KEEP(result, call) (__lsan_disable(), (result) = (call), __lsan_enable(), (result))
#else
#define WHAT_DRIVERS_KEEP(result, call) ((result) = (call))
#endif

static const char library_name[] = "libvulkan.so.1";

/* ------------------------------------------------------------------ before anything is opened */

static bool folder_has(const char *path, const char *start)
{
    DIR *folder = opendir(path);
    bool found = false;

    for (struct dirent *dirent = NULL; folder != NULL && !found && (dirent = readdir(folder)) != NULL;)
        found = dirent->d_name[0] != '.' && strncmp(dirent->d_name, start, strlen(start)) == 0;
    if (folder != NULL)
        (void)closedir(folder);
    return found;
}

bool gpu_is_likely(void)
{
    static const char *const files[] = { "nvidia0", "dxg", "mali0", "kgsl-3d0", "nvgpu" };
    bool found = folder_has("/dev/dri", "renderD");

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        found = found || folder_has("/dev", files[i]);
    return found;
}

/* Drivers announce themselves by files in these places, or are named by the environment: the loader will tell. */
static bool has_driver(void)
{
    static const char *const places[] = { "/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d",
                                          "/usr/local/share/vulkan/icd.d", "/usr/local/etc/vulkan/icd.d" };
    static const char *const names[] = { "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES", "XDG_DATA_DIRS",
                                         "XDG_DATA_HOME" };
    bool found = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        found = found || getenv(names[i]) != NULL;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        found = found || folder_has(places[i], "");
    return found;
}

static inlay_status open_library(void **out, inlay_diag *diag)
{
    *out = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (*out == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "no Vulkan: %s is not installed (Debian: libvulkan1)", library_name);
    return INLAY_OK;
}

inlay_status gpu_present(inlay_diag *diag)
{
    void *library;
    inlay_status status = open_library(&library, diag);

    if (status != INLAY_OK)
        return status;
    (void)dlclose(library);
    if (!has_driver())
        return inlay_fail(diag, INLAY_UNSUPPORTED, "no Vulkan driver is installed (Debian: mesa-vulkan-drivers)");
    return INLAY_OK;
}

/* ------------------------------------------------------------------ facts */

/* Types of devices by their names, and how they are preferred. */
static const struct {
    const char *name;
    int rank;
} kinds[] = {
    [VK_PHYSICAL_DEVICE_TYPE_OTHER] = { "other", 1 },
    [VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU] = { "integrated GPU", 3 },
    [VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU] = { "GPU", 4 },
    [VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU] = { "virtual GPU", 2 },
    [VK_PHYSICAL_DEVICE_TYPE_CPU] = { "CPU", 0 },
};

void gpu_describe(const gpu_facts *facts, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "%s (%s, %.1f GiB%s, subgroups of %u%s, Vulkan %u.%u)", facts->name,
                   kinds[facts->type].name, (double)facts->memory_bytes / (1u << 30),
                   facts->unified ? " shared with the CPU" : "", facts->subgroup, facts->f16 ? ", f16" : "",
                   VK_API_VERSION_MAJOR(facts->api_version), VK_API_VERSION_MINOR(facts->api_version));
}

static void read_memory(gpu_functions *vk, VkPhysicalDevice device, gpu_facts *facts)
{
    const VkMemoryPropertyFlags shared = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                         VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    VkPhysicalDeviceMemoryProperties memory;

    vk->GetPhysicalDeviceMemoryProperties(device, &memory);
    for (uint32_t h = 0; h < memory.memoryHeapCount; h++)
        if ((memory.memoryHeaps[h].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0 &&
            memory.memoryHeaps[h].size > facts->memory_bytes)
            facts->memory_bytes = memory.memoryHeaps[h].size;
    for (uint32_t t = 0; t < memory.memoryTypeCount; t++)
        facts->unified |= (memory.memoryTypes[t].propertyFlags & shared) == shared;
}

/* Mesa's driver for CPUs: from 26 on it keeps what is the same for a subgroup in one register, before it loads lane by
 * lane. */
static void note_cpu(gpu_facts *facts, const VkPhysicalDeviceVulkan12Properties *more, VkSubgroupFeatureFlags can,
                     bool one_size)
{
    const bool fixed = one_size && facts->subgroup >= 4 && facts->subgroup <= 16;

    facts->is_cpu = facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    facts->shuffles = facts->is_cpu && fixed && (can & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
    facts->scalar_loads = facts->shuffles && more->driverID == VK_DRIVER_ID_MESA_LLVMPIPE &&
                          VK_API_VERSION_MAJOR(facts->driver_version) >= 26;
}

static void read_facts(gpu_functions *vk, VkPhysicalDevice device, gpu_facts *facts)
{
    VkPhysicalDeviceVulkan12Properties more = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES };
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES, .pNext = &more
    };
    VkPhysicalDeviceSubgroupProperties subgroup = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                                    .pNext = &sizes };
    VkPhysicalDeviceProperties2 p = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &subgroup };
    VkPhysicalDeviceVulkan12Features have12 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES };
    VkPhysicalDeviceVulkan11Features have11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                                .pNext = &have12 };
    VkPhysicalDeviceFeatures2 have = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &have11 };

    *facts = (gpu_facts){ .physical = device };
    vk->GetPhysicalDeviceProperties(device, &p.properties); /* an old device may not know the structs of 1.2 */
    facts->api_version = p.properties.apiVersion;
    if (facts->api_version >= VK_API_VERSION_1_2) {
        vk->GetPhysicalDeviceProperties2(device, &p);
        vk->GetPhysicalDeviceFeatures2(device, &have);
    }
    (void)snprintf(facts->name, sizeof facts->name, "%s", p.properties.deviceName);
    facts->type = p.properties.deviceType <= VK_PHYSICAL_DEVICE_TYPE_CPU ? p.properties.deviceType
                                                                         : VK_PHYSICAL_DEVICE_TYPE_OTHER;
    facts->vendor = p.properties.vendorID;
    facts->driver_version = p.properties.driverVersion;
    memcpy(facts->pipeline_uuid, p.properties.pipelineCacheUUID, sizeof facts->pipeline_uuid);
    memcpy(facts->most_groups, p.properties.limits.maxComputeWorkGroupCount, sizeof facts->most_groups);
    facts->most_shared = p.properties.limits.maxComputeSharedMemorySize;
    facts->subgroup = subgroup.subgroupSize;
    note_cpu(facts, &more, subgroup.supportedOperations, sizes.minSubgroupSize == sizes.maxSubgroupSize);
    facts->f16 = have12.shaderFloat16 == VK_TRUE;
    facts->f64 = have.features.shaderFloat64 == VK_TRUE;
    facts->lacks = facts->api_version < VK_API_VERSION_1_2                               ? "Vulkan 1.2"
                   : !have12.timelineSemaphore                                           ? "timeline semaphores"
                   : !have12.bufferDeviceAddress                                         ? "buffer device addresses"
                   : !have.features.shaderInt64                                          ? "64-bit integers in shaders"
                   : !have12.storageBuffer8BitAccess || !have11.storageBuffer16BitAccess ? "8-bit and 16-bit storage"
                   : !more.shaderSignedZeroInfNanPreserveFloat32 ? "preservation of infinity and NaN"
                                                                 : NULL;
    read_memory(vk, device, facts);
}

/* ------------------------------------------------------------------ choosing */

/* Does the user's word mean this device? */
static bool is_meant(const char *word, const gpu_facts *facts)
{
    char number[16];

    (void)snprintf(number, sizeof number, "%u", facts->number);
    return strcmp(word, "auto") == 0 || strcmp(word, number) == 0 || strcasestr(facts->name, word) != NULL ||
           (strcmp(word, "cpu") == 0 && facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU);
}

/* Calls found for each device of an instance. */
static inlay_status look_at_all(gpu_device *g, gpu_found_fn found, void *user, inlay_diag *diag)
{
    VkPhysicalDevice all[GPU_MOST_DEVICES];
    uint32_t count = GPU_MOST_DEVICES;
    VkResult result;
    inlay_status status =
        gpu_check(g, WHAT_DRIVERS_KEEP(result, g->vk.EnumeratePhysicalDevices(g->instance, &count, all)),
                  "listing devices", diag);

    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        gpu_facts facts;

        read_facts(&g->vk, all[i], &facts);
        facts.number = i;
        status = found(user, &facts);
    }
    return status;
}

struct choice {
    gpu_device *device;
    const char *word;
    uint32_t passed_over;
    int best;
    size_t used;
    char list[600];
};

static inlay_status consider(void *user, const gpu_facts *facts)
{
    struct choice *choice = user;
    char line[GPU_NAME + 96];

    gpu_describe(facts, line, sizeof line);
    choice->used += (size_t)snprintf(
        choice->list + choice->used, sizeof choice->list - choice->used, "%s%u = %s%s%s", facts->number > 0 ? "; " : "",
        facts->number, line, facts->lacks != NULL ? ", which lacks " : "", facts->lacks != NULL ? facts->lacks : "");
    choice->used = choice->used < sizeof choice->list ? choice->used : sizeof choice->list - 1;
    if (is_meant(choice->word, facts) && (choice->passed_over >> facts->number & 1u) == 0 && facts->lacks == NULL &&
        kinds[facts->type].rank > choice->best) {
        choice->best = kinds[facts->type].rank;
        choice->device->facts = *facts;
    }
    return INLAY_OK;
}

static inlay_status choose(gpu_device *g, const gpu_options *options, inlay_diag *diag)
{
    struct choice choice = {
        .device = g, .word = options->device, .passed_over = options->passed_over, .best = -1, .list = "none"
    };
    const inlay_status status = look_at_all(g, consider, &choice, diag);

    if (status != INLAY_OK || choice.best >= 0)
        return status;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "no Vulkan device '%s' that can be used; option device takes a number or a part of a name; "
                      "devices: %s",
                      options->device, choice.list);
}

/* ------------------------------------------------------------------ opening */

#define LOOK_UP(entry, by, of, who)                                                                                    \
    g->vk.entry = (PFN_vk##entry)g->vk.by(of, "vk" #entry);                                                            \
    if (g->vk.entry == NULL)                                                                                           \
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s has no vk%s", who, #entry);

static inlay_status load_instance(gpu_device *g, inlay_diag *diag)
{
    const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                    .pApplicationName = "inlay",
                                    .apiVersion = VK_API_VERSION_1_2 };
    const VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app };
    gpu_functions *vk = &g->vk;
    void *entry = dlsym(g->library, "vkGetInstanceProcAddr");
    uint32_t version = 0;
    VkResult result;

    if (entry == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s has no vkGetInstanceProcAddr", library_name);
    memcpy(&vk->GetInstanceProcAddr, &entry, sizeof entry);
#define X(entry_) vk->entry_ = (PFN_vk##entry_)vk->GetInstanceProcAddr(NULL, "vk" #entry_);
    GPU_GLOBAL(X)
#undef X
    if (vk->EnumerateInstanceVersion == NULL || vk->EnumerateInstanceVersion(&version) != VK_SUCCESS ||
        version < VK_API_VERSION_1_2)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s is older than Vulkan 1.2", library_name);
    if (WHAT_DRIVERS_KEEP(result, vk->CreateInstance(&info, NULL, &g->instance)) == VK_ERROR_INCOMPATIBLE_DRIVER)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "no Vulkan driver is installed (Debian: mesa-vulkan-drivers)");
    if (result != VK_SUCCESS) {
        g->instance = VK_NULL_HANDLE;
        return gpu_check(g, result, "creating an instance", diag);
    }
#define X(entry_) LOOK_UP(entry_, GetInstanceProcAddr, g->instance, library_name)
    GPU_INSTANCE(X)
#undef X
    return INLAY_OK;
}

static inlay_status find_family(gpu_device *g, inlay_diag *diag)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;

    g->vk.GetPhysicalDeviceQueueFamilyProperties(g->facts.physical, &count, families);
    for (uint32_t i = 0; i < count; i++)
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) {
            g->family = i;
            return INLAY_OK;
        }
    return inlay_fail(diag, INLAY_UNSUPPORTED, "Vulkan device %s does not compute", g->facts.name);
}

static inlay_status open_device(gpu_device *g, inlay_diag *diag)
{
    const float priority = 1.0f;
    VkPhysicalDeviceVulkan12Features want12 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                .timelineSemaphore = VK_TRUE,
                                                .bufferDeviceAddress = VK_TRUE,
                                                .storageBuffer8BitAccess = VK_TRUE };
    VkPhysicalDeviceVulkan11Features want11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                                .pNext = &want12,
                                                .storageBuffer16BitAccess = VK_TRUE };
    const VkPhysicalDeviceFeatures2 want = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                             .pNext = &want11,
                                             .features = { .shaderInt64 = VK_TRUE, .shaderFloat64 = g->facts.f64 } };
    const VkDeviceQueueCreateInfo queue = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                            .queueFamilyIndex = g->family,
                                            .queueCount = 1,
                                            .pQueuePriorities = &priority };
    const VkDeviceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                      .pNext = &want,
                                      .queueCreateInfoCount = 1,
                                      .pQueueCreateInfos = &queue };
    VkResult result = g->vk.CreateDevice(g->facts.physical, &info, NULL, &g->device);

    if (result != VK_SUCCESS) {
        g->device = VK_NULL_HANDLE;
        return gpu_check(g, result, "opening the device", diag);
    }
#define X(entry_) LOOK_UP(entry_, GetDeviceProcAddr, g->device, g->facts.name)
    GPU_DEVICE(X)
#undef X
    g->vk.GetDeviceQueue(g->device, g->family, 0, &g->queue);
    g->vk.GetPhysicalDeviceMemoryProperties(g->facts.physical, &g->memory);
    return INLAY_OK;
}

/* Semaphore, command pool, pipeline layout and cache. */
static inlay_status make_parts(gpu_device *g, inlay_diag *diag)
{
    const VkSemaphoreTypeCreateInfo type = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                             .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE };
    const VkSemaphoreCreateInfo semaphore = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type };
    const VkCommandPoolCreateInfo pool = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                           .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                           .queueFamilyIndex = g->family };
    const VkPushConstantRange range = { .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                        .size = PUSH_COUNT * sizeof(VkDeviceAddress) };
    const VkPipelineLayoutCreateInfo layout = { .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                                .pushConstantRangeCount = 1,
                                                .pPushConstantRanges = &range };
    inlay_status status = INLAY_OK;

    INLAY_TRY(
        gpu_check(g, g->vk.CreateSemaphore(g->device, &semaphore, NULL, &g->timeline), "making a semaphore", diag));
    INLAY_TRY(gpu_check(g, g->vk.CreateCommandPool(g->device, &pool, NULL, &g->pool), "making a command pool", diag));
    INLAY_TRY(gpu_check(g, g->vk.CreatePipelineLayout(g->device, &layout, NULL, &g->layout), "making a pipeline layout",
                        diag));
    INLAY_TRY(gpu_cache_open(g, diag));
    INLAY_TRY(gpu_commands_make(g, 1, &g->copy_commands, diag));
done:
    return status;
}

inlay_status gpu_list(gpu_found_fn found, void *user, inlay_diag *diag)
{
    gpu_device *g = calloc(1, sizeof *g);
    inlay_status status = gpu_present(diag);

    if (g == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a list of Vulkan devices");
    INLAY_TRY(status);
    INLAY_TRY(open_library(&g->library, diag));
    INLAY_TRY(load_instance(g, diag));
    INLAY_TRY(look_at_all(g, found, user, diag));
done:
    gpu_close(g);
    return status;
}

inlay_status gpu_open(const gpu_options *options, gpu_device **out, inlay_diag *diag)
{
    gpu_device *g = calloc(1, sizeof *g);
    inlay_status status = INLAY_OK;

    *out = NULL;
    if (g == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a Vulkan device");
    (void)pthread_mutex_init(&g->queue_lock, NULL);
    (void)pthread_mutex_init(&g->pipeline_lock, NULL);
    (void)pthread_mutex_init(&g->staging_lock, NULL);
    g->timeout_ms = options->timeout_ms;
    g->fault = options->fault;
    (void)snprintf(g->cache_dir, sizeof g->cache_dir, "%s", options->cache_dir != NULL ? options->cache_dir : "");
    g->fault_left = options->fault_at;
    INLAY_TRY(open_library(&g->library, diag));
    INLAY_TRY(load_instance(g, diag));
    INLAY_TRY(choose(g, options, diag));
    g->facts.unified &= g->fault != GPU_APART;
    if (g->timeout_ms == 0)
        g->timeout_ms = g->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 600000 : 20000;
    INLAY_TRY(find_family(g, diag));
    INLAY_TRY(open_device(g, diag));
    INLAY_TRY(make_parts(g, diag));
    *out = g;
    g = NULL;
done:
    gpu_close(g);
    return status;
}

static void drop_parts(gpu_device *g)
{
    if (g->vk.DeviceWaitIdle != NULL)
        (void)g->vk.DeviceWaitIdle(g->device);
    for (const gpu_pipeline *pipeline = g->pipelines; pipeline != NULL; pipeline = pipeline->next)
        g->vk.DestroyPipeline(g->device, pipeline->pipeline, NULL);
    gpu_buffer_drop(g, &g->staging);
    gpu_cache_keep(g);
    g->vk.DestroyPipelineCache(g->device, g->cache, NULL);
    g->vk.DestroyPipelineLayout(g->device, g->layout, NULL);
    g->vk.DestroyCommandPool(g->device, g->pool, NULL);
    g->vk.DestroySemaphore(g->device, g->timeline, NULL);
    g->vk.DestroyDevice(g->device, NULL);
}

void gpu_close(gpu_device *g)
{
    bool stays; /* on a lost device work may still run: what it uses stays, and so does the driver */

    if (g == NULL)
        return;
    stays = g->device != VK_NULL_HANDLE && __atomic_load_n(&g->lost, __ATOMIC_ACQUIRE) != 0;
    if (!stays && g->device != VK_NULL_HANDLE && g->vk.DestroyDevice != NULL)
        drop_parts(g);
    if (!stays && g->instance != VK_NULL_HANDLE && g->vk.DestroyInstance != NULL)
        g->vk.DestroyInstance(g->instance, NULL);
    if (!stays && g->library != NULL)
        (void)dlclose(g->library);
    for (gpu_pipeline *pipeline = g->pipelines, *next; pipeline != NULL; pipeline = next) {
        next = pipeline->next;
        free(pipeline);
    }
    (void)pthread_mutex_destroy(&g->queue_lock);
    (void)pthread_mutex_destroy(&g->pipeline_lock);
    (void)pthread_mutex_destroy(&g->staging_lock);
    free(g);
}
