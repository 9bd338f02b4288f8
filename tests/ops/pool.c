/* pool.c - pooling, compared with its definition: random kernel sizes, strides, dilations, pads, rounding and types,
 * with indices in both orders. All tensors and the workspace end at a guard page. */
#include "simd/convert.h"
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

enum { MAX, MEAN, LP };

/* The window in three spatial axes. A pool of fewer axes has size 1 in the first ones. */
struct window {
    int64_t in[3], kernel[3], stride[3], dilation[3], begin[3], end[3], out[3];
    bool include_pad, column_major;
    double p;
};

struct answer {
    double value;
    int64_t index;
};

static struct answer by_definition(const struct window *window, int kind, inlay_dtype dtype, const void *input,
                                   int64_t plane, const int64_t *at)
{
    int64_t size = window->in[0] * window->in[1] * window->in[2], index = -1;
    double sum = 0, best = -INFINITY, count = 0;

    for (int64_t t = 0; t < window->kernel[0] * window->kernel[1] * window->kernel[2]; t++) {
        int64_t tap[3] = { t / (window->kernel[1] * window->kernel[2]), t / window->kernel[2] % window->kernel[1],
                           t % window->kernel[2] };
        int64_t from[3], offset;
        bool inside = true, padded = true;
        double v;
        for (int i = 0; i < 3; i++) {
            from[i] = at[i] * window->stride[i] - window->begin[i] + tap[i] * window->dilation[i];
            inside &= from[i] >= 0 && from[i] < window->in[i];
            padded &= from[i] < window->in[i] + window->end[i];
        }
        count += window->include_pad ? padded : inside;
        if (!inside)
            continue;
        offset = (from[0] * window->in[1] + from[1]) * window->in[2] + from[2];
        v = convert_get_f64(dtype, input, plane * size + offset);
        sum += kind == LP ? pow(fabs(v), window->p) : v;
        if (v > best) {
            best = v;
            index = plane * size +
                    (window->column_major ? (from[2] * window->in[1] + from[1]) * window->in[0] + from[0] : offset);
        }
    }
    if (kind == MAX)
        return (struct answer){ best, index };
    return (struct answer){ kind == LP ? pow(sum, 1 / window->p) : sum / (count > 0 ? count : 1), 0 };
}

/* wide: windows far larger than the image. */
static void check_random_window(int kind, uint32_t spatial, inlay_dtype dtype, bool indices, bool wide)
{
    static const char *const names[] = { "MaxPool", "AveragePool", "LpPool" };
    uint32_t skip = 3 - spatial;
    bool ceil_mode = kind != LP && random_between(&seed, 0, 1);
    int64_t planes = 2 * random_between(&seed, 1, 2), dims[5] = { 2, planes / 2, 0, 0, 0 }, out_dims[5], pads[6],
            count = planes, outputs;
    struct window window = { { 1, 1, 1 },
                             { 1, 1, 1 },
                             { 1, 1, 1 },
                             { 1, 1, 1 },
                             { 0 },
                             { 0 },
                             { 1, 1, 1 },
                             random_between(&seed, 0, 1),
                             random_between(&seed, 0, 1),
                             (double)random_between(&seed, 1, 3) };
    double slack = dtype == INLAY_BFLOAT16 ? 8e-3 : dtype == INLAY_FLOAT16 ? 1e-3 : 2e-6;
    struct guard guard, y, where;
    static kernel_case c;

    outputs = planes;
    for (uint32_t i = skip; i < 3; i++) {
        int64_t reach, room;
        window.kernel[i] = wide ? random_between(&seed, 60, 120) : random_between(&seed, 1, 4);
        window.stride[i] = wide ? random_between(&seed, 10, 60) : random_between(&seed, 1, 3);
        window.dilation[i] = random_between(&seed, 1, 2);
        reach = (window.kernel[i] - 1) * window.dilation[i] + 1;
        window.begin[i] = random_between(&seed, 0, reach - 1);
        window.end[i] = random_between(&seed, 0, reach - 1);
        window.in[i] = random_between(&seed, 1, wide ? 7 : 20);
        room = window.in[i] + window.begin[i] + window.end[i] - reach;
        if (room < 0)
            return;
        window.out[i] = room / window.stride[i] + 1;
        if (ceil_mode && room % window.stride[i] != 0 &&
            window.out[i] * window.stride[i] < window.in[i] + window.begin[i])
            window.out[i]++;
        pads[i - skip] = window.begin[i];
        pads[i - skip + spatial] = window.end[i];
        dims[2 + i - skip] = window.in[i];
        count *= window.in[i];
        outputs *= window.out[i];
    }
    memcpy(out_dims, dims, sizeof dims);
    for (uint32_t i = 0; i < spatial; i++)
        out_dims[2 + i] = window.out[skip + i];
    guard = guard_alloc((size_t)kit_bytes(dtype, count));
    y = guard_alloc((size_t)kit_bytes(dtype, outputs));
    where = guard_alloc((size_t)outputs * 8);
    for (int64_t i = 0; i < count; i++) {
        double v = (double)random_between(&seed, dtype == INLAY_UINT8 ? 0 : -60, 60);
        convert_from_f64(dtype, guard.data, i, 1, &v, 0);
    }
    c = (kernel_case){ .op_type = names[kind], .since_version = 22 };
    kernel_case_input(&c, dtype, 2 + spatial, dims, guard.data, false);
    kernel_case_output(&c, dtype, 2 + spatial, out_dims, y.data);
    if (indices)
        kernel_case_output(&c, INLAY_INT64, 2 + spatial, out_dims, where.data);
    kernel_case_ints(&c, "kernel_shape", spatial, window.kernel + skip);
    kernel_case_ints(&c, "strides", spatial, window.stride + skip);
    kernel_case_ints(&c, "dilations", spatial, window.dilation + skip);
    kernel_case_ints(&c, "pads", 2 * spatial, pads);
    kernel_case_int(&c, "ceil_mode", ceil_mode);
    kernel_case_int(&c, "count_include_pad", window.include_pad);
    kernel_case_int(&c, "storage_order", window.column_major);
    kernel_case_int(&c, "p", (int64_t)window.p);
    assert_int_equal(kernel_case_prepare(&c, &operators_pool), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    for (int64_t i = 0; i < outputs; i++) {
        int64_t plane = i / (window.out[0] * window.out[1] * window.out[2]);
        int64_t at[3] = { i / (window.out[1] * window.out[2]) % window.out[0], i / window.out[2] % window.out[1],
                          i % window.out[2] };
        struct answer want = by_definition(&window, kind, dtype, guard.data, plane, at);
        double got = convert_get_f64(dtype, y.data, i);
        if (kind == MAX && want.index < 0) /* nothing but padding */
            continue;
        if (!(fabs(got - want.value) <= slack * (1 + fabs(want.value))))
            fail_msg("%s %s element %d: %g, not %g", names[kind], inlay_dtype_name(dtype), (int)i, got, want.value);
        if (indices && convert_get_i64(INLAY_INT64, where.data, i) != want.index)
            fail_msg("%s index %d: %d, not %d", names[kind], (int)i, (int)convert_get_i64(INLAY_INT64, where.data, i),
                     (int)want.index);
    }
    kernel_case_deinit(&c);
    guard_free(&guard);
    guard_free(&y);
    guard_free(&where);
}

static void random_windows(void **state)
{
    static const inlay_dtype types[] = { INLAY_FLOAT,    INLAY_DOUBLE, INLAY_FLOAT16,
                                         INLAY_BFLOAT16, INLAY_INT8,   INLAY_UINT8 };

    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        int kind = (int)(i % 3);
        check_random_window(kind, 1 + i / 3 % 3, types[i / 9 % (kind == MAX ? 6 : 4)], kind == MAX && i % 2 == 0,
                            false);
    }
}

static void wide_windows(void **state)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_UINT8 };

    (void)state;
    for (uint32_t i = 0; i < 120; i++) {
        int kind = (int)(i % 3);

        check_random_window(kind, 1 + i / 3 % 2, types[i / 9 % (kind == MAX ? 4 : 3)], kind == MAX && i % 2 == 0, true);
    }
}

/* With the largest kernel size of an attribute, time and memory still depend on the image only. */
static void endless_windows(void **state)
{
    const int64_t kernel[] = { 1, INT32_MAX }, strides[] = { 1, 2 }, pads[] = { 0, INT32_MAX / 2, 0, INT32_MAX / 2 };
    const int64_t dims[] = { 1, 1, 2, 5 }, out_dims[] = { 1, 1, 2, 3 };
    const float x[] = { 1, 5, 2, 3, 4, -1, -2, -3, -4, -9 };

    (void)state;
    for (int kind = MAX; kind <= MEAN; kind++) {
        static kernel_case c;
        float y[6];

        c = (kernel_case){ .op_type = kind == MAX ? "MaxPool" : "AveragePool", .since_version = 22 };
        kernel_case_input(&c, INLAY_FLOAT, 4, dims, x, false);
        kernel_case_output(&c, INLAY_FLOAT, 4, out_dims, y);
        kernel_case_ints(&c, "kernel_shape", 2, kernel);
        kernel_case_ints(&c, "strides", 2, strides);
        kernel_case_ints(&c, "pads", 4, pads);
        assert_int_equal(kernel_case_prepare(&c, &operators_pool), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        for (int i = 0; i < 6; i++) {
            const float want = kind == MAX ? (i < 3 ? 5.0f : -1.0f) : i < 3 ? 3.0f : -3.8f;

            assert_float_equal(y[i], want, 1e-6);
        }
        kernel_case_deinit(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_windows), cmocka_unit_test(wide_windows),
                                        cmocka_unit_test(endless_windows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
