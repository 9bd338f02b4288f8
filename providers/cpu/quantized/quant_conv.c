/* QLinearConv-10 and ConvInteger-10: oneDNN's convolution of bytes, with channels last, zero points and a scale for
 * each filter, where there are no loops of our own (quant_tiles.c).
 *
 * oneDNN computes round(sum * scale + zero) where ONNX has round(sum * scale) + zero, and ties would go to the other
 * side of an odd zero point. So ROUNDER is added ahead of it, around which floats are integers, and the zero point is
 * told as less by that. (oneDNN has a function that rounds, but not all its kernels do.) Results are the reference's to
 * the last bit. */
#include "quantized/bytes.h"
#include "quantized/quant.h"
#include "convolution/window.h"

enum { ROUNDER = 12582912 }; /* 1.5 * 2^23 */
enum { X = 0, X_SCALE = 1, X_ZERO = 2, W_SCALE = 4, Y_SCALE = 6, Y_ZERO = 7, BIAS = 8 };

static bool is_linear(const rg_op *op)
{
    return strcmp(op->row->op_type, "QLinearConv") == 0;
}

static uint32_t weights_at(const rg_op *op)
{
    return is_linear(op) ? 3 : 1;
}

/* Weights that oneDNN can read: int8, or uint8 around 128, with no other zero point. */
static bool weights_fit(const kit_node *node, const rg_op *op, kit_refusal *why)
{
    uint32_t at = weights_at(op), zero_at = is_linear(op) ? 5 : 3;
    const inlay_value_info *w = kit_input(node, at), *zero = kit_input(node, zero_at);
    uint8_t wanted;

    if (!q_is_bytes(w) || !kit_is_constant(node, at) || rg_known_count(w) < 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make them a constant", "the weights are not constant bytes");
    wanted = w->dtype == INLAY_UINT8 ? 128 : 0;
    if (zero == NULL && wanted == 0)
        return true;
    if (zero == NULL || !kit_is_constant(node, zero_at) || zero->data == NULL || zero->dtype != w->dtype)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant",
                          "the zero point of the weights is not a constant");
    for (uint64_t i = 0; i < zero->data_bytes; i++)
        if (((const uint8_t *)zero->data)[i] != wanted)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "quantize the weights around 0",
                              "a zero point of the weights is not %u", wanted);
    return true;
}

/* Scales, zero points and bias of QLinearConv. */
static bool parse_linear(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, X), *w = kit_input(node, weights_at(op)), *y = kit_output(node, 0);
    const inlay_value_info *bias = kit_input(node, BIAS);
    int32_t y_zero;
    float ignored;

    if (!q_is_bytes(y))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "the output is not of 8 bits");
    if (bias != NULL && (!kit_is_constant(node, BIAS) || bias->dtype != INLAY_INT32 || bias->rank != 1 ||
                         bias->dims[0].value != w->dims[0].value))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "the bias is not a constant vector of int32");
    if (!q_known_scale(kit_input(node, X_SCALE), 1, "x", &op->quantized.scale, why) ||
        !q_known_scale(kit_input(node, W_SCALE), w->dims[0].value, "w", &ignored, why) ||
        !q_known_scale(kit_input(node, Y_SCALE), 1, "y", &op->alpha, why) ||
        !q_known_zero(kit_input(node, X_ZERO), x, "x", &op->quantized.zero, why) ||
        !q_known_zero(kit_input(node, Y_ZERO), y, "y", &y_zero, why))
        return false;
    op->size = y_zero;
    return true;
}

static bool parse(const kit_node *node, rg_op *op, kit_refusal *why)
{
    kit_refusal library = { 0, "", "" };
    const inlay_value_info *x = kit_input(node, X), *w = kit_input(node, weights_at(op)), *zero;

    if (!rg_known_rank(x, 3, 5, "input 0", why) || !weights_fit(node, op, why) ||
        !rg_known_rank(w, x->rank, x->rank, "the weights", why))
        return false;
    if (!q_is_bytes(x))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "the input is not of 8 bits");
    zero = kit_input(node, X_ZERO); /* ConvInteger's may be known at the run alone */
    if (zero != NULL && (zero->dtype != x->dtype || rg_known_count(zero) != 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the zero point of input 0 is not one number");
    if (is_linear(op) && !parse_linear(node, op, why))
        return false;
    op->window.group = kit_attr_int(node->info, "group", 1);
    if (op->window.group < 1 || w->dims[0].value % op->window.group != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "group does not divide the channels");
    if (dn_in_use != &dn_none && op->window.group > 1 && w->dims[1].value > 1 &&
        w->dims[0].value / op->window.group < 4) /* 4 groups of 8 by 2 in 2.6.3 */
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "oneDNN's sums of so few filters a group may be wrong");
    for (uint32_t i = 0; i < x->rank - 2; i++)
        op->window.kernel[i] = w->dims[2 + i].value;
    return rg_parse_window(node, x->rank - 2, op, why) &&
           (q_library_has_products(&library) || bytes_offers_conv(node, op, why));
}

/* ------------------------------------------------------------------ lowering */

/* Scales of the sums of each channel, or of all. */
static inlay_status make_scales(rg_build *b, float **out, int64_t *out_count)
{
    const rg_op *op = b->op;
    const char *w_scales = q_constant(b, op->in[W_SCALE]);
    int64_t count = rg_count(b, op->in[W_SCALE]);
    float *scales;

    if (w_scales == NULL)
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': its scales have gone", op->name);
    scales = calloc((size_t)count, sizeof *scales);
    if (scales == NULL)
        return q_no_memory(b);
    for (int64_t i = 0; i < count; i++) {
        float w;

        memcpy(&w, w_scales + (size_t)i * sizeof w, sizeof w);
        scales[i] = (float)((double)op->quantized.scale / (double)op->alpha * (double)w);
    }
    *out = scales;
    *out_count = count;
    return INLAY_OK;
}

/* ConvInteger's zero point comes with the run. */
static bool has_zero_argument(const rg_op *op)
{
    return !is_linear(op) && op->in_count > X_ZERO && op->in[X_ZERO] != INLAY_NONE;
}

/* Zero points, and the bounds that are fused. */
static void make_attributes(const rg_build *b, const rg_group *group, dn_attr *out)
{
    const rg_op *op = b->op;
    const int32_t round = is_linear(op) && op->size != 0 ? ROUNDER : 0, y_zero = (int32_t)op->size - round;

    out->has_zero = has_zero_argument(op) || op->quantized.zero != 0;
    out->y_zero = is_linear(op) ? y_zero : 0;
    if (round != 0)
        out->posts[out->post_count++] =
            (dn_post){ .kind = DN_POST_ELTWISE, .alg = DN_ELTWISE_LINEAR, .alpha = 1, .beta = (float)round };
    if (is_linear(op) && group->post_count > 0) {
        const rg_eltwise *f = &group->posts[0].eltwise; /* integers; the zero point is added behind it */

        out->posts[out->post_count++] = (dn_post){
            .kind = DN_POST_ELTWISE, .alg = f->alg, .alpha = f->alpha - (float)y_zero, .beta = f->beta - (float)y_zero
        };
    }
}

/* The zero point of a run as int32, which oneDNN reads. */
static inlay_status run_zero(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    (void)native;
    (void)state;
    (void)run;
    (void)threads;
    *(int32_t *)args[1] = *(const uint8_t *)args[0];
    return INLAY_OK;
}

static inlay_status run_signed_zero(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                    uint32_t threads)
{
    (void)native;
    (void)state;
    (void)run;
    (void)threads;
    *(int32_t *)args[1] = *(const int8_t *)args[0];
    return INLAY_OK;
}

static inlay_status widen_zero(rg_build *b, rg_place *out)
{
    uint32_t value = b->op->in[X_ZERO];
    rg_native native = { 0 };
    rg_place byte;
    rg_md md;
    inlay_status status;

    INLAY_TRY(rg_read_plain(b, value, &byte));
    rg_md_plain(&md, 0, NULL);
    md.data_type = DN_S32;
    INLAY_TRY(rg_new_place(b, &md, out));
    native.run = rg_type(b, value) == DN_S8 ? run_signed_zero : run_zero;
    status = rg_emit_step(b, &native, sizeof native, (const rg_place *const[]){ &byte, out }, 2);
done:
    return status;
}

/* A step's own numbers: freed with it, and written where its kernel reads them. */
struct numbers {
    rg_native native;
    size_t bytes;
    int32_t zero;
    float *scales; /* NULL: zero */
};

static inlay_status write_numbers(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const struct numbers *n = (const struct numbers *)native;

    (void)state;
    (void)run;
    (void)threads;
    memcpy(args[0], n->scales != NULL ? (const void *)n->scales : &n->zero, n->bytes);
    return INLAY_OK;
}

static void release_numbers(rg_native *native)
{
    free(((struct numbers *)native)->scales);
}

/* scales: become the step's. */
static inlay_status emit_numbers(rg_build *b, const rg_md *md, int32_t zero, float *scales, rg_place *out)
{
    struct numbers *n = calloc(1, sizeof *n);
    inlay_status status = n == NULL ? q_no_memory(b) : rg_new_place(b, md, out);

    if (status != INLAY_OK) {
        free(scales);
        free(n);
        return status;
    }
    *n = (struct numbers){ .native = { .run = write_numbers, .release = release_numbers },
                           .bytes = rg_md_bytes(md),
                           .zero = zero,
                           .scales = scales };
    return rg_emit_native(b, &n->native, (const rg_place *const[]){ out }, 1);
}

static inlay_status describe(rg_build *b, const rg_group *group, const rg_md *w_plain, const rg_md *bias,
                             const dn_attr *attr, dn_description *out)
{
    dn_op desc = { .kind = DN_CONVOLUTION, .alg = DN_CONVOLUTION_DIRECT };
    const rg_op *op = b->op;
    uint32_t rank = b->ranks[op->in[X]];

    rg_md_any(&desc.x, rank, b->dims[op->in[X]]);
    desc.x.data_type = rg_type(b, op->in[X]);
    rg_md_any(&desc.y, rank, b->dims[op->out[0]]);
    desc.y.data_type = rg_type(b, group->out);
    rg_md_any(&desc.w, (uint32_t)w_plain->ndims, w_plain->dims);
    desc.w.data_type = DN_S8;
    if (bias != NULL)
        desc.bias = *bias;
    rg_window_pads(op, desc.x.dims + 2, desc.y.dims + 2, op->window.kernel, desc.begins, desc.ends);
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        desc.strides[i] = op->window.strides[i];
        desc.dilations[i] = op->window.dilations[i] - 1;
    }
    return rg_check(dn_describe(b->state->engine, &desc, attr, out), b->diag, "compute this", op->name);
}

/* What the kernel reads apart from tensors: the zero point of x, and scales. */
static inlay_status add_numbers(rg_build *b, const dn_attr *attr, float **scales, rg_place *places,
                                rg_operand *operands, uint32_t *count)
{
    inlay_status status = INLAY_OK;
    rg_md one;

    rg_md_plain(&one, 0, NULL);
    one.data_type = DN_S32;
    if (attr->has_zero) {
        INLAY_TRY(has_zero_argument(b->op) ? widen_zero(b, &places[0])
                                           : emit_numbers(b, &one, b->op->quantized.zero, NULL, &places[0]));
        operands[(*count)++] = (rg_operand){ DN_ARG_ZERO, &places[0] };
    }
    if (attr->scales != NULL) {
        float *own = *scales;

        *scales = NULL;
        INLAY_TRY(emit_numbers(b, &attr->scales_md, 0, own, &places[1]));
        operands[(*count)++] = (rg_operand){ DN_ARG_SCALES, &places[1] };
    }
done:
    return status;
}

static inlay_status lower_by_library(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    uint32_t weights = op->in[weights_at(op)], n = 0, posts = is_linear(op) ? group->post_count : 0;
    bool biased = is_linear(op) && op->in_count > BIAS && op->in[BIAS] != INLAY_NONE;
    int64_t scale_dims[RG_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    dn_description pd = NULL;
    dn_attr attr = { .post_count = 0 };
    float *scales = NULL;
    rg_md w_plain, bias_md, md;
    rg_place x, w, y, bias, own[2];
    rg_operand operands[6];
    inlay_status status;

    rg_window_weights(b, weights, &w_plain);
    w_plain.data_type = DN_S8;
    rg_md_plain(&bias_md, 1, b->dims[weights]);
    bias_md.data_type = DN_S32;
    make_attributes(b, group, &attr);
    if (is_linear(op)) {
        INLAY_TRY(make_scales(b, &scales, &scale_dims[1]));
        attr.scales = scales;
        rg_md_plain(&attr.scales_md, b->ranks[op->in[X]], scale_dims);
    }
    INLAY_TRY(describe(b, group, &w_plain, biased ? &bias_md : NULL, &attr, &pd));
    INLAY_TRY(rg_read_as(b, op->in[X], dn_layout(pd, DN_OPERAND_SRC, &md), &x));
    if (rg_type(b, weights) == DN_U8)
        q_shift(b, weights);
    INLAY_TRY(rg_read_constant(b, weights, &w_plain, dn_layout(pd, DN_OPERAND_WEIGHTS, &md), &w));
    operands[n++] = (rg_operand){ DN_ARG_SRC, &x };
    operands[n++] = (rg_operand){ DN_ARG_WEIGHTS, &w };
    if (biased) {
        INLAY_TRY(rg_read_constant(b, op->in[BIAS], &bias_md, &bias_md, &bias));
        operands[n++] = (rg_operand){ DN_ARG_BIAS, &bias };
    }
    INLAY_TRY(add_numbers(b, &attr, &scales, own, operands, &n));
    if (posts == group->post_count)
        INLAY_TRY(rg_result_place(b, group->out, dn_layout(pd, DN_OPERAND_DST, &md), &y));
    else
        INLAY_TRY(rg_new_place(b, dn_layout(pd, DN_OPERAND_DST, &md), &y));
    operands[n++] = (rg_operand){ DN_ARG_DST, &y };
    INLAY_TRY(rg_emit(b, pd, operands, n));
    status = rg_finish(b, group, posts, &y, true);
done:
    dn_destroy(pd);
    free(scales);
    return status;
}

static inlay_status lower(rg_build *b, const rg_group *group)
{
    bool done = false;
    inlay_status status = bytes_lower_conv(b, group, &done);

    if (status != INLAY_OK || done)
        return status;
    status = lower_by_library(b, group);
    return status != INLAY_OK
               ? status
               : kn_remember(b, &(kn_choice){ .op = group->op,
                                              .count = 1,
                                              .source = KN_ONLY,
                                              .kernel = { KN_BYTES_LIBRARY },
                                              .why = "activations of 8 bits as the file has them: sums are exact, a "
                                                     "result may be off by one step of its scale" });
}

const rg_family rg_int8_conv = { "convolution of bytes", parse, lower };
