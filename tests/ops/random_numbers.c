/* random_numbers.c - the random operators with a seed, compared with MT19937 as published, number by number: lengths
 * around those of the generator's state and of the blocks, for each distribution. */
#include "kernel_case.h"
#include "reference/reference_tables.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { WORDS = 624, MOST = 5000 };

static struct {
    uint32_t word[WORDS];
    int next;
} generator;

static void start(uint32_t seed)
{
    generator.word[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        generator.word[i] = 1812433253u * (generator.word[i - 1] ^ (generator.word[i - 1] >> 30)) + i;
    generator.next = WORDS;
}

static uint32_t draw(void)
{
    uint32_t y;

    if (generator.next == WORDS) {
        for (int k = 0; k < WORDS; k++) {
            y = (generator.word[k] & 0x80000000u) | (generator.word[(k + 1) % WORDS] & 0x7fffffffu);
            generator.word[k] = generator.word[(k + 397) % WORDS] ^ (y >> 1) ^ (y % 2 != 0 ? 0x9908b0dfu : 0);
        }
        generator.next = 0;
    }
    y = generator.word[generator.next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static double uniform(void)
{
    const double high = draw() >> 5, low = draw() >> 6;

    return (high * 67108864 + low) / 9007199254740992;
}

/* Numbers 2 i and 2 i + 1 of the normal distribution. */
static void normals(double *pair)
{
    double x, y, square;

    do {
        x = 2 * uniform() - 1;
        y = 2 * uniform() - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    square = sqrt(-2 * log(square) / square);
    pair[0] = square * y;
    pair[1] = square * x;
}

/* Runs the operator with this seed for `count` doubles, which are the probabilities of Bernoulli. */
static void run_operator(const char *op_type, uint32_t seed, int64_t count, double *numbers)
{
    static kernel_case c;
    struct guard in = guard_alloc((size_t)count * sizeof *numbers), out = guard_alloc((size_t)count * sizeof *numbers);

    memcpy(in.data, numbers, (size_t)count * sizeof *numbers);
    c = (kernel_case){ .op_type = op_type, .since_version = 1 };
    kernel_case_float(&c, "seed", seed);
    kernel_case_input(&c, INLAY_DOUBLE, 1, &count, in.data, false);
    kernel_case_output(&c, INLAY_DOUBLE, 1, &count, out.data);
    assert_int_equal(kernel_case_prepare(&c, &reference_random), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    kernel_case_deinit(&c);
    memcpy(numbers, out.data, (size_t)count * sizeof *numbers);
    guard_free(&in);
    guard_free(&out);
}

/* Normal floats come from a logarithm whose last bits differ: they are the nearest floats or those next to them. */
static void check_floats(uint32_t seed, int64_t count)
{
    static kernel_case c;
    struct guard out = guard_alloc((size_t)count * sizeof(float));
    const float *numbers = out.data;
    double pair[2];

    c = (kernel_case){ .op_type = "RandomNormal", .since_version = 1 };
    kernel_case_float(&c, "seed", seed);
    kernel_case_output(&c, INLAY_FLOAT, 1, &count, out.data);
    assert_int_equal(kernel_case_prepare(&c, &reference_random), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    kernel_case_deinit(&c);
    start(seed);
    for (int64_t k = 0; k < count; k++) {
        if (k % 2 == 0)
            normals(pair);
        assert_true(fabs((double)numbers[k] - pair[k % 2]) <= 6e-8 * fabs(pair[k % 2]));
    }
    guard_free(&out);
}

static void numbers_of_the_twister(void **state)
{
    static const int64_t counts[] = { 0, 1, 2, 3, 311, 312, 313, 511, 512, 513, 623, 624, 625, 1023, 1025, 1249, MOST };
    static double numbers[MOST], pair[2];

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const uint32_t seed = (uint32_t)i * 977;

        run_operator("RandomUniformLike", seed, counts[i], numbers);
        start(seed);
        for (int64_t k = 0; k < counts[i]; k++)
            assert_true(numbers[k] == uniform());
        run_operator("RandomNormalLike", seed, counts[i], numbers);
        start(seed);
        for (int64_t k = 0; k < counts[i]; k++) {
            if (k % 2 == 0)
                normals(pair);
            assert_true(numbers[k] == pair[k % 2]);
        }
        check_floats(seed, counts[i]);
        for (int64_t k = 0; k < counts[i]; k++)
            numbers[k] = k % 7 == 0 ? NAN : (double)(k % 7) / 6;
        run_operator("Bernoulli", seed, counts[i], numbers);
        start(seed);
        for (int64_t k = 0; k < counts[i]; k++)
            assert_true(numbers[k] == (uniform() < (k % 7 == 0 ? NAN : (double)(k % 7) / 6) ? 1 : 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_of_the_twister) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
