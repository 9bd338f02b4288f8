/* resize.c - Resize, compared with its definition in up to four dimensions: nearest, linear and cubic, every type. All
 * tensors and the workspace end at a guard page. */
#include "simd/convert.h"
#include "kernel_case.h"
#include "random.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t seed = 4242;

enum { NEAREST, LINEAR, CUBIC };
enum { HALF_PIXEL, ASYMMETRIC, ALIGN_CORNERS, PYTORCH_HALF_PIXEL, TRANSFORMS };

static double place(int coordinates, int64_t x, int64_t in, int64_t out)
{
    if (in == out)
        return (double)x;
    if (coordinates == ASYMMETRIC)
        return (double)(x * in) / (double)out;
    if (coordinates == ALIGN_CORNERS)
        return out == 1 ? 0 : (double)(x * (in - 1)) / (double)(out - 1);
    if (coordinates == PYTORCH_HALF_PIXEL && out == 1)
        return 0;
    return ((double)x + 0.5) * (double)in / (double)out - 0.5;
}

static double filter(int mode, double d)
{
    const double a = -0.75;

    d = fabs(d);
    if (mode == LINEAR)
        return d < 1 ? 1 - d : 0;
    if (d < 1)
        return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

/* Element `at` of the output: axis by axis, with the index of each tap clamped to the input. */
static double by_definition(int mode, int coordinates, inlay_dtype dtype, const void *input, uint32_t rank,
                            const int64_t *in, const int64_t *out, const int64_t *at, uint32_t axis, int64_t offset)
{
    double where, sum = 0;

    if (axis == rank)
        return convert_get_f64(dtype, input, offset);
    where = place(coordinates, at[axis], in[axis], out[axis]);
    if (mode == NEAREST) { /* round_prefer_floor */
        double i = ceil(where - 0.5);
        i = i < 0 ? 0 : i > (double)(in[axis] - 1) ? (double)(in[axis] - 1) : i;
        return by_definition(mode, coordinates, dtype, input, rank, in, out, at, axis + 1,
                             offset * in[axis] + (int64_t)i);
    }
    for (int64_t i = (int64_t)floor(where) - 1; i <= (int64_t)floor(where) + 2; i++) {
        double weight = filter(mode, where - (double)i);
        int64_t index = i < 0 ? 0 : i >= in[axis] ? in[axis] - 1 : i;
        if (weight != 0)
            sum += weight * by_definition(mode, coordinates, dtype, input, rank, in, out, at, axis + 1,
                                          offset * in[axis] + index);
    }
    return sum;
}

static void check_random_sizes(int mode, int coordinates, inlay_dtype dtype)
{
    static const char *const modes[] = { "nearest", "linear", "cubic" };
    static const char *const names[] = { "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel" };
    uint32_t rank = (uint32_t)random_between(&seed, 1, 4);
    int64_t in[4], out[4], count = 1, outputs = 1;
    double slack = dtype == INLAY_BFLOAT16 ? 1e-2 : dtype == INLAY_FLOAT16 ? 2e-3 : 1e-5;
    bool whole = ((KIT_FLOATS >> dtype) & 1) == 0;
    struct guard guard, y;
    static kernel_case c;

    for (uint32_t d = 0; d < rank; d++) {
        in[d] = random_between(&seed, 1, 7);
        out[d] = random_between(&seed, 0, 1) ? in[d] : random_between(&seed, 1, 12);
        count *= in[d];
        outputs *= out[d];
    }
    guard = guard_alloc((size_t)kit_bytes(dtype, count));
    y = guard_alloc((size_t)kit_bytes(dtype, outputs));
    for (int64_t i = 0; i < count; i++) {
        double v = (double)random_between(&seed, dtype == INLAY_BOOL ? 0 : 10, dtype == INLAY_BOOL ? 1 : 90);
        convert_from_f64(dtype, guard.data, i, 1, &v, 0);
    }
    c = (kernel_case){ .op_type = "Resize", .since_version = 19 };
    kernel_case_string(&c, "mode", modes[mode]);
    kernel_case_string(&c, "coordinate_transformation_mode", names[coordinates]);
    kernel_case_input(&c, dtype, rank, in, guard.data, false);
    kernel_case_input(&c, INLAY_UNDEFINED, 0, NULL, NULL, false);
    kernel_case_input(&c, INLAY_UNDEFINED, 0, NULL, NULL, false);
    kernel_case_input(&c, INLAY_INT64, 1, &(int64_t){ rank }, out, false);
    kernel_case_output(&c, dtype, rank, out, y.data);
    assert_int_equal(kernel_case_prepare(&c, &operators_resize), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    for (int64_t i = 0; i < outputs; i++) {
        int64_t at[4], rest = i;
        double got = convert_get_f64(dtype, y.data, i), want;
        for (uint32_t d = rank; d-- > 0; rest /= out[d])
            at[d] = rest % out[d];
        want = by_definition(mode, coordinates, dtype, guard.data, rank, in, out, at, 0, 0);
        if (dtype == INLAY_BOOL) /* true if the sum is not 0 */
            want = fabs(want) > 1e-5 ? 1 : got;
        else if (dtype == INLAY_INT8 && want > 127) /* clamped */
            want = 127;
        else if (want < 0 && ((KIT_UNSIGNED >> dtype) & 1) != 0)
            want = 0;
        if (whole ? !(fabs(got - want) <= 1.001 && fabs(got) <= fabs(want) + 0.001) /* cut towards zero */
                  : !(fabs(got - want) <= slack * (1 + fabs(want))))
            fail_msg("%s %s %s element %d: %g, not %g", modes[mode], names[coordinates], inlay_dtype_name(dtype),
                     (int)i, got, want);
    }
    kernel_case_deinit(&c);
    guard_free(&guard);
    guard_free(&y);
}

static void random_sizes(void **state)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_BFLOAT16, INLAY_INT8,
                                         INLAY_UINT8, INLAY_INT16,  INLAY_UINT16,  INLAY_INT32,    INLAY_UINT32,
                                         INLAY_INT64, INLAY_UINT64, INLAY_BOOL };

    (void)state;
    for (uint32_t i = 0; i < 3400; i++)
        check_random_sizes((int)(i % 3), (int)(i / 3 % TRANSFORMS), types[i / 3 / TRANSFORMS % KIT_COUNT(types)]);
}

/* An image of one colour keeps it: the sums of its integers are truncated, but not below their exact value. */
static void one_colour(void **state)
{
    static const inlay_dtype types[] = { INLAY_UINT8,  INLAY_INT8,  INLAY_UINT16, INLAY_INT16,
                                         INLAY_UINT32, INLAY_INT32, INLAY_UINT64, INLAY_INT64 };

    (void)state;
    for (uint32_t i = 0; i < 1600; i++) {
        const inlay_dtype dtype = types[i % KIT_COUNT(types)];
        const int bits = (int)inlay_dtype_bits(dtype) - (((KIT_UNSIGNED >> dtype) & 1) == 0);
        const int64_t most = ((int64_t)1 << (bits < 36 ? bits : 36)) - 1; /* doubles have enough bits for the errors */
        const double colour = (double)random_between(&seed, ((KIT_UNSIGNED >> dtype) & 1) != 0 ? 0 : -most, most);
        int64_t in[] = { random_between(&seed, 1, i % 10 == 0 ? 200 : 20), random_between(&seed, 1, 60) };
        int64_t out[] = { random_between(&seed, 1, 20), random_between(&seed, 1, 90) };
        struct guard x = guard_alloc((size_t)kit_bytes(dtype, in[0] * in[1])),
                     y = guard_alloc((size_t)kit_bytes(dtype, out[0] * out[1]));
        static kernel_case c;

        for (int64_t k = 0; k < in[0] * in[1]; k++)
            convert_from_f64(dtype, x.data, k, 1, &colour, 0);
        c = (kernel_case){ .op_type = "Resize", .since_version = 19 };
        kernel_case_string(&c, "mode", i % 3 == 0 ? "cubic" : "linear");
        kernel_case_int(&c, "antialias", i / 8 % 2);
        kernel_case_int(&c, "exclude_outside", i % 3 == 0 && i % 7 == 0);
        kernel_case_input(&c, dtype, 2, in, x.data, false);
        kernel_case_input(&c, INLAY_UNDEFINED, 0, NULL, NULL, false);
        kernel_case_input(&c, INLAY_UNDEFINED, 0, NULL, NULL, false);
        kernel_case_input(&c, INLAY_INT64, 1, &(int64_t){ 2 }, out, false);
        kernel_case_output(&c, dtype, 2, out, y.data);
        assert_int_equal(kernel_case_prepare(&c, &operators_resize), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        for (int64_t k = 0; k < out[0] * out[1]; k++)
            if (convert_get_f64(dtype, y.data, k) != colour)
                fail_msg("case %u: %s of %.0f became %.0f", i, inlay_dtype_name(dtype), colour,
                         convert_get_f64(dtype, y.data, k));
        kernel_case_deinit(&c);
        guard_free(&x);
        guard_free(&y);
    }
}

/* The float 0.6f is slightly larger than 0.6: 1.5 divided by it is 2.5 in float and slightly less in double. The kernel
 * must divide in float. */
static void scales_divide_as_floats(void **state)
{
    static const struct {
        const char *places;
        int64_t out, want;
    } rows[] = { { "half_pixel", 1, 2 }, { "half_pixel", 4, 6 }, { "asymmetric", 3, 5 } };
    int64_t in[] = { 17 }, out[] = { 10 };
    float x[17], y[10], scale[] = { 0.6f };

    (void)state;
    for (int i = 0; i < 17; i++)
        x[i] = (float)i;
    for (size_t i = 0; i < KIT_COUNT(rows); i++) {
        static kernel_case c;

        c = (kernel_case){ .op_type = "Resize", .since_version = 19 };
        kernel_case_string(&c, "mode", "nearest");
        kernel_case_string(&c, "nearest_mode", "floor");
        kernel_case_string(&c, "coordinate_transformation_mode", rows[i].places);
        kernel_case_input(&c, INLAY_FLOAT, 1, in, x, false);
        kernel_case_input(&c, INLAY_UNDEFINED, 0, NULL, NULL, false);
        kernel_case_input(&c, INLAY_FLOAT, 1, &(int64_t){ 1 }, scale, false);
        kernel_case_output(&c, INLAY_FLOAT, 1, out, y);
        assert_int_equal(kernel_case_prepare(&c, &operators_resize), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        assert_float_equal(y[rows[i].out], (float)rows[i].want, 0);
        kernel_case_deinit(&c);
    }
}

/* A factor whose product with the length is not whole: lengths are those of the tensors, as in ONNX's text and in
 * PyTorch. The input is 0, 1, 2 ..., so the result is the coordinate, or the pixel nearest to it. */
static void fractional_lengths(void **state)
{
    static const struct {
        const char *mode, *rounding, *places;
        float scale;
        float roi[2];
        int64_t in, out, at;
        float want;
    } rows[] = {
        { "linear", "floor", "align_corners", 0.6f, { 0, 1 }, 4, 2, 1, 3 },
        { "linear", "floor", "align_corners", 2.3f, { 0, 1 }, 4, 9, 8, 3 },
        { "linear", "floor", "align_corners", 2.3f, { 0, 1 }, 4, 9, 4, 1.5f },
        { "cubic", "floor", "align_corners", 0.6f, { 0, 1 }, 4, 2, 1, 3 },
        { "nearest", "floor", "align_corners", 1.7f, { 0, 1 }, 5, 8, 7, 4 },
        { "linear", "floor", "align_corners", 0.3f, { 0, 1 }, 4, 1, 0, 0 },
        { "linear", "floor", "tf_crop_and_resize", 1.7f, { 0.25f, 0.75f }, 9, 15, 14, 6 },
        { "nearest", "floor", "tf_crop_and_resize", 1.25f, { 0.2f, 0.7f }, 9, 11, 6, 4 },
        { "nearest", "ceil", "tf_crop_and_resize", 1.25f, { 0.2f, 0.7f }, 11, 13, 0, 2 },
        { "linear", "floor", "tf_crop_and_resize", 0.3f, { 0.25f, 0.75f }, 5, 1, 0, 2 },
        { "linear", "floor", "half_pixel_symmetric", 1.25f, { 0, 1 }, 2, 2, 0, 0.1f },
        { "linear", "floor", "half_pixel_symmetric", 1.25f, { 0, 1 }, 2, 2, 1, 0.9f },
        { "nearest", "floor", "half_pixel_symmetric", 1.25f, { 0, 1 }, 9, 11, 10, 8 },
        { "nearest", "ceil", "half_pixel_symmetric", 1.25f, { 0, 1 }, 9, 11, 0, 0 },
        { "nearest", "round_prefer_ceil", "half_pixel_symmetric", 2.3f, { 0, 1 }, 10, 23, 11, 5 },
        { "nearest", "round_prefer_floor", "half_pixel_symmetric", 1.7f, { 0, 1 }, 10, 17, 8, 4 },
        { "linear", "floor", "half_pixel", 1.7f, { 0, 1 }, 5, 8, 7, 3.9117647f },
    };
    float x[16], y[32];

    (void)state;
    for (int i = 0; i < 16; i++)
        x[i] = (float)i;
    for (size_t i = 0; i < KIT_COUNT(rows); i++) {
        static kernel_case c;

        c = (kernel_case){ .op_type = "Resize", .since_version = 19 };
        kernel_case_string(&c, "mode", rows[i].mode);
        kernel_case_string(&c, "nearest_mode", rows[i].rounding);
        kernel_case_string(&c, "coordinate_transformation_mode", rows[i].places);
        kernel_case_input(&c, INLAY_FLOAT, 1, &rows[i].in, x, false);
        kernel_case_input(&c, INLAY_FLOAT, 1, &(int64_t){ 2 }, (void *)(uintptr_t)rows[i].roi, false);
        kernel_case_input(&c, INLAY_FLOAT, 1, &(int64_t){ 1 }, (void *)(uintptr_t)&rows[i].scale, false);
        kernel_case_output(&c, INLAY_FLOAT, 1, &rows[i].out, y);
        assert_int_equal(kernel_case_prepare(&c, &operators_resize), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        if (!(fabsf(y[rows[i].at] - rows[i].want) <= 1e-5f))
            fail_msg("%s %s %s: %lld elements times %g: element %lld is %g, not %g", rows[i].mode, rows[i].rounding,
                     rows[i].places, (long long)rows[i].in, (double)rows[i].scale, (long long)rows[i].at,
                     (double)y[rows[i].at], (double)rows[i].want);
        kernel_case_deinit(&c);
    }
}

/* tf_crop_and_resize without roi, an empty tensor, reads the whole input, as with roi [0, 1]. */
static void no_region(void **state)
{
    static const char *const modes[] = { "nearest", "linear", "cubic" };
    const float x[] = { 3, -1, 4, 1, -5 }, roi[] = { 0, 1 }, scale = 1.7f;
    const int64_t in = 5, out = 8;
    float y[2][8];

    (void)state;
    for (size_t i = 0; i < KIT_COUNT(modes); i++) {
        for (int64_t given = 0; given < 2; given++) {
            static kernel_case c;

            c = (kernel_case){ .op_type = "Resize", .since_version = 13 };
            kernel_case_string(&c, "mode", modes[i]);
            kernel_case_string(&c, "nearest_mode", "floor");
            kernel_case_string(&c, "coordinate_transformation_mode", "tf_crop_and_resize");
            kernel_case_input(&c, INLAY_FLOAT, 1, &in, (void *)(uintptr_t)x, false);
            kernel_case_input(&c, INLAY_FLOAT, 1, &(int64_t){ 2 * given }, (void *)(uintptr_t)roi, false);
            kernel_case_input(&c, INLAY_FLOAT, 1, &(int64_t){ 1 }, (void *)(uintptr_t)&scale, false);
            kernel_case_output(&c, INLAY_FLOAT, 1, &out, y[given]);
            assert_int_equal(kernel_case_prepare(&c, &operators_resize), INLAY_OK);
            assert_int_equal(kernel_case_run(&c), INLAY_OK);
            kernel_case_deinit(&c);
        }
        assert_memory_equal(y[0], y[1], sizeof y[0]);
    }
}

/* Strings are moved by reference, and complex numbers as pairs. */
static void strings_and_pairs(void **state)
{
    int64_t in[] = { 2 }, out[] = { 3 };
    inlay_str words[] = { { "left", 4 }, { "right", 5 } }, found[3];
    float pairs[] = { 0, 10, 2, 30 }, mixed[6];
    const float want[] = { 0, 10, 1, 20, 2, 30 };
    static kernel_case c;

    (void)state;
    c = (kernel_case){ .op_type = "Upsample", .since_version = 9 };
    kernel_case_string(&c, "mode", "nearest");
    kernel_case_input(&c, INLAY_STRING, 1, in, words, false);
    kernel_case_input(&c, INLAY_FLOAT, 1, &(int64_t){ 1 }, &(float){ 1.5f }, false);
    kernel_case_output(&c, INLAY_STRING, 1, out, found);
    assert_int_equal(kernel_case_prepare(&c, &operators_resize), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    assert_string_equal(found[0].data, "left");
    assert_string_equal(found[1].data, "left");
    assert_string_equal(found[2].data, "right");
    kernel_case_deinit(&c);

    c = (kernel_case){ .op_type = "Resize", .since_version = 13 };
    kernel_case_string(&c, "mode", "linear");
    kernel_case_string(&c, "coordinate_transformation_mode", "align_corners");
    kernel_case_input(&c, INLAY_COMPLEX64, 1, in, pairs, false);
    kernel_case_input(&c, INLAY_UNDEFINED, 0, NULL, NULL, false);
    kernel_case_input(&c, INLAY_UNDEFINED, 0, NULL, NULL, false);
    kernel_case_input(&c, INLAY_INT64, 1, &(int64_t){ 1 }, out, false);
    kernel_case_output(&c, INLAY_COMPLEX64, 1, out, mixed);
    assert_int_equal(kernel_case_prepare(&c, &operators_resize), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    for (int i = 0; i < 6; i++)
        assert_float_equal(mixed[i], want[i], 1e-6);
    kernel_case_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sizes),       cmocka_unit_test(one_colour), cmocka_unit_test(scales_divide_as_floats),
        cmocka_unit_test(fractional_lengths), cmocka_unit_test(no_region),  cmocka_unit_test(strings_and_pairs)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
