/* graph/snapshot.c - the flat view of a graph that providers receive, and its content hash. */
#include "base/hash.h"
#include "graph/graph.h"
#include "inlay/check.h"
#include <string.h>

static uint64_t hash_text(inlay_str text, uint64_t hash)
{
    return hash_bytes(text.data, (size_t)text.bytes, hash);
}

static uint64_t hash_elements(inlay_dtype dtype, const void *data, uint64_t bytes, uint64_t hash)
{
    if (dtype == INLAY_STRING) {
        const inlay_str *texts = data;

        for (uint64_t i = 0; i < bytes / sizeof *texts; i++)
            hash = hash_text(texts[i], hash);
        return hash;
    }
    return hash_blocks(data, (size_t)bytes, hash);
}

static uint64_t hash_tensor(const inlay_tensor_view *view, uint64_t hash)
{
    hash = hash_u64(hash, (uint64_t)view->dtype);
    hash = hash_bytes(view->dims, view->rank * sizeof *view->dims, hash);
    return hash_elements(view->dtype, view->data, view->bytes, hash);
}

static uint64_t hash_dims(uint32_t rank, const inlay_dim *dims, uint64_t hash)
{
    hash = hash_u64(hash, rank);
    for (uint32_t i = 0; rank != INLAY_RANK_UNKNOWN && i < rank; i++) {
        hash = hash_u64(hash, (uint64_t)dims[i].value);
        hash = hash_u64(hash, (uint64_t)dims[i].kind << 32 | dims[i].symbol);
    }
    return hash;
}

uint64_t graph_constant_seed(const inlay_value_info *info)
{
    return hash_dims(info->rank, info->dims, hash_u64(0, (uint64_t)info->dtype));
}

uint64_t graph_constant_hash(const struct graph *graph, uint32_t value)
{
    inlay_value_info *info = &graph->values[value].info;
    uint64_t hash;

    INLAY_CHECK(value < graph->value_count);
    if ((info->flags & INLAY_VALUE_CONSTANT) == 0)
        return 0;
    if (info->content_hash == 0) {
        hash = hash_elements(info->dtype, info->data, info->data_bytes, graph_constant_seed(info));
        info->content_hash = hash == 0 ? 1 : hash;
    }
    return info->content_hash;
}

static uint64_t hash_attr(const inlay_attr_info *attribute, uint64_t hash)
{
    hash = hash_u64(hash_text(attribute->name, hash), (uint64_t)attribute->kind << 32 | attribute->count);
    hash = hash_u64(hash, (uint64_t)attribute->i);
    hash = hash_bytes(&attribute->f, sizeof attribute->f, hash);
    if (attribute->s.data != NULL)
        hash = hash_text(attribute->s, hash);
    if (attribute->ints != NULL)
        hash = hash_bytes(attribute->ints, attribute->count * sizeof *attribute->ints, hash);
    if (attribute->floats != NULL)
        hash = hash_bytes(attribute->floats, attribute->count * sizeof *attribute->floats, hash);
    for (uint32_t i = 0; attribute->strings != NULL && i < attribute->count; i++)
        hash = hash_text(attribute->strings[i], hash);
    for (uint32_t i = 0; i < graph_attr_tensors(attribute); i++)
        hash = hash_tensor(&attribute->tensor[i], hash);
    return hash;
}

uint64_t graph_hash_node(const inlay_node_info *node, uint64_t hash)
{
    hash = hash_u64(hash_text(node->op_type, hash_text(node->domain, hash)), node->since_version);
    for (uint32_t a = 0; a < node->attr_count; a++)
        hash = hash_attr(INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, a), hash);
    return hash;
}

/* Names are not hashed, so that caches recognise the same computation under other names. Bodies are hashed, because the
 * results of the node depend on them. */
static uint64_t hash_graph(const struct graph *graph)
{
    uint64_t hash = hash_u64(graph->node_count, graph->value_count);

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const inlay_node_info *node = &graph->nodes[i]->info;

        hash = graph_hash_node(node, hash);
        hash = hash_bytes(node->inputs, node->input_count * sizeof *node->inputs, hash);
        hash = hash_bytes(node->outputs, node->output_count * sizeof *node->outputs, hash);
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++) {
            const graph_body *body = &graph->nodes[i]->bodies[b];

            hash = hash_u64(hash, hash_graph(body->graph));
            hash = hash_bytes(body->capture_outer, body->capture_count * sizeof *body->capture_outer, hash);
            hash = hash_bytes(body->capture_inner, body->capture_count * sizeof *body->capture_inner, hash);
        }
    }
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;

        hash = hash_u64(hash, (uint64_t)info->kind << 32 | (uint32_t)info->dtype);
        hash = hash_u64(hash_dims(info->rank, info->dims, hash), graph_constant_hash(graph, value));
    }
    hash = hash_bytes(graph->inputs, graph->input_count * sizeof *graph->inputs, hash);
    return hash_bytes(graph->outputs, graph->output_count * sizeof *graph->outputs, hash);
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
