/* A region of the host's graph -> ops and values of our own. */
#include "region.h"
#include <stdlib.h>

static inlay_status read_nodes(inlay_compiled *c, const inlay_compile_request *r, inlay_diag *diag)
{
    inlay_status status = kit_region_keep(r, VR_SMALL_BYTES, 1 + VR_TEMPORARIES * r->node_count, &c->region, diag);
    uint32_t most = 0;

    if (status != INLAY_OK)
        return status;
    for (uint32_t n = 0; n < r->node_count; n++)
        most += c->region.nodes[n].input_count;
    c->values = c->region.values;
    c->value_count = c->region.value_count;
    c->ops = kit_region_take(&c->region, r->node_count * sizeof *c->ops);
    c->constants = kit_region_take(&c->region, most * sizeof *c->constants);
    if (c->ops == NULL || c->constants == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", r->node_count);
    for (uint32_t n = 0; n < r->node_count; n++) {
        const kit_node node = { .host = c->state->host,
                                .graph = r->graph,
                                .info = inlay_graph_node(r->graph, r->nodes[n]) };
        kit_refusal why = { 0, "", "" };

        c->ops[n] = (vr_op){ vr_find(&node, &why), c->region.nodes[n] };
        if (c->ops[n].row == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': %s", node.info->name.data, why.text);
        c->op_count++;
    }
    return INLAY_OK;
}

inlay_status vr_compile_on(vr_state *s, gpu_device *g, const inlay_compile_request *r, inlay_compiled **out,
                           inlay_diag *diag)
{
    inlay_compiled *c = calloc(1, sizeof *c);
    uint64_t bytes = 0;
    inlay_status status = INLAY_OK;

    if (c == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", r->node_count);
    c->state = s;
    c->gpu = g;
    INLAY_TRY(read_nodes(c, r, diag));
    vr_list_constants(c, r->graph, &bytes);
    if (r->resident_bytes != NULL)
        *r->resident_bytes = bytes;
    if (bytes > 0)
        INLAY_TRY(gpu_buffer_make(c->gpu, bytes, &c->memory, diag));
    for (uint32_t i = 0; i < c->constant_count; i++) {
        if (r->poll != NULL)
            INLAY_TRY(r->poll(r->ctx));
        INLAY_TRY(vr_upload(c, r, &c->constants[i], diag));
    }
    /* What only this side reads was copied, if it is small; the rest was refused. */
    for (uint32_t v = 0; v < c->value_count; v++)
        if (c->values[v].constant && c->values[v].data != NULL)
            r->constants[c->values[v].snapshot] = INLAY_CONST_COPIED;
    *out = c;
    c = NULL;
done:
    vr_release_compiled(s, c);
    return status;
}

void vr_release_compiled(void *state, inlay_compiled *c)
{
    (void)state;
    if (c == NULL)
        return;
    if (c->gpu != NULL)
        gpu_buffer_drop(c->gpu, &c->memory);
    kit_region_free(&c->region);
    free(c);
}
