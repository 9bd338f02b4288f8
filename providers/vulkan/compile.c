/* A region of the host's graph -> ops and values of our own, and constants on the device. */
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

/* ------------------------------------------------------------------ constants */

const vr_constant *vr_find_constant(const inlay_compiled *c, uint32_t value, const vr_panels *panels)
{
    for (uint32_t i = 0; i < c->constant_count; i++) {
        const vr_constant *k = &c->constants[i];

        if (k->value == value && k->packed == (panels != NULL) &&
            (panels == NULL || memcmp(panels, &k->panels, sizeof *panels) == 0))
            return k;
    }
    return NULL;
}

static uint64_t packed_bytes(const inlay_compiled *c, const vr_panels *p, uint32_t size)
{
    const int64_t width = vr_panel(&c->gpu->facts);

    return (uint64_t)(p->groups * ((p->columns + width - 1) / width * width) * p->taps * p->k) * size;
}

/* Which constants the device reads, and how; *out_bytes is what they take. */
static void list_constants(inlay_compiled *c, const inlay_graph *graph, uint64_t *out_bytes)
{
    uint64_t at = 0;

    for (uint32_t o = 0; o < c->op_count; o++) {
        const vr_op *op = &c->ops[o];

        for (uint32_t i = 0; i < op->info.input_count; i++) {
            const uint32_t v = op->info.inputs[i];
            vr_constant k = { .value = v, .offset = at };
            const inlay_value_info *info;
            int64_t dims[VR_RANK];

            if (v == INLAY_NONE || !c->values[v].constant || vr_is_hosts(op->row, i))
                continue;
            info = inlay_graph_value(graph, c->values[v].snapshot);
            for (uint32_t d = 0; d < info->rank && d < VR_RANK; d++)
                dims[d] = info->dims[d].value;
            k.packed = info->rank <= VR_RANK && vr_wants_panels(op, i, info->rank, dims, &k.panels);
            if (vr_find_constant(c, v, k.packed ? &k.panels : NULL) != NULL)
                continue;
            k.bytes = k.packed ? packed_bytes(c, &k.panels, vr_size_of(info->dtype)) : info->data_bytes;
            c->constants[c->constant_count++] = k;
            at += (k.bytes + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
        }
    }
    *out_bytes = at;
}

/* What is behind the last column stays 0. */
static void pack(uint8_t *to, const uint8_t *from, const vr_panels *p, int64_t width, size_t size)
{
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t first = 0; first < p->columns; first += width)
            for (int64_t tap = 0; tap < p->taps; tap++)
                for (int64_t k = 0; k < p->k; k++, to += (size_t)width * size) {
                    const uint8_t *row =
                        from +
                        (size_t)(g * p->group_step + first * p->column_step + tap * p->tap_step + k * p->k_step) * size;
                    const int64_t left = p->columns - first, columns = left < width ? left : width;

                    for (int64_t n = 0; n < columns; n++)
                        memcpy(to + (size_t)n * size, row + (size_t)(n * p->column_step) * size, size);
                }
}

static inlay_status upload(inlay_compiled *c, const inlay_compile_request *r, const vr_constant *k, inlay_diag *diag)
{
    const inlay_value_info *info = inlay_graph_value(r->graph, c->values[k->value].snapshot);
    uint8_t *packed;
    inlay_status status;

    r->constants[c->values[k->value].snapshot] = k->packed ? INLAY_CONST_PACKED : INLAY_CONST_COPIED;
    if (!k->packed)
        return gpu_write(c->gpu, &c->memory, k->offset, info->data, k->bytes, diag);
    packed = calloc(1, k->bytes + 1);
    if (packed == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to pack '%s'", info->name.data);
    pack(packed, info->data, &k->panels, vr_panel(&c->gpu->facts), vr_size_of(info->dtype));
    status = gpu_write(c->gpu, &c->memory, k->offset, packed, k->bytes, diag);
    free(packed);
    return status;
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
    list_constants(c, r->graph, &bytes);
    if (r->resident_bytes != NULL)
        *r->resident_bytes = bytes;
    if (bytes > 0)
        INLAY_TRY(gpu_buffer_make(c->gpu, bytes, &c->memory, diag));
    for (uint32_t i = 0; i < c->constant_count; i++) {
        if (r->poll != NULL)
            INLAY_TRY(r->poll(r->ctx));
        INLAY_TRY(upload(c, r, &c->constants[i], diag));
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

inlay_status vr_compile(void *state, const inlay_compile_request *r, inlay_compiled **out, inlay_diag *diag)
{
    gpu_device *g = NULL;
    const inlay_status status = vr_open(state, &g, diag);

    return status == INLAY_OK ? vr_compile_on(state, g, r, out, diag) : status;
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
