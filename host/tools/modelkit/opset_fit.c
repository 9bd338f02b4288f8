/* Conversions that any operator may need for an earlier opset. */
#include "modelkit/opset_parts.h"
#include <string.h>

/* Negative axes came with opset 11. */
bool conversion_lower_axes(struct conversion *conversion)
{
    static const char *const names[] = { "axis", "axes" };
    const uint32_t rank = conversion_rank(conversion);

    for (int which = 0; which < 2; which++) {
        const inlay_attr_info *attribute = graph_own_attr(conversion->node, names[which]);
        const uint32_t count = attribute == NULL                    ? 0
                               : attribute->kind == INLAY_ATTR_INT  ? 1
                               : attribute->kind == INLAY_ATTR_INTS ? attribute->count
                                                                    : 0;
        const int64_t *from = count == 0 ? NULL : attribute->kind == INLAY_ATTR_INT ? &attribute->i : attribute->ints;
        int64_t to[INLAY_MAX_RANK];
        bool any = false;

        for (uint32_t i = 0; i < count && i < INLAY_MAX_RANK; i++) {
            any |= from[i] < 0;
            to[i] =
                from[i] + (from[i] < 0 ? rank + (strcmp(conversion_op(conversion), "Unsqueeze") == 0 ? count : 0) : 0);
        }
        if (!any || count > INLAY_MAX_RANK)
            continue;
        if (rank == INLAY_RANK_UNKNOWN) {
            conversion->why = "the rank of its input is not known, and its axis counts from the end";
            return false;
        }
        if (attribute->kind == INLAY_ATTR_INT)
            edit_int(conversion->editor, conversion->node, names[which], to[0]);
        else
            conversion->editor->failed |=
                graph_set_attr_ints(conversion->editor->graph, conversion->node, names[which], to, count) != INLAY_OK;
    }
    return true;
}

/* Sum, Max, Min and Mean broadcast since opset 8. */
bool conversion_has_one_shape(struct conversion *conversion)
{
    const struct graph *graph = conversion->editor->graph;
    const uint32_t first = conversion_input(conversion, 0);

    for (uint32_t i = 1; i < conversion->node->info.input_count; i++) {
        const inlay_value_info *first_info = &graph->values[first].info,
                               *info = &graph->values[conversion->node->info.inputs[i]].info;
        bool same = first_info->rank == info->rank && first_info->rank != INLAY_RANK_UNKNOWN;

        for (uint32_t axis = 0; same && axis < first_info->rank; axis++)
            same = first_info->dims[axis].kind == info->dims[axis].kind &&
                   first_info->dims[axis].value == info->dims[axis].value;
        if (!same) {
            conversion->why = "inputs of different shapes came with opset 8";
            return false;
        }
    }
    return true;
}
