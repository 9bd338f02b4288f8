/* tile_set.h - register-blocked tiles for channels-last convolutions, and the transforms of Winograd's algorithm. All
 * instruction sets use the same layouts. */
#ifndef CPU_TILE_SET_H
#define CPU_TILE_SET_H
#include "simd/instances.h"
#include "cpu/matrix/sgemm.h"

enum {
    TILE_ROWS = 14,  /* 28 sums, 2 vectors of weights and the input elements fit into 32 registers */
    TILE_WIDTH = 32, /* output channels of a panel of weights */
    TILE_LANES = 16,
    TILE_ALPHA = 6,      /* Winograd: maximum points along an axis */
    TILE_CHANNELS = 4096 /* Winograd: maximum input channels */
};

/* One tile: c[r][j] = bias[j] + add[r][j] + sum over t, k of a[taps[t] + r * a_row + k] * b[t * depth + k][j].
 * Steps count floats. */
typedef struct tile_product {
    const float *a;
    int64_t a_row;
    const int64_t *taps;
    int64_t tap_count, depth;
    int64_t chain;        /* see sgemm_chain */
    const float *b;       /* [tap_count * depth][TILE_WIDTH] */
    const float *ahead;   /* weights to prefetch meanwhile, NULL: none */
    uint32_t ahead_lines; /* cache lines for each k */
    const float *bias;    /* [columns], NULL: none */
    const float *add;     /* NULL: none */
    int64_t add_row;
    float *c;
    int64_t c_row;
    int64_t columns; /* 1 ... TILE_WIDTH */
    /* no other row exists in this product; otherwise the summation order must not depend on the number of rows */
    bool lone;
    bool clamp; /* then clamps the results to [low, high] */
    float low, high;
} tile_product;

/* A Winograd window of results before its inverse transform. */
typedef struct tile_window {
    const float *m; /* [points * points] vectors of channels, step floats apart */
    int64_t step, points, channels;
    const float *bias, *add; /* may be NULL */
    int64_t add_row, add_pixel;
    bool clamp;
    float low, high;
    float *output;
    int64_t y_row, y_pixel, rows, columns; /* rows and columns inside the image, at most points - 2 */
} tile_window;

struct depthwise_block;

typedef struct tile_set {
    /* rows: 1 ... TILE_ROWS */
    void (*multiply)(const tile_product *product, int rows);
    /* Applies the function to c[rows][columns] if this is faster than sgemm_kernel's; false: it is not. */
    bool (*function)(const sgemm_post *post, float *c, int64_t c_row, int64_t rows, int64_t columns);
    void (*depthwise)(const struct depthwise_block *block); /* depthwise.h */
    /* Forward transform. x: pointers to the [points * points] pixels of one window, each `channels` floats; pixels
     * outside the image must point to zeros. v: [points * points] vectors `step` floats apart. points: 4 or 6. */
    void (*window_in)(const float *const *x, int64_t channels, int64_t points, float *v, int64_t step);
    /* Inverse transform with epilogue. */
    void (*window_out)(const tile_window *window);
    /* Transforms the 3x3 filters of `count` (at most TILE_WIDTH) output channels, w[o * step + (0 ... 8) * tap], to
     * points * points vectors of TILE_WIDTH, u_step floats apart; zero beyond count. */
    void (*window_weights)(const char *w, int64_t step, int64_t tap, int64_t count, int64_t points, float *u,
                           int64_t u_step);
} tile_set;

/* tile_set.multiply for even depth, at most 24 columns and at most 2 * chain terms, with AVX-512. */
void tiles_narrow_avx512(const tile_product *product, int rows);

KERNEL_INSTANCES(tile_set, tiles)
#endif
