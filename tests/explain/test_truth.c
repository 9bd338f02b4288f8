/* Every sentence of a report against the truth. Providers pa, pb and pd have the prices that the names of nodes state
 * (priced_plugin.c), so a chain of nodes can be priced for all assignments without the solver. */
#include "random.h"
#include "reports.h"
#include "tables/words.h"
#include <math.h>

enum { MOST_NODES = 4, PROVIDERS = 3, CHOICES = 81, KEPT_BYTES = 700 << 10, VALUE_BYTES = 64 * 64 * 4 };
static const char *const provider_names[PROVIDERS] = { "pa", "pb", "pd" };

/* A chain, and the rules of its session. */
struct situation {
    const char *nodes[MOST_NODES + 1]; /* names, ended by NULL */
    const char *options[6];            /* names and values, ended by NULL */
};

static inlay_status open_situation(const struct situation *situation, struct rig *out, inlay_diag *diag)
{
    const char *options[16] = { "plugin_dirs", PRICED_DIR, "providers", "pa,pb,pd", "level", "0" };
    struct wire wire = { 0 };
    uint32_t count = 6;
    wire_mark mark = mw_begin(&wire, 8, 17);

    for (uint32_t i = 0; situation->options[i] != NULL; i++)
        options[count++] = situation->options[i];
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "64,64");
    for (uint32_t i = 0; situation->nodes[i] != NULL; i++) {
        char from[8] = "x", to[8] = "y";

        if (i > 0)
            (void)snprintf(from, sizeof from, "t%u", i);
        if (situation->nodes[i + 1] != NULL)
            (void)snprintf(to, sizeof to, "t%u", i + 1);
        named_node(&wire, i % 2 == 0 ? "Erf" : "Atan", from, to, situation->nodes[i]);
    }
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "64,64");
    wire_end(&wire, mark);
    return rig_try_open(&wire, options, out, diag);
}

/* What a report must say, and what not. node: 1 = the report of all nodes, 0 = the overview. */
struct expectation {
    struct situation situation;
    bool node;
    const char *says[2], *not [2];
};

static const struct expectation table[] = {
    { { { "n0_50_60_0", "n1_50_60_0" }, { "require", "pb" } },
      true,
      { "require: pb must run at least one node" },
      { "the search did not find it" } },
    { { { "n0_50_60_0", "n1_50_60_0" }, { "require", "pb" } }, false, { "predicted 110 us" }, { "keep back" } },
    { { { "n0_500_0_20_Cr", "n1_500_0_20_Cr" }, { "memory_limit", "pd=1M" } },
      false,
      { "memory of pd: " },
      { "the offers alone", "pd, the same in all" } },
    { { { "n0_500_0_20_Cr", "n1_500_0_20_Cr" }, { "memory_limit", "pd=1M" } }, true, { "memory of pd: " }, { NULL } },
    { { { "n0_500_0_20_Cr" }, { "memory_limit", "pd=100K" } },
      false,
      { "memory of pd: " },
      { "the offers alone", "pd, the same in all" } },
    { { { "n0_50_60_0_Bf" }, { NULL } }, true, { "no table of times for this chip" }, { "1000 s" } },
    { { { "n0_50_60_0_Bf" }, { NULL } }, false, { "pb, without a price" }, { "1000 s" } },
    { { { "n0_50_60_0_Bn" }, { NULL } }, true, { "its price is nan ns" }, { "1000 s" } },
    { { { "n0_50_0_0_Af" }, { NULL } },
      false,
      { "without the time of 1 offer that no provider has a price for" },
      { "1000 s" } },
    { { { "n0_50_0_0_Af" }, { NULL } }, true, { "without a price", "no table of times" }, { "1000 s" } },
    { { { "n0_50_50_0" }, { NULL } }, true, { "same cost; pa precedes it in the order of providers" }, { NULL } },
    { { { "n0_50_20_0" }, { "pin", "n0*=pa" } }, true, { "the node is pinned elsewhere" }, { NULL } },
    { { { "n0_50_20_0" }, { "forbid", "n0*=pb" } }, true, { "forbid keeps it out" }, { NULL } },
    { { { "n0_50_20_0" }, { "policy", "priority" } }, true, { "policy priority takes the first provider" }, { NULL } },
    { { { "n0_90_20_0", "n1_20_90_0" }, { "max_partitions", "1" } },
      true,
      { "it would exceed max_partitions" },
      { "the search did not find it" } },
};

static void what_reports_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct text_buffer text;
        struct rig rig;

        if (open_situation(&table[i].situation, &rig, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        text = explain(rig.session, (inlay_explain_options){ .node = table[i].node ? "*" : NULL, .columns = 200 });
        for (int k = 0; k < 2; k++) {
            if (table[i].says[k] != NULL && strstr(text.data, table[i].says[k]) == NULL)
                fail_msg("situation %zu lacks '%s':\n%s", i, table[i].says[k], text.data);
            if (table[i].not [k] != NULL && strstr(text.data, table[i].not [k]) != NULL)
                fail_msg("situation %zu has '%s':\n%s", i, table[i].not [k], text.data);
        }
        text_buffer_free(&text);
        rig_close(&rig);
    }
}

/* Runs that another assignment made are not times of this one. */
static void measured_runs_of_another_assignment(void **state)
{
    static const struct situation situation = { { "n0_50_20_0_Bl" }, { "device_failure", "other" } };
    const char *const says[] = { "the card fell off the bus", "pa made the measured runs" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    if (open_situation(&situation, &rig, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(inlay_context_measure(rig.context, 1, &diag), INLAY_OK);
    rig_floats(&rig, 0, "64,64", (float[64 * 64]){ 0 });
    rig_run(&rig);
    for (int node = 0; node < 2; node++) {
        struct text_buffer text =
            explain(rig.session, (inlay_explain_options){ .node = node != 0 ? "*" : NULL, .measured = rig.context });

        if (strstr(text.data, says[0]) == NULL || (node != 0 && strstr(text.data, says[1]) == NULL) ||
            strstr(text.data, "measured 0 ns") != NULL)
            fail_msg("%s", text.data);
        text_buffer_free(&text);
    }
    rig_close(&rig);
}

/* Nodes of a region share its measured time evenly if no price says how they share it. */
static void nodes_without_prices_are_recorded(void **state)
{
    char folder[] = "/tmp/inlay-truth-XXXXXX", command[64];
    const struct situation situation = { { "n0_50_0_0_Af", "n1_50_0_0_Af" }, { "cache_dir", folder } };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count = 0;
    struct rig rig;

    (void)state;
    assert_non_null(mkdtemp(folder));
    if (open_situation(&situation, &rig, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(inlay_context_measure(rig.context, 1, &diag), INLAY_OK);
    rig_floats(&rig, 0, "64,64", (float[64 * 64]){ 0 });
    rig_run(&rig);
    if (inlay_context_record(rig.context, &count, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_true(count > 0);
    rig_close(&rig);
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* A node of 100 us that every thread makes faster, one of 50 us that runs on one thread, and a second branch. */
static void scaling_follows_from_prices(void **state)
{
    static const double us[] = { 0, 100, 50, 20 };
    static const char *const options[] = { "plugin_dirs", PRICED_DIR, "providers", "pa,pb,pd", "level", "0", NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct text_buffer text;
    const json_t *rows;
    struct rig rig;
    json_t *json;
    wire_mark mark = mw_begin(&wire, 8, 17);

    (void)state;
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "64,64");
    named_node(&wire, "Erf", "x", "a", "n1_100_0_0_Ap");
    named_node(&wire, "Atan", "a", "y", "n2_50_0_0");
    named_node(&wire, "Erf", "x", "z", "n3_20_0_0");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "64,64");
    mw_value(&wire, MW_OUTPUT, "z", INLAY_FLOAT, "64,64");
    wire_end(&wire, mark);
    if (rig_try_open(&wire, options, &rig, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    json = explain_json(rig.session, (inlay_explain_options){ .flags = INLAY_EXPLAIN_SCALING });
    text = explain(rig.session, (inlay_explain_options){ .flags = INLAY_EXPLAIN_SCALING });
    rows = json_object_get(json, "scaling");
    assert_int_equal(json_array_size(rows), 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *row = json_array_get(rows, i);
        const double threads = (double)(1 << i), chain = 1e3 * (us[1] / threads + us[2]), ns = chain + 1e3 * us[3];
        char figure[FORMATTED_BYTES];

        assert_float_equal(number(row, "threads"), threads, 0);
        assert_float_equal(number(row, "cost_ns"), ns, 1);
        assert_float_equal(number(row, "longest_chain_ns"), chain, 1);
        assert_float_equal(number(row, "waiting_ns"), (threads - 1) * 1e3 * (us[2] + us[3]), threads);
        assert_float_equal(number(row, "one_thread_ns"), i == 0 ? ns : 1e3 * (us[2] + us[3]), 1);
        assert_float_equal(number(row, "barriers"), i == 0 ? 0 : 1, 0);
        assert_non_null(strstr(text.data, format_ns(ns, figure)));
        assert_non_null(strstr(text.data, format_ns(chain, figure)));
    }
    text_buffer_free(&text);
    json_decref(json);
    rig_close(&rig);
}

/* A random chain with its rules. */
struct oracle {
    uint32_t count;
    double us[MOST_NODES][PROVIDERS]; /* 0: no offer */
    bool keeps[MOST_NODES];           /* 700 KiB on pd */
    uint32_t required, most;          /* provider, INLAY_NONE = none; partitions, 0 = any number */
    bool limited;                     /* pd has memory for one of the nodes that keep */
    char names[MOST_NODES][48];
    struct situation situation;
};

static void make_oracle(struct oracle *oracle, uint64_t *seed)
{
    const uint32_t rule = random_below(seed, 4);

    *oracle = (struct oracle){ .count = 2 + random_below(seed, MOST_NODES - 1), .required = INLAY_NONE };
    for (uint32_t n = 0; n < oracle->count; n++) {
        for (uint32_t p = 0; p < PROVIDERS; p++)
            oracle->us[n][p] = p == 0 || random_below(seed, 6) != 0 ? 20 + random_below(seed, 200) : 0;
        oracle->keeps[n] = random_below(seed, 2) != 0;
        (void)snprintf(oracle->names[n], sizeof oracle->names[n], "n%u_%g_%g_%g%s", n, oracle->us[n][0],
                       oracle->us[n][1], oracle->us[n][2], oracle->keeps[n] ? "_Cr" : "");
        oracle->situation.nodes[n] = oracle->names[n];
    }
    if (rule == 1) {
        oracle->required = 1 + random_below(seed, 2);
        oracle->situation.options[0] = "require";
        oracle->situation.options[1] = provider_names[oracle->required];
    } else if (rule == 2) {
        oracle->limited = true;
        oracle->situation.options[0] = "memory_limit";
        oracle->situation.options[1] = "pd=1M";
    } else if (rule == 3) {
        oracle->most = 1 + random_below(seed, 2);
        oracle->situation.options[0] = "max_partitions";
        oracle->situation.options[1] = oracle->most == 1 ? "1" : "2";
    }
}

/* The price of an assignment in nanoseconds; INFINITY: a provider does not offer its node. */
static double price_of(const struct oracle *oracle, const uint32_t *choice)
{
    const double copy_ns = 10000 + VALUE_BYTES / 8.0;
    double ns = 0;

    for (uint32_t n = 0; n < oracle->count; n++) {
        const bool before = n > 0 && choice[n - 1] == 2, here = choice[n] == 2;

        if (oracle->us[n][choice[n]] == 0)
            return INFINITY;
        ns += oracle->us[n][choice[n]] * 1000 + (before != here ? copy_ns : 0);
    }
    return choice[oracle->count - 1] == 2 ? ns + copy_ns : ns;
}

/* The rule that the assignment breaks, as reports begin their sentences; NULL: none. */
static const char *broken_rule(const struct oracle *oracle, const uint32_t *choice)
{
    uint32_t kept = 0, partitions = 0;
    bool has_required = oracle->required == INLAY_NONE;

    for (uint32_t n = 0; n < oracle->count; n++) {
        kept += choice[n] == 2 && oracle->keeps[n];
        partitions += n == 0 || choice[n] != choice[n - 1];
        has_required |= choice[n] == oracle->required;
    }
    return oracle->limited && kept > 1                     ? "memory of pd: "
           : oracle->most > 0 && partitions > oracle->most ? "it would exceed max_partitions"
           : !has_required                                 ? "require: "
                                                           : NULL;
}

/* The least price of the assignments that keep the rules and have the node on the provider. */
static double least_price(const struct oracle *oracle, uint32_t node, uint32_t provider)
{
    double least = INFINITY;

    for (uint32_t code = 0; code < CHOICES; code++) {
        uint32_t choice[MOST_NODES], rest = code;

        for (uint32_t n = 0; n < MOST_NODES; n++, rest /= PROVIDERS)
            choice[n] = rest % PROVIDERS;
        if (choice[node] == provider && broken_rule(oracle, choice) == NULL)
            least = fmin(least, price_of(oracle, choice));
    }
    return least;
}

static uint32_t number_of(const char *name)
{
    uint32_t p = 0;

    while (p < PROVIDERS && strcmp(provider_names[p], name) != 0)
        p++;
    assert_true(p < PROVIDERS);
    return p;
}

/* Compares an answer with the truth. now: the session's assignment. Returns whether it has a sentence. */
static bool check_answer(const struct oracle *oracle, const uint32_t *now, uint32_t node, const json_t *answer)
{
    const uint32_t provider = number_of(json_string_value(json_object_get(answer, "provider")));
    const char *impossible = json_string_value(json_object_get(answer, "impossible")),
               *why = json_string_value(json_object_get(answer, "why")), *rule;
    const double total = price_of(oracle, now), least = least_price(oracle, node, provider);
    uint32_t moved[MOST_NODES];

    if (provider == now[node] || json_object_get(answer, "cost_ns") == NULL)
        return false;
    memcpy(moved, now, sizeof moved);
    moved[node] = provider;
    rule = broken_rule(oracle, moved);
    if (impossible != NULL) {
        assert_true(least == INFINITY);
        return true;
    }
    assert_true(number(answer, "extra_ns") >= least - total - 1);
    assert_true(number(answer, "extra_ns") <= least * 1.05 - total + 1);
    if (why == NULL) {
        assert_true(number(answer, "extra_ns") > -1);
        return false;
    }
    if (strncmp(why, "memory of", 9) == 0 || strncmp(why, "require", 7) == 0 ||
        strncmp(why, "it would exceed", 15) == 0) {
        assert_non_null(rule);
        assert_int_equal(strncmp(why, rule, strlen(rule)), 0);
        return true;
    }
    assert_true(number(answer, "extra_ns") < 0);
    assert_null(strstr(why, "the search did not find it"));
    assert_true(strstr(why, "precedes it in the order") == NULL || now[node] < provider);
    return true;
}

static void random_situations(void **state)
{
    uint64_t seed = 11;
    uint32_t sentences = 0, situations = 0;

    (void)state;
    for (uint32_t round = 0; situations < 200; round++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct oracle oracle;
        uint32_t now[MOST_NODES] = { 0 };
        struct rig rig;
        json_t *json, *all;
        const json_t *nodes;

        assert_true(round < 400);
        make_oracle(&oracle, &seed);
        if (open_situation(&oracle.situation, &rig, &diag) != INLAY_OK) {
            double least = INFINITY;

            for (uint32_t p = 0; p < PROVIDERS; p++)
                least = fmin(least, least_price(&oracle, 0, p));
            assert_true(least == INFINITY);
            rig_close(&rig);
            continue;
        }
        situations++;
        all = explain_json(rig.session, (inlay_explain_options){ 0 });
        json = explain_json(rig.session, (inlay_explain_options){ .node = "*" });
        nodes = json_object_get(json, "nodes");
        assert_int_equal(json_array_size(nodes), oracle.count);
        for (uint32_t n = 0; n < oracle.count; n++)
            now[n] = number_of(json_string_value(json_object_get(json_array_get(nodes, n), "provider")));
        assert_float_equal(number(all, "cost_ns"), price_of(&oracle, now), 1);
        assert_null(broken_rule(&oracle, now));
        for (uint32_t n = 0; n < oracle.count; n++) {
            const json_t *answers = json_object_get(json_array_get(nodes, n), "answers");

            for (size_t k = 0; k < json_array_size(answers); k++)
                sentences += check_answer(&oracle, now, n, json_array_get(answers, k));
        }
        json_decref(all);
        json_decref(json);
        rig_close(&rig);
    }
    print_message("%u situations, %u sentences\n", situations, sentences);
    assert_true(sentences > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_reports_say),
        cmocka_unit_test(measured_runs_of_another_assignment),
        cmocka_unit_test(nodes_without_prices_are_recorded),
        cmocka_unit_test(scaling_follows_from_prices),
        cmocka_unit_test(random_situations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
