/* remote/calls.c - what all calls of an isolated provider need: a channel, arguments, and graphs in the shared
 * memory. */
#include "base/memory.h"
#include "remote/proxy.h"

inlay_status proxy_begin(isolate_proxy *self, proxy_call *out, inlay_diag *diag)
{
    inlay_status status;

    do {
        status = isolate_process_start(&self->process, ISOLATE_CREATE, self->start, NULL, NULL, &out->generation, diag);
        out->channel = status == INLAY_OK ? isolate_channel_take(&self->process, out->generation) : NULL;
    } while (status == INLAY_OK && out->channel == NULL); /* it has just ended */
    if (status == INLAY_OK)
        out->channel->outbox = NULL;
    return status;
}

void proxy_end(isolate_proxy *self, proxy_call *call)
{
    isolate_channel_give(&self->process, call->channel);
}

inlay_status proxy_log(isolate_proxy *self, const isolate_callback *callback)
{
    if (callback->kind != ISOLATE_LOG)
        return INLAY_UNSUPPORTED;
    self->host->log(self->host->ctx, callback->level, callback->text);
    return INLAY_OK;
}

static inlay_status only_log(void *ctx, isolate_channel *channel, isolate_callback *callback)
{
    (void)channel;
    return proxy_log(ctx, callback);
}

inlay_status proxy_make(isolate_proxy *self, proxy_call *call, uint32_t kind, const void *request, isolate_wait *wait,
                        inlay_diag *diag)
{
    isolate_wait plain = { .callback = only_log, .ctx = self };

    if (wait == NULL)
        wait = &plain;
    wait->limit_ms = __atomic_load_n(&self->limit_ms, __ATOMIC_RELAXED);
    return isolate_channel_call(&self->process, call->channel, call->generation, kind, request, wait, diag);
}

void proxy_free_arguments(isolate_proxy *self, isolate_arena *arena)
{
    (void)pthread_mutex_lock(&self->process.lock);
    isolate_arena_deinit(arena);
    (void)pthread_mutex_unlock(&self->process.lock);
}

static isolate_graph **list_of(isolate_proxy *self, uint64_t key)
{
    return &self->graphs[key % PROXY_GRAPH_LISTS];
}

inlay_status proxy_enter_graph(isolate_proxy *self, const inlay_graph *graph, isolate_graph **out, inlay_diag *diag)
{
    const uint64_t key = isolate_graph_key(graph);
    isolate_graph *found;

    (void)pthread_mutex_lock(&self->process.lock);
    for (found = *list_of(self, key); found != NULL && (found->key != key || found->value_count != graph->value_count);)
        found = found->next;
    if (found != NULL) {
        found->references++;
    } else {
        found = isolate_graph_create(&self->constants, graph, key);
        if (found != NULL) {
            found->next = *list_of(self, key);
            *list_of(self, key) = found;
        }
    }
    for (uint32_t i = 0; found != NULL && i < found->value_count; i++)
        if (found->constants[i] != NULL)
            isolate_constant_enter(found->constants[i], inlay_graph_value(graph, i)->data);
    self->untrimmed = true;
    (void)pthread_mutex_unlock(&self->process.lock);
    *out = found;
    return found != NULL ? INLAY_OK : no_memory(diag, "for a graph of isolated %s", self->info->name);
}

static void release_graph(isolate_proxy *self, isolate_graph *graph)
{
    isolate_graph **link = list_of(self, graph->key);

    if (--graph->references > 0)
        return;
    while (*link != graph)
        link = &(*link)->next;
    *link = graph->next;
    isolate_graph_destroy(&self->constants, graph);
}

void proxy_leave_graph(isolate_proxy *self, isolate_graph *graph, bool keep)
{
    (void)pthread_mutex_lock(&self->process.lock);
    for (uint32_t i = 0; i < graph->value_count; i++)
        if (graph->constants[i] != NULL)
            isolate_constant_leave(graph->constants[i]);
    if (!keep)
        release_graph(self, graph);
    (void)pthread_mutex_unlock(&self->process.lock);
}

void proxy_release_graph(isolate_proxy *self, isolate_graph *graph)
{
    (void)pthread_mutex_lock(&self->process.lock);
    release_graph(self, graph);
    (void)pthread_mutex_unlock(&self->process.lock);
}
