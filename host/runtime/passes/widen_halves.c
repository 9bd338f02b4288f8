/* Products of float16 and bfloat16 are made of floats, where a provider on the CPU is fast at those:
 *
 *     MatMul(a, b)  ->  Cast(MatMul(Cast(a), Cast(b)))        Conv, ConvTranspose, Gemm
 *
 * What stands behind a product follows, one operator after the other, and reads floats that were never rounded; only
 * what leaves is. So nothing is less exact, and what overflows float16 between two operators does not become infinity.
 *
 * Weights of few bits whose scales are such have scales of floats likewise, and products by them are of floats at every
 * level: providers that read such weights as they are do so with floats.
 *
 *     DequantizeLinear(w, scale)  ->  Cast(DequantizeLinear(w, Cast(scale)))
 */
#include "base/element.h"
#include "passes/rewrite.h"
#include <string.h>

enum { MOST_INPUTS = 64 };

static const char name[] = "widen_halves";

/* Operators of one type of floats, which their first output has, too. */
static const char followers[] =
    "Abs Add AveragePool BatchNormalization Clip Concat Div Elu Erf Exp Flatten Gelu GlobalAveragePool "
    "HardSigmoid HardSwish Identity InstanceNormalization LayerNormalization LeakyRelu Log Max MaxPool "
    "Min Mish Mul Neg PRelu Pad Pow ReduceMax ReduceMean ReduceSum Relu Reshape Resize Sigmoid Slice "
    "Softmax Softplus Sqrt Squeeze Sub Tanh Transpose Unsqueeze Where";

static bool is_narrow(const struct rewrite *w, uint32_t v)
{
    return v != INLAY_NONE && (rw_info(w, v)->dtype == INLAY_FLOAT16 || rw_info(w, v)->dtype == INLAY_BFLOAT16);
}

/* Is v made by DequantizeLinear of a constant? */
static bool is_weights(const struct rewrite *w, uint32_t v)
{
    const graph_node *back = rw_maker_op(w, v, "DequantizeLinear");

    return back != NULL && rw_is_constant(w, rw_input(w, back, 0));
}

/* The float that was rounded to v by this pass, or behind weights of few bits; INLAY_NONE: it is none. */
static uint32_t unrounded(const struct rewrite *w, uint32_t v)
{
    const graph_node *cast = rw_maker_op(w, v, "Cast");
    const uint32_t from = cast == NULL || !is_narrow(w, v) ? INLAY_NONE : rw_input(w, cast, 0);

    return from != INLAY_NONE && rw_info(w, from)->dtype == INLAY_FLOAT &&
                   ((cast->made_by != NULL && strcmp(cast->made_by, name) == 0) || is_weights(w, from))
               ? from
               : INLAY_NONE;
}

static bool is_wanted(const struct rewrite *w, const graph_node *n)
{
    const uint32_t y = n->info.output_count > 0 ? n->info.outputs[0] : INLAY_NONE;

    if (!is_narrow(w, y) || n->body_count > 0 || n->info.input_count > MOST_INPUTS)
        return false;
    for (uint32_t i = 1; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE)
            return false;
    if (pass_is_among(n, "Conv ConvTranspose Gemm MatMul"))
        return !w->ctx->lowers || (n->info.input_count > 1 && is_weights(w, unrounded(w, rw_input(w, n, 1))));
    if (w->ctx->lowers)
        return false;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (unrounded(w, rw_input(w, n, i)) != INLAY_NONE)
            return pass_is_among(n, followers);
    return false;
}

/* Cast(v) to a type; NULL: no memory. */
static graph_node *make_cast(struct rewrite *w, const graph_node *like, uint32_t v, inlay_dtype to)
{
    graph_node *cast = rw_make(w, "Cast", 13, like, &v, 1, 1);

    return cast == NULL || graph_set_attr_int(w->g, cast, "to", (int64_t)to) != INLAY_OK ? NULL : cast;
}

/* Copies what the node says itself; the rest are defaults. NULL stays. */
static graph_node *with_attrs(struct rewrite *w, const graph_node *n, graph_node *fresh)
{
    for (uint32_t i = 0; fresh != NULL && i < n->own_attr_count; i++)
        if (graph_set_attr(w->g, fresh, INLAY_AT(inlay_attr_info, n->info.attrs, n->info.attr_stride, i)) != INLAY_OK)
            return NULL;
    return fresh;
}

/* A constant of floats that are what v is; INLAY_NONE: no memory. */
static uint32_t as_floats(struct rewrite *w, uint32_t v)
{
    const inlay_value_info *info = rw_info(w, v);
    const uint64_t count = info->data_bytes / sizeof(uint16_t);
    float *floats = graph_blob_alloc(w->g->model, count > 0 ? (size_t)count * sizeof *floats : 1);
    int64_t dims[INLAY_MAX_RANK];

    for (uint32_t d = 0; d < info->rank; d++)
        dims[d] = info->dims[d].value;
    for (uint64_t i = 0; floats != NULL && i < count; i++) {
        double x = 0;

        (void)element_number(info->dtype, info->data, (int64_t)i, &x, NULL);
        floats[i] = (float)x;
    }
    return floats == NULL ? INLAY_NONE
                          : rw_constant_blob(w, INLAY_FLOAT, info->rank, dims, floats, count * sizeof *floats);
}

/* Products of elements of up to 8 bits by such scales are exact as floats, and rounded once either way. */
static inlay_status match_scales(struct rewrite *w, graph_node *n)
{
    const uint32_t x = rw_input(w, n, 0), scale = rw_input(w, n, 1);
    uint32_t inputs[3];
    graph_node *fresh, *cast;
    inlay_status status;

    if (!is_narrow(w, scale) || !rw_is_constant(w, scale) || !rw_is_constant(w, x) || n->info.input_count > 3 ||
        rw_info(w, x)->dtype == INLAY_INT16 || rw_info(w, x)->dtype == INLAY_UINT16 ||
        rw_info(w, x)->dtype == INLAY_INT32 || rw_info(w, n->info.outputs[0])->dtype != rw_info(w, scale)->dtype ||
        rw_info(w, scale)->rank > INLAY_MAX_RANK || rw_attr_int(n, "output_dtype", 0) != 0)
        return INLAY_OK;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        inputs[i] = i == 1 ? as_floats(w, scale) : rw_input(w, n, i);
    fresh = inputs[1] == INLAY_NONE
                ? NULL
                : with_attrs(w, n, rw_make(w, "DequantizeLinear", n->opset, n, inputs, n->info.input_count, 1));
    if (fresh == NULL)
        return rw_no_memory(w);
    status = rw_insert(w, fresh, INLAY_FLOAT);
    if (status != INLAY_OK)
        return status;
    cast = make_cast(w, n, fresh->info.outputs[0], rw_info(w, scale)->dtype);
    return cast == NULL ? rw_no_memory(w) : rw_replace(w, n, cast);
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    uint32_t inputs[MOST_INPUTS];
    graph_node *fresh, *cast;
    inlay_status status;
    inlay_dtype dtype;
    bool done;

    if (pass_is_op(n, "DequantizeLinear"))
        return match_scales(w, n);
    if (pass_is_op(n, "Cast") && rw_info(w, n->info.outputs[0])->dtype == INLAY_FLOAT &&
        is_weights(w, unrounded(w, rw_input(w, n, 0))))
        return rw_forward(w, n->info.outputs[0], unrounded(w, rw_input(w, n, 0)), &done);
    if (!is_wanted(w, n) || rw_is_quantized_later(w, n->info.outputs[0]))
        return INLAY_OK;
    dtype = rw_info(w, n->info.outputs[0])->dtype;
    for (uint32_t i = 0; i < n->info.input_count; i++) {
        inputs[i] = rw_input(w, n, i);
        if (!is_narrow(w, inputs[i]))
            continue;
        if (unrounded(w, inputs[i]) != INLAY_NONE) {
            inputs[i] = unrounded(w, inputs[i]);
            continue;
        }
        cast = make_cast(w, NULL, inputs[i], INLAY_FLOAT);
        if (cast == NULL)
            return rw_no_memory(w);
        status = rw_insert(w, cast, INLAY_FLOAT);
        if (status != INLAY_OK)
            return status;
        inputs[i] = cast->info.outputs[0];
    }
    fresh = with_attrs(w, n, rw_make(w, n->info.op_type.data, n->opset, n, inputs, n->info.input_count, 1));
    status = fresh == NULL ? rw_no_memory(w) : rw_insert(w, fresh, INLAY_FLOAT);
    if (status != INLAY_OK)
        return status;
    cast = make_cast(w, n, fresh->info.outputs[0], dtype);
    return cast == NULL ? rw_no_memory(w) : rw_replace(w, n, cast);
}

/* Files are written with the types that they had. */
inlay_status pass_widen_halves(pass_ctx *ctx, bool *out_changed)
{
    *out_changed = false;
    return ctx->widens_halves && ctx->newest_opset == 0 ? rewrite_each_graph(ctx, match, out_changed) : INLAY_OK;
}
