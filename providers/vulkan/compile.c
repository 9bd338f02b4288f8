/* Compiles a region of the host's graph: its ops, values and constants. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include <stdlib.h>

static inlay_status read_nodes(inlay_compiled *compiled, const inlay_compile_request *request, inlay_diag *diag)
{
    inlay_status status = kit_region_keep(request, VULKAN_SMALL_BYTES, 1 + VULKAN_MAX_TEMPORARIES * request->node_count,
                                          &compiled->region, diag);
    uint32_t most = 0;

    if (status != INLAY_OK)
        return status;
    for (uint32_t node_index = 0; node_index < request->node_count; node_index++)
        most += compiled->region.nodes[node_index].input_count;
    compiled->values = compiled->region.values;
    compiled->value_count = compiled->region.value_count;
    compiled->ops = kit_region_take(&compiled->region, request->node_count * sizeof *compiled->ops);
    compiled->constants = kit_region_take(&compiled->region, most * sizeof *compiled->constants);
    if (compiled->ops == NULL || compiled->constants == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", request->node_count);
    for (uint32_t node_index = 0; node_index < request->node_count; node_index++) {
        const kit_node node = { .host = compiled->state->host,
                                .graph = request->graph,
                                .info = inlay_graph_node(request->graph, request->nodes[node_index]) };
        kit_refusal why = { 0, "", "" };

        compiled->ops[node_index] =
            (vulkan_op){ vulkan_find_operator(&node, &why), compiled->region.nodes[node_index] };
        if (compiled->ops[node_index].row == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': %s", node.info->name.data, why.text);
        compiled->op_count++;
    }
    return INLAY_OK;
}

/* A region whose constants do not fit on the device is declined, so that another provider runs it. */
static inlay_status create_memory(inlay_compiled *compiled, uint64_t bytes, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    const inlay_status status = gpu_buffer_create(compiled->gpu, bytes, &compiled->memory, &why);

    return status == INLAY_OK ? INLAY_OK
                              : inlay_fail(diag, status == INLAY_OUT_OF_MEMORY ? INLAY_UNSUPPORTED : status,
                                           "constants of %u nodes: %s", compiled->op_count, why.text);
}

inlay_status vulkan_compile_on(vulkan_state *state, gpu_device *device, const inlay_compile_request *request,
                               inlay_compiled **out, inlay_diag *diag)
{
    inlay_compiled *compiled = calloc(1, sizeof *compiled);
    uint64_t bytes = 0;
    inlay_status status = INLAY_OK;

    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", request->node_count);
    compiled->state = state;
    compiled->gpu = device;
    INLAY_TRY(read_nodes(compiled, request, diag));
    vulkan_list_constants(compiled, request->graph, &bytes);
    if (request->resident_bytes != NULL)
        *request->resident_bytes = bytes;
    if (bytes > 0)
        INLAY_TRY(create_memory(compiled, bytes, diag));
    for (uint32_t i = 0; i < compiled->constant_count; i++) {
        if (request->poll != NULL)
            INLAY_TRY(request->poll(request->ctx));
        INLAY_TRY(vulkan_upload(compiled, request, &compiled->constants[i], diag));
    }
    INLAY_TRY(gpu_copy_list(device, NULL, 0, diag)); /* submits the uploads */
    /* kit_region_keep() copied small constants that the device does not read. Nodes with larger ones were declined. */
    for (uint32_t value = 0; value < compiled->value_count; value++)
        if (compiled->values[value].constant && compiled->values[value].data != NULL)
            request->constants[compiled->values[value].snapshot] = INLAY_CONST_COPIED;
    INLAY_CHECK(compiled->op_count == request->node_count);
    *out = compiled;
    compiled = NULL;
done:
    vulkan_release_compiled(state, compiled);
    return status;
}

void vulkan_release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state;
    if (compiled == NULL)
        return;
    if (compiled->gpu != NULL)
        gpu_buffer_destroy(compiled->gpu, &compiled->memory);
    kit_region_free(&compiled->region);
    free(compiled);
}
