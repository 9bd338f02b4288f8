/* bench_partition - CPU time of the partitioner on random graphs: medians of the choice (from collected offers) and of
 * all steps. */
#include "../partition/world.h"
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 7 };

static double launch;
double __wrap_cost_launch_ns(const cost_book *book, const partition_provider *provider);
double __wrap_cost_launch_ns(const cost_book *book, const partition_provider *provider)
{
    (void)book;
    (void)provider;
    return launch;
}

static double now_ms(void)
{
    struct timespec timespec;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &timespec);
    return (double)timespec.tv_sec * 1e3 + (double)timespec.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void measure(const char *name, const world_mix *mix, double launch_ns)
{
    double whole[ROUNDS], choice[ROUNDS];
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t offers = 0;

    launch = launch_ns;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct partition again;
        double start;
        struct world world;

        world_random(&world, mix);
        start = now_ms();
        world_partition(&world);
        whole[i] = now_ms() - start;
        start = now_ms();
        assert_int_equal(partition_again(&world.request, &world.out, &world.arena, &again, &diag), INLAY_OK);
        choice[i] = now_ms() - start;
        offers = world.out.offer_count;
        world_deinit(&world);
    }
    qsort(whole, ROUNDS, sizeof *whole, by_size);
    qsort(choice, ROUNDS, sizeof *choice, by_size);
    printf("%-44s %6u nodes %u providers %6u offers: choice %8.2f ms, with collecting %8.2f ms\n", name, mix->nodes,
           mix->providers, offers, choice[ROUNDS / 2], whole[ROUNDS / 2]);
}

int main(void)
{
    static const uint32_t sizes[] = { 200, 2000, 10000 };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t n = sizes[i];
        measure("one provider", &(world_mix){ .nodes = n, .providers = 1 }, 0);
        measure("host memory only", &(world_mix){ .nodes = n, .providers = 5, .gaps = true }, 0);
        measure("devices", &(world_mix){ .nodes = n, .providers = 5, .devices = true, .sizes = true, .gaps = true }, 0);
        measure("devices, many groups",
                &(world_mix){ .nodes = n, .providers = 5, .devices = true, .sizes = true, .groups = true }, 0);
        measure("devices, launches",
                &(world_mix){ .nodes = n, .providers = 5, .devices = true, .sizes = true, .merge = true }, 5000);
        measure("devices, groups, launches, placements",
                &(world_mix){ .nodes = n,
                              .providers = 5,
                              .devices = true,
                              .sizes = true,
                              .merge = true,
                              .groups = true,
                              .odd = true,
                              .gaps = true },
                5000);
    }
    return 0;
}
