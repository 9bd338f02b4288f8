/* model/outline.c - operators of another version than the model imports.
 *
 * Passes make nodes of the version that they know, and functions that were inlined had imports of their own; a file
 * imports one version of a domain. Most versions of an operator differ in the types that they take alone: such a node
 * is written as of the version that is imported. What is left becomes a call of a function of domain "inlay", whose
 * body is that one node and whose import is the node's. Of these there are none in what the optimiser makes
 * (pass_allows). */
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

/* ------------------------------------------------------------------ nodes of a version that will do */

/* Attributes that a version added without changing what a node without them means. */
static bool is_harmless(const char *attr)
{
    static const char *const names[] = { "allowzero",  "ceil_mode",    "count_include_pad", "dilations",
                                         "stash_type", "saturate",     "storage_order",     "keepdims",
                                         "precision",  "output_dtype", "block_size",        "start" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(attr, names[i]) == 0)
            return true;
    return false;
}

static const op_attr *find_attr(const op_schema *schema, const char *name)
{
    for (uint32_t i = 0; i < schema->attr_count; i++)
        if (strcmp(schema->attrs[i].name, name) == 0)
            return &schema->attrs[i];
    return NULL;
}

static bool same_default(const op_attr *a, const op_attr *b)
{
    if (a->kind != b->kind || a->required != b->required || a->has_default != b->has_default)
        return false;
    return !a->has_default || (a->i == b->i && a->f == b->f && a->count == b->count &&
                               (a->s == NULL || b->s == NULL ? a->s == b->s : strcmp(a->s, b->s) == 0));
}

static bool states_attr(const graph_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->own_attr_count; i++)
        if (strcmp(INLAY_AT(inlay_attr_info, n->info.attrs, n->info.attr_stride, i)->name.data, name) == 0)
            return true;
    return false;
}

/* Do the attributes mean the same in both, as far as the node goes? */
static bool attrs_fit(const graph_node *n, const op_schema *to)
{
    const op_schema *from = n->schema;

    for (uint32_t i = 0; i < from->attr_count; i++) {
        const op_attr *a = &from->attrs[i], *b = find_attr(to, a->name);

        if (b == NULL ? states_attr(n, a->name) || (a->has_default && !is_harmless(a->name))
                      : !same_default(a, b) && !states_attr(n, a->name))
            return false;
        if (b != NULL && a->kind != b->kind)
            return false;
    }
    for (uint32_t i = 0; i < to->attr_count; i++)
        if (find_attr(from, to->attrs[i].name) == NULL &&
            (to->attrs[i].required || (to->attrs[i].has_default && !is_harmless(to->attrs[i].name))))
            return false;
    return true;
}

static bool formals_fit(const graph *g, const uint32_t *values, uint32_t count, const op_schema *from,
                        const op_schema *to, bool outputs)
{
    for (uint32_t i = 0; i < count; i++) {
        const op_formal *a = outputs ? op_output_formal(from, i) : op_input_formal(from, i);
        const op_formal *b = outputs ? op_output_formal(to, i) : op_input_formal(to, i);
        const graph_value *v;
        op_value_type type;

        if (values[i] == INLAY_NONE)
            continue;
        v = &g->values[values[i]];
        type = (op_value_type){ v->info.kind, v->inner_kind, v->info.dtype, v->map_key };
        if (a == NULL || b == NULL || !op_types_allow(&to->types[b->type_param].types, &type))
            return false;
    }
    return true;
}

static void *schema_alloc(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

/* Is the node, as it stands, one of that row, and means the same there? */
static bool fits_row(const graph *g, const graph_node *n, const op_row *row)
{
    op_schema to;

    if (row == NULL || n->schema == NULL || n->body_count > 0 ||
        op_schema_parse(row->signature, schema_alloc, &g->model->arena, &to, NULL) != INLAY_OK)
        return false;
    return n->info.input_count >= to.min_inputs && n->info.input_count <= to.max_inputs &&
           n->info.output_count >= to.min_outputs && n->info.output_count <= to.max_outputs && attrs_fit(n, &to) &&
           formals_fit(g, n->info.inputs, n->info.input_count, n->schema, &to, false) &&
           formals_fit(g, n->info.outputs, n->info.output_count, n->schema, &to, true);
}

/* ------------------------------------------------------------------ functions */

static const graph_function *find_function(const graph_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->function_count; i++)
        if (strcmp(m->functions[i].domain, OWN_DOMAIN) == 0 && strcmp(m->functions[i].name, name) == 0)
            return &m->functions[i];
    return NULL;
}

static bool add_formals(graph *g, const char *prefix, uint32_t count, uint32_t **out_list)
{
    arena *a = &g->model->arena;

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
static bool refer_to_attrs(graph_function *f, graph_node *inner, const graph_node *n, arena *a)
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
    arena *a = &m->arena;
    graph_function *list = arena_array(a, (size_t)m->function_count + 1, sizeof *list), *f;
    graph_node *inner;

    if (list == NULL)
        return false;
    if (m->function_count > 0)
        memcpy(list, m->functions, m->function_count * sizeof *list);
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

static bool outline_graph(graph_model *m, graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];
        const char *domain = n->info.domain.data;

        if (n->row != NULL && !graph_model_import(m, domain, n->opset))
            return false;
        if (is_foreign(m, n) && !n->early &&
            !fits_row(g, n, op_find(domain, n->info.op_type.data, graph_model_opset(m, domain), NULL))) {
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
static inlay_status raise_opset(graph_model *m, graph *g, int64_t opset, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        const op_row *row = op_find("ai.onnx", n->info.op_type.data, opset, NULL);

        for (uint32_t b = 0; b < n->body_count; b++)
            INLAY_TRY(raise_opset(m, n->bodies[b].graph, opset, diag));
        if (n->row == NULL || strcmp(n->info.domain.data, "ai.onnx") != 0 || n->body_count > 0)
            continue;
        if (row != n->row && !fits_row(g, n, row))
            return graph_fail(g, n, NULL, INLAY_UNSUPPORTED, diag, "%.48s-%u has no form in opset %lld",
                              n->info.op_type.data, n->info.since_version, (long long)opset);
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
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to write the imports");
    }
    return outline_graph(model, model->main)
               ? INLAY_OK
               : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to write operators of other versions as functions");
}
