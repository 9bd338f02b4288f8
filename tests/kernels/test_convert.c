/* Conversions of ranges. */
#include "simd/convert.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Types of less than a byte: the unused bits of the last byte are 0, also in memory of other values. */
static void unused_bits(void **state)
{
    static const inlay_dtype types[] = { INLAY_INT4, INLAY_UINT4, INLAY_FLOAT4E2M1, INLAY_INT2, INLAY_UINT2 };
    static const float floats[] = { 1, 3, -1, 1, 1, 1, 1, 1, 1, 1, 1 };
    static const double doubles[] = { 1, 3, -1, 1, 1, 1, 1, 1, 1, 1, 1 };
    static const int64_t integers[] = { 1, 3, -1, 1, 1, 1, 1, 1, 1, 1, 1 };

    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const int64_t bits = (int64_t)inlay_dtype_bits(types[t]);

        for (int64_t count = 1; count <= 11; count++)
            for (int from = 0; from < 3; from++) {
                uint8_t made[2][8];
                const int64_t bytes = (count * bits + 7) / 8, used = count * bits - (bytes - 1) * 8;

                for (int k = 0; k < 2; k++) {
                    memset(made[k], k == 0 ? 0 : 0xff, sizeof made[k]);
                    if (from == 0)
                        convert_from_f32(types[t], made[k], 0, count, floats, 0);
                    else if (from == 1)
                        convert_from_f64(types[t], made[k], 0, count, doubles, 0);
                    else
                        convert_from_i64(types[t], made[k], 0, count, integers, 0);
                    assert_int_equal(made[k][bytes - 1] >> used, 0);
                }
                assert_memory_equal(made[0], made[1], bytes);
            }
    }
}

/* Doubles to small integers: the low bits of the int32 to which they saturate, from any element on. */
static void small_integers(void **state)
{
    static const double some[] = { 0,     -0.9,    0.9,          2.9999999999, -3.5,          255.99, 256,
                                   -129,  65535.5, 2147483647.4, 2147483648.0, -2147483648.9, 4e9,    -4e9,
                                   1e300, -1e300,  NAN,          INFINITY,     -INFINITY };
    static const inlay_dtype types[] = { INLAY_UINT8, INLAY_INT8, INLAY_UINT16, INLAY_INT16, INLAY_INT32 };
    enum { SOME = sizeof some / sizeof *some, MOST = 80 };
    double from[MOST];

    (void)state;
    for (int64_t i = 0; i < MOST; i++)
        from[i] = i % 3 == 0 ? (double)i * 1.7 - 60 : some[i % SOME];
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (int64_t count = 1; count < MOST; count++) {
            const int64_t bytes = inlay_dtype_bits(types[t]) / 8, first = count % 5;
            int32_t to[MOST + 8];

            memset(to, 0x5a, sizeof to);
            convert_from_f64(types[t], to, first, count, from, 0);
            for (int64_t i = 0; i < first + count + 4; i++) {
                const double x = i < first || i >= first + count ? 0x5a5a5a5a : from[i - first];
                const int32_t want = x != x               ? 0
                                     : x >= 2147483647.0  ? INT32_MAX
                                     : x <= -2147483648.0 ? INT32_MIN
                                                          : (int32_t)x;

                assert_memory_equal((char *)to + i * bytes, &want, (size_t)bytes);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(unused_bits), cmocka_unit_test(small_integers) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
