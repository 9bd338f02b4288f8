/* A simulated device: a plugin that uses plugin.h only, without the kit, and behaves like an asynchronous device.
 *
 * Its memory is a separate domain whose handles are numbers, not addresses; every buffer from the host is validated. A
 * worker thread processes a queue of jobs, so execute and copies return long before the work is done, and fences are
 * signalled from that thread. It runs Neg, Relu, Add and Mul of equal shapes on floats, merges adjacent nodes, offers
 * Mul followed by Add as a group, and runs NonZero, whose output shape depends on data, with bounded or allocated
 * outputs. */
#include "fake_work.h"
#include "inlay/extensions.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same_shapes(const inlay_graph *graph, const inlay_node_info *node)
{
    const inlay_value_info *output = inlay_graph_value(graph, node->outputs[0]);

    for (uint32_t i = 0; i < node->input_count; i++) {
        const inlay_value_info *input = inlay_graph_value(graph, node->inputs[i]);

        if (input == NULL || input->dtype != INLAY_FLOAT || input->rank == INLAY_RANK_UNKNOWN ||
            input->rank != output->rank)
            return false;
        for (uint32_t k = 0; k < input->rank; k++)
            if (input->dims[k].value != output->dims[k].value || input->dims[k].symbol != output->dims[k].symbol)
                return false;
    }
    return true;
}

static inlay_status refuse(const inlay_assess_sink *sink, uint32_t node, uint32_t code, const char *text)
{
    const inlay_refusal refusal = { .struct_size = sizeof refusal, .node = node, .code = code, .text = text };

    return sink->refuse(sink->ctx, &refusal);
}

/* Adds alternative placements in bfloat16 for values between two regions. Returns their number. */
static uint32_t add_narrow_placements(const struct device *device, const inlay_node_info *node, inlay_placement out[3])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < node->input_count && i < 2; i++)
        out[n++] = (inlay_placement){ .value = node->inputs[i], .domain = device->domain, .dtype = INLAY_BFLOAT16 };
    out[n++] = (inlay_placement){ .value = node->outputs[0], .domain = device->domain, .dtype = INLAY_BFLOAT16 };
    return n;
}

static inlay_status assess_node(struct device *device, const inlay_graph *graph, uint32_t n,
                                const inlay_assess_sink *sink)
{
    const inlay_node_info *node = inlay_graph_node(graph, n);
    int op = op_of(node);
    inlay_placement placements[6] = {
        { .value = node->inputs[0],
          .domain = op == OP_NONZERO && device->host_input ? (uint32_t)INLAY_DOMAIN_HOST : device->domain },
        { .value = node->outputs[0], .domain = device->domain },
    };
    inlay_offer offer = { .struct_size = sizeof offer,
                          .cookie = 1,
                          .nodes = &n,
                          .node_count = 1,
                          .placements = placements,
                          .placement_count = 2,
                          .placement_stride = sizeof placements[0] };

    if (op >= 0 && op != OP_NONZERO && device->narrow)
        offer.placement_count += add_narrow_placements(device, node, placements + 2);

    if (op < 0)
        return refuse(sink, n, INLAY_REFUSE_OPERATOR, "the fake device has five operators, and this is none of them");
    if (device->refuse)
        return refuse(sink, n, INLAY_REFUSE_OPTION, "the option refuse is set");
    if (op == OP_NONZERO && inlay_graph_value(graph, node->inputs[0])->dtype != INLAY_FLOAT)
        return refuse(sink, n, INLAY_REFUSE_DTYPE, "the fake device takes floats");
    if (op != OP_NONZERO && !same_shapes(graph, node))
        return refuse(sink, n, INLAY_REFUSE_SHAPE, "the fake device wants floats of equal, known rank and dims");
    offer.flags = op == OP_NONZERO ? 0 : INLAY_OFFER_MERGE;
    return sink->offer(sink->ctx, &offer);
}

/* Offers a Mul whose only consumer is an Add together with that Add, in addition to the single nodes. */
static inlay_status offer_group(const struct device *device, const inlay_graph *graph, uint32_t n,
                                const inlay_assess_sink *sink)
{
    const inlay_node_info *mul = inlay_graph_node(graph, n);
    uint32_t readers = 0, nodes[2] = { n, 0 };
    inlay_placement placements[6];
    inlay_offer offer = { .struct_size = sizeof offer,
                          .cookie = 2,
                          .nodes = nodes,
                          .node_count = 2,
                          .placements = placements,
                          .placement_stride = sizeof placements[0] };

    if ((inlay_graph_value(graph, mul->outputs[0])->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return INLAY_OK;
    for (uint32_t k = n + 1; k < graph->node_count; k++) {
        const inlay_node_info *node = inlay_graph_node(graph, k);

        if (find(node->inputs, node->input_count, mul->outputs[0]) != INLAY_NONE) {
            readers++;
            nodes[1] = op_of(node) == OP_ADD && same_shapes(graph, node) ? k : 0;
        }
    }
    if (readers != 1 || nodes[1] == 0)
        return INLAY_OK;
    if (device->narrow) {
        offer.placement_count = add_narrow_placements(device, mul, placements);
        offer.placement_count +=
            add_narrow_placements(device, inlay_graph_node(graph, nodes[1]), placements + offer.placement_count);
    }
    return sink->offer(sink->ctx, &offer);
}

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    const uint8_t *candidates = request->candidates;
    const inlay_assess_sink *sink = request->sink;
    struct device *device = state;
    inlay_status status = INLAY_OK;

    (void)diag;
    for (uint32_t n = 0; n < graph->node_count && status == INLAY_OK; n++) {
        if (candidates[n] == 0)
            continue;
        status = assess_node(device, graph, n, sink);
        if (status == INLAY_OK && !device->refuse && op_of(inlay_graph_node(graph, n)) == OP_MUL &&
            same_shapes(graph, inlay_graph_node(graph, n)))
            status = offer_group(device, graph, n, sink);
    }
    return status;
}

/* Returns the number of output elements of a node at the given shapes, 0 if they are unknown. */
static double elements_of(const inlay_cost_request *request, uint32_t node)
{
    const inlay_node_info *info = inlay_graph_node(request->graph, node);
    const inlay_value_state *state =
        INLAY_AT(inlay_value_state, request->values, request->value_stride, info->outputs[0]);
    double elements = 1;

    for (uint32_t i = 0; state->rank != INLAY_RANK_UNKNOWN && i < state->rank; i++)
        elements *= state->dims[i] > 0 ? (double)state->dims[i] : 0;
    return state->rank != INLAY_RANK_UNKNOWN ? elements : 0;
}

/* With option element_ps the cost is the time of the elements plus the queue; otherwise it is so low that the device is
 * always chosen. */
static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const struct device *device = state;

    (void)diag;
    if (device->element_ps > 0) {
        out->ns = 1000;
        for (uint32_t i = 0; i < request->offer->node_count; i++)
            out->ns += elements_of(request, request->offer->nodes[i]) * (double)device->element_ps / 1000;
        out->confidence = INLAY_CONFIDENCE_MODEL;
        return INLAY_OK;
    }
    out->ns = request->offer->cookie == 2 ? 0.5 : 1;
    out->confidence = INLAY_CONFIDENCE_MODEL;
    return INLAY_OK;
}

static const char removed[] = "the second device was removed";

static inlay_status enumerate(void *ctx, const inlay_enumerate_request *request, inlay_diag *diag)
{
    const inlay_device_info first = { .struct_size = sizeof first,
                                      .name = "Fake 1000",
                                      .option = "device",
                                      .value = "0",
                                      .facts = "speed=none; colour=grey",
                                      .memory_bytes = UINT64_C(1) << 30,
                                      .kind = INLAY_DEVICE_OTHER };
    const inlay_device_info second = { .struct_size = sizeof second,
                                       .name = "Fake 2000",
                                       .option = "device",
                                       .value = "1",
                                       .unusable = removed,
                                       .kind = INLAY_DEVICE_GPU };
    const inlay_status status = request->struct_size < sizeof *request || request->host->abi_major != INLAY_ABI_MAJOR
                                    ? inlay_fail(diag, INLAY_INTERNAL, "fake: a request without its host")
                                    : request->device(request->user, &first);

    (void)ctx;
    return status == INLAY_OK ? request->device(request->user, &second) : status;
}

/* The size and kind of the memory are known once the device is open. */
static inlay_status describe(void *state, const inlay_describe_request *request, inlay_diag *diag)
{
    inlay_device_info *out = request->device;
    inlay_domain_info *at = INLAY_AT_OUT(inlay_domain_info, request->domains, request->domain_stride, 0);
    const struct device *device = state;

    if (request->struct_size < sizeof *request || request->domain_count != 1)
        return inlay_fail(diag, INLAY_INTERNAL, "fake: %u domains", request->domain_count);
    out->name = "Fake 1000";
    out->facts = "speed=none";
    out->kind = INLAY_DEVICE_OTHER;
    out->memory_bytes = device->memory_kib > 0 ? (uint64_t)device->memory_kib * 1024 : at[0].memory_bytes;
    out->flags = device->unified ? INLAY_DEVICE_UNIFIED : 0;
    at[0].memory_bytes = out->memory_bytes;
    at[0].flags = (device->unified ? INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT : 0) |
                  (device->imports ? INLAY_DOMAIN_IMPORTS_HOST : 0);
    at[0].exports = (device->shares & 1) != 0 ? INLAY_MEMORY_BIT(INLAY_MEMORY_SHARED_FD) : 0;
    at[0].imports = (device->shares & 2) != 0 ? INLAY_MEMORY_BIT(INLAY_MEMORY_SHARED_FD) : 0;
    return INLAY_OK;
}

static const inlay_option_value *option(const inlay_create_args *args, uint32_t index)
{
    return INLAY_AT(inlay_option_value, args->options, args->option_stride, index);
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    struct device *device = calloc(1, sizeof *device);

    (void)ctx;
    *out_state = NULL;
    if (device == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: create");
    if (strcmp(option(args, 13)->s, "1") == 0) {
        free(device);
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: %s", removed);
    }
    device->host = host;
    device->domain = args->first_domain;
    device->delay_us = option(args, 0)->i;
    device->lose_after = option(args, 1)->i;
    device->bounded = option(args, 2)->i != 0;
    device->refuse = option(args, 3)->i != 0;
    device->link_us = option(args, 4)->i;
    device->link_mb_s = option(args, 5)->i;
    device->element_ps = option(args, 6)->i;
    device->hang_at = option(args, 7)->i;
    device->memory_kib = option(args, 9)->i;
    device->host_input = option(args, 8)->i != 0;
    device->unified = option(args, 10)->i != 0;
    device->unordered = option(args, 11)->i != 0;
    device->narrow = option(args, 12)->i != 0;
    device->imports = option(args, 14)->i != 0;
    device->in_place = option(args, 15)->i != 0;
    device->no_domain = option(args, 16)->i != 0;
    device->echo = option(args, 17)->i != 0;
    device->shares = option(args, 18)->i;
    device->workspace_align = option(args, 19)->i;
    device->lists_kernels = option(args, 20)->i != 0;
    device->zero_handle = option(args, 21)->i != 0;
    (void)pthread_mutex_init(&device->mutex, NULL);
    (void)pthread_cond_init(&device->changed, NULL);
    if (pthread_create(&device->thread, NULL, work, device) != 0) {
        free(device);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: no thread");
    }
    *out_state = device;
    return INLAY_OK;
}

static void quiesce(void *state)
{
    struct device *device = state;

    (void)pthread_mutex_lock(&device->mutex);
    device->stopping = true;
    (void)pthread_cond_broadcast(&device->changed);
    while (device->first != NULL || device->busy)
        (void)pthread_cond_wait(&device->changed, &device->mutex);
    (void)pthread_mutex_unlock(&device->mutex);
}

static void destroy(void *state)
{
    struct device *device = state;
    char line[128];

    quiesce(device);
    (void)pthread_join(device->thread, NULL);
    if (device->counters.live_buffers + device->counters.live_regions + device->counters.misuse > 0) {
        (void)snprintf(line, sizeof line, "fake: %u buffers and %u regions left, %u misused",
                       device->counters.live_buffers, device->counters.live_regions, device->counters.misuse);
        device->host->log(device->host->ctx, INLAY_LOG_ERROR, line);
    }
    for (uint32_t i = 0; i < MAX_BUFFERS; i++)
        free(device->buffers[i].data);
    (void)pthread_cond_destroy(&device->changed);
    (void)pthread_mutex_destroy(&device->mutex);
    free(device);
}

static inlay_status fingerprint(void *state, inlay_fingerprint *out, inlay_diag *diag)
{
    (void)state, (void)diag;
    out->data = "fake-1";
    out->bytes = 6;
    return INLAY_OK;
}

static inlay_status cache_verdict(void *state, inlay_cache_request *request, inlay_diag *diag)
{
    (void)state;
    if (request->bytes == 9 && memcmp(request->blob, "fake blob", 9) == 0)
        return INLAY_OK;
    request->verdict = INLAY_CACHE_UNSUPPORTED;
    (void)inlay_fail(diag, INLAY_UNSUPPORTED, "fake: not a blob of mine");
    return INLAY_OK;
}

static fake_stream *stream_of(uint64_t number, inlay_diag *diag)
{
    fake_stream *stream = (fake_stream *)(uintptr_t)number;

    if (stream != NULL && stream->kind == FAKE_STREAM && stream->mark_count < MAX_STREAM_FENCES &&
        stream->gate_count < MAX_STREAM_FENCES)
        return stream;
    (void)inlay_fail(diag, INLAY_UNSUPPORTED, "fake: this stream is none of mine");
    return NULL;
}

static inlay_status stream_signal(void *state, uint64_t stream, inlay_fence fence, inlay_diag *diag)
{
    const struct device *device = state;
    fake_stream *known = stream_of(stream, diag);

    if (known == NULL)
        return INLAY_UNSUPPORTED;
    if (known->busy)
        known->marks[known->mark_count++] = fence;
    else
        device->host->fence_signal(device->host->ctx, fence, INLAY_OK, NULL);
    return INLAY_OK;
}

static inlay_status stream_wait(void *state, uint64_t stream, inlay_fence fence, inlay_diag *diag)
{
    fake_stream *known = stream_of(stream, diag);

    (void)state;
    if (known == NULL)
        return INLAY_UNSUPPORTED;
    known->gates[known->gate_count++] = fence;
    return INLAY_OK;
}

static const inlay_ext_streams streams = { .struct_size = sizeof streams,
                                           .signal = stream_signal,
                                           .wait = stream_wait };

/* delay_us is the option that can change; TRIM pretends to release half of what it may keep. */
static inlay_status control(void *state, inlay_control_args *args, inlay_diag *diag)
{
    struct device *device = state;

    count(&device->counters.controls, 1);
    switch (args->action) {
    case INLAY_CONTROL_SET_OPTION:
        if (args->option_bytes < sizeof *args->option || strcmp(args->option->name, "delay_us") != 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: option '%s' is fixed", args->option->name);
        __atomic_store_n(&device->delay_us, args->option->i, __ATOMIC_RELAXED); /* runs may be in progress */
        return INLAY_OK;
    case INLAY_CONTROL_TRIM:
        __atomic_store_n(&device->counters.trimmed, (uint32_t)args->bytes, __ATOMIC_RELEASE);
        args->freed_bytes = args->bytes / 2;
        return INLAY_OK;
    case INLAY_CONTROL_SUSPEND:
    case INLAY_CONTROL_RESUME:
        count(&device->counters.misuse, __atomic_load_n(&device->unfinished, __ATOMIC_ACQUIRE) != 0);
        __atomic_store_n(&device->counters.suspended, args->action == INLAY_CONTROL_SUSPEND, __ATOMIC_RELEASE);
        return INLAY_OK;
    default:
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: action %u", args->action);
    }
}

static const inlay_ext_control controls = { .struct_size = sizeof controls, .control = control };

/* Reports the kernel of the first node, and fails. */
static inlay_status list_kernels(void *state, const inlay_kernel_list *request, inlay_diag *diag)
{
    struct device *device = state;
    const inlay_kernel kernel = { .struct_size = sizeof kernel,
                                  .node = request->compiled->steps[0].node,
                                  .name = "fake_kernel",
                                  .ns = 1,
                                  .runner_up_ns = -1 };
    const inlay_status status = request->kernel(request->ctx, &kernel);

    count(&device->counters.misuse, request->struct_size < sizeof *request || request->instance == NULL);
    return status != INLAY_OK ? status : inlay_fail(diag, INLAY_IO_ERROR, "fake: the list of kernels cannot be read");
}

static inlay_status time_kernels(void *state, inlay_compiled *compiled, const inlay_kernel_trial *trial,
                                 inlay_diag *diag)
{
    (void)state, (void)compiled, (void)trial;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: it has one kernel");
}

static const void *extension(void *state, const char *name)
{
    static const inlay_ext_kernels kernels = { .struct_size = sizeof kernels,
                                               .list = list_kernels,
                                               .time = time_kernels };
    struct device *device = state;

    if (strcmp(name, INLAY_EXT_KERNELS) == 0)
        return device->lists_kernels ? &kernels : NULL;

    if (strcmp(name, INLAY_EXT_CONTROL) == 0)
        return &controls;

    if (strcmp(name, INLAY_EXT_STREAMS) == 0)
        return &streams;
    if (strcmp(name, "fake.hold") == 0)
        return &device->hold;
    return strcmp(name, "fake.counters") == 0 ? &device->counters : NULL;
}

static const inlay_option options[] = {
    { .name = "delay_us",
      .doc = "minimum time of each job, microseconds",
      .default_value = "0",
      .min = 0,
      .max = 60000000,
      .kind = INLAY_OPTION_INT },
    { .name = "lose_after",
      .doc = "the job at which the device is lost, 0 = never",
      .default_value = "0",
      .min = 0,
      .max = 1000000,
      .kind = INLAY_OPTION_INT },
    { .name = "bounded",
      .doc = "NonZero writes into a buffer of the largest size",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "refuse", .doc = "offers nothing", .default_value = "false", .kind = INLAY_OPTION_BOOL },
    { .name = "link_us",
      .doc = "minimum time of each copy, microseconds of busy waiting",
      .default_value = "0",
      .min = 0,
      .max = 60000000,
      .kind = INLAY_OPTION_INT },
    { .name = "link_mb_s",
      .doc = "bandwidth of copies, MB/s, 0 = no limit",
      .default_value = "0",
      .min = 0,
      .max = 1000000,
      .kind = INLAY_OPTION_INT },
    { .name = "element_ps",
      .doc = "cost of an element, picoseconds, 0 = nodes of any size are nearly free",
      .default_value = "0",
      .min = 0,
      .max = 1000000,
      .kind = INLAY_OPTION_INT },
    { .name = "hang_at",
      .doc = "the job that never ends, 0 = none",
      .default_value = "0",
      .min = 0,
      .max = 1000000,
      .kind = INLAY_OPTION_INT },
    { .name = "host_input",
      .doc = "NonZero reads its input from host memory",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "memory_kib",
      .doc = "memory of the device, 0 = no limit",
      .default_value = "0",
      .min = 0,
      .max = 1000000,
      .kind = INLAY_OPTION_INT },
    { .name = "unified",
      .doc = "the device shares the memory of the host",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "unordered",
      .doc = "ready jobs run before jobs that wait",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "narrow",
      .doc = "regions exchange values in bfloat16",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "device", .doc = "the number of the device", .default_value = "0", .kind = INLAY_OPTION_STRING },
    { .name = "imports",
      .doc = "reads imported host memory in place",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "in_place",
      .doc = "single nodes write into the buffer of their first input",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "no_domain",
      .doc = "leaves the domain of imported native memory to the host",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "echo",
      .doc = "every result is 100 * delay_us + 10 * priority + power of the run",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "shares",
      .doc = "shared memory: 1 = exports its own, 2 = imports that of others, 3 = both",
      .default_value = "0",
      .max = 3,
      .kind = INLAY_OPTION_INT },
    { .name = "workspace_align",
      .doc = "alignment of workspaces, bytes",
      .default_value = "256",
      .min = 256,
      .max = 4194304,
      .kind = INLAY_OPTION_INT },
    { .name = "lists_kernels",
      .doc = "reports a kernel of each region, and fails",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "zero_handle",
      .doc = "allocations succeed with handle 0",
      .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
};
static const inlay_domain_info domains[] = {
    { .name = "fake.memory", .alignment = ALIGNMENT, .memory_bytes = UINT64_C(1) << 30 },
};
static inlay_provider provider = {
    .struct_size = sizeof provider,
    .name = "fake",
    .description = "a simulated device",
    .device_kind = INLAY_DEVICE_OTHER,
    .flags = INLAY_PROVIDER_ASYNC,
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_stride = sizeof options[0],
    .domains = domains,
    .domain_count = 1,
    .domain_stride = sizeof domains[0],
    .default_domain = 1,
    .poll_ms = 2000, /* even on a busy machine */
    .create = create,
    .destroy = destroy,
    .quiesce = quiesce,
    .assess = assess,
    .cost = cost,
    .compile = compile,
    .release_compiled = release_compiled,
    .specialize = specialize,
    .release_instance = release_instance,
    .execute = execute,
    .fingerprint = fingerprint,
    .cache_verdict = cache_verdict,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .buffer_copy = buffer_copy,
    .buffer_map = buffer_map,
    .buffer_unmap = buffer_unmap,
    .extension = extension,
    .enumerate = enumerate,
    .describe = describe,
    .bind = bind,
    .release_binding = release_binding,
    .buffer_import = buffer_import,
    .buffer_export = buffer_export,
};
static const inlay_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = INLAY_ABI_MAJOR,
    .abi_minor = INLAY_ABI_MINOR,
    .name = "fake",
    .version = "1.0",
    .build_id = "fake-1",
    .flags = INLAY_PLUGIN_DLCLOSE,
    .providers = &provider,
    .provider_count = 1,
    .provider_stride = sizeof provider,
};

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    if (!INLAY_HAS(host, fence_query) || host->abi_major != INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: the host is too old");
    /* Environment variables of the tests. */
    provider.flags = INLAY_PROVIDER_ASYNC;
    if (getenv("FAKE_SERIAL") != NULL)
        provider.flags |= INLAY_PROVIDER_SERIAL_EXECUTE;
    provider.max_waits = getenv("FAKE_MAX_WAITS") != NULL ? (uint32_t)atoi(getenv("FAKE_MAX_WAITS")) : 0;
    *out_plugin = &plugin;
    return INLAY_OK;
}
