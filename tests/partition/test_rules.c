/* The user's rules, one by one: the choice under each rule, and the messages for rules that cannot be met. */
#include "world.h"
#include "partition/cost/cost.h"

static const uint32_t CHAIN[] = {
    INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE, 0, INLAY_NONE, INLAY_NONE, INLAY_NONE,
    1,          INLAY_NONE, INLAY_NONE, INLAY_NONE, 2, INLAY_NONE, INLAY_NONE, INLAY_NONE
};

/* Nodes n0 (Even) .. n3 (Odd) in a chain. p0 runs all of them at 100 to 103 ns; p1 runs all except n3 at 1 ns per
 * node. Each value is one float. With cheap links p1 works in host memory; otherwise it runs nothing, because copies
 * are expensive. */
static void chain(struct world *world, bool cheap_links)
{
    world_init(world, 4, CHAIN, (const int64_t[]){ 1, 1, 1, 1 }, 2);
    if (!cheap_links)
        world_device(world, 1);
    for (uint32_t n = 0; n < 4; n++) {
        (void)world_offer(world, 0, 100 + n, INLAY_OFFER_MERGE, 1, &n);
        if (n < 3)
            world_offer(world, 1, 1, INLAY_OFFER_MERGE, 1, &n)->resident = 1000;
    }
    world->fakes[1].refused = 3;
    world->fakes[1].table.device_kind = INLAY_DEVICE_GPU;
}

/* Returns the provider of each node, as in "0110". */
static const char *assignment(const struct world *world)
{
    static char text[WORLD_PROVIDERS * 8];

    for (uint32_t i = 0; i < world->out.region_count; i++)
        for (uint32_t k = 0; k < world->out.regions[i].node_count; k++)
            text[world->out.regions[i].nodes[k]] = (char)('0' + world->out.regions[i].provider);
    text[world->node_count] = '\0';
    return text;
}

struct row {
    node_rule pins[2], forbids[2];
    const char *requires;
    partition_limit limit;
    uint32_t max_partitions;
    bool no_cpu, priority, linked;
    bool unnamed;      /* p1: its device is a CPU's driver, and no option names the provider */
    const char *want;  /* the assignment, or */
    inlay_status code; /* the expected failure ... */
    const char *says;  /* ... and a part of its message */
};

static const struct row rows[] = {
    { .want = "0000" },
    { .linked = true, .want = "1110" },
    { .linked = true, .priority = true, .want = "0000" },
    /* pins */
    { .pins = { { "n1", "p1" } }, .want = "1110" },
    { .pins = { { "n?", "p0" } }, .linked = true, .want = "0000" },
    { .pins = { { "op:Even", "p0" } }, .linked = true, .want = "0100" },
    { .pins = { { "n1", "p0" }, { "n[12]", "p1" } }, .want = "0010" },
    { .pins = { { "n3", "p1" } },
      .code = INLAY_UNSUPPORTED,
      .says = "p1 does not run Odd node 'n3' of graph 'main': not my type" },
    { .pins = { { "n1", "p2" } },
      .code = INLAY_INVALID_ARGUMENT,
      .says = "provider 'p2' is not in use; did you mean 'p" },
    { .pins = { { "m1", "p1" } },
      .code = INLAY_INVALID_ARGUMENT,
      .says = "no node of the optimised model matches 'm1'; did you mean 'n1'?" },
    { .pins = { { "op:Evn", "p1" } }, .code = INLAY_INVALID_ARGUMENT, .says = "did you mean 'op:Even'?" },
    { .pins = { { "n1", "p1" } },
      .forbids = { { "op:Odd", "p1" } },
      .code = INLAY_UNSUPPORTED,
      .says = "forbid keeps it out" },
    /* forbids */
    { .forbids = { { "*", "p1" } }, .linked = true, .want = "0000" },
    { .forbids = { { "n1", "p1" } }, .linked = true, .want = "1010" },
    { .forbids = { { "n3", "p0" } },
      .code = INLAY_UNSUPPORTED,
      .says = "p0 says: forbid keeps it out; p1 says: not my type" },
    { .forbids = { { "nope", "p0" } }, .code = INLAY_INVALID_ARGUMENT, .says = "option forbid: no node" },
    /* no_cpu */
    { .no_cpu = true, .code = INLAY_UNSUPPORTED, .says = "p0 says: no_cpu keeps it out; p1 says: not my type" },
    { .no_cpu = true, .forbids = { { "n1", "p1" } }, .code = INLAY_UNSUPPORTED, .says = "; nor 1 other node: 'n3'" },
    /* require */
    { .requires = "p1", .want = "1110" },
    { .requires = "p1", .linked = true, .want = "1110" },
    { .requires = "p1",
      .forbids = { { "*", "p1" } },
      .code = INLAY_UNSUPPORTED,
      .says = "require: provider p1 runs nothing of the model; of Odd node 'n3' it says: not my type" },
    { .requires = "p9", .code = INLAY_INVALID_ARGUMENT, .says = "option require: provider 'p9' is not in use" },
    /* providers that no option names */
    { .unnamed = true, .linked = true, .want = "0000" },
    { .unnamed = true, .linked = true, .pins = { { "n1", "p1" } }, .want = "0100" },
    { .unnamed = true, .linked = true, .requires = "p1", .want = "1110" },
    { .unnamed = true,
      .forbids = { { "n1", "p0" } },
      .code = INLAY_UNSUPPORTED,
      .says = "p1 says: a CPU emulates its device" },
    /* max_partitions */
    { .max_partitions = 1, .linked = true, .want = "0000" },
    { .max_partitions = 2, .linked = true, .want = "1110" },
    { .max_partitions = 2, .pins = { { "n1", "p0" } }, .linked = true, .want = "1000" },
    { .max_partitions = 1,
      .pins = { { "n1", "p1" } },
      .linked = true,
      .code = INLAY_LIMIT_EXCEEDED,
      .says = "needs 2 partitions, the limit is 1" },
    /* memory */
    { .limit = { "p1", 2100 }, .linked = true, .want = "0110" },
    { .limit = { "p1", 10 }, .linked = true, .want = "0000" },
    { .limit = { "p1", 1000 },
      .pins = { { "n1", "p1" } },
      .linked = true,
      .code = INLAY_LIMIT_EXCEEDED,
      .says = "provider p1 lacks 4 bytes" },
    { .limit = { "p7", 10 }, .code = INLAY_INVALID_ARGUMENT, .says = "option memory_limit: provider 'p7'" },
};

static void set_rules(struct world *world, const struct row *row)
{
    world->rules = (partition_rules){ .by_priority = row->priority,
                                      .pins = row->pins,
                                      .forbids = row->forbids,
                                      .max_partitions = row->max_partitions,
                                      .no_cpu = row->no_cpu };
    while (world->rules.pin_count < 2 && row->pins[world->rules.pin_count].pattern != NULL)
        world->rules.pin_count++;
    while (world->rules.forbid_count < 2 && row->forbids[world->rules.forbid_count].pattern != NULL)
        world->rules.forbid_count++;
    world->rules.requires = &row->requires;
    world->rules.require_count = row->requires != NULL;
    world->rules.limits = &row->limit;
    world->rules.limit_count = row->limit.provider != NULL;
}

static inlay_status partition_graph_of(struct world *world, inlay_diag *diag)
{
    partition_job job = { .request = world->request, .path = "", .arena = &world->arena, .out = &world->out };

    return partition_all(&job, 1, diag);
}

static void rules_one_by_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;
        struct world world;

        chain(&world, rows[i].linked);
        set_rules(&world, &rows[i]);
        world.providers[1].unnamed = rows[i].unnamed;
        status = partition_graph_of(&world, &diag);
        if (status != rows[i].code)
            fail_msg("row %zu: status %d: %s", i, (int)status, diag.text);
        if (status == INLAY_OK) {
            world_check(&world, &world.out);
            if (strcmp(assignment(&world), rows[i].want) != 0)
                fail_msg("row %zu: %s, not %s", i, assignment(&world), rows[i].want);
        } else if (strstr(diag.text, rows[i].says) == NULL) {
            fail_msg("row %zu: the message is '%s'", i, diag.text);
        }
        world_deinit(&world);
    }
}

/* Two graphs of one session: rules apply to both together. */
static void rules_over_two_graphs(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *required = "p1";
    partition_limit limit = { "p1", 4500 };
    partition_job jobs[2];
    struct world world[2];

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        chain(&world[i], true);
        world[i].request.rules = &world[0].rules;
        jobs[i] = (partition_job){
            .request = world[i].request, .path = i == 0 ? "" : "n.body", .arena = &world[i].arena, .out = &world[i].out
        };
    }
    jobs[1].request.providers = world[0].providers; /* the session's providers */
    world[0].rules.max_partitions = 3;
    assert_int_equal(partition_all(jobs, 2, &diag), INLAY_OK);
    assert_true(world[0].out.partition_count + world[1].out.partition_count <= 3);
    world[0].rules.max_partitions = 1;
    assert_int_equal(partition_all(jobs, 2, &diag), INLAY_LIMIT_EXCEEDED);
    assert_non_null(strstr(diag.text, "2 graphs"));
    world[0].rules.max_partitions = 0;
    world[0].rules.limits = &limit;
    world[0].rules.limit_count = 1;
    assert_int_equal(partition_all(jobs, 2, &diag), INLAY_OK);
    assert_true(world[0].out.memory[1].resident_bytes + world[0].out.memory[1].peak_bytes +
                    world[1].out.memory[1].resident_bytes + world[1].out.memory[1].peak_bytes <=
                limit.bytes);
    assert_string_equal(assignment(&world[0]), "1110");
    assert_string_equal(assignment(&world[1]), "0010");
    world[0].rules.limit_count = 0;
    world[0].rules.by_priority = true; /* p1 would not be chosen */
    world[0].rules.requires = &required;
    world[0].rules.require_count = 1;
    assert_int_equal(partition_all(jobs, 2, &diag), INLAY_OK);
    assert_true(strchr(assignment(&world[0]), '1') != NULL || strchr(assignment(&world[1]), '1') != NULL);
    world_deinit(&world[0]);
    world_deinit(&world[1]);
}

/* A later provider must be cheaper by more than the uncertainty of the prices; the more certain they are, the
 * smaller the required gain. */
static void noise_changes_nothing(void **state)
{
    static const struct {
        uint32_t first, second; /* confidence of the prices */
        double ns;
        uint32_t want;
    } cases[] = { { INLAY_CONFIDENCE_GUESS, INLAY_CONFIDENCE_GUESS, 820, 0 },
                  { INLAY_CONFIDENCE_GUESS, INLAY_CONFIDENCE_GUESS, 790, 1 },
                  { INLAY_CONFIDENCE_GUESS, INLAY_CONFIDENCE_MODEL, 820, 0 },
                  { INLAY_CONFIDENCE_MODEL, INLAY_CONFIDENCE_GUESS, 820, 0 },
                  { INLAY_CONFIDENCE_MODEL, INLAY_CONFIDENCE_MODEL, 990, 0 },
                  { INLAY_CONFIDENCE_MODEL, INLAY_CONFIDENCE_MODEL, 970, 1 },
                  { INLAY_CONFIDENCE_MEASURED, INLAY_CONFIDENCE_MODEL, 990, 0 },
                  /* A provider's claim that it has measured counts as much as its model. */
                  { INLAY_CONFIDENCE_MEASURED, INLAY_CONFIDENCE_MEASURED, 990, 0 },
                  { INLAY_CONFIDENCE_MEASURED, INLAY_CONFIDENCE_MEASURED, 970, 1 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t node = 0;
        struct world world;

        world_init(&world, 1, CHAIN, NULL, 2);
        world.fakes[0].confidence = cases[i].first;
        world.fakes[1].confidence = cases[i].second;
        (void)world_offer(&world, 0, 1000, 0, 1, &node);
        (void)world_offer(&world, 1, cases[i].ns, 0, 1, &node);
        world_partition(&world);
        assert_int_equal(world.out.regions[0].provider, cases[i].want);
        assert_float_equal(world.out.cost_ns, cases[i].want == 1 ? cases[i].ns : 1000, 1e-9); /* without margins */
        world_deinit(&world);
    }
}

/* Compared with an offer that was measured on this machine, an offer without measurements must be cheaper by more
 * than its uncertainty, also if its provider comes first. */
static void measured_offers_win_close_cases(void **state)
{
    static const struct {
        uint32_t first, second; /* COST_* */
        double ns;              /* of the first; the second takes 1000 */
        uint32_t want;
    } cases[] = { { COST_GUESS, COST_GUESS, 900, 0 },      { COST_GUESS, COST_MEASURED, 900, 1 },
                  { COST_GUESS, COST_MEASURED, 790, 0 },   { COST_CLAIMED, COST_MEASURED, 900, 1 },
                  { COST_MODEL, COST_PROFILE, 900, 1 },    { COST_PROFILE, COST_MEASURED, 900, 0 },
                  { COST_MEASURED, COST_MEASURED, 990, 0 } };
    static const double errors[] = {
        [COST_GUESS] = 0.25, [COST_MODEL] = 0.15, [COST_CLAIMED] = 0.15, [COST_PROFILE] = 0.15, [COST_MEASURED] = 0.02
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t node = 0;
        struct partition again;
        struct world world;

        world_init(&world, 1, CHAIN, NULL, 2);
        (void)world_offer(&world, 0, cases[i].ns, 0, 1, &node);
        (void)world_offer(&world, 1, 1000, 0, 1, &node);
        world_partition(&world);
        for (uint32_t offer = 0; offer < 2; offer++) {
            world.out.offers[offer].cost_source = offer == 0 ? cases[i].first : cases[i].second;
            world.out.offers[offer].cost_error = errors[world.out.offers[offer].cost_source];
        }
        assert_int_equal(partition_again(&world.request, &world.out, &world.arena, &again, NULL), INLAY_OK);
        if (again.regions[0].provider != cases[i].want)
            fail_msg("case %zu: provider %u", i, again.regions[0].provider);
        world_deinit(&world);
    }
}

/* Changes that save a negligible part of a run are not made, not even several of them. Larger changes are made,
 * including changes that are negligible alone but not in sum. Dependent changes count as one. */
static void negligible_gains_are_dropped(void **state)
{
    static const struct {
        double large, saves; /* time of one node, and the saving of the others of their 100 ns on provider 1 */
        uint32_t confidence;
        const char *want;
    } cases[] = { { 100000, 30, INLAY_CONFIDENCE_MODEL, "0000" }, /* 90 of 100300 ns; up to 0.1 * 15 % may be given
                                                                   * up */
                  { 1000, 30, INLAY_CONFIDENCE_MODEL, "0111" },
                  { 5000, 30, INLAY_CONFIDENCE_MODEL, "0111" }, /* 75 may be given up, not 90: they are one change */
                  { 100000, 30, INLAY_CONFIDENCE_MEASURED, "0000" },
                  { 30000, 30, INLAY_CONFIDENCE_MEASURED, "0000" },
                  { 30000, 30, INLAY_CONFIDENCE_MODEL, "0000" } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;

        world_init(&world, 4, CHAIN, NULL, 2);
        world.fakes[0].confidence = world.fakes[1].confidence = cases[i].confidence;
        for (uint32_t n = 0; n < 4; n++) {
            (void)world_offer(&world, 0, n == 0 ? cases[i].large : 100, 0, 1, &n);
            (void)world_offer(&world, 1, n == 0 ? cases[i].large : 100 - cases[i].saves, 0, 1, &n);
        }
        world_partition(&world);
        world_check(&world, &world.out);
        assert_string_equal(assignment(&world), cases[i].want);
        world_deinit(&world);
    }
}

/* Among independent changes the smallest are given up, as many as are negligible. */
static void smallest_gains_are_dropped_first(void **state)
{
    static const double first[] = { 10000, 100, 10000, 1000, 10000, 100 };
    static const double second[] = { 10100, 70, 10100, 500, 10100, 70 };
    uint32_t reads[6 * 4];
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 6; n++)
        for (uint32_t i = 0; i < 4; i++)
            reads[n * 4 + i] = n > 0 && i == 0 ? n - 1 : INLAY_NONE;
    world_init(&world, 6, reads, NULL, 2);
    world.fakes[0].confidence = world.fakes[1].confidence = INLAY_CONFIDENCE_MODEL;
    for (uint32_t n = 0; n < 6; n++) {
        (void)world_offer(&world, 0, first[n], 0, 1, &n);
        (void)world_offer(&world, 1, second[n], 0, 1, &n);
    }
    world_partition(&world);
    world_check(&world, &world.out);
    assert_string_equal(assignment(&world), "000100");
    world_deinit(&world);
}

/* A value with several consumers in one domain is copied once; results of the graph are copied to the host; copies
 * between devices go through the host. */
static void copies_are_counted_once(void **state)
{
    static const uint32_t fork[] = { INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE, 0,          INLAY_NONE,
                                     INLAY_NONE, INLAY_NONE, 0,          INLAY_NONE, INLAY_NONE, INLAY_NONE,
                                     1,          2,          INLAY_NONE, INLAY_NONE };
    struct world world;

    (void)state;
    world_init(&world, 4, fork, NULL, 3);
    world_device(&world, 1);
    world_device(&world, 2);
    for (uint32_t n = 0; n < 4; n++)
        (void)world_offer(&world, n == 0 ? 1 : n == 3 ? 0 : 2, 100, 0, 1, &n);
    world_partition(&world);
    world_check(&world, &world.out);
    /* The input to 1; its result to the host, and to 2 for both consumers; both results to the host. */
    assert_int_equal(world.out.copy_count, 5);
    for (uint32_t i = 0; i < world.out.copy_count; i++) {
        const partition_copy *copy = &world.out.copies[i];
        assert_true(copy->from_domain == INLAY_DOMAIN_HOST || copy->to_domain == INLAY_DOMAIN_HOST);
        assert_int_equal(copy->bytes, 64);
        if (copy->value == world.made[0])
            assert_int_equal(copy->to_region, 1);
    }
    world_deinit(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_one_by_one),
        cmocka_unit_test(rules_over_two_graphs),
        cmocka_unit_test(noise_changes_nothing),
        cmocka_unit_test(measured_offers_win_close_cases),
        cmocka_unit_test(negligible_gains_are_dropped),
        cmocka_unit_test(smallest_gains_are_dropped_first),
        cmocka_unit_test(copies_are_counted_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
