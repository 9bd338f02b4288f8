/* Snapshots into graphs of our own, and what of them can be interpreted. */
#include "whole_run.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {
#define OP(name) #name,
    WHOLE_OPS(OP)
#undef OP
};

static uint32_t op_of(const inlay_node_info *n)
{
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], n->op_type.data) == 0 && strcmp(n->domain.data, "ai.onnx") == 0)
            return i;
    return INLAY_NONE;
}

static const inlay_attr_info *attr_of(const inlay_node_info *n, const char *name)
{
    for (uint32_t i = 0; i < n->attr_count; i++) {
        const inlay_attr_info *a = INLAY_AT(inlay_attr_info, n->attrs, n->attr_stride, i);

        if (strcmp(a->name.data, name) == 0)
            return a;
    }
    return NULL;
}

static bool all_zero(const inlay_node_info *n, const char *name)
{
    const inlay_attr_info *a = attr_of(n, name);

    for (uint32_t i = 0; a != NULL && i < a->count; i++)
        if (a->ints[i] != 0)
            return false;
    return true;
}

static bool is_simple(const inlay_value_info *v)
{
    return v == NULL ||
           (v->kind == INLAY_VALUE_TENSOR &&
            (v->dtype == INLAY_FLOAT || v->dtype == INLAY_INT64 || v->dtype == INLAY_INT32 || v->dtype == INLAY_BOOL) &&
            (v->rank == INLAY_RANK_UNKNOWN || v->rank <= WHOLE_RANK));
}

bool whole_knows(const inlay_graph *graph, const inlay_node_info *n, bool strict, char *why)
{
    uint32_t op = op_of(n);

    if (op == INLAY_NONE || n->input_count > WHOLE_OPERANDS || n->output_count > WHOLE_OPERANDS ||
        (strict && op == WHOLE_Swish)) {
        (void)snprintf(why, 200, "%.60s is not known here", n->op_type.data);
        return false;
    }
    if (op == WHOLE_Scan &&
        (n->since_version < 9 || !all_zero(n, "scan_input_axes") || !all_zero(n, "scan_output_axes") ||
         !all_zero(n, "scan_input_directions") || !all_zero(n, "scan_output_directions"))) {
        (void)snprintf(why, 200, "Scan runs forwards along axis 0 here");
        return false;
    }
    for (uint32_t i = 0; i < n->input_count + n->output_count; i++)
        if (!is_simple(inlay_graph_value(graph, i < n->input_count ? n->inputs[i] : n->outputs[i - n->input_count]))) {
            (void)snprintf(why, 200, "a value of %.60s is of another type", n->name.data);
            return false;
        }
    for (uint32_t b = 0; b < n->body_count; b++) {
        const inlay_graph *body = INLAY_AT(inlay_body, n->bodies, n->body_stride, b)->graph;

        for (uint32_t i = 0; i < body->node_count; i++)
            if (!whole_knows(body, inlay_graph_node(body, i), strict, why))
                return false;
    }
    return true;
}

/* ------------------------------------------------------------------ copies */

void *whole_alloc(size_t bytes)
{
    void *p = calloc(bytes + 1, 1);

    if (p == NULL)
        abort();
    return p;
}

static uint32_t *copy_list(const uint32_t *list, uint32_t count)
{
    uint32_t *copy = whole_alloc(count * sizeof *copy);

    if (count > 0)
        memcpy(copy, list, count * sizeof *copy);
    return copy;
}

static void take_constant(const inlay_value_info *v, whole_value *out)
{
    int64_t dims[WHOLE_RANK];

    for (uint32_t d = 0; d < v->rank; d++)
        dims[d] = v->dims[d].value;
    *out = whole_make(v->dtype, v->rank, dims);
    whole_load(out, v->data);
}

static void take_body(const inlay_graph *around, whole_node *to, uint32_t k, const inlay_body *body)
{
    const inlay_graph *g = body->graph;
    uint32_t *all = whole_alloc(g->node_count * sizeof *all);

    (void)around;
    for (uint32_t i = 0; i < g->node_count; i++)
        all[i] = i;
    to->bodies[k] = whole_translate(g, all, g->node_count, g->inputs, g->input_count, g->outputs, g->output_count);
    to->capture_outer[k] = copy_list(body->capture_outer, body->capture_count);
    to->capture_inner[k] = copy_list(body->capture_inner, body->capture_count);
    to->capture_count[k] = body->capture_count;
    free(all);
}

whole_graph *whole_translate(const inlay_graph *graph, const uint32_t *nodes, uint32_t node_count,
                             const uint32_t *inputs, uint32_t input_count, const uint32_t *outputs,
                             uint32_t output_count)
{
    whole_graph *g = whole_alloc(sizeof *g);

    g->nodes = whole_alloc(node_count * sizeof *g->nodes);
    g->constants = whole_alloc(graph->value_count * sizeof *g->constants);
    g->inputs = copy_list(inputs, input_count);
    g->outputs = copy_list(outputs, output_count);
    g->node_count = node_count;
    g->value_count = graph->value_count;
    g->input_count = input_count;
    g->output_count = output_count;
    for (uint32_t v = 0; v < graph->value_count; v++)
        if ((inlay_graph_value(graph, v)->flags & INLAY_VALUE_CONSTANT) != 0 && is_simple(inlay_graph_value(graph, v)))
            take_constant(inlay_graph_value(graph, v), &g->constants[v]);
    for (uint32_t i = 0; i < node_count; i++) {
        const inlay_node_info *n = inlay_graph_node(graph, nodes[i]);
        whole_node *to = &g->nodes[i];
        const inlay_attr_info *a;

        to->op = op_of(n);
        to->input_count = n->input_count;
        to->output_count = n->output_count;
        memcpy(to->inputs, n->inputs, n->input_count * sizeof *to->inputs);
        memcpy(to->outputs, n->outputs, n->output_count * sizeof *to->outputs);
        if (to->op == WHOLE_Cast && (a = attr_of(n, "to")) != NULL)
            to->to = (inlay_dtype)a->i;
        if (to->op == WHOLE_Scan && (a = attr_of(n, "num_scan_inputs")) != NULL)
            to->scan_inputs = (uint32_t)a->i;
        for (uint32_t b = 0; b < n->body_count; b++) {
            const inlay_body *body = INLAY_AT(inlay_body, n->bodies, n->body_stride, b);

            take_body(graph, to, strcmp(body->attr.data, "else_branch") == 0, body);
        }
    }
    return g;
}

void whole_free(whole_graph *g)
{
    if (g == NULL)
        return;
    for (uint32_t i = 0; i < g->node_count; i++)
        for (int b = 0; b < 2; b++) {
            whole_free(g->nodes[i].bodies[b]);
            free(g->nodes[i].capture_outer[b]);
            free(g->nodes[i].capture_inner[b]);
        }
    for (uint32_t v = 0; v < g->value_count; v++)
        free(g->constants[v].e);
    free(g->nodes);
    free(g->constants);
    free(g->inputs);
    free(g->outputs);
    free(g);
}
