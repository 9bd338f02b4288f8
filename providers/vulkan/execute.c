/* A run: commands for its addresses, recorded once and replayed, submitted segment by segment. */
#include "region.h"
#include <stdlib.h>

static VkDeviceAddress address_of(const inlay_buffer *buffer)
{
    const gpu_buffer *b = (const gpu_buffer *)(uintptr_t)buffer->handle;

    return b != NULL ? b->address + buffer->offset : 0;
}

/* Where a run's inputs, outputs and workspace lie. */
static void addresses_of(const inlay_compiled *c, const inlay_exec_args *args, VkDeviceAddress *out)
{
    for (uint32_t i = 0; i < c->input_count; i++)
        *out++ = address_of(&INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i)->buffer);
    for (uint32_t i = 0; i < c->output_count; i++)
        *out++ = address_of(&INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, i)->buffer);
    *out = address_of(&args->workspace);
}

/* A recording that no run uses: the one for these addresses, or the one that was not used longest. */
static vr_recording *take_recording(inlay_compiled *c, inlay_instance *in, const inlay_exec_args *args)
{
    const size_t bytes = (c->input_count + c->output_count + 1) * sizeof *in->wanted;
    vr_recording *best = NULL;

    (void)pthread_mutex_lock(&in->lock);
    while (best == NULL) {
        addresses_of(c, args, in->wanted); /* of the run that has the lock */
        for (uint32_t i = 0; i < VR_RECORDINGS; i++) {
            vr_recording *r = &in->recordings[i];

            if (r->busy)
                continue;
            if (r->recorded && memcmp(r->addresses, in->wanted, bytes) == 0) {
                best = r;
                break;
            }
            if (best == NULL || r->used < best->used)
                best = r;
        }
        if (best == NULL)
            (void)pthread_cond_wait(&in->freed, &in->lock);
    }
    best->busy = true;
    best->used = ++in->runs;
    best->recorded &= memcmp(best->addresses, in->wanted, bytes) == 0;
    memcpy(best->addresses, in->wanted, bytes);
    (void)pthread_mutex_unlock(&in->lock);
    return best;
}

static void give_recording(inlay_instance *in, vr_recording *r)
{
    (void)pthread_mutex_lock(&in->lock);
    r->busy = false;
    (void)pthread_cond_signal(&in->freed);
    (void)pthread_mutex_unlock(&in->lock);
}

/* ------------------------------------------------------------------ recording */

static VkDeviceAddress operand_address(const inlay_compiled *c, const inlay_instance *in, const vr_recording *r,
                                       const vr_operand *o)
{
    const vr_buffer *b = &in->buffers[o->buffer];

    switch (b->kind) {
    case VR_INPUT:
        return r->addresses[b->index] + o->offset;
    case VR_OUTPUT:
        return r->addresses[c->input_count + b->index] + o->offset;
    case VR_CONSTANT:
        return c->memory.address + b->offset + o->offset;
    default:
        return r->addresses[c->input_count + c->output_count] + b->offset + o->offset;
    }
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
 * Two recordings of its own, which no other context waits for: two, for those who give their inputs and outputs two
 * addresses in turns. */

struct inlay_binding {
    vr_recording recordings[2];
    VkDeviceAddress *wanted; /* as recordings' addresses: those of the run at hand */
    uint32_t latest;
};

static uint32_t address_count(const inlay_compiled *c)
{
    return c->input_count + c->output_count + 1;
}

inlay_status vr_bind(void *state, inlay_compiled *c, inlay_instance *in, const inlay_bind_args *args,
                     inlay_binding **out, inlay_diag *diag)
{
    inlay_binding *b = calloc(1, sizeof *b);
    bool whole = b != NULL && (b->wanted = calloc(address_count(c), sizeof *b->wanted)) != NULL;

    (void)args;
    for (uint32_t i = 0; whole && i < 2; i++) {
        vr_recording *r = &b->recordings[i];

        r->addresses = calloc(address_count(c), sizeof *r->addresses);
        r->segments = calloc(in->segment_count + 1, sizeof *r->segments);
        whole = r->addresses != NULL && r->segments != NULL;
    }
    if (!whole && b != NULL)
        vr_release_binding(state, c, in, b);
    *out = whole ? b : NULL;
    return whole ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for recordings");
}

void vr_release_binding(void *state, inlay_compiled *c, inlay_instance *in, inlay_binding *b)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        vr_recording *r = &b->recordings[i];

        if (r->segments != NULL && r->segments[0] != VK_NULL_HANDLE)
            gpu_commands_drop(c->gpu, in->segment_count, r->segments);
        free(r->segments);
        free(r->addresses);
    }
    free(b->wanted);
    free(b);
}

static vr_recording *bound_recording(const inlay_compiled *c, inlay_binding *b, const inlay_exec_args *args)
{
    const size_t bytes = address_count(c) * sizeof *b->wanted;
    vr_recording *r;

    addresses_of(c, args, b->wanted);
    for (uint32_t i = 0; i < 2; i++) {
        r = &b->recordings[b->latest ^ i];
        if (r->recorded && memcmp(r->addresses, b->wanted, bytes) == 0) {
            b->latest ^= i;
            return r;
        }
    }
    b->latest ^= b->recordings[b->latest].recorded;
    r = &b->recordings[b->latest];
    r->recorded = false;
    memcpy(r->addresses, b->wanted, bytes);
    return r;
}

/* ------------------------------------------------------------------ running */

typedef struct asker {
    const inlay_host *host;
    inlay_run *run;
} asker;

static inlay_status ask(void *user)
{
    const asker *a = user;

    return a->run != NULL ? a->host->poll(a->host->ctx, a->run) : INLAY_OK;
}

/* A segment is submitted while the one before it is at work, so that the device never waits for the host, and a run
 * that is cancelled ends within two. */
static inlay_status submit_all(inlay_compiled *c, inlay_instance *in, vr_recording *r, const inlay_exec_args *args)
{
    asker a = { .host = c->state->host, .run = args->run };
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
    inlay_binding *bound = NULL;
    vr_recording *r;

    (void)state;
    if (status != INLAY_OK || in->dispatch_count == 0)
        return status;
    if (INLAY_HAS(args, binding) && args->binding != NULL)
        bound = args->binding;
    r = bound != NULL ? bound_recording(c, bound, args) : take_recording(c, in, args);
    if (!r->recorded)
        status = record(c, in, r, args);
    if (status == INLAY_OK)
        status = submit_all(c, in, r, args);
    if (bound == NULL)
        give_recording(in, r);
    return status;
}
