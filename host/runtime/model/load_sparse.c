/* model/load_sparse.c - initializers that stay sparse: constants for values and indices, and a SparseToDense node. */
#include "base/checked.h"
#include "model/load.h"
#include "inlay/check.h"
#include <string.h>

enum { MIN_BYTES = 64 << 10, MAX_KEPT = 4096 /* the name of each is compared with all others */ };

typedef struct kept_sparse {
    const Onnx__SparseTensor *proto;
    uint32_t value;
} kept_sparse;

static const char *name_of(const Onnx__SparseTensor *sparse)
{
    return sparse->values == NULL ? "" : text_of(sparse->values->name);
}

static bool can_stay_sparse(const Onnx__SparseTensor *sparse)
{
    size_t bytes = sizeof(float);

    if (sparse->values == NULL || sparse->indices == NULL || sparse->values->data_type != INLAY_FLOAT ||
        sparse->n_dims != 2)
        return false;
    for (size_t d = 0; d < sparse->n_dims; d++)
        if (sparse->dims[d] <= 0 || !mul_size(&bytes, (size_t)sparse->dims[d]))
            return false;
    return bytes >= MIN_BYTES;
}

inlay_status load_keep_sparse(struct loader *loader, struct scope *scope, const Onnx__Graph *proto, size_t i,
                              bool *out_kept)
{
    const Onnx__SparseTensor *sparse = proto->sparse_initializer[i];
    const char *name = name_of(sparse);
    inlay_status status;

    *out_kept = false;
    if (!loader->keep_sparse || scope->outer != NULL || proto->n_sparse_initializer > MAX_KEPT ||
        !can_stay_sparse(sparse) || names_find(&scope->table, name, strlen(name)) != NAMES_NONE)
        return INLAY_OK;
    for (size_t k = 0; k < proto->n_sparse_initializer; k++)
        if (k != i && strcmp(name_of(proto->sparse_initializer[k]), name) == 0)
            return INLAY_OK;
    if (loader->kept == NULL)
        loader->kept = arena_array(&loader->model->arena, proto->n_sparse_initializer, sizeof *loader->kept);
    if (loader->kept == NULL)
        return load_no_memory(loader, scope->graph);
    INLAY_CHECK(loader->kept_count < proto->n_sparse_initializer);
    status = scope_define(loader, scope, name, "initializer", &loader->kept[loader->kept_count].value);
    loader->kept[loader->kept_count++].proto = sparse;
    *out_kept = true;
    return status;
}

static inlay_status add_sparse_node(struct loader *loader, struct graph *graph, uint32_t value,
                                    const inlay_tensor_view *values, const inlay_tensor_view *indices,
                                    const inlay_tensor_view *dense)
{
    graph_node *node = graph_add_node(graph, "SparseToDense", "ai.inlay", graph->values[value].info.name.data, 2, 1);
    uint32_t in[2];

    if (node == NULL || !graph_add_constant(graph, values, &in[0]) || !graph_add_constant(graph, indices, &in[1]) ||
        graph_set_attr_ints(graph, node, "shape", dense->dims, dense->rank) != INLAY_OK)
        return load_no_memory(loader, graph);
    node->opset = 1;
    memcpy((uint32_t *)(uintptr_t)node->info.inputs, in, sizeof in);
    *(uint32_t *)(uintptr_t)node->info.outputs = value;
    graph_blob_release_pages(loader->model, indices->data,
                             (size_t)indices->bytes); /* the indices were read only for validation */
    return INLAY_OK;
}

inlay_status load_kept_sparse(struct loader *loader, struct scope *scope)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < loader->kept_count && status == INLAY_OK; i++) {
        const kept_sparse *sparse = &loader->kept[i];
        inlay_tensor_view values, indices, dense;
        bool ascending;

        status =
            tensor_read_entries(&loader->source, sparse->proto, &values, &indices, &dense, &ascending, loader->diag);
        if (status == INLAY_OK && ascending && values.bytes > 0) {
            status = add_sparse_node(loader, scope->graph, sparse->value, &values, &indices, &dense);
            continue;
        }
        if (status == INLAY_OK)
            status = tensor_read_sparse(&loader->source, sparse->proto, &dense, loader->diag);
        if (status != INLAY_OK)
            return load_fail_tensor(loader, scope->graph, name_of(sparse->proto), status);
        if (graph_set_constant(scope->graph, sparse->value, dense.dtype, dense.rank, dense.dims, dense.data,
                               dense.bytes) != INLAY_OK)
            return load_no_memory(loader, scope->graph);
    }
    return status;
}
