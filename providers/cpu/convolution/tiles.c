/* Tiles of GEMMs and the transforms of Winograd's algorithm, see tile_set.h. */
#include "cpu/matrix/block.h"
#include "cpu/convolution/depthwise.h"
#include "cpu/matrix/functions.h"
#include "cpu/convolution/tile_set.h"
#include "inlay/check.h"

/* Products.
 *
 * The sums of a block stay in registers, together with the weights of one element and the element itself. Larger
 * tiles are divided into blocks. */
enum {
    BLOCK_VECTORS = VEC_LANES < 16 && VEC_REGISTERS >= 32 ? 4 : 2,
    BLOCK_COLUMNS = BLOCK_VECTORS * VEC_LANES,
    SPAN = VEC_LANES == 16 ? 1 : 32 /* elements between two prefetches: a prefetch takes as long as a sum of 8 lanes */
};
#define MAX_ROWS(vectors)                                                                                              \
    ((VEC_REGISTERS - (vectors)-1) / (vectors) < TILE_ROWS ? (VEC_REGISTERS - (vectors)-1) / (vectors) : TILE_ROWS)

/* One row is bound by the transfer of its weights: they are prefetched ROW_AHEAD floats ahead, and several
 * independent sums run, because each addition waits for the one before it. */
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

/* full: all columns of all vectors are valid. Loops over rows enclose those over vectors: if an outer loop runs once,
 * as over a single vector, Clang keeps the sums in memory. */
VEC_INLINE void product(const int rows, const int vectors, const bool full, const tile_product *p)
{
    const vmask tail = vec_first(p->columns - (vectors - 1) * VEC_LANES);
    const int64_t depth = p->depth;
    const char *ahead = (const char *)p->ahead;
    const bool both = p->ahead_lines > 1;
    const int64_t all = p->tap_count * depth, max_chain = p->chain > 0 ? p->chain : SGEMM_CHAIN;
    /* a division takes as long as 20 terms */
    const int64_t chains = all <= max_chain ? 1 : (all + max_chain - 1) / max_chain;
    const int64_t chain = chains > 1 ? (all + chains - 1) / chains : all;
    const float *rest = p->add; /* added to the sums: the other operand, later also the sums of earlier chains */
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
    if (p->add != NULL) { /* mostly far away: prefetched before the computation */
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
            /* A long sum is divided into chains to limit its error. The earlier chains are stored in C. */
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
    if (p->bias != NULL) { /* last: adding to a large bias would cost the sums digits */
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
            for (int v = 0; v < vectors; v++) /* this order of min and max keeps NaN */
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
        if (v <= BLOCK_VECTORS && r <= MAX_ROWS(v))                                                                    \
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

static void block(const tile_product *product, int rows)
{
    static void (*const table[][5])(const tile_product *) = {
#define CELL(r)                                                                                                        \
    { KERNEL_PART_OF(product_##r##_1), KERNEL_PART_OF(product_##r##_2), KERNEL_PART_OF(product_##r##_3),               \
      KERNEL_PART_OF(product_##r##_4), KERNEL_PART_OF(product_##r##_full) },
        CELLS(CELL)
#undef CELL
    };

    INLAY_CHECK(rows > 0 && rows <= TILE_ROWS && product->columns > 0 && product->columns <= TILE_WIDTH);
    table[rows - 1][product->columns == BLOCK_COLUMNS ? 4 : (product->columns - 1) / VEC_LANES](product);
}

#if VEC_NARROW
static void multiply(const tile_product *p, int rows)
{
    const int64_t chain = p->chain > 0 ? p->chain : SGEMM_CHAIN;

    if (p->columns <= 3 * VEC_LANES / 2 && !(p->lone && rows == 1) && p->depth % 2 == 0 &&
        p->tap_count * p->depth <= 2 * chain) /* the narrow kernel has two sums, each of at most `chain` terms */
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
        const int max_rows = vectors == 1 ? MAX_ROWS(1) : vectors == 2 ? MAX_ROWS(2) : MAX_ROWS(BLOCK_VECTORS);
        /* at most 3 blocks: only divisions by constants */
        const int rows_each = rows <= max_rows ? rows : rows <= 2 * max_rows ? rows / 2 : rows / 3;
        const int blocks = rows <= max_rows ? 1 : rows <= 2 * max_rows ? 2 : 3;

        for (int i = 0, first = 0, past; i < blocks; i++, first = past) {
            tile_product product = *p;

            past = i + 1 < blocks ? first + rows_each + (i < rows - rows_each * blocks) : rows;

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

/* Winograd's transforms.
 *
 * F(4x4, 3x3) with the points 0, +-A, +-B and infinity, F(2x2, 3x3) with 0, +-1 and infinity. A and B minimize the
 * error: about 1.5e-6 of the largest result for 256 channels, where the direct sum has 1e-6. */
#define A 0.625f
#define B 1.5f
#define AA (A * A)
#define BB (B * B)

VEC_INLINE void transform_input(const int points, const vec *d, const int s, vec *t)
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

VEC_INLINE void transform_output(const int points, const vec *m, const int s, vec *y)
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
        transform_input(points, d, 1, t + i * points);
    }
    for (int j = 0; j < points; j++) {
        transform_input(points, t + j, points, u);
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

KERNEL_PART(void, window_in, const float *const *x, int64_t channels, int64_t points, float *v, int64_t step)
{
    INLAY_CHECK(points == 4 || points == 6);
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
        transform_output(points, d, 1, t + i * (points - 2));
    }
    for (int j = 0; j < points - 2 && j < window->columns; j++) {
        transform_output(points, t + j, points - 2, u);
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

KERNEL_PART(void, window_out, const tile_window *window)
{
    INLAY_CHECK(window->points == 4 || window->points == 6);
    if (window->points == 4)
        windows_out(4, window);
    else
        windows_out(6, window);
}

/* Multiplies by G along one axis. */
VEC_INLINE void transform_weights(const int points, const vec *w, const int s, vec *t)
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

    for (int i = 0; i < 3; i++) { /* along the rows of the filter: t[b][i] */
        transform_weights(points, w + 3 * i, 1, r);
        for (int b = 0; b < points; b++)
            t[b * 3 + i] = r[b];
    }
    for (int b = 0; b < points; b++) {
        transform_weights(points, t + b * 3, 1, r);
        for (int a = 0; a < points; a++)
            vec_store(u + (a * points + b) * u_step, r[a]);
    }
}

KERNEL_PART(void, window_weights, const char *w, int64_t step, int64_t tap, int64_t count, int64_t points, float *u,
            int64_t u_step)
{
    INLAY_CHECK(count <= TILE_WIDTH && (points == 4 || points == 6));
    for (int64_t v = 0; v < TILE_WIDTH; v += VEC_LANES) {
        float gathered[9][VEC_LANES] __attribute__((aligned(64))) = { { 0 } };
        vec lines[9];

        if (step == 1) { /* output channels are contiguous */
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
    multiply,
    function,
    KERNEL(depthwise_block),
    KERNEL_PART_OF(window_in),
    KERNEL_PART_OF(window_out),
    KERNEL_PART_OF(window_weights),
};
