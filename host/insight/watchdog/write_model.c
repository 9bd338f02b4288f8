/* watchdog/write_model.c - a model of the nodes of a finding. */
#include "base/memory.h"
#include "model/model.h"
#include "watchdog/report.h"

struct builder {
    const struct piece *piece;
    const piece_values *values;
    graph_model *model;
    uint32_t *index; /* [value_count] 1 + the value in the new graph; 0: not there yet */
};

/* Sets type and shape of a new value. */
static bool describe(struct builder *builder, uint32_t to, const inlay_value_info *from, inlay_tensor_view *out)
{
    inlay_value_info *info = &builder->model->main->values[to].info;
    int64_t *dims = arena_array(&builder->model->arena, (size_t)from->rank + 1, sizeof *dims);
    inlay_dim *fixed = arena_copy(&builder->model->arena, from->dims, from->rank * sizeof *fixed);

    if (dims == NULL || fixed == NULL)
        return false;
    for (uint32_t d = 0; d < from->rank; d++)
        dims[d] = from->dims[d].value;
    *out = (inlay_tensor_view){
        .data = from->data, .bytes = from->data_bytes, .dims = dims, .rank = from->rank, .dtype = from->dtype
    };
    info->kind = INLAY_VALUE_TENSOR;
    info->dtype = from->dtype;
    info->rank = from->rank;
    info->dims = fixed;
    return true;
}

/* The value in the new graph; one that no earlier node computes is a constant, or an input with a default.
 * INLAY_NONE: out of memory. */
static uint32_t value_of(struct builder *builder, uint32_t value, bool computed)
{
    const inlay_value_info *from = &builder->values->infos[value];
    struct graph *graph = builder->model->main;
    inlay_tensor_view view, *kept;
    uint32_t *inputs;
    uint32_t to;

    if (builder->index[value] != 0)
        return builder->index[value] - 1;
    to = graph_add_value(graph, from->name.data, (size_t)from->name.bytes);
    if (to == INLAY_NONE || !describe(builder, to, from, &view))
        return INLAY_NONE;
    builder->index[value] = to + 1;
    if (computed)
        return to;
    if ((from->flags & INLAY_VALUE_CONSTANT) != 0)
        return graph_set_constant(graph, to, view.dtype, view.rank, view.dims, view.data, view.bytes) == INLAY_OK
                   ? to
                   : INLAY_NONE;
    kept = arena_copy(&builder->model->arena, &view, sizeof view);
    inputs = arena_grown(&builder->model->arena, graph->inputs, graph->input_count, (size_t)graph->input_count + 1,
                         sizeof *inputs);
    if (kept == NULL || inputs == NULL)
        return INLAY_NONE;
    graph->values[to].has_default = true;
    graph->values[to].default_value = kept;
    inputs[graph->input_count++] = to;
    graph->inputs = inputs;
    return to;
}

/* The version of the node's domain: one by which its operator is the one that was run. */
static bool import(struct builder *builder, const graph_node *node)
{
    const int64_t since = node->info.since_version;
    int64_t version = graph_model_opset(builder->piece->graph->model, node->info.domain.data);

    version = node->opset > 0 ? node->opset : version;
    if (version < since)
        version = since;
    return graph_model_import(builder->model, node->info.domain.data, version > 0 ? version : 1);
}

static bool add_node(struct builder *builder, const graph_node *node)
{
    struct graph *graph = builder->model->main;
    const inlay_node_info *info = &node->info;
    graph_node *copy = graph_add_node(graph, info->op_type.data, info->domain.data, info->name.data, info->input_count,
                                      info->output_count);

    if (copy == NULL || !import(builder, node))
        return false;
    for (uint32_t i = 0; i < info->input_count + info->output_count; i++) {
        const bool in = i < info->input_count;
        const uint32_t value = in ? info->inputs[i] : info->outputs[i - info->input_count];
        const uint32_t to = value != INLAY_NONE ? value_of(builder, value, !in) : INLAY_NONE;

        if (value != INLAY_NONE && to == INLAY_NONE)
            return false;
        if (in)
            ((uint32_t *)(uintptr_t)copy->info.inputs)[i] = to;
        else
            ((uint32_t *)(uintptr_t)copy->info.outputs)[i - info->input_count] = to;
    }
    for (uint32_t i = 0; i < node->own_attr_count; i++)
        if (graph_set_attr(graph, copy, &info->attrs[i]) != INLAY_OK)
            return false;
    return true;
}

static bool fill(struct builder *builder, const char *text)
{
    graph_model *model = builder->model;
    struct graph *graph = model->main;

    for (uint32_t k = 0; k < builder->piece->node_count; k++)
        if (!add_node(builder, builder->piece->graph->nodes[builder->piece->nodes[k]]))
            return false;
    graph->outputs = arena_array(&model->arena, (size_t)builder->piece->output_count + 1, sizeof *graph->outputs);
    model->metadata = arena_array(&model->arena, 1, sizeof *model->metadata);
    if (graph->outputs == NULL || model->metadata == NULL)
        return false;
    for (uint32_t i = 0; i < builder->piece->output_count; i++)
        graph->outputs[graph->output_count++] = builder->index[builder->piece->outputs[i]] - 1;
    model->metadata[model->metadata_count++] = (graph_property){ "inlay.watchdog", text };
    return true;
}

inlay_status report_write_model(const struct piece *piece, const piece_values *values, const char *text,
                                const char *path, inlay_diag *diag)
{
    struct builder builder = { piece, values, graph_model_create(), NULL };
    const model_save_options options = { .with_inferred_shapes = true };
    inlay_status status = INLAY_OK;

    if (builder.model != NULL)
        builder.index = arena_array(&builder.model->arena, (size_t)values->count + 1, sizeof *builder.index);
    if (builder.index == NULL || !fill(&builder, text)) {
        status = no_memory(diag, "for the model of a finding");
        goto done;
    }
    builder.model->ir_version = piece->graph->model->ir_version > 8 ? piece->graph->model->ir_version : 8;
    INLAY_TRY(graph_finish(builder.model->main, diag));
    INLAY_TRY(model_save(builder.model, path, &options, diag));
done:
    graph_model_destroy(builder.model);
    return status;
}
