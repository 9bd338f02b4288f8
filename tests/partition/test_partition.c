/* The choice of providers: offers that violate rules, groups that form a cycle only together, ties, priority,
 * refusals. */
#include "world.h"
#include <string.h>

#define READS_NOTHING INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE
#define READS(node) (node), INLAY_NONE, INLAY_NONE, INLAY_NONE

static void add_single(struct world *world, uint32_t provider, double ns, uint32_t flags, uint32_t node)
{
    (void)world_offer(world, provider, ns, flags, 1, &node);
}

static void partition_and_check(struct world *world)
{
    world_partition(world);
    world_check(world, &world->out);
}

/* Each pair is convex, but the pairs depend on each other: only one of them can be chosen. */
static void groups_that_form_a_cycle_together(void **state)
{
    /* a1 -> b1, b2 -> a2; {a1, a2} = {0, 3}, {b1, b2} = {1, 2} */
    static const uint32_t reads[] = { READS_NOTHING, READS(0), READS_NOTHING, READS(2) };
    struct world world;

    (void)state;
    world_init(&world, 4, reads, NULL, 1);
    for (uint32_t n = 0; n < 4; n++)
        add_single(&world, 0, 10, 0, n);
    (void)world_offer(&world, 0, 1, 0, 2, (uint32_t[]){ 0, 3 });
    (void)world_offer(&world, 0, 1, 0, 2, (uint32_t[]){ 1, 2 });
    partition_and_check(&world);
    assert_int_equal(world.out.region_count, 3);
    assert_non_null(strstr(world.log, "cycle"));
    world_deinit(&world);
}

/* Neighbours (0 -> 2, 1 -> 3) that would be merged without the group {0, 3} between them. */
static void group_between_neighbours(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, READS_NOTHING, READS(0), READS(1) };
    struct world world;

    (void)state;
    world_init(&world, 4, reads, NULL, 1);
    for (uint32_t n = 0; n < 4; n++)
        add_single(&world, 0, 10, INLAY_OFFER_MERGE, n);
    (void)world_offer(&world, 0, 1, 0, 2, (uint32_t[]){ 0, 3 });
    partition_and_check(&world);
    assert_int_equal(world.out.region_count, 3);
    world_deinit(&world);
}

/* Node 2 is in one group only: that group is chosen, even if the other is cheaper. */
static void required_group(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, READS(0), READS(1) };
    struct world world;

    (void)state;
    world_init(&world, 3, reads, NULL, 1);
    add_single(&world, 0, 10, 0, 0);
    add_single(&world, 0, 10, 0, 1);
    (void)world_offer(&world, 0, 1, 0, 2, (uint32_t[]){ 0, 1 });
    (void)world_offer(&world, 0, 50, 0, 2, (uint32_t[]){ 1, 2 });
    partition_and_check(&world);
    assert_int_equal(world.out.region_count, 2);
    world_deinit(&world);
}

/* The device is faster, but by less than the cost of copying the input. */
static void groups_pay_for_copies(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, READS(0) };
    struct world world;

    (void)state;
    for (int expensive = 0; expensive < 2; expensive++) {
        world_init(&world, 2, reads, NULL, 2);
        world_device(&world, 1);
        add_single(&world, 0, expensive ? 1000 : 100000, 0, 0);
        add_single(&world, 0, expensive ? 1000 : 100000, 0, 1);
        (void)world_offer(&world, 1, 10, 0, 2, (uint32_t[]){ 0, 1 });
        partition_and_check(&world);
        assert_int_equal(world.out.regions[0].provider, expensive ? 0 : 1);
        world_deinit(&world);
    }
}

static void ties_and_priority(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, READS(0), READS(1) };
    struct world world;

    (void)state;
    for (int priority = 0; priority < 2; priority++) {
        world_init(&world, 3, reads, NULL, 2);
        world.rules.by_priority = priority != 0;
        add_single(&world, 0, 10, 0, 0);
        add_single(&world, 1, 10, 0, 0); /* a tie: the first */
        add_single(&world, 0, 10, 0, 1);
        add_single(&world, 1, 5, 0, 1); /* cheaper: the first only by priority */
        add_single(&world, 1, 5, 0, 2); /* the only offer */
        partition_and_check(&world);
        assert_int_equal(world.out.regions[0].provider, 0);
        assert_int_equal(world.out.regions[1].provider, priority ? 0 : 1);
        assert_int_equal(world.out.regions[2].provider, 1);
        world_deinit(&world);
    }
}

/* By priority, too, a group is chosen if it costs less than its provider's single nodes and displaces no earlier
 * provider. */
static void groups_by_priority(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, READS(0) };
    static const struct {
        double group_ns;
        bool earlier; /* an earlier provider runs the second node */
        uint32_t regions;
    } rows[] = { { 15, false, 1 }, { 25, false, 2 }, { 15, true, 2 } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world world;

        world_init(&world, 2, reads, NULL, 2);
        world.rules.by_priority = true;
        add_single(&world, 1, 10, 0, 0);
        add_single(&world, 1, 10, 0, 1);
        if (rows[i].earlier)
            add_single(&world, 0, 100, 0, 1);
        (void)world_offer(&world, 1, rows[i].group_ns, 0, 2, (uint32_t[]){ 0, 1 });
        partition_and_check(&world);
        assert_int_equal(world.out.region_count, rows[i].regions);
        assert_int_equal(world.out.regions[0].provider, 1);
        world_deinit(&world);
    }
}

/* An offer that violates a rule is discarded with a line in the log; the provider's other offers remain. */
static void invalid_offers_are_discarded(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, READS(0), READS(1) };
    static const struct {
        uint32_t nodes[2], count, flags;
        inlay_placement placement;
        const char *said;
    } rows[] = {
        { { 0 }, 0, 0, { .value = INLAY_NONE }, "no node" },
        { { 7 }, 1, 0, { .value = INLAY_NONE }, "out of range" },
        { { 1, 0 }, 2, 0, { .value = INLAY_NONE }, "ascend" },
        { { 1, 1 }, 2, 0, { .value = INLAY_NONE }, "ascend" },
        { { 1 }, 1, 1u << 9, { .value = INLAY_NONE }, "flag" },
        { { 1 }, 1, 0, { .value = 99 }, "does not exist" },
        { { 1 }, 1, 0, { .value = 1, .domain = 5 }, "domain" },
        { { 0, 2 }, 2, 0, { .value = INLAY_NONE }, "cycle" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world world;

        world_init(&world, 3, reads, NULL, 1);
        world_offer(&world, 0, 0, rows[i].flags, rows[i].count, rows[i].nodes)->placement = rows[i].placement;
        for (uint32_t n = 0; n < 3; n++)
            add_single(&world, 0, 10, 0, n);
        partition_and_check(&world);
        assert_int_equal(world.out.region_count, 3);
        assert_float_equal(world.out.cost_ns, 30, 1e-9);
        if (strstr(world.log, rows[i].said) == NULL)
            fail_msg("row %zu: the log is '%s'", i, world.log);
        world_deinit(&world);
    }
}

/* Reasons of refusals are stored; a missing answer is recorded; and the error for a node that no provider runs
 * quotes all of them. */
static void refusals_are_quoted(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, READS(0) };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct world world;

    (void)state;
    world_init(&world, 2, reads, NULL, 2);
    add_single(&world, 0, 10, 0, 0);
    world.fakes[0].refused = 1;
    assert_int_equal(partition_graph(&world.request, &world.arena, &world.out, &diag), INLAY_UNSUPPORTED);
    assert_int_equal(world.out.refusal_count, 3);
    assert_string_equal(world.out.refusals[0].accepted_if, "insert a Cast");
    assert_non_null(strstr(diag.text, "not my type"));
    assert_non_null(strstr(diag.text, "p1 says: the provider gave no answer"));
    world_deinit(&world);
}

/* The error quotes the providers that have the operator, after the reason why the optimiser kept the node. */
static void refusals_are_chosen(void **state)
{
    static const struct {
        uint32_t codes[2];
        const char *left, *says;
    } rows[] = {
        { { INLAY_REFUSE_OPERATOR, INLAY_REFUSE_DTYPE }, NULL, "of graph 'main': p1 says: not my type" },
        { { INLAY_REFUSE_SHAPE, INLAY_REFUSE_OPERATOR }, NULL, "of graph 'main': p0 says: not my type" },
        { { INLAY_REFUSE_OPERATOR, INLAY_REFUSE_OPERATOR }, NULL, "none of the 2 loaded has a kernel for it" },
        { { INLAY_REFUSE_OPERATOR, INLAY_REFUSE_OPERATOR },
          "its mask has an unknown rank",
          "of graph 'main': the optimiser does not replace it: its mask has an unknown rank" },
        { { INLAY_REFUSE_DTYPE, INLAY_REFUSE_OPERATOR },
          "its mask has an unknown rank",
          "does not replace it: its mask has an unknown rank; p0 says: not my type" },
    };
    static const uint32_t reads[] = { READS_NOTHING };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct world world;

        world_init(&world, 1, reads, NULL, 2);
        for (uint32_t p = 0; p < 2; p++) {
            world.fakes[p].refused = 0;
            world.fakes[p].refused_code = rows[i].codes[p];
        }
        world.graph->nodes[0]->not_lowered = rows[i].left;
        assert_int_equal(partition_graph(&world.request, &world.arena, &world.out, &diag), INLAY_UNSUPPORTED);
        if (strstr(diag.text, rows[i].says) == NULL ||
            (strstr(diag.text, "says") == NULL) != (strstr(rows[i].says, "says") == NULL))
            fail_msg("row %zu: '%s'", i, diag.text);
        world_deinit(&world);
    }
}

/* Two independent chains: one region, or two if an offer requires connected regions. */
static void connected_regions(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, READS_NOTHING, READS(0), READS(1) };

    (void)state;
    for (uint32_t connected = 0; connected < 2; connected++) {
        uint32_t flags = INLAY_OFFER_MERGE | (connected ? INLAY_OFFER_CONNECTED : 0u);
        struct world world;

        world_init(&world, 4, reads, NULL, 1);
        for (uint32_t n = 0; n < 4; n++)
            (void)world_offer(&world, 0, 100, flags, 1, &n);
        world_partition(&world);
        world_check(&world, &world.out);
        assert_int_equal(world.out.region_count, connected ? 2 : 1);
        for (uint32_t i = 0; i < world.out.region_count; i++)
            assert_int_equal(world.out.regions[i].node_count, connected ? 2 : 4);
        world_deinit(&world);
    }
}

/* A node that reads only constants is placed next to its consumer, although it could run first: 0 -> 1 (another
 * provider) -> 3 <- 2. */
static void constants_are_placed_with_consumers(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, READS(0), READS_NOTHING, 1, 2, INLAY_NONE, INLAY_NONE };
    struct world world;

    (void)state;
    for (int constant = 0; constant < 2; constant++) {
        world_init(&world, 4, reads, NULL, 2);
        if (constant)
            world.graph->values[world.graph->inputs[0]].info.flags |= INLAY_VALUE_CONSTANT;
        add_single(&world, 0, 100, INLAY_OFFER_MERGE, 0);
        add_single(&world, 1, 100, INLAY_OFFER_MERGE, 1);
        add_single(&world, 0, 100, INLAY_OFFER_MERGE, 2);
        add_single(&world, 0, 100, INLAY_OFFER_MERGE, 3);
        world_partition(&world);
        if (!constant) /* the check treats a constant as an input of the region */
            world_check(&world, &world.out);
        assert_int_equal(world.out.region_count, 3);
        assert_int_equal(world.out.regions[0].node_count, constant ? 1 : 2);
        assert_int_equal(world.out.regions[2].node_count, constant ? 2 : 1);
        world_deinit(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connected_regions),
        cmocka_unit_test(constants_are_placed_with_consumers),
        cmocka_unit_test(groups_that_form_a_cycle_together),
        cmocka_unit_test(group_between_neighbours),
        cmocka_unit_test(required_group),
        cmocka_unit_test(groups_pay_for_copies),
        cmocka_unit_test(ties_and_priority),
        cmocka_unit_test(groups_by_priority),
        cmocka_unit_test(invalid_offers_are_discarded),
        cmocka_unit_test(refusals_are_quoted),
        cmocka_unit_test(refusals_are_chosen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
