/* A provider that declines offers late: every third region in compile, odd numbers of rows in specialize. Random graphs
 * must give the same results as on the reference provider alone, at every number of rows. */
#include "rig.h"
#include "random.h"
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

enum { GRAPHS = 500, COLUMNS = 3, MOST_NODES = 12, MOST_ROWS = 6 };

static uint64_t dice;

static void write_graph(struct wire *wire, uint64_t seed)
{
    static const char *const ops[] = { "Relu", "Relu", "Add", "Add", "Neg", "Mul", "Abs" };
    wire_mark mark = mw_begin(wire, 8, 17);
    uint32_t nodes, made = 1;
    char inputs[32], output[16];

    dice = seed;
    nodes = 2 + random_below(&dice, MOST_NODES - 1);
    mw_value(wire, MW_INPUT, "v0", INLAY_FLOAT, "N,3");
    for (uint32_t i = 0; i < nodes; i++, made++) {
        const char *op = ops[random_below(&dice, sizeof ops / sizeof ops[0])];
        uint32_t operand = random_below(&dice, 3) == 0 ? random_below(&dice, made) : made - 1;

        (void)snprintf(output, sizeof output, "v%u", made);
        if (strcmp(op, "Add") == 0 || strcmp(op, "Mul") == 0)
            (void)snprintf(inputs, sizeof inputs, "v%u,v%u", operand, (uint32_t)random_below(&dice, made));
        else
            (void)snprintf(inputs, sizeof inputs, "v%u", operand);
        mw_node(wire, op, inputs, output);
    }
    for (uint32_t k = made - 1; k >= 1 && k + 2 >= made; k--) {
        (void)snprintf(output, sizeof output, "v%u", k);
        mw_value(wire, MW_OUTPUT, output, INLAY_FLOAT, "N,3");
    }
    wire_end(wire, mark);
}

static struct rig open_graph(uint64_t seed, const char *providers)
{
    const char *options[] = {
        "providers", providers, "plugin_dirs", FAULTY_DIR, "probe", "never", "cache_dir", "", NULL
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct rig rig;

    write_graph(&wire, seed);
    if (rig_try_open(&wire, options, &rig, &diag) != INLAY_OK)
        fail_msg("graph %llu on %s: %s", (unsigned long long)seed, providers, diag.text);
    return rig;
}

static inlay_status try_at(inlay_context *context, uint32_t rows, inlay_diag *diag)
{
    float x[MOST_ROWS * COLUMNS];
    const int64_t dims[2] = { rows, COLUMNS };
    inlay_value *value = NULL;
    inlay_status status = inlay_value_create(INLAY_FLOAT, 2, dims, &value, diag);

    for (uint32_t i = 0; i < rows * COLUMNS; i++)
        x[i] = (float)((int)(i * 7 % 11) - 5) / 4;
    if (status == INLAY_OK) {
        memcpy(inlay_value_data(value), x, rows * COLUMNS * sizeof *x);
        status = inlay_context_set_input(context, 0, value, diag);
    }
    if (status == INLAY_OK)
        status = inlay_context_run(context, NULL, diag);
    inlay_value_unref(value);
    return status;
}

static void run_at(struct rig *rig, uint32_t rows)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (try_at(rig->context, rows, &diag) != INLAY_OK)
        fail_msg("%u rows: %s", rows, diag.text);
}

static void compare(const struct rig *a, const struct rig *b, uint64_t seed, uint32_t rows)
{
    for (uint32_t k = 0; k < inlay_session_output_count(a->session); k++) {
        const inlay_value *value = inlay_context_output(a->context, k), *other = inlay_context_output(b->context, k);

        assert_non_null(value);
        assert_int_equal(inlay_value_bytes(value), inlay_value_bytes(other));
        if (memcmp(inlay_value_data(value), inlay_value_data(other), inlay_value_bytes(value)) != 0)
            fail_msg("graph %llu, %u rows: output %u differs", (unsigned long long)seed, rows, k);
    }
}

static void random_graphs(void **state)
{
    const char *declines = *state;

    assert_int_equal(setenv("FAULTY_DECLINES", declines, 1), 0);
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct rig declining = open_graph(seed, "faulty,reference"), expected = open_graph(seed, "reference");
        /* Shapes repeat, to test that the host remembers declined offers. */
        static const uint32_t rows[] = { 2, 3, 4, 3, 1, 6, 2, 5, 3 };

        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            run_at(&declining, rows[i]);
            run_at(&expected, rows[i]);
            compare(&declining, &expected, seed, rows[i]);
        }
        rig_close(&declining);
        rig_close(&expected);
    }
    (void)unsetenv("FAULTY_DECLINES");
}

struct page {
    char text[1 << 16];
    size_t count;
};

static void keep(void *user, const char *text, size_t bytes)
{
    struct page *page = user;

    assert_true(page->count + bytes < sizeof page->text);
    memcpy(page->text + page->count, text, bytes);
    page->count += bytes;
    page->text[page->count] = '\0';
}

/* The explanation lists the offers declined in runs, with the shapes. */
static void explained(void **state)
{
    static const char *const formats[] = { "text", "json" };
    struct rig rig;

    (void)state;
    assert_int_equal(setenv("FAULTY_DECLINES", "specialize", 1), 0);
    rig = open_graph(3, "faulty,reference");
    for (int after = 0; after < 2; after++) {
        for (int i = 0; i < 2; i++) {
            struct page *page = calloc(1, sizeof *page);

            assert_non_null(page);
            assert_int_equal(
                inlay_session_explain(
                    rig.session,
                    &(inlay_explain_options){ .struct_size = sizeof(inlay_explain_options), .format = formats[i] },
                    keep, page, NULL),
                INLAY_OK);
            assert_true((strstr(page->text, "3 rows are an odd number") != NULL) == after);
            assert_true((strstr(page->text, "[3,3]") != NULL) == after);
            free(page);
        }
        run_at(&rig, 3);
    }
    rig_close(&rig);
    (void)unsetenv("FAULTY_DECLINES");
}

/* Two threads run the same declined shapes concurrently: one of them repeats the assignment, the other one waits. */
struct meeting {
    inlay_context *context; /* of the second */
    inlay_status status;
    pthread_t other;
    bool started;
    uint32_t assignments; /* log lines about an assignment */
};

static void *run_too(void *user)
{
    struct meeting *meeting = user;
    inlay_diag diag = INLAY_DIAG_INIT;

    meeting->status = try_at(meeting->context, 3, &diag);
    return NULL;
}

/* Delays the first thread, so that the second one has time for a wrong second assignment. */
static void on_log(void *user, uint32_t level, const char *text)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    struct meeting *meeting = user;

    (void)level;
    if (strstr(text, "is assigned again for some shapes") == NULL)
        return;
    if (__atomic_add_fetch(&meeting->assignments, 1, __ATOMIC_SEQ_CST) > 1)
        return;
    meeting->started = pthread_create(&meeting->other, NULL, run_too, meeting) == 0;
    for (int i = 0; i < 200 && __atomic_load_n(&meeting->assignments, __ATOMIC_SEQ_CST) == 1; i++)
        (void)nanosleep(&pause, NULL);
}

static void assigned_once(void **unused)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    struct meeting meeting = { 0 };
    wire_mark mark;
    struct wire wire = { 0 };
    struct rig rig = { 0 };

    (void)unused;
    assert_int_equal(setenv("FAULTY_DECLINES", "specialize", 1), 0);
    mark = mw_begin(&wire, 8, 17);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "N,3");
    mw_node(&wire, "Relu", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,3");
    wire_end(&wire, mark);
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "faulty,reference", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "plugin_dirs", FAULTY_DIR, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "probe", "never", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "cache_dir", "", &diag), INLAY_OK);
    inlay_options_set_log(options, on_log, &meeting);
    if (inlay_session_create_from_bytes(wire.bytes, wire.count, options, &rig.session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    assert_int_equal(inlay_context_create(rig.session, &rig.context, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(rig.session, &meeting.context, &diag), INLAY_OK);
    run_at(&rig, 3);
    assert_true(meeting.started);
    assert_int_equal(pthread_join(meeting.other, NULL), 0);
    assert_int_equal(meeting.status, INLAY_OK);
    assert_int_equal(meeting.assignments, 1);
    inlay_context_destroy(meeting.context);
    inlay_context_destroy(rig.context);
    inlay_session_destroy(rig.session);
    wire_deinit(&wire);
    (void)unsetenv("FAULTY_DECLINES");
}

/* If no other provider supports the node, the error contains the message of the provider that declined. */
static void no_other_provider(void **unused)
{
    const char *options[] = {
        "providers", "faulty", "plugin_dirs", FAULTY_DIR, "probe", "never", "cache_dir", "", NULL
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    struct wire wire = { 0 };
    wire_mark mark;
    struct rig rig;

    (void)unused;
    assert_int_equal(setenv("FAULTY_DECLINES", "specialize", 1), 0);
    mark = mw_begin(&wire, 8, 17);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "N,3");
    mw_node(&wire, "Relu", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,3");
    wire_end(&wire, mark);
    assert_int_equal(rig_try_open(&wire, options, &rig, &diag), INLAY_OK);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (int64_t[]){ 3, 3 }, &value, &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_input(rig.context, 0, value, &diag), INLAY_OK);
        assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_UNSUPPORTED);
        assert_non_null(strstr(diag.text, "3 rows are an odd number"));
        assert_non_null(strstr(diag.text, "faulty_plugin"));
        inlay_value_unref(value);
        run_at(&rig, 2); /* other shapes run */
    }
    rig_close(&rig);
    (void)unsetenv("FAULTY_DECLINES");
}

/* An optional provider that cannot be created is skipped, also with settings of the session that it accepts; its own
 * settings may be the reason. */
static void optional_provider_is_skipped(void **unused)
{
    static const struct {
        const char *name, *value;
        inlay_status status;
    } settings[] = { { "level", "1", INLAY_OK },
                     { "isa", "baseline", INLAY_OK },
                     { "faulty.other", "text", INLAY_UNSUPPORTED } };

    (void)unused;
    assert_int_equal(setenv("FAULTY", "create:4:text", 1), 0);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const char *options[] = {
            "providers", "reference,faulty?", "plugin_dirs",     FAULTY_DIR, "probe", "never", "cache_dir",
            "",          settings[i].name,    settings[i].value, NULL
        };
        inlay_diag diag = INLAY_DIAG_INIT;
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17);
        struct rig rig;

        mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "N,3");
        mw_node(&wire, "Relu", "x", "y");
        mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,3");
        wire_end(&wire, mark);
        assert_int_equal(rig_try_open(&wire, options, &rig, &diag), settings[i].status);
        if (settings[i].status != INLAY_OK)
            assert_non_null(strstr(diag.text, "only a sentence"));
        rig_close(&rig);
    }
    (void)unsetenv("FAULTY");
}

static char compile_word[] = "compile", specialize_word[] = "specialize", both_word[] = "both";

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(random_graphs, compile_word),
        cmocka_unit_test_prestate(random_graphs, specialize_word),
        cmocka_unit_test_prestate(random_graphs, both_word),
        cmocka_unit_test(explained),
        cmocka_unit_test(assigned_once),
        cmocka_unit_test(no_other_provider),
        cmocka_unit_test(optional_provider_is_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
