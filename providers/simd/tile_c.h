/* tile_c.h - tiles (tile.h) in memory, as Intel's manual defines the instructions of AMX. */
#ifndef SIMD_TILE_C_H
#define SIMD_TILE_C_H
#include "inlay/check.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TILE_STAYS 0
typedef struct tile_file {
    tile_shapes shapes;
    _Alignas(64) uint8_t data[TILE_REGISTERS][TILE_ROWS][TILE_BYTES];
} tile_file;

static inline void tile_begin(tile_file *s, const tile_shapes *shapes)
{
    s->shapes = *shapes;
    memset(s->data, 0, sizeof s->data);
}

static inline void tile_end(tile_file *s)
{
    s->shapes.palette = 0;
}

static inline void tile_zero(tile_file *s, int t)
{
    INLAY_CHECK(s->shapes.palette == 1);
    memset(s->data[t], 0, sizeof s->data[t]);
}

static inline void tile_load(tile_file *s, int t, const void *p, ptrdiff_t step)
{
    tile_zero(s, t);
    for (int row = 0; row < s->shapes.rows[t]; row++)
        memcpy(s->data[t][row], (const char *)p + row * step, s->shapes.bytes[t]);
}

#define tile_load_once(s, t, p, step) tile_load(s, t, p, step)

static inline void tile_store(const tile_file *s, int t, void *p, ptrdiff_t step)
{
    INLAY_CHECK(s->shapes.palette == 1);
    for (int row = 0; row < s->shapes.rows[t]; row++)
        memcpy((char *)p + row * step, s->data[t][row], s->shapes.bytes[t]);
}

static inline void tile_check_shapes(const tile_file *s, int c, int a, int b)
{
    INLAY_CHECK(s->shapes.palette == 1 && s->shapes.rows[c] == s->shapes.rows[a] &&
                s->shapes.bytes[c] == s->shapes.bytes[b] && s->shapes.bytes[a] == 4 * s->shapes.rows[b]);
    (void)s;
    (void)c;
    (void)a;
    (void)b;
}

static inline void tile_dot(tile_file *s, int c, int a, int b, bool a_signed, bool b_signed)
{
    tile_check_shapes(s, c, a, b);
    for (int m = 0; m < s->shapes.rows[c]; m++)
        for (int n = 0; n < s->shapes.bytes[c] / 4; n++) {
            uint32_t sum;

            memcpy(&sum, s->data[c][m] + 4 * n, sizeof sum);
            for (int k = 0; k < s->shapes.bytes[a]; k++) {
                const uint8_t x = s->data[a][m][k], y = s->data[b][k / 4][4 * n + k % 4];

                sum += (uint32_t)((a_signed ? (int8_t)x : x) * (b_signed ? (int8_t)y : y));
            }
            memcpy(s->data[c][m] + 4 * n, &sum, sizeof sum);
        }
}
#define tile_dot_uu(s, c, a, b) tile_dot(s, c, a, b, false, false)
#define tile_dot_us(s, c, a, b) tile_dot(s, c, a, b, false, true)
#define tile_dot_su(s, c, a, b) tile_dot(s, c, a, b, true, false)
#define tile_dot_ss(s, c, a, b) tile_dot(s, c, a, b, true, true)

/* 0 of the same sign for subnormal numbers. */
static inline float tile_flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static inline double tile_bf16(const uint8_t *p)
{
    uint16_t half;
    uint32_t bits;
    float x;

    memcpy(&half, p, sizeof half);
    bits = (uint32_t)half << 16;
    memcpy(&x, &bits, sizeof x);
    return tile_flushed(x);
}

/* Operands become doubles once for each row and column. There the product of two bfloat16 is exact, and a sum that is
 * rounded to double and then to float equals the sum that is rounded once: a double has more than twice the digits. */
static inline void tile_dot_bf16(tile_file *s, int c, int a, int b)
{
    enum { MOST = TILE_BYTES / 2 };
    const int count = s->shapes.bytes[a] / 2, columns = s->shapes.bytes[c] / 4;
    double x[MOST], y[TILE_BYTES / 4][MOST];

    tile_check_shapes(s, c, a, b);
    for (int k = 0; k < count; k++)
        for (int n = 0; n < columns; n++)
            y[n][k] = tile_bf16(s->data[b][k / 2] + 4 * n + 2 * (k % 2));
    for (int m = 0; m < s->shapes.rows[c]; m++) {
        for (int k = 0; k < count; k++)
            x[k] = tile_bf16(s->data[a][m] + 2 * k);
        for (int n = 0; n < columns; n++) {
            float even = 0, odd = 0, sum;

            for (int k = 0; k < count; k += 2) {
                even = tile_flushed((float)(x[k] * y[n][k] + (double)even));
                odd = tile_flushed((float)(x[k + 1] * y[n][k + 1] + (double)odd));
            }
            memcpy(&sum, s->data[c][m] + 4 * n, sizeof sum);
            sum = tile_flushed(tile_flushed(sum) + tile_flushed(even + odd));
            memcpy(s->data[c][m] + 4 * n, &sum, sizeof sum);
        }
    }
}
#endif
