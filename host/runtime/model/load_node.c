/* model/load_node.c - nodes: inputs, attributes, bodies. */
#include "model/load.h"
#include <string.h>

/* AttributeProto's kinds beyond those that plugins see. */
enum { KIND_GRAPH = 5, KIND_TENSORS = 9, KIND_GRAPHS = 10, KIND_SPARSE_TENSOR = 11, KIND_TYPE_PROTO = 13 };

enum { MAX_ATTRS = 500 }; /* of one node: names are compared pairwise */

/* IR 1 files say only by what is there which kind an attribute is. */
static int32_t kind_of(const Onnx__Attribute *p)
{
    if (p->type != 0)
        return p->type;
    if (p->has_f)
        return INLAY_ATTR_FLOAT;
    if (p->has_i)
        return INLAY_ATTR_INT;
    if (p->has_s)
        return INLAY_ATTR_STRING;
    if (p->t != NULL)
        return INLAY_ATTR_TENSOR;
    if (p->g != NULL)
        return KIND_GRAPH;
    if (load_has_list(p, LIST_FLOATS))
        return INLAY_ATTR_FLOATS;
    if (load_has_list(p, LIST_INTS))
        return INLAY_ATTR_INTS;
    return load_has_list(p, LIST_STRINGS) ? INLAY_ATTR_STRINGS : 0;
}

static inlay_status fail_attr(struct loader *l, const struct graph *g, const graph_node *n, const char *name,
                              inlay_status status)
{
    char place[360];
    const char *node = n == NULL ? "" : n->info.name.data;

    if (n != NULL && node[0] == '\0' && n->info.output_count > 0 && n->info.outputs[0] != INLAY_NONE)
        node = g->values[n->info.outputs[0]].info.name.data; /* nameless nodes go by their output */
    if (n != NULL)
        (void)snprintf(place, sizeof place, "graph '%.64s', node '%.96s' (%.48s): attribute '%.64s'", g->name, node,
                       n->info.op_type.data, name);
    else
        (void)snprintf(place, sizeof place, "function '%.64s': attribute '%.64s'", g->name, name);
    load_prefix(l->diag, place);
    if (n != NULL && l->diag != NULL && l->diag->struct_size >= sizeof *l->diag)
        (void)snprintf(l->diag->node, sizeof l->diag->node, "%s", n->info.name.data);
    return status;
}

static inlay_status read_tensors(struct loader *l, const Onnx__Attribute *p, int32_t kind, inlay_attr_info *out)
{
    size_t count = kind == KIND_TENSORS ? p->n_tensors : 1;
    inlay_tensor_view *views = arena_array(&l->model->arena, count, sizeof *views);
    inlay_status status = INLAY_OK;

    if (views == NULL)
        return inlay_fail(l->diag, INLAY_OUT_OF_MEMORY, "out of memory");
    if ((kind == INLAY_ATTR_TENSOR && p->t == NULL) || (kind == KIND_SPARSE_TENSOR && p->sparse_tensor == NULL))
        return inlay_fail(l->diag, INLAY_INVALID_MODEL, "says that it is a tensor, but holds none");
    for (size_t i = 0; status == INLAY_OK && i < count; i++) {
        if (kind == KIND_SPARSE_TENSOR)
            status = tensor_read_sparse(&l->source, p->sparse_tensor, &views[i], l->diag);
        else
            status = tensor_read(&l->source, kind == KIND_TENSORS ? p->tensors[i] : p->t, &views[i], l->diag);
    }
    out->tensor = views;
    out->count = kind == KIND_TENSORS ? (uint32_t)count : 0;
    return status;
}

/* The members of out that kind calls for. */
static inlay_status read_value(struct loader *l, const Onnx__Attribute *p, int32_t kind, inlay_attr_info *out)
{
    struct arena *a = &l->model->arena;
    bool there = true;

    switch (kind) {
    case INLAY_ATTR_FLOAT:
        out->f = (double)p->f;
        break;
    case INLAY_ATTR_INT:
        out->i = p->i;
        break;
    case INLAY_ATTR_STRING:
        out->s = (inlay_str){ arena_string_n(a, (const char *)p->s.data, p->s.len), p->s.len };
        there = out->s.data != NULL;
        break;
    case INLAY_ATTR_FLOATS:
        return load_list(l, p, LIST_FLOATS, out);
    case INLAY_ATTR_INTS:
        return load_list(l, p, LIST_INTS, out);
    case INLAY_ATTR_STRINGS:
        return load_list(l, p, LIST_STRINGS, out);
    case INLAY_ATTR_TENSOR:
    case KIND_TENSORS:
    case KIND_SPARSE_TENSOR:
        return read_tensors(l, p, kind, out);
    default:
        return inlay_fail(l->diag, INLAY_UNSUPPORTED, "is of kind %d, which no operator of ONNX uses", (int)kind);
    }
    return there ? INLAY_OK : inlay_fail(l->diag, INLAY_OUT_OF_MEMORY, "out of memory");
}

inlay_status load_attr(struct loader *l, const struct graph *g, const graph_node *n, const Onnx__Attribute *proto,
                       inlay_attr_info *out)
{
    const char *name = text_of(proto->name);
    int32_t kind = kind_of(proto);
    inlay_status status;

    *out = (inlay_attr_info){ .kind = (uint32_t)kind };
    out->name = (inlay_str){ load_text(l, name), strlen(name) };
    if (out->name.data == NULL)
        return load_no_memory(l, g);
    status = read_value(l, proto, kind, out);
    if (status != INLAY_OK)
        return fail_attr(l, g, n, name, status);
    /* A sparse Constant is a Constant: densified here, it needs no case anywhere else (Constant-11). */
    if (kind == KIND_SPARSE_TENSOR && strcmp(name, "sparse_value") == 0) {
        out->kind = INLAY_ATTR_TENSOR;
        out->name = (inlay_str){ "value", 5 };
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ bodies */

static inlay_status load_body(struct loader *l, struct scope *s, const graph_node *n, const char *attr,
                              const Onnx__Graph *proto, bool in_list, graph_body *out)
{
    struct scope inner = { .outer = s };
    inlay_status status = INLAY_OK;

    out->attr = load_text(l, attr);
    inner.g = graph_create(l->model, s->g, attr);
    if (out->attr == NULL || inner.g == NULL)
        return load_no_memory(l, s->g);
    if (proto == NULL)
        return graph_fail(s->g, n, NULL, INLAY_INVALID_MODEL, l->diag,
                          "attribute '%.64s' says that it is a graph, but holds none", attr);
    INLAY_TRY(load_graph(l, &inner, proto));
    inner.g->captured = inner.capture_inner;
    inner.g->captured_count = inner.capture_count;
    out->graph = inner.g;
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
        const Onnx__Attribute *p = proto->attribute[i];
        int32_t kind = kind_of(p);

        if (text_of(p->ref_attr_name)[0] == '\0')
            count += kind == KIND_GRAPH ? 1 : kind == KIND_GRAPHS ? p->n_graphs : 0;
    }
    return count;
}

static inlay_status add_ref(struct loader *l, struct scope *s, graph_node *n, const Onnx__Attribute *p)
{
    const graph_attr_ref ref = { .name = load_text(l, p->name),
                                 .from = load_text(l, p->ref_attr_name),
                                 .kind = (uint32_t)kind_of(p) };

    if (ref.name == NULL || ref.from == NULL || !ARENA_GROW(&l->model->arena, n->refs, n->ref_count))
        return load_no_memory(l, s->g);
    n->refs[n->ref_count++] = ref;
    return INLAY_OK;
}

static inlay_status load_type_attr(struct loader *l, struct scope *s, graph_node *n, const Onnx__Attribute *p)
{
    graph_value *type = arena_alloc(&l->model->arena, sizeof *type);

    if (type == NULL)
        return load_no_memory(l, s->g);
    type->info.name = (inlay_str){ "type", 4 };
    type->info.producer = INLAY_NONE;
    type->info.kind = INLAY_VALUE_TENSOR;
    type->info.rank = type->declared_rank = INLAY_RANK_UNKNOWN;
    n->type_attr = type;
    n->type_attr_name = load_text(l, p->name);
    if (n->type_attr_name == NULL)
        return load_no_memory(l, s->g);
    inlay_status status = load_type(l, s->g, p->tp, type, false);
    type->info.dtype = type->declared_dtype;
    type->info.rank = type->declared_rank;
    type->info.dims = type->declared_dims;
    return status;
}

/* ------------------------------------------------------------------ nodes */

static inlay_status check_names(struct loader *l, const struct scope *s, const graph_node *n, const Onnx__Node *proto)
{
    if (proto->n_attribute > MAX_ATTRS)
        return graph_fail(s->g, n, NULL, INLAY_LIMIT_EXCEEDED, l->diag,
                          "the node has %zu attributes; inlay takes up to %d", proto->n_attribute, MAX_ATTRS);
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const char *name = text_of(proto->attribute[i]->name);

        if (name[0] == '\0')
            return graph_fail(s->g, n, NULL, INLAY_INVALID_MODEL, l->diag, "attribute %zu has no name", i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(name, text_of(proto->attribute[k]->name)) == 0)
                return graph_fail(s->g, n, NULL, INLAY_INVALID_MODEL, l->diag, "attribute '%.64s' is there twice",
                                  name);
    }
    return INLAY_OK;
}

static inlay_status load_attributes(struct loader *l, struct scope *s, const Onnx__Node *proto, graph_node *n)
{
    inlay_attr_info *attrs = arena_array(&l->model->arena, proto->n_attribute, sizeof *attrs);
    inlay_status status = INLAY_OK;
    uint32_t count = 0;

    n->bodies = arena_array(&l->model->arena, body_count(proto), sizeof *n->bodies);
    if (attrs == NULL || n->bodies == NULL)
        return load_no_memory(l, s->g);
    INLAY_TRY(check_names(l, s, n, proto));
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Onnx__Attribute *p = proto->attribute[i];
        const char *name = text_of(p->name);
        int32_t kind = kind_of(p);

        if (text_of(p->ref_attr_name)[0] != '\0') {
            INLAY_TRY(add_ref(l, s, n, p));
        } else if (kind == KIND_GRAPH) {
            INLAY_TRY(load_body(l, s, n, name, p->g, false, &n->bodies[n->body_count]));
            n->body_count++;
        } else if (kind == KIND_GRAPHS) {
            for (size_t k = 0; k < p->n_graphs; k++, n->body_count++)
                INLAY_TRY(load_body(l, s, n, name, p->graphs[k], true, &n->bodies[n->body_count]));
        } else if (kind == KIND_TYPE_PROTO) {
            INLAY_TRY(load_type_attr(l, s, n, p));
        } else {
            INLAY_TRY(load_attr(l, s->g, n, p, &attrs[count]));
            count++;
        }
    }
    n->info.attrs = attrs;
    n->info.attr_count = n->own_attr_count = count;
done:
    return status;
}

inlay_status load_node(struct loader *l, struct scope *s, const Onnx__Node *proto, graph_node *n)
{
    uint32_t *inputs = (uint32_t *)(uintptr_t)n->info.inputs; /* ours until the graph is handed on */

    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = proto->input[i];
        inlay_status status;

        if (name[0] == '\0')
            continue;
        status = scope_resolve(l, s, name, &inputs[i]);
        if (status != INLAY_OK)
            return status;
        if (inputs[i] == INLAY_NONE && l->model->collect) /* a value that nothing makes: graph_finish() says so */
            status = scope_define(l, s, name, "input", &inputs[i]);
        else if (inputs[i] == INLAY_NONE)
            status = graph_fault_fail(
                s->g, n, name, GRAPH_NOT_MADE, INLAY_INVALID_MODEL, l->diag,
                "nothing makes input %zu '%.96s'; add a node, an initializer or a graph input of that name", i, name);
        if (status != INLAY_OK)
            return status;
    }
    return load_attributes(l, s, proto, n);
}
