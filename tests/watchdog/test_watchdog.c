/* Option watchdog with a provider that computes one element wrong (drifting.c): named, shut out, reported with a
 * model. */
#include "cmocka_all.h"
#include "graph_script.h"
#include "run_context.h"
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 40, RUNS = 1000 };

static const char chain[] = "x : 5,8\na = Mul(x, x)\nb = Add(a, x)\nc = Neg(b)\nd = Mul(c, x)\n-> a, d";

static void fill(float *x)
{
    for (int i = 0; i < SIZE; i++)
        x[i] = 2 + (float)i / 16;
}

static void expect_right(const float *x, const float *d)
{
    for (int i = 0; i < SIZE; i++)
        assert_float_equal(d[i], -(x[i] * x[i] + x[i]) * x[i], 1e-3);
}

static void add_line(void *user, uint32_t level, const char *text)
{
    char *all = user;

    (void)level;
    strncat(all, text, 4095 - strlen(all));
    strncat(all, "\n", 4095 - strlen(all));
}

/* A folder for models, which the test removes. */
static char folder[] = "/tmp/inlay-watchdog-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[100];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Opens a session of the script on provider drifting. lines [4096] receives the log; may be NULL. */
static struct rig open_drifting(const char *script, const char *providers, const char *rate, const char *at,
                                const char *error, const char *every, const char *fused, char *lines)
{
    const char *const options[] = { "providers",
                                    providers,
                                    "policy",
                                    "priority",
                                    "plugin_dirs",
                                    DRIFTING_DIR,
                                    "watchdog",
                                    rate,
                                    "watchdog_dir",
                                    folder,
                                    "drifting.at",
                                    at,
                                    "drifting.error",
                                    error,
                                    "drifting.every",
                                    every,
                                    "drifting.fused",
                                    fused,
                                    "probe",
                                    "never",
                                    NULL };
    struct wire wire = { 0 };
    struct rig rig = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *made;

    script_model(&wire, 21, script);
    rig.model = wire;
    keep_plugins();
    made = rig_options(options, &diag);
    if (lines != NULL)
        inlay_options_set_log(made, add_line, lines);
    if (inlay_session_create_from_bytes(wire.bytes, wire.count, made, &rig.session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(made);
    assert_int_equal(inlay_context_create(rig.session, &rig.context, &diag), INLAY_OK);
    return rig;
}

static inlay_watchdog_info info_of(const struct rig *rig)
{
    inlay_watchdog_info info = { .struct_size = sizeof info };

    assert_int_equal(inlay_session_watchdog(rig->session, 1, &info), INLAY_OK);
    return info;
}

static inlay_watchdog_finding finding_of(const struct rig *rig, uint32_t index)
{
    inlay_watchdog_finding finding = { .struct_size = sizeof finding };

    assert_int_equal(inlay_session_watchdog_finding(rig->session, index, &finding), INLAY_OK);
    return finding;
}

/* A model of a finding needs no inputs; it computes the wrong element again on the drifting provider. */
static void expect_model(const inlay_watchdog_finding *finding, const char *op)
{
    const char *const options[] = { "providers", "reference", "tap", "*", NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *made = rig_options(options, &diag);
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    const inlay_value *output;
    double got;

    assert_string_equal(finding->op_type, op);
    assert_non_null(strstr(finding->model_path, op));
    if (inlay_session_create(finding->model_path, made, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    run_context(context);
    output = inlay_context_output(context, 0);
    assert_int_equal(inlay_value_count(output), SIZE);
    got = ((const float *)inlay_value_data(output))[SIZE - 1];
    assert_true(finding->error > fabs(got) * 0.009 && finding->error < fabs(got) * 0.011);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    inlay_options_destroy(made);
}

/* At 1 %, an error of 1e-2 in one element is named within 1,000 runs; after that the results are right. */
static void names_the_node(void **state)
{
    static const char *const rows[][2] = { { "a", "Mul" }, { "b", "Add" }, { "c", "Neg" }, { "d", "Mul" } };
    float x[SIZE];

    (void)state;
    fill(x);
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        char lines[4096] = "";
        struct rig rig = open_drifting(chain, "drifting,reference", "1%", rows[row][0], "0.01", "1", "0", lines);
        inlay_watchdog_finding finding;
        inlay_watchdog_info info;

        rig_floats(&rig, 0, "5,8", x);
        for (int run = 0; run < RUNS; run++)
            rig_run(&rig);
        info = info_of(&rig);
        assert_int_equal(info.finding_count, 1);
        assert_true(info.wrong >= 1 && info.wrong <= info.checked);
        assert_true(info.cpu_ns > 0);
        finding = finding_of(&rig, 0);
        assert_string_equal(finding.provider, "drifting");
        assert_string_equal(finding.output, rows[row][0]);
        assert_int_equal(finding.node_count, 1);
        assert_true(finding.bound >= 0 && finding.bound < finding.error);
        assert_non_null(strstr(finding.text, finding.node));
        assert_non_null(strstr(lines, finding.text));
        assert_string_equal(finding.kernel, "");
        expect_model(&finding, rows[row][1]);
        rig_run(&rig);
        expect_right(x, inlay_value_data(inlay_context_output(rig.context, 1)));
        assert_int_equal(inlay_session_watchdog_finding(rig.session, 1, &finding), INLAY_NOT_FOUND);
        rig_close(&rig);
    }
}

/* An error that is not in every execution, and one that no node has alone. */
static void names_rare_and_fused_errors(void **state)
{
    float x[SIZE];
    struct rig rig = open_drifting(chain, "drifting,reference", "1", "b", "0.01", "7", "0", NULL);
    inlay_watchdog_finding finding;

    (void)state;
    fill(x);
    rig_floats(&rig, 0, "5,8", x);
    for (int run = 0; run < RUNS && info_of(&rig).wrong == 0; run++)
        rig_run(&rig);
    assert_int_equal(info_of(&rig).finding_count, 1);
    rig_close(&rig);

    rig = open_drifting(chain, "drifting,reference", "1", "c", "0.01", "1", "1", NULL);
    rig_floats(&rig, 0, "5,8", x);
    rig_run(&rig);
    assert_int_equal(info_of(&rig).finding_count, 1);
    finding = finding_of(&rig, 0);
    assert_true(finding.node_count > 1);
    assert_non_null(strstr(finding.text, "no node alone has this error"));
    assert_true(access(finding.model_path, R_OK) == 0);
    rig_run(&rig);
    expect_right(x, inlay_value_data(inlay_context_output(rig.context, 1)));
    rig_close(&rig);
}

/* Opens a session of the chain with these options. */
static struct rig open_chain(const char *const *options)
{
    struct wire wire = { 0 };

    script_model(&wire, 21, chain);
    keep_plugins();
    return rig_open(&wire, options);
}

/* After the first run the wrong provider is named, and the next one is right. */
static void expect_named(const char *const *options, const char *provider)
{
    struct rig rig = open_chain(options);
    inlay_watchdog_finding finding;
    float x[SIZE];

    fill(x);
    rig_floats(&rig, 0, "5,8", x);
    for (int run = 0; run < RUNS && info_of(&rig).wrong == 0; run++)
        rig_run(&rig);
    assert_true(info_of(&rig).finding_count >= 1);
    finding = finding_of(&rig, 0);
    assert_string_equal(finding.provider, provider);
    for (int run = 0; run < 8; run++) { /* each of its nodes is found by the first check of it */
        rig_run(&rig);
        (void)info_of(&rig);
    }
    expect_right(x, inlay_value_data(inlay_context_output(rig.context, 1)));
    rig_close(&rig);
}

/* In another process, and in the queue of a device that returns before it has computed. */
static void finds_errors_of_isolated_providers_and_devices(void **state)
{
    static const char *const isolated[] = { "providers",
                                            "drifting,reference",
                                            "policy",
                                            "priority",
                                            "isolate",
                                            "drifting",
                                            "plugin_dirs",
                                            DRIFTING_DIR,
                                            "watchdog",
                                            "1",
                                            "watchdog_dir",
                                            folder,
                                            "probe",
                                            "never",
                                            "drifting.at",
                                            "b",
                                            "drifting.error",
                                            "0.01",
                                            NULL };
    static const char *const device[] = { "providers", "fake,reference", "policy", "priority",     "plugin_dirs",
                                          FAKE_DIR,    "watchdog",       "1",      "watchdog_dir", folder,
                                          "fake.echo", "true",           NULL };

    (void)state;
    expect_named(isolated, "drifting");
    expect_named(device, "fake");
}

/* Without another provider, runs continue with unchanged results. */
static void reports_if_no_other_provider_can(void **state)
{
    char lines[4096] = "";
    struct rig rig = open_drifting(chain, "drifting", "1", "d", "0.01", "1", "0", lines);
    float x[SIZE];

    (void)state;
    fill(x);
    rig_floats(&rig, 0, "5,8", x);
    for (int run = 0; run < 5; run++) {
        rig_run(&rig);
        (void)info_of(&rig);
    }
    assert_int_equal(info_of(&rig).finding_count, 1);
    assert_non_null(strstr(lines, "if another provider can"));
    rig_close(&rig);
}

/* Right results, in all precisions of the provider cpu, and with a body. */
static void finds_nothing_in_right_results(void **state)
{
    static const char *const scripts[] = {
        "x : 5,8\nw = [8,64]\nb = [64]\nh = MatMul(x, w)\ni = Add(h, b)\nj = Gelu(i)\ny = Softmax(j)\n-> y",
        ("x : 5,8\ns = ReduceMax(x) keepdims=0\nk = [] 1.0\nc = Greater(s, k)\n"
         "y = If(c) then:Sqrt(x) else:Neg(x)\nz = Exp(y)\n-> z"),
        "x : 5,8\ns = [] 0.01\nz = uint8[] 128\nq = QuantizeLinear(x, s, z)\ny = DequantizeLinear(q, s, z)\n-> y",
        "x : 5,8\ny = Floor(x)\nk = ReduceSum(y)\nz = ArgMax(x)\n-> k, z",
    };
    static const char *const precisions[] = { "strict", "f32", "fast", "reduced" };
    float x[SIZE];

    (void)state;
    fill(x);
    for (size_t k = 0; k < sizeof scripts / sizeof *scripts * 4; k++) {
        const char *const options[] = { "providers", "cpu,reference", "policy", "priority",  "watchdog",
                                        "1",         "watchdog_dir",  "",       "precision", precisions[k % 4],
                                        NULL };
        struct wire wire = { 0 };
        struct rig rig;

        script_model(&wire, 21, scripts[k / 4]);
        rig = rig_open(&wire, options);
        rig_floats(&rig, 0, "5,8", x);
        for (int run = 0; run < 10; run++) {
            rig_run(&rig);
            (void)info_of(&rig);
        }
        assert_int_equal(info_of(&rig).wrong, 0);
        if (info_of(&rig).checked == 0)
            fail_msg("script %zu, precision %s: nothing was checked", k / 4, precisions[k % 4]);
        rig_close(&rig);
    }
}

static void *run_often(void *user)
{
    struct rig rig = *(const struct rig *)user;
    float x[SIZE];

    fill(x);
    assert_int_equal(inlay_context_create(rig.session, &rig.context, NULL), INLAY_OK);
    rig_floats(&rig, 0, "5,8", x);
    for (int run = 0; run < 200; run++)
        if (inlay_context_run(rig.context, NULL, NULL) != INLAY_OK)
            abort();
    inlay_context_destroy(rig.context);
    return NULL;
}

static void works_on_several_threads(void **state)
{
    struct rig rig = open_drifting(chain, "drifting,reference", "0.5", "b", "0.01", "40", "0", NULL);
    pthread_t threads[4];
    inlay_watchdog_info info;

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, &rig), 0);
    for (size_t i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    info = info_of(&rig);
    assert_true(info.checked + info.dropped > 0);
    assert_true(info.finding_count <= 1);
    rig_close(&rig);
}

/* New weights end the regions that samples refer to. */
static void works_with_new_weights(void **state)
{
    const char *const options[] = { "providers", "cpu,reference", "watchdog", "1", "watchdog_dir", "", NULL };
    const char *const name = "w";
    struct wire wire = { 0 };
    float x[SIZE], w[64];
    struct rig rig;

    (void)state;
    fill(x);
    script_model(&wire, 21, "x : 5,8\nw = [8,8]\ny = MatMul(x, w)\nz = Tanh(y)\n-> z");
    rig = rig_open(&wire, options);
    rig_floats(&rig, 0, "5,8", x);
    for (int change = 0; change < 20; change++) {
        inlay_value *value;

        for (int i = 0; i < 64; i++)
            w[i] = (float)(change + i) / 640;
        value = rig_tensor(INLAY_FLOAT, "8,8", w);
        for (int run = 0; run < 3; run++)
            rig_run(&rig);
        assert_int_equal(inlay_session_update(rig.session, 1, &name, &value, NULL), INLAY_OK);
        inlay_value_unref(value);
    }
    rig_run(&rig);
    assert_int_equal(info_of(&rig).wrong, 0);
    rig_close(&rig);
}

static void child_of_fork_runs_without(void **state)
{
    struct rig rig = open_drifting(chain, "drifting,reference", "1", "", "0", "1", "0", NULL);
    float x[SIZE];
    int ended = 0;
    pid_t child;

    (void)state;
    fill(x);
    rig_floats(&rig, 0, "5,8", x);
    rig_run(&rig);
    assert_true(info_of(&rig).checked > 0);
    child = fork();
    if (child == 0) {
        inlay_watchdog_info info = { .struct_size = sizeof info };
        const bool good = inlay_context_run(rig.context, NULL, NULL) == INLAY_OK &&
                          inlay_session_watchdog(rig.session, 1, &info) == INLAY_OK;

        rig_close(&rig);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    rig_run(&rig);
    assert_true(info_of(&rig).checked > 0);
    rig_close(&rig);
}

static void reads_shares(void **state)
{
    static const struct {
        const char *text;
        inlay_status status;
    } rows[] = { { "0", INLAY_OK },
                 { "1", INLAY_OK },
                 { "0.01", INLAY_OK },
                 { "1%", INLAY_OK },
                 { "12.5%", INLAY_OK },
                 { "100%", INLAY_OK },
                 { "", INLAY_INVALID_ARGUMENT },
                 { "%", INLAY_INVALID_ARGUMENT },
                 { "1.5", INLAY_INVALID_ARGUMENT },
                 { "101%", INLAY_INVALID_ARGUMENT },
                 { "-0.1", INLAY_INVALID_ARGUMENT },
                 { "0.1 ", INLAY_INVALID_ARGUMENT },
                 { "all", INLAY_INVALID_ARGUMENT } };
    inlay_options *options = NULL;

    (void)state;
    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;

        if (inlay_options_set(options, "watchdog", rows[i].text, &diag) != rows[i].status)
            fail_msg("watchdog '%s': %s", rows[i].text, diag.text);
    }
    inlay_options_destroy(options);
}

static void is_off_by_default(void **state)
{
    inlay_watchdog_info info = { .struct_size = sizeof info, .checked = 7 }, unset = { 0 };
    struct wire wire = { 0 };
    float x[SIZE];
    struct rig rig;

    (void)state;
    fill(x);
    script_model(&wire, 21, "x : 5,8\ny = Exp(x)\n-> y");
    rig = rig_open(&wire, NULL);
    rig_floats(&rig, 0, "5,8", x);
    rig_run(&rig);
    assert_int_equal(inlay_session_watchdog(rig.session, 0, &info), INLAY_OK);
    assert_int_equal(info.checked + info.wrong + info.dropped + info.skipped + info.cpu_ns + info.finding_count, 0);
    assert_int_equal(info.reserved, 0);
    assert_int_equal(inlay_session_watchdog(rig.session, 0, &unset), INLAY_INVALID_ARGUMENT);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_node),
        cmocka_unit_test(names_rare_and_fused_errors),
        cmocka_unit_test(finds_errors_of_isolated_providers_and_devices),
        cmocka_unit_test(reports_if_no_other_provider_can),
        cmocka_unit_test(finds_nothing_in_right_results),
        cmocka_unit_test(works_on_several_threads),
        cmocka_unit_test(works_with_new_weights),
        cmocka_unit_test(child_of_fork_runs_without),
        cmocka_unit_test(reads_shares),
        cmocka_unit_test(is_off_by_default),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
