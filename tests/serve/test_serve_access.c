/* Who may call what: one table of settings and tokens, each row by REST, by OpenAI's API and by gRPC. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include <signal.h>
#include "cmocka_all.h"

static struct serving server;
static int grpc_port;

/* What a client may get. */
typedef enum outcome { GRANTED, UNKNOWN, NOT_ADMIN, READ_ONLY, WORKER } outcome;
static const struct {
    int code, status; /* of HTTP and of gRPC; 0: any that is no refusal */
    const char *text;
} outcomes[] = { [GRANTED] = { 0, 0, "" },
                 [UNKNOWN] = { 401, 16, "a bearer token is required: Authorization: Bearer TOKEN" },
                 [NOT_ADMIN] = { 403, 7, "this token may not change the server" },
                 [READ_ONLY] = { 403, 7, "this server is read-only; start it with an admin_token_file" },
                 [WORKER] = { 403, 7, "not possible with several workers; restart the server to change it" } };

#define USERS "--token-file", "FOLDER/tokens"
#define ADMINS "--admin-token-file", "FOLDER/admins"
#define USER "Bearer " USER_TOKEN
#define ADMIN "Bearer " ADMIN_TOKEN
#define WRONG "Bearer wrong-0123456789abcdef"

/* The rows of one server; a wrong token is one of its first three, whose refusals have no delay, where it matters. */
typedef struct access_row {
    const char *token; /* NULL: none */
    outcome user, admin, all_workers;
} access_row;

static const struct {
    const char *flags[10];
    access_row rows[5];
    uint32_t row_count;
} servers[] = {
    { { "--grpc-port", "0" },
      { { NULL, GRANTED, READ_ONLY, READ_ONLY }, { WRONG, GRANTED, READ_ONLY, READ_ONLY } },
      2 },
    { { "--grpc-port", "0", USERS },
      { { NULL, UNKNOWN, READ_ONLY, READ_ONLY },
        { USER, GRANTED, READ_ONLY, READ_ONLY },
        { ADMIN, UNKNOWN, READ_ONLY, READ_ONLY } }, /* a wrong one here */
      3 },
    { { "--grpc-port", "0", ADMINS },
      { { NULL, GRANTED, UNKNOWN, UNKNOWN },
        { ADMIN, GRANTED, GRANTED, GRANTED },
        { USER, GRANTED, UNKNOWN, UNKNOWN } },
      3 },
    { { "--grpc-port", "0", USERS, ADMINS },
      { { NULL, UNKNOWN, UNKNOWN, UNKNOWN },
        { USER, GRANTED, NOT_ADMIN, NOT_ADMIN },
        { ADMIN, GRANTED, GRANTED, GRANTED },
        { "Basic " USER_TOKEN, UNKNOWN, UNKNOWN, UNKNOWN } },
      4 },
    { { "--grpc-port", "0", USERS, ADMINS, "--workers", "1" },
      { { NULL, UNKNOWN, WORKER, UNKNOWN },
        { USER, GRANTED, WORKER, NOT_ADMIN },
        { ADMIN, GRANTED, WORKER, GRANTED },
        { WRONG, UNKNOWN, WORKER, UNKNOWN } },
      4 },
};

/* A call, and the access level that it needs. */
typedef struct access_call {
    enum { BY_ALL, BY_USERS, BY_ADMINS, BY_ALL_WORKERS } level;
    const char *method, *path, *body; /* REST; method NULL: gRPC */
} access_call;

static const access_call calls[] = {
    { BY_ALL, "GET", "/v2/health/live", NULL },
    { BY_ALL, "GET", "/v2/models/twice/ready", NULL },
    { BY_ALL, NULL, SERVICE "ServerLive", NULL },
    { BY_ALL, NULL, "/grpc.health.v1.Health/Check", NULL },
    { BY_USERS, "GET", "/v2/models/twice", NULL },
    { BY_USERS, "GET", "/v1/models", NULL },
    { BY_USERS, NULL, SERVICE "ServerMetadata", NULL },
    { BY_ADMINS, "POST", "/v2/logging", "{\"log_info\":true}" },
    { BY_ADMINS, NULL, SERVICE "RepositoryModelLoad", NULL },
    { BY_ALL_WORKERS, "POST", "/v2/models/twice/rollout", "{\"state\":\"promoted\"}" },
};

static void expect_rest(const access_call *call, const access_row *row, outcome want, const char *what)
{
    char header[128] = "";
    struct answer answer;

    if (row->token != NULL)
        (void)snprintf(header, sizeof header, "Authorization: %s\r\n", row->token);
    client_once(&server, call->method, call->path, header, call->body, &answer);
    if (want == GRANTED ? answer.code == 401 || answer.code == 403
                        : answer.code != outcomes[want].code || strstr(answer.body, outcomes[want].text) == NULL)
        fail_msg("%s: %d %s, not %s", what, answer.code, answer.body, outcomes[want].text);
}

static void expect_call(const access_call *asked, const access_row *row, outcome want, const char *what)
{
    static grpc_call call;
    Inference__Empty empty = INFERENCE__EMPTY__INIT;
    grpc_client client;

    call = (grpc_call){ .path = asked->path, .token = row->token };
    grpc_add(&call, &empty.base); /* the message has no name of a model, which is another failure */
    grpc_open(&client, grpc_port);
    grpc_submit(&client, &call);
    grpc_wait(&client, &call);
    grpc_close(&client);
    if (want == GRANTED ? call.status == 7 || call.status == 16 || call.status < 0
                        : call.status != outcomes[want].status || strcmp(call.text, outcomes[want].text) != 0)
        fail_msg("%s: %d %s, not %s", what, call.status, call.text, outcomes[want].text);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof servers / sizeof *servers; s++) {
        serving_start(&server, servers[s].flags);
        grpc_port = grpc_port_of(&server);
        for (uint32_t r = 0; r < servers[s].row_count; r++)
            for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
                const access_row *row = &servers[s].rows[r];
                const outcome wants[] = { GRANTED, row->user, row->admin, row->all_workers };
                char what[256];

                (void)snprintf(what, sizeof what, "server %zu, %s, %s", s, row->token != NULL ? row->token : "no token",
                               calls[c].path);
                if (calls[c].method != NULL)
                    expect_rest(&calls[c], row, wants[calls[c].level], what);
                else
                    expect_call(&calls[c], row, wants[calls[c].level], what);
            }
        assert_int_equal(serving_end(&server, SIGTERM), 0);
    }
}

static int start(void **state)
{
    *state = &server;
    serving_prepare(&server);
    serving_tokens(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_away);
}
