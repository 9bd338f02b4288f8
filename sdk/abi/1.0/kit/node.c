/* Looking at a node, and its constants. */
#include "internal.h"
#include <stdio.h>

const char kit_nothing[KIT_ALIGNMENT] __attribute__((aligned(KIT_ALIGNMENT)));

static const inlay_value_info *value_at(const kit_node *node, const uint32_t *list, uint32_t count, uint32_t i)
{
    return i < count ? inlay_graph_value(node->graph, list[i]) : NULL;
}

const inlay_value_info *kit_input(const kit_node *node, uint32_t i)
{
    return value_at(node, node->info->inputs, node->info->input_count, i);
}

const inlay_value_info *kit_output(const kit_node *node, uint32_t i)
{
    return value_at(node, node->info->outputs, node->info->output_count, i);
}

inlay_dtype kit_input_dtype(const kit_node *node, uint32_t i)
{
    const inlay_value_info *v = kit_input(node, i);
    return v != NULL ? v->dtype : INLAY_UNDEFINED;
}

inlay_dtype kit_output_dtype(const kit_node *node, uint32_t i)
{
    const inlay_value_info *v = kit_output(node, i);
    return v != NULL ? v->dtype : INLAY_UNDEFINED;
}

bool kit_is_constant(const kit_node *node, uint32_t i)
{
    const inlay_value_info *v = kit_input(node, i);
    return v != NULL && (v->flags & INLAY_VALUE_CONSTANT) != 0;
}

const void *kit_constant(const kit_node *node, uint32_t i)
{
    if (!kit_is_constant(node, i) || node->compile_handle == NULL)
        return NULL;
    if (kit_input(node, i)->data_bytes == 0)
        return kit_nothing;
    return node->host->align_constant(node->host->ctx, node->compile_handle, node->info->inputs[i], KIT_ALIGNMENT);
}

const void *kit_constant_unaligned(const kit_node *node, uint32_t i)
{
    const inlay_value_info *v = kit_input(node, i);

    if (!kit_is_constant(node, i))
        return NULL;
    return v->data_bytes == 0 ? kit_nothing : v->data;
}

void kit_drop_constant(const kit_node *node, uint32_t i)
{
    if (node->constant_fate != NULL && kit_is_constant(node, i))
        node->constant_fate[i] = INLAY_CONST_PACKED;
}

bool kit_refuse(kit_refusal *why, uint32_t code, const char *accepted_if, const char *format, ...)
{
    va_list args;

    why->code = code;
    (void)snprintf(why->accepted_if, sizeof why->accepted_if, "%s", accepted_if != NULL ? accepted_if : "");
    va_start(args, format);
    (void)vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return false;
}
