/* The two providers of samples/custom_op compared with the definition of their operator and with each other: ranks,
 * sizes of zero and one, windows shorter and longer than the row, both types, NaN and infinity; and the choice
 * between them by cost. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "onnx_bytes.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const char *const providers[] = { "moving_average", "fast_average" };
enum { MAX_COUNT = 16384, PROVIDERS = 2 };

static double x[MAX_COUNT], want[MAX_COUNT], got[PROVIDERS][MAX_COUNT];

static void model_of(onnx_bytes *file, inlay_dtype dtype, uint32_t rank, const int64_t *dims, int64_t window)
{
    onnx_bytes bytes = { .count = 0 };

    file->count = 0;
    onnx_input(&bytes, "x", dtype, rank, dims);
    onnx_node_int(&bytes, "MovingAverage", "com.example", "x", "y", "window", window);
    onnx_output(&bytes, "y", dtype, rank, dims);
    assert_int_equal(onnx_file(file, &bytes, 17, "com.example"), 0);
}

static inlay_options *options_of(const char *names, const char *policy, const char *threads)
{
    inlay_options *options;

    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "plugin_dirs", SAMPLE_DIR, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", names, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "policy", policy, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "intra_threads", threads, NULL), INLAY_OK);
    return options;
}

/* Runs one provider and stores the output as doubles. */
static void run_one(const char *provider, const onnx_bytes *file, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                    double *output)
{
    inlay_options *options = options_of(provider, "cost", "2");
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_value *value = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    const inlay_value *out;

    INLAY_TRY(inlay_session_create_from_bytes(file->data, file->count, options, &session, &diag));
    INLAY_TRY(inlay_context_create(session, &context, &diag));
    INLAY_TRY(inlay_value_create(dtype, rank, dims, &value, &diag));
    for (int64_t i = 0; i < inlay_value_count(value); i++) {
        if (dtype == INLAY_FLOAT)
            ((float *)inlay_value_data(value))[i] = (float)x[i];
        else
            ((double *)inlay_value_data(value))[i] = x[i];
    }
    INLAY_TRY(inlay_context_set_input(context, 0, value, &diag));
    INLAY_TRY(inlay_context_run(context, NULL, &diag));
    out = inlay_context_output(context, 0);
    assert_int_equal(inlay_value_rank(out), rank);
    assert_memory_equal(inlay_value_dims(out), dims, rank * sizeof *dims);
    for (int64_t i = 0; i < inlay_value_count(out); i++)
        output[i] = dtype == INLAY_FLOAT ? (double)((const float *)inlay_value_data(out))[i]
                                         : ((const double *)inlay_value_data(out))[i];
done:
    inlay_value_unref(value);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    if (status != INLAY_OK)
        fail_msg("%s: %s", provider, diag.text);
}

/* Computes the definition in the widest type. */
static void compute_expected(int64_t count, int64_t length, int64_t window, inlay_dtype dtype)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t in_row = i % length, terms = in_row + 1 < window ? in_row + 1 : window;
        long double sum = 0;

        for (int64_t k = i - terms + 1; k <= i; k++)
            sum += dtype == INLAY_FLOAT ? (long double)(float)x[k] : (long double)x[k];
        want[i] = (double)(sum / (long double)terms);
    }
}

static void check(inlay_dtype dtype, uint32_t rank, const int64_t *dims, int64_t window)
{
    double tolerance = dtype == INLAY_FLOAT ? 1e-6 : 1e-13;
    static onnx_bytes file;
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    assert_in_range(count, 0, MAX_COUNT);
    model_of(&file, dtype, rank, dims, window);
    if (count > 0)
        compute_expected(count, dims[rank - 1], window, dtype);
    for (int provider = 0; provider < PROVIDERS; provider++)
        run_one(providers[provider], &file, dtype, rank, dims, got[provider]);
    for (int64_t i = 0; i < count; i++) {
        for (int provider = 0; provider < PROVIDERS; provider++) {
            if (isfinite(want[i]) ? fabs(got[provider][i] - want[i]) <= tolerance * (1 + fabs(want[i]))
                : isnan(want[i])  ? isnan(got[provider][i]) != 0
                                  : got[provider][i] == want[i])
                continue;
            fail_msg("%s, %s, rank %u, rows of %lld, window %lld: element %lld is %.17g instead of %.17g",
                     providers[provider], inlay_dtype_name(dtype), rank, (long long)dims[rank - 1], (long long)window,
                     (long long)i, got[provider][i], want[i]);
        }
    }
}

static void fill(void)
{
    for (int i = 0; i < MAX_COUNT; i++)
        x[i] = sin(i * 0.7) * 100 + i % 13;
}

static const struct {
    uint32_t rank;
    int64_t dims[5];
} shapes[] = {
    { 1, { 1 } },        { 1, { 7 } },        { 1, { 0 } },           { 1, { 10007 } },
    { 2, { 3, 64 } },    { 2, { 0, 5 } },     { 2, { 5, 0 } },        { 2, { 100, 1 } },
    { 3, { 2, 3, 33 } }, { 3, { 2, 0, 33 } }, { 4, { 2, 1, 5, 16 } }, { 5, { 1, 2, 1, 2, 9 } },
};

static void every_shape_window_and_type(void **state)
{
    static const int64_t windows[] = { 1, 2, 3, 8, 9, 33, 64, 1000, 10007, 10008, INT64_MAX };
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE };

    (void)state;
    fill();
    for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++)
        for (size_t window = 0; window < sizeof windows / sizeof windows[0]; window++)
            for (size_t type = 0; type < 2; type++)
                check(types[type], shapes[shape].rank, shapes[shape].dims, windows[window]);
}

/* NaN and infinity affect only their window: a running sum from which old elements are subtracted would propagate
 * them. */
static void nan_and_infinity(void **state)
{
    static const int64_t dims[] = { 2, 50 };

    (void)state;
    for (int64_t window = 1; window < 60; window += 7) {
        fill();
        x[11] = INFINITY;
        x[12] = -INFINITY;
        x[30] = NAN;
        x[70] = INFINITY;
        x[99] = 1e30;
        check(INLAY_FLOAT, 2, dims, window);
        check(INLAY_DOUBLE, 2, dims, window);
    }
}

/* A large element leaves no rounding errors in later elements. */
static void large_elements_leave_no_error(void **state)
{
    static const int64_t dims[] = { 1000 };

    (void)state;
    for (int i = 0; i < MAX_COUNT; i++)
        x[i] = i == 100 ? 1e17 : 0.1;
    check(INLAY_DOUBLE, 1, dims, 10);
}

static char explained[65536];

static void keep(void *user, const char *text, size_t bytes)
{
    size_t used = strlen(explained), room = sizeof explained - 1 - used;

    (void)user;
    memcpy(explained + used, text, bytes < room ? bytes : room);
}

/* Returns the provider that runs the only node of a model. */
static const char *chosen_provider(int64_t window, const char *names, const char *policy)
{
    static const int64_t dims[] = { 1, 100000 };
    inlay_options *options = options_of(names, policy, "1");
    inlay_session *session = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    static onnx_bytes file;
    const char *chosen = "none", *place;

    model_of(&file, INLAY_FLOAT, 2, dims, window);
    if (inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    memset(explained, 0, sizeof explained);
    assert_int_equal(inlay_session_explain(
                         session,
                         &(inlay_explain_options){ .struct_size = sizeof(inlay_explain_options), .format = "json" },
                         keep, NULL, &diag),
                     INLAY_OK);
    place = strstr(explained, "\"regions\"");
    assert_non_null(place);
    place = strstr(place, "\"provider\": \"");
    assert_non_null(place);
    for (int provider = 0; provider < PROVIDERS; provider++)
        if (strncmp(place + 13, providers[provider], strlen(providers[provider])) == 0)
            chosen = providers[provider];
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    return chosen;
}

static void cost_decides(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        const char *names = order == 0 ? "moving_average,fast_average" : "fast_average,moving_average";

        assert_string_equal(chosen_provider(1, names, "cost"), "moving_average");
        assert_string_equal(chosen_provider(64, names, "cost"), "fast_average");
        assert_string_equal(chosen_provider(64, names, "priority"), providers[order]);
        assert_string_equal(chosen_provider(1, names, "priority"), providers[order]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_window_and_type),
        cmocka_unit_test(nan_and_infinity),
        cmocka_unit_test(large_elements_leave_no_error),
        cmocka_unit_test(cost_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
