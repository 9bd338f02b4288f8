/* fork_server: each job runs in a process that is forked from the initial state, and a failing job does not affect
 * others. */
#include "cli/fork_server.h"
#include "cmocka_all.h"
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int calls = 0;

/* Returns a number composed of the user's value, the length of the text, and the calls in this process. */
static double count(void *user, const char *text)
{
    calls++;
    if (strcmp(text, "die") == 0)
        (void)kill(getpid(), SIGKILL);
    if (strcmp(text, "fail") == 0)
        return NAN;
    return 100 * *(const double *)user + 10 * (double)strlen(text) + calls;
}

static void each_job_has_a_process(void **state)
{
    double base = 2, got = 0;
    char longest[PATH_MAX + 1];
    struct fork_server server;

    (void)state;
    assert_true(fork_server_start(&server, count, &base));
    calls = 7; /* a later change in the caller is not visible */
    base = 5;
    for (int i = 0; i < 3; i++) {
        assert_true(fork_server_call(&server, "four", &got));
        assert_true(got == 241);
    }
    assert_false(fork_server_call(&server, "fail", &got));
    assert_false(fork_server_call(&server, "die", &got));
    memset(longest, 'x', PATH_MAX);
    longest[PATH_MAX] = '\0';
    assert_false(fork_server_call(&server, longest, &got));
    assert_true(fork_server_call(&server, "", &got) && got == 201);
    fork_server_stop(&server);
    assert_false(fork_server_call(&server, "four", &got));
    fork_server_stop(&server);
}

static void ended_process_is_reported(void **state)
{
    double base = 0, got;
    struct fork_server server;

    (void)state;
    assert_true(fork_server_start(&server, count, &base));
    assert_int_equal(kill(server.pid, SIGKILL), 0);
    assert_false(fork_server_call(&server, "four", &got));
    fork_server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_job_has_a_process),
                                        cmocka_unit_test(ended_process_is_reported) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
