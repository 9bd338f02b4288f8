/* What any operator may need in an earlier opset, and whether it fits there. */
#include "quantize/opset_parts.h"
#include <string.h>

/* ------------------------------------------------------------------ what any operator may need */

/* Attributes that came later, where they say what was always so. */
void conversion_drop_defaults(conversion *c)
{
    static const struct {
        const char *name;
        int64_t value;
        uint32_t since; /* 0: with the operator's version */
    } defaults[] = {
        { "allowzero", 0, 14 }, { "select_last_index", 0, 12 }, { "training_mode", 0, 14 }, { "saturate", 1, 19 },
        { "ceil_mode", 0, 10 }, { "storage_order", 0, 8 },      { "layout", 0, 14 },        { "batch_dims", 0, 12 },
        { "start", 0, 15 },     { "stash_type", 1, 21 },        { "right", 0, 0 }
    };

    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        const inlay_attr_info *a = conversion_stated(c->n, defaults[i].name);

        if (a != NULL && a->kind == INLAY_ATTR_INT && a->i == defaults[i].value && c->opset < defaults[i].since &&
            defaults[i].since <= c->n->info.since_version)
            conversion_drop_attr(c, defaults[i].name);
    }
    if (strcmp(conversion_op(c), "DepthToSpace") == 0 && c->opset < 11 && conversion_is_text(c->n, "mode", "DCR", true))
        conversion_drop_attr(c, "mode");
    if (strcmp(conversion_op(c), "AveragePool") == 0 && c->opset < 19)
        conversion_drop_attr(c, "dilations");
}

/* Axes that count from the end came with opset 11. */
bool conversion_lower_axes(conversion *c)
{
    static const char *const names[] = { "axis", "axes" };
    const uint32_t rank = conversion_rank(c);

    for (int k = 0; k < 2; k++) {
        const inlay_attr_info *a = conversion_stated(c->n, names[k]);
        const uint32_t count = a == NULL                    ? 0
                               : a->kind == INLAY_ATTR_INT  ? 1
                               : a->kind == INLAY_ATTR_INTS ? a->count
                                                            : 0;
        const int64_t *from = count == 0 ? NULL : a->kind == INLAY_ATTR_INT ? &a->i : a->ints;
        int64_t to[INLAY_MAX_RANK];
        bool any = false;

        for (uint32_t i = 0; i < count && i < INLAY_MAX_RANK; i++) {
            any |= from[i] < 0;
            to[i] = from[i] + (from[i] < 0 ? rank + (strcmp(conversion_op(c), "Unsqueeze") == 0 ? count : 0) : 0);
        }
        if (!any || count > INLAY_MAX_RANK)
            continue;
        if (rank == INLAY_RANK_UNKNOWN) {
            c->why = "the rank of its input is not known, and its axis counts from the end";
            return false;
        }
        if (a->kind == INLAY_ATTR_INT)
            edit_int(c->e, c->n, names[k], to[0]);
        else
            c->e->failed |= graph_set_attr_ints(c->e->g, c->n, names[k], to, count) != INLAY_OK;
    }
    return true;
}

/* Sum, Max, Min and Mean take other shapes since opset 8. */
bool conversion_has_one_shape(conversion *c)
{
    const graph *g = c->e->g;
    const uint32_t first = conversion_input(c, 0);

    for (uint32_t i = 1; i < c->n->info.input_count; i++) {
        const inlay_value_info *a = &g->values[first].info, *b = &g->values[c->n->info.inputs[i]].info;
        bool same = a->rank == b->rank && a->rank != INLAY_RANK_UNKNOWN;

        for (uint32_t d = 0; same && d < a->rank; d++)
            same = a->dims[d].kind == b->dims[d].kind && a->dims[d].value == b->dims[d].value;
        if (!same) {
            c->why = "inputs of different shapes came with opset 8";
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ does it fit? */

static void *schema_alloc(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

static bool value_fits(conversion *c, const op_schema *to, const op_formal *formal, uint32_t v)
{
    const graph_value *value = &c->e->g->values[v];
    const op_value_type type = { value->info.kind, value->inner_kind, value->info.dtype, value->map_key };
    char text[64];

    if (formal != NULL && op_types_allow(&to->types[formal->type_param].types, &type))
        return true;
    op_value_type_text(&type, text, sizeof text);
    c->why = arena_format(&c->e->g->model->arena, "it takes no %s there", text);
    return false;
}

static const op_attr *find_attr(const op_schema *to, const char *name)
{
    for (uint32_t i = 0; i < to->attr_count; i++)
        if (strcmp(to->attrs[i].name, name) == 0)
            return &to->attrs[i];
    return NULL;
}

/* Are arity, types and attributes those of the row? */
bool conversion_fits(conversion *c, const op_row *row)
{
    const graph_node *n = c->n;
    arena *a = &c->e->g->model->arena;
    op_schema to;

    if (op_schema_parse(row->signature, schema_alloc, a, &to, NULL) != INLAY_OK)
        return false;
    if (n->info.input_count < to.min_inputs || n->info.input_count > to.max_inputs ||
        n->info.output_count < to.min_outputs || n->info.output_count > to.max_outputs) {
        c->why = arena_format(a, "it has %u inputs and %u outputs", n->info.input_count, n->info.output_count);
        return false;
    }
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (n->info.inputs[i] != INLAY_NONE && !value_fits(c, &to, op_input_formal(&to, i), n->info.inputs[i]))
            return false;
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE && !value_fits(c, &to, op_output_formal(&to, i), n->info.outputs[i]))
            return false;
    for (uint32_t i = 0; i < n->own_attr_count; i++)
        if (find_attr(&to, n->info.attrs[i].name.data) == NULL) {
            c->why = arena_format(a, "attribute %.60s came later", n->info.attrs[i].name.data);
            return false;
        }
    for (uint32_t i = 0; i < to.attr_count; i++)
        if (to.attrs[i].required && n->body_count == 0 && conversion_stated(n, to.attrs[i].name) == NULL) {
            c->why = arena_format(a, "attribute %s is needed", to.attrs[i].name);
            return false;
        }
    return true;
}
