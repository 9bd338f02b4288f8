/* ConvTranspose: ONNX 1, 11, 22; float16, bfloat16, float and double.
 *
 * Computes a block of output channels at a time: the multiplication W' [channels x taps, C] by X [C, positions] gives
 * the contribution of each input position at each tap, and these columns are then added to the output planes. Blocks
 * are independent tasks. */
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/conv.h"
#include "simd/convert.h"
#include "operators/product_cost.h"
#include "operators/products.h"
#include <stdlib.h>

enum {
    COLUMN_BYTES = 1024 * 1024, /* approximate size of the intermediate columns of a block */
    LEAST_BLOCKS = 32           /* minimum number of blocks if possible, for any thread count */
};

typedef struct transpose_state {
    conv_attrs attrs;
    int64_t output_padding[CONV_MAX_SPATIAL], output_shape[CONV_MAX_SPATIAL + 2];
    int32_t output_padding_count, output_shape_count;
    const gemm_kernel *kernel;
    gemm_operand weights;
    kit_pack pack;
} transpose_state;

void product_conv_transpose_release(void *state)
{
    transpose_state *transpose = state;

    if (transpose != NULL)
        kit_pack_free(&transpose->pack);
    free(transpose);
}

/* W is [C, M / group, window...]: rows of the multiplication are (filter, tap), adjacent in memory. */
static inlay_status pack_weights(const kit_node *node, transpose_state *state, inlay_diag *diag)
{
    const inlay_value_info *weights = kit_input(node, 1);
    int64_t depth, rows = 1;

    if ((state->kernel->packs & GEMM_PACKS_A) == 0 || !kit_is_constant(node, 1) ||
        weights->rank == INLAY_RANK_UNKNOWN || weights->rank < 3)
        return INLAY_OK;
    for (uint32_t d = 1; d < weights->rank; d++)
        rows *= weights->dims[d].value;
    depth = weights->dims[0].value / state->attrs.group;
    if (rows == 0 || depth == 0 || weights->dims[0].value % state->attrs.group != 0)
        return INLAY_OK;
    state->weights.line_stride = 1;
    state->weights.k_stride = rows;
    state->weights.matrix_stride = rows * depth;
    return gemm_pack_constant(node, 1, state->kernel, state->kernel->mr, &state->weights, state->attrs.group, rows,
                              depth, &state->pack, diag);
}

inlay_status product_conv_transpose_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    transpose_state *state = NULL;
    inlay_status status;

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
    INLAY_TRY(conv_read_attrs(node, &state->attrs, diag));
    INLAY_TRY(
        arg_ints(node, "output_padding", state->output_padding, CONV_MAX_SPATIAL, &state->output_padding_count, diag));
    INLAY_TRY(
        arg_ints(node, "output_shape", state->output_shape, CONV_MAX_SPATIAL + 2, &state->output_shape_count, diag));
    state->kernel = gemm_kernel_for(node, gemm_type_of(dtype));
    state->weights.pack = gemm_strided_pack(gemm_type_of(dtype), dtype);
    INLAY_TRY(pack_weights(node, state, diag));
    *out_state = state;
    state = NULL;
done:
    product_conv_transpose_release(state);
    return status;
}

typedef struct transpose_plan {
    conv_geometry geometry; /* in: X, out: Y; filters: channels of Y; begin: the padding that is removed from Y */
    gemm_job job;
    int64_t block;         /* output channels of a task */
    uint64_t column_bytes; /* of a thread: the intermediate columns */
    uint64_t plane_bytes;  /* of a thread: an output channel in float, for half precision */
    uint64_t thread_bytes;
    int64_t which[]; /* [images * group] group */
} transpose_plan;

/* One spatial dim (ONNX ConvTranspose-11, "output_shape" and "pads"). */
static inlay_status resolve_dim(const transpose_state *state, uint32_t spatial, uint32_t d, uint32_t i,
                                conv_geometry *geometry, inlay_diag *diag)
{
    const conv_attrs *attrs = &state->attrs;
    int64_t extra = state->output_padding_count > 0 ? state->output_padding[d] : 0, full, window, total,
            limit = INT32_MAX;
    bool same = attrs->auto_pad == CONV_PAD_SAME_UPPER || attrs->auto_pad == CONV_PAD_SAME_LOWER;

    geometry->stride[i] = attrs->strides_count >= 0 ? attrs->strides[d] : 1;
    geometry->dilation[i] = attrs->dilations_count >= 0 ? attrs->dilations[d] : 1;
    if (geometry->kernel[i] < 1 || geometry->stride[i] < 1 || geometry->dilation[i] < 1 || extra < 0 ||
        geometry->kernel[i] > limit || geometry->stride[i] > limit || geometry->dilation[i] > limit || extra > limit ||
        geometry->in[i] > limit)
        return inlay_fail(
            diag, INLAY_INVALID_MODEL,
            "window %lld, stride %lld, dilation %lld: each must be at least 1; output_padding %lld: at least 0",
            (long long)geometry->kernel[i], (long long)geometry->stride[i], (long long)geometry->dilation[i],
            (long long)extra);
    window = (geometry->kernel[i] - 1) * geometry->dilation[i] + 1;
    full = geometry->stride[i] * (geometry->in[i] - 1) + extra + window;
    if (state->output_shape_count > 0 || same) {
        int64_t out = state->output_shape_count > 0
                          ? state->output_shape[state->output_shape_count - (int32_t)spatial + (int32_t)d]
                          : geometry->in[i] * geometry->stride[i];
        total = full > out ? full - out : 0;
        geometry->out[i] = out;
        geometry->begin[i] = attrs->auto_pad == CONV_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    } else if (attrs->auto_pad == CONV_PAD_EXPLICIT && attrs->pads_count >= 0) {
        if (attrs->pads[d] < -limit || attrs->pads[d] > limit || attrs->pads[d + spatial] < -limit ||
            attrs->pads[d + spatial] > limit)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "pads %lld and %lld: each must be within -2^31 to 2^31",
                              (long long)attrs->pads[d], (long long)attrs->pads[d + spatial]);
        geometry->begin[i] = attrs->pads[d];
        geometry->out[i] = full - attrs->pads[d] - attrs->pads[d + spatial];
    } else {
        geometry->out[i] = full;
    }
    if (geometry->out[i] < 0 && geometry->in[i] > 0)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "padding leaves nothing of spatial axis %u", d);
    geometry->out[i] = geometry->out[i] < 0 ? 0 : geometry->out[i];
    return INLAY_OK;
}

static inlay_status check_counts(const transpose_state *state, uint32_t spatial, inlay_diag *diag)
{
    const conv_attrs *attrs = &state->attrs;
    int32_t dims = (int32_t)spatial, shape_count = state->output_shape_count;

    if ((attrs->kernel_count >= 0 && attrs->kernel_count != dims) ||
        (attrs->strides_count >= 0 && attrs->strides_count != dims) ||
        (attrs->dilations_count >= 0 && attrs->dilations_count != dims) ||
        (attrs->pads_count >= 0 && attrs->pads_count != 2 * dims) ||
        (state->output_padding_count > 0 && state->output_padding_count != dims) ||
        (shape_count > 0 && shape_count != dims && shape_count != dims + 2))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "an attribute does not have one value for each of %u spatial axes",
                          spatial);
    return INLAY_OK;
}

static inlay_status resolve(const transpose_state *state, const kit_tensor *input, const kit_tensor *weights,
                            conv_geometry *geometry, inlay_diag *diag)
{
    uint32_t spatial = input->rank - 2;
    inlay_status status;

    if (input->rank < 3 || input->rank > 2 + CONV_MAX_SPATIAL || weights->rank != input->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "the input has rank %u and the weights %u; ConvTranspose takes two of rank 3 to 5",
                          input->rank, weights->rank);
    INLAY_TRY(check_counts(state, spatial, diag));
    *geometry = (conv_geometry){ .images = input->dims[0],
                                 .group = state->attrs.group,
                                 .channels = input->dims[1],
                                 .taps = 1,
                                 .positions = 1,
                                 .in_positions = 1 };
    if (weights->dims[0] != geometry->channels || geometry->channels % geometry->group != 0 ||
        __builtin_mul_overflow(weights->dims[1], geometry->group, &geometry->filters))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%lld channels, weights for %lld and %lld groups do not match",
                          (long long)geometry->channels, (long long)weights->dims[0], (long long)geometry->group);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t missing = 3 - spatial, d = i - missing;
        geometry->in[i] = geometry->out[i] = geometry->kernel[i] = geometry->stride[i] = geometry->dilation[i] = 1;
        if (i < missing)
            continue;
        geometry->in[i] = input->dims[2 + d];
        geometry->kernel[i] = weights->dims[2 + d];
        if (state->attrs.kernel_count >= 0 && state->attrs.kernel[d] != geometry->kernel[i])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "kernel_shape[%u] is %lld but the weights have %lld", d,
                              (long long)state->attrs.kernel[d], (long long)geometry->kernel[i]);
        INLAY_TRY(resolve_dim(state, spatial, d, i, geometry, diag));
        geometry->taps *= geometry->kernel[i];
        geometry->in_positions *= geometry->in[i];
        if (__builtin_mul_overflow(geometry->positions, geometry->out[i], &geometry->positions))
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the output has more elements than can be counted");
    }
done:
    return status;
}

static void describe_job(transpose_plan *plan, const transpose_state *state, inlay_dtype dtype)
{
    const conv_geometry *geometry = &plan->geometry;
    gemm_job *job = &plan->job;
    int64_t per_group = geometry->filters / geometry->group,
            row = geometry->taps * geometry->in_positions * state->kernel->acc_bytes;

    job->kernel = state->kernel;
    job->batch = geometry->images * geometry->group;
    job->m = per_group * geometry->taps;
    job->n = geometry->in_positions;
    job->k = geometry->channels / geometry->group;
    job->a = state->weights;
    job->a.line_stride = 1;
    job->a.k_stride = job->m;
    job->a.matrix_stride = job->m * job->k;
    job->a.which = plan->which;
    job->b.pack = gemm_strided_pack(gemm_type_of(dtype), dtype);
    job->b.line_stride = 1;
    job->b.k_stride = job->n;
    job->b.matrix_stride = job->k * job->n;
    job->b.in_place = inlay_dtype_bits(dtype) == 8 * state->kernel->in_bytes;
    plan->block = row > 0 && row < COLUMN_BYTES ? COLUMN_BYTES / row : 1;
    plan->block = plan->block < per_group ? plan->block : per_group > 0 ? per_group : 1;
    while (plan->block > 1 && job->batch * (per_group / plan->block) < LEAST_BLOCKS)
        plan->block /= 2;
}

inlay_status product_conv_transpose_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const transpose_state *transpose = state;
    inlay_dtype dtype = plan->in[0].dtype;
    int64_t batch, rows, columns, mr = transpose->kernel->mr, nr = transpose->kernel->nr;
    conv_geometry geometry = { 0 };
    transpose_plan *created;
    inlay_status status;

    INLAY_TRY(resolve(transpose, &plan->in[0], &plan->in[1], &geometry, diag));
    INLAY_TRY(conv_check_output(&geometry, &plan->out[0], diag));
    if (plan->in_count > 2 && plan->in[2].dtype != INLAY_UNDEFINED && plan->in[2].count != geometry.filters)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the bias has %lld elements for %lld filters",
                          (long long)plan->in[2].count, (long long)geometry.filters);
    if (__builtin_mul_overflow(geometry.images, geometry.group, &batch) || batch > INT32_MAX ||
        (created = calloc(1, sizeof *created + (size_t)batch * sizeof(int64_t))) == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a ConvTranspose");
    plan->plan = created;
    created->geometry = geometry;
    for (int64_t b = 0; b < batch; b++)
        created->which[b] = b % geometry.group;
    describe_job(created, transpose, dtype);
    /* The first row of a block is rounded down to a panel. */
    rows = (created->block * geometry.taps + 2 * mr) / mr * mr;
    columns = (512 + nr - 1) / nr * nr;
    gemm_plan_tiles(&created->job, rows, columns);
    if (__builtin_mul_overflow(rows * (int64_t)transpose->kernel->acc_bytes, geometry.in_positions,
                               (int64_t *)&created->column_bytes) ||
        geometry.positions > INT64_MAX / 16 || created->column_bytes > INT64_MAX / 4)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "this convolution is too large");
    created->column_bytes = (created->column_bytes + 63) & ~UINT64_C(63);
    created->plane_bytes = inlay_dtype_bits(dtype) == 16 ? ((uint64_t)geometry.positions * 4 + 63) & ~UINT64_C(63) : 0;
    created->thread_bytes = created->job.thread_bytes + created->column_bytes + created->plane_bytes;
    if (__builtin_mul_overflow(created->thread_bytes, (uint64_t)plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this convolution exceeds the address space");
done:
    return status;
}

/* Adds the columns of one output channel, [taps, in_positions], to its plane. */
#define ADD_TAPS(T, name)                                                                                              \
    static void name(const conv_geometry *geometry, const T *products, T *plane)                                       \
    {                                                                                                                  \
        for (int64_t t = 0; t < geometry->taps; t++) {                                                                 \
            int64_t at_w = t % geometry->kernel[2] * geometry->dilation[2] - geometry->begin[2],                       \
                    sw = geometry->stride[2];                                                                          \
            int64_t at_h = t / geometry->kernel[2] % geometry->kernel[1] * geometry->dilation[1] - geometry->begin[1]; \
            int64_t at_d = t / geometry->kernel[2] / geometry->kernel[1] * geometry->dilation[0] - geometry->begin[0]; \
            int64_t first = at_w < 0 ? (-at_w + sw - 1) / sw : 0;                                                      \
            int64_t last = geometry->out[2] > at_w ? (geometry->out[2] - at_w + sw - 1) / sw : 0;                      \
            last = last < geometry->in[2] ? last : geometry->in[2];                                                    \
            for (int64_t d = 0; d < geometry->in[0]; d++)                                                              \
                for (int64_t h = 0; h < geometry->in[1]; h++) {                                                        \
                    int64_t z = d * geometry->stride[0] + at_d, y = h * geometry->stride[1] + at_h;                    \
                    const T *from = products + ((t * geometry->in[0] + d) * geometry->in[1] + h) * geometry->in[2];    \
                    T *to;                                                                                             \
                    if (z < 0 || z >= geometry->out[0] || y < 0 || y >= geometry->out[1])                              \
                        continue;                                                                                      \
                    to = plane + (z * geometry->out[1] + y) * geometry->out[2];                                        \
                    if (sw == 1)                                                                                       \
                        for (int64_t w = first; w < last; w++)                                                         \
                            to[w + at_w] += from[w];                                                                   \
                    else                                                                                               \
                        for (int64_t w = first; w < last; w++)                                                         \
                            to[w * sw + at_w] += from[w];                                                              \
                }                                                                                                      \
        }                                                                                                              \
    }
ADD_TAPS(float, add_taps_f32)
ADD_TAPS(double, add_taps_f64)

typedef struct transpose_task {
    const kit_call *call;
    const transpose_plan *plan;
    gemm_job job;
    int64_t blocks; /* per group */
} transpose_task;

static void finish_filter(const transpose_task *task, int64_t image, int64_t filter, const char *products,
                          char *half_plane)
{
    const kit_call *call = task->call;
    const conv_geometry *geometry = &task->plan->geometry;
    inlay_dtype dtype = call->out[0].dtype;
    int64_t first = (image * geometry->filters + filter) * geometry->positions;
    double bias = kit_has_input(call, 2) ? convert_get_f64(dtype, call->in[2].data, filter) : 0;

    if (dtype == INLAY_DOUBLE) {
        double *plane = (double *)call->out[0].data + first;
        for (int64_t i = 0; i < geometry->positions; i++)
            plane[i] = bias;
        add_taps_f64(geometry, (const double *)(const void *)products, plane);
    } else {
        float *plane = dtype == INLAY_FLOAT ? (float *)call->out[0].data + first : (float *)(void *)half_plane;
        for (int64_t i = 0; i < geometry->positions; i++)
            plane[i] = (float)bias;
        add_taps_f32(geometry, (const float *)(const void *)products, plane);
        if (dtype != INLAY_FLOAT)
            convert_from_f32(dtype, call->out[0].data, first, geometry->positions, plane, 0);
    }
}

static inlay_status run_blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const transpose_task *task = user;
    const transpose_plan *plan = task->plan;
    const conv_geometry *geometry = &plan->geometry;
    int64_t per_group = geometry->filters / geometry->group, n = task->job.n, acc = task->job.kernel->acc_bytes;
    char *room = (char *)task->call->workspace + worker * plan->thread_bytes;
    char *columns = room + task->job.thread_bytes, *plane = columns + plan->column_bytes;

    INLAY_CHECK(plan->block > 0 && task->blocks > 0);
    for (int64_t index = begin; index < end; index++) {
        int64_t batch = index / task->blocks, first = index % task->blocks * plan->block;
        int64_t last = first + plan->block < per_group ? first + plan->block : per_group;
        int64_t row0 = first * geometry->taps / task->job.kernel->mr * task->job.kernel->mr;
        for (int64_t j = 0; j < n; j += task->job.tile_n) {
            gemm_tile tile = { .batch = batch,
                               .i0 = row0,
                               .i1 = last * geometry->taps,
                               .j0 = j,
                               .j1 = j + task->job.tile_n < n ? j + task->job.tile_n : n,
                               .c = columns + j * acc,
                               .c_stride = n };
            gemm_run_tile(&task->job, &tile, room);
        }
        for (int64_t filter = first; filter < last; filter++)
            finish_filter(task, batch / geometry->group, batch % geometry->group * per_group + filter,
                          columns + (filter * geometry->taps - row0) * n * acc, plane);
    }
    return INLAY_OK;
}

inlay_status product_conv_transpose_run(const kit_call *call)
{
    const transpose_plan *plan = call->plan;
    transpose_task task = { .call = call, .plan = plan, .job = plan->job };
    int64_t per_group = plan->geometry.filters / plan->geometry.group;

    if (call->out[0].count == 0)
        return INLAY_OK;
    task.job.a.data = call->in[1].data;
    task.job.b.data = call->in[0].data;
    task.blocks = (per_group + plan->block - 1) / plan->block;
    return kit_parallel(call, task.job.batch * task.blocks, 1, run_blocks, &task);
}

/* On a Xeon: a product that is added to its plane, ... */
#define SUM_NS 0.17
#define SUM_ROW_NS 3.0 /* ... a row of products, ... */
#define RESULT_NS 0.9  /* ... an element of a plane, ... */
#define PLANE_NS 100.0 /* ... and a plane */

void product_conv_transpose_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const kit_tensor *input = &shapes->in[0], *weights = &shapes->in[1], *output = &shapes->out[0];
    double group = (double)kit_attr_int(node->info, "group", 1), columns, more;
    product_size size = { .a_constant = kit_is_constant(node, 1), .a_across = true };

    if (input->rank < 2 || weights->rank != input->rank || input->count <= 0 || weights->count <= 0 ||
        output->count < 0 || group < 1)
        return;
    size.batch = (double)input->dims[0] * group;
    size.k = (double)input->dims[1] / group;
    size.n = (double)input->count / (double)input->dims[0] / (double)input->dims[1];
    size.m = (double)weights->count / (double)weights->dims[0];
    columns = size.batch * size.m * size.n;
    out->bytes_read = kit_bytes(input->dtype, input->count) + kit_bytes(weights->dtype, weights->count);
    out->bytes_written = kit_bytes(output->dtype, output->count);
    more = columns * (SUM_NS + SUM_ROW_NS / (double)input->dims[input->rank - 1]) + RESULT_NS * (double)output->count +
           PLANE_NS * (double)output->dims[0] * (double)output->dims[1];
    product_cost_set(node, shapes, gemm_type_of(input->dtype), &size, 1, more, out);
}
