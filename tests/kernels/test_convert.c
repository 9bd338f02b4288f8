/* Conversions to types of less than a byte: the unused bits of the last byte are 0, whatever the memory held. */
#include "simd/convert.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(unused_bits) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
