#include "graph/graph.h"

static void check_graph(const struct graph *graph);

static void check_body(const struct graph *graph, const graph_body *body)
{
    INLAY_CHECK(body->graph->model == graph->model && body->graph->parent == graph);
    INLAY_CHECK(body->graph->captured_count == body->capture_count);
    for (uint32_t i = 0; i < body->capture_count; i++)
        INLAY_CHECK(body->capture_outer[i] < graph->value_count && body->capture_inner[i] < body->graph->value_count);
    check_graph(body->graph);
}

/* A node reads values of earlier nodes only, and is the producer of its outputs. */
static void check_node(const struct graph *graph, const graph_node *node, uint32_t index)
{
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        const uint32_t value = node->info.inputs[i];

        INLAY_CHECK(value == INLAY_NONE || value < graph->value_count);
        INLAY_CHECK(value == INLAY_NONE || graph->values[value].info.producer == INLAY_NONE ||
                    graph->values[value].info.producer < index);
    }
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        const uint32_t value = node->info.outputs[i];

        INLAY_CHECK(value == INLAY_NONE || value < graph->value_count);
        INLAY_CHECK(value == INLAY_NONE || graph->values[value].info.producer == index);
    }
    for (uint32_t i = 0; i < node->capture_count; i++)
        INLAY_CHECK(node->captures[i] < graph->value_count);
    for (uint32_t i = 0; i < node->body_count; i++)
        check_body(graph, &node->bodies[i]);
}

static void check_graph(const struct graph *graph)
{
    INLAY_CHECK(graph->value_count <= graph->value_capacity && graph->node_count <= graph->node_capacity);
    for (uint32_t i = 0; i < graph->input_count; i++)
        INLAY_CHECK(graph->inputs[i] < graph->value_count);
    for (uint32_t i = 0; i < graph->output_count; i++)
        INLAY_CHECK(graph->outputs[i] < graph->value_count);
    for (uint32_t i = 0; i < graph->captured_count; i++)
        INLAY_CHECK(graph->captured[i] < graph->value_count);
    for (uint32_t i = 0; i < graph->node_count; i++)
        check_node(graph, graph->nodes[i], i);
}

bool graph_model_check(const graph_model *model)
{
    const graph_findings *findings = &model->findings;

    INLAY_CHECK(model->main != NULL && model->main->model == model && model->main->parent == NULL);
    INLAY_CHECK((findings->first == NULL) == (findings->count == 0) &&
                (findings->last == NULL) == (findings->count == 0));
    INLAY_CHECK(findings->last == NULL || findings->last->next == NULL);
    INLAY_CHECK(model->rewrite.pass != NULL || model->rewrite.number == 0);
    INLAY_CHECK(model->memory.files == NULL || model->memory.blobs != NULL);
    INLAY_CHECK(model->source.made_externals == 0 || model->source.externals != NULL);
    INLAY_CHECK(model->source.base != model);
    check_graph(model->main);
    return true;
}
