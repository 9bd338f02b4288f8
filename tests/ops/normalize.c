/* normalize.c - normalizations, compared with their definitions: every floating-point type, scale and bias broadcast in
 * every legal way, constant or not; and errors of models. All tensors and the workspace end at a guard page. */
#include "simd/convert.h"
#include "kernel_case.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include "random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t seed = 31337;

static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_BFLOAT16 };
static double tolerance_of(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT ? 1e-4 : dtype == INLAY_DOUBLE ? 1e-6 : dtype == INLAY_FLOAT16 ? 1e-2 : 6e-2;
}

/* Random multiples of 1/8 between low and high; constants are also 64-byte aligned. */
static struct guard make_tensor(inlay_dtype dtype, int64_t count, int64_t low, int64_t high, bool aligned)
{
    size_t bytes = (size_t)kit_bytes(dtype, count);
    struct guard guard = guard_alloc(aligned ? (bytes + 63) / 64 * 64 : bytes);

    for (int64_t i = 0; i < count; i++) {
        double v = (double)random_between(&seed, low * 8, high * 8) / 8;
        convert_from_f64(dtype, guard.data, i, 1, &v, 0);
    }
    return guard;
}

static void expect(const char *what, inlay_dtype dtype, const void *data, int64_t i, double want)
{
    double got = convert_get_f64(dtype, data, i);

    if (!(fabs(got - want) <= tolerance_of(dtype) * (1 + fabs(want))))
        fail_msg("%s %s element %d: %g, not %g", what, inlay_dtype_name(dtype), (int)i, got, want);
}

/* Returns the index in a tensor of dims `small` of the element that is broadcast to element i of a tensor of `dims`. */
static int64_t broadcast_at(int64_t i, uint32_t rank, const int64_t *dims, uint32_t small_rank, const int64_t *small)
{
    int64_t at = 0, stride = 1;

    for (uint32_t k = 1; k <= rank; k++) {
        int64_t index = i % dims[rank - k];
        i /= dims[rank - k];
        if (k <= small_rank) {
            at += small[small_rank - k] == 1 ? 0 : index * stride;
            stride *= small[small_rank - k];
        }
    }
    return at;
}

/* LayerNormalization with all outputs, or RMSNormalization. */
static void check_random_layer(inlay_dtype dtype, bool rms)
{
    uint32_t rank = (uint32_t)random_between(&seed, 1, 4), axis = (uint32_t)random_between(&seed, 0, rank - 1),
             small_rank = (uint32_t)random_between(&seed, 1, rank);
    int64_t dims[4], small[4], stats[4], count = 1, rows = 1, n, small_count = 1;
    struct guard guard, y, scale, bias;
    float means[512], inverses[512];
    static kernel_case c;

    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = random_between(&seed, 1, 5);
        count *= dims[d];
        rows *= d < axis ? dims[d] : 1;
        stats[d] = d < axis ? dims[d] : 1;
    }
    n = count / rows;
    for (uint32_t k = 0; k < small_rank; k++) {
        small[k] = random_between(&seed, 0, 3) > 0 ? dims[rank - small_rank + k] : 1;
        small_count *= small[k];
    }
    guard = make_tensor(dtype, count, -4, 4, false);
    y = make_tensor(dtype, count, 0, 0, false);
    scale = make_tensor(dtype, small_count, -2, 2, false);
    bias = make_tensor(dtype, small_count, -2, 2, false);
    c = (kernel_case){ .op_type = rms ? "RMSNormalization" : "LayerNormalization", .since_version = rms ? 23 : 17 };
    kernel_case_int(&c, "axis", random_between(&seed, 0, 1) ? (int64_t)axis : (int64_t)axis - rank);
    kernel_case_float(&c, "epsilon", 0.01);
    kernel_case_input(&c, dtype, rank, dims, guard.data, false);
    kernel_case_input(&c, dtype, small_rank, small, scale.data, false);
    if (!rms)
        kernel_case_input(&c, dtype, small_rank, small, bias.data, false);
    kernel_case_output(&c, dtype, rank, dims, y.data);
    if (!rms) {
        kernel_case_output(&c, INLAY_FLOAT, rank, stats, means);
        kernel_case_output(&c, INLAY_FLOAT, rank, stats, inverses);
    }
    assert_int_equal(kernel_case_prepare(&c, &operators_layer_normalization), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n && !rms; i++)
            mean += convert_get_f64(dtype, guard.data, r * n + i) / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += pow(convert_get_f64(dtype, guard.data, r * n + i) - mean, 2) / (double)n;
        for (int64_t i = 0; i < n; i++) {
            int64_t at = broadcast_at(r * n + i, rank, dims, small_rank, small);
            double want = (convert_get_f64(dtype, guard.data, r * n + i) - mean) / sqrt(variance + 0.01);
            want = want * convert_get_f64(dtype, scale.data, at) + (rms ? 0 : convert_get_f64(dtype, bias.data, at));
            expect(c.op_type, dtype, y.data, r * n + i, want);
        }
        if (!rms) {
            expect("Mean", INLAY_FLOAT, means, r, mean);
            expect("InvStdDev", INLAY_FLOAT, inverses, r, 1 / sqrt(variance + 0.01));
        }
    }
    kernel_case_deinit(&c);
    guard_free(&guard);
    guard_free(&y);
    guard_free(&scale);
    guard_free(&bias);
}

static void layers(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1200; i++)
        check_random_layer(types[i % 4], i / 4 % 2);
}

/* BatchNormalization-15 for inference and training, parameters constant or not. */
static void check_random_batch(inlay_dtype dtype, bool training, bool constant)
{
    uint32_t rank = (uint32_t)random_between(&seed, 2, 4);
    int64_t dims[4], count = 1, channels, inner = 1;
    struct guard guard, p[4], y, moments[2];
    static kernel_case c;

    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = random_between(&seed, d == 0 ? 2 : 1, 6);
        count *= dims[d];
        inner *= d > 1 ? dims[d] : 1;
    }
    channels = dims[1];
    guard = make_tensor(dtype, count, -4, 4, false);
    y = make_tensor(dtype, count, 0, 0, false);
    for (int i = 0; i < 4; i++)
        p[i] = make_tensor(dtype, channels, i == 3 ? 1 : -2, 2, constant);
    c = (kernel_case){ .op_type = "BatchNormalization", .since_version = 15 };
    kernel_case_float(&c, "epsilon", 0.01);
    kernel_case_float(&c, "momentum", 0.75);
    kernel_case_int(&c, "training_mode", training);
    kernel_case_input(&c, dtype, rank, dims, guard.data, false);
    for (int i = 0; i < 4; i++)
        kernel_case_input(&c, dtype, 1, &channels, p[i].data, constant);
    kernel_case_output(&c, dtype, rank, dims, y.data);
    for (int i = 0; i < 2; i++) {
        moments[i] = make_tensor(dtype, channels, 0, 0, false);
        if (training)
            kernel_case_output(&c, dtype, 1, &channels, moments[i].data);
    }
    assert_int_equal(kernel_case_prepare(&c, &operators_batch_normalization), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    for (int64_t k = 0; k < channels; k++) {
        double mean = convert_get_f64(dtype, p[2].data, k), variance = convert_get_f64(dtype, p[3].data, k);
        double n = (double)(dims[0] * inner), sum = 0, squares = 0;
        for (int64_t i = 0; i < dims[0] * inner; i++)
            sum += convert_get_f64(dtype, guard.data, (i / inner * channels + k) * inner + i % inner) / n;
        for (int64_t i = 0; i < dims[0] * inner; i++)
            squares +=
                pow(convert_get_f64(dtype, guard.data, (i / inner * channels + k) * inner + i % inner) - sum, 2) / n;
        if (training) {
            expect("running mean", dtype, moments[0].data, k, mean * 0.75 + sum * 0.25);
            expect("running variance", dtype, moments[1].data, k, variance * 0.75 + squares * 0.25);
            mean = sum;
            variance = squares;
        }
        for (int64_t i = 0; i < dims[0] * inner; i++) {
            int64_t at = (i / inner * channels + k) * inner + i % inner;
            expect("BatchNormalization", dtype, y.data, at,
                   (convert_get_f64(dtype, guard.data, at) - mean) / sqrt(variance + 0.01) *
                           convert_get_f64(dtype, p[0].data, k) +
                       convert_get_f64(dtype, p[1].data, k));
        }
    }
    kernel_case_deinit(&c);
    guard_free(&guard);
    guard_free(&y);
    for (int i = 0; i < 4; i++)
        guard_free(&p[i]);
    guard_free(&moments[0]);
    guard_free(&moments[1]);
}

static void batches(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 800; i++)
        check_random_batch(types[i % 4], i / 4 % 2, i / 8 % 2);
}

/* GroupNormalization-18 and -21, and InstanceNormalization. */
static void groups(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 600; round++) {
        inlay_dtype dtype = types[round % 4];
        uint32_t version = round / 4 % 3 == 0 ? 18 : round / 4 % 3 == 1 ? 21 : 6;
        int64_t group_count = random_between(&seed, 1, 3), per = version == 6 ? 1 : random_between(&seed, 1, 3),
                inner = random_between(&seed, 1, 9);
        int64_t dims[] = { random_between(&seed, 1, 3), group_count * per, inner },
                parameters = version == 18 ? group_count : dims[1];
        int64_t n = per * inner, count = dims[0] * dims[1] * inner;
        struct guard guard = make_tensor(dtype, count, -4, 4, false), y = make_tensor(dtype, count, 0, 0, false);
        struct guard scale = make_tensor(dtype, parameters, -2, 2, false),
                     bias = make_tensor(dtype, parameters, -2, 2, false);
        static kernel_case c;

        c = (kernel_case){ .op_type = version == 6 ? "InstanceNormalization" : "GroupNormalization",
                           .since_version = version };
        kernel_case_float(&c, "epsilon", 0.01);
        kernel_case_int(&c, "num_groups", group_count);
        kernel_case_input(&c, dtype, 3, dims, guard.data, false);
        kernel_case_input(&c, dtype, 1, &parameters, scale.data, false);
        kernel_case_input(&c, dtype, 1, &parameters, bias.data, false);
        kernel_case_output(&c, dtype, 3, dims, y.data);
        assert_int_equal(kernel_case_prepare(&c, &operators_instance_normalization), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        for (int64_t i = 0; i < count; i++) {
            int64_t first = i / n * n, channel = i / inner % dims[1], k = version == 18 ? channel / per : channel;
            double mean = 0, variance = 0;
            for (int64_t j = first; j < first + n; j++)
                mean += convert_get_f64(dtype, guard.data, j) / (double)n;
            for (int64_t j = first; j < first + n; j++)
                variance += pow(convert_get_f64(dtype, guard.data, j) - mean, 2) / (double)n;
            expect(c.op_type, dtype, y.data, i,
                   (convert_get_f64(dtype, guard.data, i) - mean) / sqrt(variance + 0.01) *
                           convert_get_f64(dtype, scale.data, k) +
                       convert_get_f64(dtype, bias.data, k));
        }
        kernel_case_deinit(&c);
        guard_free(&guard);
        guard_free(&y);
        guard_free(&scale);
        guard_free(&bias);
    }
}

/* Groups of equal elements, or of elements a few steps of their type apart: the mean may be wrong by half a step, which
 * the small deviation magnifies, and not by the error of a sum. */
static void nearly_equal(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 400; round++) {
        const inlay_dtype dtype = types[round % 4];
        const double step = dtype == INLAY_DOUBLE    ? 0x1p-52
                            : dtype == INLAY_FLOAT   ? 0x1p-23
                            : dtype == INLAY_FLOAT16 ? 0x1p-10
                                                     : 0x1p-7;
        const int64_t dims[] = { 1, 2, random_between(&seed, 1, 5000) }, channels = 2, count = 2 * dims[2];
        const int64_t steps = round / 4 % 2 == 0 ? 0 : random_between(&seed, 1, 4);
        struct guard guard = make_tensor(dtype, count, 0, 0, false), y = make_tensor(dtype, count, 0, 0, false);
        struct guard scale = make_tensor(dtype, channels, -2, 2, false),
                     bias = make_tensor(dtype, channels, -2, 2, false);
        static kernel_case c;

        for (int64_t k = 0; k < channels; k++) {
            const double base = 1 + step * (double)random_between(&seed, 0, (int64_t)(1 / step) - 8);

            for (int64_t i = k * dims[2]; i < (k + 1) * dims[2]; i++) {
                const double v = base + step * (double)random_between(&seed, 0, steps);

                convert_from_f64(dtype, guard.data, i, 1, &v, 0);
            }
        }
        c = (kernel_case){ .op_type = "InstanceNormalization", .since_version = 6 };
        kernel_case_float(&c, "epsilon", 1e-5);
        kernel_case_input(&c, dtype, 3, dims, guard.data, false);
        kernel_case_input(&c, dtype, 1, &channels, scale.data, false);
        kernel_case_input(&c, dtype, 1, &channels, bias.data, false);
        kernel_case_output(&c, dtype, 3, dims, y.data);
        assert_int_equal(kernel_case_prepare(&c, &operators_instance_normalization), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        for (int64_t k = 0; k < channels; k++) {
            const int64_t first = k * dims[2];
            const double base = convert_get_f64(dtype, guard.data, first), shift = convert_get_f64(dtype, bias.data, k);
            double mean = 0, variance = 0, factor;

            for (int64_t i = first; i < first + dims[2]; i++)
                mean += (convert_get_f64(dtype, guard.data, i) - base) / (double)dims[2];
            for (int64_t i = first; i < first + dims[2]; i++)
                variance += pow(convert_get_f64(dtype, guard.data, i) - base - mean, 2) / (double)dims[2];
            factor = convert_get_f64(dtype, scale.data, k) / sqrt(variance + 1e-5);
            for (int64_t i = first; i < first + dims[2]; i++) {
                const double want = (convert_get_f64(dtype, guard.data, i) - base - mean) * factor + shift,
                             got = convert_get_f64(dtype, y.data, i),
                             of_mean = steps == 0 ? 0 : 0.51 * fmin(step, 0x1p-23) * fabs(factor);

                if (!(fabs(got - want) <= of_mean + 4 * step * fabs(want)))
                    fail_msg("%s, %d elements %d steps apart: %.17g, not %.17g", inlay_dtype_name(dtype), (int)dims[2],
                             (int)steps, got, want);
            }
        }
        kernel_case_deinit(&c);
        guard_free(&guard);
        guard_free(&y);
        guard_free(&scale);
        guard_free(&bias);
    }
}

/* Shapes that do not match, and labels out of range, fail with a message. */
static void mistakes(void **state)
{
    int64_t two[] = { 2, 3 }, three = 3, four = 4, one[] = { 1 }, wrong[] = { 3 };
    float x[6] = { 0 }, p[4] = { 1, 1, 1, 1 }, y[6];
    static kernel_case c;

    (void)state;
    c = (kernel_case){ .op_type = "LayerNormalization", .since_version = 17 };
    kernel_case_input(&c, INLAY_FLOAT, 2, two, x, false);
    kernel_case_input(&c, INLAY_FLOAT, 1, &four, p, false);
    kernel_case_output(&c, INLAY_FLOAT, 2, two, y);
    assert_int_equal(kernel_case_prepare(&c, &operators_layer_normalization), INLAY_SHAPE_MISMATCH);
    assert_non_null(strstr(c.diag.text, "scale"));
    kernel_case_deinit(&c);

    c = (kernel_case){ .op_type = "BatchNormalization", .since_version = 15 };
    kernel_case_input(&c, INLAY_FLOAT, 2, two, x, false);
    for (int i = 0; i < 4; i++)
        kernel_case_input(&c, INLAY_FLOAT, 1, i == 2 ? &four : &three, p, false);
    kernel_case_output(&c, INLAY_FLOAT, 2, two, y);
    assert_int_equal(kernel_case_prepare(&c, &operators_batch_normalization), INLAY_SHAPE_MISMATCH);
    assert_non_null(strstr(c.diag.text, "input 3"));
    kernel_case_deinit(&c);

    c = (kernel_case){ .op_type = "NegativeLogLikelihoodLoss", .since_version = 13 };
    kernel_case_input(&c, INLAY_FLOAT, 2, (int64_t[]){ 1, 3 }, x, false);
    kernel_case_input(&c, INLAY_INT64, 1, one, wrong, false);
    kernel_case_output(&c, INLAY_FLOAT, 0, NULL, y);
    assert_int_equal(kernel_case_prepare(&c, &operators_loss), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(c.diag.text, "label 3"));
    kernel_case_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers),       cmocka_unit_test(batches),  cmocka_unit_test(groups),
        cmocka_unit_test(nearly_equal), cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
