/* Conv and ConvTranspose (ONNX Conv-1..22, ConvTranspose-1..22). */
#include "build.h"
#include "window.h"

static bool parse_both(const kit_node *node, rg_op *op, kit_refusal *why, bool transposed)
{
    const inlay_value_info *x = kit_input(node, 0), *w = kit_input(node, 1), *bias = kit_input(node, 2);

    if (!rg_known_rank(x, 3, 5, "input 0", why) || !rg_known_rank(w, x->rank, x->rank, "input 1", why))
        return false;
    if (!kit_is_constant(node, 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make input 1 a constant", "the weights are not constant");
    for (uint32_t d = 0; d < w->rank; d++)
        if (w->dims[d].kind != INLAY_DIM_FIXED || w->dims[d].value < 1)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the shape of the weights is not known");
    if (bias != NULL && (bias->rank != 1 || !kit_is_constant(node, 2)))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make input 2 a constant", "the bias is not a constant vector");
    op->group = kit_attr_int(node->info, "group", 1);
    if (op->group < 1 || w->dims[0].value % op->group != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "group does not divide the channels");
    for (uint32_t i = 0; i < x->rank - 2; i++)
        op->kernel[i] = w->dims[2 + i].value;
    if (!rg_parse_window(node, x->rank - 2, op, why))
        return false;
    if (transposed) {
        uint32_t given;

        if (op->auto_pad == RG_PAD_SAME_LOWER || op->auto_pad == RG_PAD_SAME_UPPER ||
            kit_attr_ints(node->info, "output_shape", &given) != NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "state pads", "pads that follow from output_shape");
    }
    return true;
}

static bool parse_conv(const kit_node *node, rg_op *op, kit_refusal *why)
{
    return parse_both(node, op, why, false);
}

static bool parse_transposed(const kit_node *node, rg_op *op, kit_refusal *why)
{
    return parse_both(node, op, why, true);
}

/* The weights as oneDNN numbers their axes, read where ONNX has them: Conv [O, I/g, ..], ConvTranspose [I, O/g, ..]. */
static uint32_t weights_axes(const rg_build *b, bool transposed, rg_md *out_plain, int64_t *dims)
{
    const rg_op *op = b->op;
    const int64_t *w = b->dims[op->in[1]];
    uint32_t rank = b->ranks[op->in[1]], n = 0;
    int64_t own[RG_MAX_RANK], strides[RG_MAX_RANK], kernel = 1, first = w[0] / op->group;

    for (uint32_t d = 2; d < rank; d++)
        kernel *= w[d];
    if (op->group > 1) {
        own[n] = op->group;
        strides[n++] = first * w[1] * kernel;
    }
    own[n] = transposed ? w[1] : first;
    strides[n++] = transposed ? kernel : w[1] * kernel;
    own[n] = transposed ? first : w[1];
    strides[n++] = transposed ? w[1] * kernel : kernel;
    for (uint32_t d = 2; d < rank; d++) {
        kernel /= w[d];
        own[n] = w[d];
        strides[n++] = kernel;
    }
    memcpy(dims, own, n * sizeof *own);
    rg_md_strides(out_plain, n, own, strides);
    return n;
}

static inlay_status describe(const rg_build *b, bool transposed, const rg_md *x, const rg_md *w, const rg_md *bias,
                             const rg_md *y, void *desc)
{
    const rg_op *op = b->op;
    dnnl_dims_t begins, ends, dilations;
    dnnl_status_t code;

    if (transposed) {
        for (uint32_t i = 0; i < op->spatial; i++) {
            begins[i] = op->auto_pad == RG_PAD_VALID ? 0 : op->pads[i];
            ends[i] = (op->auto_pad == RG_PAD_VALID ? 0 : op->pads[op->spatial + i]) - op->output_padding[i];
        }
    } else {
        rg_window_pads(op, x->dims + 2, y->dims + 2, op->kernel, begins, ends);
    }
    for (uint32_t i = 0; i < op->spatial; i++)
        dilations[i] = op->dilations[i] - 1;
    if (transposed)
        code = dnnl_dilated_deconvolution_forward_desc_init(desc, dnnl_forward_inference, dnnl_deconvolution_direct, x,
                                                            w, bias, y, op->strides, dilations, begins, ends);
    else
        code = dnnl_dilated_convolution_forward_desc_init(desc, dnnl_forward_inference, dnnl_convolution_direct, x, w,
                                                          bias, y, op->strides, dilations, begins, ends);
    return rg_check(code, b->diag, "describe this convolution", op->name);
}

static inlay_status lower_both(rg_build *b, const rg_group *group, bool transposed)
{
    const rg_op *op = b->op;
    uint32_t y = op->out[0], bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias;
    union {
        dnnl_convolution_desc_t conv;
        dnnl_deconvolution_desc_t deconv;
    } desc;
    int64_t w_dims[RG_MAX_RANK], channels = b->dims[y][1];
    rg_md x_md, w_plain, w_md, y_md, bias_md;
    rg_place x, w, bias;
    rg_fused fused = { 0 };
    uint32_t w_rank, n = 0;
    rg_operand operands[3];
    inlay_status status;

    w_rank = weights_axes(b, transposed, &w_plain, w_dims);
    rg_md_any(&x_md, b->ranks[y], b->dims[op->in[0]]);
    rg_md_any(&w_md, w_rank, w_dims);
    rg_md_any(&y_md, b->ranks[y], b->dims[y]);
    rg_md_plain(&bias_md, 1, &channels);
    INLAY_TRY(describe(b, transposed, &x_md, &w_md, bias_value != INLAY_NONE ? &bias_md : NULL, &y_md, &desc));
    INLAY_TRY(rg_fuse_posts(b, group, &desc, b->ranks[y], b->dims[y], &fused));
    INLAY_TRY(rg_read_as(b, op->in[0], dnnl_primitive_desc_query_md(fused.pd, dnnl_query_src_md, 0), &x));
    INLAY_TRY(rg_read_constant(b, op->in[1], &w_plain, dnnl_primitive_desc_query_md(fused.pd, dnnl_query_weights_md, 0),
                               &w));
    operands[n++] = (rg_operand){ DNNL_ARG_SRC, &x };
    operands[n++] = (rg_operand){ DNNL_ARG_WEIGHTS, &w };
    if (bias_value != INLAY_NONE) {
        INLAY_TRY(rg_read_constant(b, bias_value, &bias_md, &bias_md, &bias));
        operands[n++] = (rg_operand){ DNNL_ARG_BIAS, &bias };
    }
    status = rg_emit_fused(b, group, &fused, operands, n);
done:
    (void)dnnl_primitive_desc_destroy(fused.pd);
    return status;
}

static inlay_status lower_conv(rg_build *b, const rg_group *group)
{
    return lower_both(b, group, false);
}

static inlay_status lower_transposed(rg_build *b, const rg_group *group)
{
    return lower_both(b, group, true);
}

const rg_family rg_conv = { "convolution", parse_conv, lower_conv };
const rg_family rg_conv_transpose = { "transposed convolution", parse_transposed, lower_transposed };
