/* MatMul and Gemm. By a constant matrix: an inner product with packed weights over all rows at once. Of two
 * activations: a batched product, which reads transposed views as they lie. */
#include "choice/kernels.h"
#include "weights/nbits_weights.h"
#include "weights/sparse_weights.h"

static bool parse(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *info = kit_input(node, 0), *weights = kit_input(node, 1), *c = kit_input(node, 2);
    bool gemm = strcmp(op->row->op_type, "Gemm") == 0;

    if (!rg_known_rank(info, 2, 6, "input 0", why) || !rg_known_rank(weights, 2, 6, "input 1", why))
        return false;
    if (!gemm)
        return true;
    op->product.trans_a = kit_attr_int(node->info, "transA", 0) != 0;
    op->product.trans_b = kit_attr_int(node->info, "transB", 0) != 0;
    op->alpha = (float)kit_attr_float(node->info, "alpha", 1);
    op->beta = (float)kit_attr_float(node->info, "beta", 1);
    if (c != NULL && c->rank > 2)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input 2 has rank %u", c->rank);
    return true;
}

/* oneDNN's inner product by a constant matrix, which it packs. */
static inlay_status lower_inner(rg_build *build, const rg_group *group)
{
    const rg_op *op = build->op;
    uint32_t a = op->in[0], w = op->in[1];
    int64_t k = build->dims[w][op->product.trans_b ? 1 : 0], n = build->dims[w][op->product.trans_b ? 0 : 1],
            m = rg_count(build, a) / k;
    int64_t a_dims[] = { m, k }, w_dims[] = { n, k }, y_dims[] = { m, n };
    int64_t w_strides[] = { op->product.trans_b ? k : 1, op->product.trans_b ? 1 : n };
    uint32_t bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias;
    dn_op desc = { .kind = DN_INNER_PRODUCT };
    rg_md w_plain, bias_md;
    rg_fused fused = { 0 };
    rg_place input, packed, bias;
    rg_operand operands[3];
    uint32_t count = 0;
    inlay_status status;

    rg_md_plain(&desc.input, 2, a_dims);
    rg_md_strides(&w_plain, 2, w_dims, w_strides);
    rg_md_any(&desc.desc, 2, w_dims);
    rg_md_plain(&desc.output, 2, y_dims);
    rg_md_plain(&bias_md, 1, &n);
    desc.input.data_type = desc.desc.data_type = rg_product_type(build);
    desc.output.data_type = rg_kept_type(build, group->out);
    if (bias_value != INLAY_NONE)
        desc.bias = bias_md;
    INLAY_TRY(rg_fuse_posts(build, group, &desc, &fused));
    if (desc.output.data_type != DN_F32 && fused.count < group->post_count) { /* the rest wants floats */
        desc.output.data_type = DN_F32;
        dn_destroy(fused.pd);
        fused = (rg_fused){ 0 };
        INLAY_TRY(rg_fuse_posts(build, group, &desc, &fused));
    }
    INLAY_TRY(rg_read_rows(build, a, desc.input.data_type, &input));
    input.md = desc.input;
    INLAY_TRY(rg_read_constant(build, w, &w_plain, dn_layout(fused.pd, DN_OPERAND_WEIGHTS, &(rg_md){ 0 }), &packed));
    operands[count++] = (rg_operand){ DN_ARG_SRC, &input };
    operands[count++] = (rg_operand){ DN_ARG_WEIGHTS, &packed };
    if (bias_value != INLAY_NONE) {
        INLAY_TRY(rg_read_constant(build, bias_value, &bias_md, &bias_md, &bias));
        operands[count++] = (rg_operand){ DN_ARG_BIAS, &bias };
    }
    status = rg_emit_fused(build, group, &fused, operands, count);
done:
    dn_destroy(fused.pd);
    return status;
}

/* C of Gemm is added like any other operand, ahead of the rest. */
static void add_operand(const rg_op *op, rg_group *group)
{
    if (op->in_count < 3 || op->in[2] == INLAY_NONE)
        return;
    memmove(group->posts + 1, group->posts, group->post_count * sizeof *group->posts);
    group->posts[0] = (rg_post){ .kind = RG_POST_BINARY, .alg = DN_BINARY_ADD, .other = op->in[2] };
    group->post_count++;
}

/* ------------------------------------------------------------------ the kernels */

static uint32_t bias_of(const rg_op *op, const rg_group *group)
{
    return op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias;
}

inlay_status kn_packed(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    (void)layer;
    *out_done = true;
    return rg_lower_dense(build, group, bias_of(build->op, group), RG_DENSE_PLAIN);
}

inlay_status kn_paired(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    (void)layer;
    *out_done = true;
    return rg_lower_dense(build, group, bias_of(build->op, group), RG_DENSE_PAIRS);
}

inlay_status kn_sparse(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    (void)layer;
    *out_done = sparse_blocks_of(build, build->op) >= 0 || sparse_fours_of(build, build->op);
    return *out_done ? rg_lower_dense(build, group, bias_of(build->op, group), RG_DENSE_SPARSE) : INLAY_OK;
}

inlay_status kn_inner(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    (void)layer;
    *out_done = true;
    return lower_inner(build, group);
}

inlay_status kn_plain(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    (void)layer;
    *out_done = true;
    return rg_lower_cut(build, group, bias_of(build->op, group));
}

inlay_status kn_batched(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    rg_group own = *group;

    (void)layer;
    *out_done = true;
    add_operand(build->op, &own);
    return rg_lower_batched(build, &own);
}

inlay_status kn_matmul(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done)
{
    rg_group own = *group;

    (void)layer;
    *out_done = true;
    add_operand(build->op, &own);
    return rg_lower_cut(build, &own, INLAY_NONE);
}

static inlay_status lower(rg_build *build, const rg_group *group)
{
    kn_case layer = { .product = true };

    if (build->compiled->values[build->op->in[1]].weights != INLAY_NONE)
        return nbits_lower(build, group);
    kn_measure_product(build, &layer.p);
    return kn_lower(build, group, &layer);
}

const rg_family rg_product = { "product", parse, lower };
