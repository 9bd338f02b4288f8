/* Sparse initializers that stay so: the values and indices of the file, and a node that stands for the matrix. */
#include "base/checked.h"
#include "model/load.h"
#include <string.h>

enum { LEAST_BYTES = 64 << 10, MOST_KEPT = 4096 /* each is compared with all others */ };

typedef struct kept_sparse {
    const Onnx__SparseTensor *proto;
    uint32_t value;
} kept_sparse;

static const char *name_of(const Onnx__SparseTensor *t)
{
    return t->values == NULL ? "" : text_of(t->values->name);
}

static bool may_stay(const Onnx__SparseTensor *t)
{
    size_t bytes = sizeof(float);

    if (t->values == NULL || t->indices == NULL || t->values->data_type != INLAY_FLOAT || t->n_dims != 2)
        return false;
    for (size_t d = 0; d < t->n_dims; d++)
        if (t->dims[d] <= 0 || !mul_size(&bytes, (size_t)t->dims[d]))
            return false;
    return bytes >= LEAST_BYTES;
}

inlay_status load_keep_sparse(struct loader *l, struct scope *s, const Onnx__Graph *proto, size_t i, bool *out_kept)
{
    const Onnx__SparseTensor *t = proto->sparse_initializer[i];
    const char *name = name_of(t);
    inlay_status status;

    *out_kept = false;
    if (!l->keep_sparse || s->outer != NULL || proto->n_sparse_initializer > MOST_KEPT || !may_stay(t) ||
        names_find(&s->table, name, strlen(name)) != NAMES_NONE)
        return INLAY_OK;
    for (size_t k = 0; k < proto->n_sparse_initializer; k++)
        if (k != i && strcmp(name_of(proto->sparse_initializer[k]), name) == 0)
            return INLAY_OK;
    if (l->kept == NULL)
        l->kept = arena_array(&l->model->arena, proto->n_sparse_initializer, sizeof *l->kept);
    if (l->kept == NULL)
        return load_no_memory(l, s->g);
    status = scope_define(l, s, name, "initializer", &l->kept[l->kept_count].value);
    l->kept[l->kept_count++].proto = t;
    *out_kept = true;
    return status;
}

static bool add_constant(struct graph *g, const inlay_tensor_view *t, uint32_t *out_value)
{
    *out_value = graph_add_value(g, NULL, 0);
    return *out_value != INLAY_NONE &&
           graph_set_constant(g, *out_value, t->dtype, t->rank, t->dims, t->data, t->bytes) == INLAY_OK;
}

static inlay_status make_node(struct loader *l, struct graph *g, uint32_t value, const inlay_tensor_view *values,
                              const inlay_tensor_view *indices, const inlay_tensor_view *dense)
{
    graph_node *n = graph_add_node(g, "SparseToDense", "ai.inlay", g->values[value].info.name.data, 2, 1);
    uint32_t in[2];

    if (n == NULL || !add_constant(g, values, &in[0]) || !add_constant(g, indices, &in[1]) ||
        graph_set_attr_ints(g, n, "shape", dense->dims, dense->rank) != INLAY_OK)
        return load_no_memory(l, g);
    n->opset = 1;
    memcpy((uint32_t *)(uintptr_t)n->info.inputs, in, sizeof in);
    *(uint32_t *)(uintptr_t)n->info.outputs = value;
    graph_blob_forget(l->model, indices->data, (size_t)indices->bytes); /* they were read to be checked */
    return INLAY_OK;
}

inlay_status load_kept_sparse(struct loader *l, struct scope *s)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < l->kept_count && status == INLAY_OK; i++) {
        const kept_sparse *k = &l->kept[i];
        inlay_tensor_view values, indices, dense;
        bool ascending;

        status = tensor_read_entries(&l->source, k->proto, &values, &indices, &dense, &ascending, l->diag);
        if (status == INLAY_OK && ascending && values.bytes > 0) {
            status = make_node(l, s->g, k->value, &values, &indices, &dense);
            continue;
        }
        if (status == INLAY_OK)
            status = tensor_read_sparse(&l->source, k->proto, &dense, l->diag);
        if (status != INLAY_OK)
            return load_fail_tensor(l, s->g, name_of(k->proto), status);
        if (graph_set_constant(s->g, k->value, dense.dtype, dense.rank, dense.dims, dense.data, dense.bytes) !=
            INLAY_OK)
            return load_no_memory(l, s->g);
    }
    return status;
}
