/* Files and folders: open(), stat() and their relatives, by CreateFile() and the C runtime's descriptors. */
#include "error.h"
#include <direct.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <windows.h>

int fail_as_errno(void)
{
    static const struct {
        DWORD error;
        int number;
    } rows[] = {
        { ERROR_FILE_NOT_FOUND, ENOENT },   { ERROR_PATH_NOT_FOUND, ENOENT },
        { ERROR_INVALID_NAME, ENOENT },     { ERROR_BAD_NETPATH, ENOENT },
        { ERROR_ACCESS_DENIED, EACCES },    { ERROR_SHARING_VIOLATION, EACCES },
        { ERROR_LOCK_VIOLATION, EAGAIN },   { ERROR_ALREADY_EXISTS, EEXIST },
        { ERROR_FILE_EXISTS, EEXIST },      { ERROR_NOT_ENOUGH_MEMORY, ENOMEM },
        { ERROR_OUTOFMEMORY, ENOMEM },      { ERROR_COMMITMENT_LIMIT, ENOMEM },
        { ERROR_DISK_FULL, ENOSPC },        { ERROR_INVALID_HANDLE, EBADF },
        { ERROR_DIRECTORY, ENOTDIR },       { ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG },
        { ERROR_DIR_NOT_EMPTY, ENOTEMPTY },
    };
    const DWORD error = GetLastError();

    errno = EINVAL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].error == error)
            errno = rows[i].number;
    return -1;
}

/* Binary data, also in standard streams. */
static __attribute__((constructor)) void use_binary_mode(void)
{
    _fmode = _O_BINARY;
    for (int fd = 0; fd <= 2; fd++)
        (void)_setmode(fd, _O_BINARY);
}

static int open_folder(const char *path)
{
    const HANDLE handle = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);

    if (handle == INVALID_HANDLE_VALUE)
        return fail_as_errno();
    return _open_osfhandle((intptr_t)handle, _O_RDONLY | _O_NOINHERIT);
}

int platform_open(const char *path, int flags, ...)
{
    int mode = 0;

    if ((flags & O_DIRECTORY) != 0)
        return open_folder(path);
    if (strcmp(path, "/dev/stdin") == 0)
        return _dup(STDIN_FILENO);
    if (strcmp(path, "/dev/null") == 0)
        path = "NUL";
    if ((flags & O_CREAT) != 0) {
        va_list more;

        va_start(more, flags);
        mode = va_arg(more, int);
        va_end(more);
    }
    return _open(path, flags | _O_BINARY, mode & 0600);
}

/* The path of a name in an open folder. */
static bool path_in(int folder, const char *name, char path[PATH_MAX])
{
    const HANDLE handle = folder != AT_FDCWD ? (HANDLE)_get_osfhandle(folder) : NULL;
    char place[PATH_MAX];
    DWORD bytes;

    if (folder == AT_FDCWD || name[0] == '/' || (name[0] != '\0' && name[1] == ':')) {
        place[0] = '\0';
    } else {
        bytes = GetFinalPathNameByHandleA(handle, place, sizeof place - 1, 0);
        if (bytes == 0 || bytes >= sizeof place - 1) {
            (void)fail_as_errno();
            return false;
        }
        place[bytes] = '\\';
        place[bytes + 1] = '\0';
    }
    if (strlen(place) + strlen(name) < PATH_MAX) {
        (void)strcat(strcpy(path, place), name);
        for (char *at = path; place[0] != '\0' && *at != '\0'; at++) /* \\?\ paths know only the backslash */
            if (*at == '/')
                *at = '\\';
        return true;
    }
    errno = ENAMETOOLONG;
    return false;
}

int openat(int folder, const char *path, int flags, ...)
{
    char full[PATH_MAX];

    if (!path_in(folder, path, full))
        return -1;
    return platform_open(full, flags & ~O_CREAT);
}

static struct timespec timespec_of(FILETIME time)
{
    const int64_t from_1601 = INT64_C(11644473600);
    const uint64_t ticks = (uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime; /* of 100 ns */

    return (struct timespec){ .tv_sec = (int64_t)(ticks / 10000000) - from_1601,
                              .tv_nsec = (long)(ticks % 10000000 * 100) };
}

static int stat_handle(HANDLE handle, struct platform_stat *out)
{
    BY_HANDLE_FILE_INFORMATION info;
    const DWORD type = GetFileType(handle);
    bool is_folder;

    *out = (struct platform_stat){ .st_mode = type == FILE_TYPE_PIPE ? S_IFIFO | 0600 : S_IFCHR | 0600, .st_nlink = 1 };
    if (type != FILE_TYPE_DISK)
        return 0;
    if (!GetFileInformationByHandle(handle, &info))
        return fail_as_errno();
    is_folder = (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    out->st_dev = info.dwVolumeSerialNumber;
    out->st_ino = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
    out->st_mode = is_folder ? S_IFDIR | 0755 : S_IFREG | 0755;
    if ((info.dwFileAttributes & FILE_ATTRIBUTE_READONLY) != 0)
        out->st_mode &= ~0222u;
    out->st_nlink = info.nNumberOfLinks;
    out->st_size = is_folder ? 0 : (int64_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow);
    out->st_atim = timespec_of(info.ftLastAccessTime);
    out->st_mtim = out->st_ctim = timespec_of(info.ftLastWriteTime);
    return 0;
}

int platform_stat(const char *path, struct platform_stat *out)
{
    const HANDLE handle = CreateFileA(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    int result;

    if (handle == INVALID_HANDLE_VALUE)
        return fail_as_errno();
    result = stat_handle(handle, out);
    (void)CloseHandle(handle);
    return result;
}

int platform_lstat(const char *path, struct platform_stat *out)
{
    return platform_stat(path, out);
}

int platform_fstat(int fd, struct platform_stat *out)
{
    const HANDLE handle = (HANDLE)_get_osfhandle(fd);

    return handle == INVALID_HANDLE_VALUE ? -1 : stat_handle(handle, out);
}

int platform_fstatat(int folder, const char *path, struct platform_stat *out, int flags)
{
    char full[PATH_MAX];

    (void)flags;
    return path_in(folder, path, full) ? platform_stat(full, out) : -1;
}

int platform_access(const char *path, int mode)
{
    return _access(path, mode & ~1); /* the C runtime does not know X_OK */
}

int faccessat(int folder, const char *path, int mode, int flags)
{
    char full[PATH_MAX];

    (void)flags;
    return path_in(folder, path, full) ? platform_access(full, mode) : -1;
}

int unlinkat(int folder, const char *path, int flags)
{
    char full[PATH_MAX];

    (void)flags;
    return path_in(folder, path, full) ? unlink(full) : -1;
}

int platform_mkdir(const char *path, unsigned mode)
{
    (void)mode;
    return _mkdir(path);
}

int futimens(int fd, const struct timespec times[2])
{
    const HANDLE handle = (HANDLE)_get_osfhandle(fd);
    FILETIME now;

    if (times != NULL) {
        errno = EINVAL;
        return -1;
    }
    GetSystemTimeAsFileTime(&now);
    return SetFileTime(handle, NULL, &now, &now) ? 0 : fail_as_errno();
}

int platform_rename(const char *from, const char *to)
{
    return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) ? 0 : fail_as_errno();
}

FILE *platform_fopen(const char *path, const char *mode)
{
    char plain[8];
    size_t bytes = 0;
    bool is_new = false;

    for (const char *letter = mode; *letter != '\0' && bytes + 2 < sizeof plain; letter++) {
        is_new |= *letter == 'x';
        if (*letter != 'e' && *letter != 'x' && *letter != 'b')
            plain[bytes++] = *letter;
    }
    plain[bytes++] = 'b';
    plain[bytes] = '\0';
    if (is_new) {
        const int fd = _open(path, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, 0600);

        return fd >= 0 ? fdopen(fd, plain) : NULL;
    }
    return (fopen)(path, plain);
}

char *realpath(const char *path, char *real)
{
    char *out = real != NULL ? real : malloc(PATH_MAX);
    const DWORD bytes = out != NULL ? GetFullPathNameA(path, PATH_MAX, out, NULL) : 0;
    struct platform_stat st;

    if (out == NULL)
        return NULL;
    if (bytes > 0 && bytes < PATH_MAX && platform_stat(out, &st) == 0) {
        for (char *at = out; *at != '\0'; at++)
            if (*at == '\\')
                *at = '/';
        while (strlen(out) > 3 && out[strlen(out) - 1] == '/')
            out[strlen(out) - 1] = '\0';
        return out;
    }
    if (bytes == 0)
        (void)fail_as_errno();
    else if (bytes >= PATH_MAX)
        errno = ENAMETOOLONG;
    if (real == NULL)
        free(out);
    return NULL;
}

ssize_t readlink(const char *path, char *out, size_t bytes)
{
    (void)path, (void)out, (void)bytes;
    errno = EINVAL;
    return -1;
}

static OVERLAPPED overlapped_at(off_t at)
{
    return (OVERLAPPED){ .Offset = (DWORD)((uint64_t)at & UINT32_MAX), .OffsetHigh = (DWORD)((uint64_t)at >> 32) };
}

ssize_t pread(int fd, void *data, size_t bytes, off_t at)
{
    OVERLAPPED place = overlapped_at(at);
    DWORD got = 0;

    if (!ReadFile((HANDLE)_get_osfhandle(fd), data, bytes < INT_MAX ? (DWORD)bytes : INT_MAX, &got, &place) &&
        GetLastError() != ERROR_HANDLE_EOF)
        return fail_as_errno();
    return got;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    OVERLAPPED place = overlapped_at(at);
    DWORD written = 0;

    if (!WriteFile((HANDLE)_get_osfhandle(fd), data, bytes < INT_MAX ? (DWORD)bytes : INT_MAX, &written, &place))
        return fail_as_errno();
    return written;
}

int fsync(int fd)
{
    return _commit(fd);
}

int posix_fallocate(int fd, off_t at, off_t bytes)
{
    return _filelengthi64(fd) >= at + bytes || _chsize_s(fd, at + bytes) == 0 ? 0 : errno;
}

int fcntl(int fd, int command, ...)
{
    if (command == F_DUPFD_CLOEXEC)
        return _dup(fd);
    return _get_osfhandle(fd) != -1 ? 0 : -1;
}

int flock(int fd, int operation)
{
    const HANDLE handle = (HANDLE)_get_osfhandle(fd);
    const DWORD flags = ((operation & LOCK_EX) != 0 ? LOCKFILE_EXCLUSIVE_LOCK : 0) |
                        ((operation & LOCK_NB) != 0 ? LOCKFILE_FAIL_IMMEDIATELY : 0);
    OVERLAPPED place = { .OffsetHigh = INT_MAX }; /* behind the data, which stays readable */

    if ((operation & LOCK_UN) != 0)
        return UnlockFileEx(handle, 0, 1, 0, &place) ? 0 : fail_as_errno();
    return LockFileEx(handle, flags, 0, 1, 0, &place) ? 0 : fail_as_errno();
}

/* Replaces the X at the end of a path by letters of a number that rises in each call. */
static void fill_name(char *path)
{
    static LONG serial;
    uint64_t number = (uint64_t)GetCurrentProcessId() << 20 ^ GetTickCount64() ^
                      (uint64_t)(uint32_t)InterlockedIncrement(&serial) << 8;

    for (char *at = path + strlen(path); at > path && at[-1] == 'X'; at--) {
        at[-1] = (char)('a' + number % 26);
        number /= 26;
    }
}

enum { NAME_TRIES = 64 };

char *mkdtemp(char *path)
{
    char *name = strdup(path);
    bool made = false;

    for (int i = 0; name != NULL && i < NAME_TRIES && !made; i++) {
        (void)strcpy(name, path);
        fill_name(name);
        made = _mkdir(name) == 0;
        if (!made && errno != EEXIST)
            break;
    }
    if (made)
        (void)strcpy(path, name);
    free(name);
    return made ? path : NULL;
}

int memfd_create(const char *name, unsigned flags)
{
    char folder[MAX_PATH + 1], path[PATH_MAX];
    const DWORD bytes = GetTempPathA(sizeof folder, folder);
    int fd = -1;

    (void)flags;
    if (bytes == 0 || bytes >= sizeof folder)
        return fail_as_errno();
    for (int i = 0; i < NAME_TRIES && fd < 0; i++) {
        (void)snprintf(path, sizeof path, "%sinlay-%s-XXXXXXXXXX", folder, name);
        fill_name(path);
        fd = _open(path, _O_RDWR | _O_CREAT | _O_EXCL | _O_TEMPORARY | _O_BINARY | _O_NOINHERIT, 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

int mkostemp(char *path, int flags)
{
    char *name = strdup(path);
    int fd = -1;

    (void)flags;
    for (int i = 0; name != NULL && i < NAME_TRIES && fd < 0; i++) {
        (void)strcpy(name, path);
        fill_name(name);
        fd = _open(name, _O_RDWR | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd >= 0)
        (void)strcpy(path, name);
    free(name);
    return fd;
}

int alphasort(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int versionsort(const struct dirent **a, const struct dirent **b)
{
    const char *x = (*a)->d_name, *y = (*b)->d_name;

    while (*x != '\0' && *y != '\0') {
        const size_t digits_x = strspn(x, "0123456789"), digits_y = strspn(y, "0123456789");

        if (digits_x > 0 && digits_y > 0) {
            const unsigned long long number_x = strtoull(x, NULL, 10), number_y = strtoull(y, NULL, 10);

            if (number_x != number_y)
                return number_x < number_y ? -1 : 1;
            x += digits_x;
            y += digits_y;
        } else {
            if (*x != *y)
                break;
            x++;
            y++;
        }
    }
    return (unsigned char)*x - (unsigned char)*y;
}

int scandir(const char *path, struct dirent ***out_list, int (*selects)(const struct dirent *entry),
            int (*compare)(const struct dirent **a, const struct dirent **b))
{
    DIR *folder = opendir(path);
    struct dirent **list = NULL, *entry;
    int count = 0;

    if (folder == NULL)
        return -1;
    while ((entry = readdir(folder)) != NULL) {
        struct dirent **grown;
        struct dirent *copy;

        if (selects != NULL && selects(entry) == 0)
            continue;
        grown = realloc(list, ((size_t)count + 1) * sizeof(struct dirent *));
        copy = malloc(sizeof *copy);
        if (grown != NULL)
            list = grown;
        if (grown == NULL || copy == NULL) {
            free(copy);
            for (int i = 0; i < count; i++)
                free(list[i]);
            free(list);
            (void)closedir(folder);
            errno = ENOMEM;
            return -1;
        }
        *copy = *entry;
        list[count++] = copy;
    }
    (void)closedir(folder);
    if (list == NULL)
        list = malloc(sizeof(struct dirent *));
    if (compare != NULL && count > 0)
        qsort(list, (size_t)count, sizeof(struct dirent *), (int (*)(const void *, const void *))compare);
    *out_list = list;
    return list != NULL ? count : -1;
}
