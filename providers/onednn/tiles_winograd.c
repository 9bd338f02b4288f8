/* Convolutions of 3x3 by Winograd's algorithm on tiles: F(4x4, 3x3), a quarter of the multiplications, or F(2x2, 3x3),
 * 4/9 of them, for images that are too small for the former or whose transformed weights would be the longest part.
 *
 * The image is cut into windows of points x points pixels that overlap by two. Each is transformed (V), which gives
 * points^2 matrices [windows][channels]; each of these is multiplied by transformed weights (U), and what comes out (M)
 * is transformed back. Windows are done in blocks whose V and M stay in the second-level cache, if the weights do, too;
 * otherwise more of them at a time, since each block reads all weights. */
#include "tiles.h"

typedef struct window {
    rg_native native;
    const tile_set *set;
    const sg_kernel *kernel;
    int64_t points;
    int64_t images, height, width, in; /* of x */
    int64_t out_height, out_width, out;
    int64_t top, left;                 /* pads */
    int64_t x_pixel, y_pixel;
    int64_t down, across, total;       /* windows of an image, and in all */
    int64_t block, v_line, m_line;     /* windows of a block; floats of a line of V and M */
    int64_t v_step, m_step;            /* floats between points */
    int64_t panels;
    bool apart;                        /* blocks are shared among threads; otherwise the work within a block is */
    tile_ending ending;
} window;

enum { ARG_X, ARG_W, ARG_Y };

typedef struct window_call {
    const window *w;
    void *const *args;
    float *scratch; /* of worker 0; the others' follow */
    int64_t first, count; /* windows in hand */
} window_call;

static int64_t scratch_floats(const window *w)
{
    return (w->v_step + w->m_step) * w->points * w->points;
}

/* ------------------------------------------------------------------ the three steps, for some windows of a block */

static void transform_in(const window_call *call, float *v, int64_t begin, int64_t end)
{
    static const float zeros[TILE_CHANNELS];
    const window *w = call->w;
    const float *x = call->args[ARG_X], *pixels[TILE_ALPHA * TILE_ALPHA];

    for (int64_t i = begin; i < end; i++) {
        int64_t n = call->first + i, image = n / (w->down * w->across), at = n % (w->down * w->across);
        int64_t h = at / w->across * (w->points - 2) - w->top, q = at % w->across * (w->points - 2) - w->left;

        for (int64_t a = 0; a < w->points; a++) {
            for (int64_t c = 0; c < w->points; c++) {
                bool inside = h + a >= 0 && h + a < w->height && q + c >= 0 && q + c < w->width;

                pixels[a * w->points + c] =
                    inside ? x + ((image * w->height + h + a) * w->width + q + c) * w->x_pixel : zeros;
            }
        }
        w->set->window_in(pixels, w->in, w->points, v + i * w->v_line, w->v_step);
    }
}

/* Units: a panel of weights at a point. */
static void multiply(const window_call *call, const float *v, float *m, int64_t begin, int64_t end)
{
    static const int64_t tap = 0;
    const window *w = call->w;
    int64_t tiles = (call->count + TILE_ROWS - 1) / TILE_ROWS, panel_floats = w->in * TILE_WIDTH;

    for (int64_t u = begin; u < end; u++) {
        int64_t point = u / w->panels, column = u % w->panels * TILE_WIDTH;
        const float *b = (const float *)call->args[ARG_W] + u * panel_floats, *next = b + panel_floats;

        for (int64_t t = 0; t < tiles; t++) {
            int64_t first = t * call->count / tiles, last = (t + 1) * call->count / tiles;
            const tile_product p = {
                .a = v + point * w->v_step + first * w->v_line,
                .a_row = w->v_line,
                .taps = &tap,
                .tap_count = 1,
                .depth = w->in,
                .b = b,
                .ahead = u + 1 == end || t > 1 ? NULL : next + t * panel_floats / 2,
                .ahead_lines = tiles == 1 ? 2 : 1,
                .c = m + point * w->m_step + first * w->m_line + column,
                .c_row = w->m_line,
                .columns = w->out - column < TILE_WIDTH ? w->out - column : TILE_WIDTH,
            };

            w->set->multiply(&p, (int)(last - first));
        }
    }
}

static void transform_out(const window_call *call, const float *m, int64_t begin, int64_t end)
{
    const window *w = call->w;
    const tile_ending *e = &w->ending;
    const float *bias = e->bias != INLAY_NONE ? call->args[e->bias] : NULL;
    const float *add = e->add != INLAY_NONE ? call->args[e->add] : NULL;
    float *y = call->args[ARG_Y];
    int64_t size = w->points - 2;

    for (int64_t i = begin; i < end; i++) {
        int64_t n = call->first + i, image = n / (w->down * w->across), at = n % (w->down * w->across);
        int64_t h = at / w->across * size, q = at % w->across * size;
        int64_t pixel = (image * w->out_height + h) * w->out_width + q;
        int64_t rows = w->out_height - h < size ? w->out_height - h : size;
        int64_t columns = w->out_width - q < size ? w->out_width - q : size;

        const tile_window back = {
            .m = m + i * w->m_line,
            .step = w->m_step,
            .points = w->points,
            .channels = w->out,
            .bias = bias,
            .add = add != NULL ? add + pixel * e->add_pixel : NULL,
            .add_row = w->out_width * e->add_pixel,
            .add_pixel = e->add_pixel,
            .clamp = e->clamp,
            .low = e->low,
            .high = e->high,
            .y = y + pixel * w->y_pixel,
            .y_row = w->out_width * w->y_pixel,
            .y_pixel = w->y_pixel,
            .rows = rows,
            .columns = columns,
        };

        w->set->window_out(&back);
        for (int64_t r = 0; e->post_count > 0 && r < rows; r++) {
            int64_t first = pixel + r * w->out_width;

            tiles_end(w->set, w->kernel, e, call->args, y + first * w->y_pixel, w->y_pixel, first, columns, 0, w->out);
        }
    }
}

/* ------------------------------------------------------------------ the run */

static void take_block(window_call *call, int64_t block)
{
    const window *w = call->w;

    call->first = block * w->block;
    call->count = w->total - call->first < w->block ? w->total - call->first : w->block;
}

static inlay_status whole_blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    window_call call = *(const window_call *)user;
    const window *w = call.w;
    float *v = call.scratch + worker * scratch_floats(w), *m = v + w->v_step * w->points * w->points;

    for (int64_t b = begin; b < end; b++) {
        take_block(&call, b);
        transform_in(&call, v, 0, call.count);
        multiply(&call, v, m, 0, w->points * w->points * w->panels);
        transform_out(&call, m, 0, call.count);
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
    multiply(call, call->scratch, call->scratch + call->w->v_step * call->w->points * call->w->points, begin, end);
    return INLAY_OK;
}

static inlay_status part_out(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const window_call *call = user;

    (void)worker;
    transform_out(call, call->scratch + call->w->v_step * call->w->points * call->w->points, begin, end);
    return INLAY_OK;
}

static inlay_status run_window(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const window *w = (const window *)(const void *)native;
    int64_t blocks = (w->total + w->block - 1) / w->block, units = w->points * w->points * w->panels;
    window_call call = { .w = w, .args = args, .scratch = args[ARG_Y + 1] };
    inlay_status status = INLAY_OK;

    if (threads <= 1)
        return whole_blocks(&call, 0, blocks, 0);
    if (w->apart)
        return state->host->parallel_for(state->host->ctx, run, blocks, 1, whole_blocks, &call);
    for (int64_t b = 0; b < blocks && status == INLAY_OK; b++) {
        take_block(&call, b);
        status = state->host->parallel_for(state->host->ctx, run, call.count, 2, part_in, &call);
        if (status == INLAY_OK)
            status = state->host->parallel_for(state->host->ctx, run, units, w->panels < 4 ? 4 : w->panels,
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

static int64_t padded_line(int64_t floats)
{
    return (floats + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
}

/* How many windows at a time. */
static void cut(window *w, uint32_t threads)
{
    int64_t squared = w->points * w->points, weights = squared * w->in * w->panels * TILE_WIDTH * 4;
    int64_t each = squared * (w->v_line + w->m_line) * 4, blocks;
    int64_t most = (weights > NEAR_WEIGHTS ? FAR_BYTES : NEAR_BYTES) / each;

    if (most < TILE_ROWS)
        most = TILE_ROWS;
    blocks = (w->total + most - 1) / most;
    w->apart = threads > 1 && weights <= NEAR_WEIGHTS && blocks >= threads;
    if (w->apart)
        blocks = (blocks + threads - 1) / threads * threads;
    w->block = (w->total + blocks - 1) / blocks;
    /* Lines of different points must not all fall into the same set of the cache. */
    w->v_step = w->block * w->v_line + TILE_LANES;
    w->m_step = w->block * w->m_line + TILE_LANES;
}

inlay_status tiles_lower_window(rg_build *b, const rg_op *op, int64_t points, const rg_place *x, const rg_md *weights,
                                const tile_ending *ending, const rg_place *const *operands, uint32_t operand_count,
                                const rg_place *y)
{
    const int64_t *xd = b->dims[op->in[0]], *yd = b->dims[op->out[0]];
    const rg_place *places[4 + RG_MAX_POSTS + 2];
    rg_place u, scratch;
    dnnl_dims_t begins, ends;
    inlay_status status;
    int64_t floats;
    window *w;
    rg_md md;

    if (!tiles_window_layout(points, xd[1], yd[1], &md))
        return inlay_fail(b->diag, INLAY_UNSUPPORTED, "node '%s': no layout for its weights", op->name);
    status = rg_read_constant(b, op->in[1], weights, &md, &u);
    if (status != INLAY_OK)
        return status;
    w = calloc(1, sizeof *w);
    if (w == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    rg_window_pads(op, xd + 2, yd + 2, op->kernel, begins, ends);
    *w = (window){ .native.run = run_window, .set = b->state->tiles, .kernel = b->state->sgemm,
                   .points = points, .images = xd[0],
                   .height = xd[2], .width = xd[3], .in = xd[1], .out_height = yd[2], .out_width = yd[3],
                   .out = yd[1], .top = begins[0], .left = begins[1],
                   .x_pixel = x->md.format_desc.blocking.strides[3], .y_pixel = y->md.format_desc.blocking.strides[3],
                   .v_line = padded_line(xd[1]), .m_line = padded_line(yd[1]),
                   .panels = (yd[1] + TILE_WIDTH - 1) / TILE_WIDTH, .ending = *ending };
    w->down = (yd[2] + points - 3) / (points - 2);
    w->across = (yd[3] + points - 3) / (points - 2);
    w->total = xd[0] * w->down * w->across;
    cut(w, b->instance->threads);
    floats = scratch_floats(w) * (w->apart ? b->instance->threads : 1);
    rg_md_plain(&md, 1, &floats);
    status = rg_new_place(b, &md, &scratch);
    if (status != INLAY_OK) {
        free(w);
        return status;
    }
    /* The scratchpad comes fourth; what the ending refers to moves on by one. */
    places[ARG_X] = x;
    places[ARG_W] = &u;
    places[ARG_Y] = y;
    places[ARG_Y + 1] = &scratch;
    for (uint32_t i = ARG_Y + 1; i < operand_count; i++)
        places[i + 1] = operands[i];
    if (w->ending.bias != INLAY_NONE)
        w->ending.bias++;
    if (w->ending.add != INLAY_NONE)
        w->ending.add++;
    for (uint32_t p = 0; p < w->ending.post_count; p++)
        if (w->ending.posts[p].arg != INLAY_NONE)
            w->ending.posts[p].arg++;
    return rg_emit_native(b, &w->native, places, operand_count + 1);
}

/* ------------------------------------------------------------------ weights */

bool tiles_window_layout(int64_t points, int64_t in, int64_t out, rg_md *md)
{
    dnnl_dims_t dims = { points * points, out, in };

    return rg_md_blocks(md, 3, dims, "aBc32b");
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
    const weights_call *w = user;
    int64_t in = w->dims[1], step = w->panels * in * TILE_WIDTH;

    (void)worker;
    for (int64_t p = begin; p < end; p++) {
        int64_t first = p * TILE_WIDTH, count = w->dims[0] - first < TILE_WIDTH ? w->dims[0] - first : TILE_WIDTH;

        for (int64_t i = 0; i < in; i++)
            w->set->window_weights(w->source + (first * w->strides[0] + i * w->strides[1]) * (int64_t)sizeof(float),
                                   w->strides[0], w->strides[3], count, w->points, w->u + (p * in + i) * TILE_WIDTH,
                                   step);
    }
    return INLAY_OK;
}

bool tiles_window_weights(const rg_state *state, const rg_md *plain, const void *source, const rg_md *md, void *target)
{
    weights_call w = { .set = state->tiles, .source = source, .dims = plain->dims,
                       .strides = plain->format_desc.blocking.strides, .u = target };

    if (plain->ndims != 4 || md->ndims != 3 || plain->format_kind != dnnl_blocked || state->tiles == NULL)
        return false;
    w.points = md->dims[0] == 16 ? 4 : 6;
    w.panels = (w.dims[0] + TILE_WIDTH - 1) / TILE_WIDTH;
    (void)state->host->parallel_for(state->host->ctx, NULL, w.panels, 1, some_panels, &w);
    return true;
}
