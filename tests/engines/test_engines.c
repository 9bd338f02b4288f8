/* Engines of a slow compiler: the chip of samples/device_skeleton, which states in the log when it builds an engine and
 * when it loads one from the cache. Its regions are separated by LeakyRelu, which runs on samples/provider_skeleton. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "inlay/execution.h"
#include "onnx_bytes.h"
#include "run_context.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIDTH = 8, LAYERS = 4 };

/* What the chip has logged. */
typedef struct engine_log {
    pthread_mutex_t mutex;
    int built, loaded, most; /* most: engines at a time */
    int changed;             /* sessions that changed to all providers */
    char warnings[4096];
} engine_log;

static engine_log logged = { .mutex = PTHREAD_MUTEX_INITIALIZER };
static char folder[64];
static const char *program;

static void keep_log(void *user, uint32_t level, const char *text)
{
    engine_log *log = user;
    const char *engine = strstr(text, " an engine of ");
    uint32_t operations;
    int together = 0;

    (void)pthread_mutex_lock(&log->mutex);
    if (engine != NULL && sscanf(engine, " an engine of %u operations, %d at a time", &operations, &together) == 2) {
        log->built += strstr(text, "built") != NULL;
        log->loaded += strstr(text, "loaded") != NULL;
        log->most = together > log->most ? together : log->most;
    }
    log->changed += strstr(text, "the session runs on all its providers") != NULL;
    if (level <= INLAY_LOG_WARNING) {
        const size_t used = strlen(log->warnings);

        (void)snprintf(log->warnings + used, sizeof log->warnings - used, "%s\n", text);
    }
    (void)pthread_mutex_unlock(&log->mutex);
}

static void expect_engines(int built, int loaded)
{
    assert_int_equal(logged.built, built);
    assert_int_equal(logged.loaded, loaded);
    logged.built = logged.loaded = logged.most = 0;
    logged.warnings[0] = '\0';
}

typedef struct chain_model {
    const char *prefix; /* of all names */
    int layers[LAYERS]; /* number of the weights of each layer */
    int layer_count;
    int64_t rows;  /* of the input; -1: the symbol "n" */
    float changed; /* added to a weight of the last layer */
} chain_model;

static const chain_model usual = { .prefix = "", .layers = { 0, 1, 2, 3 }, .layer_count = LAYERS, .rows = 2 };

static void make_weights(const chain_model *model, int layer, float weights[WIDTH * WIDTH])
{
    for (int i = 0; i < WIDTH * WIDTH; i++)
        weights[i] = (float)((i * 7 + model->layers[layer] * 5) % 11 - 5) / 8;
    weights[3] += layer == model->layer_count - 1 ? model->changed : 0;
}

/* MatMul and LeakyRelu for each layer. */
static void write_chain(const chain_model *model, onnx_bytes *file)
{
    static const int64_t weight_dims[] = { WIDTH, WIDTH };
    const int64_t dims[] = { model->rows, WIDTH };
    char from[32], to[32], inputs[80], product[32], constant[32];
    onnx_bytes graph = { .count = 0 };

    (void)snprintf(from, sizeof from, "%sx", model->prefix);
    onnx_input(&graph, from, INLAY_FLOAT, 2, dims);
    for (int layer = 0; layer < model->layer_count; layer++) {
        float weights[WIDTH * WIDTH];

        make_weights(model, layer, weights);
        (void)snprintf(constant, sizeof constant, "%sw%d", model->prefix, layer);
        (void)snprintf(product, sizeof product, "%sp%d", model->prefix, layer);
        (void)snprintf(to, sizeof to, "%sy%d", model->prefix, layer);
        (void)snprintf(inputs, sizeof inputs, "%s,%s", from, constant);
        onnx_constant(&graph, constant, INLAY_FLOAT, 2, weight_dims, weights, sizeof weights);
        onnx_node(&graph, "MatMul", "", inputs, product);
        onnx_node(&graph, "LeakyRelu", "", product, to);
        memcpy(from, to, sizeof from);
    }
    onnx_output(&graph, to, INLAY_FLOAT, 2, dims);
    assert_int_equal(onnx_file(file, &graph, 17, NULL), 0);
}

static void compute_chain(const chain_model *model, int64_t rows, const float *x, float *y)
{
    float now[16 * WIDTH], next[16 * WIDTH], weights[WIDTH * WIDTH];

    assert_true(rows <= 16);
    memcpy(now, x, (size_t)rows * WIDTH * sizeof *x);
    for (int layer = 0; layer < model->layer_count; layer++) {
        make_weights(model, layer, weights);
        for (int64_t i = 0; i < rows; i++)
            for (int j = 0; j < WIDTH; j++) {
                float sum = 0;

                for (int k = 0; k < WIDTH; k++)
                    sum += now[i * WIDTH + k] * weights[k * WIDTH + j];
                next[i * WIDTH + j] = sum < 0 ? 0.01f * sum : sum;
            }
        memcpy(now, next, sizeof now);
    }
    memcpy(y, now, (size_t)rows * WIDTH * sizeof *y);
}

/* settings: pairs of name and value, ended by NULL. */
static inlay_options *make_options(const char *const *settings)
{
    const char *const always[] = { "plugin_dirs", SAMPLE_DIRS, "providers", "chip,skeleton", "policy", "priority",
                                   "cache_dir",   folder,      NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options;

    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    for (const char *const *pair = always; pair[0] != NULL; pair += 2)
        assert_int_equal(inlay_options_set(options, pair[0], pair[1], &diag), INLAY_OK);
    for (const char *const *pair = settings; pair != NULL && pair[0] != NULL; pair += 2)
        if (inlay_options_set(options, pair[0], pair[1], &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
    inlay_options_set_log(options, keep_log, &logged);
    return options;
}

/* The file must outlive the session. */
static inlay_session *open_chain(const chain_model *model, const char *const *settings, onnx_bytes *file)
{
    inlay_options *options = make_options(settings);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session;

    memset(file, 0, sizeof *file);
    write_chain(model, file);
    if (inlay_session_create_from_bytes(file->data, file->count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    return session;
}

static void bind_rows(inlay_context *context, int64_t rows, float *x)
{
    const int64_t dims[] = { rows, WIDTH };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;

    for (int64_t i = 0; i < rows * WIDTH; i++)
        x[i] = (float)(i % 13 - 6) / 4;
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, x, (uint64_t)(rows * WIDTH) * sizeof *x, &value, &diag),
                     INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 0, value, &diag), INLAY_OK);
    inlay_value_unref(value);
}

static void run_rows(inlay_context *context, const chain_model *model, int64_t rows)
{
    float x[16 * WIDTH], y[16 * WIDTH];
    const float *got;

    bind_rows(context, rows, x);
    run_context(context);
    compute_chain(model, rows, x, y);
    got = inlay_value_data(inlay_context_output(context, 0));
    assert_non_null(got);
    for (int64_t i = 0; i < rows * WIDTH; i++)
        assert_float_equal(got[i], y[i], 1e-5);
}

/* Opens a session, runs it at 2 rows, and closes it. */
static void use_chain(const chain_model *model, const char *const *settings)
{
    onnx_bytes file;
    inlay_session *session = open_chain(model, settings, &file);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context;

    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    run_rows(context, model, 2);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/inlay-engines-XXXXXX");
    logged.built = logged.loaded = logged.most = 0;
    logged.warnings[0] = '\0';
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char line[80];

    (void)state;
    (void)snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line);
}

static void equal_regions_share_an_engine(void **state)
{
    static const char *const one_thread[] = { "intra_threads", "1", NULL };
    const chain_model renamed = { .prefix = "other_", .layers = { 0, 1, 2, 3 }, .layer_count = LAYERS, .rows = 2 };
    const chain_model part = { .prefix = "part_", .layers = { 3, 1 }, .layer_count = 2, .rows = 2 };

    (void)state;
    use_chain(&usual, NULL);
    expect_engines(LAYERS, 0);
    use_chain(&usual, NULL);
    expect_engines(0, LAYERS);
    use_chain(&usual, one_thread);
    expect_engines(0, LAYERS);
    use_chain(&renamed, NULL);
    expect_engines(0, LAYERS);
    use_chain(&part, NULL); /* another model with two of the layers */
    expect_engines(0, 2);
}

static void a_changed_weight_builds_one_engine(void **state)
{
    chain_model changed = usual;

    (void)state;
    use_chain(&usual, NULL);
    expect_engines(LAYERS, 0);
    changed.changed = 1;
    use_chain(&changed, NULL);
    expect_engines(1, LAYERS - 1);
}

static void options_and_shapes_are_part_of_the_key(void **state)
{
    static const char *const slow[] = { "chip.compile_ms", "1", NULL };
    chain_model longer = usual;

    (void)state;
    use_chain(&usual, NULL);
    expect_engines(LAYERS, 0);
    use_chain(&usual, slow);
    expect_engines(LAYERS, 0);
    longer.rows = -1;
    use_chain(&longer, NULL);
    expect_engines(LAYERS, 0);
}

/* Runs this program again, with the folder of this one. */
static void another_process_finds_the_engines(void **state)
{
    char line[512];
    int status;

    (void)state;
    use_chain(&usual, NULL);
    expect_engines(LAYERS, 0);
    (void)snprintf(line, sizeof line, "%s --again %s", program, folder);
    status = system(line);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), LAYERS);
}

/* Returns the number of engines that were loaded, or 99 if one was built. */
static int use_again(const char *where)
{
    static const char *const one_thread[] = { "intra_threads", "1", NULL };

    (void)snprintf(folder, sizeof folder, "%s", where);
    use_chain(&usual, one_thread);
    return logged.built == 0 ? logged.loaded : 99;
}

static void damaged_engines_are_built_again(void **state)
{
    static const char *const damages[] = {
        "printf X | dd of=$f bs=1 seek=4099 conv=notrunc", /* in the blob */
        "printf X | dd of=$f bs=1 seek=3 conv=notrunc",    /* another format */
        "printf X | dd of=$f bs=1 seek=8 conv=notrunc",    /* another version */
        "printf X | dd of=$f bs=1 seek=20 conv=notrunc",   /* another key */
        "truncate -s -1 $f",
        "truncate -s 4096 $f",
        "truncate -s 7 $f",
        "truncate -s 0 $f",
        "truncate -s +1 $f",
        "cat /bin/sh >$f",
        "for g in %s/*.blob; do [ $g = $f ] || cp $g $f; done" /* the blob of another region */
    };
    char line[512], damage[256];

    (void)state;
    use_chain(&usual, NULL);
    expect_engines(LAYERS, 0);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        if (strstr(damages[i], "%s") != NULL)
            (void)snprintf(damage, sizeof damage, "for g in %s/*.blob; do [ $g = $f ] || cp $g $f; done", folder);
        else
            (void)snprintf(damage, sizeof damage, "%s", damages[i]);
        (void)snprintf(line, sizeof line, "{ f=$(ls %s/chip-*.blob | head -1); %s; } 2>/dev/null", folder, damage);
        assert_int_equal(system(line), 0);
        use_chain(&usual, NULL);
        assert_non_null(strstr(logged.warnings, "is damaged, or from another version"));
        expect_engines(1, LAYERS - 1);
    }
    use_chain(&usual, NULL);
    assert_null(strstr(logged.warnings, "is damaged"));
    expect_engines(0, LAYERS);
}

static void engines_above_the_limit_are_not_stored(void **state)
{
    static const char *const tiny[] = { "cache_max_bytes", "4100", NULL };

    (void)state;
    use_chain(&usual, tiny);
    assert_non_null(strstr(logged.warnings, "option cache_max_bytes allows 4100"));
    expect_engines(LAYERS, 0);
    use_chain(&usual, NULL);
    expect_engines(LAYERS, 0);
}

static void engines_for_shapes_are_cached(void **state)
{
    chain_model model = usual;
    onnx_bytes file;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    model.rows = -1;
    for (int round = 0; round < 2; round++) {
        inlay_session *session = open_chain(&model, NULL, &file);
        inlay_context *context;

        expect_engines(0, 0);
        assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
        run_rows(context, &model, 2);
        expect_engines(round == 0 ? LAYERS : 0, round == 0 ? 0 : LAYERS);
        run_rows(context, &model, 2);
        expect_engines(0, 0);
        run_rows(context, &model, 5);
        expect_engines(round == 0 ? LAYERS : 0, round == 0 ? 0 : LAYERS);
        inlay_context_destroy(context);
        inlay_session_destroy(session);
    }
}

static int stop_at_engine(void *user, double fraction, const char *what)
{
    int *seen = user;

    (void)fraction;
    *seen += strcmp(what, "building an engine") == 0;
    return *seen > 0;
}

static void creating_a_session_can_be_cancelled(void **state)
{
    static const char *const forever[] = { "chip.compile_ms", "60000", NULL };
    inlay_options *options = make_options(forever);
    inlay_diag diag = INLAY_DIAG_INIT;
    onnx_bytes file = { .count = 0 };
    inlay_session *session;
    int seen = 0;

    (void)state;
    inlay_options_set_progress(options, stop_at_engine, &seen);
    write_chain(&usual, &file);
    assert_int_equal(inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag), INLAY_CANCELLED);
    assert_true(seen > 0);
    inlay_options_destroy(options);
    expect_engines(0, 0);
}

static void a_run_that_needs_an_engine_can_be_late(void **state)
{
    static const char *const forever[] = { "chip.compile_ms", "60000", NULL };
    const inlay_run_options late = { .struct_size = sizeof late, .timeout_ns = 50000000 };
    inlay_diag diag = INLAY_DIAG_INIT;
    chain_model model = usual;
    float x[2 * WIDTH];
    inlay_context *context;
    inlay_session *session;
    onnx_bytes file;

    (void)state;
    model.rows = -1;
    session = open_chain(&model, forever, &file);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    bind_rows(context, 2, x);
    assert_int_equal(inlay_context_run(context, &late, &diag), INLAY_DEADLINE_EXCEEDED);
    expect_engines(0, 0);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

static void stated_sizes_are_prepared(void **state)
{
    static const char *const settings[] = { "sizes", "n=1,4,batch=16,2,3,5,6,7", NULL };
    static const int64_t sizes[] = { 1, 4, 16, 2, 3, 5, 6, 7 };
    chain_model model = usual;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context;
    inlay_session *session;
    onnx_bytes file;

    (void)state;
    model.rows = -1;
    session = open_chain(&model, settings, &file);
    expect_engines(8 * LAYERS, 0);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            run_rows(context, &model, sizes[i]);
    expect_engines(0, 0);
    for (int64_t rows = 8; rows < 16; rows++) /* other sizes do not replace them */
        run_rows(context, &model, rows);
    expect_engines(8 * LAYERS, 0);
    run_rows(context, &model, 4);
    expect_engines(0, 0);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

static void wrong_sizes_are_refused(void **state)
{
    static const struct {
        const char *value, *message;
    } wrong[] = { { "m=2", "the model has no dimension named 'm'" },
                  { "4", "'4' is neither NAME=N" },
                  { "n=", "'n=' is neither" },
                  { "n=-1", "'n=-1' is neither" },
                  { "n=2 3x", "is neither" },
                  { "=4", "'=4' is neither" } };
    chain_model model = usual;

    (void)state;
    model.rows = -1;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *const settings[] = { "sizes", wrong[i].value, NULL };
        inlay_options *options = make_options(settings);
        inlay_diag diag = INLAY_DIAG_INIT;
        onnx_bytes file = { .count = 0 };
        inlay_session *session;

        write_chain(&model, &file);
        assert_int_equal(inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag),
                         INLAY_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.text, wrong[i].message));
        inlay_options_destroy(options);
    }
}

static void engines_are_built_at_the_same_time(void **state)
{
    static const char *const slow[] = { "chip.compile_ms", "1500", "intra_threads", "4", NULL };
    static const char *const alone[] = { "chip.compile_ms", "20", "intra_threads", "1", NULL };

    (void)state;
    use_chain(&usual, slow);
    assert_int_equal(logged.most, LAYERS);
    expect_engines(LAYERS, 0);
    use_chain(&usual, alone);
    assert_int_equal(logged.most, 1);
    expect_engines(LAYERS, 0);
}

static int count_changes(void)
{
    int changed;

    (void)pthread_mutex_lock(&logged.mutex);
    changed = logged.changed;
    (void)pthread_mutex_unlock(&logged.mutex);
    return changed;
}

/* Runs right before, during and after the change; the application binds its tensors once. */
static void engines_are_built_in_the_background(void **state)
{
    static const char *const settings[] = { "chip.compile_ms", "100", "compile_in_background", "1", NULL };
    const int before = count_changes();
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context, *late;
    inlay_session *session;
    onnx_bytes file;
    int runs = 0;

    (void)state;
    session = open_chain(&usual, settings, &file);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    for (; count_changes() == before; runs++)
        run_rows(context, &usual, 2);
    run_rows(context, &usual, 2);
    assert_int_equal(inlay_context_create(session, &late, &diag), INLAY_OK);
    run_rows(late, &usual, 2);
    run_rows(context, &usual, 2);
    expect_engines(LAYERS, 0);
    assert_true(runs > 0);
    inlay_context_destroy(late);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

static void a_session_need_not_wait_for_its_engines(void **state)
{
    static const char *const forever[] = { "chip.compile_ms", "60000", "compile_in_background", "1", NULL };

    (void)state;
    use_chain(&usual, forever); /* destroying the session stops the compiler */
    expect_engines(0, 0);
}

static void sizes_are_prepared_in_the_background(void **state)
{
    static const char *const settings[] = { "compile_in_background", "1", "sizes", "n=2,3", NULL };
    const int before = count_changes();
    inlay_diag diag = INLAY_DIAG_INIT;
    chain_model model = usual;
    inlay_context *context;
    inlay_session *session;
    onnx_bytes file;

    (void)state;
    model.rows = -1;
    session = open_chain(&model, settings, &file);
    while (count_changes() == before)
        (void)usleep(1000);
    expect_engines(2 * LAYERS, 0);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    run_rows(context, &model, 2);
    run_rows(context, &model, 3);
    expect_engines(0, 0);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

/* Only the chip runs Add: there is nothing to start with. */
static void without_other_providers_the_session_waits(void **state)
{
    static const char *const settings[] = { "compile_in_background", "1", NULL };
    static const int64_t dims[] = { 2, WIDTH };
    inlay_options *options = make_options(settings);
    onnx_bytes graph = { .count = 0 }, file = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session;

    (void)state;
    onnx_input(&graph, "x", INLAY_FLOAT, 2, dims);
    onnx_node(&graph, "Add", "", "x,x", "y");
    onnx_output(&graph, "y", INLAY_FLOAT, 2, dims);
    assert_int_equal(onnx_file(&file, &graph, 17, NULL), 0);
    assert_int_equal(inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag), INLAY_OK);
    expect_engines(1, 0);
    inlay_options_destroy(options);
    inlay_session_destroy(session);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
        ROW(equal_regions_share_an_engine),
        ROW(a_changed_weight_builds_one_engine),
        ROW(options_and_shapes_are_part_of_the_key),
        ROW(another_process_finds_the_engines),
        ROW(damaged_engines_are_built_again),
        ROW(engines_above_the_limit_are_not_stored),
        ROW(engines_for_shapes_are_cached),
        ROW(creating_a_session_can_be_cancelled),
        ROW(a_run_that_needs_an_engine_can_be_late),
        ROW(stated_sizes_are_prepared),
        ROW(wrong_sizes_are_refused),
        ROW(engines_are_built_at_the_same_time),
        ROW(engines_are_built_in_the_background),
        ROW(a_session_need_not_wait_for_its_engines),
        ROW(sizes_are_prepared_in_the_background),
        ROW(without_other_providers_the_session_waits),
    };

    program = argv[0];
    return argc == 3 ? use_again(argv[2]) : cmocka_run_group_tests(tests, NULL, NULL);
}
