/* dims.c - arithmetic on dimensions: symbolic results must hold for numbers, and equal results must have the same
 * name. */
#include "infer/infer.h"
#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_SYMBOLS = 1 << 16 };
static char *names[MAX_SYMBOLS];
static uint32_t name_count = 1;

static uint32_t intern(void *ctx, const char *name)
{
    (void)ctx;
    for (uint32_t i = 1; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    if (name_count == MAX_SYMBOLS)
        return 0;
    names[name_count] = strdup(name);
    return name_count++;
}

static const char *name_of(void *ctx, uint32_t symbol)
{
    (void)ctx;
    return symbol < name_count ? names[symbol] : NULL;
}

static void forget_names(void)
{
    while (name_count > 1)
        free(names[--name_count]);
}

static op_infer tools = { .symbol = intern, .symbol_name = name_of };

static inlay_dim symbol(const char *name)
{
    return (inlay_dim){ -1, INLAY_DIM_SYMBOLIC, intern(NULL, name) };
}

static const char *text_of(inlay_dim dim)
{
    static char number[32];

    if (dim.kind == INLAY_DIM_SYMBOLIC)
        return names[dim.symbol];
    snprintf(number, sizeof number, "%lld", (long long)dim.value);
    return dim.kind == INLAY_DIM_FIXED ? number : "?";
}

static const struct {
    const char *name;
    int64_t value;
} assignment[] = { { "H", 37 }, { "W", 224 }, { "batch", 3 }, { "a b", 5 }, { "past", 10 }, { "past + 1", 11 } };

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t read_sum(const char **at);

static int64_t read_atom(const char **at)
{
    int64_t value, divisor;

    if (**at >= '0' && **at <= '9')
        return strtoll(*at, (char **)(uintptr_t)at, 10);
    if (**at == '(') {
        ++*at;
        value = read_sum(at);
        assert_int_equal(*(*at)++, ')');
        return value;
    }
    if (strncmp(*at, "floor(", 6) == 0) {
        *at += 6;
        value = read_sum(at);
        assert_int_equal(*(*at)++, '/');
        divisor = read_sum(at);
        assert_int_equal(*(*at)++, ')');
        return floor_div(value, divisor);
    }
    if (strncmp(*at, "min(", 4) == 0 || strncmp(*at, "broadcast(", 10) == 0) {
        bool smaller = **at == 'm';

        *at = strchr(*at, '(') + 1;
        value = read_sum(at);
        assert_int_equal(*(*at)++, ',');
        assert_int_equal(*(*at)++, ' ');
        divisor = read_sum(at);
        assert_int_equal(*(*at)++, ')');
        return smaller ? (value < divisor ? value : divisor) : value == 1 ? divisor : value;
    }
    for (size_t i = 0; i < sizeof assignment / sizeof assignment[0]; i++) {
        size_t n = strlen(assignment[i].name);
        bool bracket = **at == '[';

        if (strncmp(*at + bracket, assignment[i].name, n) == 0) { /* "past + 1" is read as a sum of past */
            *at += n + 2 * bracket;
            return assignment[i].value;
        }
    }
    fail_msg("cannot read '%s'", *at);
    return 0;
}

static int64_t read_product(const char **at)
{
    int64_t value = read_atom(at);

    while (**at == '*') {
        ++*at;
        value *= read_atom(at);
    }
    return value;
}

static int64_t read_sum(const char **at)
{
    bool minus = **at == '-';
    int64_t value;

    *at += minus;
    value = minus ? -read_product(at) : read_product(at);
    while (strncmp(*at, " + ", 3) == 0 || strncmp(*at, " - ", 3) == 0) {
        minus = (*at)[1] == '-';
        *at += 3;
        value += minus ? -read_product(at) : read_product(at);
    }
    return value;
}

static void test_texts(void **state)
{
    inlay_dim h = symbol("H"), w = symbol("W"), n = symbol("batch"), odd = symbol("a b"), one = dim_fixed(1);
    inlay_dim strided = h;

    (void)state;
#define TEXT(dim, text) assert_string_equal(text_of(dim), text)
    TEXT(dim_add(&tools, h, dim_fixed(0)), "H");
    TEXT(dim_sub(&tools, dim_add(&tools, h, w), h), "W");
    TEXT(dim_sub(&tools, h, h), "0");
    TEXT(dim_mul(&tools, dim_add(&tools, h, one), dim_sub(&tools, h, one)), "H*H - 1");
    TEXT(dim_div(&tools, dim_mul(&tools, dim_mul(&tools, n, h), dim_fixed(768)), dim_mul(&tools, n, dim_fixed(64))),
         "12*H");
    TEXT(dim_div(&tools, dim_add(&tools, dim_mul(&tools, h, dim_fixed(3)), dim_fixed(5)), dim_fixed(2)),
         "H + floor((H + 1)/2) + 2");
    TEXT(dim_ceil_div(&tools, h, dim_fixed(2)), "floor((H + 1)/2)");
    TEXT(dim_add(&tools, odd, one), "[a b] + 1");
    TEXT(dim_sub(&tools, dim_add(&tools, odd, one), one), "a b");
    TEXT(dim_sub(&tools, symbol("past + 1"), one), "past");
    TEXT(dim_add(&tools, symbol("7"), symbol("7")), "2*[7]"); /* names of dimensions, not sizes */
    TEXT(dim_mul(&tools, symbol("0"), dim_fixed(3)), "3*[0]");
    TEXT(dim_sub(&tools, dim_add(&tools, symbol("-1"), one), one), "-1");
    TEXT(dim_add(&tools, symbol("2 + 3"), one), "[2 + 3] + 1");
    for (int i = 0; i < 5; i++) /* five layers of stride 2 */
        strided = dim_add(&tools, dim_div(&tools, dim_sub(&tools, strided, one), dim_fixed(2)), one);
    TEXT(strided, "floor((H + 31)/32)");
    TEXT(dim_div(&tools, h, dim_fixed(0)), "?");
    TEXT(dim_div(&tools, dim_fixed(INT64_MIN), dim_fixed(-1)), "?");
    TEXT(dim_div(&tools, dim_fixed(-7), dim_fixed(2)), "-4");
    TEXT(dim_mul(&tools, dim_fixed(INT64_MAX), dim_fixed(2)), "?");
    TEXT(dim_mul(&tools, dim_mul(&tools, h, dim_fixed(INT64_MAX)), dim_fixed(2)), "?");
    TEXT(dim_add(&tools, dim_unknown(), h), "?");
    TEXT(dim_min(&tools, dim_add(&tools, h, one), h), "H");
    TEXT(dim_min(&tools, h, dim_fixed(512)), "min(512, H)");
    TEXT(dim_min(&tools, w, dim_add(&tools, h, n)), "min(H + batch, W)");
    TEXT(dim_min(&tools, dim_fixed(3), dim_fixed(-2)), "-2");
    forget_names();
}

static inlay_dim broadcast(inlay_dim a, inlay_dim b)
{
    inlay_dim out;

    assert_int_equal(dim_broadcast(&tools, a, b, &out), INLAY_OK);
    return out;
}

static void test_broadcast(void **state)
{
    inlay_dim dim = symbol("H"), w = symbol("W"), n = symbol("batch"), odd = symbol("a b"), both = broadcast(w, dim);

    (void)state;
    TEXT(broadcast(dim, dim_fixed(1)), "H");
    TEXT(broadcast(dim, dim_fixed(7)), "7");
    TEXT(both, "broadcast(H, W)");
    TEXT(broadcast(dim, w), "broadcast(H, W)");
    TEXT(broadcast(dim, both), "broadcast(H, W)");
    TEXT(broadcast(both, w), "broadcast(H, W)");
    TEXT(broadcast(both, n), "broadcast(batch, broadcast(H, W))");
    TEXT(dim_sub(&tools, dim_add(&tools, both, n), n), "broadcast(H, W)");
    TEXT(broadcast(dim, dim_min(&tools, dim, dim_fixed(512))), "H");
    TEXT(broadcast(dim_min(&tools, dim, dim_fixed(1)), dim), "H");
    TEXT(broadcast(odd, dim_min(&tools, odd, dim_fixed(3))), "a b");
    /* min(0, H) is 0, so 1 is broadcast to it; min(H, W) may have any value. */
    TEXT(broadcast(w, dim_min(&tools, dim, dim_fixed(512))), "broadcast(W, min(512, H))");
    TEXT(broadcast(dim, dim_min(&tools, dim, w)), "broadcast(H, min(H, W))");
    assert_true(dim_is_size(&tools, dim_add(&tools, dim, dim_min(&tools, dim, w))));
    assert_false(dim_is_size(&tools, dim_sub(&tools, dim, w)));
    assert_false(dim_is_size(&tools, dim_div(&tools, dim_sub(&tools, dim, w), dim_fixed(2))));
    forget_names();
}

static uint64_t seed = 1;

struct number {
    inlay_dim dim;
    int64_t value;
};

static struct number any(void)
{
    uint32_t i = random_below(&seed, 8);

    if (i < sizeof assignment / sizeof assignment[0])
        return (struct number){ symbol(assignment[i].name), assignment[i].value };
    i = random_below(&seed, 9);
    return (struct number){ dim_fixed(i), i };
}

/* Returns a random expression and its value. */
static struct number expression(uint32_t depth)
{
    struct number a, b;

    if (depth == 0)
        return any();
    a = expression(depth - 1);
    b = random_below(&seed, 3) == 0 ? expression(depth - 1) : any();
    switch (random_below(&seed, 6)) {
    case 5:
        return (struct number){ dim_min(&tools, a.dim, b.dim), a.value < b.value ? a.value : b.value };
    case 0:
        return (struct number){ dim_add(&tools, a.dim, b.dim), a.value + b.value };
    case 1:
        return (struct number){ dim_sub(&tools, a.dim, b.dim), a.value - b.value };
    case 2:
        return (struct number){ dim_mul(&tools, a.dim, b.dim), a.value * b.value };
    case 3:
        return b.value == 0 ? a : (struct number){ dim_div(&tools, a.dim, b.dim), floor_div(a.value, b.value) };
    default:
        return b.value == 0 ? a : (struct number){ dim_ceil_div(&tools, a.dim, b.dim), -floor_div(-a.value, b.value) };
    }
}

static void test_truth(void **state)
{
    uint32_t told = 0;

    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        struct number number = expression(1 + random_below(&seed, 5));
        const char *text = text_of(number.dim), *end = text;

        if (number.dim.kind != INLAY_DIM_UNKNOWN) {
            told++;
            if (read_sum(&end) != number.value || *end != '\0')
                fail_msg("'%s' is not %lld", text, (long long)number.value);
        }
        forget_names();
    }
    assert_in_range(told, 10000, 20000); /* most results are not unknown */
}

/* A dimension for which dim_is_size() is true is never negative. */
static void test_sizes(void **state)
{
    uint32_t symbolic = 0, sizes = 0;

    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        struct number number = expression(1 + random_below(&seed, 4));

        if (number.dim.kind == INLAY_DIM_SYMBOLIC) {
            symbolic++;
            if (dim_is_size(&tools, number.dim)) {
                assert_true(number.value >= 0);
                sizes++;
            }
        }
        forget_names();
    }
    assert_in_range(symbolic, 10000, 20000);
    assert_in_range(sizes, symbolic / 2, symbolic - 1); /* most are sizes; expressions with a minus sign are not */
}

/* A size that overflows 64 bits is unknown, but keeps its sign in further arithmetic with numbers. */
static void test_beyond(void **state)
{
    const inlay_dim most = dim_fixed(INT64_MAX), least = dim_fixed(INT64_MIN), one = dim_fixed(1),
                    minus = dim_fixed(-1);
    const inlay_dim high = dim_add(&tools, most, one), low = dim_sub(&tools, least, one);
    const struct {
        inlay_dim got;
        int side; /* 1 too large, -1 too small, 0 neither */
    } rows[] = {
        { high, 1 },
        { low, -1 },
        { dim_add(&tools, least, minus), -1 },
        { dim_sub(&tools, most, minus), 1 },
        { dim_mul(&tools, most, dim_fixed(2)), 1 },
        { dim_mul(&tools, dim_fixed(-2), most), -1 },
        { dim_mul(&tools, least, minus), 1 },
        { dim_add(&tools, high, one), 1 },
        { dim_add(&tools, one, high), 1 },
        { dim_add(&tools, low, dim_fixed(7)), -1 },
        { dim_add(&tools, dim_fixed(7), low), -1 },
        { dim_mul(&tools, high, dim_fixed(3)), 1 },
        { dim_mul(&tools, dim_fixed(3), high), 1 },
        { dim_mul(&tools, high, minus), -1 },
        { dim_mul(&tools, minus, low), 1 },
        { dim_mul(&tools, high, dim_fixed(0)), 0 },
        { dim_add(&tools, high, symbol("batch")), 0 },
        { dim_add(&tools, high, dim_unknown()), 0 },
        { dim_unknown(), 0 },
        { most, 0 },
        { least, 0 },
        { symbol("batch"), 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(dim_is_beyond(rows[i].got), rows[i].side != 0);
        if (rows[i].side == 0)
            continue;
        assert_int_equal(rows[i].got.kind, INLAY_DIM_UNKNOWN);
        assert_int_equal(rows[i].got.value < 0, rows[i].side < 0);
        assert_false(dim_same(rows[i].got, rows[i].got));
    }
}

static void test_laws(void **state)
{
    uint32_t decided[6] = { 0 }; /* for each law: rounds in which both sides are known */

    (void)state;
    for (uint32_t i = 0; i < 5000; i++) {
        inlay_dim a = expression(2).dim, b = expression(2).dim, dim = expression(1).dim;
        const struct {
            inlay_dim left, right;
        } laws[] = {
            { dim_add(&tools, a, b), dim_add(&tools, b, a) },
            { dim_mul(&tools, a, b), dim_mul(&tools, b, a) },
            { dim_add(&tools, dim_add(&tools, a, b), dim), dim_add(&tools, a, dim_add(&tools, b, dim)) },
            { dim_mul(&tools, dim_mul(&tools, a, b), dim), dim_mul(&tools, a, dim_mul(&tools, b, dim)) },
            { dim_mul(&tools, a, dim_add(&tools, b, dim)),
              dim_add(&tools, dim_mul(&tools, a, b), dim_mul(&tools, a, dim)) },
            { dim_sub(&tools, dim_add(&tools, a, b), b), a },
        };

        _Static_assert(sizeof laws / sizeof laws[0] == sizeof decided / sizeof decided[0], "a count for each law");
        for (size_t k = 0; k < sizeof laws / sizeof laws[0]; k++) {
            if (laws[k].left.kind == INLAY_DIM_UNKNOWN || laws[k].right.kind == INLAY_DIM_UNKNOWN)
                continue;
            decided[k]++;
            if (!dim_same(laws[k].left, laws[k].right)) {
                char left[256];

                snprintf(left, sizeof left, "%s", text_of(laws[k].left));
                /* the symbol "past + 1" of the model is parsed as a sum only once it is an operand */
                if (k != 5 || strstr(text_of(laws[k].right), "past + 1") == NULL)
                    fail_msg("law %zu: '%s' and '%s'", k, left, text_of(laws[k].right));
            }
        }
        forget_names();
    }
    for (size_t k = 0; k < sizeof decided / sizeof decided[0]; k++)
        assert_in_range(decided[k], 2500, 5000); /* at least half of the rounds */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts), cmocka_unit_test(test_broadcast), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_truth), cmocka_unit_test(test_laws),      cmocka_unit_test(test_beyond),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
