/* depthwise.h - the loop of convolutions whose groups have one channel, in one or two dimensions. */
#ifndef CPU_DEPTHWISE_H
#define CPU_DEPTHWISE_H
#include <stdbool.h>
#include <stdint.h>

enum {
    DEPTHWISE_PIXELS = 8,     /* of a block, at most */
    DEPTHWISE_CHANNELS = 256, /* of a block, at most */
    DEPTHWISE_ROWS = 32,      /* of a window, at most */
    DEPTHWISE_REUSED = 7      /* taps side by side of such whose pixels are read once: 3, 5, or so many */
};

/* A few neighbours in a row of the output, of channels that lie together:
 *     y[p][c] = bias[c] + add[p][c] +
 *               sum over r, k of x[r][p * stride + k * dilation][c] *
 *                                w[c / 16 * w_step + (r * width + k) * 16 + c % 16]
 * Where the pixels of the input lie is a table, so that borders need no copy: those outside the image are `channels`
 * zeros somewhere. Steps count floats. */
typedef struct depthwise_block {
    const float *const *x[DEPTHWISE_ROWS];
    int64_t rows;  /* of the window, those in the image */
    int64_t width; /* taps of a row */
    int64_t ahead; /* from a pixel to one below that is asked for meanwhile, in the last `fetch` rows */
    int64_t fetch;
    const float *weights;
    int64_t w_step;
    const float *bias; /* NULL: none */
    const float *add;  /* NULL: none */
    int64_t add_step;
    float *output;
    int64_t y_step, channels;
    int64_t stride, dilation;
    int32_t pixels; /* 1, 2, 4, 7, 8 */
    bool reused;    /* a pixel of the input is read once for all outputs: depthwise_reuses() */
    bool clamp;     /* then into [low, high] */
    float low, high;
} depthwise_block;

/* Is there a loop that reads each pixel once for windows so wide, whose taps are neighbours, at that distance? */
static inline bool depthwise_reuses(int64_t width, int64_t stride, int64_t dilation)
{
    return (width == 3 || width == 5 || width == DEPTHWISE_REUSED) && (stride == 1 || stride == 2) && dilation == 1;
}
void depthwise_block_avx512(const depthwise_block *block);
void depthwise_block_avx2(const depthwise_block *block);
void depthwise_block_neon(const depthwise_block *block);
void depthwise_block_c(const depthwise_block *block);
#endif
