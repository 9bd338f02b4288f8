/* Files that a user names, in place of base/output.c for systems whose `stdout` is a constant: written under a
 * temporary name, which replaces the file's when all data is complete. Windows renames no open file, so each is closed
 * before. */
#include "base/output.h"
#include "inlay/check.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_NAMES = 1000, COPY_BYTES = 1 << 16 };

bool output_target(const char *path, char target[PATH_MAX])
{
    struct stat st;

    return snprintf(target, PATH_MAX, "%s", path) < PATH_MAX && (stat(target, &st) != 0 || S_ISREG(st.st_mode));
}

bool output_write(int fd, const void *data, uint64_t bytes)
{
    const char *at = data;

    while (bytes > 0) {
        const int written = (int)write(fd, at, bytes < COPY_BYTES ? (unsigned)bytes : COPY_BYTES);

        if (written < 0)
            return false;
        at += written;
        bytes -= (uint64_t)written;
    }
    return true;
}

inlay_status output_not_created(const char *path, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_IO_ERROR, "%.300s: cannot be created: %s", path, strerror(errno));
}

static int create_temporary(output_file *out)
{
    static uint32_t serial;
    int fd = -1;

    for (int i = 0; i < MOST_NAMES && fd < 0; i++) {
        (void)snprintf(out->temporary, sizeof out->temporary, "%s.%ld-%u", out->target, (long)getpid(),
                       __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED));
        fd = open(out->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        out->temporary[0] = '\0';
    return fd;
}

inlay_status output_open(output_file *out, const char *path, inlay_diag *diag)
{
    struct stat st;
    inlay_status status;

    *out = (output_file){ .path = path, .fd = -1 };
    INLAY_TRY(output_check(path, diag));
    if (strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0) {
        out->fd = fcntl(path[8] == 'o' ? output_standard() : STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    } else if (output_target(path, out->target)) {
        out->fd = create_temporary(out);
    } else {
        errno = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        out->target[0] = '\0';
    }
    out->open = out->fd >= 0;
    if (!out->open)
        status = output_not_created(path, diag);
done:
    return status;
}

inlay_status output_open_stream(output_file *out, const char *path, inlay_diag *diag)
{
    inlay_status status;
    int copy;

    INLAY_TRY(output_open(out, path, diag));
    copy = fcntl(out->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    out->to = copy >= 0 ? fdopen(copy, "wb") : NULL;
    if (out->to == NULL) {
        if (copy >= 0)
            (void)close(copy);
        output_drop(out);
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%.300s: out of memory", path);
    }
done:
    return status;
}

/* Closes the streams, without a change of the temporary file's name. */
static bool close_streams(output_file *out)
{
    bool good = true;

    if (out->to != NULL) {
        good = ferror(out->to) == 0;
        good &= fclose(out->to) == 0;
    }
    if (good && out->open && out->target[0] != '\0')
        good = fsync(out->fd) == 0;
    if (out->open)
        good &= close(out->fd) == 0;
    out->to = NULL;
    out->open = false;
    out->fd = -1;
    return good;
}

static void remove_temporary(output_file *out)
{
    if (out->temporary[0] != '\0')
        (void)unlink(out->temporary);
    out->temporary[0] = '\0';
}

inlay_status output_commit(output_file *first, output_file *second, inlay_diag *diag)
{
    output_file *const both[] = { first, second };
    const uint32_t count = second != NULL ? 2 : 1;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++) {
        INLAY_CHECK(both[i]->open);
        if (status == INLAY_OK)
            status = output_permit(both[i], diag);
        if (!close_streams(both[i]) && status == INLAY_OK)
            status = output_failed(both[i], diag);
    }
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        if (both[i]->target[0] == '\0')
            continue;
        if (rename(both[i]->temporary, both[i]->target) == 0)
            both[i]->temporary[0] = '\0';
        else
            status = output_failed(both[i], diag);
    }
    for (uint32_t i = 0; i < count; i++)
        remove_temporary(both[i]);
    return status;
}

void output_drop(output_file *out)
{
    (void)close_streams(out);
    remove_temporary(out);
}

inlay_status output_move_file(output_file *out, const char *path, const char *from, inlay_diag *diag)
{
    char *buffer = malloc(COPY_BYTES);
    const int fd = open(from, O_RDONLY | O_CLOEXEC);
    inlay_status status = output_open(out, path, diag);
    off_t at = 0;
    ssize_t got = 1;

    while (status == INLAY_OK && got > 0) {
        got = fd >= 0 && buffer != NULL ? pread(fd, buffer, COPY_BYTES, at) : -1;
        if (got < 0 || (got > 0 && !output_write(out->fd, buffer, (uint64_t)got))) {
            status = output_failed(out, diag);
            output_drop(out);
        }
        at += got > 0 ? got : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    free(buffer);
    return status;
}

static const char *program = "inlay";

static void close_standard_output(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return;
    (void)fprintf(stderr, "%s: standard output cannot be written: %s\n", program, strerror(errno));
    _exit(EXIT_FAILURE);
}

void output_guard_streams(const char *name)
{
    program = name;
    (void)atexit(close_standard_output);
}
