/* gpu.h - the Vulkan device of this provider: opening, memory, pipelines, submissions and waits. It is independent of
 * graphs.
 *
 * libvulkan is opened by name at run time, so the plugin also loads on a machine without it and reports the reason.
 * Shaders read and write through buffer device addresses, which are passed as 128 bytes of push constants. There are no
 * descriptors, and a tensor may have up to 2^31 elements.
 *
 * Functions return a status with a message. A device that was lost, or that exceeded its time limit, stays lost: every
 * later call fails, and memory that the device may still write to is not freed. */
#ifndef VULKAN_GPU_H
#define VULKAN_GPU_H
#define VK_NO_PROTOTYPES
#include "inlay/types.h"
#include "vulkan/shaders/opcodes.h"
#include <pthread.h>
#include <stdbool.h>
#include <vulkan/vulkan.h>

enum { GPU_ALIGNMENT = 256, GPU_NAME_BYTES = 256, GPU_MAX_DEVICES = 16 };

/* What every buffer may be used for. */
#define GPU_BUFFER_USAGE                                                                                               \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |        \
     VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT)

/* Element types, by the suffix of the shader functions that load and store them: load_f32, store_f32. BLOCKS: weights
 * of a few bits, which only multiplications load. */
/* clang-format off */
#define GPU_ELEMENTS(X)                                                                                                \
    X(F32, f32) X(F16, f16) X(BF16, bf16) X(I8, i8) X(U8, u8) X(I16, i16) X(U16, u16) X(I32, i32) X(U32, u32)          \
    X(I64, i64) X(BOOL, bool) X(F64, f64) X(BLOCKS, blocks)
/* clang-format on */
enum {
#define X(name, text) EL_##name,
    GPU_ELEMENTS(X)
#undef X
};

typedef enum gpu_shader {
#define X(name, source, defines) SHADER_##name,
#include "vulkan/shaders.def"
#undef X
    SHADER_COUNT
} gpu_shader;

/* The Vulkan functions in use, by the level at which they are looked up. */
/* clang-format off */
#define GPU_GLOBAL(X) X(EnumerateInstanceVersion) X(CreateInstance)
#define GPU_INSTANCE(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2) \
    X(GetPhysicalDeviceMemoryProperties) X(GetPhysicalDeviceMemoryProperties2) \
    X(GetPhysicalDeviceQueueFamilyProperties) X(CreateDevice) \
    X(GetDeviceProcAddr) X(GetPhysicalDeviceProperties) X(EnumerateDeviceExtensionProperties) \
    X(GetPhysicalDeviceExternalBufferProperties)
#define GPU_DEVICE(X) \
    X(DestroyDevice) X(GetDeviceQueue) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) \
    X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory) X(GetBufferDeviceAddress) X(CreateSemaphore) \
    X(DestroySemaphore) X(WaitSemaphores) X(GetSemaphoreCounterValue) X(QueueSubmit) \
    X(DeviceWaitIdle) X(CreateCommandPool) \
    X(DestroyCommandPool) X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) \
    X(CmdBindPipeline) X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier) X(CmdCopyBuffer) \
    X(CreateShaderModule) X(DestroyShaderModule) X(CreatePipelineLayout) X(DestroyPipelineLayout) \
    X(CreateComputePipelines) X(DestroyPipeline) X(CreatePipelineCache) X(GetPipelineCacheData) \
    X(DestroyPipelineCache) X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults) X(CmdResetQueryPool) \
    X(CmdWriteTimestamp) X(CmdFillBuffer)
/* clang-format on */
typedef struct gpu_functions {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    /* of extensions; NULL: the driver does not have them */
    PFN_vkGetMemoryFdKHR GetMemoryFdKHR;
    PFN_vkGetMemoryFdPropertiesKHR GetMemoryFdPropertiesKHR;
#define X(name) PFN_vk##name name;
    GPU_GLOBAL(X) GPU_INSTANCE(X) GPU_DEVICE(X)
#undef X
} gpu_functions;

/* Properties of a device, read before it is opened. */
typedef struct gpu_facts {
    char name[GPU_NAME_BYTES];
    uint32_t number;           /* index in the list of devices */
    VkPhysicalDevice physical; /* valid as long as its instance */
    VkPhysicalDeviceType type;
    uint32_t heap;         /* the largest device-local heap */
    uint64_t memory_bytes; /* its size */
    uint64_t free_bytes;   /* of these, when the device was found; 0: unknown */
    uint64_t most_left;    /* upper bound of gpu_memory_left(), for tests */
    uint32_t subgroup;
    uint32_t vendor, driver_version, api_version;
    uint32_t max_groups[3], max_shared_bytes;
    bool unified;      /* all device memory is host-visible and cached */
    bool has_budget;   /* the driver has VK_EXT_memory_budget, see gpu_memory_left() */
    bool is_cpu;       /* a driver that runs shaders on the CPU */
    bool shuffles;     /* is_cpu, and subgroups of one fixed size support shuffles */
    bool scalar_loads; /* shuffles, and a load that is uniform in a subgroup is executed once */
    bool f16, f64;
    /* Cooperative matrices of float16 with sums in float: matrix_size x matrix_depth times matrix_depth x matrix_size.
     * 0: none, or subgroups have several sizes, or a workgroup is too small. */
    uint32_t matrix_size, matrix_depth;
    uint32_t byte_matrix_size, byte_matrix_depth; /* the same of signed 8-bit integers with sums in int32 */
    float stamp_ns;                               /* of a step of time stamps */
    bool dots, fast_dots; /* packed products of 4 x 8 bits: known to the driver, and instructions of the device */
    const char *missing_feature; /* a feature that the shaders require; NULL: none is missing */
    uint8_t pipeline_uuid[VK_UUID_SIZE];
} gpu_facts;

/* A buffer of the device with its memory. Shaders use its address. */
typedef struct gpu_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    uint64_t bytes;
    uint8_t *mapped; /* NULL: not host-visible */
    bool cached;     /* host-cached: reading through `mapped` is fast */
    bool shared;     /* gpu_buffer_export() exports it */
    bool borrowed;   /* owned by the caller of gpu_buffer_wrap() */
} gpu_buffer;

/* Everything that determines a pipeline. */
typedef struct gpu_pipeline_key {
    gpu_shader shader;
    uint32_t constants[ID_COUNT];
    const uint32_t *words; /* parameters to compile in as constants; or NULL */
    uint32_t word_count;
} gpu_pipeline_key;

typedef struct gpu_pipeline {
    struct gpu_pipeline *next;
    gpu_pipeline_key key;
    VkPipeline pipeline;
} gpu_pipeline;

/* Faults that tests inject: at the nth submission or allocation of a session (LOST, HANG, MEMORY), memory that the host
 * does not see (SEPARATE_MEMORY), a wrong result of the nth check of the self-test (WRONG_RESULT), or a CPU driver that
 * runs the shaders of GPUs (AS_GPU), or a driver that says that N KiB of memory are left (BUDGET). */
typedef enum gpu_fault {
    GPU_FAULT_NONE,
    GPU_FAULT_LOST,
    GPU_FAULT_MEMORY,
    GPU_FAULT_HANG,
    GPU_FAULT_SEPARATE_MEMORY,
    GPU_FAULT_WRONG_RESULT,
    GPU_FAULT_AS_GPU,
    GPU_FAULT_BUDGET
} gpu_fault;

typedef struct gpu_options {
    const char *device;  /* "auto", "cpu", an index in the list, or a part of a name */
    uint32_t timeout_ms; /* limit of one submission, after which the device counts as lost; 0: default of its type */
    gpu_fault fault;
    uint32_t fault_at;
    const char *cache_dir;     /* folder of the pipeline cache; "": none */
    uint32_t excluded_devices; /* bit i: never choose device i of the list */
} gpu_options;

/* Memory that the device shares with others through file descriptors. */
typedef struct gpu_external {
    uint32_t exports, imports; /* sets of INLAY_MEMORY_BIT: DMA_BUF, OPAQUE_FD */
    /* handle types of every shared buffer: an importer has to create its buffer as the exporter did */
    VkExternalMemoryHandleTypeFlags types;
} gpu_external;

/* A queue, and the timeline semaphore of its submissions. */
typedef struct gpu_lane {
    VkQueue queue;
    uint32_t family;
    VkCommandPool pool;
    VkSemaphore timeline;
    uint64_t last_submitted; /* timeline value of the last submission; under queue_lock */
    uint64_t last_sent;      /* value of the last submission that an injected hang did not drop */
} gpu_lane;

/* Uploads through staging memory (gpu_copy.c), by a queue family that only transfers if the device has one,
 * otherwise by the queue of shaders. One slot is filled while the device copies from the other. Under staging_lock. */
typedef struct gpu_uploads {
    gpu_lane lane;
    uint64_t waited; /* value that the queue of shaders has waited for; under queue_lock */
    struct {
        gpu_buffer memory; /* created when it is first needed */
        VkCommandBuffer commands;
        uint64_t value; /* of its last submission */
    } slots[2];
    uint32_t current;
    bool recording; /* the current slot has commands that are not submitted */
    uint64_t used;  /* bytes of its memory */
} gpu_uploads;

typedef struct gpu_device {
    void *library;
    gpu_functions vk;
    VkInstance instance;
    VkDevice device;
    gpu_lane lane; /* of shaders; its pool is under queue_lock */
    gpu_uploads uploads;
    VkPhysicalDeviceMemoryProperties memory;
    gpu_external external;
    gpu_facts facts;
    uint32_t stamp_bits; /* of the time stamps of the queue of shaders; 0: it has none */
    uint32_t timeout_ms;
    gpu_fault fault;
    uint32_t fault_countdown; /* submissions or allocations left before the fault */
    uint32_t lost;            /* 1: permanently; read atomically */
    pthread_mutex_t queue_lock, pipeline_lock, staging_lock;
    VkCommandBuffer copy_commands;
    gpu_buffer staging; /* of copies by the queue of shaders; created by the first that needs it; under staging_lock */
    VkPipelineLayout pipeline_layout;
    VkPipelineCache pipeline_cache;
    size_t loaded_cache_bytes; /* size of the pipeline cache when it was loaded */
    char cache_dir[4096];      /* folder of the pipeline cache; "": none */
    gpu_pipeline *pipelines;   /* under pipeline_lock */
} gpu_device;

/* INLAY_UNSUPPORTED if libvulkan or every driver is missing. Opens no driver. */
inlay_status gpu_check_driver(inlay_diag *diag);
/* Whether the machine has a device file that a GPU driver would open. Without one, only CPU drivers can exist. */
bool gpu_may_exist(void);

/* Calls `found` for each device. Opens none of them. */
typedef inlay_status (*gpu_found_fn)(void *user, const gpu_facts *facts);
inlay_status gpu_list(gpu_found_fn found, void *user, inlay_diag *diag);
/* The first queue family with compute shaders, and the first that only transfers; `count`: there is none. */
void gpu_choose_families(const VkQueueFamilyProperties *families, uint32_t count, uint32_t *out_shaders,
                         uint32_t *out_transfers);
bool gpu_has_extension(const gpu_functions *vk, VkPhysicalDevice device, const char *name);
/* Bytes of the heap that this process may still allocate; UINT64_MAX: unknown. */
uint64_t gpu_memory_left(const gpu_functions *vk, const gpu_facts *facts, uint32_t heap);

/* INLAY_UNSUPPORTED: libvulkan, a driver, the device or a required feature is missing; diag lists the devices. */
inlay_status gpu_open(const gpu_options *options, gpu_device **out, inlay_diag *diag);
void gpu_close(gpu_device *device); /* NULL: a no-op */

/* Writes one line that describes a device. */
void gpu_describe(const gpu_facts *facts, char *out, size_t bytes);

/* Finds what the device shares; lists the extensions that this requires in names[2] and returns their number. */
uint32_t gpu_external_find(gpu_device *device, const char *names[2]);
/* The handle type of a kind of memory; 0: none. */
VkExternalMemoryHandleTypeFlagBits gpu_external_type(uint32_t kind);

/* Converts the result of a Vulkan call to a status. `what` names the action for the message. A result that reports a
 * lost device marks the device as lost. */
inlay_status gpu_check(gpu_device *device, VkResult result, const char *what, inlay_diag *diag);
/* Counts down to an injected fault; true when it is due. */
bool gpu_fault_due(gpu_device *device, gpu_fault fault);
/* INLAY_DEVICE_LOST once the device is lost. */
inlay_status gpu_check_alive(gpu_device *device, inlay_diag *diag);

inlay_status gpu_buffer_create(gpu_device *device, uint64_t bytes, gpu_buffer *out, inlay_diag *diag);
/* The same with memory that gpu_buffer_export() exports, if the device exports any. */
inlay_status gpu_buffer_create_shared(gpu_device *device, uint64_t bytes, gpu_buffer *out, inlay_diag *diag);
/* Returns a new file descriptor of the memory, which the caller closes. kind: INLAY_MEMORY_DMA_BUF, _OPAQUE_FD.
 * INLAY_UNSUPPORTED: the memory is not shared, or not by this kind. */
inlay_status gpu_buffer_export(gpu_device *device, const gpu_buffer *buffer, uint32_t kind, int *out_fd,
                               inlay_diag *diag);
/* Creates a buffer over memory of `bytes` bytes. fd stays the caller's. */
inlay_status gpu_buffer_import(gpu_device *device, uint32_t kind, int fd, uint64_t bytes, gpu_buffer *out,
                               inlay_diag *diag);
void gpu_buffer_destroy(gpu_device *device, gpu_buffer *buffer); /* {0}: a no-op */
void gpu_buffer_free(gpu_device *device, gpu_buffer *buffer);    /* the same for a buffer that no copy has used */
/* Wraps a VkBuffer of this device that the caller owns. It needs storage and device-address usage, and must outlive
 * *out. */
void gpu_buffer_wrap(const gpu_device *device, VkBuffer buffer, uint64_t bytes, gpu_buffer *out);
/* Copies between the host and buffers that no work in flight uses. If the host does not see the memory, uploads are one
 * submission if 16 MiB of staging memory suffice, otherwise several, and so are the other copies. No copy of the list
 * may read bytes that another copy of the list writes. Uploads may still run when the function returns, except those to
 * shared memory: later submissions wait for them. */
typedef struct gpu_copy {
    const gpu_buffer *from, *to; /* NULL: host */
    uint64_t from_at, to_at;     /* byte offsets in the two buffers */
    void *host;                  /* host memory, if one side is the host */
    uint64_t bytes;
} gpu_copy;
inlay_status gpu_copy_list(gpu_device *device, const gpu_copy *list, uint32_t count, inlay_diag *diag);
inlay_status gpu_write(gpu_device *device, const gpu_buffer *to, uint64_t offset, const void *from, uint64_t bytes,
                       inlay_diag *diag);

/* The same for a buffer of this file's functions; the next list of copies, which may be empty, submits it. */
inlay_status gpu_write_later(gpu_device *device, const gpu_buffer *to, uint64_t offset, const void *from,
                             uint64_t bytes, inlay_diag *diag);

enum { GPU_STAGING_BYTES = 16 << 20 };
inlay_status gpu_create_staging(gpu_device *device, gpu_buffer *out, inlay_diag *diag);

/* Returns the pipeline of a key and creates it on the first call. Thread-safe. */
inlay_status gpu_pipeline_get(gpu_device *device, const gpu_pipeline_key *key, VkPipeline *out, inlay_diag *diag);

/* The name of this device's file of kind `what` in the cache folder. */
void gpu_cache_file_name(const gpu_device *device, const char *what, char name[64]);
bool gpu_cache_has(const char *cache_dir, const char *name);
/* The driver's pipeline cache: loads the file of an earlier process, and saves the cache if it has grown. */
inlay_status gpu_cache_open(gpu_device *device, inlay_diag *diag);
void gpu_cache_save(gpu_device *device);

/* Cooperative matrices (gpu_matrix.c). gpu_matrix_ask() fills the features struct of the extension, for a query or
 * (want) for opening the device, and returns what to put into the pNext chain: NULL if the device lacks the
 * extension. */
#define GPU_MATRIX_EXTENSION "VK_KHR_cooperative_matrix"
/* The shared memory that every such device has (tiles.c lists tiles by it), and subgroups of a workgroup. */
enum { GPU_MATRIX_SHARED_BYTES = 32768, GPU_MATRIX_SUBGROUPS = 8 };
typedef struct gpu_matrix_features {
    VkBaseOutStructure base;
    uint64_t rest;
} gpu_matrix_features;
void *gpu_matrix_ask(const gpu_functions *vk, VkPhysicalDevice device, bool want, gpu_matrix_features *features);
/* Sets the sizes of matrices of a device that has answered with these features. */
void gpu_matrix_find(const gpu_functions *vk, VkInstance instance, const gpu_matrix_features *features,
                     gpu_facts *facts);
/* Converts a shader with one multiplication of matrices from SPV_NV_cooperative_matrix to SPV_KHR_cooperative_matrix:
 * *out has room for `count` + GPU_MATRIX_WORDS words. Returns the number of words. */
enum { GPU_MATRIX_WORDS = 16 };
uint32_t gpu_matrix_convert(const uint32_t *words, uint32_t count, uint32_t *out);

/* Hash of all shaders of this build. */
uint64_t gpu_shaders_hash(void);
/* Copies a shader module and replaces the placeholder functions by those that the constants select. The caller frees
 * *out. */
inlay_status gpu_patch_shader(const gpu_pipeline_key *key, uint32_t **out, uint32_t *out_words, inlay_diag *diag);

/* Command buffers. gpu_record_begin() locks the command pool until gpu_record_end(), so one thread records at a
 * time. */
inlay_status gpu_commands_create(gpu_device *device, uint32_t count, VkCommandBuffer *out, inlay_diag *diag);
void gpu_commands_destroy(gpu_device *device, uint32_t count, VkCommandBuffer *commands);
inlay_status gpu_record_begin(gpu_device *device, VkCommandBuffer commands, inlay_diag *diag);
inlay_status gpu_record_end(gpu_device *device, VkCommandBuffer commands, inlay_diag *diag);
/* Makes all earlier writes visible to all later commands. */
void gpu_barrier(gpu_device *device, VkCommandBuffer commands);

/* Submits to the queue of shaders, behind the uploads that have been submitted; *out_value is the timeline value that
 * the work signals. */
inlay_status gpu_submit(gpu_device *device, VkCommandBuffer commands, uint64_t *out_value, inlay_diag *diag);
inlay_status gpu_submit_upload(gpu_device *device, VkCommandBuffer commands, uint64_t *out_value, inlay_diag *diag);
/* Waits for a timeline value. `poll` (may be NULL) is called every few milliseconds; its first status other than
 * INLAY_OK is returned once the work has ended. After timeout_ms the device counts as lost. */
typedef inlay_status (*gpu_poll_fn)(void *user);
inlay_status gpu_wait(gpu_device *device, uint64_t value, gpu_poll_fn poll, void *user, inlay_diag *diag);
inlay_status gpu_wait_upload(gpu_device *device, uint64_t value, inlay_diag *diag);
/* Waits for all work, on a lost device for 5 seconds at most: a CPU driver must not be unloaded while it still
 * compiles. */
void gpu_wait_idle(gpu_device *device);
#endif
