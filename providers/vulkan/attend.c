/* Attention, as one node or as the three that it is made of, and normalisations behind a residual. */
#include "region.h"
#include <math.h>

/* ------------------------------------------------------------------ scores, softmax and product in one */

enum { MOST_ROWS_EACH = 4, MOST_LANES = 64 };

/* How many rows of scores fit the shared memory; 0: none. */
static uint32_t rows_each(const gpu_facts *f, int64_t queries, int64_t keys)
{
    const uint64_t room = (f->most_shared - MOST_ROWS_EACH * MOST_LANES * sizeof(float)) / sizeof(float);
    uint32_t rows = queries < MOST_ROWS_EACH ? (uint32_t)queries : MOST_ROWS_EACH;

    while (rows > 0 && rows * (uint64_t)keys > room)
        rows--;
    return rows;
}

static uint32_t lanes_of(const gpu_facts *f)
{
    return !f->is_cpu ? MOST_LANES : f->subgroup > 0 ? f->subgroup : 8;
}

static bool can_attend(const vr_build *b, const vr_attend *t)
{
    const int64_t keys = t->scores.n, depth = t->scores.k, lanes = lanes_of(&b->g->facts);

    return depth > 0 && rows_each(&b->g->facts, t->scores.line, keys) > 0 &&
           vr_goes_round(b, (keys / lanes + 1) * (2 + depth / 8 + depth % 8) +
                                (t->width / lanes + 1) * (1 + keys / 8 + keys % 8));
}

/* p makes the scores. */
static inlay_status emit_attend(vr_build *b, const vr_attend *t, vr_program *p)
{
    const vr_product *x = &t->scores;
    const gpu_facts *f = &b->g->facts;
    const uint32_t rows = rows_each(f, x->line, x->n);
    const int64_t batches = x->batch[0] * x->batch[1] * x->batch[2], items = (x->line + rows - 1) / rows * batches;
    const int64_t *const lists[] = { x->batch, x->a_batch, x->b_batch, t->v_batch, x->out_batch };
    vr_dispatch *d = vr_emit(b, SHADER_attend, 32);

    d->constants[ID_LOCAL] = lanes_of(f);
    VR_OWN(d, rows, rows * (uint32_t)x->n, t->blank, x->k >= 8, x->k % 8 != 0);
    vr_expect_flops(b, d, 2.0 * (double)(x->line * x->n) * (double)(x->k + t->width) * (double)batches);
    VR_PUT(b, d, 0, x->line, x->n, x->k, t->width, x->a_row, x->a_step, x->b_step, x->b_column, t->v_row, t->v_column,
           x->out_row, x->out_column, vr_bits(x->alpha), items);
    for (uint32_t i = 0; i < KIT_COUNT(lists); i++)
        vr_put(b, d, 14 + 3 * i, 3, lists[i]);
    vr_read_at(b, d, 0, &x->a);
    vr_read_at(b, d, 1, &x->b);
    vr_read_at(b, d, 2, &t->v);
    p->result = t->result;
    vr_finish(b, d, p);
    return vr_grid_groups(b, d, (uint64_t)items);
}

/* What lies where, turned or not: queries, keys, values (by values[]) and the result of end, whose last two dimensions
 * are rows and steps along them. keys_turned: [K, N] and not [N, K]. strides[] gets those of all dimensions. */
static void place_all(vr_build *b, vr_attend *t, const uint32_t values[3], const vr_op *end, bool keys_turned,
                      int64_t strides[4][VR_RANK])
{
    vr_source *const sources[] = { &t->scores.a, &t->scores.b, &t->v };
    vr_product *x = &t->scores;
    const uint32_t row = vr_out(b, end, 0)->rank - 2, column = row + 1;
    vr_program last;

    for (uint32_t i = 0; i < 3; i++) {
        vr_strides(b, values[i], strides[i]);
        *sources[i] = vr_source_of(b, values[i]);
    }
    vr_program_start(b, &last, end->info.outputs[0], VR_SINGLE);
    vr_follow_transpose(b, &last, strides[3]);
    t->result = last.result;
    x->a_row = strides[0][row], x->a_step = strides[0][column];
    x->b_column = strides[1][keys_turned ? column : row], x->b_step = strides[1][keys_turned ? row : column];
    t->v_row = strides[2][row], t->v_column = strides[2][column];
    x->out_row = strides[3][row], x->out_column = strides[3][column];
}

/* ------------------------------------------------------------------ MatMul, Softmax, MatMul */

/* Dimensions but the last two have to be those of the result in all: no operand is broadcast. */
static bool goes_together(const vr_build *b, const uint32_t values[3], const vr_tensor *y)
{
    for (uint32_t i = 0; i < 3; i++)
        if (b->tensors[values[i]].rank != y->rank ||
            memcmp(b->tensors[values[i]].dims, y->dims, (y->rank - 2) * sizeof y->dims[0]) != 0)
            return false;
    return true;
}

bool vr_try_attend(vr_build *b, const vr_op *op, const vr_product *x, vr_program *p)
{
    const vr_op *soft = vr_reader(b, p->result);
    const vr_op *next = soft != NULL && soft->row->family == &vr_softmax && soft->row->number == ROW_SOFTMAX
                            ? vr_reader(b, soft->info.outputs[0])
                            : NULL;
    vr_attend t = { .scores = *x };
    const vr_tensor *y;
    int64_t s[4][VR_RANK], *const lists[] = { s[0], s[1], s[2], s[3] };
    uint32_t values[3], axis;

    if (next == NULL || next->row->family != &vr_mat_mul || next->info.inputs[0] != soft->info.outputs[0])
        return false;
    y = vr_out(b, next, 0);
    t.width = y->rank > 0 ? y->dims[y->rank - 1] : 0;
    values[0] = op->info.inputs[0], values[1] = op->info.inputs[1], values[2] = next->info.inputs[1];
    if (p->rank != y->rank || y->rank < 2 || b->tensors[values[2]].place.buffer == INLAY_NONE ||
        !goes_together(b, values, y) ||
        !vr_axis(kit_attr_int(&soft->info, "axis", soft->info.since_version < 13 ? 1 : -1), y->rank, &axis) ||
        axis + 1 != y->rank || !can_attend(b, &t))
        return false;
    b->done[vr_number_of(b, soft)] = true;
    b->done[vr_number_of(b, next)] = true;
    place_all(b, &t, values, next, true, s);
    if (!vr_merge_batches(y->rank - 2, y->dims, 4, lists, t.scores.batch,
                          (int64_t *const[]){ t.scores.a_batch, t.scores.b_batch, t.v_batch, t.scores.out_batch }))
        (void)vr_decline(b, op, "its batches do not lie behind each other");
    else
        (void)emit_attend(b, &t, p);
    return true;
}

/* ------------------------------------------------------------------ Attention */

/* Of ai.inlay (ops/inlay/attention.c), not of ONNX? */
static bool is_own(const vr_operator *row)
{
    return row->number == ATTENTION_OWN;
}

/* Batches of a tensor [batch, heads, rows, columns] that lies by strides, heads of queries or those that some share. */
static void set_strides(const vr_attend *t, int64_t *out, const int64_t *strides, bool shared)
{
    out[0] = strides[0];
    out[1] = (shared ? 1 : t->scores.batch[2]) * strides[1];
    out[2] = shared ? 0 : strides[1];
}

static inlay_status lower_attention(vr_build *b, const vr_op *op)
{
    const vr_tensor *q = vr_in(b, op, 0), *k = vr_in(b, op, 1), *v = vr_in(b, op, 2);
    const int64_t heads = q->dims[1], shared = k->dims[1], queries = q->dims[2], keys = k->dims[2], depth = q->dims[3];
    const double scale = kit_attr_float(&op->info, "scale", 0);
    const bool own = is_own(op->row);
    vr_attend t = { .blank = !own                                         ? BLANK_ZERO
                             : kit_attr_int(&op->info, "guarded", 0) != 0 ? BLANK_GUARDED
                                                                          : BLANK_NAN,
                    .scores = vr_product_of(queries, depth, keys),
                    .width = v->dims[3] };
    int64_t s[4][VR_RANK];
    uint32_t score = REG_ACC;
    vr_program p;

    if (shared == 0 || heads % shared != 0 || v->dims[1] != shared || keys == 0)
        return vr_decline(b, op, "the heads of queries are no multiple of those of keys");
    t.scores.alpha = (float)(scale != 0 ? scale : 1 / sqrt((double)depth));
    if (!can_attend(b, &t))
        return vr_decline(b, op, "%lld keys are more than the device's shared memory holds", (long long)keys);
    place_all(b, &t, op->info.inputs, op, false, s);
    vr_product_batches(&t.scores, (const int64_t[]){ q->dims[0], shared, heads / shared });
    set_strides(&t, t.scores.a_batch, s[0], false);
    set_strides(&t, t.scores.b_batch, s[1], true);
    set_strides(&t, t.v_batch, s[2], true);
    set_strides(&t, t.scores.out_batch, s[3], false);
    vr_program_start(b, &p, vr_temporary(b, INLAY_FLOAT, 4, (const int64_t[]){ q->dims[0], heads, queries, keys }),
                     VR_SINGLE);
    if (own && vr_in(b, op, 4) != NULL)
        score = vr_slot(&p, OP_WHERE, vr_load_value(b, &p, op->info.inputs[4]), vr_number(&p, 0), REG_ACC);
    if (vr_in(b, op, 3) != NULL)
        score = vr_slot(&p, OP_ADD, score, vr_load_value(b, &p, op->info.inputs[3]), 0);
    if (kit_attr_int(&op->info, "is_causal", 0) != 0) {
        const uint32_t ahead = vr_load_at(b, &p, INLAY_NONE, (const int64_t[VR_RANK]){ 0, 0, -1, 1 }, 0);

        (void)vr_slot(&p, OP_WHERE, vr_slot(&p, OP_LESS_EQUAL, ahead, vr_number(&p, 0), 0), score,
                      vr_number(&p, -(double)INFINITY));
    }
    if (p.full)
        return vr_decline(b, op, "its mask is not that of the scores");
    return emit_attend(b, &t, &p);
}

static bool attention_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    for (uint32_t i = 0; i < 3; i++)
        if (kit_input(node, i) == NULL || kit_input(node, i)->rank != 4)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "queries, keys and values of four dimensions only");
    for (uint32_t i = 0; i < (is_own(row) ? 5 : 4); i++)
        if (kit_input(node, i) != NULL && kit_input_dtype(node, i) != (i == 4 ? INLAY_BOOL : INLAY_FLOAT))
            return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float", "input %u is %s", i,
                              inlay_dtype_name(kit_input_dtype(node, i)));
    for (uint32_t i = 4; !is_own(row) && i < node->info->input_count; i++)
        if (kit_input(node, i) != NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "a past, or lengths of keys");
    if (kit_attr_float(node->info, "softcap", 0) != 0 || kit_attr_int(node->info, "left_window_size", -1) >= 0 ||
        kit_attr_int(node->info, "right_window_size", -1) >= 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "softcap or a window");
    return true;
}

/* ------------------------------------------------------------------ normalisation of a sum */

/* sum = x + bias + skip */
static void add_up(vr_build *b, const vr_op *op, uint32_t bias, uint32_t sum)
{
    vr_program p;
    uint32_t x;

    vr_program_start(b, &p, sum, VR_SINGLE);
    x = vr_load_value(b, &p, op->info.inputs[0]);
    if (bias != INLAY_NONE)
        x = vr_slot(&p, OP_ADD, x, vr_load_value(b, &p, bias), 0);
    (void)vr_slot(&p, OP_ADD, x, vr_load_value(b, &p, op->info.inputs[1]), 0);
    (void)(p.full ? vr_decline(b, op, "what it adds has other sizes") : vr_emit_elements(b, &p));
}

/* Is a value of floats, as many as that? */
static bool has_floats(const vr_build *b, uint32_t value, int64_t count)
{
    return b->tensors[value].count == count && b->tensors[value].dtype == INLAY_FLOAT;
}

/* The sum is made where somebody else reads it; otherwise the rows are read as a sum of two. */
static inlay_status lower_skip_norm(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0);
    const uint32_t skip = op->info.inputs[1];
    const bool simple = op->row->number == ROW_RMS;
    const uint32_t bias = vr_in_value(op, simple ? 3 : 4);
    vr_rows r = vr_rows_of(b, op, op->row->number, x->rank - 1);
    uint32_t sum = vr_out_value(op, 3);

    r.scale = op->info.inputs[2];
    r.bias = simple ? INLAY_NONE : vr_in_value(op, 3);
    r.epsilon = (float)kit_attr_float(&op->info, "epsilon", 1e-12);
    if (sum == INLAY_NONE && has_floats(b, skip, x->count) && (bias == INLAY_NONE || has_floats(b, bias, r.length))) {
        r.skip = skip;
        r.skip_bias = bias;
        return vr_emit_rows(b, op, &r, op->info.inputs[0]);
    }
    if (sum == INLAY_NONE)
        sum = vr_temporary(b, x->dtype, x->rank, x->dims);
    add_up(b, op, bias, sum);
    return vr_emit_rows(b, op, &r, sum);
}

static bool skip_norm_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    (void)row;
    if (kit_output(node, 1) != NULL || kit_output(node, 2) != NULL)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "means as outputs");
    return true;
}

const vr_family vr_attention = { .supports = attention_supports, .lower = lower_attention };
const vr_family vr_skip_norm = {
    .supports = skip_norm_supports, .lower = lower_skip_norm, .several = true, .least_rank = 1
};
