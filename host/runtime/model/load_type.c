/* model/load_type.c - the types of values. */
#include "model/load.h"
#include <inttypes.h>

static inlay_status load_dim(struct loader *loader, const Onnx__Dim *proto, inlay_dim *out)
{
    *out = (inlay_dim){ .value = -1, .kind = INLAY_DIM_UNKNOWN };
    if (proto->has_dim_value && proto->dim_value >= 0) {
        *out = (inlay_dim){ .value = proto->dim_value, .kind = INLAY_DIM_FIXED };
    } else if (proto->dim_param != NULL && proto->dim_param[0] != '\0') {
        out->kind = INLAY_DIM_SYMBOLIC;
        out->symbol = graph_symbol(loader->model, proto->dim_param);
        if (out->symbol == 0)
            return load_no_memory(loader, NULL);
    }
    return INLAY_OK; /* -1, "" and nothing at all are how exporters say that they do not know */
}

/* An input's dim that the file leaves open still is one number in each run: a symbol of its own. */
static inlay_status name_dim(struct loader *loader, const char *input, uint32_t axis, inlay_dim *dim)
{
    const char *name;

    if (dim->kind != INLAY_DIM_UNKNOWN)
        return INLAY_OK;
    name = arena_format(&loader->external.scratch, "%s[%u]", input, axis);
    dim->symbol = name == NULL ? 0 : graph_symbol(loader->model, name);
    dim->kind = INLAY_DIM_SYMBOLIC;
    return dim->symbol == 0 ? load_no_memory(loader, NULL) : INLAY_OK;
}

static inlay_status load_tensor_type(struct loader *loader, const struct graph *graph, const Onnx__TensorType *proto,
                                     graph_value *value, bool as_fact)
{
    bool ranked = proto->shape != NULL && proto->shape->n_dim <= INLAY_MAX_RANK;
    size_t rank = ranked ? proto->shape->n_dim : 0;
    inlay_dim *declared, *facts;
    inlay_status status = INLAY_OK;

    if (proto->elem_type != INLAY_UNDEFINED && inlay_dtype_bits(proto->elem_type) == 0)
        return graph_fail(graph, NULL, value->info.name.data, INLAY_UNSUPPORTED, loader->diag,
                          "value '%.96s' has element type %" PRId32 ", which ONNX up to IR 14 does not know",
                          value->info.name.data, proto->elem_type);
    if (proto->shape != NULL && !ranked)
        INLAY_TRY(graph_tolerate(loader->model, graph, NULL, value->info.name.data, GRAPH_RANK_ABOVE_16, loader->diag,
                                 "value '%.96s' has rank %zu; inlay computes with up to %d", value->info.name.data,
                                 proto->shape->n_dim, INLAY_MAX_RANK));
    declared = arena_array(&loader->model->arena, rank, sizeof *declared);
    facts = as_fact ? arena_array(&loader->model->arena, rank, sizeof *facts) : declared;
    if (declared == NULL || facts == NULL)
        return load_no_memory(loader, graph);
    for (uint32_t i = 0; status == INLAY_OK && i < rank; i++) {
        status = load_dim(loader, proto->shape->dim[i], &declared[i]);
        if (status == INLAY_OK && as_fact) {
            facts[i] = declared[i];
            status = name_dim(loader, value->info.name.data, i, &facts[i]);
        }
    }
    value->declared_dtype = proto->elem_type;
    value->declared_rank = ranked ? (uint32_t)rank : INLAY_RANK_UNKNOWN;
    value->declared_dims = declared;
    if (as_fact) {
        value->info.dtype = value->declared_dtype;
        value->info.rank = value->declared_rank;
        value->info.dims = facts;
    }
done:
    return status;
}

static uint32_t kind_of(const Onnx__Type *Type)
{
    if (Type == NULL)
        return 0;
    if (Type->sequence_type != NULL)
        return INLAY_VALUE_SEQUENCE;
    if (Type->optional_type != NULL)
        return INLAY_VALUE_OPTIONAL;
    if (Type->map_type != NULL)
        return INLAY_VALUE_MAP;
    return Type->tensor_type != NULL || Type->sparse_tensor_type != NULL ? INLAY_VALUE_TENSOR : 0;
}

/* The type inside a sequence, optional or map. */
static const Onnx__Type *inside(const Onnx__Type *Type)
{
    if (Type->sequence_type != NULL)
        return Type->sequence_type->elem_type;
    if (Type->optional_type != NULL)
        return Type->optional_type->elem_type;
    return Type->map_type->value_type;
}

inlay_status load_type(struct loader *loader, const struct graph *graph, const Onnx__Type *proto, graph_value *value,
                       bool as_fact)
{
    uint32_t kind = kind_of(proto);
    const Onnx__Type *Type = proto;

    value->declared = true;
    if (kind == 0) /* nothing said, or an opaque type, which nobody ever used */
        return INLAY_OK;
    value->info.kind = kind;
    for (uint32_t level = 0; kind_of(Type) > INLAY_VALUE_TENSOR; level++) {
        if (Type->map_type != NULL)
            value->map_key = Type->map_type->key_type;
        if (Type->map_type != NULL && Type->map_type->key_type != INLAY_STRING &&
            Type->map_type->key_type != INLAY_INT64)
            return graph_fail(graph, NULL, value->info.name.data, INLAY_UNSUPPORTED, loader->diag,
                              "value '%.96s' is a map with keys of type %s; inlay takes int64 and string",
                              value->info.name.data, inlay_dtype_name(Type->map_type->key_type));
        Type = inside(Type);
        if (level == 0)
            value->inner_kind = kind == INLAY_VALUE_MAP ? 0 : kind_of(Type);
        else if (kind_of(Type) > INLAY_VALUE_TENSOR)
            return graph_fail(graph, NULL, value->info.name.data, INLAY_UNSUPPORTED, loader->diag,
                              "value '%.96s' has a type of more than two levels, such as seq(seq(seq(tensor)))",
                              value->info.name.data);
    }
    if (kind_of(Type) == 0)
        return INLAY_OK;
    value->sparse = Type->tensor_type == NULL;
    return load_tensor_type(loader, graph, Type->tensor_type != NULL ? Type->tensor_type : Type->sparse_tensor_type,
                            value, as_fact);
}
