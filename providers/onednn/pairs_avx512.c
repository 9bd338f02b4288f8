/* Products in pairs for x86-64-v4; compiled with that -march, called where the CPU has it. */
#include "pairs.h"
#include <immintrin.h>

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* x + y on the units that multiply, which would otherwise have half of the work that those for additions have. A
 * compiler makes an addition of it again unless it is kept from knowing that `one` is 1. */
static inline __attribute__((always_inline)) __m512 add_there(__m512 x, __m512 one, __m512 y)
{
    __asm__("vfmadd132ps %2, %1, %0" : "+v"(x) : "v"(y), "v"(one));
    return x;
}

/* The same with a vector that is left in memory: of four vectors the last finds no room. */
static inline __attribute__((always_inline)) __m512 add_from(__m512 x, __m512 one, const float *y)
{
    __asm__("vfmadd213ps %1, %2, %0" : "+v"(x) : "m"(*(const float(*)[SG_LANES])y), "v"(one));
    return x;
}

/* Of the two additions of a pair in vector v of row r: are they done by multiplying? One of four is to be; of four
 * vectors it is both of the last. */
static inline __attribute__((always_inline)) bool first_there(const int vectors, int r, int v)
{
    return v + 1 == vectors && vectors == 3 && r % 2 == 0;
}

static inline __attribute__((always_inline)) bool second_there(const int vectors, int r, int v)
{
    return v + 1 == vectors && (vectors > 1 || r % 2 == 0);
}

static inline __attribute__((always_inline)) void multiply(const int rows, const int vectors, const pr_tile *t)
{
    const int64_t width = vectors * SG_LANES, chains = (t->k + SG_CHAIN - 1) / SG_CHAIN, a_row = t->a_row;
    const __mmask16 whole = 0xffff, part = (__mmask16)((1u << t->last) - 1);
    const float *b = t->b + PR_HEAD * width, *a[(PR_ROWS + 2) / 3];
    const char *ahead = (const char *)t->ahead;
    const int64_t ahead_step = t->ahead_step * (int64_t)sizeof(float);
    const bool both = t->lines > 1;
    int64_t n = 0;
    float before[PR_ROWS * PR_WIDTH]; /* of a long sum: the parts before */
    __m512 sum[PR_ROWS][4], one = _mm512_set1_ps(1);

    __asm__("" : "+v"(one));
    __asm__("" : "=m"(before)); /* GCC 14 does not see that the first part writes what the others read */
    UNROLL
    for (int i = 0; 3 * i < rows; i++)
        a[i] = t->a + 3 * i * a_row;
    if (t->add != NULL) { /* mostly far away: asked for before the work, not after it */
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int v = 0; v < vectors; v++)
                _mm_prefetch((const char *)(t->add + r * t->add_row + v * SG_LANES), _MM_HINT_T0);
    }
    do {
        const int64_t pairs = t->k / 2 * (n + 1) / chains - t->k / 2 * n / chains;

        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = _mm512_setzero_ps();
        for (int64_t k = 0; k < pairs; k++) {
            __m512 p[4], q[4];

            UNROLL
            for (int v = 0; v < vectors; v++) {
                p[v] = _mm512_loadu_ps(b + v * SG_LANES);
                q[v] = v < 3 ? _mm512_loadu_ps(b + width + v * SG_LANES) : p[v];
            }
            _mm_prefetch(ahead, _MM_HINT_T1);
            if (both)
                _mm_prefetch(ahead + 64, _MM_HINT_T1);
            ahead += ahead_step;
            UNROLL
            for (int r = 0; r < rows; r++) {
                const float *at = a[r / 3] + r % 3 * a_row;
                const __m512 x = _mm512_set1_ps(at[0]), y = _mm512_set1_ps(at[1]);

                UNROLL
                for (int v = 0; v < vectors; v++) {
                    const __m512 f = v == 3                         ? add_from(x, one, b + width + v * SG_LANES)
                                     : first_there(vectors, r, v) ? add_there(x, one, q[v])
                                                                  : _mm512_add_ps(x, q[v]);
                    const __m512 g = second_there(vectors, r, v) ? add_there(y, one, p[v]) : _mm512_add_ps(y, p[v]);

                    sum[r][v] = _mm512_fmadd_ps(f, g, sum[r][v]);
                }
            }
            UNROLL
            for (int i = 0; 3 * i < rows; i++)
                a[i] += 2;
            b += 2 * width;
        }
        UNROLL
        for (int r = 0; chains > 1 && r < rows; r++)
            UNROLL
            for (int v = 0; v < vectors; v++) {
                float *kept = before + (r * vectors + v) * SG_LANES;

                sum[r][v] = n > 0 ? _mm512_add_ps(sum[r][v], _mm512_loadu_ps(kept)) : sum[r][v];
                _mm512_storeu_ps(kept, sum[r][v]);
            }
    } while (++n < chains);
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const __mmask16 mask = v + 1 < vectors ? whole : part;
        const float *head = t->b + v * SG_LANES;
        const __m512 pairs = _mm512_loadu_ps(head), size = _mm512_loadu_ps(head + width);
        const __m512 total = _mm512_loadu_ps(head + 2 * width), low = _mm512_set1_ps(t->low);
        const __m512 high = _mm512_set1_ps(t->high);
        const __m512 bias =
            t->bias != NULL ? _mm512_maskz_loadu_ps(mask, t->bias + v * SG_LANES) : _mm512_setzero_ps();

        UNROLL
        for (int r = 0; r < rows; r++) {
            const pr_row *row = &t->rows[r];
            const __m512 rest = _mm512_fmadd_ps(_mm512_set1_ps(row->mean), total, bias);
            const __m512 s = _mm512_sub_ps(_mm512_sub_ps(sum[r][v], pairs), _mm512_set1_ps(row->pairs));

            sum[r][v] = _mm512_fmadd_ps(_mm512_mul_ps(s, _mm512_set1_ps(row->size)), size, rest);
        }
        if (t->add != NULL) { /* all rows are read before one is written: they may be 4096 bytes apart */
            UNROLL
            for (int r = 0; r < rows; r++)
                sum[r][v] = _mm512_add_ps(sum[r][v],
                                          _mm512_maskz_loadu_ps(mask, t->add + r * t->add_row + v * SG_LANES));
        }
        if (t->clamp) { /* this way round, NaN stays NaN */
            UNROLL
            for (int r = 0; r < rows; r++)
                sum[r][v] = _mm512_min_ps(high, _mm512_max_ps(low, sum[r][v]));
        }
        UNROLL
        for (int r = 0; r < rows; r++)
            _mm512_mask_storeu_ps(t->c + r * t->c_row + v * SG_LANES, mask, sum[r][v]);
    }
}

#define CELLS_5(X, v) X(1, v) X(2, v) X(3, v) X(4, v) X(5, v)
#define CELLS_7(X, v) CELLS_5(X, v) X(6, v) X(7, v)
#define CELLS_10(X, v) CELLS_7(X, v) X(8, v) X(9, v) X(10, v)
#define CELL(r, v)                                  \
    static void multiply_##r##_##v(const pr_tile *t) \
    {                                               \
        multiply(r, v, t);                          \
    }
CELLS_10(CELL, 1)
CELLS_10(CELL, 2)
CELLS_7(CELL, 3)
CELLS_5(CELL, 4)
#undef CELL
#define CELL(r, v) multiply_##r##_##v,
static void (*const tiles[][PR_ROWS])(const pr_tile *) = {
    { CELLS_10(CELL, 1) }, { CELLS_10(CELL, 2) }, { CELLS_7(CELL, 3) }, { CELLS_5(CELL, 4) }
};
#undef CELL

/* ------------------------------------------------------------------ rows */

static inline __attribute__((always_inline)) __mmask16 mask_of(int64_t columns)
{
    return columns >= SG_LANES ? (__mmask16)0xffff : columns <= 0 ? 0 : (__mmask16)((1u << columns) - 1);
}

/* 2^-n, for numbers whose squares are about 4^n; normal ones, as they all are. *out_size: 2^n. */
static inline __attribute__((always_inline)) float scale_of(float square, float *out_size)
{
    uint32_t bits, scale, size;
    float result;

    memcpy(&bits, &square, sizeof bits);
    size = (uint32_t)(((int32_t)(bits >> 23) - 126) >> 1);
    scale = (127 - size) << 23;
    size = (127 + size) << 23;
    memcpy(&result, &scale, sizeof result);
    memcpy(out_size, &size, sizeof size);
    return result;
}

/* Sums of a row, and of its squares. */
static inline __attribute__((always_inline)) void measure(const float *a, int64_t k, float *out_sum, float *out_squares)
{
    __m512 sum[4], square[4];
    int64_t i = 0;

    UNROLL
    for (int h = 0; h < 4; h++)
        sum[h] = square[h] = _mm512_setzero_ps();
    for (; i + 4 * SG_LANES <= k; i += 4 * SG_LANES) {
        UNROLL
        for (int h = 0; h < 4; h++) {
            const __m512 x = _mm512_loadu_ps(a + i + h * SG_LANES);

            sum[h] = _mm512_add_ps(sum[h], x);
            square[h] = _mm512_fmadd_ps(x, x, square[h]);
        }
    }
    for (; i < k; i += SG_LANES) {
        const __m512 x = _mm512_maskz_loadu_ps(mask_of(k - i), a + i);

        sum[0] = _mm512_add_ps(sum[0], x);
        square[0] = _mm512_fmadd_ps(x, x, square[0]);
    }
    *out_sum = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
    *out_squares =
        _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(square[0], square[1]), _mm512_add_ps(square[2], square[3])));
}

static inline __attribute__((always_inline)) __m512 one_line(__m512 x, __m512 mean, __m512 scale, __m512 pairs,
                                                             float *out)
{
    x = _mm512_mul_ps(_mm512_sub_ps(x, mean), scale);
    _mm512_storeu_ps(out, x);
    return _mm512_fmadd_ps(x, _mm512_permute_ps(x, 0xb1), pairs);
}

static bool any_at_all(const float *a, int64_t k)
{
    int64_t i = 0;

    while (i < k && a[i] == 0)
        i++;
    return i < k;
}

/* part: 1 / k. */
static inline __attribute__((always_inline)) void prepare_row(const float *a, int64_t k, float part, float *out,
                                                              pr_row *row)
{
    const float most = 1e30f, least = 1e-30f, flat = 1e-6f; /* of squares; a row that is all mean */
    __m512 pairs[2] = { _mm512_setzero_ps(), _mm512_setzero_ps() }, mean, size;
    float total, squares, scale = 1, back;
    int64_t i = 0;

    measure(a, k, &total, &squares);
    total *= part;
    squares *= part;
    if (!(squares <= most) || (squares < least && any_at_all(a, k))) { /* nor NaN */
        *row = (pr_row){ 0 };
        for (; i < k; i += SG_LANES)
            _mm512_storeu_ps(out + i, _mm512_setzero_ps());
        return;
    }
    back = 0; /* a row of zeros makes exactly zeros */
    if (squares > 0) {
        const float around = squares - total * total;

        scale = scale_of(around > flat * squares ? around : flat * squares, &back);
    }
    mean = _mm512_set1_ps(total);
    size = _mm512_set1_ps(scale);
    for (; i + 2 * SG_LANES <= k; i += 2 * SG_LANES) {
        pairs[0] = one_line(_mm512_loadu_ps(a + i), mean, size, pairs[0], out + i);
        pairs[1] = one_line(_mm512_loadu_ps(a + i + SG_LANES), mean, size, pairs[1], out + i + SG_LANES);
    }
    for (; i < k; i += SG_LANES) { /* what is behind the last becomes zero */
        const __mmask16 mask = mask_of(k - i);

        pairs[0] = one_line(_mm512_maskz_loadu_ps(mask, a + i), _mm512_maskz_mov_ps(mask, mean), size, pairs[0],
                            out + i);
    }
    *row = (pr_row){ .pairs = 0.5f * _mm512_reduce_add_ps(_mm512_add_ps(pairs[0], pairs[1])), .size = back,
                     .mean = total, .fine = 1 };
}

static void prepare(const float *a, int64_t a_row, int64_t count, int64_t k, float *out, int64_t out_row, pr_row *rows)
{
    const float part = 1 / (float)k;

    for (int64_t r = 0; r < count; r++)
        prepare_row(a + r * a_row, k, part, out + r * out_row, &rows[r]);
}

const pr_set pairs_avx512 = { .rows = { 0, 10, 10, 7, 5 }, .tile = tiles, .prepare = prepare };
