/* A run: commands for its addresses, recorded once and replayed, submitted segment by segment. */
#include "region.h"
#include <stdlib.h>

static VkDeviceAddress address_of(const inlay_buffer *buffer)
{
    const gpu_buffer *b = (const gpu_buffer *)(uintptr_t)buffer->handle;

    return b != NULL ? b->address + buffer->offset : 0;
}

/* Address i of a run: of its inputs, then outputs, then of its workspace. */
static VkDeviceAddress run_address(const inlay_compiled *c, const inlay_exec_args *args, uint32_t i)
{
    const uint32_t n = c->region.input_count, m = args->arg_stride;

    return i < n                            ? address_of(&INLAY_AT(inlay_tensor_arg, args->inputs, m, i)->buffer)
           : i < n + c->region.output_count ? address_of(&INLAY_AT(inlay_tensor_arg, args->outputs, m, i - n)->buffer)
                                            : address_of(&args->workspace);
}

static bool has_addresses(const inlay_compiled *c, const inlay_exec_args *args, const vr_recording *r)
{
    bool same = r->recorded;

    for (uint32_t i = 0; same && i <= c->region.input_count + c->region.output_count; i++)
        same = r->addresses[i] == run_address(c, args, i);
    return same;
}

/* ------------------------------------------------------------------ recording */

static VkDeviceAddress operand_address(const inlay_compiled *c, const inlay_instance *in, const vr_recording *r,
                                       const vr_operand *o)
{
    const vr_buffer *b = &in->buffers[o->buffer];
    const uint32_t inputs = c->region.input_count;
    const VkDeviceAddress base = b->kind == VR_INPUT      ? r->addresses[b->index]
                                 : b->kind == VR_OUTPUT   ? r->addresses[inputs + b->index]
                                 : b->kind == VR_CONSTANT ? c->memory.address + b->offset
                                                          : r->addresses[inputs + c->region.output_count] + b->offset;

    return base + o->offset;
}

static void record_dispatch(const inlay_compiled *c, const inlay_instance *in, const vr_recording *r,
                            const vr_dispatch *d, VkCommandBuffer commands)
{
    const gpu_functions *vk = &c->gpu->vk;
    VkDeviceAddress push[PUSH_COUNT] = { 0 };

    for (uint32_t i = 0; i < d->operand_count; i++)
        push[d->operands[i].push] = operand_address(c, in, r, &d->operands[i]);
    push[PUSH_PARAMS] = in->parameters.address + d->words * sizeof(uint32_t);
    if (d->barrier)
        gpu_barrier(c->gpu, commands);
    vk->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, d->pipeline);
    vk->CmdPushConstants(commands, c->gpu->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, push);
    vk->CmdDispatch(commands, d->groups[0], d->groups[1], d->groups[2]);
}

static inlay_status record(inlay_compiled *c, inlay_instance *in, vr_recording *r, const inlay_exec_args *args)
{
    inlay_status status = INLAY_OK;
    uint32_t at = 0;

    for (uint32_t i = 0; i <= c->region.input_count + c->region.output_count; i++)
        r->addresses[i] = run_address(c, args, i);
    if (r->segments[0] == VK_NULL_HANDLE)
        status = gpu_commands_make(c->gpu, in->segment_count, r->segments, args->diag);
    for (uint32_t s = 0; s < in->segment_count && status == INLAY_OK; s++) {
        status = gpu_record_begin(c->gpu, r->segments[s], args->diag);
        if (status != INLAY_OK)
            break;
        gpu_barrier(c->gpu, r->segments[s]);
        for (; at < in->segment_ends[s]; at++)
            record_dispatch(c, in, r, &in->dispatches[at], r->segments[s]);
        gpu_barrier(c->gpu, r->segments[s]);
        status = gpu_record_end(c->gpu, r->segments[s], args->diag);
    }
    r->recorded = status == INLAY_OK;
    return status;
}

/* ------------------------------------------------------------------ what a context keeps
 *
 * Two recordings, for those who give their inputs and outputs two addresses in turns. */

struct inlay_binding {
    vr_recording recordings[2];
    uint32_t latest;
    VkDeviceAddress memory[]; /* of both: addresses, then command buffers */
};

inlay_status vr_bind(void *state, inlay_compiled *c, inlay_instance *in, const inlay_bind_args *args,
                     inlay_binding **out, inlay_diag *diag)
{
    const size_t addresses = c->region.input_count + c->region.output_count + 1;
    inlay_binding *b = calloc(1, sizeof *b + 2 * addresses * sizeof(VkDeviceAddress) +
                                     2 * in->segment_count * sizeof(VkCommandBuffer));

    (void)state, (void)args;
    *out = b;
    if (b == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for recordings");
    for (uint32_t i = 0; i < 2; i++) {
        b->recordings[i].addresses = b->memory + i * addresses;
        b->recordings[i].segments = (VkCommandBuffer *)(void *)(b->memory + 2 * addresses) + i * in->segment_count;
    }
    return INLAY_OK;
}

void vr_release_binding(void *state, inlay_compiled *c, inlay_instance *in, inlay_binding *b)
{
    (void)state;
    for (uint32_t i = 0; b != NULL && i < 2; i++)
        if (b->recordings[i].segments[0] != VK_NULL_HANDLE)
            gpu_commands_drop(c->gpu, in->segment_count, b->recordings[i].segments);
    free(b);
}

/* The recording for a run's addresses, or the one that was not used last, to be made anew. */
static vr_recording *find_recording(const inlay_compiled *c, inlay_binding *b, const inlay_exec_args *args)
{
    if (!has_addresses(c, args, &b->recordings[b->latest])) {
        b->latest ^= b->recordings[b->latest].recorded;
        b->recordings[b->latest].recorded = has_addresses(c, args, &b->recordings[b->latest]);
    }
    return &b->recordings[b->latest];
}

/* ------------------------------------------------------------------ running */

struct asker {
    const inlay_host *host;
    inlay_run *run;
};

static inlay_status ask(void *user)
{
    const struct asker *a = user;

    return a->run != NULL ? a->host->poll(a->host->ctx, a->run) : INLAY_OK;
}

/* A segment is submitted while the one before it is at work, so that the device never waits for the host, and a run
 * that is cancelled ends within two. */
static inlay_status submit_all(inlay_compiled *c, inlay_instance *in, vr_recording *r, const inlay_exec_args *args)
{
    struct asker a = { .host = c->state->host, .run = args->run };
    uint64_t before = 0, last = 0;
    inlay_status status = INLAY_OK, ended;

    for (uint32_t s = 0; s < in->segment_count && status == INLAY_OK; s++) {
        if (before != 0)
            status = gpu_wait(c->gpu, before, ask, &a, args->diag);
        before = last;
        if (status == INLAY_OK && s > 0)
            status = ask(&a);
        if (status == INLAY_OK)
            status = gpu_submit(c->gpu, r->segments[s], &last, args->diag);
    }
    if (last == 0 || status == INLAY_DEVICE_LOST)
        return status;
    ended = gpu_wait(c->gpu, last, status == INLAY_OK ? ask : NULL, &a, args->diag);
    return status != INLAY_OK ? status : ended;
}

inlay_status vr_execute(void *state, inlay_compiled *c, inlay_instance *in, const inlay_exec_args *args)
{
    inlay_status status = gpu_alive(c->gpu, args->diag);
    inlay_binding *b = INLAY_HAS(args, binding) ? args->binding : NULL;
    const bool bound = b != NULL;
    vr_recording *r;

    (void)state;
    if (status != INLAY_OK || in->dispatch_count == 0)
        return status;
    if (!bound) { /* the instance's own, one run at a time */
        (void)pthread_mutex_lock(&in->lock);
        b = in->own;
    }
    r = find_recording(c, b, args);
    if (!r->recorded)
        status = record(c, in, r, args);
    if (status == INLAY_OK)
        status = submit_all(c, in, r, args);
    if (!bound)
        (void)pthread_mutex_unlock(&in->lock);
    return status;
}
