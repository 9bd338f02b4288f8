/* Nodes by pattern, and what to say when there is none. */
#include "base/nearest.h"
#include "explain/facts.h"
#include <fnmatch.h>
#include <string.h>

bool facts_matches(const char *pattern, const inlay_node_info *node)
{
    if (strncmp(pattern, "op:", 3) == 0)
        return fnmatch(pattern + 3, node->op_type.data, 0) == 0;
    /* A name that holds brackets or stars means itself, too. */
    return fnmatch(pattern, node->name.data, 0) == 0 || strcmp(pattern, node->name.data) == 0;
}

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
    const char *near = NULL;

    for (uint32_t i = 0; i < facts->graph_count; i++)
        for (uint32_t n = 0; n < facts->graphs[i]->program->graph->node_count; n++)
            if (facts_matches(pattern, facts_node_info(facts->graphs[i], n)))
                return INLAY_OK;
    near = nearest_name(by_op ? pattern + 3 : pattern, by_op ? nth_op : nth_name, facts, facts->node_count);
    if (near == NULL && !by_op) { /* the end of a path is how people remember it */
        for (uint32_t i = 0; near == NULL && pattern[0] != '\0' && i < facts->node_count; i++)
            if (strstr(nth_name(facts, i), pattern) != NULL)
                near = nth_name(facts, i);
    }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: no node %s '%s'%s%s%s", what, by_op ? "of operator" : "named",
                      by_op ? pattern + 3 : pattern, near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                      near != NULL ? "'?" : "; inlay explain --all lists them");
}
