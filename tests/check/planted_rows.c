/* Correct kernels of Softmax, Gather, Concat, LayerNormalization and the reductions, in which option `fault` plants one
 * of the defects that kernels along an axis have: an attribute, an input, a shape, a type or a value that they do not
 * regard. Without a fault nothing is wrong. */
#include "planted.h"

enum fault {
    NONE,
    SOFTMAX_AXIS,
    SOFTMAX_OVERFLOW,
    SOFTMAX_LONG,
    SOFTMAX_SINGLE,
    SOFTMAX_NAN,
    GATHER_NEGATIVE,
    GATHER_SCALAR,
    GATHER_INT32,
    GATHER_AXIS,
    GATHER_LAST,
    GATHER_BYTES,
    GATHER_HALVES,
    CONCAT_EMPTY,
    CONCAT_MANY,
    CONCAT_NEGATIVE_AXIS,
    CONCAT_ORDER,
    CONCAT_WIDE,
    NORM_EPSILON,
    NORM_AXIS,
    NORM_MEAN,
    NORM_DEVIATION,
    NORM_BIAS,
    NORM_SCALE,
    NORM_ONE_PASS,
    REDUCE_NOOP,
    REDUCE_NEGATIVE,
    REDUCE_FLOAT,
    REDUCE_APART,
    REDUCE_FIRST,
    REDUCE_ZERO,
    REDUCE_EMPTY,
    REDUCE_LARGE,
    REDUCE_HALVES,
    FAULTS
};

static inlay_status no_memory(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "the state of a kernel");
}

/* The number of elements of dims[from] to dims[to - 1]. */
static int64_t product(const int64_t *dims, uint32_t from, uint32_t to)
{
    int64_t count = 1;

    for (uint32_t d = from; d < to; d++)
        count *= dims[d];
    return count;
}

static inlay_status axis_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    int64_t *axis = malloc(sizeof *axis);

    if (axis == NULL)
        return no_memory(diag);
    *axis = kit_attr_int(node->info, "axis", strcmp(node->info->op_type.data, "Gather") == 0 ? 0 : -1);
    *out_state = axis;
    return INLAY_OK;
}

static uint32_t axis_of(const kit_call *call, bool is_off_by_one)
{
    const int64_t axis = *(const int64_t *)call->state, from_end = axis + call->in[0].rank - is_off_by_one;

    return (uint32_t)(axis >= 0 ? axis : from_end >= 0 ? from_end : 0);
}

static void softmax_row(const float *x, float *y, int64_t count, int64_t pitch)
{
    const int64_t seen = has(SOFTMAX_LONG) && count > 32 ? 32 : count;
    float largest = has(SOFTMAX_OVERFLOW) ? 0 : -INFINITY, sum = 0;

    for (int64_t i = 0; i < count && !has(SOFTMAX_OVERFLOW); i++)
        largest = x[i * pitch] > largest || (isnan(x[i * pitch]) && !has(SOFTMAX_NAN)) ? x[i * pitch] : largest;
    for (int64_t i = 0; i < count; i++) {
        const float power = has(SOFTMAX_NAN) && isnan(x[i * pitch]) ? 0 : expf(x[i * pitch] - largest);

        sum += i < seen ? power : 0;
        y[i * pitch] = power;
    }
    for (int64_t i = 0; i < count; i++)
        y[i * pitch] = has(SOFTMAX_SINGLE) && count == 1 ? y[0] / (1 + sum) : y[i * pitch] / sum;
}

PLANTED_KERNEL(softmax_run)
{
    const kit_tensor *in = &call->in[0];
    const int64_t given = *(const int64_t *)call->state;
    const uint32_t axis = has(SOFTMAX_AXIS) && given < -1 ? in->rank - 1 : axis_of(call, false);
    const int64_t count = in->rank > 0 ? in->dims[axis] : 1;
    const int64_t pitch = in->rank > 0 ? product(in->dims, axis + 1, in->rank) : 1;

    for (int64_t row = 0; row < (count > 0 ? in->count / count : 0); row++) {
        const int64_t at = row / pitch * pitch * count + row % pitch;

        softmax_row((const float *)in->data + at, (float *)call->out[0].data + at, count, pitch);
    }
    return INLAY_OK;
}

PLANTED_KERNEL(gather_run)
{
    const kit_tensor *in = &call->in[0], *indices = &call->in[1];
    const uint32_t axis = has(GATHER_SCALAR) && indices->rank == 0 ? 0
                          : has(GATHER_AXIS) && indices->rank > 1  ? in->rank - 1
                                                                   : axis_of(call, false);
    const int64_t pitch = product(in->dims, axis + 1, in->rank), rows = in->dims[axis];
    const size_t width = inlay_dtype_bits(in->dtype) / 8;
    const size_t bytes = (size_t)pitch * (has(GATHER_BYTES) && width == 2 && pitch > 1 ? 1 : width);

    for (int64_t i = 0; i < product(in->dims, 0, axis) * indices->count; i++) {
        const int64_t k = i % indices->count;
        int64_t index = indices->dtype == INLAY_INT64 && !has(GATHER_HALVES) ? ((const int64_t *)indices->data)[k]
                                                                             : ((const int32_t *)indices->data)[k];

        if (has(GATHER_INT32) && indices->dtype == INLAY_INT32)
            index = index < 0 ? 0 : index;
        if (index < 0)
            index = has(GATHER_NEGATIVE) ? -index - 1 : index + rows;
        if (index < 0 || index >= rows)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "index %lld of %lld", (long long)index,
                              (long long)rows);
        if (has(GATHER_LAST) && rows > 8 && index == rows - 1)
            index--;
        if ((i + 1) * pitch <= call->out[0].count)
            memcpy((char *)call->out[0].data + (size_t)(i * pitch) * width,
                   (const char *)in->data + (size_t)((i / indices->count * rows + index) * pitch) * width, bytes);
    }
    return INLAY_OK;
}

PLANTED_KERNEL(concat_run)
{
    const kit_tensor *out = &call->out[0];
    const uint32_t axis = axis_of(call, has(CONCAT_NEGATIVE_AXIS));
    const int64_t outer = product(out->dims, 0, axis);
    const size_t width = inlay_dtype_bits(out->dtype) / 8;
    char *to = out->data;
    const char *const end = to + (size_t)out->count * width;

    for (int64_t row = 0; row < outer; row++)
        for (uint32_t i = 0; i < call->in_count; i++) {
            const kit_tensor *in = &call->in[has(CONCAT_ORDER) && call->in_count > 3 && i > 1 ? i ^ 1 : i];
            size_t bytes = (size_t)product(in->dims, axis, in->rank) * width;

            if (has(CONCAT_EMPTY) && in->count == 0 && (size_t)(end - to) >= width)
                memset(to, 1, width), to += width;
            if ((has(CONCAT_MANY) && i >= 6) || in->count == 0 || (size_t)(end - to) < bytes)
                continue;
            if (has(CONCAT_WIDE) && width == 8 && bytes > 64)
                bytes -= width;
            memcpy(to, (const char *)in->data + (size_t)row * bytes, bytes);
            to += bytes;
        }
    return INLAY_OK;
}

struct norm {
    int64_t axis;
    float epsilon;
};

static inlay_status norm_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    struct norm *norm = malloc(sizeof *norm);

    if (norm == NULL)
        return no_memory(diag);
    *norm = (struct norm){ .axis = has(NORM_AXIS) ? -1 : kit_attr_int(node->info, "axis", -1),
                           .epsilon = has(NORM_EPSILON) ? 1e-5F : (float)kit_attr_float(node->info, "epsilon", 1e-5) };
    *out_state = norm;
    return INLAY_OK;
}

/* The element of a scale or bias, broadcast to the shape of x, for element `at` of x. */
static float broadcast(const kit_tensor *small, const kit_tensor *x, int64_t at)
{
    int64_t from = 0, pitch = 1;

    for (uint32_t i = 1; i <= small->rank && i <= x->rank; i++) {
        const int64_t dim = small->dims[small->rank - i];

        from += dim > 1 ? at % x->dims[x->rank - i] * pitch : 0;
        at /= x->dims[x->rank - i];
        pitch *= dim;
    }
    return ((const float *)small->data)[has(NORM_SCALE) && small->rank > 1 ? 0 : from];
}

static void norm_statistics(const float *x, int64_t count, double *out_mean, double *out_variance)
{
    double sum = 0, squares = 0;
    float narrow = 0, narrow_squares = 0;

    for (int64_t i = 0; i < count; i++) {
        sum += (double)x[i];
        narrow += x[i];
        narrow_squares += x[i] * x[i];
    }
    *out_mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += ((double)x[i] - *out_mean) * ((double)x[i] - *out_mean);
    *out_variance = squares / (double)count;
    if (has(NORM_ONE_PASS)) {
        narrow /= (float)count;
        *out_variance = fmax(0, (double)(narrow_squares / (float)count - narrow * narrow));
    }
}

PLANTED_KERNEL(norm_run)
{
    const struct norm *norm = call->state;
    const kit_tensor *x = &call->in[0];
    const uint32_t axis = (uint32_t)(norm->axis >= 0 ? norm->axis : norm->axis + x->rank);
    const int64_t count = product(x->dims, axis, x->rank);

    for (int64_t row = 0; row < (count > 0 ? x->count / count : 0); row++) {
        const float *from = (const float *)x->data + row * count;
        double mean, variance, factor;

        norm_statistics(from, count, &mean, &variance);
        factor = 1 / sqrt(variance + (double)norm->epsilon);
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = row * count + i;
            const bool is_biased = kit_has_input(call, 2) && !(has(NORM_BIAS) && call->in[2].count == 1);
            const double shift = is_biased ? (double)broadcast(&call->in[2], x, at) : 0;

            ((float *)call->out[0].data)[at] =
                (float)(((double)from[i] - mean) * factor * (double)broadcast(&call->in[1], x, at) + shift);
        }
        if (kit_has_output(call, 1) && row < call->out[1].count)
            ((float *)call->out[1].data)[row] = (float)(has(NORM_MEAN) ? 0 : mean);
        if (kit_has_output(call, 2) && row < call->out[2].count)
            ((float *)call->out[2].data)[row] = (float)(has(NORM_DEVIATION) ? variance : factor);
    }
    return INLAY_OK;
}

static bool reduce_supports(const kit_node *node, kit_refusal *why)
{
    if (kit_input(node, 1) == NULL || kit_is_constant(node, 1))
        return true;
    return kit_refuse(why, INLAY_REFUSE_SHAPE, "", "the axes must be constants");
}

struct reduce {
    int64_t axes[MOST_RANK];
    uint32_t count;
    bool does_nothing, is_max;
};

static inlay_status reduce_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    struct reduce *reduce = calloc(1, sizeof *reduce);
    const inlay_value_info *axes = kit_input(node, 1);

    if (reduce == NULL)
        return no_memory(diag);
    reduce->is_max = strcmp(node->info->op_type.data, "ReduceMax") == 0;
    for (uint32_t i = 0; axes != NULL && i < MOST_RANK && (int64_t)i < (axes->rank > 0 ? axes->dims[0].value : 1); i++)
        reduce->axes[reduce->count++] = has(REDUCE_HALVES) ? ((const int32_t *)kit_constant(node, 1))[i]
                                                           : ((const int64_t *)kit_constant(node, 1))[i];
    reduce->does_nothing =
        reduce->count == 0 && kit_attr_int(node->info, "noop_with_empty_axes", 0) != 0 && !has(REDUCE_NOOP);
    *out_state = reduce;
    return INLAY_OK;
}

/* Which axes are reduced, by bit. */
static uint32_t reduced_axes(const struct reduce *reduce, uint32_t rank)
{
    uint32_t reduced = reduce->count == 0 && !reduce->does_nothing ? (1u << rank) - 1 : 0;

    for (uint32_t i = 0; i < reduce->count; i++) {
        int64_t axis = reduce->axes[i];

        axis += axis >= 0 ? 0 : has(REDUCE_NEGATIVE) && axis < -1 && rank > 2 ? rank - 1 : rank;
        if (has(REDUCE_APART) && i > 0 && axis > reduce->axes[i - 1] + 1)
            axis = reduce->axes[i - 1] + 1;
        reduced |= 1u << (axis < (int64_t)rank ? axis : rank - 1);
    }
    return reduced;
}

/* The element of the result to which element `at` of the input belongs. */
static int64_t reduced_index(const kit_tensor *in, uint32_t reduced, int64_t at)
{
    int64_t index = 0, pitch = 1;

    for (uint32_t d = in->rank; d-- > 0;) {
        if ((reduced >> d & 1) == 0) {
            index += at % in->dims[d] * pitch;
            pitch *= in->dims[d];
        }
        at /= in->dims[d];
    }
    return index;
}

/* The sums, one for each element of the result. */
static inlay_status reduce_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state, (void)diag;
    plan->workspace_bytes = (uint64_t)plan->out[0].count * sizeof(double);
    return INLAY_OK;
}

PLANTED_KERNEL(reduce_run)
{
    const struct reduce *reduce = call->state;
    const kit_tensor *in = &call->in[0], *out = &call->out[0];
    const uint32_t reduced = reduced_axes(reduce, in->rank);
    const bool is_float = in->dtype == INLAY_FLOAT, is_zero = has(REDUCE_ZERO) || (has(REDUCE_EMPTY) && in->count == 0);
    const double least = is_zero ? 0 : is_float ? -INFINITY : INT32_MIN;
    double *results = call->workspace;

    for (int64_t i = 0; i < out->count; i++)
        results[i] = reduce->is_max ? least : has(REDUCE_FIRST) && reduced == 1 ? 1 : 0;
    for (int64_t at = 0; at < in->count && !(has(REDUCE_LARGE) && at > 4096); at++) {
        const double x = is_float ? (double)((const float *)in->data)[at] : (double)((const int32_t *)in->data)[at];
        const int64_t i = reduced_index(in, reduced, at);

        if (i >= out->count)
            continue;
        if (reduce->is_max)
            results[i] = x > results[i] || isnan(x) ? x : results[i];
        else
            results[i] = has(REDUCE_FLOAT) ? (double)((float)results[i] + (float)x) : results[i] + x;
    }
    for (int64_t i = 0; i < out->count; i++)
        if (is_float)
            ((float *)out->data)[i] = (float)results[i];
        else
            ((uint32_t *)out->data)[i] = (uint32_t)(int64_t)results[i]; /* a sum of integers wraps */
    return INLAY_OK;
}

#define WHOLE_BYTES (KIT_NUMBERS | KIT_BIT(BOOL) | KIT_COMPLEX)

static const kit_kernel kernels[] = {
    { .op_type = "Softmax",
      .since_min = 13,
      .in_types = { KIT_BIT(FLOAT) },
      .prepare = axis_prepare,
      .run = softmax_run },
    { .op_type = "Gather", .in_types = { WHOLE_BYTES }, .prepare = axis_prepare, .run = gather_run },
    { .op_type = "Concat", .since_min = 4, .in_types = { WHOLE_BYTES }, .prepare = axis_prepare, .run = concat_run },
    { .op_type = "LayerNormalization",
      .in_types = { KIT_BIT(FLOAT) },
      .out_types = { KIT_BIT(FLOAT), KIT_BIT(FLOAT) },
      .prepare = norm_prepare,
      .run = norm_run },
    { .op_type = "ReduceSum",
      .since_min = 13,
      .in_types = { KIT_BIT(FLOAT) | KIT_BIT(INT32) },
      .supports = reduce_supports,
      .prepare = reduce_prepare,
      .shape = reduce_shape,
      .run = reduce_run },
    { .op_type = "ReduceMax",
      .since_min = 18,
      .in_types = { KIT_BIT(FLOAT) | KIT_BIT(INT32) },
      .supports = reduce_supports,
      .prepare = reduce_prepare,
      .shape = reduce_shape,
      .run = reduce_run },
};
static const inlay_option options[] = { PLANTED_OPTIONS };

PLANTED_PLUGIN("planted_rows", "kernels along an axis with a planted defect", planted_open)
