/* Prices by a fixed speed of this machine: half of the reference core. */
#include "base/core_speed.h"
#include "inlay/extensions.h"
#include "compare.h"
#include "partition/cost/cost.h"
#include "session/session.h"

/* Matrix multiplications of the reference core, relative to the float operations of this one. */
#define REFERENCE_RATE (2 * 250.0 / 320)

/* Opens a session of the script on cpu alone, with one thread. */
static struct rig open_script(const char *script)
{
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    return rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "intra_threads", "1", NULL });
}

/* The operations per nanosecond of one thread, by the price of the only chosen offer, relative to those that the
 * reference core does at this instruction level. */
static double relative_rate(const char *script)
{
    struct rig rig = open_script(script);
    const struct partition *parts = &rig.session->main->parts;
    double rate = 0;

    for (uint32_t i = 0; i < parts->offer_count; i++) {
        const partition_offer *offer = &parts->offers[i];

        if (!offer->chosen)
            continue;
        assert_string_equal(rig.session->providers[offer->provider].name, "cpu");
        assert_true(rate == 0 && offer->cost.ns > 0);
        /* one thread takes more than 1.5 times as long as two, and the mean is compared */
        assert_true(offer->threads_factor > 1.2 && offer->threads_factor <= 4 / 3.0);
        rate = offer->cost.flops / offer->cost.ns / offer->threads_factor / (REFERENCE_RATE * core_flops());
    }
    rig_close(&rig);
    return rate;
}

/* With half of the multipliers, multiplications take less than twice as long, because they come closer to their
 * limit. */
static void multiplications_are_scaled(void **state)
{
    const double gemm = relative_rate("a : 512,512\nb : 512,512\ny = MatMul(a, b)\n-> y"),
                 conv = relative_rate("x : 1,64,56,56\nw = [64,64,1,1]\ny = Conv(x, w)\n-> y");

    (void)state;
    assert_true(gemm > 1 / 1.75 && gemm < 1 / 1.5);
    assert_true(conv > 1 / 2.2 && conv < 1 / 1.2);
}

/* Weights of 50 MB come from memory: the least time of each provider's offer. */
static void no_price_is_below_its_roof(void **state)
{
    struct wire wire = { 0 };
    struct rig rig;
    const struct partition *parts;
    const struct program *program;
    const double least = 4.0 * 4096 * 3072 / (2 * 10); /* two threads at 10 bytes per nanosecond */

    (void)state;
    script_model(&wire, 17, "x : 1,4096\nw = [4096,3072]\ny = MatMul(x, w)\n-> y");
    rig = rig_open(&wire, (const char *const[]){ "providers", "cpu,openblas?,reference", "intra_threads", "2", NULL });
    program = rig.session->main;
    parts = &program->parts;
    assert_true(parts->offer_count > 1);
    for (uint32_t i = 0; i < parts->offer_count; i++) {
        const partition_provider *provider = &rig.session->providers[parts->offers[i].provider];
        const cost_question question = { .graph = &program->snapshot,
                                         .provider = provider,
                                         .offer = &parts->offers[i],
                                         .values = parts->profile,
                                         .max_threads = 2,
                                         .weight_bytes = parts->weight_bytes };
        const inlay_cost stated = { .ns = 1, .bytes_read = UINT32_MAX };

        assert_true(cost_roof_ns(&question, &stated) >= least);
        assert_true(parts->offers[i].cost.ns >= least);
    }
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(multiplications_are_scaled),
                                        cmocka_unit_test(no_price_is_below_its_roof) };
    /* of each level half of the reference core */
    const inlay_speed slow = { .struct_size = sizeof slow,
                               .flops_baseline = 40,
                               .flops_v3 = 80,
                               .flops_v4 = 160,
                               .core_bytes = 1000,
                               .near_bytes = 100,
                               .memory_bytes = 10 };

    core_speed_use(&slow);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
