/* Folds Pad with zeros into the pads of a following Conv, or AveragePool that counts its padding, and Pad with minus
 * infinity into MaxPool. Zeros before ConvTranspose enlarge its result by a multiple of the strides, which its own pads
 * remove: they are reduced by that amount if they are large enough. */
#include "base/element.h"
#include "passes/rewrite.h"
#include <math.h>

enum { MAX_RANK = 16 };

/* Reads pads[2 * rank] and the value of a Pad in constant mode (attributes before opset 11, inputs later). */
static bool read_pad(struct rewrite *rewrite, const graph_node *node, uint32_t rank, int64_t *pads, double *out_value)
{
    const inlay_attr_info *value = graph_attr(node, "value");
    uint32_t count = 0, pad_value = rewrite_input(rewrite, node, 2);
    const int64_t *list = rewrite_attr_ints(node, "pads", &count);

    if (!rewrite_attr_is(node, "mode", "constant") && !rewrite_attr_is(node, "mode", ""))
        return false;
    if (rewrite_input(rewrite, node, 3) != INLAY_NONE ||
        (list == NULL && !rewrite_integers(rewrite, rewrite_input(rewrite, node, 1), &list, &count)))
        return false;
    *out_value = value != NULL ? value->f : 0;
    if (pad_value != INLAY_NONE &&
        (!rewrite_is_constant(rewrite, pad_value) || rewrite_value_info(rewrite, pad_value)->data_bytes == 0 ||
         !element_number(rewrite_value_info(rewrite, pad_value)->dtype, rewrite_value_info(rewrite, pad_value)->data, 0,
                         out_value, NULL)))
        return false;
    if (count != 2 * rank)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        pads[i] = list[i];
        if (pads[i] < 0 || (i % rank < 2 && pads[i] != 0)) /* negative, or pads batch or channels */
            return false;
    }
    return true;
}

/* The element that the node's own padding is equivalent to; NAN: no padded tensor gives the same result. */
static double implicit_pad_value(const graph_node *node)
{
    if (pass_is_op(node, "Conv") || pass_is_op(node, "ConvTranspose"))
        return 0;
    if (pass_is_op(node, "MaxPool"))
        return -INFINITY;
    return NAN;
}

/* Subtracts a Pad before a ConvTranspose of `axes` spatial axes from its own pads. Returns false if these are too
 * small. */
static bool reduce_pads(const graph_node *node, uint32_t axes, const int64_t *before, const int64_t *own,
                        int64_t *after)
{
    uint32_t strides_count, count;
    const int64_t *strides = rewrite_attr_ints(node, "strides", &strides_count);

    if (rewrite_attr_ints(node, "output_shape", &count) != NULL || own == NULL ||
        (strides != NULL && strides_count != axes))
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

/* Replaces the node by a copy with these pads that reads the input of the Pad. */
static inlay_status replace_with_pads(struct rewrite *rewrite, graph_node *node, const graph_node *pad,
                                      const int64_t *pads, uint32_t count)
{
    graph_node *new_node = rewrite_copy_node(rewrite, node);

    if (new_node == NULL || graph_set_attr_ints(rewrite->graph, new_node, "pads", pads, count) != INLAY_OK ||
        (pass_is_op(node, "AveragePool") &&
         graph_set_attr_int(rewrite->graph, new_node, "count_include_pad", 1) != INLAY_OK))
        return rewrite_no_memory(rewrite);
    rewrite_set_input(rewrite, new_node, 0, rewrite_input(rewrite, pad, 0));
    return rewrite_replace_node(rewrite, node, new_node);
}

inlay_status match_pad_into(struct rewrite *rewrite, graph_node *node)
{
    bool average = pass_is_op(node, "AveragePool");
    double value, wanted = average ? 0 : implicit_pad_value(node);
    graph_node *pad = isnan(wanted) ? NULL : rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Pad");
    int64_t before[2 * MAX_RANK], after[2 * MAX_RANK];
    const int64_t *own;
    uint32_t count, rank = pad == NULL ? 0 : rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->rank;
    bool none = true;

    if (pad == NULL || rank == INLAY_RANK_UNKNOWN || rank > MAX_RANK || rank < 3 ||
        !rewrite_has_one_use(rewrite, rewrite_input(rewrite, node, 0)) || graph_attr_int(node, "ceil_mode", 0) != 0 ||
        node->info.output_count != 1 ||
        (!rewrite_attr_is(node, "auto_pad", "") && !rewrite_attr_is(node, "auto_pad", "NOTSET")) ||
        !read_pad(rewrite, pad, rank, before, &value) || value != wanted)
        return INLAY_OK;
    own = rewrite_attr_ints(node, "pads", &count);
    if (own != NULL && count != 2 * (rank - 2))
        return INLAY_OK;
    for (uint32_t d = 0; d < rank - 2; d++) {
        after[d] = before[d + 2] + (own != NULL ? own[d] : 0);
        after[d + rank - 2] = before[d + 2 + rank] + (own != NULL ? own[d + rank - 2] : 0);
        none &= own == NULL || (own[d] == 0 && own[d + rank - 2] == 0);
    }
    if (pass_is_op(node, "ConvTranspose"))
        return reduce_pads(node, rank - 2, before, own, after)
                   ? replace_with_pads(rewrite, node, pad, after, 2 * (rank - 2))
                   : INLAY_OK;
    /* A window must not lie entirely in padding: providers reject pads as large as the kernel. */
    if (!pass_is_op(node, "Conv")) {
        const int64_t *kernel = rewrite_attr_ints(node, "kernel_shape", &count);
        for (uint32_t d = 0; d < rank - 2; d++)
            if (kernel == NULL || count != rank - 2 || after[d] >= kernel[d] || after[d + rank - 2] >= kernel[d])
                return INLAY_OK;
    }
    if (average && !none && graph_attr_int(node, "count_include_pad", 0) == 0)
        return INLAY_OK; /* the mean counts the zeros of a Pad, but not those of the node's own padding */
    return replace_with_pads(rewrite, node, pad, after, 2 * (rank - 2));
}
