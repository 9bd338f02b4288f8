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

const vr_constant *vr_find_constant(const inlay_compiled *c, uint32_t value, vr_packing packing)
{
    for (uint32_t i = 0; i < c->constant_count; i++)
        if (c->constants[i].value == value && c->constants[i].packing == packing)
            return &c->constants[i];
    return NULL;
}

/* Which constants the device reads, and how; *out_bytes is what they take. */
static void list_constants(inlay_compiled *c, const inlay_graph *graph, uint64_t *out_bytes)
{
    uint64_t at = 0;

    for (uint32_t o = 0; o < c->op_count; o++) {
        const vr_op *op = &c->ops[o];

        for (uint32_t i = 0; i < op->info.input_count; i++) {
            const uint32_t v = op->info.inputs[i];
            const vr_packing packing = vr_packing_of(c, op, i);

            if (v == INLAY_NONE || !c->values[v].constant || (i < 32 && (op->row->host_inputs >> i & 1u) != 0) ||
                vr_find_constant(c, v, packing) != NULL)
                continue;
            c->constants[c->constant_count++] =
                (vr_constant){ .value = v,
                               .packing = packing,
                               .offset = at,
                               .bytes = inlay_graph_value(graph, c->values[v].snapshot)->data_bytes };
            at += (c->constants[c->constant_count - 1].bytes + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
        }
    }
    *out_bytes = at;
}

/* [outer][rows][columns] -> [outer][columns][rows], elements of size bytes. */
static void swap_inner(uint8_t *to, const uint8_t *from, int64_t outer, int64_t rows, int64_t columns, size_t size)
{
    for (int64_t o = 0; o < outer; o++, to += (size_t)(rows * columns) * size, from += (size_t)(rows * columns) * size)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < columns; k++)
                memcpy(to + (size_t)(k * rows + r) * size, from + (size_t)(r * columns + k) * size, size);
}

static inlay_status upload(inlay_compiled *c, const inlay_compile_request *r, const vr_constant *k, inlay_diag *diag)
{
    const inlay_value_info *info = inlay_graph_value(r->graph, c->values[k->value].snapshot);
    int64_t outer = 1, rows = 1, columns = 1;
    uint8_t *packed;
    inlay_status status;

    r->constants[c->values[k->value].snapshot] = k->packing == VR_PLAIN ? INLAY_CONST_COPIED : INLAY_CONST_PACKED;
    if (k->packing == VR_PLAIN)
        return gpu_write(c->gpu, &c->memory, k->offset, info->data, k->bytes, diag);
    for (uint32_t d = 0; d < info->rank; d++) {
        const int64_t n = info->dims[d].value;

        if (k->packing == VR_TAPS_FIRST)
            *(d == 0 ? &outer : d == 1 ? &rows : &columns) *= n;
        else
            *(d + 2 < info->rank ? &outer : d + 2 == info->rank ? &rows : &columns) *= n;
    }
    packed = malloc(k->bytes + 1);
    if (packed == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to pack '%s'", info->name.data);
    swap_inner(packed, info->data, outer, rows, columns, vr_size_of(info->dtype));
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
