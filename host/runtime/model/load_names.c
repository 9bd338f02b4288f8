/* model/load_names.c - the names of a graph while it is loaded. */
#include "model/load.h"
#include "inlay/check.h"
#include <string.h>

inlay_status scope_add(struct loader *loader, struct scope *scope, const char *name, uint32_t *out_value)
{
    size_t bytes = strlen(name);
    uint32_t value = graph_add_value(scope->graph, name, bytes);

    *out_value = value;
    if (value == INLAY_NONE ||
        !names_add(&scope->table, scope->graph->values[value].info.name.data, bytes, value, NULL))
        return load_no_memory(loader, scope->graph);
    return INLAY_OK;
}

inlay_status scope_check_hidden(struct loader *loader, const struct scope *scope, const graph_node *node,
                                const char *what, const char *name)
{
    for (const struct scope *outer = scope->outer; outer != NULL; outer = outer->outer)
        if (names_find(&outer->table, name, strlen(name)) != NAMES_NONE)
            return graph_tolerate(loader->model, scope->graph, node, name, GRAPH_NAME_HIDDEN, loader->diag,
                                  "%s '%.96s' has the name of a value of the enclosing graph '%.64s'", what, name,
                                  outer->graph->name);
    return INLAY_OK;
}

inlay_status scope_define(struct loader *loader, struct scope *scope, const char *name, const char *what,
                          uint32_t *out_value)
{
    inlay_status status = scope_check_hidden(loader, scope, NULL, what, name);

    if (status != INLAY_OK)
        return status;
    *out_value = names_find(&scope->table, name, strlen(name));
    if (*out_value == NAMES_NONE)
        return scope_add(loader, scope, name, out_value);
    status = graph_fault_fail(scope->graph, NULL, name, GRAPH_NAME_TWICE, INLAY_INVALID_MODEL, loader->diag,
                              "%s '%.96s' has the name of another value; names must be unique in a graph", what, name);
    (void)graph_continue_after_error(loader->model, scope->graph, NULL, &status, loader->diag);
    return status;
}

/* Records that `inner` represents `outer` of the enclosing graph. */
static inlay_status add_capture(struct loader *loader, struct scope *scope, uint32_t outer, uint32_t inner)
{
    struct arena *arena = &loader->model->arena;

    INLAY_CHECK(scope->outer != NULL && outer < scope->outer->graph->value_count && inner < scope->graph->value_count);
    if (!ARENA_GROW(arena, scope->capture_outer, scope->capture_count) ||
        !ARENA_GROW(arena, scope->capture_inner, scope->capture_count))
        return load_no_memory(loader, scope->graph);
    scope->capture_outer[scope->capture_count] = outer;
    scope->capture_inner[scope->capture_count++] = inner;
    return INLAY_OK;
}

inlay_status scope_resolve(struct loader *loader, struct scope *scope, const char *name, uint32_t *out_value)
{
    uint32_t outer, value;
    inlay_status status;

    *out_value = names_find(&scope->table, name, strlen(name));
    if (*out_value != NAMES_NONE || scope->outer == NULL)
        return INLAY_OK;
    status = scope_resolve(loader, scope->outer, name, &outer);
    if (status != INLAY_OK || outer == INLAY_NONE)
        return status;
    status = scope_add(loader, scope, name, &value);
    if (status != INLAY_OK)
        return status;
    scope->graph->values[value].info.kind = scope->outer->graph->values[outer].info.kind;
    scope->graph->values[value].inner_kind = scope->outer->graph->values[outer].inner_kind;
    scope->graph->values[value].map_key = scope->outer->graph->values[outer].map_key;
    *out_value = value;
    return add_capture(loader, scope, outer, value);
}

void scope_deinit(struct scope *scope)
{
    names_deinit(&scope->table);
}
