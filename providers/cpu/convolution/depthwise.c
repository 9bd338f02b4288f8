/* Blocks of depthwise convolutions, see depthwise.h. */
#include "cpu/convolution/depthwise.h"
#include "inlay/check.h"
#include "simd/vec_permute.h"

/* How a vector of output channels reads the channel i of each group: from its own lanes (groups of one channel), from a
 * lane of its group, or, if all lanes are of one group, from one float. */
enum reading { OWN, SPREAD, SINGLE };

#define LOAD(p) (full ? vec_load(p) : vec_load_some(mask, p))

/* Initializes the sums with bias and added operand; `end` clamps and stores them. */
VEC_INLINE void begin(const int pixels, const depthwise_block *block, int64_t c, const bool full, const vmask mask,
                      vec *sum)
{
    const vec first = block->bias != NULL ? LOAD(block->bias + c) : vec_zero();

    VEC_UNROLL
    for (int pixel = 0; pixel < pixels; pixel++)
        sum[pixel] = first;
    if (block->add != NULL) {
        VEC_UNROLL
        for (int pixel = 0; pixel < pixels; pixel++)
            sum[pixel] = vec_add(first, LOAD(block->add + pixel * block->add_step + c));
    }
}

VEC_INLINE void end(const int pixels, const depthwise_block *block, int64_t c, const bool full, const vmask mask,
                    vec *sum)
{
    const vec low = vec_set(block->low), high = vec_set(block->high);

    if (block->clamp) {
        VEC_UNROLL
        for (int pixel = 0; pixel < pixels; pixel++) /* this order of min and max keeps NaN */
            sum[pixel] = vec_min(high, vec_max(low, sum[pixel]));
    }
    VEC_UNROLL
    for (int pixel = 0; pixel < pixels; pixel++)
        if (full)
            vec_store(block->output + pixel * block->y_step + c, sum[pixel]);
        else
            vec_store_some(block->output + pixel * block->y_step + c, mask, sum[pixel]);
}

/* Weights of the channels from c on. */
VEC_INLINE const float *weights_of(const depthwise_block *block, int64_t c)
{
    return block->weights + c / DEPTHWISE_LANES * block->w_step + c % DEPTHWISE_LANES;
}

#define READ(p, i)                                                                                                     \
    (reading == OWN      ? LOAD((p) + c)                                                                               \
     : reading == SPREAD ? vec_permute(LOAD((p) + c), block->spread[i])                                                \
                         : vec_set((p)[c - c % block->depth + (i)]))

/* Prefetches a later row. Not in the loops over columns: where all data is in the caches, even a branch that skips it
 * there takes a tenth of the time. */
VEC_INLINE void fetch_row(const depthwise_block *block, const float *const *x, int columns, int64_t c)
{
    VEC_UNROLL
    for (int column = 0; column < columns; column++)
        vec_fetch_near(x[column] + c + block->ahead);
}

/* Each input pixel of a row is read once for each channel of the group, and added to all sums that it contributes
 * to. */
VEC_INLINE void reused(const enum reading reading, const int width, const int stride, const int pixels,
                       const depthwise_block *block, int64_t c, const bool full)
{
    const vmask mask = vec_first(block->channels - c);
    const int64_t depth = reading == OWN ? 1 : block->depth;
    const float *weights = weights_of(block, c);
    vec sum[DEPTHWISE_PIXELS];

    begin(pixels, block, c, full, mask, sum);
    for (int64_t row = 0; row < block->rows; row++) {
        const float *const *x = block->x[row];

        if (row >= block->rows - block->fetch)
            fetch_row(block, x, (pixels - 1) * stride + width, c);
        for (int64_t i = 0; i < depth; i++, weights += DEPTHWISE_LANES) {
            vec tap[DEPTHWISE_REUSED];

            VEC_UNROLL
            for (int k = 0; k < width; k++)
                tap[k] = vec_load(weights + k * depth * DEPTHWISE_LANES);
            VEC_UNROLL
            for (int column = 0; column < (pixels - 1) * stride + width; column++) {
                const vec value = READ(x[column], i);

                VEC_UNROLL
                for (int k = 0; k < width; k++)
                    if (column >= k && (column - k) % stride == 0 && (column - k) / stride < pixels)
                        sum[(column - k) / stride] = vec_fma(value, tap[k], sum[(column - k) / stride]);
            }
        }
        weights += (width - 1) * depth * DEPTHWISE_LANES;
    }
    end(pixels, block, c, full, mask, sum);
}

/* Adds a row of pixels to the sums of the output rows that it contributes to: the first, by `weights`, and the second,
 * by the weights `stride` rows before. */
VEC_INLINE void add_to_rows(const enum reading reading, const bool first, const bool second, const int width,
                            const int stride, const int pixels, const depthwise_block *block, const float *const *x,
                            const float *weights, int64_t c, const bool full, const vmask mask,
                            vec sum[2][DEPTHWISE_PIXELS])
{
    const int64_t depth = reading == OWN ? 1 : block->depth, step = depth * DEPTHWISE_LANES;

    for (int64_t i = 0; i < depth; i++, weights += DEPTHWISE_LANES) {
        vec upper[DEPTHWISE_REUSED], lower[DEPTHWISE_REUSED];

        VEC_UNROLL
        for (int k = 0; k < width; k++) {
            upper[k] = first ? vec_load(weights + k * step) : vec_zero();
            lower[k] = second ? vec_load(weights + (k - stride * width) * step) : vec_zero();
        }
        VEC_UNROLL
        for (int column = 0; column < (pixels - 1) * stride + width; column++) {
            const vec value = READ(x[column], i);

            VEC_UNROLL
            for (int k = 0; k < width; k++)
                if (column >= k && (column - k) % stride == 0 && (column - k) / stride < pixels) {
                    const int pixel = (column - k) / stride;

                    sum[0][pixel] = first ? vec_fma(value, upper[k], sum[0][pixel]) : sum[0][pixel];
                    sum[1][pixel] = second ? vec_fma(value, lower[k], sum[1][pixel]) : sum[1][pixel];
                }
        }
    }
}

/* Two output rows: each input row is read once for both. */
VEC_INLINE void row_pair(const enum reading reading, const int width, const int stride, const int pixels,
                         const depthwise_block *block, int64_t c, const bool full)
{
    const vmask mask = vec_first(block->channels - c);
    const int64_t depth = reading == OWN ? 1 : block->depth, line = width * depth * DEPTHWISE_LANES;
    const float *weights = weights_of(block, c) + block->pair.top * line;
    depthwise_block below = *block;
    vec sum[2][DEPTHWISE_PIXELS];

    below.output += block->pair.y_row;
    below.add += block->add != NULL ? block->pair.add_row : 0;
    begin(pixels, block, c, full, mask, sum[0]);
    begin(pixels, &below, c, full, mask, sum[1]);
    for (int64_t r = 0; r < block->rows; r++, weights += line) {
        const int64_t row = block->pair.top + r;
        const float *const *x = block->x[r];

        if (r >= block->rows - block->fetch)
            fetch_row(block, x, (pixels - 1) * stride + width, c);
        if (row < stride)
            add_to_rows(reading, true, false, width, stride, pixels, block, x, weights, c, full, mask, sum);
        else if (row < block->pair.height)
            add_to_rows(reading, true, true, width, stride, pixels, block, x, weights, c, full, mask, sum);
        else
            add_to_rows(reading, false, true, width, stride, pixels, block, x, weights, c, full, mask, sum);
    }
    end(pixels, block, c, full, mask, sum[0]);
    end(pixels, &below, c, full, mask, sum[1]);
}

/* Computes a block for any kernel size. */
VEC_INLINE void any_width(const enum reading reading, const int pixels, const depthwise_block *block, int64_t c,
                          const bool full)
{
    const int64_t stride = block->stride, depth = reading == OWN ? 1 : block->depth;
    const vmask mask = vec_first(block->channels - c);
    const float *weights = weights_of(block, c);
    vec sum[DEPTHWISE_PIXELS];

    begin(pixels, block, c, full, mask, sum);
    for (int64_t row = 0; row < block->rows; row++) {
        const float *const *x = block->x[row];

        for (int64_t column = 0; column < block->width; column++, x += block->dilation) {
            for (int64_t i = 0; i < depth; i++, weights += DEPTHWISE_LANES) {
                const vec tap = vec_load(weights);

                VEC_UNROLL
                for (int pixel = 0; pixel < pixels; pixel++)
                    sum[pixel] = vec_fma(READ(x[pixel * stride], i), tap, sum[pixel]);
            }
        }
    }
    end(pixels, block, c, full, mask, sum);
}

enum rows { ONE_ROW, TWO_ROWS };

VEC_INLINE void vector(const enum rows rows, const enum reading reading, const int width, const int stride,
                       const int pixels, const depthwise_block *block, int64_t c, const bool full)
{
    if (rows == TWO_ROWS)
        row_pair(reading, width, stride, pixels, block, c, full);
    else if (width != 0)
        reused(reading, width, stride, pixels, block, c, full);
    else
        any_width(reading, pixels, block, c, full);
}

/* width 0: any kernel size. Full vectors first, then the last one. Loops without masks take up to a fifth less time,
 * but twice the code, so only those of groups of one channel, and of two rows, have both. */
VEC_INLINE void channels(const enum rows rows, const enum reading reading, const int width, const int stride,
                         const int pixels, const depthwise_block *block)
{
    const bool both = !VEC_HAS_MASKS || (width != 0 && (reading == OWN || (reading == SPREAD && rows == TWO_ROWS)));
    int64_t c = 0;

    for (; both && c + VEC_LANES <= block->channels; c += VEC_LANES)
        vector(rows, reading, width, stride, pixels, block, c, true);
    for (; c < block->channels; c += VEC_LANES)
        vector(rows, reading, width, stride, pixels, block, c, false);
}

#define SIZES(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(4, __VA_ARGS__) X(7, __VA_ARGS__) X(8, __VA_ARGS__)
/* Loops that read each pixel once: depthwise_reuses(). */
#define WINDOWS(X)                                                                                                     \
    X(OWN, 3, 1)                                                                                                       \
    X(OWN, 3, 2)                                                                                                       \
    X(OWN, 5, 1)                                                                                                       \
    X(OWN, 5, 2)                                                                                                       \
    X(OWN, 7, 1)                                                                                                       \
    X(OWN, 7, 2)                                                                                                       \
    X(SPREAD, 3, 1)                                                                                                    \
    X(SPREAD, 3, 2)                                                                                                    \
    X(SINGLE, 3, 1)                                                                                                    \
    X(SINGLE, 3, 2)
#define PLAIN(X) X(OWN, 0, 0) X(SPREAD, 0, 0) X(SINGLE, 0, 0)
#define CELL(pixels, reading, width, stride)                                                                           \
    KERNEL_PART(void, depthwise_##reading##_##width##_##stride##_##pixels, const depthwise_block *b)                   \
    {                                                                                                                  \
        channels(ONE_ROW, reading, width, stride, pixels, b);                                                          \
    }
#define CELLS(reading, width, stride) SIZES(CELL, reading, width, stride)
WINDOWS(CELLS)
PLAIN(CELLS)
#undef CELL
#undef CELLS

#if defined(KERNEL_IS_avx512) || defined(KERNEL_IS_neon) /* 32 registers hold the sums of two rows */
#define PAIRS(X) X(OWN, 1) X(OWN, 2) X(SPREAD, 1) X(SPREAD, 2) X(SINGLE, 1) X(SINGLE, 2)
#define CELL(pixels, reading, stride)                                                                                  \
    KERNEL_PART(void, depthwise_pair_##reading##_##stride##_##pixels, const depthwise_block *b)                        \
    {                                                                                                                  \
        channels(TWO_ROWS, reading, 3, stride, pixels, b);                                                             \
    }
#define CELLS(reading, stride) SIZES(CELL, reading, stride)
PAIRS(CELLS)
#undef CELL
#undef CELLS
#else
/* Computes one row of a pair. */
static void row_of_pair(const depthwise_block *both, bool second)
{
    const int64_t shift = second ? both->stride : 0, from = both->pair.top > shift ? both->pair.top : shift,
                  past = both->pair.top + both->rows < shift + both->pair.height ? both->pair.top + both->rows
                                                                                 : shift + both->pair.height;
    depthwise_block row = *both;

    row.pair.active = false;
    row.rows = past > from ? past - from : 0;
    row.fetch = both->fetch / 2;
    row.weights += (from - shift) * both->width * both->depth * DEPTHWISE_LANES;
    for (int64_t r = 0; r < row.rows; r++)
        row.x[r] = both->x[from - both->pair.top + r];
    row.output += second ? both->pair.y_row : 0;
    row.add += second && both->add != NULL ? both->pair.add_row : 0;
    KERNEL(depthwise_block)(&row);
}
#endif

void KERNEL(depthwise_block)(const depthwise_block *b)
{
#define CELL(pixels, reading, width, stride)                                                                           \
    [pixels] = KERNEL_PART_OF(depthwise_##reading##_##width##_##stride##_##pixels),
    static void (*const of_reused[SINGLE + 1][DEPTHWISE_REUSED / 2][2][DEPTHWISE_PIXELS + 1])(
        const depthwise_block *) = {
#define CELLS(reading, width, stride) [reading][(width) / 2 - 1][(stride)-1] = { SIZES(CELL, reading, width, stride) },
        WINDOWS(CELLS)
#undef CELLS
    };
    static void (*const of_plain[SINGLE + 1][DEPTHWISE_PIXELS + 1])(const depthwise_block *) = {
#define CELLS(reading, width, stride) [reading] = { SIZES(CELL, reading, width, stride) },
        PLAIN(CELLS)
#undef CELLS
#undef CELL
    };
    const enum reading reading = b->depth == 1 ? OWN : b->depth < VEC_LANES ? SPREAD : SINGLE;

    INLAY_CHECK(b->rows >= 0 && b->rows <= DEPTHWISE_ROWS && b->pixels > 0 && b->pixels <= DEPTHWISE_PIXELS);
#ifdef PAIRS
    static void (*const of_pairs[SINGLE + 1][2][DEPTHWISE_PIXELS + 1])(const depthwise_block *) = {
#define CELL(pixels, reading, stride) [pixels] = KERNEL_PART_OF(depthwise_pair_##reading##_##stride##_##pixels),
#define CELLS(reading, stride) [reading][(stride)-1] = { SIZES(CELL, reading, stride) },
        PAIRS(CELLS)
#undef CELLS
#undef CELL
    };

    if (b->pair.active) {
        of_pairs[reading][b->stride - 1][b->pixels](b);
        return;
    }
#else
    if (b->pair.active) {
        row_of_pair(b, false);
        row_of_pair(b, true);
        return;
    }
#endif
    INLAY_CHECK(b->depth >= 1 && b->channels % b->depth == 0);
    INLAY_CHECK(DEPTHWISE_LANES % b->depth == 0 || b->depth % DEPTHWISE_LANES == 0);
    (b->reused ? of_reused[reading][b->width / 2 - 1][b->stride - 1] : of_plain[reading])[b->pixels](b);
}
