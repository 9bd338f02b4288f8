/* session/insert.c - nodes that options add to a loaded model, before it is optimised. */
#include "session/session.h"
#include <string.h>

bool session_insert_node(struct graph *graph, const char *name, const char *op_type, const uint32_t *inputs,
                         uint32_t count, uint32_t *value)
{
    graph_node *node =
        graph_add_node(graph, op_type, "ai.onnx", arena_format(&graph->model->arena, "%s/%s", name, op_type), count, 1);
    const uint32_t output = node != NULL ? graph_add_value(graph, NULL, 0) : INLAY_NONE;

    if (output == INLAY_NONE)
        return false;
    graph->values[output].info.kind = INLAY_VALUE_TENSOR;
    memcpy((uint32_t *)(uintptr_t)node->info.inputs, inputs, count * sizeof *inputs); /* *value may be one of them */
    ((uint32_t *)(uintptr_t)node->info.outputs)[0] = *value = output;
    return true;
}

bool session_insert_number(struct graph *graph, int64_t number, uint32_t *value)
{
    static const int64_t one = 1;
    const int64_t *data = arena_copy(&graph->model->arena, &number, sizeof number);

    *value = graph_add_value(graph, NULL, 0);
    return data != NULL && *value != INLAY_NONE &&
           graph_set_constant(graph, *value, INLAY_INT64, 1, &one, data, sizeof number) == INLAY_OK;
}
