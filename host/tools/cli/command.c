#include "cli/command.h"
#include "base/spawn.h"
#include "cli/cli.h"
#include "inlay/check.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Starts the shell in a new process group, so that a kill reaches every process that it starts. */
static int start(const struct command *command, const char *line, pid_t *out_child)
{
    const char *const argv[] = { "/bin/sh", "-c", line, "sh", command->args[0], command->args[1], NULL };
    const int output =
        command->output != NULL ? open(command->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : SPAWN_NULL;
    const spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO },
                             { output, STDOUT_FILENO },
                             { STDOUT_FILENO, STDERR_FILENO } };
    const int code =
        command->output != NULL && output < 0
            ? errno
            : spawn_start(&(spawn_args){ argv, fds, command->only_stdout ? 2 : 3, true, false, NULL }, out_child);

    if (output >= 0)
        (void)close(output);
    return code;
}

inlay_status command_run(const struct command *command, int *out_code, inlay_diag *diag)
{
    char line[4096];
    pid_t child = -1;
    int code;

    INLAY_CHECK(command->line != NULL && command->flag != NULL);
    if ((size_t)snprintf(line, sizeof line, "%s \"$@\"", command->line) >= sizeof line)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the command has more than %zu bytes", command->flag,
                          sizeof line);
    code = start(command, line, &child);
    if (code != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "/bin/sh for %s: %s", command->flag, strerror(code));
    *out_code = spawn_wait(child, command->seconds, cli_cancelled);
    if (cli_cancelled())
        return inlay_fail(diag, INLAY_CANCELLED, "stopped");
    if (*out_code == SPAWN_NOT_FOUND || *out_code == SPAWN_NOT_EXECUTABLE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: '%.200s' cannot be run (exit code %d)", command->flag,
                          command->line, *out_code);
    return INLAY_OK;
}
