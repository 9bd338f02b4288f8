#include "client.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

extern char **environ;
enum { MAX_FLAGS = 24, TIMEOUT_MS = 60000 }; /* long enough for sanitizers on a busy machine */

void serving_prepare(struct serving *serving)
{
    char path[128];

    *serving = (struct serving){ .folder = "/tmp/inlay-serve-XXXXXX" };
    assert_non_null(mkdtemp(serving->folder));
    (void)snprintf(path, sizeof path, "%s/models", serving->folder);
    write_models(path);
}

void serving_prepare_empty(struct serving *serving)
{
    char path[128];

    *serving = (struct serving){ .folder = "/tmp/inlay-serve-XXXXXX" };
    assert_non_null(mkdtemp(serving->folder));
    (void)snprintf(path, sizeof path, "%s/models", serving->folder);
    assert_int_equal(mkdir(path, 0755), 0);
}

void serving_file(const struct serving *serving, const char *name, const char *text, int mode)
{
    char path[256];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", serving->folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
}

void serving_tokenizer(const struct serving *serving, const char *model, const char *special)
{
    char text[8192], name[128];
    size_t used =
        (size_t)snprintf(text, sizeof text,
                         "{\"normalizer\":null,\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":"
                         "\"ByteLevel\",\"add_prefix_space\":false},\"added_tokens\":[");

    for (int id = 1; special != NULL && special[0] != '\0'; id++) {
        const size_t bytes = strcspn(special, " ");

        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"id\":%d,\"content\":\"%.*s\",\"special\":true,\"single_word\":false,\"lstrip\":"
                                 "false,\"rstrip\":false,\"normalized\":false}",
                                 id > 1 ? "," : "", id, (int)bytes, special);
        special += bytes + (special[bytes] == ' ');
    }
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "],\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (int c = '!'; c <= '~'; c++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s%c\":%d", c > '!' ? "," : "",
                                 c == '"' || c == '\\' ? "\\" : "", c, c);
    (void)snprintf(text + used, sizeof text - used, "}}}");
    (void)snprintf(name, sizeof name, "models/%s/tokenizer.json", model);
    serving_file(serving, name, text, 0644);
}

void serving_log(const struct serving *serving, bool end, char *text, size_t bytes)
{
    char path[128];
    int fd;
    ssize_t got;

    (void)snprintf(path, sizeof path, "%s/log", serving->folder);
    fd = open(path, O_RDONLY);
    if (fd >= 0 && end && lseek(fd, 0, SEEK_END) >= (off_t)bytes)
        (void)lseek(fd, -(off_t)bytes + 1, SEEK_END);
    else if (fd >= 0)
        (void)lseek(fd, 0, SEEK_SET);
    got = fd >= 0 ? read(fd, text, bytes - 1) : 0;
    text[got > 0 ? got : 0] = '\0';
    if (fd >= 0)
        (void)close(fd);
}

const char *serving_path(const struct serving *serving, const char *name, char *path, size_t bytes)
{
    (void)snprintf(path, bytes, "%s/%s", serving->folder, name);
    return path;
}

void serving_copy(const struct serving *serving, const char *from, const char *name)
{
    char path[256], bytes[65536];
    int in = open(from, O_RDONLY), out;
    ssize_t got;

    out = open(serving_path(serving, name, path, sizeof path), O_WRONLY | O_CREAT | O_TRUNC, 0755);
    assert_true(in >= 0 && out >= 0);
    while ((got = read(in, bytes, sizeof bytes)) > 0)
        assert_int_equal(write(out, bytes, (size_t)got), got);
    (void)close(in);
    (void)close(out);
}

void serving_folder(const struct serving *serving, const char *name)
{
    char path[256];

    (void)serving_path(serving, name, path, sizeof path);
    for (char *at = path + strlen(serving->folder) + 1;; at++) {
        char was = *at;

        if (was != '/' && was != '\0')
            continue;
        *at = '\0';
        assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
        *at = was;
        if (was == '\0')
            return;
    }
}

void serving_tokens(const struct serving *serving)
{
    serving_file(serving, "tokens", "# users\n" USER_TOKEN "\n", 0600);
    serving_file(serving, "admins", ADMIN_TOKEN "\n", 0600);
}

void serving_model(const struct serving *serving, const char *name, const char *config, void (*write)(const char *path))
{
    char below[128], path[256];

    (void)snprintf(below, sizeof below, "models/%s/1", name);
    serving_folder(serving, below);
    (void)snprintf(below, sizeof below, "models/%s/1/model.onnx", name);
    write(serving_path(serving, below, path, sizeof path));
    (void)snprintf(below, sizeof below, "models/%s/config.yaml", name);
    if (config != NULL)
        serving_file(serving, below, config, 0644);
}

void serving_package(const struct serving *serving, const char *name, const char *config, const struct packed *variants,
                     uint32_t count)
{
    char below[128], text[4096] = "{\"schema_version\":\"1.0\",\"components\":{\"model\":{\"variants\":{";

    for (uint32_t i = 0; i < count; i++) {
        const size_t used = strlen(text);

        (void)snprintf(text + used, sizeof text - used,
                       "%s\"%s\":{\"variant_directory\":\".\",\"executor_info\":{\"ort\":{\"model_file\":\"%s.onnx\"}},"
                       "\"additional_metadata\":{\"inlay\":{\"error\":%g}}}",
                       i > 0 ? "," : "", variants[i].variant, variants[i].variant, variants[i].error);
    }
    (void)strncat(text, "}}}}", sizeof text - strlen(text) - 1);
    (void)snprintf(below, sizeof below, "models/%s", name);
    serving_folder(serving, below);
    (void)snprintf(below, sizeof below, "models/%s/manifest.json", name);
    serving_file(serving, below, text, 0644);
    (void)snprintf(below, sizeof below, "models/%s/config.yaml", name);
    if (config != NULL)
        serving_file(serving, below, config, 0644);
}

void serving_plugin(const struct serving *serving, const char *from, const char *name)
{
    char below[128];

    serving_folder(serving, "plugins");
    (void)snprintf(below, sizeof below, "plugins/%s.so", name);
    serving_copy(serving, from, below);
}

void serving_spawn(struct serving *serving, const char *const *flags)
{
    char models[128], log[128], full[MAX_FLAGS][256];
    char *argv[MAX_FLAGS + 10] = { (char *)(uintptr_t)INLAY_SERVE,    models,
                                   (char *)(uintptr_t) "--port",      (char *)(uintptr_t) "0",
                                   (char *)(uintptr_t) "--no-config", (char *)(uintptr_t) "--grpc-port",
                                   (char *)(uintptr_t) "-1" };
    posix_spawn_file_actions_t actions;
    uint32_t count = 7;

    (void)snprintf(models, sizeof models, "%s/models", serving->folder);
    (void)snprintf(log, sizeof log, "%s/log", serving->folder);
    for (uint32_t i = 0; flags != NULL && flags[i] != NULL; i++) {
        bool in_folder = strncmp(flags[i], "FOLDER/", 7) == 0;

        assert_true(i < MAX_FLAGS);
        (void)snprintf(full[i], sizeof full[i], "%s%s", in_folder ? serving->folder : "",
                       flags[i] + (in_folder ? 6 : 0));
        argv[count++] = full[i];
    }
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    /* A test that fails does not stop its server, which must not keep the pipe that ctest reads. */
    (void)posix_spawn_file_actions_adddup2(&actions, 2, 1);
    assert_int_equal(posix_spawn(&serving->pid, INLAY_SERVE, &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
}

void serving_await(const struct serving *serving, const char *part, char *text, size_t bytes)
{
    for (uint32_t waited = 0;; waited += 5) {
        serving_log(serving, false, text, bytes);
        if (strstr(text, part) != NULL)
            return;
        if (waited > TIMEOUT_MS || waitpid(serving->pid, NULL, WNOHANG) != 0)
            fail_msg("the server did not start: %s", text);
        client_wait_ms(5);
    }
}

void serving_start(struct serving *serving, const char *const *flags)
{
    char text[8192];
    const char *at;

    serving_spawn(serving, flags);
    serving_await(serving, "ready, models", text, sizeof text);
    at = strstr(text, "://127.0.0.1:"); /* http or https; gRPC is logged later */
    assert_non_null(at);
    serving->port = (int)strtol(at + strlen("://127.0.0.1:"), NULL, 10);
}

void serving_open(struct serving *serving, const char *const *flags)
{
    serving_prepare(serving);
    serving_start(serving, flags);
}

int serving_end(struct serving *serving, int signal_number)
{
    int status = 0;

    assert_int_equal(kill(serving->pid, signal_number), 0);
    for (uint32_t waited = 0; waitpid(serving->pid, &status, WNOHANG) == 0; waited += 5) {
        if (waited > TIMEOUT_MS) {
            (void)kill(serving->pid, SIGKILL);
            (void)waitpid(serving->pid, &status, 0);
            fail_msg("the server did not end");
        }
        client_wait_ms(5);
    }
    serving->pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        char text[8192];

        serving_log(serving, true, text, sizeof text);
        print_error("the server ended with status %d: %s\n", status, text);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    char below[512];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        (void)snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (unlink(below) != 0)
            remove_tree(below);
    }
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(path);
}

void serving_remove(struct serving *serving)
{
    if (serving->pid > 0) {
        (void)kill(serving->pid, SIGKILL);
        (void)waitpid(serving->pid, NULL, 0);
    }
    remove_tree(serving->folder);
}

int serving_close(struct serving *serving)
{
    const int code = serving_end(serving, SIGTERM);

    serving_remove(serving);
    return code;
}

int serving_tear_down(void **state)
{
    return serving_close(*state);
}

int serving_tear_away(void **state)
{
    serving_remove(*state);
    return 0;
}

uint32_t serving_children(const struct serving *serving, long *pids, uint32_t room)
{
    char path[96];
    uint32_t count = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)serving->pid, (int)serving->pid);
    file = fopen(path, "r");
    assert_non_null(file);
    while (count < room && fscanf(file, "%ld", &pids[count]) == 1)
        count++;
    (void)fclose(file);
    return count;
}

uint32_t serving_files(const struct serving *serving)
{
    char path[64];
    uint32_t count = 0;
    DIR *dir;

    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)serving->pid);
    dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

uint64_t serving_memory(const struct serving *serving)
{
    char path[64];
    unsigned long long pages = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)serving->pid);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %llu", &pages), 1);
    (void)fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

int client_connect(const struct serving *serving)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)serving->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct timeval patience = { TIMEOUT_MS / 1000, 0 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    assert_true(fd >= 0);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

int client_free_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    (void)close(fd);
    return ntohs(at.sin_port);
}

void client_send(int fd, const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);

        if (sent <= 0)
            return; /* the server has closed its side; the answer shows why */
        at += sent;
        bytes -= (size_t)sent;
    }
}

void client_text(int fd, const char *text)
{
    client_send(fd, text, strlen(text));
}

const char *answer_header(const struct answer *answer, const char *name, char *value, size_t bytes)
{
    const char *at = answer->head;
    size_t length = strlen(name);

    while ((at = strstr(at, "\r\n")) != NULL) {
        at += 2;
        if (strncasecmp(at, name, length) == 0 && at[length] == ':') {
            at += length + 1 + strspn(at + length + 1, " ");
            (void)snprintf(value, bytes, "%.*s", (int)strcspn(at, "\r"), at);
            return value;
        }
    }
    return NULL;
}

void client_receive(int fd, struct answer *out)
{
    static _Thread_local char text[sizeof out->head + sizeof out->body];
    char length[32];
    size_t have = 0, head, body;
    char *end;

    *out = (struct answer){ .code = 0 };
    text[0] = '\0';
    while ((end = strstr(text, "\r\n\r\n")) == NULL) {
        ssize_t got = have < sizeof out->head - 1 ? recv(fd, text + have, sizeof out->head - 1 - have, 0) : 0;

        if (got <= 0)
            return;
        have += (size_t)got;
        text[have] = '\0';
    }
    head = (size_t)(end - text) + 4;
    (void)snprintf(out->head, sizeof out->head, "%.*s", (int)head, text);
    body = answer_header(out, "Content-Length", length, sizeof length) != NULL ? strtoul(length, NULL, 10) : 0;
    assert_true(body < sizeof out->body);
    while (have < head + body) {
        ssize_t got = recv(fd, text + have, head + body - have, 0);

        if (got <= 0)
            return;
        have += (size_t)got;
    }
    memcpy(out->body, text + head, body);
    out->body[body] = '\0';
    out->body_bytes = body;
    out->code = (int)strtol(out->head + strlen("HTTP/1.1 "), NULL, 10);
}

/* Appends a request and its answer to the file that the variable CLIENT_EXCHANGES names, if it is set: a line with the
 * method, path, code and both sizes in bytes, then both bodies. published.py reads it. */
static void record(const char *method, const char *path, const void *body, size_t bytes, int code, const char *answer,
                   size_t answer_bytes)
{
    const char *name = getenv("CLIENT_EXCHANGES");
    char line[2200];
    int length, fd;

    if (name == NULL)
        return;
    length = snprintf(line, sizeof line, "%s %s %d %zu %zu\n", method, path, code, bytes, answer_bytes);
    fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && length > 0 && (size_t)length < sizeof line);
    assert_int_equal(writev(fd,
                            (const struct iovec[]){ { line, (size_t)length },
                                                    { (void *)(uintptr_t)body, bytes },
                                                    { (void *)(uintptr_t)answer, answer_bytes } },
                            3),
                     (ssize_t)((size_t)length + bytes + answer_bytes));
    (void)close(fd);
}

void client_call(int fd, const char *method, const char *path, const char *headers, const void *body, size_t bytes,
                 struct answer *out)
{
    char head[2048];
    int length = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n%s\r\n",
                          method, path, bytes, headers);

    assert_true(length > 0 && (size_t)length < sizeof head);
    client_send(fd, head, (size_t)length);
    if (bytes > 0)
        client_send(fd, body, bytes);
    client_receive(fd, out);
    record(method, path, body, bytes, out->code, out->body, out->body_bytes);
}

void client_once(const struct serving *serving, const char *method, const char *path, const char *headers,
                 const char *body, struct answer *out)
{
    int fd = client_connect(serving);

    assert_true(fd >= 0);
    client_call(fd, method, path, headers, body, body != NULL ? strlen(body) : 0, out);
    (void)close(fd);
}

void client_expect(const struct serving *serving, const char *method, const char *path, const char *headers,
                   const char *body, int code, const char *part)
{
    struct answer answer;

    client_once(serving, method, path, headers, body, &answer);
    if (answer.code != code || strstr(answer.body, part) == NULL)
        fail_msg("%s %s %s: expected %d with '%s', got %d: %s", method, path, body != NULL ? body : "", code, part,
                 answer.code, answer.body);
}

/* Joins the chunks of the body of a reply, of which the last may be incomplete: the server decides where chunks end. */
static void join_chunks(char *text, size_t bytes)
{
    char *at = strstr(text, "\r\n\r\n"), *to, *end = text + bytes;

    if (at == NULL || strstr(text, "Transfer-Encoding: chunked") == NULL)
        return;
    at += 4;
    for (to = at; at < end;) {
        char *data = strstr(at, "\r\n");
        size_t size = strtoul(at, NULL, 16), left;

        if (data == NULL || size == 0)
            break;
        data += 2;
        left = (size_t)(end - data);
        memmove(to, data, size < left ? size : left);
        to += size < left ? size : left;
        at = size + 2 < left ? data + size + 2 : end;
    }
    *to = '\0';
}

void client_stream(const struct serving *serving, const char *path, const char *body, const char *part, char *text,
                   size_t bytes)
{
    int fd = client_connect(serving);
    char head[512];
    size_t have = 0;
    ssize_t count;

    assert_true(fd >= 0);
    (void)snprintf(head, sizeof head,
                   "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n", path,
                   strlen(body));
    client_text(fd, head);
    client_text(fd, body);
    text[0] = '\0';
    while (have < bytes - 1 && (part == NULL || strstr(text, part) == NULL) &&
           (count = recv(fd, text + have, bytes - 1 - have, 0)) > 0) {
        have += (size_t)count;
        text[have] = '\0';
    }
    (void)close(fd);
    join_chunks(text, have);
    record("POST", path, body, strlen(body), 0, text, strlen(text));
}

double client_metric(const struct serving *serving, const char *name)
{
    struct answer answer;
    const char *at;

    client_once(serving, "GET", "/metrics", "", NULL, &answer);
    assert_int_equal(answer.code, 200);
    at = answer.body;
    while ((at = strstr(at, name)) != NULL) {
        if ((at == answer.body || at[-1] == '\n') && at[strlen(name)] == ' ')
            return strtod(at + strlen(name), NULL);
        at++;
    }
    return -1;
}

double client_guessed_tokens(const struct serving *serving, const char *model, const char *kind)
{
    char name[128];

    (void)snprintf(name, sizeof name, "inlay_guessed_tokens_total{model=\"%s\",version=\"1\",kind=\"%s\"}", model,
                   kind);
    return client_metric(serving, name);
}

double client_cached_tokens(const struct serving *serving, const char *model)
{
    char name[128];

    (void)snprintf(name, sizeof name, "inlay_cached_tokens_total{model=\"%s\",version=\"1\"}", model);
    return client_metric(serving, name);
}

void client_await(const struct serving *serving, const char *name, double value)
{
    for (uint32_t i = 0; client_metric(serving, name) != value; i++) {
        if (i == 12000)
            fail_msg("%s is %g, not %g", name, client_metric(serving, name), value);
        client_wait_ms(5);
    }
}

double client_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void client_wait_ms(long ms)
{
    const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };

    (void)nanosleep(&pause, NULL);
}
