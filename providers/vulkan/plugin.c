/* The vulkan provider: runs regions of a graph on a GPU by compute shaders. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "vulkan/region.h"
#include <stdlib.h>
#include <unistd.h>

enum { MAX_COPIES = 32, NATIVE_VULKAN = 7 /* of DLPack */ };

static const inlay_option options[] = {
    { .name = "device",
      .kind = INLAY_OPTION_STRING,
      .default_value = "auto",
      .doc = "the Vulkan device: its number in the list, a part of its name, cpu, or auto = a GPU where there is one, "
             "otherwise a CPU driver, which gets no nodes by cost: name it here, pin nodes, or choose policy "
             "priority" },
    { .name = "timeout_ms",
      .kind = INLAY_OPTION_INT,
      .default_value = "0",
      .max = 3600000,
      .doc = "milliseconds after which an unfinished submission makes the device count as lost; 0 = 20 s for a GPU, 10 "
             "minutes "
             "for a CPU, whose driver also compiles shaders in that time" },
    { .name = "tiles",
      .kind = INLAY_OPTION_STRING,
      .default_value = "auto",
      .doc = "times of the tiles of matrix multiplications: auto = measured on a GPU by the first session that needs "
             "them, and kept in the cache folder; measure = also on a CPU driver; estimate = not measured" },
    { .name = "fault",
      .kind = INLAY_OPTION_STRING,
      .default_value = "",
      .doc =
          "for tests: lost:N, hang:N or memory:N; the device is lost at its Nth submission, never ends it, or has no "
          "room for its Nth buffer; apart:0: the host does not see its memory; every dispatch is a submission then; "
          "wrong:N: check N of its self-test fails; gpu:0: a CPU driver runs the shaders of GPUs; budget:N: the driver "
          "says that N KiB of memory are left" },
};

/* Speeds assumed before measurement: a mid-range GPU, or a CPU driver. A CPU driver that no option names must not
 * win nodes by cost, so each op costs one second more. */
static void guess_speed(vulkan_state *vulkan, VkPhysicalDeviceType type)
{
    const bool cpu = type == VK_PHYSICAL_DEVICE_TYPE_CPU, discrete = type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;

    vulkan->launch_ns = cpu ? 100000 : 8000;
    vulkan->unrequested_ns = cpu && !vulkan->device_named ? 1e9 : 0;
    vulkan->flops_per_ns = cpu ? 2 : discrete ? 2000 : 300;
    vulkan->bytes_per_ns = cpu ? 1 : discrete ? 150 : 25;
}

/* Opens the best matching device that passes the self-test. diag describes the first failing device, even if another
 * one is found. */
static inlay_status open_tested(vulkan_state *vulkan, inlay_diag *diag)
{
    gpu_options open_options = vulkan->options;

    for (;;) {
        inlay_diag next = INLAY_DIAG_INIT;
        gpu_device *device = NULL;
        inlay_status status = gpu_open(&open_options, &device, &next);

        if (status == INLAY_OK && (status = vulkan_self_test(vulkan, device, &next)) == INLAY_OK) {
            vulkan->gpu = device;
            return INLAY_OK;
        }
        if (open_options.excluded_devices == 0 || status != INLAY_UNSUPPORTED)
            *diag = next;
        if (device == NULL || status != INLAY_UNSUPPORTED) {
            gpu_close(device);
            return status;
        }
        open_options.excluded_devices |= 1u << device->facts.number;
        gpu_close(device);
    }
}

inlay_status vulkan_open(vulkan_state *vulkan, gpu_device **out, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    char text[GPU_NAME_BYTES + 128], what[GPU_NAME_BYTES + 96];

    (void)pthread_mutex_lock(&vulkan->lock);
    if (vulkan->open_error[0] != '\0') {
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s", vulkan->open_error);
    } else if (vulkan->gpu == NULL) {
        status = open_tested(vulkan, &why);
        if (status == INLAY_UNSUPPORTED) /* the reason is final */
            (void)snprintf(vulkan->open_error, sizeof vulkan->open_error, "%s", why.text);
        if (status != INLAY_OK && diag != NULL)
            *diag = why;
        if (why.text[0] != '\0' &&
            (status == INLAY_OK || vulkan->open_deferred)) /* otherwise create() returns the message */
            vulkan->host->log(vulkan->host->ctx, INLAY_LOG_WARNING, why.text);
        if (status == INLAY_OK) {
            guess_speed(vulkan, vulkan->gpu->facts.type);
            vulkan->flops_per_ns =
                vulkan->gpu->facts.scalar_loads ? 30 : vulkan->flops_per_ns; /* measured on two cores of 2.5 GHz */
            gpu_describe(&vulkan->gpu->facts, what, sizeof what);
            (void)snprintf(text, sizeof text, "vulkan: device %s", what);
            vulkan->host->log(vulkan->host->ctx, INLAY_LOG_INFO, text);
        }
    }
    *out = vulkan->gpu;
    (void)pthread_mutex_unlock(&vulkan->lock);
    return status;
}

static void destroy(void *state)
{
    vulkan_state *vulkan = state;

    gpu_close(vulkan->gpu);
    (void)pthread_mutex_destroy(&vulkan->lock);
    free(vulkan);
}

static inlay_status read_fault(const char *text, gpu_options *open_options, inlay_diag *diag)
{
    static const char *const kinds[] = { [GPU_FAULT_LOST] = "lost",          [GPU_FAULT_MEMORY] = "memory",
                                         [GPU_FAULT_HANG] = "hang",          [GPU_FAULT_SEPARATE_MEMORY] = "apart",
                                         [GPU_FAULT_WRONG_RESULT] = "wrong", [GPU_FAULT_AS_GPU] = "gpu",
                                         [GPU_FAULT_BUDGET] = "budget" };
    char kind[8] = "";

    if (text == NULL || text[0] == '\0')
        return INLAY_OK;
    if (sscanf(text, "%7[a-z]:%u", kind, &open_options->fault_at) == 2)
        for (uint32_t i = GPU_FAULT_LOST; i < KIT_COUNT(kinds); i++)
            open_options->fault = strcmp(kind, kinds[i]) == 0 ? (gpu_fault)i : open_options->fault;
    return open_options->fault != GPU_FAULT_NONE
               ? INLAY_OK
               : inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "option fault is '%s'; it takes lost:N, memory:N, hang:N, apart:0, wrong:N, gpu:0 or "
                            "budget:N",
                            text);
}

static inlay_status read_tiles(const char *text, vulkan_measuring *out, inlay_diag *diag)
{
    static const char *const names[] = {
        [VULKAN_ESTIMATE] = "estimate", [VULKAN_MEASURE_GPU] = "auto", [VULKAN_MEASURE] = "measure"
    };

    for (uint32_t i = 0; i < KIT_COUNT(names); i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (vulkan_measuring)i;
            return INLAY_OK;
        }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option tiles is '%s'; it takes auto, measure or estimate", text);
}

/* Opens the device, which takes about 50 ms. If no GPU can exist and no option names a device, the first region opens
 * it instead; in that case the host assigns regions to the provider only if the user requests it by name. */
static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    vulkan_state *vulkan = calloc(1, sizeof *vulkan);
    gpu_device *opened;
    inlay_status status = INLAY_OK;

    (void)ctx;
    if (vulkan == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider vulkan");
    vulkan->host = host;
    vulkan->domain = args->first_domain;
    vulkan->measuring = VULKAN_MEASURE_GPU;
    vulkan->options = (gpu_options){ .device = vulkan->device_name, .cache_dir = vulkan->cache_dir };
    if (INLAY_HAS(args, cache_dir) && args->cache_dir != NULL)
        (void)snprintf(vulkan->cache_dir, sizeof vulkan->cache_dir, "%s", args->cache_dir);
    (void)snprintf(vulkan->device_name, sizeof vulkan->device_name, "auto");
    (void)pthread_mutex_init(&vulkan->lock, NULL);
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *option = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(option->name, "device") == 0 && option->s != NULL && option->s[0] != '\0') {
            (void)snprintf(vulkan->device_name, sizeof vulkan->device_name, "%s", option->s);
            vulkan->device_named = strcmp(option->s, "auto") != 0;
        } else if (strcmp(option->name, "timeout_ms") == 0) {
            vulkan->options.timeout_ms = (uint32_t)option->i;
        } else if (strcmp(option->name, "tiles") == 0 && option->s != NULL && status == INLAY_OK) {
            status = read_tiles(option->s, &vulkan->measuring, diag);
        } else if (strcmp(option->name, "fault") == 0 && status == INLAY_OK) {
            status = read_fault(option->s, &vulkan->options, diag);
        }
    }
    guess_speed(vulkan, VK_PHYSICAL_DEVICE_TYPE_CPU);
    vulkan->open_deferred = !vulkan->device_named && !gpu_may_exist();
    if (status == INLAY_OK)
        status = vulkan->open_deferred ? gpu_check_driver(diag) : vulkan_open(vulkan, &opened, diag);
    if (status != INLAY_OK) {
        destroy(vulkan);
        return status;
    }
    *out_state = vulkan;
    return INLAY_OK;
}

static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out, inlay_diag *diag)
{
    gpu_device *device = NULL;
    const inlay_status status = vulkan_open(state, &device, diag);

    return status == INLAY_OK ? vulkan_compile_on(state, device, request, out, diag) : status;
}

static void quiesce(void *state)
{
    vulkan_state *vulkan = state;

    if (vulkan->gpu != NULL)
        gpu_wait_idle(vulkan->gpu);
}

struct lister {
    inlay_status (*device)(void *user, const inlay_device_info *info);
    void *user;
};

/* facts: at least 128 bytes. */
static void write_info(const gpu_facts *gpu, char *facts, inlay_device_info *out)
{
    (void)snprintf(facts, 128, "vulkan=%u.%u; subgroup=%u; f16=%s; f64=%s; matrices=%s",
                   VK_API_VERSION_MAJOR(gpu->api_version), VK_API_VERSION_MINOR(gpu->api_version), gpu->subgroup,
                   gpu->f16 ? "yes" : "no", gpu->f64 ? "yes" : "no", gpu->matrix_size > 0 ? "yes" : "no");
    out->name = gpu->name;
    out->facts = facts;
    out->memory_bytes = gpu->memory_bytes;
    out->free_bytes = gpu->free_bytes;
    out->flags = gpu->unified ? INLAY_DEVICE_UNIFIED : 0;
    out->kind = gpu->type == VK_PHYSICAL_DEVICE_TYPE_CPU     ? INLAY_DEVICE_CPU
                : gpu->type == VK_PHYSICAL_DEVICE_TYPE_OTHER ? INLAY_DEVICE_OTHER
                                                             : INLAY_DEVICE_GPU;
}

static inlay_status pass_device(void *user, const gpu_facts *gpu)
{
    const struct lister *lister = user;
    char value[16], facts[128], unusable[128];
    inlay_device_info info = { .struct_size = sizeof info, .option = "device", .value = value };

    (void)snprintf(value, sizeof value, "%u", gpu->number);
    (void)snprintf(unusable, sizeof unusable, "it lacks %s",
                   gpu->missing_feature != NULL ? gpu->missing_feature : "nothing");
    info.unusable = gpu->missing_feature != NULL ? unusable : NULL;
    write_info(gpu, facts, &info);
    return lister->device(lister->user, &info);
}

static inlay_status enumerate(void *ctx, const inlay_enumerate_request *request, inlay_diag *diag)
{
    struct lister lister = { request->device, request->user };

    (void)ctx;
    return gpu_list(pass_device, &lister, diag);
}

/* A deferred device is opened with the first region. Until then it is described as a CPU. */
static inlay_status describe(void *state, const inlay_describe_request *request, inlay_diag *diag)
{
    vulkan_state *vulkan = state;
    inlay_device_info *out = request->device;
    inlay_domain_info *at = INLAY_AT_OUT(inlay_domain_info, request->domains, request->domain_stride, 0);
    uint64_t left;

    (void)diag;
    if (vulkan->gpu == NULL) {
        out->kind = INLAY_DEVICE_CPU;
        return INLAY_OK;
    }
    write_info(&vulkan->gpu->facts, vulkan->facts, out);
    /* Regions that need more than is left get other providers. */
    left = gpu_memory_left(&vulkan->gpu->vk, &vulkan->gpu->facts, vulkan->gpu->facts.heap);
    at->memory_bytes = left == 0 ? 1 : left < out->memory_bytes ? left : out->memory_bytes;
    if (vulkan->gpu->facts.unified)
        at->flags = INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT;
    if (INLAY_STRIDE_HAS(inlay_domain_info, request->domain_stride, imports)) {
        at->exports = vulkan->gpu->external.exports;
        at->imports = vulkan->gpu->external.imports;
    }
    return INLAY_OK;
}

/* Returns a new buffer to the host, or frees it on failure. */
static inlay_status return_buffer(inlay_status status, gpu_buffer *allocation, inlay_buffer description,
                                  inlay_buffer *out)
{
    if (status != INLAY_OK) {
        free(allocation);
        return status;
    }
    description.handle = (uintptr_t)allocation;
    *out = description;
    return INLAY_OK;
}

static inlay_status buffer_alloc(void *state, const inlay_alloc_request *request, inlay_buffer *out, inlay_diag *diag)
{
    gpu_buffer *allocation = calloc(1, sizeof *allocation);
    gpu_device *device = NULL;
    inlay_status status = vulkan_open(state, &device, diag);

    if (status == INLAY_OK && allocation == NULL)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a buffer");
    if (status == INLAY_OK)
        status = (request->usage & INLAY_USE_SHARED) != 0
                     ? gpu_buffer_create_shared(device, request->bytes, allocation, diag)
                     : gpu_buffer_create(device, request->bytes, allocation, diag);
    return return_buffer(status, allocation, (inlay_buffer){ .domain = request->domain }, out);
}

static void buffer_free(void *state, const inlay_free_request *request)
{
    gpu_buffer *allocation = (gpu_buffer *)(uintptr_t)request->buffer->handle;

    if (allocation == NULL)
        return;
    INLAY_CHECK(((vulkan_state *)state)->gpu != NULL);
    gpu_buffer_destroy(((vulkan_state *)state)->gpu, allocation);
    free(allocation);
}

static inlay_status buffer_copy(void *state, const inlay_copy_request *request, inlay_diag *diag)
{
    vulkan_state *vulkan = state;
    gpu_copy list[MAX_COPIES];
    gpu_device *device = NULL;
    inlay_status status = vulkan_open(vulkan, &device, diag);

    for (uint32_t i = 0; i < request->wait_count && status == INLAY_OK; i++)
        status = vulkan->host->fence_wait(vulkan->host->ctx, request->run, request->waits[i], diag);
    for (uint32_t i = 0; i < request->copy_count && status == INLAY_OK;
         i++) { /* the copies are complete when this function returns; the host signals the fence */
        const inlay_copy *copy = INLAY_AT(inlay_copy, request->copies, request->copy_stride, i);
        const bool up = copy->source.domain == INLAY_DOMAIN_HOST, down = copy->target.domain == INLAY_DOMAIN_HOST;

        list[i % MAX_COPIES] =
            (gpu_copy){ .from = up ? NULL : (const gpu_buffer *)(uintptr_t)copy->source.handle,
                        .to = down ? NULL : (const gpu_buffer *)(uintptr_t)copy->target.handle,
                        .from_at = copy->source.offset,
                        .to_at = copy->target.offset,
                        .host = inlay_buffer_host(up ? &copy->source : &copy->target),
                        .bytes = copy->source.bytes < copy->target.bytes ? copy->source.bytes : copy->target.bytes };
        if ((i + 1) % MAX_COPIES == 0 || i + 1 == request->copy_count)
            status = gpu_copy_list(device, list, i % MAX_COPIES + 1, diag);
    }
    return status;
}

static bool is_descriptor(uint32_t kind)
{
    return gpu_external_type(kind) != 0;
}

/* Native handles are VkBuffers of this device, or descriptors of their memory. */
static inlay_status buffer_export(void *state, const inlay_export_request *request, inlay_native_memory *out,
                                  inlay_diag *diag)
{
    gpu_device *device = ((vulkan_state *)state)->gpu;
    const inlay_buffer *buffer = request->buffer;
    const gpu_buffer *allocation = (const gpu_buffer *)(uintptr_t)buffer->handle;
    inlay_status status = INLAY_OK;
    int fd = -1;

    if (is_descriptor(request->kind))
        status = gpu_buffer_export(device, allocation, request->kind, &fd, diag);
    else if (request->kind != INLAY_MEMORY_DEVICE)
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "provider vulkan exports VkBuffers and their memory only");
    if (status != INLAY_OK)
        return status;
    if (fd >= 0)
        out->handle = (uint64_t)fd;
    else
        memcpy(&out->handle, &allocation->buffer, sizeof allocation->buffer);
    out->offset = buffer->offset;
    out->bytes = buffer->bytes;
    out->device_type = NATIVE_VULKAN;
    out->device_id = (int32_t)device->facts.number;
    out->kind = request->kind;
    out->ownership = fd >= 0 ? INLAY_MEMORY_OWNED : INLAY_MEMORY_BORROWED;
    return INLAY_OK;
}

static inlay_status import_buffer(gpu_device *device, const inlay_native_memory *memory, gpu_buffer *out,
                                  inlay_diag *diag)
{
    VkBuffer buffer;

    if (memory->device_type != NATIVE_VULKAN || memory->handle == 0 ||
        memory->device_id != (int32_t)device->facts.number || memory->offset % GPU_ALIGNMENT != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "not a VkBuffer of Vulkan device %u, at a multiple of %d bytes",
                          device->facts.number, GPU_ALIGNMENT);
    memcpy(&buffer, &memory->handle, sizeof buffer);
    gpu_buffer_wrap(device, buffer, memory->offset + memory->bytes, out);
    return INLAY_OK;
}

static inlay_status import_descriptor(gpu_device *device, const inlay_native_memory *memory, gpu_buffer *out,
                                      inlay_diag *diag)
{
    const bool opaque = memory->kind == INLAY_MEMORY_OPAQUE_FD;
    uint64_t bytes;
    inlay_status status;

    if ((device->external.imports & INLAY_MEMORY_BIT(memory->kind)) == 0 || memory->pitch != 0 ||
        memory->modifier != 0 || memory->offset % GPU_ALIGNMENT != 0 ||
        (opaque && (memory->device_type != NATIVE_VULKAN || memory->device_id != (int32_t)device->facts.number)))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "not %s Vulkan device %u, dense, linear and at a multiple of %d bytes",
                          opaque ? "memory of" : "a DMA-buf for", device->facts.number, GPU_ALIGNMENT);
    if (__builtin_add_overflow(memory->offset, memory->bytes, &bytes))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "offset and size of the memory are too large");
    status = gpu_buffer_import(device, memory->kind, (int)memory->handle, bytes, out, diag);
    if (status == INLAY_OK && memory->ownership == INLAY_MEMORY_OWNED)
        (void)close((int)memory->handle);
    return status;
}

static inlay_status buffer_import(void *state, const inlay_import_request *request, inlay_buffer *out, inlay_diag *diag)
{
    const inlay_native_memory *memory = request->memory;
    const uint32_t kind = INLAY_HAS(memory, modifier) ? memory->kind : (uint32_t)INLAY_MEMORY_DEVICE;
    gpu_buffer *allocation = calloc(1, sizeof *allocation);
    gpu_device *device = NULL;
    inlay_status status = vulkan_open(state, &device, diag);

    if (status == INLAY_OK && allocation == NULL)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a buffer");
    if (status == INLAY_OK && is_descriptor(kind))
        status = import_descriptor(device, memory, allocation, diag);
    else if (status == INLAY_OK && (kind != INLAY_MEMORY_DEVICE || (INLAY_HAS(memory, modifier) && memory->pitch != 0)))
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "not a VkBuffer with dense rows");
    else if (status == INLAY_OK)
        status = import_buffer(device, memory, allocation, diag);
    return return_buffer(status, allocation, (inlay_buffer){ .offset = memory->offset, .domain = request->domain },
                         out);
}

static inlay_status buffer_map(void *state, const inlay_map_request *request, void **out_address, inlay_diag *diag)
{
    const gpu_buffer *allocation = (const gpu_buffer *)(uintptr_t)request->buffer->handle;

    (void)state;
    if (allocation->mapped == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the memory of this device is not host-visible");
    *out_address = allocation->mapped + request->buffer->offset;
    return INLAY_OK;
}

static void buffer_unmap(void *state, const inlay_unmap_request *request)
{
    (void)state, (void)request;
}

/* QDQ models become products of integers if the device multiplies packed bytes, or matrices of them, by one
 * instruction. */
static const void *extension(void *state, const char *name)
{
    static const inlay_ext_integers fast = { .struct_size = sizeof fast, .fast_products = 1 };
    const vulkan_state *vulkan = state;

    const gpu_facts *facts = vulkan->gpu != NULL ? &vulkan->gpu->facts : NULL;

    return strcmp(name, INLAY_EXT_INTEGERS) == 0 && facts != NULL &&
                   (facts->fast_dots || (!facts->is_cpu && facts->byte_matrix_size > 0))
               ? &fast
               : NULL;
}

static const inlay_domain_info domains[] = { { .name = "vulkan.device", .alignment = GPU_ALIGNMENT } };
static const inlay_provider provider = {
    .struct_size = sizeof provider,
    .name = "vulkan",
    .description = "runs regions on a GPU, or on a Vulkan driver for CPUs, by compute shaders",
    .device_kind = INLAY_DEVICE_GPU,
    .flags = INLAY_PROVIDER_FLUSHES_DENORMALS, /* the driver decides */
    .options = options,
    .option_count = KIT_COUNT(options),
    .option_stride = sizeof(inlay_option),
    .domains = domains,
    .domain_count = KIT_COUNT(domains),
    .domain_stride = sizeof domains[0],
    .default_domain = 1,
    .poll_ms = 1000,
    .create = create,
    .destroy = destroy,
    .quiesce = quiesce,
    .assess = vulkan_assess,
    .cost = vulkan_cost,
    .compile = compile,
    .release_compiled = vulkan_release_compiled,
    .specialize = vulkan_specialize,
    .release_instance = vulkan_release_instance,
    .execute = vulkan_execute,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .buffer_copy = buffer_copy,
    .buffer_import = buffer_import,
    .buffer_export = buffer_export,
    .buffer_map = buffer_map,
    .buffer_unmap = buffer_unmap,
    .enumerate = enumerate,
    .describe = describe,
    .extension = extension,
    .bind = vulkan_bind,
    .release_binding = vulkan_release_binding,
};

static const kit_plugin plugin = { .name = "vulkan", .version = INLAY_VERSION };
KIT_PROVIDER_PLUGIN(plugin, "vulkan", provider, "vulkan")
