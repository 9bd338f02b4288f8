/* Convolutions of planes, see planes.h. */
#include "convolution/planes.h"
#include "simd/vec.h"

enum { SIDE = 5, VECTORS = 4 }; /* of windows whose weights stay in registers, or nearly so; of one row at a time */

VEC_INLINE vec clamped(const planes_rows *r, vec v)
{
    return r->clamp ? vec_min(vec_set(r->high), vec_max(vec_set(r->low), v)) : v; /* this way round, NaN stays NaN */
}

VEC_INLINE void put(const planes_rows *r, int64_t p, int64_t i, vec v)
{
    float *output = r->output + p * r->y_row + i;

    if (i + VEC_LANES <= r->n)
        vec_store(output, clamped(r, v));
    else
        vec_store_some(output, vec_first(r->n - i), clamped(r, v));
}

/* Square windows whose rows are neighbours: a vector of the input goes into all the sums that it is a part of. Each sum
 * has its terms in the order of the window. */
VEC_INLINE void square(const int side, const int stride, const int rows, const planes_rows *r)
{
    const vec first = vec_set(r->bias);
    const int64_t x_row = r->x_row;
    int64_t at[SIDE];
    vec tap[SIDE * SIDE];

    VEC_UNROLL
    for (int k = 0; k < side; k++)
        at[k] = r->at[k];
    VEC_UNROLL
    for (int k = 0; k < side * side; k++)
        tap[k] = vec_set(r->weights[k]);
    for (int64_t i = 0; i < r->n; i += VEC_LANES) {
        const float *input = r->input + i;
        vec sum[PLANES_ROWS];

        VEC_UNROLL
        for (int p = 0; p < rows; p++)
            sum[p] = first;
        VEC_UNROLL
        for (int a = 0; a < (rows - 1) * stride + side; a++, input += x_row) {
            VEC_UNROLL
            for (int k = 0; k < side; k++) {
                const vec v = vec_hold(vec_load(input + at[k]));

                VEC_UNROLL
                for (int p = 0; p < rows; p++)
                    if (a >= p * stride && a - p * stride < side)
                        sum[p] = vec_fma(v, tap[(a - p * stride) * side + k], sum[p]);
            }
        }
        VEC_UNROLL
        for (int p = 0; p < rows; p++)
            put(r, p, i, sum[p]);
    }
}

/* Any window: some vectors of a row. */
VEC_INLINE void some(const int count, const planes_rows *r, int64_t p, int64_t i)
{
    const float *weights = r->weights, *row = r->input + p * r->stride * r->x_row + i;
    vec sum[VECTORS];

    VEC_UNROLL
    for (int c = 0; c < count; c++)
        sum[c] = vec_set(r->bias);
    for (int64_t a = 0; a < r->height; a++, row += r->dilation * r->x_row)
        for (int64_t k = 0; k < r->width; k++) {
            const vec tap = vec_set(*weights++);

            VEC_UNROLL
            for (int c = 0; c < count; c++)
                sum[c] = vec_fma(vec_load(row + r->at[k] + c * VEC_LANES), tap, sum[c]);
        }
    VEC_UNROLL
    for (int c = 0; c < count; c++)
        put(r, p, i + c * VEC_LANES, sum[c]);
}

static void any(const planes_rows *r)
{
    for (int64_t p = 0; p < r->rows; p++) {
        int64_t i = 0;

        for (; i + (VECTORS - 1) * VEC_LANES < r->n; i += VECTORS * VEC_LANES)
            some(VECTORS, r, p, i);
        for (; i < r->n; i += VEC_LANES)
            some(1, r, p, i);
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
    any(r);
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
