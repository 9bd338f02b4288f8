/* Builds an instance of a group for concrete shapes: the library's kernel, and the changes of layout that it needs. */
#include "onednn/builder.h"
#include "inlay/check.h"

#define SHARED_FLOPS 4e5 /* with less work, one thread is faster */

static bool read_tensor(const inlay_value_state *values, uint32_t stride, uint32_t value, struct tensor *out)
{
    const inlay_value_state *state = INLAY_AT(inlay_value_state, values, stride, value);

    if (state->rank == INLAY_RANK_UNKNOWN || state->rank > MOST_RANK)
        return false;
    *out = (struct tensor){ state->dims, state->rank };
    for (uint32_t d = 0; d < state->rank; d++)
        if (state->dims[d] < 0)
            return false;
    return tensor_count(out) <= MOST_ELEMENTS;
}

/* Reads the sizes of all operands; false: the library cannot compute these. */
static bool read_sizes(struct builder *builder, const inlay_value_state *values, uint32_t stride)
{
    const struct group *group = builder->group;

    if (!read_tensor(values, stride, group->output, &builder->output))
        return false;
    for (uint32_t i = 0; i < OPERAND_COUNT; i++)
        if (group->values[i] != INLAY_NONE && !read_tensor(values, stride, group->values[i], &builder->operands[i]))
            return false;
    builder->instance->output_count = tensor_count(&builder->output);
    return builder->instance->output_count == 0 ||
           (tensor_count(&builder->operands[OPERAND_INPUT]) > 0 &&
            (group->values[OPERAND_WEIGHTS] == INLAY_NONE || tensor_count(&builder->operands[OPERAND_WEIGHTS]) > 0) &&
            (group->values[OPERAND_ADDEND] == INLAY_NONE ||
             (builder->operands[OPERAND_ADDEND].rank == builder->output.rank &&
              memcmp(builder->operands[OPERAND_ADDEND].dims, builder->output.dims,
                     builder->output.rank * sizeof(int64_t)) == 0)));
}

static double flops_of(const struct builder *builder)
{
    const struct group *group = builder->group;
    const struct tensor *input = &builder->operands[OPERAND_INPUT];
    double flops = 2.0 * (double)tensor_count(group->kind == GROUP_DECONV ? input : &builder->output);

    if (group->kind == GROUP_PRODUCT)
        return flops * (double)input->dims[input->rank - (group->input_transposed ? 2 : 1)];
    for (uint32_t i = 0; i < group->spatial; i++)
        flops *= (double)group->kernel[i];
    return flops * (double)builder->operands[OPERAND_WEIGHTS].dims[1];
}

static inlay_status build(struct builder *builder)
{
    inlay_instance *instance = builder->instance;
    inlay_status status;

    switch (builder->group->kind) {
    case GROUP_CONV:
    case GROUP_DECONV:
        status = builder_add_window(builder);
        break;
    default:
        status = builder_add_product(builder);
        break;
    }
    for (uint32_t i = 0; status == INLAY_OK && (i == 0 || i < instance->parts_end - instance->parts_begin); i++)
        if (dnnl_stream_create(&instance->streams[i], builder->state->engine, dnnl_stream_default_flags) !=
            dnnl_success)
            status = inlay_fail(builder->diag, INLAY_OUT_OF_MEMORY, "no memory for a stream of oneDNN");
    return status;
}

inlay_status instance_build(const onednn_state *state, inlay_compiled *compiled, const pack_source *source,
                            const inlay_value_state *values, uint32_t stride, uint32_t max_threads,
                            uint64_t *out_workspace_bytes, inlay_instance **out, inlay_diag *diag)
{
    struct builder builder = { .state = state,
                               .compiled = compiled,
                               .group = &compiled->group,
                               .source = source,
                               .instance = calloc(1, sizeof *builder.instance),
                               .reduced = group_is_reduced(state, &compiled->group),
                               .diag = diag };
    inlay_status status = INLAY_OK;

    *out = NULL;
    if (builder.instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to prepare node '%s'", compiled->group.name);
    builder.instance->compiled = compiled;
    builder.instance->threads = max_threads > 0 ? max_threads : 1;
    if (!group_fuses_function(state, &compiled->group))
        builder.instance->function = compiled->group.function;
    if (!read_sizes(&builder, values, stride)) {
        status =
            inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': oneDNN does not compute these sizes", compiled->group.name);
        goto done;
    }
    if (builder.instance->output_count > 0) {
        int before;

        builder.alone = flops_of(&builder) < SHARED_FLOPS || builder.instance->threads == 1;
        before = threads_set(builder.alone ? 1 : (int)builder.instance->threads); /* also for packing weights */
        status = build(&builder);
        (void)threads_set(before);
        if (status != INLAY_OK)
            goto done;
    }
    *out_workspace_bytes = builder.workspace;
    *out = builder.instance;
    builder.instance = NULL;
done:
    instance_destroy(builder.instance);
    return status;
}

void instance_destroy(inlay_instance *instance)
{
    if (instance == NULL)
        return;
    for (uint32_t s = 0; s < instance->step_count; s++) {
        for (uint32_t i = 0; i < instance->steps[s].count; i++)
            if (instance->steps[s].args[i].memory != NULL)
                (void)dnnl_memory_destroy(instance->steps[s].args[i].memory);
        if (instance->steps[s].primitive != NULL)
            (void)dnnl_primitive_destroy(instance->steps[s].primitive);
        if (instance->steps[s].copy != NULL)
            free(instance->steps[s].copy->tables);
        free(instance->steps[s].copy);
    }
    for (uint32_t i = 0; i < MOST_PARTS; i++)
        if (instance->streams[i] != NULL)
            (void)dnnl_stream_destroy(instance->streams[i]);
    for (uint32_t i = 0; i < instance->pack_count; i++)
        pack_release(instance->compiled, instance->packs[i]);
    free(instance);
}

inlay_status onednn_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out, inlay_diag *diag)
{
    return instance_build(state, compiled, NULL, request->values, request->value_stride, request->max_threads,
                          &request->workspace_bytes, out, diag);
}

void onednn_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled;
    instance_destroy(instance);
}
