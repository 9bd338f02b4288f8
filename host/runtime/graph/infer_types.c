/* graph/infer_types.c - types of values: declared by the file, and derived for sequences, optionals and maps. */
#include "graph/infer.h"
#include <string.h>

op_value_type infer_type_of(const graph_value *value)
{
    return (op_value_type){ value->info.kind, value->inner_kind, value->info.dtype, value->map_key };
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

void infer_forget(graph_value *value)
{
    value->info.kind = INLAY_VALUE_TENSOR;
    value->info.dtype = INLAY_UNDEFINED;
    value->info.rank = INLAY_RANK_UNKNOWN;
    value->info.dims = NULL;
    value->info.elements = NULL;
    value->info.element_count = 0;
    value->inner_kind = 0;
    value->map_key = INLAY_UNDEFINED;
}

void infer_use_declared(const struct graph *graph, graph_value *value)
{
    if (!value->declared || (value->info.flags & INLAY_VALUE_CONSTANT) != 0)
        return;
    if (value->info.dtype == INLAY_UNDEFINED && value->info.kind == INLAY_VALUE_TENSOR) {
        value->info.dtype = value->declared_dtype;
        graph->model->trusts_file = true;
    }
    if (value->info.rank == INLAY_RANK_UNKNOWN && value->declared_rank != INLAY_RANK_UNKNOWN) {
        value->info.rank = value->declared_rank;
        value->info.dims = value->declared_dims;
        graph->model->trusts_file = true;
    }
}

static bool has_list(const graph_node *node, const char *name)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    return attribute != NULL && attribute->count > 0;
}

static inlay_dtype cast_map_type(const graph_node *node)
{
    const inlay_attr_info *to = graph_attr(node, "cast_to");

    if (to == NULL || strcmp(to->s.data, "TO_FLOAT") == 0)
        return INLAY_FLOAT;
    return strcmp(to->s.data, "TO_STRING") == 0 ? INLAY_STRING : INLAY_INT64;
}

void infer_derive_type(const struct graph *graph, const graph_node *node, op_value_type *out)
{
    const char *op = node->info.op_type.data;
    op_value_type type;

    if (node->row == NULL || (node->row->flags & OP_HOST) == 0 || node->info.output_count == 0 || out[0].kind == 0)
        return;
    if (node->info.input_count == 0 || node->info.inputs[0] == INLAY_NONE) {
        if (strcmp(op, "Optional") == 0 && node->type_attr != NULL) {
            type = infer_type_of(node->type_attr);
            out[0] = (op_value_type){ INLAY_VALUE_OPTIONAL, type.kind, type.dtype, type.map_key };
        } else if (strcmp(op, "SequenceEmpty") == 0) {
            const inlay_attr_info *dtype = graph_attr(node, "dtype");
            const int64_t number = dtype != NULL ? dtype->i : INLAY_FLOAT;
            const inlay_dtype of = number >= 0 && number < INLAY_DTYPE_COUNT ? (inlay_dtype)number : INLAY_DTYPE_COUNT;

            /* The schema has no INLAY_DTYPE_COUNT, so the check of the outputs refuses it. */
            out[0] = (op_value_type){ INLAY_VALUE_SEQUENCE, INLAY_VALUE_TENSOR, of, INLAY_UNDEFINED };
        }
        return;
    }
    type = infer_type_of(&graph->values[node->info.inputs[0]]);
    if (strcmp(op, "SequenceConstruct") == 0 || strcmp(op, "SplitToSequence") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_SEQUENCE, INLAY_VALUE_TENSOR, type.dtype, INLAY_UNDEFINED };
    else if (strcmp(op, "SequenceAt") == 0 || strcmp(op, "ConcatFromSequence") == 0 ||
             strcmp(op, "DictVectorizer") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_TENSOR, 0, type.dtype, INLAY_UNDEFINED };
    else if (strcmp(op, "Optional") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_OPTIONAL, type.kind, type.dtype, type.map_key };
    else if (strcmp(op, "ZipMap") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_SEQUENCE, INLAY_VALUE_MAP, INLAY_FLOAT,
                                  has_list(node, "classlabels_int64s") ? INLAY_INT64 : INLAY_STRING };
    else if (strcmp(op, "CastMap") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_TENSOR, 0, cast_map_type(node), INLAY_UNDEFINED };
    else if (strcmp(op, "OptionalGetElement") == 0)
        out[0] =
            type.kind != INLAY_VALUE_OPTIONAL || type.inner_kind == 0
                ? type
                : (op_value_type){ type.inner_kind, type.inner_kind == INLAY_VALUE_SEQUENCE ? INLAY_VALUE_TENSOR : 0,
                                   type.dtype, type.map_key };
}
