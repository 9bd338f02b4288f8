/* byte_set.h - loops over images of bytes, channels last: sums of products in int32, which become bytes again while
 * they are in registers. All of it is exact: no sum saturates.
 *
 * Four bytes of the input meet four of the weights in a lane, where the CPU multiplies so (AVX-512 VNNI, AVX-VNNI): a
 * quad. Elsewhere both are widened to 16 bits and meet in pairs: weights when they are read, the input once for all
 * filters (`widen`). Weights of 8 bits are signed, inputs unsigned: signed inputs are read with their uppermost bit
 * flipped, 128 more than they are. */
#ifndef CPU_BYTE_SET_H
#define CPU_BYTE_SET_H
#include "region/families.h"
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    BYTE_LINES = 4,  /* vectors of sums in a panel of weights, at most */
    BYTE_ROWS = 12,  /* pixels of a tile, at most */
    BYTE_PIXELS = 4, /* of a block of single channels, at most */
    BYTE_WINDOW = 32 /* rows of a window of single channels, at most */
};

/* What becomes of a sum: clip(round_half_even(sum * scale) + zero, low, high), all of the result as an unsigned byte,
 * which is stored with the bits of `flip` turned. As ONNX QLinearConv-10, for scales below 1. Or else a float, sum *
 * scale
 * + shift, each rounded as if it were alone; or the sum itself. */
typedef enum byte_kind { BYTE_BYTES, BYTE_FLOATS, BYTE_SUMS } byte_kind;

typedef struct byte_ending {
    byte_kind kind;
    const int32_t *first; /* that sums begin with, one for each channel */
    const float *scale;   /* likewise; unused by BYTE_SUMS */
    const float *shift;   /* likewise, of BYTE_FLOATS */
    int16_t zero;
    uint8_t low, high, flip;
} byte_ending;

/* One tile: y[r][j] = end(first[j] + sum over t, q of the products of x[taps[t] + r * x_pixel + 4 q] with
 * w[t * steps + q][j]): four bytes of x each, a quad or a widened pair. Steps of addresses count bytes. */
typedef struct byte_product {
    const uint8_t *input;
    int64_t x_pixel;
    const int64_t *taps;
    int64_t tap_count, steps;
    const int8_t *weights; /* [tap_count * steps][lines * lanes][4], where x is widened [2] */
    int64_t lines;         /* vectors of output channels, 1 ... width / lanes */
    void *output;          /* bytes, floats or int32; y_pixel counts bytes */
    int64_t y_pixel, columns;
    bool flip;           /* x is signed; of quads alone */
    const int8_t *ahead; /* fetched meanwhile, so many bytes a step: weights of a later tile; any address will do */
    int64_t ahead_step;
    byte_ending ending;
} byte_product;

/* Blocks of single channels: whole ones, and those with so few channels that a vector holds two pixels. */
typedef enum byte_block { BYTE_WHOLE, BYTE_HALF, BYTE_KINDS } byte_block;

/* A few neighbours in a row of the output, of channels that lie together:
 *     y[p][c] = end(first + sum over r, k of x[r][p * stride + k * dilation][c] * weight[c][r][k])
 * Pixels of the input are a table, in which those outside the image point to zero points. Rows of the window come in
 * fours; those behind the last have weights of zero. What is one for each channel lies in blocks, at window_place. */
typedef struct byte_window {
    const uint8_t *const *x[BYTE_WINDOW];
    int64_t height, width; /* rows, columns */
    int64_t quads;         /* fours of rows */
    const int8_t *weights; /* of a block: [quads][width][tap_bytes] */
    uint8_t *output;       /* bytes, floats or int32; y_pixel counts bytes */
    int64_t y_pixel, stride, dilation;
    int64_t channel;  /* the first, from where the pixels of the input point to */
    int64_t channels; /* whole blocks one after the other, or those of one half */
    int32_t pixels;   /* 1 ... BYTE_PIXELS, in halves twice as many */
    byte_block kind;
    bool flip; /* x is signed */
    byte_ending ending;
} byte_window;

/* y[i] = quantize(clip(f(a[i], b[i]), low, high)) of dequantized bytes, f their product or sum, each as ONNX has it. */
typedef struct byte_pair {
    bool product;
    float scale[2], zero[2], y_scale, y_zero, low, high;
    bool is_signed[2], y_signed;
} byte_pair;

typedef struct byte_set {
    int lanes, width;     /* sums of a vector, output channels of a panel of weights */
    int rows[BYTE_LINES]; /* that a tile of 1, 2, ... vectors may have */
    int block, tap_bytes; /* single channels: channels of a block, bytes of the weights of four rows of a column */
    bool wide;            /* tiles read widened inputs */
    bool halves;          /* is there BYTE_HALF? */
    void (*multiply)(const byte_product *product, int rows); /* rows: 1 ... rows[p->lines - 1] */
    /* output[0 ... n) = input[0 ... n) as 16 bits, n a multiple of 4; up to 16 behind output + n may be written to.
     * NULL unless wide.
     */
    void (*widen)(const uint8_t *input, int64_t n, bool flip, int16_t *output);
    void (*window)(const byte_window *w);
    /* Where in a block the sum of a channel lies, and which element of a tap's weights is that of row 0 ... 3. */
    int (*sum_place)(byte_block kind, int channel);
    int (*tap_place)(byte_block kind, int channel, int row);
    /* output[pixels][4] from up to four channels, `step` bytes apart; those beyond `channels` are anything. */
    void (*interleave)(const uint8_t *input, int64_t step, int64_t channels, int64_t pixels, uint8_t *output);
    /* A pair, for scales of output that quantize_divides(). */
    void (*pair)(const byte_pair *p, uint8_t *output, const uint8_t *a, const uint8_t *b, int64_t n);
} byte_set;

/* NULL: there is none for this CPU. */
const byte_set *byte_set_of_cpu(void);
extern const byte_set byte_set_avx512_vnni, byte_set_avx_vnni, byte_set_avx2, byte_set_neon;
#endif
