#include "check/frozen.h"
#include "check/check.h"
#include "inlay/check.h"
#include <string.h>

/* A bump allocator. The first pass, without memory, only counts the bytes. */
struct room {
    char *base; /* NULL: counting */
    size_t used;
    uint32_t extra;
    bool borrowed;
};

static void *take(struct room *room, size_t bytes)
{
    char *memory = room->base == NULL ? NULL : room->base + room->used;

    room->used += (bytes + 15) / 16 * 16;
    return memory;
}

static void *copy(struct room *room, const void *data, size_t bytes)
{
    void *memory = take(room, bytes);

    if (memory != NULL && bytes > 0 && data != NULL)
        memcpy(memory, data, bytes);
    return data == NULL ? NULL : memory;
}

static inlay_str copy_text(struct room *room, inlay_str text)
{
    char *memory = take(room, (size_t)text.bytes + 1);

    if (memory != NULL && text.bytes > 0)
        memcpy(memory, text.data, (size_t)text.bytes);
    return (inlay_str){ memory, text.bytes };
}

static const inlay_str *copy_texts(struct room *room, const inlay_str *texts, uint64_t count)
{
    inlay_str *string = take(room, (size_t)count * sizeof *string);

    for (uint64_t i = 0; i < count; i++) {
        inlay_str one = copy_text(room, texts[i]);

        if (string != NULL)
            string[i] = one;
    }
    return string;
}

/* Copies the elements of a tensor, including the characters of strings. */
static const void *copy_elements(struct room *room, inlay_dtype dtype, const void *data, uint64_t bytes)
{
    if (data == NULL)
        return NULL;
    return dtype == INLAY_STRING ? (const void *)copy_texts(room, data, bytes / sizeof(inlay_str))
                                 : copy(room, data, (size_t)bytes);
}

static const inlay_tensor_view *copy_tensor(struct room *room, const inlay_tensor_view *view)
{
    inlay_tensor_view *tensor_view;

    if (view == NULL)
        return NULL;
    tensor_view = copy(room, view, sizeof *view);
    if (tensor_view == NULL) {
        (void)copy(room, view->dims, view->rank * sizeof *view->dims);
        (void)copy_elements(room, view->dtype, view->data, view->bytes);
        return NULL;
    }
    tensor_view->dims = copy(room, view->dims, view->rank * sizeof *view->dims);
    tensor_view->data = copy_elements(room, view->dtype, view->data, view->bytes);
    return tensor_view;
}

static void *element(char *list, size_t stride, uint32_t i)
{
    return list == NULL ? NULL : list + stride * i;
}

static const inlay_attr_info *copy_attrs(struct room *room, const inlay_node_info *node)
{
    size_t stride = sizeof(inlay_attr_info) + room->extra;
    char *list = take(room, node->attr_count * stride);

    for (uint32_t i = 0; i < node->attr_count; i++) {
        inlay_attr_info attribute = *INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i),
                        *to = element(list, stride, i);

        attribute.name = copy_text(room, attribute.name);
        if (attribute.kind == INLAY_ATTR_STRING)
            attribute.s = copy_text(room, attribute.s);
        if (attribute.kind == INLAY_ATTR_STRINGS)
            attribute.strings = copy_texts(room, attribute.strings, attribute.count);
        if (attribute.kind == INLAY_ATTR_INTS)
            attribute.ints = copy(room, attribute.ints, attribute.count * sizeof *attribute.ints);
        if (attribute.kind == INLAY_ATTR_FLOATS)
            attribute.floats = copy(room, attribute.floats, attribute.count * sizeof *attribute.floats);
        if (attribute.kind == INLAY_ATTR_TENSOR)
            attribute.tensor = copy_tensor(room, attribute.tensor);
        if (to != NULL)
            *to = attribute;
    }
    return (const inlay_attr_info *)(const void *)list;
}

static const inlay_node_info *copy_nodes(struct room *room, const inlay_graph *graph)
{
    size_t stride = sizeof(inlay_node_info) + room->extra;
    char *list = take(room, graph->node_count * stride);

    for (uint32_t i = 0; i < graph->node_count; i++) {
        inlay_node_info node = *inlay_graph_node(graph, i), *to = element(list, stride, i);

        node.attrs = copy_attrs(room, &node);
        node.attr_stride = (uint32_t)(sizeof(inlay_attr_info) + room->extra);
        node.name = copy_text(room, node.name);
        node.domain = copy_text(room, node.domain);
        node.op_type = copy_text(room, node.op_type);
        node.inputs = copy(room, node.inputs, node.input_count * sizeof *node.inputs);
        node.outputs = copy(room, node.outputs, node.output_count * sizeof *node.outputs);
        if (to != NULL)
            *to = node;
    }
    return (const inlay_node_info *)(const void *)list;
}

static const inlay_value_info *copy_values(struct room *room, const inlay_graph *graph)
{
    size_t stride = sizeof(inlay_value_info) + room->extra;
    char *list = take(room, graph->value_count * stride);

    for (uint32_t i = 0; i < graph->value_count; i++) {
        inlay_value_info value = *inlay_graph_value(graph, i), *to = element(list, stride, i);

        value.name = copy_text(room, value.name);
        if (value.rank != INLAY_RANK_UNKNOWN)
            value.dims = copy(room, value.dims, value.rank * sizeof *value.dims);
        if (!room->borrowed)
            value.data = copy_elements(room, value.dtype, value.data, value.data_bytes);
        value.elements = copy(room, value.elements, (size_t)value.element_count * sizeof *value.elements);
        if (to != NULL)
            *to = value;
    }
    return (const inlay_value_info *)(const void *)list;
}

static const inlay_symbol_info *copy_symbols(struct room *room, const inlay_graph *graph)
{
    size_t stride = sizeof(inlay_symbol_info) + room->extra;
    char *list = take(room, graph->symbol_count * stride);

    for (uint32_t i = 0; i < graph->symbol_count; i++) {
        inlay_symbol_info info = *INLAY_AT(inlay_symbol_info, graph->symbols, graph->symbol_stride, i),
                          *to = element(list, stride, i);
        info.name = copy_text(room, info.name);
        if (to != NULL)
            *to = info;
    }
    return (const inlay_symbol_info *)(const void *)list;
}

static inlay_graph *copy_graph(struct room *room, const inlay_graph *graph)
{
    inlay_graph *to = take(room, sizeof *to + room->extra), all = *graph;

    all.struct_size = sizeof all + room->extra;
    all.name = copy_text(room, graph->name);
    all.nodes = copy_nodes(room, graph);
    all.node_stride = (uint32_t)(sizeof(inlay_node_info) + room->extra);
    all.values = copy_values(room, graph);
    all.value_stride = (uint32_t)(sizeof(inlay_value_info) + room->extra);
    all.symbols = copy_symbols(room, graph);
    all.symbol_stride = (uint32_t)(sizeof(inlay_symbol_info) + room->extra);
    all.inputs = copy(room, graph->inputs, graph->input_count * sizeof *graph->inputs);
    all.outputs = copy(room, graph->outputs, graph->output_count * sizeof *graph->outputs);
    if (to != NULL)
        *to = all;
    return to;
}

bool frozen_create(const inlay_graph *from, uint32_t extra, bool borrowed, struct frozen *out)
{
    struct room room = { .extra = extra, .borrowed = borrowed };

    INLAY_CHECK(extra % 8 == 0);
    (void)copy_graph(&room, from);
    if (!guarded_alloc(room.used, 64, 0, "past the end of the snapshot", &out->memory))
        return false;
    room = (struct room){ .base = out->memory.data, .extra = extra, .borrowed = borrowed };
    out->graph = copy_graph(&room, from);
    INLAY_CHECK(room.used == out->memory.bytes); /* both passes take the same bytes */
    guarded_protect(&out->memory, true);
    crash_describe_range(out->memory.data, out->memory.bytes, "of the snapshot, which is read-only");
    return true;
}

void frozen_hide(struct frozen *frozen)
{
    guarded_hide(&frozen->memory, "of the graph passed to compile, after compile returned");
}

void frozen_destroy(struct frozen *frozen)
{
    guarded_free(&frozen->memory); /* a no-op without memory */
}
