/* gpu_functions.h - the functions of Vulkan that are called, by the level at which they are looked up. */
#ifndef VULKAN_GPU_FUNCTIONS_H
#define VULKAN_GPU_FUNCTIONS_H
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

/* clang-format off */
#define GPU_GLOBAL(X) X(EnumerateInstanceVersion) X(CreateInstance)
#define GPU_INSTANCE(X)                                                                                                \
    X(DestroyInstance)                                                                                                 \
    X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2)                          \
        X(GetPhysicalDeviceMemoryProperties) X(GetPhysicalDeviceQueueFamilyProperties) X(CreateDevice)                 \
            X(GetDeviceProcAddr) X(GetPhysicalDeviceProperties)
#define GPU_DEVICE(X)                                                                                                  \
    X(DestroyDevice)                                                                                                   \
    X(GetDeviceQueue) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) X(AllocateMemory) X(FreeMemory)  \
        X(BindBufferMemory) X(MapMemory) X(GetBufferDeviceAddress) X(CreateSemaphore) X(DestroySemaphore)              \
            X(WaitSemaphores) X(QueueSubmit) X(DeviceWaitIdle) X(CreateCommandPool) X(DestroyCommandPool)              \
                X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer)              \
                    X(CmdBindPipeline) X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier) X(CmdCopyBuffer)       \
                        X(CreateShaderModule) X(DestroyShaderModule) X(CreatePipelineLayout) X(DestroyPipelineLayout)  \
                            X(CreateComputePipelines) X(DestroyPipeline) X(CreatePipelineCache) X(GetPipelineCacheData)                        \
                                X(DestroyPipelineCache)

/* clang-format on */
typedef struct gpu_functions {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define X(name) PFN_vk##name name;
    GPU_GLOBAL(X) GPU_INSTANCE(X) GPU_DEVICE(X)
#undef X
} gpu_functions;
#endif
