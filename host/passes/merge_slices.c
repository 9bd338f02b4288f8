/* Slice of a Slice over other axes is one (Slice-10 and later, with constant bounds). */
#include "passes/rewrite.h"
#include <string.h>

enum { MOST = 16 }; /* axes of both together */

typedef struct bounds {
    int64_t starts[MOST], ends[MOST], axes[MOST], steps[MOST];
    uint32_t count;
} bounds;

/* Appends the bounds of the node; axes are counted from the front. */
static bool read_bounds(rewrite *w, const graph_node *n, bounds *b)
{
    const int64_t *list[4];
    uint32_t counts[4], rank = rw_info(w, rw_input(w, n, 0))->rank;

    for (uint32_t i = 0; i < 4; i++)
        if (rw_input(w, n, i + 1) == INLAY_NONE && i >= 2)
            list[i] = NULL;
        else if (!rw_ints(w, rw_input(w, n, i + 1), &list[i], &counts[i]) || counts[i] != counts[0])
            return false;
    if (rank == INLAY_RANK_UNKNOWN || counts[0] > MOST - b->count)
        return false;
    for (uint32_t i = 0; i < counts[0]; i++, b->count++) {
        int64_t axis = list[2] == NULL ? (int64_t)i : list[2][i];

        b->starts[b->count] = list[0][i];
        b->ends[b->count] = list[1][i];
        b->axes[b->count] = axis < 0 ? axis + (int64_t)rank : axis;
        b->steps[b->count] = list[3] == NULL ? 1 : list[3][i];
    }
    return true;
}

static bool axes_differ(const bounds *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (b->axes[i] == b->axes[k])
                return false;
    return true;
}

static inlay_status match(rewrite *w, graph_node *n)
{
    graph_node *inner = pass_is_op(n, "Slice") ? rw_maker_op(w, rw_input(w, n, 0), "Slice") : NULL, *fresh;
    bounds b = { .count = 0 };
    uint32_t inputs[5];

    if (inner == NULL || n->info.since_version < 10 || inner->info.since_version < 10 ||
        !rw_is_only_use(w, rw_input(w, n, 0)) || !read_bounds(w, inner, &b) || !read_bounds(w, n, &b) ||
        !axes_differ(&b))
        return INLAY_OK;
    inputs[0] = rw_input(w, inner, 0);
    inputs[1] = rw_constant_ints(w, b.starts, b.count);
    inputs[2] = rw_constant_ints(w, b.ends, b.count);
    inputs[3] = rw_constant_ints(w, b.axes, b.count);
    inputs[4] = rw_constant_ints(w, b.steps, b.count);
    for (uint32_t i = 1; i < 5; i++)
        if (inputs[i] == INLAY_NONE)
            return rw_no_memory(w);
    fresh = rw_make(w, "Slice", n->opset, n, inputs, 5, 1);
    return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
}

inlay_status pass_merge_slices(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
