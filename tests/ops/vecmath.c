/* vecmath.c - the elementary functions of vecmath.h, compared with the C library's in double, over the range of
 * floats. */
#include "simd/vecmath.h"
#include "cmocka_all.h"
#include "random.h"
#include <math.h>

/* |got - want| in units of the last place of want. */
static double ulps(float got, double want)
{
    int exponent;

    if (isnan(want))
        return isnan(got) ? 0 : 1e9;
    if (isinf((float)want) || isinf(got))
        return got == (float)want ? 0 : 1e9;
    (void)frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static double gelu(double x)
{
    return x == -INFINITY ? 0 : 0.5 * x * erfc(-x / sqrt(2));
}

static const struct row {
    const char *name;
    float (*fn)(float x);
    double (*exact)(double x);
    double low, high; /* the range of the guarantee; it always includes NaN */
    double limit;     /* ulps */
} rows[] = {
    { "vm_exp", vm_exp, exp, -INFINITY, INFINITY, 1.5 },       { "vm_expm1", vm_expm1, expm1, -INFINITY, INFINITY, 2 },
    { "vm_log", vm_log, log, -INFINITY, INFINITY, 1.5 },       { "vm_log1p", vm_log1p, log1p, 0, INFINITY, 2 },
    { "vm_sigmoid", vm_sigmoid, sigmoid, -87, INFINITY, 3.5 }, { "vm_tanh", vm_tanh, tanh, -INFINITY, INFINITY, 2 },
    { "vm_gelu", vm_gelu, gelu, -6.3, INFINITY, 100 },         { "vm_sin", vm_sin, sin, -VM_TRIG_MAX, VM_TRIG_MAX, 2 },
    { "vm_cos", vm_cos, cos, -VM_TRIG_MAX, VM_TRIG_MAX, 2 },   { "vm_atan", vm_atan, atan, -INFINITY, INFINITY, 2 },
    { "vm_asin", vm_asin, asin, -INFINITY, INFINITY, 2 },      { "vm_acos", vm_acos, acos, -INFINITY, INFINITY, 2 },
    { "vm_asinh", vm_asinh, asinh, -INFINITY, INFINITY, 4 },   { "vm_atanh", vm_atanh, atanh, -INFINITY, INFINITY, 4 },
};

static void test_accuracy(void **unused)
{
    (void)unused;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        double worst = 0;
        float at = 0;

        for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 6151) { /* a prime: every mantissa pattern */
            float x = f32_from_bits((uint32_t)bits);
            double error;
            if (!isnan(x) && !((double)x >= rows[row].low && (double)x <= rows[row].high))
                continue;
            error = ulps(rows[row].fn(x), rows[row].exact((double)x));
            at = error > worst ? x : at;
            worst = error > worst ? error : worst;
        }
        if (worst > rows[row].limit)
            fail_msg("%s is off by %g ulp at %.9g", rows[row].name, worst, (double)at);
    }
}

/* vd_log() of random bits, of doubles near 1, and of subnormals, compared with the C library's long double. */
static void test_log_of_double(void **unused)
{
    uint64_t seed = 1;
    double worst = 0, at = 0;

    (void)unused;
    for (int i = 0; i < 1000000; i++) {
        const uint64_t bits = random_bits(&seed) >> 1;
        const double x = f64_from_bits(i % 3 == 0   ? bits
                                       : i % 3 == 1 ? (bits >> 11) | UINT64_C(0x3fe) << 52
                                                    : bits >> 12);
        const long double want = logl((long double)x);
        int exponent;
        double error;

        if (isnan(x) || isinf(x) || want == 0)
            continue;
        (void)frexpl(want, &exponent);
        error = (double)(fabsl((long double)vd_log(x) - want) / ldexpl(1, exponent - 53));
        at = error > worst ? x : at;
        worst = error > worst ? error : worst;
    }
    if (worst > 1)
        fail_msg("vd_log is off by %g ulp at %.17g", worst, at);
    assert_true(vd_log(1) == 0 && vd_log(0) == -INFINITY && vd_log(-0.0) == -INFINITY && vd_log(INFINITY) == INFINITY);
    assert_true(isnan(vd_log(-1)) && isnan(vd_log(-INFINITY)) && isnan(vd_log(NAN)));
}

static void test_special_values(void **unused)
{
    (void)unused;
    assert_true(vm_exp(0.0f) == 1.0f);
    assert_true(vm_exp(-INFINITY) == 0.0f);
    assert_true(isinf(vm_exp(INFINITY)));
    assert_true(vm_expm1(-INFINITY) == -1.0f);
    assert_true(vm_log(1.0f) == 0.0f);
    assert_true(vm_log(0.0f) == -INFINITY);
    assert_true(isnan(vm_log(-1.0f)));
    assert_true(vm_log(INFINITY) == INFINITY);
    assert_true(vm_tanh(INFINITY) == 1.0f && vm_tanh(-INFINITY) == -1.0f);
    assert_true(signbit(vm_tanh(-0.0f)) && signbit(vm_atan(-0.0f)) && signbit(vm_asin(-0.0f)));
    assert_true(signbit(vm_asinh(-0.0f)) && signbit(vm_atanh(-0.0f)));
    assert_true(vm_sigmoid(-INFINITY) == 0.0f && vm_sigmoid(INFINITY) == 1.0f);
    assert_true(vm_gelu(INFINITY) == INFINITY && isnan(vm_gelu(-INFINITY)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_log_of_double),
        cmocka_unit_test(test_special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
