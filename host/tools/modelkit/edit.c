#include "modelkit/edit.h"
#include <stdlib.h>
#include <string.h>

void edit_begin(struct editor *e, struct graph *g)
{
    *e = (struct editor){ .g = g, .old_count = g->node_count };
    for (uint32_t v = 0; v < g->value_count && !e->failed; v++)
        e->failed = !names_add(&e->names, g->values[v].info.name.data, g->values[v].info.name.bytes, v, NULL);
}

/* Nodes in their new order. */
struct ordering {
    const struct graph *g;
    uint32_t *maker; /* [value_count] the new node that makes the value, INLAY_NONE */
    bool *placed;    /* [node_count] */
    graph_node **out;
    uint32_t count;
};

/* Places node i and, before it, the new nodes that it reads from: chains of a few. */
static void place(struct ordering *o, uint32_t i)
{
    const graph_node *n = o->g->nodes[i];

    if (o->placed[i])
        return;
    o->placed[i] = true;
    for (uint32_t k = 0; k < n->info.input_count; k++)
        if (n->info.inputs[k] != INLAY_NONE && o->maker[n->info.inputs[k]] != INLAY_NONE)
            place(o, o->maker[n->info.inputs[k]]);
    for (uint32_t k = 0; k < n->capture_count; k++)
        if (o->maker[n->captures[k]] != INLAY_NONE)
            place(o, o->maker[n->captures[k]]);
    o->out[o->count++] = o->g->nodes[i];
}

static bool order_nodes(const struct graph *g, uint32_t old_count)
{
    struct ordering o = { .g = g };

    o.maker = malloc(((size_t)g->value_count + 1) * sizeof *o.maker);
    o.placed = calloc((size_t)g->node_count + 1, sizeof *o.placed);
    o.out = calloc((size_t)g->node_count + 1, sizeof(graph_node *));
    if (o.maker != NULL && o.placed != NULL && o.out != NULL) {
        memset(o.maker, 0xff, g->value_count * sizeof *o.maker);
        for (uint32_t i = old_count; i < g->node_count; i++)
            for (uint32_t k = 0; k < g->nodes[i]->info.output_count; k++)
                o.maker[g->nodes[i]->info.outputs[k]] = i;
        for (uint32_t i = 0; i < g->node_count; i++)
            place(&o, i);
        memcpy((void *)g->nodes, (void *)o.out, g->node_count * sizeof(graph_node *));
    }
    free(o.maker);
    free(o.placed);
    free((void *)o.out);
    return o.count == g->node_count;
}

inlay_status edit_finish(struct editor *e, inlay_diag *diag)
{
    names_deinit(&e->names);
    e->failed = e->failed || !order_nodes(e->g, e->old_count);
    if (e->failed)
        return no_memory(diag, "for the quantized model");
    return graph_finish(e->g, diag);
}

void *edit_memory(struct editor *e, uint64_t bytes)
{
    void *block = e->failed ? NULL : graph_blob_alloc(e->g->model, bytes > 0 ? (size_t)bytes : 1);

    e->failed = e->failed || block == NULL;
    return block;
}

uint32_t edit_value(struct editor *e, const char *stem, const char *suffix)
{
    struct arena *a = &e->g->model->arena;

    for (unsigned number = 1; !e->failed; number++) {
        const char *name =
            number == 1 ? arena_format(a, "%s%s", stem, suffix) : arena_format(a, "%s%s_%u", stem, suffix, number);
        uint32_t present = NAMES_NONE, v;

        if (name != NULL && names_find(&e->names, name, strlen(name)) != NAMES_NONE)
            continue;
        v = name == NULL ? INLAY_NONE : graph_add_value(e->g, name, strlen(name));
        e->failed = v == INLAY_NONE || !names_add(&e->names, name, strlen(name), v, &present);
        return e->failed ? INLAY_NONE : v;
    }
    return INLAY_NONE;
}

uint32_t edit_constant(struct editor *e, const char *stem, const char *suffix, inlay_dtype dtype, uint32_t rank,
                       const int64_t *dims, const void *data, uint64_t bytes)
{
    const uint32_t v = data == NULL ? INLAY_NONE : edit_value(e, stem, suffix);

    if (v == INLAY_NONE || graph_set_constant(e->g, v, dtype, rank, dims, data, bytes) != INLAY_OK) {
        e->failed = true;
        return INLAY_NONE;
    }
    return v;
}

uint32_t edit_float(struct editor *e, const char *stem, const char *suffix, float value)
{
    float *data = edit_memory(e, sizeof value);

    if (data != NULL)
        *data = value;
    return edit_constant(e, stem, suffix, INLAY_FLOAT, 0, NULL, data, sizeof value);
}

uint32_t edit_byte(struct editor *e, const char *stem, const char *suffix, inlay_dtype dtype, int value)
{
    uint8_t *data = edit_memory(e, 1);

    if (data != NULL)
        *data = (uint8_t)value;
    return edit_constant(e, stem, suffix, dtype, 0, NULL, data, 1);
}

uint32_t edit_node(struct editor *e, const char *stem, const char *suffix, const char *op, const char *domain,
                   const uint32_t *inputs, uint32_t input_count, graph_node **out_node)
{
    const uint32_t out = edit_value(e, stem, suffix);
    graph_node *n = NULL;

    while (input_count > 0 && inputs[input_count - 1] == INLAY_NONE)
        input_count--;
    if (out != INLAY_NONE)
        n = graph_add_node(e->g, op, domain, e->g->values[out].info.name.data, input_count, 1);
    if (out_node != NULL)
        *out_node = n;
    if (n == NULL) {
        e->failed = true;
        return INLAY_NONE;
    }
    for (uint32_t i = 0; i < input_count; i++)
        edit_input(n, i, inputs[i]);
    *(uint32_t *)(uintptr_t)n->info.outputs = out;
    return out;
}

void edit_int(struct editor *e, graph_node *n, const char *name, int64_t value)
{
    if (n != NULL && graph_set_attr_int(e->g, n, name, value) != INLAY_OK)
        e->failed = true;
}

void edit_input(graph_node *n, uint32_t i, uint32_t v)
{
    ((uint32_t *)(uintptr_t)n->info.inputs)[i] = v;
}

void edit_set_input(struct editor *e, graph_node *n, uint32_t i, uint32_t v)
{
    if (i >= n->info.input_count) {
        uint32_t *longer = arena_array(&e->g->model->arena, (size_t)i + 1, sizeof *longer);

        if (longer == NULL) {
            e->failed = true;
            return;
        }
        for (uint32_t k = 0; k <= i; k++)
            longer[k] = k < n->info.input_count ? n->info.inputs[k] : INLAY_NONE;
        n->info.inputs = longer;
        n->info.input_count = i + 1;
    }
    edit_input(n, i, v);
}

static void drop_constant(struct graph *g, uint32_t v)
{
    inlay_value_info *info = &g->values[v].info;

    info->flags &= ~(uint32_t)INLAY_VALUE_CONSTANT;
    info->data = NULL;
    info->data_bytes = 0;
    info->dtype = INLAY_UNDEFINED;
    g->values[v].declared = false;
}

bool edit_drop_unused(struct graph *g)
{
    bool *is_read = calloc((size_t)g->value_count + 1, sizeof *is_read), ok = is_read != NULL;

    for (uint32_t i = 0; ok && i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE)
                is_read[n->info.inputs[k]] = true;
        for (uint32_t k = 0; k < n->capture_count; k++)
            is_read[n->captures[k]] = true;
        for (uint32_t b = 0; ok && b < n->body_count; b++)
            ok = edit_drop_unused(n->bodies[b].graph);
    }
    for (uint32_t i = 0; ok && i < g->output_count; i++)
        is_read[g->outputs[i]] = true;
    for (uint32_t v = 0; ok && v < g->value_count; v++)
        if ((g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0 && !is_read[v])
            drop_constant(g, v);
    free(is_read);
    return ok;
}

void edit_count_uses(const struct graph *g, uint32_t *uses)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE)
                uses[n->info.inputs[k]]++;
        for (uint32_t k = 0; k < n->capture_count; k++)
            uses[n->captures[k]] += 2;
    }
    for (uint32_t k = 0; k < g->output_count; k++)
        uses[g->outputs[k]] += 2;
}
