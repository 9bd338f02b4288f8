/* Tests of inlay.h: sessions from three sources, inputs and outputs, binding, DLPack, cancellation, deadlines, errors
 * with their location. */
#include "cmocka_all.h"
#include "forbid_call.h"
#include "inlay/inlay.h"
#include "model_writer.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <stdbool.h>
#include <unistd.h>

#define CASE(path) ONNX_TEST_DATA "/" path "/model.onnx"

static inlay_session *open_session(const char *path)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;

    if (inlay_session_create(path, NULL, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return session;
}

static inlay_context *open_context(inlay_session *session)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;

    if (inlay_context_create(session, &context, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return context;
}

static inlay_value *floats(uint32_t rank, const int64_t *dims, float *data, uint64_t count)
{
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, rank, dims, data, count * sizeof *data, &value, NULL), INLAY_OK);
    return value;
}

static void run_add(inlay_session *session)
{
    static const int64_t dims[] = { 3, 4, 5 };
    float x[60], y[60];
    inlay_context *context = open_context(session);
    inlay_value *vx, *vy;
    const float *sum;

    for (int i = 0; i < 60; i++) {
        x[i] = (float)i;
        y[i] = 0.5f;
    }
    vx = floats(3, dims, x, 60);
    vy = floats(3, dims, y, 60);
    assert_int_equal(inlay_context_set_input(context, 0, vx, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 1, vy, NULL), INLAY_OK);
    assert_int_equal(inlay_context_run(context, NULL, NULL), INLAY_OK);
    sum = inlay_value_data(inlay_context_output(context, 0));
    for (int i = 0; i < 60; i++)
        assert_float_equal(sum[i], (float)i + 0.5f, 0);
    inlay_value_unref(vx);
    inlay_value_unref(vy);
    inlay_context_destroy(context);
}

/* No telemetry: a session and a run open no network connections, not even one that would fail. */
static void test_sends_nothing(void **state)
{
    (void)state;
    for (int opens = 0; opens < 2; opens++) {
        const pid_t child = fork();
        int status;

        assert_true(child >= 0);
        if (child == 0) {
            inlay_session *session;

            forbid_networks();
            if (opens == 1) /* what the filter does to a process that connects */
                _exit(socket(AF_INET, SOCK_STREAM, 0) == -1 ? 3 : 4);
            session = open_session(CASE("node/test_add"));
            run_add(session);
            inlay_session_destroy(session);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (opens == 0)
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        else
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    }
}

static void test_from_path(void **state)
{
    inlay_session *session = open_session(CASE("node/test_add"));

    (void)state;
    run_add(session);
    inlay_session_destroy(session);
}

static void test_from_bytes_and_fd(void **state)
{
    int fd = open(CASE("node/test_add"), O_RDONLY);
    struct stat st;
    char *bytes;
    inlay_session *session = NULL;

    (void)state;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(inlay_session_create_from_fd(fd, NULL, &session, NULL), INLAY_OK);
    run_add(session);
    inlay_session_destroy(session);
    bytes = malloc((size_t)st.st_size);
    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
    close(fd);
    assert_int_equal(inlay_session_create_from_bytes(bytes, (uint64_t)st.st_size, NULL, &session, NULL), INLAY_OK);
    run_add(session);
    inlay_session_destroy(session);
    free(bytes);
}

static void test_describes_io(void **state)
{
    inlay_session *session = open_session(CASE("node/test_add"));
    inlay_io_info info = { .struct_size = sizeof info }, older_info = { .struct_size = 16 };

    (void)state;
    assert_int_equal(inlay_session_input_count(session), 2);
    assert_int_equal(inlay_session_output_count(session), 1);
    assert_int_equal(inlay_session_input(session, 1, &info), INLAY_OK);
    assert_string_equal(info.name, "y");
    assert_int_equal(info.dtype, INLAY_FLOAT);
    assert_int_equal(info.rank, 3);
    assert_int_equal(info.dims[2], 5);
    assert_int_equal(inlay_session_input(session, 2, &info), INLAY_NOT_FOUND);
    assert_int_equal(inlay_session_find_input(session, "x"), 0);
    assert_int_equal(inlay_session_find_output(session, "missing"), INLAY_NONE);
    /* A caller compiled with a shorter struct gets the members that it knows. */
    assert_int_equal(inlay_session_input(session, 0, &older_info), INLAY_OK);
    assert_string_equal(older_info.name, "x");
    assert_int_equal(older_info.dtype, 0);
    inlay_session_destroy(session);
}

/* Writes a model: producer "maker", metadata a=1, b=2; x -> Abs -> y. */
static void write_model(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "3");
    mw_node(wire, "Abs", "x", "y");
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, "3");
    wire_end(wire, mark);
    wire_text(wire, 2, "maker");
    mw_entry(wire, 14, "a", "1");
    mw_entry(wire, 14, "b", "2");
}

static void test_model_info(void **state)
{
    inlay_model_info info = { .struct_size = sizeof info }, short_info = { .struct_size = 16 };
    inlay_session_provider_info provider_info = { .struct_size = sizeof provider_info };
    const char *key, *value;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    struct wire wire = { 0 };

    (void)state;
    write_model(&wire);
    if (inlay_session_create_from_bytes(wire.bytes, wire.count, NULL, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(inlay_session_model(session, &info), INLAY_OK);
    assert_string_equal(info.producer_name, "maker");
    assert_string_equal(info.producer_version, "");
    assert_string_equal(info.domain, "");
    assert_int_equal(info.ir_version, 8);
    assert_int_equal(info.metadata_count, 2);
    assert_int_equal(inlay_session_metadata(session, 1, &key, &value), INLAY_OK);
    assert_string_equal(key, "b");
    assert_string_equal(value, "2");
    assert_int_equal(inlay_session_metadata(session, 2, &key, &value), INLAY_NOT_FOUND);
    assert_null(key);
    assert_int_equal(inlay_session_model(session, &short_info), INLAY_OK); /* an older caller's struct */
    assert_string_equal(short_info.producer_name, "maker");
    assert_null(short_info.producer_version);
    assert_int_equal(inlay_session_provider(session, 0, &provider_info), INLAY_OK);
    assert_true(strlen(provider_info.name) > 0);
    assert_null(provider_info.skipped);
    assert_int_equal(inlay_session_provider(session, 99, &provider_info), INLAY_NOT_FOUND);
    provider_info.struct_size = 0;
    assert_int_equal(inlay_session_provider(session, 0, &provider_info), INLAY_INVALID_ARGUMENT);
    inlay_session_destroy(session);
    wire_deinit(&wire);
}

static void collect(void *user, const char *text, size_t bytes)
{
    strncat(user, text, bytes);
}

#ifdef SMALL_LIBRARY
static void expect_left_out(inlay_status status, inlay_diag *diag, const char *name)
{
    assert_int_equal(status, INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag->text, name));
    assert_non_null(strstr(diag->text, "not in this build"));
    diag->text[0] = '\0';
}

/* With CMake option INLAY_SMALL, the functions of excluded parts fail with their names; all others work. */
static void test_left_out(void **state)
{
    static const char *const options_left_out[][2] = { { "placement", "on" }, { "watchdog", "1%" } };
    inlay_session *session = open_session(CASE("node/test_add")), *none;
    inlay_context *context = open_context(session);
    inlay_calibrate_result calibrated = { .struct_size = sizeof calibrated };
    inlay_tune_result tuned = { .struct_size = sizeof tuned };
    inlay_watchdog_info watched = { .struct_size = sizeof watched };
    char text[8192] = "";
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    expect_left_out(inlay_session_explain(session, NULL, collect, text, &diag), &diag, "inlay_session_explain()");
    expect_left_out(inlay_calibrate(NULL, NULL, &calibrated, &diag), &diag, "inlay_calibrate()");
    expect_left_out(inlay_tune(session, NULL, &tuned, &diag), &diag, "inlay_tune()");
    expect_left_out(inlay_context_measure(context, 1, &diag), &diag, "inlay_context_measure()");
    expect_left_out(inlay_context_record(context, NULL, &diag), &diag, "inlay_context_record()");
    expect_left_out(inlay_context_profile(context, 1, 0, &diag), &diag, "inlay_context_profile()");
    expect_left_out(inlay_context_profile_write(context, NULL, collect, text, &diag), &diag, "_profile_write()");
    expect_left_out(inlay_context_profile_events(context, NULL, NULL, &diag), &diag, "_profile_events()");
    expect_left_out(inlay_session_create_from_bytes("GGUF\3\0\0\0", 8, NULL, &none, &diag), &diag, "GGUF");
    for (size_t i = 0; i < sizeof options_left_out / sizeof options_left_out[0]; i++) {
        inlay_options *options = NULL;

        assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
        assert_int_equal(inlay_options_set(options, options_left_out[i][0], options_left_out[i][1], NULL), INLAY_OK);
        expect_left_out(inlay_session_create(CASE("node/test_add"), options, &none, &diag), &diag,
                        options_left_out[i][0]);
        assert_null(none);
        inlay_options_destroy(options);
    }
    assert_int_equal(inlay_session_watchdog(session, 1, &watched), INLAY_OK);
    assert_int_equal(watched.checked, 0);
    assert_int_equal(inlay_session_watchdog_finding(session, 0, &(inlay_watchdog_finding){ 0 }), INLAY_NOT_FOUND);
    run_add(session);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}
#define test_explains test_left_out
#else
static void test_explains(void **state)
{
    inlay_session *session = open_session(CASE("node/test_add"));
    char text[8192] = "";
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(inlay_session_explain(session, NULL, collect, text, NULL), INLAY_OK);
    assert_non_null(strstr(text, "reference"));
    text[0] = '\0';
    assert_int_equal(inlay_session_explain(
                         session,
                         &(inlay_explain_options){ .struct_size = sizeof(inlay_explain_options), .format = "json" },
                         collect, text, NULL),
                     INLAY_OK);
    assert_non_null(strstr(text, "\"op\": \"Add\""));
    assert_int_equal(
        inlay_session_explain(session,
                              &(inlay_explain_options){ .struct_size = sizeof(inlay_explain_options), .format = "xml" },
                              collect, text, &diag),
        INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "text, json or line"));
    assert_int_equal(
        inlay_session_explain(session,
                              &(inlay_explain_options){ .struct_size = sizeof(inlay_explain_options), .reserved = 1 },
                              collect, text, &diag),
        INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "reserved is not 0"));
    inlay_session_destroy(session);
}
#endif

static void test_output_kept(void **state)
{
    static const int64_t dims[] = { 3, 4, 5 };
    inlay_session *session = open_session(CASE("node/test_relu"));
    inlay_context *context = open_context(session);
    float x[60];
    inlay_value *vx = floats(3, dims, x, 60), *first, *second;

    (void)state;
    assert_int_equal(inlay_context_set_input(context, 0, vx, NULL), INLAY_OK);
    for (int i = 0; i < 60; i++)
        x[i] = 1;
    assert_int_equal(inlay_context_run(context, NULL, NULL), INLAY_OK);
    first = inlay_value_ref(inlay_context_output(context, 0));
    for (int i = 0; i < 60; i++)
        x[i] = 2;
    assert_int_equal(inlay_context_run(context, NULL, NULL), INLAY_OK);
    second = inlay_context_output(context, 0);
    assert_ptr_not_equal(first, second);
    assert_float_equal(((float *)inlay_value_data(first))[7], 1, 0);
    assert_float_equal(((float *)inlay_value_data(second))[7], 2, 0);
    /* A result may be the next input, in the same context. */
    assert_int_equal(inlay_context_set_input(context, 0, first, NULL), INLAY_OK);
    assert_int_equal(inlay_context_run(context, NULL, NULL), INLAY_OK);
    assert_float_equal(((float *)inlay_value_data(inlay_context_output(context, 0)))[7], 1, 0);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    assert_float_equal(((float *)inlay_value_data(first))[59], 1, 0); /* outlives both */
    inlay_value_unref(first);
    inlay_value_unref(vx);
}

static void test_output_bound(void **state)
{
    static const int64_t dims[] = { 3, 4, 5 };
    inlay_session *session = open_session(CASE("node/test_relu"));
    inlay_context *context = open_context(session);
    float x[60], y[64];
    inlay_value *vx = floats(3, dims, x, 60), *vy = floats(3, dims, y, 60), *wrong = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (int i = 0; i < 60; i++)
        x[i] = (float)(i - 30);
    y[60] = 42;
    assert_int_equal(inlay_context_set_input(context, 0, vx, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_output(context, 0, vy, NULL), INLAY_OK);
    assert_int_equal(inlay_context_run(context, NULL, NULL), INLAY_OK);
    assert_ptr_equal(inlay_value_data(inlay_context_output(context, 0)), y);
    assert_float_equal(y[0], 0, 0);
    assert_float_equal(y[59], 29, 0);
    assert_float_equal(y[60], 42, 0);
    assert_int_equal(inlay_value_create(INLAY_INT32, 3, dims, &wrong, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_output(context, 0, wrong, &diag), INLAY_SHAPE_MISMATCH);
    assert_non_null(strstr(diag.text, "'y'"));
    inlay_value_unref(wrong);
    inlay_value_unref(vx);
    inlay_value_unref(vy);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

static void test_wrong_inputs(void **state)
{
    static const int64_t dims[] = { 3, 4, 6 }, none[] = { 0, 4, 5 };
    inlay_session *session = open_session(CASE("node/test_add"));
    inlay_context *context = open_context(session);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, dims, &value, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 0, value, &diag), INLAY_SHAPE_MISMATCH);
    assert_string_equal(diag.text, "input 'x' is float[3,4,6]; the model expects float[3,4,5]");
    assert_string_equal(diag.tensor, "x");
    inlay_value_unref(value);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, none, &value, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 0, value, &diag), INLAY_SHAPE_MISMATCH);
    assert_int_equal(inlay_context_set_input(context, 5, value, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "'x' is not bound"));
    assert_null(inlay_context_output(context, 0));
    inlay_value_unref(value);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

/* A declared size of 0 accepts only 0. */
static void test_declared_empty(void **state)
{
    static const int64_t empty[] = { 0, 3 }, full[] = { 2, 3 };
    float x[6] = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_value *value;
    inlay_context *context;
    wire_mark mark;
    struct wire wire = { 0 };

    (void)state;
    mark = mw_begin(&wire, 8, 17);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "0,3");
    mw_node(&wire, "Abs", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "0,3");
    wire_end(&wire, mark);
    if (inlay_session_create_from_bytes(wire.bytes, wire.count, NULL, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    context = open_context(session);
    value = floats(2, full, x, 6);
    assert_int_equal(inlay_context_set_input(context, 0, value, &diag), INLAY_SHAPE_MISMATCH);
    assert_string_equal(diag.text, "input 'x' is float[2,3]; the model expects float[0,3]");
    inlay_value_unref(value);
    value = floats(2, empty, x, 0);
    assert_int_equal(inlay_context_set_input(context, 0, value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
    assert_int_equal(inlay_value_count(inlay_context_output(context, 0)), 0);
    inlay_value_unref(value);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    wire_deinit(&wire);
}

static void put_raw(struct wire *wire, const char *name)
{
    static const int64_t count = 64;
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    float ones[64];

    for (int i = 0; i < 64; i++)
        ones[i] = 1;
    mw_tensor_head(wire, name, INLAY_FLOAT, 1, &count);
    wire_bytes(wire, 9, ones, sizeof ones);
    wire_end(wire, mark);
}

/* Outputs that are initializers or defaults of inputs are copies: they outlive the session and the model's bytes, at
 * any alignment of the elements in the file. */
static void test_outputs_outlive_the_model(void **state)
{
    (void)state;
    for (size_t pad = 0; pad < 16; pad++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_session *session = NULL;
        inlay_value *kept[3];
        inlay_context *context;
        wire_mark mark;
        struct wire wire = { 0 };

        mark = mw_begin(&wire, 8, 17);
        wire_bytes(&wire, 10, "0123456789abcdef", pad); /* doc_string */
        mw_value(&wire, MW_INPUT, "d", INLAY_FLOAT, "64");
        put_raw(&wire, "d");
        put_raw(&wire, "w");
        mw_node(&wire, "Identity", "d", "i");
        mw_value(&wire, MW_OUTPUT, "w", INLAY_FLOAT, "64");
        mw_value(&wire, MW_OUTPUT, "d", INLAY_FLOAT, "64");
        mw_value(&wire, MW_OUTPUT, "i", INLAY_FLOAT, "64");
        wire_end(&wire, mark);
        if (inlay_session_create_from_bytes(wire.bytes, wire.count, NULL, &session, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        context = open_context(session);
        assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
        for (uint32_t i = 0; i < 3; i++)
            kept[i] = inlay_value_ref(inlay_context_output(context, i));
        inlay_context_destroy(context);
        inlay_session_destroy(session);
        memset(wire.bytes, 0, wire.count);
        wire_deinit(&wire);
        for (uint32_t i = 0; i < 3; i++) {
            for (int k = 0; k < 64; k++)
                assert_float_equal(((const float *)inlay_value_data(kept[i]))[k], 1, 0);
            inlay_value_unref(kept[i]);
        }
    }
}

static void test_wrong_files(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;

    (void)state;
    assert_int_not_equal(inlay_session_create("/nowhere/model.onnx", NULL, &session, &diag), INLAY_OK);
    assert_null(session);
    assert_non_null(strstr(diag.text, "/nowhere/model.onnx"));
    assert_int_not_equal(inlay_session_create_from_bytes("garbage", 7, NULL, &session, &diag), INLAY_OK);
    assert_null(session);
    assert_int_not_equal(inlay_session_create_from_bytes(NULL, 0, NULL, &session, &diag), INLAY_OK);
    assert_int_not_equal(inlay_session_create_from_fd(-1, NULL, &session, &diag), INLAY_OK);
}

static void test_values(void **state)
{
    static const int64_t negative[] = { 2, -1 }, huge[] = { INT64_MAX, 4 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL, *list = NULL;
    float one = 1;

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, negative, &value, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, huge, &value, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_create(99, 0, NULL, &value, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 17, huge, &value, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_borrow(INLAY_DOUBLE, 0, NULL, &one, sizeof one, &value, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_null(value);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 0, NULL, &value, NULL), INLAY_OK);
    assert_int_equal(inlay_value_create_list(INLAY_KIND_SEQUENCE, INLAY_INT64, &value, 1, &list, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_create_list(INLAY_KIND_SEQUENCE, INLAY_FLOAT, &value, 1, &list, NULL), INLAY_OK);
    assert_ptr_equal(inlay_value_item(list, 0), value);
    assert_null(inlay_value_item(list, 1));
    inlay_value_unref(value);
    assert_float_equal(*(float *)inlay_value_data(inlay_value_item(list, 0)), 0, 0);
    inlay_value_unref(list);
}

static void test_dlpack(void **state)
{
    static const int64_t dims[] = { 2, 3 };
    struct DLManagedTensor *exported = NULL;
    inlay_value *value = NULL, *again = NULL;

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_INT16, 2, dims, &value, NULL), INLAY_OK);
    assert_int_equal(inlay_value_to_dlpack(value, &exported, NULL), INLAY_OK);
    assert_int_equal(inlay_value_from_dlpack(exported, &again, NULL), INLAY_OK); /* owns the export now */
    assert_ptr_equal(inlay_value_data(again), inlay_value_data(value));
    assert_int_equal(inlay_value_dtype(again), INLAY_INT16);
    assert_int_equal(inlay_value_rank(again), 2);
    assert_int_equal(inlay_value_dims(again)[1], 3);
    inlay_value_unref(value);
    ((int16_t *)inlay_value_data(again))[5] = 7;
    inlay_value_unref(again);
}

/* DLPack's struct as another library defines it. */
typedef struct foreign_tensor {
    void *data;
    int32_t device_type, device_id, rank;
    uint8_t code, bits;
    uint16_t lanes;
    const int64_t *dims, *strides;
    uint64_t byte_offset;
    void *owner;
    void (*deleter)(struct DLManagedTensor *self);
} foreign_tensor;

/* Tensors whose elements are not dense in row-major order are refused. */
static void test_dlpack_strides(void **state)
{
    static const struct {
        int64_t dims[3], strides[3];
        bool dense;
    } rows[] = {
        { { 2, 3, 4 }, { 12, 4, 1 }, true },   { { 2, 3, 4 }, { 24, 4, 1 }, false },
        { { 2, 3, 4 }, { 12, 8, 1 }, false },  { { 2, 3, 4 }, { 12, 4, 2 }, false },
        { { 2, 3, 4 }, { 1, 2, 6 }, false },   { { 2, 3, 4 }, { 0, 4, 1 }, false },
        { { 2, 3, 4 }, { -12, 4, 1 }, false }, { { 1, 3, 4 }, { 99, 4, 1 }, true },
        { { 2, 1, 4 }, { 4, 77, 1 }, true },   { { 2, 3, 1 }, { 3, 1, 5 }, true },
        { { 2, 3, 1 }, { 6, 2, 1 }, false },   { { 2, 0, 4 }, { 9, 9, 9 }, true },
    };
    static float data[64];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        foreign_tensor tensor = { .data = data,
                                  .device_type = 1,
                                  .rank = 3,
                                  .code = 2,
                                  .bits = 32,
                                  .lanes = 1,
                                  .dims = rows[i].dims,
                                  .strides = rows[i].strides,
                                  .byte_offset = 4 };
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_value *value = NULL;
        inlay_status status = inlay_value_from_dlpack((struct DLManagedTensor *)&tensor, &value, &diag);

        assert_int_equal(status, rows[i].dense ? INLAY_OK : INLAY_UNSUPPORTED);
        if (rows[i].dense && rows[i].dims[1] != 0)
            assert_ptr_equal(inlay_value_data(value), data + 1);
        if (!rows[i].dense)
            assert_non_null(strstr(diag.text, "is strided"));
        inlay_value_unref(value);
    }
}

static void test_options(void **state)
{
    inlay_options *options = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    char text[64];

    (void)state;
    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "intra_thread", "1", &diag), INLAY_NOT_FOUND);
    assert_non_null(strstr(diag.text, "intra_threads"));
    assert_int_equal(inlay_options_set(options, "intra_threads", "many", &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_options_set(options, "dim", "N", &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_options_set(options, "policy", "luck", &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_options_set_int(options, "intra_threads", 1, NULL), INLAY_OK);
    assert_int_equal(inlay_options_get(options, "intra_threads", text, sizeof text, NULL, NULL), INLAY_OK);
    assert_string_equal(text, "1");
    /* A named provider that does not exist is an error, unless it is marked optional. */
    assert_int_equal(inlay_options_set(options, "providers", "missing", NULL), INLAY_OK);
    assert_int_not_equal(inlay_session_create(CASE("node/test_add"), options, &session, &diag), INLAY_OK);
    assert_non_null(strstr(diag.text, "missing"));
    assert_int_equal(inlay_options_set(options, "providers", "missing?,reference", NULL), INLAY_OK);
    assert_int_equal(inlay_session_create(CASE("node/test_add"), options, &session, &diag), INLAY_OK);
    inlay_session_destroy(session);
    assert_int_equal(inlay_options_set(options, "dim", "unheard_of=3", NULL), INLAY_OK);
    assert_int_equal(inlay_session_create(CASE("node/test_add"), options, &session, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "unheard_of"));
    inlay_options_destroy(options);
}

static int stop_at_once(void *user, double fraction, const char *what)
{
    ++*(int *)user;
    return fraction >= 0 && what != NULL;
}

static int count_calls(void *user, double fraction, const char *what)
{
    (void)what;
    assert_true(fraction >= 0 && fraction <= 1);
    ++*(int *)user;
    return 0;
}

static void test_progress(void **state)
{
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    int calls = 0;

    (void)state;
    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    inlay_options_set_progress(options, stop_at_once, &calls);
    assert_int_equal(inlay_session_create(CASE("node/test_add"), options, &session, NULL), INLAY_CANCELLED);
    assert_int_equal(calls, 1);
    inlay_options_set_progress(options, count_calls, &calls);
    assert_int_equal(inlay_session_create(CASE("node/test_add"), options, &session, NULL), INLAY_OK);
    assert_true(calls > 3);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
}

static void test_cancel_and_deadline(void **state)
{
    static const int64_t dims[] = { 3, 4, 5 };
    inlay_session *session = open_session(CASE("node/test_relu"));
    inlay_context *context = open_context(session);
    uint32_t cancel = 1;
    inlay_run_options run = { .struct_size = sizeof run, .cancel = &cancel };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, dims, &value, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 0, value, NULL), INLAY_OK);
    assert_int_equal(inlay_context_run(context, &run, &diag), INLAY_CANCELLED);
    assert_null(inlay_context_output(context, 0));
    cancel = 0;
    assert_int_equal(inlay_context_run(context, &run, &diag), INLAY_OK);
    run.timeout_ns = 1;
    assert_int_equal(inlay_context_run(context, &run, &diag), INLAY_DEADLINE_EXCEEDED);
    run.timeout_ns = 60ull * 1000000000;
    assert_int_equal(inlay_context_run(context, &run, &diag), INLAY_OK);
    assert_non_null(inlay_context_output(context, 0));
    inlay_value_unref(value);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

static void test_plan_numbers(void **state)
{
    static const int64_t dims[] = { 3, 4, 5 };
    inlay_session *session = open_session(CASE("node/test_relu"));
    inlay_context *context = open_context(session);
    inlay_plan_info info = { .struct_size = sizeof info };
    inlay_value *value = NULL;

    (void)state;
    assert_int_equal(inlay_context_plan(context, &info), INLAY_NOT_FOUND);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, dims, &value, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 0, value, NULL), INLAY_OK);
    assert_int_equal(inlay_context_run(context, NULL, NULL), INLAY_OK);
    assert_int_equal(inlay_context_plan(context, &info), INLAY_OK);
    assert_int_equal(info.step_count, 1);
    assert_int_equal(info.dynamic_step_count, 0);
    assert_true(info.slab_bytes >= info.lower_bound_bytes);
    inlay_value_unref(value);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_path),
        cmocka_unit_test(test_sends_nothing),
        cmocka_unit_test(test_from_bytes_and_fd),
        cmocka_unit_test(test_describes_io),
        cmocka_unit_test(test_explains),
        cmocka_unit_test(test_model_info),
        cmocka_unit_test(test_output_kept),
        cmocka_unit_test(test_output_bound),
        cmocka_unit_test(test_wrong_inputs),
        cmocka_unit_test(test_declared_empty),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_outputs_outlive_the_model),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_dlpack),
        cmocka_unit_test(test_dlpack_strides),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_cancel_and_deadline),
        cmocka_unit_test(test_plan_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
