#include "modelkit/change.h"
#include "inlay/check.h"
#include "base/nearest.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

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

bool change_has_name(const struct graph *graph, const char *name)
{
    if (graph_find_value(graph, name) != INLAY_NONE)
        return true;
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            if (change_has_name(graph->nodes[i]->bodies[b].graph, name))
                return true;
    return false;
}

struct value_list {
    const struct graph *graph;
    const uint32_t *values;
};

static const char *nth_name(const void *ctx, uint32_t i)
{
    const struct value_list *value_list = ctx;

    return value_list->graph->values[value_list->values[i]].info.name.data;
}

static inlay_status rename_value(graph_model *model, const uint32_t *values, uint32_t count, const char *what,
                                 const char *from, const char *to, inlay_diag *diag)
{
    const struct value_list names = { model->main, values };
    char hint[NEAREST_HINT_BYTES], *copy;

    for (uint32_t i = 0; i < count; i++) {
        inlay_value_info *info = &model->main->values[values[i]].info;

        INLAY_CHECK(values[i] < model->main->value_count);
        if (strcmp(info->name.data, from) != 0)
            continue;
        if (to[0] == '\0')
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s '%.200s': the new name is empty", what, from);
        if (change_has_name(model->main, to))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s '%.150s': another value already has the name '%.150s'",
                              what, from, to);
        copy = arena_string(&model->arena, to);
        if (copy == NULL)
            return no_memory(diag, "to change the model");
        info->name = (inlay_str){ copy, strlen(copy) };
        return INLAY_OK;
    }
    nearest_hint(hint, "", from, nth_name, &names, count);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the model has no %s '%.150s'%s", what, from, hint);
}

inlay_status change_input_name(graph_model *model, const char *from, const char *to, inlay_diag *diag)
{
    return rename_value(model, model->main->inputs, model->main->input_count, "input", from, to, diag);
}

inlay_status change_output_name(graph_model *model, const char *from, const char *to, inlay_diag *diag)
{
    return rename_value(model, model->main->outputs, model->main->output_count, "output", from, to, diag);
}

/* The dimensions to fix: those of a symbol, or one axis of one value. */
struct dim_target {
    uint32_t symbol; /* 0 = none */
    uint32_t value, axis;
    int64_t size;
    uint32_t found;
};

static bool fix_value(struct graph *graph, uint32_t value_index, struct dim_target *dim_target)
{
    graph_value *value = &graph->values[value_index];
    inlay_dim *dims = NULL;

    if (!value->declared || value->declared_rank == INLAY_RANK_UNKNOWN)
        return true;
    for (uint32_t axis = 0; axis < value->declared_rank; axis++) {
        const inlay_dim *old = &value->declared_dims[axis];
        const bool is_it = dim_target->symbol != 0
                               ? old->kind == INLAY_DIM_SYMBOLIC && old->symbol == dim_target->symbol
                               : graph->parent == NULL && value_index == dim_target->value && axis == dim_target->axis;

        if (!is_it)
            continue;
        if (dims == NULL)
            dims = arena_copy(&graph->model->arena, value->declared_dims, value->declared_rank * sizeof *dims);
        if (dims == NULL)
            return false;
        dims[axis] = (inlay_dim){ .value = dim_target->size, .kind = INLAY_DIM_FIXED };
        dim_target->found++;
    }
    if (dims != NULL)
        value->declared_dims = dims;
    return true;
}

static bool fix_graph(struct graph *graph, struct dim_target *dim_target)
{
    for (uint32_t value = 0; value < graph->value_count; value++)
        if (!fix_value(graph, value, dim_target))
            return false;
    for (uint32_t i = 0; dim_target->symbol != 0 && i < graph->node_count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            if (!fix_graph(graph->nodes[i]->bodies[b].graph, dim_target))
                return false;
    return true;
}

/* Parses "input:axis"; false: not of this form, or no such axis. */
static bool find_axis(const graph_model *model, const char *name, struct dim_target *dim_target)
{
    const char *colon = strrchr(name, ':');
    const struct graph *graph = model->main;
    char *end = NULL;
    long axis;

    if (colon == NULL)
        return false;
    axis = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end != '\0')
        return false;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const graph_value *value = &graph->values[graph->inputs[i]];

        if (value->info.name.bytes != (size_t)(colon - name) ||
            memcmp(value->info.name.data, name, value->info.name.bytes) != 0 || !value->declared ||
            value->declared_rank == INLAY_RANK_UNKNOWN)
            continue;
        axis += axis < 0 ? (long)value->declared_rank : 0;
        dim_target->value = graph->inputs[i];
        dim_target->axis = (uint32_t)axis;
        return axis >= 0 && axis < (long)value->declared_rank;
    }
    return false;
}

inlay_status change_dim(graph_model *model, const char *name, int64_t size, inlay_diag *diag)
{
    struct dim_target dim_target = { .value = INLAY_NONE, .size = size };

    if (!find_axis(model, name, &dim_target))
        dim_target.symbol = graph_find_dim(model, name, strlen(name));
    if ((dim_target.symbol != 0 || dim_target.value != INLAY_NONE) && !fix_graph(model->main, &dim_target))
        return no_memory(diag, "to change the model");
    if (dim_target.found > 0)
        return INLAY_OK;
    return graph_no_dim(model, "NAME or INPUT:AXIS", name, strlen(name), diag);
}

/* Parses one number of that type; false: not such a number. */
static bool read_number(const char *text, inlay_dtype dtype, void *out, uint64_t *out_bytes)
{
    char *end;
    const double number = strtod(text, &end);
    const long long integer = strtoll(text, NULL, 10);

    *out_bytes = inlay_dtype_bits(dtype) / 8;
    if (end == text || *end != '\0')
        return false;
    switch (dtype) {
    case INLAY_FLOAT:
        *(float *)out = (float)number;
        return true;
    case INLAY_DOUBLE:
        *(double *)out = number;
        return true;
    case INLAY_INT64:
        *(int64_t *)out = integer;
        return (double)integer == number;
    case INLAY_INT32:
        *(int32_t *)out = (int32_t)integer;
        return (double)*(int32_t *)out == number;
    case INLAY_BOOL:
        *(uint8_t *)out = integer != 0;
        return number == 0 || number == 1;
    default:
        return false;
    }
}

inlay_status change_constant(graph_model *model, const char *input, const char *value, inlay_diag *diag)
{
    static const int64_t one = 1;
    struct graph *graph = model->main;
    const struct value_list names = { graph, graph->inputs };
    char hint[NEAREST_HINT_BYTES];
    uint32_t i = 0, rank;
    uint64_t number = 0, bytes;
    const graph_value *input_value;
    inlay_status status;
    void *data;

    while (i < graph->input_count && strcmp(nth_name(&names, i), input) != 0)
        i++;
    if (i == graph->input_count) {
        nearest_hint(hint, "", input, nth_name, &names, graph->input_count);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "no input is called '%.150s'%s", input, hint);
    }
    input_value = &graph->values[graph->inputs[i]];
    rank = input_value->declared_rank;
    if (!input_value->declared || rank > 1 || !read_number(value, input_value->declared_dtype, &number, &bytes))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%.150s' is %s and cannot be the number '%.50s'", input,
                          inlay_dtype_name(input_value->declared_dtype), value);
    data = arena_copy(&model->arena, &number, sizeof number);
    if (data == NULL)
        return no_memory(diag, "to change the model");
    status = graph_set_constant(graph, graph->inputs[i], input_value->declared_dtype, rank, &one, data, bytes);
    if (status != INLAY_OK)
        return no_memory(diag, "to change the model");
    for (; i + 1 < graph->input_count; i++)
        graph->inputs[i] = graph->inputs[i + 1];
    graph->input_count--;
    return INLAY_OK;
}

/* Whether the value depends on no input, or on *found only, which is set to the first one. */
static bool depends_on_one(const struct graph *graph, uint32_t value, uint32_t depth, uint32_t *found)
{
    enum { DEEPEST = 16 };

    for (uint32_t i = 0; i < graph->input_count; i++)
        if (graph->inputs[i] == value) {
            *found = *found == INLAY_NONE ? value : *found;
            return *found == value;
        }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const inlay_node_info *node = &graph->nodes[i]->info;

        for (uint32_t output = 0; output < node->output_count; output++)
            if (node->outputs[output] == value) {
                for (uint32_t k = 0; k < node->input_count; k++)
                    if (node->inputs[k] != INLAY_NONE &&
                        (depth == DEEPEST || !depends_on_one(graph, node->inputs[k], depth + 1, found)))
                        return false;
                return graph->nodes[i]->body_count == 0;
            }
    }
    return true;
}

const char *change_find_switch(const graph_model *model)
{
    const struct graph *graph = model->main;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const inlay_node_info *node = &graph->nodes[i]->info;
        uint32_t found = INLAY_NONE;

        if (strcmp(node->op_type.data, "If") == 0 && node->input_count == 1 && node->inputs[0] != INLAY_NONE &&
            depends_on_one(graph, node->inputs[0], 0, &found) && found != INLAY_NONE &&
            graph->values[found].declared_rank <= 1)
            return graph->values[found].info.name.data;
    }
    return NULL;
}
