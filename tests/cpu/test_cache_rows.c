/* Keys and values in 8 or 4 bits: the kernels of attention over them, at the instruction set of INLAY_ISA, compared
 * with definitions in doubles that share no code with them: the Hadamard matrix by the parity of i AND j, codes one by
 * one. */
#include "cpu/attention/cache_loops.h"
#include "cmocka_all.h"
#include "guard.h"
#include "random.h"
#include <math.h>

enum { MOST_SIZE = 256, MOST_ROWS = 300, MOST_QUERIES = 7 };
static const int64_t sizes[] = { 1, 2, 3, 7, 8, 15, 16, 20, 31, 32, 33, 64, 80, 96, 128, 256 };
enum { SIZES = sizeof sizes / sizeof *sizes };

static double rotated(const double *row, int64_t size, int64_t i)
{
    const int64_t block = size & -size, from = i / block * block;
    double sum = 0;

    for (int64_t j = 0; j < block; j++)
        sum += __builtin_parityll((unsigned long long)((i - from) & j)) ? -row[from + j] : row[from + j];
    return sum / sqrt((double)block);
}

/* Code i of a row. */
static int code_of(const cache_format *format, const uint8_t *row, int64_t i)
{
    if (format->bits == 8)
        return (int8_t)row[i];
    return ((i % 2 == 0 ? row[i / 2] : row[i / 2] >> 4) & 15) - 8;
}

static double scale_of(const cache_format *format, const uint8_t *row)
{
    float scale;

    memcpy(&scale, row + (format->bits == 8 ? format->size : (format->size + 1) / 2), sizeof scale);
    return (double)scale;
}

static double norm_of(const double *row, int64_t size)
{
    double sum = 0;

    for (int64_t i = 0; i < size; i++)
        sum += row[i] * row[i];
    return sqrt(sum);
}

/* Rows with one element of unusual magnitude: what was written is near what was given. */
static void own_scales(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int n = 0; n < 2 * SIZES; n++)
        for (int round = 0; round < 20; round++) {
            const cache_format format = { .size = sizes[n / 2], .bits = n % 2 ? 4 : 8, .own = true };
            const size_t bytes = (size_t)cache_row_bytes(&format);
            double exact[MOST_SIZE], decoded[MOST_SIZE], bound;
            float row[MOST_SIZE], back[MOST_SIZE];
            struct guard guard = guard_alloc(bytes);
            uint8_t *codes = guard.data;

            for (int64_t i = 0; i < format.size; i++)
                row[i] = random_signed(&seed) * (round % 4 == 0 ? 1e-20f : round % 4 == 1 ? 1e20f : 3);
            row[round % format.size] *= 50;
            for (int64_t i = 0; i < format.size; i++)
                exact[i] = (double)row[i];
            KERNEL_BEST(cache_loops)->encode_own(&format, row, codes);
            KERNEL_BEST(cache_loops)->decode(&format, codes, NULL, 0, back);
            for (int64_t i = 0; i < format.size; i++)
                decoded[i] = scale_of(&format, codes) * code_of(&format, codes, i);
            bound = norm_of(exact, format.size) * (sqrt((double)format.size) / (format.bits == 8 ? 254 : 8) + 1e-5);
            for (int64_t i = 0; i < format.size; i++) {
                const double want = rotated(decoded, format.size, i);

                if (!(fabs(want - exact[i]) <= bound) || !(fabs((double)back[i] - want) <= 1e-5 * bound * 254))
                    fail_msg("%d bits, size %lld, element %lld: %g, decoded %g, by definition %g, bound %g",
                             format.bits, (long long)format.size, (long long)i, exact[i], (double)back[i], want, bound);
            }
            guard_free(&guard);
        }
}

static void unusual_rows(void **state)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };

    (void)state;
    for (int bits = 4; bits <= 8; bits += 4) {
        const cache_format format = { .size = 32, .bits = bits, .own = true };
        float row[32], back[32];
        uint8_t codes[64];

        for (int b = 0; b < 4; b++) {
            for (int i = 0; i < 32; i++)
                row[i] = b < 3 ? (float)i : b == 3 ? 1e-36f : 0;
            if (b < 3)
                row[7] = bad[b];
            KERNEL_BEST(cache_loops)->encode_own(&format, row, codes);
            KERNEL_BEST(cache_loops)->decode(&format, codes, NULL, 0, back);
            for (int i = 0; i < 32; i++)
                assert_true(b < 3 ? isnan(back[i]) : back[i] == 0);
        }
    }
}

/* The codes of ONNX Runtime's GroupQueryAttention: the nearest, ties to even, within the range. */
static void given_scales(void **state)
{
    uint64_t seed = 2;

    (void)state;
    for (int n = 0; n < 2 * SIZES; n++) {
        const cache_format format = { .size = sizes[n / 2], .bits = n % 2 ? 4 : 8 };
        const int least = format.bits == 8 ? -128 : -8, most = format.bits == 8 ? 127 : 7;
        const size_t bytes = (size_t)cache_row_bytes(&format);
        float row[MOST_SIZE], scales[MOST_SIZE], inverse[MOST_SIZE], back[MOST_SIZE];
        struct guard guard = guard_alloc(bytes);
        uint8_t *codes = guard.data;

        for (int64_t i = 0; i < format.size; i++) {
            scales[i] = i % 5 == 4 ? 0.5f : 0.01f + fabsf(random_signed(&seed));
            row[i] = random_signed(&seed) * 1.5f * (float)most * scales[i];
            if (i % 5 == 4) /* a tie */
                row[i] = 0.25f + 0.5f * (float)(i % 7 - 3);
            if (i % 11 == 10)
                row[i] = NAN;
            inverse[i] = 1 / scales[i];
        }
        KERNEL_BEST(cache_loops)->encode(&format, row, inverse, codes);
        KERNEL_BEST(cache_loops)->decode(&format, codes, scales, 1, back);
        for (int64_t i = 0; i < format.size; i++) {
            const double exact = nearbyint((double)(row[i] * inverse[i]));
            const int want = isnan(exact) ? most : exact < least ? least : exact > most ? most : (int)exact;

            assert_int_equal(code_of(&format, codes, i), want);
            assert_float_equal(back[i], (float)want * scales[i], 0);
        }
        if (format.bits == 4 && format.size % 2 == 1)
            assert_int_equal(codes[format.size / 2] >> 4, 8);
        guard_free(&guard);
    }
}

/* Rows of random codes at a page that cannot be read, `gap` bytes apart. */
struct problem {
    cache_rows rows;
    uint8_t *data;
    struct guard guard;
};

static struct problem make_problem(cache_format format, int64_t count, int64_t gap, uint64_t *seed)
{
    const int64_t row = cache_row_bytes(&format);
    struct problem problem = { .rows = { .format = format, .stride = row + gap },
                               .guard = guard_alloc((size_t)(count * row + (count - 1) * gap)) };

    problem.rows.data = problem.data = problem.guard.data;
    for (int64_t t = 0; t < count; t++) {
        uint8_t *codes = problem.data + t * (row + gap);
        const float scale = 0.01f + fabsf(random_signed(seed));

        for (int64_t i = 0; i < row; i++)
            codes[i] = (uint8_t)(int)(128 + 127.9f * random_signed(seed));
        if (format.own)
            memcpy(codes + cache_code_bytes(&format), &scale, sizeof scale);
    }
    return problem;
}

/* Element i of a query or result in the order of codes. */
static int64_t place(const cache_format *format, int64_t i)
{
    return format->bits == 8 ? i : i / 2 + i % 2 * cache_code_bytes(format);
}

static void products(void **state)
{
    static const int64_t counts[] = { 1, 2, 5, 15, 16, 17, 40, 127, 128, 129, MOST_ROWS };
    static float queries[MOST_QUERIES][MOST_SIZE + 1], weights[MOST_QUERIES][MOST_ROWS], got[MOST_QUERIES][MOST_ROWS];
    static float sums[MOST_QUERIES][MOST_SIZE + 1];
    uint64_t seed = 3;

    (void)state;
    for (int n = 0; n < 4 * SIZES; n++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const cache_format format = { .size = sizes[n / 4], .bits = n % 2 ? 4 : 8, .own = n / 2 % 2 == 1 };
            const int64_t asked = 1 + (int64_t)(c + (size_t)n) % MOST_QUERIES, count = counts[c];
            struct problem problem = make_problem(format, count, n % 3 * 5, &seed);

            memset(queries, 0, sizeof queries);
            for (int64_t r = 0; r < asked; r++) {
                for (int64_t i = 0; i < format.size; i++)
                    queries[r][place(&format, i)] = random_signed(&seed);
                for (int64_t t = 0; t < count; t++)
                    weights[r][t] = fabsf(random_signed(&seed));
            }
            KERNEL_BEST(cache_loops)->dots(&problem.rows, count, queries[0], MOST_SIZE + 1, asked, got[0], MOST_ROWS);
            KERNEL_BEST(cache_loops)->sums(&problem.rows, count, weights[0], MOST_ROWS, asked, sums[0], MOST_SIZE + 1);
            for (int64_t r = 0; r < asked; r++) {
                for (int64_t t = 0; t < count; t++) {
                    const uint8_t *row = problem.data + t * problem.rows.stride;
                    const double scale = format.own ? scale_of(&format, row) : 1;
                    double want = 0, size = 0;

                    for (int64_t i = 0; i < format.size; i++) {
                        const double term = scale * code_of(&format, row, i) * (double)queries[r][place(&format, i)];

                        want += term;
                        size += fabs(term);
                    }
                    if (!(fabs((double)got[r][t] - want) <= 4e-6 * size))
                        fail_msg("%d bits, size %lld, %lld rows, dot %lld %lld: %g, not %g", format.bits,
                                 (long long)format.size, (long long)count, (long long)r, (long long)t,
                                 (double)got[r][t], want);
                }
                for (int64_t i = 0; i < format.size; i++) {
                    double want = 0, size = 0;

                    for (int64_t t = 0; t < count; t++) {
                        const uint8_t *row = problem.data + t * problem.rows.stride;
                        const double term = (format.own ? scale_of(&format, row) : 1) * code_of(&format, row, i) *
                                            (double)weights[r][t];

                        want += term;
                        size += fabs(term);
                    }
                    if (!(fabs((double)sums[r][place(&format, i)] - want) <= 8e-6 * size))
                        fail_msg("%d bits, size %lld, %lld rows, sum %lld %lld: %g, not %g", format.bits,
                                 (long long)format.size, (long long)count, (long long)r, (long long)i,
                                 (double)sums[r][place(&format, i)], want);
                }
            }
            guard_free(&problem.guard);
        }
}

/* A query has the same products alone as together with others, bit for bit. */
static void independent_queries(void **state)
{
    const cache_format format = { .size = 64, .bits = 8, .own = true };
    static float queries[MOST_QUERIES][64], all[MOST_QUERIES][MOST_ROWS], alone[MOST_ROWS];
    uint64_t seed = 4;
    struct problem problem = make_problem(format, MOST_ROWS, 0, &seed);

    (void)state;
    for (int r = 0; r < MOST_QUERIES; r++)
        for (int i = 0; i < 64; i++)
            queries[r][i] = random_signed(&seed);
    KERNEL_BEST(cache_loops)->dots(&problem.rows, MOST_ROWS, queries[0], 64, MOST_QUERIES, all[0], MOST_ROWS);
    for (int r = 0; r < MOST_QUERIES; r++) {
        KERNEL_BEST(cache_loops)->dots(&problem.rows, MOST_ROWS, queries[r], 64, 1, alone, MOST_ROWS);
        assert_memory_equal(alone, all[r], sizeof alone);
    }
    guard_free(&problem.guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_scales), cmocka_unit_test(unusual_rows),        cmocka_unit_test(given_scales),
        cmocka_unit_test(products),   cmocka_unit_test(independent_queries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
