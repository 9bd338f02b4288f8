/* model/outline.c - operators of another version than the model imports.
 *
 * Passes make nodes of the version that they know, and functions that were inlined had imports of their own; a file
 * imports one version of a domain. Most versions of an operator differ in the types that they take alone: such a node
 * is written as of the version that is imported. What is left becomes a call of a function of domain "inlay", whose
 * body is that one node and whose import is the node's. Of these there are none in what the optimiser makes
 * (pass_allows). */
#include "base/memory.h"
#include "graph/refit.h"
#include "model/model.h"
#include <string.h>

static const char OWN_DOMAIN[] = "inlay";

/* Would the model's import bind another row than the node has? */
static bool is_foreign(const graph_model *m, const graph_node *n)
{
    uint32_t lowest;
    int64_t opset = graph_model_opset(m, n->info.domain.data);

    return n->row != NULL &&
           (opset == 0 || op_find(n->info.domain.data, n->info.op_type.data, opset, &lowest) != n->row);
}

/* Is the node, as it stands, one of that row, and means the same there? Then it has the row's attributes. */
static bool becomes_row(struct graph *g, graph_node *n, const op_row *row, const char **out_why)
{
    *out_why = NULL;
    return row != NULL && n->schema != NULL && graph_refit(g, n, row, false, out_why);
}

/* ------------------------------------------------------------------ functions */

static const graph_function *find_function(const graph_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->function_count; i++)
        if (strcmp(m->functions[i].domain, OWN_DOMAIN) == 0 && strcmp(m->functions[i].name, name) == 0)
            return &m->functions[i];
    return NULL;
}

static bool add_formals(struct graph *g, const char *prefix, uint32_t count, uint32_t **out_list)
{
    struct arena *a = &g->model->arena;

    *out_list = arena_array(a, (size_t)count + 1, sizeof **out_list);
    for (uint32_t i = 0; *out_list != NULL && i < count; i++) {
        const char *name = arena_format(a, "%s%u", prefix, i);

        (*out_list)[i] = name == NULL ? INLAY_NONE : graph_add_value(g, name, strlen(name));
        if ((*out_list)[i] == INLAY_NONE)
            return false;
    }
    return *out_list != NULL;
}

/* The node of the body passes every attribute of its operator on: those that a call does not state are left out. */
static bool refer_to_attrs(graph_function *f, graph_node *inner, const graph_node *n, struct arena *a)
{
    uint32_t count = n->schema->attr_count;

    f->attrs = arena_array(a, (size_t)count + 1, sizeof *f->attrs);
    inner->refs = arena_array(a, (size_t)count + 1, sizeof *inner->refs);
    if (f->attrs == NULL || inner->refs == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = n->schema->attrs[i].name;

        f->attrs[i] = name;
        inner->refs[i] = (graph_attr_ref){ .name = name, .from = name, .kind = n->schema->attrs[i].kind };
    }
    f->attr_count = inner->ref_count = count;
    return true;
}

static bool add_function(graph_model *m, const char *name, const graph_node *n)
{
    struct arena *a = &m->arena;
    graph_function *list = arena_grown(a, m->functions, m->function_count, (size_t)m->function_count + 1, sizeof *list);
    graph_function *f;
    graph_node *inner;

    if (list == NULL)
        return false;
    f = &list[m->function_count];
    *f = (graph_function){ .domain = OWN_DOMAIN, .name = name, .overload = "", .doc = "" };
    f->body = graph_create(m, NULL, name);
    f->opsets = arena_array(a, 1, sizeof *f->opsets);
    if (f->body == NULL || f->opsets == NULL)
        return false;
    f->opsets[0] = (graph_opset){ .domain = n->info.domain.data, .version = n->opset };
    f->opset_count = 1;
    if (!add_formals(f->body, "x", n->info.input_count, &f->body->inputs) ||
        !add_formals(f->body, "y", n->info.output_count, &f->body->outputs))
        return false;
    f->body->input_count = n->info.input_count;
    f->body->output_count = n->info.output_count;
    inner = graph_add_node(f->body, n->info.op_type.data, n->info.domain.data, n->info.op_type.data,
                           n->info.input_count, n->info.output_count);
    if (inner == NULL || !refer_to_attrs(f, inner, n, a))
        return false;
    inner->opset = n->opset;
    memcpy((void *)(uintptr_t)inner->info.inputs, f->body->inputs, n->info.input_count * sizeof *f->body->inputs);
    memcpy((void *)(uintptr_t)inner->info.outputs, f->body->outputs, n->info.output_count * sizeof *f->body->outputs);
    m->functions = list;
    m->function_count++;
    return true;
}

static bool outline_node(graph_model *m, graph_node *n)
{
    const char *name = arena_format(&m->arena, "%s_%u_%u_%u", n->info.op_type.data, n->info.since_version,
                                    n->info.input_count, n->info.output_count);

    m->ir_version = m->ir_version < 8 ? 8 : m->ir_version; /* the first with functions */
    if (name == NULL || !graph_model_import(m, OWN_DOMAIN, 1) ||
        (find_function(m, name) == NULL && !add_function(m, name, n)))
        return false;
    n->info.domain = (inlay_str){ OWN_DOMAIN, sizeof OWN_DOMAIN - 1 };
    n->info.op_type = (inlay_str){ name, strlen(name) };
    n->info.attr_count = n->own_attr_count;
    n->row = NULL;
    n->schema = NULL;
    n->opset = 1;
    return true;
}

static bool outline_graph(graph_model *m, struct graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];
        const char *domain = n->info.domain.data, *why;

        if (n->row != NULL && !graph_model_import(m, domain, n->opset))
            return false;
        if (is_foreign(m, n) && !n->early &&
            !becomes_row(g, n, op_find(domain, n->info.op_type.data, graph_model_opset(m, domain), NULL), &why)) {
            if (!outline_node(m, n))
                return false;
        } else if (n->row != NULL) {
            n->opset = graph_model_opset(m, domain);
        }
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            if (!outline_graph(m, g->nodes[i]->bodies[b].graph))
                return false;
    }
    return true;
}

/* Raises the import of ai.onnx where every node means the same there. */
static inlay_status raise_opset(graph_model *m, struct graph *g, int64_t opset, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];
        const op_row *row = op_find("ai.onnx", n->info.op_type.data, opset, NULL);
        const char *why;

        for (uint32_t b = 0; b < n->body_count; b++)
            INLAY_TRY(raise_opset(m, n->bodies[b].graph, opset, diag));
        if (n->row == NULL || strcmp(n->info.domain.data, "ai.onnx") != 0)
            continue;
        if (!becomes_row(g, n, row, &why))
            return graph_fail(g, n, NULL, INLAY_UNSUPPORTED, diag, "%.48s-%u has no form in opset %lld%s%s",
                              n->info.op_type.data, n->info.since_version, (long long)opset, why != NULL ? ": " : "",
                              why != NULL ? why : "");
    }
done:
    return status;
}

inlay_status model_outline(graph_model *model, int64_t opset, inlay_diag *diag)
{
    inlay_status status;

    if (opset != 0 && opset != graph_model_opset(model, "ai.onnx")) {
        status = raise_opset(model, model->main, opset, diag);
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
