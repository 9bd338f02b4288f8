/* bytes.h - loops over images of bytes for CPUs with AVX-512 VNNI: channels last, sums of products in int32, which
 * become bytes again while they are in registers.
 *
 * bytes_vnni.c has the loops over vectors, quant_tiles.c and quant_depthwise.c the convolutions made of them. Four
 * bytes of an input that are multiplied together are a quad. The instruction multiplies unsigned by signed bytes:
 * signed inputs are read with their uppermost bit flipped, 128 more than they are. */
#ifndef ONEDNN_BYTES_H
#define ONEDNN_BYTES_H
#include "kernels.h"
#include "quantize.h"

enum {
    BT_LANES = 16,     /* sums of a vector */
    BT_WIDTH = 64,     /* output channels of a panel of weights, four vectors */
    BT_ROWS = 12,      /* pixels of a tile, at most */
    BT_PIXELS = 4,     /* of a block of single channels, at most */
    BT_WINDOW = 32     /* rows of a window of single channels, at most */
};

/* What becomes of a sum: clip(round_half_even(sum * scale) + zero, low, high), all of the result as an unsigned byte,
 * which is stored with the bits of `flip` turned. As ONNX QLinearConv-10, for scales below 1. */
typedef struct byte_ending {
    const int32_t *first; /* that sums begin with, one for each channel */
    const float *scale;   /* likewise */
    int16_t zero;
    uint8_t low, high, flip;
} byte_ending;

/* One tile: y[r][j] = end(first[j] + sum over t, q, i of x[taps[t] + r * x_pixel + 4 q + i] * w[t * quads + q][j][i]).
 * Steps count bytes. */
typedef struct byte_product {
    const uint8_t *x;
    int64_t x_pixel;
    const int64_t *taps;
    int64_t tap_count, quads;
    const int8_t *w;  /* [tap_count * quads][lines * BT_LANES][4] */
    int64_t lines;    /* vectors of output channels, 1 ... 4 */
    uint8_t *y;
    int64_t y_pixel, columns;
    bool flip;        /* x is signed */
    byte_ending ending;
} byte_product;

/* Blocks of single channels: whole ones, and those with so few channels that a vector holds two pixels. */
typedef enum byte_block { BT_WHOLE, BT_HALF, BT_KINDS } byte_block;

/* A few neighbours in a row of the output, of channels that lie together:
 *     y[p][c] = end(first + sum over r, k of x[r][p * stride + k * dilation][c] * weight[c][r][k])
 * Pixels of the input are a table, in which those outside the image point to zero points. Rows of the window come in
 * quads; those behind the last have weights of zero. What is one for each channel lies in blocks of BT_WIDTH sums,
 * [vector][lane]: lane 4 l + i of vector v is channel 16 l + 4 v + i, in halves channel 16 (l % 2) + 4 v + i. */
typedef struct byte_window {
    const uint8_t *const *x[BT_WINDOW];
    int64_t quads, width;
    const int8_t *w;      /* of a block: [quads][width][4][BT_LANES][4] */
    uint8_t *y;
    int64_t y_pixel, stride, dilation;
    int64_t channel;      /* the first, from where the pixels of the input point to */
    int64_t channels;     /* whole blocks one after the other, or those of one half */
    int32_t pixels;       /* 1 ... BT_PIXELS, in halves twice as many */
    byte_block kind;
    bool flip;            /* x is signed */
    byte_ending ending;
} byte_window;

/* y[i] = quantize(clip(f(a[i], b[i]), low, high)) of dequantized bytes, each as ONNX has it. */
typedef struct byte_pair {
    dnnl_alg_kind_t alg; /* dnnl_binary_add, dnnl_binary_mul */
    float scale[2], zero[2], y_scale, y_zero, low, high;
    bool is_signed[2], y_signed;
} byte_pair;

typedef struct byte_set {
    void (*multiply)(const byte_product *p, int rows); /* rows: 1 ... bt_rows(p->lines) */
    void (*window)(const byte_window *w);
    /* y[pixels][4] from up to four channels, `step` bytes apart; those beyond `channels` are anything. */
    void (*interleave)(const uint8_t *x, int64_t step, int64_t channels, int64_t pixels, uint8_t *y);
    /* A pair, for scales of y that quantize_divides(). */
    void (*pair)(const byte_pair *p, uint8_t *y, const uint8_t *a, const uint8_t *b, int64_t n);
} byte_set;

/* Rows that a tile of so many vectors may have. */
static inline int bt_rows(int64_t lines)
{
    return lines <= 2 ? BT_ROWS : lines == 3 ? 8 : 6;
}

/* NULL: this CPU has none. */
const byte_set *bytes_of_cpu(void);
extern const byte_set bytes_vnni;

/* The QLinearConv in hand by loops of our own; *out_done = false, and nothing was emitted: there are none for it. */
inlay_status bytes_lower_conv(rg_build *b, const rg_group *group, bool *out_done);

/* ------------------------------------------------------------------ between the two kinds */

/* A convolution of bytes as it is lowered. */
typedef struct bytes_case {
    kn_window w;
    rg_md weights;        /* as oneDNN numbers the axes of the original, int8 */
    rg_place x;
    uint8_t border;       /* what lies around the image, as it is stored */
    int32_t x_zero;       /* of x as an unsigned byte */
    const rg_group *group;
} bytes_case;

/* What an ending has for one channel. sum: of the weights of its filter. */
inlay_status bytes_end_channel(rg_build *b, const bytes_case *c, int64_t channel, int32_t sum, int32_t *out_first,
                               float *out_scale);
/* The rest of an ending: zero point, bounds, sign. */
void bytes_end(const rg_build *b, const bytes_case *c, byte_ending *out);
/* Single channels (quant_depthwise.c). */
bool bytes_depthwise_runs(const kn_window *w);
inlay_status bytes_lower_depthwise(rg_build *b, const bytes_case *c);
/* Is md a layout of weights that these convolutions read? Then they are made here from an original that lies as `plain`
 * says, sums of filters behind them. */
bool bytes_pack_tiles(const rg_md *plain, const void *source, const rg_md *md, void *target);
bool bytes_pack_depthwise(const rg_md *plain, const void *source, const rg_md *md, void *target);
#endif
