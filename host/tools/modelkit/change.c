#include "modelkit/change.h"
#include "base/nearest.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ metadata */

inlay_status change_metadata(graph_model *model, const char *key, const char *value, inlay_diag *diag)
{
    graph_property *list;
    uint32_t kept = 0;
    bool found = false;

    list = arena_array(&model->arena, (size_t)model->metadata_count + 1, sizeof *list);
    if (list == NULL)
        return no_memory(diag, "to change the model");
    for (uint32_t i = 0; i < model->metadata_count; i++) {
        const bool same = strcmp(model->metadata[i].key, key) == 0;

        if (same && (value == NULL || found)) {
            found = true;
            continue;
        }
        list[kept] = model->metadata[i];
        if (same && (list[kept].value = arena_string(&model->arena, value)) == NULL)
            return no_memory(diag, "to change the model");
        found = found || same;
        kept++;
    }
    if (!found && value == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the model has no metadata '%.200s'", key);
    if (!found) {
        list[kept].key = arena_string(&model->arena, key);
        list[kept].value = arena_string(&model->arena, value);
        if (list[kept].key == NULL || list[kept].value == NULL)
            return no_memory(diag, "to change the model");
        kept++;
    }
    model->metadata = list;
    model->metadata_count = kept;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ names */

bool change_has_name(const struct graph *g, const char *name)
{
    if (graph_find_value(g, name) != INLAY_NONE)
        return true;
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            if (change_has_name(g->nodes[i]->bodies[b].graph, name))
                return true;
    return false;
}

struct listed {
    const struct graph *g;
    const uint32_t *values;
};

static const char *nth_name(const void *ctx, uint32_t i)
{
    const struct listed *l = ctx;

    return l->g->values[l->values[i]].info.name.data;
}

static inlay_status rename_value(graph_model *model, const uint32_t *values, uint32_t count, const char *what,
                                 const char *from, const char *to, inlay_diag *diag)
{
    const struct listed names = { model->main, values };
    const char *near = nearest_name(from, nth_name, &names, count);
    char *copy;

    for (uint32_t i = 0; i < count; i++) {
        inlay_value_info *info = &model->main->values[values[i]].info;

        if (strcmp(info->name.data, from) != 0)
            continue;
        if (to[0] == '\0')
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s '%.200s': the new name is empty", what, from);
        if (change_has_name(model->main, to))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s '%.150s': another value is called '%.150s' already",
                              what, from, to);
        copy = arena_string(&model->arena, to);
        if (copy == NULL)
            return no_memory(diag, "to change the model");
        info->name = (inlay_str){ copy, strlen(copy) };
        return INLAY_OK;
    }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the model has no %s '%.150s'%s%.150s%s", what, from,
                      near != NULL ? "; did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?" : "");
}

inlay_status change_input_name(graph_model *model, const char *from, const char *to, inlay_diag *diag)
{
    return rename_value(model, model->main->inputs, model->main->input_count, "input", from, to, diag);
}

inlay_status change_output_name(graph_model *model, const char *from, const char *to, inlay_diag *diag)
{
    return rename_value(model, model->main->outputs, model->main->output_count, "output", from, to, diag);
}

/* ------------------------------------------------------------------ sizes */

/* Which dimensions: those of a symbol, or one axis of one value. */
struct which {
    uint32_t symbol; /* 0 = none */
    uint32_t value, axis;
    int64_t size;
    uint32_t found;
};

static bool fix_value(struct graph *g, uint32_t v, struct which *w)
{
    graph_value *value = &g->values[v];
    inlay_dim *dims = NULL;

    if (!value->declared || value->declared_rank == INLAY_RANK_UNKNOWN)
        return true;
    for (uint32_t d = 0; d < value->declared_rank; d++) {
        const inlay_dim *old = &value->declared_dims[d];
        const bool is_it = w->symbol != 0 ? old->kind == INLAY_DIM_SYMBOLIC && old->symbol == w->symbol
                                          : g->parent == NULL && v == w->value && d == w->axis;

        if (!is_it)
            continue;
        if (dims == NULL)
            dims = arena_copy(&g->model->arena, value->declared_dims, value->declared_rank * sizeof *dims);
        if (dims == NULL)
            return false;
        dims[d] = (inlay_dim){ .value = w->size, .kind = INLAY_DIM_FIXED };
        w->found++;
    }
    if (dims != NULL)
        value->declared_dims = dims;
    return true;
}

static bool fix_graph(struct graph *g, struct which *w)
{
    for (uint32_t v = 0; v < g->value_count; v++)
        if (!fix_value(g, v, w))
            return false;
    for (uint32_t i = 0; w->symbol != 0 && i < g->node_count; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            if (!fix_graph(g->nodes[i]->bodies[b].graph, w))
                return false;
    return true;
}

/* "input:axis"; false: it is no such thing. */
static bool find_axis(const graph_model *model, const char *name, struct which *w)
{
    const char *colon = strrchr(name, ':');
    const struct graph *g = model->main;
    char *end = NULL;
    long axis;

    if (colon == NULL)
        return false;
    axis = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end != '\0')
        return false;
    for (uint32_t i = 0; i < g->input_count; i++) {
        const graph_value *v = &g->values[g->inputs[i]];

        if (v->info.name.bytes != (size_t)(colon - name) || memcmp(v->info.name.data, name, v->info.name.bytes) != 0 ||
            !v->declared || v->declared_rank == INLAY_RANK_UNKNOWN)
            continue;
        axis += axis < 0 ? (long)v->declared_rank : 0;
        w->value = g->inputs[i];
        w->axis = (uint32_t)axis;
        return axis >= 0 && axis < (long)v->declared_rank;
    }
    return false;
}

static const char *nth_symbol(const void *ctx, uint32_t i)
{
    return ((const graph_model *)ctx)->symbols[i + 1].name.data;
}

inlay_status change_dim(graph_model *model, const char *name, int64_t size, inlay_diag *diag)
{
    struct which w = { .value = INLAY_NONE, .size = size };
    const char *near;

    if (!find_axis(model, name, &w))
        for (uint32_t s = 1; s < model->symbol_count; s++)
            if (strcmp(model->symbols[s].name.data, name) == 0)
                w.symbol = s;
    if ((w.symbol != 0 || w.value != INLAY_NONE) && !fix_graph(model->main, &w))
        return no_memory(diag, "to change the model");
    if (w.found > 0)
        return INLAY_OK;
    near = model->symbol_count > 1 ? nearest_name(name, nth_symbol, model, model->symbol_count - 1) : NULL;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "no dimension is called '%.150s', and it is no axis of an input as in "
                      "x:0%s%.150s%s",
                      name, near != NULL ? "; did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?" : "");
}

/* ------------------------------------------------------------------ constants */

/* One number of that type; false: the text is none. */
static bool read_number(const char *text, inlay_dtype dtype, void *out, uint64_t *out_bytes)
{
    char *end;
    const double f = strtod(text, &end);
    const long long i = strtoll(text, NULL, 10);

    *out_bytes = inlay_dtype_bits(dtype) / 8;
    if (end == text || *end != '\0')
        return false;
    switch (dtype) {
    case INLAY_FLOAT:
        *(float *)out = (float)f;
        return true;
    case INLAY_DOUBLE:
        *(double *)out = f;
        return true;
    case INLAY_INT64:
        *(int64_t *)out = i;
        return (double)i == f;
    case INLAY_INT32:
        *(int32_t *)out = (int32_t)i;
        return (double)*(int32_t *)out == f;
    case INLAY_BOOL:
        *(uint8_t *)out = i != 0;
        return f == 0 || f == 1;
    default:
        return false;
    }
}

inlay_status change_constant(graph_model *model, const char *input, const char *value, inlay_diag *diag)
{
    static const int64_t one = 1;
    struct graph *g = model->main;
    const struct listed names = { g, g->inputs };
    const char *near = nearest_name(input, nth_name, &names, g->input_count);
    uint32_t i = 0, rank;
    uint64_t number = 0, bytes;
    const graph_value *v;
    inlay_status status;
    void *data;

    while (i < g->input_count && strcmp(nth_name(&names, i), input) != 0)
        i++;
    if (i == g->input_count)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "no input is called '%.150s'%s%.150s%s", input,
                          near != NULL ? "; did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?" : "");
    v = &g->values[g->inputs[i]];
    rank = v->declared_rank;
    if (!v->declared || rank > 1 || !read_number(value, v->declared_dtype, &number, &bytes))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%.150s' is %s, and cannot be the one number '%.50s'",
                          input, inlay_dtype_name(v->declared_dtype), value);
    data = arena_copy(&model->arena, &number, sizeof number);
    if (data == NULL)
        return no_memory(diag, "to change the model");
    status = graph_set_constant(g, g->inputs[i], v->declared_dtype, rank, &one, data, bytes);
    if (status != INLAY_OK)
        return no_memory(diag, "to change the model");
    for (; i + 1 < g->input_count; i++)
        g->inputs[i] = g->inputs[i + 1];
    g->input_count--;
    return INLAY_OK;
}
