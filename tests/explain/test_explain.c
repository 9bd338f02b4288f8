/* Reports of small sessions: sums are right, text and JSON agree, bodies and devices are included. */
#include "cmocka_all.h"
#include "tables/words.h"
#include "reports.h"
#include <math.h>

static double sum(const json_t *array, const char *key)
{
    double total = 0;

    for (size_t i = 0; i < json_array_size(array); i++)
        total += number(json_array_get(array, i), key);
    return total;
}

/* In each graph, the costs of partitions and copies add up to the graph's cost, and so do those of regions. */
static void check_sums(const json_t *graph)
{
    const json_t *regions = json_object_get(graph, "regions"), *stretches = json_object_get(graph, "stretches");
    const char *key;
    json_t *body;

    assert_float_equal(sum(regions, "cost_ns"), sum(stretches, "cost_ns"), 1e-3 * sum(regions, "cost_ns") + 1e-6);
    assert_float_equal(sum(stretches, "cost_ns") + number(graph, "copies_ns"), number(graph, "cost_ns"),
                       1e-3 * number(graph, "cost_ns") + 1e-6);
    assert_int_equal((int)sum(stretches, "nodes"), json_array_size(json_object_get(graph, "nodes")));
    assert_int_equal((int)sum(stretches, "regions"), json_array_size(regions));
    for (size_t i = 0; i < json_array_size(regions); i++)
        json_object_foreach(json_object_get(json_array_get(regions, i), "bodies"), key, body)
            check_sums(body);
}

/* Sums a value over the regions of a graph and its bodies, multiplied by their number of runs. */
static double sum_runs(const json_t *g, const char *name)
{
    const json_t *regions = json_object_get(g, "regions");
    double total = sum(regions, name);
    const char *key;
    json_t *body;

    for (size_t i = 0; i < json_array_size(regions); i++)
        json_object_foreach(json_object_get(json_array_get(regions, i), "bodies"), key, body)
            total += number(body, "times") * sum_runs(body, name);
    return total;
}

/* The explanation in one line has the numbers of the JSON. */
static void check_line(const inlay_session *session, const json_t *json)
{
    struct text_buffer output = explain(session, (inlay_explain_options){ .format = "line" });
    const json_t *providers = json_object_get(json, "providers");
    char text[FORMATTED_BYTES], part[160];

    assert_ptr_equal(strchr(output.data, '\n'), output.data + output.bytes - 1);
    (void)snprintf(part, sizeof part, "%d node", (int)number(json, "nodes"));
    assert_ptr_equal(strstr(output.data, part), output.data);
    (void)snprintf(part, sizeof part, "; expected %s", format_ns(number(json, "cost_ns"), text));
    assert_non_null(strstr(output.data, part));
    for (size_t i = 0; i < json_array_size(providers); i++) {
        const json_t *provider = json_array_get(providers, i);

        (void)snprintf(part, sizeof part, " %s %d", json_string_value(json_object_get(provider, "name")),
                       (int)number(provider, "nodes"));
        assert_true((strstr(output.data, part) != NULL) == (number(provider, "nodes") > 0));
    }
    text_buffer_free(&output);
}

static void check_agreement(const inlay_session *session)
{
    struct text_buffer output = explain(session, (inlay_explain_options){ .flags = INLAY_EXPLAIN_ALL });
    json_t *json = explain_json(session, (inlay_explain_options){ .flags = INLAY_EXPLAIN_ALL });
    char a[FORMATTED_BYTES], line[64];

    check_sums(json_object_get(json, "main"));
    (void)snprintf(line, sizeof line, "predicted %s", format_ns(number(json, "cost_ns"), a));
    if (strstr(output.data, line) == NULL)
        fail_msg("no '%s' in\n%s", line, output.data);
    check_line(session, json);
    assert_float_equal(number(json, "cost_ns"), number(json_object_get(json, "main"), "cost_ns"), 1e-9);
    assert_float_equal(number(json, "flops"), sum_runs(json_object_get(json, "main"), "flops"),
                       1e-6 * number(json, "flops"));
    assert_float_equal(number(json, "bytes_moved"), sum_runs(json_object_get(json, "main"), "bytes_moved"),
                       1e-6 * number(json, "bytes_moved"));
    json_decref(json);
    text_buffer_free(&output);
}

static struct rig chain(uint32_t count, const char *const *options)
{
    return chain_of(count, "2,3", options);
}

static void test_sizes(void **state)
{
    static const uint32_t counts[] = { 0, 1, 2, 5000 };

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct rig rig = chain(counts[i], NULL);
        json_t *json = explain_json(rig.session, (inlay_explain_options){ 0 });
        struct text_buffer output;

        assert_int_equal((int)number(json, "nodes"), counts[i]);
        json_decref(json);
        check_agreement(rig.session);
        output = explain(rig.session, (inlay_explain_options){ .columns = 80 });
        assert_true(output.bytes < 4000); /* repeated entries are folded */
        text_buffer_free(&output);
        rig_close(&rig);
    }
}

static void test_measures(void **state)
{
    static float x[] = { 1, -2, 3, -4, 5, -6 };
    struct rig rig = chain(2, NULL);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_explain_options options = { .measured = rig.context };
    const json_t *regions;
    json_t *json;

    (void)state;
    rig_floats(&rig, 0, "2,3", x);
    /* Without measurements the report is the same. */
    json = explain_json(rig.session, options);
    assert_null(json_object_get(json, "measured_ns"));
    json_decref(json);
    assert_int_equal(inlay_context_measure(rig.context, 1, &diag), INLAY_OK);
    for (int i = 0; i < 70; i++)
        rig_run(&rig);
    json = explain_json(rig.session, options);
    assert_int_equal((int)number(json, "measured_runs"), 64);
    assert_true(number(json, "measured_ns") > 0);
    regions = json_object_get(json_object_get(json, "main"), "regions");
    for (size_t i = 0; i < json_array_size(regions); i++) {
        assert_int_equal((int)number(json_array_get(regions, i), "calls"), 1);
        assert_true(number(json_array_get(regions, i), "measured_ns") >= 0);
    }
    assert_true(sum(regions, "measured_ns") <= 2 * number(json, "measured_ns"));
    json_decref(json);
    rig_expect_floats(&rig, 0, "2,3", (float[]){ -1, -0.0f, -3, -0.0f, -5, -0.0f });
    assert_int_equal(inlay_context_measure(rig.context, 0, &diag), INLAY_OK);
    json = explain_json(rig.session, options);
    assert_null(json_object_get(json, "measured_ns"));
    json_decref(json);
    rig_close(&rig);
}

/* A Loop of 5 trips whose body contains an If. */
static struct rig loop_of_if(void)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), loop, branch;
    mw_body body, arm;
    static const int64_t five = 5;

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "3");
    mw_value(&wire, MW_INPUT, "up", INLAY_BOOL, "");
    mw_ints(&wire, "trips", 0, 1, &five);
    mw_scalar(&wire, "go", INLAY_BOOL, 1);
    loop = mw_node_begin(&wire, "Loop", "trips,go,x", "y");
    wire_text(&wire, 3, "loop");
    body = mw_body_begin(&wire, "body", "inside");
    mw_value(&wire, MW_INPUT, "i", INLAY_INT64, "");
    mw_value(&wire, MW_INPUT, "c", INLAY_BOOL, "");
    mw_value(&wire, MW_INPUT, "a", INLAY_FLOAT, "3");
    named_node(&wire, "Identity", "c", "c2", "keep_on");
    branch = mw_node_begin(&wire, "If", "up", "b");
    wire_text(&wire, 3, "branch");
    arm = mw_body_begin(&wire, "then_branch", "t");
    named_node(&wire, "Add", "a,a", "bt", "double");
    mw_value(&wire, MW_OUTPUT, "bt", INLAY_FLOAT, "3");
    mw_body_end(&wire, arm);
    arm = mw_body_begin(&wire, "else_branch", "e");
    named_node(&wire, "Neg", "a", "be", "negate");
    named_node(&wire, "Neg", "be", "be2", "negate_again");
    mw_value(&wire, MW_OUTPUT, "be2", INLAY_FLOAT, "3");
    mw_body_end(&wire, arm);
    wire_end(&wire, branch);
    mw_value(&wire, MW_OUTPUT, "c2", INLAY_BOOL, "");
    mw_value(&wire, MW_OUTPUT, "b", INLAY_FLOAT, "3");
    mw_body_end(&wire, body);
    wire_end(&wire, loop);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "3");
    wire_end(&wire, mark);
    return rig_open(&wire, NULL);
}

static const json_t *body_of(const json_t *g, size_t region, const char *attr)
{
    const json_t *r = json_array_get(json_object_get(g, "regions"), region);

    return json_object_get(json_object_get(r, "bodies"), attr);
}

static void test_bodies(void **state)
{
    struct rig rig = loop_of_if();
    json_t *json = explain_json(rig.session, (inlay_explain_options){ 0 });
    const json_t *main = json_object_get(json, "main"), *loop = body_of(main, 0, "body"), *then, *other;
    size_t at = 0;
    struct text_buffer output;

    (void)state;
    check_agreement(rig.session);
    assert_non_null(loop);
    assert_string_equal(json_string_value(json_object_get(loop, "path")), "main/loop.body");
    assert_float_equal(number(loop, "times"), 5, 0);
    assert_true(number(loop, "cost_ns") > 0);
    assert_float_equal(number(main, "cost_ns"), 5 * number(loop, "cost_ns"), 1e-6);
    while (body_of(loop, at, "then_branch") == NULL)
        assert_true(++at < 4);
    then = body_of(loop, at, "then_branch");
    other = body_of(loop, at, "else_branch");
    /* The more expensive branch counts. */
    assert_float_equal(number(then, "times") + number(other, "times"), 1, 0);
    assert_true((number(then, "cost_ns") > number(other, "cost_ns")) == (number(then, "times") == 1));
    json_decref(json);
    /* The report states the branch that counts, and the number of runs of a body. */
    output = explain(rig.session, (inlay_explain_options){ .format = "text" });
    assert_non_null(strstr(output.data, "body of loop, "));
    assert_non_null(strstr(output.data, ", predicted 5 times:\n"));
    assert_non_null(strstr(output.data, ", not taken:\n"));
    assert_null(strstr(output.data, "predicted 1 times"));
    assert_null(strstr(output.data, "count depends on data"));
    text_buffer_free(&output);
    rig_close(&rig);
}

/* Returns the measured time of a provider's regions in one run: each graph multiplied by its number of runs, bodies
 * included. */
static double measured_of(const json_t *g, const char *provider)
{
    const json_t *regions = json_object_get(g, "regions"), *body;
    double once = 0, executions = 0, inner = 0;
    const char *attr;

    for (size_t i = 0; i < json_array_size(regions); i++) {
        json_t *region = json_array_get(regions, i), *bodies = json_object_get(region, "bodies");

        executions = number(region, "calls") > executions ? number(region, "calls") : executions;
        if (strcmp(json_string_value(json_object_get(region, "provider")), provider) == 0)
            once += number(region, "measured_ns");
        json_object_foreach(bodies, attr, body)
            inner += measured_of(body, provider);
    }
    return once * executions + inner;
}

static void test_measured_bodies(void **state)
{
    static float x[] = { 1, 2, 3 };
    static uint8_t up = 1;
    struct rig rig = loop_of_if();
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;
    const json_t *loop, *mine;
    json_t *json;
    double all;

    (void)state;
    rig_floats(&rig, 0, "3", x);
    assert_int_equal(inlay_value_borrow(INLAY_BOOL, 0, NULL, &up, 1, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 1, value, &diag), INLAY_OK);
    inlay_value_unref(value);
    assert_int_equal(inlay_context_measure(rig.context, 1, &diag), INLAY_OK);
    for (int i = 0; i < 3; i++)
        rig_run(&rig);
    rig_expect_floats(&rig, 0, "3", (float[]){ 32, 64, 96 });
    json = explain_json(rig.session, (inlay_explain_options){ .measured = rig.context });
    loop = body_of(json_object_get(json, "main"), 0, "body");
    assert_float_equal(number(loop, "times"), 5, 0);
    mine = json_array_get(json_object_get(json, "providers"), 0);
    all = measured_of(json_object_get(json, "main"), json_string_value(json_object_get(mine, "name")));
    assert_true(all > 0 && fabs(number(mine, "measured_ns") - all) <= 1e-3 * all);
    /* The branch that ran counts, regardless of the prediction. */
    for (size_t at = 0; at < json_array_size(json_object_get(loop, "regions")); at++) {
        if (body_of(loop, at, "then_branch") == NULL)
            continue;
        assert_float_equal(number(body_of(loop, at, "then_branch"), "times"), 1, 0);
        assert_float_equal(number(body_of(loop, at, "else_branch"), "times"), 0, 0);
    }
    json_decref(json);
    /* The report of a node has the time of its region. */
    json = explain_json(rig.session, (inlay_explain_options){ .measured = rig.context, .node = "double" });
    assert_true(number(json_array_get(json_object_get(json, "nodes"), 0), "region_measured_ns") > 0);
    json_decref(json);
    rig_close(&rig);
}

/* Names of a model are escaped. */
static void test_hostile_names(void **state)
{
    static const char name[] = "</script><img src=x onerror=alert(1)>\x1b[31m\"'&";
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    struct rig rig;
    struct text_buffer output;
    json_t *json;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "2,3");
    named_node(&wire, "Relu", "x", "y", name);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "2,3");
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    output =
        explain(rig.session, (inlay_explain_options){ .format = "text", .columns = 200, .flags = INLAY_EXPLAIN_ALL });
    assert_non_null(strstr(output.data, "onerror"));
    assert_null(strchr(output.data, 0x1b));
    text_buffer_free(&output);
    output = explain(rig.session, (inlay_explain_options){ .format = "json" });
    assert_null(strpbrk(output.data, "<>&\x1b"));
    text_buffer_free(&output);
    json = explain_json(rig.session, (inlay_explain_options){ 0 });
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(json_object_get(json, "main"), "nodes"), 0), "name")),
                        name);
    json_decref(json);
    rig_close(&rig);
}

/* A device refuses all nodes of an unsupported operator with the same reason. The text only counts such refusals. */
static void test_refusals_are_folded(void **state)
{
    static const char *const options[] = { "plugin_dirs", FAKE_DIR, "providers", "fake,reference", NULL };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    const json_t *refusal;
    struct rig rig;
    struct text_buffer output;
    json_t *json;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "2,3");
    for (int i = 0; i < 20; i++) {
        char from[16] = "x", to[16], name[16];

        if (i > 0)
            (void)snprintf(from, sizeof from, "t%d", i - 1);
        (void)snprintf(to, sizeof to, "t%d", i);
        (void)snprintf(name, sizeof name, "exp_%d", i);
        named_node(&wire, "Exp", from, to, name);
    }
    mw_value(&wire, MW_OUTPUT, "t19", INLAY_FLOAT, "2,3");
    wire_end(&wire, mark);
    rig = rig_open(&wire, options);
    json = explain_json(rig.session, (inlay_explain_options){ 0 });
    assert_int_equal(json_array_size(json_object_get(json, "refusals")), 1);
    refusal = json_array_get(json_object_get(json, "refusals"), 0);
    assert_int_equal((int)number(refusal, "count"), 20);
    assert_string_equal(json_string_value(json_object_get(refusal, "provider")), "fake");
    json_decref(json);
    output = explain(rig.session, (inlay_explain_options){ .columns = 100 });
    assert_null(strstr(output.data, "the fake device has five operators"));
    assert_non_null(strstr(output.data, "\n  20 refusals by providers without a kernel for the operator"));
    text_buffer_free(&output);
    output = explain(rig.session, (inlay_explain_options){ .columns = 100, .flags = INLAY_EXPLAIN_ALL });
    assert_non_null(strstr(output.data, "fake, 20 nodes: the fake device has five operators"));
    assert_non_null(strstr(output.data, "Exp exp_0, Exp exp_1, Exp exp_2, Exp exp_3, "));
    text_buffer_free(&output);
    rig_close(&rig);
}

/* Refusals are named only of providers that could have run the nodes. */
static void test_refusals_of_forbidden_providers(void **state)
{
    static const char *const options[][9] = {
        { "plugin_dirs", FAKE_DIR, "providers", "fake,reference", "fake.refuse", "1", NULL },
        { "plugin_dirs", FAKE_DIR, "providers", "fake,reference", "fake.refuse", "1", "forbid", "fake", NULL },
    };
    static const char named[] = "fake, 3 nodes: the option refuse is set";
    static const char counted[] = "\n  3 refusals by providers that rules, inlay tune or an emulated device keep out";

    (void)state;
    for (int forbidden = 0; forbidden < 2; forbidden++) {
        struct rig rig = chain(3, options[forbidden]);
        json_t *json = explain_json(rig.session, (inlay_explain_options){ 0 });
        const json_t *refusal = json_array_get(json_object_get(json, "refusals"), 0);
        struct text_buffer output = explain(rig.session, (inlay_explain_options){ .columns = 100 });

        assert_int_equal((int)number(refusal, "count"), 3);
        assert_int_equal(json_is_true(json_object_get(refusal, "could_run")), !forbidden);
        assert_int_equal(strstr(output.data, named) != NULL, !forbidden);
        assert_int_equal(strstr(output.data, counted) != NULL, forbidden);
        text_buffer_free(&output);
        output = explain(rig.session, (inlay_explain_options){ .columns = 100, .flags = INLAY_EXPLAIN_ALL });
        assert_non_null(strstr(output.data, named));
        text_buffer_free(&output);
        json_decref(json);
        rig_close(&rig);
    }
}

/* The runner-up of a partition: its provider, the number of its nodes, and that its cost is exact. */
static void test_runner_up(void **state)
{
    static const char *const options[] = { "plugin_dirs", FAKE_DIR,   "providers", "reference,fake",
                                           "policy",      "priority", NULL };
    struct rig rig = chain(6, options);
    json_t *json = explain_json(rig.session, (inlay_explain_options){ 0 });
    const json_t *stretch = json_array_get(json_object_get(json_object_get(json, "main"), "stretches"), 0);
    const json_t *rival = json_object_get(stretch, "runner_up");

    (void)state;
    assert_string_equal(json_string_value(json_object_get(stretch, "provider")), "reference");
    assert_string_equal(json_string_value(json_object_get(rival, "provider")), "fake");
    assert_string_equal(json_string_value(json_object_get(rival, "kind")), "exact");
    assert_int_equal((int)number(rival, "nodes"), 6);
    assert_null(json_object_get(rival, "why"));
    json_decref(json);
    rig_close(&rig);
}

/* A runner-up that looks cheaper has the reason why it was not chosen. */
static void test_cheaper_runner_up(void **state)
{
    static const char *const options[] = { "plugin_dirs", FAKE_DIR,   "providers", "reference,fake",
                                           "policy",      "priority", NULL };
    static const char why[] = "policy priority takes the first provider that supports a node";
    struct rig rig = chain_of(40, "1024,1024", options);
    json_t *json = explain_json(rig.session, (inlay_explain_options){ 0 });
    const json_t *stretch = json_array_get(json_object_get(json_object_get(json, "main"), "stretches"), 0);
    const json_t *rival = json_object_get(stretch, "runner_up");
    struct text_buffer output = { 0 };

    (void)state;
    assert_true(number(rival, "extra_ns") < 0);
    assert_string_equal(json_string_value(json_object_get(rival, "why")), why);
    assert_int_equal(inlay_session_explain(rig.session, NULL, text_buffer_append, &output, NULL), INLAY_OK);
    assert_non_null(strstr(output.data, "fake not chosen: policy priority takes the first provider"));
    text_buffer_free(&output);
    json_decref(json);
    rig_close(&rig);
}

static void refuses(const inlay_session *session, inlay_explain_options options, const char *why)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct text_buffer output = { 0 };

    options.struct_size = sizeof options;
    assert_int_equal(inlay_session_explain(session, &options, text_buffer_append, &output, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_int_equal(output.bytes, 0);
    if (strstr(diag.text, why) == NULL)
        fail_msg("'%s', not '%s'", diag.text, why);
}

/* The predicted effect of another policy equals the cost of a session with that policy. */
static void test_what_if(void **state)
{
    static const char *const by_priority[] = { "plugin_dirs", FAKE_DIR,   "providers", "fake,reference",
                                               "policy",      "priority", NULL };
    static const char *const by_cost[] = { "plugin_dirs", FAKE_DIR, "providers", "fake,reference", NULL };
    const char *const rules[] = { "policy=cost" }, *const back[] = { "policy=priority" };
    struct rig first = chain(7, by_priority), second = chain(7, by_cost);
    json_t *a = explain_json(first.session, (inlay_explain_options){ .what_ifs = rules, .what_if_count = 1 });
    json_t *b = explain_json(second.session, (inlay_explain_options){ .what_ifs = back, .what_if_count = 1 });
    const json_t *to_cost = json_object_get(a, "what_if"), *to_priority = json_object_get(b, "what_if");

    (void)state;
    assert_true(json_is_true(json_object_get(to_cost, "possible")));
    assert_float_equal(number(to_cost, "cost_ns"), number(b, "cost_ns"), 1e-6);
    assert_float_equal(number(to_priority, "cost_ns"), number(a, "cost_ns"), 1e-6);
    assert_int_equal((int)number(to_cost, "moved"), (int)number(to_priority, "moved"));
    assert_int_equal((int)sum(json_object_get(to_cost, "moves"), "count"), (int)number(to_cost, "moved"));
    json_decref(a);
    json_decref(b);
    rig_close(&first);
    rig_close(&second);
}

/* Each objective's row equals a session with this objective, and no other row has less of the amount it minimises. */
static void test_objectives(void **state)
{
    static const char *const names[] = { "latency", "energy", "memory" }, *const keys[] = { "cost_ns", "energy_nj",
                                                                                            "kept_bytes" };
    double amounts[3][3];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const char *options[] = { "plugin_dirs", FAKE_DIR, "providers",   "fake,reference",
                                  "objective",   names[i], "power_watts", "fake=0.001,reference=100",
                                  NULL };
        struct rig rig = chain(9, options);
        json_t *json = explain_json(rig.session, (inlay_explain_options){ .flags = INLAY_EXPLAIN_OBJECTIVES });
        const json_t *rows = json_object_get(json, "objectives"), *own = json_array_get(rows, i);
        struct text_buffer text = explain(rig.session, (inlay_explain_options){ .flags = INLAY_EXPLAIN_OBJECTIVES });

        assert_int_equal(json_array_size(rows), 3);
        assert_string_equal(json_string_value(json_object_get(json, "objective")), names[i]);
        assert_float_equal(number(own, "cost_ns"), number(json, "cost_ns"), 1e-3);
        assert_int_equal((int)number(own, "moved"), 0);
        assert_non_null(strstr(text.data, "this session"));
        for (size_t k = 0; k < 3; k++) {
            amounts[i][k] = number(own, keys[k]);
            for (size_t row = 0; row < 3; row++)
                assert_true(number(json_array_get(rows, k), keys[k]) <=
                            number(json_array_get(rows, row), keys[k]) * 1.3);
        }
        text_buffer_free(&text);
        json_decref(json);
        rig_close(&rig);
    }
    assert_true(amounts[0][0] > 0 && amounts[1][1] > 0 && amounts[2][2] > 0);
    assert_true(amounts[1][1] < amounts[0][1]); /* the device needs a hundred thousandth of the power */
    assert_true(amounts[2][2] <= amounts[1][2]);
}

/* Without the power of each device there is no energy: a session for it is refused, and its row says why. */
static void test_unknown_power(void **state)
{
    static const char *const options[] = { "plugin_dirs",    FAKE_DIR,      "providers",
                                           "fake,reference", "power_watts", "reference=5",
                                           "objective",      "energy",      NULL };
    static const char *const latency[] = { "plugin_dirs", FAKE_DIR, "providers", "fake,reference", NULL };
    const char *const rule[] = { "objective=energy" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire model = { 0 };
    struct rig rig = chain(3, latency);
    json_t *json = explain_json(rig.session, (inlay_explain_options){ .flags = INLAY_EXPLAIN_OBJECTIVES });
    const json_t *rows = json_object_get(json, "objectives");

    (void)state;
    assert_true(json_is_true(json_object_get(json_array_get(rows, 0), "possible")));
    assert_null(json_object_get(json_array_get(rows, 0), "energy_nj"));
    assert_false(json_is_true(json_object_get(json_array_get(rows, 1), "possible")));
    assert_non_null(
        strstr(json_string_value(json_object_get(json_array_get(rows, 1), "reason")), "set power_watts to fake=WATTS"));
    refuses(rig.session, (inlay_explain_options){ .what_ifs = rule, .what_if_count = 1 },
            "the power of fake is unknown");
    json_decref(json);
    rig_close(&rig);
    write_chain(&model, 3, "2,3");
    assert_int_equal(rig_try_open(&model, options, &rig, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "set power_watts to fake=WATTS"));
    rig_close(&rig);
}

/* The same for pins and forbids, on a device that needs copies. */
static void test_what_if_matches_a_session(void **state)
{
    static const struct {
        const char *rules[2];
        const char *options[4];
    } rows[] = {
        { { "-fake" }, { "forbid", "fake" } },
        { { "op:Relu!=fake" }, { "forbid", "op:Relu=fake" } },
        { { "node_2=reference" }, { "pin", "node_2=reference" } },
        { { "op:*=fake" }, { "pin", "op:*=fake" } },
        { { "node_[0-3]=fake", "node_5!=fake" }, { "pin", "node_[0-3]=fake", "forbid", "node_5=fake" } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *options[16] = { "plugin_dirs", FAKE_DIR, "providers", "fake,reference" };
        uint32_t count = rows[i].rules[1] != NULL ? 2 : 1;
        struct rig base = chain(9, options), changed;
        json_t *a =
            explain_json(base.session, (inlay_explain_options){ .what_ifs = rows[i].rules, .what_if_count = count });
        const json_t *answer = json_object_get(a, "what_if");
        json_t *b;

        for (uint32_t k = 0; k < 4 && rows[i].options[k] != NULL; k++)
            options[4 + k] = rows[i].options[k];
        changed = chain(9, options);
        b = explain_json(changed.session, (inlay_explain_options){ 0 });
        assert_true(json_is_true(json_object_get(answer, "possible")));
        assert_float_equal(number(answer, "cost_ns"), number(b, "cost_ns"), 1e-6);
        assert_float_equal(number(answer, "copies_ns"), number(b, "copies_ns"), 1e-6);
        check_agreement(changed.session);
        json_decref(a);
        json_decref(b);
        rig_close(&base);
        rig_close(&changed);
    }
}

/* Rules that cannot be met give a report, not an error. */
static void test_impossible_what_if(void **state)
{
    const char *const rules[] = { "-reference" };
    struct rig rig = chain(3, NULL);
    json_t *json = explain_json(rig.session, (inlay_explain_options){ .what_ifs = rules, .what_if_count = 1 });
    struct text_buffer output = explain(rig.session, (inlay_explain_options){ .what_ifs = rules, .what_if_count = 1 });

    (void)state;
    assert_true(json_is_false(json_object_get(json_object_get(json, "what_if"), "possible")));
    assert_non_null(strstr(output.data, "what if -reference: not possible"));
    assert_non_null(strstr(output.data, "forbid keeps it out"));
    text_buffer_free(&output);
    json_decref(json);
    rig_close(&rig);
}

/* The runner-up of a partition has the cost of a session in which the winner is forbidden there. */
static void test_runner_up_matches_a_session(void **state)
{
    static const char *const other[] = { "plugin_dirs", FAKE_DIR, "providers", "fake,reference", NULL };
    struct rig rig = chain(40, other), without;
    json_t *a = explain_json(rig.session, (inlay_explain_options){ 0 }), *b;
    const json_t *stretches = json_object_get(json_object_get(a, "main"), "stretches");
    const json_t *stretch = json_array_get(stretches, 0), *rival = json_object_get(stretch, "runner_up");
    const char *winner = json_string_value(json_object_get(stretch, "provider"));

    (void)state;
    assert_int_equal(json_array_size(stretches), 1);
    without = chain(
        40, (const char *const[]){ "plugin_dirs", FAKE_DIR, "providers", "fake,reference", "forbid", winner, NULL });
    b = explain_json(without.session, (inlay_explain_options){ 0 });
    assert_float_equal(number(rival, "extra_ns"), number(b, "cost_ns") - number(a, "cost_ns"), 1e-6);
    json_decref(a);
    json_decref(b);
    rig_close(&rig);
    rig_close(&without);
}

static void test_wrong_what_ifs(void **state)
{
    static const struct {
        const char *rule, *why;
    } rows[] = {
        { "nonsense", "expected PATTERN=PROVIDER" },
        { "=reference", "expected PATTERN" },
        { "!=reference", "expected PATTERN" },
        { "node_0=refrence", "did you mean 'reference'" },
        { "-nosuch", "no provider 'nosuch'" },
        { "nude_0=reference", "did you mean 'node_0'" },
        { "op:Rely=reference", "did you mean 'Relu'" },
        { "policy=fast", "cost or priority" },
        { "objective=speed", "latency, energy or memory" },
        { "margins=half", "margins must be none" },
        { "threads=0", "1 to 4096" },
        { "threads=two", "1 to 4096" },
        { "", "expected PATTERN" },
    };
    const char *const fine[] = { "node_0=reference" };
    struct rig rig = chain(3, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuses(rig.session, (inlay_explain_options){ .what_ifs = &rows[i].rule, .what_if_count = 1 }, rows[i].why);
    refuses(rig.session, (inlay_explain_options){ .what_ifs = fine, .what_if_count = 1, .node = "node_0" },
            "cannot be combined");
    refuses(rig.session, (inlay_explain_options){ .node = "nude_1" }, "did you mean 'node_1'");
    refuses(rig.session, (inlay_explain_options){ .node = "op:Nag" }, "did you mean 'Neg'");
    refuses(rig.session, (inlay_explain_options){ .node = "" }, "no node named ''");
    rig_close(&rig);
}

static void test_nodes(void **state)
{
    static const char *const options[] = { "plugin_dirs", FAKE_DIR,   "providers", "reference,fake",
                                           "policy",      "priority", NULL };
    struct rig rig = chain(40, options);
    json_t *json = explain_json(rig.session, (inlay_explain_options){ .node = "node_1*" });
    const json_t *nodes = json_object_get(json, "nodes"), *node = json_array_get(nodes, 0), *answers;
    struct text_buffer output;

    (void)state;
    assert_int_equal(json_array_size(nodes), 11);
    assert_string_equal(json_string_value(json_object_get(node, "name")), "node_1");
    assert_string_equal(json_string_value(json_object_get(node, "provider")), "reference");
    answers = json_object_get(node, "answers");
    assert_int_equal(json_array_size(answers), 2);
    assert_true(json_is_true(json_object_get(json_array_get(answers, 0), "chosen")));
    assert_true(json_is_false(json_object_get(json_array_get(answers, 1), "chosen")));
    assert_non_null(json_object_get(json_array_get(answers, 1), "extra_ns"));
    json_decref(json);
    output = explain(rig.session, (inlay_explain_options){ .node = "op:Neg" });
    assert_non_null(strstr(output.data, "Neg node_1  (Neg-13 of ai.onnx, region"));
    assert_non_null(strstr(output.data, "from Relu node_0 (reference)"));
    assert_non_null(strstr(output.data, "to Relu node_2 (reference)"));
    assert_non_null(strstr(output.data, "and 8 other nodes"));
    text_buffer_free(&output);
    rig_close(&rig);
}

/* The report lists the operators of a partition: each once, with its number, without a trailing separator. */
static void test_content(void **state)
{
    struct rig rig = chain(40, (const char *const[]){ "providers", "reference", NULL });
    struct text_buffer output = explain(rig.session, (inlay_explain_options){ .columns = 120 });

    (void)state;
    assert_non_null(strstr(output.data, " 40  20 Relu, 20 Neg  "));
    text_buffer_free(&output);
    rig_close(&rig);
}

/* A narrow page has every column, and each number whole. */
static void test_every_width(void **state)
{
    static const char *const titles[] = { "nodes", "regions",  "predicted", "share",   "measured",
                                          "ratio", "resident", "peak",      "content", "runner-up" };
    static const uint32_t widths[] = { 20, 40, 60, 72, 80, 132, 400 };
    static float x[] = { 1, -2, 3, -4, 5, -6 };
    struct rig rig = chain(40, (const char *const[]){ "providers", "reference", NULL });

    (void)state;
    rig_floats(&rig, 0, "2,3", x);
    assert_int_equal(inlay_context_measure(rig.context, 1, NULL), INLAY_OK);
    rig_run(&rig);
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        struct text_buffer output =
            explain(rig.session, (inlay_explain_options){ .columns = widths[i], .measured = rig.context });

        for (size_t k = 0; k < sizeof titles / sizeof titles[0]; k++)
            assert_non_null(strstr(output.data, titles[k]));
        assert_non_null(strstr(output.data, "100.0%"));
        text_buffer_free(&output);
    }
    rig_close(&rig);
}

static void test_absent_providers(void **state)
{
    static const char *const options[] = { "providers", "nosuch?,reference", NULL };
    struct rig rig = chain(1, options);
    json_t *json = explain_json(rig.session, (inlay_explain_options){ 0 });
    struct text_buffer output = explain(rig.session, (inlay_explain_options){ 0 });

    (void)state;
    assert_int_equal(json_array_size(json_object_get(json, "not_used")), 1);
    assert_non_null(strstr(output.data, "not used    nosuch: "));
    json_decref(json);
    text_buffer_free(&output);
    rig_close(&rig);
}

static void test_wrong_questions(void **state)
{
    struct rig rig = chain(1, NULL), other = chain(1, NULL);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_explain_options options = { .struct_size = sizeof options, .format = "xml" };
    struct text_buffer output = { 0 };

    (void)state;
    assert_int_equal(inlay_session_explain(rig.session, &options, text_buffer_append, &output, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "text, json or line"));
    options.format = "html"; /* the command line writes pages */
    assert_int_equal(inlay_session_explain(rig.session, &options, text_buffer_append, &output, &diag),
                     INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "inlay explain --from"));
    options.format = "line";
    options.node = "*";
    assert_int_equal(inlay_session_explain(rig.session, &options, text_buffer_append, &output, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "use format text"));
    options.node = NULL;
    options.format = NULL;
    options.flags = 1u << 9;
    assert_int_equal(inlay_session_explain(rig.session, &options, text_buffer_append, &output, &diag),
                     INLAY_INVALID_ARGUMENT);
    options.flags = 0;
    options.measured = other.context;
    assert_int_equal(inlay_session_explain(rig.session, &options, text_buffer_append, &output, &diag),
                     INLAY_INVALID_ARGUMENT);
    options.struct_size = 4;
    assert_int_equal(inlay_session_explain(rig.session, &options, text_buffer_append, &output, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_int_equal(output.bytes, 0);
    rig_close(&rig);
    rig_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_measures),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_measured_bodies),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_refusals_are_folded),
        cmocka_unit_test(test_refusals_of_forbidden_providers),
        cmocka_unit_test(test_runner_up),
        cmocka_unit_test(test_cheaper_runner_up),
        cmocka_unit_test(test_absent_providers),
        cmocka_unit_test(test_wrong_questions),
        cmocka_unit_test(test_what_if),
        cmocka_unit_test(test_wrong_what_ifs),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_what_if_matches_a_session),
        cmocka_unit_test(test_objectives),
        cmocka_unit_test(test_unknown_power),
        cmocka_unit_test(test_impossible_what_if),
        cmocka_unit_test(test_runner_up_matches_a_session),
        cmocka_unit_test(test_content),
        cmocka_unit_test(test_every_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
