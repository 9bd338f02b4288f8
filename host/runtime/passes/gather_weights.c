/* Dequantizes rows of a table of low-bit weights when they are looked up, instead of the whole table:
 *
 *     Gather(DequantizeLinear(w, scale, zero), i)    ->  DequantizeLinear(Gather(w, i), ..)
 *     Gather(Cast(w), i)                             ->  Cast(Gather(w, i))
 *
 * for constants w and axis 0. Scales of columns are unchanged; scales of rows and of blocks are looked up, too. */
#include "passes/rewrite.h"

enum { SMALL_BYTES = 4096 }; /* tables up to this size are folded to floats instead */

/* A constant [n] reshaped to [n, 1]. INLAY_NONE: out of memory. */
static uint32_t as_column(struct rewrite *rewrite, uint32_t value)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);

    return rewrite_constant(rewrite, info->dtype, 2, (const int64_t[]){ info->dims[0].value, 1 }, info->data,
                            info->data_bytes);
}

/* Inserts Gather(value, indices of `gather`). INLAY_NONE: out of memory. */
static uint32_t insert_gather(struct rewrite *rewrite, const graph_node *gather, uint32_t value)
{
    graph_node *node = rewrite_make_node(rewrite, "Gather", gather->opset, NULL,
                                         (const uint32_t[]){ value, rewrite_input(rewrite, gather, 1) }, 2, 1);

    return node == NULL || graph_set_attr_int(rewrite->graph, node, "axis", 0) != INLAY_OK ||
                   rewrite_insert_node(rewrite, node, rewrite_value_info(rewrite, value)->dtype) != INLAY_OK
               ? INLAY_NONE
               : node->info.outputs[0];
}

/* Returns true for a constant matrix of a type that Gather supports, large enough to be worth it. */
static bool is_table(const struct rewrite *rewrite, uint32_t value)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);

    return value != INLAY_NONE && rewrite_is_constant(rewrite, value) && info->rank == 2 &&
           info->data_bytes > SMALL_BYTES &&
           (info->dtype == INLAY_INT8 || info->dtype == INLAY_UINT8 || info->dtype == INLAY_INT16 ||
            info->dtype == INLAY_UINT16 || info->dtype == INLAY_FLOAT16 || info->dtype == INLAY_BFLOAT16);
}

static inlay_status match_cast(struct rewrite *rewrite, graph_node *node, const graph_node *cast)
{
    const uint32_t table = rewrite_input(rewrite, cast, 0);
    graph_node *new_node;
    uint32_t rows;

    if (!is_table(rewrite, table) || rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->dtype != INLAY_FLOAT)
        return INLAY_OK;
    rows = insert_gather(rewrite, node, table);
    new_node = rows == INLAY_NONE ? NULL : rewrite_make_node(rewrite, "Cast", cast->opset, node, &rows, 1, 1);
    return new_node == NULL || graph_set_attr_int(rewrite->graph, new_node, "to", INLAY_FLOAT) != INLAY_OK
               ? rewrite_no_memory(rewrite)
               : rewrite_replace_node(rewrite, node, new_node);
}

static inlay_status match_dequantize(struct rewrite *rewrite, graph_node *node, const graph_node *dequantize)
{
    uint32_t inputs[3] = { rewrite_input(rewrite, dequantize, 0), rewrite_input(rewrite, dequantize, 1),
                           rewrite_input(rewrite, dequantize, 2) };
    const inlay_value_info *scale = rewrite_value_info(rewrite, inputs[1]);
    const uint32_t count = inputs[2] == INLAY_NONE ? 2 : 3,
                   index_rank = rewrite_value_info(rewrite, rewrite_input(rewrite, node, 1))->rank;
    int64_t axis = graph_attr_int(dequantize, "axis", 1), block = graph_attr_int(dequantize, "block_size", 0);
    const bool one = rewrite_is_constant(rewrite, inputs[1]) && block == 0 &&
                     (scale->rank == 0 || (scale->rank == 1 && scale->dims[0].value == 1));
    bool by_rows;
    graph_node *new_node;

    if (!is_table(rewrite, inputs[0]) || !rewrite_is_constant(rewrite, inputs[1]) ||
        (count == 3 && !rewrite_is_constant(rewrite, inputs[2])) || index_rank == INLAY_RANK_UNKNOWN || scale->rank > 2)
        return INLAY_OK;
    axis += axis < 0 ? 2 : 0;
    by_rows = !one && (block > 0 || axis == 0);
    if ((by_rows && !pass_allows(rewrite->ctx, 21)) || (block > 0 && axis == 0) ||
        (count == 3 && rewrite_value_info(rewrite, inputs[2])->rank != scale->rank))
        return INLAY_OK;
    for (uint32_t i = 1; by_rows && i < count; i++)
        if ((block == 0 && (inputs[i] = as_column(rewrite, inputs[i])) == INLAY_NONE) ||
            (inputs[i] = insert_gather(rewrite, node, inputs[i])) == INLAY_NONE)
            return rewrite_no_memory(rewrite);
    if (by_rows && block == 0) {
        axis = 1;
        block = rewrite_dim(rewrite_value_info(rewrite, inputs[0]), 1);
    }
    inputs[0] = insert_gather(rewrite, node, inputs[0]);
    new_node = inputs[0] == INLAY_NONE ? NULL
                                       : rewrite_make_node(rewrite, "DequantizeLinear",
                                                           by_rows && dequantize->opset < 21 ? 21 : dequantize->opset,
                                                           node, inputs, count, 1);
    if (new_node == NULL ||
        (!one && graph_set_attr_int(rewrite->graph, new_node, "axis", axis + index_rank - 1) != INLAY_OK) ||
        (block > 0 && graph_set_attr_int(rewrite->graph, new_node, "block_size", block) != INLAY_OK))
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, new_node);
}

inlay_status match_gather_weights(struct rewrite *rewrite, graph_node *node)
{
    const graph_node *producer = pass_is_op(node, "Gather") && graph_attr_int(node, "axis", 0) == 0
                                     ? rewrite_producer(rewrite, rewrite_input(rewrite, node, 0))
                                     : NULL;

    if (producer == NULL)
        return INLAY_OK;
    if (pass_is_op(producer, "DequantizeLinear"))
        return match_dequantize(rewrite, node, producer);
    return pass_is_op(producer, "Cast") ? match_cast(rewrite, node, producer) : INLAY_OK;
}
