/* The weights of MoE-1 and QMoE-1 of com.microsoft: which nodes the kernels support, and the layout of the elements. */
#include "cpu/weights/experts.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "cpu/matrix/sgemm.h"
#include "cpu/weights/blocks.h"
#include "cpu/weights/halves.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(experts_bind, "cpu_experts");

enum { ABSENT = 255, QUANTIZED_ACTIVATIONS = 15 /* and further inputs of QMoE */ };

/* The inputs of a layer. */
static const struct inputs {
    uint8_t weights, scales, bias, zeros;
} coded_inputs
    [] = { [EXPERTS_FIRST] = { 2, 3, 4, 11 }, [EXPERTS_SECOND] = { 5, 6, 7, 12 }, [EXPERTS_GATE] = { 8, 9, 10, 13 } },
    float_inputs[] = { [EXPERTS_FIRST] = { 2, ABSENT, 3, ABSENT },
                       [EXPERTS_SECOND] = { 4, ABSENT, 5, ABSENT },
                       [EXPERTS_GATE] = { 6, ABSENT, 7, ABSENT } };

static const struct inputs *inputs_of(const cpu_op *op, int layer)
{
    return op->experts.bits != 0 ? &coded_inputs[layer] : &float_inputs[layer];
}

static int64_t blocks_of(const cpu_op *op, int64_t columns)
{
    return op->experts.block > 0 ? (columns + op->experts.block - 1) / op->experts.block : 1;
}

static bool is_constant(const kit_node *node, uint8_t input, inlay_dtype dtype, int64_t count)
{
    const inlay_value_info *value = kit_input(node, input);

    return value != NULL && value->dtype == dtype && cpu_known_count(value) == count &&
           (((value->flags & INLAY_VALUE_CONSTANT) != 0 && value->data != NULL) ||
            blocks_is_constant(node->graph, node->info->inputs[input]));
}

/* Whether the input is a Cast to float of constant float16 elements, which are kept as float16. */
static bool is_halves(const kit_node *node, uint8_t input, int64_t columns)
{
    return columns % SGEMM_LANES == 0 && halves_is_constant(node->graph, node->info->inputs[input]);
}

static bool is_constant_or_absent(const kit_node *node, uint8_t input, int64_t count)
{
    return input == ABSENT || kit_input(node, input) == NULL || is_constant(node, input, INLAY_FLOAT, count);
}

/* Checks the constants of a layer with matrices of rows by columns elements. */
static bool layer_fits(const kit_node *node, const cpu_op *op, int layer, int64_t rows, int64_t columns)
{
    const struct inputs *inputs = inputs_of(op, layer);
    const int64_t count = op->experts.count, bits = op->experts.bits, per = bits != 0 ? 8 / bits : 1;
    const int64_t blocks = blocks_of(op, columns), zeros = blocks > 1 ? rows * ((blocks + per - 1) / per) : rows / per;
    const inlay_value_info *weights = kit_input(node, inputs->weights);
    nbits_shape shape;

    if (weights == NULL || weights->rank != 3 || weights->dims[0].value != count || weights->dims[1].value != rows ||
        columns % per != 0 || weights->dims[2].value != columns / per ||
        !(is_constant(node, inputs->weights, bits != 0 ? INLAY_UINT8 : INLAY_FLOAT, count * rows * (columns / per)) ||
          (bits == 0 && is_halves(node, inputs->weights, columns))) ||
        !is_constant_or_absent(node, inputs->bias, count * rows))
        return false;
    if (bits == 0)
        return true;
    return rows % NBITS_COLUMNS == 0 &&
           nbits_shape_init(&shape, (uint32_t)bits, columns, count * rows, op->experts.block) &&
           is_constant(node, inputs->scales, INLAY_FLOAT, count * rows * blocks) &&
           (is_constant_or_absent(node, inputs->zeros, count * rows * blocks) ||
            is_constant(node, inputs->zeros, INLAY_UINT8, count * zeros));
}

static bool read_attributes(const kit_node *node, cpu_op *op)
{
    static const char *const names[] = {
        [EXPERTS_RELU] = "relu",         [EXPERTS_GELU] = "gelu",     [EXPERTS_SILU] = "silu",
        [EXPERTS_IDENTITY] = "identity", [EXPERTS_SWIGLU] = "swiglu",
    };
    const char *activation = kit_attr_string(node->info, "activation_type", "relu");
    const bool coded = strcmp(op->row->op_type, "QMoE") == 0;
    const int64_t block = coded ? kit_attr_int(node->info, "block_size", 0) : 0;

    op->alpha = (float)kit_attr_float(node->info, "activation_alpha", 1);
    op->beta = (float)kit_attr_float(node->info, "activation_beta", 0);
    op->size = coded ? kit_attr_int(node->info, "accuracy_level", 0) : 0; /* of inlay: as that of MatMulNBits */
    op->experts.k = kit_attr_int(node->info, "k", 1);
    op->experts.bits = coded ? (uint8_t)kit_attr_int(node->info, "expert_weight_bits", 4) : 0;
    op->experts.block = block;
    op->experts.fusion = (uint8_t)kit_attr_int(node->info, "swiglu_fusion", 0);
    op->experts.limit = (float)kit_attr_float(node->info, "swiglu_limit", INFINITY);
    op->experts.normalizes = kit_attr_int(node->info, "normalize_routing_weights", 0) != 0;
    while (op->experts.activation < KIT_COUNT(names) && strcmp(names[op->experts.activation], activation) != 0)
        op->experts.activation++;
    if (op->experts.activation != EXPERTS_SWIGLU)
        op->experts.fusion = 0;
    return op->experts.activation < KIT_COUNT(names) && op->experts.k >= 1 && op->experts.fusion <= 2 &&
           (block == 0 || (block >= 16 && (block & (block - 1)) == 0)) &&
           kit_attr_int(node->info, "use_sparse_mixer", 0) == 0;
}

bool experts_parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, EXPERTS_INPUT), *given = kit_input(node, EXPERTS_ROUTER_WEIGHTS),
                           *probabilities = kit_input(node, EXPERTS_PROBABILITIES);
    const inlay_value_info *first, *second;
    int64_t inner;

    if (sgemm_kernel_best() == NULL)
        return kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX2 or NEON",
                          "this CPU has no kernel for packed weights");
    for (uint32_t i = QUANTIZED_ACTIVATIONS; i < node->info->input_count; i++)
        if (kit_input(node, i) != NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "export the model without them",
                              "scales of quantized activations (input %u)", i);
    if (!read_attributes(node, op))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "no kernel for these values of the attributes");
    first = kit_input(node, inputs_of(op, EXPERTS_FIRST)->weights);
    second = kit_input(node, inputs_of(op, EXPERTS_SECOND)->weights);
    if (input->dtype != INLAY_FLOAT || probabilities == NULL || probabilities->dtype != INLAY_FLOAT ||
        (given != NULL && given->dtype != INLAY_FLOAT))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float", "the input or the router is not float");
    if (first == NULL || first->rank != 3 || first->dims[0].value < op->experts.k || second == NULL ||
        second->rank != 3)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make them constants",
                          "weights are not constant matrices of at least k experts");
    op->experts.count = first->dims[0].value;
    inner = op->experts.fusion != 0 ? first->dims[1].value / 2 : first->dims[1].value;
    op->experts.gated = kit_input(node, inputs_of(op, EXPERTS_GATE)->weights) != NULL;
    if (inner < 1 || second->dims[1].value < 1 ||
        (op->experts.fusion == 2 && op->experts.bits != 0 && inner % NBITS_COLUMNS != 0) ||
        (op->experts.fusion != 0 && op->experts.gated) ||
        !layer_fits(node, op, EXPERTS_FIRST, first->dims[1].value, second->dims[1].value) ||
        !layer_fits(node, op, EXPERTS_SECOND, second->dims[1].value, inner) ||
        (op->experts.gated && !layer_fits(node, op, EXPERTS_GATE, first->dims[1].value, second->dims[1].value)))
        return kit_refuse(
            why, INLAY_REFUSE_SHAPE, "make them constants",
            "weights, scales, zero points or biases are not constants of float or uint8, do not match, or "
            "the rows of an expert are not a multiple of %d",
            NBITS_COLUMNS);
    return cpu_known_rank(input, 1, 6, "input 0", why) && cpu_known_rank(probabilities, 2, 2, "input 1", why);
}

void experts_layer_of(const inlay_compiled *compiled, const cpu_op *op, int layer, experts_layer *out)
{
    const struct inputs *inputs = inputs_of(op, layer);
    const uint32_t bits = op->experts.bits;
    const int64_t *dims;
    int64_t blocks;

    memset(out, 0, sizeof *out);
    out->weights = layer == EXPERTS_GATE && !op->experts.gated ? INLAY_NONE : op->in[inputs->weights];
    out->bias = inputs->bias < op->in_count ? op->in[inputs->bias] : INLAY_NONE;
    if (out->weights == INLAY_NONE)
        return;
    dims = compiled->values[out->weights].dims;
    out->rows = dims[1];
    out->columns = bits == 0 ? dims[2] : dims[2] * (8 / (int64_t)bits);
    if (bits == 0)
        return;
    blocks = blocks_of(op, out->columns);
    out->nbits = (cpu_nbits){ .q = out->weights,
                              .scale = op->in[inputs->scales],
                              .zero = inputs->zeros < op->in_count && !op->experts.merged[layer] ? op->in[inputs->zeros]
                                                                                                 : INLAY_NONE,
                              .bits = (uint8_t)bits,
                              .packed_zeros = blocks > 1,
                              .all = op->experts.merged[layer] ? op->experts.zero[layer] : (float)(1 << (bits - 1)),
                              .k = out->columns,
                              .n = op->experts.count * out->rows,
                              .block = op->experts.block > 0 ? op->experts.block : out->columns,
                              .q_steps = { 1, out->columns },
                              .scale_steps = { 1, blocks },
                              .zero_steps = { 1, blocks } };
    out->nbits.float_zeros = out->nbits.zero != INLAY_NONE && compiled->values[out->nbits.zero].type == ELEMENT_FLOAT;
    nbits_take_blocks(compiled, &out->nbits);
}

void experts_bind(const inlay_compiled *compiled, cpu_op *op)
{
    for (int layer = 0; op->experts.bits != 0 && layer <= EXPERTS_GATE; layer++) {
        experts_layer own;

        experts_layer_of(compiled, op, layer, &own);
        if (own.weights == INLAY_NONE || own.nbits.zero == INLAY_NONE)
            continue;
        nbits_merge_zeros(compiled, &own.nbits);
        op->experts.merged[layer] = own.nbits.zero == INLAY_NONE;
        op->experts.zero[layer] = own.nbits.all;
    }
}
