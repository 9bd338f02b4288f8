/* Reductions (ONNX ReduceMean, Sum, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp) by built-in loops over any
 * axes. If the innermost axes are reduced, the loop runs over rows; if other adjacent axes are, over blocks of columns;
 * otherwise the input is copied with the reduced axes last. Means and maxima over all pixels of an image run as pooling
 * (pool.c), which reads images in any layout.
 *
 * Sums are accumulated in double and rounded once, so that sums of rows equal those of LayerNormalization (rows.h). */
#include "cpu/elementwise/elementwise.h"
#include "cpu/normalization/normalize.h"
#include "cpu/region/build.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
#include "simd/row_set.h"
#include "cpu/normalization/row_loops.h"
#include "cpu/weights/read.h"
#include "simd/vecmath.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(cpu_reduce_empty);

/* Functions that are applied to the result of the fold (FOLD_*). */
enum { FINISH_NONE, FINISH_MEAN, FINISH_ROOT, FINISH_LOG };

static const struct kind {
    const char *op_type;
    uint32_t fold, finish;
    float empty_result; /* of no elements */
    bool keeps_one;     /* the reduction of one element is the element */
} kinds[] = {
    { "ReduceMean", FOLD_SUM, FINISH_MEAN, NAN, true },
    { "ReduceSum", FOLD_SUM, FINISH_NONE, 0, true },
    { "ReduceMax", FOLD_MAX, FINISH_NONE, -INFINITY, true },
    { "ReduceMin", FOLD_MIN, FINISH_NONE, INFINITY, true },
    { "ReduceProd", FOLD_PRODUCT, FINISH_NONE, 1, true },
    { "ReduceL1", FOLD_MAGNITUDES, FINISH_NONE, 0, false },
    { "ReduceL2", FOLD_SQUARES, FINISH_ROOT, 0, false },
    { "ReduceSumSquare", FOLD_SQUARES, FINISH_NONE, 0, false },
    { "ReduceLogSum", FOLD_SUM, FINISH_LOG, -INFINITY, false },
    { "ReduceLogSumExp", FOLD_EXPONENTIALS, FINISH_LOG, -INFINITY, false },
};

static const struct kind *kind_of(const char *op_type)
{
    uint32_t i = 0;

    while (i + 1 < KIT_COUNT(kinds) && strcmp(kinds[i].op_type, op_type) != 0)
        i++;
    return &kinds[i];
}

/* The reduced axes as a bit mask; they must be constant. Old versions of the operators have an attribute, new ones an
 * input. */
static bool reduced_axes(const kit_node *node, uint32_t rank, uint32_t *out, kit_refusal *why)
{
    uint32_t count = 0;
    const int64_t *axes = kit_attr_ints(node->info, "axes", &count);
    int64_t list[CPU_MAX_RANK];

    *out = 0;
    if (axes == NULL && kit_input(node, 1) != NULL) {
        if (!cpu_known_ints(kit_input(node, 1), list, CPU_MAX_RANK, &count))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "make the axes a constant", "the axes are not constant");
        axes = list;
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis;

        if (!cpu_axis(axes[i], rank, &axis))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "an axis is outside the tensor");
        *out |= 1u << axis;
    }
    if (count == 0) {
        if (kit_attr_int(node->info, "noop_with_empty_axes", 0) != 0)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "noop_with_empty_axes with no axes is not supported");
        *out = (1u << rank) - 1;
    }
    return true;
}

static bool parse_reduce(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);
    const char *type = op->row->op_type;
    uint32_t rank, images;

    if (!cpu_known_rank(input, 2, CPU_MAX_RANK, "input 0", why) ||
        !reduced_axes(node, input->rank, &op->reduction.axes, why))
        return false;
    rank = input->rank;
    op->reduction.keepdims = kit_attr_int(node->info, "keepdims", 1) != 0;
    images = rank >= 3 && rank <= 5 ? ((1u << rank) - 1) & ~3u : 0;
    if (op->reduction.axes == images && images != 0 &&
        (strcmp(type, "ReduceMean") == 0 || strcmp(type, "ReduceMax") == 0)) {
        op->window.global = true;
        op->window.spatial = rank - 2;
        op->function = strcmp(type, "ReduceMax") == 0 ? FUNCTION_POOL_MAX : FUNCTION_POOL_MEAN;
    }
    return true;
}

float cpu_reduce_empty(const cpu_op *op)
{
    return kind_of(op->row->op_type)->empty_result;
}

/* Reduces `count` blocks of n rows with `inner` columns along n; inner 1: `count` rows of n elements. */
struct reduction {
    cpu_native native;
    int64_t count, n, inner;
    const struct kind *kind;
};

typedef struct reduction_call {
    const struct reduction *reduction;
    const float *input;
    float *output;
    axis_cut cut;
} reduction_call;

static void finish(const struct reduction *reduction, float *output, int64_t count)
{
    const float n = (float)reduction->n;

    for (int64_t i = 0; i < count && reduction->kind->finish == FINISH_MEAN; i++)
        output[i] = output[i] / n;
    for (int64_t i = 0; i < count && reduction->kind->finish == FINISH_ROOT; i++)
        output[i] = sqrtf(output[i]);
    for (int64_t i = 0;
         i < count && reduction->kind->finish == FINISH_LOG && reduction->kind->fold != FOLD_EXPONENTIALS; i++)
        output[i] = vm_log(output[i]);
}

/* An axis_fn; ctx: a struct reduction. */
static void reduce_tile(const void *ctx, const void *input, void *output, const axis_tile *tile)
{
    const struct reduction *reduction = ctx;

    INLAY_CHECK(tile->columns <= FOLD_COLUMNS);
    KERNEL_BEST(row_loops)->folds[reduction->kind->fold].columns(input, output, tile);
    finish(reduction, output, tile->period);
}

static inlay_status reduce_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const reduction_call *call = user;
    const struct reduction *reduction = call->reduction;

    (void)worker;
    INLAY_CHECK(reduction->kind->fold < FOLD_COUNT);
    if (axis_is_rows(&call->cut)) {
        KERNEL_BEST(row_loops)->folds[reduction->kind->fold].rows(call->input + begin * reduction->n,
                                                                  call->output + begin, end - begin, reduction->n);
        finish(reduction, call->output + begin, end - begin);
    } else {
        axis_run(&call->cut, begin, end, call->input, call->output, reduce_tile, reduction);
    }
    return INLAY_OK;
}

static inlay_status run_reduction(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    enum { LEAST = 128, ROWS_FROM = 17 }; /* columns of a tile, if there are threads for more; elements of rows */
    const struct reduction *reduction = (const struct reduction *)(const void *)native;
    reduction_call call = { .reduction = reduction, .input = args[0], .output = args[1] };
    int64_t width = reduction->inner < FOLD_COLUMNS ? reduction->inner : FOLD_COLUMNS, grain;

    while (width > LEAST && reduction->count * (reduction->inner / width) < (int64_t)threads)
        width = (width / 2 + 15) / 16 * 16;
    call.cut = axis_cut_of(reduction->count, reduction->n, reduction->inner, sizeof(float), sizeof(float), true,
                           width > LEAST ? width : LEAST, ROWS_FROM);
    grain = 32768 / axis_unit_elements(&call.cut) + 1;
    if (threads <= 1 || call.cut.units <= grain)
        return reduce_range(&call, 0, call.cut.units, 0);
    return state->host->parallel_for(state->host->ctx, run, call.cut.units, grain, reduce_range, &call);
}

/* True if the reduced axes of a dense input are adjacent in memory and the other axes are in their order, so that the
 * result is row-major. Axes of size 1 are ignored. *count, *n, *inner: elements of the axes outside, of and inside the
 * reduced ones. */
static bool axes_are_adjacent(const tensor_layout *input, uint32_t axes, int64_t *count, int64_t *n, int64_t *inner)
{
    const int64_t *strides = input->strides;
    int order[CPU_MAX_RANK], rank = 0, last_kept = -1;
    int64_t *part = count;

    for (int d = 0; d < input->rank; d++) { /* sorts by stride, outermost first */
        int at = rank;

        if (input->dims[d] == 1)
            continue;
        for (; at > 0 && strides[order[at - 1]] < strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
        rank++;
    }
    *count = *n = *inner = 1;
    for (int k = 0; k < rank; k++) {
        const bool reduced = (axes & (1u << order[k])) != 0;

        if ((reduced && part == inner) || (!reduced && order[k] < last_kept))
            return false;
        if (reduced)
            part = n;
        else if (part == n)
            part = inner;
        if (!reduced)
            last_kept = order[k];
        *part *= input->dims[order[k]];
    }
    return true;
}

/* A dense layout with the kept axes outside and the reduced axes inside, each in their order. */
static void reduced_last(const cpu_build *build, uint32_t value, uint32_t axes, tensor_layout *out)
{
    int64_t strides[CPU_MAX_RANK], stride = 1;

    for (int pass = 1; pass >= 0; pass--)
        for (uint32_t d = build->ranks[value]; d-- > 0;) {
            if (((axes >> d) & 1) != (uint32_t)pass)
                continue;
            strides[d] = stride;
            stride *= build->dims[value][d];
        }
    layout_strides(out, build->ranks[value], build->dims[value], strides);
}

static inlay_status lower_reduce(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const uint32_t value = op->in[0], rank = build->ranks[value];
    struct reduction reduction = { .native.run = run_reduction, .kind = kind_of(op->row->op_type) };
    cpu_place in, out;
    inlay_status status;
    bool dense;
    tensor_layout layout;

    INLAY_TRY(cpu_read_summed(build, value, &in));
    dense = layout_is_dense(&in.layout);
    /* Maxima over all pixels run as pooling, and means if channels are last; other means are sums of rows. A
     * channels-last tensor with one spatial axis is mostly a transposed sequence, which is summed like other rows. */
    if (op->window.global &&
        (op->function == FUNCTION_POOL_MAX || (layout_is_image(&in.layout) && !(rank == 3 && dense))))
        return cpu_pool.lower(build, group);
    layout_plain(&layout, rank, build->dims[value]);
    if (dense && axes_are_adjacent(&in.layout, op->reduction.axes, &reduction.count, &reduction.n, &reduction.inner)) {
        /* the present layout is suitable */
    } else if (axes_are_adjacent(&layout, op->reduction.axes, &reduction.count, &reduction.n, &reduction.inner)) {
        INLAY_TRY(cpu_read_plain(build, value, &in));
    } else {
        reduced_last(build, value, op->reduction.axes, &layout);
        INLAY_TRY(cpu_read_as(build, value, &layout, &in));
        reduction.n = reduction.inner = 1;
        for (uint32_t d = 0; d < rank; d++)
            reduction.n *= (op->reduction.axes & (1u << d)) != 0 ? build->dims[value][d] : 1;
        reduction.count = cpu_count(build, value) / reduction.n;
    }
    layout_plain(&layout, build->ranks[group->out], build->dims[group->out]);
    if (reduction.n == 1 && reduction.kind->keeps_one) {
        INLAY_TRY(cpu_read_plain(build, value, &in));
        in.layout = layout;
        return cpu_finish(build, group, 0, &in, false);
    }
    INLAY_TRY(cpu_result_place(build, group->out, &layout, &out));
    INLAY_TRY(cpu_emit_step(build, &reduction.native, sizeof reduction, (const cpu_place *const[]){ &in, &out }, 2));
    status = cpu_finish(build, group, 0, &out, false);
done:
    return status;
}

const cpu_family cpu_reduce = {
    .kind = CPU_FAMILY_REDUCE, .name = "reduction", .parse = parse_reduce, .lower = lower_reduce
};
