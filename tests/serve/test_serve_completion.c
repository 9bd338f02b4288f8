/* /v1/completions: texts that go on, whole and as events; clients that leave in the middle. */
#include "client.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static serving server;

/* Every printable character is a token of its code; <|end|> is the one behind 'y'. */
static void write_tokenizer(const serving *s)
{
    static char text[8192];
    size_t used =
        (size_t)snprintf(text, sizeof text,
                         "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                         "false},\"added_tokens\":[],\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");

    for (int c = '!'; c <= '~'; c++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s%c\":%d", c > '!' ? "," : "",
                                 c == '"' || c == '\\' ? "\\" : "", c, c);
    (void)snprintf(text + used, sizeof text - used, "}}}");
    serving_file(s, "models/count/tokenizer.json", text, 0644);
    serving_file(s, "models/vectors/tokenizer.json", text, 0644);
    serving_file(s, "models/count/config.json", "{\"eos_token_id\": 122}", 0644);
}

static int start(void **state)
{
    static const char *const folders[] = { "models/count", "models/count/1", "models/vectors", "models/vectors/1" };
    static const char *const flags[] = { "--max-sequences", "4", NULL };
    char path[128];

    (void)state;
    serving_prepare(&server);
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", server.folder, folders[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    (void)snprintf(path, sizeof path, "%s/models/count/1/model.onnx", server.folder);
    write_counting(path);
    (void)snprintf(path, sizeof path, "%s/models/vectors/1/model.onnx", server.folder);
    write_vectors(path);
    serving_file(&server, "models/count/config.yaml", "options: [state=old=new]\n", 0644);
    write_tokenizer(&server);
    serving_start(&server, flags);
    return 0;
}

static int end(void **state)
{
    int code = serving_end(&server, SIGTERM);

    (void)state;
    serving_remove(&server);
    return code;
}

static void expect(const char *body, int code, const char *part)
{
    answer a;

    client_once(&server, "POST", "/v1/completions", "", body, &a);
    if (a.code != code || strstr(a.body, part) == NULL)
        fail_msg("%s: expected %d with '%s', got %d: %s", body, code, part, a.code, a.body);
}

#define ASK(more) "{\"model\":\"count\",\"prompt\":\"xyz\",\"temperature\":0" more "}"

static void test_whole_texts(void **state)
{
    answer a;

    (void)state;
    expect(ASK(",\"max_tokens\":5"), 200, "\"text\":\"CDEFG\",\"logprobs\":null,\"finish_reason\":\"length\"");
    expect(ASK(",\"max_tokens\":5"), 200, "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5,\"total_tokens\":8}");
    expect(ASK(",\"max_tokens\":1"), 200, "\"text\":\"C\"");
    expect(ASK(""), 200, "\"text\":\"CDEFGHIJKLMNOPQR\""); /* 16 */
    expect(ASK(",\"max_tokens\":20,\"stop\":\"HI\""), 200,
           "\"text\":\"CDEFG\",\"logprobs\":null,\"finish_reason\":\"stop\"");
    expect(ASK(",\"max_tokens\":20,\"stop\":[\"XX\",\"FG\",\"KL\"]"), 200, "\"text\":\"CDE\"");
    expect(ASK(",\"max_tokens\":100"), 200, "wxy\",\"logprobs\":null,\"finish_reason\":\"stop\""); /* 'z' ends */
    client_once(&server, "GET", "/v1/models", "", NULL, &a);
    assert_non_null(strstr(a.body, "\"data\":[{\"id\":\"count\",\"object\":\"model\""));
}

static void test_what_is_refused(void **state)
{
    (void)state;
    expect("{\"model\":\"none\",\"prompt\":\"x\"}", 404, "no such model");
    expect("{\"model\":\"twice\",\"prompt\":\"x\"}", 400, "none for texts");
    expect("{\"model\":\"count\"}", 400, "no prompt");
    expect("{\"prompt\":\"x\"}", 400, "no model");
    expect("{\"model\":\"count\",\"prompt\":\"\"}", 400, "no tokens");
    expect("{\"model\":\"count\",\"prompt\":[1,2]}", 400, "JSON");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"n\":2}", 400, "too large");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"temperature\":-1}", 400, "too small");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"max_tokens\":0}", 400, "too small");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}", 400, "more than 4");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"echo\":true}", 400, "echo");
    expect("{\"model\":\"count\"", 400, "JSON");
    expect("", 400, "JSON");
}

/* Asks for a stream, and reads what comes until the connection ends or `part` is there. */
static void stream(const char *body, const char *part, char *text, size_t bytes)
{
    int fd = client_connect(&server);
    char head[512];
    size_t have = 0;

    (void)snprintf(head, sizeof head,
                   "POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                   strlen(body));
    client_text(fd, head);
    client_text(fd, body);
    text[0] = '\0';
    while (have < bytes - 1 && (part == NULL || strstr(text, part) == NULL)) {
        ssize_t n = recv(fd, text + have, bytes - 1 - have, 0);

        if (n <= 0)
            break;
        have += (size_t)n;
        text[have] = '\0';
    }
    (void)close(fd);
}

/* The texts of the events, one behind the other. */
static void texts_of(const char *events, char *out, size_t bytes)
{
    size_t used = 0;

    for (const char *at = events; (at = strstr(at, "\"text\":\"")) != NULL;) {
        at += strlen("\"text\":\"");
        used += (size_t)snprintf(out + used, bytes - used, "%.*s", (int)strcspn(at, "\""), at);
    }
    out[used] = '\0';
}

static void test_events(void **state)
{
    static char got[65536];
    char text[256];

    (void)state;
    stream(ASK(",\"max_tokens\":20,\"stream\":true,\"stop\":\"MN\""), NULL, got, sizeof got);
    assert_non_null(strstr(got, "Content-Type: text/event-stream"));
    assert_non_null(strstr(got, "\"text\":\"C\",\"logprobs\":null,\"finish_reason\":null"));
    assert_non_null(strstr(got, "\"finish_reason\":\"stop\"}]}\n\n"));
    assert_non_null(strstr(got, "data: [DONE]\n\n"));
    texts_of(got, text, sizeof text);
    assert_string_equal(text, "CDEFGHIJKL");
    stream(ASK(",\"max_tokens\":0,\"stream\":true"), NULL, got, sizeof got);
    assert_non_null(strstr(got, "HTTP/1.1 400"));
}

static void wait_for(const char *metric, double value)
{
    const struct timespec pause = { 0, 5000000 };

    for (uint32_t i = 0; client_metric(&server, metric) != value; i++) {
        if (i == 2000)
            fail_msg("%s is %g, not %g", metric, client_metric(&server, metric), value);
        (void)nanosleep(&pause, NULL);
    }
}

/* More texts than there are places: those that are over give theirs back, also where nobody waited for the end. */
static void test_clients_that_leave(void **state)
{
    static char got[65536];

    (void)state;
    for (int i = 0; i < 20; i++)
        stream(ASK(",\"max_tokens\":57,\"stream\":true"), i % 2 == 0 ? "\"text\":\"D\"" : "HTTP/1.1", got, sizeof got);
    wait_for("inlay_http_requests", 1);
    for (int i = 0; i < 6; i++)
        expect(ASK(",\"max_tokens\":2"), 200, "\"text\":\"CD\"");
}

static void embed(const char *body, int code, const char *part)
{
    answer a;

    client_once(&server, "POST", "/v1/embeddings", "", body, &a);
    if (a.code != code || strstr(a.body, part) == NULL)
        fail_msg("%s: expected %d with '%s', got %d: %s", body, code, part, a.code, a.body);
}

static void test_embeddings(void **state)
{
    (void)state;
    /* '!' is 33, '"' 34, '#' 35: 33 numbers before, and the vector of "!!!!###" is (4, 0, 3) / 5 there. */
    embed("{\"model\":\"vectors\",\"input\":\"!!!!###\"}", 200,
          "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
          "0,0,0,0,0,0.8,0,0.6,0,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200, "0,0,1,0,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200, "{\"object\":\"embedding\",\"index\":2,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200,
          "\"model\":\"vectors\",\"usage\":{\"prompt_tokens\":4,\"total_tokens\":4}}");
    embed("{\"model\":\"vectors\",\"input\":[\"a\",\"\"]}", 400, "input 1 has no tokens");
    embed("{\"model\":\"vectors\",\"input\":\"a\",\"encoding_format\":\"base64\"}", 400, "other than float");
    embed("{\"model\":\"vectors\",\"input\":7}", 400, "JSON");
    embed("{\"model\":\"vectors\"}", 400, "no input");
    embed("{\"model\":\"count\",\"input\":\"a\"}", 400, "makes no vectors");
    embed("{\"model\":\"none\",\"input\":\"a\"}", 404, "no such model");
    expect("{\"model\":\"vectors\",\"prompt\":\"x\"}", 400, "none for texts");
}

static void *ask_many(void *user)
{
    static char got[4][65536];
    char text[256];

    for (int i = 0; i < 10; i++) {
        char *mine = got[(size_t)user];

        stream(ASK(",\"max_tokens\":30,\"stream\":true"), NULL, mine, sizeof got[0]);
        texts_of(mine, text, sizeof text);
        if (strcmp(text, "CDEFGHIJKLMNOPQRSTUVWXYZ[\\\\]^_`") != 0)
            return strdup(mine);
    }
    return NULL;
}

/* Each text has states of its own. */
static void test_texts_at_once(void **state)
{
    pthread_t threads[4];

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_many, (void *)i), 0);
    for (size_t i = 0; i < 4; i++) {
        void *wrong;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        if (wrong != NULL)
            fail_msg("another text came: %s", (char *)wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_texts),   cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_events),        cmocka_unit_test(test_clients_that_leave),
        cmocka_unit_test(test_texts_at_once), cmocka_unit_test(test_embeddings),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, end);
}
