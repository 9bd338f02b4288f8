/* Decides whether a node can be interpreted, and translates snapshots into whole_graph. */
#include "whole_run.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {
#define OP(name) #name,
    WHOLE_OPS(OP)
#undef OP
};

static uint32_t op_of(const inlay_node_info *node)
{
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], node->op_type.data) == 0 && strcmp(node->domain.data, "ai.onnx") == 0)
            return i;
    return INLAY_NONE;
}

static const inlay_attr_info *attr_of(const inlay_node_info *node, const char *name)
{
    for (uint32_t i = 0; i < node->attr_count; i++) {
        const inlay_attr_info *attribute = INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i);

        if (strcmp(attribute->name.data, name) == 0)
            return attribute;
    }
    return NULL;
}

static bool all_zero(const inlay_node_info *node, const char *name)
{
    const inlay_attr_info *attribute = attr_of(node, name);

    for (uint32_t i = 0; attribute != NULL && i < attribute->count; i++)
        if (attribute->ints[i] != 0)
            return false;
    return true;
}

static bool is_simple(const inlay_value_info *value)
{
    return value == NULL || (value->kind == INLAY_VALUE_TENSOR &&
                             (value->dtype == INLAY_FLOAT || value->dtype == INLAY_INT64 ||
                              value->dtype == INLAY_INT32 || value->dtype == INLAY_BOOL) &&
                             (value->rank == INLAY_RANK_UNKNOWN || value->rank <= WHOLE_RANK));
}

bool whole_knows(const inlay_graph *graph, const inlay_node_info *node, bool strict, char *why)
{
    uint32_t op = op_of(node);

    if (op == INLAY_NONE || node->input_count > WHOLE_OPERANDS || node->output_count > WHOLE_OPERANDS ||
        (strict && op == WHOLE_Swish)) {
        (void)snprintf(why, 200, "%.60s is not supported", node->op_type.data);
        return false;
    }
    if (op == WHOLE_Scan &&
        (node->since_version < 9 || !all_zero(node, "scan_input_axes") || !all_zero(node, "scan_output_axes") ||
         !all_zero(node, "scan_input_directions") || !all_zero(node, "scan_output_directions"))) {
        (void)snprintf(why, 200, "Scan is supported forwards along axis 0 only");
        return false;
    }
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++)
        if (!is_simple(inlay_graph_value(graph, i < node->input_count ? node->inputs[i]
                                                                      : node->outputs[i - node->input_count]))) {
            (void)snprintf(why, 200, "a value of %.60s has an unsupported type", node->name.data);
            return false;
        }
    for (uint32_t b = 0; b < node->body_count; b++) {
        const inlay_graph *body = INLAY_AT(inlay_body, node->bodies, node->body_stride, b)->graph;

        for (uint32_t i = 0; i < body->node_count; i++)
            if (!whole_knows(body, inlay_graph_node(body, i), strict, why))
                return false;
    }
    return true;
}

void *whole_alloc(size_t bytes)
{
    void *memory = calloc(bytes + 1, 1);

    if (memory == NULL)
        abort();
    return memory;
}

static uint32_t *copy_list(const uint32_t *list, uint32_t count)
{
    uint32_t *copy = whole_alloc(count * sizeof *copy);

    if (count > 0)
        memcpy(copy, list, count * sizeof *copy);
    return copy;
}

static void copy_constant(const inlay_value_info *value, whole_value *out)
{
    int64_t dims[WHOLE_RANK];

    for (uint32_t d = 0; d < value->rank; d++)
        dims[d] = value->dims[d].value;
    *out = whole_make(value->dtype, value->rank, dims);
    whole_load(out, value->data);
}

static void copy_body(whole_node *to, uint32_t k, const inlay_body *body)
{
    const inlay_graph *graph = body->graph;
    uint32_t *all = whole_alloc(graph->node_count * sizeof *all);

    for (uint32_t i = 0; i < graph->node_count; i++)
        all[i] = i;
    to->bodies[k] = whole_translate(graph, all, graph->node_count, graph->inputs, graph->input_count, graph->outputs,
                                    graph->output_count);
    to->capture_outer[k] = copy_list(body->capture_outer, body->capture_count);
    to->capture_inner[k] = copy_list(body->capture_inner, body->capture_count);
    to->capture_count[k] = body->capture_count;
    free(all);
}

whole_graph *whole_translate(const inlay_graph *graph, const uint32_t *nodes, uint32_t node_count,
                             const uint32_t *inputs, uint32_t input_count, const uint32_t *outputs,
                             uint32_t output_count)
{
    whole_graph *copy = whole_alloc(sizeof *copy);

    copy->nodes = whole_alloc(node_count * sizeof *copy->nodes);
    copy->constants = whole_alloc(graph->value_count * sizeof *copy->constants);
    copy->inputs = copy_list(inputs, input_count);
    copy->outputs = copy_list(outputs, output_count);
    copy->node_count = node_count;
    copy->value_count = graph->value_count;
    copy->input_count = input_count;
    copy->output_count = output_count;
    for (uint32_t v = 0; v < graph->value_count; v++)
        if ((inlay_graph_value(graph, v)->flags & INLAY_VALUE_CONSTANT) != 0 && is_simple(inlay_graph_value(graph, v)))
            copy_constant(inlay_graph_value(graph, v), &copy->constants[v]);
    for (uint32_t i = 0; i < node_count; i++) {
        const inlay_node_info *node = inlay_graph_node(graph, nodes[i]);
        whole_node *to = &copy->nodes[i];
        const inlay_attr_info *attribute;

        to->op = op_of(node);
        to->input_count = node->input_count;
        to->output_count = node->output_count;
        memcpy(to->inputs, node->inputs, node->input_count * sizeof *to->inputs);
        memcpy(to->outputs, node->outputs, node->output_count * sizeof *to->outputs);
        if (to->op == WHOLE_Cast && (attribute = attr_of(node, "to")) != NULL)
            to->to = (inlay_dtype)attribute->i;
        if (to->op == WHOLE_Scan && (attribute = attr_of(node, "num_scan_inputs")) != NULL)
            to->scan_inputs = (uint32_t)attribute->i;
        for (uint32_t b = 0; b < node->body_count; b++) {
            const inlay_body *body = INLAY_AT(inlay_body, node->bodies, node->body_stride, b);

            copy_body(to, strcmp(body->attr.data, "else_branch") == 0, body);
        }
    }
    return copy;
}

void whole_free(whole_graph *graph)
{
    if (graph == NULL)
        return;
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (int body = 0; body < 2; body++) {
            whole_free(graph->nodes[i].bodies[body]);
            free(graph->nodes[i].capture_outer[body]);
            free(graph->nodes[i].capture_inner[body]);
        }
    for (uint32_t v = 0; v < graph->value_count; v++)
        free(graph->constants[v].elements);
    free(graph->nodes);
    free(graph->constants);
    free(graph->inputs);
    free(graph->outputs);
    free(graph);
}
