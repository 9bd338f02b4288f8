/* Pad with zeros before Conv, or before AveragePool that counts its padding, goes into the pads of that node; so does
 * Pad with minus infinity before MaxPool. Zeros before ConvTranspose make its result larger by as many strides, which
 * its pads cut away: they become fewer, where there are enough. */
#include "base/element.h"
#include "passes/rewrite.h"
#include <math.h>
#include <string.h>

enum { MOST = 16 };

/* pads[2 * rank] and the value of a Pad that writes a constant (attributes before opset 11, inputs later). */
static bool read_pad(struct rewrite *rewrite, const graph_node *node, uint32_t rank, int64_t *pads, double *out_value)
{
    const inlay_attr_info *value = graph_attr(node, "value");
    uint32_t count = 0, value_index = rw_input(rewrite, node, 2);
    const int64_t *list = rw_attr_ints(node, "pads", &count);

    if (!rw_attr_is(node, "mode", "constant") && !rw_attr_is(node, "mode", ""))
        return false;
    if (rw_input(rewrite, node, 3) != INLAY_NONE ||
        (list == NULL && !rw_ints(rewrite, rw_input(rewrite, node, 1), &list, &count)))
        return false;
    *out_value = value != NULL ? value->f : 0;
    if (value_index != INLAY_NONE &&
        (!rw_is_constant(rewrite, value_index) || rw_info(rewrite, value_index)->data_bytes == 0 ||
         !element_number(rw_info(rewrite, value_index)->dtype, rw_info(rewrite, value_index)->data, 0, out_value,
                         NULL)))
        return false;
    if (count != 2 * rank)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        pads[i] = list[i];
        if (pads[i] < 0 || (i % rank < 2 && pads[i] != 0)) /* cuts, or pads batch or channels */
            return false;
    }
    return true;
}

/* What the reader fills its own padding with; NAN = its padding is not like a tensor's. */
static double own_value(const graph_node *node)
{
    if (pass_is_op(node, "Conv") || pass_is_op(node, "ConvTranspose"))
        return 0;
    if (pass_is_op(node, "MaxPool"))
        return -INFINITY;
    return NAN;
}

/* The pads of a ConvTranspose of `axes` axes without those of a Pad before it; false: there are not enough. */
static bool without_pads(const graph_node *node, uint32_t axes, const int64_t *before, const int64_t *own,
                         int64_t *after)
{
    uint32_t strides_count, count;
    const int64_t *strides = rw_attr_ints(node, "strides", &strides_count);

    if (rw_attr_ints(node, "output_shape", &count) != NULL || own == NULL || (strides != NULL && strides_count != axes))
        return false;
    for (uint32_t i = 0; i < 2 * axes; i++) {
        int64_t cut;

        if (__builtin_mul_overflow(before[i < axes ? i + 2 : i + 4], strides != NULL ? strides[i % axes] : 1, &cut) ||
            cut < 0 || own[i] < cut)
            return false;
        after[i] = own[i] - cut;
    }
    return true;
}

/* The node with these pads, and without the Pad before it. */
static inlay_status take_pads(struct rewrite *rewrite, graph_node *node, const graph_node *pad, const int64_t *pads,
                              uint32_t count)
{
    graph_node *fresh = rw_copy(rewrite, node);

    if (fresh == NULL || graph_set_attr_ints(rewrite->graph, fresh, "pads", pads, count) != INLAY_OK ||
        (pass_is_op(node, "AveragePool") &&
         graph_set_attr_int(rewrite->graph, fresh, "count_include_pad", 1) != INLAY_OK))
        return rw_no_memory(rewrite);
    rw_set_input(rewrite, fresh, 0, rw_input(rewrite, pad, 0));
    return rw_replace(rewrite, node, fresh);
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    bool average = pass_is_op(node, "AveragePool");
    double value, wanted = average ? 0 : own_value(node);
    graph_node *pad = isnan(wanted) ? NULL : rw_maker_op(rewrite, rw_input(rewrite, node, 0), "Pad");
    int64_t before[2 * MOST], after[2 * MOST];
    const int64_t *own;
    uint32_t count, rank = pad == NULL ? 0 : rw_info(rewrite, rw_input(rewrite, node, 0))->rank;
    bool none = true;

    if (pad == NULL || rank == INLAY_RANK_UNKNOWN || rank > MOST || rank < 3 ||
        !rw_is_only_use(rewrite, rw_input(rewrite, node, 0)) || rw_attr_int(node, "ceil_mode", 0) != 0 ||
        node->info.output_count != 1 ||
        (!rw_attr_is(node, "auto_pad", "") && !rw_attr_is(node, "auto_pad", "NOTSET")) ||
        !read_pad(rewrite, pad, rank, before, &value) || value != wanted)
        return INLAY_OK;
    own = rw_attr_ints(node, "pads", &count);
    if (own != NULL && count != 2 * (rank - 2))
        return INLAY_OK;
    for (uint32_t d = 0; d < rank - 2; d++) {
        after[d] = before[d + 2] + (own != NULL ? own[d] : 0);
        after[d + rank - 2] = before[d + 2 + rank] + (own != NULL ? own[d + rank - 2] : 0);
        none &= own == NULL || (own[d] == 0 && own[d + rank - 2] == 0);
    }
    if (pass_is_op(node, "ConvTranspose"))
        return without_pads(node, rank - 2, before, own, after) ? take_pads(rewrite, node, pad, after, 2 * (rank - 2))
                                                                : INLAY_OK;
    /* A window may not lie in padding alone: providers refuse pads as large as the kernel. */
    if (!pass_is_op(node, "Conv")) {
        const int64_t *kernel = rw_attr_ints(node, "kernel_shape", &count);
        for (uint32_t d = 0; d < rank - 2; d++)
            if (kernel == NULL || count != rank - 2 || after[d] >= kernel[d] || after[d + rank - 2] >= kernel[d])
                return INLAY_OK;
    }
    if (average && !none && rw_attr_int(node, "count_include_pad", 0) == 0)
        return INLAY_OK; /* it counts Pad's zeros but not its own */
    return take_pads(rewrite, node, pad, after, 2 * (rank - 2));
}

inlay_status pass_pad_into(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
