/* A region of the host's graph -> ops and values of our own, and constants on the device. */
#include "region.h"
#include <stdlib.h>

/* ------------------------------------------------------------------ memory that lives as long as the region */

void *vr_take(inlay_compiled *c, uint64_t bytes)
{
    vr_block *block = calloc(1, sizeof *block + bytes + 1);

    if (block == NULL)
        return NULL;
    block->next = c->blocks;
    c->blocks = block;
    return block->bytes;
}

static void *copy_of(inlay_compiled *c, const void *data, uint64_t bytes)
{
    void *copy = vr_take(c, bytes);

    if (copy != NULL && bytes > 0)
        memcpy(copy, data, bytes);
    return copy;
}

/* ------------------------------------------------------------------ nodes */

static bool copy_attr(inlay_compiled *c, const inlay_attr_info *from, inlay_attr_info *to)
{
    bool ok = true;

    *to = *from;
    to->name.data = copy_of(c, from->name.data, from->name.bytes);
    ok &= to->name.data != NULL;
    if (from->kind == INLAY_ATTR_STRING)
        ok &= (to->s.data = copy_of(c, from->s.data, from->s.bytes)) != NULL;
    else if (from->kind == INLAY_ATTR_INTS)
        ok &= (to->ints = copy_of(c, from->ints, from->count * sizeof *from->ints)) != NULL;
    else if (from->kind == INLAY_ATTR_FLOATS)
        ok &= (to->floats = copy_of(c, from->floats, from->count * sizeof *from->floats)) != NULL;
    to->strings = NULL;
    to->tensor = NULL;
    if (from->kind == INLAY_ATTR_TENSOR && from->tensor->bytes <= VR_SMALL_BYTES) {
        inlay_tensor_view *t = copy_of(c, from->tensor, sizeof *t);

        if (t == NULL || (t->data = copy_of(c, from->tensor->data, t->bytes)) == NULL)
            return false;
        t->dims = NULL;
        to->tensor = t;
    }
    return ok;
}

static bool copy_node(inlay_compiled *c, const inlay_node_info *from, inlay_node_info *to)
{
    inlay_attr_info *attrs = vr_take(c, from->attr_count * sizeof *attrs);
    uint32_t *numbers = vr_take(c, (from->input_count + from->output_count) * sizeof *numbers);

    *to = *from;
    to->name.data = copy_of(c, from->name.data, from->name.bytes);
    to->op_type.data = copy_of(c, from->op_type.data, from->op_type.bytes);
    to->domain.data = "";
    to->domain.bytes = 0;
    if (attrs == NULL || numbers == NULL || to->name.data == NULL || to->op_type.data == NULL)
        return false;
    to->attrs = attrs;
    to->attr_stride = sizeof *attrs;
    to->inputs = numbers;
    to->outputs = numbers + from->input_count;
    for (uint32_t i = 0; i < from->attr_count; i++)
        if (!copy_attr(c, INLAY_AT(inlay_attr_info, from->attrs, from->attr_stride, i), &attrs[i]))
            return false;
    return true;
}

/* ------------------------------------------------------------------ values */

typedef struct reader {
    const inlay_compile_request *r;
    inlay_compiled *c;
    uint32_t *number_of; /* [graph->value_count] */
} reader;

static uint32_t value_of(reader *rd, uint32_t snapshot)
{
    const inlay_value_info *info = inlay_graph_value(rd->r->graph, snapshot);
    vr_value *v;

    if (info == NULL)
        return INLAY_NONE;
    if (rd->number_of[snapshot] != INLAY_NONE)
        return rd->number_of[snapshot];
    v = &rd->c->values[rd->c->value_count];
    *v = (vr_value){ .snapshot = snapshot,
                     .input = INLAY_NONE,
                     .output = INLAY_NONE,
                     .dtype = info->dtype,
                     .constant = (info->flags & INLAY_VALUE_CONSTANT) != 0 };
    if (info->data != NULL && info->data_bytes <= VR_SMALL_BYTES && info->dtype != INLAY_STRING) {
        v->data = copy_of(rd->c, info->data, info->data_bytes);
        v->data_bytes = info->data_bytes;
    }
    return rd->number_of[snapshot] = rd->c->value_count++;
}

static inlay_status read_node(reader *rd, uint32_t n, inlay_diag *diag)
{
    inlay_compiled *c = rd->c;
    const inlay_node_info *info = inlay_graph_node(rd->r->graph, rd->r->nodes[n]);
    const kit_node node = { .host = c->state->host, .graph = rd->r->graph, .info = info };
    kit_refusal why = { 0, "", "" };
    vr_op *op = &c->ops[c->op_count];
    uint32_t *numbers;

    op->row = vr_find(&node, &why);
    if (op->row == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': %s", info->name.data, why.text);
    if (!copy_node(c, info, &op->info))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", info->name.data);
    numbers = (uint32_t *)(uintptr_t)op->info.inputs;
    for (uint32_t i = 0; i < info->input_count + info->output_count; i++) {
        const bool is_in = i < info->input_count;

        numbers[i] = value_of(rd, is_in ? info->inputs[i] : info->outputs[i - info->input_count]);
        if (is_in && numbers[i] != INLAY_NONE)
            c->values[numbers[i]].uses++;
    }
    c->op_count++;
    return INLAY_OK;
}

static inlay_status read_region(inlay_compiled *c, const inlay_compile_request *r, inlay_diag *diag)
{
    reader rd = { .r = r, .c = c };
    uint64_t total = 1 + (uint64_t)VR_TEMPORARIES * r->node_count;
    inlay_status status = INLAY_OK;

    for (uint32_t n = 0; n < r->node_count; n++) {
        const inlay_node_info *info = inlay_graph_node(r->graph, r->nodes[n]);

        total += info->input_count + info->output_count;
    }
    c->ops = vr_take(c, r->node_count * sizeof *c->ops);
    c->values = vr_take(c, total * sizeof *c->values);
    c->constants = vr_take(c, total * sizeof *c->constants);
    rd.number_of = malloc((r->graph->value_count + 1) * sizeof *rd.number_of);
    if (c->ops == NULL || c->values == NULL || c->constants == NULL || rd.number_of == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", r->node_count);
        goto done;
    }
    memset(rd.number_of, 0xff, (r->graph->value_count + 1) * sizeof *rd.number_of);
    for (uint32_t n = 0; n < r->node_count; n++)
        INLAY_TRY(read_node(&rd, n, diag));
    for (uint32_t i = 0; i < r->input_count; i++)
        if (rd.number_of[r->inputs[i]] != INLAY_NONE)
            c->values[rd.number_of[r->inputs[i]]].input = i;
    for (uint32_t i = 0; i < r->output_count; i++)
        if (rd.number_of[r->outputs[i]] != INLAY_NONE) {
            c->values[rd.number_of[r->outputs[i]]].output = i;
            c->values[rd.number_of[r->outputs[i]]].uses++;
        }
    for (uint64_t v = c->value_count; v < total; v++)
        c->values[v] = (vr_value){ .snapshot = INLAY_NONE, .input = INLAY_NONE, .output = INLAY_NONE };
    c->input_count = r->input_count;
    c->output_count = r->output_count;
done:
    free(rd.number_of);
    return status;
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
                        if (size == 4)
                            memcpy(to + 4 * n, row + 4 * n * p->column_step, 4);
                        else
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

inlay_status vr_compile(void *state, const inlay_compile_request *r, inlay_compiled **out, inlay_diag *diag)
{
    inlay_compiled *c = calloc(1, sizeof *c);
    uint64_t bytes = 0;
    inlay_status status = INLAY_OK;

    if (c == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", r->node_count);
    c->state = state;
    INLAY_TRY(vr_open(state, &c->gpu, diag));
    INLAY_TRY(read_region(c, r, diag));
    list_constants(c, r->graph, &bytes);
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
    vr_release_compiled(state, c);
    return status;
}

void vr_release_compiled(void *state, inlay_compiled *c)
{
    (void)state;
    if (c == NULL)
        return;
    if (c->gpu != NULL)
        gpu_buffer_drop(c->gpu, &c->memory);
    for (vr_block *b = c->blocks, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    free(c);
}
