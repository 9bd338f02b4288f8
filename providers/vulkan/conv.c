/* Convolutions: products over windows, sums over a window alone, and transposed ones. */
#include "region.h"
#include "window.h"

/* One filter for each channel: a sum over the window alone. */
static inlay_status lower_depthwise(vr_build *b, uint32_t o, const vr_window *v, vr_program *p)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *y = vr_out(b, op, 0);
    const int64_t pixels = v->out[0] * v->out[1] * v->out[2], taps = v->window[0] * v->window[1] * v->window[2];
    const gpu_facts *f = &b->g->facts;
    vr_dispatch *d;
    uint32_t *w, planes;
    uint64_t each;
    inlay_status status;

    d = vr_skeleton(b, o, p, SHADER_depthwise, 24, &status);
    if (d == NULL)
        return status;
    planes = (uint32_t)(x->dims[0] * x->dims[1]);
    d->constants[ID_LOAD] = vr_element(x->dtype);
    d->constants[ID_LOAD + 1] = vr_element(vr_in(b, op, 1)->dtype);
    if (vr_scalar_loads(b)) { /* strips of lines, eight a workgroup */
        const int64_t strips = (v->out[2] + f->subgroup - 1) / f->subgroup * v->out[0] * v->out[1];

        d->constants[ID_OWN] = f->subgroup;
        d->constants[ID_LOCAL] = f->subgroup * (strips < 8 ? (uint32_t)strips : 8);
        each = (uint64_t)(strips + 7) / 8;
    } else {
        while (d->constants[ID_LOCAL] > 8 && d->constants[ID_LOCAL] / 2 >= pixels)
            d->constants[ID_LOCAL] /= 2;
        each = (uint64_t)(pixels + d->constants[ID_LOCAL] - 1) / d->constants[ID_LOCAL];
    }
    d->ns = 2.0 * (double)y->count * (double)taps * 4 / b->c->state->bytes_per_ns;
    w = vr_words(b, d);
    w[0] = (uint32_t)x->dims[1];
    w[1] = (uint32_t)each;
    vr_window_words(v, &w[2]);
    w[20] = planes;
    vr_value_at(b, d, PUSH_OWN, op->info.inputs[0], false);
    vr_value_at(b, d, PUSH_OWN + 1, op->info.inputs[1], false);
    status = vr_finish(b, d, p);
    return status == INLAY_OK ? vr_grid_groups(b, d, each * planes) : status;
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
    const int64_t pixels = v->out[0] * v->out[1] * v->out[2], plane = v->in[0] * v->in[1] * v->in[2];
    const int64_t k = w->dims[1], n = w->dims[0] / groups;
    vr_product q = vr_product_of(pixels, k, n);

    vr_product_batches(&q, (const int64_t[]){ 1, x->dims[0], groups });
    q.windows = !v->plain;
    q.padded = reaches_outside(v);
    if (q.windows) {
        q.line = v->out[2];
        q.lines = v->out[0] * v->out[1];
    }
    q.taps = v->window[0] * v->window[1] * v->window[2];
    q.a_row = 1;
    q.a_step = plane;
    q.a_batch[1] = x->dims[1] * plane;
    q.a_batch[2] = k * plane;
    q.b_step = q.taps;
    q.b_column = k * q.taps;
    q.b_tap = 1;
    q.b_batch[2] = n * q.b_column;
    q.out_row = 1;
    q.out_column = pixels;
    q.group = n;
    vr_window_words(v, q.window_words);
    return q;
}

static inlay_status lower_conv(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *w = vr_in(b, op, 1), *y = vr_out(b, op, 0);
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    vr_window v;
    vr_product q;
    vr_program p;
    inlay_status status;

    if (!vr_window_read(&op->info, x, y, w->dims + 2, &v) || groups < 1)
        return vr_decline(b, op, "its window does not fit the input");
    if (w->dims[1] * groups != x->dims[1])
        return vr_decline(b, op, "its weights have %lld channels, the input %lld", (long long)(w->dims[1] * groups),
                          (long long)x->dims[1]);
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    if (vr_in(b, op, 2) != NULL)
        (void)vr_slot(&p, OP_ADD, REG_ACC, vr_load_axis(b, &p, op->info.inputs[2], 1), 0);
    p.has_columns = true;
    p.columns = 1;
    if (w->dims[1] == 1 && w->dims[0] == groups)
        return lower_depthwise(b, o, &v, &p);
    q = windows_of(&v, x, w, groups);
    vr_product_operands(b, &q, op->info.inputs[0], op->info.inputs[1]);
    status = vr_grow(b, o, &p);
    return status == INLAY_OK ? vr_finish_product(b, op, &q, &p) : status;
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

/* ------------------------------------------------------------------ ConvTranspose */

static inlay_status lower_conv_transpose(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *w = vr_in(b, op, 1), *y = vr_out(b, op, 0);
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    vr_window v;
    vr_program p;
    vr_dispatch *d;
    uint32_t *words, window[18];
    inlay_status status;

    if (!vr_window_read_transposed(&op->info, x, y, w->dims + 2, &v) || groups < 1)
        return vr_decline(b, op, "its window does not fit the input");
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    if (vr_in(b, op, 2) != NULL)
        (void)vr_slot(&p, OP_ADD, REG_ACC, vr_load_axis(b, &p, op->info.inputs[2], 1), 0);
    d = vr_skeleton(b, o, &p, SHADER_transposed, 24, &status);
    if (d == NULL)
        return status;
    words = vr_words(b, d);
    words[0] = (uint32_t)y->count;
    words[1] = (uint32_t)(w->dims[0] / groups);
    words[2] = (uint32_t)w->dims[1];
    words[3] = (uint32_t)groups;
    vr_window_words(&v, window);
    memcpy(&words[4], window, sizeof window);
    d->ns = 2.0 * (double)y->count * (double)(w->dims[0] / groups) * (double)(v.window[0] * v.window[1] * v.window[2]) /
            b->c->state->flops_per_ns;
    vr_value_at(b, d, PUSH_OWN, op->info.inputs[1], false);
    vr_value_at(b, d, PUSH_OWN + 1, op->info.inputs[0], false);
    return vr_finish_each(b, d, &p, y->count);
}

const vr_family vr_conv = { conv_supports, lower_conv, NULL };
const vr_family vr_conv_transpose = { conv_supports, lower_conv_transpose, NULL };
