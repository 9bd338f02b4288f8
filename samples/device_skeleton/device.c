/* A provider for a device: separate memory, asynchronous work, scalars in host memory.
 *
 * This file states the supported operators and their costs, region.c runs them, chip.c simulates the driver. To adapt
 * it, replace chip.c by your driver's library, then the operators in device_op() and assess. */
#define INLAY_NOTE_VERSION "1.0.0" /* of two versions in one folder, the host takes the higher one */
#include "device.h"
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES (UINT64_C(256) << 20)

/* Cost of a job and of an operation on this chip. Measure yours: `inlay plugin-check` compares them with measured
 * times. */
#define NS_A_JOB 20000.0
#define NS_AN_ELEMENT 1.0
#define NS_A_PRODUCT 0.25

static const struct {
    const char *name;
    uint32_t oldest; /* since_version; older versions broadcast or have attributes */
    int op;
} operators[] = {
    { "Add", 7, CHIP_ADD },    { "Mul", 7, CHIP_MUL },       { "Relu", 1, CHIP_RELU },
    { "Clip", 11, CHIP_CLIP }, { "MatMul", 1, CHIP_MATMUL },
};
enum { OPERATOR_COUNT = sizeof operators / sizeof operators[0] };

static uint32_t find_operator(const inlay_node_info *node)
{
    uint32_t i = 0;

    if (strcmp(node->domain.data, "ai.onnx") != 0)
        return OPERATOR_COUNT;
    while (i < OPERATOR_COUNT && strcmp(node->op_type.data, operators[i].name) != 0)
        i++;
    return i;
}

int device_op(const inlay_node_info *node)
{
    const uint32_t i = find_operator(node);

    return i < OPERATOR_COUNT ? operators[i].op : -1;
}

static bool same_dims(const inlay_value_info *a, const inlay_value_info *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i].kind != b->dims[i].kind || a->dims[i].kind == INLAY_DIM_UNKNOWN ||
            a->dims[i].value != b->dims[i].value || a->dims[i].symbol != b->dims[i].symbol)
            return false;
    return true;
}

/* The reason why the chip cannot run a node; code 0: it can. */
static inlay_refusal find_reason(const inlay_graph *graph, const inlay_node_info *node)
{
    const uint32_t op = find_operator(node);
    inlay_refusal refusal = { .struct_size = sizeof refusal };

    if (op == OPERATOR_COUNT) {
        refusal.code = INLAY_REFUSE_OPERATOR;
        refusal.text = "the chip supports Add, Mul, Relu, Clip and MatMul only";
        return refusal;
    }
    if (node->since_version < operators[op].oldest) {
        refusal.code = INLAY_REFUSE_VERSION;
        refusal.text = "this version of the operator specifies broadcasting or bounds by attributes";
        refusal.accepted_if = "convert the model to opset 13";
        return refusal;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        const inlay_value_info *value = inlay_graph_value(graph, node->inputs[i]);

        if (value == NULL)
            continue; /* omitted */
        if (value->dtype != INLAY_FLOAT) {
            refusal.code = INLAY_REFUSE_DTYPE;
            refusal.text = "the chip computes with 32-bit floats only";
            refusal.accepted_if = "insert a Cast to float";
        } else if (value->rank == INLAY_RANK_UNKNOWN || value->rank > MOST_RANK) {
            refusal.code = INLAY_REFUSE_SHAPE;
            refusal.text = "the rank must be known and at most 8";
        } else if (operators[op].op == CHIP_MATMUL && value->rank != 2) {
            refusal.code = INLAY_REFUSE_SHAPE;
            refusal.text = "the chip multiplies matrices, not batches of them";
        } else if (operators[op].op <= CHIP_MUL && !same_dims(value, inlay_graph_value(graph, node->outputs[0]))) {
            refusal.code = INLAY_REFUSE_SHAPE;
            refusal.text = "the chip does not broadcast: both operands must have the shape of the result";
        }
    }
    return refusal;
}

/* Writes a placement for each value that is not in the default domain, the chip's memory. These are the bounds of Clip:
 * scalars that the chip reads from host memory. A bound that is a constant needs no placement: compile handles it. */
static uint32_t place_scalars(const inlay_graph *graph, const inlay_node_info *node, inlay_placement *out)
{
    uint32_t count = 0;

    for (uint32_t i = 1; device_op(node) == CHIP_CLIP && i < node->input_count; i++) {
        const inlay_value_info *value = inlay_graph_value(graph, node->inputs[i]);

        if (value != NULL && (value->flags & INLAY_VALUE_CONSTANT) == 0)
            out[count++] = (inlay_placement){ .value = node->inputs[i], .domain = INLAY_DOMAIN_HOST };
    }
    return count;
}

static uint64_t constant_bytes(const inlay_graph *graph, const inlay_node_info *node)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const inlay_value_info *value = inlay_graph_value(graph, node->inputs[i]);

        bytes += value != NULL && (value->flags & INLAY_VALUE_CONSTANT) != 0 ? value->data_bytes : 0;
    }
    return bytes;
}

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    const uint8_t *candidates = request->candidates;
    const inlay_assess_sink *sink = request->sink;
    inlay_status status = INLAY_OK;

    (void)state, (void)diag;
    for (uint32_t n = 0; n < graph->node_count && status == INLAY_OK; n++) {
        const inlay_node_info *node = inlay_graph_node(graph, n);
        inlay_placement scalars[2];
        inlay_refusal reason;

        if (candidates[n] == 0)
            continue;
        reason = find_reason(graph, node);
        reason.node = n;
        if (reason.code != 0) {
            status = sink->refuse(sink->ctx, &reason);
        } else {
            const uint32_t count = place_scalars(graph, node, scalars);
            const inlay_offer offer = { .struct_size = sizeof offer,
                                        .nodes = &n,
                                        .node_count = 1,
                                        .flags = INLAY_OFFER_MERGE,
                                        .placements = scalars,
                                        .placement_count = count,
                                        .placement_stride = sizeof scalars[0],
                                        .resident_bytes = constant_bytes(graph, node),
                                        .max_nodes = MOST_NODES };

            status = sink->offer(sink->ctx, &offer);
        }
    }
    return status;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const inlay_node_info *node = inlay_graph_node(request->graph, request->offer->nodes[0]);
    const inlay_value_state *input =
        INLAY_AT(inlay_value_state, request->values, request->value_stride, node->inputs[0]);
    const inlay_value_state *output =
        INLAY_AT(inlay_value_state, request->values, request->value_stride, node->outputs[0]);
    double elements = 1;

    (void)state, (void)diag;
    for (uint32_t i = 0; output->rank <= MOST_RANK && i < output->rank; i++) /* INLAY_RANK_UNKNOWN is above MOST_RANK */
        elements *= output->dims[i] > 0 ? (double)output->dims[i] : 1;
    out->bytes_read = (uint64_t)elements * sizeof(float);
    out->bytes_written = out->bytes_read;
    if (device_op(node) == CHIP_MATMUL) {
        const double k = input->rank == 2 && input->dims[1] > 0 ? (double)input->dims[1] : 1;

        out->flops = 2 * elements * k;
        out->ns = NS_A_PRODUCT * elements * k;
    } else {
        out->flops = elements;
        out->ns = NS_AN_ELEMENT * elements;
    }
    out->enter_ns = NS_A_JOB; /* a region is one job; its values mostly enter at one node */
    out->confidence = INLAY_CONFIDENCE_MODEL;
    return INLAY_OK;
}

/* This chip has one kind of memory. A driver with several kinds chooses by request->usage and request->lifetime.
 * request->alignment is CHIP_ALIGNMENT: that of the domain, and of the workspaces that specialize requests. */
static inlay_status buffer_alloc(void *state, const inlay_alloc_request *request, inlay_buffer *out, inlay_diag *diag)
{
    struct device *device = state;
    const uint64_t address = chip_alloc(device->chip, request->bytes);

    if (address == 0)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY,
                          "the chip's memory has no free %llu bytes; reduce the batch or set memory_limit",
                          (unsigned long long)request->bytes);
    *out = (inlay_buffer){ .handle = address, .domain = request->domain }; /* the host sets bytes */
    return INLAY_OK;
}

static void buffer_free(void *state, const inlay_free_request *request)
{
    chip_free(((struct device *)state)->chip, request->buffer->handle);
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    struct device *device = calloc(1, sizeof *device);

    (void)ctx;
    if (device == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the device");
    device->host = host;
    device->chip = chip_open(MEMORY_BYTES, INLAY_AT(inlay_option_value, args->options, args->option_stride, 0)->i);
    if (device->chip == NULL) {
        free(device);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "the chip cannot be started: no memory or no threads");
    }
    device->compile_ms = INLAY_AT(inlay_option_value, args->options, args->option_stride, 1)->i;
    (void)pthread_mutex_init(&device->mutex, NULL);
    (void)pthread_cond_init(&device->freed, NULL);
    for (uint32_t i = 0; i < MOST_JOBS; i++) {
        device->jobs[i].next_free = device->free_jobs;
        device->free_jobs = &device->jobs[i];
    }
    *out_state = device;
    return INLAY_OK;
}

static void quiesce(void *state)
{
    chip_drain(((struct device *)state)->chip);
}

static void destroy(void *state)
{
    struct device *device = state;

    chip_close(device->chip);
    (void)pthread_cond_destroy(&device->freed);
    (void)pthread_mutex_destroy(&device->mutex);
    free(device);
}

static const inlay_option options[] = {
    { .name = "lose_after",
      .doc = "the number of the job at which the chip fails, to test how a program handles it; 0 = never",
      .default_value = "0",
      .min = 0,
      .max = 1000000,
      .kind = INLAY_OPTION_INT },
    { .name = "compile_ms",
      .doc = "milliseconds that the compiler of the chip takes for an engine",
      .default_value = "0",
      .min = 0,
      .max = 60000,
      .kind = INLAY_OPTION_INT },
};
static const inlay_domain_info domains[] = {
    { .name = "chip.memory", .alignment = CHIP_ALIGNMENT, .memory_bytes = MEMORY_BYTES },
};
static const inlay_provider provider = {
    .struct_size = sizeof provider,
    .name = "chip",
    .description = "a device to start from",
    .device_kind = INLAY_DEVICE_NPU,
    .flags = INLAY_PROVIDER_ASYNC | INLAY_PROVIDER_CONCURRENT_COMPILE,
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_stride = sizeof options[0],
    .domains = domains,
    .domain_count = sizeof domains / sizeof domains[0],
    .domain_stride = sizeof domains[0],
    .default_domain = 1,
    .poll_ms = 10,
    .create = create,
    .destroy = destroy,
    .quiesce = quiesce,
    .assess = assess,
    .cost = cost,
    .compile = device_compile,
    .release_compiled = device_release_compiled,
    .specialize = device_specialize,
    .release_instance = device_release_instance,
    .execute = device_execute,
    .fingerprint = engine_fingerprint,
    .cache_verdict = engine_verdict,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .buffer_copy = device_copy,
    .max_waits = MOST_WAITS,
};
static const inlay_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = INLAY_ABI_MAJOR,
    .abi_minor = INLAY_ABI_MINOR,
    .name = "chip",
    .version = INLAY_NOTE_VERSION,
    .build_id = "chip " INLAY_NOTE_VERSION " " __DATE__ " " __TIME__,
    .flags = INLAY_PLUGIN_DLCLOSE,
    .providers = &provider,
    .provider_count = 1,
    .provider_stride = sizeof provider,
};

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    if (host->abi_major != INLAY_ABI_MAJOR || !INLAY_HAS(host, poll) || !INLAY_HAS(host, fence_wait))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "this host has ABI %u.%u; the plugin was made for %u.%u",
                          host->abi_major, host->abi_minor, INLAY_ABI_MAJOR, INLAY_ABI_MINOR);
    *out_plugin = &plugin;
    return INLAY_OK;
}

INLAY_PLUGIN_NOTE("chip", "chip", "")
