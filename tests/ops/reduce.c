/* reduce.c - reductions, softmax and running sums, compared with their definitions: every operator and type, any axes,
 * ranks from 0, sizes from 0; and axes that do not exist. All tensors end at a guard page. */
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

static uint64_t seed = 2024;

/* Limit of the elements of a tensor, so that a tensor has at most one long axis. */
enum { MOST_ELEMENTS = 1 << 16 };

/* Returns the next size of a tensor that has `count` elements so far: from low to high if is_long, otherwise at most
 * `small`. */
static int64_t pick_size(int64_t count, bool is_long, int64_t low, int64_t high, int64_t small)
{
    int64_t size = is_long ? random_between(&seed, low, high) : random_between(&seed, 1, small);
    return count * size > MOST_ELEMENTS ? 1 : size;
}

/* Rounds v to the type. */
static double stored(inlay_dtype dtype, double v)
{
    char bits[8];
    convert_from_f64(dtype, bits, 0, 1, &v, 0);
    return convert_get_f64(dtype, bits, 0);
}

static bool is_integer(inlay_dtype dtype)
{
    return ((KIT_FLOATS >> dtype) & 1) == 0;
}

struct fold {
    const char *op;
    double start;
    double (*step)(double sum, double v);
    double (*finish)(double sum, double count);
};

static double step_sum(double sum, double v)
{
    return sum + v;
}
static double step_square(double sum, double v)
{
    return sum + v * v;
}
static double step_abs(double sum, double v)
{
    return sum + fabs(v);
}
static double step_product(double sum, double v)
{
    return sum * v;
}
static double step_max(double sum, double v)
{
    return v > sum ? v : sum;
}
static double step_min(double sum, double v)
{
    return v < sum ? v : sum;
}
static double step_exp(double sum, double v)
{
    return sum + exp(v);
}
static double finish_none(double sum, double count)
{
    (void)count;
    return sum;
}
static double finish_mean(double sum, double count)
{
    return sum / count;
}
static double finish_root(double sum, double count)
{
    (void)count;
    return sqrt(sum);
}
static double finish_log(double sum, double count)
{
    (void)count;
    return log(sum);
}

static const struct fold folds[] = {
    { "ReduceSum", 0, step_sum, finish_none },         { "ReduceMean", 0, step_sum, finish_mean },
    { "ReduceProd", 1, step_product, finish_none },    { "ReduceL1", 0, step_abs, finish_none },
    { "ReduceL2", 0, step_square, finish_root },       { "ReduceLogSum", 0, step_sum, finish_log },
    { "ReduceLogSumExp", 0, step_exp, finish_log },    { "ReduceSumSquare", 0, step_square, finish_none },
    { "ReduceMax", -INFINITY, step_max, finish_none }, { "ReduceMin", INFINITY, step_min, finish_none },
};

/* Reduces the input into sums [outputs], in the layout of the axes that are not reduced. */
static void by_definition(const struct fold *fold, inlay_dtype dtype, const void *input, uint32_t rank,
                          const int64_t *dims, const bool *reduced, double *sums, int64_t outputs, int64_t count)
{
    for (int64_t o = 0; o < outputs; o++)
        sums[o] = fold->start;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, o = 0, scale = 1;
        for (uint32_t d = rank; d-- > 0; rest /= dims[d]) {
            if (!reduced[d]) {
                o += rest % dims[d] * scale;
                scale *= dims[d];
            }
        }
        sums[o] = fold->step(sums[o], convert_get_f64(dtype, input, i));
    }
}

static void one_reduction(const struct fold *fold, inlay_dtype dtype)
{
    uint32_t rank = (uint32_t)random_between(&seed, 0, 5), out_rank = 0, axis_count = 0;
    int64_t dims[5], out_dims[5], axes[5], count = 1, outputs = 1;
    bool reduced[5], keep = random_between(&seed, 0, 1), by_input = random_between(&seed, 0, 1),
                     none_is_all = random_between(&seed, 0, 2) > 0;
    double *sums;
    struct guard guard, y;
    static kernel_case c;

    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = random_between(&seed, 0, 15) == 0 ? 0 : pick_size(count, random_between(&seed, 0, 7) == 0, 30, 70, 5);
        reduced[d] = random_between(&seed, 0, 1);
        if (reduced[d])
            axes[axis_count++] = random_between(&seed, 0, 1) ? (int64_t)d : (int64_t)d - rank;
        count *= dims[d];
    }
    for (uint32_t d = 0; d < rank; d++) {
        reduced[d] = axis_count == 0 ? none_is_all : reduced[d];
        if (!reduced[d])
            outputs *= dims[d];
        if (!reduced[d] || keep)
            out_dims[out_rank++] = reduced[d] ? 1 : dims[d];
    }
    if (count == 0 && is_integer(dtype) && fold->start != 0) /* no infinity to start from */
        return;
    guard = guard_alloc((size_t)kit_bytes(dtype, count));
    y = guard_alloc((size_t)kit_bytes(dtype, outputs));
    for (int64_t i = 0; i < count; i++) {
        double v = fold->step == step_product ? 1 : (double)random_between(&seed, 1, 3);
        convert_from_f64(dtype, guard.data, i, 1, &v, 0);
    }
    sums = malloc((size_t)(outputs + 1) * sizeof *sums);
    assert_non_null(sums);
    by_definition(fold, dtype, guard.data, rank, dims, reduced, sums, outputs, count);

    c = (kernel_case){ .op_type = fold->op, .since_version = by_input ? 18 : 13 };
    kernel_case_input(&c, dtype, rank, dims, guard.data, false);
    kernel_case_int(&c, "keepdims", keep);
    kernel_case_int(&c, "noop_with_empty_axes", !none_is_all);
    if (by_input)
        kernel_case_input(&c, INLAY_INT64, 1, &(int64_t){ axis_count }, axes, false);
    else if (axis_count > 0)
        kernel_case_ints(&c, "axes", axis_count, axes);
    kernel_case_output(&c, dtype, out_rank, out_dims, y.data);
    assert_int_equal(kernel_case_prepare(&c, &operators_reduce), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    for (int64_t o = 0; o < outputs; o++) {
        double n = outputs > 0 ? (double)count / (double)outputs : 0;
        double exact = fold->finish(sums[o], n), got = convert_get_f64(dtype, y.data, o);
        double want = is_integer(dtype) ? (isfinite(exact) ? trunc(exact) : got) : stored(dtype, exact);
        double slack = dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE ? 1e-6 : dtype == INLAY_BFLOAT16 ? 8e-3 : 1e-3;
        if (!(got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= slack * fabs(want) + 1e-6))
            fail_msg("%s %s, element %d of %d: %.9g, not %.9g", fold->op, inlay_dtype_name(dtype), (int)o, (int)outputs,
                     got, want);
    }
    kernel_case_deinit(&c);
    free(sums);
    guard_free(&guard);
    guard_free(&y);
}

static void random_reductions(void **state)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_BFLOAT16, INLAY_INT32,
                                         INLAY_INT64, INLAY_UINT32, INLAY_UINT64,  INLAY_INT8,     INLAY_UINT8 };

    (void)state;
    for (uint32_t i = 0; i < 4000; i++) {
        const struct fold *fold = &folds[i % KIT_COUNT(folds)];
        bool ordered = fold->step == step_max || fold->step == step_min;
        one_reduction(fold, types[i / KIT_COUNT(folds) % (ordered ? 10 : 8)]);
    }
}

/* A NaN at any index is the maximum and the minimum. */
static void extrema_of_nan(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 80; n += 7) {
        for (int k = 0; k < 2; k++) {
            float x[80] = { 0 }, y = 0;
            static kernel_case c;
            x[random_between(&seed, 0, n - 1)] = NAN;
            c = (kernel_case){ .op_type = k == 0 ? "ReduceMax" : "ReduceMin", .since_version = 13 };
            kernel_case_input(&c, INLAY_FLOAT, 1, &n, x, false);
            kernel_case_output(&c, INLAY_FLOAT, 0, NULL, &y);
            kernel_case_int(&c, "keepdims", 0);
            assert_int_equal(kernel_case_prepare(&c, &operators_reduce), INLAY_OK);
            assert_int_equal(kernel_case_run(&c), INLAY_OK);
            assert_true(isnan(y));
            kernel_case_deinit(&c);
        }
    }
}

/* Roots of uint64 beyond the range of int64, and beyond that of uint64. */
static void large_roots(void **state)
{
    static const uint64_t x[][2] = { { UINT64_C(13000000000000000000), 0 }, { UINT64_MAX, UINT64_MAX } },
                          want[] = { UINT64_C(13000000000000000000), UINT64_MAX };

    (void)state;
    for (uint32_t i = 0; i < KIT_COUNT(want); i++) {
        uint64_t y = 0;
        static kernel_case c;
        c = (kernel_case){ .op_type = "ReduceL2", .since_version = 13 };
        kernel_case_input(&c, INLAY_UINT64, 1, &(int64_t){ 2 }, x[i], false);
        kernel_case_output(&c, INLAY_UINT64, 0, NULL, &y);
        kernel_case_int(&c, "keepdims", 0);
        assert_int_equal(kernel_case_prepare(&c, &operators_reduce), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        assert_true(y == want[i]);
        kernel_case_deinit(&c);
    }
}

static void wrong_axes(void **state)
{
    static const int64_t wrong[] = { 2, -3, INT64_MAX, INT64_MIN };
    int64_t dims[] = { 2, 3 };
    float x[6] = { 0 }, y[6];

    (void)state;
    for (uint32_t i = 0; i < KIT_COUNT(wrong); i++) {
        static kernel_case c;
        c = (kernel_case){ .op_type = "ReduceSum", .since_version = 13 };
        kernel_case_input(&c, INLAY_FLOAT, 2, dims, x, false);
        kernel_case_input(&c, INLAY_INT64, 1, &(int64_t){ 1 }, &wrong[i], false);
        kernel_case_output(&c, INLAY_FLOAT, 2, dims, y);
        assert_int_equal(kernel_case_prepare(&c, &operators_reduce), INLAY_SHAPE_MISMATCH);
        assert_non_null(strstr(c.diag.text, "axis"));
        kernel_case_deinit(&c);
    }
}

/* Softmax-13 along each axis, Softmax-11 from each axis on. */
static void random_softmax(void **state)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_BFLOAT16 };

    (void)state;
    for (uint32_t round = 0; round < 800; round++) {
        inlay_dtype dtype = types[round % 4];
        bool flattens = round / 4 % 2, logarithm = round / 8 % 2;
        uint32_t rank = (uint32_t)random_between(&seed, 1, 4), axis = (uint32_t)random_between(&seed, 0, rank - 1);
        const int64_t few = random_between(&seed, 2, 18);
        int64_t dims[4], count = 1, n = 1, inner = 1;
        double slack = dtype == INLAY_FLOAT     ? 2e-6
                       : dtype == INLAY_DOUBLE  ? 1e-12
                       : dtype == INLAY_FLOAT16 ? 2e-3
                                                : 1e-2;
        struct guard guard;
        double *before, *sums;
        static kernel_case c;

        if (round % 40 < 4) { /* a long axis before a short one */
            rank = 2;
            axis = 0;
        }
        for (uint32_t d = 0; d < rank; d++) {
            dims[d] = round % 40 < 4 ? (d == 0 ? 4096 / few + random_between(&seed, 1, 200) : few)
                                     : pick_size(count, random_between(&seed, 0, 9) == 0, 20, 300, 6);
            count *= dims[d];
            *(d == axis || (d > axis && flattens) ? &n : &inner) *= d >= axis ? dims[d] : 1;
        }
        guard = guard_alloc((size_t)kit_bytes(dtype, count));
        before = malloc((size_t)count * sizeof *before);
        sums = calloc((size_t)(count / n), sizeof *sums);
        assert_true(before != NULL && sums != NULL);
        for (int64_t i = 0; i < count; i++) {
            double v = (double)random_between(&seed, -40, 40) / 8;
            convert_from_f64(dtype, guard.data, i, 1, &v, 0);
            before[i] = v;
            sums[i / (n * inner) * inner + i % inner] += exp(v);
        }
        c = (kernel_case){ .op_type = logarithm ? "LogSoftmax" : "Softmax", .since_version = flattens ? 11 : 13 };
        kernel_case_int(&c, "axis", random_between(&seed, 0, 1) ? (int64_t)axis : (int64_t)axis - rank);
        kernel_case_input(&c, dtype, rank, dims, guard.data, false);
        kernel_case_output(&c, dtype, rank, dims, guard.data); /* in place */
        assert_int_equal(kernel_case_prepare(&c, &operators_softmax), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        for (int64_t i = 0; i < count; i++) {
            double sum = sums[i / (n * inner) * inner + i % inner];
            double want = logarithm ? before[i] - log(sum) : exp(before[i]) / sum;
            if (!(fabs(convert_get_f64(dtype, guard.data, i) - want) <= slack * (1 + fabs(want))))
                fail_msg("softmax %s element %d: %g, not %g", inlay_dtype_name(dtype), (int)i,
                         convert_get_f64(dtype, guard.data, i), want);
        }
        kernel_case_deinit(&c);
        free(before);
        free(sums);
        guard_free(&guard);
    }
}

/* Hardmax of rows with many equal elements and infinities: 1 at the first maximum. */
static void first_maxima(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 500; round++) {
        const int64_t dims[2] = { random_between(&seed, 1, 4), random_between(&seed, 1, 300) };
        struct guard guard = guard_alloc((size_t)(dims[0] * dims[1]) * sizeof(float));
        float *x = guard.data;
        int64_t first[4] = { 0 };
        static kernel_case c;

        for (int64_t row = 0; row < dims[0]; row++)
            for (int64_t i = 0; i < dims[1]; i++) {
                const int64_t level = random_between(&seed, round % 2 != 0 ? -9 : -1, 0);

                x[row * dims[1] + i] = level == -1 ? -INFINITY : round % 3 == 0 && level == 0 ? INFINITY : (float)level;
                first[row] = x[row * dims[1] + i] > x[row * dims[1] + first[row]] ? i : first[row];
            }
        c = (kernel_case){ .op_type = "Hardmax", .since_version = 13 };
        kernel_case_input(&c, INLAY_FLOAT, 2, dims, x, false);
        kernel_case_output(&c, INLAY_FLOAT, 2, dims, x); /* in place */
        assert_int_equal(kernel_case_prepare(&c, &operators_softmax), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        for (int64_t i = 0; i < dims[0] * dims[1]; i++)
            assert_true(x[i] == (i % dims[1] == first[i / dims[1]] ? 1 : 0));
        kernel_case_deinit(&c);
        guard_free(&guard);
    }
}

/* ArgMax and ArgMin of rows of any length, with equal elements and NaN. */
static void random_indices(void **state)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_INT32, INLAY_UINT8, INLAY_FLOAT16 };

    (void)state;
    for (uint32_t round = 0; round < 1000; round++) {
        const inlay_dtype dtype = types[round % 5];
        const bool smallest = random_between(&seed, 0, 1), last = random_between(&seed, 0, 1),
                   nans = dtype != INLAY_INT32 && dtype != INLAY_UINT8 && round % 3 == 0;
        const int64_t dims[2] = { random_between(&seed, 1, 5), random_between(&seed, 1, round % 2 != 0 ? 20 : 80) },
                      results[2] = { dims[0], 1 };
        struct guard from = guard_alloc((size_t)kit_bytes(dtype, dims[0] * dims[1])),
                     to = guard_alloc((size_t)dims[0] * sizeof(int64_t));
        double values[5 * 80];
        static kernel_case c;

        for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
            values[i] = nans && random_between(&seed, 0, 20) == 0 ? NAN : (double)random_between(&seed, 0, 9);
            convert_from_f64(dtype, from.data, i, 1, &values[i], 0);
        }
        c = (kernel_case){ .op_type = smallest ? "ArgMin" : "ArgMax", .since_version = 13 };
        kernel_case_int(&c, "axis", 1);
        kernel_case_int(&c, "select_last_index", last);
        kernel_case_input(&c, dtype, 2, dims, from.data, false);
        kernel_case_output(&c, INLAY_INT64, 2, results, to.data);
        assert_int_equal(kernel_case_prepare(&c, &operators_arg_max), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        for (int64_t row = 0; row < dims[0]; row++) {
            const double *at = values + row * dims[1];
            int64_t want = 0;

            for (int64_t i = 1; i < dims[1]; i++)
                want = isnan(at[want]) ? (last && isnan(at[i]) ? i : want)
                       : isnan(at[i]) || (smallest ? at[i] < at[want] : at[i] > at[want]) || (last && at[i] == at[want])
                           ? i
                           : want;
            assert_int_equal(((int64_t *)to.data)[row], want);
        }
        kernel_case_deinit(&c);
        guard_free(&from);
        guard_free(&to);
    }
}

/* CumSum and CumProd of small integers along each axis, in and out of place: exact in every type. */
static void running_sums(void **state)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_INT32, INLAY_INT64, INLAY_FLOAT16 };

    (void)state;
    for (uint32_t round = 0; round < 600; round++) {
        const inlay_dtype dtype = types[round % 5];
        const bool product = random_between(&seed, 0, 1), exclusive = random_between(&seed, 0, 1),
                   reverse = random_between(&seed, 0, 1);
        const int64_t outer = random_between(&seed, 1, 5), n = random_between(&seed, 1, 40),
                      inner = round % 3 == 0 ? 1 : random_between(&seed, 1, round % 20 == 1 ? 2100 : 200), axis = 1;
        const int64_t dims[3] = { outer, n, inner }, count = outer * n * inner;
        struct guard from = guard_alloc((size_t)kit_bytes(dtype, count)),
                     to = guard_alloc((size_t)kit_bytes(dtype, count));
        double *want = malloc((size_t)count * sizeof *want);
        static kernel_case c;

        assert_non_null(want);
        for (int64_t i = 0; i < count; i++) {
            want[i] = product ? (random_between(&seed, 0, 1) ? 1 : -1) : (double)random_between(&seed, -9, 9);
            convert_from_f64(dtype, from.data, i, 1, &want[i], 0);
        }
        for (int64_t column = 0; column < outer * inner; column++) {
            double total = product ? 1 : 0;

            for (int64_t a = 0; a < n; a++) {
                const int64_t at = (column / inner * n + (reverse ? n - 1 - a : a)) * inner + column % inner;
                const double before = total;

                total = product ? total * want[at] : total + want[at];
                want[at] = exclusive ? before : total;
            }
        }
        c = (kernel_case){ .op_type = product ? "CumProd" : "CumSum", .since_version = product ? 26 : 14 };
        kernel_case_int(&c, "exclusive", exclusive);
        kernel_case_int(&c, "reverse", reverse);
        kernel_case_input(&c, dtype, 3, dims, from.data, false);
        kernel_case_input(&c, INLAY_INT64, 0, NULL, &axis, false);
        kernel_case_output(&c, dtype, 3, dims, round % 2 != 0 ? from.data : to.data);
        assert_int_equal(kernel_case_prepare(&c, &operators_cumulative), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        for (int64_t i = 0; i < count; i++)
            assert_true(convert_get_f64(dtype, round % 2 != 0 ? from.data : to.data, i) == want[i]);
        kernel_case_deinit(&c);
        free(want);
        guard_free(&from);
        guard_free(&to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_reductions), cmocka_unit_test(extrema_of_nan), cmocka_unit_test(large_roots),
        cmocka_unit_test(wrong_axes),        cmocka_unit_test(random_softmax), cmocka_unit_test(first_maxima),
        cmocka_unit_test(running_sums),      cmocka_unit_test(random_indices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
