/* Specializes a compiled region to concrete shapes: dispatches, pipelines, and parameters on the device. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include <stdlib.h>

enum { MAX_FIXED_WORDS = 256 }; /* longer parameters are tables, which are always read from memory */

static bool read_tensor(const inlay_specialize_request *request, const vulkan_value *value, vulkan_tensor *tensor)
{
    const inlay_value_state *state =
        INLAY_AT(inlay_value_state, request->values, request->value_stride, value->snapshot);

    *tensor =
        (vulkan_tensor){ .rank = state->rank, .dtype = value->dtype, .count = 1, .known = state->rank <= VULKAN_RANK };
    for (uint32_t d = 0; tensor->known && d < tensor->rank; d++) {
        tensor->dims[d] = state->dims[d];
        tensor->known = state->dims[d] >= 0 && !__builtin_mul_overflow(tensor->count, state->dims[d], &tensor->count);
    }
    tensor->data = value->data != NULL ? value->data : state->data;
    tensor->data_bytes = value->data != NULL ? value->data_bytes : state->data_bytes;
    return tensor->known && tensor->count <= INT32_MAX;
}

static inlay_status read_tensors(vulkan_build *build, const inlay_specialize_request *request)
{
    for (uint32_t index = 0; index < build->compiled->op_count; index++) {
        const vulkan_op *op = &build->compiled->ops[index];

        for (uint32_t i = 0; i < op->info.input_count + op->info.output_count; i++) {
            const uint32_t value =
                i < op->info.input_count ? op->info.inputs[i] : op->info.outputs[i - op->info.input_count];

            if (value == INLAY_NONE || build->tensors[value].known)
                continue;
            if (!read_tensor(request, &build->compiled->values[value], &build->tensors[value]))
                return vulkan_decline(build, op, "a tensor's size is unknown, or above 2^31 - 1 elements");
        }
    }
    return INLAY_OK;
}

/* Places constants and inputs of the region. */
static void place_inputs(vulkan_build *build)
{
    for (uint32_t value_index = 0; value_index < build->compiled->value_count; value_index++) {
        const vulkan_value *value = &build->compiled->values[value_index];
        const vulkan_constant *constant =
            value->constant ? vulkan_find_constant(build->compiled, value_index, NULL) : NULL;

        build->tensors[value_index].place.buffer = INLAY_NONE;
        if (constant != NULL)
            build->tensors[value_index].place = vulkan_constant_place(build, constant);
        else if (value->input != INLAY_NONE)
            build->tensors[value_index].place =
                vulkan_buffer_place(build, (vulkan_buffer){ .kind = VULKAN_INPUT,
                                                            .index = value->input,
                                                            .bytes = vulkan_source_of(build, value_index).bytes });
    }
}

static inlay_status lower_all(vulkan_build *build)
{
    for (uint32_t index = 0; index < build->compiled->op_count && build->status == INLAY_OK; index++) {
        const vulkan_op *op = &build->compiled->ops[index];
        const vulkan_tensor *output = vulkan_output(build, op, 0);
        const uint32_t first = build->instance->dispatch_count;

        if (build->done[index])
            continue;
        build->done[index] = true;
        if (output == NULL || output->count > 0 || op->row->family->may_be_part_empty)
            (void)op->row->family->lower(build, op);
        else /* an empty result needs a place, but no dispatch */
            for (uint32_t i = 0; i < op->info.output_count; i++)
                if (op->info.outputs[i] != INLAY_NONE)
                    vulkan_allocate_value(build, op->info.outputs[i]);
        for (uint32_t i = first; i < build->instance->dispatch_count; i++)
            build->instance->dispatches[i].op = index;
        if (build->status != INLAY_OK)
            (void)snprintf(build->diag->node, sizeof build->diag->node, "%s", op->info.name.data);
    }
    return build->status;
}

inlay_status vulkan_prepare(vulkan_build *build)
{
    inlay_instance *in = build->instance;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < in->dispatch_count && status == INLAY_OK; i++) {
        vulkan_dispatch *dispatch = &in->dispatches[i];
        gpu_pipeline_key key = { .shader = dispatch->shader };

        INLAY_CHECK(dispatch->words + dispatch->word_count <= in->word_count);
        memcpy(key.constants, dispatch->constants, sizeof key.constants);
        if (build->fixed_sizes && dispatch->word_count <= MAX_FIXED_WORDS) {
            key.words = in->words + dispatch->words;
            key.word_count = dispatch->word_count;
        }
        status = gpu_pipeline_get(build->device, &key, &dispatch->pipeline, build->diag);
    }
    if (status == INLAY_OK && in->word_count > 0) {
        status = gpu_buffer_create(build->device, in->word_count * sizeof *in->words, &in->parameters, build->diag);
        if (status == INLAY_OK)
            status = gpu_write(build->device, &in->parameters, 0, in->words, in->word_count * sizeof *in->words,
                               build->diag);
    }
    INLAY_CHECK(in->words != NULL || in->word_count == 0);
    free(in->words);
    in->words = NULL;
    return status;
}

/* One line for the region, and one for each dispatch: its shader and its first node. */
static void log_instance(const inlay_compiled *compiled, const inlay_instance *in)
{
    static const char *const shaders[] = {
#define X(name, source, defines) #name,
#include "vulkan/shaders.def"
#undef X
    };
    const inlay_host *host = compiled->state->host;
    char text[256];

    if (compiled->state->gpu == NULL) /* the self-test is not logged */
        return;
    (void)snprintf(text, sizeof text, "vulkan: region of %u nodes: %u dispatches in %u submissions, workspace %llu KiB",
                   compiled->op_count, in->dispatch_count, in->segment_count,
                   (unsigned long long)(in->workspace_bytes / 1024));
    host->log(host->ctx, INLAY_LOG_DEBUG, text);
    for (uint32_t i = 0; i < in->dispatch_count; i++) {
        const inlay_node_info *node = &compiled->ops[in->dispatches[i].op].info;

        (void)snprintf(text, sizeof text, "vulkan: dispatch %u: %s for %s '%s'%s", i, shaders[in->dispatches[i].shader],
                       node->op_type.data, node->name.data, in->dispatches[i].barrier ? ", after a barrier" : "");
        host->log(host->ctx, INLAY_LOG_DEBUG, text);
    }
}

inlay_status vulkan_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out, inlay_diag *diag)
{
    vulkan_build build = {
        .compiled = compiled, .device = compiled->gpu, .diag = diag, .tile_times = vulkan_tile_times_of
    };
    inlay_instance *in = calloc(1, sizeof *in);
    inlay_status status = INLAY_OK;

    if (in != NULL)
        (void)pthread_mutex_init(&in->lock, NULL);
    build.instance = in;
    build.fixed_sizes = compiled->gpu->facts.is_cpu &&
                        __atomic_add_fetch(&compiled->specialized, 1, __ATOMIC_RELAXED) <= VULKAN_MAX_FIXED_INSTANCES;
    build.tensors =
        calloc(compiled->value_count + VULKAN_MAX_TEMPORARIES * compiled->op_count + 1, sizeof *build.tensors);
    build.done = calloc(2 * (size_t)compiled->op_count + 1, sizeof *build.done);
    build.done_backup = build.done != NULL ? build.done + compiled->op_count : NULL;
    if (in == NULL || build.tensors == NULL || build.done == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", compiled->op_count);
        goto done;
    }
    INLAY_TRY(read_tensors(&build, request));
    place_inputs(&build);
    INLAY_TRY(lower_all(&build));
    INLAY_TRY(vulkan_plan(&build));
    INLAY_TRY(vulkan_prepare(&build));
    INLAY_TRY(vulkan_bind(state, compiled, in, NULL, &in->own, diag));
    log_instance(compiled, in);
    request->workspace_bytes = in->workspace_bytes;
    request->workspace_alignment = GPU_ALIGNMENT;
    *out = in;
    in = NULL;
done:
    free(build.tensors);
    free(build.done);
    vulkan_release_instance(state, compiled, in);
    return status;
}

void vulkan_release_instance(void *state, inlay_compiled *compiled, inlay_instance *in)
{
    if (in == NULL)
        return;
    vulkan_release_binding(state, compiled, in, in->own);
    gpu_buffer_destroy(compiled->gpu, &in->parameters);
    (void)pthread_mutex_destroy(&in->lock);
    free(in->dispatches);
    free(in->buffers);
    free(in->words);
    free(in->segment_ends);
    free(in);
}
