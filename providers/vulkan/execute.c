/* Runs an instance: commands are recorded once for a set of addresses, then submitted segment by segment. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include <stdlib.h>

static VkDeviceAddress address_of(const inlay_buffer *buffer)
{
    const gpu_buffer *memory = (const gpu_buffer *)(uintptr_t)buffer->handle;

    return memory != NULL ? memory->address + buffer->offset : 0;
}

/* Address i of a run: inputs, then outputs, then the workspace. */
static VkDeviceAddress run_address(const inlay_compiled *compiled, const inlay_exec_args *args, uint32_t i)
{
    const uint32_t inputs = compiled->region.input_count, stride = args->arg_stride;

    INLAY_CHECK(i <= inputs + compiled->region.output_count);
    return i < inputs ? address_of(&INLAY_AT(inlay_tensor_arg, args->inputs, stride, i)->buffer)
           : i < inputs + compiled->region.output_count
               ? address_of(&INLAY_AT(inlay_tensor_arg, args->outputs, stride, i - inputs)->buffer)
               : address_of(&args->workspace);
}

static bool has_addresses(const inlay_compiled *compiled, const inlay_exec_args *args,
                          const vulkan_recording *recording)
{
    bool same = recording->recorded;

    for (uint32_t i = 0; same && i <= compiled->region.input_count + compiled->region.output_count; i++)
        same = recording->addresses[i] == run_address(compiled, args, i);
    return same;
}

static VkDeviceAddress operand_address(const inlay_compiled *compiled, const inlay_instance *in,
                                       const vulkan_recording *recording, const vulkan_operand *operand)
{
    const vulkan_buffer *buffer = &in->buffers[operand->buffer];
    const uint32_t inputs = compiled->region.input_count;
    const VkDeviceAddress base = buffer->kind == VULKAN_INPUT    ? recording->addresses[buffer->index]
                                 : buffer->kind == VULKAN_OUTPUT ? recording->addresses[inputs + buffer->index]
                                 : buffer->kind == VULKAN_CONSTANT
                                     ? compiled->memory.address + buffer->offset
                                     : recording->addresses[inputs + compiled->region.output_count] + buffer->offset;

    INLAY_CHECK(buffer->kind == VULKAN_INPUT    ? buffer->index < inputs
                : buffer->kind == VULKAN_OUTPUT ? buffer->index < compiled->region.output_count
                                                : true);
    return base + operand->offset;
}

void vulkan_record_dispatch(const inlay_compiled *compiled, const inlay_instance *in, const vulkan_recording *recording,
                            const vulkan_dispatch *dispatch, VkCommandBuffer commands)
{
    const gpu_functions *vk = &compiled->gpu->vk;
    VkDeviceAddress push[PUSH_COUNT] = { 0 };

    for (uint32_t i = 0; i < dispatch->operand_count; i++) {
        INLAY_CHECK(dispatch->operands[i].push < PUSH_PARAMS && dispatch->operands[i].buffer < in->buffer_count);
        push[dispatch->operands[i].push] = operand_address(compiled, in, recording, &dispatch->operands[i]);
    }
    push[PUSH_PARAMS] = in->parameters.address + dispatch->words * sizeof(uint32_t);
    if (dispatch->barrier)
        gpu_barrier(compiled->gpu, commands);
    vk->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, dispatch->pipeline);
    vk->CmdPushConstants(commands, compiled->gpu->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, push);
    vk->CmdDispatch(commands, dispatch->groups[0], dispatch->groups[1], dispatch->groups[2]);
}

static inlay_status record(inlay_compiled *compiled, inlay_instance *in, vulkan_recording *recording,
                           const inlay_exec_args *args)
{
    inlay_status status = INLAY_OK;
    uint32_t at = 0;

    for (uint32_t i = 0; i <= compiled->region.input_count + compiled->region.output_count; i++)
        recording->addresses[i] = run_address(compiled, args, i);
    if (recording->segments[0] == VK_NULL_HANDLE)
        status = gpu_commands_create(compiled->gpu, in->segment_count, recording->segments, args->diag);
    for (uint32_t segment = 0; segment < in->segment_count && status == INLAY_OK; segment++) {
        status = gpu_record_begin(compiled->gpu, recording->segments[segment], args->diag);
        if (status != INLAY_OK)
            break;
        gpu_barrier(compiled->gpu, recording->segments[segment]);
        for (; at < in->segment_ends[segment]; at++)
            vulkan_record_dispatch(compiled, in, recording, &in->dispatches[at], recording->segments[segment]);
        gpu_barrier(compiled->gpu, recording->segments[segment]);
        status = gpu_record_end(compiled->gpu, recording->segments[segment], args->diag);
    }
    INLAY_CHECK(status != INLAY_OK || at == in->dispatch_count);
    recording->recorded = status == INLAY_OK;
    return status;
}

/* Bindings of contexts.
 *
 * A binding belongs to an execution context. It has two recordings, for callers that alternate between two sets of
 * buffers. */

struct inlay_binding {
    vulkan_recording recordings[2];
    uint32_t latest;
    VkDeviceAddress memory[]; /* of both recordings: addresses, then command buffers */
};

inlay_status vulkan_bind(void *state, inlay_compiled *compiled, inlay_instance *in, const inlay_bind_args *args,
                         inlay_binding **out, inlay_diag *diag)
{
    const size_t addresses = compiled->region.input_count + compiled->region.output_count + 1;
    inlay_binding *binding = calloc(1, sizeof *binding + 2 * addresses * sizeof(VkDeviceAddress) +
                                           2 * in->segment_count * sizeof(VkCommandBuffer));

    (void)state, (void)args;
    *out = binding;
    if (binding == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for recordings");
    for (uint32_t i = 0; i < 2; i++) {
        binding->recordings[i].addresses = binding->memory + i * addresses;
        binding->recordings[i].segments =
            (VkCommandBuffer *)(void *)(binding->memory + 2 * addresses) + i * in->segment_count;
    }
    return INLAY_OK;
}

void vulkan_release_binding(void *state, inlay_compiled *compiled, inlay_instance *in, inlay_binding *binding)
{
    (void)state;
    for (uint32_t i = 0; binding != NULL && i < 2; i++)
        if (binding->recordings[i].segments[0] != VK_NULL_HANDLE)
            gpu_commands_destroy(compiled->gpu, in->segment_count, binding->recordings[i].segments);
    free(binding);
}

/* Returns the recording for the addresses of a run. If there is none, returns the least recently used entry with
 * `recorded` false, so that the caller records it again. */
static vulkan_recording *find_recording(const inlay_compiled *compiled, inlay_binding *binding,
                                        const inlay_exec_args *args)
{
    INLAY_CHECK(binding->latest < 2);
    if (!has_addresses(compiled, args, &binding->recordings[binding->latest])) {
        binding->latest ^= binding->recordings[binding->latest].recorded;
        binding->recordings[binding->latest].recorded =
            has_addresses(compiled, args, &binding->recordings[binding->latest]);
    }
    return &binding->recordings[binding->latest];
}

struct poll_context {
    const inlay_host *host;
    inlay_run *run;
};

static inlay_status poll_run(void *user)
{
    const struct poll_context *context = user;

    return context->run != NULL ? context->host->poll(context->host->ctx, context->run) : INLAY_OK;
}

/* Submits each segment while the previous one runs. The device never waits for the host, and a cancelled run ends
 * within two segments. */
static inlay_status submit_all(inlay_compiled *compiled, inlay_instance *in, vulkan_recording *recording,
                               const inlay_exec_args *args)
{
    struct poll_context context = { .host = compiled->state->host, .run = args->run };
    uint64_t before = 0, last = 0;
    inlay_status status = INLAY_OK, ended;

    for (uint32_t segment = 0; segment < in->segment_count && status == INLAY_OK; segment++) {
        if (before != 0)
            status = gpu_wait(compiled->gpu, before, poll_run, &context, args->diag);
        before = last;
        if (status == INLAY_OK && segment > 0)
            status = poll_run(&context);
        if (status == INLAY_OK)
            status = gpu_submit(compiled->gpu, recording->segments[segment], &last, args->diag);
    }
    if (last == 0 || status == INLAY_DEVICE_LOST)
        return status;
    INLAY_CHECK(last >= before);
    ended = gpu_wait(compiled->gpu, last, status == INLAY_OK ? poll_run : NULL, &context, args->diag);
    return status != INLAY_OK ? status : ended;
}

inlay_status vulkan_execute(void *state, inlay_compiled *compiled, inlay_instance *in, const inlay_exec_args *args)
{
    inlay_status status = gpu_check_alive(compiled->gpu, args->diag);
    inlay_binding *binding = INLAY_HAS(args, binding) ? args->binding : NULL;
    const bool bound = binding != NULL;
    vulkan_recording *recording;

    (void)state;
    if (status != INLAY_OK || in->dispatch_count == 0)
        return status;
    if (!bound) { /* the binding of the instance serves one run at a time */
        (void)pthread_mutex_lock(&in->lock);
        binding = in->own;
        INLAY_CHECK(binding != NULL);
    }
    recording = find_recording(compiled, binding, args);
    if (!recording->recorded)
        status = record(compiled, in, recording, args);
    if (status == INLAY_OK)
        status = submit_all(compiled, in, recording, args);
    if (!bound)
        (void)pthread_mutex_unlock(&in->lock);
    return status;
}
