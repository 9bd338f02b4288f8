/* conv.c - convolution, compared with its definition: random kernel sizes, strides, dilations, pads, groups and types.
 * All tensors and the workspace end at a guard page. */
#include "simd/convert.h"
#include "operators/gemm/set.h"
#include "kernel_case.h"
#include "random.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t seed = 12345;

/* Allocates a tensor of small integers, which are exact in every type. */
static struct guard make_tensor(inlay_dtype dtype, int64_t count)
{
    struct guard guard = guard_alloc(((size_t)kit_bytes(dtype, count) + 63) & ~(size_t)63);
    for (int64_t i = 0; i < count; i++) {
        double v = (double)random_between(&seed, -3, 3);
        convert_from_f64(dtype, guard.data, i, 1, &v, 0);
    }
    return guard;
}

struct window {
    int64_t in[3], kernel[3], stride[3], dilation[3], pads[6], out[3];
};

static double expected(const struct window *window, inlay_dtype dtype, const void *input, const void *k,
                       const void *bias, int64_t image, int64_t filter, int64_t channels, int64_t filters,
                       int64_t group, const int64_t *at)
{
    int64_t per = channels / group, first = filter / (filters / group) * per;
    double sum = bias != NULL ? convert_get_f64(dtype, bias, filter) : 0;

    for (int64_t c = 0; c < per; c++)
        for (int64_t a = 0; a < window->kernel[0]; a++)
            for (int64_t b = 0; b < window->kernel[1]; b++)
                for (int64_t d = 0; d < window->kernel[2]; d++) {
                    int64_t tap[3] = { a, b, d }, from[3];
                    bool inside = true;
                    for (int i = 0; i < 3; i++) {
                        from[i] = at[i] * window->stride[i] - window->pads[i] + tap[i] * window->dilation[i];
                        inside &= from[i] >= 0 && from[i] < window->in[i];
                    }
                    int64_t row = (image * channels + first + c) * window->in[0] + from[0];
                    int64_t weight = ((filter * per + c) * window->kernel[0] + a) * window->kernel[1] + b;
                    if (inside)
                        sum +=
                            convert_get_f64(dtype, input, (row * window->in[1] + from[1]) * window->in[2] + from[2]) *
                            convert_get_f64(dtype, k, weight * window->kernel[2] + d);
                }
    return sum;
}

static void check_random_window(uint32_t spatial, inlay_dtype dtype, bool constant)
{
    uint32_t skip = 3 - spatial;
    struct window window = { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 0 }, { 1, 1, 1 } };
    int64_t group = random_between(&seed, 0, 2) == 0 ? random_between(&seed, 2, 4) : 1,
            per = random_between(&seed, 1, 5), images = random_between(&seed, 1, 3);
    int64_t channels = group * per,
            filters = group * random_between(&seed, 1, random_between(&seed, 0, 3) == 0 ? 20 : 3), x_dims[5], w_dims[5],
            y_dims[5];
    int64_t attrs_pads[6], x_count, w_count = filters * per, y_count;
    bool biased = random_between(&seed, 0, 1);
    static kernel_case c;

    for (uint32_t i = skip; i < 3; i++) {
        window.kernel[i] = random_between(&seed, 1, 4);
        window.stride[i] = random_between(&seed, 1, 3);
        window.dilation[i] = random_between(&seed, 1, 3);
        window.pads[i] = random_between(&seed, 0, 3);
        window.pads[i + 3] = random_between(&seed, 0, 3);
        window.in[i] = random_between(&seed, 1, spatial == 3 ? 8 : 20) + (window.kernel[i] - 1) * window.dilation[i];
        window.out[i] =
            (window.in[i] + window.pads[i] + window.pads[i + 3] - (window.kernel[i] - 1) * window.dilation[i] - 1) /
                window.stride[i] +
            1;
        attrs_pads[i - skip] = window.pads[i];
        attrs_pads[i - skip + spatial] = window.pads[i + 3];
    }
    if (random_between(&seed, 0, 3) == 0) /* 1x1 without padding: the kernel reads the input directly */
        for (uint32_t i = skip; i < 3; i++) {
            window.kernel[i] = window.stride[i] = 1;
            window.pads[i] = window.pads[i + 3] = attrs_pads[i - skip] = attrs_pads[i - skip + spatial] = 0;
            window.out[i] = window.in[i];
        }
    x_dims[0] = images;
    x_dims[1] = channels;
    w_dims[0] = filters;
    w_dims[1] = per;
    y_dims[0] = images;
    y_dims[1] = filters;
    for (uint32_t i = 0; i < spatial; i++) {
        x_dims[2 + i] = window.in[skip + i];
        w_dims[2 + i] = window.kernel[skip + i];
        y_dims[2 + i] = window.out[skip + i];
        w_count *= window.kernel[skip + i];
    }
    x_count = images * channels * window.in[0] * window.in[1] * window.in[2];
    y_count = images * filters * window.out[0] * window.out[1] * window.out[2];
    struct guard guard = make_tensor(dtype, x_count), k = make_tensor(dtype, w_count), b = make_tensor(dtype, filters);
    struct guard y = guard_alloc((size_t)kit_bytes(dtype, y_count)),
                 exact_x = guard_alloc((size_t)kit_bytes(dtype, x_count));
    memcpy(exact_x.data, guard.data, (size_t)kit_bytes(dtype, x_count));

    c = (kernel_case){ .op_type = "Conv", .since_version = 22, .provider = &blocked_engine };
    kernel_case_input(&c, dtype, spatial + 2, x_dims, exact_x.data, false);
    kernel_case_input(&c, dtype, spatial + 2, w_dims, k.data, constant);
    if (biased)
        kernel_case_input(&c, dtype, 1, &filters, b.data, true);
    kernel_case_output(&c, dtype, spatial + 2, y_dims, y.data);
    kernel_case_ints(&c, "pads", 2 * spatial, attrs_pads);
    kernel_case_ints(&c, "strides", spatial, window.stride + skip);
    kernel_case_ints(&c, "dilations", spatial, window.dilation + skip);
    kernel_case_int(&c, "group", group);
    if (kernel_case_prepare(&c, &operators_products) != INLAY_OK || kernel_case_run(&c) != INLAY_OK)
        fail_msg("%s", c.diag.text);
    for (int64_t i = 0; i < y_count; i++) {
        int64_t at[3] = { i / window.out[2] / window.out[1] % window.out[0], i / window.out[2] % window.out[1],
                          i % window.out[2] };
        int64_t plane = i / window.out[2] / window.out[1] / window.out[0];
        double want = expected(&window, dtype, guard.data, k.data, biased ? b.data : NULL, plane / filters,
                               plane % filters, channels, filters, group, at);
        convert_from_f64(dtype, y.data, i, 0, &want, 0);
        double got = convert_get_f64(dtype, y.data, i), rounded;
        char store[8];
        convert_from_f64(dtype, store, 0, 1, &want, 0);
        rounded = convert_get_f64(dtype, store, 0);
        if (got != rounded)
            fail_msg("%s rank %u element %d: %g, not %g", inlay_dtype_name(dtype), spatial, (int)i, got, rounded);
    }
    kernel_case_deinit(&c);
    guard_free(&guard);
    guard_free(&k);
    guard_free(&b);
    guard_free(&y);
    guard_free(&exact_x);
}

static void random_windows(void **state)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_BFLOAT16 };

    (void)state;
    for (int i = 0; i < 600; i++)
        check_random_window(1 + (uint32_t)i % 3, types[i / 3 % 4], i / 12 % 2 == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_windows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
