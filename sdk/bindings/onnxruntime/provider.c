/* The provider that runs kernels of custom operators: one node per region; kernels allocate the outputs. */
#include "custom.h"
#include "inlay/check.h"
#include <stdlib.h>

/* The state of the provider for one session. */
typedef struct custom_provider {
    const inlay_host *host;
    const ort_custom *custom;
} custom_provider;

typedef struct custom_kernel {
    const OrtCustomOp *op;
    void *kernel;
    ort_ports ports;
} custom_kernel;

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    const inlay_option_value *session = args->options;
    const ort_custom *custom = NULL;
    custom_provider *provider;

    (void)ctx;
    if (args->option_count > 0 && session->is_set != 0 && session->s != NULL)
        custom = ort_custom_find(strtoull(session->s, NULL, 10));
    if (custom == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the session has no custom operators of the program");
    provider = calloc(1, sizeof *provider);
    if (provider == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider %s", ORT_PROVIDER);
    *provider = (custom_provider){ host, custom };
    *out_state = provider;
    return INLAY_OK;
}

static void destroy(void *state)
{
    free(state);
}

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    const uint8_t *candidates = request->candidates;
    const inlay_assess_sink *sink = request->sink;
    const custom_provider *provider = state;
    inlay_status status = INLAY_OK;

    (void)diag;
    for (uint32_t node = 0; node < graph->node_count && status == INLAY_OK; node++) {
        if (candidates[node] == 0)
            continue;
        if (ort_custom_match(provider->custom, inlay_graph_node(graph, node)) != NULL) {
            const inlay_offer offer = { .struct_size = sizeof offer,
                                        .cookie = node,
                                        .nodes = &node,
                                        .node_count = 1,
                                        .placement_stride = sizeof(inlay_placement) };
            status = sink->offer(sink->ctx, &offer);
        } else {
            const inlay_refusal refusal = { .struct_size = sizeof refusal,
                                            .node = node,
                                            .code = INLAY_REFUSE_OPERATOR,
                                            .text = "not one of the session's custom operators" };
            status = sink->refuse(sink->ctx, &refusal);
        }
    }
    return status;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    (void)state, (void)diag, (void)request;
    out->ns = 10000; /* no other provider supports the node, so the cost has no effect */
    out->confidence = INLAY_CONFIDENCE_GUESS;
    return INLAY_OK;
}

static void release_compiled(void *state, inlay_compiled *compiled)
{
    custom_kernel *kernel = (custom_kernel *)(void *)compiled;

    (void)state;
    if (kernel == NULL)
        return;
    if (kernel->kernel != NULL)
        kernel->op->KernelDestroy(kernel->kernel);
    ort_ports_deinit(&kernel->ports);
    free(kernel);
}

static inlay_status make_kernel(custom_kernel *kernel, inlay_diag *diag)
{
    OrtStatus *failed = ort_custom_kernel_create(kernel->op, kernel->ports.info, &kernel->kernel);

    return failed == NULL ? INLAY_OK : ort_ports_fail(&kernel->ports, "creating its kernel failed", failed, diag);
}

static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    const custom_provider *provider = state;
    const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[0]);
    custom_kernel *kernel = calloc(1, sizeof *kernel);
    inlay_status status = INLAY_OK;

    if (kernel == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel");
    kernel->op = ort_custom_match(provider->custom, node);
    kernel->ports.kind = "custom operator";
    INLAY_CHECK(request->node_count == 1 && kernel->op != NULL);
    INLAY_TRY(ort_custom_check_counts(kernel->op, node, diag));
    INLAY_TRY(ort_ports_init(&kernel->ports, provider->host, request, node, &provider->custom->entries, diag));
    INLAY_TRY(make_kernel(kernel, diag));
    *out_compiled = (inlay_compiled *)(void *)kernel;
    kernel = NULL;
done:
    release_compiled(state, (inlay_compiled *)(void *)kernel);
    return status;
}

static inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    (void)state, (void)diag;
    for (uint32_t i = 0; i < request->output_count; i++) {
        inlay_output_plan *plan =
            (inlay_output_plan *)(void *)((char *)request->outputs + (size_t)i * request->output_stride);

        plan->kind = INLAY_OUTPUT_ALLOCATED;
    }
    *out_instance = (inlay_instance *)(void *)compiled;
    return INLAY_OK;
}

static void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled, (void)instance;
}

static OrtStatus *compute(const void *user, OrtKernelContext *context)
{
    const custom_kernel *kernel = user;

    return ort_custom_kernel_run(kernel->op, kernel->kernel, context);
}

static inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    const custom_provider *provider = state;
    const custom_kernel *kernel = (const custom_kernel *)(const void *)compiled;

    (void)instance;
    return ort_ports_run(&kernel->ports, provider->host, args, NULL, compute, kernel);
}

inlay_status ort_provider_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static const inlay_option options[] = {
        { .name = "session",
          .doc = "number of the session's custom operators, set by the library itself",
          .kind = INLAY_OPTION_STRING },
    };
    static const inlay_provider provider = {
        .struct_size = sizeof provider,
        .name = ORT_PROVIDER,
        .description = "kernels of custom operators that the program registered (OrtCustomOp)",
        .device_kind = INLAY_DEVICE_CPU,
        .options = options,
        .option_count = 1,
        .option_stride = sizeof options[0],
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
    };
    static const inlay_plugin plugin = {
        .struct_size = sizeof plugin,
        .abi_major = INLAY_ABI_MAJOR,
        .abi_minor = INLAY_ABI_MINOR,
        .name = "custom kernels of the program",
        .version = "1",
        .build_id = "1",
        .providers = &provider,
        .provider_count = 1,
        .provider_stride = sizeof provider,
        .operator_stride = sizeof(inlay_operator),
    };

    (void)host, (void)diag;
    *out_plugin = &plugin;
    return INLAY_OK;
}
