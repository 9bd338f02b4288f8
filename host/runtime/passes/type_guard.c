#include "passes/type_guard.h"
#include "base/check.h"
#include <string.h>

bool type_guard_differs(const graph_value *a, const graph_value *b)
{
    const inlay_value_info *x = &a->info, *y = &b->info;

    if (x->dtype != INLAY_UNDEFINED && y->dtype != INLAY_UNDEFINED && (x->dtype != y->dtype || x->kind != y->kind))
        return true;
    if (x->kind != INLAY_VALUE_TENSOR || x->rank == INLAY_RANK_UNKNOWN || y->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; x->rank == y->rank && d < x->rank; d++)
        if (x->dims[d].kind == INLAY_DIM_FIXED && y->dims[d].kind == INLAY_DIM_FIXED &&
            x->dims[d].value != y->dims[d].value)
            return true;
    return x->rank != y->rank;
}

bool type_guard_refuses(const graph_model *model, bool differs)
{
    INLAY_CHECK(!differs || model->trusts_file);
    return differs;
}

bool type_guard_keeps(const struct graph *g, const graph_value *before, uint32_t count)
{
    bool differs = false;

    INLAY_CHECK(count <= g->value_count);
    for (uint32_t v = 0; v < count; v++)
        differs |= type_guard_differs(&before[v], &g->values[v]);
    return !type_guard_refuses(g->model, differs);
}

inlay_status type_guard_constant(struct graph *g, uint32_t v, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                 const void *data, uint64_t bytes, bool *out_done)
{
    const graph_value was = g->values[v];
    inlay_status status = graph_set_constant(g, v, dtype, rank, dims, data, bytes);

    *out_done = status == INLAY_OK && !type_guard_refuses(g->model, type_guard_differs(&was, &g->values[v]));
    if (!*out_done)
        g->values[v] = was;
    return status;
}

/* ------------------------------------------------------------------ nodes for a node */

typedef struct kept_value {
    uint32_t value;
    graph_value was;
} kept_value;

static kept_value *copy_outputs(const struct graph *g, const graph_node *n, struct arena *a)
{
    kept_value *list = arena_array(a, (size_t)n->info.output_count + 1, sizeof *list);

    for (uint32_t o = 0; list != NULL && o < n->info.output_count; o++) {
        list[o].value = n->info.outputs[o];
        if (list[o].value != INLAY_NONE)
            list[o].was = g->values[list[o].value];
    }
    return list;
}

/* Infers the node's outputs without what the file declares of them, which may be wrong. */
static inlay_status infer_alone(struct graph *g, const graph_node *n, struct arena *a)
{
    graph_value **out = arena_array(a, (size_t)n->info.output_count + 1, sizeof(graph_value *));
    inlay_status status = INLAY_OUT_OF_MEMORY;

    for (uint32_t o = 0; out != NULL && o < n->info.output_count; o++)
        out[o] = n->info.outputs[o] == INLAY_NONE ? NULL : &g->values[n->info.outputs[o]];
    if (out != NULL)
        status = graph_infer_apart(g, n, out, &g->model->arena, NULL);
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

static inlay_status infer_from(struct graph *g, uint32_t first)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = first; status == INLAY_OK && i < g->node_count; i++)
        if (g->nodes[i]->schema == NULL && g->nodes[i]->custom == NULL)
            status = graph_bind_node(g, g->nodes[i], NULL);
    return status == INLAY_OK ? graph_infer_from(g, first, NULL) : status;
}

/* What is read in the place of v. */
static uint32_t read_for(uint32_t v, const type_guard_forward *forwards, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (forwards[i].from == v)
            return forwards[i].to;
    return v;
}

inlay_status type_guard_nodes(struct graph *g, uint32_t first, const graph_node *old,
                              const type_guard_forward *forwards, uint32_t forward_count, inlay_diag *diag,
                              bool *out_done)
{
    struct arena a = { 0 };
    kept_value *before = copy_outputs(g, old, &a), *known = NULL;
    inlay_status status = before == NULL ? INLAY_OUT_OF_MEMORY : INLAY_OK;
    bool differs = false;

    if (status == INLAY_OK && g->model->trusts_file)
        status = infer_alone(g, old, &a);
    if (status == INLAY_OK)
        known = copy_outputs(g, old, &a);
    if (known != NULL)
        status = infer_from(g, first);
    else
        status = INLAY_OUT_OF_MEMORY;
    for (uint32_t o = 0; status == INLAY_OK && o < old->info.output_count; o++) {
        const uint32_t v = old->info.outputs[o];

        differs |=
            v != INLAY_NONE && type_guard_differs(&known[o].was, &g->values[read_for(v, forwards, forward_count)]);
    }
    *out_done = status == INLAY_OK && !type_guard_refuses(g->model, differs);
    for (uint32_t o = 0; !*out_done && before != NULL && o < old->info.output_count; o++)
        if (before[o].value != INLAY_NONE)
            g->values[before[o].value] = before[o].was;
    if (!*out_done)
        g->node_count = first;
    arena_deinit(&a);
    return status == INLAY_OUT_OF_MEMORY
               ? inlay_fail(diag, status, "no memory to infer what stands for a node of graph '%s'", g->name)
               : INLAY_OK;
}

/* ------------------------------------------------------------------ until the next inference */

typedef struct type_guard_expected {
    struct type_guard_expected *next;
    const struct graph *g;
    const char *pass;
    uint32_t count;
    kept_value list[]; /* [count] */
} type_guard_expected;

static type_guard_expected *expect(pass_ctx *ctx, const struct graph *g, uint32_t most)
{
    type_guard_expected *e = arena_alloc(&ctx->model->arena, sizeof *e + most * sizeof e->list[0]);

    if (e == NULL)
        return NULL;
    *e = (type_guard_expected){ .next = ctx->expected, .g = g, .pass = ctx->pass };
    ctx->expected = e;
    return e;
}

inlay_status type_guard_expect(pass_ctx *ctx, const struct graph *g, const graph_node *n)
{
    type_guard_expected *e = expect(ctx, g, n->info.output_count);

    if (e == NULL)
        return no_memory(ctx->diag, "to spell out node '%s'", n->info.name.data);
    for (uint32_t o = 0; o < n->info.output_count; o++)
        if (n->info.outputs[o] != INLAY_NONE)
            e->list[e->count++] = (kept_value){ n->info.outputs[o], g->values[n->info.outputs[o]] };
    return INLAY_OK;
}

static void expect_graph(pass_ctx *ctx, const struct graph *g)
{
    type_guard_expected *e = expect(ctx, g, g->value_count);

    for (; e != NULL && e->count < g->value_count; e->count++)
        e->list[e->count] = (kept_value){ e->count, g->values[e->count] };
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            expect_graph(ctx, g->nodes[i]->bodies[b].graph);
}

void type_guard_expect_all(pass_ctx *ctx)
{
    expect_graph(ctx, ctx->model->main);
}

inlay_status type_guard_verify(pass_ctx *ctx)
{
    inlay_status status = INLAY_OK;

    for (const type_guard_expected *e = ctx->model->trusts_file ? NULL : ctx->expected; e != NULL; e = e->next)
        for (uint32_t i = 0; i < e->count && status == INLAY_OK; i++) {
            const graph_value *now = &e->g->values[e->list[i].value];

            if (type_guard_refuses(ctx->model, type_guard_differs(&e->list[i].was, now)))
                status = graph_fail(e->g, NULL, now->info.name.data, INLAY_INTERNAL, ctx->diag,
                                    "pass '%s' makes '%.96s' of another type or shape, a mistake of inlay's; report it "
                                    "with the model",
                                    e->pass, now->info.name.data);
        }
    ctx->expected = NULL;
    return status;
}
