/* The requests in the documentation of KServe and Triton, in the files of examples/: each is sent and must get the
 * documented answer. A file has examples separated by lines of ===. Lines start with
 *
 *   #    comment
 *   >    method and path
 *   :    a header
 *   <    the code of the answer
 *   =    text that the answer's header or body contains
 *   0x   binary data after the JSON: of the request before <, of the answer after it
 *
 * All other lines are the body. */
#include "client.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;

struct example {
    char method[8], path[256], headers[1024], body[4096], data[256], wanted_data[256];
    size_t body_bytes, data_bytes, wanted_bytes;
    char parts[16][256];
    size_t part_count;
    int code; /* 0: not read yet */
};

static int start(void **state)
{
    static const char *const flags[] = { "--admin-token-file", "FOLDER/admins", "--trace-file", "FOLDER/trace", NULL };
    char path[256];

    (void)state;
    serving_prepare_empty(&server);
    write_documented(serving_path(&server, "models/mymodel.onnx", path, sizeof path));
    serving_model(&server, "mysum", "options: [state=old=new]\n", write_sum);
    serving_tokens(&server);
    serving_start(&server, flags);
    return 0;
}

static int end(void **state)
{
    (void)state;
    return serving_close(&server);
}

static size_t read_hex(const char *text, char *out, size_t room)
{
    size_t count = 0;
    unsigned byte;
    int used;

    while (sscanf(text, " %2x%n", &byte, &used) == 1) {
        assert_true(count < room);
        out[count++] = (char)byte;
        text += used;
    }
    return count;
}

/* Reads one line of a file, with its newline. */
static void read_line(struct example *example, char *line)
{
    size_t bytes = strlen(line);

    if (example->code == 0 && line[0] != '#' && strchr(">:<=0", line[0]) == NULL) {
        assert_true(example->body_bytes + bytes < sizeof example->body);
        memcpy(example->body + example->body_bytes, line, bytes);
        example->body_bytes += bytes;
        return;
    }
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '>') {
        assert_int_equal(sscanf(line, "> %7s %255s", example->method, example->path), 2);
    } else if (line[0] == ':') {
        (void)snprintf(example->headers + strlen(example->headers), sizeof example->headers - strlen(example->headers),
                       "%s\r\n", line + 2);
    } else if (line[0] == '<') {
        example->code = (int)strtol(line + 2, NULL, 10);
    } else if (line[0] == '=') {
        assert_true(example->part_count < 16 && bytes < sizeof example->parts[0]);
        memcpy(example->parts[example->part_count++], line + 2, bytes - 2);
    } else if (line[0] == '0' && example->code == 0) {
        example->data_bytes = read_hex(line + 2, example->data, sizeof example->data);
    } else if (line[0] == '0') {
        example->wanted_bytes = read_hex(line + 2, example->wanted_data, sizeof example->wanted_data);
    } else {
        assert_int_equal(line[0], '#');
    }
}

static void send_example(struct example *example, const char *file)
{
    static struct answer answer;
    char length[32] = "";
    size_t json;
    int fd = client_connect(&server);

    if (example->data_bytes > 0)
        (void)snprintf(example->headers + strlen(example->headers), sizeof example->headers - strlen(example->headers),
                       "Inference-Header-Content-Length: %zu\r\n", example->body_bytes);
    memcpy(example->body + example->body_bytes, example->data, example->data_bytes);
    client_call(fd, example->method, example->path, example->headers, example->body,
                example->body_bytes + example->data_bytes, &answer);
    (void)close(fd);
    if (answer.code != example->code)
        fail_msg("%s, %s %s: expected %d, got %d: %s", file, example->method, example->path, example->code, answer.code,
                 answer.body);
    for (size_t i = 0; i < example->part_count; i++)
        if (strstr(answer.head, example->parts[i]) == NULL && strstr(answer.body, example->parts[i]) == NULL)
            fail_msg("%s, %s %s: no '%s' in %s%s", file, example->method, example->path, example->parts[i], answer.head,
                     answer.body);
    json = answer_header(&answer, "Inference-Header-Content-Length", length, sizeof length) != NULL
               ? strtoul(length, NULL, 10)
               : answer.body_bytes;
    assert_int_equal(answer.body_bytes - json, example->wanted_bytes);
    assert_memory_equal(answer.body + json, example->wanted_data, example->wanted_bytes);
}

static void test_file(void **state)
{
    const char *file = *state;
    char path[512], line[1024];
    uint32_t sent = 0;
    struct example example = { .code = 0 };
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s", EXAMPLES_DIR, file);
    f = fopen(path, "r");
    assert_non_null(f);
    for (bool more = true; more;) {
        more = fgets(line, sizeof line, f) != NULL;
        if (more && strncmp(line, "===", 3) != 0) {
            read_line(&example, line);
            continue;
        }
        assert_true(example.code != 0 && example.method[0] != '\0');
        send_example(&example, file);
        example = (struct example){ .code = 0 };
        sent++;
    }
    (void)fclose(f);
    assert_true(sent >= 3);
}

int main(void)
{
#define FILE_TEST(name)                                                                                                \
    {                                                                                                                  \
        name, test_file, NULL, NULL, (void *)(uintptr_t)name                                                           \
    }
    const struct CMUnitTest tests[] = {
        FILE_TEST("kserve-rest.txt"),    FILE_TEST("triton-binary.txt"),        FILE_TEST("triton-parameters.txt"),
        FILE_TEST("triton-control.txt"), FILE_TEST("triton-perf-analyzer.txt"), FILE_TEST("tritonclient.txt"),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, end);
}
