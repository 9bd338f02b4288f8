/* What any operator may need in an earlier opset. */
#include "modelkit/opset_parts.h"
#include <string.h>

/* Axes that count from the end came with opset 11. */
bool conversion_lower_axes(struct conversion *c)
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
bool conversion_has_one_shape(struct conversion *c)
{
    const struct graph *g = c->e->g;
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
