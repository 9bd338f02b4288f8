/* Attention whose products are those of terms (attend_terms.c), over tiles in plain C: compared with sums in double and
 * with the kernels of floats, with masks, shared keys, any number of threads, and numbers without terms. */
#include "cmocka_all.h"
#include "cpu/attention/attend.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 3;

/* A mask: none, one row of -10000 for some keys, one row for each query with -infinity, or later keys hidden by the
 * operator. */
enum mask { NONE, ROW, SQUARE, CAUSAL };

struct sizes {
    int64_t batch, heads, key_heads, queries, keys, size, value_size;
    enum mask mask;
    float spread; /* of the scores */
};

struct problem {
    struct sizes of;
    struct attend attend;
    struct call call;
    float *q, *k, *v, *mask, *y;
};

static float *some(int64_t count, float scale)
{
    float *x = aligned_alloc(64, (size_t)(count + 16) / 16 * 64);

    assert_non_null(x);
    for (int64_t i = 0; i < count; i++)
        x[i] = scale * (random_signed(&seed) + random_signed(&seed));
    return x;
}

/* The layout [batch][row][head][size] of models with Transposes around the operator. */
static struct strides rows_of(int64_t heads, int64_t rows, int64_t size)
{
    return (struct strides){ .batch = rows * heads * size, .head = size, .row = heads * size };
}

static void setup(struct problem *p, const struct sizes *of)
{
    const int64_t q = of->batch * of->heads * of->queries, k = of->batch * of->key_heads * of->keys;

    *p = (struct problem){ .of = *of,
                           .q = some(q * of->size, of->spread),
                           .k = some(k * of->size, 1),
                           .v = some(k * of->value_size, 1),
                           .mask = some(of->queries * of->keys, 1),
                           .y = some(q * of->value_size, 1) };
    for (int64_t i = 0; i < of->queries * of->keys; i++)
        if (i % of->keys % 3 == 1 || (of->mask == SQUARE && random_below(&seed, 4) == 0))
            p->mask[i] = of->mask == ROW ? -10000 : -INFINITY;
    p->attend = (struct attend){ .kernel = sgemm_kernel_best(),
                                 .batch = of->batch,
                                 .heads = of->heads,
                                 .shared = of->heads / of->key_heads,
                                 .queries = of->queries,
                                 .keys = of->keys,
                                 .size = of->size,
                                 .value_size = of->value_size,
                                 .q = rows_of(of->heads, of->queries, of->size),
                                 .k = rows_of(of->key_heads, of->keys, of->size),
                                 .v = rows_of(of->key_heads, of->keys, of->value_size),
                                 .y = rows_of(of->heads, of->queries, of->value_size),
                                 .mask = { .there = of->mask == ROW || of->mask == SQUARE,
                                           .query = of->mask == SQUARE ? of->keys : 0 },
                                 .query_scale = 1 / sqrtf((float)of->size),
                                 .scale = 1,
                                 .reach = of->keys,
                                 .causal = of->mask == CAUSAL };
    p->call = (struct call){
        .attend = &p->attend, .q = p->q, .k = p->k, .v = p->v, .mask = p->attend.mask.there ? p->mask : NULL
    };
}

static void teardown(struct problem *p)
{
    free(p->q), free(p->k), free(p->v), free(p->mask), free(p->y);
}

/* The result in *y, computed for `threads` threads in ranges of random sizes, from the last one to the first. */
static void run(struct problem *p, bool keys, bool values, uint32_t threads, float *y)
{
    int64_t count, end;

    p->attend.key_terms = keys ? &terms_c : NULL;
    p->attend.value_terms = values ? &terms_c : NULL;
    attend_plan(&p->attend, threads, false);
    p->call.scratch = some(p->attend.worker_floats * p->attend.workers, 100);
    p->call.output = y;
    count = p->attend.batch * p->attend.heads * p->attend.blocks;
    for (end = count; end > 0;) {
        const int64_t begin = end - 1 - random_below(&seed, (uint32_t)end);

        assert_int_equal(attend_range(&p->call, begin, end, random_below(&seed, threads)), INLAY_OK);
        end = begin;
    }
    free(p->call.scratch);
}

/* The result in double for one query of one head; size: the mean magnitude of the values by their weights. */
static double *result_of(const struct problem *p, int64_t batch, int64_t head, int64_t query, double *size)
{
    const struct sizes *of = &p->of;
    const int64_t kv = head / (of->heads / of->key_heads);
    const float *q = p->q + batch * p->attend.q.batch + head * p->attend.q.head + query * p->attend.q.row,
                *k = p->k + batch * p->attend.k.batch + kv * p->attend.k.head,
                *v = p->v + batch * p->attend.v.batch + kv * p->attend.v.head;
    const int64_t visible = of->mask == CAUSAL && query + 1 < of->keys ? query + 1 : of->keys;
    double *scores = calloc((size_t)of->keys, sizeof *scores), *out = calloc((size_t)of->value_size, sizeof *out),
           top = -INFINITY, sum = 0;

    assert_true(scores != NULL && out != NULL);
    for (int64_t t = 0; t < visible; t++) {
        for (int64_t i = 0; i < of->size; i++)
            scores[t] += (double)(q[i] * p->attend.query_scale) * (double)k[t * p->attend.k.row + i];
        if (p->attend.mask.there)
            scores[t] += (double)p->mask[query * p->attend.mask.query + t];
        top = fmax(top, scores[t]);
    }
    *size = 0;
    for (int64_t t = 0; t < visible; t++)
        sum += scores[t] = exp(scores[t] - top);
    for (int64_t t = 0; t < visible; t++)
        for (int64_t i = 0; i < of->value_size; i++) {
            const double x = scores[t] / sum * (double)v[t * p->attend.v.row + i];

            out[i] += x;
            *size += fabs(x) / (double)of->value_size;
        }
    free(scores);
    return out;
}

struct error {
    double most, mean; /* relative to the magnitudes of the sum */
    double of_top;     /* relative to the largest result */
};

static struct error error_of(const struct problem *p, const float *y)
{
    const struct sizes *of = &p->of;
    struct error out = { 0 };
    double top = 0, most = 0;

    for (int64_t i = 0; i < of->batch * of->heads * of->queries; i++) {
        const int64_t batch = i / of->queries / of->heads, head = i / of->queries % of->heads, query = i % of->queries;
        const float *got = y + batch * p->attend.y.batch + head * p->attend.y.head + query * p->attend.y.row;
        double size, *want = result_of(p, batch, head, query, &size);

        for (int64_t j = 0; j < of->value_size; j++) {
            const double error = isfinite(want[j]) && isfinite(got[j]) ? fabs((double)got[j] - want[j])
                                 : isnan(want[j]) == isnan(got[j])     ? 0
                                                                       : INFINITY;

            top = fmax(top, fabs(want[j]));
            most = fmax(most, error);
            out.most = fmax(out.most, size > 0 ? error / size : error);
            out.mean += size > 0 ? error / size : 0;
        }
        free(want);
    }
    out.mean /= (double)(of->batch * of->heads * of->queries * of->value_size);
    out.of_top = most / top;
    return out;
}

static int64_t results(const struct sizes *of)
{
    return of->batch * of->heads * of->queries * of->value_size;
}

/* The documented bounds: 1e-5 of the largest result, and 16 times the error of plain sums; on average the error is that
 * of plain sums. The same bits by one to four threads. */
static void sizes(void **state)
{
    static const struct sizes cases[] = {
        { 1, 1, 1, 200, 40, 64, 64, CAUSAL, 1 }, { 1, 2, 1, 65, 65, 64, 64, NONE, 1 },
        { 2, 2, 2, 20, 35, 32, 32, ROW, 1 },     { 1, 2, 1, 33, 33, 96, 96, SQUARE, 1 },
        { 1, 1, 1, 33, 100, 128, 128, ROW, 1 },  { 1, 1, 1, 1, 1, 32, 32, NONE, 1 },
        { 1, 3, 1, 31, 33, 128, 64, CAUSAL, 4 }, { 1, 1, 1, 70, 31, 33, 20, CAUSAL, 1 },
        { 1, 1, 1, 10, 900, 32, 40, ROW, 1 },    { 1, 1, 1, 30, 200, 64, 64, NONE, 20 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int way = 1; way < 5; way++) { /* by terms: scores, values, both; and both, strict */
            const struct sizes *of = &cases[i];
            const bool keys = way != 2, values = way > 1;
            struct problem p;
            struct error got, floats;
            float *bits = some(results(of), 1);

            setup(&p, of);
            p.attend.strict = way == 4;
            run(&p, false, false, 1, p.y);
            floats = error_of(&p, p.y);
            run(&p, keys, values, 1, bits);
            assert_true(memcmp(bits, p.y, (size_t)results(of) * sizeof *bits) != 0 || of->keys < 3);
            got = error_of(&p, bits);
            if (!(got.of_top <= 1e-5 && got.most <= 16 * floats.most + 1e-7 && got.mean <= 2.5 * floats.mean + 1e-8))
                fail_msg("case %zu, way %d: error %.2g, mean %.2g, of the largest %.2g; float sums %.2g, mean %.2g", i,
                         way, got.most, got.mean, got.of_top, floats.most, floats.mean);
            for (uint32_t threads = 2; threads <= (way != 3 ? 1U : i == 0 ? 4U : 2U); threads++) {
                run(&p, keys, values, threads, p.y);
                assert_memory_equal(bits, p.y, (size_t)results(of) * sizeof *bits);
            }
            free(bits);
            teardown(&p);
        }
}

/* Numbers that have no terms, in queries, keys or values: the strips, or the head, are computed by floats; results
 * equal those of floats, also NaN. Element 7 of keys is so small that its product with the largest number is finite.
 * Other heads have the bits that they have without such numbers. */
static void extremes(void **state)
{
    static const float numbers[] = { NAN, INFINITY, -INFINITY, 3.4e38f, 1e30f, 1e-30f };
    static const struct sizes of = { 1, 2, 2, 65, 40, 32, 32, CAUSAL, 0.2f };
    float *before = some(results(&of), 1), *floats = some(results(&of), 1);

    (void)state;
    for (size_t i = 0; i < 3 * sizeof numbers / sizeof numbers[0]; i++) {
        const float number = numbers[i / 3];
        struct problem p;

        if (!random_takes(i))
            continue;
        seed = 77;
        setup(&p, &of);
        p.attend.query_scale = 1;
        for (int64_t j = 0; j < of.keys * of.key_heads; j++)
            p.k[j * of.size + 7] *= 1e-38f;
        run(&p, true, true, 1, before);
        for (int64_t j = 0; j < of.size; j++) { /* of head 1, row 35 */
            const int64_t at = 35 * 2 * of.size + of.size + j;
            float *x = i % 3 == 0 ? p.q + at : i % 3 == 1 ? p.k + at : p.v + at;

            *x = j == 7 ? number : fabsf(number) < 1e-20f ? *x * number : *x;
        }
        run(&p, false, false, 1, floats);
        run(&p, true, true, 1, p.y);
        for (int64_t r = 0; r < results(&of); r++)
            if (r / of.value_size % 2 == 0)
                assert_memory_equal(&p.y[r], &before[r], sizeof *p.y);
            else if (!(isnan(floats[r])   ? isnan(p.y[r])
                       : isinf(floats[r]) ? p.y[r] == floats[r]
                                          : fabsf(p.y[r] - floats[r]) <= 1e-6f * fmaxf(fabsf(floats[r]), 1)))
                fail_msg("%g in operand %zu: element %lld is %g, not %g", (double)number, i % 3, (long long)r,
                         (double)p.y[r], (double)floats[r]);
        teardown(&p);
    }
    free(before), free(floats);
}

/* A NaN in the mask, whose terms would be 0: the results of its query are NaN. */
static void nan_in_mask(void **state)
{
    static const struct sizes of = { 1, 1, 1, 40, 40, 32, 32, SQUARE, 1 };
    const uint32_t bits = INT32_MAX;
    struct problem p;

    (void)state;
    setup(&p, &of);
    memcpy(&p.mask[35 * of.keys + 3], &bits, sizeof bits);
    run(&p, true, true, 1, p.y);
    for (int64_t i = 0; i < results(&of); i++)
        assert_true((isnan(p.y[i]) != 0) == (i / of.value_size == 35));
    teardown(&p);
}

static struct attend chosen(int64_t queries, int64_t keys, int64_t size, double tile_pace)
{
    struct attend attend = {
        .queries = queries, .keys = keys, .reach = keys, .size = size, .value_size = size, .shared = 1
    };

    attend_choose(&attend, &terms_c, tile_pace);
    return attend;
}

/* Terms are chosen by price: for long sequences and large heads, not for few queries, small heads of few keys, heads
 * whose terms exceed the cache, codes, or slow tiles. */
static void choice(void **state)
{
    struct attend attend = chosen(512, 512, 128, 1);

    (void)state;
    assert_true(attend.key_terms == &terms_c && attend.value_terms == &terms_c);
    attend.keys_coded.loops = cpu_cache_loops();
    attend_choose(&attend, &terms_c, 1);
    assert_true(attend.key_terms == NULL && attend.value_terms == NULL);
    attend = chosen(512, 512, 128, 1);
    attend_choose(&attend, NULL, 1);
    assert_true(attend.key_terms == NULL && attend.value_terms == NULL);
    attend = chosen(512, 512, 64, 1);
    assert_true(attend.key_terms != NULL);
    attend = chosen(512, 512, 32, 1);
    assert_true(attend.value_terms == NULL);
    attend = chosen(1, 512, 128, 1);
    assert_true(attend.key_terms == NULL && attend.value_terms == NULL);
    attend = chosen(512, 512, 128, 2);
    assert_true(attend.key_terms == NULL && attend.value_terms == NULL);
    attend = chosen(512, 100000, 128, 1);
    assert_true(attend.key_terms == NULL && attend.value_terms == NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes), cmocka_unit_test(extremes),
                                        cmocka_unit_test(nan_in_mask), cmocka_unit_test(choice) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
