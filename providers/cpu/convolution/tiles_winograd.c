/* Convolutions of 3x3 by Winograd's algorithm on tiles: F(4x4, 3x3), a quarter of the multiplications, or F(2x2, 3x3),
 * 4/9 of them, for images that are too small for the former or whose transformed weights would be the longest part.
 *
 * The image is cut into windows of points x points pixels that overlap by two. Each is transformed (V), which gives
 * points^2 matrices [windows][channels]; each of these is multiplied by transformed weights (U), and what comes out (M)
 * is transformed back. Windows are done in blocks whose V and M stay in the second-level cache, if the weights do, too;
 * otherwise more of them at a time, since each block reads all weights.
 *
 * A window is guarded: if one of its pixels is much larger than what lies around one of its results, or no number, or
 * if a result has but a few terms, all its results are plain sums by the original weights (plain_window). How much
 * larger a pixel may be was measured with the weights (tiles_error.c). That is decided by the window alone, not by what
 * else is run or how it is shared out. */
#include "convolution/sum_loops.h"
#include "convolution/tiles.h"
#include "simd/optional.h"
#include <float.h>
#include <math.h>

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(tiles_winograd_weights, "cpu_conv");
OPTIONAL_IF_CALLED(tiles_lower_winograd);

struct window {
    cpu_native native;
    const tile_set *set;
    const sgemm_kernel *kernel;
    int64_t points;
    int64_t images, height, width, in; /* of x */
    int64_t out_height, out_width, out;
    int64_t top, left; /* pads */
    int64_t x_pixel, y_pixel;
    int64_t down, across, total;   /* windows of an image, and in all */
    int64_t block, v_line, m_line; /* windows of a block; floats of a line of V and M */
    int64_t v_step, m_step;        /* floats between points */
    int64_t panels;
    bool apart; /* blocks are shared among threads; otherwise the work within a block is */
    tile_epilogue epilogue;
    const tile_trust *trust; /* NULL: no guard */
};

enum { ARG_X, ARG_W, ARG_PLAIN, ARG_Y, ARG_SCRATCH };
/* The caller knows of x, weights and y; what an epilogue refers to moves on by as many as there are more. */
enum { OPERANDS = 3, MORE = ARG_SCRATCH + 1 - OPERANDS };

typedef struct window_call {
    const struct window *window;
    void *const *args;
    float *scratch;       /* of worker 0; the others' follow */
    int64_t first, count; /* windows in hand */
} window_call;

/* Where the results of a window are, and how many rows and columns of them there are. */
typedef struct window_at {
    int64_t image, h, q, rows, columns;
} window_at;

static window_at locate(const struct window *window, int64_t n)
{
    const int64_t size = window->points - 2, at = n % (window->down * window->across);
    const int64_t h = at / window->across * size, q = at % window->across * size;

    return (window_at){ n / (window->down * window->across), h, q,
                        window->out_height - h < size ? window->out_height - h : size,
                        window->out_width - q < size ? window->out_width - q : size };
}

static int64_t padded_line(int64_t floats)
{
    return (floats + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
}

/* V, M, and a float for each window: 1 where it failed the guard. */
static int64_t scratch_floats(const struct window *window)
{
    return (window->v_step + window->m_step) * window->points * window->points + padded_line(window->block);
}

static float *failed_windows(const struct window *window, const float *v)
{
    return (float *)(uintptr_t)v + (window->v_step + window->m_step) * window->points * window->points;
}

/* ------------------------------------------------------------------ the guard */

/* Between these, neither a transform nor a product can overflow, and what underflows does not count. */
static const float LEAST_SUM = 1e-16F, MOST_SUM = 1e16F; /* squares of what is between are normal numbers */

/* May the window of these pixels, [column][row], be transformed? NaN fails every comparison. */
static bool passes(const struct window *window, weighted_sums (*at)[TILE_ALPHA], int64_t rows, int64_t columns)
{
    const float limit = window->trust->top > 1 ? MOST_SUM / window->trust->top : MOST_SUM;
    const float least = window->trust->top < 1 ? LEAST_SUM / window->trust->top : LEAST_SUM;
    float largest = 0, all = 0, smallest = FLT_MAX;
    bool many = true;

    for (int64_t c = 0; c < window->points; c++) {
        for (int64_t r = 0; r < window->points; r++) {
            largest = at[c][r].sum > largest ? at[c][r].sum : largest;
            all += at[c][r].sum;
        }
    }
    if (all == 0)
        return true;
    for (int64_t c = 0; c < columns; c++) {
        weighted_sums row[TILE_ALPHA];

        for (int64_t r = 0; r < window->points; r++)
            row[r] = (weighted_sums){ at[c][r].sum + at[c + 1][r].sum + at[c + 2][r].sum,
                                    at[c][r].square + at[c + 1][r].square + at[c + 2][r].square };
        for (int64_t r = 0; r < rows; r++) {
            const float sum = row[r].sum + row[r + 1].sum + row[r + 2].sum;
            const float square = row[r].square + row[r + 1].square + row[r + 2].square;

            smallest = sum < smallest ? sum : smallest;
            many = many && sum * sum >= (float)TILE_LEAST_TERMS * square;
        }
    }
    return many && all <= limit && smallest >= least && largest <= (float)window->trust->uneven * smallest;
}

/* x: the pixels of a window, row by row. The columns that it shares with the window to its left are there already. */
static bool window_passes(const struct window *window, const float *const *x, weighted_sums (*at)[TILE_ALPHA],
                          bool shares, int64_t rows, int64_t columns)
{
    const int64_t size = window->points - 2;

    if (shares)
        memmove(at, at + size, 2 * sizeof *at);
    for (int64_t c = shares ? 2 : 0; c < window->points; c++) {
        const float *column[TILE_ALPHA];

        for (int64_t r = 0; r < window->points; r++)
            column[r] = x[r * window->points + c];
        KERNEL_BEST(sum_loops)->weigh_pixels(column, window->points, window->in, window->trust->weight, at[c]);
    }
    return passes(window, at, rows, columns);
}

/* ------------------------------------------------------------------ the three steps, for some windows of a block */

static void transform_in(const window_call *call, float *v, int64_t begin, int64_t end)
{
    static const float zeros[TILE_CHANNELS];
    const struct window *window = call->window;
    const float *input = call->args[ARG_X], *pixels[TILE_ALPHA * TILE_ALPHA];
    weighted_sums of_window[TILE_ALPHA][TILE_ALPHA];
    float *failed = failed_windows(window, v);

    for (int64_t i = begin; i < end; i++) {
        const window_at at = locate(window, call->first + i);
        const int64_t h = at.h - window->top, q = at.q - window->left;

        for (int64_t a = 0; a < window->points; a++) {
            for (int64_t c = 0; c < window->points; c++) {
                bool inside = h + a >= 0 && h + a < window->height && q + c >= 0 && q + c < window->width;

                pixels[a * window->points + c] =
                    inside ? input + ((at.image * window->height + h + a) * window->width + q + c) * window->x_pixel
                           : zeros;
            }
        }
        if (window->trust != NULL)
            failed[i] = !window_passes(window, pixels, of_window, i > begin && at.q > 0, at.rows, at.columns);
        window->set->window_in(pixels, window->in, window->points, v + i * window->v_line, window->v_step);
    }
}

/* ------------------------------------------------------------------ plain sums */

enum { GROUP = 4, PART = SUM_TERMS / 9, TAPS = 9 }; /* results side by side; channels at a time */

/* The windows of GROUP results from (h, q) on, of which `there` are there, channels [first, first + count), in the
 * order of the weights. */
static void gather_windows(const window_call *call, int64_t image, int64_t h, int64_t q, int64_t there, int64_t first,
                           int64_t count, float (*out)[PART * TAPS])
{
    const struct window *window = call->window;
    const float *input = call->args[ARG_X];

    memset(out, 0, GROUP * sizeof *out);
    for (int64_t g = 0; g < there; g++) {
        for (int64_t t = 0; t < TAPS; t++) {
            const int64_t row = h - window->top + t / 3, column = q + g - window->left + t % 3;
            const float *pixel =
                input + ((image * window->height + row) * window->width + column) * window->x_pixel + first;

            if (row < 0 || row >= window->height || column < 0 || column >= window->width)
                continue;
            for (int64_t c = 0; c < count; c++)
                out[g][c * TAPS + t] = pixel[c];
        }
    }
}

/* What window_out does to sums, here those of a row, in the first lines of m. */
static void end_sums(const tile_window *to, int64_t row)
{
    for (int64_t g = 0; g < to->columns; g++) {
        const float *add = to->add != NULL ? to->add + row * to->add_row + g * to->add_pixel : NULL;
        float *output = to->output + row * to->y_row + g * to->y_pixel;

        for (int64_t o = 0; o < to->channels; o++) {
            float sum = to->m[g * to->step + o] + (to->bias != NULL ? to->bias[o] : 0);

            sum += add != NULL ? add[o] : 0;
            if (to->clamp) {
                sum = sum < to->low ? to->low : sum; /* NaN stays */
                sum = sum > to->high ? to->high : sum;
            }
            output[o] = sum;
        }
    }
}

/* One window by the original weights. m: to->m, whose first GROUP lines hold sums meanwhile. */
static void plain_window(const window_call *call, const window_at *at, float *m, const tile_window *to)
{
    const struct window *window = call->window;
    const sum_loops *const loops = KERNEL_BEST(sum_loops);
    const float *weights = call->args[ARG_PLAIN];
    float x[GROUP][PART * TAPS];

    for (int64_t r = 0; r < at->rows; r++) {
        for (int64_t g = 0; g < GROUP; g++)
            memset(m + g * to->step, 0, (size_t)window->out * sizeof *m);
        for (int64_t first = 0; first < window->in; first += PART) {
            const int64_t count = window->in - first < PART ? window->in - first : PART;

            gather_windows(call, at->image, at->h + r, at->q, at->columns, first, count, x);
            for (int64_t o = 0; o < window->out; o++)
                loops->add_dots((const float(*)[SUM_TERMS])x, weights + (o * window->in + first) * TAPS, count * TAPS,
                                m + o, to->step);
        }
        end_sums(to, r);
    }
}

/* Nothing of the block would be used. (Of one that is used in part all is multiplied: which rows go together decides
 * how they are added.) */
static bool all_failed(const window_call *call, const float *v)
{
    const float *failed = failed_windows(call->window, v);
    int64_t i = 0;

    while (call->window->trust != NULL && i < call->count && failed[i] != 0)
        i++;
    return i == call->count;
}

/* Units: a panel of weights at a point. */
static void multiply(const window_call *call, const float *v, float *m, int64_t begin, int64_t end)
{
    static const int64_t tap = 0;
    const struct window *window = call->window;
    int64_t tiles = (call->count + TILE_ROWS - 1) / TILE_ROWS, panel_floats = window->in * TILE_WIDTH;

    if (all_failed(call, v))
        return;
    for (int64_t u = begin; u < end; u++) {
        int64_t point = u / window->panels, column = u % window->panels * TILE_WIDTH;
        const float *b = (const float *)call->args[ARG_W] + u * panel_floats, *next = b + panel_floats;

        for (int64_t t = 0; t < tiles; t++) {
            int64_t first = t * call->count / tiles, last = (t + 1) * call->count / tiles;
            const tile_product product = {
                .a = v + point * window->v_step + first * window->v_line,
                .a_row = window->v_line,
                .taps = &tap,
                .tap_count = 1,
                .depth = window->in,
                .b = b,
                .ahead = u + 1 == end || t > 1 ? NULL : next + t * panel_floats / 2,
                .ahead_lines = tiles == 1 ? 2 : 1,
                .c = m + point * window->m_step + first * window->m_line + column,
                .c_row = window->m_line,
                .columns = window->out - column < TILE_WIDTH ? window->out - column : TILE_WIDTH,
            };

            window->set->multiply(&product, (int)(last - first));
        }
    }
}

static void transform_out(const window_call *call, const float *v, float *m, int64_t begin, int64_t end)
{
    const struct window *window = call->window;
    const tile_epilogue *epilogue = &window->epilogue;
    const float *bias = epilogue->bias != INLAY_NONE ? call->args[epilogue->bias] : NULL;
    const float *add = epilogue->add != INLAY_NONE ? call->args[epilogue->add] : NULL;
    float *output = call->args[ARG_Y];

    for (int64_t i = begin; i < end; i++) {
        const window_at at = locate(window, call->first + i);
        const int64_t pixel = (at.image * window->out_height + at.h) * window->out_width + at.q;
        const tile_window back = {
            .m = m + i * window->m_line,
            .step = window->m_step,
            .points = window->points,
            .channels = window->out,
            .bias = bias,
            .add = add != NULL ? add + pixel * epilogue->add_pixel : NULL,
            .add_row = window->out_width * epilogue->add_pixel,
            .add_pixel = epilogue->add_pixel,
            .clamp = epilogue->clamp,
            .low = epilogue->low,
            .high = epilogue->high,
            .output = output + pixel * window->y_pixel,
            .y_row = window->out_width * window->y_pixel,
            .y_pixel = window->y_pixel,
            .rows = at.rows,
            .columns = at.columns,
        };

        if (window->trust != NULL && failed_windows(window, v)[i] != 0)
            plain_window(call, &at, m + i * window->m_line, &back);
        else
            window->set->window_out(&back);
        for (int64_t r = 0; epilogue->post_count > 0 && r < at.rows; r++) {
            int64_t first = pixel + r * window->out_width;

            tiles_apply_epilogue(window->set, window->kernel, epilogue, call->args, output + first * window->y_pixel,
                                 window->y_pixel, first, at.columns, 0, window->out);
        }
    }
}

/* ------------------------------------------------------------------ the run */

static void take_block(window_call *call, int64_t block)
{
    const struct window *window = call->window;

    call->first = block * window->block;
    call->count = window->total - call->first < window->block ? window->total - call->first : window->block;
}

static inlay_status whole_blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    window_call call = *(const window_call *)user;
    const struct window *window = call.window;
    float *v = call.scratch + worker * scratch_floats(window),
          *m = v + window->v_step * window->points * window->points;

    for (int64_t b = begin; b < end; b++) {
        take_block(&call, b);
        transform_in(&call, v, 0, call.count);
        multiply(&call, v, m, 0, window->points * window->points * window->panels);
        transform_out(&call, v, m, 0, call.count);
    }
    return INLAY_OK;
}

static inlay_status part_in(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const window_call *call = user;

    (void)worker;
    transform_in(call, call->scratch, begin, end);
    return INLAY_OK;
}

static inlay_status part_multiply(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const window_call *call = user;

    (void)worker;
    multiply(call, call->scratch, call->scratch + call->window->v_step * call->window->points * call->window->points,
             begin, end);
    return INLAY_OK;
}

static inlay_status part_out(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const window_call *call = user;

    (void)worker;
    transform_out(call, call->scratch,
                  call->scratch + call->window->v_step * call->window->points * call->window->points, begin, end);
    return INLAY_OK;
}

static inlay_status run_window(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct window *window = (const struct window *)(const void *)native;
    int64_t blocks = (window->total + window->block - 1) / window->block,
            units = window->points * window->points * window->panels;
    window_call call = { .window = window, .args = args, .scratch = args[ARG_SCRATCH] };
    inlay_status status = INLAY_OK;

    if (threads <= 1)
        return whole_blocks(&call, 0, blocks, 0);
    if (window->apart)
        return state->host->parallel_for(state->host->ctx, run, blocks, 1, whole_blocks, &call);
    for (int64_t b = 0; b < blocks && status == INLAY_OK; b++) {
        take_block(&call, b);
        status = state->host->parallel_for(state->host->ctx, run, call.count, 2, part_in, &call);
        if (status == INLAY_OK)
            status = state->host->parallel_for(state->host->ctx, run, units, window->panels < 4 ? 4 : window->panels,
                                               part_multiply, &call);
        if (status == INLAY_OK)
            status = state->host->parallel_for(state->host->ctx, run, call.count, 2, part_out, &call);
    }
    return status;
}

/* ------------------------------------------------------------------ lowering */

enum {
    NEAR_BYTES = 640 * 1024,     /* of V and M together, beside weights in the second-level cache */
    FAR_BYTES = 4 * 1024 * 1024, /* where weights come from further away each time */
    NEAR_WEIGHTS = 1024 * 1024
};

/* How many windows at a time. */
static void cut(struct window *window, uint32_t threads)
{
    int64_t squared = window->points * window->points, weights = squared * window->in * window->panels * TILE_WIDTH * 4;
    int64_t each = squared * (window->v_line + window->m_line) * 4, blocks;
    int64_t most = (weights > NEAR_WEIGHTS ? FAR_BYTES : NEAR_BYTES) / each;

    if (most < TILE_ROWS)
        most = TILE_ROWS;
    blocks = (window->total + most - 1) / most;
    window->apart = threads > 1 && weights <= NEAR_WEIGHTS && blocks >= threads;
    if (window->apart)
        blocks = (blocks + threads - 1) / threads * threads;
    window->block = (window->total + blocks - 1) / blocks;
    /* Lines of different points must not all fall into the same set of the cache. */
    window->v_step = window->block * window->v_line + TILE_LANES;
    window->m_step = window->block * window->m_line + TILE_LANES;
}

inlay_status tiles_lower_winograd(cpu_build *build, const cpu_op *op, int64_t points, const cpu_place *input,
                                  const memory_desc *weights, const tile_epilogue *epilogue,
                                  const cpu_place *const *operands, uint32_t operand_count, const cpu_place *output)
{
    const int64_t *xd = build->dims[op->in[0]], *yd = build->dims[op->out[0]];
    const cpu_place *places[5 + CPU_MAX_POSTS + 2];
    const tile_trust *trust = NULL;
    cpu_place place, original, scratch;
    library_dims begins, ends;
    inlay_status status;
    int64_t floats;
    struct window *window;
    memory_desc md;

    if (!tiles_winograd_layout(points, xd[1], yd[1], &md))
        return inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': no layout for its weights", op->name);
    status = cpu_read_constant(build, op->in[1], weights, &md, &place);
    original = place;
    if (status == INLAY_OK && !build->state->fast) {
        cpu_constant *constant = &build->compiled->constants[build->compiled->values[op->in[1]].constant];

        status = cpu_constant_trust(build->compiled, constant, weights, points, &trust, build->diag);
        if (status == INLAY_OK)
            status = cpu_read_plain(build, op->in[1], &original);
    }
    if (status != INLAY_OK)
        return status;
    window = calloc(1, sizeof *window);
    if (window == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    cpu_window_pads(op, xd + 2, yd + 2, op->window.kernel, begins, ends);
    *window = (struct window){ .native.run = run_window,
                               .set = build->state->tiles,
                               .kernel = build->state->sgemm,
                               .points = points,
                               .images = xd[0],
                               .height = xd[2],
                               .width = xd[3],
                               .in = xd[1],
                               .out_height = yd[2],
                               .out_width = yd[3],
                               .out = yd[1],
                               .top = begins[0],
                               .left = begins[1],
                               .x_pixel = input->md.strides[3],
                               .y_pixel = output->md.strides[3],
                               .v_line = padded_line(xd[1]),
                               .m_line = padded_line(yd[1]),
                               .panels = (yd[1] + TILE_WIDTH - 1) / TILE_WIDTH,
                               .epilogue = *epilogue,
                               .trust = trust };
    window->down = (yd[2] + points - 3) / (points - 2);
    window->across = (yd[3] + points - 3) / (points - 2);
    window->total = xd[0] * window->down * window->across;
    cut(window, build->instance->threads);
    floats = scratch_floats(window) * (window->apart ? build->instance->threads : 1);
    status = cpu_new_floats(build, floats, &scratch);
    if (status != INLAY_OK) {
        free(window);
        return status;
    }
    places[ARG_X] = input;
    places[ARG_W] = &place;
    places[ARG_PLAIN] = &original;
    places[ARG_Y] = output;
    places[ARG_SCRATCH] = &scratch;
    for (uint32_t i = OPERANDS; i < operand_count; i++)
        places[i + MORE] = operands[i];
    if (window->epilogue.bias != INLAY_NONE)
        window->epilogue.bias += MORE;
    if (window->epilogue.add != INLAY_NONE)
        window->epilogue.add += MORE;
    for (uint32_t post = 0; post < window->epilogue.post_count; post++)
        if (window->epilogue.posts[post].arg != INLAY_NONE)
            window->epilogue.posts[post].arg += MORE;
    return cpu_emit_native(build, &window->native, places, operand_count + MORE);
}

/* ------------------------------------------------------------------ weights */

bool tiles_winograd_layout(int64_t points, int64_t in, int64_t out, memory_desc *md)
{
    library_dims dims = { points * points, out, in };

    return memory_desc_blocks(md, 3, dims, "aBc32b");
}

typedef struct weights_call {
    const tile_set *set;
    const char *source;
    const int64_t *dims, *strides; /* of the original: out, in, 3, 3 */
    int64_t points, panels;
    float *u;
} weights_call;

static inlay_status some_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const weights_call *call = user;
    int64_t in = call->dims[1], step = call->panels * in * TILE_WIDTH;

    (void)worker;
    for (int64_t p = begin; p < end; p++) {
        int64_t first = p * TILE_WIDTH, count = call->dims[0] - first < TILE_WIDTH ? call->dims[0] - first : TILE_WIDTH;

        for (int64_t i = 0; i < in; i++)
            call->set->window_weights(
                call->source + (first * call->strides[0] + i * call->strides[1]) * (int64_t)sizeof(float),
                call->strides[0], call->strides[3], count, call->points, call->u + (p * in + i) * TILE_WIDTH, step);
    }
    return INLAY_OK;
}

bool tiles_winograd_weights(const cpu_state *state, inlay_run *run, const memory_desc *plain, const void *source,
                            const memory_desc *md, void *target)
{
    weights_call call = {
        .set = state->tiles, .source = source, .dims = plain->dims, .strides = plain->strides, .u = target
    };

    if (plain->ndims != 4 || md->ndims != 3 || plain->kind != CPU_BLOCKED || state->tiles == NULL)
        return false;
    call.points = md->dims[0] == 16 ? 4 : 6;
    call.panels = (call.dims[0] + TILE_WIDTH - 1) / TILE_WIDTH;
    (void)state->host->parallel_for(state->host->ctx, run, call.panels, 1, some_panels, &call);
    return true;
}
