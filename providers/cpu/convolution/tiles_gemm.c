/* Convolutions as one GEMM: of pixels by channels in place, or of unfolded receptive fields (im2col), by the kernels
 * of sgemm.h or terms.h. Those divide k, too, so that rows and weights stay in the second-level cache for any number of
 * channels. */
#include "cpu/weights/low_bit.h"
#include "cpu/convolution/tiles.h"
#include "cpu/weights/read.h"
#include "cpu/weights/terms_weights.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include <math.h>

enum { ARG_X, ARG_W, ARG_Y, BLOCK_PIXELS = 160, MIN_THREAD_PIXELS = 48, WAKE_NS = 4000 };

struct gemm {
    cpu_native native;
    sgemm_job job; /* without addresses; m: all pixels */
    kernel_conv_shape window;
    int64_t x_pixel;
    int64_t skipped;               /* elements of each panel that belong to taps outside the image */
    bool unfolded;                 /* receptive fields are unfolded into scratch memory, the fourth argument */
    const terms_set *terms;        /* weights are packed as terms; NULL: as floats */
    int64_t terms_floats;          /* terms: scratch memory of each worker, after its receptive fields */
    bool low_bit;                  /* low-bit weights: workers expand one panel at a time to floats */
    uint32_t buffer_arg;           /* low_bit: buffer of each worker for an expanded panel */
    bool in_place;                 /* the added operand is in the buffer of the result */
    int64_t blocks, chunk, chunks; /* blocks of pixels; panels of a unit; units of a block */
    int64_t block_floats;
    uint32_t workers;
    tile_epilogue epilogue;
};

typedef struct gemm_call {
    const struct gemm *gemm;
    void *const *args;
    sgemm_job job;
    sgemm_post posts[CPU_MAX_POSTS + 3];
} gemm_call;

static sgemm_post *append_post(gemm_call *call, sgemm_fn fn)
{
    sgemm_post *post = &call->posts[call->job.post_count];

    INLAY_CHECK(call->job.post_count < CPU_MAX_POSTS + 3);
    call->job.post_count++;

    *post = (sgemm_post){ .fn = fn };
    return post;
}

/* Sets the operations of the epilogue in their order. The tensors that they add or multiply start at pixel 0. */
static void set_posts(gemm_call *call)
{
    const struct gemm *gemm = call->gemm;
    const tile_epilogue *epilogue = &gemm->epilogue;
    const float *bias = epilogue->bias != INLAY_NONE ? call->args[epilogue->bias] : NULL;

    call->job.add = gemm->in_place;
    call->job.bias = gemm->in_place ? NULL : bias;
    if (gemm->in_place && bias != NULL)
        *append_post(call, SGEMM_ADD) = (sgemm_post){ .fn = SGEMM_ADD, .other = bias, .col = 1 };
    if (!gemm->in_place && epilogue->add != INLAY_NONE)
        *append_post(call, SGEMM_ADD) =
            (sgemm_post){ .fn = SGEMM_ADD, .other = call->args[epilogue->add], .row = epilogue->add_pixel, .col = 1 };
    if (epilogue->clamp)
        *append_post(call, SGEMM_CLIP) =
            (sgemm_post){ .fn = SGEMM_CLIP, .alpha = epilogue->low, .beta = epilogue->high };
    for (uint32_t post_index = 0; post_index < epilogue->post_count; post_index++) {
        sgemm_post *post = append_post(call, epilogue->posts[post_index].post.fn);

        *post = epilogue->posts[post_index].post;
        if (epilogue->posts[post_index].arg != INLAY_NONE)
            post->other = call->args[epilogue->posts[post_index].arg];
    }
    call->job.posts = call->posts;
}

/* Rows [first, end) of the kernel. */
typedef struct tap_rows {
    int64_t first, end;
} tap_rows;

/* The kernel rows that are inside the image for at least one of the pixels; at least one row. */
static tap_rows rows_inside(const kernel_conv_shape *window, int64_t pixel, int64_t count)
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
    double inside = 0;

    for (int64_t block = 0; block < blocks; block++) {
        const int64_t first = pixels * block / blocks, count = pixels * (block + 1) / blocks - first;
        const tap_rows taps = rows_inside(window, first, count);

        inside += (double)((taps.end - taps.first) * count);
    }
    return inside / (double)(pixels * window->kernel[0]);
}

/* Unfolds the receptive fields of pixels [first, first + count) into rows, with zeros outside the image. */
static void unfold(const gemm_call *call, int64_t first, int64_t count, tap_rows taps, float *rows)
{
    const struct gemm *gemm = call->gemm;
    const kernel_conv_shape *window = &gemm->window;
    const size_t bytes = (size_t)window->in * sizeof(float);
    const float *input = call->args[ARG_X];

    INLAY_CHECK(taps.first >= 0 && taps.first < taps.end && taps.end <= window->kernel[0]);
    for (int64_t i = 0; i < count; i++) {
        int64_t pixel = first + i, image = pixel / (window->out_height * window->out_width);
        int64_t top = pixel / window->out_width % window->out_height * window->stride[0] - window->begin[0];
        int64_t left = pixel % window->out_width * window->stride[1] - window->begin[1];

        for (int64_t kernel_row = taps.first; kernel_row < taps.end; kernel_row++) {
            int64_t row = top + kernel_row * window->dilation[0],
                    from = (image * window->height + row) * window->width + left;

            if (row >= 0 && row < window->height && window->dilation[1] == 1 && gemm->x_pixel == window->in &&
                left >= 0 && left + window->kernel[1] <= window->width) {
                memcpy(rows, input + from * window->in, (size_t)window->kernel[1] * bytes);
                rows += window->kernel[1] * window->in;
                continue;
            }
            for (int64_t kernel_column = 0; kernel_column < window->kernel[1]; kernel_column++, rows += window->in) {
                int64_t column = left + kernel_column * window->dilation[1];

                if (row < 0 || row >= window->height || column < 0 || column >= window->width)
                    memset(rows, 0, bytes);
                else
                    memcpy(rows, input + (from + kernel_column * window->dilation[1]) * gemm->x_pixel, bytes);
            }
        }
    }
}

/* Units: blocks of pixels by chunks of panels. */
static inlay_status unfolded_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;
    const struct gemm *gemm = call->gemm;
    float *rows = (float *)call->args[ARG_Y + 1] + worker % gemm->workers * gemm->block_floats;
    int64_t unfolded_block = -1;

    for (int64_t unit = begin; unit < end; unit++) {
        int64_t block = unit / gemm->chunks, first = gemm->job.m * block / gemm->blocks,
                next = gemm->job.m * (block + 1) / gemm->blocks;
        int64_t column = unit % gemm->chunks * gemm->chunk * gemm->job.width,
                tap_row = gemm->window.kernel[1] * gemm->window.in;
        const tap_rows taps = rows_inside(&gemm->window, first, next - first);
        sgemm_post posts[CPU_MAX_POSTS + 3];
        sgemm_job job = call->job;

        if (block != unfolded_block)
            unfold(call, first, next - first, taps, rows);
        unfolded_block = block;
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

/* A worker's scratch memory. */
static float *scratch_of(const gemm_call *call, uint32_t worker)
{
    const struct gemm *gemm = call->gemm;

    return (float *)call->args[ARG_Y + 1] + worker % gemm->workers * (gemm->block_floats + gemm->terms_floats);
}

/* Units: blocks of pixels by chunks of columns. Terms are packed for all taps. */
static inlay_status unfolded_terms(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;
    const struct gemm *gemm = call->gemm;
    const tap_rows taps = { 0, gemm->window.kernel[0] };
    float *rows = scratch_of(call, worker);
    int64_t unfolded_block = -1;

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t block = unit / gemm->chunks, chunk = unit % gemm->chunks,
                      first = gemm->job.m * block / gemm->blocks, next = gemm->job.m * (block + 1) / gemm->blocks;
        sgemm_post posts[CPU_MAX_POSTS + 3];
        sgemm_job job = call->job;

        if (block != unfolded_block)
            unfold(call, first, next - first, taps, rows);
        unfolded_block = block;
        job.m = next - first;
        job.a = rows;
        job.c += first * job.c_row;
        job.posts = posts;
        for (uint32_t post = 0; post < job.post_count; post++) {
            posts[post] = call->posts[post];
            if (posts[post].other != NULL)
                posts[post].other += first * posts[post].row;
        }
        terms_run(gemm->terms, &job, rows + gemm->block_floats, chunk, chunk + 1);
    }
    return INLAY_OK;
}

static inlay_status whole_terms(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;

    terms_run(call->gemm->terms, &call->job, scratch_of(call, worker), begin, end);
    return INLAY_OK;
}

/* Units: panels of low-bit weights, which are expanded to floats near the core. */
static inlay_status low_bit_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gemm_call *call = user;
    const struct gemm *gemm = call->gemm;
    float *buffer = (float *)call->args[gemm->buffer_arg] + worker % gemm->workers * (uint64_t)gemm->job.b_panel;

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t column = unit * gemm->job.width;
        sgemm_post posts[CPU_MAX_POSTS + 3];
        sgemm_job job = call->job;

        low_bit_dequantize(call->args[ARG_W], unit * job.b_panel, (unit + 1) * job.b_panel, buffer);
        job.n = job.n - column < job.width ? job.n - column : job.width;
        job.b = buffer;
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
    int64_t units = gemm->unfolded ? gemm->blocks * gemm->chunks : sgemm_units(&gemm->job);
    inlay_parallel_fn body = gemm->unfolded ? unfolded_units : whole_units;

    if (gemm->terms != NULL) {
        units = gemm->unfolded ? units : terms_units(&gemm->job);
        body = gemm->unfolded ? unfolded_terms : whole_terms;
    }
    if (gemm->low_bit) {
        units = (gemm->job.n + gemm->job.width - 1) / gemm->job.width;
        body = low_bit_units;
    }
    call.job.a = args[ARG_X];
    call.job.b = (const float *)args[ARG_W] + gemm->skipped;
    call.job.c = args[ARG_Y];
    set_posts(&call);
    if (threads <= 1 || units < 2 || sgemm_estimate_ns(&gemm->job) < WAKE_NS)
        return body(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, body, &call);
}

/* Panels [out / width][window][in][width]. */
static bool panel_layout(const kernel_layer *layer, tensor_layout *packed, sgemm_job *job)
{
    const bool flat = layer->weights.rank == 4;
    const int at = job->n <= 16 ? 0 : job->n <= 32 ? 1 : 2;
    static const char *const tags[2][3] = { { "Acb16a", "Acb32a", "Acb64a" }, { "Acdb16a", "Acdb32a", "Acdb64a" } };

    job->width = job->b_step = 16 << at;
    job->b_panel = layer->window.in * layer->window.kernel[0] * layer->window.kernel[1] * job->width;
    return layout_blocks(packed, (uint32_t)layer->weights.rank, layer->weights.dims, tags[flat][at]);
}

static void divide(struct gemm *gemm, uint32_t threads)
{
    int64_t panels = (gemm->job.n + gemm->job.width - 1) / gemm->job.width;

    /* Threads share pixels if each has enough of them: chunks of panels unfold the same pixels, and are uneven. */
    gemm->blocks = (gemm->job.m + BLOCK_PIXELS - 1) / BLOCK_PIXELS;
    if (threads > 1 && gemm->job.m / threads >= MIN_THREAD_PIXELS)
        gemm->blocks = (gemm->blocks + threads - 1) / threads * threads;
    gemm->chunks = gemm->blocks >= (int64_t)threads ? 1 : (int64_t)threads;
    gemm->chunks = gemm->chunks < panels ? gemm->chunks : panels;
    gemm->chunk = (panels + gemm->chunks - 1) / gemm->chunks;
    gemm->chunks = (panels + gemm->chunk - 1) / gemm->chunk;
    gemm->block_floats =
        ((gemm->job.m + gemm->blocks - 1) / gemm->blocks * gemm->job.k + SGEMM_LANES - 1) / SGEMM_LANES * SGEMM_LANES;
    gemm->workers = threads > 0 ? threads : 1;
}

/* The division by terms: as terms_run() divides rows. */
static void divide_terms(struct gemm *gemm, uint32_t threads)
{
    sgemm_job block = gemm->job;

    terms_share(&gemm->job, threads);
    gemm->workers = threads > 0 ? threads : 1;
    if (gemm->unfolded) {
        gemm->blocks = (gemm->job.m + TERMS_BLOCK - 1) / TERMS_BLOCK;
        block.m = (gemm->job.m + gemm->blocks - 1) / gemm->blocks;
        gemm->chunks = (gemm->job.n + gemm->job.width - 1) / gemm->job.width;
        gemm->block_floats = (block.m * gemm->job.k + SGEMM_LANES - 1) / SGEMM_LANES * SGEMM_LANES;
    }
    gemm->terms_floats = terms_scratch_floats(&block);
}

/* Inserts one argument after the result: the numbers of all later operands grow by one. */
static void shift_arguments(tile_epilogue *epilogue)
{
    epilogue->bias += epilogue->bias != INLAY_NONE;
    epilogue->add += epilogue->add != INLAY_NONE;
    for (uint32_t post = 0; post < epilogue->post_count; post++)
        epilogue->posts[post].arg += epilogue->posts[post].arg != INLAY_NONE;
}

inlay_status tiles_lower_gemm(cpu_build *build, const kernel_layer *layer, const terms_set *terms,
                              const cpu_place *input, const tile_epilogue *epilogue, const cpu_place *const *operands,
                              uint32_t operand_count, const cpu_place *output)
{
    int64_t first = 0;
    const kernel_conv_shape inner = terms != NULL ? layer->window : kernel_trim_conv(&layer->window, &first),
                            *window = &inner;
    const cpu_place *places[ARG_Y + 2 + CPU_MAX_POSTS + 3];
    struct gemm gemm = { .native.run = run_gemm,
                         .window = inner,
                         .terms = terms,
                         .epilogue = *epilogue,
                         .job = { .kernel = build->state->sgemm,
                                  .m = window->images * window->out_height * window->out_width,
                                  .n = window->out,
                                  .k = window->in * window->kernel[0] * window->kernel[1],
                                  .chain = sgemm_chain(window->in * window->kernel[0] * window->kernel[1],
                                                       build->state->strict) } };
    cpu_place weights, scratch, panel;
    uint32_t count = ARG_Y + 1;
    inlay_status status;
    int64_t floats;
    tensor_layout packed;

    INLAY_CHECK(operand_count <= ARG_Y + 1 + CPU_MAX_POSTS + 1);
    if (terms != NULL) {
        gemm.job.b_terms = terms_of_constant(build, build->op->in[1]);
        terms_layout(&layer->weights, gemm.job.b_terms, &packed);
    } else if (!panel_layout(layer, &packed, &gemm.job))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", build->op->name);
    gemm.skipped = first * window->in * gemm.job.width;
    gemm.unfolded =
        window->padded || window->kernel[0] * window->kernel[1] > 1 || window->stride[0] > 1 || window->stride[1] > 1;
    gemm.low_bit = terms == NULL && kernel_weights_are_low_bit(build) && !gemm.unfolded && gemm.skipped == 0;
    INLAY_TRY((gemm.low_bit ? low_bit_read_pack : cpu_read_constant)(build, build->op->in[1], &layer->weights, &packed,
                                                                     &weights));
    gemm.x_pixel = input->layout.strides[input->layout.rank - 1];
    gemm.job.c_row = output->layout.strides[output->layout.rank - 1];
    gemm.job.a_row = gemm.unfolded ? gemm.job.k : gemm.x_pixel;
    gemm.in_place = epilogue->add != INLAY_NONE && operands[epilogue->add]->buffer == output->buffer;
    if (terms != NULL)
        divide_terms(&gemm, build->instance->threads);
    else
        divide(&gemm, build->instance->threads);
    places[ARG_X] = input;
    places[ARG_W] = &weights;
    places[ARG_Y] = output;
    if (gemm.unfolded || terms != NULL) {
        floats = (gemm.block_floats + gemm.terms_floats) * gemm.workers;
        INLAY_TRY(cpu_new_floats(build, floats, &scratch));
        places[count++] = &scratch;
        shift_arguments(&gemm.epilogue);
    }
    for (uint32_t i = ARG_Y + 1; i < operand_count; i++)
        places[count++] = operands[i];
    if (gemm.low_bit) {
        floats = gemm.job.b_panel * gemm.workers;
        layout_plain(&packed, 1, &floats);
        INLAY_TRY(cpu_new_place(build, &packed, &panel));
        gemm.buffer_arg = count;
        places[count++] = &panel;
    }
    status = cpu_emit_step(build, &gemm.native, sizeof gemm, places, count);
done:
    return status;
}
