/* deform_conv.c - DeformConv of floats, which computes the sampling points once and transposes images of many channels,
 * compared with the path for doubles, which samples each element: groups, offset groups, strides, dilations, offsets
 * far outside the image, and NaN. */
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

static uint64_t seed = 5;

enum { INPUTS = 5 };
typedef struct deform_case {
    int64_t group, offset_group, stride, dilation, pad;
    int64_t dims[INPUTS][4], ranks[INPUTS], y_dims[4];
} deform_case;

static int64_t count_of(const int64_t *dims, int64_t rank)
{
    int64_t n = 1;

    for (int64_t d = 0; d < rank; d++)
        n *= dims[d];
    return n;
}

static void convolve(const deform_case *d, inlay_dtype dtype, const struct guard in[INPUTS], void *output)
{
    const int64_t pads[] = { d->pad, d->pad, d->pad, d->pad }, strides[] = { d->stride, d->stride };
    const int64_t dilations[] = { d->dilation, d->dilation };
    static kernel_case c;

    c = (kernel_case){ .op_type = "DeformConv", .since_version = 19 };
    kernel_case_int(&c, "group", d->group);
    kernel_case_int(&c, "offset_group", d->offset_group);
    kernel_case_ints(&c, "pads", 4, pads);
    kernel_case_ints(&c, "strides", 2, strides);
    kernel_case_ints(&c, "dilations", 2, dilations);
    for (int i = 0; i < INPUTS; i++)
        kernel_case_input(&c, dtype, (uint32_t)d->ranks[i], d->dims[i], in[i].data, false);
    kernel_case_output(&c, dtype, 4, d->y_dims, output);
    assert_int_equal(kernel_case_prepare(&c, &operators_deform_conv), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    kernel_case_deinit(&c);
}

static deform_case random_case(void)
{
    const int64_t offset_group = random_between(&seed, 1, 3), group = random_between(&seed, 1, 2),
                  channels = 6 * random_between(&seed, 1, 12), kh = random_between(&seed, 1, 3),
                  kw = random_between(&seed, 1, 3);
    deform_case d = { .group = group,
                      .offset_group = offset_group,
                      .stride = random_between(&seed, 1, 2),
                      .dilation = random_between(&seed, 1, 2),
                      .pad = random_between(&seed, 0, 2),
                      .ranks = { 4, 4, 4, 1, 4 } };
    const int64_t n = random_between(&seed, 1, 2), height = random_between(&seed, 7, 12),
                  width = random_between(&seed, 7, 12), filters = group * random_between(&seed, 1, 9);
    const int64_t oh = (height + 2 * d.pad - d.dilation * (kh - 1) - 1) / d.stride + 1;
    const int64_t ow = (width + 2 * d.pad - d.dilation * (kw - 1) - 1) / d.stride + 1;
    const int64_t dims[INPUTS][4] = { { n, channels, height, width },
                                      { filters, channels / group, kh, kw },
                                      { n, 2 * offset_group * kh * kw, oh, ow },
                                      { filters },
                                      { n, offset_group * kh * kw, oh, ow } };

    memcpy(d.dims, dims, sizeof dims);
    d.y_dims[0] = n, d.y_dims[1] = filters, d.y_dims[2] = oh, d.y_dims[3] = ow;
    return d;
}

static void check_random_case(void)
{
    const deform_case d = random_case();
    const int64_t outputs = count_of(d.y_dims, 4);
    struct guard floats[INPUTS], doubles[INPUTS];
    struct guard guard = guard_alloc((size_t)outputs * sizeof(float)),
                 want = guard_alloc((size_t)outputs * sizeof(double));

    for (int i = 0; i < INPUTS; i++) {
        const int64_t n = count_of(d.dims[i], d.ranks[i]);

        floats[i] = guard_alloc((size_t)n * sizeof(float));
        doubles[i] = guard_alloc((size_t)n * sizeof(double));
        for (int64_t k = 0; k < n; k++) {
            float v = (float)random_between(&seed, -300, 300) / 100;

            if (i == 2 && random_between(&seed, 0, 60) == 0) /* offsets */
                v = random_between(&seed, 0, 1) == 0 ? NAN : v * 20;
            ((float *)floats[i].data)[k] = v;
            ((double *)doubles[i].data)[k] = (double)v;
        }
    }
    convolve(&d, INLAY_FLOAT, floats, guard.data);
    convolve(&d, INLAY_DOUBLE, doubles, want.data);
    for (int64_t i = 0; i < outputs; i++) {
        const double a = (double)((float *)guard.data)[i], b = ((double *)want.data)[i];

        if (!(fabs(a - b) <= 2e-4 * (1 + fabs(b))))
            fail_msg("element %lld is %g, not %g", (long long)i, a, b);
    }
    for (int i = 0; i < INPUTS; i++) {
        guard_free(&floats[i]);
        guard_free(&doubles[i]);
    }
    guard_free(&guard);
    guard_free(&want);
}

static void floats_as_doubles(void **state)
{
    (void)state;
    for (int i = 0; i < 120; i++)
        check_random_case();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_as_doubles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
