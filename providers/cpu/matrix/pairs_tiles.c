/* Blocks of products in pairs, and how rows are prepared for them, see pairs.h. Loops over rows and vectors have
 * constant bounds and unroll entirely, so that the sums stay in registers: of 32 vectors with 16 lanes, 10 rows of 1 or
 * 2 vectors, 7 of 3, 5 of 4; of 16 with 8, 4 rows of 2 at a time. */
#include "matrix/pairs.h"
#include "simd/vec.h"

enum {
    PARTS = SGEMM_LANES / VEC_LANES, /* vectors for so many columns */
    WIDE = PARTS == 1,               /* all columns of a block are multiplied at once */
    MOST_VECTORS = WIDE ? PAIRS_WIDTH / SGEMM_LANES : PARTS,
    NARROW_ROWS = VEC_REGISTERS == 32 ? 5 : 4,
    LINE = 16
};

/* Of the two additions of a pair in vector v of row r: are they done by multiplying? One of four is to be, for units
 * that multiply would otherwise have half of the work that those for additions have; of four vectors it is both of the
 * last. */
VEC_INLINE bool first_there(const int vectors, int r, int v)
{
    return v + 1 == vectors && (vectors == 4 || (vectors == 3 && r % 2 == 0));
}

VEC_INLINE bool second_there(const int vectors, int r, int v)
{
    return v + 1 == vectors && (vectors > 1 || r % 2 == 0);
}

/* By which of the two x and y are added. A compiler makes an addition of both unless it can't know that `one` is 1. */
VEC_INLINE vec add_by(const bool there, vec x, vec one, vec y)
{
    return there ? vec_fma(x, one, y) : vec_add(x, y);
}

/* `vectors` vectors from `column` on, of which so many columns are there. */
VEC_INLINE void multiply(const int rows, const int vectors, const pairs_tile *t, int64_t column, int64_t columns)
{
    static const volatile float unit = 1;
    const int64_t width = t->width, chains = (t->k + SGEMM_CHAIN - 1) / SGEMM_CHAIN, a_row = t->a_row;
    const float *b = t->b + PAIRS_HEAD * width + column, *a[(PAIRS_TILE_ROWS + 2) / 3], *ahead = t->ahead;
    const int64_t ahead_step = column == 0 ? t->ahead_step : 0;
    const bool both = t->lines > 1;
    const vec one = vec_set(unit);
    float before[PAIRS_TILE_ROWS * PAIRS_WIDTH]; /* of a long sum: the parts before */
    vec sum[PAIRS_TILE_ROWS][MOST_VECTORS];
    int64_t n = 0;

    __asm__("" : "=m"(before)); /* GCC 14 does not see that the first part writes what the others read */
    VEC_UNROLL
    for (int i = 0; 3 * i < rows; i++)
        a[i] = t->a + 3 * i * a_row;
    if (t->add != NULL) { /* mostly far away: asked for before the work, not after it */
        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++)
                vec_fetch_near(t->add + r * t->add_row + column + v * VEC_LANES);
        }
    }
    do {
        const int64_t pairs = t->k / 2 * (n + 1) / chains - t->k / 2 * n / chains;

        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = vec_zero();
        }
        for (int64_t k = 0; k < pairs; k++) {
            vec p[MOST_VECTORS], q[MOST_VECTORS];

            VEC_UNROLL
            for (int v = 0; v < vectors; v++) {
                p[v] = vec_load(b + v * VEC_LANES);
                q[v] = vec_load(b + width + v * VEC_LANES);
            }
            vec_fetch_far(ahead);
            if (both)
                vec_fetch_far(ahead + LINE);
            ahead += ahead_step;
            VEC_UNROLL
            for (int r = 0; r < rows; r++) {
                const float *at = a[r / 3] + r % 3 * a_row;
                const vec x = vec_set(at[0]), y = vec_set(at[1]);

                VEC_UNROLL
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = vec_fma(add_by(first_there(vectors, r, v), x, one, q[v]),
                                        add_by(second_there(vectors, r, v), y, one, p[v]), sum[r][v]);
            }
            VEC_UNROLL
            for (int i = 0; 3 * i < rows; i++)
                a[i] += 2;
            b += 2 * width;
        }
        VEC_UNROLL
        for (int r = 0; chains > 1 && r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++) {
                float *kept = before + (r * vectors + v) * VEC_LANES;

                sum[r][v] = n > 0 ? vec_add(sum[r][v], vec_load(kept)) : sum[r][v];
                vec_store(kept, sum[r][v]);
            }
        }
    } while (++n < chains);
    VEC_UNROLL
    for (int v = 0; v < vectors; v++) {
        const vmask mask = vec_first(columns - v * VEC_LANES);
        const int64_t at = column + v * VEC_LANES;
        const vec pairs = vec_load(t->b + at), size = vec_load(t->b + width + at);
        const vec total = vec_load(t->b + 2 * width + at), low = vec_set(t->low), high = vec_set(t->high);
        const vec bias = t->bias != NULL ? vec_load_some(mask, t->bias + at) : vec_zero();

        VEC_UNROLL
        for (int row_index = 0; row_index < rows; row_index++) {
            const pairs_row *row = &t->rows[row_index];
            const vec rest = vec_fma(vec_set(row->mean), total, bias);
            const vec s = vec_sub(vec_sub(sum[row_index][v], pairs), vec_set(row->pairs));

            sum[row_index][v] = vec_fma(vec_mul(s, vec_set(row->size)), size, rest);
        }
        if (t->add != NULL) { /* all rows are read before one is written: they may be 4096 bytes apart */
            VEC_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r][v] = vec_add(sum[r][v], vec_load_some(mask, t->add + r * t->add_row + at));
        }
        if (t->clamp) { /* this way round, NaN stays NaN */
            VEC_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r][v] = vec_min(high, vec_max(low, sum[r][v]));
        }
        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            vec_store_some(t->c + r * t->c_row + at, mask, sum[r][v]);
    }
}

#define CELLS_4(X, v) X(1, v) X(2, v) X(3, v) X(4, v)
#define CELLS_5(X, v) CELLS_4(X, v) X(5, v)
#define CELLS_7(X, v) CELLS_5(X, v) X(6, v) X(7, v)
#define CELLS_10(X, v) CELLS_7(X, v) X(8, v) X(9, v) X(10, v)
#if VEC_NARROW
#define CELL(r, v)                                                                                                     \
    static void multiply_##r##_##v(const pairs_tile *t)                                                                \
    {                                                                                                                  \
        multiply(r, v, t, 0, ((v)-1) * SGEMM_LANES + (int64_t)t->last);                                                \
    }
CELLS_10(CELL, 1)
CELLS_10(CELL, 2)
CELLS_7(CELL, 3)
CELLS_5(CELL, 4)
#undef CELL
#define CELL(r, v) multiply_##r##_##v,
static void (*const tiles[][PAIRS_TILE_ROWS])(const pairs_tile *) = {
    { CELLS_10(CELL, 1) }, { CELLS_10(CELL, 2) }, { CELLS_7(CELL, 3) }, { CELLS_5(CELL, 4) }
};
#define ROWS                                                                                                           \
    {                                                                                                                  \
        0, 10, 10, 7, 5                                                                                                \
    }
#else
/* Some columns after the other, by the same rows. */
#define CELL(r, v)                                                                                                     \
    static void multiply_##r(const pairs_tile *t)                                                                      \
    {                                                                                                                  \
        for (int64_t column = 0; column < t->width; column += SGEMM_LANES)                                             \
            multiply(r, PARTS, t, column, column + SGEMM_LANES < t->width ? SGEMM_LANES : (int64_t)t->last);           \
    }
CELLS_5(CELL, 0)
#undef CELL
#define CELL(r, v) multiply_##r,
static void (*const tiles[][PAIRS_TILE_ROWS])(const pairs_tile *) = {
    { CELLS_5(CELL, 0) }, { CELLS_5(CELL, 0) }, { CELLS_5(CELL, 0) }, { CELLS_5(CELL, 0) }
};
#define ROWS                                                                                                           \
    {                                                                                                                  \
        0, NARROW_ROWS, NARROW_ROWS, NARROW_ROWS, NARROW_ROWS                                                          \
    }
#endif
#undef CELL

/* ------------------------------------------------------------------ rows */

/* 2^-n, for numbers whose squares are about 4^n; normal ones, as they all are. *out_size: 2^n. */
VEC_INLINE float scale_of(float square, float *out_size)
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

VEC_INLINE float total_of(vec x)
{
    float lanes[VEC_LANES];

    vec_store(lanes, x);
    for (int left = VEC_LANES / 2; left > 0; left /= 2)
        for (int i = 0; i < left; i++)
            lanes[i] += lanes[i + left];
    return lanes[0];
}

/* Sums of a row, and of its squares. */
VEC_INLINE void measure(const float *a, int64_t k, float *out_sum, float *out_squares)
{
    vec sum[4], square[4];
    int64_t i = 0;

    VEC_UNROLL
    for (int h = 0; h < 4; h++)
        sum[h] = square[h] = vec_zero();
    for (; i + 4 * VEC_LANES <= k; i += 4 * VEC_LANES) {
        VEC_UNROLL
        for (int h = 0; h < 4; h++) {
            const vec x = vec_load(a + i + h * VEC_LANES);

            sum[h] = vec_add(sum[h], x);
            square[h] = vec_fma(x, x, square[h]);
        }
    }
    for (; i < k; i += VEC_LANES) {
        const vec x = vec_load_some(vec_first(k - i), a + i);

        sum[0] = vec_add(sum[0], x);
        square[0] = vec_fma(x, x, square[0]);
    }
    *out_sum = total_of(vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3])));
    *out_squares = total_of(vec_add(vec_add(square[0], square[1]), vec_add(square[2], square[3])));
}

static bool any_at_all(const float *a, int64_t k)
{
    int64_t i = 0;

    while (i < k && a[i] == 0)
        i++;
    return i < k;
}

/* The sum of input[i] input[i + 1] over even i. input is zero from k on, for a vector behind the last, too. */
VEC_INLINE float sum_of_pairs(const float *input, int64_t k)
{
    static const float first[SGEMM_LANES] = { 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0 };
    const vec even = vec_load(first);
    vec sum = vec_zero();

    for (int64_t i = 0; i < k; i += VEC_LANES)
        sum = vec_fma(vec_mul(vec_load(input + i), even), vec_load(input + i + 1), sum);
    return total_of(sum);
}

/* part: 1 / k. out has room for a vector behind the one that ends the row. */
VEC_INLINE void prepare_row(const float *a, int64_t k, float part, float *out, pairs_row *row)
{
    const float most = 1e30f, least = 1e-30f, flat = 1e-6f; /* of squares; a row that is all mean */
    float total, squares, scale = 1, back;
    int64_t i = 0;
    vec mean, size;

    measure(a, k, &total, &squares);
    total *= part;
    squares *= part;
    if (!(squares <= most) || (squares < least && any_at_all(a, k))) { /* nor NaN */
        *row = (pairs_row){ 0 };
        for (; i < k; i += VEC_LANES)
            vec_store(out + i, vec_zero());
        return;
    }
    back = 0; /* a row of zeros makes exactly zeros */
    if (squares > 0) {
        const float around = squares - total * total;

        scale = scale_of(around > flat * squares ? around : flat * squares, &back);
    }
    mean = vec_set(total);
    size = vec_set(scale);
    for (; i + VEC_LANES <= k; i += VEC_LANES)
        vec_store(out + i, vec_mul(vec_sub(vec_load(a + i), mean), size));
    if (i < k) { /* what is behind the last becomes zero */
        const vmask there = vec_first(k - i);

        vec_store(out + i, vec_select(there, vec_mul(vec_sub(vec_load_some(there, a + i), mean), size), vec_zero()));
        i += VEC_LANES;
    }
    vec_store(out + i, vec_zero());
    *row = (pairs_row){ .pairs = sum_of_pairs(out, k), .size = back, .mean = total, .fine = 1 };
}

static void prepare(const float *a, int64_t a_row, int64_t count, int64_t k, float *out, int64_t out_row,
                    pairs_row *rows)
{
    const float part = 1 / (float)k;

    for (int64_t row = 0; row < count; row++)
        prepare_row(a + row * a_row, k, part, out + row * out_row, &rows[row]);
}

/* ------------------------------------------------------------------ panels */

enum { LEAST_EXPONENT = -250 /* of squares: the factor, and its inverse, are finite */ };

static void make_head(float *panel, int64_t rows, int64_t count, int64_t width)
{
    float *weights = panel + PAIRS_HEAD * width;
    double total[PAIRS_WIDTH] = { 0 }, square[PAIRS_WIDTH] = { 0 }, pairs[PAIRS_WIDTH] = { 0 };
    float scale[PAIRS_WIDTH];
    bool fine = true;

    for (int64_t k = 0; k < rows; k++)
        for (int64_t j = 0; j < width; j++) {
            const double x = weights[k * width + j];

            total[j] += x;
            square[j] += x * x;
        }
    for (int64_t j = 0; j < width; j++)
        fine = fine && square[j] / (double)count < 1e30; /* nor NaN */
    for (int64_t j = 0; j < width; j++) {
        int n = 0;

        if (fine && square[j] > 0)
            (void)frexp(square[j] / (double)count, &n);
        n = n < LEAST_EXPONENT ? LEAST_EXPONENT : n; /* of channels that training has switched off, 1e-20 and less */
        scale[j] = fine ? ldexpf(1, -(n >> 1)) : 1;
    }
    for (int64_t k = 0; k < rows && fine; k += 2)
        for (int64_t j = 0; j < width; j++) {
            float *input = &weights[k * width + j], *output = input + width;

            *input *= scale[j];
            *output *= scale[j];
            pairs[j] += (double)*input * (double)*output;
        }
    for (int64_t j = 0; j < width; j++) {
        panel[j] = (float)pairs[j];
        panel[width + j] = 1 / scale[j];
        panel[2 * width + j] = fine ? (float)total[j] : 0;
        panel[3 * width + j] = fine;
    }
}

static void as_written(const float *restrict a, int64_t k, const float *restrict panel, int64_t width,
                       float *restrict out)
{
    memset(out, 0, (size_t)width * sizeof *out);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < width; j++)
            out[j] += a[i] * panel[(PAIRS_HEAD + i) * width + j];
    for (int64_t j = 0; j < width; j++)
        out[j] *= panel[width + j];
}

const pairs_set KERNEL(pairs) = {
    .rows = ROWS, .tile = tiles, .prepare = prepare, .make_head = make_head, .as_written = as_written
};
