/* The requests of samples/deploy/requests, and the headers for tracing and load balancing. */
#include "client.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;

static int start(void **state)
{
    static const char *const flags[] = {
        "--admin-token-file", "FOLDER/admins", "--trace-file", "FOLDER/trace", "--access-log", "FOLDER/access", NULL
    };

    *state = &server;
    serving_prepare(&server);
    serving_model(&server, "sum", "options: [state=old=new]\n", write_sum);
    serving_tokens(&server);
    serving_start(&server, flags);
    return 0;
}

static void test_requests(void **state)
{
    static const struct {
        const char *file, *path;
        int code;
        const char *part;
    } requests[] = {
        { "infer.json", "/v2/models/twice/infer", 200, "\"data\":[2.0,4.0,6.0,8.0,10.0,12.0]" },
        { "infer-parameters.json", "/v2/models/twice/infer", 200, "\"data\":[2.0,4.0,6.0]" },
        { "sequence-start.json", "/v2/models/sum/infer", 200, "\"data\":[1.0]" },
        { "index.json", "/v2/repository/index", 200, "{\"name\":\"twice\",\"version\":\"1\",\"state\":\"READY\"" },
        { "trace-setting.json", "/v2/trace/setting", 200, "\"trace_rate\":\"100\",\"trace_count\":\"1000\"" },
        { "completion.json", "/v1/completions", 404, "no such model" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        char path[512], body[4096];
        struct answer answer;
        FILE *f;

        (void)snprintf(path, sizeof path, "%s/requests/%s", DEPLOY_DIR, requests[i].file);
        f = fopen(path, "r");
        assert_non_null(f);
        body[fread(body, 1, sizeof body - 1, f)] = '\0';
        (void)fclose(f);
        client_once(&server, "POST", requests[i].path, AS_ADMIN, body, &answer);
        if (answer.code != requests[i].code || strstr(answer.body, requests[i].part) == NULL)
            fail_msg("%s: expected %d with '%s', got %d: %s", requests[i].file, requests[i].code, requests[i].part,
                     answer.code, answer.body);
    }
}

static void test_load_reports(void **state)
{
    char value[256];
    struct answer answer;

    (void)state;
    client_once(&server, "GET", "/v2", "", NULL, &answer);
    assert_null(answer_header(&answer, "endpoint-load-metrics", value, sizeof value));
    client_once(&server, "GET", "/v2", "endpoint-load-metrics-format: TEXT\r\n", NULL, &answer);
    assert_non_null(answer_header(&answer, "endpoint-load-metrics", value, sizeof value));
    assert_memory_equal(value, "TEXT application_utilization=0.", 31);
    client_once(&server, "GET", "/v2", "endpoint-load-metrics-format: json\r\n", NULL, &answer);
    assert_non_null(answer_header(&answer, "endpoint-load-metrics", value, sizeof value));
    assert_memory_equal(value, "JSON {\"application_utilization\":0.", 34);
}

/* An invalid trace context is not logged. */
static void test_trace_context(void **state)
{
    static const struct {
        const char *text;
        bool good;
    } contexts[] = { { "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true },
                     { "cc-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-01-more", true },
                     { "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", false },
                     { "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false },
                     { "00-00000000000000000000000000000000-b7ad6b7169203331-01", false },
                     { "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false },
                     { "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false },
                     { "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", false },
                     { "rubbish", false } };
    char path[128], line[1024];
    size_t seen = 0;
    struct answer answer;
    FILE *file;

    (void)state;
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
        char headers[256];

        (void)snprintf(headers, sizeof headers, "x-request-id: context-%zu\r\ntraceparent: %s\r\n", i,
                       contexts[i].text);
        client_once(&server, "GET", "/v2", headers, NULL, &answer);
        assert_int_equal(answer.code, 200);
    }
    client_once(&server, "GET", "/v2", "", NULL, &answer);
    (void)snprintf(path, sizeof path, "%s/access", server.folder);
    for (uint32_t tries = 0; seen < sizeof contexts / sizeof contexts[0] && tries < 1000;
         tries++) { /* lines are written after answers */
        (void)usleep(2000);
        seen = 0;
        file = fopen(path, "r");
        assert_non_null(file);
        while (fgets(line, sizeof line, file) != NULL) {
            const char *at = strstr(line, "\"x-request-id\":\"context-");

            if (at == NULL)
                continue;
            seen++;
            assert_int_equal(strstr(line, "traceparent") != NULL,
                             contexts[at[strlen("\"x-request-id\":\"context-")] - '0'].good);
        }
        (void)fclose(file);
    }
    assert_int_equal(seen, sizeof contexts / sizeof contexts[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_load_reports),
        cmocka_unit_test(test_trace_context),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
