/* Ranges from histograms. */
#include "cmocka_all.h"
#include "quantize/calibrate.h"
#include <math.h>

static uint64_t bins[CALIBRATE_BINS];

/* A bell curve around the middle of the range with height n, and one element in the last bin. */
static tensor_range bell_curve(float low, float high, double width)
{
    tensor_range range = { .name = "x", .low = low, .high = high, .bins = bins };

    for (int i = 0; i < CALIBRATE_BINS; i++) {
        const double x = ((double)i / CALIBRATE_BINS - 0.5) / width;

        bins[i] = (uint64_t)(10000 * exp(-x * x / 2)) + (i == CALIBRATE_BINS - 1);
        range.count += bins[i];
    }
    return range;
}

static void outliers_are_cut(void **state)
{
    const tensor_range range = bell_curve(-8, 8, 0.02); /* a standard deviation of 0.32 */
    float low, high;

    (void)state;
    calibrate_minmax(&range, &low, &high);
    assert_true(low == -8 && high == 8);
    calibrate_percentile(&range, 0.9999, &low, &high);
    assert_true(low < -0.9F && low > -2 && high > 0.9F && high < 2);
    calibrate_mse(&range, &low, &high);
    assert_true(low < -0.6F && low > -4 && high > 0.6F && high < 4);
    calibrate_entropy(&range, &low, &high);
    assert_true(low < -0.3F && low > -4 && high > 0.3F && high < 4);
}

static void zero_is_always_inside(void **state)
{
    const tensor_range above = bell_curve(3, 5, 0.1), below = bell_curve(-5, -3, 0.1);
    void (*const methods[])(const tensor_range *, float *, float *) = { calibrate_minmax, calibrate_mse,
                                                                        calibrate_entropy };
    float low, high;

    (void)state;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        methods[i](&above, &low, &high);
        assert_true(low == 0 && high > 0);
        methods[i](&below, &low, &high);
        assert_true(low < 0 && high == 0);
    }
    calibrate_percentile(&above, 0.999, &low, &high);
    assert_true(low == 0 && high > 3);
}

/* The width of the range is infinite in float, or tiny compared with the distance to zero. */
static void extreme_ranges(void **state)
{
    tensor_range range = bell_curve(-3e38F, 3e38F, 0.02);
    float low[3], high[3];

    (void)state;
    calibrate_percentile(&range, 0.9999, &low[0], &high[0]);
    calibrate_mse(&range, &low[1], &high[1]);
    calibrate_entropy(&range, &low[2], &high[2]);
    for (int i = 0; i < 3; i++) {
        assert_true(low[i] < -1e37F && low[i] > -1.6e38F);
        assert_true(high[i] > 1e37F && high[i] < 1.6e38F);
    }
    range = bell_curve(1e6F, 1000000.0625F, 0.1);
    calibrate_entropy(&range, &low[0], &high[0]);
    assert_true(low[0] == 0 && high[0] > 1e6F - 1 && high[0] < 1e6F + 1);
}

static void constant_and_empty_values(void **state)
{
    tensor_range one = { .name = "x", .low = 2, .high = 2, .bins = bins, .count = 5 };
    const tensor_range none = { .name = "x", .low = INFINITY, .high = -INFINITY, .bins = bins };
    float low, high;

    (void)state;
    for (int i = 0; i < CALIBRATE_BINS; i++)
        bins[i] = i == 0 ? 5 : 0;
    calibrate_minmax(&one, &low, &high);
    assert_true(low == 0 && high == 2);
    calibrate_mse(&one, &low, &high);
    assert_true(low == 0 && high == 2);
    calibrate_entropy(&one, &low, &high);
    assert_true(low == 0 && high == 2);
    calibrate_percentile(&one, 0.99, &low, &high);
    assert_true(low == 0 && high == 2);
    calibrate_minmax(&none, &low, &high);
    assert_true(low == 0 && high == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(outliers_are_cut), cmocka_unit_test(zero_is_always_inside),
                                        cmocka_unit_test(extreme_ranges), cmocka_unit_test(constant_and_empty_values) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
