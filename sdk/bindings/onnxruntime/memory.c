/* Allocators and memory descriptions. There is one kind of memory, that of the host. */
#include "ort.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <strings.h>

enum { ALIGNMENT = 64 };
const OrtMemoryInfo ort_cpu_memory = { .name = "Cpu", .type = ORT_DEVICE_ALLOCATOR };

struct OrtArenaCfg {
    size_t max_bytes;
};
struct OrtPrepackedWeightsContainer {
    char unused;
};

static void *allocate(OrtAllocator *self, size_t bytes)
{
    (void)self;
    if (bytes > PTRDIFF_MAX - ALIGNMENT)
        return NULL;
    return bytes == 0 ? NULL : aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static void release(OrtAllocator *self, void *memory)
{
    (void)self;
    free(memory);
}

static const OrtMemoryInfo *describe(const OrtAllocator *self)
{
    (void)self;
    return &ort_cpu_memory;
}

static OrtStatus *stats(const OrtAllocator *self, OrtKeyValuePairs **out)
{
    (void)self;
    *out = calloc(1, sizeof **out);
    return *out != NULL ? NULL : ort_no_memory();
}

static void *allocate_on_stream(OrtAllocator *self, size_t bytes, OrtSyncStream *stream)
{
    (void)stream;
    return allocate(self, bytes);
}

static OrtStatus *shrink(OrtAllocator *self)
{
    (void)self;
    return NULL;
}

static OrtAllocator cpu_allocator = { .version = ORT_VERSION_MINOR,
                                      .Alloc = allocate,
                                      .Free = release,
                                      .Info = describe,
                                      .Reserve = allocate,
                                      .GetStats = stats,
                                      .AllocOnStream = allocate_on_stream,
                                      .Shrink = shrink };

OrtAllocator *ort_allocator(void)
{
    return &cpu_allocator;
}

OrtStatus *ort_GetAllocatorWithDefaultOptions(OrtAllocator **out)
{
    ORT_NEED(out);
    *out = &cpu_allocator;
    return NULL;
}

static OrtStatus *check_device(const OrtMemoryInfo *info)
{
    if (info->device_type != 0 || strcasecmp(info->name, "cpu") != 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "memory '%s' is not available: inlay only supports host memory, 'Cpu'",
                        info->name);
    return NULL;
}

OrtStatus *ort_CreateAllocator(const OrtSession *session, const OrtMemoryInfo *mem_info, OrtAllocator **out)
{
    ORT_NEED(session);
    ORT_NEED(mem_info);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(check_device(mem_info));
    *out = &cpu_allocator;
    return NULL;
}

void ort_ReleaseAllocator(OrtAllocator *allocator)
{
    (void)allocator; /* the process has one allocator, which is never released */
}

OrtStatus *ort_AllocatorAlloc(OrtAllocator *ort_allocator_, size_t size, void **out)
{
    ORT_NEED(ort_allocator_);
    ORT_NEED(out);
    *out = ort_allocator_->Alloc(ort_allocator_, size);
    return *out != NULL || size == 0 ? NULL : ort_no_memory();
}

OrtStatus *ort_AllocatorFree(OrtAllocator *ort_allocator_, void *memory)
{
    ORT_NEED(ort_allocator_);
    ort_allocator_->Free(ort_allocator_, memory);
    return NULL;
}

ORT_GETTER(ort_AllocatorGetInfo, const OrtAllocator *, ort_allocator_, const OrtMemoryInfo *, out,
           ort_allocator_->Info(ort_allocator_))

OrtStatus *ort_AllocatorGetStats(const OrtAllocator *ort_allocator_, OrtKeyValuePairs **out)
{
    ORT_NEED(ort_allocator_);
    ORT_NEED(out);
    *out = NULL;
    if (ort_allocator_->version < 23 || ort_allocator_->GetStats == NULL)
        return ort_fail(ORT_NOT_IMPLEMENTED, "the allocator keeps no statistics");
    return ort_allocator_->GetStats(ort_allocator_, out);
}

OrtStatus *ort_CreateSharedAllocator(OrtEnv *env, const OrtEpDevice *ep_device, OrtDeviceMemoryType mem_type,
                                     OrtAllocatorType allocator_type, const OrtKeyValuePairs *allocator_options,
                                     OrtAllocator **allocator)
{
    (void)mem_type, (void)allocator_type, (void)allocator_options;
    ORT_NEED(env);
    ORT_NEED(ep_device);
    if (allocator != NULL)
        *allocator = &cpu_allocator;
    return NULL;
}

OrtStatus *ort_GetSharedAllocator(OrtEnv *env, const OrtMemoryInfo *mem_info, OrtAllocator **allocator)
{
    ORT_NEED(env);
    ORT_NEED(mem_info);
    ORT_NEED(allocator);
    *allocator = mem_info->device_type == 0 ? &cpu_allocator : NULL;
    return NULL;
}

OrtStatus *ort_ReleaseSharedAllocator(OrtEnv *env, const OrtEpDevice *ep_device, OrtDeviceMemoryType mem_type)
{
    (void)mem_type;
    ORT_NEED(env);
    ORT_NEED(ep_device);
    return NULL;
}

static OrtStatus *make_info(const OrtMemoryInfo *from, const char *name, OrtMemoryInfo **out)
{
    ORT_NEED(name);
    ORT_NEED(out);
    *out = NULL;
    if (strlen(name) >= sizeof from->name)
        return ort_fail(ORT_INVALID_ARGUMENT, "a memory's name has at most %zu characters", sizeof from->name - 1);
    *out = malloc(sizeof **out);
    if (*out == NULL)
        return ort_no_memory();
    **out = *from;
    memcpy((*out)->name, name, strlen(name) + 1);
    return NULL;
}

OrtStatus *ort_CreateMemoryInfo(const char *name, OrtAllocatorType type, int id, OrtMemType mem_type,
                                OrtMemoryInfo **out)
{
    OrtMemoryInfo info = { .type = type, .id = id, .mem_type = mem_type };

    ORT_NEED(name);
    if (strncasecmp(name, "cpu", 3) != 0) {
        static const char *const known[] = { "Cuda",         "CudaPinned",     "CUDA_CPU",      "Dml",
                                             "Hip",          "HipPinned",      "OpenVINO_CPU",  "OpenVINO_GPU",
                                             "QnnHtpShared", "WebGPU_Buf",     "WebGPU_Buffer", "WebNN_Ten",
                                             "WebNN_Tensor", "Cann",           "CannPinned",    "DML",
                                             "OpenVINO_RT",  "OpenVINO_RT_NPU" };
        bool is_known = false;

        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            is_known = is_known || strcmp(name, known[i]) == 0;
        if (!is_known)
            return ort_fail(ORT_INVALID_ARGUMENT, "Specified device is not supported: '%s'; only 'Cpu' is", name);
        info.device_type = 1;
    }
    return make_info(&info, name, out);
}

OrtStatus *ort_CreateMemoryInfo_V2(const char *name, OrtMemoryInfoDeviceType device_type, uint32_t vendor_id,
                                   int32_t device_id, OrtDeviceMemoryType mem_type, size_t alignment,
                                   OrtAllocatorType allocator_type, OrtMemoryInfo **out)
{
    const OrtMemoryInfo info = { .type = allocator_type,
                                 .id = device_id,
                                 .device_type = device_type,
                                 .device_memory = mem_type,
                                 .vendor = vendor_id,
                                 .alignment = alignment };

    return make_info(&info, name, out);
}

OrtStatus *ort_CreateCpuMemoryInfo(OrtAllocatorType type, OrtMemType mem_type, OrtMemoryInfo **out)
{
    const OrtMemoryInfo info = { .type = type, .mem_type = mem_type };

    return make_info(&info, "Cpu", out);
}

void ort_ReleaseMemoryInfo(OrtMemoryInfo *info)
{
    if (info != &ort_cpu_memory)
        free(info);
}

OrtStatus *ort_CompareMemoryInfo(const OrtMemoryInfo *info1, const OrtMemoryInfo *info2, int *out)
{
    ORT_NEED(info1);
    ORT_NEED(info2);
    ORT_NEED(out);
    *out = strcmp(info1->name, info2->name) == 0 && info1->type == info2->type && info1->id == info2->id &&
                   info1->mem_type == info2->mem_type && info1->device_type == info2->device_type &&
                   info1->device_memory == info2->device_memory
               ? 0
               : -1;
    return NULL;
}

ORT_GETTER(ort_MemoryInfoGetName, const OrtMemoryInfo *, ptr, const char *, out, ptr->name)
ORT_GETTER(ort_MemoryInfoGetId, const OrtMemoryInfo *, ptr, int, out, ptr->id)
ORT_GETTER(ort_MemoryInfoGetMemType, const OrtMemoryInfo *, ptr, OrtMemType, out, ptr->mem_type)
ORT_GETTER(ort_MemoryInfoGetType, const OrtMemoryInfo *, ptr, OrtAllocatorType, out, ptr->type)

void ort_MemoryInfoGetDeviceType(const OrtMemoryInfo *ptr, OrtMemoryInfoDeviceType *out)
{
    *out = ptr->device_type;
}

OrtDeviceMemoryType ort_MemoryInfoGetDeviceMemType(const OrtMemoryInfo *ptr)
{
    return ptr->device_memory;
}

uint32_t ort_MemoryInfoGetVendorId(const OrtMemoryInfo *ptr)
{
    return ptr->vendor;
}

OrtStatus *ort_CreateArenaCfg(size_t max_mem, int arena_extend_strategy, int initial_chunk_size_bytes,
                              int max_dead_bytes_per_chunk, OrtArenaCfg **out)
{
    (void)arena_extend_strategy, (void)initial_chunk_size_bytes, (void)max_dead_bytes_per_chunk;
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return ort_no_memory();
    (*out)->max_bytes = max_mem;
    return NULL;
}

OrtStatus *ort_CreateArenaCfgV2(const char *const *arena_config_keys, const size_t *arena_config_values,
                                size_t num_keys, OrtArenaCfg **out)
{
    static const char *const known[] = { "max_mem",
                                         "arena_extend_strategy",
                                         "initial_chunk_size_bytes",
                                         "max_dead_bytes_per_chunk",
                                         "initial_growth_chunk_size_bytes",
                                         "max_power_of_two_extend_bytes" };
    size_t max_mem = 0;

    ORT_NEED(out);
    *out = NULL;
    if (num_keys > 0) {
        ORT_NEED(arena_config_keys);
        ORT_NEED(arena_config_values);
    }
    for (size_t i = 0; i < num_keys; i++) {
        bool is_known = false;

        ORT_NEED(arena_config_keys[i]);
        for (size_t j = 0; j < sizeof known / sizeof known[0]; j++)
            is_known = is_known || strcmp(arena_config_keys[i], known[j]) == 0;
        if (!is_known)
            return ort_fail(ORT_INVALID_ARGUMENT, "Invalid key found: %s", arena_config_keys[i]);
        if (strcmp(arena_config_keys[i], "max_mem") == 0)
            max_mem = arena_config_values[i];
    }
    return ort_CreateArenaCfg(max_mem, 0, 0, 0, out);
}

void ort_ReleaseArenaCfg(OrtArenaCfg *config)
{
    free(config);
}

OrtStatus *ort_CreatePrepackedWeightsContainer(OrtPrepackedWeightsContainer **out)
{
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    return *out != NULL ? NULL : ort_no_memory();
}

void ort_ReleasePrepackedWeightsContainer(OrtPrepackedWeightsContainer *container)
{
    free(container);
}

OrtStatus *ort_read_file(const char *path, void **out_data, size_t *out_bytes)
{
    FILE *file = fopen(path, "rbe");
    struct stat about;
    char *data = NULL;
    size_t bytes = 0, got = 0;

    if (file == NULL || fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode)) {
        const int error = file == NULL ? errno : EINVAL;

        if (file != NULL)
            (void)fclose(file);
        return ort_fail(ORT_NO_SUCHFILE, "%s: %s", path, error == EINVAL ? "not a regular file" : strerror(error));
    }
    bytes = (size_t)about.st_size;
    data = malloc(bytes + 1);
    if (data != NULL)
        got = fread(data, 1, bytes, file);
    (void)fclose(file);
    if (data == NULL)
        return ort_no_memory();
    if (got != bytes) {
        free(data);
        return ort_fail(ORT_FAIL, "%s: read %zu of %zu bytes", path, got, bytes);
    }
    *out_data = data;
    *out_bytes = bytes;
    return NULL;
}
