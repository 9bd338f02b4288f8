/* Data that persists between processes: each file holds a checksum, followed by the data. */
#include "inlay/kit_region.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 1 << 28, CHECKSUM_BYTES = 8, UNFINISHED_SECONDS = 3600 };

/* Continues an FNV-1a checksum. */
static uint64_t add_to_checksum(uint64_t checksum, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        checksum = (checksum ^ data[i]) * 1099511628211u;
    return checksum;
}

/* The checksum at the start of a file: over the identity, which is not in the file, and the data. */
static uint64_t file_checksum(const void *identity, size_t identity_bytes, const void *data, size_t bytes)
{
    return add_to_checksum(add_to_checksum(14695981039346656037u ^ identity_bytes, identity, identity_bytes), data,
                           bytes);
}

static bool join_path(const char *dir, const char *name, char path[PATH_MAX])
{
    return dir != NULL && dir[0] != '\0' && snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX;
}

void *kit_kept_load(const char *dir, const char *name, const void *identity, size_t identity_bytes, size_t *out_bytes)
{
    char path[PATH_MAX];
    FILE *file = join_path(dir, name, path) ? fopen(path, "re") : NULL;
    uint8_t *data = NULL;
    uint64_t checksum = 0;
    long size = -1;
    bool complete = false;

    if (file != NULL && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file) - CHECKSUM_BYTES;
    if (size > 0 && size < MAX_FILE_BYTES && fseek(file, 0, SEEK_SET) == 0 && (data = malloc((size_t)size)) != NULL)
        complete = fread(&checksum, sizeof checksum, 1, file) == 1 &&
                   fread(data, 1, (size_t)size, file) == (size_t)size &&
                   checksum == file_checksum(identity, identity_bytes, data, (size_t)size);
    if (file != NULL)
        (void)fclose(file);
    *out_bytes = complete ? (size_t)size : 0;
    if (complete)
        return data;
    free(data);
    return NULL;
}

/* A write beyond RLIMIT_FSIZE would raise SIGXFSZ. */
static bool within_file_limit(size_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

/* Creates the temporary file; NULL: it exists, because another thread is writing it. Replaces one that is older than an
 * hour: its writer, a process with the same number, has died. */
static FILE *create_temporary(const char *path)
{
    FILE *file = fopen(path, "wxe");
    struct stat found;

    if (file == NULL && errno == EEXIST && lstat(path, &found) == 0 &&
        found.st_mtime < time(NULL) - UNFINISHED_SECONDS && unlink(path) == 0)
        file = fopen(path, "wxe");
    return file;
}

void kit_kept_save(const char *dir, const char *name, const void *identity, size_t identity_bytes, const void *data,
                   size_t bytes)
{
    const uint64_t checksum = file_checksum(identity, identity_bytes, data, bytes);
    char path[PATH_MAX], temporary[PATH_MAX];
    FILE *file = NULL;
    bool complete;

    /* The file is written under a temporary name and then renamed, so that readers see complete files only. */
    if (bytes < MAX_FILE_BYTES && join_path(dir, name, path) &&
        snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid()) < (int)sizeof temporary)
        file = within_file_limit(sizeof checksum + bytes) ? create_temporary(temporary) : NULL;
    if (file == NULL)
        return;
    complete = fwrite(&checksum, sizeof checksum, 1, file) == 1 && fwrite(data, 1, bytes, file) == bytes;
    complete &= fclose(file) == 0;
    if (!complete || rename(temporary, path) != 0)
        (void)unlink(temporary);
}
