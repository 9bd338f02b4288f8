/* Equality of outputs and the messages for differences; random inputs, which depend on the seed only; interleaved
 * timing. */
#include "base/element.h"
#include "data/compare.h"
#include "data/feed.h"
#include "data/value.h"
#include "data/view.h"
#include "timing/timing.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Compares a tensor with the expected one at the tolerances of ONNX's tests. */
static bool same(inlay_dtype dtype, uint32_t rank, const int64_t *dims, const void *got, const void *want,
                 char text[500])
{
    inlay_tensor_view view = { .data = got, .dims = dims, .rank = rank, .dtype = dtype };
    model_datum datum = { .kind = INLAY_VALUE_TENSOR };
    inlay_value *value = NULL;
    int64_t count = 1;
    bool equal;

    for (uint32_t i = 0; i < rank; i++)
        count *= dims[i];
    view.bytes = ((uint64_t)count * inlay_dtype_bits(dtype) + 7) / 8;
    datum.tensor = view;
    datum.tensor.data = want;
    assert_int_equal(value_from_view(&view, &value, NULL), INLAY_OK);
    equal = compare_value(value, &datum, 1e-3, 1e-7, text, 500);
    inlay_value_unref(value);
    return equal;
}

static void numbers(void **state)
{
    static const struct {
        float got, want;
        bool same;
    } rows[] = {
        { 1, 1, true },
        { 1.0009f, 1, true },
        { 1.002f, 1, false },
        { 0, 1e-8f, true },
        { 0, 1e-5f, false },
        { NAN, NAN, true },
        { NAN, 0, false },
        { 0, NAN, false },
        { INFINITY, INFINITY, true },
        { INFINITY, -INFINITY, false },
        { 1, INFINITY, false },
        { INFINITY, 1, false },
        { -0.0f, 0, true },
    };
    char text[500];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(same(INLAY_FLOAT, 0, NULL, &rows[i].got, &rows[i].want, text), rows[i].same);
}

static void other_types(void **state)
{
    static const int64_t two[] = { 2 }, big[] = { INT64_MAX, INT64_MAX - 1 }, small[] = { INT64_MAX - 5000000, 3 };
    static const uint8_t yes[] = { 1, 0 }, no[] = { 1, 1 };
    static const inlay_str a[] = { { "x", 1 }, { "yy", 2 } }, b[] = { { "x", 1 }, { "yz", 2 } };
    static const float c[] = { 1, 2, 3, NAN }, d[] = { 1, 2, 3, 4 };
    char text[500];

    (void)state;
    assert_true(same(INLAY_INT64, 1, two, big, big, text));
    assert_false(same(INLAY_INT64, 1, two, small, big, text));
    assert_true(same(INLAY_BOOL, 1, two, yes, yes, text));
    assert_false(same(INLAY_BOOL, 1, two, yes, no, text));
    assert_non_null(strstr(text, "[1] got false, want true (1 of 2 wrong"));
    assert_true(same(INLAY_STRING, 1, two, a, a, text));
    assert_false(same(INLAY_STRING, 1, two, a, b, text));
    assert_non_null(strstr(text, "[1] got \"yy\", want \"yz\""));
    assert_true(same(INLAY_COMPLEX64, 1, two, c, c, text));
    assert_false(same(INLAY_COMPLEX64, 1, two, c, d, text));
}

/* Two steps of the type are within its tolerance, and eight are not. */
static void tolerances(void **state)
{
    static const struct {
        inlay_dtype dtype;
        uint16_t one; /* the bits of 1 */
    } rows[] = { { INLAY_FLOAT16, 0x3c00 }, { INLAY_BFLOAT16, 0x3f80 }, { INLAY_FLOAT8E4M3FN, 0x38 } };
    double rtol, atol;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (uint16_t steps = 0; steps <= 8; steps = steps == 2 ? 8 : steps + 1) {
            const uint16_t got = (uint16_t)(rows[i].one + steps), want = rows[i].one;
            const inlay_tensor_view view = { .data = &want, .bytes = 2, .dtype = rows[i].dtype };

            element_tolerance(rows[i].dtype, &rtol, &atol);
            assert_int_equal(compare_elements(&got, &view, 1, rtol, atol).wrong, steps > 2);
        }
    element_tolerance(INLAY_FLOAT, &rtol, &atol);
    assert_true(rtol == 1e-3 && atol == 1e-5);
    element_tolerance(INLAY_DOUBLE, &rtol, &atol);
    assert_true(rtol < 1e-5 && rtol > 0);
}

static void places(void **state)
{
    static const int64_t dims[] = { 2, 3 };
    static const float got[] = { 1, 2, 3, 4, 5, 9 }, want[] = { 1, 2.5f, 3, 4, 5, 6 };
    char text[500];

    (void)state;
    assert_false(same(INLAY_FLOAT, 2, dims, got, want, text));
    assert_string_equal(text, "[0,1] got 2, want 2.5 (2 of 6 wrong, worst error 3 at [1,2])");
}

static void types_and_shapes(void **state)
{
    static const int64_t dims[] = { 2, 1 }, one[] = { 2 };
    static const float data[] = { 1, 2 };
    model_datum want = { .kind = INLAY_VALUE_TENSOR,
                         .tensor = { .data = data, .bytes = 8, .dims = one, .rank = 1, .dtype = INLAY_FLOAT } };
    model_datum list = { .kind = INLAY_VALUE_SEQUENCE, .items = &want, .item_count = 1 };
    inlay_value *value = NULL, *sequence = NULL;
    char text[500];

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &value, NULL), INLAY_OK);
    assert_false(compare_value(value, &want, 1, 1, text, sizeof text));
    assert_string_equal(text, "got float[2, 1], want float[2]");
    assert_false(compare_value(value, &list, 1, 1, text, sizeof text));
    assert_string_equal(text, "got float[2, 1], want sequence(1 items)");
    inlay_value_unref(value);
    assert_int_equal(value_from_datum(&list, INLAY_FLOAT, &sequence, NULL), INLAY_OK);
    assert_true(compare_value(sequence, &list, 0, 0, text, sizeof text));
    assert_false(compare_value(sequence, &want, 0, 0, text, sizeof text));
    want.tensor.data = (const float[]){ 1, 7 };
    assert_false(compare_value(sequence, &list, 0, 0, text, sizeof text));
    assert_string_equal(text, "item 0: [1] got 2, want 7 (1 of 2 wrong, worst error 5 at [1])");
    inlay_value_unref(sequence);
}

static void random_inputs(void **state)
{
    (void)state;
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++) {
        unsigned char first[16 * 64] = { 0 }, b[16 * 64] = { 0 }, c[16 * 64] = { 0 };
        inlay_tensor_view view = { .data = first,
                                   .bytes = 64 * inlay_dtype_bits(dtype) / 8,
                                   .dims = (int64_t[]){ 64 },
                                   .rank = 1,
                                   .dtype = dtype };
        inlay_value *value = NULL;
        json_t *json;

        if (dtype == INLAY_STRING)
            continue;
        feed_random(dtype, first, 64, 1);
        feed_random(dtype, b, 64, 1);
        feed_random(dtype, c, 64, 2);
        assert_memory_equal(first, b, sizeof first);
        assert_true(memcmp(first, c, sizeof first) != 0);
        /* No NaN, and sizes that the first model accepts. */
        assert_int_equal(value_from_view(&view, &value, NULL), INLAY_OK);
        json = value_json("x", value, 64);
        assert_null(json_object_get(json, "nan"));
        assert_int_equal(json_array_size(json_object_get(json, "values")), 64);
        if (dtype != INLAY_COMPLEX64 && dtype != INLAY_COMPLEX128) {
            assert_true(json_number_value(json_object_get(json, "min")) >= -8);
            assert_true(json_number_value(json_object_get(json, "max")) <= 16);
        }
        json_decref(json);
        inlay_value_unref(value);
    }
}

static void quantiles(void **state)
{
    double list[] = { 5, 1, 4, 2, 3 };
    run_times times = { list, 5 };

    (void)state;
    timing_sort(&times);
    assert_true(timing_quantile(&times, 0.5) == 3);
    assert_true(timing_quantile(&times, 0.95) == 5);
    assert_true(timing_quantile(&times, 0) == 1);
    assert_true(timing_quantile(&times, 1) == 5);
    assert_true(timing_quantile(&(run_times){ list, 1 }, 0.99) == 1);
}

/* Rounds recorded by a subject of timing_rounds(). */
struct rounds_seen {
    char order[32]; /* order of all subjects, by letter */
    uint32_t count;
};

struct racer {
    struct rounds_seen *all;
    char letter;
};

/* Runs of 'b' take 2 ms, and every second one is not counted. The sixth run of all subjects fails. */
static inlay_status timed_run(void *subject, double *out_ms, inlay_diag *diag)
{
    struct racer *racer = subject;
    struct rounds_seen *rounds_seen = racer->all;

    (void)diag;
    rounds_seen->order[rounds_seen->count++] = racer->letter;
    *out_ms = racer->letter == 'a' ? 1 : rounds_seen->count % 2 == 0 ? 2 : -1;
    return rounds_seen->count == 6 ? INLAY_CANCELLED : INLAY_OK;
}

static bool has_two(void *user)
{
    return ((struct rounds_seen *)user)->count >= 2;
}

static void rounds(void **state)
{
    struct rounds_seen rounds_seen = { .count = 0 };
    struct racer a = { &rounds_seen, 'a' }, b = { &rounds_seen, 'b' };
    void *both[] = { &a, &b };
    run_times times[2] = { { 0 } };
    timing_plan plan = { .least = 2, .most = 9 }; /* no time limit: the minimum number of rounds */

    (void)state;
    assert_int_equal(timing_rounds(&plan, timed_run, both, 2, times, NULL), INLAY_OK);
    assert_string_equal(rounds_seen.order, "abba"); /* the order alternates */
    assert_int_equal(times[0].count, 2);
    assert_int_equal(times[1].count, 1);
    assert_true(times[1].ms[0] == 2);
    plan = (timing_plan){ .seconds = 1e6, .most = 9 };
    assert_int_equal(timing_rounds(&plan, timed_run, both, 2, times, NULL), INLAY_CANCELLED);
    assert_int_equal(times[0].count, 3); /* times before the failure are returned */
    rounds_seen = (struct rounds_seen){ .count = 0 };
    plan.stop = has_two;
    plan.stop_user = &rounds_seen;
    assert_int_equal(timing_rounds(&plan, timed_run, both, 2, times, NULL), INLAY_OK);
    assert_int_equal(rounds_seen.count, 2);
    rounds_seen = (struct rounds_seen){ .count = 0 };
    plan = (timing_plan){ .seconds = 1e6, .most = 2 };
    assert_int_equal(timing_rounds(&plan, timed_run, both, 2, times, NULL), INLAY_OK);
    assert_int_equal(rounds_seen.count, 4);
    free(times[0].ms);
    free(times[1].ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),          cmocka_unit_test(other_types),   cmocka_unit_test(places),
        cmocka_unit_test(types_and_shapes), cmocka_unit_test(random_inputs), cmocka_unit_test(quantiles),
        cmocka_unit_test(rounds),           cmocka_unit_test(tolerances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
