/* The constants of a region on the device: as they are, or in the panels that products read. */
#include "region.h"
#include <stdlib.h>

uint32_t vr_panel_columns(const gpu_facts *f)
{
    return f->is_cpu ? 2 : 4;
}

uint32_t vr_panel_lanes(const gpu_facts *f)
{
    return f->shuffles ? f->subgroup : f->is_cpu ? 8 : 32;
}

uint32_t vr_panel(const gpu_facts *f)
{
    return vr_panel_columns(f) * vr_panel_lanes(f);
}

bool vr_wants_panels(const vr_op *op, uint32_t input, uint32_t rank, const int64_t *dims, vr_panels *out)
{
    const bool turned = kit_attr_int(&op->info, "transB", 0) != 0;
    vr_panels p = { .groups = 1, .taps = 1 };

    if (input != 1)
        return false;
    if (rank > 2 && (op->row->family == &vr_conv || op->row->family == &vr_conv_transpose)) {
        p.groups = kit_attr_int(&op->info, "group", 1);
        for (uint32_t d = 2; d < rank; d++)
            p.taps *= dims[d];
        const int64_t first = p.groups > 0 ? dims[0] / p.groups : 0, second = dims[1];
        const bool back = op->row->number != 0; /* transposed: [C, M / groups, window] */

        p = (vr_panels){ p.groups,
                         back ? second : first,
                         p.taps,
                         back ? first : second,
                         first * second * p.taps,
                         back ? p.taps : second * p.taps,
                         1,
                         back ? second * p.taps : p.taps };
    } else if (rank == 2 && (op->row->family == &vr_mat_mul || op->row->family == &vr_gemm)) {
        p.k = dims[turned];
        p.columns = dims[!turned];
        p.k_step = turned ? 1 : p.columns;
        p.column_step = turned ? p.k : 1;
    }
    *out = p;
    return p.columns >= 4 && p.k > 0;
}

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

void vr_list_constants(inlay_compiled *c, const inlay_graph *graph, uint64_t *out_bytes)
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

inlay_status vr_upload(inlay_compiled *c, const inlay_compile_request *r, const vr_constant *k, inlay_diag *diag)
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
