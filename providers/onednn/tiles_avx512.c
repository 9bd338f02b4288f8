/* Tiles for x86-64-v4; compiled with that -march, called where the CPU has it. */
#include "depthwise.h"
#include "functions_avx512.h"
#include "tiles.h"

typedef float line __attribute__((vector_size(64)));
typedef float loose __attribute__((vector_size(64), aligned(4), may_alias)); /* at any element */

#define UNROLL _Pragma("GCC unroll 36")

static inline __mmask16 mask_of(int64_t columns)
{
    return columns >= TILE_LANES ? (__mmask16)0xffff : (__mmask16)((1u << columns) - 1);
}

/* ------------------------------------------------------------------ products */

/* One row is read as fast as memory gives its weights: they are asked for ROW_AHEAD floats before they are needed, and
 * several sums run beside each other, for each addition waits for the one before it. */
enum { ROW_AHEAD = 1024, ROW_SUMS = 4 };

static inline __attribute__((always_inline)) void one_row(const int lines, const float *a, const float *b,
                                                          int64_t depth, __m512 *sum)
{
    __m512 part[ROW_SUMS][2];
    int64_t k = 0;

    UNROLL
    for (int i = 0; i < ROW_SUMS; i++)
        part[i][0] = part[i][1] = _mm512_setzero_ps();
    for (; k + ROW_SUMS <= depth; k += ROW_SUMS, b += ROW_SUMS * TILE_WIDTH) {
        UNROLL
        for (int i = 0; i < ROW_SUMS; i++) {
            const __m512 x = _mm512_set1_ps(a[k + i]);

            UNROLL
            for (int v = 0; v < lines; v++) {
                const float *w = b + i * TILE_WIDTH + v * TILE_LANES;

                _mm_prefetch((const char *)(w + ROW_AHEAD), _MM_HINT_T0);
                part[i][v] = _mm512_fmadd_ps(x, _mm512_loadu_ps(w), part[i][v]);
            }
        }
    }
    for (; k < depth; k++, b += TILE_WIDTH)
        UNROLL
        for (int v = 0; v < lines; v++)
            part[0][v] = _mm512_fmadd_ps(_mm512_set1_ps(a[k]), _mm512_loadu_ps(b + v * TILE_LANES), part[0][v]);
    UNROLL
    for (int v = 0; v < lines; v++)
        sum[v] = _mm512_add_ps(sum[v], _mm512_add_ps(_mm512_add_ps(part[0][v], part[1][v]),
                                                     _mm512_add_ps(part[2][v], part[3][v])));
}

/* full: all columns of all lines are there. */
static inline __attribute__((always_inline)) void product(const int rows, const int lines, const bool full,
                                                          const tile_product *p)
{
    const __mmask16 tail = full ? (__mmask16)0xffff : mask_of(p->columns - (lines - 1) * TILE_LANES);
    const int64_t a_row = p->a_row, depth = p->depth;
    const float *b = p->b;
    const char *ahead = (const char *)p->ahead;
    const bool both = p->ahead_lines > 1;
    const int64_t all = p->tap_count * depth, chains = (all + SG_CHAIN - 1) / SG_CHAIN;
    const int64_t chain = chains > 1 ? (all + chains - 1) / chains : all;
    const float *rest = p->add; /* what the sums are added to: the other operand, later the sums before, too */
    int64_t rest_row = p->add_row, room = chain;
    __m512 sum[TILE_ROWS][2];

#define MASK(v) (full || (v) + 1 < lines ? (__mmask16)0xffff : tail)
#define ADD_REST                                                                                                  \
    if (rest != NULL) {                                                                                           \
        UNROLL                                                                                                    \
        for (int r = 0; r < rows; r++)                                                                            \
            UNROLL                                                                                                \
            for (int v = 0; v < lines; v++)                                                                       \
                sum[r][v] = _mm512_add_ps(sum[r][v], _mm512_maskz_loadu_ps(MASK(v), rest + r * rest_row +         \
                                                                                        v * TILE_LANES));         \
    }
    UNROLL
    for (int v = 0; v < lines; v++) {
        const __m512 first =
            p->bias == NULL ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(MASK(v), p->bias + v * TILE_LANES);

        UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][v] = first;
    }
    if (p->add != NULL) { /* mostly far away: asked for before the work, not after it */
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int v = 0; v < lines; v++)
                _mm_prefetch((const char *)(p->add + r * p->add_row + v * TILE_LANES), _MM_HINT_T0);
    }
    for (int64_t t = 0; t < p->tap_count; t++) {
        const float *base[(TILE_ROWS + 2) / 3]; /* of three rows each: addresses that an instruction can state */

        UNROLL
        for (int i = 0; 3 * i < rows; i++)
            base[i] = p->a + p->taps[t] + 3 * i * a_row;
        for (int64_t k = 0; k < depth;) {
            const int64_t end = depth - k < room ? depth : k + room;

            room -= end - k;
            if (rows == 1) {
                one_row(lines, base[0], b, end - k, sum[0]);
                base[0] += end - k;
                b += (end - k) * TILE_WIDTH;
                k = end;
            }
            for (; k < end; k++) {
                __m512 w[2];

                UNROLL
                for (int v = 0; v < lines; v++)
                    w[v] = _mm512_loadu_ps(b + v * TILE_LANES);
                if (ahead != NULL) {
                    _mm_prefetch(ahead, _MM_HINT_T1);
                    ahead += 64;
                    if (both) {
                        _mm_prefetch(ahead, _MM_HINT_T1);
                        ahead += 64;
                    }
                }
                UNROLL
                for (int r = 0; r < rows; r++) {
                    const __m512 x = _mm512_set1_ps(base[r / 3][r % 3 * a_row]);

                    UNROLL
                    for (int v = 0; v < lines; v++)
                        sum[r][v] = _mm512_fmadd_ps(x, w[v], sum[r][v]);
                }
                UNROLL
                for (int i = 0; 3 * i < rows; i++)
                    base[i]++;
                b += TILE_WIDTH;
            }
            if (room > 0 || (k == depth && t + 1 == p->tap_count))
                continue;
            /* a long sum is made of parts, for the sake of its error; the parts before wait in C */
            ADD_REST
            UNROLL
            for (int r = 0; r < rows; r++)
                UNROLL
                for (int v = 0; v < lines; v++) {
                    _mm512_mask_storeu_ps(p->c + r * p->c_row + v * TILE_LANES, MASK(v), sum[r][v]);
                    sum[r][v] = _mm512_setzero_ps();
                }
            rest = p->c;
            rest_row = p->c_row;
            room = chain;
        }
    }
    ADD_REST
    if (p->clamp) {
        const __m512 low = _mm512_set1_ps(p->low), high = _mm512_set1_ps(p->high);

        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int v = 0; v < lines; v++) /* this way round, NaN stays NaN */
                sum[r][v] = _mm512_min_ps(high, _mm512_max_ps(low, sum[r][v]));
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < lines; v++)
            _mm512_mask_storeu_ps(p->c + r * p->c_row + v * TILE_LANES, MASK(v), sum[r][v]);
#undef ADD_REST
#undef MASK
}

#define CELLS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define CELL(r)                                           \
    static void product_##r##_1(const tile_product *p)    \
    {                                                     \
        product(r, 1, false, p);                          \
    }                                                     \
    static void product_##r##_2(const tile_product *p)    \
    {                                                     \
        product(r, 2, false, p);                          \
    }                                                     \
    static void product_##r##_full(const tile_product *p) \
    {                                                     \
        product(r, 2, true, p);                           \
    }
CELLS(CELL)
#undef CELL

enum { NARROW_ROWS = 4 }; /* fewer are bound by the weights */

static void multiply(const tile_product *p, int rows)
{
    static void (*const table[][3])(const tile_product *) = {
#define CELL(r) { product_##r##_1, product_##r##_2, product_##r##_full },
        CELLS(CELL)
#undef CELL
    };

    if (p->columns <= 3 * TILE_LANES / 2 && rows >= NARROW_ROWS && p->depth % 2 == 0 &&
        p->tap_count * p->depth <= 2 * SG_CHAIN) /* there are two sums, each of so many terms */
        tiles_narrow_avx512(p, rows);
    else
        table[rows - 1][(p->columns > TILE_LANES) + (p->columns == TILE_WIDTH)](p);
}

/* ------------------------------------------------------------------ functions */

static inline __attribute__((always_inline)) void rows_of(const sg_fn fn, float alpha, float *c, int64_t c_row,
                                                          int64_t rows, int64_t columns)
{
    const __m512 k = _mm512_set1_ps(-1.44269504f * alpha);
    const __mmask16 tail = (__mmask16)((1u << columns % TILE_LANES) - 1);

    for (int64_t r = 0; r < rows; r++, c += c_row) {
        int64_t j = 0;

        for (; j + TILE_LANES <= columns; j += TILE_LANES)
            _mm512_storeu_ps(c + j, function_of(fn, _mm512_loadu_ps(c + j), k));
        if (tail != 0)
            _mm512_mask_storeu_ps(c + j, tail, function_of(fn, _mm512_maskz_loadu_ps(tail, c + j), k));
    }
}

static bool function(const sg_post *post, float *c, int64_t c_row, int64_t rows, int64_t columns)
{
    if (post->fn == SG_SWISH)
        rows_of(SG_SWISH, post->alpha, c, c_row, rows, columns);
    else if (post->fn == SG_SIGMOID)
        rows_of(SG_SIGMOID, 1, c, c_row, rows, columns);
    else if (post->fn == SG_HARDSWISH)
        rows_of(SG_HARDSWISH, 1, c, c_row, rows, columns);
    else
        return false;
    return true;
}

/* ------------------------------------------------------------------ pixels of three channels */

/* Which of 32 floats come to each place: p[0..15] from the first two channels, then the third put between them. */
static void interleave_3(const float *x, int64_t step, int64_t pixels, float *y)
{
    int32_t pick[3][TILE_LANES], place[3][TILE_LANES];
    int64_t w = 0;

    for (int n = 0; n < 3; n++) {
        for (int l = 0; l < TILE_LANES; l++) {
            int at = n * TILE_LANES + l, channel = at % 3, pixel = at / 3;

            pick[n][l] = channel < 2 ? channel * TILE_LANES + pixel : 0;
            place[n][l] = channel < 2 ? l : TILE_LANES + pixel;
        }
    }
    for (; w + TILE_LANES <= pixels; w += TILE_LANES) {
        const __m512 r = _mm512_loadu_ps(x + w), g = _mm512_loadu_ps(x + step + w);
        const __m512 b = _mm512_loadu_ps(x + 2 * step + w);

        UNROLL
        for (int n = 0; n < 3; n++) {
            const __m512 two = _mm512_permutex2var_ps(r, _mm512_loadu_si512(pick[n]), g);

            _mm512_storeu_ps(y + 3 * w + n * TILE_LANES,
                             _mm512_permutex2var_ps(two, _mm512_loadu_si512(place[n]), b));
        }
    }
    for (; w < pixels; w++)
        for (int64_t c = 0; c < 3; c++)
            y[3 * w + c] = x[c * step + w];
}

/* ------------------------------------------------------------------ Winograd's transforms
 *
 * F(4x4, 3x3) by the points 0, +-A, +-B and infinity, F(2x2, 3x3) by 0, +-1 and infinity. A and B are chosen for small
 * errors: some 1.5e-6 of the largest result for 256 channels, where the sum as written has 1e-6. */
#define A 0.625f
#define B 1.5f
#define AA (A * A)
#define BB (B * B)

static inline __attribute__((always_inline)) void points_in(const int points, const line *d, const int s, line *t)
{
    if (points == 4) {
        t[0] = d[0] - d[2 * s];
        t[1] = d[s] + d[2 * s];
        t[2] = d[2 * s] - d[s];
        t[3] = d[s] - d[3 * s];
    } else {
        const line even_a = d[4 * s] - BB * d[2 * s], odd_a = A * d[3 * s] - (A * BB) * d[s];
        const line even_b = d[4 * s] - AA * d[2 * s], odd_b = B * d[3 * s] - (B * AA) * d[s];

        t[0] = (AA * BB) * d[0] - (AA + BB) * d[2 * s] + d[4 * s];
        t[1] = even_a + odd_a;
        t[2] = even_a - odd_a;
        t[3] = even_b + odd_b;
        t[4] = even_b - odd_b;
        t[5] = (AA * BB) * d[s] - (AA + BB) * d[3 * s] + d[5 * s];
    }
}

static inline __attribute__((always_inline)) void points_out(const int points, const line *m, const int s, line *y)
{
    if (points == 4) {
        y[0] = m[0] + m[s] + m[2 * s];
        y[1] = m[s] - m[2 * s] - m[3 * s];
    } else {
        const line sum_a = m[s] + m[2 * s], sum_b = m[3 * s] + m[4 * s];
        const line gap_a = m[s] - m[2 * s], gap_b = m[3 * s] - m[4 * s];

        y[0] = m[0] + sum_a + sum_b;
        y[1] = A * gap_a + B * gap_b;
        y[2] = AA * sum_a + BB * sum_b;
        y[3] = (A * AA) * gap_a + (B * BB) * gap_b + m[5 * s];
    }
}

static inline __attribute__((always_inline)) void windows_in(const int points, const float *const *x, int64_t channels,
                                                             float *v, int64_t step)
{
    for (int64_t c = 0; c < channels; c += TILE_LANES) {
        const __mmask16 m = mask_of(channels - c);
        line d[TILE_ALPHA * TILE_ALPHA], t[TILE_ALPHA * TILE_ALPHA], u[TILE_ALPHA];

        for (int i = 0; i < points; i++) { /* along rows: t[i][.] = d[i][.] B */
            UNROLL
            for (int j = 0; j < points; j++)
                d[j] = (line)_mm512_maskz_loadu_ps(m, x[i * points + j] + c);
            points_in(points, d, 1, t + i * points);
        }
        for (int j = 0; j < points; j++) {
            points_in(points, t + j, points, u);
            UNROLL
            for (int i = 0; i < points; i++)
                *(loose *)(v + (i * points + j) * step + c) = u[i];
        }
    }
}

static void window_in(const float *const *x, int64_t channels, int64_t points, float *v, int64_t step)
{
    if (points == 4)
        windows_in(4, x, channels, v, step);
    else
        windows_in(6, x, channels, v, step);
}

static inline __attribute__((always_inline)) void windows_out(const int points, const tile_window *w)
{
    const __m512 low = _mm512_set1_ps(w->low), high = _mm512_set1_ps(w->high);

    for (int64_t c = 0; c < w->channels; c += TILE_LANES) {
        const __mmask16 mask = mask_of(w->channels - c);
        const __m512 first = w->bias != NULL ? _mm512_maskz_loadu_ps(mask, w->bias + c) : _mm512_setzero_ps();
        line d[TILE_ALPHA], t[TILE_ALPHA * TILE_ALPHA], u[TILE_ALPHA];

        for (int i = 0; i < points; i++) {
            UNROLL
            for (int j = 0; j < points; j++)
                d[j] = *(const loose *)(w->m + (i * points + j) * w->step + c);
            points_out(points, d, 1, t + i * (points - 2));
        }
        for (int j = 0; j < points - 2 && j < w->columns; j++) {
            points_out(points, t + j, points - 2, u);
            for (int i = 0; i < points - 2 && i < w->rows; i++) {
                __m512 r = _mm512_add_ps((__m512)u[i], first);

                if (w->add != NULL)
                    r = _mm512_add_ps(r, _mm512_maskz_loadu_ps(mask, w->add + i * w->add_row + j * w->add_pixel + c));
                if (w->clamp)
                    r = _mm512_min_ps(high, _mm512_max_ps(low, r));
                _mm512_mask_storeu_ps(w->y + i * w->y_row + j * w->y_pixel + c, mask, r);
            }
        }
    }
}

static void window_out(const tile_window *w)
{
    if (w->points == 4)
        windows_out(4, w);
    else
        windows_out(6, w);
}

/* G w along one axis. */
static inline __attribute__((always_inline)) void points_of(const int points, const line *w, const int s, line *t)
{
    if (points == 4) {
        const line outer = 0.5f * (w[0] + w[2 * s]), middle = 0.5f * w[s];

        t[0] = w[0];
        t[1] = outer + middle;
        t[2] = outer - middle;
        t[3] = w[2 * s];
    } else {
        const float na = 1 / (2 * AA * (AA - BB)), nb = 1 / (2 * BB * (BB - AA));
        const line even_a = na * w[0] + (na * AA) * w[2 * s], odd_a = (na * A) * w[s];
        const line even_b = nb * w[0] + (nb * BB) * w[2 * s], odd_b = (nb * B) * w[s];

        t[0] = (1 / (AA * BB)) * w[0];
        t[1] = even_a + odd_a;
        t[2] = even_a - odd_a;
        t[3] = even_b + odd_b;
        t[4] = even_b - odd_b;
        t[5] = w[2 * s];
    }
}

static inline __attribute__((always_inline)) void windows_of(const int points, const line *w, float *u, int64_t u_step)
{
    line t[TILE_ALPHA * 3], r[TILE_ALPHA];

    for (int i = 0; i < 3; i++) { /* rows of the window: t[b][i] */
        points_of(points, w + 3 * i, 1, r);
        for (int b = 0; b < points; b++)
            t[b * 3 + i] = r[b];
    }
    for (int b = 0; b < points; b++) {
        points_of(points, t + b * 3, 1, r);
        for (int a = 0; a < points; a++)
            *(loose *)(u + (a * points + b) * u_step) = r[a];
    }
}

static void window_weights(const char *w, int64_t step, int64_t tap, int64_t count, int64_t points, float *u,
                           int64_t u_step)
{
    for (int64_t v = 0; v < TILE_WIDTH; v += TILE_LANES) {
        float gathered[9][TILE_LANES] __attribute__((aligned(64))) = { { 0 } };
        line lines[9];

        for (int64_t o = v; o < count && o < v + TILE_LANES; o++)
            for (int64_t t = 0; t < 9; t++)
                memcpy(&gathered[t][o - v], w + (o * step + t * tap) * (int64_t)sizeof(float), sizeof(float));
        memcpy(lines, gathered, sizeof lines);
        if (points == 4)
            windows_of(4, lines, u + v, u_step);
        else
            windows_of(6, lines, u + v, u_step);
    }
}

const tile_set tiles_avx512 = {
    multiply, function, dw_block_avx512, interleave_3, window_in, window_out, window_weights,
};
