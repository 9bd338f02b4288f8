/* MatMul and Gemm. */
#include "region.h"

/* ------------------------------------------------------------------ MatMul */

/* Strides of an operand over the result's batch dimensions; 0 where it is broadcast. */
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

/* The product of two values, whose result lies by out_strides. false: more than three batches. */
static bool set_mat_mul(const vulkan_build *build, const vulkan_op *op, const int64_t *out_strides,
                        vulkan_product *product)
{
    const uint32_t a_value = op->info.inputs[0], b_value = op->info.inputs[1];
    const vulkan_tensor *tensor = vulkan_input(build, op, 0), *other = vulkan_input(build, op, 1),
                        *output = vulkan_output(build, op, 0);
    const uint32_t rank = output->rank + (tensor->rank == 1) + (other->rank == 1) - 2;
    int64_t sa[VULKAN_RANK], sb[VULKAN_RANK], so[VULKAN_RANK];

    vulkan_strides(build, a_value, sa);
    vulkan_strides(build, b_value, sb);
    product->a_step = sa[tensor->rank - 1];
    product->a_row = tensor->rank > 1 ? sa[tensor->rank - 2] : 0;
    product->b_step = sb[other->rank > 1 ? other->rank - 2 : 0];
    product->b_column = other->rank > 1 ? sb[other->rank - 1] : 1;
    product->out_column = other->rank > 1 ? out_strides[output->rank - 1] : 1;
    product->out_row = tensor->rank > 1 ? out_strides[output->rank - 1 - (other->rank > 1)] : 0;
    memcpy(so, out_strides, sizeof so);
    batch_strides(build, a_value, rank, sa);
    batch_strides(build, b_value, rank, sb);
    if (!vulkan_merge_batches(rank, output->dims, 3, (int64_t *const[]){ sa, sb, so }, product->batch,
                              (int64_t *const[]){ product->a_batch, product->b_batch, product->out_batch }))
        return false;
    if (product->batch[1] == 1 && product->b_batch[2] == 0 && product->a_batch[2] == product->line * product->a_row &&
        product->out_batch[2] == product->line * product->out_row) { /* the same matrix for all: more rows */
        product->line *= product->batch[2];
        product->batch[2] = 1;
    }
    return true;
}

/* The same operations on tensors of the same form? */
static bool is_same_form(const vulkan_build *build, const vulkan_program *program, const vulkan_program *q)
{
    bool like = program->slot_count == q->slot_count && program->load_count == q->load_count &&
                program->literal_count == q->literal_count && program->rank == q->rank &&
                memcmp(program->slots, q->slots, program->slot_count * sizeof program->slots[0]) == 0 &&
                memcmp(program->literals, q->literals, program->literal_count * sizeof program->literals[0]) == 0 &&
                memcmp(program->dims, q->dims, program->rank * sizeof program->dims[0]) == 0 &&
                build->tensors[program->result].dtype == build->tensors[q->result].dtype;

    for (uint32_t k = 0; k < program->load_count && like; k++)
        like = memcmp(program->loads[k].strides, q->loads[k].strides, program->rank * sizeof(int64_t)) == 0 &&
               build->tensors[program->loads[k].value].dtype == build->tensors[q->loads[k].value].dtype;
    return like;
}

/* Products that read the same A, as those of queries, keys and values do: with what is fused behind them they become
 * batches of one dispatch. programs: room for what is behind each. */
static void find_siblings(vulkan_build *build, const vulkan_op *op, vulkan_product *product,
                          const vulkan_program *program, vulkan_program *programs)
{
    const vulkan_tensor *weights = vulkan_input(build, op, 1);

    if (vulkan_panels_of(build, op) == NULL ||
        (program->load_count + 1) * (VULKAN_MAX_SIBLINGS + 1) > MOST_INPUTS + 1 ||
        product->batch[0] * product->batch[1] * product->batch[2] != 1)
        return;
    for (uint32_t i = vulkan_number_of(build, op) + 1;
         i < build->compiled->op_count && product->sibling_count < VULKAN_MAX_SIBLINGS; i++) {
        const vulkan_op *other = &build->compiled->ops[i];
        vulkan_program *q = &programs[product->sibling_count];

        if (build->done[i] || other->row->family != &vulkan_mat_mul || other->info.inputs[0] != op->info.inputs[0] ||
            vulkan_panels_of(build, other) == NULL ||
            memcmp(vulkan_input(build, other, 1)->dims, weights->dims, 2 * sizeof(int64_t)) != 0 ||
            vulkan_input(build, other, 1)->dtype != weights->dtype)
            continue;
        memcpy(build->done_backup, build->done, build->compiled->op_count * sizeof *build->done);
        vulkan_program_start(build, q, other->info.outputs[0], VULKAN_SINGLE);
        build->done[i] = true;
        vulkan_fuse_epilogue(build, other, q);
        if (!is_same_form(build, program, q)) {
            memcpy(build->done, build->done_backup, build->compiled->op_count * sizeof *build->done);
            continue;
        }
        product->siblings[product->sibling_count].place = vulkan_constant_place(build, vulkan_panels_of(build, other));
        product->siblings[product->sibling_count++].program = q;
    }
    product->batch[0] += product->sibling_count;
}

static inlay_status lower_mat_mul(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *tensor = vulkan_input(build, op, 0), *other = vulkan_input(build, op, 1);
    vulkan_product product =
        vulkan_product_of(tensor->rank == 1 ? 1 : tensor->dims[tensor->rank - 2], tensor->dims[tensor->rank - 1],
                          other->rank == 1 ? 1 : other->dims[other->rank - 1]);
    int64_t strides[VULKAN_RANK];
    vulkan_program program, others[VULKAN_MAX_SIBLINGS];

    vulkan_program_start(build, &program, op->info.outputs[0], VULKAN_SINGLE);
    vulkan_fuse_epilogue(build, op, &program);
    if (vulkan_fuse_attention(build, op, &product, &program))
        return build->status;
    program.has_columns = other->rank > 1;
    program.column_dim = program.rank - 1;
    vulkan_follow_transpose(build, &program, strides);
    if (!set_mat_mul(build, op, strides, &product))
        return vulkan_decline(build, op, "its batches do not lie behind each other");
    find_siblings(build, op, &product, &program, others);
    return vulkan_finish_product(build, op, op->info.inputs[0], &product, &program);
}

/* ------------------------------------------------------------------ Gemm */

static inlay_status lower_gemm(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *tensor = vulkan_input(build, op, 0), *other = vulkan_input(build, op, 1);
    const bool trans_a = kit_attr_int(&op->info, "transA", 0) != 0, trans_b = kit_attr_int(&op->info, "transB", 0) != 0;
    const double beta = kit_attr_float(&op->info, "beta", 1);
    vulkan_product product = vulkan_product_of(tensor->dims[trans_a], tensor->dims[!trans_a], other->dims[!trans_b]);
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

static bool mat_mul_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    (void)row;
    return kit_input(node, 1)->rank > 0 || kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "a scalar is no matrix");
}

const vulkan_family vulkan_mat_mul = { .supports = mat_mul_supports, .lower = lower_mat_mul, .min_rank = 1 };
const vulkan_family vulkan_gemm = { .lower = lower_gemm };
