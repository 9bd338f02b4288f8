/* graph/snapshot.c - the flat view of a graph that providers get, and its content hash. */
#include "base/hash.h"
#include "graph/graph.h"
#include <string.h>

static uint64_t hash_text(inlay_str text, uint64_t h)
{
    return hash_bytes(text.data, (size_t)text.bytes, h);
}

static uint64_t hash_elements(inlay_dtype dtype, const void *data, uint64_t bytes, uint64_t h)
{
    if (dtype == INLAY_STRING) {
        const inlay_str *texts = data;

        for (uint64_t i = 0; i < bytes / sizeof *texts; i++)
            h = hash_text(texts[i], h);
        return h;
    }
    return hash_blocks(data, (size_t)bytes, h);
}

static uint64_t hash_tensor(const inlay_tensor_view *view, uint64_t h)
{
    h = hash_u64(h, (uint64_t)view->dtype);
    h = hash_bytes(view->dims, view->rank * sizeof *view->dims, h);
    return hash_elements(view->dtype, view->data, view->bytes, h);
}

static uint64_t hash_dims(uint32_t rank, const inlay_dim *dims, uint64_t h)
{
    h = hash_u64(h, rank);
    for (uint32_t i = 0; rank != INLAY_RANK_UNKNOWN && i < rank; i++) {
        h = hash_u64(h, (uint64_t)dims[i].value);
        h = hash_u64(h, (uint64_t)dims[i].kind << 32 | dims[i].symbol);
    }
    return h;
}

uint64_t graph_constant_seed(const inlay_value_info *info)
{
    return hash_dims(info->rank, info->dims, hash_u64(0, (uint64_t)info->dtype));
}

uint64_t graph_constant_hash(const struct graph *graph, uint32_t value)
{
    inlay_value_info *info = &graph->values[value].info;
    uint64_t h;

    if ((info->flags & INLAY_VALUE_CONSTANT) == 0)
        return 0;
    if (info->content_hash == 0) {
        h = hash_elements(info->dtype, info->data, info->data_bytes, graph_constant_seed(info));
        info->content_hash = h == 0 ? 1 : h;
    }
    return info->content_hash;
}

static uint64_t hash_attr(const inlay_attr_info *attribute, uint64_t h)
{
    h = hash_u64(hash_text(attribute->name, h), (uint64_t)attribute->kind << 32 | attribute->count);
    h = hash_u64(h, (uint64_t)attribute->i);
    h = hash_bytes(&attribute->f, sizeof attribute->f, h);
    if (attribute->s.data != NULL)
        h = hash_text(attribute->s, h);
    if (attribute->ints != NULL)
        h = hash_bytes(attribute->ints, attribute->count * sizeof *attribute->ints, h);
    if (attribute->floats != NULL)
        h = hash_bytes(attribute->floats, attribute->count * sizeof *attribute->floats, h);
    for (uint32_t i = 0; attribute->strings != NULL && i < attribute->count; i++)
        h = hash_text(attribute->strings[i], h);
    for (uint32_t i = 0; i < graph_attr_tensors(attribute); i++)
        h = hash_tensor(&attribute->tensor[i], h);
    return h;
}

/* Names do not count: the same computation under other names is the same to a cache. Bodies are graphs of their own,
 * but what the node does depends on them. */
static uint64_t hash_graph(const struct graph *graph)
{
    uint64_t h = hash_u64(graph->node_count, graph->value_count);

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const inlay_node_info *node = &graph->nodes[i]->info;

        h = hash_u64(hash_text(node->op_type, hash_text(node->domain, h)), node->since_version);
        h = hash_bytes(node->inputs, node->input_count * sizeof *node->inputs, h);
        h = hash_bytes(node->outputs, node->output_count * sizeof *node->outputs, h);
        for (uint32_t a = 0; a < node->attr_count; a++)
            h = hash_attr(INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, a), h);
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            h = hash_u64(h, hash_graph(graph->nodes[i]->bodies[b].graph));
    }
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;

        h = hash_u64(h, (uint64_t)info->kind << 32 | (uint32_t)info->dtype);
        h = hash_u64(hash_dims(info->rank, info->dims, h), graph_constant_hash(graph, value));
    }
    h = hash_bytes(graph->inputs, graph->input_count * sizeof *graph->inputs, h);
    return hash_bytes(graph->outputs, graph->output_count * sizeof *graph->outputs, h);
}

inlay_status graph_snapshot(const struct graph *graph, struct arena *arena, inlay_graph *out, inlay_diag *diag)
{
    inlay_node_info *nodes = arena_array(arena, graph->node_count, sizeof *nodes);
    uint64_t constant_bytes = 0;

    if (nodes == NULL)
        return graph_fail(graph, NULL, NULL, INLAY_OUT_OF_MEMORY, diag, "out of memory for a snapshot of %u nodes",
                          graph->node_count);
    for (uint32_t i = 0; i < graph->node_count; i++)
        nodes[i] = graph->nodes[i]->info;
    for (uint32_t value = 0; value < graph->value_count; value++)
        if ((graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0)
            constant_bytes += graph->values[value].info.data_bytes;
    *out = (inlay_graph){ .struct_size = sizeof *out,
                          .name = { graph->name, strlen(graph->name) },
                          .content_hash = hash_graph(graph),
                          .nodes = nodes,
                          .values = graph->value_count == 0 ? NULL : &graph->values[0].info,
                          .symbols = graph->model->symbols,
                          .inputs = graph->inputs,
                          .outputs = graph->outputs,
                          .node_count = graph->node_count,
                          .node_stride = sizeof *nodes,
                          .value_count = graph->value_count,
                          .value_stride = sizeof *graph->values,
                          .symbol_count = graph->model->symbol_count,
                          .symbol_stride = sizeof *graph->model->symbols,
                          .input_count = graph->input_count,
                          .output_count = graph->output_count,
                          .constant_bytes = constant_bytes };
    return INLAY_OK;
}
