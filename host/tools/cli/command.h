/* cli/command.h - commands of the user's, run by /bin/sh. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H
#include "inlay/inlay.h"
#include <stdbool.h>

struct command {
    const char *line;    /* as on a command line; arguments come behind it */
    const char *flag;    /* that it was given by, for messages: "--check" */
    const char *args[2]; /* the last ones may be NULL */
    const char *output;  /* file for what it prints, both streams; NULL: nowhere */
    bool only_stdout;    /* of it; what goes to stderr goes where this program's does */
    double seconds;      /* then it is killed; 0 = no limit */
};

/* Runs it to its end. *out_code: its exit code, 128 + the signal that ended it, or 124 after `seconds`. Ctrl-C kills it
 * and is INLAY_CANCELLED; a command that the shell does not find is INLAY_INVALID_ARGUMENT. */
INLAY_NODISCARD inlay_status command_run(const struct command *command, int *out_code, inlay_diag *diag);
#endif
