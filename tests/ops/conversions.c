/* conversions.c - conversions between element types: the formats of floats, Cast between all pairs of types, and
 * QuantizeLinear with DequantizeLinear. */
#include "guarded_tensor.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include <math.h>
#include <string.h>

static void test_float_formats(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float f = f16_to_f32(h), b = bf16_to_f32(h);
        if (f == f)
            assert_int_equal(f32_to_f16(f), h);
        if (b == b)
            assert_int_equal(f32_to_bf16(b), h);
    }
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t b = (uint8_t)i;
        float f = f8e4m3fn_to_f32(b);
        if (f == f)
            assert_int_equal(f32_to_f8e4m3fn(f, false), b);
        f = f8e5m2_to_f32(b);
        if (f == f)
            assert_int_equal(f32_to_f8e5m2(f, false), b);
        f = f8e4m3fnuz_to_f32(b);
        if (f == f)
            assert_int_equal(f32_to_f8e4m3fnuz(f, false), b);
        f = f8e5m2fnuz_to_f32(b);
        if (f == f)
            assert_int_equal(f32_to_f8e5m2fnuz(f, false), b);
        for (uint32_t mode = E8M0_UP; mode <= E8M0_NEAREST; mode++)
            assert_int_equal(f32_to_f8e8m0(f8e8m0_to_f32(b), true, mode), b);
        if (i < 16)
            assert_int_equal(f32_to_f4e2m1(f4e2m1_to_f32(b)), b);
    }
    /* Values above the largest, infinities and NaN, with and without saturation: the tables of Cast-19. */
    const float big[] = { 1e9f, -1e9f, INFINITY, -INFINITY, NAN };
    const uint8_t fn[2][5] = { { 0x7f, 0xff, 0x7f, 0xff, 0x7f }, { 0x7e, 0xfe, 0x7e, 0xfe, 0x7f } };
    const uint8_t e5[2][5] = { { 0x7c, 0xfc, 0x7c, 0xfc, 0x7e }, { 0x7b, 0xfb, 0x7b, 0xfb, 0x7e } };
    const uint8_t uz[2][5] = { { 0x80, 0x80, 0x80, 0x80, 0x80 }, { 0x7f, 0xff, 0x7f, 0xff, 0x80 } };
    for (int saturate = 0; saturate < 2; saturate++)
        for (int i = 0; i < 5; i++) {
            assert_int_equal(f32_to_f8e4m3fn(big[i], saturate) & (i == 4 ? 0x7f : 0xff), fn[saturate][i]);
            assert_int_equal(f32_to_f8e5m2(big[i], saturate) & (i == 4 ? 0x7f : 0xff), e5[saturate][i]);
            assert_int_equal(f32_to_f8e4m3fnuz(big[i], saturate), uz[saturate][i]);
            assert_int_equal(f32_to_f8e5m2fnuz(big[i], saturate), uz[saturate][i]);
        }
    assert_int_equal(f32_to_f8e4m3fnuz(-1e-9f, false), 0); /* no negative zero */
    assert_int_equal(f32_to_f4e2m1(100.0f), 7);
    assert_int_equal(f32_to_f8e8m0(3.0f, true, E8M0_UP), 129);
    assert_int_equal(f32_to_f8e8m0(3.0f, true, E8M0_DOWN), 128);
    assert_int_equal(f32_to_f8e8m0(2.9f, true, E8M0_NEAREST), 128);
    assert_int_equal(f32_to_f8e8m0(3.0f, true, E8M0_NEAREST), 129);
    /* A double just above the tie between two halves rounds up, although its float is the tie. */
    assert_int_equal(f32_to_f16(f64_to_f32_odd(1.0 + 0x1p-11 + 0x1p-40)), 0x3c01);
    assert_int_equal(f32_to_f16(f64_to_f32_odd(1.0 + 0x1p-11)), 0x3c00);
}

static void test_floats_to_integers(void **unused)
{
    (void)unused;
    assert_int_equal(f32_to_i32(NAN), 0);
    assert_int_equal(f32_to_i32(3e9f), INT32_MAX);
    assert_int_equal(f32_to_i32(-INFINITY), INT32_MIN);
    assert_int_equal(f32_to_i32(-1.9f), -1);
    assert_true(f64_to_i64(1e300) == INT64_MAX);
    assert_true(f64_to_i64(-1e300) == INT64_MIN);
    assert_true(f64_to_i64(-9.0) == -9);
    assert_true(f64_to_u64(1.8e19) == UINT64_C(18000000000000000000));
    assert_true(f64_to_u64(1e30) == UINT64_MAX);
}

/* Cast between all pairs of types that ONNX supports, with values that all types can hold. */
static void test_cast_all_pairs(void **unused)
{
    const int64_t dims[] = { 5, 7 };

    (void)unused;
    for (inlay_dtype from = 1; from < INLAY_DTYPE_COUNT; from++)
        for (inlay_dtype to = 1; to < INLAY_DTYPE_COUNT; to++) {
            uint64_t skip = KIT_COMPLEX | KIT_BIT(STRING);
            if (((INLAY_DTYPE_BIT(from) | INLAY_DTYPE_BIT(to)) & skip) != 0)
                continue;
            kernel_case c = { .op_type = "Cast", .since_version = 25 };
            struct tensor x = make(from, 2, dims), y = make(to, 2, dims);
            bool pow2 = from == INLAY_FLOAT8E8M0 || to == INLAY_FLOAT8E8M0;

            for (int64_t i = 0; i < x.count; i++)
                set(&x, i, pow2 ? 1 : (double)(i * i % 3 % 2));
            add_input(&c, &x);
            add_output(&c, &y);
            assert_int_equal(run(&c, &operators_cast), INLAY_OK);
            for (int64_t i = 0; i < x.count; i++)
                assert_true(get(&y, i) == (pow2 ? 1 : (double)(i * i % 3 % 2)));
            guard_free(&x.memory);
            guard_free(&y.memory);
        }
}

static void test_cast_strings(void **unused)
{
    static const struct {
        const char *text;
        inlay_dtype to;
        double value;
        inlay_status status;
    } rows[] = {
        { "1.5", INLAY_FLOAT, 1.5, INLAY_OK },
        { " -2e3\n", INLAY_DOUBLE, -2000, INLAY_OK },
        { "+inf", INLAY_FLOAT, INFINITY, INLAY_OK },
        { "100.5", INLAY_INT32, 100, INLAY_OK },
        { "-7", INLAY_INT8, -7, INLAY_OK },
        { "18446744073709551615", INLAY_UINT64, 18446744073709551615.0, INLAY_OK },
        { "0.25", INLAY_BOOL, 1, INLAY_OK },
        { "True", INLAY_BOOL, 1, INLAY_OK },
        { "hello", INLAY_FLOAT, 0, INLAY_INVALID_ARGUMENT },
        { "", INLAY_INT64, 0, INLAY_INVALID_ARGUMENT },
        { "1.5x", INLAY_FLOAT16, 0, INLAY_INVALID_ARGUMENT },
    };

    (void)unused;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        kernel_case c = { .op_type = "Cast", .since_version = 13 };
        inlay_str text = { rows[r].text, strlen(rows[r].text) };
        struct tensor y = make(rows[r].to, 0, NULL);

        kernel_case_input(&c, INLAY_STRING, 0, NULL, &text, false);
        add_output(&c, &y);
        assert_int_equal(run(&c, &operators_cast), rows[r].status);
        if (rows[r].status == INLAY_OK)
            assert_true(get(&y, 0) == rows[r].value);
        guard_free(&y.memory);
    }
}

/* Floats outside the range of a sub-byte type: the low bits of the int32 that they saturate to. */
static void test_cast_beyond_nibbles(void **unused)
{
    static const float x[12] = { 300, -1, -129, 255.9f, -0.9f, 3e9f, -3e9f, 1e20f, -1e20f, NAN, INFINITY, -INFINITY };
    static const uint8_t nibbles[6] = { 0xfc, 0xff, 0xf0, 0xf0, 0x00, 0x0f }, pairs[3] = { 0xfc, 0xcc, 0x30 };
    static const inlay_dtype types[] = { INLAY_INT4, INLAY_UINT4, INLAY_INT2, INLAY_UINT2 };
    const int64_t dims[] = { 12 };

    (void)unused;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        kernel_case c = { .op_type = "Cast", .since_version = 25 };
        uint8_t y[6] = { 0 };

        kernel_case_input(&c, INLAY_FLOAT, 1, dims, x, false);
        kernel_case_output(&c, types[t], 1, dims, y);
        assert_int_equal(run(&c, &operators_cast), INLAY_OK);
        assert_memory_equal(y, t < 2 ? nibbles : pairs, t < 2 ? sizeof nibbles : sizeof pairs);
    }
}

/* Quantizes and dequantizes, with scales per tensor, axis and block; the error is at most half a step. */
static void test_quantize(void **unused)
{
    static const inlay_dtype types[] = { INLAY_INT8, INLAY_UINT8, INLAY_INT16, INLAY_UINT16, INLAY_INT4, INLAY_UINT4 };
    static const struct {
        int64_t axis, block;
        uint32_t rank;
        int64_t dims[3];
    } rows[] = {
        { 1, 0, 0, { 0 } },        { 1, 0, 1, { 5 } },       { -1, 0, 1, { 30 } },
        { 1, 2, 3, { 4, 3, 30 } }, { 2, 8, 3, { 4, 5, 4 } },
    };
    const int64_t dims[] = { 4, 5, 30 };

    (void)unused;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            kernel_case q = { .op_type = "QuantizeLinear", .since_version = 21 };
            kernel_case d = { .op_type = "DequantizeLinear", .since_version = 21 };
            struct tensor x = make(INLAY_FLOAT, 3, dims), y = make(types[t], 3, dims),
                          back = make(INLAY_FLOAT, 3, dims);
            struct tensor scale = make(INLAY_FLOAT, rows[r].rank, rows[r].dims),
                          zero = make(types[t], rows[r].rank, rows[r].dims);

            for (int64_t i = 0; i < scale.count; i++) {
                set(&scale, i, 0.5 + (double)(i % 3));
                set(&zero, i, 3);
            }
            for (int64_t i = 0; i < x.count; i++)
                set(&x, i, -1.4 + 2.8 * (double)(i % 17) / 16);
            kernel_case *both[2] = { &q, &d };
            for (int k = 0; k < 2; k++) {
                add_input(both[k], k == 0 ? &x : &y);
                add_input(both[k], &scale);
                add_input(both[k], &zero);
                add_output(both[k], k == 0 ? &y : &back);
                kernel_case_int(both[k], "axis", rows[r].axis);
                kernel_case_int(both[k], "block_size", rows[r].block);
                assert_int_equal(run(both[k], &operators_quantize), INLAY_OK);
            }
            for (int64_t i = 0; i < x.count; i++)
                assert_true(fabs(get(&x, i) - get(&back, i)) <= 1.25 + 1e-6);
            guard_free(&x.memory);
            guard_free(&y.memory);
            guard_free(&back.memory);
            guard_free(&scale.memory);
            guard_free(&zero.memory);
        }
}

static void test_quantize_wrong_scale(void **unused)
{
    const int64_t dims[] = { 2, 5 }, wrong[] = { 3 };
    kernel_case c = { .op_type = "QuantizeLinear", .since_version = 13 };
    struct tensor x = make(INLAY_FLOAT, 2, dims), scale = make(INLAY_FLOAT, 1, wrong), y = make(INLAY_UINT8, 2, dims);

    (void)unused;
    add_input(&c, &x);
    add_input(&c, &scale);
    add_output(&c, &y);
    kernel_case_int(&c, "axis", 1);
    assert_int_equal(run(&c, &operators_quantize), INLAY_SHAPE_MISMATCH);
    guard_free(&x.memory);
    guard_free(&scale.memory);
    guard_free(&y.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_formats),        cmocka_unit_test(test_floats_to_integers),
        cmocka_unit_test(test_cast_all_pairs),       cmocka_unit_test(test_cast_strings),
        cmocka_unit_test(test_cast_beyond_nibbles),  cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_quantize_wrong_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
