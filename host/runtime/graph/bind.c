/* graph/bind.c - binds each node to the schema of its operator version.
 *
 * Afterwards a node's attributes are complete and have the right kinds, the numbers of its inputs and outputs are
 * valid, and info.since_version is the version of its operator. Binding again is harmless: it binds nodes that passes
 * or inlining have added and skips the others. */
#include "base/among.h"
#include "base/nearest.h"
#include "graph/graph.h"
#include "inlay/check.h"
#include <string.h>

/* A parsed signature, shared by all nodes of the model with that signature. */
typedef struct graph_schema {
    op_schema schema;
    inlay_attr_info *defaults; /* [default_count] */
    uint32_t default_count;
} graph_schema;

struct binder {
    graph_model *model;
    const graph_operators *operators; /* or NULL */
    inlay_diag *diag;
    const graph_opset *opsets; /* imports of the model or of the current function */
    uint32_t opset_count;
};

static inlay_status bind_graph(struct binder *binder, struct graph *graph);

static inlay_status no_memory_in(const struct binder *binder, const struct graph *graph)
{
    return graph_fail(graph, NULL, NULL, INLAY_OUT_OF_MEMORY, binder->diag, "out of memory while binding operators");
}

static inlay_str str_of(const char *text)
{
    return (inlay_str){ text, strlen(text) };
}

static bool default_attr(struct arena *arena, const op_attr *from, inlay_attr_info *to)
{
    *to = (inlay_attr_info){ .name = str_of(from->name), .kind = from->kind, .count = from->count };
    to->i = from->i;
    to->f = from->f;
    to->ints = from->ints;
    to->floats = from->floats;
    if (from->kind == INLAY_ATTR_STRING)
        to->s = str_of(from->s);
    if (from->kind == INLAY_ATTR_STRINGS) {
        inlay_str *strings = arena_array(arena, from->count, sizeof *strings);

        if (strings == NULL)
            return false;
        for (uint32_t i = 0; i < from->count; i++)
            strings[i] = str_of(from->strings[i]);
        to->strings = strings;
    }
    return true;
}

static inlay_status parse(struct binder *binder, const struct graph *graph, const graph_node *node,
                          const char *signature, graph_schema **out)
{
    struct arena *arena = &binder->model->arena;
    inlay_diag why = INLAY_DIAG_INIT;
    graph_schema *schema = arena_alloc(arena, sizeof *schema);
    inlay_status status;

    *out = schema;
    if (schema == NULL)
        return no_memory_in(binder, graph);
    status = op_schema_parse(signature, arena_alloc_callback, arena, &schema->schema, &why);
    if (status == INLAY_OUT_OF_MEMORY)
        return no_memory_in(binder, graph);
    if (status != INLAY_OK)
        return graph_fail(graph, node, NULL, status, binder->diag, "the operator's %s", why.text);
    schema->defaults = arena_array(arena, schema->schema.attr_count, sizeof *schema->defaults);
    if (schema->defaults == NULL)
        return no_memory_in(binder, graph);
    for (uint32_t i = 0; i < schema->schema.attr_count; i++)
        if (schema->schema.attrs[i].has_default &&
            !default_attr(arena, &schema->schema.attrs[i], &schema->defaults[schema->default_count++]))
            return no_memory_in(binder, graph);
    return INLAY_OK;
}

static inlay_status schema_for(struct binder *binder, const struct graph *graph, const graph_node *node,
                               const char *signature, graph_schema **out)
{
    graph_model *model = binder->model;
    uint32_t found = names_find(&model->schemas.table, signature, strlen(signature));
    inlay_status status;

    INLAY_CHECK(found == NAMES_NONE || found < model->schemas.count);
    if (found != NAMES_NONE) {
        *out = model->schemas.list[found];
        return INLAY_OK;
    }
    status = parse(binder, graph, node, signature, out);
    if (status != INLAY_OK)
        return status;
    if (!ARENA_GROW(&model->arena, model->schemas.list, model->schemas.count) ||
        !names_add(&model->schemas.table, signature, strlen(signature), model->schemas.count, NULL))
        return no_memory_in(binder, graph);
    model->schemas.list[model->schemas.count++] = *out;
    return INLAY_OK;
}

/* The imported version of a domain, 0 = none. A file without any opset imports uses version 1 of ai.onnx. */
static int64_t imported(const struct binder *binder, const char *domain)
{
    for (uint32_t i = 0; i < binder->opset_count; i++)
        if (strcmp(binder->opsets[i].domain, domain) == 0)
            return binder->opsets[i].version;
    return binder->opset_count == 0 && strcmp(domain, "ai.onnx") == 0 ? 1 : 0;
}

/* For a domain that the model does not import: uses the newest version, as ONNX Runtime does. */
static inlay_status import_newest(const struct binder *binder, const struct graph *graph, graph_node *node)
{
    const char *domain = node->info.domain.data;
    const int64_t newest = op_domain_newest(domain);

    node->opset = newest > 0 ? newest : 1;
    return graph_tolerate(binder->model, graph, node, NULL, GRAPH_NOT_IMPORTED, binder->diag,
                          "operator %.64s belongs to domain '%.96s', which the model does not import",
                          node->info.op_type.data, domain);
}

/* Does the node have an operator that ONNX Runtime defined in ai.onnx before ONNX did, or that only ONNX Runtime
 * defines there? ONNX Runtime's tools write such operators to models of any opset. */
static bool is_early_operator(const graph_node *node)
{
    return strcmp(node->info.domain.data, "ai.onnx") == 0 &&
           is_among(node->info.op_type.data, "LayerNormalization SimplifiedLayerNormalization ThresholdedRelu");
}

static inlay_status bind_early_operator(const struct binder *binder, const struct graph *graph, graph_node *node,
                                        uint32_t lowest)
{
    if (!is_early_operator(node))
        return INLAY_OK;
    node->row = op_find("ai.onnx", node->info.op_type.data, lowest, NULL);
    return graph_tolerate(binder->model, graph, node, NULL, GRAPH_OPERATOR_TOO_NEW, binder->diag,
                          "operator %.64s of ai.onnx exists from opset %u on, but the model imports opset %lld",
                          node->info.op_type.data, lowest, (long long)node->opset);
}

static inlay_status find_row(const struct binder *binder, const struct graph *graph, graph_node *node)
{
    const char *domain = node->info.domain.data, *op_type = node->info.op_type.data, *nearest;
    uint32_t lowest;

    if (node->opset > op_domain_newest(domain))
        return graph_fault_fail(
            graph, node, NULL, GRAPH_UNKNOWN_OPSET, INLAY_UNSUPPORTED, binder->diag,
            "the model imports opset %lld of %s; this build knows opsets up to %lld: export the model for that opset",
            (long long)node->opset, domain, (long long)op_domain_newest(domain));
    node->row = op_find(domain, op_type, node->opset, &lowest);
    if (node->row != NULL)
        return INLAY_OK;
    if (lowest != 0) {
        inlay_status status = bind_early_operator(binder, graph, node, lowest);

        if (node->row != NULL) {
            node->opset = lowest;
            node->early = true;
            return status;
        }
    }
    if (lowest != 0)
        return graph_fault_fail(graph, node, NULL, GRAPH_OPERATOR_TOO_NEW, INLAY_INVALID_MODEL, binder->diag,
                                "operator %.64s of %s exists from opset %u on, but the model imports opset %lld",
                                op_type, domain, lowest, (long long)node->opset);
    nearest = op_nearest(domain, op_type);
    return graph_fault_fail(graph, node, NULL, GRAPH_UNKNOWN_OPERATOR, INLAY_UNSUPPORTED, binder->diag,
                            "operator %.64s is not in domain %s at opset %lld%s%s%s", op_type, domain,
                            (long long)node->opset, nearest != NULL ? "; did you mean " : "",
                            nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
}

static const inlay_operator *find_custom(const struct binder *binder, const graph_node *node)
{
    const graph_operators *ops = binder->operators;
    const inlay_operator *found = NULL;

    if (ops != NULL && ops->find != NULL)
        found = ops->find(ops->ctx, node->info.domain.data, node->info.op_type.data, node->opset);
    return found != NULL && found->signature != NULL ? found : NULL;
}

/* Is it a domain of layouts that ONNX Runtime chooses for one kind of CPU or device? */
static bool is_layout_domain(const char *domain)
{
    return strcmp(domain, "com.microsoft.nchwc") == 0 || strcmp(domain, "com.ms.internal.nhwc") == 0;
}

static inlay_status no_custom(const struct binder *binder, const struct graph *graph, const graph_node *node)
{
    const graph_operators *ops = binder->operators;
    const char *domain = node->info.domain.data, *op_type = node->info.op_type.data;
    char why[384];

    (void)snprintf(why, sizeof why,
                   "no plugin brings operator %.64s of domain '%.96s', because no directory was searched", op_type,
                   domain);
    if (is_layout_domain(domain))
        return graph_fault_fail(
            graph, node, NULL, GRAPH_ONE_CPU, INLAY_UNSUPPORTED, binder->diag,
            "operator %.64s of domain '%.64s': ONNX Runtime saved this model at its highest level, in "
            "the layout of one kind of CPU; use the original model, or save it at level extended",
            op_type, domain);
    if (ops != NULL && ops->missing != NULL)
        ops->missing(ops->ctx, domain, op_type, node->opset, why, sizeof why);
    return graph_fault_fail(graph, node, NULL, GRAPH_NO_PLUGIN, INLAY_UNSUPPORTED, binder->diag, "%s", why);
}

static bool is_function(const struct binder *binder, const graph_node *node)
{
    for (uint32_t i = 0; i < binder->model->function_count; i++) {
        const graph_function *fn = &binder->model->functions[i];

        if (strcmp(fn->name, node->info.op_type.data) == 0 && strcmp(fn->domain, node->info.domain.data) == 0 &&
            strcmp(fn->overload, node->overload) == 0)
            return true;
    }
    return false;
}

static inlay_status check_inputs(const struct binder *binder, const struct graph *graph, const graph_node *node)
{
    const op_schema *schema = node->schema;
    const inlay_node_info *info = &node->info;

    if (info->input_count > schema->max_inputs)
        return graph_fault_fail(graph, node, NULL, GRAPH_INPUT_COUNT, INLAY_INVALID_MODEL, binder->diag,
                                "has %u inputs; %.48s-%u takes at most %u", info->input_count, info->op_type.data,
                                info->since_version, schema->max_inputs);
    for (uint32_t i = 0; i < schema->input_count; i++) {
        bool present = i < info->input_count && info->inputs[i] != INLAY_NONE;

        if (schema->inputs[i].option == OP_SINGLE && !present)
            return graph_fault_fail(graph, node, NULL, GRAPH_INPUT_COUNT, INLAY_INVALID_MODEL, binder->diag,
                                    "lacks input %u (%.64s), which %.48s-%u requires", i, schema->inputs[i].name,
                                    info->op_type.data, info->since_version);
    }
    if (info->input_count < schema->min_inputs)
        return graph_fault_fail(graph, node, NULL, GRAPH_INPUT_COUNT, INLAY_INVALID_MODEL, binder->diag,
                                "has %u inputs; %.48s-%u takes at least %u", info->input_count, info->op_type.data,
                                info->since_version, schema->min_inputs);
    if (info->output_count > schema->max_outputs)
        return graph_fault_fail(graph, node, NULL, GRAPH_OUTPUT_COUNT, INLAY_INVALID_MODEL, binder->diag,
                                "has %u outputs; %.48s-%u gives at most %u", info->output_count, info->op_type.data,
                                info->since_version, schema->max_outputs);
    if (info->output_count < schema->min_outputs)
        return graph_fault_fail(graph, node, NULL, GRAPH_OUTPUT_COUNT, INLAY_INVALID_MODEL, binder->diag,
                                "has %u outputs; %.48s-%u gives at least %u", info->output_count, info->op_type.data,
                                info->since_version, schema->min_outputs);
    return INLAY_OK;
}

/* A model may omit the name of an output that the operator always computes, but kernels expect a value for it. */
static inlay_status name_required_outputs(const struct binder *binder, struct graph *graph, uint32_t index)
{
    const graph_node *node = graph->nodes[index];
    const op_schema *schema = node->schema;

    for (uint32_t i = 0; schema != NULL && i < schema->output_count && i < node->info.output_count; i++) {
        uint32_t value;

        if (schema->outputs[i].option != OP_SINGLE || node->info.outputs[i] != INLAY_NONE)
            continue;
        value = graph_add_value(graph, NULL, 0);
        if (value == INLAY_NONE)
            return no_memory_in(binder, graph);
        ((uint32_t *)(uintptr_t)node->info.outputs)[i] = value;
        graph->values[value].info.producer = index;
    }
    return INLAY_OK;
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { "no value", "a float",         "an int",         "a string", "a tensor",
                                         "a graph",  "floats",          "ints",           "strings",  "tensors",
                                         "graphs",   "a sparse tensor", "sparse tensors", "a type" };

    return kind < sizeof names / sizeof names[0] ? names[kind] : "of a kind that ONNX lacks";
}

/* An attribute of kind SPARSE_TENSOR may be a TENSOR, because the loader converts sparse tensors to dense ones. */
static bool kind_fits(uint32_t wanted, uint32_t got)
{
    return wanted == got || (wanted == OP_ATTR_SPARSE_TENSOR && got == INLAY_ATTR_TENSOR);
}

static const char *attr_name_at(const void *schema, uint32_t i)
{
    return ((const op_schema *)schema)->attrs[i].name;
}

/* "Relu-14 has no attribute 'apha'; did you mean 'alpha'?" */
static void unknown_attr_text(const graph_node *node, const char *name, char *text, size_t bytes)
{
    const char *near = nearest_name(name, attr_name_at, node->schema, node->schema->attr_count);

    (void)snprintf(text, bytes, "%.48s-%u has no attribute '%.64s'%s%s%s", node->info.op_type.data,
                   node->info.since_version, name, near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
}

/* ONNX reserves names that begin with two underscores for tools. */
static bool is_internal(const char *name)
{
    return name[0] == '_' && name[1] == '_';
}

static inlay_status check_attr(const struct binder *binder, const struct graph *graph, const graph_node *node,
                               const char *name, uint32_t kind)
{
    const op_attr *attr = op_find_attr(node->schema, name);

    if (attr == NULL && (node->schema->open_attrs || is_internal(name)))
        return INLAY_OK;
    if (attr == NULL) {
        char text[256];

        unknown_attr_text(node, name, text, sizeof text);
        return graph_fault_fail(graph, node, NULL, GRAPH_UNKNOWN_ATTRIBUTE, INLAY_INVALID_MODEL, binder->diag, "%s",
                                text);
    }
    if (!kind_fits(attr->kind, kind))
        return graph_fault_fail(graph, node, NULL, GRAPH_ATTRIBUTE_KIND, INLAY_INVALID_MODEL, binder->diag,
                                "attribute '%.64s' is %s; %.48s-%u takes %s", name, kind_name(kind),
                                node->info.op_type.data, node->info.since_version, kind_name(attr->kind));
    return INLAY_OK;
}

/* Returns true unless the operator's signature lists the values of the attribute and this one is not among them. */
static bool is_allowed(const op_attr *attr, const inlay_attr_info *given)
{
    for (uint32_t i = 0; i < attr->allowed_count; i++)
        if (attr->kind == INLAY_ATTR_INT ? attr->allowed.ints[i] == given->i
                                         : strcmp(attr->allowed.strings[i], given->s.data) == 0)
            return true;
    return attr->allowed_count == 0;
}

/* Writes "bilinear, nearest". */
static void list_allowed(const op_attr *attr, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < attr->allowed_count && used < bytes; i++)
        used += (size_t)(attr->kind == INLAY_ATTR_INT ? snprintf(text + used, bytes - used, "%s%lld", i > 0 ? ", " : "",
                                                                 (long long)attr->allowed.ints[i])
                                                      : snprintf(text + used, bytes - used, "%s%s", i > 0 ? ", " : "",
                                                                 attr->allowed.strings[i]));
}

static inlay_status check_value(const struct binder *binder, const struct graph *graph, const graph_node *node,
                                const inlay_attr_info *given)
{
    const op_attr *attr = op_find_attr(node->schema, given->name.data);
    char number[24], values[256];

    if (attr == NULL || is_allowed(attr, given))
        return INLAY_OK;
    (void)snprintf(number, sizeof number, "%lld", (long long)given->i);
    list_allowed(attr, values, sizeof values);
    return graph_fault_fail(graph, node, NULL, GRAPH_ATTRIBUTE_VALUE, INLAY_INVALID_MODEL, binder->diag,
                            "attribute '%.64s' is %.64s; %.48s-%u takes %s", attr->name,
                            attr->kind == INLAY_ATTR_INT ? number : given->s.data, node->info.op_type.data,
                            node->info.since_version, values);
}

/* Does the node have the attribute, as a value, a body, a type or a reference? */
static bool has_attr(const graph_node *node, const char *name)
{
    if (graph_attr(node, name) != NULL || graph_body_named(node, name) != NULL ||
        (node->type_attr != NULL && strcmp(node->type_attr_name, name) == 0))
        return true;
    for (uint32_t i = 0; i < node->ref_count; i++)
        if (strcmp(node->refs[i].name, name) == 0)
            return true;
    return false;
}

/* Removes unknown attributes of the operators for which ONNX Runtime ignores them, each with a finding. */
static inlay_status drop_unknown_attrs(const struct binder *binder, const struct graph *graph, graph_node *node)
{
    inlay_attr_info *kept = NULL;
    uint32_t count = 0;
    inlay_status status = INLAY_OK;

    if (strcmp(node->info.domain.data, "ai.onnx") != 0 ||
        !is_among(node->info.op_type.data, "LayerNormalization SimplifiedLayerNormalization"))
        return INLAY_OK;
    for (uint32_t i = 0; i < node->info.attr_count; i++) {
        const inlay_attr_info *attribute = &node->info.attrs[i];
        const bool known =
            op_find_attr(node->schema, attribute->name.data) != NULL || is_internal(attribute->name.data);
        char text[256];

        if (!known) {
            unknown_attr_text(node, attribute->name.data, text, sizeof text);
            INLAY_TRY(
                graph_tolerate(binder->model, graph, node, NULL, GRAPH_UNKNOWN_ATTRIBUTE, binder->diag, "%s", text));
        }
        if (!known && kept == NULL) {
            kept = arena_copy(&binder->model->arena, node->info.attrs, node->info.attr_count * sizeof *kept);
            if (kept == NULL)
                return no_memory_in(binder, graph);
        }
        if (known && kept != NULL)
            kept[count] = *attribute;
        count += known;
    }
    if (kept != NULL) {
        node->info.attrs = kept;
        node->info.attr_count = node->own_attr_count = count;
    }
done:
    return status;
}

static inlay_status check_attrs(const struct binder *binder, const struct graph *graph, graph_node *node)
{
    const op_schema *schema = node->schema;
    inlay_status status = INLAY_OK;

    INLAY_TRY(drop_unknown_attrs(binder, graph, node));
    for (uint32_t i = 0; i < node->info.attr_count; i++) {
        INLAY_TRY(check_attr(binder, graph, node, node->info.attrs[i].name.data, node->info.attrs[i].kind));
        INLAY_TRY(check_value(binder, graph, node, &node->info.attrs[i]));
    }
    for (uint32_t i = 0; i < node->body_count; i++)
        INLAY_TRY(check_attr(binder, graph, node, node->bodies[i].attr,
                             node->bodies[i].in_list ? OP_ATTR_GRAPHS : OP_ATTR_GRAPH));
    for (uint32_t i = 0; i < node->ref_count; i++)
        if (node->refs[i].kind != 0)
            INLAY_TRY(check_attr(binder, graph, node, node->refs[i].name, node->refs[i].kind));
    if (node->type_attr != NULL)
        INLAY_TRY(check_attr(binder, graph, node, node->type_attr_name, OP_ATTR_TYPE_PROTO));
    for (uint32_t i = 0; i < schema->attr_count; i++)
        if (schema->attrs[i].required && !has_attr(node, schema->attrs[i].name))
            return graph_fault_fail(graph, node, NULL, GRAPH_ATTRIBUTE_MISSING, INLAY_INVALID_MODEL, binder->diag,
                                    "lacks attribute '%.64s', which %.48s-%u requires", schema->attrs[i].name,
                                    node->info.op_type.data, node->info.since_version);
done:
    return status;
}

/* Appends the defaults of attributes that the node does not have, or has only as a reference, which may not resolve. A
 * node without attributes shares the schema's list. */
static inlay_status fill_defaults(const struct binder *binder, const struct graph *graph, graph_node *node,
                                  const graph_schema *schema)
{
    inlay_attr_info *list;
    uint32_t count = node->info.attr_count;

    INLAY_CHECK(schema->default_count <= schema->schema.attr_count);
    node->own_attr_count = count;
    if (schema->default_count == 0)
        return INLAY_OK;
    if (count == 0) {
        node->info.attrs = schema->defaults;
        node->info.attr_count = schema->default_count;
        node->info.attr_stride = sizeof *schema->defaults;
        return INLAY_OK;
    }
    list = arena_array(&binder->model->arena, (size_t)count + schema->default_count, sizeof *list);
    if (list == NULL)
        return no_memory_in(binder, graph);
    for (uint32_t i = 0; i < count; i++)
        list[i] = node->info.attrs[i];
    for (uint32_t i = 0; i < schema->default_count; i++)
        if (graph_attr(node, schema->defaults[i].name.data) == NULL)
            list[count++] = schema->defaults[i];
    node->info.attrs = list;
    node->info.attr_count = count;
    node->info.attr_stride = sizeof *list;
    return INLAY_OK;
}

/* Plugins compute tensors. An operator of a plugin may have a parameter of another type, but then nothing runs it. */
static inlay_status check_custom_types(const struct binder *binder, const struct graph *graph, const graph_node *node)
{
    const op_schema *schema = node->schema;

    for (uint32_t i = 0; i < schema->input_count + schema->output_count; i++) {
        const bool is_input = i < schema->input_count;
        const op_formal *formal = is_input ? &schema->inputs[i] : &schema->outputs[i - schema->input_count];

        if (formal->option != OP_OPTIONAL && formal->type_param >= 0 &&
            schema->types[formal->type_param].types.tensor == 0)
            return graph_fail(graph, node, NULL, INLAY_UNSUPPORTED, binder->diag,
                              "%s '%.64s' is no tensor, but plugins, one of which defines the operator, compute "
                              "tensors: its items have to be a variadic %s ('*' in the signature)",
                              is_input ? "input" : "output", formal->name, is_input ? "input" : "output");
    }
    return INLAY_OK;
}

static inlay_status bind_node(struct binder *binder, struct graph *graph, graph_node *node)
{
    const char *domain = node->info.domain.data;
    inlay_status status = INLAY_OK;
    graph_schema *schema;

    if (node->schema != NULL || is_function(binder, node))
        return INLAY_OK;
    if (node->opset == 0)
        node->opset = imported(binder, domain);
    if (node->opset == 0)
        INLAY_TRY(import_newest(binder, graph, node));
    if (op_domain_known(domain) || op_find(domain, node->info.op_type.data, node->opset, NULL) != NULL) {
        INLAY_TRY(find_row(binder, graph, node));
        node->info.since_version = node->row->since_version;
        INLAY_TRY(schema_for(binder, graph, node, node->row->signature, &schema));
    } else {
        node->custom = find_custom(binder, node);
        if (node->custom == NULL) {
            status = no_custom(binder, graph, node);
            goto done;
        }
        node->info.since_version = node->custom->since_version;
        INLAY_TRY(schema_for(binder, graph, node, node->custom->signature, &schema));
    }
    node->schema = &schema->schema;
    if (node->custom != NULL)
        INLAY_TRY(check_custom_types(binder, graph, node));
    INLAY_TRY(check_inputs(binder, graph, node));
    INLAY_TRY(check_attrs(binder, graph, node));
    INLAY_TRY(fill_defaults(binder, graph, node, schema));
done:
    if (status != INLAY_OK)
        node->schema = NULL;
    return status;
}

static inlay_status bind_graph(struct binder *binder, struct graph *graph)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        status = bind_node(binder, graph, graph->nodes[i]);
        if (!graph_continue_after_error(binder->model, graph, graph->nodes[i], &status, binder->diag))
            return status;
        INLAY_TRY(name_required_outputs(binder, graph, i));
        for (uint32_t k = 0; k < graph->nodes[i]->body_count; k++)
            INLAY_TRY(bind_graph(binder, graph->nodes[i]->bodies[k].graph));
    }
done:
    return status;
}

inlay_status graph_bind(graph_model *model, const graph_operators *operators, inlay_diag *diag)
{
    struct binder binder = { .model = model, .operators = operators, .diag = diag };
    inlay_status status;

    binder.opsets = model->opsets;
    binder.opset_count = model->opset_count;
    INLAY_TRY(bind_graph(&binder, model->main));
    for (uint32_t i = 0; i < model->function_count; i++) {
        const graph_function *fn = &model->functions[i];

        binder.opsets = fn->opset_count > 0 ? fn->opsets : model->opsets;
        binder.opset_count = fn->opset_count > 0 ? fn->opset_count : model->opset_count;
        INLAY_TRY(bind_graph(&binder, fn->body));
    }
done:
    return status;
}

inlay_status graph_bind_node(struct graph *graph, graph_node *node, inlay_diag *diag)
{
    graph_model *model = graph->model;
    struct binder binder = { .model = model, .diag = diag, .opsets = model->opsets, .opset_count = model->opset_count };

    return bind_node(&binder, graph, node);
}
