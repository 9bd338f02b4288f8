/* The server gets SIGTERM at any moment: while it starts, while its workers start, while a worker is restarted, while
 * requests are running. It exits with 0, and none of its processes remains.
 *
 * The test does a few rounds; ENDING_ROUNDS=200 does more. */
#include "client.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"
#include "random.h"

static struct serving server;
static uint64_t seed = 1;

static const char twice[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}";
static const char *const workers[] = { "--workers", "2", "--grpc-port", "0", NULL };

static int prepare(void **state)
{
    *state = &server;
    serving_prepare(&server);
    return 0;
}

static uint32_t rounds(void)
{
    const char *wanted = getenv("ENDING_ROUNDS");

    return wanted != NULL ? (uint32_t)strtoul(wanted, NULL, 10) : 6;
}

/* Waits a random time up to most_us microseconds, usually a short one, because most steps happen at the start. */
static void pause_up_to(uint32_t most_us)
{
    const double part = (double)random_unit(&seed);
    long us = (long)(part * part * most_us);
    const struct timespec timespec = { us / 1000000, us % 1000000 * 1000 };

    (void)nanosleep(&timespec, NULL);
}

static void expect_end(int signal_number)
{
    char path[96], text[96] = "", state = '?';
    long pids[8];
    uint32_t count = serving_children(&server, pids, 8);

    assert_int_equal(serving_end(&server, signal_number), 0);
    for (uint32_t i = 0; i < count; i++) {
        FILE *file;

        (void)snprintf(path, sizeof path, "/proc/%ld/stat", pids[i]);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        assert_non_null(fgets(text, sizeof text, file));
        (void)fclose(file);
        assert_int_equal(sscanf(text, "%*d %*s %c", &state), 1);
        if (state != 'Z') /* ignores probe processes that are zombies */
            fail_msg("process %ld is left: %s", pids[i], text);
    }
}

static void test_while_it_starts(void **state)
{
    static const char *const alone[] = { "--poll-ms", "1", "--grpc-port", "0", NULL };
    char text[8192];

    (void)state;
    for (uint32_t i = 0; i < rounds(); i++) {
        serving_spawn(&server, alone);
        serving_await(&server, "listening on", text, sizeof text);
        pause_up_to(150000);
        expect_end(i % 2 == 0 ? SIGTERM : SIGINT);
    }
}

static void test_while_workers_start(void **state)
{
    char text[8192];

    (void)state;
    for (uint32_t i = 0; i < rounds(); i++) {
        serving_spawn(&server, workers);
        serving_await(&server, "workers listen on", text, sizeof text);
        pause_up_to(300000);
        expect_end(i % 2 == 0 ? SIGTERM : SIGINT);
    }
}

/* Two signals: SIGTERM twice, and SIGINT from a terminal, which signals the workers, too. */
static void test_two_signals(void **state)
{
    static const char *const slow[] = { "--workers", "2", "--drain-ms", "50", NULL };
    char text[8192];

    (void)state;
    for (uint32_t i = 0; i < rounds() / 2; i++) {
        long pids[8];
        uint32_t count;

        serving_spawn(&server, slow);
        serving_await(&server, "workers listen on", text, sizeof text);
        pause_up_to(200000);
        count = serving_children(&server, pids, 8);
        for (uint32_t k = 0; i % 2 != 0 && k < count; k++)
            (void)kill((pid_t)pids[k], SIGINT);
        assert_int_equal(kill(server.pid, i % 2 == 0 ? SIGTERM : SIGINT), 0);
        pause_up_to(50000);
        expect_end(i % 2 == 0 ? SIGTERM : SIGINT);
    }
}

/* Waits until all threads of a child have ended, so that its parent can reap it. */
static void wait_until_dead(long pid)
{
    char path[96], text[96];

    for (uint32_t i = 0; i < 60000; i++) {
        uint32_t threads = 0;
        char state = 'X';
        DIR *tasks;
        FILE *file;

        (void)snprintf(path, sizeof path, "/proc/%ld/task", pid);
        tasks = opendir(path);
        while (tasks != NULL && readdir(tasks) != NULL)
            threads++;
        if (tasks != NULL)
            (void)closedir(tasks);
        (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
        file = fopen(path, "r");
        if (file != NULL && fgets(text, sizeof text, file) != NULL)
            (void)sscanf(text, "%*d %*s %c", &state);
        if (file != NULL)
            (void)fclose(file);
        if ((state == 'Z' && threads <= 3) || state == 'X') /* ".", ".." and itself */
            return;
        client_wait_ms(1);
    }
    fail_msg("process %ld does not end", pid);
}

/* A worker crashes; the signal comes before, while or after its replacement starts. */
static void test_while_a_worker_restarts(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < rounds(); i++) {
        long pids[8];

        serving_start(&server, workers);
        assert_int_equal(serving_children(&server, pids, 8), 2);
        assert_int_equal(kill((pid_t)pids[i % 2], SIGKILL), 0);
        wait_until_dead(pids[i % 2]);
        pause_up_to(i % 3 == 0 ? 1000 : 400000);
        expect_end(SIGTERM);
    }
}

/* A worker that dies while draining leaves requests unanswered, which the exit code reports. */
static void test_a_worker_dies_while_draining(void **state)
{
    static const char *const flags[] = { "--workers", "1", "--drain-ms", "60000", NULL };
    char text[8192];
    long pid;
    struct answer answer;

    (void)state;
    serving_start(&server, flags);
    assert_int_equal(serving_children(&server, &pid, 1), 1);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    for (uint32_t i = 0;; i++) {
        client_once(&server, "GET", "/v2/health/ready", "", NULL, &answer);
        if (answer.code != 200)
            break;
        assert_true(i < 12000);
        client_wait_ms(5);
    }
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
    assert_int_equal(serving_end(&server, 0), 1);
    serving_log(&server, false, text, sizeof text);
    assert_non_null(strstr(text, "Z W inlay-serve: worker 0 ended with signal 9; after SIGTERM"));
}

/* Each request is answered, or its connection is refused. */
static void test_with_requests(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < rounds(); i++) {
        enum { REQUESTS = 8 };
        int fd[REQUESTS];
        char head[512];
        struct answer answer;

        serving_start(&server, i % 2 == 0 ? workers : NULL);
        for (uint32_t k = 0; k < REQUESTS; k++) {
            (void)snprintf(head, sizeof head,
                           "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                           strlen(twice), twice);
            fd[k] = client_connect(&server);
            assert_true(fd[k] >= 0);
            client_text(fd[k], head);
        }
        client_receive(fd[0], &answer); /* at least one must have arrived */
        assert_int_equal(answer.code, 200);
        pause_up_to(2000);
        expect_end(SIGTERM);
        for (uint32_t k = 1; k < REQUESTS; k++) {
            client_receive(fd[k], &answer);
            assert_true(answer.code == 200 || answer.code == 0 || answer.code == 503);
        }
        for (uint32_t k = 0; k < REQUESTS; k++)
            (void)close(fd[k]);
    }
}

static int notified = -1;

/* Expects the next message that the server sends to its supervisor. */
static void expect_notification(const char *word)
{
    char text[64];
    ssize_t n = recv(notified, text, sizeof text - 1, 0);

    assert_true(n > 0);
    text[n] = '\0';
    assert_string_equal(text, word);
}

static void open_notified(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    const struct timeval patience = { 60, 0 };

    (void)serving_path(&server, "notify", at.sun_path, sizeof at.sun_path);
    (void)unlink(at.sun_path);
    notified = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(notified >= 0);
    (void)setsockopt(notified, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(bind(notified, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", at.sun_path, 1), 0);
}

/* READY is sent once, after models are loaded, by the process that systemd started. */
static void test_ready_notification(void **state)
{
    char text[8192];

    (void)state;
    for (int i = 0; i < 2; i++) {
        open_notified();
        serving_spawn(&server, i == 0 ? NULL : workers);
        expect_notification("READY=1");
        serving_await(&server, "ready, models", text, sizeof text);
        expect_end(SIGTERM);
        expect_notification("STOPPING=1");
        assert_true(recv(notified, text, sizeof text, MSG_DONTWAIT) < 0);
        (void)close(notified);
        (void)unsetenv("NOTIFY_SOCKET");
    }
}

/* A listening loopback socket, and its port. */
static int listen_here(int *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 16) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* Starts the server like systemd, with sockets as descriptors 3 and 4. grpc -1: only the first one. */
static void start_with(int rest, int grpc, const char *flags)
{
    char command[1024], second[64] = "";

    if (grpc >= 0)
        (void)snprintf(second, sizeof second, "exec 4<&%d; export LISTEN_FDNAMES=rest:grpc;", grpc);
    (void)snprintf(command, sizeof command,
                   "exec 3<&%d; %s export LISTEN_PID=$$ LISTEN_FDS=%d; exec %s %s/models --no-config --port 1 "
                   "--grpc-port %d %s 2> %s/log",
                   rest, second, grpc >= 0 ? 2 : 1, INLAY_SERVE, server.folder, grpc >= 0 ? 1 : -1, flags,
                   server.folder);
    server.pid = fork();
    if (server.pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
}

/* A connection that arrives before the server starts waits in the socket that systemd holds. */
static void test_passed_socket(void **state)
{
    int fd = listen_here(&server.port);
    struct answer answer;

    (void)state;
    for (int i = 0; i < 2; i++) {
        int before = client_connect(&server);

        assert_true(before >= 0);
        start_with(fd, -1, i == 0 ? "" : "--workers 2");
        client_call(before, "POST", "/v2/models/twice/infer", "", twice, sizeof twice - 1, &answer);
        assert_int_equal(answer.code, i == 0 && answer.code == 503
                                          ? 503
                                          : 200); /* a single process already answers while models are loaded */
        (void)close(before);
        expect_end(SIGTERM);
    }
    (void)close(fd);
}

/* Does the server have this descriptor open? */
static bool has_file(int fd)
{
    char path[64], to[128];

    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)server.pid, fd);
    return readlink(path, to, sizeof to) > 0;
}

/* Counts the descriptors that the server has closed, but that are still in its epoll. If another process has the same
 * socket, epoll keeps reporting its events. */
static uint32_t closed_but_watched(void)
{
    uint32_t count = 0;
    int fds = (int)serving_files(&server) + 64;

    for (int epoll = 0; epoll < fds; epoll++) {
        char path[64], line[128];
        int watched;
        FILE *file;

        (void)snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)server.pid, epoll);
        file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "tfd: %d", &watched) == 1)
                count += !has_file(watched);
        if (file != NULL)
            (void)fclose(file);
    }
    return count;
}

/* While draining, the server ignores connections that wait in a socket shared with other processes. */
static void test_connections_of_other_processes(void **state)
{
    int grpc, rest = listen_here(&server.port), fd = listen_here(&grpc), half;
    char text[8192];

    (void)state;
    start_with(rest, fd, "");
    serving_await(&server, "ready, models", text, sizeof text);
    half = client_connect(&server);
    client_text(half, "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{");
    client_await(&server, "inlay_http_requests", 2);
    assert_true(has_file(3) && has_file(4));
    assert_int_equal(closed_but_watched(), 0);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    for (uint32_t i = 0; has_file(3) || has_file(4); i++) {
        assert_true(i < 12000);
        client_wait_ms(5);
    }
    assert_int_equal(closed_but_watched(), 0);
    (void)close(half);
    expect_end(0);
    (void)close(rest);
    (void)close(fd);
}

/* A model is being loaded and its first run does not end. If the run reacts to cancellation, loading ends at once;
 * otherwise the server exits after the grace time. */
static void test_endless_load(void **state)
{
    static const char *const flags[] = { "--workers",    "1", "--plugin-dirs", "FOLDER/plugins", "--cache-dir",
                                         "FOLDER/cache", NULL };
    static const struct {
        const char *op, *grace_ms;
        bool alone, left;
    } loads[] = { { "Abs", "600000", true, false },
                  { "Abs", "600000", false, false },
                  { "Relu", "100", true, true },
                  { "Relu", "100", false, true } };
    char path[256], text[8192];

    (void)state;
    serving_folder(&server, "models/endless/1");
    serving_plugin(&server, STUCK_PLUGIN, "stuck");
    serving_file(&server, "models/endless/config.yaml", "options: [\"providers=stuck,reference\"]\n", 0644);
    for (uint32_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        const char *all[16] = { "--grace-ms", loads[i].grace_ms };
        uint32_t n = 2;

        for (uint32_t k = loads[i].alone ? 2 : 0; flags[k] != NULL; k++)
            all[n++] = flags[k];
        write_one(serving_path(&server, "models/endless/1/model.onnx", path, sizeof path), loads[i].op, "7");
        serving_spawn(&server, all);
        serving_await(&server, "stuck: a run", text, sizeof text);
        expect_end(SIGTERM);
        serving_log(&server, false, text, sizeof text);
        assert_int_equal(strstr(text, "does not stop; exiting without it") != NULL, loads[i].left);
    }
}

/* Sends a request of each kind: all have the same answer. */
static void expect_all(const char *reason)
{
    static const struct {
        const char *path, *body;
    } requests[] = { { "/v2/models/twice/infer", twice },
                     { "/v1/completions", "{\"model\":\"says\",\"prompt\":\"a\"}" },
                     { "/v1/completions", "{\"model\":\"says:adapter\",\"prompt\":\"a\"}" },
                     { "/v1/chat/completions",
                       "{\"model\":\"says\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}" },
                     { "/v1/responses", "{\"model\":\"says\",\"input\":\"a\"}" },
                     { "/v1/embeddings", "{\"model\":\"says\",\"input\":\"a\"}" },
                     { "/v1/rerank", "{\"model\":\"says\",\"query\":\"a\",\"documents\":[\"b\"]}" },
                     { "/tokenize", "{\"model\":\"says\",\"prompt\":\"a\"}" } };

    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        client_expect(&server, "POST", requests[i].path, "", requests[i].body, 503, reason);
}

/* While models are loaded, and after the end of the server has stopped that, every request for a model that is not
 * loaded is answered 503 with the same reason. */
static void test_requests_without_a_model(void **state)
{
    static const char *const flags[] = { "--plugin-dirs", "FOLDER/plugins", "--cache-dir", "FOLDER/cache",
                                         "--drain-ms",    "600000",         NULL };
    char path[256], text[8192];
    struct answer answer;
    const char *at;

    (void)state;
    serving_folder(&server, "models/a_endless/1");
    serving_plugin(&server, STUCK_PLUGIN, "stuck");
    serving_file(&server, "models/a_endless/config.yaml", "options: [\"providers=stuck,reference\"]\n", 0644);
    write_one(serving_path(&server, "models/a_endless/1/model.onnx", path, sizeof path), "Abs", "7");
    serving_spawn(&server, flags);
    serving_await(&server, "stuck: a run", text, sizeof text);
    at = strstr(text, "://127.0.0.1:");
    assert_non_null(at);
    server.port = (int)strtol(at + strlen("://127.0.0.1:"), NULL, 10);
    expect_all("models are being loaded");
    client_once(&server, "POST", "/v1/completions", "", "{\"model\":\"says\",\"prompt\":\"a\"}", &answer);
    assert_string_equal(answer_header(&answer, "Retry-After", path, sizeof path), "1");
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    serving_await(&server, "draining", text, sizeof text);
    expect_all("the server is shutting down");
    expect_end(SIGTERM); /* which ends drain_ms */
    assert_int_equal(unlink(serving_path(&server, "models/a_endless/1/model.onnx", path, sizeof path)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_while_it_starts),
        cmocka_unit_test(test_while_workers_start),
        cmocka_unit_test(test_two_signals),
        cmocka_unit_test(test_while_a_worker_restarts),
        cmocka_unit_test(test_a_worker_dies_while_draining),
        cmocka_unit_test(test_with_requests),
        cmocka_unit_test(test_ready_notification),
        cmocka_unit_test(test_passed_socket),
        cmocka_unit_test(test_connections_of_other_processes),
        cmocka_unit_test(test_requests_without_a_model),
        cmocka_unit_test(test_endless_load),
    };
    const char *start = getenv("ENDING_SEED");

    if (start != NULL)
        seed = strtoull(start, NULL, 10);
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, prepare, serving_tear_away);
}
