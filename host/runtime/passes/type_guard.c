#include "passes/type_guard.h"
#include "inlay/check.h"

bool type_guard_differs(const graph_value *a, const graph_value *b)
{
    const inlay_value_info *first = &a->info, *second = &b->info;

    if (first->dtype != INLAY_UNDEFINED && second->dtype != INLAY_UNDEFINED &&
        (first->dtype != second->dtype || first->kind != second->kind))
        return true;
    if (first->kind != INLAY_VALUE_TENSOR || first->rank == INLAY_RANK_UNKNOWN || second->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; first->rank == second->rank && d < first->rank; d++)
        if (first->dims[d].kind == INLAY_DIM_FIXED && second->dims[d].kind == INLAY_DIM_FIXED &&
            first->dims[d].value != second->dims[d].value)
            return true;
    return first->rank != second->rank;
}

bool type_guard_refuses(const graph_model *model, bool differs)
{
    INLAY_CHECK(!differs || model->trusts_file);
    return differs;
}

bool type_guard_keeps(const struct graph *graph, const graph_value *before, uint32_t count)
{
    bool differs = false;

    INLAY_CHECK(count <= graph->value_count);
    for (uint32_t value = 0; value < count; value++)
        differs |= type_guard_differs(&before[value], &graph->values[value]);
    return !type_guard_refuses(graph->model, differs);
}

inlay_status type_guard_constant(struct graph *graph, uint32_t value, inlay_dtype dtype, uint32_t rank,
                                 const int64_t *dims, const void *data, uint64_t bytes, bool *out_done)
{
    const graph_value was = graph->values[value];
    inlay_status status = graph_set_constant(graph, value, dtype, rank, dims, data, bytes);

    INLAY_CHECK(value < graph->value_count);
    *out_done =
        status == INLAY_OK && !type_guard_refuses(graph->model, type_guard_differs(&was, &graph->values[value]));
    if (!*out_done)
        graph->values[value] = was;
    return status;
}

typedef struct kept_value {
    uint32_t value;
    graph_value was;
} kept_value;

static kept_value *copy_outputs(const struct graph *graph, const graph_node *node, struct arena *arena)
{
    kept_value *list = arena_array(arena, (size_t)node->info.output_count + 1, sizeof *list);

    for (uint32_t output = 0; list != NULL && output < node->info.output_count; output++) {
        list[output].value = node->info.outputs[output];
        if (list[output].value != INLAY_NONE)
            list[output].was = graph->values[list[output].value];
    }
    return list;
}

/* Infers the node's outputs without the types that the file declares for them, which may be wrong. */
static inlay_status infer_alone(struct graph *graph, const graph_node *node, struct arena *arena)
{
    graph_value **out = arena_array(arena, (size_t)node->info.output_count + 1, sizeof(graph_value *));
    inlay_status status = INLAY_OUT_OF_MEMORY;

    for (uint32_t output = 0; out != NULL && output < node->info.output_count; output++)
        out[output] = node->info.outputs[output] == INLAY_NONE ? NULL : &graph->values[node->info.outputs[output]];
    if (out != NULL)
        status = graph_infer_detached_node(graph, node, out, &graph->model->arena, NULL);
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

static inlay_status infer_from(struct graph *graph, uint32_t first)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = first; status == INLAY_OK && i < graph->node_count; i++)
        if (graph->nodes[i]->schema == NULL && graph->nodes[i]->custom == NULL)
            status = graph_bind_node(graph, graph->nodes[i], NULL);
    return status == INLAY_OK ? graph_infer_from(graph, first, NULL) : status;
}

/* The value that readers of `value` will read. */
static uint32_t read_for(uint32_t value, const type_guard_forward *forwards, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (forwards[i].from == value)
            return forwards[i].to;
    return value;
}

inlay_status type_guard_nodes(struct graph *graph, uint32_t first, const graph_node *old,
                              const type_guard_forward *forwards, uint32_t forward_count, inlay_diag *diag,
                              bool *out_done)
{
    struct arena arena = { 0 };
    kept_value *before = copy_outputs(graph, old, &arena), *known = NULL;
    inlay_status status = before == NULL ? INLAY_OUT_OF_MEMORY : INLAY_OK;
    bool differs = false;

    INLAY_CHECK(first <= graph->node_count);
    if (status == INLAY_OK && graph->model->trusts_file)
        status = infer_alone(graph, old, &arena);
    if (status == INLAY_OK)
        known = copy_outputs(graph, old, &arena);
    if (known != NULL)
        status = infer_from(graph, first);
    else
        status = INLAY_OUT_OF_MEMORY;
    for (uint32_t output = 0; status == INLAY_OK && output < old->info.output_count; output++) {
        const uint32_t value = old->info.outputs[output];

        differs |= value != INLAY_NONE &&
                   type_guard_differs(&known[output].was, &graph->values[read_for(value, forwards, forward_count)]);
    }
    *out_done = status == INLAY_OK && !type_guard_refuses(graph->model, differs);
    for (uint32_t o = 0; !*out_done && before != NULL && o < old->info.output_count; o++)
        if (before[o].value != INLAY_NONE)
            graph->values[before[o].value] = before[o].was;
    if (!*out_done)
        graph->node_count = first;
    arena_deinit(&arena);
    return status == INLAY_OUT_OF_MEMORY
               ? inlay_fail(diag, status, "no memory to infer the replacement of a node of graph '%s'", graph->name)
               : INLAY_OK;
}

typedef struct type_guard_expected {
    struct type_guard_expected *next;
    const struct graph *graph;
    const char *pass;
    uint32_t count;
    kept_value list[]; /* [count] */
} type_guard_expected;

static type_guard_expected *expect(pass_ctx *ctx, const struct graph *graph, uint32_t most)
{
    type_guard_expected *expected = arena_alloc(&ctx->model->arena, sizeof *expected + most * sizeof expected->list[0]);

    if (expected == NULL)
        return NULL;
    *expected = (type_guard_expected){ .next = ctx->run.expected, .graph = graph, .pass = ctx->run.pass };
    ctx->run.expected = expected;
    return expected;
}

inlay_status type_guard_expect(pass_ctx *ctx, const struct graph *graph, const graph_node *node)
{
    type_guard_expected *expected = expect(ctx, graph, node->info.output_count);

    if (expected == NULL)
        return no_memory(ctx->diag, "to decompose node '%s'", node->info.name.data);
    for (uint32_t output = 0; output < node->info.output_count; output++)
        if (node->info.outputs[output] != INLAY_NONE)
            expected->list[expected->count++] =
                (kept_value){ node->info.outputs[output], graph->values[node->info.outputs[output]] };
    return INLAY_OK;
}

static void expect_graph(pass_ctx *ctx, const struct graph *graph)
{
    type_guard_expected *expected = expect(ctx, graph, graph->value_count);

    for (; expected != NULL && expected->count < graph->value_count; expected->count++)
        expected->list[expected->count] = (kept_value){ expected->count, graph->values[expected->count] };
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            expect_graph(ctx, graph->nodes[i]->bodies[b].graph);
}

void type_guard_expect_all(pass_ctx *ctx)
{
    expect_graph(ctx, ctx->model->main);
}

inlay_status type_guard_verify(pass_ctx *ctx)
{
    inlay_status status = INLAY_OK;

    for (const type_guard_expected *expected = ctx->model->trusts_file ? NULL : ctx->run.expected; expected != NULL;
         expected = expected->next)
        for (uint32_t i = 0; i < expected->count && status == INLAY_OK; i++) {
            const uint32_t value = expected->list[i].value;
            const graph_value *now = &expected->graph->values[value];

            INLAY_CHECK(value < expected->graph->value_count);
            if (type_guard_refuses(ctx->model, type_guard_differs(&expected->list[i].was, now)))
                status =
                    graph_fail(expected->graph, NULL, now->info.name.data, INLAY_INTERNAL, ctx->diag,
                               "pass '%s' changes the type or shape of '%.96s', a bug in inlay; report it with the "
                               "model",
                               expected->pass, now->info.name.data);
        }
    ctx->run.expected = NULL;
    return status;
}
