#include "graph/change_version.h"
#include "inlay/check.h"
#include <string.h>

/* State of one conversion. */
struct conversion {
    struct graph *graph;
    graph_node *node;
    const op_row *row;
    op_schema to;
    inlay_attr_info *kept; /* attributes of the converted node */
    uint32_t kept_count;
    inlay_dtype *dtypes; /* [to.type_count] dtype bound to each type parameter so far */
    const char *why;
};

/* Attributes that some versions of an operator lack. A version without the attribute computes as if the attribute had
 * the value below. In the versions with the attribute, that value is not the default, or there is no default. */
static const struct {
    const char *name;
    bool any;      /* no value of the attribute changes the result */
    int64_t value; /* otherwise the value, or the value of all list elements, that versions without it imply */
} implied[] = {
    { "dilations", false, 1 },
    { "is_test", false, 1 },
    { "consumed_inputs", true, 0 },
    { "output_sequence", true, 0 },
};

/* Attribute values that only some versions allow; schemas do not contain this information. */
static const struct {
    const char *op, *attr, *value;
    uint32_t first, last; /* versions; last 0: all later ones */
} value_versions[] = {
    { "GridSample", "mode", "bilinear", 16, 16 },
    { "GridSample", "mode", "bicubic", 16, 16 },
    { "GridSample", "mode", "linear", 20, 0 },
    { "GridSample", "mode", "cubic", 20, 0 },
    { "Pad", "mode", "wrap", 19, 0 },
    { "Resize", "coordinate_transformation_mode", "tf_half_pixel_for_nn", 11, 11 },
    { "Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19, 0 },
    { "ScatterElements", "reduction", "max", 18, 0 },
    { "ScatterElements", "reduction", "min", 18, 0 },
    { "ScatterND", "reduction", "max", 18, 0 },
    { "ScatterND", "reduction", "min", 18, 0 },
};

/* Versions that changed the semantics of the operator. */
static const struct {
    const char *op;
    uint32_t since;
} changed[] = {
    { "BatchNormalization", 14 },
    { "GroupNormalization", 21 },
    { "Hardmax", 13 },
    { "LogSoftmax", 13 },
    { "Resize", 11 },
    { "RoiAlign", 16 },
    { "Scan", 9 },
    { "Softmax", 13 },
    { "Split", 18 },
};

static bool same_default(const op_attr *a, const op_attr *b)
{
    if (a->has_default != b->has_default)
        return false;
    return !a->has_default || (a->i == b->i && a->f == b->f && a->count == b->count &&
                               (a->s == NULL || b->s == NULL ? a->s == b->s : strcmp(a->s, b->s) == 0));
}

/* Is the integer, or each integer of the list, equal to value? */
static bool is_all(const inlay_attr_info *attribute, int64_t value)
{
    if (attribute->kind == INLAY_ATTR_INT)
        return attribute->i == value;
    for (uint32_t i = 0; attribute->kind == INLAY_ATTR_INTS && i < attribute->count; i++)
        if (attribute->ints[i] != value)
            return false;
    return attribute->kind == INLAY_ATTR_INTS;
}

static bool is_default(const inlay_attr_info *attribute, const op_attr *schema)
{
    if (schema == NULL || !schema->has_default || schema->kind != attribute->kind)
        return false;
    switch (attribute->kind) {
    case INLAY_ATTR_INT:
        return attribute->i == schema->i;
    case INLAY_ATTR_FLOAT:
        return (float)attribute->f == (float)schema->f;
    case INLAY_ATTR_STRING:
        return strcmp(attribute->s.data, schema->s) == 0;
    default:
        return false;
    }
}

/* Does a version without the attribute compute the same as this value? */
static bool is_implied(const inlay_attr_info *attribute, const op_attr *schema)
{
    for (size_t i = 0; i < sizeof implied / sizeof implied[0]; i++)
        if (strcmp(attribute->name.data, implied[i].name) == 0)
            return implied[i].any || is_all(attribute, implied[i].value);
    return is_default(attribute, schema);
}

/* Does a version without the attribute compute the same as the attribute's default? For attributes that the node does
 * not have. */
static bool default_is_implied(const op_attr *schema)
{
    for (size_t i = 0; i < sizeof implied / sizeof implied[0]; i++)
        if (strcmp(schema->name, implied[i].name) == 0)
            return implied[i].any || !schema->has_default || schema->i == implied[i].value;
    return true;
}

static bool fail_missing_attr(struct conversion *conversion, const char *name)
{
    conversion->why = arena_format(&conversion->graph->model->arena,
                                   "%.48s-%u has no attribute '%.60s', and the value here is not its default",
                                   conversion->node->info.op_type.data, conversion->row->since_version, name);
    return false;
}

static bool value_is_allowed(struct conversion *conversion, const inlay_attr_info *attribute)
{
    for (size_t i = 0; attribute->kind == INLAY_ATTR_STRING && i < sizeof value_versions / sizeof value_versions[0];
         i++) {
        const uint32_t first = value_versions[i].first, last = value_versions[i].last;

        if (strcmp(conversion->node->info.op_type.data, value_versions[i].op) != 0 ||
            strcmp(attribute->name.data, value_versions[i].attr) != 0 ||
            strcmp(attribute->s.data, value_versions[i].value) != 0 ||
            (conversion->row->since_version >= first && (last == 0 || conversion->row->since_version <= last)))
            continue;
        conversion->why = arena_format(&conversion->graph->model->arena, "attribute '%s' of %.48s-%u cannot be '%s'",
                                       attribute->name.data, conversion->node->info.op_type.data,
                                       conversion->row->since_version, attribute->s.data);
        return false;
    }
    return true;
}

static bool keep_explicit(struct conversion *conversion)
{
    const graph_node *node = conversion->node;

    for (uint32_t i = 0; i < node->own_attr_count; i++) {
        const inlay_attr_info *attribute = &node->info.attrs[i];
        const op_attr *target = op_find_attr(&conversion->to, attribute->name.data),
                      *source = op_find_attr(node->schema, attribute->name.data);

        if (target == NULL && !conversion->to.open_attrs) {
            if (!is_implied(attribute, source))
                return fail_missing_attr(conversion, attribute->name.data);
            continue;
        }
        if (target != NULL && target->kind != attribute->kind &&
            (target->kind != OP_ATTR_SPARSE_TENSOR || attribute->kind != INLAY_ATTR_TENSOR)) {
            conversion->why =
                arena_format(&conversion->graph->model->arena, "attribute '%.60s' has a different kind in that version",
                             attribute->name.data);
            return false;
        }
        if (!value_is_allowed(conversion, attribute))
            return false;
        conversion->kept[conversion->kept_count++] = *attribute;
    }
    return true;
}

/* Handles attributes that the node does not have, whose default applies. */
static bool keep_defaults(struct conversion *conversion)
{
    const graph_node *node = conversion->node;

    for (uint32_t i = 0; i < node->schema->attr_count; i++) {
        const op_attr *source = &node->schema->attrs[i], *target = op_find_attr(&conversion->to, source->name);
        inlay_attr_info attribute = { .name = { source->name, strlen(source->name) }, .kind = source->kind };

        if (graph_own_attr(node, source->name) != NULL || !source->has_default)
            continue;
        if (target == NULL) {
            if (!default_is_implied(source))
                return fail_missing_attr(conversion, source->name);
            continue;
        }
        if (source->kind == target->kind && same_default(source, target))
            continue;
        attribute.i = source->i;
        attribute.f = source->f;
        if (source->kind == INLAY_ATTR_STRING)
            attribute.s = (inlay_str){ source->s, strlen(source->s) };
        else if (source->kind != INLAY_ATTR_INT && source->kind != INLAY_ATTR_FLOAT)
            attribute.kind = target->kind + 1; /* fails below; so far no default of a list has changed */
        if (attribute.kind != target->kind) {
            conversion->why = arena_format(&conversion->graph->model->arena,
                                           "attribute '%.60s' has a different kind in that version", source->name);
            return false;
        }
        if (!value_is_allowed(conversion, &attribute))
            return false;
        conversion->kept[conversion->kept_count++] = attribute;
    }
    return true;
}

static bool is_kept(const struct conversion *conversion, const char *name)
{
    for (uint32_t i = 0; i < conversion->kept_count; i++)
        if (strcmp(conversion->kept[i].name.data, name) == 0)
            return true;
    return false;
}

static bool has_required(struct conversion *conversion)
{
    for (uint32_t i = 0; i < conversion->to.attr_count; i++) {
        const op_attr *attribute = &conversion->to.attrs[i];

        if (!attribute->required || attribute->kind == OP_ATTR_GRAPH || attribute->kind == OP_ATTR_GRAPHS ||
            attribute->kind == OP_ATTR_TYPE_PROTO || is_kept(conversion, attribute->name))
            continue;
        conversion->why =
            arena_format(&conversion->graph->model->arena, "%.48s-%u requires attribute '%s'",
                         conversion->node->info.op_type.data, conversion->row->since_version, attribute->name);
        return false;
    }
    return true;
}

static bool value_fits(struct conversion *conversion, const op_formal *formal, uint32_t value_index, const char *what,
                       uint32_t i)
{
    const graph_value *value = &conversion->graph->values[value_index];
    const op_value_type type = { value->info.kind, value->inner_kind, value->info.dtype, value->map_key };
    inlay_dtype *first = formal == NULL ? NULL : &conversion->dtypes[formal->type_param];
    char text[64];

    if (formal != NULL && op_types_allow(&conversion->to.types[formal->type_param].types, &type) &&
        (*first == INLAY_UNDEFINED || type.dtype == INLAY_UNDEFINED || *first == type.dtype ||
         formal->option == OP_VARIADIC_MIXED)) {
        if (*first == INLAY_UNDEFINED)
            *first = type.dtype;
        return true;
    }
    op_value_type_text(&type, text, sizeof text);
    conversion->why = arena_format(&conversion->graph->model->arena, "%s %u of %.48s-%u cannot be %s%s", what, i,
                                   conversion->node->info.op_type.data, conversion->row->since_version, text,
                                   first == NULL || *first == INLAY_UNDEFINED || *first == type.dtype
                                       ? ""
                                       : " while another value of that type parameter has a different type");
    return false;
}

static bool values_fit(struct conversion *conversion)
{
    const inlay_node_info *info = &conversion->node->info;
    uint32_t inputs = info->input_count;

    while (inputs > 0 && info->inputs[inputs - 1] == INLAY_NONE)
        inputs--;
    if (inputs < conversion->to.min_inputs || inputs > conversion->to.max_inputs ||
        info->output_count < conversion->to.min_outputs || info->output_count > conversion->to.max_outputs) {
        conversion->why =
            arena_format(&conversion->graph->model->arena, "%.48s-%u cannot have %u inputs and %u outputs",
                         info->op_type.data, conversion->row->since_version, inputs, info->output_count);
        return false;
    }
    for (uint32_t i = 0; i < inputs; i++) {
        const op_formal *formal = op_input_formal(&conversion->to, i);

        if (info->inputs[i] != INLAY_NONE ? !value_fits(conversion, formal, info->inputs[i], "input", i)
                                          : formal == NULL || formal->option == OP_SINGLE) {
            if (conversion->why == NULL)
                conversion->why = arena_format(&conversion->graph->model->arena, "%.48s-%u requires input %u",
                                               info->op_type.data, conversion->row->since_version, i);
            return false;
        }
    }
    for (uint32_t i = 0; i < info->output_count; i++)
        if (info->outputs[i] != INLAY_NONE &&
            !value_fits(conversion, op_output_formal(&conversion->to, i), info->outputs[i], "output", i))
            return false;
    return true;
}

static bool has_same_semantics(struct conversion *conversion)
{
    const graph_node *node = conversion->node;
    const uint32_t a = node->info.since_version, b = conversion->row->since_version;

    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++)
        if (strcmp(node->info.op_type.data, changed[i].op) == 0 && (a < changed[i].since) != (b < changed[i].since)) {
            conversion->why = "the semantics of the operator changed between the versions";
            return false;
        }
    return true;
}

bool graph_change_version(struct graph *graph, graph_node *node, const op_row *row, bool adapted, const char **out_why)
{
    struct conversion conversion = { .graph = graph, .node = node, .row = row };
    struct arena *arena = &graph->model->arena;

    *out_why = NULL;
    if (row == node->row)
        return true;
    INLAY_CHECK(node->schema != NULL && node->own_attr_count <= node->info.attr_count);
    conversion.kept =
        arena_array(arena, (size_t)node->own_attr_count + node->schema->attr_count + 1, sizeof *conversion.kept);
    if (conversion.kept == NULL ||
        op_schema_parse(row->signature, arena_alloc_callback, arena, &conversion.to, NULL) != INLAY_OK)
        return false;
    conversion.dtypes = arena_array(arena, (size_t)conversion.to.type_count + 1, sizeof *conversion.dtypes);
    if (conversion.dtypes == NULL)
        return false;
    memset(conversion.dtypes, 0, (size_t)conversion.to.type_count * sizeof *conversion.dtypes);
    if ((!adapted && !has_same_semantics(&conversion)) || !keep_explicit(&conversion) || !keep_defaults(&conversion) ||
        !has_required(&conversion) || !values_fit(&conversion)) {
        *out_why = conversion.why;
        return false;
    }
    INLAY_CHECK(conversion.kept_count <= node->own_attr_count + node->schema->attr_count);
    while (node->info.input_count > 0 && node->info.inputs[node->info.input_count - 1] == INLAY_NONE)
        node->info.input_count--;
    node->info.attrs = conversion.kept;
    node->info.attr_stride = sizeof *conversion.kept;
    node->info.attr_count = node->own_attr_count = conversion.kept_count;
    return true;
}
