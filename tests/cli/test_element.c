/* Single elements of every type as numbers and as text. */
#include "base/element.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* Every pair of types, at the ends of their ranges: rounded to floats, converted exactly to integers, or refused. */
static void conversions(void **state)
{
    static const inlay_dtype types[] = { INLAY_BOOL,     INLAY_INT8,   INLAY_INT16,  INLAY_INT32,  INLAY_INT64,
                                         INLAY_UINT8,    INLAY_UINT16, INLAY_UINT32, INLAY_UINT64, INLAY_FLOAT16,
                                         INLAY_BFLOAT16, INLAY_FLOAT,  INLAY_DOUBLE };
    static const struct {
        inlay_dtype to;
        double low, high; /* exclusive */
        int bits;         /* of the mantissa */
        double least;     /* floats: the smallest distance of two numbers */
    } ranges[] = {
        { INLAY_BOOL, -1, 2, 1, 0 },
        { INLAY_INT8, -129, 128, 8, 0 },
        { INLAY_INT16, -32769, 32768, 16, 0 },
        { INLAY_INT32, -0x1p31 - 1, 0x1p31, 32, 0 },
        { INLAY_INT64, -0x1.0000000000001p63, 0x1p63, 64, 0 },
        { INLAY_UINT8, -1, 256, 8, 0 },
        { INLAY_UINT16, -1, 65536, 16, 0 },
        { INLAY_UINT32, -1, 0x1p32, 32, 0 },
        { INLAY_UINT64, -1, 0x1p64, 64, 0 },
        { INLAY_FLOAT16, -65536, 65536, 11, 0x1p-24 },
        { INLAY_BFLOAT16, -0x1p128, 0x1p128, 8, 0x1p-133 },
        { INLAY_FLOAT, -0x1p128, 0x1p128, 24, 0x1p-149 },
        { INLAY_DOUBLE, -INFINITY, INFINITY, 53, 0x1p-1074 },
    };
    static const double values[] = { 0,    1,       2,        -1,      127,     128,    255,     256,    257,
                                     2047, 2049,    32767,    -32768,  65504,   65535,  65536,   0x1p24, 0x1p24 + 1,
                                     0.5,  0x1p-24, -0x1p-14, 0x1p31,  -0x1p31, 0x1p32, 0x1p53,  0x1p62, 0x1p63,
                                     0.1,  1e39,    -0x1p63,  0x1p100, 3.5,     0x1p64, 0x1p-149 };
    uint32_t tried = 0;

    (void)state;
    for (size_t f = 0; f < sizeof types / sizeof types[0]; f++)
        for (size_t t = 0; t < sizeof ranges / sizeof ranges[0]; t++)
            for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
                unsigned char from[8] = { 0 }, to[8] = { 0 };
                double held, back, step;
                int exponent;
                bool fits, is_float;

                if (element_convert(INLAY_DOUBLE, &values[v], types[f], from, 1) != 1)
                    continue;
                assert_true(element_number(types[f], from, 0, &held, NULL));
                (void)frexp(held, &exponent);
                /* A float is rounded to `bits` binary digits, fewer if it is tiny; an integer has to be exact. */
                is_float = element_is_float(ranges[t].to);
                step = is_float ? ldexp(1, exponent - ranges[t].bits) : 0;
                if (step < ranges[t].least && is_float)
                    step = ranges[t].least;
                fits = is_float ? fabs(held) + step / 2 < ranges[t].high || isinf(ranges[t].high)
                                : held > ranges[t].low && held < ranges[t].high && held == trunc(held);
                assert_int_equal(element_convert(types[f], from, ranges[t].to, to, 1), fits ? 1 : 0);
                if (fits) {
                    assert_true(element_number(ranges[t].to, to, 0, &back, NULL));
                    assert_true(fabs(back - held) <= step / 2);
                }
                tried++;
            }
    assert_true(tried > 2000);
    {
        const int64_t wide[] = { (INT64_C(1) << 53) + 1, INT64_MAX, INT64_MIN };
        const uint64_t above = UINT64_MAX;
        double number;
        int64_t integer;
        float narrow;

        assert_int_equal(element_convert(INLAY_INT64, &wide[0], INLAY_DOUBLE, &number, 1), 1);
        assert_true(number == 0x1p53);
        assert_int_equal(element_convert(INLAY_INT64, &wide[2], INLAY_FLOAT, &narrow, 1), 1);
        assert_int_equal(element_convert(INLAY_UINT64, &above, INLAY_DOUBLE, &number, 1), 1);
        assert_true(number == 0x1p64);
        assert_int_equal(element_convert(INLAY_UINT64, &above, INLAY_INT64, &integer, 1), 0);
        number = NAN;
        assert_int_equal(element_convert(INLAY_DOUBLE, &number, INLAY_FLOAT, &narrow, 1), 1);
        assert_true(isnan(narrow));
        assert_int_equal(element_convert(INLAY_DOUBLE, &number, INLAY_INT64, &integer, 1), 0);
    }
}

static void small_floats(void **state)
{
    static const struct {
        inlay_dtype dtype;
        uint16_t code;
        double value;
    } rows[] = {
        { INLAY_FLOAT16, 0x3c00, 1 },
        { INLAY_FLOAT16, 0xfbff, -65504 },
        { INLAY_FLOAT16, 0x0001, 0x1p-24 },
        { INLAY_FLOAT16, 0x7c00, INFINITY },
        { INLAY_FLOAT16, 0x7e00, NAN },
        { INLAY_BFLOAT16, 0x3fc0, 1.5 },
        { INLAY_BFLOAT16, 0xff80, -INFINITY },
        { INLAY_FLOAT8E4M3FN, 0x7e, 448 },
        { INLAY_FLOAT8E4M3FN, 0x7f, NAN },
        { INLAY_FLOAT8E4M3FN, 0x01, 0x1p-9 },
        { INLAY_FLOAT8E4M3FNUZ, 0x7f, 240 },
        { INLAY_FLOAT8E4M3FNUZ, 0x80, NAN },
        { INLAY_FLOAT8E5M2, 0x7b, 57344 },
        { INLAY_FLOAT8E5M2, 0x7c, INFINITY },
        { INLAY_FLOAT8E5M2FNUZ, 0x7f, 57344 },
        { INLAY_FLOAT8E5M2FNUZ, 0x80, NAN },
        { INLAY_FLOAT8E8M0, 0x7f, 1 },
        { INLAY_FLOAT8E8M0, 0xff, NAN },
        { INLAY_FLOAT4E2M1, 0x07, 6 },
        { INLAY_FLOAT4E2M1, 0x09, -0.5 },
        { INLAY_INT4, 0x0f, -1 },
        { INLAY_UINT4, 0x0f, 15 },
        { INLAY_INT2, 0x02, -2 },
        { INLAY_UINT2, 0x03, 3 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double v = 0;
        assert_true(element_number(rows[i].dtype, &rows[i].code, 0, &v, NULL));
        assert_true(isnan(rows[i].value) ? isnan(v) : v == rows[i].value);
    }
}

static void packed(void **state)
{
    static const uint8_t bytes[] = { 0x21, 0x43, 0xe4 };
    double v;

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_true(element_number(INLAY_UINT4, bytes, i, &v, NULL));
        assert_true(v == i + 1);
        assert_true(element_number(INLAY_UINT2, bytes + 2, i, &v, NULL));
        assert_true(v == i);
    }
}

/* Types that are not low-bit codes: numbers as stored in memory. */
static void wide(void **state)
{
    const float f[] = { 1.5f, -2.25f };
    const double d[] = { 0.1, -3 };
    const uint64_t most = UINT64_MAX;
    double re = 0, im = 0;

    (void)state;
    assert_true(element_number(INLAY_FLOAT, f, 1, &re, &im) && re == -2.25 && im == 0);
    assert_true(element_number(INLAY_DOUBLE, d, 1, &re, &im) && re == -3 && im == 0);
    assert_true(element_number(INLAY_COMPLEX64, f, 0, &re, &im) && re == 1.5 && im == -2.25);
    assert_true(element_number(INLAY_COMPLEX128, d, 0, &re, &im) && re == 0.1 && im == -3);
    assert_true(element_number(INLAY_UINT64, &most, 0, &re, &im) && re == 0x1p64 && im == 0);
    assert_false(element_number(INLAY_STRING, d, 0, &re, &im));
}

/* Every finite float16 converts to itself, and the middle between two of them to the one whose last bit is 0. */
static void float16_values(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x7c00; code++) {
        uint16_t bits = (uint16_t)code, next = (uint16_t)(code + 1);
        double v, w;

        (void)element_number(INLAY_FLOAT16, &bits, 0, &v, NULL);
        assert_int_equal(element_half((float)v), code);
        assert_int_equal(element_half((float)-v), code | 0x8000);
        if (code == 0x7bff)
            break;
        (void)element_number(INLAY_FLOAT16, &next, 0, &w, NULL);
        assert_int_equal(element_half((float)((v + w) / 2)), code & 1 ? code + 1 : code);
    }
    assert_int_equal(element_half(65519.0f), 0x7bff);
    assert_int_equal(element_half(65520.0f), 0x7c00);
    assert_int_equal(element_half(1e30f), 0x7c00);
    assert_int_equal(element_half(INFINITY), 0x7c00);
    assert_int_equal(element_half(NAN) & 0x7e00, 0x7e00);
    assert_int_equal(element_half(0x1p-25f), 0);
    assert_int_equal(element_half(0x1.8p-25f), 1);
}

/* A stored element can be read again, and its neighbours do not change. */
static void whole_numbers(void **state)
{
    static const inlay_dtype signed_ones[] = { INLAY_INT8,  INLAY_INT16,   INLAY_INT32,    INLAY_INT64,
                                               INLAY_FLOAT, INLAY_FLOAT16, INLAY_BFLOAT16, INLAY_DOUBLE };
    static const inlay_dtype none[] = { INLAY_STRING, INLAY_COMPLEX64, INLAY_COMPLEX128, INLAY_INT4, INLAY_FLOAT8E5M2 };
    double value;
    char data[64];

    (void)state;
    for (size_t t = 0; t < sizeof signed_ones / sizeof *signed_ones; t++) {
        memset(data, 0, sizeof data);
        assert_true(element_put(signed_ones[t], data, 1, -100));
        for (int64_t i = 0; i < 3; i++) {
            assert_true(element_number(signed_ones[t], data, i, &value, NULL));
            assert_true(value == (i == 1 ? -100 : 0));
        }
    }
    assert_true(element_put(INLAY_UINT16, data, 0, 65535) && element_number(INLAY_UINT16, data, 0, &value, NULL));
    assert_true(value == 65535);
    assert_true(element_put(INLAY_BOOL, data, 0, 256) && data[0] == 1);
    assert_true(element_put(INLAY_BFLOAT16, data, 0, 259)); /* nine bits: a tie, rounded to even */
    assert_true(element_number(INLAY_BFLOAT16, data, 0, &value, NULL) && value == 260);
    for (size_t t = 0; t < sizeof none / sizeof *none; t++)
        assert_false(element_put(none[t], data, 0, 1));
}

static void texts(void **state)
{
    static const inlay_str odd = { "a\"b\n", 4 };
    static const uint64_t big = UINT64_MAX;
    static const int64_t low = INT64_MIN;
    static const float c[] = { 1.5f, -2 };
    char text[64], tiny[12];

    (void)state;
    assert_string_equal(element_text(INLAY_STRING, &odd, 0, text, sizeof text), "\"a\\\"b\\x0a\"");
    assert_true(strlen(element_text(INLAY_STRING, &(inlay_str){ "long long text", 14 }, 0, tiny, sizeof tiny)) < 12);
    assert_string_equal(element_text(INLAY_UINT64, &big, 0, text, sizeof text), "18446744073709551615");
    assert_string_equal(element_text(INLAY_INT64, &low, 0, text, sizeof text), "-9223372036854775808");
    assert_string_equal(element_text(INLAY_COMPLEX64, c, 0, text, sizeof text), "1.5-2i");
    assert_string_equal(element_text(INLAY_BOOL, "\1", 0, text, sizeof text), "true");
    assert_string_equal(element_text(99, "\1", 0, text, sizeof text), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversions), cmocka_unit_test(small_floats),   cmocka_unit_test(packed),
        cmocka_unit_test(wide),        cmocka_unit_test(float16_values), cmocka_unit_test(whole_numbers),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
