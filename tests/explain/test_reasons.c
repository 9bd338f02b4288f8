/* The reasons of a report: situations of two providers, each with memory limits, pins and policies. The truth about a
 * node comes from a session in which only this node is moved. */
#include "reports.h"
#include <math.h>

enum { REASON_NODES = 5, REASON_OPTIONS = 40 };

struct situation {
    const char *providers, *policy, *limit, *pin, *forbid; /* limit, pin, forbid: or NULL */
    const char *dims;
};

static uint32_t base_options(const struct situation *situation, const char **options)
{
    uint32_t count = 0;
    const char *const pairs[][2] = { { "plugin_dirs", FAKE_DIR },
                                     { "providers", situation->providers },
                                     { "policy", situation->policy },
                                     { "memory_limit", situation->limit },
                                     { "forbid", situation->forbid } };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (uint32_t k = 0; k < 2 && pairs[i][1] != NULL; k++)
            options[count++] = pairs[i][k];
    return count;
}

/* The session in which node `moved` runs on `rival`, and the others where they are. */
static inlay_status move_one(const struct situation *situation, const json_t *nodes, size_t moved, const char *rival,
                             double *out_ns)
{
    const char *options[REASON_OPTIONS] = { NULL };
    char pins[REASON_NODES][64];
    uint32_t count = base_options(situation, options);
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct rig rig;
    inlay_status status;
    json_t *json;

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);

        (void)snprintf(pins[i], sizeof pins[i], "%s=%s", json_string_value(json_object_get(node, "name")),
                       i == moved ? rival : json_string_value(json_object_get(node, "provider")));
        options[count++] = "pin";
        options[count++] = pins[i];
    }
    write_chain(&wire, REASON_NODES, situation->dims);
    status = rig_try_open(&wire, options, &rig, &diag);
    if (status == INLAY_OK) {
        json = explain_json(rig.session, (inlay_explain_options){ 0 });
        *out_ns = number(json, "cost_ns");
        json_decref(json);
    }
    rig_close(&rig);
    return status;
}

/* Returns whether the reason is memory. */
static bool check_reason(const struct situation *situation, const json_t *nodes, size_t at, const json_t *answer,
                         double total_ns)
{
    const char *rival = json_string_value(json_object_get(answer, "provider")), *why;
    const bool is_later = strncmp(situation->providers, rival, strlen(rival)) != 0;
    double alone_ns = 0;
    inlay_status status;

    why = json_string_value(json_object_get(answer, "impossible"));
    if (situation->pin != NULL && at == 2) {
        assert_string_equal(why, "the node is pinned elsewhere");
        return false;
    }
    if (situation->forbid != NULL && at % 2 == 1 && strcmp(rival, "fake") == 0) {
        assert_string_equal(why, "forbid keeps it out");
        return false;
    }
    if (why == NULL)
        why = json_string_value(json_object_get(answer, "why"));
    status = move_one(situation, nodes, at, rival, &alone_ns);
    if (strcmp(situation->policy, "priority") == 0 && is_later) {
        assert_string_equal(why, "policy priority takes the first provider that supports a node");
    } else if (status == INLAY_LIMIT_EXCEEDED) {
        assert_non_null(why);
        assert_non_null(strstr(why, "memory of fake: "));
    } else {
        assert_int_equal(status, INLAY_OK);
        assert_true(why == NULL || strstr(why, "memory of") == NULL);
        assert_true(number(answer, "extra_ns") <= alone_ns - total_ns + 1);
        assert_true(why == NULL || number(answer, "extra_ns") < 0);
    }
    return status == INLAY_LIMIT_EXCEEDED;
}

static void test_reasons(void **state)
{
    static const char *const orders[] = { "fake,reference", "reference,fake" }, *const policies[] = { "cost",
                                                                                                      "priority" };
    static const char *const limits[] = { NULL, "fake=40K", "fake=70K", "fake=1M" };
    static const char *const pins[] = { NULL, "node_2=reference" }, *const dims[] = { "64,64", "512,512" };
    static const char *const forbids[] = { NULL, "op:Neg=fake" };
    uint32_t reasons = 0, memory = 0;

    (void)state;
    for (uint32_t i = 0; i < 128; i++) {
        const struct situation situation = { orders[i % 2],    policies[i / 2 % 2], limits[i / 4 % 4],
                                             pins[i / 16 % 2], forbids[i / 64],     dims[i / 32 % 2] };
        const char *options[REASON_OPTIONS] = { NULL };
        uint32_t count = base_options(&situation, options);
        struct rig rig;
        json_t *all, *json;

        if (situation.pin != NULL) {
            options[count++] = "pin";
            options[count++] = situation.pin;
        }
        rig = chain_of(REASON_NODES, situation.dims, options);
        all = explain_json(rig.session, (inlay_explain_options){ 0 });
        json = explain_json(rig.session, (inlay_explain_options){ .node = "node_*" });
        for (size_t n = 0; n < REASON_NODES; n++) {
            const json_t *nodes = json_object_get(json, "nodes");
            const json_t *answers = json_object_get(json_array_get(nodes, n), "answers");

            for (size_t k = 0; k < json_array_size(answers); k++) {
                const json_t *answer = json_array_get(answers, k);

                if (json_is_true(json_object_get(answer, "chosen")) || json_object_get(answer, "cost_ns") == NULL)
                    continue;
                memory += check_reason(&situation, nodes, n, answer, number(all, "cost_ns"));
                reasons++;
            }
        }
        json_decref(all);
        json_decref(json);
        rig_close(&rig);
    }
    assert_true(reasons >= 400);
    assert_true(memory >= 40);
}

enum { KEPT_NODES = 3, KEPT_STEPS = 16 };
static const char kept_dims[] = "88,88"; /* one thread, so prices as shown are those that are compared */

static uint32_t kept_options(const char *providers, const char *element_ps, const char **options)
{
    const char *const all[] = { "plugin_dirs",     FAKE_DIR,   "providers",    providers,
                                "fake.element_ps", element_ps, "fake.unified", "true" };

    memcpy(options, all, sizeof all);
    return sizeof all / sizeof all[0];
}

/* The cost of the session in which node i runs on the device if bit i of `mask` is set. */
static double pinned_ns(uint64_t element_ps, uint32_t mask)
{
    const char *options[REASON_OPTIONS] = { NULL };
    char pins[KEPT_NODES][32], element[32];
    uint32_t count = kept_options("fake,reference", element, options);
    struct rig rig;
    double ns;
    json_t *json;

    (void)snprintf(element, sizeof element, "%llu", (unsigned long long)element_ps);
    for (uint32_t i = 0; i < KEPT_NODES; i++) {
        (void)snprintf(pins[i], sizeof pins[i], "node_%u=%s", i, (mask >> i & 1) != 0 ? "fake" : "reference");
        options[count++] = "pin";
        options[count++] = pins[i];
    }
    rig = chain_of(KEPT_NODES, kept_dims, options);
    json = explain_json(rig.session, (inlay_explain_options){ 0 });
    ns = number(json, "cost_ns");
    json_decref(json);
    rig_close(&rig);
    return ns;
}

/* What margins keep back is the difference to the cheapest of all assignments. The price of the device passes that of
 * the reference in small steps, so some of the sessions stay at the more expensive provider. */
static void test_kept_back(void **state)
{
    const uint32_t all = (1u << KEPT_NODES) - 1;
    const double at_1 = pinned_ns(1, all), per_ps = (pinned_ns(1001, all) - at_1) / 1000;
    const uint64_t equal_ps = (uint64_t)((pinned_ns(1, 0) - at_1) / per_ps);
    uint32_t kept = 0;

    (void)state;
    assert_true(equal_ps > KEPT_STEPS);
    for (uint32_t step = 0; step < 2 * KEPT_STEPS; step++) {
        const char *const rule[] = { "margins=none" };
        const uint64_t element_ps = equal_ps - KEPT_STEPS / 2 + step / 2;
        const char *options[REASON_OPTIONS] = { NULL };
        double least = INFINITY, kept_back, total;
        char element[32];
        struct text_buffer text;
        struct rig rig;
        json_t *json;

        (void)snprintf(element, sizeof element, "%llu", (unsigned long long)element_ps);
        (void)kept_options(step % 2 != 0 ? "fake,reference" : "reference,fake", element, options);
        rig = chain_of(KEPT_NODES, kept_dims, options);
        json = explain_json(rig.session, (inlay_explain_options){ .what_ifs = rule, .what_if_count = 1 });
        text = explain(rig.session, (inlay_explain_options){ 0 });
        total = number(json, "cost_ns");
        kept_back = number(json, "kept_back_ns");
        for (uint32_t mask = 0; mask <= all; mask++)
            least = fmin(least, pinned_ns(element_ps, mask));
        assert_float_equal(total - kept_back, least, 1 + 1e-9 * total);
        assert_float_equal(number(json_object_get(json, "what_if"), "cost_ns"), least, 1 + 1e-9 * total);
        assert_int_equal(strstr(text.data, " without margins, which keep back ") != NULL, kept_back > 0);
        kept += kept_back > 0;
        text_buffer_free(&text);
        json_decref(json);
        rig_close(&rig);
    }
    print_message("%u of %u assignments keep something back\n", kept, 2u * KEPT_STEPS);
    assert_true(kept > 0 && kept < 2 * KEPT_STEPS);
}

/* Copies keep the nodes of a chain together, so each of them would take all others to the cheaper provider. The margins
 * of all of them are the reason why they stay. */
static void test_reasons_of_followers(void **state)
{
    static const char *const options[] = { "plugin_dirs",     FAKE_DIR, "providers", "fake,reference",
                                           "fake.element_ps", "1",      NULL };
    uint32_t kept = 0;

    (void)state;
    for (uint32_t count = 1; count < 24; count++) {
        struct rig rig = chain_of(count, "1024,64", options);
        json_t *json = explain_json(rig.session, (inlay_explain_options){ .node = "node_*" });
        const json_t *node, *answer;
        size_t i, k;

        json_array_foreach(json_object_get(json, "nodes"), i, node) {
            json_array_foreach(json_object_get(node, "answers"), k, answer) {
                const char *why = json_string_value(json_object_get(answer, "why"));

                if (why != NULL && strstr(why, "is within the margin of the prices") == NULL &&
                    strstr(why, "choices are the same on any number of threads") == NULL) /* saves only in this run */
                    fail_msg("%u nodes, node %zu: %s", count, i, why);
                kept += why != NULL;
            }
        }
        json_decref(json);
        rig_close(&rig);
    }
    assert_true(kept > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_kept_back),
        cmocka_unit_test(test_reasons_of_followers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
