/* Attention-23..25, without a past. Where there are kernels for it, in one piece (attend.c); otherwise two batched
 * products with a softmax of our own between, which scales, masks and normalises a row in one pass. */
#include "build.h"
#include "sgemm.h"
#include "vecmath.h"
#include <math.h>

/* Is it certain that a size is neither the one of the scores nor 1? */
static bool differs(const inlay_dim *x, const inlay_dim *of)
{
    return x->kind == INLAY_DIM_FIXED && x->value != 1 && of->kind == INLAY_DIM_FIXED && x->value != of->value;
}

/* What only the run knows is checked then (check_mask). With fewer columns than keys a mask hides the others. */
static bool mask_fits(const inlay_value_info *mask, const inlay_value_info *q, const inlay_value_info *k,
                      kit_refusal *why)
{
    const inlay_dim *scores[] = { &q->dims[0], &q->dims[1], &q->dims[2], &k->dims[2] };

    if (mask == NULL)
        return true;
    if (mask->dtype != INLAY_FLOAT)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "use a float mask", "the mask is not float");
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
    const inlay_value_info *in[4];

    for (uint32_t i = 0; i < 4; i++)
        in[i] = kit_input(node, i);
    for (uint32_t i = 0; i < 3; i++)
        if (!rg_known_rank(in[i], 4, 4, "queries, keys or values", why))
            return false;
    for (uint32_t i = 4; i < node->info->input_count; i++)
        if (kit_input(node, i) != NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "a past, or lengths of keys");
    if (!heads_fit(in[0], in[1], in[2]))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the heads of queries are no multiple of those of keys");
    if (kit_attr_float(node->info, "softcap", 0) != 0 || kit_attr_int(node->info, "left_window_size", -1) >= 0 ||
        kit_attr_int(node->info, "right_window_size", -1) >= 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "softcap or a window");
    op->global = kit_attr_int(node->info, "is_causal", 0) != 0;
    op->alpha = (float)kit_attr_float(node->info, "scale", 0);
    return mask_fits(in[3], in[0], in[1], why);
}

/* ------------------------------------------------------------------ softmax */

typedef struct rows {
    rg_native native;
    int64_t heads, queries, keys, count;       /* count: of rows */
    int64_t mask_batch, mask_head, mask_query; /* elements */
    int64_t reach;                             /* keys that the mask has columns for */
    float scale;
    bool masked, causal;
} rows;

typedef struct call {
    const rows *r;
    float *scores;
    const float *mask;
} call;

/* A row that sees nothing becomes zeros. */
KIT_MULTIVERSION static void one_row(float *restrict x, const float *restrict mask, int64_t n, float scale)
{
    float top = -INFINITY, sum = 0;

    if (mask != NULL)
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] * scale + mask[i];
    else
        for (int64_t i = 0; i < n; i++)
            x[i] *= scale;
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    if (top == -INFINITY) /* also NaN everywhere, which stays */
        top = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        x[i] = vm_exp(x[i] - top);
        sum += x[i];
    }
    sum = sum > 0 ? 1 / sum : sum == 0 ? 0 : sum;
    for (int64_t i = 0; i < n; i++)
        x[i] *= sum;
}

static inlay_status run_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const call *c = user;
    const rows *r = c->r;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t query = i % r->queries, head = i / r->queries % r->heads, batch = i / r->queries / r->heads;
        int64_t seen = r->causal && query + 1 < r->reach ? query + 1 : r->reach;
        const float *mask =
            !r->masked ? NULL : c->mask + batch * r->mask_batch + head * r->mask_head + query * r->mask_query;

        one_row(c->scores + i * r->keys, mask, seen, r->scale);
        for (int64_t k = seen; k < r->keys; k++)
            c->scores[i * r->keys + k] = 0;
    }
    return INLAY_OK;
}

static inlay_status run_rows(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const rows *r = (const rows *)(const void *)native;
    call c = { r, args[0], r->masked ? args[1] : NULL };
    int64_t grain = 16384 / (r->keys > 0 ? r->keys : 1) + 1;

    if (threads <= 1 || r->count <= grain)
        return run_some(&c, 0, r->count, 0);
    return state->host->parallel_for(state->host->ctx, run, r->count, grain, run_some, &c);
}

int64_t rg_mask_reach(const rg_build *b)
{
    const rg_op *op = b->op;
    const int64_t keys = b->dims[op->in[1]][2];
    int64_t columns;

    if (op->in_count < 4 || op->in[3] == INLAY_NONE)
        return keys;
    columns = b->dims[op->in[3]][b->ranks[op->in[3]] - 1];
    return columns < keys ? columns : keys;
}

static inlay_status emit_softmax(rg_build *b, const rg_place *scores)
{
    const rg_op *op = b->op;
    const int64_t *q = b->dims[op->in[0]], *k = b->dims[op->in[1]];
    bool masked = op->in_count > 3 && op->in[3] != INLAY_NONE;
    const rg_place *places[2] = { scores, NULL };
    inlay_status status = INLAY_OK;
    rg_place mask;
    rows r;

    if (masked) {
        INLAY_TRY(rg_read_plain(b, op->in[3], &mask));
        places[1] = &mask;
    }
    r = (rows){ .native.run = run_rows,
                .heads = q[1],
                .queries = q[2],
                .keys = k[2],
                .count = q[0] * q[1] * q[2],
                .scale = op->alpha != 0 ? op->alpha : 1 / sqrtf((float)q[3]),
                .masked = masked,
                .causal = op->global,
                .reach = rg_mask_reach(b) };
    if (masked) {
        const int64_t *m = b->dims[op->in[3]];
        uint32_t rank = b->ranks[op->in[3]];
        int64_t stride = m[rank - 1], *const steps[] = { &r.mask_query, &r.mask_head, &r.mask_batch };

        for (uint32_t d = 2; d <= rank && d <= 4; d++) {
            *steps[d - 2] = m[rank - d] == 1 ? 0 : stride;
            stride *= m[rank - d];
        }
    }
    status = rg_emit_step(b, &r.native, sizeof r, places, masked ? 2 : 1);
done:
    return status;
}

/* ------------------------------------------------------------------ lowering */

static inlay_status check_mask(const rg_build *b)
{
    const rg_op *op = b->op;
    const int64_t *q = b->dims[op->in[0]], of[] = { q[0], q[1], q[2], b->dims[op->in[1]][2] };
    uint32_t mask = op->in_count > 3 ? op->in[3] : INLAY_NONE, rank = mask == INLAY_NONE ? 0 : b->ranks[mask];

    for (uint32_t d = 0; d < rank; d++) {
        int64_t size = b->dims[mask][d], want = of[4 - rank + d];

        if (d + 1 == rank ? size > want : size != 1 && size != want)
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

    INLAY_TRY(check_mask(b));
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
