/* Option memory_limit, host=BYTES, below the size of the weights: they are read from their files during runs. */
#include "graph_script.h"
#include "base/heap.h"
#include "page_cache.h"
#include "run_context.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* CODE_MB: pages of the plugins and of the host's code that the first sessions touch are not the session's memory. */
enum { LAYERS = 16, WIDTH = 1024, ROWS = 4, WORDS = 4096, LIMIT_MB = 16, CODE_MB = 4 };
static const char limit[] = "host=16M";
static char folder[] = "/tmp/inlay_stream.XXXXXX";
static char model_path[64], cache[64], mixture_path[64], data_path[64];

/* Writes weights to the data file, from `at` on, and an initializer that refers to them. Returns their end. */
static int64_t write_typed(struct wire *wire, FILE *data, const char *name, int dtype, uint32_t rank,
                           const int64_t *dims, int64_t seed, int64_t at)
{
    const int64_t count = dims[0] * dims[1] * (rank > 2 ? dims[2] : 1);
    const int64_t bytes = dtype == INLAY_FLOAT ? count * (int64_t)sizeof(float) : count;
    float *weights = malloc((size_t)count * sizeof *weights);
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    char number[24];

    assert_non_null(weights);
    for (int64_t i = 0; i < count; i++)
        if (dtype == INLAY_FLOAT)
            weights[i] = (float)((i * 31 + seed * 7) % 1009 - 504) / 8192;
        else
            ((uint8_t *)weights)[i] = (uint8_t)((i * 31 + seed * 7) % 251);
    assert_int_equal(fseek(data, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(weights, 1, (size_t)bytes, data), bytes);
    free(weights);
    mw_tensor_head(wire, name, dtype, rank, dims);
    mw_entry(wire, 13, "location", strrchr(data_path, '/') + 1);
    (void)snprintf(number, sizeof number, "%lld", (long long)at);
    mw_entry(wire, 13, "offset", number);
    (void)snprintf(number, sizeof number, "%lld", (long long)bytes);
    mw_entry(wire, 13, "length", number);
    wire_int(wire, 14, 1); /* EXTERNAL */
    wire_end(wire, mark);
    return at + bytes;
}

static int64_t write_weights(struct wire *wire, FILE *data, const char *name, uint32_t rank, const int64_t *dims,
                             int64_t seed, int64_t at)
{
    return write_typed(wire, data, name, INLAY_FLOAT, rank, dims, seed, at);
}

/* y = tanh(... tanh(table[ids] W0) W1 ...): 16 MiB of rows that are gathered, and 64 MiB of matrices, of which the host
 * has to align the last half. */
static void write_model(void)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    char in[16] = "x", both[40], out[16], name[16];
    FILE *data;
    int64_t at;

    (void)snprintf(data_path, sizeof data_path, "%s/model.data", folder);
    data = fopen(data_path, "wb");
    assert_non_null(data);
    mw_value(&wire, MW_INPUT, "ids", INLAY_INT64, "4");
    at = write_weights(&wire, data, "table", 2, (int64_t[]){ WORDS, WIDTH }, 0, 0);
    mw_node(&wire, "Gather", "table,ids", "x");
    for (int i = 0; i < LAYERS; i++) {
        (void)snprintf(name, sizeof name, "w%d", i);
        at = write_weights(&wire, data, name, 2, (int64_t[]){ WIDTH, WIDTH }, i + 1, i == LAYERS / 2 ? at + 4 : at);
        (void)snprintf(both, sizeof both, "%s,%s", in, name);
        (void)snprintf(out, sizeof out, "m%d", i);
        mw_node(&wire, "MatMul", both, out);
        (void)snprintf(in, sizeof in, "t%d", i);
        mw_node(&wire, "Tanh", out, in);
    }
    mw_value(&wire, MW_OUTPUT, in, INLAY_FLOAT, "4,1024");
    wire_end(&wire, mark);
    mw_save(&wire, model_path);
    assert_int_equal(fclose(data), 0);
    wire_deinit(&wire);
}

static inlay_status open_model(const char *path, const char *providers, const char *memory, inlay_session **out,
                               inlay_diag *diag)
{
    inlay_options *options = rig_options(
        (const char *const[]){ "providers", providers, "intra_threads", "2", "cache_dir", cache, NULL }, diag);
    inlay_status status;

    *out = NULL;
    if (memory != NULL)
        assert_int_equal(inlay_options_set(options, "memory_limit", memory, diag), INLAY_OK);
    status = inlay_session_create(path, options, out, diag);
    inlay_options_destroy(options);
    return status;
}

static inlay_status open_session(const char *providers, const char *memory, inlay_session **out, inlay_diag *diag)
{
    return open_model(model_path, providers, memory, out, diag);
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

enum { EXPERTS = 16, HIDDEN = 256, EXPERT_BYTES = HIDDEN * HIDDEN * 4 };

/* Starts the model of mixture_path, whose weights are in a file of the folder. Returns the mark of its graph. */
static wire_mark begin_model(struct wire *wire, const char *data_name, FILE **out_data)
{
    wire_mark graph;

    (void)snprintf(data_path, sizeof data_path, "%s/%s", folder, data_name);
    *out_data = fopen(data_path, "wb");
    assert_non_null(*out_data);
    wire_int(wire, 1, 13);
    mw_opset(wire, 8, "", 21);
    mw_opset(wire, 8, "com.microsoft", 1);
    graph = wire_begin(wire, 7);
    wire_text(wire, 2, "g");
    return graph;
}

/* 8 MiB of experts; each row selects the one with the highest probability. */
static void write_mixture(void)
{
    const int64_t dims[] = { EXPERTS, HIDDEN, HIDDEN };
    struct wire wire = { 0 };
    wire_mark graph;
    FILE *data;
    int64_t at;

    graph = begin_model(&wire, "mixture.data", &data);
    at = write_weights(&wire, data, "w1", 3, dims, 5, 0);
    (void)write_weights(&wire, data, "w2", 3, dims, 6, at);
    script_add(&wire, "x : 2,256\n"
                      "router : 2,16\n"
                      "y = ms.MoE(x,router,w1,_,w2) k=1\n"
                      "-> y : 2,256");
    wire_end(&wire, graph);
    mw_save(&wire, mixture_path);
    assert_int_equal(fclose(data), 0);
    wire_deinit(&wire);
}

/* Row i selects the i-th of these experts. */
static void run_mixture(inlay_session *session, const int64_t *experts, float *out)
{
    const int64_t x_dims[] = { 2, HIDDEN }, router_dims[] = { 2, EXPERTS };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;
    inlay_value *x = NULL, *router = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, x_dims, &x, NULL), INLAY_OK);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, router_dims, &router, NULL), INLAY_OK);
    for (int i = 0; i < 2 * HIDDEN; i++)
        ((float *)inlay_value_data(x))[i] = (float)(i % 13 - 6) / 8;
    for (int i = 0; i < 2 * EXPERTS; i++)
        ((float *)inlay_value_data(router))[i] = i % EXPERTS == experts[i / EXPERTS] ? 2 : 0;
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 0, x, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 1, router, NULL), INLAY_OK);
    run_context(context);
    memcpy(out, inlay_value_data(inlay_context_output(context, 0)), 2 * HIDDEN * sizeof *out);
    inlay_value_unref(x);
    inlay_value_unref(router);
    inlay_context_destroy(context);
}

/* Maps the data file. */
static char *map_data(size_t bytes)
{
    const int fd = open(data_path, O_RDONLY | O_CLOEXEC);
    char *map;

    assert_true(fd >= 0);
    map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(close(fd), 0);
    return map;
}

/* Of a mixture beyond the limit, a run reads the experts that its rows select, and no page of the others. */
static void selected_experts_are_read(void **state)
{
    static const int64_t selected[] = { 3, 9, 14, 3 };
    const size_t bytes = (size_t)2 * EXPERTS * EXPERT_BYTES;
    inlay_diag diag = INLAY_DIAG_INIT;
    float results[2][2][2 * HIDDEN];
    inlay_session *session;
    char *map;

    (void)state;
    write_mixture();
    for (int limited = 0; limited < 2; limited++) {
        if (open_model(mixture_path, "cpu", limited ? "host=4M" : NULL, &session, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        map = map_data(bytes);
        if (limited && !page_cache_drop(data_path, map, bytes)) {
            assert_int_equal(munmap(map, bytes), 0);
            inlay_session_destroy(session);
            skip(); /* a file system in memory */
        }
        for (int i = 0; i < 2; i++)
            run_mixture(session, selected + 2 * i, results[limited][i]);
        for (int64_t e = 0; limited && e < 2 * EXPERTS; e++) {
            const bool used = e % EXPERTS == 3 || e % EXPERTS == 9 || e % EXPERTS == 14;
            const size_t pages = page_cache_pages(map + e * EXPERT_BYTES, EXPERT_BYTES);

            /* experts that were read with O_DIRECT have no page in the cache */
            assert_true(pages == 0 || (used && pages == EXPERT_BYTES / page_bytes()));
        }
        assert_int_equal(munmap(map, bytes), 0);
        inlay_session_destroy(session);
    }
    assert_memory_equal(results[0], results[1], sizeof results[0]);
}

enum { CODED_LAYER_BYTES = WIDTH * (WIDTH / 2 + WIDTH / 32 * 4) };

/* Products of codes of 4 bits, whose packed form is read. */
static void write_codes(void)
{
    struct wire wire = { 0 };
    wire_mark graph;
    FILE *data;
    char in[16] = "x", list[40], out[16], name[8], scale[8];
    int64_t at = 0;

    graph = begin_model(&wire, "codes.data", &data);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "4,1024");
    for (int i = 0; i < LAYERS; i++) {
        (void)snprintf(name, sizeof name, "q%d", i);
        (void)snprintf(scale, sizeof scale, "s%d", i);
        (void)snprintf(list, sizeof list, "%s,%s,%s", in, name, scale);
        (void)snprintf(out, sizeof out, "m%d", i);
        at = write_typed(&wire, data, name, INLAY_UINT8, 3, (int64_t[]){ WIDTH, WIDTH / 32, 16 }, i, at);
        at = write_weights(&wire, data, scale, 2, (int64_t[]){ WIDTH, WIDTH / 32 }, i, at);
        script_add(&wire, "%s = ms.MatMulNBits(%s) K=%d N=%d bits=4 block_size=32", out, list, WIDTH, WIDTH);
        (void)snprintf(in, sizeof in, "%s", out);
    }
    mw_value(&wire, MW_OUTPUT, in, INLAY_FLOAT, "4,1024");
    wire_end(&wire, graph);
    mw_save(&wire, mixture_path);
    assert_int_equal(fclose(data), 0);
    wire_deinit(&wire);
}

/* Pages of the codes, without the scales, that are in the system's cache. */
static size_t code_pages(const char *map)
{
    size_t count = 0;

    for (size_t i = 0; i < LAYERS; i++)
        count += page_cache_pages(map + i * CODED_LAYER_BYTES, WIDTH * WIDTH / 2);
    return count;
}

/* A run reads packed codes alone, not also the codes in the model's file. */
static void codes_are_read_once(void **state)
{
    const int64_t dims[] = { ROWS, WIDTH };
    const size_t bytes = (size_t)LAYERS * CODED_LAYER_BYTES;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;
    inlay_value *x = NULL;
    inlay_session *session;
    char *map;

    (void)state;
    write_codes();
    map = map_data(bytes);
    if (!page_cache_drop(data_path, map, bytes)) {
        assert_int_equal(munmap(map, bytes), 0);
        skip(); /* a file system in memory */
    }
    if (open_model(mixture_path, "cpu", "host=4M", &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    (void)page_cache_drop(data_path, map, bytes); /* what packing has read */
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &x, NULL), INLAY_OK);
    memset(inlay_value_data(x), 0, sizeof output);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 0, x, NULL), INLAY_OK);
    run_context(context);
    assert_int_equal(code_pages(map), 0);
    inlay_value_unref(x);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    assert_int_equal(munmap(map, bytes), 0);
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return 1;
    (void)snprintf(model_path, sizeof model_path, "%s/model.onnx", folder);
    (void)snprintf(cache, sizeof cache, "%s/cache", folder);
    (void)snprintf(mixture_path, sizeof mixture_path, "%s/mixture.onnx", folder);
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
        cmocka_unit_test(selected_experts_are_read),
        cmocka_unit_test(codes_are_read_once),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
