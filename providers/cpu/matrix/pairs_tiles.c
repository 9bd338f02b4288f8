/* Tiles of Winograd's inner product, and the preparation of rows, see pairs.h. Loops over rows and vectors have
 * constant bounds and are unrolled entirely, so that the sums stay in registers: of 32 registers of 16 lanes, 10 rows
 * of 1 or 2 vectors, 7 of 3, 5 of 4; of 16 registers of 8 lanes, 4 rows of 2 at a time. */
#include "matrix/pairs.h"
#include "inlay/check.h"
#include "simd/vec.h"

enum {
    PARTS = SGEMM_LANES / VEC_LANES, /* vectors for SGEMM_LANES columns */
    WIDE = PARTS == 1,               /* all columns of a tile are multiplied in one pass */
    MAX_VECTORS = WIDE ? PAIRS_WIDTH / SGEMM_LANES : PARTS,
    NARROW_ROWS = VEC_REGISTERS == 32 ? 5 : 4,
    LINE = 16
};

/* Which of the two additions of a pair, in vector v of row r, are executed as multiply-adds. One of four should be:
 * otherwise the units that multiply would have half of the work that the units for additions have. Of four vectors,
 * both additions of the last. */
VEC_INLINE bool first_by_fma(const int vectors, int r, int v)
{
    return v + 1 == vectors && (vectors == 4 || (vectors == 3 && r % 2 == 0));
}

VEC_INLINE bool second_by_fma(const int vectors, int r, int v)
{
    return v + 1 == vectors && (vectors > 1 || r % 2 == 0);
}

/* Adds x and y by either instruction. `one` is opaque to the compiler, which would turn both into an addition
 * otherwise. */
VEC_INLINE vec add_by(const bool by_fma, vec x, vec one, vec y)
{
    return by_fma ? vec_fma(x, one, y) : vec_add(x, y);
}

/* Computes `vectors` vectors from `column` on, of which `columns` columns are valid. */
VEC_INLINE void multiply(const int rows, const int vectors, const pairs_tile *tile, int64_t column, int64_t columns)
{
    static const volatile float unit = 1;
    const int64_t width = tile->width, chains = (tile->k + SGEMM_CHAIN - 1) / SGEMM_CHAIN, a_row = tile->a_row;
    const float *b = tile->b + PAIRS_HEAD * width + column, *a[(PAIRS_TILE_ROWS + 2) / 3], *ahead = tile->ahead;
    const int64_t ahead_step = column == 0 ? tile->ahead_step : 0;
    const bool both = tile->lines > 1;
    const vec one = vec_set(unit);
    float before[PAIRS_TILE_ROWS * PAIRS_WIDTH]; /* of a sum of several chains: the earlier chains */
    vec sum[PAIRS_TILE_ROWS][MAX_VECTORS];
    int64_t chain = 0;

    INLAY_CHECK(tile->k > 0 && tile->k % 2 == 0 && columns > 0);
    __asm__("" : "=m"(before)); /* GCC 14 does not see that the first chain initializes it */
    VEC_UNROLL
    for (int i = 0; 3 * i < rows; i++)
        a[i] = tile->a + 3 * i * a_row;
    if (tile->add != NULL) { /* mostly far away: prefetched before the computation */
        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++)
                vec_fetch_near(tile->add + r * tile->add_row + column + v * VEC_LANES);
        }
    }
    do {
        const int64_t pairs = tile->k / 2 * (chain + 1) / chains - tile->k / 2 * chain / chains;

        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = vec_zero();
        }
        for (int64_t k = 0; k < pairs; k++) {
            vec p[MAX_VECTORS], q[MAX_VECTORS];

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
                    sum[r][v] = vec_fma(add_by(first_by_fma(vectors, r, v), x, one, q[v]),
                                        add_by(second_by_fma(vectors, r, v), y, one, p[v]), sum[r][v]);
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

                sum[r][v] = chain > 0 ? vec_add(sum[r][v], vec_load(kept)) : sum[r][v];
                vec_store(kept, sum[r][v]);
            }
        }
    } while (++chain < chains);
    VEC_UNROLL
    for (int v = 0; v < vectors; v++) {
        const vmask mask = vec_first(columns - v * VEC_LANES);
        const int64_t at = column + v * VEC_LANES;
        const vec pairs = vec_load(tile->b + at), size = vec_load(tile->b + width + at);
        const vec total = vec_load(tile->b + 2 * width + at), low = vec_set(tile->low), high = vec_set(tile->high);
        const vec bias = tile->bias != NULL ? vec_load_some(mask, tile->bias + at) : vec_zero();

        VEC_UNROLL
        for (int row_index = 0; row_index < rows; row_index++) {
            const pairs_row *row = &tile->rows[row_index];
            const vec rest = vec_fma(vec_set(row->mean), total, bias);
            const vec s = vec_sub(vec_sub(sum[row_index][v], pairs), vec_set(row->pairs));

            sum[row_index][v] = vec_fma(vec_mul(s, vec_set(row->size)), size, rest);
        }
        if (tile->add != NULL) { /* loads first: a load waits for a store at the same address modulo 4096 */
            VEC_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r][v] = vec_add(sum[r][v], vec_load_some(mask, tile->add + r * tile->add_row + at));
        }
        if (tile->clamp) { /* this order of min and max keeps NaN */
            VEC_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r][v] = vec_min(high, vec_max(low, sum[r][v]));
        }
        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            vec_store_some(tile->c + r * tile->c_row + at, mask, sum[r][v]);
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
/* The columns are computed in several passes with the same rows. */
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

/* ------------------------------------------------------------------ preparation of rows */

/* 2^-n for numbers whose squares are about 4^n; always a normal number. *out_size: 2^n. */
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

/* Sums of a row and of its squares. */
VEC_INLINE void sum_row(const float *a, int64_t k, float *out_sum, float *out_squares)
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

static bool any_nonzero(const float *a, int64_t k)
{
    int64_t i = 0;

    while (i < k && a[i] == 0)
        i++;
    return i < k;
}

/* The sum of input[i] input[i + 1] over even i. input must be zero from k on, including a vector behind the last. */
VEC_INLINE float sum_of_pairs(const float *input, int64_t k)
{
    static const float first[SGEMM_LANES] = { 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0 };
    const vec even = vec_load(first);
    vec sum = vec_zero();

    for (int64_t i = 0; i < k; i += VEC_LANES)
        sum = vec_fma(vec_mul(vec_load(input + i), even), vec_load(input + i + 1), sum);
    return total_of(sum);
}

/* part: 1 / k. out must have space for one vector behind the vector that ends the row. */
VEC_INLINE void prepare_row(const float *a, int64_t k, float part, float *out, pairs_row *row)
{
    /* bounds of the mean square; least variance of a row, relative to its mean square */
    const float max_square = 1e30f, min_square = 1e-30f, min_variance = 1e-6f;
    float total, squares, scale = 1, inverse;
    int64_t i = 0;
    vec mean, size;

    sum_row(a, k, &total, &squares);
    total *= part;
    squares *= part;
    if (!(squares <= max_square) || (squares < min_square && any_nonzero(a, k))) { /* also if NaN */
        *row = (pairs_row){ 0 };
        for (; i < k; i += VEC_LANES)
            vec_store(out + i, vec_zero());
        return;
    }
    inverse = 0; /* a row of zeros gives exact zeros */
    if (squares > 0) {
        const float variance = squares - total * total;

        scale = scale_of(variance > min_variance * squares ? variance : min_variance * squares, &inverse);
    }
    mean = vec_set(total);
    size = vec_set(scale);
    for (; i + VEC_LANES <= k; i += VEC_LANES)
        vec_store(out + i, vec_mul(vec_sub(vec_load(a + i), mean), size));
    if (i < k) { /* lanes behind the last element become zero */
        const vmask valid = vec_first(k - i);

        vec_store(out + i, vec_select(valid, vec_mul(vec_sub(vec_load_some(valid, a + i), mean), size), vec_zero()));
        i += VEC_LANES;
    }
    vec_store(out + i, vec_zero());
    *row = (pairs_row){ .pairs = sum_of_pairs(out, k), .size = inverse, .mean = total, .paired = 1 };
}

static void prepare(const float *a, int64_t a_row, int64_t count, int64_t k, float *out, int64_t out_row,
                    pairs_row *rows)
{
    const float part = 1 / (float)k;

    INLAY_CHECK(k > 0 || count == 0);
    for (int64_t row = 0; row < count; row++)
        prepare_row(a + row * a_row, k, part, out + row * out_row, &rows[row]);
}

/* ------------------------------------------------------------------ headers of panels */

enum { MIN_EXPONENT = -250 /* of squares: the scale and its inverse are finite */ };

static void make_head(float *panel, int64_t rows, int64_t count, int64_t width)
{
    float *weights = panel + PAIRS_HEAD * width;
    double total[PAIRS_WIDTH] = { 0 }, square[PAIRS_WIDTH] = { 0 }, pairs[PAIRS_WIDTH] = { 0 };
    float scale[PAIRS_WIDTH];
    bool paired = true;

    INLAY_CHECK(width % SGEMM_LANES == 0 && width <= PAIRS_WIDTH && rows % 2 == 0 && count > 0 && count <= rows);
    for (int64_t k = 0; k < rows; k++)
        for (int64_t j = 0; j < width; j++) {
            const double x = weights[k * width + j];

            total[j] += x;
            square[j] += x * x;
        }
    for (int64_t j = 0; j < width; j++)
        paired = paired && square[j] / (double)count < 1e30; /* false also for NaN */
    for (int64_t j = 0; j < width; j++) {
        int exponent = 0;

        if (paired && square[j] > 0)
            (void)frexp(square[j] / (double)count, &exponent);
        /* the limit applies to channels that training switched off, with weights of 1e-20 and less */
        exponent = exponent < MIN_EXPONENT ? MIN_EXPONENT : exponent;
        scale[j] = paired ? ldexpf(1, -(exponent >> 1)) : 1;
    }
    for (int64_t k = 0; k < rows && paired; k += 2)
        for (int64_t j = 0; j < width; j++) {
            float *even = &weights[k * width + j], *odd = even + width;

            *even *= scale[j];
            *odd *= scale[j];
            pairs[j] += (double)*even * (double)*odd;
        }
    for (int64_t j = 0; j < width; j++) {
        panel[j] = (float)pairs[j];
        panel[width + j] = 1 / scale[j];
        panel[2 * width + j] = paired ? (float)total[j] : 0;
        panel[3 * width + j] = paired;
    }
}

static void multiply_direct(const float *restrict a, int64_t k, const float *restrict panel, int64_t width,
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
    .rows = ROWS, .tile = tiles, .prepare = prepare, .make_head = make_head, .multiply_direct = multiply_direct
};
