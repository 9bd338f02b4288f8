/* Gradient of ai.onnx.preview.training as the operators that compute it: reverse-mode differentiation of what lies
 * between the values that its attributes name.
 *
 *     y = Mul(a, b); da, db = Gradient(a, b; xs = [a, b], y = y)  ->  da = Mul(1, b), db = Mul(1, a)
 *
 * Level 0, and the first of all: names are still those of the file, and what only `y` names is still there. Where y has
 * several elements the derivative is that of their sum. The rules are rows (gradient_rules.c); an operator on the way
 * that has none is an error. Nodes are computed again where the Gradient reads other values than those that are named.
 */
#include "modelkit/gradient.h"
#include "passes/type_guard.h"
#include <string.h>

/* Nodes that all Gradients of a graph may go through together: each may double the graph that the next one is of. */
enum { MOST_NODES = 1 << 18 };

/* ------------------------------------------------------------------ one Gradient */

/* The values that attribute `name` lists, which read the Gradient's inputs from `first` on. */
static inlay_status take_names(struct gradient *f, const char *name, uint32_t first, bool by, uint32_t *out_count,
                               inlay_diag *diag)
{
    const inlay_attr_info *a = graph_attr(f->n, name);

    *out_count = a == NULL ? 0 : a->count;
    for (uint32_t i = 0; i < *out_count; i++) {
        const uint32_t v = names_find(&f->names, a->strings[i].data, (size_t)a->strings[i].bytes);

        if (first + i >= f->n->info.input_count || f->n->info.inputs[first + i] == INLAY_NONE)
            return graph_fail(f->g, f->n, NULL, INLAY_INVALID_MODEL, diag,
                              "it has fewer inputs than xs and zs have names");
        if (v == INLAY_NONE || v >= f->values)
            return graph_fail(f->g, f->n, NULL, INLAY_INVALID_MODEL, diag,
                              "%s has '%.100s', which is no value of the graph", name, a->strings[i].data);
        if (by && !gradient_is_float(f->g->values[v].info.dtype))
            return graph_fail(f->g, f->n, NULL, INLAY_INVALID_MODEL, diag, "xs has '%.100s', which is no float",
                              a->strings[i].data);
        f->now[v] = f->n->info.inputs[first + i];
        f->given[v] = true;
        f->active[v] = by;
    }
    return INLAY_OK;
}

/* What y depends on, back to what is given. *out_ready is false where another Gradient is on the way, to be spelled out
 * first. */
static void find_needed(struct gradient *f, uint32_t y, bool *on_way, bool *out_ready)
{
    *out_ready = true;
    f->needed[y] = true;
    for (uint32_t i = f->nodes; i-- > 0;) {
        const graph_node *n = f->g->nodes[i];

        for (uint32_t o = 0; o < n->info.output_count; o++) {
            const uint32_t v = n->info.outputs[o];

            on_way[i] |= v != INLAY_NONE && f->needed[v] && !f->given[v];
        }
        if (!on_way[i])
            continue;
        *out_ready &= !pass_is_gradient(n) || n == f->n;
        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE)
                f->needed[n->info.inputs[k]] = true;
        for (uint32_t k = 0; k < n->capture_count; k++)
            f->needed[n->captures[k]] = true;
    }
}

/* The node once more, where it reads something else than before. */
static inlay_status repeat(struct gradient *f, const graph_node *n, inlay_diag *diag)
{
    graph_node *copy;

    if (n->body_count > 0)
        return graph_fail(f->g, n, NULL, INLAY_UNSUPPORTED, diag,
                          "Gradient '%s' would have to run its bodies for other "
                          "values",
                          f->n->info.name.data);
    copy = make_node(&f->m, f->g, n->info.domain.data, n->info.op_type.data, n->opset, n->info.inputs,
                     n->info.input_count, n->info.output_count);
    for (uint32_t i = 0; copy != NULL && i < n->own_attr_count; i++)
        f->m.failed |=
            graph_set_attr(f->g, copy, INLAY_AT(inlay_attr_info, n->info.attrs, n->info.attr_stride, i)) != INLAY_OK;
    for (uint32_t i = 0; copy != NULL && i < n->info.input_count; i++)
        if (n->info.inputs[i] != INLAY_NONE)
            ((uint32_t *)(uintptr_t)copy->info.inputs)[i] = f->now[n->info.inputs[i]];
    for (uint32_t o = 0; copy != NULL && o < n->info.output_count; o++) {
        if (n->info.outputs[o] == INLAY_NONE)
            ((uint32_t *)(uintptr_t)copy->info.outputs)[o] = INLAY_NONE;
        else if (!f->given[n->info.outputs[o]])
            f->now[n->info.outputs[o]] = copy->info.outputs[o];
    }
    return INLAY_OK;
}

static inlay_status forward(struct gradient *f, const bool *on_way, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < f->nodes; i++) {
        const graph_node *n = f->g->nodes[i];
        bool active = false, other = false;

        if (!on_way[i])
            continue;
        for (uint32_t k = 0; k < n->info.input_count + n->capture_count; k++) {
            const uint32_t v = k < n->info.input_count ? n->info.inputs[k] : n->captures[k - n->info.input_count];

            active |= gradient_reaches(f, v);
            other |= v != INLAY_NONE && f->now[v] != v;
        }
        for (uint32_t o = 0; o < n->info.output_count; o++) {
            const uint32_t v = n->info.outputs[o];

            if (v != INLAY_NONE && !f->given[v])
                f->active[v] = active && gradient_is_float(f->g->values[v].info.dtype);
        }
        if (other)
            INLAY_TRY(repeat(f, n, diag));
    }
done:
    return status;
}

/* The derivatives become the node's outputs. */
static void write_outputs(struct gradient *f, uint32_t count)
{
    const inlay_attr_info *xs = graph_attr(f->n, "xs");

    for (uint32_t o = 0; o < count && o < f->n->info.output_count; o++) {
        const uint32_t x = names_find(&f->names, xs->strings[o].data, (size_t)xs->strings[o].bytes);
        graph_node *last;

        if (f->n->info.outputs[o] == INLAY_NONE)
            continue;
        f->dtype = f->g->values[x].info.dtype;
        if (f->slope[x] == INLAY_NONE)
            f->slope[x] = gradient_filled(f, 0, f->now[x]);
        last = make_node(&f->m, f->g, NULL, "Identity", 13, &f->slope[x], 1, 1);
        if (last != NULL)
            ((uint32_t *)(uintptr_t)last->info.outputs)[0] = f->n->info.outputs[o];
    }
}

static inlay_status spell(struct gradient *f, bool *out_done, inlay_diag *diag)
{
    const inlay_attr_info *y = graph_attr(f->n, "y");
    const uint32_t target = y == NULL ? INLAY_NONE : names_find(&f->names, y->s.data, (size_t)y->s.bytes);
    bool *on_way = arena_array(&f->a, (size_t)f->nodes + 1, sizeof *on_way);
    uint32_t xs, zs;
    inlay_status status = INLAY_OK;

    if (f->m.failed || on_way == NULL)
        return INLAY_OUT_OF_MEMORY;
    if (target == INLAY_NONE || target >= f->values || !gradient_is_float(f->g->values[target].info.dtype))
        return graph_fail(f->g, f->n, NULL, INLAY_INVALID_MODEL, diag, "y is '%.100s', which is no float of the graph",
                          y == NULL ? "" : y->s.data);
    INLAY_TRY(take_names(f, "zs", 0, false, &zs, diag)); /* to count them; the next two set them right */
    INLAY_TRY(take_names(f, "xs", 0, true, &xs, diag));
    INLAY_TRY(take_names(f, "zs", xs, false, &zs, diag));
    find_needed(f, target, on_way, out_done);
    if (!*out_done)
        return INLAY_OK;
    INLAY_TRY(forward(f, on_way, diag));
    f->dtype = f->g->values[target].info.dtype;
    if (f->active[target])
        f->slope[target] = gradient_filled(f, 1, f->now[target]);
    for (uint32_t i = f->nodes; i-- > 0;) {
        const graph_node *n = f->g->nodes[i];
        const uint32_t out = n->info.output_count > 0 ? n->info.outputs[0] : INLAY_NONE;

        if (on_way[i] && gradient_reaches(f, out) && !f->given[out] && f->slope[out] != INLAY_NONE)
            INLAY_TRY(gradient_back(f, n, diag));
    }
    write_outputs(f, xs);
done:
    return status;
}

static bool begin(struct gradient *f)
{
    f->nodes = f->g->node_count;
    f->values = f->g->value_count;
    f->now = arena_array(&f->a, (size_t)f->values + 1, sizeof *f->now);
    f->slope = arena_array(&f->a, (size_t)f->values + 1, sizeof *f->slope);
    f->active = arena_array(&f->a, (size_t)f->values + 1, sizeof *f->active);
    f->needed = arena_array(&f->a, (size_t)f->values + 1, sizeof *f->needed);
    f->given = arena_array(&f->a, (size_t)f->values + 1, sizeof *f->given);
    if (f->now == NULL || f->slope == NULL || f->active == NULL || f->needed == NULL || f->given == NULL)
        return false;
    for (uint32_t v = 0; v < f->values; v++) {
        const inlay_str *name = &f->g->values[v].info.name;

        if (name->bytes > 0 && !names_add(&f->names, name->data, (size_t)name->bytes, v, NULL))
            return false;
        f->now[v] = v;
        f->slope[v] = INLAY_NONE;
    }
    return true;
}

/* One Gradient of the graph that reads no other's results; then all is sorted and inferred anew. */
static inlay_status visit(pass_ctx *ctx, struct graph *g, bool *changed)
{
    inlay_status status = INLAY_OK;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < g->node_count && status == INLAY_OK; i++) {
        struct gradient f = { .m = { .ctx = ctx, .like = g->nodes[i] }, .g = g, .n = g->nodes[i] };
        bool ready = false;

        if (!pass_is_gradient(f.n))
            continue;
        seen += g->node_count;
        f.m.failed = !begin(&f);
        status = spell(&f, &ready, ctx->diag);
        arena_deinit(&f.a);
        names_deinit(&f.names);
        if (status == INLAY_OUT_OF_MEMORY || (status == INLAY_OK && f.m.failed))
            return inlay_fail(ctx->diag, INLAY_OUT_OF_MEMORY, "no memory to spell out node '%s'", f.n->info.name.data);
        if (status == INLAY_OK && ready)
            status = type_guard_expect(ctx, g, f.n);
        if (status != INLAY_OK || !ready)
            continue;
        pass_count(ctx, g, f.n, "the derivatives of the nodes that it names");
        memmove(g->nodes + i, g->nodes + i + 1, (g->node_count - i - 1) * sizeof *g->nodes);
        g->node_count--;
        *changed = true;
        if (seen > MOST_NODES)
            return graph_fail(g, NULL, NULL, INLAY_LIMIT_EXCEEDED, ctx->diag,
                              "its gradients go through more than %d nodes", (int)MOST_NODES);
        INLAY_TRY(graph_bind(ctx->model, NULL, ctx->diag));
        INLAY_TRY(graph_finish(ctx->model->main, ctx->diag));
        INLAY_TRY(graph_infer(ctx->model, ctx->diag));
        i = INLAY_NONE; /* the order is another: from the first again */
    }
done:
    return status;
}

inlay_status gradient_spell_out(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
