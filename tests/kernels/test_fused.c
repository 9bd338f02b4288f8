/* The emulation of fused multiply-adds (providers/simd/fused.h) equals libm's fmaf, which rounds once. */
#include "simd/fused.h"
#include "cmocka_all.h"
#include "random.h"

static float from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Numbers of few digits, whose sums are often halfway between two floats, or any number. */
static float number(uint64_t *seed, uint32_t kind)
{
    const uint64_t bits = random_bits(seed);

    if (kind == 0)
        return from_bits((uint32_t)bits);
    if (kind == 1) /* near 1, with few digits */
        return ldexpf((float)((bits & 0xfff) | 1), (int)(bits >> 20 & 31) - 16) * ((bits >> 32 & 1) != 0 ? -1 : 1);
    return ldexpf((float)((bits & 0xffffff) | 1), -150 + (int)(bits >> 30 & 31)); /* products and sums are subnormal */
}

static void check(const float *x, const float *y, const float *z)
{
    float got[8];

    fused_8(x, y, z, got);
    for (int i = 0; i < 8; i++) {
        const float want = fmaf(x[i], y[i], z[i]), alone = fused(x[i], y[i], z[i]);

        if (isnan(want) ? !isnan(got[i]) || !isnan(alone)
                        : memcmp(&got[i], &want, sizeof want) != 0 || memcmp(&alone, &want, sizeof want) != 0)
            fail_msg("%a * %a + %a is %a and %a, not %a", (double)x[i], (double)y[i], (double)z[i], (double)got[i],
                     (double)alone, (double)want);
    }
}

static void random_numbers(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(200000); n++) {
        float x[8], y[8], z[8];

        for (int i = 0; i < 8; i++) {
            const uint32_t kind = (uint32_t)random_below(&seed, 3);

            x[i] = number(&seed, kind);
            y[i] = kind == 2 ? from_bits(0x3f800000u | (uint32_t)(random_bits(&seed) & 0x7fffff)) : number(&seed, kind);
            z[i] = number(&seed, kind);
        }
        check(x, y, z);
    }
}

/* Ties of the double sum that only the lost part decides, and special values. */
static void ties_and_special_values(void **state)
{
    static const float values[] = {
        0,        -0.0f,     1,         -1,         0x1p-149f,     -0x1p-149f, 0x1p-126f,
        INFINITY, -INFINITY, NAN,       0x1.8p-75f, 0x1p24f,       0x1p-24f,   0x1p-54f,
        0x1p30f,  0x1p127f,  0x1p-100f, 3.0e38f,    0x1.000002p0f, -0x1p-25f,  0x1.fffffep0f
    };
    enum { COUNT = sizeof values / sizeof values[0] };

    (void)state;
    for (int a = 0; a < COUNT; a++)
        for (int b = 0; b < COUNT; b++)
            for (int c = 0; c < COUNT; c++) {
                float x[8], y[8], z[8];

                for (int i = 0; i < 8; i++) {
                    x[i] = values[(a + i) % COUNT];
                    y[i] = values[b];
                    z[i] = values[c];
                }
                check(x, y, z);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_numbers), cmocka_unit_test(ties_and_special_values) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
