/* Einsum: ONNX 12, numpy's rules: repeated labels take diagonals, "..." broadcasts, a missing "->" keeps the labels that occur
 * once in alphabetical order.
 *
 * Terms are contracted from left to right, two at a time. A label of a pair that the result keeps belongs to one term or
 * both, which makes it a row, column or batch of a matrix product; a label that nobody needs later is summed over. Pairs
 * without such sums, and single terms, are plain loops. Types that have no product of their own are widened first: half
 * precision to float, 8 and 16 bit integers to 32, which wrap alike. */
#include "args.h"
#include "convert.h"
#include "gemm.h"
#include "reference.h"
#include <stdlib.h>

enum { LETTERS = 52, LABELS = LETTERS + INLAY_MAX_RANK, MAX_TERMS = 16, ELLIPSIS = 255 };

/* ------------------------------------------------------------------ the equation */

typedef struct term {
    uint8_t labels[INLAY_MAX_RANK + 1]; /* 0..25 a-z, 26..51 A-Z, ELLIPSIS */
    uint32_t count;
    bool ellipsis;
} term;

typedef struct einsum_state {
    term terms[MAX_TERMS];
    term output;
    uint32_t term_count;
} einsum_state;

static inlay_status parse_term(const char **text, term *t, inlay_diag *diag)
{
    const char *p = *text;

    for (; *p != '\0' && *p != ',' && strncmp(p, "->", 2) != 0; p++) {
        uint8_t label;
        if (*p == ' ')
            continue;
        if (*p >= 'a' && *p <= 'z')
            label = (uint8_t)(*p - 'a');
        else if (*p >= 'A' && *p <= 'Z')
            label = (uint8_t)(*p - 'A' + 26);
        else if (strncmp(p, "...", 3) == 0 && !t->ellipsis) {
            label = ELLIPSIS;
            t->ellipsis = true;
            p += 2;
        } else
            return inlay_fail(diag, INLAY_INVALID_MODEL, "the equation cannot be read from '%.32s' on", p);
        if (t->count == INLAY_MAX_RANK)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "a term of the equation has more than %d labels", INLAY_MAX_RANK);
        t->labels[t->count++] = label;
    }
    *text = p;
    return INLAY_OK;
}

/* The output of an equation without "->". */
static void imply_output(einsum_state *s)
{
    uint32_t seen[LETTERS] = { 0 };
    bool ellipsis = false;

    for (uint32_t t = 0; t < s->term_count; t++) {
        ellipsis |= s->terms[t].ellipsis;
        for (uint32_t i = 0; i < s->terms[t].count; i++)
            if (s->terms[t].labels[i] < LETTERS)
                seen[s->terms[t].labels[i]]++;
    }
    if (ellipsis) {
        s->output.labels[s->output.count++] = ELLIPSIS;
        s->output.ellipsis = true;
    }
    /* numpy sorts capitals before small letters */
    for (uint32_t i = 0; i < LETTERS; i++) {
        uint32_t label = (i + 26) % LETTERS;
        if (seen[label] == 1 && s->output.count < INLAY_MAX_RANK)
            s->output.labels[s->output.count++] = (uint8_t)label;
    }
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *text = kit_attr_string(node->info, "equation", "");
    einsum_state *s = NULL;
    inlay_status status;

    INLAY_TRY(arg_state(sizeof *s, (void **)&s, diag));
    for (;;) {
        if (s->term_count == MAX_TERMS)
            return free(s), inlay_fail(diag, INLAY_UNSUPPORTED, "the equation has more than %d terms", MAX_TERMS);
        INLAY_TRY(parse_term(&text, &s->terms[s->term_count++], diag));
        if (*text != ',')
            break;
        text++;
    }
    if (s->term_count != node->info->input_count) {
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "the equation has %u terms for %u inputs", s->term_count,
                            node->info->input_count);
        goto done;
    }
    if (*text == '\0') {
        imply_output(s);
    } else {
        text += 2;
        INLAY_TRY(parse_term(&text, &s->output, diag));
        if (*text != '\0') {
            status = inlay_fail(diag, INLAY_INVALID_MODEL, "the equation goes on after its output: '%.32s'", text);
            goto done;
        }
        for (uint32_t i = 1; i < s->output.count; i++)
            if (memchr(s->output.labels, s->output.labels[i], i) != NULL) {
                status = inlay_fail(diag, INLAY_INVALID_MODEL, "the output of the equation repeats a label");
                goto done;
            }
    }
    *out_state = s;
    s = NULL;
done:
    free(s);
    return status;
}

/* ------------------------------------------------------------------ shapes */

/* A tensor by labels. */
typedef struct view {
    bool has[LABELS];
    int64_t stride[LABELS]; /* elements; 0 where it broadcasts */
    uint32_t input;         /* of the node, or */
    bool in_workspace;
    uint64_t at; /* bytes from the start of the workspace */
} view;

/* c[outer, inner] = sum over k of a * b, by loops. */
typedef struct loops {
    uint32_t rank;                     /* of outer */
    int64_t dims[LABELS], a[LABELS], b[LABELS];
    int64_t outer, inner, a_inner, b_inner;
    int64_t sums;
    int64_t *a_sum; /* [sums] */
} loops;

typedef struct contraction {
    view left, right, result;
    bool single, product; /* product: by gemm */
    gemm_job job;
    loops l;
    int64_t *row_at, *column_at, *batch_at; /* where results go when they are not in order */
} contraction;

typedef struct einsum_plan {
    uint32_t type; /* GEMM_* that is computed in */
    inlay_dtype dtype; /* its element type */
    bool widen;
    int64_t size[LABELS];
    uint64_t gemm_at;
    uint32_t step_count;
    contraction steps[MAX_TERMS];
    uint64_t widened_at[MAX_TERMS], result_at; /* copies of inputs, and of the output, when widening */
    int64_t *tables;
    int64_t table_used, table_size;
} einsum_plan;

/* The label at position i of an expanded term, -1 beyond; e is the rank of this term's ellipsis, most that of the longest. */
static uint32_t expand_labels(const term *t, uint32_t e, uint32_t most, uint8_t *out)
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
                               view *v, inlay_diag *diag)
{
    const kit_tensor *t = &plan->in[i];
    uint32_t named = s->terms[i].count - s->terms[i].ellipsis, n;
    uint8_t labels[INLAY_MAX_RANK];
    int64_t step = 1;

    n = expand_labels(&s->terms[i], t->rank - named, most, labels);
    if (n != t->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %u has rank %u, its term of the equation %u", i, t->rank, n);
    *v = (view){ .input = i };
    for (uint32_t d = n; d-- > 0; step *= t->dims[d]) {
        uint8_t label = labels[d];
        if (t->dims[d] != 1 && p->size[label] != 1 && p->size[label] != t->dims[d])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "dimension %u of input %u is %lld; elsewhere that label has %lld",
                              d, i, (long long)t->dims[d], (long long)p->size[label]);
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
typedef struct uneven {
    const int64_t *lines, *k;
} uneven;
#define PACK_UNEVEN(T, name)                                                                                     \
    static void name(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0,        \
                     int64_t k1, uint32_t width, void *out)                                                      \
    {                                                                                                            \
        const uneven *u = self->user;                                                                            \
        const T *from = (const T *)self->data + gemm_which(self, batch);                                         \
        T *to = out;                                                                                             \
        for (int64_t l0 = line; l0 < line_end; l0 += width)                                                      \
            for (int64_t k = k0; k < k1; k++)                                                                    \
                for (int64_t l = l0; l < l0 + width; l++)                                                        \
                    *to++ = l < line_end ? from[u->lines[l] + u->k[k]] : 0;                                      \
    }
PACK_UNEVEN(uint32_t, pack_uneven_32)
PACK_UNEVEN(uint64_t, pack_uneven_64)

typedef struct label_sets {
    uint8_t batch[LABELS], row[LABELS], column[LABELS], sum[LABELS], order[LABELS];
    uint32_t batches, rows, columns, sums, ordered;
} label_sets;

/* An operand of a product: even strides where possible, tables otherwise. extra: room for an `uneven` in the plan. */
static void set_operand(einsum_plan *p, gemm_operand *o, const view *v, const uint8_t *lines, uint32_t line_count,
                        int64_t line_total, const label_sets *sets, int64_t k, bool is_b)
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
    p->table_used += (int64_t)(sizeof(uneven) / sizeof(int64_t));
    if (room != NULL) {
        uneven u = { ln, ks };
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

static void plan_product(einsum_plan *p, contraction *st, label_sets *sets, uint32_t threads)
{
    gemm_job *job = &st->job;

    *job = (gemm_job){ .kernel = gemm_kernel_best(p->type) };
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

static void plan_loops(einsum_plan *p, contraction *st, const label_sets *sets)
{
    loops *l = &st->l;

    *l = (loops){ .outer = 1, .inner = 1 };
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
static void sort_labels(const einsum_plan *p, const contraction *st, const uint8_t *order, uint32_t ordered, label_sets *sets)
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

static bool set_result(einsum_plan *p, view *result, const uint8_t *order, uint32_t ordered, int64_t *count)
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

/* Plans all steps; run twice, first to count the tables. The workspace grows by what intermediates and copies take. */
static inlay_status plan_steps(const einsum_state *s, const kit_plan *plan, einsum_plan *p, uint64_t *workspace,
                               inlay_diag *diag)
{
    uint32_t most = 0, ordered, bytes;
    uint64_t gemm = 0, need;
    uint8_t order[INLAY_MAX_RANK];
    view views[MAX_TERMS];
    inlay_status status = INLAY_OK;

    *workspace = 0;
    p->table_used = 0;
    bytes = inlay_dtype_bits(p->dtype) / 8;
    for (uint32_t i = 0; i < LABELS; i++)
        p->size[i] = 1;
    for (uint32_t i = 0; i < s->term_count; i++) {
        uint32_t named = s->terms[i].count - s->terms[i].ellipsis, rank = plan->in[i].rank;
        if (rank < named || (rank > named && !s->terms[i].ellipsis))
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %u has rank %u, its term of the equation %u", i, rank, named);
        most = rank - named > most ? rank - named : most;
    }
    for (uint32_t i = 0; i < s->term_count; i++)
        INLAY_TRY(view_input(s, plan, i, most, p, &views[i], diag));
    for (uint32_t i = 0; i < s->term_count; i++) { /* sizes are complete now: strides of size-1 dims stay 0 */
        p->widened_at[i] = *workspace;
        if (p->widen)
            *workspace += ((uint64_t)plan->in[i].count * bytes + 63) & ~UINT64_C(63);
    }
    ordered = expand_labels(&s->output, most, most, order);
    p->step_count = s->term_count > 1 ? s->term_count - 1 : 1;
    for (uint32_t i = 0; i < p->step_count; i++) {
        contraction *st = &p->steps[i];
        bool final = i + 1 == p->step_count;
        uint8_t kept[LABELS];
        uint32_t kept_count = 0;
        label_sets sets;
        int64_t count, total;
        *st = (contraction){ .left = i == 0 ? views[0] : p->steps[i - 1].result, .single = s->term_count == 1 };
        if (!st->single)
            st->right = views[i + 1];
        for (uint32_t l = 0; l < LABELS && !final; l++) {
            bool needed = memchr(order, (int)l, ordered) != NULL;
            for (uint32_t j = i + 2; j < s->term_count; j++)
                needed |= views[j].has[l];
            if (needed && (st->left.has[l] || st->right.has[l]))
                kept[kept_count++] = (uint8_t)l;
        }
        if (final) {
            memcpy(kept, order, ordered);
            kept_count = ordered;
        }
        st->result = (view){ .in_workspace = !final, .at = *workspace };
        sort_labels(p, st, kept, kept_count, &sets);
        if (!set_result(p, &st->result, kept, kept_count, &count) || !count_of(p, sets.sum, sets.sums, &total) ||
            total > INT32_MAX || p->table_used > INT32_MAX)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "step %u of the equation is too large", i + 1);
        if (!final)
            *workspace += ((uint64_t)count * bytes + 63) & ~UINT64_C(63);
        else if (count != plan->out[0].count)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the output has %lld elements, not %lld",
                              (long long)plan->out[0].count, (long long)count);
        st->product = !st->single && total > 1;
        if (!st->product) {
            plan_loops(p, st, &sets);
            continue;
        }
        /* Rows and columns may change places: whichever lets the product write where the result belongs. */
        if (sets.rows > 0 && sets.columns > 0 && !in_order(p, &sets, st->result.stride)) {
            view left = st->left;
            st->left = st->right;
            st->right = left;
            sort_labels(p, st, kept, kept_count, &sets);
        }
        plan_product(p, st, &sets, plan->max_threads);
        if (!gemm_workspace(&st->job, plan->max_threads, &need))
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "step %u of the equation is too large", i + 1);
        gemm = need > gemm ? need : gemm;
    }
    p->result_at = *workspace;
    if (p->widen)
        *workspace += ((uint64_t)plan->out[0].count * bytes + 63) & ~UINT64_C(63);
    p->gemm_at = *workspace;
    *workspace += gemm;
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

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const einsum_state *s = state;
    einsum_plan *p = calloc(1, sizeof *p), *whole;
    inlay_status status;

    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of an Einsum");
    choose_type(p, plan->in[0].dtype);
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

/* ------------------------------------------------------------------ run */

typedef struct loop_task {
    const loops *l;
    const void *a, *b;
    void *c;
} loop_task;

#define LOOPS(T, name)                                                                                     \
    static inlay_status name(void *user, int64_t begin, int64_t end, uint32_t worker)                      \
    {                                                                                                      \
        const loop_task *t = user;                                                                         \
        const loops *l = t->l;                                                                             \
        (void)worker;                                                                                      \
        for (int64_t o = begin; o < end; o++) {                                                            \
            int64_t rest = o, a_at = 0, b_at = 0;                                                          \
            T *c = (T *)t->c + o * l->inner;                                                               \
            for (uint32_t d = l->rank; d-- > 0; rest /= l->dims[d]) {                                      \
                a_at += rest % l->dims[d] * l->a[d];                                                       \
                b_at += rest % l->dims[d] * l->b[d];                                                       \
            }                                                                                              \
            for (int64_t j = 0; j < l->inner; j++)                                                         \
                c[j] = 0;                                                                                  \
            for (int64_t k = 0; k < l->sums; k++) {                                                        \
                const T *a = (const T *)t->a + a_at + l->a_sum[k], *b = (const T *)t->b;                   \
                if (b == NULL)                                                                             \
                    for (int64_t j = 0; j < l->inner; j++)                                                 \
                        c[j] += a[j * l->a_inner];                                                         \
                else                                                                                       \
                    for (int64_t j = 0; j < l->inner; j++)                                                 \
                        c[j] += a[j * l->a_inner] * b[b_at + j * l->b_inner];                              \
            }                                                                                              \
        }                                                                                                  \
        return INLAY_OK;                                                                                   \
    }
LOOPS(float, loops_f32)
LOOPS(double, loops_f64)
LOOPS(uint32_t, loops_u32)
LOOPS(uint64_t, loops_u64)

/* Puts the elements of a tile where the result has them. */
typedef struct scatter {
    const contraction *st;
    char *c;
    uint32_t bytes;
} scatter;
static void store_scattered(void *user, const gemm_tile *tile)
{
    const scatter *s = user;

    for (int64_t i = tile->i0; i < tile->i1; i++) {
        const char *from = (const char *)tile->c + (i - tile->i0) * tile->c_stride * s->bytes;
        char *to = s->c + (s->st->batch_at[tile->batch] + s->st->row_at[i]) * s->bytes;
        for (int64_t j = tile->j0; j < tile->j1; j++, from += s->bytes)
            memcpy(to + s->st->column_at[j] * s->bytes, from, s->bytes);
    }
}

static void widen(const einsum_plan *p, const kit_tensor *t, void *to)
{
    if (p->dtype == INLAY_FLOAT)
        convert_to_f32(to, t->dtype, t->data, 0, t->count);
    else if (inlay_dtype_bits(t->dtype) == 8)
        for (int64_t i = 0; i < t->count; i++)
            ((uint32_t *)to)[i] = ((const uint8_t *)t->data)[i];
    else
        for (int64_t i = 0; i < t->count; i++)
            ((uint32_t *)to)[i] = ((const uint16_t *)t->data)[i];
}

static void narrow(const einsum_plan *p, const kit_tensor *t, const void *from)
{
    if (p->dtype == INLAY_FLOAT)
        convert_from_f32(t->dtype, t->data, 0, t->count, from, 0);
    else if (inlay_dtype_bits(t->dtype) == 8)
        for (int64_t i = 0; i < t->count; i++)
            ((uint8_t *)t->data)[i] = (uint8_t)((const uint32_t *)from)[i];
    else
        for (int64_t i = 0; i < t->count; i++)
            ((uint16_t *)t->data)[i] = (uint16_t)((const uint32_t *)from)[i];
}

static const void *locate(const kit_call *call, const einsum_plan *p, const view *v)
{
    if (v->in_workspace)
        return (char *)call->workspace + v->at;
    return p->widen ? (char *)call->workspace + p->widened_at[v->input] : call->in[v->input].data;
}

static inlay_status run_step(const kit_call *call, const einsum_plan *p, const contraction *st, void *to)
{
    static const inlay_parallel_fn by_type[] = { loops_f32, loops_f64, loops_u32, loops_u64 };
    const void *a = locate(call, p, &st->left), *b = st->single ? NULL : locate(call, p, &st->right);
    scatter s = { st, to, inlay_dtype_bits(p->dtype) / 8 };
    gemm_job job = st->job;

    if (!st->product) {
        loop_task t = { &st->l, a, b, to };
        int64_t work = st->l.inner * st->l.sums;
        return kit_parallel(call, st->l.outer, 32768 / (work > 0 ? work : 1) + 1, by_type[p->type], &t);
    }
    job.a.data = a;
    job.b.data = b;
    job.c = to;
    if (job.c_in_workspace) {
        job.finish = store_scattered;
        job.finish_user = &s;
    }
    return gemm_run(call, &job, (char *)call->workspace + p->gemm_at);
}

static inlay_status run(const kit_call *call)
{
    const einsum_plan *p = call->plan;
    char *workspace = call->workspace;
    inlay_status status = INLAY_OK;

    if (call->out[0].count == 0)
        return INLAY_OK;
    for (uint32_t i = 0; i < call->in_count && p->widen; i++)
        widen(p, &call->in[i], workspace + p->widened_at[i]);
    for (uint32_t i = 0; i < p->step_count; i++) {
        const contraction *st = &p->steps[i];
        void *to = st->result.in_workspace ? workspace + st->result.at
                   : p->widen              ? workspace + p->result_at
                                           : call->out[0].data;
        INLAY_TRY(run_step(call, p, st, to));
    }
    if (p->widen)
        narrow(p, &call->out[0], workspace + p->result_at);
done:
    return status;
}

static const kit_kernel kernels[] = {
    { .op_type = "Einsum", .since_max = 12, .prepare = prepare, .shape = shape, .run = run },
};
const kit_table reference_einsum = { kernels, KIT_COUNT(kernels) };
