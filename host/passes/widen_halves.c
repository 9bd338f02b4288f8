/* Products of float16 and bfloat16 are made of floats, where a provider on the CPU is fast at those:
 *
 *     MatMul(a, b)  ->  Cast(MatMul(Cast(a), Cast(b)))        Conv, ConvTranspose, Gemm
 *
 * What stands behind a product follows, one operator after the other, and reads floats that were never rounded; only
 * what leaves is. So nothing is less exact, and what overflows float16 between two operators does not become infinity.
 */
#include "passes/rewrite.h"
#include <string.h>

enum { MOST_INPUTS = 64 };

static const char name[] = "widen_halves";

static const char *const products[] = { "Conv", "ConvTranspose", "Gemm", "MatMul" };

/* Operators of one type of floats, which their first output has, too. */
static const char *const followers[] = {
    "Abs",
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Clip",
    "Concat",
    "Div",
    "Elu",
    "Erf",
    "Exp",
    "Flatten",
    "Gelu",
    "GlobalAveragePool",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "InstanceNormalization",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "Max",
    "MaxPool",
    "Min",
    "Mish",
    "Mul",
    "Neg",
    "PRelu",
    "Pad",
    "Pow",
    "ReduceMax",
    "ReduceMean",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Resize",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Softplus",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Tanh",
    "Transpose",
    "Unsqueeze",
    "Where",
};

static bool is_listed(const graph_node *n, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pass_is_op(n, list[i]))
            return true;
    return false;
}

static bool is_narrow(const rewrite *w, uint32_t v)
{
    return v != INLAY_NONE && (rw_info(w, v)->dtype == INLAY_FLOAT16 || rw_info(w, v)->dtype == INLAY_BFLOAT16);
}

/* The float that this pass rounded to v; INLAY_NONE: it is none. */
static uint32_t unrounded(const rewrite *w, uint32_t v)
{
    const graph_node *cast = rw_maker_op(w, v, "Cast");

    return is_narrow(w, v) && cast != NULL && cast->made_by != NULL && strcmp(cast->made_by, name) == 0
               ? rw_input(w, cast, 0)
               : INLAY_NONE;
}

static bool is_wanted(const rewrite *w, const graph_node *n)
{
    const uint32_t y = n->info.output_count > 0 ? n->info.outputs[0] : INLAY_NONE;

    if (!is_narrow(w, y) || n->body_count > 0 || n->info.input_count > MOST_INPUTS)
        return false;
    for (uint32_t i = 1; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE)
            return false;
    if (is_listed(n, products, sizeof products / sizeof *products))
        return true;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (unrounded(w, rw_input(w, n, i)) != INLAY_NONE)
            return is_listed(n, followers, sizeof followers / sizeof *followers);
    return false;
}

/* Cast(v) to a type; NULL: no memory. */
static graph_node *make_cast(rewrite *w, const graph_node *like, uint32_t v, inlay_dtype to)
{
    graph_node *cast = rw_make(w, "Cast", 13, like, &v, 1, 1);

    return cast == NULL || graph_set_attr_int(w->g, cast, "to", (int64_t)to) != INLAY_OK ? NULL : cast;
}

static inlay_status match(rewrite *w, graph_node *n)
{
    uint32_t inputs[MOST_INPUTS];
    graph_node *fresh, *cast;
    inlay_status status;
    inlay_dtype dtype;

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
    fresh = rw_make(w, n->info.op_type.data, n->opset, n, inputs, n->info.input_count, 1);
    for (uint32_t i = 0; fresh != NULL && i < n->own_attr_count; i++) /* the rest are defaults */
        if (graph_set_attr(w->g, fresh, INLAY_AT(inlay_attr_info, n->info.attrs, n->info.attr_stride, i)) != INLAY_OK)
            return rw_no_memory(w);
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
