/* The repairs of doctor_fix(). Readers are redirected first; nodes and constants without readers are removed
 * afterwards. */
#include "modelkit/doctor_parts.h"
#include "inlay/check.h"
#include "passes/pass.h"
#include "modelkit/edit.h"
#include <string.h>

/* Makes all readers of `value` read `instead`. */
static inlay_status redirect_readers(struct graph *graph, uint32_t value, uint32_t instead)
{
    uint32_t *replacement = arena_array(&graph->model->arena, (size_t)graph->value_count + 1, sizeof *replacement);

    if (replacement == NULL)
        return INLAY_OUT_OF_MEMORY;
    memset(replacement, 0xff, graph->value_count * sizeof *replacement);
    INLAY_CHECK(value < graph->value_count && instead < graph->value_count);
    replacement[value] = instead;
    pass_replace_uses(graph, replacement);
    return INLAY_OK;
}

/* Redirects the readers of each needless Cast to its input. */
static inlay_status fix_needless(doctor_finding *finding)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < finding->node_count && status == INLAY_OK; i++)
        status =
            redirect_readers(finding->graph, finding->nodes[i]->info.outputs[0], finding->nodes[i]->info.inputs[0]);
    return status;
}

/* Makes the last Cast of a chain read the start of the chain. If the start already has the target type, the readers of
 * the last Cast read the start instead. */
static inlay_status fix_cast(doctor_finding *finding)
{
    graph_node *node = finding->nodes[0];
    const inlay_value_info *from = &finding->graph->values[finding->instead].info,
                           *to = &finding->graph->values[finding->value_index].info;

    if (from->dtype == to->dtype && (to->flags & INLAY_VALUE_GRAPH_OUTPUT) == 0)
        return redirect_readers(finding->graph, finding->value_index, finding->instead);
    edit_input(node, 0, finding->instead);
    return INLAY_OK;
}

static inlay_status fix_constants(doctor_finding *finding)
{
    uint32_t kept = 0, next = 0;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(finding->node_count > 0);
    for (uint32_t i = 0; i < finding->graph->node_count; i++) {
        graph_node *node = finding->graph->nodes[i];

        if (next == finding->node_count || finding->nodes[next] != node) { /* both lists are in graph order */
            finding->graph->nodes[kept++] = node;
            continue;
        }
        next++;
        if (status == INLAY_OK) {
            const inlay_tensor_view *view = graph_attr(node, "value")->tensor;

            status = graph_set_constant(finding->graph, node->info.outputs[0], view->dtype, view->rank, view->dims,
                                        view->data, view->bytes);
        }
    }
    finding->graph->node_count = kept;
    return status;
}

static inlay_status fix_integers(doctor_finding *finding)
{
    const inlay_value_info *info = &finding->graph->values[finding->value_index].info;
    const uint64_t count = info->data_bytes / 8;
    int32_t *narrow = graph_blob_alloc(finding->graph->model, count * sizeof *narrow);
    int64_t dims[INLAY_MAX_RANK], one;

    if (narrow == NULL || info->rank > INLAY_MAX_RANK)
        return INLAY_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(&one, (const char *)info->data + i * 8, sizeof one);
        narrow[i] = (int32_t)one;
    }
    for (uint32_t i = 0; i < info->rank; i++)
        dims[i] = info->dims[i].value;
    finding->graph->values[finding->value_index].declared = false;
    return graph_set_constant(finding->graph, finding->value_index, INLAY_INT32, info->rank, dims, narrow,
                              count * sizeof *narrow);
}

/* Fixes every declared axis of the finding's symbol, or the axes of an output. */
static inlay_status fix_axis(doctor_finding *finding)
{
    struct graph *graph = finding->graph;

    for (uint32_t value_index = 0; value_index < graph->value_count; value_index++) {
        graph_value *value = &graph->values[value_index];
        inlay_dim *dims;

        if (!value->declared || value->declared_rank == INLAY_RANK_UNKNOWN || value->declared_rank == 0 ||
            value->declared_rank != value->info.rank || (finding->instead == 0 && value_index != finding->value_index))
            continue;
        dims = arena_copy(&graph->model->arena, value->declared_dims, value->declared_rank * sizeof *dims);
        if (dims == NULL)
            return INLAY_OUT_OF_MEMORY;
        for (uint32_t k = 0; k < value->declared_rank; k++) {
            const inlay_dim *known = &value->info.dims[k];

            if (finding->instead == 0 && dims[k].kind != INLAY_DIM_FIXED && known->kind == INLAY_DIM_FIXED)
                dims[k] = *known;
            if (finding->instead != 0 && ((known->kind == INLAY_DIM_SYMBOLIC && known->symbol == finding->instead) ||
                                          (dims[k].kind == INLAY_DIM_SYMBOLIC && dims[k].symbol == finding->instead)))
                dims[k] = (inlay_dim){ .value = finding->size, .kind = INLAY_DIM_FIXED };
        }
        value->declared_dims = dims;
    }
    return INLAY_OK;
}

static inlay_status fix_one(doctor_finding *finding)
{
    switch (finding->kind) {
    case DOCTOR_CAST_CHAIN:
        return fix_cast(finding);
    case DOCTOR_CAST_NEEDLESS:
        return fix_needless(finding);
    case DOCTOR_WEIGHTS_TWICE:
        return redirect_readers(finding->graph, finding->value_index, finding->instead);
    case DOCTOR_WEIGHTS_UNUSED:
        return INLAY_OK; /* removed by edit_drop_unused() */
    case DOCTOR_CONSTANT_HUGE:
        return fix_constants(finding);
    case DOCTOR_WEIGHTS_INPUTS:
        return graph_freeze_defaults(finding->graph);
    case DOCTOR_INT64:
        return fix_integers(finding);
    case DOCTOR_AXIS_CONSTANT:
        return fix_axis(finding);
    case DOCTOR_IMPORT_MISSING: {
        const graph_node *node = finding->nodes[0];

        return graph_model_import(finding->graph->model, node->info.domain.data, node->opset) ? INLAY_OK
                                                                                              : INLAY_OUT_OF_MEMORY;
    }
    default:
        return INLAY_UNSUPPORTED;
    }
}

/* Removes Casts without readers, repeatedly. */
static bool drop_casts(struct graph *graph)
{
    bool *drop = arena_array(&graph->model->arena, (size_t)graph->node_count + 1, sizeof *drop);
    bool more = drop != NULL;

    while (more) {
        struct readers readers;

        more = false;
        if (!readers_find(graph, &readers))
            return false;
        memset(drop, 0, graph->node_count * sizeof *drop);
        for (uint32_t i = 0; i < graph->node_count; i++)
            more |= drop[i] =
                doctor_is_op(graph->nodes[i], "Cast") && readers.count[graph->nodes[i]->info.outputs[0]] == 0;
        pass_drop_nodes(graph, drop);
    }
    for (uint32_t i = 0; i < graph->node_count && drop != NULL; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            if (!drop_casts(graph->nodes[i]->bodies[b].graph))
                return false;
    return drop != NULL;
}

inlay_status doctor_fix(struct doctor *doctor, inlay_diag *diag)
{
    bool casts = false;

    for (doctor_finding *finding = doctor->first; finding != NULL; finding = finding->next) {
        if (!finding->can_fix)
            continue;
        if (fix_one(finding) != INLAY_OK)
            return no_memory(diag, "to repair the model");
        finding->fixed = true;
        casts = casts || finding->kind == DOCTOR_CAST_CHAIN || finding->kind == DOCTOR_CAST_NEEDLESS;
    }
    if ((casts && !drop_casts(doctor->model->main)) || !edit_drop_unused(doctor->model->main))
        return no_memory(diag, "to repair the model");
    return graph_finish(doctor->model->main, diag);
}
