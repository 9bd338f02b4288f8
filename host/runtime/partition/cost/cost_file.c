/* Files of the cost folder: validated on reading, and replaced atomically on writing. */
#include "base/cache_folder.h"
#include "partition/cost/cost_store.h"
#include "inlay/execution.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void cost_say(const cost_log *log, uint32_t level, const char *format, ...)
{
    char text[600];
    va_list args;

    if (log == NULL || log->log == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log->log(log->ctx, level, text);
}

static bool path_of(const char *folder, const char *name, char path[PATH_MAX])
{
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);

    return length > 0 && length < PATH_MAX;
}

inlay_status cost_file_write(const char *folder, const char *name, const void *data, size_t bytes, inlay_diag *diag)
{
    const cache_folder_part part = { data, bytes };
    char path[PATH_MAX];

    if (!path_of(folder, name, path))
        return inlay_fail(diag, INLAY_IO_ERROR, "the path of %s is too long", name);
    return cache_folder_write(path, &part, 1) ? INLAY_OK
                                              : inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
}

/* Returns whether only this user or root can have written the open file. */
static bool is_ours(const struct stat *info, size_t max_bytes)
{
    return S_ISREG(info->st_mode) && (info->st_uid == geteuid() || info->st_uid == 0) &&
           (info->st_mode & (S_IWOTH | S_IWGRP)) == 0 && info->st_size >= 0 && (uint64_t)info->st_size <= max_bytes;
}

inlay_status cost_file_read(const char *folder, const char *name, size_t max_bytes, const cost_log *log,
                            char **out_data, size_t *out_bytes)
{
    char path[PATH_MAX], *data = NULL;
    inlay_status status = INLAY_OK;
    struct stat info;
    size_t got = 0;
    int fd;

    *out_data = NULL;
    *out_bytes = 0;
    if (!path_of(folder, name, path) || (fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) < 0)
        return INLAY_OK; /* the usual case: no measurements exist */
    if (fstat(fd, &info) != 0 || !is_ours(&info, max_bytes)) {
        cost_say(log, INLAY_LOG_WARNING, "costs: %.300s is ignored: it must be a file that only this user can write",
                 path);
        goto done;
    }
    data = malloc((size_t)info.st_size + 1);
    if (data == NULL) {
        status = INLAY_OUT_OF_MEMORY;
        goto done;
    }
    while (got < (size_t)info.st_size) {
        ssize_t got_now = read(fd, data + got, (size_t)info.st_size - got);

        if (got_now < 0 && errno == EINTR)
            continue;
        if (got_now <= 0)
            break;
        got += (size_t)got_now;
    }
    data[got] = '\0';
    *out_data = data;
    *out_bytes = got;
done:
    (void)close(fd);
    return status;
}
