/* Option memory_limit, host=BYTES, below the size of the weights: they are read from their files during runs. */
#include "rig.h"
#include "base/heap.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* CODE_MB: pages of the plugins and of the host's code that the first sessions touch are not the session's memory. */
enum { LAYERS = 16, WIDTH = 1024, ROWS = 4, WORDS = 4096, LIMIT_MB = 16, CODE_MB = 4 };
static const char limit[] = "host=16M";
static char folder[] = "/tmp/inlay_stream.XXXXXX";
static char model_path[64], cache[64];

/* Writes weights to the data file, from `at` on, and an initializer that refers to them. Returns their end. */
static int64_t write_weights(struct wire *wire, FILE *data, const char *name, int64_t rows, int64_t seed, int64_t at)
{
    const int64_t dims[2] = { rows, WIDTH }, bytes = rows * WIDTH * (int64_t)sizeof(float);
    float *weights = malloc((size_t)bytes);
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    char number[24];

    assert_non_null(weights);
    for (int64_t i = 0; i < rows * WIDTH; i++)
        weights[i] = (float)((i * 31 + seed * 7) % 1009 - 504) / 8192;
    assert_int_equal(fseek(data, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(weights, 1, (size_t)bytes, data), bytes);
    free(weights);
    mw_tensor_head(wire, name, INLAY_FLOAT, 2, dims);
    mw_entry(wire, 13, "location", "model.data");
    (void)snprintf(number, sizeof number, "%lld", (long long)at);
    mw_entry(wire, 13, "offset", number);
    (void)snprintf(number, sizeof number, "%lld", (long long)bytes);
    mw_entry(wire, 13, "length", number);
    wire_int(wire, 14, 1); /* EXTERNAL */
    wire_end(wire, mark);
    return at + bytes;
}

/* y = tanh(... tanh(table[ids] W0) W1 ...): 16 MiB of rows that are gathered, and 64 MiB of matrices, of which the host
 * has to align the last half. */
static void write_model(void)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    char in[16] = "x", both[40], out[16], name[16], data_path[80];
    FILE *file = fopen(model_path, "wb"), *data;
    int64_t at;

    (void)snprintf(data_path, sizeof data_path, "%s/model.data", folder);
    data = fopen(data_path, "wb");
    assert_non_null(file);
    assert_non_null(data);
    mw_value(&wire, MW_INPUT, "ids", INLAY_INT64, "4");
    at = write_weights(&wire, data, "table", WORDS, 0, 0);
    mw_node(&wire, "Gather", "table,ids", "x");
    for (int i = 0; i < LAYERS; i++) {
        (void)snprintf(name, sizeof name, "w%d", i);
        at = write_weights(&wire, data, name, WIDTH, i + 1, i == LAYERS / 2 ? at + 4 : at);
        (void)snprintf(both, sizeof both, "%s,%s", in, name);
        (void)snprintf(out, sizeof out, "m%d", i);
        mw_node(&wire, "MatMul", both, out);
        (void)snprintf(in, sizeof in, "t%d", i);
        mw_node(&wire, "Tanh", out, in);
    }
    mw_value(&wire, MW_OUTPUT, in, INLAY_FLOAT, "4,1024");
    wire_end(&wire, mark);
    assert_false(wire.failed);
    assert_int_equal(fwrite(wire.bytes, 1, wire.count, file), wire.count);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(fclose(data), 0);
    wire_deinit(&wire);
}

static inlay_status open_session(const char *providers, const char *memory, inlay_session **out, inlay_diag *diag)
{
    inlay_options *options = rig_options(
        (const char *const[]){ "providers", providers, "intra_threads", "2", "cache_dir", cache, NULL }, diag);
    inlay_status status;

    *out = NULL;
    if (memory != NULL)
        assert_int_equal(inlay_options_set(options, "memory_limit", memory, diag), INLAY_OK);
    status = inlay_session_create(model_path, options, out, diag);
    inlay_options_destroy(options);
    return status;
}

static inlay_status run(inlay_context *context, float *output, inlay_diag *diag)
{
    const int64_t ids[ROWS] = { 3, 4095, 0, 77 }, dims[] = { ROWS };
    inlay_value *value = NULL;
    inlay_status status;

    assert_int_equal(inlay_value_create(INLAY_INT64, 1, dims, &value, NULL), INLAY_OK);
    memcpy(inlay_value_data(value), ids, sizeof ids);
    assert_int_equal(inlay_context_set_input(context, 0, value, NULL), INLAY_OK);
    inlay_value_unref(value);
    status = inlay_context_run(context, NULL, diag);
    if (status == INLAY_OK)
        memcpy(output, inlay_value_data(inlay_context_output(context, 0)), ROWS * WIDTH * sizeof *output);
    return status;
}

static void run_once(inlay_session *session, float *output)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;

    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    for (int i = 0; i < 3; i++)
        if (run(context, output, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
    inlay_context_destroy(context);
}

/* Kilobytes of a line of /proc/self/status. */
static long status_kb(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kb = 0;

    assert_non_null(file);
    while (kb == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            kb = strtol(line + strlen(name) + 1, NULL, 10);
    (void)fclose(file);
    return kb;
}

static void reset_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");

    if (file == NULL)
        return;
    (void)fputs("5", file);
    (void)fclose(file);
}

static float expected[ROWS * WIDTH], output[ROWS * WIDTH];

static void compute_expected(const char *providers)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session;

    if (open_session(providers, NULL, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    run_once(session, expected);
    inlay_session_destroy(session);
}

/* The same bits as without a limit; creation and runs stay below it, file mappings included. The second session finds
 * the packed weights in the cache. */
static void expect_streamed(const char *providers)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session;

    compute_expected(providers);
    for (int i = 0; i < 2; i++) {
        long before, peak;

        heap_trim();
        reset_peak();
        before = status_kb("VmRSS:");
        memset(output, 0, sizeof output);
        if (open_session(providers, limit, &session, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        run_once(session, output);
        peak = status_kb("VmHWM:") - before;
        if (heap_bytes() > 0 && peak >= (LIMIT_MB + CODE_MB) << 10) /* sanitizers need memory of their own */
            fail_msg("%s, session %d: peak %ld kB", providers, i, peak);
        inlay_session_destroy(session);
        assert_memory_equal(output, expected, sizeof output);
    }
}

static void packed_weights_are_streamed(void **state)
{
    (void)state;
    expect_streamed("cpu,reference");
}

static void weights_of_the_file_are_streamed(void **state)
{
    (void)state;
    expect_streamed("reference");
}

static void a_layer_must_fit(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session;
    char memory[64];
    const char *at;

    (void)state;
    if (heap_bytes() == 0)
        skip(); /* the heap of a sanitizer cannot be measured */
    assert_int_equal(open_session("cpu,reference", "host=3M", &session, &diag), INLAY_LIMIT_EXCEEDED);
    at = strstr(diag.text, "memory_limit host=");
    if (at == NULL || strchr(diag.text, '\n') != NULL)
        fail_msg("%s", diag.text);
    assert_in_range(strtoll(at + strlen("memory_limit host="), NULL, 10), 4 << 20, 8 << 20);
    (void)snprintf(memory, sizeof memory, "host=%lld",
                   strtoll(at + strlen("memory_limit host="), NULL, 10) + (64 << 10));
    if (open_session("cpu,reference", memory, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    compute_expected("cpu,reference");
    run_once(session, output);
    assert_memory_equal(output, expected, sizeof output);
    inlay_session_destroy(session);
}

static void *run_in_thread(void *session)
{
    float *mine = malloc(sizeof expected);

    assert_non_null(mine);
    run_once(session, mine);
    return mine;
}

static void contexts_share_the_room(void **state)
{
    enum { THREADS = 3 };
    inlay_diag diag = INLAY_DIAG_INIT;
    pthread_t threads[THREADS];
    inlay_session *session;

    (void)state;
    compute_expected("cpu,reference");
    if (open_session("cpu,reference", limit, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_in_thread, session), 0);
    for (int i = 0; i < THREADS; i++) {
        void *mine;

        assert_int_equal(pthread_join(threads[i], &mine), 0);
        assert_memory_equal(mine, expected, sizeof expected);
        free(mine);
    }
    assert_int_equal(inlay_session_trim(session, &diag), INLAY_OK);
    run_once(session, output);
    assert_memory_equal(output, expected, sizeof output);
    inlay_session_destroy(session);
}

/* A replaced weight: regions that do not read it stay, and the result is that of a session without the limit. */
static void weights_are_replaced(void **state)
{
    const int64_t dims[] = { WIDTH, WIDTH };
    const char *const name = "w3";
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    float results[2][ROWS * WIDTH];

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &value, NULL), INLAY_OK);
    for (int64_t i = 0; i < WIDTH * WIDTH; i++)
        ((float *)inlay_value_data(value))[i] = (float)(i % 101 - 50) / 1024;
    for (int i = 0; i < 2; i++) {
        inlay_session *session;

        /* Until the new version replaces it, both are in memory. */
        if (open_session("cpu,reference", i == 0 ? NULL : "host=48M", &session, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        run_once(session, results[i]);
        if (inlay_session_update(session, 1, &name, &value, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        run_once(session, results[i]);
        inlay_session_destroy(session);
    }
    inlay_value_unref(value);
    assert_memory_equal(results[0], results[1], sizeof results[0]);
}

/* Truncates the files of packed weights. */
static void truncate_packs(void)
{
    char path[400], packs[80];
    struct dirent *entry;
    DIR *dir;
    int count = 0;

    (void)snprintf(packs, sizeof packs, "%s/packs", cache);
    dir = opendir(packs);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, ".packs") == NULL)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", packs, entry->d_name);
        assert_int_equal(truncate(path, 4096), 0);
        count++;
    }
    (void)closedir(dir);
    assert_true(count > 0);
}

static void a_truncated_file_is_an_error(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;
    inlay_session *session;

    (void)state;
    if (open_session("cpu,reference", limit, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    run_once(session, output);
    truncate_packs();
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    assert_int_equal(run(context, output, &diag), INLAY_IO_ERROR);
    if (strstr(diag.text, "truncated") == NULL || strchr(diag.text, '\n') != NULL)
        fail_msg("%s", diag.text);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    compute_expected("cpu,reference"); /* replaces the file */
}

static void children_read_by_themselves(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session;
    int status;
    pid_t child;

    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* see test_fork.c */
#endif
    compute_expected("cpu,reference");
    if (open_session("cpu,reference", limit, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    run_once(session, output);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(60);
        run_once(session, output);
        _exit(memcmp(output, expected, sizeof output) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    run_once(session, output);
    assert_memory_equal(output, expected, sizeof output);
    inlay_session_destroy(session);
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return 1;
    (void)snprintf(model_path, sizeof model_path, "%s/model.onnx", folder);
    (void)snprintf(cache, sizeof cache, "%s/cache", folder);
    write_model();
    keep_plugins();
    return 0;
}

static int remove_folder(void **state)
{
    char command[80];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_weights_are_streamed),
        cmocka_unit_test(weights_of_the_file_are_streamed),
        cmocka_unit_test(a_layer_must_fit),
        cmocka_unit_test(contexts_share_the_room),
        cmocka_unit_test(weights_are_replaced),
        cmocka_unit_test(a_truncated_file_is_an_error),
        cmocka_unit_test(children_read_by_themselves),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
