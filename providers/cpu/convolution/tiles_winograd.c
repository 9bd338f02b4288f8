/* Convolutions of 3x3 by Winograd's algorithm on tiles: F(4x4, 3x3) with a quarter of the multiplications, or F(2x2,
 * 3x3) with 4/9 of them for images that are too small for F(4x4), and for layers whose transformed weights would
 * dominate the time.
 *
 * The image is divided into windows of points x points pixels that overlap by two. The transform of all windows (V)
 * gives points^2 matrices [windows][channels]. Each is multiplied by transformed weights (U), and the products (M)
 * are transformed back. Windows are processed in blocks whose V and M stay in the second-level cache, if the weights
 * do, too; otherwise in larger blocks, because each block reads all weights.
 *
 * Each window is guarded. All results of a window are direct sums with the original weights (direct_window) if a pixel
 * of the window is much larger than the pixels around a result, if a pixel is NaN or infinity, or if a result has only
 * a few terms. How much larger a pixel may be was measured with the weights (tiles_error.c). The decision depends on
 * the window alone, not on its neighbours or on threads. */
#include "cpu/convolution/sum_loops.h"
#include "cpu/convolution/tiles.h"
#include "cpu/region/window.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/optional.h"
#include <float.h>
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(tiles_winograd_weights, "cpu_conv");
OPTIONAL_IF_CALLED(tiles_lower_winograd);

typedef struct winograd_conv {
    cpu_native native;
    const tile_set *set;
    const sgemm_kernel *kernel;
    int64_t points;
    int64_t images, height, width, in; /* of x */
    int64_t out_height, out_width, out;
    int64_t top, left; /* padding */
    int64_t x_pixel, y_pixel;
    int64_t down, across, total; /* windows along the axes of an image, and in total */
    int64_t block;               /* windows */
    struct {
        int64_t line, step; /* floats of a window, and between points */
    } v, m;
    int64_t panels;
    bool shares_blocks; /* true: threads share the blocks; false: threads share the work within a block */
    tile_epilogue epilogue;
    const winograd_accuracy *accuracy; /* NULL: no guard */
} winograd_conv;

enum { ARG_X, ARG_W, ARG_PLAIN, ARG_Y, ARG_SCRATCH };
/* The caller provides input, weights and output as the first arguments. Further ones are inserted here, so that
 * arguments of the epilogue move by MORE. */
enum { OPERANDS = 3, MORE = ARG_SCRATCH + 1 - OPERANDS };

typedef struct window_call {
    const winograd_conv *conv;
    void *const *args;
    float *scratch;       /* of worker 0; the buffers of the other workers follow */
    int64_t first, count; /* windows of the current block */
} window_call;

/* Position of a window's results, and how many of their rows and columns are inside the output. */
typedef struct window_at {
    int64_t image, row, column, rows, columns;
} window_at;

static window_at locate(const winograd_conv *conv, int64_t index)
{
    const int64_t size = conv->points - 2, at = index % (conv->down * conv->across);
    const int64_t row = at / conv->across * size, column = at % conv->across * size;

    return (window_at){ index / (conv->down * conv->across), row, column,
                        conv->out_height - row < size ? conv->out_height - row : size,
                        conv->out_width - column < size ? conv->out_width - column : size };
}

static int64_t padded_line(int64_t floats)
{
    return (floats + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
}

/* V, M, and one float for each window: 1 if it failed the guard. */
static int64_t scratch_floats(const winograd_conv *conv)
{
    return (conv->v.step + conv->m.step) * conv->points * conv->points + padded_line(conv->block);
}

static float *failed_windows(const winograd_conv *conv, const float *v)
{
    return (float *)(uintptr_t)v + (conv->v.step + conv->m.step) * conv->points * conv->points;
}

/* Within these bounds neither a transform nor a product can overflow, and underflow is negligible. */
static const float MIN_SUM = 1e-16F, MAX_SUM = 1e16F; /* squares of values within the bounds are normal numbers */

/* Applies the guard to the pixels of a window, [column][row]. NaN fails every comparison. */
static bool passes(const winograd_conv *conv, weighted_sums (*at)[TILE_ALPHA], int64_t rows, int64_t columns)
{
    const float limit = conv->accuracy->top > 1 ? MAX_SUM / conv->accuracy->top : MAX_SUM;
    const float min_sum = conv->accuracy->top < 1 ? MIN_SUM / conv->accuracy->top : MIN_SUM;
    float largest = 0, total = 0, smallest = FLT_MAX;
    bool many = true;

    for (int64_t column = 0; column < conv->points; column++) {
        for (int64_t row_index = 0; row_index < conv->points; row_index++) {
            largest = at[column][row_index].sum > largest ? at[column][row_index].sum : largest;
            total += at[column][row_index].sum;
        }
    }
    if (total == 0)
        return true;
    for (int64_t column = 0; column < columns; column++) {
        weighted_sums row[TILE_ALPHA];

        for (int64_t row_index = 0; row_index < conv->points; row_index++)
            row[row_index] = (weighted_sums){
                at[column][row_index].sum + at[column + 1][row_index].sum + at[column + 2][row_index].sum,
                at[column][row_index].square + at[column + 1][row_index].square + at[column + 2][row_index].square
            };
        for (int64_t row_index = 0; row_index < rows; row_index++) {
            const float sum = row[row_index].sum + row[row_index + 1].sum + row[row_index + 2].sum;
            const float square = row[row_index].square + row[row_index + 1].square + row[row_index + 2].square;

            smallest = sum < smallest ? sum : smallest;
            many = many && sum * sum >= (float)TILE_LEAST_TERMS * square;
        }
    }
    return many && total <= limit && smallest >= min_sum && largest <= (float)conv->accuracy->uneven * smallest;
}

/* Applies the guard to a window. x: its pixels, row by row. shares: the columns shared with the window to its left
 * are in `at` already. */
static bool window_passes(const winograd_conv *conv, const float *const *x, weighted_sums (*at)[TILE_ALPHA],
                          bool shares, int64_t rows, int64_t columns)
{
    const int64_t size = conv->points - 2;

    if (shares)
        memmove(at, at + size, 2 * sizeof *at);
    for (int64_t column_index = shares ? 2 : 0; column_index < conv->points; column_index++) {
        const float *column[TILE_ALPHA];

        for (int64_t row = 0; row < conv->points; row++)
            column[row] = x[row * conv->points + column_index];
        KERNEL_BEST(sum_loops)->weigh_pixels(column, conv->points, conv->in, conv->accuracy->weight, at[column_index]);
    }
    return passes(conv, at, rows, columns);
}

static void transform_in(const window_call *call, float *v, int64_t begin, int64_t end)
{
    static const float zeros[TILE_CHANNELS];
    const winograd_conv *conv = call->conv;
    const float *input = call->args[ARG_X], *pixels[TILE_ALPHA * TILE_ALPHA];
    weighted_sums of_window[TILE_ALPHA][TILE_ALPHA];
    float *failed = failed_windows(conv, v);

    for (int64_t i = begin; i < end; i++) {
        const window_at at = locate(conv, call->first + i);
        const int64_t top = at.row - conv->top, left = at.column - conv->left;

        for (int64_t row = 0; row < conv->points; row++) {
            for (int64_t column = 0; column < conv->points; column++) {
                bool inside =
                    top + row >= 0 && top + row < conv->height && left + column >= 0 && left + column < conv->width;

                pixels[row * conv->points + column] =
                    inside
                        ? input + ((at.image * conv->height + top + row) * conv->width + left + column) * conv->x_pixel
                        : zeros;
            }
        }
        if (conv->accuracy != NULL)
            failed[i] = !window_passes(conv, pixels, of_window, i > begin && at.column > 0, at.rows, at.columns);
        conv->set->window_in(pixels, conv->in, conv->points, v + i * conv->v.line, conv->v.step);
    }
}

enum { GROUP = 4, PART = SUM_TERMS / 9, TAPS = 9 }; /* neighbouring results; channels at a time */

/* Copies the receptive fields of GROUP results from (top, left) on, `valid` of them inside the output, for channels
 * [first, first + count), in the order of the weights. */
static void gather_windows(const window_call *call, int64_t image, int64_t top, int64_t left, int64_t valid,
                           int64_t first, int64_t count, float (*out)[PART * TAPS])
{
    const winograd_conv *conv = call->conv;
    const float *input = call->args[ARG_X];

    memset(out, 0, GROUP * sizeof *out);
    for (int64_t result = 0; result < valid; result++) {
        for (int64_t tap = 0; tap < TAPS; tap++) {
            const int64_t row = top - conv->top + tap / 3, column = left + result - conv->left + tap % 3;
            const float *pixel = input + ((image * conv->height + row) * conv->width + column) * conv->x_pixel + first;

            if (row < 0 || row >= conv->height || column < 0 || column >= conv->width)
                continue;
            for (int64_t channel = 0; channel < count; channel++)
                out[result][channel * TAPS + tap] = pixel[channel];
        }
    }
}

/* Applies the epilogue of window_out to the sums of one row of results, in the first lines of m. */
static void end_sums(const tile_window *to, int64_t row)
{
    for (int64_t result = 0; result < to->columns; result++) {
        const float *add = to->add != NULL ? to->add + row * to->add_row + result * to->add_pixel : NULL;
        float *output = to->output + row * to->y_row + result * to->y_pixel;

        for (int64_t channel = 0; channel < to->channels; channel++) {
            float sum = to->m[result * to->step + channel] + (to->bias != NULL ? to->bias[channel] : 0);

            sum += add != NULL ? add[channel] : 0;
            if (to->clamp) {
                sum = sum < to->low ? to->low : sum; /* NaN is kept */
                sum = sum > to->high ? to->high : sum;
            }
            output[channel] = sum;
        }
    }
}

/* Computes one window with the original weights. m: to->m, whose first GROUP lines hold the sums meanwhile. */
static void direct_window(const window_call *call, const window_at *at, float *m, const tile_window *to)
{
    const winograd_conv *conv = call->conv;
    const sum_loops *const loops = KERNEL_BEST(sum_loops);
    const char *weights = call->args[ARG_PLAIN];
    float fields[GROUP][PART * TAPS], aligned[PART * TAPS];

    INLAY_CHECK(at->columns <= GROUP);
    for (int64_t row = 0; row < at->rows; row++) {
        for (int64_t result = 0; result < GROUP; result++)
            memset(m + result * to->step, 0, (size_t)conv->out * sizeof *m);
        for (int64_t first = 0; first < conv->in; first += PART) {
            const int64_t count = conv->in - first < PART ? conv->in - first : PART;

            gather_windows(call, at->image, at->row + row, at->column, at->columns, first, count, fields);
            for (int64_t output = 0; output < conv->out; output++) {
                memcpy(aligned, weights + (output * conv->in + first) * TAPS * (int64_t)sizeof(float),
                       (size_t)(count * TAPS) * sizeof(float));
                loops->add_dots((const float(*)[SUM_TERMS])fields, aligned, count * TAPS, m + output, to->step);
            }
        }
        end_sums(to, row);
    }
}

/* True if no result of the block would be used. (If some are used, all windows are multiplied: the grouping of rows
 * decides the order of additions.) */
static bool all_failed(const window_call *call, const float *v)
{
    const float *failed = failed_windows(call->conv, v);
    int64_t i = 0;

    while (call->conv->accuracy != NULL && i < call->count && failed[i] != 0)
        i++;
    return i == call->count;
}

/* Units: a panel of weights at one point. */
static void multiply(const window_call *call, const float *v, float *m, int64_t begin, int64_t end)
{
    static const int64_t tap = 0;
    const winograd_conv *conv = call->conv;
    int64_t tiles = (call->count + TILE_ROWS - 1) / TILE_ROWS, panel_floats = conv->in * TILE_WIDTH;

    if (all_failed(call, v))
        return;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t point = unit / conv->panels, column = unit % conv->panels * TILE_WIDTH;
        const float *b = (const float *)call->args[ARG_W] + unit * panel_floats, *next = b + panel_floats;

        for (int64_t tile = 0; tile < tiles; tile++) {
            int64_t first = tile * call->count / tiles, last = (tile + 1) * call->count / tiles;
            const tile_product product = {
                .a = v + point * conv->v.step + first * conv->v.line,
                .a_row = conv->v.line,
                .taps = &tap,
                .tap_count = 1,
                .depth = conv->in,
                .b = b,
                .ahead = unit + 1 == end || tile > 1 ? NULL : next + tile * panel_floats / 2,
                .ahead_lines = tiles == 1 ? 2 : 1,
                .c = m + point * conv->m.step + first * conv->m.line + column,
                .c_row = conv->m.line,
                .columns = conv->out - column < TILE_WIDTH ? conv->out - column : TILE_WIDTH,
            };

            conv->set->multiply(&product, (int)(last - first));
        }
    }
}

static void transform_out(const window_call *call, const float *v, float *m, int64_t begin, int64_t end)
{
    const winograd_conv *conv = call->conv;
    const tile_epilogue *epilogue = &conv->epilogue;
    const float *bias = epilogue->bias != INLAY_NONE ? call->args[epilogue->bias] : NULL;
    const float *add = epilogue->add != INLAY_NONE ? call->args[epilogue->add] : NULL;
    float *output = call->args[ARG_Y];

    for (int64_t i = begin; i < end; i++) {
        const window_at at = locate(conv, call->first + i);
        const int64_t pixel = (at.image * conv->out_height + at.row) * conv->out_width + at.column;
        const tile_window back = {
            .m = m + i * conv->m.line,
            .step = conv->m.step,
            .points = conv->points,
            .channels = conv->out,
            .bias = bias,
            .add = add != NULL ? add + pixel * epilogue->add_pixel : NULL,
            .add_row = conv->out_width * epilogue->add_pixel,
            .add_pixel = epilogue->add_pixel,
            .clamp = epilogue->clamp,
            .low = epilogue->low,
            .high = epilogue->high,
            .output = output + pixel * conv->y_pixel,
            .y_row = conv->out_width * conv->y_pixel,
            .y_pixel = conv->y_pixel,
            .rows = at.rows,
            .columns = at.columns,
        };

        if (conv->accuracy != NULL && failed_windows(conv, v)[i] != 0)
            direct_window(call, &at, m + i * conv->m.line, &back);
        else
            conv->set->window_out(&back);
        for (int64_t row = 0; epilogue->post_count > 0 && row < at.rows; row++) {
            int64_t first = pixel + row * conv->out_width;

            tiles_apply_epilogue(conv->set, conv->kernel, epilogue, call->args, output + first * conv->y_pixel,
                                 conv->y_pixel, first, at.columns, 0, conv->out);
        }
    }
}

static void select_block(window_call *call, int64_t block)
{
    const winograd_conv *conv = call->conv;

    call->first = block * conv->block;
    call->count = conv->total - call->first < conv->block ? conv->total - call->first : conv->block;
}

static inlay_status whole_blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    window_call call = *(const window_call *)user;
    const winograd_conv *conv = call.conv;
    float *v = call.scratch + worker * scratch_floats(conv), *m = v + conv->v.step * conv->points * conv->points;

    for (int64_t block = begin; block < end; block++) {
        select_block(&call, block);
        transform_in(&call, v, 0, call.count);
        multiply(&call, v, m, 0, conv->points * conv->points * conv->panels);
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
    multiply(call, call->scratch, call->scratch + call->conv->v.step * call->conv->points * call->conv->points, begin,
             end);
    return INLAY_OK;
}

static inlay_status part_out(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const window_call *call = user;

    (void)worker;
    transform_out(call, call->scratch, call->scratch + call->conv->v.step * call->conv->points * call->conv->points,
                  begin, end);
    return INLAY_OK;
}

static inlay_status run_winograd(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                 uint32_t threads)
{
    const winograd_conv *conv = (const winograd_conv *)(const void *)native;
    int64_t blocks = (conv->total + conv->block - 1) / conv->block, units = conv->points * conv->points * conv->panels;
    window_call call = { .conv = conv, .args = args, .scratch = args[ARG_SCRATCH] };
    inlay_status status = INLAY_OK;

    if (threads <= 1)
        return whole_blocks(&call, 0, blocks, 0);
    if (conv->shares_blocks)
        return state->host->parallel_for(state->host->ctx, run, blocks, 1, whole_blocks, &call);
    for (int64_t block = 0; block < blocks && status == INLAY_OK; block++) {
        select_block(&call, block);
        status = state->host->parallel_for(state->host->ctx, run, call.count, 2, part_in, &call);
        if (status == INLAY_OK)
            status = state->host->parallel_for(state->host->ctx, run, units, conv->panels < 4 ? 4 : conv->panels,
                                               part_multiply, &call);
        if (status == INLAY_OK)
            status = state->host->parallel_for(state->host->ctx, run, call.count, 2, part_out, &call);
    }
    return status;
}

enum {
    NEAR_BYTES = 640 * 1024,     /* of V and M together, with the weights also in the second-level cache */
    FAR_BYTES = 4 * 1024 * 1024, /* if the weights are read from farther away for each block */
    NEAR_WEIGHTS = 1024 * 1024
};

/* Chooses the number of windows in a block. */
static void divide(winograd_conv *conv, uint32_t threads)
{
    int64_t squared = conv->points * conv->points, weights = squared * conv->in * conv->panels * TILE_WIDTH * 4;
    int64_t window_bytes = squared * (conv->v.line + conv->m.line) * 4, blocks;
    int64_t max_windows = (weights > NEAR_WEIGHTS ? FAR_BYTES : NEAR_BYTES) / window_bytes;

    if (max_windows < TILE_ROWS)
        max_windows = TILE_ROWS;
    blocks = (conv->total + max_windows - 1) / max_windows;
    conv->shares_blocks = threads > 1 && weights <= NEAR_WEIGHTS && blocks >= threads;
    if (conv->shares_blocks)
        blocks = (blocks + threads - 1) / threads * threads;
    conv->block = (conv->total + blocks - 1) / blocks;
    /* Lines of different points must not map to the same set of the cache. */
    conv->v.step = conv->block * conv->v.line + TILE_LANES;
    conv->m.step = conv->block * conv->m.line + TILE_LANES;
}

inlay_status tiles_lower_winograd(cpu_build *build, const cpu_op *op, int64_t points, const cpu_place *input,
                                  const tensor_layout *weights, const tile_epilogue *epilogue,
                                  const cpu_place *const *operands, uint32_t operand_count, const cpu_place *output)
{
    const int64_t *input_dims = build->dims[op->in[0]], *output_dims = build->dims[op->out[0]];
    const cpu_place *places[5 + CPU_MAX_POSTS + 2];
    const winograd_accuracy *accuracy = NULL;
    cpu_place place, original, scratch;
    tensor_dims begins, ends;
    inlay_status status;
    int64_t floats;
    winograd_conv *conv;
    tensor_layout packed;

    INLAY_CHECK(input_dims[1] <= TILE_CHANNELS && (points == 4 || points == 6));
    if (!tiles_winograd_layout(points, input_dims[1], output_dims[1], &packed))
        return inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': no layout for its weights", op->name);
    status = cpu_read_constant(build, op->in[1], weights, &packed, &place);
    original = place;
    if (status == INLAY_OK && !build->state->fast) {
        cpu_constant *constant = &build->compiled->constants[build->compiled->values[op->in[1]].constant];

        status = cpu_constant_accuracy(build->compiled, constant, weights, points, winograd_measure_accuracy, &accuracy,
                                       build->diag);
        if (status == INLAY_OK)
            status = cpu_read_unaligned(build, op->in[1], &original);
    }
    if (status != INLAY_OK)
        return status;
    conv = calloc(1, sizeof *conv);
    if (conv == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    cpu_window_pads(op, input_dims + 2, output_dims + 2, op->window.kernel, begins, ends);
    *conv = (winograd_conv){ .native.run = run_winograd,
                             .set = build->state->tiles,
                             .kernel = build->state->sgemm,
                             .points = points,
                             .images = input_dims[0],
                             .height = input_dims[2],
                             .width = input_dims[3],
                             .in = input_dims[1],
                             .out_height = output_dims[2],
                             .out_width = output_dims[3],
                             .out = output_dims[1],
                             .top = begins[0],
                             .left = begins[1],
                             .x_pixel = input->layout.strides[3],
                             .y_pixel = output->layout.strides[3],
                             .v.line = padded_line(input_dims[1]),
                             .m.line = padded_line(output_dims[1]),
                             .panels = (output_dims[1] + TILE_WIDTH - 1) / TILE_WIDTH,
                             .epilogue = *epilogue,
                             .accuracy = accuracy };
    conv->down = (output_dims[2] + points - 3) / (points - 2);
    conv->across = (output_dims[3] + points - 3) / (points - 2);
    conv->total = input_dims[0] * conv->down * conv->across;
    divide(conv, build->instance->threads);
    floats = scratch_floats(conv) * (conv->shares_blocks ? build->instance->threads : 1);
    status = cpu_new_floats(build, floats, &scratch);
    if (status != INLAY_OK) {
        free(conv);
        return status;
    }
    places[ARG_X] = input;
    places[ARG_W] = &place;
    places[ARG_PLAIN] = &original;
    places[ARG_Y] = output;
    places[ARG_SCRATCH] = &scratch;
    for (uint32_t i = OPERANDS; i < operand_count; i++)
        places[i + MORE] = operands[i];
    if (conv->epilogue.bias != INLAY_NONE)
        conv->epilogue.bias += MORE;
    if (conv->epilogue.add != INLAY_NONE)
        conv->epilogue.add += MORE;
    for (uint32_t post = 0; post < conv->epilogue.post_count; post++)
        if (conv->epilogue.posts[post].arg != INLAY_NONE)
            conv->epilogue.posts[post].arg += MORE;
    return cpu_emit_native(build, &conv->native, places, operand_count + MORE);
}

bool tiles_winograd_layout(int64_t points, int64_t in, int64_t out, tensor_layout *packed)
{
    tensor_dims dims = { points * points, out, in };

    return layout_blocks(packed, 3, dims, "aBc32b");
}

typedef struct weights_call {
    const tile_set *set;
    const char *source;
    const int64_t *dims, *strides; /* of the original: out, in, 3, 3 */
    int64_t points, panels;
    float *u;
} weights_call;

static inlay_status transform_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const weights_call *call = user;
    int64_t in = call->dims[1], step = call->panels * in * TILE_WIDTH;

    (void)worker;
    for (int64_t panel = begin; panel < end; panel++) {
        int64_t first = panel * TILE_WIDTH,
                count = call->dims[0] - first < TILE_WIDTH ? call->dims[0] - first : TILE_WIDTH;

        for (int64_t i = 0; i < in; i++)
            call->set->window_weights(
                call->source + (first * call->strides[0] + i * call->strides[1]) * (int64_t)sizeof(float),
                call->strides[0], call->strides[3], count, call->points, call->u + (panel * in + i) * TILE_WIDTH, step);
    }
    return INLAY_OK;
}

bool tiles_winograd_weights(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                            const tensor_layout *packed, void *target)
{
    weights_call call = {
        .set = state->tiles, .source = source, .dims = plain->dims, .strides = plain->strides, .u = target
    };

    if (plain->rank != 4 || packed->rank != 3 || plain->kind != LAYOUT_STRIDED || state->tiles == NULL)
        return false;
    call.points = packed->dims[0] == 16 ? 4 : 6;
    call.panels = (call.dims[0] + TILE_WIDTH - 1) / TILE_WIDTH;
    /* The loop fails only if the run is cancelled; then cpu_execute() ends before the step that reads the weights. */
    (void)state->host->parallel_for(state->host->ctx, run, call.panels, 1, transform_panels, &call);
    return true;
}
