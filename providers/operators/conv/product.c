/* product.c - convolution as a matrix multiplication over a staged input. */
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/conv.h"
#include "operators/conv/conv_loops.h"
#include "simd/convert.h"
#include <stdlib.h>

enum {
    SLACK = 64,                    /* bytes that whole-vector copies may read past a staged buffer */
    STAGE_LIMIT = 64 * 1024 * 1024 /* bytes staged together, at least one image */
};

/* Packing a panel.
 *
 * The columns of a panel are output positions. Consecutive positions of an output row are a run; the elements that they
 * read at one tap are adjacent in the staged input. Runs are copied in whole vectors. The elements that are copied
 * beyond the end of a run are overwritten by the next run or the next k; at the end of the buffer they are in its
 * slack. */

static uint32_t find_runs(const conv_plan *plan, int64_t position, int64_t end, position_run *runs)
{
    const conv_geometry *geometry = &plan->geometry;
    int64_t w = position % geometry->out[2], h = position / geometry->out[2] % geometry->out[1],
            d = position / geometry->out[2] / geometry->out[1];
    uint32_t count = 0;
    int32_t to = 0;

    while (position < end) {
        int64_t columns = geometry->out[2] - w < end - position ? geometry->out[2] - w : end - position;
        runs[count++] = (position_run){
            .from = (d * geometry->stride[0] * plan->stage.padded[1] + h * geometry->stride[1]) * plan->stage.row + w,
            .to = to,
            .count = (int32_t)columns
        };
        to += (int32_t)columns;
        position += columns;
        w = 0;
        if (++h == geometry->out[1]) {
            h = 0;
            d++;
        }
    }
    return count;
}

static void pack_positions(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0,
                           int64_t k1, uint32_t width, void *out)
{
    const conv_plan *plan = self->user;
    int64_t channels = plan->geometry.channels / plan->geometry.group, depth = k1 - k0,
            rounded = depth + depth % plan->job.kernel->k_step;
    const char *base = (const char *)self->data + batch * channels * plan->stage.channel * plan->stage.bytes;
    char *to = out;
    position_run runs[GEMM_MAX_WIDTH];
    const conv_loops *const loops = KERNEL_BEST(conv_loops);

    for (int64_t l = line; l < line_end; l += width) {
        uint32_t count = find_runs(plan, l, line_end - l < width ? line_end : l + width, runs);
        if (plan->stage.bytes == 4)
            loops->copy_32((const void *)base, plan->offset + k0, depth, runs, count, width, (void *)to);
        else if (plan->stage.bytes == 8)
            loops->copy_64((const void *)base, plan->offset + k0, depth, runs, count, width, (void *)to);
        else
            loops->copy_pairs((const void *)base, plan->offset + k0, depth, runs, count, width, (void *)to);
        to += rounded * width * plan->stage.bytes;
    }
}

static bool is_direct(const conv_geometry *geometry)
{
    for (uint32_t i = 0; i < 3; i++)
        if (geometry->kernel[i] != 1 || geometry->stride[i] != 1 || geometry->begin[i] != 0 ||
            geometry->out[i] != geometry->in[i])
            return false;
    return true;
}

/* Sets the number of images that are staged together, and the size of the stage in bytes. */
static bool stage_size(conv_plan *plan)
{
    uint64_t image;

    if (__builtin_mul_overflow((uint64_t)plan->stage.channel, (uint64_t)plan->geometry.channels * plan->stage.bytes,
                               &image) ||
        image > UINT64_MAX / 4)
        return false;
    plan->chunk = image < STAGE_LIMIT ? (int64_t)(STAGE_LIMIT / (image > 0 ? image : 1)) : 1;
    plan->chunk = plan->chunk < plan->geometry.images ? plan->chunk : plan->geometry.images;
    plan->chunk = plan->chunk > 0 ? plan->chunk : 1;
    plan->stage_bytes = ((uint64_t)plan->chunk * image + SLACK + 63) & ~UINT64_C(63);
    return true;
}

static void describe_job(conv_plan *plan, const gemm_kernel *kernel, const gemm_operand *weights, inlay_dtype in_dtype,
                         uint32_t type)
{
    const conv_geometry *geometry = &plan->geometry;
    gemm_job *job = &plan->job;
    int64_t channels = geometry->channels / geometry->group;

    job->kernel = kernel;
    job->batch = plan->chunk * geometry->group;
    job->m = geometry->filters / geometry->group;
    job->n = geometry->positions;
    job->k = channels * geometry->taps;
    job->a = *weights;
    job->a.line_stride = job->k;
    job->a.k_stride = 1;
    job->a.matrix_stride = job->m * job->k;
    job->a.which = plan->which;
    if (plan->direct) {
        job->b.pack = gemm_strided_pack(type, in_dtype);
        job->b.line_stride = 1;
        job->b.k_stride = job->n;
        job->b.matrix_stride = channels * job->n;
        job->b.in_place = inlay_dtype_bits(in_dtype) == 8 * kernel->in_bytes && type != GEMM_S16;
    } else {
        job->b.pack = pack_positions;
    }
}

inlay_status conv_plan_create(const conv_geometry *geometry, const gemm_kernel *kernel, const gemm_operand *weights,
                              inlay_dtype in_dtype, inlay_dtype out_dtype, bool in_workspace, uint32_t threads,
                              conv_plan **out_plan, uint64_t *out_workspace, inlay_diag *diag)
{
    uint32_t type = gemm_type_of(in_dtype);
    int64_t channels = geometry->channels / geometry->group, k = channels * geometry->taps, batch;
    conv_plan *plan, start = { .geometry = *geometry };
    gemm_half_output half;
    uint64_t bytes;

    *out_plan = NULL;
    start.direct = is_direct(geometry);
    start.depthwise =
        channels == 1 && geometry->filters / geometry->group <= 2 && type != GEMM_S16 && geometry->taps <= 1024;
    start.chunk = geometry->images;
    if (!conv_stage_init(&start.stage, &start.geometry, in_dtype, kernel->in_bytes) ||
        (!start.direct && !start.depthwise && !stage_size(&start)) ||
        __builtin_mul_overflow(start.chunk, geometry->group, &batch) || batch > INT32_MAX || k > INT32_MAX)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "this convolution is too large");
    bytes = sizeof *plan + (size_t)(k + batch) * sizeof(int64_t);
    plan = malloc(bytes);
    if (plan == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a convolution");
    INLAY_CHECK(kernel != NULL && geometry->group > 0 && geometry->channels % geometry->group == 0);
    *plan = start;
    plan->offset = (int64_t *)(void *)(plan + 1);
    plan->which = plan->offset + k;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t t = 0; t < geometry->taps; t++)
            plan->offset[c * geometry->taps + t] =
                c * plan->stage.channel + conv_tap_offset(&plan->stage, &plan->geometry, t);
    for (int64_t b = 0; b < batch; b++)
        plan->which[b] = b % geometry->group;
    *out_plan = plan;
    if (plan->depthwise) {
        plan->thread_bytes =
            ((uint64_t)plan->stage.channel + (uint64_t)geometry->taps) * plan->stage.bytes + 2 * SLACK + 63;
        plan->thread_bytes &= ~UINT64_C(63);
        if (__builtin_mul_overflow(plan->thread_bytes, (uint64_t)(threads > 0 ? threads : 1), out_workspace))
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                              "the workspace of this convolution exceeds the address space");
        return INLAY_OK;
    }
    describe_job(plan, kernel, weights, in_dtype, type);
    gemm_set_output(&plan->job, &half, out_dtype, NULL);
    plan->job.c_in_workspace |= in_workspace;
    gemm_plan(&plan->job, threads);
    if (!gemm_workspace(&plan->job, threads, out_workspace) ||
        __builtin_add_overflow(*out_workspace, plan->stage_bytes, out_workspace))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this convolution exceeds the address space");
    return INLAY_OK;
}

inlay_status conv_pack_weights(const kit_node *node, uint32_t input, const conv_attrs *attrs, const gemm_kernel *kernel,
                               gemm_operand *operand, kit_pack *out_pack, inlay_diag *diag)
{
    const inlay_value_info *weights = kit_input(node, input);
    int64_t filters, depth = 1;

    if ((kernel->packs & GEMM_PACKS_A) == 0 || !kit_is_constant(node, input) || weights->rank == INLAY_RANK_UNKNOWN ||
        weights->rank < 3)
        return INLAY_OK;
    filters = weights->dims[0].value / attrs->group;
    for (uint32_t d = 1; d < weights->rank; d++)
        depth *= weights->dims[d].value;
    if (filters == 0 || depth == 0 || weights->dims[0].value % attrs->group != 0)
        return INLAY_OK; /* shape() reports the error, if any */
    operand->line_stride = depth;
    operand->k_stride = 1;
    operand->matrix_stride = filters * depth;
    return gemm_pack_constant(node, input, kernel, kernel->mr, operand, attrs->group, filters, depth, out_pack, diag);
}

/* Fills a tile of float or double sums with the bias of each row. */
static void fill_bias(void *user, const gemm_tile *tile)
{
    const conv_run *run = user;
    int64_t first = conv_first_filter(run, tile), columns = tile->j1 - tile->j0;

    for (int64_t i = tile->i0; i < tile->i1; i++) {
        int64_t row = (i - tile->i0) * tile->c_stride;
        double value = convert_get_f64(run->bias_dtype, run->bias, first + i);
        if (run->plan->stage.bytes == 8)
            for (int64_t j = 0; j < columns; j++)
                ((double *)tile->c)[row + j] = value;
        else
            for (int64_t j = 0; j < columns; j++)
                ((float *)tile->c)[row + j] = (float)value;
    }
}

typedef struct stage_task {
    const conv_run *run;
    conv_stage stage;
    char *to;
} stage_task;

static inlay_status stage_channels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const stage_task *task = user;
    const conv_geometry *geometry = &task->run->plan->geometry;

    (void)worker;
    for (int64_t c = begin; c < end; c++)
        conv_stage_channel(&task->stage, geometry, task->run->input,
                           (task->run->first_image * geometry->channels + c) * geometry->in_positions,
                           task->to + c * task->stage.channel * task->stage.bytes);
    return INLAY_OK;
}

inlay_status conv_execute(conv_run *run)
{
    const conv_plan *plan = run->plan;
    const conv_geometry *geometry = &plan->geometry;
    gemm_job *job = &run->job;
    stage_task task = { .run = run, .stage = plan->stage, .to = run->call->workspace };
    size_t in = inlay_dtype_bits(plan->stage.dtype) / 8, out = inlay_dtype_bits(run->y_dtype) / 8;
    gemm_half_output half;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(!plan->depthwise && (plan->chunk > 0 || geometry->images == 0));
    task.stage.zero = run->zero;
    if (run->bias != NULL && job->init == NULL) {
        job->init = fill_bias;
        job->init_user = run;
    }
    for (run->first_image = 0; run->first_image < geometry->images; run->first_image += plan->chunk) {
        int64_t images =
            geometry->images - run->first_image < plan->chunk ? geometry->images - run->first_image : plan->chunk;
        job->batch = images * geometry->group;
        if (!run->caller_stores)
            gemm_set_output(job, &half, run->y_dtype,
                            (char *)run->output +
                                (size_t)(run->first_image * geometry->filters * geometry->positions) * out);
        if (plan->direct) {
            job->b.data = (const char *)run->input +
                          (size_t)(run->first_image * geometry->channels * geometry->in_positions) * in;
        } else {
            int64_t grain = plan->stage.channel > 0 ? 32768 / plan->stage.channel + 1 : 1;
            INLAY_TRY(kit_parallel(run->call, images * geometry->channels, grain, stage_channels, &task));
            job->b.data = task.to;
            job->b.user = plan;
        }
        INLAY_TRY(gemm_run(run->call, job, (char *)run->call->workspace + plan->stage_bytes));
    }
done:
    return status;
}
