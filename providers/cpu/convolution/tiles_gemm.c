/* Convolutions as products of matrices: pixels by channels as they lie, or the windows of some pixels laid out in rows,
 * by the loops that products of constants run on (sgemm.h). Those cut k, too, so that rows and weights stay in the
 * second-level cache however many channels there are. */
#include "weights/narrow.h"
#include "weights/pairs_weights.h"
#include "convolution/tiles.h"
#include <math.h>

enum { ARG_X, ARG_W, ARG_Y, BLOCK_PIXELS = 160, SHARED_PIXELS = 48, WAKE_NS = 10000 };

struct gemm {
    rg_native native;
    sg_job job; /* without addresses; m: all pixels */
    kn_window w;
    int64_t x_pixel;
    int64_t skipped;               /* elements of each panel that belong to taps outside the image */
    bool unfolded;                 /* windows are laid out: the scratchpad comes fourth */
    bool paired;                   /* in pairs: the scratchpads for that come last, */
    uint32_t prepared;             /* as this argument */
    bool narrow;                   /* weights have few bits: workers make floats of a panel at a time, */
    uint32_t room;                 /* in this argument */
    bool in_place;                 /* the other operand of the sum is where the result will be */
    int64_t blocks, chunk, chunks; /* of pixels; panels of a unit */
    int64_t block_floats;
    uint32_t workers;
    tile_ending ending;
};

typedef struct gemm_call {
    const struct gemm *g;
    void *const *args;
    sg_job job;
    float *prepared;
    sg_post posts[RG_MAX_POSTS + 3];
} gemm_call;

/* ------------------------------------------------------------------ the run */

static sg_post *one_more(gemm_call *call, sg_fn fn)
{
    sg_post *p = &call->posts[call->job.post_count++];

    *p = (sg_post){ .fn = fn };
    return p;
}

/* What is done behind the product, in its order: other operands are those of pixel 0. */
static void set_posts(gemm_call *call)
{
    const struct gemm *g = call->g;
    const tile_ending *e = &g->ending;
    const float *bias = e->bias != INLAY_NONE ? call->args[e->bias] : NULL;

    call->job.add = g->in_place;
    call->job.bias = g->in_place ? NULL : bias;
    if (g->in_place && bias != NULL)
        *one_more(call, SG_ADD) = (sg_post){ .fn = SG_ADD, .other = bias, .col = 1 };
    if (!g->in_place && e->add != INLAY_NONE)
        *one_more(call, SG_ADD) = (sg_post){ .fn = SG_ADD, .other = call->args[e->add], .row = e->add_pixel, .col = 1 };
    if (e->clamp)
        *one_more(call, SG_CLIP) = (sg_post){ .fn = SG_CLIP, .alpha = e->low, .beta = e->high };
    for (uint32_t p = 0; p < e->post_count; p++) {
        sg_post *post = one_more(call, e->posts[p].post.fn);

        *post = e->posts[p].post;
        if (e->posts[p].arg != INLAY_NONE)
            post->other = call->args[e->posts[p].arg];
    }
    call->job.posts = call->posts;
}

/* Rows [first, end) of the window. */
typedef struct tap_rows {
    int64_t first, end;
} tap_rows;

/* Those that meet the image for some of the pixels; at least one. */
static tap_rows rows_met(const kn_window *w, int64_t pixel, int64_t count)
{
    const int64_t plane = w->out_height * w->out_width, last = pixel + count - 1;
    const int64_t top = pixel / w->out_width % w->out_height * w->stride[0] - w->begin[0];
    const int64_t bottom = last / w->out_width % w->out_height * w->stride[0] - w->begin[0];
    tap_rows taps = { 0, w->kernel[0] };

    if (pixel / plane != last / plane)
        return taps;
    while (taps.first + 1 < taps.end && bottom + taps.first * w->dilation[0] < 0)
        taps.first++;
    while (taps.first + 1 < taps.end && top + (taps.end - 1) * w->dilation[0] >= w->height)
        taps.end--;
    return taps;
}

double tiles_gemm_share(const kn_window *w)
{
    const int64_t pixels = w->out_height * w->out_width, blocks = (pixels + BLOCK_PIXELS - 1) / BLOCK_PIXELS;
    double met = 0;

    for (int64_t n = 0; n < blocks; n++) {
        const int64_t first = pixels * n / blocks, count = pixels * (n + 1) / blocks - first;
        const tap_rows taps = rows_met(w, first, count);

        met += (double)((taps.end - taps.first) * count);
    }
    return met / (double)(pixels * w->kernel[0]);
}

/* The windows of pixels [first, first + count) as rows of elements: zeros outside the image. */
static void unfold(const gemm_call *call, int64_t first, int64_t count, tap_rows taps, float *rows)
{
    const struct gemm *g = call->g;
    const kn_window *w = &g->w;
    const size_t bytes = (size_t)w->in * sizeof(float);
    const float *x = call->args[ARG_X];

    for (int64_t i = 0; i < count; i++) {
        int64_t pixel = first + i, image = pixel / (w->out_height * w->out_width);
        int64_t r = pixel / w->out_width % w->out_height * w->stride[0] - w->begin[0];
        int64_t q = pixel % w->out_width * w->stride[1] - w->begin[1];

        for (int64_t a = taps.first; a < taps.end; a++) {
            int64_t y = r + a * w->dilation[0], from = (image * w->height + y) * w->width + q;

            if (y >= 0 && y < w->height && w->dilation[1] == 1 && g->x_pixel == w->in && q >= 0 &&
                q + w->kernel[1] <= w->width) {
                memcpy(rows, x + from * w->in, (size_t)w->kernel[1] * bytes);
                rows += w->kernel[1] * w->in;
                continue;
            }
            for (int64_t c = 0; c < w->kernel[1]; c++, rows += w->in) {
                int64_t at = q + c * w->dilation[1];

                if (y < 0 || y >= w->height || at < 0 || at >= w->width)
                    memset(rows, 0, bytes);
                else
                    memcpy(rows, x + (from + c * w->dilation[1]) * g->x_pixel, bytes);
            }
        }
    }
}

/* A block in pairs: all columns are the job's, of which it does some panels. fresh: rows are not those of the call
 * before. */
static void block_in_pairs(const gemm_call *call, const float *rows, int64_t first, int64_t count, int64_t panel,
                           int64_t panels, bool fresh, float *scratch)
{
    sg_post posts[RG_MAX_POSTS + 3];
    sg_job job = call->job;

    job.m = count;
    job.a = rows;
    job.c += first * job.c_row;
    for (uint32_t p = 0; p < job.post_count; p++) {
        posts[p] = call->posts[p];
        if (posts[p].other != NULL)
            posts[p].other += first * posts[p].row;
    }
    job.posts = posts;
    if (fresh)
        pairs_start(&job, scratch, 1);
    pairs_run(&job, scratch, panel, panel + panels < pairs_units(&job) ? panel + panels : pairs_units(&job));
}

static inlay_status unfolded_pairs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;
    const struct gemm *g = call->g;
    float *rows = (float *)call->args[ARG_Y + 1] + worker % g->workers * g->block_floats;
    float *scratch = call->prepared + worker % g->workers * pairs_scratch_floats(&g->job);
    int64_t there = -1;

    for (int64_t u = begin; u < end; u++) {
        int64_t block = u / g->chunks, first = g->job.m * block / g->blocks, next = g->job.m * (block + 1) / g->blocks;

        if (block != there)
            unfold(call, first, next - first, (tap_rows){ 0, g->w.kernel[0] }, rows);
        block_in_pairs(call, rows, first, next - first, u % g->chunks * g->chunk, g->chunk, block != there, scratch);
        there = block;
    }
    return INLAY_OK;
}

static inlay_status whole_pairs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;

    pairs_run(&call->job, call->prepared + worker % call->g->workers * pairs_scratch_floats(&call->job), begin, end);
    return INLAY_OK;
}

/* Units: blocks of pixels by chunks of panels. */
static inlay_status unfolded_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;
    const struct gemm *g = call->g;
    float *rows = (float *)call->args[ARG_Y + 1] + worker % g->workers * g->block_floats;
    int64_t there = -1;

    for (int64_t u = begin; u < end; u++) {
        int64_t block = u / g->chunks, first = g->job.m * block / g->blocks, next = g->job.m * (block + 1) / g->blocks;
        int64_t column = u % g->chunks * g->chunk * g->job.width, tap_row = g->w.kernel[1] * g->w.in;
        const tap_rows taps = rows_met(&g->w, first, next - first);
        sg_post posts[RG_MAX_POSTS + 3];
        sg_job job = call->job;

        if (block != there)
            unfold(call, first, next - first, taps, rows);
        there = block;
        job.m = next - first;
        job.k = job.a_row = (taps.end - taps.first) * tap_row;
        job.n = g->job.n - column < g->chunk * g->job.width ? g->job.n - column : g->chunk * g->job.width;
        job.a = rows;
        job.b = call->job.b + column / g->job.width * g->job.b_panel + taps.first * tap_row * g->job.width;
        job.bias = call->job.bias != NULL ? call->job.bias + column : NULL;
        job.c = call->job.c + first * job.c_row + column;
        for (uint32_t p = 0; p < job.post_count; p++) {
            posts[p] = call->posts[p];
            if (posts[p].other != NULL)
                posts[p].other += first * posts[p].row + column * posts[p].col;
        }
        job.posts = posts;
        sg_run(&job, 0, sg_units(&job));
    }
    return INLAY_OK;
}

/* Units: panels of weights of few bits, which become floats near the core. */
static inlay_status narrow_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;
    const struct gemm *g = call->g;
    float *room = (float *)call->args[g->room] + worker % g->workers * (uint64_t)g->job.b_panel;

    for (int64_t u = begin; u < end; u++) {
        const int64_t column = u * g->job.width;
        sg_post posts[RG_MAX_POSTS + 3];
        sg_job job = call->job;

        narrow_unfold(call->args[ARG_W], u * job.b_panel, (u + 1) * job.b_panel, room);
        job.n = job.n - column < job.width ? job.n - column : job.width;
        job.b = room;
        job.bias = job.bias != NULL ? job.bias + column : NULL;
        job.c += column;
        for (uint32_t p = 0; p < job.post_count; p++) {
            posts[p] = call->posts[p];
            if (posts[p].other != NULL)
                posts[p].other += column * posts[p].col;
        }
        job.posts = posts;
        sg_run(&job, 0, sg_units(&job));
    }
    return INLAY_OK;
}

static inlay_status whole_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;

    (void)worker;
    sg_run(&call->job, begin, end);
    return INLAY_OK;
}

static inlay_status run_gemm(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct gemm *g = (const struct gemm *)(const void *)native;
    gemm_call call = { .g = g, .args = args, .job = g->job };
    int64_t units = g->unfolded ? g->blocks * g->chunks : g->paired ? pairs_units(&g->job) : sg_units(&g->job);
    inlay_parallel_fn body = g->paired     ? g->unfolded ? unfolded_pairs : whole_pairs
                             : g->unfolded ? unfolded_units
                                           : whole_units;

    if (g->narrow) {
        units = (g->job.n + g->job.width - 1) / g->job.width;
        body = narrow_units;
    }
    call.job.a = args[ARG_X];
    call.job.b = (const float *)args[ARG_W] + g->skipped;
    call.job.c = args[ARG_Y];
    set_posts(&call);
    if (g->paired)
        call.prepared = args[g->prepared];
    if (g->paired && !g->unfolded)
        pairs_start(&g->job, call.prepared, g->workers);
    if (threads <= 1 || units < 2 || sg_estimate_ns(&g->job) < WAKE_NS)
        return body(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, body, &call);
}

/* ------------------------------------------------------------------ lowering */

/* Panels [out / width][window][in][width]. */
static bool panel_layout(const kn_case *c, rg_md *md, sg_job *job)
{
    const bool flat = c->weights.ndims == 4;
    const int at = job->n <= 16 ? 0 : job->n <= 32 ? 1 : 2;
    static const char *const tags[2][3] = { { "Acb16a", "Acb32a", "Acb64a" }, { "Acdb16a", "Acdb32a", "Acdb64a" } };

    job->width = job->b_step = 16 << at;
    job->b_panel = c->w.in * c->w.kernel[0] * c->w.kernel[1] * job->width;
    return rg_md_blocks(md, (uint32_t)c->weights.ndims, c->weights.dims, tags[flat][at]);
}

static void divide(struct gemm *g, uint32_t threads)
{
    const int64_t width = g->paired ? PR_WIDTH : g->job.width;
    const int64_t most = g->paired ? pairs_block_rows(g->job.k) : BLOCK_PIXELS; /* one block to it */
    int64_t panels = (g->job.n + width - 1) / width;

    g->blocks = (g->job.m + most - 1) / most;
    if (g->paired && threads > 1 && g->job.m / threads >= SHARED_PIXELS)
        g->blocks = (g->blocks + threads - 1) / threads * threads;
    g->chunks = g->blocks >= 2 * (int64_t)threads || threads <= 1 || (g->paired && g->blocks % threads == 0)
                    ? 1
                    : (int64_t)threads;
    g->chunks = g->chunks < panels ? g->chunks : panels;
    g->chunk = (panels + g->chunks - 1) / g->chunks;
    g->chunks = (panels + g->chunk - 1) / g->chunk;
    g->block_floats = ((g->job.m + g->blocks - 1) / g->blocks * g->job.k + SG_LANES - 1) / SG_LANES * SG_LANES;
    g->workers = threads > 0 ? threads : 1;
}

/* A scratchpad moves everything behind the result on by one. */
static void move_on(tile_ending *e)
{
    e->bias += e->bias != INLAY_NONE;
    e->add += e->add != INLAY_NONE;
    for (uint32_t p = 0; p < e->post_count; p++)
        e->posts[p].arg += e->posts[p].arg != INLAY_NONE;
}

inlay_status tiles_lower_gemm(rg_build *b, const kn_case *c, bool paired, const rg_place *x, const tile_ending *ending,
                              const rg_place *const *operands, uint32_t operand_count, const rg_place *y)
{
    int64_t first = 0;
    const kn_window inner = paired ? c->w : kn_trimmed(&c->w, &first), *w = &inner;
    const rg_place *places[ARG_Y + 2 + RG_MAX_POSTS + 3];
    struct gemm g = { .native.run = run_gemm,
                      .w = inner,
                      .ending = *ending,
                      .paired = paired,
                      .job = { .kernel = b->state->sgemm,
                               .m = w->images * w->out_height * w->out_width,
                               .n = w->out,
                               .k = w->in * w->kernel[0] * w->kernel[1],
                               .chain = sg_chain(w->in * w->kernel[0] * w->kernel[1], b->state->strict) } };
    rg_place weights, scratch, prepared;
    uint32_t count = ARG_Y + 1;
    inlay_status status;
    int64_t floats;
    rg_md md;

    if (paired)
        pairs_layout(g.job.k, g.job.n, &md);
    else if (!panel_layout(c, &md, &g.job))
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", b->op->name);
    g.skipped = first * w->in * g.job.width;
    g.unfolded = w->padded || w->kernel[0] * w->kernel[1] > 1 || w->stride[0] > 1 || w->stride[1] > 1;
    g.narrow = kn_is_narrow(b) && !g.unfolded && g.skipped == 0;
    INLAY_TRY((g.narrow ? narrow_read_pack : rg_read_constant)(b, b->op->in[1], &c->weights, &md, &weights));
    g.x_pixel = x->md.strides[x->md.ndims - 1];
    g.job.c_row = y->md.strides[y->md.ndims - 1];
    g.job.a_row = g.unfolded ? g.job.k : g.x_pixel;
    g.in_place = ending->add != INLAY_NONE && operands[ending->add]->buffer == y->buffer;
    divide(&g, b->instance->threads);
    if (paired && !g.unfolded)
        pairs_share(&g.job, b->instance->threads);
    places[ARG_X] = x;
    places[ARG_W] = &weights;
    places[ARG_Y] = y;
    if (g.unfolded) {
        floats = g.block_floats * g.workers;
        INLAY_TRY(rg_new_floats(b, floats, &scratch));
        places[count++] = &scratch;
        move_on(&g.ending);
    }
    for (uint32_t i = ARG_Y + 1; i < operand_count; i++)
        places[count++] = operands[i];
    if (paired) {
        floats = pairs_scratch_floats(&g.job) * g.workers;
        INLAY_TRY(rg_new_floats(b, floats, &prepared));
        g.prepared = count;
        places[count++] = &prepared;
    }
    if (g.narrow) {
        floats = g.job.b_panel * g.workers;
        rg_md_plain(&md, 1, &floats);
        INLAY_TRY(rg_new_place(b, &md, &prepared));
        g.room = count;
        places[count++] = &prepared;
    }
    status = rg_emit_step(b, &g.native, sizeof g, places, count);
done:
    return status;
}
