/* An operator whose meaning depends on the rank of an input, where the model does not say which rank that is:
 *
 *     y = Op(x, ..)   ->   y = If(Size(Shape(x)) == r, Op(x as rank r, ..), Op(x as another rank, ..))
 *
 * Each branch is then lowered as in a model that declares the rank. */
#include "graph/infer.h"
#include "passes/body_nodes.h"
#include "passes/spell.h"

/* The node, and its input whose rank decides. */
typedef struct by_rank {
    node_maker maker;
    const graph_node *node;
    uint32_t input;
    uint32_t wanted; /* outputs that are asked for */
} by_rank;

static bool put_bodies(by_rank *rank, struct graph *graph, graph_node *choice, const uint32_t *inputs, uint32_t low,
                       uint32_t high);

/* Gives body a value for each value of `outer` that the node reads; inputs: [inputs of the node] those values. */
static bool capture(const by_rank *rank, const struct graph *outer, graph_body *body, const uint32_t *read,
                    uint32_t *inputs)
{
    const uint32_t reads = rank->node->info.input_count;
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

/* The node itself in graph, which reads its input as a value of that rank. */
static graph_node *put_node(by_rank *r, struct graph *graph, uint32_t *inputs, uint32_t rank)
{
    const graph_node *node = r->node;
    const int64_t kept[INLAY_MAX_RANK] = { 0 }; /* Reshape: the size as it is */
    const uint32_t shape = make_constant(&r->maker, graph, INLAY_INT64, 1, rank, kept, rank * sizeof *kept);
    graph_node *copy;

    inputs[r->input] =
        make_value(&r->maker, graph, "Reshape", 13, (const uint32_t[]){ inputs[r->input], shape }, 2, NULL, 0);
    copy = r->maker.failed ? NULL
                           : make_node(&r->maker, graph, node->info.domain.data, node->info.op_type.data, node->opset,
                                       inputs, node->info.input_count, node->info.output_count);
    if (copy == NULL)
        return NULL;
    copy->info.attrs = node->info.attrs;
    copy->info.attr_stride = node->info.attr_stride;
    copy->info.attr_count = node->own_attr_count; /* binding adds the others again */
    copy->overload = node->overload;
    copy->early = node->early;
    return copy;
}

/* In graph: If of the rank of an input, whose branches are still missing. */
static graph_node *put_choice(by_rank *r, struct graph *graph, const uint32_t *inputs, int64_t rank)
{
    const uint32_t limit = make_constant(&r->maker, graph, INLAY_INT64, 0, 1, &rank, sizeof rank);
    uint32_t is = make_value(&r->maker, graph, "Shape", 13, &inputs[r->input], 1, NULL, 0);

    is = make_value(&r->maker, graph, "Size", 13, &is, 1, NULL, 0);
    is = make_value(&r->maker, graph, "Equal", 13, (const uint32_t[]){ is, limit }, 2, NULL, 0);
    return r->maker.failed ? NULL : make_node(&r->maker, graph, NULL, "If", 16, &is, 1, r->wanted);
}

/* A branch for the ranks from low to high. */
static bool put_branch(by_rank *rank, struct graph *outer, graph_body *body, const uint32_t *read, uint32_t low,
                       uint32_t high)
{
    struct arena *arena = &outer->model->arena;
    uint32_t *inputs = arena_array(arena, rank->node->info.input_count, sizeof *inputs);
    struct graph *graph = body->graph = graph_create(outer->model, outer, rank->node->info.name.data);
    graph_node *last;

    if (inputs == NULL || graph == NULL || !capture(rank, outer, body, read, inputs))
        return false;
    graph->outputs = arena_array(arena, rank->wanted, sizeof *graph->outputs);
    last = low == high ? put_node(rank, graph, inputs, low) : put_choice(rank, graph, inputs, low);
    if (graph->outputs == NULL || last == NULL || (low < high && !put_bodies(rank, graph, last, inputs, low, high)))
        return false;
    for (uint32_t output = 0; output < last->info.output_count; output++)
        if (low < high || rank->node->info.outputs[output] != INLAY_NONE)
            graph->outputs[graph->output_count++] = last->info.outputs[output];
    return true;
}

/* The branches of an If in graph that asks whether the rank is the lowest. */
static bool put_bodies(by_rank *rank, struct graph *graph, graph_node *choice, const uint32_t *inputs, uint32_t low,
                       uint32_t high)
{
    graph_body *bodies = arena_array(&graph->model->arena, 2, sizeof *bodies);

    if (bodies == NULL)
        return false;
    bodies[0] = (graph_body){ .attr = "then_branch" };
    bodies[1] = (graph_body){ .attr = "else_branch" };
    choice->bodies = bodies;
    choice->body_count = 2;
    if (!put_branch(rank, graph, &bodies[0], inputs, low, low) ||
        !put_branch(rank, graph, &bodies[1], inputs, low + 1, high))
        return false;
    choice->capture_count = bodies[0].capture_count; /* both read the same */
    choice->captures =
        arena_copy(&graph->model->arena, bodies[0].capture_outer, choice->capture_count * sizeof *choice->captures);
    return choice->captures != NULL;
}

bool spell_by_rank(struct spell *spell, uint32_t i, uint32_t low, uint32_t high)
{
    const graph_node *node = spell->node;
    by_rank rank = { .maker = { .ctx = spell->rewrite->ctx, .like = node }, .node = node, .input = i };
    uint32_t *inputs, is, made = 0;
    graph_node *choice;

    if (spell_in(spell, i) == INLAY_NONE || spell_rank(spell, spell_in(spell, i)) != INLAY_RANK_UNKNOWN)
        return false;
    inputs = arena_array(&spell->rewrite->scratch, node->info.input_count, sizeof *inputs);
    for (uint32_t k = 0; inputs != NULL && k < node->info.input_count; k++)
        inputs[k] = spell_in(spell, k);
    for (uint32_t o = 0; o < node->info.output_count; o++)
        rank.wanted += spell_wants(spell, o);
    is = spell_typed(spell, "Size", 13, INLAY_INT64, spell_typed(spell, "Shape", 13, INLAY_INT64, spell_in(spell, i)));
    is = spell_typed(spell, "Equal", 13, INLAY_BOOL, is, spell_op(spell, "Squeeze", 13, spell_list(spell, low)));
    choice = spell->status != INLAY_OK || inputs == NULL ? NULL
                                                         : rw_make(spell->rewrite, "If", 16, node, &is, 1, rank.wanted);
    if (choice == NULL || !put_bodies(&rank, spell->rewrite->graph, choice, inputs, low, high)) {
        spell->status = spell->status != INLAY_OK ? spell->status : rw_no_memory(spell->rewrite);
        return true;
    }
    spell->status = rw_insert(spell->rewrite, choice, INLAY_UNDEFINED);
    spell->last = choice;
    for (uint32_t output = 0; output < node->info.output_count && spell->status == INLAY_OK; output++) {
        if (!spell_wants(spell, output))
            continue;
        spell->rewrite->graph->values[choice->info.outputs[made]].info.dtype =
            spell->rewrite->graph->values[node->info.outputs[output]].info.dtype;
        spell_output(spell, output, choice->info.outputs[made++]);
    }
    return true;
}
