/* Sessions are created and destroyed in several threads with the same plugins, valid and invalid; objects that
 * outlive a failure. */
#include "graph_script.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 12 };

static void write_model(struct wire *wire, bool bad)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    script_add(wire, "x : N\n"
                     "at = NonZero(x)\n"
                     "n = Neg(x)");
    mw_node_int(wire, "Gather", "n,at", "y", "axis", bad ? 7 : 0);
    mw_value(wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(wire, mark);
}

/* Returns 0, or the number of the step that failed, because cmocka's assertions work on the main thread only. */
static int open_run_close(bool bad, float seed)
{
    static const int64_t dims = 3;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_value *value = NULL;
    float data[] = { seed, 0, 2 * seed };
    const float *output;
    int failed = 0;
    struct wire wire = { 0 };

    write_model(&wire, bad);
    if (inlay_options_create(&options, &diag) != INLAY_OK ||
        inlay_options_set(options, "providers", "reference", &diag) != INLAY_OK)
        failed = 1;
    if ((inlay_session_create_from_bytes(wire.bytes, wire.count, options, &session, &diag) != INLAY_OK) != bad)
        failed = 2;
    if (!bad && failed == 0) {
        if (inlay_context_create(session, &context, &diag) != INLAY_OK ||
            inlay_value_borrow(INLAY_FLOAT, 1, &dims, data, sizeof data, &value, &diag) != INLAY_OK ||
            inlay_context_set_input(context, 0, value, &diag) != INLAY_OK ||
            inlay_context_run(context, NULL, &diag) != INLAY_OK)
            failed = 3;
        output = failed == 0 ? inlay_value_data(inlay_context_output(context, 0)) : NULL;
        if (output != NULL && (output[0] != -seed || output[1] != -2 * seed))
            failed = 4;
    }
    inlay_value_unref(value);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    wire_deinit(&wire);
    return failed;
}

static void *work(void *arg)
{
    int *failed = arg;

    for (int i = 0; i < ROUNDS && *failed == 0; i++)
        *failed = open_run_close(i % 3 == 2, (float)(i + 1));
    return NULL;
}

static void sessions_in_threads(void **state)
{
    pthread_t threads[THREADS];
    int failed[THREADS] = { 0 };

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &failed[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(failed[i], 0);
    }
}

/* Lists that the caller imported are passed by reference and never written to. */
static void caller_lists(void **state)
{
    float data[] = { 1, 2 };
    inlay_value *item = NULL, *list = NULL;
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "l : sequence float\n"
                      "zero = i[] 0\n"
                      "item = SequenceAt(l,zero)\n"
                      "minus = Neg(item)\n"
                      "y = Exp(minus)\n"
                      "-> item, y");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, (int64_t[]){ 2 }, data, sizeof data, &item, NULL),
                         INLAY_OK);
        assert_int_equal(inlay_value_create_list(INLAY_KIND_SEQUENCE, INLAY_FLOAT, &item, 1, &list, NULL), INLAY_OK);
        inlay_value_unref(item);
        rig_bind(&rig, 0, list);
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "2", data);
        assert_float_equal(data[0], 1, 0);
        assert_float_equal(data[1], 2, 0);
    }
    rig_close(&rig);
}

static void invalid_options(void **state)
{
    static const struct {
        const char *name, *value, *said;
    } rows[] = {
        { "intra_thread", "1", "intra_threads" },
        { "level", "many", "level" },
        { "level", "100", "level" },
        { "policy", "best", "policy" },
        { "dim", "N", "NAME=N" },
        { "dim", "N=-1", "dim" },
        { "max_partitions", "", "max_partitions" },
        { "level", "1 ", "level" },
    };
    inlay_option_doc doc = { .struct_size = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;

    (void)state;
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_not_equal(inlay_options_set(options, rows[i].name, rows[i].value, &diag), INLAY_OK);
        if (strstr(diag.text, rows[i].said) == NULL)
            fail_msg("row %zu: %s", i, diag.text);
    }
    assert_int_equal(inlay_options_describe(0, &doc), INLAY_INVALID_ARGUMENT);
    doc.struct_size = sizeof doc;
    assert_int_equal(inlay_options_describe(0, &doc), INLAY_OK);
    assert_int_equal(inlay_options_describe(10000, &doc), INLAY_NOT_FOUND);
    inlay_options_destroy(options);
}

/* Option dim: a size that is a sum follows from its terms, if these are fixed. */
static void sums_of_dims(void **state)
{
    static const struct {
        const char *past, *fresh, *name;
        int64_t size;
    } rows[] = {
        { NULL, NULL, "past + new", -1 },   { NULL, "new=1", "past + 1", -1 }, { "past=4", NULL, "new + 4", -1 },
        { "past=4", "new=1", "", 5 },       { "past=0", "new=0", "", 0 },      { "past?=4", "new=1", "", 5 },
        { "batch=4", NULL, "new + 4", -1 }, /* the first dimension of the first input */
        { "p:0=4", "f:0=1", "", 5 },        { "batch?=4", "new=1", "", 5 },    { "new=1", "batch=4", "", 5 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *options[5] = { NULL };
        inlay_io_info info = { .struct_size = sizeof info };
        uint32_t n = 0;
        struct wire wire = { 0 };
        struct rig rig;
        script_model(&wire, 17,
                     "p : past\n"
                     "f : new\n"
                     "m : past + new\n"
                     "c = Concat(p,f) axis=0\n"
                     "y = Add(c,m)\n"
                     "-> y");
        for (int k = 0; k < 2; k++)
            if ((k == 0 ? rows[i].past : rows[i].fresh) != NULL) {
                options[n++] = "dim";
                options[n++] = k == 0 ? rows[i].past : rows[i].fresh;
            }
        rig = rig_open(&wire, options);
        assert_int_equal(inlay_session_input(rig.session, 2, &info), INLAY_OK);
        assert_int_equal(info.dims[0], rows[i].size);
        assert_string_equal(info.dim_names[0], rows[i].name);
        rig_close(&rig);
    }
}

/* A difference that would be negative is no size, so it keeps its name. */
static void negative_sums_of_dims(void **state)
{
    static const char *const options[] = { "dim", "n=2", NULL };
    inlay_io_info info = { .struct_size = sizeof info };
    struct rig rig;

    (void)state;
    rig = script_open(options, 17,
                      "x : n - 3\n"
                      "full : n\n"
                      "y = Concat(x,full) axis=0\n"
                      "-> y");
    assert_int_equal(inlay_session_input(rig.session, 0, &info), INLAY_OK);
    assert_int_equal(info.dims[0], -1);
    assert_string_equal(info.dim_names[0], "n - 3");
    rig_close(&rig);
}

/* The declared shape: that of the file, with sizes that inference found, and without names that it made up. */
static void declared_shapes(void **state)
{
    static const struct {
        const char *from, *to; /* the declared shapes of x and of y = Relu(x) */
        int64_t dims[2];
        const char *names[2];
    } rows[] = {
        { "?,2", "?,2", { -1, 2 }, { "", "" } },  { "N,2", "?,2", { -1, 2 }, { "N", "" } },
        { "N,2", "M,2", { -1, 2 }, { "M", "" } }, { "3,2", "M,?", { 3, 2 }, { "", "" } },
        { "N,2", "M,K", { -1, 2 }, { "M", "" } }, { "N,M", "M,?", { -1, -1 }, { "M", "M" } },
        { "3,2", "4,2", { 3, 2 }, { "", "" } },   { "N,2", "M,3", { -1, 2 }, { "N", "" } },
        { "N,2", "M", { -1, 2 }, { "N", "" } }, /* wrong declarations */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17);
        struct rig rig;

        mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, rows[i].from);
        mw_node(&wire, "Relu", "x", "y");
        mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, rows[i].to);
        wire_end(&wire, mark);
        rig = rig_open(&wire, NULL);
        assert_int_equal(inlay_session_output(rig.session, 0, &info), INLAY_OK);
        assert_int_equal(info.declared_rank, 2);
        for (int d = 0; d < 2; d++) {
            assert_int_equal(info.declared_dims[d], rows[i].dims[d]);
            assert_string_equal(info.declared_dim_names[d], rows[i].names[d]);
        }
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(declared_shapes), cmocka_unit_test(sessions_in_threads),
                                        cmocka_unit_test(caller_lists),    cmocka_unit_test(invalid_options),
                                        cmocka_unit_test(sums_of_dims),    cmocka_unit_test(negative_sums_of_dims) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
