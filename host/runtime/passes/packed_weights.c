/* Weights of few bits that stay as they are in the file, since a provider reads them packed: which DequantizeLinear are
 * not to be folded. Where it does so for products alone, they have to read integers with one scale for all, for a
 * column, or for a block of a column, past a Transpose; otherwise any, past views. And Casts of halves to float, where
 * a provider makes the floats as it packs them. */
#include "passes/pass.h"
#include <string.h>

enum { LEAST_FLOATS = 1 << 14, LEAST_HALVES = 1 << 16, LOOK_THROUGH = 2, MANY_PIXELS = 64 };
enum { SMALL_TIMES = 16, CACHE_TIMES = 3 }; /* of fold_max_bytes */

static bool is_integer(inlay_dtype t)
{
    return t == INLAY_INT8 || t == INLAY_UINT8 || t == INLAY_INT4 || t == INLAY_UINT4 || t == INLAY_INT2 ||
           t == INLAY_UINT2;
}

static bool is_narrow(inlay_dtype t)
{
    return is_integer(t) || t == INLAY_INT16 || t == INLAY_UINT16 || t == INLAY_FLOAT8E4M3FN ||
           t == INLAY_FLOAT8E4M3FNUZ || t == INLAY_FLOAT8E5M2 || t == INLAY_FLOAT8E5M2FNUZ || t == INLAY_FLOAT4E2M1;
}

/* The nodes that read each value, as lists. */
struct readers {
    uint32_t *first; /* [values] into next, INLAY_NONE */
    uint32_t *next;  /* by number of the read */
    uint32_t *node, *input;
};

static bool find_readers(const struct graph *g, struct readers *r, struct arena *a)
{
    uint32_t count = 0, at = 0;

    for (uint32_t n = 0; n < g->node_count; n++)
        count += g->nodes[n]->info.input_count;
    r->first = arena_array(a, (size_t)g->value_count + 1, sizeof *r->first);
    r->next = arena_array(a, (size_t)count + 1, sizeof *r->next);
    r->node = arena_array(a, (size_t)count + 1, sizeof *r->node);
    r->input = arena_array(a, (size_t)count + 1, sizeof *r->input);
    if (r->first == NULL || r->next == NULL || r->node == NULL || r->input == NULL)
        return false;
    memset(r->first, 0xff, ((size_t)g->value_count + 1) * sizeof *r->first);
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t i = 0; i < g->nodes[n]->info.input_count; i++, at++) {
            const uint32_t v = g->nodes[n]->info.inputs[i];

            if (v == INLAY_NONE)
                continue;
            r->node[at] = n;
            r->input[at] = i;
            r->next[at] = r->first[v];
            r->first[v] = at;
        }
    return true;
}

static int64_t attr_int(const graph_node *n, const char *name, int64_t otherwise)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->kind == INLAY_ATTR_INT ? a->i : otherwise;
}

static bool turns(const graph_node *n)
{
    const inlay_attr_info *a = graph_attr(n, "perm");

    return a == NULL || (a->kind == INLAY_ATTR_INTS && a->count == 2 && a->ints[0] == 1 && a->ints[1] == 0);
}

static bool reads_packed(const struct graph *g, const struct readers *r, uint32_t v, uint32_t axis, bool blocked,
                         bool turned, int depth)
{
    bool any = false;

    if (depth > LOOK_THROUGH || (g->values[v].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return false;
    for (uint32_t at = r->first[v]; at != INLAY_NONE; at = r->next[at]) {
        const graph_node *n = g->nodes[r->node[at]];
        bool turn = turned;

        any = true;
        if (r->input[at] == 0 && pass_is_op(n, "Transpose") && turns(n)) {
            if (!reads_packed(g, r, n->info.outputs[0], axis, blocked, !turned, depth + 1))
                return false;
            continue;
        }
        if (r->input[at] != 1 || (!pass_is_op(n, "MatMul") && !pass_is_op(n, "Gemm")))
            return false;
        if (pass_is_op(n, "Gemm")) {
            const inlay_attr_info *alpha = graph_attr(n, "alpha");

            if (attr_int(n, "transA", 0) != 0 || (alpha != NULL && (alpha->kind != INLAY_ATTR_FLOAT || alpha->f != 1)))
                return false;
            turn = turned != (attr_int(n, "transB", 0) != 0);
        }
        if (axis < 2 && blocked != (axis == (turn ? 1 : 0)))
            return false;
    }
    return any;
}

/* Does input i of n have weights? */
static bool is_weights(const graph_node *n, uint32_t i)
{
    return (i == 1 && pass_is_among(n, "MatMul Gemm Conv ConvTranspose")) ||
           ((i == 1 || i == 2) && pass_is_among(n, "LSTM GRU RNN"));
}

/* Codes that become floats on the way from the cache to the core. */
static bool is_code(inlay_dtype t)
{
    return t == INLAY_INT8 || t == INLAY_UINT8 || t == INLAY_INT4 || t == INLAY_UINT4;
}

static bool all_ones(const graph_node *n, const char *name)
{
    const inlay_attr_info *a = graph_attr(n, name);

    for (uint32_t i = 0; a != NULL && a->kind == INLAY_ATTR_INTS && i < a->count; i++)
        if (a->ints[i] != 1)
            return false;
    return true;
}

/* Is each weight used for many pixels, as far as is known? In front of few, spreading codes costs more than the sums.
 */
static bool serves_many(const struct graph *g, const graph_node *n)
{
    const inlay_value_info *y = &g->values[n->info.outputs[0]].info;
    int64_t pixels = 1;

    for (uint32_t d = 2; y->rank <= INLAY_MAX_RANK && d < y->rank && pixels < MANY_PIXELS; d++)
        pixels *= y->dims[d].kind == INLAY_DIM_FIXED ? y->dims[d].value : 0;
    return pixels >= MANY_PIXELS;
}

/* Most bytes of floats that serve n better than these codes do, as measured (README): windows of 3x3 are transformed
 * once as floats and in each run as codes, and floats of a recurrence that fit into the second-level cache are there
 * at each step. Of other types all floats of windows and recurrences are made in each run. */
static uint64_t small_bytes(const pass_ctx *ctx, const struct graph *g, const graph_node *n,
                            const inlay_value_info *weights, bool code)
{
    const uint64_t some = ctx->fold_max_bytes * SMALL_TIMES;
    bool window = false, square = weights->rank == 4;

    if (weights->rank > INLAY_MAX_RANK) /* just made: it is asked again when shapes are known */
        return 0;
    if (pass_is_among(n, "LSTM GRU RNN"))
        return code ? ctx->fold_max_bytes * CACHE_TIMES : some;
    for (uint32_t d = 2; weights->rank <= INLAY_MAX_RANK && d < weights->rank; d++) {
        window |= weights->dims[d].value > 1;
        square &= weights->dims[d].value == 3;
    }
    if (pass_is_op(n, "ConvTranspose") || (pass_is_op(n, "Conv") && attr_int(n, "group", 1) == 1))
        window &= !code || !serves_many(g, n) ||
                  (square && pass_is_op(n, "Conv") && all_ones(n, "strides") && all_ones(n, "dilations"));
    else if (!pass_is_op(n, "Conv"))
        window = false;
    return window ? some : 0;
}

/* Is the value read as weights alone, past views, by nobody who is better off with floats? */
static bool reads_any(const pass_ctx *ctx, const struct graph *g, const struct readers *r, uint32_t v, uint64_t bytes,
                      bool code, int depth)
{
    bool any = false;

    if (depth > LOOK_THROUGH || (g->values[v].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return false;
    for (uint32_t at = r->first[v]; at != INLAY_NONE; at = r->next[at]) {
        const graph_node *n = g->nodes[r->node[at]];
        const bool view = r->input[at] == 0 && pass_is_among(n, "Transpose Reshape Flatten Squeeze Unsqueeze");

        if (view ? !reads_any(ctx, g, r, n->info.outputs[0], bytes, code, depth + 1)
                 : !is_weights(n, r->input[at]) || bytes <= small_bytes(ctx, g, n, &g->values[v].info, code))
            return false;
        any = true;
    }
    return any;
}

static bool stays(const pass_ctx *ctx, const struct graph *g, const struct readers *r, const graph_node *n)
{
    const inlay_value_info *x, *scale;
    int64_t axis = attr_int(n, "axis", 1), count = 1, elements = 1;

    if (!pass_is_op(n, "DequantizeLinear") || n->info.input_count < 2 || n->info.inputs[0] == INLAY_NONE ||
        n->info.inputs[1] == INLAY_NONE || n->info.outputs[0] == INLAY_NONE)
        return false;
    x = &g->values[n->info.inputs[0]].info;
    scale = &g->values[n->info.inputs[1]].info;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (n->info.inputs[i] != INLAY_NONE && (g->values[n->info.inputs[i]].info.flags & INLAY_VALUE_CONSTANT) == 0)
            return false;
    for (uint32_t d = 0; d < x->rank; d++)
        elements *= x->dims[d].value;
    if (!is_narrow(x->dtype) || scale->dtype != INLAY_FLOAT ||
        g->values[n->info.outputs[0]].info.dtype != INLAY_FLOAT || elements < LEAST_FLOATS)
        return false;
    if ((ctx->keeps_weights & 2) != 0)
        return reads_any(ctx, g, r, n->info.outputs[0], (uint64_t)elements * sizeof(float), is_code(x->dtype), 0);
    for (uint32_t d = 0; d < scale->rank; d++)
        count *= scale->dims[d].value;
    axis += axis < 0 ? 2 : 0;
    if (!is_integer(x->dtype) || x->rank != 2 ||
        (count != 1 && (axis < 0 || axis > 1 || scale->rank != (attr_int(n, "block_size", 0) > 0 ? 2u : 1u))))
        return false;
    return reads_packed(g, r, n->info.outputs[0], count == 1 ? 2 : (uint32_t)axis, attr_int(n, "block_size", 0) > 0,
                        false, 0);
}

/* Does what follows a convolution go into its weights (conv_batch_norm, conv_scale)? */
static bool is_scaled(const struct graph *g, const struct readers *r, const graph_node *conv)
{
    for (uint32_t at = r->first[conv->info.outputs[0]]; at != INLAY_NONE; at = r->next[at]) {
        const graph_node *n = g->nodes[r->node[at]];

        for (uint32_t k = 0; pass_is_among(n, "BatchNormalization Mul Div Add Sub") && k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE &&
                (g->values[n->info.inputs[k]].info.flags & INLAY_VALUE_CONSTANT) != 0)
                return true;
    }
    return false;
}

/* Halves that products and convolutions alone read become floats when they are packed, so that nobody ever has all of
 * these floats. */
static bool halves_stay(const pass_ctx *ctx, const struct graph *g, const struct readers *r, const graph_node *n)
{
    const inlay_value_info *x, *y;

    if ((ctx->keeps_weights & 4) == 0 || !pass_is_op(n, "Cast") || n->info.inputs[0] == INLAY_NONE ||
        n->info.outputs[0] == INLAY_NONE)
        return false;
    x = &g->values[n->info.inputs[0]].info;
    y = &g->values[n->info.outputs[0]].info;
    if ((x->flags & INLAY_VALUE_CONSTANT) == 0 || (y->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0 ||
        (x->dtype != INLAY_FLOAT16 && x->dtype != INLAY_BFLOAT16) || y->dtype != INLAY_FLOAT ||
        x->data_bytes / 2 < LEAST_HALVES || r->first[n->info.outputs[0]] == INLAY_NONE)
        return false;
    for (uint32_t at = r->first[n->info.outputs[0]]; at != INLAY_NONE; at = r->next[at]) {
        const graph_node *reader = g->nodes[r->node[at]];
        const bool product = pass_is_op(reader, "MatMul") || pass_is_op(reader, "Gemm");

        if (r->input[at] != 1 || (product ? x->rank != 2 : !pass_is_op(reader, "Conv") || is_scaled(g, r, reader)))
            return false;
    }
    return true;
}

bool *pass_packed_weights(const pass_ctx *ctx, const struct graph *g, struct arena *a)
{
    bool *found = NULL, any = false;
    struct readers r;

    for (uint32_t n = 0; ctx->keeps_weights != 0 && !any && n < g->node_count; n++)
        any = pass_is_op(g->nodes[n], "DequantizeLinear") ||
              ((ctx->keeps_weights & 4) != 0 && pass_is_op(g->nodes[n], "Cast"));
    if (!any || (found = arena_array(a, (size_t)g->node_count + 1, sizeof *found)) == NULL || !find_readers(g, &r, a))
        return NULL;
    for (uint32_t n = 0; n < g->node_count; n++)
        found[n] = stays(ctx, g, &r, g->nodes[n]) || halves_stay(ctx, g, &r, g->nodes[n]);
    return found;
}
