/* sys/stat.h with the struct stat of POSIX; in files.c. Files belong to user 0, and only their owner can write to them:
 * access control lists are not read. */
#ifndef WINDOWS_SYS_STAT_H
#define WINDOWS_SYS_STAT_H
#include_next <sys/stat.h>
#include <stdint.h>
#include <time.h>

typedef unsigned uid_t;
typedef unsigned gid_t;
typedef uint64_t nlink_t;

struct platform_stat {
    uint64_t st_dev, st_ino; /* of the volume, and of the file in it */
    unsigned st_mode;
    nlink_t st_nlink;
    uid_t st_uid;
    gid_t st_gid;
    uint64_t st_rdev;
    int64_t st_size;
    struct timespec st_atim, st_mtim, st_ctim; /* st_ctim: of the last change of the file's data or attributes */
};
#undef st_atime
#undef st_mtime
#undef st_ctime
#define st_atime st_atim.tv_sec
#define st_mtime st_mtim.tv_sec
#define st_ctime st_ctim.tv_sec

int platform_stat(const char *path, struct platform_stat *out);
int platform_fstat(int fd, struct platform_stat *out);
int platform_lstat(const char *path, struct platform_stat *out);
int platform_fstatat(int folder, const char *path, struct platform_stat *out, int flags);
#undef stat
#undef fstat
#define stat platform_stat
#define fstat platform_fstat
#define lstat platform_lstat
#define fstatat platform_fstatat

int platform_mkdir(const char *path, unsigned mode);
#define mkdir(...) platform_mkdir(__VA_ARGS__)
int futimens(int fd, const struct timespec times[2]);

#define S_ISLNK(mode) 0
#define S_ISVTX 01000
#ifndef S_IRWXG
#define S_IRGRP 0040
#define S_IWGRP 0020
#define S_IXGRP 0010
#define S_IROTH 0004
#define S_IWOTH 0002
#define S_IXOTH 0001
#endif
#endif
