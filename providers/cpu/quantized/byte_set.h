/* byte_set.h - int8 kernels over channels-last images: sums of products in int32, requantized while they are in
 * registers. The sums are exact: none saturates.
 *
 * With AVX-512 VNNI, AVX-VNNI or dot products of arm64, a lane multiplies four bytes of the input by four of the
 * weights: a quad. Elsewhere, both are widened to 16 bits and multiplied in pairs: weights when they are loaded, the
 * input once for all filters (`widen`). avx2_pairs multiplies quads, too, but adds pairs of products in 16 bits: it is
 * for weights whose pairs add up to -128 to 128, as those of 7 bits do. Weights are signed and inputs unsigned; signed
 * inputs are read with their highest bit flipped, which adds 128. Tiles with `reads_signed` read signed inputs, and
 * flip the others. */
#ifndef CPU_BYTE_SET_H
#define CPU_BYTE_SET_H
#include "cpu/region/families.h"
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    BYTE_LINES = 4,  /* most vectors of sums in a panel of weights */
    BYTE_ROWS = 12,  /* most pixels of a tile */
    BYTE_PIXELS = 4, /* most pixels of a depthwise block; twice as many in a half block */
    BYTE_WINDOW = 32 /* most rows of a depthwise window, rounded up to a multiple of 4 */
};

/* The result of a sum. BYTE_BYTES: clip(round_half_even(sum * scale) + zero, low, high) as an unsigned byte, which is
 * stored XOR `flip`; this is ONNX QLinearConv-10, for scales below 1. BYTE_FLOATS: sum * scale + shift, rounded after
 * each operation. BYTE_SUMS: the sum. */
typedef enum byte_kind { BYTE_BYTES, BYTE_FLOATS, BYTE_SUMS } byte_kind;

typedef struct byte_ending {
    byte_kind kind;
    const int32_t *first; /* [channels] the initial values of sums */
    const float *scale;   /* [channels]; unused by BYTE_SUMS */
    const float *shift;   /* [channels]; BYTE_FLOATS only */
    int16_t zero;
    uint8_t low, high, flip;
} byte_ending;

/* A tile, where each product takes four bytes of input, a quad or a widened pair, and strides count bytes:
 *     output[r][j] = end(first[j] + sum over t, q of input[taps[t] + r * x_pixel + 4 q] * weights[t * steps + q][j]) */
typedef struct byte_product {
    const uint8_t *input;
    int64_t x_pixel;
    const int64_t *taps;
    int64_t tap_count, steps;
    const int8_t *weights; /* [tap_count * steps][lines * lanes][4], or [2] if the input is widened */
    int64_t lines;         /* vectors of output channels, 1 to width / lanes */
    void *output;          /* bytes, floats or int32; y_pixel counts bytes */
    int64_t y_pixel, columns;
    bool flip;           /* the input is signed; for quads only */
    const int8_t *ahead; /* prefetched meanwhile: weights of a later tile; any address is valid */
    int64_t ahead_step;  /* bytes of them per step */
    byte_ending ending;
} byte_product;

/* Blocks of channels of a depthwise convolution: whole ones, and half ones, in which a vector holds two pixels. */
typedef enum byte_block { BYTE_WHOLE, BYTE_HALF, BYTE_KINDS } byte_block;

/* A few neighbouring pixels of an output row, for contiguous channels:
 *     y[p][c] = end(first + sum over r, k of x[r][p * stride + k * dilation][c] * weight[c][r][k])
 * The input is a table of pixels; pixels outside the image point to zero points. Rows of the window are padded to a
 * multiple of 4; padding rows have zero weights. Per-channel arrays are ordered by blocks, within a block by
 * sum_place. */
typedef struct byte_window {
    const uint8_t *const *x[BYTE_WINDOW];
    int64_t height, width; /* rows, columns */
    int64_t quads;         /* fours of rows */
    const int8_t *weights; /* of a block: [quads][width][tap_bytes] */
    uint8_t *output;       /* bytes, floats or int32; y_pixel counts bytes */
    int64_t y_pixel, stride, dilation;
    int64_t channel;  /* offset of the first channel from the pixels' addresses */
    int64_t channels; /* of several whole blocks, or of one half block */
    int32_t pixels;   /* 1 to BYTE_PIXELS, in half blocks to twice as many */
    byte_block kind;
    bool flip; /* the input is signed */
    byte_ending ending;
} byte_window;

/* y[i] = quantize(clip(f(a[i], b[i]), low, high)) of dequantized bytes, where f is the product or the sum; each
 * step is computed as in ONNX. */
typedef struct byte_pair {
    bool product;
    float scale[2], zero[2], y_scale, y_zero, low, high;
    bool is_signed[2], y_signed;
} byte_pair;

typedef struct byte_set {
    int lanes, width;     /* sums of a vector, output channels of a panel of weights */
    int rows[BYTE_LINES]; /* most rows of a tile with 1, 2, ... vectors */
    int block, tap_bytes; /* depthwise: channels of a block; bytes of its weights for four rows of a column */
    bool wide;            /* tiles read widened inputs */
    bool reads_signed;    /* tiles subtract 128 from unsigned inputs, instead of adding it to signed ones */
    bool halves;          /* is BYTE_HALF supported? */
    void (*multiply)(const byte_product *product, int rows); /* rows: 1 to rows[product->lines - 1] */
    /* output[i] = input[i] as 16 bits for i < n, a multiple of 4; may write up to 16 elements after output + n. NULL
     * unless wide. */
    void (*widen)(const uint8_t *input, int64_t n, bool flip, int16_t *output);
    void (*window)(const byte_window *window);
    /* The index of a channel's sum in a block, and of its weight for row 0 to 3 in the tap_bytes of a tap. */
    int (*sum_place)(byte_block kind, int channel);
    int (*tap_place)(byte_block kind, int channel, int row);
    /* Interleaves up to four channels, `step` bytes apart, into output[pixels][4]; missing channels are undefined. */
    void (*interleave)(const uint8_t *input, int64_t step, int64_t channels, int64_t pixels, uint8_t *output);
    /* Computes a byte_pair; requires quantize_divides(pair->y_scale). */
    void (*pair)(const byte_pair *pair, uint8_t *output, const uint8_t *a, const uint8_t *b, int64_t n);
} byte_set;

/* Tiles by AMX, or by plain C with the same results. They read the weights of a byte_set without `wide` and with this
 * many lanes. */
typedef struct byte_tiles {
    int lanes, width, rows; /* as in byte_set; most rows of a tile */
    /* As in byte_set, except that `flip` only means that the input is signed: 128 is not added to it. Reads up to
     * BYTE_PAST bytes past the weights, and ignores them. *shaped: 0 before the first call of a thread; afterwards the
     * rows for which its registers have shapes. */
    void (*multiply)(const byte_product *product, int rows, int *shaped);
    /* After the last call: releases the registers. */
    void (*end)(int *shaped);
} byte_tiles;
/* What tiles add to each byte of an input. */
static inline int32_t byte_offset(const byte_set *set, const byte_tiles *tiles, bool is_signed)
{
    return tiles != NULL ? 0 : set->reads_signed ? (is_signed ? 0 : -128) : (is_signed ? 128 : 0);
}
enum { BYTE_PAST = 4096 };
extern __attribute__((weak)) const byte_tiles byte_tiles_amx; /* only in the plugin cpu */
extern const byte_tiles byte_tiles_avx2, byte_tiles_neon;     /* of plain C, for tests */

/* The kernels for this CPU; NULL: none. */
const byte_tiles *byte_tiles_of_cpu(void);
const byte_set *byte_set_of_cpu(void);
/* Faster functions for weights whose pairs add up to -128 to 128; NULL: none. */
const byte_set *byte_set_of_pairs(void);
extern const byte_set byte_set_avx512_vnni, byte_set_avx_vnni, byte_set_avx2, byte_set_avx2_pairs, byte_set_neon,
    byte_set_wasm;
/* Only in the plugin cpu: uniform_c where there is no better one. */
extern __attribute__((weak)) const byte_set byte_set_neon_i8mm, byte_set_neon_dot, byte_set_uniform_c;
#endif
