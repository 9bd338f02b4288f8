/* QLinearConv-10 and ConvInteger-10: parsing. The kernels are in quant_tiles.c and quant_depthwise.c. */
#include "cpu/quantized/bytes.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "cpu/quantized/quant.h"
#include "cpu/region/window.h"

enum { X = 0, X_SCALE = 1, X_ZERO = 2, W_SCALE = 4, Y_SCALE = 6, Y_ZERO = 7, BIAS = 8 };

static bool is_linear(const cpu_op *op)
{
    return strcmp(op->row->op_type, "QLinearConv") == 0;
}

static uint32_t weights_at(const cpu_op *op)
{
    return is_linear(op) ? 3 : 1;
}

/* Are all bytes in [low, high]? */
static bool bytes_within(const uint8_t *bytes, uint64_t count, uint8_t low, uint8_t high)
{
    uint8_t least = UINT8_MAX, most = 0;

    for (uint64_t i = 0; i < count; i++) {
        least = bytes[i] < least ? bytes[i] : least;
        most = bytes[i] > most ? bytes[i] : most;
    }
    return least >= low && most <= high;
}

/* Are the weights int8 with zero point 0, or uint8 that are int8 without their zero point, one for all filters? Only
 * these are supported. */
static bool weights_fit(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    uint32_t at = weights_at(op), zero_at = is_linear(op) ? 5 : 3;
    const inlay_value_info *weights = kit_input(node, at), *zero = kit_input(node, zero_at);
    uint8_t wanted;

    if (!q_is_bytes(weights) || !kit_is_constant(node, at) || cpu_known_count(weights) < 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make them a constant", "the weights are not constant bytes");
    if (zero == NULL && weights->dtype == INLAY_INT8)
        return true;
    if (zero == NULL || !kit_is_constant(node, zero_at) || zero->data == NULL || zero->dtype != weights->dtype)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant",
                          "the zero point of the weights is not a constant");
    wanted = weights->dtype == INLAY_UINT8 && zero->data_bytes > 0 ? *(const uint8_t *)zero->data : 0;
    for (uint64_t i = 0; i < zero->data_bytes; i++)
        if (((const uint8_t *)zero->data)[i] != wanted)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "quantize the weights around 0",
                              "a zero point of the weights is not %u", wanted);
    op->quantized.w_zero = wanted;
    if (weights->dtype == INLAY_UINT8 && wanted != 128 &&
        (weights->data == NULL ||
         !bytes_within(weights->data, weights->data_bytes, wanted > 128 ? (uint8_t)(wanted - 128) : 0,
                       wanted < 128 ? (uint8_t)(wanted + 127) : 255)))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "quantize the weights around 128",
                          "weights minus their zero point %u do not fit into int8", wanted);
    return true;
}

/* Scales, zero points and bias of QLinearConv. */
static bool parse_linear(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, X), *weights = kit_input(node, weights_at(op)),
                           *output = kit_output(node, 0);
    const inlay_value_info *bias = kit_input(node, BIAS);
    int32_t y_zero;
    float ignored;

    if (!q_is_bytes(output))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "the output is not an 8-bit integer");
    if (bias != NULL && (!kit_is_constant(node, BIAS) || bias->dtype != INLAY_INT32 || bias->rank != 1 ||
                         bias->dims[0].value != weights->dims[0].value))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "the bias is not a constant vector of int32");
    if (!q_known_scale(kit_input(node, X_SCALE), 1, "x", &op->quantized.scale, why) ||
        !q_known_scale(kit_input(node, W_SCALE), weights->dims[0].value, "w", &ignored, why) ||
        !q_known_scale(kit_input(node, Y_SCALE), 1, "y", &op->alpha, why) ||
        !q_known_zero(kit_input(node, X_ZERO), input, "x", &op->quantized.zero, why) ||
        !q_known_zero(kit_input(node, Y_ZERO), output, "y", &y_zero, why))
        return false;
    op->size = y_zero;
    return true;
}

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, X), *weights = kit_input(node, weights_at(op)), *zero;

    if (!cpu_known_rank(input, 3, 5, "input 0", why) || !weights_fit(node, op, why) ||
        !cpu_known_rank(weights, input->rank, input->rank, "the weights", why))
        return false;
    if (!q_is_bytes(input))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "the input is not an 8-bit integer");
    zero = kit_input(node, X_ZERO); /* ConvInteger's may be computed */
    if (zero != NULL && (zero->dtype != input->dtype || cpu_known_count(zero) != 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the zero point of input 0 is not one number");
    if (is_linear(op) && !parse_linear(node, op, why))
        return false;
    op->window.group = kit_attr_int(node->info, "group", 1);
    if (op->window.group < 1 || weights->dims[0].value % op->window.group != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "group does not divide the channels");
    for (uint32_t i = 0; i < input->rank - 2; i++)
        op->window.kernel[i] = weights->dims[2 + i].value;
    return cpu_parse_window(node, input->rank - 2, op, why) && bytes_offers_conv(node, op, why);
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    bool done = false;
    inlay_status status = bytes_lower_conv(build, group, &done);

    if (status == INLAY_OK && !done)
        status = inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': there is no int8 kernel for this convolution",
                            build->op->name);
    return status;
}

const cpu_family cpu_int8_conv = { .kind = CPU_FAMILY_INT8_CONV,
                                   .name = "int8 convolution",
                                   .parse = parse,
                                   .lower = lower,
                                   .fuse = cpu_fuse_integer_reader,
                                   .fuse_last = cpu_fuse_final_quantize,
                                   .takes_posts = true };
