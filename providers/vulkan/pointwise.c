/* Elementwise operators: the slots that each appends to a program. */
#include "vulkan/region.h"

/* Operations whose attributes are passed in operands b and c: names and defaults of the attributes. */
static const struct {
    uint32_t op;
    const char *b, *c;
    double b_default, c_default;
} parameters[] = {
    { OP_LEAKY_RELU, "alpha", NULL, 0.01, 0 },
    { OP_ELU, "alpha", NULL, 1, 0 },
    { OP_SELU, "alpha", "gamma", 1.67326319217681884765625, 1.05070102214813232421875 },
    { OP_CELU, "alpha", NULL, 1, 0 },
    { OP_HARD_SIGMOID, "alpha", "beta", 0.2, 0.5 },
    { OP_SWISH, "alpha", NULL, 1, 0 },
    { OP_THRESHOLDED_RELU, "alpha", NULL, 1, 0 },
    { OP_SHRINK, "bias", "lambd", 0, 0.5 },
};

static uint32_t function_slots(const vulkan_build *build, vulkan_program *program, const vulkan_op *op)
{
    const uint32_t *inputs = op->info.inputs;
    const inlay_node_info *info = &op->info;
    uint32_t code = op->row->number;
    uint32_t registers[3] = { vulkan_register_of(build, program, inputs[0]), 0, 0 };

    if (code == CLIP) {
        uint32_t result = registers[0];
        const bool has_low = info->input_count > 1 && inputs[1] != INLAY_NONE;
        const bool has_high = info->input_count > 2 && inputs[2] != INLAY_NONE;

        if (has_low || kit_attr(info, "min") != NULL)
            result = vulkan_add_slot(program, OP_MAX, result,
                                     has_low ? vulkan_register_of(build, program, inputs[1])
                                             : vulkan_literal(program, kit_attr_float(info, "min", 0)),
                                     0);
        if (has_high || kit_attr(info, "max") != NULL)
            result = vulkan_add_slot(program, OP_MIN, result,
                                     has_high ? vulkan_register_of(build, program, inputs[2])
                                              : vulkan_literal(program, kit_attr_float(info, "max", 0)),
                                     0);
        return result == registers[0] ? vulkan_add_slot(program, OP_MOVE, result, 0, 0) : result;
    }
    for (uint32_t i = 1; i < info->input_count && i < 3; i++)
        registers[i] = code == OP_PRELU && info->since_version < 7
                           ? vulkan_load_axis(build, program, inputs[i], program->rank > 1)
                           : vulkan_register_of(build, program, inputs[i]);
    if (code == GREATER || code == GREATER_EQUAL)
        return vulkan_add_slot(program, code == GREATER ? OP_LESS : OP_LESS_EQUAL, registers[1], registers[0], 0);
    if (code == MOD)
        code = kit_attr_int(info, "fmod", 0) != 0 ? OP_FMOD : OP_MOD;
    if (code == SHIFT)
        code = kit_attr_string(info, "direction", "")[0] == 'L' ? OP_SHIFT_LEFT : OP_SHIFT_RIGHT;
    if (code == OP_GELU && strcmp(kit_attr_string(info, "approximate", "none"), "tanh") == 0)
        code = OP_GELU_TANH;
    if (code == OP_IS_INF) {
        registers[1] = vulkan_literal(program, (double)kit_attr_int(info, "detect_positive", 1));
        registers[2] = vulkan_literal(program, (double)kit_attr_int(info, "detect_negative", 1));
    }
    for (uint32_t i = 0; i < KIT_COUNT(parameters); i++)
        if (parameters[i].op == code) {
            registers[1] = vulkan_literal(program, kit_attr_float(info, parameters[i].b, parameters[i].b_default));
            if (parameters[i].c != NULL)
                registers[2] = vulkan_literal(program, kit_attr_float(info, parameters[i].c, parameters[i].c_default));
        }
    return vulkan_add_slot(program, code, registers[0], registers[1], registers[2]);
}

/* Whether an element is 0 or the elements are unknown. */
static bool may_be_zero(const inlay_value_info *value)
{
    const uint32_t size = vulkan_size_of(value->dtype);

    if (value->data == NULL || size == 0)
        return true;
    for (uint64_t i = 0; i + size <= value->data_bytes; i += size) {
        uint64_t element = 0;

        memcpy(&element, (const char *)value->data + i, size);
        if (element == 0)
            return true;
    }
    return false;
}

static bool function_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    const bool is_float_in = vulkan_is_float(kit_input_dtype(node, 0));

    if (kit_since_version(node) < 7 && kit_attr_int(node->info, "broadcast", 0) != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "convert the model to opset 7",
                          "attribute broadcast is not supported");
    if ((row->number == MOD || row->number == OP_DIV) && !is_float_in && may_be_zero(kit_input(node, 1)))
        return kit_refuse(why, INLAY_REFUSE_DEVICE, "make the divisor a constant",
                          "an integer division by 0 must stop the run, which a shader cannot do");
    if (row->number == MOD && is_float_in && kit_attr_int(node->info, "fmod", 0) == 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "set fmod to 1", "Mod of floats requires fmod");
    /* Compilers of shaders replace x * 0 by 0, also where x is NaN. */
    if (kit_attr_float(node->info, "alpha", 1) == 0 || kit_attr_float(node->info, "gamma", 1) == 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "with a factor of 0, results that are NaN would be lost");
    return true;
}

static uint32_t variadic_slots(const vulkan_build *build, vulkan_program *program, const vulkan_op *op)
{
    const bool is_mean = op->row->number == OP_DIV;
    uint32_t result = vulkan_register_of(build, program, op->info.inputs[0]);

    for (uint32_t i = 1; i < op->info.input_count; i++)
        result = vulkan_add_slot(program, is_mean ? OP_ADD : op->row->number, result,
                                 vulkan_register_of(build, program, op->info.inputs[i]), 0);
    if (is_mean || op->info.input_count == 1)
        result = vulkan_add_slot(program, OP_DIV, result, vulkan_literal(program, (double)op->info.input_count), 0);
    return result;
}

static bool variadic_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    (void)row;
    if (node->info->input_count > MOST_INPUTS - 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "%u inputs exceed the limit of %d", node->info->input_count,
                          MOST_INPUTS - 1);
    return true;
}

static uint32_t batch_norm_slots(const vulkan_build *build, vulkan_program *program, const vulkan_op *op)
{
    const uint32_t *inputs = op->info.inputs;
    const uint32_t input = vulkan_register_of(build, program, inputs[0]),
                   epsilon = vulkan_literal(program, kit_attr_float(&op->info, "epsilon", 1e-5));
    uint32_t result, deviation;

    result = vulkan_add_slot(program, OP_SUB, input, vulkan_load_axis(build, program, inputs[3], 1), 0);
    deviation = vulkan_add_slot(program, OP_ADD, vulkan_load_axis(build, program, inputs[4], 1), epsilon, 0);
    deviation = vulkan_add_slot(program, OP_SQRT, deviation, 0, 0);
    result = vulkan_add_slot(program, OP_DIV, result, deviation, 0);
    result = vulkan_add_slot(program, OP_MUL, result, vulkan_load_axis(build, program, inputs[1], 1), 0);
    return vulkan_add_slot(program, OP_ADD, result, vulkan_load_axis(build, program, inputs[2], 1), 0);
}

static bool batch_norm_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    (void)row;
    if (kit_attr_int(node->info, "training_mode", 0) != 0 ||
        (kit_since_version(node) < 7 && kit_attr_int(node->info, "is_test", 0) == 0) ||
        kit_attr_int(node->info, "spatial", 1) == 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL,
                          "only inference with given means per channel is supported");
    return true;
}

static uint32_t cast_slots(const vulkan_build *build, vulkan_program *program, const vulkan_op *op)
{
    const bool to_bool = vulkan_output(build, op, 0)->dtype == INLAY_BOOL;

    return vulkan_add_slot(program, to_bool ? OP_TO_BOOL : OP_MOVE,
                           vulkan_register_of(build, program, op->info.inputs[0]), 0, 0);
}

static uint32_t scale_of(const vulkan_build *build, vulkan_program *program, const vulkan_op *op, uint32_t input)
{
    const vulkan_tensor *quantized = vulkan_input(build, op, 0);
    uint32_t axis;

    if (vulkan_input(build, op, input)->count == 1)
        return vulkan_load_axis(build, program, op->info.inputs[input], 0);
    (void)vulkan_axis(kit_attr_int(&op->info, "axis", 1), quantized->rank, &axis);
    return vulkan_load_axis(build, program, op->info.inputs[input], axis);
}

uint32_t vulkan_round_slots(vulkan_program *program, uint32_t value, uint32_t zero, inlay_dtype to)
{
    const double highest = to == INLAY_UINT8 ? 255 : to == INLAY_INT8 ? 127 : to == INLAY_UINT16 ? 65535 : 32767;
    const double lowest = to == INLAY_INT8 ? -128 : to == INLAY_INT16 ? -32768 : 0;

    value = vulkan_add_slot(program, OP_ROUND, value, 0, 0);
    if (zero != INLAY_NONE)
        value = vulkan_add_slot(program, OP_ADD, value, zero, 0);
    value = vulkan_add_slot(program, OP_AT_LEAST, value, vulkan_literal(program, lowest), 0); /* NaN, as elsewhere */
    return vulkan_add_slot(program, OP_MIN, value, vulkan_literal(program, highest), 0);
}

static uint32_t quantize_slots(const vulkan_build *build, vulkan_program *program, const vulkan_op *op)
{
    const uint32_t quotient = vulkan_add_slot(program, OP_DIV, vulkan_register_of(build, program, op->info.inputs[0]),
                                              scale_of(build, program, op, 1), 0);
    const uint32_t zero = vulkan_input(build, op, 2) != NULL ? scale_of(build, program, op, 2) : INLAY_NONE;

    return vulkan_round_slots(program, quotient, zero, vulkan_output(build, op, 0)->dtype);
}

static uint32_t dequantize_slots(const vulkan_build *build, vulkan_program *program, const vulkan_op *op)
{
    uint32_t result = vulkan_register_of(build, program, op->info.inputs[0]);

    if (vulkan_input(build, op, 2) != NULL)
        result = vulkan_add_slot(program, OP_SUB, result, scale_of(build, program, op, 2), 0);
    return vulkan_add_slot(program, OP_MUL, result, scale_of(build, program, op, 1), 0);
}

static bool quantize_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    const uint64_t bytes = KIT_BIT(INT8) | KIT_BIT(UINT8) | KIT_BIT(INT16) | KIT_BIT(UINT16);
    const bool down = row->number != 0; /* QuantizeLinear instead of DequantizeLinear */
    const inlay_value_info *scale = kit_input(node, 1), *input = kit_input(node, 0);
    uint32_t axis;

    if (!vulkan_has_types(node, down ? 0 : 1, VULKAN_FLOATS, why) ||
        (down &&
         !vulkan_has_types(node, 1, KIT_BIT(FLOAT), why)) || /* quotients are rounded to the type of the scale */
        !vulkan_has_types(node, down ? 2 : 0, down ? bytes : bytes | KIT_BIT(INT32), why) ||
        (down && !vulkan_has_output_type(node, bytes, why)))
        return false;
    if (kit_attr_int(node->info, "block_size", 0) != 0 || scale->rank > 1 ||
        kit_attr_int(node->info, "precision", 0) != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "block scales and attribute precision are not supported");
    if (scale->rank == 1 && !vulkan_axis(kit_attr_int(node->info, "axis", 1), input->rank, &axis) &&
        !(scale->dims[0].kind == INLAY_DIM_FIXED && scale->dims[0].value == 1))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "axis %lld of an input with %u axes",
                          (long long)kit_attr_int(node->info, "axis", 1), input->rank);
    return true;
}

static inlay_status lower(vulkan_build *build, const vulkan_op *op)
{
    static const vulkan_arithmetic kinds[] = { VULKAN_DOUBLE, VULKAN_INTEGER, VULKAN_SINGLE };
    vulkan_arithmetic in = VULKAN_SINGLE;
    vulkan_program program;

    for (uint32_t k = 0; k < 3; k++)
        in = vulkan_computes_in(build, op, kinds[k]) ? kinds[k] : in;
    if (in == VULKAN_DOUBLE && !build->device->facts.f64)
        return vulkan_decline(build, op, "%s does not support doubles", build->device->facts.name);
    vulkan_program_start(build, &program, op->info.outputs[0], in);
    (void)op->row->family->append_slots(build, &program, op);
    return vulkan_emit_program(build, op, &program);
}

const vulkan_family vulkan_pointwise = {
    .supports = function_supports, .lower = lower, .append_slots = function_slots, .has_opcode = true
};
const vulkan_family vulkan_variadic = { .supports = variadic_supports, .lower = lower, .append_slots = variadic_slots };
const vulkan_family vulkan_batch_norm = {
    .supports = batch_norm_supports, .lower = lower, .append_slots = batch_norm_slots, .min_rank = 2
};
const vulkan_family vulkan_cast = { .lower = lower, .append_slots = cast_slots, .typed_output = true };
const vulkan_family vulkan_quantize = {
    .supports = quantize_supports, .lower = lower, .append_slots = quantize_slots, .is_float = true
};
const vulkan_family vulkan_dequantize = {
    .supports = quantize_supports, .lower = lower, .append_slots = dequantize_slots, .is_float = true
};
