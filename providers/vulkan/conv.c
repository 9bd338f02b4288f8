/* Convolutions: products over windows, sums over a window alone, and transposed ones. */
#include "region.h"

/* One filter for each channel: a sum over the window alone. */
static inlay_status emit_depthwise(vr_build *b, const vr_op *op, const vr_window *v, vr_program *p)
{
    const vr_tensor *x = vr_in(b, op, 0);
    const int64_t planes = x->dims[0] * x->dims[1];
    const gpu_facts *f = &b->g->facts;
    vr_dispatch *d = vr_skeleton(b, op, p, SHADER_depthwise, 24);
    int64_t each;

    if (vr_scalar_loads(b)) { /* strips of lines, eight a workgroup */
        const int64_t strips = (v->out[2] + f->subgroup - 1) / f->subgroup * v->out[0] * v->out[1];

        VR_OWN(d, f->subgroup);
        d->constants[ID_LOCAL] = f->subgroup * (strips < 8 ? (uint32_t)strips : 8);
        each = (strips + 7) / 8;
    } else {
        while (d->constants[ID_LOCAL] > 8 && d->constants[ID_LOCAL] / 2 >= v->pixels)
            d->constants[ID_LOCAL] /= 2;
        each = (v->pixels + d->constants[ID_LOCAL] - 1) / d->constants[ID_LOCAL];
    }
    vr_expect_bytes(b, d, 2.0 * (double)(planes * v->pixels), 4.0 * (double)v->taps);
    VR_PUT(b, d, 0, x->dims[1], each);
    vr_put_window(b, d, 2, v);
    VR_PUT(b, d, 20, planes);
    vr_read(b, d, 0, op->info.inputs[0]);
    vr_read(b, d, 1, op->info.inputs[1]);
    vr_finish(b, d, p);
    return vr_grid_groups(b, d, (uint64_t)(each * planes));
}

static bool reaches_outside(const vr_window *v)
{
    for (uint32_t d = 0; d < 3; d++)
        if (v->begin[d] > 0 ||
            (v->out[d] - 1) * v->stride[d] + (v->window[d] - 1) * v->dilation[d] - v->begin[d] >= v->in[d])
            return true;
    return false;
}

/* Rows are pixels, columns are the channels of a group, and A is the image under the window's taps. */
static vr_product windows_of(const vr_window *v, const vr_tensor *x, const vr_tensor *w, int64_t groups)
{
    const int64_t plane = v->in[0] * v->in[1] * v->in[2], k = w->dims[1], n = w->dims[0] / groups;
    vr_product q = vr_product_of(v->pixels, k, n);

    vr_product_batches(&q, (const int64_t[]){ 1, x->dims[0], groups });
    q.windows = !v->plain;
    q.padded = reaches_outside(v);
    if (q.windows) {
        q.line = v->out[2];
        q.lines = v->out[0] * v->out[1];
    }
    q.taps = v->taps;
    q.a_row = 1;
    q.a_step = plane;
    q.a_batch[1] = x->dims[1] * plane;
    q.a_batch[2] = k * plane;
    q.b_step = q.taps;
    q.b_column = k * q.taps;
    q.b_tap = 1;
    q.b_batch[2] = n * q.b_column;
    q.out_row = 1;
    q.out_column = v->pixels;
    q.group = n;
    q.window = *v;
    return q;
}

/* What both kinds do to a sum: the bias of its channel. */
static void start_program(vr_build *b, const vr_op *op, vr_program *p)
{
    vr_program_start(b, p, op->info.outputs[0], VR_SINGLE);
    if (vr_in(b, op, 2) != NULL)
        (void)vr_slot(p, OP_ADD, REG_ACC, vr_load_axis(b, p, op->info.inputs[2], 1), 0);
}

static inlay_status lower_conv(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0), *w = vr_in(b, op, 1);
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    vr_window v;
    vr_product q;
    vr_program p;

    if (!vr_window_read(b, op, w, false, &v))
        return b->status;
    if (groups < 1 || w->dims[1] * groups != x->dims[1])
        return vr_decline(b, op, "its weights have %lld channels in %lld groups, the input %lld",
                          (long long)w->dims[1], (long long)groups, (long long)x->dims[1]);
    start_program(b, op, &p);
    p.has_columns = true;
    p.columns = 1;
    if (w->dims[1] == 1 && w->dims[0] == groups)
        return emit_depthwise(b, op, &v, &p);
    q = windows_of(&v, x, w, groups);
    vr_grow(b, op, &p);
    return vr_finish_product(b, op, &q, &p);
}

static bool conv_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0), *w = kit_input(node, 1);

    (void)row;
    if (x->rank < 3 || x->rank > 5 || w->rank != x->rank)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "images of one to three dimensions, not tensors of rank %u",
                          x->rank);
    return true;
}

static inlay_status lower_conv_transpose(vr_build *b, const vr_op *op)
{
    const vr_tensor *w = vr_in(b, op, 1), *y = vr_out(b, op, 0);
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    vr_window v;
    vr_program p;
    vr_dispatch *d;

    if (!vr_window_read(b, op, w, true, &v))
        return b->status;
    if (groups < 1)
        return vr_decline(b, op, "%lld groups", (long long)groups);
    start_program(b, op, &p);
    d = vr_skeleton(b, op, &p, SHADER_transposed, 24);
    VR_PUT(b, d, 0, y->count, w->dims[0] / groups, w->dims[1], groups);
    vr_put_window(b, d, 4, &v);
    vr_expect_flops(b, d, 2.0 * (double)y->count * (double)(w->dims[0] / groups) * (double)v.taps);
    vr_read(b, d, 0, op->info.inputs[1]);
    vr_read(b, d, 1, op->info.inputs[0]);
    return vr_finish_each(b, d, &p, y->count);
}

const vr_family vr_conv = { .supports = conv_supports, .lower = lower_conv };
const vr_family vr_conv_transpose = { .supports = conv_supports, .lower = lower_conv_transpose };
