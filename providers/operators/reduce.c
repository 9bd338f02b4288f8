/* ReduceSum, Mean, Max, Min, Prod, L1, L2, LogSum, LogSumExp, SumSquare: ONNX 1, 11, 13, 18, 20.
 *
 * Each operator is a fold (how elements are combined) and a finish (the final operation on the result). Adjacent axes
 * of the same kind are merged first, so that kept and reduced axes alternate. Then there are two kinds of loops. If the
 * innermost axes are reduced, rows of contiguous elements are folded; if they are kept, tiles of several columns. Short
 * rows, and the rows of few columns, are transposed to such tiles (simd/axis.h). */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/reduce_types.h"
#include "operators/operators.h"
#include "simd/axis.h"
#include <stdalign.h>
#include <stdlib.h>

enum {
    REDUCE_SPLITS = 16, /* maximum; does not depend on the number of threads, because splitting changes the rounding */
    REDUCE_SPLIT_MIN = 1 << 16,
    REDUCE_GRAIN = 1 << 15,
    LONG_ROWS_FROM = 24 /* elements of 8 bytes in rows that are not transposed */
};

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
        if (strcmp(reduce_ops[i].name, kit_op_type(node)) == 0)
            state->op = &reduce_ops[i];
    state->keep_all_when_empty = kit_attr_int(node->info, "noop_with_empty_axes", 0) != 0;
    state->has_axes = axes != NULL;
    state->axis_count = count;
    if (count > 0)
        memcpy(state->axes, axes, count * sizeof *axes);
    *out_state = state;
    return INLAY_OK;
}

/* A reduction as nested loops: over the kept axes, then over the reduced axes, then over the innermost group of axes,
 * `inner`, which is kept or reduced. Strides are in elements. The last reduced axis is stored separately, as `rows`. */
typedef struct reduce_layout {
    int64_t kept_dims[INLAY_MAX_RANK], kept_strides[INLAY_MAX_RANK];
    int64_t reduced_dims[INLAY_MAX_RANK], reduced_strides[INLAY_MAX_RANK];
    uint32_t kept_rank, reduced_rank;
    int64_t rows, row_stride;
    int64_t inner;
    bool inner_reduced;
    axis_cut cut;    /* cut.group > 0: the loops are those of axis_run, and the following members are not used */
    int64_t kept;    /* product of kept_dims */
    int64_t outputs; /* kept * inner if inner is kept */
    int64_t reduced; /* elements per output */
    int64_t tiles;   /* tiles per kept index; 1 if rows are folded */
    int64_t splits;  /* parts into which the reduced elements of an output are split, for more threads */
    bool late;       /* the axes become known when the node runs, and the other members are not set */
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

/* Merges adjacent axes of the same kind, drops axes of size 1, and assigns the groups to the layout. */
static void reduce_merge(const kit_tensor *input, const bool *is_reduced, bool may_split, reduce_layout *layout)
{
    int64_t dims[INLAY_MAX_RANK], strides[INLAY_MAX_RANK], stride = 1;
    const int64_t bytes = inlay_dtype_bits(input->dtype) / 8;
    bool kinds[INLAY_MAX_RANK];
    uint32_t groups = 0; /* innermost first */

    *layout = (reduce_layout){ .rows = 1, .inner = 1, .kept = 1, .outputs = 1, .reduced = 1, .tiles = 1, .splits = 1 };
    for (uint32_t axis = input->rank; axis-- > 0; stride *= input->dims[axis]) {
        if (is_reduced[axis])
            layout->reduced *= input->dims[axis];
        else
            layout->outputs *= input->dims[axis];
        if (input->dims[axis] == 1)
            continue;
        if (groups > 0 && kinds[groups - 1] == is_reduced[axis]) {
            dims[groups - 1] *= input->dims[axis];
            continue;
        }
        dims[groups] = input->dims[axis];
        strides[groups] = stride;
        kinds[groups++] = is_reduced[axis];
    }
    if (groups > 0) {
        layout->inner = dims[0];
        layout->inner_reduced = kinds[0];
    }
    for (uint32_t group = groups; group-- > 1;) { /* outermost first */
        if (kinds[group]) {
            layout->reduced_dims[layout->reduced_rank] = dims[group];
            layout->reduced_strides[layout->reduced_rank++] = strides[group];
        } else {
            layout->kept_dims[layout->kept_rank] = dims[group];
            layout->kept_strides[layout->kept_rank++] = strides[group];
            layout->kept *= dims[group];
        }
    }
    INLAY_CHECK(layout->kept_rank + layout->reduced_rank <= INLAY_MAX_RANK);
    if (layout->reduced_rank > 0) {
        layout->rows = layout->reduced_dims[--layout->reduced_rank];
        layout->row_stride = layout->reduced_strides[layout->reduced_rank];
    }
    if (groups == 2 && layout->inner_reduced)
        layout->cut = axis_cut_of(layout->kept, layout->inner, 1, bytes, bytes, true, REDUCE_TILE,
                                  bytes > 4 ? LONG_ROWS_FROM : AXIS_LONG);
    else if (!layout->inner_reduced && layout->kept_rank <= 1 && layout->rows > 1 && layout->reduced_rank == 0)
        layout->cut =
            axis_cut_of(layout->kept, layout->rows, layout->inner, bytes, bytes, true, REDUCE_TILE, AXIS_LONG);
    if (!layout->inner_reduced)
        layout->tiles = (layout->inner + REDUCE_TILE - 1) / REDUCE_TILE;
    if (may_split && layout->cut.group == 0 && layout->kept * layout->tiles < REDUCE_SPLITS && layout->reduced > 0 &&
        layout->outputs <= REDUCE_SPLIT_MIN && layout->reduced * layout->outputs >= 2 * REDUCE_SPLIT_MIN) {
        int64_t max_splits = layout->reduced * layout->outputs / REDUCE_SPLIT_MIN;
        layout->splits = max_splits < REDUCE_SPLITS ? max_splits : REDUCE_SPLITS;
    }
}

/* outputs: number of elements of the output. */
static inlay_status find_layout(const reduce_state *state, const kit_tensor *input, const kit_tensor *axes,
                                int64_t outputs, bool may_split, reduce_layout *layout, inlay_diag *diag)
{
    bool is_reduced[INLAY_MAX_RANK];
    inlay_status status = reduce_axes(state, input, axes, is_reduced, diag);

    if (status != INLAY_OK)
        return status;
    if (input->count > 0) {
        reduce_merge(input, is_reduced, may_split && state->op->fold != FOLD_EXPONENTIALS, layout);
        return INLAY_OK;
    }
    /* If a dim is 0, the product of the others may be huge; only elements of the output get the neutral element. */
    outputs = outputs > 0 ? outputs : 0;
    *layout = (reduce_layout){ .inner_reduced = true, .kept = outputs, .outputs = outputs, .tiles = 1, .splits = 1 };
    return INLAY_OK;
}

static inlay_status shape_reduce(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const reduce_state *attributes = state;
    const kit_tensor *input = &plan->in[0];
    const kit_tensor *axes = plan->in_count > 1 && plan->in[1].dtype != INLAY_UNDEFINED ? &plan->in[1] : NULL;
    const reduce_type *type =
        attributes->op->finish >= FINISH_ROOT ? reduce_real_types[input->dtype] : reduce_types[input->dtype];
    reduce_layout *layout = kit_plan_new(plan, sizeof *layout);
    inlay_status status;

    if (layout == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a reduction's plan");
    layout->late = axes != NULL && axes->data == NULL && axes->count > 0;
    if (layout->late) /* as many axes as the input has leave one element, whatever their order */
        return INLAY_OK;
    status = find_layout(attributes, input, axes, plan->out[0].count, true, layout, diag);
    if (status != INLAY_OK)
        return status;
    if (layout->splits > 1)
        plan->workspace_bytes = (uint64_t)layout->splits * (uint64_t)layout->outputs * type->acc_bytes;
    return INLAY_OK;
}

typedef struct reduce_job {
    const reduce_layout *layout;
    const reduce_type *type;
    const reduce_op *op;
    const char *input;
    char *output;
    char *partials; /* [splits, outputs] accumulators; NULL without splits */
} reduce_job;

/* Folds a tile into acc. shifts: NULL: zeros. */
static void reduce_tile(const reduce_type *type, reduce_fold fold, const char *elements, const axis_tile *tile,
                        void *acc, const void *shifts)
{
    alignas(64) static const char zeros[REDUCE_TILE * sizeof(double)];
    const int64_t whole = tile->last == tile->columns ? tile->rows : tile->rows - 1;

    shifts = shifts != NULL ? shifts : zeros;
    fold(acc, elements, whole, tile->stride, tile->columns, shifts);
    if (whole < tile->rows)
        fold(acc, elements + whole * tile->stride * type->elem_bytes, 1, tile->stride, tile->last, shifts);
}

/* Folds all elements of outputs [0, columns), which start at `elements`, into acc, which has REDUCE_TILE accumulators.
 * split: part of the last reduced axis. shifts: an array like acc, or NULL. */
static void reduce_fold_item(const reduce_job *job, uint32_t fold, const char *elements, int64_t columns, int64_t split,
                             char *acc, char *shifts)
{
    const reduce_layout *layout = job->layout;
    const reduce_type *type = job->type;
    int64_t index[INLAY_MAX_RANK];
    int64_t rows = layout->rows, row_begin = 0;
    int64_t element_bytes = type->elem_bytes, acc_bytes = type->acc_bytes;
    axis_tile tile;

    INLAY_CHECK(split >= 0 && split < layout->splits);
    if (layout->splits > 1) { /* split the rows, or the columns of a single row */
        int64_t *split_length = rows > 1 || !layout->inner_reduced ? &rows : &columns;
        int64_t whole_length = *split_length, begin = whole_length * split / layout->splits;
        *split_length = whole_length * (split + 1) / layout->splits - begin;
        row_begin = begin * (split_length == &rows ? layout->row_stride : 1);
    }
    tile = !layout->inner_reduced && layout->row_stride == columns && rows > 0
               ? axis_tile_of(rows, columns)
               : (axis_tile){ rows, layout->row_stride, columns, columns, columns };
    type->init(acc, layout->inner_reduced ? 1 : tile.columns, fold);
    if (layout->reduced == 0)
        return;
    for (int64_t have = tile.period; shifts != NULL && have < tile.columns; have *= 2)
        memcpy(shifts + have * acc_bytes, shifts, (size_t)(have * acc_bytes));
    elements += row_begin * element_bytes;
    for (uint32_t axis = 0; axis < layout->reduced_rank; axis++)
        index[axis] = 0;
    for (bool more = true; more;) {
        reduce_tile(type, layout->inner_reduced ? type->row[fold] : type->tile[fold], elements, &tile, acc, shifts);
        more = false;
        for (uint32_t axis = layout->reduced_rank; axis-- > 0 && !more;) { /* the next index of the outer axes */
            elements += layout->reduced_strides[axis] * element_bytes;
            more = ++index[axis] < layout->reduced_dims[axis];
            if (!more) {
                elements -= index[axis] * layout->reduced_strides[axis] * element_bytes;
                index[axis] = 0;
            }
        }
    }
    for (int64_t half = tile.columns / 2; half >= tile.period; half /= 2)
        type->combine(acc, acc + half * acc_bytes, half, fold);
}

/* An axis_fn for transposed tiles; ctx: a reduce_job. */
static void reduce_columns(const void *ctx, const void *input, void *output, const axis_tile *tile)
{
    const reduce_job *job = ctx;
    const reduce_type *type = job->type;
    alignas(64) char acc[REDUCE_TILE * sizeof(double)];
    alignas(64) char maxima[REDUCE_TILE * sizeof(double)];
    const bool shifted = job->op->fold == FOLD_EXPONENTIALS;

    INLAY_CHECK(tile->columns <= REDUCE_TILE && tile->period == tile->columns);
    if (shifted) {
        type->init(maxima, tile->columns, FOLD_MAX);
        reduce_tile(type, type->tile[FOLD_MAX], input, tile, maxima, NULL);
        type->tame(maxima, tile->columns);
    }
    type->init(acc, tile->columns, job->op->fold);
    reduce_tile(type, type->tile[job->op->fold], input, tile, acc, shifted ? maxima : NULL);
    type->finish(output, acc, maxima, tile->columns, job->op->finish, job->layout->reduced);
}

static inlay_status reduce_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const reduce_job *job = user;

    (void)worker;
    axis_run(&job->layout->cut, begin, end, job->input, job->output, reduce_columns, job);
    return INLAY_OK;
}

/* True if each item is a contiguous row that is folded once. */
static bool reduces_rows(const reduce_job *job)
{
    const reduce_layout *layout = job->layout;

    return layout->inner_reduced && layout->rows == 1 && layout->reduced_rank == 0 && layout->kept_rank <= 1 &&
           layout->reduced > 0 && job->partials == NULL && job->op->fold != FOLD_EXPONENTIALS;
}

/* Processes such rows. */
static void reduce_rows(const reduce_job *job, int64_t begin, int64_t end)
{
    alignas(64) static const char zeros[sizeof(double)];
    const reduce_type *type = job->type;
    const reduce_fold fold = type->row[job->op->fold];
    const int64_t n = job->layout->inner;
    alignas(64) char acc[REDUCE_TILE * sizeof(double)];

    for (int64_t first = begin; first < end; first += REDUCE_TILE) {
        const int64_t count = end - first < REDUCE_TILE ? end - first : REDUCE_TILE;
        const char *row = job->input + first * n * type->elem_bytes;

        type->init(acc, count, job->op->fold);
        for (int64_t r = 0; r < count; r++, row += n * type->elem_bytes)
            fold(acc + r * type->acc_bytes, row, 1, 0, n, zeros);
        type->finish(job->output + first * type->elem_bytes, acc, acc, count, job->op->finish, n);
    }
}

/* Processes items (split, kept index, tile); the last index varies fastest. */
static inlay_status reduce_items(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const reduce_job *job = user;
    const reduce_layout *layout = job->layout;
    const reduce_type *type = job->type;
    alignas(64) char acc[REDUCE_TILE * sizeof(double)];
    alignas(64) char maxima[REDUCE_TILE * sizeof(double)];
    char *const shifts = job->op->fold == FOLD_EXPONENTIALS ? maxima : NULL;

    INLAY_CHECK(layout->kept > 0 && layout->tiles > 0);
    (void)worker;
    if (reduces_rows(job)) {
        reduce_rows(job, begin, end);
        return INLAY_OK;
    }
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = layout->tiles == 1 ? item : item / layout->tiles,
                      split = layout->splits == 1 ? 0 : row / layout->kept;
        int64_t tile = item - row * layout->tiles,
                kept = row - split * layout->kept; /* divisions are avoided: one takes as long as a short row */
        int64_t first = tile * REDUCE_TILE;        /* column */
        int64_t columns = layout->inner_reduced                 ? layout->inner
                          : layout->inner - first < REDUCE_TILE ? layout->inner - first
                                                                : REDUCE_TILE;
        int64_t width = layout->inner_reduced ? 1 : columns;
        int64_t output_index = layout->inner_reduced ? kept : kept * layout->inner + first;
        int64_t offset = layout->inner_reduced ? 0 : first;
        const char *elements;

        for (uint32_t axis = layout->kept_rank; axis-- > 1; kept /= layout->kept_dims[axis])
            offset += kept % layout->kept_dims[axis] * layout->kept_strides[axis];
        offset += layout->kept_rank > 0 ? kept * layout->kept_strides[0] : 0;
        elements = job->input + offset * type->elem_bytes;
        if (shifts != NULL) { /* exp(x - max) cannot overflow */
            reduce_fold_item(job, FOLD_MAX, elements, columns, split, maxima, NULL);
            type->tame(maxima, width);
        }
        reduce_fold_item(job, job->op->fold, elements, columns, split, acc, shifts);
        if (job->partials != NULL)
            memcpy(job->partials + (split * layout->outputs + output_index) * type->acc_bytes, acc,
                   (size_t)width * type->acc_bytes);
        else
            type->finish(job->output + output_index * type->elem_bytes, acc, maxima, width, job->op->finish,
                         layout->reduced);
    }
    return INLAY_OK;
}

static inlay_status run_reduce(const kit_call *call)
{
    const reduce_state *state = call->state;
    const reduce_layout *layout = call->plan;
    const kit_tensor *input = &call->in[0];
    reduce_layout late;
    const reduce_type *type =
        state->op->finish >= FINISH_ROOT ? reduce_real_types[input->dtype] : reduce_types[input->dtype];
    reduce_job job = { NULL, type, state->op, input->data, call->out[0].data, NULL };
    int64_t per_item, grain;
    inlay_status status;

    INLAY_CHECK(type != NULL);
    if (layout->late) {
        status = find_layout(state, input, &call->in[1], call->out[0].count, false, &late, call->diag);
        if (status != INLAY_OK)
            return status;
        layout = &late;
    }
    job.layout = layout;
    if (call->out[0].count != layout->outputs)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "%s: the output has %lld elements, the reduction %lld",
                          state->op->name, (long long)call->out[0].count, (long long)layout->outputs);
    if (layout->outputs == 0)
        return INLAY_OK;
    if (layout->splits > 1)
        job.partials = call->workspace;
    if (layout->cut.group > 0)
        return kit_parallel(call, layout->cut.units, REDUCE_GRAIN / (input->count / layout->cut.units + 1) + 1,
                            reduce_units, &job);
    per_item = layout->reduced * layout->outputs / (layout->splits * layout->kept * layout->tiles) + 1;
    grain = REDUCE_GRAIN / per_item + 1;
    status = kit_parallel(call, layout->splits * layout->kept * layout->tiles, grain, reduce_items, &job);
    if (status == INLAY_OK && layout->splits > 1) {
        int64_t bytes = layout->outputs * type->acc_bytes;
        for (int64_t i = 1; i < layout->splits; i++)
            type->combine(job.partials, job.partials + i * bytes, layout->outputs, state->op->fold);
        type->finish(job.output, job.partials, job.partials, layout->outputs, state->op->finish, layout->reduced);
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
const kit_table OPERATOR(operators_reduce) = { kernels, KIT_COUNT(kernels) };
