/* What a plugin that was built for an older minor version of the ABI knows: operators that passes create, and element
 * types. Nodes with others are not its candidates. */
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "partition/offers/offers.h"

/* INLAY_DTYPE_COUNT of each minor version. A new element type adds a row for the version that introduces it. */
static const inlay_dtype released_types[] = { 27, 27 };
_Static_assert(sizeof released_types / sizeof released_types[0] == INLAY_ABI_MINOR + 1, "a row for each minor version");

dtype_history partition_dtypes = { released_types, INLAY_ABI_MINOR + 1 };

/* Does a plugin of this minor know the type of the value? It need not know a type that the host does not know
 * either. */
static bool knows_type(inlay_dtype dtype, uint32_t minor)
{
    return minor >= partition_dtypes.count || dtype < partition_dtypes.types[minor];
}

bool partition_knows_types(const struct graph *graph, const graph_node *node, uint32_t minor)
{
    const inlay_node_info *info = &node->info;

    for (uint32_t i = 0; i < info->input_count + info->output_count; i++) {
        const uint32_t value = i < info->input_count ? info->inputs[i] : info->outputs[i - info->input_count];

        INLAY_CHECK(value == INLAY_NONE || value < graph->value_count);
        if (value != INLAY_NONE && !knows_type(graph->values[value].info.dtype, minor))
            return false;
    }
    for (uint32_t i = 0; i < info->attr_count; i++) {
        const inlay_attr_info *attr = INLAY_AT(inlay_attr_info, info->attrs, info->attr_stride, i);

        if (attr->kind == INLAY_ATTR_TENSOR && attr->tensor != NULL && !knows_type(attr->tensor->dtype, minor))
            return false;
    }
    return true;
}

bool partition_knows(const struct graph *graph, const graph_node *node, uint32_t minor)
{
    const uint32_t since = node->made_by != NULL ? graph_op_since_minor(node) : 0;

    return (since == UINT32_MAX || since <= minor) && partition_knows_types(graph, node, minor);
}
