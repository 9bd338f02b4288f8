/* remote/execute.c - runs a region in the process. Tensors are copied into the shared memory and back, so that the
 * process sees no other memory of the host. */
#include "base/checked.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "remote/proxy.h"
#include "threads/run.h"
#include <string.h>

enum { GRACE_MS = 2000, GRACE_POLLS = 8 }; /* as for asynchronous devices, see exec/device/in_flight.c */

/* Makes room for a tensor, at least one byte. */
static bool reserve(isolate_proxy *self, isolate_heap *heap, proxy_copy *copy, uint64_t bytes)
{
    if (copy->data != NULL && bytes <= copy->room)
        return true;
    (void)pthread_mutex_lock(&self->process.lock);
    isolate_heap_free(heap, copy->data, copy->room);
    copy->room = bytes > 0 ? (size_t)bytes : 1;
    copy->data = isolate_heap_alloc(heap, copy->room);
    (void)pthread_mutex_unlock(&self->process.lock);
    return copy->data != NULL;
}

/* Bytes of the tensor's elements, at most those of its buffer. */
static size_t bytes_of(const inlay_tensor_arg *tensor)
{
    int64_t count;
    size_t bytes;

    if (!dims_count(tensor->dims, tensor->rank, &count) || !dtype_bytes(tensor->dtype, count, &bytes))
        return 0;
    return bytes < tensor->buffer.bytes ? bytes : (size_t)tensor->buffer.bytes;
}

static bool write_inputs(isolate_proxy *self, proxy_frame *frame, const inlay_exec_args *args)
{
    inlay_tensor_arg *inputs = (inlay_tensor_arg *)(frame->request + 1);
    int64_t *dims = (int64_t *)(inputs + frame->input_count);

    for (uint32_t i = 0; i < frame->input_count; i++, dims += INLAY_MAX_RANK) {
        const inlay_tensor_arg *from = INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i);
        const size_t bytes = bytes_of(from);

        if (!reserve(self, &self->process.arguments, &frame->in[i], bytes))
            return false;
        if (bytes > 0)
            memcpy(frame->in[i].data, inlay_buffer_host(&from->buffer), bytes);
        if (from->rank > 0)
            memcpy(dims, from->dims, from->rank * sizeof *dims);
        inputs[i] = (inlay_tensor_arg){ .buffer = { .handle = (uintptr_t)frame->in[i].data, .bytes = bytes },
                                        .dims = dims,
                                        .rank = from->rank,
                                        .dtype = from->dtype };
    }
    return true;
}

static bool write_outputs(isolate_proxy *self, proxy_frame *frame, const inlay_exec_args *args)
{
    int64_t *dims = (int64_t *)(frame->outputs + frame->output_count);

    for (uint32_t i = 0; i < frame->output_count; i++, dims += INLAY_MAX_RANK) {
        const inlay_tensor_arg *from = INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, i);
        const bool is_allocated = from->buffer.handle == 0;

        frame->allocated[i] = (inlay_buffer){ 0 };
        if (!is_allocated && !reserve(self, &self->process.results, &frame->out[i], from->buffer.bytes))
            return false;
        if (!is_allocated && from->rank > 0 && from->rank <= INLAY_MAX_RANK)
            memcpy(dims, from->dims, from->rank * sizeof *dims);
        frame->outputs[i] = (inlay_tensor_arg){ .buffer = { .handle = is_allocated ? 0 : (uintptr_t)frame->out[i].data,
                                                            .bytes = is_allocated ? 0 : from->buffer.bytes },
                                                .dims = dims,
                                                .rank = from->rank,
                                                .dtype = from->dtype };
    }
    return true;
}

/* Takes the shape that the process has written for a BOUNDED output. */
static bool read_shape(const proxy_frame *frame, uint32_t i, inlay_tensor_arg *to)
{
    const int64_t *dims = (const int64_t *)(frame->outputs + frame->output_count) + (size_t)i * INLAY_MAX_RANK;
    const uint32_t rank = __atomic_load_n(&frame->outputs[i].rank, __ATOMIC_RELAXED);
    int64_t count, copy[INLAY_MAX_RANK];
    size_t bytes;

    if (rank > INLAY_MAX_RANK)
        return false;
    memcpy(copy, dims, sizeof copy);
    if (!dims_count(copy, rank, &count) || !dtype_bytes(to->dtype, count, &bytes) || bytes > to->buffer.bytes)
        return false;
    memcpy(to->dims, copy, rank * sizeof *copy);
    to->rank = rank;
    return true;
}

static inlay_status read_outputs(const proxy_instance *instance, const proxy_frame *frame, const inlay_exec_args *args)
{
    for (uint32_t i = 0; i < frame->output_count; i++) {
        inlay_tensor_arg *to = INLAY_AT_OUT(inlay_tensor_arg, args->outputs, args->arg_stride, i);
        const inlay_buffer *host = to->buffer.handle != 0 ? &to->buffer : &frame->allocated[i];

        if (to->buffer.handle != 0 && instance->kinds[i] == INLAY_OUTPUT_BOUNDED && !read_shape(frame, i, to))
            return inlay_fail(args->diag, INLAY_INTERNAL, "output %u: the shape is invalid or exceeds the buffer", i);
        if (host->handle != 0) {
            const size_t bytes = to->buffer.handle != 0 ? bytes_of(to) : (size_t)host->bytes;

            INLAY_CHECK(bytes <= frame->out[i].room);
            if (bytes > 0)
                memcpy(inlay_buffer_host(host), frame->out[i].data, bytes);
        }
    }
    return INLAY_OK;
}

struct execution {
    isolate_proxy *self;
    proxy_frame *frame;
    const inlay_exec_args *args;
};

static inlay_status poll_run(void *ctx)
{
    return run_poll(((const struct execution *)ctx)->args->run);
}

/* Allocates an output whose shape the process has computed: in the host's memory, and the copy. */
static inlay_status alloc_output(const struct execution *execution, isolate_callback *callback)
{
    isolate_proxy *self = execution->self;
    proxy_frame *frame = execution->frame;
    const inlay_output_request request = {
        .struct_size = sizeof request, .dims = callback->dims, .output = callback->output, .rank = callback->rank
    };
    inlay_buffer buffer = { 0 };
    inlay_status status;

    callback->buffer = (inlay_buffer){ 0 };
    if (request.output >= frame->output_count)
        return INLAY_INVALID_ARGUMENT;
    status = self->host->output_alloc(self->host->ctx, execution->args->run, &request, &buffer);
    if (status != INLAY_OK)
        return status;
    frame->allocated[request.output] = (inlay_buffer){ 0 };
    if (!reserve(self, &self->process.results, &frame->out[request.output], buffer.bytes))
        return INLAY_OUT_OF_MEMORY;
    frame->allocated[request.output] = buffer;
    callback->buffer = (inlay_buffer){ .handle = (uintptr_t)frame->out[request.output].data, .bytes = buffer.bytes };
    return INLAY_OK;
}

static inlay_status answer_run(void *ctx, isolate_channel *channel, isolate_callback *callback)
{
    const struct execution *execution = ctx;

    (void)channel;
    return callback->kind == ISOLATE_OUTPUT_ALLOC ? alloc_output(execution, callback)
                                                  : proxy_log(execution->self, callback);
}

static void write_request(const proxy_instance *instance, proxy_frame *frame, const inlay_exec_args *args)
{
    *frame->request = (isolate_execute){
        .args = { .struct_size = sizeof frame->request->args,
                  .inputs = (inlay_tensor_arg *)(frame->request + 1),
                  .outputs = frame->outputs,
                  .input_count = frame->input_count,
                  .output_count = frame->output_count,
                  .arg_stride = sizeof(inlay_tensor_arg),
                  .deadline_ns = args->deadline_ns,
                  .priority = args->priority,
                  .power = args->power },
        .compiled = instance->compiled->remote,
        .instance = instance->remote,
        .workspace_bytes = instance->workspace_bytes,
        .workspace_alignment = instance->workspace_alignment,
        .max_threads = args->run->max_threads,
    };
}

static inlay_status run(isolate_proxy *self, proxy_instance *instance, proxy_frame *frame, const inlay_exec_args *args)
{
    const uint64_t promised = (uint64_t)self->info->poll_ms * GRACE_POLLS;
    struct execution execution = { self, frame, args };
    isolate_wait wait = { .poll = poll_run,
                          .callback = answer_run,
                          .ctx = &execution,
                          .grace_ms = self->info->poll_ms == 0 ? 0
                                      : promised > GRACE_MS    ? promised
                                                               : GRACE_MS };
    inlay_status status;
    proxy_call call;

    status = proxy_begin(self, &call, args->diag);
    if (status != INLAY_OK)
        return status;
    status = proxy_revive(self, &call, instance, args->diag);
    if (status == INLAY_OK) {
        write_request(instance, frame, args);
        status = proxy_make(self, &call, ISOLATE_EXECUTE, frame->request, &wait, args->diag);
    }
    proxy_end(self, &call);
    return status;
}

inlay_status proxy_execute(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args)
{
    isolate_proxy *self = state;
    proxy_instance *own = (proxy_instance *)instance;
    proxy_frame *frame = proxy_take_frame(self, own, args);
    inlay_status status;

    INLAY_CHECK(own->compiled == (proxy_compiled *)compiled);
    if (frame == NULL)
        return no_memory(args->diag, "for the tensors of isolated %s", self->info->name);
    if (write_inputs(self, frame, args) && write_outputs(self, frame, args))
        status = run(self, own, frame, args);
    else
        status = no_memory(args->diag, "for the tensors of isolated %s", self->info->name);
    if (status == INLAY_OK)
        status = read_outputs(own, frame, args);
    proxy_give_frame(self, own, frame);
    return status;
}
