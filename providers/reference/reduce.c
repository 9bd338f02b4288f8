/* ReduceSum, Mean, Max, Min, Prod, L1, L2, LogSum, LogSumExp, SumSquare: ONNX 1, 11, 13, 18, 20.
 *
 * Each operator is a fold (how elements come together) and a finish (what becomes of the result). Axes that lie side by
 * side are merged first, so that what remains alternates between kept and reduced, and one of two loops does the work:
 * rows (the innermost axes are reduced: contiguous sums) or tiles (they are kept: columns side by side). */
#include "instance.h"
#include "reduce_types.h"
#include "reference.h"
#include <stdalign.h>
#include <stdlib.h>

enum {
    REDUCE_SPLITS = 16, /* at most, whatever threads there are: parts are sums of their own */
    REDUCE_SPLIT_MIN = 1 << 16,
    REDUCE_GRAIN = 1 << 15,
    REDUCE_SHORT = 32
};

/* ------------------------------------------------------------------ the operators */

typedef struct reduce_op {
    const char *name;
    uint32_t fold;
    uint32_t finish;
} reduce_op;

static const reduce_op reduce_ops[] = {
    { "ReduceSum", FOLD_SUM, FINISH_NONE },
    { "ReduceMean", FOLD_SUM, FINISH_MEAN },
    { "ReduceMax", FOLD_MAX, FINISH_NONE },
    { "ReduceMin", FOLD_MIN, FINISH_NONE },
    { "ReduceProd", FOLD_PRODUCT, FINISH_NONE },
    { "ReduceL1", FOLD_MAGNITUDES, FINISH_NONE },
    { "ReduceL2", FOLD_SQUARES, FINISH_ROOT },
    { "ReduceLogSum", FOLD_SUM, FINISH_LOG },
    { "ReduceLogSumExp", FOLD_EXPONENTIALS, FINISH_SHIFTED_LOG },
    { "ReduceSumSquare", FOLD_SQUARES, FINISH_NONE },
};

typedef struct reduce_state {
    const reduce_op *op;
    bool keep_all_when_empty; /* noop_with_empty_axes */
    bool has_axes;            /* as an attribute */
    uint32_t axis_count;
    int64_t axes[INLAY_MAX_RANK];
} reduce_state;

static inlay_status prepare_reduce(const kit_node *node, void **out_state, inlay_diag *diag)
{
    reduce_state *state = calloc(1, sizeof *state);
    uint32_t count;
    const int64_t *axes = kit_attr_ints(node->info, "axes", &count);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a reduction's attributes");
    if (count > INLAY_MAX_RANK) {
        free(state);
        return inlay_fail(diag, INLAY_INVALID_MODEL, "axes has %u entries, more than any tensor has axes", count);
    }
    for (uint32_t i = 0; i < KIT_COUNT(reduce_ops); i++)
        if (strcmp(reduce_ops[i].name, node->info->op_type.data) == 0)
            state->op = &reduce_ops[i];
    state->keep_all_when_empty = kit_attr_int(node->info, "noop_with_empty_axes", 0) != 0;
    state->has_axes = axes != NULL;
    state->axis_count = count;
    if (count > 0)
        memcpy(state->axes, axes, count * sizeof *axes);
    *out_state = state;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ which axes, merged */

/* A reduction as loops: kept axes outside, reduced axes inside them, and the innermost group `inner`, which is of one
 * of the two kinds. Strides are in elements. The last reduced axis stands apart as `rows`. */
typedef struct reduce_layout {
    int64_t kept_dims[INLAY_MAX_RANK], kept_strides[INLAY_MAX_RANK];
    int64_t reduced_dims[INLAY_MAX_RANK], reduced_strides[INLAY_MAX_RANK];
    uint32_t kept_rank, reduced_rank;
    int64_t rows, row_stride;
    int64_t inner;
    bool inner_reduced;
    bool is_short; /* nothing but rows back to back, too short for loops of their own: `tiles` of REDUCE_TILE of them */
    int64_t kept;  /* product of kept_dims */
    int64_t outputs; /* kept * inner when that is kept */
    int64_t reduced; /* elements behind each output */
    int64_t tiles;   /* per kept index: 1 for rows */
    int64_t splits;  /* parts that the reduced elements of an output are cut into, for more threads */
} reduce_layout;

static inlay_status reduce_axes(const reduce_state *state, const kit_tensor *input, const kit_tensor *input_axes,
                                bool is_reduced[INLAY_MAX_RANK], inlay_diag *diag)
{
    const int64_t *axes = state->axes;
    int64_t count = state->axis_count;

    if (input_axes != NULL) {
        axes = input_axes->data;
        count = input_axes->count;
    }
    for (uint32_t d = 0; d < input->rank; d++)
        is_reduced[d] = count == 0 && !state->keep_all_when_empty;
    for (int64_t i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + input->rank : axes[i];
        if (axis < 0 || axis >= input->rank)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s: axis %lld is outside the input's rank %u",
                              state->op->name, (long long)axes[i], input->rank);
        is_reduced[axis] = true;
    }
    return INLAY_OK;
}

/* Merges neighbouring axes of one kind, drops axes of size 1, and sorts what is left into the layout. */
static void reduce_merge(const kit_tensor *input, const bool *is_reduced, bool may_split, reduce_layout *layout)
{
    int64_t dims[INLAY_MAX_RANK], strides[INLAY_MAX_RANK], stride = 1;
    bool kinds[INLAY_MAX_RANK];
    uint32_t n = 0; /* groups, innermost first */

    *layout = (reduce_layout){ .rows = 1, .inner = 1, .kept = 1, .outputs = 1, .reduced = 1, .tiles = 1, .splits = 1 };
    for (uint32_t d = input->rank; d-- > 0; stride *= input->dims[d]) {
        if (is_reduced[d])
            layout->reduced *= input->dims[d];
        else
            layout->outputs *= input->dims[d];
        if (input->dims[d] == 1)
            continue;
        if (n > 0 && kinds[n - 1] == is_reduced[d]) {
            dims[n - 1] *= input->dims[d];
            continue;
        }
        dims[n] = input->dims[d];
        strides[n] = stride;
        kinds[n++] = is_reduced[d];
    }
    if (n > 0) {
        layout->inner = dims[0];
        layout->inner_reduced = kinds[0];
    }
    for (uint32_t g = n; g-- > 1;) { /* outermost first */
        if (kinds[g]) {
            layout->reduced_dims[layout->reduced_rank] = dims[g];
            layout->reduced_strides[layout->reduced_rank++] = strides[g];
        } else {
            layout->kept_dims[layout->kept_rank] = dims[g];
            layout->kept_strides[layout->kept_rank++] = strides[g];
            layout->kept *= dims[g];
        }
    }
    if (layout->reduced_rank > 0) {
        layout->rows = layout->reduced_dims[--layout->reduced_rank];
        layout->row_stride = layout->reduced_strides[layout->reduced_rank];
    }
    layout->is_short = layout->inner_reduced && layout->inner <= REDUCE_SHORT && n == 2;
    if (layout->is_short)
        layout->kept = 1;
    if (layout->is_short || !layout->inner_reduced)
        layout->tiles = ((layout->is_short ? layout->outputs : layout->inner) + REDUCE_TILE - 1) / REDUCE_TILE;
    if (may_split && !layout->is_short && layout->kept * layout->tiles < REDUCE_SPLITS && layout->reduced > 0 &&
        layout->outputs <= REDUCE_SPLIT_MIN && layout->reduced * layout->outputs >= 2 * REDUCE_SPLIT_MIN) {
        int64_t most = layout->reduced * layout->outputs / REDUCE_SPLIT_MIN;
        layout->splits = most < REDUCE_SPLITS ? most : REDUCE_SPLITS;
    }
}

static inlay_status shape_reduce(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const reduce_state *s = state;
    const kit_tensor *input = &plan->in[0];
    const kit_tensor *axes = plan->in_count > 1 && plan->in[1].dtype != INLAY_UNDEFINED ? &plan->in[1] : NULL;
    const reduce_type *type =
        s->op->finish >= FINISH_ROOT ? reduce_real_types[input->dtype] : reduce_types[input->dtype];
    bool is_reduced[INLAY_MAX_RANK];
    reduce_layout *layout;
    inlay_status status;

    if (axes != NULL && axes->data == NULL && axes->count > 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s: the axes must be known before the node runs", s->op->name);
    status = reduce_axes(s, input, axes, is_reduced, diag);
    if (status != INLAY_OK)
        return status;
    layout = kit_plan_new(plan, sizeof *layout);
    if (layout == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a reduction's plan");
    if (input->count == 0) {
        /* The products of the other dims may be huge: every output there is gets the neutral element. */
        int64_t outputs = plan->out[0].count > 0 ? plan->out[0].count : 0;
        *layout =
            (reduce_layout){ .inner_reduced = true, .kept = outputs, .outputs = outputs, .tiles = 1, .splits = 1 };
    } else {
        reduce_merge(input, is_reduced, s->op->fold != FOLD_EXPONENTIALS, layout);
    }
    if (layout->splits > 1)
        plan->workspace_bytes = (uint64_t)layout->splits * (uint64_t)layout->outputs * type->acc_bytes;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the loops */

typedef struct reduce_job {
    const reduce_layout *layout;
    const reduce_type *type;
    const reduce_op *op;
    const char *x;
    char *y;
    char *partials; /* [splits, outputs] accumulators; NULL without splits */
} reduce_job;

/* Folds everything behind the outputs [0, n) that start at x into acc. split cuts the last reduced axis. */
static void reduce_fold_item(const reduce_job *job, reduce_fold fold, const char *x, int64_t n, int64_t split,
                             void *acc, const void *shifts)
{
    const reduce_layout *layout = job->layout;
    int64_t index[INLAY_MAX_RANK];
    int64_t rows = layout->rows, row_begin = 0;
    int64_t elem = job->type->elem_bytes;

    if (layout->reduced == 0)
        return;
    if (layout->splits > 1) { /* cut the rows, or the one row that there is */
        int64_t *cut = rows > 1 || !layout->inner_reduced ? &rows : &n;
        int64_t whole_length = *cut, begin = whole_length * split / layout->splits;
        *cut = whole_length * (split + 1) / layout->splits - begin;
        row_begin = begin * (cut == &rows ? layout->row_stride : 1);
    }
    x += row_begin * elem;
    for (uint32_t d = 0; d < layout->reduced_rank; d++)
        index[d] = 0;
    for (;;) {
        uint32_t d = layout->reduced_rank;
        fold(acc, x, rows, layout->row_stride, n, shifts);
        while (d > 0) { /* the next index of the outer reduced axes */
            d--;
            x += layout->reduced_strides[d] * elem;
            if (++index[d] < layout->reduced_dims[d])
                break;
            x -= index[d] * layout->reduced_strides[d] * elem;
            index[d] = 0;
            if (d == 0)
                return;
        }
        if (layout->reduced_rank == 0)
            return;
    }
}

/* What is taken from each element before it is folded, where that is nothing. */
alignas(64) static const char no_shifts[REDUCE_TILE * sizeof(double)];

/* Tiles of short rows, see reduce_layout.is_short. */
static inlay_status reduce_short_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const reduce_job *job = user;
    const reduce_layout *layout = job->layout;
    const reduce_type *type = job->type;
    alignas(64) char acc[REDUCE_TILE * sizeof(double)];
    alignas(64) char room[REDUCE_TILE * sizeof(double)];
    const bool shifted = job->op->fold == FOLD_EXPONENTIALS;
    const void *shifts = shifted ? room : no_shifts;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * REDUCE_TILE,
                rows = layout->outputs - first < REDUCE_TILE ? layout->outputs - first : REDUCE_TILE;
        const char *x = job->x + first * layout->inner * type->elem_bytes;

        if (shifted) {
            type->short_rows[FOLD_MAX](room, x, rows, 0, layout->inner, no_shifts);
            type->tame(room, rows);
        }
        type->short_rows[job->op->fold](acc, x, rows, 0, layout->inner, shifts);
        type->finish(job->y + first * type->elem_bytes, acc, shifts, rows, job->op->finish, layout->reduced);
    }
    return INLAY_OK;
}

/* Item i is (split, kept index, tile), the last fastest. */
static inlay_status reduce_items(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const reduce_job *job = user;
    const reduce_layout *layout = job->layout;
    const reduce_type *type = job->type;
    alignas(64) char acc[REDUCE_TILE * sizeof(double)];
    alignas(64) char room[REDUCE_TILE * sizeof(double)];
    const bool shifted = job->op->fold == FOLD_EXPONENTIALS;
    const void *shifts = shifted ? room : no_shifts;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = layout->tiles == 1 ? i : i / layout->tiles,
                      split = layout->splits == 1 ? 0 : row / layout->kept;
        int64_t tile = i - row * layout->tiles,
                kept = row - split * layout->kept; /* divisions take as long as a short row */
        int64_t first = tile * REDUCE_TILE;        /* column */
        int64_t n = layout->inner_reduced                 ? layout->inner
                    : layout->inner - first < REDUCE_TILE ? layout->inner - first
                                                          : REDUCE_TILE;
        int64_t width = layout->inner_reduced ? 1 : n;
        int64_t output = layout->inner_reduced ? kept : kept * layout->inner + first;
        int64_t offset = layout->inner_reduced ? 0 : first;
        const reduce_fold *folds = layout->inner_reduced ? type->row : type->tile;
        const char *x;

        for (uint32_t d = layout->kept_rank; d-- > 1; kept /= layout->kept_dims[d])
            offset += kept % layout->kept_dims[d] * layout->kept_strides[d];
        offset += layout->kept_rank > 0 ? kept * layout->kept_strides[0] : 0;
        x = job->x + offset * type->elem_bytes;
        if (shifted) { /* exp(x - max) cannot overflow */
            type->init(room, width, FOLD_MAX);
            reduce_fold_item(job, folds[FOLD_MAX], x, n, split, room, no_shifts);
            type->tame(room, width);
        }
        type->init(acc, width, job->op->fold);
        reduce_fold_item(job, folds[job->op->fold], x, n, split, acc, shifts);
        if (job->partials != NULL)
            memcpy(job->partials + (split * layout->outputs + output) * type->acc_bytes, acc,
                   (size_t)width * type->acc_bytes);
        else
            type->finish(job->y + output * type->elem_bytes, acc, shifts, width, job->op->finish, layout->reduced);
    }
    return INLAY_OK;
}

static inlay_status run_reduce(const kit_call *call)
{
    const reduce_state *state = call->state;
    const reduce_layout *layout = call->plan;
    const kit_tensor *input = &call->in[0];
    const reduce_type *type =
        state->op->finish >= FINISH_ROOT ? reduce_real_types[input->dtype] : reduce_types[input->dtype];
    reduce_job job = { layout, type, state->op, input->data, call->out[0].data, NULL };
    int64_t per_item, grain;
    inlay_status status;

    if (call->out[0].count != layout->outputs)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "%s: the output has %lld elements, the reduction %lld",
                          state->op->name, (long long)call->out[0].count, (long long)layout->outputs);
    if (layout->outputs == 0)
        return INLAY_OK;
    if (layout->splits > 1)
        job.partials = call->workspace;
    per_item = layout->reduced * layout->outputs / (layout->splits * layout->kept * layout->tiles) + 1;
    grain = REDUCE_GRAIN / per_item + 1;
    status = kit_parallel(call, layout->splits * layout->kept * layout->tiles, grain,
                          layout->is_short ? reduce_short_rows : reduce_items, &job);
    if (status == INLAY_OK && layout->splits > 1) {
        int64_t bytes = layout->outputs * type->acc_bytes;
        for (int64_t i = 1; i < layout->splits; i++)
            type->combine(job.partials, job.partials + i * bytes, layout->outputs, state->op->fold);
        type->finish(job.y, job.partials, job.partials, layout->outputs, state->op->finish, layout->reduced);
    }
    return status;
}

#define REDUCE_NUMBERS (KIT_FLOATS | KIT_BIT(INT32) | KIT_BIT(INT64) | KIT_BIT(UINT32) | KIT_BIT(UINT64))
#define REDUCE_ORDERED (REDUCE_NUMBERS | KIT_BIT(INT8) | KIT_BIT(UINT8) | KIT_BIT(BOOL))
#define REDUCE(name, types)                                                                                            \
    {                                                                                                                  \
        .op_type = name, .in_types = { types }, .prepare = prepare_reduce, .shape = shape_reduce, .run = run_reduce    \
    }

static const kit_kernel kernels[] = {
    REDUCE("ReduceSum", REDUCE_NUMBERS),       REDUCE("ReduceMean", REDUCE_NUMBERS),
    REDUCE("ReduceMax", REDUCE_ORDERED),       REDUCE("ReduceMin", REDUCE_ORDERED),
    REDUCE("ReduceProd", REDUCE_NUMBERS),      REDUCE("ReduceL1", REDUCE_NUMBERS),
    REDUCE("ReduceL2", REDUCE_NUMBERS),        REDUCE("ReduceLogSum", REDUCE_NUMBERS),
    REDUCE("ReduceLogSumExp", REDUCE_NUMBERS), REDUCE("ReduceSumSquare", REDUCE_NUMBERS),
};
const kit_table OPERATOR(reference_reduce) = { kernels, KIT_COUNT(kernels) };
