/* The allocator of the memory that is shared with an isolated provider: allocations never overlap, and all space comes
 * back. */
#include "cmocka_all.h"
#include "remote/heap.h"
#include "random.h"
#include <string.h>

enum { BLOCKS = 64, STEPS = 4000, MAX_PAGES = 40 };

static void allocations_do_not_overlap(void **state)
{
    struct {
        unsigned char *data;
        size_t bytes;
        unsigned char mark;
    } blocks[BLOCKS] = { 0 };
    uint64_t seed = 1;
    isolate_heap heap;

    (void)state;
    assert_int_equal(isolate_heap_init(&heap), 0);
    for (int step = 0; step < STEPS; step++) {
        const size_t i = random_below(&seed, BLOCKS);

        if (blocks[i].data != NULL) {
            for (size_t at = 0; at < blocks[i].bytes; at += 509)
                assert_int_equal(blocks[i].data[at], blocks[i].mark);
            isolate_heap_free(&heap, blocks[i].data, blocks[i].bytes);
            blocks[i].data = NULL;
            continue;
        }
        blocks[i].bytes = (size_t)random_below(&seed, MAX_PAGES * ISOLATE_PAGE);
        blocks[i].mark = (unsigned char)(step + 1);
        blocks[i].data = isolate_heap_alloc(&heap, blocks[i].bytes);
        assert_non_null(blocks[i].data);
        assert_int_equal((uintptr_t)blocks[i].data % ISOLATE_PAGE, 0);
        assert_true(isolate_heap_contains(&heap, blocks[i].data, blocks[i].bytes));
        memset(blocks[i].data, blocks[i].mark, blocks[i].bytes);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        isolate_heap_free(&heap, blocks[i].data, blocks[i].bytes);
    assert_int_equal(heap.free_count, 1);
    assert_int_equal(heap.free[0].bytes, heap.bytes);
    assert_null(isolate_heap_alloc(&heap, heap.bytes + 1));
    isolate_heap_deinit(&heap);
}

static void arenas_return_their_space(void **state)
{
    isolate_heap heap;
    isolate_arena arena = { .heap = &heap };

    (void)state;
    assert_int_equal(isolate_heap_init(&heap), 0);
    for (size_t bytes = 0; bytes < 300000; bytes = bytes * 3 + 1) {
        char *data = isolate_arena_alloc(&arena, bytes);

        assert_non_null(data);
        assert_int_equal((uintptr_t)data % 64, 0);
        memset(data, 1, bytes);
    }
    assert_null(isolate_arena_alloc(&arena, heap.bytes + 1));
    assert_true(arena.failed);
    isolate_arena_deinit(&arena);
    assert_int_equal(heap.free_count, 1);
    assert_int_equal(heap.free[0].bytes, heap.bytes);
    isolate_heap_deinit(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(allocations_do_not_overlap),
                                        cmocka_unit_test(arenas_return_their_space) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
