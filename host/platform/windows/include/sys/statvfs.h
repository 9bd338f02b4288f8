/* sys/statvfs.h: the free bytes of a disk; in system.c. */
#ifndef WINDOWS_SYS_STATVFS_H
#define WINDOWS_SYS_STATVFS_H
#include <stdint.h>

struct statvfs {
    uint64_t f_bavail, f_frsize;
};

int statvfs(const char *path, struct statvfs *out);
#endif
