/* Faults around the server: a disk that is full at any byte of a log, and files of a served model that are damaged or
 * exchanged. Slow headers, unfinished bodies and workers that end are tests of framing, limits, safety and workers. */
#include "client.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

enum {
    STEP = 7,
    LONGEST = 700
}; /* the disk is full after 0, 7, 14 ... further bytes; a record is shorter than the last */

#define TWICE "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}"
#define TWICE_REPLY "[2.0,4.0,6.0]"

static struct serving server;
static struct answer answer;
static long asked;

/* Limits the size of the server's files: further bytes are refused as on a full disk. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(prlimit(server.pid, RLIMIT_FSIZE, NULL, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(prlimit(server.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void limit_after(const char *name, uint32_t bytes)
{
    char path[256];
    struct stat st;

    assert_int_equal(stat(serving_path(&server, name, path, sizeof path), &st), 0);
    limit_files((rlim_t)st.st_size + bytes);
}

/* Sends a request on the connection. When it has its reply, the record of the one before it has been written. */
static void ask(int fd, const char *method, const char *path, const char *body, const char *part)
{
    client_call(fd, method, path, "", body, body != NULL ? strlen(body) : 0, &answer);
    if (answer.code != 200 || strstr(answer.body, part) == NULL)
        fail_msg("%s: expected %s, got %d: %s", path, part, answer.code, answer.body);
    asked++;
}

static long lost(int fd)
{
    const char *at;

    ask(fd, "GET", "/metrics", NULL, "\ninlay_lost_records_total ");
    at = strstr(answer.body, "\ninlay_lost_records_total ") + strlen("\ninlay_lost_records_total ");
    return strtol(at, NULL, 10);
}

static char *read_log(const char *name)
{
    static char text[1 << 20];
    char path[256];
    FILE *file = fopen(serving_path(&server, name, path, sizeof path), "r");
    size_t bytes;

    assert_non_null(file);
    bytes = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[bytes] = '\0';
    return text;
}

/* The number of complete lines of the access log; *out_cut: of the others. No line has parts of two. */
static long whole_lines(long *out_cut)
{
    long whole = 0;

    *out_cut = 0;
    for (char *line = strtok(read_log("access"), "\n"); line != NULL; line = strtok(NULL, "\n")) {
        bool ends = strncmp(line, "{\"time\":\"", 9) == 0 && line[strlen(line) - 1] == '}';

        if (strstr(line + 1, "{\"time\"") != NULL)
            fail_msg("two lines in one: %s", line);
        whole += ends;
        *out_cut += !ends;
    }
    return whole;
}

static void test_full_disk_of_the_access_log(void **state)
{
    static const char *const flags[] = { "--serve-threads", "1", "--access-log", "FOLDER/access", NULL };
    long count, cut;
    int fd;

    (void)state;
    serving_open(&server, flags);
    asked = 0;
    fd = client_connect(&server);
    for (uint32_t bytes = 0; bytes < LONGEST; bytes += STEP) {
        limit_after("access", bytes);
        for (int i = 0; i < 3; i++)
            ask(fd, "POST", "/v2/models/twice/infer", TWICE, TWICE_REPLY);
        limit_files(RLIM_INFINITY);
        ask(fd, "GET", "/v2/models/twice", NULL, "twice");
    }
    count = lost(fd);
    assert_in_range(count, LONGEST / STEP, 3 * LONGEST / STEP);
    for (uint32_t i = 0; whole_lines(&cut) + count != asked; i++) {
        if (i == 12000)
            fail_msg("%ld whole lines and %ld lost ones of %ld", whole_lines(&cut), count, asked);
        client_wait_ms(5);
    }
    assert_in_range(cut, 10, count);
    (void)close(fd);
    assert_int_equal(serving_close(&server), 0);
}

/* The trace file remains an array of complete requests, whose numbers have no gap. */
static void check_trace(long requests)
{
    const char *text = read_log("trace"), *at = text;
    size_t bytes = strlen(text);

    assert_memory_equal(text, "[\n", 2);
    assert_string_equal(text + bytes - 3, "\n]\n");
    assert_null(strstr(text, "[\n,"));
    for (long id = 1; id <= requests; id++) {
        char part[64];

        (void)snprintf(part, sizeof part, "{\"id\":%ld,\"model_name\"", id);
        at = strstr(at, part);
        assert_non_null(at);
        (void)snprintf(part, sizeof part, "{\"id\":%ld,\"timestamps\":[", id);
        at = strstr(at, part);
        assert_non_null(at);
    }
    assert_null(strstr(at, "\"model_name\""));
}

/* The disk is full already at the start, as when a worker is restarted. */
static void test_full_disk_at_the_start(void **state)
{
    static const char *const flags[] = { "--trace-file", "/dev/full", "--admin-token-file", "FOLDER/admins", NULL };

    (void)state;
    serving_prepare(&server);
    serving_tokens(&server);
    serving_start(&server, flags);
    client_expect(&server, "POST", "/v2/trace/setting", AS_ADMIN,
                  "{\"trace_level\":[\"TIMESTAMPS\"],\"trace_rate\":\"1\"}", 200, "TIMESTAMPS");
    client_expect(&server, "POST", "/v2/models/twice/infer", "", TWICE, 200, TWICE_REPLY);
    client_expect(&server, "POST", "/v2/models/twice/infer", "", TWICE, 200, TWICE_REPLY);
    assert_in_range((uint64_t)client_metric(&server, "inlay_lost_records_total"), 1, 2);
    assert_int_equal(serving_close(&server), 0);
}

static void test_full_disk_of_the_trace(void **state)
{
    static const char *const flags[] = { "--serve-threads", "1", "--trace-file", "FOLDER/trace", "--admin-token-file",
                                         "FOLDER/admins",   NULL };
    long requests = 0;
    int fd;

    (void)state;
    serving_prepare(&server);
    serving_tokens(&server);
    serving_start(&server, flags);
    client_expect(&server, "POST", "/v2/trace/setting", AS_ADMIN,
                  "{\"trace_level\":[\"TIMESTAMPS\"],\"trace_rate\":\"1\"}", 200, "TIMESTAMPS");
    fd = client_connect(&server);
    for (uint32_t bytes = 0; bytes < LONGEST; bytes += STEP) {
        limit_after("trace", bytes);
        ask(fd, "POST", "/v2/models/twice/infer", TWICE, TWICE_REPLY);
        requests++;
        check_trace(requests - lost(fd));
        limit_files(RLIM_INFINITY);
    }
    assert_in_range(lost(fd), 10, requests - 1);
    (void)close(fd);
    assert_int_equal(serving_close(&server), 0);
}

static void overwrite(const char *path, off_t bytes)
{
    int fd = open(path, O_WRONLY);

    assert_true(fd >= 0);
    for (off_t i = 0; i < bytes; i++)
        assert_int_equal(pwrite(fd, "?", 1, i), 1);
    (void)close(fd);
}

static void damage(const char *path, int kind)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    switch (kind) {
    case 0:
        overwrite(path, 1);
        break;
    case 1:
        overwrite(path, st.st_size);
        break;
    case 2:
        assert_int_equal(truncate(path, 0), 0);
        break;
    case 3:
        assert_int_equal(truncate(path, st.st_size / 2), 0);
        break;
    case 4:
        assert_int_equal(truncate(path, st.st_size - 1), 0);
        break;
    case 5:
        assert_int_equal(unlink(path), 0);
        break;
    case 6:
        assert_true(unlink(path) == 0 && mkdir(path, 0755) == 0);
        break;
    default:
        assert_true(unlink(path) == 0 && symlink("nothing", path) == 0);
        break;
    }
}

/* A damaged or exchanged file neither changes nor replaces the served model; a good file then replaces it. */
static void test_swapped_files(void **state)
{
    enum { KINDS = 8 };
    char path[256];

    (void)state;
    serving_prepare(&server);
    serving_tokens(&server);
    serving_start(&server, (const char *const[]){ "--admin-token-file", "FOLDER/admins", NULL });
    (void)serving_path(&server, "models/twice.onnx", path, sizeof path);
    for (int kind = 0; kind < KINDS; kind++) {
        damage(path, kind);
        client_expect(&server, "POST", "/v2/models/twice/infer", "", TWICE, 200, TWICE_REPLY);
        client_once(&server, "POST", "/v2/repository/models/twice/load", AS_ADMIN, "", &answer);
        if (answer.code != 400 && answer.code != 404)
            fail_msg("damage %d: %d: %s", kind, answer.code, answer.body);
        client_expect(&server, "POST", "/v2/models/twice/infer", "", TWICE, 200, TWICE_REPLY);
        if (kind == 6)
            assert_int_equal(rmdir(path), 0);
        write_doubling(path, 1);
        client_expect(&server, "POST", "/v2/repository/models/twice/load", AS_ADMIN, "", 200, "");
        client_expect(&server, "POST", "/v2/models/twice/infer", "", TWICE, 200, TWICE_REPLY);
    }
    assert_int_equal(serving_close(&server), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_disk_of_the_access_log),
        cmocka_unit_test(test_full_disk_of_the_trace),
        cmocka_unit_test(test_full_disk_at_the_start),
        cmocka_unit_test(test_swapped_files),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
