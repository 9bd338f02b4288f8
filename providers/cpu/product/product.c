/* MatMul and Gemm. With a constant matrix: one GEMM of all rows with packed weights. With two computed matrices: a
 * batched GEMM, which reads transposed views in place. */
#include "cpu/choice/kernels.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/matrix/terms.h"
#include "cpu/product/product.h"
#include "cpu/weights/read.h"
#include "cpu/weights/sparse_weights.h"

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *info = kit_input(node, 0), *weights = kit_input(node, 1), *bias = kit_input(node, 2);
    bool gemm = strcmp(op->row->op_type, "Gemm") == 0;
    int64_t count;

    if (!cpu_known_rank(info, 2, 6, "input 0", why) || !cpu_known_rank(weights, 2, 6, "input 1", why))
        return false;
    count = cpu_known_count(info);
    op->product.many_rows = count > SGEMM_FEW_HALVES * info->dims[info->rank - 1].value;
    if (!gemm)
        return true;
    op->product.trans_a = kit_attr_int(node->info, "transA", 0) != 0;
    op->product.trans_b = kit_attr_int(node->info, "transB", 0) != 0;
    op->alpha = (float)kit_attr_float(node->info, "alpha", 1);
    op->beta = (float)kit_attr_float(node->info, "beta", 1);
    if (bias != NULL && bias->rank > 2)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input 2 has rank %u", bias->rank);
    return true;
}

/* C of Gemm becomes the first binary post-op. */
static void add_operand(const cpu_op *op, cpu_group *group)
{
    if (op->in_count < 3 || op->in[2] == INLAY_NONE)
        return;
    INLAY_CHECK(group->post_count < CPU_MAX_POSTS);
    memmove(group->posts + 1, group->posts, group->post_count * sizeof *group->posts);
    group->posts[0] = (cpu_post){ .kind = CPU_POST_BINARY, .function = FUNCTION_ADD, .other = op->in[2] };
    group->post_count++;
}

static uint32_t bias_of(const cpu_op *op, const cpu_group *group)
{
    return op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias;
}

inlay_status kernel_packed(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    (void)layer;
    *out_done = true;
    return cpu_lower_dense(build, group, bias_of(build->op, group), DENSE_FLOATS);
}

inlay_status kernel_terms(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    (void)layer;
    *out_done = true;
    return cpu_lower_dense(build, group, bias_of(build->op, group), DENSE_TERMS);
}

inlay_status kernel_sparse(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    (void)layer;
    *out_done = sparse_blocks_of(build, build->op) >= 0;
    return *out_done ? cpu_lower_dense(build, group, bias_of(build->op, group), DENSE_SPARSE) : INLAY_OK;
}

inlay_status kernel_batched(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    cpu_group own = *group;

    (void)layer;
    *out_done = true;
    add_operand(build->op, &own);
    return cpu_lower_batched(build, &own);
}

/* Is the constant matrix read as 16-bit floats in each run? Such a matrix [n, k] needs no pack, and few rows, which
 * wait for memory, take half the time. Many rows take longer, so products that never have few are packed as floats. */
static bool reads_halves(const cpu_build *build, const kernel_gemm_shape *gemm)
{
    const cpu_op *op = build->op;

    return gemm->packed && op->product.trans_b && !op->product.many_rows && gemm->k % SGEMM_LANES == 0 &&
           cpu_halves_of(build, op->in[1]) != NULL && terms_of_cpu() == NULL;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    kernel_layer layer = { .product = true };

    if (build->compiled->values[build->op->in[1]].weights != INLAY_NONE)
        return nbits_lower(build, group);
    kernel_gemm_shape_of(build, &layer.gemm);
    if (reads_halves(build, &layer.gemm))
        return cpu_lower_dense(build, group, bias_of(build->op, group), DENSE_HALVES);
    return kernel_lower(build, group, &layer);
}

const cpu_family cpu_product = { .kind = CPU_FAMILY_PRODUCT,
                                 .name = "matrix multiplication",
                                 .parse = parse,
                                 .lower = lower,
                                 .takes_posts = true,
                                 .takes_bias = true };
