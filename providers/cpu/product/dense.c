/* Products with loops of our own (sgemm.h): the bias, functions and operands behind a product are done block by block.
 * Constant matrices lie in panels; a matrix that is computed is read row by row as it lies, or, where columns are what
 * lies together, put into panels first. Of that kind there may be many, with a product each. */
#include "product/dense.h"
#include "choice/kernels.h"
#include "weights/narrow.h"
#include "weights/pairs_weights.h"
#include "weights/sparse_weights.h"

#define PANEL_BYTES_PER_NS 20.0

typedef struct dense_call {
    const struct dense *d;
    const float *lines; /* B as it lies, and */
    float *panels;      /* where it is put */
    float *scratch;     /* of the first worker */
    sg_job job;
    sg_post posts[RG_MAX_POSTS + 1];
} dense_call;

/* Where product number i starts in an operand. */
static int64_t offset(const struct dense *d, int64_t i, const int64_t *steps)
{
    int64_t at = 0;

    for (uint32_t x = d->axes; x-- > 0; i /= d->dims[x])
        at += i % d->dims[x] * steps[x];
    return at;
}

static inlay_status one_product(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    sg_run(&((const dense_call *)user)->job, begin, end);
    return INLAY_OK;
}

static inlay_status one_in_pairs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;

    pairs_run(&call->job, call->scratch + worker % call->d->workers * pairs_scratch_floats(&call->job), begin, end);
    return INLAY_OK;
}

static inlay_status one_sparse(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;

    sparse_run(&call->job, call->scratch + worker % call->d->workers * sparse_scratch_floats(&call->job), begin, end);
    return INLAY_OK;
}

/* Units: panels of a matrix of few bits. */
static inlay_status narrow_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;
    const struct dense *d = call->d;
    float *room = call->scratch + worker % d->workers * (uint64_t)d->job.b_panel;

    for (int64_t u = begin; u < end; u++) {
        const int64_t at = u * d->job.width;
        sg_post posts[RG_MAX_POSTS + 1];
        sg_job job = call->job;

        narrow_unfold(call->lines, u * job.b_panel, (u + 1) * job.b_panel, room);
        job.n = job.n - at < job.width ? job.n - at : job.width;
        job.b = room;
        job.bias = job.bias == NULL ? NULL : job.bias + at;
        job.c += at;
        job.posts = posts;
        for (uint32_t i = 0; i < job.post_count; i++) {
            posts[i] = call->posts[i];
            if (posts[i].other != NULL)
                posts[i].other += at * posts[i].col;
        }
        sg_run(&job, 0, sg_units(&job));
    }
    return INLAY_OK;
}

/* Units of a product after those of the one before. */
static inlay_status many_products(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;
    const struct dense *d = call->d;
    int64_t units = sg_units(&call->job), matrix = d->job.k * ((d->job.n + SG_WIDTH - 1) / SG_WIDTH * SG_WIDTH);

    (void)worker;
    while (begin < end) {
        int64_t i = begin / units, first = begin % units;
        int64_t last = end - begin < units - first ? first + end - begin : units;
        sg_post posts[RG_MAX_POSTS + 1];
        sg_job job = call->job;

        job.a += offset(d, i, d->a_steps);
        job.b += d->lines > 0 ? i % d->b_count * matrix : offset(d, i, d->b_steps);
        job.c += i * d->job.m * job.c_row;
        job.posts = posts;
        for (uint32_t p = 0; p < job.post_count; p++) {
            posts[p] = call->posts[p];
            if (posts[p].other != NULL)
                posts[p].other += i * d->job.m * posts[p].row;
        }
        sg_run(&job, first, last);
        begin += last - first;
    }
    return INLAY_OK;
}

/* Few rows by columns that lie together: they are read once, as they are. */
static inlay_status few_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;
    const struct dense *d = call->d;
    const sg_job *job = &call->job;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i * job->m;
        float *c = job->c + row * job->c_row;

        job->kernel->dots(job->a + offset(d, i, d->a_steps), job->a_row, job->m, call->lines + offset(d, i, d->b_steps),
                          d->lines, job->n, job->k, c, job->c_row);
        for (uint32_t p = 0; p < job->post_count; p++) {
            sg_post post = call->posts[p];

            post.other += post.other != NULL ? row * post.row : 0;
            job->kernel->post(&post, c, job->c_row, job->m, job->n);
        }
    }
    return INLAY_OK;
}

static inlay_status make_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_call *call = user;
    const struct dense *d = call->d;
    int64_t panels = (d->job.n + SG_WIDTH - 1) / SG_WIDTH;

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        int64_t first = u % panels * SG_WIDTH, count = d->job.n - first < SG_WIDTH ? d->job.n - first : SG_WIDTH;

        d->job.kernel->panel(call->lines + offset(d, u / panels, d->b_steps) + first * d->lines, d->lines, count,
                             d->job.k, call->panels + u * d->job.k * SG_WIDTH);
    }
    return INLAY_OK;
}

static inlay_status run_loop(const rg_state *state, inlay_run *run, int64_t units, double ns,
                             inlay_status (*body)(void *, int64_t, int64_t, uint32_t), dense_call *call)
{
    int64_t grain = 1;

    while (grain < units && ns * (double)grain / (double)units < WAKE_NS / 4.0)
        grain *= 2;
    return state->host->parallel_for(state->host->ctx, run, units, grain, body, call);
}

/* args: x, weights, panels if they are made here, operands, y. */
static inlay_status run_dense(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct dense *d = (const struct dense *)(const void *)native;
    dense_call call = { .d = d, .lines = args[1], .job = d->job };
    int64_t units = d->paired   ? pairs_units(&call.job)
                    : d->sparse ? sparse_units(&call.job)
                                : sg_units(&call.job) * d->batch;
    int64_t panels = d->b_count * ((d->job.n + SG_WIDTH - 1) / SG_WIDTH);
    double ns = sg_estimate_ns(&call.job) * (double)d->batch;
    const bool alone = ns < WAKE_NS;
    inlay_status status = INLAY_OK;

    (void)threads; /* one goes by the host, too, which ends long loops of cancelled runs */
    call.job.a = args[0];
    call.job.b = call.panels = args[d->lines > 0 && !d->few ? 2 : 1];
    call.job.bias = d->biased ? args[d->bias_arg] : NULL;
    call.job.c = args[d->arg_count - 1];
    call.job.posts = call.posts;
    for (uint32_t p = 0; p < call.job.post_count; p++) {
        call.posts[p] = d->posts[p].post;
        if (d->posts[p].arg != INLAY_NONE)
            call.posts[p].other = args[d->posts[p].arg];
    }
    if (d->few)
        return alone ? few_rows(&call, 0, d->batch, 0) : run_loop(state, run, d->batch, ns, few_rows, &call);
    if (d->lines > 0)
        status = alone ? make_panels(&call, 0, panels, 0)
                       : run_loop(state, run, panels, 4.0 * (double)(panels * SG_WIDTH * d->job.k) / PANEL_BYTES_PER_NS,
                                  make_panels, &call);
    if (status != INLAY_OK)
        return status;
    if (d->paired) {
        call.scratch = args[d->arg_count];
        pairs_start(&call.job, call.scratch, d->workers);
        return alone ? one_in_pairs(&call, 0, units, 0) : run_loop(state, run, units, ns, one_in_pairs, &call);
    }
    if (d->sparse) {
        call.scratch = args[d->arg_count];
        return alone ? one_sparse(&call, 0, units, 0) : run_loop(state, run, units, ns, one_sparse, &call);
    }
    if (d->narrow) {
        call.scratch = args[d->arg_count];
        units = (d->job.n + d->job.width - 1) / d->job.width;
        return alone ? narrow_panels(&call, 0, units, 0) : run_loop(state, run, units, ns, narrow_panels, &call);
    }
    if (alone)
        return (d->batch == 1 ? one_product : many_products)(&call, 0, units, 0);
    return run_loop(state, run, units, ns, d->batch == 1 ? one_product : many_products, &call);
}

/* ------------------------------------------------------------------ lowering */

bool rg_function_of(const rg_eltwise *f, sg_post *out)
{
    static const struct {
        dn_alg alg;
        sg_fn fn;
    } known[] = {
        { DN_ELTWISE_RELU, SG_RELU },           { DN_ELTWISE_GELU_ERF, SG_GELU },
        { DN_ELTWISE_GELU_TANH, SG_GELU_TANH }, { DN_ELTWISE_LOGISTIC, SG_SIGMOID },
        { DN_ELTWISE_TANH, SG_TANH },           { DN_ELTWISE_SWISH, SG_SWISH },
        { DN_ELTWISE_HARDSWISH, SG_HARDSWISH }, { DN_ELTWISE_LINEAR, SG_LINEAR },
        { DN_ELTWISE_CLIP_V2, SG_CLIP },
    };

    for (uint32_t i = 0; i < KIT_COUNT(known); i++) {
        if (known[i].alg == f->alg) {
            *out = (sg_post){ .fn = known[i].fn, .alpha = f->alpha, .beta = f->beta };
            return true;
        }
    }
    return false;
}

/* How value `other` lies beside the rows and columns of the output, which has `rank` axes, the last of n elements. */
static bool operand_of(const rg_build *b, uint32_t other, uint32_t out, sg_post *post)
{
    uint32_t rank = b->ranks[out], own = b->ranks[other];
    int64_t n = b->dims[out][rank - 1], count = rg_count(b, other), last = own > 0 ? b->dims[other][own - 1] : 1;

    if (count == rg_count(b, out)) {
        post->row = n;
        post->col = 1;
    } else if (count == last && last == n) {
        post->row = 0;
        post->col = 1;
    } else if (count == 1) {
        post->row = post->col = 0;
    } else if (last == 1 && count == rg_count(b, out) / n) {
        post->row = 1;
        post->col = 0;
    } else {
        return false;
    }
    return own <= rank;
}

static bool binary_of(const rg_build *b, const rg_post *post, uint32_t out, sg_post *result)
{
    *result = (sg_post){ .fn = post->alg == RG_PRELU ? SG_PRELU : SG_ADD };
    if (post->alg == RG_PRELU)
        return operand_of(b, post->other, out, result);
    switch (post->alg) {
    case DN_BINARY_ADD:
        break;
    case DN_BINARY_SUB:
        result->fn = SG_SUB;
        break;
    case DN_BINARY_MUL:
        result->fn = SG_MUL;
        break;
    case DN_BINARY_DIV:
        result->fn = SG_DIV;
        break;
    default:
        return false;
    }
    return operand_of(b, post->other, out, result);
}

/* Takes over as many of the group's posts as there are functions for; operands get their places in `others`. */
static inlay_status take_posts(rg_build *b, const rg_group *group, struct dense *d, dense_args *args, rg_place *others,
                               uint32_t *out_taken)
{
    uint32_t n = 0;

    for (; n < group->post_count && d->job.post_count < KIT_COUNT(d->posts); n++) {
        const rg_post *post = &group->posts[n];
        struct behind *next = &d->posts[d->job.post_count];
        bool binary = post->kind == RG_POST_BINARY;
        inlay_status status;

        next->arg = INLAY_NONE;
        if (binary ? !binary_of(b, post, group->out, &next->post) : !rg_function_of(&post->eltwise, &next->post))
            break;
        d->job.post_count++;
        if (!binary)
            continue;
        status = rg_read_plain(b, post->other, &others[n]);
        if (status != INLAY_OK)
            return status;
        next->arg = args->count;
        args->list[args->count++] = &others[n];
    }
    *out_taken = n;
    return INLAY_OK;
}

/* A first operand of the output's size that nobody reads afterwards takes the sums: true. */
static bool adds_in_place(const rg_build *b, const rg_group *group)
{
    const rg_post *first = &group->posts[0];

    return group->post_count > 0 && first->kind == RG_POST_BINARY && first->alg == DN_BINARY_ADD &&
           rg_count(b, first->other) == rg_count(b, group->out) && rg_is_last_use(b, first->other) &&
           b->places[first->other].buffer != INLAY_NONE && rg_md_is_plain(&b->places[first->other].md) &&
           b->c->values[group->out].output == INLAY_NONE;
}

/* The panels of a [k, n] matrix as a layout of oneDNN's. */
static void panels(int64_t n, int64_t k, rg_md *out, sg_job *job)
{
    const dn_dims dims = { n, k };

    (void)rg_md_blocks(out, 2, dims, n <= 16 ? "AB16b16a" : n <= 32 ? "AB16b32a" : "AB16b64a");
    job->width = job->b_step = n <= 16 ? 16 : n <= 32 ? 32 : 64;
    job->b_panel = out->padded_dims[1] * job->b_step;
}

inlay_status dense_emit(rg_build *b, const rg_group *group, struct dense *d, dense_args *args, uint32_t bias_value)
{
    rg_place others[RG_MAX_POSTS], bias, y, scratch;
    uint32_t taken = 0;
    rg_md md, bias_md;
    bool add = !d->few && !d->bits.on && !d->sparse && adds_in_place(b, group);
    inlay_status status;

    rg_md_plain(&bias_md, 1, &d->job.n);
    if (bias_value != INLAY_NONE) {
        INLAY_TRY(rg_read_constant(b, bias_value, &bias_md, &bias_md, &bias));
        d->bias_arg = args->count;
        args->list[args->count++] = &bias;
    }
    if (add) { /* the bias comes behind it */
        if (bias_value != INLAY_NONE)
            d->posts[d->job.post_count++] = (struct behind){ .post = { .fn = SG_ADD, .col = 1 }, .arg = d->bias_arg };
        y = b->places[group->posts[0].other];
        d->job.add = true;
    }
    d->biased = bias_value != INLAY_NONE && !add;
    if (add) {
        rg_group rest = *group;

        rest.post_count--;
        memmove(rest.posts, rest.posts + 1, rest.post_count * sizeof *rest.posts);
        INLAY_TRY(take_posts(b, &rest, d, args, others, &taken));
        taken++;
    } else {
        INLAY_TRY(take_posts(b, group, d, args, others, &taken));
        rg_md_plain(&md, b->ranks[group->out], b->dims[group->out]);
        INLAY_TRY(rg_made_place(b, group, taken, &md, &y));
    }
    args->list[args->count++] = &y;
    d->arg_count = args->count;
    if (d->paired || d->sparse || d->narrow) {
        const int64_t floats = d->workers * (d->paired   ? pairs_scratch_floats(&d->job)
                                             : d->sparse ? sparse_scratch_floats(&d->job)
                                                         : d->job.b_panel);

        INLAY_TRY(rg_new_floats(b, floats, &scratch));
        args->list[args->count++] = &scratch;
    }
    INLAY_TRY(rg_emit_step(b, &d->native, sizeof *d, args->list, args->count));
    rg_md_plain(&y.md, b->ranks[group->out], b->dims[group->out]);
    status = rg_finish(b, group, taken, &y, true);
done:
    return status;
}

inlay_status rg_lower_dense(rg_build *b, const rg_group *group, uint32_t bias_value, rg_dense_way way)
{
    const rg_op *op = b->op;
    uint32_t w = op->in[1];
    int64_t k = b->dims[w][op->product.trans_b ? 1 : 0], n = b->dims[w][op->product.trans_b ? 0 : 1],
            m = rg_count(b, op->in[0]) / k;
    int64_t w_dims[] = { n, k }, w_strides[] = { op->product.trans_b ? k : 1, op->product.trans_b ? 1 : n };
    struct dense d = { .native.run = run_dense,
                       .job = { .kernel = b->state->sgemm,
                                .m = m,
                                .n = n,
                                .k = k,
                                .chain = sg_chain(k, b->state->strict),
                                .a_row = k,
                                .c_row = n } };
    dense_args args = { .count = 2 };
    rg_place x, packed;
    rg_md w_plain, w_md;
    inlay_status status;

    d.batch = d.b_count = 1;
    (way == RG_DENSE_PAIRS ? pairs_share : sg_share)(&d.job, b->instance->threads);
    d.paired = way == RG_DENSE_PAIRS;
    d.sparse = way == RG_DENSE_SPARSE;
    d.narrow = way == RG_DENSE_PLAIN && kn_is_narrow(b);
    d.workers = b->instance->threads > 0 ? b->instance->threads : 1;
    rg_md_strides(&w_plain, 2, w_dims, w_strides);
    if (d.paired) {
        pairs_layout(k, n, &w_md);
    } else if (d.sparse) {
        sparse_layout(&w_plain, sparse_blocks_of(b, op), &w_md);
        d.job.width = sparse_fours_of(b, op) ? FR_WIDTH : SP_WIDTH;
    } else {
        panels(n, k, &w_md, &d.job);
    }
    INLAY_TRY(rg_read_strided(b, op->in[0], &x));
    if (!rg_md_has_rows(&x.md, &d.job.a_row)) {
        INLAY_TRY(rg_read_plain(b, op->in[0], &x));
        d.job.a_row = k;
    }
    INLAY_TRY((d.narrow ? narrow_read_pack : rg_read_constant)(b, w, &w_plain, &w_md, &packed));
    args.list[0] = &x;
    args.list[1] = &packed;
    status = dense_emit(b, group, &d, &args, bias_value);
done:
    return status;
}

/* Rows and columns of an operand, as rg_read_matrix has it, and its steps along the axes that count products. */
static void read_steps(const rg_md *md, uint32_t axes, int64_t *steps, int64_t *out_row, int64_t *out_column)
{
    const int64_t *s = md->strides;

    for (uint32_t x = 0; x < axes; x++)
        steps[x] = md->dims[x] > 1 ? s[x] : 0;
    *out_row = s[axes];
    *out_column = s[axes + 1];
}

inlay_status rg_lower_batched(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    const uint32_t y = op->out[0], rank = b->ranks[y], axes = rank - 2;
    const int64_t *dims = b->dims[y];
    struct dense d = { .native.run = run_dense,
                       .batch = rg_count(b, y) / (dims[axes] * dims[axes + 1]),
                       .axes = axes,
                       .job = { .kernel = b->state->sgemm,
                                .m = dims[axes],
                                .n = dims[axes + 1],
                                .width = SG_WIDTH,
                                .b_panel = SG_WIDTH,
                                .c_row = dims[axes + 1] } };
    dense_args args = { .count = 2 };
    int64_t row, column, floats;
    rg_place a, w, scratch;
    inlay_status status;
    rg_md md;

    INLAY_TRY(rg_read_matrix(b, op->in[0], rank, op->product.trans_a, &a));
    INLAY_TRY(rg_read_matrix(b, op->in[1], rank, op->product.trans_b, &w));
    d.job.k = a.md.dims[rank - 1];
    d.job.chain = sg_chain(d.job.k, b->state->strict);
    if (a.md.strides[rank - 1] != 1) { /* columns lie together: rows are needed */
        rg_md_plain(&md, rank, a.md.dims);
        INLAY_TRY(rg_reorder(b, &a, &md, &a));
    }
    memcpy(d.dims, dims, axes * sizeof *dims);
    read_steps(&a.md, axes, d.a_steps, &d.job.a_row, &column);
    read_steps(&w.md, axes, d.b_steps, &row, &column);
    d.b_count = 1;
    for (uint32_t x = 0; x < axes; x++)
        d.b_count = d.b_steps[x] != 0 ? d.batch : d.b_count;
    args.list[0] = &a;
    args.list[1] = &w;
    d.job.b_step = row;
    if (column != 1)
        d.lines = column;
    d.few = column != 1 && d.job.m <= SG_FEW && !b->state->reproducible;
    if (column != 1 && !d.few) {
        floats = d.b_count * d.job.k * ((d.job.n + SG_WIDTH - 1) / SG_WIDTH * SG_WIDTH);
        INLAY_TRY(rg_new_floats(b, floats, &scratch));
        args.list[args.count++] = &scratch;
        d.job.b_step = SG_WIDTH;
        d.job.b_panel = d.job.k * SG_WIDTH;
    }
    status = dense_emit(b, group, &d, &args, INLAY_NONE);
done:
    return status;
}
