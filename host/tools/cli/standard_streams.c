/* "-" as the name of a file: standard input and standard output. */
#include "base/output.h"
#include "cli/cli.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 16 };

static bool stdout_is_file;

bool cli_stdout_is_file(void)
{
    return stdout_is_file;
}

/* Verbs read a model more than once, so piped input is copied to memory, which replaces standard input. */
static bool buffer_standard_input(void)
{
    const int copy = memfd_create("stdin", MFD_CLOEXEC);
    char piece[PIECE];
    ssize_t bytes = copy >= 0 ? 1 : -1;

    while (bytes > 0) {
        bytes = read(STDIN_FILENO, piece, sizeof piece);
        if (bytes < 0 && errno == EINTR)
            bytes = 1;
        else if (bytes > 0 && !output_write(copy, piece, (uint64_t)bytes))
            bytes = -1;
    }
    if (bytes == 0 && dup2(copy, STDIN_FILENO) < 0)
        bytes = -1;
    if (copy >= 0)
        (void)close(copy);
    return bytes == 0;
}

const char *cli_input_file(struct argp_state *state, const char *arg)
{
    struct stat st;

    if (strcmp(arg, "-") != 0 && strcmp(arg, "/dev/stdin") != 0) {
        output_note_read_path(arg);
        return arg;
    }
    if (isatty(STDIN_FILENO))
        cli_refuse(state, CLI_USAGE, "%s is a terminal: pipe a model into it, or name a file", arg);
    if ((fstat(STDIN_FILENO, &st) != 0 || !S_ISREG(st.st_mode)) && !buffer_standard_input())
        cli_refuse(state, CLI_BAD_FILE, "standard input cannot be read: %s", strerror(errno));
    return "/dev/stdin";
}

const char *cli_output_file(struct argp_state *state, const char *arg)
{
    if (strcmp(arg, "-") != 0 && strcmp(arg, "/dev/stdout") != 0)
        return arg;
    if (!output_claim_stdout())
        cli_refuse(state, CLI_USAGE, "only one file can go to standard output");
    stdout_is_file = true;
    return "/dev/stdout";
}
