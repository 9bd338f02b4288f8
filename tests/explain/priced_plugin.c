/* Three providers whose offers the names of nodes describe: "n0_50_60_0" costs 50 us on pa, 60 us on pb, and is not
 * offered by pd, which has memory of its own. Letters after a further "_" concern one provider each, "Af" for instance
 * the price of pa:
 *   f  cost fails      n  the price is NaN      r  the node keeps 700 KiB      l  the device is lost when it runs
 *   p  the price is divided by the number of threads */
#include "inlay/plugin.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROVIDERS = 3, KEPT_BYTES = 700 << 10 };

struct state {
    uint32_t index;
};

struct inlay_compiled {
    bool lost;
};

static bool has_letter(const inlay_node_info *node, uint32_t provider, char letter)
{
    const char word[] = { '_', (char)('A' + provider), letter, '\0' };

    return strstr(node->name.data, word) != NULL;
}

/* Microseconds; 0: no offer. */
static double price_of(const inlay_node_info *node, uint32_t provider)
{
    double prices[PROVIDERS] = { 0 };

    return sscanf(node->name.data, "%*[^_]_%lf_%lf_%lf", &prices[0], &prices[1], &prices[2]) == PROVIDERS
               ? prices[provider]
               : 0;
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    struct state *state = malloc(sizeof *state);

    (void)host, (void)args;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    state->index = (uint32_t)(uintptr_t)ctx;
    *out_state = state;
    return INLAY_OK;
}

static void destroy(void *state)
{
    free(state);
}

static inlay_status assess(void *ctx, const inlay_assess_request *request, inlay_diag *diag)
{
    const struct state *state = ctx;
    inlay_status status = INLAY_OK;

    (void)diag;
    for (uint32_t n = 0; n < request->graph->node_count && status == INLAY_OK; n++) {
        const inlay_node_info *node = inlay_graph_node(request->graph, n);

        if (!request->candidates[n])
            continue;
        if (price_of(node, state->index) > 0) {
            const inlay_offer offer = { .struct_size = sizeof offer,
                                        .nodes = &n,
                                        .node_count = 1,
                                        .flags = INLAY_OFFER_MERGE,
                                        .resident_bytes = has_letter(node, state->index, 'r') ? KEPT_BYTES : 0 };

            status = request->sink->offer(request->sink->ctx, &offer);
        } else {
            const inlay_refusal refusal = {
                .struct_size = sizeof refusal, .node = n, .code = INLAY_REFUSE_OPERATOR, .text = "not offered"
            };

            status = request->sink->refuse(request->sink->ctx, &refusal);
        }
    }
    return status;
}

static inlay_status cost(void *ctx, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const struct state *state = ctx;
    const inlay_node_info *node = inlay_graph_node(request->graph, request->offer->nodes[0]);

    if (has_letter(node, state->index, 'f'))
        return inlay_fail(diag, INLAY_INTERNAL, "no table of times for this chip");
    out->ns = has_letter(node, state->index, 'n') ? NAN : price_of(node, state->index) * 1000;
    if (has_letter(node, state->index, 'p'))
        out->ns /= request->max_threads;
    out->confidence = INLAY_CONFIDENCE_MODEL;
    return INLAY_OK;
}

static inlay_status compile(void *ctx, const inlay_compile_request *request, inlay_compiled **out, inlay_diag *diag)
{
    const struct state *state = ctx;
    inlay_compiled *compiled = calloc(1, sizeof *compiled);

    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    for (uint32_t i = 0; i < request->node_count; i++)
        compiled->lost |= has_letter(inlay_graph_node(request->graph, request->nodes[i]), state->index, 'l');
    *out = compiled;
    return INLAY_OK;
}

static void release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state;
    free(compiled);
}

static inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out, inlay_diag *diag)
{
    (void)state, (void)request, (void)diag;
    *out = (inlay_instance *)(void *)compiled;
    return INLAY_OK;
}

static void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled, (void)instance;
}

static inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    (void)state, (void)instance;
    if (compiled->lost)
        return inlay_fail(args->diag, INLAY_DEVICE_LOST, "the card fell off the bus");
    for (uint32_t i = 0; i < args->output_count; i++) {
        const inlay_tensor_arg *out = INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, i);

        memset((char *)(uintptr_t)out->buffer.handle + out->buffer.offset, 0, (size_t)out->buffer.bytes);
    }
    return INLAY_OK;
}

static inlay_status buffer_alloc(void *state, const inlay_alloc_request *request, inlay_buffer *out, inlay_diag *diag)
{
    void *memory = aligned_alloc(4096, (size_t)(request->bytes + 4095) / 4096 * 4096 + 4096);

    (void)state;
    if (memory == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    *out = (inlay_buffer){ .handle = (uintptr_t)memory, .domain = request->domain };
    return INLAY_OK;
}

static void buffer_free(void *state, const inlay_free_request *request)
{
    (void)state;
    free((void *)(uintptr_t)request->buffer->handle);
}

static inlay_status buffer_copy(void *state, const inlay_copy_request *request, inlay_diag *diag)
{
    (void)state, (void)diag;
    for (uint32_t i = 0; i < request->copy_count; i++) {
        const inlay_copy *copy = INLAY_AT(inlay_copy, request->copies, request->copy_stride, i);
        const uint64_t bytes = copy->source.bytes < copy->target.bytes ? copy->source.bytes : copy->target.bytes;

        memcpy((char *)(uintptr_t)copy->target.handle + copy->target.offset,
               (const char *)(uintptr_t)copy->source.handle + copy->source.offset, (size_t)bytes);
    }
    return INLAY_OK;
}

static const inlay_domain_info memory = { .name = "pd.memory", .alignment = 64, .memory_bytes = 64 << 20 };

#define PROVIDER(name_, index_, kind_, domains_)                                                                       \
    {                                                                                                                  \
        .struct_size = sizeof(inlay_provider), .name = name_,                                                          \
        .description = "has the prices that names of nodes state", .device_kind = kind_, .domains = &memory,           \
        .domain_count = domains_, .domain_stride = sizeof memory, .default_domain = domains_, .poll_ms = 1,            \
        .ctx = (void *)(uintptr_t)index_, .create = create, .destroy = destroy, .assess = assess, .cost = cost,        \
        .compile = compile, .release_compiled = release_compiled, .specialize = specialize,                            \
        .release_instance = release_instance, .execute = execute, .buffer_alloc = buffer_alloc,                        \
        .buffer_free = buffer_free, .buffer_copy = buffer_copy                                                         \
    }

static const inlay_provider providers[PROVIDERS] = { PROVIDER("pa", 0, INLAY_DEVICE_CPU, 0),
                                                     PROVIDER("pb", 1, INLAY_DEVICE_CPU, 0),
                                                     PROVIDER("pd", 2, INLAY_DEVICE_NPU, 1) };

INLAY_PLUGIN_NOTE("priced", "pa pb pd", "")

static const inlay_plugin plugin = { .struct_size = sizeof plugin,
                                     .abi_major = INLAY_ABI_MAJOR,
                                     .abi_minor = INLAY_ABI_MINOR,
                                     .name = "priced",
                                     .version = "1.0",
                                     .build_id = "1",
                                     .provider_count = PROVIDERS,
                                     .providers = providers,
                                     .provider_stride = sizeof providers[0] };

INLAY_EXPORT inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out, inlay_diag *diag)
{
    (void)host, (void)diag;
    *out = &plugin;
    return INLAY_OK;
}
