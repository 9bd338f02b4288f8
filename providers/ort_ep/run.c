/* Regions at concrete shapes, and their runs. */
#include "ort_ep/region.h"
#include <stdlib.h>
#include <time.h>

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

static OrtStatus *call(const ep_region *region, OrtKernelContext *context)
{
    return region->fused != NULL ? region->fused->Compute(region->fused, region->fused_state, context)
                                 : ep_single_run(&region->single, context);
}

/* Replaces the inputs that are in host memory by copies in the device's memory. */
static OrtStatus *place_inputs(const ep_region *region, OrtKernelContext *context)
{
    for (size_t i = 0; i < context->info->input_count; i++) {
        OrtValue *placed = region->constants[i];

        if (context->inputs[i] == NULL || context->inputs[i]->memory != &ort_cpu_memory ||
            ep_is_on_host(region->single.def, region->single.op, i, false))
            continue;
        if (placed != NULL)
            placed = ort_value_ref(placed);
        else
            ORT_TRY(ep_region_place(region, context->inputs[i], &placed));
        ort_ReleaseValue(context->inputs[i]);
        context->inputs[i] = placed;
    }
    return NULL;
}

/* Computes outputs that inlay has in host memory in the device's memory, and copies them. */
static OrtStatus *compute_on_device(const ep_region *region, OrtKernelContext *context)
{
    OrtValue *few[16] = { NULL }; /* most runs need no heap */
    const size_t count = context->info->output_count;
    OrtValue **placed = count > sizeof few / sizeof few[0] ? calloc(count, sizeof(OrtValue *)) : few;
    OrtStatus *failed = placed == NULL ? ort_no_memory() : place_inputs(region, context), *waited;

    context->allocator = region->allocator;
    context->host_outputs = region->host_outputs;
    context->placed = placed;
    context->stream = region->stream;
    context->stream_handle = ort_SyncStream_GetHandle(region->stream);
    if (failed == NULL)
        failed = call(region, context);
    if (failed == NULL && EP_SINCE(region->ep, 25) && region->ep->Sync != NULL)
        failed = region->ep->Sync(region->ep);
    for (size_t i = 0; placed != NULL && i < count; i++)
        if (placed[i] != NULL && failed == NULL)
            failed = ep_region_copy(region, placed[i], context->outputs[i]);
    waited = ep_stream_wait(region->stream); /* also after a failure: what was submitted uses the tensors below */
    if (failed == NULL)
        failed = waited;
    else
        ort_ReleaseStatus(waited);
    for (size_t i = 0; placed != NULL && i < count; i++)
        ort_ReleaseValue(placed[i]);
    context->placed = NULL;
    if (placed != few)
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
    status = ort_ports_run(&region->ports, state->host, args, state->memory.info, compute, region);
    ep_profile_end(&profiling, region->ports.info);
    if (status == INLAY_OK && profiling.profiler == NULL)
        ep_price_learn(state->prices, at->price, now_ns() - start);
    return status;
}
