/* Tiles of columns (simd/axis.h) of random tensors: sums of columns, and each element plus the sum of its column, of
 * integers of every size, equal their definition, for any range of units, and in parts (axis_part). */
#include "simd/axis.h"
#include "random.h"
#include "cmocka_all.h"
#include <stdlib.h>

enum { WIDTH = 256 };

static uint64_t get(const void *data, int64_t bytes, int64_t i)
{
    uint64_t value = 0;

    memcpy(&value, (const char *)data + i * bytes, (size_t)bytes);
    return value;
}

static void put(void *data, int64_t bytes, int64_t i, uint64_t value)
{
    memcpy((char *)data + i * bytes, &value, (size_t)bytes);
}

static void sum_tile(const void *ctx, const void *input, void *output, const axis_tile *tile)
{
    const axis_cut *cut = ctx;
    uint64_t sum[WIDTH] = { 0 };

    assert_true(tile->columns <= WIDTH && tile->columns % tile->period == 0 && tile->last <= tile->columns);
    for (int64_t r = 0; r < tile->rows; r++)
        for (int64_t j = 0; j < axis_width(tile, r); j++)
            sum[j] += get(input, cut->in_bytes, r * tile->stride + j);
    AXIS_JOIN(uint64_t, tile, sum, a + b)
    if (cut->folds) {
        for (int64_t j = 0; j < tile->period; j++)
            put(output, cut->out_bytes, j, sum[j]);
        return;
    }
    AXIS_SPREAD(tile, sum);
    for (int64_t r = 0; r < tile->rows; r++)
        for (int64_t j = 0; j < axis_width(tile, r); j++) {
            const int64_t at = r * tile->stride + j;

            put(output, cut->out_bytes, at, get(input, cut->in_bytes, at) + sum[j]);
        }
}

static void expect(const axis_cut *cut, int64_t outer, int64_t n, int64_t inner, const char *input, const char *output)
{
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j++) {
            uint64_t sum = 0;

            for (int64_t i = 0; i < n; i++)
                sum += get(input, cut->in_bytes, (o * n + i) * inner + j);
            for (int64_t i = 0; i < (cut->folds ? 1 : n); i++) {
                const int64_t at = cut->folds ? o * inner + j : (o * n + i) * inner + j;
                const uint64_t want = cut->folds ? sum : sum + get(input, cut->in_bytes, at);
                uint64_t cropped = 0;

                put(&cropped, cut->out_bytes, 0, want);
                assert_int_equal(get(output, cut->out_bytes, at), cropped);
            }
        }
}

static void random_tensors(void **state)
{
    uint64_t seed = 104;

    (void)state;
    for (int round = 0; round < 400; round++) {
        const int64_t most = random_between(&seed, 1, 200), outer = random_between(&seed, 1, 90);
        const int64_t n = random_between(&seed, 1, most);
        const int64_t inner = random_between(&seed, 1, 200 / most + 70 * (round % 2));
        const int64_t in_bytes = INT64_C(1) << random_between(&seed, 0, 3);
        const bool folds = random_between(&seed, 0, 1) == 1;
        const int64_t out_bytes = folds ? INT64_C(1) << random_between(&seed, 0, 3) : in_bytes;
        const axis_cut cut = axis_cut_of(outer, n, inner, in_bytes, out_bytes, folds,
                                         random_between(&seed, 1, WIDTH), random_between(&seed, 0, 65));
        const int64_t count = outer * n * inner, results = folds ? outer * inner : count;
        char *input = malloc((size_t)(count * in_bytes)), *output = calloc((size_t)(results * out_bytes), 1);
        const int64_t half = cut.units / 2;

        assert_true(input != NULL && output != NULL && cut.units > 0);
        for (int64_t i = 0; i < count; i++)
            put(input, in_bytes, i, (uint64_t)random_between(&seed, 0, INT64_C(1) << 40));
        axis_run(&cut, half, cut.units, input, output, sum_tile, &cut);
        axis_run(&cut, 0, half, input, output, sum_tile, &cut);
        expect(&cut, outer, n, inner, input, output);
        if (!folds) { /* in place */
            axis_cut part;

            memcpy(output, input, (size_t)(count * in_bytes));
            axis_run(&cut, 0, cut.units, output, output, sum_tile, &cut);
            expect(&cut, outer, n, inner, input, output);
            assert_true(axis_part(&cut, cut.units - 1, &part) < count && part.units == 1);
            assert_true(part.outer * part.n * part.inner <= axis_unit_elements(&cut));
        }
        free(input);
        free(output);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_tensors) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
