/* Findings about axes that are declared open but have one size. */
#include "modelkit/doctor_parts.h"
#include <string.h>

/* Finds the input axis with that symbol; false: the symbol is computed, not that of an input. */
static bool find_axis(const struct graph *graph, uint32_t symbol, uint32_t *out_input, uint32_t *out_axis)
{
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const inlay_value_info *info = &graph->values[graph->inputs[i]].info;

        for (uint32_t axis = 0; info->rank != INLAY_RANK_UNKNOWN && axis < info->rank; axis++)
            if (info->dims[axis].kind == INLAY_DIM_SYMBOLIC && info->dims[axis].symbol == symbol) {
                *out_input = graph->inputs[i];
                *out_axis = axis;
                return true;
            }
    }
    return false;
}

/* Reports once for each symbol that it can only be `size`. */
static void report_constant_axis(struct doctor *doctor, struct graph *graph, graph_node *node, uint32_t symbol,
                                 int64_t size)
{
    uint32_t input, axis;
    doctor_finding *finding;

    for (finding = doctor->first; finding != NULL; finding = finding->next)
        if (finding->kind == DOCTOR_AXIS_CONSTANT && finding->instead == symbol)
            return;
    if (size <= 0 || !find_axis(graph, symbol, &input, &axis))
        return;
    finding = doctor_add(doctor, DOCTOR_AXIS_CONSTANT, graph, node, input,
                         "axis %u of input '%.100s' (%.60s) is declared open, but %s "
                         "'%.100s' takes only %lld",
                         axis, graph->values[input].info.name.data, doctor->model->symbols[symbol].name.data,
                         node->info.op_type.data, node->info.name.data, (long long)size);
    if (finding != NULL) {
        finding->instead = symbol;
        finding->size = size;
        finding->can_fix = true;
    }
}

/* Does a constant weight determine the size of an open axis of the operand? */
static void check_product(struct doctor *doctor, struct graph *graph, graph_node *node)
{
    const inlay_value_info *input =
        graph_input_at(node, 0) != INLAY_NONE ? &graph->values[node->info.inputs[0]].info : NULL;
    inlay_tensor_view weights;
    uint32_t axis;
    int64_t size;

    if (input == NULL || input->rank == INLAY_RANK_UNKNOWN || input->rank < 2 ||
        !doctor_constant(graph, graph_input_at(node, 1), &weights) || weights.rank < 2)
        return;
    if (doctor_is_op(node, "Conv")) {
        axis = 1;
        size = weights.dims[1] * graph_attr_int(node, "group", 1);
    } else if (doctor_is_op(node, "MatMul")) {
        axis = input->rank - 1;
        size = weights.dims[weights.rank - 2];
    } else {
        axis = graph_attr_int(node, "transA", 0) != 0 ? 0 : 1;
        size = weights.dims[graph_attr_int(node, "transB", 0) != 0 ? 1 : 0];
    }
    if (input->dims[axis].kind == INLAY_DIM_SYMBOLIC)
        report_constant_axis(doctor, graph, node, input->dims[axis].symbol, size);
}

/* Does a constant target shape determine the size of the only open axis? */
static void check_reshape(struct doctor *doctor, struct graph *graph, graph_node *node)
{
    const inlay_value_info *input_info =
        graph_input_at(node, 0) != INLAY_NONE ? &graph->values[node->info.inputs[0]].info : NULL;
    uint32_t open = INLAY_NONE, opens = 0, input, axis;
    int64_t fixed = 1, target = 1, first = 0;
    bool rest = false, kept = false;
    inlay_tensor_view shape;

    if (input_info == NULL || input_info->rank == INLAY_RANK_UNKNOWN || input_info->rank == 0 ||
        !doctor_constant(graph, graph_input_at(node, 1), &shape) || shape.dtype != INLAY_INT64 || shape.bytes < 8)
        return;
    for (uint32_t i = 0; i < input_info->rank; i++) {
        opens += input_info->dims[i].kind != INLAY_DIM_FIXED;
        if (input_info->dims[i].kind == INLAY_DIM_SYMBOLIC)
            open = i;
        if (input_info->dims[i].kind == INLAY_DIM_FIXED &&
            __builtin_mul_overflow(fixed, input_info->dims[i].value, &fixed))
            return;
    }
    for (uint64_t i = 0; i < shape.bytes / 8; i++) {
        int64_t one;

        memcpy(&one, (const char *)shape.data + i * 8, sizeof one);
        first = i == 0 ? one : first;
        rest = rest || one == -1;
        kept = kept || one == 0;
        if (one > 0 && __builtin_mul_overflow(target, one, &target))
            return;
    }
    if (opens != 1 || open == INLAY_NONE || kept || fixed <= 0 ||
        !find_axis(graph, input_info->dims[open].symbol, &input, &axis))
        return;
    if (!rest && target % fixed == 0)
        report_constant_axis(doctor, graph, node, input_info->dims[open].symbol, target / fixed);
    else if (rest && open == 0 && axis == 0 && first > 0 && fixed % first == 0)
        (void)doctor_add(doctor, DOCTOR_TRACED_CONSTANT, graph, node, graph_input_at(node, 1),
                         "Reshape sets the first axis to %lld for every size of axis 0 of input '%.100s' (%.60s): "
                         "tracing made it constant",
                         (long long)first, graph->values[input].info.name.data,
                         doctor->model->symbols[input_info->dims[open].symbol].name.data);
}

/* Reports axes of outputs that are declared open but always have one size. */
static void check_outputs(struct doctor *doctor, struct graph *graph)
{
    for (uint32_t i = 0; i < graph->output_count; i++) {
        const graph_value *value = &graph->values[graph->outputs[i]];
        uint32_t open = INLAY_NONE, count = 0;
        doctor_finding *finding;

        if (!value->declared || value->declared_rank != value->info.rank || value->info.rank == INLAY_RANK_UNKNOWN ||
            value->info.kind != INLAY_VALUE_TENSOR || (value->info.flags & INLAY_VALUE_GRAPH_INPUT) != 0)
            continue;
        for (uint32_t k = 0; k < value->info.rank; k++)
            if (value->declared_dims[k].kind != INLAY_DIM_FIXED && value->info.dims[k].kind == INLAY_DIM_FIXED)
                open = count++ == 0 ? k : open;
        if (count == 0)
            continue;
        finding = doctor_add(doctor, DOCTOR_AXIS_CONSTANT, graph, NULL, graph->outputs[i],
                             "%u of %u axes of output '%.200s' %s declared open, "
                             "but always %s one size, axis %u size %lld",
                             count, value->info.rank, value->info.name.data, count > 1 ? "are" : "is",
                             count > 1 ? "have" : "has", open, (long long)value->info.dims[open].value);
        if (finding != NULL) {
            finding->instead = 0;
            finding->can_fix = true;
        }
    }
}

void doctor_check_axes(struct doctor *doctor, struct graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];

        if (doctor_is_op(node, "Reshape"))
            check_reshape(doctor, graph, node);
        else if (doctor_is_op(node, "Conv") || doctor_is_op(node, "MatMul") || doctor_is_op(node, "Gemm"))
            check_product(doctor, graph, node);
    }
    check_outputs(doctor, graph);
}
