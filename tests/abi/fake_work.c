/* The regions of the fake device: compile, specialize, bind. */
#include "fake_work.h"
#include <stdlib.h>
#include <string.h>

static const char *const op_names[OP_COUNT] = { "Neg", "Relu", "Add", "Mul", "NonZero" };

int op_of(const inlay_node_info *node)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(node->op_type.data, op_names[op]) == 0 && strcmp(node->domain.data, "ai.onnx") == 0)
            return op;
    return -1;
}

uint32_t find(const uint32_t *list, uint32_t count_of_list, uint32_t value)
{
    for (uint32_t i = 0; i < count_of_list; i++)
        if (list[i] == value)
            return i;
    return INLAY_NONE;
}

void release_compiled(void *state, inlay_compiled *compiled)
{
    struct device *device = state;

    if (compiled == NULL)
        return;
    for (uint32_t i = 0; i < compiled->constant_count; i++)
        fake_free(device, &compiled->constants[i]);
    free(compiled->constants);
    free(compiled->steps);
    free(compiled);
    count(&device->counters.live_regions, -1);
}

static inlay_status upload(struct device *device, const inlay_compile_request *request, inlay_compiled *compiled,
                           uint32_t value, struct operand *out, inlay_diag *diag)
{
    const inlay_value_info *info = inlay_graph_value(request->graph, value);
    inlay_buffer *buffer = &compiled->constants[compiled->constant_count];
    inlay_status status = fake_alloc(device, device->domain, info->data_bytes, ALIGNMENT, buffer, diag);

    if (status != INLAY_OK)
        return status;
    memcpy(device->buffers[buffer->handle - HANDLE_BASE].data, info->data, info->data_bytes);
    out->from = FROM_CONSTANT;
    out->index = compiled->constant_count++;
    request->constants[value] = INLAY_CONST_COPIED;
    return INLAY_OK;
}

static inlay_status read_operand(struct device *device, const inlay_compile_request *request, inlay_compiled *compiled,
                                 uint32_t value, struct operand *out, inlay_diag *diag)
{
    *out = (struct operand){ .value = value };
    if ((inlay_graph_value(request->graph, value)->flags & INLAY_VALUE_CONSTANT) != 0)
        return upload(device, request, compiled, value, out, diag);
    for (uint32_t step = 0; step < compiled->step_count; step++) {
        if (compiled->steps[step].out.value == value) {
            *out = compiled->steps[step].out;
            return INLAY_OK;
        }
    }
    out->from = FROM_INPUT;
    out->index = find(request->inputs, request->input_count, value);
    if (out->index == INLAY_NONE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "fake: a value that is neither an input nor computed");
    return INLAY_OK;
}

inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled, inlay_diag *diag)
{
    struct device *device = state;
    inlay_compiled *compiled = calloc(1, sizeof *compiled);
    inlay_status status = INLAY_OK;

    *out_compiled = NULL;
    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: compile");
    count(&device->counters.live_regions, 1);
    compiled->steps = calloc(request->node_count, sizeof *compiled->steps);
    compiled->constants = calloc((size_t)2 * request->node_count, sizeof *compiled->constants);
    if (compiled->steps == NULL || compiled->constants == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: compile");
        goto done;
    }
    for (uint32_t node_index = 0; node_index < request->node_count; node_index++) {
        const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[node_index]);
        struct step *step = &compiled->steps[compiled->step_count];

        step->op = op_of(node);
        step->node = request->nodes[node_index];
        step->in_count = node->input_count;
        for (uint32_t i = 0; i < step->in_count; i++)
            INLAY_TRY(read_operand(device, request, compiled, node->inputs[i], &step->in[i], diag));
        step->out = (struct operand){ .from = FROM_OUTPUT, .value = node->outputs[0] };
        step->out.index = find(request->outputs, request->output_count, node->outputs[0]);
        if (step->out.index == INLAY_NONE)
            step->out =
                (struct operand){ .from = FROM_INNER, .index = compiled->inner_count++, .value = node->outputs[0] };
        compiled->step_count++;
    }
    count(&device->counters.compiled, 1);
    if (request->node_count > device->counters.largest)
        device->counters.largest = request->node_count;
    for (uint32_t o = 0; o < request->offer_count; o++)
        if (request->cookies[o] == 2)
            count(&device->counters.groups, 1);
    if (request->cache_blob != NULL && request->cache_bytes == 9 && memcmp(request->cache_blob, "fake blob", 9) == 0 &&
        (uintptr_t)request->cache_blob % 4096 == 0)
        count(&device->counters.seen_blobs, 1);
    else if (request->store_begin != NULL && request->store_begin(request->ctx, 0) == INLAY_OK &&
             request->store_write(request->ctx, "fake ", 5) == INLAY_OK &&
             request->store_write(request->ctx, "blob", 4) == INLAY_OK && request->store_end(request->ctx) == INLAY_OK)
        count(&device->counters.stored_blobs, 1);
    if (INLAY_HAS(request, resident_bytes) && request->resident_bytes != NULL) /* the offers do not state this number */
        for (uint32_t i = 0; i < compiled->constant_count; i++)
            *request->resident_bytes += compiled->constants[i].bytes;
    *out_compiled = compiled;
    compiled = NULL;
done:
    release_compiled(device, compiled);
    return status;
}

inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                        inlay_instance **out_instance, inlay_diag *diag)
{
    struct device *device = state;
    inlay_instance *instance = calloc(1, sizeof *instance + compiled->step_count * sizeof instance->counts[0]);
    const inlay_value_state *value_state =
        INLAY_AT(inlay_value_state, request->values, request->value_stride, compiled->steps[0].in[0].value);
    int64_t most = 0;

    *out_instance = NULL;
    if (instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: specialize");
    instance->rank = value_state->rank;
    memcpy(instance->dims, value_state->dims, value_state->rank * sizeof *value_state->dims);
    for (uint32_t step = 0; step < compiled->step_count; step++) {
        const inlay_value_state *input_state =
            INLAY_AT(inlay_value_state, request->values, request->value_stride, compiled->steps[step].in[0].value);

        instance->counts[step] = 1;
        for (uint32_t i = 0; i < input_state->rank; i++)
            instance->counts[step] *= input_state->dims[i];
        most = instance->counts[step] > most ? instance->counts[step] : most;
    }
    instance->inner_bytes = ((uint64_t)most * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    request->workspace_bytes = instance->inner_bytes * compiled->inner_count;
    request->workspace_alignment = (uint64_t)device->workspace_align;
    if (compiled->steps[0].op == OP_NONZERO) {
        request->outputs[0].kind = device->bounded ? INLAY_OUTPUT_BOUNDED : INLAY_OUTPUT_ALLOCATED;
        request->outputs[0].max_bytes = (uint64_t)instance->counts[0] * instance->rank * sizeof(int64_t);
    } else if (device->in_place && compiled->step_count == 1 && compiled->steps[0].in[0].from == FROM_INPUT)
        request->outputs[0].alias = compiled->steps[0].in[0].index;
    count(&device->counters.live_regions, 1);
    *out_instance = instance;
    return INLAY_OK;
}

void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)compiled;
    free(instance);
    count(&((struct device *)state)->counters.live_regions, -1);
}

struct inlay_binding {
    uint32_t count;
    inlay_buffer workspace;
    inlay_buffer buffers[]; /* of inputs and outputs; handle 0: differs in each run */
};

inlay_status bind(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_bind_args *args,
                  inlay_binding **out_binding, inlay_diag *diag)
{
    const uint32_t count_all = args->input_count + args->output_count;
    inlay_binding *binding = calloc(1, sizeof *binding + count_all * sizeof binding->buffers[0]);

    (void)instance;
    if (compiled->steps[0].op == OP_NONZERO) {
        free(binding);
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: nothing to bind");
    }
    if (binding == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: bind");
    if (args->struct_size < sizeof *args)
        count(&((struct device *)state)->counters.misuse, 1);
    binding->workspace = args->workspace;
    for (uint32_t i = 0; i < count_all; i++)
        binding->buffers[binding->count++] =
            i < args->input_count
                ? INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i)->buffer
                : INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, i - args->input_count)->buffer;
    count(&((struct device *)state)->counters.live_bindings, 1);
    *out_binding = binding;
    return INLAY_OK;
}

void release_binding(void *state, inlay_compiled *compiled, inlay_instance *instance, inlay_binding *binding)
{
    (void)compiled, (void)instance;
    free(binding);
    count(&((struct device *)state)->counters.live_bindings, -1);
}

/* Checks that the addresses are those of the binding. */
void check_binding(struct device *device, const inlay_exec_args *args)
{
    const inlay_binding *binding = args->binding;

    if (binding == NULL)
        return;
    count(&device->counters.bound_runs, 1);
    if (args->workspace.handle != binding->workspace.handle || args->workspace.offset != binding->workspace.offset)
        count(&device->counters.misuse, 1);
    for (uint32_t i = 0; i < binding->count; i++) {
        const inlay_buffer *current =
            i < args->input_count
                ? &INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i)->buffer
                : &INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, i - args->input_count)->buffer;

        if (binding->buffers[i].handle != 0 &&
            (current->handle != binding->buffers[i].handle || current->offset != binding->buffers[i].offset))
            count(&device->counters.misuse, 1);
    }
}
