#include "modelkit/edit.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

void edit_begin(struct editor *editor, struct graph *graph)
{
    *editor = (struct editor){ .graph = graph, .old_count = graph->node_count };
    for (uint32_t value = 0; value < graph->value_count && !editor->failed; value++)
        editor->failed = !names_add(&editor->names, graph->values[value].info.name.data,
                                    graph->values[value].info.name.bytes, value, NULL);
}

/* State of sorting the nodes. */
struct ordering {
    const struct graph *graph;
    uint32_t *producer; /* [value_count] the new node that produces the value, or INLAY_NONE */
    bool *placed;       /* [node_count] */
    graph_node **out;
    uint32_t count;
};

/* Places node i after the new nodes that it reads from. The recursion is shallow, because chains of new nodes are
 * short. */
static void place(struct ordering *ordering, uint32_t i)
{
    const graph_node *node = ordering->graph->nodes[i];

    if (ordering->placed[i])
        return;
    ordering->placed[i] = true;
    for (uint32_t k = 0; k < node->info.input_count; k++)
        if (node->info.inputs[k] != INLAY_NONE && ordering->producer[node->info.inputs[k]] != INLAY_NONE)
            place(ordering, ordering->producer[node->info.inputs[k]]);
    for (uint32_t k = 0; k < node->capture_count; k++)
        if (ordering->producer[node->captures[k]] != INLAY_NONE)
            place(ordering, ordering->producer[node->captures[k]]);
    ordering->out[ordering->count++] = ordering->graph->nodes[i];
}

static bool order_nodes(const struct graph *graph, uint32_t old_count)
{
    struct ordering ordering = { .graph = graph };

    ordering.producer = malloc(((size_t)graph->value_count + 1) * sizeof *ordering.producer);
    ordering.placed = calloc((size_t)graph->node_count + 1, sizeof *ordering.placed);
    ordering.out = calloc((size_t)graph->node_count + 1, sizeof(graph_node *));
    if (ordering.producer != NULL && ordering.placed != NULL && ordering.out != NULL) {
        memset(ordering.producer, 0xff, graph->value_count * sizeof *ordering.producer);
        for (uint32_t i = old_count; i < graph->node_count; i++)
            for (uint32_t k = 0; k < graph->nodes[i]->info.output_count; k++)
                ordering.producer[graph->nodes[i]->info.outputs[k]] = i;
        for (uint32_t i = 0; i < graph->node_count; i++)
            place(&ordering, i);
        memcpy((void *)graph->nodes, (void *)ordering.out, graph->node_count * sizeof(graph_node *));
    }
    free(ordering.producer);
    free(ordering.placed);
    free((void *)ordering.out);
    return ordering.count == graph->node_count;
}

inlay_status edit_finish(struct editor *editor, inlay_diag *diag)
{
    INLAY_CHECK(editor->old_count <= editor->graph->node_count);
    names_deinit(&editor->names);
    editor->failed = editor->failed || !order_nodes(editor->graph, editor->old_count);
    if (editor->failed)
        return no_memory(diag, "to edit the model");
    return graph_finish(editor->graph, diag);
}

void *edit_memory(struct editor *editor, uint64_t bytes)
{
    void *block = editor->failed ? NULL : graph_blob_alloc(editor->graph->model, bytes > 0 ? (size_t)bytes : 1);

    editor->failed = editor->failed || block == NULL;
    return block;
}

uint32_t edit_value(struct editor *editor, const char *stem, const char *suffix)
{
    struct arena *arena = &editor->graph->model->arena;

    for (unsigned number = 1; !editor->failed; number++) {
        const char *name = number == 1 ? arena_format(arena, "%s%s", stem, suffix)
                                       : arena_format(arena, "%s%s_%u", stem, suffix, number);
        uint32_t present = NAMES_NONE, value;

        if (name != NULL && names_find(&editor->names, name, strlen(name)) != NAMES_NONE)
            continue;
        value = name == NULL ? INLAY_NONE : graph_add_value(editor->graph, name, strlen(name));
        editor->failed = value == INLAY_NONE || !names_add(&editor->names, name, strlen(name), value, &present);
        return editor->failed ? INLAY_NONE : value;
    }
    return INLAY_NONE;
}

uint32_t edit_constant(struct editor *editor, const char *stem, const char *suffix, inlay_dtype dtype, uint32_t rank,
                       const int64_t *dims, const void *data, uint64_t bytes)
{
    const uint32_t value = data == NULL ? INLAY_NONE : edit_value(editor, stem, suffix);

    if (value == INLAY_NONE || graph_set_constant(editor->graph, value, dtype, rank, dims, data, bytes) != INLAY_OK) {
        editor->failed = true;
        return INLAY_NONE;
    }
    return value;
}

uint32_t edit_float(struct editor *editor, const char *stem, const char *suffix, float value)
{
    float *data = edit_memory(editor, sizeof value);

    if (data != NULL)
        *data = value;
    return edit_constant(editor, stem, suffix, INLAY_FLOAT, 0, NULL, data, sizeof value);
}

uint32_t edit_byte(struct editor *editor, const char *stem, const char *suffix, inlay_dtype dtype, int value)
{
    uint8_t *data = edit_memory(editor, 1);

    if (data != NULL)
        *data = (uint8_t)value;
    return edit_constant(editor, stem, suffix, dtype, 0, NULL, data, 1);
}

uint32_t edit_node(struct editor *editor, const char *stem, const char *suffix, const char *op, const char *domain,
                   const uint32_t *inputs, uint32_t input_count, graph_node **out_node)
{
    const uint32_t out = edit_value(editor, stem, suffix);
    graph_node *node = NULL;

    while (input_count > 0 && inputs[input_count - 1] == INLAY_NONE)
        input_count--;
    if (out != INLAY_NONE)
        node = graph_add_node(editor->graph, op, domain, editor->graph->values[out].info.name.data, input_count, 1);
    if (out_node != NULL)
        *out_node = node;
    if (node == NULL) {
        editor->failed = true;
        return INLAY_NONE;
    }
    for (uint32_t i = 0; i < input_count; i++)
        edit_input(node, i, inputs[i]);
    *(uint32_t *)(uintptr_t)node->info.outputs = out;
    return out;
}

void edit_int(struct editor *editor, graph_node *node, const char *name, int64_t value)
{
    if (node != NULL && graph_set_attr_int(editor->graph, node, name, value) != INLAY_OK)
        editor->failed = true;
}

void edit_input(graph_node *node, uint32_t i, uint32_t value)
{
    INLAY_CHECK(i < node->info.input_count);
    ((uint32_t *)(uintptr_t)node->info.inputs)[i] = value;
}

void edit_set_input(struct editor *editor, graph_node *node, uint32_t i, uint32_t value)
{
    if (i >= node->info.input_count) {
        uint32_t *longer = arena_array(&editor->graph->model->arena, (size_t)i + 1, sizeof *longer);

        if (longer == NULL) {
            editor->failed = true;
            return;
        }
        for (uint32_t k = 0; k <= i; k++)
            longer[k] = graph_input_at(node, k);
        node->info.inputs = longer;
        node->info.input_count = i + 1;
    }
    edit_input(node, i, value);
}

static void drop_constant(struct graph *graph, uint32_t value)
{
    inlay_value_info *info = &graph->values[value].info;

    info->flags &= ~(uint32_t)INLAY_VALUE_CONSTANT;
    info->data = NULL;
    info->data_bytes = 0;
    info->dtype = INLAY_UNDEFINED;
    graph->values[value].declared = false;
}

bool edit_drop_unused(struct graph *graph)
{
    bool *is_read = calloc((size_t)graph->value_count + 1, sizeof *is_read), ok = is_read != NULL;

    for (uint32_t i = 0; ok && i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE)
                is_read[node->info.inputs[k]] = true;
        for (uint32_t k = 0; k < node->capture_count; k++)
            is_read[node->captures[k]] = true;
        for (uint32_t b = 0; ok && b < node->body_count; b++)
            ok = edit_drop_unused(node->bodies[b].graph);
    }
    for (uint32_t i = 0; ok && i < graph->output_count; i++)
        is_read[graph->outputs[i]] = true;
    for (uint32_t value = 0; ok && value < graph->value_count; value++)
        if ((graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0 && !is_read[value])
            drop_constant(graph, value);
    free(is_read);
    return ok;
}

void edit_count_uses(const struct graph *graph, uint32_t *uses)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE)
                uses[node->info.inputs[k]]++;
        for (uint32_t k = 0; k < node->capture_count; k++)
            uses[node->captures[k]] += 2;
    }
    for (uint32_t k = 0; k < graph->output_count; k++)
        uses[graph->outputs[k]] += 2;
}
