/* model/load_node.c - nodes: inputs, attributes, bodies. */
#include "model/load.h"
#include "inlay/check.h"
#include <string.h>

/* Kinds of AttributeProto that plugins do not see. */
enum { KIND_GRAPH = 5, KIND_TENSORS = 9, KIND_GRAPHS = 10, KIND_SPARSE_TENSOR = 11, KIND_TYPE_PROTO = 13 };

enum { MAX_ATTRS = 500 }; /* per node, because all pairs of names are compared */

/* Files of IR 1 have no type field, so the kind follows from the member that is set. */
static int32_t kind_of(const Onnx__Attribute *attribute)
{
    if (attribute->type != 0)
        return attribute->type;
    if (attribute->has_f)
        return INLAY_ATTR_FLOAT;
    if (attribute->has_i)
        return INLAY_ATTR_INT;
    if (attribute->has_s)
        return INLAY_ATTR_STRING;
    if (attribute->t != NULL)
        return INLAY_ATTR_TENSOR;
    if (attribute->g != NULL)
        return KIND_GRAPH;
    if (load_has_list(attribute, LIST_FLOATS))
        return INLAY_ATTR_FLOATS;
    if (load_has_list(attribute, LIST_INTS))
        return INLAY_ATTR_INTS;
    return load_has_list(attribute, LIST_STRINGS) ? INLAY_ATTR_STRINGS : 0;
}

static inlay_status fail_attr(struct loader *loader, const struct graph *graph, const graph_node *node,
                              const char *name, inlay_status status)
{
    char place[360];
    const char *node_name = node == NULL ? "" : node->info.name.data;

    if (node != NULL && node_name[0] == '\0' && node->info.output_count > 0 && node->info.outputs[0] != INLAY_NONE)
        node_name = graph->values[node->info.outputs[0]].info.name.data; /* identifies an unnamed node */
    if (node != NULL)
        (void)snprintf(place, sizeof place, "graph '%.64s', node '%.96s' (%.48s): attribute '%.64s'", graph->name,
                       node_name, node->info.op_type.data, name);
    else
        (void)snprintf(place, sizeof place, "function '%.64s': attribute '%.64s'", graph->name, name);
    load_prefix(loader->diag, place);
    if (node != NULL && loader->diag != NULL && loader->diag->struct_size >= sizeof *loader->diag)
        (void)snprintf(loader->diag->node, sizeof loader->diag->node, "%s", node->info.name.data);
    return status;
}

static inlay_status read_tensors(struct loader *loader, const Onnx__Attribute *attribute, int32_t kind,
                                 inlay_attr_info *out)
{
    size_t count = kind == KIND_TENSORS ? attribute->n_tensors : 1;
    inlay_tensor_view *views = arena_array(&loader->model->arena, count, sizeof *views);
    inlay_status status = INLAY_OK;

    if (views == NULL)
        return inlay_fail(loader->diag, INLAY_OUT_OF_MEMORY, "out of memory");
    if ((kind == INLAY_ATTR_TENSOR && attribute->t == NULL) ||
        (kind == KIND_SPARSE_TENSOR && attribute->sparse_tensor == NULL))
        return inlay_fail(loader->diag, INLAY_INVALID_MODEL, "has type tensor, but contains none");
    for (size_t i = 0; status == INLAY_OK && i < count; i++) {
        if (kind == KIND_SPARSE_TENSOR)
            status = tensor_read_sparse(&loader->source, attribute->sparse_tensor, &views[i], loader->diag);
        else
            status = tensor_read(&loader->source, kind == KIND_TENSORS ? attribute->tensors[i] : attribute->t,
                                 &views[i], loader->diag);
    }
    out->tensor = views;
    out->count = kind == KIND_TENSORS ? (uint32_t)count : 0;
    return status;
}

/* Sets the members of out for the attribute's kind. */
static inlay_status read_value(struct loader *loader, const Onnx__Attribute *attribute, int32_t kind,
                               inlay_attr_info *out)
{
    struct arena *arena = &loader->model->arena;
    bool ok = true;

    switch (kind) {
    case INLAY_ATTR_FLOAT:
        out->f = (double)attribute->f;
        break;
    case INLAY_ATTR_INT:
        out->i = attribute->i;
        break;
    case INLAY_ATTR_STRING:
        out->s =
            (inlay_str){ arena_string_n(arena, (const char *)attribute->s.data, attribute->s.len), attribute->s.len };
        ok = out->s.data != NULL;
        break;
    case INLAY_ATTR_FLOATS:
        return load_list(loader, attribute, LIST_FLOATS, out);
    case INLAY_ATTR_INTS:
        return load_list(loader, attribute, LIST_INTS, out);
    case INLAY_ATTR_STRINGS:
        return load_list(loader, attribute, LIST_STRINGS, out);
    case INLAY_ATTR_TENSOR:
    case KIND_TENSORS:
    case KIND_SPARSE_TENSOR:
        return read_tensors(loader, attribute, kind, out);
    default:
        return inlay_fail(loader->diag, INLAY_UNSUPPORTED, "has kind %d, which no operator of ONNX uses", (int)kind);
    }
    return ok ? INLAY_OK : inlay_fail(loader->diag, INLAY_OUT_OF_MEMORY, "out of memory");
}

static bool is_constant_value(const graph_node *node, const char *name)
{
    return node != NULL && strcmp(name, "value") == 0 && strcmp(node->info.op_type.data, "Constant") == 0 &&
           strcmp(node->info.domain.data, "ai.onnx") == 0;
}

inlay_status load_attr(struct loader *loader, const struct graph *graph, const graph_node *node,
                       const Onnx__Attribute *proto, inlay_attr_info *out)
{
    const char *name = text_of(proto->name);
    int32_t kind = kind_of(proto);
    inlay_status status;

    *out = (inlay_attr_info){ .kind = (uint32_t)kind };
    out->name = (inlay_str){ load_text(loader, name), strlen(name) };
    if (out->name.data == NULL)
        return load_no_memory(loader, graph);
    status = read_value(loader, proto, kind, out);
    if (status != INLAY_OK)
        return fail_attr(loader, graph, node, name, status);
    /* A sparse Constant (Constant-11) becomes a dense one here, so that other code needs no special case. Some
     * exporters put the sparse tensor into the attribute "value", which ONNX Runtime accepts. */
    if (kind == KIND_SPARSE_TENSOR && (strcmp(name, "sparse_value") == 0 || is_constant_value(node, name))) {
        out->kind = INLAY_ATTR_TENSOR;
        out->name = (inlay_str){ "value", 5 };
    }
    return INLAY_OK;
}

static inlay_status load_body(struct loader *loader, struct scope *scope, const graph_node *node, const char *attr,
                              const Onnx__Graph *proto, bool in_list, graph_body *out)
{
    struct scope inner = { .outer = scope };
    inlay_status status = INLAY_OK;

    out->attr = load_text(loader, attr);
    inner.graph = graph_create(loader->model, scope->graph, attr);
    if (out->attr == NULL || inner.graph == NULL)
        return load_no_memory(loader, scope->graph);
    if (proto == NULL)
        return graph_fail(scope->graph, node, NULL, INLAY_INVALID_MODEL, loader->diag,
                          "attribute '%.64s' has type graph, but contains none", attr);
    INLAY_TRY(load_graph(loader, &inner, proto));
    inner.graph->captured = inner.capture_inner;
    inner.graph->captured_count = inner.capture_count;
    out->graph = inner.graph;
    out->capture_outer = inner.capture_outer;
    out->capture_inner = inner.capture_inner;
    out->capture_count = inner.capture_count;
    out->in_list = in_list;
done:
    scope_deinit(&inner);
    return status;
}

static size_t body_count(const Onnx__Node *proto)
{
    size_t count = 0;

    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Onnx__Attribute *attribute = proto->attribute[i];
        int32_t kind = kind_of(attribute);

        if (text_of(attribute->ref_attr_name)[0] == '\0')
            count += kind == KIND_GRAPH ? 1 : kind == KIND_GRAPHS ? attribute->n_graphs : 0;
    }
    return count;
}

static inlay_status add_ref(struct loader *loader, struct scope *scope, graph_node *node,
                            const Onnx__Attribute *attribute)
{
    const graph_attr_ref ref = { .name = load_text(loader, attribute->name),
                                 .from = load_text(loader, attribute->ref_attr_name),
                                 .kind = (uint32_t)kind_of(attribute) };

    if (ref.name == NULL || ref.from == NULL || !ARENA_GROW(&loader->model->arena, node->refs, node->ref_count))
        return load_no_memory(loader, scope->graph);
    node->refs[node->ref_count++] = ref;
    return INLAY_OK;
}

static inlay_status load_type_attr(struct loader *loader, struct scope *scope, graph_node *node,
                                   const Onnx__Attribute *attribute)
{
    graph_value *type = arena_alloc(&loader->model->arena, sizeof *type);

    if (type == NULL)
        return load_no_memory(loader, scope->graph);
    type->info.name = (inlay_str){ "type", 4 };
    type->info.producer = INLAY_NONE;
    type->info.kind = INLAY_VALUE_TENSOR;
    type->info.rank = type->declared_rank = INLAY_RANK_UNKNOWN;
    node->type_attr = type;
    node->type_attr_name = load_text(loader, attribute->name);
    if (node->type_attr_name == NULL)
        return load_no_memory(loader, scope->graph);
    inlay_status status = load_type(loader, scope->graph, attribute->tp, type, false);
    type->info.dtype = type->declared_dtype;
    type->info.rank = type->declared_rank;
    type->info.dims = type->declared_dims;
    return status;
}

static inlay_status check_names(struct loader *loader, const struct scope *scope, const graph_node *node,
                                const Onnx__Node *proto)
{
    if (proto->n_attribute > MAX_ATTRS)
        return graph_fail(scope->graph, node, NULL, INLAY_LIMIT_EXCEEDED, loader->diag,
                          "the node has %zu attributes; inlay takes up to %d", proto->n_attribute, MAX_ATTRS);
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const char *name = text_of(proto->attribute[i]->name);

        if (name[0] == '\0')
            return graph_fail(scope->graph, node, NULL, INLAY_INVALID_MODEL, loader->diag, "attribute %zu has no name",
                              i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(name, text_of(proto->attribute[k]->name)) == 0)
                return graph_fail(scope->graph, node, NULL, INLAY_INVALID_MODEL, loader->diag,
                                  "attribute '%.64s' is set twice", name);
    }
    return INLAY_OK;
}

static inlay_status load_attributes(struct loader *loader, struct scope *scope, const Onnx__Node *proto,
                                    graph_node *node)
{
    inlay_attr_info *attrs = arena_array(&loader->model->arena, proto->n_attribute, sizeof *attrs);
    inlay_status status = INLAY_OK;
    uint32_t count = 0;

    node->bodies = arena_array(&loader->model->arena, body_count(proto), sizeof *node->bodies);
    if (attrs == NULL || node->bodies == NULL)
        return load_no_memory(loader, scope->graph);
    INLAY_TRY(check_names(loader, scope, node, proto));
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Onnx__Attribute *attribute = proto->attribute[i];
        const char *name = text_of(attribute->name);
        int32_t kind = kind_of(attribute);

        if (text_of(attribute->ref_attr_name)[0] != '\0') {
            INLAY_TRY(add_ref(loader, scope, node, attribute));
        } else if (kind == KIND_GRAPH) {
            INLAY_TRY(load_body(loader, scope, node, name, attribute->g, false, &node->bodies[node->body_count]));
            node->body_count++;
        } else if (kind == KIND_GRAPHS) {
            for (size_t k = 0; k < attribute->n_graphs; k++, node->body_count++)
                INLAY_TRY(
                    load_body(loader, scope, node, name, attribute->graphs[k], true, &node->bodies[node->body_count]));
        } else if (kind == KIND_TYPE_PROTO) {
            INLAY_TRY(load_type_attr(loader, scope, node, attribute));
        } else {
            INLAY_TRY(load_attr(loader, scope->graph, node, attribute, &attrs[count]));
            count++;
        }
    }
    INLAY_CHECK(node->body_count == body_count(proto) && count <= proto->n_attribute);
    node->info.attrs = attrs;
    node->info.attr_count = node->own_attr_count = count;
done:
    return status;
}

inlay_status load_node(struct loader *loader, struct scope *scope, const Onnx__Node *proto, graph_node *node)
{
    uint32_t *inputs = (uint32_t *)(uintptr_t)node->info.inputs; /* writable while the graph is loaded */

    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = proto->input[i];
        inlay_status status;

        if (name[0] == '\0')
            continue;
        status = scope_resolve(loader, scope, name, &inputs[i]);
        if (status != INLAY_OK)
            return status;
        if (inputs[i] == INLAY_NONE &&
            loader->model->findings.collect) /* graph_finish() reports the missing producer */
            status = scope_define(loader, scope, name, "input", &inputs[i]);
        else if (inputs[i] == INLAY_NONE)
            status = graph_fault_fail(
                scope->graph, node, name, GRAPH_NO_PRODUCER, INLAY_INVALID_MODEL, loader->diag,
                "input %zu '%.96s' has no producer; add a node, an initializer or a graph input of that name", i, name);
        if (status != INLAY_OK)
            return status;
    }
    return load_attributes(loader, scope, proto, node);
}
