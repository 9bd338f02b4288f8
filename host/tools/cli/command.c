#include "cli/command.h"
#include "base/clock.h"
#include "cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIMED_OUT = 124, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

/* In a process group of its own, so that it goes with all that it starts. */
static int start(const command *c, const char *line, pid_t *out_child)
{
    char *const argv[] = { (char[]){ "sh" },
                           (char[]){ "-c" },
                           (char *)(uintptr_t)line,
                           (char[]){ "sh" },
                           (char *)(uintptr_t)c->args[0],
                           (char *)(uintptr_t)c->args[1],
                           NULL };
    const char *output = c->output != NULL ? c->output : "/dev/null";
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code = posix_spawn_file_actions_init(&actions);

    if (code != 0)
        return code;
    code = posix_spawnattr_init(&attributes);
    if (code == 0) {
        code = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        if (code == 0)
            code = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (code == 0)
            code =
                posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (code == 0 && !c->only_stdout)
            code = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
        if (code == 0)
            code = posix_spawn(out_child, "/bin/sh", &actions, &attributes, argv, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* Waits for the child, and ends it when there is a reason. Returns waitpid's state. */
static int wait_for(pid_t child, double seconds, bool *out_late)
{
    const double begin = clock_ms();
    struct timespec nap = { .tv_nsec = 500000 };
    int state = 0;

    *out_late = false;
    for (;;) {
        const pid_t got = waitpid(child, &state, WNOHANG);

        if (got == child || (got < 0 && errno != EINTR))
            return state;
        *out_late = seconds > 0 && clock_ms() - begin > seconds * 1e3;
        if (*out_late || cli_cancelled()) {
            (void)kill(-child, SIGKILL);
            while (waitpid(child, &state, 0) < 0 && errno == EINTR)
                continue;
            return state;
        }
        (void)nanosleep(&nap, NULL);
        if (nap.tv_nsec < 10000000)
            nap.tv_nsec *= 2;
    }
}

inlay_status command_run(const command *c, int *out_code, inlay_diag *diag)
{
    char line[4096];
    pid_t child = -1;
    bool late;
    int code, state;

    if ((size_t)snprintf(line, sizeof line, "%s \"$@\"", c->line) >= sizeof line)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: a command of more than %zu bytes", c->flag, sizeof line);
    code = start(c, line, &child);
    if (code != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "/bin/sh for %s: %s", c->flag, strerror(code));
    state = wait_for(child, c->seconds, &late);
    if (cli_cancelled())
        return inlay_fail(diag, INLAY_CANCELLED, "stopped");
    *out_code = late ? TIMED_OUT : WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (*out_code == NOT_FOUND || *out_code == NOT_EXECUTABLE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: '%.200s' cannot be run (exit code %d)", c->flag, c->line,
                          *out_code);
    return INLAY_OK;
}
