/* GEMM by built-in kernels (sgemm.h, terms.h) with a fused epilogue. Constant matrices are packed in panels. A computed
 * matrix is read in place if it is row-major; a column-major one is packed into panels first. There may be a batch of
 * computed matrices, with one GEMM for each. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/product/dense.h"
#include "cpu/choice/kernels.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "cpu/product/product.h"
#include "cpu/weights/low_bit.h"
#include "cpu/weights/read.h"
#include "cpu/weights/sparse_weights.h"
#include "cpu/weights/terms_weights.h"

#define PANEL_BYTES_PER_NS 20.0
enum { HALVES_DEPTH = SGEMM_CHAIN, HALVES_PANEL = HALVES_DEPTH * SGEMM_WIDTH };

typedef struct dense_call {
    const struct dense *dense;
    const float *lines; /* B as stored */
    float *panels;      /* B as packed, or to be packed */
    float *scratch;     /* of the first worker */
    sgemm_job job;
    sgemm_post posts[CPU_MAX_POSTS + 1];
} dense_call;

/* Offset of GEMM number i in an operand. */
static int64_t offset(const struct dense *dense, int64_t i, const int64_t *steps)
{
    return layout_offset(dense->axes, dense->dims, steps, i);
}

static inlay_status one_product(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    sgemm_run(&((const dense_call *)user)->job, begin, end);
    return INLAY_OK;
}

static inlay_status one_sparse(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;

    sparse_run(&call->job, call->scratch + worker % call->dense->workers * sparse_scratch_floats(&call->job), begin,
               end);
    return INLAY_OK;
}

static inlay_status one_of_terms(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;

    terms_run(call->dense->terms, &call->job,
              call->scratch + worker % call->dense->workers * terms_scratch_floats(&call->job), begin, end);
    return INLAY_OK;
}

/* The job of columns [column, column + job.width); posts: memory for its epilogue. */
static sgemm_job panel_job(const dense_call *call, int64_t column, sgemm_post *posts)
{
    sgemm_job job = call->job;

    job.n = job.n - column < job.width ? job.n - column : job.width;
    job.bias = job.bias == NULL ? NULL : job.bias + column;
    job.c += column;
    job.posts = posts;
    for (uint32_t i = 0; i < job.post_count; i++) {
        posts[i] = call->posts[i];
        if (posts[i].other != NULL)
            posts[i].other += column * posts[i].col;
    }
    return job;
}

/* Units: panels of a low-bit matrix. */
static inlay_status low_bit_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;
    const struct dense *dense = call->dense;
    float *buffer = call->scratch + worker % dense->workers * (uint64_t)dense->job.b_panel;

    for (int64_t unit = begin; unit < end; unit++) {
        sgemm_post posts[CPU_MAX_POSTS + 1];
        sgemm_job job = panel_job(call, unit * dense->job.width, posts);

        low_bit_dequantize(call->lines, unit * job.b_panel, (unit + 1) * job.b_panel, buffer);
        job.b = buffer;
        sgemm_run(&job, 0, sgemm_units(&job));
    }
    return INLAY_OK;
}

/* Multiplies by columns of a matrix of float16. Parts of them become floats that stay in the second-level cache. */
static void multiply_halves(const sgemm_job *whole, const sgemm_halves *halves, const uint16_t *lines, float *panel)
{
    for (int64_t k = 0; k < whole->k; k += HALVES_DEPTH) {
        sgemm_job job = *whole;
        const bool last = whole->k - k <= HALVES_DEPTH;

        job.k = last ? whole->k - k : HALVES_DEPTH;
        job.a += k;
        job.b = panel;
        job.add = k > 0;
        job.bias = last ? job.bias : NULL;
        job.post_count = last ? job.post_count : 0;
        halves->panel(lines + k, whole->k, job.n, job.k, panel);
        sgemm_run(&job, 0, sgemm_units(&job));
    }
}

/* Units: columns of a matrix of float16, as many as a panel has. */
static inlay_status halves_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;
    const struct dense *dense = call->dense;

    for (int64_t unit = begin; unit < end; unit++) {
        const uint16_t *lines = (const uint16_t *)(const void *)call->lines + unit * SGEMM_WIDTH * dense->job.k;
        sgemm_post posts[CPU_MAX_POSTS + 1];
        const sgemm_job job = panel_job(call, unit * SGEMM_WIDTH, posts);

        if (!dense->few) {
            multiply_halves(&job, dense->halves, lines,
                            call->scratch + worker % dense->workers * (uint64_t)HALVES_PANEL);
            continue;
        }
        dense->halves->dots(job.a, job.a_row, job.m, lines, job.k, job.n, job.k, job.c, job.c_row);
        if (job.bias != NULL)
            job.kernel->post(&(sgemm_post){ .fn = SGEMM_ADD, .other = job.bias, .col = 1 }, job.c, job.c_row, job.m,
                             job.n);
        for (uint32_t i = 0; i < job.post_count; i++)
            job.kernel->post(&posts[i], job.c, job.c_row, job.m, job.n);
    }
    return INLAY_OK;
}

/* The units of the first GEMM of the batch come first, then those of the second, and so on. */
static inlay_status many_products(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;
    const struct dense *dense = call->dense;
    int64_t units = sgemm_units(&call->job),
            matrix = dense->job.k * ((dense->job.n + SGEMM_WIDTH - 1) / SGEMM_WIDTH * SGEMM_WIDTH);

    (void)worker;
    while (begin < end) {
        int64_t i = begin / units, first = begin % units;
        int64_t last = end - begin < units - first ? first + end - begin : units;
        sgemm_post posts[CPU_MAX_POSTS + 1];
        sgemm_job job = call->job;

        INLAY_CHECK(begin >= 0 && end <= units * dense->batch);
        job.a += offset(dense, i, dense->a_steps);
        job.b += dense->lines > 0 ? i % dense->b_count * matrix : offset(dense, i, dense->b_steps);
        job.c += i * dense->job.m * job.c_row;
        job.posts = posts;
        for (uint32_t post = 0; post < job.post_count; post++) {
            posts[post] = call->posts[post];
            if (posts[post].other != NULL)
                posts[post].other += i * dense->job.m * posts[post].row;
        }
        sgemm_run(&job, first, last);
        begin += last - first;
    }
    return INLAY_OK;
}

/* Multiplies few rows by a column-major matrix, which is read once, in place. */
static inlay_status few_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;
    const struct dense *dense = call->dense;
    const sgemm_job *job = &call->job;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i * job->m;
        float *c = job->c + row * job->c_row;

        job->kernel->dots(job->a + offset(dense, i, dense->a_steps), job->a_row, job->m,
                          call->lines + offset(dense, i, dense->b_steps), dense->lines, job->n, job->k, c, job->c_row);
        for (uint32_t post_index = 0; post_index < job->post_count; post_index++) {
            sgemm_post post = call->posts[post_index];

            post.other += post.other != NULL ? row * post.row : 0;
            job->kernel->post(&post, c, job->c_row, job->m, job->n);
        }
    }
    return INLAY_OK;
}

static inlay_status pack_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;
    const struct dense *dense = call->dense;
    int64_t panels = (dense->job.n + SGEMM_WIDTH - 1) / SGEMM_WIDTH;

    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first = unit % panels * SGEMM_WIDTH,
                count = dense->job.n - first < SGEMM_WIDTH ? dense->job.n - first : SGEMM_WIDTH;

        dense->job.kernel->panel(call->lines + offset(dense, unit / panels, dense->b_steps) + first * dense->lines,
                                 dense->lines, count, dense->job.k, call->panels + unit * dense->job.k * SGEMM_WIDTH);
    }
    return INLAY_OK;
}

static inlay_status run_loop(const cpu_state *state, inlay_run *run, int64_t units, double ns,
                             inlay_status (*body)(void *, int64_t, int64_t, uint32_t), dense_call *call)
{
    int64_t grain = 1;

    while (grain < units && ns * (double)grain / (double)units < WAKE_NS / 4.0)
        grain *= 2;
    return state->host->parallel_for(state->host->ctx, run, units, grain, body, call);
}

/* args: input, weights, panels if they are packed here, operands, output. */
static inlay_status run_dense(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct dense *dense = (const struct dense *)(const void *)native;
    dense_call call = { .dense = dense, .lines = args[1], .job = dense->job };
    int64_t units = dense->sparse          ? sparse_units(&call.job)
                    : dense->terms != NULL ? terms_units(&call.job)
                                           : sgemm_units(&call.job) * dense->batch;
    int64_t panels = dense->b_count * ((dense->job.n + SGEMM_WIDTH - 1) / SGEMM_WIDTH);
    double ns = sgemm_estimate_ns(&call.job) * (double)dense->batch;
    const bool sequential = ns < WAKE_NS;
    inlay_status status = INLAY_OK;

    (void)threads; /* a single thread, too, runs by parallel_for, which ends early if the run is cancelled */
    call.job.a = args[0];
    call.job.b = call.panels = args[dense->lines > 0 && !dense->few ? 2 : 1];
    call.job.bias = dense->biased ? args[dense->bias_arg] : NULL;
    call.job.c = args[dense->arg_count - 1];
    call.job.posts = call.posts;
    for (uint32_t post = 0; post < call.job.post_count; post++) {
        call.posts[post] = dense->posts[post].post;
        if (dense->posts[post].arg != INLAY_NONE)
            call.posts[post].other = args[dense->posts[post].arg];
    }
    if (dense->halves != NULL) {
        call.scratch = args[dense->arg_count];
        units = (dense->job.n + SGEMM_WIDTH - 1) / SGEMM_WIDTH;
        return sequential ? halves_panels(&call, 0, units, 0) : run_loop(state, run, units, ns, halves_panels, &call);
    }
    if (dense->few)
        return sequential ? few_rows(&call, 0, dense->batch, 0)
                          : run_loop(state, run, dense->batch, ns, few_rows, &call);
    if (dense->lines > 0)
        status = sequential ? pack_panels(&call, 0, panels, 0)
                            : run_loop(state, run, panels,
                                       4.0 * (double)(panels * SGEMM_WIDTH * dense->job.k) / PANEL_BYTES_PER_NS,
                                       pack_panels, &call);
    if (status != INLAY_OK)
        return status;
    if (dense->sparse) {
        call.scratch = args[dense->arg_count];
        return sequential ? one_sparse(&call, 0, units, 0) : run_loop(state, run, units, ns, one_sparse, &call);
    }
    if (dense->terms != NULL) {
        call.scratch = args[dense->arg_count];
        return sequential ? one_of_terms(&call, 0, units, 0) : run_loop(state, run, units, ns, one_of_terms, &call);
    }
    if (dense->low_bit) {
        call.scratch = args[dense->arg_count];
        units = (dense->job.n + dense->job.width - 1) / dense->job.width;
        return sequential ? low_bit_panels(&call, 0, units, 0) : run_loop(state, run, units, ns, low_bit_panels, &call);
    }
    if (sequential)
        return (dense->batch == 1 ? one_product : many_products)(&call, 0, units, 0);
    return run_loop(state, run, units, ns, dense->batch == 1 ? one_product : many_products, &call);
}

/* Sets the strides of operand `other` along rows and columns of the output; false: its shape is not supported. */
static bool operand_of(const cpu_build *build, uint32_t other, uint32_t out, sgemm_post *post)
{
    uint32_t rank = build->ranks[out], own_rank = build->ranks[other];
    int64_t n = build->dims[out][rank - 1], count = cpu_count(build, other),
            last = own_rank > 0 ? build->dims[other][own_rank - 1] : 1;

    if (count == cpu_count(build, out)) {
        post->row = n;
        post->col = 1;
    } else if (count == last && last == n) {
        post->row = 0;
        post->col = 1;
    } else if (count == 1) {
        post->row = post->col = 0;
    } else if (last == 1 && count == cpu_count(build, out) / n) {
        post->row = 1;
        post->col = 0;
    } else {
        return false;
    }
    return own_rank <= rank;
}

static bool binary_of(const cpu_build *build, const cpu_post *post, uint32_t out, sgemm_post *result)
{
    *result = (sgemm_post){ .fn = post->function == FUNCTION_PRELU ? SGEMM_PRELU : SGEMM_ADD };
    if (post->function == FUNCTION_PRELU)
        return operand_of(build, post->other, out, result);
    switch (post->function) {
    case FUNCTION_ADD:
        break;
    case FUNCTION_SUB:
        result->fn = SGEMM_SUB;
        break;
    case FUNCTION_MUL:
        result->fn = SGEMM_MUL;
        break;
    case FUNCTION_DIV:
        result->fn = SGEMM_DIV;
        break;
    default:
        return false;
    }
    return operand_of(build, post->other, out, result);
}

/* Moves as many post-ops into the epilogue as sgemm.h has functions for; operands get their placements in `others`. */
static inlay_status fuse_posts(cpu_build *build, const cpu_group *group, struct dense *dense, dense_args *args,
                               cpu_place *others, uint32_t *out_taken)
{
    uint32_t fused = 0;

    for (; fused < group->post_count && dense->job.post_count < KIT_COUNT(dense->posts); fused++) {
        const cpu_post *post = &group->posts[fused];
        fused_post *next = &dense->posts[dense->job.post_count];
        bool binary = post->kind == CPU_POST_BINARY;
        inlay_status status;

        next->arg = INLAY_NONE;
        if (binary ? !binary_of(build, post, group->out, &next->post) : !cpu_function_of(&post->unary, &next->post))
            break;
        dense->job.post_count++;
        if (!binary)
            continue;
        status = cpu_read_plain(build, post->other, &others[fused]);
        if (status != INLAY_OK)
            return status;
        next->arg = args->count;
        args->list[args->count++] = &others[fused];
    }
    *out_taken = fused;
    return INLAY_OK;
}

/* True if the first post-op adds an operand of the output's size that has no other consumer: the result overwrites
 * it. */
static bool adds_in_place(const cpu_build *build, const cpu_group *group)
{
    const cpu_post *first = &group->posts[0];

    return group->post_count > 0 && first->kind == CPU_POST_BINARY && first->function == FUNCTION_ADD &&
           cpu_count(build, first->other) == cpu_count(build, group->out) && cpu_is_last_use(build, first->other) &&
           build->places[first->other].buffer != INLAY_NONE && layout_is_plain(&build->places[first->other].layout) &&
           build->compiled->values[group->out].output == INLAY_NONE;
}

/* The panels of a [k, n] matrix as a layout. */
static void panel_layout(int64_t n, int64_t k, tensor_layout *out, sgemm_job *job)
{
    const tensor_dims dims = { n, k };

    (void)layout_blocks(out, 2, dims, n <= 16 ? "AB16b16a" : n <= 32 ? "AB16b32a" : "AB16b64a");
    job->width = job->b_step = n <= 16 ? 16 : n <= 32 ? 32 : 64;
    job->b_panel = out->padded_dims[1] * job->b_step;
}

inlay_status dense_emit(cpu_build *build, const cpu_group *group, struct dense *dense, dense_args *args,
                        uint32_t bias_value)
{
    cpu_place others[CPU_MAX_POSTS], bias, output, scratch;
    uint32_t taken = 0;
    tensor_layout layout, bias_layout;
    bool add = !dense->few && !dense->bits.on && !dense->sparse && dense->halves == NULL && adds_in_place(build, group);
    inlay_status status;

    layout_plain(&bias_layout, 1, &dense->job.n);
    if (bias_value != INLAY_NONE) {
        INLAY_TRY(cpu_read_constant(build, bias_value, &bias_layout, &bias_layout, &bias));
        dense->bias_arg = args->count;
        args->list[args->count++] = &bias;
    }
    if (add) { /* the bias is added after the operand */
        if (bias_value != INLAY_NONE)
            dense->posts[dense->job.post_count++] =
                (fused_post){ .post = { .fn = SGEMM_ADD, .col = 1 }, .arg = dense->bias_arg };
        output = build->places[group->posts[0].other];
        dense->job.add = true;
    }
    dense->biased = bias_value != INLAY_NONE && !add;
    if (add) {
        cpu_group rest = *group;

        rest.post_count--;
        memmove(rest.posts, rest.posts + 1, rest.post_count * sizeof *rest.posts);
        INLAY_TRY(fuse_posts(build, &rest, dense, args, others, &taken));
        taken++;
    } else {
        INLAY_TRY(fuse_posts(build, group, dense, args, others, &taken));
        layout_plain(&layout, build->ranks[group->out], build->dims[group->out]);
        INLAY_TRY(cpu_step_result_place(build, group, taken, &layout, &output));
    }
    args->list[args->count++] = &output;
    dense->arg_count = args->count;
    if (dense->sparse || dense->terms != NULL || dense->low_bit || dense->halves != NULL) {
        const int64_t floats = dense->workers * (dense->halves != NULL  ? HALVES_PANEL
                                                 : dense->sparse        ? sparse_scratch_floats(&dense->job)
                                                 : dense->terms != NULL ? terms_scratch_floats(&dense->job)
                                                                        : dense->job.b_panel);

        INLAY_TRY(cpu_new_floats(build, floats, &scratch));
        args->list[args->count++] = &scratch;
    }
    INLAY_TRY(cpu_emit_step(build, &dense->native, sizeof *dense, args->list, args->count));
    INLAY_CHECK(args->count <= KIT_COUNT(args->list));
    layout_plain(&output.layout, build->ranks[group->out], build->dims[group->out]);
    status = cpu_finish(build, group, taken, &output, true);
done:
    return status;
}

inlay_status cpu_lower_dense(cpu_build *build, const cpu_group *group, uint32_t bias_value, dense_kind kind)
{
    const cpu_op *op = build->op;
    uint32_t weights_value = op->in[1];
    int64_t k = build->dims[weights_value][op->product.trans_b ? 1 : 0],
            n = build->dims[weights_value][op->product.trans_b ? 0 : 1], m = cpu_count(build, op->in[0]) / k;
    int64_t weights_dims[] = { n, k }, w_strides[] = { op->product.trans_b ? k : 1, op->product.trans_b ? 1 : n };
    struct dense dense = { .native.run = run_dense,
                           .job = { .kernel = build->state->sgemm,
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .chain = sgemm_chain(k, build->state->strict),
                                    .a_row = k,
                                    .c_row = n } };
    dense_args args = { .count = 2 };
    cpu_place input, packed;
    tensor_layout w_plain, w_layout;
    inlay_status status;

    dense.batch = dense.b_count = 1;
    dense.sparse = kind == DENSE_SPARSE;
    dense.terms = kind == DENSE_TERMS ? terms_of_cpu() : NULL;
    dense.low_bit = kind == DENSE_FLOATS && kernel_weights_are_low_bit(build);
    dense.halves = kind == DENSE_HALVES ? cpu_halves_of(build, weights_value) : NULL;
    dense.few = dense.halves != NULL && m <= SGEMM_FEW_HALVES && !build->state->reproducible;
    dense.workers = build->instance->threads > 0 ? build->instance->threads : 1;
    layout_strides(&w_plain, 2, weights_dims, w_strides);
    if (dense.sparse) {
        sparse_layout(&w_plain, sparse_blocks_of(build, op), &w_layout);
        dense.job.width = SPARSE_WIDTH;
    } else if (dense.terms != NULL) {
        dense.job.b_terms = terms_of_constant(build, weights_value);
        terms_layout(&w_plain, dense.job.b_terms, &w_layout);
        sgemm_share(&dense.job, build->instance->threads);
        terms_share(&dense.job, build->instance->threads);
    } else if (dense.halves != NULL) {
        dense.job.width = dense.job.b_step = SGEMM_WIDTH;
    } else {
        panel_layout(n, k, &w_layout, &dense.job);
    }
    if (dense.terms == NULL)
        sgemm_share(&dense.job, build->instance->threads);
    INLAY_TRY(cpu_read_strided(build, op->in[0], &input));
    if (!layout_has_rows(&input.layout, &dense.job.a_row)) {
        INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
        dense.job.a_row = k;
    }
    INLAY_TRY(dense.halves != NULL ? cpu_read_halves(build, weights_value, &packed)
                                   : (dense.low_bit ? low_bit_read_pack : cpu_read_constant)(
                                         build, weights_value, &w_plain, &w_layout, &packed));
    args.list[0] = &input;
    args.list[1] = &packed;
    status = dense_emit(build, group, &dense, &args, bias_value);
done:
    return status;
}

/* Row and column strides of an operand as cpu_read_matrix returns it, and its strides along the batch axes. */
static void read_steps(const tensor_layout *layout, uint32_t axes, int64_t *steps, int64_t *out_row,
                       int64_t *out_column)
{
    const int64_t *strides = layout->strides;

    for (uint32_t axis = 0; axis < axes; axis++)
        steps[axis] = layout->dims[axis] > 1 ? strides[axis] : 0;
    *out_row = strides[axes];
    *out_column = strides[axes + 1];
}

inlay_status cpu_lower_batched(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const uint32_t output_value = op->out[0], rank = build->ranks[output_value], axes = rank - 2;
    const int64_t *dims = build->dims[output_value];
    struct dense dense = { .native.run = run_dense,
                           .batch = cpu_count(build, output_value) / (dims[axes] * dims[axes + 1]),
                           .axes = axes,
                           .job = { .kernel = build->state->sgemm,
                                    .m = dims[axes],
                                    .n = dims[axes + 1],
                                    .width = SGEMM_WIDTH,
                                    .b_panel = SGEMM_WIDTH,
                                    .c_row = dims[axes + 1] } };
    dense_args args = { .count = 2 };
    int64_t row, column, floats;
    cpu_place place, weights, scratch;
    inlay_status status;
    tensor_layout layout;

    INLAY_TRY(cpu_read_matrix(build, op->in[0], rank, op->product.trans_a, &place));
    INLAY_TRY(cpu_read_matrix(build, op->in[1], rank, op->product.trans_b, &weights));
    dense.job.k = place.layout.dims[rank - 1];
    dense.job.chain = sgemm_chain(dense.job.k, build->state->strict);
    if (place.layout.strides[rank - 1] != 1) { /* column-major: rows must be contiguous */
        layout_plain(&layout, rank, place.layout.dims);
        INLAY_TRY(cpu_reorder(build, &place, &layout, &place));
    }
    memcpy(dense.dims, dims, axes * sizeof *dims);
    read_steps(&place.layout, axes, dense.a_steps, &dense.job.a_row, &column);
    read_steps(&weights.layout, axes, dense.b_steps, &row, &column);
    dense.b_count = 1;
    for (uint32_t axis = 0; axis < axes; axis++)
        dense.b_count = dense.b_steps[axis] != 0 ? dense.batch : dense.b_count;
    args.list[0] = &place;
    args.list[1] = &weights;
    dense.job.b_step = row;
    if (column != 1)
        dense.lines = column;
    dense.few = column != 1 && dense.job.m <= SGEMM_FEW && !build->state->reproducible;
    if (column != 1 && !dense.few) {
        floats = dense.b_count * dense.job.k * ((dense.job.n + SGEMM_WIDTH - 1) / SGEMM_WIDTH * SGEMM_WIDTH);
        INLAY_TRY(cpu_new_floats(build, floats, &scratch));
        args.list[args.count++] = &scratch;
        dense.job.b_step = SGEMM_WIDTH;
        dense.job.b_panel = dense.job.k * SGEMM_WIDTH;
    }
    if (dense.batch == 1)
        sgemm_share(&dense.job, build->instance->threads);
    status = dense_emit(build, group, &dense, &args, INLAY_NONE);
done:
    return status;
}
