/* Without a setting, the server batches requests of models that gain by it, and only of these whose rows have the same
 * results in a batch and alone. */
#include "client.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmocka_all.h"

/* What the provider `rows` does, see rows_plugin.c. */
static const struct {
    const char *op;
    bool is_chosen; /* runs gain by batches, and rows have the same results */
} operators[] = { { "Neg", true }, { "Abs", false }, { "Relu", false }, { "Sigmoid", false }, { "Exp", false } };

static const struct {
    const char *name, *config, *dims;
    int max_batch; /* as reported: 0 = not batchable; -1: that which the server chooses */
} forms[] = {
    { "plain", "", "N,5", -1 },
    { "said", "max_batch: 0\n", "N,5", -1 },
    { "one", "max_batch: 1\n", "N,5", 1 },
    { "three", "max_batch: 3\n", "N,5", 3 },
    { "cold", "warmup: 0\n", "N,5", 1 },
    { "open", "", "N,M", 1 },
    { "fixed", "", "1,5", 0 },
};

/* Variants of a package: -x after 40 ms, x in no time. */
static const struct packed rungs[] = { { "exact", 0 }, { "rough", 0.25 } };
static const char *const rung_operators[] = { "Exp", "Ceil" };

enum { OPERATORS = sizeof operators / sizeof operators[0], FORMS = sizeof forms / sizeof forms[0], CHOSEN = 4 };

static struct serving server;

static void add_model(const char *op, const char *form, const char *config, const char *dims)
{
    char name[64], text[256], path[256];

    (void)snprintf(name, sizeof name, "%s-%s", op, form);
    (void)snprintf(text, sizeof text, "options: [\"providers=rows,reference\"]\n%s", config);
    (void)snprintf(name, sizeof name, "models/%s-%s/1", op, form);
    serving_folder(&server, name);
    (void)snprintf(name, sizeof name, "models/%s-%s/1/model.onnx", op, form);
    write_one(serving_path(&server, name, path, sizeof path), op, dims);
    (void)snprintf(name, sizeof name, "models/%s-%s/config.yaml", op, form);
    serving_file(&server, name, text, 0644);
}

static int start(void **state)
{
    static const char *const flags[] = {
        "--plugin-dirs", "FOLDER/plugins", "--cache-dir", "FOLDER/cache", "--runners", "1", NULL
    };

    *state = &server;
    serving_prepare_empty(&server);
    serving_plugin(&server, ROWS_PLUGIN, "rows");
    for (size_t op = 0; op < OPERATORS; op++)
        for (size_t form = 0; form < FORMS; form++)
            add_model(operators[op].op, forms[form].name, forms[form].config, forms[form].dims);
    serving_package(&server, "rungs", "options: [\"providers=rows,reference\", ladder=all]\nmax_batch: 1\n", rungs, 2);
    for (size_t i = 0; i < 2; i++) {
        char name[64], path[256];

        (void)snprintf(name, sizeof name, "models/rungs/%s.onnx", rungs[i].variant);
        write_one(serving_path(&server, name, path, sizeof path), rung_operators[i], "N,5");
    }
    serving_start(&server, flags);
    return 0;
}

static void test_chosen_batches(void **state)
{
    (void)state;
    for (size_t op = 0; op < OPERATORS; op++) {
        for (size_t form = 0; form < FORMS; form++) {
            int expected = forms[form].max_batch >= 0 ? forms[form].max_batch : operators[op].is_chosen ? CHOSEN : 1;
            char path[128], part[64];

            (void)snprintf(path, sizeof path, "/v2/models/%s-%s/config", operators[op].op, forms[form].name);
            (void)snprintf(part, sizeof part, "\"max_batch_size\":%d,", expected);
            client_expect(&server, "GET", path, "", NULL, 200, part);
        }
    }
}

static long count_of(const char *name)
{
    struct answer answer;
    const char *at;

    client_once(&server, "GET", "/v2/models/Neg-plain/stats", "", NULL, &answer);
    at = strstr(answer.body, name);
    assert_non_null(at);
    return strtol(at + strlen(name), NULL, 10);
}

static void ask(int fd, int number)
{
    char body[256], head[256];

    (void)snprintf(body, sizeof body,
                   "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,5],\"datatype\":\"FP32\",\"data\":[%d,1,2,3,4]}]}",
                   number);
    (void)snprintf(head, sizeof head,
                   "POST /v2/models/Neg-plain/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                   strlen(body));
    client_text(fd, head);
    client_text(fd, body);
}

/* Requests that wait for a run share the next one, and each gets its own row. The requests are repeated until two share
 * a run. */
static void test_waiting_requests_share_runs(void **state)
{
    enum { CLIENTS = 8, ROUNDS = 200 };
    int fds[CLIENTS];

    (void)state;
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = client_connect(&server);
    for (int round = 0; count_of("\"execution_count\":") == count_of("\"inference_count\":"); round++) {
        assert_true(round < ROUNDS);
        for (int i = 0; i < CLIENTS; i++)
            ask(fds[i], 10 * round + i + 1);
        for (int i = 0; i < CLIENTS; i++) {
            struct answer answer;
            char part[64];

            (void)snprintf(part, sizeof part, "\"data\":[-%d.0,-1.0,-2.0,-3.0,-4.0]", 10 * round + i + 1);
            client_receive(fds[i], &answer);
            if (answer.code != 200 || strstr(answer.body, part) == NULL)
                fail_msg("expected %s, got %d: %s", part, answer.code, answer.body);
        }
    }
    for (int i = 0; i < CLIENTS; i++)
        (void)close(fds[i]);
}

/* With option ladder, the deadline of a request chooses the variant of the package, which the reply names. */
static void test_deadlines_choose_variants(void **state)
{
    static const char inputs[] =
        "\"inputs\":[{\"name\":\"x\",\"shape\":[1,5],\"datatype\":\"FP32\",\"data\":[1,2,3,4,5]}]}";
    static const struct {
        const char *headers, *parameters, *variant, *data;
    } rows[] = {
        { "", "", "{\"variant\":\"exact\",\"variant_error\":0}", "[-1.0,-2.0,-3.0,-4.0,-5.0]" },
        { "", "\"parameters\":{\"timeout\":30000},", "{\"variant\":\"rough\",\"variant_error\":0.25}",
          "[1.0,2.0,3.0,4.0,5.0]" },
        { "Inference-Timeout-Ms: 30\r\n", "", "{\"variant\":\"rough\",\"variant_error\":0.25}",
          "[1.0,2.0,3.0,4.0,5.0]" },
        { "Inference-Timeout-Ms: 600000\r\n", "", "{\"variant\":\"exact\",\"variant_error\":0}",
          "[-1.0,-2.0,-3.0,-4.0,-5.0]" },
    };
    enum { MOST_TRIES = 200 };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct answer answer = { .code = 504 };
        char body[512];

        (void)snprintf(body, sizeof body, "{%s%s", rows[i].parameters, inputs);
        for (int k = 0; answer.code == 504 && k < MOST_TRIES; k++) /* the machine may be busy for 30 ms */
            client_once(&server, "POST", "/v2/models/rungs/infer", rows[i].headers, body, &answer);
        if (answer.code != 200 || strstr(answer.body, rows[i].variant) == NULL ||
            strstr(answer.body, rows[i].data) == NULL)
            fail_msg("row %zu: expected %s and %s, got %d: %s", i, rows[i].variant, rows[i].data, answer.code,
                     answer.body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen_batches),
        cmocka_unit_test(test_waiting_requests_share_runs),
        cmocka_unit_test(test_deadlines_choose_variants),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
