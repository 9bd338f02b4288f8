/* Executes an instance. kit_specialize has prepared the tensors; kit_execute copies them to the stack and fills in the
 * addresses of this run's buffers. */
#include "internal.h"

/* The target of kit_call.exec. */
typedef struct kit_active_call {
    const inlay_exec_args *args;
    const kit_unit *unit;
} kit_active_call;

static const inlay_tensor_arg *arg_at(const inlay_tensor_arg *list, uint32_t stride, uint32_t i)
{
    return INLAY_AT(inlay_tensor_arg, list, stride, i);
}

static inline inlay_status run_step(const kit_state *state, const inlay_instance *instance, const kit_step *step,
                                    const inlay_exec_args *args, char *workspace, kit_tensor *tensors)
{
    const kit_unit *unit = step->unit;
    kit_active_call active = { args, unit };
    kit_call call;

    INLAY_CHECK(step->tensor_count == unit->in_count + unit->out_count);
    memcpy(tensors, step->tensors, step->tensor_count * sizeof *tensors);
    for (uint32_t patch_index = 0; patch_index < step->patch_count; patch_index++) {
        const kit_patch *patch = &step->patches[patch_index];
        void *data;

        INLAY_CHECK(patch->tensor < step->tensor_count);
        if (patch->kind == KIT_REF_INPUT)
            data = inlay_buffer_host(&arg_at(args->inputs, args->arg_stride, patch->index)->buffer);
        else if (patch->kind == KIT_REF_OUTPUT)
            data = inlay_buffer_host(&arg_at(args->outputs, args->arg_stride, patch->index)->buffer);
        else
            data = workspace + patch->offset; /* KIT_REF_INNER */
        tensors[patch->tensor].data = data;
    }
    call = (kit_call){ .in = tensors,
                       .out = tensors + unit->in_count,
                       .in_count = unit->in_count,
                       .out_count = unit->out_count,
                       .state = unit->state,
                       .plan = step->plan,
                       .workspace = step->has_scratch ? workspace + step->scratch_offset : NULL,
                       .max_threads = instance->max_threads,
                       .host = state->host,
                       .run = args->run,
                       .diag = args->diag,
                       .exec = &active };
    return unit->kernel->run(&call);
}

inlay_status kit_execute(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args)
{
    kit_tensor local[KIT_STACK_TENSORS], *tensors = local;
    char *workspace = inlay_buffer_host(&args->workspace);

    INLAY_CHECK(instance->step_count == compiled->unit_count);
    if (instance->chain != NULL)
        return kit_chain_run(state, instance->chain, instance->max_threads, args);
    if (compiled->max_tensors > KIT_STACK_TENSORS)
        tensors = (kit_tensor *)(void *)(workspace + instance->tensors_offset);
    for (uint32_t step = 0; step < instance->step_count; step++) {
        inlay_status status = run_step(state, instance, &instance->steps[step], args, workspace, tensors);

        if (status != INLAY_OK) {
            inlay_diag *diag = args->diag;

            /* If the kernel set no message, report the node and the text of the status. */
            if (diag != NULL && diag->code != status)
                (void)inlay_fail(diag, status, "node '%s': %s", instance->steps[step].unit->name,
                                 inlay_status_text(status));
            if (diag != NULL && diag->node[0] == '\0')
                memcpy(diag->node, instance->steps[step].unit->name, sizeof diag->node);
            return status;
        }
    }
    return INLAY_OK;
}

inlay_status kit_parallel(const kit_call *call, int64_t count, int64_t grain, inlay_parallel_fn fn, void *user)
{
    if (count <= 0)
        return INLAY_OK;
    /* Even with one thread, long loops go through the host, which checks for cancellation and the deadline. Without a
     * run, there is nothing to check. */
    if (count <= grain || (call->max_threads <= 1 && call->run == NULL))
        return fn(user, 0, count, 0);
    return call->host->parallel_for(call->host->ctx, call->run, count, grain, fn, user);
}

inlay_status kit_poll(const kit_call *call)
{
    return call->run != NULL ? call->host->poll(call->host->ctx, call->run) : INLAY_OK;
}

inlay_status kit_alloc_output(const kit_call *call, uint32_t i, uint32_t rank, const int64_t *dims)
{
    const kit_active_call *active = call->exec;
    inlay_output_request request = { .struct_size = sizeof request, .dims = dims, .rank = rank };
    const kit_ref *ref;
    inlay_buffer buffer = { 0 };
    kit_tensor *tensor;
    int64_t count = 1;
    inlay_status status;

    if (i >= call->out_count || active->unit->refs[active->unit->in_count + i].kind == KIT_REF_NONE)
        return INLAY_OK; /* the output has no consumer */
    ref = &active->unit->refs[active->unit->in_count + i];
    if (ref->kind != KIT_REF_OUTPUT)
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "node '%s': the shape of an inner value depends on data",
                          active->unit->name);
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] < 0)
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "node '%s': dim %u of output %u would be negative",
                              active->unit->name, d, i);
    request.output = ref->index;
    status = call->host->output_alloc(call->host->ctx, call->run, &request, &buffer);
    if (status != INLAY_OK)
        return inlay_fail(call->diag, status, "node '%s': no memory for output %u", active->unit->name, i);
    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d]; /* output_alloc has checked for overflow */
    tensor = &call->out[i];
    tensor->data = inlay_buffer_host(&buffer);
    tensor->dims = dims;
    tensor->rank = rank;
    tensor->count = count;
    return INLAY_OK;
}

char *kit_alloc_string(const kit_call *call, uint64_t bytes)
{
    return call->host->string_alloc(call->host->ctx, call->run, bytes);
}
