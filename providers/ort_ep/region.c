/* A region: nodes that a library has compiled to one, or the kernel of one node. */
#include "ort_ep/provider.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct OrtNodeComputeContext {
    const char *name;
};

typedef struct ep_region {
    ep_state *state;
    OrtEp *ep;
    char name[96]; /* of the fused node */
    ort_ports ports;
    OrtNodeComputeInfo *fused; /* NULL: a kernel */
    void *fused_state;
    ep_single single;    /* the kernel */
    ep_node_name *nodes; /* [node_count] */
    size_t node_count;
    OrtValue **constants;          /* [ports.info->input_count] in the memory of the device; NULL: none */
    OrtAllocator *allocator;       /* of the memory that it computes in; NULL: the host's */
    OrtDataTransferImpl *transfer; /* to and from that memory */
    OrtSyncStream *stream;         /* of the device; NULL: none */
    ep_signature signature;
    uint32_t *outputs; /* [output_count] values of the graph */
    uint32_t output_count;
    bool is_concurrent; /* runs may overlap */
    pthread_mutex_t serial;
} ep_region;

/* A region at concrete shapes. */
typedef struct ep_instance {
    size_t price; /* where its times are kept */
} ep_instance;

const char *ort_NodeComputeContext_NodeName(const OrtNodeComputeContext *context)
{
    return context->name;
}

/* ------------------------------------------------------------------ compiling */

void ep_release_compiled(void *state_, inlay_compiled *compiled)
{
    ep_region *region = (ep_region *)(void *)compiled;
    ep_state *state = state_;
    OrtEpFactory *factory = state->library.device->factory;

    if (region == NULL)
        return;
    (void)pthread_mutex_lock(&state->lock);
    if (region->fused != NULL) {
        if (region->fused_state != NULL)
            region->fused->ReleaseState(region->fused, region->fused_state);
        region->ep->ReleaseNodeComputeInfos(region->ep, &region->fused, 1);
    }
    ep_single_release(&region->single);
    for (size_t i = 0; region->constants != NULL && i < region->ports.info->input_count; i++)
        ort_ReleaseValue(region->constants[i]);
    ep_stream_release(region->stream);
    if (region->transfer != NULL)
        region->transfer->Release(region->transfer);
    if (region->allocator != NULL)
        factory->ReleaseAllocator(factory, region->allocator);
    ep_release(state, region->ep);
    (void)pthread_mutex_unlock(&state->lock);
    ort_ports_deinit(&region->ports);
    ep_signature_deinit(&region->signature);
    (void)pthread_mutex_destroy(&region->serial);
    for (size_t i = 0; i < region->node_count; i++)
        free(region->nodes[i].name);
    free(region->nodes);
    free(region->constants);
    free(region->outputs);
    free(region);
}

/* The library compiles the nodes of a view to one. Constants that it has copied are no longer needed. */
static inlay_status compile_fused(ep_region *region, const inlay_compile_request *request, const OrtGraph *view,
                                  const ep_group *group, inlay_diag *diag)
{
    ep_state *state = region->state;
    const OrtNodeComputeContext *names = &(const OrtNodeComputeContext){ region->name };
    OrtNode *context_node = NULL;
    inlay_node_info info;
    OrtNode fused;
    const OrtNode *fused_node = &fused;
    inlay_status status;
    OrtStatus *failed;

    if (region->ep->Compile == NULL || region->ep->ReleaseNodeComputeInfos == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "execution provider %s fuses nodes, but has no Compile",
                          state->name);
    (void)snprintf(region->name, sizeof region->name, "%.60s_%llu", state->name,
                   (unsigned long long)state->fused_count++);
    failed = ep_fused_init(view, region->name, state->name, group->drops_constants, &info, &fused);
    if (failed != NULL)
        return ep_fail(state, "fusing nodes", failed, INLAY_OUT_OF_MEMORY, diag);
    failed = region->ep->Compile(region->ep, &view, &fused_node, 1, &region->fused, &context_node);
    if (failed == NULL && region->fused == NULL)
        failed = ort_fail(ORT_EP_FAIL, "it returned nothing");
    if (failed == NULL)
        failed =
            region->fused->CreateState(region->fused, (OrtNodeComputeContext *)(uintptr_t)names, &region->fused_state);
    status = failed != NULL
                 ? ep_fail(state, "Compile", failed, INLAY_UNSUPPORTED, diag)
                 : ort_ports_init(&region->ports, state->host, request, &info, &state->options.entries, diag);
    for (size_t i = 0; status == INLAY_OK && group->drops_constants && i < view->constant_count; i++)
        request->constants[view->constants[i]->value] = INLAY_CONST_COPIED;
    free((uint32_t *)(uintptr_t)info.inputs);
    ep_node_deinit(&fused);
    return status;
}

static inlay_status create_kernel(ep_region *region, const inlay_compile_request *request, const OrtGraph *view,
                                  const OrtEpGraphSupportInfo *support, inlay_diag *diag)
{
    const ep_state *state = region->state;
    inlay_status status =
        ort_ports_init(&region->ports, state->host, request, view->nodes[0].info, &state->options.entries, diag);

    if (status != INLAY_OK)
        return status;
    region->ports.info->ep = region->ep;
    return ep_single_create(&region->single, state, support, &view->nodes[0], region->ports.info, diag);
}

/* Prepares the memory of the device, if it is not the host's. */
static OrtStatus *open_memory(ep_region *region)
{
    const OrtEpDevice *device = region->state->library.device;
    OrtEpFactory *factory = device->factory;
    const OrtMemoryDevice *host = ort_MemoryInfo_GetMemoryDevice(&ort_cpu_memory), *own;

    if (device->memory == NULL || device->memory->device_type == 0)
        return NULL;
    if (region->ep->CreateAllocator != NULL)
        ORT_TRY(region->ep->CreateAllocator(region->ep, device->memory, &region->allocator));
    else
        ORT_TRY(factory->CreateAllocator(factory, device->memory, NULL, &region->allocator));
    if (region->allocator == NULL)
        return NULL; /* it computes in host memory after all */
    ORT_TRY(factory->CreateDataTransfer(factory, &region->transfer));
    own = ort_MemoryInfo_GetMemoryDevice(device->memory);
    if (region->transfer == NULL || !region->transfer->CanCopy(region->transfer, host, own) ||
        !region->transfer->CanCopy(region->transfer, own, host))
        return ort_fail(ORT_EP_FAIL, "nothing copies between the host and memory '%s'", device->memory->name);
    ORT_TRY(ep_stream_create(region->ep, device, &region->stream));
    region->is_concurrent = region->is_concurrent && region->stream == NULL;
    return NULL;
}

static OrtStatus *copy(const ep_region *region, const OrtValue *from, OrtValue *to)
{
    OrtSyncStream *stream = region->stream;

    if (inlay_value_bytes(from->value) == 0)
        return NULL;
    return region->transfer->CopyTensors(region->transfer, &from, &to, stream != NULL ? &stream : NULL, 1);
}

/* A copy of a tensor in the memory of the device. */
static OrtStatus *place(const ep_region *region, const OrtValue *value, OrtValue **out)
{
    const inlay_value *host = value->value;
    OrtStatus *failed = ort_CreateTensorAsOrtValue(region->allocator, inlay_value_dims(host), inlay_value_rank(host),
                                                   ort_type_of(inlay_value_dtype(host)), out);

    if (failed == NULL)
        failed = copy(region, value, *out);
    if (failed != NULL) {
        ort_ReleaseValue(*out);
        *out = NULL;
    }
    return failed;
}

/* Copies a constant to the device, if the EP computes there, and lets the kernel pack it. What is packed is not an input
 * any more. */
static OrtStatus *prepare_constant(ep_region *region, const inlay_compile_request *request, size_t input)
{
    OrtKernelInfo *info = region->ports.info;
    OrtValue *tensor = info->constants[input];
    OrtAllocator *allocator = region->allocator;
    const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[0]);
    bool packed;

    if (region->allocator != NULL && !ep_single_is_on_host(&region->single, input, false)) {
        ORT_TRY(place(region, tensor, &region->constants[input]));
        ORT_TRY(ep_stream_wait(region->stream));
        tensor = region->constants[input];
    }
    if (region->fused != NULL)
        return NULL;
    if (allocator == NULL)
        ORT_TRY(ort_GetAllocatorWithDefaultOptions(&allocator));
    ORT_TRY(ep_single_pack(&region->single, input, tensor, allocator, &packed));
    if (!packed)
        return NULL;
    ort_ReleaseValue(region->constants[input]);
    ort_ReleaseValue(info->constants[input]);
    region->constants[input] = info->constants[input] = NULL;
    request->constants[node->inputs[input]] = INLAY_CONST_PACKED;
    return NULL;
}

static OrtStatus *prepare_constants(ep_region *region, const inlay_compile_request *request)
{
    const OrtKernelInfo *info = region->ports.info;

    region->constants = calloc(info->input_count + 1, sizeof *region->constants);
    if (region->constants == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < info->input_count; i++)
        if (info->constants[i] != NULL)
            ORT_TRY(prepare_constant(region, request, i));
    return NULL;
}

/* Asks a new OrtEp about the region alone, and lets it compile its answer. The caller holds the lock. */
static inlay_status build(ep_region *region, const inlay_compile_request *request, inlay_diag *diag)
{
    ep_state *state = region->state;
    OrtEpGraphSupportInfo support = { 0 };
    inlay_status status = INLAY_OK;
    OrtGraph *view = NULL;
    bool concurrent = true;
    OrtStatus *failed = ep_create(state, &region->ep);

    if (failed == NULL && EP_SINCE(region->ep, 24) && region->ep->IsConcurrentRunSupported != NULL)
        failed = region->ep->IsConcurrentRunSupported(region->ep, &concurrent);
    region->is_concurrent = concurrent;
    if (failed == NULL)
        failed =
            ep_graph_create(request->graph, request->nodes, request->node_count, state->host, request->handle, &view);
    if (failed == NULL)
        failed = ep_support_ask(region->ep, view, &support);
    if (failed == NULL)
        failed = open_memory(region);
    if (failed != NULL)
        status = ep_fail(state, "preparing nodes", failed, INLAY_UNSUPPORTED, diag);
    else if (support.group_count != 1 || support.groups[0].node_count != request->node_count)
        status = inlay_fail(diag, INLAY_UNSUPPORTED,
                            "execution provider %s claims the %u nodes within the model, but not alone", state->name,
                            request->node_count);
    else if (support.groups[0].is_fused)
        status = compile_fused(region, request, view, &support.groups[0], diag);
    else
        status = create_kernel(region, request, view, &support, diag);
    if (status == INLAY_OK)
        failed = prepare_constants(region, request);
    if (status == INLAY_OK && failed != NULL)
        status = ep_fail(state, "preparing constants", failed, INLAY_UNSUPPORTED, diag);
    ep_support_deinit(&support);
    ort_ReleaseGraph(view);
    return status;
}

/* False: no memory. */
static bool name_nodes(ep_region *region, const inlay_compile_request *request)
{
    region->nodes = calloc((size_t)request->node_count + 1, sizeof *region->nodes);
    for (uint32_t i = 0; region->nodes != NULL && i < request->node_count; i++) {
        region->nodes[i].index = request->nodes[i];
        region->nodes[i].name = strdup(inlay_graph_node(request->graph, request->nodes[i])->name.data);
        if (region->nodes[i].name == NULL)
            return false;
        region->node_count++;
    }
    return region->nodes != NULL;
}

inlay_status ep_compile(void *state_, const inlay_compile_request *request, inlay_compiled **out_compiled,
                        inlay_diag *diag)
{
    ep_state *state = state_;
    ep_region *region = calloc(1, sizeof *region);
    const ep_state *before;
    inlay_status status = INLAY_OK;

    if (region == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region");
    region->state = state;
    region->ports.kind = "execution provider";
    region->outputs = calloc((size_t)request->output_count + 1, sizeof *region->outputs);
    (void)pthread_mutex_init(&region->serial, NULL);
    if (region->outputs == NULL || !name_nodes(region, request) ||
        !ep_signature_init(&region->signature, request->graph, request->nodes, request->node_count)) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region");
        goto done;
    }
    region->output_count = request->output_count;
    if (request->output_count > 0)
        memcpy(region->outputs, request->outputs, request->output_count * sizeof *region->outputs);
    (void)pthread_mutex_lock(&state->lock);
    before = ep_enter(state);
    status = build(region, request, diag);
    (void)ep_enter(before);
    (void)pthread_mutex_unlock(&state->lock);
done:
    if (status == INLAY_OK)
        *out_compiled = (inlay_compiled *)(void *)region;
    else
        ep_release_compiled(state, (inlay_compiled *)(void *)region);
    return status;
}

/* ------------------------------------------------------------------ ep_instance */

inlay_status ep_specialize(void *state_, inlay_compiled *compiled, inlay_specialize_request *request,
                           inlay_instance **out_instance, inlay_diag *diag)
{
    const ep_region *region = (const ep_region *)(const void *)compiled;
    const ep_state *state = state_;
    ep_instance *instance = calloc(1, sizeof *instance);

    if (instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region");
    for (uint32_t i = 0; i < region->output_count; i++) {
        const inlay_value_state *value =
            INLAY_AT(inlay_value_state, request->values, request->value_stride, region->outputs[i]);
        bool known = value->rank != INLAY_RANK_UNKNOWN;

        for (uint32_t d = 0; known && d < value->rank; d++)
            known = value->dims[d] >= 0;
        if (!known)
            INLAY_AT_OUT(inlay_output_plan, request->outputs, request->output_stride, i)->kind = INLAY_OUTPUT_ALLOCATED;
    }
    if (!ep_tensors_reserve(region->ports.info->input_count + region->ports.info->output_count)) {
        free(instance);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region");
    }
    instance->price = ep_price_place(state->prices, &region->signature, request->values, request->value_stride);
    *out_instance = (inlay_instance *)(void *)instance;
    return INLAY_OK;
}

void ep_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled;
    free(instance);
}

/* ------------------------------------------------------------------ running */

static OrtStatus *call(const ep_region *region, OrtKernelContext *context)
{
    return region->fused != NULL ? region->fused->Compute(region->fused, region->fused_state, context)
                                 : ep_single_run(&region->single, context);
}

/* Replaces the inputs by copies in the device's memory. */
static OrtStatus *place_inputs(const ep_region *region, OrtKernelContext *context)
{
    for (size_t i = 0; i < context->info->input_count; i++) {
        OrtValue *placed = region->constants[i];

        if (context->inputs[i] == NULL || ep_single_is_on_host(&region->single, i, false))
            continue;
        if (placed != NULL)
            placed = ort_value_ref(placed);
        else
            ORT_TRY(place(region, context->inputs[i], &placed));
        ort_ReleaseValue(context->inputs[i]);
        context->inputs[i] = placed;
    }
    return NULL;
}

static OrtStatus *compute_on_device(const ep_region *region, OrtKernelContext *context)
{
    OrtValue **placed = calloc(context->info->output_count + 1, sizeof(OrtValue *));
    OrtStatus *failed = placed == NULL ? ort_no_memory() : place_inputs(region, context), *waited;

    context->allocator = region->allocator;
    context->placed = placed;
    context->stream = region->stream;
    context->stream_handle = ort_SyncStream_GetHandle(region->stream);
    if (failed == NULL)
        failed = call(region, context);
    if (failed == NULL && EP_SINCE(region->ep, 25) && region->ep->Sync != NULL)
        failed = region->ep->Sync(region->ep);
    for (size_t i = 0; placed != NULL && i < context->info->output_count; i++)
        if (placed[i] != NULL && failed == NULL)
            failed = copy(region, placed[i], context->outputs[i]);
    waited = ep_stream_wait(region->stream); /* also after a failure: what was submitted uses the tensors below */
    if (failed == NULL)
        failed = waited;
    else
        ort_ReleaseStatus(waited);
    for (size_t i = 0; placed != NULL && i < context->info->output_count; i++)
        ort_ReleaseValue(placed[i]);
    context->placed = NULL;
    free(placed);
    return failed;
}

static OrtStatus *compute(const void *user, OrtKernelContext *context)
{
    static const OrtRunOptions options = { .severity = ORT_LOGGING_LEVEL_WARNING };
    const ep_region *region = user;
    OrtEp *ep = region->ep;
    OrtStatus *failed = NULL, *ended = NULL;

    if (!region->is_concurrent)
        (void)pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&region->serial);
    if (ep->OnRunStart != NULL)
        failed = ep->OnRunStart(ep, &options);
    if (failed == NULL)
        failed = region->allocator != NULL ? compute_on_device(region, context) : call(region, context);
    if (ep->OnRunEnd != NULL)
        ended = ep->OnRunEnd(ep, &options, true);
    if (!region->is_concurrent)
        (void)pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&region->serial);
    if (failed != NULL)
        ort_ReleaseStatus(ended);
    return failed != NULL ? failed : ended;
}

static double now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

inlay_status ep_execute(void *state_, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args)
{
    const ep_region *region = (const ep_region *)(const void *)compiled;
    const ep_instance *at = (const ep_instance *)(const void *)instance;
    const ep_state *state = state_;
    ep_profiling profiling = { .nodes = region->nodes, .node_count = region->node_count };
    double start = now_ns();
    inlay_status status;

    ep_profile_begin(&profiling, state->host, region->ep, args->run);
    status = ort_ports_run(&region->ports, state->host, args, compute, region);
    ep_profile_end(&profiling, region->ports.info);
    if (status == INLAY_OK && profiling.profiler == NULL)
        ep_price_learn(state->prices, at->price, now_ns() - start);
    return status;
}
