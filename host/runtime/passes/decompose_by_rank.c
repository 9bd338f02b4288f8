/* Decomposes an operator whose meaning depends on the rank of an input, where the model does not declare that rank:
 *
 *     y = Op(x, ..)   ->   y = If(Size(Shape(x)) == r, Op(x reshaped to rank r, ..), Op(x with another rank, ..))
 *
 * Each branch is then lowered as in a model that declares the rank. */
#include "graph/infer.h"
#include "inlay/check.h"
#include "passes/body_nodes.h"
#include "passes/subgraph_builder.h"

/* The node, and the input whose rank decides. */
typedef struct rank_dispatch {
    node_maker maker;
    const graph_node *node;
    uint32_t input;
    uint32_t wanted; /* number of used outputs */
} rank_dispatch;

static bool add_branches(rank_dispatch *dispatch, struct graph *graph, graph_node *choice, const uint32_t *inputs,
                         uint32_t low, uint32_t high);

/* Captures the values of `outer` that the node reads. inputs[number of inputs of the node] receives the values inside
 * the body. */
static bool capture(const rank_dispatch *dispatch, const struct graph *outer, graph_body *body, const uint32_t *read,
                    uint32_t *inputs)
{
    const uint32_t reads = dispatch->node->info.input_count;
    struct graph *graph = body->graph;

    body->capture_outer = arena_array(&graph->model->arena, reads, sizeof *body->capture_outer);
    body->capture_inner = arena_array(&graph->model->arena, reads, sizeof *body->capture_inner);
    if (body->capture_outer == NULL || body->capture_inner == NULL)
        return false;
    for (uint32_t i = 0; i < reads; i++) {
        uint32_t c = 0;

        inputs[i] = INLAY_NONE;
        if (read[i] == INLAY_NONE)
            continue;
        while (c < body->capture_count && body->capture_outer[c] != read[i])
            c++;
        if (c == body->capture_count) {
            body->capture_outer[c] = read[i];
            body->capture_inner[c] = graph_add_value(graph, NULL, 0);
            if (body->capture_inner[c] == INLAY_NONE)
                return false;
            infer_copy_type(&graph->values[body->capture_inner[c]], &outer->values[read[i]]);
            body->capture_count++;
        }
        inputs[i] = body->capture_inner[c];
    }
    graph->captured = body->capture_inner;
    graph->captured_count = body->capture_count;
    return true;
}

/* Appends a copy of the node to graph that reads its input reshaped to that rank. */
static graph_node *append_node(rank_dispatch *dispatch, struct graph *graph, uint32_t *inputs, uint32_t rank)
{
    const graph_node *node = dispatch->node;
    const int64_t kept[INLAY_MAX_RANK] = { 0 }; /* 0 in Reshape keeps the size */
    const uint32_t shape = make_constant(&dispatch->maker, graph, INLAY_INT64, 1, rank, kept, rank * sizeof *kept);
    graph_node *copy;

    inputs[dispatch->input] = make_value(&dispatch->maker, graph, "Reshape", 13,
                                         (const uint32_t[]){ inputs[dispatch->input], shape }, 2, NULL, 0);
    copy = dispatch->maker.failed ? NULL
                                  : make_node(&dispatch->maker, graph, node->info.domain.data, node->info.op_type.data,
                                              node->opset, inputs, node->info.input_count, node->info.output_count);
    if (copy == NULL)
        return NULL;
    copy->info.attrs = node->info.attrs;
    copy->info.attr_stride = node->info.attr_stride;
    copy->info.attr_count = node->own_attr_count; /* binding adds the others again */
    copy->overload = node->overload;
    copy->early = node->early;
    return copy;
}

/* Appends an If on the rank of the input; add_branches() adds its branches. */
static graph_node *append_choice(rank_dispatch *dispatch, struct graph *graph, const uint32_t *inputs, int64_t rank)
{
    const uint32_t limit = make_constant(&dispatch->maker, graph, INLAY_INT64, 0, 1, &rank, sizeof rank);
    uint32_t is = make_value(&dispatch->maker, graph, "Shape", 13, &inputs[dispatch->input], 1, NULL, 0);

    is = make_value(&dispatch->maker, graph, "Size", 13, &is, 1, NULL, 0);
    is = make_value(&dispatch->maker, graph, "Equal", 13, (const uint32_t[]){ is, limit }, 2, NULL, 0);
    return dispatch->maker.failed ? NULL : make_node(&dispatch->maker, graph, NULL, "If", 16, &is, 1, dispatch->wanted);
}

/* Builds a branch for the ranks from low to high. */
static bool build_branch(rank_dispatch *dispatch, struct graph *outer, graph_body *body, const uint32_t *read,
                         uint32_t low, uint32_t high)
{
    struct arena *arena = &outer->model->arena;
    uint32_t *inputs = arena_array(arena, dispatch->node->info.input_count, sizeof *inputs);
    struct graph *graph = body->graph = graph_create(outer->model, outer, dispatch->node->info.name.data);
    graph_node *last;

    if (inputs == NULL || graph == NULL || !capture(dispatch, outer, body, read, inputs))
        return false;
    graph->outputs = arena_array(arena, dispatch->wanted, sizeof *graph->outputs);
    last = low == high ? append_node(dispatch, graph, inputs, low) : append_choice(dispatch, graph, inputs, low);
    if (graph->outputs == NULL || last == NULL ||
        (low < high && !add_branches(dispatch, graph, last, inputs, low, high)))
        return false;
    for (uint32_t output = 0; output < last->info.output_count; output++)
        if (low < high || dispatch->node->info.outputs[output] != INLAY_NONE)
            graph->outputs[graph->output_count++] = last->info.outputs[output];
    return true;
}

/* Builds the branches of `choice`, an If on whether the rank is low. */
static bool add_branches(rank_dispatch *dispatch, struct graph *graph, graph_node *choice, const uint32_t *inputs,
                         uint32_t low, uint32_t high)
{
    graph_body *bodies = arena_array(&graph->model->arena, 2, sizeof *bodies);

    if (bodies == NULL)
        return false;
    bodies[0] = (graph_body){ .attr = "then_branch" };
    bodies[1] = (graph_body){ .attr = "else_branch" };
    choice->bodies = bodies;
    choice->body_count = 2;
    if (!build_branch(dispatch, graph, &bodies[0], inputs, low, low) ||
        !build_branch(dispatch, graph, &bodies[1], inputs, low + 1, high))
        return false;
    choice->capture_count = bodies[0].capture_count; /* both branches capture the same values */
    choice->captures =
        arena_copy(&graph->model->arena, bodies[0].capture_outer, choice->capture_count * sizeof *choice->captures);
    return choice->captures != NULL;
}

bool decompose_by_rank(subgraph_builder *builder, uint32_t i, uint32_t low, uint32_t high)
{
    const graph_node *node = builder->node;
    rank_dispatch dispatch = { .maker = { .ctx = builder->rewrite->ctx, .like = node }, .node = node, .input = i };
    uint32_t *inputs, is, made = 0;
    graph_node *choice;

    INLAY_CHECK(low < high && high <= INLAY_MAX_RANK);
    if (builder_input(builder, i) == INLAY_NONE ||
        builder_rank(builder, builder_input(builder, i)) != INLAY_RANK_UNKNOWN)
        return false;
    inputs = arena_array(&builder->rewrite->scratch, node->info.input_count, sizeof *inputs);
    for (uint32_t k = 0; inputs != NULL && k < node->info.input_count; k++)
        inputs[k] = builder_input(builder, k);
    for (uint32_t o = 0; o < node->info.output_count; o++)
        dispatch.wanted += builder_wants(builder, o);
    is = emit_typed(builder, "Size", 13, INLAY_INT64,
                    emit_typed(builder, "Shape", 13, INLAY_INT64, builder_input(builder, i)));
    is = emit_typed(builder, "Equal", 13, INLAY_BOOL, is, emit_op(builder, "Squeeze", 13, emit_list(builder, low)));
    choice = builder->status != INLAY_OK || inputs == NULL
                 ? NULL
                 : rewrite_make_node(builder->rewrite, "If", 16, node, &is, 1, dispatch.wanted);
    if (choice == NULL || !add_branches(&dispatch, builder->rewrite->graph, choice, inputs, low, high)) {
        builder->status = builder->status != INLAY_OK ? builder->status : rewrite_no_memory(builder->rewrite);
        return true;
    }
    builder->status = rewrite_insert_node(builder->rewrite, choice, INLAY_UNDEFINED);
    builder->last = choice;
    for (uint32_t output = 0; output < node->info.output_count && builder->status == INLAY_OK; output++) {
        if (!builder_wants(builder, output))
            continue;
        builder->rewrite->graph->values[choice->info.outputs[made]].info.dtype =
            builder->rewrite->graph->values[node->info.outputs[output]].info.dtype;
        builder_set_output(builder, output, choice->info.outputs[made++]);
    }
    return true;
}
