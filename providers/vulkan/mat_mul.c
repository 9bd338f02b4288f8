/* MatMul and Gemm. */
#include "region.h"

/* ------------------------------------------------------------------ MatMul */

/* Strides of an operand over the result's batch dimensions; 0 where it is broadcast. */
static void batch_strides(const vr_build *b, uint32_t value, uint32_t rank, int64_t *out)
{
    const vr_tensor *t = &b->tensors[value];
    const uint32_t own = t->rank > 2 ? t->rank - 2 : 0;
    int64_t strides[VR_RANK];

    vr_strides(b, value, strides);
    for (uint32_t d = 0; d < rank; d++)
        out[d] = 0;
    for (uint32_t d = 0; d < own && d < rank; d++)
        if (t->dims[d] != 1)
            out[rank - own + d] = strides[d];
}

/* The product of two values, whose result lies by out_strides. false: more than three batches. */
static bool set_mat_mul(const vr_build *b, const vr_op *op, const int64_t *out_strides, vr_product *x)
{
    const uint32_t a_value = op->info.inputs[0], b_value = op->info.inputs[1];
    const vr_tensor *a = vr_in(b, op, 0), *other = vr_in(b, op, 1), *y = vr_out(b, op, 0);
    const uint32_t rank = y->rank + (a->rank == 1) + (other->rank == 1) - 2;
    int64_t sa[VR_RANK], sb[VR_RANK], so[VR_RANK];

    vr_strides(b, a_value, sa);
    vr_strides(b, b_value, sb);
    x->a_step = sa[a->rank - 1];
    x->a_row = a->rank > 1 ? sa[a->rank - 2] : 0;
    x->b_step = sb[other->rank > 1 ? other->rank - 2 : 0];
    x->b_column = other->rank > 1 ? sb[other->rank - 1] : 1;
    x->out_column = other->rank > 1 ? out_strides[y->rank - 1] : 1;
    x->out_row = a->rank > 1 ? out_strides[y->rank - 1 - (other->rank > 1)] : 0;
    memcpy(so, out_strides, sizeof so);
    batch_strides(b, a_value, rank, sa);
    batch_strides(b, b_value, rank, sb);
    if (!vr_merge_batches(rank, y->dims, 3, (int64_t *const[]){ sa, sb, so }, x->batch,
                          (int64_t *const[]){ x->a_batch, x->b_batch, x->out_batch }))
        return false;
    if (x->batch[1] == 1 && x->b_batch[2] == 0 && x->a_batch[2] == x->line * x->a_row &&
        x->out_batch[2] == x->line * x->out_row) { /* the same matrix for all: more rows */
        x->line *= x->batch[2];
        x->batch[2] = 1;
    }
    return true;
}

/* The same operations on tensors of the same form? */
static bool is_like(const vr_build *b, const vr_program *p, const vr_program *q)
{
    bool like = p->slot_count == q->slot_count && p->load_count == q->load_count &&
                p->number_count == q->number_count && p->rank == q->rank &&
                memcmp(p->slots, q->slots, p->slot_count * sizeof p->slots[0]) == 0 &&
                memcmp(p->numbers, q->numbers, p->number_count * sizeof p->numbers[0]) == 0 &&
                memcmp(p->dims, q->dims, p->rank * sizeof p->dims[0]) == 0 &&
                b->tensors[p->result].dtype == b->tensors[q->result].dtype;

    for (uint32_t k = 0; k < p->load_count && like; k++)
        like = memcmp(p->loads[k].strides, q->loads[k].strides, p->rank * sizeof(int64_t)) == 0 &&
               b->tensors[p->loads[k].value].dtype == b->tensors[q->loads[k].value].dtype;
    return like;
}

/* Products that read the same A, as those of queries, keys and values do: with what is fused behind them they become
 * batches of one dispatch. programs: room for what is behind each. */
static void find_siblings(vr_build *b, const vr_op *op, vr_product *x, const vr_program *p, vr_program *programs)
{
    const vr_tensor *w = vr_in(b, op, 1);

    if (vr_panels_of(b, op) == NULL || (p->load_count + 1) * (VR_SIBLINGS + 1) > MOST_INPUTS + 1 ||
        x->batch[0] * x->batch[1] * x->batch[2] != 1)
        return;
    for (uint32_t i = vr_number_of(b, op) + 1; i < b->c->op_count && x->sibling_count < VR_SIBLINGS; i++) {
        const vr_op *other = &b->c->ops[i];
        vr_program *q = &programs[x->sibling_count];

        if (b->done[i] || other->row->family != &vr_mat_mul || other->info.inputs[0] != op->info.inputs[0] ||
            vr_panels_of(b, other) == NULL || memcmp(vr_in(b, other, 1)->dims, w->dims, 2 * sizeof(int64_t)) != 0 ||
            vr_in(b, other, 1)->dtype != w->dtype)
            continue;
        memcpy(b->done_before, b->done, b->c->op_count * sizeof *b->done);
        vr_program_start(b, q, other->info.outputs[0], VR_SINGLE);
        b->done[i] = true;
        vr_grow(b, other, q);
        if (!is_like(b, p, q)) {
            memcpy(b->done, b->done_before, b->c->op_count * sizeof *b->done);
            continue;
        }
        x->siblings[x->sibling_count].b = vr_constant_place(b, vr_panels_of(b, other));
        x->siblings[x->sibling_count++].p = q;
    }
    x->batch[0] += x->sibling_count;
}

static inlay_status lower_mat_mul(vr_build *b, const vr_op *op)
{
    const vr_tensor *a = vr_in(b, op, 0), *other = vr_in(b, op, 1);
    vr_product x = vr_product_of(a->rank == 1 ? 1 : a->dims[a->rank - 2], a->dims[a->rank - 1],
                                 other->rank == 1 ? 1 : other->dims[other->rank - 1]);
    int64_t strides[VR_RANK];
    vr_program p, others[VR_SIBLINGS];

    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    vr_grow(b, op, &p);
    if (vr_try_attend(b, op, &x, &p))
        return b->status;
    p.has_columns = other->rank > 1;
    p.columns = p.rank - 1;
    vr_follow_transpose(b, &p, strides);
    if (!set_mat_mul(b, op, strides, &x))
        return vr_decline(b, op, "its batches do not lie behind each other");
    find_siblings(b, op, &x, &p, others);
    return vr_finish_product(b, op, op->info.inputs[0], &x, &p);
}

/* ------------------------------------------------------------------ Gemm */

static inlay_status lower_gemm(vr_build *b, const vr_op *op)
{
    const vr_tensor *a = vr_in(b, op, 0), *other = vr_in(b, op, 1);
    const bool trans_a = kit_attr_int(&op->info, "transA", 0) != 0, trans_b = kit_attr_int(&op->info, "transB", 0) != 0;
    const double beta = kit_attr_float(&op->info, "beta", 1);
    vr_product x = vr_product_of(a->dims[trans_a], a->dims[!trans_a], other->dims[!trans_b]);
    vr_program p;

    x.alpha = (float)kit_attr_float(&op->info, "alpha", 1);
    x.a_row = trans_a ? 1 : x.k;
    x.a_step = trans_a ? x.line : 1;
    x.b_step = trans_b ? 1 : x.n;
    x.b_column = trans_b ? x.k : 1;
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    if (vr_in(b, op, 2) != NULL && beta != 0) {
        uint32_t c = vr_load_value(b, &p, op->info.inputs[2]);

        if (beta != 1)
            c = vr_slot(&p, OP_MUL, c, vr_number(&p, beta), 0);
        (void)vr_slot(&p, OP_ADD, REG_ACC, c, 0);
    }
    vr_grow(b, op, &p);
    p.has_columns = true;
    p.columns = 1;
    return vr_finish_product(b, op, op->info.inputs[0], &x, &p);
}

static bool mat_mul_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    (void)row;
    return kit_input(node, 1)->rank > 0 || kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "a scalar is no matrix");
}

const vr_family vr_mat_mul = { .supports = mat_mul_supports, .lower = lower_mat_mul, .least_rank = 1 };
const vr_family vr_gemm = { .lower = lower_gemm };
