/* Checks the memory plan for random lifetimes and for sequences of layers as in real models. */
#include "cmocka_all.h"
#include "random.h"
#include "plan/layout/memory.h"
#include <stdlib.h>

static uint64_t rounded(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

static void place_and_check(memory_item *items, uint32_t count, uint32_t steps, uint64_t alignment, double slack)
{
    struct arena scratch = { 0 };
    uint64_t slab = 1, bound = 1, end = 0, alive, most = 0;

    assert_true(memory_place(items, count, steps, alignment, &scratch, &slab, &bound));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(items[i].offset % alignment, 0);
        if (items[i].offset + items[i].bytes > end)
            end = items[i].offset + items[i].bytes;
        for (uint32_t k = 0; k < i; k++) {
            bool together = items[i].first <= items[k].last && items[k].first <= items[i].last;
            bool apart = items[i].offset + items[i].bytes <= items[k].offset ||
                         items[k].offset + items[k].bytes <= items[i].offset;
            assert_true(!together || apart || items[i].bytes == 0 || items[k].bytes == 0);
        }
    }
    for (uint32_t s = 0; s <= steps; s++) {
        alive = 0;
        for (uint32_t i = 0; i < count; i++)
            if (items[i].first <= s && s <= items[i].last)
                alive += rounded(items[i].bytes, alignment);
        most = alive > most ? alive : most;
    }
    assert_int_equal(bound, most);
    assert_true(slab >= bound && slab >= end);
    assert_true((double)slab <= (double)bound * slack);
    arena_deinit(&scratch);
}

static void random_lifetimes(void **state)
{
    uint64_t seed = 1;
    memory_item items[60];

    (void)state;
    for (int round = 0; round < 400; round++) {
        uint32_t count = (uint32_t)random_below(&seed, 60), steps = 1 + (uint32_t)random_below(&seed, 30);
        uint64_t alignment = (uint64_t)1 << random_below(&seed, 13);

        for (uint32_t i = 0; i < count; i++) {
            uint32_t first = (uint32_t)random_below(&seed, steps);
            items[i] = (memory_item){ .bytes = random_below(&seed, round % 3 == 0 ? 100 : 1000000),
                                      .first = first,
                                      .last = first + (uint32_t)random_below(&seed, steps - first + 1) };
            if (random_below(&seed, 10) == 0)
                items[i].bytes = 0;
        }
        place_and_check(items, count, steps, alignment, 3);
    }
}

/* Layers of decreasing sizes, as in a convolutional network; each result is alive until the next layer has read it,
 * and every third until a skip connection reads it. */
static void chains_with_skips(void **state)
{
    memory_item items[120];

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        for (uint32_t i = 0; i < 120; i++)
            items[i] = (memory_item){ .bytes = (kind == 0 ? 1 : 1 + (119 - i) / 20) * 400000u,
                                      .first = i,
                                      .last = kind == 2 && i % 3 == 0 && i < 117 ? i + 3 : i + 1 };
        place_and_check(items, 120, 121, 64, 1.05);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_lifetimes), cmocka_unit_test(chains_with_skips) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
