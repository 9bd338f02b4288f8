/* Model files that are overwritten, cut short and written in parts while clients use them and the folder is polled: no
 * connection ends, every answer is that of a complete version, and no plugin is blamed. */
#include "client.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"
#include "inlay/types.h"
#include "model_writer.h"

enum { CLIENTS = 8, CHANGES = 70 };

static struct serving server;
static atomic_bool stop;
static atomic_uint right, refused, wrong, lost;

/* y = x + w, with the same number in all of w, and 16 KiB of it so that the weights have pages of their own. */
static size_t make_model(float number, unsigned char **out)
{
    enum { COUNT = 4096 };
    static float weights[COUNT];
    struct wire wire = { 0 };
    const int64_t dims[] = { 1, COUNT };
    wire_mark mark = mw_begin(&wire, 8, 17), tensor;
    char path[256];
    struct stat st;
    int fd;

    for (int i = 0; i < COUNT; i++)
        weights[i] = number;
    tensor = wire_begin(&wire, MW_INITIALIZER);
    mw_tensor_head(&wire, "w", INLAY_FLOAT, 2, dims);
    wire_bytes(&wire, 9, weights, sizeof weights);
    wire_end(&wire, tensor);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "1,4096");
    mw_node(&wire, "Add", "x,w", "s");
    mw_node(&wire, "ReduceMax", "s", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "1,1");
    wire_end(&wire, mark);
    (void)serving_path(&server, "made", path, sizeof path);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && wire_write(&wire, fd) && fstat(fd, &st) == 0);
    *out = malloc((size_t)st.st_size);
    assert_true(*out != NULL && pread(fd, *out, (size_t)st.st_size, 0) == st.st_size);
    (void)close(fd);
    wire_deinit(&wire);
    return (size_t)st.st_size;
}

static void *ask(void *user)
{
    char *body = user;
    struct answer *answer = malloc(sizeof *answer);
    int fd = client_connect(&server);

    while (answer != NULL && !atomic_load(&stop)) {
        client_call(fd, "POST", "/v2/models/add/infer", "", body, strlen(body), answer);
        if (answer->code == 200)
            (void)atomic_fetch_add(
                strstr(answer->body, "[1.0]") != NULL || strstr(answer->body, "[2.0]") != NULL ? &right : &wrong, 1);
        else
            (void)atomic_fetch_add(answer->code == 503 && (strstr(answer->body, "add.onnx") != NULL ||
                                                           strstr(answer->body, "could not be loaded") != NULL)
                                       ? &refused
                                       : &lost,
                                   1);
        if (answer->code == 0) {
            (void)close(fd);
            fd = client_connect(&server);
        }
    }
    (void)close(fd);
    free(answer);
    return NULL;
}

/* Overwrites the file of the other version: as cp does, in two parts; with the beginning written last; or with a part
 * of it only. */
static void change(const char *path, const unsigned char *bytes, size_t count, int turn)
{
    const size_t part = 1 + count * (size_t)(turn % 17) / 18;
    int fd = open(path, turn % 3 == 1 ? O_WRONLY : O_WRONLY | O_TRUNC);

    assert_true(fd >= 0);
    if (turn % 3 == 1) {
        assert_int_equal(pwrite(fd, "\xff\xff\xff\xff", 4, 0), 4);
        assert_int_equal(pwrite(fd, bytes + 4, count - 4, 4), count - 4);
        client_wait_ms(turn % 5);
        assert_int_equal(pwrite(fd, bytes, 4, 0), 4);
    } else {
        assert_int_equal(write(fd, bytes, part), part);
        client_wait_ms(turn % 9 == 0 ? 60 : turn % 5); /* of several polls */
        assert_int_equal(write(fd, bytes + part, count - part), count - part);
    }
    (void)close(fd);
    client_wait_ms(turn % 10 == 0 ? 60 : 5);
    if (turn % 25 == 0) {
        assert_int_equal(truncate(path, (off_t)part), 0);
        client_wait_ms(60);
    }
}

/* A request of zeros. */
static void fill_body(char *body, size_t bytes)
{
    int length =
        snprintf(body, bytes, "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4096],\"datatype\":\"FP32\",\"data\":[0");

    for (int i = 1; i < 4096; i++)
        length += snprintf(body + length, bytes - (size_t)length, ",0");
    (void)snprintf(body + length, bytes - (size_t)length, "]}]}");
}

static void run(const char *copy_bytes, bool may_refuse)
{
    const char *const flags[] = { "--poll-ms",    "20",          "--providers",
                                  "reference",    "--cache-dir", "FOLDER/cache",
                                  "--timeout-ms", "20000",       "--copy-file-bytes",
                                  copy_bytes,     NULL };
    static char body[1 << 15];
    unsigned char *versions[2];
    size_t counts[2];
    pthread_t threads[CLIENTS];
    struct answer answer;
    char path[256];
    int fd;

    serving_prepare_empty(&server);
    for (int i = 0; i < 2; i++)
        counts[i] = make_model((float)(i + 1), &versions[i]);
    (void)serving_path(&server, "models/add.onnx", path, sizeof path);
    serving_folder(&server, "models");
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, versions[0], counts[0]), counts[0]);
    (void)close(fd);
    serving_start(&server, flags);
    fill_body(body, sizeof body);
    atomic_store(&stop, false);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, body), 0);
    for (int turn = 1; turn <= CHANGES; turn++)
        change(path, versions[turn % 2], counts[turn % 2], turn);
    change(path, versions[1], counts[1], 3);
    /* The last version is served in the end. */
    for (int i = 0;; i++) {
        client_once(&server, "POST", "/v2/models/add/infer", "", body, &answer);
        if (answer.code == 200 && strstr(answer.body, "[2.0]") != NULL)
            break;
        if (i == 12000)
            fail_msg("%d %s", answer.code, answer.body);
        client_wait_ms(5);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < CLIENTS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_int_equal(atomic_load(&lost), 0);
    assert_true(atomic_load(&right) > 100);
    assert_true(may_refuse || atomic_load(&refused) == 0);
    client_once(&server, "GET", "/metrics", "", NULL, &answer);
    assert_null(strstr(answer.body, "inlay_provider_lost{"));
    assert_int_equal(serving_close(&server), 0);
    free(versions[0]);
    free(versions[1]);
}

/* The default: a small file is read into memory, and the old version serves until the new one is complete. */
static void test_in_memory(void **state)
{
    (void)state;
    run("67108864", false);
}

/* A large file is mapped: a run that has read changed bytes is refused. */
static void test_mapped(void **state)
{
    (void)state;
    run("0", true);
}

static void write_file(const unsigned char *bytes, size_t count)
{
    char path[256];
    const int fd =
        open(serving_path(&server, "models/add.onnx", path, sizeof path), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(write(fd, bytes, count), count);
    (void)close(fd);
}

static void await_code(const char *method, const char *path, const char *body, int code)
{
    struct answer *answer = malloc(sizeof *answer);

    for (int i = 0; i < 12000; i++) {
        client_once(&server, method, path, "", body, answer);
        if (answer->code == code)
            break;
        client_wait_ms(5);
    }
    assert_int_equal(answer->code, code);
    free(answer);
}

/* A mapped file that was cut short: the model is no longer ready, the log says so once, and it is loaded again when the
 * file is whole, without polling. */
static void test_cut_short(void **state)
{
    static const char *const flags[] = { "--providers", "reference", "--copy-file-bytes", "0", NULL };
    static char body[1 << 15], log[1 << 14];
    unsigned char *bytes;
    char path[256];
    size_t count;
    const char *at;
    int lines = 0;

    (void)state;
    serving_prepare_empty(&server);
    count = make_model(1, &bytes);
    serving_folder(&server, "models");
    write_file(bytes, count);
    serving_start(&server, flags);
    fill_body(body, sizeof body);
    client_expect(&server, "POST", "/v2/models/add/infer", "", body, 200, "[1.0]");
    assert_int_equal(truncate(serving_path(&server, "models/add.onnx", path, sizeof path), 100), 0);
    client_expect(&server, "POST", "/v2/models/add/infer", "", body, 503, "add.onnx");
    await_code("GET", "/v2/health/ready", NULL, 400);
    client_expect(&server, "GET", "/v2/health/ready", "", NULL, 400, "0 versions are loaded, 1 failed");
    client_expect(&server, "GET", "/v2/models/add/ready", "", NULL, 404, "");
    client_expect(&server, "POST", "/v2/repository/index", "", NULL, 200, "\"state\":\"UNAVAILABLE\"");
    client_expect(&server, "POST", "/v2/models/add/infer", "", body, 503, "could not be loaded");
    client_wait_ms(1500); /* the damaged file is read, and refused */
    client_expect(&server, "POST", "/v2/models/add/infer", "", body, 503, "could not be loaded");
    write_file(bytes, count);
    await_code("GET", "/v2/health/ready", NULL, 200);
    client_expect(&server, "POST", "/v2/models/add/infer", "", body, 200, "[1.0]");
    serving_await(&server, "model 'add': loaded after earlier failures", log, sizeof log);
    for (at = log; (at = strstr(at, " E inlay-serve: ")) != NULL; at++)
        lines++;
    assert_int_equal(lines, 1);
    assert_non_null(strstr(log, "model 'add', version 1: its files cannot be read as they were when it was loaded"));
    assert_int_equal(serving_close(&server), 0);
    free(bytes);
}

/* A server that starts while a file is being written has the complete version, without polling. */
static void test_written_at_start(void **state)
{
    enum { PARTS = 30 };
    static const char *const flags[] = { "--providers", "reference", NULL };
    unsigned char *bytes;
    char path[256], log[4096];
    size_t count, done = 0;
    int fd;

    (void)state;
    serving_prepare_empty(&server);
    count = make_model(1, &bytes);
    serving_folder(&server, "models");
    fd = open(serving_path(&server, "models/add.onnx", path, sizeof path), O_WRONLY | O_CREAT, 0600);
    serving_spawn(&server, flags);
    for (int part = 1; part <= PARTS; part++) {
        const size_t end = count * (size_t)part / PARTS;

        assert_int_equal(write(fd, bytes + done, end - done), end - done);
        done = end;
        client_wait_ms(part == PARTS / 2 ? 500 : 30); /* as a slow disk or network */
    }
    (void)close(fd);
    serving_await(&server, ": ready, models: 1", log, sizeof log);
    free(bytes);
    (void)serving_end(&server, SIGTERM);
    serving_remove(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_in_memory), cmocka_unit_test(test_mapped),
                                        cmocka_unit_test(test_cut_short), cmocka_unit_test(test_written_at_start) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
