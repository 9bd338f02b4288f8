/* gpu.h - a Vulkan device as this provider uses it: opened once, memory by address, work that is submitted and waited
 * for. Knows nothing of graphs.
 *
 * libvulkan is opened by name, so that a machine without it loads the plugin and gets a sentence. Every shader reads
 * and writes by device addresses, which come in 128 bytes of push constants: there are no descriptors, and no bound on
 * the size of a tensor but 2^31 elements.
 *
 * Errors are statuses with a sentence. A device that is lost, or does not end its work in time, stays lost: every later
 * call says so, and what it may still be writing to is not freed. */
#ifndef VULKAN_GPU_H
#define VULKAN_GPU_H
#define VK_NO_PROTOTYPES
#include "inlay/plugin.h"
#include "shaders/opcodes.h"
#include <pthread.h>
#include <stdbool.h>
#include <vulkan/vulkan.h>

enum { GPU_ALIGNMENT = 256, GPU_NAME = 256, GPU_MOST_DEVICES = 16 };

/* Element types as shaders load and store them: load_f32, store_f32. */
/* clang-format off */
#define GPU_ELEMENTS(X)                                                                                                \
    X(F32, f32) X(F16, f16) X(BF16, bf16) X(I8, i8) X(U8, u8) X(I16, i16) X(U16, u16) X(I32, i32) X(U32, u32)          \
    X(I64, i64) X(BOOL, bool) X(F64, f64)
/* clang-format on */
enum {
#define X(name, text) EL_##name,
    GPU_ELEMENTS(X)
#undef X
};

typedef enum gpu_shader {
#define X(name, source, defines) SHADER_##name,
#include "shaders.def"
#undef X
    SHADER_COUNT
} gpu_shader;

/* Functions of Vulkan that are called, by the level at which they are looked up. */
/* clang-format off */
#define GPU_GLOBAL(X) X(EnumerateInstanceVersion) X(CreateInstance)
#define GPU_INSTANCE(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2) \
    X(GetPhysicalDeviceMemoryProperties) X(GetPhysicalDeviceQueueFamilyProperties) X(CreateDevice) \
    X(GetDeviceProcAddr) X(GetPhysicalDeviceProperties)
#define GPU_DEVICE(X) \
    X(DestroyDevice) X(GetDeviceQueue) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) \
    X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory) X(GetBufferDeviceAddress) X(CreateSemaphore) \
    X(DestroySemaphore) X(WaitSemaphores) X(QueueSubmit) X(DeviceWaitIdle) X(CreateCommandPool) \
    X(DestroyCommandPool) X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) \
    X(CmdBindPipeline) X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier) X(CmdCopyBuffer) \
    X(CreateShaderModule) X(DestroyShaderModule) X(CreatePipelineLayout) X(DestroyPipelineLayout) \
    X(CreateComputePipelines) X(DestroyPipeline) X(CreatePipelineCache) X(GetPipelineCacheData) X(DestroyPipelineCache)
/* clang-format on */
typedef struct gpu_functions {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define X(name) PFN_vk##name name;
    GPU_GLOBAL(X) GPU_INSTANCE(X) GPU_DEVICE(X)
#undef X
} gpu_functions;

/* What is known of a device before it is opened. */
typedef struct gpu_facts {
    char name[GPU_NAME];
    uint32_t number;           /* in the list of devices */
    VkPhysicalDevice physical; /* while the instance is there that it was found by */
    VkPhysicalDeviceType type;
    uint64_t memory_bytes; /* of its largest local heap */
    uint32_t subgroup;
    uint32_t vendor, driver_version, api_version;
    uint32_t most_groups[3], most_shared;
    bool unified;      /* all of its memory is the host's, cached */
    bool is_cpu;       /* work is done by vectors of a CPU */
    bool shuffles;     /* ... subgroups of one size shuffle */
    bool scalar_loads; /* ... and load once what is the same for all */
    bool f16, f64;
    const char *lacks; /* what the shaders can't do without; NULL: nothing */
    uint8_t pipeline_uuid[VK_UUID_SIZE];
} gpu_facts;

/* Memory of the device. Known to the host by its address. */
typedef struct gpu_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    uint64_t bytes;
    uint8_t *mapped; /* NULL: the host can't see it */
    bool cached;     /* reading through mapped is as fast as other memory */
    bool borrowed;   /* somebody else's */
} gpu_buffer;

/* What a pipeline is made of. */
typedef struct gpu_recipe {
    gpu_shader shader;
    uint32_t constants[ID_COUNT];
    const uint32_t *words; /* the dispatch's parameters, where they are to be compiled in; or NULL */
    uint32_t word_count;
} gpu_recipe;

typedef struct gpu_pipeline {
    struct gpu_pipeline *next;
    gpu_recipe recipe;
    VkPipeline pipeline;
} gpu_pipeline;

/* What tests make of a device: what it does at the nth submission, or allocation, of a session; memory apart from the
 * host's, though it is not; or a wrong result of the nth check of its trial. */
typedef enum gpu_fault { GPU_SOUND, GPU_LOST, GPU_MEMORY, GPU_HANG, GPU_APART, GPU_WRONG } gpu_fault;

typedef struct gpu_options {
    const char *device;  /* "auto", a number of the list, or a part of a name */
    uint32_t timeout_ms; /* how long one submission may take before the device counts as lost; 0 = by its type */
    gpu_fault fault;
    uint32_t fault_at;
    const char *cache_dir; /* where pipelines are kept; "" = nowhere */
    uint32_t passed_over;  /* bit i: not device i of the list, whatever `device` says */
} gpu_options;

typedef struct gpu_device {
    void *library;
    gpu_functions vk;
    VkInstance instance;
    VkDevice device;
    VkQueue queue;
    VkPhysicalDeviceMemoryProperties memory;
    gpu_facts facts;
    uint32_t family;
    uint32_t timeout_ms;
    gpu_fault fault;
    uint32_t fault_left; /* submissions or allocations until then */
    uint32_t lost;       /* 1: for good; read atomically */
    pthread_mutex_t queue_lock, pipeline_lock, staging_lock;
    VkSemaphore timeline;
    uint64_t submitted; /* value of the timeline that the last submission signals */
    uint64_t given;     /* likewise, of those that a planted hang has not swallowed */
    VkCommandPool pool; /* under queue_lock */
    VkCommandBuffer copy_commands;
    gpu_buffer staging; /* made when it is needed first */
    VkPipelineLayout layout;
    VkPipelineCache cache;
    size_t cache_bytes;   /* that it began with */
    char cache_dir[4096]; /* where it is kept; "" = nowhere */
    gpu_pipeline *pipelines;
} gpu_device;

/* Is there a libvulkan, and a driver that it could find? Opens neither. */
inlay_status gpu_present(inlay_diag *diag);
/* Does the machine have a device file that a GPU's driver would open? Where not, only CPUs can be Vulkan devices. */
bool gpu_is_likely(void);

/* Calls found for each device, none of which is opened. */
typedef inlay_status (*gpu_found_fn)(void *user, const gpu_facts *facts);
inlay_status gpu_list(gpu_found_fn found, void *user, inlay_diag *diag);

/* INLAY_UNSUPPORTED: no libvulkan, no driver, no such device, or one that lacks something; diag has the list. */
inlay_status gpu_open(const gpu_options *options, gpu_device **out, inlay_diag *diag);
void gpu_close(gpu_device *device);

/* One line of what a device is like. */
void gpu_describe(const gpu_facts *facts, char *out, size_t bytes);

/* INLAY_OK, or the status that a failing call of Vulkan means, with what was being done. Notes a loss. */
inlay_status gpu_check(gpu_device *device, VkResult result, const char *what, inlay_diag *diag);
/* Is it time for a planted fault? */
bool gpu_strikes(gpu_device *device, gpu_fault fault);
/* INLAY_DEVICE_LOST once the device is. */
inlay_status gpu_alive(gpu_device *device, inlay_diag *diag);

inlay_status gpu_buffer_make(gpu_device *device, uint64_t bytes, gpu_buffer *out, inlay_diag *diag);
void gpu_buffer_drop(gpu_device *device, gpu_buffer *buffer); /* of {0}: a no-op */
/* Somebody else's buffer of this device, made to be read and written, and to have an address; it outlives *out. */
void gpu_buffer_borrow(const gpu_device *device, VkBuffer buffer, uint64_t bytes, gpu_buffer *out);
/* Copies of a list, between the host and buffers that no work in flight uses: where memory is not shared, all are one
 * submission, as far as 16 MiB of staging memory hold them. None reads what another writes. */
typedef struct gpu_copy {
    const gpu_buffer *from, *to; /* NULL: host */
    uint64_t from_at, to_at;     /* in those */
    void *host;
    uint64_t bytes;
} gpu_copy;
inlay_status gpu_copies(gpu_device *device, const gpu_copy *list, uint32_t count, inlay_diag *diag);
inlay_status gpu_write(gpu_device *device, const gpu_buffer *to, uint64_t offset, const void *from, uint64_t bytes,
                       inlay_diag *diag);

/* The pipeline of a recipe; made once. Any thread. */
inlay_status gpu_pipeline_get(gpu_device *device, const gpu_recipe *recipe, VkPipeline *out, inlay_diag *diag);

/* The name of a file in the cache folder about this device. */
void gpu_kept_name(const gpu_device *device, const char *what, char name[64]);
/* The driver's cache of pipelines: from the file of a process before, and back into it where it has grown. */
inlay_status gpu_cache_open(gpu_device *device, inlay_diag *diag);
void gpu_cache_keep(gpu_device *device);

/* Of all shaders as they were built. */
uint64_t gpu_shaders_hash(void);
/* A copy of a module in which the functions that constants name stand for those that the shader calls, and nothing else
 * is left. The caller frees *out. */
inlay_status gpu_patch(const gpu_recipe *recipe, uint32_t **out, uint32_t *out_words, inlay_diag *diag);

/* Command buffers, to be recorded by one thread at a time for all (gpu_record_begin takes the lock of the pool). */
inlay_status gpu_commands_make(gpu_device *device, uint32_t count, VkCommandBuffer *out, inlay_diag *diag);
void gpu_commands_drop(gpu_device *device, uint32_t count, VkCommandBuffer *commands);
inlay_status gpu_record_begin(gpu_device *device, VkCommandBuffer commands, inlay_diag *diag);
inlay_status gpu_record_end(gpu_device *device, VkCommandBuffer commands, inlay_diag *diag);
/* Everything written before is seen by everything behind. */
void gpu_barrier(gpu_device *device, VkCommandBuffer commands);

/* Submits; *out_value is what the timeline reaches when the work is done. */
inlay_status gpu_submit(gpu_device *device, VkCommandBuffer commands, uint64_t *out_value, inlay_diag *diag);
/* Waits for a value. poll (may be NULL) is asked every few milliseconds: what it returns, unless INLAY_OK, is returned
 * once the work has ended. A device that does not get there in timeout_ms is lost. */
typedef inlay_status (*gpu_poll_fn)(void *user);
inlay_status gpu_wait(gpu_device *device, uint64_t value, gpu_poll_fn poll, void *user, inlay_diag *diag);
/* Waits for all work; for that of a lost device some seconds: a process that ends while a driver on the CPU still
 * compiles takes its compiler from it. */
void gpu_idle(gpu_device *device);
#endif
