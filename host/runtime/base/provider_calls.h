/* base/provider_calls.h - calls of a provider with the request structs of inlay/plugin.h. table and state are those of
 * a wrapped provider (plugin/guard.h) or of the plugin itself. */
#ifndef BASE_PROVIDER_CALLS_H
#define BASE_PROVIDER_CALLS_H
#include "inlay/plugin.h"

/* Calls assess. candidates: [graph->node_count]. */
static inline inlay_status call_assess(const inlay_provider *table, void *state, const inlay_graph *graph,
                                       const uint8_t *candidates, const inlay_assess_sink *sink, inlay_diag *diag)
{
    const inlay_assess_request request = {
        .struct_size = sizeof request, .graph = graph, .candidates = candidates, .sink = sink
    };

    return table->assess(state, &request, diag);
}

/* An extension of this host's own: providers that keep what they offer for a graph until the host has finished with it
 * (isolated ones). */
#define EXTENSION_FORGET "host_forget"
typedef struct extension_forget {
    void (*forget)(void *state, const inlay_graph *graph);
} extension_forget;

/* States that the offers for the graph, which was passed to call_assess(), are not used any more except by compiled
 * regions. */
static inline void call_forget(const inlay_provider *table, void *state, const inlay_graph *graph)
{
    const extension_forget *extension = table->extension != NULL ? table->extension(state, EXTENSION_FORGET) : NULL;

    if (extension != NULL)
        extension->forget(state, graph);
}

/* What a buffer is for, see inlay_alloc_request. */
typedef struct buffer_use {
    uint32_t usage;    /* INLAY_USE_* */
    uint32_t lifetime; /* INLAY_LIFETIME_* */
    uint32_t priority; /* INLAY_PRIORITY_* */
    /* of offset 0, a power of two; the alignment of the domain applies if it is larger */
    uint64_t alignment;
} buffer_use;

/* Calls buffer_alloc, and sets out->bytes, which providers leave to the host. first_domain is the id of
 * table->domains[0]. */
static inline inlay_status call_alloc(const inlay_provider *table, void *state, uint32_t first_domain, uint32_t domain,
                                      uint64_t bytes, buffer_use use, inlay_buffer *out, inlay_diag *diag)
{
    const inlay_domain_info *info =
        INLAY_AT(inlay_domain_info, table->domains, table->domain_stride, domain - first_domain);
    const uint64_t least = info->alignment > 0 ? info->alignment : 1;
    const inlay_alloc_request request = { .struct_size = sizeof request,
                                          .bytes = bytes,
                                          .alignment = use.alignment > least ? use.alignment : least,
                                          .domain = domain,
                                          .usage = use.usage,
                                          .lifetime = use.lifetime,
                                          .priority = use.priority };
    const inlay_status status = table->buffer_alloc(state, &request, out, diag);

    if (status == INLAY_OK)
        out->bytes = bytes;
    return status;
}

/* Calls buffer_free. */
static inline void call_free(const inlay_provider *table, void *state, const inlay_buffer *buffer)
{
    const inlay_free_request request = { .struct_size = sizeof request, .buffer = buffer };

    table->buffer_free(state, &request);
}

/* Calls buffer_copy for a single copy, which waits for at most one fence (NULL: for none). */
static inline inlay_status call_copy(const inlay_provider *table, void *state, inlay_run *run, const inlay_buffer *from,
                                     const inlay_buffer *to, const inlay_fence *wait, inlay_fence signal,
                                     inlay_diag *diag)
{
    const inlay_copy copy = { *from, *to };
    const inlay_copy_request request = { .struct_size = sizeof request,
                                         .run = run,
                                         .copies = &copy,
                                         .copy_count = 1,
                                         .copy_stride = sizeof copy,
                                         .waits = wait,
                                         .wait_count = wait != NULL,
                                         .signal = signal };

    return table->buffer_copy(state, &request, diag);
}

/* Calls buffer_map for reading and writing. */
static inline inlay_status call_map(const inlay_provider *table, void *state, const inlay_buffer *buffer,
                                    void **out_address, inlay_diag *diag)
{
    const inlay_map_request request = { .struct_size = sizeof request,
                                        .buffer = buffer,
                                        .access = INLAY_MAP_READ | INLAY_MAP_WRITE };

    return table->buffer_map(state, &request, out_address, diag);
}

/* Calls buffer_unmap for a buffer that call_map() has mapped. */
static inline void call_unmap(const inlay_provider *table, void *state, const inlay_buffer *buffer)
{
    const inlay_unmap_request request = { .struct_size = sizeof request,
                                          .buffer = buffer,
                                          .access = INLAY_MAP_READ | INLAY_MAP_WRITE };

    table->buffer_unmap(state, &request);
}

/* Calls buffer_import, and sets out->bytes to those of the memory. */
static inline inlay_status call_import(const inlay_provider *table, void *state, uint32_t domain,
                                       const inlay_native_memory *memory, uint32_t usage, inlay_buffer *out,
                                       inlay_diag *diag)
{
    const inlay_import_request request = {
        .struct_size = sizeof request, .memory = memory, .domain = domain, .usage = usage
    };
    const inlay_status status = table->buffer_import(state, &request, out, diag);

    if (status == INLAY_OK)
        out->bytes = memory->bytes;
    return status;
}

/* Describes host memory for buffer_import. */
static inline inlay_native_memory host_memory(void *address, uint64_t bytes)
{
    return (inlay_native_memory){
        .struct_size = sizeof(inlay_native_memory),
        .handle = (uintptr_t)address,
        .bytes = bytes,
        .device_type = 1, /* DLPack's kDLCPU */
        .kind = INLAY_MEMORY_HOST,
    };
}
#endif
