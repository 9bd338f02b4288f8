/* model/load_type.c - the types of values. */
#include "model/load.h"
#include "inlay/check.h"
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
    return INLAY_OK; /* exporters write -1, "" or nothing for an unknown dimension */
}

/* An unspecified dimension of an input has one size in each run, so it becomes a new symbol. */
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

static uint32_t kind_of(const Onnx__Type *type)
{
    if (type == NULL)
        return 0;
    if (type->sequence_type != NULL)
        return INLAY_VALUE_SEQUENCE;
    if (type->optional_type != NULL)
        return INLAY_VALUE_OPTIONAL;
    if (type->map_type != NULL)
        return INLAY_VALUE_MAP;
    return type->tensor_type != NULL || type->sparse_tensor_type != NULL ? INLAY_VALUE_TENSOR : 0;
}

/* The element type of a sequence, optional or map. */
static const Onnx__Type *element_type(const Onnx__Type *type)
{
    if (type->sequence_type != NULL)
        return type->sequence_type->elem_type;
    if (type->optional_type != NULL)
        return type->optional_type->elem_type;
    INLAY_CHECK(type->map_type != NULL);
    return type->map_type->value_type;
}

inlay_status load_type(struct loader *loader, const struct graph *graph, const Onnx__Type *proto, graph_value *value,
                       bool as_fact)
{
    uint32_t kind = kind_of(proto);
    const Onnx__Type *type = proto;

    value->declared = true;
    if (kind == 0) /* no type, or an opaque type, which is not used in practice */
        return INLAY_OK;
    value->info.kind = kind;
    for (uint32_t level = 0; kind_of(type) > INLAY_VALUE_TENSOR; level++) {
        if (type->map_type != NULL)
            value->map_key = type->map_type->key_type;
        if (type->map_type != NULL && type->map_type->key_type != INLAY_STRING &&
            type->map_type->key_type != INLAY_INT64)
            return graph_fail(graph, NULL, value->info.name.data, INLAY_UNSUPPORTED, loader->diag,
                              "value '%.96s' is a map with keys of type %s; inlay takes int64 and string",
                              value->info.name.data, inlay_dtype_name(type->map_type->key_type));
        type = element_type(type);
        if (level == 0)
            value->inner_kind = kind == INLAY_VALUE_MAP ? 0 : kind_of(type);
        else if (kind_of(type) > INLAY_VALUE_TENSOR)
            return graph_fail(graph, NULL, value->info.name.data, INLAY_UNSUPPORTED, loader->diag,
                              "value '%.96s' has a type of more than two levels, such as seq(seq(seq(tensor)))",
                              value->info.name.data);
    }
    if (kind_of(type) == 0)
        return INLAY_OK;
    value->sparse = type->tensor_type == NULL;
    return load_tensor_type(loader, graph, type->tensor_type != NULL ? type->tensor_type : type->sparse_tensor_type,
                            value, as_fact);
}
