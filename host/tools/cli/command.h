/* cli/command.h - runs a user's command with /bin/sh. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H
#include "inlay/inlay.h"
#include <stdbool.h>

struct command {
    const char *line;    /* as on a command line; the arguments follow it */
    const char *flag;    /* the option that gave it, for messages: "--check" */
    const char *args[2]; /* may be NULL, the last one first */
    const char *output;  /* file for its stdout and stderr; NULL: discarded */
    bool only_stdout;    /* only stdout is written to `output`; stderr is inherited */
    double seconds;      /* time limit, after which it is killed; 0 = none */
};

/* Runs the command and waits for its end. *out_code: its exit code, 128 + the signal that ended it, or 124 after the
 * time limit. Ctrl-C kills it and returns INLAY_CANCELLED. INLAY_INVALID_ARGUMENT: the shell does not find the command.
 */
INLAY_NODISCARD inlay_status command_run(const struct command *command, int *out_code, inlay_diag *diag);
#endif
