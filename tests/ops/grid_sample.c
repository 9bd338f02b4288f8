/* grid_sample.c - GridSample of float images, which processes points in blocks, compared with the path for doubles,
 * which processes single points: all padding modes, both values of align_corners, points inside and far outside. All
 * tensors end at a guard page. */
#include "guard.h"
#include "kernel_case.h"
#include "random.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t seed = 77;

/* Runs the kernel on images of type dtype, with points of type grid_dtype. */
static void sample_at(inlay_dtype grid_dtype, inlay_dtype dtype, const char *mode, const char *padding, bool corners,
                      const int64_t *x_dims, const void *input, const int64_t *grid_dims, const void *grid,
                      const int64_t *y_dims, void *output)
{
    static kernel_case c;

    c = (kernel_case){ .op_type = "GridSample", .since_version = 16 };
    kernel_case_string(&c, "mode", mode);
    kernel_case_string(&c, "padding_mode", padding);
    kernel_case_int(&c, "align_corners", corners);
    kernel_case_input(&c, dtype, 4, x_dims, (void *)(uintptr_t)input, false);
    kernel_case_input(&c, grid_dtype, 4, grid_dims, (void *)(uintptr_t)grid, false);
    kernel_case_output(&c, dtype, 4, y_dims, output);
    assert_int_equal(kernel_case_prepare(&c, &operators_grid_sample), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    kernel_case_deinit(&c);
}

static void sample(inlay_dtype dtype, const char *mode, const char *padding, bool corners, const int64_t *x_dims,
                   const void *input, const int64_t *grid_dims, const float *grid, const int64_t *y_dims, void *output)
{
    sample_at(INLAY_FLOAT, dtype, mode, padding, corners, x_dims, input, grid_dims, grid, y_dims, output);
}

static void check_random_grids(const char *mode, const char *padding, bool corners, int64_t few, int64_t many)
{
    const int64_t n = random_between(&seed, 1, 3), channels = random_between(&seed, few, many),
                  rows = random_between(&seed, 1, 12), columns = random_between(&seed, 1, 15);
    const int64_t x_dims[] = { n, channels, random_between(&seed, 1, 9), random_between(&seed, 1, 9) },
                  grid_dims[] = { n, rows, columns, 2 };
    const int64_t y_dims[] = { n, channels, rows, columns }, pixels = n * channels * x_dims[2] * x_dims[3];
    const int64_t points = n * rows * columns, outputs = points * channels;
    struct guard guard = guard_alloc((size_t)pixels * sizeof(float)),
                 grid = guard_alloc((size_t)points * 2 * sizeof(float));
    struct guard y = guard_alloc((size_t)outputs * sizeof(float)), wide = guard_alloc((size_t)pixels * sizeof(double));
    struct guard want = guard_alloc((size_t)outputs * sizeof(double));

    for (int64_t i = 0; i < pixels; i++) {
        ((float *)guard.data)[i] = (float)random_between(&seed, -500, 500) / 100;
        ((double *)wide.data)[i] = (double)((float *)guard.data)[i];
    }
    for (int64_t i = 0; i < 2 * points; i++)
        ((float *)grid.data)[i] =
            random_between(&seed, 0, 40) == 0
                ? NAN
                : (float)random_between(&seed, -1600, 1600) / (random_between(&seed, 0, 20) == 0 ? 1 : 1000);
    sample(INLAY_FLOAT, mode, padding, corners, x_dims, guard.data, grid_dims, grid.data, y_dims, y.data);
    sample(INLAY_DOUBLE, mode, padding, corners, x_dims, wide.data, grid_dims, grid.data, y_dims, want.data);
    for (int64_t i = 0; i < outputs; i++) {
        double a = (double)((float *)y.data)[i], b = ((double *)want.data)[i];

        if (!(fabs(a - b) <= 2e-5))
            fail_msg("%s: element %lld is %g, not %g", padding, (long long)i, a, b);
    }
    guard_free(&guard);
    guard_free(&grid);
    guard_free(&y);
    guard_free(&wide);
    guard_free(&want);
}

static void floats_as_doubles(void **state)
{
    static const char *const paddings[] = { "zeros", "border", "reflection" };

    (void)state;
    for (int i = 0; i < 600; i++)
        check_random_grids("bilinear", paddings[i % 3], i % 2 == 0, 1, 5);
}

/* Images of many channels, which the kernel transposes first. */
static void many_channels(void **state)
{
    static const char *const paddings[] = { "zeros", "border", "reflection" };

    (void)state;
    for (int i = 0; i < 200; i++)
        check_random_grids(i % 4 < 2 ? "bilinear" : "bicubic", paddings[i % 3], i % 2 == 0, 8, 90);
}

/* Points outside the image: like torch, cubic interpolation clamps the indices of pixels to the border, but not the
 * coordinates of the point. */
static void cubic_beyond_a_border(void **state)
{
    const int64_t x_dims[] = { 1, 1, 1, 4 }, grid_dims[] = { 1, 1, 3, 2 }, y_dims[] = { 1, 1, 1, 3 };
    const float x[] = { 1, 2, 4, 8 }, grid[] = { 1.25f, 0, -1.5f, 0, 3, 0 }, want[] = { 8.4395f, 0.9648f, 8 };
    float y[3];

    (void)state;
    sample(INLAY_FLOAT, "bicubic", "border", true, x_dims, x, grid_dims, grid, y_dims, y);
    for (int i = 0; i < 3; i++)
        assert_float_equal(y[i], want[i], 1e-4f);
}

/* Points of type double are located with the precision of doubles: interpolation of a row with the values 0, 1, 2 ...
 * is the position in the row. */
static void double_points(void **state)
{
    enum { POINTS = 200, PIXELS = 9 };
    const int64_t x_dims[] = { 1, 1, 1, PIXELS }, grid_dims[] = { 1, 1, POINTS, 2 }, y_dims[] = { 1, 1, 1, POINTS };
    double x[PIXELS], grid[2 * POINTS], y[POINTS];

    (void)state;
    for (int i = 0; i < PIXELS; i++)
        x[i] = i;
    for (int i = 0; i < POINTS; i++) {
        grid[2 * i] = (double)random_between(&seed, -700000000, 700000000) / 999999999;
        grid[2 * i + 1] = 0;
    }
    for (int i = 0; i < 2; i++) {
        const bool corners = i == 0;

        sample_at(INLAY_DOUBLE, INLAY_DOUBLE, "bilinear", "border", corners, x_dims, x, grid_dims, grid, y_dims, y);
        for (int k = 0; k < POINTS; k++) {
            const double want = corners ? (grid[2 * k] + 1) / 2 * (PIXELS - 1) : ((grid[2 * k] + 1) * PIXELS - 1) / 2;

            if (!(fabs(y[k] - want) <= 1e-13))
                fail_msg("point %d is %.17g, not %.17g", k, y[k], want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_as_doubles),
        cmocka_unit_test(many_channels),
        cmocka_unit_test(cubic_beyond_a_border),
        cmocka_unit_test(double_points),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
