/* What is short for several dispatches: Attention, and normalisations behind a residual. */
#include "region.h"
#include <math.h>

/* ------------------------------------------------------------------ Attention: two products and a softmax between */

typedef struct attention {
    const vr_tensor *q, *k, *v;
    int64_t batch, heads, shared, queries, keys, depth, width; /* shared: heads of keys and values */
} attention;

static vr_product product_of(const attention *a)
{
    return (vr_product){ .taps = 1,
                         .alpha = 1,
                         .a_type = INLAY_FLOAT,
                         .b_type = INLAY_FLOAT,
                         .batch = { a->batch, a->shared, a->heads / a->shared },
                         .m = a->queries };
}

/* Batches of a tensor [batch, heads, rows, columns] whose heads are those of queries, or shared ones. */
static void set_strides(const attention *a, int64_t *strides, int64_t matrix, bool shared)
{
    const int64_t heads = shared ? a->shared : a->heads;

    strides[0] = heads * matrix;
    strides[1] = shared ? matrix : a->heads / a->shared * matrix;
    strides[2] = shared ? 0 : matrix;
}

static uint64_t bytes_of(const vr_tensor *t)
{
    return (uint64_t)t->count * sizeof(float);
}

/* scores = scale * Q * K^T + mask */
static inlay_status score(vr_build *b, const vr_op *op, const attention *a, uint32_t scores)
{
    const double scale = kit_attr_float(&op->info, "scale", 0);
    const bool causal = kit_attr_int(&op->info, "is_causal", 0) != 0;
    vr_product x = product_of(a);
    vr_program p;
    inlay_status status = INLAY_OK;

    x.n = a->keys;
    x.k = x.a_row = x.b_step = a->depth;
    x.a_step = x.b_row = 1;
    x.alpha = (float)(scale != 0 ? scale : 1 / sqrt((double)a->depth));
    x.a = b->places[op->info.inputs[0]];
    x.b = b->places[op->info.inputs[1]];
    x.a_bytes = bytes_of(a->q);
    x.b_bytes = bytes_of(a->k);
    set_strides(a, x.a_batch, a->queries * a->depth, false);
    set_strides(a, x.b_batch, a->keys * a->depth, true);
    vr_program_start(b, &p, scores, VR_SINGLE);
    if (vr_in(b, op, 3) != NULL)
        (void)vr_slot(&p, OP_ADD, REG_ACC, vr_load_value(b, &p, op->info.inputs[3]), 0);
    if (causal) {
        const uint32_t triangle = vr_temporary(b, INLAY_FLOAT, 2, (const int64_t[]){ a->queries, a->keys });

        status = vr_emit_causal(b, triangle);
        (void)vr_slot(&p, OP_ADD, p.slot_count > 0 ? REG_SLOT : REG_ACC, vr_load_value(b, &p, triangle), 0);
    }
    if (p.full)
        return vr_decline(b, op, "its mask is not that of the scores");
    return status == INLAY_OK ? vr_emit_product(b, &x, &p) : status;
}

static inlay_status lower_attention(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    attention a = { .q = vr_in(b, op, 0), .k = vr_in(b, op, 1), .v = vr_in(b, op, 2) };
    const vr_rows soft = { .kind = ROW_ATTENTION,
                           .count = a.q->dims[0] * a.q->dims[1] * a.q->dims[2],
                           .length = a.k->dims[2],
                           .inner = 1,
                           .scale = INLAY_NONE,
                           .bias = INLAY_NONE,
                           .mean = INLAY_NONE,
                           .deviation = INLAY_NONE };
    uint32_t scores, shares;
    vr_product x;
    vr_program p;
    inlay_status status;

    a.batch = a.q->dims[0], a.heads = a.q->dims[1], a.queries = a.q->dims[2], a.depth = a.q->dims[3];
    a.shared = a.k->dims[1], a.keys = a.k->dims[2], a.width = a.v->dims[3];
    if (a.shared == 0 || a.heads % a.shared != 0 || a.v->dims[1] != a.shared || a.keys == 0)
        return vr_decline(b, op, "the heads of queries are no multiple of those of keys");
    scores = vr_temporary(b, INLAY_FLOAT, 4, (const int64_t[]){ a.batch, a.heads, a.queries, a.keys });
    shares = vr_temporary(b, INLAY_FLOAT, 4, (const int64_t[]){ a.batch, a.heads, a.queries, a.keys });
    status = score(b, op, &a, scores);
    if (status == INLAY_OK)
        status = vr_emit_rows(b, o, &soft, scores, shares);
    if (status != INLAY_OK)
        return status;
    x = product_of(&a);
    x.n = x.b_row = a.width;
    x.k = x.a_row = a.keys;
    x.a_step = x.b_step = 1;
    x.a = b->places[shares];
    x.b = b->places[op->info.inputs[2]];
    x.a_bytes = bytes_of(&b->tensors[shares]);
    x.b_bytes = bytes_of(a.v);
    set_strides(&a, x.a_batch, a.queries * a.keys, false);
    set_strides(&a, x.b_batch, a.keys * a.width, true);
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    status = vr_grow(b, o, &p);
    return status == INLAY_OK ? vr_emit_product(b, &x, &p) : status;
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

static inlay_status lower_skip_norm(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
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
