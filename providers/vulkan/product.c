/* Products of matrices and convolutions: one skeleton, shaders/product.comp. */
#include "region.h"
#include "window.h"

/* ------------------------------------------------------------------ the dispatch */

static bool reads_by_four(const vr_product *x)
{
    int64_t odd = x->k | x->a_row;

    for (uint32_t i = 0; i < 3; i++)
        odd |= x->a_batch[i];
    return x->a_step == 1 && odd % 4 == 0 && x->a_type == INLAY_FLOAT && x->a.offset % 16 == 0;
}

static inlay_status set_grid(vr_build *b, vr_dispatch *d, const vr_product *x, uint32_t rows_each)
{
    const uint64_t strips = (uint64_t)((x->m + rows_each - 1) / rows_each * x->batch[0] * x->batch[1] * x->batch[2]);
    const uint64_t most = b->g->facts.most_groups[1];
    uint32_t local = 8;

    while (local < VR_LOCAL && local * 4 < x->n)
        local *= 2;
    d->constants[ID_LOCAL] = local;
    d->groups[0] = (uint32_t)((x->n + 4 * local - 1) / (4 * local));
    d->groups[1] = (uint32_t)(strips < most ? strips : most);
    d->groups[2] = (uint32_t)((strips + most - 1) / most);
    if (d->groups[0] > b->g->facts.most_groups[0] || d->groups[2] > b->g->facts.most_groups[2])
        return inlay_fail(b->diag, INLAY_UNSUPPORTED, "a product of more workgroups than %s takes", b->g->facts.name);
    return INLAY_OK;
}

inlay_status vr_emit_product(vr_build *b, const vr_product *x, const vr_program *p)
{
    const uint32_t rows_each = x->m >= 8 ? 8 : x->m >= 4 ? 4 : 1;
    vr_dispatch *d = vr_emit(b,
                             rows_each == 8   ? SHADER_product_8
                             : rows_each == 4 ? SHADER_product_4
                                              : SHADER_product_1,
                             40, true);
    const double terms = (double)x->m * (double)x->n * (double)x->k * (double)x->taps;
    uint32_t *w;
    inlay_status status;

    if (d == NULL)
        return INLAY_OUT_OF_MEMORY;
    d->constants[ID_OWN] = x->windows;
    d->constants[ID_OWN + 1] = reads_by_four(x);
    d->constants[ID_LOAD] = vr_element(x->a_type);
    d->constants[ID_LOAD + 1] = vr_element(x->b_type);
    d->constants[ID_OWN + 2] = b->g->facts.broadcasts && b->g->facts.subgroup_least >= rows_each;
    d->ns = 2 * terms * (double)(x->batch[0] * x->batch[1] * x->batch[2]) / b->c->state->flops_per_ns;
    w = vr_words(b, d);
    w[0] = (uint32_t)x->m;
    w[1] = (uint32_t)x->n;
    w[2] = (uint32_t)x->k;
    w[3] = (uint32_t)x->a_row;
    w[4] = (uint32_t)x->a_step;
    w[5] = (uint32_t)x->b_row;
    w[6] = (uint32_t)x->b_step;
    w[7] = (uint32_t)x->taps;
    memcpy(&w[8], &x->alpha, sizeof x->alpha);
    for (uint32_t i = 0; i < 3; i++) {
        w[9 + i] = (uint32_t)x->batch[i];
        w[12 + i] = (uint32_t)x->a_batch[i];
        w[15 + i] = (uint32_t)x->b_batch[i];
    }
    if (x->windows)
        memcpy(&w[18], x->window_words, sizeof x->window_words);
    w[36] = (uint32_t)(x->batch[0] * x->batch[1] * x->batch[2]);
    vr_operand_at(b, d, PUSH_OWN, x->a, x->a_bytes, false);
    vr_operand_at(b, d, PUSH_OWN + 1, x->b, x->b_bytes, false);
    status = vr_finish(b, d, p);
    return status == INLAY_OK ? set_grid(b, d, x, rows_each) : status;
}

/* One column: columns are what neighbours share, so the vector becomes the row that all read. */
static void turn_column(vr_product *x)
{
    vr_product y = *x;

    if (x->n != 1 || x->m == 1 || x->windows)
        return;
    y.m = 1;
    y.n = x->m;
    y.a = x->b, y.a_bytes = x->b_bytes, y.a_type = x->b_type, y.a_row = x->b_row * x->k, y.a_step = x->b_row;
    y.b = x->a, y.b_bytes = x->a_bytes, y.b_type = x->a_type, y.b_row = x->a_step, y.b_step = x->a_row;
    memcpy(y.a_batch, x->b_batch, sizeof y.a_batch);
    memcpy(y.b_batch, x->a_batch, sizeof y.b_batch);
    *x = y;
}

static void set_operands(const vr_build *b, vr_product *x, uint32_t a, uint32_t other)
{
    x->a = b->places[a];
    x->b = b->places[other];
    x->a_type = b->tensors[a].dtype;
    x->b_type = b->tensors[other].dtype;
    x->a_bytes = (uint64_t)b->tensors[a].count * vr_size_of(x->a_type);
    x->b_bytes = (uint64_t)b->tensors[other].count * vr_size_of(x->b_type);
}

/* ------------------------------------------------------------------ MatMul */

/* Batches of the result, at most three after those that lie behind each other are one. */
static bool set_batches(vr_product *x, const vr_tensor *a, const vr_tensor *o, const vr_tensor *y, uint32_t batch_rank)
{
    uint32_t n = 0;
    int64_t dims[VR_RANK], as[VR_RANK], bs[VR_RANK], a_step = x->m * x->k, b_step = x->k * x->n;

    for (uint32_t d = batch_rank; d-- > 0;) {
        const int64_t from_end = batch_rank - d + 2;
        const int64_t ad = a->rank >= from_end ? a->dims[a->rank - from_end] : 1;
        const int64_t od = o->rank >= from_end ? o->dims[o->rank - from_end] : 1;
        const int64_t sa = ad == 1 ? 0 : a_step, sb = od == 1 ? 0 : b_step;

        a_step *= ad;
        b_step *= od;
        if (y->dims[d] == 1)
            continue;
        if (n > 0 && sa == as[n - 1] * dims[n - 1] && sb == bs[n - 1] * dims[n - 1]) {
            dims[n - 1] *= y->dims[d];
            continue;
        }
        if (n == 3)
            return false;
        dims[n] = y->dims[d];
        as[n] = sa;
        bs[n++] = sb;
    }
    for (uint32_t i = 0; i < n; i++) {
        x->batch[2 - i] = dims[i];
        x->a_batch[2 - i] = as[i];
        x->b_batch[2 - i] = bs[i];
    }
    if (n == 1 && bs[0] == 0 && as[0] == x->m * x->k) { /* the same matrix for all: more rows */
        x->m *= dims[0];
        x->batch[2] = 1;
        x->a_batch[2] = 0;
    }
    return true;
}

static inlay_status lower_mat_mul(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *a = vr_in(b, op, 0), *other = vr_in(b, op, 1), *y = vr_out(b, op, 0);
    const uint32_t lost = (a->rank == 1) + (other->rank == 1);
    vr_product x = { .taps = 1, .alpha = 1, .batch = { 1, 1, 1 } };
    vr_program p;
    inlay_status status;

    x.m = a->rank == 1 ? 1 : a->dims[a->rank - 2];
    x.k = a->dims[a->rank - 1];
    x.n = other->rank == 1 ? 1 : other->dims[other->rank - 1];
    x.a_row = x.k;
    x.a_step = 1;
    x.b_row = x.n;
    x.b_step = 1;
    set_operands(b, &x, op->info.inputs[0], op->info.inputs[1]);
    if (!set_batches(&x, a, other, y, y->rank + lost - 2))
        return vr_decline(b, op, "its batches do not lie behind each other");
    turn_column(&x);
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    status = vr_grow(b, o, &p);
    return status == INLAY_OK ? vr_emit_product(b, &x, &p) : status;
}

/* ------------------------------------------------------------------ Gemm */

static inlay_status lower_gemm(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *a = vr_in(b, op, 0), *other = vr_in(b, op, 1);
    const bool trans_a = kit_attr_int(&op->info, "transA", 0) != 0, trans_b = kit_attr_int(&op->info, "transB", 0) != 0;
    const vr_constant *packed = vr_find_constant(b->c, op->info.inputs[1], VR_TRANSPOSED);
    const double beta = kit_attr_float(&op->info, "beta", 1);
    vr_product x = { .taps = 1, .alpha = (float)kit_attr_float(&op->info, "alpha", 1), .batch = { 1, 1, 1 } };
    vr_program p;
    inlay_status status;

    x.m = a->dims[trans_a];
    x.k = a->dims[!trans_a];
    x.n = other->dims[!trans_b];
    x.a_row = trans_a ? 1 : x.k;
    x.a_step = trans_a ? x.m : 1;
    x.b_row = trans_b && packed == NULL ? 1 : x.n;
    x.b_step = trans_b && packed == NULL ? x.k : 1;
    set_operands(b, &x, op->info.inputs[0], op->info.inputs[1]);
    if (trans_b && packed != NULL) {
        status = vr_constant_place(b, packed, &x.b);
        if (status != INLAY_OK)
            return status;
    }
    turn_column(&x);
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    if (vr_in(b, op, 2) != NULL && beta != 0) {
        uint32_t c = vr_load_value(b, &p, op->info.inputs[2]);

        if (beta != 1)
            c = vr_slot(&p, OP_MUL, c, vr_number(&p, beta), 0);
        (void)vr_slot(&p, OP_ADD, REG_ACC, c, 0);
    }
    status = vr_grow(b, o, &p);
    return status == INLAY_OK ? vr_emit_product(b, &x, &p) : status;
}

/* ------------------------------------------------------------------ Conv */

/* Weights as [M, window, C / groups]. */
static inlay_status place_weights(vr_build *b, const vr_op *op, int64_t taps, vr_place *out)
{
    const vr_tensor *w = vr_in(b, op, 1);
    const vr_constant *packed = vr_find_constant(b->c, op->info.inputs[1], VR_TAPS_FIRST);
    const int64_t m = w->dims[0], c = w->dims[1];
    const uint64_t bytes = (uint64_t)w->count * vr_size_of(w->dtype);
    const vr_box box = {
        .rank = 3, .dims = { m, taps, c }, .from = { c * taps, 1, taps }, .to = { c * taps, c, 1 }, .pad = PAD_NONE
    };
    inlay_status status;

    if (packed != NULL)
        return vr_constant_place(b, packed, out);
    *out = b->places[op->info.inputs[1]];
    if (taps == 1 || c == 1)
        return INLAY_OK;
    status = vr_work(b, bytes, out);
    return status == INLAY_OK
               ? vr_move(b, &box, b->places[op->info.inputs[1]], bytes, *out, bytes, vr_size_of(w->dtype))
               : status;
}

static inlay_status lower_conv(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *w = vr_in(b, op, 1), *y = vr_out(b, op, 0);
    const int64_t groups = kit_attr_int(&op->info, "group", 1);
    vr_window v;
    vr_product q = { .alpha = 1, .k = w->dims[1], .a_step = 1, .b_step = 1 };
    vr_program p;
    inlay_status status;

    if (!vr_window_read(&op->info, x, y, w->dims + 2, &v) || groups < 1)
        return vr_decline(b, op, "its window does not fit the input");
    q.m = w->dims[0] / groups;
    q.n = v.out[0] * v.out[1] * v.out[2];
    q.taps = v.window[0] * v.window[1] * v.window[2];
    q.windows = !v.plain;
    q.a_row = q.k * q.taps;
    q.b_row = v.in[0] * v.in[1] * v.in[2];
    q.batch[0] = 1;
    q.batch[1] = x->dims[0];
    q.batch[2] = groups;
    q.a_batch[2] = q.m * q.a_row;
    q.b_batch[1] = x->dims[1] * q.b_row;
    q.b_batch[2] = q.k * q.b_row;
    if (q.k * groups != x->dims[1])
        return vr_decline(b, op, "its weights have %lld channels, the input %lld", (long long)(q.k * groups),
                          (long long)x->dims[1]);
    set_operands(b, &q, op->info.inputs[1], op->info.inputs[0]);
    status = place_weights(b, op, q.taps, &q.a);
    if (status != INLAY_OK)
        return status;
    vr_window_words(&v, q.window_words);
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    if (vr_in(b, op, 2) != NULL)
        (void)vr_slot(&p, OP_ADD, REG_ACC, vr_load_axis(b, &p, op->info.inputs[2], 1), 0);
    status = vr_grow(b, o, &p);
    return status == INLAY_OK ? vr_emit_product(b, &q, &p) : status;
}

vr_packing vr_packing_of(const inlay_compiled *c, const vr_op *op, uint32_t input)
{
    (void)c;
    if (input == 1 && op->row->family == &vr_conv)
        return VR_TAPS_FIRST;
    if (input == 1 && op->row->family == &vr_gemm && kit_attr_int(&op->info, "transB", 0) != 0)
        return VR_TRANSPOSED;
    return VR_PLAIN;
}

static bool mat_mul_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    (void)row;
    if (kit_input(node, 0)->rank == 0 || kit_input(node, 1)->rank == 0)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "a scalar is no matrix");
    return true;
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

const vr_family vr_mat_mul = { mat_mul_supports, lower_mat_mul, NULL };
const vr_family vr_gemm = { NULL, lower_gemm, NULL };
const vr_family vr_conv = { conv_supports, lower_conv, NULL };
const vr_family vr_conv_transpose = { conv_supports, lower_conv_transpose, NULL };
