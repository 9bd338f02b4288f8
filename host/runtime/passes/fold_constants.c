/* Nodes that read constants only are computed once, through whichever provider offers them. Weights of 8 bits that are
 * dequantized wait for those who would rather have the integers (quantized_ops): fold_weights takes what they leave.
 * Those of products stay, where a provider reads them packed: as floats they would be up to 16 times as large. */
#include "base/checked.h"
#include "base/element.h"
#include "passes/type_guard.h"
#include "passes/same_body.h"
#include <string.h>

static bool is_constant(const struct graph *g, uint32_t v)
{
    return v == INLAY_NONE || (g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0;
}

static bool can_fold(const struct graph *g, const graph_node *n)
{
    if (graph_node_is_random(n) || graph_node_is_host(g, n) || n->info.output_count == 0 ||
        strcmp(n->info.op_type.data, "SparseToDense") == 0) /* sparse_constants has it */
        return false;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (!is_constant(g, n->info.inputs[i]))
            return false;
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE && (g->values[n->info.outputs[i]].info.dtype == INLAY_STRING ||
                                                 g->values[n->info.outputs[i]].info.dtype == INLAY_UNDEFINED))
            return false;
    return true;
}

/* Weights of 8 bits that become floats. */
static bool is_weights(const struct graph *g, const graph_node *n)
{
    const inlay_value_info *x =
        n->info.input_count == 0 || n->info.inputs[0] == INLAY_NONE ? NULL : &g->values[n->info.inputs[0]].info;

    return pass_is_op(n, "DequantizeLinear") && x != NULL && x->rank >= 2 &&
           (x->dtype == INLAY_UINT8 || x->dtype == INLAY_INT8);
}

/* No result is larger than what it is made from by more than fold_max_bytes: Expand and its kin make much out of
 * little, and take no longer to do so than memory takes to bring it. But floats of narrow constants that nobody reads
 * packed are made once, since making them in each run takes longer than reading them (README). */
static uint64_t size_limit(const pass_ctx *ctx, const struct graph *g, const graph_node *n)
{
    const uint64_t times = pass_is_op(n, "DequantizeLinear") || pass_is_op(n, "Cast") ? 16 : 1;
    uint64_t bytes = ctx->fold_max_bytes;

    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (n->info.inputs[i] != INLAY_NONE)
            bytes += times * g->values[n->info.inputs[i]].info.data_bytes;
    return bytes;
}

/* Inference again, now that what the node reads is constant. *out_same is false, and all as it was, where an output is
 * of another shape than before: it waits for the inference of the whole model. */
static inlay_status infer_now(pass_ctx *ctx, struct graph *g, const graph_node *n, struct arena *scratch,
                              bool *out_same)
{
    const inlay_value_info **in = arena_array(scratch, (size_t)n->info.input_count + 1, sizeof *in);
    inlay_value_info **out = arena_array(scratch, (size_t)n->info.output_count + 1, sizeof *out);
    graph_value *made = arena_array(scratch, (size_t)n->info.output_count + 1, sizeof *made);
    bool differs = false;
    inlay_status status = INLAY_OK;

    if (in == NULL || out == NULL || made == NULL)
        return no_memory(ctx->diag, "to infer shapes");
    for (uint32_t i = 0; i < n->info.input_count; i++)
        in[i] = n->info.inputs[i] == INLAY_NONE ? NULL : &g->values[n->info.inputs[i]].info;
    for (uint32_t i = 0; i < n->info.output_count; i++) {
        if (n->info.outputs[i] == INLAY_NONE)
            continue;
        made[i] = g->values[n->info.outputs[i]];
        out[i] = &made[i].info;
    }
    INLAY_TRY(graph_infer_node(ctx->model, n, in, out, &ctx->model->arena, ctx->diag));
    for (uint32_t i = 0; i < n->info.output_count; i++)
        differs |= out[i] != NULL && type_guard_differs(&g->values[n->info.outputs[i]], &made[i]);
    *out_same = !type_guard_refuses(ctx->model, differs);
    for (uint32_t i = 0; *out_same && i < n->info.output_count; i++)
        if (out[i] != NULL)
            g->values[n->info.outputs[i]] = made[i];
done:
    return status;
}

/* ------------------------------------------------------------------ what was computed before
 *
 * The branches of an If often hold the same node on the same weights, which lie in one place. */

typedef struct pass_folded {
    struct pass_folded *next;
    const graph_node *node;
    const inlay_value_info *inputs; /* [input_count] as they were */
    inlay_tensor_view result;
} pass_folded;

static const inlay_value_info *copy_inputs(const struct graph *g, const graph_node *n, struct arena *a)
{
    inlay_value_info *list = arena_array(a, (size_t)n->info.input_count + 1, sizeof *list);

    for (uint32_t i = 0; list != NULL && i < n->info.input_count; i++)
        if (n->info.inputs[i] != INLAY_NONE)
            list[i] = g->values[n->info.inputs[i]].info;
    return list;
}

static bool same_input(const inlay_value_info *a, const inlay_value_info *b)
{
    if (a->data != b->data || a->data_bytes != b->data_bytes || a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dims[d].value != b->dims[d].value)
            return false;
    return true;
}

enum { REMEMBERED_BYTES = 256 << 10 };

/* A large result of the same operator and attributes on constants that lie in the same place; NULL: none. */
static const inlay_tensor_view *find_folded(const pass_ctx *ctx, const struct graph *g, const graph_node *n)
{
    for (const pass_folded *f = ctx->folded; f != NULL; f = f->next) {
        const graph_node *m = f->node;
        bool same = m->row == n->row && m->custom == n->custom && (m->row != NULL || m->custom != NULL) &&
                    m->info.input_count == n->info.input_count && n->info.output_count == 1 &&
                    g->values[n->info.outputs[0]].info.dtype == f->result.dtype;

        for (uint32_t i = 0; same && i < n->info.input_count; i++)
            same = n->info.inputs[i] == INLAY_NONE ? f->inputs[i].data == NULL
                                                   : same_input(&f->inputs[i], &g->values[n->info.inputs[i]].info);
        if (same && same_attrs(n, m))
            return &f->result;
    }
    return NULL;
}

/* No memory: the next one is computed, too. */
static void remember_folded(pass_ctx *ctx, const struct graph *g, const graph_node *n, const inlay_tensor_view *result)
{
    struct arena *a = &ctx->model->arena;
    pass_folded *f;

    if (result->bytes < REMEMBERED_BYTES || n->info.output_count != 1 || (f = arena_alloc(a, sizeof *f)) == NULL)
        return;
    *f = (pass_folded){
        .next = ctx->folded, .node = arena_copy(a, n, sizeof *n), .inputs = copy_inputs(g, n, a), .result = *result
    };
    f->result.dims = arena_copy(a, result->dims, result->rank * sizeof *result->dims);
    if (f->node != NULL && f->inputs != NULL && f->result.dims != NULL)
        ctx->folded = f;
}

/* ------------------------------------------------------------------ folding */

/* What was read of the file need not stay in memory; whoever wants it still brings it back. */
static void forget_inputs(const struct graph *g, const graph_node *n)
{
    enum { LARGE = 1 << 18 };

    for (uint32_t i = 0; i < n->info.input_count; i++) {
        const inlay_value_info *v = n->info.inputs[i] == INLAY_NONE ? NULL : &g->values[n->info.inputs[i]].info;

        if (v != NULL && v->data_bytes >= LARGE)
            graph_blob_forget(g->model, v->data, (size_t)v->data_bytes);
    }
}

/* Is a result of the type and shape that inference knows? A provider may be wrong about it, which a run will tell. */
static bool fits(const graph_value *v, const inlay_tensor_view *t)
{
    const inlay_value_info *info = &v->info;

    if (t->dtype != info->dtype || (info->rank != INLAY_RANK_UNKNOWN && t->rank != info->rank))
        return false;
    for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d < t->rank; d++)
        if (info->dims[d].kind == INLAY_DIM_FIXED && info->dims[d].value != t->dims[d])
            return false;
    return true;
}

/* The result as a constant of the graph. */
static bool set_result(pass_ctx *ctx, struct graph *g, uint32_t v, inlay_tensor_view *t)
{
    bool done;

    if (t->bytes < GRAPH_LARGE_CONSTANT || !graph_blob_owns(ctx->model, t->data)) {
        void *data = graph_blob_alloc(ctx->model, t->bytes > 0 ? (size_t)t->bytes : 1);

        if (data != NULL && t->bytes > 0)
            memcpy(data, t->data, (size_t)t->bytes);
        t->data = data;
    }
    return t->data != NULL &&
           type_guard_constant(g, v, t->dtype, t->rank, t->dims, t->data, t->bytes, &done) == INLAY_OK && done;
}

/* Integer i of input k of the node, a constant. */
static bool integer_of(const struct graph *g, const graph_node *n, uint32_t k, uint32_t i, int64_t *out)
{
    const inlay_value_info *v = &g->values[n->info.inputs[k]].info;

    return v->rank == 1 && (int64_t)i < v->dims[0].value && element_integer(v->dtype, v->data, i, out);
}

static bool has_input(const graph_node *n, uint32_t k)
{
    return k < n->info.input_count && n->info.inputs[k] != INLAY_NONE;
}

/* Is what a Slice (ONNX 10 and later) takes of x one piece of memory? Then all axes but one are whole, and those ahead
 * of it have one element. */
static bool is_piece(const struct graph *g, const graph_node *n, const inlay_value_info *x, const inlay_value_info *y,
                     uint64_t *out_offset)
{
    int64_t axis, start, step, before = 1, inner = 1;
    uint32_t cut = 0;
    bool found;

    if (!pass_is_op(n, "Slice") || n->info.since_version < 10 || !has_input(n, 1) || x->rank != y->rank)
        return false;
    while (cut < x->rank && x->dims[cut].value == y->dims[cut].value)
        before *= x->dims[cut++].value;
    for (uint32_t d = cut + 1; d < x->rank; d++) {
        if (x->dims[d].value != y->dims[d].value)
            return false;
        inner *= x->dims[d].value;
    }
    *out_offset = 0;
    found = cut == x->rank; /* nothing is cut away */
    for (uint32_t i = 0; integer_of(g, n, 1, i, &start); i++) {
        axis = i;
        step = 1;
        if ((has_input(n, 3) && !integer_of(g, n, 3, i, &axis)) ||
            (has_input(n, 4) && !integer_of(g, n, 4, i, &step)) || step != 1)
            return false;
        axis += axis < 0 ? (int64_t)x->rank : 0;
        if (axis < 0 || axis >= (int64_t)x->rank)
            return false;
        if (axis != (int64_t)cut)
            continue;
        start += start < 0 ? x->dims[cut].value : 0;
        start = start < 0 ? 0 : start;
        if (before != 1 || y->dims[cut].value < 1 || start > x->dims[cut].value - y->dims[cut].value)
            return false;
        *out_offset = (uint64_t)start * (uint64_t)inner * (inlay_dtype_bits(x->dtype) / 8);
        found = true;
    }
    return found && inlay_dtype_bits(x->dtype) % 8 == 0;
}

/* The same elements under another shape, or some of them that lie together, stay where they are. *out_done: the node
 * was one of those. */
static inlay_status fold_view(struct graph *g, const graph_node *n, struct arena *scratch, bool *out_done)
{
    const bool view = pass_is_among(n, "Reshape Flatten Squeeze Unsqueeze Identity");
    const inlay_value_info *x, *y;
    uint64_t offset = 0;
    int64_t *dims, count = 1;
    size_t bytes;

    *out_done = false;
    if ((!view && !pass_is_op(n, "Slice")) || n->info.output_count != 1 || !has_input(n, 0) ||
        n->info.outputs[0] == INLAY_NONE)
        return INLAY_OK;
    x = &g->values[n->info.inputs[0]].info;
    y = &g->values[n->info.outputs[0]].info;
    if (x->dtype != y->dtype || x->data_bytes == 0 || y->rank > INLAY_MAX_RANK)
        return INLAY_OK;
    dims = arena_array(scratch, (size_t)y->rank + 1, sizeof *dims);
    if (dims == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t d = 0; d < y->rank; d++) {
        if (y->dims[d].kind != INLAY_DIM_FIXED)
            return INLAY_OK;
        dims[d] = y->dims[d].value;
    }
    if (!dims_count(dims, y->rank, &count) || !dtype_bytes(y->dtype, count, &bytes) || bytes == 0 ||
        (view ? bytes != x->data_bytes
              : !is_piece(g, n, x, y, &offset) || offset > x->data_bytes || bytes > x->data_bytes - offset))
        return INLAY_OK;
    return type_guard_constant(g, n->info.outputs[0], x->dtype, y->rank, dims, (const char *)x->data + offset, bytes,
                               out_done);
}

static inlay_status fold(pass_ctx *ctx, struct graph *g, graph_node *n, struct arena *scratch, bool *out_folded)
{
    inlay_tensor_view *results = arena_array(scratch, (size_t)n->info.output_count + 1, sizeof *results);
    inlay_diag quiet = INLAY_DIAG_INIT;
    bool same = false;
    inlay_status status = infer_now(ctx, g, n, scratch, &same);
    const inlay_tensor_view *before;
    uint32_t k = 0;

    *out_folded = false;
    if (status != INLAY_OK || !same)
        return status;
    if (results == NULL || fold_view(g, n, scratch, out_folded) != INLAY_OK)
        return no_memory(ctx->diag, "to fold node '%s'", n->info.name.data);
    if (*out_folded)
        return INLAY_OK;
    before = find_folded(ctx, g, n);
    if (before != NULL)
        results[0] = *before;
    else
        status = ctx->fold(ctx->fold_ctx, g, n, size_limit(ctx, g, n), results, scratch, &quiet);
    if (before == NULL)
        forget_inputs(g, n);
    if (status == INLAY_OUT_OF_MEMORY)
        return inlay_fail(ctx->diag, status, "no memory to fold node '%s'", n->info.name.data);
    if (status != INLAY_OK)
        return INLAY_OK; /* the run will tell, if the run gets there at all: the node may stand in a dead branch */
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE && !fits(&g->values[n->info.outputs[i]], &results[k++]))
            return INLAY_OK;
    k = 0;
    for (uint32_t i = 0; i < n->info.output_count; i++) {
        if (n->info.outputs[i] == INLAY_NONE)
            continue;
        if (!set_result(ctx, g, n->info.outputs[i], &results[k]))
            return no_memory(ctx->diag, "to fold node '%s'", n->info.name.data);
        k++;
    }
    if (before == NULL && k == 1)
        remember_folded(ctx, g, n, &results[0]);
    *out_folded = true;
    return INLAY_OK;
}

static inlay_status visit(pass_ctx *ctx, struct graph *g, bool weights, bool *changed)
{
    struct arena scratch = { 0 };
    bool *drop = arena_array(&ctx->model->arena, (size_t)g->node_count + 1, sizeof *drop);
    inlay_status status = INLAY_OK;
    const bool *packed = pass_packed_weights(ctx, g, &ctx->model->arena);
    bool any = false;

    if (drop == NULL)
        return no_memory(ctx->diag, "to fold constants");
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (!can_fold(g, g->nodes[i]) || is_weights(g, g->nodes[i]) != weights || (packed != NULL && packed[i]) ||
            !pass_may(ctx))
            continue;
        INLAY_TRY(fold(ctx, g, g->nodes[i], &scratch, &drop[i]));
        any |= drop[i];
        if (drop[i])
            pass_count(ctx, g, g->nodes[i], "is constant");
        arena_reset(&scratch);
    }
    if (any)
        pass_drop_nodes(g, drop);
    *changed |= any;
done:
    arena_deinit(&scratch);
    return status;
}

static inlay_status visit_others(pass_ctx *ctx, struct graph *g, bool *changed)
{
    return visit(ctx, g, false, changed);
}

static inlay_status visit_weights(pass_ctx *ctx, struct graph *g, bool *changed)
{
    return visit(ctx, g, true, changed);
}

inlay_status pass_fold_constants(pass_ctx *ctx, bool *out_changed)
{
    return ctx->fold == NULL ? INLAY_OK : pass_each_graph(ctx, ctx->model->main, visit_others, out_changed);
}

inlay_status pass_fold_weights(pass_ctx *ctx, bool *out_changed)
{
    return ctx->fold == NULL ? INLAY_OK : pass_each_graph(ctx, ctx->model->main, visit_weights, out_changed);
}
