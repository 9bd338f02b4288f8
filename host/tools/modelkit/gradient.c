/* Expands Gradient of ai.onnx.preview.training into the operators that compute it: reverse-mode differentiation of the
 * nodes between the values that its attributes name.
 *
 *       y = Mul(a, b); da, db = Gradient(a, b; xs = [a, b], y = y)  ->  da = Mul(1, b), db = Mul(1, a)
 *
 * Runs at level 0 before all other passes, while names are still those of the file and values that only `y` names still
 * exist. If y has several elements, their sum is differentiated. The rules are table rows (gradient_rules.c); an
 * operator on the path without a rule is an error. Nodes are computed a second time if the Gradient's inputs differ
 * from the named values. */
#include "modelkit/gradient.h"
#include "passes/type_guard.h"
#include <string.h>

/* Limit of the nodes visited for all Gradients of a graph: each expansion may double the graph for the next one. */
enum { MOST_NODES = 1 << 18 };

/* Resolves the values that attribute `name` lists; the Gradient's inputs from `first` on replace them. */
static inlay_status resolve_names(struct gradient *gradient, const char *name, uint32_t first, bool by,
                                  uint32_t *out_count, inlay_diag *diag)
{
    const inlay_attr_info *attribute = graph_attr(gradient->node, name);

    *out_count = attribute == NULL ? 0 : attribute->count;
    for (uint32_t i = 0; i < *out_count; i++) {
        const uint32_t value =
            names_find(&gradient->names, attribute->strings[i].data, (size_t)attribute->strings[i].bytes);

        if (first + i >= gradient->node->info.input_count || gradient->node->info.inputs[first + i] == INLAY_NONE)
            return graph_fail(gradient->graph, gradient->node, NULL, INLAY_INVALID_MODEL, diag,
                              "xs and zs name more values than the node has inputs");
        if (value == INLAY_NONE || value >= gradient->values)
            return graph_fail(gradient->graph, gradient->node, NULL, INLAY_INVALID_MODEL, diag,
                              "%s names '%.100s', which is not a value of the graph", name, attribute->strings[i].data);
        if (by && !gradient_is_float(gradient->graph->values[value].info.dtype))
            return graph_fail(gradient->graph, gradient->node, NULL, INLAY_INVALID_MODEL, diag,
                              "xs names '%.100s', which is not a float", attribute->strings[i].data);
        gradient->replacement[value] = gradient->node->info.inputs[first + i];
        gradient->is_given[value] = true;
        gradient->active[value] = by;
    }
    return INLAY_OK;
}

/* Marks everything that `output` depends on, back to the given values. *out_ready is false if another Gradient is on
 * the way, which must be expanded first. */
static void find_needed(struct gradient *gradient, uint32_t output, bool *on_way, bool *out_ready)
{
    *out_ready = true;
    gradient->needed[output] = true;
    for (uint32_t i = gradient->nodes; i-- > 0;) {
        const graph_node *node = gradient->graph->nodes[i];

        for (uint32_t output_index = 0; output_index < node->info.output_count; output_index++) {
            const uint32_t value = node->info.outputs[output_index];

            on_way[i] |= value != INLAY_NONE && gradient->needed[value] && !gradient->is_given[value];
        }
        if (!on_way[i])
            continue;
        *out_ready &= !pass_is_gradient(node) || node == gradient->node;
        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE)
                gradient->needed[node->info.inputs[k]] = true;
        for (uint32_t k = 0; k < node->capture_count; k++)
            gradient->needed[node->captures[k]] = true;
    }
}

/* Copies a node whose inputs were replaced. */
static inlay_status copy_node(struct gradient *gradient, const graph_node *node, inlay_diag *diag)
{
    graph_node *copy;

    if (node->body_count > 0)
        return graph_fail(gradient->graph, node, NULL, INLAY_UNSUPPORTED, diag,
                          "Gradient '%s' would have to run its bodies with other values",
                          gradient->node->info.name.data);
    copy = make_node(&gradient->maker, gradient->graph, node->info.domain.data, node->info.op_type.data, node->opset,
                     node->info.inputs, node->info.input_count, node->info.output_count);
    for (uint32_t i = 0; copy != NULL && i < node->own_attr_count; i++)
        gradient->maker.failed |=
            graph_set_attr(gradient->graph, copy,
                           INLAY_AT(inlay_attr_info, node->info.attrs, node->info.attr_stride, i)) != INLAY_OK;
    for (uint32_t i = 0; copy != NULL && i < node->info.input_count; i++)
        if (node->info.inputs[i] != INLAY_NONE)
            ((uint32_t *)(uintptr_t)copy->info.inputs)[i] = gradient->replacement[node->info.inputs[i]];
    for (uint32_t output = 0; copy != NULL && output < node->info.output_count; output++) {
        if (node->info.outputs[output] == INLAY_NONE)
            ((uint32_t *)(uintptr_t)copy->info.outputs)[output] = INLAY_NONE;
        else if (!gradient->is_given[node->info.outputs[output]])
            gradient->replacement[node->info.outputs[output]] = copy->info.outputs[output];
    }
    return INLAY_OK;
}

static inlay_status propagate_forward(struct gradient *gradient, const bool *on_way, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < gradient->nodes; i++) {
        const graph_node *node = gradient->graph->nodes[i];
        bool active = false, other = false;

        if (!on_way[i])
            continue;
        for (uint32_t k = 0; k < graph_read_count(node); k++) {
            const uint32_t value = graph_read_at(node, k);

            active |= gradient_reaches(gradient, value);
            other |= value != INLAY_NONE && gradient->replacement[value] != value;
        }
        for (uint32_t output = 0; output < node->info.output_count; output++) {
            const uint32_t value = node->info.outputs[output];

            if (value != INLAY_NONE && !gradient->is_given[value])
                gradient->active[value] = active && gradient_is_float(gradient->graph->values[value].info.dtype);
        }
        if (other)
            INLAY_TRY(copy_node(gradient, node, diag));
    }
done:
    return status;
}

/* Connects the derivatives to the outputs of the Gradient. */
static void write_outputs(struct gradient *gradient, uint32_t count)
{
    const inlay_attr_info *xs = graph_attr(gradient->node, "xs");

    for (uint32_t output = 0; output < count && output < gradient->node->info.output_count; output++) {
        const uint32_t input =
            names_find(&gradient->names, xs->strings[output].data, (size_t)xs->strings[output].bytes);
        graph_node *last;

        if (gradient->node->info.outputs[output] == INLAY_NONE)
            continue;
        gradient->dtype = gradient->graph->values[input].info.dtype;
        if (gradient->derivative[input] == INLAY_NONE)
            gradient->derivative[input] = gradient_filled(gradient, 0, gradient->replacement[input]);
        last = make_node(&gradient->maker, gradient->graph, NULL, "Identity", 13, &gradient->derivative[input], 1, 1);
        if (last != NULL)
            ((uint32_t *)(uintptr_t)last->info.outputs)[0] = gradient->node->info.outputs[output];
    }
}

static inlay_status expand(struct gradient *gradient, bool *out_done, inlay_diag *diag)
{
    const inlay_attr_info *attribute = graph_attr(gradient->node, "y");
    const uint32_t target =
        attribute == NULL ? INLAY_NONE : names_find(&gradient->names, attribute->s.data, (size_t)attribute->s.bytes);
    bool *on_way = arena_array(&gradient->arena, (size_t)gradient->nodes + 1, sizeof *on_way);
    uint32_t xs, zs;
    inlay_status status = INLAY_OK;

    if (gradient->maker.failed || on_way == NULL)
        return INLAY_OUT_OF_MEMORY;
    if (target == INLAY_NONE || target >= gradient->values ||
        !gradient_is_float(gradient->graph->values[target].info.dtype))
        return graph_fail(gradient->graph, gradient->node, NULL, INLAY_INVALID_MODEL, diag,
                          "y is '%.100s', which is not a float value of the graph",
                          attribute == NULL ? "" : attribute->s.data);
    INLAY_TRY(resolve_names(gradient, "zs", 0, false, &zs,
                            diag)); /* only to count them; the next two calls set the marks in the right order */
    INLAY_TRY(resolve_names(gradient, "xs", 0, true, &xs, diag));
    INLAY_TRY(resolve_names(gradient, "zs", xs, false, &zs, diag));
    find_needed(gradient, target, on_way, out_done);
    if (!*out_done)
        return INLAY_OK;
    INLAY_TRY(propagate_forward(gradient, on_way, diag));
    gradient->dtype = gradient->graph->values[target].info.dtype;
    if (gradient->active[target])
        gradient->derivative[target] = gradient_filled(gradient, 1, gradient->replacement[target]);
    for (uint32_t i = gradient->nodes; i-- > 0;) {
        const graph_node *node = gradient->graph->nodes[i];
        const uint32_t out = node->info.output_count > 0 ? node->info.outputs[0] : INLAY_NONE;

        if (on_way[i] && gradient_reaches(gradient, out) && !gradient->is_given[out] &&
            gradient->derivative[out] != INLAY_NONE)
            INLAY_TRY(gradient_back(gradient, node, diag));
    }
    write_outputs(gradient, xs);
done:
    return status;
}

static bool begin(struct gradient *gradient)
{
    gradient->nodes = gradient->graph->node_count;
    gradient->values = gradient->graph->value_count;
    gradient->replacement = arena_array(&gradient->arena, (size_t)gradient->values + 1, sizeof *gradient->replacement);
    gradient->derivative = arena_array(&gradient->arena, (size_t)gradient->values + 1, sizeof *gradient->derivative);
    gradient->active = arena_array(&gradient->arena, (size_t)gradient->values + 1, sizeof *gradient->active);
    gradient->needed = arena_array(&gradient->arena, (size_t)gradient->values + 1, sizeof *gradient->needed);
    gradient->is_given = arena_array(&gradient->arena, (size_t)gradient->values + 1, sizeof *gradient->is_given);
    if (gradient->replacement == NULL || gradient->derivative == NULL || gradient->active == NULL ||
        gradient->needed == NULL || gradient->is_given == NULL)
        return false;
    for (uint32_t value = 0; value < gradient->values; value++) {
        const inlay_str *name = &gradient->graph->values[value].info.name;

        if (name->bytes > 0 && !names_add(&gradient->names, name->data, (size_t)name->bytes, value, NULL))
            return false;
        gradient->replacement[value] = value;
        gradient->derivative[value] = INLAY_NONE;
    }
    return true;
}

/* Expands one Gradient that depends on no other, then sorts and infers the graph again. */
static inlay_status visit(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    inlay_status status = INLAY_OK;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < graph->node_count && status == INLAY_OK; i++) {
        struct gradient gradient = { .maker = { .ctx = ctx, .like = graph->nodes[i] },
                                     .graph = graph,
                                     .node = graph->nodes[i] };
        bool ready = false;

        if (!pass_is_gradient(gradient.node))
            continue;
        seen += graph->node_count;
        gradient.maker.failed = !begin(&gradient);
        status = expand(&gradient, &ready, ctx->diag);
        arena_deinit(&gradient.arena);
        names_deinit(&gradient.names);
        if (status == INLAY_OUT_OF_MEMORY || (status == INLAY_OK && gradient.maker.failed))
            return inlay_fail(ctx->diag, INLAY_OUT_OF_MEMORY, "no memory to expand node '%s'",
                              gradient.node->info.name.data);
        if (status == INLAY_OK && ready)
            status = type_guard_expect(ctx, graph, gradient.node);
        if (status != INLAY_OK || !ready)
            continue;
        pass_count(ctx, graph, gradient.node, "the derivatives of the nodes that it names");
        memmove(graph->nodes + i, graph->nodes + i + 1, (graph->node_count - i - 1) * sizeof *graph->nodes);
        graph->node_count--;
        *changed = true;
        if (seen > MOST_NODES)
            return graph_fail(graph, NULL, NULL, INLAY_LIMIT_EXCEEDED, ctx->diag,
                              "its gradients go through more than %d nodes", (int)MOST_NODES);
        INLAY_TRY(graph_bind(ctx->model, NULL, ctx->diag));
        INLAY_TRY(graph_finish(ctx->model->main, ctx->diag));
        INLAY_TRY(graph_infer(ctx->model, ctx->diag));
        i = INLAY_NONE; /* the order changed: restart */
    }
done:
    return status;
}

inlay_status gradient_expand(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
