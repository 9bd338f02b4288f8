/* sys/mman.h: mappings of whole files, and anonymous memory; in memory.c. MAP_FIXED is refused, and so is unmapping a
 * part of a mapping. Advice is ignored, except MADV_DONTNEED, with which pages leave the working set. mlockall() is
 * refused. */
#ifndef WINDOWS_SYS_MMAN_H
#define WINDOWS_SYS_MMAN_H
#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_SHARED 1
#define MAP_PRIVATE 2
#define MAP_FIXED 16
#define MAP_ANONYMOUS 32
#define MAP_NORESERVE 0x4000
#define MAP_FAILED ((void *)-1)
#define MADV_RANDOM 1
#define MADV_WILLNEED 3
#define MADV_DONTNEED 4
#define MS_SYNC 4
#define MFD_CLOEXEC 1
#define MCL_CURRENT 1
#define MCL_FUTURE 2

void *mmap(void *address, size_t bytes, int access, int flags, int fd, off_t at);
int munmap(void *address, size_t bytes);
int mprotect(void *address, size_t bytes, int access);
int msync(void *address, size_t bytes, int flags);
/* A file in the folder of temporary files, which is deleted when it is closed; in files.c. */
int memfd_create(const char *name, unsigned flags);
int madvise(void *address, size_t bytes, int advice);
static inline int mlockall(int flags)
{
    (void)flags;
    errno = ENOSYS;
    return -1;
}
#endif
