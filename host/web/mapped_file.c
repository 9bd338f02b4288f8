/* base/mapped_file.h: files are in memory, and no one else writes to them. */
#include "base/mapped_file.h"

static file_id only_id;

file_id file_id_of(const struct stat *st)
{
    return (file_id){ .bytes = (uint64_t)st->st_size };
}

mapped_file *mapped_file_watch(const void *address, size_t bytes, int fd, const struct stat *st)
{
    (void)address, (void)bytes, (void)fd, (void)st;
    return (mapped_file *)&only_id;
}

void mapped_file_forget(mapped_file *file)
{
    (void)file;
}

const file_id *mapped_file_id(const mapped_file *file)
{
    (void)file;
    return &only_id;
}

inlay_status mapped_file_check(mapped_file *file, inlay_diag *diag)
{
    (void)file, (void)diag;
    return INLAY_OK;
}
