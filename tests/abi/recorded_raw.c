/* A plugin that uses plugin.h only, built with the recorded headers of a released ABI minor version, as existing
 * plugins of users are. It must compile with the headers of 1.0, so it uses no newer fields.
 *
 * Without RECORDED_OPERATOR it is a provider of Relu for float; with it, it defines the operator com.recorded.Twice and
 * a provider for it. */
#include "inlay/plugin.h"
#include <stdlib.h>
#include <string.h>

#ifdef RECORDED_OPERATOR
#define OP "Twice"
#define NAME "recorded_operator"
#else
#define OP "Relu"
#define NAME "recorded_provider"
#endif

static const inlay_host *state;

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    (void)ctx;
    if (args->option_count != 1 || strcmp(args->options[0].name, "factor") != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the host lost option 'factor'");
    host->log(host->ctx, INLAY_LOG_DEBUG, NAME " is open");
    state = host;
    *out_state = &state;
    return INLAY_OK;
}

static void destroy(void *self)
{
    (void)self;
}

static int can_run(const inlay_graph *graph, const inlay_node_info *node)
{
    const inlay_value_info *input = node->input_count > 0 ? inlay_graph_value(graph, node->inputs[0]) : NULL;

    return strcmp(node->op_type.data, OP) == 0 && input != NULL && input->dtype == INLAY_FLOAT &&
           (input->flags & INLAY_VALUE_CONSTANT) == 0;
}

static inlay_status assess(void *self, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    const uint8_t *candidates = request->candidates;
    const inlay_assess_sink *sink = request->sink;
    (void)self, (void)diag;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const inlay_offer offer = { .struct_size = sizeof offer, .cookie = n, .nodes = &n, .node_count = 1 };
        const inlay_refusal refusal = { .struct_size = sizeof refusal,
                                        .node = n,
                                        .code = INLAY_REFUSE_OPERATOR,
                                        .text = "this provider runs " OP " of floats only" };
        inlay_status status;

        if (!candidates[n])
            continue;
        status = can_run(graph, inlay_graph_node(graph, n)) ? sink->offer(sink->ctx, &offer)
                                                            : sink->refuse(sink->ctx, &refusal);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static inlay_status cost(void *self, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    (void)diag, (void)self, (void)request;
    out->ns = 1; /* to be chosen */
    return INLAY_OK;
}

static inlay_status compile(void *self, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    (void)self, (void)request;
    *out_compiled = malloc(1);
    return *out_compiled != NULL ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, NAME);
}

static void release_compiled(void *self, inlay_compiled *compiled)
{
    (void)self;
    free(compiled);
}

/* What specialize stores: a blob of another region would be noticed. */
static const char blob[] = "an engine of " NAME;

static inlay_status fingerprint(void *self, inlay_fingerprint *out, inlay_diag *diag)
{
    (void)self;
    if (!INLAY_HAS(out, flags) || out->flags != 0)
        return inlay_fail(diag, INLAY_INTERNAL, "the host did not prepare the fingerprint");
    out->data = NAME;
    out->bytes = sizeof NAME;
    return INLAY_OK;
}

static inlay_status cache_verdict(void *self, inlay_cache_request *request, inlay_diag *diag)
{
    (void)self;
    if (!INLAY_HAS(request, verdict))
        return inlay_fail(diag, INLAY_INTERNAL, "the host did not prepare the request");
    if (request->bytes != sizeof blob || memcmp(request->blob, blob, sizeof blob) != 0) {
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "not an engine of " NAME);
        request->verdict = INLAY_CACHE_RECOMPILE;
    }
    return INLAY_OK;
}

static inlay_status specialize(void *self, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    (void)self;
    if (request->poll != NULL && request->poll(request->ctx) != INLAY_OK)
        return inlay_fail(diag, INLAY_CANCELLED, "cancelled");
    if (request->progress != NULL)
        request->progress(request->ctx, 0.5, NAME);
    if (request->handle != NULL && state->align_constant(state->ctx, request->handle, INLAY_NONE, 64) != NULL)
        return inlay_fail(diag, INLAY_INTERNAL, "the host has a constant without a value");
    if (request->cache_blob != NULL &&
        (request->cache_bytes != sizeof blob || memcmp(request->cache_blob, blob, sizeof blob) != 0))
        return inlay_fail(diag, INLAY_INTERNAL, "the host passed a blob that was not accepted");
    if (request->cache_blob == NULL && request->store_begin != NULL &&
        request->store_begin(request->ctx, sizeof blob) == INLAY_OK &&
        request->store_write(request->ctx, blob, sizeof blob) == INLAY_OK)
        (void)request->store_end(request->ctx);
    request->workspace_bytes = 100;
    *out_instance = (inlay_instance *)compiled;
    return INLAY_OK;
}

static void release_instance(void *self, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)self, (void)compiled, (void)instance;
}

static inlay_status execute(void *self, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args)
{
    const inlay_tensor_arg *in = args->inputs, *out = args->outputs;
    const float *input = inlay_buffer_host(&in->buffer);
    float *output = inlay_buffer_host(&out->buffer);

    (void)self, (void)compiled, (void)instance;
    memset(inlay_buffer_host(&args->workspace), 0xaa, 100);
    for (uint64_t i = 0; i < out->buffer.bytes / sizeof *output; i++) {
#ifdef RECORDED_OPERATOR
        output[i] = 2 * input[i];
#else
        output[i] = input[i] < 0 ? 0 : input[i];
#endif
    }
    return INLAY_OK;
}

static const inlay_option options[] = {
    { .name = "factor", .doc = "does nothing", .default_value = "1", .kind = INLAY_OPTION_INT }
};
static const inlay_provider providers[] = { {
    .struct_size = sizeof(inlay_provider),
    .name = NAME,
    .description = "built with recorded headers",
    .device_kind = INLAY_DEVICE_CPU,
    .options = options,
    .option_count = 1,
    .option_stride = sizeof options[0],
    .create = create,
    .destroy = destroy,
    .assess = assess,
    .cost = cost,
    .compile = compile,
    .release_compiled = release_compiled,
    .specialize = specialize,
    .release_instance = release_instance,
    .execute = execute,
    .fingerprint = fingerprint,
    .cache_verdict = cache_verdict,
} };

#ifdef RECORDED_OPERATOR
static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    (void)ctx, (void)diag;
    return in->set_output(in->ctx, 0, INLAY_UNDEFINED, in->inputs[0]->rank, in->inputs[0]->dims);
}

static const int64_t dims[] = { 3 };
static const float one[] = { 1, -2, 0.5f }, two[] = { 2, -4, 1 };
static const inlay_tensor_view x = { one, sizeof one, dims, 1, INLAY_FLOAT };
static const inlay_tensor_view y = { two, sizeof two, dims, 1, INLAY_FLOAT };
static const inlay_op_example examples[] = {
    { .name = "three", .inputs = &x, .input_count = 1, .outputs = &y, .output_count = 1 }
};
static const inlay_operator operators[] = { {
    .struct_size = sizeof(inlay_operator),
    .domain = "com.recorded",
    .op_type = OP,
    .signature = "X:T -> Y:T; T=float|double",
    .doc = "Twice of each element.",
    .since_version = 1,
    .infer = infer,
    .examples = examples,
    .example_count = 1,
    .example_stride = sizeof examples[0],
} };
#endif

static const inlay_plugin plugin = {
    .struct_size = sizeof(inlay_plugin),
    .abi_major = INLAY_ABI_MAJOR,
    .abi_minor = INLAY_ABI_MINOR,
    .name = NAME,
    .version = "1",
    .build_id = "recorded",
    .providers = providers,
    .provider_count = 1,
    .provider_stride = sizeof providers[0],
#ifdef RECORDED_OPERATOR
    .operators = operators,
    .operator_count = 1,
    .operator_stride = sizeof operators[0],
#endif
};

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    if (host == NULL || !INLAY_HAS(host, extension) || host->abi_major < INLAY_ABI_MAJOR ||
        host->abi_major_oldest > INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, NAME " needs a host of ABI %u", INLAY_ABI_MAJOR);
    *out_plugin = &plugin;
    return INLAY_OK;
}
