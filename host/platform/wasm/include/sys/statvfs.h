/* sys/statvfs.h where no file system has a known size. */
#ifndef WASM_STATVFS_H
#define WASM_STATVFS_H
#include <errno.h>

struct statvfs {
    unsigned long f_bavail, f_frsize;
};

static inline int statvfs(const char *path, struct statvfs *out)
{
    (void)path, (void)out;
    errno = ENOSYS;
    return -1;
}
#endif
