/* depthwise.h - the inner loop of depthwise convolutions, and of others with few channels in a group, in one or two
 * dimensions. */
#ifndef CPU_DEPTHWISE_H
#define CPU_DEPTHWISE_H
#include <stdbool.h>
#include <stdint.h>

enum {
    DEPTHWISE_PIXELS = 8,     /* maximum pixels of a block */
    DEPTHWISE_CHANNELS = 256, /* maximum channels of a block */
    DEPTHWISE_ROWS = 32,      /* maximum height of the kernel */
    DEPTHWISE_REUSED = 7,     /* largest width (3, 5 or 7) for which each pixel is read once */
    DEPTHWISE_LANES = 16      /* channels whose weights are stored together */
};

/* A few neighbouring pixels of an output row, for contiguous channels:
 *
 *     output[p][c] = bias[c] + add[p][c] +
 *               sum over r, k of x[r][p * stride + k * dilation][c] *
 *                                weights[c / 16 * w_step + (r * width + k) * 16 + c % 16]
 *
 * The addresses of input pixels come from a table, so that borders need no copy: pixels outside the image point to
 * `channels` zeros. Steps count floats. With `depth` > 1, each output channel is a sum over the channels of its group:
 * channel c reads channels c / depth * depth + i for i < depth, by weights[(.. + k) * depth * 16 + i * 16 + c % 16]. */
typedef struct depthwise_block {
    const float *const *x[DEPTHWISE_ROWS];
    int64_t rows;  /* rows of the kernel that lie inside the image */
    int64_t width; /* taps of a row */
    int64_t ahead; /* distance from a pixel to a later one that is prefetched, in the last `fetch` rows */
    int64_t fetch;
    /* Two output rows, if depthwise_pairs(): `rows` are those inside the image of the windows of both, from row `top`
     * of the first window on; `weights` begin with row 0 of the kernel. The second row's addresses are y_row and
     * add_row floats further. */
    struct {
        bool active;
        int64_t top, height, y_row, add_row; /* height: rows of the kernel */
    } pair;
    const float *weights;
    int64_t w_step;
    const float *bias; /* NULL: none */
    const float *add;  /* NULL: none */
    int64_t add_step;
    float *output;
    int64_t y_step, channels;
    int64_t stride, dilation;
    int64_t depth;                            /* channels of a group: 1, 2, 4, 8, 16, 32; it divides `channels` */
    const int32_t (*spread)[DEPTHWISE_LANES]; /* depth > 1: element c of line i is c / depth * depth + i */
    int32_t pixels;                           /* 1, 2, 4, 7, 8 */
    bool reused;                              /* each input pixel is read once for all outputs: depthwise_reuses() */
    bool clamp;                               /* then clamps the results to [low, high] */
    float low, high;
} depthwise_block;

/* True if there is a loop that reads each pixel once for this kernel width, stride, dilation and depth. */
static inline bool depthwise_reuses(int64_t width, int64_t stride, int64_t dilation, int64_t depth)
{
    return (width == 3 || (depth == 1 && (width == 5 || width == DEPTHWISE_REUSED))) && (stride == 1 || stride == 2) &&
           dilation == 1;
}
/* True if there is a loop for two output rows, `step` input rows apart, which share rows of pixels in registers. */
static inline bool depthwise_pairs(int64_t height, int64_t width, int64_t step, int64_t stride, int64_t dilation)
{
    return width == 3 && dilation == 1 && step == stride && (stride == 1 || stride == 2) && height >= step &&
           height + step <= DEPTHWISE_ROWS;
}
void depthwise_block_avx512(const depthwise_block *block);
void depthwise_block_avx2(const depthwise_block *block);
void depthwise_block_neon(const depthwise_block *block);
void depthwise_block_rvv(const depthwise_block *block);
void depthwise_block_wasm(const depthwise_block *block);
void depthwise_block_c(const depthwise_block *block);
void depthwise_block_uniform(const depthwise_block *block);
void depthwise_block_uniform_c(const depthwise_block *block);
#endif
