/* FlexAttention of ai.onnx.preview as what it means: its bodies, one for scores and one for probabilities, move into
 * the graph.
 *
 *     S = score_mod(MatMul(Q, K^T) * scale);  P = prob_mod(Softmax(S));  Y = MatMul(P, V)
 *
 * Level 0: no provider runs nodes with such bodies. Scores and probabilities are of the type that the body declares,
 * otherwise of the softmax's (attribute softmax_precision; float where Q has 16 bits). */
#include "passes/body_nodes.h"
#include "passes/type_guard.h"
#include <math.h>
#include <string.h>

struct flex {
    node_maker m;
    struct graph *g;
    graph_node *n;
    inlay_dtype dtype; /* of Q */
    int64_t groups;    /* heads of Q that share one of K and V */
};

static const inlay_value_info *input(const struct flex *f, uint32_t i)
{
    return &f->g->values[f->n->info.inputs[i]].info;
}

static int64_t size_of(const struct flex *f, uint32_t i, uint32_t d)
{
    const inlay_value_info *v = input(f, i);

    return v->rank == 4 && v->dims[d].kind == INLAY_DIM_FIXED ? v->dims[d].value : -1;
}

/* A body has one input and one output. */
static bool is_fine(const graph_body *b)
{
    return b == NULL || (b->graph->input_count == 1 && b->graph->output_count == 1);
}

static inlay_status check(struct flex *f, inlay_diag *diag)
{
    const int64_t heads = size_of(f, 0, 1), shared = size_of(f, 1, 1);

    if (!is_fine(graph_body_named(f->n, "score_mod")) || !is_fine(graph_body_named(f->n, "prob_mod")))
        return graph_fail(f->g, f->n, NULL, INLAY_INVALID_MODEL, diag,
                          "score_mod and prob_mod must have one input and one output");
    f->dtype = input(f, 0)->dtype;
    f->groups = 1;
    if (heads == shared && heads >= 0)
        return INLAY_OK;
    if (heads < 0 || shared < 1 || heads % shared != 0 || shared != size_of(f, 2, 1))
        return graph_fail(
            f->g, f->n, NULL, heads < 0 || shared < 0 ? INLAY_UNSUPPORTED : INLAY_INVALID_MODEL, diag,
            "Q has %lld heads and K %lld (-1: not known); declare them, the first a multiple of the second",
            (long long)heads, (long long)shared);
    f->groups = heads / shared;
    return INLAY_OK;
}

static uint32_t one(struct flex *f, const char *op, int64_t opset, uint32_t a, uint32_t b, const char *attr,
                    int64_t value)
{
    return make_value(&f->m, f->g, op, opset, (const uint32_t[]){ a, b }, b == INLAY_NONE ? 1 : 2, attr, value);
}

static uint32_t cast(struct flex *f, uint32_t v, inlay_dtype *from, inlay_dtype to)
{
    if (*from == to || to == INLAY_UNDEFINED)
        return v;
    *from = to;
    return one(f, "Cast", 13, v, INLAY_NONE, "to", to);
}

/* K or V with each head as often as Q has it. */
static uint32_t repeated(struct flex *f, uint32_t v)
{
    const int64_t heads = size_of(f, 0, 1);
    int64_t *list = f->groups == 1 ? NULL : arena_array(&f->m.ctx->model->arena, (size_t)heads + 1, sizeof *list);

    if (list == NULL) {
        f->m.failed |= f->groups != 1;
        return v;
    }
    for (int64_t h = 0; h < heads; h++)
        list[h] = h / f->groups;
    return one(f, "Gather", 13, v,
               make_constant(&f->m, f->g, INLAY_INT64, 1, heads, list, (size_t)heads * sizeof *list), "axis", 1);
}

/* The scale as a number of Q's type: what the node says, or one over the root of the size of a head. */
static uint32_t scale_of(struct flex *f)
{
    const inlay_attr_info *scale = graph_attr(f->n, "scale");
    const int64_t last = 3;
    inlay_dtype dtype = INLAY_FLOAT;
    float x = scale != NULL ? (float)scale->f : 0;
    uint32_t v;

    if (scale == NULL && size_of(f, 0, 3) > 0)
        x = 1 / sqrtf((float)size_of(f, 0, 3));
    if (x != 0 || scale != NULL)
        return cast(f, make_constant(&f->m, f->g, INLAY_FLOAT, 0, 0, &x, sizeof x), &dtype, f->dtype);
    v = one(f, "Gather", 13, one(f, "Shape", 13, f->n->info.inputs[0], INLAY_NONE, NULL, 0),
            make_constant(&f->m, f->g, INLAY_INT64, 0, 0, &last, sizeof last), NULL, 0);
    v = one(f, "Cast", 13, v, INLAY_NONE, "to", f->dtype);
    return one(f, "Reciprocal", 13, one(f, "Sqrt", 13, v, INLAY_NONE, NULL, 0), INLAY_NONE, NULL, 0);
}

static uint32_t through(struct flex *f, const char *attr, uint32_t v, inlay_dtype *dtype)
{
    const graph_body *body = graph_body_named(f->n, attr);
    const graph_value *in, *out;

    if (body == NULL)
        return v;
    in = &body->graph->values[body->graph->inputs[0]];
    out = &body->graph->values[body->graph->outputs[0]];
    v = cast(f, v, dtype, in->declared ? in->declared_dtype : INLAY_UNDEFINED);
    make_body(&f->m, f->g, body, &v, &v);
    *dtype = out->declared && out->declared_dtype != INLAY_UNDEFINED ? out->declared_dtype : *dtype;
    return v;
}

static bool spell(struct flex *f)
{
    static const int64_t turned[] = { 0, 1, 3, 2 };
    const uint32_t *in = f->n->info.inputs;
    const inlay_attr_info *precision = graph_attr(f->n, "softmax_precision");
    inlay_dtype soft = f->dtype == INLAY_DOUBLE ? INLAY_DOUBLE : INLAY_FLOAT, dtype = f->dtype;
    graph_node *turn = make_node(&f->m, f->g, NULL, "Transpose", 13, &in[1], 1, 1), *last;
    uint32_t v;

    if (turn == NULL || graph_set_attr_ints(f->g, turn, "perm", turned, 4) != INLAY_OK)
        return false;
    soft = precision != NULL && precision->i > 0 ? (inlay_dtype)precision->i : soft;
    v = one(f, "MatMul", 13, in[0], repeated(f, turn->info.outputs[0]), NULL, 0);
    v = one(f, "Mul", 14, v, scale_of(f), NULL, 0);
    v = through(f, "score_mod", v, &dtype);
    v = one(f, "Softmax", 13, cast(f, v, &dtype, soft), INLAY_NONE, "axis", -1);
    v = through(f, "prob_mod", v, &dtype);
    v = cast(f, v, &dtype, f->dtype);
    last = make_node(&f->m, f->g, NULL, "MatMul", 13, (const uint32_t[]){ v, repeated(f, in[2]) }, 2, 1);
    if (last != NULL)
        ((uint32_t *)(uintptr_t)last->info.outputs)[0] = f->n->info.outputs[0];
    return !f->m.failed;
}

static inlay_status visit(pass_ctx *ctx, struct graph *g, bool *changed)
{
    const uint32_t nodes = g->node_count;
    inlay_status status = INLAY_OK;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < nodes; i++) {
        graph_node *n = g->nodes[i];
        struct flex f = { .m = { .ctx = ctx, .like = n }, .g = g, .n = n };

        if (n->schema == NULL || strcmp(n->info.op_type.data, "FlexAttention") != 0 ||
            strcmp(n->info.domain.data, "ai.onnx.preview") != 0) {
            g->nodes[kept++] = n;
            continue;
        }
        INLAY_TRY(check(&f, ctx->diag));
        INLAY_TRY(type_guard_expect(ctx, g, n));
        if (!spell(&f))
            return no_memory(ctx->diag, "to spell out node '%s'", n->info.name.data);
        pass_count(ctx, g, n, "MatMul, Softmax, MatMul");
        *changed = true;
    }
    for (uint32_t i = nodes; i < g->node_count; i++)
        g->nodes[kept++] = g->nodes[i];
    g->node_count = kept;
done:
    return status;
}

inlay_status pass_flex_attention(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
