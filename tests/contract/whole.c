/* A provider on the raw ABI that takes If, Loop and Scan nodes including their bodies and interprets them. It supports
 * a few elementwise operators in bodies, on float, int64, int32 and bool, and no operators outside of bodies. The
 * environment variable WHOLE lists words that select its behaviour:
 *
 *     if, loop, scan   the control flow operators that it offers
 *     compile          compile declines every second region
 *     odd              specialize declines if the first dimension of an input is odd
 *     merge            its offers may be merged
 *     strict           it supports operators of opset 17 only: not Swish, which a pass creates in bodies */
#include "../check/plugin_entry.h"
#include "whole.h"
#include "inlay/plugin.h"
#include <stdlib.h>

static const inlay_host *host;
static uint32_t compiles;

static bool has_word(const char *word)
{
    const char *words = getenv("WHOLE");

    return words != NULL && strstr(words, word) != NULL;
}

static inlay_status create(void *ctx, const inlay_host *new_host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    (void)ctx, (void)args, (void)diag;
    host = new_host;
    *out_state = &compiles;
    return INLAY_OK;
}

static void destroy(void *state)
{
    (void)state;
}

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    const uint8_t *candidates = request->candidates;
    const inlay_assess_sink *sink = request->sink;
    (void)state, (void)diag;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const inlay_node_info *node = inlay_graph_node(graph, n);
        char why[200] = "only nodes with bodies run here";
        inlay_status status;

        if (!candidates[n])
            continue;
        if (INLAY_STRIDE_HAS(inlay_node_info, graph->node_stride, body_stride) && node->body_count > 0 &&
            whole_knows(graph, node, has_word("strict"), why)) {
            const inlay_offer offer = { .struct_size = sizeof offer,
                                        .cookie = n,
                                        .nodes = &n,
                                        .node_count = 1,
                                        .flags = has_word("merge") ? INLAY_OFFER_MERGE : 0 };
            status = sink->offer(sink->ctx, &offer);
        } else {
            const inlay_refusal refusal = {
                .struct_size = sizeof refusal, .node = n, .code = INLAY_REFUSE_OPERATOR, .text = why
            };
            status = sink->refuse(sink->ctx, &refusal);
        }
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    (void)state, (void)diag, (void)request;
    out->ns = 1000;
    return INLAY_OK;
}

/* A compiled region. */
struct region {
    whole_graph *graph; /* nodes, inputs and outputs of the region */
};

static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    struct region *region = calloc(1, sizeof *region);

    (void)state;
    if (region == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region");
    if (has_word("compile") && __atomic_fetch_add(&compiles, 1, __ATOMIC_RELAXED) % 2 == 0) {
        free(region);
        return inlay_fail(diag, INLAY_UNSUPPORTED, "this compiler declines every second region");
    }
    region->graph = whole_translate(request->graph, request->nodes, request->node_count, request->inputs,
                                    request->input_count, request->outputs, request->output_count);
    *out_compiled = (inlay_compiled *)region;
    return INLAY_OK;
}

static void release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state;
    whole_free(((struct region *)compiled)->graph);
    free(compiled);
}

static inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    const whole_graph *graph = ((struct region *)compiled)->graph;

    (void)state;
    for (uint32_t i = 0; has_word("odd") && i < graph->input_count; i++) {
        const inlay_value_state *value_state =
            INLAY_AT(inlay_value_state, request->values, request->value_stride, graph->inputs[i]);

        if (value_state->rank > 0 && value_state->rank != INLAY_RANK_UNKNOWN && value_state->dims[0] % 2 != 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "%lld rows are an odd number", (long long)value_state->dims[0]);
    }
    for (uint32_t o = 0; o < request->output_count; o++) {
        inlay_output_plan *plan =
            (inlay_output_plan *)(uintptr_t)INLAY_AT(inlay_output_plan, request->outputs, request->output_stride, o);
        const inlay_value_state *value_state =
            INLAY_AT(inlay_value_state, request->values, request->value_stride, graph->outputs[o]);
        bool known = value_state->rank != INLAY_RANK_UNKNOWN;

        for (uint32_t d = 0; known && d < value_state->rank; d++)
            known = value_state->dims[d] >= 0;
        plan->kind = known ? INLAY_OUTPUT_KNOWN : INLAY_OUTPUT_ALLOCATED;
    }
    *out_instance = (inlay_instance *)compiled;
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
    return whole_execute(((struct region *)compiled)->graph, host, args);
}

static const void *extension(void *state, const char *name)
{
    static inlay_ext_bodies bodies = { .struct_size = sizeof bodies };

    (void)state;
    bodies.operators = (has_word("if") ? INLAY_BODIES_IF : 0u) | (has_word("loop") ? INLAY_BODIES_LOOP : 0u) |
                       (has_word("scan") ? INLAY_BODIES_SCAN : 0u);
    return strcmp(name, INLAY_EXT_BODIES) == 0 && bodies.operators != 0 ? &bodies : NULL;
}

static const inlay_provider provider = {
    .struct_size = sizeof provider,
    .name = "whole",
    .description = "interprets control flow",
    .device_kind = INLAY_DEVICE_NPU,
    .option_stride = sizeof(inlay_option),
    .domain_stride = sizeof(inlay_domain_info),
    .create = create,
    .destroy = destroy,
    .assess = assess,
    .cost = cost,
    .compile = compile,
    .release_compiled = release_compiled,
    .specialize = specialize,
    .release_instance = release_instance,
    .execute = execute,
    .extension = extension,
};
PLUGIN_ENTRY("whole_plugin", "whole", provider)
