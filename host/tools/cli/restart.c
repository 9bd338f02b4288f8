/* If a plugin crashes while a session is being created, nothing has been printed yet. The program then starts itself
 * again, with the plugin in quarantine. A new process is necessary because the plugin may have held locks when it
 * crashed. */
#include "base/output.h"
#include "cli/cli.h"
#include "cli/screen.h"
#include "plugin/crash.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RESTARTS = 9, MOST_ARGUMENTS = 4096 };

static const char variable[] = "INLAY_RESTARTS=";
static char **arguments, **environment;
static char counter[32];
static sigset_t mask;
static volatile sig_atomic_t may_restart;

extern char **environ;

/* Must be async-signal-safe. */
static void restart(void)
{
    static const char line[] = "inlay: restarting without the plugin\n";

    if (!may_restart)
        return;
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    screen_restore();
    output_return_stdout();
    (void)execve("/proc/self/exe", arguments, environment);
}

void cli_restart_init(int argc, char **argv)
{
    const char *before = getenv("INLAY_RESTARTS");
    int count = before != NULL ? before[0] - '0' : 0;
    size_t variables = 0, kept = 0;

    crash_install();
    if (count < 0 || count >= MOST_RESTARTS || argc > MOST_ARGUMENTS)
        return;
    while (environ[variables] != NULL)
        variables++;
    arguments = calloc((size_t)argc + 1, sizeof *arguments);
    environment = calloc(variables + 2, sizeof *environment);
    if (arguments == NULL || environment == NULL)
        return;
    memcpy(arguments, argv, (size_t)argc * sizeof *arguments); /* before argp reorders them */
    for (size_t i = 0; i < variables; i++)
        if (strncmp(environ[i], variable, sizeof variable - 1) != 0)
            environment[kept++] = environ[i];
    (void)snprintf(counter, sizeof counter, "%s%d", variable, count + 1);
    environment[kept] = counter;
    (void)sigprocmask(SIG_SETMASK, NULL, &mask);
    crash_restart = restart;
}

void cli_restart_allow(bool on)
{
    may_restart = on && arguments != NULL && environment != NULL;
}
