/* Option ladder: a session of several variants of a model, of which each run uses the most exact one that is expected
 * to end by its deadline. The variants give different outputs, so that these tell which one ran. */
#include "cmocka_all.h"
#include "api/context.h"
#include "base/clock.h"
#include "onnx_bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* exact: x x x ..., which is x for the unit matrix; rough: -x, in no time; worse: 2 x, after as long as exact. other
 * has another input; fixed: -x of one size. */
enum { EXACT, ROUGH, WORSE, OTHER, FIXED, VARIANTS };
static const char *const names[VARIANTS] = { "exact", "rough", "worse", "other", "fixed" };
static const float factor[VARIANTS] = { 1, -1, 2, 0, -1 };
enum { SMALL = 96, LARGE = 512, PRODUCTS = 8 };
static const uint64_t HOUR_NS = UINT64_C(3600000000000);

static char folder[] = "/tmp/inlay_ladder_XXXXXX";

static const char *path_of(const char *file)
{
    static char path[96];

    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(path_of(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    (void)fclose(file);
}

static void write_model(uint32_t variant)
{
    const int64_t size = variant == FIXED ? SMALL : -1, dims[] = { size, size };
    static onnx_bytes graph, file;
    char from[8] = "x", to[8], name[32];

    graph = file = (onnx_bytes){ .count = 0 };
    onnx_input(&graph, variant == OTHER ? "z" : "x", INLAY_FLOAT, 2, dims);
    for (int i = 0; (variant == EXACT || variant == WORSE) && i < PRODUCTS; i++) {
        char inputs[16];

        (void)snprintf(inputs, sizeof inputs, "%s,x", from);
        (void)snprintf(to, sizeof to, "m%d", i);
        onnx_node(&graph, "MatMul", "", inputs, to);
        (void)snprintf(from, sizeof from, "%s", to);
    }
    if (variant == WORSE)
        onnx_node(&graph, "Add", "", "m7,m7", "y");
    else if (variant == EXACT)
        onnx_node(&graph, "Relu", "", from, "y");
    else
        onnx_node(&graph, "Neg", "", variant == OTHER ? "z" : "x", "y");
    onnx_output(&graph, "y", INLAY_FLOAT, 2, dims);
    assert_int_equal(onnx_file(&file, &graph, 17, NULL), 0);
    (void)snprintf(name, sizeof name, "%s.onnx", names[variant]);
    write_file(name, file.data, file.count);
}

static int set_up(void **state)
{
    static const char manifest[] =
        "{\"schema_version\": \"1.0\", \"components\": {\"model\": {\"variants\": {"
        "\"worse\": {\"variant_directory\": \".\", \"executor_info\": {\"ort\": {\"model_file\": \"worse.onnx\"}},"
        " \"additional_metadata\": {\"inlay\": {\"error\": 0.3}}},"
        "\"rough\": {\"variant_directory\": \".\", \"executor_info\": {\"ort\": {\"model_file\": \"rough.onnx\"}},"
        " \"additional_metadata\": {\"inlay\": {\"error\": 0.1}}},"
        "\"other\": {\"variant_directory\": \".\", \"executor_info\": {\"ort\": {\"model_file\": \"other.onnx\"}},"
        " \"additional_metadata\": {\"inlay\": {\"error\": 0.2}}},"
        "\"fixed\": {\"variant_directory\": \".\", \"executor_info\": {\"ort\": {\"model_file\": \"fixed.onnx\"}},"
        " \"additional_metadata\": {\"inlay\": {\"error\": 0.15}}},"
        "\"none\": {\"variant_directory\": \".\", \"executor_info\": {\"ort\": {\"model_file\": \"rough.onnx\"}}},"
        "\"exact\": {\"variant_directory\": \".\", \"executor_info\": {\"ort\": {\"model_file\": \"exact.onnx\"}},"
        " \"additional_metadata\": {\"inlay\": {\"error\": 0}}}}}}}";

    (void)state;
    if (mkdtemp(folder) == NULL)
        return 1;
    write_file("manifest.json", manifest, sizeof manifest - 1);
    for (uint32_t i = 0; i < VARIANTS; i++)
        write_model(i);
    return 0;
}

static int tear_down(void **state)
{
    char name[32];

    (void)state;
    for (uint32_t i = 0; i < VARIANTS; i++) {
        (void)snprintf(name, sizeof name, "%s.onnx", names[i]);
        (void)unlink(path_of(name));
    }
    (void)unlink(path_of("manifest.json"));
    return rmdir(folder);
}

static inlay_status try_open(const char *path, const char *ladder, const char *option, const char *value,
                             inlay_session **out, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_status status;

    assert_int_equal(inlay_options_create(&options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "reference", diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "ladder", ladder, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "intra_threads", "1", diag), INLAY_OK);
    if (option != NULL)
        assert_int_equal(inlay_options_set(options, option, value, diag), INLAY_OK);
    status = inlay_session_create(path, options, out, diag);
    inlay_options_destroy(options);
    return status;
}

struct subject {
    inlay_session *session;
    inlay_context *context;
    inlay_diag diag;
};

static void open_ladder(struct subject *out, const char *ladder)
{
    *out = (struct subject){ .diag = INLAY_DIAG_INIT };
    if (try_open(folder, ladder, NULL, NULL, &out->session, &out->diag) != INLAY_OK ||
        inlay_context_create(out->session, &out->context, &out->diag) != INLAY_OK)
        fail_msg("%s", out->diag.text);
}

static void close_ladder(struct subject *subject)
{
    inlay_context_destroy(subject->context);
    inlay_session_destroy(subject->session);
}

/* Binds the unit matrix. */
static void bind(struct subject *subject, int64_t n)
{
    inlay_value *x = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (int64_t[]){ n, n }, &x, NULL), INLAY_OK);
    for (int64_t i = 0; i < n; i++)
        ((float *)inlay_value_data(x))[i * n + i] = 1;
    assert_int_equal(inlay_context_set_input(subject->context, 0, x, &subject->diag), INLAY_OK);
    inlay_value_unref(x);
}

/* The last run was one of this variant, and its output is there. */
static void expect_variant(const struct subject *subject, uint32_t variant, double error)
{
    const inlay_value *y = inlay_context_output(subject->context, 0);
    double stated = -1;

    assert_string_equal(inlay_context_variant(subject->context, &stated), names[variant]);
    assert_true(stated == error);
    assert_non_null(y);
    assert_true(((const float *)inlay_value_data((inlay_value *)(uintptr_t)y))[0] == factor[variant]);
}

static void run_by(struct subject *subject, uint64_t deadline_ns)
{
    inlay_run_options run = INLAY_RUN_OPTIONS_INIT;

    run.deadline_ns = deadline_ns;
    if (inlay_context_run(subject->context, &run, &subject->diag) != INLAY_OK)
        fail_msg("%s", subject->diag.text);
}

static void runs_choose_by_deadline(void **state)
{
    struct subject subject;
    inlay_plan_info plan = { .struct_size = sizeof plan };

    (void)state;
    open_ladder(&subject, "worse,rough,exact");
    bind(&subject, SMALL);
    run_by(&subject, 1); /* the first run runs all, and returns the most exact result */
    expect_variant(&subject, EXACT, 0);
    for (int i = 0; i < 3; i++) {
        run_by(&subject, 0);
        expect_variant(&subject, EXACT, 0);
        assert_int_equal(inlay_context_plan(subject.context, &plan), INLAY_OK);
        assert_true(plan.step_count >= PRODUCTS);
        run_by(&subject, 1); /* past: the quickest, which is not the least exact one */
        expect_variant(&subject, ROUGH, 0.1);
        assert_int_equal(inlay_context_plan(subject.context, &plan), INLAY_OK);
        assert_true(plan.step_count < PRODUCTS);
        run_by(&subject, clock_ns() + HOUR_NS);
        expect_variant(&subject, EXACT, 0);
    }
    bind(&subject, SMALL + 1); /* other shapes: a guess from those of the first run */
    run_by(&subject, 1);
    expect_variant(&subject, ROUGH, 0.1);
    run_by(&subject, clock_ns() + HOUR_NS);
    expect_variant(&subject, EXACT, 0);
    close_ladder(&subject);
}

/* A run that takes longer than expected is stopped, and the quickest variant runs. */
static void a_slow_run_gives_way(void **state)
{
    struct subject subject;
    ladder_times *times;

    (void)state;
    open_ladder(&subject, "exact,rough");
    bind(&subject, SMALL);
    run_by(&subject, 0);
    times = &subject.context->ladder->times[0];
    times->quickest[EXACT] = 2 * times->quickest[ROUGH];
    bind(&subject, LARGE);
    run_by(&subject, clock_ns() + 20000000);
    expect_variant(&subject, ROUGH, 0.1);
    close_ladder(&subject);
}

static void limits_hold_for_each_variant(void **state)
{
    inlay_run_options run = INLAY_RUN_OPTIONS_INIT;
    struct subject subject;
    inlay_value *y = NULL, *small = NULL;
    uint32_t cancel = 1;

    (void)state;
    open_ladder(&subject, "exact,rough");
    bind(&subject, SMALL);
    run.timeout_ns = 1;
    assert_int_equal(inlay_context_run(subject.context, &run, &subject.diag), INLAY_DEADLINE_EXCEEDED);
    assert_null(inlay_context_output(subject.context, 0));
    run.timeout_ns = 0;
    run_by(&subject, 0);
    run.deadline_ns = 1;
    run.cancel = &cancel;
    assert_int_equal(inlay_context_run(subject.context, &run, &subject.diag), INLAY_CANCELLED);
    cancel = 0;
    run.timeout_ns = 1;
    assert_int_equal(inlay_context_run(subject.context, &run, &subject.diag), INLAY_DEADLINE_EXCEEDED);
    run.timeout_ns = HOUR_NS;
    assert_int_equal(inlay_context_run_async(subject.context, &run, NULL, NULL, &subject.diag), INLAY_OK);
    assert_int_equal(inlay_context_wait(subject.context, UINT64_MAX, &subject.diag), INLAY_OK);
    expect_variant(&subject, ROUGH, 0.1);

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (int64_t[]){ SMALL, SMALL }, &y, NULL), INLAY_OK);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 1, (int64_t[]){ 4 }, &small, NULL), INLAY_OK);
    run.flags = INLAY_RUN_OUTPUTS_BOUND;
    assert_int_equal(inlay_context_set_output(subject.context, 0, y, &subject.diag), INLAY_OK);
    for (uint64_t deadline = 0; deadline < 2; deadline++) {
        run.deadline_ns = deadline;
        assert_int_equal(inlay_context_run(subject.context, &run, &subject.diag), INLAY_OK);
        assert_ptr_equal(inlay_context_output(subject.context, 0), y);
        assert_true(((float *)inlay_value_data(y))[0] == factor[deadline == 0 ? EXACT : ROUGH]);
    }
    assert_int_equal(inlay_context_set_output(subject.context, 0, small, &subject.diag), INLAY_OK);
    assert_int_equal(inlay_context_run(subject.context, &run, &subject.diag), INLAY_SHAPE_MISMATCH);
    assert_int_equal(inlay_context_trim(subject.context, &subject.diag), INLAY_OK);
    assert_int_equal(inlay_session_trim(subject.session, &subject.diag), INLAY_OK);
    inlay_value_unref(y);
    inlay_value_unref(small);
    assert_int_equal(inlay_context_keep_states(subject.context, 1, &subject.diag), INLAY_NOT_FOUND);
    close_ladder(&subject);
}

static void the_rest_is_refused(void **state)
{
    static const struct {
        const char *file, *ladder, *option, *value, *message; /* file NULL: the package */
    } rows[] = {
        { "exact.onnx", "all", NULL, NULL, "inlay pack" },
        { NULL, "exact,int8", NULL, NULL, "no variant 'int8'; it has: " },
        { NULL, "exact,none", NULL, NULL, "none states no error" },
        { NULL, "exact,rough", "max_error", "0.05", "rough has a larger error than option max_error" },
        { NULL, "exact,rough", "memory_budget", "1000000", "cannot be combined with memory_budget" },
        { NULL, "exact,rough", "memory_limit", "host=100M", "cannot be combined with memory_limit" },
        { NULL, "exact,rough", "watchdog", "1%", "cannot be combined with watchdog" },
        { NULL, "all", NULL, NULL, "other inputs or outputs" },
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    struct subject subject;
    const char *weight = "w";

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (try_open(rows[i].file != NULL ? path_of(rows[i].file) : folder, rows[i].ladder, rows[i].option,
                     rows[i].value, &session, &diag) == INLAY_OK ||
            strstr(diag.text, rows[i].message) == NULL)
            fail_msg("row %zu: '%s' instead of '%s'", i, diag.text, rows[i].message);
    open_ladder(&subject, "exact,rough");
    assert_int_equal(inlay_session_update(subject.session, 1, &weight, (inlay_value *[]){ NULL }, &diag),
                     INLAY_UNSUPPORTED);
    close_ladder(&subject);
}

/* A value that one variant refuses is bound in none. */
static void refused_values_are_not_bound(void **state)
{
    struct subject subject;
    inlay_value *large = NULL;
    const inlay_value *y;

    (void)state;
    open_ladder(&subject, "exact,rough,fixed");
    bind(&subject, SMALL);
    run_by(&subject, 0);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (int64_t[]){ LARGE, LARGE }, &large, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(subject.context, 0, large, &subject.diag), INLAY_SHAPE_MISMATCH);
    inlay_value_unref(large);
    for (int i = 0; i < 2; i++) {
        run_by(&subject, i == 0 ? 0 : 1); /* the most exact variant, the quickest one */
        y = inlay_context_output(subject.context, 0);
        assert_non_null(y);
        assert_int_equal(inlay_value_bytes(y), SMALL * SMALL * sizeof(float));
        assert_true(((const float *)inlay_value_data((inlay_value *)(uintptr_t)y))[0] == (i == 0 ? 1 : -1));
    }
    close_ladder(&subject);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_choose_by_deadline),      cmocka_unit_test(a_slow_run_gives_way),
        cmocka_unit_test(limits_hold_for_each_variant), cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(refused_values_are_not_bound),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
