/* Saved plans: followed exactly without querying costs, and rejected with a message if they do not fit. */
#include "text_buffer.h"
#include "world.h"
#include <jansson.h>
#include <unistd.h>

static char path[] = "/tmp/inlay_plan_XXXXXX";

static void write_file(const char *data)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(data, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static uint32_t cost_calls(const struct world *world)
{
    uint32_t calls = 0;

    for (uint32_t p = 0; p < WORLD_PROVIDERS; p++)
        calls += world->fakes[p].cost_calls;
    return calls;
}

static partition_job job_of(struct world *world)
{
    return (partition_job){ .request = world->request, .path = "", .arena = &world->arena, .out = &world->out };
}

static void save_and_load(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 50; round++) {
        world_mix mix = { .nodes = 30,
                          .providers = 3,
                          .devices = true,
                          .sizes = true,
                          .gaps = true,
                          .groups = true,
                          .merge = true,
                          .odd = true };
        struct partition chosen, again;
        uint32_t calls;
        partition_job job;
        struct text_buffer plan_text = { 0 };
        struct world world;

        world_random(&world, &mix);
        job = job_of(&world);
        assert_int_equal(partition_all(&job, 1, NULL), INLAY_OK);
        chosen = world.out;
        assert_int_equal(partition_plan_save(&job, 1, text_buffer_append, &plan_text, NULL), INLAY_OK);
        write_file(plan_text.data);
        text_buffer_free(&plan_text);
        calls = cost_calls(&world);
        world.rules.saved_plan = path;
        world.rules.by_priority = true; /* the plan takes precedence */
        assert_int_equal(partition_all(&job, 1, NULL), INLAY_OK);
        assert_int_equal(cost_calls(&world), calls);
        assert_string_equal(world.log[0] == '\0' || strstr(world.log, "made with") == NULL ? "" : world.log, "");
        world_check(&world, &world.out);
        assert_int_equal(world.out.region_count, chosen.region_count);
        assert_float_equal(world.out.cost_ns, chosen.cost_ns, 1e-6 * chosen.cost_ns);
        for (uint32_t offer = 0; offer < chosen.offer_count; offer++)
            assert_int_equal(world.out.offers[offer].chosen, chosen.offers[offer].chosen);
        /* For the alternatives of a report, costs are queried nevertheless. */
        world.rules.saved_plan = NULL;
        world.rules.by_priority = false;
        assert_int_equal(partition_again(&world.request, &world.out, &world.arena, &again, NULL), INLAY_OK);
        assert_float_equal(again.cost_ns, chosen.cost_ns, 1e-6 * chosen.cost_ns);
        world_deinit(&world);
    }
}

/* An error in a plan names file, node and provider, and the differing setting if the plan was made with another one. */
static void plans_that_do_not_fit(void **state)
{
    static const struct {
        const char *plan, *says;
        inlay_status code;
    } rows[] = {
        { "{", "line 1", INLAY_INVALID_ARGUMENT },
        { "[]", "is not a plan of format", INLAY_INVALID_ARGUMENT },
        { "{\"inlay_plan\": 2, \"graphs\": []}", "of format 1", INLAY_INVALID_ARGUMENT },
        { "{\"inlay_plan\": 1, \"threads\": 1, \"graphs\": []}",
          "node 'n0' of graph 'main' is not in the "
          "plan",
          INLAY_INVALID_ARGUMENT },
        { "{\"inlay_plan\": 1, \"threads\": 7, \"graphs\": []}", "made with threads 7, now 1", INLAY_INVALID_ARGUMENT },
        { "{\"inlay_plan\": 1, \"threads\": 1, \"graphs\": [{\"graph\": \"\", \"hash\": \"12\", \"offers\": "
          "[{\"provider\": \"p0\", \"nodes\": [\"gone\"]}]}]}",
          "node 'gone' of graph 'main' is not in the model; the plan was made with model 12, now ",
          INLAY_INVALID_ARGUMENT },
        { "{\"inlay_plan\": 1, \"threads\": 1, \"graphs\": [{\"graph\": \"\", \"offers\": [{\"provider\": "
          "\"p1\", \"nodes\": [\"n1\"]}]}]}",
          "node 'n1' of graph 'main' is not offered by p1, which says: not my type", INLAY_INVALID_ARGUMENT },
        { "{\"inlay_plan\": 1, \"threads\": 1, \"graphs\": [{\"graph\": \"\", \"offers\": [{\"provider\": "
          "\"p7\", \"nodes\": [\"n1\"]}]}]}",
          "p7, which says: it is not in use", INLAY_INVALID_ARGUMENT },
        { "{\"inlay_plan\": 1, \"threads\": 1, \"graphs\": [{\"graph\": \"\", \"offers\": [{\"provider\": "
          "\"p0\", \"nodes\": [\"n0\", \"n1\"]}]}]}",
          "does not offer these nodes together", INLAY_INVALID_ARGUMENT },
        { "{\"inlay_plan\": 1, \"threads\": 1, \"graphs\": [{\"graph\": \"\", \"offers\": [{\"provider\": "
          "\"p0\", \"nodes\": [\"n0\"]}, {\"provider\": \"p0\", \"nodes\": [\"n0\"]}]}]}",
          "node 'n0' of graph 'main' is assigned twice", INLAY_INVALID_ARGUMENT },
        { "{\"inlay_plan\": 1, \"threads\": 1, \"graphs\": [{\"graph\": \"\", \"offers\": [{\"provider\": "
          "\"p0\", \"nodes\": []}, 7, {}]}]}",
          "without nodes", INLAY_INVALID_ARGUMENT },
        { "{\"inlay_plan\": 1, \"threads\": 1, \"graphs\": [{\"graph\": \"\", \"offers\": [{\"provider\": "
          "\"p1\", \"nodes\": [\"n0\"]}, {\"provider\": \"p0\", \"nodes\": [\"n1\"]}]}]}",
          "gives node 'n0' of graph 'main' to p1, against pin, forbid or no_cpu", INLAY_INVALID_ARGUMENT },
        { NULL, "option plan", INLAY_NOT_FOUND },
    };
    static const uint32_t reads[] = { INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE,
                                      0,          INLAY_NONE, INLAY_NONE, INLAY_NONE };
    static const node_rule keep_out = { "n0", "p1" };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        partition_job job;
        inlay_status status;
        struct world world;

        world_init(&world, 2, reads, NULL, 2);
        for (uint32_t n = 0; n < 2; n++)
            (void)world_offer(&world, 0, 100, 0, 1, &n);
        (void)world_offer(&world, 1, 100, 0, 1, &(uint32_t){ 0 });
        world.fakes[1].refused = 1;
        world.rules.saved_plan = rows[i].plan != NULL ? path : "/nowhere/at/all";
        world.rules.forbids = &keep_out;
        world.rules.forbid_count = 1;
        if (rows[i].plan != NULL)
            write_file(rows[i].plan);
        job = job_of(&world);
        status = partition_all(&job, 1, &diag);
        if (status != rows[i].code || strstr(diag.text, rows[i].says) == NULL)
            fail_msg("row %zu: status %d: %s", i, (int)status, diag.text);
        world_deinit(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(save_and_load), cmocka_unit_test(plans_that_do_not_fit) };
    int file = mkstemp(path), failed;

    if (file < 0)
        return 1;
    (void)close(file);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
