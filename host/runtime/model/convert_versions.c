/* model/convert_versions.c - converts nodes of other operator versions than those that the model imports.
 *
 * Passes create nodes of versions that they are written for, and inlined functions had imports of their own, but a file
 * imports one version of each domain. Most versions of an operator differ only in the types that they support; such a
 * node is converted to the imported version. Any other node becomes a call of a function of domain "inlay". The node is
 * the body of that function, which imports the node's version. The optimiser creates no such nodes (pass_allows). */
#include "base/memory.h"
#include "graph/change_version.h"
#include "model/model.h"
#include "inlay/check.h"
#include <string.h>

static const char OWN_DOMAIN[] = "inlay";

/* Does the model's import select another operator version than the node's? */
static bool is_foreign(const graph_model *model, const graph_node *node)
{
    uint32_t lowest;
    int64_t opset = graph_model_opset(model, node->info.domain.data);

    return node->row != NULL &&
           (opset == 0 || op_find(node->info.domain.data, node->info.op_type.data, opset, &lowest) != node->row);
}

/* Converts the node to that operator version if its meaning stays the same. */
static bool convert_to_row(struct graph *graph, graph_node *node, const op_row *row, const char **out_why)
{
    *out_why = NULL;
    return row != NULL && node->schema != NULL && graph_change_version(graph, node, row, false, out_why);
}

static const graph_function *find_function(const graph_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->function_count; i++)
        if (strcmp(model->functions[i].domain, OWN_DOMAIN) == 0 && strcmp(model->functions[i].name, name) == 0)
            return &model->functions[i];
    return NULL;
}

static bool add_formals(struct graph *graph, const char *prefix, uint32_t count, uint32_t **out_list)
{
    struct arena *arena = &graph->model->arena;

    *out_list = arena_array(arena, (size_t)count + 1, sizeof **out_list);
    for (uint32_t i = 0; *out_list != NULL && i < count; i++) {
        const char *name = arena_format(arena, "%s%u", prefix, i);

        (*out_list)[i] = name == NULL ? INLAY_NONE : graph_add_value(graph, name, strlen(name));
        if ((*out_list)[i] == INLAY_NONE)
            return false;
    }
    return *out_list != NULL;
}

/* The body's node refers to all attributes of its operator; attributes that a call does not have are omitted. */
static bool refer_to_attrs(graph_function *function, graph_node *inner, const graph_node *node, struct arena *arena)
{
    uint32_t count = node->schema->attr_count;

    function->attrs = arena_array(arena, (size_t)count + 1, sizeof *function->attrs);
    inner->refs = arena_array(arena, (size_t)count + 1, sizeof *inner->refs);
    if (function->attrs == NULL || inner->refs == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = node->schema->attrs[i].name;

        function->attrs[i] = name;
        inner->refs[i] = (graph_attr_ref){ .name = name, .from = name, .kind = node->schema->attrs[i].kind };
    }
    function->attr_count = inner->ref_count = count;
    return true;
}

static bool add_function(graph_model *model, const char *name, const graph_node *node)
{
    struct arena *arena = &model->arena;
    graph_function *list =
        arena_grown(arena, model->functions, model->function_count, (size_t)model->function_count + 1, sizeof *list);
    graph_function *function;
    graph_node *inner;

    INLAY_CHECK(node->schema != NULL && find_function(model, name) == NULL);
    if (list == NULL)
        return false;
    function = &list[model->function_count];
    *function = (graph_function){ .domain = OWN_DOMAIN, .name = name, .overload = "", .doc = "" };
    function->body = graph_create(model, NULL, name);
    function->opsets = arena_array(arena, 1, sizeof *function->opsets);
    if (function->body == NULL || function->opsets == NULL)
        return false;
    function->opsets[0] = (graph_opset){ .domain = node->info.domain.data, .version = node->opset };
    function->opset_count = 1;
    if (!add_formals(function->body, "x", node->info.input_count, &function->body->inputs) ||
        !add_formals(function->body, "y", node->info.output_count, &function->body->outputs))
        return false;
    function->body->input_count = node->info.input_count;
    function->body->output_count = node->info.output_count;
    inner = graph_add_node(function->body, node->info.op_type.data, node->info.domain.data, node->info.op_type.data,
                           node->info.input_count, node->info.output_count);
    if (inner == NULL || !refer_to_attrs(function, inner, node, arena))
        return false;
    inner->opset = node->opset;
    memcpy((void *)(uintptr_t)inner->info.inputs, function->body->inputs,
           node->info.input_count * sizeof *function->body->inputs);
    memcpy((void *)(uintptr_t)inner->info.outputs, function->body->outputs,
           node->info.output_count * sizeof *function->body->outputs);
    model->functions = list;
    model->function_count++;
    return true;
}

static bool outline_node(graph_model *model, graph_node *node)
{
    const bool standard = strcmp(node->info.domain.data, "ai.onnx") == 0;
    const char *name = arena_format(&model->arena, "%s%s%s_%u_%u_%u", standard ? "" : node->info.domain.data,
                                    standard ? "" : ".", node->info.op_type.data, node->info.since_version,
                                    node->info.input_count, node->info.output_count);

    model->ir_version = model->ir_version < 8 ? 8 : model->ir_version; /* IR 8 introduced functions */
    if (name == NULL || !graph_model_import(model, OWN_DOMAIN, 1) ||
        (find_function(model, name) == NULL && !add_function(model, name, node)))
        return false;
    node->info.domain = (inlay_str){ OWN_DOMAIN, sizeof OWN_DOMAIN - 1 };
    node->info.op_type = (inlay_str){ name, strlen(name) };
    node->info.attr_count = node->own_attr_count;
    node->row = NULL;
    node->schema = NULL;
    node->opset = 1;
    return true;
}

static bool outline_graph(graph_model *model, struct graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];
        const char *domain = node->info.domain.data, *why;

        if (node->row != NULL && !graph_model_import(model, domain, node->opset))
            return false;
        if (is_foreign(model, node) && !node->early &&
            !convert_to_row(graph, node,
                            op_find(domain, node->info.op_type.data, graph_model_opset(model, domain), NULL), &why)) {
            if (!outline_node(model, node))
                return false;
        } else if (node->row != NULL) {
            node->opset = graph_model_opset(model, domain);
        }
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            if (!outline_graph(model, graph->nodes[i]->bodies[b].graph))
                return false;
    }
    return true;
}

/* Converts all nodes to another opset of ai.onnx; fails if the meaning of a node would change. */
static inlay_status change_opset(graph_model *model, struct graph *graph, int64_t opset, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];
        const op_row *row = op_find("ai.onnx", node->info.op_type.data, opset, NULL);
        const char *why;

        for (uint32_t b = 0; b < node->body_count; b++)
            INLAY_TRY(change_opset(model, node->bodies[b].graph, opset, diag));
        if (node->row == NULL || strcmp(node->info.domain.data, "ai.onnx") != 0)
            continue;
        if (!convert_to_row(graph, node, row, &why))
            return graph_fail(graph, node, NULL, INLAY_UNSUPPORTED, diag, "%.48s-%u has no form in opset %lld%s%s",
                              node->info.op_type.data, node->info.since_version, (long long)opset,
                              why != NULL ? ": " : "", why != NULL ? why : "");
    }
done:
    return status;
}

inlay_status model_convert_versions(graph_model *model, int64_t opset, inlay_diag *diag)
{
    inlay_status status;

    if (opset != 0 && opset != graph_model_opset(model, "ai.onnx")) {
        status = change_opset(model, model->main, opset, diag);
        if (status != INLAY_OK)
            return status;
        for (uint32_t i = 0; i < model->opset_count; i++)
            if (strcmp(model->opsets[i].domain, "ai.onnx") == 0)
                model->opsets[i].version = opset;
        if (!graph_model_import(model, "ai.onnx", opset))
            return no_memory(diag, "to write the imports");
    }
    return outline_graph(model, model->main) ? INLAY_OK
                                             : no_memory(diag, "to write operators of other versions as functions");
}
