/* strided.c - strided copies, compared with a plain loop over indexes: random shapes, permutations, repeats and
 * reversals of elements of every size; packing of sub-byte elements. Source and target end at a guard page. */
#include "guard.h"
#include "random.h"
#include "operators/strided.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t seed = 5;

static void fill_random(void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((char *)data)[i] = (char)random_between(&seed, 0, 255);
}

/* Computes random strides of a dense tensor with permuted axes, some of them repeated or reversed. *first is the offset
 * of the first element. */
static void random_steps(uint32_t rank, const int64_t *dims, int64_t element, int64_t *steps, int64_t *first)
{
    int64_t perm[6], permuted[6], dense[6];

    *first = 0;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i;
    for (uint32_t i = rank; i-- > 1 && random_between(&seed, 0, 2) > 0;) {
        const int64_t j = random_between(&seed, 0, i), swap = perm[i];
        perm[i] = perm[j];
        perm[j] = swap;
    }
    for (uint32_t i = 0; i < rank; i++)
        permuted[perm[i]] = dims[i];
    strided_row_major(rank, permuted, element, dense);
    for (uint32_t i = 0; i < rank; i++) {
        steps[i] = random_between(&seed, 0, 6) == 0 ? 0 : dense[perm[i]];
        if (random_between(&seed, 0, 6) == 0) {
            *first += steps[i] * (dims[i] > 0 ? dims[i] - 1 : 0);
            steps[i] = -steps[i];
        }
    }
}

static void check_random_copy(void)
{
    const uint32_t element = 1u << random_between(&seed, 0, 4), rank = (uint32_t)random_between(&seed, 0, 5);
    const kit_call call = { .max_threads = 1 };
    int64_t dims[6], from[6], to[6], count = 1, first;
    strided_plan plan;
    strided_walk walk;
    struct guard in, out;
    char *want;

    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = random_between(&seed, 0, 9) == 0    ? random_between(&seed, 17, 70)
                  : random_between(&seed, 0, 40) == 0 ? 0
                                                      : random_between(&seed, 1, 5);
        count *= dims[i];
    }
    if (count > 100000)
        return;
    random_steps(rank, dims, element, from, &first);
    strided_row_major(rank, dims, element, to);
    in = guard_alloc((size_t)count * element);
    out = guard_alloc((size_t)count * element);
    want = malloc((size_t)count * element + 1);
    assert_non_null(want);
    fill_random(in.data, (size_t)count * element);
    strided_plan_init(&plan, element, rank, dims, from, to);
    if (plan.outer > 0 && random_between(&seed, 0, 1) == 1)
        plan.chunk = random_between(&seed, 1, plan.chunk); /* as if split among threads */
    assert_int_equal(strided_copy(&call, &plan, (char *)in.data + first, out.data), INLAY_OK);
    strided_walk_init(&walk, rank, dims, from, to);
    for (int64_t i = 0; i < count; i++, strided_walk_next(&walk))
        memcpy(want + walk.offset[1], (char *)in.data + first + walk.offset[0], element);
    assert_memory_equal(out.data, want, (size_t)count * element);
    free(want);
    guard_free(&in);
    guard_free(&out);
}

static void test_copies(void **state)
{
    (void)state;
    for (int i = 0; i < 6000; i++)
        check_random_copy();
}

static void test_seek(void **state)
{
    const int64_t dims[] = { 3, 4, 5 }, steps[] = { 20, -5, 1 };
    strided_walk a, b;

    (void)state;
    strided_walk_init(&a, 3, dims, steps, NULL);
    for (int64_t i = 0; i < 60; i++, strided_walk_next(&a)) {
        strided_walk_init(&b, 3, dims, steps, NULL);
        strided_walk_seek(&b, i);
        assert_int_equal(a.offset[0], b.offset[0]);
    }
}

static void test_packing(void **state)
{
    static const inlay_dtype types[] = { INLAY_UINT4, INLAY_INT4, INLAY_FLOAT4E2M1, INLAY_UINT2, INLAY_INT2 };

    (void)state;
    for (size_t type = 0; type < sizeof types / sizeof types[0]; type++) {
        for (int64_t count = 0; count < 19; count++) {
            struct guard packed = guard_alloc((size_t)kit_bytes(types[type], count)),
                         bytes = guard_alloc((size_t)count);
            struct guard again = guard_alloc((size_t)count);

            for (int64_t i = 0; i < count; i++)
                ((uint8_t *)bytes.data)[i] =
                    (uint8_t)random_between(&seed, 0, (1 << inlay_dtype_bits(types[type])) - 1);
            strided_pack(types[type], bytes.data, count, packed.data);
            strided_unpack(types[type], packed.data, count, again.data);
            assert_memory_equal(bytes.data, again.data, (size_t)count);
            guard_free(&packed);
            guard_free(&bytes);
            guard_free(&again);
        }
    }
}

/* Fills around the size that is filled element by element, of equal and of different bytes. */
static void test_fills(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        const uint32_t element = 1u << random_between(&seed, 0, 4);
        const int64_t count = random_between(&seed, 0, round % 2 != 0 ? 300 : 12288 / element);
        struct guard target = guard_alloc((size_t)count * element);
        char value[16];

        fill_random(value, sizeof value);
        if (round % 3 == 0)
            memset(value, value[0], sizeof value);
        strided_fill(target.data, value, element, count);
        for (int64_t i = 0; i < count; i++)
            assert_memory_equal((char *)target.data + i * element, value, element);
        guard_free(&target);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_seek),
        cmocka_unit_test(test_packing),
        cmocka_unit_test(test_fills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
