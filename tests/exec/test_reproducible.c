/* Option reproducible=cpu chooses the kernels of provider cpu for the whole process. ctest runs this program once for
 * each order of sessions:
 *   test_exec_reproducible           the first session sets the option
 *   test_exec_reproducible default   the first session does not set it
 *   test_exec_reproducible busy      the probe of provider cpu exceeded its time */
#include "graph_script.h"
#include "plugin/admit.h"
#include "session/session.h"

static bool default_first, busy;
static const char model[] = "x : 5,333\nw = [333,47]\nb = [47]\np = Gemm(x, w, b)\ny = Sigmoid(p)\n-> y";

/* Runs the model with these providers (NULL: all) and this value of option reproducible. Returns false if the session
 * could not be created. */
static bool run(const char *providers, const char *reproducible, struct rig *out, inlay_diag *diag)
{
    inlay_options *options = NULL;
    struct wire wire = { 0 };
    inlay_status status;

    *diag = (inlay_diag)INLAY_DIAG_INIT;
    script_model(&wire, 13, model);
    *out = (struct rig){ .model = wire };
    keep_plugins();
    assert_int_equal(inlay_options_create(&options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "reproducible", reproducible, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "cache_dir", "", diag), INLAY_OK);
    if (providers != NULL)
        assert_int_equal(inlay_options_set(options, "providers", providers, diag), INLAY_OK);
    status = inlay_session_create_from_bytes(wire.bytes, wire.count, options, &out->session, diag);
    inlay_options_destroy(options);
    if (status != INLAY_OK) {
        rig_close(out);
        assert_int_equal(status, INLAY_INVALID_ARGUMENT);
        return false;
    }
    assert_int_equal(inlay_context_create(out->session, &out->context, diag), INLAY_OK);
    script_feed(out, 5);
    rig_run(out);
    return true;
}

static void run_all(const char *providers, const char *reproducible, struct rig *out)
{
    inlay_diag diag;

    if (!run(providers, reproducible, out, &diag))
        fail_msg("providers %s, reproducible %s: %s", providers != NULL ? providers : "(all)", reproducible, diag.text);
}

static bool has_provider(const struct rig *rig, const char *name)
{
    for (uint32_t i = 0; i < rig->session->env.provider_count; i++)
        if (strcmp(rig->session->providers[i].name, name) == 0)
            return true;
    return false;
}

/* Closes both. */
static void assert_same_bits(struct rig *first, struct rig *second)
{
    const inlay_value *left = inlay_context_output(first->context, 0),
                      *right = inlay_context_output(second->context, 0);

    assert_int_equal(inlay_value_bytes(left), 5 * 47 * sizeof(float));
    assert_memory_equal(inlay_value_data(left), inlay_value_data(right), inlay_value_bytes(left));
    rig_close(first);
    rig_close(second);
}

/* Later sessions without the option use the same kernels. */
static void set_first(void **state)
{
    struct rig first, later, again;

    (void)state;
    if (default_first || busy)
        skip();
    run_all("cpu,reference", "cpu", &first);
    assert_true(has_provider(&first, "cpu"));
    run_all("cpu,reference", "0", &later);
    assert_true(has_provider(&later, "cpu"));
    assert_same_bits(&first, &later);
    run_all("cpu,reference", "cpu", &first);
    run_all(NULL, "cpu", &again);
    assert_true(has_provider(&again, "cpu"));
    assert_same_bits(&first, &again);
}

/* Later sessions with the option do not use provider cpu, and fail if they list it. */
static void set_later(void **state)
{
    struct rig first, later, reference;
    const session_skipped *skipped;
    inlay_diag diag;

    (void)state;
    if (!default_first)
        skip();
    run_all("cpu,reference", "0", &first);
    assert_true(has_provider(&first, "cpu"));
    assert_false(run("cpu,reference", "cpu", &later, &diag));
    assert_non_null(strstr(diag.text, "reproducible is cpu, but other kernels are in use in this process"));
    run_all(NULL, "cpu", &later);
    assert_false(has_provider(&later, "cpu"));
    skipped = later.session->skipped;
    while (skipped != NULL && strcmp(skipped->name, "cpu") != 0)
        skipped = skipped->next;
    assert_non_null(skipped);
    assert_non_null(strstr(skipped->reason, "set it for the first session"));
    run_all("reference", "cpu", &reference);
    assert_same_bits(&later, &reference);
    run_all("cpu,reference", "0", &later); /* the failure has no effect on sessions without the option */
    assert_true(has_provider(&later, "cpu"));
    assert_same_bits(&first, &later);
}

/* Makes this process remember that the probe of the plugin cpu exceeded its time. */
static void remember_hung_probe(void)
{
    const plugin_search search = { .probe = PLUGIN_PROBE_NEVER };
    char dir[PATH_MAX], path[PATH_MAX + 32];
    struct admission admission;
    inlay_diag diag = INLAY_DIAG_INIT;

    assert_non_null(plugin_default_dir(dir, sizeof dir));
    (void)snprintf(path, sizeof path, "%s/inlay-cpu.so", dir);
    assert_int_equal(admit_open(&search, path, dir, &admission, &diag), INLAY_OK);
    assert_int_equal(admit_begin(&search, &admission, &diag), INLAY_OK);
    verdict_keep(&admission.key, &(struct verdict){ VERDICT_HUNG, "it had not returned" });
    admission_close(&admission);
}

/* The session fails, because provider reference has other bits than cpu. */
static void probe_takes_too_long(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    struct wire wire = { 0 };

    (void)state;
    if (!busy)
        skip();
    remember_hung_probe();
    script_model(&wire, 13, model);
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "cache_dir", "", &diag), INLAY_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(inlay_options_set(options, "reproducible", i == 0 ? "1" : "cpu", &diag), INLAY_OK);
        assert_int_equal(inlay_session_create_from_bytes(wire.bytes, wire.count, options, &session, &diag),
                         INLAY_UNSUPPORTED);
        assert_non_null(strstr(diag.text, "option reproducible: results without provider cpu have other bits, and its "
                                          "plugin was not loaded: it had not returned; it is probed again"));
    }
    assert_int_equal(inlay_options_set(options, "reproducible", "0", &diag), INLAY_OK);
    assert_int_equal(inlay_session_create_from_bytes(wire.bytes, wire.count, options, &session, &diag), INLAY_OK);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    wire_deinit(&wire);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_first),
        cmocka_unit_test(set_later),
        cmocka_unit_test(probe_takes_too_long),
    };

    busy = argc > 1 && strcmp(argv[1], "busy") == 0;
    default_first = argc > 1 && strcmp(argv[1], "default") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
