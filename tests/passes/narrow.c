/* The reference provider with another name and only the operators in the environment variable NARROW_OPS, each
 * between spaces. LOW_BIT_NS, if set, is the reported cost of each node. Operators in NARROW_LATE are offered, but
 * declined by compile. */
#include "inlay/plugin.h"
#include "inlay/note.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inlay_provider original, narrow;
static inlay_plugin self;

static bool is_listed(const inlay_node_info *node, const char *variable)
{
    const char *ops = getenv(variable);
    char word[96];

    (void)snprintf(word, sizeof word, " %s ", node->op_type.data);
    return ops != NULL && strstr(ops, word) != NULL;
}

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    const uint8_t *candidates = request->candidates;
    inlay_assess_request forwarded = *request;
    uint8_t *left = malloc((size_t)graph->node_count + 1);
    inlay_status status = INLAY_OK;

    if (left == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    for (uint32_t i = 0; status == INLAY_OK && i < graph->node_count; i++) {
        const inlay_refusal refusal = { .struct_size = sizeof refusal,
                                        .node = i,
                                        .code = INLAY_REFUSE_OPERATOR,
                                        .text = "the operator is not listed" };

        left[i] = candidates[i] != 0 && is_listed(inlay_graph_node(graph, i), "NARROW_OPS");
        if (candidates[i] != 0 && !left[i])
            status = request->sink->refuse(request->sink->ctx, &refusal);
    }
    forwarded.candidates = left;
    if (status == INLAY_OK)
        status = original.assess(state, &forwarded, diag);
    free(left);
    return status;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    inlay_status status = original.cost(state, request, out, diag);

    if (getenv("LOW_BIT_NS") != NULL) {
        out->ns = strtod(getenv("LOW_BIT_NS"), NULL);
        out->local_ns = 0; /* that of the provider below is for this CPU, and would count instead */
        out->flops = 0;
        out->bytes_read = out->bytes_written = 0;
    }
    return status;
}

static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    for (uint32_t i = 0; i < request->node_count; i++)
        if (is_listed(inlay_graph_node(request->graph, request->nodes[i]), "NARROW_LATE"))
            return inlay_fail(diag, INLAY_UNSUPPORTED, "the compiler has no %s after all",
                              inlay_graph_node(request->graph, request->nodes[i])->op_type.data);
    return original.compile(state, request, out_compiled, diag);
}

INLAY_PLUGIN_NOTE("narrow_plugin", "narrow", "")
INLAY_EXPORT inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    const inlay_plugin *reference;
    inlay_plugin_open_fn open;
    void *library = dlopen(REFERENCE_FILE, RTLD_NOW | RTLD_LOCAL);
    inlay_status status;

    if (library == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "%s", dlerror());
    *(void **)&open = dlsym(library, INLAY_PLUGIN_OPEN_SYMBOL);
    status = open(host, &reference, diag);
    if (status != INLAY_OK)
        return status;
    original = narrow = *reference->providers;
    narrow.name = "narrow";
    narrow.assess = assess;
    narrow.cost = cost;
    narrow.compile = compile;
    self = *reference;
    self.name = "narrow_plugin";
    self.providers = &narrow;
    self.provider_count = 1;
    self.provider_stride = sizeof narrow;
    self.operator_count = 0;
    *out_plugin = &self;
    return INLAY_OK;
}
