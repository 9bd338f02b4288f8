#include "base/output.h"
#include "inlay/check.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINKS = 40, MOST_NAMES = 1000, NAME_BYTES = 200, COPY_BYTES = 1 << 16 };

/* The open descriptor that path names; -1: none. The kernel presents descriptors as links, which must not be followed:
 * the link of a pipe is not a path, and a file's position belongs to the descriptor. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };

    if (strcmp(path, "/dev/stdout") == 0)
        return output_standard();
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        const size_t bytes = strlen(folders[i]);
        char *end;
        long number;

        if (strncmp(path, folders[i], bytes) != 0 || path[bytes] < '0' || path[bytes] > '9')
            continue;
        number = strtol(path + bytes, &end, 10);
        if (*end == '\0' && number <= INT_MAX)
            return number == STDOUT_FILENO ? output_standard() : (int)number;
    }
    return -1;
}

static size_t folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* Follows the links of path's last component into target. *out_descriptor: the descriptor that they end at, or -1. */
static bool follow_links(const char *path, char target[PATH_MAX], int *out_descriptor)
{
    char link[PATH_MAX];

    errno = ENAMETOOLONG;
    if ((size_t)snprintf(target, PATH_MAX, "%s", path) >= PATH_MAX)
        return false;
    for (int i = 0; i < MOST_LINKS; i++) {
        size_t kept;
        struct stat st;
        ssize_t bytes;

        *out_descriptor = descriptor_of(target);
        if (*out_descriptor >= 0 || lstat(target, &st) != 0 || !S_ISLNK(st.st_mode))
            return true;
        bytes = readlink(target, link, sizeof link - 1);
        if (bytes < 0)
            return false;
        link[bytes] = '\0';
        kept = link[0] == '/' ? 0 : folder_bytes(target);
        errno = ENAMETOOLONG;
        if (kept + (size_t)bytes >= PATH_MAX)
            return false;
        memcpy(target + kept, link, (size_t)bytes + 1);
    }
    errno = ELOOP;
    return false;
}

bool output_target(const char *path, char target[PATH_MAX])
{
    struct stat st;
    int descriptor;

    return follow_links(path, target, &descriptor) && descriptor < 0 && (stat(target, &st) != 0 || S_ISREG(st.st_mode));
}

/* Does a write of `bytes` bytes at the position of fd stay within RLIMIT_FSIZE? The limit applies to regular files
 * only. */
static bool fits_size_limit(int fd, uint64_t bytes)
{
    struct rlimit limit;
    struct stat st;
    off_t at;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || fstat(fd, &st) != 0 ||
        !S_ISREG(st.st_mode))
        return true;
    at = (fcntl(fd, F_GETFL) & O_APPEND) != 0 ? st.st_size : lseek(fd, 0, SEEK_CUR);
    if (at >= 0 && (uint64_t)at <= limit.rlim_cur && bytes <= limit.rlim_cur - (uint64_t)at)
        return true;
    errno = EFBIG;
    return false;
}

bool output_write(int fd, const void *data, uint64_t bytes)
{
    const char *at = data;

    if (!fits_size_limit(fd, bytes))
        return false;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes < SSIZE_MAX ? (size_t)bytes : SSIZE_MAX);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        bytes -= (uint64_t)n;
    }
    return true;
}

inlay_status output_not_created(const char *path, inlay_diag *diag)
{
    const int error = errno;
    char folder[PATH_MAX];
    struct stat st;
    size_t bytes = strlen(path);

    while (bytes > 1 && path[bytes - 1] == '/') /* a trailing slash: the path names a folder to create */
        bytes--;
    while (bytes > 0 && path[bytes - 1] != '/')
        bytes--;
    if (error == ENOENT && bytes > 1 && bytes < sizeof folder) {
        (void)snprintf(folder, sizeof folder, "%.*s", (int)bytes - 1, path);
        if (stat(folder, &st) != 0 && errno == ENOENT)
            return inlay_fail(diag, INLAY_IO_ERROR,
                              "%.300s: cannot be created: there is no folder '%.200s'; create it first (mkdir -p)",
                              path, folder);
    }
    return inlay_fail(diag, INLAY_IO_ERROR, "%.300s: cannot be created: %s", path, strerror(error));
}

/* Gives the still empty file the owner and the mode of st. */
static bool copy_owner_and_mode(int fd, const struct stat *st)
{
    struct stat now;

    return fstat(fd, &now) == 0 &&
           ((now.st_uid == st->st_uid && now.st_gid == st->st_gid) || fchown(fd, st->st_uid, st->st_gid) == 0) &&
           ((now.st_mode & 07777) == (st->st_mode & 07777) || fchmod(fd, st->st_mode & 07777) == 0);
}

static int create_temporary(output_file *out)
{
    static uint32_t serial;
    const int folder = (int)folder_bytes(out->target);
    int fd = -1;

    for (int i = 0; i < MOST_NAMES && fd < 0; i++) {
        (void)snprintf(out->temporary, sizeof out->temporary, "%.*s%.*s.%ld-%u", folder, out->target, NAME_BYTES,
                       out->target + folder, (long)getpid(), __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED));
        fd = open(out->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        out->temporary[0] = '\0';
    return fd;
}

/* Creates a file that is already unlinked. */
static int create_unnamed(void)
{
    const char *folder = getenv("TMPDIR");
    char path[PATH_MAX];
    int fd;

    errno = ENAMETOOLONG;
    if ((size_t)snprintf(path, sizeof path, "%s/inlay.XXXXXX", folder != NULL ? folder : "/tmp") >= sizeof path)
        return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

static int remove_temporary(output_file *out, int fd)
{
    if (fd >= 0)
        (void)close(fd);
    if (out->temporary[0] != '\0')
        (void)unlink(out->temporary);
    out->temporary[0] = '\0';
    return -1;
}

/* before: the existing file, or NULL. */
static int open_regular(output_file *out, const struct stat *before)
{
    int fd = create_temporary(out);

    if (before == NULL || (fd >= 0 && copy_owner_and_mode(fd, before)))
        return fd;
    if (errno != EACCES && errno != EPERM && errno != EROFS)
        return remove_temporary(out, fd);
    (void)remove_temporary(out, fd);
    out->in_place = true;
    return create_unnamed();
}

inlay_status output_open(output_file *out, const char *path, inlay_diag *diag)
{
    struct stat st;
    int descriptor;
    bool exists;
    inlay_status status;

    *out = (output_file){ .path = path, .fd = -1 };
    INLAY_TRY(output_check(path, diag));
    if (follow_links(path, out->target, &descriptor)) {
        exists = descriptor < 0 && stat(out->target, &st) == 0;
        if (exists && S_ISDIR(st.st_mode)) {
            errno = EISDIR;
        } else if (descriptor >= 0 || (exists && !S_ISREG(st.st_mode))) {
            out->fd = descriptor >= 0 ? fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                                      : open(out->target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
            out->target[0] = '\0';
        } else if (!exists || faccessat(AT_FDCWD, out->target, W_OK, AT_EACCESS) == 0) {
            out->fd = open_regular(out, exists ? &st : NULL);
        }
    }
    out->open = out->fd >= 0;
    if (!out->open)
        status = output_not_created(path, diag);
done:
    return status;
}

/* stdio does not keep the errno of an earlier failed write, so this callback stores it. */
static ssize_t write_stream(void *cookie, const char *data, size_t bytes)
{
    output_file *out = cookie;

    if (output_write(out->fd, data, bytes))
        return (ssize_t)bytes;
    out->error = out->error != 0 ? out->error : errno;
    return 0;
}

inlay_status output_open_stream(output_file *out, const char *path, inlay_diag *diag)
{
    inlay_status status;

    INLAY_TRY(output_open(out, path, diag));
    out->to = fopencookie(out, "w", (cookie_io_functions_t){ .write = write_stream });
    if (out->to == NULL) {
        output_drop(out);
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%.300s: out of memory", path);
    }
done:
    return status;
}

/* Copies all of `from`, from its beginning. */
static bool copy_all(int from, int to)
{
    char *buffer = malloc(COPY_BYTES);
    off_t at = 0;
    ssize_t got = buffer != NULL ? 1 : -1;

    while (got > 0) {
        got = pread(from, buffer, COPY_BYTES, at);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0 && !output_write(to, buffer, (uint64_t)got))
            got = -1;
        else
            at += got > 0 ? got : 0;
    }
    free(buffer);
    return got == 0;
}

/* Overwrites the existing file. Its space is reserved first, so that a full disk leaves it unchanged. */
static bool overwrite(const output_file *out)
{
    const int to = open(out->target, O_WRONLY | O_CLOEXEC);
    struct stat st;
    bool good = to >= 0 && fstat(out->fd, &st) == 0 && fits_size_limit(to, (uint64_t)st.st_size);

    if (good && st.st_size > 0 && fallocate(to, FALLOC_FL_KEEP_SIZE, 0, st.st_size) != 0)
        good = errno != ENOSPC && errno != EDQUOT; /* other errors: the file system cannot reserve */
    good = good && copy_all(out->fd, to) && ftruncate(to, st.st_size) == 0 && fsync(to) == 0;
    if (to >= 0) {
        const int error = errno;

        (void)close(to);
        errno = error;
    }
    return good;
}

/* Flushes all data to the file. */
static bool flush_output(output_file *out)
{
    if (out->to != NULL && (fflush(out->to) != 0 || ferror(out->to) != 0)) {
        errno = out->error != 0 ? out->error : EIO;
        return false;
    }
    return out->target[0] == '\0' || out->is_unsynced || fsync(out->fd) == 0;
}

static bool publish(output_file *out)
{
    if (out->target[0] == '\0')
        return true;
    if (out->in_place)
        return overwrite(out);
    if (rename(out->temporary, out->target) == 0)
        out->temporary[0] = '\0';
    else if (errno != EBUSY || !overwrite(out)) /* EBUSY: a mount point */
        return false;
    return true;
}

static bool close_output(output_file *out)
{
    const int before = errno;

    if (out->to != NULL && fclose(out->to) != 0 && out->error == 0)
        out->error = EIO;
    if (out->open && close(out->fd) != 0 && out->error == 0)
        out->error = errno;
    if (out->temporary[0] != '\0')
        (void)unlink(out->temporary);
    out->temporary[0] = '\0';
    out->open = false;
    out->to = NULL;
    out->fd = -1;
    errno = out->error != 0 ? out->error : before;
    return out->error == 0;
}

inlay_status output_commit(output_file *first, output_file *second, inlay_diag *diag)
{
    output_file *const both[] = { first, second };
    const uint32_t count = second != NULL ? 2 : 1;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        INLAY_CHECK(both[i]->open);
        if (!flush_output(both[i]))
            status = output_failed(both[i], diag);
        else
            status = output_permit(both[i], diag);
    }
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++)
        if (!publish(both[i]))
            status = output_failed(both[i], diag);
    for (uint32_t i = 0; i < count; i++)
        if (!close_output(both[i]) && status == INLAY_OK)
            status = output_failed(both[i], diag);
    return status;
}

void output_drop(output_file *out)
{
    (void)close_output(out);
}

/* Finds the owner and the mode that `from` gets: those of the temporary file. If `from` is executable, so is the
 * result. */
static bool wanted_owner_and_mode(int temporary, int from, struct stat *out)
{
    struct stat st;

    if (fstat(temporary, out) != 0 || fstat(from, &st) != 0)
        return false;
    if ((st.st_mode & S_IXUSR) != 0)
        out->st_mode |= (out->st_mode & 0444) >> 2;
    return true;
}

inlay_status output_move_file(output_file *out, const char *path, const char *from, inlay_diag *diag)
{
    int fd = -1;
    struct stat st;
    inlay_status status;

    INLAY_TRY(output_open(out, path, diag));
    fd = open(from, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && out->temporary[0] != '\0' && wanted_owner_and_mode(out->fd, fd, &st) &&
        copy_owner_and_mode(fd, &st) && rename(from, out->temporary) == 0) {
        (void)close(out->fd);
        out->fd = fd;
        return INLAY_OK;
    }
    if (fd < 0 || !copy_all(fd, out->fd)) {
        status = output_failed(out, diag);
        output_drop(out);
    }
    if (fd >= 0)
        (void)close(fd);
done:
    return status;
}

static const char *program = "inlay";
static output_file printed; /* standard output */

static void on_limit(int signal_number)
{
    (void)signal_number; /* a handler, because started programs would inherit SIG_IGN */
}

/* Makes standard output store the errno of a failed write. Called before anything is printed. */
static void open_standard_output(void)
{
    const cookie_io_functions_t functions = { .write = write_stream };

    printed = (output_file){ .fd = STDOUT_FILENO, .to = fopencookie(&printed, "w", functions) };
    if (printed.to == NULL) {
        printed.to = stdout; /* closing it closes the descriptor */
        return;
    }
    printed.open = true;
    if (isatty(STDOUT_FILENO))
        (void)setvbuf(printed.to, NULL, _IOLBF, BUFSIZ);
    stdout = printed.to;
}

static void close_standard_output(void)
{
    bool good = close_output(&printed);

    good &= output_standard() == STDOUT_FILENO || close(output_standard()) == 0;
    if (good || errno == EPIPE)
        return;
    (void)fprintf(stderr, "%s: standard output cannot be written: %s\n", program, strerror(errno));
    _exit(EXIT_FAILURE);
}

void output_guard_streams(const char *name)
{
    struct sigaction action;

    program = name;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) /* opened in the wrong direction, so that using it fails */
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_limit;
    action.sa_flags = SA_RESTART;
    (void)sigaction(SIGXFSZ, &action, NULL);
    open_standard_output();
    (void)atexit(close_standard_output);
}
