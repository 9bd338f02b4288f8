/* The inputs, constants and outputs of a node in a region, and its run: for custom operators, and for kernels and fused
 * nodes of plug-in execution providers. */
#include "custom.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t find(const uint32_t *list, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value)
            return i;
    return INLAY_NONE;
}

inlay_status ort_ports_fail(const ort_ports *ports, const char *what, OrtStatus *failed, inlay_diag *diag)
{
    char text[300];
    inlay_status status = failed->code == ORT_INVALID_ARGUMENT ? INLAY_INVALID_ARGUMENT : INLAY_INTERNAL;
    INLAY_CHECK(failed != NULL);

    (void)snprintf(text, sizeof text, "%s", failed->text);
    ort_ReleaseStatus(failed);
    return inlay_fail(diag, status, "%s %s (node %s): %s: %s", ports->kind, ports->info->op_type, ports->info->name,
                      what, text);
}

/* Stores the constant inputs of a node in the kernel's info; they stay valid as long as the region exists. */
static inlay_status hold_constants(const ort_ports *ports, const inlay_host *host, const inlay_compile_request *request,
                                   const inlay_node_info *node, inlay_diag *diag)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const inlay_value_info *info = inlay_graph_value(request->graph, node->inputs[i]);
        int64_t dims[INLAY_MAX_RANK];
        inlay_value *value = NULL;
        const void *data;
        inlay_status status;

        if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0)
            continue;
        data = info->data_bytes > 0 ? host->align_constant(host->ctx, request->handle, node->inputs[i], 64) : "";
        if (data == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a constant of %s", ports->info->name);
        INLAY_CHECK(info->rank <= INLAY_MAX_RANK);
        for (uint32_t d = 0; d < info->rank; d++)
            dims[d] = info->dims[d].value;
        status =
            inlay_value_borrow(info->dtype, info->rank, dims, (void *)(uintptr_t)data, info->data_bytes, &value, diag);
        if (status != INLAY_OK)
            return status;
        request->constants[node->inputs[i]] = INLAY_CONST_BORROWED;
        if (ort_value_wrap(value, &ports->info->constants[i]) != NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a constant of %s", ports->info->name);
    }
    return INLAY_OK;
}

inlay_status ort_ports_init(ort_ports *ports, const inlay_host *host, const inlay_compile_request *request,
                            const inlay_node_info *node, const OrtKeyValuePairs *entries, inlay_diag *diag)
{
    ports->info = ort_kernel_info_new(request->graph, node, entries);
    ports->input_at = calloc((size_t)node->input_count + 1, sizeof *ports->input_at);
    ports->output_at = calloc((size_t)node->output_count + 1, sizeof *ports->output_at);
    ports->output_types = calloc((size_t)node->output_count + 1, sizeof *ports->output_types);
    if (ports->info == NULL || ports->input_at == NULL || ports->output_at == NULL || ports->output_types == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel");
    for (uint32_t i = 0; i < node->input_count; i++)
        ports->input_at[i] =
            node->inputs[i] == INLAY_NONE ? INLAY_NONE : find(request->inputs, request->input_count, node->inputs[i]);
    for (uint32_t i = 0; i < node->output_count; i++) {
        const inlay_value_info *value = inlay_graph_value(request->graph, node->outputs[i]);

        ports->output_at[i] =
            value == NULL ? INLAY_NONE : find(request->outputs, request->output_count, node->outputs[i]);
        ports->output_types[i] = value == NULL ? INLAY_UNDEFINED : value->dtype;
    }
    return hold_constants(ports, host, request, node, diag);
}

void ort_ports_deinit(ort_ports *ports)
{
    ort_ReleaseKernelInfo(ports->info);
    free(ports->input_at);
    free(ports->output_at);
    free(ports->output_types);
    *ports = (ort_ports){ 0 };
}

static const inlay_tensor_arg *arg_at(const inlay_tensor_arg *list, const inlay_exec_args *args, uint32_t index)
{
    return INLAY_AT(inlay_tensor_arg, list, args->arg_stride, index);
}

static inlay_status wrap_inputs(const ort_ports *ports, OrtKernelContext *context)
{
    for (size_t i = 0; i < ports->info->input_count; i++) {
        inlay_value *value = NULL;
        const inlay_tensor_arg *arg;
        inlay_status status;

        if (ports->info->constants[i] != NULL)
            context->inputs[i] = ort_value_ref(ports->info->constants[i]);
        if (ports->input_at[i] == INLAY_NONE)
            continue;
        INLAY_CHECK(ports->input_at[i] < context->args->input_count);
        arg = arg_at(context->args->inputs, context->args, ports->input_at[i]);
        status = inlay_value_borrow(arg->dtype, arg->rank, arg->dims, inlay_buffer_host(&arg->buffer),
                                    arg->buffer.bytes, &value, context->args->diag);
        if (status != INLAY_OK)
            return status;
        if (ort_value_wrap(value, &context->inputs[i]) != NULL)
            return inlay_fail(context->args->diag, INLAY_OUT_OF_MEMORY, "no memory for an input of %s",
                              ports->info->name);
        if (arg->buffer.domain != INLAY_DOMAIN_HOST)
            context->inputs[i]->memory = context->memory;
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
    ort_strings_sync(output);
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

static inlay_status finish_outputs(const ort_ports *ports, const OrtKernelContext *context)
{
    for (size_t i = 0; i < ports->info->output_count; i++) {
        if (ports->output_at[i] == INLAY_NONE)
            continue;
        if (context->outputs[i] == NULL)
            return inlay_fail(context->args->diag, INLAY_INTERNAL, "%s %s (node %s) did not create output %zu",
                              ports->kind, ports->info->op_type, ports->info->name, i);
        if (context->outputs[i]->strings != NULL && copy_strings(context, i, context->outputs[i]) != INLAY_OK)
            return inlay_fail(context->args->diag, INLAY_OUT_OF_MEMORY, "no memory for the strings of %s",
                              ports->info->name);
    }
    return INLAY_OK;
}

static inlay_status compute_all(const ort_ports *ports, OrtKernelContext *context, ort_compute_fn compute,
                                const void *user)
{
    OrtStatus *failed;
    inlay_status status = wrap_inputs(ports, context);

    if (status != INLAY_OK)
        return status;
    failed = compute(user, context);
    if (failed != NULL)
        return ort_ports_fail(ports, "running its kernel failed", failed, context->args->diag);
    return finish_outputs(ports, context);
}

inlay_status ort_ports_run(const ort_ports *ports, const inlay_host *host, const inlay_exec_args *args,
                           const OrtMemoryInfo *memory, ort_compute_fn compute, const void *user)
{
    const size_t port_count = ports->info->input_count + ports->info->output_count;
    OrtValue *few[32] = { NULL }; /* runs of most nodes need no memory */
    OrtValue **values = port_count > sizeof few / sizeof few[0] ? calloc(port_count, sizeof *values) : few;
    OrtKernelContext context = { .host = host,
                                 .args = args,
                                 .info = ports->info,
                                 .memory = memory,
                                 .output_at = ports->output_at,
                                 .output_types = ports->output_types };
    inlay_status status;

    if (values == NULL)
        return inlay_fail(args->diag, INLAY_OUT_OF_MEMORY, "no memory to run %s", ports->info->name);
    context.inputs = values;
    context.outputs = values + ports->info->input_count;
    status = compute_all(ports, &context, compute, user);
    for (size_t i = 0; i < port_count; i++)
        ort_ReleaseValue(values[i]);
    while (context.scratch != NULL) {
        ort_scratch *next = context.scratch->next;

        free(context.scratch);
        context.scratch = next;
    }
    if (values != few)
        free(values);
    return status;
}
