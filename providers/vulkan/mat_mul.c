/* MatMul, Gemm, MatMulNBits, MatMulInteger and QLinearMatMul. */
#include "inlay/check.h"
#include "vulkan/region.h"

/* Strides of an operand over the batch dimensions of the result; 0 where it is broadcast. */
static void batch_strides(const vulkan_build *build, uint32_t value, uint32_t rank, int64_t *out)
{
    const vulkan_tensor *tensor = &build->tensors[value];
    const uint32_t own = tensor->rank > 2 ? tensor->rank - 2 : 0;
    int64_t strides[VULKAN_RANK];

    vulkan_strides(build, value, strides);
    for (uint32_t d = 0; d < rank; d++)
        out[d] = 0;
    for (uint32_t d = 0; d < own && d < rank; d++)
        if (tensor->dims[d] != 1)
            out[rank - own + d] = strides[d];
}

/* Sets sizes and strides of a multiplication whose result has out_strides. false: more than three batch dimensions. */
static bool set_mat_mul(const vulkan_build *build, const vulkan_op *op, const int64_t *out_strides,
                        vulkan_product *product)
{
    const uint32_t a_value = op->info.inputs[0], b_value = op->info.inputs[vulkan_second_factor(op)];
    const vulkan_tensor *a = &build->tensors[a_value], *b = &build->tensors[b_value],
                        *output = vulkan_output(build, op, 0);
    const uint32_t rank = output->rank + (a->rank == 1) + (b->rank == 1) - 2;
    int64_t a_strides[VULKAN_RANK], b_strides[VULKAN_RANK], result_strides[VULKAN_RANK];

    vulkan_strides(build, a_value, a_strides);
    vulkan_strides(build, b_value, b_strides);
    product->a_step = a_strides[a->rank - 1];
    product->a_row = a->rank > 1 ? a_strides[a->rank - 2] : 0;
    product->b_step = b_strides[b->rank > 1 ? b->rank - 2 : 0];
    product->b_column = b->rank > 1 ? b_strides[b->rank - 1] : 1;
    product->out_column = b->rank > 1 ? out_strides[output->rank - 1] : 1;
    product->out_row = a->rank > 1 ? out_strides[output->rank - 1 - (b->rank > 1)] : 0;
    memcpy(result_strides, out_strides, sizeof result_strides);
    batch_strides(build, a_value, rank, a_strides);
    batch_strides(build, b_value, rank, b_strides);
    if (!vulkan_merge_batches(rank, output->dims, 3, (int64_t *const[]){ a_strides, b_strides, result_strides },
                              product->batch,
                              (int64_t *const[]){ product->a_batch, product->b_batch, product->out_batch }))
        return false;
    if (product->batch[1] == 1 && product->b_batch[2] == 0 && product->a_batch[2] == product->line * product->a_row &&
        product->out_batch[2] == product->line * product->out_row) { /* all batches share B: treat them as more rows */
        product->line *= product->batch[2];
        product->batch[2] = 1;
    }
    return true;
}

/* Whether two programs have the same operations on tensors of the same shape and type. */
static bool is_same_form(const vulkan_build *build, const vulkan_program *program, const vulkan_program *other)
{
    bool like = program->slot_count == other->slot_count && program->load_count == other->load_count &&
                program->literal_count == other->literal_count && program->rank == other->rank &&
                memcmp(program->slots, other->slots, program->slot_count * sizeof program->slots[0]) == 0 &&
                memcmp(program->literals, other->literals, program->literal_count * sizeof program->literals[0]) == 0 &&
                memcmp(program->dims, other->dims, program->rank * sizeof program->dims[0]) == 0 &&
                build->tensors[program->result].dtype == build->tensors[other->result].dtype;

    for (uint32_t k = 0; k < program->load_count && like; k++)
        like = memcmp(program->loads[k].strides, other->loads[k].strides, program->rank * sizeof(int64_t)) == 0 &&
               build->tensors[program->loads[k].value].dtype == build->tensors[other->loads[k].value].dtype;
    return like;
}

/* Starts the program of a MatMul or MatMulNBits: its bias, and the ops that follow. */
static void start_program(vulkan_build *build, const vulkan_op *op, vulkan_program *program)
{
    const bool has_bias = op->row->family->weights == VULKAN_BLOCKS && vulkan_input(build, op, 5) != NULL;

    vulkan_program_start(build, program, op->info.outputs[0], VULKAN_SINGLE);
    if (has_bias)
        (void)vulkan_add_slot(program, OP_ADD, REG_ACC, vulkan_load_value(build, program, op->info.inputs[5]), 0);
    vulkan_fuse_epilogue(build, op, program);
}

/* Whether two packed B have the same sizes and types. */
static bool is_same_layout(const vulkan_build *build, const vulkan_op *op, const vulkan_op *other)
{
    const vulkan_constant *weights = vulkan_panels_of(build, op), *others = vulkan_panels_of(build, other);
    vulkan_panels panels;

    if (weights == NULL || others == NULL ||
        vulkan_input(build, op, 1)->dtype != vulkan_input(build, other, 1)->dtype ||
        (weights->panels.zeros != INLAY_NONE) != (others->panels.zeros != INLAY_NONE))
        return false;
    panels = others->panels;
    panels.scales = weights->panels.scales;
    panels.zeros = weights->panels.zeros;
    return memcmp(&panels, &weights->panels, sizeof panels) == 0;
}

/* Multiplications with the same A, such as queries, keys and values, become batches of one dispatch if their fused
 * epilogues match. programs: an array for their epilogues. */
static void find_siblings(vulkan_build *build, const vulkan_op *op, vulkan_product *product,
                          const vulkan_program *program, vulkan_program *programs)
{
    if (vulkan_panels_of(build, op) == NULL ||
        (program->load_count + 1) * (VULKAN_MAX_SIBLINGS + 1) > MOST_INPUTS + 1 ||
        product->batch[0] * product->batch[1] * product->batch[2] != 1)
        return;
    for (uint32_t i = vulkan_number_of(build, op) + 1;
         i < build->compiled->op_count && product->sibling_count < VULKAN_MAX_SIBLINGS; i++) {
        const vulkan_op *other = &build->compiled->ops[i];
        vulkan_program *other_program = &programs[product->sibling_count];

        if (build->done[i] || other->row->family != op->row->family || other->info.inputs[0] != op->info.inputs[0] ||
            !is_same_layout(build, op, other))
            continue;
        memcpy(build->done_backup, build->done, build->compiled->op_count * sizeof *build->done);
        build->done[i] = true;
        start_program(build, other, other_program);
        if (!is_same_form(build, program, other_program)) {
            memcpy(build->done, build->done_backup, build->compiled->op_count * sizeof *build->done);
            continue;
        }
        product->siblings[product->sibling_count].place = vulkan_constant_place(build, vulkan_panels_of(build, other));
        product->siblings[product->sibling_count++].program = other_program;
    }
    INLAY_CHECK(product->batch[0] == 1 && product->sibling_count <= VULKAN_MAX_SIBLINGS);
    product->batch[0] += product->sibling_count;
}

static inlay_status lower_mat_mul(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *a = vulkan_input(build, op, 0), *b = vulkan_input(build, op, 1);
    vulkan_product product = vulkan_product_of(a->rank == 1 ? 1 : a->dims[a->rank - 2], a->dims[a->rank - 1],
                                               b->rank == 1 ? 1 : b->dims[b->rank - 1]);
    int64_t strides[VULKAN_RANK];
    vulkan_program program, others[VULKAN_MAX_SIBLINGS];

    start_program(build, op, &program);
    if (vulkan_fuse_attention(build, op, &product, &program))
        return build->status;
    program.has_columns = b->rank > 1;
    program.column_dim = program.rank - 1;
    vulkan_follow_transpose(build, &program, strides);
    if (!set_mat_mul(build, op, strides, &product))
        return vulkan_decline(build, op, "its batch dimensions cannot be merged to three");
    find_siblings(build, op, &product, &program, others);
    return vulkan_finish_product(build, op, op->info.inputs[0], &product, &program);
}

static inlay_status lower_integers(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *a = vulkan_input(build, op, 0), *b = vulkan_input(build, op, vulkan_second_factor(op));
    vulkan_product product = vulkan_product_of(a->rank == 1 ? 1 : a->dims[a->rank - 2], a->dims[a->rank - 1],
                                               b->rank == 1 ? 1 : b->dims[b->rank - 1]);
    int64_t strides[VULKAN_RANK];
    vulkan_program program;

    vulkan_start_integers(build, op, &program, false);
    vulkan_follow_transpose(build, &program, strides);
    if (!set_mat_mul(build, op, strides, &product))
        return vulkan_decline(build, op, "its batch dimensions cannot be merged to three");
    return vulkan_finish_product(build, op, op->info.inputs[0], &product, &program);
}

static inlay_status lower_gemm(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *a = vulkan_input(build, op, 0), *b = vulkan_input(build, op, 1);
    const bool trans_a = kit_attr_int(&op->info, "transA", 0) != 0, trans_b = kit_attr_int(&op->info, "transB", 0) != 0;
    const double beta = kit_attr_float(&op->info, "beta", 1);
    vulkan_product product = vulkan_product_of(a->dims[trans_a], a->dims[!trans_a], b->dims[!trans_b]);
    vulkan_program program;

    product.alpha = (float)kit_attr_float(&op->info, "alpha", 1);
    product.a_row = trans_a ? 1 : product.k;
    product.a_step = trans_a ? product.line : 1;
    product.b_step = trans_b ? 1 : product.n;
    product.b_column = trans_b ? product.k : 1;
    vulkan_program_start(build, &program, op->info.outputs[0], VULKAN_SINGLE);
    if (vulkan_input(build, op, 2) != NULL && beta != 0) {
        uint32_t c = vulkan_load_value(build, &program, op->info.inputs[2]);

        if (beta != 1)
            c = vulkan_add_slot(&program, OP_MUL, c, vulkan_literal(&program, beta), 0);
        (void)vulkan_add_slot(&program, OP_ADD, REG_ACC, c, 0);
    }
    vulkan_fuse_epilogue(build, op, &program);
    program.has_columns = true;
    program.column_dim = 1;
    return vulkan_finish_product(build, op, op->info.inputs[0], &product, &program);
}

static bool blocks_support(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    if (!vulkan_has_types(node, 0, row->types, why))
        return false;
    for (uint32_t i = 1; i < 4; i++)
        if (kit_input(node, i) != NULL && kit_input(node, i)->data == NULL)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "input %u is not a constant", i);
    return kit_input(node, 4) == NULL ||
           kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "input 4 (g_idx) is not supported");
}

static inlay_status lower_blocks(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_panels panels = vulkan_block_panels(op);
    vulkan_product product = vulkan_product_of(vulkan_input(build, op, 0)->count / panels.k, panels.k, panels.columns);
    vulkan_program program, others[VULKAN_MAX_SIBLINGS];

    start_program(build, op, &program);
    program.has_columns = true;
    program.column_dim = program.rank - 1;
    find_siblings(build, op, &product, &program, others);
    return vulkan_finish_product(build, op, op->info.inputs[0], &product, &program);
}

static bool mat_mul_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    (void)row;
    return kit_input(node, 1)->rank > 0 || kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the second input is a scalar");
}

/* Compilers of shaders replace x * 0 by 0, also where x is NaN. */
static bool gemm_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    (void)row;
    return kit_attr_float(node->info, "alpha", 1) != 0 ||
           kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "with alpha 0, products that are NaN would be lost");
}

const vulkan_family vulkan_mat_mul = { .supports = mat_mul_supports,
                                       .lower = lower_mat_mul,
                                       .weights = VULKAN_MATRIX,
                                       .min_rank = 1,
                                       .strided_inputs = 2,
                                       .strided_rank = 5 };
const vulkan_family vulkan_mat_mul_integer = { .supports = vulkan_integers_support,
                                               .lower = lower_integers,
                                               .checks_types = true,
                                               .is_integer = true,
                                               .weights = VULKAN_MATRIX,
                                               .min_rank = 1 };
const vulkan_family vulkan_gemm = { .supports = gemm_supports, .lower = lower_gemm, .weights = VULKAN_MATRIX };
const vulkan_family vulkan_blocks = {
    .supports = blocks_support, .lower = lower_blocks, .checks_types = true, .weights = VULKAN_BLOCKS, .min_rank = 1
};
