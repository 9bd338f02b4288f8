/* Compiling regions. */
#include "ort_ep/region.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What messages call a node of a library. */
#define EP_KIND "execution provider"

struct OrtNodeComputeContext {
    const char *name;
};

const char *ort_NodeComputeContext_NodeName(const OrtNodeComputeContext *context)
{
    return context->name;
}

/* The library compiles the nodes of a view to one, the fused node. info: its inputs and outputs in the graph of inlay.
 * *out_context is an EPContext node, if the library made one. */
static inlay_status compile_view(ep_region *region, const inlay_compile_request *request, const OrtGraph *view,
                                 const OrtNode *fused, const inlay_node_info *info, OrtNode **out_context,
                                 inlay_diag *diag)
{
    const OrtNodeComputeContext *names = &(const OrtNodeComputeContext){ region->name };
    const ep_state *state = region->state;
    OrtStatus *failed;

    *out_context = NULL;
    if (region->ep->Compile == NULL || region->ep->ReleaseNodeComputeInfos == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "execution provider %s fuses nodes, but has no Compile",
                          state->name);
    failed = region->ep->Compile(region->ep, &view, &fused, 1, &region->fused, out_context);
    if (failed == NULL && region->fused == NULL)
        failed = ort_fail(ORT_EP_FAIL, "it returned nothing");
    if (failed == NULL)
        failed =
            region->fused->CreateState(region->fused, (OrtNodeComputeContext *)(uintptr_t)names, &region->fused_state);
    return failed != NULL ? ep_fail(state, "Compile", failed, INLAY_UNSUPPORTED, diag)
                          : ort_ports_init(&region->ports, state->host, request, info, &state->options.entries, diag);
}

/* Constants that the library has copied are no longer needed. */
static void drop_constants(const inlay_compile_request *request, const OrtGraph *view)
{
    for (size_t i = 0; i < view->constant_count; i++)
        request->constants[view->constants[i]->value] = INLAY_CONST_COPIED;
}

/* Compiles a group, and stores what the library makes of it in the engine cache. */
static inlay_status compile_fused(ep_region *region, const inlay_compile_request *request, const OrtGraph *view,
                                  const ep_group *group, inlay_diag *diag)
{
    ep_state *state = region->state;
    OrtNode *context = NULL;
    inlay_node_info info;
    OrtNode fused;
    inlay_status status;
    OrtStatus *failed;

    (void)snprintf(region->name, sizeof region->name, "%.60s_%llu", state->name,
                   (unsigned long long)state->fused_count++);
    failed = ep_fused_init(view, region->name, state->name, group->drops_constants, &info, &fused);
    if (failed != NULL)
        return ep_fail(state, "fusing nodes", failed, INLAY_OUT_OF_MEMORY, diag);
    status = compile_view(region, request, view, &fused, &info, &context, diag);
    if (status == INLAY_OK && group->drops_constants)
        drop_constants(request, view);
    if (status == INLAY_OK && context != NULL && request->store_begin != NULL)
        ep_context_store(state, region->ep, request, view, &fused, group->drops_constants, context);
    ort_ReleaseNode(context);
    free((uint32_t *)(uintptr_t)info.inputs);
    ep_node_deinit(&fused);
    return status;
}

/* Whether the OrtEp claims the EPContext node, which is the only node of the view. */
static OrtStatus *ask_for_context(const ep_region *region, const OrtGraph *view)
{
    OrtEpGraphSupportInfo support = { 0 };
    OrtStatus *failed = ep_support_ask(region->ep, view, &support);

    if (failed == NULL && (support.group_count != 1 || !support.groups[0].is_fused))
        failed = ort_fail(ORT_EP_FAIL, "it does not claim its EPContext node");
    ep_support_deinit(&support);
    return failed;
}

/* Compiles a group from the blob of the engine cache. */
static inlay_status restore_fused(ep_region *region, const inlay_compile_request *request, const ep_context *context,
                                  const OrtGraph *view, inlay_diag *diag)
{
    const ep_state *state = region->state;
    OrtNode fused = { 0 }, context_fused = { 0 }, *again = NULL;
    inlay_node_info info = { 0 }, context_info = { 0 };
    ep_context_graph graph = { .view = NULL };
    inlay_status status;
    OrtStatus *failed;

    (void)snprintf(region->name, sizeof region->name, "%s", context->fused_name);
    failed = ep_fused_init(view, region->name, state->name, context->drops_constants, &info, &fused);
    if (failed == NULL)
        failed = ep_context_graph_init(&graph, context, view, &fused);
    if (failed == NULL)
        failed = ask_for_context(region, graph.view);
    if (failed == NULL)
        failed = ep_fused_init(graph.view, region->name, state->name, false, &context_info, &context_fused);
    status = failed != NULL ? ep_fail(state, "its EPContext node", failed, INLAY_UNSUPPORTED, diag)
                            : compile_view(region, request, graph.view, &context_fused, &info, &again, diag);
    if (status == INLAY_OK && context->drops_constants)
        drop_constants(request, view);
    ort_ReleaseNode(again);
    free((uint32_t *)(uintptr_t)context_info.inputs);
    ep_node_deinit(&context_fused);
    ep_context_graph_deinit(&graph);
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
    const ep_memory *memory = &region->state->memory;

    if (memory->info == NULL)
        return NULL;
    region->owns_allocator = region->ep->CreateAllocator != NULL;
    if (region->owns_allocator)
        ORT_TRY(region->ep->CreateAllocator(region->ep, memory->info, &region->allocator));
    else
        region->allocator = memory->allocator;
    if (region->allocator == NULL)
        return NULL; /* the library computes in host memory after all */
    if (!memory->has_copies)
        return ort_fail(ORT_EP_FAIL, "nothing copies between the host and memory '%s'", memory->info->name);
    ORT_TRY(ep_stream_create(region->ep, region->state->library.device, &region->stream));
    region->is_concurrent = region->is_concurrent && region->stream == NULL;
    return NULL;
}

OrtStatus *ep_region_copy(const ep_region *region, const OrtValue *from, OrtValue *to)
{
    OrtDataTransferImpl *transfer = region->state->memory.transfer;
    OrtSyncStream *stream = region->stream;

    if (inlay_value_bytes(from->value) == 0)
        return NULL;
    return transfer->CopyTensors(transfer, &from, &to, stream != NULL ? &stream : NULL, 1);
}

OrtStatus *ep_region_place(const ep_region *region, const OrtValue *value, OrtValue **out)
{
    const inlay_value *host = value->value;
    OrtStatus *failed = ort_CreateTensorAsOrtValue(region->allocator, inlay_value_dims(host), inlay_value_rank(host),
                                                   ort_type_of(inlay_value_dtype(host)), out);

    if (failed == NULL)
        failed = ep_region_copy(region, value, *out);
    if (failed != NULL) {
        ort_ReleaseValue(*out);
        *out = NULL;
    }
    return failed;
}

/* Copies a constant to the device, if the EP computes there, and lets the kernel pack it. A packed constant is not an
 * input any more. */
static OrtStatus *prepare_constant(ep_region *region, const inlay_compile_request *request, size_t input)
{
    OrtKernelInfo *info = region->ports.info;
    OrtValue *tensor = info->constants[input];
    OrtAllocator *allocator = region->allocator;
    const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[0]);
    bool packed;

    if (region->allocator != NULL && !ep_is_on_host(region->single.def, region->single.op, input, false)) {
        ORT_TRY(ep_region_place(region, tensor, &region->constants[input]));
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

static OrtStatus *prepare_ports(ep_region *region, const inlay_compile_request *request)
{
    const OrtKernelInfo *info = region->ports.info;

    region->constants = calloc(info->input_count + 1, sizeof *region->constants);
    region->host_outputs = calloc(info->output_count + 1, sizeof *region->host_outputs);
    if (region->constants == NULL || region->host_outputs == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < info->output_count; i++)
        region->host_outputs[i] = ep_is_on_host(region->single.def, region->single.op, i, true);
    for (size_t i = 0; i < info->input_count; i++)
        if (info->constants[i] != NULL)
            ORT_TRY(prepare_constant(region, request, i));
    return NULL;
}

/* Releases what the library has made for the region. */
static void release_parts(ep_region *region)
{
    OrtEpFactory *factory = region->state->library.device->factory;

    if (region->fused != NULL) {
        if (region->fused_state != NULL)
            region->fused->ReleaseState(region->fused, region->fused_state);
        region->ep->ReleaseNodeComputeInfos(region->ep, &region->fused, 1);
    }
    region->fused = NULL;
    region->fused_state = NULL;
    ep_single_release(&region->single);
    for (size_t i = 0; region->constants != NULL && i < region->ports.info->input_count; i++)
        ort_ReleaseValue(region->constants[i]);
    free(region->constants);
    region->constants = NULL;
    free(region->host_outputs);
    region->host_outputs = NULL;
    ep_stream_release(region->stream);
    region->stream = NULL;
    if (region->allocator != NULL && region->owns_allocator)
        factory->ReleaseAllocator(factory, region->allocator);
    region->allocator = NULL;
    ep_release(region->state, region->ep);
    region->ep = NULL;
    ort_ports_deinit(&region->ports);
    region->ports.kind = EP_KIND;
}

/* Creates the OrtEp of the region, and what it computes in. */
static OrtStatus *open_ep(ep_region *region, bool makes_context)
{
    bool concurrent = true;

    ORT_TRY(ep_create(region->state, makes_context, &region->ep));
    if (EP_SINCE(region->ep, 24) && region->ep->IsConcurrentRunSupported != NULL)
        ORT_TRY(region->ep->IsConcurrentRunSupported(region->ep, &concurrent));
    region->is_concurrent = concurrent;
    return open_memory(region);
}

/* Builds the region from the engine cache. False: from its nodes instead; the log has the reason. */
static bool restore(ep_region *region, const inlay_compile_request *request, const OrtGraph *view)
{
    const ep_state *state = region->state;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    ep_context context;
    OrtStatus *failed;
    char line[700];

    if (request->cache_blob == NULL || !ep_context_read(&context, request->cache_blob, request->cache_bytes))
        return false;
    failed = open_ep(region, false);
    if (failed != NULL)
        status = ep_fail(state, "preparing nodes", failed, INLAY_UNSUPPORTED, &diag);
    if (status == INLAY_OK)
        status = restore_fused(region, request, &context, view, &diag);
    if (status == INLAY_OK && (failed = prepare_ports(region, request)) != NULL)
        status = ep_fail(state, "preparing constants", failed, INLAY_UNSUPPORTED, &diag);
    if (status == INLAY_OK)
        return true;
    (void)snprintf(line, sizeof line, "%.600s; the nodes are compiled again", diag.text);
    state->host->log(state->host->ctx, INLAY_LOG_WARNING, line);
    release_parts(region);
    return false;
}

/* Asks a new OrtEp about the nodes of the region alone, and lets it compile the nodes that it claims. The caller holds
 * the lock. */
static inlay_status build(ep_region *region, const inlay_compile_request *request, inlay_diag *diag)
{
    ep_state *state = region->state;
    OrtEpGraphSupportInfo support = { 0 };
    inlay_status status = INLAY_OK;
    OrtGraph *view = NULL;
    OrtStatus *failed =
        ep_graph_create(request->graph, request->nodes, request->node_count, state->host, request->handle, &view);

    if (failed == NULL && restore(region, request, view)) {
        ort_ReleaseGraph(view);
        return INLAY_OK;
    }
    if (failed == NULL)
        failed = open_ep(region, state->makes_contexts && request->store_begin != NULL);
    if (failed == NULL)
        failed = ep_support_ask(region->ep, view, &support);
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
        failed = prepare_ports(region, request);
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
    region->ports.kind = EP_KIND;
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

void ep_release_compiled(void *state_, inlay_compiled *compiled)
{
    ep_region *region = (ep_region *)(void *)compiled;
    ep_state *state = state_;

    if (region == NULL)
        return;
    (void)pthread_mutex_lock(&state->lock);
    release_parts(region);
    (void)pthread_mutex_unlock(&state->lock);
    ep_signature_deinit(&region->signature);
    (void)pthread_mutex_destroy(&region->serial);
    for (size_t i = 0; i < region->node_count; i++)
        free(region->nodes[i].name);
    free(region->nodes);
    free(region->outputs);
    free(region);
}
