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

static bool is_narrow(const struct rewrite *rewrite, uint32_t value)
{
    return value != INLAY_NONE &&
           (rw_info(rewrite, value)->dtype == INLAY_FLOAT16 || rw_info(rewrite, value)->dtype == INLAY_BFLOAT16);
}

/* Is value made by DequantizeLinear of a constant? */
static bool is_weights(const struct rewrite *rewrite, uint32_t value)
{
    const graph_node *back = rw_maker_op(rewrite, value, "DequantizeLinear");

    return back != NULL && rw_is_constant(rewrite, rw_input(rewrite, back, 0));
}

/* The float that was rounded to value by this pass, or behind weights of few bits; INLAY_NONE: it is none. */
static uint32_t unrounded(const struct rewrite *rewrite, uint32_t value)
{
    const graph_node *cast = rw_maker_op(rewrite, value, "Cast");
    const uint32_t from = cast == NULL || !is_narrow(rewrite, value) ? INLAY_NONE : rw_input(rewrite, cast, 0);

    return from != INLAY_NONE && rw_info(rewrite, from)->dtype == INLAY_FLOAT &&
                   ((cast->made_by != NULL && strcmp(cast->made_by, name) == 0) || is_weights(rewrite, from))
               ? from
               : INLAY_NONE;
}

static bool is_wanted(const struct rewrite *rewrite, const graph_node *node)
{
    const uint32_t output = node->info.output_count > 0 ? node->info.outputs[0] : INLAY_NONE;

    if (!is_narrow(rewrite, output) || node->body_count > 0 || node->info.input_count > MOST_INPUTS)
        return false;
    for (uint32_t i = 1; i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE)
            return false;
    if (pass_is_among(node, "Conv ConvTranspose Gemm MatMul"))
        return !rewrite->ctx->lowers ||
               (node->info.input_count > 1 && is_weights(rewrite, unrounded(rewrite, rw_input(rewrite, node, 1))));
    if (rewrite->ctx->lowers)
        return false;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        if (unrounded(rewrite, rw_input(rewrite, node, i)) != INLAY_NONE)
            return pass_is_among(node, followers);
    return false;
}

/* Cast(value) to a type; NULL: no memory. */
static graph_node *make_cast(struct rewrite *rewrite, const graph_node *like, uint32_t value, inlay_dtype to)
{
    graph_node *cast = rw_make(rewrite, "Cast", 13, like, &value, 1, 1);

    return cast == NULL || graph_set_attr_int(rewrite->graph, cast, "to", (int64_t)to) != INLAY_OK ? NULL : cast;
}

/* Copies what the node says itself; the rest are defaults. NULL stays. */
static graph_node *with_attrs(struct rewrite *rewrite, const graph_node *node, graph_node *fresh)
{
    for (uint32_t i = 0; fresh != NULL && i < node->own_attr_count; i++)
        if (graph_set_attr(rewrite->graph, fresh,
                           INLAY_AT(inlay_attr_info, node->info.attrs, node->info.attr_stride, i)) != INLAY_OK)
            return NULL;
    return fresh;
}

/* A constant of floats that are what value is; INLAY_NONE: no memory. */
static uint32_t as_floats(struct rewrite *rewrite, uint32_t value)
{
    const inlay_value_info *info = rw_info(rewrite, value);
    const uint64_t count = info->data_bytes / sizeof(uint16_t);
    float *floats = graph_blob_alloc(rewrite->graph->model, count > 0 ? (size_t)count * sizeof *floats : 1);
    int64_t dims[INLAY_MAX_RANK];

    for (uint32_t d = 0; d < info->rank; d++)
        dims[d] = info->dims[d].value;
    for (uint64_t i = 0; floats != NULL && i < count; i++) {
        double x = 0;

        (void)element_number(info->dtype, info->data, (int64_t)i, &x, NULL);
        floats[i] = (float)x;
    }
    return floats == NULL ? INLAY_NONE
                          : rw_constant_blob(rewrite, INLAY_FLOAT, info->rank, dims, floats, count * sizeof *floats);
}

/* Products of elements of up to 8 bits by such scales are exact as floats, and rounded once either way. */
static inlay_status match_scales(struct rewrite *rewrite, graph_node *node)
{
    const uint32_t input = rw_input(rewrite, node, 0), scale = rw_input(rewrite, node, 1);
    uint32_t inputs[3];
    graph_node *fresh, *cast;
    inlay_status status;

    if (!is_narrow(rewrite, scale) || !rw_is_constant(rewrite, scale) || !rw_is_constant(rewrite, input) ||
        node->info.input_count > 3 || rw_info(rewrite, input)->dtype == INLAY_INT16 ||
        rw_info(rewrite, input)->dtype == INLAY_UINT16 || rw_info(rewrite, input)->dtype == INLAY_INT32 ||
        rw_info(rewrite, node->info.outputs[0])->dtype != rw_info(rewrite, scale)->dtype ||
        rw_info(rewrite, scale)->rank > INLAY_MAX_RANK || rw_attr_int(node, "output_dtype", 0) != 0)
        return INLAY_OK;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        inputs[i] = i == 1 ? as_floats(rewrite, scale) : rw_input(rewrite, node, i);
    fresh =
        inputs[1] == INLAY_NONE
            ? NULL
            : with_attrs(rewrite, node,
                         rw_make(rewrite, "DequantizeLinear", node->opset, node, inputs, node->info.input_count, 1));
    if (fresh == NULL)
        return rw_no_memory(rewrite);
    status = rw_insert(rewrite, fresh, INLAY_FLOAT);
    if (status != INLAY_OK)
        return status;
    cast = make_cast(rewrite, node, fresh->info.outputs[0], rw_info(rewrite, scale)->dtype);
    return cast == NULL ? rw_no_memory(rewrite) : rw_replace(rewrite, node, cast);
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    uint32_t inputs[MOST_INPUTS];
    graph_node *fresh, *cast;
    inlay_status status;
    inlay_dtype dtype;
    bool done;

    if (pass_is_op(node, "DequantizeLinear"))
        return match_scales(rewrite, node);
    if (pass_is_op(node, "Cast") && rw_info(rewrite, node->info.outputs[0])->dtype == INLAY_FLOAT &&
        is_weights(rewrite, unrounded(rewrite, rw_input(rewrite, node, 0))))
        return rw_forward(rewrite, node->info.outputs[0], unrounded(rewrite, rw_input(rewrite, node, 0)), &done);
    if (!is_wanted(rewrite, node) || rw_is_quantized_later(rewrite, node->info.outputs[0]))
        return INLAY_OK;
    dtype = rw_info(rewrite, node->info.outputs[0])->dtype;
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        inputs[i] = rw_input(rewrite, node, i);
        if (!is_narrow(rewrite, inputs[i]))
            continue;
        if (unrounded(rewrite, inputs[i]) != INLAY_NONE) {
            inputs[i] = unrounded(rewrite, inputs[i]);
            continue;
        }
        cast = make_cast(rewrite, NULL, inputs[i], INLAY_FLOAT);
        if (cast == NULL)
            return rw_no_memory(rewrite);
        status = rw_insert(rewrite, cast, INLAY_FLOAT);
        if (status != INLAY_OK)
            return status;
        inputs[i] = cast->info.outputs[0];
    }
    fresh = with_attrs(rewrite, node,
                       rw_make(rewrite, node->info.op_type.data, node->opset, node, inputs, node->info.input_count, 1));
    status = fresh == NULL ? rw_no_memory(rewrite) : rw_insert(rewrite, fresh, INLAY_FLOAT);
    if (status != INLAY_OK)
        return status;
    cast = make_cast(rewrite, node, fresh->info.outputs[0], dtype);
    return cast == NULL ? rw_no_memory(rewrite) : rw_replace(rewrite, node, cast);
}

/* Files are written with the types that they had. */
inlay_status pass_widen_halves(pass_ctx *ctx, bool *out_changed)
{
    *out_changed = false;
    return ctx->widens_halves && ctx->newest_opset == 0 ? rewrite_each_graph(ctx, match, out_changed) : INLAY_OK;
}
