/* Products of 8-bit integers: MatMulInteger, ConvInteger, QLinearMatMul and QLinearConv. Their sums are exact. */
#include "vulkan/region.h"

/* Inputs of QLinearMatMul and QLinearConv. */
enum { A_SCALE = 1, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO, BIAS };

bool vulkan_is_integer_product(const vulkan_op *op)
{
    return op->row->family->is_integer;
}

static bool is_linear(const vulkan_operator *row)
{
    return row->number == B;
}

uint32_t vulkan_second_factor(const vulkan_op *op)
{
    return vulkan_is_integer_product(op) ? op->row->number : 1;
}

static bool is_single(const inlay_value_info *value)
{
    bool single = true;

    for (uint32_t d = 0; value != NULL && d < value->rank; d++)
        single &= value->dims[d].kind == INLAY_DIM_FIXED && value->dims[d].value == 1;
    return single;
}

bool vulkan_integers_support(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    const bool linear = is_linear(row);
    const uint32_t singles[] = { A_ZERO, A_SCALE, Y_SCALE, Y_ZERO }, per_column[] = { linear ? B_ZERO : 3, B_SCALE },
                   factors[] = { 0, row->number };

    for (uint32_t i = 0; i < KIT_COUNT(factors); i++)
        if (!vulkan_has_types(node, factors[i], VULKAN_BYTES, why))
            return false;
    if (kit_input(node, row->number)->rank == 0)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the second factor is a scalar");
    if (linear &&
        (!vulkan_has_output_type(node, VULKAN_BYTES, why) || !vulkan_has_types(node, A_SCALE, KIT_BIT(FLOAT), why) ||
         !vulkan_has_types(node, B_SCALE, KIT_BIT(FLOAT), why) ||
         !vulkan_has_types(node, Y_SCALE, KIT_BIT(FLOAT), why)))
        return false;
    for (uint32_t i = 0; i < (linear ? KIT_COUNT(singles) : 1); i++)
        if (!is_single(kit_input(node, singles[i])))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL,
                              "input %u differs between rows; only a single value is supported", singles[i]);
    for (uint32_t i = 0; i < (linear ? KIT_COUNT(per_column) : 1); i++)
        if (kit_input(node, per_column[i]) != NULL && kit_input(node, per_column[i])->rank > 1 &&
            !is_single(kit_input(node, per_column[i])))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL,
                              "input %u differs between matrices; only a value for each column is supported",
                              per_column[i]);
    return true;
}

/* saturate(round(sum * (a_scale / y_scale * b_scale)) + y_zero), in the order of the other providers. */
static void requantize(const vulkan_build *build, const vulkan_op *op, uint32_t column, vulkan_program *program)
{
    const uint32_t ratio =
        vulkan_add_slot(program, OP_DIV, vulkan_load_axis(build, program, op->info.inputs[A_SCALE], 0),
                        vulkan_load_axis(build, program, op->info.inputs[Y_SCALE], 0), 0);
    const uint32_t scale =
        vulkan_add_slot(program, OP_MUL, ratio, vulkan_load_axis(build, program, op->info.inputs[B_SCALE], column), 0);
    const uint32_t scaled = vulkan_add_slot(program, OP_MUL, REG_ACC, scale, 0);

    (void)vulkan_round_slots(program, scaled, vulkan_load_axis(build, program, op->info.inputs[Y_ZERO], 0),
                             vulkan_output(build, op, 0)->dtype);
}

void vulkan_start_integers(vulkan_build *build, const vulkan_op *op, vulkan_program *program, bool is_conv)
{
    const uint32_t result = op->info.outputs[0], b_zero = vulkan_input_value(op, is_linear(op->row) ? B_ZERO : 3);
    const vulkan_tensor *b = vulkan_input(build, op, op->row->number);
    const vulkan_op *cast = is_linear(op->row) ? NULL : vulkan_single_reader(build, result);
    const int64_t columns = is_conv ? b->dims[0] : b->rank == 1 ? 1 : b->dims[b->rank - 1];

    if (b_zero != INLAY_NONE && build->tensors[b_zero].count != 1 && build->tensors[b_zero].count != columns)
        (void)vulkan_decline(build, op, "%lld zero points of %lld columns", (long long)build->tensors[b_zero].count,
                             (long long)columns);
    if (cast != NULL && cast->row->family == &vulkan_cast && vulkan_output(build, cast, 0)->dtype == INLAY_FLOAT) {
        build->done[vulkan_number_of(build, cast)] = true;
        vulkan_program_start(build, program, cast->info.outputs[0], VULKAN_SINGLE);
        vulkan_fuse_epilogue(build, cast, program);
    } else {
        vulkan_program_start(build, program, result, is_linear(op->row) ? VULKAN_SINGLE : VULKAN_INTEGER);
    }
    program->has_columns = is_conv || b->rank > 1;
    program->column_dim = is_conv ? 1 : program->rank - 1;
    if (is_linear(op->row))
        requantize(build, op, is_conv ? 1 : b->rank > 1 ? program->rank - 1 : 0, program);
    if (program->overflow)
        (void)vulkan_decline(build, op, "its scales or zero points have the wrong number of elements");
}
