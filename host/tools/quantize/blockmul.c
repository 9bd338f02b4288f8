#include "quantize/blockmul.h"
#include "quantize/levels.h"
#include <string.h>

enum { WIDE = 16, TALL = 8 }; /* of the tile that stays in registers */
typedef float lanes __attribute__((vector_size(WIDE * sizeof(float))));

/* A whole tile; what it reads of a and b goes on by whole rows. */
static inline __attribute__((always_inline)) void add_tile(const blockmul *m, int64_t i, int64_t j)
{
    const float *a = m->a + i * m->a_row, *b = m->b + j;
    lanes sums[TALL] = { { 0 } };

    for (int64_t k = 0; k < m->depth; k++) {
        lanes row;

        memcpy(&row, b + k * m->b_row, sizeof row);
#pragma GCC unroll 8
        for (int t = 0; t < TALL; t++)
            sums[t] += row * a[t * m->a_row + k * m->a_step];
    }
#pragma GCC unroll 8
    for (int t = 0; t < TALL; t++) {
        float *c = m->c + (i + t) * m->c_row + j;
        lanes sum;

        memcpy(&sum, c, sizeof sum);
        sum += sums[t] * m->factor;
        memcpy(c, &sum, sizeof sum);
    }
}

/* What no tile covers. */
static inline __attribute__((always_inline)) void add_rest(const blockmul *m, int64_t i, int64_t from, int64_t to)
{
    float *c = m->c + i * m->c_row;

    for (int64_t k = 0; k < m->depth; k++) {
        const float x = m->factor * m->a[i * m->a_row + k * m->a_step], *row = m->b + k * m->b_row;

        for (int64_t j = from; j < to; j++)
            c[j] += x * row[j];
    }
}

LEVELS_BODY blockmul_add_loops(const blockmul *m)
{
    const int64_t whole = m->columns / WIDE * WIDE, tall = m->rows / TALL * TALL;

    for (int64_t j = 0; j < whole; j += WIDE)
        for (int64_t i = 0; i < tall; i += TALL)
            add_tile(m, i, j);
    for (int64_t i = 0; i < tall && whole < m->columns; i++)
        add_rest(m, i, whole, m->columns);
    for (int64_t i = tall; i < m->rows; i++)
        add_rest(m, i, 0, m->columns);
}

LEVELS(, blockmul_add, (const blockmul *m), (m))
