/* model/load_graph.c - graphs and functions: inputs, initializers, outputs, nodes. */
#include "model/load.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <string.h>

/* Sets the members of a value from its declaration. */
static inlay_status declare(struct loader *loader, const struct graph *graph, const Onnx__ValueInfo *proto,
                            uint32_t value_index, bool as_fact)
{
    graph_value *value = &graph->values[value_index];
    inlay_status status = INLAY_OK;

    if (proto->doc_string != NULL) {
        value->doc = load_text(loader, proto->doc_string);
        if (value->doc == NULL)
            return load_no_memory(loader, graph);
    }
    INLAY_TRY(load_extra(loader, &proto->base, 0, &value->extra));
    INLAY_TRY(load_type(loader, graph, proto->type, value, as_fact));
done:
    return status;
}

static inlay_status load_inputs(struct loader *loader, struct scope *scope, const Onnx__Graph *proto)
{
    struct graph *graph = scope->graph;
    inlay_status status = INLAY_OK;

    graph->inputs = arena_array(&loader->model->arena, proto->n_input, sizeof *graph->inputs);
    if (graph->inputs == NULL)
        return load_no_memory(loader, graph);
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = text_of(proto->input[i]->name);
        uint32_t value = INLAY_NONE;

        if (name[0] == '\0')
            return graph_fail(graph, NULL, NULL, INLAY_INVALID_MODEL, loader->diag, "input %zu has no name", i);
        INLAY_TRY(scope_define(loader, scope, name, "input", &value));
        INLAY_TRY(declare(loader, graph, proto->input[i], value, scope->outer == NULL));
        if (scope->outer != NULL) /* a body: the declared element type is reliable, the shape often is not */
            graph->values[value].info.dtype = graph->values[value].declared_dtype;
        graph->inputs[graph->input_count++] = value;
    }
done:
    return status;
}

/* Removes constants from the inputs, where IR 3 lists them. */
static void drop_constant_inputs(struct graph *graph)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < graph->input_count; i++)
        if ((graph->values[graph->inputs[i]].info.flags & INLAY_VALUE_CONSTANT) == 0)
            graph->inputs[kept++] = graph->inputs[i];
    graph->input_count = kept;
}

/* Does the graph or a nested graph read a value of that name? */
static bool reads_name(const Onnx__Graph *proto, const char *name)
{
    for (size_t i = 0; i < proto->n_node; i++) {
        const Onnx__Node *node = proto->node[i];

        for (size_t k = 0; k < node->n_input; k++)
            if (strcmp(text_of(node->input[k]), name) == 0)
                return true;
        for (size_t k = 0; k < node->n_attribute; k++) {
            if (node->attribute[k]->g != NULL && reads_name(node->attribute[k]->g, name))
                return true;
            for (size_t b = 0; b < node->attribute[k]->n_graphs; b++)
                if (reads_name(node->attribute[k]->graphs[b], name))
                    return true;
        }
    }
    for (size_t i = 0; i < proto->n_output; i++)
        if (strcmp(text_of(proto->output[i]->name), name) == 0)
            return true;
    return false;
}

enum { MAX_DEEP = 64 }; /* because each of them requires a search of the whole graph */

/* Skips an initializer whose rank is not supported if it is not read. */
static inlay_status skip_deep(struct loader *loader, const struct scope *scope, const Onnx__Graph *proto,
                              const Onnx__Tensor *tensor, const char *name, bool *out_skip)
{
    *out_skip = tensor->n_dims > INLAY_MAX_RANK && loader->deep_count < MAX_DEEP && !reads_name(proto, name);
    if (!*out_skip)
        return INLAY_OK;
    loader->deep_count++;
    return graph_tolerate(loader->model, scope->graph, NULL, name, GRAPH_RANK_ABOVE_16, loader->diag,
                          "initializer '%.96s' has rank %zu and is not used", name, tensor->n_dims);
}

/* An initializer's tensor becomes a constant, or the default of an input of the same name. */
static inlay_status place_initializer(struct loader *loader, struct scope *scope, const char *name,
                                      const inlay_tensor_view *view)
{
    struct graph *graph = scope->graph;
    uint32_t value_index = names_find(&scope->table, name, strlen(name));
    graph_value *value;
    inlay_status status;

    if (value_index == NAMES_NONE) {
        status = scope_define(loader, scope, name, "initializer", &value_index);
        if (status != INLAY_OK)
            return status;
    } else {
        value = &graph->values[value_index];
        if (value->default_value != NULL || (value->info.flags & INLAY_VALUE_CONSTANT) != 0) {
            status = graph_tolerate(loader->model, graph, NULL, name, GRAPH_NAME_TWICE, loader->diag,
                                    "initializer '%.96s' is defined twice; the last definition is used", name);
            if (status != INLAY_OK)
                return status;
        }
        if ((value->info.flags & INLAY_VALUE_CONSTANT) != 0 && !value->has_default)
            goto place;
        value->has_default = true;
        /* IR 3 lists every initializer among the inputs. A body's inputs are positional, so none may be removed. */
        if (loader->model->ir_version >= 4 || scope->outer != NULL) {
            value->default_value = arena_copy(&loader->model->arena, view, sizeof *view);
            return value->default_value == NULL ? load_no_memory(loader, graph) : INLAY_OK;
        }
    }
place:
    if (graph_set_constant(graph, value_index, view->dtype, view->rank, view->dims, view->data, view->bytes) !=
        INLAY_OK)
        return load_no_memory(loader, graph);
    return INLAY_OK;
}

static inlay_status load_initializers(struct loader *loader, struct scope *scope, const Onnx__Graph *proto)
{
    struct graph *graph = scope->graph;
    inlay_tensor_view view;
    inlay_status status = INLAY_OK;

    for (size_t i = 0; status == INLAY_OK && i < proto->n_initializer + proto->n_sparse_initializer; i++) {
        const Onnx__SparseTensor *sparse =
            i < proto->n_initializer ? NULL : proto->sparse_initializer[i - proto->n_initializer];
        const Onnx__Tensor *dense = sparse == NULL ? proto->initializer[i] : sparse->values;
        const char *name = dense == NULL ? "" : text_of(dense->name);

        bool skip = false;

        if (name[0] == '\0')
            return graph_fail(graph, NULL, NULL, INLAY_INVALID_MODEL, loader->diag, "initializer %zu has no name", i);
        status = sparse == NULL ? skip_deep(loader, scope, proto, dense, name, &skip)
                                : load_keep_sparse(loader, scope, proto, i - proto->n_initializer, &skip);
        if (status != INLAY_OK || skip)
            continue;
        status = sparse == NULL ? tensor_read(&loader->source, dense, &view, loader->diag)
                                : tensor_read_sparse(&loader->source, sparse, &view, loader->diag);
        if (status != INLAY_OK)
            return load_fail_tensor(loader, graph, name, status);
        status = place_initializer(loader, scope, name, &view);
    }
    drop_constant_inputs(graph);
    return status;
}

static inlay_status load_outputs(struct loader *loader, struct scope *scope, const Onnx__Graph *proto)
{
    struct graph *graph = scope->graph;
    inlay_status status = INLAY_OK;

    graph->outputs = arena_array(&loader->model->arena, proto->n_output, sizeof *graph->outputs);
    if (graph->outputs == NULL)
        return load_no_memory(loader, graph);
    for (size_t i = 0; i < proto->n_output; i++) {
        const char *name = text_of(proto->output[i]->name);
        uint32_t value;

        INLAY_TRY(scope_resolve(loader, scope, name, &value));
        if (value == INLAY_NONE) {
            status = graph_fault_fail(graph, NULL, name, GRAPH_NO_PRODUCER, INLAY_INVALID_MODEL, loader->diag,
                                      "output %zu '%.96s' has no producer; add a node or remove it from the outputs", i,
                                      name);
            if (!graph_continue_after_error(loader->model, graph, NULL, &status, loader->diag))
                return status;
            continue;
        }
        if (!graph->values[value].declared)
            INLAY_TRY(declare(loader, graph, proto->output[i], value, false));
        if ((graph->values[value].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0 && scope->outer == NULL)
            INLAY_TRY(graph_tolerate(loader->model, graph, NULL, name, GRAPH_OUTPUT_TWICE, loader->diag,
                                     "output %zu '%.96s' is listed more than once", i, name));
        graph->values[value].info.flags |= INLAY_VALUE_GRAPH_OUTPUT;
        graph->outputs[graph->output_count++] = value;
    }
done:
    return status;
}

/* Ignores declarations of missing values, which are left over from an exporter's optimiser. */
static inlay_status load_value_infos(struct loader *loader, struct scope *scope, size_t count,
                                     Onnx__ValueInfo *const *protos)
{
    inlay_status status = INLAY_OK;

    for (size_t i = 0; status == INLAY_OK && i < count; i++) {
        const char *name = text_of(protos[i]->name);
        uint32_t value = names_find(&scope->table, name, strlen(name));

        if (value != NAMES_NONE && !scope->graph->values[value].declared)
            status = declare(loader, scope->graph, protos[i], value, false);
    }
    return status;
}

static int64_t opset_of(const struct loader *loader, const char *domain)
{
    for (uint32_t i = 0; i < loader->opset_count; i++)
        if (strcmp(loader->opsets[i].domain, domain) == 0)
            return loader->opsets[i].version;
    return 0;
}

/* Adds the node and defines its outputs, so that the file may list nodes in any order. */
static inlay_status define_node(struct loader *loader, struct scope *scope, const Onnx__Node *proto, graph_node **out)
{
    struct graph *graph = scope->graph;
    graph_node *node;
    uint32_t *outputs;
    inlay_status status = INLAY_OK;

    node = graph_add_node(graph, text_of(proto->op_type), text_of(proto->domain), text_of(proto->name),
                          (uint32_t)proto->n_input, (uint32_t)proto->n_output);
    if (node == NULL)
        return load_no_memory(loader, graph);
    *out = node;
    node->place = graph->node_count;
    node->opset = opset_of(loader, node->info.domain.data);
    node->overload = load_text(loader, proto->overload);
    node->doc = load_text(loader, proto->doc_string);
    if (node->overload == NULL || node->doc == NULL)
        return load_no_memory(loader, graph);
    if (node->info.op_type.bytes == 0) {
        status = graph_fail(graph, node, NULL, INLAY_INVALID_MODEL, loader->diag, "the node has no op_type");
        if (!graph_continue_after_error(loader->model, graph, node, &status, loader->diag))
            return status;
    }
    INLAY_TRY(load_extra(loader, &proto->base, loader->drop_metadata ? NODE_METADATA_PROPS : 0, &node->extra));
    INLAY_TRY(load_source(loader, proto, &node->source));
    outputs = (uint32_t *)(uintptr_t)node->info.outputs; /* writable while the graph is loaded */
    for (size_t output = 0; output < proto->n_output; output++) {
        const char *name = proto->output[output];

        if (name[0] == '\0')
            continue;
        INLAY_TRY(scope_check_hidden(loader, scope, node, "output", name));
        if (names_find(&scope->table, name, strlen(name)) == NAMES_NONE) {
            INLAY_TRY(scope_add(loader, scope, name, &outputs[output]));
            continue;
        }
        status = graph_fault_fail(graph, node, name, GRAPH_NAME_TWICE, INLAY_INVALID_MODEL, loader->diag,
                                  "output %zu '%.96s' has the name of another value; names must be unique in a graph",
                                  output, name);
        if (!graph_continue_after_error(loader->model, graph, node, &status, loader->diag))
            return status;
    }
done:
    return status;
}

static inlay_status load_nodes(struct loader *loader, struct scope *scope, size_t count, Onnx__Node *const *protos)
{
    inlay_status status = INLAY_OK;
    graph_node *node;

    for (size_t i = 0; status == INLAY_OK && i < count; i++)
        status = define_node(loader, scope, protos[i], &node);
    return status;
}

/* Loads inputs and bodies after all names of the graph are known. The nodes are the first `count` of the graph. */
static inlay_status connect_nodes(struct loader *loader, struct scope *scope, size_t count, Onnx__Node *const *protos)
{
    inlay_status status = INLAY_OK;

    INLAY_CHECK(count <= scope->graph->node_count);
    for (size_t i = 0; i < count; i++) {
        status = load_node(loader, scope, protos[i], scope->graph->nodes[i]);
        if (!graph_continue_after_error(loader->model, scope->graph, scope->graph->nodes[i], &status, loader->diag))
            break;
    }
    return status;
}

inlay_status load_graph(struct loader *loader, struct scope *scope, const Onnx__Graph *proto)
{
    struct graph *graph = scope->graph;
    inlay_status status = INLAY_OK;

    if (proto->name != NULL && proto->name[0] != '\0')
        graph->name = load_text(loader, proto->name);
    graph->doc = load_text(loader, proto->doc_string);
    if (graph->name == NULL || graph->doc == NULL)
        return load_no_memory(loader, NULL);
    INLAY_TRY(load_extra(loader, &proto->base, 0, &graph->extra));
    INLAY_TRY(load_inputs(loader, scope, proto));
    INLAY_TRY(load_initializers(loader, scope, proto));
    INLAY_TRY(load_nodes(loader, scope, proto->n_node, proto->node));
    INLAY_TRY(load_outputs(loader, scope, proto));
    INLAY_TRY(load_value_infos(loader, scope, proto->n_value_info, proto->value_info));
    INLAY_TRY(connect_nodes(loader, scope, proto->n_node, proto->node));
    if (scope->outer == NULL)
        status = load_kept_sparse(loader, scope);
done:
    return status;
}

static inlay_status load_formals(struct loader *loader, struct scope *scope, const Onnx__Function *proto)
{
    struct graph *graph = scope->graph;
    inlay_status status = INLAY_OK;

    graph->inputs = arena_array(&loader->model->arena, proto->n_input, sizeof *graph->inputs);
    graph->outputs = arena_array(&loader->model->arena, proto->n_output, sizeof *graph->outputs);
    if (graph->inputs == NULL || graph->outputs == NULL)
        return load_no_memory(loader, graph);
    for (size_t i = 0; i < proto->n_input; i++) {
        INLAY_TRY(scope_define(loader, scope, proto->input[i], "input", &graph->inputs[i]));
        graph->input_count++;
    }
    INLAY_TRY(load_nodes(loader, scope, proto->n_node, proto->node));
    for (size_t i = 0; i < proto->n_output; i++) {
        INLAY_TRY(scope_resolve(loader, scope, proto->output[i], &graph->outputs[i]));
        if (graph->outputs[i] == INLAY_NONE)
            return graph_fail(graph, NULL, proto->output[i], INLAY_INVALID_MODEL, loader->diag,
                              "output %zu '%.96s' of the function has no producer", i, proto->output[i]);
        graph->output_count++;
    }
    INLAY_TRY(load_value_infos(loader, scope, proto->n_value_info, proto->value_info));
    INLAY_TRY(connect_nodes(loader, scope, proto->n_node, proto->node));
    INLAY_TRY(graph_finish(graph, loader->diag));
done:
    return status;
}

static inlay_status load_defaults(struct loader *loader, const Onnx__Function *proto, graph_function *out)
{
    struct arena *arena = &loader->model->arena;
    inlay_attr_info *defaults = arena_array(arena, proto->n_attribute_proto, sizeof *defaults);
    inlay_status status = INLAY_OK;

    out->attrs = arena_array(arena, proto->n_attribute, sizeof *out->attrs);
    if (out->attrs == NULL || defaults == NULL)
        return load_no_memory(loader, NULL);
    for (size_t i = 0; i < proto->n_attribute; i++) {
        out->attrs[i] = load_text(loader, proto->attribute[i]);
        if (out->attrs[i] == NULL)
            return load_no_memory(loader, NULL);
    }
    out->attr_count = (uint32_t)proto->n_attribute;
    out->defaults = defaults;
    for (size_t i = 0; status == INLAY_OK && i < proto->n_attribute_proto; i++, out->default_count++)
        status = load_attr(loader, out->body, NULL, proto->attribute_proto[i], &defaults[i]);
    return status;
}

inlay_status load_function(struct loader *loader, const Onnx__Function *proto, graph_function *out)
{
    struct scope scope = { 0 };
    inlay_status status = INLAY_OK;

    out->name = load_text(loader, proto->name);
    out->domain = load_text(loader, domain_of(proto->domain));
    out->overload = load_text(loader, proto->overload);
    out->doc = load_text(loader, proto->doc_string);
    if (out->name == NULL || out->domain == NULL || out->overload == NULL || out->doc == NULL)
        return load_no_memory(loader, NULL);
    if (out->name[0] == '\0')
        return inlay_fail(loader->diag, INLAY_INVALID_MODEL, "a function of domain '%.100s' has no name", out->domain);
    out->body = graph_create(loader->model, NULL, out->name);
    if (out->body == NULL)
        return load_no_memory(loader, NULL);
    scope.graph = out->body;
    loader->opsets = out->opsets;
    loader->opset_count = out->opset_count;
    INLAY_TRY(load_extra(loader, &proto->base, 0, &out->extra));
    INLAY_TRY(load_defaults(loader, proto, out));
    INLAY_TRY(load_formals(loader, &scope, proto));
done:
    scope_deinit(&scope);
    return status;
}
