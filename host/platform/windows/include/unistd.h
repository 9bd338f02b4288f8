/* unistd.h with functions of POSIX; in files.c and system.c. */
#ifndef WINDOWS_UNISTD_H
#define WINDOWS_UNISTD_H
#include_next <unistd.h>
#include <stddef.h>
#include <sys/types.h>

#ifndef STDIN_FILENO
#define STDIN_FILENO 0
#define STDOUT_FILENO 1
#define STDERR_FILENO 2
#endif

enum { _SC_PAGESIZE, _SC_PHYS_PAGES, _SC_LEVEL2_CACHE_SIZE, _SC_NPROCESSORS_ONLN };
/* The unit in which mappings begin is 64 KiB, so that is the size of a page here. -1: not known. */
long sysconf(int name);

ssize_t pread(int fd, void *data, size_t bytes, off_t at);
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at);
int fsync(int fd);
/* There are no links that programs can read: -1 with EINVAL. */
ssize_t readlink(const char *path, char *out, size_t bytes);
/* access(), for which every file that exists is executable. */
int platform_access(const char *path, int mode);
#define access(...) platform_access(__VA_ARGS__)
int faccessat(int folder, const char *path, int mode, int flags);
int unlinkat(int folder, const char *path, int flags);
pid_t gettid(void);

/* The owner of all files, as stat() reports it. */
static inline unsigned geteuid(void)
{
    return 0;
}
static inline unsigned getuid(void)
{
    return 0;
}
static inline unsigned getgid(void)
{
    return 0;
}
#endif
