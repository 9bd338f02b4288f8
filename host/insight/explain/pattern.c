/* Finds nodes by pattern, and suggests a name if no node matches. */
#include "base/nearest.h"
#include "explain/facts.h"
#include <string.h>

static const inlay_node_info *nth_node(const struct facts *facts, uint32_t i)
{
    uint32_t graph = 0;

    while (i >= facts->graphs[graph]->program->graph->node_count)
        i -= facts->graphs[graph++]->program->graph->node_count;
    return facts_node_info(facts->graphs[graph], i);
}

static const char *nth_name(const void *ctx, uint32_t i)
{
    return nth_node(ctx, i)->name.data;
}

static const char *nth_op(const void *ctx, uint32_t i)
{
    return nth_node(ctx, i)->op_type.data;
}

inlay_status facts_check_pattern(const struct facts *facts, const char *what, const char *pattern, inlay_diag *diag)
{
    bool by_op = strncmp(pattern, "op:", 3) == 0;
    const char *nearest = NULL;

    for (uint32_t i = 0; i < facts->graph_count; i++)
        for (uint32_t node = 0; node < facts->graphs[i]->program->graph->node_count; node++)
            if (graph_node_matches(pattern, facts_node_info(facts->graphs[i], node)))
                return INLAY_OK;
    for (uint32_t i = 0; !by_op && i < facts->node_count; i++)
        if (strcmp(nth_op(facts, i), pattern) == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: no node named '%s'; did you mean 'op:%s'?", what,
                              pattern, pattern);
    nearest = nearest_name(by_op ? pattern + 3 : pattern, by_op ? nth_op : nth_name, facts, facts->node_count);
    if (nearest == NULL && !by_op) { /* users often give only a part of a path */
        for (uint32_t i = 0; nearest == NULL && pattern[0] != '\0' && i < facts->node_count; i++)
            if (strstr(nth_name(facts, i), pattern) != NULL)
                nearest = nth_name(facts, i);
    }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: no node %s '%s'%s%s%s", what, by_op ? "of operator" : "named",
                      by_op ? pattern + 3 : pattern, nearest != NULL ? "; did you mean '" : "",
                      nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "; inlay explain --all lists them");
}
