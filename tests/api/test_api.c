/* inlay.h as a caller sees it: sessions from three sources, inputs and outputs, binding, DLPack, cancel, deadline,
 * errors that name their place. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "model_writer.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <stdbool.h>
#include <unistd.h>

#define CASE(path) ONNX_TEST_DATA "/" path "/model.onnx"

static inlay_session *open_session(const char *path)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *s = NULL;

    if (inlay_session_create(path, NULL, &s, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return s;
}

static inlay_context *open_context(inlay_session *s)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *c = NULL;

    if (inlay_context_create(s, &c, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return c;
}

static inlay_value *floats(uint32_t rank, const int64_t *dims, float *data, uint64_t count)
{
    inlay_value *v = NULL;

    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, rank, dims, data, count * sizeof *data, &v, NULL), INLAY_OK);
    return v;
}

/* ------------------------------------------------------------------ sources */

static void run_add(inlay_session *s)
{
    static const int64_t dims[] = { 3, 4, 5 };
    float x[60], y[60];
    inlay_context *c = open_context(s);
    inlay_value *vx, *vy;
    const float *sum;

    for (int i = 0; i < 60; i++) {
        x[i] = (float)i;
        y[i] = 0.5f;
    }
    vx = floats(3, dims, x, 60);
    vy = floats(3, dims, y, 60);
    assert_int_equal(inlay_context_set_input(c, 0, vx, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(c, 1, vy, NULL), INLAY_OK);
    assert_int_equal(inlay_context_run(c, NULL, NULL), INLAY_OK);
    sum = inlay_value_data(inlay_context_output(c, 0));
    for (int i = 0; i < 60; i++)
        assert_float_equal(sum[i], (float)i + 0.5f, 0);
    inlay_value_unref(vx);
    inlay_value_unref(vy);
    inlay_context_destroy(c);
}

static void test_from_path(void **state)
{
    inlay_session *s = open_session(CASE("node/test_add"));

    (void)state;
    run_add(s);
    inlay_session_destroy(s);
}

static void test_from_bytes_and_fd(void **state)
{
    int fd = open(CASE("node/test_add"), O_RDONLY);
    struct stat st;
    char *bytes;
    inlay_session *s = NULL;

    (void)state;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(inlay_session_create_from_fd(fd, NULL, &s, NULL), INLAY_OK);
    run_add(s);
    inlay_session_destroy(s);
    bytes = malloc((size_t)st.st_size);
    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
    close(fd);
    assert_int_equal(inlay_session_create_from_bytes(bytes, (uint64_t)st.st_size, NULL, &s, NULL), INLAY_OK);
    run_add(s);
    inlay_session_destroy(s);
    free(bytes);
}

/* ------------------------------------------------------------------ what a session says */

static void test_describes_io(void **state)
{
    inlay_session *s = open_session(CASE("node/test_add"));
    inlay_io_info info = { .struct_size = sizeof info }, before = { .struct_size = 16 };

    (void)state;
    assert_int_equal(inlay_session_input_count(s), 2);
    assert_int_equal(inlay_session_output_count(s), 1);
    assert_int_equal(inlay_session_input(s, 1, &info), INLAY_OK);
    assert_string_equal(info.name, "y");
    assert_int_equal(info.dtype, INLAY_FLOAT);
    assert_int_equal(info.rank, 3);
    assert_int_equal(info.dims[2], 5);
    assert_int_equal(inlay_session_input(s, 2, &info), INLAY_NOT_FOUND);
    assert_int_equal(inlay_session_find_input(s, "x"), 0);
    assert_int_equal(inlay_session_find_output(s, "nobody"), INLAY_NONE);
    /* A caller compiled with a shorter struct gets what it has room for. */
    assert_int_equal(inlay_session_input(s, 0, &before), INLAY_OK);
    assert_string_equal(before.name, "x");
    assert_int_equal(before.dtype, 0);
    inlay_session_destroy(s);
}

/* A model by hand: producer "maker", metadata a=1, b=2; x -> Abs -> y. */
static void write_model(struct wire *w)
{
    wire_mark g = mw_begin(w, 8, 17);

    mw_value(w, MW_INPUT, "x", INLAY_FLOAT, "3");
    mw_node(w, "Abs", "x", "y");
    mw_value(w, MW_OUTPUT, "y", INLAY_FLOAT, "3");
    wire_end(w, g);
    wire_text(w, 2, "maker");
    mw_entry(w, 14, "a", "1");
    mw_entry(w, 14, "b", "2");
}

static void test_tells_of_model(void **state)
{
    inlay_model_info info = { .struct_size = sizeof info }, short_info = { .struct_size = 16 };
    inlay_session_provider_info p = { .struct_size = sizeof p };
    const char *key, *value;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *s = NULL;
    struct wire w = { 0 };

    (void)state;
    write_model(&w);
    if (inlay_session_create_from_bytes(w.bytes, w.count, NULL, &s, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(inlay_session_model(s, &info), INLAY_OK);
    assert_string_equal(info.producer_name, "maker");
    assert_string_equal(info.producer_version, "");
    assert_string_equal(info.domain, "");
    assert_int_equal(info.ir_version, 8);
    assert_int_equal(info.metadata_count, 2);
    assert_int_equal(inlay_session_metadata(s, 1, &key, &value), INLAY_OK);
    assert_string_equal(key, "b");
    assert_string_equal(value, "2");
    assert_int_equal(inlay_session_metadata(s, 2, &key, &value), INLAY_NOT_FOUND);
    assert_null(key);
    assert_int_equal(inlay_session_model(s, &short_info), INLAY_OK); /* an older caller's */
    assert_string_equal(short_info.producer_name, "maker");
    assert_null(short_info.producer_version);
    assert_int_equal(inlay_session_provider(s, 0, &p), INLAY_OK);
    assert_true(strlen(p.name) > 0);
    assert_null(p.skipped);
    assert_int_equal(inlay_session_provider(s, 99, &p), INLAY_NOT_FOUND);
    p.struct_size = 0;
    assert_int_equal(inlay_session_provider(s, 0, &p), INLAY_INVALID_ARGUMENT);
    inlay_session_destroy(s);
    wire_deinit(&w);
}

static void collect(void *user, const char *text, size_t bytes)
{
    strncat(user, text, bytes);
}

static void test_explains(void **state)
{
    inlay_session *s = open_session(CASE("node/test_add"));
    char text[8192] = "";
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(inlay_session_explain(s, "text", collect, text, NULL), INLAY_OK);
    assert_non_null(strstr(text, "reference"));
    text[0] = '\0';
    assert_int_equal(inlay_session_explain(s, "json", collect, text, NULL), INLAY_OK);
    assert_non_null(strstr(text, "\"op\": \"Add\""));
    assert_int_equal(inlay_session_explain(s, "xml", collect, text, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "text or json"));
    inlay_session_destroy(s);
}

/* ------------------------------------------------------------------ outputs */

static void test_output_kept(void **state)
{
    static const int64_t dims[] = { 3, 4, 5 };
    inlay_session *s = open_session(CASE("node/test_relu"));
    inlay_context *c = open_context(s);
    float x[60];
    inlay_value *vx = floats(3, dims, x, 60), *first, *second;

    (void)state;
    assert_int_equal(inlay_context_set_input(c, 0, vx, NULL), INLAY_OK);
    for (int i = 0; i < 60; i++)
        x[i] = 1;
    assert_int_equal(inlay_context_run(c, NULL, NULL), INLAY_OK);
    first = inlay_value_ref(inlay_context_output(c, 0));
    for (int i = 0; i < 60; i++)
        x[i] = 2;
    assert_int_equal(inlay_context_run(c, NULL, NULL), INLAY_OK);
    second = inlay_context_output(c, 0);
    assert_ptr_not_equal(first, second);
    assert_float_equal(((float *)inlay_value_data(first))[7], 1, 0);
    assert_float_equal(((float *)inlay_value_data(second))[7], 2, 0);
    /* A result may be the next input, in the same context. */
    assert_int_equal(inlay_context_set_input(c, 0, first, NULL), INLAY_OK);
    assert_int_equal(inlay_context_run(c, NULL, NULL), INLAY_OK);
    assert_float_equal(((float *)inlay_value_data(inlay_context_output(c, 0)))[7], 1, 0);
    inlay_context_destroy(c);
    inlay_session_destroy(s);
    assert_float_equal(((float *)inlay_value_data(first))[59], 1, 0); /* outlives both */
    inlay_value_unref(first);
    inlay_value_unref(vx);
}

static void test_output_bound(void **state)
{
    static const int64_t dims[] = { 3, 4, 5 };
    inlay_session *s = open_session(CASE("node/test_relu"));
    inlay_context *c = open_context(s);
    float x[60], y[64];
    inlay_value *vx = floats(3, dims, x, 60), *vy = floats(3, dims, y, 60), *wrong = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (int i = 0; i < 60; i++)
        x[i] = (float)(i - 30);
    y[60] = 42;
    assert_int_equal(inlay_context_set_input(c, 0, vx, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_output(c, 0, vy, NULL), INLAY_OK);
    assert_int_equal(inlay_context_run(c, NULL, NULL), INLAY_OK);
    assert_ptr_equal(inlay_value_data(inlay_context_output(c, 0)), y);
    assert_float_equal(y[0], 0, 0);
    assert_float_equal(y[59], 29, 0);
    assert_float_equal(y[60], 42, 0);
    assert_int_equal(inlay_value_create(INLAY_INT32, 3, dims, &wrong, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_output(c, 0, wrong, &diag), INLAY_SHAPE_MISMATCH);
    assert_non_null(strstr(diag.text, "'y'"));
    inlay_value_unref(wrong);
    inlay_value_unref(vx);
    inlay_value_unref(vy);
    inlay_context_destroy(c);
    inlay_session_destroy(s);
}

/* ------------------------------------------------------------------ errors */

static void test_wrong_inputs(void **state)
{
    static const int64_t dims[] = { 3, 4, 6 }, none[] = { 0, 4, 5 };
    inlay_session *s = open_session(CASE("node/test_add"));
    inlay_context *c = open_context(s);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *v = NULL;

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, dims, &v, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(c, 0, v, &diag), INLAY_SHAPE_MISMATCH);
    assert_string_equal(diag.text, "input 'x' is float[3,4,6]; the model wants float[3,4,5]");
    assert_string_equal(diag.tensor, "x");
    inlay_value_unref(v);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, none, &v, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(c, 0, v, &diag), INLAY_SHAPE_MISMATCH);
    assert_int_equal(inlay_context_set_input(c, 5, v, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_context_run(c, NULL, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "'x' is not bound"));
    assert_null(inlay_context_output(c, 0));
    inlay_value_unref(v);
    inlay_context_destroy(c);
    inlay_session_destroy(s);
}

/* A size of 0 is a size like others: none but 0 fits. */
static void test_declared_empty(void **state)
{
    static const int64_t empty[] = { 0, 3 }, full[] = { 2, 3 };
    float x[6] = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *s = NULL;
    inlay_value *v;
    inlay_context *c;
    wire_mark g;
    struct wire w = { 0 };

    (void)state;
    g = mw_begin(&w, 8, 17);
    mw_value(&w, MW_INPUT, "x", INLAY_FLOAT, "0,3");
    mw_node(&w, "Abs", "x", "y");
    mw_value(&w, MW_OUTPUT, "y", INLAY_FLOAT, "0,3");
    wire_end(&w, g);
    if (inlay_session_create_from_bytes(w.bytes, w.count, NULL, &s, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    c = open_context(s);
    v = floats(2, full, x, 6);
    assert_int_equal(inlay_context_set_input(c, 0, v, &diag), INLAY_SHAPE_MISMATCH);
    assert_string_equal(diag.text, "input 'x' is float[2,3]; the model wants float[0,3]");
    inlay_value_unref(v);
    v = floats(2, empty, x, 0);
    assert_int_equal(inlay_context_set_input(c, 0, v, &diag), INLAY_OK);
    assert_int_equal(inlay_context_run(c, NULL, &diag), INLAY_OK);
    assert_int_equal(inlay_value_count(inlay_context_output(c, 0)), 0);
    inlay_value_unref(v);
    inlay_context_destroy(c);
    inlay_session_destroy(s);
    wire_deinit(&w);
}

static void test_wrong_files(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *s = NULL;

    (void)state;
    assert_int_not_equal(inlay_session_create("/nowhere/model.onnx", NULL, &s, &diag), INLAY_OK);
    assert_null(s);
    assert_non_null(strstr(diag.text, "/nowhere/model.onnx"));
    assert_int_not_equal(inlay_session_create_from_bytes("garbage", 7, NULL, &s, &diag), INLAY_OK);
    assert_null(s);
    assert_int_not_equal(inlay_session_create_from_bytes(NULL, 0, NULL, &s, &diag), INLAY_OK);
    assert_int_not_equal(inlay_session_create_from_fd(-1, NULL, &s, &diag), INLAY_OK);
}

static void test_values(void **state)
{
    static const int64_t negative[] = { 2, -1 }, huge[] = { INT64_MAX, 4 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *v = NULL, *list = NULL;
    float one = 1;

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, negative, &v, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, huge, &v, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_create(99, 0, NULL, &v, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 17, huge, &v, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_borrow(INLAY_DOUBLE, 0, NULL, &one, sizeof one, &v, &diag), INLAY_INVALID_ARGUMENT);
    assert_null(v);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 0, NULL, &v, NULL), INLAY_OK);
    assert_int_equal(inlay_value_create_list(INLAY_KIND_SEQUENCE, INLAY_INT64, &v, 1, &list, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_create_list(INLAY_KIND_SEQUENCE, INLAY_FLOAT, &v, 1, &list, NULL), INLAY_OK);
    assert_ptr_equal(inlay_value_item(list, 0), v);
    assert_null(inlay_value_item(list, 1));
    inlay_value_unref(v);
    assert_float_equal(*(float *)inlay_value_data(inlay_value_item(list, 0)), 0, 0);
    inlay_value_unref(list);
}

/* ------------------------------------------------------------------ DLPack */

static void test_dlpack(void **state)
{
    static const int64_t dims[] = { 2, 3 };
    struct DLManagedTensor *exported = NULL;
    inlay_value *v = NULL, *again = NULL;

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_INT16, 2, dims, &v, NULL), INLAY_OK);
    assert_int_equal(inlay_value_to_dlpack(v, &exported, NULL), INLAY_OK);
    assert_int_equal(inlay_value_from_dlpack(exported, &again, NULL), INLAY_OK); /* owns the export now */
    assert_ptr_equal(inlay_value_data(again), inlay_value_data(v));
    assert_int_equal(inlay_value_dtype(again), INLAY_INT16);
    assert_int_equal(inlay_value_rank(again), 2);
    assert_int_equal(inlay_value_dims(again)[1], 3);
    inlay_value_unref(v);
    ((int16_t *)inlay_value_data(again))[5] = 7;
    inlay_value_unref(again);
}

/* What another library hands over: DLPack's struct, by its own definition. */
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

/* Elements that do not lie side by side are never read as if they did. */
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
        foreign_tensor t = { .data = data,
                             .device_type = 1,
                             .rank = 3,
                             .code = 2,
                             .bits = 32,
                             .lanes = 1,
                             .dims = rows[i].dims,
                             .strides = rows[i].strides,
                             .byte_offset = 4 };
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_value *v = NULL;
        inlay_status status = inlay_value_from_dlpack((struct DLManagedTensor *)&t, &v, &diag);

        assert_int_equal(status, rows[i].dense ? INLAY_OK : INLAY_UNSUPPORTED);
        if (rows[i].dense && rows[i].dims[1] != 0)
            assert_ptr_equal(inlay_value_data(v), data + 1);
        if (!rows[i].dense)
            assert_non_null(strstr(diag.text, "is strided"));
        inlay_value_unref(v);
    }
}

/* ------------------------------------------------------------------ options, cancel, deadline, progress */

static void test_options(void **state)
{
    inlay_options *o = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *s = NULL;
    char text[64];

    (void)state;
    assert_int_equal(inlay_options_create(&o, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(o, "intra_thread", "1", &diag), INLAY_NOT_FOUND);
    assert_non_null(strstr(diag.text, "intra_threads"));
    assert_int_equal(inlay_options_set(o, "intra_threads", "many", &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_options_set(o, "dim", "N", &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_options_set(o, "policy", "luck", &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_options_set_int(o, "intra_threads", 1, NULL), INLAY_OK);
    assert_int_equal(inlay_options_get(o, "intra_threads", text, sizeof text, NULL), INLAY_OK);
    assert_string_equal(text, "1");
    /* A provider that was named and is not there is an error, unless marked optional. */
    assert_int_equal(inlay_options_set(o, "providers", "nobody", NULL), INLAY_OK);
    assert_int_not_equal(inlay_session_create(CASE("node/test_add"), o, &s, &diag), INLAY_OK);
    assert_non_null(strstr(diag.text, "nobody"));
    assert_int_equal(inlay_options_set(o, "providers", "nobody?,reference", NULL), INLAY_OK);
    assert_int_equal(inlay_session_create(CASE("node/test_add"), o, &s, &diag), INLAY_OK);
    inlay_session_destroy(s);
    assert_int_equal(inlay_options_set(o, "dim", "unheard_of=3", NULL), INLAY_OK);
    assert_int_equal(inlay_session_create(CASE("node/test_add"), o, &s, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "unheard_of"));
    inlay_options_destroy(o);
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
    inlay_options *o = NULL;
    inlay_session *s = NULL;
    int calls = 0;

    (void)state;
    assert_int_equal(inlay_options_create(&o, NULL), INLAY_OK);
    inlay_options_set_progress(o, stop_at_once, &calls);
    assert_int_equal(inlay_session_create(CASE("node/test_add"), o, &s, NULL), INLAY_CANCELLED);
    assert_int_equal(calls, 1);
    inlay_options_set_progress(o, count_calls, &calls);
    assert_int_equal(inlay_session_create(CASE("node/test_add"), o, &s, NULL), INLAY_OK);
    assert_true(calls > 3);
    inlay_session_destroy(s);
    inlay_options_destroy(o);
}

static void test_cancel_and_deadline(void **state)
{
    static const int64_t dims[] = { 3, 4, 5 };
    inlay_session *s = open_session(CASE("node/test_relu"));
    inlay_context *c = open_context(s);
    uint32_t cancel = 1;
    inlay_run_options run = { .struct_size = sizeof run, .cancel = &cancel };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *v = NULL;

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, dims, &v, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(c, 0, v, NULL), INLAY_OK);
    assert_int_equal(inlay_context_run(c, &run, &diag), INLAY_CANCELLED);
    assert_null(inlay_context_output(c, 0));
    cancel = 0;
    assert_int_equal(inlay_context_run(c, &run, &diag), INLAY_OK);
    run.timeout_ns = 1;
    assert_int_equal(inlay_context_run(c, &run, &diag), INLAY_DEADLINE_EXCEEDED);
    run.timeout_ns = 60ull * 1000000000;
    assert_int_equal(inlay_context_run(c, &run, &diag), INLAY_OK);
    assert_non_null(inlay_context_output(c, 0));
    inlay_value_unref(v);
    inlay_context_destroy(c);
    inlay_session_destroy(s);
}

/* ------------------------------------------------------------------ shapes that change, plan numbers */

static void test_plan_numbers(void **state)
{
    static const int64_t dims[] = { 3, 4, 5 };
    inlay_session *s = open_session(CASE("node/test_relu"));
    inlay_context *c = open_context(s);
    inlay_plan_info info = { .struct_size = sizeof info };
    inlay_value *v = NULL;

    (void)state;
    assert_int_equal(inlay_context_plan(c, &info), INLAY_NOT_FOUND);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, dims, &v, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(c, 0, v, NULL), INLAY_OK);
    assert_int_equal(inlay_context_run(c, NULL, NULL), INLAY_OK);
    assert_int_equal(inlay_context_plan(c, &info), INLAY_OK);
    assert_int_equal(info.step_count, 1);
    assert_int_equal(info.dynamic_step_count, 0);
    assert_true(info.slab_bytes >= info.lower_bound_bytes);
    inlay_value_unref(v);
    inlay_context_destroy(c);
    inlay_session_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_path),      cmocka_unit_test(test_from_bytes_and_fd),
        cmocka_unit_test(test_describes_io),   cmocka_unit_test(test_explains),
        cmocka_unit_test(test_tells_of_model), cmocka_unit_test(test_output_kept),
        cmocka_unit_test(test_output_bound),   cmocka_unit_test(test_wrong_inputs),
        cmocka_unit_test(test_declared_empty), cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_values),         cmocka_unit_test(test_dlpack),
        cmocka_unit_test(test_dlpack_strides), cmocka_unit_test(test_options),
        cmocka_unit_test(test_progress),       cmocka_unit_test(test_cancel_and_deadline),
        cmocka_unit_test(test_plan_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
