/* Lists, describes, chooses and opens devices. */
#include "inlay/check.h"
#include "vulkan/gpu.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Drivers keep data about the CPU until they are unloaded. LeakSanitizer would report it. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#define IGNORE_DRIVER_LEAKS(result, call) (__lsan_disable(), (result) = (call), __lsan_enable(), (result))
#else
#define IGNORE_DRIVER_LEAKS(result, call) ((result) = (call))
#endif

static const char library_name[] = "libvulkan.so.1";

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

bool gpu_may_exist(void)
{
    static const char *const files[] = { "/dev/nvidia0", "/dev/dxg", "/dev/mali0", "/dev/kgsl-3d0", "/dev/nvgpu" };
    bool found = folder_has("/dev/dri", "renderD");

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        found = found || access(files[i], F_OK) == 0;
    return found;
}

/* Whether drivers may be installed. Files in these folders or environment variables list them; only the Vulkan loader
 * determines them exactly. */
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

inlay_status gpu_check_driver(inlay_diag *diag)
{
    static uint32_t found; /* atomic: an earlier session found a driver, and searching again would take longer than the
                            * rest of opening this provider */
    void *library;
    inlay_status status;

    if (__atomic_load_n(&found, __ATOMIC_RELAXED) != 0)
        return INLAY_OK;
    status = open_library(&library, diag);
    if (status != INLAY_OK)
        return status;
    (void)dlclose(library);
    if (!has_driver())
        return inlay_fail(diag, INLAY_UNSUPPORTED, "no Vulkan driver is installed (Debian: mesa-vulkan-drivers)");
    __atomic_store_n(&found, 1, __ATOMIC_RELAXED);
    return INLAY_OK;
}

/* Names of device types, and their rank for option device=auto. */
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
    INLAY_CHECK(facts->type <= VK_PHYSICAL_DEVICE_TYPE_CPU);
    (void)snprintf(out, bytes, "%s (%s, %.1f GiB%s, subgroups of %u%s%s, Vulkan %u.%u)", facts->name,
                   kinds[facts->type].name, (double)facts->memory_bytes / (1u << 30),
                   facts->unified ? " shared with the CPU" : "", facts->subgroup, facts->f16 ? ", f16" : "",
                   facts->matrix_size > 0 ? ", matrices" : "", VK_API_VERSION_MAJOR(facts->api_version),
                   VK_API_VERSION_MINOR(facts->api_version));
}

static void read_memory(gpu_functions *vk, VkPhysicalDevice device, gpu_facts *facts)
{
    const VkMemoryPropertyFlags shared = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                         VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    VkPhysicalDeviceMemoryProperties memory;

    vk->GetPhysicalDeviceMemoryProperties(device, &memory);
    facts->has_budget =
        facts->api_version >= VK_API_VERSION_1_2 && gpu_has_extension(vk, device, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    for (uint32_t heap = 0; heap < memory.memoryHeapCount; heap++)
        if ((memory.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0 &&
            memory.memoryHeaps[heap].size > facts->memory_bytes) {
            facts->memory_bytes = memory.memoryHeaps[heap].size;
            facts->free_bytes = facts->has_budget ? gpu_memory_left(vk, facts, heap) : 0;
            facts->heap = heap;
        }
    for (uint32_t type = 0; type < memory.memoryTypeCount; type++)
        facts->unified |= (memory.memoryTypes[type].propertyFlags & shared) == shared;
}

/* Mesa's CPU driver (llvmpipe) executes subgroup-uniform loads once from version 26 on; older versions load in every
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

static void read_facts(gpu_functions *vk, VkInstance instance, VkPhysicalDevice device, gpu_facts *facts)
{
    gpu_matrix_features matrices;
    VkPhysicalDeviceShaderIntegerDotProductProperties dots = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES
    };
    VkPhysicalDeviceShaderIntegerDotProductFeatures has_dots = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES
    };
    VkPhysicalDeviceVulkan12Properties more = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES };
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES, .pNext = &more
    };
    VkPhysicalDeviceSubgroupProperties subgroup = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                                    .pNext = &sizes };
    VkPhysicalDeviceProperties2 properties = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                               .pNext = &subgroup };
    VkPhysicalDeviceVulkan12Features have12 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                .pNext = gpu_matrix_ask(vk, device, false, &matrices) };
    VkPhysicalDeviceVulkan11Features have11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                                .pNext = &have12 };
    VkPhysicalDeviceFeatures2 have = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &have11 };

    *facts = (gpu_facts){ .physical = device, .most_left = UINT64_MAX };
    vk->GetPhysicalDeviceProperties(
        device, &properties.properties); /* the structs of 1.2 are only valid for devices of version 1.2 */
    facts->api_version = properties.properties.apiVersion;
    if (facts->api_version >= VK_API_VERSION_1_3) {
        more.pNext = &dots;
        has_dots.pNext = have12.pNext;
        have12.pNext = &has_dots;
    }
    if (facts->api_version >= VK_API_VERSION_1_2) {
        vk->GetPhysicalDeviceProperties2(device, &properties);
        vk->GetPhysicalDeviceFeatures2(device, &have);
    }
    (void)snprintf(facts->name, sizeof facts->name, "%s", properties.properties.deviceName);
    facts->type = properties.properties.deviceType <= VK_PHYSICAL_DEVICE_TYPE_CPU ? properties.properties.deviceType
                                                                                  : VK_PHYSICAL_DEVICE_TYPE_OTHER;
    facts->vendor = properties.properties.vendorID;
    facts->driver_version = properties.properties.driverVersion;
    memcpy(facts->pipeline_uuid, properties.properties.pipelineCacheUUID, sizeof facts->pipeline_uuid);
    memcpy(facts->max_groups, properties.properties.limits.maxComputeWorkGroupCount, sizeof facts->max_groups);
    facts->max_shared_bytes = properties.properties.limits.maxComputeSharedMemorySize;
    facts->stamp_ns = properties.properties.limits.timestampPeriod;
    facts->subgroup = subgroup.subgroupSize;
    note_cpu(facts, &more, subgroup.supportedOperations, sizes.minSubgroupSize == sizes.maxSubgroupSize);
    facts->f16 = have12.shaderFloat16 == VK_TRUE;
    facts->f64 = have.features.shaderFloat64 == VK_TRUE;
    facts->dots = has_dots.shaderIntegerDotProduct == VK_TRUE;
    facts->fast_dots = facts->dots && dots.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE;
    facts->missing_feature =
        facts->api_version < VK_API_VERSION_1_2                               ? "Vulkan 1.2"
        : !have12.timelineSemaphore                                           ? "timeline semaphores"
        : !have12.bufferDeviceAddress                                         ? "buffer device addresses"
        : !have.features.shaderInt64                                          ? "64-bit integers in shaders"
        : !have12.storageBuffer8BitAccess || !have11.storageBuffer16BitAccess ? "8-bit and 16-bit storage"
        : properties.properties.limits.maxComputeWorkGroupInvocations < 256   ? "256 invocations in a workgroup"
        : !more.shaderSignedZeroInfNanPreserveFloat32                         ? "preservation of infinity and NaN"
                                                                              : NULL;
    if (facts->api_version >= VK_API_VERSION_1_3 && have12.shaderFloat16 && have12.vulkanMemoryModel &&
        have12.vulkanMemoryModelDeviceScope && sizes.minSubgroupSize == sizes.maxSubgroupSize &&
        facts->max_shared_bytes >= GPU_MATRIX_SHARED_BYTES &&
        GPU_MATRIX_SUBGROUPS * facts->subgroup <= properties.properties.limits.maxComputeWorkGroupInvocations)
        gpu_matrix_find(vk, instance, &matrices, facts);
    if (!have12.shaderInt8)
        facts->byte_matrix_size = 0;
    read_memory(vk, device, facts);
}

/* Whether option `device` matches this device. */
static bool matches_option(const char *option, const gpu_facts *facts)
{
    char number[16];

    (void)snprintf(number, sizeof number, "%u", facts->number);
    return strcmp(option, "auto") == 0 || strcmp(option, number) == 0 || strcasestr(facts->name, option) != NULL ||
           (strcmp(option, "cpu") == 0 && facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU);
}

/* Calls `found` for each device of the instance. */
static inlay_status for_each_device(gpu_device *device, gpu_found_fn found, void *user, inlay_diag *diag)
{
    VkPhysicalDevice all[GPU_MAX_DEVICES];
    uint32_t count = GPU_MAX_DEVICES;
    VkResult result;
    inlay_status status = gpu_check(
        device, IGNORE_DRIVER_LEAKS(result, device->vk.EnumeratePhysicalDevices(device->instance, &count, all)),
        "listing devices", diag);

    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        gpu_facts facts;

        read_facts(&device->vk, device->instance, all[i], &facts);
        facts.number = i;
        status = found(user, &facts);
    }
    return status;
}

struct choice {
    gpu_device *device;
    const char *option;
    uint32_t excluded_devices;
    int best;
    size_t used;
    char list[600];
};

static inlay_status consider(void *user, const gpu_facts *facts)
{
    struct choice *choice = user;
    char line[GPU_NAME_BYTES + 96];

    INLAY_CHECK(facts->number < GPU_MAX_DEVICES);
    gpu_describe(facts, line, sizeof line);
    choice->used += (size_t)snprintf(choice->list + choice->used, sizeof choice->list - choice->used, "%s%u = %s%s%s",
                                     facts->number > 0 ? "; " : "", facts->number, line,
                                     facts->missing_feature != NULL ? ", which lacks " : "",
                                     facts->missing_feature != NULL ? facts->missing_feature : "");
    choice->used = choice->used < sizeof choice->list ? choice->used : sizeof choice->list - 1;
    if (matches_option(choice->option, facts) && (choice->excluded_devices >> facts->number & 1u) == 0 &&
        facts->missing_feature == NULL && kinds[facts->type].rank > choice->best) {
        choice->best = kinds[facts->type].rank;
        choice->device->facts = *facts;
    }
    return INLAY_OK;
}

static inlay_status choose(gpu_device *device, const gpu_options *options, inlay_diag *diag)
{
    struct choice choice = { .device = device,
                             .option = options->device,
                             .excluded_devices = options->excluded_devices,
                             .best = -1,
                             .list = "none" };
    const inlay_status status = for_each_device(device, consider, &choice, diag);

    if (status != INLAY_OK || choice.best >= 0)
        return status;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "no Vulkan device '%s' that can be used; option device takes a number or a part of a name; "
                      "devices: %s",
                      options->device, choice.list);
}

/* Looks up a function of Vulkan; `missing` becomes the name of the first one that does not exist. */
#define LOOK_UP(entry, by, of)                                                                                         \
    do {                                                                                                               \
        device->vk.entry = (PFN_vk##entry)device->vk.by(of, "vk" #entry);                                              \
        if (device->vk.entry == NULL && missing == NULL)                                                               \
            missing = "vk" #entry;                                                                                     \
    } while (0)

static inlay_status load_instance(gpu_device *device, inlay_diag *diag)
{
    const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                    .pApplicationName = "inlay",
                                    .apiVersion = VK_API_VERSION_1_3 };
    const VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app };
    gpu_functions *vk = &device->vk;
    void *entry = dlsym(device->library, "vkGetInstanceProcAddr");
    const char *missing = NULL;
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
    if (IGNORE_DRIVER_LEAKS(result, vk->CreateInstance(&info, NULL, &device->instance)) == VK_ERROR_INCOMPATIBLE_DRIVER)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "no Vulkan driver is installed (Debian: mesa-vulkan-drivers)");
    if (result != VK_SUCCESS) {
        device->instance = VK_NULL_HANDLE;
        return gpu_check(device, result, "creating an instance", diag);
    }
#define X(entry_) LOOK_UP(entry_, GetInstanceProcAddr, device->instance);
    GPU_INSTANCE(X)
#undef X
    return missing == NULL ? INLAY_OK : inlay_fail(diag, INLAY_UNSUPPORTED, "%s has no %s", library_name, missing);
}

void gpu_choose_families(const VkQueueFamilyProperties *families, uint32_t count, uint32_t *out_shaders,
                         uint32_t *out_transfers)
{
    /* families of video and of optical flow transfer, too, by engines for other purposes */
    const VkQueueFlags others =
        ~(VkQueueFlags)(VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT);

    *out_shaders = *out_transfers = count;
    for (uint32_t i = count; i-- > 0;) {
        const VkQueueFlags flags = families[i].queueFlags;

        if ((flags & VK_QUEUE_COMPUTE_BIT) != 0)
            *out_shaders = i;
        if ((flags & VK_QUEUE_TRANSFER_BIT) != 0 && (flags & others) == 0)
            *out_transfers = i;
    }
}

static inlay_status find_families(gpu_device *device, inlay_diag *diag)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16, shaders, transfers;

    device->vk.GetPhysicalDeviceQueueFamilyProperties(device->facts.physical, &count, families);
    gpu_choose_families(families, count, &shaders, &transfers);
    if (shaders == count)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "Vulkan device %s has no compute queue", device->facts.name);
    device->lane.family = shaders;
    device->stamp_bits = families[shaders].timestampValidBits;
    device->uploads.lane.family = transfers < count ? transfers : shaders;
    return INLAY_OK;
}

static inlay_status open_device(gpu_device *device, inlay_diag *diag)
{
    const float priority = 1.0f;
    gpu_matrix_features matrices;
    const bool has_matrices = device->facts.matrix_size > 0 || device->facts.byte_matrix_size > 0;
    VkPhysicalDeviceShaderIntegerDotProductFeatures want_dots = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE
    };
    void *ask = has_matrices ? gpu_matrix_ask(&device->vk, device->facts.physical, true, &matrices) : NULL;
    VkPhysicalDeviceVulkan12Features want12 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                .pNext = device->facts.dots ? &want_dots : ask,
                                                .shaderFloat16 = has_matrices,
                                                .shaderInt8 = device->facts.byte_matrix_size > 0,
                                                .vulkanMemoryModel = has_matrices,
                                                .vulkanMemoryModelDeviceScope = has_matrices,
                                                .timelineSemaphore = VK_TRUE,
                                                .bufferDeviceAddress = VK_TRUE,
                                                .storageBuffer8BitAccess = VK_TRUE };
    VkPhysicalDeviceVulkan11Features want11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                                .pNext = &want12,
                                                .storageBuffer16BitAccess = VK_TRUE };
    const VkPhysicalDeviceFeatures2 want = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                             .pNext = &want11,
                                             .features = { .shaderInt64 = VK_TRUE,
                                                           .shaderFloat64 = device->facts.f64 } };
    gpu_lane *const lanes[] = { &device->lane, &device->uploads.lane };
    VkDeviceQueueCreateInfo queues[2];
    const char *missing = NULL;
    const char *extensions[3] = { GPU_MATRIX_EXTENSION };
    const uint32_t shared = gpu_external_find(device, &extensions[has_matrices]);
    const VkDeviceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                      .pNext = &want,
                                      .queueCreateInfoCount = lanes[0]->family != lanes[1]->family ? 2 : 1,
                                      .pQueueCreateInfos = queues,
                                      .enabledExtensionCount = has_matrices + shared,
                                      .ppEnabledExtensionNames = extensions };
    VkResult result;

    want_dots.pNext = ask;
    for (uint32_t i = 0; i < 2; i++)
        queues[i] = (VkDeviceQueueCreateInfo){ .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                               .queueFamilyIndex = lanes[i]->family,
                                               .queueCount = 1,
                                               .pQueuePriorities = &priority };
    result = device->vk.CreateDevice(device->facts.physical, &info, NULL, &device->device);

    if (result != VK_SUCCESS) {
        device->device = VK_NULL_HANDLE;
        return gpu_check(device, result, "opening the device", diag);
    }
#define X(entry_) LOOK_UP(entry_, GetDeviceProcAddr, device->device);
    GPU_DEVICE(X)
#undef X
    if (device->external.types != 0) {
        LOOK_UP(GetMemoryFdKHR, GetDeviceProcAddr, device->device);
        LOOK_UP(GetMemoryFdPropertiesKHR, GetDeviceProcAddr, device->device);
    }
    if (missing != NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s has no %s", device->facts.name, missing);
    for (uint32_t i = 0; i < 2; i++)
        device->vk.GetDeviceQueue(device->device, lanes[i]->family, 0, &lanes[i]->queue);
    device->vk.GetPhysicalDeviceMemoryProperties(device->facts.physical, &device->memory);
    return INLAY_OK;
}

static inlay_status create_lane(gpu_device *device, gpu_lane *lane, inlay_diag *diag)
{
    const VkSemaphoreTypeCreateInfo type = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                             .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE };
    const VkSemaphoreCreateInfo semaphore = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type };
    const VkCommandPoolCreateInfo pool = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                           .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                           .queueFamilyIndex = lane->family };
    const inlay_status status =
        gpu_check(device, device->vk.CreateSemaphore(device->device, &semaphore, NULL, &lane->timeline),
                  "making a semaphore", diag);

    return status != INLAY_OK
               ? status
               : gpu_check(device, device->vk.CreateCommandPool(device->device, &pool, NULL, &lane->pool),
                           "making a command pool", diag);
}

/* Creates semaphores, command pools, pipeline layout and pipeline cache. */
static inlay_status create_objects(gpu_device *device, inlay_diag *diag)
{
    const VkPushConstantRange range = { .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                        .size = PUSH_COUNT * sizeof(VkDeviceAddress) };
    const VkPipelineLayoutCreateInfo layout = { .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                                .pushConstantRangeCount = 1,
                                                .pPushConstantRanges = &range };
    inlay_status status = INLAY_OK;

    INLAY_TRY(create_lane(device, &device->lane, diag));
    INLAY_TRY(create_lane(device, &device->uploads.lane, diag));
    INLAY_TRY(gpu_check(device,
                        device->vk.CreatePipelineLayout(device->device, &layout, NULL, &device->pipeline_layout),
                        "making a pipeline layout", diag));
    INLAY_TRY(gpu_cache_open(device, diag));
    INLAY_TRY(gpu_commands_create(device, 1, &device->copy_commands, diag));
done:
    return status;
}

inlay_status gpu_list(gpu_found_fn found, void *user, inlay_diag *diag)
{
    gpu_device *device = calloc(1, sizeof *device);
    inlay_status status = gpu_check_driver(diag);

    if (device == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a list of Vulkan devices");
    INLAY_TRY(status);
    INLAY_TRY(open_library(&device->library, diag));
    INLAY_TRY(load_instance(device, diag));
    INLAY_TRY(for_each_device(device, found, user, diag));
done:
    gpu_close(device);
    return status;
}

inlay_status gpu_open(const gpu_options *options, gpu_device **out, inlay_diag *diag)
{
    gpu_device *device = calloc(1, sizeof *device);
    inlay_status status = INLAY_OK;

    *out = NULL;
    if (device == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a Vulkan device");
    (void)pthread_mutex_init(&device->queue_lock, NULL);
    (void)pthread_mutex_init(&device->pipeline_lock, NULL);
    (void)pthread_mutex_init(&device->staging_lock, NULL);
    INLAY_CHECK(options->device != NULL);
    device->timeout_ms = options->timeout_ms;
    device->fault = options->fault;
    (void)snprintf(device->cache_dir, sizeof device->cache_dir, "%s",
                   options->cache_dir != NULL ? options->cache_dir : "");
    device->fault_countdown = options->fault_at;
    INLAY_TRY(open_library(&device->library, diag));
    INLAY_TRY(load_instance(device, diag));
    INLAY_TRY(choose(device, options, diag));
    device->facts.unified &= device->fault != GPU_FAULT_SEPARATE_MEMORY;
    if (device->fault == GPU_FAULT_AS_GPU)
        device->facts.is_cpu = device->facts.shuffles = device->facts.scalar_loads = false;
    if (device->fault == GPU_FAULT_BUDGET)
        device->facts.most_left = (uint64_t)options->fault_at << 10;
    if (device->timeout_ms == 0)
        device->timeout_ms = device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 600000 : 20000;
    INLAY_TRY(find_families(device, diag));
    INLAY_TRY(open_device(device, diag));
    INLAY_TRY(create_objects(device, diag));
    *out = device;
    device = NULL;
done:
    gpu_close(device);
    return status;
}

static void destroy_objects(gpu_device *device)
{
    const gpu_lane *const lanes[] = { &device->lane, &device->uploads.lane };

    if (device->vk.DeviceWaitIdle != NULL)
        (void)device->vk.DeviceWaitIdle(device->device);
    for (const gpu_pipeline *pipeline = device->pipelines; pipeline != NULL; pipeline = pipeline->next)
        device->vk.DestroyPipeline(device->device, pipeline->pipeline, NULL);
    gpu_buffer_destroy(device, &device->staging);
    for (uint32_t i = 0; i < 2; i++)
        gpu_buffer_destroy(device, &device->uploads.slots[i].memory);
    gpu_cache_save(device);
    device->vk.DestroyPipelineCache(device->device, device->pipeline_cache, NULL);
    device->vk.DestroyPipelineLayout(device->device, device->pipeline_layout, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        device->vk.DestroyCommandPool(device->device, lanes[i]->pool, NULL);
        device->vk.DestroySemaphore(device->device, lanes[i]->timeline, NULL);
    }
    device->vk.DestroyDevice(device->device, NULL);
}

void gpu_close(gpu_device *device)
{
    bool keep_loaded; /* work may still run on a lost device: its objects and the driver stay loaded */

    if (device == NULL)
        return;
    keep_loaded = device->device != VK_NULL_HANDLE && __atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) != 0;
    if (!keep_loaded && device->device != VK_NULL_HANDLE && device->vk.DestroyDevice != NULL)
        destroy_objects(device);
    if (!keep_loaded && device->instance != VK_NULL_HANDLE && device->vk.DestroyInstance != NULL)
        device->vk.DestroyInstance(device->instance, NULL);
    if (!keep_loaded && device->library != NULL)
        (void)dlclose(device->library);
    for (gpu_pipeline *pipeline = device->pipelines, *next; pipeline != NULL; pipeline = next) {
        next = pipeline->next;
        free(pipeline);
    }
    (void)pthread_mutex_destroy(&device->queue_lock);
    (void)pthread_mutex_destroy(&device->pipeline_lock);
    (void)pthread_mutex_destroy(&device->staging_lock);
    free(device);
}
