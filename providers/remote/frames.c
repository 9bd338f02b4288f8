/* remote/frames.c - the memory of calls of execute, which is kept from run to run. */
#include "remote/proxy.h"
#include <stdlib.h>

static size_t request_bytes(const proxy_frame *frame)
{
    return sizeof(isolate_execute) + frame->input_count * (sizeof(inlay_tensor_arg) + INLAY_MAX_RANK * sizeof(int64_t));
}

static size_t output_bytes(const proxy_frame *frame)
{
    return frame->output_count * (sizeof(inlay_tensor_arg) + INLAY_MAX_RANK * sizeof(int64_t));
}

/* process.lock is held. */
static void free_frame(isolate_proxy *self, proxy_frame *frame)
{
    for (uint32_t i = 0; frame->in != NULL && i < frame->input_count; i++)
        isolate_heap_free(&self->process.arguments, frame->in[i].data, frame->in[i].room);
    for (uint32_t i = 0; frame->out != NULL && i < frame->output_count; i++)
        isolate_heap_free(&self->process.results, frame->out[i].data, frame->out[i].room);
    isolate_heap_free(&self->process.arguments, frame->request, request_bytes(frame));
    isolate_heap_free(&self->process.results, frame->outputs, output_bytes(frame));
    free(frame->in);
    free(frame->out);
    free(frame->allocated);
    free(frame);
}

/* process.lock is held. NULL: out of memory. */
static proxy_frame *create_frame(isolate_proxy *self, const inlay_exec_args *args)
{
    proxy_frame *frame = calloc(1, sizeof *frame);

    if (frame == NULL)
        return NULL;
    frame->input_count = args->input_count;
    frame->output_count = args->output_count;
    frame->in = calloc((size_t)args->input_count + 1, sizeof *frame->in);
    frame->out = calloc((size_t)args->output_count + 1, sizeof *frame->out);
    frame->allocated = calloc((size_t)args->output_count + 1, sizeof *frame->allocated);
    frame->request = isolate_heap_alloc(&self->process.arguments, request_bytes(frame));
    frame->outputs = isolate_heap_alloc(&self->process.results, output_bytes(frame));
    if (frame->in != NULL && frame->out != NULL && frame->allocated != NULL && frame->request != NULL &&
        frame->outputs != NULL)
        return frame;
    free_frame(self, frame);
    return NULL;
}

void proxy_free_frames(isolate_proxy *self, proxy_instance *instance)
{
    (void)pthread_mutex_lock(&self->process.lock);
    while (instance->frames != NULL) {
        proxy_frame *frame = instance->frames;

        instance->frames = frame->next;
        free_frame(self, frame);
    }
    (void)pthread_mutex_unlock(&self->process.lock);
}

proxy_frame *proxy_take_frame(isolate_proxy *self, proxy_instance *instance, const inlay_exec_args *args)
{
    proxy_frame *frame;

    (void)pthread_mutex_lock(&self->process.lock);
    if (self->untrimmed) { /* the session is compiled */
        isolate_constants_trim(&self->constants);
        self->untrimmed = false;
    }
    frame = instance->frames;
    if (frame != NULL)
        instance->frames = frame->next;
    else
        frame = create_frame(self, args);
    (void)pthread_mutex_unlock(&self->process.lock);
    return frame;
}

void proxy_give_frame(isolate_proxy *self, proxy_instance *instance, proxy_frame *frame)
{
    (void)pthread_mutex_lock(&self->process.lock);
    frame->next = instance->frames;
    instance->frames = frame;
    (void)pthread_mutex_unlock(&self->process.lock);
}
