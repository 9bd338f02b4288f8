/* Convolutions of row-major images, see planes.h. */
#include "cpu/convolution/planes.h"
#include "simd/vec.h"

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

/* Square kernels without dilation: an input vector is read once and added to all sums that it contributes to. Each
 * sum adds its terms in the order of the kernel's taps. */
VEC_INLINE void square(const int side, const int stride, const int rows, const planes_rows *args)
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
    for (int64_t i = 0; i < args->n; i += VEC_LANES) {
        const float *input = args->input + i;
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
            put(args, row, i, sum[row]);
    }
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
        planes_rows one = *r;                                                                                          \
                                                                                                                       \
        if (r->rows == PLANES_ROWS) {                                                                                  \
            square(side, stride, PLANES_ROWS, r);                                                                      \
            return;                                                                                                    \
        }                                                                                                              \
        one.rows = 1;                                                                                                  \
        for (int32_t p = 0; p < r->rows; p++) {                                                                        \
            square(side, stride, 1, &one);                                                                             \
            one.input += (stride)*r->x_row;                                                                            \
            one.output += r->y_row;                                                                                    \
        }                                                                                                              \
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

KERNEL_PART(void, plane_every, const float *restrict x, int64_t step, float *restrict y, int64_t n)
{
    if (step == 1)
        memcpy(y, x, (size_t)n * sizeof *y);
    else if (step == 2)
        for (int64_t i = 0; i < n; i++)
            y[i] = x[2 * i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i * step];
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

KERNEL_PART(void, plane_add, const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

const plane_set KERNEL(planes) = { KERNEL_PART_OF(plane_rows), KERNEL_PART_OF(plane_every),
                                   KERNEL_PART_OF(plane_join), KERNEL_PART_OF(plane_put_columns),
                                   KERNEL_PART_OF(plane_fill), KERNEL_PART_OF(plane_add) };
