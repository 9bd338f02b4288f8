/* Computes matrix multiplications and convolutions of float16 and bfloat16 in float32, if a provider on the CPU is fast
 * at that and the first provider is not on a GPU:
 *
 *     MatMul(a, b)  ->  Cast(MatMul(Cast(a), Cast(b)))        Conv, ConvTranspose, Gemm
 *
 * Operators that read these results (`followers`) also run in float32, on the unrounded floats; only values that other
 * operators read are rounded. Results are at least as exact, and values that would overflow float16 between two
 * operators do not become infinity.
 *
 * Low-bit weights with float16 scales, and those of MXFP4, get float32 scales, and multiplications with them run in
 * float32 at every level, because providers that read such weights directly compute in float32.
 *
 *     DequantizeLinear(w, scale)  ->  Cast(DequantizeLinear(w, Cast(scale)))
 */
#include "base/element.h"
#include "passes/rewrite.h"
#include <string.h>

enum { MAX_INPUTS = 64 };

static const char pass_name_text[] = "widen_halves";

/* Operators whose float inputs and first output have the same type. */
static const char followers[] =
    "Abs Add AveragePool BatchNormalization Clip Concat Div Elu Erf Exp Flatten Gelu GlobalAveragePool "
    "HardSigmoid HardSwish Identity InstanceNormalization LayerNormalization LeakyRelu Log Max MaxPool "
    "Min Mish Mul Neg PRelu Pad Pow ReduceMax ReduceMean ReduceSum Relu Reshape Resize Sigmoid Slice "
    "Softmax Softplus Sqrt Squeeze Sub Tanh Transpose Unsqueeze Where";

static bool is_narrow(const struct rewrite *rewrite, uint32_t value)
{
    return value != INLAY_NONE && (rewrite_value_info(rewrite, value)->dtype == INLAY_FLOAT16 ||
                                   rewrite_value_info(rewrite, value)->dtype == INLAY_BFLOAT16);
}

/* Returns true if value is the DequantizeLinear of a constant. */
static bool is_weights(const struct rewrite *rewrite, uint32_t value)
{
    const graph_node *dequantize = rewrite_producer_op(rewrite, value, "DequantizeLinear");

    return dequantize != NULL && rewrite_is_constant(rewrite, rewrite_input(rewrite, dequantize, 0));
}

/* The float that this pass rounded to value, or low-bit weights dequantized to float; INLAY_NONE: neither. */
static uint32_t float_source(const struct rewrite *rewrite, uint32_t value)
{
    const graph_node *cast = rewrite_producer_op(rewrite, value, "Cast");
    const uint32_t from = cast == NULL || !is_narrow(rewrite, value) ? INLAY_NONE : rewrite_input(rewrite, cast, 0);

    return from != INLAY_NONE && rewrite_value_info(rewrite, from)->dtype == INLAY_FLOAT &&
                   ((cast->made_by != NULL && strcmp(cast->made_by, pass_name_text) == 0) || is_weights(rewrite, from))
               ? from
               : INLAY_NONE;
}

/* Returns true if the types of all inputs are known. Outputs of nodes that a pass of this round has made get their
 * types before the next round. */
static bool has_typed_inputs(const struct rewrite *rewrite, const graph_node *node)
{
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        const uint32_t input = rewrite_input(rewrite, node, i);

        if (input != INLAY_NONE && rewrite_value_info(rewrite, input)->dtype == INLAY_UNDEFINED)
            return false;
    }
    return true;
}

static bool should_widen(const struct rewrite *rewrite, const graph_node *node)
{
    const uint32_t output = node->info.output_count > 0 ? node->info.outputs[0] : INLAY_NONE;

    if (!is_narrow(rewrite, output) || node->body_count > 0 || node->info.input_count > MAX_INPUTS ||
        !has_typed_inputs(rewrite, node))
        return false;
    for (uint32_t i = 1; i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE)
            return false;
    if (pass_is_among(node, "Conv ConvTranspose Gemm MatMul"))
        return !rewrite->ctx->run.lowers ||
               (node->info.input_count > 1 &&
                is_weights(rewrite, float_source(rewrite, rewrite_input(rewrite, node, 1))));
    if (rewrite->ctx->run.lowers)
        return false;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        if (float_source(rewrite, rewrite_input(rewrite, node, i)) != INLAY_NONE)
            return pass_is_among(node, followers);
    return false;
}

/* Creates a Cast of value. NULL: out of memory. */
static graph_node *make_cast(struct rewrite *rewrite, const graph_node *like, uint32_t value, inlay_dtype to)
{
    graph_node *cast = rewrite_make_node(rewrite, "Cast", 13, like, &value, 1, 1);

    return cast == NULL || graph_set_attr_int(rewrite->graph, cast, "to", (int64_t)to) != INLAY_OK ? NULL : cast;
}

/* Converts a constant to floats. INLAY_NONE: out of memory. */
static uint32_t widen_constant(struct rewrite *rewrite, uint32_t value)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);
    const uint64_t count = info->data_bytes / (info->dtype == INLAY_FLOAT8E8M0 ? 1 : sizeof(uint16_t));
    float *floats = graph_blob_alloc(rewrite->graph->model, count > 0 ? (size_t)count * sizeof *floats : 1);
    int64_t dims[INLAY_MAX_RANK];

    for (uint32_t d = 0; d < info->rank; d++)
        dims[d] = info->dims[d].value;
    for (uint64_t i = 0; floats != NULL && i < count; i++) {
        double number = 0;

        (void)element_number(info->dtype, info->data, (int64_t)i, &number, NULL);
        floats[i] = (float)number;
    }
    return floats == NULL
               ? INLAY_NONE
               : rewrite_constant_blob(rewrite, INLAY_FLOAT, info->rank, dims, floats, count * sizeof *floats);
}

/* The DequantizeLinear with float scales; NULL: out of memory. */
static graph_node *with_float_scales(struct rewrite *rewrite, const graph_node *node)
{
    uint32_t inputs[3];

    for (uint32_t i = 0; i < node->info.input_count; i++) {
        inputs[i] = rewrite_input(rewrite, node, i);
        if (i == 1 && (inputs[i] = widen_constant(rewrite, inputs[i])) == INLAY_NONE)
            return NULL;
    }
    return rewrite_copy_attrs(
        rewrite, node,
        rewrite_make_node(rewrite, "DequantizeLinear", node->opset, node, inputs, node->info.input_count, 1));
}

/* Whether the node dequantizes weights of MXFP4 to floats. */
static bool is_mxfp4(struct rewrite *rewrite, const graph_node *node, uint32_t input, uint32_t scale)
{
    return rewrite_value_info(rewrite, scale)->dtype == INLAY_FLOAT8E8M0 &&
           rewrite_value_info(rewrite, input)->dtype == INLAY_FLOAT4E2M1 &&
           rewrite_value_info(rewrite, node->info.outputs[0])->dtype == INLAY_FLOAT;
}

/* The product of an element of up to 8 bits and a float16 scale is exact in float32. Therefore the product is rounded
 * once in both forms, to float16. */
static inlay_status match_scales(struct rewrite *rewrite, graph_node *node)
{
    const uint32_t input = rewrite_input(rewrite, node, 0), scale = rewrite_input(rewrite, node, 1);
    graph_node *new_node, *cast;
    inlay_status status;

    if (!rewrite_is_constant(rewrite, scale) || !rewrite_is_constant(rewrite, input) || node->info.input_count > 3 ||
        rewrite_value_info(rewrite, scale)->rank > INLAY_MAX_RANK)
        return INLAY_OK;
    if (is_mxfp4(rewrite, node, input, scale)) {
        new_node = with_float_scales(rewrite, node);
        return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
    }
    if (!is_narrow(rewrite, scale) || rewrite_value_info(rewrite, input)->dtype == INLAY_INT16 ||
        rewrite_value_info(rewrite, input)->dtype == INLAY_UINT16 ||
        rewrite_value_info(rewrite, input)->dtype == INLAY_INT32 ||
        rewrite_value_info(rewrite, node->info.outputs[0])->dtype != rewrite_value_info(rewrite, scale)->dtype ||
        graph_attr_int(node, "output_dtype", 0) != 0)
        return INLAY_OK;
    new_node = with_float_scales(rewrite, node);
    if (new_node == NULL)
        return rewrite_no_memory(rewrite);
    status = rewrite_insert_node(rewrite, new_node, INLAY_FLOAT);
    if (status != INLAY_OK)
        return status;
    cast = make_cast(rewrite, node, new_node->info.outputs[0], rewrite_value_info(rewrite, scale)->dtype);
    return cast == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, cast);
}

static inlay_status match_widen_halves(struct rewrite *rewrite, graph_node *node)
{
    uint32_t inputs[MAX_INPUTS];
    graph_node *new_node, *cast;
    inlay_status status;
    inlay_dtype dtype;
    bool done;

    if (pass_is_op(node, "DequantizeLinear"))
        return match_scales(rewrite, node);
    if (pass_is_op(node, "Cast") && rewrite_value_info(rewrite, node->info.outputs[0])->dtype == INLAY_FLOAT &&
        is_weights(rewrite, float_source(rewrite, rewrite_input(rewrite, node, 0))))
        return rewrite_forward(rewrite, node->info.outputs[0], float_source(rewrite, rewrite_input(rewrite, node, 0)),
                               &done);
    if (!should_widen(rewrite, node) || rewrite_is_quantized_later(rewrite, node->info.outputs[0]))
        return INLAY_OK;
    dtype = rewrite_value_info(rewrite, node->info.outputs[0])->dtype;
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        inputs[i] = rewrite_input(rewrite, node, i);
        if (!is_narrow(rewrite, inputs[i]))
            continue;
        if (float_source(rewrite, inputs[i]) != INLAY_NONE) {
            inputs[i] = float_source(rewrite, inputs[i]);
            continue;
        }
        cast = make_cast(rewrite, NULL, inputs[i], INLAY_FLOAT);
        if (cast == NULL)
            return rewrite_no_memory(rewrite);
        status = rewrite_insert_node(rewrite, cast, INLAY_FLOAT);
        if (status != INLAY_OK)
            return status;
        inputs[i] = cast->info.outputs[0];
    }
    new_node = rewrite_copy_attrs(
        rewrite, node,
        rewrite_make_node(rewrite, node->info.op_type.data, node->opset, node, inputs, node->info.input_count, 1));
    status = new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_insert_node(rewrite, new_node, INLAY_FLOAT);
    if (status != INLAY_OK)
        return status;
    cast = make_cast(rewrite, node, new_node->info.outputs[0], dtype);
    return cast == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, cast);
}

/* Files are written with their original types. */
inlay_status pass_widen_halves(pass_ctx *ctx, bool *out_changed)
{
    *out_changed = false;
    return ctx->providers.widens_halves && ctx->options.newest_opset == 0
               ? rewrite_each_graph(ctx, match_widen_halves, out_changed)
               : INLAY_OK;
}
