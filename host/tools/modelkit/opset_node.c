/* Accessors and edits of the node of a conversion. */
#include "modelkit/opset_parts.h"
#include "inlay/check.h"
#include "base/element.h"
#include <math.h>
#include <string.h>

const char *conversion_op(const struct conversion *conversion)
{
    return conversion->node->info.op_type.data;
}

const char *conversion_name(const struct conversion *conversion)
{
    return conversion->node->info.name.data;
}

const op_row *conversion_row(const struct conversion *conversion)
{
    return op_find("ai.onnx", conversion_op(conversion), conversion->opset, NULL);
}

void conversion_drop_attr(struct conversion *conversion, const char *name)
{
    graph_node *node = conversion->node;
    inlay_attr_info *list =
        arena_array(&conversion->editor->graph->model->arena, (size_t)node->own_attr_count + 1, sizeof *list);
    uint32_t kept = 0;

    if (list == NULL) {
        conversion->editor->failed = true;
        return;
    }
    for (uint32_t i = 0; i < node->own_attr_count; i++)
        if (strcmp(node->info.attrs[i].name.data, name) != 0)
            list[kept++] = node->info.attrs[i];
    node->info.attrs = list;
    node->info.attr_count = node->own_attr_count = kept;
}

uint32_t conversion_input(const struct conversion *conversion, uint32_t i)
{
    return i < conversion->node->info.input_count ? conversion->node->info.inputs[i] : INLAY_NONE;
}

void conversion_cut_inputs(struct conversion *conversion, uint32_t count)
{
    if (count < conversion->node->info.input_count)
        conversion->node->info.input_count = count;
}

uint32_t conversion_rank(const struct conversion *conversion)
{
    const uint32_t value = conversion_input(conversion, 0);

    return value == INLAY_NONE ? INLAY_RANK_UNKNOWN : conversion->editor->graph->values[value].info.rank;
}

uint32_t conversion_ints(struct conversion *conversion, const char *suffix, const int64_t *values, uint32_t count)
{
    const int64_t dims[] = { count };
    int64_t *data = edit_memory(conversion->editor, (uint64_t)count * sizeof *data);

    if (data != NULL && count > 0)
        memcpy(data, values, count * sizeof *data);
    return edit_constant(conversion->editor, conversion_name(conversion), suffix, INLAY_INT64, 1, dims, data,
                         (uint64_t)count * sizeof *data);
}

uint32_t conversion_number(struct conversion *conversion, const char *suffix, double value)
{
    const uint32_t in = conversion_input(conversion, 0);
    const inlay_dtype dtype = in == INLAY_NONE ? INLAY_UNDEFINED : conversion->editor->graph->values[in].info.dtype;
    const uint64_t bytes = inlay_dtype_bits(dtype) / 8;
    void *data = edit_memory(conversion->editor, sizeof value);

    if (data == NULL)
        return INLAY_NONE;
    if (!element_put_number(dtype, data, 0, value) &&
        (floor(value) != value || !element_put(dtype, data, 0, (int64_t)value))) {
        conversion->why = "the type of its input is not known, or cannot represent a number of the node";
        return INLAY_NONE;
    }
    return edit_constant(conversion->editor, conversion_name(conversion), suffix, dtype, 0, NULL, data, bytes);
}

uint32_t conversion_take_output(struct conversion *conversion, const char *suffix)
{
    const uint32_t value = edit_value(conversion->editor, conversion_name(conversion), suffix);

    INLAY_CHECK(conversion->node->info.output_count > 0);
    if (value != INLAY_NONE)
        *(uint32_t *)(uintptr_t)conversion->node->info.outputs = value;
    else
        conversion->editor->failed = true;
    return value;
}
