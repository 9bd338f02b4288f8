/* Convolutions of row-major images, see planes.h. */
#include "cpu/convolution/planes.h"
#include "simd/vec_permute.h"

/* largest kernel whose weights stay (nearly) in registers; vectors of one row at a time */
enum { SIDE = 5, VECTORS = 4 };

VEC_INLINE vec clamped(const planes_rows *rows, vec v)
{
    /* this order of min and max keeps NaN */
    return rows->clamp ? vec_min(vec_set(rows->high), vec_max(vec_set(rows->low), v)) : v;
}

VEC_INLINE void put(const planes_rows *rows, int64_t row, int64_t i, vec v)
{
    float *output = rows->output + row * rows->y_row + i;

    if (i + VEC_LANES <= rows->n)
        vec_store(output, clamped(rows, v));
    else
        vec_store_some(output, vec_first(rows->n - i), clamped(rows, v));
}

/* Square kernels without dilation, groups of `rows` output rows from row p on; returns the first row that is left. An
 * input vector is read once and added to all sums that it contributes to. Each sum adds its terms in the order of the
 * kernel's taps. */
VEC_INLINE int64_t square(const int side, const int stride, const int rows, const planes_rows *args, int64_t p)
{
    const vec first = vec_set(args->bias);
    const int64_t x_row = args->x_row;
    int64_t at[SIDE];
    vec tap[SIDE * SIDE];

    VEC_UNROLL
    for (int k = 0; k < side; k++)
        at[k] = args->at[k];
    VEC_UNROLL
    for (int k = 0; k < side * side; k++)
        tap[k] = vec_set(args->weights[k]);
    for (; p + rows <= args->rows; p += rows) {
        for (int64_t i = 0; i < args->n; i += VEC_LANES) {
            const float *input = args->input + p * stride * x_row + i;
            vec sum[PLANES_ROWS];

            VEC_UNROLL
            for (int row = 0; row < rows; row++)
                sum[row] = first;
            VEC_UNROLL
            for (int input_row = 0; input_row < (rows - 1) * stride + side; input_row++, input += x_row) {
                VEC_UNROLL
                for (int k = 0; k < side; k++) {
                    const vec v = vec_hold(vec_load(input + at[k]));

                    VEC_UNROLL
                    for (int row = 0; row < rows; row++)
                        if (input_row >= row * stride && input_row - row * stride < side)
                            sum[row] = vec_fma(v, tap[(input_row - row * stride) * side + k], sum[row]);
                }
            }
            VEC_UNROLL
            for (int row = 0; row < rows; row++)
                put(args, p + row, i, sum[row]);
        }
    }
    return p;
}

/* Computes `count` vectors of output row p from column i on, for any kernel size. */
VEC_INLINE void row_vectors(const int count, const planes_rows *args, int64_t p, int64_t i)
{
    const float *weights = args->weights, *row = args->input + p * args->stride * args->x_row + i;
    vec sum[VECTORS];

    VEC_UNROLL
    for (int vector = 0; vector < count; vector++)
        sum[vector] = vec_set(args->bias);
    for (int64_t kernel_row = 0; kernel_row < args->height; kernel_row++, row += args->dilation * args->x_row)
        for (int64_t k = 0; k < args->width; k++) {
            const vec tap = vec_set(*weights++);

            VEC_UNROLL
            for (int vector = 0; vector < count; vector++)
                sum[vector] = vec_fma(vec_load(row + args->at[k] + vector * VEC_LANES), tap, sum[vector]);
        }
    VEC_UNROLL
    for (int vector = 0; vector < count; vector++)
        put(args, p, i + vector * VEC_LANES, sum[vector]);
}

static void any_kernel(const planes_rows *rows)
{
    for (int64_t row = 0; row < rows->rows; row++) {
        int64_t i = 0;

        for (; i + (VECTORS - 1) * VEC_LANES < rows->n; i += VECTORS * VEC_LANES)
            row_vectors(VECTORS, rows, row, i);
        for (; i < rows->n; i += VEC_LANES)
            row_vectors(1, rows, row, i);
    }
}

#define SQUARES(X) X(3, 1) X(3, 2) X(5, 1) X(5, 2)
#define CELL(side, stride)                                                                                             \
    static void square_##side##_##stride(const planes_rows *r)                                                         \
    {                                                                                                                  \
        (void)square(side, stride, 1, r, square(side, stride, PLANES_ROWS, r, 0));                                     \
    }
SQUARES(CELL)
#undef CELL

KERNEL_PART(void, plane_rows, const planes_rows *r)
{
#define CELL(side, step)                                                                                               \
    if (r->height == (side) && r->width == (side) && r->stride == (step) && r->dilation == 1) {                        \
        square_##side##_##step(r);                                                                                     \
        return;                                                                                                        \
    }
    SQUARES(CELL)
#undef CELL
    any_kernel(r);
}

/* Vectors of several output rows at once, and of a single one. */
enum { LONG_VECTORS = VEC_REGISTERS >= 32 ? 4 : 2, LONE_VECTORS = 8 };

/* Adds the products of an input row and one row of taps to `rows` output rows: taps at `weights` for the first, those
 * `width` before for the next. totals: [rows][vectors]. */
VEC_INLINE void add_taps(const int rows, const int vectors, const planes_rows *args, const float *input,
                         const float *weights, vec *totals)
{
    for (int64_t from = 0, end; from < args->width; from = end) {
        vec sum[PLANES_ROWS * LONG_VECTORS > LONE_VECTORS ? PLANES_ROWS * LONG_VECTORS : LONE_VECTORS];

        end = args->width - from < args->chain ? args->width : from + args->chain;
        VEC_UNROLL
        for (int s = 0; s < rows * vectors; s++)
            sum[s] = vec_zero();
        for (int64_t k = from; k < end; k++) {
            vec v[LONE_VECTORS];

            VEC_UNROLL
            for (int vector = 0; vector < vectors; vector++)
                v[vector] = vec_hold(vec_load(input + k * args->x_step + vector * VEC_LANES));
            VEC_UNROLL
            for (int row = 0; row < rows; row++) {
                const vec tap = vec_set(weights[k - row * args->width]);

                VEC_UNROLL
                for (int vector = 0; vector < vectors; vector++)
                    sum[row * vectors + vector] = vec_fma(v[vector], tap, sum[row * vectors + vector]);
            }
        }
        VEC_UNROLL
        for (int s = 0; s < rows * vectors; s++)
            totals[s] = vec_add(totals[s], sum[s]);
    }
}

/* Computes `vectors` vectors of output row p from column i on. */
VEC_INLINE void lone_row(const int vectors, const planes_rows *args, int64_t p, int64_t i)
{
    const float *input = args->input + p * args->stride * args->x_row + i;
    vec totals[LONE_VECTORS];

    for (int vector = 0; vector < vectors; vector++)
        totals[vector] = vec_set(args->bias);
    for (int64_t kernel_row = 0; kernel_row < args->height; kernel_row++, input += args->dilation * args->x_row)
        add_taps(1, vectors, args, input, args->weights + kernel_row * args->width, totals);
    for (int vector = 0; vector < vectors; vector++)
        put(args, p, i + vector * VEC_LANES, totals[vector]);
}

/* Computes `vectors` vectors of PLANES_ROWS output rows without stride and dilation: an input row is added to all
 * output rows to which it contributes. */
VEC_INLINE void some_rows(const int vectors, const planes_rows *args, int64_t i)
{
    vec totals[PLANES_ROWS * LONG_VECTORS];

    for (int s = 0; s < PLANES_ROWS * vectors; s++)
        totals[s] = vec_set(args->bias);
    for (int64_t y = 0; y < args->height + PLANES_ROWS - 1; y++) {
        const int64_t first = y < args->height ? 0 : y - args->height + 1,
                      count = (y < PLANES_ROWS ? y + 1 : PLANES_ROWS) - first;
        const float *input = args->input + y * args->x_row + i, *weights = args->weights + (y - first) * args->width;
        vec *of_first = totals + first * vectors;

        if (count == 4)
            add_taps(4, vectors, args, input, weights, of_first);
        else if (count == 3)
            add_taps(3, vectors, args, input, weights, of_first);
        else if (count == 2)
            add_taps(2, vectors, args, input, weights, of_first);
        else
            add_taps(1, vectors, args, input, weights, of_first);
    }
    for (int64_t s = 0; s < PLANES_ROWS * vectors; s++)
        put(args, s / vectors, i + s % vectors * VEC_LANES, totals[s]);
}

KERNEL_PART(void, plane_long_rows, const planes_rows *r)
{
    const bool together = r->rows == PLANES_ROWS && r->stride == 1 && r->dilation == 1;
    int64_t i = 0;

    for (; together && i + (LONG_VECTORS - 1) * VEC_LANES < r->n; i += LONG_VECTORS * VEC_LANES)
        some_rows(LONG_VECTORS, r, i);
    for (; together && i < r->n; i += VEC_LANES)
        some_rows(1, r, i);
    for (int64_t row = 0; row < r->rows && !together; row++) {
        for (i = 0; i + (LONE_VECTORS - 1) * VEC_LANES < r->n; i += LONE_VECTORS * VEC_LANES)
            lone_row(LONE_VECTORS, r, row, i);
        for (; i < r->n; i += VEC_LANES)
            lone_row(1, r, row, i);
    }
}

/* Vectors of the weighted sum of some planes from element i on; `some`: the elements of the last one. */
VEC_INLINE void mix_vectors(const int count, const planes_rows *r, int64_t i, const bool full, const vmask some)
{
    vec sum[VECTORS];

    VEC_UNROLL
    for (int v = 0; v < count; v++)
        sum[v] = vec_set(r->bias);
    for (int64_t k = 0; k < r->width; k++) {
        const float *input = r->input + k * r->x_step + i;
        const vec tap = vec_set(r->weights[k]);

        VEC_UNROLL
        for (int v = 0; v < count; v++)
            sum[v] = vec_fma(full ? vec_load(input + v * VEC_LANES) : vec_load_some(some, input), tap, sum[v]);
    }
    VEC_UNROLL
    for (int v = 0; v < count; v++)
        put(r, 0, i + v * VEC_LANES, sum[v]);
}

KERNEL_PART(void, plane_mix, const planes_rows *r)
{
    int64_t i = 0;

    for (; i + VECTORS * VEC_LANES <= r->n; i += VECTORS * VEC_LANES)
        mix_vectors(VECTORS, r, i, true, vec_first(VEC_LANES));
    for (; i + VEC_LANES <= r->n; i += VEC_LANES)
        mix_vectors(1, r, i, true, vec_first(VEC_LANES));
    if (i < r->n)
        mix_vectors(1, r, i, false, vec_first(r->n - i));
}

KERNEL_PART(void, plane_part, const float *input, float *even, float *odd, int64_t n)
{
    int64_t i = 0;

    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        const vec x = vec_load(input + 2 * i), y = vec_load(input + 2 * i + VEC_LANES);

        vec_store(even + i, vec_even(x, y));
        vec_store(odd + i, vec_odd(x, y));
    }
    if (i < n) {
        const vmask some = vec_first(n - i);
        const vec x = vec_load_some(vec_first(2 * (n - i)), input + 2 * i),
                  y = vec_load_some(vec_first(2 * (n - i) - VEC_LANES), input + 2 * i + VEC_LANES);

        vec_store_some(even + i, some, vec_even(x, y));
        vec_store_some(odd + i, some, vec_odd(x, y));
    }
}

KERNEL_PART(void, plane_join, const float *restrict x, int64_t part, int64_t step, float *restrict y, int64_t n)
{
    const float *odd = x + part;

    if (step == 2)
        for (int64_t i = 0; i < n / 2; i++) {
            y[2 * i] = x[i];
            y[2 * i + 1] = odd[i];
        }
    for (int64_t p = 0; p < step && (step > 2 || n % 2 != 0); p++)
        for (int64_t i = step == 2 ? n / 2 : 0; i * step + p < n; i++)
            y[i * step + p] = x[p * part + i];
}

KERNEL_PART(void, plane_put_columns, const float *x, int64_t n, float *panels, int64_t step, int64_t at)
{
    for (int64_t run; n > 0; n -= run, x += run, at += run) {
        const int64_t off = at % PLANES_PANEL;
        float *to = panels + at / PLANES_PANEL * step + off;
        int64_t i = 0;

        run = PLANES_PANEL - off < n ? PLANES_PANEL - off : n;
        for (; i + VEC_LANES <= run; i += VEC_LANES)
            vec_store(to + i, vec_load(x + i));
        if (i < run)
            vec_store_some(to + i, vec_first(run - i), vec_load_some(vec_first(run - i), x + i));
    }
}

KERNEL_PART(void, plane_fill, float *y, float v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = v;
}

/* The compiler's vectors, not masked ones: the sums of the next tap are read right after they are stored, and loads of
 * masked stores wait. */
KERNEL_PART(void, plane_add, const float *restrict input, int64_t step, const plane_tap *taps, int64_t count,
            float *restrict output)
{
    for (int64_t k = 0; k < count; k++) {
        const float *x = input + k * step + taps[k].from;
        float *y = output + taps[k].to;

        for (int64_t i = 0; i < taps[k].n; i++)
            y[i] += x[i];
    }
}

const plane_set KERNEL(planes) = { KERNEL_PART_OF(plane_rows), KERNEL_PART_OF(plane_long_rows),
                                   KERNEL_PART_OF(plane_mix),  KERNEL_PART_OF(plane_part),
                                   KERNEL_PART_OF(plane_join), KERNEL_PART_OF(plane_put_columns),
                                   KERNEL_PART_OF(plane_fill), KERNEL_PART_OF(plane_add) };
