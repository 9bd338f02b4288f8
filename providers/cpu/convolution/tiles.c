/* Tiles of products and the transforms of Winograd's algorithm, see tile_set.h. */
#include "matrix/block.h"
#include "convolution/depthwise.h"
#include "matrix/functions.h"
#include "convolution/tile_set.h"

/* ------------------------------------------------------------------ products
 *
 * Sums of a block stay in registers, beside the weights of one element and the element itself. Tiles that have more are
 * cut into blocks. */
enum {
    BLOCK_VECTORS = VEC_LANES < 16 && VEC_REGISTERS >= 32 ? 4 : 2,
    BLOCK_COLUMNS = BLOCK_VECTORS * VEC_LANES,
    SPAN = VEC_LANES == 16 ? 1 : 32 /* elements between two looks ahead: a request takes as long as a sum of 8 lanes */
};
#define MOST_ROWS(vectors)                                                                                             \
    ((VEC_REGISTERS - (vectors)-1) / (vectors) < TILE_ROWS ? (VEC_REGISTERS - (vectors)-1) / (vectors) : TILE_ROWS)

/* One row is read as fast as memory gives its weights: they are asked for ROW_AHEAD floats before they are needed, and
 * several sums run beside each other, for each addition waits for the one before it. */
enum { ROW_AHEAD = 1024, ROW_SUMS = 4 };

VEC_INLINE void one_row(const int vectors, const float *a, const float *b, int64_t depth, vec *sum)
{
    vec part[ROW_SUMS][BLOCK_VECTORS];
    int64_t k = 0;

    VEC_UNROLL
    for (int i = 0; i < ROW_SUMS; i++) {
        VEC_UNROLL
        for (int v = 0; v < vectors; v++)
            part[i][v] = vec_zero();
    }
    for (; k + ROW_SUMS <= depth; k += ROW_SUMS, b += ROW_SUMS * TILE_WIDTH) {
        VEC_UNROLL
        for (int i = 0; i < ROW_SUMS; i++) {
            const vec x = vec_set(a[k + i]);

            VEC_UNROLL
            for (int v = 0; v < vectors; v++) {
                const float *weights = b + i * TILE_WIDTH + v * VEC_LANES;

                if (v * VEC_LANES % 16 == 0)
                    vec_fetch_near(weights + ROW_AHEAD);
                part[i][v] = vec_fma(x, vec_load(weights), part[i][v]);
            }
        }
    }
    for (; k < depth; k++, b += TILE_WIDTH) {
        VEC_UNROLL
        for (int v = 0; v < vectors; v++)
            part[0][v] = vec_fma(vec_set(a[k]), vec_load(b + v * VEC_LANES), part[0][v]);
    }
    VEC_UNROLL
    for (int v = 0; v < vectors; v++)
        sum[v] = vec_add(sum[v], vec_add(vec_add(part[0][v], part[1][v]), vec_add(part[2][v], part[3][v])));
}

/* full: all columns of all vectors are there. Loops over rows are around those over vectors: where an outer loop runs
 * once, as that over a single vector would, Clang keeps the sums in memory. */
VEC_INLINE void product(const int rows, const int vectors, const bool full, const tile_product *p)
{
    const vmask tail = vec_first(p->columns - (vectors - 1) * VEC_LANES);
    const int64_t depth = p->depth;
    const char *ahead = (const char *)p->ahead;
    const bool both = p->ahead_lines > 1;
    const int64_t all = p->tap_count * depth, most = p->chain > 0 ? p->chain : SGEMM_CHAIN;
    const int64_t chains = all <= most ? 1 : (all + most - 1) / most; /* divisions take as long as 20 terms */
    const int64_t chain = chains > 1 ? (all + chains - 1) / chains : all;
    const float *rest = p->add; /* what the sums are added to: the other operand, later the sums before, too */
    int64_t rest_row = p->add_row, room = chain;
    block_source source = { .a_row = p->a_row, .b = p->b, .b_step = TILE_WIDTH };
    vec sum[TILE_ROWS][BLOCK_VECTORS];

#define LOAD(v, p) (full || (v) + 1 < vectors ? vec_load(p) : vec_load_some(tail, p))
#define STORE(v, p, x)                                                                                                 \
    do {                                                                                                               \
        if (full || (v) + 1 < vectors)                                                                                 \
            vec_store(p, x);                                                                                           \
        else                                                                                                           \
            vec_store_some(p, tail, x);                                                                                \
    } while (0)
#define ADD_REST                                                                                                       \
    if (rest != NULL) {                                                                                                \
        VEC_UNROLL                                                                                                     \
        for (int r = 0; r < rows; r++)                                                                                 \
            VEC_UNROLL                                                                                                 \
        for (int v = 0; v < vectors; v++)                                                                              \
            sum[r][v] = vec_add(sum[r][v], LOAD(v, rest + r * rest_row + v * VEC_LANES));                              \
    }
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < vectors; v++)
            sum[r][v] = vec_zero();
    }
    if (p->add != NULL) { /* mostly far away: asked for before the work, not after it */
        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++)
                if (v * VEC_LANES % 16 == 0)
                    vec_fetch_near(p->add + r * p->add_row + v * VEC_LANES);
        }
    }
    for (int64_t tap = 0; tap < p->tap_count; tap++) {
        VEC_UNROLL
        for (int i = 0; 3 * i < rows; i++)
            source.a[i] = p->a + p->taps[tap] + 3 * i * p->a_row;
        for (int64_t k = 0; k < depth;) {
            const int64_t end = depth - k < room ? depth : k + room;

            room -= end - k;
            if (rows == 1 && p->lone) {
                one_row(vectors, source.a[0], source.b, end - k, sum[0]);
                source.a[0] += end - k;
                source.b += (end - k) * TILE_WIDTH;
                k = end;
            }
            while (k < end && ahead != NULL) {
                const int64_t n = SPAN == 1 || end - k < SPAN ? 1 : SPAN;

                for (int64_t i = 0; i < n; i++) {
                    vec_fetch_far(ahead);
                    if (both)
                        vec_fetch_far(ahead + 64);
                    ahead += both ? 128 : 64;
                }
                block_sum(rows, vectors, true, &source, n, 0, 0, sum[0], BLOCK_VECTORS);
                k += n;
            }
            block_sum(rows, vectors, true, &source, end - k, 0, 0, sum[0], BLOCK_VECTORS);
            k = end;
            if (room > 0 || (k == depth && tap + 1 == p->tap_count))
                continue;
            /* a long sum is made of parts, for the sake of its error; the parts before wait in C */
            ADD_REST
            VEC_UNROLL
            for (int r = 0; r < rows; r++) {
                VEC_UNROLL
                for (int v = 0; v < vectors; v++) {
                    STORE(v, p->c + r * p->c_row + v * VEC_LANES, sum[r][v]);
                    sum[r][v] = vec_zero();
                }
            }
            rest = p->c;
            rest_row = p->c_row;
            room = chain;
        }
    }
    ADD_REST
    if (p->bias != NULL) { /* last: sums beside a large one would lose digits */
        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = vec_add(sum[r][v], LOAD(v, p->bias + v * VEC_LANES));
        }
    }
    if (p->clamp) {
        const vec low = vec_set(p->low), high = vec_set(p->high);

        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            VEC_UNROLL
            for (int v = 0; v < vectors; v++) /* this way round, NaN stays NaN */
                sum[r][v] = vec_min(high, vec_max(low, sum[r][v]));
        }
    }
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < vectors; v++)
            STORE(v, p->c + r * p->c_row + v * VEC_LANES, sum[r][v]);
    }
#undef ADD_REST
#undef STORE
#undef LOAD
}

#define CELLS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define CELL_OF(r, v, name, full)                                                                                      \
    KERNEL_PART(void, product_##r##_##name, const tile_product *p)                                                     \
    {                                                                                                                  \
        if (v <= BLOCK_VECTORS && r <= MOST_ROWS(v))                                                                   \
            product(r, v, full, p);                                                                                    \
    }
#define CELL(r)                                                                                                        \
    CELL_OF(r, 1, 1, false)                                                                                            \
    CELL_OF(r, 2, 2, false)                                                                                            \
    CELL_OF(r, 3, 3, false)                                                                                            \
    CELL_OF(r, 4, 4, false)                                                                                            \
    CELL_OF(r, BLOCK_VECTORS, full, true)
CELLS(CELL)
#undef CELL
#undef CELL_OF

static void block(const tile_product *p, int rows)
{
    static void (*const table[][5])(const tile_product *) = {
#define CELL(r)                                                                                                        \
    { KERNEL_PART_OF(product_##r##_1), KERNEL_PART_OF(product_##r##_2), KERNEL_PART_OF(product_##r##_3),               \
      KERNEL_PART_OF(product_##r##_4), KERNEL_PART_OF(product_##r##_full) },
        CELLS(CELL)
#undef CELL
    };

    table[rows - 1][p->columns == BLOCK_COLUMNS ? 4 : (p->columns - 1) / VEC_LANES](p);
}

#if VEC_NARROW
static void multiply(const tile_product *p, int rows)
{
    const int64_t chain = p->chain > 0 ? p->chain : SGEMM_CHAIN;

    if (p->columns <= 3 * VEC_LANES / 2 && !(p->lone && rows == 1) && p->depth % 2 == 0 &&
        p->tap_count * p->depth <= 2 * chain) /* there are two sums, each of so many terms */
        KERNEL(tiles_narrow)(p, rows);
    else
        block(p, rows);
}
#else
static void multiply(const tile_product *p, int rows)
{
    for (int64_t column = 0; column < p->columns; column += BLOCK_COLUMNS) {
        const int64_t columns = p->columns - column < BLOCK_COLUMNS ? p->columns - column : BLOCK_COLUMNS;
        const int vectors = (int)((columns + VEC_LANES - 1) / VEC_LANES);
        const int most = vectors == 1 ? MOST_ROWS(1) : vectors == 2 ? MOST_ROWS(2) : MOST_ROWS(BLOCK_VECTORS);
        const int least = rows <= most ? rows : rows <= 2 * most ? rows / 2 : rows / 3; /* constants: no divisions */
        const int blocks = rows <= most ? 1 : rows <= 2 * most ? 2 : 3;

        for (int i = 0, first = 0, past; i < blocks; i++, first = past) {
            tile_product product = *p;

            past = i + 1 < blocks ? first + least + (i < rows - least * blocks) : rows;

            product.a += first * product.a_row;
            product.b += column;
            product.ahead = column == 0 && i == 0 ? product.ahead : NULL;
            product.bias = product.bias != NULL ? product.bias + column : NULL;
            product.add = product.add != NULL ? product.add + first * product.add_row + column : NULL;
            product.c += first * product.c_row + column;
            product.columns = columns;
            block(&product, past - first);
        }
    }
}
#endif

/* ------------------------------------------------------------------ functions */

VEC_INLINE void rows_of(const sgemm_fn fn, float alpha, float *c, int64_t c_row, int64_t rows, int64_t columns)
{
    const vec k = vec_set(-1.44269504f * alpha);
    const int64_t rest = columns % VEC_LANES;
    const vmask tail = vec_first(rest);

    for (int64_t r = 0; r < rows; r++, c += c_row) {
        int64_t j = 0;

        for (; j + VEC_LANES <= columns; j += VEC_LANES)
            vec_store(c + j, function_of(fn, vec_load(c + j), k));
        if (rest != 0)
            vec_store_some(c + j, tail, function_of(fn, vec_load_some(tail, c + j), k));
    }
}

static bool function(const sgemm_post *post, float *c, int64_t c_row, int64_t rows, int64_t columns)
{
    if (post->fn == SGEMM_SWISH)
        rows_of(SGEMM_SWISH, post->alpha, c, c_row, rows, columns);
    else if (post->fn == SGEMM_SIGMOID)
        rows_of(SGEMM_SIGMOID, 1, c, c_row, rows, columns);
    else if (post->fn == SGEMM_HARDSWISH)
        rows_of(SGEMM_HARDSWISH, 1, c, c_row, rows, columns);
    else
        return false;
    return true;
}

/* ------------------------------------------------------------------ Winograd's transforms
 *
 * F(4x4, 3x3) by the points 0, +-A, +-B and infinity, F(2x2, 3x3) by 0, +-1 and infinity. A and B are chosen for small
 * errors: some 1.5e-6 of the largest result for 256 channels, where the sum as written has 1e-6. */
#define A 0.625f
#define B 1.5f
#define AA (A * A)
#define BB (B * B)

VEC_INLINE void points_in(const int points, const vec *d, const int s, vec *t)
{
    if (points == 4) {
        t[0] = d[0] - d[2 * s];
        t[1] = d[s] + d[2 * s];
        t[2] = d[2 * s] - d[s];
        t[3] = d[s] - d[3 * s];
    } else {
        const vec even_a = d[4 * s] - BB * d[2 * s], odd_a = A * d[3 * s] - (A * BB) * d[s];
        const vec even_b = d[4 * s] - AA * d[2 * s], odd_b = B * d[3 * s] - (B * AA) * d[s];

        t[0] = (AA * BB) * d[0] - (AA + BB) * d[2 * s] + d[4 * s];
        t[1] = even_a + odd_a;
        t[2] = even_a - odd_a;
        t[3] = even_b + odd_b;
        t[4] = even_b - odd_b;
        t[5] = (AA * BB) * d[s] - (AA + BB) * d[3 * s] + d[5 * s];
    }
}

VEC_INLINE void points_out(const int points, const vec *m, const int s, vec *y)
{
    if (points == 4) {
        y[0] = m[0] + m[s] + m[2 * s];
        y[1] = m[s] - m[2 * s] - m[3 * s];
    } else {
        const vec sum_a = m[s] + m[2 * s], sum_b = m[3 * s] + m[4 * s];
        const vec gap_a = m[s] - m[2 * s], gap_b = m[3 * s] - m[4 * s];

        y[0] = m[0] + sum_a + sum_b;
        y[1] = A * gap_a + B * gap_b;
        y[2] = AA * sum_a + BB * sum_b;
        y[3] = (A * AA) * gap_a + (B * BB) * gap_b + m[5 * s];
    }
}

#define LOAD(p) (full ? vec_load(p) : vec_load_some(mask, p))
VEC_INLINE void lines_in(const int points, const bool full, const vmask mask, const float *const *x, int64_t c,
                         float *v, int64_t step)
{
    vec d[TILE_ALPHA * TILE_ALPHA], t[TILE_ALPHA * TILE_ALPHA], u[TILE_ALPHA];

    for (int i = 0; i < points; i++) { /* along rows: t[i][.] = d[i][.] B */
        VEC_UNROLL
        for (int j = 0; j < points; j++)
            d[j] = LOAD(x[i * points + j] + c);
        points_in(points, d, 1, t + i * points);
    }
    for (int j = 0; j < points; j++) {
        points_in(points, t + j, points, u);
        VEC_UNROLL
        for (int i = 0; i < points; i++)
            vec_store(v + (i * points + j) * step + c, u[i]);
    }
}

VEC_INLINE void windows_in(const int points, const float *const *x, int64_t channels, float *v, int64_t step)
{
    int64_t c = 0;

    for (; !VEC_HAS_MASKS && c + VEC_LANES <= channels; c += VEC_LANES)
        lines_in(points, true, vec_first(VEC_LANES), x, c, v, step);
    for (; c < channels; c += VEC_LANES)
        lines_in(points, false, vec_first(channels - c), x, c, v, step);
}

static void window_in(const float *const *x, int64_t channels, int64_t points, float *v, int64_t step)
{
    if (points == 4)
        windows_in(4, x, channels, v, step);
    else
        windows_in(6, x, channels, v, step);
}

VEC_INLINE void lines_out(const int points, const bool full, const vmask mask, const tile_window *window, int64_t c)
{
    const vec low = vec_set(window->low), high = vec_set(window->high);
    const vec first = window->bias != NULL ? LOAD(window->bias + c) : vec_zero();
    vec d[TILE_ALPHA], t[TILE_ALPHA * TILE_ALPHA], u[TILE_ALPHA];

    for (int i = 0; i < points; i++) {
        VEC_UNROLL
        for (int j = 0; j < points; j++)
            d[j] = vec_load(window->m + (i * points + j) * window->step + c);
        points_out(points, d, 1, t + i * (points - 2));
    }
    for (int j = 0; j < points - 2 && j < window->columns; j++) {
        points_out(points, t + j, points - 2, u);
        for (int i = 0; i < points - 2 && i < window->rows; i++) {
            float *output = window->output + i * window->y_row + j * window->y_pixel + c;
            vec r = vec_add(u[i], first);

            if (window->add != NULL)
                r = vec_add(r, LOAD(window->add + i * window->add_row + j * window->add_pixel + c));
            if (window->clamp)
                r = vec_min(high, vec_max(low, r));
            if (full)
                vec_store(output, r);
            else
                vec_store_some(output, mask, r);
        }
    }
}
#undef LOAD

VEC_INLINE void windows_out(const int points, const tile_window *window)
{
    int64_t c = 0;

    for (; !VEC_HAS_MASKS && c + VEC_LANES <= window->channels; c += VEC_LANES)
        lines_out(points, true, vec_first(VEC_LANES), window, c);
    for (; c < window->channels; c += VEC_LANES)
        lines_out(points, false, vec_first(window->channels - c), window, c);
}

static void window_out(const tile_window *window)
{
    if (window->points == 4)
        windows_out(4, window);
    else
        windows_out(6, window);
}

/* G w along one axis. */
VEC_INLINE void points_of(const int points, const vec *w, const int s, vec *t)
{
    if (points == 4) {
        const vec outer = 0.5f * (w[0] + w[2 * s]), middle = 0.5f * w[s];

        t[0] = w[0];
        t[1] = outer + middle;
        t[2] = outer - middle;
        t[3] = w[2 * s];
    } else {
        const float na = 1 / (2 * AA * (AA - BB)), nb = 1 / (2 * BB * (BB - AA));
        const vec even_a = na * w[0] + (na * AA) * w[2 * s], odd_a = (na * A) * w[s];
        const vec even_b = nb * w[0] + (nb * BB) * w[2 * s], odd_b = (nb * B) * w[s];

        t[0] = (1 / (AA * BB)) * w[0];
        t[1] = even_a + odd_a;
        t[2] = even_a - odd_a;
        t[3] = even_b + odd_b;
        t[4] = even_b - odd_b;
        t[5] = w[2 * s];
    }
}

VEC_INLINE void windows_of(const int points, const vec *w, float *u, int64_t u_step)
{
    vec t[TILE_ALPHA * 3], r[TILE_ALPHA];

    for (int i = 0; i < 3; i++) { /* rows of the window: t[b][i] */
        points_of(points, w + 3 * i, 1, r);
        for (int b = 0; b < points; b++)
            t[b * 3 + i] = r[b];
    }
    for (int b = 0; b < points; b++) {
        points_of(points, t + b * 3, 1, r);
        for (int a = 0; a < points; a++)
            vec_store(u + (a * points + b) * u_step, r[a]);
    }
}

static void window_weights(const char *w, int64_t step, int64_t tap, int64_t count, int64_t points, float *u,
                           int64_t u_step)
{
    for (int64_t v = 0; v < TILE_WIDTH; v += VEC_LANES) {
        float gathered[9][VEC_LANES] __attribute__((aligned(64))) = { { 0 } };
        vec lines[9];

        if (step == 1) { /* outputs lie side by side */
            for (int64_t t = 0; t < 9; t++)
                lines[t] = vec_load_some(vec_first(count - v), (const float *)(const void *)w + t * tap + v);
        }
        for (int64_t o = v; step != 1 && o < count && o < v + VEC_LANES; o++)
            for (int64_t t = 0; t < 9; t++)
                memcpy(&gathered[t][o - v], w + (o * step + t * tap) * (int64_t)sizeof(float), sizeof(float));
        if (step != 1)
            memcpy(lines, gathered, sizeof lines);
        if (points == 4)
            windows_of(4, lines, u + v, u_step);
        else
            windows_of(6, lines, u + v, u_step);
    }
}

const tile_set KERNEL(tiles) = {
    multiply, function, KERNEL(depthwise_block), window_in, window_out, window_weights,
};
