/* graph/bind.c - ties each node to the schema of its operator version.
 *
 * After this a node's attributes are complete and of the right kinds, its inputs and outputs fit in number, and its
 * info.since_version says which version of the operator it is. Binding twice is harmless: nodes that passes or inlining
 * have added are bound, the others are left alone. */
#include "base/among.h"
#include "base/nearest.h"
#include "graph/graph.h"
#include <string.h>

/* A parsed signature, shared by all nodes of the model whose schema reads the same. */
typedef struct graph_schema {
    op_schema schema;
    inlay_attr_info *defaults; /* [default_count] */
    uint32_t default_count;
} graph_schema;

struct binder {
    graph_model *model;
    const graph_operators *operators; /* or NULL */
    inlay_diag *diag;
    const graph_opset *opsets; /* that hold where we are */
    uint32_t opset_count;
};

static inlay_status bind_graph(struct binder *b, struct graph *g);

static inlay_status no_memory(const struct binder *b, const struct graph *g)
{
    return graph_fail(g, NULL, NULL, INLAY_OUT_OF_MEMORY, b->diag, "out of memory while binding operators");
}

/* ------------------------------------------------------------------ schemas */

static inlay_str str_of(const char *text)
{
    return (inlay_str){ text, strlen(text) };
}

static bool default_attr(struct arena *a, const op_attr *from, inlay_attr_info *to)
{
    *to = (inlay_attr_info){ .name = str_of(from->name), .kind = from->kind, .count = from->count };
    to->i = from->i;
    to->f = from->f;
    to->ints = from->ints;
    to->floats = from->floats;
    if (from->kind == INLAY_ATTR_STRING)
        to->s = str_of(from->s);
    if (from->kind == INLAY_ATTR_STRINGS) {
        inlay_str *strings = arena_array(a, from->count, sizeof *strings);

        if (strings == NULL)
            return false;
        for (uint32_t i = 0; i < from->count; i++)
            strings[i] = str_of(from->strings[i]);
        to->strings = strings;
    }
    return true;
}

static inlay_status parse(struct binder *b, const struct graph *g, const graph_node *n, const char *signature,
                          graph_schema **out)
{
    struct arena *a = &b->model->arena;
    inlay_diag why = INLAY_DIAG_INIT;
    graph_schema *p = arena_alloc(a, sizeof *p);
    inlay_status status;

    *out = p;
    if (p == NULL)
        return no_memory(b, g);
    status = op_schema_parse(signature, arena_alloc_callback, a, &p->schema, &why);
    if (status == INLAY_OUT_OF_MEMORY)
        return no_memory(b, g);
    if (status != INLAY_OK)
        return graph_fail(g, n, NULL, status, b->diag, "the operator's %s", why.text);
    p->defaults = arena_array(a, p->schema.attr_count, sizeof *p->defaults);
    if (p->defaults == NULL)
        return no_memory(b, g);
    for (uint32_t i = 0; i < p->schema.attr_count; i++)
        if (p->schema.attrs[i].has_default && !default_attr(a, &p->schema.attrs[i], &p->defaults[p->default_count++]))
            return no_memory(b, g);
    return INLAY_OK;
}

static inlay_status schema_for(struct binder *b, const struct graph *g, const graph_node *n, const char *signature,
                               graph_schema **out)
{
    graph_model *m = b->model;
    uint32_t found = names_find(&m->schema_table, signature, strlen(signature));
    inlay_status status;

    if (found < m->schema_count) { /* NAMES_NONE is beyond all */
        *out = m->schemas[found];
        return INLAY_OK;
    }
    status = parse(b, g, n, signature, out);
    if (status != INLAY_OK)
        return status;
    if (!ARENA_GROW(&m->arena, m->schemas, m->schema_count) ||
        !names_add(&m->schema_table, signature, strlen(signature), m->schema_count, NULL))
        return no_memory(b, g);
    m->schemas[m->schema_count++] = *out;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ which operator */

/* The imported version of a domain, 0 if there is none. Files older than opset imports mean version 1. */
static int64_t imported(const struct binder *b, const char *domain)
{
    for (uint32_t i = 0; i < b->opset_count; i++)
        if (strcmp(b->opsets[i].domain, domain) == 0)
            return b->opsets[i].version;
    return b->opset_count == 0 && strcmp(domain, "ai.onnx") == 0 ? 1 : 0;
}

/* For a domain that the model does not import: the newest version, as ONNX Runtime takes it. */
static inlay_status import_newest(const struct binder *b, const struct graph *g, graph_node *n)
{
    const char *domain = n->info.domain.data;
    const int64_t newest = op_domain_newest(domain);

    n->opset = newest > 0 ? newest : 1;
    return graph_tolerate(b->model, g, n, NULL, GRAPH_NOT_IMPORTED, b->diag,
                          "operator %.64s is of domain '%.96s', which the model does not import", n->info.op_type.data,
                          domain);
}

/* Is the operator one of those that ONNX Runtime had in ai.onnx before ONNX did, or has there alone? Its tools write
 * them into models of any opset. */
static bool is_early(const graph_node *n)
{
    return strcmp(n->info.domain.data, "ai.onnx") == 0 &&
           is_among(n->info.op_type.data, "LayerNormalization SimplifiedLayerNormalization ImageScaler");
}

static inlay_status take_early(const struct binder *b, const struct graph *g, graph_node *n, uint32_t lowest)
{
    if (!is_early(n))
        return INLAY_OK;
    n->row = op_find("ai.onnx", n->info.op_type.data, lowest, NULL);
    return graph_tolerate(b->model, g, n, NULL, GRAPH_OPERATOR_TOO_NEW, b->diag,
                          "operator %.64s of ai.onnx exists from opset %u on, but the model imports opset %lld",
                          n->info.op_type.data, lowest, (long long)n->opset);
}

static inlay_status find_row(const struct binder *b, const struct graph *g, graph_node *n)
{
    const char *domain = n->info.domain.data, *op_type = n->info.op_type.data, *nearest;
    uint32_t lowest;

    if (n->opset > op_domain_newest(domain))
        return graph_fault_fail(
            g, n, NULL, GRAPH_UNKNOWN_OPSET, INLAY_UNSUPPORTED, b->diag,
            "the model imports opset %lld of %s; this build knows opsets up to %lld: export the model for "
            "that opset",
            (long long)n->opset, domain, (long long)op_domain_newest(domain));
    n->row = op_find(domain, op_type, n->opset, &lowest);
    if (n->row != NULL)
        return INLAY_OK;
    if (lowest != 0) {
        inlay_status status = take_early(b, g, n, lowest);

        if (n->row != NULL) {
            n->opset = lowest;
            n->early = true;
            return status;
        }
    }
    if (lowest != 0)
        return graph_fault_fail(g, n, NULL, GRAPH_OPERATOR_TOO_NEW, INLAY_INVALID_MODEL, b->diag,
                                "operator %.64s of %s exists from opset %u on, but the model imports opset %lld",
                                op_type, domain, lowest, (long long)n->opset);
    nearest = op_nearest(domain, op_type);
    return graph_fault_fail(g, n, NULL, GRAPH_UNKNOWN_OPERATOR, INLAY_UNSUPPORTED, b->diag,
                            "operator %.64s is not in domain %s at opset %lld%s%s%s", op_type, domain,
                            (long long)n->opset, nearest != NULL ? "; did you mean " : "",
                            nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
}

static const inlay_operator *find_custom(const struct binder *b, const graph_node *n)
{
    const graph_operators *ops = b->operators;
    const inlay_operator *found = NULL;

    if (ops != NULL && ops->find != NULL)
        found = ops->find(ops->ctx, n->info.domain.data, n->info.op_type.data, n->opset);
    return found != NULL && found->signature != NULL ? found : NULL;
}

static inlay_status no_custom(const struct binder *b, const struct graph *g, const graph_node *n)
{
    const graph_operators *ops = b->operators;
    const char *domain = n->info.domain.data, *op_type = n->info.op_type.data;
    char why[384];

    (void)snprintf(why, sizeof why, "no plugin brings operator %.64s of domain '%.96s', for no directory was searched",
                   op_type, domain);
    if (ops != NULL && ops->missing != NULL)
        ops->missing(ops->ctx, domain, op_type, n->opset, why, sizeof why);
    return graph_fault_fail(g, n, NULL, GRAPH_NO_PLUGIN, INLAY_UNSUPPORTED, b->diag, "%s", why);
}

static bool is_function(const struct binder *b, const graph_node *n)
{
    for (uint32_t i = 0; i < b->model->function_count; i++) {
        const graph_function *fn = &b->model->functions[i];

        if (strcmp(fn->name, n->info.op_type.data) == 0 && strcmp(fn->domain, n->info.domain.data) == 0 &&
            strcmp(fn->overload, n->overload) == 0)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------ inputs, outputs, attributes */

static inlay_status check_inputs(const struct binder *b, const struct graph *g, const graph_node *n)
{
    const op_schema *schema = n->schema;
    const inlay_node_info *info = &n->info;

    if (info->input_count > schema->max_inputs)
        return graph_fault_fail(g, n, NULL, GRAPH_INPUT_COUNT, INLAY_INVALID_MODEL, b->diag,
                                "has %u inputs; %.48s-%u takes at most %u", info->input_count, info->op_type.data,
                                info->since_version, schema->max_inputs);
    for (uint32_t i = 0; i < schema->input_count; i++) {
        bool there = i < info->input_count && info->inputs[i] != INLAY_NONE;

        if (schema->inputs[i].option == OP_SINGLE && !there)
            return graph_fault_fail(g, n, NULL, GRAPH_INPUT_COUNT, INLAY_INVALID_MODEL, b->diag,
                                    "lacks input %u (%.64s), which %.48s-%u requires", i, schema->inputs[i].name,
                                    info->op_type.data, info->since_version);
    }
    if (info->input_count < schema->min_inputs)
        return graph_fault_fail(g, n, NULL, GRAPH_INPUT_COUNT, INLAY_INVALID_MODEL, b->diag,
                                "has %u inputs; %.48s-%u takes at least %u", info->input_count, info->op_type.data,
                                info->since_version, schema->min_inputs);
    if (info->output_count > schema->max_outputs)
        return graph_fault_fail(g, n, NULL, GRAPH_OUTPUT_COUNT, INLAY_INVALID_MODEL, b->diag,
                                "has %u outputs; %.48s-%u gives at most %u", info->output_count, info->op_type.data,
                                info->since_version, schema->max_outputs);
    if (info->output_count < schema->min_outputs)
        return graph_fault_fail(g, n, NULL, GRAPH_OUTPUT_COUNT, INLAY_INVALID_MODEL, b->diag,
                                "has %u outputs; %.48s-%u gives at least %u", info->output_count, info->op_type.data,
                                info->since_version, schema->min_outputs);
    return INLAY_OK;
}

/* An output that the operator always gives may be left unnamed, but kernels count on its being there. */
static inlay_status name_required_outputs(const struct binder *b, struct graph *g, uint32_t index)
{
    const graph_node *n = g->nodes[index];
    const op_schema *schema = n->schema;

    for (uint32_t i = 0; schema != NULL && i < schema->output_count && i < n->info.output_count; i++) {
        uint32_t v;

        if (schema->outputs[i].option != OP_SINGLE || n->info.outputs[i] != INLAY_NONE)
            continue;
        v = graph_add_value(g, NULL, 0);
        if (v == INLAY_NONE)
            return no_memory(b, g);
        ((uint32_t *)(uintptr_t)n->info.outputs)[i] = v;
        g->values[v].info.producer = index;
    }
    return INLAY_OK;
}

static const op_attr *attr_schema(const op_schema *schema, const char *name)
{
    for (uint32_t i = 0; i < schema->attr_count; i++)
        if (strcmp(schema->attrs[i].name, name) == 0)
            return &schema->attrs[i];
    return NULL;
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { "no value", "a float",         "an int",         "a string", "a tensor",
                                         "a graph",  "floats",          "ints",           "strings",  "tensors",
                                         "graphs",   "a sparse tensor", "sparse tensors", "a type" };

    return kind < sizeof names / sizeof names[0] ? names[kind] : "of an unknown kind";
}

/* The loader gives sparse tensors as dense ones. */
static bool kind_fits(uint32_t wanted, uint32_t got)
{
    return wanted == got || (wanted == OP_ATTR_SPARSE_TENSOR && got == INLAY_ATTR_TENSOR);
}

static const char *attr_name_at(const void *schema, uint32_t i)
{
    return ((const op_schema *)schema)->attrs[i].name;
}

/* "Relu-14 has no attribute 'apha'; did you mean 'alpha'?" */
static void say_unknown_attr(const graph_node *n, const char *name, char *text, size_t bytes)
{
    const char *near = nearest_name(name, attr_name_at, n->schema, n->schema->attr_count);

    (void)snprintf(text, bytes, "%.48s-%u has no attribute '%.64s'%s%s%s", n->info.op_type.data, n->info.since_version,
                   name, near != NULL ? "; did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?" : "");
}

/* ONNX leaves names that begin with two underscores to tools. */
static bool is_internal(const char *name)
{
    return name[0] == '_' && name[1] == '_';
}

static inlay_status check_attr(const struct binder *b, const struct graph *g, const graph_node *n, const char *name,
                               uint32_t kind)
{
    const op_attr *attr = attr_schema(n->schema, name);

    if (attr == NULL && (n->schema->open_attrs || is_internal(name)))
        return INLAY_OK;
    if (attr == NULL) {
        char text[256];

        say_unknown_attr(n, name, text, sizeof text);
        return graph_fault_fail(g, n, NULL, GRAPH_UNKNOWN_ATTRIBUTE, INLAY_INVALID_MODEL, b->diag, "%s", text);
    }
    if (!kind_fits(attr->kind, kind))
        return graph_fault_fail(g, n, NULL, GRAPH_ATTRIBUTE_KIND, INLAY_INVALID_MODEL, b->diag,
                                "attribute '%.64s' is %s; %.48s-%u takes %s", name, kind_name(kind),
                                n->info.op_type.data, n->info.since_version, kind_name(attr->kind));
    return INLAY_OK;
}

/* Does the node state the attribute, in whatever form? */
static bool has_attr(const graph_node *n, const char *name)
{
    if (graph_attr(n, name) != NULL || graph_body_named(n, name) != NULL ||
        (n->type_attr != NULL && strcmp(n->type_attr_name, name) == 0))
        return true;
    for (uint32_t i = 0; i < n->ref_count; i++)
        if (strcmp(n->refs[i].name, name) == 0)
            return true;
    return false;
}

/* Takes attributes away that the operator does not have, each with a finding, where a node may have such: operators of
 * ONNX Runtime gain and lose attributes with its versions, and of those in ai.onnx it reads the ones that it knows. */
static inlay_status drop_unknown_attrs(const struct binder *b, const struct graph *g, graph_node *n)
{
    inlay_attr_info *kept = NULL;
    uint32_t count = 0;
    inlay_status status = INLAY_OK;

    if (strcmp(n->info.domain.data, "com.microsoft") != 0 && !is_early(n))
        return INLAY_OK;
    for (uint32_t i = 0; i < n->info.attr_count; i++) {
        const inlay_attr_info *a = &n->info.attrs[i];
        const bool known = attr_schema(n->schema, a->name.data) != NULL || is_internal(a->name.data);
        char text[256];

        if (!known) {
            say_unknown_attr(n, a->name.data, text, sizeof text);
            INLAY_TRY(graph_tolerate(b->model, g, n, NULL, GRAPH_UNKNOWN_ATTRIBUTE, b->diag, "%s", text));
        }
        if (!known && kept == NULL) {
            kept = arena_copy(&b->model->arena, n->info.attrs, n->info.attr_count * sizeof *kept);
            if (kept == NULL)
                return no_memory(b, g);
        }
        if (known && kept != NULL)
            kept[count] = *a;
        count += known;
    }
    if (kept != NULL) {
        n->info.attrs = kept;
        n->info.attr_count = count;
    }
done:
    return status;
}

static inlay_status check_attrs(const struct binder *b, const struct graph *g, graph_node *n)
{
    const op_schema *schema = n->schema;
    inlay_status status = INLAY_OK;

    INLAY_TRY(drop_unknown_attrs(b, g, n));
    for (uint32_t i = 0; i < n->info.attr_count; i++)
        INLAY_TRY(check_attr(b, g, n, n->info.attrs[i].name.data, n->info.attrs[i].kind));
    for (uint32_t i = 0; i < n->body_count; i++)
        INLAY_TRY(check_attr(b, g, n, n->bodies[i].attr, n->bodies[i].in_list ? OP_ATTR_GRAPHS : OP_ATTR_GRAPH));
    for (uint32_t i = 0; i < n->ref_count; i++)
        if (n->refs[i].kind != 0)
            INLAY_TRY(check_attr(b, g, n, n->refs[i].name, n->refs[i].kind));
    if (n->type_attr != NULL)
        INLAY_TRY(check_attr(b, g, n, n->type_attr_name, OP_ATTR_TYPE_PROTO));
    for (uint32_t i = 0; i < schema->attr_count; i++)
        if (schema->attrs[i].required && !has_attr(n, schema->attrs[i].name))
            return graph_fault_fail(g, n, NULL, GRAPH_ATTRIBUTE_MISSING, INLAY_INVALID_MODEL, b->diag,
                                    "lacks attribute '%.64s', which %.48s-%u requires", schema->attrs[i].name,
                                    n->info.op_type.data, n->info.since_version);
done:
    return status;
}

/* Appends the defaults of what the node does not state, or only by reference: a reference may lead to nothing. A node
 * that states nothing shares the list. */
static inlay_status fill_defaults(const struct binder *b, const struct graph *g, graph_node *n, const graph_schema *p)
{
    inlay_attr_info *list;
    uint32_t count = n->info.attr_count;

    n->own_attr_count = count;
    if (p->default_count == 0)
        return INLAY_OK;
    if (count == 0) {
        n->info.attrs = p->defaults;
        n->info.attr_count = p->default_count;
        n->info.attr_stride = sizeof *p->defaults;
        return INLAY_OK;
    }
    list = arena_array(&b->model->arena, (size_t)count + p->default_count, sizeof *list);
    if (list == NULL)
        return no_memory(b, g);
    for (uint32_t i = 0; i < count; i++)
        list[i] = n->info.attrs[i];
    for (uint32_t i = 0; i < p->default_count; i++)
        if (graph_attr(n, p->defaults[i].name.data) == NULL)
            list[count++] = p->defaults[i];
    n->info.attrs = list;
    n->info.attr_count = count;
    n->info.attr_stride = sizeof *list;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ nodes, graphs, the model */

static inlay_status bind_node(struct binder *b, struct graph *g, graph_node *n)
{
    const char *domain = n->info.domain.data;
    inlay_status status = INLAY_OK;
    graph_schema *p;

    if (n->schema != NULL || is_function(b, n))
        return INLAY_OK;
    if (n->opset == 0)
        n->opset = imported(b, domain);
    if (n->opset == 0)
        INLAY_TRY(import_newest(b, g, n));
    if (op_domain_known(domain) || op_find(domain, n->info.op_type.data, n->opset, NULL) != NULL) {
        INLAY_TRY(find_row(b, g, n));
        n->info.since_version = n->row->since_version;
        INLAY_TRY(schema_for(b, g, n, n->row->signature, &p));
    } else {
        n->custom = find_custom(b, n);
        if (n->custom == NULL) {
            status = no_custom(b, g, n);
            goto done;
        }
        n->info.since_version = n->custom->since_version;
        INLAY_TRY(schema_for(b, g, n, n->custom->signature, &p));
    }
    n->schema = &p->schema;
    INLAY_TRY(check_inputs(b, g, n));
    INLAY_TRY(check_attrs(b, g, n));
    INLAY_TRY(fill_defaults(b, g, n, p));
done:
    if (status != INLAY_OK)
        n->schema = NULL;
    return status;
}

static inlay_status bind_graph(struct binder *b, struct graph *g)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < g->node_count; i++) {
        status = bind_node(b, g, g->nodes[i]);
        if (!graph_goes_on(b->model, g, g->nodes[i], &status, b->diag))
            return status;
        INLAY_TRY(name_required_outputs(b, g, i));
        for (uint32_t k = 0; k < g->nodes[i]->body_count; k++)
            INLAY_TRY(bind_graph(b, g->nodes[i]->bodies[k].graph));
    }
done:
    return status;
}

inlay_status graph_bind(graph_model *model, const graph_operators *operators, inlay_diag *diag)
{
    struct binder b = { .model = model, .operators = operators, .diag = diag };
    inlay_status status;

    b.opsets = model->opsets;
    b.opset_count = model->opset_count;
    INLAY_TRY(bind_graph(&b, model->main));
    for (uint32_t i = 0; i < model->function_count; i++) {
        const graph_function *fn = &model->functions[i];

        b.opsets = fn->opset_count > 0 ? fn->opsets : model->opsets;
        b.opset_count = fn->opset_count > 0 ? fn->opset_count : model->opset_count;
        INLAY_TRY(bind_graph(&b, fn->body));
    }
done:
    return status;
}

inlay_status graph_bind_node(struct graph *g, graph_node *n, inlay_diag *diag)
{
    graph_model *model = g->model;
    struct binder b = { .model = model, .diag = diag, .opsets = model->opsets, .opset_count = model->opset_count };

    return bind_node(&b, g, n);
}
