/* Conv (ONNX Conv-1..22), and what transposed.c leaves to oneDNN of ConvTranspose. */
#include "tiles.h"
#include "window.h"

static bool parse_both(const kit_node *node, rg_op *op, kit_refusal *why)
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
    return true;
}

static bool parse_conv(const kit_node *node, rg_op *op, kit_refusal *why)
{
    return parse_both(node, op, why);
}

bool rg_parse_deconvolution(const kit_node *node, rg_op *op, kit_refusal *why)
{
    return parse_both(node, op, why);
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

/* Which algorithm, and which layout is asked for: what oneDNN likes best, the blocks that the input has already, or
 * Winograd's. */
typedef enum variant { AS_LIKED, AS_IT_LIES, WINOGRAD } variant;

static inlay_status describe(const rg_build *b, bool transposed, variant v, const rg_md *x, const rg_md *w,
                             const rg_md *bias, const rg_md *y, void *desc)
{
    const rg_op *op = b->op;
    dnnl_dims_t begins, ends, dilations;
    dnnl_status_t code;

    if (transposed)
        rg_deconvolution_pads(op, x->dims + 2, y->dims + 2, begins, ends);
    else
        rg_window_pads(op, x->dims + 2, y->dims + 2, op->kernel, begins, ends);
    for (uint32_t i = 0; i < op->spatial; i++)
        dilations[i] = op->dilations[i] - 1;
    if (transposed)
        code = dnnl_dilated_deconvolution_forward_desc_init(desc, dnnl_forward_inference, dnnl_deconvolution_direct, x,
                                                            w, bias, y, op->strides, dilations, begins, ends);
    else
        code = dnnl_dilated_convolution_forward_desc_init(
            desc, dnnl_forward_inference, v == WINOGRAD ? dnnl_convolution_winograd : dnnl_convolution_direct, x, w,
            bias, y, op->strides, dilations, begins, ends);
    return rg_check(code, b->diag, "describe this convolution", op->name);
}

/* ------------------------------------------------------------------ choosing */

/* Rates of a core with AVX-512, as measured. Only their ratios matter here. */
#define FLOPS_PER_NS 255.0
#define REORDER_BYTES_PER_NS 30.0

static double reorder_ns(const rg_md *md)
{
    return 2.0 * (double)rg_md_bytes(md) / REORDER_BYTES_PER_NS;
}

double rg_winograd_gain(const rg_op *op, int64_t in, int64_t out, int64_t height, int64_t width)
{
    int64_t side = height < width ? height : width;

    if (op->row->family != &rg_conv || op->spatial != 2 || op->group != 1 || op->kernel[0] != 3 || op->kernel[1] != 3 ||
        op->strides[0] != 1 || op->strides[1] != 1 || op->dilations[0] != 1 || op->dilations[1] != 1 || in < 16 ||
        out < 32)
        return 0;
    if (side < 12)
        return in >= 512 && out >= 512 ? 1.15 : 0;
    if (side < 20)
        return in >= 512 ? 1.5 : in >= 256 ? 1.36 : in >= 128 ? 1.25 : 0;
    if (in < 64 || out < 64)
        return 1.25;
    if (side < 40)
        return in >= 256 ? 2.0 : 1.6;
    return in >= 128 ? 2.2 : 1.85;
}

static double winograd_gain(const rg_build *b, const rg_op *op)
{
    const int64_t *y = b->dims[op->out[0]];

    return b->state->winograd && op->spatial == 2 ? rg_winograd_gain(op, b->dims[op->in[0]][1], y[1], y[2], y[3]) : 0;
}

/* How a direct convolution in blocks of 16 channels does beside one with channels last. */
static double blocked_rate(const rg_build *b, const rg_op *op)
{
    const int64_t *y = b->dims[op->out[0]];
    int64_t side = op->spatial == 2 && y[2] > y[3] ? y[3] : y[2];

    if (op->group > 1 || (op->kernel[0] == 1 && (op->spatial < 2 || op->kernel[1] == 1)))
        return 1;
    return side < 10 ? 0.7 : side < 20 ? 0.8 : 0.92;
}

/* Does anybody who reads the value gain by blocks? */
static bool blocks_are_wanted(const rg_build *b, uint32_t value)
{
    for (uint32_t o = 0; o < b->c->op_count; o++) {
        const rg_op *op = &b->c->ops[o];

        if (op->in_count > 0 && op->in[0] == value && winograd_gain(b, op) > 0)
            return true;
    }
    return false;
}

static variant choose(const rg_build *b, const rg_group *group, const rg_place *x)
{
    const rg_op *op = b->op;
    double gain = winograd_gain(b, op), flops = 2.0 * (double)rg_count(b, op->out[0]), liked, lies, winograd, y_ns;
    bool blocked = rg_md_is_blocked(&x->md);

    for (uint32_t i = 0; i < op->spatial; i++)
        flops *= (double)op->kernel[i];
    flops *= (double)b->dims[op->in[1]][1];
    if (gain == 0 && !blocked)
        return AS_LIKED;
    y_ns = 8.0 * (double)rg_count(b, op->out[0]) / REORDER_BYTES_PER_NS;
    liked = flops / FLOPS_PER_NS + (blocked ? reorder_ns(&x->md) : 0);
    lies = blocked ? flops / FLOPS_PER_NS / blocked_rate(b, op) : 1e30;
    winograd = gain > 0 ? flops / FLOPS_PER_NS / gain + (blocked ? 0 : reorder_ns(&x->md)) : 1e30;
    if (!blocks_are_wanted(b, group->out))
        winograd += y_ns / 2;
    /* Operands of the same size that lie otherwise would have to be reordered too. */
    for (uint32_t p = 0; p < group->post_count; p++) {
        const rg_place *other = group->posts[p].kind == RG_POST_BINARY ? &b->places[group->posts[p].other] : NULL;

        if (other == NULL || other->buffer == INLAY_NONE || rg_md_count(&other->md) < rg_count(b, group->out))
            continue;
        if (rg_md_is_blocked(&other->md)) {
            liked += y_ns;
        } else {
            winograd += y_ns;
            lies += y_ns;
        }
    }
    if (winograd < liked && winograd < lies)
        return WINOGRAD;
    return lies <= liked ? AS_IT_LIES : AS_LIKED;
}

/* ------------------------------------------------------------------ lowering */

typedef struct conv_mds {
    rg_md w_plain, w, bias;
    uint32_t bias_value;
} conv_mds;

/* The descriptor of a variant. Winograd's counts only if it takes all functions behind it. */
static inlay_status make(rg_build *b, const rg_group *group, bool transposed, variant v, const rg_place *x,
                         const conv_mds *m, rg_fused *out)
{
    const rg_op *op = b->op;
    uint32_t y = op->out[0], rank = b->ranks[y];
    union {
        dnnl_convolution_desc_t conv;
        dnnl_deconvolution_desc_t deconv;
    } desc;
    rg_md x_md, y_md;
    inlay_status status;

    rg_md_any(&x_md, rank, b->dims[op->in[0]]);
    rg_md_any(&y_md, rank, b->dims[y]);
    if (v == AS_IT_LIES && rg_md_same_blocks(&x->md, rank, b->dims[y], &y_md))
        (void)rg_md_same_blocks(&x->md, rank, b->dims[op->in[0]], &x_md); /* kernels compare strides, idle ones too */
    status = describe(b, transposed, v, &x_md, &m->w, m->bias_value != INLAY_NONE ? &m->bias : NULL, &y_md, &desc);
    if (status == INLAY_OK)
        status = rg_fuse_posts(b, group, &desc, out);
    if (status == INLAY_OK && ((v == WINOGRAD && out->count < group->post_count) ||
                               (v != AS_LIKED && !rg_is_fast(out->pd))))
        status = INLAY_UNSUPPORTED;
    return status;
}

/* Has oneDNN nothing for it but windows unfolded in memory, or a plain loop? */
static bool unfolds(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    if (!rg_is_fast(pd))
        return true;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) == dnnl_success &&
           name != NULL && (strncmp(name, "gemm", 4) == 0 || strncmp(name, "x64:gemm", 8) == 0);
}

static inlay_status lower_both(rg_build *b, const rg_group *group, bool transposed)
{
    const rg_op *op = b->op;
    dnnl_dims_t w_dims;
    conv_mds m = { .bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias };
    rg_place x, w, bias;
    rg_fused fused = { 0 };
    uint32_t w_rank, n = 0;
    rg_operand operands[3];
    variant v = AS_LIKED;
    inlay_status status;

    w_rank = weights_axes(b, transposed, &m.w_plain, w_dims);
    rg_md_any(&m.w, w_rank, w_dims);
    rg_md_plain(&m.bias, 1, &b->dims[op->out[0]][1]);
    if (!transposed) {
        bool done;

        INLAY_TRY(tiles_lower(b, group, &m.w_plain, m.bias_value, &done));
        if (done)
            goto done;
    }
    INLAY_TRY(rg_read(b, op->in[0], &x));
    if (!transposed)
        v = choose(b, group, &x);
    if (v != AS_LIKED) {
        inlay_diag *diag = b->diag;

        b->diag = NULL; /* no error yet: the other way is left */
        status = make(b, group, transposed, v, &x, &m, &fused);
        b->diag = diag;
        if (status == INLAY_OUT_OF_MEMORY) {
            status = inlay_fail(b->diag, status, "node '%s': no memory", op->name);
            goto done;
        }
        if (status != INLAY_OK) {
            (void)dnnl_primitive_desc_destroy(fused.pd);
            fused = (rg_fused){ 0 };
            v = AS_LIKED;
        }
    }
    if (v == AS_LIKED)
        INLAY_TRY(make(b, group, transposed, v, &x, &m, &fused));
    if (!transposed && op->group > 1 && unfolds(fused.pd)) {
        bool done;

        INLAY_TRY(rg_lower_groups(b, group, &m.w_plain, m.bias_value, &done));
        if (done)
            goto done;
    }
    INLAY_TRY(rg_read_as(b, op->in[0], dnnl_primitive_desc_query_md(fused.pd, dnnl_query_src_md, 0), &x));
    INLAY_TRY(rg_read_constant(b, op->in[1], &m.w_plain,
                               dnnl_primitive_desc_query_md(fused.pd, dnnl_query_weights_md, 0), &w));
    operands[n++] = (rg_operand){ DNNL_ARG_SRC, &x };
    operands[n++] = (rg_operand){ DNNL_ARG_WEIGHTS, &w };
    if (m.bias_value != INLAY_NONE) {
        INLAY_TRY(rg_read_constant(b, m.bias_value, &m.bias, &m.bias, &bias));
        operands[n++] = (rg_operand){ DNNL_ARG_BIAS, &bias };
    }
    status = rg_emit_fused(b, group, &fused, operands, n);
done:
    (void)dnnl_primitive_desc_destroy(fused.pd);
    return status;
}

static inlay_status lower_conv(rg_build *b, const rg_group *group)
{
    bool done = false;
    inlay_status status = b->state->bf16 ? rg_lower_reduced_conv(b, group, &done) : INLAY_OK;

    if (status != INLAY_OK || done)
        return status;
    return lower_both(b, group, false);
}

inlay_status rg_lower_deconvolution(rg_build *b, const rg_group *group)
{
    return lower_both(b, group, true);
}

const rg_family rg_conv = { "convolution", parse_conv, lower_conv };
