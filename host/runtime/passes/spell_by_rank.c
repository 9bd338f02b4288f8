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
    node_maker m;
    const graph_node *n;
    uint32_t input;
    uint32_t wanted; /* outputs that are asked for */
} by_rank;

static bool put_bodies(by_rank *r, struct graph *g, graph_node *choice, const uint32_t *inputs, uint32_t low,
                       uint32_t high);

/* Gives body a value for each value of `outer` that the node reads; inputs: [inputs of the node] those values. */
static bool capture(const by_rank *r, const struct graph *outer, graph_body *body, const uint32_t *read,
                    uint32_t *inputs)
{
    const uint32_t reads = r->n->info.input_count;
    struct graph *g = body->graph;

    body->capture_outer = arena_array(&g->model->arena, reads, sizeof *body->capture_outer);
    body->capture_inner = arena_array(&g->model->arena, reads, sizeof *body->capture_inner);
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
            body->capture_inner[c] = graph_add_value(g, NULL, 0);
            if (body->capture_inner[c] == INLAY_NONE)
                return false;
            infer_copy_type(&g->values[body->capture_inner[c]], &outer->values[read[i]]);
            body->capture_count++;
        }
        inputs[i] = body->capture_inner[c];
    }
    g->captured = body->capture_inner;
    g->captured_count = body->capture_count;
    return true;
}

/* The node itself in g, which reads its input as a value of that rank. */
static graph_node *put_node(by_rank *r, struct graph *g, uint32_t *inputs, uint32_t rank)
{
    const graph_node *n = r->n;
    const int64_t kept[INLAY_MAX_RANK] = { 0 }; /* Reshape: the size as it is */
    const uint32_t shape = make_constant(&r->m, g, INLAY_INT64, 1, rank, kept, rank * sizeof *kept);
    graph_node *copy;

    inputs[r->input] = make_value(&r->m, g, "Reshape", 13, (const uint32_t[]){ inputs[r->input], shape }, 2, NULL, 0);
    copy = r->m.failed ? NULL
                       : make_node(&r->m, g, n->info.domain.data, n->info.op_type.data, n->opset, inputs,
                                   n->info.input_count, n->info.output_count);
    if (copy == NULL)
        return NULL;
    copy->info.attrs = n->info.attrs;
    copy->info.attr_stride = n->info.attr_stride;
    copy->info.attr_count = n->own_attr_count; /* binding adds the others again */
    copy->overload = n->overload;
    copy->early = n->early;
    return copy;
}

/* In g: If of the rank of an input, whose branches are still missing. */
static graph_node *put_choice(by_rank *r, struct graph *g, const uint32_t *inputs, int64_t rank)
{
    const uint32_t limit = make_constant(&r->m, g, INLAY_INT64, 0, 1, &rank, sizeof rank);
    uint32_t is = make_value(&r->m, g, "Shape", 13, &inputs[r->input], 1, NULL, 0);

    is = make_value(&r->m, g, "Size", 13, &is, 1, NULL, 0);
    is = make_value(&r->m, g, "Equal", 13, (const uint32_t[]){ is, limit }, 2, NULL, 0);
    return r->m.failed ? NULL : make_node(&r->m, g, NULL, "If", 16, &is, 1, r->wanted);
}

/* A branch for the ranks from low to high. */
static bool put_branch(by_rank *r, struct graph *outer, graph_body *body, const uint32_t *read, uint32_t low,
                       uint32_t high)
{
    struct arena *a = &outer->model->arena;
    uint32_t *inputs = arena_array(a, r->n->info.input_count, sizeof *inputs);
    struct graph *g = body->graph = graph_create(outer->model, outer, r->n->info.name.data);
    graph_node *last;

    if (inputs == NULL || g == NULL || !capture(r, outer, body, read, inputs))
        return false;
    g->outputs = arena_array(a, r->wanted, sizeof *g->outputs);
    last = low == high ? put_node(r, g, inputs, low) : put_choice(r, g, inputs, low);
    if (g->outputs == NULL || last == NULL || (low < high && !put_bodies(r, g, last, inputs, low, high)))
        return false;
    for (uint32_t o = 0; o < last->info.output_count; o++)
        if (low < high || r->n->info.outputs[o] != INLAY_NONE)
            g->outputs[g->output_count++] = last->info.outputs[o];
    return true;
}

/* The branches of an If in g that asks whether the rank is the lowest. */
static bool put_bodies(by_rank *r, struct graph *g, graph_node *choice, const uint32_t *inputs, uint32_t low,
                       uint32_t high)
{
    graph_body *bodies = arena_array(&g->model->arena, 2, sizeof *bodies);

    if (bodies == NULL)
        return false;
    bodies[0] = (graph_body){ .attr = "then_branch" };
    bodies[1] = (graph_body){ .attr = "else_branch" };
    choice->bodies = bodies;
    choice->body_count = 2;
    if (!put_branch(r, g, &bodies[0], inputs, low, low) || !put_branch(r, g, &bodies[1], inputs, low + 1, high))
        return false;
    choice->capture_count = bodies[0].capture_count; /* both read the same */
    choice->captures =
        arena_copy(&g->model->arena, bodies[0].capture_outer, choice->capture_count * sizeof *choice->captures);
    return choice->captures != NULL;
}

bool spell_by_rank(struct spell *b, uint32_t i, uint32_t low, uint32_t high)
{
    const graph_node *n = b->n;
    by_rank r = { .m = { .ctx = b->w->ctx, .like = n }, .n = n, .input = i };
    uint32_t *inputs, is, made = 0;
    graph_node *choice;

    if (spell_in(b, i) == INLAY_NONE || spell_rank(b, spell_in(b, i)) != INLAY_RANK_UNKNOWN)
        return false;
    inputs = arena_array(&b->w->scratch, n->info.input_count, sizeof *inputs);
    for (uint32_t k = 0; inputs != NULL && k < n->info.input_count; k++)
        inputs[k] = spell_in(b, k);
    for (uint32_t o = 0; o < n->info.output_count; o++)
        r.wanted += spell_wants(b, o);
    is = spell_typed(b, "Size", 13, INLAY_INT64, spell_typed(b, "Shape", 13, INLAY_INT64, spell_in(b, i)));
    is = spell_typed(b, "Equal", 13, INLAY_BOOL, is, spell_op(b, "Squeeze", 13, spell_list(b, low)));
    choice = b->status != INLAY_OK || inputs == NULL ? NULL : rw_make(b->w, "If", 16, n, &is, 1, r.wanted);
    if (choice == NULL || !put_bodies(&r, b->w->g, choice, inputs, low, high)) {
        b->status = b->status != INLAY_OK ? b->status : rw_no_memory(b->w);
        return true;
    }
    b->status = rw_insert(b->w, choice, INLAY_UNDEFINED);
    b->last = choice;
    for (uint32_t o = 0; o < n->info.output_count && b->status == INLAY_OK; o++) {
        if (!spell_wants(b, o))
            continue;
        b->w->g->values[choice->info.outputs[made]].info.dtype = b->w->g->values[n->info.outputs[o]].info.dtype;
        spell_output(b, o, choice->info.outputs[made++]);
    }
    return true;
}
