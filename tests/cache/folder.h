/* folder.h - a temporary folder for a test. */
#ifndef CACHE_FOLDER_H
#define CACHE_FOLDER_H
#include "cmocka_all.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
    char path[64];
};

static inline struct folder folder_make(void)
{
    struct folder folder = { "/tmp/inlay-cache-XXXXXX" };

    assert_non_null(mkdtemp(folder.path));
    return folder;
}

/* Counts the files of dir/below whose names end in suffix, and stores the path of the last one by name. path may be
 * NULL. */
static inline int folder_count(const struct folder *folder, const char *below, const char *suffix, char path[512])
{
    char dir[256], last[256] = "";
    const struct dirent *dirent;
    int count = 0;
    DIR *directory;

    (void)snprintf(dir, sizeof dir, "%s/%s", folder->path, below);
    directory = opendir(dir);
    while (directory != NULL && (dirent = readdir(directory)) != NULL) {
        size_t n = strlen(dirent->d_name), s = strlen(suffix);

        if (n <= s || strcmp(dirent->d_name + n - s, suffix) != 0)
            continue;
        count++;
        if (strcmp(dirent->d_name, last) > 0)
            (void)snprintf(last, sizeof last, "%s", dirent->d_name);
    }
    if (directory != NULL)
        (void)closedir(directory);
    if (path != NULL)
        (void)snprintf(path, 512, "%s/%s", dir, last);
    return count;
}

/* Removes the files whose names end in suffix, and returns their number. */
static inline int folder_clear(const struct folder *folder, const char *suffix)
{
    char path[512];
    int count = 0;

    for (; folder_count(folder, "", suffix, path) > 0 && unlink(path) == 0; count++)
        ;
    return count;
}

static inline void folder_remove(const struct folder *folder)
{
    char line[256];

    (void)snprintf(line, sizeof line, "chmod -R u+w %s; rm -r %s", folder->path, folder->path);
    assert_int_equal(system(line), 0);
}

/* Flips one bit of a file; with keep_times, the file keeps its times. */
static inline void folder_flip(const char *path, long at, bool keep_times)
{
    struct stat st;
    unsigned char byte;
    int fd = open(path, O_RDWR);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    at = at < 0 ? (long)st.st_size + at : at;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    if (keep_times)
        assert_int_equal(futimens(fd, (const struct timespec[]){ st.st_atim, st.st_mtim }), 0);
    assert_int_equal(close(fd), 0);
}
#endif
