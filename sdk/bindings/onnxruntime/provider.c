/* The provider that runs kernels of custom operators: one node per region; kernels allocate the outputs. */
#include "custom.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state of the provider for one session. */
typedef struct custom_provider {
    const inlay_host *host;
    const ort_custom *custom;
} custom_provider;

typedef struct custom_kernel {
    const OrtCustomOp *op;
    void *kernel;
    OrtKernelInfo *info;
    uint32_t *input_at;  /* [info->input_count] in the run's inputs; INLAY_NONE: a constant, or omitted */
    uint32_t *output_at; /* [info->output_count] in the run's outputs; INLAY_NONE: no consumer */
    inlay_dtype *output_types;
} custom_kernel;

/* ------------------------------------------------------------------ creation and release */

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

/* ------------------------------------------------------------------ assess, cost */

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

/* ------------------------------------------------------------------ compile */

static uint32_t find(const uint32_t *list, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value)
            return i;
    return INLAY_NONE;
}

static void release_compiled(void *state, inlay_compiled *compiled)
{
    custom_kernel *kernel = (custom_kernel *)(void *)compiled;

    (void)state;
    if (kernel == NULL)
        return;
    if (kernel->kernel != NULL)
        kernel->op->KernelDestroy(kernel->kernel);
    ort_ReleaseKernelInfo(kernel->info);
    free(kernel->input_at);
    free(kernel->output_at);
    free(kernel->output_types);
    free(kernel);
}

static inlay_status report_failure(inlay_diag *diag, const char *what, const OrtKernelInfo *info, OrtStatus *failed)
{
    char text[300];
    inlay_status status = failed->code == ORT_INVALID_ARGUMENT ? INLAY_INVALID_ARGUMENT : INLAY_INTERNAL;
    INLAY_CHECK(failed != NULL);

    (void)snprintf(text, sizeof text, "%s", failed->text);
    ort_ReleaseStatus(failed);
    return inlay_fail(diag, status, "custom operator %s (node %s): %s: %s", info->op_type, info->name, what, text);
}

/* Stores the constant inputs of a node in the kernel's info; they stay valid as long as the kernel exists. */
static inlay_status hold_constants(const custom_provider *provider, const inlay_compile_request *request,
                                   const inlay_node_info *node, custom_kernel *kernel, inlay_diag *diag)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const inlay_value_info *info = inlay_graph_value(request->graph, node->inputs[i]);
        int64_t dims[INLAY_MAX_RANK];
        inlay_value *value = NULL;
        const void *data;
        inlay_status status;

        if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0)
            continue;
        data = info->data_bytes > 0
                   ? provider->host->align_constant(provider->host->ctx, request->handle, node->inputs[i], 64)
                   : "";
        if (data == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a constant of %s", kernel->info->name);
        INLAY_CHECK(info->rank <= INLAY_MAX_RANK);
        for (uint32_t d = 0; d < info->rank; d++)
            dims[d] = info->dims[d].value;
        status =
            inlay_value_borrow(info->dtype, info->rank, dims, (void *)(uintptr_t)data, info->data_bytes, &value, diag);
        if (status != INLAY_OK)
            return status;
        request->constants[node->inputs[i]] = INLAY_CONST_BORROWED;
        if (ort_value_wrap(value, &kernel->info->constants[i]) != NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a constant of %s", kernel->info->name);
    }
    return INLAY_OK;
}

static inlay_status make_kernel(custom_kernel *kernel, inlay_diag *diag)
{
    OrtStatus *failed = NULL;

    if (kernel->op->version >= 16 && kernel->op->CreateKernelV2 != NULL)
        failed = kernel->op->CreateKernelV2(kernel->op, ort_table(), kernel->info, &kernel->kernel);
    else
        kernel->kernel = kernel->op->CreateKernel(kernel->op, ort_table(), kernel->info);
    return failed == NULL ? INLAY_OK : report_failure(diag, "creating its kernel failed", kernel->info, failed);
}

/* Checks what the signature of the operator could not state. */
static inlay_status check_counts(const OrtCustomOp *op, const inlay_node_info *node, inlay_diag *diag)
{
    size_t inputs = ort_custom_least(op, false), outputs = ort_custom_least(op, true);

    if (node->input_count < inputs || node->output_count < outputs)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the node has %u inputs and %u outputs, but its operator requires at least %zu and %zu",
                          node->input_count, node->output_count, inputs, outputs);
    return INLAY_OK;
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
    kernel->info = ort_kernel_info_new(request->graph, node, provider->custom);
    kernel->input_at = calloc((size_t)node->input_count + 1, sizeof *kernel->input_at);
    kernel->output_at = calloc((size_t)node->output_count + 1, sizeof *kernel->output_at);
    kernel->output_types = calloc((size_t)node->output_count + 1, sizeof *kernel->output_types);
    if (kernel->info == NULL || kernel->input_at == NULL || kernel->output_at == NULL || kernel->output_types == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel");
        goto done;
    }
    INLAY_CHECK(request->node_count == 1 && kernel->op != NULL);
    for (uint32_t i = 0; i < node->input_count; i++)
        kernel->input_at[i] =
            node->inputs[i] == INLAY_NONE ? INLAY_NONE : find(request->inputs, request->input_count, node->inputs[i]);
    for (uint32_t i = 0; i < node->output_count; i++) {
        const inlay_value_info *value = inlay_graph_value(request->graph, node->outputs[i]);

        kernel->output_at[i] =
            value == NULL ? INLAY_NONE : find(request->outputs, request->output_count, node->outputs[i]);
        kernel->output_types[i] = value == NULL ? INLAY_UNDEFINED : value->dtype;
    }
    INLAY_TRY(check_counts(kernel->op, node, diag));
    INLAY_TRY(hold_constants(provider, request, node, kernel, diag));
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

/* ------------------------------------------------------------------ execute */

static const inlay_tensor_arg *arg_at(const inlay_tensor_arg *list, const inlay_exec_args *args, uint32_t index)
{
    return INLAY_AT(inlay_tensor_arg, list, args->arg_stride, index);
}

static inlay_status wrap_inputs(const custom_kernel *kernel, OrtKernelContext *context)
{
    for (size_t i = 0; i < kernel->info->input_count; i++) {
        inlay_value *value = NULL;
        const inlay_tensor_arg *arg;
        inlay_status status;

        if (kernel->info->constants[i] != NULL)
            context->inputs[i] = ort_value_ref(kernel->info->constants[i]);
        if (kernel->input_at[i] == INLAY_NONE)
            continue;
        INLAY_CHECK(kernel->input_at[i] < context->args->input_count);
        arg = arg_at(context->args->inputs, context->args, kernel->input_at[i]);
        status = inlay_value_borrow(arg->dtype, arg->rank, arg->dims, inlay_buffer_host(&arg->buffer),
                                    arg->buffer.bytes, &value, context->args->diag);
        if (status != INLAY_OK)
            return status;
        if (ort_value_wrap(value, &context->inputs[i]) != NULL)
            return inlay_fail(context->args->diag, INLAY_OUT_OF_MEMORY, "no memory for an input of %s",
                              kernel->info->name);
    }
    return INLAY_OK;
}

/* Copies the strings of an output to memory of the run. */
static inlay_status copy_strings(const OrtKernelContext *context, size_t index, const OrtValue *output)
{
    const inlay_host *host = context->host;
    inlay_buffer buffer;
    inlay_str *to;
    const inlay_output_request request = { .struct_size = sizeof request,
                                           .dims = inlay_value_dims(output->value),
                                           .output = context->output_at[index],
                                           .rank = inlay_value_rank(output->value) };
    inlay_status status = host->output_alloc(host->ctx, context->args->run, &request, &buffer);

    INLAY_CHECK(output->value != NULL && output->strings != NULL);
    if (status != INLAY_OK)
        return status;
    to = inlay_buffer_host(&buffer);
    for (int64_t i = 0; i < inlay_value_count(output->value); i++) {
        uint64_t bytes = output->strings[i].bytes;
        char *text = host->string_alloc(host->ctx, context->args->run, bytes + 1);

        if (text == NULL)
            return INLAY_OUT_OF_MEMORY;
        if (bytes > 0)
            memcpy(text, output->strings[i].data, (size_t)bytes);
        text[bytes] = '\0';
        to[i] = (inlay_str){ text, bytes };
    }
    return INLAY_OK;
}

static inlay_status finish_outputs(const custom_kernel *kernel, const OrtKernelContext *context)
{
    for (size_t i = 0; i < kernel->info->output_count; i++) {
        if (kernel->output_at[i] == INLAY_NONE)
            continue;
        if (context->outputs[i] == NULL)
            return inlay_fail(context->args->diag, INLAY_INTERNAL,
                              "custom operator %s (node %s) did not create output %zu", kernel->info->op_type,
                              kernel->info->name, i);
        if (context->outputs[i]->strings != NULL && copy_strings(context, i, context->outputs[i]) != INLAY_OK)
            return inlay_fail(context->args->diag, INLAY_OUT_OF_MEMORY, "no memory for the strings of %s",
                              kernel->info->name);
    }
    return INLAY_OK;
}

static inlay_status compute(const custom_kernel *kernel, OrtKernelContext *context)
{
    OrtStatus *failed = NULL;
    inlay_status status = wrap_inputs(kernel, context);

    if (status != INLAY_OK)
        return status;
    if (kernel->op->version >= 16 && kernel->op->KernelComputeV2 != NULL)
        failed = kernel->op->KernelComputeV2(kernel->kernel, context);
    else
        kernel->op->KernelCompute(kernel->kernel, context);
    if (failed != NULL)
        return report_failure(context->args->diag, "running its kernel failed", kernel->info, failed);
    return finish_outputs(kernel, context);
}

static inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    const custom_provider *provider = state;
    const custom_kernel *kernel = (const custom_kernel *)(const void *)compiled;
    OrtKernelContext context = { .host = provider->host,
                                 .args = args,
                                 .info = kernel->info,
                                 .output_at = kernel->output_at,
                                 .output_types = kernel->output_types };
    inlay_status status;

    (void)instance;
    context.inputs = calloc(kernel->info->input_count + 1, sizeof(OrtValue *));
    context.outputs = calloc(kernel->info->output_count + 1, sizeof(OrtValue *));
    if (context.inputs != NULL && context.outputs != NULL)
        status = compute(kernel, &context);
    else
        status = inlay_fail(args->diag, INLAY_OUT_OF_MEMORY, "no memory to run %s", kernel->info->name);
    for (size_t i = 0; context.inputs != NULL && i < kernel->info->input_count; i++)
        ort_ReleaseValue(context.inputs[i]);
    for (size_t i = 0; context.outputs != NULL && i < kernel->info->output_count; i++)
        ort_ReleaseValue(context.outputs[i]);
    while (context.scratch != NULL) {
        ort_scratch *next = context.scratch->next;

        free(context.scratch);
        context.scratch = next;
    }
    free(context.inputs);
    free(context.outputs);
    return status;
}

/* ------------------------------------------------------------------ the plugin */

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
