#include "graph/refit.h"
#include <string.h>

/* One refit on its way. */
struct refit {
    struct graph *g;
    graph_node *n;
    const op_row *row;
    op_schema to;
    inlay_attr_info *kept; /* what the node states afterwards */
    uint32_t kept_count;
    inlay_dtype *dtypes; /* [to.type_count] of the values seen so far, by type parameter */
    const char *why;
};

/* Attributes whose absence does not mean their default, or that have none. */
static const struct {
    const char *name;
    bool any;      /* no value of it changes the result */
    int64_t value; /* otherwise this one, for a list all of this one, is what rows without it imply */
} implied[] = {
    { "dilations", false, 1 },
    { "is_test", false, 1 },
    { "consumed_inputs", true, 0 },
    { "output_sequence", true, 0 },
};

/* Values that an attribute has in some versions only; schemas do not tell. */
static const struct {
    const char *op, *attr, *value;
    uint32_t first, last; /* versions; last 0: all that follow */
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

/* Versions from which on the same node computes something else. */
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

static const op_attr *find_attr(const op_schema *schema, const char *name)
{
    for (uint32_t i = 0; i < schema->attr_count; i++)
        if (strcmp(schema->attrs[i].name, name) == 0)
            return &schema->attrs[i];
    return NULL;
}

static const inlay_attr_info *stated(const graph_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->own_attr_count; i++)
        if (strcmp(n->info.attrs[i].name.data, name) == 0)
            return &n->info.attrs[i];
    return NULL;
}

/* ------------------------------------------------------------------ attributes */

static bool same_default(const op_attr *a, const op_attr *b)
{
    if (a->has_default != b->has_default)
        return false;
    return !a->has_default || (a->i == b->i && a->f == b->f && a->count == b->count &&
                               (a->s == NULL || b->s == NULL ? a->s == b->s : strcmp(a->s, b->s) == 0));
}

/* Is each number of the attribute this one? */
static bool is_all(const inlay_attr_info *a, int64_t value)
{
    if (a->kind == INLAY_ATTR_INT)
        return a->i == value;
    for (uint32_t i = 0; a->kind == INLAY_ATTR_INTS && i < a->count; i++)
        if (a->ints[i] != value)
            return false;
    return a->kind == INLAY_ATTR_INTS;
}

static bool is_default(const inlay_attr_info *a, const op_attr *schema)
{
    if (schema == NULL || !schema->has_default || schema->kind != a->kind)
        return false;
    switch (a->kind) {
    case INLAY_ATTR_INT:
        return a->i == schema->i;
    case INLAY_ATTR_FLOAT:
        return (float)a->f == (float)schema->f;
    case INLAY_ATTR_STRING:
        return strcmp(a->s.data, schema->s) == 0;
    default:
        return false;
    }
}

/* Does a node without the attribute, in a version that lacks it, do what one with this value does? */
static bool is_implied(const inlay_attr_info *a, const op_attr *schema)
{
    for (size_t i = 0; i < sizeof implied / sizeof implied[0]; i++)
        if (strcmp(a->name.data, implied[i].name) == 0)
            return implied[i].any || is_all(a, implied[i].value);
    return is_default(a, schema);
}

/* The same for one that the node does not state. */
static bool default_is_implied(const op_attr *schema)
{
    for (size_t i = 0; i < sizeof implied / sizeof implied[0]; i++)
        if (strcmp(schema->name, implied[i].name) == 0)
            return implied[i].any || !schema->has_default || schema->i == implied[i].value;
    return true;
}

static bool lacks_attr(struct refit *r, const char *name)
{
    r->why =
        arena_format(&r->g->model->arena, "%.48s-%u has no attribute '%.60s', and the value here is not its default",
                     r->n->info.op_type.data, r->row->since_version, name);
    return false;
}

static bool value_is_there(struct refit *r, const inlay_attr_info *a)
{
    for (size_t i = 0; a->kind == INLAY_ATTR_STRING && i < sizeof value_versions / sizeof value_versions[0]; i++) {
        const uint32_t first = value_versions[i].first, last = value_versions[i].last;

        if (strcmp(r->n->info.op_type.data, value_versions[i].op) != 0 ||
            strcmp(a->name.data, value_versions[i].attr) != 0 || strcmp(a->s.data, value_versions[i].value) != 0 ||
            (r->row->since_version >= first && (last == 0 || r->row->since_version <= last)))
            continue;
        r->why = arena_format(&r->g->model->arena, "attribute '%s' of %.48s-%u cannot be '%s'", a->name.data,
                              r->n->info.op_type.data, r->row->since_version, a->s.data);
        return false;
    }
    return true;
}

static bool keep_stated(struct refit *r)
{
    const graph_node *n = r->n;

    for (uint32_t i = 0; i < n->own_attr_count; i++) {
        const inlay_attr_info *a = &n->info.attrs[i];
        const op_attr *there = find_attr(&r->to, a->name.data), *here = find_attr(n->schema, a->name.data);

        if (there == NULL && !r->to.open_attrs) {
            if (!is_implied(a, here))
                return lacks_attr(r, a->name.data);
            continue;
        }
        if (there != NULL && there->kind != a->kind &&
            (there->kind != OP_ATTR_SPARSE_TENSOR || a->kind != INLAY_ATTR_TENSOR)) {
            r->why = arena_format(&r->g->model->arena, "attribute '%.60s' is of another kind there", a->name.data);
            return false;
        }
        if (!value_is_there(r, a))
            return false;
        r->kept[r->kept_count++] = *a;
    }
    return true;
}

/* What the node leaves to the default of its version. */
static bool keep_defaults(struct refit *r)
{
    const graph_node *n = r->n;

    for (uint32_t i = 0; i < n->schema->attr_count; i++) {
        const op_attr *here = &n->schema->attrs[i], *there = find_attr(&r->to, here->name);
        inlay_attr_info a = { .name = { here->name, strlen(here->name) }, .kind = here->kind };

        if (stated(n, here->name) != NULL || !here->has_default)
            continue;
        if (there == NULL) {
            if (!default_is_implied(here))
                return lacks_attr(r, here->name);
            continue;
        }
        if (here->kind == there->kind && same_default(here, there))
            continue;
        a.i = here->i;
        a.f = here->f;
        if (here->kind == INLAY_ATTR_STRING)
            a.s = (inlay_str){ here->s, strlen(here->s) };
        else if (here->kind != INLAY_ATTR_INT && here->kind != INLAY_ATTR_FLOAT)
            a.kind = there->kind + 1; /* no default of a list has changed yet */
        if (a.kind != there->kind) {
            r->why = arena_format(&r->g->model->arena, "attribute '%.60s' is of another kind there", here->name);
            return false;
        }
        if (!value_is_there(r, &a))
            return false;
        r->kept[r->kept_count++] = a;
    }
    return true;
}

static bool is_kept(const struct refit *r, const char *name)
{
    for (uint32_t i = 0; i < r->kept_count; i++)
        if (strcmp(r->kept[i].name.data, name) == 0)
            return true;
    return false;
}

static bool has_required(struct refit *r)
{
    for (uint32_t i = 0; i < r->to.attr_count; i++) {
        const op_attr *a = &r->to.attrs[i];

        if (!a->required || a->kind == OP_ATTR_GRAPH || a->kind == OP_ATTR_GRAPHS || a->kind == OP_ATTR_TYPE_PROTO ||
            is_kept(r, a->name))
            continue;
        r->why = arena_format(&r->g->model->arena, "%.48s-%u requires attribute '%s'", r->n->info.op_type.data,
                              r->row->since_version, a->name);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ inputs and outputs */

static bool value_fits(struct refit *r, const op_formal *formal, uint32_t v, const char *what, uint32_t i)
{
    const graph_value *value = &r->g->values[v];
    const op_value_type type = { value->info.kind, value->inner_kind, value->info.dtype, value->map_key };
    inlay_dtype *first = formal == NULL ? NULL : &r->dtypes[formal->type_param];
    char text[64];

    if (formal != NULL && op_types_allow(&r->to.types[formal->type_param].types, &type) &&
        (*first == INLAY_UNDEFINED || type.dtype == INLAY_UNDEFINED || *first == type.dtype ||
         formal->option == OP_VARIADIC_MIXED)) {
        if (*first == INLAY_UNDEFINED)
            *first = type.dtype;
        return true;
    }
    op_value_type_text(&type, text, sizeof text);
    r->why =
        arena_format(&r->g->model->arena, "%s %u of %.48s-%u cannot be %s%s", what, i, r->n->info.op_type.data,
                     r->row->since_version, text,
                     first == NULL || *first == INLAY_UNDEFINED || *first == type.dtype ? "" : " beside the others");
    return false;
}

static bool values_fit(struct refit *r)
{
    const inlay_node_info *info = &r->n->info;
    uint32_t inputs = info->input_count;

    while (inputs > 0 && info->inputs[inputs - 1] == INLAY_NONE)
        inputs--;
    if (inputs < r->to.min_inputs || inputs > r->to.max_inputs || info->output_count < r->to.min_outputs ||
        info->output_count > r->to.max_outputs) {
        r->why = arena_format(&r->g->model->arena, "%.48s-%u cannot have %u inputs and %u outputs", info->op_type.data,
                              r->row->since_version, inputs, info->output_count);
        return false;
    }
    for (uint32_t i = 0; i < inputs; i++) {
        const op_formal *formal = op_input_formal(&r->to, i);

        if (info->inputs[i] != INLAY_NONE ? !value_fits(r, formal, info->inputs[i], "input", i)
                                          : formal == NULL || formal->option == OP_SINGLE) {
            if (r->why == NULL)
                r->why = arena_format(&r->g->model->arena, "%.48s-%u requires input %u", info->op_type.data,
                                      r->row->since_version, i);
            return false;
        }
    }
    for (uint32_t i = 0; i < info->output_count; i++)
        if (info->outputs[i] != INLAY_NONE &&
            !value_fits(r, op_output_formal(&r->to, i), info->outputs[i], "output", i))
            return false;
    return true;
}

/* ------------------------------------------------------------------ all of it */

static bool means_the_same(struct refit *r)
{
    const graph_node *n = r->n;
    const uint32_t a = n->info.since_version, b = r->row->since_version;

    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++)
        if (strcmp(n->info.op_type.data, changed[i].op) == 0 && (a < changed[i].since) != (b < changed[i].since)) {
            r->why = "it computes something else there";
            return false;
        }
    return true;
}

bool graph_refit(struct graph *g, graph_node *n, const op_row *row, bool adapted, const char **out_why)
{
    struct refit r = { .g = g, .n = n, .row = row };
    struct arena *a = &g->model->arena;

    *out_why = NULL;
    if (row == n->row)
        return true;
    r.kept = arena_array(a, (size_t)n->own_attr_count + n->schema->attr_count + 1, sizeof *r.kept);
    if (r.kept == NULL || op_schema_parse(row->signature, arena_alloc_callback, a, &r.to, NULL) != INLAY_OK)
        return false;
    r.dtypes = arena_array(a, (size_t)r.to.type_count + 1, sizeof *r.dtypes);
    if (r.dtypes == NULL)
        return false;
    memset(r.dtypes, 0, (size_t)r.to.type_count * sizeof *r.dtypes);
    if ((!adapted && !means_the_same(&r)) || !keep_stated(&r) || !keep_defaults(&r) || !has_required(&r) ||
        !values_fit(&r)) {
        *out_why = r.why;
        return false;
    }
    while (n->info.input_count > 0 && n->info.inputs[n->info.input_count - 1] == INLAY_NONE)
        n->info.input_count--;
    n->info.attrs = r.kept;
    n->info.attr_stride = sizeof *r.kept;
    n->info.attr_count = n->own_attr_count = r.kept_count;
    return true;
}
