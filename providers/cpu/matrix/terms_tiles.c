/* Terms of floats and their products by tiles, see terms.h. */
#include "cpu/matrix/terms.h"
#include "inlay/check.h"
#include "simd/tile.h"
#include "simd/vec.h"

enum { HALF = TERMS_DEPTH / 2, WORD_ROWS = 16 };

/* The upper `terms` terms of twice HALF elements, each as a row of a tile: word i has element i of both. A term is the
 * rest of its predecessors, rounded to the upper 16 bits. */
static inline void split_row(const float *first, const float *second, int terms, uint32_t *high, uint32_t *low)
{
    uint32_t *const outs[TERMS] = { high, high + TERMS_TILE, low };
    float rest[TERMS_DEPTH];

    memcpy(rest, first, HALF * sizeof *rest);
    memcpy(rest + HALF, second, HALF * sizeof *rest);
    for (int term = 0; term < terms; term++) {
        uint32_t bits[TERMS_DEPTH], *out = outs[term];
        float rounded[TERMS_DEPTH];

        memcpy(bits, rest, sizeof bits);
#pragma omp simd
        for (int i = 0; i < TERMS_DEPTH; i++)
            bits[i] = (bits[i] + 0x8000) & 0xffff0000;
        memcpy(rounded, bits, sizeof rounded);
#pragma omp simd
        for (int i = 0; i < HALF; i++)
            out[i] = bits[i] >> 16 | bits[i + HALF];
#pragma omp simd
        for (int i = 0; i < TERMS_DEPTH; i++)
            rest[i] -= rounded[i];
    }
}

/* `count` elements of a row; a tile takes 32 of them; if there are fewer, a copy that is padded with 0. */
static inline const float *whole_row(const float *row, int64_t count, float copy[TERMS_DEPTH])
{
    if (count >= TERMS_DEPTH)
        return row;
    memset(copy, 0, TERMS_DEPTH * sizeof *copy);
    if (count > 0)
        memcpy(copy, row, (size_t)count * sizeof *copy);
    return copy;
}

/* Inlined, so that the number of terms is a constant. */
static inline __attribute__((always_inline)) void split_rows(const float *a, int64_t a_row, int64_t rows, int64_t k,
                                                             int terms, uint32_t *out)
{
    const int64_t steps = (k + TERMS_DEPTH - 1) / TERMS_DEPTH;
    float copy[TERMS_DEPTH];

    INLAY_CHECK(rows > 0 && rows <= TERMS_ROWS);
    for (int64_t r = 0; r < TERMS_ROWS; r++) {
        uint32_t *high = out + r / WORD_ROWS * 2 * TERMS_TILE + r % WORD_ROWS * HALF,
                 *low = out + steps * TERMS_HIGH + r / WORD_ROWS * TERMS_TILE + r % WORD_ROWS * HALF;

        for (int64_t i = 0; i < k; i += TERMS_DEPTH, high += TERMS_HIGH, low += TERMS_LOW) {
            const float *row = whole_row(a + r * a_row + i, r < rows ? k - i : 0, copy);

            split_row(row, row + HALF, terms, high, low);
        }
    }
}

static void split(const float *a, int64_t a_row, int64_t rows, int64_t k, int terms, uint32_t *out)
{
    if (terms == TERMS)
        split_rows(a, a_row, rows, k, TERMS, out);
    else if (terms == 2)
        split_rows(a, a_row, rows, k, 2, out);
    else
        split_rows(a, a_row, rows, k, 1, out);
}

static void split_panel(const float *b, int64_t b_row, int64_t k, int64_t columns, uint32_t *out,
                        uint32_t top[TERMS_WIDTH])
{
    uint32_t *low = out + (k + TERMS_DEPTH - 1) / TERMS_DEPTH * TERMS_HIGH;
    float copies[2][TERMS_WIDTH];

    INLAY_CHECK(columns > 0 && columns <= TERMS_WIDTH);
    memset(top, 0, TERMS_WIDTH * sizeof *top);
    for (int64_t i = 0; i < k; i += TERMS_DEPTH, out += TERMS_HIGH, low += TERMS_LOW)
        for (int64_t r = i; r < i + HALF; r++) {
            const float *first = whole_row(b + r * b_row, r < k ? columns : 0, copies[0]),
                        *second = whole_row(b + (r + HALF) * b_row, r + HALF < k ? columns : 0, copies[1]);
            const int64_t at = (r - i) * WORD_ROWS;
            uint32_t bits[2][TERMS_WIDTH];

            for (int half = 0; half < 2; half++)
                split_row(first + half * HALF, second + half * HALF, TERMS, out + half * 2 * TERMS_TILE + at,
                          low + half * TERMS_TILE + at);
            memcpy(bits[0], first, sizeof bits[0]);
            memcpy(bits[1], second, sizeof bits[1]);
#pragma omp simd
            for (int j = 0; j < TERMS_WIDTH; j++) {
                const uint32_t x = bits[0][j] & INT32_MAX, y = bits[1][j] & INT32_MAX, most = x > y ? x : y;

                top[j] = most > top[j] ? most : top[j];
            }
        }
}

static terms_size measure(const float *input, int64_t n)
{
    uint32_t most = 0, any = 0;
    float sum = 0, squares = 0;

#pragma omp simd reduction(max : most) reduction(| : any) reduction(+ : sum, squares)
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        float size;

        memcpy(&bits, &input[i], sizeof bits);
        any |= bits;
        bits &= 0x7fffffff;
        memcpy(&size, &bits, sizeof size);
        most = bits > most ? bits : most;
        sum += size;
        squares += size * size;
    }
    return (terms_size){ most, any, sum, squares };
}

/* Registers: four of sums, two of A, two of B. */
#define LOAD_A(p, step)                                                                                                \
    tile_load(&s, 4, p, TILE_BYTES);                                                                                   \
    tile_load(&s, 5, (p) + (step), TILE_BYTES)
#define LOAD_B(p, step)                                                                                                \
    tile_load(&s, 6, p, TILE_BYTES);                                                                                   \
    tile_load(&s, 7, (p) + (step), TILE_BYTES)
#define MULTIPLY                                                                                                       \
    tile_dot_bf16(&s, 0, 4, 6);                                                                                        \
    tile_dot_bf16(&s, 1, 4, 7);                                                                                        \
    tile_dot_bf16(&s, 2, 5, 6);                                                                                        \
    tile_dot_bf16(&s, 3, 5, 7)
enum { NEXT = 2 * TERMS_TILE, NEXT_LOW = TERMS_TILE }; /* from one tile of a term of A to the other, and of B_LOW */

/* The largest of six products is added last, so that the others are not rounded to it. The order does not depend on
 * which terms are 0. */
static void multiply(const terms_block *block)
{
    const ptrdiff_t c_step = block->c_row * (ptrdiff_t)sizeof *block->c;
    const int64_t next = block->b_next;
    const int a_terms = block->three && block->a_terms == TERMS ? TERMS - 1 : block->a_terms, b_terms = block->b_terms;
    tile_shapes shapes = { 0 };
    tile_file s;

    for (int t = 0; t < TILE_REGISTERS; t++)
        tile_shape(&shapes, t, TILE_ROWS, TILE_BYTES);
    tile_begin(&s, &shapes);
    for (int64_t strip = 0; strip < block->strips; strip++) {
        float *c = block->c + strip * TERMS_ROWS * block->c_row, *below = c + TILE_ROWS * block->c_row;
        const uint32_t *a = block->a + strip * block->steps * (TERMS_HIGH + TERMS_LOW), *b = block->b,
                       *end = a + block->steps * TERMS_HIGH, *a_low = end, *b_low = block->b_low;

        if (block->add) {
            tile_load(&s, 0, c, c_step);
            tile_load(&s, 1, c + TERMS_WIDTH / 2, c_step);
            tile_load(&s, 2, below, c_step);
            tile_load(&s, 3, below + TERMS_WIDTH / 2, c_step);
        } else {
            tile_zero(&s, 0);
            tile_zero(&s, 1);
            tile_zero(&s, 2);
            tile_zero(&s, 3);
        }
        for (; b_terms == 1 && a < end; a += TERMS_HIGH, b += 2 * next, a_low += TERMS_LOW) {
            LOAD_B(b, next);
            if (a_terms == TERMS) {
                LOAD_A(a_low, NEXT_LOW);
                MULTIPLY;
            }
            if (a_terms > 1) {
                LOAD_A(a + TERMS_TILE, NEXT);
                MULTIPLY;
            }
            LOAD_A(a, NEXT);
            MULTIPLY;
        }
        for (; block->three && a < end; a += TERMS_HIGH, b += TERMS_HIGH) {
            LOAD_B(b, NEXT);
            if (a_terms > 1) {
                LOAD_A(a + TERMS_TILE, NEXT);
                MULTIPLY;
            }
            LOAD_A(a, NEXT);
            MULTIPLY;
            LOAD_B(b + TERMS_TILE, NEXT);
            MULTIPLY;
        }
        for (; a < end; a += TERMS_HIGH, b += TERMS_HIGH, a_low += TERMS_LOW, b_low += TERMS_LOW) {
            if (a_terms == TERMS) {
                LOAD_A(a_low, NEXT_LOW);
                LOAD_B(b, NEXT);
                MULTIPLY;
            }
            if (a_terms > 1) {
                LOAD_A(a + TERMS_TILE, NEXT);
                LOAD_B(b + TERMS_TILE, NEXT);
                MULTIPLY;
                LOAD_B(b, NEXT);
                MULTIPLY;
            }
            LOAD_A(a, NEXT);
            if (b_terms == TERMS) {
                LOAD_B(b_low, NEXT_LOW);
                MULTIPLY;
            }
            LOAD_B(b + TERMS_TILE, NEXT);
            MULTIPLY;
            LOAD_B(b, NEXT);
            MULTIPLY;
        }
        tile_store(&s, 0, c, c_step);
        tile_store(&s, 1, c + TERMS_WIDTH / 2, c_step);
        tile_store(&s, 2, below, c_step);
        tile_store(&s, 3, below + TERMS_WIDTH / 2, c_step);
    }
    tile_end(&s);
}

const terms_set
    KERNEL(terms) = { .split = split, .split_panel = split_panel, .measure = measure, .multiply = multiply };
