/* Option precision: in which types products are computed, and in which their results wait. With `reduced` operands are
 * bfloat16 and sums float; a result stays bfloat16 where only such products read it. */
#include "region/build.h"

bool rg_has_bf16(void)
{
    return dn_has_isa(DN_ISA_AVX512_BF16);
}

dn_type rg_product_type(const rg_build *build)
{
    return build->state->bf16 ? DN_BF16 : DN_F32;
}

dn_type rg_kept_type(const rg_build *build, uint32_t value)
{
    uint32_t products = 0;

    if (!build->state->bf16 || build->compiled->values[value].output != INLAY_NONE)
        return DN_F32;
    for (uint32_t o = 0; o < build->compiled->op_count; o++) {
        const rg_op *op = &build->compiled->ops[o];

        for (uint32_t i = 0; i < op->in_count; i++) {
            const rg_family *family = op->row->family;

            if (op->in[i] != value)
                continue;
            if (i == 0 && (family == &rg_conv || (family == &rg_product && rg_is_packed(build, op))))
                products++;
            else if (family != &rg_binary || build->ranks[value] < 3 || op->alg != DN_BINARY_ADD)
                return DN_F32; /* sums become a part of a convolution's kernel */
        }
    }
    return products > 0 ? DN_BF16 : DN_F32;
}

inlay_status rg_read_rows(rg_build *build, uint32_t value, dn_type type, rg_place *out)
{
    rg_md md;

    if (type == DN_F32)
        return rg_read_plain(build, value, out);
    rg_md_plain(&md, build->ranks[value], build->dims[value]);
    md.data_type = type;
    return rg_read_as(build, value, &md, out);
}

/* ------------------------------------------------------------------ convolutions of bfloat16 */

static void describe(const rg_build *build, const rg_md *w_plain, const rg_md *bias, dn_type y_type, dn_op *out)
{
    const rg_op *op = build->op;
    uint32_t x = op->in[0], y = op->out[0], rank = build->ranks[y];

    *out = (dn_op){ .kind = DN_CONVOLUTION, .alg = DN_CONVOLUTION_DIRECT };
    rg_md_any(&out->input, rank, build->dims[x]);
    rg_md_any(&out->desc, (uint32_t)w_plain->ndims, w_plain->dims);
    rg_md_any(&out->output, rank, build->dims[y]);
    if (bias != NULL)
        out->bias = *bias;
    out->input.data_type = out->desc.data_type = DN_BF16;
    out->output.data_type = y_type;
    rg_window_pads(op, out->input.dims + 2, out->output.dims + 2, op->window.kernel, out->begins, out->ends);
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        out->strides[i] = op->window.strides[i];
        out->dilations[i] = op->window.dilations[i] - 1;
    }
}

/* The kernel with as many functions as it takes, and a result that is bfloat16 only if it takes all. */
static inlay_status make(rg_build *build, const rg_group *group, const rg_md *w_plain, const rg_md *bias, rg_fused *out)
{
    dn_type type = rg_kept_type(build, group->out);
    inlay_status status;
    dn_op desc;

    describe(build, w_plain, bias, type, &desc);
    status = rg_fuse_posts(build, group, &desc, out);
    if (status != INLAY_OK || type == DN_F32 || out->count == group->post_count)
        return status;
    dn_destroy(out->pd);
    *out = (rg_fused){ 0 };
    desc.output.data_type = DN_F32;
    return rg_fuse_posts(build, group, &desc, out);
}

inlay_status rg_lower_reduced_conv(rg_build *build, const rg_group *group, bool *out_done)
{
    const rg_op *op = build->op;
    uint32_t bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias, n = 0;
    inlay_diag *diag = build->diag;
    rg_fused fused = { 0 };
    rg_md w_plain, bias_md;
    rg_place input, weights, bias;
    rg_operand operands[3];
    inlay_status status;

    *out_done = false;
    rg_window_weights(build, op->in[1], &w_plain);
    rg_md_plain(&bias_md, 1, &build->dims[op->out[0]][1]);
    build->diag = NULL; /* no error yet: floats are left */
    status = make(build, group, &w_plain, bias_value != INLAY_NONE ? &bias_md : NULL, &fused);
    build->diag = diag;
    if (status == INLAY_OUT_OF_MEMORY)
        status = inlay_fail(build->diag, status, "node '%s': no memory", op->name);
    else if (status != INLAY_OK)
        status = INLAY_OK;
    else
        *out_done = true;
    if (!*out_done)
        goto done;
    INLAY_TRY(rg_read_as(build, op->in[0], dn_layout(fused.pd, DN_OPERAND_SRC, &(rg_md){ 0 }), &input));
    INLAY_TRY(
        rg_read_constant(build, op->in[1], &w_plain, dn_layout(fused.pd, DN_OPERAND_WEIGHTS, &(rg_md){ 0 }), &weights));
    operands[n++] = (rg_operand){ DN_ARG_SRC, &input };
    operands[n++] = (rg_operand){ DN_ARG_WEIGHTS, &weights };
    if (bias_value != INLAY_NONE) {
        INLAY_TRY(rg_read_constant(build, bias_value, &bias_md, &bias_md, &bias));
        operands[n++] = (rg_operand){ DN_ARG_BIAS, &bias };
    }
    status = rg_emit_fused(build, group, &fused, operands, n);
done:
    dn_destroy(fused.pd);
    return status;
}
