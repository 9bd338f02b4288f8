/* A minimal host of a released ABI: built with the recorded headers, it opens a current plugin and runs one Relu. Every
 * struct that it passes ends at a guard page, so a plugin that reads a field that this host does not have crashes.
 * old_host PLUGIN... each plugin must have a provider that offers Relu of floats */
#include "guard.h"
#include "inlay/plugin.h"
#include <dlfcn.h>
#include <stdio.h>

static int failed;

static void fail(const char *who, const char *what, const inlay_diag *diag)
{
    (void)fprintf(stderr, "%s: %s: %s\n", who, what, diag->text);
    failed = 1;
}

/* Copies the bytes so that they end at a guard page; never freed. */
static void *at_edge(const void *data, size_t bytes)
{
    struct guard guard = guard_alloc(bytes);

    return bytes > 0 ? memcpy(guard.data, data, bytes) : guard.data;
}
#define AT_EDGE(object) at_edge(&(object), sizeof(object))

struct inlay_run {
    int unused;
};

static void host_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}
static inlay_status parallel_for(void *ctx, inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn,
                                 void *user)
{
    (void)ctx, (void)run, (void)grain;
    return count > 0 ? fn(user, 0, count, 0) : INLAY_OK;
}
static uint32_t thread_count(void *ctx, inlay_run *run)
{
    (void)ctx, (void)run;
    return 1;
}
static inlay_status output_alloc(void *ctx, inlay_run *run, const inlay_output_request *request, inlay_buffer *out)
{
    (void)ctx, (void)run, (void)request, (void)out;
    return INLAY_UNSUPPORTED;
}
static char *string_alloc(void *ctx, inlay_run *run, uint64_t bytes)
{
    (void)ctx, (void)run, (void)bytes;
    return NULL;
}
static inlay_status poll_run(void *ctx, inlay_run *run)
{
    (void)ctx, (void)run;
    return INLAY_OK;
}
static void fence_signal(void *ctx, inlay_fence fence, inlay_status status, const inlay_diag *why)
{
    (void)ctx, (void)fence, (void)status, (void)why;
}
static inlay_status fence_wait(void *ctx, inlay_run *run, inlay_fence fence, inlay_diag *diag)
{
    (void)ctx, (void)run, (void)fence, (void)diag;
    return INLAY_OK;
}
static const void *align_constant(void *ctx, void *compile, uint32_t value, uint32_t alignment)
{
    (void)ctx, (void)compile, (void)value, (void)alignment;
    return NULL;
}
static const void *extension(void *ctx, const char *name)
{
    (void)ctx, (void)name;
    return NULL;
}

static const inlay_host *make_host(void)
{
    const inlay_host host = { .struct_size = sizeof host,
                              .abi_major = 1,
                              .abi_minor = INLAY_ABI_MINOR,
                              .abi_major_oldest = 1,
                              .log = host_log,
                              .parallel_for = parallel_for,
                              .thread_count = thread_count,
                              .output_alloc = output_alloc,
                              .string_alloc = string_alloc,
                              .poll = poll_run,
                              .fence_signal = fence_signal,
                              .fence_wait = fence_wait,
                              .align_constant = align_constant,
                              .extension = extension };
    return AT_EDGE(host);
}

enum { COUNT = 37 };
static const int64_t sizes[] = { COUNT };
static const uint32_t x_index = 0, y_index = 1, node_index = 0;

static const inlay_graph *make_graph(void)
{
    const inlay_dim dims[] = { { .value = COUNT, .kind = INLAY_DIM_FIXED } };
    const inlay_node_info node = { .name = { "relu", 4 },
                                   .domain = { "ai.onnx", 7 },
                                   .op_type = { "Relu", 4 },
                                   .since_version = 14,
                                   .inputs = AT_EDGE(x_index),
                                   .outputs = AT_EDGE(y_index),
                                   .input_count = 1,
                                   .output_count = 1,
                                   .attr_stride = sizeof(inlay_attr_info) };
    inlay_value_info values[2] = { { .name = { "x", 1 }, .flags = INLAY_VALUE_GRAPH_INPUT, .producer = INLAY_NONE },
                                   { .name = { "y", 1 }, .flags = INLAY_VALUE_GRAPH_OUTPUT } };
    const inlay_symbol_info symbol = { .name = { "", 0 }, .max = INT64_MAX };
    inlay_graph graph = { .struct_size = sizeof graph,
                          .name = { "old", 3 },
                          .nodes = AT_EDGE(node),
                          .node_count = 1,
                          .node_stride = sizeof node,
                          .value_count = 2,
                          .value_stride = sizeof values[0],
                          .symbols = AT_EDGE(symbol),
                          .symbol_count = 1,
                          .symbol_stride = sizeof symbol,
                          .inputs = AT_EDGE(x_index),
                          .outputs = AT_EDGE(y_index),
                          .input_count = 1,
                          .output_count = 1 };

    for (int i = 0; i < 2; i++) {
        values[i].kind = INLAY_VALUE_TENSOR;
        values[i].dtype = INLAY_FLOAT;
        values[i].rank = 1;
        values[i].dims = at_edge(dims, sizeof dims);
    }
    graph.values = AT_EDGE(values);
    return AT_EDGE(graph);
}

static const inlay_value_state *make_states(void)
{
    const inlay_value_state states[2] = { { .dims = sizes, .rank = 1, .dtype = INLAY_FLOAT },
                                          { .dims = sizes, .rank = 1, .dtype = INLAY_FLOAT } };

    return AT_EDGE(states);
}

struct answer {
    int offered;
    uint64_t cookie;
};

static inlay_status take_offer(void *ctx, const inlay_offer *offer)
{
    struct answer *answer = ctx;

    if (offer->node_count == 1 && offer->nodes[0] == 0) {
        answer->offered = 1;
        answer->cookie = offer->cookie;
    }
    return INLAY_OK;
}
static inlay_status take_refusal(void *ctx, const inlay_refusal *refusal)
{
    (void)ctx, (void)refusal;
    return INLAY_OK;
}

static inlay_status ask_cost(const inlay_provider *provider, void *state, const inlay_graph *graph, uint64_t cookie,
                             inlay_diag *diag)
{
    const inlay_offer offer = { .struct_size = sizeof offer, .cookie = cookie, .nodes = &node_index, .node_count = 1 };
    const inlay_cost_request request = { .struct_size = sizeof request,
                                         .graph = graph,
                                         .offer = AT_EDGE(offer),
                                         .values = make_states(),
                                         .value_count = 2,
                                         .value_stride = sizeof(inlay_value_state),
                                         .max_threads = 1 };
    const inlay_cost cost = { .struct_size = sizeof cost };

    return provider->cost(state, AT_EDGE(request), AT_EDGE(cost), diag);
}

static inlay_status execute(const inlay_provider *provider, void *state, inlay_compiled *compiled,
                            inlay_instance *instance, uint64_t workspace_bytes, inlay_diag *diag)
{
    static struct inlay_run run;
    static const uint32_t never;
    static _Alignas(64) float x[COUNT], y[COUNT];
    int64_t dims[1] = { COUNT };
    const inlay_tensor_arg in = {
        .buffer = { .handle = (uintptr_t)x, .bytes = sizeof x }, .dims = dims, .rank = 1, .dtype = INLAY_FLOAT
    };
    inlay_tensor_arg out = in;
    void *workspace = aligned_alloc(64, (size_t)(workspace_bytes + 127) / 64 * 64);
    inlay_exec_args args = { .struct_size = sizeof args,
                             .run = &run,
                             .inputs = AT_EDGE(in),
                             .input_count = 1,
                             .output_count = 1,
                             .arg_stride = sizeof in,
                             .cancel = &never,
                             .diag = diag };
    inlay_status status;

    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 5 - 2);
    out.buffer.handle = (uintptr_t)y;
    args.outputs = AT_EDGE(out);
    args.workspace = (inlay_buffer){ .handle = (uintptr_t)workspace, .bytes = workspace_bytes };
    status = provider->execute(state, compiled, instance, AT_EDGE(args));
    for (int i = 0; i < COUNT && status == INLAY_OK; i++)
        if (y[i] != (x[i] > 0 ? x[i] : 0))
            status = inlay_fail(diag, INLAY_INTERNAL, "element %d is %g", i, (double)y[i]);
    free(workspace);
    return status;
}

static inlay_status compile_and_run(const inlay_provider *provider, void *state, const inlay_graph *graph,
                                    uint64_t cookie, inlay_diag *diag)
{
    const inlay_placement placements[2] = { { .value = 0 }, { .value = 1 } };
    uint8_t constants[2] = { 0 };
    const inlay_compile_request compile = { .struct_size = sizeof compile,
                                            .graph = graph,
                                            .nodes = &node_index,
                                            .cookies = &cookie,
                                            .inputs = &x_index,
                                            .outputs = &y_index,
                                            .node_count = 1,
                                            .offer_count = 1,
                                            .input_count = 1,
                                            .output_count = 1,
                                            .placements = AT_EDGE(placements),
                                            .placement_stride = sizeof placements[0],
                                            .constants = constants,
                                            .max_threads = 1 };
    const inlay_output_plan plan = { .alias = INLAY_NONE };
    const inlay_specialize_request shapes = { .struct_size = sizeof shapes,
                                              .values = make_states(),
                                              .value_count = 2,
                                              .value_stride = sizeof(inlay_value_state),
                                              .max_threads = 1,
                                              .workspace_alignment = 64,
                                              .outputs = AT_EDGE(plan),
                                              .output_count = 1,
                                              .output_stride = sizeof plan };
    inlay_specialize_request *request = AT_EDGE(shapes);
    inlay_compiled *compiled = NULL;
    inlay_instance *instance = NULL;
    inlay_status status;

    INLAY_TRY(provider->compile(state, AT_EDGE(compile), &compiled, diag));
    INLAY_TRY(provider->specialize(state, compiled, request, &instance, diag));
    status = execute(provider, state, compiled, instance, request->workspace_bytes, diag);
done:
    if (instance != NULL)
        provider->release_instance(state, compiled, instance);
    if (compiled != NULL)
        provider->release_compiled(state, compiled);
    return status;
}

static void try_provider(const char *path, const inlay_host *host, const inlay_provider *provider)
{
    static const uint8_t candidate = 1;
    inlay_option_value values[64] = { { .name = NULL } };
    const inlay_create_args args = { .struct_size = sizeof args,
                                     .options = values,
                                     .option_stride = sizeof values[0],
                                     .option_count = provider->option_count < 64 ? provider->option_count : 64,
                                     .first_domain = 1,
                                     .max_threads = 1 };
    struct answer answer = { 0 };
    const inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = &answer, .offer = take_offer, .refuse = take_refusal
    };
    const inlay_graph *graph = make_graph();
    const inlay_assess_request request = {
        .struct_size = sizeof request, .graph = graph, .candidates = &candidate, .sink = AT_EDGE(sink)
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    void *state = NULL;

    for (uint32_t i = 0; i < args.option_count; i++) {
        const inlay_option *option = INLAY_AT(inlay_option, provider->options, provider->option_stride, i);

        values[i] = (inlay_option_value){ .name = option->name, .s = option->default_value, .kind = option->kind };
    }
    if (provider->create(provider->ctx, host, AT_EDGE(args), &state, &diag) != INLAY_OK) {
        fail(path, "create", &diag);
        return;
    }
    if (provider->assess(state, AT_EDGE(request), &diag) != INLAY_OK || !answer.offered)
        fail(path, "it does not offer Relu", &diag);
    else if (ask_cost(provider, state, graph, answer.cookie, &diag) != INLAY_OK)
        fail(path, "cost", &diag);
    else if (compile_and_run(provider, state, graph, answer.cookie, &diag) != INLAY_OK)
        fail(path, "running it", &diag);
    provider->destroy(state);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        void *file = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL), *symbol = NULL;
        const inlay_host *host = make_host();
        const inlay_plugin *plugin = NULL;
        inlay_plugin_open_fn open_plugin;

        if (file != NULL)
            symbol = dlsym(file, INLAY_PLUGIN_OPEN_SYMBOL);
        if (symbol == NULL) {
            (void)fprintf(stderr, "%s: %s\n", argv[i], dlerror());
            return 1;
        }
        memcpy(&open_plugin, &symbol, sizeof open_plugin);
        if (open_plugin(host, &plugin, &diag) != INLAY_OK || plugin == NULL || plugin->provider_count == 0)
            fail(argv[i], "inlay_plugin_open", &diag);
        else
            try_provider(argv[i], host, plugin->providers);
        if (plugin != NULL && plugin->shutdown != NULL)
            plugin->shutdown(plugin->ctx);
    }
    if (!failed)
        (void)printf("%d plugins run on a host of ABI %u.%u\n", argc - 1, INLAY_ABI_MAJOR, INLAY_ABI_MINOR);
    return failed;
}
