/* Attention, as one node or as the three that it is made of, and normalisations behind a residual. */
#include "region.h"
#include <math.h>

/* ------------------------------------------------------------------ scores, softmax and product in one */

enum { MOST_ROWS_EACH = 4, MOST_LANES = 64 };

static uint32_t rows_each(const gpu_facts *f, int64_t queries, int64_t keys)
{
    const uint64_t room = (f->most_shared - MOST_ROWS_EACH * MOST_LANES * sizeof(float)) / sizeof(float);
    uint32_t rows = queries < MOST_ROWS_EACH ? (uint32_t)queries : MOST_ROWS_EACH;

    while (rows > 0 && rows * (uint64_t)keys > room)
        rows--;
    return rows;
}

bool vr_can_attend(const vr_build *b, const vr_attend *t)
{
    return t->scores.k > 0 && rows_each(&b->g->facts, t->scores.line, t->scores.n) > 0;
}

inlay_status vr_emit_attend(vr_build *b, const vr_attend *t, vr_program *p)
{
    const vr_product *x = &t->scores;
    const gpu_facts *f = &b->g->facts;
    const uint32_t rows = rows_each(f, x->line, x->n);
    const uint64_t batches = (uint64_t)(x->batch[0] * x->batch[1] * x->batch[2]);
    const uint64_t items = (uint64_t)((x->line + rows - 1) / rows) * batches;
    const int64_t list[] = { x->line,   x->n,        x->k,     t->width,    x->a_row,   x->a_step,
                             x->b_step, x->b_column, t->v_row, t->v_column, x->out_row, x->out_column };
    vr_dispatch *d = vr_emit(b, SHADER_attend, 32, true);
    uint32_t *w;
    inlay_status status;

    if (d == NULL)
        return INLAY_OUT_OF_MEMORY;
    d->constants[ID_LOCAL] = f->is_cpu ? (f->subgroup > 0 ? f->subgroup : 8) : MOST_LANES;
    d->constants[ID_OWN] = rows;
    d->constants[ID_OWN + 1] = rows * (uint32_t)x->n;
    d->constants[ID_OWN + 2] = t->zero;
    d->constants[ID_OWN + 3] = x->k >= 8;
    d->constants[ID_OWN + 4] = x->k % 8 != 0;
    d->constants[ID_LOAD] = vr_element(x->a_type);
    d->constants[ID_LOAD + 1] = vr_element(x->b_type);
    d->constants[ID_LOAD + 2] = vr_element(t->v_type);
    d->ns = 2.0 * (double)(x->line * x->n) * (double)(x->k + t->width) * (double)batches / b->c->state->flops_per_ns;
    w = vr_words(b, d);
    for (uint32_t i = 0; i < KIT_COUNT(list); i++)
        w[i] = (uint32_t)list[i];
    memcpy(&w[12], &x->alpha, sizeof x->alpha);
    w[13] = (uint32_t)items;
    for (uint32_t i = 0; i < 3; i++) {
        w[14 + i] = (uint32_t)x->batch[i];
        w[17 + i] = (uint32_t)x->a_batch[i];
        w[20 + i] = (uint32_t)x->b_batch[i];
        w[23 + i] = (uint32_t)t->v_batch[i];
        w[26 + i] = (uint32_t)x->out_batch[i];
    }
    vr_operand_at(b, d, PUSH_OWN, x->a, x->a_bytes, false);
    vr_operand_at(b, d, PUSH_OWN + 1, x->b, x->b_bytes, false);
    vr_operand_at(b, d, PUSH_OWN + 2, t->v, t->v_bytes, false);
    p->result = t->result;
    status = vr_finish(b, d, p);
    return status == INLAY_OK ? vr_grid_groups(b, d, items) : status;
}

/* ------------------------------------------------------------------ MatMul, Softmax, MatMul */

static void set_third(const vr_build *b, vr_attend *t, uint32_t value)
{
    t->v = b->places[value];
    t->v_type = b->tensors[value].dtype;
    t->v_bytes = (uint64_t)b->tensors[value].count * vr_size_of(t->v_type);
}

/* Dimensions but the last two have to be those of the result in all: no operand is broadcast. */
static bool goes_together(const vr_build *b, const uint32_t values[3], const vr_tensor *y)
{
    for (uint32_t i = 0; i < 3; i++)
        if (b->tensors[values[i]].rank != y->rank ||
            memcmp(b->tensors[values[i]].dims, y->dims, (y->rank - 2) * sizeof y->dims[0]) != 0)
            return false;
    return true;
}

inlay_status vr_try_attend(vr_build *b, const vr_op *op, const vr_product *x, vr_program *p, bool *emitted)
{
    uint32_t soft_at, next_at, axis;
    const vr_op *soft = vr_reader(b, p->result, &soft_at);
    const vr_op *next = soft != NULL && soft->row->family == &vr_softmax && soft->row->number == ROW_SOFTMAX
                            ? vr_reader(b, soft->info.outputs[0], &next_at)
                            : NULL;
    vr_attend t = { .scores = *x };
    const vr_tensor *y;
    int64_t s[4][VR_RANK], *const lists[] = { s[0], s[1], s[2], s[3] };
    uint32_t values[3], rank;
    vr_program end;

    if (next == NULL || next->row->family != &vr_mat_mul || next->info.inputs[0] != soft->info.outputs[0])
        return INLAY_OK;
    y = vr_out(b, next, 0);
    rank = y->rank;
    values[0] = op->info.inputs[0], values[1] = op->info.inputs[1], values[2] = next->info.inputs[1];
    if (p->rank != rank || rank < 2 || b->places[values[2]].buffer == INLAY_NONE || !goes_together(b, values, y) ||
        !vr_axis(kit_attr_int(&soft->info, "axis", soft->info.since_version < 13 ? 1 : -1), rank, &axis) ||
        axis + 1 != rank || !vr_can_attend(b, &t))
        return INLAY_OK;
    b->done[soft_at] = true;
    b->done[next_at] = true;
    vr_program_start(b, &end, next->info.outputs[0], VR_SINGLE);
    vr_follow_transpose(b, &end, s[3]);
    for (uint32_t i = 0; i < 3; i++)
        vr_strides(b, values[i], s[i]);
    set_third(b, &t, values[2]);
    t.width = y->dims[rank - 1];
    t.result = end.result;
    t.scores.a_row = s[0][rank - 2], t.scores.a_step = s[0][rank - 1];
    t.scores.b_step = s[1][rank - 2], t.scores.b_column = s[1][rank - 1];
    t.v_row = s[2][rank - 2], t.v_column = s[2][rank - 1];
    t.scores.out_row = s[3][rank - 2], t.scores.out_column = s[3][rank - 1];
    if (!vr_merge_batches(rank - 2, y->dims, 4, lists, t.scores.batch,
                          (int64_t *const[]){ t.scores.a_batch, t.scores.b_batch, t.v_batch, t.scores.out_batch }))
        return vr_decline(b, op, "its batches do not lie behind each other");
    *emitted = true;
    return vr_emit_attend(b, &t, p);
}

/* ------------------------------------------------------------------ Attention */

/* Batches of a tensor [batch, heads, rows, columns] that lies by strides, heads of queries or those that some share. */
static void set_strides(const vr_attend *t, int64_t *out, const int64_t *strides, bool shared)
{
    out[0] = strides[0];
    out[1] = (shared ? 1 : t->scores.batch[2]) * strides[1];
    out[2] = shared ? 0 : strides[1];
}

/* What lies where, turned or not. */
static void place_all(vr_build *b, const vr_op *op, vr_attend *t)
{
    const vr_tensor *q = vr_in(b, op, 0), *k = vr_in(b, op, 1);
    int64_t s[4][VR_RANK];
    vr_program end;

    for (uint32_t i = 0; i < 3; i++)
        vr_strides(b, op->info.inputs[i], s[i]);
    vr_program_start(b, &end, op->info.outputs[0], VR_SINGLE);
    vr_follow_transpose(b, &end, s[3]);
    t->result = end.result;
    vr_product_batches(&t->scores, (const int64_t[]){ q->dims[0], k->dims[1], q->dims[1] / k->dims[1] });
    set_strides(t, t->scores.a_batch, s[0], false);
    set_strides(t, t->scores.b_batch, s[1], true);
    set_strides(t, t->v_batch, s[2], true);
    set_strides(t, t->scores.out_batch, s[3], false);
    t->scores.a_row = s[0][2], t->scores.a_step = s[0][3];
    t->scores.b_column = s[1][2], t->scores.b_step = s[1][3];
    t->v_row = s[2][2], t->v_column = s[2][3];
    t->scores.out_row = s[3][2], t->scores.out_column = s[3][3];
    t->scores.a = b->places[op->info.inputs[0]];
    t->scores.b = b->places[op->info.inputs[1]];
    t->scores.a_bytes = (uint64_t)q->count * sizeof(float);
    t->scores.b_bytes = (uint64_t)k->count * sizeof(float);
    set_third(b, t, op->info.inputs[2]);
}

static inlay_status lower_attention(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *q = vr_in(b, op, 0), *k = vr_in(b, op, 1), *v = vr_in(b, op, 2);
    const int64_t heads = q->dims[1], shared = k->dims[1], queries = q->dims[2], keys = k->dims[2], depth = q->dims[3];
    const double scale = kit_attr_float(&op->info, "scale", 0);
    vr_attend t = { .zero = true, .scores = vr_product_of(queries, depth, keys), .width = v->dims[3] };
    uint32_t scores;
    vr_program p;
    inlay_status status = INLAY_OK;

    if (shared == 0 || heads % shared != 0 || v->dims[1] != shared || keys == 0)
        return vr_decline(b, op, "the heads of queries are no multiple of those of keys");
    t.scores.alpha = (float)(scale != 0 ? scale : 1 / sqrt((double)depth));
    if (!vr_can_attend(b, &t))
        return vr_decline(b, op, "%lld keys are more than the device's shared memory holds", (long long)keys);
    place_all(b, op, &t);
    scores = vr_temporary(b, INLAY_FLOAT, 4, (const int64_t[]){ q->dims[0], heads, queries, keys });
    vr_program_start(b, &p, scores, VR_SINGLE);
    if (vr_in(b, op, 3) != NULL)
        (void)vr_slot(&p, OP_ADD, REG_ACC, vr_load_value(b, &p, op->info.inputs[3]), 0);
    if (kit_attr_int(&op->info, "is_causal", 0) != 0) {
        const uint32_t triangle = vr_temporary(b, INLAY_FLOAT, 2, (const int64_t[]){ queries, keys });

        status = vr_emit_causal(b, triangle);
        (void)vr_slot(&p, OP_ADD, p.slot_count > 0 ? REG_SLOT : REG_ACC, vr_load_value(b, &p, triangle), 0);
    }
    if (p.full)
        return vr_decline(b, op, "its mask is not that of the scores");
    return status == INLAY_OK ? vr_emit_attend(b, &t, &p) : status;
}

static bool attention_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    (void)row;
    for (uint32_t i = 0; i < 3; i++)
        if (kit_input(node, i) == NULL || kit_input(node, i)->rank != 4)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "queries, keys and values of four dimensions only");
    for (uint32_t i = 4; i < node->info->input_count; i++)
        if (kit_input(node, i) != NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "a past, or lengths of keys");
    if (kit_attr_float(node->info, "softcap", 0) != 0 || kit_attr_int(node->info, "left_window_size", -1) >= 0 ||
        kit_attr_int(node->info, "right_window_size", -1) >= 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "softcap or a window");
    return true;
}

/* ------------------------------------------------------------------ normalisation of a sum */

static uint32_t input_or_none(const vr_op *op, uint32_t i)
{
    return i < op->info.input_count ? op->info.inputs[i] : INLAY_NONE;
}

/* sum = x + bias + skip */
static inlay_status add_up(vr_build *b, const vr_op *op, uint32_t bias, uint32_t sum)
{
    vr_program p;
    uint32_t x;

    vr_program_start(b, &p, sum, VR_SINGLE);
    x = vr_load_value(b, &p, op->info.inputs[0]);
    if (bias != INLAY_NONE)
        x = vr_slot(&p, OP_ADD, x, vr_load_value(b, &p, bias), 0);
    (void)vr_slot(&p, OP_ADD, x, vr_load_value(b, &p, op->info.inputs[1]), 0);
    if (p.full)
        return vr_decline(b, op, "what it adds has other sizes");
    return vr_emit_elements(b, &p);
}

/* The sum is made where somebody else reads it; otherwise the rows are read as a sum of two. */
static inlay_status lower_skip_norm(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *skip = vr_in(b, op, 1);
    const bool simple = op->row->number == ROW_RMS;
    const uint32_t bias = input_or_none(op, simple ? 3 : 4);
    vr_rows r = { .kind = op->row->number,
                  .length = x->dims[x->rank - 1],
                  .inner = 1,
                  .scale = op->info.inputs[2],
                  .bias = simple ? INLAY_NONE : input_or_none(op, 3),
                  .mean = INLAY_NONE,
                  .deviation = INLAY_NONE,
                  .epsilon = (float)kit_attr_float(&op->info, "epsilon", 1e-12) };
    uint32_t sum = op->info.output_count > 3 ? op->info.outputs[3] : INLAY_NONE;
    inlay_status status;

    r.count = x->count / r.length;
    if (b->tensors[r.scale].count != r.length || (r.bias != INLAY_NONE && b->tensors[r.bias].count != r.length))
        return vr_decline(b, op, "its scale is not that of a row");
    if (sum == INLAY_NONE && skip->count == x->count && skip->dtype == INLAY_FLOAT &&
        (bias == INLAY_NONE || (b->tensors[bias].count == r.length && b->tensors[bias].dtype == INLAY_FLOAT))) {
        r.has_skip = true;
        r.skip_bias = bias;
        r.skip = op->info.inputs[1];
        return vr_emit_rows(b, o, &r, op->info.inputs[0], op->info.outputs[0]);
    }
    if (sum == INLAY_NONE)
        sum = vr_temporary(b, x->dtype, x->rank, x->dims);
    status = add_up(b, op, bias, sum);
    return status == INLAY_OK ? vr_emit_rows(b, o, &r, sum, op->info.outputs[0]) : status;
}

static bool skip_norm_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    (void)row;
    if (kit_output(node, 1) != NULL || kit_output(node, 2) != NULL || kit_input(node, 0)->rank == 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "means as outputs");
    return true;
}

const vr_family vr_attention = { attention_supports, lower_attention, NULL };
const vr_family vr_skip_norm = { skip_norm_supports, lower_skip_norm, NULL };
