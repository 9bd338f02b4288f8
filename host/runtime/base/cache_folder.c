#include "base/cache_folder.h"
#include "base/memory.h"
#include "base/output.h"
#include "inlay/check.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char unfinished[] = ".new";
enum { UNFINISHED_SECONDS = 3600 };

int cache_folder_begin(const char *path, char *temporary, size_t temporary_bytes)
{
    static uint32_t serial;
    int length = snprintf(temporary, temporary_bytes, "%s.%ld.%u%s", path, (long)getpid(),
                          __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED), unfinished);

    if (length < 0 || (size_t)length >= temporary_bytes) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

bool cache_folder_end(const char *path, const char *temporary, int fd, bool good)
{
    int error = errno;

    good = close(fd) == 0 && good;
    if (good && rename(temporary, path) == 0)
        return true;
    error = good ? errno : error;
    (void)unlink(temporary);
    errno = error;
    return false;
}

bool cache_folder_write(const char *path, const cache_folder_part *parts, uint32_t part_count)
{
    char temporary[PATH_MAX];
    bool good = true;
    int fd = cache_folder_begin(path, temporary, sizeof temporary);

    if (fd < 0)
        return false;
    for (uint32_t i = 0; good && i < part_count; i++)
        good = output_write(fd, parts[i].data, parts[i].bytes);
    return cache_folder_end(path, temporary, fd, good);
}

void cache_folder_touch(int fd)
{
    (void)futimens(fd, NULL);
}

typedef struct cached_file {
    char *name;
    uint64_t bytes;
    struct timespec used;
} cached_file;

static bool ends_in(const char *name, const char *suffix)
{
    size_t name_bytes = strlen(name), suffix_bytes = strlen(suffix);

    return name_bytes > suffix_bytes && strcmp(name + name_bytes - suffix_bytes, suffix) == 0;
}

/* For qsort: most recently used files first. */
static int compare_last_use(const void *a, const void *b)
{
    const struct timespec first = ((const cached_file *)a)->used, second = ((const cached_file *)b)->used;

    if (first.tv_sec != second.tv_sec)
        return first.tv_sec > second.tv_sec ? -1 : 1;
    return first.tv_nsec != second.tv_nsec ? (first.tv_nsec > second.tv_nsec ? -1 : 1) : 0;
}

/* Lists the files that end in suffix; the caller frees the list. Deletes old temporary files. */
static cached_file *list_files(DIR *dir, const char *suffix, size_t *out_count)
{
    cached_file *list = NULL;
    size_t count = 0;
    const struct dirent *entry;
    time_t now = time(NULL);

    while ((entry = readdir(dir)) != NULL) {
        struct stat st;

        if ((!ends_in(entry->d_name, suffix) && !ends_in(entry->d_name, unfinished)) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        if (ends_in(entry->d_name, unfinished)) {
            if (strstr(entry->d_name, suffix) != NULL && st.st_mtime < now - UNFINISHED_SECONDS)
                (void)unlinkat(dirfd(dir), entry->d_name, 0);
            continue;
        }
        if (!LIST_GROW(list, count))
            break;
        list[count] = (cached_file){ .name = strdup(entry->d_name), .bytes = (uint64_t)st.st_size, .used = st.st_mtim };
        if (list[count].name == NULL)
            break;
        count++;
    }
    *out_count = count;
    return list;
}

void cache_folder_trim(const char *path, const char *suffix, uint64_t max_bytes, uint32_t max_files)
{
    DIR *dir = opendir(path);
    cached_file *list;
    size_t count = 0;
    uint64_t total = 0;

    if (dir == NULL)
        return;
    list = list_files(dir, suffix, &count);
    if (count > 0)
        qsort(list, count, sizeof *list, compare_last_use);
    for (size_t i = 0; i < count; i++) {
        INLAY_CHECK(total <= max_bytes);
        if (list[i].bytes > max_bytes - total || i >= max_files)
            (void)unlinkat(dirfd(dir), list[i].name, 0);
        else
            total += list[i].bytes;
        free(list[i].name);
    }
    free(list);
    (void)closedir(dir);
}
