/* model/load_type.c - the types of values. */
#include "model/load.h"
#include <inttypes.h>

static inlay_status load_dim(struct loader *l, const Onnx__Dim *proto, inlay_dim *out)
{
    *out = (inlay_dim){ .value = -1, .kind = INLAY_DIM_UNKNOWN };
    if (proto->has_dim_value && proto->dim_value >= 0) {
        *out = (inlay_dim){ .value = proto->dim_value, .kind = INLAY_DIM_FIXED };
    } else if (proto->dim_param != NULL && proto->dim_param[0] != '\0') {
        out->kind = INLAY_DIM_SYMBOLIC;
        out->symbol = graph_symbol(l->model, proto->dim_param);
        if (out->symbol == 0)
            return load_no_memory(l, NULL);
    }
    return INLAY_OK; /* -1, "" and nothing at all are how exporters say that they do not know */
}

/* An input's dim that the file leaves open still is one number in each run: a symbol of its own. */
static inlay_status name_dim(struct loader *l, const char *input, uint32_t axis, inlay_dim *dim)
{
    const char *name;

    if (dim->kind != INLAY_DIM_UNKNOWN)
        return INLAY_OK;
    name = arena_format(&l->external.scratch, "%s[%u]", input, axis);
    dim->symbol = name == NULL ? 0 : graph_symbol(l->model, name);
    dim->kind = INLAY_DIM_SYMBOLIC;
    return dim->symbol == 0 ? load_no_memory(l, NULL) : INLAY_OK;
}

static inlay_status load_tensor_type(struct loader *l, const struct graph *g, const Onnx__TensorType *proto,
                                     graph_value *v, bool as_fact)
{
    bool ranked = proto->shape != NULL && proto->shape->n_dim <= INLAY_MAX_RANK;
    size_t rank = ranked ? proto->shape->n_dim : 0;
    inlay_dim *declared, *facts;
    inlay_status status = INLAY_OK;

    if (proto->elem_type != INLAY_UNDEFINED && inlay_dtype_bits(proto->elem_type) == 0)
        return graph_fail(g, NULL, v->info.name.data, INLAY_UNSUPPORTED, l->diag,
                          "value '%.96s' has element type %" PRId32 ", which ONNX up to IR 14 does not know",
                          v->info.name.data, proto->elem_type);
    if (proto->shape != NULL && !ranked)
        INLAY_TRY(graph_tolerate(l->model, g, NULL, v->info.name.data, GRAPH_RANK_ABOVE_16, l->diag,
                                 "value '%.96s' has rank %zu; inlay computes with up to %d", v->info.name.data,
                                 proto->shape->n_dim, INLAY_MAX_RANK));
    declared = arena_array(&l->model->arena, rank, sizeof *declared);
    facts = as_fact ? arena_array(&l->model->arena, rank, sizeof *facts) : declared;
    if (declared == NULL || facts == NULL)
        return load_no_memory(l, g);
    for (uint32_t i = 0; status == INLAY_OK && i < rank; i++) {
        status = load_dim(l, proto->shape->dim[i], &declared[i]);
        if (status == INLAY_OK && as_fact) {
            facts[i] = declared[i];
            status = name_dim(l, v->info.name.data, i, &facts[i]);
        }
    }
    v->declared_dtype = proto->elem_type;
    v->declared_rank = ranked ? (uint32_t)rank : INLAY_RANK_UNKNOWN;
    v->declared_dims = declared;
    if (as_fact) {
        v->info.dtype = v->declared_dtype;
        v->info.rank = v->declared_rank;
        v->info.dims = facts;
    }
done:
    return status;
}

static uint32_t kind_of(const Onnx__Type *t)
{
    if (t == NULL)
        return 0;
    if (t->sequence_type != NULL)
        return INLAY_VALUE_SEQUENCE;
    if (t->optional_type != NULL)
        return INLAY_VALUE_OPTIONAL;
    if (t->map_type != NULL)
        return INLAY_VALUE_MAP;
    return t->tensor_type != NULL || t->sparse_tensor_type != NULL ? INLAY_VALUE_TENSOR : 0;
}

/* The type inside a sequence, optional or map. */
static const Onnx__Type *inside(const Onnx__Type *t)
{
    if (t->sequence_type != NULL)
        return t->sequence_type->elem_type;
    if (t->optional_type != NULL)
        return t->optional_type->elem_type;
    return t->map_type->value_type;
}

inlay_status load_type(struct loader *l, const struct graph *g, const Onnx__Type *proto, graph_value *v, bool as_fact)
{
    uint32_t kind = kind_of(proto);
    const Onnx__Type *t = proto;

    v->declared = true;
    if (kind == 0) /* nothing said, or an opaque type, which nobody ever used */
        return INLAY_OK;
    v->info.kind = kind;
    for (uint32_t level = 0; kind_of(t) > INLAY_VALUE_TENSOR; level++) {
        if (t->map_type != NULL)
            v->map_key = t->map_type->key_type;
        if (t->map_type != NULL && t->map_type->key_type != INLAY_STRING && t->map_type->key_type != INLAY_INT64)
            return graph_fail(g, NULL, v->info.name.data, INLAY_UNSUPPORTED, l->diag,
                              "value '%.96s' is a map with keys of type %s; inlay takes int64 and string",
                              v->info.name.data, inlay_dtype_name(t->map_type->key_type));
        t = inside(t);
        if (level == 0)
            v->inner_kind = kind == INLAY_VALUE_MAP ? 0 : kind_of(t);
        else if (kind_of(t) > INLAY_VALUE_TENSOR)
            return graph_fail(g, NULL, v->info.name.data, INLAY_UNSUPPORTED, l->diag,
                              "value '%.96s' has a type of more than two levels, such as seq(seq(seq(tensor)))",
                              v->info.name.data);
    }
    if (kind_of(t) == 0)
        return INLAY_OK;
    v->sparse = t->tensor_type == NULL;
    return load_tensor_type(l, g, t->tensor_type != NULL ? t->tensor_type : t->sparse_tensor_type, v, as_fact);
}
