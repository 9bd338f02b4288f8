#include "passes/subgraph_builder.h"
#include "inlay/check.h"
#include "base/element.h"
#include <string.h>

static uint32_t fail(subgraph_builder *builder, inlay_status status)
{
    if (builder->status == INLAY_OK)
        builder->status = status == INLAY_OK ? rewrite_no_memory(builder->rewrite) : status;
    return INLAY_NONE;
}

static uint32_t emit(subgraph_builder *builder, const char *domain, const char *op_type, int64_t opset,
                     inlay_dtype dtype, uint32_t outputs, const uint32_t *inputs)
{
    uint32_t count = 0;
    graph_node *new_node;
    inlay_status status;

    if (builder->status != INLAY_OK)
        return INLAY_NONE;
    while (inputs[count] != EMIT_END)
        count++;
    while (count > 0 && inputs[count - 1] == INLAY_NONE) /* drop omitted trailing inputs */
        count--;
    new_node = rewrite_make_node(builder->rewrite, op_type, opset, builder->node, inputs, count, outputs);
    if (new_node == NULL)
        return fail(builder, INLAY_OK);
    if (domain != NULL)
        new_node->info.domain = (inlay_str){ domain, strlen(domain) };
    if (dtype == INLAY_UNDEFINED && count > 0 && inputs[0] != INLAY_NONE)
        dtype = rewrite_value_info(builder->rewrite, inputs[0])->dtype;
    status = rewrite_insert_node(builder->rewrite, new_node, dtype);
    if (status != INLAY_OK)
        return fail(builder, status);
    builder->last = new_node;
    return new_node->info.outputs[0];
}

uint32_t emit_node(subgraph_builder *builder, const char *op_type, int64_t opset, inlay_dtype dtype, uint32_t outputs,
                   const uint32_t *inputs)
{
    return emit(builder, NULL, op_type, opset, dtype, outputs, inputs);
}

uint32_t emit_inlay(subgraph_builder *builder, const char *op_type, inlay_dtype dtype, const uint32_t *inputs)
{
    return emit(builder, "ai.inlay", op_type, 1, dtype, 1, inputs);
}

uint32_t emitted_output(const subgraph_builder *builder, uint32_t i)
{
    INLAY_CHECK(builder->status != INLAY_OK || (builder->last != NULL && i < builder->last->info.output_count));
    return builder->status != INLAY_OK ? INLAY_NONE : builder->last->info.outputs[i];
}

void emit_attr_int(subgraph_builder *builder, const char *name, int64_t value)
{
    if (builder->status == INLAY_OK &&
        graph_set_attr_int(builder->rewrite->graph, builder->last, name, value) != INLAY_OK)
        (void)fail(builder, INLAY_OK);
}

void emit_attr_ints(subgraph_builder *builder, const char *name, const int64_t *values, uint32_t count)
{
    if (builder->status == INLAY_OK &&
        graph_set_attr_ints(builder->rewrite->graph, builder->last, name, values, count) != INLAY_OK)
        (void)fail(builder, INLAY_OK);
}

void emit_attr_float(subgraph_builder *builder, const char *name, double value)
{
    if (builder->status == INLAY_OK &&
        graph_set_attr_float(builder->rewrite->graph, builder->last, name, value) != INLAY_OK)
        (void)fail(builder, INLAY_OK);
}

void emit_attr_string(subgraph_builder *builder, const char *name, const char *value)
{
    if (builder->status == INLAY_OK &&
        graph_set_attr_string(builder->rewrite->graph, builder->last, name, value) != INLAY_OK)
        (void)fail(builder, INLAY_OK);
}

void emit_attr_copies(subgraph_builder *builder, const char *const *names)
{
    for (; *names != NULL && builder->status == INLAY_OK; names++) {
        const inlay_attr_info *attribute = NULL;

        for (uint32_t i = 0; i < builder->node->own_attr_count; i++) { /* attributes after these are defaults */
            const inlay_attr_info *own =
                INLAY_AT(inlay_attr_info, builder->node->info.attrs, builder->node->info.attr_stride, i);

            if (strcmp(own->name.data, *names) == 0)
                attribute = own;
        }
        if (attribute != NULL && graph_set_attr(builder->rewrite->graph, builder->last, attribute) != INLAY_OK)
            (void)fail(builder, INLAY_OK);
    }
}

inlay_dtype builder_dtype(const subgraph_builder *builder, uint32_t value)
{
    return value == INLAY_NONE ? INLAY_UNDEFINED : rewrite_value_info(builder->rewrite, value)->dtype;
}

uint32_t builder_rank(const subgraph_builder *builder, uint32_t value)
{
    return value == INLAY_NONE ? INLAY_RANK_UNKNOWN : rewrite_value_info(builder->rewrite, value)->rank;
}

uint32_t emit_number(subgraph_builder *builder, inlay_dtype dtype, double value)
{
    const float narrow = (float)value;
    const uint16_t half = element_half(narrow);
    uint32_t word, value_index;
    uint16_t brain;

    memcpy(&word, &narrow, sizeof word);
    brain = (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
    if (builder->status != INLAY_OK)
        return INLAY_NONE;
    value_index = dtype == INLAY_DOUBLE    ? rewrite_constant(builder->rewrite, dtype, 0, NULL, &value, sizeof value)
                  : dtype == INLAY_FLOAT16 ? rewrite_constant(builder->rewrite, dtype, 0, NULL, &half, sizeof half)
                  : dtype == INLAY_BFLOAT16
                      ? rewrite_constant(builder->rewrite, dtype, 0, NULL, &brain, sizeof brain)
                      : rewrite_constant(builder->rewrite, INLAY_FLOAT, 0, NULL, &narrow, sizeof narrow);
    return value_index == INLAY_NONE ? fail(builder, INLAY_OK) : value_index;
}

uint32_t emit_integers(subgraph_builder *builder, const int64_t *values, uint32_t count)
{
    uint32_t value = builder->status != INLAY_OK ? INLAY_NONE : rewrite_constant_ints(builder->rewrite, values, count);

    return value == INLAY_NONE ? fail(builder, INLAY_OK) : value;
}

uint32_t emit_cast(subgraph_builder *builder, uint32_t value, inlay_dtype to)
{
    uint32_t made;

    if (value == INLAY_NONE || builder_dtype(builder, value) == to)
        return value;
    made = emit_typed(builder, "Cast", 13, to, value);
    emit_attr_int(builder, "to", to);
    return made;
}

uint32_t emit_transpose(subgraph_builder *builder, uint32_t value, const int64_t *perm, uint32_t rank)
{
    uint32_t made = emit_op(builder, "Transpose", 13, value);

    emit_attr_ints(builder, "perm", perm, rank);
    return made;
}

uint32_t emit_einsum(subgraph_builder *builder, uint32_t value, const char *equation)
{
    uint32_t made = emit_op(builder, "Einsum", 12, value);

    emit_attr_string(builder, "equation", equation);
    return made;
}

uint32_t emit_ranked(subgraph_builder *builder, uint32_t value, uint32_t rank)
{
    int64_t kept[INLAY_MAX_RANK] = { 0 }; /* 0 in Reshape keeps the size */
    inlay_dim *dims;
    uint32_t made;

    INLAY_CHECK(rank <= INLAY_MAX_RANK);
    if (value == INLAY_NONE || builder_rank(builder, value) != INLAY_RANK_UNKNOWN)
        return value;
    made = emit_op(builder, "Reshape", 13, value, emit_integers(builder, kept, rank));
    dims = arena_array(&builder->rewrite->graph->model->arena, rank, sizeof *dims);
    if (dims == NULL)
        return fail(builder, INLAY_OK);
    if (builder->status != INLAY_OK)
        return INLAY_NONE;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = (inlay_dim){ .kind = INLAY_DIM_UNKNOWN };
    builder->rewrite->graph->values[made].info.rank = rank;
    builder->rewrite->graph->values[made].info.dims = dims;
    return made;
}

bool builder_refuse(subgraph_builder *builder, const char *why)
{
    INLAY_CHECK(why == NULL || builder->last == NULL);
    builder->node->not_lowered = why;
    return why != NULL;
}

void builder_set_output(subgraph_builder *builder, uint32_t output, uint32_t value)
{
    const graph_node *node = builder->node;

    INLAY_CHECK(output < BUILDER_OUTPUTS);
    if (builder->status != INLAY_OK || output >= node->info.output_count || node->info.outputs[output] == INLAY_NONE)
        return;
    /* A value that no new node produces, such as an input or a constant, is copied: outputs keep their names. */
    if (rewrite_producer(builder->rewrite, value) == NULL || rewrite_producer(builder->rewrite, value) == node)
        value = emit_op(builder, "Identity", 13, value);
    for (uint32_t i = 0; i < BUILDER_OUTPUTS; i++)
        if (builder->outputs[i] == value + 1)
            value = emit_op(builder, "Identity", 13, value);
    builder->outputs[output] = value + 1;
}

inlay_status builder_finish(subgraph_builder *builder)
{
    return builder->status != INLAY_OK
               ? builder->status
               : rewrite_replace_by_values(builder->rewrite, builder->node, builder->outputs, BUILDER_OUTPUTS);
}
