/* fcntl.h with flags and functions of POSIX; in files.c. */
#ifndef WINDOWS_FCNTL_H
#define WINDOWS_FCNTL_H
#include_next <fcntl.h>
#include <sys/types.h>

#define O_CLOEXEC _O_NOINHERIT
#define O_DIRECTORY 0x1000000 /* platform_open(): a folder, for openat() and fstat() */
#define O_NONBLOCK 0
#define O_NOFOLLOW 0
#define O_NOCTTY 0

#define AT_FDCWD (-100)
#define AT_SYMLINK_NOFOLLOW 1
#define AT_EACCESS 2
#define F_GETFD 1
#define F_GETFL 3
#define F_DUPFD_CLOEXEC 1030
#define F_SETFL 4

/* open() in binary mode; knows /dev/null and /dev/stdin. */
int platform_open(const char *path, int flags, ...);
#define open(...) platform_open(__VA_ARGS__)
int openat(int folder, const char *path, int flags, ...);
/* F_GETFD: 0 for an open file. F_GETFL: 0. F_DUPFD_CLOEXEC: a copy, whose number may be below the argument. */
int fcntl(int fd, int command, ...);
/* Returns an error number. */
int posix_fallocate(int fd, off_t at, off_t bytes);
#endif
