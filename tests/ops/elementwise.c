/* elementwise.c - elementwise kernels of the reference provider in cases that ONNX's own tests lack: every element
 * type, every kind of broadcasting, rank 0, dimensions of 0, integer limits, old opsets, and memory that ends at a
 * guard page. */
#include "operators/broadcast.h"
#include "guarded_tensor.h"
#include "random.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include <math.h>
#include <stdio.h>

static const inlay_dtype numbers[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_BFLOAT16,
                                       INLAY_INT8,  INLAY_INT16,  INLAY_INT32,   INLAY_INT64,
                                       INLAY_UINT8, INLAY_UINT16, INLAY_UINT32,  INLAY_UINT64 };

static const struct shapes {
    uint32_t rank[2];
    int64_t dims[2][4];
} shapes[] = {
    { { 0, 0 }, { { 0 }, { 0 } } },
    { { 1, 0 }, { { 7 }, { 0 } } },
    { { 0, 2 }, { { 0 }, { 3, 5 } } },
    { { 1, 1 }, { { 1 }, { 1 } } },
    { { 2, 2 }, { { 4, 600 }, { 4, 600 } } },
    { { 2, 1 }, { { 300, 4 }, { 4 } } }, /* short rows */
    { { 2, 2 }, { { 300, 3 }, { 300, 1 } } },
    { { 3, 3 }, { { 300, 1, 4 }, { 1, 7, 4 } } }, /* short rows that both repeat */
    { { 4, 4 }, { { 3, 90, 1, 5 }, { 1, 1, 6, 1 } } },
    { { 3, 3 }, { { 2, 400, 1 }, { 2, 1, 3 } } },
    { { 4, 3 }, { { 2, 3, 5, 40 }, { 3, 1, 1 } } }, /* channels */
    { { 4, 4 }, { { 2, 3, 5, 4 }, { 1, 3, 1, 1 } } },
    { { 3, 3 }, { { 2, 1, 5 }, { 1, 3, 1 } } }, /* both ways */
    { { 3, 2 }, { { 1, 1, 5 }, { 6, 1 } } },
    { { 2, 2 }, { { 0, 3 }, { 1, 3 } } }, /* nothing */
    { { 3, 1 }, { { 2, 0, 4 }, { 4 } } },
};

/* Computes the broadcast shape of both inputs; returns its rank. */
static uint32_t joint_shape(const struct shapes *s, int64_t *dims)
{
    uint32_t rank = s->rank[0] > s->rank[1] ? s->rank[0] : s->rank[1];

    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = 1;
        for (int k = 0; k < 2; k++) {
            int64_t at = (int64_t)d - (int64_t)(rank - s->rank[k]);
            if (at >= 0 && s->dims[k][at] != 1)
                dims[d] = s->dims[k][at];
        }
    }
    return rank;
}

/* Returns the index in input k of element i of the broadcast shape. */
static int64_t source(const struct shapes *s, int k, uint32_t rank, const int64_t *dims, int64_t i)
{
    int64_t at = 0, step = 1;

    for (uint32_t d = rank; d-- > 0; i /= dims[d]) {
        int64_t own = (int64_t)d - (int64_t)(rank - s->rank[k]);
        if (own < 0)
            continue;
        at += s->dims[k][own] == 1 ? 0 : i % dims[d] * step;
        step *= s->dims[k][own];
    }
    return at;
}

typedef double (*binary_double)(double a, double b);
static double add(double a, double b)
{
    return a + b;
}
static double sub(double a, double b)
{
    return a - b;
}
static double mul(double a, double b)
{
    return a * b;
}
static double divide(double a, double b)
{
    return a / b;
}
static double larger(double a, double b)
{
    return a > b ? a : b;
}
static double less(double a, double b)
{
    return a < b;
}
static double equal(double a, double b)
{
    return a == b;
}
static double power(double a, double b)
{
    return pow(a, b);
}

static const struct operator_row {
    const char *op_type;
    const kit_table *table;
    binary_double fn;
    uint32_t since;
    uint64_t types;
    bool to_bool;
} operators[] = {
    { "Add", &operators_arithmetic, add, 14, KIT_NUMBERS, false },
    { "Sub", &operators_arithmetic, sub, 14, KIT_NUMBERS, false },
    { "Mul", &operators_arithmetic, mul, 14, KIT_NUMBERS, false },
    { "Div", &operators_arithmetic, divide, 14, KIT_NUMBERS, false },
    { "Pow", &operators_arithmetic, power, 15, KIT_FLOATS | KIT_BIT(INT32) | KIT_BIT(INT64), false },
    { "Max", &operators_variadic, larger, 13, KIT_NUMBERS, false },
    { "Less", &operators_compare, less, 13, KIT_NUMBERS, true },
    { "Equal", &operators_compare, equal, 13, KIT_NUMBERS, true },
};

static void check_operator(const struct operator_row *op, inlay_dtype dtype, const struct shapes *s, bool in_place)
{
    int64_t dims[8];
    uint32_t rank = joint_shape(s, dims);
    kernel_case c = { .op_type = op->op_type, .since_version = op->since };
    struct tensor in[2] = { make(dtype, s->rank[0], s->dims[0]), make(dtype, s->rank[1], s->dims[1]) };
    struct tensor want = make(INLAY_DOUBLE, rank, dims), out = make(op->to_bool ? INLAY_BOOL : dtype, rank, dims);
    bool is_float = (KIT_FLOATS & INLAY_DTYPE_BIT(dtype)) != 0;

    for (int64_t i = 0; i < in[0].count; i++)
        set(&in[0], i, (double)(4 + i * 7 % 5));
    for (int64_t i = 0; i < in[1].count; i++)
        set(&in[1], i, (double)(1 + i * 3 % 4));
    for (int64_t i = 0; i < want.count; i++) {
        double v = op->fn(get(&in[0], source(s, 0, rank, dims, i)), get(&in[1], source(s, 1, rank, dims, i)));
        set(&want, i, is_float ? v : trunc(v));
    }
    add_input(&c, &in[0]);
    add_input(&c, &in[1]);
    add_output(&c, in_place && in[0].count == out.count ? &in[0] : &out);
    assert_int_equal(run(&c, op->table), INLAY_OK);
    for (int64_t i = 0; i < want.count; i++) {
        double got = get(in_place && in[0].count == out.count ? &in[0] : &out, i), w = get(&want, i);
        if (fabs(got - w) > (dtype == INLAY_BFLOAT16 ? 8e-3 : 1e-3) * fabs(w))
            fail_msg("%s %s: element %lld is %g, not %g", op->op_type, inlay_dtype_name(dtype), (long long)i, got, w);
    }
    guard_free(&in[0].memory);
    guard_free(&in[1].memory);
    guard_free(&want.memory);
    guard_free(&out.memory);
}

static void test_binary(void **unused)
{
    (void)unused;
    for (size_t o = 0; o < sizeof operators / sizeof operators[0]; o++)
        for (size_t t = 0; t < sizeof numbers / sizeof numbers[0]; t++)
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
                if ((operators[o].types & INLAY_DTYPE_BIT(numbers[t])) == 0)
                    continue;
                check_operator(&operators[o], numbers[t], &shapes[s], false);
                if (!operators[o].to_bool)
                    check_operator(&operators[o], numbers[t], &shapes[s], true);
            }
}

/* Powers of special values and of random bits are the floats nearest to C's powers in double, or next to them; the sign
 * of 0 and of infinity, and NaN, are as C's. A result does not depend on its neighbours, special or not. */
static void test_powers(void **unused)
{
    static const float special[] = { 0,        1,       2,          3,    2.5f,     0.5f,     0.999f, 1.001f, 31,
                                     8388609,  8388608, 16777215,   1e9f, 3.4e38f,  1.2e-38f, 1e-45f, 0.1f,   127,
                                     INFINITY, NAN,     4194304.5f, 149,  0.33333f, 1.5f,     7,      -126,   100 };
    enum { SPECIAL = sizeof special / sizeof *special, COUNT = 4 * SPECIAL * SPECIAL + 100000 };
    static float x[COUNT], y[COUNT], z[COUNT], again[COUNT];
    uint64_t seed = 3;
    const int64_t dims[] = { COUNT };
    kernel_case c = { .op_type = "Pow", .since_version = 15 }, second = c;

    (void)unused;
    for (int i = 0; i < COUNT; i++) {
        const uint32_t bits[2] = { (uint32_t)random_below(&seed, UINT64_C(1) << 32),
                                   (uint32_t)random_below(&seed, UINT64_C(1) << 32) };
        const int pair = i / 4;

        if (pair < SPECIAL * SPECIAL) {
            x[i] = i % 2 != 0 ? -special[pair / SPECIAL] : special[pair / SPECIAL];
            y[i] = i % 4 / 2 != 0 ? -special[pair % SPECIAL] : special[pair % SPECIAL];
        } else {
            memcpy(&x[i], &bits[0], sizeof x[i]);
            memcpy(&y[i], &bits[1], sizeof y[i]);
            y[i] = i % 2 != 0 || i > COUNT / 2 ? (float)((int)(bits[1] % 4096) - 2048) / 16 : y[i];
            x[i] = i > COUNT / 2 ? (isnormal(x[i]) ? fabsf(x[i]) : 1.5f) : x[i];
        }
    }
    kernel_case_input(&c, INLAY_FLOAT, 1, dims, x, false);
    kernel_case_input(&c, INLAY_FLOAT, 1, dims, y, false);
    kernel_case_output(&c, INLAY_FLOAT, 1, dims, z);
    assert_int_equal(run(&c, &operators_arithmetic), INLAY_OK);
    for (int i = 0; i < COUNT; i++) {
        const float want = (float)pow((double)x[i], (double)y[i]);

        if (isnan(want) ? !isnan(z[i])
                        : signbit(want) != signbit(z[i]) || !(z[i] == want || z[i] == nextafterf(want, INFINITY) ||
                                                              z[i] == nextafterf(want, -INFINITY)))
            fail_msg("%a^%a is %a, not %a", (double)x[i], (double)y[i], (double)z[i], (double)want);
    }
    for (int i = 0; i < COUNT; i += 101)
        x[i] = NAN;
    kernel_case_input(&second, INLAY_FLOAT, 1, dims, x, false);
    kernel_case_input(&second, INLAY_FLOAT, 1, dims, y, false);
    kernel_case_output(&second, INLAY_FLOAT, 1, dims, again);
    assert_int_equal(run(&second, &operators_arithmetic), INLAY_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(i % 101 == 0 || isnan(z[i]) || memcmp(&z[i], &again[i], sizeof z[i]) == 0);
}

/* Random shapes of three inputs: the walk visits every output element once, with the right sources. */
static void test_broadcast_walk(void **unused)
{
    uint64_t seed = 1;

    (void)unused;
    for (int round = 0; round < 20000; round++) {
        int64_t out[6], in[3][6], at = 0, count = 1;
        bcast_shape from[3];
        bcast_cursor cursor;
        struct bcast b;
        uint32_t rank = (uint32_t)random_below(&seed, 4);

        for (uint32_t d = 0; d < rank; d++) {
            out[d] = 1 + (int64_t)random_below(&seed, 4);
            count *= out[d];
        }
        for (int k = 0; k < 3; k++) {
            uint32_t own = rank == 0 ? 0 : (uint32_t)random_below(&seed, rank + 1);
            for (uint32_t d = 0; d < own; d++)
                in[k][d] = random_below(&seed, 2) != 0 ? out[rank - own + d] : 1;
            from[k] = (bcast_shape){ in[k], own };
        }
        assert_true(bcast_init(&b, 3, from, (bcast_shape){ out, rank }));
        assert_int_equal(b.count, count);
        for (int64_t half = 0; half < 2; half++) /* the second pass continues where the first one stopped */
            for (half == 0 ? bcast_start(&b, 0, &cursor) : (void)0;
                 bcast_row(&b, &cursor, half == 0 ? count / 3 : count);)
                for (int64_t i = 0; i < cursor.count; i++, at++)
                    for (int k = 0; k < 3; k++) {
                        struct shapes s = { .rank = { from[k].rank } };
                        memcpy(s.dims[0], in[k], sizeof s.dims[0]);
                        assert_int_equal(cursor.out + i, at);
                        assert_int_equal(cursor.at[k] + i * b.step[k], source(&s, 0, rank, out, at));
                    }
        assert_int_equal(at, count);
    }
}

static void test_shapes_that_do_not_broadcast(void **unused)
{
    const int64_t a[] = { 2, 3 }, b[] = { 2 };
    kernel_case c = { .op_type = "Add", .since_version = 7 };
    struct tensor x = make(INLAY_FLOAT, 2, a), y = make(INLAY_FLOAT, 1, b), z = make(INLAY_FLOAT, 2, a);

    (void)unused;
    add_input(&c, &x);
    add_input(&c, &y);
    add_output(&c, &z);
    assert_int_equal(run(&c, &operators_arithmetic), INLAY_SHAPE_MISMATCH);
    guard_free(&x.memory);
    guard_free(&y.memory);
    guard_free(&z.memory);
}

/* Add-6 with axis: the second input lines up with the middle of the first. */
static void test_old_broadcast(void **unused)
{
    const int64_t a[] = { 2, 3, 4 }, b[] = { 3 };
    kernel_case c = { .op_type = "Add", .since_version = 6 };
    struct tensor x = make(INLAY_FLOAT, 3, a), y = make(INLAY_FLOAT, 1, b), z = make(INLAY_FLOAT, 3, a);

    (void)unused;
    for (int64_t i = 0; i < x.count; i++)
        set(&x, i, (double)i);
    for (int64_t i = 0; i < 3; i++)
        set(&y, i, 100.0 * (double)i);
    add_input(&c, &x);
    add_input(&c, &y);
    add_output(&c, &z);
    kernel_case_int(&c, "broadcast", 1);
    kernel_case_int(&c, "axis", 1);
    assert_int_equal(run(&c, &operators_arithmetic), INLAY_OK);
    for (int64_t i = 0; i < z.count; i++)
        assert_true(get(&z, i) == (double)(i + 100 * (i / 4 % 3)));
    guard_free(&x.memory);
    guard_free(&y.memory);
    guard_free(&z.memory);
}

static void test_integer_corners(void **unused)
{
    static const struct {
        const char *op_type;
        int64_t fmod;
        int32_t a, b, want;
    } rows[] = {
        { "Div", 0, 7, 0, 99 },         { "Div", 0, INT32_MIN, -1, INT32_MIN },
        { "Div", 0, -7, 2, -3 },        { "Mod", 0, 7, 0, 99 },
        { "Mod", 0, INT32_MIN, -1, 0 }, { "Mod", 0, -7, 3, 2 },
        { "Mod", 0, 7, -3, -2 },        { "Mod", 1, -7, 3, -1 },
        { "Mod", 1, 7, 0, 99 },         { "Add", 0, INT32_MAX, 1, INT32_MIN },
        { "Pow", 0, 3, 4, 81 },         { "Pow", 0, 2, -1, 0 },
        { "Pow", 0, -1, -3, -1 },
    };

    (void)unused;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        kernel_case c = { .op_type = rows[r].op_type, .since_version = 13 };
        int32_t out = 99;

        kernel_case_input(&c, INLAY_INT32, 0, NULL, &rows[r].a, false);
        kernel_case_input(&c, INLAY_INT32, 0, NULL, &rows[r].b, false);
        kernel_case_output(&c, INLAY_INT32, 0, NULL, &out);
        kernel_case_int(&c, "fmod", rows[r].fmod);
        /* Division by 0 has no defined result. */
        assert_int_equal(run(&c, &operators_arithmetic), rows[r].b == 0 ? INLAY_INVALID_ARGUMENT : INLAY_OK);
        assert_int_equal(out, rows[r].want);
    }
}

/* Every element of every integer type from its least to its largest value: results wrap at the type's width. */
static void test_integers_of_one_input(void **unused)
{
    static const char *const op_types[] = { "Abs", "Neg", "Sign", "BitwiseNot" };
    const int64_t dims[] = { 513 };

    (void)unused;
    for (size_t t = 4; t < sizeof numbers / sizeof numbers[0]; t++)
        for (int op = 0; op < 4; op++) {
            const bool is_signed = (KIT_SIGNED & INLAY_DTYPE_BIT(numbers[t])) != 0;
            const int bits = (int)inlay_dtype_bits(numbers[t]);
            kernel_case c = { .op_type = op_types[op], .since_version = 18 };
            struct tensor x = make(numbers[t], 1, dims), y = make(numbers[t], 1, dims);

            if (op == 1 && !is_signed)
                goto next; /* ONNX has no Neg of unsigned integers */
            for (int64_t i = 0; i < x.count; i++) {
                const uint64_t value =
                    i < 3 ? UINT64_C(1) << (bits - 1) : (uint64_t)(i - 256) << (bits > 8 ? bits - 10 : 0);
                memcpy((char *)x.memory.data + i * bits / 8, &value, (size_t)bits / 8);
            }
            add_input(&c, &x);
            add_output(&c, &y);
            assert_int_equal(run(&c, &operators_unary), INLAY_OK);
            for (int64_t i = 0; i < x.count; i++) {
                uint64_t raw = 0, got = 0, want;
                int64_t value;

                memcpy(&raw, (char *)x.memory.data + i * bits / 8, (size_t)bits / 8);
                memcpy(&got, (char *)y.memory.data + i * bits / 8, (size_t)bits / 8);
                value = (int64_t)(raw << (64 - bits)) >> (64 - bits);
                if (op == 0)
                    want = is_signed && value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
                else if (op == 1)
                    want = 0 - (uint64_t)value;
                else if (op == 2)
                    want = raw == 0 ? 0 : is_signed && value < 0 ? UINT64_MAX : 1;
                else
                    want = ~raw;
                assert_true(got == (want << (64 - bits)) >> (64 - bits));
            }
        next:
            guard_free(&x.memory);
            guard_free(&y.memory);
        }
}

static void test_shift_by_the_width(void **unused)
{
    const int64_t dims[] = { 3 };
    const uint32_t x[] = { 1, 1, 0x80000000u }, y[] = { 31, 32, 200 };
    uint32_t z[3];
    kernel_case c = { .op_type = "BitShift", .since_version = 11 };

    (void)unused;
    kernel_case_input(&c, INLAY_UINT32, 1, dims, x, false);
    kernel_case_input(&c, INLAY_UINT32, 1, dims, y, false);
    kernel_case_output(&c, INLAY_UINT32, 1, dims, z);
    kernel_case_string(&c, "direction", "LEFT");
    assert_int_equal(run(&c, &operators_bitwise), INLAY_OK);
    assert_int_equal(z[0], 0x80000000u);
    assert_int_equal(z[1], 0);
    assert_int_equal(z[2], 0);
}

typedef double (*unary_double)(double x);
static double negate(double x)
{
    return -x;
}
static double reciprocal(double x)
{
    return 1 / x;
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double gelu(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2));
}
static double mish(double x)
{
    return x * tanh(log1p(exp(x)));
}
static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}
static double relu(double x)
{
    return x < 0 ? 0 : x;
}

static const struct unary_row {
    const char *op_type;
    const kit_table *table;
    unary_double fn;
    double low, high;
} unaries[] = {
    { "Abs", &operators_unary, fabs, -50, 50 },
    { "Neg", &operators_unary, negate, -50, 50 },
    { "Exp", &operators_unary, exp, -10, 10 },
    { "Log", &operators_unary, log, 1e-3, 90 },
    { "Sqrt", &operators_unary, sqrt, 0, 90 },
    { "Reciprocal", &operators_unary, reciprocal, 0.1, 9 },
    { "Erf", &operators_unary, erf, -5, 5 },
    { "Sin", &operators_unary, sin, -40, 40 },
    { "Cos", &operators_unary, cos, -40, 40 },
    { "Tanh", &operators_unary, tanh, -12, 12 },
    { "Floor", &operators_unary, floor, -9, 9 },
    { "Round", &operators_unary, rint, -9, 9 },
    { "Sigmoid", &operators_activation, sigmoid, -12, 12 },
    { "Gelu", &operators_activation, gelu, -5, 20 },
    { "Mish", &operators_activation, mish, -12, 30 },
    { "Softplus", &operators_activation, softplus, -12, 40 },
    { "Relu", &operators_activation, relu, -3, 3 },
};

static void check_unary(const struct unary_row *u, inlay_dtype dtype, const int64_t *dims, bool in_place)
{
    kernel_case c = { .op_type = u->op_type, .since_version = 22 };
    struct tensor x = make(dtype, 1, dims), y = make(dtype, 1, dims), want = make(INLAY_DOUBLE, 1, dims);
    double tolerance = dtype == INLAY_BFLOAT16 ? 8e-3 : dtype == INLAY_FLOAT16 ? 1e-3 : 4e-6;

    for (int64_t i = 0; i < x.count; i++) {
        set(&x, i, u->low + (u->high - u->low) * (double)i / (double)x.count);
        set(&want, i, u->fn(get(&x, i)));
    }
    add_input(&c, &x);
    add_output(&c, in_place ? &x : &y);
    kernel_case_string(&c, "approximate", "none");
    assert_int_equal(run(&c, u->table), INLAY_OK);
    for (int64_t i = 0; i < x.count; i++) {
        double got = get(in_place ? &x : &y, i), w = get(&want, i);
        if (fabs(got - w) > 1e-7 + tolerance * fabs(w))
            fail_msg("%s %s: element %lld is %.9g, not %.9g", u->op_type, inlay_dtype_name(dtype), (long long)i, got,
                     w);
    }
    guard_free(&x.memory);
    guard_free(&y.memory);
    guard_free(&want.memory);
}

static void test_unary(void **unused)
{
    static const int64_t sizes[] = { 0, 1, 3, 513, 2000 };

    (void)unused;
    for (size_t o = 0; o < sizeof unaries / sizeof unaries[0]; o++)
        for (int t = 0; t < 4; t++) /* the floats */
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
                for (int in_place = 0; in_place < 2; in_place++)
                    check_unary(&unaries[o], numbers[t], &sizes[s], in_place != 0);
}

/* The fast sine and cosine are for moderate angles. A large angle at any index must take the slow path. */
static void test_far_angles(void **unused)
{
    static const int64_t counts[] = { 1, 2, 3, 9, 16, 17, 513 };
    static const double angles[] = { 3e5, -1e9, 1e30 };
    static const struct {
        const char *name;
        double (*f)(double x);
    } functions[] = { { "Sin", sin }, { "Cos", cos } };

    (void)unused;
    for (size_t s = 0; s < sizeof counts / sizeof counts[0]; s++)
        for (int64_t at = 0; at<counts[s]; at += counts[s]> 20 ? 128 : 1)
            for (int k = 0; k < 6; k++) {
                kernel_case c = { .op_type = functions[k % 2].name, .since_version = 7 };
                struct tensor x = make(INLAY_FLOAT, 1, &counts[s]), y = make(INLAY_FLOAT, 1, &counts[s]);

                for (int64_t i = 0; i < x.count; i++)
                    set(&x, i, i == at ? angles[k / 2] : 0.25);
                add_input(&c, &x);
                add_output(&c, &y);
                assert_int_equal(run(&c, &operators_unary), INLAY_OK);
                for (int64_t i = 0; i < x.count; i++)
                    assert_true(fabs(get(&y, i) - functions[k % 2].f(get(&x, i))) < 1e-6);
                guard_free(&x.memory);
                guard_free(&y.memory);
            }
}

/* The function bodies of ONNX, with alpha = lambd = 0.5, beta = bias = 0.25 and gamma = 1.5. */
static double body_relu(double x)
{
    return x < 0 ? 0 : x; /* Max(-0, 0) may be either */
}
static double body_leaky_relu(double x)
{
    return x < 0 ? 0.5 * x : x;
}
static double body_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double body_hard_sigmoid(double x)
{
    const double y = 0.5 * x + 0.25;

    return isnan(y) ? y : y < 0 ? 0 : y > 1 ? 1 : y;
}
static double body_elu(double x)
{
    return x < 0 ? 0.5 * exp(x) - 0.5 : x;
}
static double body_selu(double x)
{
    return x < 0 ? 1.5 * (0.5 * exp(x) - 0.5) : 1.5 * x;
}
static double body_celu(double x)
{
    const double elu = x / 0.5 < 0 ? exp(x / 0.5) - 1 : x / 0.5;

    return 0.5 * elu;
}
static double body_softplus(double x)
{
    return x > 100 ? x : log(exp(x) + 1);
}
static double body_softsign(double x)
{
    return x / (1 + fabs(x));
}
static double body_thresholded_relu(double x)
{
    return 0.5 < x ? x : 0;
}
static double body_mish(double x)
{
    return x * tanh(body_softplus(x));
}
static double body_gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2.0)));
}
static double body_shrink(double x)
{
    return x < -0.5 ? x + 0.25 : 0.5 < x ? x - 0.25 : 0;
}
static double body_swish(double x)
{
    return x * body_sigmoid(0.5 * x);
}

static const struct body {
    const char *op_type;
    double (*of)(double);
    const kit_table *table;
} bodies[] = {
    { "Relu", body_relu, &operators_activation },
    { "LeakyRelu", body_leaky_relu, &operators_activation },
    { "Sigmoid", body_sigmoid, &operators_activation },
    { "HardSigmoid", body_hard_sigmoid, &operators_activation },
    { "Elu", body_elu, &operators_activation },
    { "Selu", body_selu, &operators_activation },
    { "Celu", body_celu, &operators_activation },
    { "Softplus", body_softplus, &operators_activation },
    { "Softsign", body_softsign, &operators_activation },
    { "ThresholdedRelu", body_thresholded_relu, &operators_activation },
    { "Mish", body_mish, &operators_activation },
    { "Gelu", body_gelu, &operators_activation },
    { "Shrink", body_shrink, &operators_activation },
    { "Swish", body_swish, &operators_activation },
    { "Sin", sin, &operators_unary },
    { "Tan", tan, &operators_unary },
    { "Asin", asin, &operators_unary },
    { "Atan", atan, &operators_unary },
    { "Sinh", sinh, &operators_unary },
    { "Tanh", tanh, &operators_unary },
    { "Asinh", asinh, &operators_unary },
    { "Atanh", atanh, &operators_unary },
    { "Erf", erf, &operators_unary },
    { "Sqrt", sqrt, &operators_unary },
    { "Floor", floor, &operators_unary },
    { "Ceil", ceil, &operators_unary },
    { "Round", rint, &operators_unary },
};

/* NaN, infinity and the sign of 0 are those of ONNX's function body or of C, in every float type. */
static void check_body(const struct body *body, inlay_dtype dtype, const double *values, int64_t count)
{
    kernel_case c = { .op_type = body->op_type, .since_version = 22 };
    struct tensor x = make(dtype, 1, &count), y = make(dtype, 1, &count);

    for (int64_t i = 0; i < count; i++)
        set(&x, i, values[i]);
    add_input(&c, &x);
    add_output(&c, &y);
    kernel_case_string(&c, "approximate", "none");
    kernel_case_float(&c, "alpha", 0.5);
    kernel_case_float(&c, "beta", 0.25);
    kernel_case_float(&c, "bias", 0.25);
    kernel_case_float(&c, "gamma", 1.5);
    kernel_case_float(&c, "lambd", 0.5);
    assert_int_equal(run(&c, body->table), INLAY_OK);
    for (int64_t i = 0; i < count; i++) {
        const double expected = body->of(values[i]), actual = get(&y, i);

        if (isnan(expected) ? !isnan(actual)
                            : !(fabs(actual - expected) <= 4e-3 * (1 + fabs(expected))) && actual != expected)
            fail_msg("%s of %g is %g, not %g", body->op_type, values[i], actual, expected);
        if (expected == 0 && actual == 0 && signbit(expected) != signbit(actual))
            fail_msg("%s of %g has another sign of 0", body->op_type, values[i]);
    }
    guard_free(&x.memory);
    guard_free(&y.memory);
}

static void test_special_values(void **unused)
{
    static const double values[] = { NAN, INFINITY, -INFINITY, 0.0, -0.0, 0.5, -0.5, 0.75, -0.75, 5, -4 };

    (void)unused;
    for (size_t o = 0; o < sizeof bodies / sizeof bodies[0]; o++)
        for (int t = 0; t < 4; t++) {
            check_body(&bodies[o], numbers[t], values, 11);
            check_body(&bodies[o], numbers[t], values + 3, 8); /* finite ones may have other loops */
        }
}

static void test_clip_types(void **unused)
{
    const int64_t dims[] = { 700 };

    (void)unused;
    for (size_t t = 0; t < sizeof numbers / sizeof numbers[0]; t++) {
        kernel_case c = { .op_type = "Clip", .since_version = 13 };
        struct tensor x = make(numbers[t], 1, dims), low = make(numbers[t], 0, NULL), y = make(numbers[t], 1, dims);
        struct tensor high = make(numbers[t], 0, NULL);

        for (int64_t i = 0; i < x.count; i++)
            set(&x, i, (double)(i % 100));
        set(&low, 0, 20);
        set(&high, 0, 60);
        add_input(&c, &x);
        add_input(&c, &low);
        add_input(&c, &high);
        add_output(&c, &y);
        assert_int_equal(run(&c, &operators_clip), INLAY_OK);
        for (int64_t i = 0; i < x.count; i++)
            assert_true(get(&y, i) == (i % 100 < 20 ? 20 : i % 100 > 60 ? 60 : (double)(i % 100)));
        guard_free(&x.memory);
        guard_free(&y.memory);
        guard_free(&low.memory);
        guard_free(&high.memory);
    }
}

static void check_where(const int64_t out[3])
{
    const int64_t of[4][3] = { { out[0], out[1], out[2] }, { 1, out[1], 1 }, { 1, 1, out[2] }, { 1, 1, 1 } };

    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            for (int d = 0; d < 4; d++) {
                if (a != 0 && b != 0 && d != 0)
                    continue;
                kernel_case c = { .op_type = "Where", .since_version = 16 };
                struct tensor in[3] = { make(INLAY_BOOL, 3, of[a]), make(INLAY_INT16, 3, of[b]),
                                        make(INLAY_INT16, 3, of[d]) };
                struct tensor y = make(INLAY_INT16, 3, out);

                for (int k = 0; k < 3; k++) {
                    for (int64_t i = 0; i < in[k].count; i++)
                        set(&in[k], i, k == 0 ? (double)(i % 3 % 2) : (double)(k * 1000 + i));
                    add_input(&c, &in[k]);
                }
                add_output(&c, &y);
                assert_int_equal(run(&c, &operators_where), INLAY_OK);
                for (int64_t i = 0; i < y.count; i++) {
                    int64_t at[3];
                    for (int k = 0; k < 3; k++) {
                        struct shapes s = { .rank = { 3 } };
                        memcpy(s.dims[0], in[k].dims, 3 * sizeof(int64_t));
                        at[k] = source(&s, 0, 3, out, i);
                    }
                    assert_true(get(&y, i) ==
                                get(&in[get(&in[0], at[0]) != 0 ? 1 : 2], at[get(&in[0], at[0]) != 0 ? 1 : 2]));
                }
                for (int k = 0; k < 3; k++)
                    guard_free(&in[k].memory);
                guard_free(&y.memory);
            }
}

static void test_where_shapes(void **unused)
{
    (void)unused;
    check_where((const int64_t[]){ 2, 3, 40 });
    check_where((const int64_t[]){ 2, 300, 5 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_powers),
        cmocka_unit_test(test_broadcast_walk),
        cmocka_unit_test(test_shapes_that_do_not_broadcast),
        cmocka_unit_test(test_old_broadcast),
        cmocka_unit_test(test_integer_corners),
        cmocka_unit_test(test_integers_of_one_input),
        cmocka_unit_test(test_shift_by_the_width),
        cmocka_unit_test(test_unary),
        cmocka_unit_test(test_far_angles),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_clip_types),
        cmocka_unit_test(test_where_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
