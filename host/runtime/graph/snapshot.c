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

static uint64_t hash_tensor(const inlay_tensor_view *t, uint64_t h)
{
    h = hash_u64(h, (uint64_t)t->dtype);
    h = hash_bytes(t->dims, t->rank * sizeof *t->dims, h);
    return hash_elements(t->dtype, t->data, t->bytes, h);
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

uint64_t graph_constant_hash(const struct graph *g, uint32_t v)
{
    inlay_value_info *info = &g->values[v].info;
    uint64_t h;

    if ((info->flags & INLAY_VALUE_CONSTANT) == 0)
        return 0;
    if (info->content_hash == 0) {
        h = hash_elements(info->dtype, info->data, info->data_bytes, graph_constant_seed(info));
        info->content_hash = h == 0 ? 1 : h;
    }
    return info->content_hash;
}

static uint64_t hash_attr(const inlay_attr_info *a, uint64_t h)
{
    h = hash_u64(hash_text(a->name, h), (uint64_t)a->kind << 32 | a->count);
    h = hash_u64(h, (uint64_t)a->i);
    h = hash_bytes(&a->f, sizeof a->f, h);
    if (a->s.data != NULL)
        h = hash_text(a->s, h);
    if (a->ints != NULL)
        h = hash_bytes(a->ints, a->count * sizeof *a->ints, h);
    if (a->floats != NULL)
        h = hash_bytes(a->floats, a->count * sizeof *a->floats, h);
    for (uint32_t i = 0; a->strings != NULL && i < a->count; i++)
        h = hash_text(a->strings[i], h);
    for (uint32_t i = 0; i < graph_attr_tensors(a); i++)
        h = hash_tensor(&a->tensor[i], h);
    return h;
}

/* Names do not count: the same computation under other names is the same to a cache. Bodies are graphs of their own,
 * but what the node does depends on them. */
static uint64_t hash_graph(const struct graph *g)
{
    uint64_t h = hash_u64(g->node_count, g->value_count);

    for (uint32_t i = 0; i < g->node_count; i++) {
        const inlay_node_info *n = &g->nodes[i]->info;

        h = hash_u64(hash_text(n->op_type, hash_text(n->domain, h)), n->since_version);
        h = hash_bytes(n->inputs, n->input_count * sizeof *n->inputs, h);
        h = hash_bytes(n->outputs, n->output_count * sizeof *n->outputs, h);
        for (uint32_t a = 0; a < n->attr_count; a++)
            h = hash_attr(INLAY_AT(inlay_attr_info, n->attrs, n->attr_stride, a), h);
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            h = hash_u64(h, hash_graph(g->nodes[i]->bodies[b].graph));
    }
    for (uint32_t v = 0; v < g->value_count; v++) {
        const inlay_value_info *info = &g->values[v].info;

        h = hash_u64(h, (uint64_t)info->kind << 32 | (uint32_t)info->dtype);
        h = hash_u64(hash_dims(info->rank, info->dims, h), graph_constant_hash(g, v));
    }
    h = hash_bytes(g->inputs, g->input_count * sizeof *g->inputs, h);
    return hash_bytes(g->outputs, g->output_count * sizeof *g->outputs, h);
}

inlay_status graph_snapshot(const struct graph *g, struct arena *a, inlay_graph *out, inlay_diag *diag)
{
    inlay_node_info *nodes = arena_array(a, g->node_count, sizeof *nodes);
    uint64_t constant_bytes = 0;

    if (nodes == NULL)
        return graph_fail(g, NULL, NULL, INLAY_OUT_OF_MEMORY, diag, "out of memory for a snapshot of %u nodes",
                          g->node_count);
    for (uint32_t i = 0; i < g->node_count; i++)
        nodes[i] = g->nodes[i]->info;
    for (uint32_t v = 0; v < g->value_count; v++)
        if ((g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0)
            constant_bytes += g->values[v].info.data_bytes;
    *out = (inlay_graph){ .struct_size = sizeof *out,
                          .name = { g->name, strlen(g->name) },
                          .content_hash = hash_graph(g),
                          .nodes = nodes,
                          .values = g->value_count == 0 ? NULL : &g->values[0].info,
                          .symbols = g->model->symbols,
                          .inputs = g->inputs,
                          .outputs = g->outputs,
                          .node_count = g->node_count,
                          .node_stride = sizeof *nodes,
                          .value_count = g->value_count,
                          .value_stride = sizeof *g->values,
                          .symbol_count = g->model->symbol_count,
                          .symbol_stride = sizeof *g->model->symbols,
                          .input_count = g->input_count,
                          .output_count = g->output_count,
                          .constant_bytes = constant_bytes };
    return INLAY_OK;
}
