/* Convolutions: products over windows, sums over a window alone, and transposed ones. */
#include "region.h"

static bool reaches_outside(const vr_window *v)
{
    bool outside = false;

    for (uint32_t d = 0; d < 3; d++) {
        const int64_t first = -v->begin[d], last = (v->out[d] - 1) * v->stride[d] - v->begin[d];
        const int64_t reach = (v->window[d] - 1) * v->dilation[d];

        outside |= first < 0 || first + reach < 0 || last >= v->in[d] || last + reach >= v->in[d];
    }
    return outside;
}

/* Rows are pixels, columns are the channels of a group, and A is the image under the window's taps. vr_wants_panels()
 * says where B lies. */
static inlay_status emit_conv(vr_build *b, const vr_op *op, uint32_t image, const vr_window *v, vr_program *p)
{
    const vr_tensor *w = vr_in(b, op, 1);
    const int64_t plane = v->in[0] * v->in[1] * v->in[2];
    vr_panels at;
    vr_product q;

    (void)vr_wants_panels(op, 1, w->rank, w->dims, &at);
    q = vr_product_of(v->pixels, at.k, at.columns);
    vr_product_batches(&q, (const int64_t[]){ 1, b->tensors[image].dims[0], at.groups });
    q.windows = !v->plain;
    q.padded = reaches_outside(v);
    if (q.windows) {
        q.line = v->out[2];
        q.lines = v->out[0] * v->out[1];
    }
    q.taps = v->taps;
    q.a_row = 1;
    q.a_step = plane;
    q.a_batch[1] = at.groups * at.k * plane;
    q.a_batch[2] = at.k * plane;
    q.b_step = at.k_step;
    q.b_column = at.column_step;
    q.b_tap = at.tap_step;
    q.b_batch[2] = at.group_step;
    q.out_row = 1;
    q.out_column = v->pixels;
    q.group = at.columns;
    q.window = *v;
    vr_grow(b, op, p);
    return vr_finish_product(b, op, image, &q, p);
}

/* What both kinds do to a sum: the bias of its channel. */
static void start_program(vr_build *b, const vr_op *op, vr_program *p)
{
    vr_program_start(b, p, op->info.outputs[0], VR_SINGLE);
    if (vr_in(b, op, 2) != NULL)
        (void)vr_slot(p, OP_ADD, REG_ACC, vr_load_axis(b, p, op->info.inputs[2], 1), 0);
    p->has_columns = true;
    p->columns = 1;
}

static inlay_status lower_conv(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0), *w = vr_in(b, op, 1);
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    vr_window v;
    vr_program p;

    if (!vr_window_read(b, op, w, false, &v))
        return b->status;
    if (groups < 1 || w->dims[1] * groups != x->dims[1])
        return vr_decline(b, op, "its weights have %lld channels in %lld groups, the input %lld", (long long)w->dims[1],
                          (long long)groups, (long long)x->dims[1]);
    start_program(b, op, &p);
    if (w->dims[1] == 1 && w->dims[0] == groups)
        return vr_emit_windows(b, op, &p, POOL_WEIGHTED, &v);
    return emit_conv(b, op, op->info.inputs[0], &v, &p);
}

/* The input with stride - 1 zeros between neighbours. */
static uint32_t spread(vr_build *b, const vr_op *op, const int64_t *stride)
{
    const vr_tensor *x = vr_in(b, op, 0);
    int64_t dims[VR_RANK];
    uint32_t wide;
    vr_box box = vr_whole_box(x);

    memcpy(dims, x->dims, sizeof dims);
    for (uint32_t d = 2; d < x->rank; d++)
        dims[d] = (x->dims[d] - 1) * stride[d + 3 - x->rank] + 1;
    wide = vr_temporary(b, x->dtype, x->rank, dims);
    vr_fill(b, wide, 0);
    vr_row_major(dims, x->rank, box.to);
    for (uint32_t d = 2; d < x->rank; d++)
        box.to[d] *= stride[d + 3 - x->rank];
    (void)vr_move(b, &box, op->info.inputs[0], wide);
    return wide;
}

/* A convolution of the input, spread out, by a window that is walked through backwards. */
static inlay_status lower_conv_transpose(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0), *w = vr_in(b, op, 1);
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    uint32_t image = op->info.inputs[0];
    vr_window v;
    vr_program p;

    if (!vr_window_read(b, op, w, true, &v))
        return b->status;
    if (groups < 1 || w->dims[0] != x->dims[1] || w->dims[0] % groups != 0)
        return vr_decline(b, op, "%lld groups of %lld channels", (long long)groups, (long long)x->dims[1]);
    if (v.stride[0] * v.stride[1] * v.stride[2] > 1)
        image = spread(b, op, v.stride);
    for (uint32_t d = 0; d < 3; d++) {
        v.in[d] = (v.in[d] - 1) * v.stride[d] + 1;
        v.stride[d] = 1;
        v.begin[d] = -v.begin[d];
        v.dilation[d] = -v.dilation[d];
    }
    start_program(b, op, &p);
    return emit_conv(b, op, image, &v, &p);
}

const vr_family vr_conv = { .lower = lower_conv, .least_rank = 3, .most_rank = 5 };
const vr_family vr_conv_transpose = { .lower = lower_conv_transpose, .least_rank = 3, .most_rank = 5 };
