/* Local times (inlay_cost.local_ns) by a fixed speed of this machine: half of the reference core. */
#include "base/core_speed.h"
#include "compare.h"
#include "partition/cost/cost.h"
#include "session/session.h"

/* Opens a session of the script on cpu alone, with one thread. */
static struct rig open_script(const char *script)
{
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    return rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "intra_threads", "1", NULL });
}

/* The factor from the price of the only chosen offer to its time on this machine. */
static double local_factor(const char *script)
{
    struct rig rig = open_script(script);
    const struct partition *parts = &rig.session->main->parts;
    double factor = 0;

    for (uint32_t i = 0; i < parts->offer_count; i++) {
        const partition_offer *offer = &parts->offers[i];
        const partition_provider *provider = &rig.session->providers[offer->provider];

        if (!offer->chosen)
            continue;
        assert_string_equal(provider->name, "cpu");
        assert_true(factor == 0 && offer->cost.local_ns > 0);
        factor = displayed_time_factor(provider, offer->cost_source, &offer->cost);
        assert_true(fabs(factor * offer->cost.ns - offer->cost.local_ns) < 1e-6 * offer->cost.local_ns);
        assert_true(cost_local_ns(&offer->cost) == offer->cost.local_ns);
    }
    rig_close(&rig);
    return factor;
}

/* With half of the multipliers, multiplications take less than twice as long, because they come closer to their limit.
 * Calls and moves take as long as on the reference core. */
static void multiplications_are_scaled(void **state)
{
    const double gemm = local_factor("a : 512,512\nb : 512,512\ny = MatMul(a, b)\n-> y"),
                 conv = local_factor("x : 1,64,56,56\nw = [64,64,1,1]\ny = Conv(x, w)\n-> y"),
                 move = local_factor("x : 64,512\ny = Concat(x, x) axis=1\n-> y");

    (void)state;
    assert_true(gemm > 1.5 && gemm < 1.75);
    assert_true(conv > 1.2 && conv < 1.75);
    assert_true(fabs(move - 1) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(multiplications_are_scaled) };
    /* of each level half of the reference core */
    const inlay_speed slow = { .struct_size = sizeof slow,
                               .flops_baseline = 40,
                               .flops_v3 = 80,
                               .flops_v4 = 160,
                               .core_bytes = 1000,
                               .near_bytes = 100 };

    core_speed_use(&slow);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
