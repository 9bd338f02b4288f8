/* The vulkan provider: regions of a graph on a GPU, by compute shaders of its own. */
#include "region.h"
#include <stdlib.h>

static const inlay_option options[] = {
    { .name = "device",
      .kind = INLAY_OPTION_STRING,
      .default_value = "auto",
      .doc = "the Vulkan device: its number in the list, a part of its name, cpu, or auto = a GPU where there is one, "
             "otherwise the CPU's driver, which by cost gets no nodes: name it here, pin nodes, or choose policy priority" },
    { .name = "timeout_ms",
      .kind = INLAY_OPTION_INT,
      .default_value = "0",
      .max = 3600000,
      .doc =
          "milliseconds that one submission may take before the device counts as lost; 0 = 20 s for a GPU, 10 minutes "
          "for a CPU, whose driver compiles shaders meanwhile" },
    { .name = "fault",
      .kind = INLAY_OPTION_STRING,
      .default_value = "",
      .doc =
          "for tests: lost:N, hang:N or memory:N; the device is lost at its Nth submission, never ends it, or has no "
          "room for its Nth buffer; every dispatch is then a submission of its own" },
};

/* A CPU's driver computes on the cores that other providers use, and slower: by cost it gets nothing unless somebody
 * names it, whatever the guesses about small nodes are worth. */
#define UNASKED_NS 1e9

/* What nobody can know before it is measured: GPUs of the middle, or a CPU that other providers beat. */
static void guess_speed(vr_state *s, VkPhysicalDeviceType type)
{
    const bool cpu = type == VK_PHYSICAL_DEVICE_TYPE_CPU, discrete = type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;

    s->launch_ns = cpu ? 100000 : 8000;
    s->unasked_ns = cpu && !s->named ? UNASKED_NS : 0;
    s->flops_per_ns = cpu ? 2 : discrete ? 2000 : 300;
    s->bytes_per_ns = cpu ? 1 : discrete ? 150 : 25;
}

inlay_status vr_open(vr_state *s, gpu_device **out, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    char text[GPU_NAME + 128], what[GPU_NAME + 96];

    (void)pthread_mutex_lock(&s->lock);
    if (s->gpu == NULL) {
        status = gpu_open(&s->options, &s->gpu, diag);
        if (status == INLAY_OK) {
            guess_speed(s, s->gpu->facts.type);
            s->flops_per_ns = s->gpu->facts.scalar_loads ? 30 : s->flops_per_ns; /* measured on two cores of 2.5 GHz */
            gpu_describe(&s->gpu->facts, what, sizeof what);
            (void)snprintf(text, sizeof text, "vulkan: device %s", what);
            s->host->log(s->host->ctx, INLAY_LOG_INFO, text);
        }
    }
    *out = s->gpu;
    (void)pthread_mutex_unlock(&s->lock);
    return status;
}

static void destroy(void *state)
{
    vr_state *s = state;

    gpu_close(s->gpu);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static inlay_status read_fault(const char *text, gpu_options *o, inlay_diag *diag)
{
    static const char *const kinds[] = { [GPU_LOST] = "lost", [GPU_MEMORY] = "memory", [GPU_HANG] = "hang" };
    char kind[8] = "";

    if (text == NULL || text[0] == '\0')
        return INLAY_OK;
    if (sscanf(text, "%7[a-z]:%u", kind, &o->fault_at) == 2)
        for (uint32_t i = GPU_LOST; i < KIT_COUNT(kinds); i++)
            o->fault = strcmp(kind, kinds[i]) == 0 ? (gpu_fault)i : o->fault;
    return o->fault != GPU_SOUND ? INLAY_OK
                                 : inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                              "option fault is '%s'; it takes lost:N, memory:N or hang:N", text);
}

/* Opening a driver takes some 50 ms. Where no GPU can be there, and nobody named a device, that is left to the first
 * region, which this provider then only gets when it is asked for by name. */
static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    vr_state *s = calloc(1, sizeof *s);
    gpu_device *opened;
    inlay_status status = INLAY_OK;

    (void)ctx;
    if (s == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider vulkan");
    s->host = host;
    s->domain = args->first_domain;
    s->options = (gpu_options){ .device = s->device_name, .cache_dir = s->cache_dir };
    if (INLAY_HAS(args, cache_dir) && args->cache_dir != NULL)
        (void)snprintf(s->cache_dir, sizeof s->cache_dir, "%s", args->cache_dir);
    (void)snprintf(s->device_name, sizeof s->device_name, "auto");
    (void)pthread_mutex_init(&s->lock, NULL);
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *v = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(v->name, "device") == 0 && v->s != NULL && v->s[0] != '\0') {
            (void)snprintf(s->device_name, sizeof s->device_name, "%s", v->s);
            s->named = strcmp(v->s, "auto") != 0;
        } else if (strcmp(v->name, "timeout_ms") == 0) {
            s->options.timeout_ms = (uint32_t)v->i;
        } else if (strcmp(v->name, "fault") == 0 && status == INLAY_OK) {
            status = read_fault(v->s, &s->options, diag);
        }
    }
    guess_speed(s, VK_PHYSICAL_DEVICE_TYPE_CPU);
    if (status == INLAY_OK)
        status = s->named || gpu_is_likely() ? vr_open(s, &opened, diag) : gpu_present(diag);
    if (status != INLAY_OK) {
        destroy(s);
        return status;
    }
    *out_state = s;
    return INLAY_OK;
}

static void quiesce(void *state)
{
    vr_state *s = state;

    if (s->gpu != NULL)
        gpu_idle(s->gpu);
}

/* ------------------------------------------------------------------ what devices are like */

typedef struct lister {
    inlay_status (*device)(void *user, const inlay_device_info *info);
    void *user;
} lister;

static uint32_t kind_of(const gpu_facts *f)
{
    return f->type == VK_PHYSICAL_DEVICE_TYPE_CPU     ? INLAY_DEVICE_CPU
           : f->type == VK_PHYSICAL_DEVICE_TYPE_OTHER ? INLAY_DEVICE_OTHER
                                                      : INLAY_DEVICE_GPU;
}

static void write_facts(const gpu_facts *f, char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "vulkan=%u.%u; subgroup=%u; f16=%s; f64=%s", VK_API_VERSION_MAJOR(f->api_version),
                   VK_API_VERSION_MINOR(f->api_version), f->subgroup, f->f16 ? "yes" : "no", f->f64 ? "yes" : "no");
}

static inlay_status pass_device(void *user, uint32_t number, const gpu_facts *f, const char *lacks)
{
    const lister *l = user;
    char value[16], facts[128], unusable[128];
    const inlay_device_info info = { .struct_size = sizeof info,
                                     .name = f->name,
                                     .option = "device",
                                     .value = value,
                                     .unusable = lacks != NULL ? unusable : NULL,
                                     .facts = facts,
                                     .memory_bytes = f->memory_bytes,
                                     .kind = kind_of(f),
                                     .flags = f->unified ? INLAY_DEVICE_UNIFIED : 0 };

    (void)snprintf(value, sizeof value, "%u", number);
    (void)snprintf(unusable, sizeof unusable, "it lacks %s", lacks != NULL ? lacks : "nothing");
    write_facts(f, facts, sizeof facts);
    return l->device(l->user, &info);
}

static inlay_status enumerate(void *ctx, const inlay_host *host,
                              inlay_status (*device)(void *user, const inlay_device_info *info), void *user,
                              inlay_diag *diag)
{
    lister l = { device, user };

    (void)ctx, (void)host;
    return gpu_list(pass_device, &l, diag);
}

/* A device that nobody asked for by name is opened with its first region: until then there is nothing to say. */
static inlay_status describe(void *state, inlay_device_info *out, inlay_domain_info *at, inlay_diag *diag)
{
    vr_state *s = state;
    const gpu_facts *f = s->gpu != NULL ? &s->gpu->facts : NULL;

    (void)diag;
    if (f == NULL)
        return INLAY_OK;
    write_facts(f, s->facts, sizeof s->facts);
    out->name = f->name;
    out->facts = s->facts;
    out->kind = kind_of(f);
    out->flags = f->unified ? INLAY_DEVICE_UNIFIED : 0;
    out->memory_bytes = at->memory_bytes = f->memory_bytes;
    if (f->unified)
        at->flags = INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ memory */

static inlay_status buffer_alloc(void *state, uint32_t domain, uint64_t bytes, inlay_buffer *out, inlay_diag *diag)
{
    gpu_buffer *b = calloc(1, sizeof *b);
    gpu_device *g = NULL;
    inlay_status status = vr_open(state, &g, diag);

    if (status == INLAY_OK && b == NULL)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a buffer");
    if (status == INLAY_OK)
        status = gpu_buffer_make(g, bytes, b, diag);
    if (status != INLAY_OK) {
        free(b);
        return status;
    }
    *out = (inlay_buffer){ .handle = (uint64_t)(uintptr_t)b, .bytes = bytes, .domain = domain };
    return INLAY_OK;
}

static void buffer_free(void *state, const inlay_buffer *buffer)
{
    gpu_buffer *b = (gpu_buffer *)(uintptr_t)buffer->handle;

    if (b == NULL)
        return;
    gpu_buffer_drop(((vr_state *)state)->gpu, b);
    free(b);
}

static inlay_status buffer_copy(void *state, inlay_run *run, const inlay_buffer *source, const inlay_buffer *target,
                                const inlay_fence *waits, uint32_t wait_count, inlay_fence signal, inlay_diag *diag)
{
    vr_state *s = state;
    const uint64_t bytes = source->bytes < target->bytes ? source->bytes : target->bytes;
    const gpu_buffer *from = (const gpu_buffer *)(uintptr_t)source->handle;
    const gpu_buffer *to = (const gpu_buffer *)(uintptr_t)target->handle;
    gpu_device *g = NULL;
    inlay_status status = vr_open(s, &g, diag);

    for (uint32_t i = 0; i < wait_count && status == INLAY_OK; i++)
        status = s->host->fence_wait(s->host->ctx, run, waits[i], diag);
    (void)signal; /* done on return: the host signals */
    if (status != INLAY_OK)
        return status;
    if (source->domain == INLAY_DOMAIN_HOST)
        return gpu_write(g, to, target->offset, inlay_buffer_host(source), bytes, diag);
    if (target->domain == INLAY_DOMAIN_HOST)
        return gpu_read(g, from, source->offset, inlay_buffer_host(target), bytes, diag);
    return gpu_copy(g, from, source->offset, to, target->offset, bytes, diag);
}

static inlay_status buffer_map(void *state, const inlay_buffer *buffer, void **out_address, inlay_diag *diag)
{
    const gpu_buffer *b = (const gpu_buffer *)(uintptr_t)buffer->handle;

    (void)state;
    if (b->mapped == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "this device's memory is not the host's");
    *out_address = b->mapped + buffer->offset;
    return INLAY_OK;
}

static void buffer_unmap(void *state, const inlay_buffer *buffer)
{
    (void)state, (void)buffer;
}

/* ------------------------------------------------------------------ the plugin */

static const inlay_domain_info domains[] = { { .name = "vulkan.device", .alignment = GPU_ALIGNMENT } };
static const inlay_provider provider = {
    .struct_size = sizeof provider,
    .name = "vulkan",
    .description = "regions on a GPU, or on a CPU's Vulkan driver, by compute shaders",
    .device_kind = INLAY_DEVICE_GPU,
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
    .assess = vr_assess,
    .cost = vr_cost,
    .compile = vr_compile,
    .release_compiled = vr_release_compiled,
    .specialize = vr_specialize,
    .release_instance = vr_release_instance,
    .execute = vr_execute,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .buffer_copy = buffer_copy,
    .buffer_map = buffer_map,
    .buffer_unmap = buffer_unmap,
    .enumerate = enumerate,
    .describe = describe,
    .bind = vr_bind,
    .release_binding = vr_release_binding,
};

/* The kit checks the host and names the build; the provider is ours. */
static const kit_plugin plugin = { .name = "vulkan", .version = "0.1.0" };

INLAY_PLUGIN_NOTE("vulkan", "vulkan", "")

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static kit_exports exports;
    inlay_status status = kit_open(&plugin, &exports, host, out_plugin, diag);

    if (status != INLAY_OK)
        return status;
    exports.provider = provider;
    exports.plugin.providers = &exports.provider;
    exports.plugin.provider_count = 1;
    return INLAY_OK;
}
