/* model/load_names.c - the names of a graph while it is loaded. */
#include "model/load.h"
#include <string.h>

inlay_status scope_add(struct loader *l, struct scope *s, const char *name, uint32_t *out_value)
{
    size_t bytes = strlen(name);
    uint32_t v = graph_add_value(s->g, name, bytes);

    *out_value = v;
    if (v == INLAY_NONE || !names_add(&s->table, s->g->values[v].info.name.data, bytes, v, NULL))
        return load_no_memory(l, s->g);
    return INLAY_OK;
}

inlay_status scope_check_hidden(struct loader *l, const struct scope *s, const graph_node *n, const char *what,
                                const char *name)
{
    for (const struct scope *o = s->outer; o != NULL; o = o->outer)
        if (names_find(&o->table, name, strlen(name)) != NAMES_NONE)
            return graph_tolerate(l->model, s->g, n, name, GRAPH_NAME_HIDDEN, l->diag,
                                  "%s '%.96s' has the name of a value of graph '%.64s' around it", what, name,
                                  o->g->name);
    return INLAY_OK;
}

inlay_status scope_define(struct loader *l, struct scope *s, const char *name, const char *what, uint32_t *out_value)
{
    inlay_status status = scope_check_hidden(l, s, NULL, what, name);

    if (status != INLAY_OK)
        return status;
    *out_value = names_find(&s->table, name, strlen(name));
    if (*out_value == NAMES_NONE)
        return scope_add(l, s, name, out_value);
    status = graph_fault_fail(s->g, NULL, name, GRAPH_NAME_TWICE, INLAY_INVALID_MODEL, l->diag,
                              "%s '%.96s' has the name of another value; names must be unique in a graph", what, name);
    (void)graph_goes_on(l->model, s->g, NULL, &status, l->diag);
    return status;
}

/* Notes that `inner` stands for `outer` of the graph around. */
static inlay_status add_capture(struct loader *l, struct scope *s, uint32_t outer, uint32_t inner)
{
    struct arena *a = &l->model->arena;

    if (!ARENA_GROW(a, s->capture_outer, s->capture_count) || !ARENA_GROW(a, s->capture_inner, s->capture_count))
        return load_no_memory(l, s->g);
    s->capture_outer[s->capture_count] = outer;
    s->capture_inner[s->capture_count++] = inner;
    return INLAY_OK;
}

inlay_status scope_resolve(struct loader *l, struct scope *s, const char *name, uint32_t *out_value)
{
    uint32_t outer, v;
    inlay_status status;

    *out_value = names_find(&s->table, name, strlen(name));
    if (*out_value != NAMES_NONE || s->outer == NULL)
        return INLAY_OK;
    status = scope_resolve(l, s->outer, name, &outer);
    if (status != INLAY_OK || outer == INLAY_NONE)
        return status;
    status = scope_add(l, s, name, &v);
    if (status != INLAY_OK)
        return status;
    s->g->values[v].info.kind = s->outer->g->values[outer].info.kind;
    s->g->values[v].inner_kind = s->outer->g->values[outer].inner_kind;
    s->g->values[v].map_key = s->outer->g->values[outer].map_key;
    *out_value = v;
    return add_capture(l, s, outer, v);
}

void scope_deinit(struct scope *s)
{
    names_deinit(&s->table);
}
