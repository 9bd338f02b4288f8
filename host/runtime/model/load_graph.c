/* model/load_graph.c - graphs and functions: inputs, initializers, outputs, nodes. */
#include "model/load.h"
#include <inttypes.h>
#include <string.h>

/* ------------------------------------------------------------------ inputs, initializers, outputs */

/* Fills what the declaration says about value index v. */
static inlay_status declare(struct loader *l, const struct graph *g, const Onnx__ValueInfo *proto, uint32_t v,
                            bool as_fact)
{
    graph_value *value = &g->values[v];
    inlay_status status = INLAY_OK;

    if (proto->doc_string != NULL) {
        value->doc = load_text(l, proto->doc_string);
        if (value->doc == NULL)
            return load_no_memory(l, g);
    }
    INLAY_TRY(load_extra(l, &proto->base, &value->extra));
    INLAY_TRY(load_type(l, g, proto->type, value, as_fact));
done:
    return status;
}

static inlay_status load_inputs(struct loader *l, struct scope *s, const Onnx__Graph *proto)
{
    struct graph *g = s->g;
    inlay_status status = INLAY_OK;

    g->inputs = arena_array(&l->model->arena, proto->n_input, sizeof *g->inputs);
    if (g->inputs == NULL)
        return load_no_memory(l, g);
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = text_of(proto->input[i]->name);
        uint32_t v = INLAY_NONE;

        if (name[0] == '\0')
            return graph_fail(g, NULL, NULL, INLAY_INVALID_MODEL, l->diag, "input %zu has no name", i);
        INLAY_TRY(scope_define(l, s, name, "input", &v));
        INLAY_TRY(declare(l, g, proto->input[i], v, s->outer == NULL));
        if (s->outer != NULL) /* a body: the element type is a fact, the shape often is not */
            g->values[v].info.dtype = g->values[v].declared_dtype;
        g->inputs[g->input_count++] = v;
    }
done:
    return status;
}

/* What IR 3 lists among the inputs although it is a constant is none to anybody. */
static void drop_constant_inputs(struct graph *g)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < g->input_count; i++)
        if ((g->values[g->inputs[i]].info.flags & INLAY_VALUE_CONSTANT) == 0)
            g->inputs[kept++] = g->inputs[i];
    g->input_count = kept;
}

/* Does a node of the graph, or of one within it, read a value of that name? */
static bool reads_name(const Onnx__Graph *g, const char *name)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__Node *n = g->node[i];

        for (size_t k = 0; k < n->n_input; k++)
            if (strcmp(text_of(n->input[k]), name) == 0)
                return true;
        for (size_t k = 0; k < n->n_attribute; k++) {
            if (n->attribute[k]->g != NULL && reads_name(n->attribute[k]->g, name))
                return true;
            for (size_t b = 0; b < n->attribute[k]->n_graphs; b++)
                if (reads_name(n->attribute[k]->graphs[b], name))
                    return true;
        }
    }
    for (size_t i = 0; i < g->n_output; i++)
        if (strcmp(text_of(g->output[i]->name), name) == 0)
            return true;
    return false;
}

enum { MOST_DEEP = 64 }; /* for each of which the whole graph is searched */

/* A tensor of a rank that nothing can compute with is left out where nothing does. */
static inlay_status skip_deep(struct loader *l, const struct scope *s, const Onnx__Graph *proto, const Onnx__Tensor *t,
                              const char *name, bool *out_skip)
{
    *out_skip = t->n_dims > INLAY_MAX_RANK && l->deep_count < MOST_DEEP && !reads_name(proto, name);
    if (!*out_skip)
        return INLAY_OK;
    l->deep_count++;
    return graph_tolerate(l->model, s->g, NULL, name, GRAPH_RANK_ABOVE_16, l->diag,
                          "initializer '%.96s' has rank %zu, and nothing reads it", name, t->n_dims);
}

/* An initializer's tensor becomes a constant, or the default of an input of the same name. */
static inlay_status place_initializer(struct loader *l, struct scope *s, const char *name, const inlay_tensor_view *t)
{
    struct graph *g = s->g;
    uint32_t v = names_find(&s->table, name, strlen(name));
    graph_value *value;
    inlay_status status;

    if (v == NAMES_NONE) {
        status = scope_define(l, s, name, "initializer", &v);
        if (status != INLAY_OK)
            return status;
    } else {
        value = &g->values[v];
        if (value->default_value != NULL || (value->info.flags & INLAY_VALUE_CONSTANT) != 0) {
            status = graph_tolerate(l->model, g, NULL, name, GRAPH_NAME_TWICE, l->diag,
                                    "initializer '%.96s' is there twice, of which the last counts", name);
            if (status != INLAY_OK)
                return status;
        }
        if ((value->info.flags & INLAY_VALUE_CONSTANT) != 0 && !value->has_default)
            goto place;
        value->has_default = true;
        /* IR 3 lists every initializer among the inputs. A body's inputs go by position: none may vanish. */
        if (l->model->ir_version >= 4 || s->outer != NULL) {
            value->default_value = arena_copy(&l->model->arena, t, sizeof *t);
            return value->default_value == NULL ? load_no_memory(l, g) : INLAY_OK;
        }
    }
place:
    if (graph_set_constant(g, v, t->dtype, t->rank, t->dims, t->data, t->bytes) != INLAY_OK)
        return load_no_memory(l, g);
    return INLAY_OK;
}

static inlay_status load_initializers(struct loader *l, struct scope *s, const Onnx__Graph *proto)
{
    struct graph *g = s->g;
    inlay_tensor_view t;
    inlay_status status = INLAY_OK;

    for (size_t i = 0; status == INLAY_OK && i < proto->n_initializer + proto->n_sparse_initializer; i++) {
        const Onnx__SparseTensor *sparse =
            i < proto->n_initializer ? NULL : proto->sparse_initializer[i - proto->n_initializer];
        const Onnx__Tensor *dense = sparse == NULL ? proto->initializer[i] : sparse->values;
        const char *name = dense == NULL ? "" : text_of(dense->name);

        bool skip = false;

        if (name[0] == '\0')
            return graph_fail(g, NULL, NULL, INLAY_INVALID_MODEL, l->diag, "initializer %zu has no name", i);
        status = sparse == NULL ? skip_deep(l, s, proto, dense, name, &skip)
                                : load_keep_sparse(l, s, proto, i - proto->n_initializer, &skip);
        if (status != INLAY_OK || skip)
            continue;
        status = sparse == NULL ? tensor_read(&l->source, dense, &t, l->diag)
                                : tensor_read_sparse(&l->source, sparse, &t, l->diag);
        if (status != INLAY_OK)
            return load_fail_tensor(l, g, name, status);
        status = place_initializer(l, s, name, &t);
    }
    drop_constant_inputs(g);
    return status;
}

static inlay_status load_outputs(struct loader *l, struct scope *s, const Onnx__Graph *proto)
{
    struct graph *g = s->g;
    inlay_status status = INLAY_OK;

    g->outputs = arena_array(&l->model->arena, proto->n_output, sizeof *g->outputs);
    if (g->outputs == NULL)
        return load_no_memory(l, g);
    for (size_t i = 0; i < proto->n_output; i++) {
        const char *name = text_of(proto->output[i]->name);
        uint32_t v;

        INLAY_TRY(scope_resolve(l, s, name, &v));
        if (v == INLAY_NONE) {
            status = graph_fault_fail(g, NULL, name, GRAPH_NOT_MADE, INLAY_INVALID_MODEL, l->diag,
                                      "nothing makes output %zu '%.96s'; give it a node or take it off the outputs", i,
                                      name);
            if (!graph_goes_on(l->model, g, NULL, &status, l->diag))
                return status;
            continue;
        }
        if (!g->values[v].declared)
            INLAY_TRY(declare(l, g, proto->output[i], v, false));
        if ((g->values[v].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0 && s->outer == NULL)
            INLAY_TRY(graph_tolerate(l->model, g, NULL, name, GRAPH_OUTPUT_TWICE, l->diag,
                                     "output %zu '%.96s' is listed more than once", i, name));
        g->values[v].info.flags |= INLAY_VALUE_GRAPH_OUTPUT;
        g->outputs[g->output_count++] = v;
    }
done:
    return status;
}

/* Declarations of values that are not there are left-overs of an exporter's optimiser. */
static inlay_status load_value_infos(struct loader *l, struct scope *s, size_t count, Onnx__ValueInfo *const *protos)
{
    inlay_status status = INLAY_OK;

    for (size_t i = 0; status == INLAY_OK && i < count; i++) {
        const char *name = text_of(protos[i]->name);
        uint32_t v = names_find(&s->table, name, strlen(name));

        if (v != NAMES_NONE && !s->g->values[v].declared)
            status = declare(l, s->g, protos[i], v, false);
    }
    return status;
}

/* ------------------------------------------------------------------ nodes */

static int64_t opset_of(const struct loader *l, const char *domain)
{
    for (uint32_t i = 0; i < l->opset_count; i++)
        if (strcmp(l->opsets[i].domain, domain) == 0)
            return l->opsets[i].version;
    return 0;
}

/* Adds the node and defines its outputs, so that nodes may stand in any order. */
static inlay_status define_node(struct loader *l, struct scope *s, const Onnx__Node *proto, graph_node **out)
{
    struct graph *g = s->g;
    graph_node *n;
    uint32_t *outputs;
    inlay_status status = INLAY_OK;

    n = graph_add_node(g, text_of(proto->op_type), text_of(proto->domain), text_of(proto->name),
                       (uint32_t)proto->n_input, (uint32_t)proto->n_output);
    if (n == NULL)
        return load_no_memory(l, g);
    *out = n;
    n->place = g->node_count;
    n->opset = opset_of(l, n->info.domain.data);
    n->overload = load_text(l, proto->overload);
    n->doc = load_text(l, proto->doc_string);
    if (n->overload == NULL || n->doc == NULL)
        return load_no_memory(l, g);
    if (n->info.op_type.bytes == 0) {
        status = graph_fail(g, n, NULL, INLAY_INVALID_MODEL, l->diag, "the node has no op_type");
        if (!graph_goes_on(l->model, g, n, &status, l->diag))
            return status;
    }
    INLAY_TRY(load_extra(l, &proto->base, &n->extra));
    outputs = (uint32_t *)(uintptr_t)n->info.outputs; /* ours until the graph is handed on */
    for (size_t o = 0; o < proto->n_output; o++) {
        const char *name = proto->output[o];

        if (name[0] == '\0')
            continue;
        INLAY_TRY(scope_check_hidden(l, s, n, "output", name));
        if (names_find(&s->table, name, strlen(name)) == NAMES_NONE) {
            INLAY_TRY(scope_add(l, s, name, &outputs[o]));
            continue;
        }
        status = graph_fault_fail(g, n, name, GRAPH_NAME_TWICE, INLAY_INVALID_MODEL, l->diag,
                                  "output %zu '%.96s' has the name of another value; names must be unique in a graph",
                                  o, name);
        if (!graph_goes_on(l->model, g, n, &status, l->diag))
            return status;
    }
done:
    return status;
}

static inlay_status load_nodes(struct loader *l, struct scope *s, size_t count, Onnx__Node *const *protos)
{
    inlay_status status = INLAY_OK;
    graph_node *n;

    for (size_t i = 0; status == INLAY_OK && i < count; i++)
        status = define_node(l, s, protos[i], &n);
    return status;
}

/* Inputs and bodies, once all names of the graph are known. The nodes are the first `count` of the graph. */
static inlay_status connect_nodes(struct loader *l, struct scope *s, size_t count, Onnx__Node *const *protos)
{
    inlay_status status = INLAY_OK;

    for (size_t i = 0; i < count; i++) {
        status = load_node(l, s, protos[i], s->g->nodes[i]);
        if (!graph_goes_on(l->model, s->g, s->g->nodes[i], &status, l->diag))
            break;
    }
    return status;
}

inlay_status load_graph(struct loader *l, struct scope *s, const Onnx__Graph *proto)
{
    struct graph *g = s->g;
    inlay_status status = INLAY_OK;

    if (proto->name != NULL && proto->name[0] != '\0')
        g->name = load_text(l, proto->name);
    g->doc = load_text(l, proto->doc_string);
    if (g->name == NULL || g->doc == NULL)
        return load_no_memory(l, NULL);
    INLAY_TRY(load_extra(l, &proto->base, &g->extra));
    INLAY_TRY(load_inputs(l, s, proto));
    INLAY_TRY(load_initializers(l, s, proto));
    INLAY_TRY(load_nodes(l, s, proto->n_node, proto->node));
    INLAY_TRY(load_outputs(l, s, proto));
    INLAY_TRY(load_value_infos(l, s, proto->n_value_info, proto->value_info));
    INLAY_TRY(connect_nodes(l, s, proto->n_node, proto->node));
    if (s->outer == NULL)
        status = load_kept_sparse(l, s);
done:
    return status;
}

/* ------------------------------------------------------------------ functions */

static inlay_status load_formals(struct loader *l, struct scope *s, const Onnx__Function *proto)
{
    struct graph *g = s->g;
    inlay_status status = INLAY_OK;

    g->inputs = arena_array(&l->model->arena, proto->n_input, sizeof *g->inputs);
    g->outputs = arena_array(&l->model->arena, proto->n_output, sizeof *g->outputs);
    if (g->inputs == NULL || g->outputs == NULL)
        return load_no_memory(l, g);
    for (size_t i = 0; i < proto->n_input; i++) {
        INLAY_TRY(scope_define(l, s, proto->input[i], "input", &g->inputs[i]));
        g->input_count++;
    }
    INLAY_TRY(load_nodes(l, s, proto->n_node, proto->node));
    for (size_t i = 0; i < proto->n_output; i++) {
        INLAY_TRY(scope_resolve(l, s, proto->output[i], &g->outputs[i]));
        if (g->outputs[i] == INLAY_NONE)
            return graph_fail(g, NULL, proto->output[i], INLAY_INVALID_MODEL, l->diag,
                              "nothing makes output %zu '%.96s' of the function", i, proto->output[i]);
        g->output_count++;
    }
    INLAY_TRY(load_value_infos(l, s, proto->n_value_info, proto->value_info));
    INLAY_TRY(connect_nodes(l, s, proto->n_node, proto->node));
    INLAY_TRY(graph_finish(g, l->diag));
done:
    return status;
}

static inlay_status load_defaults(struct loader *l, const Onnx__Function *proto, graph_function *out)
{
    struct arena *a = &l->model->arena;
    inlay_attr_info *defaults = arena_array(a, proto->n_attribute_proto, sizeof *defaults);
    inlay_status status = INLAY_OK;

    out->attrs = arena_array(a, proto->n_attribute, sizeof *out->attrs);
    if (out->attrs == NULL || defaults == NULL)
        return load_no_memory(l, NULL);
    for (size_t i = 0; i < proto->n_attribute; i++) {
        out->attrs[i] = load_text(l, proto->attribute[i]);
        if (out->attrs[i] == NULL)
            return load_no_memory(l, NULL);
    }
    out->attr_count = (uint32_t)proto->n_attribute;
    out->defaults = defaults;
    for (size_t i = 0; status == INLAY_OK && i < proto->n_attribute_proto; i++, out->default_count++)
        status = load_attr(l, out->body, NULL, proto->attribute_proto[i], &defaults[i]);
    return status;
}

inlay_status load_function(struct loader *l, const Onnx__Function *proto, graph_function *out)
{
    struct scope s = { 0 };
    inlay_status status = INLAY_OK;

    out->name = load_text(l, proto->name);
    out->domain = load_text(l, domain_of(proto->domain));
    out->overload = load_text(l, proto->overload);
    out->doc = load_text(l, proto->doc_string);
    if (out->name == NULL || out->domain == NULL || out->overload == NULL || out->doc == NULL)
        return load_no_memory(l, NULL);
    if (out->name[0] == '\0')
        return inlay_fail(l->diag, INLAY_INVALID_MODEL, "a function of domain '%.100s' has no name", out->domain);
    out->body = graph_create(l->model, NULL, out->name);
    if (out->body == NULL)
        return load_no_memory(l, NULL);
    s.g = out->body;
    l->opsets = out->opsets;
    l->opset_count = out->opset_count;
    INLAY_TRY(load_extra(l, &proto->base, &out->extra));
    INLAY_TRY(load_defaults(l, proto, out));
    INLAY_TRY(load_formals(l, &s, proto));
done:
    scope_deinit(&s);
    return status;
}
