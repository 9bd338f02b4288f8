/* What base/output.c and its replacement on Windows share: standard output, and a message. */
#include "base/output.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int standard_output = STDOUT_FILENO;

int output_standard(void)
{
    return standard_output;
}

bool output_claim_stdout(void)
{
    int fd;

    if (standard_output != STDOUT_FILENO)
        return false;
    (void)fflush(stdout);
    fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (fd >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
        standard_output = fd;
    return true;
}

void output_return_stdout(void)
{
    if (standard_output != STDOUT_FILENO)
        (void)dup2(standard_output, STDOUT_FILENO);
}

inlay_status output_failed(const output_file *out, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_IO_ERROR, "%.300s: cannot be written: %s", out->path, strerror(errno));
}
