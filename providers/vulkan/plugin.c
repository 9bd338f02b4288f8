/* The vulkan provider: regions of a graph on a GPU, by compute shaders of its own. */
#include "region.h"
#include <stdlib.h>

enum { MOST_COPIES = 32, NATIVE_VULKAN = 7 /* of DLPack */ };

static const inlay_option options[] = {
    { .name = "device",
      .kind = INLAY_OPTION_STRING,
      .default_value = "auto",
      .doc = "Vulkan device: its number in `inlay providers`, a part of its name, cpu, or auto (a GPU if there is one, "
             "otherwise a driver that runs on the CPU); with policy cost, such a driver gets no nodes unless it is "
             "selected here or nodes are pinned to it" },
    { .name = "timeout_ms",
      .kind = INLAY_OPTION_INT,
      .default_value = "0",
      .max = 3600000,
      .doc = "time limit of one submission, in milliseconds; then the device counts as lost; 0 = 20 s for a GPU, 10 "
             "minutes for a driver on the CPU, which compiles shaders during submissions" },
    { .name = "fault",
      .kind = INLAY_OPTION_STRING,
      .default_value = "",
      .doc =
          "fault to simulate, for tests: lost:N = the device is lost at its Nth submission; hang:N = it never finishes "
          "the Nth; memory:N = it has no memory for its Nth buffer; apart:0 = the host cannot map its memory; wrong:N "
          "= it fails check N of its self-test; with any of these, each dispatch is a submission" },
};

/* What nobody can know before it is measured: GPUs of the middle, or a CPU that other providers beat: its driver is
 * given nothing by cost unless somebody names it, so each op has to be dearer than any that a CPU runs, by a second. */
static void guess_speed(vulkan_state *s, VkPhysicalDeviceType type)
{
    const bool cpu = type == VK_PHYSICAL_DEVICE_TYPE_CPU, discrete = type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;

    s->launch_ns = cpu ? 100000 : 8000;
    s->unasked_ns = cpu && !s->named ? 1e9 : 0;
    s->flops_per_ns = cpu ? 2 : discrete ? 2000 : 300;
    s->bytes_per_ns = cpu ? 1 : discrete ? 150 : 25;
}

/* The best of the devices that are meant and that stand their trial. diag tells of the first that does not, also where
 * another is found. */
static inlay_status open_tried(vulkan_state *s, inlay_diag *diag)
{
    gpu_options o = s->options;

    for (;;) {
        inlay_diag next = INLAY_DIAG_INIT;
        gpu_device *g = NULL;
        inlay_status status = gpu_open(&o, &g, &next);

        if (status == INLAY_OK && (status = vulkan_try(s, g, &next)) == INLAY_OK) {
            s->gpu = g;
            return INLAY_OK;
        }
        if (o.passed_over == 0 || status != INLAY_UNSUPPORTED)
            *diag = next;
        if (g == NULL || status != INLAY_UNSUPPORTED) {
            gpu_close(g);
            return status;
        }
        o.passed_over |= 1u << g->facts.number;
        gpu_close(g);
    }
}

inlay_status vulkan_open(vulkan_state *s, gpu_device **out, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    char text[GPU_NAME + 128], what[GPU_NAME + 96];

    (void)pthread_mutex_lock(&s->lock);
    if (s->refused[0] != '\0') {
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s", s->refused);
    } else if (s->gpu == NULL) {
        status = open_tried(s, &why);
        if (status == INLAY_UNSUPPORTED) /* once and for all */
            (void)snprintf(s->refused, sizeof s->refused, "%s", why.text);
        if (status != INLAY_OK && diag != NULL)
            *diag = why;
        if (why.text[0] != '\0' && (status == INLAY_OK || s->late)) /* otherwise it is what create says */
            s->host->log(s->host->ctx, INLAY_LOG_WARNING, why.text);
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
    vulkan_state *s = state;

    gpu_close(s->gpu);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static inlay_status read_fault(const char *text, gpu_options *o, inlay_diag *diag)
{
    static const char *const kinds[] = {
        [GPU_LOST] = "lost", [GPU_MEMORY] = "memory", [GPU_HANG] = "hang", [GPU_APART] = "apart", [GPU_WRONG] = "wrong"
    };
    char kind[8] = "";

    if (text == NULL || text[0] == '\0')
        return INLAY_OK;
    if (sscanf(text, "%7[a-z]:%u", kind, &o->fault_at) == 2)
        for (uint32_t i = GPU_LOST; i < KIT_COUNT(kinds); i++)
            o->fault = strcmp(kind, kinds[i]) == 0 ? (gpu_fault)i : o->fault;
    return o->fault != GPU_SOUND
               ? INLAY_OK
               : inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "option fault is '%s'; it takes lost:N, memory:N or hang:N, apart:0, or wrong:N", text);
}

/* Opening a driver takes some 50 ms. Where no GPU can be there, and nobody named a device, that is left to the first
 * region, which this provider then only gets when it is asked for by name. */
static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    vulkan_state *s = calloc(1, sizeof *s);
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
    s->late = !s->named && !gpu_is_likely();
    if (status == INLAY_OK)
        status = s->late ? gpu_present(diag) : vulkan_open(s, &opened, diag);
    if (status != INLAY_OK) {
        destroy(s);
        return status;
    }
    *out_state = s;
    return INLAY_OK;
}

static inlay_status compile(void *state, const inlay_compile_request *r, inlay_compiled **out, inlay_diag *diag)
{
    gpu_device *g = NULL;
    const inlay_status status = vulkan_open(state, &g, diag);

    return status == INLAY_OK ? vulkan_compile_on(state, g, r, out, diag) : status;
}

static void quiesce(void *state)
{
    vulkan_state *s = state;

    if (s->gpu != NULL)
        gpu_idle(s->gpu);
}

/* ------------------------------------------------------------------ what devices are like */

struct lister {
    inlay_status (*device)(void *user, const inlay_device_info *info);
    void *user;
};

/* facts: room for 128 characters. */
static void write_info(const gpu_facts *f, char *facts, inlay_device_info *out)
{
    (void)snprintf(facts, 128, "vulkan=%u.%u; subgroup=%u; f16=%s; f64=%s", VK_API_VERSION_MAJOR(f->api_version),
                   VK_API_VERSION_MINOR(f->api_version), f->subgroup, f->f16 ? "yes" : "no", f->f64 ? "yes" : "no");
    out->name = f->name;
    out->facts = facts;
    out->memory_bytes = f->memory_bytes;
    out->flags = f->unified ? INLAY_DEVICE_UNIFIED : 0;
    out->kind = f->type == VK_PHYSICAL_DEVICE_TYPE_CPU     ? INLAY_DEVICE_CPU
                : f->type == VK_PHYSICAL_DEVICE_TYPE_OTHER ? INLAY_DEVICE_OTHER
                                                           : INLAY_DEVICE_GPU;
}

static inlay_status pass_device(void *user, const gpu_facts *f)
{
    const struct lister *l = user;
    char value[16], facts[128], unusable[128];
    inlay_device_info info = { .struct_size = sizeof info, .option = "device", .value = value };

    (void)snprintf(value, sizeof value, "%u", f->number);
    (void)snprintf(unusable, sizeof unusable, "it lacks %s", f->lacks != NULL ? f->lacks : "nothing");
    info.unusable = f->lacks != NULL ? unusable : NULL;
    write_info(f, facts, &info);
    return l->device(l->user, &info);
}

static inlay_status enumerate(void *ctx, const inlay_host *host,
                              inlay_status (*device)(void *user, const inlay_device_info *info), void *user,
                              inlay_diag *diag)
{
    struct lister l = { device, user };

    (void)ctx, (void)host;
    return gpu_list(pass_device, &l, diag);
}

/* A device that nobody asked for by name is opened with its first region, where no GPU can be there: until then it is
 * the CPU's. */
static inlay_status describe(void *state, inlay_device_info *out, inlay_domain_info *at, inlay_diag *diag)
{
    vulkan_state *s = state;

    (void)diag;
    if (s->gpu == NULL) {
        out->kind = INLAY_DEVICE_CPU;
        return INLAY_OK;
    }
    write_info(&s->gpu->facts, s->facts, out);
    at->memory_bytes = out->memory_bytes;
    if (s->gpu->facts.unified)
        at->flags = INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ memory */

/* What a new buffer is to the host, unless there was an error. */
static inlay_status hand_out(inlay_status status, gpu_buffer *b, inlay_buffer lies, inlay_buffer *out)
{
    if (status != INLAY_OK) {
        free(b);
        return status;
    }
    lies.handle = (uintptr_t)b;
    *out = lies;
    return INLAY_OK;
}

static inlay_status buffer_alloc(void *state, uint32_t domain, uint64_t bytes, inlay_buffer *out, inlay_diag *diag)
{
    gpu_buffer *b = calloc(1, sizeof *b);
    gpu_device *g = NULL;
    inlay_status status = vulkan_open(state, &g, diag);

    if (status == INLAY_OK && b == NULL)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a buffer");
    if (status == INLAY_OK)
        status = gpu_buffer_make(g, bytes, b, diag);
    return hand_out(status, b, (inlay_buffer){ .bytes = bytes, .domain = domain }, out);
}

static void buffer_free(void *state, const inlay_buffer *buffer)
{
    gpu_buffer *b = (gpu_buffer *)(uintptr_t)buffer->handle;

    if (b == NULL)
        return;
    gpu_buffer_drop(((vulkan_state *)state)->gpu, b);
    free(b);
}

static inlay_status buffer_copies(void *state, const inlay_copy_request *r, inlay_diag *diag)
{
    vulkan_state *s = state;
    gpu_copy list[MOST_COPIES];
    gpu_device *g = NULL;
    inlay_status status = vulkan_open(s, &g, diag);

    for (uint32_t i = 0; i < r->wait_count && status == INLAY_OK; i++)
        status = s->host->fence_wait(s->host->ctx, r->run, r->waits[i], diag);
    for (uint32_t i = 0; i < r->copy_count && status == INLAY_OK; i++) { /* done on return: the host signals */
        const inlay_copy *c = INLAY_AT(inlay_copy, r->copies, r->copy_stride, i);
        const bool up = c->source.domain == INLAY_DOMAIN_HOST, down = c->target.domain == INLAY_DOMAIN_HOST;

        list[i % MOST_COPIES] =
            (gpu_copy){ .from = up ? NULL : (const gpu_buffer *)(uintptr_t)c->source.handle,
                        .to = down ? NULL : (const gpu_buffer *)(uintptr_t)c->target.handle,
                        .from_at = c->source.offset,
                        .to_at = c->target.offset,
                        .host = inlay_buffer_host(up ? &c->source : &c->target),
                        .bytes = c->source.bytes < c->target.bytes ? c->source.bytes : c->target.bytes };
        if ((i + 1) % MOST_COPIES == 0 || i + 1 == r->copy_count)
            status = gpu_copies(g, list, i % MOST_COPIES + 1, diag);
    }
    return status;
}

static inlay_status buffer_copy(void *state, inlay_run *run, const inlay_buffer *source, const inlay_buffer *target,
                                const inlay_fence *waits, uint32_t wait_count, inlay_fence signal, inlay_diag *diag)
{
    const inlay_copy one = { *source, *target };
    const inlay_copy_request r = { .struct_size = sizeof r,
                                   .run = run,
                                   .copies = &one,
                                   .copy_count = 1,
                                   .copy_stride = sizeof one,
                                   .waits = waits,
                                   .wait_count = wait_count,
                                   .signal = signal };

    return buffer_copies(state, &r, diag);
}

/* Memory as others have it: a VkBuffer of this device. */
static inlay_status export_native(void *state, const inlay_buffer *buffer, inlay_native_memory *out, inlay_diag *diag)
{
    const gpu_buffer *b = (const gpu_buffer *)(uintptr_t)buffer->handle;

    (void)diag;
    memcpy(&out->handle, &b->buffer, sizeof b->buffer);
    out->offset = buffer->offset;
    out->bytes = buffer->bytes;
    out->device_type = NATIVE_VULKAN;
    out->device_id = (int32_t)((vulkan_state *)state)->gpu->facts.number;
    return INLAY_OK;
}

static inlay_status import_native(void *state, uint32_t domain, const inlay_native_memory *memory, inlay_buffer *out,
                                  inlay_diag *diag)
{
    gpu_buffer *b = calloc(1, sizeof *b);
    gpu_device *g = NULL;
    VkBuffer buffer;
    inlay_status status = vulkan_open(state, &g, diag);

    if (status == INLAY_OK && b == NULL)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a buffer");
    if (status == INLAY_OK && (memory->device_type != NATIVE_VULKAN || memory->handle == 0 ||
                               memory->device_id != (int32_t)g->facts.number || memory->offset % GPU_ALIGNMENT != 0))
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "not a VkBuffer of Vulkan device %u, at a multiple of %d bytes",
                            g->facts.number, GPU_ALIGNMENT);
    if (status == INLAY_OK) {
        memcpy(&buffer, &memory->handle, sizeof buffer);
        gpu_buffer_borrow(g, buffer, memory->offset + memory->bytes, b);
    }
    return hand_out(status, b, (inlay_buffer){ .offset = memory->offset, .bytes = memory->bytes, .domain = domain },
                    out);
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
    .buffer_copies = buffer_copies,
    .import_native = import_native,
    .export_native = export_native,
    .buffer_map = buffer_map,
    .buffer_unmap = buffer_unmap,
    .enumerate = enumerate,
    .describe = describe,
    .bind = vulkan_bind,
    .release_binding = vulkan_release_binding,
};

static const kit_plugin plugin = { .name = "vulkan", .version = INLAY_VERSION };
KIT_PROVIDER_PLUGIN(plugin, "vulkan", provider, "vulkan")
