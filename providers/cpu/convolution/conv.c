/* Conv (ONNX Conv-1..22), and what transposed.c leaves to oneDNN of ConvTranspose. */
#include "convolution/library.h"
#include "weights/halves.h"
#include "weights/narrow.h"
#include "convolution/tiles.h"
#include "convolution/window.h"

static bool parse_both(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0), *w = kit_input(node, 1), *bias = kit_input(node, 2);

    if (!rg_known_rank(x, 3, 5, "input 0", why) || !rg_known_rank(w, x->rank, x->rank, "input 1", why))
        return false;
    for (uint32_t d = 0; d < w->rank; d++)
        if (w->dims[d].kind != INLAY_DIM_FIXED || w->dims[d].value < 1)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the shape of the weights is not known");
    if (bias != NULL && bias->rank != 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the bias is not a vector");
    op->window.group = kit_attr_int(node->info, "group", 1);
    if (op->window.group < 1 || w->dims[0].value % op->window.group != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "group does not divide the channels");
    for (uint32_t i = 0; i < x->rank - 2; i++)
        op->window.kernel[i] = w->dims[2 + i].value;
    if (!rg_parse_window(node, x->rank - 2, op, why))
        return false;
    return true;
}

/* Rows so long that oneDNN's kernels take minutes to describe (kernels.c) are for tiles, which not every CPU has. */
enum { MOST_COLUMNS = 1 << 22 };

static bool parse_conv(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *y;

    if (!parse_both(node, op, why))
        return false;
    y = kit_output(node, 0);
    if (dn_in_use != &dn_none && y->rank != INLAY_RANK_UNKNOWN && y->dims[y->rank - 1].kind == INLAY_DIM_FIXED &&
        y->dims[y->rank - 1].value > MOST_COLUMNS &&
        (tiles_of_cpu() == NULL || op->window.spatial > 2 || op->window.group > 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "cut the input into parts",
                          "oneDNN takes long to prepare for rows of %lld", (long long)y->dims[y->rank - 1].value);
    return true;
}

const rg_operator *rg_computed_row(const rg_operator *row)
{
    static const rg_operator computed = { "Conv", 1, 22, &rg_conv_computed, NULL },
                             transposed = { "ConvTranspose", 1, 22, &rg_conv_computed, NULL };

    return row->family == &rg_conv ? &computed : &transposed;
}

/* Weights that are computed are none that could be packed: such nodes are of a family of their own. */
const rg_operator *rg_conv_row(const kit_node *node, const rg_operator *row)
{
    if ((row->family != &rg_conv && row->family != &rg_conv_transpose) ||
        ((kit_is_constant(node, 1) || narrow_is_constant(node->graph, node->info->inputs[1], NULL) ||
          halves_is_constant(node->graph, node->info->inputs[1])) &&
         (kit_input(node, 2) == NULL || kit_is_constant(node, 2))))
        return row;
    return rg_computed_row(row);
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
    int64_t own[RG_MAX_RANK], strides[RG_MAX_RANK], kernel = 1, first = w[0] / op->window.group;

    for (uint32_t d = 2; d < rank; d++)
        kernel *= w[d];
    if (op->window.group > 1) {
        own[n] = op->window.group;
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

/* Its operands are there. */
static inlay_status describe(const rg_build *b, bool transposed, lib_variant v, dn_op *io)
{
    const rg_op *op = b->op;
    const rg_md *x = &io->x, *y = &io->y;

    io->kind = transposed ? DN_DECONVOLUTION : DN_CONVOLUTION;
    io->alg = transposed          ? DN_DECONVOLUTION_DIRECT
              : v == LIB_WINOGRAD ? DN_CONVOLUTION_WINOGRAD
                                  : DN_CONVOLUTION_DIRECT;
    if (!rg_counts(x->dims, (uint32_t)x->ndims) || !rg_counts(y->dims, (uint32_t)y->ndims))
        return inlay_fail(b->diag, INLAY_UNSUPPORTED, "node '%s': a convolution of more than 2^31 - 1 elements",
                          op->name);
    if (transposed)
        rg_deconvolution_pads(op, x->dims + 2, y->dims + 2, io->begins, io->ends);
    else
        rg_window_pads(op, x->dims + 2, y->dims + 2, op->window.kernel, io->begins, io->ends);
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        io->strides[i] = op->window.strides[i];
        io->dilations[i] = op->window.dilations[i] - 1;
    }
    return INLAY_OK;
}

/* The descriptor of a variant. Winograd's counts only if it takes all functions behind it. */
static inlay_status make(rg_build *b, const rg_group *group, bool transposed, lib_variant v, const kn_case *c,
                         rg_fused *out)
{
    const rg_op *op = b->op;
    uint32_t y = op->out[0], rank = b->ranks[y];
    dn_op desc = { .bias = c->bias_value != INLAY_NONE ? c->bias : (rg_md){ 0 } };
    inlay_status status;

    rg_md_any(&desc.w, c->w_rank, c->w_dims);
    rg_md_any(&desc.x, rank, b->dims[op->in[0]]);
    rg_md_any(&desc.y, rank, b->dims[y]);
    if (v == LIB_AS_IT_LIES && rg_md_same_blocks(&c->x.md, rank, b->dims[y], &desc.y))
        (void)rg_md_same_blocks(&c->x.md, rank, b->dims[op->in[0]],
                                &desc.x); /* kernels compare strides, idle ones too */
    status = describe(b, transposed, v, &desc);
    if (status == INLAY_OK)
        status = rg_fuse_posts(b, group, &desc, out);
    if (status == INLAY_OK &&
        ((v == LIB_WINOGRAD && out->count < group->post_count) || (v != LIB_AS_LIKED && !rg_is_fast(out->pd))))
        status = INLAY_UNSUPPORTED;
    return status;
}

/* Has oneDNN nothing for it but windows unfolded in memory, or a plain loop? */
static bool unfolds(dn_const_description pd)
{
    const char *name = dn_name(pd);

    return !rg_is_fast(pd) || strncmp(name, "gemm", 4) == 0 || strncmp(name, "x64:gemm", 8) == 0;
}

bool lib_unfolds(rg_build *b, const rg_group *group, const kn_case *c)
{
    rg_op *op = &b->c->ops[group->op];
    inlay_diag *diag = b->diag;
    rg_fused fused = { 0 };
    bool result;

    if (op->window.unfolds != 0) /* that is decided by channels and windows */
        return op->window.unfolds == RG_YES;
    b->diag = NULL;
    result = make(b, group, false, LIB_AS_LIKED, c, &fused) == INLAY_OK && unfolds(fused.pd);
    b->diag = diag;
    dn_destroy(fused.pd);
    op->window.unfolds = result ? RG_YES : RG_NO;
    return result;
}

/* The descriptor of a variant, and whether it is for one thread: oneDNN's kernels that unfold windows cut sums, or do
 * not, by how many threads there are. Is it set, the step is emitted with b->alone. */
static inlay_status make_for_threads(rg_build *b, const rg_group *group, bool transposed, lib_variant v,
                                     const kn_case *c, rg_fused *out, bool *out_alone)
{
    inlay_status status = make(b, group, transposed, v, c, out);
    int before;

    *out_alone = b->alone;
    if (status != INLAY_OK || b->alone || b->instance->threads <= 1 || !unfolds(out->pd))
        return status;
    dn_destroy(out->pd);
    *out = (rg_fused){ 0 };
    before = rg_threads_set(1);
    status = make(b, group, transposed, v, c, out);
    rg_threads_restore(before);
    *out_alone = true;
    return status;
}

/* Weights or bias in the layout that the descriptor wants: packed once, or in each run where they are computed. */
static inlay_status read_weights(rg_build *b, uint32_t value, const rg_md *plain, const rg_md *wanted, rg_place *out)
{
    inlay_status status;

    if (b->c->values[value].constant != INLAY_NONE)
        return rg_read_constant(b, value, plain, wanted, out);
    status = rg_read_plain(b, value, out);
    if (status != INLAY_OK)
        return status;
    out->md = *plain;
    return rg_reorder(b, out, wanted, out);
}

/* Reads operands as the descriptor wants them, and runs it. alone: on one thread. */
static inlay_status emit(rg_build *b, const rg_group *group, const kn_case *c, const rg_fused *fused, bool alone)
{
    const rg_op *op = b->op;
    const bool before = b->alone;
    rg_place x, w, bias;
    rg_operand operands[3];
    uint32_t n = 0;
    inlay_status status;

    INLAY_TRY(rg_read_as(b, op->in[0], dn_layout(fused->pd, DN_OPERAND_SRC, &(rg_md){ 0 }), &x));
    INLAY_TRY(read_weights(b, op->in[1], &c->weights, dn_layout(fused->pd, DN_OPERAND_WEIGHTS, &(rg_md){ 0 }), &w));
    operands[n++] = (rg_operand){ DN_ARG_SRC, &x };
    operands[n++] = (rg_operand){ DN_ARG_WEIGHTS, &w };
    if (c->bias_value != INLAY_NONE) {
        INLAY_TRY(read_weights(b, c->bias_value, &c->bias, &c->bias, &bias));
        operands[n++] = (rg_operand){ DN_ARG_BIAS, &bias };
    }
    b->alone = alone;
    status = rg_emit_fused(b, group, fused, operands, n);
done:
    b->alone = before;
    return status;
}

inlay_status lib_lower(rg_build *b, const rg_group *group, const kn_case *c, lib_variant v, bool *out_done)
{
    inlay_diag *diag = b->diag;
    rg_fused fused = { 0 };
    inlay_status status;
    bool alone;

    *out_done = false;
    if (v != LIB_AS_LIKED)
        b->diag = NULL; /* no error yet: another way is left */
    status = make_for_threads(b, group, false, v, c, &fused, &alone);
    b->diag = diag;
    if (status == INLAY_OK) {
        status = emit(b, group, c, &fused, alone);
        *out_done = status == INLAY_OK;
    } else if (v != LIB_AS_LIKED) {
        status =
            status == INLAY_OUT_OF_MEMORY ? inlay_fail(b->diag, status, "node '%s': no memory", b->op->name) : INLAY_OK;
    }
    dn_destroy(fused.pd);
    return status;
}

/* ------------------------------------------------------------------ lowering */

static void read_case(const rg_build *b, const rg_group *group, bool transposed, kn_case *c)
{
    const rg_op *op = b->op;

    *c = (kn_case){ .bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias };
    c->w_rank = weights_axes(b, transposed, &c->weights, c->w_dims);
    rg_md_plain(&c->bias, 1, &b->dims[op->out[0]][1]);
}

static inlay_status lower_conv(rg_build *b, const rg_group *group)
{
    bool done = false;
    inlay_status status = b->state->bf16 ? rg_lower_reduced_conv(b, group, &done) : INLAY_OK;

    kn_case c;

    if (status != INLAY_OK || done)
        return status;
    read_case(b, group, false, &c);
    if (b->ahead[b->op->in[0]] != NULL) {
        c.x.buffer = INLAY_NONE;
        rg_md_channels_last(&c.x.md, b->ranks[b->op->in[0]], b->dims[b->op->in[0]]);
    } else {
        status = rg_read_strided(b, b->op->in[0], &c.x);
    }
    if (status != INLAY_OK)
        return status;
    kn_measure(b, b->op, &c.w);
    c.w.home = tiles_has_home(b, group->out);
    status = kn_wait(b, group, &c, &done);
    return status != INLAY_OK || done ? status : kn_lower(b, group, &c);
}

static inlay_status lower_by_library(rg_build *b, const rg_group *group, bool transposed)
{
    rg_fused fused = { 0 };
    kn_case c;
    inlay_status status;
    bool alone;

    read_case(b, group, transposed, &c);
    status = make_for_threads(b, group, transposed, LIB_AS_LIKED, &c, &fused, &alone);
    if (status == INLAY_OK)
        status = emit(b, group, &c, &fused, alone);
    dn_destroy(fused.pd);
    return status;
}

/* On one thread: oneDNN's goes backwards through a convolution, and cuts its sums by how many threads there are. */
inlay_status rg_lower_deconvolution(rg_build *b, const rg_group *group)
{
    const int before = rg_threads_set(1);
    inlay_status status;

    b->alone = true;
    status = lower_by_library(b, group, true);
    b->alone = false;
    rg_threads_restore(before);
    return status;
}

static inlay_status lower_computed(rg_build *b, const rg_group *group)
{
    return strcmp(b->op->row->op_type, "ConvTranspose") == 0 ? rg_lower_deconvolution(b, group)
                                                             : lower_by_library(b, group, false);
}

const rg_family rg_conv = { "convolution", parse_conv, lower_conv };
const rg_family rg_conv_computed = { "convolution by computed weights", NULL, lower_computed };
