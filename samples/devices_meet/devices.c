/* Two simulated devices, which share memory with each other and with a camera:
 *
 *     isp   an image signal processor: Cast of bytes to float, Sqrt (gamma correction)
 *     npu   a neural processor: MatMul with constant weights, Relu
 *
 * The memory of both is shared memory (INLAY_MEMORY_SHARED_FD), which stands for the DMA-bufs of real drivers: each
 * allocation is a file descriptor that the other one maps. inlay_domain_info.exports and .imports state this; the host
 * does the rest. See "Devices that meet" in inlay/plugin.h. */
#define INLAY_NOTE_VERSION "1.0.0" /* of two versions in one folder, the host takes the higher one */
#include "devices.h"
#include "inlay/plugin.h"
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 256, MOST_RANK = 8, OPTION_SHARE = 0 };
#define MEMORY_BYTES (UINT64_C(64) << 20)
#define NS_AN_ELEMENT 1.0

enum { OP_CAST, OP_SQRT, OP_MATMUL, OP_RELU, OP_COUNT };
static const char *const op_names[OP_COUNT] = { "Cast", "Sqrt", "MatMul", "Relu" };

/* What differs between the two: inlay_provider.ctx. */
typedef struct device_kind {
    const char *name;
    uint32_t first_op, last_op;
    device_counters *counters;
} device_kind;

device_counters isp_counters, npu_counters;
static const device_kind isp_kind = { "isp", OP_CAST, OP_SQRT, &isp_counters };
static const device_kind npu_kind = { "npu", OP_MATMUL, OP_RELU, &npu_counters };

struct device {
    const device_kind *kind;
    bool exports, imports;
};

static void count(uint32_t *counter, int32_t change)
{
    (void)__atomic_fetch_add(counter, (uint32_t)change, __ATOMIC_RELAXED);
}

/* A buffer; inlay_buffer.handle is its address. */
struct memory {
    int fd; /* closed by buffer_free */
    char *data;
    size_t bytes; /* mapped, from the start of fd */
};

static char *address(const inlay_buffer *buffer)
{
    if (buffer->domain == INLAY_DOMAIN_HOST)
        return inlay_buffer_host(buffer);
    return ((struct memory *)(uintptr_t)buffer->handle)->data + buffer->offset;
}

/* Maps fd, which belongs to the buffer if the call succeeds, and to the caller otherwise. */
static inlay_status map(struct device *device, int fd, uint64_t bytes, struct memory **out, inlay_diag *diag)
{
    struct memory *memory = malloc(sizeof *memory);
    void *data = memory != NULL ? mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (data == MAP_FAILED) {
        free(memory);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%llu bytes cannot be mapped", (unsigned long long)bytes);
    }
    *memory = (struct memory){ fd, data, (size_t)bytes };
    count(&device->kind->counters->buffers, 1);
    *out = memory;
    return INLAY_OK;
}

static inlay_status buffer_alloc(void *state, const inlay_alloc_request *request, inlay_buffer *out, inlay_diag *diag)
{
    struct device *device = state;
    const int fd = memfd_create(device->kind->name, MFD_CLOEXEC);
    struct memory *memory = NULL;
    inlay_status status;

    if (fd < 0 || request->bytes > MEMORY_BYTES || ftruncate(fd, (off_t)request->bytes) != 0)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "the %s has no free %llu bytes", device->kind->name,
                            (unsigned long long)request->bytes);
    else
        status = map(device, fd, request->bytes, &memory, diag);
    if (status != INLAY_OK) {
        if (fd >= 0)
            (void)close(fd);
        return status;
    }
    *out = (inlay_buffer){ .handle = (uintptr_t)memory, .domain = request->domain };
    return INLAY_OK;
}

static void buffer_free(void *state, const inlay_free_request *request)
{
    struct device *device = state;
    struct memory *memory = (struct memory *)(uintptr_t)request->buffer->handle;

    (void)munmap(memory->data, memory->bytes);
    (void)close(memory->fd);
    free(memory);
    count(&device->kind->counters->buffers, -1);
}

/* The descriptor stays the buffer's: whoever imports it duplicates it. */
static inlay_status buffer_export(void *state, const inlay_export_request *request, inlay_native_memory *out,
                                  inlay_diag *diag)
{
    const struct device *device = state;
    const inlay_buffer *buffer = request->buffer;

    if (!device->exports || request->kind != INLAY_MEMORY_SHARED_FD)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the %s exports shared memory only", device->kind->name);
    out->handle = (uint64_t)((struct memory *)(uintptr_t)buffer->handle)->fd;
    out->offset = buffer->offset;
    out->bytes = buffer->bytes;
    out->device_type = 12; /* DLPack's kDLExtDev */
    out->kind = INLAY_MEMORY_SHARED_FD;
    out->ownership = INLAY_MEMORY_BORROWED;
    return INLAY_OK;
}

static inlay_status buffer_import(void *state, const inlay_import_request *request, inlay_buffer *out, inlay_diag *diag)
{
    struct device *device = state;
    const inlay_native_memory *in = request->memory;
    const uint64_t end = in->offset + in->bytes;
    struct memory *memory = NULL;
    struct stat file;
    inlay_status status;
    int fd;

    if (!device->imports || in->kind != INLAY_MEMORY_SHARED_FD)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the %s imports shared memory only", device->kind->name);
    if (in->pitch != 0 || in->modifier != 0 || in->offset % ALIGNMENT != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the %s reads dense rows from a multiple of %d bytes; this memory has offset %llu and pitch "
                          "%llu",
                          device->kind->name, ALIGNMENT, (unsigned long long)in->offset, (unsigned long long)in->pitch);
    if (end < in->offset || fstat((int)in->handle, &file) != 0 || end > (uint64_t)file.st_size)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the shared memory does not have %llu bytes",
                          (unsigned long long)end);
    fd = in->ownership == INLAY_MEMORY_OWNED ? (int)in->handle : fcntl((int)in->handle, F_DUPFD_CLOEXEC, 0);
    status = fd >= 0 ? map(device, fd, end, &memory, diag)
                     : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no free file descriptor");
    if (status != INLAY_OK) {
        if (fd >= 0 && in->ownership != INLAY_MEMORY_OWNED)
            (void)close(fd);
        return status;
    }
    count(&device->kind->counters->imports, 1);
    *out = (inlay_buffer){ .handle = (uintptr_t)memory, .offset = in->offset, .domain = request->domain };
    return INLAY_OK;
}

static inlay_status buffer_copy(void *state, const inlay_copy_request *request, inlay_diag *diag)
{
    struct device *device = state;

    (void)diag;
    for (uint32_t i = 0; i < request->copy_count; i++) {
        const inlay_copy *copy = INLAY_AT(inlay_copy, request->copies, request->copy_stride, i);
        const bool host = copy->source.domain == INLAY_DOMAIN_HOST || copy->target.domain == INLAY_DOMAIN_HOST;

        memmove(address(&copy->target), address(&copy->source),
                (size_t)(copy->source.bytes < copy->target.bytes ? copy->source.bytes : copy->target.bytes));
        count(host ? &device->kind->counters->host_copies : &device->kind->counters->device_copies, 1);
    }
    return INLAY_OK;
}

/* The operation of a node that the device runs; OP_COUNT: none. */
static uint32_t find_op(const device_kind *kind, const inlay_node_info *node)
{
    uint32_t op = kind->first_op;

    if (strcmp(node->domain.data, "ai.onnx") != 0)
        return OP_COUNT;
    while (op <= kind->last_op && strcmp(node->op_type.data, op_names[op]) != 0)
        op++;
    return op <= kind->last_op ? op : (uint32_t)OP_COUNT;
}

/* Why the device cannot run the operation; code 0: it can. */
static inlay_refusal find_reason(const inlay_graph *graph, const inlay_node_info *node, uint32_t op)
{
    inlay_refusal refusal = { .struct_size = sizeof refusal };
    const inlay_value_info *in, *out, *weights;

    if (op == OP_COUNT) {
        refusal.code = INLAY_REFUSE_OPERATOR;
        refusal.text = "the isp supports Cast and Sqrt, the npu MatMul and Relu";
        return refusal;
    }
    in = inlay_graph_value(graph, node->inputs[0]);
    out = inlay_graph_value(graph, node->outputs[0]);
    weights = op == OP_MATMUL ? inlay_graph_value(graph, node->inputs[1]) : NULL;
    if (in->dtype != (op == OP_CAST ? INLAY_UINT8 : INLAY_FLOAT) || out->dtype != INLAY_FLOAT) {
        refusal.code = INLAY_REFUSE_DTYPE;
        refusal.text = "the devices compute with floats; only Cast takes uint8";
    } else if (in->rank == INLAY_RANK_UNKNOWN || in->rank > MOST_RANK) {
        refusal.code = INLAY_REFUSE_SHAPE;
        refusal.text = "the rank must be known and at most 8";
    } else if ((in->flags & INLAY_VALUE_CONSTANT) != 0) {
        refusal.code = INLAY_REFUSE_SHAPE;
        refusal.text = "the first input must not be a constant";
    } else if (weights != NULL &&
               ((weights->flags & INLAY_VALUE_CONSTANT) == 0 || weights->rank != 2 || in->rank != 2)) {
        refusal.code = INLAY_REFUSE_SHAPE;
        refusal.text = "the npu multiplies matrices by constant weights";
    }
    return refusal;
}

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    const struct device *device = state;
    inlay_status status = INLAY_OK;

    (void)diag;
    for (uint32_t n = 0; n < request->graph->node_count && status == INLAY_OK; n++) {
        const inlay_node_info *node = inlay_graph_node(request->graph, n);
        inlay_refusal reason;

        if (request->candidates[n] == 0)
            continue;
        reason = find_reason(request->graph, node, find_op(device->kind, node));
        reason.node = n;
        status = reason.code != 0
                     ? request->sink->refuse(request->sink->ctx, &reason)
                     : request->sink->offer(
                           request->sink->ctx,
                           &(inlay_offer){ .struct_size = sizeof(inlay_offer), .nodes = &n, .node_count = 1 });
    }
    return status;
}

static double elements_of(const inlay_value_state *value)
{
    double elements = 1;

    for (uint32_t i = 0; value->rank <= MOST_RANK && i < value->rank; i++) /* INLAY_RANK_UNKNOWN is larger */
        elements *= value->dims[i] > 0 ? (double)value->dims[i] : 1;
    return elements;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const inlay_node_info *node = inlay_graph_node(request->graph, request->offer->nodes[0]);
    const struct device *device = state;
    double work = elements_of(INLAY_AT(inlay_value_state, request->values, request->value_stride, node->outputs[0]));

    (void)diag;
    if (find_op(device->kind, node) == OP_MATMUL) {
        const inlay_value_state *in =
            INLAY_AT(inlay_value_state, request->values, request->value_stride, node->inputs[0]);

        work *= in->rank == 2 && in->dims[1] > 0 ? (double)in->dims[1] : 1;
    }
    out->ns = NS_AN_ELEMENT * work;
    out->flops = work;
    out->confidence = INLAY_CONFIDENCE_MODEL;
    return INLAY_OK;
}

struct inlay_compiled {
    uint32_t op, input, output; /* values of the graph */
    int64_t columns;            /* MatMul: of the weights */
    float weights[];            /* [rows, columns] */
};
struct inlay_instance {
    int64_t count, depth; /* elements of the result; MatMul: columns of the input */
};

static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    const struct device *device = state;
    const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[0]);
    const uint32_t op = find_op(device->kind, node);
    const inlay_value_info *weights = op == OP_MATMUL ? inlay_graph_value(request->graph, node->inputs[1]) : NULL;
    inlay_compiled *compiled = malloc(sizeof *compiled + (weights != NULL ? (size_t)weights->data_bytes : 0));

    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region");
    *compiled = (inlay_compiled){ .op = op, .input = node->inputs[0], .output = node->outputs[0] };
    if (weights != NULL) {
        compiled->columns = weights->dims[1].value;
        memcpy(compiled->weights, weights->data, (size_t)weights->data_bytes);
        request->constants[node->inputs[1]] = INLAY_CONST_COPIED;
    }
    *out_compiled = compiled;
    return INLAY_OK;
}

static void release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state;
    free(compiled);
}

static inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    const inlay_value_state *in = INLAY_AT(inlay_value_state, request->values, request->value_stride, compiled->input),
                            *out =
                                INLAY_AT(inlay_value_state, request->values, request->value_stride, compiled->output);
    inlay_instance *instance = malloc(sizeof *instance);

    (void)state;
    if (instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for an instance");
    *instance = (inlay_instance){ .count = 1, .depth = compiled->op == OP_MATMUL ? in->dims[1] : 0 };
    for (uint32_t i = 0; i < out->rank; i++)
        instance->count *= out->dims[i];
    *out_instance = instance;
    return INLAY_OK;
}

static void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled;
    free(instance);
}

static void multiply(const inlay_compiled *compiled, const inlay_instance *instance, const float *in, float *out)
{
    for (int64_t i = 0; i < instance->count; i++) {
        const int64_t row = i / compiled->columns, column = i % compiled->columns;
        float sum = 0;

        for (int64_t k = 0; k < instance->depth; k++)
            sum += in[row * instance->depth + k] * compiled->weights[k * compiled->columns + column];
        out[i] = sum;
    }
}

static inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    const void *in = address(&args->inputs[0].buffer);
    float *out = (float *)(void *)address(&args->outputs[0].buffer);

    (void)state;
    if (compiled->op == OP_MATMUL)
        multiply(compiled, instance, in, out);
    for (int64_t i = 0; compiled->op != OP_MATMUL && i < instance->count; i++)
        out[i] = compiled->op == OP_CAST      ? (float)((const uint8_t *)in)[i]
                 : compiled->op == OP_SQRT    ? sqrtf(((const float *)in)[i])
                 : ((const float *)in)[i] < 0 ? 0
                                              : ((const float *)in)[i];
    return INLAY_OK;
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    struct device *device = calloc(1, sizeof *device);
    const char *share;

    (void)host;
    if (device == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the device");
    device->kind = ctx;
    share = INLAY_AT(inlay_option_value, args->options, args->option_stride, OPTION_SHARE)->s;
    device->exports = strcmp(share, "both") == 0 || strcmp(share, "exports") == 0;
    device->imports = strcmp(share, "both") == 0 || strcmp(share, "imports") == 0;
    *out_state = device;
    return INLAY_OK;
}

static void destroy(void *state)
{
    free(state);
}

/* A real provider states here what its driver supports: the static description is an upper bound. */
static inlay_status describe(void *state, const inlay_describe_request *request, inlay_diag *diag)
{
    const struct device *device = state;
    inlay_domain_info *domain = INLAY_AT_OUT(inlay_domain_info, request->domains, request->domain_stride, 0);

    (void)diag;
    request->device->name = device->kind->name;
    if (!INLAY_STRIDE_HAS(inlay_domain_info, request->domain_stride, imports)) /* an older host */
        return INLAY_OK;
    domain->exports = device->exports ? domain->exports : 0;
    domain->imports = device->imports ? domain->imports : 0;
    return INLAY_OK;
}

static const inlay_option options[] = {
    { .name = "share",
      .doc =
          "memory shared with other devices and the program: its own that it exports, that of others that it imports",
      .default_value = "both",
      .choices = "both|exports|imports|none",
      .kind = INLAY_OPTION_ENUM },
};
static const inlay_domain_info isp_domain = { .name = "isp.memory",
                                              .alignment = ALIGNMENT,
                                              .memory_bytes = MEMORY_BYTES,
                                              .exports = INLAY_MEMORY_BIT(INLAY_MEMORY_SHARED_FD),
                                              .imports = INLAY_MEMORY_BIT(INLAY_MEMORY_SHARED_FD) };
static const inlay_domain_info npu_domain = { .name = "npu.memory",
                                              .alignment = ALIGNMENT,
                                              .memory_bytes = MEMORY_BYTES,
                                              .exports = INLAY_MEMORY_BIT(INLAY_MEMORY_SHARED_FD),
                                              .imports = INLAY_MEMORY_BIT(INLAY_MEMORY_SHARED_FD) };

#define PROVIDER(kind, text)                                                                                           \
    {                                                                                                                  \
        .struct_size = sizeof(inlay_provider), .name = #kind, .description = text, .device_kind = INLAY_DEVICE_NPU,    \
        .options = options, .option_count = 1, .option_stride = sizeof options[0], .domains = &kind##_domain,          \
        .domain_count = 1, .domain_stride = sizeof kind##_domain, .default_domain = 1,                                 \
        .ctx = (void *)(uintptr_t)&kind##_kind, .create = create, .destroy = destroy, .assess = assess, .cost = cost,  \
        .compile = compile, .release_compiled = release_compiled, .specialize = specialize,                            \
        .release_instance = release_instance, .execute = execute, .buffer_alloc = buffer_alloc,                        \
        .buffer_free = buffer_free, .buffer_copy = buffer_copy, .buffer_import = buffer_import,                        \
        .buffer_export = buffer_export, .describe = describe                                                           \
    }
static const inlay_provider providers[] = {
    PROVIDER(isp, "a simulated image signal processor that shares memory"),
    PROVIDER(npu, "a simulated neural processor that shares memory"),
};
static const inlay_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = INLAY_ABI_MAJOR,
    .abi_minor = INLAY_ABI_MINOR,
    .name = "devices_meet",
    .version = INLAY_NOTE_VERSION,
    .build_id = "devices_meet " INLAY_NOTE_VERSION " " __DATE__ " " __TIME__,
    .flags = INLAY_PLUGIN_DLCLOSE,
    .providers = providers,
    .provider_count = sizeof providers / sizeof providers[0],
    .provider_stride = sizeof providers[0],
};

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    if (host->abi_major != INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "this host has ABI %u.%u; the plugin was made for %u.%u",
                          host->abi_major, host->abi_minor, INLAY_ABI_MAJOR, INLAY_ABI_MINOR);
    *out_plugin = &plugin;
    return INLAY_OK;
}

INLAY_PLUGIN_NOTE("devices_meet", "isp npu", "")
