/* What a conversion reads and changes of its node. */
#include "modelkit/opset_parts.h"
#include "base/element.h"
#include <math.h>
#include <string.h>

const char *conversion_op(const struct conversion *c)
{
    return c->n->info.op_type.data;
}

const char *conversion_name(const struct conversion *c)
{
    return c->n->info.name.data;
}

const op_row *conversion_row(const struct conversion *c)
{
    return op_find("ai.onnx", conversion_op(c), c->opset, NULL);
}

bool conversion_is_one_of(const char *op, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(op, names[i]) == 0)
            return true;
    return false;
}

/* ------------------------------------------------------------------ attributes */

const inlay_attr_info *conversion_stated(const graph_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->own_attr_count; i++)
        if (strcmp(n->info.attrs[i].name.data, name) == 0)
            return &n->info.attrs[i];
    return NULL;
}

int64_t conversion_int(const graph_node *n, const char *name, int64_t otherwise)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->kind == INLAY_ATTR_INT ? a->i : otherwise;
}

void conversion_drop_attr(struct conversion *c, const char *name)
{
    graph_node *n = c->n;
    inlay_attr_info *list = arena_array(&c->e->g->model->arena, (size_t)n->own_attr_count + 1, sizeof *list);
    uint32_t kept = 0;

    if (list == NULL) {
        c->e->failed = true;
        return;
    }
    for (uint32_t i = 0; i < n->own_attr_count; i++)
        if (strcmp(n->info.attrs[i].name.data, name) != 0)
            list[kept++] = n->info.attrs[i];
    n->info.attrs = list;
    n->info.attr_count = n->own_attr_count = kept;
}

/* ------------------------------------------------------------------ inputs and outputs */

uint32_t conversion_input(const struct conversion *c, uint32_t i)
{
    return i < c->n->info.input_count ? c->n->info.inputs[i] : INLAY_NONE;
}

void conversion_cut_inputs(struct conversion *c, uint32_t count)
{
    if (count < c->n->info.input_count)
        c->n->info.input_count = count;
}

uint32_t conversion_rank(const struct conversion *c)
{
    const uint32_t v = conversion_input(c, 0);

    return v == INLAY_NONE ? INLAY_RANK_UNKNOWN : c->e->g->values[v].info.rank;
}

uint32_t conversion_ints(struct conversion *c, const char *suffix, const int64_t *values, uint32_t count)
{
    const int64_t dims[] = { count };
    int64_t *data = edit_memory(c->e, (uint64_t)count * sizeof *data);

    if (data != NULL && count > 0)
        memcpy(data, values, count * sizeof *data);
    return edit_constant(c->e, conversion_name(c), suffix, INLAY_INT64, 1, dims, data, (uint64_t)count * sizeof *data);
}

uint32_t conversion_number(struct conversion *c, const char *suffix, double value)
{
    const uint32_t in = conversion_input(c, 0);
    const inlay_dtype dtype = in == INLAY_NONE ? INLAY_UNDEFINED : c->e->g->values[in].info.dtype;
    const uint64_t bytes = inlay_dtype_bits(dtype) / 8;
    const uint16_t half = element_half((float)value);
    const float single = (float)value;
    void *data = edit_memory(c->e, sizeof value);

    if (data == NULL)
        return INLAY_NONE;
    if (dtype == INLAY_FLOAT16)
        memcpy(data, &half, sizeof half);
    else if (dtype == INLAY_FLOAT)
        memcpy(data, &single, sizeof single);
    else if (dtype == INLAY_DOUBLE)
        memcpy(data, &value, sizeof value);
    else if (floor(value) != value || !element_put(dtype, data, 0, (int64_t)value)) {
        c->why = "the type of its input is not known, or cannot hold its numbers";
        return INLAY_NONE;
    }
    return edit_constant(c->e, conversion_name(c), suffix, dtype, 0, NULL, data, bytes);
}

uint32_t conversion_take_output(struct conversion *c, const char *suffix)
{
    const uint32_t v = edit_value(c->e, conversion_name(c), suffix);

    if (v != INLAY_NONE)
        *(uint32_t *)(uintptr_t)c->n->info.outputs = v;
    else
        c->e->failed = true;
    return v;
}
