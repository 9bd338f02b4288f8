/* What base/output.c and its replacement on Windows share: standard output, and a message. */
#include "base/output.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int standard_output = STDOUT_FILENO;
static const output_rules *rules; /* NULL: none */

void output_set_rules(const output_rules *of_program)
{
    rules = of_program;
}

void output_note_read(int fd)
{
    struct stat st;

    if (rules != NULL && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        rules->note_read(&st);
}

void output_note_read_path(const char *path)
{
    struct stat st;

    if (rules != NULL && stat(path, &st) == 0 && S_ISREG(st.st_mode))
        rules->note_read(&st);
}

inlay_status output_check(const char *path, inlay_diag *diag)
{
    struct stat st;

    if (rules == NULL || stat(path, &st) != 0 || !S_ISREG(st.st_mode) || !rules->refuses(&st, path))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "%.300s: cannot be written, because this command reads that file; name another file", path);
}

inlay_status output_permit(const output_file *out, inlay_diag *diag)
{
    struct stat st;
    inlay_status status = INLAY_OK;

    if (rules == NULL)
        return INLAY_OK;
    if (out->target[0] != '\0')
        status = output_check(out->target, diag);
    if (status == INLAY_OK)
        status = rules->check_all(diag);
    if (status == INLAY_OK && fstat(out->fd, &st) == 0 && S_ISREG(st.st_mode))
        rules->note_written(&st);
    return status;
}

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
