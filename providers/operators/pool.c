/* MaxPool (ONNX 1, 8, 10, 11, 12, 22), AveragePool (1, 7, 10, 11, 19, 22), LpPool (1, 2, 11, 18, 22), and
 * MaxpoolWithMask of com.microsoft (1), any number of spatial axes. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "inlay/kit_node.h"
#include "operators/pool.h"
#include "simd/vecmath.h"
#include "operators/work.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { POOL_GRAIN = 1 << 14, POOL_SOME = 128 /* POOL_SOME: maximum number of windows that are processed together */ };
enum { POOL_MAX, POOL_MEAN, POOL_MAGNITUDE, POOL_EUCLID, POOL_POWER, POOL_KINDS };

/* The bits of infinity. */
static int16_t pool_infinity(inlay_dtype halves)
{
    return halves == INLAY_FLOAT16 ? 0x7c00 : 0x7f80;
}
/* The bits of a 16-bit float as a number in the order of the floats; every NaN is the largest number. */
static inline int16_t pool_key(int16_t bits, int16_t infinity)
{
    const int16_t magnitude = bits & INT16_MAX;

    return magnitude > infinity ? INT16_MAX : (int16_t)(bits ^ (bits >> 15 & INT16_MAX));
}
/* Its inverse; numbers below that of -infinity, for windows without elements, are -infinity, too. */
static inline int16_t pool_half(int16_t key, int16_t infinity)
{
    const int16_t inside = key < ~infinity ? (int16_t)~infinity : key;

    return (int16_t)(inside ^ (inside >> 15 & INT16_MAX));
}

#define BODY "pool.inc"
#include "operators/floats.inc"

#define NAME(what) what##_i8
#define SUFFIX i8
#define T int8_t
#define ACC int8_t
#define LOAD(x) (x)
#define STORE(v) (v)
#define POOL_MAX_ONLY INT8_MIN
#include "operators/pool.inc"
#undef NAME
#undef SUFFIX
#undef T
#undef ACC
#define NAME(what) what##_u8
#define SUFFIX u8
#define T uint8_t
#define ACC uint8_t
#define POOL_MAX_ONLY 0
#include "operators/pool.inc"
#undef NAME
#undef SUFFIX
#undef T
#undef ACC
#define NAME(what) what##_i16
#define SUFFIX i16
#define T int16_t
#define ACC int16_t
#define POOL_KEYS
#define POOL_MAX_ONLY INT16_MIN
#include "operators/pool.inc"
#undef NAME
#undef SUFFIX
#undef T
#undef ACC
#undef POOL_KEYS
#undef LOAD
#undef STORE

typedef void (*pool_rows_fn)(const pool_plan *plan, const void *input, void *output, int64_t begin, int64_t end,
                             void *scratch);
typedef void (*pool_indices_fn)(const pool_plan *plan, const void *input, void *output, int64_t *indices, int64_t begin,
                                int64_t end);

#define ROWS_OF_FLOATS(function)                                                                                       \
    {                                                                                                                  \
        [INLAY_FLOAT] = function##_f32, [INLAY_DOUBLE] = function##_f64, [INLAY_FLOAT16] = function##_f32,             \
        [INLAY_BFLOAT16] = function##_f32                                                                              \
    }
static const pool_rows_fn pool_rows[POOL_KINDS][INLAY_DTYPE_COUNT] = {
    { [INLAY_FLOAT] = pool_rows_max_f32,
      [INLAY_DOUBLE] = pool_rows_max_f64,
      [INLAY_FLOAT16] = pool_rows_max_i16,
      [INLAY_BFLOAT16] = pool_rows_max_i16,
      [INLAY_INT8] = pool_rows_max_i8,
      [INLAY_UINT8] = pool_rows_max_u8 },
    ROWS_OF_FLOATS(pool_rows_mean),
    ROWS_OF_FLOATS(pool_rows_magnitude),
    ROWS_OF_FLOATS(pool_rows_euclid),
    ROWS_OF_FLOATS(pool_rows_power),
};
static const pool_indices_fn pool_indices[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = pool_indices_f32,     [INLAY_DOUBLE] = pool_indices_f64, [INLAY_FLOAT16] = pool_indices_f16,
    [INLAY_BFLOAT16] = pool_indices_bf16, [INLAY_INT8] = pool_indices_i8,    [INLAY_UINT8] = pool_indices_u8,
};

enum { PAD_EXPLICIT, PAD_VALID, PAD_SAME_UPPER, PAD_SAME_LOWER };

typedef struct pool_state {
    uint32_t kind;
    uint32_t rank; /* spatial axes of the kernel */
    uint32_t auto_pad;
    bool ceil_mode, include_pad, column_major;
    double p;
    int64_t kernel[INLAY_MAX_RANK], strides[INLAY_MAX_RANK], dilations[INLAY_MAX_RANK];
    int64_t pads[2 * INLAY_MAX_RANK]; /* all begins, then all ends */
} pool_state;

/* Reads an attribute with `count` entries, which must be at least `least`. If the node does not have the attribute, all
 * entries are `otherwise`. */
static inlay_status pool_ints(const kit_node *node, const char *name, uint32_t count, int64_t least, int64_t otherwise,
                              int64_t *out, inlay_diag *diag)
{
    uint32_t entries;
    const int64_t *values = kit_attr_ints(node->info, name, &entries);

    if (entries != 0 && entries != count)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%s has %u entries; with this kernel_shape it must have %u", name,
                          entries, count);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = entries == 0 ? otherwise : values[i];
        if (out[i] < least || out[i] > INT32_MAX)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "%s[%u] is %lld; it must be at least %lld and below 2^31",
                              name, i, (long long)out[i], (long long)least);
    }
    return INLAY_OK;
}

static inlay_status pool_attributes(const kit_node *node, pool_state *state, inlay_diag *diag)
{
    const inlay_node_info *info = node->info;
    const char *auto_pad = kit_attr_string(info, "auto_pad", "NOTSET");
    const inlay_attr_info *attribute = kit_attr(info, "p");
    inlay_status status;

    (void)kit_attr_ints(info, "kernel_shape", &state->rank);
    if (state->rank == 0 || state->rank > INLAY_MAX_RANK - 2)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "kernel_shape has %u entries; it must have one per spatial axis",
                          state->rank);
    INLAY_TRY(pool_ints(node, "kernel_shape", state->rank, 1, 1, state->kernel, diag));
    INLAY_TRY(pool_ints(node, "strides", state->rank, 1, 1, state->strides, diag));
    INLAY_TRY(pool_ints(node, "dilations", state->rank, 1, 1, state->dilations, diag));
    INLAY_TRY(pool_ints(node, "pads", 2 * state->rank, 0, 0, state->pads, diag));
    if (strcmp(auto_pad, "VALID") == 0)
        state->auto_pad = PAD_VALID;
    else if (strcmp(auto_pad, "SAME_UPPER") == 0)
        state->auto_pad = PAD_SAME_UPPER;
    else if (strcmp(auto_pad, "SAME_LOWER") == 0)
        state->auto_pad = PAD_SAME_LOWER;
    else if (strcmp(auto_pad, "NOTSET") != 0 && auto_pad[0] != '\0')
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "auto_pad is '%s'; it must be NOTSET, VALID, SAME_UPPER or SAME_LOWER", auto_pad);
    state->ceil_mode = kit_attr_int(info, "ceil_mode", 0) != 0;
    state->include_pad = kit_attr_int(info, "count_include_pad", 0) != 0;
    state->column_major = kit_attr_int(info, "storage_order", 0) == 1;
    state->p = attribute == NULL ? 2 : attribute->kind == INLAY_ATTR_FLOAT ? attribute->f : (double)attribute->i;
    if (info->op_type.data[0] == 'M')
        state->kind = POOL_MAX;
    else if (info->op_type.data[0] == 'A')
        state->kind = POOL_MEAN;
    else
        state->kind = state->p == 1 ? POOL_MAGNITUDE : state->p == 2 ? POOL_EUCLID : POOL_POWER;
done:
    return status;
}

static inlay_status prepare_pool(const kit_node *node, void **out_state, inlay_diag *diag)
{
    pool_state *state = calloc(1, sizeof *state);
    inlay_status status;

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of a pooling");
    status = pool_attributes(node, state, diag);
    if (status == INLAY_OK)
        *out_state = state;
    else
        free(state);
    return status;
}

/* Computes `out` and the pads of an axis whose other members are set (ONNX AveragePool-22: output shape). With rounding
 * up, a window that would start in the padding after the input is dropped. */
static void pool_axis_size(const pool_state *state, pool_axis *axis)
{
    int64_t reach = (axis->kernel - 1) * axis->dilation + 1, slack, total;

    INLAY_CHECK(axis->kernel > 0 && axis->stride > 0 && axis->dilation > 0);
    if (state->auto_pad == PAD_SAME_UPPER || state->auto_pad == PAD_SAME_LOWER) {
        axis->out = (axis->in + axis->stride - 1) / axis->stride;
        total = (axis->out - 1) * axis->stride + reach - axis->in;
        total = total > 0 ? total : 0;
        axis->pad_begin = state->auto_pad == PAD_SAME_UPPER ? total / 2 : total - total / 2;
        axis->pad_end = total - axis->pad_begin;
        return;
    }
    if (state->auto_pad == PAD_VALID)
        axis->pad_begin = axis->pad_end = 0;
    slack = axis->in + axis->pad_begin + axis->pad_end - reach;
    if (slack < 0) {
        axis->out = 0;
        return;
    }
    axis->out = slack / axis->stride + 1;
    if (state->ceil_mode && state->auto_pad != PAD_VALID && slack % axis->stride != 0 &&
        axis->out * axis->stride < axis->in + axis->pad_begin)
        axis->out++;
}

/* Returns the scratch bytes of a worker, for the combined row, a row of results, and a converted row of the input. */
static uint64_t scratch_bytes(const pool_plan *plan, uint32_t acc_bytes)
{
    const int64_t line = plan->halves != INLAY_UNDEFINED ? plan->used : 0;

    return ((uint64_t)(plan->width + plan->axes[plan->rank - 1].out + line) * acc_bytes + 63) / 64 * 64;
}

static inlay_status shape_pool(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const pool_state *attributes = state;
    const kit_tensor *input = &plan->in[0], *output = &plan->out[0];
    pool_axis axes[INLAY_MAX_RANK], *axis = &axes[attributes->rank - 1];
    uint32_t acc_bytes = input->dtype == INLAY_DOUBLE ? 8 : 4;
    pool_plan *pool;

    INLAY_CHECK(attributes->rank >= 1 && attributes->rank <= INLAY_MAX_RANK - 2);
    if (input->rank != attributes->rank + 2)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X has rank %u; with this kernel_shape it must have %u",
                          input->rank, attributes->rank + 2);
    for (uint32_t index = 0; index < attributes->rank; index++) {
        axes[index] = (pool_axis){ .in = input->dims[2 + index],
                                   .kernel = attributes->kernel[index],
                                   .stride = attributes->strides[index],
                                   .dilation = attributes->dilations[index],
                                   .pad_begin = attributes->pads[index],
                                   .pad_end = attributes->pads[attributes->rank + index] };
        pool_axis_size(attributes, &axes[index]);
        if (output->count >= 0 && output->dims[2 + index] != axes[index].out)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "spatial axis %u gives %lld windows; %lld were expected",
                              index, (long long)axes[index].out, (long long)output->dims[2 + index]);
    }
    pool = calloc(1, sizeof *pool + (output->count > 0 ? (size_t)axis->out * sizeof(float) : 0));
    if (pool == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a pooling");
    plan->plan = pool;
    memcpy(pool->axes, axes, attributes->rank * sizeof axes[0]);
    pool->rank = attributes->rank;
    pool->halves = inlay_dtype_bits(input->dtype) == 16 ? input->dtype : INLAY_UNDEFINED;
    pool->include_pad = attributes->include_pad;
    pool->column_major = attributes->column_major;
    pool->p = attributes->p;
    pool->counts = (float *)(pool + 1);
    pool->planes = pool->in_plane = pool->rows = 1;
    if (output->count == 0)
        return INLAY_OK;
    pool->planes = input->dims[0] * input->dims[1];
    for (uint32_t index = attributes->rank; index-- > 0; pool->in_plane *= axes[index].in) {
        pool->steps[index] = pool->in_plane;
        if (index + 1 < attributes->rank)
            pool->rows *= axes[index].out;
    }
    for (int64_t position = 0; position < axis->out; position++)
        pool->counts[position] = (float)pool_count(pool, axis, position);
    pool->width = (axis->out - 1) * axis->stride + (axis->kernel - 1) * axis->dilation + 1;
    pool->sparse = pool->width / 8 > axis->in + POOL_GRAIN || axis->kernel / 8 > axis->in;
    if (pool->sparse) { /* memory and time then depend on the image only, even if attributes are huge */
        pool->width = pool->used = axis->in;
        plan->workspace_bytes = scratch_bytes(pool, acc_bytes) * plan->max_threads;
        return INLAY_OK;
    }
    pool->first = axis->pad_begin < pool->width ? axis->pad_begin : pool->width;
    pool->used = axis->in < pool->width - pool->first ? axis->in : pool->width - pool->first;
    plan->workspace_bytes = scratch_bytes(pool, acc_bytes) * plan->max_threads;
    return INLAY_OK;
}

typedef struct pool_job {
    const kit_call *call;
    const pool_plan *plan;
    uint32_t kind;
    int64_t scratch_bytes; /* per worker */
} pool_job;

static inlay_status pool_items(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const pool_job *job = user;
    const kit_call *call = job->call;
    const kit_tensor *input = &call->in[0];

    INLAY_CHECK(pool_rows[job->kind][input->dtype] != NULL && end <= job->plan->planes * job->plan->rows);
    if (kit_has_output(call, 1))
        pool_indices[input->dtype](job->plan, input->data, call->out[0].data, call->out[1].data, begin, end);
    else
        pool_rows[job->kind][input->dtype](job->plan, input->data, call->out[0].data, begin, end,
                                           (char *)call->workspace + worker * job->scratch_bytes);
    return INLAY_OK;
}

static inlay_status run_pool(const kit_call *call)
{
    const pool_state *state = call->state;
    const pool_plan *plan = call->plan;
    const kit_tensor *input = &call->in[0];
    const pool_axis *axis = &plan->axes[plan->rank - 1];
    pool_job job = { call, plan, state->kind, 0 };
    int64_t per_row = axis->in;

    if (call->out[0].count == 0)
        return INLAY_OK;
    job.scratch_bytes = (int64_t)scratch_bytes(plan, input->dtype == INLAY_DOUBLE ? 8 : 4);
    for (uint32_t d = 0; d + 1 < plan->rank; d++)
        per_row *= plan->axes[d].kernel < plan->axes[d].in ? plan->axes[d].kernel : plan->axes[d].in;
    return kit_parallel(call, plan->planes * plan->rows, POOL_GRAIN / (per_row + 1) + 1, pool_items, &job);
}

static inlay_status shape_masked(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0], *mask = &plan->in[1];
    inlay_status status = shape_pool(state, plan, diag);

    if (status != INLAY_OK)
        return status;
    if (mask->rank != input->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "M has rank %u; it must have that of X, %u", mask->rank,
                          input->rank);
    if (plan->out[0].count > 0 && (mask->dims[0] == 0 || mask->dims[1] == 0))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "M has no planes; one is needed");
    for (uint32_t d = 2; d < input->rank; d++)
        if (mask->dims[d] != input->dims[d])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "axis %u of M has %lld elements; that of X has %lld", d,
                              (long long)mask->dims[d], (long long)input->dims[d]);
    plan->workspace_bytes = 0;
    return INLAY_OK;
}

/* The greatest element of a window. Along the last axis, a window ends at the first element whose mask is 0; unless
 * there is only one spatial axis, the first element of a plane has no mask. */
static float masked_window(const pool_plan *plan, pool_window *window, int64_t position, const float *input,
                           const int32_t *mask)
{
    const pool_axis *axis = &plan->axes[plan->rank - 1];
    int64_t first, count = pool_span(axis, position, 0, axis->in, &first);
    float greatest = -FLT_MAX;

    first = position * axis->stride - axis->pad_begin + first * axis->dilation;
    for (int64_t tap = 0; tap < window->taps; tap++) {
        const int64_t row = pool_window_next(plan, window) + first;

        for (int64_t i = 0; i < count && (mask[row + i] != 0 || (row + i == 0 && plan->rank > 1)); i++)
            greatest = input[row + i] > greatest ? input[row + i] : greatest;
    }
    return greatest;
}

/* Output rows [begin, end) of all planes. As in ONNX Runtime, the mask of plane p begins at element p * H * W modulo
 * the number of the mask's planes: a mask of one plane is that of every plane, and of several only the first and the
 * start of the second are read. */
static inlay_status masked_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const pool_plan *plan = call->plan;
    const int64_t masks = call->in[1].dims[0] * call->in[1].dims[1], out = plan->axes[plan->rank - 1].out;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        const int64_t plane = row / plan->rows;
        const float *input = (const float *)call->in[0].data + plane * plan->in_plane;
        const int32_t *mask = (const int32_t *)call->in[1].data + plane % masks * (plan->in_plane % masks) % masks;
        float *output = (float *)call->out[0].data + row * out;

        for (int64_t position = 0; position < out; position++) {
            pool_window window;

            pool_window_at(plan, row % plan->rows, &window);
            output[position] = masked_window(plan, &window, position, input, mask);
        }
    }
    return INLAY_OK;
}

static inlay_status run_masked(const kit_call *call)
{
    const pool_plan *plan = call->plan;

    return call->out[0].count == 0 ? INLAY_OK
                                   : kit_parallel(call, plan->planes * plan->rows, POOL_GRAIN / (plan->width + 1) + 1,
                                                  masked_rows, (void *)(uintptr_t)call);
}

/* A tap inside the image takes about a third of a nanosecond; if indices are computed, several nanoseconds. */
static void cost_pool(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const double tap_ns = shapes->out_count > 1 && shapes->out[1].dtype != INLAY_UNDEFINED ? 3 : 0.35;
    const kit_tensor *input = &shapes->in[0];
    double taps = work_count(&shapes->out[0]);
    uint32_t axes = 0;
    const int64_t *kernel = kit_attr_ints(node->info, "kernel_shape", &axes);

    for (uint32_t d = 0; d < axes && d + 2 < input->rank && input->count > 0; d++)
        taps *= (double)(kernel[d] < input->dims[d + 2] ? kernel[d] : input->dims[d + 2]);
    work_cost(shapes, taps, tap_ns, work_count(&shapes->out[0]), cost);
}

#define POOL_KERNEL(name, types)                                                                                       \
    {                                                                                                                  \
        .op_type = name, .in_types = { types }, .prepare = prepare_pool, .shape = shape_pool, .cost = cost_pool,       \
        .run = run_pool                                                                                                \
    }

static const kit_kernel kernels[] = {
    POOL_KERNEL("MaxPool", KIT_FLOATS | KIT_BIT(INT8) | KIT_BIT(UINT8)),
    POOL_KERNEL("AveragePool", KIT_FLOATS),
    POOL_KERNEL("LpPool", KIT_FLOATS),
    { .domain = "com.microsoft",
      .op_type = "MaxpoolWithMask",
      .since_max = 1,
      .prepare = prepare_pool,
      .shape = shape_masked,
      .cost = cost_pool,
      .run = run_masked },
};
const kit_table OPERATOR(operators_pool) = { kernels, KIT_COUNT(kernels) };
