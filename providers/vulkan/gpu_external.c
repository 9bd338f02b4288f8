/* What the driver supports: extensions, how much memory is left, memory that the device shares with other drivers and
 * processes. */
#include "vulkan/gpu.h"
#include <string.h>

bool gpu_has_extension(const gpu_functions *vk, VkPhysicalDevice device, const char *name)
{
    VkExtensionProperties list[512];
    uint32_t count = 512;

    if (vk->EnumerateDeviceExtensionProperties(device, NULL, &count, list) < VK_SUCCESS)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].extensionName, name) == 0)
            return true;
    return false;
}

uint64_t gpu_memory_left(const gpu_functions *vk, const gpu_facts *facts, uint32_t heap)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT
    };
    VkPhysicalDeviceMemoryProperties2 found = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                .pNext = &budget };
    uint64_t left;

    if (!facts->has_budget)
        return facts->most_left;
    vk->GetPhysicalDeviceMemoryProperties2(facts->physical, &found);
    left = budget.heapBudget[heap] > budget.heapUsage[heap] ? budget.heapBudget[heap] - budget.heapUsage[heap] : 0;
    return left < facts->most_left ? left : facts->most_left;
}

VkExternalMemoryHandleTypeFlagBits gpu_external_type(uint32_t kind)
{
    return kind == INLAY_MEMORY_DMA_BUF     ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT
           : kind == INLAY_MEMORY_OPAQUE_FD ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
                                            : 0;
}

/* Adds a kind of memory to what the device shares. Memory that the driver shares only as a dedicated allocation, and a
 * handle type that cannot be combined with the types found before, are left out. */
static void add_kind(gpu_device *device, uint32_t kind)
{
    const VkPhysicalDeviceExternalBufferInfo info = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
                                                      .usage = GPU_BUFFER_USAGE,
                                                      .handleType = gpu_external_type(kind) };
    VkExternalBufferProperties found = { .sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES };
    const VkExternalMemoryProperties *memory = &found.externalMemoryProperties;
    gpu_external *external = &device->external;

    device->vk.GetPhysicalDeviceExternalBufferProperties(device->facts.physical, &info, &found);
    if ((memory->externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0 ||
        (memory->externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT) == 0 ||
        (external->types & ~memory->compatibleHandleTypes) != 0)
        return;
    external->types |= gpu_external_type(kind);
    external->exports |= INLAY_MEMORY_BIT(kind);
    if ((memory->externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) != 0)
        external->imports |= INLAY_MEMORY_BIT(kind);
}

uint32_t gpu_external_find(gpu_device *device, const char *names[2])
{
    const VkPhysicalDevice physical = device->facts.physical;
    uint32_t used = 0;

    if (!gpu_has_extension(&device->vk, physical, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME))
        return 0;
    names[used++] = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
    add_kind(device, INLAY_MEMORY_OPAQUE_FD);
    if (gpu_has_extension(&device->vk, physical, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME)) {
        names[used++] = VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME;
        add_kind(device, INLAY_MEMORY_DMA_BUF);
    }
    return used;
}
