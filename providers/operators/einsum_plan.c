/* einsum_plan.c - plans the steps of an Einsum: which labels a pair of terms shares, keeps and sums, and where
 * results are stored. */
#include "inlay/check.h"
#include "operators/einsum.h"
#include "operators/products.h"
#include <stdlib.h>
#include <string.h>

/* Writes the labels of a term with its ellipsis expanded, and returns their number, at most INLAY_MAX_RANK.
 * ellipsis_rank: the rank of this ellipsis; longest: the rank of the longest ellipsis; a shorter ellipsis gets the last
 * labels of the longest one. */
static uint32_t expand_labels(const struct term *term, uint32_t ellipsis_rank, uint32_t longest, uint8_t *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < term->count; i++) {
        if (term->labels[i] != ELLIPSIS) {
            if (count < INLAY_MAX_RANK)
                out[count++] = term->labels[i];
            continue;
        }
        for (uint32_t j = 0; j < ellipsis_rank && count < INLAY_MAX_RANK; j++)
            out[count++] = (uint8_t)(LETTERS + longest - ellipsis_rank + j);
    }
    return count;
}

static inlay_status view_input(const einsum_state *state, const kit_plan *plan, uint32_t i, uint32_t most,
                               einsum_plan *einsum, struct view *view, inlay_diag *diag)
{
    const kit_tensor *tensor = &plan->in[i];
    uint32_t named = state->terms[i].count - state->terms[i].ellipsis, rank;
    uint8_t labels[INLAY_MAX_RANK];
    int64_t step = 1;

    rank = expand_labels(&state->terms[i], tensor->rank - named, most, labels);
    if (rank != tensor->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %u has rank %u, its term of the equation %u", i,
                          tensor->rank, rank);
    *view = (struct view){ .input = i };
    for (uint32_t d = rank; d-- > 0; step *= tensor->dims[d]) {
        uint8_t label = labels[d];
        if (tensor->dims[d] != 1 && einsum->size[label] != 1 && einsum->size[label] != tensor->dims[d])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "dimension %u of input %u is %lld; the same label is %lld elsewhere", d, i,
                              (long long)tensor->dims[d], (long long)einsum->size[label]);
        if (tensor->dims[d] != 1)
            einsum->size[label] = tensor->dims[d];
        view->has[label] = true;
        view->stride[label] += tensor->dims[d] == 1 ? 0 : step;
    }
    return INLAY_OK;
}

/* Writes the offsets of all index combinations of the labels to a table; the last label varies fastest. Returns NULL in
 * the first pass, which only counts the elements of the tables. */
static int64_t *tabulate(einsum_plan *plan, const uint8_t *labels, uint32_t count, const int64_t *stride, int64_t total)
{
    int64_t *out = plan->tables == NULL ? NULL : plan->tables + plan->table_used;

    plan->table_used += total;
    if (plan->tables == NULL)
        return NULL;
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, at = 0;
        for (uint32_t l = count; l-- > 0; rest /= plan->size[labels[l]])
            at += rest % plan->size[labels[l]] * stride[labels[l]];
        out[i] = at;
    }
    return out;
}

/* Sets *out to the product of the sizes of the labels; false: overflow. */
static bool count_of(const einsum_plan *plan, const uint8_t *labels, uint32_t count, int64_t *out)
{
    *out = 1;
    for (uint32_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(*out, plan->size[labels[i]], out))
            return false;
    return *out <= INT64_C(1) << 40;
}

/* Sets *out to the constant step between neighbouring combinations of the labels; false: the step is not constant. */
static bool is_even(const einsum_plan *plan, const uint8_t *labels, uint32_t count, const int64_t *stride, int64_t *out)
{
    int64_t step = 0, block = 1;

    for (uint32_t l = count; l-- > 0;) {
        if (plan->size[labels[l]] == 1)
            continue;
        if (block == 1)
            step = stride[labels[l]];
        else if (stride[labels[l]] != step * block)
            return false;
        block *= plan->size[labels[l]];
    }
    *out = step;
    return true;
}

/* The tables of an operand that has no constant strides: offsets of lines and of steps of k. gemm_operand.user points
 * to them. */
struct table_pack {
    const int64_t *lines, *k;
};
#define PACK_BY_TABLE(T, name)                                                                                         \
    static void name(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0, int64_t k1,  \
                     uint32_t width, void *out)                                                                        \
    {                                                                                                                  \
        const struct table_pack *u = self->user;                                                                       \
        const T *from = (const T *)self->data + gemm_matrix_index(self, batch);                                        \
        T *to = out;                                                                                                   \
        for (int64_t l0 = line; l0 < line_end; l0 += width)                                                            \
            for (int64_t k = k0; k < k1; k++)                                                                          \
                for (int64_t l = l0; l < l0 + width; l++)                                                              \
                    *to++ = l < line_end ? from[u->lines[l] + u->k[k]] : 0;                                            \
    }
PACK_BY_TABLE(uint32_t, pack_by_table_32)
PACK_BY_TABLE(uint64_t, pack_by_table_64)

typedef struct label_sets {
    uint8_t batch[LABELS], row[LABELS], column[LABELS], sum[LABELS], order[LABELS];
    uint32_t batches, rows, columns, sums, ordered;
} label_sets;

/* Sets an operand of a multiplication: constant strides if possible, otherwise tables, which are stored in the plan
 * with a `struct table_pack`. */
static void set_operand(einsum_plan *plan, gemm_operand *operand, const struct view *view, const uint8_t *lines,
                        uint32_t line_count, int64_t line_total, const label_sets *sets, int64_t k, bool is_b)
{
    int64_t batch;

    (void)count_of(plan, sets->batch, sets->batches, &batch);
    operand->matrix_stride = 1;
    operand->which = tabulate(plan, sets->batch, sets->batches, view->stride, batch);
    operand->pack = gemm_strided_pack(plan->type, plan->dtype);
    if (is_even(plan, lines, line_count, view->stride, &operand->line_stride) &&
        is_even(plan, sets->sum, sets->sums, view->stride, &operand->k_stride)) {
        operand->in_place = is_b && (operand->line_stride == 1 || line_total == 1);
        return;
    }
    operand->pack = plan->dtype == INLAY_DOUBLE || plan->type == GEMM_U64 ? pack_by_table_64 : pack_by_table_32;
    int64_t *line_offsets = tabulate(plan, lines, line_count, view->stride, line_total);
    int64_t *k_offsets = tabulate(plan, sets->sum, sets->sums, view->stride, k);
    int64_t *room = plan->tables == NULL ? NULL : plan->tables + plan->table_used;
    plan->table_used += (int64_t)(sizeof(struct table_pack) / sizeof(int64_t));
    if (room != NULL) {
        struct table_pack tables = { line_offsets, k_offsets };
        memcpy(room, &tables, sizeof tables);
        operand->user = room;
    }
}

/* Whether the result is contiguous in the order batch, row, column labels. */
static bool in_order(const einsum_plan *plan, const label_sets *sets, const int64_t *stride)
{
    uint8_t all[LABELS];
    int64_t step;

    memcpy(all, sets->batch, sets->batches);
    memcpy(all + sets->batches, sets->row, sets->rows);
    memcpy(all + sets->batches + sets->rows, sets->column, sets->columns);
    return is_even(plan, all, sets->batches + sets->rows + sets->columns, stride, &step) && step <= 1;
}

static void plan_product(einsum_plan *plan, struct contraction *step, label_sets *sets, uint32_t threads)
{
    gemm_job *job = &step->job;

    *job = (gemm_job){ .kernel = plan->kernel };
    (void)count_of(plan, sets->batch, sets->batches, &job->batch);
    (void)count_of(plan, sets->row, sets->rows, &job->m);
    (void)count_of(plan, sets->column, sets->columns, &job->n);
    (void)count_of(plan, sets->sum, sets->sums, &job->k);
    set_operand(plan, &job->a, &step->left, sets->row, sets->rows, job->m, sets, job->k, false);
    set_operand(plan, &job->b, &step->right, sets->column, sets->columns, job->n, sets, job->k, true);
    job->c_stride = job->n;
    job->c_batch_stride = job->m * job->n;
    if (!in_order(plan, sets, step->result.stride)) {
        job->c_in_workspace = true;
        step->row_at = tabulate(plan, sets->row, sets->rows, step->result.stride, job->m);
        step->column_at = tabulate(plan, sets->column, sets->columns, step->result.stride, job->n);
        step->batch_at = tabulate(plan, sets->batch, sets->batches, step->result.stride, job->batch);
    }
    gemm_plan(job, threads);
}

static void plan_loops(einsum_plan *plan, struct contraction *step, const label_sets *sets)
{
    struct loops *loops = &step->loops;

    *loops = (struct loops){ .outer = 1, .inner = 1 };
    for (uint32_t i = 0; i < sets->ordered; i++) {
        uint8_t label = sets->order[i];
        if (i + 1 == sets->ordered) {
            loops->inner = plan->size[label];
            loops->a_inner = step->left.stride[label];
            loops->b_inner = step->single ? 0 : step->right.stride[label];
            break;
        }
        loops->dims[loops->rank] = plan->size[label];
        loops->a[loops->rank] = step->left.stride[label];
        loops->b[loops->rank] = step->single ? 0 : step->right.stride[label];
        loops->outer *= plan->size[label];
        loops->rank++;
    }
    (void)count_of(plan, sets->sum, sets->sums, &loops->sums);
    loops->a_sum = tabulate(plan, sets->sum, sets->sums, step->left.stride, loops->sums);
}

/* Classifies the labels of a pair (or one term): kept labels by operand, and summed ones. */
static void sort_labels(const einsum_plan *plan, const struct contraction *step, const uint8_t *order, uint32_t ordered,
                        label_sets *sets)
{
    *sets = (label_sets){ .ordered = ordered };
    memcpy(sets->order, order, ordered);
    for (uint32_t i = 0; i < ordered; i++) {
        uint8_t label = order[i];
        bool in_left = step->left.has[label] && (step->left.stride[label] != 0 || plan->size[label] == 1);
        bool in_right =
            !step->single && step->right.has[label] && (step->right.stride[label] != 0 || plan->size[label] == 1);
        if (in_left == in_right)
            sets->batch[sets->batches++] = label;
        else if (in_left)
            sets->row[sets->rows++] = label;
        else
            sets->column[sets->columns++] = label;
    }
    INLAY_CHECK(sets->batches + sets->rows + sets->columns == ordered);
    for (uint32_t label = 0; label < LABELS; label++)
        if ((step->left.has[label] || (!step->single && step->right.has[label])) &&
            memchr(order, (int)label, ordered) == NULL)
            sets->sum[sets->sums++] = (uint8_t)label;
}

static bool set_result(einsum_plan *plan, struct view *result, const uint8_t *order, uint32_t ordered, int64_t *count)
{
    int64_t stride = 1;

    for (uint32_t i = ordered; i-- > 0;) {
        result->has[order[i]] = true;
        result->stride[order[i]] = stride;
        if (__builtin_mul_overflow(stride, plan->size[order[i]], &stride) || stride > INT64_C(1) << 40)
            return false;
    }
    *count = stride;
    return true;
}

/* The state of planning across steps. */
struct planning {
    const einsum_state *state;
    const kit_plan *plan;
    einsum_plan *einsum_plan;
    struct view views[MAX_TERMS];
    uint8_t order[INLAY_MAX_RANK]; /* labels of the output */
    uint32_t ordered, bytes;       /* bytes of an element of the computation type */
    uint64_t workspace, gemm; /* bytes: intermediates and copies so far, and the maximum that a multiplication needs */
};

/* Bytes of count elements in the workspace; each tensor starts at a cache line. */
static uint64_t room_for(const struct planning *planning, int64_t count)
{
    return ((uint64_t)count * planning->bytes + 63) & ~UINT64_C(63);
}

/* The rank of the longest ellipsis. */
static inlay_status longest_ellipsis(const struct planning *planning, uint32_t *out_rank, inlay_diag *diag)
{
    *out_rank = 0;
    for (uint32_t i = 0; i < planning->state->term_count; i++) {
        const struct term *term = &planning->state->terms[i];
        uint32_t named = term->count - term->ellipsis, rank = planning->plan->in[i].rank;

        if (rank < named || (rank > named && !term->ellipsis))
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %u has rank %u, its term of the equation %u", i, rank,
                              named);
        *out_rank = rank - named > *out_rank ? rank - named : *out_rank;
    }
    return INLAY_OK;
}

/* The labels that step i keeps: in the last step those of the output, in its order; before that the labels that the
 * output or a later term uses. */
static uint32_t kept_labels(const struct planning *planning, uint32_t i, const struct contraction *step, uint8_t *kept)
{
    uint32_t count = 0;

    if (i + 1 == planning->einsum_plan->step_count) {
        memcpy(kept, planning->order, planning->ordered);
        return planning->ordered;
    }
    for (uint32_t l = 0; l < LABELS; l++) {
        bool needed = memchr(planning->order, (int)l, planning->ordered) != NULL;

        for (uint32_t j = i + 2; j < planning->state->term_count; j++)
            needed |= planning->views[j].has[l];
        if (needed && (step->left.has[l] || step->right.has[l]))
            kept[count++] = (uint8_t)l;
    }
    return count;
}

static inlay_status plan_step(struct planning *planning, uint32_t i, inlay_diag *diag)
{
    einsum_plan *plan = planning->einsum_plan;
    struct contraction *step = &plan->steps[i];
    const bool final = i + 1 == plan->step_count;
    uint8_t kept[LABELS];
    uint32_t kept_count;
    label_sets sets;
    int64_t count, total;
    uint64_t need;

    *step = (struct contraction){ .left = i == 0 ? planning->views[0] : plan->steps[i - 1].result,
                                  .single = planning->state->term_count == 1 };
    if (!step->single)
        step->right = planning->views[i + 1];
    kept_count = kept_labels(planning, i, step, kept);
    step->result = (struct view){ .in_workspace = !final, .at = planning->workspace };
    sort_labels(plan, step, kept, kept_count, &sets);
    if (!set_result(plan, &step->result, kept, kept_count, &count) || !count_of(plan, sets.sum, sets.sums, &total) ||
        total > INT32_MAX || plan->table_used > INT32_MAX)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "step %u of the equation is too large", i + 1);
    if (!final)
        planning->workspace += room_for(planning, count);
    else if (count != planning->plan->out[0].count)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the output has %lld elements, not %lld",
                          (long long)planning->plan->out[0].count, (long long)count);
    step->product = !step->single && total > 1;
    if (!step->product) {
        plan_loops(plan, step, &sets);
        return INLAY_OK;
    }
    /* Swap rows and columns if that lets the multiplication write the result directly. */
    if (sets.rows > 0 && sets.columns > 0 && !in_order(plan, &sets, step->result.stride)) {
        struct view left = step->left;
        step->left = step->right;
        step->right = left;
        sort_labels(plan, step, kept, kept_count, &sets);
    }
    plan_product(plan, step, &sets, planning->plan->max_threads);
    if (!gemm_workspace(&step->job, planning->plan->max_threads, &need))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "step %u of the equation is too large", i + 1);
    planning->gemm = need > planning->gemm ? need : planning->gemm;
    return INLAY_OK;
}

/* Plans all steps; called twice, first to count the tables. The workspace contains intermediates and copies, then
 * the workspace of the multiplications. */
static inlay_status plan_steps(const einsum_state *state, const kit_plan *plan, einsum_plan *einsum,
                               uint64_t *out_workspace, inlay_diag *diag)
{
    struct planning planning = {
        .state = state, .plan = plan, .einsum_plan = einsum, .bytes = inlay_dtype_bits(einsum->dtype) / 8
    };
    uint32_t longest;
    inlay_status status;

    einsum->table_used = 0;
    for (uint32_t i = 0; i < LABELS; i++)
        einsum->size[i] = 1;
    INLAY_TRY(longest_ellipsis(&planning, &longest, diag));
    for (uint32_t i = 0; i < state->term_count; i++)
        INLAY_TRY(view_input(state, plan, i, longest, einsum, &planning.views[i], diag));
    for (uint32_t i = 0; i < state->term_count; i++) {
        einsum->widened_at[i] = planning.workspace;
        planning.workspace += einsum->widen ? room_for(&planning, plan->in[i].count) : 0;
    }
    planning.ordered = expand_labels(&state->output, longest, longest, planning.order);
    einsum->step_count = state->term_count > 1 ? state->term_count - 1 : 1;
    for (uint32_t i = 0; i < einsum->step_count; i++)
        INLAY_TRY(plan_step(&planning, i, diag));
    einsum->result_at = planning.workspace;
    planning.workspace += einsum->widen ? room_for(&planning, plan->out[0].count) : 0;
    einsum->gemm_at = planning.workspace;
    *out_workspace = planning.workspace + planning.gemm;
done:
    return status;
}

/* Chooses the computation type of an element type. */
static void choose_type(einsum_plan *plan, inlay_dtype dtype)
{
    plan->type = gemm_type_of(dtype);
    plan->dtype = dtype;
    if (plan->type == GEMM_S16 || plan->type == GEMM_TYPE_COUNT) { /* 8-bit and 16-bit integers */
        plan->type = GEMM_U32;
        plan->dtype = INLAY_UINT32;
        plan->widen = true;
    } else if (inlay_dtype_bits(dtype) == 16) {
        plan->dtype = INLAY_FLOAT;
        plan->widen = true;
    }
}

inlay_status product_einsum_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const einsum_state *parsed = state;
    einsum_plan *einsum = calloc(1, sizeof *einsum), *resized;
    inlay_status status;

    if (einsum == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of an Einsum");
    choose_type(einsum, plan->in[0].dtype);
    einsum->kernel = parsed->engine->kernel(parsed->engine, einsum->type);
    status = plan_steps(parsed, plan, einsum, &plan->workspace_bytes, diag);
    if (status == INLAY_OK) {
        resized = realloc(einsum, sizeof *einsum + (size_t)einsum->table_used * sizeof(int64_t));
        if (resized == NULL) {
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of an Einsum");
        } else {
            einsum = resized;
            einsum->tables = (int64_t *)(void *)(einsum + 1);
            einsum->table_size = einsum->table_used;
            status = plan_steps(parsed, plan, einsum, &plan->workspace_bytes, diag);
            INLAY_CHECK(status != INLAY_OK || einsum->table_used == einsum->table_size);
        }
    }
    plan->plan = einsum;
    return status;
}
