/* New providers: ties in the default order; tune compares whole runs with and without each provider. No condition
 * depends on the speed of the machine: the newcomer waits, in runs of a model, for a multiple of the time that the
 * reference provider needs. */
#include "assigned.h"
#include "folder.h"
#include "inlay/inlay.h"
#include "onnx_bytes.h"

/* A chain of `count` nodes, at most 3. providers "": all; size -1: symbolic. */
static inlay_session *open_chain(const char *op, int count, const char *providers, int64_t size)
{
    const int64_t dims[] = { size };
    static const char *const names[] = { "x", "a", "b", "y" };
    static onnx_bytes file; /* the session reads from it */
    onnx_bytes bytes = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_options *options;

    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "plugin_dirs", NEWCOMERS, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", providers, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "intra_threads", "1", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "level", "0", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "cache_dir", folder, &diag), INLAY_OK);
    onnx_input(&bytes, "x", INLAY_FLOAT, 1, dims);
    for (int i = 0; i < count; i++)
        onnx_node(&bytes, op, "", names[i], i + 1 < count ? names[i + 1] : "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 1, dims);
    file.count = 0;
    assert_int_equal(onnx_file(&file, &bytes, 17, NULL), 0);
    if (inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    return session;
}

static inlay_session *open_model(const char *providers, int64_t size)
{
    return open_chain("Tan", 3, providers, size);
}

/* Who runs the model? */
static bool is_assigned(const char *providers, const char *wanted)
{
    inlay_session *session = open_model(providers, 1 << 14);
    const bool runs = runs_on(session, wanted);

    inlay_session_destroy(session);
    return runs;
}

static void set_price(double ns)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%.17g", ns);
    assert_int_equal(setenv("RIVAL_NS", text, 1), 0);
}

struct seen {
    uint32_t runs, chosen;
    char left_out[64];
};

static void note_run(void *user, const inlay_tune_run *run)
{
    struct seen *seen = user;

    assert_true(run->struct_size >= sizeof *run);
    assert_true(run->ns > 0 && run->assigned_ns > 0 && run->rounds > 0);
    assert_null(run->alone); /* the newcomer alone is the assignment that the run is compared with */
    seen->runs++;
    seen->chosen += run->chosen;
    if (run->chosen) {
        assert_true(run->ns < run->assigned_ns);
        (void)snprintf(seen->left_out, sizeof seen->left_out, "%s", run->left_out);
    }
}

static inlay_tune_result tune(inlay_session *session, inlay_value *input, struct seen *seen)
{
    inlay_tune_options how = { .struct_size = sizeof how,
                               .inputs = input != NULL ? &input : NULL,
                               .input_count = input != NULL,
                               .runs = 5,
                               .run = note_run,
                               .run_user = seen };
    inlay_tune_result result = { .struct_size = sizeof result };
    inlay_diag diag = INLAY_DIAG_INIT;

    *seen = (struct seen){ 0 };
    if (inlay_tune(session, &how, &result, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return result;
}

static void a_newcomer_that_slows_runs_is_left_out(void **state)
{
    inlay_session *session = open_model("alternating,reference", 1 << 14);
    inlay_tune_result result;
    struct seen seen;

    (void)state;
    assert_true(runs_on(session, "alternating"));
    result = tune(session, NULL, &seen);
    assert_int_equal(result.left_out_count, 1);
    assert_int_equal(seen.chosen, 1);
    assert_string_equal(seen.left_out, "alternating");
    assert_int_equal(result.changed_count, 3);
    inlay_session_destroy(session);

    session = open_model("alternating,reference", 1 << 14);
    assert_false(runs_on(session, "alternating"));
    assert_true(runs_on(session, "reference"));
    result = tune(session, NULL, &seen); /* nothing has changed, so neither does the result */
    assert_int_equal(result.left_out_count, 1);
    assert_int_equal(seen.chosen, 1);
    inlay_session_destroy(session);
    session = open_model("alternating,reference", 1 << 14);
    assert_false(runs_on(session, "alternating"));
    inlay_session_destroy(session);

    /* The result holds for these sizes only. */
    session = open_model("alternating,reference", 1 << 15);
    assert_true(runs_on(session, "alternating"));
    inlay_session_destroy(session);
}

/* A session assigns nodes before it knows its inputs: measurements made with inputs apply if they have the sizes that
 * the session assumes. */
static void a_result_holds_for_assumed_sizes(void **state)
{
    static const int64_t dims[] = { 1 << 14 };
    inlay_session *session = open_model("alternating,reference", -1);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *input = NULL;
    struct seen seen;

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 1, dims, &input, &diag), INLAY_OK);
    memset(inlay_value_data(input), 0, sizeof(float) << 14);
    assert_int_equal(tune(session, input, &seen).left_out_count, 1);
    inlay_session_destroy(session);
    session = open_model("alternating,reference", -1);
    assert_false(runs_on(session, "alternating"));
    inlay_session_destroy(session);
    inlay_value_unref(input);
}

/* The result is about the compared providers: it stays when others come and go. */
static void a_result_survives_other_providers(void **state)
{
    inlay_session *session = open_model("alternating,reference", 1 << 14);
    struct seen seen;

    (void)state;
    assert_int_equal(tune(session, NULL, &seen).left_out_count, 1);
    inlay_session_destroy(session);
    set_price(1e9);
    assert_false(is_assigned("alternating,reference", "alternating"));
    assert_true(is_assigned("a_rival,alternating,reference", "reference"));
    assert_true(is_assigned("reference,alternating,a_rival", "reference"));
    set_price(1); /* the newcomer was not compared, so only its price counts */
    assert_true(is_assigned("alternating,a_rival,reference", "a_rival"));
    assert_false(is_assigned("alternating,a_rival,reference", "alternating"));
}

/* A provider is left out for the sake of those that ran instead. */
static void a_result_needs_the_providers_of_the_faster_assignment(void **state)
{
    inlay_session *session;
    struct seen seen;

    (void)state;
    set_price(1e3);
    session = open_model("alternating,a_rival", 1 << 14);
    assert_int_equal(tune(session, NULL, &seen).left_out_count, 1);
    assert_string_equal(seen.left_out, "alternating");
    inlay_session_destroy(session);
    assert_true(is_assigned("alternating,a_rival", "a_rival"));
    assert_true(is_assigned("a_rival,alternating", "a_rival"));
    assert_false(is_assigned("alternating,a_rival,reference", "alternating"));
    assert_true(is_assigned("alternating,reference", "alternating")); /* without a_rival, the result is void */
}

/* In the default order, a plugin of another folder comes after inlay's own providers. */
static void a_newcomer_wins_no_tie(void **state)
{
    static const char price[] = "\"offers\":[{\"provider\":\"cpu\",", compared[] = "\"compared_ns\":";
    inlay_session *session;
    const char *offer;
    double ns;

    (void)state;
    set_price(1e9);
    session = open_chain("Exp", 1, "", 1 << 20);
    assert_true(runs_on(session, "cpu"));
    offer = strstr(explained(session), price);
    assert_non_null(offer);
    offer = strstr(offer, compared);
    assert_non_null(offer);
    ns = atof(offer + sizeof compared - 1);
    assert_true(ns > 0);
    inlay_session_destroy(session);

    set_price(ns);
    session = open_chain("Exp", 1, "", 1 << 20);
    assert_true(runs_on(session, "cpu"));
    inlay_session_destroy(session);
    set_price(0.9 * ns); /* within the error of a model */
    session = open_chain("Exp", 1, "", 1 << 20);
    assert_true(runs_on(session, "cpu"));
    inlay_session_destroy(session);
    set_price(0.2 * ns); /* clearly lower */
    session = open_chain("Exp", 1, "", 1 << 20);
    assert_true(runs_on(session, "a_rival"));
    inlay_session_destroy(session);
    set_price(ns); /* an order that the user states */
    session = open_chain("Exp", 1, "a_rival,cpu,reference", 1 << 20);
    assert_true(runs_on(session, "a_rival"));
    inlay_session_destroy(session);
}

/* A run of the rival sleeps for a millisecond, as a library does that waits for its own threads. */
static void waiting_is_part_of_the_price(void **state)
{
    struct seen seen = { 0 };
    inlay_session *session;
    const char *text;

    (void)state;
    set_price(1e9);
    session = open_model("a_rival", 1 << 10);
    (void)tune(session, NULL, &seen);
    inlay_session_destroy(session);
    session = open_model("a_rival", 1 << 10); /* three nodes */
    text = explained(session);
    assert_non_null(strstr(text, "\"price\":\"measured\""));
    text = strstr(text, "\"cost_ns\":");
    assert_non_null(text);
    assert_true(strtod(text + strlen("\"cost_ns\":"), NULL) >= 3e6);
    inlay_session_destroy(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(waiting_is_part_of_the_price, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_result_holds_for_assumed_sizes, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_newcomer_that_slows_runs_is_left_out, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_result_survives_other_providers, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_result_needs_the_providers_of_the_faster_assignment, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_newcomer_wins_no_tie, make_folder, drop_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
