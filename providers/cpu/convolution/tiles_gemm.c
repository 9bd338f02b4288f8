/* Convolutions as products of matrices: pixels by channels as they lie, or the windows of some pixels laid out in rows,
 * by the loops that products of constants run on (sgemm.h). Those cut k, too, so that rows and weights stay in the
 * second-level cache however many channels there are. */
#include "weights/narrow.h"
#include "weights/pairs_weights.h"
#include "convolution/tiles.h"
#include <math.h>

enum { ARG_X, ARG_W, ARG_Y, BLOCK_PIXELS = 160, SHARED_PIXELS = 48, WAKE_NS = 10000 };

struct gemm {
    cpu_native native;
    sgemm_job job; /* without addresses; m: all pixels */
    kernel_conv_shape window;
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
    tile_epilogue epilogue;
};

typedef struct gemm_call {
    const struct gemm *gemm;
    void *const *args;
    sgemm_job job;
    float *prepared;
    sgemm_post posts[CPU_MAX_POSTS + 3];
} gemm_call;

/* ------------------------------------------------------------------ the run */

static sgemm_post *one_more(gemm_call *call, sgemm_fn fn)
{
    sgemm_post *post = &call->posts[call->job.post_count++];

    *post = (sgemm_post){ .fn = fn };
    return post;
}

/* What is done behind the product, in its order: other operands are those of pixel 0. */
static void set_posts(gemm_call *call)
{
    const struct gemm *gemm = call->gemm;
    const tile_epilogue *epilogue = &gemm->epilogue;
    const float *bias = epilogue->bias != INLAY_NONE ? call->args[epilogue->bias] : NULL;

    call->job.add = gemm->in_place;
    call->job.bias = gemm->in_place ? NULL : bias;
    if (gemm->in_place && bias != NULL)
        *one_more(call, SGEMM_ADD) = (sgemm_post){ .fn = SGEMM_ADD, .other = bias, .col = 1 };
    if (!gemm->in_place && epilogue->add != INLAY_NONE)
        *one_more(call, SGEMM_ADD) =
            (sgemm_post){ .fn = SGEMM_ADD, .other = call->args[epilogue->add], .row = epilogue->add_pixel, .col = 1 };
    if (epilogue->clamp)
        *one_more(call, SGEMM_CLIP) = (sgemm_post){ .fn = SGEMM_CLIP, .alpha = epilogue->low, .beta = epilogue->high };
    for (uint32_t post_index = 0; post_index < epilogue->post_count; post_index++) {
        sgemm_post *post = one_more(call, epilogue->posts[post_index].post.fn);

        *post = epilogue->posts[post_index].post;
        if (epilogue->posts[post_index].arg != INLAY_NONE)
            post->other = call->args[epilogue->posts[post_index].arg];
    }
    call->job.posts = call->posts;
}

/* Rows [first, end) of the window. */
typedef struct tap_rows {
    int64_t first, end;
} tap_rows;

/* Those that meet the image for some of the pixels; at least one. */
static tap_rows rows_met(const kernel_conv_shape *window, int64_t pixel, int64_t count)
{
    const int64_t plane = window->out_height * window->out_width, last = pixel + count - 1;
    const int64_t top = pixel / window->out_width % window->out_height * window->stride[0] - window->begin[0];
    const int64_t bottom = last / window->out_width % window->out_height * window->stride[0] - window->begin[0];
    tap_rows taps = { 0, window->kernel[0] };

    if (pixel / plane != last / plane)
        return taps;
    while (taps.first + 1 < taps.end && bottom + taps.first * window->dilation[0] < 0)
        taps.first++;
    while (taps.first + 1 < taps.end && top + (taps.end - 1) * window->dilation[0] >= window->height)
        taps.end--;
    return taps;
}

double tiles_gemm_share(const kernel_conv_shape *window)
{
    const int64_t pixels = window->out_height * window->out_width, blocks = (pixels + BLOCK_PIXELS - 1) / BLOCK_PIXELS;
    double met = 0;

    for (int64_t n = 0; n < blocks; n++) {
        const int64_t first = pixels * n / blocks, count = pixels * (n + 1) / blocks - first;
        const tap_rows taps = rows_met(window, first, count);

        met += (double)((taps.end - taps.first) * count);
    }
    return met / (double)(pixels * window->kernel[0]);
}

/* The windows of pixels [first, first + count) as rows of elements: zeros outside the image. */
static void unfold(const gemm_call *call, int64_t first, int64_t count, tap_rows taps, float *rows)
{
    const struct gemm *gemm = call->gemm;
    const kernel_conv_shape *window = &gemm->window;
    const size_t bytes = (size_t)window->in * sizeof(float);
    const float *input = call->args[ARG_X];

    for (int64_t i = 0; i < count; i++) {
        int64_t pixel = first + i, image = pixel / (window->out_height * window->out_width);
        int64_t r = pixel / window->out_width % window->out_height * window->stride[0] - window->begin[0];
        int64_t q = pixel % window->out_width * window->stride[1] - window->begin[1];

        for (int64_t a = taps.first; a < taps.end; a++) {
            int64_t y = r + a * window->dilation[0], from = (image * window->height + y) * window->width + q;

            if (y >= 0 && y < window->height && window->dilation[1] == 1 && gemm->x_pixel == window->in && q >= 0 &&
                q + window->kernel[1] <= window->width) {
                memcpy(rows, input + from * window->in, (size_t)window->kernel[1] * bytes);
                rows += window->kernel[1] * window->in;
                continue;
            }
            for (int64_t c = 0; c < window->kernel[1]; c++, rows += window->in) {
                int64_t at = q + c * window->dilation[1];

                if (y < 0 || y >= window->height || at < 0 || at >= window->width)
                    memset(rows, 0, bytes);
                else
                    memcpy(rows, input + (from + c * window->dilation[1]) * gemm->x_pixel, bytes);
            }
        }
    }
}

/* A block in pairs: all columns are the job's, of which it does some panels. fresh: rows are not those of the call
 * before. */
static void block_in_pairs(const gemm_call *call, const float *rows, int64_t first, int64_t count, int64_t panel,
                           int64_t panels, bool fresh, float *scratch)
{
    sgemm_post posts[CPU_MAX_POSTS + 3];
    sgemm_job job = call->job;

    job.m = count;
    job.a = rows;
    job.c += first * job.c_row;
    for (uint32_t post = 0; post < job.post_count; post++) {
        posts[post] = call->posts[post];
        if (posts[post].other != NULL)
            posts[post].other += first * posts[post].row;
    }
    job.posts = posts;
    if (fresh)
        pairs_start(&job, scratch, 1);
    pairs_run(&job, scratch, panel, panel + panels < pairs_units(&job) ? panel + panels : pairs_units(&job));
}

static inlay_status unfolded_pairs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;
    const struct gemm *gemm = call->gemm;
    float *rows = (float *)call->args[ARG_Y + 1] + worker % gemm->workers * gemm->block_floats;
    float *scratch = call->prepared + worker % gemm->workers * pairs_scratch_floats(&gemm->job);
    int64_t there = -1;

    for (int64_t u = begin; u < end; u++) {
        int64_t block = u / gemm->chunks, first = gemm->job.m * block / gemm->blocks,
                next = gemm->job.m * (block + 1) / gemm->blocks;

        if (block != there)
            unfold(call, first, next - first, (tap_rows){ 0, gemm->window.kernel[0] }, rows);
        block_in_pairs(call, rows, first, next - first, u % gemm->chunks * gemm->chunk, gemm->chunk, block != there,
                       scratch);
        there = block;
    }
    return INLAY_OK;
}

static inlay_status whole_pairs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;

    pairs_run(&call->job, call->prepared + worker % call->gemm->workers * pairs_scratch_floats(&call->job), begin, end);
    return INLAY_OK;
}

/* Units: blocks of pixels by chunks of panels. */
static inlay_status unfolded_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;
    const struct gemm *gemm = call->gemm;
    float *rows = (float *)call->args[ARG_Y + 1] + worker % gemm->workers * gemm->block_floats;
    int64_t there = -1;

    for (int64_t u = begin; u < end; u++) {
        int64_t block = u / gemm->chunks, first = gemm->job.m * block / gemm->blocks,
                next = gemm->job.m * (block + 1) / gemm->blocks;
        int64_t column = u % gemm->chunks * gemm->chunk * gemm->job.width,
                tap_row = gemm->window.kernel[1] * gemm->window.in;
        const tap_rows taps = rows_met(&gemm->window, first, next - first);
        sgemm_post posts[CPU_MAX_POSTS + 3];
        sgemm_job job = call->job;

        if (block != there)
            unfold(call, first, next - first, taps, rows);
        there = block;
        job.m = next - first;
        job.k = job.a_row = (taps.end - taps.first) * tap_row;
        job.n =
            gemm->job.n - column < gemm->chunk * gemm->job.width ? gemm->job.n - column : gemm->chunk * gemm->job.width;
        job.a = rows;
        job.b = call->job.b + column / gemm->job.width * gemm->job.b_panel + taps.first * tap_row * gemm->job.width;
        job.bias = call->job.bias != NULL ? call->job.bias + column : NULL;
        job.c = call->job.c + first * job.c_row + column;
        for (uint32_t post = 0; post < job.post_count; post++) {
            posts[post] = call->posts[post];
            if (posts[post].other != NULL)
                posts[post].other += first * posts[post].row + column * posts[post].col;
        }
        job.posts = posts;
        sgemm_run(&job, 0, sgemm_units(&job));
    }
    return INLAY_OK;
}

/* Units: panels of weights of few bits, which become floats near the core. */
static inlay_status narrow_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;
    const struct gemm *gemm = call->gemm;
    float *room = (float *)call->args[gemm->room] + worker % gemm->workers * (uint64_t)gemm->job.b_panel;

    for (int64_t u = begin; u < end; u++) {
        const int64_t column = u * gemm->job.width;
        sgemm_post posts[CPU_MAX_POSTS + 3];
        sgemm_job job = call->job;

        narrow_unfold(call->args[ARG_W], u * job.b_panel, (u + 1) * job.b_panel, room);
        job.n = job.n - column < job.width ? job.n - column : job.width;
        job.b = room;
        job.bias = job.bias != NULL ? job.bias + column : NULL;
        job.c += column;
        for (uint32_t post = 0; post < job.post_count; post++) {
            posts[post] = call->posts[post];
            if (posts[post].other != NULL)
                posts[post].other += column * posts[post].col;
        }
        job.posts = posts;
        sgemm_run(&job, 0, sgemm_units(&job));
    }
    return INLAY_OK;
}

static inlay_status whole_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;

    (void)worker;
    sgemm_run(&call->job, begin, end);
    return INLAY_OK;
}

static inlay_status run_gemm(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct gemm *gemm = (const struct gemm *)(const void *)native;
    gemm_call call = { .gemm = gemm, .args = args, .job = gemm->job };
    int64_t units = gemm->unfolded ? gemm->blocks * gemm->chunks
                    : gemm->paired ? pairs_units(&gemm->job)
                                   : sgemm_units(&gemm->job);
    inlay_parallel_fn body = gemm->paired     ? gemm->unfolded ? unfolded_pairs : whole_pairs
                             : gemm->unfolded ? unfolded_units
                                              : whole_units;

    if (gemm->narrow) {
        units = (gemm->job.n + gemm->job.width - 1) / gemm->job.width;
        body = narrow_units;
    }
    call.job.a = args[ARG_X];
    call.job.b = (const float *)args[ARG_W] + gemm->skipped;
    call.job.c = args[ARG_Y];
    set_posts(&call);
    if (gemm->paired)
        call.prepared = args[gemm->prepared];
    if (gemm->paired && !gemm->unfolded)
        pairs_start(&gemm->job, call.prepared, gemm->workers);
    if (threads <= 1 || units < 2 || sgemm_estimate_ns(&gemm->job) < WAKE_NS)
        return body(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, body, &call);
}

/* ------------------------------------------------------------------ lowering */

/* Panels [out / width][window][in][width]. */
static bool panel_layout(const kernel_layer *layer, memory_desc *md, sgemm_job *job)
{
    const bool flat = layer->weights.ndims == 4;
    const int at = job->n <= 16 ? 0 : job->n <= 32 ? 1 : 2;
    static const char *const tags[2][3] = { { "Acb16a", "Acb32a", "Acb64a" }, { "Acdb16a", "Acdb32a", "Acdb64a" } };

    job->width = job->b_step = 16 << at;
    job->b_panel = layer->window.in * layer->window.kernel[0] * layer->window.kernel[1] * job->width;
    return memory_desc_blocks(md, (uint32_t)layer->weights.ndims, layer->weights.dims, tags[flat][at]);
}

static void divide(struct gemm *gemm, uint32_t threads)
{
    const int64_t width = gemm->paired ? PAIRS_WIDTH : gemm->job.width;
    const int64_t most = gemm->paired ? pairs_block_rows(gemm->job.k) : BLOCK_PIXELS; /* one block to it */
    int64_t panels = (gemm->job.n + width - 1) / width;

    gemm->blocks = (gemm->job.m + most - 1) / most;
    if (gemm->paired && threads > 1 && gemm->job.m / threads >= SHARED_PIXELS)
        gemm->blocks = (gemm->blocks + threads - 1) / threads * threads;
    gemm->chunks = gemm->blocks >= 2 * (int64_t)threads || threads <= 1 || (gemm->paired && gemm->blocks % threads == 0)
                       ? 1
                       : (int64_t)threads;
    gemm->chunks = gemm->chunks < panels ? gemm->chunks : panels;
    gemm->chunk = (panels + gemm->chunks - 1) / gemm->chunks;
    gemm->chunks = (panels + gemm->chunk - 1) / gemm->chunk;
    gemm->block_floats =
        ((gemm->job.m + gemm->blocks - 1) / gemm->blocks * gemm->job.k + SGEMM_LANES - 1) / SGEMM_LANES * SGEMM_LANES;
    gemm->workers = threads > 0 ? threads : 1;
}

/* A scratchpad moves everything behind the result on by one. */
static void move_on(tile_epilogue *epilogue)
{
    epilogue->bias += epilogue->bias != INLAY_NONE;
    epilogue->add += epilogue->add != INLAY_NONE;
    for (uint32_t post = 0; post < epilogue->post_count; post++)
        epilogue->posts[post].arg += epilogue->posts[post].arg != INLAY_NONE;
}

inlay_status tiles_lower_gemm(cpu_build *build, const kernel_layer *layer, bool paired, const cpu_place *input,
                              const tile_epilogue *epilogue, const cpu_place *const *operands, uint32_t operand_count,
                              const cpu_place *output)
{
    int64_t first = 0;
    const kernel_conv_shape inner = paired ? layer->window : kernel_trim_conv(&layer->window, &first), *window = &inner;
    const cpu_place *places[ARG_Y + 2 + CPU_MAX_POSTS + 3];
    struct gemm gemm = { .native.run = run_gemm,
                         .window = inner,
                         .epilogue = *epilogue,
                         .paired = paired,
                         .job = { .kernel = build->state->sgemm,
                                  .m = window->images * window->out_height * window->out_width,
                                  .n = window->out,
                                  .k = window->in * window->kernel[0] * window->kernel[1],
                                  .chain = sgemm_chain(window->in * window->kernel[0] * window->kernel[1],
                                                       build->state->strict) } };
    cpu_place weights, scratch, prepared;
    uint32_t count = ARG_Y + 1;
    inlay_status status;
    int64_t floats;
    memory_desc md;

    if (paired)
        pairs_layout(gemm.job.k, gemm.job.n, &md);
    else if (!panel_layout(layer, &md, &gemm.job))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", build->op->name);
    gemm.skipped = first * window->in * gemm.job.width;
    gemm.unfolded =
        window->padded || window->kernel[0] * window->kernel[1] > 1 || window->stride[0] > 1 || window->stride[1] > 1;
    gemm.narrow = kernel_weights_are_low_bit(build) && !gemm.unfolded && gemm.skipped == 0;
    INLAY_TRY(
        (gemm.narrow ? narrow_read_pack : cpu_read_constant)(build, build->op->in[1], &layer->weights, &md, &weights));
    gemm.x_pixel = input->md.strides[input->md.ndims - 1];
    gemm.job.c_row = output->md.strides[output->md.ndims - 1];
    gemm.job.a_row = gemm.unfolded ? gemm.job.k : gemm.x_pixel;
    gemm.in_place = epilogue->add != INLAY_NONE && operands[epilogue->add]->buffer == output->buffer;
    divide(&gemm, build->instance->threads);
    if (paired && !gemm.unfolded)
        pairs_share(&gemm.job, build->instance->threads);
    places[ARG_X] = input;
    places[ARG_W] = &weights;
    places[ARG_Y] = output;
    if (gemm.unfolded) {
        floats = gemm.block_floats * gemm.workers;
        INLAY_TRY(cpu_new_floats(build, floats, &scratch));
        places[count++] = &scratch;
        move_on(&gemm.epilogue);
    }
    for (uint32_t i = ARG_Y + 1; i < operand_count; i++)
        places[count++] = operands[i];
    if (paired) {
        floats = pairs_scratch_floats(&gemm.job) * gemm.workers;
        INLAY_TRY(cpu_new_floats(build, floats, &prepared));
        gemm.prepared = count;
        places[count++] = &prepared;
    }
    if (gemm.narrow) {
        floats = gemm.job.b_panel * gemm.workers;
        memory_desc_plain(&md, 1, &floats);
        INLAY_TRY(cpu_new_place(build, &md, &prepared));
        gemm.room = count;
        places[count++] = &prepared;
    }
    status = cpu_emit_step(build, &gemm.native, sizeof gemm, places, count);
done:
    return status;
}
