/* Compiles a group: reads its nodes, and packs its weights if the shapes are known. */
#include "onednn/provider.h"

static uint32_t index_in(const uint32_t *list, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value)
            return i;
    return INLAY_NONE;
}

/* Finds the operands: inputs of the region, and constants. */
static inlay_status find_operands(const onednn_state *state, const inlay_compile_request *request,
                                  inlay_compiled *compiled, inlay_diag *diag)
{
    const struct group *group = &compiled->group;

    for (uint32_t i = 0; i < OPERAND_COUNT; i++) {
        const uint32_t value = group->values[i];

        compiled->slots[i] = INLAY_NONE;
        if (value == INLAY_NONE)
            continue;
        if (!group->constant[i]) {
            compiled->slots[i] = index_in(request->inputs, request->input_count, value);
            if (compiled->slots[i] == INLAY_NONE)
                return inlay_fail(diag, INLAY_INTERNAL, "node '%s': an input is not one of the region", group->name);
            continue;
        }
        compiled->constants[i] = state->host->align_constant(state->host->ctx, request->handle, value, 64);
        if (compiled->constants[i] == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "node '%s': no memory for a constant", group->name);
    }
    return INLAY_OK;
}

/* Is the constant of the weights another operand, too, of which there is no pack? */
static bool is_read_elsewhere(const struct group *group)
{
    bool found = false;

    for (uint32_t i = 0; i < OPERAND_COUNT; i++)
        found = found || (i != OPERAND_WEIGHTS && group->values[i] == group->values[OPERAND_WEIGHTS]);
    return found;
}

static bool is_fixed(const inlay_value_info *value)
{
    for (uint32_t d = 0; d < value->rank; d++)
        if (value->rank == INLAY_RANK_UNKNOWN || value->dims[d].kind != INLAY_DIM_FIXED)
            return false;
    return true;
}

/* Builds an instance for the expected shapes, which packs the weights. If these are the only shapes, the host may
 * release the original. */
static inlay_status pack_weights(const onednn_state *state, const inlay_compile_request *request,
                                 inlay_compiled *compiled, inlay_diag *diag)
{
    const uint32_t weights = compiled->group.values[OPERAND_WEIGHTS];
    const pack_source source = {
        .node = { .host = state->host,
                  .graph = request->graph,
                  .info = inlay_graph_node(request->graph, request->nodes[0]),
                  .compile_handle = request->handle },
        .hash = inlay_graph_value(request->graph, weights)->content_hash,
    };
    inlay_instance *instance = NULL;
    uint64_t workspace;
    inlay_status status;

    if (request->profile == NULL)
        return INLAY_OK;
    status = instance_build(state, compiled, &source, request->profile, request->profile_stride, request->max_threads,
                            &workspace, &instance, diag);
    instance_destroy(instance);
    if (status != INLAY_OK)
        return status == INLAY_UNSUPPORTED ? INLAY_OK : status; /* the shapes of the runs may be others */
    if (compiled->packs == NULL || is_read_elsewhere(&compiled->group) || request->constants == NULL ||
        !is_fixed(inlay_graph_value(request->graph, compiled->group.values[OPERAND_INPUT])))
        return INLAY_OK;
    request->constants[weights] = INLAY_CONST_PACKED;
    compiled->constants[OPERAND_WEIGHTS] = NULL;
    return INLAY_OK;
}

inlay_status onednn_compile(void *state_, const inlay_compile_request *request, inlay_compiled **out, inlay_diag *diag)
{
    const onednn_state *state = state_;
    inlay_compiled *compiled = calloc(1, sizeof *compiled);
    kit_refusal why = { 0, "", "" };
    inlay_status status = INLAY_OK;

    *out = NULL;
    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to compile a region");
    (void)pthread_mutex_init(&compiled->lock, NULL);
    if (!group_read(state, request->graph, request->nodes, request->node_count, &compiled->group, &why)) {
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s", why.text);
        goto done;
    }
    INLAY_TRY(find_operands(state, request, compiled, diag));
    if (compiled->group.constant[OPERAND_WEIGHTS])
        INLAY_TRY(pack_weights(state, request, compiled, diag));
    *out = compiled;
    compiled = NULL;
done:
    onednn_release_compiled(state_, compiled);
    return status;
}

void onednn_release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state;
    if (compiled == NULL)
        return;
    packs_destroy(compiled);
    (void)pthread_mutex_destroy(&compiled->lock);
    free(compiled);
}
