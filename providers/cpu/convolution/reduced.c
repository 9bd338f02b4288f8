/* Convolutions in bfloat16 by oneDNN (option precision: reduced). */
#include "cpu/convolution/tiles.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/product/product.h"
#include "cpu/region/window.h"
#include "cpu/weights/read.h"

static void describe(const cpu_build *build, const memory_desc *w_plain, const memory_desc *bias, library_type y_type,
                     library_op *out)
{
    const cpu_op *op = build->op;
    uint32_t x = op->in[0], y = op->out[0], rank = build->ranks[y];

    *out = (library_op){ .kind = LIBRARY_CONVOLUTION, .alg = LIBRARY_CONVOLUTION_DIRECT };
    memory_desc_any(&out->input, rank, build->dims[x]);
    memory_desc_any(&out->weights, (uint32_t)w_plain->ndims, w_plain->dims);
    memory_desc_any(&out->output, rank, build->dims[y]);
    if (bias != NULL)
        out->bias = *bias;
    out->input.data_type = out->weights.data_type = LIBRARY_BF16;
    out->output.data_type = y_type;
    cpu_window_pads(op, out->input.dims + 2, out->output.dims + 2, op->window.kernel, out->begins, out->ends);
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        out->strides[i] = op->window.strides[i];
        out->dilations[i] = op->window.dilations[i] - 1;
    }
}

/* Creates the primitive with as many post-ops as it can fuse. The result is bfloat16 only if it fuses all. */
static inlay_status create_description(cpu_build *build, const cpu_group *group, const memory_desc *w_plain,
                                       const memory_desc *bias, cpu_fused *out)
{
    library_type type = cpu_kept_type(build, group->out);
    inlay_status status;
    library_op desc;

    describe(build, w_plain, bias, type, &desc);
    status = cpu_fuse_posts(build, group, &desc, out);
    if (status != INLAY_OK || type == LIBRARY_F32 || out->count == group->post_count)
        return status;
    library_destroy(out->pd);
    *out = (cpu_fused){ 0 };
    desc.output.data_type = LIBRARY_F32;
    return cpu_fuse_posts(build, group, &desc, out);
}

inlay_status cpu_lower_reduced_conv(cpu_build *build, const cpu_group *group, bool *out_done)
{
    const cpu_op *op = build->op;
    uint32_t bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias, count = 0;
    inlay_diag *diag = build->diag;
    cpu_fused fused = { 0 };
    memory_desc w_plain, bias_md;
    cpu_place input, weights, bias;
    cpu_operand operands[3];
    inlay_status status;

    *out_done = false;
    cpu_window_weights(build, op->in[1], &w_plain);
    memory_desc_plain(&bias_md, 1, &build->dims[op->out[0]][1]);
    build->diag = NULL; /* no error yet: the float kernels remain */
    status = create_description(build, group, &w_plain, bias_value != INLAY_NONE ? &bias_md : NULL, &fused);
    build->diag = diag;
    if (status == INLAY_OUT_OF_MEMORY)
        status = inlay_fail(build->diag, status, "node '%s': no memory", op->name);
    else if (status != INLAY_OK)
        status = INLAY_OK;
    else
        *out_done = true;
    if (!*out_done)
        goto done;
    INLAY_TRY(
        cpu_read_as(build, op->in[0], library_layout(fused.pd, LIBRARY_OPERAND_SRC, &(memory_desc){ 0 }), &input));
    INLAY_TRY(cpu_read_constant(build, op->in[1], &w_plain,
                                library_layout(fused.pd, LIBRARY_OPERAND_WEIGHTS, &(memory_desc){ 0 }), &weights));
    operands[count++] = (cpu_operand){ LIBRARY_ARG_SRC, &input };
    operands[count++] = (cpu_operand){ LIBRARY_ARG_WEIGHTS, &weights };
    if (bias_value != INLAY_NONE) {
        INLAY_TRY(cpu_read_constant(build, bias_value, &bias_md, &bias_md, &bias));
        operands[count++] = (cpu_operand){ LIBRARY_ARG_BIAS, &bias };
    }
    status = cpu_emit_fused(build, group, &fused, operands, count);
done:
    library_destroy(fused.pd);
    return status;
}
