/* Functions over rows, for every instruction set that this CPU supports, compared with double: errors in units in the
 * last place, special numbers, rows of any length, float16. */
#include "simd/convert.h"
#include "simd/row_set.h"
#include "cmocka_all.h"
#include <math.h>
#include <stdlib.h>

enum { LEVELS = 4, LENGTH = 100003, SHORT = 1100 };

static uint32_t levels(const row_set *out[LEVELS])
{
    uint32_t n = 0;

#if defined(__x86_64__)
    if (cpu_has(CPU_AVX512))
        out[n++] = &rows_avx512;
    if (cpu_has(CPU_AVX2))
        out[n++] = &rows_avx2;
#elif defined(__aarch64__)
    out[n++] = &rows_neon;
#elif defined(SIMD_RVV)
    if (cpu_has(CPU_RVV))
        out[n++] = &rows_rvv;
#endif
    out[n++] = &rows_c;
    return n;
}

static double sigmoid(double input)
{
    return 1 / (1 + exp(-input));
}

/* Returns the error in units in the last place of the exact result, which must be a normal number. */
static double ulps(float output, double exact)
{
    const double step = ldexp(1, ilogb(exact) - 23);
    return fabs((double)output - exact) / step;
}

static void check(row_fn fn, double (*exact)(double), float from, float to, double most)
{
    float *input = malloc(LENGTH * sizeof *input), *output = malloc(LENGTH * sizeof *output);
    double worst = 0;

    assert_non_null(input);
    assert_non_null(output);
    for (int i = 0; i < LENGTH; i++)
        input[i] = from + (to - from) * (float)i / LENGTH;
    fn(input, output, LENGTH);
    for (int i = 0; i < LENGTH; i++) {
        const double want = exact((double)input[i]);

        if (fabs(want) > 1e-37 && fabs(want) < 3e38)
            worst = fmax(worst, ulps(output[i], want));
    }
    fn(input, input, LENGTH); /* in place */
    assert_memory_equal(input, output, LENGTH * sizeof *input);
    if (worst > most)
        print_error("%g units\n", worst);
    assert_true(worst <= most);
    free(input);
    free(output);
}

static void test_functions(void **state)
{
    const row_set *all[LEVELS];
    const uint32_t n = levels(all);

    (void)state;
    for (uint32_t level = 0; level < n; level++) {
        check(all[level]->exp, exp, -87, 88.7f, 1.2);
        check(all[level]->exp, exp, -1e-3f, 1e-3f, 1.2);
        check(all[level]->tanh, tanh, -12, 12, 2.7);
        check(all[level]->tanh, tanh, -0.7f, 0.7f, 2.7);
        check(all[level]->tanh, tanh, -1e-5f, 1e-5f, 2.7);
        check(all[level]->erf, erf, -5, 5, 2.4);
        check(all[level]->erf, erf, -0.01f, 0.01f, 2.4);
        check(all[level]->sigmoid, sigmoid, -80, 20, 2.4);
        check(all[level]->sigmoid, sigmoid, -4, 1, 2.4);
    }
}

static void test_special(void **state)
{
    const row_set *all[LEVELS];
    const uint32_t n = levels(all);

    (void)state;
    for (uint32_t level = 0; level < n; level++) {
        const float input[7] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, -200, 200 };
        float output[7];

        all[level]->exp(input, output, 7);
        assert_true(isnan(output[0]) && output[1] == INFINITY && output[2] == 0 && output[3] == 1 && output[4] == 1 &&
                    output[5] == 0 && output[6] == INFINITY);
        all[level]->tanh(input, output, 7);
        assert_true(isnan(output[0]) && output[1] == 1 && output[2] == -1 && output[3] == 0 && !signbit(output[3]) &&
                    output[4] == 0 && signbit(output[4]) && output[5] == -1 && output[6] == 1);
        all[level]->erf(input, output, 7);
        assert_true(isnan(output[0]) && output[1] == 1 && output[2] == -1 && output[3] == 0 && !signbit(output[3]) &&
                    output[4] == 0 && signbit(output[4]) && output[5] == -1 && output[6] == 1);
        all[level]->sigmoid(input, output, 7);
        assert_true(isnan(output[0]) && output[1] == 1 && output[2] == 0 && output[3] == 0.5f && output[4] == 0.5f &&
                    output[5] >= 0 && output[5] < 1e-37f && output[6] == 1);
    }
}

/* NaN has 2^24 forms: kernels that add to the bits of a float must not make numbers of any. */
static void test_forms_of_nan(void **state)
{
    enum { FORMS = 2 * 24, ROW = 40 };
    const row_set *all[LEVELS];
    const uint32_t n = levels(all);
    float forms[FORMS], output[FORMS], row[ROW], end;

    (void)state;
    for (uint32_t i = 0; i < FORMS; i++)
        forms[i] = f32_from_bits(0x7f800000u | (i % 2) << 31 | (i / 2 < 23 ? 1u << i / 2 : 0x7fffffu));
    for (uint32_t level = 0; level < n; level++) {
        const row_fn functions[] = { all[level]->exp, all[level]->tanh, all[level]->erf, all[level]->sigmoid };

        for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
            functions[f](forms, output, FORMS);
            for (int i = 0; i < FORMS; i++)
                if (!isnan(output[i]))
                    fail_msg("function %zu at level %u: NaN 0x%x became %g", f, level, f32_bits(forms[i]),
                             (double)output[i]);
        }
        for (int i = 0; i < FORMS; i++) {
            for (int k = 0; k < ROW; k++)
                row[k] = k == i % ROW ? forms[i] : (float)k;
            all[level]->tops(row, &end, 1, ROW);
            assert_true(isnan(end));
            all[level]->lows(row, &end, 1, ROW);
            assert_true(isnan(end));
            assert_true(isnan(all[level]->sum(row, ROW)));
            assert_false(all[level]->finite(row, ROW));
            all[level]->softmax(row, row, 1, ROW);
            for (int k = 0; k < ROW; k++)
                assert_true(isnan(row[k]));
        }
    }
}

/* Reductions and softmax of rows of every length, with and without NaN and infinities. */
static void test_rows(void **state)
{
    const row_set *all[LEVELS];
    const uint32_t levels_here = levels(all);
    float input[SHORT], output[SHORT], logarithms[SHORT];

    (void)state;
    for (uint32_t level = 0; level < levels_here; level++) {
        for (int n = 1; n <= SHORT; n += n < 150 ? 1 : 37) {
            double sum = 0, mean = 0, top = -INFINITY, low = INFINITY;
            float end;

            for (int i = 0; i < n; i++) {
                input[i] = (float)((i * 37 + n) % 101) / 7 - 6;
                top = fmax(top, (double)input[i]);
                low = fmin(low, (double)input[i]);
            }
            for (int i = 0; i < n; i++)
                sum += exp((double)input[i] - top);
            all[level]->softmax(input, output, 1, n);
            all[level]->log_softmax(input, logarithms, 1, n);
            for (int i = 0; i < n; i++) {
                assert_true(fabs((double)output[i] - exp((double)input[i] - top) / sum) <= 1e-6 * (double)output[i]);
                assert_true(fabs((double)logarithms[i] - ((double)input[i] - top - log(sum))) <= 2e-6);
            }
            all[level]->means(input, &end, 1, n);
            for (int i = 0; i < n; i++)
                mean += (double)input[i] / n;
            assert_true(fabs((double)end - mean) <= 1e-6);
            assert_true(fabs(all[level]->sum(input, n) / n - mean) <= 1e-6);
            all[level]->tops(input, &end, 1, n);
            assert_true((double)end == top);
            all[level]->lows(input, &end, 1, n);
            assert_true((double)end == low);
            input[(n * 5) % n] = NAN;
            input[n / 2] = NAN;
            all[level]->tops(input, &end, 1, n);
            assert_true(isnan(end));
            all[level]->lows(input, &end, 1, n);
            assert_true(isnan(end));
            all[level]->softmax(input, output, 1, n);
            for (int i = 0; i < n; i++)
                assert_true(isnan(output[i]));
            for (int i = 0; i < n; i++)
                input[i] = i == n / 2 ? INFINITY : -INFINITY;
            all[level]->tops(input, &end, 1, n);
            assert_true(end == INFINITY);
            all[level]->lows(input, &end, 1, n);
            assert_true(n == 1 ? end == INFINITY : end == -INFINITY);
        }
    }
}

/* Results of many rows in place equal those of each single row, bit for bit. */
static void test_many_rows(void **state)
{
    enum { ROWS = 37, MOST = 560 };
    const row_set *all[LEVELS];
    const uint32_t levels_here = levels(all);
    static float input[ROWS * MOST], output[ROWS * MOST];
    float alone[MOST], ends[ROWS], end;

    (void)state;
    for (uint32_t level = 0; level < levels_here; level++) {
        const struct {
            void (*rows)(const float *input, float *output, int64_t count, int64_t n);
            bool folds;
        } of[] = { { all[level]->softmax, false },
                   { all[level]->log_softmax, false },
                   { all[level]->tops, true },
                   { all[level]->lows, true } };

        for (int n = 1; n <= MOST; n += n < 140 ? 1 : 21) {
            for (int i = 0; i < ROWS * n; i++)
                input[i] = (float)((i * 37 + n) % 101) / 3 - 16;
            input[3 * n + n / 2] = NAN;
            for (size_t f = 0; f < sizeof of / sizeof *of; f++) {
                memcpy(output, input, sizeof input);
                of[f].rows(output, of[f].folds ? ends : output, ROWS, n);
                for (int r = 0; r < ROWS; r++) {
                    const float *got = of[f].folds ? &ends[r] : output + r * n, *want = of[f].folds ? &end : alone;

                    of[f].rows(input + r * n, of[f].folds ? &end : alone, 1, n);
                    for (int i = 0; i < (of[f].folds ? 1 : n); i++)
                        assert_true(r == 3 ? isnan(got[i]) && isnan(want[i]) : f32_bits(got[i]) == f32_bits(want[i]));
                }
            }
        }
    }
}

/* Norms and moments of many rows: compared with double, and the bits of each single row. */
static void test_norms(void **state)
{
    enum { ROWS = 19, MOST = 1300 };
    const row_set *all[LEVELS];
    const uint32_t levels_here = levels(all);
    static float input[ROWS * MOST], output[ROWS * MOST];
    float alone[MOST], means[ROWS], variances[ROWS], mean, variance;

    (void)state;
    for (uint32_t level = 0; level < levels_here; level++) {
        for (int n = 1; n <= MOST; n += n < 70 ? 1 : 83) {
            for (int i = 0; i < ROWS * n; i++)
                input[i] = i / n == 4 ? 0 : (i / n == 7 ? 0x1p-110f : 1) * ((float)((i * 37 + n) % 101) / 3 - 11);
            all[level]->moments(input, means, variances, ROWS, n);
            for (int euclidean = 0; euclidean < 2; euclidean++) {
                memcpy(output, input, sizeof input);
                all[level]->units(output, output, ROWS, n, euclidean == 1);
                for (int r = 0; r < ROWS; r++) {
                    const float *row = input + r * n;
                    double norm = 0, sum = 0, squares = 0;

                    all[level]->units(row, alone, 1, n, euclidean == 1);
                    assert_memory_equal(alone, output + r * n, (size_t)n * sizeof *alone);
                    for (int i = 0; i < n; i++) {
                        norm += euclidean == 1 ? (double)row[i] * (double)row[i] : fabs((double)row[i]);
                        sum += (double)row[i];
                    }
                    norm = euclidean == 1 ? sqrt(norm) : norm;
                    for (int i = 0; i < n; i++) {
                        squares += ((double)row[i] - sum / n) * ((double)row[i] - sum / n);
                        if (euclidean == 0 || norm > 1e-15 || norm == 0) /* squares of smaller ones underflow */
                            assert_true(fabs((double)alone[i] - (norm > 0 ? (double)row[i] / norm : 0)) <= 1e-6);
                    }
                    all[level]->moments(row, &mean, &variance, 1, n);
                    assert_true(f32_bits(mean) == f32_bits(means[r]) && f32_bits(variance) == f32_bits(variances[r]));
                    assert_true(fabs((double)mean - sum / n) <= 3e-6 && fabs((double)variance - squares / n) <= 1e-4);
                }
            }
            all[level]->affine(input, output, n, 3, 2, -1);
            for (int i = 0; i < n; i++)
                assert_true(output[i] == (input[i] - 3) * 2 - 1);
        }
    }
}

static void test_windows(void **state)
{
    enum { MOST = 150, GUARD = 40 };
    const row_set *all[LEVELS];
    const uint32_t levels_here = levels(all);
    float input[MOST + 8 * 11], output[MOST + GUARD];

    (void)state;
    for (uint32_t level = 0; level < levels_here; level++) {
        for (int n = 1; n <= MOST; n += 1 + n / 20) {
            for (int taps = 1; taps <= 8; taps++) {
                const int step = taps % 2 ? 1 : 11;

                for (int i = 0; i < n + (taps - 1) * step; i++)
                    input[i] = i % 29 == 3 ? -INFINITY : (float)((i * 37 + n) % 101) / 7 - 6;
                for (int i = 0; i < MOST + GUARD; i++)
                    output[i] = 77;
                all[level]->windows(input, output, n, taps, step);
                for (int i = 0; i < n; i++) {
                    float top = input[i];

                    for (int t = 1; t < taps; t++)
                        top = fmaxf(top, input[i + t * step]);
                    assert_true(output[i] == top);
                }
                for (int i = n; i < MOST + GUARD; i++)
                    assert_true(output[i] == 77);
            }
            for (int i = 0; i < n; i++)
                input[i] = 3e38f;
            assert_true(all[level]->finite(input, n));
            input[n * 7 % n] = NAN;
            assert_false(all[level]->finite(input, n));
            input[0] = 1, input[n - 1] = -INFINITY;
            assert_false(all[level]->finite(input, n));
        }
    }
}

static void test_half(void **state)
{
    const row_set *all[LEVELS];
    const uint32_t n = levels(all);
    static uint16_t halves[65536], back[65536];
    static float floats[65536], nudged[65536];

    (void)state;
    for (uint32_t i = 0; i < 65536; i++)
        halves[i] = (uint16_t)i;
    for (uint32_t level = 0; level < n; level++) {
        for (int64_t count = 65536; count > 65530; count--) {
            all[level]->from_half(halves, floats, count);
            all[level]->to_half(floats, back, count);
            for (int64_t i = 0; i < count; i++) {
                const bool is_nan = (i & 0x7fff) > 0x7c00;

                assert_true(is_nan ? isnan(floats[i]) : floats[i] == f16_to_f32((uint16_t)i));
                assert_true(is_nan ? (back[i] & 0x7fff) > 0x7c00 : back[i] == i);
            }
        }
        for (uint32_t i = 0; i < 65536; i++) /* halfway between two halves, and one float below and above */
            nudged[i] = f32_from_bits(f32_bits(f16_to_f32((uint16_t)(i & 0x7bff))) + 0x1000u + i % 3 - 1);
        all[level]->to_half(nudged, back, 65536);
        for (uint32_t i = 0; i < 65536; i++)
            assert_int_equal(back[i], f32_to_f16(nudged[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions), cmocka_unit_test(test_special),   cmocka_unit_test(test_forms_of_nan),
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_many_rows), cmocka_unit_test(test_norms),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
