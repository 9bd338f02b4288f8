/* Attention-23..25, without a past, and ai.inlay's Attention-1 (ops/inlay/attention.c). Where there are kernels for it,
 * in one piece (attend.c); otherwise two batched products with a softmax of our own between, which scales, masks and
 * normalises a row in one pass. */
#include "attention/score_loops.h"
#include "region/build.h"
#include "matrix/sgemm.h"
#include "simd/vecmath.h"
#include <math.h>

/* Is it certain that a size is neither the one of the scores nor 1? */
static bool differs(const inlay_dim *x, const inlay_dim *of)
{
    return x->kind == INLAY_DIM_FIXED && x->value != 1 && of->kind == INLAY_DIM_FIXED && x->value != of->value;
}

/* What only the run knows is checked then (check_mask). With fewer columns than keys a mask hides the others. */
static bool mask_fits(const inlay_value_info *mask, inlay_dtype dtype, const inlay_value_info *q,
                      const inlay_value_info *k, kit_refusal *why)
{
    const inlay_dim *scores[] = { &q->dims[0], &q->dims[1], &q->dims[2], &k->dims[2] };

    if (mask == NULL)
        return true;
    if (mask->dtype != dtype)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "use a float mask", "a mask is %s, not %s",
                          inlay_dtype_name(mask->dtype), inlay_dtype_name(dtype));
    if (!rg_known_rank(mask, 1, 4, "the mask", why))
        return false;
    for (uint32_t d = 0; d + 1 < mask->rank; d++)
        if (differs(&mask->dims[d], scores[4 - mask->rank + d]))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "axis %u of the mask is not that of the scores", d);
    return true;
}

/* May several query heads share one of keys and values? Only the loops of attend.c know how. */
static bool heads_fit(const inlay_value_info *q, const inlay_value_info *k, const inlay_value_info *v)
{
    const inlay_dim *many = &q->dims[1], *few = &k->dims[1];

    if (!rg_same_dim(few, &v->dims[1]))
        return false;
    return rg_same_dim(many, few) || (sg_kernel_best() != NULL && many->kind == INLAY_DIM_FIXED &&
                                      few->kind == INLAY_DIM_FIXED && few->value > 0 && many->value % few->value == 0);
}

static bool parse(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *in[5];

    for (uint32_t i = 0; i < 5; i++)
        in[i] = kit_input(node, i);
    for (uint32_t i = 0; i < 3; i++)
        if (!rg_known_rank(in[i], 4, 4, "queries, keys or values", why))
            return false;
        else if (in[i]->dtype != INLAY_FLOAT)
            return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float", "input %u is %s", i,
                              inlay_dtype_name(in[i]->dtype));
    op->attention.own = rg_takes_own(node);
    for (uint32_t i = 4; !op->attention.own && i < node->info->input_count; i++)
        if (kit_input(node, i) != NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "a past, or lengths of keys");
    if (!heads_fit(in[0], in[1], in[2]))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the heads of queries are no multiple of those of keys");
    if (kit_attr_float(node->info, "softcap", 0) != 0 || kit_attr_int(node->info, "left_window_size", -1) >= 0 ||
        kit_attr_int(node->info, "right_window_size", -1) >= 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "softcap or a window");
    op->attention.causal = kit_attr_int(node->info, op->attention.own ? "causal" : "is_causal", 0) != 0;
    op->attention.guarded = op->attention.own && kit_attr_int(node->info, "guarded", 0) != 0;
    op->alpha = (float)kit_attr_float(node->info, "scale", 0);
    return mask_fits(in[3], INLAY_FLOAT, in[0], in[1], why) &&
           (!op->attention.own || mask_fits(in[4], INLAY_BOOL, in[0], in[1], why));
}

/* ------------------------------------------------------------------ softmax */

struct rows {
    rg_native native;
    int64_t heads, queries, keys, count; /* count: of rows */
    rg_mask mask, hidden;
    int64_t reach; /* keys that the mask has columns for */
    float scale;
    sg_blank blank;
    bool causal;
};

struct call {
    const struct rows *r;
    float *scores;
    const float *mask;
    const uint8_t *hidden;
};

static inlay_status run_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *c = user;
    const struct rows *r = c->r;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t query = i % r->queries, head = i / r->queries % r->heads, batch = i / r->queries / r->heads;
        int64_t seen = r->causal && query + 1 < r->reach ? query + 1 : r->reach;
        if (c->hidden != NULL)
            KERNEL_BEST(score_loops)
                ->hide(c->scores + i * r->keys, c->hidden + rg_mask_at(&r->hidden, batch, head, query), r->hidden.step,
                       seen);
        KERNEL_BEST(score_loops)
            ->softmax_row(c->scores + i * r->keys,
                          c->mask != NULL ? c->mask + rg_mask_at(&r->mask, batch, head, query) : NULL, seen, r->scale,
                          r->blank);
        for (int64_t k = seen; k < r->keys; k++)
            c->scores[i * r->keys + k] = 0;
    }
    return INLAY_OK;
}

static inlay_status run_rows(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct rows *r = (const struct rows *)(const void *)native;
    struct call c = { r, args[0], r->mask.there ? args[1] : NULL, r->hidden.there ? args[1 + r->mask.there] : NULL };
    int64_t grain = 16384 / (r->keys > 0 ? r->keys : 1) + 1;

    if (threads <= 1 || r->count <= grain)
        return run_some(&c, 0, r->count, 0);
    return state->host->parallel_for(state->host->ctx, run, r->count, grain, run_some, &c);
}

static inlay_status emit_softmax(rg_build *b, const rg_place *scores)
{
    const rg_op *op = b->op;
    const int64_t *q = b->dims[op->in[0]], *k = b->dims[op->in[1]];
    const rg_place *places[3] = { scores, NULL, NULL };
    inlay_status status = INLAY_OK;
    uint32_t count = 1;
    rg_place mask, hidden;
    struct rows r;

    r = (struct rows){ .native.run = run_rows,
                       .heads = q[1],
                       .queries = q[2],
                       .keys = k[2],
                       .count = q[0] * q[1] * q[2],
                       .scale = op->alpha != 0 ? op->alpha : 1 / sqrtf((float)q[3]),
                       .blank = rg_blank(op),
                       .causal = op->attention.causal && !op->attention.own, /* otherwise it stands in the bias, too */
                       .reach = rg_mask_reach(b) };
    INLAY_TRY(rg_read_mask(b, 3, &r.mask, &mask));
    INLAY_TRY(rg_read_mask(b, 4, &r.hidden, &hidden));
    if (r.mask.there)
        places[count++] = &mask;
    if (r.hidden.there)
        places[count++] = &hidden;
    status = rg_emit_step(b, &r.native, sizeof r, places, count);
done:
    return status;
}

/* ------------------------------------------------------------------ lowering */

static inlay_status check_mask(const rg_build *b, uint32_t input)
{
    const rg_op *op = b->op;
    const int64_t *q = b->dims[op->in[0]], of[] = { q[0], q[1], q[2], b->dims[op->in[1]][2] };
    uint32_t mask = input < op->in_count ? op->in[input] : INLAY_NONE, rank = mask == INLAY_NONE ? 0 : b->ranks[mask];

    for (uint32_t d = 0; d < rank; d++) {
        int64_t size = b->dims[mask][d], want = of[4 - rank + d];
        bool last = d + 1 == rank;

        if (last && !op->attention.own ? size > want : size != want && (size != 1 || (last && input == 3)))
            return inlay_fail(b->diag, INLAY_SHAPE_MISMATCH,
                              "node '%s': dim %u of the mask is %lld, where the scores have %lld", op->name, d,
                              (long long)size, (long long)want);
    }
    return INLAY_OK;
}

static inlay_status lower(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    const int64_t *q = b->dims[op->in[0]], *k = b->dims[op->in[1]];
    const int64_t score_dims[] = { q[0], q[1], q[2], k[2] };
    rg_place queries, keys, values, scores, y;
    inlay_status status;
    rg_md md;

    INLAY_TRY(check_mask(b, 3));
    INLAY_TRY(check_mask(b, 4));
    if (b->state->attend != NULL || k[1] != q[1])
        return rg_lower_attend(b, group, sg_kernel_best());
    INLAY_TRY(rg_read_matrix(b, op->in[0], 4, false, &queries));
    INLAY_TRY(rg_read_matrix(b, op->in[1], 4, true, &keys));
    INLAY_TRY(rg_read_matrix(b, op->in[2], 4, false, &values));
    rg_md_plain(&md, 4, score_dims);
    INLAY_TRY(rg_new_place(b, &md, &scores));
    INLAY_TRY(rg_emit_cut_matrices(b, &queries, &keys, &scores));
    INLAY_TRY(emit_softmax(b, &scores));
    rg_md_plain(&md, 4, b->dims[group->out]);
    INLAY_TRY(rg_result_place(b, group->out, &md, &y));
    INLAY_TRY(rg_emit_cut_matrices(b, &scores, &values, &y));
    status = rg_set_place(b, group->out, &y);
done:
    return status;
}

const rg_family rg_attention = { "attention", parse, lower };
