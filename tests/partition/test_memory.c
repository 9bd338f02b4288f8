/* Every allocation fails once while a graph with all features is partitioned: an error each time, no crash, no leak,
 * and finally the same choice. */
#include "failing_alloc.h"
#include "world.h"

static void every_allocation(void **state)
{
    static const world_mix mixes[] = {
        { .nodes = 10,
          .providers = 3,
          .devices = true,
          .sizes = true,
          .gaps = true,
          .groups = true,
          .merge = true,
          .odd = true },
        { .nodes = 40, .providers = 3, .devices = true, .sizes = true, .groups = true, .merge = true },
    };

    (void)state;
    for (uint32_t round = 0; round < 4; round++) {
        partition_limit limit;
        partition_job job;
        double best;
        struct world world;

        world_random(&world, &mixes[round % 2]);
        world_partition(&world);
        limit = (partition_limit){ "p1", (world.out.memory[1].resident_bytes + world.out.memory[1].peak_bytes) * 2 / 3 +
                                             4096 };
        if (round >= 2) {
            world.rules.limits = &limit;
            world.rules.limit_count = 1;
            world.rules.max_partitions = world.out.partition_count;
        }
        job = (partition_job){ .request = world.request, .path = "", .arena = &world.arena, .out = &world.out };
        assert_int_equal(partition_all(&job, 1, NULL), INLAY_OK);
        best = world.out.cost_ns;
        for (uint64_t n = 0;; n++) {
            inlay_diag diag = INLAY_DIAG_INIT;
            struct arena arena = { 0 };
            inlay_status status;
            int failed;

            job.arena = &arena;
            failing_alloc_arm(n);
            status = partition_all(&job, 1, &diag);
            failed = failing_alloc_disarm();
            if (failed && status != INLAY_OUT_OF_MEMORY)
                fail_msg("allocation %u: status %d, '%s'", (unsigned)n, (int)status, diag.text);
            if (!failed) {
                assert_int_equal(status, INLAY_OK);
                world_check(&world, &world.out);
                assert_float_equal(world.out.cost_ns, best, 1e-6);
            }
            arena_deinit(&arena);
            if (!failed)
                break;
        }
        world.out = (struct partition){ 0 };
        world_deinit(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_allocation) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
