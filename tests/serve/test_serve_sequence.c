/* Sequences: states that stay on the server between requests, separately per sequence. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;
static int grpc_port;

static int start(void **state)
{
    static const char *const flags[] = {
        "--grpc-port", "0", "--max-sequences", "3", "--sequence-idle-ms", "5000", NULL
    };

    *state = &server;
    serving_prepare(&server);
    serving_model(&server, "sum", "options: [state=old=new]\n", write_sum);
    serving_start(&server, flags);
    grpc_port = grpc_port_of(&server);
    return 0;
}

/* Adds x to the sequence; how: "", "start", "end" or "both". Returns the code, and the sum so far. */
static int add(const char *id, const char *how, int x, double *sum)
{
    char body[512];
    const char *at;
    struct answer answer;

    (void)snprintf(
        body, sizeof body,
        "{\"parameters\":{\"sequence_id\":%s,\"sequence_start\":%s,\"sequence_end\":%s},\"inputs\":[{\"name\":"
        "\"x\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[%d]}]}",
        id, how[0] == 's' || how[0] == 'b' ? "true" : "false", how[0] == 'e' || how[0] == 'b' ? "true" : "false", x);
    client_once(&server, "POST", "/v2/models/sum/infer", "", body, &answer);
    at = strstr(answer.body, "\"data\":[");
    *sum = at != NULL ? strtod(at + 8, NULL) : -1;
    if (answer.code == 200 && strstr(answer.body, "\"new\"") != NULL)
        fail_msg("the state is among the outputs: %s", answer.body);
    return answer.code;
}

static void expect(const char *id, const char *how, int x, int code, double wanted)
{
    double sum;
    int got = add(id, how, x, &sum);

    if (got != code || (code == 200 && sum != wanted))
        fail_msg("sequence %s, '%s' %d: expected %d and %g, got %d and %g", id, how, x, code, wanted, got, sum);
}

static void test_sequences_apart(void **state)
{
    (void)state;
    expect("1", "start", 1, 200, 1);
    expect("\"two\"", "start", 100, 200, 100);
    expect("1", "", 2, 200, 3);
    expect("\"two\"", "", 200, 200, 300);
    expect("1", "", 3, 200, 6);
    expect("1", "start", 5, 200, 5); /* restarted */
    expect("1", "end", 1, 200, 6);
    expect("1", "", 1, 400, 0); /* ended */
    expect("\"two\"", "end", 1, 200, 301);
    expect("9", "both", 7, 200, 7);
    expect("9", "", 7, 400, 0);
}

/* The state that a sequence leaves is invisible to the next sequence in its slot. */
static void test_state_is_cleared(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        expect("4", "start", 10, 200, 10);
        expect("4", "end", 10, 200, 20);
    }
}

static void test_sequence_limit(void **state)
{
    const struct timespec idle = { 5, 200000000 };
    uint32_t gone = 0;

    (void)state;
    expect("1", "start", 1, 200, 1);
    expect("2", "start", 1, 200, 1);
    expect("3", "start", 1, 200, 1);
    expect("4", "start", 1, 503, 0);
    expect("1", "", 1, 200, 2);
    (void)nanosleep(&idle, NULL);
    expect("4", "start", 1, 200, 1); /* replaces an idle one */
    for (const char *id = "123"; *id != '\0'; id++) {
        const char name[] = { *id, '\0' };
        double sum;
        int code = add(name, "end", 1, &sum);

        gone += code == 400;
        assert_true(code == 400 || (code == 200 && sum == (*id == '1' ? 3 : 2)));
    }
    assert_int_equal(gone, 1);
    expect("4", "end", 1, 200, 2);
}

static void test_rejected_requests(void **state)
{
    static const char twice[] =
        "{\"parameters\":{\"sequence_id\":1,\"sequence_start\":true},\"inputs\":[{\"name\":\"x\","
        "\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}";
    static const char none[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}";

    (void)state;
    client_expect(&server, "POST", "/v2/models/twice/infer", "", twice, 400, "has no states");
    client_expect(
        &server, "POST", "/v2/models/sum/infer", "", none, 400,
        "input 'old' is missing; it is a state, which the server keeps for requests with the parameter sequence_id");
    expect("true", "start", 1, 400, 0);
    expect("{}", "start", 1, 400, 0);
    expect("0", "start", 1, 400, 0); /* id 0 means no sequence, so the state is missing */
}

struct adder {
    pthread_t thread;
    double sums[20];
};

static void *add_many(void *user)
{
    struct adder *adder = user;

    for (uint32_t i = 0; i < 20; i++)
        if (add("\"shared\"", "", 1, &adder->sums[i]) != 200)
            adder->sums[i] = -1;
    return NULL;
}

/* Requests of one sequence run sequentially, from any client: each sees the effect of all earlier ones. */
static void test_sequential_requests(void **state)
{
    static struct adder adders[5];
    bool seen[102] = { false };

    (void)state;
    expect("\"shared\"", "start", 1, 200, 1);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(pthread_create(&adders[i].thread, NULL, add_many, &adders[i]), 0);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(pthread_join(adders[i].thread, NULL), 0);
    for (uint32_t i = 0; i < 100; i++) {
        double sum = adders[i / 20].sums[i % 20];

        assert_true(sum >= 2 && sum <= 101 && !seen[(int)sum]);
        seen[(int)sum] = true;
    }
    expect("\"shared\"", "end", 1, 200, 102);
}

static void grpc_add_number(bool begin, float x, float wanted)
{
    Inference__InferRequest InferRequest = INFERENCE__INFER_REQUEST__INIT;
    Inference__Tensor Tensor = INFERENCE__TENSOR__INIT, *list = &Tensor;
    Inference__Parameter Parameter[2] = { INFERENCE__PARAMETER__INIT, INFERENCE__PARAMETER__INIT },
                         *parameters[2] = { &Parameter[0], &Parameter[1] };
    Inference__ParameterValue ParameterValue[2] = { INFERENCE__PARAMETER_VALUE__INIT,
                                                    INFERENCE__PARAMETER_VALUE__INIT };
    ProtobufCBinaryData data = { sizeof x, (uint8_t *)&x };
    int64_t shape[1] = { 1 };
    Inference__InferReply *reply;
    static grpc_call call;

    Parameter[0].key = (char *)(uintptr_t) "sequence_id";
    Parameter[0].value = &ParameterValue[0];
    ParameterValue[0].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE;
    ParameterValue[0].int64_value = 77;
    Parameter[1].key = (char *)(uintptr_t) "sequence_start";
    Parameter[1].value = &ParameterValue[1];
    ParameterValue[1].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_BOOL_VALUE;
    ParameterValue[1].bool_value = begin;
    Tensor.name = (char *)(uintptr_t) "x";
    Tensor.datatype = (char *)(uintptr_t) "FP32";
    Tensor.shape = shape;
    Tensor.n_shape = 1;
    InferRequest.model_name = (char *)(uintptr_t) "sum";
    InferRequest.parameters = parameters;
    InferRequest.n_parameters = 2;
    InferRequest.inputs = &list;
    InferRequest.n_inputs = 1;
    InferRequest.raw_input_contents = &data;
    InferRequest.n_raw_input_contents = 1;
    call = (grpc_call){ .path = NULL };
    grpc_add(&call, &InferRequest.base);
    grpc_expect(grpc_port, SERVICE "ModelInfer", &call, 0, "");
    reply = grpc_message(&call, 0, &inference__infer_reply__descriptor);
    assert_true(reply != NULL && reply->n_outputs == 1 && reply->n_raw_output_contents == 1);
    memcpy(&x, reply->raw_output_contents[0].data, sizeof x);
    assert_true(x == wanted);
    protobuf_c_message_free_unpacked(&reply->base, NULL);
}

/* A sequence is shared by all protocols. */
static void test_over_grpc(void **state)
{
    (void)state;
    grpc_add_number(true, 2, 2);
    grpc_add_number(false, 3, 5);
    expect("77", "end", 1, 200, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequences_apart),     cmocka_unit_test(test_state_is_cleared),
        cmocka_unit_test(test_sequence_limit),      cmocka_unit_test(test_rejected_requests),
        cmocka_unit_test(test_sequential_requests), cmocka_unit_test(test_over_grpc),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
