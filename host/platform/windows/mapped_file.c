/* Mapped files, in place of base/mapped_file.c: Windows neither cuts a mapped file short nor raises a signal. A change
 * of the file is noticed by its size and time. */
#include "base/mapped_file.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mapped_file {
    file_id id;
    int fd; /* a copy, for the check */
};

file_id file_id_of(const struct stat *st)
{
    return (file_id){ .device = st->st_dev,
                      .inode = st->st_ino,
                      .bytes = (uint64_t)st->st_size,
                      .modified = { st->st_mtim.tv_sec, st->st_mtim.tv_nsec },
                      .changed = { st->st_ctim.tv_sec, st->st_ctim.tv_nsec } };
}

mapped_file *mapped_file_watch(const void *address, size_t bytes, int fd, const struct stat *st)
{
    mapped_file *file = malloc(sizeof *file);

    (void)address, (void)bytes;
    if (file == NULL)
        return NULL;
    *file = (mapped_file){ file_id_of(st), fcntl(fd, F_DUPFD_CLOEXEC, 0) };
    return file;
}

void mapped_file_forget(mapped_file *file)
{
    if (file == NULL)
        return;
    if (file->fd >= 0)
        (void)close(file->fd);
    free(file);
}

const file_id *mapped_file_id(const mapped_file *file)
{
    return &file->id;
}

inlay_status mapped_file_check(mapped_file *file, inlay_diag *diag)
{
    struct stat st;
    file_id now;

    if (file->fd < 0 || fstat(file->fd, &st) != 0)
        return INLAY_OK;
    now = file_id_of(&st);
    if (now.bytes == file->id.bytes && memcmp(now.modified, file->id.modified, sizeof now.modified) == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_IO_ERROR, "a file of the model was written to while it was in use; load it again");
}

bool mapped_file_repair(int code, const void *address)
{
    (void)code, (void)address;
    return false;
}
