/* Processes forked from an unused state: each job runs in a separate process, and a failing job does not affect
 * others. */
#include "cli/fork_server.h"
#include "cmocka_all.h"
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int process_state_value = 0;

/* Returns how often this process was called, and with which text. */
static double count(void *user, const char *text)
{
    process_state_value++;
    if (strcmp(text, "die") == 0)
        (void)kill(getpid(), SIGKILL);
    if (strcmp(text, "fail") == 0)
        return NAN;
    return 100 * *(const double *)user + 10 * (double)strlen(text) + process_state_value;
}

static void each_job_has_a_process(void **state)
{
    double base = 2, got = 0;
    char longest[PATH_MAX + 1];
    struct fork_server fresh;

    (void)state;
    assert_true(fork_server_start(&fresh, count, &base));
    process_state_value = 7; /* a later change in the caller is not visible */
    base = 5;
    for (int i = 0; i < 3; i++) {
        assert_true(fork_server_call(&fresh, "four", &got));
        assert_true(got == 241);
    }
    assert_false(fork_server_call(&fresh, "fail", &got));
    assert_false(fork_server_call(&fresh, "die", &got));
    memset(longest, 'x', PATH_MAX);
    longest[PATH_MAX] = '\0';
    assert_false(fork_server_call(&fresh, longest, &got));
    assert_true(fork_server_call(&fresh, "", &got) && got == 201);
    fork_server_stop(&fresh);
    assert_false(fork_server_call(&fresh, "four", &got));
    fork_server_stop(&fresh);
}

static void ended_process_is_reported(void **state)
{
    double base = 0, got;
    struct fork_server fresh;

    (void)state;
    assert_true(fork_server_start(&fresh, count, &base));
    assert_int_equal(kill(fresh.pid, SIGKILL), 0);
    assert_false(fork_server_call(&fresh, "four", &got));
    fork_server_stop(&fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_job_has_a_process),
                                        cmocka_unit_test(ended_process_is_reported) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
