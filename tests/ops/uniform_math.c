/* uniform_math.c - the functions of providers/simd/uniform_math.h: accuracy, compared with the functions of long
 * double; special values; and the bits of their results, which are the same on every CPU. */
#include "simd/uniform_math.h"
#include "cmocka_all.h"
#include "random.h"
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define FUNCTIONS(X)                                                                                                   \
    X(exp, -745, 710, 0.9)                                                                                             \
    X(expm1, -40, 710, 0.6)                                                                                            \
    X(log, 0, 1e300, 0.6)                                                                                              \
    X(log2, 0, 1e300, 0.6)                                                                                             \
    X(log10, 0, 1e300, 0.6)                                                                                            \
    X(log1p, -1, 1e300, 0.6)                                                                                           \
    X(sin, -1e300, 1e300, 0.6)                                                                                         \
    X(cos, -1e300, 1e300, 0.6)                                                                                         \
    X(tan, -1e300, 1e300, 0.6)                                                                                         \
    X(asin, -1, 1, 0.6)                                                                                                \
    X(acos, -1, 1, 0.6)                                                                                                \
    X(atan, -1e300, 1e300, 0.6)                                                                                        \
    X(sinh, -710, 710, 0.6)                                                                                            \
    X(cosh, -710, 710, 0.6)                                                                                            \
    X(tanh, -30, 30, 0.6)                                                                                              \
    X(asinh, -1e300, 1e300, 1)                                                                                         \
    X(acosh, 1, 1e300, 0.6)                                                                                            \
    X(atanh, -1, 1, 1)                                                                                                 \
    X(erf, -6, 6, 0.6)                                                                                                 \
    X(erfc, -6, 26, 0.6)

static const struct function {
    const char *name;
    double (*fn)(double x);
    long double (*exact)(long double x);
    double low, high, limit; /* arguments; ulps */
} functions[] = {
#define ROW(name, low, high, limit) { #name, uniform_##name, name##l, low, high, limit },
    FUNCTIONS(ROW)
#undef ROW
};

enum { FUNCTION_COUNT = sizeof functions / sizeof functions[0] };

/* |got - want| in units of the last place of want. */
static double ulps(double got, long double want)
{
    int exponent;

    if (isnan(want))
        return isnan(got) ? 0 : 1e9;
    if (isinf((double)want) || isinf(got))
        return got == (double)want ? 0 : 1e9;
    (void)frexpl(want, &exponent);
    return (double)(fabsl((long double)got - want) / ldexpl(1, (exponent < -1021 ? -1021 : exponent) - 53));
}

/* An argument within the bounds: near 1, or of any magnitude. */
static double argument(const struct function *function, uint64_t *seed)
{
    const double unit = (double)(random_bits(seed) >> 11) * 0x1p-53;
    double x = random_below(seed, 2) == 0 ? unit * 8 : ldexp(1 + unit, (int)random_between(seed, -60, 1000));

    if (x > function->high)
        x = unit * function->high;
    x = function->low < 0 && random_below(seed, 2) == 0 ? -x : x;
    return fmax(x, function->low);
}

static void errors_are_bounded(void **state)
{
    (void)state;
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        const struct function *f = &functions[i];
        uint64_t seed = 1 + i;
        double worst = 0, at = 0;

        for (uint32_t n = 0; n < random_rounds(20000); n++) {
            const double x = argument(f, &seed), off = ulps(f->fn(x), f->exact((long double)x));

            if (off > worst) {
                worst = off;
                at = x;
            }
        }
        if (LDBL_MANT_DIG >= 64 && worst > f->limit)
            fail_msg("%s(%a): %.3f ulp", f->name, at, worst);
    }
}

static void powers_are_accurate(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(20000); n++) {
        const double x = ldexp(1 + (double)random_unit(&seed), (int)random_between(&seed, -30, 30));
        const double y = (double)random_signed(&seed) * (n % 2 == 0 ? 4 : 30);
        /* long double has 11 more digits, of which the exponent takes up to 10 */
        const double off = ulps(uniform_pow(x, y), powl((long double)x, (long double)y));

        if (LDBL_MANT_DIG >= 64 && off > 0.52)
            fail_msg("pow(%a, %a): %.3f ulp", x, y, off);
    }
}

/* Special arguments give libm's results, which are those of C's Annex F, with their sign. */
static void special_values(void **state)
{
    static const double values[] = { 0.0,     -0.0,     1,        -1,        2,          -2,        3,     -3,
                                     0.5,     -0.5,     2.5,      -2.5,      INFINITY,   -INFINITY, NAN,   DBL_MAX,
                                     DBL_MIN, -DBL_MAX, -DBL_MIN, 0x1p-1074, -0x1p-1074, 1e20,      -1e20, 0x1p53 + 2 };
    enum { COUNT = sizeof values / sizeof values[0] };

    (void)state;
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        for (size_t k = 0; k < COUNT; k++) {
            const double got = functions[i].fn(values[k]), want = (double)functions[i].exact((long double)values[k]);

            if (ulps(got, functions[i].exact((long double)values[k])) > 1 ||
                (!isnan(want) && signbit(got) != signbit(want)))
                fail_msg("%s(%a) is %a, not %a", functions[i].name, values[k], got, want);
        }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < COUNT; k++) {
            const double got = uniform_pow(values[i], values[k]), want = pow(values[i], values[k]);

            if (ulps(got, (long double)want) > 1 || (!isnan(want) && signbit(got) != signbit(want)))
                fail_msg("pow(%a, %a) is %a, not %a", values[i], values[k], got, want);
        }
}

/* The hash of results at arguments that need no libm. It must be the same for each compiler and CPU. */
static void bits_are_fixed(void **state)
{
    uint64_t hash = 0xcbf29ce484222325, seed = 3;

    (void)state;
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        for (int n = 0; n < 2000; n++) {
            const double x = argument(&functions[i], &seed), y = functions[i].fn(x),
                         power = uniform_pow(x < 0 ? -x : x, 0.37);
            uint64_t bits[2];

            memcpy(&bits[0], &y, sizeof y);
            memcpy(&bits[1], &power, sizeof power);
            for (int k = 0; k < 2; k++)
                hash = (hash ^ bits[k]) * 0x100000001b3;
        }
    assert_int_equal(hash, UINT64_C(0x43ba312a707aecaa));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(errors_are_bounded), cmocka_unit_test(powers_are_accurate),
                                        cmocka_unit_test(special_values), cmocka_unit_test(bits_are_fixed) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
