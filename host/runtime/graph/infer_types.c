/* graph/infer_types.c - the types of values, as a file declares them and as operators have them. */
#include "graph/infer.h"
#include <string.h>

op_value_type infer_type_of(const graph_value *v)
{
    return (op_value_type){ v->info.kind, v->inner_kind, v->info.dtype, v->map_key };
}

void infer_copy_type(graph_value *to, const graph_value *from)
{
    to->info.kind = from->info.kind;
    to->info.dtype = from->info.dtype;
    to->info.rank = from->info.rank;
    to->info.dims = from->info.dims;
    to->inner_kind = from->inner_kind;
    to->map_key = from->map_key;
}

void infer_forget(graph_value *v)
{
    v->info.kind = INLAY_VALUE_TENSOR;
    v->info.dtype = INLAY_UNDEFINED;
    v->info.rank = INLAY_RANK_UNKNOWN;
    v->info.dims = NULL;
    v->info.elements = NULL;
    v->info.element_count = 0;
    v->inner_kind = 0;
    v->map_key = INLAY_UNDEFINED;
}

void infer_use_declared(const struct graph *g, graph_value *v)
{
    if (!v->declared || (v->info.flags & INLAY_VALUE_CONSTANT) != 0)
        return;
    if (v->info.dtype == INLAY_UNDEFINED && v->info.kind == INLAY_VALUE_TENSOR) {
        v->info.dtype = v->declared_dtype;
        g->model->trusts_file = true;
    }
    if (v->info.rank == INLAY_RANK_UNKNOWN && v->declared_rank != INLAY_RANK_UNKNOWN) {
        v->info.rank = v->declared_rank;
        v->info.dims = v->declared_dims;
        g->model->trusts_file = true;
    }
}

static bool has_list(const graph_node *n, const char *name)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->count > 0;
}

static inlay_dtype cast_map_type(const graph_node *n)
{
    const inlay_attr_info *to = graph_attr(n, "cast_to");

    if (to == NULL || strcmp(to->s.data, "TO_FLOAT") == 0)
        return INLAY_FLOAT;
    return strcmp(to->s.data, "TO_STRING") == 0 ? INLAY_STRING : INLAY_INT64;
}

void infer_derive_type(const struct graph *g, const graph_node *n, op_value_type *out)
{
    const char *op = n->info.op_type.data;
    op_value_type type;

    if (n->row == NULL || (n->row->flags & OP_HOST) == 0 || n->info.output_count == 0 || out[0].kind == 0)
        return;
    if (n->info.input_count == 0 || n->info.inputs[0] == INLAY_NONE) {
        if (strcmp(op, "Optional") == 0 && n->type_attr != NULL) {
            type = infer_type_of(n->type_attr);
            out[0] = (op_value_type){ INLAY_VALUE_OPTIONAL, type.kind, type.dtype, type.map_key };
        } else if (strcmp(op, "SequenceEmpty") == 0) {
            const inlay_attr_info *dtype = graph_attr(n, "dtype");
            inlay_dtype number = dtype != NULL ? (inlay_dtype)dtype->i : INLAY_FLOAT;

            out[0] = (op_value_type){ INLAY_VALUE_SEQUENCE, INLAY_VALUE_TENSOR, number, INLAY_UNDEFINED };
        }
        return;
    }
    type = infer_type_of(&g->values[n->info.inputs[0]]);
    if (strcmp(op, "SequenceConstruct") == 0 || strcmp(op, "SplitToSequence") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_SEQUENCE, INLAY_VALUE_TENSOR, type.dtype, INLAY_UNDEFINED };
    else if (strcmp(op, "SequenceAt") == 0 || strcmp(op, "ConcatFromSequence") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_TENSOR, 0, type.dtype, INLAY_UNDEFINED };
    else if (strcmp(op, "Optional") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_OPTIONAL, type.kind, type.dtype, type.map_key };
    else if (strcmp(op, "ZipMap") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_SEQUENCE, INLAY_VALUE_MAP, INLAY_FLOAT,
                                  has_list(n, "classlabels_int64s") ? INLAY_INT64 : INLAY_STRING };
    else if (strcmp(op, "DictVectorizer") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_TENSOR, 0, type.dtype, INLAY_UNDEFINED };
    else if (strcmp(op, "CastMap") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_TENSOR, 0, cast_map_type(n), INLAY_UNDEFINED };
    else if (strcmp(op, "OptionalGetElement") == 0)
        out[0] =
            type.kind != INLAY_VALUE_OPTIONAL || type.inner_kind == 0
                ? type
                : (op_value_type){ type.inner_kind, type.inner_kind == INLAY_VALUE_SEQUENCE ? INLAY_VALUE_TENSOR : 0,
                                   type.dtype, type.map_key };
}
