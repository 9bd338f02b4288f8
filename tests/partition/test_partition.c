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

/* An offer that sets a reserved field, or one of its placements does, is ignored; the others are valid. */
static void reserved_fields(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING };
    struct world world;

    (void)state;
    world_init(&world, 1, reads, NULL, 1);
    world_offer(&world, 0, 1, 0, 1, (uint32_t[]){ 0 })->reserved = 1;
    world_offer(&world, 0, 2, 0, 1, (uint32_t[]){ 0 })->placement =
        (inlay_placement){ .value = world.made[0], .domain = INLAY_DOMAIN_HOST, .reserved = 1 };
    add_single(&world, 0, 10, 0, 0);
    partition_and_check(&world);
    assert_int_equal(world.out.offer_count, 1);
    assert_true(world.out.offers[0].cost.ns == 10);
    assert_non_null(strstr(world.log, "it sets a reserved field"));
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
        { { 7 }, 1, 0, { .value = INLAY_NONE }, "not below the node count" },
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

/* A plugin is not asked about nodes with element types that are newer than the ABI that it was built for. */
static void newer_element_types(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, READS(0), READS_NOTHING };
    static const inlay_dtype types[] = { INLAY_BFLOAT16, INLAY_DTYPE_COUNT }; /* bfloat16 is new in minor 1 */
    const dtype_history released = partition_dtypes;

    (void)state;
    for (uint32_t minor = 0; minor < 2; minor++) {
        struct world world;
        uint32_t refused = 0;

        world_init(&world, 3, reads, NULL, 2);
        world.graph->values[world.made[1]].info.dtype = INLAY_BFLOAT16;
        world.providers[0].abi_minor = minor;
        world.providers[1].abi_minor = 2; /* newer than the host: it knows all types */
        for (uint32_t n = 0; n < 3; n++) {
            add_single(&world, 0, 100, 0, n);
            add_single(&world, 1, 1000, 0, n);
        }
        partition_dtypes = (dtype_history){ types, 2 };
        world_partition(&world);
        partition_dtypes = released;
        world_check(&world, &world.out);
        for (uint32_t i = 0; i < world.out.region_count; i++)
            assert_int_equal(world.out.regions[i].provider, minor == 0 && world.out.regions[i].nodes[0] == 1);
        for (uint32_t i = 0; i < world.out.refusal_count; i++)
            refused += world.out.refusals[i].node == 1 && world.out.refusals[i].provider == 0 &&
                       strstr(world.out.refusals[i].text, "before this element type existed") != NULL;
        assert_int_equal(refused, minor == 0);
        world_deinit(&world);
    }
}

/* Partitions the world; returns the sizes of the regions as text. */
static const char *sizes_of_regions(struct world *world)
{
    static char text[128];
    size_t used = 0;

    world_partition(world);
    for (uint32_t i = 0; i < world->out.region_count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%u ", world->out.regions[i].node_count);
    return text;
}

/* The regions of `nodes` nodes of one mergeable provider with the same limits. */
static const char *limited_regions(uint32_t nodes, const uint32_t *reads, const fake_offer *limits)
{
    const char *text;
    struct world world;

    world_init(&world, nodes, reads, NULL, 1);
    for (uint32_t n = 0; n < nodes; n++) {
        fake_offer *offer = world_offer(&world, 0, 100, INLAY_OFFER_MERGE, 1, &n);

        offer->max_nodes = limits->max_nodes;
        offer->max_inputs = limits->max_inputs;
        offer->max_outputs = limits->max_outputs;
        offer->max_resident = limits->max_resident;
        offer->resident = limits->resident;
    }
    text = sizes_of_regions(&world);
    world_check(&world, &world.out);
    world_deinit(&world);
    return text;
}

/* A region that exceeds a limit of its offers is divided. */
static void regions_keep_limits(void **state)
{
    static const uint32_t fan[] = { READS_NOTHING, READS(0), READS(0), READS(0), READS(0), 1, 2, 3, 4 };
    static const uint32_t halves[] = { READS_NOTHING, READS_NOTHING, READS(0), READS(1) };
    uint32_t chain[40 * 4];

    (void)state;
    memset(chain, 0xff, sizeof chain);
    for (uint32_t n = 1; n < 40; n++)
        chain[n * 4] = n - 1;
    assert_string_equal(limited_regions(40, chain, &(fake_offer){ .max_nodes = 0 }), "40 ");
    assert_string_equal(limited_regions(40, chain, &(fake_offer){ .max_nodes = 16 }), "16 16 8 ");
    assert_string_equal(limited_regions(40, chain, &(fake_offer){ .max_inputs = 1, .max_outputs = 1 }), "40 ");
    assert_string_equal(limited_regions(40, chain, &(fake_offer){ .max_resident = 100, .resident = 6 }), "16 16 8 ");
    /* The results of four nodes are read by the fifth: the region has one output again. */
    assert_string_equal(limited_regions(6, fan, &(fake_offer){ .max_outputs = 1 }), "6 ");
    assert_string_equal(limited_regions(6, fan, &(fake_offer){ .max_outputs = 1, .max_nodes = 5 }), "1 5 ");
    /* Two chains: a region of both has two outputs. */
    assert_string_equal(limited_regions(4, halves, &(fake_offer){ .max_outputs = 2 }), "4 ");
    assert_string_equal(limited_regions(4, halves, &(fake_offer){ .max_outputs = 1 }), "1 1 1 1 ");
}

/* Nodes that read constants alone, and a node that reads their results, stay in one region. Their constants, of 1 MB
 * each, count as the weights of this node. */
static void weights_stay_with_their_readers(void **state)
{
    static const uint32_t reads[] = {
        READS_NOTHING,                                     /* 0, in a region of its own */
        READS_NOTHING, READS_NOTHING, 0, 1, 2, INLAY_NONE, /* 1 to 3 */
        READS_NOTHING, READS_NOTHING, 3, 4, 5, INLAY_NONE, /* 4 to 6 */
        READS_NOTHING, READS_NOTHING, 6, 7, 8, INLAY_NONE, /* 7 to 9 */
    };
    static const struct {
        uint64_t most;
        const char *sizes;
    } rows[] = { { 1, "1 3 3 3 " }, { 2, "1 3 3 3 " }, { 3, "1 3 3 3 " }, { 4, "1 6 3 " }, { 6, "1 9 " } };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct world world;
        inlay_value_info *constant;

        world_init(&world, 10, reads, NULL, 1);
        constant = &world.graph->values[world.graph->inputs[0]].info;
        constant->flags |= INLAY_VALUE_CONSTANT;
        constant->data_bytes = 1 << 20;
        for (uint32_t n = 0; n < 10; n++)
            add_single(&world, 0, 100, n > 0 ? INLAY_OFFER_MERGE : 0, n);
        world.rules.max_weight_bytes = rows[row].most << 20;
        assert_string_equal(sizes_of_regions(&world), rows[row].sizes);
        world_deinit(&world);
    }
}

/* An offer that exceeds its own limits is ignored: node 1 reads two values. */
static void offers_beyond_their_limits(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING, 0, INLAY_NONE, INLAY_NONE, INLAY_NONE };
    struct world world;

    (void)state;
    world_init(&world, 2, reads, NULL, 2);
    add_single(&world, 0, 100, 0, 0);
    add_single(&world, 0, 100, 0, 1);
    world.fakes[0].offers[1].resident = 20;
    world.fakes[0].offers[1].max_resident = 10;
    add_single(&world, 1, 1000, 0, 1);
    world_partition(&world);
    world_check(&world, &world.out);
    assert_int_equal(world.out.regions[1].provider, 1);
    assert_non_null(strstr(world.log, "it exceeds its own limits, at node 'n1'"));
    world_deinit(&world);
}

/* A provider prices the region that was formed; the graph is assigned again with that price. */
static void regions_have_prices(void **state)
{
    static const struct {
        double factor;
        uint32_t provider; /* the provider that runs all nodes in the end */
        double ns;         /* the total */
    } rows[] = {
        { -1, 0, 360 }, { 1, 0, 360 }, { 0.5, 0, 180 }, { 0, 0, 0 }, { 2, 1, 400 }, { 1e6, 1, 400 },
    };
    static const uint32_t reads[] = { READS_NOTHING, READS(0), READS(1), READS(2) };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        struct world world;

        world_init(&world, 4, reads, NULL, 2);
        for (uint32_t n = 0; n < 4; n++) {
            add_single(&world, 0, 90, INLAY_OFFER_MERGE, n);
            add_single(&world, 1, 100, INLAY_OFFER_MERGE, n);
        }
        world_price_regions(&world, 0, rows[row].factor);
        world_partition(&world);
        world_check(&world, &world.out);
        assert_int_equal(world.out.region_count, 1);
        assert_int_equal(world.out.regions[0].provider, rows[row].provider);
        assert_float_equal(world.out.cost_ns, rows[row].ns, 1e-9);
        assert_int_equal(world.fakes[0].region_calls, 2); /* once for each number of threads */
        for (uint32_t i = 0; i < world.out.offer_count; i++)
            assert_int_equal(world.out.offers[i].region_price,
                             world.out.offers[i].provider == 0 && rows[row].factor >= 0 && rows[row].factor != 1);
        world_deinit(&world);
    }
}

/* Nodes are taken out of another provider's region at a guess only if they are cheaper by the factor within which it is
 * trusted. */
static void doubtful_gains_divide_no_region(void **state)
{
    static const struct {
        uint32_t confidence, flags;
        double ns; /* of the newcomer, for nodes that take 90 ns in the region */
        bool divides;
    } rows[] = {
        { INLAY_CONFIDENCE_MODEL, 0, 80, true },
        { INLAY_CONFIDENCE_GUESS, 0, 40, false },
        { INLAY_CONFIDENCE_GUESS, 0, 25, true },
        { INLAY_CONFIDENCE_MEASURED, 0, 80, true },
        { INLAY_CONFIDENCE_MODEL, INLAY_PROVIDER_REFERENCE_CORE, 60, true },
        { INLAY_CONFIDENCE_GUESS, INLAY_PROVIDER_REFERENCE_CORE, 40, false },
    };
    static const uint32_t reads[] = { READS_NOTHING, READS(0), READS(1), READS(2), READS(3) };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        struct world world;

        world_init(&world, 5, reads, NULL, 2);
        world.fakes[1].confidence = rows[row].confidence;
        world.fakes[1].table.flags = rows[row].flags;
        for (uint32_t n = 0; n < 5; n++)
            add_single(&world, 0, 90, INLAY_OFFER_MERGE, n);
        add_single(&world, 1, rows[row].ns, 0, 1);
        add_single(&world, 1, rows[row].ns, 0, 3);
        world_partition(&world);
        world_check(&world, &world.out);
        assert_int_equal(world.out.region_count, rows[row].divides ? 5 : 1);
        assert_int_equal(world.out.regions[0].provider, 0);
        for (uint32_t i = 0; i < world.out.offer_count; i++)
            assert_int_equal(world.out.offers[i].kept_whole, !rows[row].divides && (i == 1 || i == 3));
        world_deinit(&world);
    }
}

/* Providers of one place are compared by price alone, and do not change each other's margins. */
static void a_provider_of_the_same_place_changes_no_margin(void **state)
{
    static const uint32_t reads[] = { READS_NOTHING };

    (void)state;
    for (uint32_t count = 2; count < 4; count++) {
        struct world world;

        world_init(&world, 1, reads, NULL, count);
        add_single(&world, 0, 100, 0, 0);
        add_single(&world, count - 1, 60, 0, 0);
        world.providers[count - 1].place = 3;
        if (count > 2) { /* guesses have a larger error than models */
            world.fakes[1].confidence = INLAY_CONFIDENCE_GUESS;
            world.providers[1].place = 3;
            add_single(&world, 1, 61, 0, 0);
        }
        world_partition(&world);
        assert_int_equal(world.out.regions[0].provider, count - 1);
        world_deinit(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connected_regions),
        cmocka_unit_test(reserved_fields),
        cmocka_unit_test(constants_are_placed_with_consumers),
        cmocka_unit_test(newer_element_types),
        cmocka_unit_test(regions_keep_limits),
        cmocka_unit_test(weights_stay_with_their_readers),
        cmocka_unit_test(offers_beyond_their_limits),
        cmocka_unit_test(regions_have_prices),
        cmocka_unit_test(doubtful_gains_divide_no_region),
        cmocka_unit_test(a_provider_of_the_same_place_changes_no_margin),
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
