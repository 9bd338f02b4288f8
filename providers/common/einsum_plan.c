/* einsum_plan.c - the steps of an Einsum: which labels a pair of terms shares, keeps and sums, and where it is put. */
#include "einsum.h"
#include "products.h"
#include <stdlib.h>
#include <string.h>

/* The labels of a term with its ellipsis spelt out; e is that ellipsis's rank, most that of the longest, which gives
 * the trailing labels to the shorter ones. Returns their number, at most INLAY_MAX_RANK. */
static uint32_t expand_labels(const struct term *t, uint32_t e, uint32_t most, uint8_t *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->count; i++) {
        if (t->labels[i] != ELLIPSIS) {
            if (n < INLAY_MAX_RANK)
                out[n++] = t->labels[i];
            continue;
        }
        for (uint32_t j = 0; j < e && n < INLAY_MAX_RANK; j++)
            out[n++] = (uint8_t)(LETTERS + most - e + j);
    }
    return n;
}

static inlay_status view_input(const einsum_state *s, const kit_plan *plan, uint32_t i, uint32_t most, einsum_plan *p,
                               struct view *v, inlay_diag *diag)
{
    const kit_tensor *t = &plan->in[i];
    uint32_t named = s->terms[i].count - s->terms[i].ellipsis, n;
    uint8_t labels[INLAY_MAX_RANK];
    int64_t step = 1;

    n = expand_labels(&s->terms[i], t->rank - named, most, labels);
    if (n != t->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %u has rank %u, its term of the equation %u", i, t->rank,
                          n);
    *v = (struct view){ .input = i };
    for (uint32_t d = n; d-- > 0; step *= t->dims[d]) {
        uint8_t label = labels[d];
        if (t->dims[d] != 1 && p->size[label] != 1 && p->size[label] != t->dims[d])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "dimension %u of input %u is %lld; elsewhere that label has %lld", d, i,
                              (long long)t->dims[d], (long long)p->size[label]);
        if (t->dims[d] != 1)
            p->size[label] = t->dims[d];
        v->has[label] = true;
        v->stride[label] += t->dims[d] == 1 ? 0 : step;
    }
    return INLAY_OK;
}

/* The offsets of all index combinations of the labels, the last running fastest. NULL: too many. */
static int64_t *tabulate(einsum_plan *p, const uint8_t *labels, uint32_t count, const int64_t *stride, int64_t total)
{
    int64_t *out = p->tables == NULL ? NULL : p->tables + p->table_used;

    p->table_used += total;
    if (p->tables == NULL)
        return NULL;
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, at = 0;
        for (uint32_t l = count; l-- > 0; rest /= p->size[labels[l]])
            at += rest % p->size[labels[l]] * stride[labels[l]];
        out[i] = at;
    }
    return out;
}

/* Product of sizes; false on overflow. */
static bool count_of(const einsum_plan *p, const uint8_t *labels, uint32_t count, int64_t *out)
{
    *out = 1;
    for (uint32_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(*out, p->size[labels[i]], out))
            return false;
    return *out <= INT64_C(1) << 40;
}

/* The step between neighbours when the labels' offsets grow evenly. */
static bool is_even(const einsum_plan *p, const uint8_t *labels, uint32_t count, const int64_t *stride, int64_t *out)
{
    int64_t step = 0, block = 1;

    for (uint32_t l = count; l-- > 0;) {
        if (p->size[labels[l]] == 1)
            continue;
        if (block == 1)
            step = stride[labels[l]];
        else if (stride[labels[l]] != step * block)
            return false;
        block *= p->size[labels[l]];
    }
    *out = step;
    return true;
}

/* Packs a matrix that only tables describe; user: the tables of lines and of k. */
struct uneven {
    const int64_t *lines, *k;
};
#define PACK_UNEVEN(T, name)                                                                                           \
    static void name(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0, int64_t k1,  \
                     uint32_t width, void *out)                                                                        \
    {                                                                                                                  \
        const struct uneven *u = self->user;                                                                           \
        const T *from = (const T *)self->data + gemm_which(self, batch);                                               \
        T *to = out;                                                                                                   \
        for (int64_t l0 = line; l0 < line_end; l0 += width)                                                            \
            for (int64_t k = k0; k < k1; k++)                                                                          \
                for (int64_t l = l0; l < l0 + width; l++)                                                              \
                    *to++ = l < line_end ? from[u->lines[l] + u->k[k]] : 0;                                            \
    }
PACK_UNEVEN(uint32_t, pack_uneven_32)
PACK_UNEVEN(uint64_t, pack_uneven_64)

typedef struct label_sets {
    uint8_t batch[LABELS], row[LABELS], column[LABELS], sum[LABELS], order[LABELS];
    uint32_t batches, rows, columns, sums, ordered;
} label_sets;

/* An operand of a product: even strides where possible, tables otherwise. extra: room for an `uneven` in the plan. */
static void set_operand(einsum_plan *p, gemm_operand *o, const struct view *v, const uint8_t *lines,
                        uint32_t line_count, int64_t line_total, const label_sets *sets, int64_t k, bool is_b)
{
    int64_t batch;

    (void)count_of(p, sets->batch, sets->batches, &batch);
    o->matrix_stride = 1;
    o->which = tabulate(p, sets->batch, sets->batches, v->stride, batch);
    o->pack = gemm_strided_pack(p->type, p->dtype);
    if (is_even(p, lines, line_count, v->stride, &o->line_stride) &&
        is_even(p, sets->sum, sets->sums, v->stride, &o->k_stride)) {
        o->in_place = is_b && (o->line_stride == 1 || line_total == 1);
        return;
    }
    o->pack = p->dtype == INLAY_DOUBLE || p->type == GEMM_U64 ? pack_uneven_64 : pack_uneven_32;
    int64_t *ln = tabulate(p, lines, line_count, v->stride, line_total);
    int64_t *ks = tabulate(p, sets->sum, sets->sums, v->stride, k);
    int64_t *room = p->tables == NULL ? NULL : p->tables + p->table_used;
    p->table_used += (int64_t)(sizeof(struct uneven) / sizeof(int64_t));
    if (room != NULL) {
        struct uneven u = { ln, ks };
        memcpy(room, &u, sizeof u);
        o->user = room;
    }
}

/* Does the result hold batch, row and column labels in this order, densely? */
static bool in_order(const einsum_plan *p, const label_sets *s, const int64_t *stride)
{
    uint8_t all[LABELS];
    int64_t step;

    memcpy(all, s->batch, s->batches);
    memcpy(all + s->batches, s->row, s->rows);
    memcpy(all + s->batches + s->rows, s->column, s->columns);
    return is_even(p, all, s->batches + s->rows + s->columns, stride, &step) && step <= 1;
}

static void plan_product(einsum_plan *p, struct contraction *st, label_sets *sets, uint32_t threads)
{
    gemm_job *job = &st->job;

    *job = (gemm_job){ .kernel = p->kernel };
    (void)count_of(p, sets->batch, sets->batches, &job->batch);
    (void)count_of(p, sets->row, sets->rows, &job->m);
    (void)count_of(p, sets->column, sets->columns, &job->n);
    (void)count_of(p, sets->sum, sets->sums, &job->k);
    set_operand(p, &job->a, &st->left, sets->row, sets->rows, job->m, sets, job->k, false);
    set_operand(p, &job->b, &st->right, sets->column, sets->columns, job->n, sets, job->k, true);
    job->c_stride = job->n;
    job->c_batch_stride = job->m * job->n;
    if (!in_order(p, sets, st->result.stride)) {
        job->c_in_workspace = true;
        st->row_at = tabulate(p, sets->row, sets->rows, st->result.stride, job->m);
        st->column_at = tabulate(p, sets->column, sets->columns, st->result.stride, job->n);
        st->batch_at = tabulate(p, sets->batch, sets->batches, st->result.stride, job->batch);
    }
    gemm_plan(job, threads);
}

static void plan_loops(einsum_plan *p, struct contraction *st, const label_sets *sets)
{
    struct loops *l = &st->l;

    *l = (struct loops){ .outer = 1, .inner = 1 };
    for (uint32_t i = 0; i < sets->ordered; i++) {
        uint8_t label = sets->order[i];
        if (i + 1 == sets->ordered) {
            l->inner = p->size[label];
            l->a_inner = st->left.stride[label];
            l->b_inner = st->single ? 0 : st->right.stride[label];
            break;
        }
        l->dims[l->rank] = p->size[label];
        l->a[l->rank] = st->left.stride[label];
        l->b[l->rank] = st->single ? 0 : st->right.stride[label];
        l->outer *= p->size[label];
        l->rank++;
    }
    (void)count_of(p, sets->sum, sets->sums, &l->sums);
    l->a_sum = tabulate(p, sets->sum, sets->sums, st->left.stride, l->sums);
}

/* Sorts the labels of a pair (or one term): what the result keeps in which operand, what is summed. */
static void sort_labels(const einsum_plan *p, const struct contraction *st, const uint8_t *order, uint32_t ordered,
                        label_sets *sets)
{
    *sets = (label_sets){ .ordered = ordered };
    memcpy(sets->order, order, ordered);
    for (uint32_t i = 0; i < ordered; i++) {
        uint8_t l = order[i];
        bool a = st->left.has[l] && (st->left.stride[l] != 0 || p->size[l] == 1);
        bool b = !st->single && st->right.has[l] && (st->right.stride[l] != 0 || p->size[l] == 1);
        if (a == b)
            sets->batch[sets->batches++] = l;
        else if (a)
            sets->row[sets->rows++] = l;
        else
            sets->column[sets->columns++] = l;
    }
    for (uint32_t l = 0; l < LABELS; l++)
        if ((st->left.has[l] || (!st->single && st->right.has[l])) && memchr(order, (int)l, ordered) == NULL)
            sets->sum[sets->sums++] = (uint8_t)l;
}

static bool set_result(einsum_plan *p, struct view *result, const uint8_t *order, uint32_t ordered, int64_t *count)
{
    int64_t stride = 1;

    for (uint32_t i = ordered; i-- > 0;) {
        result->has[order[i]] = true;
        result->stride[order[i]] = stride;
        if (__builtin_mul_overflow(stride, p->size[order[i]], &stride) || stride > INT64_C(1) << 40)
            return false;
    }
    *count = stride;
    return true;
}

/* What planning carries from step to step. */
struct planning {
    const einsum_state *s;
    const kit_plan *plan;
    einsum_plan *p;
    struct view views[MAX_TERMS];
    uint8_t order[INLAY_MAX_RANK]; /* labels of the output */
    uint32_t ordered, bytes;       /* bytes of an element that is computed in */
    uint64_t workspace, gemm;      /* bytes: intermediates and copies so far, and the most that a product needs */
};

/* Bytes of count elements in the workspace, where each tensor starts a cache line. */
static uint64_t room_for(const struct planning *w, int64_t count)
{
    return ((uint64_t)count * w->bytes + 63) & ~UINT64_C(63);
}

/* The rank of the longest ellipsis. */
static inlay_status longest_ellipsis(const struct planning *w, uint32_t *out_rank, inlay_diag *diag)
{
    *out_rank = 0;
    for (uint32_t i = 0; i < w->s->term_count; i++) {
        const struct term *t = &w->s->terms[i];
        uint32_t named = t->count - t->ellipsis, rank = w->plan->in[i].rank;

        if (rank < named || (rank > named && !t->ellipsis))
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %u has rank %u, its term of the equation %u", i, rank,
                              named);
        *out_rank = rank - named > *out_rank ? rank - named : *out_rank;
    }
    return INLAY_OK;
}

/* The labels that step i keeps: after the last one those of the output, in its order; before it those that the output
 * or a later term still names. */
static uint32_t kept_labels(const struct planning *w, uint32_t i, const struct contraction *st, uint8_t *kept)
{
    uint32_t count = 0;

    if (i + 1 == w->p->step_count) {
        memcpy(kept, w->order, w->ordered);
        return w->ordered;
    }
    for (uint32_t l = 0; l < LABELS; l++) {
        bool needed = memchr(w->order, (int)l, w->ordered) != NULL;

        for (uint32_t j = i + 2; j < w->s->term_count; j++)
            needed |= w->views[j].has[l];
        if (needed && (st->left.has[l] || st->right.has[l]))
            kept[count++] = (uint8_t)l;
    }
    return count;
}

static inlay_status plan_step(struct planning *w, uint32_t i, inlay_diag *diag)
{
    einsum_plan *p = w->p;
    struct contraction *st = &p->steps[i];
    const bool final = i + 1 == p->step_count;
    uint8_t kept[LABELS];
    uint32_t kept_count;
    label_sets sets;
    int64_t count, total;
    uint64_t need;

    *st =
        (struct contraction){ .left = i == 0 ? w->views[0] : p->steps[i - 1].result, .single = w->s->term_count == 1 };
    if (!st->single)
        st->right = w->views[i + 1];
    kept_count = kept_labels(w, i, st, kept);
    st->result = (struct view){ .in_workspace = !final, .at = w->workspace };
    sort_labels(p, st, kept, kept_count, &sets);
    if (!set_result(p, &st->result, kept, kept_count, &count) || !count_of(p, sets.sum, sets.sums, &total) ||
        total > INT32_MAX || p->table_used > INT32_MAX)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "step %u of the equation is too large", i + 1);
    if (!final)
        w->workspace += room_for(w, count);
    else if (count != w->plan->out[0].count)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the output has %lld elements, not %lld",
                          (long long)w->plan->out[0].count, (long long)count);
    st->product = !st->single && total > 1;
    if (!st->product) {
        plan_loops(p, st, &sets);
        return INLAY_OK;
    }
    /* Rows and columns may change places: whichever lets the product write where the result belongs. */
    if (sets.rows > 0 && sets.columns > 0 && !in_order(p, &sets, st->result.stride)) {
        struct view left = st->left;
        st->left = st->right;
        st->right = left;
        sort_labels(p, st, kept, kept_count, &sets);
    }
    plan_product(p, st, &sets, w->plan->max_threads);
    if (!gemm_workspace(&st->job, w->plan->max_threads, &need))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "step %u of the equation is too large", i + 1);
    w->gemm = need > w->gemm ? need : w->gemm;
    return INLAY_OK;
}

/* Plans all steps; run twice, first to count the tables. The workspace holds intermediates, copies, then the
 * product's. */
static inlay_status plan_steps(const einsum_state *s, const kit_plan *plan, einsum_plan *p, uint64_t *out_workspace,
                               inlay_diag *diag)
{
    struct planning w = { .s = s, .plan = plan, .p = p, .bytes = inlay_dtype_bits(p->dtype) / 8 };
    uint32_t most;
    inlay_status status;

    p->table_used = 0;
    for (uint32_t i = 0; i < LABELS; i++)
        p->size[i] = 1;
    INLAY_TRY(longest_ellipsis(&w, &most, diag));
    for (uint32_t i = 0; i < s->term_count; i++)
        INLAY_TRY(view_input(s, plan, i, most, p, &w.views[i], diag));
    for (uint32_t i = 0; i < s->term_count; i++) {
        p->widened_at[i] = w.workspace;
        w.workspace += p->widen ? room_for(&w, plan->in[i].count) : 0;
    }
    w.ordered = expand_labels(&s->output, most, most, w.order);
    p->step_count = s->term_count > 1 ? s->term_count - 1 : 1;
    for (uint32_t i = 0; i < p->step_count; i++)
        INLAY_TRY(plan_step(&w, i, diag));
    p->result_at = w.workspace;
    w.workspace += p->widen ? room_for(&w, plan->out[0].count) : 0;
    p->gemm_at = w.workspace;
    *out_workspace = w.workspace + w.gemm;
done:
    return status;
}

/* What an element type is computed in. */
static void choose_type(einsum_plan *p, inlay_dtype dtype)
{
    p->type = gemm_type_of(dtype);
    p->dtype = dtype;
    if (p->type == GEMM_S16 || p->type == GEMM_TYPE_COUNT) { /* 8 and 16 bit integers */
        p->type = GEMM_U32;
        p->dtype = INLAY_UINT32;
        p->widen = true;
    } else if (inlay_dtype_bits(dtype) == 16) {
        p->dtype = INLAY_FLOAT;
        p->widen = true;
    }
}

inlay_status product_einsum_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const einsum_state *s = state;
    einsum_plan *p = calloc(1, sizeof *p), *whole;
    inlay_status status;

    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of an Einsum");
    choose_type(p, plan->in[0].dtype);
    p->kernel = s->engine->kernel(s->engine, p->type);
    status = plan_steps(s, plan, p, &plan->workspace_bytes, diag);
    if (status == INLAY_OK) {
        whole = realloc(p, sizeof *p + (size_t)p->table_used * sizeof(int64_t));
        if (whole == NULL) {
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of an Einsum");
        } else {
            p = whole;
            p->tables = (int64_t *)(void *)(p + 1);
            status = plan_steps(s, plan, p, &plan->workspace_bytes, diag);
        }
    }
    plan->plan = p;
    return status;
}
