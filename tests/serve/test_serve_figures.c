/* Figures of requests over REST and gRPC: /metrics and the access log. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include "inlay/inlay.h"
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;
static int grpc_port;

#define TWICE "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}"
#define OF_TWICE "{model=\"twice\",version=\"1\"}"

static int start(void **state)
{
    static const char *const flags[] = { "--grpc-port", "0", "--access-log", "FOLDER/access", NULL };

    *state = &server;
    serving_open(&server, flags);
    grpc_port = grpc_port_of(&server);
    return 0;
}

/* Waits until the access log has a line with both parts, and returns it. */
static const char *await_line(const char *part, const char *other)
{
    static char line[2048];
    char path[128];

    for (uint32_t i = 0;; i++) {
        FILE *file = fopen(serving_path(&server, "access", path, sizeof path), "r");

        assert_non_null(file);
        while (fgets(line, sizeof line, file) != NULL)
            if (strstr(line, part) != NULL && strstr(line, other) != NULL && strchr(line, '\n') != NULL) {
                (void)fclose(file);
                return line;
            }
        (void)fclose(file);
        if (i == 12000)
            fail_msg("the access log has no line with %s and %s", part, other);
        client_wait_ms(5);
    }
}

/* Adds a ModelInfer message for model `twice`. */
static void add_infer(grpc_call *call)
{
    static const int64_t shape[] = { 1, 3 };
    static const float numbers[] = { 1, 2, 3 };

    grpc_add_infer(call, "twice", shape, 2, numbers, sizeof numbers);
}

/* Calls, messages of a stream and refused calls are in the access log and in the counters. */
static void test_grpc(void **state)
{
    static grpc_call call;
    const char *line;

    (void)state;
    call = (grpc_call){ .path = NULL };
    add_infer(&call);
    grpc_expect(grpc_port, SERVICE "ModelInfer", &call, 0, "");
    line = await_line("\"path\":\"" SERVICE "ModelInfer\"", "\"grpc_status\":0");
    assert_non_null(strstr(line, "\"client\":\"127.0.0.1\",\"method\":\"POST\""));
    assert_non_null(strstr(line, "\"status\":200,"));
    assert_non_null(strstr(line, "\"model\":\"twice\",\"version\":\"1\""));
    assert_non_null(strstr(line, "\"batch\":1"));
    assert_true(client_metric(&server, "inlay_grpc_answers_total{code=\"0\"}") == 1);
    assert_true(client_metric(&server, "inlay_requests_total" OF_TWICE) == 1);

    call = (grpc_call){ .path = NULL };
    add_infer(&call);
    add_infer(&call);
    grpc_expect(grpc_port, SERVICE "ModelStreamInfer", &call, 0, "");
    (void)await_line("\"path\":\"" SERVICE "ModelStreamInfer\"", "\"grpc_status\":0");
    assert_true(client_metric(&server, "inlay_grpc_answers_total{code=\"0\"}") == 3);

    call = (grpc_call){ .path = NULL };
    grpc_expect(grpc_port, SERVICE "None", &call, 12, "unknown method");
    (void)await_line("\"path\":\"" SERVICE "None\"", "\"grpc_status\":12");
    assert_true(client_metric(&server, "inlay_grpc_answers_total{code=\"12\"}") == 1);

    /* A message that no method can read. */
    call = (grpc_call){ .sent = { 0, 0, 0, 0, 1, 0xff }, .sent_bytes = 6 };
    grpc_expect(grpc_port, SERVICE "ModelInfer", &call, 3, "does not match");
    (void)await_line("\"path\":\"" SERVICE "ModelInfer\"", "\"grpc_status\":3");
    assert_true(client_metric(&server, "inlay_grpc_answers_total{code=\"3\"}") == 1);
}

/* The time in which a client sends its request is not queue time. */
static void test_slow_upload(void **state)
{
    static const char *const names[] = { "inlay_request_seconds_sum" OF_TWICE, "inlay_receive_seconds_sum" OF_TWICE,
                                         "inlay_queue_seconds_sum" OF_TWICE };
    enum { REQUEST, RECEIVE, QUEUE };
    double before[3], took[3], began, sending;
    int fd = client_connect(&server);
    char head[256];
    struct answer answer;

    (void)state;
    for (int i = 0; i < 3; i++)
        before[i] = client_metric(&server, names[i]);
    (void)snprintf(head, sizeof head,
                   "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%.20s",
                   sizeof TWICE - 1, TWICE);
    client_text(fd, head);
    for (uint32_t i = 0; client_metric(&server, "inlay_inflight_bytes") != 20; i++)
        assert_true(i < 12000); /* until the server has the first 20 bytes */
    began = client_seconds();
    (void)client_metric(&server, names[0]);
    sending = client_seconds() - began;
    client_text(fd, &TWICE[20]);
    client_receive(fd, &answer);
    assert_int_equal(answer.code, 200);
    (void)close(fd);
    for (int i = 0; i < 3; i++)
        took[i] = client_metric(&server, names[i]) - before[i];
    assert_true(took[RECEIVE] >= sending - 1e-6);
    assert_true(took[RECEIVE] + took[QUEUE] <= took[REQUEST] + 1e-6); /* receiving and waiting do not overlap */
    (void)await_line("\"path\":\"/v2/models/twice/infer\"", "\"receive_us\":");
}

static void test_process(void **state)
{
    double received = client_metric(&server, "inlay_received_bytes_total"),
           sent = client_metric(&server, "inlay_sent_bytes_total"), loads;
    char metric[64];

    (void)state;
    client_expect(&server, "POST", "/v2/models/twice/infer", "", TWICE, 200, "[2.0,4.0,6.0]");
    assert_true(client_metric(&server, "inlay_received_bytes_total") >= received + sizeof TWICE - 1);
    assert_true(client_metric(&server, "inlay_sent_bytes_total") > sent + 20);
    loads = client_metric(&server, "inlay_model_loads_total{result=\"ok\"}");
    assert_true(loads > 1);
    assert_true(client_metric(&server, "inlay_model_loads_total{result=\"failed\"}") == 0);
    (void)snprintf(metric, sizeof metric, "inlay_build_info{version=\"%s\"}", inlay_version());
    assert_true(client_metric(&server, metric) == 1);
    assert_true(client_metric(&server, "inlay_processes") == 1);
    assert_true(client_metric(&server, "process_cpu_seconds_total") >= 0);
    assert_true(client_metric(&server, "process_start_time_seconds") <= (double)time(NULL) + 1);
    assert_true(client_metric(&server, "process_open_fds") > 3);
}

/* OpenMetrics, for clients that accept it: the name of a counter is that of its samples without "_total". */
static void test_open_metrics(void **state)
{
    static struct answer plain, open;
    char type[128];
    const char *line = plain.body;
    size_t counters = 0;

    (void)state;
    client_once(&server, "GET", "/metrics", "", NULL, &plain);
    assert_non_null(strstr(answer_header(&plain, "Content-Type", type, sizeof type), "text/plain; version=0.0.4"));
    client_once(&server, "GET", "/metrics",
                "Accept: application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5\r\n", NULL,
                &open);
    assert_string_equal(answer_header(&open, "Content-Type", type, sizeof type),
                        "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert_true(open.body_bytes > 6 && strcmp(open.body + open.body_bytes - 6, "# EOF\n") == 0);
    while ((line = strstr(line, "# TYPE ")) != NULL) {
        const size_t bytes = strcspn(line + 7, " ");
        const bool is_counter = strncmp(line + 7 + bytes, " counter\n", 9) == 0;
        char wanted[160];

        if (is_counter)
            assert_memory_equal(line + 7 + bytes - 6, "_total", 6);
        (void)snprintf(wanted, sizeof wanted, "# TYPE %.*s ", (int)(bytes - (is_counter ? 6 : 0)), line + 7);
        assert_non_null(strstr(open.body, wanted));
        counters += is_counter;
        line += bytes;
    }
    assert_true(counters > 10);
    assert_non_null(strstr(open.body, "\ninlay_requests_total{model=\"twice\",version=\"1\"} "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grpc),
        cmocka_unit_test(test_slow_upload),
        cmocka_unit_test(test_process),
        cmocka_unit_test(test_open_metrics),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
